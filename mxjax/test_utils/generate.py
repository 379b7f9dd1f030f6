"""Random arrays and shapes, and NumPy's reductions as tests of operators need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import MXNetAssertionError, MXNetValueError


def default_dtype() -> type:
    """The dtype of arrays that tests make: float32."""
    return np.float32


def random_arrays(*shapes: tuple[int, ...]) -> Any:
    """float32 NumPy arrays from the normal distribution: one, or a list of several."""
    arrays: list[Any] = [np.asarray(np.random.randn(*shape), default_dtype()) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(
    *shapes: tuple[int, ...], low: float = 0.0, high: float = 1.0, dtype: Any = np.float32
) -> list[np.ndarray]:
    """A list of NumPy arrays from the uniform distribution."""
    return [np.random.uniform(low, high, size=shape).astype(dtype) for shape in shapes]


def random_sample(population: Sequence[Any], k: int) -> list[Any]:
    """`k` different elements of a sequence, in random order."""
    if not 0 <= k <= len(population):
        raise MXNetValueError(f"k must be in 0 ... {len(population)}, got {k}")
    return [population[position] for position in np.random.permutation(len(population))[:k]]


def rand_ndarray(
    shape: tuple[int, ...],
    stype: str = "default",
    density: float | None = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Any:
    """An `nd` array from the normal distribution; a sparse one as `rand_sparse_ndarray` makes it, whose arguments it
    takes."""
    from .. import nd

    if stype != "default":
        from .sparse import rand_sparse_ndarray

        return rand_sparse_ndarray(shape, stype, density=density, dtype=dtype, **kwargs)[0]
    return nd.array(random_arrays(shape), dtype=dtype or default_dtype(), ctx=kwargs.get("ctx"))


def _lengths(count: int, longest: Sequence[int], allow_zero_size: bool) -> tuple[int, ...]:
    low = 0 if allow_zero_size else 1
    return tuple(int(np.random.randint(low, longest[axis] + 1)) for axis in range(count))


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape of two axes, each of length 1 (or 0) to the given one."""
    return _lengths(2, (dim0, dim1), allow_zero_size)


def rand_shape_3d(
    dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False
) -> tuple[int, ...]:
    """A random shape of three axes."""
    return _lengths(3, (dim0, dim1, dim2), allow_zero_size)


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape of `num_dim` axes."""
    return _lengths(num_dim, (dim,) * num_dim, allow_zero_size)


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[Any, Any]:
    """Two random int64 coordinates."""
    x = np.random.randint(x_low, x_high, dtype=np.int64)
    return x, np.random.randint(y_low, y_high, dtype=np.int64)


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> Any:
    """An `nd` array whose rows count up: row i is full of i."""
    from .. import nd

    return nd.array(np.repeat(np.arange(rows)[:, None], columns, axis=1), dtype=dtype)


def create_vector(size: int, dtype: Any = np.int64) -> Any:
    """An `nd` array of 0, 1, ..., size - 1."""
    from .. import nd

    return nd.array(np.arange(size), dtype=dtype)


def np_reduce(
    dat: np.ndarray, axis: Any, keepdims: bool, numpy_reduce_func: Callable[..., np.ndarray]
) -> np.ndarray:
    """Reduce axis after axis with a NumPy function such as `np.sum`."""
    axes = range(dat.ndim) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    axes = sorted(number % dat.ndim for number in axes)
    out = dat
    for number in reversed(axes):
        out = numpy_reduce_func(out, axis=number)
    if keepdims:
        out = np.expand_dims(out, tuple(axes))
    return out


def collapse_sum_like(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum `a` over the axes along which `shape` was broadcast to it."""
    front = a.ndim - len(shape)
    if front < 0 or any(
        want not in (1, have) for want, have in zip(shape, a.shape[front:], strict=True)
    ):
        raise MXNetValueError(f"{shape} does not broadcast to {a.shape}")
    kept = tuple(
        front + axis
        for axis, (want, have) in enumerate(zip(shape, a.shape[front:], strict=True))
        if want != have
    )
    return np.sum(a, axis=(*range(front), *kept), keepdims=True).reshape(shape)


def create_2d_np_tensor(rows: int, columns: int, dtype: Any = np.int64) -> Any:
    """An `np` array whose rows count up: row i is full of i."""
    from .. import np as mxnp

    return mxnp.array(np.repeat(np.arange(rows)[:, None], columns, axis=1), dtype=dtype)


def get_identity_mat(size: int) -> Any:
    """The identity matrix, as an `nd` array."""
    from .. import nd

    return nd.array(np.eye(size))


def get_identity_mat_batch(size: int) -> Any:
    """Two identity matrices, as an `nd` array of three axes."""
    from .. import nd

    return nd.array(np.stack([np.eye(size)] * 2))


def assign_each(the_input: np.ndarray, function: Callable[[Any], Any] | None) -> np.ndarray:
    """A function of each element, in float64; a copy if it is None."""
    if function is None:
        return np.array(the_input)
    return np.vectorize(function, otypes=[np.float64])(the_input)


def assign_each2(
    input1: np.ndarray, input2: np.ndarray, function: Callable[[Any, Any], Any] | None
) -> np.ndarray:
    """A function of each pair of elements, in float64; a copy of the first array if it is None."""
    if function is None:
        return np.array(input1)
    if input1.shape != input2.shape:
        raise MXNetAssertionError(f"shapes differ: {input1.shape} and {input2.shape}")
    return np.vectorize(function, otypes=[np.float64])(input1, input2)


def _batch(make: Callable[[int], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Matrices on the last two axes of a shape."""
    count = int(np.prod(shape[:-2]))
    return np.array([make(shape[-1]) for _ in range(count)]).reshape(shape)


def new_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A random n x n matrix with real eigenvalues of -10 to 10 and well-conditioned eigenvectors."""
    while True:
        v = np.random.uniform(-1.0, 1.0, (n, 1))
        v /= np.linalg.norm(v)
        reflection = np.eye(n) - 2 * v @ v.T
        q = reflection * np.random.uniform(-1.0, 1.0, n)
        if np.linalg.cond(q, 2) < 3:
            return np.linalg.inv(q) @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ q


def new_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """Random matrices with real eigenvalues on the last two axes of a shape."""
    return _batch(new_matrix_with_real_eigvals_2d, shape)


def new_orthonormal_matrix_2d(n: int) -> np.ndarray:
    """A random orthonormal n x n matrix."""
    x = np.random.randn(n, n)
    return np.linalg.qr(x.T @ x)[0]


def new_sym_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A random symmetric n x n matrix with eigenvalues of -10 to 10."""
    q = new_orthonormal_matrix_2d(n)
    return q.T @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ q


def new_sym_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """Random symmetric matrices on the last two axes of a shape."""
    return _batch(new_sym_matrix_with_real_eigvals_2d, shape)
