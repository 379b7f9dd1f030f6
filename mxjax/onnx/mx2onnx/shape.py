"""Shapes in ONNX's words: reshaping, order of axes, joining, splitting, repeating, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .writer import FAR, Name, Step, Writer, writes


@writes
def reshape(w: Writer, s: Step) -> Name:
    """Whatever the codes say, the result's shape is known, or follows from what comes in."""
    return reshaped(w, s, s[0])


@writes
def reshape_back(w: Writer, s: Step) -> Name:
    return reshaped(w, s, s[1])


def reshaped(w: Writer, s: Step, x: Name) -> Name:
    """``x`` in the shape of the result."""
    shape = s.out_shape()
    open_ = [k for k, n in enumerate(shape) if n is None]
    if not open_ and 0 in shape:
        if w.opset < 14:  # whose Reshape knows no empty axes
            return filled(w, s, 0)
        return w.op("Reshape", x, s.out_dims(), allowzero=1)
    if len(open_) <= 1:
        return w.reshape(x, [-1 if n is None else n for n in shape])
    given = s.shape()
    same = len(given) >= len(shape) and all(
        given[k] is None and w.tried[s.node.inputs[0]][k] == w.tried[s.node, 0][k]
        for k in open_[:-1]
    )
    if same and 0 not in shape:  # ONNX's 0 copies the length in the same place
        last = open_[-1]
        return w.reshape(
            x, [-1 if k == last else 0 if n is None else n for k, n in enumerate(shape)]
        )
    return w.op("Reshape", x, s.out_dims())


@writes
def expand_dims(w: Writer, s: Step) -> Name:
    axis = s.params["axis"]
    axes = [axis] if isinstance(axis, int) else list(axis)
    return w.unsqueeze(s[0], *[a % len(s.out_shape()) for a in axes])


def _order(w: Writer, s: Step, perm: Sequence[int]) -> Name:
    return w.op("Transpose", s[0], perm=list(perm))


@writes
def transpose(w: Writer, s: Step) -> Name:
    axes = s.params["axes"]
    n = s.ndim()
    return _order(w, s, range(n)[::-1] if axes in (None, ()) else [a % n for a in axes])


@writes
def swapaxes(w: Writer, s: Step) -> Name:
    keys = ("axis1", "axis2") if "axis1" in s.params else ("dim1", "dim2")
    one, other = (s.params[k] % s.ndim() for k in keys)
    perm = list(range(s.ndim()))
    perm[one], perm[other] = other, one
    return _order(w, s, perm)


@writes
def matrix_transpose(w: Writer, s: Step) -> Name:
    return _order(w, s, [*range(s.ndim() - 2), s.ndim() - 1, s.ndim() - 2])


def _moved(w: Writer, s: Step, move: Any) -> Name:
    """The order that NumPy's function gives, of an array that has its axes' numbers for lengths."""
    probe = np.broadcast_to(np.int8(0), tuple(range(1, s.ndim() + 1)))
    return _order(w, s, [n - 1 for n in move(probe).shape])


@writes
def moveaxis(w: Writer, s: Step) -> Name:
    return _moved(w, s, lambda x: np.moveaxis(x, s.params["source"], s.params["destination"]))


@writes
def rollaxis(w: Writer, s: Step) -> Name:
    return _moved(w, s, lambda x: np.rollaxis(x, s.params["axis"], s.params["start"]))


@writes
def flip(w: Writer, s: Step, axis: int | None = None) -> Name:
    return flipped(w, s[0], s.axes(s.params.get("axis")) if axis is None else [axis])


def flipped(w: Writer, x: Name, axes: Sequence[int]) -> Name:
    n = len(axes)
    return w.op("Slice", x, w.ints([-1] * n), w.ints([-FAR] * n), w.ints(axes), w.ints([-1] * n))


@writes
def roll(w: Writer, s: Step) -> Name:
    shift, axis = s.params["shift"], s.params["axis"]
    if axis is None:
        flat = w.reshape(s[0], [-1])
        return reshaped(w, s, _rolled(w, flat, 0, int(shift)))
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = [shift] * len(axes) if isinstance(shift, int) else list(shift)
    x = s[0]
    for a, k in zip(axes, shifts, strict=True):
        n = s.shape()[a % s.ndim()]
        x = _rolled(w, x, a % s.ndim(), k if n is None else k % n if n else 0)
    return x if x != s[0] else w.op("Identity", x)


