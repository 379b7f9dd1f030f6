"""`import_to_gluon`: an ONNX file as a block."""

from __future__ import annotations

from typing import Any

from .import_onnx import GraphProto, loaded

__all__ = ["import_to_gluon"]


def import_to_gluon(model_file: Any, ctx: Any = None) -> Any:
    """Read an ONNX file as a `gluon.SymbolBlock`, with its parameters on ``ctx`` (a device or a list of them).

    Args:
      model_file: the path of the ONNX file.
      ctx: MXNet 1's name of `device`.

    Returns:
      SymbolBlock: the network.

    Raises:
      OSError: the file cannot be read.
      FormatError: it is damaged or no ONNX file.
      NotImplementedError: an operator has no translation; the message names it and its node.
    """
    model, opset = loaded(model_file)
    return GraphProto().graph_to_gluon(model.graph, ctx, opset)
