"""Functions of mx.np that may write into the array they are given."""

from __future__ import annotations

from typing import Any

from ..array.classes import ndarray
from ..array.invoke import call
from ..array.ndarray import NDArray
from ..ops.table import TABLE

__all__ = ["fill_diagonal", "nan_to_num"]


def _row(name: str, *args: Any, **kwargs: Any) -> Any:
    return call(TABLE[name], ndarray, args, kwargs)


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Write ``val`` to the diagonal of ``a``, in place.

    Args:
      a: the input.
      val: the number, or numbers.
      wrap: whether the diagonal begins again in tall matrices.
    """
    a[...] = _row("fill_diagonal", a, val, wrap=wrap)


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None, **kwargs: Any
) -> Any:
    """NaN, infinity and minus infinity replaced by numbers, with ``copy=False`` in the array itself.

    Args:
      x: the array.
      copy: whether the result is a new array.
      nan, posinf, neginf: what they become: 0, and the dtype's largest and smallest number if not told otherwise.

    Returns:
      ndarray: of the shape and dtype of `x`.
    """
    made = _row("nan_to_num", x, nan=nan, posinf=posinf, neginf=neginf, **kwargs)
    if copy or not isinstance(x, NDArray):
        return made
    x[...] = made
    return x
