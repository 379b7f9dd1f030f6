"""Symbols as text: MXNet's `-symbol.json`, of every version since 0.8. Nothing in a file is executed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import errors, modes
from ..files import atomic
from ..operator.custom_op import registry as registered
from ..ops.table import TABLE, Op, by_internal
from ..ops.texts import value_of
from . import attributes, dialect, special, upgrade
from .compose import active
from .custom import custom_node
from .node import Entry, Node, Subgraph, walk
from .symbol import Symbol

#: The version that is written into files, by the generation.
VERSIONS = {1: 10_901, 2: 20_000}
#: Operators that MXNet has not, by the names of their rows.
OURS = "_mxjax_"
_MOST_OUTPUTS = 1 << 16
_MOST_NODES = 1 << 22
_DEEPEST = 8


def to_json(symbol: Any, remove_amp_cast: bool = True) -> str:
    """The text of a symbol."""
    entries = dialect.without_casts(symbol._entries) if remove_amp_cast else symbol._entries
    said: dict[str, Any] = {"mxnet_version": ["int", VERSIONS[modes.generation()]]}
    if modes.is_np_shape():
        said = {"is_np_shape": ["int", 1], **said}
    return json.dumps({**_graph(entries), "attrs": said}, indent=2)


def _graph(entries: Sequence[Entry], variables: Sequence[Node] = ()) -> dict[str, Any]:
    """A graph as a file has it; ``variables`` are written although nobody takes them."""
    entries = dialect.for_file(entries)
    nodes = walk([*entries, *[(v, 0) for v in variables]])
    number = {node: k for k, node in enumerate(nodes)}
    rows, starts = [], [0]
    for node in nodes:
        states = node.aux()
        written: dict[str, Any] = {"op": _operator(node), "name": node.name}
        attrs = {**_params(node), **node.attrs}
        if attrs:
            written["attrs"] = dict(sorted(attrs.items()))
        written["inputs"] = [
            [number[n], k, int(at in states)] for at, (n, k) in enumerate(node.inputs)
        ]
        if node.subgraphs:
            written["subgraphs"] = [_graph(sub.entries, sub.variables) for sub in node.subgraphs]
        rows.append(written)
        starts.append(starts[-1] + node.count())
    return {
        "nodes": rows,
        "arg_nodes": [k for k, node in enumerate(nodes) if node.is_variable],
        "node_row_ptr": starts,
        "heads": [[number[n], k, 0] for n, k in entries],
    }


def _operator(node: Node) -> str:
    op = node.op
    if op is None:
        return node.operator
    if op.names.internal is not None and _same(op, by_internal(op.names.internal)):
        return op.names.internal
    return OURS + op.name


def _same(op: Op, other: Op | None) -> bool:
    """Whether a file's reader, who takes the other row for the name, computes the same."""
    if (
        other is None
        or len(op.array_params) != len(other.array_params)
        or op.variadic != other.variadic
    ):
        return False
    return op is other or _stem(op) == _stem(other)


def _stem(op: Op) -> str:
    return op.name.partition("@")[0]


def _params(node: Node) -> dict[str, str]:
    """A node's own attributes as texts; defaults that the reader's row has otherwise are written out."""
    op = node.op
    if op is None:
        return {k: attributes.text(v) for k, v in node.params.items()}
    params = dict(node.params)
    other = by_internal(op.names.internal) if op.names.internal is not None else None
    if other is not None and other is not op:
        for key, default in op.attr_defaults.items():
            if key in other.attr_params and other.attr_defaults.get(key, default) != default:
                params.setdefault(key, default)
    found = {k: attributes.text(v) for k, v in params.items()}
    if node.counts_arrays:
        found.setdefault("num_args", str(len(node.inputs)))
    made = not (op.array_params or op.keyed or node.operator.startswith("_npi"))
    if made and "dtype" in op.attr_params:
        found.setdefault("dtype", "float32")  # which MXNet has no default for
    for key in op.files.required:
        if op.attr_defaults.get(key) is not None:
            found.setdefault(key, attributes.text(op.attr_defaults[key]))
    found.update({f"__constant_{k}__": attributes.text(v) for k, v in node.constants.items()})
    return found


