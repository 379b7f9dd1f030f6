"""Layers of 8-bit integers: thresholds as MXNet calibrates them, graphs, accuracy, files."""

import json
from pathlib import Path

import numpy as onp
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.contrib import calibration, quantization

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "calibration.json").read_text())


def samples():
    rng = onp.random.RandomState(3)
    return {
        "normal": rng.normal(0, 1, 20000),
        "relu": onp.maximum(rng.normal(0, 1, 20000), 0),
        "outliers": onp.concatenate([rng.normal(0, 1, 20000), [40.0, -35.0]]),
    }


@pytest.mark.parametrize(("name", "levels", "threshold", "divergence"), RECORDED)
def test_thresholds(name, levels, threshold, divergence):
    x = samples()[name]
    reach = float(onp.abs(x).max())
    counts, edges = onp.histogram(x, bins=1001, range=(-reach, reach))
    got = calibration.optimal_threshold(counts, edges, levels)
    assert got[0] == pytest.approx(
        threshold, rel=0.02
    )  # float32 there: of nearly equal ones another is the least
    assert got[1] == pytest.approx(divergence, rel=1e-3, abs=1e-6)


def test_histograms_grow():
    x = samples()["normal"]
    parts = [x[:5000], x[5000:] * 1.5]
    collector = calibration.Histograms(["a"], num_bins=201)
    for part in parts:
        collector.collect("a", "op", mx.np.array(part))
        collector.collect("b", "op", part)
    counts, edges, low, high, reach = collector.hist_dict["a"]
    assert (
        list(collector.hist_dict) == ["a"]
        and counts.sum() == len(x)
        and len(edges) == len(counts) + 1
    )
    assert (low, high) == pytest.approx((parts[1].min(), parts[1].max()))
    assert edges[-1] == pytest.approx(reach) and reach >= max(-low, high)
    assert collector.post_collect()["a"][1] <= reach


def digits(n, seed):
    """Ten classes of 8x8 images: a pattern each, shifted by a pixel or not, with noise."""
    patterns = onp.random.RandomState(0).uniform(size=(10, 8, 8)) > 0.5
    rng = onp.random.RandomState(seed)
    label = rng.randint(0, 10, n)
    shifted = onp.stack([onp.roll(patterns[k], rng.randint(0, 2), 1) for k in label])
    return (shifted + rng.normal(0, 0.35, shifted.shape)).astype("float32")[:, None], label


def network():
    """Random features of a convolution, and a layer that least squares fits."""
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(16, 3, in_channels=1, activation="relu"),
        gluon.nn.MaxPool2D(2, 2),
        gluon.nn.Flatten(),
        gluon.nn.Dense(10, in_units=16 * 9),
    )
    mx.np.random.seed(3)
    net.initialize(mx.init.Normal(0.5))
    net[0].bias.set_data(
        mx.np.array(onp.random.RandomState(1).uniform(-0.5, 0.5, 16), dtype="float32")
    )
    x, label = digits(600, 1)
    features = net[2](net[1](net[0](mx.np.array(x)))).asnumpy()
    found = onp.linalg.lstsq(onp.c_[features, onp.ones(len(x))], onp.eye(10)[label], rcond=1e-3)[0]
    net[3].weight.set_data(mx.np.array(found[:-1].T, dtype="float32"))
    net[3].bias.set_data(mx.np.array(found[-1], dtype="float32"))
    return net


@pytest.fixture(scope="module")
def trained():
    net = network()
    x, label = digits(400, 2)
    x = mx.np.array(x)
    return net, x, label, net(x).asnumpy()


def loader(x):
    return gluon.data.DataLoader(gluon.data.ArrayDataset(x), batch_size=200)


def operators(net):
    return [n.operator for n in net._nodes if not n.is_variable]


