"""Recorded calls as nodes: the way from a graph, or from deferred computation, to a symbol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import errors
from ..core import SCALAR, Call, Graph
from ..ops.keys import AT, Run, Slice
from ..ops.table import TABLE, Op, by_internal
from .custom import custom_node
from .node import Entry, Node, Subgraph, walk

# Rows of the core's own, by those of the table that compute the same.
_TWINS = {
    "_grad_add": "add",
    "_ones_like": "ones_like",
    "_detach": "stop_gradient",
    "_zeros_like": "zeros_like",
}
_WHOLE = Slice(None, None, None)


def node_of(
    call: Call, operands: Sequence[Entry | float | int], title: str, axes: int | None = None
) -> Node:
    """The node of a call on these results of nodes and numbers; ``axes`` is how many its first array has.

    Raises:
      MXNetError: the call is no operator of the table.
    """
    op: Any = call.row
    if op.name in ("Custom", "_custom_traced"):
        said = dict(call.attrs)
        params = {"op_type": said["op_type"], **dict(said["options"])}
        return custom_node(
            title, params, [o for o in operands if isinstance(o, tuple)], {}, not said["legacy"]
        )
    if op.name in _TWINS:
        op = TABLE[_TWINS[op.name]]
    if not isinstance(op, Op):
        raise errors.MXNetError(
            f"{call.name} cannot be part of a symbol: it is no operator of the table but something that ran inside it "
            "(a gradient)"
        )
    given = list(operands)
    numbers = given[len(given) - len(call.varying) :]
    arrays = given[: len(given) - len(call.varying)]
    first = 0
    if op.keyed:
        first, arrays = 3, arrays[3:]
    params = {k: v for k, v in call.attrs if k != "is_train"}
    holes: dict[int, Any] = {at - first: value for at, value in call.constants}
    for key, number in zip(call.varying, numbers, strict=True):
        if isinstance(key, int):
            holes[key - first] = number
        else:
            params[key] = number
    if axes is not None and "key" in params:
        places = [a for a in arrays if not isinstance(a, tuple)]
        arrays = [a for a in arrays if isinstance(a, tuple)]
        params["key"] = _spelt(_placed(params["key"], iter(places)), axes)
    count = len(arrays) + len(holes)
    free = [k for k in range(count) if k not in holes]
    label = [f"arg{k}" for k in range(count)] if op.variadic else list(op.array_params)
    constants = {label[k]: v for k, v in holes.items() if v is not None}
    entries: list[Entry] = []
    for a in arrays:
        if not isinstance(a, tuple):
            raise errors.MXNetError(
                f"{call.name} takes the number {a!r} in a place that a symbol has no attribute for"
            )
        entries.append(a)
    is_np = not op.name.endswith("@nd")
    return Node(title, op, params, {}, entries, [label[k] for k in free], constants, is_np=is_np)


def _placed(key: tuple[Any, ...], places: Iterator[Any]) -> tuple[Any, ...]:
    """An index with the numbers in it that came as operands."""
    made: list[Any] = []
    for k in key:
        if k == AT:
            made.append(int(next(places)))
        elif type(k) is Run:
            low = int(next(places))
            high = low + (k.count - 1) * abs(k.step)
            if k.step > 0:
                made.append(Slice(low, high + 1, k.step))
            else:
                made.append(Slice(high, low - 1 if low else None, k.step))
        else:
            made.append(k)
    return tuple(made)


def _spelt(key: tuple[Any, ...], axes: int) -> tuple[Any, ...]:
    """An index with a slice for each axis that ``...`` stands for."""
    if Ellipsis not in key:
        return key
    taken = sum(k is not None and k is not Ellipsis for k in key)
    at = key.index(Ellipsis)
    return (*key[:at], *[_WHOLE] * (axes - taken), *key[at + 1 :])


def entries_of(
    graph: Graph,
    inputs: Sequence[Entry],
    results: int | None = None,
    scalars: Sequence[float | int] | None = None,
) -> list[Entry]:
    """A graph's results as results of nodes, on these for its inputs; only the first ``results`` of them.

    ``scalars`` are its numbers, where it is a graph inside another one.
    """
    numbers = graph.scalars if scalars is None else scalars
    env: dict[int, Entry | float | int] = {-1 - k: e for k, e in enumerate(inputs)}
    shapes: dict[int, tuple[int, ...]] = {-1 - k: a.shape for k, a in enumerate(graph.avals)}
    counts: dict[str, int] = {}
    for step in graph.steps:
        assert step.call is not None
        operands = [numbers[i - SCALAR] if i >= SCALAR else env[i] for i in step.args]
        stem = "_".join(p for p in (step.scope.replace("/", "_"), step.call.name.lower()) if p)
        counts[stem] = counts.get(stem, -1) + 1
        arrays = [i for i in step.args if i < SCALAR]
        axes = len(shapes[arrays[0]]) if arrays else None
        make = _LOOPS.get(getattr(step.call.row, "name", ""))
        if make is not None:
            node = make(step.call, operands, f"{stem}{counts[stem]}")
        else:
            node = node_of(step.call, operands, f"{stem}{counts[stem]}", axes)  # type: ignore[arg-type]
        for k, a in enumerate(step.avals):
            env[step.first + k] = (node, k)
            shapes[step.first + k] = a.shape
    wanted = graph.outputs if results is None else graph.outputs[:results]
    return [env[k] for k in wanted]  # type: ignore[misc]


# ---- loops and branches ---------------------------------------------------------------------------------


class _Inside:
    """A graph inside a call as a node's, and which of the node's inputs its variables are.

    ``given`` of its inputs are what the loop or branch calls it with; the others it captured. What is not read is left
    out (the count of random numbers, which nodes draw by themselves), but for the given ones where ``whole``.
    """

    def __init__(self, graph: Graph, given: int, captured: Sequence[Any], title: str, whole: bool):
        arrays = len(graph.avals) - given
        outside = captured[:arrays]
        names = [f"{title}_{name}" for name in graph.inputs[:given]]
        names += [
            e[0].name if isinstance(e, tuple) else f"{title}_in{k}" for k, e in enumerate(outside)
        ]
        variables = [Node(name) for name in names]
        entries = entries_of(graph, [(v, 0) for v in variables], None, captured[arrays:])
        read = set(walk(entries))
        kept = [v for k, v in enumerate(variables) if (whole and k < given) or v in read]
        # A file has the variables in the order of the walk.
        self.order = [n for n in walk([*entries, *[(v, 0) for v in kept]]) if n.is_variable]
        self.given = variables[:given]
        pairs = [(e, v) for e, v in zip(outside, variables[given:], strict=True) if v in read]
        self.captured, self.inner = [e for e, _ in pairs], [v for _, v in pairs]
        self.graph = Subgraph(entries, self.order)

    def places(self, variables: Sequence[Node]) -> tuple[int, ...]:
        """Where these stand among the graph's variables."""
        return tuple([self.order.index(v) for v in variables])

    def inputs(self, first: int, captured: int) -> tuple[int, ...]:
        """Each variable's input of the node: the given ones stand at ``first``, what was captured at ``captured``."""
        at = {v: first + k for k, v in enumerate(self.given)} | {
            v: captured + k for k, v in enumerate(self.inner)
        }
        return tuple([at[v] for v in self.order])


