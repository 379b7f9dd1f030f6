"""Products and linear algebra: np, np.linalg, nd.linalg."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import errors
from ..core.run.failures import holding
from .elementwise import absolute
from .lowering.product import of_rows, product
from .numbers import fitted
from .samples import Given, Spd, case, f
from .table import op

_FLAT = dict(smooth=False)


# ---- what LAPACK refuses -----------------------------------------------------------------


def _numbers(fn: Callable[..., Any], what: str, finite: bool = False) -> Callable[..., Any]:
    """A decomposition of matrices that refuses NaN, and infinities where LAPACK makes NaN of them."""
    strange = "NaN or an infinity" if finite else "NaN"

    def checked(a: Any, *rest: Any, **attrs: Any) -> Any:
        fixed = lax.stop_gradient(a)
        good = jnp.isfinite(fixed) if finite else fixed == fixed
        return holding(
            good.all(),
            fn(a, *rest, **attrs),
            f"{what}: the input has {strange}; look for it with np.isnan",
        )

    return checked


def _pivoted(a: Any, x: Any, what: str) -> Any:
    """x, which was computed of matrices whose factors have no zero on the diagonal; else they are singular."""
    lu = lax.linalg.lu(lax.stop_gradient(a))[0]  # the same one as in the solution
    at = jnp.diagonal(lu, axis1=-2, axis2=-1)
    message = f"{what}: the input matrix is non-convertible: it is singular, or has NaN; np.linalg.pinv takes it"
    return holding(((at != 0) & (at == at)).all(), x, message)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _of_triangle(a: Any, upper: bool) -> Any:
    """The symmetric matrix of which this is a triangle: LAPACK reads no other. Its derivative is symmetric, as MXNet's."""
    return (
        jnp.triu(a) + _t(jnp.triu(a, 1), True) if upper else jnp.tril(a) + _t(jnp.tril(a, -1), True)
    )


@_of_triangle.defjvp
def _of_triangle_jvp(upper: bool, primals: Any, tangents: Any) -> Any:
    (da,) = tangents
    return _of_triangle(*primals, upper), (da + _t(da, True)) / 2


def _is_upper(upper: Any, uplo: Any) -> bool:
    """Which triangle is meant: MXNet 2 has a bool, MXNet 1 and NumPy "L" or "U" under another name."""
    said = upper if uplo is None else uplo
    if isinstance(said, str):
        if said not in ("L", "U"):
            raise errors.MXNetValueError(
                f"UPLO must be 'L' or 'U', the triangle that is read, got {said!r}"
            )
        return said == "U"
    return bool(said)


def _factored(a: Any, upper: bool, what: str) -> Any:
    """The Cholesky factor, which is NaN where a matrix has none."""
    out = jnp.linalg.cholesky(_of_triangle(a, upper), upper=upper)
    at = lax.stop_gradient(jnp.diagonal(out, axis1=-2, axis2=-1))
    message = f"{what}: potrf failed: the input matrix is not positive definite, or has NaN"
    return holding((at == at).all(), out, message)


def _products(a: Any, b: Any, name: str) -> None:
    for x in (a, b):
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise TypeError(
                f"{name} takes floating-point arrays, got {a.dtype} and {b.dtype}: x.astype('float32')"
            )


def _common(a: Any, b: Any) -> tuple[Any, Any]:
    dtype = jnp.promote_types(a.dtype, b.dtype)
    return a.astype(dtype), b.astype(dtype)


def _inner_lengths(a: Any, b: Any, at: int, axis: int) -> None:
    if a.ndim and b.ndim and a.shape[at] != b.shape[axis]:
        wanted = [a.shape[at] if d == axis % b.ndim else -1 for d in range(b.ndim)]
        turned = at == -1 and axis == -2 and a.shape[at] == b.shape[-1]
        raise ValueError(
            f"Shape inconsistent, Provided = {list(b.shape)}, inferred shape={wanted}: axis {at} of the first array, of length "
            f"{a.shape[at]}, and axis {axis} of the second, of length {b.shape[axis]}, are summed over"
            + ("; with its last two axes exchanged the second would fit" if turned else "")
        )


@op(
    np="dot",
    samples=[case(f(5), f(5)), case(f(3, 4), f(4, 2)), case(f(2, 3, 4), f(4))],
    ref=np.dot,
    amp="low",
    methods="np",
    onnx="dot",
    sums="products",
)
def dot(a: Any, b: Any) -> Any:
    """The sum over the last axis of a and the second last of b (its only one, if it has one)."""
    _products(a, b, "dot")
    _inner_lengths(a, b, -1, -2 if b.ndim > 1 else 0)
    return of_rows(*_common(a, b)) if a.ndim > 1 and b.ndim == 2 else jnp.dot(*_common(a, b))


