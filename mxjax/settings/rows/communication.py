"""How the stores of parameters move and sum values."""

from __future__ import annotations

from typing import Any

from ..kinds import Boolean, Integer
from ..option import Legacy, Option


class Share:
    """A part of one: more than 0, at most 1."""

    expected = "a number > 0 and <= 1"

    def convert(self, raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ValueError
        share = float(raw)
        if not 0 < share <= 1:
            raise ValueError
        return share


class Strategy:
    """How training is distributed: TensorFlow's strategy of parameter servers, as an object or by name."""

    expected = "'ParameterServer' (also 'PS-Worker'), or a ParameterServerStrategy object"

    def convert(self, raw: object) -> str:
        word = raw if isinstance(raw, str) else type(raw).__name__
        plain = word.lower().replace("_", "").replace("-", "").replace("strategy", "")
        if plain.startswith("parameterserver") or plain in ("ps", "psworker"):
            return "ParameterServer"
        raise ValueError


#: What lets XLA:GPU run collectives beside other work.
_HIDE = "xla_gpu_enable_latency_hiding_scheduler"


def _overlap(on: bool | None, platform: str) -> dict[str, Any]:
    if on is None or platform == "tpu":
        return {}
    if platform == "cpu":
        return {"xla_disable_hlo_passes": "cpu-all-reduce-combiner"} if on else {}
    return (
        {_HIDE: True}
        if on
        else {_HIDE: False, "xla_gpu_all_reduce_combine_threshold_bytes": 1 << 40}
    )


def _tail(on: bool, platform: str) -> dict[str, Any]:
    return {_HIDE: True} if on and platform == "gpu" else {}


OPTIONS: tuple[Option, ...] = (
    Option(
        "comm.bigarray_bound",
        Integer(0),
        1_000_000,
        doc="The number of elements from which on an array is shared out between devices or processes.",
        effect="Where the store runs the optimizer, an array of at least so many elements is summed and "
        "updated in parts, each device (each process of dist_sync) holding the optimizer's states of its part; "
        "smaller ones are updated on every device.",
        legacy=(Legacy("MXNET_KVSTORE_BIGARRAY_BOUND"),),
        dynamic=True,
    ),
    Option(
        "comm.reduce_threads",
        Integer(1),
        4,
        doc="The number of threads that sum big arrays in the host's memory.",
        effect="Where the devices are CPUs, arrays that together reach comm.bigarray_bound elements are "
        "cut into pieces, which so many threads share out.",
        legacy=(Legacy("MXNET_KVSTORE_REDUCTION_NTHREADS"),),
        dynamic=True,
    ),
    Option(
        "comm.shared_memory",
        Boolean(),
        True,
        doc="Let the processes of one machine sum in memory that they share.",
        effect="Where the devices are CPUs, dist_sync sends only the sum of each machine through the "
        "network; off: every process sends its own. Read at the first sum.",
    ),
    Option(
        "comm.p2p",
        Boolean(),
        True,
        doc="Let devices send to each other directly.",
        effect="0: what moves between devices, sums included, goes through the host's memory "
        "(the kvstore 'nccl' always sums directly).",
        legacy=(Legacy("MXNET_ENABLE_GPU_P2P"),),
        dynamic=True,
    ),
    Option(
        "comm.tree",
        Boolean(),
        False,
        doc="Sum along trees of devices.",
        effect="The kvstore 'device' sums by a program in which each device sends to one other at a time, "
        "along a binomial tree, instead of XLA's all-reduce or the host's sum.",
        applies="compile",
        legacy=(Legacy("MXNET_KVSTORE_USETREE"),),
        dynamic=True,
    ),
    Option(
        "comm.tree_log",
        Boolean(),
        False,
        doc="Log the trees that comm.tree found.",
        effect="One line per tree on the logger mxjax.kvstore, at the level INFO.",
        applies="compile",
        legacy=(Legacy("MXNET_KVSTORE_LOGTREE"),),
        dynamic=True,
    ),
    Option(
        "comm.tree_array_bound",
        Integer(0),
        10_000_000,
        doc="The number of elements from which on an array is shared out between all trees.",
        effect="Such an array is cut into as many parts as there are devices, each summed along the tree "
        "of another root; smaller arrays take one tree each, in turn.",
        applies="compile",
        legacy=(Legacy("MXNET_KVSTORE_TREE_ARRAY_BOUND"),),
        dynamic=True,
    ),
    Option(
        "comm.tree_backtrack",
        Boolean(),
        False,
        doc="Try all ways to halve the devices when looking for trees.",
        effect="On up to 8 devices the tree with the best links is found; otherwise devices are halved by "
        "Kernighan and Lin's method.",
        applies="compile",
        legacy=(Legacy("MXNET_KVSTORE_TREE_BACKTRACK"),),
        dynamic=True,
    ),
    Option(
        "comm.tree_link_penalty",
        Share(),
        0.7,
        doc="The factor on a link's weight for each tree that uses it already.",
        effect="Smaller factors spread the trees over more links.",
        applies="compile",
        legacy=(Legacy("MXNET_KVSTORE_TREE_LINK_USAGE_PENALTY"),),
        dynamic=True,
    ),
    Option(
        "comm.update_on_kvstore",
        Boolean(),
        None,
        doc="Let the store run the optimizer where a Trainer does not say; unset: within one process, as MXNet does.",
        effect="1: as update_on_kvstore=True: each device or process updates a part of each big array and keeps the "
        "optimizer's states of that part only. 0: every device updates everything.",
        legacy=(Legacy("MXNET_UPDATE_ON_KVSTORE"),),
        dynamic=True,
    ),
    Option(
        "comm.overlap",
        Boolean(),
        None,
        doc="Sum gradients over a mesh's devices while the backward pass goes on; unset: as XLA likes.",
        effect="1: each gradient is summed where it is ready. 0: one sum of all of them, behind the backward pass. "
        "A CPU sums them there unless told otherwise; collectives run beside other work on a GPU alone.",
        applies="compile",
        legacy=(Legacy("hcom_parallel"),),
        platforms=("cpu", "gpu"),
        compiler=_overlap,
    ),
    Option(
        "comm.tail_overlap",
        Boolean(),
        False,
        doc="Sum the gradients that are ready last while the other weights are updated.",
        effect="A Trainer with a kvstore sums in two parts, the last of 3.46 % of the bytes (Ascend's own division), "
        "and updates the weights of the first part before it needs the second.",
        applies="compile",
        legacy=(
            Legacy(
                "is_tailing_optimization",
                fidelity="approximate",
                difference="it is for kvstores of several devices; on a mesh it only tells XLA:GPU to "
                "reorder, and there is no optimizer's argument that must agree with it",
            ),
        ),
        compiler=_tail,
        mechanism="two collectives and two updates, in the order: sum, sum, update, update",
    ),
    Option(
        "comm.distribute",
        Strategy(),
        None,
        doc="Share the optimizer's work out between the processes of a job, as servers of parameters do.",
        effect="Each weight of a kvstore 'dist_sync' is updated by one process, which alone keeps the optimizer's "
        "states of it, and sent to the others; saved states are those of the process. Unset: every process updates "
        "all.",
        applies="construct",
        legacy=(
            Legacy(
                "distribute",
                fidelity="approximate",
                difference="there are no processes that only serve: the workers share their part, and all "
                "steps are synchronous",
            ),
        ),
        implies=lambda strategy: {} if strategy is None else {"comm.update_on_kvstore": True},
        mechanism="kvstore: the sum of the gradients to all, the new weight from its server to all",
    ),
)
