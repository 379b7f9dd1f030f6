"""SymbolBlocks inside blocks, cut from other networks, with files of MXNet 1.9.1 and 2.0.0b1.

`tests/record/symbol_blocks.py` made them; here they are made in the same way.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import nn

DATA = Path(__file__).parents[1] / "data" / "symbol_blocks"
RECORDED = {version: json.loads((DATA / f"mxnet{version}.json").read_text()) for version in "12"}
X = np.random.RandomState(0).uniform(-1, 1, (2, 3, 8, 8)).astype("float32")


@pytest.fixture
def mxnet1():
    with mx.config.scope(compat_version="1.9"), mx.name.NameManager():
        yield


def head():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(3, 1), nn.Dense(2))
    return net


class Cut1(gluon.HybridBlock):
    """As features of detectors are made in MXNet 1: two inner results of a network, and a head."""

    def __init__(self, prefix="mobilenet0_"):
        super().__init__()
        net = nn.HybridSequential(prefix=prefix)
        with net.name_scope():
            net.add(
                nn.Conv2D(4, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                nn.Conv2D(5, 3, strides=2, padding=1), nn.BatchNorm(), nn.Dense(7),
            )  # fmt: skip
        net.initialize()
        net(mx.nd.array(X))
        with self.name_scope():
            data = mx.sym.var("data")
            inner = net(data).get_internals()
            outputs = [
                inner[net.prefix + name] for name in ("relu0_fwd_output", "batchnorm1_fwd_output")
            ]
            self.f = gluon.SymbolBlock(outputs, data, params=net.collect_params())
            self.head = head()

    def hybrid_forward(self, F, x):  # noqa: N803
        a, b = self.f(x)
        return F.concat(self.head(b), F.flatten(a).slice_axis(axis=1, begin=9, end=11), dim=1)


class Cut2(gluon.HybridBlock):
    """The same in MXNet 2, from an exported network."""

    def __init__(self):
        super().__init__()
        inner = mx.sym.load(str(DATA / "mxnet2-base-symbol.json")).get_internals()
        outputs = [
            inner[name].as_np_ndarray() for name in inner.list_outputs() if name.endswith("_output")
        ]
        self.f = gluon.SymbolBlock([outputs[2], outputs[4]], mx.sym.var("data").as_np_ndarray())
        self.f.load_parameters(
            str(DATA / "mxnet2-base-0000.params"),
            ignore_extra=True,
            cast_dtype=True,
            dtype_source="saved",
        )
        self.head = head()

    def forward(self, x):
        a, b = self.f(x)
        return mx.np.concatenate([self.head(b), a.reshape(a.shape[0], -1)[:, 9:11]], axis=1)


def check(net, x, recorded, path):
    """Files of MXNet load, in place and hybridized; ours have the same names, and load as well."""
    net.load_parameters(str(path / recorded))
    version = recorded[5]
    want = RECORDED[version]["last"]
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-4, atol=1e-5)
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-4, atol=1e-5)


def test_files_of_mxnet_1(mxnet1, tmp_path):
    x = mx.nd.array(X)
    net = Cut1()
    names = [name.partition("_")[2] for name in RECORDED["1"]["names"]]
    assert [name.partition("_")[2] for name in net.collect_params()] == names
    check(net, x, "mxnet1.params", DATA)
    net.save_parameters(str(tmp_path / "mxnet1.params"))
    assert sorted(mx.nd.load(str(tmp_path / "mxnet1.params"))) == RECORDED["1"]["file"]
    for prefix in ("mobilenet0_", "mobilenet1_"):  # a second network counts on
        check(Cut1(prefix), x, "mxnet1.params", tmp_path)
    other = Cut1()
    other.head.initialize()
    other(x)
    other.load_parameters(str(DATA / "mxnet1.params"))
    features = other.f(x)[0].asnumpy()
    other.f.initialize(mx.init.One(), force_reinit=True)
    assert not np.allclose(other.f(x)[0].asnumpy(), features)
    other.f.load_parameters(
        str(DATA / "mxnet1-f.params")
    )  # MXNet 1.9.1 itself cannot read this file
    np.testing.assert_array_equal(other.f(x)[0].asnumpy(), features)


def test_fine_tuning_as_mxnet_1(mxnet1, tmp_path):
    """Losses of three steps, from parameters of the same numbers; what is exported gives the same."""
    x = mx.nd.array(X)
    net = Cut1()
    fill(net.f, x, lambda name: name.partition("_")[2], mx.nd)
    fill(net.head, net.f(x)[1], lambda name: name.partition("_")[2], mx.nd)
    net.hybridize()
    tuned(net, x, RECORDED["1"])
    net.export(str(tmp_path / "net"))
    made = gluon.SymbolBlock.imports(
        str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
    )
    np.testing.assert_allclose(made(x).asnumpy(), RECORDED["1"]["last"], rtol=1e-4, atol=1e-5)


def test_files_and_fine_tuning_of_mxnet_2(tmp_path):
    x = mx.np.array(X)
    net = Cut2()
    fill(net.head, net.f(x)[1], lambda name: name, mx.np)
    tuned(net, x, RECORDED["2"])
    assert list(net.collect_params()) == RECORDED["2"]["names"]
    net.save_parameters(str(tmp_path / "mxnet2.params"))
    assert sorted(mx.npx.load(str(tmp_path / "mxnet2.params"))) == RECORDED["2"]["file"]
    for path in (DATA, tmp_path):
        check(Cut2(), x, "mxnet2.params", path)
    with mx.config.scope(compat_version="1.9"):  # a network of MXNet 2 in a program of MXNet 1
        check(Cut2(), x, "mxnet2.params", DATA)


def fill(net, x, key, module):
    """The numbers that the recording gave; a network that a part was cut from had a last layer, too."""
    net.initialize(force_reinit=True)
    net(x)
    random = np.random.RandomState(1)
    params = net.collect_params()
    for name in sorted(params, key=key):
        if not name.endswith(("running_mean", "running_var", "gamma")):
            params[name].set_data(
                module.array(random.uniform(-0.3, 0.3, params[name].shape), dtype="float32")
            )


def tuned(net, x, recorded):
    np.testing.assert_allclose(net(x).asnumpy(), recorded["first"], rtol=1e-4, atol=1e-6)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    for want in recorded["losses"]:
        with mx.autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(1)
        np.testing.assert_allclose(loss.asnumpy().reshape(()), want, rtol=1e-4)
    np.testing.assert_allclose(net(x).asnumpy(), recorded["last"], rtol=1e-4, atol=1e-5)


def test_attributes_of_variables_count_in_module_alone():
    # As in MXNet 1.9.1 and 2.0.0b1: the rates are 1, and the initializer that is handed over fills all.
    weight = mx.sym.var("w_weight", init=mx.init.One(), lr_mult=3, wd_mult=0.5, shape=(2, 3))
    out = mx.sym.FullyConnected(
        mx.sym.var("data"), weight, num_hidden=2, no_bias=True
    ) * mx.sym.var("q", init="zeros")
    net = mx.gluon.SymbolBlock(out, mx.sym.var("data"))
    net.initialize(mx.init.Constant(5))
    np.testing.assert_array_equal(net(mx.nd.ones((1, 3))).asnumpy(), [[75, 75]])
    assert [(p.lr_mult, p.wd_mult) for p in net.collect_params().values()] == [(1, 1), (1, 1)]


def test_an_initializer_of_an_operator_is_not_asked_for_its_bias():
    attr = {"__init__": mx.init.Xavier().dumps()}  # which its variables inherit
    out = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, attr=attr)
    net = mx.gluon.SymbolBlock(out, mx.sym.var("data"))
    net.initialize(mx.init.One())
    np.testing.assert_array_equal(net(mx.nd.ones((1, 3))).asnumpy(), [[4, 4]])


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: mx.np.where(mx.np.ones((2,), dtype=bool), x, x * 2), "bool"),
        (lambda x: x + mx.np.zeros((2,), dtype=int), "int64"),
        (lambda x: mx.np.cumsum(x, dtype=float), "float64"),
        (lambda x: mx.npx.one_hot(x, 3, dtype=np.float16), "float16"),
    ],
    ids=["ones", "zeros", "cumsum", "one_hot"],
)
def test_dtypes_that_are_classes_are_written_by_name(make, name, tmp_path):
    class Net(gluon.HybridBlock):
        def forward(self, x):
            return make(x)

    net = Net()
    net.hybridize()
    x = mx.np.array([1.0, 0.0])
    found = net(x)
    net.export(str(tmp_path / "net"))
    nodes = json.loads((tmp_path / "net-symbol.json").read_text())["nodes"]
    assert [n["attrs"]["dtype"] for n in nodes if "dtype" in n.get("attrs", {})] == [name]
    back = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"])(x)
    np.testing.assert_array_equal(back.asnumpy(), found.asnumpy())
    assert back.dtype == found.dtype
