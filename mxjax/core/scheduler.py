"""When recorded calls run, and as what: one program, or operator by operator."""

from __future__ import annotations

import sys
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .. import errors
from . import callback, cold, interrupts, reasons, varying
from .aval import MeshDevice, NamedDevice, physical
from .by_call import Build, ByCall
from .call import Call
from .failures import fail, lose
from .hooks import MemoryManager, deadlines, deferred, memory_managers, observers
from .host_compute import computed_here
from .program import Program, in_layouts
from .reading import asked
from .rehearsal import Abstract
from .segment import Segment, Step, Tree
from .state import Churn, ThreadState, local, rules, states, tell_calls
from .stats import stats
from .store import store
from .value import TRACED, Evicted, Failure, Value, pending_errors, place, quick_put

# Compiling a segment pays when it comes back. Programs that never came back are a loss, so only so
# many may stand unproven at a time; beyond that a segment runs operator by operator until it comes back
# twice in short order (a loop), or so often that the time lost would have paid several times for a program.
# On CPUs this holds for large segments alone: small ones have a tier of their own (cold.py).
UNPROVEN = 2
OFTEN = 1500  # times that a segment ran by operator: what was lost so would have paid several programs
VARIANTS = 6  # programs of one segment that differ in results and donations only


class _Ledger:
    """The state of that bargain."""

    unproven = 0
    proven = 0
    # The last segments without a program: a loop of up to some twenty is recognised.
    recent: deque[weakref.ref[Step]] = deque(maxlen=64)


_count = sys.getrefcount
_weak = weakref.ref


def _calibrate() -> int:
    values = [Value.__new__(Value)]
    return [c for _, c in enumerate(map(_count, values))][0]


# What counting in this way gives for a value that one list alone holds.
_UNHELD = _calibrate()


def flush(seg: Segment) -> None:
    """Run what was recorded; afterwards every value somebody holds is concrete."""
    if type(seg) is not Segment:
        seg.run()  # type: ignore[attr-defined]  # hooks.Deferred
        return
    if seg.graph:
        raise asked(seg)
    with seg.lock:
        if seg.closed:
            return
        if seg.waits and not seg.is_ready(flush):
            return
        step = seg.step
        if seg.state is local.st and not step.effects:
            # The owner takes the contents out and goes on with the same segment.
            solo = step.solo
            if solo is not None and not observers and not memory_managers:
                _run_solo(seg, solo)
                return
            if not step.depth:
                return
            if len(seg.slots) != step.n_ins:
                seg.rollback()  # of a call that was interrupted
            ins = list(seg.slots)
            outs, scalars = seg.outs, seg.scalars
            seg.slots.clear()
            seg.outs = []
            seg.closing = None
            if scalars:
                seg.scalars = []
            if seg.times is not None:
                tell_calls(seg, step)
            seg.step = Tree.root(seg.device)
            try:
                _run(seg, step, ins, outs, scalars, _UNHELD)
            except BaseException as error:  # Ctrl-C before the calls began: their results must not look like later ones
                lose(seg, step, [v for v in outs if v.seg is seg], error)
                raise
            return
        # Its owner may be recording at this moment: what it looks at is left as it is.
        seg.closed = True
        outs = seg.outs
        count = len(outs)
        step = seg.step
        while step.n_outs > count and step.parent is not None:
            step = step.parent
        ins = list(seg.slots)[: step.n_ins]
        if seg.times is not None:
            tell_calls(seg, step)
        seg.state.renew(seg)
        if step.depth:
            # The segment's own dictionary holds each input once more.
            _run(seg, step, ins, outs[: step.n_outs], seg.scalars[: len(step.fmt)], _UNHELD + 1, 1)


def drop_programs() -> None:
    """Forget all recorded structures with their programs: a setting that shapes programs has changed."""
    flush_all()
    Tree.clear()
    store.clear()
    _Ledger.unproven = _Ledger.proven = 0  # those are gone, and not for want of use
    _Ledger.recent.clear()
    for st in list(states):
        for seg in st.segments():
            if not seg.step.depth:
                seg.step = Tree.root(seg.device)


