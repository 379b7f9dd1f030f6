"""What a sparse value holds, looked at on the host."""

from __future__ import annotations

import numpy as np

from ... import errors
from .value import Stored, padded, zeros_on_host


def compact(stored: Stored) -> Stored:
    """The value with no more room than it takes; waits for it."""
    return padded(stored.stype, stored.aval.shape, stored.host(), stored.aval.device)


def dense_on_host(stored: Stored) -> np.ndarray:
    """The numbers with the zeros, as a NumPy array."""
    shape = stored.aval.shape
    data, indices, *rest = stored.host()
    out = zeros_on_host(shape, stored.aval.dtype)
    if stored.stype == "row_sparse":
        inside = (indices >= 0) & (indices < shape[0])
        out[indices[inside]] = data[inside]
        return out
    indptr = rest[0]
    rows = np.repeat(np.arange(shape[0]), np.maximum(np.diff(indptr), 0))
    count = min(len(rows), len(data))
    inside = (indices[:count] >= 0) & (indices[:count] < shape[1])
    np.add.at(out, (rows[:count][inside], indices[:count][inside]), data[:count][inside])
    return out


def check(stored: Stored, full: bool) -> None:
    """Raise MXNetError where the parts of a sparse value do not make sense."""
    shape = stored.aval.shape
    data, indices, *rest = stored.host()
    if len(indices) != len(data):
        raise errors.MXNetError(
            f"{len(data)} stored values have {len(indices)} indices: one each is expected"
        )
    if stored.stype == "row_sparse":
        if (
            full
            and len(indices)
            and (indices.min() < 0 or indices.max() >= shape[0] or (np.diff(indices) <= 0).any())
        ):
            raise errors.MXNetError(
                "Indices of row_sparse NDArray should be non-negative, less than the size of first dimension and in "
                f"ascending order: got {_some(indices)} for {shape[0]} rows"
            )
        return
    indptr = rest[0]
    if len(indptr) != shape[0] + 1:
        raise errors.MXNetError(
            f"indptr of csr NDArray has {len(indptr)} numbers, {shape[0] + 1} are expected"
        )
    if indptr[0] != 0 or indptr[-1] != len(indices) or (full and (np.diff(indptr) < 0).any()):
        raise errors.MXNetError(
            "indptr of csr NDArray should begin with 0, be non-decreasing and end with the number of indices "
            f"({len(indices)}): got {_some(indptr)}"
        )
    if full and len(indices):
        rows = np.repeat(np.arange(shape[0]), np.diff(indptr))
        falls = (np.diff(indices) <= 0) & (np.diff(rows) == 0)
        if indices.min() < 0 or indices.max() >= shape[1] or falls.any():
            raise errors.MXNetError(
                "Indices of csr NDArray should be non-negative, in ascending order per row and less than the number of "
                f"columns ({shape[1]}): got {_some(indices)}"
            )


def _some(numbers: np.ndarray) -> str:
    return str(numbers.tolist() if len(numbers) < 9 else [*numbers[:8].tolist(), "..."])
