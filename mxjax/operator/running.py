"""How a custom operator runs: its Python in the caller's thread at each call, its `backward` as the derivative.

In imperative code each call has an operator of its own. While a graph is recorded, a call is a step of that graph
(`Row` "Custom"), which is cut there (`core/graph/cut.py`): the graph's call runs the Python. Inside a transformation of
JAX the step is a function with a derivative of its own, which calls back (`inside_jax.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import autograd, core, errors, settings
from ..array import sparse
from ..array.classes import ndarray
from ..array.invoke import wrap
from ..array.ndarray import NDArray, values
from ..core import Value
from ..core.calls.state import local
from ..core.graph.cut import Loan
from ..core.hooks import observers
from ..core.run.failures import failed_value
from ..device import Device, current_device
from ..modes import resumed, taken
from ..ops.table import TABLE
from .custom_op import CustomOpProp, registry, renewed
from .inside_jax import in_program, traced_once

_host_fallback = settings.snapshot("engine.host_fallback")
_in_parallel = settings.snapshot("engine.host_ops_parallel")

Options = tuple[tuple[str, str], ...]

#: What hears of an operator as a whole, and not of what its Python calls (deferred computation puts it here): it is
#: given what runs the operator, what makes its call, and the operands.
noted: list[Callable[[Callable[[], list[Any]], Callable[[], Any], Sequence[Value]], list[Any]]] = []


def custom(*data: Any, op_type: str = "", **kwargs: Any) -> Any:
    """Run a registered custom operator: ``nd.Custom(x, y, op_type="name", option=1)``.

    Its Python code runs at once, on arrays whose own calls are recorded like any others, so an error in it is
    raised at this line; in a hybridized block, whenever the block is called. Raises ``MXNetError`` for an unknown
    ``op_type``.
    """
    if not op_type:
        raise errors.MXNetTypeError(
            "Custom needs op_type=, the name that @mx.operator.register gave the operator"
        )
    kwargs.pop("name", None)
    options = tuple([(k, str(v)) for k, v in sorted(kwargs.items())])
    return run(data, op_type, options)


def run(
    data: Sequence[Any],
    op_type: str,
    options: Options,
    places: core.Places | None = None,
    place: Any = None,
) -> Any:
    """:func:`custom` with its options as texts; ``places`` keeps the operator of this ``place`` between calls."""
    if not _host_fallback():
        raise errors.MXNetNotImplementedError(
            f"the custom operator {op_type!r} is Python code, and engine.host_fallback (mix_compile_mode) is off: "
            "write it with operators of mxjax, or mx.config.set('engine.host_fallback', True)"
        )
    inputs = [x if isinstance(x, NDArray) else ndarray(core.concrete(x, shared=True)) for x in data]
    like = inputs[0] if inputs else None
    cls: Any = ndarray if like is None else like._front
    said = Described(op_type, options, inputs)
    vs = [x._value() for x in inputs if x.stype == "default"]
    if core.is_recording() or core.is_traced(vs):
        outs = [cls._wrap(v) for v in _recorded(said, op_type, options, cls, vs, place)]
    else:
        loan = _lent(places, place, said, vs, lambda: Instance(said, _device_of(like), cls))
        if noted:
            outs = noted[0](
                lambda: _run(loan, inputs), lambda: _bound(op_type, options, cls._legacy), vs
            )
        else:
            outs = _run(loan, inputs)
    return outs[0] if len(outs) == 1 else outs


def _device_of(like: Any) -> Device:
    return current_device() if like is None else like.device


def _lent(
    places: core.Places | None, place: Any, said: Described, vs: Sequence[Value], make: Any
) -> Loan:
    if places is None:
        return Loan([make(), None])
    return places.lend((place, said.name, tuple([v.aval for v in vs])), make)


class Described:
    """What a custom operator says of itself for inputs of these shapes and dtypes, checked as MXNet checks it.

    Raises:
      MXNetError: there is no operator of the name; it takes other arrays, or infers what contradicts them.
    """

    def __init__(self, op_type: str, options: Iterable[tuple[str, str]], inputs: Sequence[Any]):
        cls: Any = registry.get(op_type)
        if cls is None:
            raise errors.MXNetError(
                f"Cannot find custom operator {op_type}{errors.did_you_mean(op_type, registry)}; registered are "
                f"{sorted(registry)}. Register it with @mx.operator.register({op_type!r})"
            )
        self.name = op_type
        self.options = tuple(options)
        self.prop: CustomOpProp = self._asked(cls, **dict(self.options))
        self.arguments, self.outputs = (
            list(self.prop.list_arguments()),
            list(self.prop.list_outputs()),
        )
        self.auxiliary = list(self.prop.list_auxiliary_states())
        wanted = [*self.arguments, *self.auxiliary]
        if len(inputs) != len(wanted):
            raise errors.MXNetError(
                f"custom operator {op_type} takes {len(wanted)} arrays ({', '.join(wanted)}), got {len(inputs)}"
            )
        self.n_in = n = len(self.arguments)
        self.shapes = [list(x.shape) for x in inputs[:n]]
        self.dtypes = [np.dtype(x.dtype).type for x in inputs[:n]]
        shapes = self._three(
            "infer_shape", self._asked(self.prop.infer_shape, [list(s) for s in self.shapes])
        )
        dtypes = self._three("infer_type", self._asked(self.prop.infer_type, list(self.dtypes)))
        for name, x, shape in zip(wanted, inputs, (*shapes[0], *shapes[2]), strict=True):
            if tuple(shape) != tuple(x.shape):
                raise errors.MXNetError(
                    f"custom operator {op_type}: Shape inconsistent, Provided = {list(x.shape)} for {name!r}, inferred "
                    f"shape={list(shape)} (infer_shape)"
                )
        for name, x, dtype in zip(self.arguments, inputs, dtypes[0], strict=False):
            if np.dtype(dtype) != np.dtype(x.dtype):
                raise errors.MXNetError(
                    f"custom operator {op_type}: Type inconsistent, Provided = {np.dtype(x.dtype).name} for {name!r}, "
                    f"inferred type = {np.dtype(dtype).name} (infer_type)"
                )
        # Auxiliary states come last in what `create_operator` hears.
        states = inputs[n:]
        self.created_for = (
            [*self.shapes, *[list(x.shape) for x in states]],
            [*self.dtypes, *[np.dtype(x.dtype).type for x in states]],
        )
        self.out_shapes = [tuple(s) for s in shapes[1]]
        self.out_dtypes = [np.dtype(t) for t in dtypes[1]]

    def _asked(self, of_user: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a method of the user's gives; its error is an MXNetError, as that of `forward` is."""
        with errors.told(self.name):
            return of_user(*args, **kwargs)

    def _three(self, what: str, found: Any) -> list[list[Any]]:
        """(inputs, outputs, auxiliary states) as a method of the CustomOpProp gave them; the last may be left out."""
        if not isinstance(found, (tuple, list)) or len(found) not in (2, 3):
            raise errors.MXNetError(
                f"custom operator {self.name}: {what} must return 2 or 3 lists, got {found!r}"
            )
        lists = [list(part) for part in (*found, [])[:3]]
        if what == "infer_type" and len(found) == 2 and self.auxiliary:
            lists[2] = [np.dtype("float32")] * len(self.auxiliary)
        for part, names, kind in zip(
            lists, (self.arguments, self.outputs, self.auxiliary), _KINDS, strict=True
        ):
            if len(part) != len(names):
                raise errors.MXNetError(
                    f"custom operator {self.name}: {what} gives {len(part)} {kind}, {len(names)} are expected "
                    f"({', '.join(names) or 'none'})"
                )
        return lists


