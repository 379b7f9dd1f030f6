"""Datasets: anything with `len()` and `[]`, and what can be made of one."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from mxjax import recordio
from mxjax.display.reprs import Shown
from mxjax.errors import MXNetAssertionError, MXNetNotImplementedError, MXNetTypeError

from ._host import HostArray, host_view, is_array, to_array, tree_to_arrays, tree_to_host
from .sampler import FilterSampler, Sampler, SequentialSampler

__all__ = ["ArrayDataset", "Dataset", "RecordFileDataset", "SimpleDataset"]


class Dataset(Shown):
    """The interface of datasets: `dataset[i]` is a sample, `len(dataset)` their number.

    Arrays and lists serve as datasets too; this class adds the methods that make one dataset of
    another.

    >>> class Squares(Dataset):
    ...     def __getitem__(self, idx):
    ...         return idx * idx
    ...     def __len__(self):
    ...         return 5
    >>> evens = Squares().filter(lambda sample: sample % 2 == 0)
    >>> [evens[i] for i in range(len(evens))]
    [0, 4, 16]
    """

    def _shown(self) -> dict[str, Any]:
        shown = {
            name: value for name, value in super()._shown().items() if isinstance(value, Dataset)
        }
        try:
            return {**shown, "samples": len(self)}
        except (NotImplementedError, TypeError):
            return shown

    def __getitem__(self, idx: Any) -> Any:
        raise MXNetNotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __len__(self) -> int:
        raise MXNetNotImplementedError(f"{type(self).__name__} must define __len__")

    def filter(self, fn: Callable[[Any], Any]) -> Dataset:
        """The samples for which `fn(sample)` is true.

        `fn` sees every sample once, now; a lazy transform runs again when a sample is read.
        """
        return _SampledDataset(self, FilterSampler(fn, self))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """The `index`-th of `num_shards` contiguous parts, whose sizes differ by one at most.

        Shard before shuffling, so that the workers of a distributed job share no sample.

        Raises:
          MXNetAssertionError: `num_shards` is not positive, or `index` is no shard's number.
        """
        if num_shards < 1:
            raise MXNetAssertionError(f"num_shards must be at least 1, got {num_shards}")
        if not 0 <= index < num_shards:
            raise MXNetAssertionError(
                f"index must name one of the {num_shards} shards 0 ... {num_shards - 1}, "
                f"got {index}"
            )
        size, rest = divmod(len(self), num_shards)
        start = size * index + min(index, rest)
        return _SampledDataset(self, SequentialSampler(size + (index < rest), start))

    def take(self, count: int | None) -> Dataset:
        """The first `count` samples; all of them if `count` is None or larger."""
        length = len(self)
        return _SampledDataset(
            self, SequentialSampler(length if count is None else min(count, length))
        )

    def sample(self, sampler: Sampler) -> Dataset:
        """The samples whose indices `sampler` gives, in its order, which is fixed now.

        Raises:
          MXNetTypeError: `sampler` is not a `gluon.data.Sampler`.
        """
        if not isinstance(sampler, Sampler):
            raise MXNetTypeError(
                f"sampler must be a gluon.data.Sampler, got {type(sampler).__name__}"
            )
        return _SampledDataset(self, sampler)

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """The samples `fn(*sample)` (`fn(sample)` where a sample is not a tuple).

        A lazy transform runs each time a sample is read, so a random one differs every epoch;
        `lazy=False` runs it once for each sample, now.

        >>> pairs = ArrayDataset([1, 2], [3, 4]).transform(lambda x, y: (x + y, y))
        >>> pairs[1]
        (6, 4)
        """
        transformed = _LazyTransformDataset(self, fn)
        if lazy:
            return transformed
        return SimpleDataset([transformed[idx] for idx in range(len(transformed))])

    def transform_first(self, fn: Callable[[Any], Any], lazy: bool = True) -> Dataset:
        """Each sample with `fn` applied to its first part alone: the image, not the label."""
        return self.transform(_TransformFirstClosure(fn), lazy)

    def __mx_handle__(self) -> Dataset:
        """What MXNet's loader in C++ takes in the dataset's place; here the loader takes the dataset itself."""
        return self

    def _host_item(self, idx: Any) -> Any:
        """The sample with a `HostArray` for each mxjax array that is held on the host."""
        return self[idx]


def host_item(dataset: Any, idx: Any) -> Any:
    """`dataset[idx]` as `Dataset._host_item` gives it, for anything that serves as a dataset."""
    if isinstance(dataset, Dataset):
        return dataset._host_item(idx)
    item = dataset[idx]
    return host_view(item) if isinstance(dataset, HostArray) else item


def _read(data: Any, idx: Any) -> Any:
    item = data[idx]
    return to_array(np.asarray(item)) if isinstance(data, HostArray) else item


class SimpleDataset(Dataset):
    """A list, an array, or anything else with `len()` and `[]`, as a `Dataset`.

    Args:
      data: a list, or what has a length and gives samples by number.

    >>> SimpleDataset(['a', 'b'])[1]
    'b'
    """

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        item = _read(self._data, idx)
        return tree_to_arrays(item) if type(self._data) is _HostList else item

    def _host_item(self, idx: Any) -> Any:
        if type(self).__getitem__ is not SimpleDataset.__getitem__:
            return self[idx]
        return host_item(self._data, idx)

    def _for_worker(self) -> SimpleDataset:
        twin = copy.copy(self)
        if is_array(self._data):
            twin._data = host_view(self._data)
        elif type(self._data) is list:
            twin._data = _HostList(tree_to_host(item) for item in self._data)
        return twin


class _HostList(list):
    """A list whose mxjax arrays were replaced for a worker process."""


class ArrayDataset(Dataset):
    """Samples made of the i-th elements of several arrays, lists or datasets: `(x[i], y[i])`.

    With one argument a sample is `x[i]` itself.  A one-dimensional mxjax array is read as NumPy,
    so that a label is a NumPy scalar, as in MXNet.

    Raises:
      MXNetAssertionError: no argument, or arguments of different lengths.

    >>> ArrayDataset([1, 2, 3], ['a', 'b', 'c'])[2]
    (3, 'c')
    """

    def __init__(self, *args: Any) -> None:
        if not args:
            raise MXNetAssertionError("ArrayDataset needs at least one array")
        self._length = len(args[0])
        self._data: list[Any] = []
        for position, data in enumerate(args):
            if len(data) != self._length:
                raise MXNetAssertionError(
                    "all arrays of an ArrayDataset must have the same length: number 0 has "
                    f"{self._length}, number {position} has {len(data)}"
                )
            if is_array(data) and len(data.shape) == 1:
                data = data.asnumpy()
            self._data.append(data)

    def __getitem__(self, idx: Any) -> Any:
        if len(self._data) == 1:
            return _read(self._data[0], idx)
        return tuple(_read(data, idx) for data in self._data)

    def __len__(self) -> int:
        return self._length

    def _host_item(self, idx: Any) -> Any:
        if type(self).__getitem__ is not ArrayDataset.__getitem__:
            return self[idx]
        if len(self._data) == 1:
            return host_item(self._data[0], idx)
        return tuple(host_item(data, idx) for data in self._data)

    def __mx_handle__(self) -> Dataset:
        """The dataset as MXNet's loader in C++ has it: tuples in its samples are no tuples of their own."""
        return self.transform(_flat) if len(self._data) > 1 else self

    def _for_worker(self) -> ArrayDataset:
        twin = copy.copy(self)
        twin._data = [host_view(data) if is_array(data) else data for data in self._data]
        return twin


