"""Recording: the one way operators run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import time_ns
from typing import Any

import jax
import numpy as np

from ... import errors
from ..compile import compiler
from ..compile.compiler import wide_types
from ..compile.program import to_device
from ..graph.jaxprs import is_shared_out
from ..hooks import call_listeners, movers, operator_wrappers, tape_writers
from ..placement.devices import default_device, shown
from ..run import cold, scheduler
from ..run.failures import Postponed, failed_value, unchecked_avals
from ..run.interrupts import is_asynchronous
from ..run.known import begin_with, on_device, wanted
from ..stats import stats
from . import varying
from .aval import Aval, NamedDevice
from .call import Call, Row, dressed
from .known import Known
from .segment import Elsewhere, Segment, Step, TracedInput, mirroring, user_site
from .state import ThreadState, local, rules
from .value import TRACED, Dynamic, Failure, Value, movable, pending_errors, renamed, traced

_new = Value.__new__


def record(call: Call, inputs: Sequence[Any]) -> tuple[Value, ...]:
    """Append a call to the current segment; its results are pending values.

    An exception may come at any place of this and of the functions like it: what the call has left in the segment by
    then is taken out again (`Segment.mend`).
    """
    st = local.st
    seg = st.seg
    times = seg.times
    try:
        if times is not None and not times:
            times.append(-time_ns())
        key: Any = [call]
        try:
            for v in inputs:
                key.append(v.idx if v.seg is seg else seg.enter(v))
        except (Elsewhere, TracedInput):
            return _record_elsewhere(st, call, inputs)
        key = tuple(key)
        step = seg.step.next.get(key)
        if step is None:
            try:
                step = _grow(st, seg, key, inputs)
            except Postponed as error:
                return _put_off(st, seg, call, inputs, error)
        aval = step.one
        if aval is not None:
            v = _new(Value)
            v.seg = seg
            v.idx = step.first
            v.aval = aval
            v.tape = None
            v.shared = False
            seg.step = step
            seg.outs.append(v)
            if st.slow or seg.closed or step.reach >= st.soft:
                return _finish(st, seg, step, call, inputs, (v,))
            if times is not None:
                times.append(time_ns())
            return (v,)
        return _record_many(st, seg, step, call, inputs)
    except BaseException:
        seg.mend()
        raise


def record1(call: Call, a: Value) -> Value:
    """:func:`record` for one input and one output, the commonest call."""
    st = local.st
    seg = st.seg
    times = seg.times
    try:
        if times is not None and not times:
            times.append(-time_ns())
        step = seg.step.next.get((call, a.idx)) if a.seg is seg else None
        if step is None or step.one is None:
            return record(call, (a,))[0]
        v = _new(Value)
        v.seg = seg
        v.idx = step.first
        v.aval = step.one
        v.tape = None
        v.shared = False
        seg.step = step
        seg.outs.append(v)
        if st.slow or seg.closed or step.reach >= st.soft:
            return _finish(st, seg, step, call, (a,), (v,))[0]
        if times is not None:
            times.append(time_ns())
        return v
    except BaseException:
        seg.mend()
        raise


def record2(call: Call, a: Value, b: Value) -> Value:
    """:func:`record` for two inputs and one output."""
    st = local.st
    seg = st.seg
    times = seg.times
    try:
        if times is not None and not times:
            times.append(-time_ns())
        try:
            key = (
                call,
                a.idx if a.seg is seg else seg.enter(a),
                b.idx if b.seg is seg else seg.enter(b),
            )
        except (Elsewhere, TracedInput):
            return _record_elsewhere(st, call, (a, b))[0]
        step = seg.step.next.get(key)
        if step is None:
            step = _grow(st, seg, key, (a, b))
        v = _new(Value)
        v.seg = seg
        v.idx = step.first
        v.aval = step.one  # type: ignore[assignment]  # binary operators have one result
        v.tape = None
        v.shared = False
        seg.step = step
        seg.outs.append(v)
        if st.slow or seg.closed or step.reach >= st.soft:
            return _finish(st, seg, step, call, (a, b), (v,))[0]
        if times is not None:
            times.append(time_ns())
        return v
    except BaseException:
        seg.mend()
        raise


def record_known(st: ThreadState, step: Step, holders: Sequence[Any]) -> Value | None:
    """:func:`record` of a call of one result that is the first of its segment, where its step is known.

    Where such a call ran by itself before, it waits beside the segment (`Known`) until it is read, or others follow.
    None, and nothing is recorded, where it is not the first there, where its operands are not concrete or of other
    avals, and where there is more to do than to record it.

    Args:
      st: this thread's state.
      step: what the call was recorded as in that place.
      holders: the arrays whose values are its operands, as many as the step takes.
    """
    known = st.known
    if known.value is not None and wanted(known) is not None:
        _take(st, known)
    seg = st.seg
    if (
        seg.step is not step.parent
        or seg.slots
        or st.slow
        or step.reach >= st.soft
        or seg.times is not None
        or seg.closed
    ):
        return None
    ins, arrays, kind = [], [], known.kind
    for h, aval in zip(holders, step.new_ins):  # noqa: B905  (as many)
        v = h._v
        if v is None or v.aval is not aval or v.seg is not None:
            return None
        array = v.arr
        if type(array) is not kind:
            array = _of_programs(known, v)
            if array is None:
                return None
        ins.append(v)
        arrays.append(array)
    v = _new(Value)
    v.seg = known
    v.idx = 0
    v.aval = step.one  # type: ignore[assignment]
    v.tape = None
    v.shared = False
    known.ins = ins
    known.arrays = arrays
    known.step = step
    known.value = v
    if step.solo is None:
        _take(st, known)
    return v


def _of_programs(known: Known, v: Value) -> Any:
    """What a concrete value holds, NumPy's array put on its device; None where programs do not take it."""
    if type(v.arr) is np.ndarray:
        on_device((v,))
    if not isinstance(v.arr, jax.Array):
        return None
    known.kind = type(v.arr)
    return v.arr


