"""Arrays on memory that NumPy or another library sees, too: what is written to one is seen in the other.

Also whose memory is whose.
"""

from __future__ import annotations

import ctypes
from typing import Any

import jax
import numpy as np

from .. import errors
from ..core import default_device, physical, read, renamed, wait_all
from ..core.calls.state import local
from ..core.calls.value import TRACED, Value
from ..core.compile.compiler import wide_types
from ..core.run.sync import transfer
from ..ops.keys import resolve
from .handle import Handle, to_value
from .ndarray import NDArray
from .view import View, view, written_outside

#: XLA reads memory where it lies if it begins at a multiple of so many bytes, and copies it otherwise.
_ALIGNMENT = 64


class _Lent(NDArray):
    """The root of an array on memory that somebody outside sees; users see views of it.

    Its value lies on that memory. When it is written to, whoever may still look at the old numbers gets a copy of
    them, as values never change, and the new ones are copied to the memory at once. Where somebody else writes
    there, too (``_written``), its value lies there again afterwards; there is none (``_v`` is None) where XLA cannot
    read that memory as it lies: each look takes a copy.
    """

    __slots__ = ("_aliased", "_memory", "_written")

    _memory: np.ndarray
    _aliased: bool
    _written: bool
    _base = None  # type: ignore[assignment]

    def _value(self) -> Value:
        return self._v or to_value(self._memory)

    def _set(self, v: Value) -> None:
        old = self._v
        if old is None:
            np.copyto(self._memory, np.asarray(read(v)))
            return
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
        if self._written:
            self._v = _with_history(_on(self._memory, v.aval.device), v)
            self._aliased = True
            written_outside.add(self._v)


def _with_history(v: Value, of: Value) -> Value:
    if of.tape is not None:
        v.tape, v.out = of.tape, of.out
    return v


def _on(memory: np.ndarray, device: Any) -> Value:
    """A value on memory of the host, without a copy where XLA can read it there."""
    with wide_types():
        v = to_value(jax.dlpack.from_dlpack(memory))
    if v.aval.device is device:
        return v
    return renamed(v, device) if v.aval.device is physical(device) else transfer(v, device)


def lent(cls: type[Handle], memory: np.ndarray, device: Any, written: bool = False) -> Any:
    """An array of ``cls`` on ``memory``, which somebody outside writes to (``written``) or only looks at."""
    aliased = memory.dtype != bool and memory.size > 0 and memory.flags["C_CONTIGUOUS"]
    aliased = aliased and memory.ctypes.data % _ALIGNMENT == 0
    root = _Lent(_on(memory, device) if aliased else None if written else to_value(memory))
    root._memory = memory
    root._aliased = aliased
    root._written = written
    if aliased and written:
        written_outside.add(root._value())
    return view(root, None, None, cls=cls, taped=True)


def given_away(x: Any) -> np.ndarray | None:
    """Memory with an array's numbers that somebody outside may write to; the array lies on it from now on.

    None where there is no such memory: on other devices than CPUs, of a traced function, of dtypes that DLPack lacks.
    """
    root, first, count = _part(x)
    v = root._v
    if v is None or v.seg is TRACED or v.aval.spread is not None or v.aval.dtype.kind not in "iuf":
        return None
    if getattr(v.aval.device, "platform", "") != "cpu" or not v.aval.size:
        return None
    if not isinstance(root, _Lent):
        made = _Lent._wrap(_with_history(_on(memory := _copied(v), v.aval.device), v))
        made._var = root._var
        made._memory = memory
        made._aliased = True
        root._base = View(made, None, None, taped=True)
        root._v = None
        root = made
    root._written = root._aliased = True
    written_outside.add(root._v)
    memory = root._memory
    return memory.reshape(-1)[first : first + count].reshape(x.shape)


