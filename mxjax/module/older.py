"""Steps of MXNet's own training loops that its users' loops import though they are private."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import settings
from ..array import NDArray
from ..base import _as_list
from ..errors import MXNetAssertionError, MXNetTypeError
from ..kvstore import base
from . import steps
from .executor_group import part_of

__all__: list[str] = []


def _create_kvstore(kvstore: Any, num_device: int, arg_params: dict[str, Any]) -> tuple[Any, bool]:
    """The store that sums gradients, or None, and whether it updates the weights: where there is one it does, unless a
    setting, or a big parameter, says otherwise.

    Raises:
      TypeError: neither a store nor the name of one, nor None.
    """
    said = settings.get("comm.update_on_kvstore")
    with settings.scope("comm.update_on_kvstore", True if said is None else said):
        return steps.create_kvstore(kvstore, num_device, arg_params)


def _create_sparse_kvstore(kvstore: Any) -> tuple[Any, bool]:
    """The store of parameters of which some are row_sparse, and that it updates the weights.

    Raises:
      TypeError: neither a store nor the name of one.
      AssertionError: it cannot update.
    """
    if not isinstance(kvstore, str) and not hasattr(kvstore, "pushpull"):
        raise MXNetTypeError(
            f"Cannot create '{kvstore}' KVStore with row_sparse parameters. The type must be KVStore or str."
        )
    store = base.create(kvstore) if isinstance(kvstore, str) else base.as_store(kvstore)
    if not store.is_capable("optimizer"):
        raise MXNetAssertionError(
            f"KVStore with sparse weight requires optimizer support. However, type({kvstore}) does not support "
            "optimizer. Please consider other kvstore backends (e.g. dist_device) instead."
        )
    return store, True


def _initialize_kvstore(
    kvstore: Any, param_arrays: Sequence[Sequence[Any]], arg_params: dict[str, Any], param_names: Sequence[str],
    update_on_kvstore: bool,
) -> None:  # fmt: skip
    """Give a store the parameters; where it updates the weights, give all devices the store's."""
    for name, on_devices in zip(param_names, param_arrays, strict=False):
        if not update_on_kvstore or arg_params[name].stype != "default":
            kvstore.init(name, arg_params[name])
        else:
            kvstore.broadcast(name, arg_params[name], out=on_devices)


def _update_params_on_kvstore(
    param_arrays: Sequence[Sequence[Any]], grad_arrays: Sequence[Sequence[Any]], kvstore: Any,
    param_names: Sequence[str],
) -> None:  # fmt: skip
    """Give a store the gradients, and the devices the weights that it updated."""
    for index, (weights, grads) in enumerate(zip(param_arrays, grad_arrays, strict=False)):
        if grads[0] is not None:
            _exchange(kvstore, param_names[index], grads, weights, weights[0].stype, -index)


_update_params_on_kvstore_nccl = _update_params_on_kvstore


def _update_params(
    param_arrays: Sequence[Sequence[Any]], grad_arrays: Sequence[Sequence[Any]], updater: Any, num_device: int,
    kvstore: Any = None, param_names: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Sum the gradients over the devices by a store, if there is one, and update each device's weights."""
    updates: list[list[tuple[int, Any, Any]]] = [[] for _ in range(num_device)]
    for index, (weights, grads) in enumerate(zip(param_arrays, grad_arrays, strict=False)):
        if grads[0] is None:
            continue
        if kvstore:
            assert param_names is not None
            _exchange(kvstore, param_names[index], grads, grads, weights[0].stype, -index)
        for place, (weight, grad) in enumerate(zip(weights, grads, strict=False)):
            updates[place].append((index * num_device + place, grad, weight))
    for each in updates:
        if each:
            updater(*zip(*each, strict=True))


def _exchange(kvstore: Any, name: str, grads: Any, out: Any, stype: str, priority: int) -> None:
    if grads[0].stype == "default" == stype:
        kvstore.pushpull(name, grads, out=out, priority=priority)
    else:
        kvstore.push(name, grads, priority=priority)
        kvstore.pull(name, out=out, priority=priority)


def _multiple_callbacks(callbacks: Any, *args: Any, **kwargs: Any) -> None:
    """Call a callback, each of a list of them, or none."""
    for callback in _as_list(callbacks) if callbacks else ():
        callback(*args, **kwargs)


# ---- batches into the arrays of executors --------------------------------------------------------------


def _load_general(data: Sequence[Any], targets: Sequence[Any], major_axis: Sequence[int]) -> None:
    """Copy arrays into arrays, or slices of them along the batch's axis into those of several devices."""
    for source, target, axis in zip(data, targets, major_axis, strict=False):
        if isinstance(target, NDArray):
            source.copyto(target)
        elif isinstance(source, (list, tuple)):
            for part, array in zip(source, target, strict=False):
                part.copyto(array)
        else:
            for where, array in target:
                part_of(source, where, axis).copyto(array)


def _load_data(batch: Any, targets: Sequence[Any], major_axis: Sequence[int]) -> None:
    """Copy a batch's data, or those of a list of batches, one for each device."""
    _load_part(batch, "data", targets, major_axis)


def _load_label(batch: Any, targets: Sequence[Any], major_axis: Sequence[int]) -> None:
    """Copy a batch's labels, or those of a list of batches, one for each device."""
    _load_part(batch, "label", targets, major_axis)


def _load_part(batch: Any, part: str, targets: Sequence[Any], major_axis: Sequence[int]) -> None:
    if isinstance(batch, list):
        arrays = [[getattr(each, part)[i] for each in batch] for i in range(len(targets))]
        _load_general(arrays, [[array for _, array in target] for target in targets], major_axis)
    else:
        _load_general(getattr(batch, part), targets, major_axis)
