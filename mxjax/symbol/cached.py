"""What a bound symbol runs as: a graph per signature, one call of the engine once it has come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import settings
from ..array.classes import NDArray
from ..core import (
    Cut,
    Dynamic,
    Graph,
    GraphCall,
    Places,
    ReadWhileRecording,
    aval,
    calls_python,
    goes_by_call,
    hold,
    is_recording,
    is_traced,
    local,
    record,
    record_pair,
    recording,
    rng,
    wants_of,
)
from ..core.calls.value import Value
from .node import Entry, Node
from .run import run

_mode = settings.snapshot("engine.cold")


class CachedOp:
    """A symbol as a function of arrays, in the order of `Symbol.list_inputs`; auxiliary states are written to.

    ``flags`` (static_alloc, static_shape, ...) are accepted: memory is planned when the program is compiled.

    >>> import mxjax as mx
    >>> double = CachedOp(2 * mx.sym.var("x"))
    >>> double(mx.nd.ones((2,))).asnumpy()
    array([2., 2.], dtype=float32)
    """

    def __init__(
        self, sym: Any, flags: Any = (), thread_safe: bool = False, operators: Places | None = None
    ):
        #: The operators in Python of the nodes: an executor has one for each.
        self.operators = Places() if operators is None else operators
        self._symbol = sym
        self._entries: list[Entry] = sym._entries
        self._variables: list[Node] = sym._variables()
        self._programs: dict[Any, Any] = {}  # False: it has none

    def get_optimized_symbol(self) -> Any:
        """The symbol with equal parts once (`mxjax.symbol.optimized.optimized`)."""
        from .optimized import optimized

        return optimized(self._symbol)

    def __call__(
        self, *args: Any, default_device: Any = None, default_ctx: Any = None, out: Any = None
    ) -> Any:
        arrays = [a for a in args if a is not None]
        made = self.run(arrays, device=default_device or default_ctx)
        if out is not None:
            for target, array in zip(
                out if isinstance(out, (list, tuple)) else [out], made, strict=True
            ):
                target[:] = array
        return made[0] if len(made) == 1 else made

    def run(
        self,
        arrays: Sequence[NDArray],
        shapes: Mapping[Node, tuple[int, ...]] | None = None,
        cls: type[NDArray] | None = None,
        device: Any = None,
    ) -> list[NDArray]:
        """The results for these arrays; ``shapes`` are of nodes that make arrays of shapes inferred."""
        st = local.st
        if is_recording() or not arrays:
            return self._by_node(arrays, shapes, cls, device)
        key = (
            tuple([(a._v or a._value()).aval for a in arrays]),
            st.training,
            cls,
            _key_of(shapes),
        )
        program: Any = self._programs.get(key)
        if program is None:
            given = self._entries, self._variables, arrays, shapes, cls, self.operators
            try:
                program = self._programs[key] = _Program(*given)
            except ReadWhileRecording:  # its shapes go by numbers
                program = self._programs[key] = False
        if program is False:
            return self._by_node(arrays, shapes, cls, device)
        if program.fresh:
            graph = program.call.graph
            if _mode() == "interpret" or goes_by_call(graph, st.seg, graph.avals[0].device):
                if program.cut is not None or program.looks:
                    made = self._by_node(arrays, shapes, cls, device)
                else:
                    made = program(arrays, by_call=True)
                hold(st.seg.step, graph)
                return made
            program.fresh = False
        return program(arrays)

    def _by_node(
        self, arrays: Sequence[NDArray], shapes: Any, cls: Any, device: Any
    ) -> list[NDArray]:
        feed = dict(zip(self._variables, arrays, strict=True))
        return run(self._entries, feed, shapes, cls=cls, device=device, operators=self.operators)


def _key_of(shapes: Mapping[Node, tuple[int, ...]] | None) -> Any:
    return tuple(shapes.items()) if shapes else None


class _Program:
    """A symbol recorded once for arrays of these shapes: a call of the engine, and a pair of them under the tape."""

    def __init__(
        self,
        entries: Sequence[Entry],
        variables: Sequence[Node],
        arrays: Sequence[NDArray],
        shapes: Mapping[Node, tuple[int, ...]] | None,
        cls: type[NDArray] | None,
        operators: Places,
    ):
        self.operators = operators
        self.fresh = True  # it was not called yet: it is run node by node, while that costs less
        values = [a._value() for a in arrays]
        device = values[0].aval.device
        key = rng.own_stream(device).key
        with recording(_title(entries), device) as rec:
            symbols = [
                rec.placeholder(v.aval, n.name) for v, n in zip(values, variables, strict=True)
            ]
            base = rec.placeholder(aval((), "int64", device), "random_count")
            handles = [type(a)._wrap(s) for a, s in zip(arrays, symbols, strict=True)]
            with rng.GraphStream(key, base) as draws:
                outs = run(
                    entries,
                    dict(zip(variables, handles, strict=True)),
                    shapes,
                    cls=cls,
                    operators=operators,
                )
            self.states = [
                k for k, (h, s) in enumerate(zip(handles, symbols, strict=True)) if h._v is not s
            ]
            results = [o._value() for o in outs] + [handles[k]._value() for k in self.states]
            names = [f"{n.outputs()[k]}" for n, k in entries]
            graph: Graph = rec.finish(results, names, {key: "random_key"})
        self.kinds = [type(o) for o in outs]
        self.draws = draws.used
        self.key = key
        self.sources: list[Value | None] = [None if v is key else v for v in graph.captured]
        self.scalars = graph.scalars
        self.call = GraphCall(graph)
        self.cut = Cut(graph) if calls_python(graph) else None
        #: An operator refuses numbers that are there as it is called (`Op.looks`).
        self.looks = any(getattr(s.call.row, "looks", None) is not None for s in graph.steps)  # type: ignore[union-attr]
        graph.captured = ()

    def __call__(self, arrays: Sequence[NDArray], by_call: bool = False) -> list[NDArray]:
        """The results for these arrays; ``by_call``: the graph's calls are recorded one by one."""
        values: list[Any] = [a._v or a._value() for a in arrays]
        if self.draws:
            stream = rng.stream(values[0].aval.device)
            values.append(Dynamic(stream.take(self.draws)))
            values += [stream.key if s is None else s for s in self.sources]
        else:
            values.append(_NO_DRAWS)
            values += [s for s in self.sources if s is not None]
        values += [Dynamic(s) for s in self.scalars]
        wants = wants_of(values) if local.st.taping else ()
        made: Sequence[Value]
        if by_call:
            made = self.call.graph.onto(values)
        elif self.cut is not None and not is_traced(values):
            made = self.cut(values, arrays, places=self.operators)
        elif any(wants) and self.call.graph.has_gradient_of_steps(wants, len(self.kinds)):  # type: ignore[union-attr]
            made = self.call.graph.onto(values)  # type: ignore[union-attr]
        elif any(wants):
            made = record_pair(self.call, values, wants)
        else:
            made = record(self.call, values)
        n = len(self.kinds)
        for k, v in zip(self.states, made[n:], strict=True):
            v.tape = None
            arrays[k]._set(v)
        return [kind._wrap(v) for kind, v in zip(self.kinds, made[:n], strict=True)]


_NO_DRAWS = Dynamic(0)


def _title(entries: Sequence[Entry]) -> str:
    return entries[0][0].name or "symbol"


__all__ = ["CachedOp"]
