"""Symbols to look at: a table of layers, and a picture."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import errors
from .symbol import Symbol
from .symbol import infer as _infer
from .symbol.node import Node, walk
from .symbol.types import name_of

__all__ = ["plot_network", "print_summary"]

_COLUMNS = ("Layer (type)", "Output Shape", "Param #", "Previous Layer")


def print_summary(
    symbol: Any,
    shape: Mapping[str, Any] | None = None,
    line_length: int = 120,
    positions: Sequence[float] = (0.44, 0.64, 0.74, 1.0),
) -> None:
    """Print a table of a network's nodes: the shapes of results, how many parameters, what comes before.

    Args:
      symbol: the network.
      shape: the inputs' shapes by name; without them shapes and the numbers that follow from them are left out.
      line_length: the table's width.
      positions: where columns end, as parts of it or in characters.

    Raises:
      TypeError: `symbol` is none.
      ValueError: the shapes do not suffice.
    """
    if not isinstance(symbol, Symbol):
        raise errors.MXNetTypeError("symbol must be Symbol")
    nodes = walk(symbol._entries)
    found = _known(nodes, shape)
    ends = [int(line_length * p) if p <= 1 else int(p) for p in positions]
    heads = {n for n, _ in symbol._entries}
    inputs = set(shape or ())
    rows = [n for k, n in enumerate(nodes) if not n.is_variable or k == 0 or n in heads]
    print("_" * line_length)
    _line(_COLUMNS, ends)
    print("=" * line_length)
    total = 0
    for node in rows:
        own = found.found[node][0] if found is not None else None
        count = _parameters(node, found, inputs)
        total += count
        before = [
            n.name for n, _ in node.inputs if not n.is_variable or n in heads or n is nodes[0]
        ]
        label = "x".join(str(n) for n in own[1:]) if own is not None and _infer.known(own) else ""
        _line((f"{node.name}({node.operator})", label, count, before[0] if before else ""), ends)
        for name in before[1:]:
            _line(("", "", "", name), ends)
        print(("=" if node is rows[-1] else "_") * line_length)
    print(f"Total params: {total}")
    print("_" * line_length)


def _line(fields: Sequence[Any], ends: Sequence[int]) -> None:
    text = ""
    for field, end in zip(fields, ends, strict=True):
        text = (text + str(field))[:end].ljust(end)
    print(text)


def _known(nodes: Sequence[Node], shape: Mapping[str, Any] | None) -> _infer.Inference | None:
    if shape is None:
        return None
    found = _infer.Inference(nodes, {k: _infer.partial(s) for k, s in shape.items()})
    unknown = [n.name for n in nodes if not all(_infer.known(s) for s in found.found[n])]
    if unknown:
        raise errors.MXNetValueError(
            f"Input shape is incomplete: of {dict(shape)} the shape of {unknown[0]} does not follow; give those of the "
            "inputs, as in shape={'data': (1, 3, 224, 224)}"
        )
    return found


def _parameters(node: Node, found: _infer.Inference | None, inputs: set[str]) -> int:
    """How many numbers a node's own variables hold: what no shape was given for, auxiliary states left out.

    Without shapes, as in MXNet, what the node's own attributes say: the biases, and the whole of an embedding.
    """
    if node.is_variable:
        return 0
    if found is None:
        p = node.params
        if node.operator == "Embedding":
            return int(p["input_dim"]) * int(p["output_dim"])
        return 0 if p.get("no_bias") else int(_BIASES.get(node.operator, lambda _: 0)(p))
    states = node.aux()
    own = [n for k, (n, _) in enumerate(node.inputs) if n.is_variable and k not in states and k > 0]
    return sum(
        math.prod(n or 0 for n in found.found[v][0] or (0,))
        for v in own
        if v.name not in inputs and _is_weight(v)
    )


#: How many biases an operator has, by its attributes.
_BIASES: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "Convolution": lambda p: p["num_filter"],
    "FullyConnected": lambda p: p["num_hidden"],
}

_WEIGHTS = (
    "weight", "bias", "beta", "gamma", "moving_var", "moving_mean", "running_var", "running_mean", "alpha",
    "parameters",
    "rnn_param",
)  # fmt: skip


def _is_weight(node: Node) -> bool:
    return node.name.replace(".", "_").endswith(tuple(f"_{w}" for w in _WEIGHTS))


# The colours of layers, by what they do.
_COLOURS = {
    "null": "#8dd3c7", "Convolution": "#fb8072", "FullyConnected": "#fb8072",
    "Activation": "#ffffb3", "LeakyReLU": "#ffffb3", "BatchNorm": "#bebada", "Pooling": "#80b1d3", "Concat": "#fdb462",
    "Flatten": "#fdb462", "Reshape": "#fdb462",
}  # fmt: skip


def _label(node: Node) -> str:
    """What stands in a node's box."""
    p = node.params

    def by(value: Any) -> str:
        return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)

    if node.operator == "Convolution":
        return (
            f"Convolution\n{by(p.get('kernel'))}/{by(p.get('stride') or 1)}, {p.get('num_filter')}"
        )
    if node.operator == "FullyConnected":
        return f"FullyConnected\n{p.get('num_hidden')}"
    if node.operator in ("Activation", "LeakyReLU"):
        return f"{node.operator}\n{p.get('act_type', 'leaky')}"
    if node.operator == "Pooling":
        return f"Pooling\n{p.get('pool_type', 'max')}, {by(p.get('kernel', ()))}/{by(p.get('stride') or 1)}"
    return node.name


