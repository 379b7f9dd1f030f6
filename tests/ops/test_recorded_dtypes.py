"""Result dtypes against the tables recorded from real MXNet (tests/record/dtypes.py).

Where MXNet refuses a mixture, mxjax may accept it; where MXNet answers, mxjax answers the same
dtype, the rows of DELIBERATE aside.
"""

import json
import operator
import warnings
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx

DATA = json.loads((Path(__file__).parent.parent / "data" / "dtypes.json").read_text())
DTYPES = DATA["dtypes"]
SCALARS = {"int": 2, "float": 1.5, "bool": True}
OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "==": operator.eq,
    "<": operator.lt,
    ">=": operator.ge,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    "@": operator.matmul,
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "**=": operator.ipow,
    "&=": operator.iand,
}
SPECIAL = {
    ("np", "where"): lambda a, b: mx.np.where(mx.np.array([True, False]), a, b),
    ("np", "concatenate"): lambda a, b: mx.np.concatenate([a, b]),
    ("np", "stack"): lambda a, b: mx.np.stack([a, b]),
    ("nd", "concat"): lambda a, b: mx.nd.concat(a, b, dim=0),
    ("nd", "one_hot"): lambda x: mx.nd.one_hot(x, 3),
    ("np", "clip"): lambda x: mx.np.clip(x, 0, 1.5),
    ("np", "norm"): lambda x: mx.np.linalg.norm(x),
    ("np", "percentile"): lambda x: mx.np.percentile(x, 50),
    ("np", "quantile"): lambda x: mx.np.quantile(x, 0.5),
    ("np", "trace"): lambda x: mx.np.trace(mx.np.stack([x, x])),
    ("npx", "activation"): lambda x: mx.npx.activation(x, act_type="relu"),
    ("npx", "one_hot"): lambda x: mx.npx.one_hot(x, 3),
    ("npx", "pick"): lambda x: mx.npx.pick(mx.np.stack([x, x]), mx.np.array([0, 1])),
    ("npx", "smooth_l1"): lambda x: mx.npx.smooth_l1(x, scalar=1.0),
    ("npx", "layer_norm"): lambda x: mx.npx.layer_norm(
        x, mx.np.ones((2,), dtype=x.dtype), mx.np.zeros((2,), dtype=x.dtype)
    ),
}


def function(front, name):
    if name in OPERATORS:
        return OPERATORS[name]
    return SPECIAL.get((front, name)) or getattr(getattr(mx, front), name)


def make(front, dtype):
    return (mx.nd if front == "nd" else mx.np).array([1, 2], dtype=dtype)


# Rows where ours answers otherwise on purpose: the cells it gives (as in the tables), and why.
DELIBERATE = {
    ("np_reduce", "norm"): (
        "float32 float32 float32 float32 float64 float16 float32 float64",
        "np.linalg.norm of integers: MXNet answers in their dtype and warns to convert them; along an axis it "
        "gives wrong numbers (the largest magnitude for the norm), and 8 bits wrap below zero",
    ),
}


def cases():
    for table, groups in DATA.items():
        if not isinstance(groups, list) or table in ("dtypes", "np_missing"):
            continue
        for group in groups:
            for name in group["names"]:
                rows, _ = DELIBERATE.get((table, name), (group["rows"], ""))
                yield pytest.param(table, name, rows, id=f"{table}-{name}")


def mismatch(want, call, *what):
    """None, or what came instead of the dtype ``want`` (the row's cell)."""
    if want.startswith("!"):
        return None
    try:
        out = call()
        out = out[0] if isinstance(out, (tuple, list)) else out
        got = np.dtype(out.dtype).name if hasattr(out, "dtype") else f"python:{type(out).__name__}"
    except Exception as e:
        got = f"{type(e).__name__}: {str(e).splitlines()[0]}"
    return None if got == want.replace("bool_", "bool") else (*what, f"want {want}", f"got {got}")


@pytest.mark.parametrize("table, name, rows", cases())
def test_result_dtype(table, name, rows):
    front = table.split("_")[0]
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(rows, list):
            f = function(front, name)
            for a, row in zip(DTYPES, rows, strict=True):
                for b, want in zip(DTYPES, row.split(), strict=True):
                    wrong.append(
                        mismatch(want, lambda a=a, b=b: f(make(front, a), make(front, b)), a, b)
                    )
        else:
            for a, want in zip(DTYPES, rows.split(), strict=True):
                if "scalar" in table:
                    left, op, right = name.split()
                    f = function(front, op)
                    v = SCALARS[right if left == "x" else left]
                    call = (
                        (lambda f=f, a=a, v=v: f(make(front, a), v))
                        if left == "x"
                        else (lambda f=f, a=a, v=v: f(v, make(front, a)))
                    )
                else:
                    f = function(front, name)
                    call = lambda f=f, a=a: f(make(front, a))  # noqa: E731
                wrong.append(mismatch(want, call, a))
    assert not (wrong := [w for w in wrong if w]), f"{len(wrong)} cells: {wrong[:8]}"


def test_deliberate_rows_differ():
    recorded = {
        (t, name): group["rows"]
        for t, groups in DATA.items()
        if t in {t for t, _ in DELIBERATE}
        for group in groups
        for name in group["names"]
    }
    for row, (ours, _) in DELIBERATE.items():
        assert ours != recorded[row], f"{row} is no deviation any more"


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64"])
def test_norms_of_integers(dtype):
    """npx and nd cut the norm off to the array's dtype (MXNet's own sum is off by more); np.linalg does not."""
    a = np.array([[3, 2, 0, 7], [5, 90, 100, 1]], dtype)
    exact = np.sqrt(np.square(a.astype("float64")).sum(1))
    for f in (mx.npx.norm, mx.nd.norm):
        x = (mx.nd if f is mx.nd.norm else mx.np).array(a, dtype=dtype)
        np.testing.assert_array_equal(
            f(x, axis=1).asnumpy(), np.trunc(exact).astype("int64").astype(dtype)
        )
        np.testing.assert_allclose(f(x, axis=1, out_dtype="float32").asnumpy(), exact, rtol=1e-6)
    np.testing.assert_allclose(
        mx.np.linalg.norm(mx.np.array(a, dtype=dtype), axis=1).asnumpy(), exact, rtol=1e-6
    )


@pytest.mark.parametrize("dtype, n", [("int8", 128), ("uint8", 256)])
def test_positions_that_do_not_fit_are_refused(dtype, n):
    """MXNet's argmax answers in the array's dtype, and wraps where a position has no number in it."""
    x = np.zeros((1, n + 1), dtype)
    x[0, n - 1] = 1
    fitting = mx.nd.array(x[:, :n], dtype=dtype)
    for f in (
        mx.nd.argmax_channel,
        lambda x: mx.nd.argmax(x, axis=1),
        lambda x: mx.nd.argmin(1 - x, axis=1),
    ):
        assert f(fitting).asnumpy().tolist() == [n - 1]
        with pytest.raises(TypeError, match=f"{n + 1} elements do not fit .* {dtype}"):
            f(mx.nd.array(x, dtype=dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_without_an_integer(dtype):
    """Beyond int64, and for NaN, x86 (and so MXNet) gives the lowest int64; below, numbers wrap."""
    x = mx.np.array([1.7, -2.9, 300, np.inf, -np.inf, np.nan], dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low = np.iinfo("int64").min
        assert x.astype("int64").asnumpy().tolist() == [1, -2, 300, low, low, low]
        assert x.astype("uint8").asnumpy().tolist() == [1, 254, 44, 0, 0, 0]