def _take(st: ThreadState, known: Known) -> None:
    """Let a call that waits by itself be the first of this thread's segment, or run where it is not."""
    if known.state is not st or not begin_with(known, st):
        scheduler.flush(known)


def record_scalar(row: Row, a: Value, s: float | int) -> Value:
    """Record a row of an array and a number, its attribute ``scalar`` (`Row.takes_numbers`).

    The number is part of the program while it stays the same, which lets the compiler use it (``x ** 2``); where
    it changes (a learning rate) it is an input of the program (`varying`).
    """
    if not s and varying.is_negative_zero(s):
        # -0.0 would be found under 0.0
        return record(row.bind(varying=_SCALAR), (a, Dynamic(s)))[0]
    st = local.st
    seg = st.seg
    times = seg.times
    try:
        if times is not None and not times:
            times.append(-time_ns())
        try:
            # The type tells 1 from 1.0 and True, which are equal keys but give different dtypes.
            key = (row, a.idx if a.seg is seg else seg.enter(a), s, type(s))
        except (Elsewhere, TracedInput):
            seg.rollback()
            if type(a.seg) is Known:
                _take(st, a.seg)
                return record_scalar(row, a, s)
            return record(row.bind((("scalar", s),)), (a,))[0]
        step = seg.step.next.get(key)
        moving = False
        if step is None:
            moving = True  # the number may be known to change: then it is an operand
            step = seg.step.next.get((row, key[1], key[3])) if varying.takes_operand(s) else None
            if step is None:
                return _record_new_scalar(seg, row, a, s, key)
            seg.scalars.append(s)
        v = _new(Value)
        v.seg = seg
        v.idx = step.first
        v.aval = step.one  # type: ignore[assignment]
        v.tape = None
        v.shared = False
        seg.step = step
        seg.outs.append(v)
        if st.slow or seg.closed or step.reach >= st.soft:
            inputs = (a, Dynamic(s)) if moving else (a,)
            return _finish(st, seg, step, step.call, inputs, (v,))[0]  # type: ignore[arg-type]
        if times is not None:
            times.append(time_ns())
        return v
    except BaseException:
        seg.mend()
        raise


_SCALAR = ("scalar",)


