"""Operators written in Python as parts of graphs that are written down, rehearsed, or served for many lengths."""

import json

import numpy as np
import pytest

import mxjax as mx
from mxjax import _deferred_compute as deferred
from mxjax import autograd, gluon

EVENTS = []


class Scaled(mx.operator.CustomOp):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, is_train, req, in_data, out_data, aux):
        EVENTS.append("forward")
        if aux:
            aux[0][:] = aux[0] + in_data[0]
        self.assign(out_data[0], req[0], mx.np.array(in_data[0].asnumpy() * self.by))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        EVENTS.append("backward")
        self.assign(in_grad[0], req[0], out_grad[0] * -5)


@mx.operator.register("test_in_files_scaled")
class ScaledProp(mx.operator.CustomOpProp):
    def __init__(self, by="2"):
        super().__init__()
        self.by = float(by)

    def create_operator(self, ctx, shapes, dtypes):
        return Scaled(self.by)


@mx.operator.register("test_in_files_counted")
class CountedProp(ScaledProp):
    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], [in_shape[0]]


class Net(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.first, self.last = gluon.nn.Dense(3, in_units=2), gluon.nn.Dense(2, in_units=3)

    def forward(self, x):
        return self.last(mx.nd.Custom(self.first(x), op_type="test_in_files_scaled", by=3))


def net(**options):
    made = Net()
    made.initialize(mx.init.Xavier())
    made.hybridize(**options)
    EVENTS.clear()
    return made


def test_an_exported_network_has_the_operator_as_a_node(tmp_path):
    """MXNet 2.0.0b1 loads these files and computes the same, with the operator registered."""
    block, x = net(), mx.np.array([[1.0, 2.0], [3.0, 5.0]])
    want = block(x).asnumpy()
    symbol, params = block.export(str(tmp_path / "net"))
    nodes = json.loads((tmp_path / "net-symbol.json").read_text())["nodes"]
    (node,) = [n for n in nodes if n["op"] == "Custom"]
    assert node["attrs"]["op_type"] == "test_in_files_scaled" and node["attrs"]["by"] == "3"
    back = gluon.SymbolBlock.imports(symbol, ["data"], params)
    for hybridized in (False, True):
        back.hybridize(hybridized)
        np.testing.assert_allclose(back(x).asnumpy(), want, rtol=1e-6)
        x.attach_grad()
        with autograd.record():
            y = back(x)
        y.backward()
        weights = (
            block.last.weight.data().asnumpy()
            @ np.eye(3)
            * -5
            @ block.first.weight.data().asnumpy()
        )
        np.testing.assert_allclose(x.grad.asnumpy(), np.ones((2, 2)) @ weights, rtol=1e-5)


def test_deferred_computation_hears_of_the_operator_and_not_of_its_python():
    x = mx.np.ones(2)
    deferred.set_variable(x, mx.sym.var("x"))
    with deferred.context():
        y = mx.nd.Custom(x, op_type="test_in_files_scaled") + 1
    symbol = deferred.get_symbol(y)
    assert [n["op"] for n in json.loads(symbol.tojson())["nodes"]].count("Custom") == 1
    run = symbol.bind(mx.cpu(), {"x": mx.np.ones(2)}, {"x": mx.np.zeros(2)})
    run.forward(is_train=True)
    run.backward(mx.np.ones(2))
    assert run.grad_dict["x"].asnumpy().tolist() == [-5, -5]


def test_the_tape_as_a_symbol_has_the_operator_as_a_node():
    x = mx.np.ones(2)
    x.attach_grad()
    with autograd.record():
        y = mx.nd.Custom(x * 3, op_type="test_in_files_scaled") + 1
    symbol = autograd.get_symbol(y)
    assert [n["op"] for n in json.loads(symbol.tojson())["nodes"]].count("Custom") == 1
    (name,) = symbol.list_arguments()
    assert symbol.bind(mx.cpu(), {name: x}).forward()[0].asnumpy().tolist() == [7, 7]
    y.backward()
    assert x.grad.asnumpy().tolist() == [-15, -15]


def test_a_plan_of_one_program_is_refused():
    block, x = net(), mx.np.ones((4, 2))
    with pytest.raises(ValueError, match="traceable = True"):
        mx.memonger.plan(block, x, budget=1 << 20)


def test_a_file_says_which_inputs_are_auxiliary_states():
    text = mx.sym.Custom(mx.sym.var("x"), op_type="test_in_files_counted", name="c").tojson()
    symbol = mx.sym.load_json(text)
    assert (symbol.list_arguments(), symbol.list_auxiliary_states()) == (["x"], ["c_count"])
    run = symbol.simple_bind(mx.cpu(), x=(2,))
    for k in range(1, 7):
        run.forward(is_train=bool(k % 2), x=mx.nd.ones((2,)))
        assert run.aux_dict["c_count"].asnumpy().tolist() == [k, k]
    damaged = json.loads(text)
    next(n for n in damaged["nodes"] if n["op"] == "Custom")["inputs"].pop()
    with pytest.raises(mx.errors.FormatError, match="takes data, count, got 1"):
        mx.sym.load_json(json.dumps(damaged))


def test_lengths_that_share_a_graph_would_show_the_python_other_arrays():
    block = net(dynamic_batch=True)
    for n in (3, 4, 5, 3):
        x = mx.np.ones((n, 2))
        x.attach_grad()
        with autograd.record():
            y = block(x)
        y.backward()
        assert y.shape == (n, 2)
    assert EVENTS == ["forward", "backward"] * 4


def test_nothing_of_the_users_runs_in_a_rehearsal():
    block, x = net(), mx.np.ones((4, 2))
    with mx.core.rehearsal():
        with autograd.record():
            y = block(x)
        y.backward()
    assert y.shape == (4, 2) and EVENTS == []
    assert np.isfinite(block(x).asnumpy()).all() and EVENTS == ["forward"]


def test_parameters_that_are_auxiliary_states_are_written_to():
    class Counted(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.count = gluon.Parameter("count", shape=(2,), init="zeros", grad_req="null")

        def forward(self, x):
            return (
                mx.nd.Custom(x * 1, self.count.data(), op_type="test_in_files_counted")
                + self.count.data()
            )

    block = Counted()
    block.initialize()
    block.hybridize()
    for k in range(1, 5):
        # What comes after the operator reads what it wrote.
        assert block(mx.np.ones(2)).asnumpy().tolist() == [2 + k, 2 + k]
        assert block.count.data().asnumpy().tolist() == [k, k]