def forget(programs: bool = True) -> None:
    """Start this thread's engine without a history, and without programs unless those may stay."""
    if programs:
        drop_programs()
    else:
        flush_thread()
    _Ledger.unproven = _Ledger.proven = 0
    _Ledger.recent.clear()
    cold.forget()
    varying.of_calls.clear()
    st = local.st
    st.churn = Churn()
    if programs:
        st.segs.clear()
        st.aside.clear()
        st.seg = Segment(st, None)
    st.refresh()


def _run_solo(seg: Segment, solo: Any) -> None:
    """A segment of one small operator: nothing to choose, nothing worth donating."""
    slots = seg.slots
    v = seg.outs.pop()
    step = v.step = seg.step
    seg.step = step.parent  # type: ignore[assignment]
    stats.solo += 1
    try:
        if len(slots) == 1:
            (a,) = slots
            slots.clear()
            (v.arr,) = solo(a.arr)
        elif len(slots) == 2:
            a, b = slots
            slots.clear()
            (v.arr,) = solo(a.arr, b.arr)
        else:
            arrays = [i.arr for i in slots]
            slots.clear()
            (v.arr,) = solo(*arrays)
    except Exception as error:
        fail(seg, step, [v], error)
    v.seg = None


SOLO_BYTES = 1 << 16  # up to this size the engine's own work counts more than a donated buffer


def _run(
    seg: Segment,
    step: Step,
    ins: list[Value],
    outs: list[Value],
    scalars: Sequence[float | int],
    unheld_in: int,
    extra: int = 0,
) -> None:
    """Run recorded steps. ``outs`` are held by this list alone (and ``extra`` times elsewhere)."""
    stats.segments += 1
    stats.operators += step.depth
    unheld = _UNHELD + extra
    live = tuple([k for k, c in enumerate(map(_count, outs)) if c > unheld])
    if not live and not step.effects:
        return
    for manager in memory_managers:
        if local.st.rehearsing is not None:
            break  # nothing runs
        outs[:] = [outs[k] for k in live]
        _run_managed(manager, Work(seg, step, ins, outs, live, scalars, unheld_in))
        return
    dying = tuple(
        [
            j
            for j, c in enumerate(map(_count, ins))
            if c <= unheld_in and not ins[j].shared and ins[j].aval.shape
        ]
    )
    if not rules.donate:
        dying = ()
    # Programs belong to the physical device: all its names share them.
    home, device = step, seg.device
    if type(device) is NamedDevice:
        home, device = step.at_home(device), device.physical
    program = home.programs.get((live, dying))
    arrays = [v.arr for v in ins]
    if program is not None and cold.used[0]:
        _fetch(ins, arrays, device, unheld_in)
    ins.clear()
    if len(live) != len(outs):
        outs = [outs[k] for k in live]
    if program is None and home.host is not False and not observers:
        if computed_here(home, outs, arrays, scalars, live, device):
            return
    rehearsing = local.st.rehearsing
    if rehearsing is not None and not rehearsing.compiles:
        for v in outs:
            v.arr = Abstract(v.aval)
            v.step = step
            v.seg = None
        return
    # Weights that are overwritten would be lost with an interrupted run. Custom operators may take for ever.
    shield = interrupts.begin() if (dying or program is None) and not step.effects else None
    try:
        by_call = None
        try:
            if program is None and rehearsing is None and _nearest(home, (live, dying)) is None:
                by_call = cold.by_call(home, live, device, _alone(device), seg.once)
            if by_call is not None:
                stats.interpreted += 1
            else:
                program = _program(seg, home, program, live, dying, device)
                if program is None:
                    _fell_back(seg)
                    here = cold.is_cold_here(home.effects, device) and cold.is_in_reach(home, device)
                    by_call = ByCall(home, live, device, _alone(device), numpy=here)
            results: Sequence[Any]
            if by_call is not None:
                results, layouts = by_call.run(live, arrays, scalars)
                if by_call.numpy:
                    results = cold.kept(results, device)
            elif program is not None:
                if step is not home and program.call is home.solo is not step.solo:
                    step.solo = home.solo
                    program.names.append(_weak(step))
                results, layouts = _results(program, arrays, scalars, live), program.layouts
        except BaseException as error:
            fail(seg, step, outs, error)
            if not isinstance(error, Exception):
                raise
            if not rules.catch:
                raise pending_errors.pop() from None
            return
        if type(device) is MeshDevice:
            for v, r in zip(outs, results, strict=True):
                v.aval = v.aval.laid(r.sharding)
        if layouts:
            in_layouts(layouts, outs, live)
        for v, r in zip(outs, results, strict=True):
            v.arr = r
            v.step = step
            v.seg = None
        if results and type(results[-1]) is not np.ndarray:
            _running.append(_weak(results[-1]))
            if len(_running) > rules.queue:
                _wait_for_oldest()
    finally:
        if shield is not None:
            interrupts.end(shield)


