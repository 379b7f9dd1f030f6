"""ONNX's operators of shapes, parts and order as rows of the table; arithmetic of lengths is done while reading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mxjax import errors
from mxjax.symbol.node import Entry

from .control import filled
from .reader import Length, Lengths, Reader, Step, Value, reads, room

_FAR = 1 << 31


def _items(s: Step, k: int) -> list[Any] | None:
    """An input as numbers and lengths; None where it is neither."""
    value = s.value(k)
    if isinstance(value, Lengths):
        return value.items
    return [int(n) for n in value.reshape(-1)] if isinstance(value, np.ndarray) else None


# ---- lengths -------------------------------------------------------------------------------------------


@reads("Shape")
def shape(r: Reader, s: Step) -> Value:
    known = s.shape()
    if known is None:
        return s.make("shape_array", s[0])
    start, end = s.get("start", 0), s.get("end", len(known))
    if None not in known:
        return np.asarray(known[start:end], np.int64)
    return Lengths([Length(s[0], d) if n is None else n for d, n in enumerate(known)][start:end])


@reads("Size")
def size(r: Reader, s: Step) -> Value:
    known = s.shape()
    if known is not None and None not in known:
        return np.asarray(int(np.prod(known)), np.int64)  # type: ignore[arg-type]
    return s.make("reshape", s.make("size_array", s[0]), newshape=())


@reads("Constant")
def constant(r: Reader, s: Step) -> Value:
    for key, value in s.attrs.items():
        if key == "value":
            return np.asarray(r.onnx.numpy_helper.to_array(value))
        if key in ("value_float", "value_floats"):
            return np.asarray(value, np.float32)
        if key in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
    raise s.refused(f"a constant of {', '.join(s.attrs) or 'nothing'}")


@reads("ConstantOfShape")
def constant_of_shape(r: Reader, s: Step) -> Value:
    number = np.zeros(1, np.float32)
    if "value" in s.attrs:
        number = np.asarray(r.onnx.numpy_helper.to_array(s.attrs["value"]))
    items = _items(s, 0)
    if items is None:
        raise s.refused("its shape is computed where the network runs")
    if all(isinstance(n, int) for n in items):
        if math.prod(items) <= 1 << 16:
            return np.full(items, number.reshape(-1)[0], number.dtype)
        return s.make("full", shape=tuple(items), fill_value=number.item(), dtype=number.dtype.name)
    return _broadcast(s, s.parameter("value", number.reshape(())), items)


@reads("Range")
def range_(r: Reader, s: Step) -> Value:
    ends = [_items(s, k) for k in range(3)]
    if any(e is None for e in ends):
        raise s.refused("its ends are computed where the network runs")
    start, stop, step = (e[0] for e in ends)  # type: ignore[index]
    known = [isinstance(n, int) for n in (start, stop, step)]
    if all(known):
        ends_: list[Any] = [s.numbers(k).item() for k in range(3)]
        room(s.wish, max(int((ends_[1] - ends_[0]) / ends_[2]), 0))
        return np.arange(*ends_, dtype=s.numbers(0).dtype)
    if known != [True, False, True]:
        raise s.refused("its ends are computed where the network runs")
    if start or step != 1:
        raise s.refused("a range of a length that changes begins at 0 and counts by 1")
    made = s.make("arange_like", stop.entry, axis=stop.axis, start=0.0, step=1.0)
    return s.make("cast", made, dtype="int64")


def _of_lengths(s: Step, items: Sequence[Any]) -> Value:
    return (
        np.asarray(items, np.int64)
        if all(isinstance(n, int) for n in items)
        else Lengths(list(items))
    )


# ---- reshaping -------------------------------------------------------------------------------------------


@reads("Reshape")
def reshape(r: Reader, s: Step) -> Value:
    value = s.value(0)
    target = s.ints("shape") or _items(s, 1)
    if target is None:
        if "shape" not in s.attrs:
            raise s.refused("its shape is computed where the network runs")
        target = []
    if isinstance(value, Lengths) and target in ([-1], [len(value.items)], [1], []):
        return Lengths(value.items, scalar=target == [])
    return _shaped(s, s[0], list(target), bool(s.get("allowzero", 0)))


def _shaped(s: Step, x: Entry, target: list[Any], zero: bool = False) -> Entry:
    """``x`` in a shape of numbers (0 copies, -1 follows) and lengths."""
    if not zero:
        given = s.shape()
        codes: list[Any] = []
        for k, n in enumerate(target):
            if isinstance(n, Length) and n.entry == x and n.axis == k:
                codes.append(0)
            elif (
                isinstance(n, Length)
                and given is not None
                and k < len(given)
                and _is_length(s, n, k)
            ):
                codes.append(0)
            else:
                codes.append(n)
        open_ = [k for k, n in enumerate(codes) if isinstance(n, Length)]
        if len(open_) == 1 and -1 not in codes:
            codes[open_[0]] = -1
        if not any(isinstance(n, Length) for n in codes):
            # The codes of mx.nd: 0 copies the length in the same place, -1 follows.
            return (
                s.make("reshape@nd", x, shape=tuple(codes))
                if codes
                else s.make("reshape", x, newshape=())
            )
        if codes.count(0) == 0:
            return _like_lengths(s, x, target)
        raise s.refused("several of the lengths of its shape are computed where the network runs")
    if any(isinstance(n, Length) for n in target):
        return _like_lengths(s, x, target)
    return s.make("reshape", x, newshape=tuple(target))


def _is_length(s: Step, n: Length, axis: int) -> bool:
    """Whether a length is shown to be that of the first input's axis."""
    names = {
        e: name
        for name, e in s.reader.values.items()
        if isinstance(e, tuple) and not isinstance(e, Lengths)
    }
    shown = s.reader._shown
    other, mine = shown.get(names.get(n.entry, "")), shown.get(s.node.input[0])
    if (
        other is None
        or mine is None
        or n.axis >= len(other.shape.dim)
        or axis >= len(mine.shape.dim)
    ):
        return False
    a, b = other.shape.dim[n.axis], mine.shape.dim[axis]
    return bool(a.dim_param) and a.dim_param == b.dim_param


