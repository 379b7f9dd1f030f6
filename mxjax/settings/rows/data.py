"""Where data comes from and who reads it."""

from __future__ import annotations

from ..kinds import Boolean, Bytes, Integer, Path, Text
from ..option import Legacy, Option


class Numbers:
    """Different numbers from 0 on, with commas between them, or a list of them."""

    expected = "different numbers >= 0 with commas between them, such as '0,1'"

    def convert(self, raw: object) -> tuple[int, ...]:
        if isinstance(raw, int) and not isinstance(raw, bool):
            raw = (raw,)
        if not isinstance(raw, str | list | tuple):
            raise ValueError
        words = raw.split(",") if isinstance(raw, str) else raw
        found = tuple(Integer().convert(word) for word in words)
        if len(set(found)) != len(found):
            raise ValueError
        return found


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
    Option(
        "data.pack_below",
        Integer(0, 32 << 20),
        None,
        doc="The bytes below which the arrays of a DataLoader's batch go to the device in one copy; unset: each by "
        "itself.",
        effect="Smaller arrays are laid end to end, copied once, and taken apart by a program. It pays where a batch "
        "has many small arrays and a copy costs more than its bytes; Ascend's default is 131072.",
        applies="construct",
        legacy=(Legacy("input_fusion_size"),),
        mechanism="one device_put of the joined bytes, and bitcasts of its slices",
    ),
    Option(
        "data.loader_rank",
        Integer(0),
        None,
        doc="This process's number where one process of a job loads for all; 0 is the one that loads.",
        effect="Process 0 cuts each batch into as many parts as data.loader_devices names and keeps its own; the "
        "others get theirs from it and never touch the dataset. For processes of one machine, started by mxjax.launch.",
        applies="construct",
        legacy=(
            Legacy(
                "local_rank_id",
                fidelity="approximate",
                difference="batches are shared out as they are; numbers that occur twice in them are sent "
                "twice",
            ),
        ),
        mechanism="files in the machine's shared memory, one per part, removed as they are read",
    ),
    Option(
        "data.loader_devices",
        Numbers(),
        (),
        doc="The devices that a DataLoader's batches are shared out between, by number.",
        effect="A batch is one array, cut along axis 0 between these devices of this process; with data.loader_rank "
        "they are the job's processes instead, a part for each.",
        applies="construct",
        legacy=(
            Legacy(
                "local_device_list",
                fidelity="approximate",
                difference="the parts on one process's devices are one array of a mesh, which a program "
                "computes with as a whole",
            ),
        ),
        mechanism="mx.mesh(devices=...).split(batch)",
    ),
)
