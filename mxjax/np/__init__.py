"""NumPy's functions on mxjax arrays."""

from __future__ import annotations

from builtins import bool as _bool
from typing import Any as _Any

from numpy import dtype, e, euler_gamma, inf, nan, newaxis, pi

from .. import settings as _settings
from ..array.classes import ndarray
from ..array.creation import array, asarray, empty, from_dlpack, from_jax, from_numpy
from ..array.frontend import fill
from ..errors import explain_names as _explain_names
from . import _internal as _internal
from . import fallback as _fallback
from . import fallback_linalg as fallback_linalg
from . import linalg, random
from .functions import (
    allclose,
    apply_along_axis,
    array_equal,
    array_equiv,
    bincount,
    choose,
    count_nonzero,
    einsum,
    flatnonzero,
    full,
    indices,
    linspace,
    may_share_memory,
    ndim,
    nonzero,
    piecewise,
    result_type,
    select,
    shape,
    shares_memory,
    size,
    sometrue,
    unique,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    unravel_index,
    where,
)
from .in_place import fill_diagonal, nan_to_num

integer_dtypes = [dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
floating_dtypes = [dtype(f"float{bits}") for bits in (16, 32, 64)]
numeric_dtypes = [*integer_dtypes, *floating_dtypes]
boolean_dtypes = [dtype("bool")]
# MXNet 2's element types are dtypes, those of MXNet 1 NumPy's scalar classes: `mx.np.float32(1.5)`.
_TYPES = {t.name: t for t in (*numeric_dtypes, *boolean_dtypes)} | {"bool_": boolean_dtypes[0]}
_version = _settings.snapshot("compat.version")
NaN = NAN = nan
PINF, NINF, PZERO, NZERO = inf, -inf, 0.0, -0.0

__all__ = [
    "NAN",
    "NINF",
    "NZERO",
    "NaN",
    "PINF",
    "PZERO",
    "allclose",
    "apply_along_axis",
    "array",
    "array_equal",
    "array_equiv",
    "asarray",
    "bincount",
    "bool",
    "bool_",
    "boolean_dtypes",
    "choose",
    "count_nonzero",
    "dtype",
    "e",
    "einsum",
    "empty",
    "euler_gamma",
    "fill_diagonal",
    "nan_to_num",
    "flatnonzero",
    "float16",
    "float32",
    "float64",
    "floating_dtypes",
    "from_dlpack",
    "from_jax",
    "from_numpy",
    "full",
    "indices",
    "inf",
    "int16",
    "int32",
    "int64",
    "int8",
    "integer_dtypes",
    "linalg",
    "linspace",
    "may_share_memory",
    "nan",
    "ndarray",
    "ndim",
    "newaxis",
    "nonzero",
    "numeric_dtypes",
    "pi",
    "piecewise",
    "random",
    "result_type",
    "select",
    "shape",
    "shares_memory",
    "size",
    "sometrue",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unravel_index",
    "where",
    *fill(globals(), "np", ndarray),
    *_fallback.fill(globals()),
]

_explain_names(__name__)
_other = globals()["__getattr__"]


def __getattr__(name: str) -> _Any:
    if name not in _TYPES:
        return _other(name)
    if _version() != "1.9":
        return _TYPES[name]
    return _bool if name == "bool" else _TYPES[name].type
