"""Networks as ONNX files: onnxruntime gives what they give, for other batch sizes too."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import mxjax as mx
from mxjax import errors
from mxjax.gluon import nn, rnn
from mxjax.gluon.model_zoo import vision


def initialized(net):
    mx.random.seed(1)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def outputs(net, inputs):
    made = net(*inputs)
    return [a.asnumpy() for a in (made if isinstance(made, (list, tuple)) else [made])]


def agrees(net, path, *inputs, others=(), **options):
    """Export, and compare with onnxruntime, on ``others`` too; gives the file."""
    want = outputs(net, inputs)
    file = f"{path}/net.onnx"
    assert (
        mx.onnx.export_model(
            net, None, [a.shape for a in inputs], [a.dtype for a in inputs], file, **options
        )
        == file
    )
    session = onnxruntime.InferenceSession(file)
    names = [i.name for i in session.get_inputs()]
    for given, expected in [(inputs, want), *[(o, outputs(net, o)) for o in others]]:
        got = session.run(None, {n: a.asnumpy() for n, a in zip(names, given, strict=True)})
        for g, w in zip(got, expected, strict=True):
            assert g.shape == w.shape and g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4 * max(1, np.abs(w).max()))
    return file


def normal(*shape, dtype="float32"):
    return mx.np.random.normal(size=shape).astype(dtype)


def small_images():
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(4, 3, padding=1),
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.MaxPool2D(),
        nn.Flatten(),
        nn.Dense(5),
    )
    return initialized(net)


@pytest.mark.parametrize("opset", [13, 21])
def test_images(tmp_path, opset):
    file = agrees(small_images(), tmp_path, normal(2, 3, 8, 8), opset_version=opset)
    model = onnx.load(file)
    assert [i.version for i in model.opset_import] == [opset]
    assert [i.name for i in model.graph.input] == ["data"]


def test_newest_opset_is_valid(tmp_path):
    net = small_images()
    net(normal(1, 3, 8, 8))
    newest = onnx.defs.onnx_opset_version()
    mx.onnx.export_model(
        net, None, [(1, 3, 8, 8)], onnx_file_path=tmp_path / "net.onnx", opset_version=newest
    )
    onnx.checker.check_model(str(tmp_path / "net.onnx"), full_check=True)


def test_names_of_parameters_stay(tmp_path):
    net = small_images()
    file = agrees(net, tmp_path, normal(1, 3, 8, 8))
    names = {i.name for i in onnx.load(file).graph.initializer}
    assert set(net.collect_params()) - {"1.gamma"} <= names


def test_a_blocks_inputs_come_in_the_order_of_its_arguments(tmp_path):
    class Net(mx.gluon.HybridBlock):
        def forward(self, a, b):
            return b * 2 + mx.npx.relu(a).sum(axis=0)

    net = Net()
    net.initialize()
    net.hybridize()
    a, b = np.array([[1, -2, 3], [4, 5, -6]], "float32"), np.array([1, 2, 3], "float32")
    net(mx.np.array(a), mx.np.array(b))
    path = str(tmp_path / "net.onnx")
    mx.onnx.export_model(net, in_shapes=[(2, 3), (3,)], onnx_file_path=path)
    session = onnxruntime.InferenceSession(path)
    assert [(i.name, i.shape) for i in session.get_inputs()] == [("data0", [2, 3]), ("data1", [3])]
    (out,) = session.run(None, {"data0": a, "data1": b})
    assert out.tolist() == [7, 9, 9]


def test_dynamic_batch(tmp_path):
    shape = [("batch", 3, 8, 8)]
    file = agrees(
        small_images(), tmp_path, normal(2, 3, 8, 8), others=[[normal(5, 3, 8, 8)]], dynamic=True,
        dynamic_input_shapes=shape,
    )  # fmt: skip
    session = onnxruntime.InferenceSession(file)
    assert session.get_inputs()[0].shape == ["batch", 3, 8, 8]
    assert session.get_outputs()[0].shape == ["batch", 5]


class Alone(nn.HybridBlock):
    """A layer that begins with zeros."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


