"""Recurrent cells on symbols: the names are those of MXNet 1.9.1, the numbers those of the same cells on arrays."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import contrib, rnn


@pytest.fixture(autouse=True)
def mxnet1():
    with mx.config.scope({"compat.version": "1.9"}):
        yield


def _steps(count):
    return [mx.sym.Variable(f"t{k}") for k in range(count)]


_DENSE = ["x", "r_i2h_weight", "r_i2h_bias", "r_t0_i2h_output"]


@pytest.mark.parametrize(
    ("cell", "inner"),
    [
        (lambda: rnn.RNNCell(3, prefix="r_"), ["plus0_output", "out_output"]),
        (
            lambda: rnn.LSTMCell(3, prefix="r_"),
            ["plus0_output", *(f"slice_output{k}" for k in range(4)), "o_output", "f_output", "mul0_output", "i_output",
             "c_output", "mul1_output", "state_output", "activation0_output", "out_output"],
        ),
        (
            lambda: rnn.GRUCell(3, prefix="r_"),
            [*(f"h2h_slice_output{k}" for k in range(3)), "plus1_output", "z_act_output", "ones_like0_output",
             "minus0_output", "plus0_output", "r_act_output", "mul0_output", "plus2_output", "h_act_output",
             "mul1_output", "mul20_output", "out_output"],
        ),
    ],
)  # fmt: skip
def test_a_steps_names(cell, inner):
    cell = cell()
    out, states = cell(mx.sym.var("x"), cell.begin_state(func=mx.sym.Variable))
    names = out.get_internals().list_outputs()
    assert names[:4] == _DENSE
    behind = names.index("r_t0_h2h_output") + 1
    assert [n for n in names[behind:] if n.startswith("r_t0_")] == [f"r_t0_{n}" for n in inner]
    assert [s.name for s in states] == ["r_t0_out", "r_t0_state"][: len(states)]


def _stack():
    made = rnn.SequentialRNNCell(prefix="stack_")
    made.add(rnn.LSTMCell(4, prefix="l0_"))
    made.add(rnn.ResidualCell(rnn.GRUCell(4, prefix="l1_")))
    return made


@pytest.mark.parametrize(
    ("make", "outputs"),
    [
        (
            lambda: rnn.RNNCell(3, activation="relu", prefix="r_"),
            ["r_t0_out_output", "r_t1_out_output"],
        ),
        (lambda: contrib.rnn.LSTMPCell(4, 3, prefix="r_"), ["r_t0_out_output", "r_t1_out_output"]),
        (_stack, ["elemwise_add0_output", "elemwise_add1_output"]),
        (
            lambda: rnn.BidirectionalCell(
                rnn.LSTMCell(3, prefix="l_"), rnn.GRUCell(3, prefix="r_"), output_prefix="both_"
            ),
            ["both_t0_output", "both_t1_output"],
        ),
        (lambda: contrib.rnn.VariationalDropoutCell(rnn.GRUCell(3, prefix="r_")), None),
        (
            lambda: rnn.ZoneoutCell(rnn.RNNCell(3, prefix="r_"), 0.0, 0.0),
            ["r_t0_out_output", "r_t1_out_output"],
        ),
    ],
)
@pytest.mark.parametrize("valid", [None, [1, 2]])
def test_unrolled_as_on_arrays(make, outputs, valid):
    rng = np.random.RandomState(0)
    data = mx.nd.array(rng.uniform(-1, 1, (2, 2, 4)))
    cell = make()
    cell.initialize(mx.init.Uniform(0.5))
    lengths = None if valid is None else mx.nd.array(valid)
    want, last = cell.unroll(2, data, layout="NTC", merge_outputs=True, valid_length=lengths)
    composed, states = cell.unroll(
        2,
        mx.sym.var("x"),
        layout="NTC",
        merge_outputs=True,
        valid_length=None if valid is None else mx.sym.var("n"),
    )
    parameters = {name: p.data() for name, p in cell.collect_params().items()}
    given = {"x": data, **parameters, **({} if valid is None else {"n": lengths})}
    group = mx.sym.Group([composed, *states])
    assert set(group.list_arguments()) == set(given)
    for got, expected in zip(group.bind(mx.cpu(), given).forward(), [want, *last], strict=True):
        np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)
    if valid is None and outputs is not None:
        with mx.name.NameManager():
            found, _ = make().unroll(2, _steps(2))
        assert mx.sym.Group(found).list_outputs() == outputs
        assert mx.sym.Group(found).infer_shape(t0=(5, 4), t1=(5, 4))[1][0] == (5, want.shape[2])


def test_layers_on_symbols():
    layer = rnn.GRU(3, bidirectional=True, layout="NTC", prefix="g_")
    layer.initialize()
    data = mx.nd.array(np.random.RandomState(1).uniform(-1, 1, (2, 4, 2)))
    want = layer(data)
    out = layer(mx.sym.var("data"))
    # Both directions' widths follow from the data's.
    assert out.infer_shape(data=(2, 4, 2))[1] == [(2, 4, 6)]
    given = {name: p.data() for name, p in layer.collect_params().items()}
    np.testing.assert_allclose(
        out.eval(data=data, **given)[0].asnumpy(), want.asnumpy(), rtol=1e-5, atol=1e-6
    )
    assert [s.name for s in layer.begin_state(2, func=mx.sym.zeros)] == ["g_h0_0"]


class _Own(rnn.HybridRecurrentCell):
    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self._width = width
        self.w = self.params.get("w", shape=(width, 2))

    def state_info(self, batch_size=0):
        return [{"shape": (batch_size, self._width), "__layout__": "NC"}]

    def hybrid_forward(self, F, inputs, states, w):  # noqa: N803
        out = (
            F.FullyConnected(
                inputs, w, num_hidden=self._width, no_bias=True, name=f"t{self._counter}_fc"
            )
            + states[0]
        )
        return out, [out]


def test_a_cell_of_ones_own_with_hybrid_forward():
    cell = _Own(3, prefix="own_")
    out, _ = cell.unroll(2, _steps(2))
    names = mx.sym.Group(out).get_internals().list_outputs()
    assert [n for n in names if "fc" in n] == ["own_t0_fc_output", "own_t1_fc_output"]
    cell.initialize(mx.init.One())
    out, states = cell.unroll(2, mx.nd.ones((1, 2, 2)), merge_outputs=True)
    assert out.asnumpy().tolist() == [[[2, 2, 2], [4, 4, 4]]] and cell._counter == 1
    assert type(states[0]) is mx.nd.NDArray


def test_states_are_arrays_of_the_inputs_kind():
    cell = rnn.GRUCell(2, input_size=2)
    cell.initialize()
    assert type(cell.begin_state(1)[0]) is mx.nd.NDArray
    assert type(cell.unroll(2, mx.nd.ones((1, 2, 2)), merge_outputs=True)[0]) is mx.nd.NDArray
    assert type(cell.unroll(2, mx.np.ones((1, 2, 2)), merge_outputs=True)[0]) is mx.np.ndarray
    layer = rnn.LSTM(2)
    layer.initialize()
    assert type(layer(mx.nd.ones((2, 1, 2)))) is mx.nd.NDArray
