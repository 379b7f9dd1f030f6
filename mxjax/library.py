"""Libraries of operators in C++, which MXNet loads into itself.

They are written against MXNet's headers and call its library, so there is nothing here that they could be loaded into;
a `mx.operator.CustomOp`, or a function of JAX arrays, takes their place.
"""

from __future__ import annotations

import os
from typing import Any

from .errors import MXNetError, MXNetNotImplementedError, MXNetValueError, did_you_mean

__all__ = ["MXlib", "compiled_with_gcc_cxx11_abi", "load", "loaded_libs"]


class MXlib:
    """A library that was loaded."""

    def __init__(self, handle: Any):
        self.handle = handle


#: What `load` has loaded: nothing.
loaded_libs: list[MXlib] = []


def load(path: str, verbose: bool = True) -> None:
    """Refuse a library of operators, and say why.

    Raises:
      MXNetError: the file is not there, the path is not absolute, or it is no library.
      NotImplementedError: it is one.
    """
    if not os.path.exists(path):
        raise MXNetError(f"load path {path} does NOT exist")
    if not os.path.isabs(path):
        raise MXNetError(f"load path {path} is not an absolute path")
    if os.path.splitext(path)[1] not in (".so", ".dll"):
        raise MXNetError(f"load path {path} is NOT a library file")
    raise MXNetNotImplementedError(
        f"{path} was written against MXNet's C++ headers and cannot be loaded into XLA. Write the operator as a "
        "mx.operator.CustomOp, or as a function of JAX arrays (jax.ffi calls C++)"
    )


#: MXNet's backends that put parts of a graph together for speed. XLA does that for the whole.
_BACKENDS = (
    "XLA", "default", "ONEDNN", "ONEDNN_QUANTIZE", "MKLDNN", "MKLDNN_QUANTIZE", "TensorRT",
)  # fmt: skip


def check_backend(name: str) -> None:
    """Refuse a backend that `optimize_for` does not know; what the known ones do, XLA does by itself.

    Raises:
      MXNetValueError: another name, of a library that is not there.
    """
    if str(name).lower() not in {known.lower() for known in _BACKENDS}:
        raise MXNetValueError(
            f"there is no such backend: {name!r}. XLA compiles the whole graph; {', '.join(_BACKENDS)} are names for "
            f"that{did_you_mean(str(name), _BACKENDS)}"
        )


def compiled_with_gcc_cxx11_abi() -> int:
    """-1: there is no library of MXNet that C++ code would have to be compatible with."""
    return -1
