"""Reductions, running sums and statistics."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core import compiler
from ..core.interpret.direct import Direct, Rules
from .elementwise import absolute, divided, floating
from .numbers import cast_like_c
from .parts import no_gradient
from .samples import Given, case, f, i
from .table import op

_FLAT = dict(smooth=False)


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes meant by ``axis``: None (all), a number, or several."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    for a in given:
        if not -max(ndim, 1) <= a < max(ndim, 1):  # a scalar has, as in NumPy, the axes 0 and -1
            raise ValueError(
                f"Reduction axis {a} Exceeds input dimensions: axes {-ndim} ... {ndim - 1} are there"
            )
    return tuple(a % ndim for a in given) if ndim else ()


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def _extreme(x: Any, which: str, axes: tuple[int, ...], keepdims: bool) -> Any:
    return getattr(jnp, which)(x, axis=axes, keepdims=keepdims)


@_extreme.defjvp
def _extreme_jvp(which: str, axes: Any, keepdims: bool, primals: Any, tangents: Any) -> Any:
    # Every element that is equal to the extreme one has the whole gradient, as in MXNet.
    (x,), (dx,) = primals, tangents
    out = _extreme(x, which, axes, True)
    d = jnp.where(x == out, dx, jnp.zeros_like(dx)).sum(axes, keepdims=keepdims)
    return (out if keepdims else out.squeeze(axes)), d


def extreme(x: Any, which: str, axis: Any, keepdims: bool) -> Any:
    axes = axes_of(axis, x.ndim)
    if any(x.shape[a] == 0 for a in axes):
        raise ValueError(
            f"zero-size array of shape {list(x.shape)} has no {which} along axis {axis}"
        )
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return getattr(jnp, which)(x, axis=axes, keepdims=keepdims)
    return _extreme(x, which, axes, keepdims)


def _within(given: Any, dtype: Any) -> Any:
    """In what numbers are added up or multiplied: floats of 16 bits in float32, those of a whole result in float64."""
    if not jnp.issubdtype(given, jnp.floating) or np.dtype(dtype).kind == "b":
        return dtype
    if np.dtype(dtype).kind in "iu":  # MXNet cuts the result off, where NumPy cuts each number
        return np.dtype("float64")
    wide = jnp.promote_types(given, dtype)
    return np.dtype("float32") if wide.itemsize == 2 else wide


def _total(fn: Callable[..., Any]) -> Callable[..., Any]:
    """sum and prod: the dtype stays (bool counts in int64); what is to be a narrower float is rounded once, at the end."""

    def total(x: Any, axis: Any, keepdims: bool, dtype: Any = None) -> Any:
        dtype = np.dtype(dtype or ("int64" if x.dtype == bool else x.dtype))
        inside = _within(x.dtype, dtype)
        made = fn(x, axis=axes_of(axis, x.ndim), keepdims=keepdims, dtype=inside)
        return cast_like_c(made, dtype)

    return total


_sum, _prod = _total(jnp.sum), _total(jnp.prod)


def mean(x: Any, axis: Any, keepdims: bool, dtype: Any = None) -> Any:
    """float32 whatever the array is, unless told otherwise; MXNet 1's keeps floats as they are."""
    dtype = np.dtype(dtype or "float32")
    if dtype.kind in "iu":  # the sum, too, is in this dtype, and wraps there
        axes = axes_of(axis, x.ndim)
        total = _sum(x, axis, keepdims, dtype).astype("float64")
        return (total / max(int(np.prod([x.shape[a] for a in axes])), 1)).astype(dtype)
    return (
        x.astype(_within(x.dtype, dtype))
        .mean(axes_of(axis, x.ndim), keepdims=keepdims)
        .astype(dtype)
    )


def _mean_nd(x: Any, axis: Any, keepdims: bool) -> Any:
    axes = axes_of(axis, x.ndim)
    if jnp.issubdtype(x.dtype, jnp.floating):
        return x.mean(axes, keepdims=keepdims)
    return x.astype("float64").mean(
        axes, keepdims=keepdims
    )  # float32 holds not all of these integers


_CASES = [
    case(f(3, 4)),
    case(f(2, 3, 4), axis=-1, keepdims=True),
    case(f(2, 3, 4), axis=(0, 2)),
]


