"""What operators compute in: dtypes, rounded operands, exact or fast products, lowerings.

Programs are changed while they are traced: an operator's function is replaced by one of the same shapes
and dtypes, in the forward pass and in what is differentiated of it. Who writes a graph to a file sees the
same as steps of it (:func:`converted`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import core, settings
from ..core.calls.call import Call, place_now
from ..core.calls.segment import Step
from ..core.calls.value import Value
from ..core.graph.graph import Graph, again
from ..core.hooks import operator_wrappers
from ..errors import did_you_mean
from ..ops.table import TABLE
from ..settings import SettingError
from .accumulation import accumulating
from .convolution import quickest, small_channel

Fn = Callable[..., Any]

#: TensorFlow's names, which Ascend's files use, where ours are others or several.
TENSORFLOW = {
    "MatMul": ("dot", "FullyConnected", "matmul"),
    "MatMulV2": ("dot", "FullyConnected", "matmul"),
    "BatchMatMul": ("batch_dot", "matmul"),
    "BatchMatMulV2": ("batch_dot", "matmul"),
    "Conv2D": ("Convolution",),
    "Conv3D": ("Convolution",),
    "DepthwiseConv2dNative": ("Convolution",),
    "Conv2DBackpropInput": ("Deconvolution",),
    "FusedBatchNorm": ("BatchNorm",),
    "FusedBatchNormV3": ("BatchNorm",),
    "Relu": ("Activation", "relu"),
    "Sub": ("subtract",),
    "AddV2": ("add",),
    "BiasAdd": ("add",),
    "Mul": ("multiply",),
    "RealDiv": ("divide",),
    "ReduceSum": ("sum",),
    "ReduceMean": ("mean",),
    "MaxPool": ("Pooling",),
    "AvgPool": ("Pooling",),
    "GatherV2": ("take",),
    "SoftmaxV2": ("softmax",),
    "Softmax": ("softmax",),
    "LogSoftmaxV2": ("log_softmax",),
}
_CAST, _ROUND = TABLE["_cast"], TABLE["_round_bits"]
_BITS = {"float16": (5, 10), "bfloat16": (8, 7)}


class _Plan:
    """The settings, with operators' names checked."""

    def __init__(self) -> None:
        get = settings.get
        self.mode = get("precision.amp")
        self.matmul = get("precision.matmul")
        self.impl = get("precision.impl")
        self.small = get("compiler.small_channel_conv")
        self.search = get("compiler.conv_search")
        self.sums = get("precision.accumulation")
        self.product_sums = get("precision.product_accumulation")
        self.impl_ops = frozenset(
            one for name in get("precision.impl_ops") for one in _known("precision.impl_ops", name)
        )
        self.dtypes = _by_place("precision.op_dtypes", get("precision.op_dtypes"))
        self.op_impl = _by_place("precision.op_impl", get("precision.op_impl"))
        self.white = _lists(get("precision.lists"))

    @property
    def idle(self) -> bool:
        return (
            self.mode == "origin"
            and self.matmul == "default"
            and self.impl is None
            and not self.small
            and not self.search
            and self.sums is None
            and self.product_sums is None
            and not self.dtypes
            and not self.op_impl
        )


_plan: _Plan | None = None


def apply() -> None:
    """Bring the operators in line with the settings.

    Raises:
      SettingError: a list names an operator that there is not; the nearest names are in the message.
    """
    global _plan
    _plan = _Plan()
    if _plan.idle and _dress in operator_wrappers:
        operator_wrappers.remove(_dress)
    elif not _plan.idle and _dress not in operator_wrappers:
        operator_wrappers.append(_dress)
    core.drop_programs()


@functools.cache
def _rated(amp: str) -> frozenset[str]:
    """Operators (as calls name them) with this word in the column ``amp`` of their rows."""
    return frozenset(row.display for row in TABLE.values() if row.precision.amp == amp)


@functools.cache
def _names() -> dict[str, str]:
    """Every name of an operator, in small letters, and the one that calls have."""
    found: dict[str, str] = {}
    for row in TABLE.values():
        found.setdefault(row.name.partition("@")[0].lower(), row.display)
    return found | {row.display.lower(): row.display for row in TABLE.values()}


def _known(option: str, name: str) -> list[str]:
    """The operators that a name stands for."""
    names = _names()
    ours = TENSORFLOW.get(name, (name,))
    found = [names[one.lower()] for one in ours if one.lower() in names]
    if not found:
        near = did_you_mean(name, [*names.values(), *TENSORFLOW])
        raise SettingError(f"{option}: there is no operator {name!r}{near}")
    return found


def _by_place(option: str, given: Any) -> dict[str, str]:
    """By operator, or by place, which has a slash; of several dtypes the first is the one computed in."""
    found = {}
    for name, values in given.items():
        for one in [name] if "/" in name else _known(option, name):
            found[one] = values[0]
    return found


def _lists(changes: Any) -> frozenset[str]:
    """The white list after the changes: first what is removed, then what is added."""
    white, black = set(_rated("low")), set(_rated("full"))
    lists = {"white-list": white, "black-list": black, "gray-list": set[str]()}
    for title, change in changes.items():
        for name in change.get("to-remove", ()):
            known = set(_known(f"precision.lists: {title}", name))
            if title != "gray-list" and not known & lists[title]:
                raise SettingError(
                    f"precision.lists: {name} cannot be removed from the {title}, it is not on it: "
                    f"{', '.join(sorted(lists[title]))}"
                )
            lists[title] -= known
    for title, change in changes.items():
        for name in change.get("to-add", ()):
            known = set(_known(f"precision.lists: {title}", name))
            white -= known
            black -= known
            lists[title] |= known
    return frozenset(white)


