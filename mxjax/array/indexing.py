"""Reading and writing parts of arrays.

Places that vary from call to call (``x[i]`` in a loop) enter programs as inputs, so that one
program serves them all; what shapes the result (lengths, steps) is part of the program.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import errors
from ..core import Call, ScalarFamily, bind, is_recording, record, record2, record_scalar
from ..core.state import local
from ..core.sync import transfer
from ..core.value import TRACED, Dynamic, Value
from . import keys
from .handle import Handle, as_type, numbers, operand, to_value
from .keys import Window
from .view import View, view

IN_GRAPH = (
    "Assigning to NDArrays that are already in a computational graph will cause undefined "
    "behavior when "
    "evaluating gradients. Please call backward first to clear the graph or do this out side of a "
    "record section. "
    "Inside it, write x = x + y instead of x += y, or np.where instead of an assignment."
)
_PART = (
    "NotImplementedError: Inplace operations (+=, -=, x[:]=, etc) are not supported when "
    "recording with autograd: "
    "only a whole array takes a recorded value (x[:] = y). Join parts with np.concatenate, "
    "np.stack or np.where"
)

# ---- basic indices: windows
# ---------------------------------------------------------------------------


def _window(x: Any, lows: list[Any], spans: tuple[int, ...]) -> Any:
    if all(type(low) is int for low in lows):
        if tuple(spans) == x.shape:
            return x
        return jax.lax.slice(x, lows, [low + n for low, n in zip(lows, spans, strict=True)])
    return jax.lax.dynamic_slice(x, _starts(x, lows), spans)


def _put_window(x: Any, part: Any, lows: list[Any]) -> Any:
    if part.shape == x.shape:
        return part
    if part.size == 0:
        return x
    return jax.lax.dynamic_update_slice(x, part, _starts(x, lows))


def _starts(x: Any, lows: list[Any]) -> list[Any]:
    wide = any(n >= 1 << 31 for n in x.shape)
    return [jnp.asarray(low, "int64" if wide else "int32") for low in lows]


def _lows(axes: tuple[Any, ...], operands: Any) -> list[Any]:
    return [next(operands) if low is None else low for low, _, _ in axes]


def _spans(axes: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple([Window(0, count, step).span for _, count, step in axes])


def _take(x: Any, *places: Any, axes: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """A basic index; ``axes`` are (low or None, count, step), the places the missing lows."""
    x = _window(x, _lows(axes, iter(places)), _spans(axes))
    steps = [abs(step) for _, _, step in axes]
    if any(k != 1 for k in steps):
        x = jax.lax.slice(x, [0] * x.ndim, x.shape, steps)
    back = [k for k, (_, _, step) in enumerate(axes) if step < 0]
    if back:
        x = jax.lax.rev(x, back)
    return x.reshape(shape)


def _put(x: Any, value: Any, *places: Any, axes: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """``x`` with the part that :func:`_take` gives replaced."""
    part = fit(value, shape, x.dtype).reshape([count for _, count, _ in axes])
    lows = _lows(axes, iter(places))
    back = [k for k, (_, _, step) in enumerate(axes) if step < 0]
    if back:
        part = jax.lax.rev(part, back)
    if any(abs(step) != 1 for _, _, step in axes) and part.size:
        gaps = [(0, 0, abs(step) - 1) for _, _, step in axes]
        mask = jax.lax.pad(jnp.ones(part.shape, bool), False, gaps)
        spread = jax.lax.pad(part, jnp.zeros((), part.dtype), gaps)
        part = jnp.where(mask, spread, _window(x, lows, _spans(axes)))
    return _put_window(x, part, lows)


def fit(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A value cast and broadcast to a place, as an assignment does; leading axes of length 1 may
    go.
    """
    given = tuple(value.shape)
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value.reshape(value.shape[1:])
    try:
        return jnp.broadcast_to(as_type(value, dtype=dtype.name), shape)
    except ValueError:
        raise ValueError(
            f"operands could not be broadcast together: shape {_text(given)} is not broadcastable "
            "to "
            f"{_text(shape)}"
        ) from None


