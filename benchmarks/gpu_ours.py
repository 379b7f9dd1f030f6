"""The works of `make bench-gpu` in Gluon, as MXNet's users write them.

    python benchmarks/gpu_ours.py [--tiny] [--kernels] [PICTURES]

PICTURES: a record file without its ending. A work's name with ``_imperative`` behind it is not hybridized.
"""

from __future__ import annotations

import sys
from typing import Any

import gpu_kernels
import jax
import numpy
from gpu_work import (
    FULL,
    TINY,
    WORKS,
    Made,
    Work,
    cold,
    data,
    expression,
    predicted,
    serve,
    stages,
    weights,
)

import mxjax as mx
from mxjax import autograd, gluon, np, npx
from mxjax.gluon import nn

SIZE = TINY if "--tiny" in sys.argv else FULL
DEVICE = mx.gpu(0) if mx.device.num_gpus() else mx.cpu(0)
MEAN, STD = (123.68, 116.78, 103.94), (58.4, 57.1, 57.4)


def lenet(work: Work) -> Any:
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(50, 5, activation="relu"),
        nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(512, activation="relu"), nn.Dense(10),
    )  # fmt: skip
    return net


class LSTM(gluon.HybridBlock):
    def __init__(self, work: Work):
        super().__init__()
        n = SIZE.lstm_units
        self.embedding = nn.Embedding(SIZE.lstm_words, n)
        self.rnn = gluon.rnn.LSTM(n, 2, input_size=n)
        self.out = nn.Dense(SIZE.lstm_words, flatten=False, in_units=n)

    def forward(self, x: Any) -> Any:
        return self.out(self.rnn(self.embedding(x)))


class Layer(gluon.HybridBlock):
    """A layer of BERT."""

    def __init__(self) -> None:
        super().__init__()
        n = SIZE.units
        self.into = nn.Dense(3 * n, flatten=False, in_units=n)
        self.out = nn.Dense(n, flatten=False, in_units=n)
        self.norm = nn.LayerNorm(in_channels=n)
        self.wide = nn.Dense(4 * n, flatten=False, in_units=n)
        self.narrow = nn.Dense(n, flatten=False, in_units=4 * n)
        self.last = nn.LayerNorm(in_channels=n)

    def forward(self, x: Any) -> Any:
        n, length, units = x.shape
        heads, width = SIZE.heads, units // SIZE.heads

        def split(a: Any) -> Any:
            """(batch * heads, length, width)"""
            return (
                a.reshape(n, length, heads, width).transpose(0, 2, 1, 3).reshape(-1, length, width)
            )

        q, k, v = (split(a) for a in np.split(self.into(x), 3, axis=-1))
        scores = npx.softmax(npx.batch_dot(q, k, transpose_b=True) / width**0.5, axis=-1)
        read = (
            npx.batch_dot(scores, v)
            .reshape(n, heads, length, width)
            .transpose(0, 2, 1, 3)
            .reshape(n, length, -1)
        )
        x = self.norm(x + self.out(read))
        return self.last(x + self.narrow(npx.leaky_relu(self.wide(x), act_type="gelu")))


class BERT(gluon.HybridBlock):
    def __init__(self, work: Work):
        super().__init__()
        n = SIZE.units
        self.words = nn.Embedding(SIZE.words, n)
        self.places = nn.Embedding(max(SIZE.lengths), n)
        self.norm = nn.LayerNorm(in_channels=n)
        self.layers = nn.HybridSequential()
        self.layers.add(*(Layer() for _ in range(SIZE.layers)))
        self.head = nn.Dense(n, flatten=False, in_units=n)
        self.head_norm = nn.LayerNorm(in_channels=n)
        self.out = nn.Dense(SIZE.words, flatten=False, in_units=n)

    def forward(self, tokens: Any) -> Any:
        length = tokens.shape[1]
        x = self.layers(
            self.norm(self.words(tokens) + self.places.weight.data(tokens.device)[:length])
        )
        head = self.head_norm(npx.leaky_relu(self.head(x[:, : predicted(length)]), act_type="gelu"))
        return self.out(head).astype("float32")


def normed(channels: int, k: int, stride: int, relu: bool = True) -> list[Any]:
    conv = nn.Conv2D(channels, k, stride, k // 2, use_bias=False)
    return [conv, nn.BatchNorm(epsilon=1e-5), *([nn.Activation("relu")] if relu else [])]


class Bottleneck(gluon.HybridBlock):
    def __init__(self, before: int, inner: int, stride: int):
        super().__init__()
        self.body, self.side = nn.HybridSequential(), None
        parts = (normed(inner, 1, 1), normed(inner, 3, stride), normed(4 * inner, 1, 1, False))
        self.body.add(*(layer for part in parts for layer in part))
        if stride == 2 or before != 4 * inner:
            self.side = nn.HybridSequential()
            self.side.add(*normed(4 * inner, 1, stride, False))

    def forward(self, x: Any) -> Any:
        return npx.relu(self.body(x) + (x if self.side is None else self.side(x)))


class ResNet(gluon.HybridBlock):
    """ResNet-50, the stride in the 3x3 convolutions."""

    def __init__(self, work: Work):
        super().__init__()
        self.dtype = "bfloat16" if work.bf16 else "float32"
        self.parts = nn.HybridSequential()
        self.parts.add(*normed(SIZE.width, 7, 2), nn.MaxPool2D(3, 2, 1))
        self.parts.add(*(Bottleneck(*stage) for stage in stages(SIZE)))
        self.parts.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(SIZE.classes))

    def forward(self, x: Any) -> Any:
        return self.parts(x.astype(self.dtype)).astype("float32")


