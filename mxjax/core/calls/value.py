"""Values: what recorded calls produce and consume."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import jax
import numpy as np

from ..._jax_private import find
from ..compile.compiler import wide_types
from ..hooks import memory_managers
from .aval import Aval, MeshDevice, NamedDevice, aval, aval_of


class _Traced:
    """Stands in ``Value.seg`` for a value that holds a tracer of a surrounding JAX transformation."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<traced>"


TRACED: Any = _Traced()


class Value:
    """An immutable array: pending in a segment, or concrete.

    ``seg`` is the segment that will produce the value (``None`` once it is concrete, ``TRACED`` for a
    tracer), ``idx`` its number there, ``arr`` the array. ``tape`` is the autograd node that produced
    it and ``out`` its number among that node's outputs. ``shared`` says that somebody outside may see
    the buffer, so it is never donated.

    Values are slotted and hold no cycles once their segment ran: reference counts alone decide what
    a program must return and what it may overwrite.
    """

    __slots__ = ("__weakref__", "arr", "aval", "idx", "out", "seg", "shared", "step", "tape")

    arr: Any
    aval: Aval
    seg: Any
    idx: int
    tape: Any
    out: int
    shared: bool
    step: Any

    def __repr__(self) -> str:
        state = "concrete" if self.seg is None else "pending"
        return f"<Value {self.aval} {state}>"


class Dynamic:
    """A host scalar that enters a program as an input, so that a new number needs no new program."""

    __slots__ = ("kind", "value")

    tape = None  # a number is never differentiated

    def __init__(self, value: float | int):
        self.value = value
        self.kind = "d" if isinstance(value, float) else "q"


class Failure:
    """Stands in ``Value.arr`` for a value whose program failed; reading it raises the error again.

    ``once``: of an operator that refused its numbers. MXNet raises that to the first reader alone and gives later ones
    memory that nobody wrote; they get NaN here, or zeros of integers.
    """

    __slots__ = ("error", "once")

    def __init__(self, error: BaseException, once: bool = False):
        self.error = error
        self.once = once

    @property
    def spent(self) -> bool:
        """Whether somebody got the error, and later readers need not."""
        return self.once and self.error not in pending_errors

    def reach_user(self) -> NoReturn:
        """Raise the error; ``wait_all`` need not raise it again, nor anybody keep its frames."""
        if self.error in pending_errors:
            pending_errors.remove(self.error)
        raise self.error


pending_errors: list[BaseException] = []  # raised by programs, seen by nobody


class Abstract:
    """Stands in ``Value.arr`` for an array that a rehearsed program would have made."""

    __slots__ = ("__weakref__", "aval")

    def __init__(self, aval: Aval):
        self.aval = aval

    def is_deleted(self) -> bool:
        """True: nobody can wait for it."""
        return True


class Evicted:
    """Stands in ``Value.arr`` for an array that was given up; its memory manager brings it back.

    ``how`` is the manager's own note of how, and holds whatever that takes.
    """

    __slots__ = ("how", "manager")

    def __init__(self, how: Any, manager: Any):
        self.how = how
        self.manager = manager


_new = Value.__new__


def place(array: Any, device: Any) -> Any:
    """A NumPy or JAX array on a device, as a concrete array even inside a surrounding transformation.

    On a mesh every device has all of it.
    """
    if type(device) is MeshDevice:
        device = device.replicated
    elif type(device) is NamedDevice:
        device = device.physical
    with wide_types():
        placed = jax.device_put(array, device)
        if isinstance(placed, jax.core.Tracer):
            with jax.ensure_compile_time_eval():
                placed = jax.device_put(array, device)
    return placed


SMALL = 65536  # elements: more are not looked at


def seen(v: Value) -> np.ndarray | None:
    """The numbers of a small array that lies in a CPU's memory, finished: looking costs nothing then.

    None where somebody would have to wait.
    """
    return finished(v) if v.seg is None and 0 < v.aval.size <= SMALL else None


def finished(v: Value) -> np.ndarray | None:
    """The numbers of a concrete array that lies in a CPU's memory; None where somebody would have to wait."""
    arr = v.arr
    if type(arr) is np.ndarray:
        return arr
    if isinstance(arr, jax.Array) and getattr(v.aval.device, "platform", "") == "cpu":
        if arr.is_ready():  # type: ignore[attr-defined]
            return np.asarray(arr)
    return None


