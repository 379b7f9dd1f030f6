"""Operators written in Python: CustomOp, CustomOpProp, the registry behind ``nd.Custom``; and what operators exist."""

from __future__ import annotations

import importlib
import itertools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np

from . import autograd, core, errors, settings
from .array import sparse
from .array.classes import ndarray
from .array.invoke import wrap
from .array.ndarray import NDArray, values
from .core import Value
from .core.callback import guarded
from .core.hooks import observers
from .core.reading import ReadWhileRecording, trying
from .core.state import local
from .device import Device, current_device
from .ops.table import TABLE, Op, by_internal, internal_names

__all__ = [
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "OperatorArguments",
    "PythonOp",
    "get_all_registered_operators",
    "get_all_registered_operators_grouped",
    "get_operator_arguments",
    "register",
]


_host_fallback = settings.snapshot("engine.host_fallback")
_in_parallel = settings.snapshot("engine.host_ops_parallel")


class CustomOp:
    """The computation of a custom operator: define ``forward`` and, to train through it, ``backward``."""

    def forward(
        self,
        is_train: bool,
        req: Sequence[str],
        in_data: Sequence[Any],
        out_data: Sequence[Any],
        aux: Sequence[Any],
    ) -> None:
        """Compute the outputs from ``in_data`` and store them with :meth:`assign`."""
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} does not define forward()")

    def backward(
        self,
        req: Sequence[str],
        out_grad: Sequence[Any],
        in_data: Sequence[Any],
        out_data: Sequence[Any],
        in_grad: Sequence[Any],
        aux: Sequence[Any],
    ) -> None:
        """Compute the inputs' gradients from the outputs' and store them with :meth:`assign`."""
        raise errors.MXNetNotImplementedError(
            f"{type(self).__name__} does not define backward(), which training through it needs"
        )

    def assign(self, dst: Any, req: str, src: Any) -> None:
        """Store ``src`` in ``dst`` as ``req`` says: write, inplace, add or null."""
        if req == "null":
            return
        if req not in ("write", "inplace", "add"):
            raise errors.MXNetValueError(f"req={req!r}: one of 'null', 'write', 'inplace', 'add' is expected")
        if req == "add":
            dst[:] = dst + src
        else:
            dst[:] = src


