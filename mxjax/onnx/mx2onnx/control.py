"""Loops and branches in ONNX's words: `foreach` is Scan, `while_loop` Loop, `cond` If; bodies are graphs inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mxjax.symbol import infer, special, types
from mxjax.symbol.node import Entry, Node, Subgraph, walk

from .writer import Name, Writer

if TYPE_CHECKING:
    from .translating import Graph


class Given(NamedTuple):
    """What a variable of a body stands for: its name in the ONNX graph, shapes and dtype."""

    name: Name
    full: tuple[int, ...]
    tried: tuple[int, ...]
    dtype: Any


def control(graph: Graph, w: Writer, node: Node) -> list[Name]:
    """Write a loop or branch: its results, in MXNet's order."""
    kind = special.ALIASES.get(node.registry, node.registry)
    return dict(zip(special.LOOPS, (_foreach, _while_loop, _cond), strict=True))[kind](
        graph, w, node
    )


def _of(w: Writer, entry: Entry) -> Given:
    return Given(w.names[entry], w.full[entry], w.tried[entry], w.dtypes[entry])


def _inside(graph: Graph, w: Writer, sub: Subgraph, given: Sequence[Given]) -> list[Given]:
    """Write a body's nodes where the writer is; what its results are."""
    names = {v: g for v, g in zip(sub.variables, given, strict=True)}
    nodes = walk([*sub.entries, *((v, 0) for v in sub.variables)])
    kinds = types.complete(nodes, {v.name: types.name_of(g.dtype) for v, g in names.items()})
    found, tried = (
        infer.Inference(nodes, {v.name: getattr(g, which) for v, g in names.items()}, dict(kinds))
        for which in ("full", "tried")
    )
    for v, g in names.items():
        w.names[v, 0] = g.name
    for n in nodes:
        for k in range(n.count()):
            w.know(
                (n, k),
                found.found[n][k],
                tried.found[n][k],
                found.types.get((n, k)) or kinds.get(n),
            )
    for v, g in names.items():
        w.dtypes[v, 0] = np.dtype(g.dtype)
    stem = w.stem
    results = graph.named(w, nodes, sub.entries)
    for n in nodes:
        if not n.is_variable:
            graph.translate(w, n, results)
    w.within(stem)
    return [_of(w, entry) for entry in sub.entries]


