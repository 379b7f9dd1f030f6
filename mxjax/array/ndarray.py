"""The mutable array: what it is, what it waits for, its gradient, its copies."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from .. import errors, settings
from ..core import Leaf, NamedDevice, backward, concrete, memory, read, record1
from ..core.calls.state import local
from ..core.calls.value import TRACED, Value
from ..core.graph.tape import is_constant_in, passes
from ..core.hooks import memory_managers
from ..core.run.sync import to_host, transfer, wait
from ..device import Device
from ..device import of as device_of
from ..ops.table import TABLE
from .handle import COPY, ZEROS, Variable, cast, to_value
from .indexing import Indexing
from .interop import Interop
from .methods import NDMethods
from .older_indexing import OlderIndexing
from .one_element import REFUSED, array
from .protocol import Protocol
from .view import View, alias, converted

_version = settings.snapshot("compat.version")


class NDArray(NDMethods, Indexing, OlderIndexing, Protocol, Interop):
    """A multi-dimensional array on one device.

    Calls on it are recorded and run together when a result is needed (``asnumpy``, printing,
    ``bool``). It is mutable: ``x += 1`` and ``x[1:3] = y`` change what every alias and view of it
    sees.

    Args:
      value: what holds the numbers.
      writable: of MXNet's own handles; it changes nothing.

    >>> import mxjax as mx
    >>> x = mx.np.ones((2, 3))
    >>> (x * 2).sum().item()
    12.0
    """

    __slots__ = ()
    __array_priority__ = 1000.0
    _front: Any  # NDArray or ndarray: what results of calls on it are

    def __getattr__(self, name: str) -> NoReturn:  # what there is not
        raise errors.no_attribute(self, name, "ARRAYS")

    # ---- what is known without running anything
    # -----------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return (self._v or self._value()).aval.shape

    @property
    def dtype(self) -> Any:
        """The element type as NumPy's scalar type, as ``numpy.float32``."""
        return (self._v or self._value()).aval.dtype.type

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return (self._v or self._value()).aval.size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return (self._v or self._value()).aval.nbytes

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int((self._v or self._value()).aval.dtype.itemsize)

    @property
    def device(self) -> Device:
        """Where the array lives."""
        v = self._v
        here: Any = self
        while v is None and type(here._base) is View:  # a view lies where its array does
            here = here._base.base
            v = here._v
        return device_of((v or here._value()).aval.device)

    ctx = device
    context = device

    @property
    def stype(self) -> str:
        """The storage type: ``default``, dense."""
        return "default"

    @property
    def writable(self) -> bool:
        """Whether the array can be assigned to: always."""
        return True

    # ---- waiting and leaving
    # --------------------------------------------------------------------------

    def wait_to_read(self) -> None:
        """Wait until the value is there; raises what went wrong while computing it."""
        wait(self._v or self._value())

    wait_to_write = wait_to_read

    def asnumpy(self) -> np.ndarray:
        """A NumPy copy; waits for the value. Under MXNet 1.9 one element is a number to Python, whatever its axes."""
        shown = self._shown()
        made = to_host(self._value()) if shown is None else shown.copy()
        if made.size == 1 and made.ndim and REFUSED and _version() == "1.9":
            return made.view(array)
        return made

    def item(self, *args: Any) -> Any:
        """The only element (or the one at the given index) as a Python number."""
        shown = self._shown()
        if shown is not None and shown.size == 1:
            return shown.item(*args)
        if not args and self.size != 1:
            raise errors.MXNetValueError(
                "can only convert an array of size 1 to a Python scalar; this one has shape "
                f"{self.shape}"
            )
        return self.asnumpy().item(*args)

    def asscalar(self) -> Any:
        """The only element of a one-element array, as a NumPy scalar of its dtype."""
        shown = self._shown()
        if shown is not None and shown.size == 1:
            return shown.reshape(-1)[0]
        if self.size != 1:
            raise errors.MXNetValueError(
                f"The current array is not a scalar: it has {self.size} elements"
            )
        return self.asnumpy().reshape(-1)[0]

    def tolist(self) -> Any:
        """The elements as nested Python lists."""
        return self.asnumpy().tolist()

    # ---- autograd
    # ------------------------------------------------------------------------------------

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Make this array a variable: gradients of it are stored in ``grad``, which begins as
        zeros.

        ``grad_req`` is ``write``, ``add`` or ``null`` (no gradient). Attached to an intermediate
        result, its gradient is kept and flows on to what it was computed from.
        """
        if grad_req not in ("write", "add", "null"):
            raise errors.MXNetKeyError(
                f"grad_req={grad_req!r}: one of 'write', 'add', 'null' is expected"
            )
        if stype not in (None, "default"):
            self._mark(settled_gradient(self, grad_req, stype), grad_req)
            return
        self._mark(self._wrap(record1(ZEROS, self._value())), grad_req)

    def _mark(self, grad: NDArray | None, grad_req: str) -> None:
        """Attach a gradient array (``None``: take it away)."""
        old = self._var
        v = self._value()
        is_leaf = isinstance(v.tape, Leaf)
        made = None if grad is None else Variable(grad, grad_req)
        live = made is not None and grad_req != "null"
        node = None if v.tape is None or is_leaf else v.tape
        before = self._v, None if node is None or node.leaves is None else dict(node.leaves)
        leaf = self._base.leaf if before[0] is None else None
        try:
            if old is not None:
                _detach_leaf(v, old)
            if live and node is not None:
                # An intermediate result: its gradient is kept and flows on.
                if node.leaves is None:
                    node.leaves = {}
                node.leaves[v.out] = made
            elif live or is_leaf:
                v = (
                    record1(COPY, v) if v.aval.memory is None else _again(v)
                )  # others may hold the value
                v.tape = made if live else None
                v.out = 0
                if self._v is None:
                    self._base.leaf = v.tape
                    self._base.pin(v)
                else:
                    self._v = v
            self._var = made
        except BaseException:
            self._var = old
            if node is not None:
                node.leaves = before[1]
            if before[0] is None:
                self._base.leaf = leaf
                self._base._shown = None
            else:
                self._v = before[0]
            raise

    def _drop(self) -> bool:
        """Give up the numbers now; they are computed again when somebody looks (MegEngine's name).

        Does nothing unless ``mx.dtr`` is on. True where the array was given up.
        """
        return any(manager.drop(self._value()) for manager in memory_managers)

    @property
    def grad(self) -> Any:
        """The gradient array, or ``None`` without attach_grad and, for ``grad_req="null"``, after a backward pass."""
        var = self._var
        if var is None or (var.req == "null" and var.since != passes[0]):
            return None
        return var.grad

    def drop_grad(self) -> None:
        """Undo attach_grad."""
        self._mark(None, "null")

    def zero_grad(self) -> None:
        """Set the gradient to zeros."""
        grad = self.grad
        if grad is not None:
            grad._clear()

    def _clear(self) -> None:
        """Set all elements to zero."""
        self._set(record1(ZEROS, self._value()))

    def _at(self, idx: int) -> NDArray:
        """`self[idx]`; with `_slice` and `_sync_copyfrom`, what programs of MXNet 1 call."""
        return self[idx]

    def _slice(self, start: int, stop: int) -> NDArray:
        return self[start:stop]

    def _sync_copyfrom(self, source_array: Any) -> None:
        """Take over the numbers of NumPy's array of the same shape."""
        source = np.asarray(source_array, self.dtype)
        if source.shape != self.shape:
            raise errors.MXNetValueError(
                f"Shape inconsistent: expected {source.shape} vs got {self.shape}"
            )
        self[...] = source

    @property
    def _fresh_grad(self) -> bool:
        return self._var is not None and self._var.fresh

    @_fresh_grad.setter
    def _fresh_grad(self, fresh: bool) -> None:
        if self._var is not None:
            self._var.fresh = fresh

    def backward(
        self, out_grad: NDArray | None = None, retain_graph: bool = False, train_mode: bool = True
    ) -> None:
        """Compute the gradients of this array with respect to all its variables.

        ``out_grad`` is the gradient of the final result with respect to this array, ones by
        default.
        """
        v = self._value()
        st = local.st
        before = st.training
        try:
            st.training = bool(train_mode)
            backward((v,), (head_gradient(v, out_grad),), retain=retain_graph)
            st.training = before
        except BaseException:
            st.training = before
            raise

    def detach(self) -> Any:
        """The same memory without its history: gradients stop here."""
        return alias(self)

    # ---- copies
    # ------------------------------------------------------------------------------------

    def copy(self, order: str = "C") -> Any:
        """A copy on the same device, in C order."""
        if order != "C":
            raise errors.MXNetNotImplementedError(
                f"copy makes arrays of order 'C' only, got order={order!r}"
            )
        v = self._value()
        made = record1(COPY, v)
        if type(v.aval.device) is NamedDevice and made.aval.device is not v.aval.device:
            made = transfer(
                made, v.aval.device
            )  # cpu_pinned and cpu_shared keep what is computed elsewhere
        return self._wrap(made)

    __copy__ = copy

    def __deepcopy__(self, memo: Any = None) -> Any:
        return self.copy()

    def astype(
        self,
        dtype: Any,
        order: str | bool | None = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Any:
        """The array converted to ``dtype``; ``copy=False`` gives the array itself if it has that
        dtype.
        """
        if type(order) is bool:  # nd's second argument
            copy, order = order, "K"
        if order not in ("K", None) or casting not in ("unsafe", None) or not subok:
            raise errors.MXNetValueError(
                "astype converts with order='K', casting='unsafe' and subok=True only"
            )
        wanted = np.dtype(np.float32 if dtype is None else element_type(dtype))
        if wanted == self._value().aval.dtype:
            return self.copy() if copy else self
        return self._wrap(record1(cast(wanted), self._value()))

    def copyto(self, other: Any) -> Any:
        """Copy into an array, or onto a device; gives the array that holds the copy."""
        if isinstance(other, Device):
            return self._transfer(other, copy=True)
        if not isinstance(other, NDArray):
            raise errors.MXNetTypeError(
                f"copyto does not support type {type(other)}: an array or a device is expected"
            )
        if other is self:
            warnings.warn(
                "You are attempting to copy an array to itself", RuntimeWarning, stacklevel=2
            )
            return False
        if other.shape != self.shape:
            raise errors.MXNetValueError(
                f"copyto: Incompatible shapes, expected {other.shape}, got {self.shape}"
            )
        if local.st.taping:
            from .indexing import check_write

            check_write(other, True, self)
        other._assign(self._transfer(other.device)._value())
        return other

    def to_device(self, device: Device) -> Any:
        """The array on a device: itself if it is there already."""
        return self._transfer(device)

    def as_in_ctx(self, ctx: Device) -> Any:
        """`to_device` under its name in 1.x."""
        return self.to_device(ctx)

    def as_in_context(self, context: Device) -> Any:
        """`to_device` under its name in 1.x."""
        return self.to_device(context)

    def _transfer(self, device: Device, copy: bool = False) -> Any:
        target = place(device)
        v = self._value()
        if v.aval.device is target or v.seg is TRACED:
            return self.copy() if copy else self
        return self._wrap(transfer(v, target))

    # ---- the other kind of array
    # ------------------------------------------------------------------------

    def as_np_ndarray(self) -> Any:
        """The same memory as an array of ``mx.np``."""
        from .classes import ndarray

        return self if isinstance(self, ndarray) else converted(self, ndarray)

    def as_nd_ndarray(self) -> Any:
        """The same memory as an array of ``mx.nd``."""
        return self if type(self) is NDArray else converted(self, NDArray)


def settled_gradient(x: Any, grad_req: str, stype: str) -> Any:
    """Zeros for the gradient of an array, in a storage type."""
    from .sparse import nothing, wrap

    if grad_req not in ("write", "add", "null"):
        raise errors.MXNetKeyError(
            f"grad_req={grad_req!r}: one of 'write', 'add', 'null' is expected"
        )
    if stype not in ("default", "row_sparse", "csr"):
        raise errors.MXNetValueError(
            f"unknown storage type: {stype}: 'default', 'row_sparse' or 'csr' is expected"
        )
    zeros = nothing(
        "row_sparse" if stype == "default" else stype, x.shape, np.dtype(x.dtype), place(x.device)
    )
    return NDArray._wrap(zeros.dense()) if stype == "default" else wrap(zeros)


def _again(v: Value) -> Value:
    """Another value on the same array in the host's memory: a copy would travel to the device and back."""
    if v.seg is not None:
        return memory.move(record1(COPY, v), v.aval.memory)
    v.shared = True
    return concrete(read(v), shared=True, of=v.aval)


def head_gradient(head: Value, given: NDArray | None) -> Value | None:
    """The gradient given for a head, in its shape; one that nothing comes of (of `argmax`) may have any shape."""
    g = None if given is None else given._value() if given.stype == "default" else given._stored  # type: ignore[attr-defined]
    if g is not None and g.aval.shape != head.aval.shape:
        if g.aval.size == head.aval.size and type(g) is Value:
            return record1(TABLE["reshape"].bind((("newshape", head.aval.shape),)), g)
        call = getattr(head.tape, "call", None)
        if call is not None and not call.row.wholes and np.dtype(head.aval.dtype).kind in "iu":
            return None
        if is_constant_in(head):
            return None
        raise errors.MXNetValueError(
            f"the gradient given for a head has shape {g.aval.shape}, the head has "
            f"{head.aval.shape}"
        )
    return g


def place(device: Any) -> Any:
    """The place of values on a Device (`Device.placement`), or of its text: ``cpu``, ``gpu(1)``."""
    if isinstance(device, Device):
        return device.placement
    if isinstance(device, str):
        kind, _, number = device.rstrip(")").partition("(")
        try:
            return Device(kind, int(number or 0)).placement
        except (KeyError, ValueError) as error:
            raise errors.MXNetValueError(f"Invalid context string {device}: {error}") from None
    raise errors.MXNetTypeError(f"a device is expected, as mx.gpu(0); got {type(device).__name__}")


def element_type(dtype: Any) -> np.dtype:
    """The NumPy dtype that is meant: by name, by class, by Python type; an array means its own."""
    if isinstance(dtype, NDArray):
        dtype = dtype.dtype
    try:
        return np.dtype(dtype)
    except TypeError:
        if dtype == "bfloat16":
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        names = "float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"
        meant = errors.did_you_mean(dtype, names.split()) if isinstance(dtype, str) else ""
        raise errors.MXNetTypeError(
            f"data type {dtype!r} not understood{meant or ': ' + names.replace(' ', ', ') + ' exist'}"
        ) from None


def _detach_leaf(v: Value, leaf: Leaf) -> None:
    """Take a variable off the intermediate result it was attached to."""
    node = v.tape
    if (
        node is not None
        and not isinstance(node, Leaf)
        and node.leaves
        and node.leaves.get(v.out) is leaf
    ):
        del node.leaves[v.out]


def values(arrays: Sequence[NDArray]) -> list[Value]:
    """The current values of arrays."""
    return [a._v or a._value() for a in arrays]


__all__ = ["NDArray", "Variable", "element_type", "place", "to_value", "values"]
