"""Where the compiled code and the headers lie: JAX's, for there is no libmxnet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from . import errors, settings
from .errors import MXNetError

__all__ = ["__version__", "find_conf_path", "find_include_path", "find_lib_path"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name != "__version__":
        raise errors.no_name(__name__, name)
    return sys.modules[__package__].__version__  # MXNet's, once mxjax stands for it


def find_lib_path(prefix: str = "libmxnet") -> list[str]:
    """The libraries that compute: the plugin of the setting `compiler.plugin`, if any, and JAX's own.

    Raises:
      RuntimeError: another `prefix` than `libmxnet`, for which there is nothing.
    """
    if prefix != "libmxnet":
        raise MXNetError(
            f"Cannot find a library {prefix!r}: mxjax computes with JAX's libraries alone"
        )
    import jaxlib

    folder = Path(jaxlib.__file__).parent
    plugin = settings.get("compiler.plugin")
    found = sorted(
        str(path)
        for name in ("*jax_common", "_jax", "xla_extension*")
        for path in folder.glob(f"{name}.*")
    )
    return ([str(plugin)] if plugin else []) + found


def find_include_path() -> str:
    """The folder of the headers that operators in C++ are written against, those of XLA's foreign functions."""
    import jax

    return str(jax.ffi.include_dir())


def find_conf_path(prefix: str = "tvmop") -> list[str]:
    """The configuration of operators that TVM compiled.

    Raises:
      RuntimeError: always, for there are none.
    """
    raise MXNetError(
        f"Cannot find the configuration {prefix}.conf: mxjax has no operators compiled by TVM"
    )
