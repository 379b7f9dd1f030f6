"""The sparse arrays: `RowSparseNDArray` and `CSRNDArray`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ... import errors
from ...core.calls.state import local
from ...core.calls.value import Value
from ...device import Device
from ...device import of as device_of
from ...ops.table import TABLE
from ..handle import Variable, to_value
from ..indexing import check_write
from ..invoke import call
from ..ndarray import NDArray, element_type, place, settled_gradient
from ..storage import fallback
from .arithmetic import install
from .numbers import check, compact, dense_on_host
from .value import INDEX, STYPES, Stored, in_stype, is_whole, known_stype, nothing, padded


class BaseSparseNDArray(NDArray):
    """What `RowSparseNDArray` and `CSRNDArray` share: an array that keeps only what is not zero.

    Operators that have a sparse form work on what is kept; the others work on a dense array made for the while, which
    is logged and counted. Made by `mx.nd.sparse.row_sparse_array`, `csr_matrix`, `zeros`, `array` and `tostype`.
    """

    __slots__ = ("_stored",)
    _stype = "default"
    _stored: Stored

    def __init__(self, handle: Any, writable: bool = True):
        if handle is None:  # a pickle of MXNet, which gives the bytes next
            return
        if type(handle) is not Stored or handle.stype != self._stype:
            raise errors.MXNetTypeError(
                f"{type(self).__name__} is made by mx.nd.sparse's functions or x.tostype({self._stype!r}); its "
                f"constructor takes a value of the engine, not {type(handle).__name__}"
            )
        self._stored = handle
        self._v = self._var = None

    # ---- the handle

    @classmethod
    def _wrap(cls, v: Any) -> Any:
        return wrap(v)

    def _value(self) -> Value:
        """The dense value, for what knows nothing of storage types."""
        stored = self._stored
        fallback("an operator", stored.stype)
        v = stored.dense()
        v.tape, v.out = stored.tape, stored.out
        return v

    def _dense_like(self) -> NDArray:
        """A dense array of the same numbers and history."""
        v = self._stored.dense()
        v.tape, v.out = self._stored.tape, self._stored.out
        return NDArray._wrap(v)

    def _set(self, v: Any) -> None:
        """Swap the value for another of the shape and dtype, dense or sparse."""
        new = in_stype(v, self._stype).on(self._stored.aval.device)
        var = self._var
        if var is not None and var.req != "null":
            new = new.again()
            new.tape, new.out = var, 0
        self._stored = new

    @property
    def _aval(self) -> Any:
        return self._stored.aval

    def _place(self, where: str | None) -> None:
        if where not in (None, "device"):
            raise errors.MXNetValueError(
                f"sparse arrays are supported in device memory only, got {where!r}"
            )

    def _renew(self, v: Value) -> None:
        """Take a dense value over after an update: an array that keeps all rows goes on doing so, whatever they are."""
        stored = self._stored
        if is_whole(stored):
            self._set(stored.with_data(v))
        else:
            self._set(v)

    def _assign(self, v: Any) -> None:
        """Store a value, dense or sparse, as ``x[:] = v`` does."""
        if v.aval.shape != self.shape:
            raise errors.MXNetValueError(
                f"an array of shape {v.aval.shape} cannot be stored in one of {self.shape}"
            )
        stored = in_stype(v, self._stype).cast(self.dtype)
        self._set(stored.again() if stored.tape is not None else stored)

    def _receive(self, g: Any, req: str) -> None:
        """Store a gradient, dense or sparse."""
        new = in_stype(g, self._stype).cast(self.dtype)
        if req == "add" and self._stored.count != 0:
            before = self._stored
            new = in_stype(before.plus(new), self._stype)
            if new.capacity > 4 * (
                before.count or before.capacity
            ):  # few places are used again and again
                new = compact(new)
        self._set(new)

    def _mark(self, grad: NDArray | None, grad_req: str) -> None:
        made = None if grad is None else Variable(grad, grad_req)
        stored = self._stored.again()
        if made is not None and grad_req != "null":
            stored.tape = made
        self._stored, self._var = stored, made

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Make this array a variable; its gradient is stored as `stype` says, by default as this array is."""
        self._mark(settled_gradient(self, grad_req, stype or self._stype), grad_req)

    def _clear(self) -> None:
        """Set everything to zero."""
        of = self._stored.aval
        self._set(nothing(self._stype, of.shape, of.dtype, of.device))

    # ---- what is known without running anything

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes of the array with its zeros."""
        return self._stored.aval.shape

    @property
    def dtype(self) -> Any:
        """The element type as NumPy's scalar type."""
        return self._stored.aval.dtype.type

    @property
    def size(self) -> int:
        """Refused, as in MXNet: it might mean all elements, or those that are kept.

        Raises:
          NotImplementedError: always.
        """
        raise errors.MXNetNotImplementedError(
            "a sparse array has no size: numpy.prod(x.shape) counts all elements, x.data.size those that are kept"
        )

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept, with the room behind it and the numbers of rows and columns."""
        return sum(p.aval.nbytes for p in self._stored.parts)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self._stored.aval.dtype.itemsize)

    @property
    def device(self) -> Device:
        """Where the array lives."""
        return device_of(self._stored.aval.device)

    ctx = device
    context = device

    @property
    def stype(self) -> str:
        """The storage type: ``row_sparse`` or ``csr``."""
        return self._stype

    @property
    def _num_aux(self) -> int:
        return len(self._stored.parts) - 1

    @property
    def _aux_types(self) -> list[Any]:
        return [np.int64] * self._num_aux

    @property
    def data(self) -> NDArray:
        """What is kept: rows (k, ...) of a row_sparse array, elements (k,) of a csr one. A copy."""
        return NDArray._wrap(_apart(self._stored.exact()[0]))

    @data.setter
    def data(self, data: Any) -> None:
        raise _no_setting("data")

    def _data(self) -> NDArray:
        return self.data

    def _aux_data(self, i: int) -> NDArray:
        """A copy of the i-th array that says where the data are: of csr the rows' ends, then the columns."""
        auxiliary = self._stored.exact()[:0:-1]
        return NDArray._wrap(_apart(auxiliary[i]))

    def _aux_type(self, i: int) -> Any:
        return self._aux_types[i]

    @property
    def indices(self) -> NDArray:
        """The numbers of the rows (row_sparse), or of the columns of what is kept (csr), int64 (k,). A copy."""
        return NDArray._wrap(_apart(self._stored.exact()[1]))

    @indices.setter
    def indices(self, indices: Any) -> None:
        raise _no_setting("indices")

    def wait_to_read(self) -> None:
        """Wait until the value is there."""
        for part in self._stored.parts:
            NDArray._wrap(part).wait_to_read()

    wait_to_write = wait_to_read

    # ---- texts, numbers, files

    def __repr__(self) -> str:
        return f"\n<{type(self).__name__} {'x'.join(map(str, self.shape))} @{self.device}>"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (self._stype, self.shape, self._stored.host(), str(self.device))

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        if int(np.prod(self.shape)) != 1:
            raise errors.MXNetValueError(
                "The truth value of an NDArray with multiple elements is ambiguous."
            )
        return bool(self.asnumpy().item())

    def asnumpy(self) -> np.ndarray:
        """A NumPy array with the zeros; waits for the value."""
        return dense_on_host(self._stored)

    _host = asnumpy

    def item(self, *args: Any) -> Any:
        """The only element (or the one at the given index) as a Python number."""
        return self.asnumpy().item(*args)

    def asscalar(self) -> Any:
        """Refused, as in MXNet.

        Raises:
          NotImplementedError: always.
        """
        raise errors.MXNetNotImplementedError(
            "asscalar() of a sparse array: take x.tostype('default').asscalar()"
        )

    def as_np_ndarray(self) -> Any:
        """Refused: mx.np has dense arrays only.

        Raises:
          ValueError: always.
        """
        raise errors.MXNetValueError(
            f"cannot convert ndarray of stype {self._stype} to numpy ndarray: x.tostype('default').as_np_ndarray()"
        )

    def as_nd_ndarray(self) -> Any:
        """The array itself."""
        return self

    # ---- copies

    def copy(self, order: str = "C") -> Any:
        """A copy on the same device."""
        return call(TABLE["copy@nd"], NDArray, (self,), {})

    __copy__ = copy

    def detach(self) -> Any:
        """The same numbers without their history: gradients stop here."""
        return wrap(self._stored.again())

    def astype(self, dtype: Any, copy: bool = True) -> Any:  # type: ignore[override]
        """The array converted to ``dtype``; ``copy=False`` gives the array itself if it has that dtype."""
        wanted = np.dtype(np.float32 if dtype is None else element_type(dtype))
        if wanted == self._stored.aval.dtype and not copy:
            return self
        return wrap(self._stored.cast(wanted).again())

    def copyto(self, other: Any) -> Any:
        """Copy into an array of the same storage type or a dense one, or onto a device; gives what holds the copy.

        Raises:
          TypeError: the target is of the other sparse kind, or no array at all.
        """
        if isinstance(other, Device):
            return self._transfer(other, copy=True)
        if not isinstance(other, NDArray):
            raise errors.MXNetTypeError(
                f"copyto does not support type {type(other)}: an array or a device is expected"
            )
        if other is self:
            warnings.warn(
                "You are attempting to copy an array to itself", RuntimeWarning, stacklevel=2
            )
            return False
        if other.stype not in ("default", self._stype):
            raise errors.MXNetTypeError(
                f"copyto does not support destination NDArray stype {other.stype}"
            )
        if other.shape != self.shape:
            raise errors.MXNetValueError(
                f"copyto: Incompatible shapes, expected {self.shape}, got {other.shape}"
            )
        if other.stype == "default":
            if local.st.taping:
                check_write(other, True, None)
            other._assign(self._stored.on(place(other.device)).dense())
        else:
            other._assign(self._stored)
        return other

    def _transfer(self, device: Device, copy: bool = False) -> Any:
        target = place(device)
        if target is self._stored.aval.device:
            return self.copy() if copy else self
        return wrap(self._stored.on(target))

    def tostype(self, stype: str) -> Any:
        """The array in a storage type: ``default`` (dense) or its own.

        Raises:
          ValueError: the other sparse kind is asked for.
        """
        if stype in STYPES and stype not in ("default", self._stype):
            raise errors.MXNetValueError(
                f"cast_storage from {self._stype} to {stype} is not supported"
            )
        return cast_storage(self, stype)

    def check_format(self, full_check: bool = True) -> None:
        """Look whether the parts make sense: numbers in range and ascending.

        Args:
          full_check: look at all numbers, not only at how many there are.

        Raises:
          MXNetError: they do not.
        """
        check(self._stored, full_check)

    # ---- what sparse arrays do not have

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        raise errors.NotSupportedForSparseNDArray(self.reshape, None, shape)

    def _at(self, idx: Any) -> Any:
        raise errors.NotSupportedForSparseNDArray(self._at, "[idx]", idx)

    def _slice(self, start: Any, stop: Any) -> Any:
        raise errors.NotSupportedForSparseNDArray(self._slice, None, start, stop)

    def _sync_copyfrom(self, source_array: Any) -> None:
        raise errors.MXNetNotImplementedError("assign to a sparse array with x[:] = source")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            raise errors.MXNetValueError("Multi-dimension indexing is not supported")
        raise errors.MXNetValueError(f"Undefined behaviour for {key}")

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, slice):
            raise errors.MXNetTypeError(f"{type(self).__name__} only supports [:] for assignment")
        if key != slice(None):
            raise errors.MXNetValueError(
                f"Assignment with slice for {type(self).__name__} is not implemented yet."
            )
        if local.st.taping:
            check_write(self, True, None)
        if isinstance(value, BaseSparseNDArray):
            if value is not self:
                value.copyto(self)
        elif isinstance(value, NDArray):
            self._assign(value._value())
        elif isinstance(value, (np.ndarray, np.generic)):
            warnings.warn(
                f"Assigning non-NDArray object to {type(self).__name__} is not efficient",
                RuntimeWarning,
                stacklevel=2,
            )
            self._assign(to_value(np.broadcast_to(value, self.shape), dtype=self.dtype))
        elif isinstance(value, (bool, int, float)):
            self._fill(value)
        else:
            raise errors.MXNetTypeError(f"type {type(value)} not supported")

    def _fill(self, value: float) -> None:
        raise errors.MXNetValueError(
            f"Assigning numeric types to {type(self).__name__} is not implemented yet."
        )


