"""Every layer, loss and cell on symbols is what it is on arrays, as MXNet 1.9.1 has it."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import nn, rnn
from tests.gluon.nn.test_every_layer import CELLS, LAYERS, Unrolled, given

RANDOM = np.random.RandomState(1)
PRED, LABEL, THIRD = (RANDOM.uniform(0.1, 0.9, (4, 5)) for _ in range(3))
WEIGHT, POSITIVE = RANDOM.uniform(0.1, 0.9, (4, 1)), RANDOM.uniform(0.5, 2, (1, 5))
CLASSES, SIGNS = np.array([0.0, 1, 2, 4]), np.array([1.0, -1, 1, -1])
STEPS, TEXT = RANDOM.uniform(-1, 1, (2, 6, 5)), np.array([[1.0, 2], [2, 3]])

L = gluon.loss
#: Losses as MXNet 1.9.1 computes them on symbols: how they are made, and what they are called with.
LOSSES = {
    "L2": (lambda: L.L2Loss(weight=0.3), PRED, LABEL),
    "L2, weighted": (lambda: L.L2Loss(), PRED, LABEL, WEIGHT),
    "L1": (lambda: L.L1Loss(), PRED, LABEL),
    "L1, weighted": (lambda: L.L1Loss(batch_axis=1), PRED, LABEL, WEIGHT),
    "sigmoid": (lambda: L.SigmoidBCELoss(), PRED, LABEL),
    "sigmoid, weighted": (lambda: L.SigmoidBCELoss(), PRED, LABEL, WEIGHT),
    "sigmoid, positives": (lambda: L.SigmoidBCELoss(), PRED, LABEL, WEIGHT, POSITIVE),
    "sigmoid of probabilities": (
        lambda: L.SigmoidBCELoss(from_sigmoid=True),
        PRED,
        LABEL,
        WEIGHT,
        POSITIVE,
    ),
    "softmax": (lambda: L.SoftmaxCELoss(), PRED, CLASSES),
    "softmax, weighted": (lambda: L.SoftmaxCELoss(), PRED, CLASSES, WEIGHT),
    "softmax, dense": (lambda: L.SoftmaxCELoss(sparse_label=False), PRED, LABEL),
    "softmax of logits": (lambda: L.SoftmaxCELoss(from_logits=True), PRED, CLASSES),
    "divergence": (lambda: L.KLDivLoss(), PRED, LABEL),
    "divergence of scores": (lambda: L.KLDivLoss(from_logits=False), PRED, LABEL, WEIGHT),
    "ctc": (lambda: L.CTCLoss(), STEPS, TEXT),
    "ctc with lengths": (lambda: L.CTCLoss(), STEPS, TEXT, np.array([6.0, 5]), np.array([2.0, 1])),
    "ctc, steps first": (lambda: L.CTCLoss("TNC", "TN"), STEPS.swapaxes(0, 1), TEXT.T),
    "huber": (lambda: L.HuberLoss(0.3), PRED, LABEL, WEIGHT),
    "hinge": (lambda: L.HingeLoss(), PRED, LABEL),
    "squared hinge": (lambda: L.SquaredHingeLoss(2), PRED, LABEL, WEIGHT),
    "logistic": (lambda: L.LogisticLoss(), PRED, LABEL),
    "logistic, binary": (lambda: L.LogisticLoss(label_format="binary"), PRED, LABEL),
    "triplet": (lambda: L.TripletLoss(), PRED, LABEL, THIRD),
    "poisson": (lambda: L.PoissonNLLLoss(), PRED, LABEL),
    "poisson, full": (
        lambda: L.PoissonNLLLoss(from_logits=False, compute_full=True),
        PRED,
        LABEL * 5,
    ),
    "cosine": (lambda: L.CosineEmbeddingLoss(margin=0.1), PRED, LABEL, SIGNS),
}


def parts(made):
    """The arrays or symbols of nested lists."""
    return [x for m in made for x in parts(m)] if isinstance(made, (list, tuple)) else [made]


def compare(block, arrays):
    """The block's numbers on arrays, and those of its symbol bound to the same arrays and parameters."""
    block.initialize(mx.init.Uniform(0.4))
    want = parts(block(*arrays))
    symbols = [mx.sym.var(f"in{k}") for k in range(len(arrays))]
    made = mx.sym.Group(parts(block(*symbols)))
    known = {name: p.data() for name, p in block.collect_params().items()}
    known.update({s.name: a for s, a in zip(symbols, arrays, strict=True)})
    arguments = {name: known[name] for name in made.list_arguments()}
    states = {name: known[name] for name in made.list_auxiliary_states()}
    got = made.bind(mx.cpu(), arguments, aux_states=states).forward(is_train=False)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=2e-5, atol=2e-6)


