"""Parameters: the trainable arrays of blocks."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mxjax import errors, initializer
from mxjax.array.classes import NDArray, ndarray
from mxjax.array.creation import array, nd_array
from mxjax.array.handle import assign
from mxjax.array.ndarray import element_type
from mxjax.array.sparse import taped_value
from mxjax.autograd import pause
from mxjax.core import apart, hooks, lay, memory, outside, relaid, rng
from mxjax.device import KEEPERS, Device, current_device
from mxjax.errors import DeferredInitializationError
from mxjax.modes import array_class, generation, is_np_shape
from mxjax.scopes import all_or_nothing

from .bases.loading import Loaded, devices_of, new_array
from .bases.pickling import CopiedParameter
from .bases.sparse_data import SparseData, in_storage
from .bases.state import ParameterState

__all__ = ["Constant", "DeferredInitializationError", "Parameter"]
__all__ += ["ParameterDict", "tensor_types"]  # noqa: F822  (found when they are asked for)


class _Layout:
    """``version`` grows whenever a parameter gets other arrays or a block other children: cached graphs
    look only then whether they are still right."""

    __slots__ = ("operators", "version")

    def __init__(self) -> None:
        self.version = 0
        #: Another object once operators compute something else than before (mixed precision).
        self.operators = object()

    def renew(self) -> None:
        """No graph is right any more."""
        self.version += 1
        self.operators = object()


#: An object, for each call of a network looks at it: a class's attribute takes several times as long.
Layout = _Layout()


hooks.row_listeners.append(Layout.renew)


def _known(shape: Sequence[int] | None) -> bool:
    return shape is not None and all(n > 0 for n in shape)


def check_attribute(p: Any, name: str) -> None:
    """Refuse what is no attribute of a parameter and nearly the name of one."""
    if not hasattr(p, name):
        meant = errors.nearest(name, _ATTRIBUTES)
        if meant and abs(len(meant[0]) - len(name)) <= 1:
            raise errors.MXNetAttributeError(
                f"a Parameter has no attribute {name!r}; did you mean {meant[0]!r}?"
            )


_ATTRIBUTES = ("grad_req", "lr_mult", "wd_mult", "dtype", "shape", "init", "sharding")


class Parameter(CopiedParameter, Loaded, ParameterState, SparseData):
    """An array that training changes, with a copy and a gradient on each of its devices.

    Unknown lengths in ``shape`` are -1 or 0 and are found at the first forward pass
    (``allow_deferred_init``). ``grad_req`` is ``write``, ``add`` or ``null``. ``sharding`` says how
    `Block.shard` cuts it over a mesh: None, or per dimension the name of a mesh's axis or None. ``stype`` and
    ``grad_stype`` are how value and gradient are stored: ``default`` (dense), ``row_sparse`` or ``csr``.
    """

    def __init__(
        self,
        name: str = "weight",
        grad_req: str = "write",
        shape: int | Sequence[int] | None = None,
        dtype: Any = np.float32,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Any = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
        sharding: Any = None,
    ):
        self._name = name
        self._set_storage(stype, grad_stype)
        self.sharding = sharding  # how a mesh cuts it, where `shard` is told nothing else
        self._long = False  # whether the name begins with that of the block, as in MXNet 1
        self._variable: Any = None
        self._structure: str | None = None  # the name in the network it belongs to
        self._shape = (
            (shape,) if isinstance(shape, int) else None if shape is None else tuple(shape)
        )
        self._dtype = element_type(dtype)
        # MXNet keeps it as it was given: programs add it to texts, look it up, ask its __name__.
        self._dtype_given = dtype
        self.lr_mult = lr_mult
        self.wd_mult = wd_mult
        self.init = init
        self.allow_deferred_init = allow_deferred_init
        self._differentiable = differentiable
        self._arrays: dict[Device, ndarray] | None = None
        self._only: ndarray | None = None  # the array, if there is one device, and that device
        self._only_at: Device | None = None
        self._trainer: weakref.ref[Any] | None = None
        self._deferred: tuple[Any, list[Device], Any, Any] | None = None
        self._to_lie: tuple[Any, Any, str] | None = (
            None  # mesh, spec and name, until there is a shape
        )
        self._memory: tuple[str | None] | None = None  # what place() said, else the setting counts
        self._grad_req = "write"
        self.grad_req = grad_req

    def __repr__(self) -> str:
        name = f" {self._name}" if self._long or generation() == 1 else ""
        return f"{type(self).__name__}{name} (shape={self.shape}, dtype={self._dtype_given})"

    @property
    def name(self) -> str:
        """The parameter's own name, such as ``weight``; programs of MXNet 1 set it."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def grad_req(self) -> str:
        """What ``backward`` does with the gradient: ``write``, ``add`` or ``null``."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in ("write", "add", "null"):
            raise errors.MXNetAssertionError(
                f"grad_req of Parameter {self.name!r} must be 'write', 'add' or 'null', got {req!r}"
            )
        if not self._differentiable:
            req = "null"
        if req != self._grad_req:
            self._grad_req = req
            if req == "null" or self._arrays is None:
                self._attach()
            else:
                self._init_grad()

    @property
    def dtype(self) -> Any:
        """The element type as it was given, a text or a class of NumPy; setting it casts."""
        return self._dtype_given

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The lengths of the axes; unknown ones are -1 (0 where `is_np_shape` is False)."""
        if self._shape is None or _known(self._shape):
            return self._shape
        unknown = -1 if is_np_shape() else 0
        return tuple(n if n > 0 else unknown for n in self._shape)

    @shape.setter
    def shape(self, new: Sequence[int]) -> None:
        new = tuple(new)
        if self._shape is None:
            self._shape = new
            return
        fits = len(new) == len(self._shape) and all(
            have in (n, 0, -1) for have, n in zip(self._shape, new, strict=True)
        )
        if not fits:
            raise errors.MXNetAssertionError(
                f"Expected shape {new} is incompatible with given shape {self.shape} for Parameter "
                f"{self._label}"
            )
        self._shape = new

    @property
    def _label(self) -> str:
        return repr(self._structure or self._name)

    # ---- initialization ------------------------------------------------------------------------------

    @all_or_nothing("_arrays")
    def initialize(
        self,
        init: Any = None,
        device: Any = None,
        default_init: Any = None,
        force_reinit: bool = False,
        ctx: Any = None,
    ) -> None:
        """Fill the parameter on one device or several; waits for its shape if that is unknown.

        Raises ``ValueError`` for an unknown shape where deferring is not allowed.
        """
        if self._arrays is not None and not force_reinit:
            import warnings

            warnings.warn(
                f"Parameter {self._label} is already initialized, ignoring. Set force_reinit=True to "
                "re-initialize.",
                stacklevel=2,
            )
            return
        self._arrays = self._only = self._only_at = None
        where = devices_of(device if device is not None else ctx)
        default = default_init if default_init is not None else initializer.Uniform()
        self._deferred = (init if init is not None else self.init, where, default, None)
        if _known(self._shape):
            self._finish_deferred_init()
        elif not self.allow_deferred_init:
            raise errors.MXNetValueError(
                f"Cannot initialize Parameter {self._label} because it has invalid shape: {self.shape}. "
                "Give the unknown lengths (in_units, in_channels, ...)"
            )

    @all_or_nothing("_arrays")
    def _finish_deferred_init(self) -> None:
        if self._deferred is None:
            return
        init, where, default, data = self._deferred
        if not _known(self._shape):
            raise errors.MXNetAssertionError(
                f"Cannot initialize Parameter {self._label} because it has invalid shape: {self.shape}"
            )
        # Interrupted, or refused by the initializer, it is done again when it is asked for.
        self._deferred = None
        with pause(), outside(), apart(), rng.suspended():
            if data is None:
                with where[0]:
                    data = new_array(np.zeros(self._shape, self._dtype), dtype=self._dtype)
                    rule = initializer.create(default)
                    own = (
                        rule if init is None else init
                    )  # given as its own, so that its name does not matter
                    if hasattr(
                        own, "set_initializer"
                    ):  # of parts, some of which follow the block's
                        own.set_initializer(rule)
                    rule(initializer.InitDesc(self._name, {"__init__": own}), data)
            self._init_impl(data, where)

    def _init_impl(self, data: ndarray, ctx_list: Sequence[Device]) -> None:
        """Hold a value on devices, with gradients: what subclasses override that change what is drawn or loaded."""
        data = in_storage(data, self._stype)
        self._arrays = {
            d: data.copyto(d) if i else data.to_device(d) for i, d in enumerate(ctx_list)
        }
        self._settle()
        Layout.version += 1
        self._init_grad()
        lie, self._to_lie = self._to_lie, None
        if lie is not None and list(self._arrays) == [lie[0]]:
            mesh, chosen, name = lie
            self._lay(mesh, mesh.spec_of(chosen, self._shape, name))

    def _settle(self) -> None:
        """Put the arrays into the memory they are to live in."""
        home = memory.of_variables() if self._memory is None else self._memory[0]
        for a in (self._arrays or {}).values():
            a._place(home)

    def place(self, where: str) -> None:
        """Let the value live in a memory of its device: ``device``, or ``pinned_host`` (the host's).

        It stays there through updates, ``set_data`` and loading; the gradient stays on the device. A
        parameter without a value yet gets it there. ``mx.memonger.place`` does this for networks.

        Raises:
          ValueError: another memory.
          DeviceError: the backend cannot reach it.
        """
        self._memory = (memory.kind(where),)
        self._settle()

    def _hold(self, arrays: dict[Device, ndarray] | None) -> None:
        """These arrays, whatever gradients they have, or none."""
        self._arrays = arrays
        self._find_only()
        Layout.version += 1

    def _find_only(self) -> None:
        if self._arrays is not None and len(self._arrays) == 1:
            (self._only,) = self._arrays.values()
            self._only_at = self._only.device
            if self._stype != "default":
                self._only = None
        else:
            self._only = self._only_at = None

    def _init_grad(self) -> None:
        """Give the arrays gradients as `grad_req` says; subclasses override it."""
        self._attach()

    def _attach(self) -> None:
        self._find_only()
        for a in (self._arrays or {}).values():
            if self._grad_req == "null":
                a.drop_grad()
            elif self._grad_stype == a.stype:
                a.attach_grad(self._grad_req)
            else:
                a.attach_grad(self._grad_req, stype=self._grad_stype)

    # ---- access --------------------------------------------------------------------------------------

    def _missing(self) -> Exception:
        if self._deferred is not None:
            return DeferredInitializationError(
                f"Parameter {self._label} has not been initialized yet because initialization was deferred. "
                "Actual initialization happens during the first forward pass. Please pass one batch of data "
                "through the network before accessing Parameters. You can also avoid deferred initialization "
                "by specifying in_units, num_features, etc., for network layers."
            )
        return errors.MXNetError(
            f"Parameter {self._label} has not been initialized. Call initialize() on the block, and create "
            "the Trainer with Block.collect_params(), which includes the parameters of nested blocks"
        )

    def data(self, device: Device | None = None, ctx: Device | None = None) -> ndarray:
        """The array on a device (the only one it has, or else the current device)."""
        only = self._only
        if only is not None and ctx is None and (device is None or device is self._only_at):
            return only
        self._check_dense("data", "row_sparse_data")
        return self._array_on(device if device is not None else ctx)

    def _array_on(self, where: Any) -> Any:
        """The array on a device, or the only one, or the current device's."""
        arrays = self._arrays
        if arrays is None:
            raise self._missing()
        if where is None and len(arrays) == 1:
            return next(iter(arrays.values()))
        if where is None:
            where = current_device()
        found = arrays.get(where)
        if found is None and isinstance(where, Device) and where.device_type in KEEPERS:
            found = arrays.get(Device("cpu", where.device_id))
        if found is None and not isinstance(where, Device):  # NumPy's arrays have a device, 'cpu'
            raise errors.MXNetValueError(
                f"Parameter {self._label} was asked for on {where!r}, which is no device of mxjax. Blocks take "
                "mxjax arrays: convert NumPy's by mx.np.array(x), JAX's by mx.np.from_jax(x)"
            )
        if found is None:
            raise errors.MXNetError(
                f"Parameter {self._label} was not initialized on device {where}. It was only initialized on "
                f"{list(arrays)}."
            )
        return found

    def list_data(self) -> list[ndarray]:
        """The arrays on all devices."""
        if self._arrays is None:
            raise self._missing()
        self._check_dense("list_data", "list_row_sparse_data")
        return list(self._arrays.values())

    def _reduce(self) -> ndarray:
        """What is saved: the mean over the devices where these have numbers of their own (moving statistics)."""
        if self._stype != "default":
            return self._all_rows()
        first, *others = self.list_data()
        if not others:
            return first
        numbers = [a.asnumpy() for a in (first, *others)]
        if all(np.array_equal(numbers[0], other) for other in numbers[1:]):
            return first
        make = array if isinstance(first, ndarray) else nd_array
        return make(sum(numbers[1:], start=numbers[0]) / len(numbers), dtype=first.dtype)

    def grad(self, device: Device | None = None, ctx: Device | None = None) -> ndarray:
        """The gradient on a device (the only one it has, or else the current device)."""
        g = self._array_on(device if device is not None else ctx).grad
        if g is None:
            raise errors.MXNetError(
                f"Cannot get gradient array for Parameter {self._label} because grad_req='null'"
            )
        return g  # type: ignore[no-any-return]

    def list_grad(self) -> list[ndarray]:
        """The gradients on all devices."""
        return [self.grad(d) for d in self.list_device()]

    def list_device(self) -> list[Device]:
        """The devices the parameter is (or will be) on."""
        if self._arrays is None:
            if self._deferred is not None:
                return self._deferred[1]
            raise self._missing()
        return list(self._arrays)

    list_ctx = list_device

    def set_data(self, data: Any) -> None:
        """Set the value on all devices.

        A kvstore that updates the weights is made anew at the next step, and the optimizer's states in it with it.
        """
        if self._arrays is None:
            if self._deferred is None:
                raise self._missing()
            self.shape = tuple(np.shape(data))
            init, where, default, _ = self._deferred
            # A copy: the parameter's array is nobody else's.
            value = new_array(data, dtype=self._dtype)
            self._deferred = (init, where, default, value)
            self._finish_deferred_init()
            return
        self.shape = tuple(np.shape(data))
        # A store that updates the weights has the old value: it begins anew.
        trainer = self._trainer() if self._trainer is not None else None
        if trainer is not None and trainer._kv_initialized and trainer._update_on_kvstore:
            if not any(p is self for p in trainer._params_to_init):
                trainer._reset_kvstore()
        with pause():
            new = []
            for d, a in self._arrays.items():
                if isinstance(data, NDArray):
                    value = data.copyto(d)
                else:  # NumPy's arrays have a to_device of their own
                    value = array(data, dtype=a.dtype, device=d)
                if a.stype == "default":
                    new.append(relaid(value._value(), a._value().aval))
                else:
                    new.append(taped_value(in_storage(value, self._stype)))
            assign(list(self._arrays.values()), new)

    def var(self) -> Any:
        """The variable that stands for this parameter in symbols (`mx.sym`), by its name."""
        return self.variable(self._name if self._long else self._structure or self._name)

    def variable(self, name: str) -> Any:
        """`var` by the name that a network has for the parameter, the first time."""
        if self._variable is None:
            from mxjax import symbol

            self._variable = symbol.var(
                name, shape=self.shape, dtype=self.dtype, lr_mult=self.lr_mult, wd_mult=self.wd_mult, init=self.init,
                stype=self._stype,
            )  # fmt: skip
        return self._variable

    @property
    def variable_name(self) -> str | None:
        """The name of `var`; None where nobody asked for it."""
        return None if self._variable is None else self._variable.name

    def zero_grad(self) -> None:
        """Set the gradients on all devices to zero."""
        if self._grad_req != "null":
            with pause():
                for a in (self._arrays or {}).values():
                    a.zero_grad()

    @all_or_nothing("_arrays")
    def reset_device(self, device: Any) -> None:
        """Move the parameter to other devices."""
        where = devices_of(device)
        if self._arrays is not None:
            with pause():
                self._init_impl(self._reduce().copy(), where)
        elif self._deferred is not None:
            init, _, default, data = self._deferred
            self._deferred = (init, where, default, data)
        else:
            raise errors.MXNetValueError(
                f"Cannot reset device for Parameter {self._label} because it has not been initialized."
            )

    def reset_ctx(self, ctx: Any) -> None:
        """`reset_device` under its name in 1.x."""
        self.reset_device(ctx)

    def _lie_on(self, mesh: Any, chosen: Any, name: str) -> None:
        """Begin on a mesh, and lie there as was chosen, once the shape is known."""
        self.reset_device(mesh)
        self._to_lie = mesh, chosen, name

    @all_or_nothing("_arrays")
    def _lay(self, mesh: Any, spec: Any) -> None:
        """Let the value (and its gradient) lie on a mesh in this way from now on."""
        assert self._arrays is not None
        value = lay(next(iter(self._arrays.values()))._value(), mesh.jax_mesh, spec)
        self._arrays = {mesh: array_class()._wrap(value)}
        self._settle()
        Layout.version += 1
        self._attach()
        for a in self._arrays.values():
            if a.grad is not None:
                a.grad._v = lay(a.grad._value(), mesh.jax_mesh, spec)

    @all_or_nothing("_arrays")
    def cast(self, dtype: Any) -> None:
        """Convert the value and the gradient to another dtype."""
        self._dtype = element_type(dtype)
        self._dtype_given = dtype
        if self._arrays is not None:
            with pause():
                for d, a in list(self._arrays.items()):
                    self._arrays[d] = a.astype(self._dtype)
                self._settle()
            Layout.version += 1
            self._attach()


