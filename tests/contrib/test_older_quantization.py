"""Steps of MXNet's quantization that scripts call; the numbers follow from NumPy."""

from __future__ import annotations

import numpy as onp
import pytest

import mxjax as mx
from mxjax.contrib import quantization as q


def test_files_and_pairs(tmp_path):
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    net.save(str(tmp_path / "net.json"))
    mx.nd.save(str(tmp_path / "net.params"), {"arg:w": mx.nd.ones(2), "aux:m": mx.nd.zeros(1)})
    assert (
        q._load_sym(net) is net
        and q._load_sym(str(tmp_path / "net.json")).list_arguments() == net.list_arguments()
    )
    arguments, states = q._load_params(str(tmp_path / "net.params"))
    assert (
        list(arguments) == ["w"]
        and list(states) == ["m"]
        and q._load_params((arguments, states))[1] is states
    )
    for refused in (lambda: q._load_sym(3), lambda: q._load_params(3)):
        with pytest.raises(ValueError, match="path"):
            refused()


def test_batches_as_an_iterator():
    data, inputs = q._as_data_iter([[mx.nd.ones((2, 3)), mx.nd.zeros(2)]])
    assert [(x.name, x.shape) for x in inputs] == [
        ("data", (2, 3)),
        ("data0", (2,)),
    ] and data.batch_size == 2
    assert [len(batch.data) for batch in data] == [2]
    with pytest.raises(TypeError, match="not a valid iterator"):
        q._as_data_iter(3)


def test_what_layers_give():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (2, 3))], for_training=False)
    module.init_params(mx.init.One())
    x = onp.array([[1, 2, 3], [4, 5, 6], [0, 0, -1], [1, 1, 1]], "float32")
    found, count = q._collect_layer_output_min_max(
        module, mx.io.NDArrayIter(x, batch_size=2), "int8", ["fc_output"]
    )
    assert found == {"fc_output": (-1.0, 15.0)} and count == 4
    found, _ = q._collect_layer_histogram(module, mx.io.NDArrayIter(x, batch_size=2), ["fc_output"])
    counts, edges, low, high, reach = found["fc_output"]
    assert counts.sum() == 8 and (low, high, reach) == (-1, 15, 15) and edges[-1] == 15


def test_thresholds():
    numbers = onp.random.RandomState(0).randn(10000)
    counts, edges = onp.histogram(numbers, bins=1001, range=(-4, 4))
    found = q._get_optimal_thresholds({"fc": (counts, edges, -4, 4, 4)}, "int8")
    assert found["fc"][0] == -found["fc"][1] and 1 < found["fc"][1] <= 4
    smooth = q._smooth_distribution(onp.array([0.0, 1.0, 3.0]), 0.1)
    assert smooth == pytest.approx([0.1, 0.95, 2.95])
    with pytest.raises(ValueError, match="All entries are 0"):
        q._smooth_distribution(onp.zeros(3))


def _rectified(seed):
    return onp.maximum(onp.random.RandomState(seed).randn(3000), 0)


@pytest.mark.parametrize(
    "numbers, dtype, reach",
    [
        (_rectified(1), "int8", 3.5115),
        (_rectified(3), "auto", 3.3287),
        (onp.abs(onp.random.RandomState(2).randn(3000)), "int8", 3.62),
        (onp.abs(onp.random.RandomState(2).randn(3000)), "auto", 3.6611),
    ],
)
def test_nearly_equal_divergences(numbers, dtype, reach):
    """The least of many sums that differ in the seventh digit: MXNet 2.0.0b1's, which adds in 32 bits."""
    widest = numbers.max()
    counts, edges = onp.histogram(numbers, bins=2001, range=(-widest, widest))
    found = q._LayerHistogramCollector.get_optimal_threshold(
        (counts, edges, numbers.min(), widest, widest), dtype
    )
    assert found[2] == pytest.approx(reach, abs=1e-4)


