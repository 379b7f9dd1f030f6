"""Executors on several devices as training loops of MXNet's first versions have them; `mx.mod` has its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from .array import NDArray
from .device import cpu
from .errors import MXNetAssertionError, MXNetNotImplementedError
from .io import DataDesc
from .module.executor_group import split_input_slice as _split_input_slice
from .module.feedforward import check_arguments as _check_arguments

__all__ = ["DataParallelExecutorGroup", "DataParallelExecutorManager"]


def _load_general(arrays: Sequence[Any], targets: Sequence[Sequence[tuple[slice, Any]]]) -> None:
    """Copy slices of arrays to the devices."""
    for array, on_devices in zip(arrays, targets, strict=False):
        if isinstance(on_devices, NDArray):
            array.copyto(on_devices)
            continue
        if on_devices[-1][0].stop != array.shape[0]:
            raise MXNetAssertionError(
                f"Batch size miss match. Expected {on_devices[-1][0].stop}, got {array.shape[0]}"
            )
        for where, target in on_devices:
            array[where].copyto(target)


def _load_data(batch: Any, targets: Sequence[Sequence[tuple[slice, Any]]]) -> None:
    """Copy slices of a batch's data to the devices."""
    _load_general(batch.data, targets)


def _load_label(batch: Any, targets: Sequence[Sequence[tuple[slice, Any]]]) -> None:
    """Copy slices of a batch's labels to the devices."""
    _load_general(batch.label, targets)