def load(fname: Any) -> Any:
    """Read a symbol from a file.

    Args:
      fname: the path of the file.

    Returns:
      dict or list of arrays (mx.sym: Symbol): what was written.

    Raises:
      OSError: the file cannot be read.
      FormatError: it is damaged or no symbol's.
    """
    raw = atomic.read_whole(fname)
    with errors.parsing(os.fspath(fname)):
        return from_json(raw)


def from_json(json_str: Any) -> Any:
    """The symbol of a text that `Symbol.tojson` or any MXNet since 0.8 wrote.

    An operator that there is not here stays in the graph under its name; only running it is an error.

    Args:
      json_str: the text.

    Returns:
      Symbol: the graph that the text describes.

    Raises:
      FormatError: the text is damaged or no symbol's.
    """
    if not isinstance(json_str, (str, bytes, bytearray)):
        raise errors.MXNetTypeError(
            f"fromjson required json_str to be string, got {type(json_str).__name__}"
        )
    with errors.parsing("a symbol's text"):
        return Symbol(_read(json.loads(json_str), 0).entries)


def _read(found: Any, depth: int) -> Subgraph:
    """The results of a graph that was read, and its variables."""
    if depth > _DEEPEST:
        raise errors.FormatError(f"more than {_DEEPEST} graphs inside one another")
    if not isinstance(found, dict) or not isinstance(found.get("nodes"), list):
        raise errors.FormatError("no symbol: a dictionary with 'nodes' is expected")
    if len(found["nodes"]) > _MOST_NODES:
        raise errors.FormatError(f"{len(found['nodes'])} nodes")
    version = _version(found)
    of_np = _of_np(found)
    nodes: list[Node] = []
    for k, said in enumerate(found["nodes"]):
        nodes.append(_node(k, said, nodes, version, of_np, depth))
    heads = found.get("heads", [[len(nodes) - 1, 0]] if nodes else [])
    entries = _entries(heads, nodes, "heads")
    if not entries:
        raise errors.FormatError("a symbol without results")
    for node, k in entries:
        if k >= node.count():
            raise errors.FormatError(
                f"the node {node.name!r} has {node.count()} results, output {k} is asked for"
            )
    dialect.open_begin_states(entries)
    upgrade.spread_attributes(entries, version)
    return Subgraph(entries, [n for n in nodes if n.is_variable])


def _version(found: Mapping[str, Any]) -> int:
    said = found.get("attrs")
    if isinstance(said, dict):
        version = said.get("mxnet_version")
        if isinstance(version, list) and len(version) == 2 and type(version[1]) is int:
            return version[1]
    return 800


def _of_np(found: Mapping[str, Any]) -> bool:
    """Whether a graph was made with NumPy's shapes, in which a number has none."""
    said = found.get("attrs")
    return isinstance(said, dict) and said.get("is_np_shape") == ["int", 1]


def _entries(said: Any, nodes: Sequence[Node], what: str) -> list[Entry]:
    if not isinstance(said, list):
        raise errors.FormatError(f"{what}: a list is expected")
    found = []
    for entry in said:
        ok = isinstance(entry, list) and 2 <= len(entry) <= 3 and all(type(n) is int for n in entry)
        if not ok or not 0 <= entry[0] < len(nodes) or not 0 <= entry[1] < _MOST_OUTPUTS:
            raise errors.FormatError(f"{what}: {str(entry)[:80]} is no result of a node before it")
        found.append((nodes[entry[0]], entry[1]))
    return found


