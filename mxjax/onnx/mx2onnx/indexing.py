"""Elements by number, parts, masks and order in ONNX's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxjax.ops.keys import ARRAY, Slice

from .shape import reshaped, steps
from .writer import FAR, Name, Step, Writer, writes


def _numbers(w: Writer, s: Step, k: int, have: Any = None) -> Name:
    """An input as int64."""
    return w.cast(s[k], have or s.in_dtype(k), np.int64)


def _fitted(w: Writer, s: Step, at: Name, axis: int, mode: str) -> Name:
    """Places within an axis of the first input, as the mode says."""
    known = s.shape()[axis]
    n = (
        w.squeeze(w.length(s.node.inputs[0], axis), 0)
        if known is None
        else w.constant(known, np.int64)
    )
    return _in_range(w, at, n, mode, known)


def _in_range(w: Writer, at: Name, n: Name, mode: str, known: int | None) -> Name:
    if mode == "wrap":
        return w.op("Mod", at, n)
    if mode == "raise":
        return at  # from the end, too; what is out of range is ONNX's error where it runs
    one = w.constant(1, np.int64)
    last = w.op("Sub", n, one) if known is None else w.constant(max(known - 1, 0), np.int64)
    return w.op("Min", w.op("Max", at, w.constant(0, np.int64)), last)


@writes
def take(w: Writer, s: Step) -> Name:
    axis, x = s.params["axis"], s[0]
    at = _numbers(w, s, 1)
    if axis is None:
        at = _in_range(w, at, w.op("Size", x), s.params["mode"], None)
        return w.op("Gather", w.reshape(x, [-1]), at, axis=0)
    axis = s.axis(axis)
    return w.op("Gather", x, _fitted(w, s, at, axis, s.params["mode"]), axis=axis)


@writes
def embedding(w: Writer, s: Step) -> Name:
    at = _numbers(w, s, 0)
    rows = s.shape(1)[0] or 1
    at = w.op("Min", w.op("Max", at, w.constant(0, np.int64)), w.constant(rows - 1, np.int64))
    return w.op("Gather", s[1], at, axis=0)


@writes
def pick(w: Writer, s: Step) -> Name:
    axis = s.params.get("axis", -1)
    if axis is None:
        raise s.refused("axis=None")
    axis = s.axis(axis)
    at = _fitted(w, s, _numbers(w, s, 1), axis, s.params.get("mode", "clip"))
    if s.ndim(1) < s.ndim():
        at = w.unsqueeze(at, axis)
    found = w.op("GatherElements", s[0], at, axis=axis)
    return found if s.params.get("keepdims") else w.squeeze(found, axis)


@writes
def take_along_axis(w: Writer, s: Step) -> Name:
    axis = s.params["axis"]
    if axis is None:
        return w.op("GatherElements", w.reshape(s[0], [-1]), _numbers(w, s, 1), axis=0)
    return w.op("GatherElements", s[0], _numbers(w, s, 1), axis=s.axis(axis))


def _last(w: Writer, s: Step, k: int) -> Name:
    """Indices whose first axis counts the axes of the array, with that last."""
    at, n = _numbers(w, s, k), s.ndim(k)
    if n == 0:
        return w.unsqueeze(at, 0)
    return w.transpose(at, [*range(1, n), 0])


@writes
def gather_nd(w: Writer, s: Step) -> Name:
    return w.op("GatherND", s[0], _last(w, s, 1))


@writes
def scatter_nd(w: Writer, s: Step, add: bool = False) -> Name:
    value = w.onnx.numpy_helper.from_array(np.zeros(1, s.dtype()))
    empty = w.op("ConstantOfShape", w.ints(s.params["shape"]), value=value)
    return _scattered(w, s, empty, _last(w, s, 1), s[0], add)


def _scattered(w: Writer, s: Step, x: Name, at: Name, updates: Name, add: bool) -> Name:
    if not add:
        return w.op("ScatterND", x, at, updates)
    if w.opset < 16:
        raise s.refused("adding at places needs opset 16: export_model(..., opset_version=16)")
    return w.op("ScatterND", x, at, updates, reduction="add")


@writes
def index_put(w: Writer, s: Step, add: bool) -> Name:
    at = _last(w, s, 1)
    if "val" in s.by_name:
        k = s.node.names.index("val")
        value = w.cast(s[k], s.in_dtype(k), s.dtype())
    else:
        value = s.array("val")
    # Updates have the shape of the places and of what lies there.
    shape = w.op("Shape", w.op("GatherND", s[0], at))
    x, updates = w.cast(s[0], s.in_dtype(), s.dtype()), w.op("Expand", value, shape)
    return _scattered(w, s, x, at, updates, add)


@writes
def index_copy(w: Writer, s: Step) -> Name:
    return w.op("ScatterND", s[0], w.unsqueeze(_numbers(w, s, 1), s.ndim(1)), s[2])


@writes
def one_hot(w: Writer, s: Step) -> Name:
    """By comparison: numbers out of range have no place, where ONNX counts negative ones from the end."""
    hot = w.op(
        "Equal",
        w.unsqueeze(_numbers(w, s, 0), s.ndim()),
        w.constant(np.arange(s.params["depth"]), np.int64),
    )
    on, off = (w.constant(s.params[k], s.dtype()) for k in ("on_value", "off_value"))
    return w.op("Where", hot, on, off)


@writes
def where(w: Writer, s: Step, of_rows: bool = False) -> Name:
    holds = w.cast(s.array("condition"), s.in_dtype(s.node.names.index("condition")), bool)
    if of_rows and s.ndim(0) == 1 and s.ndim(1) > 1:
        holds = w.reshape(holds, [-1, *[1] * (s.ndim(1) - 1)])
    pair = []
    for name in "xy":
        x = s.array(name)
        pair.append(
            w.cast(x, s.in_dtype(s.node.names.index(name)), s.dtype()) if name in s.by_name else x
        )
    return w.op("Where", holds, *pair)


# ---- parts ---------------------------------------------------------------------------------------


def sliced(
    w: Writer, x: Name, parts: Sequence[tuple[int, int | None, int | None, int | None]]
) -> Name:
    """The part at slices (axis, start, stop, step)."""
    kept = [
        p
        for p in parts
        if p[1:] not in ((None, None, None), (None, None, 1), (0, None, 1), (0, None, None))
    ]
    if not kept:
        return w.op("Identity", x)
    axes, begin, end, step = [], [], [], []
    for axis, start, stop, by in kept:
        by = 1 if by is None else by
        axes.append(axis)
        begin.append((0 if by > 0 else FAR) if start is None else start)
        end.append((FAR if by > 0 else -FAR) if stop is None else stop)
        step.append(by)
    return w.op("Slice", x, w.ints(begin), w.ints(end), w.ints(axes), w.ints(step))


def _listed(value: Any, n: int) -> list[Any]:
    if value is None or value == ():
        return [None] * n
    return [*(value if isinstance(value, (list, tuple)) else [value])] + [None] * n


@writes
def slice_(w: Writer, s: Step) -> Name:
    n = len(_listed(s.params["begin"], 0)) if s.params["begin"] is not None else 1
    parts = zip(
        range(n), *(_listed(s.params[k], n) for k in ("begin", "end", "step")), strict=False
    )
    return sliced(w, s[0], list(parts))


@writes
def slice_axis(w: Writer, s: Step) -> Name:
    return sliced(w, s[0], [(s.axis(s.params["axis"]), s.params["begin"], s.params["end"], 1)])


@writes
def slice_like(w: Writer, s: Step) -> Name:
    axes = s.params["axes"]
    found = (
        range(min(s.ndim(), s.ndim(1)))
        if axes in ((), None)
        else ([axes] if isinstance(axes, int) else axes)
    )
    pairs = [(a % s.ndim(), a % s.ndim(1)) for a in found]
    ends = w.joined([w.length(s.node.inputs[1], b) for _, b in pairs])
    return w.op("Slice", s[0], w.ints([0] * len(pairs)), ends, w.ints([a for a, _ in pairs]))


def _spelt(s: Step) -> list[Any]:
    """An index with an entry for each axis."""
    key = list(s.params["key"])
    taken = sum(k is not None and k is not Ellipsis for k in key)
    if Ellipsis not in key:
        key.append(Ellipsis)
    at = key.index(Ellipsis)
    return [*key[:at], *[Slice(None, None, None)] * (s.ndim() - taken), *key[at + 1 :]]


@writes
def basic_index(w: Writer, s: Step) -> Name:
    if len(s) > 1:
        raise s.refused("an index that is computed")
    parts, gone, fresh, axis, shown = [], [], [], 0, 0
    for k in _spelt(s):
        if k is None:
            fresh.append(shown)
            shown += 1
            continue
        if isinstance(k, int):
            parts.append((axis, k, None if k == -1 else k + 1, 1))
            gone.append(axis)
        else:
            parts.append((axis, *k))
            shown += 1
        axis += 1
    x = sliced(w, s[0], parts)
    return w.unsqueeze(w.squeeze(x, *gone), *fresh)


@writes
def advanced_index(w: Writer, s: Step) -> Name:
    """Index arrays side by side, among slices."""
    key = _spelt(s)
    if any(k is None for k in key):
        raise s.refused("new axes beside index arrays")
    given = iter(range(1, len(s)))
    arrays: list[tuple[int, Name, int]] = []  # axis, numbers, how many axes these have
    parts = []
    for axis, k in enumerate(key):
        if k == ARRAY:
            at = next(given)
            arrays.append((axis, _numbers(w, s, at), s.ndim(at)))
        elif isinstance(k, Slice):
            parts.append((axis, *k))
        else:
            numbers = np.asarray(k, np.int64)
            arrays.append((axis, w.constant(numbers), numbers.ndim))
    x = sliced(w, s[0], parts)
    axes = [a for a, _, _ in arrays]
    if len(arrays) == 1:
        return w.op("Gather", x, arrays[0][1], axis=axes[0])
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise s.refused("index arrays with slices between them")
    depth = max(n for _, _, n in arrays)
    if any(n != depth for _, _, n in arrays):
        arrays = [(a, w.unsqueeze(at, *range(depth - n)), depth) for a, at, n in arrays]
    whole = w.op("Shape", arrays[0][1])
    for _, numbered, _ in arrays[1:]:
        whole = w.op("Max", whole, w.op("Shape", numbered))
    places = [w.unsqueeze(w.op("Expand", numbered, whole), depth) for _, numbered, _ in arrays]
    rest = [a for a in range(s.ndim()) if a not in axes]
    found = w.op("GatherND", w.transpose(x, [*axes, *rest]), w.op("Concat", *places, axis=depth))
    before = axes[0]  # the axes before the arrays go back to the front
    perm = [*range(depth, depth + before), *range(depth), *range(depth + before, depth + len(rest))]
    return w.transpose(found, perm)


@writes
def basic_index_assign(w: Writer, s: Step) -> Name:
    """The array's parts before, between and after, with the value in their midst."""
    key = _spelt(s)
    if len(s) > 2:
        raise s.refused("an index that is computed")
    windows: list[tuple[int, int, int | None]] = []
    sizes: list[Any] = []
    gone: list[int] = []
    shape = s.shape()
    for k in key:
        if k is None:
            raise s.refused("a new axis in an assignment")
        axis = len(windows)
        n = shape[axis]
        if isinstance(k, int):
            if n is None:
                raise s.refused(f"the length of axis {axis} changes")
            at = k % n
            windows.append((at, at + 1, n))
            sizes.append(1)
            gone.append(axis)
        elif tuple(k) in ((None, None, None), (None, None, 1)):
            windows.append((0, FAR, n))
            sizes.append(n)
        else:
            if n is None:
                raise s.refused(f"the length of axis {axis} changes")
            start, stop, step = slice(*k).indices(n)
            if step != 1:
                raise s.refused("an assignment to every second element")
            windows.append((start, max(stop, start), n))
            sizes.append(max(stop - start, 0))
    value = w.cast(s[1], s.in_dtype(1), s.dtype())
    shown = [a for a in range(len(sizes)) if a not in gone]
    value = w.squeeze(value, *range(max(s.ndim(1) - len(shown), 0)))
    if shown:
        lengths = [
            w.length(s.node.inputs[0], a) if sizes[a] is None else w.ints(sizes[a]) for a in shown
        ]
        known = [sizes[a] for a in shown]
        value = w.op("Expand", value, w.joined(lengths) if None in known else w.ints(known))
    value = w.unsqueeze(value, *gone)
    return _put(w, s[0], value, windows, 0)