@pytest.fixture(autouse=True)
def mxnet1():
    with mx.config.scope(compat_version="1.9"), mx.name.NameManager():
        mx.random.seed(5)
        yield


@pytest.mark.parametrize("kind", LAYERS)
def test_layers(kind):
    array = mx.nd.array(given(kind).asnumpy())
    for layer in LAYERS[kind]():
        if isinstance(layer, nn.HybridLambda):
            layer = nn.HybridLambda(lambda F, x: F.exp(x))
        compare(layer, [array])


@pytest.mark.parametrize("kind", [k for k in CELLS if not k.startswith("images")])
def test_cells_unrolled(kind):
    for cell in CELLS[kind]():
        compare(Sequence(cell), [mx.nd.array(RANDOM.uniform(-1, 1, (5, 2, 3)))])


class Sequence(Unrolled):
    """A cell unrolled in MXNet 1's way."""

    def hybrid_forward(self, F, x):  # noqa: N803
        outputs, states = self.cell.unroll(5, x, layout="TNC", merge_outputs=True)
        return [outputs, *states]

    forward = gluon.HybridBlock.forward


class Step(gluon.HybridBlock):
    """One step of a cell."""

    def __init__(self, cell):
        super().__init__(prefix="")
        self.cell = cell

    def hybrid_forward(self, F, x, *states):  # noqa: N803
        return self.cell(x, list(states))


@pytest.mark.parametrize("kind", [k for k in CELLS if k.startswith("images")])
def test_cells_of_images(kind):
    for cell in CELLS[kind]():
        shapes = [(2, 2, *(3,) * int(kind[-2])), *[info["shape"] for info in cell.state_info(2)]]
        compare(Step(cell), [mx.nd.array(RANDOM.uniform(-1, 1, shape)) for shape in shapes])


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    make, *inputs = LOSSES[name]
    compare(make(), [mx.nd.array(x) for x in inputs])


def test_every_loss_is_there():
    seen = {type(make()) for make, *_ in LOSSES.values()}
    made = {getattr(L, name) for name in L.__all__} - {L.Loss}
    assert made - seen == {
        L.SDMLLoss
    }  # which asks for the batch's size: MXNet 1.9.1 refuses symbols, too


def test_containers_and_plain_blocks():
    x = mx.nd.array(PRED)
    for container in (nn.Sequential, nn.HybridSequential):
        net = container()
        net.add(nn.Dense(3, activation="relu"), nn.BatchNorm(), nn.Dense(2))
        compare(net, [x])
    net = gluon.contrib.nn.HybridConcurrent(axis=1)
    net.add(nn.Dense(3), nn.Dense(2))
    compare(net, [x])
    assert nn.Lambda(lambda x: x * 2)(mx.sym.var("x")).list_arguments() == ["x"]


def test_a_loss_in_a_module():
    """A network and its loss as one symbol, trained by Module (the losses are MXNet 1.9.1's)."""
    data, label = mx.sym.var("data"), mx.sym.var("label")
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(4, activation="tanh"), nn.Dense(1))
    loss = mx.sym.MakeLoss(gluon.loss.L2Loss()(net(data), label))
    module = mx.mod.Module(loss, data_names=["data"], label_names=["label"])
    module.bind([("data", (4, 3))], [("label", (4, 1))])
    module.init_params(mx.init.Constant(0.1))
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5})
    x = np.arange(12).reshape(4, 3) / 10
    batch = mx.io.DataBatch([mx.nd.array(x)], [mx.nd.array(x.sum(1, keepdims=True))])
    seen = []
    for _ in range(4):
        module.forward_backward(batch)
        seen.append(float(module.get_outputs()[0].asnumpy().sum()))
        module.update()
    np.testing.assert_allclose(seen, MODULE_LOSSES, rtol=1e-5)


MODULE_LOSSES = [6.897077560424805, 1.9753139019012451, 1.0694936513900757, 0.9151135683059692]


def test_labels_of_a_cosine_that_are_neither():
    """MXNet 1.9.1 gives them no loss."""
    x, y = mx.nd.array([[1.0, 2], [2, 1]]), mx.nd.array([[2.0, 1], [1, 1]])
    found = L.CosineEmbeddingLoss()(x, y, mx.nd.array([0.0, 1])).asnumpy()
    np.testing.assert_allclose(found, [[0.0], [0.0513167]], rtol=1e-5)


def test_prefixes():
    assert nn.DeformableConvolution(2, kernel_size=(3, 3)).prefix == "deformable_conv0_"
    assert (
        nn.ModulatedDeformableConvolution(2, kernel_size=(3, 3)).prefix
        == "modulated_deformable_conv0_"
    )
    assert rnn.BidirectionalCell(rnn.LSTMCell(2), rnn.LSTMCell(2)).prefix == ""
