"""Functions of mx.sym.np whose arguments need sorting out."""

from __future__ import annotations

from typing import Any

from ... import errors
from ...ops.table import TABLE
from ..compose import compose
from ..symbol import _Symbol


def _row(name: str, hint: str, *args: Any, **kwargs: Any) -> Any:
    return compose(TABLE[name], _Symbol, hint, args, kwargs)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **kwargs: Any) -> Any:
    """An array of one number: int64, float32 or bool as the number is, unless ``dtype`` is given."""
    return _row("full", "full", shape=shape, fill_value=fill_value, dtype=dtype, **kwargs)


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
    axis: int = 0, **kwargs: Any,
) -> Any:  # fmt: skip
    """``num`` evenly spaced numbers."""
    if isinstance(start, (list, tuple)) or isinstance(stop, (list, tuple)) or retstep or axis:
        raise errors.MXNetNotImplementedError(
            "start and stop only support int; retstep and axis are not there for symbols"
        )
    return _row(
        "linspace",
        "linspace",
        start=start,
        stop=stop,
        num=num,
        endpoint=endpoint,
        dtype=dtype,
        **kwargs,
    )


def where(condition: Any, x: Any, y: Any, **kwargs: Any) -> Any:
    """x where the condition holds, y elsewhere."""
    return _row("where", "where", condition, x, y, **kwargs)


def einsum(subscripts: str, *operands: Any, optimize: Any = False, **kwargs: Any) -> Any:
    """Einstein's summation: ``einsum('ij,jk->ik', a, b)``."""
    return _row("einsum", "einsum", *operands, subscripts=subscripts, **kwargs)


def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """Coordinates of flat indices, one result for each axis."""
    return _row("unravel_index", "unravel_index", indices, shape=shape, order=order)