class CustomOpProp:
    """What is known about a custom operator before it runs: arguments, shapes, dtypes.

    Arguments of ``nd.Custom`` reach ``__init__`` as strings.
    """

    def __init__(self, need_top_grad: bool = True):
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape: list[list[int]]) -> tuple[Any, ...]:
        """(input shapes, output shapes, auxiliary shapes); the first input's shape for all by default."""
        return in_shape, (in_shape[0],) * len(self.list_outputs()), ()

    def infer_type(self, in_type: list[Any]) -> tuple[Any, ...]:
        """(input dtypes, output dtypes, auxiliary dtypes); the first input's dtype for all by default."""
        return (
            in_type,
            [in_type[0]] * len(self.list_outputs()),
            [in_type[0]] * len(self.list_auxiliary_states()),
        )

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the auxiliary arrays."""
        return []

    def declare_backward_dependency(
        self, out_grad: Sequence[int], in_data: Sequence[int], out_data: Sequence[int]
    ) -> list[int]:
        """Which arrays ``backward`` uses; only a hint here, unused ones are never computed."""
        return [*(out_grad if self.need_top_grad_ else []), *in_data, *out_data]

    def infer_storage_type(self, in_stype: list[str]) -> tuple[list[str], list[str], list[str]]:
        """(input, output, auxiliary storage types); dense ones (``'default'``) by default.

        Raises:
          NotImplementedError: an input is of another kind.
        """
        _dense("infer_storage_type", in_stype)
        return (
            in_stype, ["default"] * len(self.list_outputs()), ["default"] * len(self.list_auxiliary_states())
        )  # fmt: skip

    def infer_storage_type_backward(
        self, ograd_stype: list[str], in_stype: list[str], out_stype: list[str], igrad_stype: list[str],
        aux_stype: list[str],
    ) -> tuple[list[str], ...]:  # fmt: skip
        """(storage types of outputs' gradients, inputs, outputs, inputs' gradients, auxiliary arrays); dense ones.

        Raises:
          NotImplementedError: one is of another kind.
        """
        given = ograd_stype, in_stype, out_stype, igrad_stype, aux_stype
        _dense("infer_storage_type_backward", [s for kinds in given for s in kinds if s != "undefined"])
        return ograd_stype, in_stype, out_stype, ["default"] * len(igrad_stype), aux_stype

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
        """The operator itself; to be defined."""
        raise errors.MXNetNotImplementedError(f"{type(self).__name__} does not define create_operator()")


def _dense(what: str, kinds: Iterable[str]) -> None:
    for kind in kinds:
        if kind != "default":
            raise errors.MXNetNotImplementedError(
                f"{what}: an array of storage type {kind!r}; a custom operator takes dense ones ('default') "
                "unless its CustomOpProp says what else it does"
            )


_registry: dict[str, type[CustomOpProp]] = {}


def register(reg_name: str) -> Callable[[type[CustomOpProp]], type[CustomOpProp]]:
    """Register a CustomOpProp under the ``op_type`` that ``nd.Custom`` takes.

    >>> import mxjax as mx
    >>> class Double(mx.operator.CustomOp):
    ...     def forward(self, is_train, req, in_data, out_data, aux):
    ...         self.assign(out_data[0], req[0], in_data[0] * 2)
    ...     def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
    ...         self.assign(in_grad[0], req[0], out_grad[0] * 2)
    >>> @mx.operator.register("double")
    ... class DoubleProp(mx.operator.CustomOpProp):
    ...     def create_operator(self, ctx, shapes, dtypes):
    ...         return Double()
    >>> mx.nd.Custom(mx.np.ones(2), op_type="double")
    array([2., 2.])
    """

    def enter(prop: type[CustomOpProp]) -> type[CustomOpProp]:
        if not (isinstance(prop, type) and issubclass(prop, CustomOpProp)):
            raise errors.MXNetTypeError(f"register takes a subclass of CustomOpProp, got {prop!r}")
        _registry[reg_name] = prop
        return prop

    return enter


def get_all_registered_operators() -> list[str]:
    """MXNet's registry names of all operators there are here, aliases included, sorted.

    >>> "Activation" in get_all_registered_operators()
    True
    """
    return sorted(internal_names())


def get_all_registered_operators_grouped() -> dict[str, list[str]]:
    """Every operator's registry name and all names that it has, its own included.

    >>> get_all_registered_operators_grouped()["elemwise_add"][:2]
    ['_add', '_elemwise_add']
    """
    found: dict[str, list[str]] = {}
    for name in get_all_registered_operators():
        found.setdefault(_first_name(name), []).append(name)
    return found


def _first_name(name: str) -> str:
    op = by_internal(name)
    own = None if op is None else op.internal
    return name if own is None or by_internal(own) is not op else own


class OperatorArguments(NamedTuple):
    """How many arguments an operator has, their names and their types, as MXNet words them."""

    narg: int
    names: list[str]
    types: list[str]


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """The arguments of an operator by its registry name: arrays first, then attributes.

    Raises:
      MXNetError: there is no such operator.

    >>> get_operator_arguments("LeakyReLU").names[:3]
    ['data', 'gamma', 'act_type']
    """
    op = by_internal(op_name)
    if op is None:
        raise errors.MXNetError(f"Cannot find operator {op_name}{errors.did_you_mean(op_name, internal_names())}")
    arrays = "NDArray-or-Symbol[]" if op.variadic else "NDArray-or-Symbol"
    names = [*op.array_params, *op.attr_params]
    types = [arrays] * len(op.array_params) + [_type_of(op, name) for name in op.attr_params]
    return OperatorArguments(len(names), names, types)


_TYPES = {bool: "boolean", int: "int", float: "float", tuple: "Shape(tuple)", str: "string"}


def _type_of(op: Op, name: str) -> str:
    # A row does not list the words that an attribute takes: its samples use them.
    words = {attrs[name] for attrs in (dict(s.attrs) for s in op.samples) if isinstance(attrs.get(name), str)}
    default = op.attr_defaults.get(name)
    if len(words) > 1:
        word = "{" + ", ".join(repr(w) for w in sorted(words)) + "}"
    else:
        word = "any" if default is None else _TYPES.get(type(default), type(default).__name__)
    if name not in op.attr_defaults:
        return f"{word}, required"
    return f"{word}, optional, default={op.attr_defaults[name]!r}"


class _Instance:
    """One call's operator with its shapes."""

    def __init__(
        self, op_type: str, inputs: Sequence[Any], device: Device, cls_: type[NDArray],
        options: Iterable[tuple[str, str]],
    ):  # fmt: skip
        cls: Any = _registry.get(op_type)
        if cls is None:
            raise errors.MXNetError(
                f"Cannot find custom operator {op_type}{errors.did_you_mean(op_type, _registry)}; registered are "
                f"{sorted(_registry)}. Register it with @mx.operator.register({op_type!r})"
            )
        self.name = op_type
        self.prop = prop = cls(**dict(options))
        arguments, auxiliary = prop.list_arguments(), prop.list_auxiliary_states()
        wanted = len(arguments) + len(auxiliary)
        if len(inputs) != wanted:
            raise errors.MXNetError(
                f"custom operator {op_type} takes {wanted} arrays ({', '.join([*arguments, *auxiliary])}), "
                f"got {len(inputs)}"
            )
        self.n_in = len(arguments)
        shapes = [list(x.shape) for x in inputs[: self.n_in]]
        dtypes = [np.dtype(x.dtype).type for x in inputs[: self.n_in]]
        self.out_shapes = [tuple(s) for s in prop.infer_shape(shapes)[1]]
        self.out_dtypes = [np.dtype(t) for t in prop.infer_type(dtypes)[1]]
        stypes = [getattr(x, "stype", "default") for x in inputs]
        self.sparse = any(s != "default" for s in stypes[: self.n_in])
        self.in_stypes, self.out_stypes = stypes[: self.n_in], ["default"] * len(self.out_shapes)
        if self.sparse:
            self.in_stypes, self.out_stypes = map(list, prop.infer_storage_type(self.in_stypes)[:2])
        self.aux_stypes = stypes[self.n_in :]
        self.op = prop.create_operator(device, shapes, dtypes)
        self.cls: Any = cls_
        self.device = device

    def forward(self, ins: list[Any], aux: list[Any], training: bool | None = None) -> list[Any]:
        training = local.st.training if training is None else training
        outs = self._blank(self.out_shapes, self.out_dtypes, self.out_stypes)
        with autograd.pause(train_mode=training), _watched(self.name), errors.told(self.name):
            self.op.forward(training, ["write"] * len(outs), ins, outs, aux)
        return outs

    def started(self, ins: list[Any]) -> list[Any]:
        """`forward` in a thread of its own; its results are there when they are read."""
        from .effects import host_ops

        training, device = local.st.training, ins[0]._value().aval.device
        if host_ops.inside():
            return self.forward(ins, [])
        found = host_ops.start(
            lambda: values(self.forward(ins, [], training)), self.out_shapes, self.out_dtypes, device)
        return [wrap(self.cls, v) for v in found]

    def backward(self, grads: list[Any], ins: list[Any], outs: list[Any], aux: list[Any]) -> list[Any]:
        stypes = ["default"] * len(ins)
        if self.sparse:
            given = [[g.stype for g in grads], self.in_stypes, self.out_stypes, list(self.in_stypes), self.aux_stypes]
            stypes = list(self.prop.infer_storage_type_backward(*given)[3])
        made = self._blank([x.shape for x in ins], [x.dtype for x in ins], stypes)
        with autograd.pause(train_mode=True), _watched("_backward_" + self.name), errors.told(self.name):
            self.op.backward(["write"] * len(made), grads, ins, outs, made, aux)
        return made

    def _blank(self, shapes: Sequence[Any], dtypes: Sequence[Any], stypes: Sequence[str]) -> list[Any]:
        with self.device:
            return [
                wrap(self.cls, _zeros(s, t)) if kind == "default" else
                sparse.wrap(sparse.nothing(kind, s, np.dtype(t), core.default_device()))
                for s, t, kind in zip(shapes, dtypes, stypes, strict=True)
            ]  # fmt: skip

    def taken(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs in the storage types in which the operator takes them."""
        return [
            _again(sparse.wrap(sparse.in_stype(sparse.taped_value(x), kind)) if x.stype != kind else x, self.cls)
            for x, kind in zip(inputs, self.in_stypes, strict=True)
        ]  # fmt: skip


def _again(x: Any, cls: Any) -> Any:
    """Another array on the value of this one."""
    return cls._wrap(x._value()) if x.stype == "default" else sparse.wrap(sparse.taped_value(x).again())


def _zeros(shape: tuple[int, ...], dtype: Any) -> Value:
    call = TABLE["_zeros"].bind((("dtype", np.dtype(dtype).name), ("shape", tuple(shape))))
    return core.record_on(core.default_device(), call)[0]


@contextmanager
def _watched(name: str) -> Iterator[None]:
    """Tells the observers that Python code of a custom operator runs."""
    start = time.time_ns() if observers else 0
    try:
        yield
    finally:
        for o in observers if start else ():
            o.on_python(name, start, time.time_ns())


def custom(*data: Any, op_type: str, **kwargs: Any) -> Any:
    """Run a registered custom operator: ``nd.Custom(x, y, op_type="name", option=1)``.

    Its Python code runs at once, on arrays whose own calls are recorded like any others, so an error in it is
    raised at this line. Raises ``MXNetError`` for an unknown ``op_type``.
    """
    if not _host_fallback():
        raise errors.MXNetNotImplementedError(
            f"the custom operator {op_type!r} is Python code, and engine.host_fallback (mix_compile_mode) is off: "
            "write it with operators of mxjax, or mx.config.set('engine.host_fallback', True)"
        )
    kwargs.pop("name", None)
    inputs = [x if isinstance(x, NDArray) else ndarray(core.concrete(x, shared=True)) for x in data]
    options = tuple([(k, str(v)) for k, v in sorted(kwargs.items())])
    like = inputs[0] if inputs else None
    device = current_device() if like is None else like.device
    one = _Instance(op_type, inputs, device, ndarray if like is None else like._front, options)
    ins = one.taken(inputs[: one.n_in])
    aux = list(inputs[one.n_in :])
    if core.is_recording():
        try:
            with trying():
                outs = one.forward(ins, aux)
        except ReadWhileRecording:
            attrs = (
                ("op_type", op_type), ("options", options), ("is_train", local.st.training),
                ("legacy", one.cls._legacy),
            )  # fmt: skip
            outs = [one.cls._wrap(v) for v in core.record(_CUSTOM.bind(attrs), values(ins))]
            return outs[0] if len(outs) == 1 else outs
    elif _in_parallel() and not aux and not one.sparse:
        outs = one.started(ins)
    else:
        outs = one.forward(ins, aux)
    taped = [_again(o, one.cls) for o in outs]
    if core.is_recording() or autograd.is_recording():
        _tape(one, inputs[: one.n_in], ins, taped, aux)
    return taped[0] if len(taped) == 1 else taped


def _tape(one: _Instance, inputs: Any, ins: list[Any], outs: list[Any], aux: list[Any]) -> None:
    plain = [_again(o, one.cls) for o in outs]

    def pull(given: list[Value | None]) -> list[Value | None]:
        with autograd.pause():
            grads = [o * 0 if g is None else one.cls._wrap(g) for g, o in zip(given, plain, strict=True)]
        return [sparse.taped_value(g) for g in one.backward(grads, ins, plain, aux)]

    pull.once = one.name  # type: ignore[attr-defined]
    core.attach_python([sparse.taped_value(x) for x in inputs], [sparse.taped_value(o) for o in outs], pull)


def _in_program(*xs: Any, op_type: str, options: tuple[tuple[str, str], ...], is_train: bool, legacy: bool) -> Any:
    """Inside a program, such as a hybridized block's, Python code that looks at numbers runs as a callback of it."""
    one = _Instance(op_type, xs, current_device(), NDArray if legacy else ndarray, options)
    shapes = [jax.ShapeDtypeStruct(s, t) for s, t in zip(one.out_shapes, one.out_dtypes, strict=True)]
    grad_shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in xs]
    n = len(xs)

    def arrays(host: Sequence[Any]) -> list[Any]:
        return [one.cls._wrap(core.concrete(jax.numpy.asarray(h), shared=True)) for h in host]

    @guarded
    def forward(*host: Any) -> tuple[Any, ...]:
        scope = autograd.train_mode() if is_train else autograd.predict_mode()
        with scope:
            return tuple(o.asnumpy() for o in one.forward(arrays(host), []))

    @guarded
    def backward(*host: Any) -> tuple[Any, ...]:
        given = arrays(host)
        m = len(shapes)
        grads = one.backward(given[n + m :], given[:n], given[n : n + m], [])
        return tuple(g.asnumpy() for g in grads)

    @jax.custom_vjp
    def run(*xs: Any) -> tuple[Any, ...]:
        return tuple(jax.pure_callback(forward, tuple(shapes), *xs))

    def run_fwd(*xs: Any) -> Any:
        out = run(*xs)
        return out, (xs, out)

    def run_bwd(saved: Any, grads: Any) -> Any:
        xs, out = saved
        return tuple(jax.pure_callback(backward, tuple(grad_shapes), *xs, *out, *grads))

    run.defvjp(run_fwd, run_bwd)
    return run(*xs)


