"""Picking out and putting in: take, pick, gather, slices, masks, one-hot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.interpret.dims import is_symbolic
from ..errors import MXNetIndexError
from .elementwise import divided
from .internal import basic_index, basic_index_assign
from .keys import Slice
from .lowering.search import search
from .numbers import cast_like_c, fitted, is_number
from .samples import Given, b, case, f, i
from .table import constant, op, without

_FLAT = dict(smooth=False)
# Up to this many candidates an element is picked by a masked sum: it vectorises, and so does its
# gradient, where a gather's gradient is a scatter that runs element by element.
_MASKED_PICK = 512


def fit_index(index: Any, size: int, mode: str) -> Any:
    """Numbers of elements within an axis of this size."""
    at = index.astype("int64" if index.dtype == np.int64 else "int32")
    if mode == "wrap":
        return at % size
    if mode == "raise":
        at = jnp.where(at < 0, at + size, at)
    elif mode != "clip":
        raise ValueError(f"unknown mode {mode}: clip, wrap and raise exist")
    return jnp.clip(at, 0, max(size - 1, 0))


def _within(name: str, at: Any, size: int, axis: int) -> None:
    """Refuse numbers that are no element of an axis."""
    if at.size and not (-size <= at.min() and at.max() < size):
        bad = at[(at < -size) | (at >= size)].reshape(-1)[0]
        raise MXNetIndexError(
            f"{name}: index {int(bad)} is out of bounds for axis {axis} with size {size}"
        )


def _take_looks(known: dict[str, Any], shapes: dict[str, Any], attrs: dict[str, Any]) -> None:
    if attrs["mode"] == "raise" and "indices" in known:
        shape, axis = shapes["a"], attrs["axis"]
        size = (
            int(np.prod(shape))
            if axis is None
            else shape[axis]
            if -len(shape) <= axis < len(shape)
            else None
        )
        if size is not None:
            _within(
                "take: indices out of bound", known["indices"], size, 0 if axis is None else axis
            )


def _nd_looks(name: str) -> Any:
    def looks(known: dict[str, Any], shapes: dict[str, Any], attrs: dict[str, Any]) -> None:
        at = known.get("indices")
        if at is not None and at.ndim:
            for axis, (rows, size) in enumerate(zip(at, shapes[name], strict=False)):
                _within("gather_nd", rows, size, axis)

    return looks


_TAKE = [
    case(f(3, 4), i(2, 2, high=3), axis=0, mode="clip"),
    case(f(3, 4), i(2, low=-6, high=9), axis=-1, mode="wrap"),
]


def _take(a: Any, indices: Any, axis: int | None, mode: str) -> Any:
    if axis is None:
        a, axis = a.reshape(-1), 0
    if not -a.ndim <= axis < a.ndim:
        raise ValueError(f"axis {axis} is out of bounds for shape {list(a.shape)}")
    return jnp.take(a, fit_index(indices, a.shape[axis], mode), axis, mode="clip")


@op(
    np="take",
    samples=_TAKE,
    internal="take",
    written="take",
    methods="np",
    looks=_take_looks,
    typed=(0,),
    onnx="take",
)
def take(a: Any, indices: Any, *, axis: int | None = None, mode: str = "raise") -> Any:
    """Elements along an axis by number; ``mode`` says what becomes of numbers out of range."""
    if not hasattr(indices, "astype"):
        raise TypeError(f"take: indices must be an array, got {indices!r}")
    return _take(a, indices, axis, mode)


@op(
    "take@nd",
    nd="take",
    samples=_TAKE,
    methods="nd",
    looks=_take_looks,
    rows=lambda attrs, stypes: {"a": False},
    onnx="take",
)
def take_nd(a: Any, indices: Any, *, axis: int = 0, mode: str = "clip") -> Any:
    """Elements along an axis by number; ``mode`` says what becomes of numbers out of range."""
    return _take(a, indices, axis, mode)


@op(
    nd="batch_take",
    samples=[case(f(3, 4), i(3, high=4))],
    typed=(0,),
    dtypes={"indices": "int32"},
    onnx="pick",
)
def batch_take(a: Any, indices: Any) -> Any:
    """One element of each row."""
    return pick(a, indices)


@op(
    np="take_along_axis",
    samples=[case(f(3, 4), i(3, 2, high=3), axis=1)],
    ref=np.take_along_axis,
    internal=None,
    onnx="take_along_axis",
)
def take_along_axis(arr: Any, indices: Any, *, axis: int | None) -> Any:
    """Elements by an array of numbers along an axis."""
    if not jnp.issubdtype(indices.dtype, jnp.integer):
        raise IndexError(
            f"take_along_axis takes integers as indices, got {indices.dtype}; use indices.astype('int64')"
        )
    return jnp.take_along_axis(arr, indices, axis)


@op(
    npx="pick",
    nd=("pick", "choose_element_0index"),
    display="pick",
    samples=[case(f(3, 4), i(3, high=4)), case(f(3, 4), i(4, high=3), axis=0, keepdims=True), case(f(3, 4), Given([1.0, 7.0, -1.0]), mode="wrap")],
    shapes=lambda shape, **attrs: {} if attrs["axis"] is None else {"index": without(shape, attrs["axis"])},
    methods="nd np",
    nd_order="data index axis keepdims mode", order="data index axis keepdims mode", typed=(0,), onnx="pick"
)  # fmt: skip
def pick(
    data: Any, index: Any, *, axis: int | None = -1, mode: str = "clip", keepdims: bool = False
) -> Any:
    """One element for each index along an axis: data (3, 4) and index (3,) give (3,)."""
    if axis is None:
        data, axis = data.reshape(-1), 0
        index = index.reshape(-1)
    axis = axis % data.ndim
    size = data.shape[axis]
    at = fit_index(index, size, mode)
    rest = data.shape[:axis] + data.shape[axis + 1 :]
    if at.size != math.prod(rest):
        raise ValueError(
            f"pick takes an index for each place along axis {axis}: of shape {list(rest)}, got {list(index.shape)}"
        )
    at = at.reshape(data.shape[:axis] + (1,) + data.shape[axis + 1 :])
    if not is_symbolic(size) and size <= _MASKED_PICK:
        here = at == lax.broadcasted_iota(at.dtype, data.shape, axis)
        return jnp.where(here, data, jnp.zeros_like(data)).sum(
            axis, keepdims=keepdims, dtype=data.dtype
        )
    out = _taken(data, at, axis)
    return out if keepdims else out.squeeze(axis)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _taken(data: Any, at: Any, axis: int) -> Any:
    """One element along an axis; the gradient is chosen by comparing, which melts into what comes after it."""
    return jnp.take_along_axis(data, at, axis)


@_taken.defjvp
def _(axis: int, primals: Any, tangents: Any) -> Any:
    (data, at), (moved, _) = primals, tangents
    here = at == lax.broadcasted_iota(at.dtype, data.shape, axis)
    return _taken(data, at, axis), jnp.where(here, moved, jnp.zeros_like(moved)).sum(
        axis, keepdims=True, dtype=data.dtype
    )


def _indexers(data: Any, indices: Any) -> tuple[Any, ...]:
    indices = indices.reshape(1) if indices.ndim == 0 else indices
    depth = indices.shape[0]
    if depth > data.ndim:
        raise ValueError(
            f"indices of shape {list(indices.shape)} address {depth} axes of shape {list(data.shape)}"
        )
    at = indices.astype("int32")
    return tuple(jnp.where(at[k] < 0, at[k] + data.shape[k], at[k]) for k in range(depth))


@op(
    npx="gather_nd",
    nd="gather_nd",
    samples=[case(f(3, 4), i(2, 5, high=3)), case(f(3, 4), i(1, 2, high=3))],
    looks=_nd_looks("data"),
    typed=(0,),
    onnx="gather_nd",
)
def gather_nd(data: Any, indices: Any) -> Any:
    """data[indices[0], indices[1], ...]: the first axis of ``indices`` is the axis of ``data``."""
    return data.at[_indexers(data, indices)].get(mode="clip")


@op(
    nd="scatter_nd",
    samples=[case(f(3), Given([[0, 2, 1], [1, 0, 3]], "int32"), shape=(3, 4))],
    typed=(0,),
    onnx="scatter_nd",
)
def scatter_nd(data: Any, indices: Any, *, shape: Any) -> Any:
    """An array of zeros with ``data`` at ``indices``; of several the last one stays."""
    out = jnp.zeros(shape, data.dtype)
    return out.at[_indexers(out, indices)].set(data)


@op(
    "_backward_gather_nd",
    nd="_backward_gather_nd",
    samples=[case(f(3), Given([[0, 2, 0], [1, 0, 1]], "int32"), shape=(3, 4))],
    onnx=("scatter_nd", True),
)
def gather_nd_add(data: Any, indices: Any, *, shape: Any) -> Any:
    """An array of zeros with ``data`` added at ``indices``."""
    out = jnp.zeros(shape, data.dtype)
    return out.at[_indexers(out, indices)].add(data)


_PUT = [case(f(3, 4), Given([[0, 2, 1], [1, 3, 0]], "int32"), f(3))]


def _beside(val: Any, a: Any, ind: Any) -> Any:
    val = jnp.asarray(val, a.dtype)
    return (
        val.reshape(val.shape[1:])
        if ind.ndim == 0 and val.ndim == a.ndim and val.shape[0] == 1
        else val
    )


@op(
    npx="index_add",
    samples=_PUT,
    internal="_npx_index_add",
    amp="widest",
    numbers=("val",),
    onnx=("index_put", True),
)
def index_add(a: Any, ind: Any, val: Any) -> Any:
    """``a`` with ``val`` added at ``ind`` (laid out as in gather_nd)."""
    return a.at[_indexers(a, ind)].add(_beside(val, a, ind))


@op(
    npx="index_update",
    samples=_PUT,
    internal="_npx_index_update",
    amp="widest",
    numbers=("val",),
    onnx=("index_put", False),
)
def index_update(a: Any, ind: Any, val: Any) -> Any:
    """``a`` with ``val`` at ``ind`` (laid out as in gather_nd)."""
    return a.at[_indexers(a, ind)].set(_beside(val, a, ind))


@op(
    nd_contrib="index_copy",
    samples=[case(f(4, 2), Given([2, 0], "int32"), f(2, 2))],
    typed=(0, 2),
    onnx="index_copy",
)
def index_copy(old_tensor: Any, index_vector: Any, new_tensor: Any) -> Any:
    """``old_tensor`` with its rows ``index_vector`` replaced."""
    return old_tensor.at[index_vector.astype("int32")].set(new_tensor)


@op(nd="fill_element_0index", samples=[case(f(3, 4), f(3), Given([1, 0, 2], "int32"))])
def fill_element_0index(lhs: Any, mhs: Any, rhs: Any) -> Any:
    """``lhs`` with ``mhs[k]`` in column ``rhs[k]`` of row k."""
    return lhs.at[jnp.arange(lhs.shape[0]), rhs.astype("int32")].set(mhs)


# ------------------------------------------------------------------------------------- one-hot


_HOT = [
    case(i(2, 3, high=4), depth=4),
    case(Given([1.0, 9.0]), depth=3, on_value=2.0, off_value=-1.0),
]


@op(
    npx="one_hot",
    nd="one_hot",
    nd_params="indices",
    display="one_hot",
    samples=_HOT,
    methods="nd np",
    **_FLAT,
    numbers=("on_value", "off_value"),
    lengths={"depth": int},
    typed=(),
    dtype="attribute",
    onnx="one_hot",
)
def one_hot(
    data: Any, *, depth: int, on_value: float = 1.0, off_value: float = 0.0, dtype: Any = "float32"
) -> Any:
    """A new last axis with ``on_value`` at the number given; numbers out of range have no such place."""
    if isinstance(depth, int) and depth < 0:
        raise ValueError(f"one_hot: depth is how many numbers there are, got {depth}")
    hot = jnp.expand_dims(cast_like_c(data, "int32"), -1) == jnp.arange(depth, dtype="int32")
    return jnp.where(hot, fitted(on_value, dtype), fitted(off_value, dtype))


# ---------------------------------------------------------------------------------------- where


@op(
    "where",
    samples=[case(b(3, 4), f(3, 4), f(4)), case(b(3, 4), f(3, 4), 0.5)],
    internal="_npi_where",
    amp="widest",
    numbers=("x", "y"),
    written="where",
    read={
        "_npi_where_lscalar": ("where", {"x": "scalar"}),
        "_npi_where_rscalar": ("where", {"y": "scalar"}),
        "_npi_where_scalar2": ("where", {"x": "x", "y": "y"}),
    },
    unknown="waits",
    typed=(1, 2),
    onnx="where",
)
def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, y elsewhere; two Python numbers give float32."""
    if is_number(condition):
        raise TypeError(f"where: the condition must be an array, got {condition!r}")
    dtypes = [v.dtype for v in (x, y) if not is_number(v)]
    dtype = np.dtype("float32") if not dtypes else jnp.promote_types(dtypes[0], dtypes[-1])
    return jnp.where(condition != 0, _cast(x, dtype), _cast(y, dtype))


