"""Indexing, aliasing and assignment against real MXNet's answers (tests/record/indexing.py)."""

import copy
import json
import warnings
from pathlib import Path

import numpy as onp
import pytest

import mxjax as mx

DATA = json.loads((Path(__file__).parent.parent / "data" / "indexing.json").read_text())

# Where real MXNet refuses or differs by accident, and what stands instead.
BETTER = {
    "2:1": "an empty slice is empty",
    ":,0:0": "nd slices may be empty",
    "A([True,False],dtype=bool)": "masks select in nd as well",
    "A([False,False],dtype=bool)": "masks select in nd as well",
    ":,A([True,False,True],dtype=bool)": "masks select in nd as well",
    "0,A([True,False,True],dtype=bool)": "masks select in nd as well",
    "A([True,False],dtype=bool),0": "masks select in nd as well",
    "True,A([True,False],dtype=bool)": "masks select in nd as well",
    "A(1,dtype='int32')": "0-d nd arrays are indices too",
    "A(1)": "0-d nd arrays are indices too",
    "np.broadcast_arrays(x,x)[0]": "functions give new arrays",
    "np.nan_to_num(x,copy=False)": "functions give new arrays",
    "x[x>2]=A([7])": "values are cast to the array's dtype, under masks too",
    "x[x>2]=A([7,8,9])": "values are cast to the array's dtype, under masks too",
    "x[A([True,False],dtype=bool)]=9": "masks select in nd as well",
    "x[A([True,False],dtype=bool)]=A([7,8,9])": "masks select in nd as well, and values are cast",
    "x[A([True,False],dtype=bool),1]=9": "masks select in nd as well",
    "x[:,A([True,False,True],dtype=bool)]=9": "masks select in nd as well",
}
# Methods that only one of the two kinds of array has in real MXNet, and functions that take only one kind.
BOTH = (
    "has no attribute",
    "can only accept",
    "bad operand type",
    "please use the zero-copy",
    "setting an array element",
    "does not support assignment with non-array-like object [[[",
)


def make(kind, values, dtype="float32"):
    return (mx.np if kind == "np" else mx.nd).array(values, dtype=dtype)


def scope(kind, x):
    return {
        "A": lambda v, dtype="float32": make(kind, v, dtype),
        "O": onp.array,
        "x": x,
        "np": mx.np,
        "nd": mx.nd,
        "npx": mx.npx,
        "mx": mx,
        "onp": onp,
        "copy": copy,
    }


def poke(r, value):
    if r.ndim:
        r[:] = value
    else:
        r[()] = value


def fails(want, action, text=None):
    if want is None:
        return
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the class is compared here
        action()
    kinds = [c.__name__ for c in type(caught.value).__mro__]
    assert want["error"] in kinds, f"{want['text']}\nbut {caught.value!r}"
    if text:
        assert text in str(caught.value)


def ids(case):
    return str(next(iter(case.values())))


@pytest.mark.parametrize("kind", ["np", "nd"])
@pytest.mark.parametrize("case", DATA["read"], ids=ids)
def test_read(case, kind):
    want = case[kind]
    x = make(kind, onp.arange(24.0).reshape(2, 3, 4))

    def get():
        return eval(f"x[{case['index']}]", scope(kind, x))

    if "error" in want:
        if case["index"] not in BETTER:
            text = (
                want["text"].removeprefix("IndexError: ") if want["error"] == "IndexError" else None
            )
            fails(want, get, text)
        else:
            get()
        return
    got = get()
    assert list(got.shape) == want["shape"]
    onp.testing.assert_array_equal(got.asnumpy().ravel(), want["data"])
    if want["view"] is not None:
        poke(got, -99)
        assert bool((x.asnumpy() == -99).any()) == want["view"]


@pytest.mark.parametrize("kind", ["np", "nd"])
@pytest.mark.parametrize("case", DATA["alias"], ids=ids)
def test_alias(case, kind):
    want = case[kind]
    x = make(kind, onp.arange(24.0).reshape(2, 3, 4))
    if "error" in want:
        assert any(part in want["text"] for part in BOTH), want
        return
    if case["expr"] in BETTER:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = eval(case["expr"], scope(kind, x))
    # MXNet 2 answers mx.nd's arrays in mx.np's kind where a function does not refuse them; here results are of the
    # inputs' kind, so that Gluon's layers serve both.
    answers = want["type"] if "as_n" in case["expr"] else kind
    assert type(got) is (mx.np.ndarray if answers == "np" else mx.nd.NDArray) and want["type"] in (
        "np",
        answers,
    )
    assert list(got.shape) == want["shape"]
    assert (got is x) == want["same"]
    x[0, 0, 0] = -77
    assert bool((got.asnumpy() == -77).any()) == want["down"]
    poke(got, -99)
    assert bool((x.asnumpy() == -99).any()) == want["up"]


@pytest.mark.parametrize("kind", ["float32", "int32", "nd"])
@pytest.mark.parametrize("case", DATA["write"], ids=ids)
def test_write(case, kind):
    want = case[kind]
    x = make(
        "nd" if kind == "nd" else "np", [[0, 1, 2], [3, 4, 5]], "float32" if kind == "nd" else kind
    )

    def put():
        exec(case["stmt"], scope("nd" if kind == "nd" else "np", x))

    if isinstance(want, dict):
        if "not broadcastable" in want["text"]:
            fails(
                {"error": "MXNetError", "text": ""},
                put,
                want["text"][want["text"].index("shape [") :],
            )
        elif case["stmt"] not in BETTER:
            fails(want, put)
        return
    if kind == "nd" and case["stmt"] == "x[True]=9":
        return  # True is 1 when nd reads, and so it is when nd writes
    put()
    onp.testing.assert_array_equal(x.asnumpy(), onp.asarray(want, x.dtype))
