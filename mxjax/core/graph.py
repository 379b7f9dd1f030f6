"""Graphs: recorded segments with symbolic inputs, the one form behind hybridize, export and Symbol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from .aval import PINNED, Aval, aval
from .call import SCALARS, Call, cotangent, held, once, pullback, wanting
from .compiler import for_platform, platform_of
from .interfaces import RematPolicy
from .program import needed, run_steps
from .segment import SCALAR, Segment, Step
from .state import local, tell_calls
from .tape import Leaf
from .value import Value


class Graph:
    """A function of arrays as a list of steps.

    ``avals`` are the inputs (placeholders first, then the values the recording captured), ``outputs``
    the numbers of the results; a negative number names an input that is returned as it is. ``fmt`` gives
    the kinds of the dynamic scalars, which follow the arrays as 0-d inputs. ``written`` are the inputs (as
    operands) of which a backward pass makes a new gradient, as far as the captured values tell.
    """

    __slots__ = ("avals", "captured", "fmt", "name", "outputs", "scalars", "steps", "written")

    def __init__(
        self,
        name: str,
        steps: Sequence[Step],
        avals: Sequence[Aval],
        outputs: Sequence[int],
        fmt: str,
        captured: Sequence[Value] = (),
        scalars: Sequence[float | int] = (),
    ):
        self.name = name
        self.steps = needed(steps, [k for k in outputs if k >= 0])
        self.avals = tuple(avals)
        self.outputs = tuple(outputs)
        self.fmt = fmt
        self.captured = tuple(captured)
        self.scalars = tuple(scalars)
        first = len(self.avals) - len(self.captured)
        self.written = tuple(
            -1 - i for i, v in enumerate(self.captured, first) if type(v.tape) is Leaf and v.tape.req == "write"
        )

    def run(self, *arrays: Any) -> tuple[Any, ...]:
        """Run on arrays or tracers: the inputs, then the dynamic scalars."""
        n = len(self.avals)
        inputs, scalars = arrays[:n], arrays[n:]
        env = run_steps(self.steps, inputs, scalars)
        return tuple(env[k] if k >= 0 else inputs[-1 - k] for k in self.outputs)

    def __repr__(self) -> str:
        def operand(i: int) -> str:
            return f"${i - SCALAR}" if i >= SCALAR else f"%{i}" if i >= 0 else f"in{-1 - i}"

        lines = [f"graph {self.name}({', '.join(map(repr, self.avals))})"]
        for s in self.steps:
            results = ", ".join(f"%{s.first + k}" for k in range(len(s.avals)))
            scope = f"  # {s.scope}" if s.scope else ""
            lines.append(f"  {results} = {s.call!r}({', '.join(map(operand, s.args))}){scope}")
        lines.append(f"  return {', '.join(map(operand, self.outputs))}")
        return "\n".join(lines)


class Recording:
    """A graph being recorded; made by :func:`recording`."""

    def __init__(self, seg: Segment, name: str):
        self._seg = seg
        self._name = name
        self._placeholders = 0

    def placeholder(self, aval: Aval) -> Value:
        """A symbolic input. All are made before the first call is recorded."""
        seg = self._seg
        v = Value.__new__(Value)
        v.seg = seg
        v.idx = -1 - len(seg.slots)
        v.aval = aval
        v.tape = None
        v.shared = True
        seg.slots[v] = v.idx
        seg.step.n_ins = len(seg.slots)
        self._placeholders += 1
        return v

    def owns(self, v: Value) -> bool:
        """Whether this recording made the value."""
        return v.seg is self._seg

    def captured(self) -> list[Value]:
        """The values from outside that took part, in the order of their entry."""
        return list(self._seg.slots)[self._placeholders : self._seg.step.n_ins]

    def finish(self, outputs: Sequence[Value]) -> Graph:
        """The graph that computes these values."""
        seg = self._seg
        numbers = [seg.enter(v) if v.seg is not seg else v.idx for v in outputs]
        for k, (number, v) in enumerate(zip(numbers, outputs, strict=True)):
            if not isinstance(number, int):  # a constant nobody computed with: it entered just now
                numbers[k] = seg.slots[v]
                seg.step.n_ins = len(seg.slots)
        inputs = list(seg.slots)[: seg.step.n_ins]
        return Graph(
            self._name,
            seg.step.path(),
            [v.aval for v in inputs],
            numbers,
            seg.step.fmt,
            inputs[self._placeholders :],
            seg.scalars[: len(seg.step.fmt)],
        )


@contextmanager
def recording(name: str, device: Any) -> Iterator[Recording]:
    """Record this thread's calls into a new graph instead of running them."""
    st = local.st
    before = st.seg, st.taping
    st.seg = Segment(st, device, graph=True)
    st.taping = False
    st.refresh()
    try:
        yield Recording(st.seg, name)
    finally:
        tell_calls(st.seg, st.seg.step)
        st.seg.closed = True  # what is left of it has no numbers any more
        st.seg, st.taping = before
        st.refresh()


