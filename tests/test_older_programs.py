"""Executors, optimizers, hooks and readers of records as MXNet 1.9.1 has them (values recorded from it)."""

from __future__ import annotations

import io

import numpy as np
import pytest

import mxjax as mx
from mxjax import recordio
from mxjax.gluon import nn


@pytest.fixture
def mxnet1():
    with mx.config.scope(compat_version="1.9"), mx.name.NameManager():
        yield


def looked_up(**more):
    data, weight = mx.sym.var("data"), mx.sym.var("w")
    out = mx.sym.Embedding(data, weight, input_dim=5, output_dim=2, sparse_grad=True)
    if more.get("twice"):
        out = mx.sym.broadcast_add(out, mx.sym.sum(weight))
    bound = out.simple_bind(mx.cpu(), data=(3,), grad_req={"data": "null", "w": "write"})
    bound.forward(is_train=True, data=mx.nd.array([1, 3, 1]), w=mx.nd.ones((5, 2)))
    bound.backward(mx.nd.ones((3, 2)))
    return bound.grad_dict["w"]


def test_gradients_of_what_is_looked_up_are_row_sparse():
    grad = looked_up()
    assert grad.stype == "row_sparse" and grad.indices.asnumpy().tolist() == [1, 3]
    assert grad.asnumpy().tolist() == [[0, 0], [2, 2], [0, 0], [1, 1], [0, 0]]


def test_gradients_of_what_is_read_otherwise_too_are_dense():
    grad = looked_up(twice=True)
    assert grad.stype == "default"
    assert grad.asnumpy().tolist() == [[6, 6], [8, 8], [6, 6], [7, 7], [6, 6]]


def test_debug_str():
    bound = mx.sym.FullyConnected(mx.sym.var("a"), num_hidden=2, name="fc").simple_bind(
        mx.cpu(), a=(1, 2)
    )
    text = bound.debug_str()
    assert (
        text.startswith("Symbol Outputs:\n\toutput[0]=fc(0)\n")
        and "Op:FullyConnected, Name=fc" in text
    )
    assert text.splitlines()[-1].startswith("Total 0.0001 MB")  # 16 numbers of 4 bytes


def heard():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(2, in_units=2), nn.Activation("relu"))
    net.initialize()
    net.hybridize()
    told = []
    net.register_op_hook(lambda *args: told.append(args[:2]))
    net(mx.nd.ones((1, 2)))
    return told


def test_hooks_on_operators_hear_bytes(mxnet1):
    assert heard() == [
        (b"net_dense0_fwd_output", b"FullyConnected"),
        (b"net_relu0_fwd_output", b"Activation"),
    ]


def test_hooks_on_operators_hear_texts_of_mxnet_2():
    assert {type(part) for told in heard() for part in told} == {str}


def test_the_state_of_rmsprop_is_a_tuple(mxnet1):
    x = mx.nd.ones((2, 2))
    state = mx.optimizer.RMSProp().create_state(0, x)
    assert type(state) is tuple and len(state) == 1
    assert len(mx.optimizer.RMSProp(centered=True).create_state(0, x)) == 3
    assert type(mx.optimizer.SGD(momentum=0.9).create_state(0, x)) is mx.nd.NDArray
    updater = mx.optimizer.get_updater(mx.optimizer.RMSProp(learning_rate=0.1))
    weight = mx.nd.ones((2,))
    updater(0, mx.nd.ones((2,)), weight)
    np.testing.assert_allclose(
        weight.asnumpy(), [0.6837722] * 2, rtol=1e-6
    )  # 1 - 0.1 / sqrt(0.1 + 1e-8)
    other = mx.optimizer.get_updater(mx.optimizer.RMSProp(learning_rate=0.1))
    other.set_states(updater.get_states())
    assert type(other.states[0]) is tuple


def test_the_state_of_rmsprop_is_an_array_of_mxnet_2():
    assert isinstance(mx.optimizer.RMSProp().create_state(0, mx.np.ones((2, 2))), mx.np.ndarray)


def test_optimizers_are_compared_by_either_signature():
    def both():
        return mx.optimizer.SGD(learning_rate=0.1), mx.optimizer.SGD(learning_rate=0.1)

    mx.test_utils.compare_optimizer(*both(), (3, 4), "float32")
    mx.test_utils.compare_optimizer(*both(), shape=[(3, 4), (2,)], dtype="float32", ntensors=2)
    mx.test_utils.compare_optimizer(*both(), [(3, 4), (2,)], "float32")
    with pytest.raises(AssertionError):
        mx.test_utils.compare_optimizer(
            both()[0], mx.optimizer.SGD(learning_rate=0.3), (3, 4), "float32"
        )