def by_rounding(net, x, by_row=False, levels=127.5, wide=1):
    """The error that rounding makes, a standard deviation: each number is off by up to half a step, evenly.

    Steps of the data (``levels`` to its greatest number, ``wide`` times as large), of the weights (one, or one for each
    row), of what each layer gives; ReLU and maxima let errors through at most as they are.
    """
    conv, dense = net[0].weight.data().asnumpy(), net[3].weight.data().asnumpy()
    first = net[0](mx.np.array(x)).asnumpy()
    features = net[2](net[1](mx.np.array(first))).asnumpy()

    def variance(a, levels=127, rows=False):
        axes = tuple(range(1, a.ndim)) if rows else None
        return (onp.abs(a).max(axes) / levels) ** 2 / 12

    inner = (conv**2).sum((1, 2, 3)) * variance(wide * x, levels) + 9 * (x**2).mean() * variance(
        conv, rows=by_row
    )
    inner = onp.repeat(inner + variance(wide * first), 9)
    outer = (dense**2) @ inner + (features**2).sum(1).mean() * variance(dense, rows=by_row)
    return onp.sqrt((outer + variance(wide * net(mx.np.array(x)).asnumpy())).mean())


def close(got, want, expected):
    """Errors are of the size that is expected, and none is out of line."""
    off = got - want
    return onp.sqrt((off**2).mean()) < 1.5 * expected and onp.abs(off).max() < 5 * expected


@pytest.mark.parametrize("options", [
    {"calib_mode": "none"}, {"calib_mode": "naive"}, {"calib_mode": "entropy"},
    {"calib_mode": "none", "quantize_granularity": "channel-wise"},
    {"calib_mode": "naive", "quantize_granularity": "channel-wise", "quantized_dtype": "uint8"},
])  # fmt: skip
def test_accuracy(trained, options):
    net, x, label, want = trained
    mode, by_row = options["calib_mode"], "quantize_granularity" in options
    levels = 127.5
    if "quantized_dtype" in options:  # for data that is not negative
        levels, x = 255.5, mx.np.maximum(x, 0)
        want = net(x).asnumpy()
    made = quantization.quantize_net(net, calib_data=loader(x), **options)
    got = made(x).asnumpy()
    right = (want.argmax(1) == label).mean()
    assert right > 0.9
    assert (got.argmax(1) == label).mean() >= right - 0.005
    assert close(got, want, by_rounding(net, x.asnumpy(), by_row, levels))
    low = {
        p.shape
        for name, p in made.collect_params().items()
        if name.endswith("0.weight_quantize_min")
    }
    assert low == {(16,) if by_row else (1,)}
    dtypes = {name: p.dtype for name, p in made.collect_params().items()}
    assert dtypes["0.weight_quantize"] == dtypes["3.weight_quantize"] == onp.int8
    whole = ["_contrib_quantized_act", "_contrib_quantized_pooling", "_contrib_quantized_flatten"]
    if mode == "none":  # the bias of the convolution is added to floats
        assert "broadcast_add" in operators(made)
    else:
        assert dtypes["0.bias_quantize"] == onp.int32
        assert operators(made)[3:6] == whole


def test_export_and_exclusions(trained, tmp_path):
    net, x, _, want = trained
    made = quantization.quantize_net(
        net, calib_data=loader(x), calib_mode="naive", exclude_layers_match=["dense"]
    )
    assert "FullyConnected" in operators(made) and "_contrib_quantized_conv" in operators(made)
    made.hybridize()
    got = made(x).asnumpy()
    files = made.export(tmp_path / "whole")
    again = gluon.SymbolBlock.imports(files[0], ["data"], files[1])
    onp.testing.assert_allclose(again(x).asnumpy(), got, atol=1e-5)
    onp.testing.assert_allclose(got, want, atol=0.05)
    skip = ["Convolution", "FullyConnected"]
    none = quantization.quantize_net(
        net, data_shapes=[(1, 1, 8, 8)], exclude_operators=skip, quantize_mode="smart"
    )
    assert not [n for n in operators(none) if "quantize" in n]


class Wide(quantization.CalibrationCollector):
    """The range of all numbers, doubled."""

    def collect(self, name, op_name, arr):
        reach = 2 * float(abs(arr.asnumpy()).max())
        low, high = self.min_max_dict.get(name, (0, 0))
        self.min_max_dict[name] = min(low, -reach), max(high, reach)


