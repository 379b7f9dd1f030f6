"""Networks to ONNX and back: `export_model`, `import_model`, `import_to_gluon`."""

from . import mx2onnx, onnx2mx
from .mx2onnx import export_model, get_operator_support
from .onnx2mx.import_model import get_model_metadata, import_model
from .onnx2mx.import_to_gluon import import_to_gluon

__all__ = [
    "export_model", "get_model_metadata", "get_operator_support", "import_model", "import_to_gluon", "mx2onnx",
    "onnx2mx",
]  # fmt: skip
