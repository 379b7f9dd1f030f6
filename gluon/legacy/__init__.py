"""The Gluon of MXNet 1.x: names with prefixes, dictionaries of parameters that make them, ``hybrid_forward``."""

from __future__ import annotations

from .blocks import Named, accept_names
from .forward import (
    first_array,
    follow_assigned,
    follow_hybrid_forward,
    hybrid_forward_of_layer,
    operators_for,
    run_hybrid_forward,
    symbols_in,
    takes_operators,
    writes_hybrid_forward,
)
from .loading import matched
from .names import Names
from .parameters import ParameterDict
from .symbols import has_symbols, infer_shapes, run_on_symbols

__all__ = [
    "Named", "Names", "ParameterDict", "accept_names", "first_array", "follow_assigned",
    "follow_hybrid_forward", "has_symbols",
    "hybrid_forward_of_layer", "infer_shapes", "matched", "operators_for", "run_hybrid_forward", "run_on_symbols",
    "symbols_in", "takes_operators", "writes_hybrid_forward",
]  # fmt: skip