#: How many records each part of 40 has, and its first: by the index all but the last are equal, else by bytes.
PARTS = {
    (3, True): [(14, 0), (14, 14), (12, 28)],
    (3, False): [(14, 0), (13, 14), (13, 27)],
    (7, True): [(6, 0), (6, 6), (6, 12), (6, 18), (6, 24), (6, 30), (4, 36)],
    (4, True): [(10, 0), (10, 10), (10, 20), (10, 30)],
}


def test_parts_of_records(tmp_path):
    Image = pytest.importorskip("PIL.Image")  # noqa: N806
    path = tmp_path / "p"
    writer = recordio.MXIndexedRecordIO(f"{path}.idx", f"{path}.rec", "w")
    for k in range(40):
        image = io.BytesIO()
        Image.fromarray(np.full((8, 8, 3), k, "uint8")).save(image, "JPEG")
        writer.write_idx(k, recordio.pack(recordio.IRHeader(0, float(k), k, 0), image.getvalue()))
    writer.close()
    for (parts, indexed), want in PARTS.items():
        found = []
        for k in range(parts):
            index = {"path_imgidx": f"{path}.idx"} if indexed else {}
            batches = mx.io.ImageRecordIter(
                path_imgrec=f"{path}.rec",
                data_shape=(3, 8, 8),
                batch_size=1,
                num_parts=parts,
                part_index=k,
                **index,
            )
            labels = [int(batch.label[0].asnumpy()[0]) for batch in batches]
            found.append((len(labels), labels[0]))
        assert found == want, (parts, indexed)


def test_foreach_over_numbers_gives_rows_of_one(mxnet1):
    def body(x, states):
        return x * states[0], [states[0] * 2]

    out, (last,) = mx.sym.contrib.foreach(body, mx.sym.var("d"), [mx.sym.var("s")])
    both = mx.sym.Group([out, last])
    assert both.infer_shape(d=(3,), s=(1,)) == ([(3,), (1,)], [(3, 1), (1,)], [])
    grads = {"d": mx.nd.zeros(3), "s": mx.nd.zeros(1)}
    bound = both.bind(mx.cpu(), {"d": mx.nd.arange(3), "s": mx.nd.array([2.0])}, args_grad=grads)
    bound.forward(is_train=True)
    bound.backward([mx.nd.ones((3, 1)), mx.nd.ones(1)])
    assert bound.outputs[0].asnumpy().tolist() == [[0], [4], [16]] and bound.outputs[
        1
    ].asnumpy().tolist() == [16]
    assert grads["d"].asnumpy().tolist() == [2, 4, 8] and grads["s"].asnumpy().tolist() == [18]

    class Looped(nn.HybridBlock):
        def hybrid_forward(self, F, x, s):
            return F.contrib.foreach(body, x, [s])

    for net in (Looped(), Looped()):
        for _ in range(2):
            out, (last,) = net(mx.nd.arange(3), mx.nd.array([2.0]))
            assert out.asnumpy().tolist() == [[0], [4], [16]] and last.asnumpy().tolist() == [16]
            net.hybridize()


def test_an_unfused_layer_has_its_parameters(mxnet1):
    layer = mx.gluon.rnn.LSTM(3, 2, input_size=4, prefix="u_", bidirectional=True)
    stack = layer._unfuse()
    assert stack.prefix == "u_" and set(stack.collect_params()) == set(layer.collect_params())
    layer.initialize(mx.init.Constant(0.1))
    x = mx.nd.ones((2, 3, 4))
    found = stack.unroll(2, x, layout="TNC", merge_outputs=True)[0].asnumpy()
    np.testing.assert_allclose(found, layer(x).asnumpy(), rtol=1e-5)
    layer.l0_i2h_weight.set_data(mx.nd.zeros((12, 4)))
    changed = stack.unroll(2, x, layout="TNC", merge_outputs=True)[0].asnumpy()
    np.testing.assert_allclose(changed, layer(x).asnumpy(), rtol=1e-5)
    assert np.abs(changed - found).max() > 1e-3


@pytest.mark.parametrize(
    ("cell", "order"),
    [
        (mx.rnn.RNNCell, ["i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias"]),
        (mx.rnn.GRUCell, ["i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias"]),
        (mx.rnn.LSTMCell, ["i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"]),
    ],
)
def test_cells_of_symbols_ask_for_their_weights_in_order(cell, order):
    assert [name.removeprefix("c_") for name in cell(4, prefix="c_").params._params] == order


def test_a_deformable_convolution_says_what_is_not_as_usual(mxnet1):
    layer = mx.gluon.contrib.cnn.DeformableConvolution
    unlike = {"padding": (1, 1), "dilation": (2, 2), "use_bias": False, "strides": (2, 2)}
    assert repr(layer(4, kernel_size=(3, 3), **unlike)).removeprefix("DeformableConvolution") == (
        "(None -> 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(2, 2), bias=False)"
    )
    assert (
        repr(layer(4, kernel_size=(3, 3)))
        == "DeformableConvolution(None -> 4, kernel_size=(3, 3), stride=(1, 1))"
    )