def reduction(
    name: str,
    fn: Callable[..., Any],
    *,
    names: Any = None,
    typed: bool = False,
    begins: tuple[int, Callable[..., Any]] | None = None,
    **row: Any,
) -> None:
    """The np form of ``fn(x, axis, keepdims[, dtype])``; ``begins``: what left out numbers count as, and how the first joins."""
    names = names or name
    row["order"] = "a axis dtype out keepdims initial where" if typed else "a axis out keepdims"
    row = {
        "samples": _CASES,
        "ref": getattr(np, name, None),
        "doc": f"{name} over all elements or along axes.",
        **row,
    }
    if typed:

        @op(name, np=names, **row)
        def typed_reduction(
            a: Any,
            *,
            axis: Any = None,
            dtype: Any = None,
            keepdims: Any = False,
            initial: Any = None,
            where: Any = None,
        ) -> Any:
            if where is None and initial is None:
                return fn(a, axis, bool(keepdims), dtype)
            if begins is None:
                raise ValueError(
                    f"{name} supports neither where= nor initial=; mask the array first"
                )
            if where is not None:
                a = jnp.where(jnp.asarray(where, bool), a, np.asarray(begins[0], a.dtype))
            out = fn(a, axis, bool(keepdims), dtype)
            return out if initial is None else begins[1](out, jnp.asarray(initial, out.dtype))

        return

    @op(name, np=names, **row)
    def plain_reduction(a: Any, *, axis: Any = None, keepdims: Any = False) -> Any:
        return fn(a, axis, bool(keepdims))


def legacy_reduction(name: str, fn: Callable[..., Any], *, names: Any = None, **row: Any) -> None:
    """The nd form: ``exclude`` reduces over all other axes, a complete reduction has shape (1,).

    The dtype stays, that of bool arrays too: their sum tells whether any element is true.
    """

    doc = f"{name} along axes (``exclude``: along all others); of everything it has shape (1,)."

    @op(
        name + "@nd",
        nd=names or name,
        samples=[*_CASES, case(f(2, 3, 4), axis=1, exclude=True)],
        doc=doc,
        **row,
    )
    def reduction_nd(
        data: Any, *, axis: Any = None, keepdims: bool = False, exclude: bool = False
    ) -> Any:
        axis = None if axis == () else axis
        if exclude and axis is not None:  # without axes there is nothing to leave out
            kept = axes_of(axis, data.ndim)
            axis = tuple(a for a in range(data.ndim) if a not in kept)
        out = fn(data, axis, bool(keepdims)).astype(data.dtype)
        return out.reshape(1) if out.ndim == 0 else out


def _max(x: Any, axis: Any, keepdims: bool) -> Any:
    return extreme(x, "max", axis, keepdims)


def _min(x: Any, axis: Any, keepdims: bool) -> Any:
    return extreme(x, "min", axis, keepdims)


reduction(
    "sum", _sum, typed=True, amp="full", methods="np", onnx=("reduced", "ReduceSum"), sums="axes"
)
reduction(
    "prod",
    _prod,
    names=("prod", "product"),
    typed=True,
    amp="full",
    methods="np",
    onnx=("reduced", "ReduceProd"),
    sums="axes",
)
reduction(
    "mean",
    mean,
    typed=True,
    amp="full",
    methods="np",
    wide="float64",
    keeps_floats=True,
    onnx=("reduced", "ReduceMean"),
    sums="axes",
)
reduction("max", _max, names=("max", "amax"), methods="np", onnx=("reduced", "ReduceMax"))
reduction("min", _min, names=("min", "amin"), methods="np", onnx=("reduced", "ReduceMin"))
reduction(
    "any",
    lambda x, axis, k: (x != 0).any(axes_of(axis, x.ndim), keepdims=k),
    names=("any", "sometrue"),
    methods="np",
    **_FLAT,
    onnx=("any_all", "ReduceMax"),
)
reduction(
    "all",
    lambda x, axis, k: (x != 0).all(axes_of(axis, x.ndim), keepdims=k),
    names=("all", "alltrue"),
    methods="np",
    **_FLAT,
    onnx=("any_all", "ReduceMin"),
)
reduction(
    "ptp",
    lambda x, axis, k: _max(x, axis, k) - _min(x, axis, k),
    ref=np.ptp,
    internal=None,
    methods="np",
    onnx="ptp",
)


def _nan_extreme(which: str) -> Callable[..., Any]:
    def extreme_number(
        a: Any, *, axis: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None
    ) -> Any:
        axes, seek = axes_of(axis, a.ndim), getattr(jnp, f"nan{which}")
        if initial is None:
            if where is not None and where is not True:
                raise ValueError(f"nan{which} of no numbers is nothing: where= needs initial=")
            return seek(a, axes, keepdims=bool(keepdims))
        first = jnp.asarray(initial).astype(a.dtype)
        if where is not None:
            a = jnp.where(jnp.asarray(where, bool), a, first)
        if any(a.shape[d] == 0 for d in axes):
            return jnp.broadcast_to(first, a.sum(axes, keepdims=bool(keepdims)).shape)
        return getattr(jnp, f"f{which}")(seek(a, axes, keepdims=bool(keepdims)), first)

    return extreme_number


