"""Samplers: in which order a dataset's samples are read, and which of them share a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import numpy as np

from mxjax.display.reprs import Shown
from mxjax.errors import (
    MXNetAssertionError,
    MXNetNotImplementedError,
    MXNetTypeError,
    MXNetValueError,
)

__all__ = [
    "Sampler",
    "SequentialSampler",
    "RandomSampler",
    "FilterSampler",
    "BatchSampler",
    "IntervalSampler",
]

LAST_BATCH = ("keep", "discard", "rollover")


class Sampler(Shown):
    """The interface of samplers: `__iter__` gives indices (or lists of them), `__len__` how many.

    >>> class Reversed(Sampler):
    ...     def __init__(self, length):
    ...         self.length = length
    ...     def __iter__(self):
    ...         return iter(range(self.length - 1, -1, -1))
    ...     def __len__(self):
    ...         return self.length
    >>> list(Reversed(3))
    [2, 1, 0]
    """

    def __iter__(self) -> Iterator[Any]:
        raise MXNetNotImplementedError(f"{type(self).__name__} must define __iter__")

    def __len__(self) -> int:
        raise MXNetNotImplementedError(f"{type(self).__name__} must define __len__")


class SequentialSampler(Sampler):
    """The indices `start, start + 1, ..., start + length - 1`.

    Args:
      length: how many samples there are.
      start: the first number.

    >>> list(SequentialSampler(3, start=4))
    [4, 5, 6]
    """

    def __init__(self, length: int, start: int = 0) -> None:
        self._length = length
        self._start = start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


class RandomSampler(Sampler):
    """The indices `0 ... length - 1`, each once, in an order that NumPy's global generator draws.

    `numpy.random.seed` fixes the order, and the same seed gives the order that MXNet gives.

    Args:
      length: how many samples there are.

    >>> sorted(int(index) for index in RandomSampler(4))
    [0, 1, 2, 3]
    """

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        indices = np.arange(self._length)
        np.random.shuffle(indices)
        return iter(indices)

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """The indices of the samples for which `fn(sample)` is true, found once when it is made.

    Args:
      fn: says of a sample whether it counts.
      dataset: the dataset.

    >>> list(FilterSampler(lambda sample: sample > 4, [3, 5, 4, 6]))
    [1, 3]
    """

    def __init__(self, fn: Callable[[Any], Any], dataset: Any) -> None:
        self._fn = fn
        self._dataset = dataset
        self._indices = [index for index in range(len(dataset)) if fn(dataset[index])]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class BatchSampler(Sampler):
    """Groups the indices of another sampler into lists of `batch_size`.

    Args:
      sampler: where the indices come from.
      batch_size: how many make a batch.
      last_batch: what becomes of the indices that do not fill a batch: 'keep' gives them as a
        smaller batch, 'discard' drops them, 'rollover' puts them in front of the next iteration.

    Raises:
      MXNetValueError: `batch_size` is not positive, or `last_batch` is none of the three.

    >>> list(BatchSampler(SequentialSampler(5), 2, 'keep'))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler, batch_size: int, last_batch: str = "keep") -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer):
            raise MXNetTypeError(f"batch_size must be an integer, got {batch_size!r}")
        if batch_size < 1:
            raise MXNetValueError(f"batch_size must be at least 1, got {batch_size}")
        if last_batch not in LAST_BATCH:
            raise MXNetValueError(
                f"last_batch must be one of 'keep', 'discard' and 'rollover', got {last_batch!r}"
            )
        self._sampler = sampler
        self._batch_size = int(batch_size)
        self._last_batch = last_batch
        self._prev: list[int] = []

    def __iter__(self) -> Iterator[list[int]]:
        batch, self._prev = self._prev, []
        for index in self._sampler:
            batch.append(index)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif self._last_batch == "rollover":
            self._prev = batch

    def __len__(self) -> int:
        if self._last_batch == "keep":
            return -(-len(self._sampler) // self._batch_size)
        return (len(self._prev) + len(self._sampler)) // self._batch_size


class IntervalSampler(Sampler):
    """Every `interval`-th index of `0 ... length - 1`.

    With `rollover` it starts again from the first index that was left out, until each came once.
    The length is the number of indices it gives (MXNet answers `length` in either case).

    Args:
      length: how many samples there are.
      interval: how far apart samples are.
      rollover: whether all samples come, one start after the other.

    Raises:
      AssertionError: `interval` is not in `1 ... length`.

    >>> list(IntervalSampler(7, interval=3))
    [0, 3, 6, 1, 4, 2, 5]
    >>> list(IntervalSampler(7, interval=3, rollover=False))
    [0, 3, 6]
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        if not 1 <= interval <= length:
            raise MXNetAssertionError(
                f"interval must be between 1 and the length {length}, got {interval}"
            )
        self._length = length
        self._interval = interval
        self._rollover = rollover

    def __iter__(self) -> Iterator[int]:
        for start in range(self._interval if self._rollover else 1):
            yield from range(start, self._length, self._interval)

    def __len__(self) -> int:
        return self._length if self._rollover else -(-self._length // self._interval)


def make_batch_sampler(
    dataset: Sized,
    batch_size: int | None,
    shuffle: bool,
    sampler: Iterable[int] | None,
    last_batch: str | None,
    batch_sampler: Iterable[list[int]] | None,
) -> Any:
    """The batch sampler that a loader's arguments describe; contradictions are errors."""
    if not hasattr(dataset, "__getitem__"):
        raise MXNetTypeError(
            "a dataset is expected, which gives its samples by number (an ArrayDataset, a list, an array), "
            f"got {dataset!r:.80} ({type(dataset).__name__})"
        )
    if batch_sampler is not None:
        given = {
            "batch_size": batch_size is not None,
            "shuffle": bool(shuffle),
            "sampler": sampler is not None,
            "last_batch": last_batch is not None,
        }
        extra = [name for name, present in given.items() if present]
        if extra:
            raise MXNetValueError(
                f"batch_sampler already decides {', '.join(extra)}: leave "
                f"{'it' if len(extra) == 1 else 'them'} out, or leave batch_sampler out"
            )
        return batch_sampler
    if batch_size is None:
        raise MXNetValueError(
            "batch_size must be given, unless batch_sampler is: DataLoader(dataset, batch_size=32)"
        )
    if sampler is None:
        length = len(dataset)
        sampler = RandomSampler(length) if shuffle else SequentialSampler(length)
    elif shuffle:
        raise MXNetValueError("shuffle must not be given with a sampler: the sampler decides")
    return BatchSampler(sampler, batch_size, last_batch or "keep")  # type: ignore[arg-type]
