"""Every layer computes the same called at once, hybridized, exported, and imported."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import HybridBlock, SymbolBlock, nn, rnn

#: The layers of nn by what they are called with: rows of numbers, sequences, images, volumes, whole numbers.
LAYERS = {
    "rows": lambda: [
        nn.ELU(0.5), nn.GELU(), nn.SELU(), nn.Activation("softsign"), nn.LeakyReLU(0.1), nn.PReLU(), nn.SiLU(),
        nn.Swish(2.0), nn.Dense(3, activation="tanh"), nn.Dropout(0.5), nn.Identity(), nn.LayerNorm(),
        nn.HybridLambda(lambda x: mx.np.exp(x)), nn.BatchNorm(),
    ],
    "sequences": lambda: [
        nn.AvgPool1D(2, ceil_mode=True), nn.MaxPool1D(3, 2), nn.GlobalAvgPool1D(), nn.GlobalMaxPool1D(),
        nn.Conv1D(3, 3, padding=1), nn.Conv1DTranspose(2, 3, strides=2, output_padding=1), nn.PixelShuffle1D(2),
        nn.InstanceNorm(),
    ],
    "images": lambda: [
        nn.AvgPool2D(3, 2, 1, count_include_pad=False), nn.MaxPool2D(2, 1), nn.GlobalAvgPool2D(), nn.GlobalMaxPool2D(),
        nn.Conv2D(4, 3, strides=2, groups=2, activation="relu"), nn.Conv2DTranspose(2, 2, dilation=2),
        nn.DeformableConvolution(2, kernel_size=(3, 3)), nn.ModulatedDeformableConvolution(2, kernel_size=(3, 3)),
        nn.PixelShuffle2D((2, 1)), nn.ReflectionPad2D(1), nn.GroupNorm(2), nn.BatchNormReLU(), nn.SyncBatchNorm(),
        nn.Flatten(),
    ],
    "volumes": lambda: [
        nn.AvgPool3D(2), nn.MaxPool3D(2), nn.GlobalAvgPool3D(), nn.GlobalMaxPool3D(), nn.Conv3D(2, 2),
        nn.Conv3DTranspose(2, 2), nn.PixelShuffle3D(2),
    ],
    "numbers": lambda: [nn.Embedding(7, 3), nn.Embedding(9, 2)],
    "steps": lambda: [
        rnn.RNN(3, activation="tanh"), rnn.LSTM(3, bidirectional=True), rnn.GRU(2, 2, layout="NTC"),
        rnn.LSTM(3, projection_size=2),
    ],
}  # fmt: skip
#: What holds layers, is no HybridBlock, or is tested by itself.
CONTAINERS = {
    *("Block", "HybridBlock", "Concatenate", "HybridConcatenate", "Lambda", "Sequential", "HybridSequential"),
    "SymbolBlock",
}  # fmt: skip


def given(kind):
    random = np.random.RandomState(3)
    if kind == "numbers":
        return mx.np.array(random.randint(0, 7, (2, 3)), dtype="int32")
    shapes = {
        "rows": (4, 6), "sequences": (2, 4, 7), "images": (2, 4, 6, 5), "volumes": (1, 8, 3, 4, 3), "steps": (5, 2, 3),
    }  # fmt: skip
    return mx.np.array(random.uniform(-1, 1, shapes[kind]), dtype="float32")


class All(HybridBlock):
    """One block, so that there is one program for a kind of input: every layer on the same array."""

    def __init__(self, layers):
        super().__init__()
        for k, layer in enumerate(layers):
            setattr(self, f"layer{k}", layer)
        self.called = layers

    def forward(self, x):
        return [layer(x) for layer in self.called]


@pytest.mark.parametrize("kind", LAYERS)
def test_it_computes_the_same(kind, tmp_path):
    layers = LAYERS[kind]()
    net = All(layers)
    mx.random.seed(5)
    net.initialize(mx.init.Normal(0.5))
    x = given(kind)
    want = [y.asnumpy() for y in net(x)]
    assert all(np.isfinite(y).all() for y in want)

    def close(outs, how):
        for layer, got, numbers in zip(layers, outs, want, strict=True):
            np.testing.assert_allclose(got.asnumpy(), numbers, rtol=1e-5, atol=1e-5, err_msg=f"{layer} {how}")

    net.hybridize()
    close(net(x), "hybridized")
    symbol, params = net.export(str(tmp_path / "net"))
    close(SymbolBlock.imports(symbol, ["data"], params)(x), "imported")


def test_every_layer_is_there():
    seen = {type(layer).__name__ for make in LAYERS.values() for layer in make()}
    assert set(nn.__all__) - CONTAINERS <= seen
    assert {"RNN", "LSTM", "GRU"} <= seen
