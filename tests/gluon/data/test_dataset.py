"""Datasets and what is made of them."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx
from mxjax.errors import MXNetAssertionError, MXNetTypeError
from mxjax.gluon.data import (
    ArrayDataset,
    Dataset,
    IntervalSampler,
    RandomSampler,
    SimpleDataset,
)


def all_of(dataset):
    return [dataset[i] for i in range(len(dataset))]


def test_simple_dataset_holds_anything_with_len_and_index():
    assert all_of(SimpleDataset(["a", "b"])) == ["a", "b"]
    assert SimpleDataset(range(5))[-1] == 4


def test_array_dataset_pairs_its_arrays():
    x, y = np.arange(6.0).reshape(3, 2), [7, 8, 9]
    dataset = ArrayDataset(x, y)
    assert len(dataset) == 3
    sample = dataset[1]
    assert isinstance(sample, tuple)
    np.testing.assert_array_equal(sample[0], [2, 3])
    assert sample[1] == 8
    np.testing.assert_array_equal(ArrayDataset(x)[2], [4, 5])
    assert ArrayDataset(SimpleDataset([1, 2]), SimpleDataset([3, 4]))[0] == (1, 3)


def test_array_dataset_of_mxjax_arrays_gives_arrays_and_numpy_labels():
    dataset = ArrayDataset(mx.np.ones((3, 2)), mx.np.arange(3))
    data, label = dataset[1]
    assert isinstance(data, mx.np.ndarray) and data.shape == (2,)
    assert isinstance(label, np.float32) and label == 1
    assert isinstance(SimpleDataset(mx.np.arange(3))[1], mx.np.ndarray)


def test_array_dataset_refuses_unequal_lengths():
    with pytest.raises(MXNetAssertionError, match="number 0 has 2, number 1 has 3"):
        ArrayDataset([1, 2], [1, 2, 3])
    with pytest.raises(MXNetAssertionError, match="at least one"):
        ArrayDataset()


def test_filter_take_sample():
    dataset = SimpleDataset(list(range(10)))
    assert all_of(dataset.filter(lambda sample: sample % 2)) == [1, 3, 5, 7, 9]
    assert all_of(dataset.take(3)) == [0, 1, 2]
    assert len(dataset.take(None)) == len(dataset.take(99)) == 10
    assert all_of(dataset.sample(IntervalSampler(10, 5, rollover=False))) == [0, 5]
    shuffled = dataset.sample(RandomSampler(10))
    assert all_of(shuffled) == all_of(shuffled)  # the order is fixed once
    with pytest.raises(MXNetTypeError, match="gluon.data.Sampler, got list"):
        dataset.sample([1, 2])


@pytest.mark.parametrize("length, shards", [(10, 4), (3, 5), (12, 3), (0, 2), (7, 1)])
def test_shards_are_a_partition_in_order(length, shards):
    dataset = SimpleDataset(list(range(length)))
    parts = [all_of(dataset.shard(shards, index)) for index in range(shards)]
    assert sum(parts, []) == list(range(length))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_shard_errors():
    dataset = SimpleDataset([1, 2, 3])
    with pytest.raises(MXNetAssertionError, match="0 ... 1, got 2"):
        dataset.shard(2, 2)
    with pytest.raises(MXNetAssertionError, match="at least 1, got 0"):
        dataset.shard(0, 0)


def test_transform_gives_tuples_part_by_part():
    calls = []

    def add(x, y):
        calls.append(x)
        return x + y, y

    lazy = ArrayDataset([1, 2], [10, 20]).transform(add)
    assert calls == []
    assert all_of(lazy) == all_of(lazy) == [(11, 10), (22, 20)]
    assert len(calls) == 4
    eager = ArrayDataset([1, 2], [10, 20]).transform(add, lazy=False)
    assert len(calls) == 6
    assert all_of(eager) == [(11, 10), (22, 20)]
    assert len(calls) == 6


def test_transform_first_leaves_the_label():
    dataset = ArrayDataset([1, 2], [10, 20]).transform_first(lambda x: -x)
    assert all_of(dataset) == [(-1, 10), (-2, 20)]
    assert all_of(SimpleDataset([3, 4]).transform_first(lambda x: -x, lazy=False)) == [-3, -4]


def test_methods_chain():
    dataset = (
        SimpleDataset(list(range(100)))
        .shard(2, 1)
        .filter(lambda sample: sample % 5 == 0)
        .transform(lambda sample: sample // 5)
        .take(3)
    )
    assert all_of(dataset) == [10, 11, 12]


def test_filtering_and_eager_transforms_stop_at_the_length():
    class Endless(Dataset):  # indexing never raises IndexError
        def __getitem__(self, idx):
            return idx

        def __len__(self):
            return 4

    assert all_of(Endless().filter(lambda sample: sample > 1)) == [2, 3]
    assert all_of(Endless().transform(str, lazy=False)) == ["0", "1", "2", "3"]


def test_a_subclass_without_methods_says_so():
    class Empty(Dataset):
        pass

    with pytest.raises(NotImplementedError, match="Empty must define __getitem__"):
        Empty()[0]
    with pytest.raises(NotImplementedError, match="Empty must define __len__"):
        len(Empty())


def test_what_stands_in_for_mxnets_handles():
    dataset = ArrayDataset(mx.np.arange(6).reshape(3, 2), [0, 1, 2])
    whole = dataset.__mx_handle__()
    part = dataset.take(2).__mx_handle__()
    assert len(whole) == 3 and len(part) == 2 and part[1][0].asnumpy().tolist() == [2, 3]
    assert [
        len(each[0])
        for each in (ArrayDataset(part, part), ArrayDataset(part, part).__mx_handle__())
    ] == [2, 4]
    stack = mx.gluon.data.batchify.Group(
        mx.gluon.data.batchify.Stack(), mx.gluon.data.batchify.Pad(val=-1)
    )
    both = stack.__mx_handle__()([(np.ones(2), np.ones(1)), (np.ones(2), np.ones(3))])
    assert [each.shape for each in both] == [(2, 2), (2, 3)]
