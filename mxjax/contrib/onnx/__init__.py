"""ONNX under its name of MXNet 1.x: what there is, is in `mxjax.onnx`."""

from mxjax.onnx import export_model

__all__ = ["export_model"]
