"""What iterators over arrays do with the arrays they are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..array import NDArray
from ..errors import MXNetAssertionError, MXNetTypeError
from ..nd import array, take  # type: ignore[attr-defined]

__all__: list[str] = []


def _is_h5(data: Any) -> bool:
    """Whether this is a dataset in an HDF5 file, which is read batch by batch; the question imports no h5py."""
    return type(data).__module__.partition(".")[0] == "h5py"


def _is_sparse(data: Any) -> bool:
    """Whether this is a compressed sparse matrix, of this package or of SciPy."""
    return getattr(data, "stype", "default") == "csr" or type(data).__module__.startswith(
        "scipy.sparse"
    )


def _init_data(data: Any, allow_empty: bool, default_name: str) -> list[tuple[str, Any]]:
    """Arrays with their names, in the order of the names.

    Args:
      data: an array, a list of them, or a dictionary from names to arrays.
      allow_empty: None and an empty list are allowed.
      default_name: the name of a single array; of several the n-th is `_n_<default_name>`.
    """
    if data is None and not allow_empty:
        raise MXNetAssertionError(
            f"{default_name} must be an array, a list or a dictionary of arrays, got None"
        )
    if data is None:
        data = []
    if isinstance(data, np.ndarray | NDArray) or _is_h5(data):
        data = [data]
    if isinstance(data, list):
        if not data and not allow_empty:
            raise MXNetAssertionError(
                f"{default_name} must hold at least one array, got an empty list"
            )
        if len(data) == 1:
            data = {default_name: data[0]}
        else:
            data = {f"_{place}_{default_name}": each for place, each in enumerate(data)}
    if not isinstance(data, Mapping):
        raise MXNetTypeError(
            "Input must be NDArray, numpy.ndarray, h5py.Dataset, a list of them or a dict with them as values, got "
            f"{type(data).__name__}"
        )
    return sorted((name, _as_source(name, each)) for name, each in data.items())


def _as_source(name: str, data: Any) -> Any:
    if isinstance(data, NDArray) and data.stype == "row_sparse":
        return data.tostype("default")  # a batch is dense, as in MXNet
    if isinstance(data, NDArray) or _is_h5(data):
        return data
    try:
        return array(data)
    except Exception as error:
        raise MXNetTypeError(
            f"Invalid type {type(data).__name__!r} for {name}, should be NDArray, numpy.ndarray or h5py.Dataset: "
            f"{error}"
        ) from error


def _has_instance(data: list[tuple[str, Any]], dtype: type | tuple[type, ...]) -> bool:
    """Whether one of the arrays is an instance of a class."""
    return any(isinstance(each, dtype) for _, each in data)


def _getdata_by_idx(data: list[tuple[str, Any]], idx: np.ndarray) -> list[tuple[str, Any]]:
    """The arrays with their rows in the order `idx`, in float32; files stay as they are."""
    return [(name, each if _is_h5(each) else _rows(each, idx)) for name, each in data]


def _rows(data: Any, idx: np.ndarray) -> Any:
    if _is_sparse(data):
        return take(data, array(idx, data.context, "int64"))  # type: ignore[arg-type]
    return array(data.asnumpy()[idx], data.context)  # float32, as in MXNet


def _slice_along_batch_axis(data: Any, s: slice, batch_axis: int) -> Any:
    """A slice of an array along the batch's axis."""
    return data.slice_axis(axis=batch_axis, begin=s.start, end=s.stop)