def test_a_collector_of_ones_own(trained):
    net, x, _, want = trained
    made = quantization.quantize_net(
        net, calib_data=loader(x), calib_mode="custom", LayerOutputCollector=Wide()
    )
    found = next(n.params for n in made._nodes if n.operator == "_contrib_quantize_v2")
    assert found["max_calib_range"] == pytest.approx(2 * float(abs(x.asnumpy()).max()))
    assert close(made(x).asnumpy(), want, by_rounding(net, x.asnumpy(), wide=2))


def test_models_of_symbols():
    rng = onp.random.RandomState(0)
    sym = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc")
    params = {
        "fc_weight": mx.nd.array(rng.uniform(-1, 1, (4, 6))),
        "fc_bias": mx.nd.array(rng.uniform(-1, 1, 4)),
    }
    x = rng.uniform(-1, 1, (8, 6)).astype("float32")
    want = x @ params["fc_weight"].asnumpy().T + params["fc_bias"].asnumpy()
    qsym, qargs, aux = quantization.quantize_model(
        sym, params, {}, calib_mode="naive", calib_data=mx.io.NDArrayIter(x, batch_size=4)
    )
    assert sorted(qargs) == sorted(
        f"fc_{p}_quantize{e}" for p in ("weight", "bias") for e in ("", "_min", "_max")
    )
    got = qsym.bind(mx.current_device(), {"data": mx.nd.array(x), **qargs}).forward()[0].asnumpy()
    onp.testing.assert_allclose(got, want, atol=0.05)
    assert aux == {} and qsym.list_outputs() == ["fc_dequantize_output"]


def _layers(*names):
    data = mx.sym.Variable("data")
    return [
        mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=4, name=name)
        for name in names
    ]


_LAYER = ["quantized_conv", "requantize"]
#: What becomes of a symbol in modes 'full' and 'smart': operators of MXNet 1.9.1's quantized symbols, in order.
MODES = {
    "pooling alone": (
        lambda: mx.sym.Pooling(mx.sym.sin(mx.sym.Variable("data")), kernel=(2, 2), name="p"),
        ["sin", "quantize_v2", "quantized_pooling", "dequantize"],
        ["sin", "Pooling"],
    ),
    "pooling before a layer": (
        lambda: mx.sym.FullyConnected(
            mx.sym.Flatten(mx.sym.Pooling(mx.sym.Variable("data"), kernel=(2, 2))), num_hidden=3
        ),
        ["quantize_v2", "quantized_pooling", "quantized_flatten", "quantized_fully_connected", "requantize",
         "dequantize"],
        ["Pooling", "Flatten", "quantize_v2", "quantized_fully_connected", "requantize", "dequantize"],
    ),
    "a sum": (
        lambda: mx.sym.Pooling(mx.sym.elemwise_add(*_layers("a", "b")), kernel=(2, 2), name="p"),
        ["quantize_v2", *_LAYER, *_LAYER, "quantized_elemwise_add", "requantize", "quantized_pooling", "dequantize"],
        ["quantize_v2", *_LAYER, "dequantize", *_LAYER, "dequantize", "elemwise_add", "Pooling"],
    ),
    "a concatenation": (
        lambda: mx.sym.Activation(mx.sym.concat(*_layers("a", "b"), dim=1), act_type="relu", name="r"),
        ["quantize_v2", *_LAYER, *_LAYER, "quantized_concat", "quantized_act", "dequantize"],
        ["quantize_v2", *_LAYER, "dequantize", *_LAYER, "dequantize", "Concat", "Activation"],
    ),
}  # fmt: skip


