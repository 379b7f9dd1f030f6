"""An ONNX graph as a symbol and its parameters."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from mxjax import errors, gluon, symbol
from mxjax.array.creation import array
from mxjax.files import atomic
from mxjax.symbol.node import states_of, walk

from .inference import inferred
from .reader import GROWING, Reader

# The files of the table.
for _topic in ("elementwise", "shape", "nn", "control", "selecting"):
    importlib.import_module(f"{__package__}.{_topic}")

__all__ = ["GraphProto"]


class GraphProto:
    """A graph of an ONNX file while it becomes a symbol.

    >>> GraphProto().from_onnx(model.graph, opset_version=17)  # doctest: +SKIP
    (<Symbol fc>, {'fc_weight': ...}, {})
    """

    def __init__(self) -> None:
        self.model_metadata: dict[str, Any] = {}
        self.opset_version = 0
        self.arg_dict: dict[str, Any] = {}
        self.aux_dict: dict[str, Any] = {}

    def from_onnx(
        self, graph: Any, opset_version: int
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """The symbol of a graph, its arguments and its auxiliary states.

        Raises:
          FormatError: the graph contradicts itself.
          MemoryError: it asks for arrays that are too large.
          NotImplementedError: an operator has no translation; the message names it and its node.
        """
        onnx = errors.optional_import("onnx", "onnx")
        with errors.parsing("an ONNX graph"):
            return self._read(onnx, graph, opset_version)

    def _read(
        self, onnx: Any, graph: Any, opset_version: int
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        self.opset_version = opset_version
        self.model_metadata = self.get_graph_metadata(graph)
        reader = Reader(onnx, opset_version)
        self.reader = reader
        numbers = {t.name: np.asarray(onnx.numpy_helper.to_array(t)) for t in graph.initializer}
        shown = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", opset_version)]
        )
        try:
            shown = inferred(onnx, shown, data_prop=_may_propagate(onnx, graph, numbers))
        except (
            Exception
        ):  # of a graph that ONNX does not understand; what needs no shapes is read all the same
            pass
        reader.learn([*shown.graph.value_info, *graph.input, *graph.output])
        reader.values.update(numbers)
        for info in graph.input:
            if info.name not in numbers:
                reader.values[info.name] = reader.variable(info.name)
        for node in graph.node:
            reader.read(node)
        entries = [reader.entry(info.name) for info in graph.output]
        made = symbol.Symbol(entries)
        states = {n.name for n in states_of(walk(entries))}
        used = set(made.list_inputs())
        params = {
            k: array(v, dtype=v.dtype).as_nd_ndarray()
            for k, v in reader.params.items()
            if k in used
        }
        self.arg_dict = {k: v for k, v in params.items() if k not in states}
        self.aux_dict = {k: v for k, v in params.items() if k in states}
        return made, self.arg_dict, self.aux_dict

    def get_graph_metadata(self, graph: Any) -> dict[str, list[Any]]:
        """Names, shapes (0: a length that changes) and dtypes of a graph's inputs, names and shapes of its results."""
        params = {t.name for t in graph.initializer}

        def shape(info: Any) -> tuple[int, ...]:
            return tuple([d.dim_value for d in info.type.tensor_type.shape.dim])

        return {
            "input_tensor_data": [
                (i.name, shape(i), i.type.tensor_type.elem_type)
                for i in graph.input
                if i.name not in params
            ],
            "output_tensor_data": [(o.name, shape(o)) for o in graph.output],
        }

    def graph_to_gluon(self, graph: Any, ctx: Any, opset_version: int) -> Any:
        """A block that computes a graph, with its parameters on a device or several."""
        made, args, auxs = self.from_onnx(graph, opset_version)
        inputs = [symbol.Symbol([(n, 0)]) for n in self.reader.inputs]
        with errors.parsing("an ONNX graph"):
            block = gluon.SymbolBlock(made, inputs)
            found = block.collect_params()
            for name, value in {**args, **auxs}.items():
                p = found[name]
                p.shape, p.dtype = value.shape, value.dtype
                p._load_init(value, ctx)
        return block


_LONGEST = (
    1 << 16
)  # numbers of a shape that ONNX's inference may follow: each takes it hundreds of bytes


def _may_propagate(onnx: Any, graph: Any, numbers: Mapping[str, np.ndarray]) -> bool:
    """Whether ONNX may follow the numbers of shapes: where a node asks for it, it makes arrays of any size."""
    if any(v.dtype.kind in "iu" and v.ndim == 1 and v.size > _LONGEST for v in numbers.values()):
        return False
    small = {name: v for name, v in numbers.items() if v.size <= 64}
    for info in (*graph.input, *graph.output, *graph.value_info):
        shape = info.type.tensor_type.shape.dim
        if len(shape) == 1 and shape[0].dim_value > _LONGEST:
            return False
    for node in graph.node:
        for a in node.attribute:
            if node.op_type == "Constant" and a.HasField("t") and math.prod(a.t.dims) <= 64:
                small |= dict.fromkeys(node.output, np.asarray(onnx.numpy_helper.to_array(a.t)))
            if a.HasField("g") and not _may_propagate(onnx, a.g, {}):
                return False
        given = [small[name] for name in node.input if name in small and node.op_type in GROWING]
        for v in given:
            if v.dtype.kind == "i" and math.prod(max(abs(int(n)), 1) for n in v.flat) > 1 << 20:
                return False
    return True


def loaded(model_file: Any) -> tuple[Any, int]:
    """The model in a file, or one that is loaded already, and its opset.

    Raises:
      OSError: the file cannot be read.
      FormatError: it is no ONNX file.
    """
    onnx = errors.optional_import("onnx", "onnx")
    if isinstance(model_file, onnx.ModelProto):
        model = model_file
    else:
        path = os.fspath(model_file)
        raw = atomic.read_whole(path)
        with errors.parsing(path):
            form = onnx.serialization.registry.get_format_from_file_extension(
                os.path.splitext(path)[1]
            )
            model = onnx.load_model_from_string(raw, format=form or "protobuf")
            onnx.external_data_helper.load_external_data_for_model(model, os.path.dirname(path))
    versions = [i.version for i in model.opset_import if i.domain in ("", "ai.onnx")]
    if not versions:
        raise errors.FormatError(f"{model_file}: no ONNX file: it names no set of operators")
    return model, max(versions)
