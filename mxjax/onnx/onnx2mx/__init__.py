"""From ONNX to MXNet's symbols and blocks."""

from . import import_model, import_onnx, import_to_gluon

__all__ = ["import_model", "import_onnx", "import_to_gluon"]
