"""What parameters have whose value, or gradient, is a sparse array."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from mxjax import errors
from mxjax.array.classes import NDArray
from mxjax.array.creation import nd_array
from mxjax.array.sparse import whole, wrap
from mxjax.device import Device

if TYPE_CHECKING:
    from ..trainer import Trainer

STYPES = ("default", "row_sparse", "csr")


def in_storage(data: Any, stype: str) -> Any:
    """The array in a storage type; all rows of a row_sparse parameter are kept, zeros too."""
    if stype == "default" or data.stype == stype:
        return data
    return wrap(whole(data._value())) if stype == "row_sparse" else data.tostype(stype)


class SparseData:
    """Rows of a parameter's value, which its trainer's kvstore has."""

    _name: str
    _stype: str
    _grad_stype: str
    _arrays: dict[Device, Any] | None
    _trainer: Any = None
    _data: Any
    _check_and_get: Any

    def _set_storage(self, stype: str, grad_stype: str) -> None:
        for which, value in (("stype", stype), ("grad_stype", grad_stype)):
            if value not in STYPES:
                raise errors.MXNetAssertionError(
                    f"invalid {which} for Parameter {self._name!r}: default, row_sparse or csr is expected, got "
                    f"{value!r}"
                )
        self._stype = stype
        self._grad_stype = grad_stype

    def _set_trainer(self, trainer: Trainer | None) -> None:
        """The trainer that has the rows, and is to hear when a value is set; a sparse parameter has at most one."""
        mine = self._trainer() if self._trainer is not None else None
        if (
            self._stype != "default"
            and mine is not None
            and trainer is not None
            and mine is not trainer
        ):
            raise errors.MXNetError(
                f"Failed to set the trainer for Parameter {self._label} because it was already set. More than one "
                f"trainers for a {self._stype} Parameter is not supported."
            )
        self._trainer = None if trainer is None else weakref.ref(trainer)

    def _check_dense(self, what: str, instead: str) -> None:
        if self._stype != "default":
            raise errors.MXNetError(
                f"Cannot return a copy of Parameter {self._label} via {what}() because its storage type is "
                f"{self._stype}. Please use {instead}() instead."
            )

    def row_sparse_data(self, row_id: Any) -> Any:
        """The rows with these numbers of a row_sparse parameter, from the kvstore, on the device of ``row_id``.

        Raises:
          RuntimeError: it is not row_sparse, or there is no Trainer.
        """
        self._check_rows("row_sparse_data", "data")
        return self._get_row_sparse(self._data, row_id.device, row_id)

    def list_row_sparse_data(self, row_id: Any) -> list[Any]:
        """`row_sparse_data` on all devices.

        Raises:
          RuntimeError: it is not row_sparse, or there is no Trainer.
        """
        self._check_rows("list_row_sparse_data", "list_data")
        return self._get_row_sparse(self._data, list, row_id)

    def _all(self) -> list[Any]:
        """The arrays on all devices, of whatever storage type.

        Raises:
          RuntimeError: there are none yet.
        """
        if self._arrays is None:
            raise self._missing()
        return list(self._arrays.values())

    @property
    def _label(self) -> str:
        return repr(self._name)

    def _missing(self) -> Exception:
        raise NotImplementedError

    def _check_rows(self, what: str, instead: str) -> None:
        if self._stype != "row_sparse":
            raise errors.MXNetError(
                f"Cannot return a copy of Parameter {self._label} via {what}() because its storage type is "
                f"{self._stype}. Please use {instead}() instead."
            )

    def _get_row_sparse(self, arr_list: Any, ctx: Any, row_id: Any) -> Any:
        """The array of a device, or all for `list`, with these rows of the store in it; subclasses override it.

        Raises:
          RuntimeError: there is no Trainer.
          TypeError: the numbers are not an array.
        """
        if not isinstance(row_id, NDArray):
            raise errors.MXNetTypeError(
                f"row_id must have NDArray type, but {type(row_id)} is given"
            )
        trainer = self._trainer() if self._trainer is not None else None
        if trainer is None:
            raise errors.MXNetError(
                f"Cannot get row_sparse data for Parameter {self._label} when no Trainer is created with it."
            )
        found = self._check_and_get(arr_list, ctx)
        trainer._row_sparse_pull(self, found, row_id)
        return found

    def _all_rows(self) -> Any:
        """The value with all its rows, for files."""
        first = next(iter((self._arrays or {}).values()))
        if (
            self._stype == "row_sparse"
            and self._trainer is not None
            and self._trainer() is not None
        ):
            first = first.copy()
            rows = nd_array(np.arange(first.shape[0]), first.device, "int64")
            self._trainer()._row_sparse_pull(self, first, rows, full_idx=True)
        return first
