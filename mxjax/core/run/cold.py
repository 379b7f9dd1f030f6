"""Which segments run call by call, and when they have come back often enough to be compiled.

What a run by call costs is estimated in microseconds from counts and sizes alone (`by_call.py`) and summed up per
segment and graph: once that would have paid for the compiler, it is compiled (`choice.py`).
"""

from __future__ import annotations

import weakref
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
    Build,
    ByCall,
    bound_of,
    is_asked_for,
    loosened,
    work_of,
)
from . import choice, price
from .constants import CALL
from .forks import forked
from .price import Pair
from .tiers import accounts, decisions

if TYPE_CHECKING:
    from ..graph.graph import Graph

_mode = settings.snapshot("engine.cold")
_deterministic = settings.snapshot("determinism.enabled")
_fusions = settings.snapshot("compiler.scope_fusions")
_UNASKED: tuple[tuple[str, ...], ...] = ((), ("auto",))
used = [False]  # whether anything ran so: arrays may be NumPy's
_held: weakref.WeakKeyDictionary[Step, Trial] = weakref.WeakKeyDictionary()
_tallies: list[Tally] = []


class Cold:
    """A segment, its programs' prices, and what its runs by call have taken longer so far than theirs would have.

    ``at_once``: somebody asked for a program of it (a hybridized block).
    """

    __slots__ = ("at_once", "by_call", "lost", "prices", "runs")

    def __init__(self, by_call: ByCall, prices: price.Prices, at_once: bool):
        self.by_call = by_call
        self.prices = prices.both(by_call.size)
        self.lost = Pair(0.0, 0.0)
        self.runs = 0
        self.at_once = at_once


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
    return choice.fits_host(
        sum(a.size for s in path for a in s.new_ins) + sum(a.size for s in path for a in s.avals)
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
            ByCall(step, live, device, build, numpy=True),
            price.on(platform_of(device)),
            any(is_asked_for(s.call) for s in step.path()),  # type: ignore[arg-type]
        )
    if forked[0] or _mode() == "interpret":
        used[0] = True
        for tally in _tallies:
            tally.add(known.by_call, device)
        return known.by_call
    if known.at_once or step.ends:  # NumPy would wait for a large program
        return None
    saves = known.by_call.saves
    lost = known.lost.more(saves)
    coming = local.st.coming or 0  # runs that come in all certainty
    pays = choice.will_pay(saves, known.prices, coming)
    if not known.by_call.gains:
        if choice.buys_only_call(known.runs, known.prices.quick):
            return None
    elif choice.buys_segment(lost.paid(known.prices), known.runs, pays):
        trials = _held_in(step)
        if not trials:
            quickly, more, costs = lost.fuller(known.prices)
            decisions.append(
                f"segment{step.depth} that ends with {step.label}: a program, for {known.runs + 1} runs call by call "
                f"would have cost about {more / 1e3:.1f} ms more than its"
                f"{f', and {coming} are to come' if coming else ''}; "
                f"{'a quick program' if quickly else 'it'} costs about {costs / 1e3:.1f} ms"
            )
            return None
        for trial in trials:
            trial.end(lost.whole)
    used[0] = True
    known.lost = lost
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
        self.programs += price.on(platform_of(device)).whole(by_call.size)


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
    """What a graph's runs operator by operator have cost more than those of programs (``saves`` each), and what
    these cost.

    A derivative is taken for twice the work, and three times the equations.
    """

    __slots__ = (
        "__weakref__", "_lost", "_name", "_prices", "_runs", "_saves", "_training", "costs", "over", "stays",
    )  # fmt: skip

    def __init__(self, costs: float, saves: Pair, prices: Pair, name: str = "graph"):
        self.costs = costs
        self._name = name
        self._saves = Pair(*[max(0.0, each) for each in saves])
        self._prices = prices
        self._lost = Pair(0.0, 0.0)
        self._runs = 0
        self._training = False  # whether the last run was one
        self.over = False  # it is a program from now on
        self.stays = False  # it goes by call for ever: its operators are part of another program
        accounts.add(self)

    def again(self, training: bool) -> bool:
        """Count a run; whether it goes by call."""
        if not self.over:
            saves, coming = choice.graph_saves(self._saves, training), local.st.coming or 0
            self._training = training
            self._runs += 1
            if choice.buys_graph(self._lost, saves, self._prices, training, coming):
                self._decided(saves)
            else:
                self._lost = self._lost.more(saves)
        return not self.over

    def end(self, lost: float) -> None:
        """It is a program from now on: its segments have lost what one costs."""
        self._lost = self._lost._replace(whole=max(self._lost.whole, lost))
        if not self.over:
            self._decided(Pair(0.0, 0.0))

    def _decided(self, saves: Pair) -> None:
        self.over = True
        accounts.discard(self)
        lost, costs = self._fuller(saves)
        decisions.append(
            f"{self._name}: a program, for {self._runs} calls operator by operator would have cost about "
            f"{lost / 1e3:.1f} ms more than its; it costs about {costs / 1e3:.1f} ms"
        )

    def account(self) -> str:
        """What its runs operator by operator have lost so far, beside what a program costs."""
        if self.stays:
            return f"{self._name}: operator by operator for good, whose programs others share"
        lost, costs = self._fuller(Pair(0.0, 0.0))
        return (
            f"{self._name}: {self._runs} calls operator by operator took about {lost / 1e3:.1f} ms more than its "
            f"program would; that costs about {costs / 1e3:.1f} ms"
        )

    def _fuller(self, saves: Pair) -> tuple[float, float]:
        """What the fuller account holds with this run, and its price."""
        times = choice.graph_price(self._training)
        return self._lost.more(saves).fuller(Pair(*[each * times for each in self._prices]))[1:]

    @property
    def lost(self) -> float:
        """What its runs took longer than an optimised program's."""
        return self._lost.whole

    def goes_on(self) -> bool:
        """Whether it will be a program, and is none yet."""
        return not self.over and not self.stays


