"""A symbol's nodes on arrays: each is a call of its row, recorded by the engine as any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ..array.classes import NDArray, ndarray
from ..array.invoke import call
from ..attribute import AttrScope
from ..core.calls.state import local
from . import special
from .infer import with_shape
from .node import Entry, Node, walk

#: Called with a node, what it took and its results, after each node.
Watch = Callable[[Node, Sequence[NDArray], Sequence[NDArray]], None]
#: Called with a node and the arrays that it would take: gives those that it takes.
Taking = Callable[[Node, Sequence[NDArray]], list[NDArray]]


def run(
    entries: Sequence[Entry],
    feed: Mapping[Node, NDArray],
    shapes: Mapping[Node, tuple[int, ...]] | None = None,
    watch: Watch | None = None,
    taking: Taking | None = None,
    cls: type[NDArray] | None = None,
    device: Any = None,
    places: Mapping[Node, Any] | None = None,
    operators: Any = None,
) -> list[NDArray]:
    """The results of a symbol for these arrays of its variables.

    ``shapes`` are those of nodes that make arrays of partly unknown shapes (`infer`). Results are arrays of ``cls``,
    by default of what each was written with, mx.sym or mx.sym.np. ``places`` are the devices that nodes run on, where
    those are several. ``operators`` (`core.Places`) keeps the operators in Python of the nodes from run to run.
    """
    env: dict[Node, list[NDArray]] = {}
    st = local.st
    outer = st.scope
    try:
        for at, node in enumerate(walk(entries)):
            if node.is_variable:
                env[node] = [feed[node]]
                continue
            st.scope = f"{outer}/{node.name}" if outer else node.name
            inputs = [env[n][k] for n, k in node.inputs]
            if places is not None:
                inputs = [
                    a if a.device == places[node] else a.as_in_context(places[node]) for a in inputs
                ]
            if taking is not None:
                inputs = taking(node, inputs)
            if is_custom(node):
                made = special.run_custom(node, inputs, operators, at)
            else:
                made = _computed(node, inputs, shapes, device if places is None else places[node])
            env[node] = made
            if watch is not None:
                watch(node, inputs, made)
        st.scope = outer
    except BaseException:
        st.scope = outer
        raise
    found = []
    for node, k in entries:
        array = env[node][k]
        kind = cls or (type(array) if node.is_variable else ndarray if node.is_np else NDArray)
        keeps = type(array) is kind or array.stype != "default"
        found.append(array if keeps else kind._wrap(array._value()))
    return found


def is_custom(node: Node) -> bool:
    """Whether a node is an operator that the user wrote in Python."""
    return node.op is None and special.ALIASES.get(node.registry, node.registry) == "Custom"


def _computed(
    node: Node,
    inputs: Sequence[NDArray],
    shapes: Mapping[Node, tuple[int, ...]] | None,
    device: Any,
) -> list[NDArray]:
    op = node.op
    if op is None:
        return special.run(node, list(inputs))
    params = dict(node.params)
    if shapes is not None and node in shapes:
        params = with_shape(params, shapes[node])
    cls = ndarray if op.name.partition("@")[2] != "nd" and node.is_np else NDArray
    args: list[Any]
    if op.variadic:
        args = list(inputs) if op.array_params[-1] == "arys" else [list(inputs)]
    else:
        given = {**dict(zip(node.names, inputs, strict=True)), **node.constants}
        args = [given.get(name) for name in op.array_params]
    if device is not None and not inputs:
        params["device"] = device
    with (
        AttrScope(force_mirroring=node.attrs["__force_mirroring__"])
        if _forced(node)
        else nullcontext()
    ):
        made = call(op, cls, tuple(args), params)
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _forced(node: Node) -> bool:
    return node.attrs.get("__force_mirroring__", "").lower() in ("true", "false", "1", "0")
