"""Values of which only some rows, or some elements, are kept: what sparse arrays hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import errors
from ...core import Aval, aval, record
from ...core.calls.state import local
from ...core.calls.value import Value
from ...core.graph.tape import ADD
from ...core.run.sync import to_host, transfer
from ...ops.stored import bound
from ...scopes import Scope
from ..handle import cast, on_device

STYPES = ("default", "row_sparse", "csr")


def known_stype(stype: str) -> str:
    """A storage type, which there is.

    Raises:
      MXNetError: there is none of the name.
    """
    if stype not in STYPES:
        raise errors.MXNetError(
            f"Invalid Input: {stype!r}, valid values are: {', '.join(map(repr, STYPES))}"
        )
    return stype


INDEX = np.dtype("int64")


def room(count: int, most: int) -> int:
    """How many places are kept for so many things, of which there are at most `most`: a power of two, or 1.5 of one.

    Few lengths, so that the programs of one batch serve the next; and at least one, which JAX's gathers need.

    >>> [room(n, 1000) for n in (0, 3, 5, 100, 700, 900)]
    [1, 3, 6, 128, 768, 1000]
    """
    size = 1
    while size < count:
        size *= 2
    smaller = size // 4 * 3
    return max(1, min(smaller if smaller >= count else size, max(most, count)))


def zeros_on_host(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A dense array of zeros.

    Raises:
      MemoryError: there is no room for it.
    """
    try:
        return np.zeros(shape, dtype)
    except (MemoryError, ValueError):  # ValueError: more bytes than there are addresses
        size = math.prod(shape) * np.dtype(dtype).itemsize
        raise errors.MXNetMemoryError(
            f"a sparse array of shape {shape} would take {size} bytes as a dense one, and there is no room for them: "
            "its stored values are x.data and x.indices"
        ) from None


class Stored:
    """A sparse value: `row_sparse` with parts (data, indices), or `csr` with parts (data, indices, indptr).

    ``aval`` is that of the dense array it stands for. The parts are values of the engine, with room for more than is
    stored (see `mxjax.ops.stored`); ``count`` is how much is stored, None where nobody has looked yet. ``tape`` and
    ``out`` are those of a `Value`: autograd sees a sparse value as one value, not as its parts.
    """

    __slots__ = ("__weakref__", "aval", "count", "out", "parts", "stype", "tape")

    def __init__(self, stype: str, of: Aval, parts: Sequence[Value], count: int | None = None):
        self.stype = stype
        self.aval = of
        self.parts = tuple(parts)
        self.count = count
        self.tape: Any = None
        self.out = 0
        if not made:
            made.append(self.__class__)
            for begin in beginnings:
                begin()

    @property
    def data(self) -> Value:
        return self.parts[0]

    @property
    def indices(self) -> Value:
        return self.parts[1]

    @property
    def indptr(self) -> Value:
        return self.parts[2]

    @property
    def capacity(self) -> int:
        """How much there is room for."""
        return int(self.parts[0].aval.shape[0])

    def dense(self) -> Value:
        """The dense value, a new one."""
        shape = self.aval.shape
        with untaped():
            if self.stype == "row_sparse":
                return record(bound("rows_to_dense", rows=shape[0]), self.parts)[0]
            return record(bound("csr_to_dense", columns=shape[1]), self.parts)[0]

    def counted(self) -> int:
        """How much is stored; waits for it."""
        if self.count is None:
            if self.stype == "csr":
                self.count = int(to_host(self.indptr)[-1])
            else:
                self.count = int((to_host(self.indices) < self.aval.shape[0]).sum())
        return self.count

    def exact(self) -> tuple[Value, ...]:
        """The parts without the room behind what is stored; waits to know how much that is."""
        count = self.counted()
        if count == self.capacity:
            return self.parts
        if not count:
            device = self.aval.device
            cut = [
                on_device(np.zeros((0, *p.aval.shape[1:]), p.aval.dtype), device)
                for p in self.parts[:2]
            ]
        else:
            with untaped():
                cut = [record(bound("begun", count=count), (p,))[0] for p in self.parts[:2]]
        return (*cut, *self.parts[2:])

    def host(self) -> tuple[np.ndarray, ...]:
        """The parts as NumPy arrays, without room."""
        count = self.counted()
        found = [to_host(p) for p in self.parts]
        return (found[0][:count], found[1][:count], *found[2:])

    def with_data(self, data: Value) -> Stored:
        """The same places with other data, whose dtype may be another."""
        shape = self.aval.shape
        if self.stype == "row_sparse":
            shape = (shape[0], *data.aval.shape[1:])
        return Stored(
            self.stype,
            aval(shape, data.aval.dtype, self.aval.device),
            (data, *self.parts[1:]),
            self.count,
        )

    def of_data(self, call: Any, *others: Any) -> Stored:
        """The same places with what a call makes of the data."""
        with untaped():
            return self.with_data(record(call, (self.data, *others))[0])

    def cast(self, dtype: Any) -> Stored:
        """The value in another dtype."""
        return self if self.aval.dtype == np.dtype(dtype) else self.of_data(cast(dtype))

    def on(self, device: Any) -> Stored:
        """The value on another device."""
        if device is self.aval.device:
            return self
        with untaped():
            parts = [transfer(p, device) for p in self.parts]
        return Stored(self.stype, aval(self.aval.shape, self.aval.dtype, device), parts, self.count)

    def again(self) -> Stored:
        """Another value of the same numbers, without history."""
        return Stored(self.stype, self.aval, self.parts, self.count)

    def plus(self, other: Any) -> Any:
        """The sum with another value: of two row_sparse values a sparse one, else dense."""
        with untaped():
            if type(other) is Stored and self.stype == other.stype == "row_sparse":
                return joined(self, other, "add")
            other = other.dense() if type(other) is Stored else other
            return record(ADD, (other, self.dense()))[0]