def is_recording() -> bool:
    """Whether this thread is recording a graph."""
    return local.st.seg.graph


class GraphCall(Call):
    """A graph as one operator: the cached form of a hybridized block.

    A rematerialisation policy may lower it to a function that keeps less for the backward pass.
    """

    __slots__ = ()

    def __init__(self, graph: Graph, policy: RematPolicy | None = None):
        run = graph.run if policy is None else policy.lower(graph)
        effect = any(s.call.effect for s in graph.steps)  # type: ignore[union-attr]
        super().__init__(graph.name, run, effect=effect)
        self.graph = graph
        self.policy = policy


class _Forward(Call):
    """The forward half of a pair: residuals that were offloaded wait in the host's memory."""

    __slots__ = ("offloaded",)
    offloaded: set[int]

    def infer(self, avals: tuple[Any, ...], device: Any) -> tuple[tuple[Aval, ...], bool]:
        outs, many = super().infer(avals, device)
        if not self.offloaded:
            return outs, many
        return tuple(a.on(PINNED) if k in self.offloaded else a for k, a in enumerate(outs)), many


class _Backward(Call):
    """The backward half of a pair: a gradient is like its input, so nothing is traced to know it."""

    __slots__ = ("given", "wanted")
    given: tuple[Any, ...]  # shapes of the cotangents
    wanted: tuple[Any, ...]  # shapes and dtypes of the inputs that get gradients

    def infer(self, avals: tuple[Any, ...], device: Any) -> tuple[tuple[Aval, ...], bool]:
        cotangents = avals[len(avals) - len(self.given) :]
        if tuple(a.shape for a in cotangents) != self.given:
            return super().infer(avals, device)  # which says what is wrong
        return tuple(aval(shape, dtype, device) for shape, dtype in self.wanted), True


