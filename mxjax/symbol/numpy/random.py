"""Functions of `mx.sym.np.random`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import explain_names as _explain_names
from ...ops.table import TABLE as _TABLE
from ..compose import compose as _compose
from ..front import fill as _fill
from ..symbol import _Symbol


def rand(*size: int, **kwargs: Any) -> Any:
    """Numbers of [0, 1), in an array of these lengths."""
    made = globals()["uniform"]
    return made(0, 1, size=size, **kwargs)


def shuffle(x: Any) -> Any:
    """The parts along axis 0 in another order. A symbol is not changed: it is the result that is shuffled."""
    return _compose(_TABLE["shuffle"], _Symbol, "shuffle", (x,), {})


__all__ = ["rand", "shuffle", *_fill(globals(), "np.random", _Symbol)]

if TYPE_CHECKING:  # what the table makes

    def __getattr__(name: str) -> Callable[..., _Symbol]: ...


_explain_names(__name__)
