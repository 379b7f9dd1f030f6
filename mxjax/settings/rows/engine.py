"""How calls are recorded and run."""

from __future__ import annotations

from ..kinds import Boolean, Choice, Integer
from ..option import Legacy, Option

OPTIONS: tuple[Option, ...] = (
    Option(
        "engine.type",
        Choice(("NaiveEngine", "ThreadedEngine", "ThreadedEnginePerDevice"), suffix="Async"),
        "ThreadedEnginePerDevice",
        doc="How calls run: one by one and synchronously, or recorded and compiled together.",
        effect="NaiveEngine runs and waits call by call, so an error stops at its own line; the "
        "other two record segments and are one and the same here.",
        legacy=(Legacy("MXNET_ENGINE_TYPE"),),
    ),
    Option(
        "engine.async_level",
        Integer(0, 2),
        2,
        doc="How far calls may run ahead of the program: 0 not at all, 1 and 2 freely.",
        effect="0 runs and waits call by call, as NaiveEngine does; levels 1 and 2 are the same "
        "here, because shapes and types are always checked at the call.",
        legacy=(Legacy("MEGENGINE_INTERP_ASYNC_LEVEL"),),
    ),
    Option(
        "engine.bulk_infer",
        Boolean(),
        True,
        doc="Compile the calls outside autograd.record() together.",
        effect="0: every such call is a program of its own, run asynchronously.",
        legacy=(Legacy("MXNET_EXEC_BULK_EXEC_INFERENCE"),),
    ),
    Option(
        "engine.bulk_train",
        Boolean(),
        True,
        doc="Compile the calls of training (under autograd.record() and backward) together.",
        effect="0: every such call is a program of its own, so a profile shows each operator.",
        legacy=(Legacy("MXNET_EXEC_BULK_EXEC_TRAIN"),),
    ),
    Option(
        "engine.bulk_nodes",
        Integer(0),
        4096,
        doc="The largest number of calls in one segment.",
        effect="A segment that reaches it is run. MXNet's default is 15; ours holds a whole "
        "training step. Forward and backward share segments here: of several legacy names the "
        "smallest counts.",
        legacy=(
            Legacy("MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN"),
            Legacy("MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_FWD"),
            Legacy("MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_BWD"),
        ),
        combine=min,
    ),
    Option(
        "engine.cpu_threads",
        Integer(1),
        None,
        doc="The number of threads XLA's CPU backend computes with; unset: one per core.",
        effect="Sizes both thread pools of the CPU backend when it starts.",
        applies="backend-init",
        legacy=(
            Legacy("MXNET_CPU_WORKER_NTHREADS"),
            Legacy("MXNET_CPU_NNPACK_NTHREADS", weak=True, fidelity="approximate",
                   difference="all of XLA's kernels share one pool; it counts where "
                   "MXNET_CPU_WORKER_NTHREADS is unset"),
            Legacy("MXNET_USE_NUM_CORES_OPERATOR_TUNING", weak=True, fidelity="approximate",
                   difference="XLA splits work over the threads it has, by a fixed model of costs; "
                   "it counts where neither of the others is set"),
        ),
        platforms=("cpu",),
        environment=lambda count: {"PJRT_NPROC": None if count is None else str(count)},
    ),
)
