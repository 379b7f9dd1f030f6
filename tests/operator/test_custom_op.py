"""CustomOpProp and the registry."""

import numpy as np
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


def test_symbols_ask_the_operator_for_dtypes_and_pass_its_options_on():
    @mx.operator.register("typed")
    class Typed(mx.operator.CustomOpProp):
        def __init__(self, k="1"):
            super().__init__()

        def list_arguments(self):
            return ["data", "weight"]

        def list_auxiliary_states(self):
            return ["count"]

        def infer_shape(self, shapes):
            return [shapes[0], shapes[0]], [shapes[0]], [(1,)]

        def infer_type(self, dtypes):
            return [dtypes[0]] * 2, [np.float16], [np.int32]

    net = mx.sym.Custom(mx.sym.Variable("data"), op_type="typed", k=3, name="cu")
    assert net.infer_type(data="float64") == (
        [np.float64, np.float64], [np.float16], [np.int32]
    )  # fmt: skip
    options = {"op_type": "typed", "k": "3"}
    assert net.attr_dict() == {"cu_weight": options, "cu_count": options, "cu": options}
    assert "Custom" in mx.operator.get_all_registered_operators()
