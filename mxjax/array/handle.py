"""What every array is underneath: a handle on a value, or on a view of another handle."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import repeat
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import errors
from ..core import (
    Aval,
    Call,
    Leaf,
    NamedDevice,
    aval,
    concrete,
    default_device,
    host,
    memory,
    offer_spares,
    place,
    read,
    record1,
    record2,
    spread,
)  # fmt: skip
from ..core.calls.aval import physical
from ..core.calls.state import local
from ..core.calls.value import TRACED, Value, quick_put, traced
from ..core.compile.compiler import wide_types
from ..core.graph.tape import ADD, Node, passes
from ..core.run.host_compute import stays
from ..core.run.sync import transfer
from ..ops.table import TABLE
from .storage import fallback

if TYPE_CHECKING:
    from .view import View


COPY = TABLE["_copy"].bind()
ZEROS = TABLE["_zeros_like"].bind()


@functools.cache
def _cast_to(name: str) -> Call:
    return TABLE["_cast"].bind((("dtype", name),))


def cast(dtype: Any) -> Call:
    """The call that converts to a dtype."""
    return _cast_to(np.dtype(dtype).name)


def on_device(array: np.ndarray, device: Any) -> Value:
    """A value on a private copy of a NumPy array."""
    where = physical(device)
    if isinstance(where, jax.Device):
        if stays(array, where):
            return _noted(host(array, device))
        return _noted(
            concrete(
                quick_put(array, where), shared=False, of=aval(array.shape, array.dtype, device)
            )
        )
    return _noted(concrete(place(array, device), shared=False))


def _noted(v: Value) -> Value:
    """A new constant, which a graph that is being recorded must not take for an array from outside."""
    seg = local.st.seg
    if seg.graph:
        seg.constants.add(v)
    return v


def operand(array: np.ndarray, device: Any) -> Value:
    """A private NumPy array as an input of the next program, without a transfer of its own.

    64-bit arrays could not enter a program outside JAX's x64 mode; they travel at once.
    """
    return on_device(array, device) if array.itemsize == 8 else host(array, device)


def to_value(obj: Any, like: Any = None, dtype: Any = None) -> Value:
    """A concrete value from a NumPy array, a jax.Array, a tracer or a nested list.

    It goes to the device of ``like``, an array, or to the default device.
    """
    if isinstance(obj, Handle):
        return obj._value()
    if isinstance(obj, jax.core.Tracer):
        device = like._value().aval.device if like is not None else default_device()
        v = traced(obj, device)
        return v if dtype is None or v.aval.dtype == np.dtype(dtype) else record1(cast(dtype), v)
    if isinstance(obj, jax.Array):
        if dtype is not None and obj.dtype != np.dtype(dtype):
            with wide_types():
                obj = obj.astype(dtype)
        return _noted(concrete(obj, shared=True))
    device = like._value().aval.device if like is not None else default_device()
    if type(obj) is np.ndarray and obj.dtype.kind in "biuf":
        # A copy: the caller may change the NumPy array afterwards while XLA still reads it.
        return on_device(obj.astype(obj.dtype if dtype is None else dtype, order="C"), device)
    return on_device(numbers(obj, dtype), device)


def numbers(obj: Any, dtype: Any = None, lenient: Any = None) -> np.ndarray:
    """A new NumPy array of numbers from anything array-like, arrays in nested lists included.

    With ``lenient`` also of texts, and of None where that is a dtype of floats (NaN): as this dtype.
    """
    try:
        given = _nested(dense(obj, "array"))
        try:
            made = np.array(given, dtype)
        except OverflowError:  # integers that the dtype cannot hold wrap, as in C
            made = np.array(given).astype(dtype)
    except (ValueError, TypeError) as error:
        raise errors.MXNetTypeError(
            f"numbers in a rectangular shape are expected, got {type(obj).__name__}: {error}"
        ) from error
    if lenient is not None and made.dtype.kind in "OUS":
        try:
            return made.astype(lenient)
        except (TypeError, ValueError):
            pass
    if made.dtype == object or made.dtype.kind not in "biufV":
        raise errors.MXNetTypeError(
            f"an array of numbers is expected, got {type(obj).__name__} of dtype {made.dtype}"
        )
    return made


def dense(obj: Any, what: str) -> Any:
    """The numbers of a SciPy sparse matrix, zeros included; anything else as it is."""
    if not hasattr(obj, "toarray") or not hasattr(obj, "nnz"):
        return obj
    fallback(what, obj.format)
    return obj.toarray()


def _nested(obj: Any) -> Any:
    """Nested lists with the arrays in them, and PyTorch's tensors, as NumPy arrays."""
    if isinstance(obj, Handle):
        return obj.asnumpy()  # type: ignore[attr-defined]
    if isinstance(obj, (list, tuple)):
        return [_nested(o) for o in obj]
    return numbers_of_tensor(obj) if is_tensor(obj) else obj