class OfPictures(gluon.HybridBlock):
    """A network of pictures as a loader gives them: bytes, their channels second."""

    def __init__(self, net: Any):
        super().__init__()
        self.net = net

    def forward(self, x: Any) -> Any:
        mean, std = (np.array(a, device=x.device).reshape(1, 3, 1, 1) for a in (MEAN, STD))
        return self.net((x.astype("float32") - mean) / std)


NETS: dict[str, Any] = {"lenet": lenet, "lstm": LSTM, "bert": BERT, "resnet": ResNet}
RULES: dict[str, Any] = {
    "adam": ("adam", {}),
    "sgd": ("sgd", {}),
    "momentum": ("sgd", {"momentum": 0.9}),
}


def trained(net: Any) -> list[Any]:
    """The parameters that are trained, in the order in which they were made."""
    return [p for p in net.collect_params().values() if p.grad_req != "null"]


def begun(work: Work, x: Any) -> Any:
    """The network with the weights that all begin with."""
    net = NETS[work.net](work)
    net.initialize(mx.init.Xavier(), device=DEVICE)
    if work.bf16:
        net.cast("bfloat16")
    with autograd.pause():
        net(x)  # shapes become known
    arrays = weights(work, SIZE)
    if work.net == "lstm":  # the layers' arrays are one vector, biases last
        arrays[1:9] = [
            numpy.concatenate([a.ravel() for k in (2, 1) for a in arrays[1:9] if a.ndim == k])
        ]
    for p, a in zip(trained(net), arrays, strict=True):
        if p.shape != a.shape:
            raise ValueError(f"{p.name} has shape {p.shape}, the weights {a.shape}")
        p.set_data(np.array(a).astype(p.dtype))
    npx.waitall()  # none of this is part of the first step
    return net


def made(name: str) -> Made:
    hybrid = not name.endswith("_imperative")
    work = WORKS[name.removesuffix("_imperative")]
    x, y = (np.array(a, dtype=a.dtype, device=DEVICE) for a in data(work, SIZE))
    net = begun(work, x)
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    fed = None
    if name == "pipeline":
        net = OfPictures(net)
        fed = records()
    if hybrid:
        net.hybridize(static_alloc=True, static_shape=True)
        loss_fn.hybridize()
    rule, more = RULES[work.rule]
    given = {"learning_rate": work.rate, "multi_precision": work.bf16, **more}
    trainer = gluon.Trainer(net.collect_params(), rule, given)
    classes = SIZE.lstm_words if work.net == "lstm" else SIZE.words if work.net == "bert" else 0

    def step(x: Any = x, y: Any = y) -> Any:
        with autograd.record():
            out = net(x)
            if classes:
                out, y = out.reshape(-1, classes), y.reshape(-1)
            loss = loss_fn(out, y).mean()
        loss.backward()
        trainer.step(1)
        return loss

    if fed is not None:
        return pipeline(step, fed)
    listed: list[Any] = []
    mx.core.hooks.compile_listeners.append(
        lambda name, device, compiled, options: listed.append(compiled)
    )

    def rest() -> dict[str, Any]:
        cost = mx.memonger.measure(step, warmup=0)
        largest = (
            max(listed, key=lambda c: len(c.as_text()), default=None)
            if "--kernels" in sys.argv
            else None
        )
        mx.core.hooks.compile_listeners.pop()
        if largest is not None:
            gpu_kernels.text(f"ours_{name}", largest)
        return {"bytes": cost.peak_bytes, **gpu_kernels.kernels(step, mx.npx.waitall)}

    return Made(step, mx.npx.waitall, rest)


def records() -> Any:
    """Pictures out of a record file: decoded, cut at random, mirrored."""
    return mx.io.ImageRecordUInt8Iter(
        path_imgrec=sys.argv[-1] + ".rec", data_shape=(3, SIZE.side, SIZE.side), batch_size=SIZE.images,
        rand_crop=True, rand_mirror=True, shuffle=False, preprocess_threads=SIZE.workers, prefetch_buffer=4,
        last_batch="discard",
    )  # fmt: skip


def pipeline(step: Any, fed: Any) -> Made:
    def batches() -> Any:
        fed.reset()
        for batch in fed:
            x, y = (a.as_np_ndarray().to_device(DEVICE) for a in (batch.data[0], batch.label[0]))
            yield x, y.astype("int32")

    def epoch() -> int:
        n = 0
        for x, y in batches():
            step(x, y)
            n += 1
        return n

    x, y = next(batches())
    return Made(lambda: step(x, y), mx.npx.waitall, many=epoch)


def prepare(name: str) -> Any:
    if name == "cold":

        def run(shape: Any) -> float:
            a, b = np.ones(shape, device=DEVICE), np.full(shape, 2.0, device=DEVICE)
            return float(expression(a, b, np.tanh))

        with mx.config.scope(engine_cold="auto"):  # what is new is not compiled at once for users
            return cold(run)
    return made(name)


if __name__ == "__main__":
    npx.set_np()
    with DEVICE:
        device = jax.devices()[0].device_kind
        serve(
            {"framework": f"mxjax {mx.__version__}, jax {jax.__version__}", "device": device},
            prepare,
        )
