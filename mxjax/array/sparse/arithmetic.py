"""Python's operators of sparse arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.calls.state import local
from ...ops.table import TABLE
from ..indexing import check_write
from ..invoke import call
from ..ndarray import NDArray
from ..operators import BINARY, COMPARE, REBINDS

#: With an array of their own shape these are the rows for equal shapes, as MXNet chooses them.
_EQUAL = {"add": "elemwise_add", "sub": "elemwise_sub", "mul": "elemwise_mul"}


def _binary(name: str, row: str, reflected: bool) -> Callable[..., Any]:
    broadcasting = TABLE[row + "@nd"]
    assert broadcasting.scalars is not None
    beside = broadcasting.scalars[1 if reflected else 0]
    equal = None if reflected else TABLE.get(_EQUAL.get(name, ""))

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, NDArray):
            op = equal if equal is not None and other.shape == self.shape else broadcasting
            return call(op, NDArray, (other, self) if reflected else (self, other), {})
        if isinstance(other, np.generic):
            other = other.item()
        if isinstance(other, (bool, int, float)):
            return call(beside, NDArray, (self,), {"scalar": other})
        return NotImplemented

    return method


def _inplace(plain: Callable[..., Any], cls: Any) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        made = plain(self, other)
        if made is not NotImplemented:
            if local.st.taping:
                check_write(self, True, None)
            self._assign(made._stored if isinstance(made, cls) else made._value())
            return self
        return made

    return method


def install(cls: type) -> None:
    """Give the base of the sparse classes Python's operators, each a row of the table."""

    def give(name: str, method: Callable[..., Any]) -> None:
        method.__name__ = name
        method.__qualname__ = f"{cls.__name__}.{name}"
        setattr(cls, name, method)

    for method, row in BINARY.items():
        if row + "@nd" not in TABLE or method in ("floordiv", "matmul"):
            continue
        plain = _binary(method, row, False)
        give(f"__{method}__", plain)
        give(f"__r{method}__", _binary(method, row, True))
        if method not in REBINDS:
            give(f"__i{method}__", _inplace(plain, cls))
    for method, row in COMPARE.items():
        give(f"__{method}__", _binary(method, row, False))
    give("__neg__", lambda self: call(TABLE["negative@nd"], NDArray, (self,), {}))
    give("__abs__", lambda self: call(TABLE["abs@nd"], NDArray, (self,), {}))
    for old, new in (("__div__", "__truediv__"), ("__idiv__", "__itruediv__")):
        setattr(cls, old, getattr(cls, new))
    cls.__hash__ = object.__hash__  # type: ignore[assignment]