def _record_new_scalar(
    seg: Segment, row: Row, a: Value, s: float | int, key: tuple[Any, ...]
) -> Value:
    seg.rollback()
    before = seg.step
    if s != s:
        s = math.nan  # the same key each time
    moves = bool(changing(row, (("scalar", s),), (a.aval.dtype,)))
    if moves:
        # What stands here for its first value would be another way to the same steps.
        for old in (before.numbers or {}).pop((row, key[1], key[3]), ()):
            before.next.pop(old, None)
        v = record(row.bind(varying=_SCALAR), (a, Dynamic(s)))[0]
        key = (row, key[1], key[3])
    else:
        v = record(row.bind((("scalar", s),)), (a,))[0]
    after = v.seg.step if v.seg is seg else None
    if after is not None and after.parent is before:
        before.next[key] = after
        if not moves:
            if before.numbers is None:
                before.numbers = {}
            before.numbers.setdefault((row, key[1], key[3]), []).append(key)
    return v


def untaped_record(call: Call, inputs: Sequence[Any]) -> tuple[Value, ...]:
    """Record a call that autograd does not see."""
    st = local.st
    before = st.taping
    if not before:
        return record(call, inputs)
    try:
        st.taping = False
        st.refresh()
        made = record(call, inputs)
        st.taping = before
        st.refresh()
        return made
    except BaseException:
        st.taping = before
        st.refresh()
        raise


def record_handed(row: Row, a: Value, s: varying.Handed) -> Value:
    """:func:`record_scalar` for a number that was handed to the block whose graph is being recorded."""
    if not local.st.seg.graph:
        return record_scalar(row, a, s.ask())
    return record(row.bind(varying=_SCALAR), (a, Dynamic(s)))[0]  # type: ignore[arg-type]


def changing(
    row: Row, numbers: Sequence[tuple[Any, Any]], dtypes: tuple[Any, ...]
) -> list[tuple[Any, Any]]:
    """Those numbers (name or position, value) of a call about to be recorded that change from call to call (`varying`).

    ``dtypes`` are those of the arrays they stand beside. In a graph that is recorded once no number changes.
    """
    st = local.st
    if st.seg.once:
        return [pair for pair in numbers if varying.is_negative_zero(pair[1])]
    where = row, dtypes, st.scope, varying.place()
    return [
        (k, s) for k, s in numbers
        if varying.takes_operand(s) and (varying.of_calls.varies((k, where), s) or varying.is_negative_zero(s))
    ]  # fmt: skip


def _record_many(
    st: ThreadState, seg: Segment, step: Step, call: Call, inputs: Sequence[Any]
) -> tuple[Value, ...]:
    outs = []
    first = step.first
    for k, aval in enumerate(step.avals):
        v = _new(Value)
        v.seg = seg
        v.idx = first + k
        v.aval = aval
        v.tape = None
        v.shared = False
        outs.append(v)
    seg.step = step
    seg.outs.extend(outs)
    return _finish(st, seg, step, call, inputs, tuple(outs))


def _finish(
    st: ThreadState,
    seg: Segment,
    step: Step,
    call: Call,
    inputs: Sequence[Any],
    outs: tuple[Value, ...],
) -> tuple[Value, ...]:
    """Everything after recording that most calls do not need."""
    if seg.closed:
        with seg.lock:  # whoever closed it is done when the lock is free
            pass
        if outs and outs[0].seg is not None:  # it came too late for that run
            st.renew(seg)
            return record(call, inputs)
    if call.effect and outs[0].seg is seg:
        if seg.sites is None:
            seg.sites = {}
        seg.sites[step.depth] = user_site(2)
    if st.taping:
        tape_writers[0](call, inputs, outs, step.many)
    if seg.times is not None:
        seg.times.append(time_ns())
    if call_listeners:
        for note in tuple(call_listeners):
            note(call, inputs, outs)
    if step.reach >= st.soft and (step.depth >= st.soft or step.ends):
        scheduler.at_limit(st, seg, call)
    return outs


def _grow(st: ThreadState, seg: Segment, key: tuple[Any, ...], inputs: Sequence[Any]) -> Step:
    """The first record of this call in this place: infer the results' shapes, or explain why not."""
    if seg.times and seg.times[-1] >= 0:
        seg.times.append(-time_ns())  # this takes longer than others
    avals = tuple(v.kind if type(v) is Dynamic else v.aval for v in inputs)
    try:
        # The interpreter would ask for the trace.
        traced = not seg.graph and cold.is_cold_here(seg.step.effects, seg.device)
        step = seg.step.grow(key, avals, seg.device, st.scope, traced)
        if seg.graph:  # elsewhere threads share the steps
            step.mirroring = mirroring.get()
        return step
    except Exception as error:
        seg.rollback()
        if is_asynchronous(error):
            raise
        if isinstance(error, Postponed):
            raise Postponed(str(inference_error(key[0], avals, error))) from error
        if isinstance(error, errors.MXNetError):
            raise
        raise inference_error(key[0], avals, error) from error


