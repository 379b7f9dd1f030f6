"""Samplers: orders, batches, lengths."""

from __future__ import annotations

import numpy as np
import pytest

from mxjax.errors import MXNetAssertionError, MXNetError, MXNetTypeError, MXNetValueError
from mxjax.gluon.data import (
    BatchSampler,
    FilterSampler,
    IntervalSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)


def test_sequential():
    assert list(SequentialSampler(4)) == [0, 1, 2, 3]
    assert list(SequentialSampler(3, start=5)) == [5, 6, 7]
    assert len(SequentialSampler(3, 5)) == 3


def test_random_order_is_the_one_mxnet_draws_from_the_same_numpy_seed():
    np.random.seed(3)
    # from MXNet 2.0.0b1: numpy.random.seed(3); list(gluon.data.RandomSampler(10))
    assert [int(i) for i in RandomSampler(10)] == [5, 4, 1, 2, 9, 6, 7, 0, 3, 8]


def test_random_is_a_new_permutation_every_time():
    sampler = RandomSampler(50)
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second


def test_filter():
    sampler = FilterSampler(lambda sample: sample % 3 == 0, list(range(10)))
    assert list(sampler) == [0, 3, 6, 9] and len(sampler) == 4


@pytest.mark.parametrize(
    "last_batch, first, second, lengths",
    [
        ("keep", [[0, 1, 2], [3, 4, 5], [6]], [[0, 1, 2], [3, 4, 5], [6]], (3, 3)),
        ("discard", [[0, 1, 2], [3, 4, 5]], [[0, 1, 2], [3, 4, 5]], (2, 2)),
        ("rollover", [[0, 1, 2], [3, 4, 5]], [[6, 0, 1], [2, 3, 4]], (2, 2)),
    ],
)
def test_batches_and_their_last_one(last_batch, first, second, lengths):
    sampler = BatchSampler(SequentialSampler(7), 3, last_batch)
    assert len(sampler) == lengths[0]
    assert list(sampler) == first
    assert len(sampler) == lengths[1]
    assert list(sampler) == second


def test_rollover_adds_up_to_a_batch_more():
    sampler = BatchSampler(SequentialSampler(7), 4, "rollover")
    assert [len(list(sampler)) for _ in range(4)] == [1, 2, 2, 2]


def test_interval():
    assert list(IntervalSampler(13, 3)) == [0, 3, 6, 9, 12, 1, 4, 7, 10, 2, 5, 8, 11]
    assert len(IntervalSampler(13, 3)) == 13
    assert list(IntervalSampler(13, 3, rollover=False)) == [0, 3, 6, 9, 12]
    assert len(IntervalSampler(13, 3, rollover=False)) == 5


def test_errors():
    with pytest.raises(MXNetValueError, match="'keep', 'discard' and 'rollover', got 'x'"):
        BatchSampler(SequentialSampler(3), 2, "x")
    with pytest.raises(MXNetValueError, match="at least 1, got 0"):
        BatchSampler(SequentialSampler(3), 0)
    with pytest.raises(MXNetTypeError, match="integer, got 2.5"):
        BatchSampler(SequentialSampler(3), 2.5)
    with pytest.raises(MXNetAssertionError, match="between 1 and the length 2, got 3"):
        IntervalSampler(2, 3)
    with pytest.raises(NotImplementedError, match="Mine must define __iter__") as caught:

        class Mine(Sampler):
            pass

        list(Mine())
    assert isinstance(caught.value, MXNetError)
