"""When recorded calls run, and as what: one program, or operator by operator."""

from __future__ import annotations

import sys
import time
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ... import errors
from ..calls import varying
from ..calls.aval import MeshDevice, NamedDevice
from ..calls.call import Call
from ..calls.known import Known
from ..calls.reading import asked
from ..calls.segment import Segment, Step, Tree
from ..calls.state import Churn, ThreadState, local, rules, states, tell_calls
from ..calls.value import (
    TRACED,
    Abstract,
    Evicted,
    Failure,
    Value,
    pending_errors,
    place,
    quick_put,
)
from ..compile.compiler import wide_types
from ..compile.donations import in_layouts
from ..compile.program import Program
from ..compile.store import store
from ..hooks import MemoryManager, deadlines, deferred, memory_managers, observers
from ..interpret.by_call import ByCall
from ..stats import stats
from . import callback, cold, interrupts
from .failures import fail, failed_beside, lose
from .halves import known_rest
from .host_compute import computed_here
from .known import on_device, run_known, wanted
from .programs import alone, choose, chosen_of, fell_back, nearest, run_for
from .programs import forget as forget_choices
from .spared import spared
from .work import Work

_count = sys.getrefcount
_weak = weakref.ref


def _calibrate() -> int:
    values = [Value.__new__(Value)]
    return [c for _, c in enumerate(map(_count, values))][0]


# What counting in this way gives for a value that one list alone holds.
_UNHELD = _calibrate()


def flush(seg: Segment | Known) -> None:
    """Run what was recorded; afterwards every value somebody holds is concrete."""
    if interrupts.swallowed:
        interrupts.hear_swallowed()
    if type(seg) is not Segment:
        v = wanted(seg) if type(seg) is Known else None
        if v is not None:
            read(v, raw=True)
        elif type(seg) is not Known:
            seg.run()  # type: ignore[union-attr]  # hooks.Deferred
        return
    if seg.graph:
        raise asked(seg)
    with seg.lock:
        if seg.closed:
            if not seg.ran:
                _run_closed(seg)  # another thread was interrupted as it did
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
            if seg.state.known.value is not None:
                flush(seg.state.known)
            if len(seg.slots) != step.n_ins or len(seg.outs) != step.n_outs:
                seg.mend()
                step = seg.step
            if not step.depth:
                return
            ins = list(seg.slots)
            outs, scalars = seg.outs, seg.scalars
            try:
                seg.slots.clear()
                seg.outs = []
                seg.closing = None
                if scalars:
                    seg.scalars = []
                if seg.times is not None:
                    tell_calls(seg, step)
                seg.step = Tree.root(seg.device)
                _run(seg, step, ins, outs, scalars, _UNHELD)
            except BaseException as error:
                if interrupts.is_asynchronous(error):
                    if outs:  # it did not run: it is as it was, and runs when somebody asks again
                        _take_back(seg, step, ins, outs, scalars, error)
                    raise
                _settle_failed(seg, step, outs, error)
            return
        # Its owner may be recording at this moment: what it looks at is left as it is.
        seg.closed = True
        _run_closed(seg)


def _run_closed(seg: Segment) -> None:
    """Run what was recorded before a segment was closed."""
    outs = seg.outs
    count = len(outs)
    step = seg.step
    while step.n_outs > count and step.parent is not None:
        step = step.parent
    ins = list(seg.slots)[: step.n_ins]
    if seg.times is not None:
        tell_calls(seg, step)
    seg.state.renew(seg)
    outs = outs[: step.n_outs]
    if step.depth:
        try:
            # The segment's own dictionary holds each input once more.
            _run(seg, step, ins, outs, seg.scalars[: len(step.fmt)], _UNHELD + 1, 1)
        except Exception as error:
            if interrupts.is_asynchronous(error):
                raise
            _settle_failed(seg, step, outs, error)
        finally:
            seg.ran = not outs
    else:
        seg.ran = True


def _settle_failed(seg: Segment, step: Step, outs: list[Value], error: BaseException) -> None:
    """A fault before there was a program, as one of an operator's function that is traced again: it fails once."""
    if not outs:
        raise error  # it is settled
    fail(seg, step, [v for v in outs if v.seg is seg], error)
    outs.clear()
    if not rules.catch:
        raise pending_errors.pop() from None