def _rolled(w: Writer, x: Name, axis: int, shift: int) -> Name:
    if not shift:
        return x
    return w.op("Concat", w.slice(x, axis, -shift, FAR), w.slice(x, axis, 0, -shift), axis=axis)


@writes
def rot90(w: Writer, s: Step) -> Name:
    a, b = (k % s.ndim() for k in s.params["axes"])
    perm = list(range(s.ndim()))
    perm[a], perm[b] = b, a
    turns = s.params["k"] % 4
    if turns == 0:
        return w.op("Identity", s[0])
    if turns == 2:
        return flipped(w, s[0], [a, b])
    if turns == 1:
        return w.transpose(flipped(w, s[0], [b]), perm)
    return flipped(w, w.transpose(s[0], perm), [b])


# ---- repeating -----------------------------------------------------------------------------------


@writes
def broadcast_to(w: Writer, s: Step) -> Name:
    return w.op("Expand", s[0], s.out_dims())


@writes
def broadcast_like(w: Writer, s: Step) -> Name:
    if s.params["lhs_axes"] is None and s.params["rhs_axes"] is None:
        return w.op("Expand", s[0], w.op("Shape", s[1]))
    return w.op("Expand", s[0], s.out_dims())


@writes
def write(w: Writer, s: Step) -> Name:
    """The second array in the shape and dtype of the first."""
    x = w.cast(s[1], s.in_dtype(1), s.dtype())
    extra = s.ndim(1) - s.ndim(0)
    return w.op("Expand", w.squeeze(x, *range(max(extra, 0))), w.op("Shape", s[0]))


@writes
def broadcast_arrays(w: Writer, s: Step) -> list[Name]:
    return [w.op("Expand", x, w.dims((s.node, k), s.node.inputs)) for k, x in enumerate(s.names)]


@writes
def tile(w: Writer, s: Step) -> Name:
    reps = s.params["reps"]
    reps = [reps] if isinstance(reps, int) else list(reps)
    x, extra = s[0], len(reps) - s.ndim()
    if extra > 0:
        x = w.unsqueeze(x, *range(extra))
    return w.op("Tile", x, w.ints([*[1] * -extra, *reps] if extra < 0 else reps))


@writes
def repeat(w: Writer, s: Step) -> Name:
    repeats, axis, x = s.params["repeats"], s.params["axis"], s[0]
    n = s.ndim()
    length = s.shape()[axis % n] if axis is not None and n else None
    if axis is None:
        x, axis, n = w.reshape(x, [-1]), 0, 1
        length = int(np.prod([k or 0 for k in s.shape()])) if None not in s.shape() else None
    axis %= n
    if not isinstance(repeats, int) and len(repeats) == 1:
        (repeats,) = repeats
    if not isinstance(repeats, int):
        if length is None:
            raise s.refused("repeats for each element, of an axis whose length changes")
        return w.op("Gather", x, w.ints(np.repeat(np.arange(length), repeats).tolist()), axis=axis)
    wide = w.op(
        "Tile",
        w.unsqueeze(x, axis + 1),
        w.ints([1] * (axis + 1) + [repeats] + [1] * (n - axis - 1)),
    )
    return reshaped(w, s, wide)


# ---- joining and splitting -----------------------------------------------------------------------


def _alike(w: Writer, s: Step) -> list[Name]:
    return [w.cast(x, s.in_dtype(k), s.dtype()) for k, x in enumerate(s.names)]


@writes
def concatenate(w: Writer, s: Step) -> Name:
    axis = s.params.get("axis", s.params.get("dim"))
    given = _alike(w, s)
    if axis is None:
        given, axis = [w.reshape(x, [-1]) for x in given], 0
    return w.op("Concat", *given, axis=axis) if len(given) > 1 else w.op("Identity", given[0])


@writes
def stack(w: Writer, s: Step) -> Name:
    axis = s.params["axis"] % (s.ndim() + 1)
    return w.op("Concat", *[w.unsqueeze(x, axis) for x in _alike(w, s)], axis=axis)


