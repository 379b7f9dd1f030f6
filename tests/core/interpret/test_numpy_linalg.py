"""Decompositions without a program: the same numbers as with one, and those of NumPy."""

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd

RNG = np.random.default_rng(8)


def normal(*shape, dtype="float32"):
    return RNG.normal(size=shape).astype(dtype)


def definite(*shape, dtype="float32"):
    a = normal(*shape, shape[-1], dtype=dtype)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1], dtype=dtype)


def results(f, given):
    """The results of a function and its gradients, and how many programs they took."""
    arrays = [mx.np.array(a, dtype=a.dtype) for a in given]
    mx.engine.reset()
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        out = f(*arrays)
        outs = list(out) if isinstance(out, tuple) else [out]
        total = sum((o * (o + 1)).sum() for o in outs)
    total.backward()
    return [o.asnumpy() for o in (*outs, *[a.grad for a in arrays])], mx.engine.stats()["compiled"]


CASES = {
    "solve": (mx.np.linalg.solve, lambda: (definite(2, 4), normal(2, 4, 3)), np.linalg.solve),
    "inv": (mx.np.linalg.inv, lambda: (definite(3, dtype="float64"),), np.linalg.inv),
    "cholesky": (mx.np.linalg.cholesky, lambda: (definite(2, 3),), np.linalg.cholesky),
    "slogdet": (
        mx.np.linalg.slogdet,
        lambda: (definite(3),),
        lambda a: tuple(np.linalg.slogdet(a)),
    ),
    "qr": (mx.np.linalg.qr, lambda: (normal(2, 4, 3),), None),
    "trsm": (
        lambda a, b: mx.nd.linalg.trsm(a, b, rightside=True, transpose=True),
        lambda: (np.tril(definite(3)), normal(2, 3)),
        lambda a, b: b @ np.linalg.inv(a).T,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_with_a_program_and_without(name):
    f, make, reference = CASES[name]
    given = make()
    with mx.config.scope({"engine.cold": "auto"}):
        got, programs = results(f, given)
    assert programs == 0
    with mx.config.scope({"engine.cold": "compile"}):
        want, programs = results(f, given)
    assert programs > 0
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)
    if reference is not None:
        expected = reference(*given)
        for g, w in zip(got, expected if isinstance(expected, tuple) else [expected], strict=False):
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_allclose(got[0] @ got[1], given[0], rtol=1e-4, atol=1e-5)


def test_what_cannot_be_decomposed_is_refused():
    """One of a stack is enough, as in MXNet."""
    bad = mx.np.array(np.stack([-definite(2), definite(2)]))
    with pytest.raises(mx.MXNetError, match="not positive definite"):
        mx.np.linalg.cholesky(bad).asnumpy()
