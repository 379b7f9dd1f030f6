"""Attributes given as texts: MXNet 1.9 hands all of them to its library so, and takes them from the user so.

`tests/data/attribute_types.json` says what each attribute of its operators is (`tests/record/attribute_types.py`).
"""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.array.arguments import split
from mxjax.ops import TABLE
from mxjax.ops.samples import Body
from mxjax.ops.table import FRONT_ENDS
from mxjax.ops.texts import parsed

TYPES = json.loads((Path(__file__).parents[1] / "data" / "attribute_types.json").read_text())
ROWS = [
    pytest.param(op, id=name)
    for name, op in sorted(TABLE.items())
    if op.attr_params and op.names.internal
]
#: Texts of each kind, and what they mean.
MEANT = {
    "int": {"3": 3, " 3": 3, "-1": -1},
    "float": {"0.5": 0.5, "1e-05": 1e-5, "2": 2, "inf": float("inf")},
    "bool": {"True": True, "true": True, "1": True, "False": False, "0": False},
    "ints": {"(2, 3)": (2, 3), "[2,3]": (2, 3), "( 2L,3L )": (2, 3), "(4,)": (4,), "()": ()},
    "floats": {"(0.1, 0.2)": (0.1, 0.2), "[1,2.5]": (1, 2.5), "(0.5,)": (0.5,), "0.5": (0.5,)},
    "text": {"abc": "abc"},
}


def texts(attrs):
    """The attributes as MXNet's functions write them."""
    return {k: v if isinstance(v, Body) else str(v) for k, v in attrs.items()}


def same(got, want):
    """Equal in numbers; a text's number may be (3,) for 3 where the row has a tuple, and 2.0 for 2 where a float."""
    if isinstance(got, tuple) and not isinstance(want, tuple):
        want = (want,)
    if isinstance(want, tuple):
        return isinstance(got, tuple) and len(got) == len(want) and all(map(same, got, want))
    return got == want and (type(got) is type(want) or (type(want) is int and type(got) is float))


def test_every_row_reads_its_samples_as_texts():
    for row in ROWS:
        reads_its_samples(row.values[0])


def reads_its_samples(op):
    arrays = [[]] if op.variadic else [None] * len(op.array_params)
    for case in op.tests.samples:
        known = {
            k: v for k, v in case.attrs.items() if k in op.attr_params and not isinstance(v, Body)
        }
        _, plain = split(op, arrays, dict(known), True)
        _, read = split(op, arrays, texts(known), True)
        assert [k for k, _ in read] == [k for k, _ in plain], op.name
        for (name, got), (_, want) in zip(read, plain, strict=True):
            assert same(got, want), (op.name, name, got, want)


def functions(front):
    """By name, the functions of a front end whose row has attributes, with the row and its first sample."""
    for name, op in sorted(FRONT_ENDS[front].items()):
        cases = [
            c
            for c in op.tests.samples
            if c.attrs and not any(isinstance(v, Body) for v in c.attrs.values())
        ]
        if cases and op.attr_params and not op.keyed:
            yield pytest.param(name, op, cases[0], id=name)


def drawn(case, name):
    rng = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
    arrays = [a.draw(rng) if hasattr(a, "draw") else a for a in case.args]
    return [mx.nd.array(a, dtype=a.dtype) if isinstance(a, np.ndarray) else a for a in arrays]


@pytest.mark.parametrize(("name", "op", "case"), functions("nd"))
def test_functions_of_nd_and_sym_take_texts(name, op, case):
    fn = getattr(mx.nd, name)
    want = fn(*drawn(case, name), **case.attrs)
    got = fn(*drawn(case, name), **texts(case.attrs))
    want, got = [x if isinstance(x, (list, tuple)) else [x] for x in (want, got)]
    assert [x.shape for x in got] == [x.shape for x in want]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    if any(not hasattr(a, "draw") for a in case.args) or not hasattr(mx.sym, name):
        return
    symbols = [mx.sym.var(f"a{k}") for k in range(len(case.args))]
    fn = getattr(mx.sym, name)
    plain, read = [
        fn(*symbols, **attrs)._entries[0][0].params for attrs in (case.attrs, texts(case.attrs))
    ]
    assert plain.keys() == read.keys() and all(same(read[k], plain[k]) for k in plain), (
        read,
        plain,
    )


def test_every_attribute_reads_what_is_of_its_kind_in_mxnet():
    rows = [p.values[0] for p in ROWS if p.values[0].names.internal in TYPES]
    assert len(rows) > 350
    for op in rows:
        reads_its_kinds(op)


def reads_its_kinds(op):
    for name, kind in TYPES[op.names.internal].items():
        if name not in op.attr_params:
            continue
        for text, want in MEANT[kind.rstrip("?")].items():
            if text == "0.5" and isinstance(op.attr_defaults.get(name), float):
                want = 0.5  # the row takes one number for all
            got = parsed(op, name, text)
            assert same(got, want), (op.name, name, kind, text, got)
        if kind.endswith("?"):
            assert parsed(op, name, "None") is None, (op.name, name)


X = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
#: Calls with texts, and the first numbers that MXNet 1.9.1 and 2.0.0b1 gave.
RECORDED = {
    "Pooling": (lambda F, x: F.Pooling(x, kernel="(2,2)", stride="(2,2)", pool_type="max"), [5, 7, 13, 15]),
    "Pooling, long": (lambda F, x: F.Pooling(x, kernel="(2L,2L)", pool_type="max"), [5, 6, 7, 9, 10]),
    "MultiBoxPrior": (lambda F, x: F.contrib.MultiBoxPrior(x, sizes="(0.1,0.2)", ratios="1"),
                      [0.075, 0.075, 0.175, 0.175, 0.025]),
    "MultiBoxPrior, a number": (lambda F, x: F.contrib.MultiBoxPrior(x, sizes=0.1),
                                [0.075, 0.075, 0.175, 0.175, 0.325]),
    "Convolution": (
        lambda F, x: F.Convolution(x, F.ones((4, 1, 3, 3)), num_filter="4", kernel="(3,3)", no_bias="True"),
        [45, 54, 81, 90, 45],
    ),
    "Convolution, NumPy's": (
        lambda F, x: F.Convolution(
            x, F.ones((4, 1, 3, 3)), num_filter=np.int64(4), kernel=(np.int32(3), 3), no_bias="1"
        ),
        [45, 54, 81, 90, 45],
    ),
    "reshape": (lambda F, x: F.reshape(x, shape="(2,8)"), [0, 1, 2, 3, 4]),
    "sum": (lambda F, x: F.sum(x, axis="2", keepdims="1"), [24, 28, 32, 36]),
    "sum of all": (lambda F, x: F.sum(x, axis="None"), [120]),
    "topk": (lambda F, x: F.topk(x, k="2", axis="None"), [15, 14]),
    "slice": (lambda F, x: F.slice(x, begin="(0,0,1,None)", end="(None,None,3,None)"), [4, 5, 6, 7, 8]),
    "slice_axis": (lambda F, x: F.slice_axis(x, axis="2", begin="1", end="None"), [4, 5, 6, 7, 8]),
    "one_hot": (lambda F, x: F.one_hot(F.Flatten(x), depth="3", on_value="2."), [2, 0, 0, 0, 2]),
    "clip": (lambda F, x: F.clip(x, "1", "1e1"), [1, 1, 2, 3, 4]),
    "softmax": (lambda F, x: F.softmax(x, temperature="2", axis="-1"),
                [0.1015363, 0.1674051, 0.2760043, 0.4550542, 0.1015363]),
    "pad": (lambda F, x: F.pad(x, mode="constant", pad_width="(0,0,0,0,1,1,1,1)", constant_value="3"), [3, 3, 3, 3, 3]),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_texts_as_mxnet_reads_them(name):
    fn, want = RECORDED[name]
    for F in (mx.nd, mx.sym):
        if F is mx.nd:
            got = fn(F, mx.nd.array(X))
        else:
            got = fn(F, mx.sym.var("x")).bind(mx.cpu(), {"x": mx.nd.array(X)}).forward()[0]
        np.testing.assert_allclose(got.asnumpy().ravel()[:5], want, rtol=1e-6)


@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel": "2,2"},
        {"kernel": "abc"},
        {"kernel": "(2.0,2.0)"},
        {"kernel": "(2,2)", "global_pool": "yes"},
    ],
)
def test_what_is_no_value_of_its_kind_is_refused(attrs):
    with pytest.raises(mx.MXNetError, match="Invalid Parameter format for"):
        mx.nd.Pooling(mx.nd.array(X), **attrs)


def test_attributes_of_a_symbol_make_it_again():
    x, w = mx.sym.var("x"), mx.sym.var("w")
    conv = mx.sym.Convolution(x, w, kernel=(3, 3), num_filter=2, no_bias=True, pad=(1, 1), name="c")
    pool = mx.sym.Pooling(conv, kernel=(2, 2), stride=(2, 2), pool_type="avg", name="p")
    attrs = pool.attr_dict()
    again = mx.sym.Pooling(mx.sym.Convolution(x, w, name="c", **attrs["c"]), name="p", **attrs["p"])
    assert again.attr_dict() == attrs and again.tojson() == pool.tojson()


def test_functions_of_np_refuse_texts_under_2_and_take_them_under_1():
    calls = [
        lambda: mx.np.sum(mx.np.ones((2, 3)), axis="1"),
        lambda: mx.np.reshape(mx.np.ones((2, 3)), "(3,2)"),
        lambda: mx.npx.pooling(mx.np.ones((1, 1, 4, 4)), kernel="(2,2)"),
        lambda: mx.npx.softmax(mx.np.ones((1, 2)), axis="0"),
    ]
    for call in calls:
        with mx.config.scope(compat_version="1.9"):
            call().asnumpy()
        with pytest.raises(mx.MXNetError):
            call()
