"""The functions of ``mx.np`` and ``mx.npx`` that are operators of MXNet's registry by themselves."""

from __future__ import annotations

from typing import Any

from . import np as _np
from . import npx as _npx
from .errors import MXNetValueError

__all__: list[str] = []


def _get_builtin_op(op_name: str) -> Any:
    """The function that an operator's name stands for: ``_npx_relu`` is ``mx.npx.relu``; None for other kinds of names.

    Raises ``ValueError`` where the front end has no such function.
    """
    for prefix, module in (("_npx_", _npx), ("_np_", _np)):
        if op_name.startswith(prefix):
            found: Any = module
            name = op_name.removeprefix(prefix)
            if name.startswith("_"):  # _npx__image_crop is image.crop
                part, _, name = name[1:].partition("_")
                found = getattr(module, part, None)
            found = getattr(found, name, None)
            if found is None:
                raise MXNetValueError(
                    f"{module.__name__} has no operator {op_name.removeprefix(prefix)}"
                )
            return found
    return None