def _take_back(
    seg: Segment,
    step: Step,
    ins: list[Value],
    outs: list[Value],
    scalars: list[float | int],
    error: BaseException,
) -> None:
    """Let a segment be as it was before a run that was broken off."""
    if (seg.step.depth and seg.step is not step) or (len(ins), len(outs)) != (
        step.n_ins,
        step.n_outs,
    ):
        # Something was recorded into it meanwhile, or a memory manager has had it.
        lose(seg, step, [v for v in outs if v.seg is seg], error)
        return
    seg.slots.clear()
    seg.slots.update({v: -1 - k for k, v in enumerate(ins)})
    seg.outs, seg.scalars = outs, scalars
    seg.step = step


def drop_programs() -> None:
    """Forget all recorded structures with their programs: a setting that shapes programs has changed."""
    flush_all()
    Tree.clear()
    store.clear()
    forget_choices()
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
    forget_choices()
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
    step = seg.step
    stats.solo += 1
    try:
        if step.call.graph is not None:  # type: ignore[union-attr]
            (array,) = solo(*on_device(slots))
        elif len(slots) == 1:
            (a,) = slots
            (array,) = solo(a.arr)
        elif len(slots) == 2:
            a, b = slots
            (array,) = solo(a.arr, b.arr)
        else:
            (array,) = solo(*[i.arr for i in slots])
    except Exception as error:
        if interrupts.is_asynchronous(error):
            raise
        (v,) = seg.outs
        _empty(seg, step)
        fail(seg, step, [v], error)
        return
    v = seg.outs[0]
    try:
        v.arr = array
        v.step = step
        v.seg = None
        slots.clear()
        seg.outs.clear()
        seg.step = step.parent  # type: ignore[assignment]
        # A network may take a while.
        if step.call.graph is not None and not array.is_ready():  # type: ignore[union-attr]
            _began(array)
    except BaseException:
        v.arr, v.step, v.seg = array, step, None
        _empty(seg, step)
        raise


def _empty(seg: Segment, step: Step) -> None:
    """Let nothing be recorded in a segment that was one call."""
    seg.slots.clear()
    seg.outs.clear()
    seg.step = step.parent  # type: ignore[assignment]


def _run(
    seg: Segment,
    step: Step,
    ins: list[Value],
    outs: list[Value],
    scalars: Sequence[float | int],
    unheld_in: int,
    extra: int = 0,
) -> None:
    """Run recorded steps. ``outs`` are held by this list alone (and ``extra`` times elsewhere).

    The list is emptied once all is settled: who needs a result has it, or the error. What comes from outside before
    that (`is_asynchronous`) leaves inputs and results as they are, and it may be run again.
    """
    stats.segments += 1
    stats.operators += step.depth
    unheld = _UNHELD + extra
    live = tuple([k for k, c in enumerate(map(_count, outs)) if c > unheld])
    if not live and not step.effects:
        outs.clear()
        return
    for manager in memory_managers:
        if local.st.rehearsing is not None:
            break  # nothing runs
        outs[:] = [outs[k] for k in live]
        try:
            interrupts.shielded(_run_managed)(
                manager, Work(seg, step, ins, outs, live, scalars, unheld_in)
            )
        finally:
            if all(v.seg is None for v in outs):
                outs.clear()
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
    held = outs if len(live) == len(outs) else [outs[k] for k in live]
    if program is None and home.host is not False and not observers:
        found = computed_here(home, arrays, scalars, live, device)
        if found is not None:
            for v in held:
                v.shared = True  # NumPy's memory: no program may write over it
            _settle(outs, held, found, step)
            return
    rehearsing = local.st.rehearsing
    if rehearsing is not None and not rehearsing.compiles:
        _settle(outs, held, [Abstract(v.aval) for v in held], step)
        return
    results = _compute(seg, step, home, program, outs, held, live, dying, arrays, scalars, device)
    ins.clear()
    if results and type(results[-1]) is not np.ndarray:
        _began(results[-1])


