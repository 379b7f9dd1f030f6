"""Where memory comes from, and what may share it (the rows `memory.*` beside those of memonger)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..kinds import Boolean, Bytes, Choice, Fields, Float, Integer
from ..option import Legacy, Option

#: `memory.host_kept` where our launchers started the process.
HOST_KEPT = 512 << 20

_SCHEDULERS = {
    False: "CPU_SCHEDULER_TYPE_CONCURRENCY_OPTIMIZED",
    True: "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
}


def _workspaces(count: int | None, platform: str) -> dict[str, Any]:
    if count is None or platform == "tpu":
        return {}
    if platform == "gpu":
        return {"xla_gpu_executable_num_compute_streams": count}
    return {"xla_cpu_scheduler_type": _SCHEDULERS[count == 1]}


def _preallocated(value: bool | None) -> dict[str, str | None]:
    if value is None:
        return {"XLA_PYTHON_CLIENT_PREALLOCATE": None}
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "true" if value else "false"}


class _Policy:
    """NPURunConfig's MemoryConfig."""

    _fields = Fields(
        atomic_clean_policy=Integer(0, 1),
        static_memory_policy=Integer(0, 4),
        memory_optimization_policy=Choice(("none", "recompute")),
        variable_use_1g_huge_page=Integer(0, 2),
    )
    expected = _fields.expected

    def convert(self, raw: object) -> Mapping[str, Any]:
        return self._fields.convert(raw)


def _policy(fields: Mapping[str, Any] | None) -> dict[str, str | None]:
    static = (fields or {}).get("static_memory_policy")
    if static in (None, 0, 1):
        return {"XLA_PYTHON_CLIENT_ALLOCATOR": None} if static is None else {}
    return {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}