def _place() -> str:
    label = str(getattr(place_now, "label", ""))
    return label.replace("_backward_", "")


def _at(table: dict[str, str], name: str) -> str | None:
    """What a table says for the operator at hand: a place is stronger than a type."""
    if not table:
        return None
    place = _place()
    for key, value in table.items():
        if "/" in key and (place == key.lstrip("/") or place.endswith("/" + key.lstrip("/"))):
            return value
    return table.get(name)


def _dress(call: Call, fn: Fn) -> Fn:
    plan = _plan
    assert plan is not None
    name = call.name
    if plan.small and name == "Convolution":
        fn = small_channel(call, fn)
    elif plan.search and name == "Convolution":
        fn = quickest(call, fn)
    rounded, dtype = _fewer_bits(plan, name)
    if rounded is not None:
        fn = _rounded(fn, rounded)
    if dtype is not None and dtype != "float32":
        fn = _in_dtype(fn, jnp.dtype(dtype))
    fn = accumulating(call, fn, plan.product_sums if name in _rated("low") else plan.sums)
    impl = _at(plan.op_impl, name) or (
        plan.impl if not plan.impl_ops or name in plan.impl_ops else None
    )
    exact = impl == "high_precision" or (impl is None and plan.matmul == "highest")
    return _exact(fn) if exact else fn


def _fewer_bits(plan: _Plan, name: str) -> tuple[str | None, str | None]:
    """What the operator at hand rounds its operands to, and the dtype it computes in, where it is told so."""
    rounded = plan.matmul if plan.matmul in _BITS else None
    if plan.mode == "matmul_float16":
        rounded = "float16"
    dtype = _at(plan.dtypes, name)
    if dtype is None and plan.mode in ("float16", "bfloat16"):
        dtype = plan.mode
    if dtype is None and plan.mode.startswith("mixed_") and name in plan.white:
        dtype = plan.mode.removeprefix("mixed_")
    return (rounded if name in _rated("low") else None), dtype


def converted(graph: Graph) -> Graph:
    """The graph with what the settings say of dtypes as steps of its own, for who writes it to a file.

    Casts stand around the operators that compute in another dtype, roundings before those whose operands have fewer
    bits. What has no step to stand for it (exact products, what sums are kept in, lowerings) is left to the
    program that is traced.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.Dense(2, in_units=3)
    >>> net.initialize()
    >>> with mx.config.scope(precision_amp="mixed_bfloat16"):
    ...     graph = converted(net.graph(mx.np.ones((4, 3))))
    >>> [step.call.name for step in graph.steps]
    ['cast', 'cast', 'cast', 'FullyConnected', 'cast']
    """
    plan = _plan
    if plan is None or plan.idle:
        return graph

    def visit(step: Step, operands: tuple[Any, ...]) -> Sequence[Value]:
        call = step.call
        assert call is not None
        if call.op is None or call.forward is not None:
            return again(step, operands)
        place_now.label = step.label
        rounded, dtype = _fewer_bits(plan, call.name)
        if dtype is not None and dtype != "float32":
            operands = tuple(_narrowed(v, _CAST.bind((("dtype", dtype),))) for v in operands)
        if rounded is not None:
            exponent, mantissa = _BITS[rounded]
            bits = _ROUND.bind((("exponent", exponent), ("mantissa", mantissa)))
            operands = tuple(_narrowed(v, bits) for v in operands)
        made = core.record(call, operands)
        back = [_CAST.bind((("dtype", a.dtype.name),)) for a in step.avals]
        return [
            v if v.aval.dtype == a.dtype else core.record(cast, (v,))[0]
            for v, a, cast in zip(made, step.avals, back, strict=True)
        ]

    return graph.replay(visit)


def _narrowed(v: Any, call: Call) -> Any:
    """An operand of a step after this call, if it is an array of float32."""
    return core.record(call, (v,))[0] if type(v) is Value and v.aval.dtype == np.float32 else v


def narrows(name: str) -> bool:
    """Whether the operator at hand, of this name, computes in fewer bits than float32 has."""
    if _plan is None:
        return False
    rounded, dtype = _fewer_bits(_plan, name)
    return rounded is not None or dtype in _BITS


def _in_dtype(fn: Fn, dtype: Any) -> Fn:
    """The function with float32 operands in another dtype, and results in their own."""

    def run(*args: Any) -> Any:
        promised = jax.eval_shape(fn, *args)
        out = fn(*[a.astype(dtype) if a.dtype == jnp.float32 else a for a in args])
        return jax.tree_util.tree_map(lambda o, p: o.astype(p.dtype), out, promised)

    return run


def _rounded(fn: Fn, dtype: str) -> Fn:
    """The function with float32 operands rounded to fewer bits; its sums stay float32."""
    exponent, mantissa = _BITS[dtype]

    def run(*args: Any) -> Any:
        return fn(
            *[
                _ROUND.fn(a, exponent=exponent, mantissa=mantissa) if a.dtype == jnp.float32 else a
                for a in args
            ]
        )

    return run


def _exact(fn: Fn) -> Fn:
    def run(*args: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return fn(*args)

    return run


__all__ = ["TENSORFLOW", "apply", "converted"]
