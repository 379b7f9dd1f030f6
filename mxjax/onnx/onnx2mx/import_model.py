"""`import_model`: an ONNX file as a symbol and its parameters."""

from __future__ import annotations

from typing import Any

from .import_onnx import GraphProto, loaded

__all__ = ["get_model_metadata", "import_model"]


def import_model(model_file: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Read an ONNX file: (symbol, arguments, auxiliary states).

    The symbol's variables are the graph's inputs and parameters, by their names.

    Args:
      model_file: the path of the ONNX file.

    Returns:
      tuple: the symbol, its arguments, and its auxiliary states.

    Raises:
      OSError: the file cannot be read.
      FormatError: it is damaged or no ONNX file.
      NotImplementedError: an operator has no translation; the message names it and its node.
      ImportError: onnx is not installed.

    >>> import mxjax as mx, tempfile
    >>> file = f"{tempfile.mkdtemp()}/fc.onnx"
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    >>> weights = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.zeros(2)}
    >>> symbol, args, auxs = import_model(mx.onnx.export_model(net, weights, [(1, 3)], onnx_file_path=file))
    >>> symbol.list_arguments()
    ['data', 'fc_weight', 'fc_bias']
    """
    model, opset = loaded(model_file)
    return GraphProto().from_onnx(model.graph, opset)


def get_model_metadata(model_file: Any) -> dict[str, list[Any]]:
    """What an ONNX file takes and gives: ``input_tensor_data`` (name, shape, dtype) and ``output_tensor_data``.

    Args:
      model_file: the path of the ONNX file.

    Returns:
      dict: the names and shapes of inputs and outputs.

    Raises:
      OSError: the file cannot be read.
      FormatError: it is damaged or no ONNX file.
    """
    model, _ = loaded(model_file)
    return GraphProto().get_graph_metadata(model.graph)
