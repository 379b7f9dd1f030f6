"""A segment that does not fit as one program: its calls one by one, over values DTR may give up.

What is known of a recorded segment and of no other is its future. So staleness, DTR's guess at when a
value will be read again, is replaced by the time until it will be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mxjax import core
from mxjax.core import Dynamic, Value, Work

from .ledger import Holding, Recipe
from .operators import Operator

if TYPE_CHECKING:
    from .manager import Manager


class _Schedule:
    """Which calls run, as which operators, and when each operand is read."""

    def __init__(self, manager: Manager, work: Work):
        self.steps = core.needed(work.step.path(), work.live)
        avals = [v.aval for v in work.ins]
        made: dict[int, Any] = {}
        self.operators: list[Operator] = []
        self.times: list[float] = []
        self.reads: dict[int, list[float]] = {}  # by operand, the next last
        self.last: dict[int, int] = {}  # the step after which an operand is no operand any more
        now = 0.0
        for at, s in enumerate(self.steps):
            kinds = tuple(
                [
                    s.fmt[i - core.SCALAR]
                    if i >= core.SCALAR
                    else avals[-1 - i]
                    if i < 0
                    else made[i]
                    for i in s.args
                ]
            )
            assert s.call is not None
            op = manager.operators.like(s.call, kinds, work.device)
            self.operators.append(op)
            self.times.append(now)
            for i, used in zip(s.args, op.used, strict=True):
                if i < core.SCALAR:
                    self.last[i] = at
                    reads = self.reads.setdefault(i, [])
                    if used:
                        reads.append(now)
            now += op.cost[0]
            for k, a in enumerate(s.avals):
                made[s.first + k] = a
        for reads in self.reads.values():
            reads.reverse()


def run_steps(manager: Manager, work: Work, sources: list[Holding]) -> None:
    """Run the calls of a segment one by one within the manager's limit.

    ``sources`` can be computed again until then, the inputs and what those are made of.
    """
    schedule = _Schedule(manager, work)
    held = dict(zip(work.live, work.outs, strict=True))
    env: dict[int, Value] = {-1 - j: v for j, v in enumerate(work.ins)}
    work.ins.clear()
    planned = manager.planned = [manager.holding(v) for v in env.values()]
    for i, h in zip(env, planned, strict=True):
        h.future = schedule.reads.get(i, [])
    for h in sources:
        if h.future is None:
            h.future = []  # only a recomputation reads it
            planned.append(h)
    try:
        for at, step in enumerate(schedule.steps):
            manager.now = schedule.times[at]
            _run_step(manager, work, schedule, at, step, env, held)
    finally:
        manager.now = 0.0
        manager.planned = None
        for h in planned:
            h.future = h.recipe = None


def _run_step(
    manager: Manager,
    work: Work,
    schedule: _Schedule,
    at: int,
    step: Any,
    env: dict[int, Value],
    held: dict[int, Value],
) -> None:
    planned = manager.planned
    assert planned is not None
    op = schedule.operators[at]
    operands: tuple[Any, ...] = tuple(
        [env[i] if i < core.SCALAR else Dynamic(work.scalars[i - core.SCALAR]) for i in step.args]
    )
    numbers = [step.first + k for k in range(len(step.avals))]
    outs: list[Value | None] = []
    for k, number in enumerate(numbers):
        v = held.get(number)
        if v is None and number in schedule.last:
            v = core.concrete(None, shared=False, of=step.avals[k])
        outs.append(v)
    # Overwritten may be what nobody reads after this call; what makes it stays known.
    mortal = [
        p
        for p, i in enumerate(step.args)
        if 0 <= i < core.SCALAR
        and i not in held
        and schedule.last[i] == at
        and step.args.count(i) == 1
        and not operands[p].shared
        and manager.holding(operands[p]).recipe is not None
    ]
    manager.call(op, operands, outs, (step, step.first), work, mortal)
    for k, (number, v) in enumerate(zip(numbers, outs, strict=True)):
        if v is None:
            continue
        if number in schedule.last:
            env[number] = v
        h = manager.holding(v)
        if number not in held:
            if not step.call.effect:
                h.recipe = Recipe(step.call, operands, k, work.device)
            h.future = schedule.reads[number]
            planned.append(h)
        elif schedule.reads.get(number):
            h.future = schedule.reads[number]
            planned.append(h)
    manager.register([v for n, v in zip(numbers, outs, strict=True) if n in held and v is not None])
    for i in step.args:
        if i >= core.SCALAR or i not in env:
            continue
        v = env[i]
        h = manager.holding(v)
        reads = schedule.reads[i]
        while reads and reads[-1] <= schedule.times[at]:
            reads.pop()
        if not reads and i in held:
            h.future = None  # what reads it next is not in this segment
        if i >= 0 and i not in held and not reads and h.recipe is not None:
            # Only a recomputation could read it; that one makes it again.
            if not isinstance(v.arr, core.Evicted):
                manager.give_up(h, v, h.recipe)
        if schedule.last[i] == at:
            del env[i]