class _Body:
    """The nodes of a graph inside a node, while it is written: a block of `with`."""

    def __init__(self, w: Writer):
        self.w = w

    def __enter__(self) -> _Body:
        w = self.w
        self._outer, w.nodes = w.nodes, []
        self._known = set(w.made)
        return self

    def __exit__(self, *exc: object) -> None:
        w = self.w
        self.nodes, w.nodes = w.nodes, self._outer
        # Outside a body what its nodes made is not there; constants are.
        for key in set(w.made) - self._known:
            if key[0] in ("length", "shape"):
                del w.made[key]

    def info(self, name: Name, given: Given | None, dtype: Any = None, shape: Any = None) -> Any:
        w = self.w
        if given is not None:
            dtype = given.dtype
            shape = [m if m == n else None for m, n in zip(given.full, given.tried, strict=True)]
        return w.onnx.helper.make_tensor_value_info(name, w.code(dtype), shape)

    def result(self, given: Given, dtype: Any = None) -> Given:
        """A result, made by a node of the body itself."""
        name = self.w.op("Identity", self.w.cast(given.name, given.dtype, dtype or given.dtype))
        return given._replace(name=name, dtype=np.dtype(dtype or given.dtype))

    def graph(self, title: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        return self.w.onnx.helper.make_graph(self.nodes, title, list(inputs), list(outputs))


def _learn(w: Writer, node: Node, results: Sequence[Given]) -> None:
    """The dtypes of a node's results are those of its bodies'."""
    for k, given in enumerate(results):
        w.dtypes[node, k] = np.dtype(given.dtype)


def _flag(w: Writer, given: Given) -> Name:
    """A condition, as ONNX has it: one bool."""
    x = w.cast(given.name, given.dtype, np.bool_)
    return x if given.full == () else w.op("Reshape", x, w.constant(np.zeros(0, np.int64)))


def _foreach(graph: Graph, w: Writer, node: Node) -> list[Name]:
    data, states, rest = (
        special.places(node, f"{k}_locs") for k in ("in_data", "in_state", "remain")
    )
    n, m = len(data), len(states)
    outer = [_of(w, entry) for entry in node.inputs]
    given: list[Any] = [None] * len(outer)
    for k, at in enumerate((*data, *states, *rest)):
        o = outer[k]
        if k < n:
            given[at] = Given(w.fresh(f"{node.name}_x{k}"), o.full[1:], o.tried[1:], o.dtype)
        else:
            given[at] = o._replace(name=w.fresh(f"{node.name}_s{k - n}")) if k < n + m else o
    count = int(special.value(node, "num_out_data"))
    with _Body(w) as body:
        made = _inside(graph, w, node.subgraphs[0], given)
        ends = [body.result(r, given[at].dtype) for r, at in zip(made[count:], states, strict=True)]
        outs = [body.result(r) for r in made[:count]]
    inputs = [body.info(given[at].name, given[at]) for at in (*states, *data)]
    inside = body.graph(f"{node.name}_body", inputs, [body.info(r.name, r) for r in (*ends, *outs)])
    names = [o.name for o in (*outer[n : n + m], *outer[:n])]
    results = w.ops("Scan", names, m + count, body=inside, num_scan_inputs=n)
    _learn(w, node, [*outs, *ends])
    return [*results[m:], *results[:m]]


def _while_loop(graph: Graph, w: Writer, node: Node) -> list[Name]:
    of_cond, of_func, of_vars = (
        special.places(node, f"{k}_locs") for k in ("cond_input", "func_input", "func_var")
    )
    loop = [of_func[k] for k in of_vars]
    count, limit = (
        int(special.value(node, "num_out_data")),
        int(special.value(node, "max_iterations")),
    )
    outer = dict(enumerate(_of(w, entry) for entry in node.inputs))
    start = _flag(w, _inside(graph, w, node.subgraphs[0], [outer[k] for k in of_cond])[0])
    now = outer | {k: outer[k]._replace(name=w.fresh(f"{node.name}_v{k}")) for k in loop}
    step, holds = w.fresh(f"{node.name}_step"), w.fresh(f"{node.name}_holds")
    with _Body(w) as body:
        made = _inside(graph, w, node.subgraphs[1], [now[k] for k in of_func])
        outs = [body.result(r) for r in made[:count]]
        news = [body.result(r, outer[k].dtype) for r, k in zip(made[count:], loop, strict=True)]
        after = now | dict(zip(loop, news, strict=True))
        going = w.op(
            "Identity",
            _flag(w, _inside(graph, w, node.subgraphs[0], [after[k] for k in of_cond])[0]),
        )
    inputs = [body.info(step, None, np.int64, ()), body.info(holds, None, np.bool_, ())]
    inputs += [body.info(now[k].name, now[k]) for k in loop]
    outputs = [
        body.info(going, None, np.bool_, ()),
        *[body.info(r.name, r) for r in (*news, *outs)],
    ]
    inside = body.graph(f"{node.name}_body", inputs, outputs)
    most = w.constant(limit, np.int64)
    results = w.ops(
        "Loop", [most, start, *[outer[k].name for k in loop]], len(loop) + count, body=inside
    )
    _learn(w, node, [*outs, *news])
    return [*[_padded(w, x, len(r.full), limit) for x, r in zip(results[len(loop) :], outs, strict=True)],
            *results[: len(loop)]]  # fmt: skip


def _padded(w: Writer, x: Name, axes: int, limit: int) -> Name:
    """So many rows: those of no step are zeros, as MXNet has them."""
    there = w.slice(w.op("Shape", x), 0, 0, 1)
    before, after = [0] * (axes + 1), [0] * axes
    pads = [w.ints(before), w.op("Sub", w.ints(limit), there), *([w.ints(after)] if after else [])]
    return w.op("Pad", x, w.joined(pads))


def _cond(graph: Graph, w: Writer, node: Node) -> list[Name]:
    chosen = [special.places(node, f"{k}_input_locs") for k in ("cond", "then", "else")]
    outer = [_of(w, entry) for entry in node.inputs]
    flag = _flag(w, _inside(graph, w, node.subgraphs[0], [outer[k] for k in chosen[0]])[0])
    branches: list[Any] = []
    made: list[Given] = []
    for k, title in ((1, "then"), (2, "else")):
        with _Body(w) as body:
            results = _inside(graph, w, node.subgraphs[k], [outer[i] for i in chosen[k]])
            # Both branches give the same dtypes.
            made = [body.result(r, made[i].dtype if made else None) for i, r in enumerate(results)]
        branches.append(
            body.graph(f"{node.name}_{title}", [], [body.info(r.name, r) for r in made])
        )
    _learn(w, node, made)
    return w.ops("If", [flag], len(made), then_branch=branches[0], else_branch=branches[1])
