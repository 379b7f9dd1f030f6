"""A user's arguments: arrays and attributes of a row, and what says where the result goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import NoneType
from typing import Any

import numpy as np

from .. import errors, settings
from ..device import Device
from ..ops.table import Op, hashable
from ..ops.texts import parsed
from .ndarray import NDArray

#: Arguments that say where a result goes; they are no part of the operator.
PLACES = ("device", "ctx")

#: What NumPy calls a sequence of arrays, which may be one array of one axis more.
SEQUENCES = ("arrays", "seq", "tup")
_ALONE = ([True], [True, False])
_NUMBERS = (int, float)
_ARRAYS = (NDArray, np.ndarray)
_version = settings.snapshot("compat.version")


def destination(
    op: Op, cls: type[NDArray], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any], Any, Any]:
    """The operator's own arguments, the array given as ``out``, and the device; a ``name`` says nothing here."""
    if len(args) > op.n_arrays and (
        not op.variadic or isinstance(args[0], (list, tuple)) and op.array_params[-1] != "arys"
    ):
        own = op.n_arrays + len(op.attr_params)
        if len(args) > own:
            without = _without_out if cls._legacy else _without_places
            args = without(args, own, kwargs)
    out = kwargs.pop("out", None) if kwargs else None
    device = None
    if kwargs:
        kwargs.pop("name", None)
        for place in PLACES:
            if place in kwargs:
                device = kwargs.pop(place) or device
    if not op.array_params and any(isinstance(a, Device) for a in args):
        # nd.zeros(shape, ctx, dtype): the place may stand among the arguments.
        device = next(a for a in args if isinstance(a, Device))
        args = tuple(a for a in args if not isinstance(a, Device))
    elif cls._legacy and not op.array_params and "dtype" in op.attr_params:
        at = op.attr_params.index("dtype")
        if len(args) > at + 1 and args[at] is None:  # nd.zeros(shape, None, dtype)
            args = (*args[:at], *args[at + 1 :])
    if (
        kwargs and cls._legacy and not op.attr_params
    ):  # MXNet looks at no argument of an operator that has none
        kwargs = {k: v for k, v in kwargs.items() if k in op.array_params}
    return args, kwargs, out, device


def were_texts(
    args: Sequence[Any], kwargs: dict[str, Any], attrs: tuple[tuple[str, Any], ...]
) -> bool:
    """Whether a number or a tuple was given as its text."""
    words = [v for _, v in attrs if type(v) is str]
    return any(type(v) is str and v not in words for v in (*args, *kwargs.values()))


def split(
    op: Op, args: Sequence[Any], kwargs: dict[str, Any], texts: bool = False
) -> tuple[list[Any], tuple[tuple[str, Any], ...]]:
    """Arrays in order and attributes as a hashable tuple; with ``texts`` numbers may have come as texts."""
    params = op.array_params
    rest: list[Any]
    if op.variadic:
        if params[-1] == "arys":  # np.atleast_1d([1, 2]): an array, as np.array makes one
            arrays, rest = [a if isinstance(a, _ARRAYS) else np.array(a, "f4") for a in args], []
        elif not op.attr_params and (len(args) > 1 or type(args[0] if args else None) in _NUMBERS):
            # What np.array makes of numbers.
            arrays, rest = [np.array(a, "f4") if type(a) in _NUMBERS else a for a in args], []
        elif args and isinstance(args[0], (list, tuple, Iterator)):
            arrays, rest = list(args[0]), list(args[1:])
        elif (
            params[-1] in SEQUENCES
            and "np" in op.names.fronts
            and [isinstance(a, NDArray) for a in args[:2]] in _ALONE
        ):
            arrays, rest = list(args[0]), list(args[1:])  # np.stack(x): of the parts of one array
        else:
            count = len(args)
            while count and not isinstance(args[count - 1], (NDArray, np.ndarray)):
                count -= 1
            arrays, rest = list(args[:count]), list(args[count:])
        if not arrays and params[-1] in kwargs:
            arrays = list(kwargs.pop(params[-1]))
    else:
        arrays, rest = list(args[: len(params)]), list(args[len(params) :])
        if len(arrays) < len(params):
            for name in params[len(arrays) :]:
                if kwargs and name in kwargs:
                    arrays.append(kwargs.pop(name))
                elif name in op.defaults:
                    arrays.append(op.defaults[name])
                else:
                    raise errors.MXNetTypeError(
                        f"{op.name} needs the array {name!r}: it takes {signature_text(op)}"
                    )
    given: dict[str, Any] = {}
    if rest:
        if len(rest) > len(op.attr_params):
            raise errors.MXNetTypeError(
                f"{op.name} got too many arguments: it takes {signature_text(op)}"
            )
        given.update(zip(op.attr_params, rest, strict=False))
    for name, value in kwargs.items():
        if name in op.names.once:
            name = op.names.once[name]
        if name not in op.attr_params:
            if name in params:
                raise errors.MXNetTypeError(f"{op.name} got the array {name!r} twice")
            meant = errors.keyword_meant(name, [*params, *op.attr_params])
            raise errors.MXNetTypeError(
                f"{op.display}() got an unexpected keyword argument {name!r}{meant}{'' if meant else '.'} "
                f"Cannot find argument {name!r}, Possible Arguments: {signature_text(op)}"
            )
        if name in given:
            raise errors.MXNetTypeError(f"{op.name} got the argument {name!r} twice")
        given[name] = value
    if not given:
        return arrays, ()
    if texts:
        given = {k: parsed(op, k, v) if type(v) is str else v for k, v in given.items()}
    return arrays, tuple([(k, hashable(_plain(v))) for k, v in sorted(given.items())])


