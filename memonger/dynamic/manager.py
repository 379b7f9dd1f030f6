"""Dynamic tensor rematerialisation: how segments run within a limit of bytes."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import jax

from mxjax import core, errors
from mxjax.core import Evicted, Failure, Node, Value, Work

from .eviction import LINK, Pins, Room
from .ledger import Holding, Recipe, Swapped
from .message import does_not_fit
from .operators import Operator, bytes_on, devices_of, seconds_of, temporaries_of
from .steps import run_steps


class Manager(Room):
    """The policy (``core.hooks.MemoryManager``); one for all threads, which take turns."""

    def __init__(self) -> None:
        super().__init__()
        self._retired: weakref.WeakKeyDictionary[Any, list[Node]] = weakref.WeakKeyDictionary()
        self._temps: weakref.WeakKeyDictionary[Any, tuple[int, float]] = weakref.WeakKeyDictionary()

    # ---------------------------------------------------------------- the core's side

    def run(self, work: Work) -> None:
        """See ``MemoryManager.run``."""
        if core.callback.inside():
            self._run_aside(work)
            return
        with self.lock:
            self.configure()
            retired = self._retired.pop(work.seg.state, None) or ()
            recipes = self._take_retired(work, retired)
            for v in work.ins:
                self.enter(v)
            try:
                if work.step.depth == 1 or not self._run_whole(work, recipes):
                    run_steps(self, work, recipes)
            finally:
                for h in recipes:
                    h.recipe = None
            if retired:
                work.ins.clear()
                self._bring_back_orphans(work.seg.state)

    def admit(self, v: Value) -> None:
        """See ``MemoryManager.admit``."""
        if core.callback.inside():
            return
        if not isinstance(v.arr, jax.Array) or isinstance(v.arr, jax.core.Tracer):
            return
        with self.lock:
            self.configure()
            h = self.holding(v)
            if self.ledger.knows(v.arr):
                return
            for d in h.devices:
                if not self.make_room(d, h.nbytes):
                    name = f"an array of {v.aval.dtype}{list(v.aval.shape)} from outside"
                    raise does_not_fit(self, d, h.nbytes, name)
            self.ledger.add(v.arr, h.devices, h.nbytes)

    def restore(self, v: Value) -> Any:
        """See ``MemoryManager.restore``."""
        with self.lock:
            self.configure()
            self.ensure((v,))
            if type(v.arr) is Failure:
                raise v.arr.error
            return v.arr

    def drop(self, v: Value) -> bool:
        """See ``MemoryManager.drop``."""
        if v.seg is not None and v.seg is not core.TRACED:
            core.flush(v.seg)
        with self.lock:
            h = self.enter(v)
            recipe = self.recipe(h, v) if self.evictable(h) is v else None
            if recipe is None:
                return False
            self.wait()
            self.evict(h, v, recipe)
            self.counts.drops += 1
            return True

    def swap(self, v: Value) -> bool:
        """Move one array to the host because the user said so; whether it could be."""
        with self.lock:
            h = self.enter(v)
            if self.evictable(h) is not v:
                return False
            self.wait()
            self.evict(h, v, None)
            return True

    def bring_all_back(self) -> None:
        """Make every evicted value concrete, whatever the limit."""
        with self.lock:
            before, self.limit = self.limit, 0
            try:
                self.ensure(self.evicted_values())
            finally:
                self.limit = before

    def saved(self, node: Node, made: Sequence[Value]) -> None:
        """See ``MemoryManager.saved``."""
        if node.saved is None or core.callback.inside() or any(v.seg is core.TRACED for v in made):
            return
        with self.lock:
            ref = weakref.ref(node)
            for k, v in enumerate(made[len(node.avals) :], len(node.avals)):
                h = self.holding(v)
                h.node, h.at = ref, k

    def retire(self, node: Node) -> None:
        """See ``MemoryManager.retire``."""
        st = core.local.st
        kept = (*(node.inputs or ()), *(node.saved[1] if node.saved is not None else ()))
        pending = any(v.seg is not None for v in kept if type(v) is Value)
        aside = core.callback.inside() or st.rehearsing is not None
        if aside or pending or not any(seg.step.depth for seg in st.segments()):
            node.release()
        else:
            # Its results may exist, and may have to be computed again before what is recorded has run.
            self._retired.setdefault(st, []).append(node)

    def settle(self) -> None:
        """See ``MemoryManager.settle``."""
        if core.callback.inside():
            return
        with self.lock:
            self._bring_back_orphans(core.local.st)

    # ---------------------------------------------------------------- running

    def _run_aside(self, work: Work) -> None:
        """Run a segment that a program waits for: without the lock, which may wait for that program.

        What it makes is counted when it takes part in something else.
        """
        for v in work.ins:
            core.read(v)
        program = work.program(())
        if program is None:
            raise errors.InternalError("a segment of a callback has no program")
        arrays = [v.arr for v in work.ins]
        for v, a in zip(work.outs, work.results(program, arrays), strict=True):
            work.fill(v, a)

    def call(
        self,
        op: Operator,
        operands: Sequence[Any],
        outs: Sequence[Value | None],
        origin: tuple[Any, int],
        work: Work,
    ) -> None:
        """Run an operator, within the limit, for the values that want its results.

        A value of ``work.outs`` is filled through it.
        """
        needed = [v for v, u in zip(operands, op.used, strict=True) if u and type(v) is Value]
        step, first = origin
        with self.pinned(needed):
            self.ensure(needed)
            arrays = self._execute(op, operands, step)
        for k, (v, a) in enumerate(zip(outs, arrays, strict=True)):
            if v is None:
                continue
            if v.seg is not None:
                work.fill(v, a)
            else:
                v.arr = a
            self.made(v, a, (step, first + k))

    def _execute(
        self, op: Operator, operands: Sequence[Any], step: Any, again: bool = False
    ) -> list[Any]:
        for d in devices_of(op.device):
            if not self.make_room(d, op.need):
                name = f"operator {op.call!r}"
                raise does_not_fit(self, d, op.need, name, operands, step)
        arrays = self.attempt(lambda: op.run(operands, step), op.device)
        self.running.extend([weakref.ref(a) for a in arrays])
        seconds, flops = op.cost
        self.clock += seconds
        self.counts.operator_seconds += seconds
        if again:
            self.counts.recomputations += 1
            self.counts.recomputed_seconds += seconds
            self.counts.recomputed_flops += flops
        for v, u in zip(operands, op.used, strict=True):
            if u and type(v) is Value:
                self.holding(v).last = self.clock
        return arrays

    def _run_whole(self, work: Work, recipes: list[Holding]) -> bool:
        """Run the segment as one program, if that stays within the limit."""
        device = devices_of(work.device)[0]
        ins = work.ins
        if self.automatic and self.limit:
            into = [(j, v.aval) for j, v in enumerate(ins) if not v.shared]
            outs = [v.aval for v in work.outs]
            known = [self._cost_of(p, work.device)[0] for p in work.step.programs.values()]
            least = (
                sum(bytes_on(v.aval) for v in ins)
                + sum(map(bytes_on, outs))
                - sum(bytes_on(ins[j].aval) for j in core.match_donations(into, outs))
                + min(known, default=0)
            )
            if least + self.floor(device, ins) > self.limit:
                return False
        with self.pinned(ins):
            try:
                self.ensure(ins)
            except errors.MXNetMemoryError:
                return False
            program = work.program(work.dying())
            if program is None:
                work.fell_back()
                return False
            temp, seconds = self._cost_of(program, work.device)
            need = temp + sum(bytes_on(v.aval) for v in work.outs)
            need -= sum(bytes_on(ins[j].aval) for j in program.donate)
            for d in devices_of(work.device):
                if not self.make_room(d, need):
                    return False
        for h in recipes:
            h.recipe = None
        arrays = [v.arr for v in ins]
        for j in program.donate:
            self.ledger.gone(arrays[j])
        results = self.attempt(lambda given=arrays: work.results(program, list(given)), work.device)
        del arrays
        self.clock += seconds
        self.counts.operator_seconds += seconds
        for v in ins:
            self.holding(v).last = self.clock
        ins.clear()
        self.running.extend([weakref.ref(a) for a in results])
        for k, v, a in zip(work.live, work.outs, results, strict=True):
            work.fill(v, a)
            self.made(v, a, (work.step, k))
        return True

    def _cost_of(self, program: Any, device: Any) -> tuple[int, float]:
        found = self._temps.get(program)
        if found is None:
            seconds, _ = seconds_of(program.compiled, device)
            found = self._temps[program] = temporaries_of(program.compiled), seconds
        return found

    # ---------------------------------------------------------------- nodes whose backward is recorded

    def _take_retired(self, work: Work, nodes: Sequence[Node]) -> list[Holding]:
        """Release nodes whose backward is in this segment; its inputs keep what makes them again."""
        kept: dict[int, Holding] = {}
        ours = {id(n) for n in nodes}
        todo = list(work.ins) if nodes else []
        while todo:  # inputs, and what they are made of
            v = todo.pop()
            h = self.holding(v)
            if id(h) in kept:
                continue
            node = v.tape if type(v.tape) is Node else h.node() if h.node is not None else None
            if node is None or id(node) not in ours:
                continue
            recipe = v.arr.how if type(v.arr) is Evicted else self.recipe(h, v)
            if type(recipe) is Recipe:
                h.recipe = recipe
                kept[id(h)] = h
                todo += [u for u in recipe.inputs if type(u) is Value]
        for node in nodes:
            node.release()
        return list(kept.values())

    def _bring_back_orphans(self, state: Any) -> None:
        """Make evicted values concrete whose history is gone: else they keep old parameters alive."""
        if not self.evicted or any(seg.step.depth for seg in state.segments()):
            return
        for v in self.evicted_values():
            if type(v.arr) is not Evicted or type(v.arr.how) is not Recipe:
                continue
            node: Any = v.tape if type(v.tape) is Node else None
            h = self.holdings[id(v)]
            if node is None and h.node is not None:
                node = h.node()
            if node is not None and node.inputs is not None:
                continue
            try:
                self.ensure((v,))
            except errors.MXNetMemoryError:
                continue  # it stays as it is, with what makes it

    # ---------------------------------------------------------------- bringing back

    def ensure(self, values: Iterable[Value]) -> None:
        """Bring evicted values back, computing what they are made of, with a stack of our own."""
        stack = [v for v in values if type(v.arr) is Evicted]
        waiting: dict[int, Pins] = {}  # calls on the stack whose inputs are pinned
        try:
            while stack:
                v = stack[-1]
                evicted = v.arr
                if type(evicted) is not Evicted:
                    stack.pop()
                    continue
                if type(evicted.how) is Swapped:
                    self._swap_in(v, evicted.how)
                    stack.pop()
                    continue
                recipe = evicted.how
                op = self.operators.of(recipe.call, recipe.inputs, recipe.device)
                needed = [
                    u
                    for u, used in zip(recipe.inputs, op.used, strict=True)
                    if used and type(u) is Value
                ]
                if id(v) not in waiting:
                    waiting[id(v)] = self.pinned((*needed, v)).__enter__()
                missing = [u for u in needed if type(u.arr) is Evicted]
                if missing:
                    stack.extend(missing)
                    continue
                self._remake(v, recipe, op)
                waiting.pop(id(v)).__exit__()
                stack.pop()
        finally:
            for pins in waiting.values():
                pins.__exit__()

    def _remake(self, v: Value, recipe: Recipe, op: Operator) -> None:
        h = self.holding(v)
        step = h.origin[0] if h.origin is not None else None
        for u in recipe.inputs:
            if type(u) is Value and type(u.arr) is Failure:
                raise u.arr.error
            if type(u) is Value and type(u.arr) is not Evicted:
                self.enter(u)
        arrays = self._execute(op, recipe.inputs, step, again=True)
        self.unlink(id(v), h)
        if self.lent is not None and self.recipe(h, v) is None:
            h.recipe = recipe  # until the segment at hand has run it may go again
            self.lent.append(h)
        v.arr = arrays[recipe.out]
        h.remakes += 1
        self.made(v, v.arr, None)

    def _swap_in(self, v: Value, how: Swapped) -> None:
        h = self.holding(v)
        for d in h.devices:
            if not self.make_room(d, h.nbytes):
                name = "an array to be fetched from the host"
                raise does_not_fit(self, d, h.nbytes, name, step=h.origin[0] if h.origin else None)
        array = self.attempt(lambda: jax.device_put(how.array, v.aval.sharding), v.aval.device)
        self.unlink(id(v), h)
        v.arr = array
        self.made(v, array, None)
        self.clock += h.nbytes / LINK
