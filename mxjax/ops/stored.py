"""What is computed on the parts of sparse arrays: pure functions on JAX arrays of fixed lengths.

A `row_sparse` array of n rows is data (k, ...) and the ascending numbers of its rows, indices (k,). A `csr` matrix of
m rows is data (k,), the numbers of their columns, indices (k,), and indptr (m + 1,), where each row begins. k is a
capacity: places that nothing is stored in have zeros for data, and lie beyond the end: the row number n, or behind
indptr[-1]. So one program serves whatever is stored, and reads of such places give zeros, writes are dropped.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..core import Row
from .lowering.search import search

_ROWS: dict[str, Row] = {}
#: How much is stored changes with every batch: one trace serves all of it.
_LENGTHS = {"rows": int, "columns": int, "capacity": int, "count": int}


def _row(fn: Any) -> Any:
    """The function as something the engine records calls of: `calls(name, ...)`."""
    _ROWS[fn.__name__] = Row(f"sparse_{fn.__name__}", fn, lengths=_LENGTHS)
    return fn


def bound(name: str, **attrs: Any) -> Any:
    """The call of one of this module's functions with these attributes.

    >>> bound("rows_to_dense", rows=3)
    sparse_rows_to_dense(rows=3)
    """
    return _ROWS[name].bind(tuple(sorted(attrs.items())))


def _beside(mask: Any, values: Any) -> Any:
    """A mask of rows in a shape that goes with their values."""
    return mask.reshape(-1, *[1] * (values.ndim - 1))


# ---- rows


@_row
def rows_to_dense(data: Any, indices: Any, *, rows: int) -> Any:
    """All rows, those that are not stored zero."""
    return jnp.zeros((rows, *data.shape[1:]), data.dtype).at[indices].set(data, mode="drop")


@_row
def rows_of(dense: Any, indices: Any) -> Any:
    """These rows; zeros for numbers beyond the end."""
    return jnp.take(dense, indices, axis=0, mode="fill", fill_value=0)


@_row
def rows_found(data: Any, indices: Any, wanted: Any) -> Any:
    """The rows of a row_sparse array with the numbers `wanted`; zeros where one is not stored."""
    wanted = wanted.astype(indices.dtype)
    at = jnp.clip(search(indices, wanted), 0, indices.shape[0] - 1)
    return jnp.where(_beside(indices[at] == wanted, data), data[at], jnp.zeros((), data.dtype))


@_row
def rows_by_number(data: Any, indices: Any, ids: Any, *, rows: int) -> Any:
    """The rows with the numbers ids, of any shape; numbers out of range stand for the nearest row."""
    wanted = jnp.clip(ids.astype("int64"), 0, rows - 1).reshape(-1)
    return rows_found(data, indices, wanted).reshape(*ids.shape, *data.shape[1:])


@_row
def rows_summed(ids: Any, values: Any, *, rows: int, capacity: int) -> Any:
    """The sums of values (k, ...) by row number (k,), as a row_sparse array; numbers beyond the end do not count."""
    ids = ids.reshape(-1).astype("int64")
    inside = (ids >= 0) & (ids < rows)
    indices, at = _ascending(jnp.where(inside, ids, rows), rows, capacity)
    data = jnp.zeros((capacity, *values.shape[1:]), values.dtype)
    return data.at[at].add(
        jnp.where(_beside(inside, values), values, jnp.zeros((), values.dtype))
    ), indices


def _ascending(ids: Any, rows: Any, capacity: Any) -> tuple[Any, Any]:
    """The different numbers in ascending order, and where each of ``ids`` stands among them; ``rows`` fills them up.

    By sorting: JAX's `unique` and `searchsorted` need lengths that are numbers, and so a trace for each of them.
    """
    numbered = lax.iota(jnp.int32, ids.shape[0])
    ordered, order = lax.sort((ids, numbered), num_keys=1)
    begins = ordered != jnp.concatenate([ordered[:1], ordered[:-1]])
    place = jnp.cumsum(begins.astype(jnp.int32), dtype=jnp.int32)
    indices = jnp.full(capacity, rows, ids.dtype).at[place].set(ordered, mode="drop")
    return indices, jnp.zeros_like(place).at[order].set(place)


@_row
def rows_looked_up(data: Any, ids: Any, *, rows: int, capacity: int, last: bool) -> Any:
    """The gradient of looking rows up, as a row_sparse array: data (*ids.shape, ...) summed by row.

    Numbers out of range stand for the nearest row (`last`), else they count from the beginning again.
    """
    data = data.reshape(ids.size, *data.shape[ids.ndim :])
    ids = ids.reshape(-1).astype("int64")
    ids = jnp.clip(ids, 0, rows - 1) if last else ids % rows
    return rows_summed(ids, data, rows=rows, capacity=capacity)


@_row
def rows_joined(a: Any, ia: Any, b: Any, ib: Any, *, rows: int, capacity: int, op: str) -> Any:
    """Sum, difference or product of two row_sparse arrays; it stores the rows that one of them does."""
    ids = jnp.concatenate([ia, ib])
    if op != "mul":
        return rows_summed(
            ids, jnp.concatenate([a, b if op == "add" else -b]), rows=rows, capacity=capacity
        )
    indices, _ = _ascending(ids, rows, capacity)
    return rows_found(a, ia, indices) * rows_found(b, ib, indices), indices


@_row
def rows_square_sum(data: Any, indices: Any, *, rows: int, axis: int, keepdims: bool) -> Any:
    """The sums of squares over one axis of a matrix; of those along rows only the stored ones."""
    found = jnp.sum(jnp.square(data), axis=axis, keepdims=keepdims)
    return found if axis == 0 or keepdims else rows_to_dense(found, indices, rows=rows)


@_row
def rows_written(dense: Any, data: Any, indices: Any) -> Any:
    """The dense array with these rows in place of its own."""
    return dense.at[indices].set(data.astype(dense.dtype), mode="drop")


@_row
def begun(data: Any, *, count: int) -> Any:
    """The first places: what is stored, without what is only room."""
    return data[:count]


# ---- compressed rows


def _rows_of_places(indptr: Any, capacity: int) -> Any:
    """The row that each place belongs to; the number of rows for places that nothing is stored in."""
    ends = jnp.zeros(capacity, jnp.int32).at[indptr[1:]].add(1, mode="drop")
    return jnp.cumsum(ends, dtype=jnp.int32)


@_row
def csr_to_dense(data: Any, indices: Any, indptr: Any, *, columns: int) -> Any:
    """The matrix, zeros included."""
    at = _rows_of_places(indptr, data.shape[0])
    return (
        jnp.zeros((indptr.shape[0] - 1, columns), data.dtype).at[at, indices].add(data, mode="drop")
    )


@_row
def csr_dot(data: Any, indices: Any, indptr: Any, rhs: Any) -> Any:
    """The product with a dense matrix (columns, n): (rows, n)."""
    return _by_row(
        indptr, data[:, None] * jnp.take(rhs, indices, axis=0, mode="fill", fill_value=0)
    )


@_row
def csr_dot_rows(data: Any, indices: Any, indptr: Any, rhs: Any, rows: Any) -> Any:
    """The product with a row_sparse matrix, data `rhs` and indices `rows`."""
    return _by_row(indptr, data[:, None] * rows_found(rhs, rows, indices))


def _by_row(indptr: Any, products: Any) -> Any:
    at = _rows_of_places(indptr, products.shape[0])
    return jax.ops.segment_sum(products, at, indptr.shape[0] - 1, indices_are_sorted=True)


@_row
def csr_transposed_dot(data: Any, indices: Any, indptr: Any, rhs: Any, *, columns: int) -> Any:
    """The product of the transposed matrix with a dense one (rows, n): (columns, n)."""
    at = _rows_of_places(indptr, data.shape[0])
    products = data[:, None] * jnp.take(rhs, at, axis=0, mode="fill", fill_value=0)
    ids = jnp.where(at < indptr.shape[0] - 1, indices, columns)
    return jnp.zeros((columns, rhs.shape[1]), products.dtype).at[ids].add(products, mode="drop")


@_row
def csr_transposed_dot_rows(
    data: Any, indices: Any, indptr: Any, rhs: Any, *, columns: int, capacity: int
) -> Any:
    """`csr_transposed_dot` as a row_sparse array: the rows that are columns with something stored."""
    at = _rows_of_places(indptr, data.shape[0])
    products = data[:, None] * jnp.take(rhs, at, axis=0, mode="fill", fill_value=0)
    ids = jnp.where(at < indptr.shape[0] - 1, indices, columns)
    return rows_summed(ids, products, rows=columns, capacity=capacity)


@_row
def csr_beside(data: Any, indices: Any, indptr: Any, dense: Any, *, op: str) -> Any:
    """What is stored, times or divided by the elements beside it of a dense array, which is broadcast."""
    at = _rows_of_places(indptr, data.shape[0])
    matrix = dense.reshape((1,) * (2 - dense.ndim) + dense.shape)
    i = at if matrix.shape[0] > 1 else jnp.zeros_like(at)
    j = indices if matrix.shape[1] > 1 else jnp.zeros_like(indices)
    other = matrix.at[i, j].get(mode="fill", fill_value=1)
    made = data * other if op == "mul" else data / other
    return jnp.where(at < indptr.shape[0] - 1, made, jnp.zeros((), made.dtype))


@_row
def csr_sum(
    data: Any, indices: Any, indptr: Any, *, columns: int, axis: int, keepdims: bool, mean: bool
) -> Any:
    """The sums, or means, over one axis of the matrix: a dense array."""
    rows = indptr.shape[0] - 1
    at = _rows_of_places(indptr, data.shape[0])
    wide = data.astype("float32") if data.dtype == jnp.float16 else data
    if axis == 1:
        out = jax.ops.segment_sum(wide, at, rows, indices_are_sorted=True)
    else:
        out = (
            jnp.zeros(columns, wide.dtype)
            .at[jnp.where(at < rows, indices, columns)]
            .add(wide, mode="drop")
        )
    if mean:
        out = out / (rows, columns)[axis]
    return jnp.expand_dims(out.astype(data.dtype), axis) if keepdims else out.astype(data.dtype)


@_row
def stored_norm(data: Any) -> Any:
    """The Euclidean norm of all that is stored."""
    return jnp.sqrt(jnp.sum(jnp.square(data))).reshape(1)