_KINDS = ("inputs", "outputs", "auxiliary states")


class Instance:
    """An operator that was created, with what it was created for."""

    def __init__(self, said: Described, device: Device, cls: Any):
        self.said = said
        # What stands for it in a symbol of the tape, which has no place for auxiliary states.
        self.call = None if said.auxiliary else _bound(said.name, said.options, cls._legacy)
        self.device = device
        self.cls = cls
        prop, n, m = said.prop, said.n_in, len(said.outputs)
        # MXNet numbers outputs' gradients first, then inputs, then outputs.
        asked = prop.declare_backward_dependency(
            list(range(m)), list(range(m, m + n)), list(range(m + n, 2 * m + n))
        )
        self.declared = [k in set(asked) for k in range(2 * m + n)]
        with device, errors.told(said.name):
            self.op = prop.create_operator(device, *said.created_for)

    def storage(self, inputs: Sequence[Any]) -> tuple[list[str], list[str]]:
        """The storage types in which inputs are taken and outputs made."""
        stypes = [x.stype for x in inputs[: self.said.n_in]]
        if all(s == "default" for s in stypes):
            return stypes, ["default"] * len(self.said.outputs)
        given = self.said.prop.infer_storage_type(stypes)
        return list(given[0]), list(given[1])

    def forward(
        self, ins: list[Any], aux: list[Any], training: bool, stypes: Sequence[str] | None = None
    ) -> list[Any]:
        said = self.said
        outs = self._blank(
            said.out_shapes, said.out_dtypes, stypes or ["default"] * len(said.out_shapes)
        )
        if local.st.rehearsing is not None:
            return outs  # nothing runs
        with (
            autograd._Scope(False, training),
            self.device,
            _watched(said.name),
            errors.told(said.name),
        ):
            self.op.forward(training, ["write"] * len(outs), ins, outs, aux)
        return outs

    def backward(
        self,
        grads: Sequence[Any],
        ins: Sequence[Any],
        outs: Sequence[Any],
        aux: list[Any],
        wants: Sequence[bool],
        stypes: Sequence[str],
        sums: Sequence[Any] = (),
    ) -> list[Any]:
        """The gradients of the wanted inputs, None for the others; those with ``sums`` are added to these arrays'."""
        said = self.said
        made = self._blank(said.shapes, said.dtypes, stypes)
        req = ["write" if w else "null" for w in wants]
        for k, total in enumerate(sums):
            if total is not None:
                made[k], req[k] = _again(total, self.cls), "add"
        training, name = local.st.training, said.name
        if local.st.rehearsing is None:
            with (
                autograd._Scope(False, training),
                self.device,
                _watched("_backward_" + name),
                errors.told(name),
            ):
                self.op.backward(req, list(grads), list(ins), list(outs), made, aux)
        return [g if w else None for g, w in zip(made, wants, strict=True)]

    def _blank(
        self, shapes: Sequence[Any], dtypes: Sequence[Any], stypes: Sequence[str]
    ) -> list[Any]:
        place = self.device.placement
        return [
            wrap(self.cls, _zeros(tuple(s), np.dtype(t), place)) if kind == "default" else
            sparse.wrap(sparse.nothing(kind, tuple(s), np.dtype(t), place))
            for s, t, kind in zip(shapes, dtypes, stypes, strict=True)
        ]  # fmt: skip

    def undeclared(self, what: str, dtype: Any) -> Any:
        """What stands for an array that `backward` said not to use: as in MXNet it has no numbers."""
        error = errors.MXNetError(
            f"the custom operator {self.said.name} reads {what} in backward, which its CustomOpProp does not declare "
            "(need_top_grad, declare_backward_dependency): Shape is unknown"
        )
        failure = core.Failure(error)
        return wrap(
            self.cls, failed_value(core.aval((), np.dtype(dtype), self.device.placement), failure)
        )


