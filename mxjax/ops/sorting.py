"""Sorting: sort, argsort, topk, partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core import compiler
from .samples import case, f, i
from .table import op

_FLAT = dict(smooth=False)


def _flat(a: Any, axis: int | None) -> tuple[Any, int]:
    return (a.reshape(-1), 0) if axis is None else (a, axis)


def in_order(x: Any, axis: int, descending: bool) -> Any:
    """The stable order that sorts along an axis.

    XLA:CPU sorts whole numbers by themselves five times as fast as pairs of a number and its place: of numbers of up to
    32 bits each is made one of 64, with the place below (64 rows of 10,000: 26 ms for 122).
    """
    kind = x.dtype
    if (
        compiler.platform_now() != "cpu"
        or kind.itemsize > 4
        or jnp.issubdtype(kind, jnp.complexfloating)
    ):
        return jnp.argsort(x, axis, stable=True, descending=descending)
    if jnp.issubdtype(kind, jnp.floating):
        x = x.astype("float32")
        x = jnp.where(jnp.isnan(x), np.float32(np.nan), jnp.where(x == 0, np.float32(0), x))
        bits = lax.bitcast_convert_type(x, np.dtype("int32"))
        x = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
    key = x.astype("int64")
    if kind == np.uint32:
        key = key - (1 << 31)
    if descending:
        key = ~key
    axis = axis % x.ndim
    places = lax.broadcasted_iota(np.dtype("int64"), x.shape, axis)
    return lax.sort((key << 32) | places, dimension=axis, is_stable=False) & 0xFFFFFFFF


_SORT = [case(f(3, 4)), case(f(3, 4), axis=0), case(f(3, 4), axis=None), case(i(3, 4), axis=1)]


@op(
    np="sort",
    samples=_SORT,
    ref=np.sort,
    internal="sort",
    methods="np",
    written="sort",
    onnx="sort",
)
def sort(
    a: Any,
    *,
    axis: int | None = -1,
    descending: bool = False,
    stable: bool = True,
    kind: Any = None,
    order: Any = None,
) -> Any:
    """Sorted along an axis (flat with None)."""
    return jnp.sort(*_flat(a, axis), stable=stable, descending=descending)


@op(
    np="argsort",
    samples=_SORT,
    internal="argsort",
    amp="full",
    methods="np",
    **_FLAT,
    written="argsort",
    dtype="attribute",
    onnx="argsort",
)
def argsort(
    a: Any,
    *,
    axis: int | None = -1,
    descending: bool = False,
    stable: bool = True,
    kind: Any = None,
    order: Any = None,
) -> Any:
    """The order that sorts along an axis (flat with None), int64."""
    return in_order(*_flat(a, axis), descending).astype("int64")


@op(
    "sort@nd",
    nd="sort",
    samples=[*_SORT[:3], case(f(3, 4), is_ascend=False)],
    methods="nd",
    onnx="sort",
    results=("output0",),
)
def sort_nd(data: Any, *, axis: int | None = -1, is_ascend: bool = True) -> Any:
    """Sorted along an axis (flat with None)."""
    return jnp.sort(*_flat(data, axis), descending=not is_ascend)


@op(
    "argsort@nd",
    nd="argsort",
    samples=[*_SORT[:3], case(f(3, 4), is_ascend=False)],
    amp="full",
    methods="nd",
    **_FLAT,
    dtype="attribute",
    onnx="argsort",
)
def argsort_nd(
    data: Any, *, axis: int | None = -1, is_ascend: bool = True, dtype: Any = "float32"
) -> Any:
    """The order that sorts along an axis (flat with None)."""
    return in_order(*_flat(data, axis), not is_ascend).astype(dtype)


@op(np="msort", samples=[case(f(3, 4))], internal=None, onnx=("sort", 0))
def msort(a: Any) -> Any:
    """Sorted along axis 0."""
    return jnp.sort(a, 0)


def _parts(a: Any, kth: Any) -> bool:
    """Whether JAX puts elements at both sides of the k-th, by `top_k`: that has NaN first or last by its sign."""
    return isinstance(kth, int) and bool(a.size) and jnp.issubdtype(a.dtype, jnp.integer)


@op(np="partition", samples=[case(f(5), kth=2), case(f(5), kth=(1, 3))], internal=None)
def partition(
    a: Any, *, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None
) -> Any:
    """The kth element in its sorted place, smaller ones before, larger ones after."""
    return jnp.partition(a, kth, axis) if _parts(a, kth) else jnp.sort(a, axis)


@op(np="argpartition", samples=[case(f(5), kth=2)], internal=None, **_FLAT)
def argpartition(
    a: Any, *, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None
) -> Any:
    """The order that partition puts elements in."""
    order = jnp.argpartition(a, kth, axis) if _parts(a, kth) else jnp.argsort(a, axis)
    return order.astype("int64")


@op(
    np="lexsort",
    samples=[case(f(4), f(4))],
    ref=lambda *keys: np.lexsort(keys),
    internal=None,
    **_FLAT,
)
def lexsort(*keys: Any, axis: int = -1) -> Any:
    """The order that sorts by several keys, the last one first."""
    return jnp.lexsort(keys, axis).astype("int64")


def _largest(x: Any, k: int, is_ascend: bool) -> tuple[Any, Any]:
    """The k first elements of each row in order, and where they are.

    NaN is the largest and zeros are equal, whatever their signs: programs' `top_k` looks at them.
    """
    if jnp.issubdtype(x.dtype, jnp.floating):
        if is_ascend:
            at = in_order(x, -1, False)[..., :k]
        else:
            key = jnp.where(
                jnp.isnan(x),
                np.asarray(np.nan, x.dtype),
                jnp.where(x == 0, np.asarray(0, x.dtype), x),
            )
            at = lax.top_k(lax.stop_gradient(key), k)[1]
        return jnp.take_along_axis(x, at, -1), at
    if not is_ascend and x.dtype != bool:
        return lax.top_k(x, k)
    at = jnp.argsort(x, -1, descending=not is_ascend)[..., :k]
    return jnp.take_along_axis(x, at, -1), at


def _topk_types(attrs: dict[str, Any], ins: Sequence[Any]) -> tuple[Any, ...]:
    """Values have the data's dtype, places their own."""
    places = attrs.get("dtype") or "float32"
    own = next(iter(ins), None)
    return {"both": (own, places), "indices": (places,)}.get(attrs["ret_typ"], (own,))