#: Filled by the first sparse value, which has these called: what nobody needs before hooks itself in then.
made: list[type] = []
beginnings: list[Callable[[], None]] = []


class untaped(Scope):  # noqa: N801  (a scope, as those of autograd)
    """A scope whose calls are not on the tape: the tape has the sparse value they work on."""

    __slots__ = ()

    def _now(self) -> bool:
        return local.st.taping

    def _set(self) -> None:
        st = local.st
        if st.taping:
            st.taping = False
            st.refresh()

    def _give_back(self, before: bool, broken: bool) -> None:
        st = local.st
        if st.taping is not before:
            st.taping = before
        st.refresh()


def joined(a: Stored, b: Stored, op: str) -> Stored:
    """Sum, difference or product ('add', 'sub', 'mul') of two row_sparse values of one shape."""
    rows = a.aval.shape[0]
    size = min(a.capacity + b.capacity, max(rows, 1))
    with untaped():
        call = bound("rows_joined", rows=rows, capacity=size, op=op)
        return Stored("row_sparse", a.aval, record(call, (*a.parts, *b.parts)))


def padded(stype: str, shape: Sequence[int], parts: Sequence[np.ndarray], device: Any) -> Stored:
    """A sparse value from NumPy arrays (data, indices and for csr indptr), with room."""
    dims = tuple(int(n) for n in shape)
    data, indices, *indptr = parts
    count = len(data)
    size = room(count, dims[0]) if stype == "row_sparse" else room(count, count * 2)
    more = size - count
    beyond = dims[0] if stype == "row_sparse" else 0
    stored = np.zeros(
        (size, *data.shape[1:]), data.dtype
    )  # what is not written takes no memory yet
    stored[:count] = data
    if more:
        indices = np.concatenate([indices, np.full(more, beyond, INDEX)])
    given = [stored, np.array(indices, INDEX), *[np.array(p, INDEX) for p in indptr]]
    values = [on_device(p, device) for p in given]
    return Stored(stype, aval(dims, values[0].aval.dtype, device), values, count)


def nothing(stype: str, shape: Sequence[int], dtype: Any, device: Any) -> Stored:
    """A sparse value in which nothing is stored."""
    dims = tuple(int(n) for n in shape)
    indices = np.zeros(0, INDEX)
    if stype == "row_sparse":
        if not dims:
            raise errors.MXNetValueError(
                "an array without axes has no rows: it cannot be row_sparse"
            )
        return padded(stype, dims, (np.zeros((0, *dims[1:]), dtype), indices), device)
    if len(dims) != 2:
        raise errors.MXNetValueError(f"csr arrays have two axes, got the shape {dims}")
    return padded(stype, dims, (np.zeros(0, dtype), indices, np.zeros(dims[0] + 1, INDEX)), device)


def of_dense(v: Value, stype: str) -> Stored:
    """The dense value in a storage type; waits for its numbers, of which those that are not zero are kept."""
    host, device = to_host(v), v.aval.device
    if stype == "row_sparse":
        if not host.ndim:
            raise errors.MXNetValueError(
                "an array without axes has no rows: it cannot be row_sparse"
            )
        rows = np.flatnonzero((host != 0).any(axis=tuple(range(1, host.ndim))))
        return padded(stype, host.shape, (host[rows], rows), device)
    if host.ndim != 2:
        raise errors.MXNetValueError(
            f"To convert to a CSR, the NDArray should be 2 Dimensional. Current shape is {host.shape}"
        )
    at, columns = np.nonzero(host)
    indptr = np.zeros(host.shape[0] + 1, INDEX)
    np.cumsum(np.bincount(at, minlength=host.shape[0]), out=indptr[1:])
    return padded(stype, host.shape, (host[at, columns], columns, indptr), device)


def in_stype(v: Any, stype: str) -> Any:
    """A value, dense or sparse, in a storage type."""
    if type(v) is not Stored:
        return v if stype == "default" else of_dense(v, stype)
    if v.stype == stype:
        return v
    return v.dense() if stype == "default" else of_dense(v.dense(), stype)


def is_whole(stored: Stored) -> bool:
    """Whether all rows are kept, so that the data is the dense array."""
    rows = stored.aval.shape[0]
    return stored.stype == "row_sparse" and stored.count == stored.capacity == rows


def whole(v: Value) -> Stored:
    """A dense value as a row_sparse one that keeps all rows."""
    rows = v.aval.shape[0]
    return Stored(
        "row_sparse", v.aval, (v, on_device(np.arange(rows, dtype=INDEX), v.aval.device)), rows
    )


def rows_at(v: Any, numbers: np.ndarray) -> Stored:
    """The rows with these ascending numbers, of which there is at least one, of a value, dense or sparse."""
    device = v.aval.device
    ids = on_device(np.array(numbers, INDEX), device)
    dense = v.data if type(v) is Stored and is_whole(v) else v
    with untaped():
        if type(dense) is Stored:
            rows = record(bound("rows_found"), (*dense.parts, ids))[0]
        else:
            rows = record(bound("rows_of"), (dense, ids))[0]
    return Stored("row_sparse", v.aval, (rows, ids), len(numbers))
