"""How calls that wait beside their segment (`calls.known`) run, or become the first of it.

The thread of such a call takes no lock: it alone writes to its `Known`. Another one that reads the result computes
it as well, if need be, and gives the value the same numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..calls.aval import physical
from ..calls.known import Known
from ..calls.segment import Segment
from ..calls.state import ThreadState, local
from ..calls.value import Value, concrete, quick_put
from ..hooks import memory_managers, observers
from ..stats import stats
from .failures import fail
from .interrupts import is_asynchronous


def run_known(known: Known, v: Value) -> Any:
    """Run the call whose result this is; the array, or None where that is for a segment, which the value has now."""
    ins, arrays, step = known.ins, known.arrays, known.step
    if v.seg is not known:  # another thread was here, and what was read before is of another call
        return None
    solo = step.solo
    if solo is None or observers or memory_managers:
        _leave(known, v, ins, step)
        return None
    stats.solo += 1
    try:
        (array,) = solo(*arrays)
    except Exception as error:
        if is_asynchronous(error):
            raise
        fail(None, step, [v], error)
        array = v.arr
    v.arr = array
    v.step = step
    v.seg = None
    if known.state is local.st:
        known.value = None
        known.ins = known.arrays = ()
    return array


def on_device(ins: Iterable[Any]) -> list[Any]:
    """The arrays of a network's inputs and weights, those of NumPy put on the device once for all."""
    for v in ins:
        if type(v.arr) is np.ndarray:
            v.arr = quick_put(v.arr, physical(v.aval.device))
    return [v.arr for v in ins]


def _leave(known: Known, v: Value, ins: Iterable[Value], step: Any) -> None:
    """Let the call be all of a segment of the thread that reads it, which runs as any other."""
    slots: dict[Value, int] = {}
    for a, slot in zip(ins, step.args, strict=True):
        if a in slots:  # one value in two places
            a.shared = True
            a = concrete(a.arr, shared=True, of=a.aval)  # noqa: PLW2901
        slots[a] = slot
    seg = Segment(local.st, v.aval.device, root=step)
    seg.slots, seg.outs = slots, [v]
    v.seg = seg
    if known.state is local.st:
        known.end()


def begin_with(known: Known, st: ThreadState) -> bool:
    """Let a call that waits be the first of its thread's segment; False where it is not: it runs by itself, then."""
    v, step, seg = known.value, known.step, st.seg
    if v is None or v.seg is not known:
        known.end()
        return True
    with seg.lock:
        if (
            seg.step is not step.parent
            or seg.slots
            or seg.closed
            or seg.times is not None
            or st.slow
            or step.reach >= st.soft
        ):
            return False
        slots = dict(zip(known.ins, step.args, strict=True))
        if len(slots) != step.n_ins:  # one value in two places
            return False
        try:
            seg.slots.update(slots)
            seg.outs.append(v)
            v.seg = seg
            seg.step = step
        except BaseException:
            if seg.step is not step:
                v.seg = known
                seg.slots.clear()
                seg.outs.clear()
            raise
    known.end()
    return True


_OURS = 3  # references to a value that nobody else has: where it waits, here, and as it is counted


def wanted(known: Known) -> Value | None:
    """The result of the call that waits, where somebody holds it; the thread of the call forgets it otherwise."""
    v: Value | None = known.value
    if v is None or (v.seg is known and sys.getrefcount(v) > _OURS):
        return v
    if known.state is local.st:
        known.end()
    return None