@pytest.mark.parametrize("layer, bidirectional", [("LSTM", True), ("GRU", False), ("RNN", True)])
def test_recurrent(tmp_path, layer, bidirectional):
    net = initialized(Alone(getattr(rnn, layer)(6, num_layers=2, bidirectional=bidirectional)))
    agrees(
        net,
        tmp_path,
        normal(5, 3, 4),
        others=[[normal(2, 7, 4)]],
        dynamic=True,
        dynamic_input_shapes=[(None, None, 4)],
    )


class WithStates(nn.HybridBlock):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, h, c):
        out, states = self.layer(x, [h, c])
        return out, *states


def test_recurrent_with_states(tmp_path):
    net = initialized(WithStates(rnn.LSTM(6, num_layers=2, layout="NTC")))
    agrees(net, tmp_path, normal(3, 5, 4), normal(2, 3, 6), normal(2, 3, 6))


class Encoder(nn.HybridBlock):
    """A layer of a transformer's encoder over tokens, with a mask of lengths."""

    def __init__(self, units=16, heads=4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(11, units)
        self.query, self.key, self.value, self.out = (
            nn.Dense(units, flatten=False) for _ in range(4)
        )
        self.inner, self.outer = nn.Dense(32, flatten=False), nn.Dense(units, flatten=False)
        self.norm, self.last = nn.LayerNorm(), nn.LayerNorm()
        self.gelu, self.drop = nn.GELU(), nn.Dropout(0.1)

    def split(self, x):
        return mx.npx.reshape(x, (-2, -2, self.heads, -1)).transpose(0, 2, 1, 3)

    def forward(self, tokens, lengths):
        x = self.embed(tokens)
        q, k, v = (self.split(layer(x)) for layer in (self.query, self.key, self.value))
        steps = mx.np.expand_dims(mx.npx.arange_like(tokens, axis=1), 0)
        mask = mx.np.expand_dims(mx.np.expand_dims(steps < mx.np.expand_dims(lengths, 1), 1), 1)
        attention = mx.npx.masked_softmax(mx.np.matmul(q, k.transpose(0, 1, 3, 2)) / 2.0, mask)
        context = mx.npx.reshape(mx.np.matmul(attention, v).transpose(0, 2, 1, 3), (-2, -2, -5))
        x = self.norm(x + self.drop(self.out(context)))
        return self.last(x + self.outer(self.gelu(self.inner(x))))


def tokens(*shape):
    return mx.np.array(np.random.RandomState(3).randint(0, 11, shape), dtype="int32")


def test_transformer(tmp_path):
    net = initialized(Encoder())
    lengths = mx.np.array([5.0, 3.0])
    others = [[tokens(3, 4), mx.np.array([1.0, 4.0, 2.0])]]
    agrees(net, tmp_path, tokens(2, 5), lengths, others=others, dynamic=True)


class Detector(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2D(8, 3, padding=1, activation="relu")
        self.classes, self.boxes = nn.Conv2D(2 * 3, 3, padding=1), nn.Conv2D(2 * 4, 3, padding=1)

    def forward(self, x):
        x = self.body(x)
        anchors = mx.npx.multibox_prior(x, sizes=(0.3, 0.6), ratios=(1.0,))
        scores = mx.npx.reshape(self.classes(x).transpose(0, 2, 3, 1), (-2, -1, 3))
        scores = mx.npx.softmax(scores, axis=-1).transpose(0, 2, 1)
        places = mx.npx.reshape(self.boxes(x).transpose(0, 2, 3, 1), (-2, -1))
        return mx.npx.multibox_detection(scores, places, anchors, nms_threshold=0.4, nms_topk=20)


def test_detector(tmp_path):
    agrees(
        initialized(Detector()), tmp_path, normal(2, 3, 4, 4), others=[[normal(3, 3, 4, 4)]], dynamic=True,
        dynamic_input_shapes=[(None, 3, 4, 4)],
    )  # fmt: skip


class Suppression(nn.HybridBlock):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, rows):
        return mx.npx.box_nms(rows, **self.options)


@pytest.mark.parametrize(
    "options",
    [
        {"id_index": 0, "overlap_thresh": 0.3},
        {"id_index": 0, "force_suppress": True, "topk": 9},
        {"id_index": 0, "background_id": 1, "valid_thresh": 0.3},
        {"in_format": "center", "out_format": "corner", "overlap_thresh": 0.2},
    ],
)
def test_box_nms(tmp_path, options):
    rng = np.random.RandomState(5)
    rows = rng.uniform(0, 1, (3, 30, 6)).astype("float32")
    rows[..., 0] = rng.randint(0, 3, (3, 30))
    rows[..., 1] = np.round(rows[..., 1], 1)  # with ties
    rows[..., 4:] = rows[..., 2:4] + rng.uniform(0.1, 0.5, (3, 30, 2))
    net = Suppression(**options)
    net.hybridize()
    agrees(net, tmp_path, mx.np.array(rows))


@pytest.mark.slow  # large networks
@pytest.mark.parametrize(
    "name, size",
    [
        ("alexnet", 224), ("densenet121", 224), ("inceptionv3", 299), ("mobilenet0.25", 64), ("mobilenetv2_0.25", 64),
        ("resnet18_v2", 64),        ("resnet50_v1", 64), ("resnet50_v2", 64), ("squeezenet1.1", 224), ("vgg11_bn", 64),
    ],
)  # fmt: skip
def test_zoo(tmp_path, name, size):
    net = initialized(vision.get_model(name, classes=10))
    agrees(
        net,
        tmp_path,
        normal(1, 3, size, size),
        dynamic=True,
        dynamic_input_shapes=[(None, 3, size, size)],
    )


# ---- symbols and files ------------------------------------------------------------------------------


def test_from_files(tmp_path):
    net = small_images()
    x = normal(2, 3, 8, 8)
    want = net(x).asnumpy()
    symbol, params = net.export(tmp_path / "net")
    mx.contrib.onnx.export_model(
        symbol, params, [(2, 3, 8, 8)], np.float32, str(tmp_path / "net.onnx"), verbose=True
    )
    (got,) = onnxruntime.InferenceSession(str(tmp_path / "net.onnx")).run(
        None, {"data": x.asnumpy()}
    )
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_group_norm_of_mxnet_1(tmp_path):
    """A scale and a shift for each group, not for each channel; the numbers are those of the formula."""
    x, scale, shift = normal(2, 4, 3, 3).asnumpy(), np.array([1.5, 2.5]), np.array([0.5, -1.0])
    made = mx.sym.GroupNorm(*map(mx.sym.var, ("data", "gamma", "beta")), num_groups=2, eps=1e-5)
    weights = {"gamma": mx.nd.array(scale), "beta": mx.nd.array(shift)}
    file = tmp_path / "net.onnx"
    with mx.config.scope(compat_version="1.9"):
        mx.onnx.export_model(made, [weights, {}], [x.shape], onnx_file_path=file)
    (got,) = onnxruntime.InferenceSession(str(file)).run(None, {"data": x})
    flat = x.reshape(2, 2, -1).astype("float64")
    flat = (flat - flat.mean(2, keepdims=True)) / np.sqrt(flat.var(2, keepdims=True) + 1e-5)
    want = (flat * scale[:, None] + shift[:, None]).reshape(x.shape)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_symbol_with_a_loss(tmp_path):
    """The label is no input of a network that predicts; MXNet's names of results stay."""
    data = mx.sym.var("data")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(data, num_hidden=3, name="fc"), name="softmax")
    weights = {"fc_weight": mx.nd.ones((3, 4)), "fc_bias": mx.nd.array([0.0, 1.0, 2.0])}
    file = tmp_path / "net.onnx"
    mx.onnx.export_model(net, [weights, {}], [(2, 4), (2,)], onnx_file_path=file)
    session = onnxruntime.InferenceSession(str(file))
    assert [o.name for o in session.get_outputs()] == ["softmax"]
    (got,) = session.run(None, {"data": np.ones((2, 4), "float32")})
    e = np.exp([0.0, 1.0, 2.0])
    np.testing.assert_allclose(got, [e / e.sum()] * 2, rtol=1e-5)


