"""What the engine itself computes: copies, casts, reading and writing parts of arrays.

These rows have no function of their own in a front end. `Op.operator` is False: what settings say of operators
(precision, dumps) is not said of them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .keys import ARRAY, AT, Run, Slice, Window, checked, resolve
from .numbers import cast_like_c
from .parts import ASSIGNED, PART
from .samples import Given, b, case, f, i
from .table import op

_OWN = dict(operator=False)
_FLAT = dict(operator=False, smooth=False)


def as_type(x: Any, *, dtype: str) -> Any:
    """An array in another dtype, as C converts."""
    return cast_like_c(x, np.dtype(dtype))


op(
    "_cast",
    display="cast",
    samples=[case(f(3, 4), dtype="float64"), case(f(3, 4), dtype="int32")],
    **_OWN,
    written=("renamed", "Cast"),
    typed=(),
    onnx="cast",
)(as_type)


@op(
    "_copy",
    display="copy",
    samples=[case(f(3, 4)), case(f(0, 3))],
    **_OWN,
    written=("renamed", "_copy"),
    onnx="same",
)
def copied(x: Any) -> Any:
    """A copy."""
    return jnp.copy(x)


@op("_found", display="found", samples=[case(i(4), f(3, 4), registry="_npi_flatnonzero")], **_FLAT)
def found(positions: Any, data: Any, *, registry: str = "") -> Any:
    """The first array, as one that follows from the second, whose gradient is zero: positions that were looked up on
    the host, with the operator of MXNet's registry that gives them, which deferred computation sees."""
    return positions


@op("_round_bits", display="round_bits", samples=[case(f(3, 4), exponent=8, mantissa=7)], **_FLAT)
def round_bits(x: Any, *, exponent: int, mantissa: int) -> Any:
    """Floats rounded to so many bits, in their own dtype."""
    # A conversion there and back is removed where XLA may compute more exactly; this is not.
    return jax.lax.reduce_precision(x, exponent, mantissa)


@op("_detach", display="detach", samples=[case(f(3, 4))], **_OWN, onnx="same")
def same(x: Any) -> Any:
    """The array itself, recorded without the tape."""
    return x


@op(
    "_identity_with_attr_like_rhs", internal="_identity_with_attr_like_rhs", samples=[case(f(3, 4), f(3, 4))],
    shapes=lambda shape, **attrs: {"rhs": shape}, onnx="dropout"
)  # fmt: skip
def like_rhs(lhs: Any, rhs: Any) -> Any:
    """The first array; a symbol gives both one shape."""
    if lhs.shape != rhs.shape:
        raise ValueError(
            f"Incompatible attr in node at 1-th input: expected {list(lhs.shape)}, got {list(rhs.shape)}"
        )
    return lhs


@op(
    "_zeros_like",
    display="zeros_like",
    samples=[case(f(3, 4)), case(i(2))],
    **_FLAT,
    written=("renamed", "zeros_like"),
    onnx="zeros",
)
def zeros_like(x: Any) -> Any:
    """Zeros in the shape and dtype of an array."""
    return jnp.zeros_like(x)


@op(
    "_zeros",
    display="_zeros",
    samples=[case(shape=(2, 3), dtype="float32"), case(shape=(2, 0), dtype="int64")],
    lengths={"shape": int},
    **_FLAT,
    written=("renamed", "_npi_zeros"),
    onnx="zeros",
)
def zeros(*, shape: tuple[int, ...], dtype: str) -> Any:
    """Zeros of a shape."""
    return jnp.zeros(shape, dtype)


@op(
    "_reshape_back",
    display="write_reshaped",
    samples=[case(f(3, 4), f(2, 6))],
    **_OWN,
    onnx="reshape_back",
    assigns=True,
)
def reshape_back(base: Any, new: Any) -> Any:
    """New contents in the shape of the array whose view they were written to."""
    return jnp.reshape(new, base.shape)


