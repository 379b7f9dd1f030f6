"""What is given no device uses the current one: of the setting, or of the `with` around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import mxjax as mx
from mxjax import gluon

HERE = mx.cpu(3)
X = numpy.random.RandomState(0).uniform(-1, 1, (4, 3)).astype("float32")


@pytest.fixture(autouse=True, params=["setting", "with"])
def here(request: Any) -> Iterator[None]:
    with mx.config.scope(engine_device="cpu3") if request.param == "setting" else HERE:
        yield


def _net() -> Any:
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    net.hybridize()
    return net


def _symbol() -> Any:
    return mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")


def test_estimator() -> None:
    net = _net()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    one = gluon.contrib.estimator.Estimator(
        net, gluon.loss.L2Loss(), gluon.metric.MSE(), trainer=trainer
    )
    one.logger.handlers.clear()
    one.fit(
        gluon.data.DataLoader(gluon.data.ArrayDataset(mx.np.array(X), mx.np.array(X[:, :2])), 2),
        epochs=1,
    )
    assert one.device == [HERE] == net.weight.list_device()


def test_files_of_symbols(tmp_path: Path) -> None:
    net = _net()
    want = net(mx.np.array(X))
    net.export(str(tmp_path / "net"))
    read = gluon.SymbolBlock.imports(
        tmp_path / "net-symbol.json", ["data"], tmp_path / "net-0000.params"
    )
    got = read(mx.np.array(X))
    assert got.device == HERE and (got == want).all()


def test_quantized_networks() -> None:
    net = _net()
    data = gluon.data.DataLoader(mx.np.array(X), 2)
    made = mx.contrib.quantization.quantize_net(net, calib_data=data, calib_mode="naive")
    got = made(mx.np.array(X))
    assert got.device == HERE
    numpy.testing.assert_allclose(got.asnumpy(), net(mx.np.array(X)).asnumpy(), atol=0.02)


def test_quantized_networks_on_another_device() -> None:
    other = mx.cpu(1)
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize(device=other)
    data = [mx.np.array(X, device=other)]
    made = mx.contrib.quantization.quantize_net(
        net, calib_data=data, calib_mode="naive", device=other
    )
    assert made(data[0]).device == other


def test_modules() -> None:
    module = mx.mod.Module(_symbol(), label_names=None)
    module.bind([("data", (4, 3))], for_training=False)
    module.init_params()
    module.forward(mx.io.DataBatch([mx.nd.array(X)]))
    assert module.get_outputs()[0].context == HERE
    assert mx.model.FeedForward(_symbol()).ctx == [HERE]
