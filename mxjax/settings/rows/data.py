"""Where data comes from and who reads it."""

from __future__ import annotations

from ..kinds import Integer, Path, Text
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
)
