"""The table of settings: one row per option, and nothing else.

To add an option, add a row, read it with `settings.get("group.option")` where it counts, and test
its effect.  A row whose effect does not exist yet does not belong here.
"""

from __future__ import annotations

from .kinds import Boolean, Choice, Flags, Integer, Path, Text
from .option import Legacy, Option

_MIRROR = {True: "mirror", False: "none"}

OPTIONS: tuple[Option, ...] = (
    # ------------------------------------------------------------------------------ engine
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
        effect="Sizes both thread pools of the CPU backend when it starts (PJRT_NPROC).",
        applies="backend-init",
        legacy=(Legacy("MXNET_CPU_WORKER_NTHREADS"),),
    ),
    # ------------------------------------------------------------------------------ memory
    Option(
        "memory.remat",
        Choice(("none", "mirror")),
        "none",
        doc="What the backward pass recomputes instead of keeping.",
        effect="mirror: cheap activations are recomputed, results of convolutions and matrix "
        "products kept.",
        applies="compile",
        legacy=(
            Legacy("MXNET_BACKWARD_DO_MIRROR", Boolean(), _MIRROR),
            Legacy("MXNET_MEMORY_OPT", Boolean(), _MIRROR),
        ),
        dynamic=True,
    ),
    Option(
        "memory.variable_placement",
        Choice(("Device", "Host")),
        "Device",
        doc="Where parameters and the optimizer's states live between programs.",
        effect="Host: in the host's pinned memory, from their initialization, loading or creation on; "
        "a program copies them to the device and what it changed back. Gradients stay on the device. "
        "On a CPU the memory kind is kept and saves nothing (a warning says so). Ascend refuses Host "
        "without mix_compile_mode; here host and device always work together, so nothing else need be set.",
        legacy=(Legacy("variable_placement"),),
    ),
    # ------------------------------------------------------------------------- determinism
    Option(
        "determinism.enabled",
        Boolean(),
        False,
        doc="The same numbers on every run.",
        effect="GPU programs are compiled with deterministic operators only, which costs speed; "
        "CPU and TPU programs are deterministic anyway.",
        applies="compile",
        legacy=(Legacy("MXNET_ENFORCE_DETERMINISM"), Legacy("deterministic")),
        dynamic=True,
    ),
    # ---------------------------------------------------------------------------- compiler
    Option(
        "compiler.options",
        Flags(prefix="xla_"),
        {},
        doc="XLA options that every program is compiled with.",
        effect="Added to the options mxjax chooses itself, and stronger; XLA refuses unknown ones.",
        applies="compile",
        legacy=(Legacy("experimental_config"),),
    ),
    # ---------------------------------------------------------------------------- profiler
    Option(
        "profiler.autostart",
        Boolean(),
        False,
        doc="Profile from the import on.",
        effect="The profiler runs when mxjax is imported, and its file is written at exit.",
        legacy=(Legacy("MXNET_PROFILER_AUTOSTART"),),
    ),
    Option(
        "profiler.events",
        Integer(0, 15),
        15,
        doc="Which events a profile holds: 1 symbolic + 2 imperative + 4 API + 8 memory.",
        effect="The kinds recorded where profiler.set_config does not say. MXNet's default of 13 "
        "leaves imperative calls out; here they are what programs are made of.",
        legacy=(Legacy("MXNET_PROFILER_MODE"),),
    ),
    # ------------------------------------------------------------------------------- debug
    Option(
        "debug.log_level",
        Choice(("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
        None,
        doc="The level of the logger 'mxjax'; unset: as Python's logging is configured.",
        effect="logging.getLogger('mxjax').setLevel(...).",
        legacy=(Legacy("MEGENGINE_LOGGING_LEVEL"),),
    ),
    # -------------------------------------------------------------------------------- data
    Option(
        "data.home",
        Path(),
        Path().convert("~/.mxnet"),
        doc="The folder of datasets and models.",
        effect="Where datasets and the model zoo look for their files.",
        legacy=(Legacy("MXNET_HOME"),),
        dynamic=True,
    ),
    Option(
        "data.repo",
        Text(),
        "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/",
        doc="The address that datasets and models are fetched from; file:// works too.",
        effect="The start of every download's URL.",
        legacy=(Legacy("MXNET_GLUON_REPO"),),
        dynamic=True,
    ),
    Option(
        "data.worker_threads",
        Integer(1),
        1,
        doc="The number of threads that each worker process of a DataLoader computes with.",
        effect="Sizes the thread pools of XLA, OpenMP and BLAS in workers started from then on.",
        legacy=(Legacy("MXNET_MP_WORKER_NTHREADS"),),
        dynamic=True,
    ),
)