_TOPK = [case(f(3, 4), k=2, ret_typ=t) for t in ("indices", "value", "mask", "both")]


@op(
    npx="topk",
    nd="topk",
    display="topk",
    samples=[*_TOPK, case(f(3, 4), axis=0, is_ascend=True), case(f(3, 4), axis=None, k=3)],
    amp="full",
    outputs=lambda attrs, n: 2 if attrs["ret_typ"] == "both" else 1,
    methods="nd np",
    typed=(),
    dtype=_topk_types,
    lengths={"k": int},
    onnx="topk",
    results=lambda attrs: ("output0",) if attrs.get("ret_typ") == "value" else (),
)
def topk(
    data: Any,
    *,
    axis: int | None = -1,
    k: int = 1,
    ret_typ: str = "indices",
    is_ascend: bool = False,
    dtype: Any = "float32",
) -> Any:
    """The k largest (``is_ascend``: smallest) elements along an axis: ``value``, ``indices``, ``both``, or a
    ``mask`` of ones where they are. k below 1 means all."""
    if ret_typ not in ("indices", "value", "mask", "both"):
        raise ValueError(f"unknown ret_typ {ret_typ}: value, indices, mask and both exist")
    x, axis = _flat(data, axis)
    size = x.shape[axis]
    k = size if k < 1 else k
    if k > size:
        raise ValueError(f"k must be smaller than {size}, get k = {k}")
    values, at = _largest(jnp.moveaxis(x, axis, -1), k, is_ascend)
    if ret_typ == "mask":
        hot = (at[..., None] == jnp.arange(size, dtype=at.dtype)).any(-2)
        return jnp.moveaxis(hot, -1, axis).reshape(data.shape).astype(data.dtype)
    values, at = jnp.moveaxis(values, -1, axis), jnp.moveaxis(at, -1, axis).astype(dtype)
    return {"value": values, "indices": at, "both": (values, at)}[ret_typ]
