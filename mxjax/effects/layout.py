"""The order of a weight's axes in memory: as XLA wants it, so that no program need turn it round.

An :class:`~.aval.Aval` knows the order of its array. Programs are compiled for it, and what they write over a
donated input stays in it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from .. import core, settings
from ..core import SCALAR, SCALARS, TRACED, Aval, Call, Graph, Value, compiler
from ..core.compile.kept import compile_or_load
from ..core.hooks import graph_listeners, memory_managers

Order = tuple[int, ...]


def apply() -> None:
    """Lay weights out from now on."""
    if _orders not in graph_listeners:
        graph_listeners.append(_orders)


def _orders(graph: Graph, values: Iterable[Value], device: Any) -> dict[Value, Order]:
    """The orders in which a graph's operators want those of these values that it captured.

    Where two operators disagree the first is obeyed.
    """
    orders: dict[Value, Order] = {}
    if (
        not settings.get("memory.param_layout")
        or not isinstance(core.physical(device), jax.Device)
        or memory_managers
    ):
        return orders
    known = set(values)
    first = len(graph.avals) - len(graph.captured)
    avals: dict[int, Any] = {-1 - k: a for k, a in enumerate(graph.avals)}
    avals.update({SCALAR + k: kind for k, kind in enumerate(graph.fmt)})
    for step in graph.steps:
        avals.update({step.first + k: a for k, a in enumerate(step.avals)})
        for position, i in enumerate(step.args):
            if i >= 0 or -1 - i < first:
                continue
            v = graph.captured[-1 - i - first]
            if v not in known or v in orders or v.seg is TRACED or v.aval.memory is not None:
                continue
            if len(v.aval.shape) < 2 or v.aval.layout is not None or step.call is None:
                continue
            there = [avals[k] for k in step.args]
            there = [a if isinstance(a, str) else a.at(core.physical(a.device)) for a in there]
            order = preferred(step.call, tuple(there), position)
            if order is not None:
                orders[v] = order
    return orders


@functools.lru_cache(4096)
def preferred(call: Call, avals: tuple[Any, ...], position: int) -> Order | None:
    """The order in which XLA wants one operand of an operator; None where it is the usual one.

    A program of the operator alone tells: by the layout it chooses, or by turning the operand round first
    (XLA:CPU does that, and chooses nothing).
    """
    from jax.experimental.layout import Format, Layout

    own: Aval = avals[position]
    usual = tuple(range(len(own.shape)))
    structs = [SCALARS[a] if isinstance(a, str) else a.in_layout(None).placed_struct for a in avals]
    structs[position] = jax.ShapeDtypeStruct(own.shape, own.dtype)
    formats = [None] * len(structs)
    formats[position] = Format(Layout.AUTO)  # type: ignore[call-overload]
    with jax.enable_x64(True), compiler.for_platform(compiler.platform_of(own.device)):
        with jax.default_device(own.device):
            lowered = jax.jit(call.fn, in_shardings=tuple(formats)).lower(*structs)
            compiled, _ = compile_or_load(lowered, compiler.options_for(own.device, (call,)))
    chosen = tuple(compiled.input_formats[0][position].layout.major_to_minor)
    if chosen != usual:
        return chosen
    return turned(compiled.as_text() or "", own.shape)


def turned(text: str, shape: tuple[int, ...]) -> Order | None:
    """How a compiled program turns an operand of this shape round before it computes with it."""
    lengths = re.escape(",".join(map(str, shape)))
    for name in re.findall(rf"(%\S+) = \w+\[{lengths}\]\S* parameter\(", text):
        found = re.search(rf"transpose\({re.escape(name)}\), dimensions={{([\d,]+)}}", text)
        if found is not None:
            order = tuple(map(int, found[1].split(",")))
            return order if order != tuple(np.arange(len(shape))) else None
    return None