@writes
def stacks(w: Writer, s: Step, least: int, axis: int, columns: bool = False) -> Name:
    parts = []
    for k, x in enumerate(_alike(w, s)):
        n = s.ndim(k)
        if n == 0:
            x, n = w.unsqueeze(x, 0), 1
        if columns and n == 1:
            x = w.unsqueeze(x, 1)
        elif n < least:
            x = _at_least(w, x, n, least)
        if least == 1:
            axis = 0 if n == 1 else 1
        parts.append(x)
    return w.op("Concat", *parts, axis=axis) if len(parts) > 1 else w.op("Identity", parts[0])


def _at_least(w: Writer, x: Name, have: int, want: int) -> Name:
    """NumPy's `atleast_1d` to `atleast_3d`."""
    if have >= want:
        return w.op("Identity", x)
    new = {
        (0, 1): [0],
        (0, 2): [0, 1],
        (1, 2): [0],
        (0, 3): [0, 1, 2],
        (1, 3): [0, 2],
        (2, 3): [2],
    }[have, want]
    return w.unsqueeze(x, *new)


@writes
def atleast(w: Writer, s: Step, axes: int) -> list[Name]:
    return [_at_least(w, x, s.ndim(k), axes) for k, x in enumerate(s.names)]


@writes
def split(w: Writer, s: Step, axis: int | None = None) -> list[Name]:
    axis = s.params.get("axis", 0) % s.ndim() if axis is None else min(axis, s.ndim() - 1)
    squeeze = bool(s.params.get("squeeze_axis"))
    count = s.node.count()
    known = s.shape()[axis]
    if known is None:
        if not isinstance(s.params.get("num_outputs", s.params.get("indices_or_sections")), int):
            raise s.refused(f"axis {axis} is split at given places, and its length changes")
        each = w.op("Div", w.length(s.node.inputs[0], axis), w.ints(count))
        outs = w.ops("Split", [s[0], w.op("Concat", *[each] * count, axis=0)], count, axis=axis)
    elif squeeze:
        outs = w.split(s[0], axis, [1] * count)
    else:
        outs = w.split(s[0], axis, [s.out_shape(k)[axis] or 0 for k in range(count)])
    return [w.squeeze(x, axis) for x in outs] if squeeze else outs


# ---- padding, parts ------------------------------------------------------------------------------


def _padded(w: Writer, s: Step, pairs: Sequence[Sequence[int]], mode: str, value: Any) -> Name:
    widths = w.ints([*[p[0] for p in pairs], *[p[1] for p in pairs]])
    if mode == "constant":
        return w.op("Pad", s[0], widths, w.constant(value, s.dtype()), mode="constant")
    return w.op("Pad", s[0], widths, mode=mode)


@writes
def pad(w: Writer, s: Step) -> Name:
    mode, n = s.params["mode"], s.ndim()
    pairs = np.broadcast_to(np.asarray(s.params["pad_width"], int), (n, 2)).tolist()
    if mode == "symmetric" and None not in s.shape():
        x = s[0]
        for axis, pair in enumerate(pairs):
            at = np.pad(np.arange(s.shape()[axis] or 0), tuple(pair), "symmetric")
            x = w.op("Gather", x, w.ints(at.tolist()), axis=axis) if any(pair) else x
        return x
    if mode not in ("constant", "edge", "reflect"):
        raise s.refused(f"ONNX has no padding mode {mode!r}")
    return _padded(w, s, pairs, mode, s.params["constant_values"])


@writes
def pad_nd(w: Writer, s: Step) -> Name:
    width = list(s.params["pad_width"])
    pairs = list(zip(width[::2], width[1::2], strict=True))
    return _padded(w, s, pairs, s.params["mode"], s.params["constant_value"])