for _which in ("max", "min"):
    op(
        f"nan{_which}",
        np=f"nan{_which}",
        samples=[*_CASES, case(f(3, 4), axis=1, initial=0.5)],
        ref=getattr(np, f"nan{_which}"),
        doc=f"nan{_which} over all elements or along axes.",
        internal=None,
        order="a axis out keepdims initial where",
        **_FLAT,
    )(_nan_extreme(_which))
legacy_reduction(
    "sum",
    _sum,
    names=("sum", "sum_axis"),
    amp="full",
    sums="axes",
    methods="nd",
    onnx=("reduced", "ReduceSum"),
)
legacy_reduction(
    "prod", _prod, amp="full", sums="axes", methods="nd", onnx=("reduced", "ReduceProd")
)
legacy_reduction(
    "mean", _mean_nd, amp="full", sums="axes", methods="nd", onnx=("reduced", "ReduceMean")
)
legacy_reduction(
    "max", _max, names=("max", "max_axis"), methods="nd", onnx=("reduced", "ReduceMax")
)
legacy_reduction(
    "min", _min, names=("min", "min_axis"), methods="nd", onnx=("reduced", "ReduceMin")
)


def _without_nan(fn: Callable[..., Any], fill: float, numpys: bool = False) -> Callable[..., Any]:
    def total(x: Any, axis: Any, keepdims: bool, dtype: Any = None) -> Any:
        if jnp.issubdtype(x.dtype, jnp.inexact):
            x = jnp.where(jnp.isnan(x), np.asarray(fill, x.dtype), x)
        if (
            numpys
        ):  # which takes each number in the dtype: floats in an integer one are cut off first
            dtype = dtype or _wide(x.dtype)
            x = x.astype(dtype)
        return fn(x, axis, keepdims, dtype)

    return total


def _wide(dtype: np.dtype) -> Any:
    """What NumPy sums a dtype in, and np where it leaves NaNs out: integers in 64 bits."""
    return {"b": "int64", "i": "int64", "u": "uint64"}.get(dtype.kind, dtype)


_nansum, _nanprod = _without_nan(_sum, 0), _without_nan(_prod, 1)
reduction(
    "nansum",
    _without_nan(_sum, 0, numpys=True),
    typed=True,
    internal=None,
    methods="np",
    onnx=("without_nan", "ReduceSum", 0),
    sums="axes",
    begins=(0, jnp.add),
)
reduction(
    "nanprod",
    _without_nan(_prod, 1, numpys=True),
    typed=True,
    internal=None,
    methods="np",
    onnx=("without_nan", "ReduceProd", 1),
    begins=(1, jnp.multiply),
)
legacy_reduction(
    "nansum", _nansum, amp="full", sums="axes", methods="nd", onnx=("without_nan", "ReduceSum", 0)
)
legacy_reduction(
    "nanprod", _nanprod, amp="full", methods="nd", onnx=("without_nan", "ReduceProd", 1)
)


# ----------------------------------------------------------------------------------- statistics


def _spread(fn: Callable[..., Any]) -> Callable[..., Any]:
    def spread(
        a: Any,
        *,
        axis: Any = None,
        dtype: Any = None,
        correction: float = 0,
        keepdims: Any = False,
        ddof: float = 0,
    ) -> Any:
        if a.dtype == bool:
            raise TypeError(
                "std and var are not defined for bool arrays; convert them: x.astype('float32')"
            )
        x = floating(a) if dtype is None else a.astype(dtype)
        axes, less = axes_of(axis, a.ndim), ddof or correction
        out = fn(x, axes, ddof=less, keepdims=bool(keepdims))
        if (
            isinstance(less, (int, float))
            and int(less) == less > 0
            and math.prod(a.shape[d] for d in axes) == int(less)
        ):
            # Divided by nothing, which JAX has no number for: infinite, as in NumPy and MXNet, but of equal numbers.
            out = jnp.where(fn(x, axes, keepdims=bool(keepdims)) > 0, jnp.inf, out)
        return out.astype(dtype or a.dtype)

    return spread


