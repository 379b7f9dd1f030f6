"""The datasets and batchify functions that MXNet 2 makes in C++, by their functions; here they are those of Python.

Where MXNet's take pointers these take the objects themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import dataset as _dataset
from .batchify import Group, Pad, Stack

__all__: list[str] = []

#: The dtypes that MXNet's numbers stand for.
_DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")


def StackBatchify(use_shared_mem: int = 0) -> Stack:  # noqa: N802
    """`batchify.Stack`."""
    return Stack(bool(use_shared_mem))


def PadBatchify(
    use_shared_mem: int = 0, pad_val: float = 0, dtype: int = -1, round_to: int = -1
) -> Pad:  # noqa: N802
    """`batchify.Pad`; `dtype` is MXNet's number of one, or -1: as the samples have."""
    chosen = None if dtype < 0 else np.dtype(_DTYPES[dtype])
    return Pad(pad_val, chosen, round_to if round_to > 0 else None, bool(use_shared_mem))


def GroupBatchify(functions: Sequence[Callable[..., Any]]) -> Group:  # noqa: N802
    """`batchify.Group`."""
    return Group(list(functions))


def NDArrayDataset(arr: Any) -> Any:  # noqa: N802
    """The rows of an array."""
    return _dataset.SimpleDataset(arr)


def GroupDataset(datasets: Sequence[Any]) -> Any:  # noqa: N802
    """Tuples of the samples of several datasets."""
    return _dataset.ArrayDataset(*datasets)


def IndexedDataset(base: Any, indices: Sequence[int]) -> Any:  # noqa: N802
    """The samples of a dataset with these numbers."""
    return _dataset._SampledDataset(base, indices)  # type: ignore[arg-type]  # any sequence does


def RecordFileDataset(rec_file: str, idx_file: str | None = None) -> Any:  # noqa: N802
    """The records of a file; its index has the file's name with the ending `.idx`."""
    return _dataset.RecordFileDataset(rec_file)


def ImageRecordFileDataset(rec_file: str, idx_file: str | None = None, flag: int = 1) -> Any:  # noqa: N802
    """Images and labels of a record file; its index has the file's name with the ending `.idx`."""
    from .vision import ImageRecordDataset

    return ImageRecordDataset(rec_file, flag)


class _Images(_dataset.Dataset):
    def __init__(self, paths: Sequence[str], flag: int):
        self._paths = list(paths)
        self._flag = flag

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, idx: int) -> Any:
        from mxjax import image

        return image.imread(self._paths[idx], self._flag)


def ImageSequenceDataset(img_list: str, path_sep: str = "|", flag: int = 1) -> Any:  # noqa: N802
    """The images of a list of paths in one text."""
    return _Images(img_list.split(path_sep), flag)
