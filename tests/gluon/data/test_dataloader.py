"""The loader in this process and with threads: batches, order, arguments, errors."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import mxjax as mx
from mxjax.errors import MXNetTimeoutError, MXNetTypeError, MXNetValueError
from mxjax.gluon.data import (
    ArrayDataset,
    BatchSampler,
    DataLoader,
    Dataset,
    SequentialSampler,
    SimpleDataset,
)

WAYS = [{}, {"num_workers": 2, "thread_pool": True}]


def numbers(loader):
    return [batch.asnumpy().tolist() for batch in loader]


@pytest.mark.parametrize("way", WAYS)
def test_batches_are_lists_of_arrays(way):
    x = np.arange(10.0).reshape(5, 2)
    for data in (x, mx.np.array(x, dtype="float64")):
        loader = DataLoader(ArrayDataset(data, np.arange(5)), 2, **way)
        batches = list(loader)
        assert len(loader) == len(batches) == 3
        assert all(type(batch) is list for batch in batches)
        for position, (features, label) in enumerate(batches):
            assert isinstance(features, mx.np.ndarray) and isinstance(label, mx.np.ndarray)
            np.testing.assert_array_equal(features.asnumpy(), x[2 * position : 2 * position + 2])
            assert np.dtype(features.dtype) == np.float64 and np.dtype(label.dtype) == np.int64
        assert batches[-1][0].shape == (1, 2)


@pytest.mark.parametrize("way", WAYS)
def test_arrays_and_lists_are_datasets(way):
    assert numbers(DataLoader(np.arange(5), 2, **way)) == [[0, 1], [2, 3], [4]]
    assert numbers(DataLoader([5, 6, 7], 2, **way)) == [[5, 6], [7]]
    assert numbers(DataLoader(mx.np.arange(4), 2, **way)) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("way", WAYS)
def test_last_batches(way):
    keep = DataLoader(list(range(7)), 3, last_batch="keep", **way)
    assert numbers(keep) == [[0, 1, 2], [3, 4, 5], [6]]
    discard = DataLoader(list(range(7)), 3, last_batch="discard", **way)
    assert numbers(discard) == [[0, 1, 2], [3, 4, 5]]
    rollover = DataLoader(list(range(7)), 3, last_batch="rollover", **way)
    assert numbers(rollover) == [[0, 1, 2], [3, 4, 5]]
    assert numbers(rollover) == [[6, 0, 1], [2, 3, 4]]
    assert numbers(rollover) == [[5, 6, 0], [1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("way", WAYS)
def test_shuffling_follows_the_seed_of_numpy(way):
    loader = DataLoader(list(range(20)), 5, shuffle=True, **way)
    np.random.seed(7)
    first, second = numbers(loader), numbers(loader)
    np.random.seed(7)
    assert (numbers(loader), numbers(loader)) == (first, second)
    assert first != second
    assert sorted(sum(first, [])) == list(range(20))
    np.random.seed(7)
    order = np.arange(20)
    np.random.shuffle(order)
    assert sum(first, []) == order.tolist()


def test_samplers():
    assert numbers(DataLoader(list("abcd"), 2, sampler=[3, 1], batchify_fn=mx_index)) == [[3, 1]]
    batches = BatchSampler(SequentialSampler(4), 3)
    assert numbers(DataLoader(list(range(4)), batch_sampler=batches)) == [[0, 1, 2], [3]]
    assert numbers(DataLoader(list(range(4)), batch_sampler=[[3], [0, 1]])) == [[3], [0, 1]]


def mx_index(samples):
    return mx.np.array(["abcd".index(sample) for sample in samples])


@pytest.mark.parametrize("way", WAYS)
def test_a_batchify_function_of_the_user_decides(way):
    loader = DataLoader(["a", "bb", "ccc"], 2, batchify_fn=lambda samples: samples, **way)
    assert list(loader) == [["a", "bb"], ["ccc"]]
    loader = DataLoader([1, 2], 2, batchify_fn=lambda samples: np.array(samples), **way)
    assert type(next(iter(loader))) is np.ndarray


def test_arguments_that_contradict():
    with pytest.raises(MXNetValueError, match="batch_size must be given"):
        DataLoader([1, 2])
    with pytest.raises(MXNetValueError, match="shuffle must not be given with a sampler"):
        DataLoader([1, 2], 1, shuffle=True, sampler=SequentialSampler(2))
    with pytest.raises(MXNetValueError, match="already decides batch_size, shuffle"):
        DataLoader([1, 2], 1, shuffle=True, batch_sampler=[[0]])
    with pytest.raises(AssertionError, match="timeout must be positive, got 0"):
        DataLoader([1, 2], 1, timeout=0)
    with pytest.raises(MXNetValueError, match="last_batch"):
        DataLoader([1, 2], 1, last_batch="x")
    with pytest.raises(MXNetTypeError, match="batchify_fn must be callable, got 3"):
        DataLoader([1, 2], 1, batchify_fn=3)


@pytest.mark.parametrize("way", WAYS)
def test_errors_of_the_dataset_arrive_as_they_are(way):
    class Failing(Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, idx):
            if idx == 3:
                raise KeyError("no sample 3")
            return idx

    batches = iter(DataLoader(Failing(), 2, **way))
    assert next(batches).asnumpy().tolist() == [0, 1]
    with pytest.raises(KeyError, match="no sample 3"):
        next(batches)
    with pytest.raises(StopIteration):
        next(batches)


def test_threads_keep_the_order_and_the_bound():
    running, most = set(), []

    class Slow(Dataset):
        def __len__(self):
            return 24

        def __getitem__(self, idx):
            running.add(idx // 2)
            most.append(max(running))
            time.sleep(0.002 * (idx * 7 % 5))
            return idx

    loader = DataLoader(Slow(), 2, num_workers=3, thread_pool=True, prefetch=4)
    seen = []
    for number, batch in enumerate(loader):
        seen += batch.asnumpy().tolist()
        # of the batches ahead, at most `prefetch` have been begun
        assert max(running) <= number + 4
    assert seen == list(range(24))


def test_two_loops_at_once_share_the_threads():
    loader = DataLoader(list(range(10)), 3, num_workers=2, thread_pool=True)
    pairs = [
        (a.asnumpy().tolist(), b.asnumpy().tolist()) for a, b in zip(loader, loader, strict=True)
    ]
    assert len(pairs) == 4 and all(a == b for a, b in pairs)


def test_a_stuck_thread_is_a_timeout_and_the_loader_recovers():
    release = threading.Event()

    class Stuck(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, idx):
            if idx == 2 and not release.is_set():
                release.wait(30)
            return idx

    loader = DataLoader(Stuck(), 2, num_workers=1, thread_pool=True, timeout=2, batchify_fn=list)
    batches = iter(loader)
    next(batches)
    with pytest.raises(MXNetTimeoutError, match="threads within 2 s"):
        next(batches)
    release.set()
    assert list(loader) == [[0, 1], [2, 3]]


def test_a_dataset_that_raises_timeout_is_no_timeout_of_the_loader():
    class Remote(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, idx):
            raise TimeoutError("the server")

    with pytest.raises(TimeoutError, match="the server"):
        next(iter(DataLoader(Remote(), 2, num_workers=1, thread_pool=True)))


def test_threads_end_with_their_loader():
    # Told apart by thread, not by number: an earlier test's threads may still be on their way out.
    earlier = set(threading.enumerate())

    def loaders():
        return [
            t
            for t in threading.enumerate()
            if t.name.startswith("mxjax-loader") and t not in earlier
        ]

    loader = DataLoader(list(range(10)), 3, num_workers=2, thread_pool=True)
    batches = iter(loader)
    next(batches)
    assert len(loaders()) == 2
    del loader, batches
    deadline = time.monotonic() + 5
    while loaders() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not loaders()


def test_transforms_of_mxjax_arrays():
    dataset = ArrayDataset(mx.np.ones((4, 2)), np.arange(4)).transform_first(lambda x: x * 3)
    for way in WAYS:
        for data, _ in DataLoader(dataset, 2, **way):
            np.testing.assert_array_equal(data.asnumpy(), np.full((2, 2), 3))


def test_pinned_memory_holds_the_same_batches():
    for way in WAYS:
        (batch,) = DataLoader([1.0, 2.0], 2, pin_memory=True, **way)
        assert batch.asnumpy().tolist() == [1, 2]


def test_an_empty_dataset_has_no_batches():
    for way in WAYS:
        assert list(DataLoader([], 2, **way)) == []


@pytest.mark.parametrize("way", [*WAYS, {"num_workers": 1}])
def test_samples_of_nd_arrays_give_nd_batches(way):
    if "thread_pool" not in way and way:
        pytest.importorskip("loky", reason="worker processes need loky, of the extra 'data'")
    dataset = SimpleDataset([(mx.nd.array([i, i]), i) for i in range(3)])
    for data, label in DataLoader(dataset, 2, **way):
        assert isinstance(data, mx.nd.NDArray) and isinstance(label, mx.np.ndarray)
        if way != {"num_workers": 1}:
            assert not isinstance(data, mx.np.ndarray)


def test_batches_stay_on_the_device_of_their_samples():
    x = mx.np.ones((4, 2), device=mx.cpu(1))
    dataset = ArrayDataset(x).transform(lambda sample: sample * 2)
    for way in WAYS:
        for batch in DataLoader(dataset, 2, **way):
            assert batch.device == mx.cpu(1)
            np.testing.assert_array_equal(batch.asnumpy(), np.full((2, 2), 2))


def test_a_batch_of_transformed_arrays_compiles_a_few_small_programs():
    x = mx.np.array(np.arange(200.0).reshape(100, 2), dtype="float32")
    dataset = ArrayDataset(x).transform(lambda sample: sample * 3 + 1)
    list(DataLoader(dataset, 40))
    mx.engine.reset()
    batches = list(DataLoader(dataset, 40)) + list(DataLoader(dataset, 80))
    assert mx.engine.stats()["compiled"] <= 2
    np.testing.assert_array_equal(
        np.concatenate([batch.asnumpy() for batch in batches[:3]]), x.asnumpy() * 3 + 1
    )


def test_an_epoch_may_begin_before_its_loop():
    read = []

    class Noted(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, idx):
            read.append(idx)
            return idx

    loader = DataLoader(Noted(), 1, num_workers=1, thread_pool=True, prefetch=2)
    loader.refresh()
    deadline = time.monotonic() + 10
    while len(read) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert read == [0, 1]
    assert [batch.item() for batch in loader] == [0, 1, 2, 3] and len(read) == 4
    loader.refresh()
    loader.clean()
    assert [batch.item() for batch in loader] == [0, 1, 2, 3]


class TableOfRows:
    """What a Hugging Face data set is to a loader: rows are dictionaries, columns come by name."""

    def __len__(self):
        return 6

    def __getitem__(self, i):
        if isinstance(i, str):
            return [self[k][i] for k in range(6)]
        return {"text": f"row {i}", "pixels": np.full((2, 2), i, "uint8"), "label": i % 2}


@pytest.mark.parametrize(
    "workers", [{}, {"num_workers": 2, "thread_pool": True}, {"num_workers": 1}]
)
def test_samples_that_are_dictionaries(workers):
    batches = list(DataLoader(TableOfRows(), 3, **workers))
    assert [b["text"] for b in batches] == [
        [f"row {i}" for i in r] for r in (range(3), range(3, 6))
    ]
    for b, first in zip(batches, (0, 3), strict=True):
        assert b["pixels"].dtype == "uint8" and b["pixels"].shape == (3, 2, 2)
        assert b["pixels"][:, 0, 0].tolist() == [first, first + 1, first + 2]
        assert b["label"].tolist() == [i % 2 for i in range(first, first + 3)]
