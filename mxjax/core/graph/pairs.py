"""Graphs as calls, and calls in two halves: a forward pass that also returns its residuals, and a backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..calls.aval import PINNED, Aval, aval
from ..calls.call import SCALARS, Call, Row, bounded, dressed
from ..calls.record import record, untaped_record
from ..calls.segment import Tree
from ..calls.state import local
from ..calls.value import Dynamic, Value
from ..compile.compiler import for_platform, platform_of, wide_types
from ..hooks import RematPolicy, memory_managers, operator_wrappers
from ..run.interrupts import shielded
from .graph import Graph
from .jaxprs import cotangent, held, narrowed, once, pullback, wanting
from .tape import Node


class GraphCall(Call):
    """A graph as one operator: the cached form of a hybridized block.

    A rematerialisation policy may lower it to a function that keeps less for the backward pass.
    """

    __slots__ = ("_drawless",)

    def __init__(self, graph: Graph, policy: RematPolicy | None = None):
        run = graph.run if policy is None else policy.lower(graph)
        effect = any(s.call.effect for s in graph.steps)  # type: ignore[union-attr]
        super().__init__(Row(graph.name, run, effect=effect))
        self.graph = graph
        self.policy = policy
        self._drawless: Call | None = None

    def drawless(self, at: int) -> Call:
        """The call of a graph that draws no random numbers without their count, which is its operand ``at``."""
        found = self._drawless
        if found is None:
            run = self.fn

            def drawless(*args: Any) -> Any:
                return run(*args[:at], 0, *args[at:])

            found = Drawless(Row(self.name, drawless, effect=self.effect))
            found.at = at
            found.graph, found.policy, found.places = self.graph, self.policy, self.places
            self._drawless = found
        return found


class Drawless(Call):
    """The call of a graph without the count of its draws, the graph's input ``at``."""

    __slots__ = ("at",)
    at: int


class _Forward(Call):
    """The forward half of a pair: residuals that were offloaded wait in the host's memory."""

    __slots__ = ("offloaded",)
    offloaded: set[int]

    def infer(
        self, avals: tuple[Any, ...], device: Any, traced: bool = False
    ) -> tuple[tuple[Aval, ...], bool]:
        outs, many = super().infer(avals, device, traced)
        if not self.offloaded:
            return outs, many
        return tuple(a.on(PINNED) if k in self.offloaded else a for k, a in enumerate(outs)), many


class _Backward(Call):
    """The backward half of a pair: a gradient is like its input, so nothing is traced to know it."""

    __slots__ = ("given", "wanted")
    given: tuple[Any, ...]  # shapes of the cotangents
    wanted: tuple[Any, ...]  # shapes and dtypes of the inputs that get gradients

    def infer(
        self, avals: tuple[Any, ...], device: Any, traced: bool = False
    ) -> tuple[tuple[Aval, ...], bool]:
        cotangents = avals[len(avals) - len(self.given) :]
        if tuple(a.shape for a in cotangents) != self.given:
            return super().infer(avals, device, traced)  # which says what is wrong
        return tuple(aval(shape, dtype, device) for shape, dtype in self.wanted), True