def _captures(graph: Graph, given: int) -> int:
    return len(graph.avals) - given + len(graph.fmt)


def _insides(
    call: Call, operands: Sequence[Any], given: int, keys: Sequence[str], title: str
) -> list[_Inside]:
    attrs = dict(call.attrs)
    if attrs.get("updated"):
        raise errors.MXNetError(
            f"{call.name} cannot be part of a symbol: its body writes to arrays from outside (moving statistics). "
            "Export the network as it is recorded in prediction"
        )
    found = []
    for key in keys:
        graph = attrs[key]
        n = _captures(graph, given)
        found.append(_Inside(graph, given, operands[:n], f"{title}_{key}", key in ("body", "func")))
        operands = operands[n:]
    return found


def _loop(
    kind: str,
    title: str,
    params: dict[str, Any],
    inputs: Sequence[Entry],
    graphs: Sequence[Subgraph],
    count: int,
) -> Node:
    params = {**params, "num_args": len(inputs) + len(graphs), "num_outputs": count}
    names = [f"data{k}" for k in range(len(inputs))]
    node = Node(
        title, None, params, {}, list(inputs), names, {"outputs": count}, registry=kind, is_np=True
    )
    node.subgraphs = list(graphs)
    return node


def _number(predicate: Entry, title: str) -> Entry:
    """A predicate as a float: MXNet's loops and branches take no bools."""
    return Node(title, by_internal("Cast"), {"dtype": "float32"}, {}, [predicate], ["data"]), 0


