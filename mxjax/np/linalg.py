"""Linear algebra as `mx.np.linalg` has it."""

from __future__ import annotations

from typing import Any

import numpy as _np

from ..array.classes import ndarray
from ..array.creation import array
from ..array.frontend import fill
from ..array.invoke import call
from ..array.ndarray import NDArray
from ..errors import MXNetValueError, like
from ..errors import explain_names as _explain_names
from ..ops.table import TABLE
from .fallback import host, ours

__all__ = ["eig", "eigvals", "lstsq", *fill(globals(), "np.linalg", ndarray)]


def lstsq(a: Any, b: Any, rcond: Any = "warn") -> tuple[Any, ...]:
    """Least squares: (solution, residuals, rank, singular values).

    Args:
      a: the matrix, shape (m, n).
      b: the right-hand sides, (m,) or (m, k).
      rcond: singular values below this share of the largest count as 0.

    Returns:
      tuple: the solution, the sums of squared residuals, the rank, and the singular values.
    """
    return tuple(call(TABLE["linalg_lstsq"], ndarray, (a, b), {"rcond": rcond}))


def eig(a: Any) -> tuple[Any, ...]:
    """Eigenvalues and right eigenvectors of real square matrices that have real ones.

    Args:
      a: the square matrices, shape (..., n, n).

    Returns:
      tuple of ndarray: eigenvalues (..., n), and eigenvectors as columns (..., n, n).
    """
    values, vectors = _decomposed(_np.linalg.eig, a)
    return values, vectors


def eigvals(a: Any) -> ndarray:
    """Eigenvalues of real square matrices that have real ones.

    Args:
      a: the square matrices, shape (..., n, n).

    Returns:
      ndarray: shape (..., n).
    """
    return _decomposed(_np.linalg.eigvals, a)


def _decomposed(fn: Any, a: Any) -> Any:
    """What NumPy finds in matrices, in their dtype; of integers it is float64."""
    given = host(a if isinstance(a, NDArray) else array(a))
    try:
        made = fn(given)
    except (TypeError, ValueError) as error:
        raise like(error, f"np.linalg.{fn.__name__}: {error}") from None
    dtype = given.dtype if given.dtype.kind == "f" else _np.dtype("float64")
    if isinstance(made, tuple):
        return tuple(ours(_real(x).astype(dtype)) for x in made)
    return ours(_real(made).astype(dtype))


def _real(x: Any) -> Any:
    if x.dtype.kind != "c":
        return x
    if abs(x.imag).max(initial=0) > 1e-6 * max(abs(x).max(initial=0), 1e-30):
        raise MXNetValueError("the matrix has complex eigenvalues; arrays are real")
    return x.real


_explain_names(__name__)