def _fetch(ins: list[Value], arrays: list[Any], device: Any, unheld: int) -> None:
    """Put inputs that NumPy computed and somebody holds on the device, once for all."""
    for k, held in enumerate(map(_count, ins)):
        if held > unheld and type(arrays[k]) is np.ndarray:
            arrays[k] = ins[k].arr = quick_put(arrays[k], device)


def _wait_for_oldest() -> None:
    """The queue of running programs is full: wait until those over its bound are done."""
    while len(_running) > rules.queue:
        array = _running.popleft()()
        if array is not None and not array.is_deleted():
            stats.waits += 1
            array.block_until_ready()


def _program(
    seg: Segment,
    step: Step,
    program: Program | None,
    live: tuple[int, ...],
    dying: tuple[int, ...],
    device: Any,
) -> Program | None:
    """The program found for these results and donations, or a new one, or ``None``."""
    if program is None:
        return _choose(step, (live, dying), device)
    stats.hits += 1
    program.used = store.now
    if not program.proven:
        program.proven = True
        single = step.depth == 1 and live == (0,) and not step.fmt and not program.donate
        single = single and type(device) is not MeshDevice
        if single and _small(step):
            step.solo = program.call
        if step.depth > 1:
            _Ledger.unproven -= 1
            _Ledger.proven += 1
    if step.depth > 1 and seg.state.churn.streak:
        seg.state.churn.came_back()
    return program


def _results(
    program: Program, arrays: list[Any], scalars: Sequence[Any], live: tuple[int, ...]
) -> Sequence[Any]:
    results = program.run(arrays, scalars)
    if program.live != live:
        at = dict(zip(program.live, results, strict=True))
        results = [at[k] for k in live]
    return results


def _fell_back(seg: Segment) -> None:
    stats.fallbacks += 1
    if seg.state.churn.fell_back() and seg.state is local.st:
        seg.state.refresh()