OPTIONS: tuple[Option, ...] = (
    Option(
        "memory.inplace",
        Boolean(),
        True,
        doc="Let a program write its results over inputs that nobody holds any more.",
        effect="0: no input is donated, so an update holds the old and the new weights for a moment.",
        applies="compile",
        legacy=(
            Legacy("MXNET_EXEC_ENABLE_INPLACE"),
            Legacy("MEGENGINE_INPLACE_UPDATE"),
        ),
        mechanism="donated inputs of every program (mx.engine.stats()['donated'] counts them)",
    ),
    Option(
        "memory.match_range",
        Integer(0),
        16,
        doc="How far sizes of buffers may differ that take turns in one place; 0: none are shared.",
        effect="0: every call is a program of its own, its result has a buffer of its own, and nothing "
        "is donated. Above 0 XLA assigns the places of a program's buffers.",
        applies="compile",
        legacy=(
            Legacy(
                "NNVM_EXEC_MATCH_RANGE",
                fidelity="approximate",
                difference="XLA's assignment fits buffers of any sizes, so all ranges above "
                "0 are the same",
            ),
        ),
        mechanism="0: segments of one call, no donation; above: XLA's buffer assignment",
    ),
    Option(
        "memory.temp_workspaces",
        Integer(1),
        None,
        doc="How many temporary workspaces a program may hold at a time.",
        effect="1: work is ordered so that the least memory is needed (mxjax's own choice on CPU); more: "
        "so that operators can run side by side, on as many streams of a GPU.",
        applies="compile",
        legacy=(
            Legacy(
                "MXNET_EXEC_NUM_TEMP",
                fidelity="approximate",
                difference="XLA:CPU knows two orders of work and no number: 1 saves memory, all "
                "others run side by side",
            ),
            Legacy(
                "NNVM_EXEC_NUM_TEMP", fidelity="approximate", difference="as MXNET_EXEC_NUM_TEMP"
            ),
        ),
        platforms=("cpu", "gpu"),
        compiler=_workspaces,
    ),
    Option(
        "memory.allocator",
        Choice(("default", "bfc", "platform", "cuda_async", "vmm")),
        None,
        doc="How a GPU's memory is handed out.",
        effect="bfc keeps what is freed and hands it out again; platform asks CUDA every time.",
        applies="backend-init",
        legacy=(
            Legacy(
                "MXNET_GPU_MEM_POOL_TYPE",
                Choice(("Naive", "Round", "Unpooled")),
                {"Naive": "default", "Round": "bfc", "Unpooled": "platform"},
                fidelity="approximate",
                difference="JAX's pools round in bins of their own: Naive is its default, Round "
                "its best-fit pool",
            ),
        ),
        platforms=("gpu",),
        environment=lambda name: {"XLA_PYTHON_CLIENT_ALLOCATOR": name},
    ),
    Option(
        "memory.fraction",
        Float(0.0, 1.0, open_low=True),
        None,
        doc="The part of a GPU's memory that JAX may take; unset: three quarters.",
        effect="The size of JAX's pool.",
        applies="backend-init",
        legacy=(
            Legacy("MXNET_GPU_MEM_POOL_RESERVE", Integer(0, 99), lambda kept: (100 - kept) / 100),
        ),
        platforms=("gpu",),
        environment=lambda part: {"XLA_CLIENT_MEM_FRACTION": None if part is None else f"{part:g}"},
    ),
    Option(
        "memory.preallocate",
        Boolean(),
        None,
        doc="Take a GPU's memory at the start, instead of when it is needed.",
        effect="1: the whole pool (memory.fraction) is taken when JAX starts.",
        applies="backend-init",
        legacy=(
            Legacy("MGB_CUDA_RESERVE_MEMORY"),
            Legacy("MGB_ROCM_RESERVE_MEMORY"),
        ),
        platforms=("gpu",),
        environment=_preallocated,
    ),
    Option(
        "memory.policy",
        _Policy(),
        MappingProxyType({}),
        doc="Ascend's MemoryConfig: how static memory is handed out, and what is recomputed.",
        effect="static_memory_policy 2 to 4: a pool that grows (cuda_async); "
        "memory_optimization_policy='recompute': as memory.remat=mirror.",
        applies="backend-init",
        legacy=(
            Legacy(
                "memory_config",
                fidelity="approximate",
                difference="atomic_clean_policy and variable_use_1g_huge_page have no "
                "counterpart in XLA and change nothing",
            ),
        ),
        environment=_policy,
        mechanism="memory_optimization_policy='recompute' is memory.remat='mirror' where that is unset",
        implies=lambda fields: (
            {"memory.remat": "mirror"}
            if fields.get("memory_optimization_policy") == "recompute"
            else {}
        ),
    ),
    Option(
        "memory.host_kept",
        Bytes(),
        None,
        doc="How much memory that programs gave back the process keeps for the next ones, on a CPU.",
        effect="Larger blocks are returned to the operating system after each run. It counts for the whole "
        "process: what NumPy and other libraries free is kept as well, and all threads share one heap. "
        "Unset: glibc's malloc is left as it is, unless `python -m mxjax` or `python -m mxjax.launch` "
        "started the process, which ask for 512 MiB. 0: left as it is there, too.",
        applies="compile",
        legacy=(
            Legacy(
                "MXNET_CPU_MEM_POOL_TYPE",
                Choice(("Naive", "Round", "Unpooled")),
                {"Naive": HOST_KEPT, "Round": HOST_KEPT, "Unpooled": 0},
                fidelity="approximate",
                difference="the C library's allocator keeps and rounds",
            ),
        ),
        platforms=("cpu",),
        mechanism="the thresholds of glibc's malloc for mapping and for trimming, and one heap for all threads, from "
        "the first use of a CPU on; nothing where another allocator is in use",
    ),
    Option(
        "memory.host_round_cutoff",
        Integer(20, 34),
        None,
        doc="The size (as a power of two) up to which files in shared memory are rounded up to a power of two.",
        effect="Larger ones are rounded up to multiples of that size. Unset: they are as large as what is in them.",
        legacy=(
            Legacy(
                "MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF",
                fidelity="approximate",
                difference="for the shared memory of DataLoaders; XLA's pools on a device round by "
                "rules of their own",
            ),
        ),
        dynamic=True,
        mechanism="the size of the file that a worker writes a batch to",
    ),
    Option(
        "memory.host_round_bytes",
        Bytes(),
        None,
        doc="The bytes that files in shared memory larger than this are a multiple of; 1: as large as needed.",
        effect="Unset: they are as large as what is in them. memory.host_round_cutoff is stronger.",
        legacy=(
            Legacy(
                "MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE",
                fidelity="approximate",
                difference="as MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF",
            ),
        ),
        dynamic=True,
        mechanism="the size of the file that a worker writes a batch to",
    ),
    Option(
        "memory.external_weights",
        Boolean(),
        True,
        doc="Keep weights outside of the programs of hybridized blocks.",
        effect="1: weights are arguments, so all programs share them. 0: in prediction a program holds them as "
        "constants, which XLA computes with while it compiles; where a weight changes it is compiled again.",
        legacy=(Legacy("external_weight"),),
        mechanism="arguments of the program, or constants in its text",
    ),
)
