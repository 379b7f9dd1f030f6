"""Which program a segment runs as: one that there is, a new one, or none, so that it runs operator by operator."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

from ..calls.aval import MeshDevice
from ..calls.segment import Segment, Step
from ..calls.state import local
from ..compile.program import Program
from ..compile.store import store
from ..hooks import observers
from ..interpret.by_call import Build
from ..stats import stats
from . import cold, reasons
from .interrupts import shielded

_weak = weakref.ref

# Compiling a segment pays when it comes back. Programs that never came back are a loss, so only so
# many may stand unproven at a time; beyond that a segment runs operator by operator until it comes back
# twice in short order (a loop), or so often that the time lost would have paid several times for a program.
# On CPUs this holds for large segments alone: small ones have a tier of their own (cold.py).
UNPROVEN = 2
OFTEN = (
    1500  # times that a segment ran by operator: what was lost so would have paid several programs
)
VARIANTS = 6  # programs of one segment that differ in results and donations only


SOLO_BYTES = 1 << 16  # up to this size the engine's own work counts more than a donated buffer


class _Ledger:
    """The state of that bargain."""

    unproven = 0
    proven = 0
    # The last segments without a program: a loop of up to some twenty is recognised.
    recent: deque[weakref.ref[Step]] = deque(maxlen=64)


def choose(
    seg: Segment,
    step: Step,
    program: Program | None,
    live: tuple[int, ...],
    dying: tuple[int, ...],
    device: Any,
) -> Program | None:
    """The program found for these results and donations, or a new one, or ``None``."""
    if program is None:
        return _new(step, (live, dying), device)
    stats.hits += 1
    program.used = store.now
    if not program.proven:
        program.proven = True
        single = step.depth == 1 and live == (0,) and not step.fmt and not program.donate
        single = single and type(device) is not MeshDevice and program.later is None
        if single and _small(step):
            step.solo = program.call
        if step.depth > 1:
            _Ledger.unproven -= 1
            _Ledger.proven += 1
    if step.depth > 1 and seg.state.churn.streak:
        seg.state.churn.came_back()
    return program


def run_for(
    program: Program, arrays: list[Any], scalars: Sequence[Any], live: tuple[int, ...]
) -> Sequence[Any]:
    return chosen_of(program, program.run(arrays, scalars), live)


def chosen_of(program: Program, results: Sequence[Any], live: tuple[int, ...]) -> Sequence[Any]:
    """The results that are wanted, of a program that may give more."""
    if program.live != live:
        at = dict(zip(program.live, results, strict=True))
        results = [at[k] for k in live]
    return results


def fell_back(seg: Segment) -> None:
    stats.fallbacks += 1
    if seg.state.churn.fell_back() and seg.state is local.st:
        seg.state.refresh()


def _small(step: Step) -> bool:
    return step.one is not None and step.one.nbytes <= SOLO_BYTES and not step.effects


def _new(step: Step, key: tuple[tuple[int, ...], tuple[int, ...]], device: Any) -> Program | None:
    """A program for a segment that has none yet, or ``None`` to run it operator by operator."""
    if step.programs and (len(step.programs) >= VARIANTS or cold.is_new_variant(step, key, device)):
        near = nearest(step, key)
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
    program = _kept(step, key, device, reason)
    if step.depth > 1:
        if steady:
            program.proven = True
        else:
            _Ledger.unproven += 1
    return program


def nearest(step: Step, key: tuple[tuple[int, ...], tuple[int, ...]]) -> Program | None:
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
    """Compile the segment that ends with this step, for which runs without a program may have paid."""
    path = step.path()
    name = path[-1].call.name if step.depth == 1 else f"segment{step.depth}"  # type: ignore[union-attr]
    avals = [a for s in path for a in s.new_ins]
    live = tuple(live)
    paid = cold.paid_by(step, live)
    return Program(name, path, avals, step.fmt, live, dying, device, reason, paid)


@shielded
def _kept(
    step: Step, key: tuple[tuple[int, ...], tuple[int, ...]], device: Any, reason: str
) -> Program:
    """A new program of the segment that ends with this step, which others find there."""
    program = build(step, key[0], key[1], device, reason)
    store.keep(step, key, program)
    return program


def alone(device: Any) -> Build:
    """Compiles a step that is a segment by itself, with all its results."""

    def compiled(step: Step, why: str) -> Program:
        whole = tuple(range(step.n_outs))
        reason = "an operator by itself"
        return _kept(step, (whole, ()), device, f"{reason}: {why}" if why else reason)

    return compiled


def forget() -> None:
    """Programs are gone, and not for want of use."""
    _Ledger.unproven = _Ledger.proven = 0
    _Ledger.recent.clear()