def is_tensor(obj: Any) -> bool:
    """Whether it is a tensor of PyTorch, which need not be installed."""
    return hasattr(obj, "detach") and hasattr(obj, "cpu") and hasattr(obj, "numpy")


def numbers_of_tensor(tensor: Any) -> np.ndarray:
    """A tensor of PyTorch on any device as a NumPy array, on the same memory if it can be, without its history."""
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":  # which NumPy has no name for
        import ml_dtypes

        return tensor.float().numpy().astype(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
    return tensor.numpy()  # type: ignore[no-any-return]


_new: Any = object.__new__


class Handle:
    """A mutable handle. ``_v`` is the value it holds; views hold none and ask ``_base`` for it."""

    __slots__ = ("__weakref__", "_base", "_v", "_var")

    _v: Value | None
    _var: Variable | None
    _base: View

    def __init__(self, value: Value | None, writable: bool = True):
        if type(value) is not Value and value is not None:  # as pickles of MXNet give it
            if not isinstance(value, Handle):
                raise errors.MXNetTypeError(
                    f"{type(self).__name__} is made by mx.np.array, mx.np.zeros, ...; its constructor "
                    f"takes a value of the engine, not {type(value).__name__}"
                )
            value = value._value()  # a monitor's callback wraps what it is given in MXNet
        self._v = value
        self._var = None

    def _value(self) -> Value:
        """The current value."""
        v = self._v
        return v if v is not None else self._base.value()

    @property
    def _aval(self) -> Aval:
        """Shape, dtype and device."""
        return (self._v or self._value()).aval

    def _set(self, v: Value) -> None:
        """Swap the value for a freshly computed one of the same shape and dtype.

        The array stays in its memory, wherever the new value was computed, with its axes in their order there, on a
        CPU that is but a name under that name, and on a mesh as it lies.
        """
        if self._v is None:
            self._base.write(v)
        else:
            self._v = self._ready(v)

    def _ready(self, v: Value) -> Value:
        """What `_set` is to store."""
        mine = self._v
        assert mine is not None
        seg = local.st.seg
        if seg.graph:
            seg.wrote(self, mine)
        var = self._var
        live = var is not None and var.req != "null"
        if live and (v.tape is not None or v.shared):
            v = record1(COPY, v)
        of = mine.aval
        if v.aval is not of:
            if v.aval.device is not of.device and v.seg is not TRACED and not seg.graph:
                if NamedDevice in (type(of.device), type(v.aval.device)):
                    v = transfer(v, of.device)
            if v.aval.memory is not of.memory:
                v = memory.move(v, of.memory)
            if (
                of.layout is not None
                and v.seg is None
                and v.aval.layout is None
                and v.aval.memory is None
            ):
                v = memory.in_order(v, of.layout)
            if of.spread is not None and v.aval.spread is None and v.seg is not TRACED:
                (v,) = spread((v,), (of,))
        if live:
            v.tape = var
            v.out = 0
        elif v.tape is None and type(mine.tape) is Node and not (seg.graph or local.st.taping):
            v.tape = mine.tape  # what autograd does not see changes the numbers alone, as in MXNet
            v.out = mine.out
        return v

    def _assign(self, v: Any) -> None:
        """Store a value, dense or sparse, as ``x[:] = v`` does: it is cast to this array's dtype."""
        self._set(self._assigned(v))

    def _assigned(self, v: Any) -> Value:
        """What `_assign` hands to `_set`."""
        if type(v) is not Value:
            v = v.dense()
        now = self._value()
        mine = now.aval
        if v.aval.dtype != mine.dtype:
            v = record1(cast(mine.dtype), v)
        elif v.aval.memory is not mine.memory and v.seg is None and not local.st.taping:
            v = memory.move(v, mine.memory)  # a copy by itself, of this one array
        elif self._var is not None or (
            (v.tape is not None and (isinstance(v.tape, Leaf) or not local.st.taping))
            or (type(now.tape) is Node and not local.st.taping)
        ):
            v = record1(COPY, v)  # another array's history, or its variable, stays with that array
        if mine.layout is not None and v.aval.layout is None and v.seg is not TRACED:
            v = memory.in_order(v, mine.layout)
        return v  # type: ignore[no-any-return]

    def _place(self, where: str | None) -> None:
        """Keep this array in that memory of its device from now on (``None``: the device's own).

        A value that exists moves at once, so that arrays placed one after the other never need the
        device's memory together.
        """
        v = self._v
        if v is None:
            if self._base.take is None:  # all of the base
                self._base.base._place(where)
                return
            raise errors.MXNetValueError(
                "a view shares the memory of its base array: place the base instead"
            )
        memory.check(v.aval.device, where)
        if v.aval.memory == where:
            return
        if not local.st.seg.graph:
            read(v)
        moved = memory.move(v, where)
        moved.tape = v.tape
        moved.out = getattr(v, "out", 0)
        self._v = moved

    @classmethod
    def _wrap(cls, v: Value) -> Any:
        h = _new(cls)
        h._v = v
        h._var = None
        return h


def store(handles: Sequence[Any], values: Sequence[Value]) -> None:
    """`Handle._set` of each, all of them at once: what is interrupted has stored none or all.

    So a weight goes with its optimizer's states, and all gradients of a backward pass together.
    """
    whole: list[Any] = []
    ready: list[Value] = []
    for h, v in zip(handles, values, strict=True):
        if h._v is None:  # a view, or a sparse array: one after the other
            set_all(whole, "_v", ready)
            whole, ready = [], []
            h._set(v)
        else:
            whole.append(h)
            ready.append(h._ready(v))
    set_all(whole, "_v", ready)


def assign(handles: Sequence[Any], values: Sequence[Value]) -> None:
    """`Handle._assign` of each, all of them at once (`store`)."""
    if any(h.stype != "default" for h in handles):
        for h, v in zip(handles, values, strict=True):
            h._assign(v)
        return
    store(handles, [h._assigned(v) for h, v in zip(handles, values, strict=True)])


def set_all(objects: Iterable[Any], name: str, values: Iterable[Any]) -> None:
    """Set an attribute of many objects: one call of C's, into which no exception can come from outside."""
    deque(map(setattr, objects, repeat(name), values), 0)


class Variable(Leaf):
    """What attach_grad gives an array: the leaf on the tape, with the array its gradients go to.

    It knows nothing of the array itself, so that arrays and their gradients go when they are dropped.
    """

    __slots__ = ("fresh", "since")

    def __init__(self, grad: Any, req: str):
        self.req = req
        self.grad = grad
        self.since = passes[0]
        self.fresh = False  # a gradient arrived that nobody has used yet (Trainer asks)
        self.stype = "default" if grad is None else grad.stype

    def deliver(self, g: Any, total: bool = False) -> None:
        """Store a gradient, a value or a sparse one, as ``req`` says; ``total``: it was added to the old one."""
        grad = self.grad
        if grad is None or self.req == "null":
            return
        if self.stype != "default":
            grad._receive(g, self.req)
            self.fresh = True
            return
        grad._set(self._arrived(g, total))
        self.fresh = True

    def _arrived(self, g: Any, total: bool) -> Value:
        """What a gradient, of the dense kind, makes of the array for it."""
        if type(g) is not Value:
            g = g.dense()
        old = self.grad._v or self.grad._value()
        if g.aval is not old.aval and g.aval.dtype != old.aval.dtype:
            g = record1(cast(old.aval.dtype), g)
        return record2(ADD, old, g) if self.req == "add" and not total else g

    @classmethod
    def deliver_all(cls, found: Mapping[Leaf, Any], totals: Set[Leaf]) -> None:
        leaves: list[Any] = []
        grads, made = [], []
        for leaf, g in found.items():
            grad: Any = leaf.grad  # type: ignore[attr-defined]
            if grad is None or grad._v is None:
                break  # a sparse one, or a view
            req = leaf.req
            if req != "null":
                plain = req == "write" and type(g) is Value and g.aval is grad._v.aval
                made.append(g if plain else leaf._arrived(g, leaf in totals))  # type: ignore[attr-defined]
                grads.append(grad)
                leaves.append(leaf)
        else:
            if len(set(grads)) == len(grads):
                offer_spares([h._v for h in grads], made)
                store(grads, made)
                set_all(leaves, "fresh", repeat(True))
                return
        super().deliver_all(found, totals)