class Constant(Parameter):
    """A parameter that is never trained.

    Args:
      value: the numbers.
      name: what it is called outside of a block.

    >>> import mxjax as mx
    >>> c = mx.gluon.Constant([[1, 2], [3, 4]])
    >>> c.initialize(); c.data().shape
    (2, 2)
    """

    def __init__(self, value: Any, name: Any = "const"):
        if isinstance(value, str):  # MXNet 1: the name first
            value, name = name, value
        self.value = value if isinstance(value, NDArray) else new_array(value, None)
        super().__init__(
            name=name,
            grad_req="null",
            shape=self.value.shape,
            dtype=self.value.dtype,
            init=initializer.Constant(self.value),
            differentiable=False,
        )
        self._grad_req = "null"

    @property
    def grad_req(self) -> str:
        """Always ``null``."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req != "null":
            import warnings

            warnings.warn(
                f"Constant parameter {self._label} does not support grad_req other than 'null'",
                stacklevel=2,
            )


def _names(objects: Iterable[Any]) -> dict[int, str]:
    """Reports of who holds memory call parameters' arrays by the parameters' names."""
    found: dict[int, str] = {}
    for p in objects:
        if type(p) is Parameter:
            for a in (p._arrays or {}).values():
                gradient = a.grad
                for array, kind in ((a, ""), (gradient, ":grad")):
                    value = getattr(array, "_v", None)
                    if value is not None:
                        found[id(value)] = (p._structure or p.name) + kind
    return found


hooks.array_namers.append(_names)


def __getattr__(name: str) -> Any:
    """What MXNet has in this module, and another has here."""
    if name == "tensor_types":
        from mxjax.symbol import Symbol

        return Symbol, NDArray
    raise errors.no_name(__name__, name)
