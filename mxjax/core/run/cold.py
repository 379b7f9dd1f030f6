"""Which segments run call by call, and when they have come back often enough to be compiled.

What a run by call costs is estimated in microseconds from counts and sizes alone (`by_call.py`) and summed up per
segment: once that would have paid for the compiler, the segment is compiled. So no more than about half of the time
can be lost, whatever comes (the rule of renting skis: Karlin et al., Competitive snoopy caching, 1988), and the same
program takes the same way in every run: no clock is asked.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ... import settings
from ..calls.aval import MeshDevice, layouts_in_use, physical
from ..calls.segment import Segment, Step
from ..calls.state import local
from ..calls.value import quick_put
from ..compile.compiler import platform_of
from ..hooks import memory_managers, operator_wrappers, trace_watchers
from ..interpret.by_call import (
    CALL,
    RUN,
    Build,
    ByCall,
    bound_of,
    is_asked_for,
    loosened,
    work_of,
)
from . import price
from .forks import forked
from .tiers import decisions

if TYPE_CHECKING:
    from ..graph.graph import Graph

# A segment of which one run costs that part of the compiler's price is compiled at once: so no second run, which may be
# compared with the first one, is the first of the program.
ONE_RUN = 1 / 2
# A loop is compiled earlier: where so many of the last segments were this one, at that part of the compiler's price.
AGAIN, PART = 4, 1 / 2
# Other results or donations of a compiled segment get a program of their own when they come for the fourth time; where
# what is not overwritten takes less than so many bytes, much later.
SELDOM, LATER, SMALL = 3, 1000, 1 << 20
COMPILED = -1.0  # spent on a segment with a hybridized block in it: it is compiled at once
# Graphs that take more numbers than this are not tried by call on accelerators: they come back.
ONCE = 1 << 18
# What an accelerator has, NumPy fetches: of segments with more numbers than this a program is made.
FETCHED = 1 << 22
# Results larger than this go to the device at once: else each program that takes one would fetch it anew.
LARGE = 1 << 16

_mode = settings.snapshot("engine.cold")
_deterministic = settings.snapshot("determinism.enabled")
_fusions = settings.snapshot("compiler.scope_fusions")
used = [False]  # whether anything ran so: arrays may be NumPy's
_recent: deque[weakref.ref[Step]] = deque(maxlen=64)
_held: weakref.WeakKeyDictionary[Step, Trial] = weakref.WeakKeyDictionary()
_tallies: list[Tally] = []


class Cold:
    """A segment, and what its runs by call have taken longer so far than those of a quick program (``spent``) and
    those of an optimised one (``lost``) would have."""

    __slots__ = ("by_call", "lost", "pays", "pays_whole", "runs", "spent")

    def __init__(self, by_call: ByCall, prices: price.Prices):
        self.by_call = by_call
        self.pays = prices.quick(by_call.equations, by_call.long)
        self.pays_whole = prices.whole(price.Size(by_call.equations, by_call.long, 0.0))
        self.spent = self.lost = 0.0
        self.runs = 0


def is_cold_here(effects: Any, device: Any) -> bool:
    """Whether NumPy may compute calls (with these effects): on one device, while nobody changes or watches programs."""
    if forked[0]:
        return not effects and isinstance(device, jax.Device)
    if _mode() == "compile" or effects or operator_wrappers or trace_watchers or memory_managers:
        return False
    if layouts_in_use[0]:
        return False  # NumPy would not keep the order of a weight's axes
    if local.st.modes.naive or (_deterministic() and _mode() != "interpret"):
        return False  # one kernel for each call, whatever ran before
    return isinstance(device, jax.Device)


def is_for_numpy(device: Any) -> bool:
    """Whether NumPy computes most of what does not come back often: on CPUs, unless it may not."""
    device = physical(device)
    return platform_of(device) == "cpu" and is_cold_here((), device)


def is_in_reach(step: Step, device: Any) -> bool:
    """Whether a segment's arrays are in the host's memory, or so small that fetching them costs little."""
    if platform_of(device) == "cpu":
        return True
    path = step.path()
    return (
        sum(a.size for s in path for a in s.new_ins) + sum(a.size for s in path for a in s.avals)
        <= FETCHED
    )


def by_call(
    step: Step, live: tuple[int, ...], device: Any, build: Build, once: bool
) -> ByCall | None:
    """How the segment runs now if not as a program; each question counts as a run.

    ``once``: it will not come back, so compiling it never pays.
    """
    here = is_cold_here(step.effects, device)
    if once and type(device) is not MeshDevice and not memory_managers:
        used[0] = used[0] or here
        return ByCall(step, live, device, build, numpy=here)
    if not here:
        return None
    if step.cold is None:
        step.cold = {}
    known = step.cold.get(live)
    if known is None:
        if not is_in_reach(step, device):
            return None
        known = step.cold[live] = Cold(
            ByCall(step, live, device, build, numpy=True), price.on(platform_of(device))
        )
        if any(is_asked_for(s.call) for s in step.path()):  # type: ignore[arg-type]
            known.spent = COMPILED
    if forked[0] or _mode() == "interpret":
        used[0] = True
        for tally in _tallies:
            tally.add(known.by_call, device)
        return known.by_call
    if known.spent < 0 or step.ends:  # NumPy would wait for a large program
        return None
    saves_quickly = max(0.0, known.by_call.saves_quickly - RUN)
    saves = max(0.0, known.by_call.saves - RUN)
    spent, lost = known.spent + saves_quickly, known.lost + saves
    paid = max(spent / (known.pays or 1e-9), lost / (known.pays_whole or 1e-9))
    coming = local.st.coming or 0  # runs that come in all certainty
    pays = coming * saves_quickly > known.pays or coming * saves > known.pays_whole
    this = weakref.ref(step)
    if not known.by_call.gains:  # what NumPy's work cost has paid for the program of the only call
        if known.runs * CALL > known.pays:
            return None
    elif (
        paid > (1 if known.runs else ONE_RUN)
        or (paid > PART and _recent.count(this) >= AGAIN)
        or (known.runs and pays)
    ):
        trials = _held_in(step)
        if not trials:
            quickly = spent * known.pays_whole >= lost * known.pays
            more, costs = (spent, known.pays) if quickly else (lost, known.pays_whole)
            decisions.append(
                f"segment{step.depth} that ends with {step.label}: a program, for {known.runs + 1} runs call by call "
                f"would have cost about {more / 1e3:.1f} ms more than its"
                f"{f', and {coming} are to come' if coming else ''}; "
                f"{'a quick program' if quickly else 'it'} costs about {costs / 1e3:.1f} ms"
            )
            return None
        for trial in trials:
            trial.end(lost)
    _recent.append(this)
    used[0] = True
    known.spent, known.lost = spent, lost
    known.runs += 1
    known.by_call.again = known.runs > 1
    known.by_call.once = pays
    return known.by_call


class Tally:
    """What a run takes NumPy, and what its programs would cost (microseconds), over the segments of one run."""

    def __init__(self) -> None:
        self.takes = 0.0
        self.programs = 0.0

    def add(self, by_call: ByCall, device: Any) -> None:
        """Count a segment that is run by NumPy."""
        self.takes += by_call.price
        size = price.Size(by_call.equations, by_call.long, 0.0)
        self.programs += price.on(platform_of(device)).whole(size)


def way_of(run: Callable[[], Any], times: int) -> str:
    """The `engine.cold` by which a function runs so many times in the least time and by one and the same code.

    It is run twice to find out: the second time no program of an operator that NumPy has no rule for is new.
    """
    with settings.scope("engine.cold", "interpret"):
        run()
        tally = Tally()
        _tallies.append(tally)
        try:
            run()
        finally:
            _tallies.remove(tally)
    return "interpret" if tally.takes * times < tally.programs else "compile"


class Trial:
    """What a graph's runs operator by operator have cost more than those of programs, and what each costs.

    A derivative is taken for twice the work, and three times the equations.
    """

    __slots__ = ("_lost", "_pays", "_saves", "costs", "over", "stays")

    def __init__(
        self, costs: float, saves: tuple[float, float], size: price.Size, prices: price.Prices
    ):
        self.costs = costs
        self._saves = saves  # of a quick program and of an optimised one
        self._pays = prices.quick(*size[:2]), prices.whole(size)
        self._lost = [0.0, 0.0]
        self.over = False  # it is a program from now on
        self.stays = False  # it goes by call for ever: its operators are part of another program

    def again(self, training: bool) -> bool:
        """Count a run; whether it goes by call."""
        if not self.over:
            times, more = (3, 4) if training else (1, 1)
            coming = local.st.coming or 0
            for k, (saves, pays) in enumerate(zip(self._saves, self._pays, strict=True)):
                costs = times * max(0.0, saves)
                ahead = bool(self._lost[k]) and coming * costs > more * pays
                self._lost[k] += costs
                self.over = self.over or ahead or self._lost[k] > more * pays
        return not self.over

    def end(self, lost: float) -> None:
        """It is a program from now on: its segments have lost what one costs."""
        self.over = True
        self._lost[1] = max(self._lost[1], lost)

    @property
    def lost(self) -> float:
        """What its runs took longer than an optimised program's."""
        return self._lost[1]

    def goes_on(self) -> bool:
        """Whether it will be a program, and is none yet."""
        return not self.over and not self.stays


