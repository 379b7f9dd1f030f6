"""From MXNet's symbols and networks to ONNX."""

from .exporting import export_model, get_operator_support

__all__ = ["export_model", "get_operator_support"]