def plot_network(
    symbol: Any,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Mapping[str, Any] | None = None,
    dtype: Mapping[str, Any] | None = None,
    node_attrs: Mapping[str, str] | None = None,
    hide_weights: bool = True,
) -> Any:
    """A picture of a network, as a `graphviz.Digraph` (`pip install 'mxjax[export]'`).

    Args:
      symbol: the network.
      title: the picture's name.
      save_format: what its `render` writes.
      shape: the inputs' shapes by name: arrows are labelled with the shapes of what flows, without samples.
      dtype: the inputs' dtypes by name: arrows are labelled with dtypes.
      node_attrs: graphviz's attributes of all nodes.
      hide_weights: leave parameters out.

    Raises:
      ImportError: graphviz is not installed.
      TypeError: `symbol` is none.
      ValueError: the shapes do not suffice.
    """
    graphviz = errors.optional_import("graphviz", "export")
    if not isinstance(symbol, Symbol):
        raise errors.MXNetTypeError("symbol must be a Symbol")
    nodes = walk(symbol._entries)
    found = _known(nodes, shape)
    types: dict[Node, Any] = {}
    if dtype is not None:
        from .symbol.types import complete

        types = complete(nodes, {k: name_of(t) for k, t in dtype.items()})
    names = [n.name for n in nodes]
    repeated = sorted({n for n in names if names.count(n) > 1})
    if repeated:
        warnings.warn(
            "There are multiple variables with the same name in your graph, this may result in cyclic graph. Repeated "
            f"names: {','.join(repeated)}", RuntimeWarning, stacklevel=2,
        )  # fmt: skip
    plain = {
        "shape": "box",
        "fixedsize": "true",
        "width": "1.3",
        "height": "0.8034",
        "style": "filled",
    }
    plain.update(node_attrs or {})
    dot = graphviz.Digraph(name=title, format=save_format)
    weights = {n for n in nodes if n.is_variable and _is_weight(n)}
    hidden = weights if hide_weights else set()
    for node in nodes:
        if (
            node not in weights
        ):  # those that are shown are the ends of arrows, without a look of their own
            look = {**plain, "fillcolor": _COLOURS.get(node.operator, "#fccde5")}
            if node.is_variable:
                look["shape"] = "oval"
            dot.node(name=node.name, label=_label(node), **look)
    for node in nodes:
        for n, k in node.inputs:
            if n in hidden:
                continue
            words = []
            if found is not None:
                words.append("x".join(str(m) for m in (found.found[n][k] or ())[1:]))
            if types:
                words.append(f"({types[n]})")
            dot.edge(
                tail_name=node.name,
                head_name=n.name,
                dir="back",
                arrowtail="open",
                label=" ".join(words),
            )
    return dot
