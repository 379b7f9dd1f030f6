"""The numbers of an update, rates and counts, on their way to the device."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from mxjax.core import Value, ahead, host, placed
from mxjax.lr_scheduler import CosineScheduler, PolyScheduler

from .rules import unworked


def numbers_of(
    optimizer: Any, indices: Sequence[Any], dtype: Any, lrs: Sequence[Any], more: int = 0
) -> np.ndarray:
    """The vector of `Optimizer.count_updates` at these rates, ``more`` updates from now."""
    counts = optimizer._index_update_count
    numbers = optimizer.numbers if optimizer.guard is None else unworked
    out: list[Any] = [optimizer.rescale_grad]
    last: tuple[Any, ...] | None = None
    row: tuple[Any, ...] = ()
    for index, lr, wd in zip(indices, lrs, optimizer._get_wds(indices), strict=True):
        now = (lr, wd, counts[index] + more)
        if now != last or optimizer._numbers_have_memory:
            row, last = numbers(*now), now
        out.extend(row)
    return np.array(out, dtype)


def counted(optimizer: Any, indices: Sequence[Any], dtype: Any, device: Any) -> Value:
    """The vector of `Optimizer.count_updates` as an operand of a step on a device."""
    numbers = optimizer.count_updates(indices, dtype)
    if not ahead.is_far(device):
        # Those of 64 bits have to be put on the device first.
        return (
            host(numbers, device)
            if numbers.dtype.itemsize <= 4
            else placed(numbers, device, shared=True)
        )
    steps = device, indices[0], len(indices)
    sender = optimizer._ahead.get(steps)
    if sender is None:
        sender = optimizer._ahead[steps] = ahead.Ahead(device)
    return host(sender.array(numbers, partial(_later, optimizer, indices, dtype)), device)


def _later(optimizer: Any, indices: Sequence[Any], dtype: Any, n: int) -> list[np.ndarray]:
    """The vectors of the next ``n`` steps, if nobody changes anything; none where that cannot be told."""
    if optimizer._numbers_have_memory:
        return []
    schedule = optimizer.lr_scheduler
    if type(schedule) in (PolyScheduler, CosineScheduler):
        schedule = copy(schedule)  # it remembers its last rate
        rates = [schedule(optimizer.num_update + k) for k in range(1, n + 1)]
    else:
        rates = [optimizer.learning_rate] * n
    return [
        numbers_of(optimizer, indices, dtype, optimizer._scaled(rate, indices, "lr_mult"), k)
        for k, rate in enumerate(rates, 1)
    ]