def record_refused(call: Call, inputs: Sequence[Any], error: Postponed) -> tuple[Value, ...]:
    """The results of a call that was found to be refused as it runs: readers get the error."""
    st = local.st
    return _put_off(st, st.seg, call, inputs, error)


def _put_off(
    st: ThreadState, seg: Segment, call: Call, inputs: Sequence[Any], error: Postponed
) -> tuple[Value, ...]:
    """The results of a call that MXNet would refuse as it runs: whoever reads them gets the error."""
    if seg.graph or st.modes.naive or not rules.catch or st.rehearsing is not None:
        raise error
    file, line = user_site()
    failure = Failure(
        errors.MXNetValueError(f"{error} ({call.name} recorded at {file}:{line})"), once=True
    )
    pending_errors.append(failure.error)
    avals = [v.kind if type(v) is Dynamic else v.aval for v in inputs]
    outs, many = unchecked_avals(
        call, avals, next((a.device for a in avals if type(a) is Aval), seg.device)
    )
    return _failed(st, call, inputs, outs, many, failure)


def _failed(
    st: ThreadState,
    call: Call,
    inputs: Sequence[Any],
    outs: Sequence[Aval],
    many: bool,
    failure: Failure,
) -> tuple[Value, ...]:
    values = tuple(failed_value(aval, failure) for aval in outs)
    if st.taping:
        tape_writers[0](call, inputs, values, many)
    return values


def inference_error(call: Call, avals: Sequence[Any], error: Exception) -> Exception:
    """An error that names operator, attributes, shapes, dtypes and devices."""
    given = ", ".join(
        "scalar" if isinstance(a, str) else f"{a.dtype}{list(a.shape)} on {shown(a.device)}"
        for a in avals
    )
    text = str(error).strip().split("\n\n")[0]
    shapes = [None if isinstance(a, str) else a.shape for a in avals]
    text, misfit = call.row.advice(call.attrs, shapes, text)
    if text == "tuple index out of range":  # a shape was asked for an axis that it has not
        text = f"an array has fewer axes than {call.name} needs"
    scope = local.st.scope
    where = f" in block {scope}" if scope else ""
    if misfit:  # which JAX calls a TypeError
        error = ValueError(text)
    message = f"operator {call!r}{where} cannot take ({given}): {text}"
    return errors.like(error, message)