class Work:
    """A segment to run, as the memory manager gets it.

    ``ins`` are its inputs, a list the manager empties; ``outs`` the values somebody holds, whose numbers
    are ``live``.
    """

    __slots__ = ("device", "ins", "live", "outs", "scalars", "seg", "step", "unheld")

    def __init__(
        self,
        seg: Segment,
        step: Step,
        ins: list[Value],
        outs: list[Value],
        live: tuple[int, ...],
        scalars: Sequence[float | int],
        unheld: int,
    ):
        self.seg = seg
        self.device = physical(seg.device)
        self.step = step if self.device is seg.device else step.at_home(seg.device)
        self.ins = ins
        self.outs = outs
        self.live = live
        self.scalars = scalars
        self.unheld = unheld

    def dying(self, known: Mapping[int, int] | None = None) -> tuple[int, ...]:
        """The inputs that nobody holds; ``known`` counts, by ``id``, references the manager will let go."""
        ins = self.ins
        counts = [c for _, c in enumerate(map(_count, ins))]
        if known:
            counts = [c - known.get(id(v), 0) for c, v in zip(counts, ins, strict=True)]
        return tuple(
            [
                j
                for j, c in enumerate(counts)
                if c <= self.unheld and not ins[j].shared and ins[j].aval.shape
            ]
        )

    def program(self, dying: tuple[int, ...]) -> Program | None:
        """The whole segment as one program; ``None`` where the engine would not compile it."""
        found = self.step.programs.get((self.live, dying))
        return _program(self.seg, self.step, found, self.live, dying, self.device)

    def results(self, program: Program, arrays: list[Any]) -> Sequence[Any]:
        """What the program gives for ``outs``; the list is used up."""
        if program.layouts:
            in_layouts(program.layouts, self.outs, self.live)
        return _results(program, arrays, self.scalars, self.live)

    def fell_back(self) -> None:
        """The segment runs operator by operator because the engine would not compile it."""
        _fell_back(self.seg)

    def fill(self, out: Value, array: Any) -> None:
        """Make one of ``outs`` concrete."""
        if type(self.device) is MeshDevice:
            out.aval = out.aval.laid(array.sharding)
        out.arr = array
        out.step = self.step
        out.seg = None


def _run_managed(manager: MemoryManager, work: Work) -> None:
    try:
        manager.run(work)
    except BaseException as error:
        if isinstance(error, errors.MXNetMemoryError):
            error.__traceback__ = None  # its frames hold the arrays that were in the way
        fail(work.seg, work.step, [v for v in work.outs if v.seg is not None], error)
        if not isinstance(error, Exception):
            raise
    finally:
        work.ins.clear()
    for v in reversed(work.outs):
        if isinstance(v.arr, jax.Array):
            _running.append(_weak(v.arr))
            break


def _small(step: Step) -> bool:
    return step.one is not None and step.one.nbytes <= SOLO_BYTES and not step.effects


_running: deque[weakref.ref[Any]] = deque(maxlen=256)


def _choose(step: Step, key: tuple[tuple[int, ...], tuple[int, ...]], device: Any) -> Program | None:
    """A program for a segment that has none yet, or ``None`` to run it operator by operator."""
    if step.programs and (len(step.programs) >= VARIANTS or cold.is_new_variant(step, key, device)):
        near = _nearest(step, key)
        if near is not None:
            return near
    # On a mesh only a whole program knows how what lies between two operators is spread.
    steady = local.st.steady or local.st.rehearsing is not None or type(device) is MeshDevice
    steady = steady or cold.has_earned(step, key[0])
    if step.depth > 1 and not step.effects and not steady:
        allowed = UNPROVEN + _Ledger.proven // 2
        if _Ledger.unproven >= allowed:
            step.seen += 1
            often = step.seen > OFTEN
            again = _Ledger.recent.count(_weak(step)) >= 2
            _Ledger.recent.append(_weak(step))
            if not often and not again:
                return None
    known = reasons.note(step, key[0], device)
    reason = reasons.explain(step, key[0], key[1], known) if observers else ""
    program = build(step, key[0], key[1], device, reason)
    if step.depth > 1:
        if steady:
            program.proven = True
        else:
            _Ledger.unproven += 1
    store.keep(step, key, program)
    return program


def _nearest(step: Step, key: tuple[tuple[int, ...], tuple[int, ...]]) -> Program | None:
    """A program that returns at least these results and donates nothing that must stay."""
    if not step.programs:
        return None
    live, dying = set(key[0]), set(key[1])
    for (others, _), program in list(step.programs.items()):
        if live.issubset(others) and dying.issuperset(program.donate):
            return program  # type: ignore[no-any-return]
    return None


