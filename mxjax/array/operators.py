"""Python's operators on arrays, made from the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import errors, settings
from ..core import record1, record2, record_handed, record_scalar
from ..core.calls.state import local
from ..core.calls.value import Value
from ..core.calls.varying import Handed
from ..ops.numbers import whole
from ..ops.table import TABLE, Op
from .indexing import check_write
from .invoke import call
from .ndarray import NDArray, to_value
from .protocol import default_dtype

_new = object.__new__
_version = settings.snapshot("compat.version")

# method -> row; the row with @nd is the nd form of the same operator.
BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "mod",
    "pow": "power",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
# ``x **= 2`` names another array in `nd` of both generations and in 1.9's `np`: who else holds x keeps its numbers.
REBINDS = frozenset({"pow"})
COMPARE = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_UNARY = {"neg": "negative", "abs": "abs", "invert": "bitwise_not"}


def _binary(
    op: Op, cls: type[NDArray], reflected: bool, compares: bool = False
) -> Callable[..., Any]:
    bound = op.bind()
    beside = op.scalars[1 if reflected else 0] if op.scalars else None

    def method(self: Any, other: Any) -> Any:
        t = type(other)
        if t is cls:
            h = _new(cls)
            h._v = record2(bound, self._v or self._value(), other._v or other._value())
            h._var = None
            return h
        if (t is float or t is int) and beside is not None:
            h = _new(cls)
            h._v = record_scalar(beside, self._v or self._value(), other)
            h._var = None
            return h
        return slow(self, other)

    def slow(self: Any, other: Any) -> Any:
        if type(other) is Handed and beside is not None:
            return cls._wrap(record_handed(beside, self._value(), other))
        if isinstance(other, (bool, np.bool_, np.number)) and beside is not None:
            number = other.item() if isinstance(other, np.generic) else other
            return cls._wrap(record_scalar(beside, self._value(), number))
        if isinstance(other, NDArray):
            if type(other) is not type(self) and issubclass(type(other), type(self)):
                return NotImplemented  # np arrays know better than nd arrays what to do with both
        elif isinstance(other, str) or (other is None and not compares):
            raise errors.MXNetTypeError(
                f"{op.display}: expected float but get {type(other).__name__}: an array or a "
                "number is expected"
            )
        elif not hasattr(other, "__array__") and not isinstance(other, (list, tuple)):
            return NotImplemented
        pair = (other, self) if reflected else (self, other)
        made = call(op, cls, pair, {})
        return (
            made if type(made) is cls else cls._wrap(made._value())
        )  # beside an array of the other kind

    def by_width(self: Any, other: Any) -> Any:
        if default_dtype[0].itemsize == 8 and np.dtype(self.dtype).kind in "biu":
            if not isinstance(other, NDArray) or np.dtype(other.dtype).kind in "biu":
                self = self.astype(op.wide)
        return method(self, other)

    return by_width if op.wide else method


def _cuts_off(name: str, dtype: np.dtype, other: Any) -> bool:
    """Whether integers take the whole part of a number: MXNet 1.9's do so in the operators but ``/=``."""
    return (
        _version() == "1.9"
        and dtype.kind in "iu"
        and isinstance(other, (float, np.floating))
        and name != "x.__itruediv__(y)"
    )


def _inplace(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        made = plain(self, other)
        if made is NotImplemented and isinstance(other, NDArray) and other.stype == "default":
            made = plain(
                self, other.as_nd_ndarray()
            )  # of another kind: it is this one that changes
        if made is NotImplemented:
            if getattr(other, "stype", "default") == "default":
                return made
            made = getattr(
                other, name.replace("__i", "__r").removeprefix("x.").removesuffix("(y)")
            )(self)
        v: Value = made._value()
        mine = self._value().aval
        if v.aval.dtype != mine.dtype and _cuts_off(name, mine.dtype, other):
            v = plain(self, whole(float(other), mine.dtype))._value()
        if v.aval.dtype != mine.dtype:
            raise errors.MXNetTypeError(
                f"Type inconsistent, Provided = {mine.dtype}, inferred type = {v.aval.dtype}: "
                f"{name} cannot store "
                f"{v.aval.dtype} in an array of {mine.dtype}. Convert first: x = "
                f"x.astype('{v.aval.dtype}')"
            )
        if v.aval.shape != mine.shape:
            raise errors.MXNetValueError(
                f"{name} gives shape {v.aval.shape} and cannot be stored in an array of shape "
                f"{mine.shape}"
            )
        if local.st.taping:
            check_write(self, True, None)
        self._set(v)
        return self

    return method


def _in_mxnet2(name: str, change: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if _version() != "1.9":
            return change(self, other)
        cut = _cuts_off(name, np.dtype(self.dtype), other)
        return change(self.copy(), other) if cut else NotImplemented

    return method


def _unary(op: Op, cls: type[NDArray]) -> Callable[..., Any]:
    bound = op.bind()

    def method(self: Any) -> Any:
        h = _new(cls)
        h._v = record1(bound, self._v or self._value())
        h._var = None
        return h

    return method


def _set(cls: type, name: str, method: Callable[..., Any]) -> None:
    method.__name__ = name
    method.__qualname__ = f"{cls.__name__}.{name}"
    setattr(cls, name, method)


def install(cls: type[NDArray], suffix: str = "") -> None:
    """Give a class its operators; ``suffix`` chooses the nd form of the rows."""

    def row(name: str) -> Op | None:
        return TABLE.get(name + suffix) or TABLE.get(name)

    for method, name in BINARY.items():
        op = row(name)
        if op is None or (suffix and method in ("floordiv", "matmul")):
            continue
        plain = _binary(op, cls, False)
        _set(cls, f"__{method}__", plain)
        _set(cls, f"__r{method}__", _binary(op, cls, True))
        if suffix and method in REBINDS:
            continue
        name = f"x.__i{method}__(y)"
        change = _inplace(name, plain)
        _set(cls, f"__i{method}__", _in_mxnet2(name, change) if method in REBINDS else change)
    for method, name in COMPARE.items():
        op = row(name)
        if op is not None:
            _set(cls, f"__{method}__", _binary(op, cls, False, compares=True))
    for method, name in _UNARY.items():
        op = row(name)
        if op is not None:
            _set(cls, f"__{method}__", _unary(op, cls))
    cls.__pos__ = cls.copy  # type: ignore[attr-defined, operator]
    cls.__hash__ = object.__hash__  # type: ignore[assignment]


__all__ = ["install", "to_value"]
