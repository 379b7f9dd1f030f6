"""Recurrent layers and cells, against MXNet's (tests/record/recurrent.py) and against each other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import rnn

FOLDER = Path(__file__).parent.parent / "data"
DATA = json.loads((FOLDER / "recurrent.json").read_text())
OLD = json.loads((FOLDER / "recurrent_mxnet1.json").read_text())
CLOSE = {"rtol": 1e-5, "atol": 2e-6}


def fill(shape, number):
    """The parameter, input or head of a number, as the recorder made it."""
    n = int(np.prod(shape))
    return (np.cos(np.arange(n) * 1.3 + number).reshape(shape) * 0.5).astype("float32")


def array(a):
    return np.array(a["data"], a["dtype"]).reshape(a["shape"])


def make(spec):
    name, args, kwargs = spec
    inner = [make(a) if isinstance(a, list) and a and isinstance(a[0], str) else a for a in args]
    args = [tuple(a) if isinstance(a, list) else a for a in inner]
    if name.endswith("SequentialRNNCell"):
        stack = getattr(rnn, name)()
        for cell in args:
            stack.add(cell)
        return stack
    return getattr(rnn, name)(*args, **kwargs)


class Unrolled(gluon.HybridBlock):
    """A cell as a block over sequences."""

    def __init__(self, cell, length, layout="NTC", merge=True):
        super().__init__()
        self.cell = cell
        self.how = length, layout, merge

    def forward(self, x, valid=None):
        length, layout, merge = self.how
        return self.cell.unroll(length, x, layout=layout, merge_outputs=merge, valid_length=valid)


def compare(made, wanted, **close):
    np.testing.assert_allclose(made.asnumpy(), array(wanted), **(close or CLOSE))


def both(cases, few, key):
    """Each case imperatively, and a few of them hybridized (compiling takes seconds)."""
    for k, case in enumerate(cases):
        name = key(case)
        yield pytest.param(case, False, id=f"{k}-{name}-imperative")
        marks = () if k in few else pytest.mark.slow  # the same code: seconds of compiling
        yield pytest.param(case, True, id=f"{k}-{name}-hybridized", marks=marks)


@pytest.mark.parametrize(("case", "hybridized"), both(DATA["layers"], (0, 5), lambda c: c["layer"]))
def test_a_layer_computes_what_mxnet_computes(case, hybridized):
    net = getattr(rnn, case["layer"])(*case["args"], **case["kwargs"])
    assert repr(net) == case["repr"]
    net.initialize()
    if hybridized:
        net.hybridize()
    n, t = (2, 4) if case["kwargs"].get("layout") == "NTC" else (4, 2)
    x = mx.np.array(fill((n, t, 2), 1))
    states = [mx.np.array(fill(s["shape"], 2 + k)) for k, s in enumerate(net.state_info(2))]
    net(x, states)
    assert net.rnn_param.shape == (case["size"],)
    net.rnn_param.set_data(fill((case["size"],), 0))
    x.attach_grad()
    with autograd.record():
        out, last = net(x, states)
    out.backward(mx.np.array(fill(out.shape, 7)))
    compare(out, case["out"])
    for state, wanted in zip(last, case["states"], strict=True):
        compare(state, wanted)
    if "grad" in case:
        compare(x.grad, case["grad"])
        compare(net.rnn_param.grad(), case["grads"])


@pytest.mark.parametrize(
    ("case", "hybridized"), both(DATA["cells"], (3, 4, 6, 7, 12), lambda c: c["cell"][0])
)
def test_a_cell_computes_what_mxnet_computes(case, hybridized):
    cell = make(case["cell"])
    axis = case["layout"].find("T")
    net = Unrolled(cell, case["shape"][axis], case["layout"])
    net.initialize()
    if hybridized:
        net.hybridize()
    x = mx.np.array(fill(case["shape"], 1))
    valid = () if case["lengths"] is None else (mx.np.array(case["lengths"], dtype="float32"),)
    net(x, *valid)
    assert repr(cell) == case["repr"]
    assert [[list(s["shape"]), s["__layout__"]] for s in cell.state_info(2)] == case["info"]
    params = cell.collect_params()
    assert {name: list(p.shape) for name, p in params.items()} == case["params"]
    for k, p in enumerate(params.values()):
        p.set_data(fill(p.shape, k))
    x.attach_grad()
    with autograd.record():
        out, states = net(x, *valid)
    out.backward(mx.np.array(fill(out.shape, 7)))
    compare(out, case["out"])
    for state, wanted in zip(states, case["states"], strict=True):
        compare(state, wanted)
    compare(x.grad, case["grad"])
    for name, p in params.items():
        compare(p.grad(), case["grads"][name])


@pytest.mark.parametrize("case", OLD, ids=[c["layer"] for c in OLD])
@pytest.mark.parametrize("names", ["file", "attributes"])
def test_weights_of_1x_load(case, names):
    net = getattr(rnn, case["layer"])(3, **case["kwargs"])
    arrays = {
        name: mx.np.array(fill(shape, k)) for k, (name, shape) in enumerate(case["params"].items())
    }
    if names == "attributes":
        two = case["kwargs"].get("bidirectional")
        arrays = {
            (f"{k.split('.')[2][0]}{k.split('.')[1]}" if two else f"l{k.split('.')[1]}")
            + f"_{k.split('.')[-1]}": a
            for k, a in arrays.items()
        }
        assert sorted(arrays) == case["attributes"]
        net.pack_weights(arrays)
    else:
        outer = gluon.nn.HybridSequential()
        outer.add(gluon.nn.Identity(), net)
        outer.load_dict({f"1.{name}": a for name, a in arrays.items()})
    compare(net(mx.np.array(fill((4, 2, 2), 1))), case["out"])


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_an_unfused_layer_computes_the_same_by_one_scan_a_cell(kind):
    layer = getattr(rnn, kind)(3, 2, bidirectional=True, input_size=2, layout="NTC")
    layer.initialize(mx.init.Normal(0.5))
    net = Unrolled(layer._unfuse(), 10)
    x = mx.np.array(fill((2, 10, 2), 1))
    net.hybridize()
    np.testing.assert_allclose(net(x)[0].asnumpy(), layer(x).asnumpy(), **CLOSE)
    assert [s.call.name for s in net.graph(x).steps].count("_foreach") == 4
    back = rnn.LSTM(3, 2, bidirectional=True) if kind == "LSTM" else None
    if back is not None:
        back.pack_weights(layer.unpack_weights())
        assert (back.rnn_param.data() == layer.rnn_param.data()).asnumpy().all()


def test_lengths_of_rows_are_rows_cut_off():
    layer = rnn.LSTM(3, bidirectional=True, use_sequence_length=True)
    layer.initialize(mx.init.Normal(0.5))
    whole = rnn.LSTM(3, bidirectional=True)
    whole.share_parameters(layer.collect_params())
    x = mx.np.array(fill((5, 2, 4), 1))
    out, (h, _) = layer(x, layer.begin_state(2), mx.np.array([2, 5]))
    for row, n in enumerate((2, 5)):
        one, (last, _) = whole(x[:n, row : row + 1], whole.begin_state(1))
        np.testing.assert_allclose(out[:n, row].asnumpy(), one[:, 0].asnumpy(), **CLOSE)
        np.testing.assert_allclose(h[:, row].asnumpy(), last[:, 0].asnumpy(), **CLOSE)
    assert not out[2:, 0].asnumpy().any()
    with pytest.raises(ValueError, match="lengths of the rows"):
        layer(x)


@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
def test_masks_of_variational_dropout_are_the_same_at_every_step(hybridized):
    cell = rnn.VariationalDropoutCell(
        rnn.RNNCell(50, activation="relu"), drop_states=0.5, drop_outputs=0.5
    )
    net = Unrolled(cell, 12)
    net.initialize(mx.init.Constant(0.1))
    if hybridized:
        net.hybridize()
    x = mx.np.ones((1, 12, 4))
    net(x)
    with autograd.record():
        first, _ = net(x)
        second, _ = net(x)
    dropped = first.asnumpy()[0] == 0
    assert (dropped == dropped[0]).all() and 5 < dropped[0].sum() < 45
    assert ((second.asnumpy()[0] == 0)[0] != dropped[0]).any()


@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
def test_zoneout_keeps_the_values_of_the_step_before(hybridized):
    cell = rnn.ZoneoutCell(rnn.RNNCell(100, activation="relu"), zoneout_outputs=0.5)
    net = Unrolled(cell, 12)
    net.initialize(mx.init.Constant(0.01))
    if hybridized:
        net.hybridize()
    x = mx.np.array(np.arange(1, 13, dtype="float32").reshape(1, 12, 1))
    net(x)
    plain = net(x)[0].asnumpy()[0]  # in prediction every value is new, and each step's differ
    with autograd.record():
        out = net(x)[0].asnumpy()[0]
    before = np.zeros(100, "float32")
    for row, new in zip(out, plain, strict=True):
        kept, made = row == before, np.isclose(row, new, rtol=1e-5)
        assert (kept | made).all() and 20 < kept.sum() < 80
        before = row


def test_a_cell_that_keeps_arrays_itself_is_stepped():
    class Counting(rnn.HybridRecurrentCell):
        def __init__(self):
            super().__init__()
            self.total = None

        def state_info(self, batch_size=0):
            return [{"shape": (batch_size, 1), "__layout__": "NC"}]

        def forward(self, inputs, states):
            self.total = inputs if self.total is None else self.total + inputs
            return self.total, states

    net = Unrolled(Counting(), 10)
    net.hybridize()
    out, _ = net(mx.np.ones((1, 10, 1)))
    assert out.asnumpy().ravel().tolist() == list(range(1, 11))


def test_outputs_are_lists_or_arrays():
    cell = rnn.GRUCell(3)
    cell.initialize()
    steps = [mx.np.array(fill((2, 4), k)) for k in range(3)]
    outs, states = cell.unroll(3, steps)
    assert [o.shape for o in outs] == [(2, 3)] * 3
    assert (outs[-1] == states[0]).all()
    whole, _ = cell.unroll(3, steps, layout="TNC", merge_outputs=True)
    assert whole.shape == (3, 2, 3)
    with pytest.raises(AssertionError, match="4 steps"):
        cell.unroll(4, steps)
    with pytest.raises(AssertionError, match="an array"):
        cell.unroll(3, None)


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("lengths", [None, [3, 9]])
def test_dynamic_unroll_is_unroll(layout, lengths):
    cell = rnn.LSTMCell(3, input_size=2)
    cell.initialize(mx.init.Normal(0.5))
    x = mx.np.array(fill((9, 2, 2) if layout == "TNC" else (2, 9, 2), 1))
    valid = None if lengths is None else mx.np.array(lengths)
    out, states = rnn.rnn_cell.dynamic_unroll(
        cell, x, cell.begin_state(2), layout=layout, valid_length=valid
    )
    again, last = cell.unroll(9, x, layout=layout, merge_outputs=True, valid_length=valid)
    np.testing.assert_allclose(out.asnumpy(), again.asnumpy(), **CLOSE)
    for a, b in zip(states, last, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), **CLOSE)


@pytest.mark.parametrize(
    ("cell", "count", "said"), [(rnn.GRUCell, 0, "1 state,"), (rnn.LSTMCell, 1, "2 states,")]
)
def test_a_cell_says_how_many_states_it_takes(cell, count, said):
    made = cell(4)
    made.initialize()
    with pytest.raises(
        ValueError, match=f"{cell.__name__} takes a list of {said} got {count}: .*begin_state"
    ):
        made(mx.np.ones((2, 3)), [mx.np.ones((2, 4))] * count)


def test_errors():
    base = rnn.RNNCell(3)
    rnn.ResidualCell(base)
    with pytest.raises(AssertionError, match="modified twice"):
        rnn.ZoneoutCell(base)
    with pytest.raises(AssertionError, match="modifier cell"):
        base.begin_state(2)
    pair = rnn.BidirectionalCell(rnn.RNNCell(3), rnn.RNNCell(3))
    with pytest.raises(NotImplementedError, match="unroll"):
        pair(mx.np.ones((1, 2)), [])
    with pytest.raises(AssertionError, match="zoneout"):
        rnn.ZoneoutCell(pair)
    with pytest.raises(AssertionError, match="variational"):
        rnn.VariationalDropoutCell(pair, drop_states=0.1)
    with pytest.raises(AssertionError, match="odd number"):
        rnn.Conv1DRNNCell((2, 5), 3, 3, 2)
    with pytest.raises(AssertionError, match="layout"):
        rnn.LSTM(3, layout="CNT")
    layer = rnn.LSTM(3)
    layer.initialize()
    with pytest.raises(ValueError, match="Invalid recurrent state shape"):
        layer(mx.np.ones((2, 1, 4)), [mx.np.ones((1, 1, 2))] * 2)
    with pytest.raises(AssertionError, match="takes 2 states"):
        layer(mx.np.ones((2, 1, 4)), [mx.np.ones((1, 1, 3))])
    with pytest.raises(AssertionError, match="rank-3"):
        rnn.GRU(3).infer_shape(mx.np.ones((2, 3)))


@pytest.mark.parametrize("case", OLD, ids=lambda c: c["layer"])
def test_in_programs_of_1x_the_parameters_are_the_pieces(case, tmp_path):
    with mx.config.scope(compat_version="1.9"), mx.name.NameManager():
        net = getattr(rnn, case["layer"])(3, **case["kwargs"])
        title = case["layer"].lower()
        assert sorted(net.collect_params()) == [f"{title}0_{name}" for name in case["attributes"]]
        net.load_dict(
            {
                name: mx.nd.array(fill(shape, k))
                for k, (name, shape) in enumerate(case["params"].items())
            }
        )
        net.hybridize()
        x = mx.nd.array(fill((4, 2, 2), 1))
        compare(net(x), case["out"])
        with mx.autograd.record():
            net(x).sum().backward()
        assert np.abs(net.l0_h2h_weight.grad().asnumpy()).sum() > 0
        net.save_parameters(str(tmp_path / "old.params"))
        assert sorted(mx.nd.load(str(tmp_path / "old.params"))) == sorted(case["params"])
    today = getattr(rnn, case["layer"])(3, **case["kwargs"])
    today.load_parameters(str(tmp_path / "old.params"))
    compare(today(mx.np.array(fill((4, 2, 2), 1))), case["out"])
    today.save_parameters(str(tmp_path / "new.params"))
    with mx.config.scope(compat_version="1.9"), mx.name.NameManager():
        back = getattr(rnn, case["layer"])(3, input_size=2, **case["kwargs"])
        back.load_parameters(str(tmp_path / "new.params"))
        compare(back(x), case["out"])


def test_pieces_are_initialized_each_by_its_own():
    with mx.config.scope(compat_version="1.9"), mx.name.NameManager():
        net = rnn.LSTM(3, 2, i2h_weight_initializer="zeros", h2h_bias_initializer="ones")
        net.initialize(mx.init.Constant(0.5))
        net(mx.nd.ones((4, 2, 5)))
        parts = net.unpack_weights()
        net.pack_weights({name: a + 1 for name, a in parts.items()})
        assert net.l1_h2h_bias.data().asnumpy().tolist() == [2.0] * 12
    assert {k: float(a.asnumpy().mean()) for k, a in parts.items() if k.startswith("l1")} == {
        "l1_i2h_weight": 0.0, "l1_h2h_weight": 0.5, "l1_i2h_bias": 0.0, "l1_h2h_bias": 1.0
    }  # fmt: skip
    assert parts["l0_i2h_weight"].shape == (12, 5)


def _loops_of_a_step(hybrid):
    """How many loops there are in the largest program of a training step of an LSTM of two layers."""
    net = mx.gluon.rnn.LSTM(4, 2, input_size=4)
    net.initialize()
    if hybrid:
        net.hybridize()
    x, texts = mx.np.ones((9, 2, 4)), []

    def hear(name, device, compiled, options):
        texts.append(compiled.as_text())

    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
    mx.core.hooks.compile_listeners.append(hear)
    try:
        with mx.settings.scope("engine.cold", "compile"):
            for _ in range(2):
                with mx.autograd.record():
                    loss = net(x).sum()
                loss.backward()
                trainer.step(2)
                loss.wait_to_read()
    finally:
        mx.core.hooks.compile_listeners.remove(hear)
    return max(text.count(" while(") for text in texts)


def test_an_imperative_step_runs_no_layer_twice():
    # Two layers, forward and backward: the backward pass takes what the forward pass kept.
    assert _loops_of_a_step(False) == _loops_of_a_step(True) == 4


@pytest.mark.parametrize("layer", [rnn.LSTM, rnn.GRU, rnn.RNN, rnn.LSTMCell])
def test_a_layer_says_what_it_takes(layer):
    with pytest.raises(TypeError, match=rf"{layer.__name__}\(hidden_size, .*'hidden_size'"):
        layer()


def test_cells_show_an_unknown_width_as_mxnet_does():
    cells = [rnn.RNNCell(4), rnn.LSTMCell(4), rnn.GRUCell(4, input_size=3), rnn.LSTMPCell(4, 2)]
    with mx.util.np_shape(True):
        assert list(map(repr, cells)) == [
            "RNNCell(-1 -> 4, tanh)", "LSTMCell(-1 -> 16)", "GRUCell(3 -> 12)", "LSTMPCell(-1 -> 16 -> 2)",
        ]  # fmt: skip
    with mx.util.np_array(False), mx.util.np_shape(False):
        assert repr(cells[1]) == "LSTMCell(None -> 16)"


def test_hooks_hear_what_the_caller_gets():
    layer = rnn.LSTM(4, input_size=5)
    layer.initialize()
    heard = []
    layer.register_forward_hook(lambda block, given, out: heard.append(out))
    x = mx.np.ones((3, 2, 5))
    out = layer(x)
    assert heard[0] is out
    out, states = layer(x, layer.begin_state(2))
    assert heard[1][0] is out and len(heard[1][1]) == len(states) == 2
