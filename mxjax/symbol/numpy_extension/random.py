"""Functions of `mx.sym.npx.random`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import explain_names as _explain_names
from ...ops.table import TABLE as _TABLE
from ..compose import compose as _compose
from ..front import fill as _fill
from ..symbol import _Symbol


def multinomial(
    n: Any = None, p: Any = None, shape: Any = (), dtype: Any = None, **kwargs: Any
) -> Any:
    """How often each outcome comes in n trials, a number for each row of probabilities p; ``shape`` draws of each."""
    kwargs.pop("ctx", None)
    given = {"shape": shape, "dtype": dtype, **kwargs}
    return _compose(_TABLE["_sample_multinomial"], _Symbol, "multinomial", (n, p), given)


__all__ = ["multinomial", *_fill(globals(), "npx.random", _Symbol)]

if TYPE_CHECKING:  # what the table makes

    def __getattr__(name: str) -> Callable[..., _Symbol]: ...


_explain_names(__name__)
