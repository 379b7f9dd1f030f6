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

__all__ = [
    "Context", "Device", "cpu", "cpu_pinned", "current_context", "gpu", "gpu_memory_info", "num_gpus",
]
