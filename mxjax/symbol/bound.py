"""The arrays that are bound to a symbol: keys, places, requests of gradients, and where gradients begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import errors
from ..array.ndarray import NDArray
from ..device import Device
from . import types
from .custom import prop_of
from .node import Entry, Node, walk
from .run import is_custom

_REQUESTS = ("write", "add", "null", "inplace")

#: What tells the second variable of a name from the first, in a key.
_AGAIN = "\0"


def no_duplicates(names: Sequence[str]) -> None:
    """Refuse to look arrays up by names that several variables have."""
    plain = [n.partition(_AGAIN)[0] for n in names]
    twice = sorted({n for n in plain if plain.count(n) > 1}) if len({*plain}) < len(plain) else []
    if twice:
        raise errors.MXNetValueError(
            f"Duplicate names detected: more than one variable is called {', '.join(map(repr, twice))}. "
            "Use one Symbol in both places, or give each variable a name of its own; a list of arrays needs no names"
        )


def keys_of(variables: Sequence[Node], by_place: bool) -> dict[Node, str]:
    """A key for each variable: its name, which several may share only where arrays come in their order."""
    if not by_place:
        no_duplicates([n.name for n in variables])
    counts: dict[str, int] = {}
    keys = {}
    for n in variables:
        counts[n.name] = k = counts.get(n.name, -1) + 1
        keys[n] = f"{n.name}{_AGAIN}{k}" if k else n.name
    return keys


def by_name(given: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {n: given[n.partition(_AGAIN)[0]] for n in names if n.partition(_AGAIN)[0] in given}
    if isinstance(given, NDArray):
        given = [given]
    if len(given) != len(names):
        raise errors.MXNetValueError(
            f"Length of {what} does not match the number of arguments: {len(names)} ({', '.join(names)}), "
            f"got {len(given)}"
        )
    return dict(zip(names, given, strict=True))


def request_of(grad_req: Any, name: str, names: Sequence[str]) -> str:
    if isinstance(grad_req, str):
        found = grad_req
    elif isinstance(grad_req, Mapping):
        found = grad_req.get(name.partition(_AGAIN)[0], "null")
    elif len(grad_req) != len(names):
        raise errors.MXNetValueError(
            f"grad_req needs an entry for each of the {len(names)} arguments ({', '.join(names)}), got {len(grad_req)}"
        )
    else:
        found = grad_req[list(names).index(name)]
    if found not in _REQUESTS:
        raise errors.MXNetKeyError(
            f"grad_req={found!r} of {name!r}: one of 'write', 'add', 'null' is expected"
        )
    return str(found)


def ends_alone(entry: Entry, wanted: Callable[[Node], bool]) -> bool:
    """Whether a result needs no gradient of its own: no variable that wants one is reached but through a loss."""
    seen: set[Node] = set()
    left = [entry[0]]
    while left:
        node = left.pop()
        if node in seen or _is_loss(node):
            continue
        seen.add(node)
        if node.is_variable and wanted(node):
            return False
        states = set(node.aux())
        left += [n for k, (n, _) in enumerate(node.inputs) if k not in states]
    return True


def _is_loss(node: Node) -> bool:
    """Whether what a node hands back does not depend on the gradient of its result."""
    if node.is_variable:
        return False
    if node.op is None:
        return is_custom(node) and not _asks_for_heads(prop_of(node.params))
    if not node.op.differentiable:
        return True
    loss = node.op.inference.loss
    return bool(loss({**node.op.attr_defaults, **node.params}) if callable(loss) else loss)


def _asks_for_heads(prop: Any) -> bool:
    m, n = len(prop.list_outputs()), len(prop.list_arguments())
    asked = prop.declare_backward_dependency(
        list(range(m)), list(range(m, m + n)), list(range(m + n, 2 * m + n))
    )
    return any(k < m for k in asked)


def places_of(
    sym: Any, device: Device, group2ctx: Mapping[str, Device] | None
) -> dict[Node, Device] | None:
    """Where each node runs, those of no group where the first of their arrays is; None: all on one device."""
    if not group2ctx:
        return None
    places: dict[Node, Device] = {}
    for n in walk(sym._entries):
        before = device if n.is_variable or not n.inputs else places[n.inputs[0][0]]
        places[n] = group2ctx.get(n.attrs.get("__ctx_group__", ""), before)
    return places if any(p != device for p in places.values()) else None


def zeros(shape: Any, dtype: Any, device: Any, stype: str = "default") -> Any:
    """An array of zeros of a storage type."""
    from .. import nd

    return nd.sparse.zeros(stype, tuple(shape), ctx=device, dtype=dtype)


def shared_in(
    buffer: dict[str, Any] | None, name: str, shape: Any, dtype: str, device: Any, stype: str
) -> Any:
    """Zeros, or the buffer's array of the same name, shape and dtype; larger ones take its place there."""
    old = None if buffer is None else buffer.get(name)
    if old is not None:
        kind = old.shape, types.name_of(old.dtype), old.stype
        if kind == (shape, dtype, stype):
            return old
    new = zeros(shape, dtype, device, stype)
    if buffer is not None and stype == "default" and (old is None or old.size < new.size):
        buffer[name] = new
    return new
