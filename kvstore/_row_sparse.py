"""Row_sparse arrays in a store: sums of gradients that keep few rows, and rows of a value that somebody asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from mxjax import core, errors
from mxjax.array.classes import ndarray
from mxjax.array.ndarray import NDArray
from mxjax.array.sparse import (
    RowSparseNDArray,
    Stored,
    dense_value,
    in_stype,
    joined,
    nothing,
    rows_at,
    taped_value,
    wrap,
)
from mxjax.core import Value

from ._collective import moved

if TYPE_CHECKING:
    from .store import KVStore, _Entry


def _only_rows(weight: jax.Array, ids: jax.Array) -> jax.Array:
    ids = jnp.where(ids < 0, weight.shape[0], ids).astype("int32")  # JAX would count from the end
    kept = jnp.zeros(weight.shape[0], bool).at[ids].set(True, mode="drop")
    return jnp.where(
        kept.reshape(-1, *[1] * (weight.ndim - 1)), weight, jnp.zeros((), weight.dtype)
    )


_ROWS = core.row("kvstore_rows", _only_rows).bind()


def device_of(array: NDArray) -> Any:
    """The device of an array, dense or sparse."""
    return taped_value(array).aval.device


def pushed(store: KVStore, key: Any, arrays: list[NDArray]) -> list[NDArray] | None:
    """Sum what was pushed where all of it is row_sparse, and store the sum; otherwise gives dense arrays to go on."""
    if all(a.stype == "default" for a in arrays):
        return arrays
    if any(a.stype != "row_sparse" for a in arrays) or not store.sums_rows:
        return [type(a)._wrap(in_stype(taped_value(a), "default")) for a in arrays]
    entry = store._entries[key]
    home = device_of(entry.array)
    total = taped_value(arrays[0]).on(home)
    for other in arrays[1:]:
        total = joined(total, taped_value(other).on(home), "add")
    store._end_of(key)
    if store._updater is None:
        entry.array = wrap(total)
    else:
        store._updater(key, wrap(total), entry.array)
    entry.copies = {}
    return None


def give(entry: _Entry, out: NDArray) -> bool:
    """Write an entry to a sparse array, or a sparse entry to any array; False where both are dense."""
    if out.stype == "default" and entry.array.stype == "default":
        return False
    device = device_of(out)
    held = taped_value(entry.array)
    out._assign(held.on(device) if type(held) is Stored else entry.on(device))
    return True


def dense_targets(pairs: Any) -> list[tuple[Any, list[NDArray]]]:
    """What is pulled where sparse arrays are left out."""
    return [(k, [o for o in outs if o.stype == "default"]) for k, outs in pairs]


def asked(entry: _Entry, out: NDArray, ids: NDArray) -> None:
    """Write the rows with these numbers to `out`: a row_sparse array, or a dense one of mx.np (zeros elsewhere)."""
    device = device_of(out)
    if not isinstance(out, RowSparseNDArray):
        dense: Value = entry.on(device)
        out._assign(core.record2(_ROWS, dense, moved(ids._value(), device)))
        return
    numbers = np.unique(ids.asnumpy().astype(np.int64))
    numbers = numbers[(numbers >= 0) & (numbers < entry.shape[0])]
    if not len(numbers):
        out._assign(nothing("row_sparse", entry.shape, out.dtype, device))
        return
    out._assign(rows_at(taped_value(entry.array), numbers).on(device))


def check_target(key: Any, out: NDArray) -> None:
    """Rows are written to row_sparse arrays; mx.np, which has none, may give a dense one.

    Raises:
      MXNetError: the target is another nd array.
    """
    if out.stype != "row_sparse" and not isinstance(out, ndarray):
        raise errors.MXNetError(
            f"row_sparse_pull of key {key!r} writes to row_sparse arrays, got one of the storage type {out.stype!r}: "
            "mx.nd.sparse.zeros('row_sparse', shape) makes one, and pull() writes to dense arrays"
        )


__all__ = ["asked", "check_target", "dense_targets", "dense_value", "device_of", "give", "pushed"]
