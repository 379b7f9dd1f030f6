"""`Symbol.simple_bind`: an executor whose arrays are made for the shapes of some of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .. import errors
from ..array.ndarray import NDArray
from ..device import Device, current_device
from ..executor import Executor
from . import infer, types
from .bound import places_of, request_of, shared_in
from .node import Node, walk


def simple_bind(
    sym: Any,
    device: Any,
    grad_req: Any,
    type_dict: Any,
    stype_dict: Any,
    shared: Executor | None,
    shapes: dict[str, Any],
    group2ctx: Mapping[str, Device] | None = None,
    buffer: dict[str, NDArray] | None = None,
    sharing: Collection[str] = (),
) -> Executor:
    """An executor whose arrays are made for these shapes (`Symbol.simple_bind`)."""
    device = current_device() if device is None else device
    given = infer.named(sym, (), {k: v for k, v in shapes.items() if v is not None})
    nodes = walk(sym._entries)
    dtypes = types.complete(
        nodes, {k: types.name_of(v) for k, v in (type_dict or {}).items() if v is not None}
    )
    found = infer.Inference(nodes, given, dtypes)
    missing = [n.name for n in nodes if n.is_variable and not infer.known(found.found[n][0])]
    if missing:
        raise errors.MXNetError(
            f"Cannot infer the shapes of {', '.join(missing)} from {given}: give them as well, as in "
            f"simple_bind(ctx, {missing[0]}=(...))"
        )
    arrays: dict[str, NDArray] = {}
    places = places_of(sym, device, group2ctx) or {}
    names, states = sym.list_arguments(), sym.list_auxiliary_states()
    mine = {*states, *sharing}
    old: dict[str, NDArray] = {}
    if shared is not None and buffer is not None:
        old |= shared._arrays
        old |= {f"grad of {n}": grad for n, grad in shared._grads.items()}
    for node in nodes:
        if node.is_variable and (name := node.name) not in arrays:
            parts = (
                found.found[node][0],
                dtypes[node],
                places.get(node, device),
                _stype_of(node, stype_dict),
            )
            room = old if name in mine else buffer
            arrays[name] = shared_in(room, name, *parts)
    wanted = [n for n in names if request_of(grad_req, n, names) != "null"]
    read = _stypes_as_read(nodes, {n: of.stype for n, of in arrays.items()})
    stypes = {n: read.get(n, arrays[n].stype) for n in wanted}
    grads = {
        n: shared_in(
            old if n in mine else buffer, f"grad of {n}",
            of.shape, types.name_of(of.dtype), of.device, stypes[n],
        )
        for n, of in arrays.items()
        if n in wanted
    }  # fmt: skip
    args, aux = {n: arrays[n] for n in names}, {n: arrays[n] for n in states}
    return Executor(sym, device, args, grads, grad_req, aux, group2ctx=group2ctx)


def _stype_of(node: Node, given: Mapping[str, str] | None) -> str:
    """The storage type of a variable: as it is asked for, or as the variable says."""
    number = node.attrs.get("__storage_type__")
    own = "default" if number is None else ("default", "row_sparse", "csr")[int(number)]
    return (given or {}).get(node.name) or own


def _stypes_as_read(nodes: Sequence[Node], stypes: Mapping[str, str]) -> dict[str, str]:
    """The storage types of gradients that follow from who reads the variables, as MXNet infers them.

    They are row_sparse where nothing reads the variable but lookups with ``sparse_grad=True`` and products with a csr
    variable, dense where lookups without do; else they are the variable's own.
    """
    readers: dict[str, list[bool | None]] = {}
    for node in nodes:
        for (source, _), name in zip(node.inputs, node.names, strict=False):
            if source.is_variable:
                readers.setdefault(source.name, []).append(_reads_rows(node, name, stypes))
    return {
        name: "row_sparse" if all(by) else "default"
        for name, by in readers.items()
        if all(by) or False in by
    }


def _reads_rows(node: Node, name: str, stypes: Mapping[str, str]) -> bool | None:
    """Whether a node's gradient of this array has rows alone; None: where nothing is known."""
    if node.op is None or node.op.inference.rows is None:
        return None
    given = [stypes[n.name] if n.is_variable else "default" for n, _ in node.inputs]
    return node.op.inference.rows(node.params, given).get(name)


__all__ = ["simple_bind"]