def _flat(*parts: Any) -> tuple[Any, ...]:
    return tuple(one for part in parts for one in (part if isinstance(part, tuple) else (part,)))


class RecordFileDataset(Dataset):
    """The records of a file: `dataset[i]` are the bytes of the i-th record of its index.

    Args:
      filename: the record file; its index has the same name with the ending `.idx`.

    Raises:
      MXNetFileNotFoundError: one of them is not there; `mx.recordio.make_index` makes an index.
      FormatError: a record is damaged; the message has its offset.
    """

    def __init__(self, filename: str) -> None:
        self.filename = os.fspath(filename)
        self.idx_file = os.path.splitext(self.filename)[0] + ".idx"
        self._record = recordio.MXIndexedRecordIO(self.idx_file, self.filename, "r")

    def __getitem__(self, idx: Any) -> Any:
        return self._record.read_idx(self._record.keys[idx])

    def __len__(self) -> int:
        return len(self._record.keys)


class _SampledDataset(Dataset):
    """The samples of a dataset that a sampler chose."""

    def __init__(self, dataset: Any, sampler: Sampler) -> None:
        self._dataset = dataset
        self._indices = list(sampler)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: Any) -> Any:
        return self._dataset[self._indices[idx]]

    def _host_item(self, idx: Any) -> Any:
        return host_item(self._dataset, self._indices[idx])


class _LazyTransformDataset(Dataset):
    """The samples of a dataset, each transformed when it is read."""

    def __init__(self, data: Any, fn: Callable[..., Any]) -> None:
        self._data = data
        self._fn = fn

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        item = self._data[idx]
        if isinstance(item, tuple):
            return self._fn(*item)
        return self._fn(item)


class _TransformFirstClosure(Shown):
    """A transform that leaves all but the first part alone; a class, so that it pickles."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self._fn = fn

    def __call__(self, x: Any, *args: Any) -> Any:
        if args:
            return (self._fn(x), *args)
        return self._fn(x)