_CUSTOM = core.row("Custom", _in_program, effect=True)


# -- MXNet's first kind of operators in Python ---------------------------------------------------------

_numbers = itertools.count()


class PythonOp:
    """An operator written in Python, as MXNet had them before `CustomOp`; see `NumpyOp` and `NDArrayOp`.

    An instance is called with arrays, or with symbols.
    """

    #: What `forward` and `backward` get: arrays of this package, or of NumPy.
    _of_numpy = False

    def __init__(self, need_top_grad: bool = True):
        self.need_top_grad_ = need_top_grad
        self._op_type = f"_native_{next(_numbers)}"
        warnings.warn(f"{type(self).__name__} is deprecated: use CustomOp", DeprecationWarning, stacklevel=2)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The operator's results, symbols or arrays as the arguments are."""
        raise errors.MXNetNotImplementedError(
            f"{type(self).__name__} does not define get_symbol(): derive from NumpyOp or NDArrayOp"
        )

    def forward(self, in_data: list[Any], out_data: list[Any]) -> None:
        """Compute the outputs in place: the first input by default."""
        out_data[0][:] = in_data[0]

    def backward(
        self, out_grad: list[Any], in_data: list[Any], out_data: list[Any], in_grad: list[Any]
    ) -> None:
        """Compute the inputs' gradients in place: ones by default."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: list[list[int]]) -> tuple[Any, ...]:
        """(input shapes, output shapes); one output of the first input's shape by default."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether `backward` uses the outputs' gradients."""
        return self.need_top_grad_

    def _as_custom(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run as a custom operator: this one under a name of its own."""
        _registry.setdefault(self._op_type, _prop_of(self))
        named = [kwargs.pop(name) for name in self.list_arguments()[len(args) :] if name in kwargs]
        given = [*args, *named]
        if all(isinstance(x, NDArray) for x in given):
            return custom(*given, op_type=self._op_type, **kwargs)
        return importlib.import_module(f"{__package__}.symbol").Custom(*given, op_type=self._op_type, **kwargs)


