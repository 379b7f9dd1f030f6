"""What an index means: keys are brought to one form before anything is computed."""

from __future__ import annotations

import operator
from typing import Any

import jax
import numpy as np

from .. import errors
from ..core import hooks, is_recording, record
from ..core.calls.reading import asked
from ..core.calls.state import local
from ..core.calls.value import TRACED
from ..ops.keys import ARRAY, Slice, Window, checked, grows, in_range, window
from ..ops.table import TABLE
from .handle import Handle, to_value

BASIC, ARRAYS, MASKS, BOOLS = 0, 1, 2, 3
_FOUND = TABLE["_found"].bind((("registry", "_npx_nonzero"),))


def parse(key: Any, x: Handle, legacy: bool) -> tuple[list[Any], int, tuple[Any, ...]]:
    """The key with one entry per axis and ``None`` for each new one, of which kind it is, and the
    key as the user wrote it: slices as `ops.keys.Slice`, index arrays as they are, masks as
    `ops.keys.ARRAY` for each axis.

    Entries are integers in range, Windows, and index arrays (NumPy arrays, whose numbers are in
    range, or arrays of ours, whose numbers nobody looks at). A key with single bools is of the
    kind `BOOLS`, without entries (`without_bools`); among ``legacy`` ones, which know no masks of
    Python's bools, one alone is an integer, and in a tuple it says nothing.
    """
    shape = x._value().aval.shape
    if legacy and isinstance(key, (bool, np.bool_)):
        key = int(key)
    items = [_item(k, x, legacy) for k in (key if type(key) is tuple else (key,))]
    taken = sum(_axes(k) for k in items)
    if taken > len(shape):
        raise errors.MXNetIndexError(
            f"too many indices ({taken}) for array with {len(shape)} dimensions"
        )
    entries: list[Any] = []
    written: list[Any] = []
    kind = BASIC
    axis = 0
    rest = len(shape) - taken
    for k in items:
        written.append(Slice(k.start, k.stop, k.step) if type(k) is slice else k)
        if k is None:
            entries.append(None)
        elif k is Ellipsis:
            entries += [Window(0, n, 1) for n in shape[axis : axis + rest]]
            axis += rest
            rest = 0
        elif type(k) is slice:
            taken_of = window(k, shape[axis])
            entries.append(
                taken_of._replace(form=written[-1]) if _is_form(k, taken_of) else taken_of
            )
            axis += 1
        elif type(k) is int:
            entries.append(in_range(k, axis, shape[axis]))
            axis += 1
        elif type(k) is bool:
            if not legacy:
                return [], BOOLS, ()
            written.pop()
        else:
            kind = max(kind, ARRAYS)
            if _dtype(k).kind == "b":
                kind = MASKS
                found = places(k, shape[axis : axis + k.ndim], axis)
                entries += found
                axis += len(found)
                written[-1:] = [ARRAY] * len(found)
            else:
                entries.append(checked(k, axis, shape[axis]) if type(k) is np.ndarray else k)
                axis += 1
    entries += [Window(0, n, 1) for n in shape[axis:]]
    return entries, kind, tuple(written)


def _is_form(s: slice, of: Window) -> bool:
    return (
        of.count > 1
        and s != _WHOLE
        and type(s.start) in _PLAIN
        and type(s.stop) in _PLAIN
        and grows(s)
    )


_WHOLE = slice(None)
_PLAIN = (int, type(None))


def is_bool(key: Any) -> bool:
    """Whether a key is one bool, or a mask without axes."""
    if isinstance(key, (bool, np.bool_)):
        return True
    return isinstance(key, (np.ndarray, Handle)) and not key.shape and key.dtype == bool  # type: ignore[union-attr]


def without_bools(key: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
    """The key without its single bools, and whether they are all true.

    MXNet gives what such a key reads one new axis, which comes first: of length 1, or 0 where one is false.
    """
    return tuple([k for k in key if not is_bool(k)]), all(k for k in key if is_bool(k))


def _item(k: Any, x: Handle, legacy: bool) -> Any:
    """One part of a key: None, Ellipsis, a slice, an int, or an array."""
    if k is None or k is Ellipsis or type(k) is slice or type(k) is int:
        return k
    if is_bool(k) and not (legacy and isinstance(k, Handle)):
        return bool(k)
    if isinstance(k, (int, np.integer)):
        return int(k)
    if isinstance(k, Handle):
        v = k._value()
        if v.aval.shape or v.aval.dtype == bool or v.seg is TRACED or is_recording():
            return k
        return int(k.asnumpy())  # type: ignore[attr-defined]
    if isinstance(k, (np.ndarray, jax.Array, list, tuple, range)):
        return _array(k, x, legacy)
    if hasattr(k, "__index__"):
        return operator.index(k)
    raise errors.MXNetValueError(
        f"NDArray does not support slicing with key {k} of type {type(k)}. "
        "Integers, slices, None, Ellipsis, lists and arrays of integers or bools, and tuples of "
        "these are expected"
    )


def _array(k: Any, x: Handle, legacy: bool) -> Any:
    if isinstance(k, jax.core.Tracer):
        from .handle import to_value

        return type(x)._wrap(to_value(k, x))
    if isinstance(k, (list, tuple)) and any(isinstance(e, Handle) for e in k):
        from .handle import numbers

        k = numbers(k)
    try:
        a = np.asarray(k)
    except ValueError:
        a = np.empty(0, object)
    if a.dtype.kind not in "biuf":
        raise errors.MXNetIndexError(f"an index array holds integers or bools, not {k!r}")
    if a.ndim == 0 and a.dtype != bool:
        return int(a)
    if a.dtype == bool and not legacy:
        return a
    return a.astype(np.int64)


def _dtype(k: Any) -> Any:
    return k.dtype if type(k) is np.ndarray else k._value().aval.dtype


def _axes(k: Any) -> int:
    if k is None or k is Ellipsis or type(k) is bool:
        return 0
    if type(k) in (int, slice):
        return 1
    return len(k.shape) if _dtype(k).kind == "b" else 1


def places(mask: Any, shape: tuple[int, ...], axis: int) -> list[np.ndarray]:
    """The positions of a mask's True: one integer array per axis that it covers."""
    match(mask.shape, shape, axis)
    if type(mask) is not np.ndarray:
        if mask._value().seg is TRACED:
            raise errors.MXNetError(
                "indexing with a mask has a result whose shape depends on the mask's numbers, "
                "which are not known while a function is traced. Use np.where(mask, x, other) there"
            )
        if is_recording():  # a mask from outside too: its numbers may be others at the next call
            raise asked(local.st.seg)
        if (
            hooks.call_listeners and mask.ndim
        ):  # deferred computation sees where the positions come from
            rows = to_value(np.argwhere(mask.asnumpy()), mask)
            found = mask._wrap(record(_FOUND, (rows, mask._value()))[0])
            return [found[:, axis] for axis in range(mask.ndim)]
        mask = mask.asnumpy()
    found = [a.astype(np.int32) for a in np.nonzero(mask)]
    return found if mask.ndim else [np.zeros(len(found[0]), np.int32)]


def match(mask: tuple[int, ...], shape: tuple[int, ...], axis: int = 0) -> None:
    """Raise unless a mask of this shape fits the axes it covers."""
    for k, (m, n) in enumerate(zip(mask, shape, strict=True)):
        if m != n:
            raise errors.MXNetIndexError(
                f"boolean index did not match indexed array along dimension {axis + k}; "
                f"dimension is {n} but corresponding boolean dimension is {m}"
            )
