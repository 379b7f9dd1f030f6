"""Functions of `mx.sym.np.linalg`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import explain_names as _explain_names
from ..front import fill as _fill
from ..lists import eig, eigvals, lstsq
from ..symbol import _Symbol

__all__ = ["eig", "eigvals", "lstsq", *_fill(globals(), "np.linalg", _Symbol)]

if TYPE_CHECKING:  # what the table makes

    def __getattr__(name: str) -> Callable[..., _Symbol]: ...


_explain_names(__name__)
