"""Private methods that programs override: they are called when and as MXNet calls them (1.9.1 and 2.0.0b1)."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon, nd
from mxjax.gluon import nn, rnn


@pytest.fixture
def mxnet1():
    with mx.config.scope(compat_version="1.9"), mx.name.NameManager():
        yield


def recorded(cls, log, *names):
    """A subclass whose methods of these names say that they are called, with what they are given."""

    def method(name):
        def called(self, *args, **kwargs):
            log.append((name, *args))
            return getattr(super(made, self), name)(*args, **kwargs)

        return called

    made = type(cls.__name__, (cls,), {name: method(name) for name in names})
    return made


def first(x, n=3):
    return x.asnumpy().ravel()[:n]


def test_parameters():
    log = []
    P = recorded(
        gluon.Parameter, log, "_finish_deferred_init", "_init_impl", "_init_grad", "_reduce"
    )

    def calls():
        found = [name for name, *_ in log]
        log.clear()
        return found

    p = P("w", shape=(2, 3))
    p.initialize(mx.init.One())
    assert log[1][2] == [mx.cpu(0)] and log[1][1].shape == (2, 3)
    assert calls() == ["_finish_deferred_init", "_init_impl", "_init_grad"]
    p.grad_req = "add"
    assert calls() == ["_init_grad"]
    p.grad_req = "null"
    assert calls() == [] and p._grad is None
    p.grad_req = "write"
    assert calls() == ["_init_grad"]
    p.set_data(nd.ones((2, 3)) * 2)
    p.cast("float64")
    assert calls() == [] and p.data().dtype == np.float64
    p.reset_ctx(mx.cpu(1))
    assert calls() == ["_reduce", "_init_impl", "_init_grad"] and p.list_ctx() == [mx.cpu(1)]


def test_a_parameter_that_changes_what_is_drawn_and_loaded(tmp_path):
    class Half(gluon.Parameter):
        def _init_impl(self, data, ctx_list):
            super()._init_impl(data * 0.5, ctx_list)

    class Doubled(gluon.Parameter):
        def _load_init(self, data, ctx, cast_dtype=False, dtype_source="current"):
            super()._load_init(
                nd.concat(data, data, dim=0), ctx, cast_dtype=cast_dtype, dtype_source=dtype_source
            )

    class Net(nn.HybridBlock):
        def __init__(self, kind, rows):
            super().__init__()
            self.w = kind("w", shape=(rows, 2), init=mx.init.One())

        def forward(self, x):
            return x * self.w.data()

    net = Net(Half, 3)
    net.initialize()
    np.testing.assert_array_equal(net(mx.np.ones((3, 2))).asnumpy(), np.full((3, 2), 0.5))
    net.save_parameters(str(tmp_path / "w"))
    twice = Net(Doubled, 6)
    # The length of a file is that of the parameter: what a subclass makes of an array is its own affair.
    twice.w._load_init(nd.ones((3, 2)) * 3, mx.cpu())
    np.testing.assert_array_equal(twice.w.data().asnumpy(), np.full((6, 2), 3.0))
    with pytest.raises(AssertionError, match="shape incompatible"):
        twice.w._load_init(nd.ones((2, 2)), mx.cpu())
    with pytest.raises(AssertionError, match="dtype incompatible"):
        net.w._load_init(nd.ones((3, 2), dtype="float64"), mx.cpu())
    net.w._load_init(nd.ones((3, 2), dtype="float64") * 4, None, cast_dtype=True)
    assert net.w.data().dtype == np.float32 and net.w.data().asnumpy().max() == 4


def test_a_loaded_array_reaches_the_method(tmp_path):
    log = []
    dense = nn.Dense(2, in_units=3)
    dense.initialize("ones")
    dense.save_parameters(str(tmp_path / "p"))
    dense.weight = recorded(gluon.Parameter, log, "_load_init")("weight", shape=(2, 3))
    dense.load_parameters(str(tmp_path / "p"), mx.cpu())
    assert [name for name, *_ in log] == ["_load_init"] and isinstance(log[0][1], nd.NDArray)
    np.testing.assert_array_equal(dense.weight.data().asnumpy(), np.ones((2, 3)))


def test_rows_of_a_sparse_parameter():
    log = []
    p = gluon.Parameter("e", shape=(5, 2), stype="row_sparse", init=mx.init.One())
    p.initialize()
    with pytest.raises(RuntimeError, match="no Trainer"):
        p._get_row_sparse(p._data, None, nd.array([1]))
    trainer = recorded(gluon.Trainer, log, "_row_sparse_pull")([p], "sgd", {"learning_rate": 0.1})
    wanted = np.zeros((5, 2))
    wanted[[0, 2]] = 1
    np.testing.assert_array_equal(p.row_sparse_data(nd.array([0, 2])).asnumpy(), wanted)
    assert log.pop()[:2] == ("_row_sparse_pull", p) and trainer is not None
    wanted[[0, 2]], wanted[1] = 0, 1
    np.testing.assert_array_equal(p._get_row_sparse(p._data, None, nd.array([1])).asnumpy(), wanted)
    with pytest.raises(TypeError, match="row_id must have NDArray type"):
        p._get_row_sparse(p._data, None, [1])


def test_dictionaries(mxnet1):
    params = gluon.ParameterDict("a_")
    weight = params.get("w", shape=(1,))
    shared = gluon.ParameterDict("b_", shared=params)
    assert params._get_impl("a_w") is weight and params._get_impl("zz") is None
    assert shared._get_impl("a_w") is weight and list(shared) == ["a_w"]


def test_attributes_are_inferred(mxnet1):
    log = []

    class Net(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.w = self.params.get("w", shape=(3, 0), allow_deferred_init=True, init="ones")

        def hybrid_forward(self, F, x, w):
            return F.FullyConnected(x, w, num_hidden=3, no_bias=True)

    net = recorded(Net, log, "_infer_attrs")()
    net.initialize()
    x = nd.ones((4, 6))
    np.testing.assert_array_equal(net(x).asnumpy(), np.full((4, 3), 6.0))
    net.infer_shape(x)
    net.infer_type(x)
    assert [args[:3] for args in log] == [
        ("_infer_attrs", "infer_shape", "shape"),
        ("_infer_attrs", "infer_shape", "shape"),
        ("_infer_attrs", "infer_type", "dtype"),
    ]


def test_a_forward_runs_once_though_its_parameters_wait():
    calls = []

    class Net(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.w = gluon.Parameter("w", shape=(3, -1), allow_deferred_init=True, init="ones")

        def infer_shape(self, x):
            self.w.shape = (3, x.shape[1])

        def forward(self, x):
            calls.append(x.shape)
            return mx.npx.fully_connected(x, self.w.data(), num_hidden=3, no_bias=True)

    net = Net()
    net.initialize()
    np.testing.assert_array_equal(net(mx.np.ones((4, 6))).asnumpy(), np.full((4, 3), 6.0))
    assert calls == [(4, 6)]


def test_parameters_are_shared_level_by_level():
    log = []
    kind = recorded(nn.HybridSequential, log, "_shared_parameters")
    net, other = kind(), nn.HybridSequential()
    inner = recorded(nn.Dense, log, "_shared_parameters")(2, in_units=3)
    net.add(inner)
    other.add(nn.Dense(2, in_units=3), nn.Dense(1))
    with pytest.warns(UserWarning, match=r"1\.(weight|bias) is not in the current"):
        net.share_parameters(other.collect_params())
    assert inner.weight is other[0].weight and inner.bias is other[0].bias
    assert [args[3:] for args in log] == [(), ("0",)]


# ---- recurrent layers and cells


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("how", ["_forward_kernel", "hybrid_forward"])
def test_recurrent_layers_of_mxnet_1(mxnet1, how, hybridize):
    log = []

    class Forgetful(rnn.LSTM):
        """Its first layer has no recurrence."""

        def _forward_kernel(self, F, inputs, states, sequence_length, **kwargs):
            log.append((F, len(states), sequence_length, sorted(kwargs)))
            if how == "_forward_kernel":
                kwargs["l0_h2h_weight"] = kwargs["l0_h2h_weight"] * 0
            return super()._forward_kernel(F, inputs, states, sequence_length, **kwargs)

        def _register_param(self, name, shape, init, dtype):
            log.append((name, shape))
            return super()._register_param(name, shape, init, dtype)

    class ByForward(Forgetful):
        def hybrid_forward(self, F, inputs, states, sequence_length=None, **kwargs):
            kwargs["l0_h2h_weight"] = kwargs["l0_h2h_weight"] * 0
            return super().hybrid_forward(F, inputs, states, sequence_length, **kwargs)

    net = (Forgetful if how == "_forward_kernel" else ByForward)(3, 2)
    assert log[0] == ("l0_i2h_weight", (12, 0)) and log[4] == ("l1_i2h_weight", (12, 3))
    net.initialize(mx.init.Constant(0.1))
    net.hybridize(hybridize)
    x = nd.ones((4, 2, 5))
    out = net(x)
    np.testing.assert_allclose(first(out), [0.0137] * 3, atol=5e-5)
    out, states = net(x, net.begin_state(batch_size=2))
    np.testing.assert_allclose(first(states[0]), [0.3548] * 3, atol=5e-5)
    np.testing.assert_allclose(first(states[1]), [0.6475] * 3, atol=5e-5)
    F, count, lengths, names = log[-1]
    assert F is nd and count == 2 and lengths is None and len(names) == 8
    composed = net(mx.sym.var("x"))
    assert log[-1][0] is mx.sym and len(composed.list_arguments()) == 9
    ran = composed.eval(x=x, **{name: p.data() for name, p in net.collect_params().items()})
    np.testing.assert_allclose(ran[0].asnumpy(), net(x).asnumpy(), rtol=1e-5)


def test_what_recurrent_layers_keep(mxnet1):
    class Alone(rnn.LSTM):
        def hybrid_forward(self, F, inputs, states, sequence_length=None, **kwargs):
            out = self._forward_kernel(F, inputs, states, sequence_length, **kwargs)
            return out[0] * 2 if self.skip_states else out

    net = Alone(3, i2h_weight_initializer="ones", state_clip_min=-0.1, state_clip_max=0.1)
    assert net.skip_states is None and net._i2h_weight_initializer == "ones"
    assert (net._lstm_state_clip_min, net._lstm_state_clip_max) == (-0.1, 0.1)
    assert (net._h2h_weight_initializer, net._i2h_bias_initializer) == (None, "zeros")
    net.initialize(mx.init.Constant(0.1))
    x = nd.ones((4, 2, 5))
    out, states = net(x, net.begin_state(batch_size=2))
    assert net.skip_states is False and abs(states[1].asnumpy()).max() <= np.float32(0.1)
    doubled = net(x)
    assert net.skip_states is True
    # Without states a layer of 1.9 is what `hybrid_forward` gives.
    np.testing.assert_allclose(doubled.asnumpy(), out.asnumpy() * 2, rtol=1e-6)


@pytest.mark.parametrize("version", ["1.9", "2.0"])
def test_an_own_forward_decides_about_states(version):
    class Own(rnn.GRU):
        def hybrid_forward(self, F, inputs, states, **kwargs):
            out = super().hybrid_forward(F, inputs, states, **kwargs)
            return out * 2 if self.skip_states else (out[0] * 3, out[1])

    class Forward(rnn.GRU):
        def forward(self, inputs, states, sequence_length=None):
            out = super().forward(inputs, states, sequence_length)
            return out * 2 if self.skip_states else (out[0] * 3, out[1])

    with mx.config.scope(compat_version=version):
        make, kind = (mx.nd, Own) if version == "1.9" else (mx.np, Forward)
        net = kind(3)
        net.initialize(mx.init.Constant(0.1))
        heard = []
        net.register_forward_hook(lambda block, args, out: heard.append(type(out)))
        x = make.ones((4, 2, 5))
        out, states = net(x, net.begin_state(batch_size=2))
        np.testing.assert_allclose(first(out), [0.5234] * 3, atol=5e-5)
        alone = net(x)
        assert alone.shape == (4, 2, 3) and states[0].shape == (1, 2, 3)
        np.testing.assert_allclose(alone.asnumpy() * 1.5, out.asnumpy(), rtol=1e-6)
        assert heard == [tuple, type(x)]
        if version == "1.9":
            assert len(net(mx.sym.var("x")).list_outputs()) == 1
            given = net.begin_state(func=mx.sym.var)
            assert len(net(mx.sym.var("x"), given)[0].list_outputs()) == 1


def test_recurrent_layers_of_mxnet_2():
    log = []
    net = recorded(rnn.LSTM, log, "_forward_kernel")(3, 2)
    net.initialize(mx.init.Constant(0.1))
    net(mx.np.ones((4, 2, 5)))
    ((_, inputs, states, lengths),) = log
    assert inputs.shape == (4, 2, 5) and len(states) == 2 and lengths is None


PEEPLESS = [0.2275, 0.3467, 0.3467], [0.3552, 0.5301, 0.5301], [0.4155, 0.6045, 0.6045]


@pytest.mark.parametrize("hybridize", [False, True])
def test_an_own_cell_of_convolutions(mxnet1, hybridize):
    from mxjax.gluon.contrib.rnn.conv_rnn_cell import _BaseConvRNNCell

    class Peepless(_BaseConvRNNCell):
        def __init__(self, input_shape, hidden, prefix=None, params=None):
            super().__init__(
                input_shape=input_shape, hidden_channels=hidden, i2h_kernel=(3, 3), h2h_kernel=(3, 3), i2h_pad=(1, 1),
                i2h_dilate=(1, 1), h2h_dilate=(1, 1), i2h_weight_initializer=None, h2h_weight_initializer=None,
                i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", dims=2, conv_layout="NCHW",
                activation="tanh", prefix=prefix, params=params,
            )  # fmt: skip

        def state_info(self, batch_size=0):
            return [{"shape": (batch_size, *self._state_shape), "__layout__": self._conv_layout}]

        def _alias(self):
            return "peepless"

        @property
        def _gate_names(self):
            return ["_a", "_b"]

        def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
            prefix = f"t{self._counter}_"
            i2h, h2h = self._conv_forward(
                F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias, prefix
            )
            a, b = F.SliceChannel(i2h + h2h, num_outputs=2, axis=self._channel_axis)
            out = F.sigmoid(a) * self._get_activation(F, b, self._activation, name=f"{prefix}out")
            return out, [out]

    cell = Peepless((2, 4, 4), 3, prefix="c_")
    assert cell._num_gates == 2 and cell._state_shape == (3, 4, 4) and cell._stride == (1, 1)
    assert repr(cell) == "Peepless(2 -> 6, tanh, NCHW)"
    cell.initialize(mx.init.Constant(0.05))
    cell.hybridize(hybridize)
    x = nd.ones((1, 2, 4, 4))
    outs, _ = cell.unroll(3, [x, x, x], merge_outputs=False)
    for out, wanted in zip(outs, PEEPLESS, strict=True):
        np.testing.assert_allclose(first(out), wanted, atol=5e-5)
    composed, _ = cell(mx.sym.var("x"), [mx.sym.var("h")])
    assert composed.list_arguments()[1] == "c_i2h_weight"


CONV_LSTM = [0.2957, 0.4345, 0.4345]


@pytest.mark.parametrize("version", ["1.9", "2.0"])
def test_convolutions_of_a_cell(version):
    with mx.config.scope(compat_version=version):
        log = []

        class Louder(rnn.Conv2DLSTMCell):
            def _conv_forward(self, *given):
                log.append(given)
                i2h, h2h = super()._conv_forward(*given)
                return i2h * 2, h2h

        cell = recorded(Louder, log, "_decide_shapes")((2, 4, 4), 3, 3, 3, i2h_pad=1)
        assert log.pop() == ("_decide_shapes",)
        cell.initialize(mx.init.Constant(0.05))
        x = mx.nd.ones((1, 2, 4, 4)) if version == "1.9" else mx.np.ones((1, 2, 4, 4))
        out, _ = cell(x, cell.begin_state(batch_size=1))
        np.testing.assert_allclose(first(out), CONV_LSTM, atol=5e-5)
        assert [len(given) for given in log] == ([8] if version == "1.9" else [2])
        steps, _ = cell.unroll(1, [x], merge_outputs=False)
        np.testing.assert_allclose(first(steps[0]), CONV_LSTM, atol=5e-5)


@pytest.mark.parametrize("version", ["1.9", "2.0"])
def test_masks_and_activations_of_cells(version):
    with mx.config.scope(compat_version=version):
        log = []
        kind = recorded(
            rnn.VariationalDropoutCell, log, "_initialize_input_masks", "_initialize_output_mask"
        )
        base = recorded(rnn.RNNCell, log, "_get_activation")(3, input_size=4)
        cell = kind(base, drop_inputs=0.2)
        cell.initialize(mx.init.Constant(0.1))
        make = mx.nd if version == "1.9" else mx.np
        out, _ = cell(make.ones((2, 4)), cell.begin_state(batch_size=2, func=make.zeros))
        np.testing.assert_allclose(first(out), [0.3799] * 3, atol=5e-5)
        operators = version == "1.9"
        assert [(name, len(args)) for name, *args in log] == [
            ("_initialize_input_masks", 2 + operators),
            ("_get_activation", 2 + operators),
            ("_initialize_output_mask", 1 + operators),
        ]


def test_a_cell_whose_reset_is_its_own():
    class Cell(rnn.HybridRecurrentCell):
        def state_info(self, batch_size=0):
            return [{"shape": (batch_size, 3), "__layout__": "NC"}]

        def reset(self):
            pass

        def forward(self, inputs, states):
            return inputs + states[0], [inputs + states[0]]

    out, _ = Cell().unroll(3, mx.np.ones((2, 3, 3)), layout="NTC", merge_outputs=True)
    np.testing.assert_array_equal(out[0, :, 0].asnumpy(), [1, 2, 3])


# ---- losses, metrics, optimizers, text, pictures

A, B = [[1, 2, 3.0], [1, 0, 1]], [[3, 2, 1.0], [0, 1, 1]]


@pytest.mark.parametrize(("version", "wanted"), [("1.9", [0.6429, 0.25]), ("2.0", [0.6429, 0.25])])
def test_cosines(version, wanted):
    with mx.config.scope(compat_version=version):
        log = []

        class Half(gluon.loss.CosineEmbeddingLoss):
            def _cosine_similarity(self, *given):
                log.append(len(given))
                return super()._cosine_similarity(*given) * 0.5

        make = mx.nd if version == "1.9" else mx.np
        out = Half()(make.array(A), make.array(B), make.array([1, -1]))
        np.testing.assert_allclose(out.asnumpy().ravel(), wanted, atol=5e-5)
        assert log == [3 if version == "1.9" else 2]


def test_smoothed_deep_metric_learning(mxnet1):
    log = []

    class Wider(gluon.loss.SDMLLoss):
        def _compute_distances(self, x1, x2):
            return super()._compute_distances(x1, x2) * 2

    net = recorded(Wider, log, "_loss", "_compute_labels", "_compute_distances")(0.3)
    np.testing.assert_allclose(first(net(nd.array(A), nd.array(B))), [2.2073, 2.9891], atol=5e-5)
    assert [name for name, *_ in log] == ["_loss", "_compute_labels", "_compute_distances"]
    assert log[1][1:] == (nd, 2)


def test_the_matrix_of_pcc():
    log = []
    metric = recorded(gluon.metric.PCC, log, "_grow", "_calc_mcc")()
    scores = [[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0.5, 0.2, 0.3]]
    metric.update([mx.np.array([0, 1, 2])], [mx.np.array(scores)])
    assert abs(metric.get()[1] - 0.61237) < 1e-5
    assert log[0] == ("_grow", 1) and log[1][1].shape == (3, 3)


def test_top_k_of_one_axis():
    metric = gluon.metric.TopKAccuracy(2)
    scores = mx.np.array([[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0.5, 0.2, 0.3]])
    metric.update([mx.np.array([0, 1, 2])], [scores])
    metric.update([mx.np.array([0, 1, 2])], [mx.np.array([1.0, 1, 2])])
    assert metric.get() == ("top_k_accuracy_2", 1.0)  # numpy.argpartition gives 0, 1, 2
    metric.update([mx.np.array([1, 0, 2, 3])], [mx.np.array([0.5, 0.1, 3, 2])])
    order = np.argpartition(np.array([0.5, 0.1, 3, 2], "float32"), -2)
    assert metric.get()[1] == (6 + (order == [1, 0, 2, 3]).sum()) / 10
    with pytest.raises(AssertionError, match="batch, classes"):
        metric.update([mx.np.array([0])], [mx.np.ones((1, 2, 2))])


WARMED = {"linear": (1.3333, 0.0367), "power2": (1.1111, 0.1778), "sqrt": (1.5774, -0.0853)}


@pytest.mark.parametrize("strategy", [*WARMED, "lars"])
def test_large_batches(strategy):
    log = []
    names = "_cumulate_gradient", "_get_cum_gradient", "_put_cum_gradient", "_reset_cum_gradient"
    kind = recorded(mx.optimizer.LBSGD, log, *names, "_get_lbmult", "_get_lars")
    rule = kind(
        learning_rate=0.1, momentum=0.9, warmup_strategy=strategy, warmup_epochs=2, batch_scale=2, updates_per_epoch=3,
    )  # fmt: skip
    weight = nd.array([[1, 2.0], [3, 4]])
    state = rule.create_state(0, weight)
    for k in range(5):
        rule.update(0, weight, nd.ones((2, 2)) * (k + 1), state)
    factor = "_get_lars" if strategy == "lars" else "_get_lbmult"
    step = [*names[:3], *names[:3], factor, names[3]]
    assert [name for name, *_ in log] == step * 2 + step[:3]
    multiplier, wanted = WARMED.get(strategy, (None, 0.2306))
    np.testing.assert_allclose(weight.asnumpy().ravel()[0], wanted, atol=5e-5)
    if multiplier:
        assert abs(mx.optimizer.LBSGD._get_lbmult(rule, 2) - multiplier) < 1e-4
    assert rule._get_cum_gradient(0)["num_cums"] == 5


def test_vocabularies(tmp_path):
    text = mx.contrib.text
    log = []
    kind = recorded(
        text.vocab.Vocabulary, log, "_index_unknown_and_reserved_tokens", "_index_counter_keys"
    )
    counter = collections.Counter(["a", "b", "a", "c"])
    words = kind(counter, 2, unknown_token="<u>", reserved_tokens=["<p>"])
    assert words.idx_to_token == ["<u>", "<p>", "a", "b"]
    assert log[0] == ("_index_unknown_and_reserved_tokens", "<u>", ["<p>"])
    assert log[1] == ("_index_counter_keys", counter, "<u>", ["<p>"], 2, 1)
    log.clear()
    (tmp_path / "e.txt").write_text("a 1 2\nb 3 4\n")
    names = "_set_idx_to_vec_by_embeddings", "_index_tokens_from_vocabulary"
    vectors = recorded(text.embedding.CustomEmbedding, log, *names)(
        str(tmp_path / "e.txt"), vocabulary=words
    )
    assert [name for name, *_ in log] == list(names)
    assert log[0][2:] == (4, ["<u>", "<p>", "a", "b"])
    np.testing.assert_array_equal(vectors.idx_to_vec.asnumpy()[2:], [[1, 2], [3, 4]])


def test_boxes():
    from mxjax.image import DetHorizontalFlipAug, DetRandomCropAug

    log = []
    names = "_calculate_areas", "_intersect", "_check_satisfy_constraints"
    crop = recorded(DetRandomCropAug, log, *names)(area_range=(0.3, 1))
    label = np.array([[0, 0.1, 0.1, 0.6, 0.6], [1, 0.5, 0.5, 0.9, 0.9]])
    np.testing.assert_allclose(crop._calculate_areas(label[:, 1:]), [0.25, 0.16])
    np.testing.assert_allclose(
        crop._intersect(label[:, 1:], 0.2, 0.2, 0.8, 0.8)[0], [0.2, 0.2, 0.6, 0.6]
    )
    np.testing.assert_array_equal(
        crop._intersect(label[:, 1:], 0.7, 0.1, 0.8, 0.3), np.zeros((2, 4))
    )
    log.clear()
    crop(nd.zeros((20, 20, 3), dtype="uint8"), label)
    assert {name for name, *_ in log} == set(names)
    flip = recorded(DetHorizontalFlipAug, log, "_flip_label")(1.0)
    _, mirrored = flip(nd.zeros((2, 2, 3), dtype="uint8"), label.copy())
    assert log[-1][0] == "_flip_label"
    np.testing.assert_allclose(mirrored[0], [0, 0.4, 0.1, 0.9, 0.6])


def test_data_arguments_of_a_feed_forward():
    assert mx.model.FeedForward._is_data_arg("data") and mx.model.FeedForward._is_data_arg(
        "x_label"
    )
    assert not mx.model.FeedForward._is_data_arg("fc_weight")
