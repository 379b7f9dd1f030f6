"""Which of NumPy's functions run on arrays of ``mx.np`` by NumPy's protocols, and decorators for tests of that.

``numpy.concatenate([mx_array, ...])`` runs ``mx.np.concatenate`` by itself (`array/interop.py`): nothing is registered
here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as _onp

from . import np as _np

_FUNCTIONS = """
all any sometrue argmin argmax around round round_ argsort sort append broadcast_arrays broadcast_to clip
concatenate copy cumsum diag diagonal diagflat dot expand_dims fix flip flipud fliplr inner insert interp max
amax mean min amin nonzero ones_like atleast_1d atleast_2d atleast_3d prod product ravel repeat reshape roll
split array_split hsplit vsplit dsplit squeeze stack std sum swapaxes take tensordot tile transpose unique
unravel_index flatnonzero diag_indices_from delete var vdot vstack column_stack hstack dstack zeros_like
linalg.norm linalg.cholesky linalg.inv linalg.solve linalg.tensorinv linalg.tensorsolve linalg.lstsq
linalg.pinv linalg.eigvals linalg.eig linalg.eigvalsh linalg.eigh linalg.qr linalg.matrix_rank shape trace
tril triu meshgrid outer kron einsum polyval shares_memory may_share_memory quantile median percentile diff
ediff1d resize where full_like bincount empty_like nan_to_num isnan isfinite isposinf isneginf isinf pad cross
""".split()
_UFUNCS = """
abs fabs add arctan2 copysign degrees hypot lcm gcd logaddexp subtract multiply floor_divide true_divide
negative power mod fmod matmul absolute rint sign exp log log2 log10 expm1 sqrt square cbrt reciprocal invert
bitwise_not remainder sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh maximum fmax
minimum fmin ceil trunc floor bitwise_and bitwise_xor bitwise_or logical_and logical_or logical_xor
logical_not equal not_equal less less_equal greater greater_equal
""".split()


def _has(module: Any, name: str) -> bool:
    for part in name.split("."):
        module = getattr(module, part, None)
    return callable(module)


# What NumPy itself still has.
_NUMPY_ARRAY_FUNCTION_LIST = [n for n in _FUNCTIONS if _has(_onp, n) and _has(_np, n)]
_NUMPY_ARRAY_UFUNC_LIST = [n for n in _UFUNCS if _has(_onp, n) and _has(_np, n)]


def _explaining(protocol: str) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    def decorate(func: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(func)
        def run(*args: Any, **kwargs: Any) -> None:
            try:
                func(*args, **kwargs)
            except Exception as e:
                raise RuntimeError(
                    f"Running function {func.__name__} with NumPy array {protocol} protocol failed with exception {e}"
                ) from e

        return run

    return decorate


with_array_function_protocol = _explaining("function")
with_array_ufunc_protocol = _explaining("ufunc")