@functools.cache
def _shorter_put() -> Callable[[np.ndarray, Any], Any]:
    """``jax.device_put`` of a NumPy array to one device, by the shorter way if this JAX has it.

    ``device_put`` takes ten times as long as the transfer of a small array: it is made for trees
    of anything to anywhere. What it calls in the end is no public function, so it is tried out.
    """

    def plain(array: np.ndarray, device: Any) -> Any:
        return place(array, device)

    ShapedArray, batched_device_put = find("ShapedArray"), find("batched_device_put")
    if ShapedArray is None or batched_device_put is None:
        return plain
    try:

        def short(array: np.ndarray, device: Any) -> Any:
            sharding = shardings.get(device)
            if sharding is None:
                sharding = shardings[device] = jax.sharding.SingleDeviceSharding(device)
            struct = ShapedArray(array.shape, array.dtype)
            return batched_device_put(struct, sharding, [array], [device], enable_x64=True)

        shardings: dict[Any, Any] = {}
        here = jax.local_devices()[0]
        for probe in (np.array([[1.1, 2.2]]), np.array((1 << 60) + 1), np.ones(3, bool)):
            made, want = short(probe, here), plain(probe, here)
            if (
                made.aval != want.aval
                or made.sharding != want.sharding
                or made.committed != want.committed
                or made.on_device_size_in_bytes() != probe.nbytes
                or not np.array_equal(np.asarray(made), probe)
            ):
                return plain
    except (ImportError, AttributeError, TypeError, ValueError):
        return plain
    return short


def quick_put(array: np.ndarray, device: Any) -> jax.Array:
    """A NumPy array on one device; what it holds must not change afterwards."""
    return _shorter_put()(array, device)  # type: ignore[no-any-return]


def movable(array: Any) -> Any:
    """The same buffer of one device as an array that JAX moves to where it is used (it is not ``committed``).

    What is traced, or lies on several devices, is given as it is; so is everything where JAX's private names are lost.
    """
    put = find("batched_device_put")
    if put is None or not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        return array
    if not array.committed or len(array.sharding.device_set) != 1:
        return array
    return put(
        array.aval, array.sharding, [array], list(array.sharding.device_set), committed=False
    )


def concrete(array: Any, *, shared: bool, of: Aval | None = None) -> Value:
    """A value that exists already; ``shared=False`` promises that nobody else holds the buffer."""
    v = _new(Value)
    v.seg = None
    v.arr = array
    v.aval = aval_of(array) if of is None else of
    v.tape = None
    v.shared = shared
    v.step = None
    for manager in memory_managers:
        manager.admit(v)
    return v


def placed(array: Any, device: Any, *, shared: bool) -> Value:
    """A NumPy or JAX array on a device (`place`), as a value there (`concrete`)."""
    array = place(array, device)
    return concrete(array, shared=shared, of=aval_of(array, device))


def renamed(v: Value, device: Any) -> Value:
    """Another value for the same concrete array, under another name of its physical device.

    Nobody may write over the one buffer from then on.
    """
    v.shared = True
    return concrete(v.arr, shared=True, of=v.aval.at(device))


def pending(seg: Any, aval: Aval, *, shared: bool, idx: int = 0) -> Value:
    """A value that deferred work, in the place of a segment, will give."""
    v = _new(Value)
    v.seg = seg
    v.idx = idx
    v.arr = None
    v.aval = aval
    v.tape = None
    v.shared = shared
    v.step = None
    return v


def failed(values: Iterable[Value], error: BaseException) -> None:
    """Deferred work has failed: whoever reads one of its values gets the error, and so does ``wait_all``.

    What is no ``Exception``, such as an interrupt, is raised at once.
    """
    for v in values:
        v.arr, v.seg = Failure(error), None
    if not isinstance(error, Exception):
        raise error
    pending_errors.append(error)


def traced(tracer: Any, device: Any) -> Value:
    """A value inside a surrounding JAX transformation."""
    v = _new(Value)
    v.seg = TRACED
    v.arr = tracer
    v.aval = aval(tuple(tracer.shape), np.dtype(tracer.dtype), device)
    v.tape = None
    v.shared = True
    v.step = None
    return v


def host(array: np.ndarray, device: Any) -> Value:
    """A host array that enters the next program as an input, without a transfer of its own."""
    v = _new(Value)
    v.seg = None
    v.arr = array
    v.aval = aval(array.shape, array.dtype, device)
    v.tape = None
    v.shared = True
    v.step = None
    return v