_SPREAD = [*_CASES, case(f(3, 4), axis=1, ddof=1)]
_OUT = "a axis dtype out"
for _name, _fn, _doc in (("std", jnp.std, "Standard deviation."), ("var", jnp.var, "Variance.")):
    op(
        _name, np=_name, samples=_SPREAD, ref=getattr(np, _name), doc=_doc, amp="full", methods="np", order=f"{_OUT} correction keepdims", onnx=_name, sums="axes",
    )(_spread(_fn))  # fmt: skip


def _nan_spread(fn: Callable[..., Any]) -> Callable[..., Any]:
    def spread(
        a: Any,
        *,
        axis: Any = None,
        dtype: Any = None,
        ddof: float = 0,
        keepdims: Any = False,
        where: Any = None,
    ) -> Any:
        x = (
            a
            if dtype is None and jnp.issubdtype(a.dtype, jnp.inexact)
            else a.astype(dtype or "float64")
        )
        if where is not None:  # what is left out counts as NaNs do
            x = jnp.where(jnp.asarray(where, bool), x, jnp.nan)
        return fn(x, axis=axes_of(axis, a.ndim), ddof=ddof, keepdims=bool(keepdims))

    return spread


op(
    "nanstd",
    np="nanstd",
    samples=_SPREAD,
    ref=np.nanstd,
    doc="std without NaNs.",
    internal=None,
    order=f"{_OUT} ddof keepdims",
)(_nan_spread(jnp.nanstd))
op(
    "nanvar",
    np="nanvar",
    samples=_SPREAD,
    ref=np.nanvar,
    doc="var without NaNs.",
    internal=None,
    order=f"{_OUT} ddof keepdims",
)(_nan_spread(jnp.nanvar))


@op(
    "average",
    np="average",
    samples=[case(f(3, 4)), case(f(3, 4), f(4, low=0.5), axis=1)],
    outputs=lambda attrs, n: 2 if attrs["returned"] else 1,
    amp="full",
    order="a axis weights returned out",
    written="average",
    onnx="average",
)
def average(a: Any, weights: Any = None, *, axis: Any = None, returned: bool = False) -> Any:
    """The mean, weighted if ``weights`` are given; ``returned`` adds the sum of weights.

    That of integers is an integer, cut off towards zero.
    """
    whole = not jnp.issubdtype(a.dtype, jnp.inexact)
    if weights is None:
        axes = axes_of(axis, a.ndim)
        out = a.sum(axes, dtype=a.dtype) if whole else a.mean(axes, dtype=a.dtype)
        count = jnp.full_like(out, np.prod([a.shape[d] for d in axes]))
        out = divided(out, count) if whole else out
        return (out, count) if returned else out
    given = weights
    if weights.shape != a.shape:
        weights = jnp.moveaxis(weights.reshape((1,) * (a.ndim - 1) + weights.shape), -1, axis)
    weights = jnp.broadcast_to(weights, a.shape)
    narrow = {"dtype": a.dtype} if whole and weights.dtype == a.dtype else {}
    total = weights.sum(axes_of(axis, a.ndim), **narrow)
    out = (a * weights).sum(axes_of(axis, a.ndim), **narrow)
    out = divided(out, total) if narrow else out / total
    return (out, total if given.shape == a.shape else given.sum()) if returned else out


def _quantile(a: Any, q: Any, axis: Any, keepdims: Any, method: str, nan: bool) -> Any:
    x = a if a.dtype == np.float64 else a.astype("float32")
    fn = jnp.nanquantile if nan else jnp.quantile
    q = jnp.asarray(q, x.dtype)
    axes = axes_of(axis, x.ndim)
    if any(isinstance(x.shape[d], int) and x.shape[d] == 0 for d in axes):
        # As NumPy's median; MXNet reads memory that nobody wrote.
        left = [1 if d in axes else n for d, n in enumerate(x.shape) if keepdims or d not in axes]
        return jnp.full((*q.shape, *left), np.nan, x.dtype)

    def by(rule: str) -> Any:
        return fn(x, q, axis=axis, keepdims=bool(keepdims), method=rule)

    if method != "nearest":
        return by(method).astype(x.dtype)
    # JAX takes the lower of two that are as near; MXNet's operator the upper, NumPy (which MXNet asks where there are
    # NaNs) the one with the even place.
    count = jnp.sum(
        ~jnp.isnan(x) if nan else jnp.ones_like(x, "bool"), axis=axis, keepdims=bool(keepdims)
    )
    place = q.reshape(q.shape + (1,) * count.ndim) * (count - 1).astype(x.dtype)
    below = jnp.floor(place)
    upper = (place - below > 0.5) | ((place - below == 0.5) & ((below % 2 == 1) if nan else True))
    return jnp.where(upper, by("higher"), by("lower")).astype(x.dtype)