def _put(
    w: Writer, x: Name, value: Name, windows: Sequence[tuple[int, int, int | None]], axis: int
) -> Name:
    while axis < len(windows) and (windows[axis][0], windows[axis][1]) in (
        (0, FAR),
        (0, windows[axis][2]),
    ):
        axis += 1
    if axis == len(windows):
        return value
    start, stop, n = windows[axis]
    inner = value
    if any((a, b) not in ((0, FAR), (0, m)) for a, b, m in windows[axis + 1 :]):
        inner = _put(w, w.slice(x, axis, start, stop), value, windows, axis + 1)
    parts = [w.slice(x, axis, 0, start)] if start else []
    parts.append(inner)
    if n is None or stop < n:
        parts.append(w.slice(x, axis, stop, FAR))
    return w.op("Concat", *parts, axis=axis) if len(parts) > 1 else inner


@writes
def mask_assign(w: Writer, s: Step) -> Name:
    mask = w.unsqueeze(w.cast(s[1], s.in_dtype(1), bool), *range(s.ndim(1), s.ndim(0)))
    value = w.cast(s[2], s.in_dtype(2), s.dtype())
    if s.ndim(2) > s.ndim(0):
        value = w.squeeze(value, *range(s.ndim(2) - s.ndim(0)))
    return w.op("Where", mask, value, s[0])


