"""Parts of arrays by rules of NumPy (`Row.direct`): numbers, dtypes and shapes are NumPy's and those of programs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import mxjax as mx
from mxjax import core
from mxjax.core.interpret import symbolic
from mxjax.core.interpret.direct import Direct, directly
from mxjax.ops import TABLE
from mxjax.ops.keys import AT, Run, Slice

DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int32",
    "int64",
    "float16",
    ml_dtypes.bfloat16,
    "float32",
    "float64",
]
SHAPES = [(4, 6, 3), (5,), (1, 1), (3, 0, 2), (0,), ()]
KEYS = [
    (),
    (Ellipsis,),
    (None,),
    (-1,),
    (0, Ellipsis, -1),
    (Slice(1, None, 2),),
    (Slice(None, None, -1),),
    (Slice(None, None, -2), None, Slice(-2, None, None)),
    (Ellipsis, Slice(3, 0, -2)),
    (Slice(3, 3, 1),),
    (Slice(-1, -9, -3), 0),
    (Slice(0, 9, 7), Slice(2, 1, 1)),
]


def plain(key):
    """A key as NumPy takes it."""
    return tuple([slice(*k) if type(k) is Slice else k for k in key])


def numbers(shape, dtype):
    made = np.random.RandomState(0).uniform(-3, 3, shape).astype(dtype)
    if made.size and made.dtype.kind == "f":
        made.reshape(-1)[0] = -0.0
    return made


def aval(a):
    return core.aval(a.shape, a.dtype, core.default_device())


def traced(call, avals, operands):
    """What the trace of a call gives."""
    (found,) = symbolic._bound(call, avals, core.default_device()).run(operands)
    return found


def same(a, b):
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    assert a.tobytes() == b.tobytes()


def forms():
    for shape in SHAPES:
        for key in KEYS:
            try:
                np.empty(shape)[plain(key)]
            except IndexError:
                continue
            yield shape, key


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_assignments_and_gradients_are_numpys(dtype):
    for shape, key in forms():
        attrs = (("key", key),)
        x = numbers(shape, dtype)
        expected = np.array(x[plain(key)])
        take, put = TABLE["_basic_index"].bind(attrs), TABLE["_basic_index_assign"].bind(attrs)
        way = directly(take, [aval(x)])
        assert type(way) is Direct and not way.many
        (found,) = way.run([x])
        same(found, expected)
        assert way.shapes() == ((found.shape, found.dtype),)
        assert not np.may_share_memory(found, x) and found.flags.c_contiguous

        value = numbers(expected.shape, dtype)
        after = x.copy()
        after[plain(key)] = value
        before = x.copy()
        (found,) = directly(put, [aval(x), aval(value)]).run([x, value])
        same(found, after)
        same(x, before)

        gradient = directly(take.vjp((True,), (True,), False), [aval(x), aval(value)])
        if np.dtype(dtype).kind in "biu":  # a trace says what whole numbers have
            assert gradient is None
            continue
        after = np.zeros_like(x)
        after[plain(key)] = value
        assert gradient.many
        same(gradient.run([x, value])[0], after)


@pytest.mark.parametrize("places", [(0, 0), (2, 1), (-1, -2), (9, 9), (-9, 5)], ids=str)
def test_places_that_are_operands_are_clamped_as_programs_do_it(places):
    x = numbers((5, 4), "float32")
    at = [np.int64(p) for p in places]
    for key in [(AT, Run(2, 1)), (Run(2, -2), AT), (None, Run(3, 2), Run(1, 1))]:
        attrs = (("key", key),)
        take, put = TABLE["_basic_index"].bind(attrs), TABLE["_basic_index_assign"].bind(attrs)
        back = take.vjp((True, False, False), (True,), False)
        given = [aval(x), "q", "q"]
        value = numbers(directly(take, given).shape, "float32")
        for call, avals, operands in [
            (take, given, [x, *at]),
            (back, [*given, aval(value)], [x, *at, value]),
            (put, [aval(x), aval(value), "q", "q"], [x, value, *at]),
        ]:
            same(directly(call, avals).run(operands)[0], traced(call, avals, operands))


def test_values_are_broadcast_and_lose_leading_axes_of_length_1():
    x = numbers((3, 4), "float32")
    put = TABLE["_basic_index_assign"].bind((("key", (Slice(1, None, None),)),))
    for value in (np.float64(2.5), np.int64(7)):
        expected = x.copy()
        expected[1:] = value
        kind = "d" if type(value) is np.float64 else "q"
        same(directly(put, [aval(x), kind]).run([x, value])[0], expected)
    for shape in [(4,), (1,), (), (2, 1), (1, 1, 2, 4)]:
        value = numbers(shape, "float32")
        expected = x.copy()
        expected[1:] = value.reshape(shape[-2:])
        same(directly(put, [aval(x), aval(value)]).run([x, value])[0], expected)


def test_what_the_rules_do_not_know_is_left_to_a_trace():
    x = numbers((3, 4), "float32")
    put = TABLE["_basic_index_assign"].bind((("key", (0,)),))
    assert directly(put, [aval(x), aval(numbers((4,), "int32"))]) is None  # another dtype
    assert directly(put, [aval(x), aval(numbers((3,), "float32"))]) is None  # it is refused
    with pytest.raises(ValueError, match="broadcast"):
        mx.np.array(x)[0] = mx.np.ones(3)
    half = numbers((3, 4), "float16")
    assert directly(put, [aval(half), "d"]) is None  # rounded as programs do it
    take = TABLE["_basic_index"].bind((("key", (3,)),))
    with pytest.raises(IndexError, match="out of bounds"):
        directly(take, [aval(x)])


def test_a_key_that_is_new_is_not_traced(monkeypatch):
    """What a trace costs is paid for each form of a key."""

    def refused(*args):
        raise AssertionError("a trace")

    monkeypatch.setattr(symbolic, "_traced", refused)
    x = np.arange(60, dtype="float32").reshape(3, 4, 5)
    a = mx.np.array(x)
    with mx.config.scope({"engine.cold": "interpret"}):
        found = a[2:0:-1, None, ::3, -2].asnumpy()
    np.testing.assert_array_equal(found, x[2:0:-1, None, ::3, -2])
