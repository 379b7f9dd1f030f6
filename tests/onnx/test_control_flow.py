"""Loops and branches as Scan, Loop and If, run by onnxruntime, and back."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import mxjax as mx
from mxjax import errors, npx
from tests.onnx.test_export import Alone, initialized, normal, outputs


class Loops(mx.gluon.HybridBlock):
    """All three, one inside the other, with a parameter from outside."""

    def __init__(self):
        super().__init__()
        self.weight = mx.gluon.Parameter("weight", shape=(3, 3))

    def forward(self, x, start):
        w = self.weight.data()

        def step(row, state):
            new = mx.np.tanh(mx.np.dot(row, w) + state)
            out = npx.cond(lambda a: a.sum() > 0, lambda a: a * 2, lambda a: a - 1, [new])
            return [out, new.sum(axis=1)], new

        (outs, sums), last = npx.foreach(step, x, start)
        counted, ends = npx.while_loop(
            lambda i, total: mx.np.logical_and(i < 4, total < 9),
            lambda i, total: (total * 2, (i + 1, total + mx.np.abs(w).sum())), (mx.np.zeros((1,)), mx.np.ones((1,))), 6,
        )  # fmt: skip
        return outs, sums, last, counted, *ends


def ran(path, *inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return session.run(None, {n: np.asarray(a) for n, a in zip(names, inputs, strict=True)})


def same(got, want):
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dynamic", [False, True])
def test_blocks_out_and_back(tmp_path, dynamic):
    net, path = Loops(), tmp_path / "net.onnx"
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    x, start = normal(5, 2, 3), normal(2, 3)
    want = outputs(net, [x, start])
    free = {"dynamic": True, "dynamic_input_shapes": [(None, "n", 3), ("n", 3)]} if dynamic else {}
    mx.onnx.export_model(net, None, [x.shape, start.shape], onnx_file_path=path, **free)
    same(ran(path, x.asnumpy(), start.asnumpy()), want)
    others = [normal(3, 4, 3), normal(4, 3)] if dynamic else [x * 2, start - 1]
    same(ran(path, *[a.asnumpy() for a in others]), outputs(net, others))
    block = mx.onnx.import_to_gluon(path, mx.cpu())
    for given in ([x, start], others):
        same(outputs(block, given), outputs(net, given))


def test_symbols(tmp_path):
    x, s = mx.sym.var("x"), mx.sym.var("s")
    outs, last = mx.sym.contrib.foreach(lambda row, now: (row + now, row + now), x, s)
    chosen = mx.sym.contrib.cond(mx.sym.sum(last) < 3, lambda: last * 2, lambda: last - 1)
    given = {"x": mx.nd.array([[1.0, 2.0], [3.0, -9.0]]), "s": mx.nd.array([0.5, 1.0])}
    both = mx.sym.Group([outs, chosen])
    path = tmp_path / "net.onnx"
    mx.onnx.export_model(both, {}, [(2, 2), (2,)], onnx_file_path=path)
    same(
        ran(path, *[a.asnumpy() for a in given.values()]), [a.asnumpy() for a in both.eval(**given)]
    )


# ---- graphs that others wrote


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outs, numbers=()):
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in dict(numbers).items()]
    graph = helper.make_graph(nodes, "g", inputs, outs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def agrees(made, *inputs):
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    want = session.run(None, {i.name: a for i, a in zip(session.get_inputs(), inputs, strict=True)})
    block = mx.onnx.import_to_gluon(made, mx.cpu())
    got = outputs(block, [mx.np.array(a, dtype=a.dtype) for a in inputs])
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def rand(*shape):
    return np.random.RandomState(0).normal(size=shape).astype("float32")


def test_scan_backwards_along_another_axis():
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "x"], ["t"]), helper.make_node("Identity", ["t"], ["y"])], "body",
        [value("s", [2]), value("x", [2])], [value("t", [2]), value("y", [2])],
    )  # fmt: skip
    ways = {
        f"scan_{which}_{what}": [1]
        for which in ("input", "output")
        for what in ("axes", "directions")
    }
    node = helper.make_node(
        "Scan", ["start", "data"], ["end", "all"], body=body, num_scan_inputs=1, **ways
    )
    agrees(
        model([node], [value("start", [2]), value("data", [2, 3])], [value("end", [2]), value("all", [2, 3])]),
        rand(2), rand(2, 3),
    )  # fmt: skip


def loop(condition, count, kept=True):
    """x doubles until its sum is 20 or more, and each time is kept."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["x2"]),
        helper.make_node("Cast", ["i"], ["step"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x2", "step"], ["kept"]),
        helper.make_node("ReduceSum", ["x2"], ["total"], keepdims=0),
        helper.make_node("Less", ["total", "limit"], ["less"]),
        helper.make_node("Identity", ["less" if condition else "going"], ["again"]),
    ]
    ins = [value("i", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("x", [2])]
    outs = [
        value("again", [], TensorProto.BOOL),
        value("x2", [2]),
        *([value("kept", [2])] if kept else []),
    ]
    body = helper.make_graph(nodes, "b", ins, outs)
    node = helper.make_node(
        "Loop", ["count", "", "start"], ["end", *(["all"] if kept else [])], body=body
    )
    results = [value("end", [2]), *([value("all", [None, 2])] if kept else [])]
    return model(
        [node], [value("start", [2])], results, {"count": np.int64(count), "limit": np.float32(20)}
    )


@pytest.mark.parametrize("condition, kept", [(False, True), (True, True), (True, False)])
def test_loop(condition, kept):
    agrees(loop(condition, 7, kept), np.array([0.5, 1], "float32"))


def test_if_of_two_branches():
    branches = {}
    for name, kind in (("then", "Exp"), ("else", "Neg")):
        made = [helper.make_node(kind, ["x"], [f"{name}_y"])]
        branches[f"{name}_branch"] = helper.make_graph(made, name, [], [value(f"{name}_y", [2])])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Less", ["total", "zero"], ["flag"]),
        helper.make_node("If", ["flag"], ["y"], **branches),
    ]
    made = model(nodes, [value("x", [2])], [value("y", [2])], {"zero": np.float32(0)})
    agrees(made, np.array([1, 2], "float32"))
    agrees(made, np.array([-1, -2], "float32"))


def test_gru_that_resets_before_the_product():
    w, r, b = rand(2, 12, 3), rand(2, 12, 4), rand(2, 24)
    for way, n in (("bidirectional", 2), ("reverse", 1)):
        node = helper.make_node(
            "GRU", ["x", "w", "r", "b", "", "h"], ["y", "last"], hidden_size=4, direction=way
        )
        numbers = {"w": w[:n], "r": r[:n], "b": b[:n], "h": rand(n, 2, 4)}
        outs = [value("y", [5, n, 2, 4]), value("last", [n, 2, 4])]
        agrees(model([node], [value("x", [5, 2, 3])], outs, numbers), rand(5, 2, 3))


def test_nonzero():
    node = helper.make_node("NonZero", ["x"], ["y"])
    agrees(model([node], [value("x", [2, 3])], [value("y", [2, None], TensorProto.INT64)]),
           np.array([[0, 1, 2], [3, 0, 0]], "float32"))  # fmt: skip


@pytest.mark.parametrize("center", [0, 1])
def test_non_max_suppression(center):
    dice = np.random.RandomState(3)
    corners = dice.uniform(0, 1, (2, 9, 4)).astype("float32")
    if center:
        corners[..., 2:] *= 0.5
    scores = dice.permutation(54).reshape(2, 3, 9).astype("float32") / 54
    node = helper.make_node(
        "NonMaxSuppression",
        ["boxes", "scores", "most", "iou", "score"],
        ["y"],
        center_point_box=center,
    )
    numbers = {
        "most": np.array([4], "int64"),
        "iou": np.array([0.2], "float32"),
        "score": np.array([0.15], "float32"),
    }
    ins = [value("boxes", [2, 9, 4]), value("scores", [2, 3, 9])]
    agrees(model([node], ins, [value("y", [None, 3], TensorProto.INT64)], numbers), corners, scores)


def test_what_cannot_be_said():
    body = loop(True, 3, False).graph.node[0].attribute[0].g
    node = helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)
    numbers = {"yes": np.array(True), "limit": np.float32(20)}
    with pytest.raises(
        errors.MXNetNotImplementedError, match="a number of steps that it takes at most"
    ):
        mx.onnx.import_model(model([node], [value("x", [2])], [value("y", [2])], numbers))
    net = initialized(Alone(mx.gluon.rnn.LSTM(3, projection_size=2)))
    outputs(net, [normal(2, 1, 4)])
    with pytest.raises(errors.MXNetNotImplementedError, match="ONNX's LSTM has no projection"):
        mx.onnx.export_model(net, None, [(2, 1, 4)], onnx_file_path="never.onnx")