# ---- sequences -----------------------------------------------------------------------------------


def _lengths(w: Writer, s: Step) -> Name | None:
    if not s.params["use_sequence_length"] or not s.has("sequence_length"):
        return None
    return _numbers(w, s, s.node.names.index("sequence_length"))


@writes
def sequence_mask(w: Writer, s: Step) -> Name:
    lengths, axis = _lengths(w, s), s.params["axis"]
    if lengths is None:
        return w.op("Identity", s[0])
    at = w.unsqueeze(steps(w, s, axis), 1 - axis)
    late = w.op("GreaterOrEqual", at, w.unsqueeze(lengths, axis))
    late = w.unsqueeze(late, *range(2, s.ndim()))
    return w.op("Where", late, w.constant(s.params["value"], s.dtype()), s[0])


@writes
def sequence_last(w: Writer, s: Step) -> Name:
    lengths, axis = _lengths(w, s), s.params["axis"]
    if lengths is None:
        return w.op("Gather", s[0], w.constant(-1, np.int64), axis=axis)
    x = s[0] if axis == 1 else w.transpose(s[0], [1, 0, *range(2, s.ndim())])
    return w.op("GatherND", x, w.unsqueeze(w.op("Sub", lengths, w.ints(1)), 1), batch_dims=1)


@writes
def sequence_reverse(w: Writer, s: Step) -> Name:
    lengths, axis = _lengths(w, s), s.params["axis"]
    if lengths is None:
        return w.slice(s[0], axis, -1, -FAR, -1)
    return w.op("ReverseSequence", s[0], lengths, time_axis=axis, batch_axis=1 - axis)