def is_undeclared(x: Any) -> bool:
    """Whether an array stands for one that `backward` said not to use."""
    v = x._value()
    return v.seg is None and type(v.arr) is core.Failure and not v.aval.shape


def _zeros(shape: tuple[int, ...], dtype: Any, place: Any) -> Value:
    call = TABLE["_zeros"].bind((("dtype", dtype.name), ("shape", shape)))
    return core.record_on(place, call)[0]


@contextmanager
def _watched(name: str) -> Iterator[None]:
    """Tells the observers that Python code of a custom operator runs."""
    start = time.time_ns() if observers else 0
    try:
        yield
    finally:
        for o in observers if start else ():
            o.on_python(name, start, time.time_ns())


# ---- running now -------------------------------------------------------------------------------------


def _again(x: Any, cls: Any) -> Any:
    """Another array on the value of this one."""
    return (
        wrap(cls, x._value())
        if x.stype == "default"
        else sparse.wrap(sparse.taped_value(x).again())
    )


def _taken(inputs: Sequence[Any], stypes: Sequence[str], cls: Any) -> list[Any]:
    """The inputs in the storage types in which the operator takes them."""
    return [
        _again(
            sparse.wrap(sparse.in_stype(sparse.taped_value(x), kind)) if x.stype != kind else x, cls
        )
        for x, kind in zip(inputs, stypes, strict=True)
    ]


def _run(loan: Loan, inputs: Sequence[Any]) -> list[Any]:
    """The results of an operator for these arrays, on the tape where they are; auxiliary states are written to."""
    one: Instance = loan.what
    n, training = one.said.n_in, local.st.training
    data, aux = inputs[:n], list(inputs[n:])
    stypes, out_stypes = one.storage(data)
    dense = all(s == "default" for s in (*stypes, *out_stypes))
    ins = _taken(data, stypes, one.cls)
    before = [x._v for x in ins] if dense else []
    try:
        if _in_parallel() and not aux and dense:
            outs = _started(loan, ins, training)
        else:
            outs = one.forward(ins, aux, training, out_stypes)
    except BaseException:
        loan.end()
        raise
    for x, now, v in zip(data, ins, before, strict=False):
        if now._v is not v:  # it wrote to its input, which in MXNet is the caller's array
            x._assign(now._v)
    taped = [_again(o, one.cls) for o in outs]
    if local.st.taping:
        _tape(loan, data, ins, taped, aux, stypes, out_stypes)
    return taped


