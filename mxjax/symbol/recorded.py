"""Recorded calls as nodes: the way from a graph, or from deferred computation, to a symbol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .. import errors
from ..core import SCALAR, Call, Graph
from ..ops.keys import AT, Run, Slice
from ..ops.table import TABLE, Op
from .node import Entry, Node

# Rows of the core's own, by those of the table that compute the same.
_TWINS = {"_grad_add": "add", "_ones_like": "ones_like", "_detach": "stop_gradient", "_zeros_like": "zeros_like"}
_WHOLE = Slice(None, None, None)


def node_of(call: Call, operands: Sequence[Entry | float | int], title: str, axes: int | None = None) -> Node:
    """The node of a call on these results of nodes and numbers; ``axes`` is how many its first array has.

    Raises:
      MXNetError: the call is no operator of the table.
    """
    op: Any = call.row
    if op.name in _TWINS:
        op = TABLE[_TWINS[op.name]]
    if not isinstance(op, Op):
        raise errors.MXNetError(
            f"{call.name} cannot be part of a symbol: it is no operator of the table but something that ran inside it "
            "(a custom operator, a gradient)"
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
            raise errors.MXNetError(f"{call.name} takes the number {a!r} in a place that a symbol has no attribute for")
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


def entries_of(graph: Graph, inputs: Sequence[Entry], results: int | None = None) -> list[Entry]:
    """A graph's results as results of nodes, on these for its inputs; only the first ``results`` of them."""
    env: dict[int, Entry | float | int] = {-1 - k: e for k, e in enumerate(inputs)}
    shapes: dict[int, tuple[int, ...]] = {-1 - k: a.shape for k, a in enumerate(graph.avals)}
    counts: dict[str, int] = {}
    for step in graph.steps:
        assert step.call is not None
        operands = [graph.scalars[i - SCALAR] if i >= SCALAR else env[i] for i in step.args]
        stem = "_".join(p for p in (step.scope.replace("/", "_"), step.call.name.lower()) if p)
        counts[stem] = counts.get(stem, -1) + 1
        arrays = [i for i in step.args if i < SCALAR]
        axes = len(shapes[arrays[0]]) if arrays else None
        node = node_of(step.call, operands, f"{stem}{counts[stem]}", axes)  # type: ignore[arg-type]
        for k, a in enumerate(step.avals):
            env[step.first + k] = (node, k)
            shapes[step.first + k] = a.shape
    wanted = graph.outputs if results is None else graph.outputs[:results]
    return [env[k] for k in wanted]  # type: ignore[misc]


__all__ = ["entries_of", "node_of"]
