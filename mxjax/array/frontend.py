"""Front ends: functions and methods made of rows, and modules that are full of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import errors
from ..core import record1, record2
from ..ops import help
from ..ops.table import FRONT_ENDS, Op
from .arguments import SEQUENCES, by_order
from .invoke import call
from .ndarray import NDArray
from .ufunc_options import refuse_options

_new = object.__new__


def fill(namespace: dict[str, Any], front: str, cls: type[NDArray]) -> list[str]:
    """Put the functions of a front end into a module's namespace; what is there already stays."""
    module = namespace["__name__"]
    made = []
    for name, op in FRONT_ENDS.get(front, {}).items():
        if name not in namespace:
            namespace[name] = function(op, name, cls, module)
            made.append(name)
    return made


def function(
    op: Op, name: str, cls: type[NDArray], module: str, *, method: bool = False
) -> Callable[..., Any]:
    """The front-end function of a row, or a method that is one."""
    make = _make_general
    general = (
        op.looks
        or op.wide
        or op.attr_params
        or op.aux
        or op.keyed
        or op.modal
        or op.variadic
        or op.host
    )
    if not general and op.inference.outputs == 1:
        make = {1: _make_unary, 2: _make_binary}.get(len(op.array_params), _make_general)
    if op.names.nd_order if cls._legacy else op.names.order:
        make = _make_ordered
    elif op.variadic and op.array_params[-1] in SEQUENCES and not cls._legacy:
        make = _make_of_one_list
    made = make(op, cls)
    if cls._legacy and make is _make_binary and not name.startswith("broadcast_"):
        if any(n.startswith("broadcast_") for n in op.names.fronts.get("nd", ())):
            made = _of_two_alone(made, name)
    made.__name__ = name
    made.__qualname__ = name
    made.__module__ = module
    front = ("nd" if cls._legacy else "np") if method else module.removeprefix("mxjax.")
    made.__doc__ = help.text(op, name, front, cls.__name__, method=method)
    made.__signature__ = help.Signature(functools.partial(help.parameters, op, cls))  # type: ignore[attr-defined]
    made.__wrapped__ = op.fn  # type: ignore[attr-defined]  # what `np.stack??` shows
    return made


def _make_ordered(op: Op, cls: type[NDArray]) -> Callable[..., Any]:
    legacy = cls._legacy

    def ordered(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1:
            args = tuple(by_order(op, legacy, args, kwargs))
        return call(op, cls, args, kwargs)

    return ordered


def _make_of_one_list(op: Op, cls: type[NDArray]) -> Callable[..., Any]:
    def of_one_list(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 and isinstance(args[1], NDArray) and isinstance(args[0], NDArray):
            raise errors.MXNetTypeError(
                f"np.{op.display}(x, y, ...): one list of arrays is expected, np.{op.display}([x, y, ...])"
            )
        return call(op, cls, args, kwargs)

    return of_one_list


def _make_general(op: Op, cls: type[NDArray]) -> Callable[..., Any]:
    def general(*args: Any, **kwargs: Any) -> Any:
        if kwargs and op.wide:
            args = refuse_options(op, cls, kwargs, args)
        return call(op, cls, args, kwargs)

    if isinstance(op.tests.ref, np.ufunc) and op.inference.outputs != 1 and not cls._legacy:
        # NumPy's own in MXNet, which takes all its options: np.modf, np.frexp, np.divmod.
        def general(*args: Any, **kwargs: Any) -> Any:
            args = refuse_options(op, cls, kwargs, args) if kwargs else args
            return call(op, cls, args, kwargs)

    return general


def _make_unary(op: Op, cls: type[NDArray]) -> Callable[..., Any]:
    bound = op.bind()

    def one_input(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs:
            x = args[0]
            if type(x) is cls:
                h = _new(cls)
                h._v = record1(bound, x._v or x._value())
                h._var = None
                return h
        if kwargs:
            args = refuse_options(op, cls, kwargs, args)
        return call(op, cls, args, kwargs)

    return one_input


def _make_binary(op: Op, cls: type[NDArray]) -> Callable[..., Any]:
    bound = op.bind()

    def two_inputs(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 2 and not kwargs:
            a, b = args
            if type(a) is cls and type(b) is cls:
                h = _new(cls)
                h._v = record2(bound, a._v or a._value(), b._v or b._value())
                h._var = None
                return h
        if kwargs:
            args = refuse_options(op, cls, kwargs, args)
        return call(op, cls, args, kwargs)

    return two_inputs


def _of_two_alone(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function that MXNet wrote in Python, as nd.maximum: it refuses what broadcast_maximum takes no notice of."""

    def two(lhs: Any, rhs: Any, **kwargs: Any) -> Any:
        if kwargs and kwargs.keys() != {"out"}:
            unknown = next(k for k in kwargs if k != "out")
            raise errors.MXNetTypeError(
                f"{name}() got an unexpected keyword argument {unknown!r}; it takes two arrays"
            )
        return fn(lhs, rhs, **kwargs)

    return two
