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
from ..interpret.numpy_memory import release
from ..stats import stats
from . import choice, cold, reasons
from .interrupts import shielded

_weak = weakref.ref


class _Ledger:
    """How many programs have come back (`choice.may_be_unproven`); on CPUs cold segments are compiled by `cold.py`."""

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
    return step.one is not None and choice.runs_alone(step.one.nbytes) and not step.effects


def _new(step: Step, key: tuple[tuple[int, ...], tuple[int, ...]], device: Any) -> Program | None:
    """A program for a segment that has none yet, or ``None`` to run it operator by operator."""
    if step.programs and (
        choice.is_variant_too_many(len(step.programs)) or cold.is_new_variant(step, key, device)
    ):
        near = nearest(step, key)
        if near is not None:
            return near
    # On a mesh only a whole program knows how what lies between two operators is spread.
    steady = local.st.steady or local.st.rehearsing is not None or type(device) is MeshDevice
    steady = steady or cold.has_earned(step, key[0])
    if step.depth > 1 and not step.effects and not steady:
        unproven, proven, this = _Ledger.unproven, _Ledger.proven, _weak(step)
        if not choice.may_be_unproven(unproven, proven, 0, 0):
            step.seen += 1
            again = _Ledger.recent.count(this)
            _Ledger.recent.append(this)
            if not choice.may_be_unproven(unproven, proven, step.seen, again):
                return None
    known = reasons.note(step, key[0], device)
    reason = reasons.explain(step, key[0], key[1], known) if observers else ""
    program = _kept(step, key, device, reason)
    if local.st.rehearsing is not None and step.variants is None:
        step.variants = {}  # the first runs shall compile nothing, whatever they may overwrite
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
    release()  # what NumPy computed so far needs it no more
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
