"""Shapes as ONNX's own inference finds them, kept from graphs that it cannot bear.

Its `Slice` ends the whole process where a length is negative, as behind a convolution whose kernel is larger than its
image. So it is shown a `Slice` only once the shape before it is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["inferred"]

_HIDDEN = (
    "mxjax.not.inferred"  # a domain of which ONNX knows no operators: their results have no shapes
)
_SMALL = 64  # numbers of a constant that inference may want to see


def inferred(onnx: Any, model: Any, data_prop: bool = False) -> Any:
    """The model with `value_info` of what ONNX can tell; its constants may be left out of it.

    Raises what ONNX raises of a model that it does not understand.
    """
    if not any(
        node.op_type == "Slice"
        for graph in (model.graph, *_inside(model.graph))
        for node in graph.node
    ):
        return onnx.shape_inference.infer_shapes(model, data_prop=data_prop)
    shown = _light(onnx, model)
    for graph in (shown.graph, *_inside(shown.graph)):
        for info in (*graph.input, *graph.output, *graph.value_info):
            if _is_negative(info):
                info.type.tensor_type.ClearField("shape")
        for node in graph.node:
            if node.op_type == "Slice":
                node.domain = _HIDDEN
    shown.opset_import.append(onnx.helper.make_opsetid(_HIDDEN, 1))
    domains = {k: node.domain for k, node in enumerate(model.graph.node) if node.op_type == "Slice"}
    hidden = set(domains)
    while True:
        found = onnx.shape_inference.infer_shapes(shown, data_prop=data_prop)
        infos = {i.name: i for i in (*found.graph.value_info, *found.graph.input)}
        behind: set[str] = set()  # results of what is hidden, and of what follows from them
        now = []
        for k, node in enumerate(shown.graph.node):
            looks_around = bool(behind) and any(a.HasField("g") or a.graphs for a in node.attribute)
            of_hidden = looks_around or any(name in behind for name in node.input)
            if (
                k in hidden
                and not of_hidden
                and not _is_negative(infos.get(node.input[0] if node.input else ""))
            ):
                now.append(k)
            if of_hidden or k in hidden:
                behind.update(node.output)
        if not now:
            return found
        for k in now:
            shown.graph.node[k].domain = domains[k]
        hidden -= set(now)


def _inside(graph: Any) -> Iterator[Any]:
    """The graphs that nodes of a graph have as attributes, and those in them."""
    for node in graph.node:
        for a in node.attribute:
            for each in (a.g, *a.graphs) if a.HasField("g") else a.graphs:
                yield each
                yield from _inside(each)


def _is_negative(info: Any) -> bool:
    return info is not None and any(d.dim_value < 0 for d in info.type.tensor_type.shape.dim)


def _light(onnx: Any, model: Any) -> Any:
    """A copy with large constants as inputs: each inference copies the model."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    large = [t for t in graph.initializer if _count(t) > _SMALL]
    kept = [t for t in graph.initializer if _count(t) <= _SMALL]
    named = {info.name for info in graph.input}
    graph.input.extend(
        onnx.helper.make_tensor_value_info(t.name, t.data_type, list(t.dims))
        for t in large
        if t.name not in named
    )
    kept = [onnx.TensorProto.FromString(t.SerializeToString()) for t in kept]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return made


def _count(tensor: Any) -> int:
    count = 1
    for length in tensor.dims:
        count *= length
    return count