def _no_setting(what: str) -> Exception:
    return errors.MXNetNotImplementedError(
        f"{what} of a sparse array cannot be set: make a new array of the parts"
    )


def _apart(v: Value) -> Value:
    """A part as a value that its reader may have: the array goes on holding its own."""
    v.shared = v.shared or v.seg is None
    return v


class RowSparseNDArray(BaseSparseNDArray):
    """An array of which some rows are kept, the others are zero: gradients of embeddings.

    Args:
      handle: what another sparse array holds.
      writable: of MXNet's own handles; it changes nothing.

    >>> import mxjax as mx
    >>> x = mx.nd.sparse.row_sparse_array(([[1, 2], [3, 4]], [1, 4]), shape=(6, 2))
    >>> x.indices.asnumpy(), x.asnumpy()[4]
    (array([1, 4]), array([3., 4.], dtype=float32))
    """

    __slots__ = ()
    _stype = "row_sparse"

    def __getitem__(self, key: Any) -> Any:
        """``x[:]``, the array itself.

        Raises:
          Exception: anything else.
        """
        if isinstance(key, int):
            raise errors.MXNetNotImplementedError(
                "__getitem__ with int key is not implemented for RowSparseNDArray yet: x.retain(indices) gives rows"
            )
        if isinstance(key, slice):
            if key != slice(None):
                raise errors.MXNetNotImplementedError(
                    "RowSparseNDArray only supports [:] for __getitem__"
                )
            return self
        return super().__getitem__(key)

    def _fill(self, value: float) -> None:
        rows = np.full(self.shape, value, self.dtype)
        self._set(
            padded("row_sparse", self.shape, (rows, np.arange(len(rows))), self._stored.aval.device)
        )

    def retain(self, *args: Any, **kwargs: Any) -> Any:
        """The rows with the given numbers: `mx.nd.sparse.retain(x, indices)`."""
        if args and args[0] is self:
            args = args[1:]
        return call(TABLE["_sparse_retain"], NDArray, (self, *args), kwargs)


