"""Loops and branches as functions: `foreach`, `while_loop`, `cond`.

The Python function runs once for each step, and the steps are recorded as any other calls, so gradients flow and
hybridized blocks hold them unrolled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import errors
from ..array.classes import ndarray
from ..array.invoke import call
from ..array.ndarray import NDArray
from ..ops.table import TABLE

__all__ = ["cond", "foreach", "while_loop"]


def _list(value: Any) -> tuple[list[Any], bool]:
    """The value as a list, and whether it was one."""
    return (list(value), True) if isinstance(value, (list, tuple)) else ([value], False)


def _stack(rows: list[Any]) -> Any:
    kind = ndarray if isinstance(rows[0], ndarray) else NDArray
    return call(TABLE["stack"], kind, tuple(rows), {"axis": 0})


def _collect(outs: list[Any]) -> Any:
    """Outputs of all steps, each stacked."""
    if not outs:
        return []
    _, many = _list(outs[0])
    stacked = [_stack(list(rows)) for rows in zip(*[_list(o)[0] for o in outs], strict=True)]
    return stacked if many else stacked[0]


def foreach(body: Callable[..., Any], data: Any, init_states: Any) -> tuple[Any, Any]:
    """``body(slice, states) -> (output, states)`` over the first axis of ``data``: (stacked outputs, states)."""
    xs, many = _list(data)
    states, outs = init_states, []
    for k in range(xs[0].shape[0]):
        step = [x[k] for x in xs]
        out, states = body(step if many else step[0], states)
        outs.append(out)
    return _collect(outs), states


def while_loop(
    cond: Callable[..., Any], func: Callable[..., Any], loop_vars: Any, max_iterations: int | None = None
) -> tuple[Any, Any]:
    """``func(*vars) -> (output, vars)`` while ``cond(*vars)``: (stacked outputs, vars).

    Outputs are filled up with zeros to ``max_iterations`` rows.
    """
    if max_iterations is None:
        raise errors.MXNetValueError("max_iterations should be specified")
    variables, many = _list(loop_vars)
    outs: list[Any] = []
    while len(outs) < max_iterations and bool(cond(*variables)):
        out, new = func(*variables)
        outs.append(out)
        variables = _list(new)[0]
    if outs:
        blank = [x * 0 for x in _list(outs[0])[0]]
        padding = blank if _list(outs[0])[1] else blank[0]
        outs += [padding] * (max_iterations - len(outs))
    return _collect(outs), variables if many else variables[0]


def cond(
    pred: Any,
    then_func: Callable[..., Any],
    else_func: Callable[..., Any],
    inputs: Any = None,
    name: str = "cond",
) -> Any:
    """``then_func`` or ``else_func`` of the inputs, as ``pred`` (a value or a function of them) says."""
    given = [] if inputs is None else _list(inputs)[0]
    chosen = pred(*given) if callable(pred) else pred
    return (then_func if bool(chosen) else else_func)(*given)