def _like_lengths(s: Step, x: Entry, target: list[Any]) -> Entry:
    """In the whole shape of another array."""
    source = _whole(s, target)
    if source is None:
        raise s.refused("several of the lengths of its shape are computed where the network runs")
    return s.make("reshape_like", x, source)


def _whole(s: Step, target: Sequence[Any]) -> Entry | None:
    """The array whose shape these lengths are."""
    entries = {n.entry for n in target if isinstance(n, Length)}
    if len(entries) != 1:
        return None
    (entry,) = entries
    name = next(
        (k for k, v in s.reader.values.items() if isinstance(v, tuple) and v == entry), None
    )
    known = s.reader.shape(name) if name is not None else None
    if known is None or len(known) != len(target):
        return None
    same = all(
        n.axis == d if isinstance(n, Length) else n == known[d] for d, n in enumerate(target)
    )
    return entry if same else None


@reads("Flatten")
def flatten(r: Reader, s: Step) -> Value:
    axis = s.get("axis", 1)
    if axis == 1:
        return s.make("batch_flatten", s[0])
    if axis == 0:
        return s.make("reshape", s[0], newshape=(1, -1))
    n = s.ndim()
    if axis < 0:
        axis += n
        if axis == 1:
            return s.make("batch_flatten", s[0])
    known = s.shape() or ()
    if None in known[axis:]:
        raise s.refused("lengths that change")
    return s.make("reshape", s[0], newshape=(-1, int(np.prod(known[axis:]))))  # type: ignore[arg-type]


@reads("Transpose")
def transpose(r: Reader, s: Step) -> Value:
    perm = s.ints("perm")
    return s.make("transpose", s[0], axes=None if perm is None else tuple(perm))


@reads("Squeeze")
def squeeze(r: Reader, s: Step) -> Value:
    value, axes = s.value(0), s.ints("axes", 1)
    if isinstance(value, Lengths):
        return Lengths(value.items, scalar=True)
    if axes is not None and len(axes) == 1:
        return s.make("squeeze", s[0], axis=axes[0])
    return s.make("squeeze", s[0], axis=None if axes is None else tuple(axes))


@reads("Unsqueeze")
def unsqueeze(r: Reader, s: Step) -> Value:
    value, axes = s.value(0), s.ints("axes", 1)
    if isinstance(value, Lengths) and value.scalar:
        return Lengths(value.items)
    assert axes is not None
    if any(a < 0 for a in axes) and len(axes) > 1:
        n = s.ndim() + len(axes)
        axes = [a % n for a in axes]
    made = s[0]
    for a in sorted(axes):
        made = s.make("expand_dims", made, axis=a)
    return made


@reads("Expand")
def expand(r: Reader, s: Step) -> Value:
    items = _items(s, 1)
    if items is None:
        raise s.refused("its shape is computed where the network runs")
    return _broadcast(s, s[0], items)


