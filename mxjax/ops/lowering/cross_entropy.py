"""The cross entropy of class numbers: an element picked of `log_softmax`, and its gradient, each as one function.

The picked logarithm's gradient is that of one element minus the softmax. Operator by operator it goes three times over
an array of all classes that is nothing but zeros and one number a row: a training step of a language model (700 words of
5,000 classes) takes 40 MB of temporaries for 53. The rows of the table and what is recorded, exported or
differentiated again stay as they are: a rewriter of programs puts these functions in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...core.calls.segment import SCALAR, Step
from ...core.compile import compiler
from ...core.compile.cpu_product import materialize
from ...core.hooks import operator_wrappers, program_rewriters
from ..indexing import fit_index, pick
from .softmax import largest
from .spellings import Found, name_of

#: Exponentials are written where a row and all of them are so many numbers at least.
_ROW, _LEAST = 128, 1 << 16


def rewrite(steps: Sequence[Step]) -> dict[Step, Found]:
    """The steps of a program that get a function for the whole of what they end, with its operands."""
    found: dict[Step, Found] = {}
    makers: dict[int, Step] = {}
    if operator_wrappers:  # they look at each operator
        return found
    for step in steps:
        if len(step.avals) == 1:
            makers[step.first] = step
        name = name_of(step)
        match = (
            _forward(makers, step)
            if name == "pick"
            else _backward(makers, step)
            if name == "_backward_log_softmax"
            else None
        )
        if match is not None:
            found[step] = match
    return found


def _plain(step: Step | None, name: str, operands: int) -> dict[str, Any] | None:
    """The attributes of a call of the row of this name on arrays alone."""
    if (
        step is None
        or step.call is None
        or name_of(step) != name
        or len(step.avals) != 1
        or len(step.args) != operands
    ):
        return None
    call = step.call.forward or step.call
    if call.constants or call.varying or any(i >= SCALAR for i in step.args):
        return None
    return dict(call.attrs)


def _axes(
    softmax: dict[str, Any] | None, pick: dict[str, Any] | None, ndim: int
) -> dict[str, Any] | None:
    """The attributes of the whole, where both look along one axis and nothing is asked of the softmax besides."""
    if (
        softmax is None
        or pick is None
        or any(softmax.get(k) for k in ("temperature", "dtype", "use_length"))
    ):
        return None
    one, other = softmax.get("axis", -1), pick.get("axis", -1)
    if not ndim or type(one) is not int or type(other) is not int or one % ndim != other % ndim:
        return None
    return {
        "axis": one % ndim,
        "mode": pick.get("mode", "clip"),
        "keepdims": bool(pick.get("keepdims", False)),
    }


def _forward(makers: dict[int, Step], pick: Step) -> Found | None:
    inner = makers.get(pick.args[0])
    attrs = _plain(pick, "pick", 2)
    whole = inner and _axes(_plain(inner, "log_softmax", 1), attrs, len(inner.avals[0].shape))
    if not inner or not whole:
        return None
    return Found(partial(picked, **whole), (inner.args[0], pick.args[1]))


def _backward(makers: dict[int, Step], step: Step) -> Found | None:
    softmax = _plain(step, "_backward_log_softmax", 2)
    given = makers.get(step.args[1]) if softmax is not None else None
    attrs = _plain(given, "_backward_pick", 3)
    inner = makers.get(given.args[0]) if given and attrs is not None else None
    # The gradient is that of the same call of log_softmax, and of the scores alone.
    if given is None or inner is None or inner.args != step.args[:1]:
        return None
    if inner.call is not step.call.forward:  # type: ignore[union-attr]
        return None
    whole = _axes(softmax, attrs, len(inner.avals[0].shape))
    if whole is None:
        return None
    return Found(partial(_gradients, **whole), (step.args[0], *given.args[1:]))


def _exponentials(x: Any, axis: int) -> tuple[Any, Any, Any]:
    """The largest score of each row, the exponentials of how far all are below it, and their sum."""
    top = largest(x, axis)
    e = jnp.exp(x - top)
    if _is_written(x, axis):
        e = materialize(e)
    return top, e, e.sum(axis, keepdims=True)


def _is_written(x: Any, axis: int) -> bool:
    """Whether loss and gradient share the exponentials in memory. XLA:CPU's library sums long rows: it is handed the
    differences, written for it, and the gradient's loop makes the exponentials once more (700 rows of 5,000, loss and
    gradient: 7.2 ms of one core for 5.3)."""
    if not compiler.is_alone() or compiler.platform_now() != "cpu":
        return False
    if axis % x.ndim != x.ndim - 1 or x.dtype not in (jnp.float32, jnp.float64):
        return False
    known = all(isinstance(n, int) for n in x.shape)
    return known and x.shape[-1] >= _ROW and prod(x.shape) >= _LEAST


def _gradients(*arrays: Any, **attrs: Any) -> tuple[Any]:
    return (gradient(*arrays, **attrs),)  # a derivative gives a tuple


def gradient(x: Any, index: Any, given: Any, *, axis: int, mode: str, keepdims: bool) -> Any:
    """The gradient of :func:`picked` with respect to the scores."""
    _, e, total = _exponentials(x, axis)
    at = jnp.expand_dims(fit_index(index, x.shape[axis], mode).reshape(_rest(x, axis)), axis)
    here = at == lax.broadcasted_iota(at.dtype, x.shape, axis)
    given = given if keepdims else jnp.expand_dims(given, axis)
    return (here.astype(x.dtype) - e * (1 / total)) * given


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _picked(x: Any, index: Any, axis: int, mode: str) -> Any:
    top, _, total = _exponentials(x, axis)
    # Picked of the scores themselves: XLA would write how far each is below, and read it again, for one of a row.
    found = pick(x, index.reshape(_rest(x, axis)), axis=axis, mode=mode, keepdims=True)
    return found - top - jnp.log(total)


@_picked.defjvp
def _(axis: int, mode: str, primals: Any, tangents: Any) -> Any:
    x, index = primals
    slope = gradient(x, index, jnp.ones((), x.dtype), axis=axis, mode=mode, keepdims=True)
    return _picked(x, index, axis, mode), (slope * tangents[0]).sum(axis, keepdims=True)


def picked(x: Any, index: Any, *, axis: int, mode: str, keepdims: bool) -> Any:
    """pick(log_softmax(x), index) along an axis."""
    out = _picked(x, index, axis, mode)
    return out if keepdims else out.squeeze(axis)


def _rest(x: Any, axis: int) -> tuple[int, ...]:
    return tuple(x.shape[:axis] + x.shape[axis + 1 :])


program_rewriters.append(rewrite)