class CSRNDArray(BaseSparseNDArray):
    """A matrix of which some elements are kept, row after row: batches of data with few features each.

    Args:
      handle: what another sparse array holds.
      writable: of MXNet's own handles; it changes nothing.

    >>> import mxjax as mx
    >>> x = mx.nd.sparse.csr_matrix(([7, 8, 9], [0, 2, 1], [0, 2, 2, 3]), shape=(3, 4))
    >>> x[2:].asnumpy()
    array([[0., 9., 0., 0.]], dtype=float32)
    """

    __slots__ = ()
    _stype = "csr"

    @property
    def indptr(self) -> NDArray:
        """Where each row begins in `indices` and `data`, int64 (rows + 1,). A copy."""
        return NDArray._wrap(_apart(self._stored.indptr))

    @indptr.setter
    def indptr(self, indptr: Any) -> None:
        raise _no_setting("indptr")

    def asscipy(self) -> Any:
        """The matrix as ``scipy.sparse.csr_matrix``.

        Raises:
          ImportError: SciPy is not installed.
        """
        data, indices, indptr = self._stored.host()
        return errors.optional_import("scipy.sparse", "data").csr_matrix(
            (data, indices, indptr), shape=self.shape
        )

    def __getitem__(self, key: Any) -> Any:
        """Rows of the matrix, as a matrix: ``x[i]``, ``x[begin:end]``.

        Raises:
          ValueError: a step, several axes, or no number.
        """
        if isinstance(key, (int, np.integer)):
            begin, end = int(key), int(key) + 1 or self.shape[0]
        elif isinstance(key, slice):
            if key.step is not None:
                raise errors.MXNetValueError(
                    "CSRNDArray only supports continuous slicing on axis 0"
                )
            if key.start is None and key.stop is None:
                return self
            begin, end, _ = key.indices(self.shape[0])
        else:
            return super().__getitem__(key)
        return call(TABLE["slice_"], NDArray, (self,), {"begin": (begin,), "end": (end,)})

    def __iter__(self) -> Any:
        return (self[i] for i in range(self.shape[0]))

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, slice):
            raise errors.MXNetNotImplementedError("CSRNDArray only supports [:] for assignment")
        super().__setitem__(key, value)


