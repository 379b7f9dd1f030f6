"""CustomOpProp and the registry."""

import pytest

import mxjax as mx


def test_storage_types_of_custom_operators():
    prop = mx.operator.CustomOpProp()
    assert prop.infer_storage_type(["default"]) == (["default"], ["default"], [])
    with pytest.raises(NotImplementedError, match="csr"):
        prop.infer_storage_type(["csr"])
    assert prop.infer_storage_type_backward(["default"], ["default"], ["default"], ["default"], [])[
        3
    ] == ["default"]