@writes
def crop(w: Writer, s: Step) -> Name:
    size, given = s.out_shape()[2:], s.shape()[2:]
    if None in size or None in given:
        raise s.refused("the images' size changes")
    at = s.params["offset"]
    if s.params["center_crop"]:
        at = [(n - m) // 2 for n, m in zip(given, size, strict=True)]  # type: ignore[operator]
    ends = [a + n for a, n in zip(at, size, strict=True)]  # type: ignore[operator]
    return w.op("Slice", s[0], w.ints(at), w.ints(ends), w.ints([2, 3]))


@writes
def shape_array(w: Writer, s: Step) -> Name:
    return w.op("Shape", s[0])


@writes
def size_array(w: Writer, s: Step) -> Name:
    return w.reshape(w.op("Size", s[0]), [1])


@writes
def depth_to_space(w: Writer, s: Step) -> Name:
    return w.op("DepthToSpace", s[0], blocksize=s.params["block_size"], mode="DCR")


@writes
def space_to_depth(w: Writer, s: Step) -> Name:
    return w.op("SpaceToDepth", s[0], blocksize=s.params["block_size"])


@writes
def diag(w: Writer, s: Step, usual: tuple[int, int] = (0, 1)) -> Name:
    """A diagonal as the elements at its places; a vector as a matrix by a mask."""
    k = s.params.get("k", s.params.get("offset", 0))
    shape = s.shape()
    if len(shape) == 1:
        if None in shape:
            raise s.refused("the vector's length changes")
        n = (shape[0] or 0) + abs(k)
        place = np.diag(np.arange(1, (shape[0] or 0) + 1), k)
        assert place.shape == (n, n)
        full = w.op(
            "Gather",
            w.op("Pad", s[0], w.ints([1, 0]), w.constant(0, s.dtype())),
            w.constant(place, np.int64),
        )
        return full
    a, b = (
        s.params.get(key, d) % len(shape) for key, d in zip(("axis1", "axis2"), usual, strict=True)
    )
    n, m = shape[a], shape[b]
    if n is None or m is None:
        raise s.refused("the matrix's size changes")
    rest = [d for d in range(len(shape)) if d not in (a, b)]
    x = w.transpose(s[0], [a, b, *rest])
    count = len(np.diagonal(np.zeros((n, m)), k))
    at = np.stack([np.arange(count) + max(-k, 0), np.arange(count) + max(k, 0)], -1)
    found = w.op("GatherND", x, w.constant(at, np.int64))
    return w.transpose(found, [*range(1, len(rest) + 1), 0])


@writes
def triangle(w: Writer, s: Step, upper: int) -> Name:
    k = s.params["k"]
    if w.opset >= 14:
        return w.op("Trilu", s[0], w.constant(k, np.int64), upper=upper)
    rows, columns = s.shape()[-2:]
    if rows is None or columns is None:
        raise s.refused("the matrix's size changes, which needs opset 14")
    keep = (np.triu if upper else np.tril)(np.ones((rows, columns), bool), k)
    return w.op("Where", w.constant(keep), s[0], w.constant(0, s.dtype()))


# ---- made of shapes ------------------------------------------------------------------------------


def filled(w: Writer, s: Step, number: Any) -> Name:
    """One number in the shape of the result."""
    dtype = s.dtype()
    if dtype.kind == "b":
        return w.cast(filled_with(w, s, number, np.dtype(np.int32)), np.int32, bool)
    return filled_with(w, s, np.asarray(number).astype(dtype), dtype)


def filled_with(w: Writer, s: Step, number: Any, dtype: np.dtype[Any]) -> Name:
    value = w.onnx.numpy_helper.from_array(np.asarray([number], dtype))
    return w.op("ConstantOfShape", s.out_dims(), value=value)


@writes
def zeros(w: Writer, s: Step) -> Name:
    return filled(w, s, 0)


@writes
def ones(w: Writer, s: Step) -> Name:
    return filled(w, s, 1)


@writes
def full_like(w: Writer, s: Step) -> Name:
    return filled(w, s, s.params["fill_value"])


@writes
def full(w: Writer, s: Step) -> Name:
    return filled(w, s, s.params["val"])


@writes
def fill(w: Writer, s: Step) -> Name:
    return filled(w, s, s.params["scalar"])


def steps(w: Writer, s: Step, axis: int, k: int = 0) -> Name:
    """0, 1, 2, ... along an axis of an input, int64."""
    known = s.shape(k)[axis]
    if known is not None:
        return w.constant(np.arange(known), np.int64)
    return w.counting(w.length(s.node.inputs[k], axis))


@writes
def arange_like(w: Writer, s: Step) -> Name:
    p, dtype = s.params, s.dtype()
    if p["axis"] is not None:
        count = steps(w, s, s.axis(p["axis"]))
    else:
        count = w.counting(w.reshape(w.op("Size", s[0]), [1]))
    if p["repeat"] != 1:
        count = w.op("Div", count, w.constant(p["repeat"], np.int64))
    made = w.op("Mul", w.cast(count, np.int64, dtype), w.constant(p["step"], dtype))
    made = w.op("Add", made, w.constant(p["start"], dtype))
    return reshaped(w, s, made) if p["axis"] is None else made
