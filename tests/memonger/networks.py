"""Networks whose memory is measured, for benchmarks and tests.

Each comes with a batch; weights and batches are the same in every run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn


class Residual(nn.HybridBlock):
    """Two 3x3 convolutions with BatchNorm and relu, and a way around them."""

    def __init__(self, channels: int):
        super().__init__()
        for k in range(2):
            conv = nn.Conv2D(channels, 3, padding=1, in_channels=channels, use_bias=False)
            setattr(self, f"conv{k}", conv)
            setattr(self, f"bn{k}", nn.BatchNorm(in_channels=channels))

    def forward(self, x: Any) -> Any:
        y = mx.npx.relu(self.bn0(self.conv0(x)))
        return mx.npx.relu(x + self.bn1(self.conv1(y)))


def residual_network(blocks: int, channels: int = 16, dropout: float = 0.0) -> nn.HybridSequential:
    """A stem, residual blocks, and a head of ten classes."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(channels, 3, padding=1, in_channels=3))
    for _ in range(blocks):
        net.add(Residual(channels))
    net.add(nn.GlobalAvgPool2D())
    if dropout:
        net.add(nn.Dropout(dropout))
    net.add(nn.Dense(10, in_units=channels))
    mx.random.seed(3)
    net.initialize(mx.init.Xavier())
    return net


def batch(size: int, side: int) -> tuple[Any, Any]:
    """Images and labels for it."""
    rng = np.random.RandomState(0)
    x = rng.randn(size, 3, side, side).astype("float32")
    return mx.np.array(x), mx.np.array(rng.randint(0, 10, size).astype("float32"))


class Perceptron(nn.HybridBlock):
    """Two dense layers with GELU between, and a way around them."""

    def __init__(self, width: int):
        super().__init__()
        self.up = nn.Dense(4 * width, in_units=width, flatten=False)
        self.act = nn.GELU(approximation="tanh")
        self.down = nn.Dense(width, in_units=4 * width, flatten=False)

    def forward(self, x: Any) -> Any:
        return x + self.down(self.act(self.up(x)))


def perceptrons(blocks: int, width: int, init: Any = None) -> nn.HybridSequential:
    """A chain of them; all weights are the same unless an initializer is given."""
    net = nn.HybridSequential()
    net.add(*[Perceptron(width) for _ in range(blocks)])
    net.initialize(init or mx.init.Constant(0.01))
    return net


class Training:
    """Steps of SGD on one batch."""

    def __init__(self, net: nn.HybridSequential, x: Any, y: Any, loss: Any = None, **how: Any):
        self.net, self.x, self.y = net, x, y
        self.loss = loss or gluon.loss.SoftmaxCrossEntropyLoss()
        how = how or {"learning_rate": 0.01, "momentum": 0.9}
        self.trainer = gluon.Trainer(net.collect_params(), "sgd", how)
        self.losses: list[Any] = []

    def step(self) -> Any:
        with autograd.record():
            loss = self.loss(self.net(self.x), self.y)
        loss.backward()
        self.trainer.step(self.y.shape[0])
        return loss

    def run(self, steps: int) -> list[np.ndarray]:
        """The losses, then all parameters and moving statistics, after so many steps."""
        for _ in range(steps):
            self.losses.append(self.step())
        params = self.net.collect_params().values()
        return [a.asnumpy() for a in self.losses] + [p.data().asnumpy() for p in params]