def goes_by_call(graph: Graph, seg: Segment, device: Any) -> bool:
    """Whether this run of a graph is recorded operator by operator: until such runs have cost what its program would.

    In a segment with another graph it would be part of that one's program, which would be another one at the next call.
    """
    if forked[0]:
        return True
    if _fusions() or any(is_asked_for(s.call) for s in seg.step.path()):  # type: ignore[arg-type]
        return False
    if not is_cold_here(any(s.call.effect or s.call.python for s in graph.steps), device):  # type: ignore[union-attr]
        return False
    if _mode() == "interpret":
        return True
    if graph.trial is None:
        graph.trial = _trial(graph, device)
    if graph.trial is False:
        return False
    # One that comes after a larger one, in the same segment, becomes a program no sooner than that one.
    return graph.trial.again(local.st.taping) or any(
        s in _held and _held[s].goes_on() and _held[s].costs > graph.trial.costs
        for s in seg.step.path()
    )


def _trial(graph: Graph, device: Any) -> Trial | bool:
    """False: NumPy does not compute it, or would have to fetch much."""
    if platform_of(device) != "cpu" and sum(a.size for a in graph.avals) > ONCE:
        return False
    prices = price.on(platform_of(device))
    costs = quickly = saves = 0.0
    equations = long = 0
    results = {s.first + k: a for s in graph.steps for k, a in enumerate(s.avals)}
    for s, call, _, operands in loosened(graph.steps, graph.avals, results, graph.fmt, []):
        bound = bound_of(s, call, operands, device)
        if bound is None:
            return False
        work = work_of(bound)
        costs += CALL + work.takes
        quickly += CALL + prices.saved_quickly(work)
        saves += CALL + prices.saved(work)
        equations += bound.size.equations
        long += bound.size.long
    return Trial(costs, (quickly, saves), price.Size(equations, long, 0.0), prices)


