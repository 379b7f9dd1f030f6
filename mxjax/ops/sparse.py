"""Operators that are about storage types: what they compute of dense arrays. On sparse ones `array/sparse` has their forms."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from .optimizer import beside, of_mxnet1, rooted, within
from .samples import Given, case, f
from .table import op

_STYPES = ("default", "row_sparse", "csr")


@op(nd="cast_storage", samples=[case(f(3, 4), stype="default"), case(f(3), stype="row_sparse")])
def cast_storage(data: Any, *, stype: str) -> Any:
    """The array in a storage type: ``default`` (dense), ``row_sparse`` or ``csr``; the numbers stay."""
    if stype not in _STYPES:
        raise ValueError(
            f"Invalid Input: {stype!r}, valid values are: {', '.join(map(repr, _STYPES))}"
        )
    return jnp.copy(data)


@op(
    "_sparse_retain",
    internal="_sparse_retain",
    samples=[case(f(4, 3), Given([0.0, 2.0])), case(f(4), Given([3.0, 9.0]))],
)
def sparse_retain(data: Any, indices: Any) -> Any:
    """The rows with the numbers in ``indices`` (k,); all other rows of ``data`` (n, ...) become zero."""
    at = indices.reshape(-1).astype("int64")
    kept = (
        jnp.zeros(data.shape[0], bool)
        .at[jnp.where(at < 0, data.shape[0], at)]
        .set(True, mode="drop")
    )
    return jnp.where(kept.reshape(-1, *[1] * (data.ndim - 1)), data, jnp.zeros((), data.dtype))


@op(
    "_square_sum",
    internal="_square_sum",
    amp="full",
    samples=[case(f(3, 4), axis=1), case(f(3, 4), axis=0)],
)
def square_sum(
    data: Any, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Any:
    """The sum of squares over axes."""
    out = jnp.sum(jnp.square(data), axis=axis, keepdims=keepdims)
    return out.reshape(1) if out.ndim == 0 else out


@op(
    nd_contrib="getnnz",
    samples=[case(f(3, 4)), case(f(3, 4), axis=1)],
    differentiable=False,
    dtype="int64",
)
def getnnz(data: Any, *, axis: int | None = None) -> Any:
    """How many elements of a matrix are stored: all, (1,), or of each row (axis 1), int64."""
    if axis not in (None, 1, -1):
        raise NotImplementedError(
            f"getnnz with axis = {axis} is not supported: None or 1 is expected"
        )
    out = jnp.sum(data != 0, axis=axis, dtype="int64")
    return out.reshape(1) if out.ndim == 0 else out


def _adagrad(divisor: Any) -> Any:
    def sparse_adagrad_update(
        weight: Any, grad: Any, history: Any, *, lr: float, epsilon: float = 1e-7, wd: float = 0.0,
        rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    ) -> Any:  # fmt: skip
        """One step of AdaGrad (http://www.jmlr.org/papers/volume12/duchi11a/duchi11a.pdf); of a row_sparse gradient only its rows.

        The new weight; ``history``, the sum of squared gradients, is updated in place. There is no weight decay.
        """
        if not isinstance(wd, (int, float)) or wd != 0:
            raise ValueError(f"sparse adagrad_update does not support wd: 0 is expected, got {wd}")
        g = within(grad.astype(weight.dtype) * rescale_grad, clip_gradient)
        history = history + jnp.square(g)
        return weight - lr * g / divisor(history, epsilon), history

    return sparse_adagrad_update


op(
    "_sparse_adagrad_update", internal="_sparse_adagrad_update", smooth=False, aux=(2,),
    varying=("lr",), samples=[case(f(3, 4), f(3, 4), f(3, 4, low=0.5), lr=0.1)], older=True,
)(_adagrad(beside))  # fmt: skip
of_mxnet1("sparse_adagrad", [f(3, 4, low=0.5)])(_adagrad(rooted))