class Pair:
    """Forward and backward of a call with the residuals in between as explicit values.

    The forward call returns ``(*outputs, *residuals)``; residuals that are inputs or outputs anyway are
    not returned twice. When forward and backward end up in one segment the residuals never leave the
    program; otherwise those still alive are kept.
    """

    __slots__ = (
        "_backwards",
        "_form",
        "_offloaded",
        "_outs",
        "_places",
        "_plan",
        "_tree",
        "_wanted",
        "forward",
        "graph",
        "kept",
        "n_outs",
        "name",
        "policy",
        "wants",
    )

    def __init__(self, call: Call, avals: Sequence[Any], wants: tuple[bool, ...]):
        self.name = call.name
        self.policy = call.policy
        self.graph = call.graph
        self.wants = wants
        self._backwards: dict[Any, Call] = {}
        fn = wanting(call.fn, wants)
        self._form = getattr(fn, "backward", None)

        def linear(*inputs: Any) -> tuple[Any, Any]:
            return pullback(lambda *full: tuple(fn(*full)), inputs, wants)

        plan: list[tuple[str, int]] = []

        def probe(*inputs: Any) -> Any:
            out, pull = linear(*inputs)
            self._tree = jax.tree_util.tree_structure(pull)
            plan[:], fresh = held(pull, inputs, out)
            return fresh, out

        # One abstract run finds the residuals, and which of them are inputs or outputs themselves.
        structs = [SCALARS[a] if type(a) is str else a.struct for a in avals]
        device = next(a.device for a in avals if type(a) is not str)
        with jax.enable_x64(True), for_platform(platform_of(device)):
            traced, (_, self._outs) = jax.make_jaxpr(probe, return_shape=True)(*structs)
        self.n_outs = len(self._outs)
        merged, left = once(plan, traced.jaxpr, self.n_outs)
        self._plan = tuple(merged)
        self.kept = len(left)
        self._wanted = tuple((a.shape, a.dtype) for a, w in zip(avals, wants, strict=True) if w)
        self._offloaded = frozenset(
            k for k, at in enumerate(left) if traced.out_avals[at].memory_space == jax.memory.Space.Host
        )

        def forward(*inputs: Any) -> tuple[Any, ...]:
            # What was traced, instead of tracing it once more.
            found = jax.core.eval_jaxpr(traced.jaxpr, traced.consts, *inputs)
            return (*found[len(found) - self.n_outs :], *(found[at] for at in left))

        self.forward = _Forward(self.name, forward, effect=call.effect)
        self.forward.offloaded = {self.n_outs + k for k in self._offloaded}
        results = (*traced.out_avals[-self.n_outs :], *(traced.out_avals[at] for at in left))
        outs = tuple(aval(tuple(r.shape), np.dtype(r.dtype), device) for r in results)
        self.forward.infer_cache[tuple(avals), device] = outs, True  # no second run for their shapes
        self.forward.policy = self.policy
        self.forward.graph = self.graph
        self.forward.places = self._places = call.places

    def residuals(self, inputs: Sequence[Any], made: Sequence[Value]) -> tuple[Any, ...]:
        """The values the backward starts from, out of one recorded forward call."""
        table = {"in": inputs, "out": made, "kept": made[self.n_outs :]}
        return tuple(table[kind][i] for kind, i in self._plan)

    def backward(self, has: tuple[bool, ...]) -> Call:
        """The call (residuals, given cotangents) -> gradients of the wanted inputs."""
        found = self._backwards.get(has)
        if found is None:
            n = len(self._plan)
            away = [at for at, (kind, k) in enumerate(self._plan) if kind == "kept" and k in self._offloaded]

            def run(*args: Any) -> tuple[Any, ...]:
                saved = list(args[:n])
                for at in away:  # from another program their type does not tell where they are
                    if saved[at].aval.memory_space != jax.memory.Space.Host:
                        saved[at] = jax.device_put(saved[at], jax.memory.Space.Host)
                pull = jax.tree_util.tree_unflatten(self._tree, saved)
                given = iter(args[n:])
                cts = [cotangent(o, next(given) if h else None) for h, o in zip(has, self._outs, strict=True)]
                return tuple(pull(tuple(cts)))

            if self._form is not None:
                own = frozenset(at for at, (kind, _) in enumerate(self._plan) if kind == "kept")
                run = self._form(run, own, n)
            made = _Backward("_backward_" + self.name, run)
            made.given = tuple(tuple(o.shape) for h, o in zip(has, self._outs, strict=True) if h)
            made.wanted = self._wanted
            made.policy = self.policy
            made.graph = self.graph
            made.places = self._places
            made.from_host = frozenset(away)
            found = self._backwards.setdefault(has, made)
        return found


def wants_of(values: Sequence[Any]) -> tuple[bool, ...]:
    """Which operands need a gradient."""
    return tuple([v.tape is not None and v.aval.differentiable for v in values])
