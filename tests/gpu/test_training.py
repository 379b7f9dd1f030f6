"""Networks trained on the card: every way to write the step gives the losses of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxjax as mx
from mxjax import amp, autograd, gluon
from mxjax.gluon import nn, rnn

STEPS = 4
RNG = np.random.RandomState(0)
IMAGES = RNG.uniform(-1, 1, (8, 3, 16, 16)).astype("float32")
WORDS = RNG.randint(0, 20, (12, 4)).astype("float32")
LABELS = RNG.randint(0, 4, 8).astype("float32")


def images() -> Any:
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(16, 3, padding=1, in_channels=3), nn.BatchNorm(in_channels=16), nn.Activation("relu"),
        nn.Conv2D(16, 3, padding=1, groups=16, in_channels=16), nn.MaxPool2D(), nn.Dropout(0.3),
        nn.Conv2DTranspose(8, 2, strides=2, in_channels=16), nn.AvgPool2D(4), nn.LayerNorm(in_channels=4, axis=-1),
        nn.Dense(4, in_units=8 * 16),
    )  # fmt: skip
    return net


class Language(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.rnn = rnn.LSTM(16, num_layers=2, input_size=16, bidirectional=True)
        self.dense = nn.Dense(4, in_units=32)

    def forward(self, x: Any) -> Any:
        return self.dense(self.rnn(self.embedding(x)).mean(axis=0))


NETWORKS: dict[str, tuple[Callable[[], Any], np.ndarray, np.ndarray]] = {
    "images": (images, IMAGES, LABELS),
    "language": (Language, WORDS, LABELS[:4]),
}


def losses(
    name: str, device: Any, hybridize: bool, optimizer: str = "sgd", dtype: str = "float32"
) -> list[float]:
    make, x, y = NETWORKS[name]
    with device:
        mx.random.seed(7)
        np.random.seed(7)
        net = make()
        net.initialize(mx.init.Xavier())
        if dtype != "float32":
            net.cast(dtype)
        if hybridize:
            net.hybridize(static_alloc=True, static_shape=True)
        rates = (
            {"learning_rate": 0.05, "momentum": 0.9}
            if optimizer == "sgd"
            else {"learning_rate": 0.01}
        )
        trainer = gluon.Trainer(
            net.collect_params(), optimizer, {**rates, "multi_precision": dtype != "float32"}
        )
        loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
        data, label = (
            mx.np.array(x).astype(dtype if name == "images" else "float32"),
            mx.np.array(y),
        )
        found = []
        for _ in range(STEPS):
            with autograd.record():
                loss = loss_of(net(data), label)
            loss.backward()
            trainer.step(len(y))
            found.append(loss.mean().astype("float32"))
        assert all(one.device == device for one in found)
        return [float(one) for one in found]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", NETWORKS)
def test_imperative_and_hybridized_give_the_losses_of_the_cpu(
    card: Any, name: str, optimizer: str
) -> None:
    with mx.config.scope(precision_matmul="highest"):
        imperative, hybridized = (losses(name, card, h, optimizer) for h in (False, True))
    with mx.config.scope(engine_cold="interpret"):
        want = losses(name, mx.cpu(), False, optimizer)
    np.testing.assert_allclose(imperative, want, rtol=1e-3)
    np.testing.assert_allclose(hybridized, want, rtol=1e-3)


@pytest.mark.parametrize("name", NETWORKS)
def test_products_in_tf32_train_as_well(card: Any, measured: None, name: str) -> None:
    with mx.config.scope(engine_cold="interpret"):
        want = losses(name, mx.cpu(), False)
    np.testing.assert_allclose(losses(name, card, True), want, rtol=2e-2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_networks_in_16_bits(card: Any, dtype: str) -> None:
    with mx.config.scope(engine_cold="interpret"):
        want = losses("images", mx.cpu(), False)
    np.testing.assert_allclose(losses("images", card, True, dtype=dtype), want, rtol=0.1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("hybridize", [False, True])
def test_mixed_precision(card: Any, dtype: str, hybridize: bool) -> None:
    want = losses("images", card, True)
    amp.init(dtype)
    try:
        make, x, y = NETWORKS["images"]
        mx.random.seed(7)
        np.random.seed(7)
        net = make()
        net.initialize(mx.init.Xavier())
        if hybridize:
            net.hybridize()
        trainer = gluon.Trainer(
            net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9}
        )
        amp.init_trainer(trainer)
        scaler = trainer._amp_loss_scaler  # of 65536 the first steps overflow, and are left out
        scaler.load_state_dict({**scaler.state_dict(), "scale": 128.0, "next": 128.0})
        loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
        found = []
        for _ in range(STEPS):
            with autograd.record():
                loss = loss_of(net(mx.np.array(x)), mx.np.array(y))
                with amp.scale_loss(loss, trainer) as scaled:
                    autograd.backward(scaled)
            trainer.step(len(y))
            found.append(float(loss.mean()))
        assert str(net[9].weight.data().dtype) == "float32"
    finally:
        amp.amp.end()
    np.testing.assert_allclose(found, want, rtol=0.1)


def symbol() -> Any:
    data = mx.sym.var("data")
    conv = mx.sym.Convolution(data, num_filter=8, kernel=(3, 3), name="conv")
    norm = mx.sym.relu(mx.sym.BatchNorm(conv, name="norm"))
    pool = mx.sym.Pooling(norm, kernel=(2, 2), stride=(2, 2), pool_type="max")
    return mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(pool, num_hidden=4, name="fc"), name="softmax"
    )


def test_gradients_stay_where_they_are(real_card: Any) -> None:
    """CUDA graphs hold addresses; gradients of a step are written over those of the step before."""
    net = mx.gluon.nn.Dense(64, in_units=64)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam")
    x, places = mx.np.ones((8, 64)), set()
    with mx.config.scope(engine_cold="compile"):
        for _ in range(4):
            with mx.autograd.record():
                loss = (net(x) ** 2).mean()
            loss.backward()
            trainer.step(1)
            mx.waitall()
            # `.jax` gives an array away, which is written over no more: the address alone is asked for.
            places.add(net.weight.grad()._v.arr.unsafe_buffer_pointer())
    assert len(places) == 1


def test_module(card: Any, tmp_path: Path) -> None:
    def trained(device: Any) -> tuple[dict[str, np.ndarray], Any]:
        mx.random.seed(1)
        module = mx.mod.Module(symbol(), context=device)
        data = mx.io.NDArrayIter(IMAGES, LABELS, batch_size=4, label_name="softmax_label")
        rates = {"learning_rate": 0.1}
        module.fit(
            data, num_epoch=2, initializer=mx.init.Xavier(), optimizer_params=rates, kvstore=None
        )
        args, aux = module.get_params()
        assert module.get_outputs()[0].context == device
        return {n: a.asnumpy() for n, a in {**args, **aux}.items()}, module

    with mx.config.scope(precision_matmul="highest"):
        ours, module = trained(card)
    theirs, _ = trained(mx.cpu())
    for name, numbers in theirs.items():
        np.testing.assert_allclose(ours[name], numbers, rtol=5e-3, atol=1e-4, err_msg=name)
    module.save_checkpoint(str(tmp_path / "net"), 1)
    again = mx.mod.Module.load(str(tmp_path / "net"), 1, context=mx.cpu(), label_names=None)
    again.bind([("data", (4, 3, 16, 16))], for_training=False)
    again.forward(mx.io.DataBatch([mx.nd.array(IMAGES[:4], ctx=mx.cpu())]), is_train=False)
    assert again.get_outputs()[0].shape == (4, 4)


def test_executors(card: Any) -> None:
    x, w = mx.sym.var("x"), mx.sym.var("w")
    net = mx.sym.tanh(mx.sym.dot(x, w))
    numbers = {"x": RNG.randn(3, 4).astype("float32"), "w": RNG.randn(4, 2).astype("float32")}
    with mx.config.scope(precision_matmul="highest"):
        bound = net.bind(
            card,
            {n: mx.nd.array(a) for n, a in numbers.items()},
            args_grad={n: mx.nd.zeros(a.shape) for n, a in numbers.items()},
        )
        (out,) = bound.forward(is_train=True)
        bound.backward(mx.nd.ones((3, 2)))
    want = np.tanh(numbers["x"] @ numbers["w"])
    np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        bound.grad_dict["w"].asnumpy(), numbers["x"].T @ (1 - want**2), rtol=1e-4, atol=1e-5
    )
    assert out.context == bound.grad_dict["w"].context == card


def test_parameters_and_states_travel_by_files(card: Any, tmp_path: Path) -> None:
    def made(device: Any) -> tuple[Any, Any]:
        net = nn.Dense(3, in_units=4)
        net.initialize(mx.init.Uniform(), device=device)
        return net, gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})

    def step(net: Any, trainer: Any, device: Any) -> float:
        with autograd.record():
            loss = (net(mx.np.ones((2, 4), device=device)) ** 2).mean()
        loss.backward()
        trainer.step(1)
        return float(loss)

    net, trainer = made(card)
    step(net, trainer, card)
    net.save_parameters(str(tmp_path / "net.params"))
    trainer.save_states(str(tmp_path / "net.states"))
    want = [step(net, trainer, card) for _ in range(3)]
    for device in (mx.cpu(), card):
        again, other = made(device)
        again.load_parameters(str(tmp_path / "net.params"), device=device)
        other.load_states(str(tmp_path / "net.states"))
        assert again.weight.data().device == device
        np.testing.assert_allclose([step(again, other, device) for _ in range(3)], want, rtol=1e-3)
    arrays = {"a": mx.nd.ones((2,)), "b": mx.nd.arange(3)}
    mx.nd.save(str(tmp_path / "some.nd"), arrays)
    read = mx.nd.load(str(tmp_path / "some.nd"))
    assert (
        read["b"].asnumpy().tolist() == [0, 1, 2] and read["b"].as_in_context(card).context == card
    )
    net.reset_device(mx.cpu())
    assert net.weight.data().device == mx.cpu()


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_reach_the_card(card: Any, workers: int) -> None:
    numbers = np.arange(64 * 5, dtype="float32").reshape(64, 5)
    data = gluon.data.ArrayDataset(numbers, np.arange(64))
    # The workers' functions are NumPy's; what they give lies in pinned memory, or is on the card already.
    loader = gluon.data.DataLoader(data, 16, num_workers=workers, pin_memory=True)
    total = mx.np.zeros(5)
    for x, y in loader:
        there, labels = x.to_device(card), y.to_device(card)
        assert there.device == card and labels.shape == (16,)
        total += there.sum(axis=0)
    np.testing.assert_allclose(total.asnumpy(), numbers.sum(0), rtol=1e-6)
    halves = gluon.utils.split_and_load(mx.np.array(numbers, device=mx.cpu()), [card, card])
    assert [h.device for h in halves] == [card, card] and halves[1].shape == (32, 5)


def test_quantized_inference(card: Any) -> None:
    net = images()
    net.initialize(mx.init.Xavier())
    x = mx.np.array(IMAGES)
    want = net(x).asnumpy()
    made = mx.contrib.quantization.quantize_net(
        net, calib_data=gluon.data.DataLoader(x, 4), calib_mode="naive", device=card
    )
    got = made(x)
    assert got.device == card
    assert np.abs(got.asnumpy() - want).max() < 0.1 * np.abs(want).max()


def test_networks_by_way_of_onnx(card: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="an extra: mxjax[onnx]")
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, in_channels=3), nn.BatchNorm(in_channels=4), nn.Activation("relu"))
    net.add(nn.Dense(3, in_units=784))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = mx.np.array(IMAGES)
    with mx.config.scope(precision_matmul="highest"):
        want = net(x).asnumpy()
        mx.onnx.export_model(net, None, [x.shape], [np.float32], str(tmp_path / "net.onnx"))
        block = mx.onnx.import_to_gluon(str(tmp_path / "net.onnx"), card)
        got = block(x)
    assert got.device == card
    np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-4, atol=1e-5)