def hold(step: Step, graph: Graph) -> None:
    """This step ends a graph recorded operator by operator: no program holds it that will be one itself."""
    if type(graph.trial) is Trial:
        _held[step] = graph.trial


def _held_in(step: Step) -> list[Trial]:
    """The graphs on trial that a segment holds operator by operator."""
    found = [_held.get(s) for s in step.path()] if _held else []
    return [trial for trial in found if trial is not None and not trial.stays]


def is_new_variant(step: Step, key: Any, device: Any) -> bool:
    """Whether a compiled segment's results and donations were others so seldom that a program there is will do."""
    if _mode() == "compile" or not isinstance(device, jax.Device):
        return False
    if step.variants is None:
        step.variants = {}
    asked = step.variants[key] = step.variants.get(key, 0) + 1
    if asked <= SELDOM:
        return True
    return (
        asked <= LATER and sum(a.nbytes for k, a in enumerate(step.inputs()) if k in key[1]) < SMALL
    )


def has_earned(step: Step, live: tuple[int, ...]) -> bool:
    """Whether runs by call have paid for a program."""
    known = None if step.cold is None else step.cold.get(live)
    return known is not None and known.lost > 0


def paid_by(step: Step, live: tuple[int, ...]) -> float:
    """What runs by call took longer than an optimised program's: of the segment, or operator, and of graphs in it."""
    known = None if step.cold is None else step.cold.get(live)
    trials = [s.call.graph.trial for s in step.path() if s.call.graph is not None]  # type: ignore[union-attr]
    lost = step.spent + (0.0 if known is None else known.lost)
    return lost + sum(t.lost for t in trials if type(t) is Trial)


def forget() -> None:
    """Begin without a history of loops."""
    _recent.clear()
    _held.clear()


def kept(results: Sequence[Any], device: Any) -> list[Any]:
    """Results of a run by call as values hold them: 64-bit and large ones on the device."""
    if forked[0]:
        return list(results)
    return [
        quick_put(r, device)
        if type(r) is np.ndarray and (r.itemsize == 8 or r.nbytes > LARGE)
        else r
        for r in results
    ]
