"""What iterators over batches have in common: a description of an input, a batch, the base class."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..array.classes import NDArray
from ..display.reprs import Shown
from ..errors import (
    MXNetAssertionError,
    MXNetNotImplementedError,
)


class DataDesc(namedtuple("DataDesc", ["name", "shape"])):
    """Name, shape, dtype and layout of an input; as a tuple, (name, shape).

    `layout` has a letter for each axis; the batch is the axis of `N`.

    >>> DataDesc("data", (8, 3), layout="NC").layout
    'NC'
    """

    dtype: Any
    layout: str | None

    def __new__(
        cls, name: str, shape: Sequence[int], dtype: Any = np.float32, layout: str | None = "NCHW"
    ) -> DataDesc:
        made = super().__new__(cls, name, shape)
        made.dtype = dtype
        made.layout = layout
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.name, self.shape, self.dtype, self.layout)

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """The axis of the batch in a layout: 0 if there is none, -1 if it has no `N`.

        >>> DataDesc.get_batch_axis("TNC")
        1
        """
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(
        shapes: Iterable[tuple[str, Any]], types: Iterable[tuple[str, Any]] | None
    ) -> list[DataDesc]:
        """Descriptions from pairs (name, shape) and, if not None, pairs (name, dtype)."""
        if types is None:
            return [DataDesc(name, shape) for name, shape in shapes]
        dtypes = dict(types)
        return [DataDesc(name, shape, dtypes[name]) for name, shape in shapes]


class DataBatch(Shown):
    """A batch: lists of arrays.

    Args:
      data, label: lists of arrays; `label` may be None.
      pad: how many samples at the end only fill the batch.
      index: the samples' numbers.
      bucket_key: which bucket it belongs to, for BucketingModule.
      provide_data, provide_label: descriptions of the arrays, for BucketingModule and SequentialModule.

    >>> import mxjax as mx
    >>> print(DataBatch([mx.nd.ones((2, 3))]))
    DataBatch: data shapes: [(2, 3)] label shapes: None
    """

    def __init__(
        self, data: Any, label: Any = None, pad: int | None = None, index: Any = None, bucket_key: Any = None,
        provide_data: Any = None, provide_label: Any = None,
    ):  # fmt: skip
        for word, given in (("Data", data), ("Label", label)):
            if given is not None and not isinstance(given, list | tuple):
                raise MXNetAssertionError(
                    f"{word} must be list of NDArrays, got {type(given).__name__}"
                )
        self.data: list[NDArray] = data
        self.label: list[NDArray] = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self) -> str:
        labels = [each.shape for each in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {[each.shape for each in self.data]} label shapes: {labels}"


class DataIter(Shown):
    """The base of iterators over batches: a subclass defines `next`, or `iter_next` and what gives the batch's parts.

    It has the attributes `provide_data` and `provide_label`, lists of `DataDesc`.
    """

    def __init__(self, batch_size: int = 0):
        self.batch_size = batch_size

    def __iter__(self) -> DataIter:
        return self

    def reset(self) -> None:
        """Begin anew."""

    def next(self) -> DataBatch:
        """The next batch.

        Raises:
          StopIteration: there is none; `reset` begins anew.
        """
        if self.iter_next():
            return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())
        raise StopIteration

    def __next__(self) -> DataBatch:
        return self.next()

    def iter_next(self) -> Any:
        """Go to the next batch; whether there is one."""

    def getdata(self) -> Any:
        """The data of this batch."""

    def getlabel(self) -> Any:
        """The labels of this batch."""

    def getindex(self) -> Any:
        """The numbers of the samples of this batch, or None."""
        return None

    def getpad(self) -> Any:
        """How many samples at the end of this batch only fill it."""

    def state_dict(self) -> dict[str, Any]:
        """Where this iterator is: plain values and NumPy arrays, for `load_state_dict` in another process.

        Raises:
          NotImplementedError: this class does not say.
        """
        raise MXNetNotImplementedError(
            f"{type(self).__name__} does not say where it is: a subclass of DataIter that is to be saved in the middle "
            "of an epoch defines state_dict() and load_state_dict(state)"
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to where `state_dict` was called: the next batch is the one that came then.

        Raises:
          FormatError: `state` is nothing that `state_dict` gives for such an iterator.
        """
        raise MXNetNotImplementedError(f"{type(self).__name__} defines no load_state_dict(state)")
