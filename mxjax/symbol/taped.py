"""What autograd recorded, as a symbol."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..array.ndarray import NDArray
from ..core import Dynamic, Value
from ..core import Node as Taped
from .node import Entry, Node
from .recorded import entries_of, node_of
from .symbol import Symbol, _Symbol

__all__ = ["symbol_of"]


def symbol_of(x: NDArray) -> Symbol:
    """The computation of an array that was recorded under autograd.

    Variables are ``var0``, ``var1``, ...; arrays that no gradient was asked for are ``null2``, ..., all counted in one
    row; operators are ``node_0``, ``node_1``, ...

    Raises:
      MXNetError: the array was not recorded, its tape was let go by `backward()`, or part of it ran in Python.
    """
    last = x._value()
    if not isinstance(last.tape, Taped):
        raise errors.MXNetError(
            "the array was not computed inside autograd.record() from one that wants a gradient: attach_grad() first"
        )
    made: dict[Value, Entry] = {}  # results that have their node
    of_call: dict[Taped, list[Entry]] = {}
    variables = operators = 0
    todo = [last]
    while todo:
        v = todo[-1]
        if v in made:
            todo.pop()
            continue
        taped = v.tape
        if not isinstance(taped, Taped):
            made[v] = Node(f"{'null' if taped is None else 'var'}{variables}"), 0
            variables += 1
            continue
        if taped not in of_call:
            inputs = _inputs(taped)
            waiting = [i for i in inputs if type(i) is Value and i not in made]
            if waiting:
                todo += reversed(waiting)
                continue
            of_call[taped] = _results(taped, inputs, made, operators)
            operators += 1
        made[v] = of_call[taped][v.out]
    cls = Symbol if x._legacy else _Symbol
    return cls([made[last]])


def _inputs(taped: Taped) -> list[Any]:
    """A call's operands without the random key, which symbols draw with by themselves."""
    if taped.inputs is None:
        raise errors.MXNetError(
            "the tape was let go by backward(): call it with retain_graph=True, or ask before"
        )
    if taped.call is None:
        raise errors.MXNetError(
            "a part of it ran in Python (autograd.Function, a custom operator with auxiliary states, a copy to another "
            "device), which a symbol has no node for"
        )
    return list(taped.inputs)[1 if getattr(taped.call.row, "keyed", False) else 0 :]


def _results(taped: Taped, inputs: list[Any], made: dict[Value, Entry], number: int) -> list[Entry]:
    call: Any = taped.call
    operands: list[Any] = [i.value if isinstance(i, Dynamic) else made[i] for i in inputs]
    if call.graph is not None:
        return entries_of(call.graph, operands)
    if getattr(call.row, "keyed", False):
        operands.insert(0, (_KEY, 0))
    first = next((i for i in inputs if type(i) is Value), None)
    node = node_of(
        call, operands, f"node_{number}", None if first is None else len(first.aval.shape)
    )
    return [(node, k) for k in range(len(taped.avals))]


_KEY = Node("random_key")