class Attention(nn.HybridBlock):
    """Multi-head attention: queries from x, keys and values from memory (x itself by default)."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self._heads = heads
        for name in ("query", "key", "value", "out"):
            setattr(self, name, nn.Dense(width, flatten=False, in_units=width))

    def forward(self, x: Any, memory: Any = None) -> Any:
        memory = x if memory is None else memory
        q, k, v = (
            self._split(self.query(x)),
            self._split(self.key(memory)),
            self._split(self.value(memory)),
        )
        scores = mx.np.matmul(q, k.transpose(0, 1, 3, 2)) * (q.shape[-1] ** -0.5)
        mixed = mx.np.matmul(mx.npx.softmax(scores, axis=-1), v)
        b, h, t, d = mixed.shape
        return self.out(mixed.transpose(0, 2, 1, 3).reshape(b, t, h * d))

    def _split(self, x: Any) -> Any:
        b, t, d = x.shape
        return x.reshape(b, t, self._heads, d // self._heads).transpose(0, 2, 1, 3)


class FeedForward(nn.HybridBlock):
    def __init__(self, width: int):
        super().__init__()
        self.wide = nn.Dense(4 * width, flatten=False, in_units=width)
        self.narrow = nn.Dense(width, flatten=False, in_units=4 * width)

    def forward(self, x: Any) -> Any:
        return self.narrow(mx.npx.leaky_relu(self.wide(x), act_type="gelu"))


class Encoder(nn.HybridBlock):
    """One block of a transformer, normalised first."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(in_channels=width), nn.LayerNorm(in_channels=width)
        self.attention, self.feed = Attention(width, heads), FeedForward(width)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Decoder(nn.HybridBlock):
    """An encoder's block that also attends to the memory."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        for k in range(3):
            setattr(self, f"norm{k}", nn.LayerNorm(in_channels=width))
        self.own, self.cross = Attention(width, heads), Attention(width, heads)
        self.feed = FeedForward(width)

    def forward(self, x: Any, memory: Any) -> Any:
        x = x + self.own(self.norm0(x))
        x = x + self.cross(self.norm1(x), memory)
        return x + self.feed(self.norm2(x))


class Translator(nn.HybridBlock):
    """Encoders, then decoders that all look at what the last encoder gave."""

    def __init__(self, encoders: int, decoders: int, width: int, heads: int):
        super().__init__()
        self.encoders, self.decoders = nn.HybridSequential(), nn.HybridSequential()
        for _ in range(encoders):
            self.encoders.add(Encoder(width, heads))
        for _ in range(decoders):
            self.decoders.add(Decoder(width, heads))

    def forward(self, source: Any, target: Any) -> Any:
        memory = self.encoders(source)
        for decoder in self.decoders._children.values():
            target = decoder(target, memory)
        return target


class Bottleneck(nn.HybridBlock):
    """1x1, 3x3 and 1x1 convolutions with BatchNorm, and a way around them."""

    def __init__(self, narrow: int, stride: int, channels: int):
        super().__init__()
        self.body, self.around = nn.HybridSequential(), nn.HybridSequential()
        wide = 4 * narrow
        self.body.add(*_conv(narrow, 1, 1, channels), nn.Activation("relu"))
        self.body.add(*_conv(narrow, 3, stride, narrow), nn.Activation("relu"))
        self.body.add(*_conv(wide, 1, 1, narrow))
        if stride > 1 or channels != wide:
            self.around.add(*_conv(wide, 1, stride, channels))

    def forward(self, x: Any) -> Any:
        y = self.body(x)
        return mx.npx.relu(y + (self.around(x) if len(self.around) else x))


def _conv(channels: int, kernel: int, stride: int, of: int) -> tuple[Any, Any]:
    conv = nn.Conv2D(channels, kernel, stride, (kernel - 1) // 2, in_channels=of, use_bias=False)
    return conv, nn.BatchNorm(in_channels=channels)


def _ready(net: Any, init: Any = None) -> Any:
    mx.random.seed(3)
    net.initialize(init or mx.init.Xavier())
    return net


def _normal(*shape: int) -> Any:
    return mx.np.array(np.random.RandomState(0).randn(*shape).astype("float32"))


def transformer(
    blocks: int = 24,
    width: int = 256,
    heads: int = 4,
    length: int = 128,
    batch: int = 4,
    init: Any = None,
) -> tuple[Any, tuple[Any, ...]]:
    """A stack of encoders on an embedded sequence."""
    net = nn.HybridSequential()
    for _ in range(blocks):
        net.add(Encoder(width, heads))
    return _ready(net, init), (_normal(batch, length, width),)


def resnet(
    layers: tuple[int, ...] = (3, 4, 6, 3),
    side: int = 64,
    batch: int = 8,
    width: int = 64,
    init: Any = None,
) -> tuple[Any, tuple[Any, ...]]:
    """A residual network of bottlenecks, ResNet-50 by default, with 1000 classes."""
    net = nn.HybridSequential()
    net.add(*_conv(width, 7, 2, 3), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
    channels = width
    for stage, count in enumerate(layers):
        for k in range(count):
            narrow = width * 2**stage
            net.add(Bottleneck(narrow, 2 if stage and not k else 1, channels))
            channels = 4 * narrow
    net.add(nn.GlobalAvgPool2D(), nn.Dense(1000, in_units=channels))
    return _ready(net, init), (_normal(batch, 3, side, side),)


class Basic(nn.HybridBlock):
    """Two 3x3 convolutions with BatchNorm, and a way around them."""

    def __init__(self, width: int, stride: int, channels: int):
        super().__init__()
        self.body, self.around = nn.HybridSequential(), nn.HybridSequential()
        self.body.add(*_conv(width, 3, stride, channels), nn.Activation("relu"))
        self.body.add(*_conv(width, 3, 1, width))
        if stride > 1 or channels != width:
            self.around.add(*_conv(width, 1, stride, channels))

    def forward(self, x: Any) -> Any:
        y = self.body(x)
        return mx.npx.relu(y + (self.around(x) if len(self.around) else x))


def resnet18(
    side: int = 32, batch: int = 4, width: int = 64, init: Any = None
) -> tuple[Any, tuple[Any, ...]]:
    """ResNet-18 with ten classes."""
    net = nn.HybridSequential()
    net.add(*_conv(width, 7, 2, 3), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
    channels = width
    for stage in range(4):
        for k in range(2):
            wide = width * 2**stage
            net.add(Basic(wide, 2 if stage and not k else 1, channels))
            channels = wide
    net.add(nn.GlobalAvgPool2D(), nn.Dense(10, in_units=channels))
    return _ready(net, init), (_normal(batch, 3, side, side),)


class UNet(nn.HybridBlock):
    """Convolutions down and up again; each level's result crosses over to the way up."""

    def __init__(self, levels: int, width: int):
        super().__init__()
        self._levels = levels
        self.pool = nn.MaxPool2D(2, 2)
        of = 3
        for level in range(levels):
            setattr(self, f"down{level}", _double(width * 2**level, of))
            of = width * 2**level
        for level in reversed(range(levels - 1)):
            channels = width * 2**level
            setattr(self, f"widen{level}", nn.Conv2DTranspose(channels, 2, 2, in_channels=of))
            setattr(self, f"up{level}", _double(channels, 2 * channels))
            of = channels
        self.head = nn.Conv2D(2, 1, in_channels=of)

    def forward(self, x: Any) -> Any:
        across = []
        for level in range(self._levels):
            x = getattr(self, f"down{level}")(x)
            if level < self._levels - 1:
                across.append(x)
                x = self.pool(x)
        for level in reversed(range(self._levels - 1)):
            x = getattr(self, f"widen{level}")(x)
            x = getattr(self, f"up{level}")(mx.np.concatenate([across[level], x], axis=1))
        return self.head(x)


def _double(channels: int, of: int) -> Any:
    both = nn.HybridSequential()
    for source in (of, channels):
        both.add(*_conv(channels, 3, 1, source), nn.Activation("relu"))
    return both


def unet(
    levels: int = 4, width: int = 16, side: int = 64, batch: int = 4, init: Any = None
) -> tuple[Any, tuple[Any, ...]]:
    """A U-Net for images of two classes per pixel."""
    return _ready(UNet(levels, width), init), (_normal(batch, 3, side, side),)


def translator(
    encoders: int = 6,
    decoders: int = 6,
    width: int = 128,
    heads: int = 4,
    length: int = 64,
    batch: int = 4,
    init: Any = None,
) -> tuple[Any, tuple[Any, ...]]:
    """An encoder-decoder on two embedded sequences."""
    net = _ready(Translator(encoders, decoders, width, heads), init)
    return net, (_normal(batch, length, width), _normal(batch, length, width))