def _cast(v: Any, dtype: Any) -> Any:
    return fitted(v, dtype) if is_number(v) else v.astype(dtype)


@op(
    "where@nd",
    nd="where",
    samples=[case(f(3, 4), f(3, 4), f(3, 4)), case(f(3), f(3, 4), f(3, 4))],
    amp="widest",
    unknown="pair",
    typed=(1, 2),
    onnx=("where", True),
)
def where_nd(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition is not 0, y elsewhere; a vector condition chooses rows."""
    hold = condition != 0
    if hold.ndim == 1 and x.ndim > 1:
        hold = hold.reshape(-1, *(1,) * (x.ndim - 1))
    return jnp.where(hold, x, y)


@op("select", samples=[case(b(4), b(4), f(4), f(4))], numbers=("default",))
def select(*arrays: Any, default: float = 0) -> Any:
    """For each element the choice of the first condition that holds (conditions, then choices)."""
    n = len(arrays) // 2
    return jnp.select(list(arrays[:n]), list(arrays[n:]), default)


@op(
    "choose_rows",
    samples=[case(i(3, high=2), f(3), f(3)), case(i(3, low=-2), f(3), f(3), mode="wrap")],
)
def choose(a: Any, *choices: Any, mode: str = "clip") -> Any:
    """choices[a[k]][k] for each k."""
    return jnp.choose(fit_index(a, len(choices), mode), list(choices), mode="clip")


# --------------------------------------------------------------------------------------- slices


def _none(v: Any, n: int) -> tuple[Any, ...]:
    v = v if isinstance(v, Sequence) else (v,)
    return tuple(None if x is None else int(x) for x in v) + (None,) * (n - len(v))


_SLICE = [
    case(f(3, 4), begin=(0, 1), end=(2, 4)),
    case(f(3, 4), begin=(None, 3), end=(None, None), step=(2, -1)),
]


def _slices(data: Any, begin: Any, end: Any, step: Any) -> tuple[Slice, ...]:
    n = len(begin) if isinstance(begin, Sequence) else 1
    step = (None,) * n if step is None or step == () else step
    parts = _none(begin, n), _none(end, n), _none(step, n)
    if len({len(part) for part in parts}) > 1 or n > data.ndim:
        raise ValueError(
            f"slice: begin and end have a number for each of the first axes (of {data.ndim}), got begin={begin}, end={end}, step={step}"
        )
    return tuple(Slice(*v) for v in zip(*parts, strict=True))


@op(
    npx="slice",
    nd=("slice", "crop"),
    display="slice",
    samples=_SLICE,
    methods="nd np",
    unknown="stays",
    onnx="slice",
)
def slice_(data: Any, *, begin: Any, end: Any, step: Any = None) -> Any:
    """data[begin[0]:end[0]:step[0], begin[1]:end[1]:step[1], ...]."""
    return basic_index(data, key=_slices(data, begin, end, step))


def _part_shape(shape: tuple[int, ...], **attrs: Any) -> dict[str, tuple[int, ...]]:
    # Of zeros without memory of their own: what NumPy's slices leave of the shape.
    whole = np.broadcast_to(np.int8(0), shape)
    attrs.setdefault("step", None)
    return {"rhs": whole[tuple([slice(*s) for s in _slices(whole, **attrs)])].shape}


@op(
    "_slice_assign",
    nd="_slice_assign",
    samples=[case(f(3, 4), f(2, 3), begin=(0, 1), end=(2, 4))],
    aliases=("_crop_assign", "_npi_slice_assign"),
    shapes=_part_shape,
)
def slice_assign(lhs: Any, rhs: Any, *, begin: Any, end: Any, step: Any = None) -> Any:
    """``lhs`` with a slice replaced by ``rhs``."""
    return basic_index_assign(lhs, rhs, key=_slices(lhs, begin, end, step))


@op(
    "_slice_assign_scalar",
    nd="_slice_assign_scalar",
    samples=[case(f(3, 4), scalar=1.5, begin=(0, 1), end=(2, 4))],
    aliases=("_crop_assign_scalar", "_npi_slice_assign_scalar"),
    numbers=("scalar",),
)
def slice_assign_scalar(
    data: Any, *, scalar: float = 0.0, begin: Any, end: Any, step: Any = None
) -> Any:
    """``data`` with a slice set to a number."""
    value = jnp.asarray(fitted(scalar, data.dtype), data.dtype)
    return basic_index_assign(data, value, key=_slices(data, begin, end, step))


@op(
    nd="slice_axis",
    samples=[case(f(3, 4), axis=1, begin=1, end=3), case(f(3, 4), axis=-1, begin=-2, end=None)],
    methods="nd np",
    unknown="stays",
    onnx="slice_axis",
)
def slice_axis(data: Any, *, axis: int, begin: int, end: int | None) -> Any:
    """data[..., begin:end, ...] along an axis."""
    if not -data.ndim <= axis < data.ndim:
        raise ValueError(f"axis {axis} is out of bounds for shape {list(data.shape)}")
    size = data.shape[axis]
    start = begin + size if begin < 0 else begin
    stop = size if end is None else end + size if end < 0 else end
    if size and not 0 <= start < stop <= size:
        raise ValueError(
            f"begin={begin}, end={end}: a part of axis {axis}, of length {size}, is expected, at least one long"
        )
    return lax.slice_in_dim(data, min(start, size), min(stop, size), axis=axis)


@op(
    npx="slice_like",
    nd="slice_like",
    samples=[case(f(3, 4), f(2, 2)), case(f(3, 4), f(2, 2), axes=(1,))],
    methods="nd np",
    typed=(0,),
    onnx="slice_like",
)
def slice_like(data: Any, shape_like: Any, *, axes: Any = ()) -> Any:
    """The beginning of ``data`` as long as ``shape_like``, along all or some axes."""
    axes = range(min(data.ndim, shape_like.ndim)) if axes in ((), None) else axes
    axes = (axes,) if isinstance(axes, int) else axes
    at = [slice(None)] * data.ndim
    for a in axes:
        if shape_like.shape[a] > data.shape[a]:
            raise ValueError(
                f"slice_like: axis {a} of {list(data.shape)} is shorter than that of {list(shape_like.shape)}"
            )
        at[a] = slice(0, shape_like.shape[a])
    return data[tuple(at)]


# ---------------------------------------------------------------------------- numbers and masks


def _axes_of_shape(attrs: dict[str, Any], n: int) -> int:
    return 1 if isinstance(attrs["shape"], int) else len(attrs["shape"])


def _unravelled(flat: Any, shape: Any) -> list[Any]:
    """Coordinates of flat indices; those beyond the end lie beyond the end of the first axis, and those of negative ones
    are negative or 0, as C divides."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    flat = flat.astype("int64")
    found = []
    for n in shape[:0:-1]:
        rest, flat = flat, divided(flat, np.int64(n))
        found.append(rest - flat * n)
    return [flat, *reversed(found)][: len(shape)]


@op("unravel_index", samples=[case(i(4, high=6), shape=(2, 3))], outputs=_axes_of_shape, **_FLAT)
def unravel_index(indices: Any, *, shape: Any, order: str = "C") -> Any:
    """Coordinates of flat indices, one array for each axis."""
    if order != "C":
        raise NotImplementedError(f"unravel_index counts in the order 'C', got {order!r}")
    return tuple(x.astype(indices.dtype) for x in _unravelled(indices, shape))


@op(
    "unravel_index@nd",
    nd="unravel_index",
    samples=[case(i(4, high=6), shape=(2, 3))],
    internal="_unravel_index",
    **_FLAT,
)
def unravel_index_nd(data: Any, *, shape: Any) -> Any:
    """Coordinates of flat indices as rows."""
    return jnp.stack([x.astype(data.dtype) for x in _unravelled(data, shape)])


@op(
    nd="ravel_multi_index",
    samples=[case(Given([[0, 1], [2, 1]], "int32"), shape=(2, 3))],
    internal="_ravel_multi_index",
    **_FLAT,
)
@constant
def ravel_multi_index(data: Any, *, shape: Any) -> Any:
    """Flat indices of coordinates given as rows."""
    steps = np.append(np.cumprod(np.asarray(shape[1:][::-1], int))[::-1], 1).astype(data.dtype)
    return (data * steps.reshape(-1, *(1,) * (data.ndim - 1))).sum(0, dtype=data.dtype)


@op(
    np="searchsorted",
    samples=[case(Given([1.0, 2.0, 3.0]), f(4, low=0, high=4))],
    internal=None,
    order="a v side sorter",
    loops=True,
    **_FLAT,
    onnx=("searchsorted", 0),
)
def searchsorted(a: Any, v: Any, sorter: Any = None, *, side: str = "left") -> Any:
    """Where ``v`` would be inserted into the sorted ``a``."""
    if sorter is not None:
        a = a[sorter]
    return search(a, v, side).astype("int64")


@op(
    np="digitize",
    samples=[case(f(4), Given([-1.0, 0.0, 1.0]))],
    internal=None,
    loops=True,
    **_FLAT,
    onnx=("searchsorted", 1),
)
def digitize(x: Any, bins: Any, *, right: bool = False) -> Any:
    """Into which bin each number falls."""
    side = "left" if right else "right"
    if bins.shape[0] == 0:
        return jnp.zeros(x.shape, "int64")
    falls = bins[-1] < bins[0]
    found = search(jnp.where(falls, bins[::-1], bins), x, side)
    return jnp.where(falls, bins.shape[0] - found, found).astype("int64")


@op(np="isin", samples=[case(i(3, 4), i(3))], ref=np.isin, internal=None, **_FLAT)
def isin(
    element: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """Which elements are among ``test_elements``."""
    return jnp.isin(element, test_elements, assume_unique, invert)


@op(
    np="in1d",
    samples=[case(i(3, 4), i(3))],
    ref=lambda *pair, **kw: np.isin(*pair, **kw).ravel(),
    internal=None,
    **_FLAT,
)
def in1d(ar1: Any, ar2: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether each element, of all in one row, is among those of the other array."""
    return jnp.isin(jnp.ravel(ar1), ar2, assume_unique, invert)


@op(
    np="isclose",
    samples=[case(f(3), f(3))],
    ref=np.isclose,
    internal=None,
    **_FLAT,
    numbers=("a", "b", "rtol", "atol"),
    onnx="isclose",
)
def isclose(
    a: Any, b: Any, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Which elements agree within ``atol + rtol * |b|``."""
    return jnp.isclose(a, b, rtol, atol, equal_nan)


@op(
    nd_contrib="allclose",
    samples=[case(f(3), f(3))],
    **_FLAT,
    dtype="uint8",
    numbers=("rtol", "atol"),
)
def allclose(
    a: Any, b: Any, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """1 if all elements agree within ``atol + rtol * |b|``, else 0, without an axis, uint8."""
    return jnp.isclose(a, b, rtol, atol, equal_nan).all().astype("uint8")


@op(
    "fill_diagonal",
    samples=[case(f(3, 3), 7.0), case(f(7, 3), f(2), wrap=True)],
    internal="_npi_fill_diagonal",
    numbers=("val",),
)
def fill_diagonal(a: Any, val: Any, *, wrap: bool = False) -> Any:
    """``a`` with ``val`` on its diagonal, again and again if it is short; ``wrap``: on those below, too, a row apart."""
    if a.ndim < 2 or (a.ndim > 2 and len(set(a.shape)) > 1):
        raise ValueError(
            f"fill_diagonal takes matrices, and arrays of equal lengths; got shape {list(a.shape)}"
        )
    step = 1 + int(np.cumprod(a.shape[:0:-1]).sum())
    end = a.shape[1] ** 2 if a.ndim == 2 and not wrap else a.size
    places = np.arange(0, min(end, a.size), step)
    val = jnp.resize(jnp.asarray(val, a.dtype).reshape(-1), places.shape)
    return a.reshape(-1).at[places].set(val).reshape(a.shape)


@op("constraint_check", samples=[case(b(3))], internal="_npx_constraint_check", **_FLAT)
def constraint_check(x: Any) -> Any:
    """Whether all elements hold, shape (1,)."""
    return x.astype(bool).all().reshape(1)
