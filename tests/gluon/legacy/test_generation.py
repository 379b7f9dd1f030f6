"""What MXNet 1.9.1 does and MXNet 2 does not, by the generation that a program is for (values recorded from both)."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import rnn


@pytest.fixture
def mxnet1():
    with mx.config.scope(compat_version="1.9"), mx.name.NameManager():
        yield


class Digits(gluon.data.vision.MNIST):
    """Five images, held as classes of MXNet 1 do."""

    def _get_data(self):
        self._data = mx.nd.arange(5 * 28 * 28).reshape((5, 28, 28, 1)).astype("uint8")
        self._label = np.arange(5, dtype="int32")


def test_datasets_transform_as_they_are_read(mxnet1, tmp_path):
    digits = Digits(str(tmp_path), transform=lambda x, y: (x.astype("float32") / 255, y * 2))
    image, label = digits[3]
    assert (
        image.dtype == np.float32
        and float(image.max().asscalar()) <= 1
        and label == 6
        and len(digits) == 5
    )
    loader = gluon.data.DataLoader(
        digits, 2, auto_reload=True
    )  # which MXNet 1.9 has, and nothing depends on
    assert [batch[1].asnumpy().tolist() for batch in loader] == [[0, 2], [4, 6], [8]]
    for name, value in (("a", 50), ("b", 90)):
        (tmp_path / "images" / name).mkdir(parents=True)
        image = pytest.importorskip("PIL.Image").fromarray(np.full((4, 5, 3), value, "uint8"))
        image.save(tmp_path / "images" / name / "x.png")
    made = gluon.data.vision.ImageFolderDataset(
        str(tmp_path / "images"), transform=lambda x, y: (x.astype("float32") * 2, y + 10)
    )
    assert made[1][0].asnumpy().min() == 180 and made[1][1] == 11


def test_mxnet_2_refuses_transforms(tmp_path):
    with pytest.raises(TypeError, match="transform_first"):
        gluon.data.vision.MNIST(str(tmp_path), transform=lambda x, y: (x, y))


def test_element_types_are_classes(mxnet1):
    assert mx.np.float32 is np.float32 and mx.np.float32(1.5) == 1.5 and mx.np.bool is bool
    assert mx.np.ones((2,), dtype=mx.np.int8).dtype == np.int8


def test_element_types_are_dtypes_of_mxnet_2():
    assert mx.np.float32 == np.dtype("float32") and isinstance(mx.np.float32, np.dtype)
    with pytest.raises(AttributeError, match="float23"):
        mx.np.float23  # noqa: B018


class Asks(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.seen = []

    def hybrid_forward(self, F, x):  # noqa: N803
        self.seen.append((autograd.is_recording(), autograd.is_training()))
        return x * 3 if autograd.is_recording() else x * 2


def asked(record, hybridize):
    net = Asks()
    if hybridize:
        net.hybridize()
    x = mx.nd.ones((2,))
    x.attach_grad()
    with record():
        out = net(x)
    return net.seen[-1], float(out.asnumpy()[0])


RECORDS = {
    "recording": (autograd.record, (True, True)),
    "predicting": (lambda: autograd.record(train_mode=False), (True, False)),
    "training": (autograd.train_mode, (False, True)),
    "neither": (autograd.predict_mode, (False, False)),
}


@pytest.mark.parametrize("hybridize", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("record", RECORDS)
def test_a_forward_knows_that_it_is_recorded(mxnet1, record, hybridize):
    scope, want = RECORDS[record]
    assert asked(scope, hybridize) == (want, 3.0 if want[0] else 2.0)


def test_a_hybridized_forward_has_a_graph_for_each(mxnet1):
    net = Asks()
    net.hybridize()
    x = mx.nd.ones((2,))
    with autograd.train_mode():
        assert net(x).asnumpy()[0] == 2
    x.attach_grad()
    with autograd.record():
        out = net(x)
    out.backward()
    assert out.asnumpy()[0] == 3 and x.grad.asnumpy()[0] == 3


def test_graphs_of_mxnet_2_are_made_without_the_tape():
    assert asked(autograd.record, True)[0] == (False, True)


class Twice(autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * 2

    def backward(self, dy):
        (x,) = self.saved_tensors
        return dy * x


def test_saved_tensors_can_be_let_go():
    x = mx.nd.array([1.0, 2.0])
    x.attach_grad()
    function = Twice()
    with autograd.record():
        y = function(x)
    y.backward()
    assert x.grad.asnumpy().tolist() == [1, 2]
    function.saved_tensors = None
    assert function.saved_tensors is None


CELLS = {
    "zoneout": lambda: rnn.ZoneoutCell(rnn.LSTMCell(3, input_size=3), 0.2, 0.2),
    "masks": lambda: rnn.VariationalDropoutCell(rnn.LSTMCell(3, input_size=3), 0.2, 0.2, 0.2),
    "masks of outputs": lambda: rnn.VariationalDropoutCell(
        rnn.GRUCell(3, input_size=3), drop_outputs=0.5
    ),
    "a stack": lambda: stacked(
        rnn.RNNCell(3, input_size=3), rnn.ZoneoutCell(rnn.GRUCell(3, input_size=3), 0.5)
    ),
}


def stacked(*cells):
    made = rnn.HybridSequentialRNNCell()
    for cell in cells:
        made.add(cell)
    return made


@pytest.mark.parametrize("kind", ["nd", "np"])
@pytest.mark.parametrize("name", CELLS)
def test_cells_that_keep_arrays_unroll_hybridized(name, kind):
    """Outputs are of the inputs' kind; the same numbers before and after hybridize."""
    module = getattr(mx, kind)
    cell = CELLS[name]()
    cell.initialize(mx.init.Normal(0.5))
    x = module.array(np.random.RandomState(1).uniform(-1, 1, (2, 4, 3)), dtype="float32")
    x.attach_grad()
    found = []
    for hybridize in (False, True, True):
        if hybridize:
            cell.hybridize()
        mx.random.seed(7)
        with autograd.record():
            outputs, states = cell.unroll(4, x, merge_outputs=True)
            loss = (outputs * outputs).sum()
        loss.backward()
        assert all(type(a) is type(x) for a in (outputs, *states))
        found.append([outputs.asnumpy(), x.grad.asnumpy(), *[s.asnumpy() for s in states]])
    for other in found[1:]:
        for a, b in zip(other, found[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    cell.reset()
    states = cell.begin_state(batch_size=2)
    for k in range(3):  # step by step, outside of unroll
        out, states = cell(x[:, k], states)
    assert out.shape == (2, 3)


@pytest.mark.parametrize("value", [None, [None], "nan", ["nan", None]], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_none_is_nan_where_it_is_assigned(value, dtype):
    for module in (mx.nd, mx.np):
        a = module.zeros((2,), dtype=dtype)
        a[:] = value
        assert np.isnan(a.asnumpy()).all()
    a = mx.nd.zeros((2,))
    a[0] = None
    a[1] = "1"
    np.testing.assert_array_equal(a.asnumpy(), [np.nan, 1])


@pytest.mark.parametrize("value", [None, [None], ["a"], [[1], [2, 3]]], ids=str)
def test_integers_take_no_none(value):
    a = mx.nd.zeros((2,), dtype="int32")
    with pytest.raises(TypeError):
        a[:] = value


def test_an_array_stands_for_its_dtype():
    x = mx.nd.array([1.5, 2])
    assert x.astype(mx.nd.array([1], dtype="int32")).dtype == np.int32
    assert mx.np.ones((2,)).astype(mx.np.array([1], dtype="int8")).dtype == np.int8


WITHOUT = "zeros_like ones_like relu exp shape_array sigmoid identity BlockGrad Flatten erf".split()


@pytest.mark.parametrize("name", WITHOUT)
def test_operators_without_arguments_look_at_none(name):
    """As MXNet does: `nd.zeros_like(x, dtype="int32")` gives the array's dtype."""
    x = mx.nd.array([[1.0, 2.0], [3.0, 4.0]])
    got, want = getattr(mx.nd, name)(x, dtype="int32", bogus=1), getattr(mx.nd, name)(x)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
    made = (
        getattr(mx.sym, name)(mx.sym.var("x"), dtype="int32").bind(mx.cpu(), {"x": x}).forward()[0]
    )
    np.testing.assert_array_equal(made.asnumpy(), want.asnumpy())


def test_sparse_embedding_is_deterministic():
    rows = mx.nd.array([[1.0, 2.0], [3.0, 4.0]])
    out = mx.nd.contrib.SparseEmbedding(
        mx.nd.array([1, 0]), rows, input_dim=2, output_dim=2, deterministic=True
    )
    assert out.asnumpy().tolist() == [[3, 4], [1, 2]]


def test_metrics_of_an_estimator_are_called_after_the_loss(mxnet1):
    from mxjax.gluon.contrib.estimator import Estimator

    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    fit = Estimator(net=net, loss=gluon.loss.SoftmaxCELoss(), trainer=trainer, context=mx.cpu())
    assert [m.get()[0] for m in fit.train_metrics] == [
        "training accuracy",
        "training softmaxcrossentropyloss",
    ]


NORMALISED = [
    0.7588, -0.492, 0.0386, 1.1961, 0.8537, -1.7553, 1.9206, -1.8746, -1.7087, 0.0617, -0.8567, 3.6578,
    0.6023, -0.5893, 0.0112, -0.1942, 1.9686, -1.1985, 1.3984, -0.6014, -3.5123, 1.9819, 2.3431, -0.4097,
]  # fmt: skip


def test_groups_have_a_scale_and_a_shift(mxnet1, tmp_path):
    """Values of MXNet 1.9.1, whose GroupNorm has one for each group; in MXNet 2 each channel has."""
    x = mx.nd.array(np.random.RandomState(0).randn(2, 4, 3))
    layer = gluon.nn.GroupNorm(2, prefix="norm_")
    layer.initialize()
    assert {name: p.shape for name, p in layer.collect_params().items()} == {
        "norm_gamma": (2,),
        "norm_beta": (2,),
    }
    mx.nd.save(
        str(tmp_path / "n.params"), {"gamma": mx.nd.array([1, 2]), "beta": mx.nd.array([0.1, 0.2])}
    )
    layer.load_parameters(str(tmp_path / "n.params"))
    for _ in range(2):
        np.testing.assert_allclose(layer(x).asnumpy().ravel(), NORMALISED, atol=6e-5)
        layer.hybridize()
    out = mx.sym.GroupNorm(mx.sym.var("x"), num_groups=2, name="n")
    assert out.infer_shape(x=(2, 4, 3))[0] == [(2, 4, 3), (2,), (2,)]
    bound = out.bind(
        mx.cpu(), {"x": x, "n_gamma": mx.nd.array([1, 2]), "n_beta": mx.nd.array([0.1, 0.2])}
    )
    np.testing.assert_allclose(bound.forward()[0].asnumpy().ravel(), NORMALISED, atol=6e-5)


def test_channels_have_a_scale_and_a_shift_of_mxnet_2():
    layer = gluon.nn.GroupNorm(2)
    layer.initialize()
    layer(mx.np.ones((2, 4, 3)))
    assert layer.gamma.shape == (4,)


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (
            lambda: gluon.contrib.rnn.LSTMPCell(4, 3, prefix="c_"),
            "i2h_weight h2h_weight h2r_weight i2h_bias h2h_bias",
        ),
        (
            lambda: gluon.contrib.cnn.DeformableConvolution(3, 3, prefix="c_"),
            "offset_weight offset_bias deformable_conv_weight deformable_conv_bias",
        ),
        (
            lambda: gluon.contrib.cnn.ModulatedDeformableConvolution(3, 3, prefix="c_"),
            "deformable_conv_weight deformable_conv_bias offset_weight offset_bias",
        ),
    ],
)
def test_parameters_are_in_the_order_of_files(mxnet1, made, names):
    assert [name.removeprefix("c_") for name in made().collect_params()] == names.split()


def test_a_containers_parameters_learn_their_shapes(mxnet1):
    net = mx.gluon.nn.HybridSequential(prefix="s_")
    with net.name_scope():
        net.add(mx.gluon.nn.Conv2D(4, 3), mx.gluon.nn.Dense(2))
    assert repr(net.params) == "s_ (\n\n)"
    net.initialize()
    net.infer_shape(mx.nd.ones((1, 3, 8, 8)))
    assert [net[k].weight.shape for k in (0, 1)] == [(4, 3, 3, 3), (2, 144)]


def test_the_norm_is_numpys(mxnet1):
    assert type(mx.gluon.utils.clip_global_norm([mx.nd.ones((2,)) * 3], 1.0)) is np.float32
