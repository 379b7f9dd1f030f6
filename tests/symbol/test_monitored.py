"""What a monitor hears of a normalisation beside its result, as MXNet 1.9.1 tells it."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import nd, sym

X = np.sin(np.arange(96)).astype("float32").reshape(2, 4, 3, 4)

#: Operator, attributes, training or not, and of each kept array its name, shape and first two numbers (1.9.1).
KEPT = [
    ("BatchNorm", {}, True, ("mean", (4,), [0.0194, 0.0126]), ("var", (4,), [1.3952, 1.4191])),
    ("BatchNorm", {"axis": 3, "eps": 0.01}, True, ("mean", (4,), [-0.0317, -0.0044]), ("var", (4,), [1.4256, 1.3656])),
    ("BatchNorm", {"use_global_stats": True}, True, ("mean", (4,), [0.25, 0.25]), ("var", (4,), [0.9995, 0.9995])),
    ("BatchNorm", {"axis": 3, "eps": 0.01}, False, ("mean", (4,), [0.25, 0.25]), ("var", (4,), [0.995, 0.995])),
    ("LayerNorm", {}, True, ("mean", (2, 4, 3, 1), [0.473, -0.3345]), ("std", (2, 4, 3, 1), [0.4062, 0.6234])),
    (
        "LayerNorm", {"axis": 1, "eps": 0.1}, False,
        ("mean", (2, 1, 3, 4), [-0.6085, 0.1214]), ("std", (2, 1, 3, 4), [0.5026, 0.6437]),
    ),
    (
        "GroupNorm", {"num_groups": 2, "eps": 0.1}, True,
        ("mean", (2, 2), [0.0408, 0.0377]), ("std", (2, 2), [0.7658, 0.7692]),
    ),
    ("InstanceNorm", {"eps": 0.1}, True, ("mean", (2, 4), [0.0343, 0.0474]), ("var", (2, 4), [0.4989, 0.4737])),
]  # fmt: skip


def heard(operator, attrs, train):
    run = getattr(sym, operator)(sym.var("x"), name="n", **attrs).simple_bind(mx.cpu(), x=X.shape)
    for array in run.arg_dict.values():
        array[:] = 1
    for name, array in run.aux_dict.items():
        array[:] = 1 if name.endswith("var") else 0.25
    run.arg_dict["x"][:] = X
    found = []

    def tell(name, array):
        found.append((name, nd.NDArray(array, writable=False).asnumpy()))

    run.set_monitor_callback(tell)
    run.forward(is_train=train)
    return found, run


@pytest.mark.parametrize(("operator", "attrs", "train", "first", "second"), KEPT)
def test_what_it_keeps(operator, attrs, train, first, second):
    with mx.config.scope(compat_version="1.9"):
        found, run = heard(operator, attrs, train)
        assert [name for name, _ in found] == [
            b"n_output",
            *(f"n_{w[0]}".encode() for w in (first, second)),
        ]
        for (_, array), (_, shape, numbers) in zip(found[1:], (first, second), strict=True):
            assert array.shape == shape and array.dtype == np.float32
            np.testing.assert_allclose(array.ravel()[:2], numbers, atol=6e-5)
        for name, array in run.aux_dict.items():  # the moving statistics move once
            if train and not attrs.get("use_global_stats"):
                before = 1.0 if name.endswith("var") else 0.25
                axes = tuple(k for k in range(4) if k != attrs.get("axis", 1))
                batch = X.var(axes) if name.endswith("var") else X.mean(axes)
                np.testing.assert_allclose(array.asnumpy(), 0.9 * before + 0.1 * batch, rtol=1e-5)


def test_what_it_gives_is_heard_once():
    with mx.config.scope(compat_version="1.9"):
        found, _ = heard("BatchNorm", {"output_mean_var": True}, True)
    assert [name for name, _ in found] == [b"n_output", b"n_mean", b"n_var"]


def test_operators_of_numpy_on_symbols():
    x = sym.var("x").as_np_ndarray()
    internal = sym.np._internal
    for made in (internal.multiply(x, x), internal._npi_multiply(x, x)):
        assert type(made) is type(x)
        assert made.eval(x=mx.np.array([3.0]))[0].asnumpy().tolist() == [9.0]
    with pytest.raises(AttributeError, match="no_such"):
        _ = internal.no_such