CLASSES = {"row_sparse": RowSparseNDArray, "csr": CSRNDArray}


def wrap(v: Any) -> Any:
    """A new array on a value: sparse on a sparse one, else dense."""
    if type(v) is not Stored:
        return NDArray._wrap(v)
    cls = CLASSES[v.stype]
    h = object.__new__(cls)
    h._stored = v
    h._v = h._var = None
    return h


def dense_value(x: NDArray) -> Value:
    """The dense value of an array for an update, without its history."""
    if not isinstance(x, BaseSparseNDArray):
        return x._value()
    stored = x._stored
    return stored.data if is_whole(stored) else stored.dense()


def taped_value(x: NDArray) -> Any:
    """What the tape knows an array by: its value, of which a sparse array has a sparse one."""
    return x._stored if isinstance(x, BaseSparseNDArray) else x._value()


def cast_storage(data: Any, stype: str) -> Any:
    """A new array in the storage type, differentiable; what is not zero is kept."""
    known_stype(stype)
    op = TABLE["cast_storage"]
    if stype == "default" and not isinstance(data, BaseSparseNDArray):
        return call(op, NDArray, (data,), {"stype": stype})
    from .dispatch import in_storage

    return in_storage(op, NDArray, (data,), {"stype": stype}, stype)


def restored(stype: str, shape: tuple[int, ...], parts: tuple[np.ndarray, ...], device: str) -> Any:
    """A sparse array from its parts, on the device of this name, or the default one where there is none."""
    from ...core import default_device

    try:
        where = place(device)
    except (errors.DeviceError, errors.MXNetValueError):
        where = default_device()
    return wrap(padded(stype, shape, parts, where))


install(BaseSparseNDArray)

__all__ = ["INDEX", "BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray", "cast_storage", "wrap"]