def _settle(outs: list[Value], held: Sequence[Value], results: Sequence[Any], step: Step) -> None:
    """Give values their arrays, and empty the list of results: the run is over."""
    try:
        for v, r in zip(held, results, strict=True):
            v.arr = r
            v.step = step
            v.seg = None
        held = ()
        outs.clear()
    except BaseException:
        for v, r in zip(held, results, strict=False):
            v.arr, v.step, v.seg = r, step, None
        outs.clear()
        raise


def _compute(
    seg: Segment,
    step: Step,
    home: Step,
    program: Program | None,
    outs: list[Value],
    held: Sequence[Value],
    live: tuple[int, ...],
    dying: tuple[int, ...],
    arrays: list[Any],
    scalars: Sequence[float | int],
    device: Any,
) -> Sequence[Any] | None:
    """The results of `_run`, by a program or call by call, which the values have now; None where that failed."""
    results: Sequence[Any] | None = None
    layouts: Any = None
    before: list[Any] = []
    whole = live, arrays, scalars
    try:
        by_call = halves = None
        rehearsing = local.st.rehearsing
        if program is None and rehearsing is None and nearest(home, (live, dying)) is None:
            by_call = cold.by_call(home, live, device, alone(device), seg.once)
            if (
                by_call is None and type(device) is not MeshDevice
            ):  # only a whole program knows how arrays are spread
                halves = known_rest(home, live, dying)
        if by_call is not None:
            stats.interpreted += 1
        elif halves is not None:
            before = halves.first_results(arrays, scalars, device)
            arrays, scalars = [arrays[j] for j in halves.ins], scalars[len(halves.first.fmt) :]
            live = halves.rest_live
            program = choose(seg, halves.rest, halves.program, live, (), device)
            halves.end(step)
        else:
            program = choose(seg, home, program, live, dying, device)
            if program is None:
                fell_back(seg)
                here = cold.is_cold_here(home.effects, device) and cold.is_in_reach(home, device)
                by_call = ByCall(home, live, device, alone(device), numpy=here)
        if by_call is not None:
            results, layouts = by_call.run(live, arrays, scalars)
            if by_call.numpy:
                results = cold.kept(results, device)
        elif program is not None:
            if step is not home and program.call is home.solo is not step.solo:
                step.solo = home.solo
                program.names.append(_weak(step))
            layouts = program.layouts
            results = [*before, *run_for(program, arrays, scalars, live)]
        assert results is not None
        _fill(outs, held, results, step, live, layouts, device)
    except BaseException as error:
        if not outs:
            raise  # it is settled
        if results is None and program is not None:
            results = program.left_in(arrays)
            if results is not None:
                results = [*before, *chosen_of(program, results, live)]
        if results is not None:  # the inputs may be overwritten by now
            _fill(outs, held, results, step, live, layouts, device)
            raise
        if (
            interrupts.is_asynchronous(error)
            and not step.effects
            and not any(map(_is_gone, arrays))
        ):
            raise
        fail(seg, step, list(held), error)
        _spare(step, home, held, whole, device)
        outs.clear()
        if not isinstance(error, Exception):
            raise
        if not rules.catch:
            raise pending_errors.pop() from None
        return None
    return results


def _spare(step: Step, home: Step, held: Sequence[Value], whole: Any, device: Any) -> None:
    """Give numbers to the values of a failed run that depend on nothing an operator refused."""
    live, arrays, scalars = whole
    if (
        not getattr(pending_errors[-1].__cause__, "refused", False)  # another fault than numbers
        or local.st.rehearsing is not None
        or type(device) is MeshDevice
        or any(map(_is_gone, arrays))
    ):
        return
    for k, (made, layouts) in spared(home, live, arrays, scalars, device).items():
        v = held[live.index(k)]
        if layouts:
            in_layouts(layouts, [v], (k,))
        v.arr = made


def _fill(
    outs: list[Value],
    held: Sequence[Value],
    results: Sequence[Any],
    step: Step,
    live: tuple[int, ...],
    layouts: Any,
    device: Any,
) -> None:
    """Give values what a program made for them; to do it twice does no harm."""
    if type(device) is MeshDevice:
        for v, r in zip(held, results, strict=True):
            v.aval = v.aval.laid(r.sharding)
    if layouts:
        in_layouts(layouts, held, live)
    _settle(outs, held, results, step)


