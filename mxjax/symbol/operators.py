"""Python's operators on symbols, and their methods, made from the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import errors
from ..base import NotImplementedForSymbol
from ..ops.table import FRONT_ENDS, METHODS, TABLE, Op
from .compose import compose, function
from .symbol import Symbol, _Symbol

# method -> (the row of mx.nd with symbols of one shape, of mx.np with any), and the names MXNet counts them under.
_BINARY = {
    "add": ("elemwise_add", "add", "_plus"),
    "sub": ("elemwise_sub", "subtract", "_minus"),
    "mul": ("elemwise_mul", "multiply", "_mul"),
    "truediv": ("elemwise_div", "true_divide", "_div"),
    "mod": ("mod@nd", "mod", "_mod"),
    "pow": ("power@nd", "power", "_power"),
    "eq": ("equal@nd", "equal", "_equal"),
    "ne": ("not_equal@nd", "not_equal", "_not_equal"),
    "lt": ("less@nd", "less", "_lesser"),
    "le": ("less_equal@nd", "less_equal", "_lesser_equal"),
    "gt": ("greater@nd", "greater", "_greater"),
    "ge": ("greater_equal@nd", "greater_equal", "_greater_equal"),
}
_NP_ONLY = {
    "floordiv": "floor_divide", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
_COMPARE = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_REFUSED_IN_PLACE = frozenset({"add", "sub", "mul", "truediv"})
_NUMBERS = (bool, int, float)
# The rows of a symbol and a number, where the row of two symbols takes one shape only.
_BESIDE = {"elemwise_add": "add@nd", "elemwise_sub": "subtract@nd", "elemwise_mul": "multiply@nd",
           "elemwise_div": "true_divide@nd"}  # fmt: skip


def _binary(
    op: Op, cls: type[Symbol], hint: str, reflected: bool, magic: str
) -> Callable[..., Any]:
    numbered = TABLE[_BESIDE.get(op.name, op.name)]
    # MXNet's own: _plusscalar0, _rminusscalar0, _greater_scalar0; add_scalar0 and rsubtract_scalar0 of mx.np.
    mark = "r" if reflected and magic not in ("add", "mul") else ""
    if cls._is_np:
        beside = f"{mark}{hint}_scalar"
    else:
        beside = hint.replace("_", "_" + mark, 1) + ("_scalar" if magic in _COMPARE else "scalar")

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, Symbol):
            if other._is_np and not self._is_np:
                return NotImplemented
            pair = (other, self) if reflected else (self, other)
            return compose(op, cls, hint, pair, {})
        if isinstance(other, np.generic):
            other = other.item()
        if isinstance(other, _NUMBERS):
            row = (numbered.scalars or ())[1 if reflected else 0] if numbered.scalars else None
            if row is not None:
                spelt = (
                    "_rpower_scalar" if row.names.internal == "_rpower_scalar" else beside
                )  # it has no second name
                return compose(row, cls, spelt, (self,), {"scalar": other})
        if magic in ("eq", "ne") and not hasattr(other, "shape"):
            return NotImplemented
        raise errors.MXNetTypeError(
            f"type {type(other)} not supported: a symbol or a number is expected beside a symbol"
        )

    return method


def _inplace(name: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        raise NotImplementedForSymbol(getattr(self, name), name.strip("_")[1:] + "=", other)

    return method


def _set(cls: type, name: str, method: Callable[..., Any]) -> None:
    method.__name__ = name
    method.__qualname__ = f"{cls.__name__}.{name}"
    setattr(cls, name, method)


def _install(cls: type[Symbol]) -> None:
    rows = {k: (v[1], v[1]) if cls._is_np else (v[0], v[2]) for k, v in _BINARY.items()}
    if cls._is_np:
        rows.update({k: (v, v) for k, v in _NP_ONLY.items()})
    for magic, (name, hint) in rows.items():
        op = TABLE[name]
        _set(cls, f"__{magic}__", _binary(op, cls, hint, False, magic))
        if magic not in _COMPARE:
            _set(cls, f"__r{magic}__", _binary(op, cls, hint, True, magic))
        if magic in _REFUSED_IN_PLACE:  # with the others a name gets another symbol
            _set(cls, f"__i{magic}__", _inplace(f"__i{magic}__"))
    for old in ("__div__", "__rdiv__", "__idiv__"):
        setattr(cls, old, getattr(cls, old.replace("div", "truediv")))

    def negative(self: Any) -> Any:
        return (
            -1.0 * self
            if not cls._is_np
            else compose(TABLE["negative"], cls, "negative", (self,), {})
        )

    def absolute(self: Any) -> Any:
        return self.abs()

    _set(cls, "__neg__", negative)
    _set(cls, "__abs__", absolute)
    cls.__hash__ = object.__hash__  # type: ignore[assignment]
    cls.__nonzero__ = cls.__bool__  # type: ignore[attr-defined]


def _methods(cls: type[Symbol]) -> None:
    front = FRONT_ENDS["nd"]
    for name, op in {**METHODS["nd"], "transpose": front["transpose"]}.items():
        if name not in vars(cls):
            setattr(cls, name, function(op, name, cls, cls.__module__, method=True))

    def astype(self: Any, dtype: Any, **kwargs: Any) -> Any:
        """The symbol in another dtype."""
        return compose(front["cast"], cls, "cast", (self,), {"dtype": dtype, **_own(kwargs)})

    def reshape(self: Any, *args: Any, **kwargs: Any) -> Any:
        """In another shape; 0 keeps an axis, -1 is inferred, and mx.nd's further codes."""
        shape = kwargs.pop("shape", None) or (
            args[0] if len(args) == 1 and not isinstance(args[0], int) else args
        )
        return compose(front["reshape"], cls, "reshape", (self,), {"shape": tuple(shape), **kwargs})

    def expand_dims(self: Any, axis: int, inplace: bool = False, **kwargs: Any) -> Any:
        """With a new axis of length 1."""
        return compose(front["expand_dims"], cls, "expand_dims", (self,), {"axis": axis, **kwargs})

    def squeeze(self: Any, axis: Any = None, inplace: bool = False, **kwargs: Any) -> Any:
        """Without axes of length 1."""
        return compose(front["squeeze"], cls, "squeeze", (self,), {"axis": axis, **kwargs})

    def flatten(self: Any, inplace: bool = False, **kwargs: Any) -> Any:
        """With all axes but the first as one."""
        return compose(front["flatten"], cls, "flatten", (self,), kwargs)

    for method in (astype, reshape, expand_dims, squeeze, flatten):
        _set(cls, method.__name__, method)


