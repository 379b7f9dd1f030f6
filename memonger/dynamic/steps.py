"""A segment that does not fit as one program: its calls one by one, over values DTR may give up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mxjax import core
from mxjax.core import Dynamic, Evicted, Value, Work

from .ledger import Holding, Recipe

if TYPE_CHECKING:
    from .manager import Manager


def run_steps(manager: Manager, work: Work, sources: list[Holding]) -> None:
    """Run the calls of a segment one by one within the manager's limit.

    ``sources`` can be computed again until then, the inputs and what those are made of. What no later call reads is
    given up at once: only a recomputation could read it, and that one makes it again.
    """
    steps = core.needed(work.step.path(), work.live)
    last = {i: at for at, s in enumerate(steps) for i in s.args}
    held = dict(zip(work.live, work.outs, strict=True))
    env: dict[int, Value] = {-1 - j: v for j, v in enumerate(work.ins)}
    work.ins.clear()
    lent = manager.lent = list(sources)
    taken = {id(v) for v in env.values()}
    for h in sources:
        h.spent = id(h.ref()) not in taken
    try:
        for at, step in enumerate(steps):
            assert step.call is not None
            operands: tuple[Any, ...] = tuple(
                [
                    env[i] if i < core.SCALAR else Dynamic(work.scalars[i - core.SCALAR])
                    for i in step.args
                ]
            )
            numbers = range(step.first, step.first + len(step.avals))
            outs = [
                held.get(n, core.concrete(None, shared=False, of=a) if n in last else None)
                for n, a in zip(numbers, step.avals, strict=True)
            ]
            op = manager.operators.of(step.call, operands, work.device)
            manager.call(op, operands, outs, (step, step.first), work)
            for k, (n, v) in enumerate(zip(numbers, outs, strict=True)):
                if v is None:
                    continue
                if n in last:
                    env[n] = v
                if n not in held and not step.call.effect:
                    h = manager.holding(v)
                    h.recipe = Recipe(step.call, operands, k, work.device)
                    lent.append(h)
            for i in step.args:
                if i not in env or last[i] > at:
                    continue
                v = env.pop(i)
                h = manager.holding(v)
                if i in held or h.recipe is None:
                    continue
                h.spent = True
                if i >= 0 and not isinstance(v.arr, Evicted):
                    manager.give_up(h, v, h.recipe)
    finally:
        manager.lent = None
        for h in lent:
            h.recipe, h.spent = None, False