def _is_gone(array: Any) -> bool:
    """Whether a program has taken an array's place."""
    return isinstance(array, jax.Array) and array.is_deleted()


def _fetch(ins: list[Value], arrays: list[Any], device: Any, unheld: int) -> None:
    """Put inputs that NumPy computed and somebody holds on the device, once for all."""
    for k, held in enumerate(map(_count, ins)):
        if held > unheld and type(arrays[k]) is np.ndarray:
            arrays[k] = ins[k].arr = quick_put(arrays[k], device)


def _began(array: Any) -> None:
    """A program runs whose last result this is: `wait_all` waits for it, and so does whoever is too far ahead."""
    _running.append(_weak(array))
    if len(_running) > rules.queue:
        _wait_for_oldest()


def _wait_for_oldest() -> None:
    """The queue of running programs is full: wait until those over its bound are done."""
    while len(_running) > rules.queue:
        array = _running.popleft()()
        if array is not None and not array.is_deleted():
            stats.waits += 1
            array.block_until_ready()


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


_running: deque[weakref.ref[Any]] = deque(maxlen=256)


def read(v: Value, raw: bool = False, waiting: bool = False) -> Any:
    """The array of a value; runs its segment if it is pending, raises what its program raised.

    ``raw``: what the value holds, be it given up, failed, or NumPy's. ``waiting``: the caller waits for
    it at once, so that `wait_all` need not know of it.
    """
    seg = v.seg
    if seg is not None:
        if type(seg) is Known:
            array = run_known(seg, v)
            if array is None:
                return read(v, raw, waiting)
            if not waiting and type(array) is not Failure and not array.is_ready():
                _began(array)
            return array if raw or type(array) is not Failure else _unusual(v, array)
        if seg is TRACED:
            return v.arr
        solo = seg.step.solo
        if (
            solo is not None
            and seg.state is local.st
            and not observers
            and not memory_managers
            and not seg.waits
        ):
            with seg.lock:
                if v.seg is seg:
                    _run_solo(seg, solo)
        else:
            flush(seg)
    arr = v.arr
    return arr if raw or type(arr) not in UNUSUAL else _unusual(v, arr)


# What stands for an array that cannot simply be handed out; asked for in one look-up per read.
UNUSUAL = {Failure, Evicted, Abstract, np.ndarray}


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
            "an array cannot be read inside a rehearsal, which compiles the step and runs nothing. "
            "Leave asnumpy, float, bool and printing out of the rehearsed function"
        )
    device = v.aval.device
    if type(device) is NamedDevice:
        device = device.physical
    if type(device) is MeshDevice or v.aval.memory is not None:
        with wide_types():  # else 64-bit numbers would lose half of their bits
            arr = v.arr = place(arr, device if v.aval.memory is None else v.aval.sharding)
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
    elif seg.step.ends:
        flush(seg)
    elif not st.taping:
        if call is seg.closing:
            flush(seg)
        elif call is seg.step.opening:
            # A loop began again: the segment ends with the loop's last call, when that comes next.
            seg.closing = seg.step.parent.call  # type: ignore[union-attr]


def flush_thread(st: ThreadState | None = None) -> None:
    """Run everything this thread has recorded."""
    st = st or local.st
    if st.known.value is not None:
        flush(st.known)
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


def told() -> None:
    """A reader has the error of a program that failed as it ran: `wait_all` need not raise it again."""
    # Not by `remove`: references to arrays are equal where the arrays are, number by number.
    failed = {id(r) for r in tuple(_running) if failed_beside(r(), wait=False)}
    for _ in range(len(_running)) if failed else ():
        running = _running.popleft()
        if id(running) not in failed:
            _running.append(running)


def _wait_all() -> None:
    start = time.time_ns()
    flush_all()
    while _running:
        pending_errors.extend(filter(None, [failed_beside(_running.popleft()())]))
    callback.barrier()
    for o in observers:
        o.on_sync("waitall", start, time.time_ns())