def _own(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in kwargs.items() if k in ("name", "attr")}


def _np_methods(cls: type[Symbol]) -> None:
    front = FRONT_ENDS["np"]
    for name, op in METHODS["np"].items():
        if name not in vars(cls) and not name.startswith("__"):
            setattr(cls, name, function(op, name, cls, cls.__module__, method=True))
    for name, op in METHODS["np"].items():
        if name.startswith("__") and name not in vars(cls):
            _set(cls, name, function(op, name.strip("_"), cls, cls.__module__, method=True))

    def astype(self: Any, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """The symbol in another dtype."""
        return compose(TABLE["cast"], cls, "cast", (self,), {"dtype": dtype, **_own(kwargs)})

    def reshape(self: Any, *args: Any, **kwargs: Any) -> Any:
        """In another shape; one length may be -1."""
        shape = kwargs.pop("newshape", None) or kwargs.pop("shape", None)
        shape = shape or (args[0] if len(args) == 1 and not isinstance(args[0], int) else args)
        return compose(front["reshape"], cls, "reshape", (self, tuple(shape)), _own(kwargs))

    def transpose(self: Any, *axes: Any) -> Any:
        """With the axes in another order: reversed, or as given."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return compose(front["transpose"], cls, "transpose", (self, order), {})

    def flatten(self: Any, order: str = "C") -> Any:
        """With one axis."""
        return reshape(self, -1)

    def dot(self: Any, b: Any, out: Any = None) -> Any:
        """The product `np.dot`."""
        return compose(front["dot"], cls, "dot", (self, b), {})

    def invert(self: Any) -> Any:
        return compose(TABLE["bitwise_not"], cls, "bitwise_not", (self,), {})

    def rounded(self: Any, n: int = 0) -> Any:
        return compose(TABLE["around"], cls, "around", (self,), {"decimals": n})

    def setitem(self: Any, key: Any, value: Any) -> None:
        raise NotImplementedForSymbol(self.__setitem__, "x[key] = value")

    for method in (astype, reshape, transpose, flatten, dot):
        _set(cls, method.__name__, method)
    for name, method in (("__setitem__", setitem), ("__invert__", invert), ("__round__", rounded)):
        _set(cls, name, method)
    cls.ravel = flatten  # type: ignore[attr-defined]
    cls.T = property(lambda self: transpose(self))  # type: ignore[attr-defined]


def install() -> None:
    """Give both classes their operators and methods."""
    _install(Symbol)
    _methods(Symbol)
    _install(_Symbol)
    _np_methods(_Symbol)


install()
