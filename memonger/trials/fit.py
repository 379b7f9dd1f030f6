"""From a budget to an arrangement that XLA confirms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from numbers import Integral, Real
from typing import Any, NamedTuple

from mxjax import errors

from ..model.knapsack import bound, least, peak, solve
from ..model.options import Option, lean
from ..model.treatment import treatment, work
from .measure import human
from .session import Session, Trial

SLACK = 0.04  # of the budget may be left over
GAP = 0.05  # above the relaxed optimum is good enough
AIM = 0.004  # of the budget is left free on purpose: the model is not exact to the byte
MORE = 3  # compilations beyond the limit before a budget is said to be infeasible


class InfeasibleBudget(errors.MXNetMemoryError):
    """No arrangement was found that stays within the budget.

    ``least_bytes`` is what the leanest one needs that was compiled.
    """

    def __init__(self, message: str, least_bytes: int):
        super().__init__(message)
        self.least_bytes = least_bytes


class Found(NamedTuple):
    """A trial within the budget, the lower bound of its cost, and how many compilations it took."""

    trial: Trial
    baseline: Trial
    budget: int
    bound: float
    compilations: int


def search(session: Session, budget: Any, of: str, compilations: int) -> Found:
    """Solve, compile, compare, and solve again with what the model missed.

    Raises:
      InfeasibleBudget: even the leanest arrangement needs more.
    """
    count = len(session.trials)
    baseline = session.measure(session.plain)
    wanted = to_bytes(budget, baseline.bytes(of))
    best, optimum = (baseline, 0.0) if baseline.bytes(of) <= wanted else (None, 0.0)
    while best is None or best is not baseline:
        # Trials within other budgets of this session count as well.
        within = [t for t in session.trials.values() if t.bytes(of) <= wanted]
        best = min(within, key=lambda t: t.cost, default=None)
        optimum = relaxed(session, best, of, wanted) if best else 0.0
        if best and best.bytes(of) >= (1 - SLACK) * wanted and best.cost <= (1 + GAP) * optimum:
            break
        done = len(session.trials) - count >= compilations + (0 if best else MORE)
        following = None if done else _next(session, of, wanted)
        if following is None:
            break
        session.measure(*following)
    if best is None:
        raise _infeasible(session, of, wanted, baseline)
    return Found(best, baseline, wanted, optimum, len(session.trials) - count)


def relaxed(session: Session, trial: Trial, of: str, wanted: int) -> float:
    """The least cost that the whole budget could have, were the options divisible.

    What XLA needs beside the model's bytes is taken off the budget (slack included), as it was for the trial itself.
    """
    return bound(session.options, wanted - trial.bytes(of) + peak(trial.chosen)) or 0.0


def _next(session: Session, of: str, wanted: int) -> tuple[Sequence[Option], bool] | None:
    """What to compile next, and whether it is in segments; ``None`` where nothing else is expected of it than of what
    was compiled. Segments are for budgets that no other way meets."""
    floor, segmented, target = least(session.options), False, (1 - AIM) * wanted
    plain = session.measure(session.plain)
    # What is expected at first: beside arguments and results what the model says, or less by as much as XLA needs less
    # for the plain step. (Where it needs more for that, it is because all is kept.)
    first = target - plain.bytes(of) + max(plain.bytes("temp"), peak(plain.chosen))
    while True:
        tried = [t for t in session.trials.values() if t.cost and t.segmented == segmented]
        for limit in _limits(tried, of, target, 0 if segmented else first):
            chosen = lean(session.chain, limit) if segmented else None
            chosen = chosen or solve(session.options, max(limit, floor))
            assert chosen is not None
            if session.known(chosen) is None:
                return chosen, segmented
        if segmented or any(t.bytes(of) <= wanted for t in tried):
            return None
        segmented = True


def _limits(trials: Sequence[Trial], of: str, target: float, first: float) -> Iterator[float]:
    """Bytes of the model that XLA is expected to make the target of: by the nearest trials on both sides of it, or by
    the one there is. The step that keeps all teaches nothing: in it alone nothing is computed again."""
    tried = sorted((peak(t.chosen), t.bytes(of)) for t in trials)
    low = max((t for t in tried if t[1] <= target), default=None)
    high = min((t for t in tried if t[1] > target), default=None)
    if low and high and low[0] < high[0]:
        (near, less), (far, more) = low, high
        share = (target - less) / (more - less)
        yield near + (far - near) * min(max(share, 0.05), 0.95)
        yield (near + far) / 2
    elif tried:
        model, bytes_ = min(tried, key=lambda t: abs(t[1] - target))
        yield target - bytes_ + model
    else:
        yield first


def _infeasible(session: Session, of: str, wanted: int, baseline: Trial) -> InfeasibleBudget:
    """The error that says where the leanest trial needs most, and which arrays are to blame."""
    chain = session.chain
    lowest = min(session.trials.values(), key=lambda t: t.bytes(of))
    before = [0, *accumulate(o.held for o in lowest.chosen)]
    at = max(range(len(lowest.chosen)), key=lambda k: before[k] + lowest.chosen[k].work)
    fattest = lowest.chosen[at]
    # The model tells the shares, XLA how much it is in all.
    scale = lowest.bytes("temp") / max(1, before[at] + fattest.work)
    inside = [u for u in chain.units if fattest.start <= u.start < fattest.stop]
    block = max(
        inside,
        key=lambda u: work(
            chain, u.start, u.stop, treatment(chain, u.start, u.stop, frozenset()).stays
        ),
    )
    arrays = [(a, s.call.name) for s in chain.steps[block.start : block.stop] for a in s.avals]  # type: ignore[union-attr]
    largest, operator = max(arrays, key=lambda made: made[0].nbytes)
    count = sum(a.nbytes == largest.nbytes for a, _ in arrays)
    text = (
        f"no arrangement needs {human(wanted)} or less of {of} bytes: the leanest that was compiled needs "
        f"{human(lowest.bytes(of))}, everything kept {human(baseline.bytes(of))}. Most is needed while {block.name} "
        f"is differentiated: about {human(scale * fattest.work)} there and {human(scale * before[at])} held for "
        f"earlier blocks; its largest arrays, {count} of {human(largest.nbytes)}, are those of {operator} "
        f"{largest.shape}"
    )
    constant = baseline.bytes(of) - baseline.bytes("temp")
    if constant:
        text += (
            f". {human(constant)} of the peak are parameters, gradients, the optimizer's states and the batch, which "
            "no plan changes"
        )
    return InfeasibleBudget(f"{text}. Give a larger budget, or a smaller batch", lowest.bytes(of))


_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def to_bytes(budget: Any, whole: int) -> int:
    """A budget in bytes: a number of them, ``'4GiB'``, or a share of ``whole`` (a float up to 1)."""
    problem = (
        "a budget is bytes (an int), a string like '4GiB' or '500MB', or a share (0 < float <= 1), "
        f"got {budget!r}"
    )
    if isinstance(budget, str):
        text = budget.strip().lower()
        number = text.rstrip("kmgtib ")
        try:
            found = float(number) * _UNITS[text[len(number) :].strip() or "b"]
        except (KeyError, ValueError):
            raise errors.MXNetValueError(problem) from None
    elif isinstance(budget, bool) or not isinstance(budget, Real):
        raise errors.MXNetTypeError(problem)
    elif isinstance(budget, Integral):
        found = int(budget)
    else:
        share = float(budget)
        if not 0 < share <= 1:
            raise errors.MXNetValueError(problem)
        found = share * whole
    if not 0 < found < float("inf"):
        raise errors.MXNetValueError(problem)
    return int(found)
