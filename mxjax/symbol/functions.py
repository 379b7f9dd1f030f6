"""Functions of mx.sym that are more than a row: numbers and symbols in any place, MXNet's own defaults."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import errors
from ..ops.table import TABLE
from .compose import compose
from .symbol import Symbol

__all__ = [
    "arange", "eye", "full", "hypot", "linspace", "maximum", "minimum", "ones", "pow", "power", "zeros",
]  # fmt: skip


def _made(row: str, hint: str, *args: Any, **kwargs: Any) -> Any:
    return compose(TABLE[row], Symbol, hint, args, kwargs)


def _of_two(row: str, hint: str, numbers: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    if not isinstance(one, Symbol) and not isinstance(other, Symbol):
        if all(isinstance(x, (int, float)) for x in (one, other)):
            return numbers(one, other)
        raise errors.MXNetTypeError(f"types ({type(one)}, {type(other)}) not supported")
    return _made(row, hint, one, other)


def pow(base: Any, exp: Any) -> Any:  # noqa: A001  (MXNet's name)
    """``base ** exp`` of symbols and numbers.

    Args:
      base: the base.
      exp: the exponent.

    Returns:
      Symbol, or a number of two numbers.
    """
    return _of_two("power@nd", "_power", lambda a, b: a**b, base, exp)


power = pow


def maximum(left: Any, right: Any) -> Any:
    """The greater of two, element by element, of symbols and numbers.

    Args:
      left: the left operand.
      right: the right operand.

    Returns:
      Symbol, or a number of two numbers.
    """
    return _of_two("maximum@nd", "_maximum", lambda a, b: a if a > b else b, left, right)


def minimum(left: Any, right: Any) -> Any:
    """The smaller of two, element by element, of symbols and numbers.

    Args:
      left: the left operand.
      right: the right operand.

    Returns:
      Symbol, or a number of two numbers.
    """
    return _of_two("minimum@nd", "_minimum", lambda a, b: a if a < b else b, left, right)


def hypot(left: Any, right: Any) -> Any:
    """``sqrt(left**2 + right**2)`` of symbols and numbers.

    Args:
      left: the left operand.
      right: the right operand.

    Returns:
      Symbol, or a number of two numbers.
    """
    return _of_two("hypot@nd", "_hypot", math.hypot, left, right)


def zeros(shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """Zeros, float32 unless ``dtype`` is given; a length 0 is inferred from what the symbol meets.

    Args:
      shape: the shape of the result.
      dtype: the dtype of the result.

    Returns:
      BaseSparseNDArray, NDArray or Symbol: of this shape.
    """
    return _made("zeros@nd", "_zeros", shape=shape, dtype=dtype or "float32", **kwargs)


def ones(shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """Ones, float32 unless ``dtype`` is given.

    Args:
      shape: the shape of the result.
      dtype: the dtype of the result.

    Returns:
      Symbol: of this shape, float32 by default.
    """
    return _made("ones@nd", "_ones", shape=shape, dtype=dtype or "float32", **kwargs)


def full(shape: Any, val: float, dtype: Any = None, **kwargs: Any) -> Any:
    """One number, float32 unless ``dtype`` is given.

    Args:
      shape: the shape of the result.
      val: the number.
      dtype: the dtype of the result.

    Returns:
      ndarray or Symbol: of this shape, in `dtype` or that of the number.
    """
    return _made(
        "full@nd", "_full", shape=shape, val=float(val), dtype=dtype or "float32", **kwargs
    )


def eye(N: int, M: int = 0, k: int = 0, dtype: Any = None, **kwargs: Any) -> Any:  # noqa: N803  (MXNet's name)
    """Ones on a diagonal.

    Args:
      N: the number of rows.
      M: the number of columns.
      k: which diagonal: 0 the main one, positive above it.
      dtype: the dtype of the result.

    Returns:
      Symbol: of this shape, float32 by default.
    """
    return _made("eye@nd", "_eye", N=N, M=M, k=k, dtype=dtype or "float32", **kwargs)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    name: str | None = None,
    dtype: Any = None,
) -> Any:
    """Evenly spaced numbers, each ``repeat`` times.

    Args:
      start: the first number.
      stop: the end, which is not among the numbers (linspace: the last number).
      step: the distance of one number to the next.
      repeat: how often each number comes.
      infer_range: taken for compatibility.
      name: the name, which texts and files have; one is made if it is left out.
      dtype: the dtype of the result.

    Returns:
      Symbol: of this shape, float32 by default.
    """
    return _made(
        "arange@nd", "_arange", start=start, stop=stop, step=step, repeat=repeat, infer_range=infer_range, name=name,
        dtype=dtype or "float32",
    )  # fmt: skip


def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    name: str | None = None,
    dtype: Any = None,
) -> Any:
    """``num`` evenly spaced numbers.

    Args:
      start: the first number.
      stop: the end, which is not among the numbers (linspace: the last number).
      num: how many numbers.
      endpoint: whether the last number is `stop`.
      name: the name, which texts and files have; one is made if it is left out.
      dtype: the dtype of the result.

    Returns:
      ndarray or Symbol: `num` numbers; with `retstep` a pair with their distance.
    """
    return _made(
        "linspace",
        "_linspace",
        start=start,
        stop=stop,
        num=num,
        endpoint=endpoint,
        name=name,
        dtype=dtype or "float32",
    )