class DataParallelExecutorGroup:
    """Executors of one symbol, one on each device.

    Args:
      sym: the network.
      arg_names, param_names: its arguments, and which of these are parameters.
      ctx: the devices.
      slices: the slice of the batch that each takes.
      train_data: what has `provide_data` and `provide_label`: an iterator, or a batch.
      shared_group: a group whose parameters are used.
    """

    def __init__(
        self, sym: Any, arg_names: Sequence[str], param_names: Sequence[str], ctx: Sequence[Any],
        slices: Sequence[slice], train_data: Any, shared_group: DataParallelExecutorGroup | None = None,
    ):  # fmt: skip
        _check_arguments(sym)
        descs = [
            desc if isinstance(desc, DataDesc) else DataDesc(*desc)
            for desc in (*train_data.provide_data, *train_data.provide_label)
        ]
        self.data_names = [desc[0] for desc in train_data.provide_data]
        self.label_names = [desc[0] for desc in train_data.provide_label]
        self.aux_names = sym.list_auxiliary_states()
        self.param_names = [name for name in arg_names if name in param_names]
        self.param_idx = [place for place, name in enumerate(arg_names) if name in param_names]
        self.slices = slices
        requests = {
            name: "null" if name in {desc.name for desc in descs} else "write" for name in arg_names
        }
        self.train_execs: list[Any] = [
            sym.simple_bind(
                ctx=device,
                grad_req=requests,
                type_dict={desc.name: desc.dtype for desc in descs},
                shared_exec=None if shared_group is None else shared_group.train_execs[place],
                shared_arg_names=self.param_names,
                shared_buffer={},
                **{
                    desc.name: (slices[place].stop - slices[place].start, *desc.shape[1:])
                    for desc in descs
                },
            )  # fmt: skip
            for place, device in enumerate(ctx)
        ]
        self.data_arrays = [self._targets(name) for name in self.data_names]
        self.label_arrays = [self._targets(name) for name in self.label_names]
        self.param_arrays = [
            [each.arg_dict[name] for each in self.train_execs] for name in self.param_names
        ]
        self.grad_arrays = [
            [each.grad_dict[name] for each in self.train_execs] for name in self.param_names
        ]
        self.aux_arrays = [
            [each.aux_dict[name] for each in self.train_execs] for name in self.aux_names
        ]

    def _targets(self, name: str) -> list[tuple[slice, Any]]:
        return [
            (where, each.arg_dict[name])
            for where, each in zip(self.slices, self.train_execs, strict=True)
        ]

    def load_data_batch(self, data_batch: Any) -> None:
        """Copy a batch to the devices."""
        _load_data(data_batch, self.data_arrays)
        _load_label(data_batch, self.label_arrays)

    def forward(self, is_train: bool = False) -> None:
        """Compute the outputs."""
        for each in self.train_execs:
            each.forward(is_train=is_train)

    def backward(self) -> None:
        """Compute the gradients."""
        for each in self.train_execs:
            each.backward()

    def update_metric(self, metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in labels and outputs, device by device."""
        for place, (each, where) in enumerate(zip(self.train_execs, self.slices, strict=True)):
            metric.update(
                labels[place] if pre_sliced else [label[where] for label in labels], each.outputs
            )


class DataParallelExecutorManager:
    """A group for each bucket of an iterator, or one for all of it.

    Args:
      symbol: the network, of the default bucket.
      ctx: the devices.
      train_data: the iterator.
      arg_names, param_names, aux_names: the symbol's arguments, parameters and auxiliary states.
      work_load_list: what share of the batch each device takes.
      logger: where it reports.
      sym_gen: a function from a bucket's key to its symbol.
    """

    def __init__(
        self, symbol: Any, ctx: Sequence[Any], train_data: Any, arg_names: Sequence[str],
        param_names: Sequence[str], aux_names: Sequence[str], work_load_list: Sequence[float] | None = None,
        logger: Any = None, sym_gen: Callable[[Any], Any] | None = None,
    ):  # fmt: skip
        (logger or logging).info("Start training with %s", str(ctx))
        shares = [1] * len(ctx) if work_load_list is None else list(work_load_list)
        if len(shares) != len(ctx):
            raise MXNetAssertionError(
                f"Invalid settings for work load: {len(shares)} shares for {len(ctx)} devices"
            )
        self.slices = _split_input_slice(train_data.batch_size, shares)
        self.arg_names, self.param_names, self.aux_names = arg_names, param_names, aux_names
        self.ctx = ctx
        self.symbol = symbol
        self.sym_gen = sym_gen
        self.execgrp = self._group(symbol, train_data, None)
        self.curr_execgrp: Any = None
        if sym_gen is not None:
            self.execgrp_bucket = {train_data.default_bucket_key: self.execgrp}

    def _group(self, symbol: Any, data: Any, shared: Any) -> DataParallelExecutorGroup:
        return DataParallelExecutorGroup(
            symbol,
            self.arg_names,
            self.param_names,
            self.ctx,
            self.slices,
            data,
            shared_group=shared,
        )

    def install_monitor(self, monitor: Any) -> None:
        """Let a monitor look at the executors.

        Raises:
          NotImplementedError: there are buckets.
        """
        if self.sym_gen is not None:
            raise MXNetNotImplementedError("Monitoring is not implemented for bucketing")
        for each in self.execgrp.train_execs:
            monitor.install(each)

    def set_params(self, arg_params: dict[str, Any], aux_params: dict[str, Any]) -> None:
        """Copy parameters and auxiliary states to all devices."""
        for each in self.execgrp.train_execs:
            each.copy_params_from(arg_params, aux_params)

    def copy_to(self, arg_params: dict[str, Any], aux_params: dict[str, Any]) -> None:
        """Copy parameters and auxiliary states, the mean over the devices, into these arrays."""
        for names, arrays, out in (
            (self.execgrp.param_names, self.param_arrays, arg_params), (self.aux_names, self.aux_arrays, aux_params),
        ):  # fmt: skip
            for name, block in zip(names, arrays, strict=True):
                mean = sum(weight.copyto(cpu()) for weight in block) / len(block)
                mean.astype(out[name].dtype).copyto(out[name])

    @property
    def param_arrays(self) -> list[list[Any]]:
        """For each parameter each device's array."""
        return self.execgrp.param_arrays

    @property
    def grad_arrays(self) -> list[list[Any]]:
        """For each parameter each device's gradient, of the last batch's bucket."""
        return (self.curr_execgrp or self.execgrp).grad_arrays  # type: ignore[no-any-return]

    @property
    def aux_arrays(self) -> list[list[Any]]:
        """For each auxiliary state each device's array."""
        return self.execgrp.aux_arrays

    def load_data_batch(self, data_batch: Any) -> None:
        """Copy a batch to the devices; its bucket is bound if it is new."""
        self.curr_execgrp = self.execgrp
        if self.sym_gen is not None:
            key = data_batch.bucket_key
            if key not in self.execgrp_bucket:
                self.execgrp_bucket[key] = self._group(self.sym_gen(key), data_batch, self.execgrp)
            self.curr_execgrp = self.execgrp_bucket[key]
        self.curr_execgrp.load_data_batch(data_batch)

    def forward(self, is_train: bool = False) -> None:
        """Compute the outputs of the batch."""
        self.curr_execgrp.forward(is_train=is_train)

    def backward(self) -> None:
        """Compute the gradients of the batch, into the arrays of its bucket."""
        self.curr_execgrp.backward()

    def update_metric(self, metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in labels and outputs."""
        self.curr_execgrp.update_metric(metric, labels, pre_sliced)
