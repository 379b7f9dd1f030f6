"""The error that says what holds the memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax

from mxjax import errors
from mxjax.core import Leaf, Node, Value

from ..trials.measure import human

if TYPE_CHECKING:
    from .eviction import Room
    from .ledger import Holding

_SHOWN = 6


def place_of(step: Any) -> str:
    """Where the user's code recorded a call."""
    return f"{step.site[0]}:{step.site[1]}" if step is not None and step.site[0] else ""


def made_by(h: Holding, v: Value) -> str:
    """What a value is, or which call at which line made it."""
    if isinstance(v.tape, Leaf):
        return "a variable (parameter)"
    if h.origin is None:
        return "an input"
    last, number = h.origin
    step = last
    while step.parent is not None and step.first > number:
        step = step.parent
    name = step.label
    place = place_of(step)
    return f"{name} at {place}" if place else name


def does_not_fit(
    room: Room, device: Any, need: int, name: str, operands: Sequence[Any] = (), step: Any = None
) -> errors.MXNetMemoryError:
    """The error for a call that the limit has no room for."""
    place = place_of(step)
    ours = {id(v) for v in operands}
    rows = []
    for h in list(room.holdings.values()):
        v = h.ref()
        if (
            device not in h.devices
            or v is None
            or v.seg is not None
            or not isinstance(v.arr, jax.Array)
        ):
            continue
        if id(v) in ours:
            why = "an operand of this call"
        elif v.shared:
            why = "somebody outside sees it"
        elif type(v.tape) is not Node and h.node is None:
            why = "nothing on the tape computes it"
        elif h.pins:
            why = "needed to compute an operand"
        else:
            why = "smaller than evictee_minimum_size, or its history was released"
        row = (
            f"{human(h.nbytes, 1):>10}  {v.aval.dtype}{list(v.aval.shape)}  {made_by(h, v)} ({why})"
        )
        rows.append((h.nbytes, row))
    rows.sort(key=lambda r: -r[0])
    shown = [row for _, row in rows[:_SHOWN]]
    if len(rows) > _SHOWN:
        rest = rows[_SHOWN:]
        shown.append(f"{human(sum(n for n, _ in rest), 1):>10}  in {len(rest)} more arrays")
    live, limit = room.ledger.live.get(device, 0), room.limit
    where = f", recorded at {place}," if place else ""
    holds = "".join(f"\n  {row}" for row in shown)
    if holds:
        holds = f" What holds the memory:{holds}"
    return errors.MXNetMemoryError(
        f"{name}{where} needs {human(need, 1)} besides its operands; {human(live, 1)} are held and cannot be given up "
        f"now, and memory.dtr_eviction_threshold is {human(limit, 1)}.{holds}\n"
        f"Raise the limit to at least {live + need} bytes (mx.dtr.eviction_threshold), use a smaller batch, or "
        "let go of arrays that are not needed"
    )