def _started(loan: Loan, ins: list[Any], training: bool) -> list[Any]:
    """The forward in a thread of its own; its results are there when they are read."""
    from ..effects import host_ops

    one: Instance = loan.what

    if host_ops.inside():
        return one.forward(ins, [], training)
    mine = taken()

    def work() -> list[Any]:
        resumed(mine)
        return values(loan.what.forward(ins, [], training))

    found = host_ops.start(
        work, one.said.out_shapes, one.said.out_dtypes,
        ins[0]._value().aval.device,
    )  # fmt: skip
    return [wrap(one.cls, v) for v in found]


def _tape(
    loan: Loan,
    inputs: Any,
    ins: list[Any],
    outs: list[Any],
    aux: list[Any],
    in_stypes: Any,
    out_stypes: Any,
) -> None:
    one: Instance = loan.what
    sources = [sparse.taped_value(x) for x in inputs]
    wants = [v.tape is not None for v in sources]
    if True not in wants:
        return
    m, n = len(outs), len(ins)
    declared = one.declared
    kept_ins = [
        x if declared[m + k] else one.undeclared(f"in_data[{k}]", x.dtype)
        for k, x in enumerate(ins)
    ]
    kept_outs = [
        _again(o, one.cls) if declared[m + n + k] else one.undeclared(f"out_data[{k}]", o.dtype)
        for k, o in enumerate(outs)
    ]
    stypes = ["default"] * n
    if any(s != "default" for s in in_stypes):
        prop = one.said.prop
        given = [[*out_stypes], in_stypes, out_stypes, list(in_stypes), [a.stype for a in aux]]
        stypes = list(prop.infer_storage_type_backward(["default"] * m, *given[1:])[3])

    def pull(given: list[Value | None], sums: Sequence[Any] = ()) -> list[Value | None]:
        # The loan ends with the node.
        one: Instance = loan.what
        grads = []
        for k, g in enumerate(given):
            shape, dtype = one.said.out_shapes[k], one.said.out_dtypes[k]
            if not declared[k]:
                grads.append(one.undeclared(f"out_grad[{k}]", dtype))
            else:
                grads.append(
                    wrap(one.cls, _zeros(shape, dtype, one.device.placement) if g is None else g)
                )
        made = one.backward(grads, kept_ins, kept_outs, aux, wants, stypes, sums)
        return [None if g is None else sparse.taped_value(g) for g in made]

    pull.once, pull.adds = one.said.name, True  # type: ignore[attr-defined]
    core.attach_python(sources, [sparse.taped_value(o) for o in outs], pull, one.call)


# ---- in graphs ---------------------------------------------------------------------------------------


def _bound(
    op_type: str, options: Options, legacy: bool, place: Any = None, traceable: bool = False
) -> Any:
    attrs: list[tuple[str, Any]] = [
        ("op_type", op_type), ("options", options), ("is_train", local.st.training), ("legacy", legacy),
    ]  # fmt: skip
    if place is not None:
        attrs.append(("place", place))
    if op_type in renewed:
        attrs.append(("renewed", renewed[op_type]))
    return (_TRACED if traceable else _CUSTOM).bind(tuple(attrs))


def _recorded(
    said: Described, op_type: str, options: Options, cls: Any, vs: Sequence[Value], place: Any
) -> Sequence[Value]:
    """The results of a step of the graph that is being recorded, or of a call inside a transformation of JAX."""
    traceable = said.prop.traceable and not said.auxiliary
    call = _bound(op_type, options, cls._legacy, place, traceable)
    return core.record(call, vs)


def _inferred(call: Any, avals: Sequence[Any]) -> tuple[tuple[tuple[int, ...], Any], ...]:
    """The shapes and dtypes that the operator says its results have."""
    attrs = dict(call.attrs)
    said = Described(attrs["op_type"], attrs["options"], avals)
    return tuple(zip(said.out_shapes, said.out_dtypes, strict=True))


def _in_graph(
    call: Any, operands: Sequence[Value], handles: Sequence[Any], places: core.Places, at: Any
) -> Sequence[Value]:
    """Run the Python of a graph's step, on values and the arrays that hold them."""
    attrs = dict(call.attrs)
    cls: Any = NDArray if attrs["legacy"] else ndarray
    arrays = [wrap(cls, v) if h is None else h for v, h in zip(operands, handles, strict=True)]

    def make() -> Instance:
        said = Described(attrs["op_type"], attrs["options"], arrays)
        return Instance(said, _device_of(arrays[0] if arrays else None), cls)

    key = attrs.get("place", at), attrs["op_type"], tuple([v.aval for v in operands])
    return values(_run(places.lend(key, make), arrays))


_CUSTOM = core.row("Custom", in_program, python=_in_graph, inferred=_inferred)
_TRACED = core.row("_custom_traced", traced_once, display="Custom", inferred=_inferred)
