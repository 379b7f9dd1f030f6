"""The numbers by which MXNet's files and its library know dtypes, storages and gradients' requests."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..serialization import CODES, dtype_of

_SIGNED_INT32_UPPER_LIMIT = 2**31 - 1

_DTYPE_MX_TO_NP: dict[int, Any] = {-1: None} | {
    code: dtype_of(name) if name == "bfloat16" else dtype_of(name).type
    for code, name in enumerate(CODES)
}
_DTYPE_NP_TO_MX: dict[Any, int] = {dtype: code for code, dtype in _DTYPE_MX_TO_NP.items()} | {
    np.longlong: 6,
    np.ulonglong: 11,
}

_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}

_STORAGE_TYPE_STR_TO_ID = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}
_STORAGE_TYPE_ID_TO_STR = {code: name for name, code in _STORAGE_TYPE_STR_TO_ID.items()}
_STORAGE_TYPE_UNDEFINED, _STORAGE_TYPE_DEFAULT, _STORAGE_TYPE_ROW_SPARSE, _STORAGE_TYPE_CSR = (
    _STORAGE_TYPE_ID_TO_STR
)


def _storage_type(array: Any) -> int:
    """The number of an array's storage."""
    return _STORAGE_TYPE_STR_TO_ID[array.stype]


def _int64_enabled() -> bool:
    """Whether arrays may have more than 2**31 elements: always here."""
    return True
