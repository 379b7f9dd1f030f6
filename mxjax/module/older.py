"""Steps of MXNet's own training loops that its users' loops import though they are private."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import nd
from ..array import NDArray
from ..base import _as_list
from ..errors import MXNetAssertionError, MXNetTypeError
from ..kvstore import base
from ..optimizer import get_updater
from . import steps
from .executor_group import part_of
from .steps import by_device

__all__: list[str] = []


def _create_kvstore(kvstore: Any, num_device: int, arg_params: dict[str, Any]) -> tuple[Any, bool]:
    """The store that sums gradients, or None, and whether it updates the weights: where there is one it does, unless a
    setting, or a big parameter, says otherwise.

    Raises:
      TypeError: neither a store nor the name of one, nor None.
    """
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
        for own in by_device(each):
            updater(*zip(*own, strict=True))


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


# ---- MXNet's first training loop -----------------------------------------------------------------------


def _monitor_callback_wrapper(callback: Any) -> Any:
    """A function of a name, an array and a third argument, which it leaves out."""
    return lambda name, array, _: callback(name, array)


def _bind_exec(
    sym: Any, ctx: Any, input_shapes: dict[str, Any], param_names: Sequence[str], need_grad: Any = False,
    base_exec: Any = None, shared_data_arrays: dict[str, Any] | None = None, input_types: dict[str, Any] | None = None,
    logger: Any = None,
) -> Any:  # fmt: skip
    """A symbol bound for inputs of these shapes; with the parameters, gradients and states of `base_exec` if given.

    Args:
      need_grad: whether all arguments but the inputs have gradients, or the set of those that have.
      shared_data_arrays: arrays of the other arguments by name; those that it does not have are put there.

    Raises:
      AssertionError: `need_grad` is neither.
    """
    names = sym.list_arguments()
    shapes, _, state_shapes = sym.infer_shape(**input_shapes)
    types, _, state_types = sym.infer_type(
        **(input_types or dict.fromkeys(input_shapes, np.float32))
    )
    if isinstance(need_grad, bool):
        need_grad = set(names) - set(input_shapes) if need_grad else set()
    elif not isinstance(need_grad, set):
        raise MXNetAssertionError("need_grad must be boolean or set.")
    arguments, grads = {}, {}
    shared = {} if shared_data_arrays is None else shared_data_arrays
    for name, shape, dtype in zip(names, shapes, types, strict=True):
        if name in param_names and base_exec is not None:
            arguments[name] = base_exec.arg_dict[name]
        elif name in param_names:
            arguments[name] = nd.zeros(shape, ctx=ctx, dtype=dtype)
        else:
            kept = shared.get(name)
            if kept is None or kept.shape != tuple(shape):
                kept = shared[name] = nd.zeros(shape, ctx=ctx, dtype=dtype)
            arguments[name] = kept
        if name in need_grad and name in param_names:
            known = None if base_exec is None else base_exec.grad_dict[name]
            grads[name] = nd.zeros(shape, ctx=ctx, dtype=dtype) if known is None else known
    states = [nd.zeros(s, ctx=ctx, dtype=t) for s, t in zip(state_shapes, state_types, strict=True)]
    return sym.bind(
        ctx=ctx, args=arguments, args_grad=grads or None,
        grad_req={name: "write" if name in grads else "null" for name in names},
        aux_states=states if base_exec is None else base_exec.aux_arrays,
    )  # fmt: skip


def _train_multi_device(
    symbol: Any, ctx: Sequence[Any], arg_names: Sequence[str], param_names: Sequence[str], aux_names: Sequence[str],
    arg_params: dict[str, Any], aux_params: dict[str, Any], begin_epoch: int, end_epoch: int, epoch_size: int | None,
    optimizer: Any, kvstore: Any, update_on_kvstore: bool, train_data: Any, eval_data: Any = None,
    eval_metric: Any = None, epoch_end_callback: Any = None, batch_end_callback: Any = None, logger: Any = None,
    work_load_list: Any = None, monitor: Any = None, eval_end_callback: Any = None, eval_batch_end_callback: Any = None,
    sym_gen: Any = None,
) -> None:  # fmt: skip
    """Train a symbol on devices; the parameters end up in `arg_params` and `aux_params`, as `FeedForward.fit` does."""
    from ..executor_manager import DataParallelExecutorManager
    from ..model import BatchEndParam

    logger = logger or logging
    manager = DataParallelExecutorManager(
        symbol=symbol, sym_gen=sym_gen, ctx=ctx, train_data=train_data, param_names=param_names, arg_names=arg_names,
        aux_names=aux_names, work_load_list=work_load_list, logger=logger,
    )  # fmt: skip
    if monitor:
        manager.install_monitor(monitor)
    manager.set_params(arg_params, aux_params)
    updater = None
    if update_on_kvstore:
        kvstore.set_optimizer(optimizer)
    else:
        updater = get_updater(optimizer)
    if kvstore:
        _initialize_kvstore(
            kvstore,
            manager.param_arrays,
            arg_params,
            manager.execgrp.param_names,
            update_on_kvstore,
        )

    def told(callback: Any, epoch: int, batch: int, where: dict[str, Any]) -> None:
        _multiple_callbacks(
            callback,
            BatchEndParam(epoch=epoch, nbatch=batch, eval_metric=eval_metric, locals=where),
        )

    train_data.reset()
    for epoch in range(begin_epoch, end_epoch):
        began = time.time()
        eval_metric.reset()
        done = 0
        while epoch_size is None or done < epoch_size:
            for batch in train_data:
                manager.load_data_batch(batch)
                if monitor is not None:
                    monitor.tic()
                manager.forward(is_train=True)
                manager.backward()
                names = manager.curr_execgrp.param_names
                if update_on_kvstore:
                    _update_params_on_kvstore(
                        manager.param_arrays, manager.grad_arrays, kvstore, names
                    )
                else:
                    _update_params(
                        manager.param_arrays, manager.grad_arrays, updater, len(ctx), kvstore, names
                    )
                if monitor is not None:
                    monitor.toc_print()
                manager.update_metric(eval_metric, batch.label)
                done += 1
                told(batch_end_callback, epoch, done, locals())
                if epoch_size is not None and done >= epoch_size:
                    break
            else:
                logger.info("Epoch[%d] Resetting Data Iterator", epoch)
                train_data.reset()
            if epoch_size is None:
                break
        logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - began)
        if epoch_end_callback or epoch + 1 == end_epoch:
            manager.copy_to(arg_params, aux_params)
        _multiple_callbacks(epoch_end_callback, epoch, symbol, arg_params, aux_params)
        if eval_data:
            eval_metric.reset()
            eval_data.reset()
            count = 0
            for count, batch in enumerate(eval_data, 1):
                manager.load_data_batch(batch)
                manager.forward(is_train=False)
                manager.update_metric(eval_metric, batch.label)
                told(eval_batch_end_callback, epoch, count - 1, locals())
            told(eval_end_callback, epoch, count, locals())
            eval_data.reset()