def _devices(inputs: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for v in inputs:
        if type(v) is not Dynamic and v.seg is not TRACED and v.aval.device not in found:
            found.append(v.aval.device)
    return found


def _record_elsewhere(st: ThreadState, call: Call, inputs: Sequence[Any]) -> tuple[Value, ...]:
    """Inputs from another device, thread or transformation: bring them together, then record."""
    st.seg.rollback()
    if any(v.seg is TRACED for v in inputs):
        return _run_traced(st, call, inputs)
    waiting = [v.seg for v in inputs if type(v.seg) is Known]
    if waiting:
        for known in waiting:
            _take(st, known)
        return record(call, inputs)
    devices = _devices(inputs)
    if any(type(d) is NamedDevice and d.compute is not d for d in devices):
        return record(call, _from_keepers(inputs, devices))
    home = st.seg.device if st.seg.graph else None
    if len(devices) > 1 or (home is not None and devices and devices[0] is not home):
        moved = _beside_others(inputs, home)
        if moved is not None:
            return record(call, moved)
    if len(devices) > 1:
        where = ", ".join(
            f"{v.aval.dtype}{list(v.aval.shape)} on {shown(v.aval.device)}"
            for v in inputs
            if type(v) is not Dynamic
        )
        raise errors.DeviceError(
            f"operator {call!r} got inputs on different devices: {where}. "
            "Move them to one device first: x.to_device(device); onto a mesh, mesh.split(x) shares a batch out"
        )
    seg = st.seg
    failure = next((v.arr for v in inputs if v.seg is None and type(v.arr) is Failure), None)
    if failure is not None:
        if seg.graph:
            failure.reach_user()
        try:
            found, many = call.infer(
                tuple(v.kind if type(v) is Dynamic else v.aval for v in inputs), devices[0]
            )
        except Exception as error:
            raise inference_error(
                call, [v.kind if type(v) is Dynamic else v.aval for v in inputs], error
            ) from error
        return _failed(st, call, inputs, found, many, failure)
    if seg.graph:
        # Values of other segments on its device are captured as inputs (Segment.enter).
        if devices and seg.device is not devices[0]:
            raise errors.DeviceError(
                f"operator {call!r} got an input on {shown(devices[0])} while the hybridized block runs on "
                f"{shown(seg.device)}. Move its parameters and inputs to one device"
            )
        return record(call, inputs)
    if devices:
        seg = st.switch(devices[0])
    elif seg.device is None:
        where = default_device(st)
        seg = st.switch(where.compute if type(where) is NamedDevice else where)
    for v in inputs:
        if (
            type(v) is not Dynamic
            and v.seg is not None
            and v.seg is not seg
            and not getattr(v.seg, "patient", False)
        ):
            scheduler.flush(v.seg)
    return record(call, inputs)


def _beside_others(inputs: Sequence[Any], home: Any) -> list[Any] | None:
    """The inputs with those arrays of JAX's that it would move, too (they are not ``committed``), where the others are.

    None where that is no single place, or nothing moves. ``home``: where they have to be, if that is known.
    """

    def moves(v: Any) -> bool:
        return (
            type(v) is not Dynamic
            and v.seg is None
            and isinstance(v.arr, jax.Array)
            and not v.arr.committed
        )

    homes = _devices([v for v in inputs if not moves(v)])
    home = homes[0] if home is None and homes else home
    if home is None or any(d is not home for d in homes):
        return None
    found = [movers[0](v, home) if moves(v) and v.aval.device is not home else v for v in inputs]
    return found if any(a is not b for a, b in zip(found, inputs, strict=True)) else None


def _from_keepers(inputs: Sequence[Any], devices: Sequence[Any]) -> list[Any]:
    """The inputs with those on cpu_pinned and cpu_shared, which only keep arrays, where the call can run.

    That is the device of the others, or the CPU of the number of the first.
    """
    others = [d for d in devices if type(d) is not NamedDevice or d.compute is d]
    target = others[0] if others else devices[0].compute
    moved = []
    for v in inputs:
        at = None if type(v) is Dynamic or v.seg is TRACED else v.aval.device
        moved.append(
            movers[0](v, target) if type(at) is NamedDevice and at.compute is not at else v
        )
    return moved


def record_on(device: Any, call: Call, inputs: Sequence[Any] = ()) -> tuple[Value, ...]:
    """:func:`record` for calls without array inputs, which must be told where to run."""
    st = local.st
    seg = st.seg
    if seg.device is not device and not seg.graph:
        if type(device) is NamedDevice and device.compute is not device:
            made = record_on(device.compute, call, inputs)
            for v in made:
                scheduler.read(v)
            return tuple(renamed(v, device) for v in made)
        st.switch(device)
    return record(call, inputs)


def _run_traced(st: ThreadState, call: Call, inputs: Sequence[Any]) -> tuple[Value, ...]:
    """Inside ``jax.jit``, ``jax.grad``, ... of the user a call runs on the tracers at once."""
    stats.traced += 1
    device = None
    arrays = []
    for v in inputs:
        if type(v) is Dynamic:
            arrays.append(np.asarray(v.value, "float64" if v.kind == "d" else "int64"))
            continue
        device = device or v.aval.device
        if v.seg is TRACED:
            arrays.append(v.arr)
        else:
            array = scheduler.read(v)
            arrays.append(array if v.aval.memory is None else to_device(array))
    if is_shared_out():  # what the function closes over lies on one device, and is wanted on all
        arrays = [movable(a) for a in arrays]
    try:
        with (
            wide_types(),
            jax.named_scope(call.name),
            compiler.for_platform(compiler.platform_of(device)),
        ):
            out = dressed(call, st.scope)(*arrays) if operator_wrappers else call.fn(*arrays)
    except (TypeError, ValueError) as error:
        avals = [v.kind if type(v) is Dynamic else v.aval for v in inputs]
        raise inference_error(call, avals, error) from error
    many = isinstance(out, (tuple, list))
    outs = tuple(traced(o, device) for o in (out if many else (out,)))
    if st.taping:
        tape_writers[0](call, inputs, outs, many)
    return outs