# ---- order ---------------------------------------------------------------------------------------


def _ordered(
    w: Writer, s: Step, axis: int | None, k: int | None, largest: bool
) -> tuple[Name, Name, int]:
    """Values and places of the k first, and the axis."""
    x = s[0]
    if axis is None:
        x, axis = w.reshape(x, [-1]), 0
        count = w.reshape(w.op("Size", s[0]), [1]) if k is None else w.ints(k)
    else:
        axis = s.axis(axis)
        count = w.length(s.node.inputs[0], axis) if k is None else w.ints(k)
    dtype = s.in_dtype()
    ranked = dtype if dtype.kind == "f" or dtype in (np.int32, np.int64) else np.dtype(np.int32)
    values, at = w.ops(
        "TopK", [w.cast(x, dtype, ranked), count], 2, axis=axis, largest=int(largest), sorted=1
    )
    return w.cast(values, ranked, dtype), at, axis


@writes
def topk(w: Writer, s: Step) -> Any:
    p = s.params
    values, at, axis = _ordered(
        w, s, p["axis"], p["k"] if p["k"] >= 1 else None, not p["is_ascend"]
    )
    if p["ret_typ"] == "mask":
        if p["axis"] is None:
            zeros = w.op("Mul", w.reshape(s[0], [-1]), w.constant(0, s.dtype()))
            one = w.op("Expand", w.constant(1, s.dtype()), w.op("Shape", at))
            return reshaped(w, s, w.op("ScatterElements", zeros, at, one, axis=0))
        zeros = w.op("Mul", s[0], w.constant(0, s.dtype()))
        one = w.op("Expand", w.constant(1, s.dtype()), w.op("Shape", at))
        return w.op("ScatterElements", zeros, at, one, axis=axis)
    if p["ret_typ"] == "value":
        return values
    if p["ret_typ"] == "indices":
        return w.cast(at, np.int64, s.dtype())
    return [values, w.cast(at, np.int64, s.dtype(1))]


def _descending(s: Step) -> bool:
    p = s.params
    return bool(p["descending"]) if "descending" in p else not p["is_ascend"]


@writes
def sort(w: Writer, s: Step, axis: int | None = None) -> Name:
    if axis is not None:
        return _ordered(w, s, axis, None, False)[0]
    return _ordered(w, s, s.params["axis"], None, _descending(s))[0]


@writes
def argsort(w: Writer, s: Step) -> Name:
    return w.cast(_ordered(w, s, s.params["axis"], None, _descending(s))[1], np.int64, s.dtype())


@writes
def searchsorted(w: Writer, s: Step, line: int) -> Name:
    """By counting: how many of the sorted numbers lie before each."""
    if s.has("sorter") and "sorter" in s.by_name:
        raise s.refused("a sorter")
    x = 1 - line
    right = s.params.get("side") == "right" if line == 0 else not s.params["right"]
    dtype = np.result_type(s.in_dtype(0), s.in_dtype(1))
    numbers = w.unsqueeze(w.cast(s[x], s.in_dtype(x), dtype), s.ndim(x))
    sorted_ = w.cast(s[line], s.in_dtype(line), dtype)
    before = w.op("LessOrEqual" if right else "Less", sorted_, numbers)
    counted = w.reduce("ReduceSum", w.cast(before, bool, np.int64), [s.ndim(x)], keepdims=False)
    return w.cast(counted, np.int64, s.dtype())
