"""The steps of MXNet's own indexing that programs call: keys as slices, values in the shape that they are written in.

Here an index is read and written by `indexing.py`; what these give is worked out of the key alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import errors, settings
from .handle import Handle, numbers

Key = tuple[Any, ...]
Shape = tuple[int, ...]
_ALL = slice(None)
_version = settings.snapshot("compat.version")


class OlderIndexing(Handle):
    """MXNet's private methods of an array that have to do with indices."""

    __slots__ = ()

    @staticmethod
    def _basic_indexing_slice_is_contiguous(slc_key: Any, shape: Shape) -> bool:
        """Whether a part of an array of this shape lies in one piece."""
        steps = np.cumprod([1, *shape[:0:-1]])[::-1]
        whole = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), shape, tuple(steps))
        return bool(whole[slc_key].flags["C_CONTIGUOUS"])

    @staticmethod
    def _basic_indexing_key_int_to_slice(idcs: Key) -> tuple[Key, tuple[int, ...]]:
        """The key with a slice of one element for each number, and which axes of the array had numbers."""
        made, axes, axis = [], [], 0
        for k in idcs:
            if isinstance(k, (int, np.integer)):
                axes.append(axis)
                k = slice(int(k), int(k) + 1 or None)
            made.append(k)
            axis += k is not None
        return tuple(made), tuple(axes)

    @staticmethod
    def _basic_indexing_key_to_begin_end_step(
        idcs: Sequence[slice], shape: Shape, keep_none: bool = True
    ) -> tuple[Key, Key, Key]:
        """The slices' begins, ends and steps; without ``keep_none`` those that hold for the shape, all numbers."""
        given = [
            (s.start, s.stop, s.step) if keep_none else s.indices(n)
            for s, n in zip(idcs, shape, strict=False)
        ]
        begin, end, step = zip(*given, strict=True)
        return begin, end, step

    @staticmethod
    def _basic_indexing_sliced_shape(slc_key: Sequence[slice], shape: Shape) -> Shape:
        """What is left of a shape."""
        return tuple([len(range(*s.indices(n))) for s, n in zip(slc_key, shape, strict=True)])

    @staticmethod
    def _basic_indexing_contiguous_flat_begin_end(
        slc_key: Sequence[slice], shape: Shape
    ) -> tuple[int, int]:
        """Where a part that lies in one piece begins and ends among all elements."""
        ends = [s.indices(n)[:2] for s, n in zip(slc_key, shape, strict=True)]
        first, last = ([e[0] for e in ends], [e[1] - 1 for e in ends])
        sizes = tuple(shape)
        return int(np.ravel_multi_index(first, sizes)), int(np.ravel_multi_index(last, sizes)) + 1

    @staticmethod
    def _drop_int_axes(indexed_shape: Shape, int_axes: Sequence[int]) -> Shape:
        """The shape without the axes that had numbers; (1,) where none is left."""
        return tuple([n for i, n in enumerate(indexed_shape) if i not in int_axes]) or (1,)

    @staticmethod
    def _drop_slice_none_at_end(key: Key) -> Key:
        """The key without whole axes at its end."""
        kept = len(key)
        while kept > 1 and isinstance(key[kept - 1], slice) and key[kept - 1] == _ALL:
            kept -= 1
        return tuple(key[:kept])

    def _get_nd_basic_indexing(self, key: Any) -> Any:
        return self[key]  # type: ignore[index]

    def _set_nd_basic_indexing(self, key: Any, value: Any) -> None:
        self[key] = value  # type: ignore[index]

    _get_nd_advanced_indexing = _get_nd_basic_indexing
    _set_nd_advanced_indexing = _set_nd_basic_indexing

    def _full(self, value: Any) -> Any:
        """The array itself, filled with a number."""
        self[:] = value  # type: ignore[index]
        return self

    def _prepare_value_nd(
        self, value: Any, bcast_shape: Shape, squeeze_axes: Sequence[int] | None = None
    ) -> Any:
        """A value as an array of this one's dtype and device, broadcast to a shape.

        Args:
          value: a number, an array, or nested lists of numbers.
          bcast_shape: the shape of the result.
          squeeze_axes: axes of length 1 that the value has besides.

        Raises:
          TypeError: the value is a text, or something else without numbers.
          ValueError: it cannot be broadcast.
        """
        from .creation import nd_array

        if isinstance(value, (str, bytes, dict, set)) or value is None:
            raise errors.MXNetTypeError(
                f"{type(self)} does not support assignment with non-array-like object {value!s} of type {type(value)}"
            )
        given = value if isinstance(value, Handle) else numbers(value)
        made = nd_array(given, self.ctx, self.dtype)  # type: ignore[attr-defined]
        more = len(bcast_shape) + len(squeeze_axes or ()) - made.ndim
        axes = [axis - more for axis in squeeze_axes or () if axis >= more]
        made = made.squeeze(axis=tuple(axes)) if axes and made.ndim > len(axes) else made
        try:
            np.broadcast_to(np.empty(made.shape, np.int8), bcast_shape)
        except ValueError as error:
            raise errors.MXNetValueError(str(error)) from None
        return made.broadcast_to(tuple(bcast_shape))

    def _get_index_nd(self, key: Key) -> tuple[Any, tuple[int, ...]]:
        """An advanced key as one array of positions, a row for each axis (as `gather_nd` takes them), and where the
        result has new axes."""
        from .creation import nd_array

        plain = [
            k.asnumpy().astype(np.int64) if isinstance(k, Handle) else k  # type: ignore[attr-defined]
            for k in (key if isinstance(key, tuple) else (key,))
        ]
        old = self._drop_slice_none_at_end(tuple([k for k in plain if k is not None]))
        shape = self.shape[: len(old)]  # type: ignore[attr-defined]
        places = np.arange(int(np.prod(shape))).reshape(shape)
        taken = places[old]
        new = places[tuple(plain[: _until(plain, len(old))])]
        at = np.stack(np.unravel_index(taken, shape)) if taken.size else np.empty((len(shape), 0))
        dtype = np.int32 if _version() == "1.9" else np.int64
        made = nd_array(at.astype(dtype), self.ctx, dtype)  # type: ignore[attr-defined]
        return made, _inserted(taken.shape, new.shape)

    def _scatter_set_nd(self, value_nd: Any, indices: Any) -> None:
        """Write to the positions that an array has a row for each axis of."""
        self[tuple(indices.asnumpy().astype(np.int64))] = value_nd  # type: ignore[index]


def _until(key: Sequence[Any], count: int) -> int:
    """How many entries of a key hold so many that are not None, with the Nones behind them."""
    seen = 0
    for at, k in enumerate(key):
        if seen == count and k is not None:
            return at
        seen += k is not None
    return len(key)


def _inserted(old: Shape, new: Shape) -> tuple[int, ...]:
    """Which axes of length 1 a shape has besides those of another."""
    axes, rest = [], list(old)
    for axis, n in enumerate(new):
        if rest and rest[0] == n and len(new) - axis == len(rest):
            rest.pop(0)
        elif n == 1 and (not rest or rest[0] != 1 or len(new) - axis > len(rest)):
            axes.append(axis)
        else:
            rest.pop(0)
    return tuple(axes)