def _quantized(sym, mode, calibration, **options):
    """The operators of a quantized symbol, its results and those of the one it was made from."""
    rng = onp.random.RandomState(0)
    x = rng.uniform(0, 1, (2, 3, 6, 6)).astype("float32")
    shapes, _, _ = sym.infer_shape(data=x.shape)
    params = {
        name: mx.nd.array(rng.uniform(-1, 1, shape))
        for name, shape in zip(sym.list_arguments(), shapes, strict=True)
        if name != "data"
    }
    quantized, ints, _ = quantization.quantize_model(
        sym, params, {}, calib_mode=calibration, calib_data=mx.io.NDArrayIter(x, batch_size=2), quantize_mode=mode,
        **options,
    )  # fmt: skip
    nodes = json.loads(quantized.tojson())["nodes"]
    operators = [n["op"].removeprefix("_contrib_") for n in nodes if n["op"] != "null"]
    data = {"data": mx.nd.array(x)}
    got, want = (
        s.bind(mx.current_device(), {**data, **p}).forward()[0].asnumpy()
        for s, p in ((quantized, ints), (sym, params))
    )
    return operators, got, want


@pytest.mark.parametrize("calibration", ["naive", "none"])
@pytest.mark.parametrize("mode", ["full", "smart"])
@pytest.mark.parametrize("kind", MODES)
def test_modes_tell_what_becomes_integers(kind, mode, calibration):
    make, *operators = MODES[kind]
    made, got, want = _quantized(make(), mode, calibration)
    if calibration == "naive":  # else biases are added to floats
        assert made == operators[mode == "smart"]
    onp.testing.assert_allclose(got, want, atol=0.03 * abs(want).max())


@pytest.mark.parametrize("calibration", ["naive", "entropy", "none"])
def test_a_bias_behind_a_concatenation(calibration):
    """The range of what is joined is the widest of its parts', not one that was calibrated."""
    joined = mx.sym.concat(*_layers("a", "b"), dim=1)
    sym = mx.sym.Convolution(joined, kernel=(1, 1), num_filter=2, name="c")
    made, got, want = _quantized(sym, "full", calibration)
    assert "quantized_concat" in made
    onp.testing.assert_allclose(got, want, atol=0.05 * abs(want).max())