def _plain(value: Any) -> Any:
    """Arrays given where a static attribute is expected become their numbers."""
    if isinstance(value, NDArray):
        host = value.asnumpy()
        return host.item() if host.ndim == 0 else tuple(host.tolist())
    if isinstance(value, np.ndarray):
        return value.item() if value.ndim == 0 else tuple(value.tolist())
    return value


def signature_text(op: Op) -> str:
    return f"({', '.join([*op.array_params, *op.attr_params])})"


def _without_out(args: Sequence[Any], count: int, kwargs: dict[str, Any]) -> Sequence[Any]:
    """The operator's own arguments; MXNet's functions of nd take ``out`` and a name behind them."""
    if len(args) <= count + 2 and (
        args[count] is None or isinstance(args[count], (NDArray, list, tuple))
    ):
        kwargs.setdefault("out", args[count])
        return args[:count]
    return args


def _without_places(args: Sequence[Any], count: int, kwargs: dict[str, Any]) -> Sequence[Any]:
    """The operator's own arguments; functions of np take a device, or None for one, and ``out`` behind them."""
    behind = args[count:]
    if len(behind) > 1 + isinstance(behind[0], (Device, NoneType)):
        return args
    *places, out = behind if not isinstance(behind[-1], Device) else (*behind, None)
    if not isinstance(out, (NDArray, list, tuple, NoneType)) or "out" in kwargs:
        return args
    kwargs["out"] = out
    if places and places[0] is not None:
        kwargs.setdefault("device", places[0])
    return args[:count]


def by_order(op: Op, legacy: bool, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
    """The first arguments, as the row takes them; those that stand elsewhere in a front end's order become keywords."""
    order = op.names.nd_order if legacy else op.names.order
    same = 0
    for ours, theirs in zip((*op.array_params, *op.attr_params), order, strict=False):
        if ours != theirs:
            break
        same += 1
    if len(args) <= same:
        return args
    if legacy and len(args) > len(order):
        args = _without_out(args, len(order), kwargs)
    if len(args) > len(order):
        raise errors.MXNetTypeError(
            f"{op.name} got too many arguments: it takes ({', '.join(order)})"
        )
    for name, value in zip(order[same:], args[same:], strict=False):
        if type(value) is bool and name == "out" and "keepdims" in op.attr_params:
            if _version() == "1.9":
                name = "keepdims"  # np.max(x, axis, keepdims)
        elif name in ("mode", "keepdims") and type(value) in (bool, int, str):
            name = "mode" if type(value) is str else "keepdims"  # which MXNet 1 and 2 have in turn
        if name in kwargs:
            raise errors.MXNetTypeError(f"{op.name} got the argument {name!r} twice")
        kwargs[name] = value
    return args[:same]
