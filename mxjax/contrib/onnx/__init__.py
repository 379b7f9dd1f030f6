"""ONNX under its names of MXNet 1.x: what there is, is in `mxjax.onnx`."""

from mxjax.onnx import (
    export_model,
    get_model_metadata,
    import_model,
    import_to_gluon,
    mx2onnx,
    onnx2mx,
)

#: MXNet's own names of what its functions of the same names call.
export_model_, import_model_ = export_model, import_model
get_model_metadata_, import_to_gluon_ = get_model_metadata, import_to_gluon

__all__ = [
    "export_model",
    "get_model_metadata",
    "import_model",
    "import_to_gluon",
    "mx2onnx",
    "onnx2mx",
]
