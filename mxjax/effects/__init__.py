"""What the settings do beyond options of the compiler: one module per effect, loaded when asked for.

A module has `apply()`, which brings the process in line with the settings in force: it is called when one
of its options is set, in the environment or later.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from .. import settings

#: module -> the options it serves.
MODULES: dict[str, tuple[str, ...]] = {
    "cache": (
        "cache.mode",
        "cache.dir",
        "cache.size",
        "cache.max_executables",
        "engine.program_memory",
    ),
    "deadline": ("timeout.read", "timeout.waitall"),
    "dump": (
        "debug.dump",
        "debug.dump_inputs",
        "debug.dump_quantized",
        "debug.watch_var",
        "debug.nan",
    ),
    "files": ("debug.level", "debug.keep_compiler_files", "debug.compiler_folder"),
    "history": ("engine.record_path",),
    "layout": ("memory.param_layout",),
    "logs": ("debug.log_memory", "debug.log_collectives", "debug.log_kernels"),
    "rolling": ("engine.steps_per_call",),
    "rewrites": ("compiler.scope_fusions",),
    "precision": (
        "precision.amp",
        "precision.lists",
        "precision.op_dtypes",
        "precision.matmul",
        "precision.impl",
        "precision.impl_ops",
        "precision.op_impl",
        "precision.accumulation",
        "precision.product_accumulation",
        "compiler.small_channel_conv",
        "compiler.conv_search",
        "compiler.autotune_timeout",
    ),
}


def _loader(module: str) -> Callable[[object], None]:
    def apply(_: object) -> None:
        importlib.import_module(f"{__name__}.{module}").apply()

    return apply


def connect() -> None:
    """Load the modules whose options have values, and the others when theirs get some."""
    for module, names in MODULES.items():
        apply = _loader(module)
        for name in names:
            settings.on_change(name, apply)
        if any(settings.is_given(name) for name in names):
            apply(None)