def _rows_of_products(attrs: dict[str, Any], stypes: Sequence[str]) -> dict[str, bool]:
    """A csr matrix that is turned around has rows of zeros, and so has the gradient that is made with it."""
    if stypes[0] != "csr" or attrs.get("transpose_b"):
        return {}
    return {"rhs": not attrs.get("transpose_a")}


@op(
    "dot@nd",
    nd="dot",
    rows=_rows_of_products,
    samples=[case(f(3, 4), f(4, 2)), case(f(4, 3), f(4, 2), transpose_a=True), case(f(5), f(5))],
    amp="low",
    methods="nd",
    onnx="dot_nd",
    sums="products",
)
def dot_nd(
    lhs: Any,
    rhs: Any,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    forward_stype: Any = None,
) -> Any:
    """The sum over the last axis of lhs and the first of rhs (transposed as asked)."""
    a = jnp.moveaxis(lhs, 0, -1) if transpose_a else lhs
    b = jnp.moveaxis(rhs, -1, 0) if transpose_b else rhs
    if a.shape[-1] != b.shape[0]:
        raise ValueError(f"dot shape error: {list(lhs.shape)} X {list(rhs.shape)}")
    out = jnp.tensordot(a, b, 1)
    return out.reshape(1) if out.ndim == 0 else out


@op(
    np="matmul",
    samples=[case(f(3, 4), f(4, 2)), case(f(2, 3, 4), f(2, 4, 2)), case(f(3, 4), f(4))],
    ref=np.matmul,
    amp="low",
    onnx="matmul",
    sums="products",
)
def matmul(a: Any, b: Any) -> Any:
    """Matrix product, broadcast over leading axes."""
    _products(a, b, "matmul")
    if not a.ndim or not b.ndim:
        raise ValueError("matmul does not take 0-d arrays; multiply with *")
    _inner_lengths(a, b, -1, -2 if b.ndim > 1 else 0)
    if a.ndim > 1 and b.ndim == 2:
        return of_rows(*_common(a, b))
    if a.ndim == b.ndim > 2 and a.shape[:-2] == b.shape[:-2]:
        batch = tuple(range(a.ndim - 2))
        return product(*_common(a, b), (((a.ndim - 1,), (a.ndim - 2,)), (batch, batch)))
    return jnp.matmul(*_common(a, b))


