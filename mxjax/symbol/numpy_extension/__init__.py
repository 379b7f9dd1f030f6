"""Operators beyond NumPy's on symbols (`mx.sym.npx`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import explain_names as _explain_names
from ..control_flow import cond, foreach, while_loop
from ..front import fill as _fill
from ..lists import calibrate_entropy as contrib_calibrate_entropy
from ..lists import constraint_check, nonzero
from ..symbol import _Symbol
from . import image, random

__all__ = [
    "cond",
    "constraint_check",
    "contrib_calibrate_entropy",
    "foreach",
    "image",
    "nonzero",
    "random",
    "while_loop",
    *_fill(globals(), "npx", _Symbol),
]

if TYPE_CHECKING:  # what the table makes

    def __getattr__(name: str) -> Callable[..., _Symbol]: ...


_explain_names(__name__)
