"""How the stores of parameters move and sum values."""

from __future__ import annotations

from ..kinds import Integer
from ..option import Legacy, Option

OPTIONS: tuple[Option, ...] = (
    Option(
        "comm.bigarray_bound",
        Integer(0),
        1_000_000,
        doc="The number of elements from which on an array is shared out between devices.",
        effect="Where the store runs the optimizer, an array of at least so many elements is summed and "
        "updated in parts, each device holding the optimizer's states of its part; smaller ones are "
        "updated on every device.",
        legacy=(Legacy("MXNET_KVSTORE_BIGARRAY_BOUND"),),
        dynamic=True,
    ),
)
