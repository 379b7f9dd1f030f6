"""The operators behind mx.np, on symbols, under their names in MXNet's registry (`mx.sym.np._internal`)."""

from __future__ import annotations

from typing import Any

from ...np._internal import row_of
from ..compose import function
from ..symbol import _Symbol


def __getattr__(name: str) -> Any:
    made = function(row_of(__name__, name), name, _Symbol, __name__)
    globals()[name] = made
    return made
