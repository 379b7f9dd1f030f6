"""Arrays on the memory of a NumPy array: what is written to one is seen in the other; and whose memory is whose."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..core import read, wait_all
from ..core.calls.state import local
from ..core.calls.value import TRACED, Value
from ..core.compile.compiler import wide_types
from ..ops.keys import resolve
from .handle import Handle
from .ndarray import NDArray
from .view import view


class _Lent(NDArray):
    """The root of an array on a NumPy array's memory, which users see views of.

    Its value lies on that memory until it is written to. Then whoever may still look at the old numbers gets a
    copy of them, as values never change, and each write is copied to NumPy's memory at once.
    """

    __slots__ = ("_aliased", "_memory")

    _memory: np.ndarray
    _aliased: bool

    def _set(self, v: Value) -> None:
        old = self._v
        super()._set(v)
        v = self._v  # type: ignore[assignment]
        if v.seg is TRACED or local.st.seg.graph:
            return  # of a function that is traced: there are no numbers
        new = np.asarray(read(v))
        if self._aliased:
            wait_all()
            self._aliased = False
            assert old is not None
            with wide_types():
                old.arr = jax.numpy.array(old.arr, copy=True)
                old.arr.block_until_ready()
        np.copyto(self._memory, new)


def lent(v: Value, memory: np.ndarray, cls: type[Handle], aliased: bool) -> Any:
    """An array of ``cls`` with the value ``v``, which lies on ``memory`` (``aliased``) or has its numbers."""
    root = _Lent._wrap(v)
    root._memory = memory
    root._aliased = aliased
    return view(root, None, None, cls=cls, taped=True)


def _part(x: Any) -> tuple[Any, int, int]:
    """The array that a view shows a part of, that part's first element in it, and how many there are.

    Views show what lies side by side.
    """
    first, count = 0, x.size
    while x._v is None and hasattr(x._base, "base"):
        of, x = x._base, x._base.base
        if of.take is not None and of.take.row.name == "_basic_index":
            key = dict(of.take.attrs)["key"]
            shape = x.shape
            entries = resolve(key, shape, iter([d.value for d in of.operands]))
            lows = [e.window.low for e in entries if e.kind != "new"]
            steps = np.cumprod([1, *shape[:0:-1]])[::-1]
            first += int(sum(low * step for low, step in zip(lows, steps, strict=True)))
    return x, first, count


def may_share(a: Any, b: Any) -> bool:
    """Whether an element of one array lies where one of the other lies."""
    parts: list[tuple[Any, int, int, Any]] = []
    for x in (a, b):
        if not isinstance(x, NDArray):
            parts.append((None, 0, 0, np.asarray(x)))
            continue
        root, first, count = _part(x)
        memory = getattr(root, "_memory", None)
        parts.append(
            (
                root,
                first,
                count,
                None if memory is None else memory.reshape(-1)[first : first + count],
            )
        )
    (of, start, n, here), (of2, start2, n2, here2) = parts
    if of is not None and of is of2:
        return bool(n and n2 and start < start2 + n2 and start2 < start + n)
    return here is not None and here2 is not None and bool(np.may_share_memory(here, here2))


__all__ = ["lent", "may_share"]
