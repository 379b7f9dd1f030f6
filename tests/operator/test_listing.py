"""What operators there are."""

import pytest

import mxjax as mx


def test_names_and_arguments_of_operators():
    names = mx.operator.get_all_registered_operators()
    assert {"Activation", "FullyConnected", "_npi_add", "elemwise_add"} <= set(names)
    grouped = mx.operator.get_all_registered_operators_grouped()
    assert sorted(n for own in grouped.values() for n in own) == names
    assert "_plus" in grouped["elemwise_add"]
    narg, arguments, types = mx.operator.get_operator_arguments("Activation")
    assert (narg, arguments, types[0]) == (2, ["data", "act_type"], "NDArray-or-Symbol")
    assert types[1].startswith(
        "{'log_sigmoid', 'mish', 'relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'}"
    )
    with pytest.raises(mx.MXNetError, match="Convolution"):
        mx.operator.get_operator_arguments("Convolutoin")
