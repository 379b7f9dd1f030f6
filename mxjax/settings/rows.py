"""The table of settings: one row per option, and nothing else.

To add an option, add a row, read it with `settings.get("group.option")` where it counts, and test
its effect.  A row whose effect does not exist yet does not belong here.
"""

from __future__ import annotations

import os

from .kinds import Boolean, Bytes, Choice, Flags, Integer, Path, Text
from .option import Legacy, Option

_CPUS = os.cpu_count() or 1
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
        Choice(("none", "mirror", "sublinear", "nested", "recursive")),
        "none",
        doc="What the backward pass recomputes instead of keeping.",
        effect="mirror: cheap activations are recomputed, results of convolutions and matrix "
        "products kept. sublinear: only the ends of segments are kept, chosen by a search "
        "(memory.sublinear_*). nested: segments in segments, with less memory and more "
        "recomputation; recursive: halves of halves.",
        applies="compile",
        legacy=(
            Legacy("MXNET_BACKWARD_DO_MIRROR", Boolean(), _MIRROR),
            Legacy("MXNET_MEMORY_OPT", Boolean(), _MIRROR),
        ),
        dynamic=True,
    ),
    Option(
        "memory.sublinear_lower_bound_mb",
        Integer(0),
        0,
        doc="Bytes (in MiB) that the search for segments need not undercut.",
        effect="Plans below it are not pursued; of those that reach it the one that recomputes "
        "least wins. Above what the plain backward pass holds, nothing is recomputed.",
        applies="compile",
        legacy=(Legacy("MGB_SUBLINEAR_MEMORY_LOWER_BOUND_MB"),),
        dynamic=True,
    ),
    Option(
        "memory.sublinear_trials",
        Integer(0),
        10,
        doc="The number of thresholds that the search for segments tries.",
        effect="Each is a walk through the graph that cuts where more bytes are held.",
        applies="compile",
        legacy=(Legacy("MGB_SUBLINEAR_MEMORY_THRESH_NR_TRY"),),
        dynamic=True,
    ),
    Option(
        "memory.sublinear_genetic_iters",
        Integer(0),
        0,
        doc="The number of generations of the genetic search for segments.",
        effect="Plans are crossed and changed so many times; the best never gets worse.",
        applies="compile",
        legacy=(Legacy("MGB_SUBLINEAR_MEMORY_GENETIC_NR_ITER"),),
        dynamic=True,
    ),
    Option(
        "memory.sublinear_pool_size",
        Integer(0),
        20,
        doc="The number of plans in a generation of the genetic search.",
        effect="More plans are judged in each generation; 0 is refused where there are generations.",
        applies="compile",
        legacy=(Legacy("MGB_SUBLINEAR_MEMORY_GENETIC_POOL_SIZE"),),
        dynamic=True,
    ),
    Option(
        "memory.sublinear_workers",
        Integer(1, 4 * _CPUS),
        max(1, _CPUS // 2),
        doc="The number of threads that judge plans in the search for segments.",
        effect="So many plans are judged at the same time; the plan found is the same.",
        applies="compile",
        legacy=(Legacy("MGB_SUBLINEAR_MEMORY_WORKERS"),),
        dynamic=True,
    ),
    Option(
        "memory.dtr_auto_drop",
        Boolean(),
        False,
        doc="Dynamic tensor rematerialisation: give arrays up over a limit, compute them again on use.",
        effect="mx.dtr.enable(): what the tape can compute again is dropped so that live bytes stay "
        "within memory.dtr_eviction_threshold.",
        legacy=(Legacy("MEGENGINE_DTR_AUTO_DROP"),),
    ),
    Option(
        "memory.dtr_eviction_threshold",
        Bytes(),
        0,
        doc="The bytes that live arrays may take on one device while DTR is on.",
        effect="A limit: a program that would go over it first has arrays dropped for it, and where "
        "that is not enough MXNetMemoryError is raised. 0: only when the device has no room left.",
        legacy=(Legacy("MEGENGINE_DTR_EVICTION_THRESHOLD"),),
        dynamic=True,
    ),
    Option(
        "memory.dtr_evictee_minimum_size",
        Bytes(),
        1 << 20,
        doc="The smallest array that DTR gives up, in bytes.",
        effect="Smaller arrays stay; they would bring little room for the work of choosing them.",
        legacy=(Legacy("MEGENGINE_DTR_EVICTEE_MINIMUM_SIZE"),),
        dynamic=True,
    ),
    Option(
        "memory.dtr_drop",
        Boolean(),
        False,
        doc="Allow mx.dtr.drop(x) and x._drop() without automatic eviction.",
        effect="An array on the tape can be given up by hand; without this and without "
        "mx.dtr.enable() both do nothing.",
        legacy=(Legacy("MEGENGINE_ENABLE_DROP"),),
    ),
    Option(
        "memory.dtr_swap",
        Boolean(),
        False,
        doc="Let arrays wait in pinned host memory instead of being computed again.",
        effect="mx.dtr.swap(x) works, and DTR moves what is cheaper to fetch than to compute, and "
        "what cannot be computed again. Refused on CPU, where the host's memory is the device's.",
        legacy=(Legacy("MEGENGINE_ENABLE_SWAP"),),
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
