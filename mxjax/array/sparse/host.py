"""A sparse array on the host: what files hold, checked before anybody trusts its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ... import errors
from .classes import BaseSparseNDArray, wrap
from .value import INDEX, padded, zeros_on_host

_LONGEST = 1 << 28  # bytes of a row, for one of which there is room even where no row is stored
_MOST = 1 << 32  # bytes that a sparse array of a file may become where a dense one is wanted


class HostSparse(NamedTuple):
    """Parts as NumPy arrays: (data, indices), or for csr (data, indices, indptr)."""

    stype: str
    shape: tuple[int, ...]
    parts: tuple[np.ndarray, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.parts[0].dtype

    @classmethod
    def of(cls, array: BaseSparseNDArray) -> HostSparse:
        """The parts of an array; waits for them."""
        return cls(array.stype, array.shape, array._stored.host())

    @classmethod
    def of_members(cls, found: Mapping[str, Any]) -> HostSparse | None:
        """The parts out of the members of an .npz file; None where one is missing."""
        stype, shape = found.get("format"), found.get("shape")
        names = ("data", "indices", "indptr") if stype == b"csr" else ("data", "indices")
        if (
            stype not in (b"csr", b"row_sparse")
            or shape is None
            or any(n not in found for n in names)
        ):
            return None
        if shape.ndim != 1 or not 1 <= len(shape) <= 32:
            return None
        return cls(stype.decode(), tuple(int(n) for n in shape), tuple(found[n] for n in names))

    def fault(self) -> str | None:
        """What is wrong with the parts, if anything is."""
        data, indices, *rest = self.parts
        if any(p.dtype.kind not in "iu" for p in self.parts[1:]):
            return f"indices of {[str(p.dtype) for p in self.parts[1:]]}"
        if self.stype == "row_sparse":
            if not self.shape or indices.ndim != 1 or data.shape != (len(indices), *self.shape[1:]):
                return (
                    f"{data.shape} values in rows {indices.shape} of an array of shape {self.shape}"
                )
            length = math.prod(self.shape[1:]) * data.dtype.itemsize
            if not len(indices) and length > _LONGEST:
                return f"rows of {length} bytes, of which there is none"
            return _range(indices, self.shape[0])
        indptr = rest[0]
        if len(self.shape) != 2 or data.ndim != 1 or indptr.shape != (self.shape[0] + 1,):
            return f"compressed rows of shape {data.shape} in an array of shape {self.shape}"
        if (
            indptr[0] != 0
            or indptr[-1] != len(data)
            or (np.diff(indptr.astype(np.int64)) < 0).any()
        ):
            return "the rows of a sparse array do not follow each other"
        if indices.shape != data.shape:
            return f"{len(indices)} columns for {len(data)} values"
        return _range(indices, self.shape[1])

    def dense(self) -> np.ndarray:
        """The numbers with the zeros.

        Raises:
          MemoryError: they would take more than 4 GiB.
        """
        size = math.prod(self.shape) * self.dtype.itemsize
        if size > _MOST:
            raise errors.MXNetMemoryError(
                f"a sparse array of shape {self.shape} would take {size} bytes as a dense one: load it with mx.nd.load"
            )
        out = zeros_on_host(self.shape, self.dtype)
        data, indices, *rest = self.parts
        if self.stype == "row_sparse":
            out[indices.astype(np.int64)] = data
        else:
            starts = rest[0].astype(np.int64)
            lengths = starts[1:] - starts[:-1]
            rows = np.repeat(np.arange(self.shape[0]), lengths)
            np.add.at(out, (rows, indices.astype(np.int64)), data)
        return out

    def array(self, device: Any) -> Any:
        """The array of these parts."""
        data, *numbers = self.parts
        return wrap(
            padded(self.stype, self.shape, (data, *[n.astype(INDEX) for n in numbers]), device)
        )


def members(arrays: Mapping[str, np.ndarray | HostSparse]) -> Iterator[tuple[str, np.ndarray]]:
    """What an .npz file has: a sparse array is a folder of its parts, shape and storage type, as in MXNet 2."""
    for name, a in arrays.items():
        if not isinstance(a, HostSparse):
            yield name, a
            continue
        for part, numbers in zip(("data", "indices", "indptr"), a.parts, strict=False):
            yield f"{name}/{part}", numbers
        yield f"{name}/shape", np.array(a.shape, np.int64)
        yield f"{name}/format", np.array(a.stype.encode())


def _range(indices: np.ndarray, n: int) -> str | None:
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= n):
        return f"an index outside of 0 ... {n - 1}"
    return None
