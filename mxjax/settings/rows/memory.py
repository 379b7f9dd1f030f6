"""What is kept, recomputed, dropped and placed."""

from __future__ import annotations

import os

from ..kinds import Boolean, Bytes, Choice, Integer
from ..option import Legacy, Option

_CPUS = os.cpu_count() or 1
_MIRROR = {True: "mirror", False: "none"}

OPTIONS: tuple[Option, ...] = (
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
        legacy=(
            Legacy(
                "MEGENGINE_ENABLE_SWAP",
                fidelity="approximate",
                difference="arrays wait in the host's memory between programs, never inside one",
            ),
        ),
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
    Option(
        "memory.param_layout",
        Boolean(),
        False,
        doc="Keep the weights of hybridized blocks with their axes in the order in which XLA computes with them.",
        effect="1: at a block's first call XLA is asked about each operator that takes a weight, and the weight is "
        "laid out anew, once, instead of in every program; updates keep the order. Of use for convolutions. For one "
        "device, and weights in its own memory.",
        applies="construct",
        legacy=(Legacy("variable_format_optimize"),),
        mechanism="jax.experimental.layout: arrays and programs with a Format of their own",
    ),
)
