"""Batchify functions; the expected dtypes and containers are MXNet 2.0.0b1's."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax.errors import MXNetNotImplementedError, MXNetTypeError, MXNetValueError
from mxjax.gluon.data.batchify import Append, AsList, Group, Pad, Stack


def check(got, expected, dtype):
    assert isinstance(got, mx.np.ndarray)
    assert np.dtype(got.dtype) == np.dtype(dtype)
    np.testing.assert_array_equal(got.asnumpy(), expected)


@pytest.mark.parametrize(
    "samples, dtype",
    [
        ([1, 2], "int64"),
        ([1.0, 2.0], "float64"),
        ([True, False], "bool"),
        ([np.float32(1), np.float32(2)], "float32"),
        ([np.ones((2, 3)), np.zeros((2, 3))], "float64"),
        ([np.ones(2, "float16"), np.zeros(2, "float16")], "float16"),
        ([np.ones((0, 2), "uint8"), np.ones((0, 2), "uint8")], "uint8"),
    ],
)
def test_stack_keeps_dtypes(samples, dtype):
    check(Stack()(samples), np.stack([np.asarray(sample) for sample in samples]), dtype)


def test_stack_of_mxjax_arrays():
    check(Stack()([mx.np.ones(2), mx.np.zeros(2)]), [[1, 1], [0, 0]], "float32")


def test_stack_goes_through_tuples_and_lists():
    batch = Stack()([(np.ones(2), 0), (np.zeros(2), 1)])
    assert isinstance(batch, list)
    check(batch[0], [[1, 1], [0, 0]], "float64")
    check(batch[1], [0, 1], "int64")
    batch = Stack()([[1, 2], [3, 4]])
    check(batch[0], [1, 3], "int64")
    check(batch[1], [2, 4], "int64")
    nested = Stack()([((1, 2), 3), ((4, 5), 6)])
    check(nested[0][1], [2, 5], "int64")


def test_stack_errors():
    with pytest.raises(MXNetValueError, match=r"one shape, got \(2,\), \(3,\); batchify.Pad"):
        Stack()([np.ones(2), np.ones(3)])
    with pytest.raises(MXNetTypeError, match="got str; batchify.AsList"):
        Stack()(["a", "b"])
    with pytest.raises(MXNetTypeError, match="got NoneType"):
        Stack()([None, None])
    with pytest.raises(MXNetValueError, match="same number of parts"):
        Stack()([(1, 2), (1,)])


def test_pad():
    check(Pad()([[1, 2, 3], [4]]), [[1, 2, 3], [4, 0, 0]], "int64")
    check(Pad(val=-1)([[1.0, 2.0], [4.0]]), [[1, 2], [4, -1]], "float64")
    check(Pad(dtype="float32")([[1, 2], [3]]), [[1, 2], [3, 0]], "float32")
    check(Pad(round_to=4)([[1, 2, 3, 4, 5]]), [[1, 2, 3, 4, 5, 0, 0, 0]], "int64")
    check(Pad()([mx.np.ones(1), mx.np.ones(2)]), [[1, 0], [1, 1]], "float32")
    got = Pad(val=-1)([np.ones((2, 3)), np.ones((1, 4))])
    check(got, [[[1, 1, 1, -1], [1, 1, 1, -1]], [[1, 1, 1, 1], [-1, -1, -1, -1]]], "float64")
    check(Pad()([np.ones(0), np.ones(2)]), [[0, 0], [1, 1]], "float64")


def test_pad_errors():
    for samples in ([(1, 2), (3,)], [1, 2]):
        with pytest.raises(MXNetNotImplementedError, match=r"Group\(Pad\(\), Stack\(\)"):
            Pad()(samples)
    with pytest.raises(MXNetValueError, match="same number of axes"):
        Pad()([np.ones(2), np.ones((2, 2))])


def test_append():
    first, second = Append()([np.ones(2), np.ones(3, "int64")])
    check(first, [[1, 1]], "float64")
    check(second, [[1, 1, 1]], "int64")
    (only,) = Append(expand=False)([mx.np.ones(2)])
    check(only, [1, 1], "float32")
    (last,) = Append(batch_axis=1)([np.ones(2)])
    assert last.shape == (2, 1)


def test_group():
    padded, labels = Group(Pad(), Stack())([([1, 2], 0), ([3], 1)])
    check(padded, [[1, 2], [3, 0]], "int64")
    check(labels, [0, 1], "int64")
    stacked, names = Group([Stack(), AsList()])([(1.0, "a"), (2.0, "b")])
    check(stacked, [1, 2], "float64")
    assert names == ["a", "b"]
    _, own = Group(Stack(), lambda part: sum(part))([(1, 2), (3, 4)])
    assert own == 6
    inner, _ = Group(Group(Stack(), Pad()), Stack())([((1, [1]), 2), ((3, [1, 2]), 4)])
    check(inner[1], [[1, 0], [1, 2]], "int64")


def test_group_errors():
    with pytest.raises(AssertionError, match="2 functions, but a sample has 1 parts"):
        Group(Stack(), Stack())([(1,), (2,)])
    with pytest.raises(MXNetTypeError, match="number 1 is 3"):
        Group(Stack(), 3)
    with pytest.raises(MXNetTypeError, match="one list of them"):
        Group([Stack()], Stack())


def test_stack_goes_through_dictionaries():
    batch = Stack()(
        [
            {"x": np.ones(2), "y": 0, "deep": {"z": 1.5}},
            {"x": np.zeros(2), "y": 1, "deep": {"z": 2.5}},
        ]
    )
    assert list(batch) == ["x", "y", "deep"]
    check(batch["x"], [[1, 1], [0, 0]], "float64")
    check(batch["y"], [0, 1], "int64")
    check(batch["deep"]["z"], [1.5, 2.5], "float64")


def test_what_dictionaries_hold_that_is_no_number_stays_a_list():
    """As the samples of a Hugging Face data set: text, tokens of different lengths, vectors as lists, nothing."""
    samples = [
        {"text": "one", "tokens": [1, 2], "vector": [1.0, 2.0], "none": None, "words": ["a", "b"]},
        {"text": "two", "tokens": [3], "vector": [3.0, 4.0], "none": None, "words": ["c", "d"]},
    ]
    batch = Stack()(samples)
    assert (
        batch["text"] == ["one", "two"]
        and batch["tokens"] == [[1, 2], [3]]
        and batch["none"] == [None, None]
    )
    assert batch["words"] == [["a", "b"], ["c", "d"]]
    check(batch["vector"], [[1, 2], [3, 4]], "float64")


def test_dictionaries_must_have_the_same_names():
    with pytest.raises(MXNetValueError, match="the same names, z is not in all of them"):
        Stack()([{"x": 1}, {"x": 2, "z": 3}])
    with pytest.raises(MXNetValueError, match="one shape"):
        Stack()([{"x": np.ones(2)}, {"x": np.ones(3)}])
