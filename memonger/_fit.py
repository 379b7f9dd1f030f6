"""From a budget to an arrangement that XLA confirms."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from mxjax import errors

from ._arrange import ALL
from ._session import MEMORY, Session, Trial
from ._solve import bound, least, peak, solve
from ._treatments import Option

SLACK = 0.04  # of the budget may be left over
GAP = 0.05  # above the relaxed optimum is good enough
AIM = 0.004  # of the budget is left free on purpose: the model is not exact to the byte
NEAR = 0.02  # of the budget too much: one more step in the same order of work mends that
MORE = 3  # compilations beyond the limit before a budget is said to be infeasible
FLATTEST = 0.25  # bytes that XLA's count is taken to grow by, at least, for each of the model's
TURNS = 40  # solutions looked at; most are known after a while
CLOSER = 0.5  # so much of the way to the other side of the budget is left, once a step ended on the same side again
DISTANT = 0.05  # of its distance from the budget a trial need not be explained
HALF = 0.5  # of the temporaries of the step that keeps all: from there on its order of work comes first
STRANGE = 0.3  # of the budget beside the model: the other order of work is worth a trial


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
    options = session.options
    count = len(session.trials)
    baseline = session.measure(session.plain, MEMORY)
    wanted = to_bytes(budget, baseline.bytes(of))
    if baseline.bytes(of) <= wanted:
        return Found(baseline, baseline, wanted, 0.0, len(session.trials) - count)

    constant = baseline.bytes(of) - baseline.bytes("temp")
    floor = least(options)
    leanest = solve(options, floor)
    assert leanest is not None
    best: Trial | None = None
    lowest = baseline
    others = list(session.schedules)
    if wanted - constant >= HALF * baseline.bytes("temp"):
        others.sort(key=lambda order: order != baseline.schedule)  # what is known already is near
    schedule = others.pop(0)
    fit = Fit(session, of, constant + 0.02 * floor)
    slack = AIM
    over = run = 0
    turned: list[Trial] = []
    # Where nothing was within the budget yet, a few more may follow: the leanest ones.
    for _ in range(TURNS):
        if len(session.trials) - count >= compilations + (MORE if best is None else 0):
            break
        fit.update(schedule, wanted)
        target = wanted * (1 - slack) - fit.beside + fit.ahead(wanted * (1 - slack))
        found = solve(fit.options, target)
        # The leanest are the same whatever is asked for: what an error calls possible is found again.
        chosen = fit.original(found) if found else leanest
        trial = session.known(chosen, schedule)
        again = trial is not None and any(trial is t for t in turned)
        # With trials on both sides of the budget the model's slope is known there.
        halfway = best and fit.between(schedule, wanted, best.cost, run)
        if halfway:
            chosen, trial, again = halfway, None, False
        if again:
            assert trial is not None
            # The same again: tighter where it was too much, looser where much is left, or enough.
            slack += AIM if trial.bytes(of) > wanted else -AIM
            if not -SLACK < slack < SLACK:
                break
        if trial is None:
            trial = session.measure(chosen, schedule)
            strange = trial.offset("temp") - session.at_most(trial) > STRANGE * (wanted - constant)
            # Once a trial is within the budget, what lies beside it in the same order of work is known best.
            if others and best is None and (strange or (over and trial.bytes(of) > (1 + NEAR) * wanted)):
                other = others.pop()
                if len(session.trials) - count < compilations:
                    reordered = session.measure(chosen, other)
                    if reordered.bytes(of) < trial.bytes(of):
                        trial, schedule = reordered, other
        fit.see(trial)
        turned.append(trial)
        lowest = min(lowest, trial, key=lambda t: t.bytes(of))
        side = 1 if trial.bytes(of) > wanted else -1
        run = side + (run if halfway and run * side > 0 else 0)
        if trial.bytes(of) <= wanted:
            if best is None or trial.cost < best.cost:
                best = trial
            fit.update(trial.schedule, wanted)  # judged by what this trial taught, as the report is
            if _good(fit, trial, wanted, of):
                break
        elif target <= floor and best is None and trial.model <= floor:
            if not others:
                break
            schedule = others.pop()  # the leanest may need less there
        elif not again:
            over += 1  # XLA's bytes do not follow the model's smoothly
            if best is None and over >= compilations:
                slack += 1.0
            else:
                slack += AIM if over < 2 or trial.bytes(of) <= (1 + NEAR) * wanted else SLACK / 2
    within = [t for t in session.trials.values() if t.bytes(of) <= wanted]  # of other budgets as well
    best = min(within, key=lambda t: t.cost, default=None)
    if best is None:
        raise InfeasibleBudget(
            f"no arrangement needs {human(wanted)} or less of {of} bytes: the leanest that was compiled needs "
            f"{human(lowest.bytes(of))}, everything kept {human(baseline.bytes(of))}. "
            f"{_what_holds(session, lowest, constant)}. Give a larger budget, or a smaller batch",
            lowest.bytes(of),
        )
    fit.see(best)
    fit.update(best.schedule, wanted)
    limit = relaxed(fit, best, wanted, of)
    return Found(best, baseline, wanted, limit, len(session.trials) - count)


def _what_holds(session: Session, trial: Trial, constant: int) -> str:
    """Where a trial needs most, by the model, and the arrays that are to blame."""
    held = most = before = 0
    for o in trial.chosen:
        if held + o.work > most:
            most, before, fattest = held + o.work, held, o
        held += o.held
    chain = session.chain
    inside = [u for u in chain.units if fattest.start <= u.start < fattest.stop]
    block = max(inside, key=lambda u: chain.treat(u.start, u.stop, frozenset()).work)
    arrays = [(a, s.call.name) for s in chain.steps[block.start : block.stop] for a in s.avals]  # type: ignore[union-attr]
    largest, operator = max(arrays, key=lambda made: made[0].nbytes)
    count = sum(a.nbytes == largest.nbytes for a, _ in arrays)
    text = (
        f"Most is needed while {block.name} is differentiated: about {human(most - before)} there and "
        f"{human(before)} held for earlier blocks; its largest arrays, {count} of {human(largest.nbytes)}, are those "
        f"of {operator} {largest.shape}"
    )
    if constant:
        text += (
            f". {human(constant)} of the peak are parameters, gradients, the optimizer's states and the batch, which "
            "no plan changes"
        )
    return text


class Fit:
    """What XLA needs beside the model: a constant, and something for each unit that keeps all.

    What a recomputed unit keeps is exact. Of one that keeps all, XLA keeps what suits its fusions:
    between what the model says and what JAX would keep. Both are learned from the trials by least
    squares, starting from all of that difference (one unknown per kind of unit).
    """

    def __init__(self, session: Session, of: str, beside: float):
        self.session, self.of = session, of
        self.options: list[list[Option]] = session.options
        self.kinds = {u.start: u.kind for u in session.chain.units}
        self.prior = np.array([beside, *session.excess])
        self.spread = np.array([max(beside, 1.0), *(0.5 * e + 1.0 for e in session.excess)])
        self.guess = self.prior
        self.beside = beside
        self.last: Trial | None = None
        self.before: Trial | None = None

    def see(self, trial: Trial) -> None:
        """This trial is the one that must be explained exactly."""
        if trial is not self.last:
            self.before, self.last = self.last, trial

    def ahead(self, wanted: float) -> float:
        """How much further the model must go, by the last two trials: XLA's bytes may follow it slower."""
        a, b = self.before, self.last
        if a is None or b is None or a.schedule != b.schedule:
            return 0.0
        step = self.peak(b) - self.peak(a)
        if abs(step) < NEAR * wanted:
            return 0.0
        slope = min(1.0, max(FLATTEST, (b.bytes(self.of) - a.bytes(self.of)) / step))
        return (wanted - b.bytes(self.of)) * (1 / slope - 1)

    def peak(self, trial: Trial) -> int:
        return peak([self.inflated(o) for o in trial.chosen])

    def between(self, schedule: str, wanted: int, cost: float, run: int) -> list[Option] | None:
        """Between the nearest trials on both sides of the budget: what costs less and was not compiled.

        XLA's bytes go in steps. After a ``run`` of several such trials over the budget (or, negative, within it) the
        next is nearer to the other side than a straight line says.
        """
        seen = [t for t in self.session.trials.values() if t.schedule == schedule]
        below = [t for t in seen if t.bytes(self.of) <= wanted]
        above = [t for t in seen if t.bytes(self.of) > wanted and t.cost]
        if not below or not above:
            return None
        low = max(below, key=lambda t: t.bytes(self.of))
        high = min(above, key=lambda t: t.bytes(self.of))
        gap = high.bytes(self.of) - low.bytes(self.of)
        straight = max(0.0, (wanted * (1 - AIM) - low.bytes(self.of)) / gap)
        closer = CLOSER ** max(0, abs(run) - 1)
        straight = straight * closer if run > 0 else 1 - (1 - straight) * closer
        start, end = self.peak(low), self.peak(high)
        for part in (1.0, 1.25, 0.75, 1.5, 0.5):
            found = solve(self.options, start + min(1.0, part * straight) * (end - start))
            if found is None:
                continue
            chosen = self.original(found)
            if sum(o.cost for o in chosen) < cost and self.session.known(chosen, schedule) is None:
                return chosen
        return None

    def update(self, schedule: str, wanted: int) -> None:
        """Explain what was seen under this order of work."""
        seen = [t for t in self.session.trials.values() if t.schedule == schedule]
        if seen:
            rows = np.array([self._row(t) for t in seen]) * self.spread
            # Bytes far from the budget are explained less exactly.
            noise = np.array([0.003 * wanted + DISTANT * abs(t.bytes(self.of) - wanted) for t in seen])
            left = np.array([t.offset(self.of) for t in seen]) - np.array(
                [self._row(t) for t in seen]
            ) @ self.prior
            gain = rows.T @ np.linalg.inv(rows @ rows.T + np.diag(noise**2))
            self.guess = self.prior + self.spread * (gain @ left)
            self.guess[1:] = np.maximum(self.guess[1:], -0.2 * self.spread[1:])
        self.beside = self.guess[0]
        last = self.last
        if last is not None and last.schedule == schedule:
            self.beside = last.offset(self.of) - self._row(last)[1:] @ self.guess[1:]
        self.options = [[self.inflated(o) for o in here] for here in self.session.options]

    def _row(self, trial: Trial) -> np.ndarray:
        row = np.zeros(self.prior.size)
        row[0] = 1.0
        for o in trial.chosen:
            if o.part.keep == ALL:
                row[1 + self.kinds[o.start]] += 1
        return row

    def inflated(self, o: Option) -> Option:
        """The option with what XLA needs for it."""
        if o.part.keep != ALL:
            return o
        more = int(self.guess[1 + self.kinds[o.start]])
        return o._replace(held=max(0, o.held + more), work=max(0, o.work + more))

    def original(self, chosen: Sequence[Option]) -> list[Option]:
        """The session's options for these."""
        plain = self.session.options
        at = {here[0].start: i for i, here in enumerate(plain)}
        return [plain[at[o.start]][self.options[at[o.start]].index(o)] for o in chosen]


def relaxed(fit: Fit, trial: Trial, wanted: int, of: str) -> float:
    """The least cost that the whole budget could have, were the options divisible.

    Both in XLA's bytes as best known: the options are those that the trials corrected, and what the trial needs
    beside them is taken off the whole budget (slack included), as it was for the trial itself.
    """
    return bound(fit.options, wanted - (trial.bytes(of) - fit.peak(trial))) or 0.0


def _good(fit: Fit, trial: Trial, wanted: int, of: str) -> bool:
    if wanted - trial.bytes(of) > SLACK * wanted:
        return False
    return trial.cost <= (1 + GAP) * relaxed(fit, trial, wanted, of)


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


def human(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"
