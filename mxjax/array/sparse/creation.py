"""Sparse arrays from other objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import errors
from ...core import aval, default_device
from ..creation import nd_array
from ..handle import to_value
from ..ndarray import NDArray, element_type, place
from .classes import BaseSparseNDArray, CSRNDArray, RowSparseNDArray, wrap
from .value import INDEX, Stored, nothing, padded

_STYPES = ("row_sparse", "csr")


def zeros(stype: str, shape: Any, ctx: Any = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """An array of zeros in a storage type, of which it keeps none; float32 unless ``dtype`` is given.

    Args:
      stype: the storage type.
      shape: the shape of the result.
      ctx: MXNet 1's name of `device`.
      dtype: the dtype of the result.

    Returns:
      BaseSparseNDArray, NDArray or Symbol: of this shape.

    Raises:
      ValueError: an unknown storage type.

    >>> zeros("row_sparse", (1000000, 64)).data.shape
    (0, 64)
    """
    dims = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape)
    kind = np.dtype(np.float32) if dtype is None else element_type(dtype)
    where = default_device() if ctx is None else place(ctx)
    if stype == "default":
        return nd_array(np.zeros(dims, kind), ctx, kind)
    if stype not in _STYPES:
        raise errors.MXNetValueError(f"unknown storage type: {stype}")
    return wrap(nothing(stype, dims, kind, where))  # type: ignore[no-any-return]


def empty(stype: str, shape: Any, ctx: Any = None, dtype: Any = None) -> NDArray:
    """:func:`zeros`, for ``row_sparse`` and ``csr``.

    Args:
      stype: the storage type.
      shape: the shape of the result.
      ctx: MXNet 1's name of `device`.
      dtype: the dtype of the result.

    Returns:
      ndarray (of mx.nd: NDArray): of this shape; its numbers are zeros.

    Raises:
      ValueError: another storage type.
    """
    if stype not in _STYPES:
        raise errors.MXNetValueError(f"unknown stype : {stype}")
    return zeros(stype, shape, ctx, dtype)


def array(source_array: Any, ctx: Any = None, dtype: Any = None) -> BaseSparseNDArray:
    """A new sparse array from a sparse array, or a csr array from a SciPy sparse matrix.

    Args:
      source_array: nested lists, numbers, or an array.
      ctx: MXNet 1's name of `device`.
      dtype: the dtype of the result.

    Returns:
      ndarray (of mx.nd: NDArray): the new array.

    Raises:
      AssertionError: a dense array of ours (``x.tostype`` converts it).
      ValueError: anything else.
    """
    if isinstance(source_array, NDArray) and not isinstance(source_array, BaseSparseNDArray):
        raise errors.MXNetAssertionError(
            "Please use `tostype` to create RowSparseNDArray or CSRNDArray from an NDArray"
        )
    if isinstance(source_array, BaseSparseNDArray) or hasattr(source_array, "nnz"):
        return of_sparse(source_array, ctx, dtype)
    if isinstance(source_array, (np.ndarray, np.generic)):
        raise errors.MXNetValueError(
            f"Please use mx.nd.array to create an NDArray with source_array of type {type(source_array)}"
        )
    raise errors.MXNetValueError(f"Unexpected source_array type: {type(source_array)}")


def of_sparse(source: Any, ctx: Any = None, dtype: Any = None) -> Any:
    """A new array from a sparse one of ours or of SciPy; it keeps the dtype unless one is given."""
    if isinstance(source, BaseSparseNDArray):
        made = (
            source._stored.again()
            if dtype is None
            else source._stored.cast(element_type(dtype)).again()
        )
        return wrap(made.on(default_device() if ctx is None else place(ctx)))
    csr = source.tocsr()
    csr = (csr.copy() if csr is source else csr).sorted_indices()
    csr.sum_duplicates()
    data = csr.data.astype(csr.data.dtype if dtype is None else element_type(dtype))
    where = default_device() if ctx is None else place(ctx)
    return wrap(padded("csr", csr.shape, (data, csr.indices, csr.indptr), where))


def _check_shape(found: Any, wanted: Any) -> None:
    if wanted is not None and len(tuple(wanted)) and tuple(found) != tuple(wanted):
        raise errors.MXNetValueError(
            f"Shape mismatch detected. {tuple(found)} v.s. {tuple(wanted)}"
        )


def _host(x: Any, dtype: Any) -> np.ndarray:
    """Numbers on the host: those of an array keep their dtype unless one is given, others become `dtype` or float32."""
    if isinstance(x, NDArray):
        found = x.asnumpy()
    elif isinstance(x, np.ndarray):
        found = x
    else:
        try:
            found = np.asarray(x, np.float32 if dtype is None else dtype)
        except (ValueError, TypeError) as error:
            raise errors.MXNetTypeError(f"values must be array like object: {error}") from None
    return found if dtype is None else found.astype(dtype)


def csr_matrix(arg1: Any, shape: Any = None, ctx: Any = None, dtype: Any = None) -> CSRNDArray:
    """A csr matrix.

    Args:
      arg1: (data, indices, indptr); (data, (rows, columns)); a shape, for zeros; a csr or SciPy matrix; a dense
        matrix.
      shape: two lengths; found from the largest numbers where it is not given.
      ctx: the device.
      dtype: that of `arg1` unless given, float32 for lists.

    Returns:
      CSRNDArray: the matrix.

    Raises:
      ValueError: the parts do not fit each other, or the shape.

    >>> csr_matrix(([7, 8, 9], [0, 2, 1], [0, 2, 2, 3]), shape=(3, 4)).asnumpy()[0]
    array([7., 0., 8., 0.], dtype=float32)
    """
    where = default_device() if ctx is None else place(ctx)
    kind = None if dtype is None else element_type(dtype)
    if isinstance(arg1, tuple):
        if len(arg1) == 2 and isinstance(arg1[1], tuple) and len(arg1[1]) == 2:
            return _of_places(arg1[0], *arg1[1], shape, where, kind)
        if len(arg1) == 2:
            _check_shape(arg1, shape)
            return empty("csr", arg1, ctx, dtype)  # type: ignore[return-value]
        if len(arg1) != 3:
            raise errors.MXNetValueError(f"Unexpected length of input tuple: {len(arg1)}")
        data, indices, indptr = _host(arg1[0], kind), _host(arg1[1], INDEX), _host(arg1[2], INDEX)
        if shape is None:
            if not len(indices):
                raise errors.MXNetValueError(
                    "invalid shape: without indices the number of columns has to be given"
                )
            shape = (len(indptr) - 1, int(indices.max()) + 1)
        if not data.ndim == indices.ndim == indptr.ndim == 1 or not len(indptr) or len(shape) != 2:
            raise errors.MXNetValueError(
                f"invalid shape: data, indices and indptr have one axis each, and the matrix two; got {data.shape}, "
                f"{indices.shape}, {indptr.shape} and {tuple(shape)}"
            )
        return wrap(padded("csr", shape, (data, indices, indptr), where))  # type: ignore[no-any-return]
    if isinstance(arg1, RowSparseNDArray):
        raise errors.MXNetValueError("Unexpected input type: RowSparseNDArray")
    if isinstance(arg1, CSRNDArray) or hasattr(arg1, "nnz"):
        _check_shape(arg1.shape, shape)
        return array(arg1, ctx, dtype)  # type: ignore[return-value]
    return _of_dense(arg1, shape, ctx, kind, "csr")  # type: ignore[return-value]


def _of_places(data: Any, rows: Any, columns: Any, shape: Any, where: Any, dtype: Any) -> Any:
    """A csr matrix from values and their rows and columns; those in one place are added up."""
    if dtype is None and not hasattr(data, "dtype"):
        dtype = np.asarray(data).dtype  # SciPy's choice, whose matrix it is in MXNet
    values, i, j = _host(data, dtype), _host(rows, INDEX), _host(columns, INDEX)
    if shape is None:
        shape = (int(i.max()) + 1, int(j.max()) + 1)
    places, inverse = np.unique(i * max(int(shape[1]), 1) + j, return_inverse=True)
    summed = np.zeros(len(places), values.dtype)
    np.add.at(summed, inverse.reshape(-1), values)
    indptr = np.append(
        0, np.cumsum(np.bincount(places // max(int(shape[1]), 1), minlength=int(shape[0])))
    )
    return wrap(padded("csr", shape, (summed, places % max(int(shape[1]), 1), indptr), where))


def _of_dense(source: Any, shape: Any, ctx: Any, dtype: Any, stype: str) -> NDArray:
    if dtype is None:
        dtype = source.dtype if isinstance(source, (NDArray, np.ndarray)) else np.float32
    try:
        dense = nd_array(source, dtype=dtype)
    except errors.MXNetTypeError as error:
        raise errors.MXNetTypeError(f"source_array must be array like object: {error}") from None
    dense = dense if ctx is None else dense.as_in_context(ctx)
    _check_shape(dense.shape, shape)
    return dense.tostype(stype)  # type: ignore[no-any-return]


def row_sparse_array(
    arg1: Any, shape: Any = None, ctx: Any = None, dtype: Any = None
) -> RowSparseNDArray:
    """A row_sparse array.

    Args:
      arg1: (data, indices): rows (k, ...) and their numbers (k,); a shape, for zeros; a row_sparse or a dense array.
      shape: found from the last number where it is not given.
      ctx: the device.
      dtype: that of `arg1` unless given, float32 for lists.

    Returns:
      RowSparseNDArray: the array.

    Raises:
      ValueError: the parts do not fit each other, or the shape.

    >>> row_sparse_array(([[1, 2], [3, 4]], [1, 4]), shape=(6, 2)).indices.asnumpy()
    array([1, 4])
    """
    where = default_device() if ctx is None else place(ctx)
    kind = None if dtype is None else element_type(dtype)
    if isinstance(arg1, tuple):
        if len(arg1) < 2:
            raise errors.MXNetValueError(f"Unexpected length of input tuple: {len(arg1)}")
        if len(arg1) > 2 or all(isinstance(n, (int, np.integer)) for n in arg1):
            _check_shape(arg1, shape)
            return empty("row_sparse", arg1, ctx, dtype)  # type: ignore[return-value]
        return _of_rows(arg1[0], arg1[1], shape, where, kind)
    if isinstance(arg1, RowSparseNDArray):
        _check_shape(arg1.shape, shape)
        return array(arg1, ctx, dtype)  # type: ignore[return-value]
    if isinstance(arg1, CSRNDArray):
        raise errors.MXNetValueError("Unexpected input type: CSRNDArray")
    return _of_dense(arg1, shape, ctx, kind, "row_sparse")  # type: ignore[return-value]


def _of_rows(data: Any, indices: Any, shape: Any, where: Any, dtype: Any) -> Any:
    rows = _host(indices, INDEX)
    keeps = isinstance(data, NDArray) and not isinstance(data, BaseSparseNDArray)
    values: Any = data if keeps else _host(data, dtype)  # an array of ours need not be looked at
    if shape is None:
        if not len(rows):
            raise errors.MXNetValueError(
                "invalid shape: without indices the number of rows has to be given"
            )
        shape = (int(rows[-1]) + 1, *values.shape[1:])
    dims = tuple(int(n) for n in shape)
    if values.ndim != len(dims) or rows.ndim != 1 or 0 in dims[1:] or len(rows) != values.shape[0]:
        raise errors.MXNetValueError(
            f"invalid shape: data {values.shape} and indices {rows.shape} do not make a row_sparse array of {dims}"
        )
    if not keeps or not len(rows):
        host = values.asnumpy() if keeps else values
        return wrap(
            padded(
                "row_sparse",
                dims,
                (host.astype(host.dtype if dtype is None else dtype), rows),
                where,
            )
        )
    made = values.copy() if dtype is None else values.astype(dtype)
    made = made.as_in_context(_device(where))
    v = made._value()
    return wrap(
        Stored("row_sparse", aval(dims, v.aval.dtype, where), (v, to_value(rows, made)), len(rows))
    )


def _device(where: Any) -> Any:
    from ...device import of

    return of(where)