def goes_by_call(graph: Graph, seg: Segment, device: Any) -> bool:
    """Whether this run of a graph is recorded operator by operator: until such runs have cost what its program would.

    In a segment with another graph it would be part of that one's program, which would be another one at the next call.
    """
    if forked[0]:
        return True
    if _fusions() not in _UNASKED or any(is_asked_for(s.call) for s in seg.step.path()):  # type: ignore[arg-type]
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
    if platform_of(device) != "cpu" and not choice.tries_graph(sum(a.size for a in graph.avals)):
        return False
    prices = price.on(platform_of(device))
    costs, saves = 0.0, Pair(0.0, 0.0)
    sizes: list[price.Part] = []
    results = {s.first + k: a for s in graph.steps for k, a in enumerate(s.avals)}
    for s, call, gets, operands in loosened(graph.steps, graph.avals, results, graph.fmt, []):
        bound = bound_of(s, call, operands, device)
        if bound is None:
            return False
        work = work_of(bound)
        costs += CALL + work.takes
        saves = Pair(
            saves.quick + CALL + prices.saved_quickly(work), saves.whole + CALL + prices.saved(work)
        )
        outs = range(s.first, s.first + len(s.avals))
        sizes.append(price.Part(bound.size, gets, outs, (call, operands)))
    shape = graph.avals[0].shape if graph.avals else ()
    priced = prices.both(price.joined(sizes, graph.outputs))
    return Trial(costs, saves, priced, f"{graph.name} {shape}")


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
    if not isinstance(device, jax.Device):
        return False
    if _mode() == "compile" and step.variants is None:  # nor was it compiled ahead of its first run
        return False
    if step.variants is None:
        step.variants = {}
    asked = step.variants[key] = step.variants.get(key, 0) + 1
    wasted = sum(a.nbytes for k, a in enumerate(step.inputs()) if k in key[1])
    return choice.serves_others(asked, wasted)


def has_earned(step: Step, live: tuple[int, ...]) -> bool:
    """Whether runs by call have paid for a program."""
    known = None if step.cold is None else step.cold.get(live)
    return known is not None and known.lost.whole > 0


def paid_by(step: Step, live: tuple[int, ...]) -> float:
    """What runs by call took longer than an optimised program's: of the segment, or operator, and of graphs in it."""
    known = None if step.cold is None else step.cold.get(live)
    # A graph and its derivative have one account.
    trials = {s.call.graph.trial for s in step.path() if s.call.graph is not None}  # type: ignore[union-attr]
    lost = step.spent + (0.0 if known is None else known.lost.whole)
    return lost + sum(t.lost for t in trials if type(t) is Trial)


def forget() -> None:
    """Begin without a history of loops."""
    _held.clear()


def kept(results: Sequence[Any], device: Any) -> list[Any]:
    """Results of a run by call as values hold them: 64-bit and large ones on the device."""
    if forked[0]:
        return list(results)
    return [
        quick_put(r, device)
        if type(r) is np.ndarray and (r.itemsize == 8 or choice.goes_to_device(r.nbytes))
        else r
        for r in results
    ]
