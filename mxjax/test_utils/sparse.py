"""Random sparse arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import MXNetAssertionError, MXNetNotImplementedError, MXNetValueError
from .generate import assign_each, default_dtype
from .surroundings import default_device


def _sparse() -> Any:
    """The module of sparse arrays."""
    try:
        return importlib.import_module("mxjax.nd.sparse")
    except ModuleNotFoundError:
        raise MXNetNotImplementedError(
            "mx.nd.sparse could not be imported, which makes 'row_sparse' and 'csr' arrays"
        ) from None


def shuffle_csr_column_indices(csr: Any) -> None:
    """Put the columns of each row of a compressed matrix into random order, in place; the values stay."""
    for begin, end in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
        csr.indices[begin:end] = np.random.permutation(csr.indices[begin:end])


def _check_csr(rows: int, columns: int, density: float, distribution: str) -> None:
    if not 0 <= density <= 1:
        raise MXNetValueError(f"density has to be between 0 and 1, got {density}")
    if rows <= 0 or columns <= 0:
        raise MXNetValueError(
            f"num_rows or num_cols should be greater than 0, got ({rows}, {columns})"
        )
    if distribution == "powerlaw" and int(rows * columns * density) < 2 * rows:
        raise MXNetValueError(
            f"not supported for this density: {density} for this shape ({rows}, {columns}); "
            "keep num_rows * num_cols * density >= 2 * num_rows"
        )


def _uniform(
    rows: int, columns: int, density: float, dtype: Any, data_init: Any, shuffle: bool
) -> Any:
    from scipy import sparse

    # SciPy has no sparse matrices of 16-bit floats: its numbers are cast where the array is made.
    dtype = np.float32 if np.dtype(dtype) == np.float16 else dtype
    made = sparse.rand(rows, columns, density, dtype=dtype, format="csr")
    if data_init is not None:
        made.data.fill(data_init)
    if shuffle:
        shuffle_csr_column_indices(made)
    return made


def _powerlaw(rows: int, columns: int, density: float, dtype: Any) -> np.ndarray:
    """Row i has up to 2**(i + 1) values, as long as there are any to be spent."""
    left = int(rows * columns * density)
    out = np.zeros((rows, columns), dtype)
    for row in range(rows):
        count = min(left, 1)
        out[row, :count] = 1 + np.random.uniform(0.001, 2, count)
        left -= count
    for row in range(rows):
        count = min(left, min(2 ** (row + 1), columns) - 1)
        out[row, 1 : 1 + count] = 1 + np.random.uniform(0.001, 2, count)
        left -= count
    if left > 0:
        raise MXNetValueError(
            f"not supported for this density: {density} for this shape ({rows}, {columns})"
        )
    return out


def rand_sparse_ndarray(
    shape: tuple[int, ...], stype: str, density: float | None = None, dtype: Any = None,
    distribution: str | None = None, data_init: Any = None, rsp_indices: Any = None,
    modifier_func: Callable[[Any], Any] | None = None, shuffle_csr_indices: bool = False, ctx: Any = None,
) -> tuple[Any, tuple[Any, ...]]:  # fmt: skip
    """A random sparse array, and the parts that it was made of.

    Args:
      shape: two axes for "csr".
      stype: "row_sparse" (parts: values and rows) or "csr" (parts: indptr, indices, data).
      density: the share of the rows, or of the elements, that is not zero; random if None.
      dtype: float32 if None.
      distribution: "uniform", or for "csr" "powerlaw": each row has twice as many as the one before.
      data_init: the value of all that is not zero.
      rsp_indices: which rows are not zero.
      modifier_func: applied to each value of a row-sparse array.
      shuffle_csr_indices: the columns of a row in random order.
      ctx: the device.
    """
    ctx = ctx or default_device()
    density = float(np.random.rand()) if density is None else density
    dtype = default_dtype() if dtype is None else dtype
    distribution = distribution or "uniform"
    if stype == "row_sparse":
        if distribution != "uniform":
            raise MXNetAssertionError(f"Distribution {distribution} not supported for row_sparse")
        if rsp_indices is not None:
            rows = np.asarray(rsp_indices)
            if len(rows) > shape[0]:
                raise MXNetAssertionError(f"{len(rows)} rows were given for an array of {shape[0]}")
        else:
            rows = np.flatnonzero(np.random.rand(shape[0]) < density)
        values = np.random.rand(len(rows), *shape[1:]).astype(dtype)
        if data_init is not None:
            values.fill(data_init)
        if modifier_func is not None:
            values = assign_each(values, modifier_func).astype(dtype)
        if not len(rows):
            return _sparse().zeros("row_sparse", shape, ctx=ctx, dtype=dtype), (values, rows)
        return _sparse().row_sparse_array((values, rows), shape=shape, ctx=ctx, dtype=dtype), (
            values,
            rows,
        )
    if stype != "csr":
        raise MXNetAssertionError(f"unknown storage type {stype!r}: 'row_sparse' or 'csr'")
    if len(shape) != 2:
        raise MXNetAssertionError(f"a compressed matrix has two axes, got {shape}")
    _check_csr(*shape, density, distribution)
    if distribution == "uniform":
        made = _uniform(*shape, density, dtype, data_init, shuffle_csr_indices)
        csr = _sparse().csr_matrix(
            (made.data, made.indices, made.indptr), shape=shape, ctx=ctx, dtype=dtype
        )
    elif distribution == "powerlaw":
        csr = _sparse().csr_matrix(
            _powerlaw(*shape, density, dtype), shape=shape, ctx=ctx, dtype=dtype
        )
    else:
        raise MXNetAssertionError(f"Distribution not supported: {distribution}")
    return csr, (csr.indptr, csr.indices, csr.data)


def create_sparse_array(
    shape: tuple[int, ...], stype: str, data_init: Any = None, rsp_indices: Any = None, dtype: Any = None,
    modifier_func: Callable[[Any], Any] | None = None, density: float = 0.5, shuffle_csr_indices: bool = False,
) -> Any:  # fmt: skip
    """A random sparse array; the arguments are those of `rand_sparse_ndarray`."""
    rows = None if rsp_indices is None else np.sort(np.asarray(rsp_indices))
    return rand_sparse_ndarray(
        shape, stype, density=density, dtype=dtype, data_init=data_init, rsp_indices=rows,
        modifier_func=modifier_func, shuffle_csr_indices=shuffle_csr_indices,
    )[0]  # fmt: skip


def create_sparse_array_zd(
    shape: tuple[int, ...], stype: str, density: float, data_init: Any = None, rsp_indices: Any = None,
    dtype: Any = None, modifier_func: Callable[[Any], Any] | None = None, shuffle_csr_indices: bool = False,
) -> Any:  # fmt: skip
    """`create_sparse_array` whose row-sparse arrays have no rows but those of `rsp_indices`."""
    if stype == "row_sparse":
        density = 0.0
        if rsp_indices is not None and len(rsp_indices) > shape[0]:
            raise MXNetAssertionError(
                f"{len(rsp_indices)} rows were given for an array of {shape[0]}"
            )
    return create_sparse_array(
        shape, stype, data_init, rsp_indices, dtype, modifier_func, density, shuffle_csr_indices
    )
