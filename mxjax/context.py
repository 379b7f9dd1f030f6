"""`mx.context`: the name of MXNet 1 for `mx.device`."""

from .device import (
    Context,
    Device,
    cpu,
    cpu_pinned,
    current_context,
    gpu,
    gpu_memory_info,
    num_gpus,
)
from .device import (
    _current as _current,
)
from .errors import explain_names as _explain_names

__all__ = [
    "Context",
    "Device",
    "cpu",
    "cpu_pinned",
    "current_context",
    "gpu",
    "gpu_memory_info",
    "num_gpus",
]

_explain_names(__name__)