class Pair:
    """Forward and backward of a call with the residuals in between as explicit values.

    The forward call returns ``(*outputs, *residuals)``; residuals that are inputs or outputs anyway are
    not returned twice. When forward and backward end up in one segment the residuals never leave the
    program; otherwise those still alive are kept.
    """

    __slots__ = (
        "_again",
        "_backwards",
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

    def __init__(
        self,
        call: Call,
        avals: Sequence[Any],
        wants: tuple[bool, ...],
        lasting: range = range(0),
        place: str = "",
    ):
        """``lasting`` are the operands that others hold anyway, such as weights; settings may name the ``place``."""
        self.name = call.name
        self.policy = call.policy
        self.graph = call.graph
        self.wants = wants
        self._backwards: dict[Any, Call] = {}
        fn = wanting(dressed(call, place), wants)

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
        with wide_types(), for_platform(platform_of(device)):
            traced, (_, self._outs) = shielded(jax.make_jaxpr(probe, return_shape=True))(*structs)
        self.n_outs = len(self._outs)
        self._again = narrowed(plan, traced.jaxpr, lasting)
        plan = [
            ("in", self._again[at][0]) if at in self._again else place
            for at, place in enumerate(plan)
        ]
        merged, left = once(plan, traced.jaxpr, self.n_outs)
        self._plan = tuple(merged)
        self.kept = len(left)
        self._wanted = tuple((a.shape, a.dtype) for a, w in zip(avals, wants, strict=True) if w)
        self._offloaded = frozenset(
            k
            for k, at in enumerate(left)
            if traced.out_avals[at].memory_space == jax.memory.Space.Host
        )

        def forward(*inputs: Any) -> tuple[Any, ...]:
            # What was traced, instead of tracing it once more.
            found = jax.core.eval_jaxpr(traced.jaxpr, traced.consts, *inputs)
            return (*found[len(found) - self.n_outs :], *(found[at] for at in left))

        self.forward = _Forward(Row(self.name, forward, effect=call.effect))
        self.forward.offloaded = {self.n_outs + k for k in self._offloaded}
        results = (*traced.out_avals[-self.n_outs :], *(traced.out_avals[at] for at in left))
        outs = tuple(aval(tuple(r.shape), np.dtype(r.dtype), device) for r in results)
        self.forward.infer_cache[tuple(avals), device] = (
            outs,
            True,
        )  # no second run for their shapes
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
            away = [
                at
                for at, (kind, k) in enumerate(self._plan)
                if kind == "kept" and k in self._offloaded
            ]

            def run(*args: Any) -> tuple[Any, ...]:
                saved = list(args[:n])
                for at in away:  # from another program their type does not tell where they are
                    if saved[at].aval.memory_space != jax.memory.Space.Host:
                        saved[at] = jax.device_put(saved[at], jax.memory.Space.Host)
                for at, (_, dtype) in self._again.items():
                    # Behind a barrier, and not before there are cotangents: else it is one number for both passes.
                    wide, *_ = jax.lax.optimization_barrier((saved[at], *args[n : n + 1]))
                    saved[at] = jax.lax.convert_element_type(wide, dtype)
                pull = jax.tree_util.tree_unflatten(self._tree, saved)
                given = iter(args[n:])
                cts = [
                    cotangent(o, next(given) if h else None)
                    for h, o in zip(has, self._outs, strict=True)
                ]
                return tuple(pull(tuple(cts)))

            made = _Backward(Row("_backward_" + self.name, run))
            made.given = tuple(tuple(o.shape) for h, o in zip(has, self._outs, strict=True) if h)
            made.wanted = self._wanted
            made.policy = self.policy
            made.graph = self.graph
            made.places = self._places
            made.from_host = frozenset(away)
            found = self._backwards.setdefault(has, made)
        return found


PAIRS = 64  # traces of one loop, by the shapes of what it takes


def record_pair(
    call: Call,
    values: Sequence[Any],
    wants: tuple[bool, ...],
    lasting: range = range(0),
    avals: Any = None,
) -> tuple[Value, ...]:
    """Record the forward half of a call and put it on the tape as one node of this call; the results of the call.

    ``lasting`` are the operands that others hold anyway, such as weights. A call that has operands of several shapes
    says which these are (``avals``).
    """
    place = local.st.scope if operator_wrappers else ""
    key = Tree.generation, wants, avals, place  # a setting may have changed what the forward keeps
    pair = call.pairs.get(key)
    if pair is None:
        if any(k[0] != Tree.generation for k in call.pairs):
            call.pairs.clear()
            places = call.places or []
            places[:] = [p for p in places if p[0]() is not None]  # those of a tree that is gone
        bounded(call.pairs, PAIRS)
        found = avals or [v.kind if type(v) is Dynamic else v.aval for v in values]
        pair = call.pairs[key] = Pair(call, found, wants, lasting, place)
    made = untaped_record(pair.forward, values)
    outs = made[: pair.n_outs]
    node = Node(call, tuple(values), tuple([v.aval for v in outs]), True)
    node.saved = (pair, pair.residuals(values, made))
    for manager in memory_managers:
        manager.saved(node, made)
    for k, v in enumerate(outs):
        v.tape = node
        v.out = k
    return outs


def record_paired(call: Call, values: Sequence[Any]) -> tuple[Value, ...]:
    """:func:`record` for a costly call of several results (a loop): the backward pass does not run it again."""
    wants = wants_of(values) if local.st.taping else ()
    if not any(wants):
        return record(call, values)
    avals = tuple([v.kind if type(v) is Dynamic else v.aval for v in values])
    return record_pair(call, values, wants, avals=avals)


def wants_of(values: Sequence[Any]) -> tuple[bool, ...]:
    """Which operands need a gradient."""
    return tuple([v.tape is not None and v.aval.differentiable for v in values])
