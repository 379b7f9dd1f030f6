"""Errors of programs: given to everybody who waits for a result, and told in terms of the user's code."""

from __future__ import annotations

from .. import errors
from . import holders
from .callback import original
from .segment import Segment, Step
from .value import Failure, Value, pending_errors


def fail(seg: Segment, step: Step, held: list[Value], error: BaseException) -> None:
    """Give the error to everybody who waits for a result of this run."""
    failure = Failure(located(seg, step, error))
    for v in held:
        v.arr = failure
        v.step = step
        v.seg = None
    pending_errors.append(failure.error)


def located(seg: Segment | None, step: Step, error: BaseException) -> BaseException:
    """A run-time error with the place in the user's code where its call was recorded."""
    raised = original(error)
    path = step.path()
    if seg is not None and seg.sites:
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