def test_the_store_updates_what_several_devices_train():
    data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    found = {}
    for devices in (1, 2):
        module = mx.mod.Module(
            mx.sym.SoftmaxOutput(data, name="softmax"), context=[mx.cpu(k) for k in range(devices)]
        )
        module.bind([("data", (4, 3))], [("softmax_label", (4,))])
        module.init_params(mx.init.One())
        module.init_optimizer(optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
        found[devices] = module._update_on_kvstore
    assert found == {1: False, 2: True}


def test_rmsprop_by_its_older_names():
    w, g, n = mx.nd.ones(2), mx.nd.ones(2), mx.nd.zeros(2)
    np.testing.assert_allclose(
        mx.nd.rmsprop_update(w, g, n, lr=0.1, gamma1=0.9).asnumpy(), 0.68377227, rtol=1e-6
    )
    states = [mx.nd.zeros(2) for _ in range(3)]
    new = mx.nd.rmspropalex_update(w, g, *states, lr=0.1, gamma1=0.9, gamma2=0.8)
    np.testing.assert_allclose(new.asnumpy(), 0.6666667, rtol=1e-6)
    made = mx.sym.rmsprop_update(
        mx.sym.var("w"), mx.sym.var("g"), mx.sym.var("n"), lr=0.1, gamma1=0.9, name="r"
    )
    assert made.attr_dict()["r"]["rho"] == "0.9"


def test_one_array_in_a_file_is_a_list(mxnet1, tmp_path):
    path = str(tmp_path / "x-file")
    mx.npx.save(path, mx.np.arange(4))
    (found,) = mx.npx.load(path)
    assert found.asnumpy().tolist() == [0, 1, 2, 3]
    assert mx.nd.load(path)[0].asnumpy().tolist() == [0, 1, 2, 3]  # MXNet's container


class Branches(nn.Block):
    def __init__(self):
        super().__init__()
        self.register_child(nn.Dense(2), "q")
        self.a = nn.Dense(3)
        self._children["z"] = nn.Dense(4)


class Longer(nn.Sequential):
    def __init__(self):
        super().__init__()
        self.a = nn.Dense(3)
        self.add(nn.Dense(5))


def test_blocks_show_their_attributes(mxnet1):
    with mx.util.np_shape(False):
        assert repr(Branches()) == "Branches(\n  (a): Dense(None -> 3, linear)\n)"
    with mx.util.np_shape(True):
        assert (
            repr(Longer())
            == "Longer(\n  (a): Dense(-1 -> 3, linear)\n  (1): Dense(-1 -> 5, linear)\n)"
        )


def test_the_default_context_is_set_by_its_older_names():
    """As in MXNet 1.9.1, and, by `device._current`, in 2.0.0b1; for the thread."""
    assert mx.Context._default_ctx.value == mx.Context.default_ctx == mx.current_context()
    before = mx.current_context()
    with before:  # what is set is given back
        mx.Context.default_ctx = mx.cpu(1)
        assert mx.current_context() == mx.nd.ones(1).context == mx.cpu(1)
        mx.Context._default_ctx.value = mx.cpu(2)
        assert mx.Context.default_ctx == mx.cpu(2)
        token = mx.device._current.set(mx.cpu(3))
        assert mx.context._current.get() == mx.cpu(3)
        with mx.cpu(1):
            assert mx.Context._default_ctx.value == mx.cpu(1)
        assert mx.current_device() == mx.cpu(3)
        mx.device._current.reset(token)
        assert mx.current_device() == mx.cpu(2)
    assert mx.current_context() == before


@pytest.mark.parametrize(
    ("operator", "attributes", "name"),
    [
        ("Dropout", {}, "data"), ("LeakyReLU", {}, "data"), ("Pooling", {"kernel": (2, 2), "pool_type": "max"}, "data"),
        ("softmax", {}, "data"), ("Pad", {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 1, 1, 1)}, "data"),
        ("swapaxes", {"dim1": 0, "dim2": 1}, "data"), ("one_hot", {"depth": 2}, "indices"), ("cumsum", {}, "a"),
        ("Activation", {"act_type": "relu"}, "input0"), ("Flatten", {}, "input0"), ("sum", {"axis": 1}, "input0"),
        ("transpose", {}, "input0"), ("negative", {}, "input0"), ("Cast", {"dtype": "float32"}, "input0"),
    ],
)  # fmt: skip
def test_a_monitor_names_inputs_as_there(mxnet1, operator, attributes, name):
    made = getattr(mx.sym, operator)(mx.sym.var("d"), name="q", **attributes)
    bound = made.simple_bind(mx.cpu(), d=(1, 2, 4, 4))
    monitor = mx.mon.Monitor(1, monitor_all=True)
    monitor.install(bound)
    monitor.tic()
    bound.forward(is_train=True)
    assert [row[1] for row in monitor.toc()][1:2] == [f"q_{name}"]
