"""Decompositions of matrices as NumPy's tier computes them: by SciPy's LAPACK, which JAX calls on CPUs, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .numpy_control import ALL, Inner
from .numpy_rules import NotHere, Op, Rule, dtype_in

_LETTERS = {"float32": "s", "float64": "d"}


def _routine(library: str, name: str, eqn: Any) -> Callable[..., Any]:
    from scipy import linalg

    letter = _LETTERS.get(str(dtype_in(eqn)))
    if letter is None:
        raise NotHere(f"{name} of {dtype_in(eqn)}")
    found: Callable[..., Any] = getattr(getattr(linalg, library), letter + name)
    return found


def _of_each(fn: Callable[..., Sequence[Any]], eqn: Any) -> Op:
    """A function of matrices for stacks of them."""
    outs = [v.aval for v in eqn.outvars]
    inner = [len(a.shape) - len(eqn.invars[0].aval.shape) + 2 for a in outs]

    def each(*rest: Any) -> Any:
        arrays, shapes = rest[: len(eqn.invars)], rest[-1]
        made = [np.empty(shape, a.dtype) for shape, a in zip(shapes, outs, strict=True)]
        for at in np.ndindex(arrays[0].shape[:-2]):
            for whole, part in zip(made, fn(*[a[at] for a in arrays]), strict=True):
                whole[at] = part
        return made

    assert all(n in (1, 2) for n in inner)
    return Op(each, (tuple(tuple(a.shape) for a in outs),), many=True)


def _cholesky(eqn: Any) -> Op:
    potrf = _routine("lapack", "potrf", eqn)

    def factor(a: Any) -> Any:
        if not a.size:
            return (a,)
        made, info = potrf(a, lower=1, clean=0)
        return (made if info == 0 else np.full_like(a, np.nan),)

    return _of_each(factor, eqn)


def _lu(eqn: Any) -> Op:
    getrf = _routine("lapack", "getrf", eqn)

    def factor(a: Any) -> Any:
        order = np.arange(a.shape[0], dtype=np.int32)
        if not a.size:
            return a, np.zeros(min(a.shape), np.int32), order
        made, pivots, info = getrf(a)
        for k, p in enumerate(pivots):
            order[[k, p]] = order[[p, k]]
        return made if info >= 0 else np.full_like(a, np.nan), pivots, order

    return _of_each(factor, eqn)


def _qr(eqn: Any) -> Op:
    p = eqn.params
    if p["pivoting"] or len(eqn.outvars) != 2:
        raise NotHere("QR with pivots")
    geqrf, orgqr = (_routine("lapack", name, eqn) for name in ("geqrf", "orgqr"))
    whole = p["full_matrices"]

    def factor(a: Any) -> Any:
        m, n = a.shape
        k = min(m, n)
        size = m if whole else k
        if not k:
            return np.eye(m, size, dtype=a.dtype), np.zeros((size, n), a.dtype)
        made, tau, _, _ = geqrf(a)
        start = np.zeros((m, size), a.dtype, order="F")
        start[:, : min(size, n)] = made[:, : min(size, n)]
        return orgqr(start, tau)[0], np.triu(made[:size])

    return _of_each(factor, eqn)


def _triangular_solve(eqn: Any) -> Op:
    p, trsm = eqn.params, _routine("blas", "trsm", eqn)
    how = dict(
        side=int(not p["left_side"]),
        lower=int(p["lower"]),
        trans_a=int(p["transpose_a"]),
        diag=int(p["unit_diagonal"]),
    )
    return _of_each(lambda a, b: (trsm(1.0, a, b, **how) if b.size else b,), eqn)


def linear_solve(eqn: Any, inner: Inner) -> Op:
    """A solution by the function that the equation brings."""
    counts, solve = eqn.params["const_lengths"], inner(eqn.params["jaxprs"].solve)
    first = counts.matvec + counts.vecmat
    total = sum(counts)

    def run(*rest: Any) -> Any:
        return solve(rest[-1], *rest[first : first + counts.solve], *rest[total:-1])

    return Op(run, (ALL,), many=True)


LINALG: dict[str, Rule] = {
    "cholesky": _cholesky,
    "lu": _lu,
    "qr": _qr,
    "triangular_solve": _triangular_solve,
}
