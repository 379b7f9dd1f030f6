"""From a budget to an arrangement that XLA confirms."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from mxjax import errors

from ..arrangement.parts import ALL, Part
from ..model.knapsack import bound, least, peak, solve
from ..model.options import Option, index
from .session import MEMORY, PLAIN, Session, Trial

SLACK = 0.04  # of the budget may be left over
GAP = 0.05  # above the relaxed optimum is good enough
AIM = 0.004  # of the budget is left free on purpose: the model is not exact to the byte
MORE = 3  # compilations beyond the limit before a budget is said to be infeasible,
NEAR = 1.25  # where no more than so many times the budget was needed; else one
TURNS = 40  # solutions looked at; most are known after a while
CLOSER = 0.5  # so much of the way to the other side of the budget is left, once a step ended on the same side again
FAR = 0.05  # of the budget is the other side away at most: so near the model is right enough
DISTANT = 0.02  # of the budget: trials that are nearer than that count alike
TRUST = 0.8  # of what XLA needs less than the model somewhere is expected of parts that were not compiled there
WARY = 2  # trials over the budget, and none within: then the worst that was seen at a part's place is expected of it
MANY = 8  # units of a kind there must be at least for one to tell of another what XLA holds beside the model
NEIGHBOURS = 6  # units away from a place what is known of others of its kind counts 1/e,
DOUBT = 0.5  # times as much as the best known unit would at no distance counts that the model is right
LOWER = 2  # times AIM is the target lowered for each step in a row over the budget, once one was within it
STEP = 0.1  # of the budget at most is the target lowered after such a trial, else by what that was over the budget


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

    constant = baseline.bytes(of) - baseline.bytes("temp")
    fit = Fit(session, of, wanted)
    best: Trial | None = None
    lowest = baseline
    others = list(session.schedules)
    schedule = others.pop(0)
    slack = AIM
    over = run = 0
    turned: list[Trial] = []
    # Where nothing was within the budget yet, a few more may follow: the leanest ones.
    for _ in range(TURNS):
        more = 0 if best else MORE if lowest.bytes(of) <= NEAR * wanted else 1
        if len(session.trials) - count >= compilations + more:
            break
        fit.update(schedule)
        target = wanted * (1 - slack) - fit.beside
        floor = least(fit.options)
        # With trials on both sides of the budget XLA's bytes are known there.
        chosen = fit.between(schedule, best.cost, run) if best else None
        halfway = chosen is not None
        if best is None and len(session.trials) - count >= compilations:
            chosen = fit.leanest(schedule)
        if chosen is None:
            found = solve(fit.options, max(target, floor))
            assert found is not None
            chosen = fit.original(found)
        trial = session.known(chosen, schedule)
        if any(trial is t for t in turned):
            assert trial is not None
            if target > floor:
                # The same again: tighter where it was too much, looser where much is left, or enough.
                # Where XLA does not tell what parts need, nothing else was learnt from it.
                far = fit.wary or not trial.stages
                slack += (STEP if far else AIM) if trial.bytes(of) > wanted else -AIM
                if best is not None and not -SLACK < slack < SLACK:
                    break
                continue
            if best is not None:
                break
            leanest = fit.leanest(schedule)
            if leanest is None:
                if not others:
                    break
                schedule = others.pop()  # the leanest may need less there
                continue
            chosen, trial = leanest, None
        if trial is None:
            trial = session.measure(chosen, schedule)
        turned.append(trial)
        fit.update(schedule)
        lowest = min(lowest, trial, key=lambda t: t.bytes(of))
        side = 1 if trial.bytes(of) > wanted else -1
        run = side + (run if halfway and run * side > 0 else 0)
        if side < 0:
            if best is None:
                slack = AIM
            if best is None or trial.cost < best.cost:
                best = trial
            if _good(fit, trial):  # judged by what this trial taught, as the report is
                break
        elif best is None:
            if schedule == PLAIN and trial is not lowest:
                break
            over += 1
            if over >= WARY:
                fit.wary = True
                slack += min(STEP, trial.bytes(of) / wanted - 1)
    within = [t for t in session.trials.values() if t.bytes(of) <= wanted]  # of other budgets as well
    best = min(within, key=lambda t: t.cost, default=None)
    if best is None:
        raise InfeasibleBudget(
            f"no arrangement needs {human(wanted)} or less of {of} bytes: the leanest that was compiled needs "
            f"{human(lowest.bytes(of))}, everything kept {human(baseline.bytes(of))}. "
            f"{_what_holds(fit, lowest, constant)}. Give a larger budget, or a smaller batch",
            lowest.bytes(of),
        )
    limit = relaxed(fit, best)
    return Found(best, baseline, wanted, limit, len(session.trials) - count)


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
    place: the mean of what was seen there, that of trials near the budget counting most (``wary``: the worst). What
    a unit that keeps all holds is taken from the step in which all of them do. What is at work in that step teaches
    nothing: in it alone nothing is computed again. What XLA holds more, or less, for a unit of which something is
    computed again (for want of a gradient's room, which another took) is expected to be as for those of its kind
    around it.
    """

    def __init__(self, session: Session, of: str, wanted: int):
        self.session, self.of, self.wanted = session, of, wanted
        units = session.chain.units
        self.places = {u.start: i for i, u in enumerate(units)} | {units[-1].stop: len(units)}
        self.kinds = {u.start: u.kind for u in units}
        self.plain = self._plain()
        kinds, at = np.array([u.kind for u in units]), np.arange(len(units))
        many = np.bincount(kinds)[kinds] >= MANY
        self.alike = many * (kinds[:, None] == kinds) * np.exp(-abs(at[:, None] - at) / NEIGHBOURS)
        np.fill_diagonal(self.alike, 0)  # of one place alone XLA's bytes differ from trial to trial
        self.waiting = np.zeros(len(units))  # what is held beside what the model says
        self.whole = self.options = session.options  # what is known is told by :meth:`update`
        self.errors = np.zeros(len(units))
        self.compiled: dict[tuple[int, Part], float] = {}
        self.beside = 0
        self.wary = False

    def _plain(self) -> dict[int, int]:
        """By where they start, what units hold in the step that keeps all."""
        trial = self.session.known(self.session.plain, MEMORY)
        if trial is None or not trial.stages:
            return {}
        before = np.cumsum([0, *(stage.held for stage in trial.stages)])
        waits = [b - self.session.lingering(o.start) for o, b in zip(trial.chosen, before, strict=False)]
        held = np.diff([*waits, before[-1]])
        return {o.start: int(h) for o, h in zip(trial.chosen, held, strict=True)}

    def _whole(self, o: Option) -> Option:
        """The option with what XLA is expected to hold for it."""
        if _recomputes(o):
            return o._replace(held=max(0, o.held + int(self.waiting[self._covered(o)].sum())))
        more = int(self.session.excess[self.kinds[o.start]])
        return o._replace(held=self.plain.get(o.start, o.held + more))

    def _weight(self, trial: Trial) -> float:
        return 1 / (DISTANT + abs(trial.bytes(self.of) / self.wanted - 1)) ** 2

    def _learn_waiting(self, trials: Sequence[Trial]) -> None:
        count, total = np.zeros((2, len(self.waiting)))
        for trial in trials:
            weight = self._weight(trial)
            for o, stage in zip(trial.chosen, trial.stages or ()):  # noqa: B905, there may be none
                if _recomputes(o):
                    here = self._covered(o)
                    count[here] += weight
                    total[here] += weight * (stage.held - o.held) / (here.stop - here.start)
        self.waiting = self.alike @ total / np.maximum(self.alike @ count + DOUBT * count.max(), 1e-9)

    def update(self, schedule: str, exactly: Trial | None = None) -> None:
        """Learn from the trials under this order of work. The total of the one nearest to the budget is explained; of
        one that is judged each part exactly."""
        seen = [t for t in self.session.trials.values() if t.schedule == schedule]
        seen.sort(key=lambda t: (t is exactly, -abs(t.bytes(self.of) - self.wanted)))
        trials = [t for t in seen if t.chosen != self.session.plain]
        self._learn_waiting(trials)
        self.whole = [[self._whole(o) for o in here] for here in self.session.options]
        places = np.zeros((2, len(self.errors)))
        parts: dict[tuple[int, Part], tuple[float, float]] = {}
        for trial in trials:
            weight, held = self._weight(trial), 0
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
            here = self.errors[self._covered(o)]
            error = max(0.0, float(here.max())) if self.wary else float(here.mean())
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

    def between(self, schedule: str, cost: float, run: int) -> list[Option] | None:
        """Between the nearest trials on both sides of the budget: what costs less and was not compiled.

        XLA's bytes go in steps. After a ``run`` of several such trials over the budget (or, negative, within it) the
        next is nearer to the other side than a straight line says.
        """
        seen = [t for t in self.session.trials.values() if t.schedule == schedule]
        below = [t for t in seen if t.bytes(self.of) <= self.wanted]
        above = [t for t in seen if t.bytes(self.of) > self.wanted and t.cost]
        if not below or not above:
            return None
        low = max(below, key=lambda t: t.bytes(self.of))
        high = min(above, key=lambda t: t.bytes(self.of))
        gap = high.bytes(self.of) - low.bytes(self.of)
        start, end = self.peak(low), self.peak(high)
        if high.bytes(self.of) > (1 + FAR) * self.wanted:  # a trial for another budget
            near = int((1 + FAR) * self.wanted) - low.bytes(self.of)
            end = start + (end - start) * near // gap
            gap = near
        aim = AIM * (1 + LOWER * max(0, run))
        straight = max(0.0, (self.wanted * (1 - aim) - low.bytes(self.of)) / gap)
        closer = CLOSER ** max(0, abs(run) - 1)
        straight = straight * closer if run > 0 else 1 - (1 - straight) * closer
        for part in (1.0, 1.25, 0.75, 1.5, 0.5):
            found = solve(self.options, start + min(1.0, part * straight) * (end - start))
            if found is None:
                continue
            chosen = self.original(found)
            if sum(o.cost for o in chosen) < cost and self.session.known(chosen, schedule) is None:
                return chosen
        return None

    def leanest(self, schedule: str) -> list[Option] | None:
        """What needs least, unless it was compiled: by the model, and by XLA's bytes where a part was compiled at this
        very place. Errors of others may mislead."""
        options = [[_off(o, self.compiled.get((o.start, o.part), 0.0)) for o in here] for here in self.whole]
        found = solve(options, least(options))
        assert found is not None
        chosen = self.original(found, options)
        return chosen if self.session.known(chosen, schedule) is None else None

    def original(self, chosen: Sequence[Option], of: list[list[Option]] | None = None) -> list[Option]:
        """The session's options for these, which are ``of`` the corrected ones by default."""
        rows = [self.places[o.start] for o in chosen]
        of = of or self.options
        return [self.session.options[i][index(of[i], o)] for i, o in zip(rows, chosen, strict=True)]


def _recomputes(o: Option) -> bool:
    return o.part.keep != ALL or bool(o.part.parts)


def _off(o: Option, error: float) -> Option:
    """The option, its work so many bytes more."""
    return o._replace(work=max(0, o.work + int(error)))


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
