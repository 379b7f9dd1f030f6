"""Where data comes from and who reads it."""

from __future__ import annotations

from ..kinds import Boolean, Bytes, Integer, Path, Text
from ..option import Legacy, Option

OPTIONS: tuple[Option, ...] = (
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
    Option(
        "data.opencv_threads",
        Integer(-(1 << 31)),
        0,
        doc="The number of OpenCV's threads in each worker process of a DataLoader; below 1: none.",
        effect="OPENCV_FOR_THREADS_NUM in the workers' environment, which OpenCV reads.",
        legacy=(Legacy("MXNET_MP_OPENCV_NUM_THREADS"),),
        dynamic=True,
        mechanism="OPENCV_FOR_THREADS_NUM of worker processes",
    ),
    Option(
        "data.shm_bytes",
        Bytes(),
        4 << 30,
        doc="The shared memory that one batch of a DataLoader's worker processes may take.",
        effect="0: batches come through pipes. A batch that is larger is an error that says so.",
        legacy=(Legacy("MGE_PLASMA_MEMORY"),),
        dynamic=True,
        mechanism="the workers compare a batch's bytes with it before they write the file",
    ),
    Option(
        "data.prefetch",
        Boolean(),
        True,
        doc="Let a DataLoader make batches ahead of the one in use.",
        effect="0: a batch is made when it is asked for, also where workers make it.",
        legacy=(Legacy("enable_data_pre_proc"),),
        mechanism="prefetch=0 of DataLoaders that do not say",
    ),
    Option(
        "data.copy_threshold",
        Integer(0),
        None,
        doc="The number of elements from which on a NumPy array is copied by several threads; unset: none is.",
        effect="Smaller arrays are copied by the calling thread. MXNet's default is 200000; one thread is as "
        "fast as the memory on most machines.",
        legacy=(Legacy("MXNET_CPU_PARALLEL_COPY_SIZE"), Legacy("MXNET_CPU_PARALLEL_SIZE")),
        mechanism="the pool of engine.copy_threads",
    ),
)
