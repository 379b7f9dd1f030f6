"""NumPy's functions on mxjax arrays."""

from __future__ import annotations

from numpy import dtype, e, euler_gamma, inf, nan, newaxis, pi

from ..array.classes import ndarray
from ..array.creation import array, asarray, empty, from_dlpack, from_jax, from_numpy
from ..array.frontend import fill
from ..errors import explain_names as _explain_names
from . import _internal as _internal
from . import fallback as _fallback
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
    fill_diagonal,
    flatnonzero,
    full,
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

# MXNet's element types are dtypes, not NumPy's scalar classes.
bool_ = dtype("bool")
int8, int16, int32, int64 = dtype("int8"), dtype("int16"), dtype("int32"), dtype("int64")
uint8, uint16, uint32, uint64 = dtype("uint8"), dtype("uint16"), dtype("uint32"), dtype("uint64")
float16, float32, float64 = dtype("float16"), dtype("float32"), dtype("float64")
bool = bool_  # noqa: A001  (NumPy's name)
integer_dtypes = [int8, int16, int32, int64, uint8, uint16, uint32, uint64]
floating_dtypes = [float16, float32, float64]
numeric_dtypes = [*integer_dtypes, *floating_dtypes]
boolean_dtypes = [bool_]
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
    "flatnonzero",
    "float16",
    "float32",
    "float64",
    "floating_dtypes",
    "from_dlpack",
    "from_jax",
    "from_numpy",
    "full",
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