@op(
    "_fill",
    display="fill",
    takes_numbers=True,
    numbers=("scalar",),
    samples=[case(f(3, 4), scalar=2.5), case(i(3), scalar=7)],
    **_OWN,
    written="filled",
    onnx="fill",
    assigns=True,
)
def fill(x: Any, *, scalar: Any) -> Any:
    """One number in the shape and dtype of an array."""
    number = (
        scalar.astype(x.dtype) if hasattr(scalar, "astype") else np.asarray(scalar).astype(x.dtype)
    )
    return jnp.full(x.shape, number, x.dtype)


def fit(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A value cast and broadcast to a place, as an assignment does; leading axes of length 1 may go."""
    given = tuple(value.shape)
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value.reshape(value.shape[1:])
    try:
        return jnp.broadcast_to(cast_like_c(value, np.dtype(dtype)), shape)
    except ValueError:
        raise ValueError(
            f"operands could not be broadcast together: shape {shape_text(given)} is not broadcastable to "
            f"{shape_text(shape)}"
        ) from None


def _broadcasts(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(given, shape) == shape
    except ValueError:
        return False


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as errors show it."""
    return f"[{','.join(map(str, shape))}]"


@op(
    "_write",
    display="write",
    samples=[case(f(3, 4), f(1, 4)), case(i(3, 4), f(4))],
    **_OWN,
    written="laid",
    onnx="write",
    assigns=True,
)
def write(x: Any, value: Any) -> Any:
    """A value broadcast to the shape of an array, in its dtype."""
    return fit(value, x.shape, x.dtype)


# ---------------------------------------------------------------------------------- parts by basic indices


def _window(x: Any, windows: list[Window]) -> Any:
    lows, spans = [w.low for w in windows], [w.span for w in windows]
    if all(type(low) is int for low in lows):
        if tuple(spans) == x.shape:
            return x
        return jax.lax.slice(x, lows, [low + n for low, n in zip(lows, spans, strict=True)])
    return jax.lax.dynamic_slice(x, _starts(x, lows), spans)


def _put_window(x: Any, part: Any, windows: list[Window]) -> Any:
    if part.shape == x.shape:
        return part
    if part.size == 0:
        return x
    return jax.lax.dynamic_update_slice(x, part, _starts(x, [w.low for w in windows]))


def _starts(x: Any, lows: list[Any]) -> list[Any]:
    wide = any(n >= 1 << 31 for n in x.shape)
    return [jnp.asarray(low, "int64" if wide else "int32") for low in lows]


def _basic(x: Any, places: Any, key: tuple[Any, ...]) -> tuple[list[Window], tuple[int, ...]]:
    """The window of each axis, and the shape of what they give."""
    entries = resolve(key, x.shape, iter(places))
    windows = [e.window for e in entries if e.kind != "new"]
    return windows, tuple(e.window.count for e in entries if e.kind != "int")


def _backwards(windows: list[Window]) -> list[int]:
    return [k for k, w in enumerate(windows) if w.step < 0]


_KEYS = [
    (1, Slice(None, 2, None)),
    (Ellipsis, Slice(None, None, -2)),
    (None, -1),
    (Slice(3, 3, 1),),
]


@op(
    "_basic_index",
    display="slice",
    samples=[
        *(case(f(3, 4), key=k) for k in _KEYS),
        case(f(3, 4), Given(1, "int64"), key=(Run(2, 1),)),
    ],
    lengths={"key": Run},
    direct=PART,
    **_OWN,
    written="basic_index",
    unknown="stays",
    onnx="basic_index",
)
def basic_index(x: Any, *places: Any, key: tuple[Any, ...]) -> Any:
    """The part of an array at a basic index."""
    windows, shape = _basic(x, places, key)
    x = _window(x, windows)
    steps = [abs(w.step) for w in windows]
    if any(k != 1 for k in steps):
        x = jax.lax.slice(x, [0] * x.ndim, x.shape, steps)
    back = _backwards(windows)
    if back:
        x = jax.lax.rev(x, back)
    return x.reshape(shape)


@op(
    "_basic_index_assign",
    display="slice_assign",
    samples=[
        case(f(3, 4), f(2), key=_KEYS[0]),
        case(f(3, 4), f(2), key=_KEYS[1]),
        case(f(3, 4), f(4), Given(1, "int64"), key=(AT,)),
    ],
    lengths={"key": Run},
    direct=ASSIGNED,
    **_OWN,
    onnx="basic_index_assign",
    assigns=True,
)
def basic_index_assign(x: Any, value: Any, *places: Any, key: tuple[Any, ...]) -> Any:
    """An array with the part at a basic index replaced."""
    windows, shape = _basic(x, places, key)
    if None in key:  # MXNet takes values of the place's shape without its new axes, too
        bare = _basic(x, places, tuple(k for k in key if k is not None))[1]
        if not _broadcasts(value.shape, shape) and _broadcasts(value.shape, bare):
            shape = bare
    part = fit(value, shape, x.dtype).reshape([w.count for w in windows])
    back = _backwards(windows)
    if back:
        part = jax.lax.rev(part, back)
    if any(abs(w.step) != 1 for w in windows) and part.size:
        gaps = [(0, 0, abs(w.step) - 1) for w in windows]
        mask = jax.lax.pad(jnp.ones(part.shape, bool), False, gaps)
        spaced = jax.lax.pad(part, jnp.zeros((), part.dtype), gaps)
        part = jnp.where(mask, spaced, _window(x, windows))
    return _put_window(x, part, windows)


# --------------------------------------------------------------------------------- parts by index arrays


def _indexed(
    x: Any, operands: Any, key: tuple[Any, ...]
) -> tuple[Any, list[Window], tuple[Any, ...]]:
    """The window that the slices of a key leave, and the index into it."""
    dims = x.shape
    given = iter(operands)
    arrays: list[Any] = []
    places: list[Any] = []
    for k in key:
        if k == ARRAY:
            arrays.append(next(given))
        elif k == AT or type(k) is Run:
            places.append(next(given))
        elif type(k) is tuple:
            arrays.append(np.asarray(k))
    windows: list[Window] = []
    index: list[Any] = []
    found = iter(arrays)
    for e in resolve(key, dims, iter(places)):
        if e.kind == "new":
            index.append(None)
            continue
        n = dims[len(windows)]
        if e.kind == "slice":
            windows.append(e.window)
            index.append(slice(None, None, e.window.step))
        else:
            place = next(found) if e.kind == "array" else e.window.low
            if type(place) is np.ndarray:
                place = checked(place, len(windows), n)
            index.append(
                place if type(place) is int else place.astype("int32" if n < 1 << 31 else "int64")
            )
            windows.append(Window(0, n, 1))
    return _window(x, windows), windows, tuple(index)


_ROWS = (Given([2, 0, 2], "int64"), Given([1, 3, 1], "int64"))


@op(
    "_advanced_index",
    display="advanced_indexing",
    samples=[
        case(f(3, 4), _ROWS[0], key=(ARRAY,)),
        case(f(3, 4), *_ROWS, key=(ARRAY, ARRAY)),
        case(f(3, 4), _ROWS[1], key=(Slice(1, None, None), ARRAY)),
        case(f(3, 4), key=(((2, -1), (0, 1)), 1)),
    ],
    **_OWN,
    written="advanced_index",
    onnx="advanced_index",
)
def advanced_index(x: Any, *operands: Any, key: tuple[Any, ...]) -> Any:
    """The elements of an array that a key with index arrays names."""
    part, _, index = _indexed(x, operands, key)
    return part.at[index].get(mode="clip")


@op(
    "_advanced_index_assign",
    display="index_assign",
    samples=[
        case(f(3, 4), f(2, 4), Given([2, 0], "int64"), key=(ARRAY,)),
        case(f(3, 4), f(2), Given([2, 0], "int64"), key=(ARRAY, 1)),
    ],
    **_OWN,
    assigns=True,
)
def advanced_index_assign(x: Any, value: Any, *operands: Any, key: tuple[Any, ...]) -> Any:
    """An array with the elements that a key with index arrays names replaced."""
    part, windows, index = _indexed(x, operands, key)
    shape = jax.eval_shape(lambda p: p.at[index].get(mode="clip"), part).shape
    part = part.at[index].set(fit(value, shape, x.dtype), mode="drop")
    return _put_window(x, part, windows)


# ------------------------------------------------------------------------------------------ masks


@op(
    "_mask_assign",
    display="boolean_mask_assign",
    samples=[case(f(3, 4), b(3, 4), f(1)), case(f(3, 4), b(3), f(1, 4))],
    **_OWN,
    onnx="mask_assign",
    assigns=True,
)
def mask_assign(x: Any, mask: Any, value: Any) -> Any:
    """An array with one value in all places where a mask over its first axes is True."""
    rest = x.shape[mask.ndim :]
    mask = mask.reshape(mask.shape + (1,) * len(rest))
    if value.size == 1:
        value = value.reshape(())
    elif value.ndim == len(rest) + 1:
        value = value.reshape(value.shape[1:])
    return jnp.where(mask, fit(value, x.shape, x.dtype), x)


@op(
    "_mask_assign_rows",
    display="boolean_mask_assign",
    samples=[case(f(3, 4), Given([True, False, True], "bool"), f(2, 4))],
    **_OWN,
    assigns=True,
)
def mask_assign_rows(x: Any, mask: Any, value: Any) -> Any:
    """An array with the rows of a value in the places where a mask over its first axes is True, in order."""
    if not value.shape[0]:  # no place is True
        return x
    rest = x.shape[mask.ndim :]
    value = fit(value, (value.shape[0], *rest), x.dtype)
    rows = jnp.cumsum(mask.reshape(-1).astype("int32")).reshape(mask.shape) - 1
    mask = mask.reshape(mask.shape + (1,) * len(rest))
    return jnp.where(mask, jnp.take(value, jnp.maximum(rows, 0), axis=0, mode="clip"), x)


def _beyond(start: int, x: Any) -> Any:
    """The axes before ``start`` behind all others."""
    return jnp.moveaxis(x, range(start), range(x.ndim - start, x.ndim)) if start else x


_AT_AXIS = [case(f(3, 4), b(3), 2.5), case(f(2, 3, 4), b(3), 2.5, start_axis=1)]


@op(samples=_AT_AXIS, internal="_npi_boolean_mask_assign_scalar")
def boolean_mask_assign_scalar(data: Any, mask: Any, value: Any, *, start_axis: int = 0) -> Any:
    """An array with a number where a mask over its axes from ``start_axis`` on is True."""
    x = _beyond(start_axis, data)
    out = mask_assign(x, mask.astype(bool), jnp.asarray(value, x.dtype))
    return (
        jnp.moveaxis(out, range(x.ndim - start_axis, x.ndim), range(start_axis))
        if start_axis
        else out
    )


@op(
    samples=[case(f(3, 4), b(3), f(1, 4)), case(f(2, 3, 4), b(3), f(2, 1, 4), start_axis=1)],
    internal="_npi_boolean_mask_assign_tensor",
)
def boolean_mask_assign_tensor(data: Any, mask: Any, value: Any, *, start_axis: int = 0) -> Any:
    """An array with values where a mask over its axes from ``start_axis`` on is True.

    value: one element, or the axes of data with those of the mask as one, of length 1 or the number of True.
    """
    x, mask = _beyond(start_axis, data), mask.astype(bool)
    if value.size == 1 or value.ndim <= start_axis:
        out = mask_assign(x, mask, value)
    else:
        v = _beyond(start_axis, value)
        out = mask_assign(x, mask, v) if v.shape[0] == 1 else mask_assign_rows(x, mask, v)
    return (
        jnp.moveaxis(out, range(x.ndim - start_axis, x.ndim), range(start_axis))
        if start_axis
        else out
    )