def build(
    step: Step, live: Sequence[int], dying: Sequence[int], device: Any, reason: str
) -> Program:
    """Compile the segment that ends with this step."""
    path = step.path()
    name = path[-1].call.name if step.depth == 1 else f"segment{step.depth}"  # type: ignore[union-attr]
    avals = [a for s in path for a in s.new_ins]
    return Program(name, path, avals, step.fmt, tuple(live), dying, device, reason)


def _alone(device: Any) -> Build:
    """Compiles a step that is a segment by itself, with all its results."""

    def compiled(step: Step) -> Program:
        whole = tuple(range(step.n_outs))
        program = build(step, whole, (), device, "an operator by itself")
        store.keep(step, (whole, ()), program)
        return program

    return compiled


def read(v: Value, raw: bool = False) -> Any:
    """The array of a value; runs its segment if it is pending, raises what its program raised.

    ``raw``: what the value holds, be it given up, failed, or NumPy's.
    """
    seg = v.seg
    if seg is not None:
        if seg is TRACED:
            return v.arr
        solo = seg.step.solo
        if solo is not None and seg.state is local.st and not observers and not memory_managers and not seg.waits:
            with seg.lock:
                if v.seg is seg:
                    _run_solo(seg, solo)
        else:
            flush(seg)
    arr = v.arr
    return _unusual(v, arr) if type(arr) in _UNUSUAL and not raw else arr


# What stands for an array that cannot simply be handed out; asked for in one look-up per read.
_UNUSUAL = {Failure, Evicted, Abstract, np.ndarray}


def _unusual(v: Value, arr: Any) -> Any:
    if type(arr) is Failure:
        if not arr.spent:
            arr.reach_user()
        of = v.aval
        arr = np.full(of.shape, 0 if of.dtype.kind in "biu" else np.nan, of.dtype)
    if type(arr) is Evicted:
        return arr.manager.restore(v)
    if type(arr) is Abstract:
        raise errors.MXNetError(
            "the number of an array was asked for that a rehearsed step would have computed: in a rehearsal "
            "nothing runs. Leave asnumpy, float, bool and printing out of the rehearsed function"
        )
    device = v.aval.device
    if type(device) is NamedDevice:
        device = device.physical
    if type(device) is MeshDevice:
        with jax.enable_x64(True):  # else 64-bit numbers would lose half of their bits
            arr = v.arr = place(arr, device)
    else:
        arr = v.arr = quick_put(arr, device)
    return arr


def at_limit(st: ThreadState, seg: Segment, call: Call) -> None:
    """The segment is long: run it, if possible where a loop of the user begins again."""
    if seg.graph:
        return
    depth = seg.step.depth
    if depth >= st.limit:
        flush(seg)
        if st.modes.naive:
            wait_all()
        churn = st.churn
        if churn.direct:
            churn.direct -= 1
            if not churn.direct:
                st.refresh()
    elif not st.taping:
        if call is seg.closing:
            flush(seg)
        elif call is seg.step.opening:
            # A loop began again: the segment ends with the loop's last call, when that comes next.
            seg.closing = seg.step.parent.call  # type: ignore[union-attr]


def flush_thread(st: ThreadState | None = None) -> None:
    """Run everything this thread has recorded."""
    st = st or local.st
    for seg in st.segments():
        if not seg.closed and seg.step.depth:
            flush(seg)


def flush_all() -> None:
    """Run everything any thread has recorded."""
    for st in list(states):
        flush_thread(st)
    for waiting in list(deferred):
        waiting.run()


def wait_all() -> None:
    """Run everything and wait for it; raises the first error nobody has seen."""
    if deadlines:
        deadlines[0](_wait_all, "everything", "timeout.waitall")
    else:
        _wait_all()
    if pending_errors:
        error = pending_errors[0]
        pending_errors.clear()
        raise error


def _wait_all() -> None:
    start = time.time_ns()
    flush_all()
    while _running:
        array = _running.popleft()()
        if array is not None and not array.is_deleted():
            array.block_until_ready()
    callback.barrier()
    for o in observers:
        o.on_sync("waitall", start, time.time_ns())
