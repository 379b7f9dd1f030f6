"""Views: arrays that read from and write through to another array."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .. import errors
from ..core import Call, record, untaped_record
from ..core.calls.state import local
from ..core.calls.value import Value, finished
from ..core.hooks import deadlines, memory_managers, observers
from ..ops.parts import index_of
from ..ops.shape import ND_CODES, coded_shape
from ..ops.table import TABLE
from .handle import Handle

_UNTAPED = TABLE["_detach"].bind()
_PARTS = TABLE["_basic_index"].bind((("key", ()),)).row
#: Values on memory that somebody outside writes to (`lent.py`): what views show of them is read anew each time.
written_outside: weakref.WeakSet[Value] = weakref.WeakSet()


class View:
    """How a view reads its base (``take(base)``) and writes it (``put(base, view)``).

    Both take ``operands`` besides, the places that vary. ``taped`` says whether gradients flow to
    the base: a view made while autograd does not record is a variable of its own to it. A view of
    the whole array has neither call.
    """

    __slots__ = ("_shown", "base", "leaf", "operands", "put", "take", "taped")

    def __init__(
        self,
        base: Handle,
        take: Call | None,
        put: Call | None,
        operands: tuple[Any, ...] = (),
        taped: bool = False,
    ):
        self.base = base
        self.take = take
        self.put = put
        self.operands = operands
        self.taped = taped
        self.leaf: Any = None  # of attach_grad on the view itself
        # The base's value, weakly, so that it may be donated, and what the view shows of it: one
        # pair, because several threads may look.
        self._shown: tuple[Any, Value] | None = None

    def value(self) -> Value:
        """The base's current value as the view shows it; computed anew only if the base changed."""
        base = self.base
        now = base._v or base._value()
        shown = self._shown
        if shown is not None and shown[0]() is now:
            return shown[1]
        v = self._read(now)
        if not (now.shared and now in written_outside):
            self._shown = weakref.ref(now), v
        return v

    def _read(self, now: Value) -> Value:
        if self.take is not None:
            if self.taped:
                v = record(self.take, (now, *self.operands))[0]
            else:
                v = untaped_record(self.take, (now, *self.operands))[0]
        elif self.leaf is None and (self.taped or now.tape is None):
            v = now
        else:
            v = untaped_record(_UNTAPED, (now,))[0]
        if self.leaf is not None:
            v.tape = self.leaf
            v.out = 0
        return v

    @property
    def key(self) -> tuple[Any, ...] | None:
        """The basic index of the part that it shows (`operands` are its places); None where it shows something else."""
        take = self.take
        return None if take is None or take.row is not _PARTS else dict(take.attrs)["key"]

    def on_host(self) -> np.ndarray | None:
        """What the view shows, as a view of NumPy's, where the base lies finished in a CPU's memory.

        None where a call has to find it: also where calls are waiting, which run with whoever looks.
        """
        key, v, st = self.key, self.base._v, local.st
        if (
            key is None
            or v is None
            or v.seg is not None
            or v.aval.memory is not None
            or st.seg.step.depth
            or st.seg.graph
            or observers
            or deadlines
            or memory_managers
            or v in written_outside
        ):
            return None
        found = finished(v)
        if found is None or found.shape != v.aval.shape:
            return None
        index = index_of(key, found.shape, len(self.operands))
        shown: np.ndarray = found[index([o.value for o in self.operands])]
        return shown

    def pin(self, v: Value) -> None:
        """Show ``v``, equal to what the view shows but with a history, until the base changes."""
        base = self.base
        self._shown = weakref.ref(base._v or base._value()), v

    def write(self, v: Value) -> None:
        """Write through.

        Of a view that autograd does not follow, it sees nothing in the base, whose gradient goes where it went before.
        """
        st = local.st
        if not st.taping or self.taped or self.leaf is not None:
            self._put(v)
            return
        st.taping = False
        st.refresh()
        try:
            self._put(v)
        finally:
            st.taping = True
            st.refresh()
        if v.tape is not None:
            self.pin(v)  # what is made of the view itself goes back to what was written

    def _put(self, v: Value) -> None:
        base = self.base
        if self.put is None:
            base._assign(v)
        else:
            base._set(record(self.put, (base._value(), v, *self.operands))[0])


def view(
    base: Handle,
    take: Call | None,
    put: Call | None,
    operands: tuple[Any, ...] = (),
    *,
    cls: type | None = None,
    taped: bool | None = None,
) -> Any:
    """A new array that is a view of ``base``."""
    h: Any = object.__new__(cls or type(base))
    h._v = None
    h._var = None
    taping = local.st.taping if taped is None else taped
    h._base = made = View(base, take, put, operands, taping)
    if taping and base._value().tape is not None:
        made.value()  # now, while autograd sees it
    return h


def alias(base: Handle) -> Any:
    """A view of all of ``base`` through which no gradient flows."""
    return view(base, None, None, taped=False)


def converted(base: Handle, cls: type) -> Any:
    """The same array, gradient and all, as one of another class."""
    h = view(base, None, None, cls=cls, taped=True)
    h._var = base._var
    return h


_WRITE_RESHAPED = TABLE["_reshape_back"].bind()


def reshaped(base: Handle, shape: tuple[int, ...], reverse: bool = False) -> Any:
    """``base`` in another shape, given by nd's codes, sharing its memory."""
    attrs = (("reverse", True), ("shape", shape)) if reverse else (("shape", shape),)
    try:
        coded_shape(base._value().aval.shape, shape, ND_CODES, reverse)
    except ValueError as error:  # here, not where the view is read
        raise errors.MXNetValueError(
            f"{error}: 0 keeps an axis, -1 is inferred, -2 keeps the rest, -3 joins two axes, -4 a b splits one"
        ) from None
    return view(base, TABLE["reshape@nd"].bind(attrs), _WRITE_RESHAPED)


__all__ = ["View", "alias", "converted", "reshaped", "view", "written_outside"]
