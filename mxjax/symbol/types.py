"""Dtypes of a symbol's variables and results from some of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import errors
from ..ops.texts import DTYPES, value_of
from .node import Node, states_of, walk

_DTYPE = ("dtype", "out_dtype")


def declared(node: Node) -> Any:
    """The dtype that a variable's attributes give."""
    if "__dtype__" not in node.attrs:
        return None
    number = value_of(node.attrs["__dtype__"])
    if not isinstance(number, int):
        return DTYPES[0] if number not in DTYPES else number
    return DTYPES[number] if 0 <= number < len(DTYPES) else None


def infer(nodes: Sequence[Node], given: dict[str, Any]) -> dict[Node, Any]:
    """The dtype of each node (of its first result), None where it does not follow."""
    found: dict[Node, Any] = {
        n: (given.get(n.name) or declared(n)) if n.is_variable else _own(n) for n in nodes
    }
    for _ in range(len(nodes) + 1):
        before = dict(found)
        for node in nodes:
            if node.op is not None and node.inputs:
                _visit(node, found)
            elif node.inputs:
                _visit_special(node, found)
        if found == before:
            break
    return found


def _own(node: Node, ins: Sequence[Any] = ()) -> Any:
    """What a row says of its result's dtype; ins: the inputs' dtypes as far as they are known."""
    if node.op is None:
        return None
    for key in _DTYPE:
        if isinstance(node.params.get(key), str):
            return node.params[key]
    said = node.op.inference.dtype
    if callable(said):
        return _said(node, ins)[0]
    if said not in (None, "attribute"):
        return said
    if not node.inputs or said == "attribute":
        default = (node.op.attr_defaults or {}).get("dtype")
        return default if isinstance(default, str) else "float32"
    return None


def _said(node: Node, ins: Sequence[Any]) -> tuple[Any, ...]:
    """What a row's function says of its results' dtypes."""
    assert node.op is not None and callable(node.op.inference.dtype)
    said = node.op.inference.dtype({**node.op.attr_defaults, **node.params}, ins)
    return said if isinstance(said, tuple) else (said,)


def _visit(node: Node, found: dict[Node, Any]) -> None:
    assert node.op is not None
    facts = node.op.inference
    ins = [n for n, _ in node.inputs]
    for name, array in zip(node.names, ins, strict=False):
        if found[array] is None:
            found[array] = facts.dtypes.get(name)
    if (
        facts.typed == ()
    ):  # a cast: the result's dtype is what it says, the arrays' follow from elsewhere
        if callable(facts.dtype):
            found[node] = _said(node, [found[array] for array in ins])[0]
        elif found[node] is None:
            found[node] = node.params.get("dtype")
        return
    tied = ins if facts.typed is None else [ins[k] for k in facts.typed if k < len(ins)]
    if facts.statistics:
        for state in ins[1:]:
            if found[state] is None and found[ins[0]] is not None:
                found[state] = (
                    "float32" if found[ins[0]] in ("float16", "bfloat16") else found[ins[0]]
                )
    fixed = facts.dtype is not None or (
        facts.typed is None and any(key in node.params for key in _DTYPE)
    )
    group = tied if fixed else [*tied, node]
    known = next((found[n] for n in group if found[n] is not None), None)
    if known is None:
        return
    for n in group:
        if found[n] is None:
            found[n] = known


def _visit_special(node: Node, found: dict[Node, Any]) -> None:
    from .special import known

    special = known(node.registry)
    if special is None or special.types is None:
        return
    ins, outs = special.types(node, [found[n] for n, _ in node.inputs])
    for n, dtype in zip((*(n for n, _ in node.inputs), node), (*ins, outs[0]), strict=True):
        if found[n] is None and dtype is not None:
            found[n] = name_of(dtype)


def name_of(dtype: Any) -> str:
    """A dtype's name."""
    return "bfloat16" if str(dtype) == "bfloat16" else np.dtype(dtype).name


def complete(nodes: Sequence[Node], given: dict[str, Any]) -> dict[Node, Any]:
    """Dtypes of all nodes: float32 where nothing says another."""
    return {n: t or "float32" for n, t in infer(nodes, given).items()}


def require_known(symbol: Any, names: Iterable[str]) -> None:
    """Raise where a symbol has no variable of one of these names.

    Raises:
      MXNetError: that name.
    """
    mine = {n.name for n in symbol._variables()}
    for name in names:
        if name not in mine:
            hint = errors.did_you_mean(name, mine)
            raise errors.MXNetError(
                f"the symbol has no argument {name!r}{hint}: it has {', '.join(sorted(mine))}"
            )


def _parameters(nodes: Sequence[Node], found: dict[Node, Any]) -> list[str]:
    """The variables without a dtype whose shapes follow from the data's, weights: MXNet takes float32 for them."""
    return [
        array.name
        for node in nodes
        if node.op is not None and node.op.inference.shapes is not None
        for (array, _), name in list(zip(node.inputs, node.names, strict=False))[1:]
        if array.is_variable and found[array] is None and found[node.inputs[0][0]] is not None
    ]


def types_of(symbol: Any, args: Sequence[Any], kwargs: dict[str, Any], partial: bool) -> Any:
    """What `Symbol.infer_type` gives."""
    if args and kwargs:
        raise errors.MXNetValueError(
            "Can only specify known argument types either by positional or kwargs way."
        )
    names = symbol.list_arguments()
    given = dict(zip(names, args, strict=False)) if args else dict(kwargs)
    require_known(symbol, given)
    plain = {k: name_of(v) for k, v in given.items() if v is not None}
    nodes = walk(symbol._entries)
    states = states_of(nodes)
    found = infer(nodes, plain)
    variables = [n for n in nodes if n.is_variable]
    if not partial:
        found = infer(nodes, {**plain, **dict.fromkeys(_parameters(nodes, found), "float32")})
        if any(found[n] is None for n in variables):
            return None, None, None  # a cast's result, say, tells nothing of what is cast
        found = {n: t or "float32" for n, t in found.items()}

    def result(n: Node, k: int) -> Any:
        """The dtype of a node's k-th result."""
        if n.op is None or not k:
            return found[n]
        if callable(n.op.inference.dtype):
            said = _said(n, [found[array] for array, _ in n.inputs])
            return said[k] if k < len(said) else "float32" if n.op.inference.dtypes else found[n]
        return "float32" if n.op.inference.dtypes else found[n]

    def shown(name: Any) -> Any:
        return (
            None if name is None else np.dtype(name).type if name != "bfloat16" else np.dtype(name)
        )

    return (
        [shown(found[n]) for n in nodes if n.is_variable and n not in states],
        [shown(result(n, k)) for n, k in symbol._entries],
        [shown(found[n]) for n in nodes if n in states],
    )


__all__ = ["complete", "declared", "infer", "name_of", "types_of"]
