"""Random numbers as `mx.np.random` has them."""

from __future__ import annotations

from typing import Any

import numpy as _np

from .. import errors
from ..array.classes import ndarray
from ..array.creation import array
from ..array.frontend import fill
from ..array.invoke import call
from ..array.ndarray import NDArray
from ..errors import explain_names as _explain_names
from ..ops.table import TABLE
from ..random import seed

__all__ = [
    "choice",
    "multinomial",
    "permutation",
    "rand",
    "randn",
    "seed",
    "shuffle",
    *fill(globals(), "np.random", ndarray),
]


def _row(name: str, *args: Any, **kwargs: Any) -> Any:
    return call(TABLE[name], ndarray, args, kwargs)


def rand(*size: int, **kwargs: Any) -> ndarray:
    """Uniform numbers from 0 to 1 of a shape given number by number.

    Returns:
      ndarray: of this shape, from 0 to below 1.
    """
    return _row("uniform", 0.0, 1.0, size=size or None, **kwargs)


def randn(*size: int, **kwargs: Any) -> ndarray:
    """Standard normal numbers of a shape given number by number.

    Returns:
      ndarray, NDArray or Symbol: of this shape, float32 by default.
    """
    return _row("normal", 0.0, 1.0, size=size or None, **kwargs)


def _numbers(a: Any) -> Any:
    """What is drawn from: an array, or the integers below a number."""
    if isinstance(a, NDArray):
        return a
    if isinstance(a, (int, _np.integer)):
        return array(_np.arange(a), dtype="int64")
    return array(a)


def choice(
    a: Any,
    size: Any = None,
    replace: bool = True,
    p: Any = None,
    device: Any = None,
    out: Any = None,
    ctx: Any = None,
) -> ndarray:
    """Elements drawn from a vector, or integers drawn from those below ``a``, with probabilities ``p``.

    Args:
      a: the elements, or their number.
      size: the shape of the result; one draw without.
      replace: whether an element may be drawn again.
      p: the probability of each element; all alike without.
      device: where the result lies; the current device if it is left out.
      out: an array that the result is written into, and that is given back.
      ctx: MXNet 1's name of `device`.

    Returns:
      ndarray: of the shape `size`, of the dtype of `a`.
    """
    if (
        p is None and replace and type(a) is int and a > 0
    ):  # the same draws, without a program for each ``a``
        return _row(
            "randint", low=0, high=a, size=size, dtype="int64", device=device or ctx, out=out
        )
    p = p if p is None or isinstance(p, NDArray) else array(p)
    return _row(
        "random_choice", _numbers(a), p, size=size, replace=replace, device=device or ctx, out=out
    )


def permutation(x: Any) -> ndarray:
    """The rows of ``x`` (or the integers below it) in random order.

    Args:
      x: the array, or (permutation) how many numbers.

    Returns:
      ndarray: the elements in random order along axis 0.
    """
    return _row("random_permutation", _numbers(x))


def shuffle(x: ndarray) -> None:
    """Bring the rows of ``x`` into random order, in place.

    Args:
      x: the array, or (permutation) how many numbers.
    """
    if not isinstance(x, NDArray):
        raise errors.MXNetTypeError(
            f"shuffle changes an array of mx.np in place, got {type(x).__name__}: use permutation, which gives one"
        )
    x[...] = _row("random_permutation", x)


def multinomial(n: int, pvals: Any, size: Any = None, **kwargs: Any) -> ndarray:
    """How often each outcome comes in ``n`` trials with probabilities ``pvals``, int64.

    Args:
      n: the number of trials.
      pvals: the probabilities, which add up to 1.
      size: the shape of the result; one draw without.

    Returns:
      ndarray, NDArray or Symbol: the counts, or the outcomes, in the last axes.
    """
    pvals = pvals if isinstance(pvals, NDArray) else array(pvals)
    if not pvals.size:
        shape = () if size is None else (size,) if isinstance(size, int) else tuple(size)
        return array(_np.zeros((*shape, 0)), dtype="int64")
    return _row("random_multinomial", pvals, n=n, size=size, **kwargs)


_explain_names(__name__)
