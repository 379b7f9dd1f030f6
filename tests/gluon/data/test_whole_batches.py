"""Batches made as a whole are those made sample by sample, and workers are threads then."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import mxjax as mx
from mxjax.errors import MXNetError
from mxjax.gluon.data import ArrayDataset, DataLoader, SimpleDataset
from mxjax.gluon.data._whole import whole_batches
from mxjax.gluon.data.batchify import Group, Stack
from mxjax.gluon.data.vision import transforms

X = np.random.RandomState(0).randint(0, 256, (11, 6, 5, 3)).astype("uint8")
Y = np.arange(11)


DATASETS = {
    "array": lambda: X,
    "mxjax array": lambda: mx.np.array(X),
    "simple": lambda: SimpleDataset(X),
    "pairs": lambda: ArrayDataset(X, Y),
    "mxjax pairs": lambda: ArrayDataset(mx.np.array(X), mx.np.array(Y)),
    "labels in a list": lambda: ArrayDataset(X, Y.tolist()),
    "nested": lambda: ArrayDataset(SimpleDataset(X), ArrayDataset(Y)),
    "take": lambda: ArrayDataset(X, Y).take(7),
    "shard of shard": lambda: ArrayDataset(X, Y).shard(2, 1).shard(2, 0),
    "filter": lambda: ArrayDataset(X, Y).filter(lambda sample: sample[1] % 3 == 1),
    "tensor": lambda: ArrayDataset(X, Y).transform_first(transforms.ToTensor()),
    "mxjax tensor": lambda: ArrayDataset(mx.np.array(X), Y).transform_first(transforms.ToTensor()),
    "composed": lambda: (
        ArrayDataset(X, Y)
        .transform_first(
            transforms.Compose(
                [
                    transforms.Resize(8),
                    transforms.CenterCrop(4),
                    transforms.ToTensor(),
                    transforms.Normalize((0.1, 0.2, 0.3), 0.5),
                    transforms.Cast("float64"),
                ]
            )
        )
        .take(9)
    ),
    "transform of both": lambda: ArrayDataset(X, Y.astype("float32")).transform(
        transforms.Cast("float16")
    ),
}


def arrays_of(batch):
    return [part.asnumpy() for part in (batch if isinstance(batch, list) else [batch])]


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_batches_are_the_same(name, num_workers):
    dataset = DATASETS[name]()
    whole = DataLoader(dataset, 4, num_workers=num_workers, try_nopython=True)
    single = DataLoader(dataset, 4, try_nopython=False)
    assert whole_batches(dataset, Stack()) is not None
    batches = list(whole)
    assert len(batches) == len(whole) == len(single)
    for got, want in zip(batches, single, strict=True):
        assert type(got) is type(want)
        for a, b in zip(arrays_of(got), arrays_of(want), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=2e-6)  # a graph's first call is NumPy's


class Doubled(ArrayDataset):
    def __getitem__(self, idx):
        return super().__getitem__(idx) * 2


class Inverted(transforms.ToTensor):
    def change(self, x):
        return 1 - super().change(x)


@pytest.mark.parametrize(
    "dataset, batchify_fn",
    [
        (lambda: SimpleDataset(["a", "b"]), Stack()),
        (lambda: Doubled(X), Stack()),
        (lambda: ArrayDataset(X, Y).transform_first(lambda x: x), Stack()),
        (lambda: ArrayDataset(X).transform_first(Inverted()), Stack()),
        (lambda: ArrayDataset(X).transform_first(transforms.RandomFlipLeftRight()), Stack()),
        (
            lambda: ArrayDataset(X).transform_first(
                transforms.Compose([transforms.RandomCrop(3), transforms.ToTensor()])
            ),
            Stack(),
        ),
        (lambda: ArrayDataset(X, Y), Group(Stack(), Stack())),
        (lambda: ArrayDataset(X, Y), lambda samples: samples),
        # images without channels: a batch of them looks like an image, and must not pass for one
        (lambda: ArrayDataset(X[..., 0]).transform_first(transforms.ToTensor()), Stack()),
        (lambda: np.array(["a", "b"]), Stack()),
        (lambda: [], Stack()),
    ],
)
def test_what_needs_python_for_each_sample_gets_it(dataset, batchify_fn):
    dataset = dataset()
    assert whole_batches(dataset, batchify_fn) is None
    if len(dataset):
        with pytest.raises(MXNetError, match="try_nopython=True: batches of .* cannot be made"):
            DataLoader(dataset, 2, batchify_fn=batchify_fn, num_workers=1, try_nopython=True)


def test_overridden_methods_are_called():
    (batch,) = DataLoader(Doubled(np.arange(3)), 3)
    assert batch.asnumpy().tolist() == [0, 2, 4]


def test_workers_are_threads():
    loader = DataLoader(ArrayDataset(X, Y), 4, num_workers=2)
    batches = iter(loader)
    next(batches)
    assert any(thread.name.startswith("mxjax-loader") for thread in threading.enumerate())
    assert [len(data) for data, _ in batches] == [4, 3]


def test_changes_of_the_array_are_seen():
    x = mx.np.zeros((4, 2))
    loader = DataLoader(x, 4)
    assert next(iter(loader)).asnumpy().sum() == 0
    x[1] = 5
    assert next(iter(loader)).asnumpy().sum() == 10


def test_batches_do_not_share_memory_with_the_dataset():
    x = np.zeros((4, 2))
    (batch,) = DataLoader(x, 4)
    x += 1
    batch += 5
    assert batch.asnumpy().sum() == 40 and x.sum() == 8


def test_shuffled_order_is_the_same_either_way():
    orders = []
    for try_nopython in (None, False):
        np.random.seed(1)
        loader = DataLoader(ArrayDataset(X, Y), 4, shuffle=True, try_nopython=try_nopython)
        orders.append([label.asnumpy().tolist() for _ in range(2) for _, label in loader])
    assert orders[0] == orders[1]