def _prop_of(old: PythonOp) -> type[CustomOpProp]:
    class Run(CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            _in_place(old, out_data, lambda outs, ins: old.forward(in_data=ins, out_data=outs), in_data)

        def backward(
            self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
        ) -> None:
            def run(made: Any, grads: Any, ins: Any, outs: Any) -> None:
                old.backward(out_grad=grads, in_data=ins, out_data=outs, in_grad=made)

            _in_place(old, in_grad, run, out_grad, in_data, out_data)

    class Prop(CustomOpProp):
        def infer_shape(self, in_shape: Any) -> Any:
            return (*old.infer_shape(in_shape), ())

        def list_arguments(self) -> list[str]:
            return old.list_arguments()

        def list_outputs(self) -> list[str]:
            return old.list_outputs()

        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
            return Run()

    return Prop


def _in_place(old: PythonOp, made: Any, run: Callable[..., None], *given: Any) -> None:
    """Call what writes into its first list of arrays."""
    if not old._of_numpy:
        run(made, *given)
        return
    blank = [np.zeros(x.shape, x.dtype) for x in made]
    run(blank, *[[x.asnumpy() for x in arrays] for arrays in given])
    for array, numbers in zip(made, blank, strict=True):
        array[:] = numbers


class NumpyOp(PythonOp):
    """An operator whose `forward` and `backward` get arrays of NumPy and write into those.

    >>> import mxjax as mx, warnings
    >>> warnings.simplefilter("ignore", DeprecationWarning)
    >>> class Double(NumpyOp):
    ...     def forward(self, in_data, out_data):
    ...         out_data[0][:] = in_data[0] * 2
    >>> Double()(mx.nd.ones((2,))).asnumpy()
    array([2., 2.], dtype=float32)
    """

    _of_numpy = True

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        return self._as_custom(args, kwargs)


class NDArrayOp(PythonOp):
    """An operator whose `forward` and `backward` get arrays of mx.nd and write into those."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        return self._as_custom(args, kwargs)

    def declare_backward_dependency(
        self, out_grad: Sequence[int], in_data: Sequence[int], out_data: Sequence[int]
    ) -> list[int]:
        """Which arrays `backward` uses; only a hint here, as of `CustomOpProp`."""
        return [*(out_grad if self.need_top_grad() else []), *in_data, *out_data]


errors.explain_names(__name__)
