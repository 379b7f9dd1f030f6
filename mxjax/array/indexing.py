"""Reading and writing parts of arrays.

Places that vary from call to call (``x[i]`` in a loop) enter programs as inputs, so that one
program serves them all; what shapes the result (lengths, steps) is part of the program.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from .. import errors, settings
from ..core import Call, Node, is_recording, record, record2, record_scalar
from ..core.calls.state import local
from ..core.calls.value import TRACED, Dynamic, Value, seen
from ..core.run.sync import transfer
from ..ops.internal import shape_text
from ..ops.keys import ARRAY, AT, WHOLE, Run, Slice, Window, in_range, nested
from ..ops.numbers import np_cast_like_c, whole
from ..ops.table import TABLE
from . import keys
from .handle import Handle, numbers, operand, to_value
from .view import View, view

_version = settings.snapshot("compat.version")
_PACKAGE = __name__.partition(".")[0]

#: Whether shapes are those of MXNet 1, which knows no numbers without an axis; `modes` puts it here.
shapes_of_1x: list[Callable[[], bool]] = []


def refuse_open(display: str, name_of: str, attrs: tuple[tuple[str, Any], ...]) -> None:
    """MXNet 1 means by () and by a length 0 what is not known, and makes no such array (but an empty one by `full`)."""
    for name, shape in attrs:
        if name not in ("shape", "reps") or not isinstance(shape, (tuple, int)):
            continue
        if (shape == () and name == "shape") or (np.prod(shape) == 0 and name_of != "full@nd"):
            raise errors.MXNetError(
                f"Operator {display} inferring shapes failed: {shape} is a shape that is not known in MXNet 1; "
                "npx.set_np_shape(True) makes () a number and 0 an empty axis"
            )


def _has_ellipsis(key: Any) -> bool:
    """Whether a key has an Ellipsis among others: `nd` keeps an axis then in MXNet 2, too."""
    return type(key) is tuple and any(k is Ellipsis for k in key)


def _keeping_an_axis(key: Any, dims: tuple[int, ...]) -> Any:
    """A key of one element with a slice for the last axis: what it reads has the shape (1,)."""
    numbers = key if type(key) is tuple else (key,)
    if len(numbers) == len(dims) + 1:  # an Ellipsis may stand for no axis
        numbers = tuple(k for k in numbers if k is not Ellipsis)
    if len(numbers) != len(dims) or not all(
        isinstance(k, (int, np.integer)) or (type(k) is np.ndarray and not k.ndim) for k in numbers
    ):
        return key
    last = in_range(int(numbers[-1]), len(dims) - 1, dims[-1])
    return (*numbers[:-1], slice(last, last + 1))


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


@functools.lru_cache(maxsize=20_000)
def _basic_calls(key: tuple[Any, ...]) -> tuple[Call, Call]:
    attrs = (("key", key),)
    return _BASIC.bind(attrs), _BASIC_ASSIGN.bind(attrs)


class _Place:
    """A basic index of one array: its calls, the places they take, and whether it can be a view.

    ``written`` is the key that the calls shall have, where no place may be an operand.
    """

    __slots__ = ("contiguous", "operands", "put", "same", "shape", "take", "whole")

    def __init__(self, entries: list[Any], dims: tuple[int, ...], written: tuple[Any, ...] | None):
        key: list[Any] = []
        shape: list[int] = []
        operands: list[Any] = []
        axis = 0
        partial = -1  # the last axis that is not taken whole
        single = True  # all axes before it give one element
        self.contiguous = True
        for e in entries:
            if e is None:
                shape.append(1)
                key.append(None)
                continue
            low, count, step = (e, 1, 1) if type(e) is int else e[:3]
            if type(e) is not int:
                shape.append(count)
            n = dims[axis]
            if count != n or step != 1:
                if not single or step != 1:
                    self.contiguous = False
                partial = axis
            single = single and count == 1
            axis += 1
            if written is None:
                key.append(_part(e, n, operands))
        self.whole = partial < 0
        self.shape = tuple(shape)
        self.same = self.whole and self.shape == dims
        if written is None:
            while key and key[-1] is WHOLE:
                key.pop()
            written = tuple(key)
        self.take, self.put = _basic_calls(written)
        self.operands = tuple(operands)


def _part(e: Any, n: int, operands: list[Any]) -> Any:
    """One entry as part of a key; a place that may vary from call to call becomes an operand."""
    if type(e) is int:
        if n == 1:
            return 0
        operands.append(Dynamic(e))
        return AT
    if e.span == n:
        return WHOLE if e.step == 1 else Slice(None, None, e.step)
    if e.form is not None:
        return e.form
    if not e.count:
        return Slice(0, 0, 1)
    operands.append(Dynamic(e.low))
    return Run(e.count, e.step)


LARGEST = 1000  # index arrays of more elements are operands of a graph, not part of its key


def _known(k: Any) -> Any:
    """A part of a key in a graph: a small index array as a tuple, with its negative numbers, others as operands."""
    if k is None or k is Ellipsis or type(k) in (int, Slice):
        return k
    return nested(k.tolist()) if type(k) is np.ndarray and 0 < k.size <= LARGEST else ARRAY


def _arrays(
    x: Handle, entries: list[Any], written: tuple[Any, ...] | None
) -> tuple[tuple[Any, ...], list[Any]]:
    """The key of an index with arrays, and what the call takes besides ``x``."""
    device = x._value().aval.device
    dims = iter(x._value().aval.shape)
    form = tuple([_known(k) for k in written or ()])
    given = (
        iter([k for k in form if k is ARRAY or type(k) is tuple])
        if form
        else itertools.repeat(ARRAY)
    )
    key: list[Any] = []
    operands: list[Any] = []
    for e in entries:
        n = 0 if e is None else next(dims)
        if e is None or type(e) is int or type(e) is Window:
            if written is None:
                key.append(None if e is None else _part(e, n, operands))
            continue
        if next(given) is ARRAY:
            if type(e) is not np.ndarray and written is None:
                _look(e._value(), n)
            operands.append(operand(e, device) if type(e) is np.ndarray else e._value())
        key.append(ARRAY)
    return (tuple(key) if written is None else form), operands


def _look(at: Value, n: int) -> None:
    """Refuse an index array whose numbers lie ready and are out of range."""
    numbers = seen(at)
    if (
        numbers is not None
        and numbers.dtype.kind in "iuf"
        and not (-n <= numbers.min() and numbers.max() < n)
    ):
        bad = numbers[(numbers < -n) | (numbers >= n)].reshape(-1)[0]
        raise errors.MXNetIndexError(f"index {int(bad)} is out of bounds for axis of size {n}")


_BASIC, _BASIC_ASSIGN = TABLE["_basic_index"], TABLE["_basic_index_assign"]
_ADVANCED, _ADVANCED_ASSIGN = TABLE["_advanced_index"], TABLE["_advanced_index_assign"]
_MASKED = TABLE["_mask_assign"].bind()
_MASKED_ROWS = TABLE["_mask_assign_rows"].bind()
_PICKED = TABLE["_found"].bind()
_FILL = TABLE["_fill"]
_WRITE = TABLE["_write"].bind()
_INT64 = (-(1 << 63), (1 << 63) - 1)


def _is_whole(key: Any) -> bool:
    """Whether a key is ``:`` or ``::1``; its ends may be arrays, which are not compared with anything."""
    return (
        type(key) is slice
        and key.start is None
        and key.stop is None
        and (key.step is None or (type(key.step) is int and key.step == 1))
    )


class Indexing(Handle):
    """``x[key]`` and ``x[key] = value``."""

    __slots__ = ()

    # : nd arrays: Python's bools in keys are integers, and a step over one element still makes a
    # view.
    _legacy = True

    def __getitem__(self, key: Any) -> Any:
        v = self._v or self._value()
        dims = v.aval.shape
        if local.st.seg.symbols is not None and is_symbol(self, v):
            return _outputs(self, key)
        if self._legacy and dims and shapes_of_1x and (_has_ellipsis(key) or shapes_of_1x[0]()):
            key = _keeping_an_axis(key, dims)
        if (dims and _is_whole(key)) or (type(key) is tuple and not key):
            return self  # as in MXNet, recording or not
        static = v.seg is TRACED or local.st.seg.graph
        if type(key) is int and dims:
            entries: list[Any] = [in_range(key, 0, dims[0])]
            entries += [Window(0, n, 1) for n in dims[1:]]
            kind = keys.BASIC
            written: tuple[Any, ...] = (key,)
        else:
            if not self._legacy and keys.is_bool(key):
                return self[None][np.zeros(int(key), np.int32)]
            entries, kind, written = keys.parse(key, self, self._legacy)
        if kind == keys.BOOLS:
            rest, full = keys.without_bools(key)
            made = self[(None, *rest)]
            return made if full else made[np.zeros(0, np.int32)]
        if kind == keys.BASIC:
            place = _Place(entries, dims, written if static else None)
            if place.contiguous and (self._legacy or not _strided(key)):
                if place.same:
                    return view(self, None, None)
                return view(self, place.take, place.put, place.operands)
            return self._wrap(record(place.take, (v, *place.operands))[0])
        if kind == keys.MASKS and _on_host(v, entries):
            return self._wrap(_after_masks(_take_on_host(v, entries), key))
        form, operands = _arrays(self, entries, written if static else None)
        made = record(_ADVANCED.bind((("key", form),)), (v, *operands))[0]
        return self._wrap(_after_masks(made, key) if kind == keys.MASKS else made)

    def __setitem__(self, key: Any, value: Any) -> None:
        v = self._v or self._value()
        dims = v.aval.shape
        whole = key is Ellipsis or _is_whole(key)
        if local.st.taping:
            whole = whole or self._takes_all(key, dims)
            check_write(self, whole, value)
            if whole and type(v.tape) is Node:
                self._write_unseen(v, value)
                return
        if whole:
            self._write_all(v, value)
            return
        if isinstance(key, (bool, np.bool_)) and not self._legacy:
            if key:
                self._write_all(v, value)
            return
        mask = self._mask_key(key, dims)
        if mask is not None:
            self._write_masked(v, mask, value)
            return
        static = v.seg is TRACED or local.st.seg.graph
        entries, kind, written = keys.parse(key, self, self._legacy)
        if kind == keys.BOOLS:
            rest, full = keys.without_bools(key)
            if full:
                self[rest] = value
            return
        given = self._given(value, v, kind != keys.BASIC)
        if kind == keys.BASIC:
            place = _Place(entries, dims, written if static else None)
            if place.same:
                self._write_all(v, value)
            elif not _is_there(self, place, value):
                self._set(record(place.put, (v, given, *place.operands))[0])
            return
        form, operands = _arrays(self, entries, written if static else None)
        self._set(record(_ADVANCED_ASSIGN.bind((("key", form),)), (v, given, *operands))[0])

    def _takes_all(self, key: Any, dims: tuple[int, ...]) -> bool:
        """Whether a key of slices is the whole array in its order: ``x[:, :]``, ``x[0:n]``."""
        parts = key if type(key) is tuple else (key,)
        if not all(type(k) is slice or k is Ellipsis for k in parts):
            return False  # nor a mask or an index array, which would be read here
        entries, kind, _ = keys.parse(key, self, self._legacy)
        return kind == keys.BASIC and _Place(entries, dims, None).same

    def _write_all(self, v: Value, value: Any) -> None:
        """``x[:] = value``."""
        given = self._given(value, v, True)
        if type(given) is Dynamic:
            self._set(record_scalar(_FILL, v, given.value))
        elif given.aval.shape == v.aval.shape:
            self._assign(given)
        else:
            self._set(record2(_WRITE, v, given))

    def _write_unseen(self, v: Value, value: Any) -> None:
        """``x[:] = numbers`` of NumPy: autograd, which follows x, sees nothing of it, as in MXNet."""
        st = local.st
        st.taping = False
        st.refresh()
        try:
            self._write_all(v, value)
        finally:
            st.taping = True
            st.refresh()

    def _mask_key(self, key: Any, dims: tuple[int, ...]) -> Any:
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
                        f"boolean array indexing assignment cannot assign {shape_text(shape)} input "
                        "values to the "
                        f"{count} output values where the mask is true"
                    )
                self._set(record(_MASKED_ROWS, (v, m, given))[0])
                return
        self._set(record(_MASKED, (v, m, given))[0])

    def _given(self, value: Any, v: Value, exact: bool = False) -> Any:
        """The right side of an assignment as an operand on this array's device.

        ``exact``: MXNet 2's np writes whole numbers as it does arrays, whose lowest bits count.
        """
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, (bool, int, float)):
            if type(value) is int and not _INT64[0] <= value <= _INT64[1]:
                value = float(value)
            dtype = v.aval.dtype
            if dtype.kind in "iu" and not (
                exact and isinstance(value, int) and not self._legacy and _version() != "1.9"
            ):
                return Dynamic(whole(value, dtype))
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
        if isinstance(value, (dict, set)) or (value is None and v.aval.dtype.kind in "biu"):
            raise errors.MXNetTypeError(
                f"{type(self).__name__} does not support assignment with non-array-like object "
                f"{value!s} of type "
                f"{type(value)}: a number, a list or an array is expected"
            )
        made = numbers(value, lenient=v.aval.dtype)
        if made.dtype != v.aval.dtype:
            if v.aval.dtype.kind in "iu" and isinstance(value, (list, tuple)):
                if np.isnan(made).any():
                    raise errors.MXNetTypeError(
                        f"NaN cannot be stored in an array of {v.aval.dtype}: integers have none"
                    )
                # Python's floats, by way of its ints
                made = np_cast_like_c(made, np.dtype(np.int64))
            made = np_cast_like_c(made, v.aval.dtype)
        return operand(made, v.aval.device)

    def __iter__(self) -> Iterator[Any]:
        if local.st.seg.symbols is not None and is_symbol(self, self._value()):
            return iter([self])
        return self._rows()

    def _rows(self) -> Iterator[Any]:
        # A 0-d array has nothing to iterate over, which is no error in MXNet.
        for i in range(*self._value().aval.shape[:1] or (0,)):
            yield self[i]


#: How often `is_symbol` said yes.
taken_for_symbols = [0]


def is_symbol(x: Handle, v: Value) -> bool:
    """Whether an array of a graph is a Symbol to the program that asks, which wrote its forward for MXNet 1.

    It is one to the program's own code alone, and where it follows from the graph's inputs or is a parameter.
    """
    asks = sys._getframe(2).f_globals.get("__name__") or ""
    if not x._legacy or asks.partition(".")[0] == _PACKAGE:  # type: ignore[attr-defined]
        return False
    seg = v.seg
    if seg is None or seg is TRACED or not seg.graph:
        found = v in (local.st.seg.symbols or ())
    else:
        found = bool(seg.follows(v.idx))
    taken_for_symbols[0] += found
    return found


def _outputs(x: Handle, key: Any) -> Handle:
    """The outputs of a Symbol that has one: all of the array.

    Raises:
      IndexError: the key takes none, or another one.
      ValueError: it is the name of an output.
      TypeError: it is a key of arrays.
    """
    how = (
        "In a hybridized forward of MXNet 1 x[k] is the k-th output of a Symbol; rows are taken by "
        "F.slice_axis(x, axis=0, begin=k, end=k + 1)"
    )
    if isinstance(key, slice):
        places = range(key.start or 0, 1 if key.stop is None else key.stop, key.step or 1)
    elif isinstance(key, int):
        places = range(key, key + 1)
    elif isinstance(key, str):
        raise errors.MXNetValueError(f'Cannot find output that matches name "{key}". {how}')
    else:
        raise errors.MXNetTypeError(
            f"Symbol only support integer index to fetch i-th output, got {key!r}. {how}"
        )
    if list(places) == [0]:
        return x
    raise errors.MXNetIndexError(f"Index: {key} is greater than the number of outputs: 1. {how}")


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
    """Whether a key is one slice with a step, no tuple: MXNet 2 copies it even where it takes one element."""
    if type(key) is not slice or key.step is None or key.step == 1:
        return False
    return _version() != "1.9"


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


def _after_masks(made: Value, key: Any) -> Value:
    """What a mask picked of an array that autograd does not follow, as MXNet has it: it follows from the mask, whose
    gradient is zero."""
    if local.st.taping and made.tape is None:
        for k in key if type(key) is tuple else (key,):
            if isinstance(k, Handle) and k._value().tape is not None:
                made = record(_PICKED, (made, k._value()))[0]
    return made


def check_write(x: Handle, whole: bool, value: Any) -> None:
    """While autograd records, an array that takes part in the graph must keep its value.

    But it may be given the numbers of a NumPy array as a whole, as in MXNet: they are what counts from then on, and the
    gradient goes where it went before.
    """
    root: Handle = x
    while root._v is None:
        base: View = root._base
        if base.leaf is not None:
            raise errors.MXNetError(IN_GRAPH)
        if not base.taped and x._value().tape is None:
            break  # made while autograd did not record: it sees nothing of what is written through it
        root = base.base
    given = whole and isinstance(value, np.ndarray)
    if root._v is not None and root._v.tape is not None and not given:
        raise errors.MXNetError(IN_GRAPH)
    if not whole and isinstance(value, Handle) and value._value().tape is not None:
        raise errors.MXNetNotImplementedError(_PART)


__all__ = ["IN_GRAPH", "Indexing", "check_write"]