def _broadcast(s: Step, x: Entry, items: Sequence[Any]) -> Entry:
    if all(isinstance(n, int) for n in items):
        # ONNX's Expand broadcasts both ways: a length 1 keeps the array's own.
        if math.prod(items) == 1:
            return (
                s.make("broadcast_to@nd", x, shape=tuple(items))
                if s.shape() == ()
                else _padded_axes(s, x, len(items))
            )
        known = s.shape() if x == s.reader.made(s.node.input[0]) else None
        if known is not None and None not in known:
            return s.make("broadcast_to", x, shape=tuple(np.broadcast_shapes(tuple(items), known)))  # type: ignore[arg-type]
        if 1 not in items:
            return s.make("broadcast_to", x, shape=tuple(items))
        room(s.wish, *items)
        whole = s.parameter("shape", np.zeros(items, np.float32))
        return s.make("broadcast_arrays", x, whole)
    source = _whole(s, items)
    if source is not None:
        return s.make("broadcast_like", x, source)
    # A row of ones for each length that changes, as long as that.
    n = len(items)
    for d, length in enumerate(items):
        if isinstance(length, Length):
            steps = s.make("arange_like", length.entry, axis=length.axis)
            line = s.make("reshape", steps, newshape=tuple(-1 if k == d else 1 for k in range(n)))
            x = s.make("broadcast_arrays", x, line)
        elif length != 1:
            room(s.wish, length)
            line = s.parameter(
                f"axis{d}", np.zeros([length if k == d else 1 for k in range(n)], np.float32)
            )
            x = s.make("broadcast_arrays", x, line)
    return x


def _padded_axes(s: Step, x: Entry, n: int) -> Entry:
    known = s.shape()
    have = len(known) if known is not None else n
    for _ in range(n - have):
        x = s.make("expand_dims", x, axis=0)
    return x


@reads("Tile")
def tile(r: Reader, s: Step) -> Value:
    return s.make("tile", s[0], reps=tuple(int(n) for n in s.numbers(1, "the repeats")))


# ---- joining and splitting -----------------------------------------------------------------------------------


@reads("Concat")
def concat(r: Reader, s: Step) -> Value:
    parts = [s.value(k) for k in range(len(s))]
    if any(isinstance(p, Lengths) for p in parts) and all(
        isinstance(p, (Lengths, np.ndarray)) for p in parts
    ):
        return _of_lengths(s, [n for k in range(len(s)) for n in _items(s, k) or ()])
    return s.make("concatenate", *[s[k] for k in range(len(s))], axis=s.get("axis", 1))


