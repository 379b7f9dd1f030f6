"""Operators of `mx.nd.contrib`."""

from __future__ import annotations

from typing import Any

import numpy as _np

from ..array.classes import NDArray
from ..array.frontend import fill
from ..errors import explain_names as _explain_names
from ..npx.control_flow import cond, foreach, while_loop
from . import take as _take


def boolean_mask(data: Any, index: Any, axis: int = 0, **kwargs: Any) -> NDArray:
    """The rows whose number in ``index`` is not zero."""
    from ..array.creation import nd_array

    rows = _np.flatnonzero(index.asnumpy())
    return _take(data, nd_array(rows, dtype="int64"), axis=axis, mode="clip")


__all__ = ["boolean_mask", "cond", "foreach", "while_loop", *fill(globals(), "nd.contrib", NDArray)]

_explain_names(__name__)
