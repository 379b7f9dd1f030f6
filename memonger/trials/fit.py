"""From a budget to an arrangement that XLA confirms."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from mxjax import errors

from ..arrangement.parts import ALL, Part
from ..model.knapsack import bound, least, peak, solve
from ..model.options import Option, index
from .session import MEMORY, Session, Trial

SLACK = 0.04  # of the budget may be left over
GAP = 0.05  # above the relaxed optimum is good enough
AIM = 0.004  # of the budget is left free on purpose: the model is not exact to the byte
STEP = 0.05  # of the budget at most is the target moved after a trial that taught nothing new
MORE = 3  # compilations beyond the limit before a budget is said to be infeasible,
NEAR = 1.25  # where no more than so many times the budget was needed; else one
TURNS = 40  # solutions looked at; most are known after a while
DISTANT = 0.02  # of the budget: trials that are nearer than that count alike
TRUST = 0.8  # of what XLA needs less than the model somewhere is expected of parts that were not compiled there


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
    baseline = session.measure(session.plain, MEMORY)
    wanted = to_bytes(budget, baseline.bytes(of))
    if baseline.bytes(of) <= wanted:
        return Found(baseline, baseline, wanted, 0.0, len(session.trials) - count)

    fit = Fit(session, of, wanted)
    for more, schedule in enumerate(
        session.schedules
    ):  # the leanest may need less in another order of work
        _approach(fit, schedule, count + compilations + more)
        if fit.within():
            break
    best = min(fit.within(), key=lambda t: t.cost, default=None)
    if best is None:
        lowest = fit.lowest()
        raise InfeasibleBudget(
            f"no arrangement needs {human(wanted)} or less of {of} bytes: the leanest that was compiled needs "
            f"{human(lowest.bytes(of))}, everything kept {human(baseline.bytes(of))}. "
            f"{_what_holds(fit, lowest, baseline.bytes(of) - baseline.bytes('temp'))}. Give a larger budget, or a "
            "smaller batch",
            lowest.bytes(of),
        )
    return Found(best, baseline, wanted, relaxed(fit, best), len(session.trials) - count)


def _approach(fit: Fit, schedule: str, most: int) -> None:
    """Compile what the model takes to be best within the budget, learn from it, and try again, up to so many trials.

    Where nothing was within the budget yet a few more may follow: the leanest ones.
    """
    session, of, wanted = fit.session, fit.of, fit.wanted
    target = 1 - AIM  # the share of the budget that is aimed at
    seen: list[Trial] = []
    for _ in range(TURNS):
        more = 0 if fit.within() else MORE if fit.lowest().bytes(of) <= NEAR * wanted else 1
        if len(session.trials) >= most + more:
            return
        fit.update(schedule)
        limit, floor = target * wanted - fit.beside, least(fit.options)
        chosen = fit.cheapest(max(limit, floor))
        trial = session.known(chosen, schedule)
        if trial in seen:
            assert trial is not None
            over = trial.bytes(of) > wanted
            if over and limit <= floor:
                chosen = fit.leanest()
                if session.known(chosen, schedule) is not None:
                    return
                trial = None
            elif not over and target >= 1 + SLACK:
                return
            else:  # nothing else was learnt: tighter, or looser
                target += AIM if not over else -min(STEP, trial.bytes(of) / wanted - 1 + AIM)
                continue
        trial = trial or session.measure(chosen, schedule)
        seen.append(trial)
        fit.update(schedule)
        if trial.bytes(of) > wanted:
            target -= max(AIM, min(STEP, trial.bytes(of) / wanted - 1)) if len(seen) > 1 else AIM
        elif _good(fit, trial):  # judged by what this trial taught, as the report is
            return


def _what_holds(fit: Fit, trial: Trial, constant: int) -> str:
    """Where a trial needs most, and the arrays that are to blame."""
    session = fit.session
    chain = session.chain
    fattest, most, before = fit.fattest(trial)
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
    """What each option takes: as the model says, and what XLA needs beside it at each place of the chain.

    XLA tells the most bytes that were in use while each part was at work, what earlier parts hold among them. By
    how much that differs from the model is known of parts that were compiled, and expected of others at the same
    place: the mean of what was seen there, that of trials near the budget counting most. What a unit that keeps all
    holds is taken from the step in which all of them do. What is at work in that step teaches nothing: in it alone
    nothing is computed again.
    """

    def __init__(self, session: Session, of: str, wanted: int):
        self.session, self.of, self.wanted = session, of, wanted
        units = session.chain.units
        self.places = {u.start: i for i, u in enumerate(units)} | {units[-1].stop: len(units)}
        self.kinds = {u.start: u.kind for u in units}
        self.plain = self._plain()
        self.whole = [[self._whole(o) for o in here] for here in session.options]
        self.options = self.whole  # what is known beside is told by :meth:`update`
        self.errors = np.zeros(len(units))
        self.compiled: dict[tuple[int, Part], float] = {}
        self.beside = 0

    def within(self) -> list[Trial]:
        """The trials within the budget, those for other budgets as well."""
        return [t for t in self.session.trials.values() if t.bytes(self.of) <= self.wanted]

    def lowest(self) -> Trial:
        return min(self.session.trials.values(), key=lambda t: t.bytes(self.of))

    def _plain(self) -> dict[int, int]:
        """By where they start, what units hold in the step that keeps all."""
        trial = self.session.known(self.session.plain, MEMORY)
        if trial is None or not trial.stages:
            return {}
        before = np.cumsum([0, *(stage.held for stage in trial.stages)])
        waits = [
            b - self.session.lingering(o.start) for o, b in zip(trial.chosen, before, strict=False)
        ]
        held = np.diff([*waits, before[-1]])
        return {o.start: int(h) for o, h in zip(trial.chosen, held, strict=True)}

    def _whole(self, o: Option) -> Option:
        """The option with what XLA is expected to hold for it."""
        if o.part.keep != ALL or o.part.parts:
            return o
        more = int(self.session.excess[self.kinds[o.start]])
        return o._replace(held=self.plain.get(o.start, o.held + more))

    def update(self, schedule: str, exactly: Trial | None = None) -> None:
        """Learn from the trials under this order of work. The total of the one nearest to the budget is explained; of
        one that is judged each part exactly."""
        seen = [t for t in self.session.trials.values() if t.schedule == schedule]
        seen.sort(key=lambda t: (t is exactly, -abs(t.bytes(self.of) - self.wanted)))
        trials = [t for t in seen if t.chosen != self.session.plain]
        places = np.zeros((2, len(self.errors)))
        parts: dict[tuple[int, Part], tuple[float, float]] = {}
        for trial in trials:
            weight, held = 1 / (DISTANT + abs(trial.bytes(self.of) / self.wanted - 1)) ** 2, 0
            for o, stage in zip(map(self._whole, trial.chosen), trial.stages or ()):  # noqa: B905, there may be none
                error = stage.most - held - o.work
                held += o.held
                places[:, self._covered(o)] += [[weight], [weight * error]]
                old = (0.0, 0.0) if trial is exactly else parts.get((o.start, o.part), (0.0, 0.0))
                parts[o.start, o.part] = old[0] + weight, old[1] + weight * error
        self.errors = places[1] / np.maximum(places[0], 1e-9)
        self.compiled = {key: total / weight for key, (weight, total) in parts.items()}
        self.options = [[self._corrected(o) for o in here] for here in self.whole]
        if seen:
            self.beside = seen[-1].bytes(self.of) - self.peak(seen[-1])

    def _covered(self, o: Option) -> slice:
        return slice(self.places[o.start], self.places[o.stop])

    def _corrected(self, o: Option) -> Option:
        error = self.compiled.get((o.start, o.part))
        if error is None:
            error = float(self.errors[self._covered(o)].mean())
            error *= TRUST if error < 0 else 1
        return _off(o, error)

    def peak(self, trial: Trial) -> int:
        """The most bytes in use, of those that options tell."""
        return peak([self._corrected(self._whole(o)) for o in trial.chosen])

    def fattest(self, trial: Trial) -> tuple[Option, int, int]:
        """The part at which a trial needs most, how many bytes then, and how many of them are held for earlier parts;
        by the model where XLA does not tell."""
        chosen, held = trial.chosen, 0
        found = []
        if trial.stages:
            for o, stage in zip(chosen, trial.stages, strict=True):
                found.append((o, stage.most, held))
                held += stage.held
        else:
            for o in map(self._whole, chosen):
                found.append((o, held + o.work, held))
                held += o.held
        return max(found, key=lambda part: part[1])

    def cheapest(self, limit: float) -> list[Option]:
        """What costs least within so many bytes, by all that is known."""
        return self._solved(self.options, limit)

    def leanest(self) -> list[Option]:
        """What needs least by the model, and by XLA's bytes where a part was compiled at this very place: errors of
        others may mislead."""
        options = [
            [_off(o, self.compiled.get((o.start, o.part), 0.0)) for o in here]
            for here in self.whole
        ]
        return self._solved(options, least(options))

    def _solved(self, options: list[list[Option]], limit: float) -> list[Option]:
        """The session's options that solve the knapsack of the corrected ones."""
        found = solve(options, limit)
        assert found is not None
        rows = [self.places[o.start] for o in found]
        return [
            self.session.options[i][index(options[i], o)] for i, o in zip(rows, found, strict=True)
        ]


def _off(o: Option, error: float) -> Option:
    """The option, its work so many bytes more."""
    return o._replace(work=max(0, o.work + round(error)))


def relaxed(fit: Fit, trial: Trial) -> float:
    """The least cost that the whole budget could have, were the options divisible.

    Both in XLA's bytes as best known: the options are those that trials corrected, this one's exactly, and what it
    needs beside them is taken off the whole budget (slack included), as it was for the trial itself.
    """
    fit.update(trial.schedule, exactly=trial)
    return bound(fit.options, fit.wanted - fit.beside) or 0.0


def _good(fit: Fit, trial: Trial) -> bool:
    if fit.wanted - trial.bytes(fit.of) > SLACK * fit.wanted:
        return False
    return trial.cost <= (1 + GAP) * relaxed(fit, trial)


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
