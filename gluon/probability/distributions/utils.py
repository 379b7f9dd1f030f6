"""What distributions share: shapes, conversions, functions of numbers and of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import update_wrapper
from numbers import Number
from typing import Any

import numpy as onp

from mxjax import errors, np, npx

__all__ = [
    "cached_property", "constraint_check", "digamma", "erf", "erfinv", "gammaln", "logit2prob", "prob2logit",
    "sample_n_shape_converter",
]  # fmt: skip

_EPSILON = float(onp.finfo("float32").eps)


def constraint_check() -> Callable[[Any, str], Any]:
    """A function of a condition and a message: one, or ValueError where the condition does not hold.

    Returns:
      ndarray: True, without an axis.
    """

    def check(condition: Any, message: str) -> Any:
        if isinstance(condition, (bool, onp.bool_)):
            if not condition:
                raise errors.MXNetValueError(message)
            return 1.0
        return npx.constraint_check(condition, message)

    return check


def _of_both(fn: Callable[[Any], Any], what: str) -> Callable[[], Callable[[Any], Any]]:
    """For numbers as well as for arrays."""

    def compute(value: Any) -> Any:
        return fn(np.array(float(value))) if isinstance(value, Number) else fn(value)  # type: ignore[arg-type]

    def made() -> Callable[[Any], Any]:
        return compute

    made.__doc__ = (
        f"{what}, of numbers and of arrays.\n\nReturns:\n  function: of a number, or of an array."
    )
    return made


digamma = _of_both(npx.digamma, "The derivative of the logarithm of the gamma function")
erf = _of_both(npx.erf, "The error function")
erfinv = _of_both(npx.erfinv, "The inverse of the error function")


def gammaln() -> Callable[[Any], Any]:
    """The logarithm of the gamma function, of numbers and of arrays.

    Returns:
      a number, or an array of the input's shape.
    """
    return lambda value: math.lgamma(value) if isinstance(value, Number) else npx.gammaln(value)  # type: ignore[arg-type]


def sample_n_shape_converter(size: Any) -> Any:
    """``size`` of ``sample_n`` with -2 in front, which stands for the shape of the parameters.

    Args:
      size: a number, or a tuple of numbers.

    Returns:
      tuple of int, or None: the shape.
    """
    if size is None or size == ():
        return None
    return (-2, *tuple_of(size))


def tuple_of(size: Any) -> tuple[int, ...]:
    """A shape as a tuple: None is (), a number one axis."""
    if size is None:
        return ()
    return (int(size),) if isinstance(size, (int, onp.integer)) else tuple(size)


def shape_of(x: Any) -> tuple[int, ...]:
    """() for numbers."""
    return tuple(getattr(x, "shape", ()))


def spread(x: Any, batch_shape: Any, trailing: int = 0) -> Any:
    """``x`` broadcast to a shape in which -2 keeps a length, before so many last axes that stay."""
    own = shape_of(x)
    batch = own[: len(own) - trailing]
    wanted = tuple_of(batch_shape)
    # From the right: what -2 stands for, is the length there is.
    filled = [
        (batch[k - len(wanted)] if len(batch) >= len(wanted) - k else 1) if n == -2 else n
        for k, n in enumerate(wanted)
    ]
    array = np.array(x) if isinstance(x, Number) else x
    return np.broadcast_to(array, (*filled, *own[len(own) - trailing :]))


def sum_right_most(x: Any, ndim: int) -> Any:
    """The sum over so many last axes."""
    return x if ndim == 0 else x.sum(tuple(range(-ndim, 0)))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def one_of(prob: Any, logit: Any) -> None:
    """Raise ValueError unless one of the two is given."""
    if (prob is None) == (logit is None):
        raise errors.MXNetValueError(
            f"Either `prob` or `logit` must be specified, but not both. Received prob={prob}, logit={logit}"
        )


def _clip_prob(prob: Any) -> Any:
    return np.clip(prob, _EPSILON, 1 - _EPSILON)


def _clip_float_eps(value: Any) -> Any:
    return np.maximum(value, _EPSILON)


def prob2logit(prob: Any, binary: bool = True) -> Any:
    """log(p / (1 - p)), or log(p) of more than two events.

    Args:
      prob: the probability, instead of `logit`.
      binary: whether there are two classes.

    Returns:
      a number, or an array of the input's shape.
    """
    clipped = _clip_prob(prob)
    return np.log(clipped) - np.log1p(-clipped) if binary else np.log(clipped)


def logit2prob(logit: Any, binary: bool = True) -> Any:
    """The sigmoid, or the softmax of more than two events.

    Args:
      logit: the logarithm of the odds, instead of `prob`.
      binary: whether there are two classes.

    Returns:
      a number, or an array of the input's shape.
    """
    if isinstance(logit, Number):
        logit = np.array(float(logit))  # type: ignore[arg-type]
    return npx.sigmoid(logit) if binary else npx.softmax(logit)


class cached_property:  # noqa: N801
    """An attribute that is computed when it is first asked for.

    Args:
      func: the function.
    """

    def __init__(self, func: Callable[[Any], Any]):
        self._func = func
        update_wrapper(self, func)  # type: ignore[arg-type]

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self._func.__name__] = self._func(instance)
        return value


class Odds:
    """For distributions that are given by ``prob`` or by ``logit``: the other one."""

    _binary = True

    def _take_odds(self, prob: Any, logit: Any) -> None:
        one_of(prob, logit)
        if prob is not None:
            self.prob = prob
        else:
            self.logit = logit

    @cached_property
    def prob(self) -> Any:
        """The probabilities."""
        return logit2prob(self.logit, self._binary)

    @cached_property
    def logit(self) -> Any:
        """The logits."""
        return prob2logit(self.prob, self._binary)


def whole(num_events: Any) -> int:
    """The number of events; ValueError unless it is positive."""
    if not num_events > 0:
        raise errors.MXNetValueError(
            f"`num_events` should be greater than zero. Received num_events={num_events}"
        )
    return int(num_events)


Size = int | Sequence[int] | None
