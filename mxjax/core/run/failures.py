"""Errors of programs: given to everybody who waits for a result, and told in terms of the user's code."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import errors
from ..calls.aval import Aval, aval
from ..calls.call import SCALARS, Call
from ..calls.segment import Segment, Step
from ..calls.value import Failure, Value, pending, pending_errors
from ..compile import compiler
from ..compile.compiler import wide_types
from ..placement import holders
from .callback import original, refusing
from .interrupts import is_asynchronous


class Postponed(errors.MXNetValueError):
    """An operator cannot run with these numbers: MXNet says so to whoever reads a result, not where it is called."""


_unchecked: ContextVar[bool] = ContextVar("unchecked", default=False)


def require(holds: bool, message: str) -> None:
    """Refuse the numbers an operator got, in its function, where MXNet refuses them as the operator runs.

    The call is recorded as any other; its results, and what is made of them, raise `message` where they are read.
    """
    if not holds and not _unchecked.get():
        raise Postponed(message)


def unchecked_avals(call: Call, avals: Sequence[Any], device: Any) -> tuple[tuple[Aval, ...], bool]:
    """`Call.infer` for a call that cannot run, which nothing remembers."""
    structs = [SCALARS[a] if type(a) is str else a.struct for a in avals]
    token = _unchecked.set(True)
    try:
        with wide_types():
            out = jax.eval_shape(
                lambda *given: call.fn(*given), *structs
            )  # JAX remembers results by the function
    finally:
        _unchecked.reset(token)
    many = isinstance(out, (tuple, list))
    return tuple(
        aval(tuple(o.shape), np.dtype(o.dtype), device) for o in (out if many else (out,))
    ), many


def failed_value(of: Aval, failure: Failure) -> Value:
    """A value that raises an error where it is read."""
    v = pending(None, of, shared=True)
    v.arr = failure
    return v


def fail(seg: Segment | None, step: Step, held: list[Value], error: BaseException) -> None:
    """Give the error to everybody who waits for a result of this run."""
    pending_errors.append(lose(seg, step, held, error))


def lose(seg: Segment | None, step: Step, held: list[Value], error: BaseException) -> BaseException:
    """Let these results raise the error where they are read; the error as it is raised."""
    failure = Failure(located(seg, step, error))
    for v in held:
        v.arr = failure
        v.step = step
        v.seg = None
    return failure.error


def located(seg: Segment | None, step: Step, error: BaseException) -> BaseException:
    """A run-time error with the place in the user's code where its call was recorded."""
    raised = original(error)
    path = step.path()
    culprit = getattr(raised or error, "mxjax_step", None)
    if culprit is not None:
        path = [culprit]
    if culprit is None and seg is not None and seg.sites:
        places = [(path[depth - 1], site) for depth, site in sorted(seg.sites.items())]
    else:
        places = [(s, s.site) for s in (path if len(path) <= 2 else [path[0], path[-1]])]
    if isinstance(cause_of := (raised or error), errors.MXNetMemoryError):
        return cause_of  # the memory manager's own, which names the place
    where = "; ".join(f"{s.call.name} recorded at {f}:{n}" for s, (f, n) in places)  # type: ignore[union-attr]
    cause = raised if raised is not None else error
    text = str(cause).strip()
    kind = type(cause).__name__
    if "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower():
        alive = holders.report(holders.holders())
        made: errors.MXNetError = errors.MXNetMemoryError(
            f"out of memory while running {step.depth} recorded calls ({where}): {text}\n{alive}"
        )
    else:
        made = errors.like(cause, f"{kind} while running recorded calls ({where}): {text}")
    made.__cause__ = cause
    return made


def failed_beside(array: Any, wait: bool = True) -> BaseException | None:
    """The error, as one of ours, of a program that failed beside the host, which JAX raises for who asks for results.

    ``wait=False``: of one that has ended.
    """
    try:
        if array is not None and not array.is_deleted() and (wait or array.is_ready()):
            array.block_until_ready()
    except Exception as error:
        if is_asynchronous(error):
            raise
        cause = original(error) or error
        made = errors.like(cause, str(cause))
        made.__cause__ = error
        return made
    return None


def holding(holds: Any, x: Any, message: str) -> Any:
    """x of a program, which fails with an MXNetError of this message where ``holds``, a scalar of it, is false.

    MXNet says so to whoever reads a result. Where it holds the host is not asked. What is traced for a TPU, as exported
    networks are, asks nobody: there the numbers are NaN.
    """
    if _unchecked.get() or compiler.platform_now() == "tpu":
        return x
    at = jax.lax.cond(
        holds,
        lambda holds: holds,
        lambda holds: jax.pure_callback(refusing(message), jax.ShapeDtypeStruct((), bool), holds),
        jax.lax.stop_gradient(holds),
    )
    return jax.tree.map(lambda part: jnp.where(at, part, jnp.full((), np.nan, part.dtype)), x)
