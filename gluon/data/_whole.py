"""Batches made as a whole: where samples are rows of arrays, a batch is one gather of rows.

MXNet compiles such pipelines to C++ and feeds them from threads.  Here the same datasets (arrays
under `take`, `shard`, `filter`, `sample`, and transforms that treat a batch image by image) need no
Python per sample, so workers would only be in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._host import is_array, to_array
from .batchify import Stack, StackTuples
from .dataset import (
    ArrayDataset,
    SimpleDataset,
    _LazyTransformDataset,
    _SampledDataset,
    _TransformFirstClosure,
)

# Gives the batch of some samples: one array, or a tuple of them.
Gather = Callable[[np.ndarray], Any]


def whole_batches(dataset: Any, batchify_fn: Any) -> Callable[[Sequence[Any]], Any] | None:
    """A function from indices to a batch, as `batchify_fn` makes it of the samples; or None."""
    if type(batchify_fn) not in (Stack, StackTuples):
        return None
    gather = _gather(dataset)
    if gather is None or len(dataset) == 0:
        return None

    def load(indices: Sequence[Any]) -> Any:
        batch = gather(np.asarray(indices, dtype=np.int64))
        return list(batch) if isinstance(batch, tuple) else batch

    return load if _agrees(load, dataset, batchify_fn) else None


def _agrees(load: Callable[[Sequence[Any]], Any], dataset: Any, batchify_fn: Any) -> bool:
    """Whether a batch of one has the form that its sample gives; nothing is computed for that.

    A transform of images would take a batch (N, H, W) of samples without channels for one image.
    """
    try:
        whole, single = load([0]), batchify_fn([dataset[0]])
    except Exception:  # the user's code, of any class
        return False  # sample by sample, the error names what is wrong
    return bool(_form(whole) == _form(single))


def _form(batch: Any) -> Any:
    if isinstance(batch, list):
        return [_form(part) for part in batch]
    return type(batch), batch.shape, np.dtype(batch.dtype)


def _gather(dataset: Any) -> Gather | None:
    kind = type(dataset)
    if isinstance(dataset, np.ndarray) or is_array(dataset):
        return _rows(dataset)
    if kind is SimpleDataset:
        return _gather(dataset._data)
    if kind is ArrayDataset:
        return _columns(dataset._data)
    if kind is _SampledDataset:
        return _chosen(dataset)
    if kind is _LazyTransformDataset:
        return _transformed(dataset)
    if hasattr(kind, "_columns"):
        columns = dataset._columns()
        return None if columns is None else _columns(columns)
    return None


def _rows(data: Any) -> Gather | None:
    if not data.shape:
        return None
    if isinstance(data, np.ndarray):
        if data.dtype.kind not in "biufcV":
            return None
        return lambda indices: to_array(np.take(data, indices, axis=0))
    if data.device.device_type.startswith("cpu"):
        # Looked up anew each time, since the array may have changed; NumPy reads XLA's own memory.
        return lambda indices: to_array(np.take(np.asarray(data.jax), indices, axis=0))
    return lambda indices: data[indices]


def _columns(columns: Sequence[Any]) -> Gather | None:
    parts = [
        _stacked(column) if type(column) in (list, tuple, range) else _gather(column)
        for column in columns
    ]
    if any(part is None for part in parts):
        return None
    if len(parts) == 1:
        return parts[0]
    return lambda indices: tuple(part(indices) for part in parts)  # type: ignore[misc]


def _stacked(items: Sequence[Any]) -> Gather:
    return lambda indices: Stack()([items[index] for index in indices])


def _chosen(dataset: _SampledDataset) -> Gather | None:
    inner = _gather(dataset._dataset)
    if inner is None:
        return None
    chosen = np.asarray(dataset._indices, dtype=np.int64)
    return lambda indices: inner(chosen[indices])


def _transformed(dataset: _LazyTransformDataset) -> Gather | None:
    fn = dataset._fn
    if not _takes_batches(fn._fn if isinstance(fn, _TransformFirstClosure) else fn):
        return None
    inner = _gather(dataset._data)
    if inner is None:
        return None

    def load(indices: np.ndarray) -> Any:
        batch = inner(indices)
        return fn(*batch) if isinstance(batch, tuple) else fn(batch)

    return load


def _takes_batches(block: Any) -> bool:
    """Whether a transform, or each in a composition of them, may see a whole batch."""
    # A subclass must say so itself: it may have changed what its base does.
    own = type(block).__dict__.get("whole_batches", False)
    return all(map(_takes_batches, block)) if own == "if all parts do" else bool(own)