def _text(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


@functools.lru_cache(maxsize=20_000)
def _window_calls(axes: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Call, Call]:
    attrs = (("axes", axes), ("shape", shape))
    return bind("slice", _take, attrs), bind("slice_assign", _put, attrs)


class _Place:
    """A basic index of one array: its calls, the places they take, and whether it can be a view."""

    __slots__ = ("contiguous", "operands", "put", "same", "shape", "take", "whole")

    def __init__(self, entries: list[Any], dims: tuple[int, ...], static: bool):
        axes: list[Any] = []
        shape: list[int] = []
        operands: list[Any] = []
        partial = -1  # the last axis that is not taken whole
        single = True  # all axes before it give one element
        self.contiguous = True
        for e in entries:
            if e is None:
                shape.append(1)
                continue
            low, count, step = (e, 1, 1) if type(e) is int else e
            if type(e) is not int:
                shape.append(count)
            n = dims[len(axes)]
            if count != n or step != 1:
                if not single or step != 1:
                    self.contiguous = False
                partial = len(axes)
            single = single and count == 1
            if static or count == n or count == 0:
                axes.append((low, count, step))
            else:
                axes.append((None, count, step))
                operands.append(Dynamic(low))
        self.whole = partial < 0
        self.shape = tuple(shape)
        self.same = self.whole and self.shape == dims
        self.take, self.put = _window_calls(tuple(axes), self.shape)
        self.operands = tuple(operands)


# ---- index arrays
# -------------------------------------------------------------------------------------


def _index(x: Any, operands: tuple[Any, ...], spec: tuple[Any, ...]) -> tuple[Any, list[Any], Any]:
    """The window that the slices among the entries leave, its lows, and the index into it."""
    given = iter(operands)
    lows: list[Any] = []
    spans: list[int] = []
    index: list[Any] = []
    for e in spec:
        if e is None:
            index.append(None)
        elif e == "array" or e == "int":
            n = x.shape[len(lows)]
            place = next(given)
            index.append(place.astype("int32" if n < 1 << 31 else "int64"))
            lows.append(0)
            spans.append(n)
        else:
            low, count, step = e
            lows.append(next(given) if low is None else low)
            spans.append(Window(0, count, step).span)
            index.append(slice(None, None, step))
    return _window(x, lows, tuple(spans)), lows, tuple(index)


def _gather(x: Any, *operands: Any, spec: tuple[Any, ...]) -> Any:
    part, _, index = _index(x, operands, spec)
    return part.at[index].get(mode="clip")


def _scatter(x: Any, value: Any, *operands: Any, spec: tuple[Any, ...]) -> Any:
    part, lows, index = _index(x, operands, spec)
    shape = jax.eval_shape(lambda p: p.at[index].get(mode="clip"), part).shape
    part = part.at[index].set(fit(value, shape, x.dtype), mode="drop")
    return _put_window(x, part, lows)


def _arrays(x: Handle, entries: list[Any], static: bool) -> tuple[tuple[Any, ...], list[Any]]:
    """The form of an index with arrays, and what it takes besides ``x``."""
    device = x._value().aval.device
    spec: list[Any] = []
    operands: list[Any] = []
    for e in entries:
        if e is None:
            spec.append(None)
        elif type(e) is int:
            spec.append("int")
            operands.append(operand(np.asarray(e, np.int32), device) if static else Dynamic(e))
        elif type(e) is Window:
            count = e.count
            free = not static and count and not _covers(e, x, spec)
            spec.append((None if free else e.low, count, e.step))
            if free:
                operands.append(Dynamic(e.low))
        else:
            spec.append("array")
            operands.append(operand(e, device) if type(e) is np.ndarray else e._value())
    return tuple(spec), operands


def _covers(e: Window, x: Handle, spec: list[Any]) -> bool:
    axis = sum(s is not None for s in spec)
    return e.span == x._value().aval.shape[axis]


# ---- masks
# ----------------------------------------------------------------------------------------------


def _where(x: Any, mask: Any, value: Any) -> Any:
    """A value for each place where the mask is True."""
    rest = x.shape[mask.ndim :]
    mask = mask.reshape(mask.shape + (1,) * len(rest))
    if value.size == 1:
        value = value.reshape(())
    elif value.ndim == len(rest) + 1:
        value = value.reshape(value.shape[1:])
    return jnp.where(mask, fit(value, x.shape, x.dtype), x)


def _spread(x: Any, mask: Any, value: Any) -> Any:
    """The rows of a value to the places where the mask is True, in order."""
    rest = x.shape[mask.ndim :]
    if not value.shape[0]:
        return x  # no place is True
    value = fit(value, (value.shape[0], *rest), x.dtype)
    rows = jnp.cumsum(mask.reshape(-1).astype("int32")).reshape(mask.shape) - 1
    mask = mask.reshape(mask.shape + (1,) * len(rest))
    return jnp.where(mask, jnp.take(value, jnp.maximum(rows, 0), axis=0, mode="clip"), x)


_WHERE = bind("boolean_mask_assign", _where)
_SPREAD = bind("boolean_mask_assign", _spread)


def _fill(x: Any, s: Any) -> Any:
    number = s.astype(x.dtype) if hasattr(s, "astype") else np.asarray(s).astype(x.dtype)
    return jnp.full(x.shape, number, x.dtype)


def _replace(x: Any, value: Any) -> Any:
    return fit(value, x.shape, x.dtype)


_FILL = ScalarFamily("fill", _fill)
_REPLACE = bind("write", _replace)
_INT64 = (-(1 << 63), (1 << 63) - 1)


class Indexing(Handle):
    """``x[key]`` and ``x[key] = value``."""

    __slots__ = ()

    # : nd arrays: Python's bools in keys are integers, and a step over one element still makes a
    # view.
    _legacy = True

    def __getitem__(self, key: Any) -> Any:
        v = self._v or self._value()
        dims = v.aval.shape
        static = v.seg is TRACED or local.st.seg.graph
        if type(key) is int and dims:
            entries: list[Any] = [keys.in_range(key, 0, dims[0])]
            entries += [Window(0, n, 1) for n in dims[1:]]
            kind = keys.BASIC
        else:
            if isinstance(key, (bool, np.bool_)) and not self._legacy:
                return self[None][np.zeros(int(key), np.int32)]
            entries, kind = keys.parse(key, self, self._legacy)
        if kind == keys.BASIC:
            place = _Place(entries, dims, static)
            if place.same:
                return view(self, None, None)
            if place.contiguous and (self._legacy or not _strided(key)):
                return view(self, place.take, place.put, place.operands)
            return self._wrap(record(place.take, (v, *place.operands))[0])
        if kind == keys.MASKS and _on_host(v, entries):
            return self._wrap(_take_on_host(v, entries))
        spec, operands = _arrays(self, entries, static)
        call = bind("advanced_indexing", _gather, (("spec", spec),))
        return self._wrap(record(call, (v, *operands))[0])

    def __setitem__(self, key: Any, value: Any) -> None:
        v = self._v or self._value()
        dims = v.aval.shape
        whole = (key is Ellipsis) or (type(key) is slice and key == slice(None) and bool(dims))
        if local.st.taping:
            check_write(self, whole, value)
        if whole:
            self._write_all(v, value)
            return
        if isinstance(key, (bool, np.bool_)) and not self._legacy:
            if key:
                self._write_all(v, value)
            return
        mask = self._mask(key, dims)
        if mask is not None:
            self._write_masked(v, mask, value)
            return
        static = v.seg is TRACED or local.st.seg.graph
        entries, kind = keys.parse(key, self, self._legacy)
        given = self._given(value, v)
        if kind == keys.BASIC:
            place = _Place(entries, dims, static)
            if place.same:
                self._write_all(v, value)
            elif not _is_there(self, place, value):
                self._set(record(place.put, (v, given, *place.operands))[0])
            return
        spec, operands = _arrays(self, entries, static)
        call = bind("index_assign", _scatter, (("spec", spec),))
        self._set(record(call, (v, given, *operands))[0])

    def _write_all(self, v: Value, value: Any) -> None:
        """``x[:] = value``."""
        given = self._given(value, v)
        if type(given) is Dynamic:
            self._set(record_scalar(_FILL, v, given.value))
        elif given.aval.shape == v.aval.shape:
            self._assign(given)
        else:
            self._set(record2(_REPLACE, v, given))

    def _mask(self, key: Any, dims: tuple[int, ...]) -> Any:
        """The key as one mask over the first axes, or ``None`` if it is something else."""
        if isinstance(key, Handle):
            mask: Any = key
            if key._value().aval.dtype != bool:
                return None
        elif isinstance(key, (np.ndarray, list)) and not self._legacy:
            try:
                mask = np.asarray(key)
            except ValueError:
                return None
            if mask.dtype != bool:
                return None
        else:
            return None
        if len(mask.shape) > len(dims):
            raise errors.MXNetIndexError(
                f"too many indices ({len(mask.shape)}) for array with {len(dims)} dimensions"
            )
        keys.match(mask.shape, dims[: len(mask.shape)])
        return mask

    def _write_masked(self, v: Value, mask: Any, value: Any) -> None:
        given = self._given(value, v)
        m = mask._value() if isinstance(mask, Handle) else operand(mask, v.aval.device)
        if type(given) is not Dynamic:
            rest = len(v.aval.shape) - len(mask.shape)
            shape = given.aval.shape
            if given.aval.size != 1 and len(shape) > rest and shape[0] != 1:
                count = _count(mask, m)
                if count is not None and count != shape[0]:
                    raise errors.MXNetValueError(
                        f"boolean array indexing assignment cannot assign {_text(shape)} input "
                        "values to the "
                        f"{count} output values where the mask is true"
                    )
                self._set(record(_SPREAD, (v, m, given))[0])
                return
        self._set(record(_WHERE, (v, m, given))[0])

    def _given(self, value: Any, v: Value) -> Any:
        """The right side of an assignment as an operand on this array's device."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, (bool, int, float)):
            if type(value) is int and not _INT64[0] <= value <= _INT64[1]:
                value = float(value)
            kind = v.aval.dtype.kind
            if kind in "iu" and type(value) is float:
                value = math.trunc(value) if math.isfinite(value) else 0
                value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
            return Dynamic(int(value) if isinstance(value, bool) else value)
        if isinstance(value, Handle):
            given = value._value()
            if (
                given.aval.device is not v.aval.device
                and given.seg is not TRACED
                and v.seg is not TRACED
            ):
                given = transfer(given, v.aval.device)
            return given
        if isinstance(value, jax.Array):
            return to_value(value, self)
        if value is None or isinstance(value, (str, bytes, dict, set)):
            raise errors.MXNetTypeError(
                f"{type(self).__name__} does not support assignment with non-array-like object "
                f"{value!s} of type "
                f"{type(value)}: a number, a list or an array is expected"
            )
        made = numbers(value)
        if made.dtype != v.aval.dtype:
            with np.errstate(invalid="ignore"):
                if made.dtype.kind == "f" and v.aval.dtype.kind in "iu":
                    made = np.trunc(made).astype(np.int64)
                made = made.astype(v.aval.dtype)
        return operand(made, v.aval.device)

    def __iter__(self) -> Iterator[Any]:
        if not self._value().aval.shape:
            raise errors.MXNetTypeError("iteration over a 0-d array")
        for i in range(self._value().aval.shape[0]):
            yield self[i]


def _is_there(x: Handle, place: _Place, value: Any) -> bool:
    """Whether the value is the view of that very place: ``x[i] += 1`` ends so."""
    if not isinstance(value, Handle) or value._v is not None:
        return False
    seen = value._base
    return (
        getattr(seen, "base", None) is x
        and seen.put is place.put
        and len(seen.operands) == len(place.operands)
        and all(a.value == b.value for a, b in zip(seen.operands, place.operands, strict=True))
    )


def _strided(key: Any) -> bool:
    """Whether a key is one slice with a step: np copies it even where it takes one element."""
    if type(key) is tuple and len(key) == 1:
        key = key[0]
    return type(key) is slice and key.step is not None and key.step != 1


def _count(mask: Any, m: Value) -> int | None:
    if type(mask) is np.ndarray:
        return int(mask.sum())
    if m.seg is TRACED or is_recording():
        return None
    return int(mask.asnumpy().sum())


def _on_host(v: Value, entries: list[Any]) -> bool:
    """Whether to pick the elements with NumPy: results of ever-changing lengths would each cost a
    program.

    That is so for masks of arrays that are in the host's memory anyway and that autograd does not
    follow.
    """
    return (
        v.seg is None
        and (v.tape is None or not local.st.taping)
        and not local.st.seg.graph
        and getattr(v.aval.device, "platform", "") == "cpu"
        and not any(isinstance(e, Handle) for e in entries)
    )


def _take_on_host(v: Value, entries: list[Any]) -> Value:
    from ..core import read
    from .handle import on_device

    index = tuple(
        slice(e.low, e.low + e.span, e.step)
        if type(e) is Window and e.step > 0
        else slice(e.low + e.span - 1, e.low - 1 if e.low else None, e.step)
        if type(e) is Window
        else e
        for e in entries
    )
    made = np.array(np.asarray(read(v))[index], order="C")
    return on_device(made, v.aval.device)


def check_write(x: Handle, whole: bool, value: Any) -> None:
    """While autograd records, an array that takes part in the graph must keep its value."""
    root: Handle = x
    while root._v is None:
        base: View = root._base
        if base.leaf is not None:
            raise errors.MXNetError(IN_GRAPH)
        root = base.base
    if root._v.tape is not None:
        raise errors.MXNetError(IN_GRAPH)
    if not whole and isinstance(value, Handle) and value._value().tape is not None:
        raise errors.MXNetNotImplementedError(_PART)


__all__ = ["IN_GRAPH", "Indexing", "check_write", "fit"]
