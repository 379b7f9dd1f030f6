"""Every layer computes the same called at once, hybridized, exported, and imported."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd
from mxjax.gluon import HybridBlock, SymbolBlock, model_zoo, nn, rnn

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
#: Recurrent cells, by the axes of their images.
CELLS = {
    "steps": lambda: [
        rnn.RNNCell(3), rnn.LSTMCell(3, activation="softsign"), rnn.GRUCell(2), rnn.LSTMPCell(4, 2),
        rnn.ResidualCell(rnn.RNNCell(3)), rnn.BidirectionalCell(rnn.GRUCell(2), rnn.LSTMCell(2)),
    ],
    "random steps": lambda: [
        rnn.ZoneoutCell(rnn.GRUCell(2), 0.4, 0.3), rnn.VariationalDropoutCell(rnn.LSTMCell(2), 0.2, 0.3, 0.4),
        stacked(rnn.HybridSequentialRNNCell(), rnn.LSTMCell(3), rnn.DropoutCell(0.5), rnn.GRUCell(2)),
    ],
    **{
        f"images {n}D": lambda n=n: [
            getattr(rnn, f"Conv{n}D{kind}Cell")((2, *(3,) * n), 2, 3, 1, i2h_pad=1) for kind in ("RNN", "LSTM", "GRU")
        ]
        for n in (1, 2, 3)
    },
}  # fmt: skip
#: A network of each family of the zoo, the shortest, with the edge of the images it takes.
FAMILIES = {
    "alexnet": 64, "densenet121": 224, "inceptionv3": 299, "mobilenet0.25": 32, "mobilenetv2_0.25": 32,
    "resnet18_v1": 32, "resnet18_v2": 32, "squeezenet1.1": 224, "vgg11": 32,
}  # fmt: skip
#: What holds layers, is no HybridBlock, or is tested by itself.
CONTAINERS = {
    *("Block", "HybridBlock", "Concatenate", "HybridConcatenate", "Lambda", "Sequential", "HybridSequential"),
    "SymbolBlock",
}  # fmt: skip


def stacked(stack, *cells):
    for cell in cells:
        stack.add(cell)
    return stack


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


class Unrolled(HybridBlock):
    """A cell run over a sequence (T, N, ...): outputs and the last states."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        outputs, states = self.cell.unroll(
            x.shape[0], x, layout="TNC" + "DHW"[: x.ndim - 3], merge_outputs=True
        )
        return [outputs, *states]


def trained(net, x, called):
    """Outputs in training, gradients of the input and of the parameters, and moving statistics afterwards."""
    parameters = {name.replace("_", "."): p for name, p in net.collect_params().items()}
    before = {name: p.data().asnumpy() for name, p in parameters.items() if p.grad_req == "null"}
    floating = x.dtype != "int32"
    if floating:
        x.attach_grad()
    mx.random.seed(11)
    with autograd.record():
        outs = jax.tree_util.tree_leaves(called(x), is_leaf=lambda a: isinstance(a, mx.np.ndarray))
        loss = sum((y * y).sum() for y in outs)
    loss.backward()
    found = {f"output {k}": y.asnumpy() for k, y in enumerate(outs)}
    if floating:
        found["gradient of the input"] = x.grad.asnumpy()
    for name, p in parameters.items():
        found[name] = p.grad().asnumpy() if p.grad_req != "null" else p.data().asnumpy()
    for name, value in before.items():
        parameters[name].set_data(mx.np.array(value))
    return found


def check(net, x, path, again=True):
    """The same imperatively, hybridized, exported and imported: in prediction, and in training with all gradients.

    `again`: random numbers are drawn in the same order by what was imported, so that training can be compared.
    """
    requests = {name.replace("_", "."): p.grad_req for name, p in net.collect_params().items()}
    want, numbers = net(x), trained(net, x, net)
    net.hybridize()
    got = {"hybridized": (net(x), trained(net, x, net))}
    symbol, params = net.export(str(path / "net"))
    imported = SymbolBlock.imports(symbol, ["data"], params)
    if x.dtype == "float64":
        imported.cast("float64")
    for name, p in imported.collect_params().items():  # a file does not say that a scale stays 1
        p.grad_req = requests[name.replace("_", ".")]
    got["imported"] = imported(x), trained(imported, x, imported) if again else numbers
    for how, (outs, learnt) in got.items():
        for a, b in zip(
            *(jax.tree_util.tree_leaves(o, is_leaf=is_array) for o in (outs, want)), strict=True
        ):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5, atol=1e-5, err_msg=how)
        assert learnt.keys() == numbers.keys()
        for name, value in numbers.items():
            size = max(1.0, float(np.abs(value).max(initial=0)))
            assert np.isfinite(value).all()
            # Sums that cancel but for rounding.
            np.testing.assert_allclose(
                learnt[name], value, rtol=1e-5, atol=2e-5 * size, err_msg=f"{name} {how}"
            )


def is_array(a):
    return isinstance(a, mx.np.ndarray)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_computes_the_same(kind, tmp_path):
    net = All(LAYERS[kind]())
    mx.random.seed(5)
    net.initialize(mx.init.Normal(0.5))
    check(net, given(kind), tmp_path)


#: Cells of other images are the same code with other axes.
SLOW_CELLS = {"images 1D", "images 3D"}


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow if k in SLOW_CELLS else ()) for k in CELLS]
)
def test_a_cell_computes_the_same(kind, tmp_path):
    net = All([Unrolled(cell) for cell in CELLS[kind]()])
    mx.random.seed(5)
    net.initialize(mx.init.Normal(0.5))
    dims = int(kind[-2]) if kind.startswith("images") else 0
    x = np.random.RandomState(3).uniform(-1, 1, (3, 2, 2, *(3,) * dims) if dims else (5, 2, 3))
    check(net, mx.np.array(x, dtype="float32"), tmp_path, again=not kind.startswith("random"))


@pytest.mark.slow  # 15 s and more of the compiler's time for each
@pytest.mark.parametrize("name", FAMILIES)
def test_a_network_of_the_zoo_computes_the_same(name, tmp_path):
    net = model_zoo.vision.get_model(name, classes=3)
    mx.random.seed(5)
    net.initialize(mx.init.Xavier())
    edge = FAMILIES[name]
    x = np.random.RandomState(3).uniform(-1, 1, (2, 3, edge, edge))
    net(mx.np.array(x, dtype="float32"))
    net.cast(
        "float64"
    )  # so that what differs is no rounding, which normalizations of small batches amplify
    check(net, mx.np.array(x, dtype="float64"), tmp_path)


def test_every_layer_is_there():
    seen = {type(layer).__name__ for make in LAYERS.values() for layer in make()}
    assert set(nn.__all__) - CONTAINERS <= seen
    assert {"RNN", "LSTM", "GRU"} <= seen
    tested = {type(cell).__name__ for make in CELLS.values() for cell in make()}
    bases = {
        "RecurrentCell",
        "HybridRecurrentCell",
        "ModifierCell",
        "SequentialRNNCell",
        "DropoutCell",
    }
    assert {name for name in rnn.__all__ if name.endswith("Cell")} - bases <= tested