_Q = [case(f(3, 4), 0.3), case(f(3, 4), Given([0.25, 0.5]), axis=1)]


def _quantiles(scale: float, nan: bool) -> Callable[..., Any]:
    def quantile(
        a: Any,
        q: Any,
        *,
        axis: Any = None,
        overwrite_input: Any = None,
        interpolation: str | None = None,
        keepdims: Any = False,
        method: str = "linear",
    ) -> Any:
        q = jnp.asarray(q) / scale if scale != 1 else q
        return _quantile(a, q, axis, keepdims, interpolation or method, nan)

    return quantile


for _name, _scale, _samples in (
    ("quantile", 1.0, _Q),
    ("percentile", 100.0, [case(f(3, 4), 30.0), case(f(3, 4), Given([20.0, 50.0]), axis=1)]),
):
    for _nan in (False, True):
        _label = "nan" * _nan + _name
        _internal = "_npi_percentile" if _label == "percentile" else None
        _written = None if _nan else ("percentile", 100 / _scale)
        _read = {"_npi_percentile": "percentile"} if _internal else {}
        _doc = f"{_label} along axes."
        op(
            _label, np=_label, samples=_samples, ref=getattr(np, _label), doc=_doc, internal=_internal, numbers=("q",),
            written=_written, read=_read,
            order=f"a q axis out overwrite_input {'method' if _nan else 'interpolation'} keepdims", **_FLAT,
        )(_quantiles(_scale, _nan))  # fmt: skip


def _medians(nan: bool) -> Callable[..., Any]:
    def median(
        a: Any, *, axis: Any = None, overwrite_input: Any = None, keepdims: Any = False
    ) -> Any:
        return _quantile(a, 0.5, axis, keepdims, "linear", nan)

    return median


for _name, _nan, _internal, _doc in (
    ("median", False, "_npi_percentile", "Median along axes."), ("nanmedian", True, None, "Median without NaNs."),
):  # fmt: skip
    op(
        _name, np=_name, samples=_CASES[:2], ref=getattr(np, _name), doc=_doc, internal=_internal,
        written=None if _nan else ("percentile", None),
        order="a axis out overwrite_input keepdims", **_FLAT,
    )(_medians(_nan))  # fmt: skip


@op(
    nd="moments",
    samples=[case(f(3, 4)), case(f(3, 4), axes=(1,), keepdims=True)],
    amp="full",
    outputs=2,
    onnx="moments",
)
def moments(data: Any, *, axes: Any = None, keepdims: bool = False) -> Any:
    """(mean, variance) along axes; of everything they have shape (1,)."""
    axes = axes_of(axes, data.ndim)
    m = data.mean(axes, keepdims=True)
    v = jnp.square(data - m).mean(axes, keepdims=keepdims)
    return (m if keepdims else m.reshape(v.shape or 1)), v.reshape(v.shape or 1)


@op(np="cov", samples=[case(f(3, 6)), case(f(6), f(6))], ref=np.cov, internal=None)
def cov(
    m: Any, y: Any = None, *, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None, dtype: Any = None,
) -> Any:  # fmt: skip
    """Covariance matrix of the rows."""
    m, y = m.astype("float64"), None if y is None else y.astype("float64")
    out = jnp.cov(m, y, rowvar, bias, ddof, _optional(fweights), _optional(aweights))
    return out.astype(dtype or "float64")


def _optional(values: Any) -> Any:
    return None if values is None else jnp.asarray(values)


@op(np="corrcoef", samples=[case(f(3, 6))], ref=np.corrcoef, internal=None)
def corrcoef(
    x: Any,
    y: Any = None,
    *,
    rowvar: bool = True,
    bias: Any = None,
    ddof: Any = None,
    dtype: Any = None,
) -> Any:
    """Correlation coefficients of the rows."""
    x, y = x.astype("float64"), None if y is None else y.astype("float64")
    return jnp.corrcoef(x, y, rowvar).astype(dtype or "float64")


@op(
    np="correlate",
    samples=[case(f(5), f(3)), case(f(5), f(3), mode="full")],
    ref=np.correlate,
    internal=None,
)
def correlate(a: Any, v: Any, *, mode: str = "valid") -> Any:
    """Cross-correlation of two vectors."""
    if not jnp.issubdtype(jnp.promote_types(a.dtype, v.dtype), jnp.inexact):
        return (
            _convolved(a, v[::-1], mode)
            if len(a) >= len(v) or mode == "full"
            else _convolved(v, a[::-1], mode)[::-1]
        )
    return jnp.correlate(a, v, mode).astype(jnp.promote_types(a.dtype, v.dtype))


