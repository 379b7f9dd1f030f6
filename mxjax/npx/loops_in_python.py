"""Loops and branches of a graph whose bodies call Python: run step by step in the caller's thread (core/graph/cut.py).

The operands stand in the order of `ops/control_flow.py`. Each step of a loop has operators of its own, as in MXNet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import autograd
from ..array.classes import ndarray
from ..array.invoke import call as invoke
from ..array.invoke import wrap
from ..core import Dynamic, Graph, Places, Value, cut_of, record_on
from ..ops.table import TABLE


class _Body:
    """A graph with what it captured: values, numbers, and the arrays that hold the values."""

    def __init__(
        self, graph: Graph, given: int, operands: Sequence[Any], handles: Sequence[Any], draws: Any
    ):
        self.cut = cut_of(graph)
        self.given = given
        self.size = len(graph.avals) - given + len(graph.fmt)
        self.captured = list(operands[: self.size])
        self.handles = list(handles[: len(graph.avals) - given])
        self.at, self.offset, self.stride = draws

    def __call__(self, given: Sequence[Any], k: int, places: Places) -> list[Value]:
        captured = list(self.captured)
        for j, h in enumerate(self.handles):
            if h is not None:  # it may have been written to
                captured[j] = h._value()
        if self.at >= 0:
            captured[self.at] = Dynamic(captured[self.at].value + self.offset + k * self.stride)
        return self.cut([*given, *captured], [*[None] * self.given, *self.handles], places=places)

    def write(self, at: int, new: Value) -> None:
        """The new value of a captured array that the body writes to."""
        if at >= 0:
            self.captured[at] = new
            self.handles[at] = None


def _bodies(
    graphs: Sequence[Graph], given: int, operands: Sequence[Any], handles: Sequence[Any], draws: Any
) -> list[_Body]:
    found = []
    offset = operands[-1].value if draws else 0
    operands, handles = operands[given:], handles[given:]
    for k, graph in enumerate(graphs):
        body = _Body(
            graph, given, operands, handles, (draws[k], offset, draws[-1]) if draws else (-1, 0, 0)
        )
        operands, handles = operands[body.size :], handles[body.size :]
        found.append(body)
    return found


def _stacked(rows: Sequence[Sequence[Value]], count: int, avals: Sequence[Any]) -> list[Value]:
    """The rows of each output, one above the other, with zeros up to this ``count`` of them."""
    found = []
    for k, a in enumerate(avals):
        column = [wrap(ndarray, row[k]) for row in rows]
        parts = [invoke(TABLE["stack"], ndarray, tuple(column), {"axis": 0})] if column else []
        if count > len(column) or not column:
            blank = (("dtype", np.dtype(a.dtype).name), ("shape", (count - len(column), *a.shape)))
            parts.append(wrap(ndarray, record_on(a.device, TABLE["_zeros"].bind(blank))[0]))
        made = (
            parts[0]
            if len(parts) == 1
            else invoke(TABLE["concatenate"], ndarray, tuple(parts), {"axis": 0})
        )
        found.append(made._value())
    return found


def _avals(graph: Graph, count: int) -> list[Any]:
    """Those of a graph's first results."""
    made = {s.first + k: a for s in graph.steps for k, a in enumerate(s.avals)}
    made |= {-1 - k: a for k, a in enumerate(graph.avals)}
    return [made[k] for k in graph.outputs[:count]]


def foreach(
    call: Any, operands: Sequence[Any], handles: Sequence[Any], places: Places, at: Any
) -> list[Value]:
    """`_foreach` step by step."""
    attrs = dict(call.attrs)
    graph, data, outs, updated = (
        attrs["body"],
        attrs["num_data"],
        attrs["num_out_data"],
        attrs.get("updated", ()),
    )
    states = len(graph.outputs) - outs - len(updated)
    (body,) = _bodies([graph], data + states, operands, handles, attrs.get("draws"))
    xs, now = [wrap(ndarray, v) for v in operands[:data]], list(operands[data : data + states])
    news = [body.captured[where] for (where,) in updated]
    rows = []
    for k in range(xs[0].shape[0]):
        made = body([*[x[k]._value() for x in xs], *now], k, Places())
        rows.append(made[:outs])
        now, news = made[outs : outs + states], made[outs + states :]
        for (where,), new in zip(updated, news, strict=True):
            body.write(where, new)
    return [*_stacked(rows, len(rows), _avals(graph, outs)), *now, *news]


def while_loop(
    call: Any, operands: Sequence[Any], handles: Sequence[Any], places: Places, at: Any
) -> list[Value]:
    """`_while_loop` step by step."""
    attrs = dict(call.attrs)
    graph, outs, updated = attrs["func"], attrs["num_out_data"], attrs.get("updated", ())
    n = len(graph.outputs) - outs - len(updated)
    test, body = bodies = _bodies([attrs["cond"], graph], n, operands, handles, attrs.get("draws"))
    now = list(operands[:n])
    news = [body.captured[where] for _, where in updated]
    rows: list[Any] = []
    while len(rows) < attrs["max_iterations"]:
        with autograd._Scope(False, None):
            goes_on = test(now, len(rows), Places())[0]
        if not wrap(ndarray, goes_on).asnumpy().reshape(()):
            break
        made = body(now, len(rows), Places())
        rows.append(made[:outs])
        now, news = made[outs : outs + n], made[outs + n :]
        for wheres, new in zip(updated, news, strict=True):
            for part, where in zip(bodies, wheres, strict=True):
                part.write(where, new)
    return [*_stacked(rows, attrs["max_iterations"], _avals(graph, outs)), *now, *news]


def cond(
    call: Any, operands: Sequence[Any], handles: Sequence[Any], places: Places, at: Any
) -> list[Value]:
    """`_cond`: the branch that is chosen runs."""
    attrs = dict(call.attrs)
    graphs = attrs["then_branch"], attrs["else_branch"]
    chosen = wrap(ndarray, operands[0]).asnumpy().reshape(())
    bodies = _bodies(graphs, attrs["num_inputs"], operands[1:], handles[1:], attrs.get("draws"))
    which = 0 if chosen else 1
    return bodies[which](operands[1 : 1 + attrs["num_inputs"]], 0, places.within((at, which)))


for _name, _run in (("_foreach", foreach), ("_while_loop", while_loop), ("_cond", cond)):
    TABLE[_name].python = _run