def _batch_dot(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    if a.ndim < 3 or a.ndim != b.ndim or a.shape[:-2] != b.shape[:-2]:
        raise ValueError(
            "batch_dot shape error (the leading batch dimensions must be equal): "
            f"{list(a.shape)} X {list(b.shape)}"
        )
    n = a.ndim
    at, bt = (n - 2 if transpose_a else n - 1), (n - 1 if transpose_b else n - 2)
    if a.shape[at] != b.shape[bt]:
        raise ValueError(f"batch_dot shape error: {list(a.shape)} X {list(b.shape)}")
    batch = tuple(range(n - 2))
    return product(a, b, (((at,), (bt,)), (batch, batch)))


_BATCH = [
    case(f(2, 3, 4), f(2, 4, 5)),
    case(f(2, 3, 4), f(2, 5, 4), transpose_b=True),
    case(f(2, 3, 4), f(2, 3, 5), transpose_a=True),
]


@op(
    npx="batch_dot",
    nd="batch_dot",
    nd_params="lhs rhs",
    display="batch_dot",
    samples=_BATCH,
    amp="low",
    onnx="batch_dot",
    sums="products",
)
def batch_dot(
    a: Any,
    b: Any,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    forward_stype: Any = None,
) -> Any:
    """Products of two stacks of matrices."""
    return _batch_dot(a, b, transpose_a, transpose_b)


@op(
    np="inner",
    samples=[case(f(3, 4), f(2, 4))],
    ref=np.inner,
    internal="_npi_tensordot",
    amp="low",
    written="inner",
    onnx="inner",
    sums="products",
)
def inner(a: Any, b: Any) -> Any:
    """The sum over the last axes of both."""
    return jnp.inner(a, b)


@op(
    np="outer",
    np_linalg="outer",
    samples=[case(f(3), f(2, 2))],
    ref=np.outer,
    internal=None,
    written=("flat", 0),
    onnx="outer",
)
def outer(a: Any, b: Any) -> Any:
    """All products of the elements of two vectors."""
    return jnp.outer(a, b)


@op(
    np="vdot",
    samples=[case(f(3, 4), f(3, 4))],
    ref=np.vdot,
    internal=None,
    amp="low",
    written=("flat", 1),
    onnx="vdot",
    sums="products",
)
def vdot(a: Any, b: Any) -> Any:
    """The sum of products of corresponding elements."""
    return jnp.vdot(a, b)


@op(np="kron", samples=[case(f(2, 2), f(3, 4))], ref=np.kron, amp="widest")
def kron(a: Any, b: Any) -> Any:
    """The Kronecker product."""
    return jnp.kron(a, b)


@op(
    np="tensordot",
    np_linalg="tensordot",
    samples=[
        case(f(2, 3, 4), f(4, 3), axes=1),
        case(f(2, 3), f(2, 3)),
        case(f(2, 3, 4), f(2, 5, 4), axes=((0, 2), (0, 2))),
    ],
    ref=np.tensordot,
    aliases=("_npi_tensordot_int_axes",),
    amp="low",
    written="tensordot",
    read={"_npi_tensordot": "tensordot", "_npi_tensordot_int_axes": ("renamed", {})},
    onnx="tensordot",
    sums="products",
)
def tensordot(a: Any, b: Any, *, axes: Any = 2) -> Any:
    """The sum over pairs of axes."""
    return jnp.tensordot(a, b, axes)


@op(
    "einsum",
    samples=[case(f(3, 4), f(4, 2), subscripts="ij,jk->ik"), case(f(3, 3), subscripts="ii")],
    internal="_npi_einsum",
    amp="low",
    onnx="einsum",
    sums="products",
)
def einsum(*operands: Any, subscripts: str, optimize: Any = "optimal") -> Any:
    """Einstein's summation."""
    wanted = jnp.result_type(*operands)
    strange = set(subscripts) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,-> ")
    if strange:
        raise ValueError(
            f"einsum: {subscripts!r} has {sorted(strange)}; letters, commas, ... and -> make subscripts"
        )
    return jnp.einsum(subscripts, *operands).astype(wanted)


@op(np="cross", np_linalg="cross", samples=[case(f(4, 3), f(4, 3))], ref=np.cross, amp="widest")
def cross(
    a: Any, b: Any, *, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """The cross product of vectors."""
    return jnp.cross(a, b, axisa, axisb, axisc, axis)


@op(
    np="trace",
    samples=[case(f(3, 3)), case(f(2, 3, 4), offset=1, axis1=0, axis2=2)],
    ref=np.trace,
    amp="full",
    methods="np",
)
def trace(a: Any, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The sum of a diagonal."""
    return jnp.trace(a, offset, axis1, axis2, dtype=a.dtype)


@op("linalg_trace", np_linalg="trace", samples=[case(f(2, 3, 3))], amp="full")
def linalg_trace(a: Any, *, offset: int = 0) -> Any:
    """The sum of a diagonal over the first two axes."""
    return jnp.trace(a, offset, dtype=a.dtype)


def _diagonal(a: Any, k: Any, axis1: int = 0, axis2: int = 1) -> Any:
    """`jnp.diagonal`, of an offset that may be a symbol."""
    a = jnp.moveaxis(a, (axis1, axis2), (-2, -1))
    down, right = max(-k, 0), max(k, 0)
    at = jnp.arange(max(min(a.shape[-2] - down, a.shape[-1] - right), 0))
    return a[..., at + down, at + right]


def _with_diagonal(v: Any, k: Any) -> Any:
    """`jnp.diag` of a vector, with an offset that may be a symbol."""
    down, right = max(-k, 0), max(k, 0)
    at = jnp.arange(v.shape[0] + down + right)
    zero = jnp.zeros((), v.dtype)
    row = jax.lax.pad(v, zero, [(right, down, 0)])
    return jnp.where(at[:, None] + k == at, row, zero)


_DIAG = [case(f(4)), case(f(3, 3), k=1)]


@op(np="diag", samples=_DIAG, ref=np.diag, methods="np", lengths={"k": int}, onnx="diag")
def diag(array: Any, *, k: int = 0) -> Any:
    """The diagonal of a matrix, or a matrix with this diagonal."""
    if array.ndim not in (1, 2):
        raise ValueError(f"diag: an array of 1 or 2 axes is expected, got {array.ndim}")
    return _with_diagonal(array, k) if array.ndim == 1 else _diagonal(array, k)


@op("diag@nd", nd="diag", samples=_DIAG, methods="nd", lengths={"k": int}, onnx="diag")
def diag_nd(data: Any, *, k: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of matrices, or a matrix with this diagonal."""
    if data.ndim > 1 and data.size and not -data.shape[axis1] <= k <= data.shape[axis2]:
        raise ValueError(
            f"diag: k={k} lies outside of matrices of {data.shape[axis1]} rows and {data.shape[axis2]} columns"
        )
    return _with_diagonal(data, k) if data.ndim == 1 else _diagonal(data, k, axis1, axis2)


@op(np="diagflat", samples=[case(f(2, 2))], ref=np.diagflat)
def diagflat(array: Any, *, k: int = 0) -> Any:
    """A matrix with the elements on its diagonal."""
    return jnp.diagflat(array, k)


@op(
    np="diagonal",
    samples=[case(f(3, 4)), case(f(2, 3, 4), axis1=1, axis2=2)],
    ref=np.diagonal,
    methods="np",
    onnx="diag",
)
def diagonal(a: Any, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """A diagonal."""
    return jnp.diagonal(a, offset, axis1, axis2)


@op("linalg_diagonal", np_linalg="diagonal", samples=[case(f(2, 3, 3))], onnx=("diag", (-2, -1)))
def linalg_diagonal(a: Any, *, offset: int = 0) -> Any:
    """The diagonals of matrices."""
    return jnp.diagonal(a, offset, -2, -1)


@op(np_linalg="vecdot", np="vecdot", samples=[case(f(2, 3), f(2, 3))], internal=None)
def vecdot(a: Any, b: Any, *, axis: int | None = None) -> Any:
    """The sum of products along an axis (the last)."""
    return (a * b).sum(-1 if axis is None else axis)


# ------------------------------------------------------------------------------------ np.linalg

_SQUARE = Spd((3, 3))


def _row(name: str, fn: Callable[..., Any], *samples: Any, **row: Any) -> None:
    op("linalg_" + name, np_linalg=name, samples=list(samples), **row)(fn)


def _infinite(ord: Any) -> Any:
    """The order of a norm, whose infinities may be given as words."""
    return {"inf": np.inf, "-inf": -np.inf}.get(ord, ord) if isinstance(ord, str) else ord


def _norm(x: Any, ord: Any, axis: Any, keepdims: bool) -> Any:
    """JAX's norm; where it is one of magnitudes, a number that is 0 has no slope."""
    one = axis is not None and np.size(axis) == 1
    if isinstance(ord, str) and "inf" in ord and (axis is None or np.size(axis) != 2):
        # As a word MXNet takes it for the largest or least of all that there is, whatever the axes.
        return (jnp.min if ord[0] == "-" else jnp.max)(absolute(x), axis, keepdims=keepdims)
    ord = _infinite(ord)
    if ord in ("fro", "f"):  # of a vector, too, where NumPy has none
        ord = 2 if one or (axis is None and x.ndim == 1) else "fro"
    if ord is not None and axis is None and x.ndim > 2:
        axis = (-2, -1)  # norms of the matrices that the last axes are
    x = absolute(x) if ord in (1, -1, np.inf, -np.inf) else x
    return jnp.linalg.norm(x, ord, axis, keepdims)


@op(
    "linalg_norm",
    np_linalg="norm",
    samples=[
        case(f(3, 4)),
        case(f(5), ord=3),
        case(f(3, 4), axis=1, keepdims=True),
        case(f(2, 3, 4), axis=(1, 2)),
    ],
    ref=np.linalg.norm,
    amp="full",
    written="norm",
    read={"_npi_norm": "norm"},
    onnx="linalg_norm",
)
def norm(x: Any, *, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Vector and matrix norms, as numpy.linalg.norm has them: floats, of integers too.

    MXNet's norms of integers are integers, and along an axis the largest magnitude instead of the norm.
    """
    return _norm(x, ord, axis, keepdims)


@op(
    "linalg_vector_norm",
    np_linalg="vector_norm",
    samples=[case(f(3, 4)), case(f(3, 4), ord=1, axis=0)],
    internal=None,
    amp="full",
    onnx=("linalg_norm", False),
)
def vector_norm(x: Any, *, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Norms of vectors: of all elements, or along axes, which become one; ``keepdims`` keeps it, as the first one.

    In MXNet the axes of a tuple cannot be negative.
    """
    if axis is None:
        x, axis = x.reshape(-1), 0
    elif isinstance(axis, tuple):
        axis = tuple(a % x.ndim for a in axis)
        x = jnp.moveaxis(x, axis, range(len(axis)))
        x, axis = x.reshape(int(np.prod(x.shape[: len(axis)])), *x.shape[len(axis) :]), 0
    return _norm(x, 2 if ord is None else ord, axis, keepdims)


@op(
    "linalg_matrix_norm",
    np_linalg="matrix_norm",
    samples=[case(f(2, 3, 4)), case(f(3, 4), ord=1)],
    internal="_npi_norm",
    amp="full",
)
def matrix_norm(x: Any, *, ord: Any = "fro", axis: Any = (-2, -1), keepdims: bool = False) -> Any:
    """Norms of matrices, which lie along two axes."""
    if not isinstance(axis, (tuple, list)) or len(axis) != 2:
        raise ValueError(
            f"matrix_norm takes the two axes of its matrices, such as axis=(-2, -1), got axis={axis}"
        )
    return _norm(x, ord, tuple(axis), keepdims)


@op(
    "linalg_cholesky",
    np_linalg="cholesky",
    samples=[case(_SQUARE)],
    ref=np.linalg.cholesky,
    amp="full",
    written="cholesky",
    read={"_npi_cholesky": "cholesky"},
)
def cholesky(a: Any, *, upper: bool = False) -> Any:
    """The triangular factor of positive definite matrices."""
    return _factored(a, upper, "linalg.cholesky")


def _wholes_wide(a: Any) -> Any:
    """Integers as float64, in which MXNet decomposes them."""
    return a if jnp.issubdtype(a.dtype, jnp.inexact) else a.astype("float64")


@op(
    "linalg_qr",
    np_linalg="qr",
    samples=[case(f(4, 3))],
    amp="full",
    tupled=True,
    outputs=2,
    **_FLAT,
)
def qr(a: Any, *, mode: str = "reduced") -> Any:
    """Orthogonal and upper triangular factors."""
    return tuple(_numbers(jnp.linalg.qr, "linalg.qr", finite=True)(_wholes_wide(a), mode))


@op(
    "linalg_svd",
    np_linalg="svd",
    samples=[case(f(3, 4))],
    tupled=True,
    outputs=3,
    amp="full",
    **_FLAT,
)
def svd(a: Any) -> Any:
    """Singular value decomposition (U, L, V), without the vectors that belong to zeros."""
    return tuple(_numbers(jnp.linalg.svd, "linalg.svd", finite=True)(a, full_matrices=False))


@op("linalg_svdvals", np_linalg="svdvals", samples=[case(f(3, 4))], internal="_npi_svd", amp="full")
def svdvals(a: Any) -> Any:
    """Singular values."""
    return _numbers(jnp.linalg.svd, "linalg.svdvals", finite=True)(a, compute_uv=False)


def _signed(vectors: Any) -> Any:
    """Eigenvectors, as columns, each with the sign that makes its largest element positive, as in MXNet."""
    if 0 in vectors.shape:
        return vectors
    at = jnp.argmax(jnp.abs(vectors), -2, keepdims=True)
    largest = lax.stop_gradient(jnp.take_along_axis(vectors, at, -2))
    return jnp.where(largest < 0, -vectors, vectors)


def _eigh(a: Any, upper: bool) -> tuple[Any, Any]:
    decomposed = _numbers(jnp.linalg.eigh, "linalg.eigh", finite=True)
    values, vectors = decomposed(_wholes_wide(a), "U" if upper else "L", symmetrize_input=False)
    return values, _signed(vectors)


def _solve(a: Any, b: Any) -> Any:
    """b with one axis less than a has vectors, whatever their number."""
    a, b = _wholes_wide(a), _wholes_wide(b)
    x = (
        jnp.linalg.solve(a, b[..., None])[..., 0]
        if b.ndim == a.ndim - 1
        else jnp.linalg.solve(a, b)
    )
    return _pivoted(a, x, "linalg.solve")


def _tensorsolve(a: Any, b: Any, axes: Any) -> Any:
    if axes is not None:
        moved = tuple(d % a.ndim for d in (axes if isinstance(axes, tuple) else (axes,)))
        a = jnp.transpose(a, [*[d for d in range(a.ndim) if d not in moved], *moved])
    shape = a.shape[-(a.ndim - b.ndim) :]
    size = int(np.prod(shape))
    if size * size != a.size or size != b.size:
        raise ValueError(
            f"tensorsolve: a of shape {list(a.shape)} is no square matrix for b of shape {list(b.shape)}: the product "
            "of its first lengths must be that of the others, and b's size"
        )
    a, b = _wholes_wide(a).reshape(-1, size), _wholes_wide(b)
    return _pivoted(a, jnp.linalg.solve(a, b.reshape(-1)), "linalg.tensorsolve").reshape(shape)


def _inverse(a: Any, what: str) -> Any:
    out = jnp.linalg.inv(a)
    return _pivoted(a if jnp.issubdtype(a.dtype, jnp.inexact) else a.astype(out.dtype), out, what)


def _tensorinv(a: Any, ind: int) -> Any:
    out = jnp.linalg.tensorinv(a, ind)
    size = int(np.prod(a.shape[:ind]))
    return _pivoted(a.reshape(size, -1).astype(out.dtype), out, "linalg.tensorinv")


def _power_of_matrix(a: Any, n: int) -> Any:
    return jnp.linalg.matrix_power(_inverse(a, "linalg.matrix_power") if n < 0 else a, abs(n))


def _det(a: Any) -> Any:
    return (
        _numbers(jnp.linalg.det, "linalg.det")(a)
        if a.shape[-1:] != (0,)
        else jnp.ones(a.shape[:-2], a.dtype)
    )


_row(
    "inv",
    lambda a: _inverse(a, "linalg.inv"),
    case(_SQUARE),
    ref=np.linalg.inv,
    doc="Inverses of matrices.",
    internal="_linalg_inverse",
    written=("renamed", "_npi_inv"),
    amp="full",
)
_row(
    "det",
    lambda a: _det(a),
    case(_SQUARE),
    ref=np.linalg.det,
    doc="Determinants.",
    internal="_linalg_det",
    written=("renamed", "_npi_det"),
    onnx="det",
    from_onnx="Det",
    amp="full",
)
_row(
    "slogdet",
    lambda a: tuple(_numbers(jnp.linalg.slogdet, "linalg.slogdet")(a)),
    case(_SQUARE),
    outputs=2,
    tupled=True,
    doc="Sign and logarithm of determinants.",
    internal="_linalg_slogdet",
    written=("renamed", "_npi_slogdet"),
    amp="full",
)
_row(
    "solve",
    lambda a, b: _solve(a, b),
    case(_SQUARE, f(3, 2)),
    ref=np.linalg.solve,
    doc="x with a x = b.",
    amp="full",
)
_row(
    "tensorinv",
    lambda a, *, ind=2: _tensorinv(a, ind),
    case(Spd((6, 6)), ind=1),
    doc="Inverse of a tensor.",
    amp="full",
)
_row(
    "tensorsolve",
    lambda a, b, *, axes=None: _tensorsolve(a, b, axes),
    case(_SQUARE, f(3)),
    case(f(1, 1, 1, low=0.5), f(1), axes=(2, 0)),
    doc="x with tensordot(a, x) = b.",
    amp="full",
)


def _either(new: Any, old: Any, a: Any) -> Any:
    """A tolerance by its name of today, or by NumPy's and MXNet's of before."""
    return new if old is None else jnp.asarray(old, a.dtype)


_row(
    "pinv",
    lambda a, rtol=None, *, hermitian=False, rcond=None: jnp.linalg.pinv(
        a, _either(rtol, rcond, a), hermitian
    ),
    case(f(4, 3)),
    case(f(2, 4, 3), Given([1e-3, 1e-4])),
    doc="Pseudo-inverse.",
    numbers=("rtol",),
    aliases=("_npi_pinv_scalar_rcond",),
    amp="full",
)
_row(
    "eigh",
    lambda a, *, upper=False, UPLO=None: _eigh(a, _is_upper(upper, UPLO)),
    case(_SQUARE),
    doc="Eigenvalues and vectors of symmetric matrices.",
    amp="full",
    outputs=2,
    tupled=True,
    **_FLAT,
)
_row(
    "eigvalsh",
    lambda a, *, upper=False, UPLO=None: _numbers(
        jnp.linalg.eigvalsh, "linalg.eigvalsh", finite=True
    )(_of_triangle(_wholes_wide(a), _is_upper(upper, UPLO))),
    case(_SQUARE),
    ref=np.linalg.eigvalsh,
    doc="Eigenvalues of symmetric matrices.",
    amp="full",
    **_FLAT,
)
_row(
    "matrix_power",
    lambda a, *, n: _power_of_matrix(a, n),
    case(f(3, 3), n=3),
    doc="Powers of matrices.",
    internal=None,
)


def _cond(x: Any, *, p: Any = None) -> Any:
    made = jnp.linalg.cond(x, p)  # 0 / 0 for a matrix of zeros, whose condition is infinite
    missing = jnp.isnan(x).any((-2, -1))
    return jnp.where(jnp.isnan(made) & ~missing, jnp.asarray(jnp.inf, made.dtype), made)


_row(
    "cond",
    _cond,
    case(_SQUARE),
    doc="Condition numbers.",
    internal=None,
    **_FLAT,
)
_row(
    "multi_dot",
    lambda *arrays: jnp.linalg.multi_dot(arrays),
    case(f(2, 3), f(3, 4), f(4, 2)),
    doc="Product of several matrices in the cheapest order.",
    internal=None,
)


@op(
    "linalg_matrix_rank",
    np_linalg="matrix_rank",
    samples=[case(f(3, 3)), case(f(3, 3), Given([0.1, 0.5]))],
    internal="_npi_matrix_rank_none_tol",
    aliases=("_npi_matrix_rank",),
    amp="full",
    **_FLAT,
    numbers=("rtol",),
)
def matrix_rank(
    M: Any,  # noqa: N803
    rtol: Any = None,
    *,
    hermitian: bool = False,
    tol: Any = None,
) -> Any:
    """Number of singular values above ``rtol`` (by default those that are not small), int64; of a vector 1 if it is not 0.

    rtol, or tol: one number for each matrix, or that can be repeated to these; as in MXNet it is no factor of the largest value.
    """
    rtol = _either(rtol, tol, M)
    if M.ndim < 2:
        return (M != 0).any().astype("int64")
    M = _numbers(lambda a: a, "linalg.matrix_rank", finite=True)(M)  # noqa: N806
    if rtol is None:
        return jnp.linalg.matrix_rank(M).astype("int64")
    s = jnp.abs(jnp.linalg.eigvalsh(M)) if hermitian else jnp.linalg.svd(M, compute_uv=False)
    return (s > jnp.asarray(rtol, s.dtype)[..., None]).sum(-1, dtype="int64")


@op(
    "linalg_lstsq",
    samples=[case(f(4, 2), f(4))],
    internal="_npi_lstsq",
    amp="full",
    outputs=4,
    **_FLAT,
)
def lstsq(a: Any, b: Any, *, rcond: Any = "warn") -> Any:
    """Least squares: (x, residuals, rank, singular values); without residuals where all equations can hold."""
    # As LAPACK reads it: what is no fraction stands for the precision.
    rcond = rcond if isinstance(rcond, (int, float)) and 0 < rcond < 1 else None
    x, residuals, rank, s = jnp.linalg.lstsq(a, b, rcond)
    if a.shape[0] <= a.shape[1]:
        residuals = residuals[:0]
    return x, residuals, rank, s


# ------------------------------------------------------------------------------------ nd.linalg


def _t(x: Any, transpose: bool) -> Any:
    return jnp.swapaxes(x, -1, -2) if transpose else x


def _la(name: str, *samples: Any, **row: Any) -> Any:
    return op("la_" + name, nd_linalg=name, nd="linalg_" + name, samples=list(samples), **row)


def _triangle(A: Any, lower: bool) -> Any:  # noqa: N803
    return jnp.tril(A) if lower else jnp.triu(A)


@_la(
    "gemm",
    case(f(3, 4), f(4, 2), f(3, 2), alpha=2.0, beta=3.0),
    amp="low",
    numbers=("alpha", "beta"),
    onnx=("batch_dot", True),
)
def gemm(
    A: Any,
    B: Any,
    C: Any,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 1.0,
    axis: int = -2,
) -> Any:  # noqa: N803
    """alpha A B + beta C."""
    if axis != -2:
        A, B, C = (jnp.moveaxis(x, axis, -2) for x in (A, B, C))  # noqa: N806
    out = (
        fitted(alpha, A.dtype) * (_t(A, transpose_a) @ _t(B, transpose_b))
        + fitted(beta, A.dtype) * C
    )
    return jnp.moveaxis(out, -2, axis) if axis != -2 else out


@_la(
    "gemm2",
    case(f(2, 3, 4), f(2, 4, 2), alpha=2.0),
    case(f(4, 3), f(4, 2), transpose_a=True),
    amp="low",
    numbers=("alpha",),
    onnx="batch_dot",
)
def gemm2(
    A: Any,
    B: Any,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    axis: int = -2,
) -> Any:  # noqa: N803
    """alpha A B."""
    if axis != -2:
        A, B = (jnp.moveaxis(x, axis, -2) for x in (A, B))  # noqa: N806
    out = fitted(alpha, A.dtype) * (_t(A, transpose_a) @ _t(B, transpose_b))
    return jnp.moveaxis(out, -2, axis) if axis != -2 else out


@_la("potrf", case(_SQUARE), amp="full")
def potrf(A: Any, *, lower: bool = True) -> Any:  # noqa: N803
    """The Cholesky factor L with A = L L^T."""
    return _factored(A, not lower, "linalg.potrf")


@_la("potri", case(Given([[2.0, 0], [0.5, 1.5]])), amp="full")
def potri(A: Any, *, lower: bool = True) -> Any:  # noqa: N803
    """The inverse of the matrix whose Cholesky factor is A."""
    triangle = _triangle(A, lower)
    inverse = _pivoted(triangle, jnp.linalg.inv(triangle), "linalg.potri: potri failed")
    return _t(inverse, True) @ inverse if lower else inverse @ _t(inverse, True)


@_la(
    "trsm",
    case(_SQUARE, f(3, 2)),
    case(_SQUARE, f(2, 3), rightside=True),
    amp="full",
    numbers=("alpha",),
)
def trsm(
    A: Any,
    B: Any,
    *,
    transpose: bool = False,
    rightside: bool = False,
    lower: bool = True,
    alpha: float = 1.0,
) -> Any:  # noqa: N803
    """alpha A^-1 B for a triangular A (``rightside``: alpha B A^-1)."""
    kind, B = A.dtype, fitted(alpha, A.dtype) * B  # noqa: N806
    if kind.itemsize == 2:  # which GPUs' library does not solve
        A, B = A.astype("float32"), B.astype("float32")  # noqa: N806
    return lax.linalg.triangular_solve(
        A, B, left_side=not rightside, lower=lower, transpose_a=transpose
    ).astype(kind)


@_la("trmm", case(_SQUARE, f(3, 2)), amp="full", numbers=("alpha",))
def trmm(
    A: Any,
    B: Any,
    *,
    transpose: bool = False,
    rightside: bool = False,
    lower: bool = True,
    alpha: float = 1.0,
) -> Any:  # noqa: N803
    """alpha A B for a triangular A (``rightside``: alpha B A)."""
    T = _t(_triangle(A, lower), transpose)  # noqa: N806
    return fitted(alpha, A.dtype) * (B @ T if rightside else T @ B)


@_la(
    "syrk",
    case(f(3, 4), alpha=2.0),
    case(f(3, 4), transpose=True),
    amp="full",
    numbers=("alpha",),
    onnx="syrk",
)
def syrk(A: Any, *, transpose: bool = False, alpha: float = 1.0) -> Any:  # noqa: N803
    """alpha A A^T, or alpha A^T A."""
    return fitted(alpha, A.dtype) * (_t(A, transpose) @ _t(A, not transpose))


@_la("sumlogdiag", case(_SQUARE), amp="full")
def sumlogdiag(A: Any) -> Any:  # noqa: N803
    """The sum of the logarithms of the diagonal."""
    out = jnp.log(jnp.diagonal(A, 0, -2, -1)).sum(-1)
    return out.reshape(1) if out.ndim == 0 else out


@_la("extractdiag", case(f(2, 3, 3)), case(f(3, 3), offset=1), amp="full", onnx=("diag", (-2, -1)))
def extractdiag(A: Any, *, offset: int = 0) -> Any:  # noqa: N803
    """The diagonals of matrices."""
    return jnp.diagonal(A, offset, -2, -1)


@_la("makediag", case(f(2, 3)), case(f(3), offset=1), amp="full")
def makediag(A: Any, *, offset: int = 0) -> Any:  # noqa: N803
    """Matrices with these diagonals."""
    n = A.shape[-1]
    at = np.arange(n)
    out = jnp.zeros((*A.shape[:-1], n + abs(offset), n + abs(offset)), A.dtype)
    return out.at[..., at + max(-offset, 0), at + max(offset, 0)].set(A)


def _triangle_at(n: int, offset: int, lower: bool) -> tuple[np.ndarray, np.ndarray]:
    if offset > 0 or (offset == 0 and not lower):  # column by column
        columns, rows = np.tril_indices(n, -offset)
        return rows, columns
    return np.tril_indices(n, offset)


@_la(
    "extracttrian",
    case(f(2, 3, 3)),
    case(f(4, 4), offset=1),
    case(f(3, 3), lower=False),
    amp="full",
)
def extracttrian(A: Any, *, offset: int = 0, lower: bool = True) -> Any:  # noqa: N803
    """The elements of a triangle in one row."""
    rows, columns = _triangle_at(A.shape[-1], offset, lower)
    return A[..., rows, columns]


@_la("maketrian", case(f(2, 6)), case(f(6), offset=1), case(f(6), lower=False), amp="full")
def maketrian(A: Any, *, offset: int = 0, lower: bool = True) -> Any:  # noqa: N803
    """Matrices with these triangles."""
    m = A.shape[-1]
    n = int((np.sqrt(8 * m + 1) - 1) / 2) + abs(offset)
    rows, columns = _triangle_at(n, offset, lower)
    return jnp.zeros((*A.shape[:-1], n, n), A.dtype).at[..., rows, columns].set(A)


@_la("gelqf", case(f(3, 4)), outputs=2, amp="full", **_FLAT)
def gelqf(A: Any) -> Any:  # noqa: N803
    """(Q, L) with A = L Q, the rows of Q orthonormal."""
    q, r = _numbers(jnp.linalg.qr, "linalg.gelqf", finite=True)(_t(A, True))
    return _t(q, True), _t(r, True)


@_la("syevd", case(_SQUARE), outputs=2, amp="full", **_FLAT)
def syevd(A: Any) -> Any:  # noqa: N803
    """(U, L) with A = U^T diag(L) U for symmetric A; the largest element of each vector is positive."""
    values, vectors = _numbers(jnp.linalg.eigh, "linalg.syevd", finite=True)(_of_triangle(A, False))
    return _t(_signed(vectors), True), values


@_la("inverse", case(_SQUARE), amp="full")
def inverse(A: Any) -> Any:  # noqa: N803
    """Inverses of matrices."""
    return _inverse(A, "linalg.inverse")


@_la("det", case(_SQUARE), amp="full", onnx="det", results=("output0",))
def det(A: Any) -> Any:  # noqa: N803
    """Determinants."""
    out = _det(A)
    return out.reshape(1) if out.ndim == 0 else out


@_la("slogdet", case(_SQUARE), outputs=2, amp="full")
def slogdet(A: Any) -> Any:  # noqa: N803
    """Sign and logarithm of determinants."""
    sign, log = _numbers(jnp.linalg.slogdet, "linalg.slogdet")(A)
    return (sign.reshape(1), log.reshape(1)) if sign.ndim == 0 else (sign, log)


@op(nd="khatri_rao", samples=[case(f(2, 3), f(4, 3))], amp="full")
def khatri_rao(*args: Any) -> Any:
    """The column-wise Kronecker product."""
    out = args[0]
    for x in args[1:]:
        out = (out[:, None] * x[None]).reshape(-1, out.shape[1])
    return out
