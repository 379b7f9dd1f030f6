"""Networks to ONNX and back: `export_model`, `import_model`, `import_to_gluon`."""

from .mx2onnx import export_model, get_operator_support

__all__ = ["export_model", "get_operator_support"]
