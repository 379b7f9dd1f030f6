"""`mx.contrib.autograd`: what MXNet had before `mx.autograd`, for code of that time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import autograd, errors, nd
from ..array.ndarray import NDArray
from ..autograd import mark_variables

__all__ = [
    "TrainingStateScope",
    "backward",
    "compute_gradient",
    "grad",
    "grad_and_loss",
    "mark_variables",
    "set_is_training",
    "test_section",
    "train_section",
]


def set_is_training(is_train: bool) -> bool:
    """Switch the tape and the training mode together; gives what the tape was."""
    autograd.set_training(is_train)
    return autograd.set_recording(is_train)


class TrainingStateScope:
    """A scope in which the tape and the training mode are on, or off."""

    def __init__(self, enter_state: bool):
        self._enter_state = enter_state
        self._prev: list[bool] = []

    def __enter__(self) -> None:
        self._prev.append(set_is_training(self._enter_state))

    def __exit__(self, ptype: Any, value: Any, trace: Any) -> None:
        set_is_training(self._prev.pop())


def train_section() -> TrainingStateScope:
    """A scope that records: `mx.autograd.record()` of today."""
    return TrainingStateScope(True)


def test_section() -> TrainingStateScope:
    """A scope inside `train_section` that does not record: `mx.autograd.pause()` of today."""
    return TrainingStateScope(False)


test_section.__test__ = False  # type: ignore[attr-defined]  # pytest takes it for a test by its name


def backward(outputs: Sequence[NDArray], out_grads: Any = None, retain_graph: bool = False) -> None:
    """The gradients of a list of arrays, to the variables they were computed from.

    Raises:
      AssertionError: `outputs` is no list, or `out_grads` has another length.
    """
    if not isinstance(outputs, (list, tuple)):
        raise errors.MXNetAssertionError(
            f"outputs must be a list or tuple of NDArrays, got {type(outputs).__name__}"
        )
    if out_grads is not None and len(out_grads) != len(outputs):
        raise errors.MXNetAssertionError(
            f"outputs and out_grads must have the same length, got {len(outputs)} and {len(out_grads)}"
        )
    autograd.backward(list(outputs), out_grads, retain_graph)


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """`backward` without gradients of the outputs."""
    backward(outputs)


def grad_and_loss(
    func: Callable[..., Any], argnum: int | list[int] | None = None
) -> Callable[..., Any]:
    """A function that gives the gradients of `func`'s arguments, a list, and its value.

    Args:
      func: from arrays to an array, or a list of them.
      argnum: the place of an argument, or places; None for all.

    >>> import mxjax as mx
    >>> grad_and_loss(lambda x: x * x)(mx.nd.array([3.0]))[0][0].asscalar()
    6.0
    """

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        places = (
            range(len(args)) if argnum is None else argnum if isinstance(argnum, list) else [argnum]
        )
        variables = [args[i] for i in places]
        for x in variables:
            if not isinstance(x, NDArray):
                raise errors.MXNetAssertionError(
                    f"type of autograd input should NDArray, got {type(x).__name__}"
                )
        gradients = [nd.zeros(x.shape, dtype=x.dtype) for x in variables]
        mark_variables(variables, gradients)
        with train_section():
            outputs = func(*args)
        compute_gradient([outputs] if isinstance(outputs, NDArray) else outputs)
        return gradients, outputs

    return wrapped


def grad(func: Callable[..., Any], argnum: int | list[int] | None = None) -> Callable[..., Any]:
    """A function that gives the gradients of `func`'s arguments, a list."""
    both = grad_and_loss(func, argnum)

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        return both(*args)[0]

    return wrapped
