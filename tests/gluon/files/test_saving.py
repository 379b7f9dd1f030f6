"""`Block.save` and `Block.load`, hooks on operators, and what blocks take of both generations."""

from __future__ import annotations

import json

import numpy as onp
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.errors import FormatError
from mxjax.gluon import nn


class Pair(gluon.Block):
    """Children called as MXNet 2 holds them."""

    def __init__(self, *blocks):
        super().__init__()
        for block in blocks:
            self.register_child(block)

    def forward(self, x):
        for child in self._children.values():
            x = child()(x)
        return x


def made(**options):
    return Pair(Pair(nn.Dense(3, **options)), nn.Dense(2))


def test_a_network_comes_back(tmp_path):
    net, x = made(), mx.np.ones((1, 4))
    net.initialize()
    net.hybridize()
    y = net(x)
    net.save(str(tmp_path / "net"))
    again = made()
    again.load(str(tmp_path / "net"))
    assert onp.array_equal(again(x).asnumpy(), y.asnumpy())
    assert list(again._children.values())[1]._active
    with pytest.raises(ValueError, match="it has 2 children, not 1"):
        Pair(nn.Dense(1)).load(str(tmp_path / "net"))
    with pytest.raises(ValueError, match="it has a Dense"):
        Pair(Pair(nn.Dense(3)), nn.Flatten()).load(str(tmp_path / "net"))


def test_files_of_mxnet(tmp_path):
    """The forms that 2.0.0b1 and 1.9.1 write, shortened."""
    net, path = Pair(nn.Dense(2, in_units=1)), tmp_path / "net-model.json"
    net.initialize()
    net.save_parameters(str(tmp_path / "net-model.params"))
    for form in (
        {
            "pair0": {
                "params": {},
                "dense1": {"hybridized": True, "symbol": "{}", "params": {"weight": "x"}},
            }
        },
        {
            "pair0": {
                "orig_name": "p",
                "children": {"dense0": "0"},
                "dense1": {"hybridized": True, "children": {}},
            }
        },
    ):
        path.write_text(json.dumps(form))
        into = Pair(nn.Dense(2, in_units=1))
        into.load(str(tmp_path / "net"))
        assert next(iter(into._children.values()))._active
    for text, error in (("{", FormatError), ("[]", FormatError), ('{"pair0": {}}', ValueError)):
        path.write_text(text)
        with pytest.raises(error):
            net.load(str(tmp_path / "net"))


@pytest.mark.parametrize("hybridize", [False, True])
def test_hooks_on_operators(hybridize):
    net = nn.HybridSequential()
    net.add(nn.Dense(2, activation="relu"), nn.Flatten())
    net.initialize()
    net.hybridize(hybridize)
    heard = []
    net.register_op_hook(lambda name, kind, x: heard.append((name, kind, x)), monitor_all=True)
    for _ in range(2):
        del heard[:]
        y = net(mx.np.ones((1, 3)))
    titles = [("_".join(name.split("_")[2:]), kind) for name, kind, _ in heard]
    assert [title for title, _ in titles][1:4] == ["weight", "bias", "output"]
    assert titles[3][1] == "FullyConnected" and titles[5] == ("output", "Activation")
    assert type(heard[0][2]) is mx.nd.NDArray and onp.array_equal(
        heard[-1][2].asnumpy(), y.asnumpy()
    )
    assert net._active is hybridize and net[0]._active is hybridize


def test_hooks_say_the_names_of_mxnet_1():
    with mx.name.NameManager(), mx.config.scope(compat_version="1.9"):
        net = nn.HybridSequential()
        net.add(nn.Dense(2, activation="relu", in_units=3), nn.Flatten())
        net.initialize()
        heard = []
        net.register_op_hook(lambda name, kind, x: heard.append(name))
        net(mx.nd.ones((1, 3)))
    assert heard == [b"dense0_fwd_output", b"dense0_relu_fwd_output", b"flatten0_flatten0_output"]


@pytest.mark.parametrize(
    ("layer", "titles"),
    [
        (nn.Dense(2), "data weight bias"), (nn.Activation("relu"), "input0"), (nn.AvgPool1D(), "data"),
        (nn.BatchNorm(), "data gamma beta moving_mean moving_var"), (nn.PReLU(), "data gamma"),
        (nn.Flatten(), "input0"), (nn.Dropout(0.5), "data"), (nn.HybridLambda(lambda x: mx.np.exp(x)), "x"),
        (nn.HybridLambda(lambda x: x + x), "lhs rhs"),
        (nn.HybridLambda(lambda x: mx.np.concatenate([x, x])), "arg0 arg1"),
    ],
    ids=lambda x: None if isinstance(x, str) else type(x).__name__,
)  # fmt: skip
def test_a_hook_hears_the_inputs_names_of_mxnets_registry(layer, titles):
    # What MXNet 2.0.0b1 calls them.
    heard = []
    layer.initialize()
    layer.register_op_hook(
        lambda name, kind, x: heard.append(name.split("_", 2)[-1]), monitor_all=True
    )
    layer(mx.np.ones((2, 3, 4)))
    assert heard[:-1] == titles.split()


def test_optimize_for():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.optimize_for(mx.np.ones((1, 3)))
    assert net._active and len(net._graphs) == 1
    net.optimize_for(mx.np.ones((1, 3)), backend="ONEDNN", static_shape=True)
    assert len(net._graphs) == 1
    with pytest.raises(ValueError, match="no such backend: 'tensorflow'"):
        net.optimize_for(mx.np.ones((1, 3)), backend="tensorflow")
    x = mx.np.ones((1, 3))
    before = net(x).asnumpy()
    net.optimize_for(
        x, mx.np.ones((2,)), backend="ONEDNN"
    )  # as MXNet's users hand it weights besides
    onp.testing.assert_array_equal(net(x).asnumpy(), before)
    with pytest.raises(TypeError):
        net.optimize_for(x, x, clear=True)


def test_what_mxnet_refuses():
    with pytest.raises(ValueError, match="one NDArray"):
        nn.Dense(2)(None)
    with pytest.raises(AssertionError, match="invalid stype"):
        gluon.Parameter("w", shape=(1,), stype="no")
    p = gluon.Parameter("w", shape=(1,))
    with pytest.raises(RuntimeError, match="Please use data"):
        p.row_sparse_data(mx.nd.ones((1,)))
    with pytest.raises(RuntimeError, match="Please use list_data"):
        p.list_row_sparse_data(mx.nd.ones((1,)))
    layer = nn.LayerNorm(in_channels=10)
    layer.initialize()
    with pytest.raises(AssertionError, match="incompatible"):
        layer(mx.np.ones((2, 11)))
    net = nn.Sequential()
    net.add(nn.Dense(1))
    with pytest.warns(UserWarning, match="HybridSequential for the best performance"):
        net.hybridize()


def test_modules_of_mxnet():
    from mxjax.gluon.block import HybridBlock, SymbolBlock
    from mxjax.gluon.nn.basic_layers import Dense
    from mxjax.gluon.nn.conv_layers import Conv2D
    from mxjax.gluon.parameter import ParameterDict

    assert (
        HybridBlock is gluon.HybridBlock
        and SymbolBlock is nn.SymbolBlock
        and ParameterDict is gluon.ParameterDict
    )
    assert Dense is nn.Dense and Conv2D is nn.Conv2D and mx.nd.NDArray in gluon.tensor_types