@op(np="convolve", samples=[case(f(5), f(3))], ref=np.convolve, internal=None)
def convolve(a: Any, v: Any, *, mode: str = "full") -> Any:
    """Convolution of two vectors."""
    if not jnp.issubdtype(jnp.promote_types(a.dtype, v.dtype), jnp.inexact):
        return _convolved(a, v, mode)
    return jnp.convolve(a, v, mode).astype(jnp.promote_types(a.dtype, v.dtype))


def _convolved(a: Any, v: Any, mode: str) -> Any:
    """Of whole numbers, in whole numbers, which wrap as NumPy's; JAX computes it of floats."""
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode is 'full', 'same' or 'valid', got {mode!r}")
    if not (a.size and v.size):
        raise ValueError("convolve and correlate take arrays that are not empty")
    a, v = (a, v) if len(a) >= len(v) else (v, a)
    dtype = np.dtype(jnp.promote_types(a.dtype, v.dtype))
    n, m = len(a), len(v)
    before = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    count = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
    padded = jnp.pad(a.astype(dtype), (before, m))
    windows = padded[jnp.arange(count)[:, None] + jnp.arange(m)]
    if dtype.kind == "b":
        return (windows & v[::-1].astype(bool)).any(1)
    return (windows * v[::-1].astype(dtype)).sum(1, dtype=dtype)


# ------------------------------------------------------------------------- norms and positions


def norm(x: Any, order: Any, axis: Any, keepdims: bool) -> Any:
    """L1 or L2 norm over axes."""
    axes = axes_of(axis, x.ndim)
    if order == 1:
        return absolute(x).sum(axes, keepdims=keepdims)
    if order == 2:
        return jnp.sqrt(jnp.square(x).sum(axes, keepdims=keepdims))
    raise ValueError(f"norm supports ord=1 and ord=2, got {order}")


_NORM = [case(f(3, 4, low=0.5)), case(f(3, 4, low=0.5), ord=1, axis=1, keepdims=True)]


@op(
    "norm",
    npx="norm",
    nd="norm",
    samples=_NORM,
    amp="full",
    methods="nd np",
    onnx="norm",
    sums="axes",
)
def norm_row(
    data: Any, *, ord: int = 2, axis: Any = None, out_dtype: Any = None, keepdims: bool = False
) -> Any:
    """L1 or L2 norm over axes; of everything it has shape (1,). Of integers it is cut off to one."""
    x = data if jnp.issubdtype(data.dtype, jnp.inexact) else data.astype("float64")
    if x.dtype.itemsize == 2:  # 16 bits have no place for the squares
        x = x.astype("float32")
    out = cast_like_c(norm(x, ord, axis, keepdims), np.dtype(out_dtype or data.dtype))
    return out.reshape(1) if out.ndim == 0 else out


def _position(which: str) -> Callable[..., Any]:
    def position(x: Any, axis: Any, keepdims: bool) -> Any:
        if x.ndim and 0 in [x.shape[a] for a in axes_of(axis, x.ndim)]:
            raise ValueError(f"attempt to get {which} of an empty sequence: shape {list(x.shape)}")
        if jnp.issubdtype(x.dtype, jnp.inexact):  # NaNs are never found
            low = -jnp.inf if which == "argmax" else jnp.inf
            x = jnp.where(jnp.isnan(x), np.asarray(low, x.dtype), x)
        if x.ndim == 0 and axis in (0, -1):
            axis = None
        axes_of(axis, x.ndim)
        if axis is None or isinstance(axis, int):
            return _first(which, x, axis, bool(keepdims)).astype("int64")
        return getattr(jnp, which)(x, axis=axis, keepdims=bool(keepdims)).astype("int64")

    return position


def _first(which: str, x: Any, axis: int | None, keepdims: bool) -> Any:
    """Where the extreme of numbers is first; NaN is one. XLA:CPU does not vectorise a reduction of pairs: 30 ms of
    700 rows of 10,000, and 7 by the extreme itself and the least place where that is."""
    if compiler.platform_now() != "cpu":
        return getattr(jnp, which)(x, axis=axis, keepdims=keepdims)
    flat = x if axis is not None else x.reshape(-1)
    at = 0 if axis is None else axis % x.ndim
    extreme = (jnp.max if which == "argmax" else jnp.min)(flat, at, keepdims=True)
    n = flat.shape[at]
    kind: Any = np.dtype(np.int64 if isinstance(n, int) and n > 1 << 31 else np.int32)
    here = (
        flat == extreme
        if jnp.issubdtype(flat.dtype, jnp.integer)
        else (flat == extreme) | (flat != flat)
    )
    places = jnp.where(here, lax.broadcasted_iota(kind, flat.shape, at), np.iinfo(kind).max)
    found = places.min(at, keepdims=keepdims and axis is not None)
    return found.reshape((1,) * x.ndim) if keepdims and axis is None else found


