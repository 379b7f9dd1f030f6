"""The compiler options every program gets, by platform and processor.

Settings, profiler and rematerialisation add theirs; `mxjax.core.compile.compiler` merges them.
"""

from __future__ import annotations

import functools
import os
import platform as host
from typing import Any

import jaxlib

from ..graph.jaxprs import arrays_in, computes_complex, count_scans

_WIDTH = "xla_cpu_prefer_vector_width"


def default_options(platform: str, features: frozenset[str] | None = None) -> dict[str, Any]:
    """Options for a program on ``cpu``, ``gpu`` or ``tpu``.

    features are the processor's, as in /proc/cpuinfo; those of this machine where not given.

    >>> default_options("cpu", features=frozenset({"avx512f"}))["xla_cpu_prefer_vector_width"]
    512
    """
    if platform != "cpu":
        return {}
    # The order of work that needs least memory: a stack of convolutions takes a third of the bytes
    # and, fitting caches better, a tenth less time; small programs are as fast either way.
    options: dict[str, Any] = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
    # XLA's loops use 256 bits unless told otherwise; 512 halve a chain of elementwise operators.
    if "avx512f" in (cpu_features() if features is None else features):
        options[_WIDTH] = 512
    return options


def leave_width(options: dict[str, Any], jaxpr: Any) -> None:
    """Take the width of vectors out of a CPU program's options where XLA is wrong with it.

    jaxlib 0.10.2 to 0.11 links `xla.atan.v16f32` and `xla.atan.v8f64` from bitcode that clang made for 256 bits, where
    such a vector is passed in memory (``ptr byval(<16 x float>)``), and calls them with the vector itself: every arc
    tangent of 64 numbers or more reads what lies elsewhere, or ends the process. XLA comes to them by `atan2(y, 1)`
    alone. Those of real numbers have code of ours (`cpu_code`); here are the logarithms of complex ones.

        jax.jit(jax.numpy.arctan).lower(x).compile({"xla_cpu_prefer_vector_width": 512})(x)  # x: 64 numbers
    """
    if _WIDTH in options and atan_is_wrong() and computes_complex(jaxpr):
        del options[_WIDTH]


def atan_is_wrong() -> bool:
    """Whether this XLA passes 512 bits to its arc tangent in another way than that takes them."""
    version = tuple(
        int("".join(filter(str.isdigit, part)) or 0) for part in jaxlib.__version__.split(".")[:3]
    )
    return (0, 10, 2) <= version < (0, 12)


def keep_barriers(platform: str) -> dict[str, Any]:
    """Options under which ``jax.lax.optimization_barrier`` holds until the program is compiled.

    XLA:CPU drops barriers early, then merges what they kept apart and reorders across them.

    >>> keep_barriers("gpu")
    {}
    """
    return {"xla_disable_hlo_passes": "cse_barrier_expander"} if platform == "cpu" else {}


def part_scans(platform: str, jaxpr: Any) -> dict[str, Any]:
    """Options under which a GPU's program of several scans computes each in a kernel of its own.

    XLA (jaxlib 0.11.2, on an H200) merges them with a sum along an axis into one kernel, which then exchanges a
    running sum's numbers with a running product's. The program's text is right, and it is so without CUDA graphs, too.

    >>> import jax
    >>> jaxpr = jax.make_jaxpr(lambda x: (x.cumsum(), x.cumprod()))(jax.numpy.ones(3)).jaxpr
    >>> part_scans("gpu", jaxpr)
    {'xla_disable_hlo_passes': 'multi_output_fusion'}
    """
    if platform != "gpu" or count_scans(jaxpr) < 2:
        return {}
    return {"xla_disable_hlo_passes": "multi_output_fusion"}


#: Bytes of a block of temporaries: glibc keeps what was freed of those below 32 MiB, without being told.
BLOCK = 31_000_000


def in_blocks(options: dict[str, Any], jaxpr: Any) -> None:
    """Let a CPU's program have its temporaries in blocks that the allocator keeps from run to run.

    XLA asks for all of them as one array at each run, and glibc gets and returns what is large page by page: 20,000
    page faults, a fifth of the time, of a U-Net's training step. An array larger than a block gets one of its own that
    no other takes over, so this is for programs whose largest array is a third of a block at most; and small programs
    have one block anyhow.
    """
    largest, total = arrays_in(jaxpr)
    if largest * 3 <= BLOCK < total:
        options["xla_multiheap_size_constraint_per_heap"] = BLOCK


def convolves_in_one_thread() -> bool:
    """Whether XLA:CPU's kernel library leaves cores idle while it computes a convolution.

    That of jaxlib 0.10.2 does, where there is more than one core (0.10.1, 0.11 and 0.12 do not).
    """
    return jaxlib.__version__ == "0.10.2" and cores() > 1


def machine_memory() -> int:
    """Bytes of the machine's memory; 0 where the system does not tell."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0


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
