"""Steps of optimizers as operators, with a row_sparse gradient: they change its rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core import record
from ...core.calls.value import Value
from ...ops.stored import bound
from ...ops.table import TABLE, Op
from ..invoke import call
from ..ndarray import NDArray
from .classes import BaseSparseNDArray, dense_value
from .value import in_stype, is_whole, untaped

#: The rows, and whether these arrays and attributes make them lazy.
_LAZY: dict[str, Any] = {
    "sgd_update": lambda weight, attrs: attrs.get("lazy_update", True),
    "sgd_mom_update": lambda weight, attrs: attrs.get("lazy_update", True),
    "adam_update": lambda weight, attrs: attrs.get("lazy_update", True),
    "ftrl_update": lambda weight, attrs: weight.stype == "row_sparse",
    "_sparse_adagrad_update": lambda weight, attrs: True,
    "group_adagrad_update": lambda weight, attrs: True,
    "_rooted_sparse_adagrad_update": lambda weight, attrs: True,
    "_rooted_group_adagrad_update": lambda weight, attrs: True,
}


def is_lazy(op: Op, arrays: Sequence[Any], attrs: dict[str, Any]) -> bool:
    """Whether a call changes some rows only."""
    if op.name not in _LAZY or len(arrays) < 2 or getattr(arrays[1], "stype", None) != "row_sparse":
        return False
    return isinstance(arrays[0], NDArray) and bool(_LAZY[op.name](arrays[0], attrs))


def update(op: Op, arrays: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """The new weight, a value in its storage type; the states are updated in place."""
    weight, grad, *states = arrays
    kept = grad._stored
    with untaped():
        old = [dense_value(x) for x in (weight, *states)]
        rows = [NDArray._wrap(record(bound("rows_of"), (v, kept.indices))[0]) for v in old]
        made = call(op, NDArray, [rows[0], NDArray._wrap(kept.data), *rows[1:]], attrs)
        new = [
            _written(v, r._value(), kept.indices)
            for v, r in zip(old, (made, *rows[1:]), strict=True)
        ]
    for state, value in zip(states, new[1:], strict=True):
        state._renew(value) if isinstance(state, BaseSparseNDArray) else state._set(value)
    if not isinstance(weight, BaseSparseNDArray):
        return new[0]
    stored = weight._stored
    return stored.with_data(new[0]) if is_whole(stored) else in_stype(new[0], "row_sparse")


def _written(v: Value, rows: Value, indices: Value) -> Value:
    return record(bound("rows_written"), (v, rows, indices))[0]


assert set(_LAZY) <= set(TABLE)