_ARG = [case(f(3, 4)), case(f(2, 3, 4), axis=-2), case(f(3, 4), axis=1, keepdims=True)]


def _legacy_position(which: str) -> Callable[..., Any]:
    def at(x: Any, axis: Any, keepdims: bool) -> Any:
        if 0 in [x.shape[a] for a in axes_of(axis, x.ndim)]:
            raise ValueError(f"attempt to get {which} of an empty sequence: shape {list(x.shape)}")
        return _first(which, x, axis, bool(keepdims))  # NaN is the extreme, as in NumPy

    def position(data: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        out = _as_numbers(
            at(data, axis, keepdims), data, data.size if axis is None else data.shape[axis]
        )
        return out.reshape(1) if out.ndim == 0 else out

    return position


def _as_numbers(positions: Any, data: Any, n: int) -> Any:
    """Positions below ``n`` in the dtype of the array they are in, where it has numbers so large."""
    if data.dtype == bool:
        raise TypeError(
            "positions are numbers of the array's dtype, which bool has not: x.astype('int32')"
        )
    if jnp.issubdtype(data.dtype, jnp.integer) and n - 1 > jnp.iinfo(data.dtype).max:
        raise TypeError(
            f"positions among {n} elements do not fit the array's dtype {data.dtype}: x.astype('int32')"
        )
    return positions.astype(data.dtype)


for _name, _onnx in (("argmax", ("position", "ArgMax")), ("argmin", ("position", "ArgMin"))):
    reduction(_name, _position(_name), samples=_ARG, methods="np", onnx=_onnx, **_FLAT)
    reduction("nan" + _name, _position(_name), samples=_ARG, internal=None, **_FLAT)
    _doc = f"{_name}, as numbers of the array's dtype."
    op(_name + "@nd", nd=_name, samples=_ARG, doc=_doc, methods="nd", onnx=_onnx, **_FLAT)(
        _legacy_position(_name)
    )


@op(nd="argmax_channel", samples=[case(f(3, 4))], methods="nd np", **_FLAT, onnx="argmax_channel")
def argmax_channel(data: Any) -> Any:
    """argmax along axis 1."""
    return _as_numbers(_first("argmax", data, 1, False), data, data.shape[1])


# --------------------------------------------------------------------------------- running sums


def _running(
    fn: Callable[..., Any], nan: float | None = None, wide: bool = True
) -> Callable[..., Any]:
    def running(a: Any, *, axis: int | None = None, dtype: Any = None) -> Any:
        x = (
            a
            if nan is None or a.dtype.kind != "f"
            else jnp.where(jnp.isnan(a), np.asarray(nan, a.dtype), a)
        )
        dtype = dtype or (_wide(a.dtype) if wide or a.dtype == bool else a.dtype)
        if axis is None or (a.ndim == 0 and axis in (0, -1)):
            return fn(x.reshape(-1), 0, dtype=dtype)
        return fn(x, axis, dtype=dtype)

    return running


_IN_TURN = 4096  # sums of float16 of so many elements are rounded one after the other


def _cumsum(x: Any, axis: int, dtype: Any) -> Any:
    """jnp.cumsum; of float16 each sum is rounded before the next, as MXNet and NumPy have it."""
    if np.dtype(dtype) != np.float16 or not 0 < x.shape[axis] <= _IN_TURN:
        return jnp.cumsum(cast_like_c(x, dtype), axis, dtype=dtype)
    rows = jnp.moveaxis(x.astype(dtype), axis, 0)
    _, sums = jax.lax.scan(
        lambda total, row: (total + row, total + row), jnp.zeros_like(rows[0]), rows
    )
    return jnp.moveaxis(sums, 0, axis)


_RUN = [case(f(3, 4)), case(f(3, 4), axis=-1)]
op(
    "cumsum",
    np="cumsum",
    nd="cumsum",
    samples=_RUN,
    ref=np.cumsum,
    doc="Running sum.",
    amp="full",
    methods="np",
    loops=True,
    onnx="cumsum",
)(_running(_cumsum, wide=False))
op(
    "cumprod",
    np="cumprod",
    samples=_RUN,
    ref=np.cumprod,
    doc="Running product.",
    internal=None,
    methods="np",
)(_running(jnp.cumprod))
op(
    "nancumsum",
    np="nancumsum",
    samples=_RUN,
    ref=np.nancumsum,
    doc="Running sum, NaN as 0.",
    internal=None,
)(_running(jnp.cumsum, 0))
op(
    "nancumprod",
    np="nancumprod",
    samples=_RUN,
    ref=np.nancumprod,
    doc="Running product, NaN as 1.",
    internal=None,
)(_running(jnp.cumprod, 1))


@op(
    np="diff",
    samples=[case(f(3, 4)), case(f(3, 4), n=2, axis=0)],
    ref=np.diff,
    order="a n axis prepend append",
    onnx="diff",
)
def diff(a: Any, prepend: Any = None, append: Any = None, *, n: int = 1, axis: int = -1) -> Any:
    """n-th differences along an axis."""
    return jnp.diff(a, n, axis, prepend, append)


@op(np="ediff1d", samples=[case(f(5)), case(f(5), f(2), f(1))], ref=np.ediff1d, amp="widest")
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of the flattened array, with numbers before and after if given."""
    parts = [x for x in (to_begin, jnp.diff(ary.reshape(-1)), to_end) if x is not None]
    return jnp.concatenate([jnp.asarray(p, ary.dtype).reshape(-1) for p in parts])


@op(
    np="trapz",
    samples=[case(f(5)), case(f(3, 4), f(4))],
    ref=getattr(np, "trapezoid", None),
    internal=None,
    numbers=("dx",),
)
def trapz(y: Any, x: Any = None, *, dx: float = 1.0, axis: int = -1) -> Any:
    """Integral by the trapezoidal rule."""
    return jnp.trapezoid(y, x, dx, axis)


@op("count_nonzero", samples=[case(i(3, 4))], **_FLAT, onnx="count_nonzero")
def count_nonzero(a: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements are not zero."""
    return (a != 0).sum(axes_of(axis, a.ndim), keepdims=keepdims, dtype="int64")


def _interpolated(
    avals: Any, *, left: Any = None, right: Any = None, period: Any = None
) -> Direct | None:
    if any(type(v) is str for v in avals) or period == 0:
        return None
    x, xp, fp = avals
    if len(xp.shape) != 1 or fp.shape != xp.shape or 0 in xp.shape:
        return None

    def fn(*given: np.ndarray) -> np.ndarray:
        x, xp, fp = (v.astype("float64") for v in given)
        return np.asarray(np.interp(x, xp, fp, left, right, period))

    return Direct(x.shape, np.dtype("float64"), fn, 40)


@op(
    np="interp",
    direct=Rules(_interpolated, no_gradient),
    samples=[case(f(5), Given([-1.0, 0.0, 1.0]), f(3))],
    ref=np.interp,
    numbers=("left", "right", "period"),
    written="interp",
    read={"_npi_interp": "interp"},
    loops=True,
)
def interp(
    x: Any, xp: Any, fp: Any, *, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Linear interpolation between the points (xp, fp); beside infinite ones as NumPy has it."""
    x, xp, fp = (jnp.asarray(v, "float64") for v in (x, xp, fp))
    out = jnp.interp(x, xp, fp, left, right, period)
    if period is not None or xp.shape[0] < 2:
        return out
    # From the left point it may be inf - inf or 0 * inf: then from the right one, and at a point its own value.
    at = jnp.clip(jnp.searchsorted(xp, x, side="right"), 1, xp.shape[0] - 1)
    slope = (fp[at] - fp[at - 1]) / (xp[at] - xp[at - 1])
    other = slope * (x - xp[at]) + fp[at]
    for k in (at - 1, at):
        other = jnp.where(x == xp[k], fp[k], other)
    return jnp.where(jnp.isnan(out), other, out)


@op(np="polyval", samples=[case(f(3), f(4))], ref=np.polyval, amp="full", loops=True)
def polyval(p: Any, x: Any) -> Any:
    """The polynomial with coefficients p (highest power first) at x."""
    return jnp.polyval(p, x)


@op(
    np="unwrap",
    samples=[case(f(6, low=-9, high=9))],
    ref=np.unwrap,
    internal=None,
    **_FLAT,
    numbers=("discont", "period"),
)
def unwrap(
    p: Any, *, discont: Any = None, axis: int = -1, period: float = 6.283185307179586
) -> Any:
    """Phases without jumps of more than half a period."""
    p = p if jnp.issubdtype(p.dtype, jnp.inexact) else p.astype("float64")
    return jnp.unwrap(p, discont, axis, period).astype(p.dtype)
