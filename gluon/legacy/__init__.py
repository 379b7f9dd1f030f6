"""The Gluon of MXNet 1.x: names with prefixes, dictionaries of parameters that make them, ``hybrid_forward``."""

from __future__ import annotations

from .blocks import Named, accept_names
from .forward import run_hybrid_forward, writes_hybrid_forward
from .loading import matched
from .names import Names
from .parameters import ParameterDict

__all__ = [
    "Named", "Names", "ParameterDict", "accept_names", "matched", "run_hybrid_forward", "writes_hybrid_forward",
]  # fmt: skip