def _node(k: int, said: Any, nodes: list[Node], version: int, of_np: bool, depth: int) -> Node:
    if (
        not isinstance(said, dict)
        or not isinstance(said.get("op"), str)
        or not isinstance(said.get("name"), str)
    ):
        raise errors.FormatError(f"node {k} has no operator or no name")
    name, registry = said["name"], said["op"]
    if not registry:
        raise errors.FormatError(f"node {k} ({name!r}) has no operator")
    attrs: dict[str, str] = {}
    for key in ("param", "attr", "attrs"):
        given = said.get(key)
        if given is None:
            continue
        if not isinstance(given, dict) or any(isinstance(v, (dict, list)) for v in given.values()):
            raise errors.FormatError(
                f"node {k} ({name!r}): its attributes are no dictionary of texts"
            )
        attrs.update({a: str(v) for a, v in given.items()})
    inputs = _entries(said.get("inputs", []), nodes, f"the inputs of node {k} ({name!r})")
    for node, at in inputs:
        if node.registry and not node.subgraphs:
            node.constants["outputs"] = max(at + 1, node.constants.get("outputs", 1))
        elif at >= node.count():
            raise errors.FormatError(
                f"node {k} ({name!r}) takes output {at} of {node.name!r}, which has {node.count()}"
            )
    if registry == "null":
        return Node(name, attrs={attributes.stored(a): v for a, v in attrs.items()}, inputs=[])
    op = TABLE.get(registry[len(OURS) :]) if registry.startswith(OURS) else by_internal(registry)
    if special.ALIASES.get(registry, registry) in special.SPECIAL:
        op = None
    if of_np:
        op = dialect.of_numpy(op, registry)
    changed = dialect.read(registry, attrs)
    if changed is not None:
        op, attrs = TABLE.get(changed[0]), changed[1]
        inputs = dialect.ordered(inputs, attrs)
    if op is None or not op.operator and not registry.startswith(OURS):
        return _without_row(name, registry, attrs, inputs, said.get("subgraphs"), depth)
    try:
        return _known(
            name, registry, op, upgrade.attributes_of(registry, attrs, version), inputs, version
        )
    except errors.FormatError as error:
        raise errors.FormatError(f"node {k} ({name!r}, {registry}): {error}") from None
    except (
        errors.MXNetError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise errors.FormatError(
            f"node {k} ({name!r}, {registry}) has attributes that it cannot have: {error}"
        ) from None


def _without_row(
    name: str, registry: str, attrs: dict[str, str], inputs: list[Entry], subgraphs: Any, depth: int
) -> Node:
    """A loop or branch, a custom operator, or an operator that there is not here."""
    plain = special.ALIASES.get(registry, registry)
    users = {k: attrs.pop(k) for k in [*attrs] if k.startswith("__")}
    names = [f"arg{at}" for at in range(len(inputs))]
    made = Node(
        name,
        None,
        attrs,
        users,
        inputs,
        names,
        registry=plain,
        is_np=registry.startswith(("_npi_", "_npx_")),
    )
    if plain in special.LOOPS:
        if not isinstance(subgraphs, list) or len(subgraphs) != special.LOOPS[plain]:
            raise errors.FormatError(
                f"{registry} {name!r} has {special.LOOPS[plain]} graphs inside"
            )
        made.subgraphs = [_read(g, depth + 1) for g in subgraphs]
        _check_loop(made)
    if plain == "Custom" and "op_type" not in attrs:
        raise errors.FormatError(f"the custom operator {name!r} has no op_type")
    if plain == "Custom" and attrs["op_type"] in registered:  # else it may be registered later
        try:
            return custom_node(name, attrs, inputs, users, made.is_np)
        except Exception as error:
            raise errors.FormatError(
                f"the custom operator {name!r} ({attrs['op_type']}): {error}"
            ) from error
    return made


def _check_loop(node: Node) -> None:
    """Refuse positions and numbers that do not fit."""
    wanted = {
        "_foreach": (), "_while_loop": ("cond_input", "func_input"), "_cond": ("cond_input", "then_input", "else_input")
    }[node.registry]  # fmt: skip
    for sub, key in zip(node.subgraphs, wanted, strict=False):
        at = special.places(node, f"{key}_locs")
        if len(at) != len(sub.variables) or any(k >= len(node.inputs) for k in at):
            raise errors.FormatError(
                f"{node.name!r}: {key}_locs do not fit {len(sub.variables)} variables"
            )
    first = node.subgraphs[0]
    if node.registry == "_foreach":
        at = tuple(
            k
            for key in ("in_data", "in_state", "remain")
            for k in special.places(node, f"{key}_locs")
        )
        if sorted(at) != list(range(len(first.variables))) or len(at) != len(node.inputs):
            raise errors.FormatError(
                f"{node.name!r}: its positions do not fit {len(first.variables)} variables"
            )
    last = node.subgraphs[-1]
    outs = special.value(
        node, "num_out_data", len(last.entries) if node.registry == "_cond" else None
    )
    ok = type(outs) is int and 0 <= outs <= len(last.entries)
    if node.registry == "_while_loop":
        at = special.places(node, "func_var_locs")
        limit = special.value(node, "max_iterations")
        ok = ok and type(limit) is int and all(k < len(last.variables) for k in at)
        ok = ok and isinstance(outs, int) and len(last.entries) - outs == len(at)
    if node.registry == "_cond":
        ok = ok and len(node.subgraphs[1].entries) == len(last.entries)
    if not ok:
        raise errors.FormatError(f"{node.name!r}: its attributes do not fit its graphs")
    node.constants["outputs"] = len(last.entries)


def _known(
    name: str, registry: str, op: Op, attrs: dict[str, str], inputs: list[Entry], version: int
) -> Node:
    constants = {
        key[len("__constant_") : -2]: value_of(attrs.pop(key))
        for key in [*attrs] if key.startswith("__constant_")
    }  # fmt: skip
    if any(not isinstance(v, (int, float)) for v in constants.values()):
        raise errors.FormatError(f"{constants} for numbers")
    params, users = attributes.given(op, attrs)
    if op.variadic:
        names = [f"arg{at}" for at in range(len(inputs))]
    else:
        names = [n for n in active(op, params, ()) if n not in constants]
        if len(inputs) < len(names):
            inputs = upgrade.with_states(name, op, params, names, inputs, version)
        if len(inputs) > len(names):
            names = [n for n in op.array_params if n not in constants]
        if len(inputs) > len(names):
            raise errors.FormatError(f"{len(inputs)} inputs; it takes {', '.join(names)}")
        names = names[: len(inputs)]
        missing = [
            n for n in op.array_params if n not in (*names, *constants) and n not in op.defaults
        ]
        if missing:
            raise errors.FormatError(f"no input for {', '.join(missing)}")
    is_np = registry.startswith(("_npi_", "_npx_", "_np_")) or bool(
        registry.startswith(OURS) and "@nd" not in op.name
    )
    node = Node(name, op, params, users, inputs, names, constants, is_np=is_np)
    count = node.count()
    if type(count) is not int or not 1 <= count <= _MOST_OUTPUTS:
        raise errors.FormatError(f"{count} results")
    node.aux()
    hash(tuple(node.params.items()))
    return node


def debug_text(symbol: Any) -> str:
    """The graph node by node, for people."""
    lines = ["Symbol Outputs:"]
    lines += [f"\toutput[{k}]={node.name}({at})" for k, (node, at) in enumerate(symbol._entries)]
    for node in symbol._nodes():
        if node.is_variable:
            lines.append(f"Variable:{node.name}")
            continue
        states = node.aux()
        lines += ["--------------------", f"Op:{node.operator}, Name={node.name}", "Inputs:"]
        for at, (n, k) in enumerate(node.inputs):
            version = f" version={int(at in states)}" if n.is_variable else ""
            lines.append(f"\targ[{at}]={n.name}({k}){version}")
        attrs = {**{k: attributes.text(v) for k, v in node.params.items()}, **node.attrs}
        if attrs:
            lines += ["Attrs:", *[f"\t{k}={v}" for k, v in sorted(attrs.items())]]
    return "\n".join(lines) + "\n"
