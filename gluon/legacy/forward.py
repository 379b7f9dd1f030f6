"""`hybrid_forward(self, F, x, **params)`: the forward of MXNet 1.x, with its operators and parameters handed to it."""

from __future__ import annotations

import copy
import inspect
from contextlib import nullcontext
from typing import Any

from mxjax import errors, nd
from mxjax.array.ndarray import NDArray
from mxjax.device import Device
from mxjax.modes import generation

from ..parameter import Parameter

_PACKAGE = __name__.partition(".")[0]


def writes_hybrid_forward(block: Any) -> bool:
    """Whether a block's class defines `hybrid_forward`."""
    return type(block).hybrid_forward is not _hybrid_block(type(block)).hybrid_forward


def _hybrid_block(cls: Any) -> Any:
    """`HybridBlock`, of which a class is made."""
    return next(base for base in cls.__mro__ if "_is_hybrid_block" in vars(base))


def first_array(args: Any) -> NDArray | None:
    """The first array among arguments, in nested lists too."""
    for a in args:
        if isinstance(a, NDArray):
            return a
        if isinstance(a, (list, tuple)):
            found = first_array(a)
            if found is not None:
                return found
    return None


def run_hybrid_forward(block: Any, args: tuple[Any, ...]) -> Any:
    """Call a block's `hybrid_forward` on arrays: F is mx.nd (with F.np and F.npx), parameters are of the arrays' kind.

    Raises:
      ValueError: there is no array among the arguments.
    """
    first = first_array(args)
    if first is None:
        raise errors.MXNetValueError(
            "In HybridBlock, there must be one NDArray or one Symbol in the input. Please check the type of the args."
        )
    where = first.device
    params = {name: _of_kind(p.data(where), first) for name, p in block._reg_params.items()}
    with where if isinstance(where, Device) else nullcontext():
        return block.hybrid_forward(nd, *args, **params)


def symbols_in(block: Any) -> dict[Any, NDArray] | None:
    """Where MXNet 1 hands Symbols to a hybridized block's code, the parameters' arrays by their values; else None.

    A `forward` of a program's own runs on arrays there, unless it stands within another block's `hybrid_forward`."""
    if generation() == 2 or type(block).forward.__module__.partition(".")[0] != _PACKAGE:
        return None
    arrays = (a for p in block.collect_params().values() for a in (p._arrays or {}).values())
    return {a._value(): a for a in arrays}


def follow_hybrid_forward(cls: Any) -> None:
    """Let a new class that defines `hybrid_forward` alone be computed by it, though its base, a layer, has a forward.

    A forward that a program's own class among its bases defines is called first, as in MXNet."""
    cls._followed = vars(cls).get("hybrid_forward", _hybrid_block(cls).hybrid_forward)
    cls._computes = cls.hybrid_forward  # another one is there: it was assigned since
    if "hybrid_forward" in vars(cls) and "forward" not in vars(cls):
        for base in cls.__mro__[1:]:
            forward = vars(base).get("forward")
            if getattr(forward, "calls_hybrid_forward", False):
                cls.forward = forward
                return
            if forward is not None and base.__module__.partition(".")[0] != _PACKAGE:
                return


def follow_assigned(cls: Any) -> None:
    """Let the layers among a class's bases be computed by a `hybrid_forward` that was assigned to them since.

    As in ``nn.Dense.hybrid_forward = mine``; the layer's own forward comes back with the `hybrid_forward` it had.
    """
    base = _hybrid_block(cls)
    for layer in cls.__mro__[: cls.__mro__.index(base)]:
        held = vars(layer)
        now = held.get("hybrid_forward", base.hybrid_forward)
        if now is held.get("_followed", base.hybrid_forward):
            continue
        if "_forward_before" not in held:
            layer._forward_before = held.get("forward")
        before = held["_forward_before"]
        if now is not base.hybrid_forward:
            layer.forward = base.forward
        elif before is not None:
            layer.forward = before
        elif "forward" in held:
            del layer.forward
        layer._followed = now
    cls._computes = cls.hybrid_forward


def hybrid_forward_of_layer(
    block: Any, operators: Any, args: tuple[Any, ...], params: dict[str, Any]
) -> Any:
    """What the `hybrid_forward` of a layer gives for parameters that are handed to it, by position or by keyword: its
    forward's results with these in the places of its own.

    Raises:
      NotImplementedError: none of the block's classes computes anything.
    """
    mro, hybrid = type(block).__mro__, _hybrid_block(type(block))
    layers = mro[: mro.index(hybrid)]
    written = [
        k
        for k, cls in enumerate(layers)
        if vars(cls).get("hybrid_forward", hybrid.hybrid_forward) is not hybrid.hybrid_forward
    ]
    assigned = vars(layers[written[-1]]).get("_forward_before") if written else None
    found = (
        assigned,
        *(vars(cls).get("forward") for cls in layers[written[-1] + 1 if written else 0 :]),
    )
    forward = next(
        (f for f in found if f is not None and not getattr(f, "calls_hybrid_forward", False)), None
    )
    if forward is None:
        raise errors.MXNetNotImplementedError(
            f"{type(block).__name__} does not define hybrid_forward()"
        )
    own = list(block._reg_params)
    inputs = args
    if own:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        count = sum(p.kind in kinds for p in inspect.signature(forward).parameters.values()) - 1
        inputs, handed = args[:count], args[count:]
        params = {**dict(zip(own, handed, strict=False)), **params}
    options = {
        name: value for name, value in params.items() if name not in own and value is not None
    }
    weights = {name: value for name, value in params.items() if name in own}
    compose = getattr(block, "_compose", None)
    if compose is not None and first_array(args) is None:
        if written and hasattr(block, "_counter"):
            block._counter -= 1  # which counted itself, as a step does
        made = compose(weights, *inputs)
        if made is not None:
            return made
    if weights:
        block = copy.copy(block)
        for name, value in weights.items():
            vars(block)[name] = None if value is None else Handed(block._reg_params[name], value)
    return forward(block, *inputs, **options)


class Handed:
    """A parameter whose arrays are a variable, or what was handed over; else it is the parameter."""

    def __init__(self, parameter: Parameter, variable: Any):
        self._parameter = parameter
        self._variable = variable

    def data(self, device: Any = None, ctx: Any = None) -> Any:
        return self._variable

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._parameter, attribute)


def takes_operators(function: Any) -> bool:
    """Whether a function is one of MXNet 1, `f(F, x)`: by the name of its first parameter, or by the generation."""
    try:
        params = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function of C has none
        return False
    P = inspect.Parameter
    if params and params[0].name == "F":
        return True
    needed = [
        p
        for p in params
        if p.kind in (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD) and p.default is P.empty
    ]
    return generation() == 1 and len(needed) > 1


def operators_for(x: Any) -> Any:
    """The module that is F for an argument: mx.nd, or mx.sym for a symbol."""
    if isinstance(x, NDArray):
        return nd
    from mxjax import symbol

    return symbol


def given_first(x: Any) -> tuple[Any, ...]:
    """What methods that programs override are given before `x`: the operators under MXNet 1, nothing under MXNet 2."""
    return (operators_for(x),) if generation() == 1 else ()


def _of_kind(x: Any, like: NDArray) -> Any:
    if x._front is like._front:
        return x
    return x.as_np_ndarray() if like._front is not NDArray else x.as_nd_ndarray()
