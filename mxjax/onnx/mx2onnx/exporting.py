"""`export_model`: a network as an ONNX file."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mxjax import errors, serialization, symbol
from mxjax._version import __version__
from mxjax.files import atomic
from mxjax.modes import generation
from mxjax.ops.table import TABLE as ROWS
from mxjax.symbol import special

from .translating import Graph
from .writer import OLDEST, USUAL, Writer, exported

_LARGEST = (1 << 31) - (1 << 20)  # of one file of protobuf


def get_operator_support(opset_version: int | None = None) -> list[str]:
    """The names of MXNet's operators that can be exported.

    Args:
      opset_version: the version of ONNX's operators; the newest one known without.

    Returns:
      list of str: the operators.

    >>> "Convolution" in get_operator_support()
    True
    """
    return sorted(
        {*special.LOOPS, *(ROWS[name].names.internal or ROWS[name].display for name in exported())}
    )


def export_model(
    sym: Any,
    params: Any = None,
    in_shapes: Any = None,
    in_types: Any = np.float32,
    onnx_file_path: Any = "model.onnx",
    verbose: bool = False,
    dynamic: bool = False,
    dynamic_input_shapes: Any = None,
    run_shape_inference: bool = False,
    input_type: Any = None,
    input_shape: Any = None,
    large_model: bool = False,
    opset_version: int | None = None,
) -> Any:
    """Write a network in prediction as an ONNX file, and give the file's path.

    Args:
      sym: a symbol, the path of a ``-symbol.json``, or a hybridized block that ran once.
      params: the parameters: a dictionary, a list of two (arguments and auxiliary states), or the path of a
        ``.params`` or ``.safetensors`` file; none of a block.
      in_shapes: a shape for each input, in the symbol's order; of a block in its arguments' order.
      in_types: the inputs' dtype, or a list of them.
      onnx_file_path: where to write.
      dynamic: let the inputs' lengths change: those that are None in ``dynamic_input_shapes``, else all.
      dynamic_input_shapes: a shape for each input, None (or a name) for a length that changes.
      run_shape_inference: write the shapes of all results, too.
      large_model: write the parameters beside the file; done by itself beyond 2 GB.
      opset_version: 13 or later; by default 17, which programs since 2022 read.
      verbose: whether it is told what happens.
      input_type: the dtype of the inputs.
      input_shape: the shapes of the inputs.

    Returns:
      str: the path of the file.

    Raises:
      NotImplementedError: an operator has no translation; the message names it and its node.
      ValueError: the shapes are not those of the network's inputs.
      ImportError: onnx is not installed.

    >>> import mxjax as mx, tempfile
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    >>> weights = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.zeros(2)}
    >>> path = export_model(net, weights, [(1, 3)], onnx_file_path=f"{tempfile.mkdtemp()}/fc.onnx")
    """
    onnx = errors.optional_import("onnx", "onnx")
    in_types = in_types if input_type is None else input_type
    in_shapes = in_shapes if input_shape is None else input_shape
    opset = USUAL if opset_version is None else int(opset_version)
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST <= opset <= newest:
        raise errors.MXNetValueError(
            f"opset_version={opset}: {OLDEST} to {newest} can be written with onnx {onnx.__version__}"
        )
    made, weights = _network(sym, params)
    graph = Graph(made._entries, weights)
    if _is_block(sym):  # its arguments' order need not be the one that the symbol reads them in
        names = importlib.import_module("mxjax.gluon.files.exporting").input_names(sym)
        order = {name: k for k, name in enumerate(names)}
        graph.inputs.sort(key=lambda node: order.get(node.name, len(order)))
    shapes, kinds, marks, shown = _inputs(graph, in_shapes, in_types, dynamic, dynamic_input_shapes)
    writer = graph.write(opset, shapes, kinds, marks)
    if verbose:
        for node in writer.nodes:
            logging.info(
                "%s %s: %s -> %s", node.op_type, node.name, list(node.input), list(node.output)
            )
    model = model_of(writer, graph, shown)
    if run_shape_inference:
        model = onnx.shape_inference.infer_shapes(model)
    path = os.fspath(onnx_file_path)
    _save(
        onnx,
        model,
        path,
        large_model or sum(a.nbytes for a in writer.initializers.values()) > _LARGEST,
    )
    return onnx_file_path


# ---- what is exported -------------------------------------------------------------------------------------


def _is_block(sym: Any) -> bool:
    return hasattr(sym, "collect_params") and hasattr(sym, "export")


def _network(sym: Any, params: Any) -> tuple[Any, dict[str, np.ndarray]]:
    if isinstance(sym, (str, os.PathLike)):
        sym = symbol.load(sym)
    elif _is_block(sym):
        sym, params = sym.export(None)
    if not isinstance(sym, symbol.Symbol):
        raise errors.MXNetValueError(
            f"a symbol, the path of a -symbol.json or a hybridized block is expected for sym, got {type(sym).__name__}"
        )
    if isinstance(params, (str, os.PathLike)):
        params = serialization.load_parameters(params)
    if isinstance(params, (list, tuple)):
        params = {k: v for part in params for k, v in part.items()}
    if params is not None and not isinstance(params, Mapping):
        raise errors.MXNetValueError(
            "params are a dictionary, a list of two dictionaries or the path of a file of parameters, got "
            f"{type(params).__name__}"
        )
    names = set(sym.list_inputs())
    plain = {k.removeprefix("arg:").removeprefix("aux:"): v for k, v in (params or {}).items()}
    return sym, {
        k: np.asarray(v.asnumpy() if hasattr(v, "asnumpy") else v)
        for k, v in plain.items()
        if k in names
    }


def _inputs(graph: Graph, in_shapes: Any, in_types: Any, dynamic: bool, dynamic_shapes: Any) -> Any:
    """Shapes, dtypes, which axes change, and the shapes that the file shows."""
    names = [n.name for n in graph.inputs]
    if in_shapes is None:
        raise errors.MXNetValueError(
            f"in_shapes: a shape is needed for each of {', '.join(names) or 'no inputs'}"
        )
    shapes = [tuple(s) if isinstance(s, (list, tuple)) else (int(s),) for s in in_shapes]
    if len(shapes) == len(names) + len(graph.labels):
        shapes = shapes[
            : len(names)
        ]  # with shapes of labels, which are no inputs of a network that predicts
    kinds = list(in_types) if isinstance(in_types, (list, tuple)) else [in_types] * len(shapes)
    if len(shapes) != len(names):
        missing = (
            f"the network's inputs are {', '.join(names)}; what params does not have is an input"
        )
        raise errors.MXNetValueError(f"{len(shapes)} shapes for {len(names)} inputs: {missing}")
    if len(kinds) < len(shapes):
        raise errors.MXNetAssertionError(
            f"The lengths of in_types and in_shapes must equal: {len(kinds)} and {len(shapes)}"
        )
    if dynamic_shapes is not None and not dynamic:
        raise errors.MXNetAssertionError(
            "dynamic_input_shapes is specified. Please set dynamic=True"
        )
    if not dynamic:
        return shapes, kinds[: len(shapes)], [[False] * len(s) for s in shapes], shapes
    if dynamic_shapes is None:
        dynamic_shapes = [(None,) * len(s) for s in shapes]
    dynamic_shapes = [tuple(s) for s in dynamic_shapes][: len(shapes)]
    if [len(s) for s in dynamic_shapes] != [len(s) for s in shapes]:
        raise errors.MXNetAssertionError(
            f"dynamic_input_shapes {dynamic_shapes} and in_shapes {shapes} must have the same axes"
        )
    marks = [[not isinstance(n, (int, np.integer)) for n in s] for s in dynamic_shapes]
    shown = [
        tuple([(n or f"{name}_axis{d}") if mark[d] else int(n) for d, n in enumerate(s)])
        for name, s, mark in zip(names, dynamic_shapes, marks, strict=True)
    ]
    fixed = [
        tuple([m if open_ else n for m, n, open_ in zip(shape, other, mark, strict=True)])
        for shape, other, mark in zip(shapes, shown, marks, strict=True)
    ]
    return fixed, kinds[: len(shapes)], marks, shown


# ---- the file ------------------------------------------------------------------------------------------------


def model_of(w: Writer, graph: Graph, shown: Sequence[Any]) -> Any:
    onnx, helper = w.onnx, w.onnx.helper
    outputs = dict(w.outputs)
    nodes, used = _needed(w.nodes, list(outputs))
    inputs = [
        helper.make_tensor_value_info(w.names[n, 0], w.code(w.dtypes[n, 0]), s)
        for n, s in zip(graph.inputs, shown, strict=True)
    ]
    lengths = _names_of_lengths(w, graph, shown)
    results = []
    for name, entry in outputs.items():
        tried = w.tried[entry]
        shape = [
            lengths.get(tried[d], f"{name}_axis{d}") if n is None else n
            for d, n in enumerate(w.shapes[entry])
        ]
        results.append(helper.make_tensor_value_info(name, w.code(w.dtypes[entry]), shape))
    numbers = {name: np.asarray(a, order="C") for name, a in w.initializers.items() if name in used}
    tensors = [onnx.numpy_helper.from_array(a, name) for name, a in numbers.items()]
    if (
        generation() == 1
    ):  # whose importer knows of those tensors alone that are listed among the inputs
        inputs += [
            helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in tensors
        ]
    made = helper.make_graph(nodes, "mxjax", inputs, results, tensors)
    opset = helper.make_opsetid("", w.opset)
    version = helper.find_min_ir_version_for([opset])
    return helper.make_model(
        made,
        opset_imports=[opset],
        ir_version=version,
        producer_name="mxjax",
        producer_version=__version__,
    )


def _needed(nodes: Sequence[Any], outputs: Sequence[str]) -> tuple[list[Any], set[str]]:
    """The nodes that the outputs depend on, and the names that these read."""
    used = set(outputs)
    kept = []
    for node in reversed(nodes):
        if used.intersection(node.output):
            kept.append(node)
            used.update(_read_by(node))
    return kept[::-1], used


def _read_by(node: Any) -> set[str]:
    """The names that a node reads, in graphs inside it too."""
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found.update(*(_read_by(inner) for inner in attribute.g.node))
    return found


def _names_of_lengths(w: Writer, graph: Graph, shown: Sequence[Any]) -> dict[int, str]:
    found: dict[int, str] = {}
    for n, s in zip(graph.inputs, shown, strict=True):
        for tried, name in zip(w.tried[n, 0], s, strict=True):
            if isinstance(name, str):
                found.setdefault(tried, name)
    return found


def _save(onnx: Any, model: Any, path: str, beside: bool) -> None:
    if beside:
        location = f"{os.path.basename(path)}.data"
        target = os.path.join(os.path.dirname(path), location)
        if os.path.exists(target):
            os.remove(target)  # onnx adds to what is there
        onnx.save_model(
            model, path, save_as_external_data=True, all_tensors_to_one_file=True, location=location
        )
        onnx.checker.check_model(path)
        return
    onnx.checker.check_model(model)
    raw = model.SerializeToString()
    atomic.write_whole(path, lambda out: out.write(raw))
