"""Loops and branches over symbols: numbers against Python, files there and back, shapes of what a body makes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.errors import FormatError

DATA = Path(__file__).parents[1] / "data" / "symbols_control_flow.json"


def loop():
    x, s, w = (mx.sym.var(n) for n in "xsw")

    def body(now, state):
        y = mx.sym.FullyConnected(now, num_hidden=3, name="fc") + state * w
        return y, y

    return mx.sym.Group(mx.sym.contrib.foreach(body, x, s))


def numbers():
    rs = np.random.RandomState(2)
    return {
        "x": rs.rand(4, 2, 5), "s": rs.rand(2, 3), "w": rs.rand(2, 3), "fc_weight": rs.rand(3, 5),
        "fc_bias": rs.rand(3),
    }  # fmt: skip


def test_foreach_and_its_gradient():
    net = loop()
    assert net.list_arguments() == ["x", "s", "fc_weight", "fc_bias", "w"]
    assert (
        net.list_outputs() == ["_foreach0_output0", "_foreach0_output1"]
        or len(net.list_outputs()) == 2
    )
    given = numbers()
    want, state = [], given["s"]
    for now in given["x"]:
        state = now @ given["fc_weight"].T + given["fc_bias"] + state * given["w"]
        want.append(state)
    arrays = {k: mx.nd.array(v) for k, v in given.items()}
    grads = {k: mx.nd.zeros(v.shape) for k, v in given.items()}
    for made in (net, mx.sym.load_json(net.tojson())):
        run = made.bind(mx.cpu(), arrays, grads)
        outs = run.forward(is_train=True)
        np.testing.assert_allclose(outs[0].asnumpy(), want, rtol=1e-5)
        np.testing.assert_allclose(outs[1].asnumpy(), state, rtol=1e-5)
        run.backward([mx.nd.zeros(outs[0].shape), mx.nd.ones(outs[1].shape)])
        np.testing.assert_allclose(grads["s"].asnumpy(), given["w"] ** 4, rtol=1e-4)


def test_shapes_of_a_body():
    found = dict(
        zip(
            loop().list_arguments(),
            loop().infer_shape(x=(4, 2, 5), s=(2, 3), w=(2, 3))[0],
            strict=True,
        )
    )
    assert found["fc_weight"] == (3, 5) and found["fc_bias"] == (3,)
    assert loop().infer_shape(x=(4, 2, 5), s=(2, 3), w=(2, 3))[1] == [(4, 2, 3), (2, 3)]


def test_while_loop():
    i, s = mx.sym.var("i"), mx.sym.var("s")
    outs, (last, total) = mx.sym.contrib.while_loop(
        lambda i, s: i < 4, lambda i, s: ([i * 2], [i + 1, s + i]), [i, s], max_iterations=6
    )
    net = mx.sym.Group([outs[0], last, total])
    for made in (net, mx.sym.load_json(net.tojson())):
        got = [
            a.asnumpy().ravel().tolist()
            for a in made.eval(i=mx.nd.array([1.0]), s=mx.nd.array([10.0]))
        ]
        assert got == [[2, 4, 6, 0, 0, 0], [4], [16]]


def test_cond():
    a, b, p = (mx.sym.var(n) for n in "abp")
    net = mx.sym.contrib.cond(p, lambda: a * 2, lambda: b + 1)
    for made in (net, mx.sym.load_json(net.tojson())):
        for yes, want in ((1.0, 6.0), (0.0, 6.5)):
            got = made.eval(p=mx.nd.array([yes]), a=mx.nd.array([3.0]), b=mx.nd.array([5.5]))[0]
            assert got.asscalar() == want


def test_a_loop_of_np_symbols_inside_a_loop():
    x, s = mx.sym.var("x").as_np_ndarray(), mx.sym.var("s").as_np_ndarray()

    def outer(row, total):
        _, inner = mx.sym.npx.foreach(lambda v, t: (v, t + v * total), row, total * 0)
        return inner, total + inner

    net = mx.sym.Group(list(mx.sym.npx.foreach(outer, x, s)))
    rows, total, want = np.arange(6.0).reshape(2, 3), 1.0, []
    for row in rows:
        inner = (row * total).sum()
        want.append(inner)
        total += inner
    got = net.eval(x=mx.np.array(rows), s=mx.np.array(1.0))
    np.testing.assert_allclose(got[0].asnumpy(), want, rtol=1e-6)
    np.testing.assert_allclose(got[1].asnumpy(), total, rtol=1e-6)


def test_files_of_mxnet():
    """Loops as real MXNet writes them, and what it computed (`tests/record/symbols_control_flow.py`)."""
    for case in json.loads(DATA.read_text()):
        net = mx.sym.load_json(json.dumps(case["symbol"]))
        outs = net.eval(**{k: mx.nd.array(v) for k, v in case["inputs"].items()})
        for out, want in zip(outs, case["outputs"], strict=True):
            np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-5)


def test_damaged_loops():
    text = loop().tojson()
    for change in (
        {"in_data_locs": "(9,)"},
        {"remain_locs": "()"},
        {"num_out_data": "70"},
        {"in_state_locs": "x"},
    ):
        found = json.loads(text)
        node = next(n for n in found["nodes"] if n["op"] == "_foreach")
        node["attrs"].update(change)
        with pytest.raises(FormatError):
            mx.sym.load_json(json.dumps(found))
    node["subgraphs"] = []
    with pytest.raises(FormatError, match="1 graphs inside"):
        mx.sym.load_json(json.dumps(found))


def test_results_whose_length_the_numbers_say():
    x, m = mx.sym.var("x"), mx.sym.var("m")
    kept = mx.sym.contrib.boolean_mask(x, m)
    got = mx.sym.load_json(kept.tojson()).eval(
        x=mx.nd.array([[1.0, 2], [3, 4]]), m=mx.nd.array([0.0, 1])
    )[0]
    assert got.asnumpy().tolist() == [[3, 4]]
    v = mx.sym.var("v").as_np_ndarray()
    values, counts = mx.sym.np.unique(v, return_counts=True)
    got = mx.sym.Group([values, counts, mx.sym.np.flatnonzero(v)]).eval(v=mx.np.array([2.0, 0, 2]))
    assert [g.asnumpy().tolist() for g in got] == [[0, 2], [1, 2], [0, 2]]


def test_custom_operators():
    @mx.operator.register("symbols_scale")
    class ScaleProp(mx.operator.CustomOpProp):
        def __init__(self, by="1"):
            super().__init__(need_top_grad=True)
            self.by = float(by)

        def list_arguments(self):
            return ["data", "offset"]

        def infer_shape(self, in_shape):
            return [in_shape[0], in_shape[0]], [in_shape[0]], []

        def create_operator(self, ctx, shapes, dtypes):
            prop = self

            class Scale(mx.operator.CustomOp):
                def forward(self, is_train, req, in_data, out_data, aux):
                    self.assign(out_data[0], req[0], in_data[0] * prop.by + in_data[1])

                def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                    self.assign(in_grad[0], req[0], out_grad[0] * prop.by)
                    self.assign(in_grad[1], req[1], out_grad[0])

            return Scale()

    net = mx.sym.Custom(mx.sym.var("data"), op_type="symbols_scale", by=3, name="scale") * 2
    assert net.list_arguments() == ["data", "scale_offset"]
    assert net.infer_shape(data=(2, 3)) == ([(2, 3), (2, 3)], [(2, 3)], [])
    run = mx.sym.load_json(net.tojson()).simple_bind(mx.cpu(), data=(2,))
    for _ in range(6):
        out = run.forward(is_train=True, data=mx.nd.array([1.0, 2.0]))[0]
        run.backward(mx.nd.ones((2,)))
        assert out.asnumpy().tolist() == [6, 12] and run.grad_dict["data"].asnumpy().tolist() == [
            6,
            6,
        ]


class Branches(mx.gluon.HybridBlock):
    def forward(self, x):
        return mx.npx.cond(lambda x: mx.np.sum(x) < 100, lambda x: x * 2, lambda x: x - 1, [x])


class Repeats(mx.gluon.HybridBlock):
    def forward(self, x):
        outs, _ = mx.npx.while_loop(
            lambda i, a: i < 3,
            lambda i, a: (a * i, [i + 1, a + 1]),
            [mx.np.array([0.0]), x],
            max_iterations=5,
        )
        return outs


def of_kind(graph, kind):
    (node,) = [n for n in graph["nodes"] if n["op"] == kind]
    return node


def test_exported_predicates_are_numbers(tmp_path):
    """MXNet 2.0.0b1 refuses bools ("Type inconsistent", "does not support bool type") and loads these files."""
    x = mx.np.array([[1.0, 2, 3], [4, 5, 6]])
    for block, kind in ((Branches(), "_cond"), (Repeats(), "_while_loop")):
        block.hybridize()
        want = block(x)
        symbol, params = block.export(str(tmp_path / kind))
        graph = json.loads(Path(symbol).read_text())
        node = of_kind(graph, kind)
        if kind == "_cond":
            predicate = graph["nodes"][node["inputs"][0][0]]
        else:
            test = node["subgraphs"][0]
            predicate = test["nodes"][test["heads"][0][0]]
        assert predicate["op"] == "Cast" and predicate["attrs"] == {"dtype": "float32"}
        made = mx.gluon.SymbolBlock.imports(
            str(symbol), ["data"], str(params) if kind == "_while_loop" else None
        )
        np.testing.assert_array_equal(made(x).asnumpy(), want.asnumpy())
