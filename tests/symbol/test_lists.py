"""Functions on symbols that no row of the table is: they compute what NumPy computes, also after a file."""

from __future__ import annotations

import numpy as onp
import pytest

import mxjax as mx

X = onp.array([[0.1, 0.2], [0.3, 0.9]], "float32")
x = mx.sym.var("x").as_np_ndarray()
snp = mx.sym.np


def values(symbol, **arrays):
    """The results, of the symbol that a file of it gives."""
    again = mx.sym.load_json(symbol.tojson())
    made = again.eval(**{k: mx.np.array(a) for k, a in arrays.items()})
    return [a.asnumpy() for a in made]


@pytest.mark.parametrize(
    ("symbol", "want"),
    [
        (snp.insert(x, 1, 5.0), onp.insert(X, 1, 5.0)),
        (snp.insert(x, slice(0, 2), 5.0, axis=1), onp.insert(X, slice(0, 2), 5.0, axis=1)),
        (snp.insert(x, 0, x[0], axis=0), onp.insert(X, 0, X[0], axis=0)),
        (snp.histogram(x, 4, (0, 1))[0], onp.histogram(X, 4, (0, 1))[0]),
        (snp.diag_indices_from(x), onp.stack(onp.diag_indices_from(X))),
        (snp.shares_memory(x, x), False),
        (snp.linalg.lstsq(x, x)[0], onp.eye(2)),
        (~(x > 0.25), ~(X > 0.25)),
        (round(x, 1), X.round(1)),
        (snp.random.rand(2, 3) < 1, onp.ones((2, 3), bool)),
    ],
    ids=[
        "insert",
        "insert slice",
        "insert array",
        "histogram",
        "diagonal",
        "memory",
        "lstsq",
        "not",
        "round",
        "rand",
    ],
)
def test_numpys(symbol, want):
    got = values(symbol, **({"x": X} if symbol.list_arguments() else {}))[0]
    onp.testing.assert_allclose(got, want, atol=1e-5)


def test_what_it_takes():
    with pytest.raises(TypeError, match="'obj' can not support type"):
        snp.insert(x, [0, 1], 5.0)
    with pytest.raises(ValueError, match="null range"):
        snp.histogram(x, 4)
    with pytest.raises(NotImplementedError):
        snp.histogram(x, 4, (0, 1), density=True)


def test_shuffled_rows_are_the_same_rows():
    rows = onp.arange(12, dtype="float32").reshape(6, 2)
    got = values(snp.random.shuffle(x), x=rows)[0]
    assert sorted(got.tolist()) == rows.tolist()


def test_contributed():
    data, shape = mx.sym.var("data"), mx.sym.var("shape")
    got = mx.sym.contrib.dynamic_reshape(data, shape).eval(
        data=mx.nd.ones((2, 6)), shape=mx.nd.array([3, -1])
    )[0]
    assert got.shape == (3, 4)
    counts, edges = (
        onp.array([1.0, 4, 9, 4, 1], "float32"),
        onp.linspace(-1, 1, 6).astype("float32"),
    )
    want = mx.nd.contrib.calibrate_entropy(
        mx.nd.array(counts), mx.nd.array(edges), num_quantized_bins=3
    )
    symbol = mx.sym.contrib.calibrate_entropy(data, shape, num_quantized_bins=3)
    got = symbol.eval(data=mx.nd.array(counts), shape=mx.nd.array(edges))
    assert [float(a.asscalar()) for a in got] == [float(a.asscalar()) for a in want]
    check = mx.sym.npx.constraint_check(x, "no")
    assert values(check, x=onp.array([True]))[0].item() is True
    with pytest.raises(ValueError, match="no"):
        values(check, x=onp.array([False]))
    hist = mx.sym.histogram(data, bins=2, range=(0, 4))
    assert hist[0].eval(data=mx.nd.array([1, 3, 3.5]))[0].asnumpy().tolist() == [1, 2]


def test_of_the_tape():
    a, w = mx.nd.ones((2, 3)), mx.nd.ones((4, 3))
    a.attach_grad()
    with mx.autograd.record():
        y = mx.nd.FullyConnected(a, w, no_bias=True, num_hidden=4) * 2 + 1
    symbol = mx.autograd.get_symbol(y)
    # The names are those of MXNet 2.0.0b1.
    assert symbol.get_internals().list_outputs() == [
        "var0", "null1", "node_0_output", "node_1_output", "node_2_output"
    ]  # fmt: skip
    assert symbol.eval(var0=a, null1=w)[0].asnumpy().tolist() == y.asnumpy().tolist()
    with pytest.raises(mx.MXNetError, match="attach_grad"):
        mx.autograd.get_symbol(w)
    y.backward()
    with pytest.raises(mx.MXNetError, match="let go"):
        mx.autograd.get_symbol(y)


def test_first_versions_of_layers_are_the_layers():
    data = mx.sym.var("data")
    net = mx.sym.Pooling_v1(
        mx.sym.Convolution_v1(data, kernel=(2, 2), num_filter=1, name="c"), kernel=(2, 2), name="p"
    )
    run = net.simple_bind(mx.cpu(), data=(1, 1, 4, 4))
    run.arg_dict["c_weight"][:] = 1
    assert run.forward(data=mx.nd.ones((1, 1, 4, 4)))[0].asnumpy().tolist() == [[[[4, 4], [4, 4]]]]
