"""Loops and branches over symbols: `foreach`, `while_loop`, `cond`. Their bodies become graphs inside a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import attribute, errors, name
from ..ops.table import TABLE
from .node import Entry, Node, Subgraph, last_serial
from .symbol import Symbol, _Symbol

__all__ = ["cond", "foreach", "while_loop"]


def _flat(x: Any, what: str) -> list[Any]:
    """The symbols of nested lists."""
    if isinstance(x, Symbol):
        return list(x) if len(x) > 1 else [x]
    if isinstance(x, (list, tuple)):
        return [s for part in x for s in _flat(part, what)]
    raise errors.MXNetAssertionError(
        f"{what} should be a symbol or a nested list of symbols, got {type(x).__name__}"
    )


def _like(x: Any, symbols: list[Any]) -> Any:
    """Symbols in the structure of nested lists; takes them from the front."""
    if isinstance(x, Symbol):
        if len(x) > 1:
            return [symbols.pop(0) for _ in range(len(x))]
        return symbols.pop(0)
    return [_like(part, symbols) for part in x]


def _inputs(symbols: Sequence[Any]) -> list[Any]:
    """Variables in the place of what comes in."""
    made = []
    for s in symbols:
        node, k = s._entries[0]
        made.append(type(s)([(Node(f"{node.name}-{k}"), 0)]))
    return made


class _Cut:
    """The graph of a body: what was made since ``start``, on variables for what is from before."""

    def __init__(
        self, results: Sequence[Any], variables: Sequence[Any], start: int, unused: bool = True
    ):
        self._start = start
        self._made: dict[Entry, Entry] = {}
        self._nodes: dict[Node, Node] = {}
        self.captured: list[
            tuple[Entry, Node]
        ] = []  # what is from around the body, and the variable for it
        own = [s._entries[0][0] for s in variables]
        self._own = dict.fromkeys(own)
        entries: list[Entry] = []
        for s in results:
            entry = self._entry(s._entries[0])
            if entry[0].is_variable or entry in entries:  # each result is a node's own
                entry = (
                    Node(
                        name.current().get(None, "identity"),
                        TABLE["copy@nd"],
                        inputs=[entry],
                        names=["data"],
                    ),
                    0,
                )
            entries.append(entry)
        order = [n for n in _walk(entries) if n.is_variable]
        self.graph = Subgraph(entries, [*order, *[n for n in own if n not in order and unused]])
        self.captured.sort(key=lambda pair: order.index(pair[1]))
        self.own = own

    def _entry(self, entry: Entry) -> Entry:
        todo = [entry]
        while todo:
            node, k = todo[-1]
            if (node, k) in self._made:
                todo.pop()
            elif node in self._own:
                self._made[node, k] = (node, k)
                todo.pop()
            elif node.is_variable or node.serial <= self._start:
                made = Node(node.name if node.is_variable else f"{node.name}-{k}", attrs=node.attrs)
                self.captured.append(((node, k), made))
                self._made[node, k] = (made, 0)
                todo.pop()
            else:
                waiting = [e for e in node.inputs if e not in self._made]
                if waiting:
                    todo += waiting
                    continue
                if node not in self._nodes:
                    self._nodes[node] = node.on([self._made[e] for e in node.inputs])
                self._made[node, k] = (self._nodes[node], k)
                todo.pop()
        return self._made[entry]


def _walk(entries: Sequence[Entry]) -> list[Node]:
    from .node import walk

    return walk(entries)


def _node(
    kind: str,
    params: dict[str, Any],
    inputs: Sequence[Entry],
    graphs: Sequence[Subgraph],
    count: int,
    np: bool,
) -> Any:
    params = {**params, "num_args": len(inputs) + len(graphs), "num_outputs": count}
    names = [f"data{k}" for k in range(len(inputs))]
    title = name.current().get(None, kind)
    made = Node(title, None, params, {}, inputs, names, {"outputs": count}, registry=kind, is_np=np)
    made.subgraphs = list(graphs)
    cls = _Symbol if np else Symbol
    return [cls([(made, k)]) for k in range(count)]


def foreach(
    body: Callable[..., Any], data: Any, init_states: Any, name: str = "foreach"
) -> tuple[Any, Any]:
    """Run ``body(slice, states)`` over the first axis of data: the outputs, stacked, and the last states.

    Args:
      body: a function of symbols, which gives (outputs, states); it is called once.
      data, init_states: symbols or nested lists of them.
      name: what its subgraphs are called, and counted by.

    Returns:
      tuple: the outputs, stacked along axis 0, and the states at the end.

    >>> import mxjax as mx
    >>> outs, last = mx.sym.contrib.foreach(lambda x, s: (x + s, x + s), mx.sym.var("x"), mx.sym.var("s"))
    >>> outs.eval(x=mx.nd.array([1, 2, 3]), s=mx.nd.array(0))[0].asnumpy()
    array([1., 3., 6.], dtype=float32)
    """
    xs, states = _flat(data, "data"), _flat(init_states, "init_states")
    start = last_serial()
    ins, begin = _inputs(xs), _inputs(states)
    outs, ends = body(_like(data, list(ins)), _like(init_states, list(begin)))
    made, after = (
        _flat(outs, "the body's outputs") if not _empty(outs) else [],
        _flat(ends, "the body's states"),
    )
    if len(after) != len(states):
        raise errors.MXNetAssertionError(
            f"the body gives {len(after)} states, and there are {len(states)} init_states"
        )
    cut = _Cut([*made, *after], [*ins, *begin], start)
    attribute.count_subgraph(name)
    order = cut.graph.variables
    at = {n: k for k, n in enumerate(order)}
    params = {
        "in_data_locs": tuple([at[n] for n in cut.own[: len(xs)]]),
        "in_state_locs": tuple([at[n] for n in cut.own[len(xs) :]]),
        "remain_locs": tuple([at[n] for _, n in cut.captured]),
        "num_out_data": len(made),
    }
    inputs = [*[s._entries[0] for s in (*xs, *states)], *[e for e, _ in cut.captured]]
    results = _node(
        "_foreach", params, inputs, [cut.graph], len(made) + len(after), (xs + states)[0]._is_np
    )
    return (_like(outs, results[: len(made)]) if made else []), _like(ends, results[len(made) :])


def _empty(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and not x


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., Any],
    loop_vars: Any,
    max_iterations: Any = None,
    name: str = "while_loop",
) -> tuple[Any, Any]:
    """Run ``func(*loop_vars)``, which gives (outputs, new loop_vars), while ``cond(*loop_vars)`` holds.

    The outputs have ``max_iterations`` rows; those of no step are zero.

    Args:
      cond: whether the loop goes on: a function of the values.
      func: the function.
      loop_vars: the values that the loop carries, an array or a list of them.
      max_iterations: after how many rounds the loop ends in any case.
      name: what its subgraphs are called, and counted by.

    Returns:
      tuple: the outputs, stacked along axis 0, and the values at the end.

    Raises:
      ValueError: no ``max_iterations``, or no loop variables.
    """
    if max_iterations is None:
        raise errors.MXNetValueError("max_iterations should be specified")
    if _empty(loop_vars):
        raise errors.MXNetValueError("loop_vars should contain at least one element")
    given = _flat(loop_vars, "loop_vars")
    many = isinstance(loop_vars, (list, tuple))
    start = last_serial()
    ins = _inputs(given)
    held = _Cut(
        _flat(cond(*_args(loop_vars, ins, many)), "what cond gives"), ins, start, unused=False
    )
    start = last_serial()
    ins = _inputs(given)
    outs, news = func(*_args(loop_vars, ins, many))
    outs = [] if outs is None else outs
    made = _flat(outs, "func's outputs") if not _empty(outs) else []
    after = _flat(news, "func's loop_vars")
    if len(after) != len(given):
        raise errors.MXNetValueError(
            f"func gives {len(after)} loop_vars, and there are {len(given)}"
        )
    step = _Cut([*made, *after], ins, start)
    for part in ("cond", "func"):
        attribute.count_subgraph(f"{name}_{part}")
    entries = [s._entries[0] for s in given]
    inputs: list[Entry] = list(entries)
    locs = [_located(cut, entries, inputs) for cut in (held, step)]
    params = {
        "cond_input_locs": locs[0],
        "func_input_locs": locs[1],
        "func_var_locs": tuple([step.graph.variables.index(n) for n in step.own]),
        "max_iterations": int(max_iterations),
        "num_out_data": len(made),
    }
    results = _node(
        "_while_loop",
        params,
        inputs,
        [held.graph, step.graph],
        len(made) + len(after),
        given[0]._is_np,
    )
    return (_like(outs, results[: len(made)]) if made else []), _like(news, results[len(made) :])


def _args(like: Any, symbols: Sequence[Any], many: bool) -> list[Any]:
    return _like(like, list(symbols)) if many else [_like(like, list(symbols))]


def _located(cut: _Cut, own: Sequence[Entry], inputs: list[Entry]) -> tuple[int, ...]:
    """Where a graph's variables are among the node's inputs, which grow by what is new."""
    of = dict(zip(cut.own, own, strict=False)) | {n: e for e, n in cut.captured}
    found = []
    for n in cut.graph.variables:
        if of[n] not in inputs:
            inputs.append(of[n])
        found.append(inputs.index(of[n]))
    return tuple(found)


def cond(
    pred: Any,
    then_func: Callable[..., Any],
    else_func: Callable[..., Any],
    inputs: Any = None,
    name: str = "cond",
) -> Any:
    """What ``then_func()`` gives where ``pred`` holds, what ``else_func()`` gives elsewhere.

    Args:
      pred: the condition, a number or an array of one element.
      then_func: what is computed where the condition holds.
      else_func: what is computed elsewhere.
      inputs: the inputs of the subgraphs.
      name: what its subgraphs are called, and counted by.

    Returns:
      what the chosen function gives.

    Raises:
      ValueError: the branches give different numbers of results.
    """
    given = (
        [] if inputs is None else list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    )
    start = last_serial()
    if callable(pred) and not isinstance(pred, Symbol):
        pred = pred(*given)
    cuts = [_Cut(_flat(pred, "pred"), [], start)]
    for part in ("pred", "then", "else"):
        attribute.count_subgraph(f"{name}_{part}")
    shapes = []
    for branch in (then_func, else_func):
        start = last_serial()
        made = branch(*given)
        shapes.append(made)
        cuts.append(_Cut(_flat(made, "what a branch gives"), [], start))
    if len(cuts[1].graph.entries) != len(cuts[2].graph.entries):
        raise errors.MXNetValueError("Number of outputs in two branches are different")
    taken: list[Entry] = []
    locs = [_located(cut, [], taken) for cut in cuts]
    params = dict(zip(("cond_input_locs", "then_input_locs", "else_input_locs"), locs, strict=True))
    is_np = _flat(shapes[0], "")[0]._is_np
    results = _node(
        "_cond", params, taken, [c.graph for c in cuts], len(cuts[1].graph.entries), is_np
    )
    return _like(shapes[0], results)