@reads("Split")
def split(r: Reader, s: Step) -> list[Value]:
    axis, count = s.get("axis", 0), len(s.node.output)
    lengths = s.ints("split") if "split" in s.attrs else _items(s, 1) if s.has(1) else None
    if lengths is not None and any(not isinstance(n, int) for n in lengths):
        raise s.refused("its places are computed where the network runs")
    if lengths is None or len(set(lengths)) == 1:
        if count == 1:
            return [s.make("copy", s[0])]
        known = s.shape()
        n = known[axis] if known is not None else None
        if n is None or n % count == 0 or lengths is not None:
            return list(s.several("split", [s[0]], axis=axis, indices_or_sections=count))
        each = -(-n // count)
        lengths = [each] * (count - 1) + [n - each * (count - 1)]
    places = tuple(int(n) for n in np.cumsum(lengths)[:-1])
    return list(s.several("split", [s[0]], axis=axis, indices_or_sections=places))


@reads("Pad")
def pad(r: Reader, s: Step) -> Value:
    whole = filled(r, s)
    if whole is not None:
        return whole
    mode = s.get("mode", "constant")
    widths = s.ints("pads", 1) or s.ints("paddings") or []
    number = s.attrs.get("value", 0.0)
    if s.has(2):
        number = s.numbers(2, "the padding's number").item()
    n = len(widths) // 2
    pairs = list(zip(widths[:n], widths[n:], strict=True))
    axes = s.ints("axes", 3)
    if axes is not None:
        every = s.ndim()
        found = dict(zip([a % every for a in axes], pairs, strict=True))
        pairs = [found.get(d, (0, 0)) for d in range(every)]
    x = s[0]
    if any(a < 0 or b < 0 for a, b in pairs):  # cuts
        begin = tuple(max(-a, 0) for a, _ in pairs)
        end = tuple(b if b < 0 else None for _, b in pairs)
        x = s.make("slice_", x, begin=begin, end=end)
        pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if mode == "wrap":
        raise s.refused("mode='wrap'")
    extra = {"constant_values": number} if mode == "constant" else {}
    return s.make("pad", x, pad_width=tuple(pairs), mode=mode, **extra)


@reads("DepthToSpace")
def depth_to_space(r: Reader, s: Step) -> Value:
    b = s.get("blocksize")
    if s.get("mode", "DCR") == "DCR":
        return s.make("depth_to_space", s[0], block_size=b)
    known = s.shape()
    if known is None or len(known) != 4 or None in known[1:]:
        raise s.refused("mode='CRD' of images whose size changes")
    _, c, h, w = (n or 0 for n in known)
    x = s.make("reshape", s[0], newshape=(-1, c // (b * b), b, b, h, w))
    return s.make(
        "reshape",
        s.make("transpose", x, axes=(0, 1, 4, 2, 5, 3)),
        newshape=(-1, c // (b * b), h * b, w * b),
    )


@reads("SpaceToDepth")
def space_to_depth(r: Reader, s: Step) -> Value:
    return s.make("space_to_depth", s[0], block_size=s.get("blocksize"))


# ---- parts --------------------------------------------------------------------------------------------------------


_MOST_AXES = 32


@reads("Slice")
def slice_(r: Reader, s: Step) -> Value:
    starts, ends = (
        s.ints(n) if n in s.attrs else _items(s, k) for k, n in ((1, "starts"), (2, "ends"))
    )
    axes, steps = s.ints("axes", 3), s.ints("steps", 4)
    if starts is None or ends is None:
        raise s.refused("its places are computed where the network runs")
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    value = s.value(0)
    if isinstance(value, Lengths):
        part = value.items[slice(_end(starts[0]), _end(ends[0]), steps[0])]
        return _of_lengths(s, part)
    x = s[0]
    n = max(a if a >= 0 else s.ndim() + a for a in axes) + 1
    if n > _MOST_AXES:
        raise errors.FormatError(
            f"the node {s.wish!r} slices axis {n - 1}; arrays have {_MOST_AXES} axes at most"
        )
    begin: list[Any] = [None] * n
    end: list[Any] = [None] * n
    by: list[Any] = [None] * n
    for axis, start, stop, step in zip(axes, starts, ends, steps, strict=True):
        axis = axis if axis >= 0 else axis + s.ndim()
        if isinstance(start, Length):
            raise s.refused("its places are computed where the network runs")
        if isinstance(stop, Length):
            if start or step != 1:
                raise s.refused("its places are computed where the network runs")
            x = _cut(s, x, axis, stop)
            continue
        begin[axis], by[axis] = _end(start), step
        end[axis] = None if step < 0 and stop < -_FAR + 2 else _end(stop)
    if any(v is not None for v in (*begin, *end)) or any(b not in (None, 1) for b in by):
        x = s.make("slice_", x, begin=tuple(begin), end=tuple(end), step=tuple(b or 1 for b in by))
    return x


def _cut(s: Step, x: Entry, axis: int, length: Length) -> Entry:
    """The beginning along one axis, as long as another array's."""
    line = s.make("arange_like", length.entry, axis=length.axis)
    line = s.make("reshape", line, newshape=(*[1] * axis, -1))
    return s.make("slice_like", x, line, axes=(axis,))


def _end(n: int) -> int | None:
    return None if n >= _FAR - 1 else int(n)


@reads("Gather")
def gather(r: Reader, s: Step) -> Value:
    axis, value = s.get("axis", 0), s.value(0)
    at = s.value(1)
    if isinstance(value, Lengths) and isinstance(at, np.ndarray):
        found = [value.items[int(k)] for k in at.reshape(-1)]
        made = _of_lengths(s, found)
        if at.ndim == 0:
            return (
                np.asarray(found[0], np.int64)
                if isinstance(found[0], int)
                else Lengths(found, scalar=True)
            )
        return made
    if isinstance(at, np.ndarray) and at.ndim == 0:
        k = int(at)
        part = s.make("slice_axis", s[0], axis=axis, begin=k, end=k + 1 if k != -1 else None)
        return s.make("squeeze", part, axis=axis)
    return s.make("take", s[0], s[1], axis=axis, mode="raise")


@reads("GatherElements")
def gather_elements(r: Reader, s: Step) -> Value:
    return s.make("take_along_axis", s[0], s[1], axis=s.get("axis", 0))


@reads("GatherND")
def gather_nd(r: Reader, s: Step) -> Value:
    if s.get("batch_dims", 0):
        if s.get("batch_dims") != 1 or (s.shape(1) or (None,))[-1] != 1:
            raise s.refused(f"batch_dims={s.get('batch_dims')}")
        n, m = s.ndim(0), s.ndim(1)
        # The rows of each sample, by one number for each: (B, M, 1) of (B, N, ...).
        if m == 2:
            at = s.make("reshape", s[1], newshape=(-1, 1, *[1] * (n - 2)))
            return s.make("squeeze", _along(s, at, n), axis=1)
        at = s[1]
        for _ in range(n - m):
            at = s.make("expand_dims", at, axis=-1)
        if n < m:
            at = s.make("squeeze", at, axis=-1)
        return _along(s, at, n)
    n = s.ndim(1)
    return s.make("gather_nd", s[0], s.make("transpose", s[1], axes=(n - 1, *range(n - 1))))


def _along(s: Step, at: Entry, n: int) -> Entry:
    """Rows of each sample; the numbers are the same for all that a row holds."""
    if n > 2:
        first = s.make("slice_axis", s[0], axis=1, begin=0, end=1)
        at = s.make("add", at, s.make("cast", s.make("zeros_like", first), dtype="int64"))
    return s.make("take_along_axis", s[0], at, axis=1)


@reads("ScatterND")
def scatter_nd(r: Reader, s: Step) -> Value:
    how = s.get("reduction", "none")
    if how not in ("none", "add"):
        raise s.refused(f"reduction={how!r}")
    n = s.ndim(1)
    at = s.make("transpose", s[1], axes=(n - 1, *range(n - 1)))
    return s.make("index_add" if how == "add" else "index_update", s[0], at, s[2])


@reads("ScatterElements")
def scatter_elements(r: Reader, s: Step) -> Value:
    how = s.get("reduction", "none")
    if how not in ("none", "add"):
        raise s.refused(f"reduction={how!r}")
    n = s.ndim()
    at = s.make("cast", s[1], dtype="int64")
    coordinates = [
        at
        if d == s.get("axis", 0) % n
        else s.make("squeeze", s.make("index_array", at, axes=(d,)), axis=-1)
        for d in range(n)
    ]
    return s.make(
        "index_add" if how == "add" else "index_update",
        s[0],
        s.make("stack", *coordinates, axis=0),
        s[2],
    )


@reads("OneHot")
def one_hot(r: Reader, s: Step) -> Value:
    depth = int(s.numbers(1, "the depth").reshape(-1)[0])
    off, on = s.numbers(2, "the values").tolist()
    dtype = s.numbers(2).dtype.name
    at = s.make("mod_scalar", s.make("cast", s[0], dtype="int64"), scalar=depth)
    made = s.make("one_hot", at, depth=depth, on_value=on, off_value=off, dtype=dtype)
    axis = s.get("axis", -1)
    return made if axis == -1 else s.make("moveaxis", made, source=-1, destination=axis)


@reads("Compress")
def compress(r: Reader, s: Step) -> Value:
    if not isinstance(s.value(1), np.ndarray) or "axis" not in s.attrs:
        raise s.refused("the choice is computed where the network runs")
    at = s.parameter("places", np.flatnonzero(s.numbers(1)))
    return s.make("take", s[0], at, axis=s.get("axis"), mode="clip")


@reads("TopK")
def topk(r: Reader, s: Step) -> list[Value]:
    if "k" in s.attrs:
        k = int(s.attrs["k"])
    else:
        items = _items(s, 1) or [None]
        length = items[0]
        if isinstance(length, Length):
            whole = length.entry == s[0] and length.axis == s.get("axis", -1) % s.ndim()
            if not whole and not _is_length(s, length, s.get("axis", -1) % s.ndim()):
                raise s.refused("k is computed where the network runs")
            k = 0
        elif length is None:
            raise s.refused("k is computed where the network runs")
        else:
            k = length
    how: dict[str, Any] = {"axis": s.get("axis", -1), "k": k, "is_ascend": not s.get("largest", 1)}
    return list(s.several("topk", [s[0]], ret_typ="both", dtype="int64", **how))


@reads("Trilu")
def trilu(r: Reader, s: Step) -> Value:
    k = int(s.numbers(1, "k").reshape(())) if s.has(1) else 0
    return s.make("triu" if s.get("upper", 1) else "tril", s[0], k=k)


@reads("EyeLike")
def eye_like(r: Reader, s: Step) -> Value:
    known = s.shape()
    if known is None or None in known:
        raise s.refused("the shape changes")
    dtype = r.np_dtype(s.get("dtype", 1))
    room(s.wish, known[0] or 0, known[1] or 0)
    return np.eye(known[0] or 0, known[1], s.get("k", 0), dtype)


@reads("ReverseSequence")
def reverse_sequence(r: Reader, s: Step) -> Value:
    return s.make(
        "sequence_reverse", s[0], s[1], use_sequence_length=True, axis=s.get("time_axis", 0)
    )