def test_large_model(tmp_path):
    net = small_images()
    agrees(net, tmp_path, normal(1, 3, 8, 8), large_model=True)
    assert (tmp_path / "net.onnx.data").stat().st_size > 0
    assert (tmp_path / "net.onnx").stat().st_size < 8000


def test_shapes_of_results(tmp_path):
    file = agrees(small_images(), tmp_path, normal(1, 3, 8, 8), run_shape_inference=True)
    assert len(onnx.load(file).graph.value_info) >= 5


# ---- errors ---------------------------------------------------------------------------------------------


def test_operator_without_translation(tmp_path):
    net = mx.sym.gamma(mx.sym.var("data"), name="odd")
    with pytest.raises(NotImplementedError, match="'odd'.*'gamma'.*no translation"):
        mx.onnx.export_model(net, {}, [(2,)], onnx_file_path=tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


def test_wrong_arguments(tmp_path):
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    weights = {"fc_weight": mx.nd.ones((3, 4)), "fc_bias": mx.nd.ones(3)}
    file = tmp_path / "net.onnx"
    with pytest.raises(ValueError, match="2 shapes for 1 inputs: .* data"):
        mx.onnx.export_model(net, weights, [(2, 4), (2,)], onnx_file_path=file)
    with pytest.raises(ValueError, match="a shape is needed for each of data"):
        mx.onnx.export_model(net, weights, onnx_file_path=file)
    with pytest.raises(ValueError, match="opset_version=7: 13 to"):
        mx.onnx.export_model(net, weights, [(2, 4)], onnx_file_path=file, opset_version=7)
    with pytest.raises(ValueError, match="sym, got int"):
        mx.onnx.export_model(3, weights, [(2, 4)], onnx_file_path=file)
    with pytest.raises(AssertionError, match="dynamic_input_shapes"):
        mx.onnx.export_model(
            net, weights, [(2, 4)], onnx_file_path=file, dynamic_input_shapes=[(None, 4)]
        )
    with pytest.raises(errors.MXNetError, match="fc.*shape"):
        mx.onnx.export_model(net, weights, [(2, 5)], onnx_file_path=file)


def test_operator_support():
    names = mx.onnx.get_operator_support()
    assert {"Convolution", "FullyConnected", "RNN", "_contrib_box_nms", "_npi_add"} <= set(names)


def test_onnx_is_loaded_when_it_is_used():
    code = "import sys, mxjax as mx; mx.gluon.nn, mx.onnx.export_model; sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("generation", [1, 2])
def test_mxnet_1_reads_weights_that_are_listed_among_the_inputs(tmp_path, generation):
    """Its importer raised KeyError for other files, and its exporter lists them; other programs want data alone."""
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    params = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.zeros(2)}
    with mx.config.scope({"compat.version": "1.9" if generation == 1 else "2.0"}):
        path = mx.onnx.export_model(net, params, [(1, 3)], np.float32, str(tmp_path / "m.onnx"))
    model = onnx.load(path)
    onnx.checker.check_model(model)
    names = ["data"] if generation == 2 else ["data", "fc_weight", "fc_bias"]
    assert sorted(i.name for i in model.graph.input) == sorted(names)
    session = onnxruntime.InferenceSession(path)
    found = session.run(None, {"data": np.ones((1, 3), "float32")})[0]
    assert found.tolist() == [[3, 3]]
