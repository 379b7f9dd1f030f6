"""Every translation on the samples that its row carries: onnxruntime computes what the row does."""

import zlib

import numpy as np
import onnx
import onnxruntime
import pytest

from mxjax import errors
from mxjax.array.creation import array
from mxjax.onnx.mx2onnx.exporting import model_of
from mxjax.onnx.mx2onnx.translating import Graph
from mxjax.onnx.mx2onnx.writer import FORMS, exported
from mxjax.ops.table import TABLE as ROWS
from mxjax.symbol.node import Node
from mxjax.symbol.run import run

# Samples that a translation refuses, and the word that says why.
REFUSED = {
    "_basic_index-4": "computed",
    "_basic_index_assign-1": "every second",
    "_basic_index_assign-2": "computed",
    "dropout-1": "always",
    "linalg_norm-1": "ord",
}
CASES = [
    pytest.param(ROWS[name], k, id=f"{name}-{k}", marks=[pytest.mark.slow] if k else [])
    for name in sorted(exported())
    for k in range(len(ROWS[name].tests.samples))
]


def node_of(op, case, number):
    """The sample as a node, and the arrays of its variables."""
    rng = np.random.RandomState(zlib.crc32(f"{op.name}{number}".encode()) & 0x7FFFFFFF)
    args = [a.draw(rng) if hasattr(a, "draw") else a for a in case.args]
    names = [f"arg{k}" for k in range(len(args))] if op.variadic else list(op.array_params)
    feed, used, constants = {}, [], {}
    for name, a in zip(names, args, strict=False):
        if isinstance(a, np.ndarray):
            feed[Node(f"in_{name}")] = a
            used.append(name)
        elif a is not None:
            constants[name] = a
    attrs = {k: v for k, v in case.attrs.items() if k != "is_train"}
    return Node(
        "it", op, attrs, {}, [(v, 0) for v in feed], used, constants, is_np=not op.legacy
    ), feed


def written(node, feed, opset, params=()):
    """The node as a model, and the inputs that are no parameters, by name."""
    graph = Graph(
        [(node, k) for k in range(node.count())],
        {v.name: a for v, a in feed.items() if v.name in params},
    )
    given = {v.name: a for v, a in feed.items()}
    given = {n.name: given[n.name] for n in graph.inputs}
    shapes = [a.shape for a in given.values()]
    w = graph.write(
        opset, shapes, [a.dtype for a in given.values()], [[False] * len(s) for s in shapes]
    )
    return model_of(w, graph, shapes), given


def agrees(node, feed, opset, params=()):
    results = run(
        [(node, k) for k in range(node.count())],
        {v: array(a, dtype=a.dtype) for v, a in feed.items()},
    )
    want = [a.asnumpy() for a in results]
    model, given = written(node, feed, opset, params)
    got = onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)
    for g, x in zip(got, want, strict=True):
        assert g.shape == x.shape and g.dtype == x.dtype
        np.testing.assert_allclose(g, x, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("op, k", CASES)
def test_row(op, k):
    node, feed = node_of(op, op.tests.samples[k], k)
    opset = 18 if op.name.startswith("bitwise") else 17
    params = ("in_parameters",) if op.name == "rnn" else ()
    why = REFUSED.get(f"{op.name}-{k}")
    if why is None:
        agrees(node, feed, opset, params)
    else:
        with pytest.raises(errors.MXNetNotImplementedError, match=rf"'it'.*{why}"):
            written(node, feed, opset, params)


@pytest.mark.parametrize("name", ["mod", "fmod", "mod@nd"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_rest_of_a_division_by_zero(name, dtype):
    """It is 0, as in MXNet; ONNX has NaN, and onnxruntime an error."""
    feed = {Node("a"): np.array([5, -5, 7], dtype), Node("b"): np.array([0, 3, -4], dtype)}
    op = ROWS[name]
    node = Node(
        "it", op, {}, {}, [(v, 0) for v in feed], list(op.array_params), is_np=not op.legacy
    )
    agrees(node, feed, 17)


@pytest.mark.parametrize("name", ["rint", "rint@nd", "round@nd", "around", "fix", "round_ste"])
def test_halves(name):
    op = ROWS[name]
    v = Node("x")
    node = Node("it", op, {}, {}, [(v, 0)], list(op.array_params), is_np=not op.legacy)
    agrees(node, {v: np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.2], "float32")}, 17)


@pytest.mark.slow  # a thousand sessions of onnxruntime
@pytest.mark.parametrize("opset", [13, 18, 21, 24, 28])
def test_rows_at_other_opsets(opset):
    for name in sorted(exported()):
        op = ROWS[name]
        for k, case in enumerate(op.tests.samples):
            node, feed = node_of(op, case, k)
            if opset > 21 and name in ("roi_align", "roi_pooling"):
                continue  # onnxruntime has no kernel yet
            try:
                agrees(node, feed, opset, ("in_parameters",) if name == "rnn" else ())
            except errors.MXNetNotImplementedError as error:
                assert (
                    f"{name}-{k}" in REFUSED
                    or "needs opset" in str(error)
                    or "from opset" in str(error)
                ), name


def test_rows_name_the_forms_that_there_are():
    forms = [op.files.onnx for op in ROWS.values() if op.files.onnx is not None]
    names = {form if isinstance(form, str) else form[0] for form in forms}
    named = {name for name in names if not name[0].isupper()}  # else it is an operator of ONNX
    assert named | {"same_as", "beside_number"} == set(FORMS)
    assert {name for name in names - named} <= {s.name for s in onnx.defs.get_all_schemas()}