def _copied(v: Value) -> np.ndarray:
    """A value's numbers in memory of their own that XLA reads where it lies."""
    numbers = np.asarray(read(v))
    room = np.empty(numbers.nbytes + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    memory = room[start : start + numbers.nbytes].view(numbers.dtype).reshape(numbers.shape)
    np.copyto(memory, numbers)
    return memory


# ---- DLPack ------------------------------------------------------------------------------------

# Of our own, since the functions of `ctypes.pythonapi` and their signatures are everybody's.
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_context_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(
    ("PyCapsule_GetContext", ctypes.pythonapi)
)
_set_context = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(
    ("PyCapsule_SetContext", ctypes.pythonapi)
)
_MARK = object()
#: The context of capsules whose memory is not to be written to, which the protocol's first version cannot say.
_READ_ONLY = id(_MARK)
_CPU = 1  # DLPack's number of it


def only_read(capsule: Any) -> Any:
    """The capsule, marked: arrays that are made of it do not write to its memory."""
    _set_context(capsule, _READ_ONLY)
    return capsule


class _Capsule:
    """A bare DLPack capsule as an object of the protocol."""

    def __init__(self, capsule: Any):
        self._capsule = capsule
        self.read_only = _context_of(capsule) == _READ_ONLY

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        try:
            at = _pointer_of(self._capsule, b"dltensor")
        except ValueError:
            raise errors.MXNetValueError(
                "the DLPack capsule was consumed already: each can be read once"
            ) from None
        # DLManagedTensor begins with DLTensor: void *data; int32 device_type; int32 device_id; ...
        kind, number = (ctypes.c_int32 * 2).from_address(at + ctypes.sizeof(ctypes.c_void_p))
        return kind, number


def from_dlpack(cls: type[Handle], obj: Any) -> Any:
    """An array of ``cls`` on the memory of another library's array, or of a capsule; shared, and never donated.

    On a CPU what either side writes is seen by the other, but for memory that is to be read alone (JAX's, that of
    `to_dlpack_for_read`): when this array is written to, it gets memory of its own.

    Raises:
      TypeError: it is neither.
      ValueError: the capsule was consumed already.
    """
    if type(obj).__name__ == "PyCapsule":
        obj = _Capsule(obj)
    elif not hasattr(obj, "__dlpack_device__"):
        raise errors.MXNetTypeError(
            f"from_dlpack takes a DLPack capsule or an array with __dlpack__, got {type(obj).__name__}; "
            "np.array(x) copies anything array-like"
        )
    memory = None if getattr(obj, "read_only", False) else _writable(obj)
    if memory is not None:
        return lent(cls, memory, default_device(), written=True)
    with wide_types():
        return cls._wrap(to_value(jax.dlpack.from_dlpack(obj)))


def _writable(obj: Any) -> np.ndarray | None:
    """The memory of an object of the protocol, if it is a CPU's, may be written to, and NumPy has its dtype."""
    if isinstance(obj, NDArray):
        return given_away(obj)
    if isinstance(obj, jax.Array) or obj.__dlpack_device__()[0] != _CPU:
        return None
    if getattr(default_device(), "platform", "") != "cpu":
        return None
    if isinstance(obj, np.ndarray):
        return obj if obj.flags["WRITEABLE"] else None
    try:
        seen = np.from_dlpack(obj)
    except (BufferError, RuntimeError, TypeError):  # a dtype that NumPy lacks
        return None
    if seen.flags["WRITEABLE"] or not seen.size:
        return seen
    # The protocol's first version cannot say whether memory may be written to, so NumPy takes it for read-only.
    low, high = np.lib.array_utils.byte_bounds(seen)
    room = (ctypes.c_char * (high - low)).from_address(low)
    room.owner = seen  # type: ignore[attr-defined]
    return np.ndarray(seen.shape, seen.dtype, room, seen.ctypes.data - low, seen.strides)  # type: ignore[arg-type]


def _part(x: Any) -> tuple[Any, int, int]:
    """The array that a view shows a part of, that part's first element in it, and how many there are.

    Views show what lies side by side.
    """
    first, count = 0, x.size
    while x._v is None and hasattr(x._base, "base"):
        of, x = x._base, x._base.base
        key = of.key
        if key is not None:
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


__all__ = ["from_dlpack", "given_away", "lent", "may_share", "only_read"]
