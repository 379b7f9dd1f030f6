"""A segment run call by call: each computed by NumPy, or by a program of its own that everybody shares."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ... import settings
from ..calls.call import Call, Derivative
from ..calls.segment import SCALAR, Step, Tree, came_of
from ..calls.value import quick_put
from ..compile.compiler import platform_of
from ..compile.program import Program, needed
from ..compile.store import store
from ..hooks import observers
from ..run import choice
from ..run import price as price_of
from ..run.constants import CALL, FETCH, LINE, RUN, SINGLE, UNFUSED, UNKNOWN
from ..run.forks import forked
from ..run.price import Pair, Work, joined, plain
from .numpy_blocks import LARGE
from .symbolic import Bound, NotHere, own, trace

# Whether a fault in NumPy's rules is raised; without, a program computes the call.
strict = [False]

_mode = settings.snapshot("engine.cold")

# Compiles a step that is a segment by itself, with all its results, for everybody; and why NumPy has no rule, if so.
Build = Callable[[Step, str], Program]


_UNKNOWN = plain(UNKNOWN)


class Costs(NamedTuple):
    """Microseconds: what NumPy takes for calls, and how much less an optimised and a quick program would."""

    takes: float = 0.0
    saves: float = 0.0
    saves_quickly: float = 0.0

    def more(self, other: Costs, times: float = 1.0) -> Costs:
        """With so many times the other ones."""
        return Costs(*[a + b * times for a, b in zip(self, other, strict=True)])


class Part(NamedTuple):
    """A call of a segment: where its operands come from (`Step.args`), what they are, and how NumPy computes it.

    ``lost``: what a program of its own would save at most, a quick one (``quickly``), or, where that would not, an
    optimised one.
    """

    step: Step
    call: Call
    gets: tuple[int, ...]
    operands: tuple[Any, ...]
    bound: Bound | None
    costs: Costs
    quickly: bool
    lost: float


class Half(NamedTuple):
    """A part that hands ``passed`` arrays to the derivative of its call, or (``of`` that part) takes them.

    ``alike`` are the dynamic scalars that have to be equal for it.
    """

    fn: Callable[..., list[Any]]
    passed: int
    of: int = -1
    alike: Sequence[tuple[int, int]] = ()


class ByCall:
    """The calls of a segment that its live results need.

    ``price``: what the next run costs, in microseconds, missing programs included; ``saves``: how much less the
    segment's program would take, quick and optimised. ``size``: what a compiler would have to work for. ``gains``: a
    program of the segment would be more than the program of its only call, which there is, and which takes the call's
    numbers as operands. ``again``: the segment comes back, and what its own program saves is reckoned there.
    ``once``: the next run is that program. ``numpy=False``: programs alone.
    """

    __slots__ = ("_build", "_costs", "_device", "_ends", "_fetch", "_halves", "_numbers", "_parts", "_prices", "_runs",
                 "again", "gains", "numpy", "once", "price", "saves", "size")  # fmt: skip

    def __init__(self, step: Step, live: Sequence[int], device: Any, build: Build, *, numpy: bool):
        path = step.path()
        inputs = [a for s in path for a in s.new_ins]
        results = [a for s in path for a in s.avals]
        kept = path if len(live) == step.n_outs else needed(path, live)
        self._device = device
        self._build = build
        self.numpy = numpy
        self.once = False
        platform = platform_of(device)
        self._fetch = 0.0 if platform == "cpu" else FETCH
        self._prices = price_of.on(platform)
        self.gains = True
        self.again = False
        self._runs = 0
        self._halves: dict[int, Half] | None = None  # by part; None: it has not come back yet
        self._parts: list[Part] = []
        sizes: list[price_of.Part] = []
        missing = 0.0
        last: dict[int, int] = {}
        self._numbers: list[float | int] = []
        for at, (s, call, gets, operands) in enumerate(
            loosened(kept, inputs, results, step.fmt, self._numbers)
        ):
            for i in gets:
                last[i] = at
            bound = bound_of(s, call, operands, device) if numpy else None
            costs = Costs()
            if bound is not None:
                work = work_of(bound)
                costs = Costs(
                    work.takes, self._prices.saved(work), self._prices.saved_quickly(work)
                )
            size = _UNKNOWN if bound is None else bound.size
            outs = range(s.first, s.first + len(s.avals))
            last |= dict.fromkeys(outs, at)  # those that nobody reads end with their call
            sizes.append(price_of.Part(size, gets, outs, (call, operands)))
            quickly = costs.saves_quickly - SINGLE
            lost = quickly if quickly > 0 else costs.saves - SINGLE
            part = Part(s, call, gets, operands, bound, costs, quickly > 0, lost)
            self._parts.append(part)
            if bound is None and not self._compiled(part):
                missing += self._prices.quick(_UNKNOWN)
        self.size = joined(sizes, live)
        # Of runs for which NumPy computes what it can.
        calls = (CALL * len(kept),) * len(Costs._fields)
        self._costs = Costs(*map(sum, zip(calls, *[p.costs for p in self._parts], strict=True)))
        self._reckon(self._costs, missing)
        # The results that nobody reads after the call of this number.
        self._ends: list[tuple[int, ...]] = [()] * len(kept)
        keep = set(live)
        for k, at in last.items():
            if 0 <= k < SCALAR and k not in keep:
                self._ends[at] += (k,)

    def _reckon(self, costs: Costs, beside: float) -> None:
        """What the next run costs, if nothing changes."""
        self.price = costs.takes + beside
        beside -= RUN
        self.saves = Pair(max(0.0, costs.saves_quickly + beside), max(0.0, costs.saves + beside))

    def _single(self, part: Part, operands: tuple[Any, ...]) -> Step:
        """The step that is a segment of this call alone."""
        root = Tree.root(self._device)
        key = (part.call, *operands)
        return root.next.get(key) or root.grow(key, operands, self._device, part.step.scope)

    def _compiled(self, part: Part) -> bool:
        found = Tree.root(self._device).next.get((part.call, *part.operands))
        return found is not None and _whole(found) in found.programs

    def run(
        self, live: Sequence[int], arrays: Sequence[Any], scalars: Sequence[Any]
    ) -> tuple[list[Any], dict[int, tuple[int, ...]]]:
        """The live results, and the orders of axes of those that have one of their own."""
        with np.errstate(all="ignore"):
            return self._run(live, arrays, scalars)

    def _run(
        self, live: Sequence[int], arrays: Sequence[Any], scalars: Sequence[Any]
    ) -> tuple[list[Any], dict[int, tuple[int, ...]]]:
        env: dict[int, Any] = {}
        layouts: dict[int, tuple[int, ...]] = {}
        scalars = [*scalars, *self._numbers]
        watched = bool(observers)
        costs, fetched = self._costs, 0.0
        self.gains = len(self._parts) > 1 or bool(self._numbers)
        self._runs += 1
        if self._halves is None and self._runs > 1:
            self._halves = self._in_halves(scalars)
        shared = self._halves or {}
        handed: dict[int, Sequence[Any]] = {}
        for at, (part, ends) in enumerate(zip(self._parts, self._ends, strict=True)):
            args = [
                env[i] if 0 <= i < SCALAR else arrays[-1 - i] if i < 0 else scalars[i - SCALAR]
                for i in part.gets
            ]
            outs: Sequence[Any] | None = None
            if part.bound is not None:
                start = time.time_ns() if watched else 0
                if self._stays(part):
                    if at in shared:
                        outs = self._half(at, shared[at], args, scalars, handed)
                    if outs is None:
                        outs = self._numpy(part, args)
                if outs is None:
                    costs = costs.more(part.costs, UNFUSED - 1)
                elif self._fetch:
                    fetched += self._fetch * sum(isinstance(a, jax.Array) for a in args)
                self.gains = self.gains or outs is not None
                if start and outs is not None:
                    _tell(part.step, start)
            if outs is None:
                outs = self._program(part, args, layouts)
            for k, out in enumerate(outs, part.step.first):
                env[k] = out
            for k in ends:
                del env[k]
        self._reckon(costs, fetched)
        if not self.gains:
            self.price = CALL
        return [env[k] for k in live], layouts

    def _in_halves(self, scalars: Sequence[Any]) -> dict[int, Half]:
        """The parts that are a call and its derivative on the same operands, and small.

        A number is an operand of each by itself, so numbers are compared by value: dynamic ones in each run.
        """
        dynamic = SCALAR + len(scalars) - len(self._numbers)
        found: dict[int, Half] = {}
        first: dict[Any, int] = {}
        for at, part in enumerate(self._parts):
            bound, call = part.bound, part.call
            if type(bound) is not Bound:
                continue
            if any(type(a) is not str and a.size >= LARGE for a in part.operands):
                continue
            keys = [
                i if i < SCALAR else (repr(scalars[i - SCALAR]), i >= dynamic) for i in part.gets
            ]
            first.setdefault((call, *keys), at)
            if not isinstance(call, Derivative):
                continue
            before = first.get((call.forward, *keys[: len(call.wants)]), -1)
            if before < 0 or before in found:
                continue
            other = self._parts[before]
            pair = bound.after(other.bound)  # type: ignore[arg-type]
            if pair is not None:
                alike = [
                    (i - SCALAR, k - SCALAR)
                    for i, k in zip(other.gets, part.gets, strict=False) if SCALAR <= i < dynamic
                ]  # fmt: skip
                found[before] = Half(pair.forward, pair.passed)
                found[at] = Half(pair.backward, pair.passed, before, alike)
        return found

    def _half(
        self,
        at: int,
        half: Half,
        args: list[Any],
        scalars: Sequence[Any],
        handed: dict[int, Sequence[Any]],
    ) -> list[Any] | None:
        """The results of a call that hands something over, or of a derivative that takes it; None: it is not there."""
        given = [a if type(a) is np.ndarray else _array(a) for a in args]
        if half.of >= 0:
            # As texts, which tell zeros' signs and dtypes, too.
            if half.of not in handed or any(
                repr(scalars[i]) != repr(scalars[k]) for i, k in half.alike
            ):
                return None
            given += handed.pop(half.of)
        try:
            made = half.fn(*given)
        except (NotHere, ArithmeticError, LookupError, TypeError, ValueError):
            if strict[0]:
                raise
            self._halves = {}
            return None
        if half.of < 0:
            made, handed[at] = made[: -half.passed], made[-half.passed :]
        return [own(a, given) for a in made]

    def _given(self, a: Any) -> Any:
        """An array as programs take it: NumPy's 64-bit numbers only in JAX's 64-bit mode, so these travel now."""
        return quick_put(a, self._device) if type(a) is np.ndarray and a.itemsize == 8 else a

    def _stays(self, part: Part) -> bool:
        """Whether NumPy computes it; False where a program is better: there is one, or it would have paid off."""
        if part.lost > 0 and not forked[0] and _mode() != "interpret":
            single = self._single(part, part.operands)
            if _whole(single) in single.programs:
                return False
            if part.quickly or not self.again:
                prices, size = self._prices, part.bound.size  # type: ignore[union-attr]
                pays = prices.quick(size) if part.quickly else prices.whole(size)
                if choice.buys_operator(single.spent, part.lost, pays, self.once):
                    return False
                single.spent += part.lost
        return True

    def _numpy(self, part: Part, args: list[Any]) -> Sequence[Any] | None:
        """What NumPy gives; None where it does not."""
        try:
            return part.bound.run([a if type(a) is np.ndarray else _array(a) for a in args])  # type: ignore[union-attr]
        except NotHere:
            return None
        except (ArithmeticError, LookupError, TypeError, ValueError):
            if strict[0]:
                raise
            part.step.bound = (
                False  # a fault in a rule of ours is no reason to stop the user's program
            )
            return None

    def _why(self, part: Part) -> str:
        """Why NumPy does not compute a call, where it would be asked to."""
        if not self.numpy or is_asked_for(part.call):
            return ""
        try:
            return trace(part.call, part.operands, self._device).why
        except NotHere as error:
            return str(error)

    def _program(
        self, part: Part, args: list[Any], layouts: dict[int, tuple[int, ...]]
    ) -> Sequence[Any]:
        operands = part.operands
        if layouts:
            operands = tuple(
                [
                    a.in_layout(layouts[i]) if i in layouts else a
                    for i, a in zip(part.gets, operands, strict=True)
                ]
            )
        single = self._single(part, operands)
        program = single.programs.get(_whole(single))
        if program is None:
            try:
                why = "" if part.bound is not None else self._why(part)
                program = self._build(single, why)
            except Exception as error:
                error.mxjax_step = part.step  # type: ignore[attr-defined]  # the user's, not the one by itself
                raise
        program.used = store.now
        arrays = [self._given(a) for a, i in zip(args, part.gets, strict=True) if i < SCALAR]
        numbers = [a for a, i in zip(args, part.gets, strict=True) if i >= SCALAR]
        for k, order in program.layouts.items():
            layouts[part.step.first + k] = order
        return program.run(arrays, numbers)


def work_of(bound: Bound) -> Work:
    """What NumPy does for a call; an unrolled network has hundreds of each kind."""
    found: Work | None = getattr(bound, "cost", None)
    if found is None:
        work = bound.work() * 1e-6, bound.library() * 1e-6, bound.patches() * 1e-6
        found = Work(bound.steps() * LINE, *work)
        if type(bound) is Bound:
            bound.cost = found
    return found


def loosened(
    steps: Sequence[Step], inputs: Sequence[Any], results: Any, fmt: str, numbers: list[float | int]
) -> Iterator[tuple[Step, Call, tuple[int, ...], tuple[Any, ...]]]:
    """Each step's call without numbers of its own, where its operands come from and what they are.

    ``inputs`` and ``results`` are the avals of a segment or graph (by their numbers), ``fmt`` the kinds of its dynamic
    scalars. The calls' own numbers are appended to ``numbers`` and follow these: no program or trace for each value.
    """
    for s in steps:
        call, before, own = s.call.loose()  # type: ignore[union-attr]
        gets = s.args
        if own:
            before = len(gets) if before < 0 else before
            gets = (
                *gets[:before],
                *range(SCALAR + len(fmt), SCALAR + len(fmt) + len(own)),
                *gets[before:],
            )
            fmt += "".join(["d" if type(n) is float else "q" for n in own])
            numbers += own
        operands = tuple(
            [
                results[i] if 0 <= i < SCALAR else inputs[-1 - i] if i < 0 else fmt[i - SCALAR]
                for i in gets
            ]
        )
        yield s, call, gets, operands


def _whole(single: Step) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(range(single.n_outs)), ()


def _array(a: Any) -> Any:
    """An operand as NumPy takes it: a number in the dtype of a dynamic scalar (`call.SCALARS`)."""
    return np.float64(a) if type(a) is float else np.int64(a) if type(a) is int else np.asarray(a)


def _tell(step: Step, start: int) -> None:
    stop = time.time_ns()
    for o in observers:
        on_interpreted = getattr(o, "on_interpreted", None)
        if on_interpreted is not None:
            on_interpreted(step, start, stop)


def is_asked_for(call: Call) -> bool:
    """Whether this is a program that somebody asked for: a hybridized block's graph, or what holds its weights."""
    return call.graph is not None or call.places is not None


def bound_of(s: Step, call: Call, operands: tuple[Any, ...], device: Any) -> Bound | None:
    """How NumPy computes a step, if it does; found once for each."""
    if s.bound is None:
        # The derivative of a graph has no `forward`.
        s.bound = False
        if not is_asked_for(call) and (type(call) is not Derivative or call.forward is not None):
            try:
                found = trace(call, operands, device)
                s.bound = found if found.runs else False
            except NotHere:
                pass
            except Exception as error:
                came_of(error, s)
                raise
    return s.bound or None