def test_collectors_of_mxnet2():
    """As 2.0.0b1 calls them: the dtype first, the operator's name between name and array."""
    collector = q._LayerHistogramCollector("int8", include_layers=["a"])
    collector.collect("a", "relu", mx.nd.array([1.0, -3.0]))
    collector.collect("b", "relu", mx.nd.array([1.0]))
    assert list(collector.hist_dict) == ["a"] and collector.hist_dict["a"][2:] == (-3, 1, 3)
    # All of it is at one edge, which must stay within reach; lists serve as histograms, too.
    edges = list(onp.linspace(-2, 2, 1000))
    worst = collector.get_optimal_threshold(([0] * 998 + [1000], edges, -2, 2, 2), "int8", 5)
    assert worst == (-2, 2, 2, 0)
    found = collector.get_optimal_thresholds({"a": ([0] * 998 + [1000], edges, 0, 2, 2)}, "auto", 5)
    assert found == {"a": (0, 2)}
    extremes = q._LayerOutputMinMaxCollector("int8", ["a"])
    extremes.collect("a", "relu", mx.nd.array([1.0, -3.0]))
    assert extremes.post_collect() == {"a": (-3, 1)}


@pytest.mark.parametrize("dtype", ["int8", "auto"])
def test_a_module_binds_a_network_that_was_not_calibrated(dtype):
    """MXNet 1's own scripts: the backend's symbol, `quantize_model`, a Module bound by the data's shape."""
    random = onp.random.RandomState(0)
    data = mx.sym.var("data")
    first = mx.sym.Convolution(data, kernel=(1, 1), num_filter=3, name="c1")
    second = mx.sym.Convolution(data, kernel=(1, 1), num_filter=3, name="c2")
    second = mx.sym.Activation(second, act_type="relu")
    symbol = mx.sym.elemwise_add(first, second)
    shapes = {
        "c1_weight": (3, 2, 1, 1),
        "c1_bias": (3,),
        "c2_weight": (3, 2, 1, 1),
        "c2_bias": (3,),
    }
    args = {name: mx.nd.array(random.uniform(-1, 1, shape)) for name, shape in shapes.items()}
    pictures = random.uniform(-1, 1, (1, 2, 2, 2)).astype("float32")

    def run(symbol, args, aux):
        module = mx.mod.Module(symbol, label_names=None)
        module.bind([("data", pictures.shape)], for_training=False)
        module.set_params(args, aux)
        module.forward(mx.io.DataBatch([mx.nd.array(pictures)]), is_train=False)
        return module.get_outputs()[0].asnumpy()

    def layer(name):
        weight, bias = args[f"{name}_weight"].asnumpy()[:, :, 0, 0], args[f"{name}_bias"].asnumpy()
        return onp.einsum("oi,nihw->nohw", weight, pictures) + bias[:, None, None]

    want = layer("c1") + onp.maximum(layer("c2"), 0)
    onp.testing.assert_allclose(run(symbol, args, {}), want, rtol=1e-5, atol=1e-6)
    backend = symbol.get_backend_symbol("MKLDNN_QUANTIZE")
    made = q.quantize_model(
        backend, args, {}, ctx=mx.cpu(), calib_mode="none", quantized_dtype=dtype
    )
    onp.testing.assert_allclose(run(*made), want, atol=0.01 * onp.abs(want).max())


def test_calibration_by_batches_with_lists_in_them():
    """A recurrent network's batches hold its states in a list; labels come after them."""
    random = onp.random.RandomState(0)

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.data, self.states = mx.gluon.nn.Dense(3), mx.gluon.nn.Dense(3)

        def forward(self, x, states):
            return self.data(x) + self.states(states[0] - states[1])

    x, first, second, label = (
        mx.np.array(random.uniform(-1, 1, shape)) for shape in [(2, 3), (2, 4), (2, 4), (2,)]
    )
    net = Net()
    net.initialize()
    want = net(x, [first, second]).asnumpy()
    made = q.quantize_net(
        net, calib_data=[[x, [first, second], label]] * 2, calib_mode="naive", num_calib_batches=2,
    )  # fmt: skip
    onp.testing.assert_allclose(
        made(x, [first, second]).asnumpy(), want, atol=0.05 * onp.abs(want).max()
    )
