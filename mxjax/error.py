"""`mx.error`: MXNet's name for the exceptions; see `mxjax.errors`."""

from .errors import InternalError, MXNetError, register

__all__ = ["InternalError", "MXNetError", "register"]