def _foreach(call: Call, operands: Sequence[Any], title: str) -> Node:
    attrs = dict(call.attrs)
    data, outs, count = attrs["num_data"], attrs["num_out_data"], len(attrs["body"].outputs)
    states = count - outs - len(attrs.get("updated", ()))
    (body,) = _insides(call, operands[data + states :], data + states, ["body"], title)
    inputs = [*operands[: data + states], *body.captured]
    params = {
        "in_data_locs": body.places(body.given[:data]),
        "in_state_locs": body.places(body.given[data:]),
        "remain_locs": body.places(body.inner), "num_out_data": outs,
    }  # fmt: skip
    return _loop("_foreach", title, params, inputs, [body.graph], count)


def _while_loop(call: Call, operands: Sequence[Any], title: str) -> Node:
    attrs = dict(call.attrs)
    outs, count = attrs["num_out_data"], len(attrs["func"].outputs)
    loop = count - outs - len(attrs.get("updated", ()))
    test, step = _insides(call, operands[loop:], loop, ["cond", "func"], title)
    inputs = [*operands[:loop], *test.captured, *step.captured]
    params = {
        "cond_input_locs": test.inputs(0, loop),
        "func_input_locs": step.inputs(0, loop + len(test.captured)),
        "func_var_locs": step.places(step.given), "max_iterations": attrs["max_iterations"], "num_out_data": outs,
    }  # fmt: skip
    held = Subgraph([_number(test.graph.entries[0], f"{title}_cond_cast")], test.graph.variables)
    return _loop("_while_loop", title, params, inputs, [held, step.graph], count)


def _cond(call: Call, operands: Sequence[Any], title: str) -> Node:
    attrs = dict(call.attrs)
    n, count = attrs["num_inputs"], len(attrs["then_branch"].outputs)
    then, other = _insides(call, operands[1 + n :], n, ["then_branch", "else_branch"], title)
    chosen = Node(f"{title}_pred")
    inputs = [
        _number(operands[0], f"{title}_cast"),
        *operands[1 : 1 + n],
        *then.captured,
        *other.captured,
    ]
    params = {
        "cond_input_locs": (0,), "then_input_locs": then.inputs(1, 1 + n),
        "else_input_locs": other.inputs(1, 1 + n + len(then.captured)),
    }  # fmt: skip
    return _loop(
        "_cond",
        title,
        params,
        inputs,
        [Subgraph([(chosen, 0)], [chosen]), then.graph, other.graph],
        count,
    )


_LOOPS = {"_foreach": _foreach, "_while_loop": _while_loop, "_cond": _cond}


def symbol_of_run(
    run: Callable[[], Sequence[Any]], arrays: Sequence[Any], variables: Sequence[Any]
) -> Any:
    """The symbol of what a function gives, which is called once, by deferred computation.

    Arrays for which there are variables are those.
    """
    from .. import _deferred_compute as deferred

    deferred.clear(arrays)
    try:
        deferred.set_variable(arrays, variables)
        with deferred.context():
            made = run()
        return deferred.get_symbol(made)
    finally:
        deferred.clear(arrays)


__all__ = ["entries_of", "node_of", "symbol_of_run"]
