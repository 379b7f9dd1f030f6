"""A training step as one program, and what updates the weights in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import settings
from ..core import flush_thread, local, span
from ..core.hooks import tell_step
from ..errors import MXNetTypeError

__all__: list[str] = []


def run_recorded() -> None:
    """Run what was recorded so far, as a program: it comes back with the next batch."""
    state = local.st
    try:
        state.steady = True
        with span("step", "Module.step"):
            flush_thread()
        state.steady = False
    except BaseException:
        state.steady = False
        raise


def end_step() -> None:
    """Run a training step: forward, backward, update, and the metric, where it was updated."""
    run_recorded()
    tell_step()


def create_kvstore(kvstore: Any, devices: int, arg_params: dict[str, Any]) -> tuple[Any, bool]:
    """The store that sums gradients, or None, and whether it updates the weights.

    Args:
      kvstore: a name, a store, or None; one device alone needs none but between processes.
      devices: how many devices there are.
      arg_params: the parameters: above 16 Mi elements in one the devices update for themselves.
    """
    from ..kvstore import base

    said = settings.get("comm.update_on_kvstore")
    on_store = True if said is None else bool(said)
    if kvstore is None:
        return None, False
    if isinstance(kvstore, str):
        if devices == 1 and "dist" not in kvstore:
            return None, False
        store = base.create(kvstore)
        if kvstore == "local" and max(int(np.prod(p.shape)) for p in arg_params.values()) > 2**24:
            on_store = False
    elif hasattr(kvstore, "pushpull"):
        store = kvstore
    else:
        raise MXNetTypeError(f"kvstore must be KVStore, str or None, got {type(kvstore).__name__}")
    store = base.as_store(store)
    return store, on_store and store.is_capable("optimizer")


def initialize_kvstore(
    kvstore: Any, arrays: Sequence[Sequence[Any]], arg_params: dict[str, Any], names: Sequence[str]
) -> None:
    """Give a store the parameters, and all devices the store's."""
    for name, on_devices in zip(names, arrays, strict=True):
        kvstore.broadcast(name, arg_params[name], on_devices)


def update(
    weights: Sequence[Sequence[Any]],
    grads: Sequence[Sequence[Any]],
    names: Sequence[str],
    updater: Any,
    kvstore: Any,
) -> None:
    """Sum the gradients over the devices, and update the weights: on the store where `updater` is None.

    A parameter without a gradient (fixed, or not needed) is left alone.
    """
    trained = [i for i, of_devices in enumerate(grads) if of_devices[0] is not None]
    if kvstore is not None:
        keys = [names[i] for i in trained]
        summed = [list(grads[i]) for i in trained]
        kvstore.pushpull_all(
            keys, summed, [list(weights[i]) for i in trained] if updater is None else summed
        )
    if updater is None:
        return
    for place in range(len(weights[0]) if weights else 0):
        for own in by_device(
            [(i * len(weights[0]) + place, grads[i][place], weights[i][place]) for i in trained]
        ):
            updater(*map(list, zip(*own, strict=True)))


def by_device(updates: Sequence[tuple[int, Any, Any]]) -> list[list[tuple[int, Any, Any]]]:
    """Updates (index, gradient, weight), together those of one device: groups of contexts have weights on several."""
    groups: dict[Any, list[tuple[int, Any, Any]]] = {}
    for each in updates:
        groups.setdefault(each[2].device, []).append(each)
    return list(groups.values())
