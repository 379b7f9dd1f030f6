"""The compiler options every program gets, by platform and processor.

Settings, profiler and rematerialisation add theirs; `mxjax.core.compiler` merges them.
"""

from __future__ import annotations

import functools
import os
import platform as host
from collections.abc import Sequence
from typing import Any

import jaxlib


def default_options(
    platform: str, operators: Sequence[Any] = (), features: frozenset[str] | None = None
) -> dict[str, Any]:
    """Options for a program of these operators on ``cpu``, ``gpu`` or ``tpu``.

    features are the processor's, as in /proc/cpuinfo; those of this machine where not given.

    >>> default_options("cpu", features=frozenset({"avx512f"}))["xla_cpu_prefer_vector_width"]
    512
    """
    del operators  # no operator needs another option than its neighbours so far
    if platform != "cpu":
        return {}
    # The order of work that needs least memory: a stack of convolutions takes a third of the bytes
    # and, fitting caches better, a tenth less time; small programs are as fast either way.
    options: dict[str, Any] = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
    # XLA's loops use 256 bits unless told otherwise; 512 halve a chain of elementwise operators.
    if "avx512f" in (cpu_features() if features is None else features):
        options["xla_cpu_prefer_vector_width"] = 512
    return options


def keep_barriers(platform: str) -> dict[str, Any]:
    """Options under which ``jax.lax.optimization_barrier`` holds until the program is compiled.

    XLA:CPU drops barriers early, then merges what they kept apart and reorders across them.

    >>> keep_barriers("gpu")
    {}
    """
    return {"xla_disable_hlo_passes": "cse_barrier_expander"} if platform == "cpu" else {}


def convolves_in_one_thread() -> bool:
    """Whether XLA:CPU's kernel library leaves cores idle while it computes a convolution.

    That of jaxlib 0.10.2 does, where there is more than one core (0.10.1, 0.11 and 0.12 do not).
    """
    return jaxlib.__version__ == "0.10.2" and cores() > 1


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def cpu_features() -> frozenset[str]:
    """Instruction-set names of the first processor; empty where the system does not list them."""
    # Only x86 has AVX-512, and of systems that run on x86 only Linux states it in a file; macOS
    # had it on a few machines, which then keep XLA's default.
    if host.system() != "Linux":
        return frozenset()
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    return frozenset(value.split())
    except OSError:
        pass
    return frozenset()
