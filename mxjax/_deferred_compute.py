"""Deferred computation: while it is on, how arrays come about is noted, so that a symbol can be made of it.

Calls run as always; their numbers are there when somebody asks.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from . import errors
from .array.ndarray import NDArray
from .core import Call, Dynamic, Value, end_note, hooks, note_calls
from .core.graph.pairs import Drawless
from .operator.running import noted
from .ops.keys import ARRAY
from .ops.table import Op
from .symbol import Symbol
from .symbol.node import Entry, Node
from .symbol.recorded import entries_of, node_of

__all__ = [
    "clear",
    "context",
    "get_symbol",
    "is_deferred_compute",
    "set_deferred_compute",
    "set_variable",
]

_on: ContextVar[bool] = ContextVar("deferred_compute", default=False)
_users = [0]  # how many contexts are open, in all threads


class _Made:
    """How a value came about: a call and what it took; its node once somebody asked."""

    __slots__ = ("call", "count", "inputs", "results")

    def __init__(self, call: Call, inputs: tuple[Any, ...], count: int):
        self.call = call
        self.inputs = inputs
        self.count = count
        self.results: list[Entry] | None = None


_made: weakref.WeakKeyDictionary[Value, tuple[_Made, int]] = weakref.WeakKeyDictionary()
_variables: weakref.WeakKeyDictionary[Value, Entry] = weakref.WeakKeyDictionary()


def is_deferred_compute() -> bool:
    """Whether it is on in this thread."""
    return _on.get()


def set_deferred_compute(state: bool) -> bool:
    """Switch it in this thread; gives what it was."""
    before = _on.get()
    _on.set(bool(state))
    if state and not before:
        _users[0] += 1
        note_calls(_note)
        if _moved not in hooks.transfer_listeners:
            hooks.transfer_listeners.append(_moved)
    elif before and not state:
        _users[0] -= 1
        if not _users[0]:
            end_note(_note)
            hooks.transfer_listeners.remove(_moved)
    return before


@contextmanager
def context(state: bool = True) -> Iterator[None]:
    """A scope in which it is on (or off).

    >>> import mxjax as mx
    >>> x = mx.np.ones((2,))
    >>> set_variable(x, mx.sym.var("x"))
    >>> with context():
    ...     y = x * 2 + 1
    >>> get_symbol(y).list_inputs()
    ['x']
    """
    before = set_deferred_compute(state)
    try:
        yield
    finally:
        set_deferred_compute(before)


def _note(call: Call, inputs: Sequence[Any], results: Sequence[Value]) -> None:
    if not _on.get():
        return
    name = call.row.name
    if isinstance(call.row, Op) and call.row.files.assigns:
        raise errors.MXNetError(
            f"an array was written to ({call.name}) in deferred computation: a symbol has no assignment. Make a new "
            "array: np.where, concatenate"
        )
    if name == "_advanced_index":
        key = dict(call.attrs)["key"]
        indices = [v for v in inputs[1:] if type(v) is Value]
        if any(type(k) is tuple for k in key) or (
            ARRAY in key and any(not _known(v) for v in indices)
        ):
            raise errors.MXNetTypeError(
                "a list or an array of NumPy as an index cannot be part of a symbol: index with an mx array that is a "
                "variable of it (set_variable)"
            )
    made = _Made(call, tuple(inputs), len(results))
    for k, v in enumerate(results):
        _made[v] = made, k


def _custom(
    run: Callable[[], list[Any]], call: Callable[[], Call], inputs: Sequence[Value]
) -> list[Any]:
    """A custom operator is one node, whatever its Python calls."""
    if not _on.get():
        return run()
    token = _on.set(False)
    try:
        outs = run()
    finally:
        _on.reset(token)
    _note(call(), inputs, [o._value() for o in outs])
    return outs


noted.append(_custom)


def _moved(v: Value, moved: Value) -> None:
    """On another device it is the same result of a symbol, which runs on one."""
    if _on.get():
        if v in _made:
            _made[moved] = _made[v]
        elif v in _variables:
            _variables[moved] = _variables[v]


def _known(v: Value) -> bool:
    return v in _made or v in _variables


def get_symbol(output_arrays: Any, *, sym_cls: Any = Symbol) -> Any:
    """The symbol of arrays that were computed in deferred computation.

    Raises:
      MXNetError: one of them, or what it was made of, was not, and is no variable.
    """
    arrays = [output_arrays] if isinstance(output_arrays, NDArray) else list(output_arrays)
    with context():
        values = [a._value() for a in arrays]  # views are read now
    return sym_cls([_entry(v) for v in values])


def _entry(value: Value) -> Entry:
    todo = [value]
    while todo:
        v = todo[-1]
        if v in _variables:
            todo.pop()
            continue
        found = _made.get(v)
        if found is None:
            raise errors.MXNetError(
                f"an array of shape {v.aval.shape} was not computed in deferred computation, and is no variable: make "
                "it within deferred_compute.context(), or name it by set_variable(array, mx.sym.var(name))"
            )
        made, _ = found
        if made.results is None:
            waiting = [
                i
                for i in made.inputs
                if type(i) is Value and not _is_aside(made, i) and not _ready(i)
            ]
            if waiting:
                todo += waiting
                continue
            made.results = _results(made)
        todo.pop()
    return _of(value)


def _is_aside(made: _Made, v: Value) -> bool:
    """Whether it is no input of the node: the random key, which symbols draw with by themselves, or what was found."""
    aside = getattr(made.call.row, "keyed", False) or _finder(made.call)
    return bool(aside) and v is made.inputs[0]


def _finder(call: Call) -> str:
    """The operator that gave positions which were looked up on the host; empty for other calls."""
    return str(dict(call.attrs).get("registry", "")) if call.row.name == "_found" else ""


def _ready(v: Value) -> bool:
    return v in _variables or (v in _made and _made[v][0].results is not None)


def _of(v: Value) -> Entry:
    if v in _variables:
        return _variables[v]
    made, k = _made[v]
    assert made.results is not None
    return made.results[k]


_number = iter(range(1 << 62))


def _results(made: _Made) -> list[Entry]:
    operands: list[Any] = [
        i.value if isinstance(i, Dynamic) else (_SKIPPED, 0) if _is_aside(made, i) else _of(i)
        for i in made.inputs
    ]
    call = made.call
    if call.graph is not None:
        if isinstance(call, Drawless):
            operands.insert(call.at, (_SKIPPED, 0))
        return entries_of(call.graph, operands)
    if call.row.name == "_found":
        registry = _finder(call)
        if not registry:
            return [operands[0]]
        # No row computes it: how many there are depends on the numbers.
        title = f"{registry.rpartition('_')[2]}{next(_number)}"
        return [
            (
                Node(
                    title,
                    None,
                    {},
                    {},
                    operands[1:],
                    ["arg0"],
                    {"outputs": 1},
                    registry=registry,
                    is_np=True,
                ),
                0,
            )
        ]
    first = next((i for i in made.inputs if type(i) is Value and not _is_aside(made, i)), None)
    axes = None if first is None else len(first.aval.shape)
    node = node_of(call, operands, f"{call.name.lower()}{next(_number)}", axes)
    return [(node, k) for k in range(made.count)]


_SKIPPED = Node("random_key")


def set_variable(arrays: Any, variables: Any) -> None:
    """Let arrays be variables of the symbols that are made of what is computed from them.

    Raises:
      MXNetError: an array is a variable already, or part of deferred computation.
    """
    listed = [arrays] if isinstance(arrays, NDArray) else list(arrays)
    named = [variables] if isinstance(variables, Symbol) else list(variables)
    if len(listed) != len(named):
        raise errors.MXNetValueError(
            f"{len(listed)} arrays and {len(named)} variables: one for each is expected"
        )
    for array, variable in zip(listed, named, strict=True):
        v = array._value()
        if _known(v):
            raise errors.MXNetError(
                f"the array of shape {array.shape} is a variable, or was computed in deferred computation, already: "
                "clear(array) forgets it"
            )
        _variables[v] = variable._entries[0]


def clear(arrays: Any) -> None:
    """Forget how arrays came about."""
    for array in [arrays] if isinstance(arrays, NDArray) else list(arrays):
        v = array._value()
        _made.pop(v, None)
        _variables.pop(v, None)
