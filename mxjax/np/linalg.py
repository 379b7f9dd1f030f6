"""Linear algebra as `mx.np.linalg` has it."""

from __future__ import annotations

from typing import Any

import numpy as _np

from ..array.classes import ndarray
from ..array.frontend import fill
from ..array.invoke import call
from ..errors import MXNetValueError
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
    values, vectors = _np.linalg.eig(host(a))
    return ours(_real(values, a)), ours(_real(vectors, a))


def eigvals(a: Any) -> ndarray:
    """Eigenvalues of real square matrices that have real ones.

    Args:
      a: the square matrices, shape (..., n, n).

    Returns:
      ndarray: shape (..., n).
    """
    return ours(_real(_np.linalg.eigvals(host(a)), a))


def _real(x: Any, a: Any) -> Any:
    if x.dtype.kind == "c":
        if abs(x.imag).max() > 1e-6 * max(abs(x).max(), 1e-30):
            raise MXNetValueError("the matrix has complex eigenvalues; arrays are real")
        x = x.real
    return x.astype(a.dtype)


_explain_names(__name__)