@pytest.mark.parametrize("axis", [0, 1, 2, -1, None])
@pytest.mark.parametrize("join", [mx.np.concatenate, lambda ab, axis: mx.np.append(*ab, axis=axis)])
def test_numpy_concatenations_keep_their_axis(join, axis):
    class Net(gluon.nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer = gluon.nn.Conv2D(4, 1)

        def forward(self, x):
            return join([self.layer(x), x], axis=axis)

    net, x = Net(), mx.np.random.uniform(-1, 1, (2, 4, 5, 5))
    net.initialize()
    want = onp.concatenate([net.layer(x).asnumpy(), x.asnumpy()], axis)
    net.hybridize()
    net(x)
    made = quantization.quantize_net(
        net, calib_mode="none", quantize_mode="full", data_shapes=[x.shape]
    )
    assert ("quantized_concat" in made.export(None)[0].tojson()) == (axis is not None)
    onp.testing.assert_allclose(made(x).asnumpy(), want, atol=0.02)


def test_activations_of_numbers_without_a_sign():
    """MXNet 1.9.1 reads their bits as numbers with one, so that the larger half of them becomes 0."""
    sym = mx.sym.sin(mx.sym.Activation(mx.sym.Variable("data"), act_type="relu", name="r"))
    _, got, want = _quantized(sym, "full", "naive", quantized_dtype="uint8")
    onp.testing.assert_allclose(got, want, atol=0.01)


def test_a_parameter_that_is_added_stays_a_float():
    sym = mx.sym.elemwise_add(*_layers("a"), mx.sym.Variable("offset", shape=(2, 4, 6, 6)))
    made, got, want = _quantized(sym, "full", "naive")
    assert made[-1] == "elemwise_add"
    onp.testing.assert_allclose(got, want, atol=0.02 * abs(want).max())


@pytest.mark.parametrize("mode", ["none", "naive"])
def test_inputs_come_in_the_order_of_the_networks_arguments(mode):
    """Not in the one that its symbol reads them in: values of MXNet 2.0.0b1."""

    class Net(mx.gluon.HybridBlock):
        def forward(self, a, b, c):
            return c + mx.npx.relu(a)

    net = Net()
    net.initialize()
    net.hybridize()
    arrays = [mx.np.array([x]) for x in ([0.99, -0.5, 0.3], [7.0, 7, 7], [-0.98, 0.4, 0.2])]
    quantized = mx.contrib.quantization.quantize_net(
        net, quantized_dtype="int8", calib_mode=mode, calib_data=[arrays], num_calib_batches=1
    )
    onp.testing.assert_allclose(quantized(*arrays).asnumpy(), [[0.01, 0.4, 0.5]], atol=0.02)


@pytest.mark.parametrize("mode", ["none", "naive"])
@pytest.mark.parametrize("layer", ["Dense", "Conv2D"])
@pytest.mark.parametrize(
    "data, weight", [(1, 0), (1, 1e-6), (0, 1), (1e-6, 1), (1e-6, 1e-6), (0, 0)]
)
def test_a_bias_beside_which_the_products_are_next_to_nothing(layer, data, weight, mode):
    """It does not fit into 32 bits on the products' scale: it overflowed, where calibrated MXNet 2.0.0b1 is right."""
    rng = onp.random.RandomState(0)
    x, w, b = rng.uniform(-1, 1, (2, 8)), rng.uniform(-1, 1, (4, 8)), rng.uniform(-1, 1, 4)
    if layer == "Dense":
        net = mx.gluon.nn.Dense(4, in_units=8)
    else:
        net, x, w = mx.gluon.nn.Conv2D(4, 1, in_channels=8), x[..., None, None], w[..., None, None]
    net.initialize()
    net.weight.set_data(mx.np.array(w * weight))
    net.bias.set_data(mx.np.array(b))
    x = mx.np.array(x * data)
    quantized = mx.contrib.quantization.quantize_net(
        net, quantized_dtype="int8", quantize_mode="full", calib_mode=mode, calib_data=[[x]]
    )
    onp.testing.assert_allclose(quantized(x).asnumpy(), net(x).asnumpy(), atol=0.02)


def test_every_batch_of_an_iterator_is_seen():
    """The first one, too, which the network is not asked for its graph with."""
    net = mx.gluon.nn.Dense(1, in_units=2, use_bias=False)
    net.initialize(mx.init.One())
    batches = mx.io.NDArrayIter(onp.array([[8, 2], [1, 1.0]], "float32"), batch_size=1)
    quantized = mx.contrib.quantization.quantize_net(
        net, quantized_dtype="int8", calib_mode="naive", calib_data=batches
    )
    assert quantized(mx.np.array([[8.0, 2]])).item() == pytest.approx(10, abs=0.2)


def test_what_is_refused(trained):
    with pytest.raises(TypeError, match="takes a HybridBlock, which has a graph, got Sequential"):
        quantization.quantize_net(gluon.nn.Sequential(), data_shapes=[(1, 3)])
    net, x, _, _ = trained
    with pytest.raises(ValueError, match="data_shapes or calib_data"):
        quantization.quantize_net(net)
    with pytest.raises(ValueError, match="int4"):
        quantization.quantize_net(net, "int4", calib_data=loader(x))
    with pytest.raises(ValueError, match="channel-wise"):
        quantization.quantize_net(net, quantize_granularity="row-wise", calib_data=loader(x))
    with pytest.raises(ValueError, match="calibration mode"):
        quantization.quantize_net(net, calib_data=loader(x), calib_mode="best")
    with pytest.raises(ValueError, match="calib_data"):
        quantization.quantize_net(net, data_shapes=[(1, 1, 8, 8)], calib_mode="naive")
    with pytest.raises(ValueError, match="subclass"):
        quantization.quantize_net(
            net, calib_data=loader(x), calib_mode="custom", LayerOutputCollector=3
        )
    with pytest.raises(NotImplementedError, match="collect"):
        quantization.CalibrationCollector().collect("a", "b", 1)
    with pytest.raises(ValueError, match="calibration mode"):
        quantization.calib_graph(None, {}, {}, None, "none", quantized_dtype="int8")
