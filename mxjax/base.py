"""`mx.base`: MXNet's name for the root of its errors and for a few types that its users' code asks for.

What belongs to MXNet's C library (`_LIB`, `check_call`, handles) has no counterpart here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import errors, settings
from .errors import MXNetError, NotSupportedForSparseNDArray

__all__ = [
    "MXNetError",
    "NotImplementedForSymbol",
    "NotSupportedForSparseNDArray",
    "data_dir",
    "mx_real_t",
    "integer_types",
    "numeric_types",
    "py_str",
    "register_error",
    "string_types",
]

mx_real_t = np.float32
integer_types = (int, np.int32, np.int64)
numeric_types = (float, int, np.generic)
string_types = (str,)

register_error = errors.register


class NotImplementedForSymbol(MXNetError):
    """A function of arrays that symbols do not have."""

    def __init__(self, function: Callable[..., Any], alias: str | None = None, *args: Any):
        names = f" (namely operator {alias!r})" if alias else ""
        shown = f" with arguments ({', '.join(type(arg).__name__ for arg in args)})" if args else ""
        super().__init__(
            f"Function {function.__name__}{names}{shown} is not implemented for Symbol and only "
            "available in NDArray."
        )


def py_str(x: bytes | str) -> str:
    """Bytes as text; text as it is.

    >>> py_str(b"weight")
    'weight'
    """
    return x if isinstance(x, str) else x.decode("utf-8")


def data_dir() -> str:
    """The folder of datasets and models: the setting `data.home` (MXNET_HOME)."""
    return str(settings.get("data.home"))


def _as_list(obj: Any) -> list[Any] | tuple[Any, ...]:
    """A list or tuple as it is, anything else as a list of one."""
    return obj if isinstance(obj, (list, tuple)) else [obj]
