"""A symbol bound on several devices, each with a slice of the batch."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import nd
from ..array import NDArray
from ..device import Device, cpu
from ..errors import MXNetAssertionError, MXNetKeyError, MXNetValueError
from ..io import DataDesc
from .base_module import as_descs, require

__all__ = ["DataParallelExecutorGroup"]

#: Executors of other shapes than the first that are kept, so that a batch of a shape that was seen compiles nothing.
SHAPES_KEPT = 16


def split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """The batch's slices for devices that take these shares of it.

    Raises:
      ValueError: a slice would be empty.

    >>> split_input_slice(10, [1, 1, 2])
    [slice(0, 2, None), slice(2, 5, None), slice(5, 10, None)]
    """
    total = sum(work_load_list)
    sizes = [round(batch_size * share / total) for share in work_load_list]
    sizes[-1] += batch_size - sum(sizes)
    ends = np.minimum(np.cumsum(sizes), batch_size).tolist()
    slices = [slice(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    if any(each.start >= each.stop for each in slices):
        raise MXNetValueError(
            f"Too many slices. Some splits are empty: {batch_size} samples for {len(slices)} devices"
        )
    return slices


def part_of(array: Any, where: slice, axis: int) -> Any:
    """A slice along the batch's axis; the array itself where it is all of it, or has no such axis."""
    if axis < 0 or (where.start == 0 and where.stop == array.shape[axis]):
        return array
    if axis == 0:
        return array[where]
    return nd.slice_axis(array, axis=axis, begin=where.start, end=where.stop)


def merge(outputs: Sequence[Sequence[Any]], axes: Sequence[int]) -> list[Any]:
    """Results of several devices joined along the batch's axis, on the first one."""
    joined = []
    for tensors, axis in zip(outputs, axes, strict=True):
        if axis < 0 or len(tensors) == 1:
            joined.append(tensors[0])
        else:
            here = tensors[0].context
            joined.append(
                nd.concatenate([tensor.as_in_context(here) for tensor in tensors], axis=axis)
            )
    return joined


def _groups_of(group2ctxs: Any, count: int) -> list[Any]:
    """For each device where the groups of operators are to run."""
    if group2ctxs is None:
        return [None] * count
    if isinstance(group2ctxs, list):
        require(
            len(group2ctxs) == count, f"group2ctxs must have an entry for each of {count} devices"
        )
        return group2ctxs
    if not isinstance(group2ctxs, Mapping):
        raise MXNetAssertionError(
            "group2ctxs must be a dictionary from groups to devices, or a list of them for each device, got "
            f"{type(group2ctxs).__name__}"
        )
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for group, devices in group2ctxs.items():
        each = [devices] if isinstance(devices, Device) else list(devices)
        each = each * count if len(each) == 1 else each
        require(len(each) == count, f"group2ctxs[{group!r}] must have one device, or {count}")
        for place, device in zip(found, each, strict=True):
            place[group] = device
    return found


def _labels(batch: Any) -> Any:
    """A batch's labels; what is only predicted from may have no such attribute."""
    return getattr(batch, "label", None) or ()


class DataParallelExecutorGroup:
    """Executors of one symbol, one on each device.

    Args:
      symbol: the network.
      contexts: the devices.
      workload: what share of the batch each takes.
      data_shapes, label_shapes: descriptions of the whole batch.
      param_names: which arguments are parameters.
      for_training, inputs_need_grad, grad_req: which gradients there are.
      shared_group: a group whose parameters are used.
      fixed_param_names: parameters without gradients.
      state_names: arguments that `set_states` sets.
      group2ctxs: devices of groups of operators (accepted; a program runs on one device).
    """

    def __init__(
        self, symbol: Any, contexts: Sequence[Any], workload: Sequence[float], data_shapes: Any, label_shapes: Any,
        param_names: Sequence[str], for_training: bool, inputs_need_grad: bool, shared_group: Any = None,
        logger: Any = logging, fixed_param_names: Sequence[str] | None = None, grad_req: Any = "write",
        state_names: Sequence[str] | None = None, group2ctxs: Any = None,
    ):  # fmt: skip
        self.symbol = symbol
        self.arg_names: list[str] = symbol.list_arguments()
        self.aux_names: list[str] = symbol.list_auxiliary_states()
        self.param_names = [name for name in self.arg_names if name in set(param_names)]
        self.contexts = list(contexts)
        self.workload = workload
        self.group2ctxs = _groups_of(group2ctxs, len(self.contexts))
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self.logger = logger
        self.fixed_param_names = list(fixed_param_names or ())
        self.state_names = list(state_names or ())
        self.output_names: list[str] = symbol.list_outputs()
        self.num_outputs = len(self.output_names)
        attributes = symbol.attr_dict()
        layouts = [attributes.get(name, {}).get("__layout__") for name in self._output_nodes()]
        self.output_layouts = [DataDesc.get_batch_axis(layout) for layout in layouts]
        data_shapes = as_descs(data_shapes)
        label_shapes = None if label_shapes is None else as_descs(label_shapes)
        self.grad_req = self._requests(
            grad_req if for_training else "null", [desc.name for desc in data_shapes]
        )
        self.batch_size: int = 0
        self.slices: list[slice] = []
        self.execs: list[Any] = []
        self._shapes: dict[Any, list[Any]] = {}
        self.bind_exec(data_shapes, label_shapes, shared_group)

    def _output_nodes(self) -> list[Any]:
        return [self.symbol[place].name for place in range(self.num_outputs)]

    def _requests(self, grad_req: Any, data_names: Sequence[str]) -> dict[str, str]:
        """What becomes of each argument's gradient."""
        if isinstance(grad_req, list | tuple):
            require(
                len(grad_req) == len(self.arg_names),
                f"grad_req must have {len(self.arg_names)} entries",
            )
            return dict(zip(self.arg_names, grad_req, strict=True))
        if not isinstance(grad_req, str | dict):
            raise MXNetValueError(
                f"grad_req must be one of str, list, tuple, or dict, got {type(grad_req).__name__}"
            )
        usual = grad_req if isinstance(grad_req, str) else "write"
        found = dict.fromkeys(self.arg_names, "null")
        for name in self.arg_names:
            if name in self.param_names:
                found[name] = "null" if name in self.fixed_param_names else usual
            elif name in data_names and self.inputs_need_grad:
                found[name] = usual
        return found if isinstance(grad_req, str) else {**found, **grad_req}

    # -- arrays ------------------------------------------------------------------------------------

    def decide_slices(self, data_shapes: Sequence[Any]) -> list[int]:
        """Cut the batch into slices for the devices; the batch's axis of each input.

        Raises:
          AssertionError: inputs have batches of different sizes.
        """
        require(data_shapes, "there must be at least one input")
        axes = [DataDesc.get_batch_axis(desc.layout) for desc in data_shapes]
        for (name, shape), axis in zip(data_shapes, axes, strict=True):
            if axis == -1:
                continue
            if not self.batch_size:
                self.batch_size = shape[axis]
                self.slices = split_input_slice(self.batch_size, self.workload)
            elif shape[axis] != self.batch_size:
                raise MXNetAssertionError(
                    f"all data must have the same batch size: batch_size = {self.batch_size}, but {name} has shape "
                    f"{shape}"
                )
        return axes

    def bind_exec(
        self, data_shapes: Any, label_shapes: Any, shared_group: Any = None, reshape: bool = False
    ) -> None:
        """Make the executors for these shapes; with `reshape` out of those that are there."""
        self.batch_size = 0
        self.data_layouts = self.decide_slices(data_shapes)
        self.label_layouts = self.decide_slices(label_shapes) if label_shapes else []
        key = tuple(
            (desc.name, tuple(desc.shape)) for desc in [*data_shapes, *(label_shapes or ())]
        )
        if reshape and key in self._shapes:
            self.execs = self._shapes[key]
        else:
            self.execs = [
                self._bind(place, data_shapes, label_shapes or [], shared_group, reshape)
                for place in range(len(self.contexts))
            ]
            if (
                len(self._shapes) > SHAPES_KEPT
            ):  # the oldest but the first, which the others are made from
                del self._shapes[list(self._shapes)[1]]
            self._shapes[key] = self.execs
        self.data_shapes = data_shapes
        self.label_shapes = label_shapes
        self.data_names = [desc.name for desc in data_shapes]
        self.label_names = [desc.name for desc in label_shapes or ()]
        self._collect_arrays()

    def _sliced(self, shapes: Sequence[Any], place: int, axes: Sequence[int]) -> list[DataDesc]:
        found = []
        for desc, axis in zip(shapes, axes, strict=True):
            shape = list(desc.shape)
            if axis >= 0:
                shape[axis] = self.slices[place].stop - self.slices[place].start
            found.append(DataDesc(desc.name, tuple(shape), desc.dtype, desc.layout))
        return found

    def _bind(
        self, place: int, data_shapes: Any, label_shapes: Any, shared_group: Any, reshape: bool
    ) -> Any:
        descs = [
            *self._sliced(data_shapes, place, self.data_layouts),
            *self._sliced(label_shapes, place, self.label_layouts),
        ]
        known = set(self.symbol.list_inputs())
        shapes = {desc.name: desc.shape for desc in descs if desc.name in known}
        if reshape:
            first = next(iter(self._shapes.values()))
            return first[place].reshape(allow_up_sizing=True, **shapes)
        attributes = self.symbol.attr_dict()
        dtypes = {
            desc.name: desc.dtype for desc in descs
            if desc.name in known and attributes.get(desc.name, {}).get("__dtype__", "-1") == "-1"
        }  # fmt: skip
        return self.symbol.simple_bind(
            ctx=self.contexts[place], grad_req=self.grad_req, type_dict=dtypes, group2ctx=self.group2ctxs[place],
            shared_exec=None if shared_group is None else shared_group.execs[place],
            shared_arg_names=self.param_names, shared_buffer={}, **shapes,
        )  # fmt: skip

    def _of_all(self, name: str, kind: str = "arg_dict") -> list[Any]:
        return [getattr(each, kind)[name] for each in self.execs]

    def _collect_arrays(self) -> None:
        self.data_arrays = [self._targets(name) for name in self.data_names]
        self.label_arrays = [self._targets(name) for name in self.label_names]
        self.state_arrays = [self._of_all(name) for name in self.state_names]
        self.param_arrays = [self._of_all(name) for name in self.param_names]
        self.aux_arrays = [self._of_all(name, "aux_dict") for name in self.aux_names]
        #: One list for each parameter, of each device's gradient; None where there is none.
        self.grad_arrays: list[list[Any]] = []
        self.input_grad_arrays: list[list[Any]] = []
        if self.for_training:
            self.grad_arrays = [self._of_all(name, "grad_dict") for name in self.param_names]
        if self.inputs_need_grad:
            self.input_grad_arrays = [
                self._of_all(name, "grad_dict")
                for name in self.data_names
                if name in self.arg_names
            ]

    def _targets(self, name: str) -> list[tuple[slice, Any]] | None:
        """Where each device's slice of an input goes; None for data that the symbol does not have."""
        if name not in self.arg_names:
            if name in self.label_names:
                raise MXNetKeyError(
                    f"{name!r}: label_shapes names a label that the symbol does not have; its inputs are "
                    f"{', '.join(self.arg_names)}. Name the label as the symbol does, or bind without label_shapes"
                )
            return None
        return list(zip(self.slices, self._of_all(name), strict=True))

    def reshape(self, data_shapes: Any, label_shapes: Any) -> None:
        """Take batches of other shapes from now on; executors of shapes that were there are used again."""
        if data_shapes != self.data_shapes or label_shapes != self.label_shapes:
            self.bind_exec(data_shapes, label_shapes, reshape=True)

    # -- parameters --------------------------------------------------------------------------------

    def set_params(self, arg_params: Any, aux_params: Any, allow_extra: bool = False) -> None:
        """Copy parameters and auxiliary states to all devices."""
        for each in self.execs:
            each.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params: dict[str, Any], aux_params: dict[str, Any]) -> None:
        """Copy parameters and auxiliary states, the mean over the devices, into these arrays."""
        for names, arrays, out in (
            (self.param_names, self.param_arrays, arg_params), (self.aux_names, self.aux_arrays, aux_params),
        ):  # fmt: skip
            for name, block in zip(names, arrays, strict=True):
                mean = block[0].copyto(cpu())
                if len(block) > 1:
                    for other in block[1:]:
                        mean = mean + other.as_in_context(cpu())
                    mean = mean / len(block)
                mean.astype(out[name].dtype, copy=False).copyto(out[name])

    # -- computations ------------------------------------------------------------------------------

    def _load(self, sources: Sequence[Any], targets: Sequence[Any], axes: Sequence[int]) -> None:
        for source, on_devices, axis in zip(sources, targets, axes, strict=False):
            if on_devices is None:
                continue
            for place, (where, target) in enumerate(on_devices):
                part = (
                    source[place]
                    if isinstance(source, list | tuple)
                    else part_of(source, where, axis)
                )
                if not isinstance(part, NDArray):
                    part = nd.array(part, dtype=target.dtype)
                part.copyto(target)

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Copy a batch, or a batch for each device, to the devices and compute the outputs."""
        if isinstance(data_batch, list):
            data: list[Any] = [
                list(parts) for parts in zip(*[b.data for b in data_batch], strict=True)
            ]
            label: Any = [
                list(parts) for parts in zip(*[_labels(b) for b in data_batch], strict=True)
            ]
        else:
            data, label = data_batch.data, _labels(data_batch)
        self._load(data, self.data_arrays, self.data_layouts)
        if label:
            self._load(label, self.label_arrays, self.label_layouts)
        for each in self.execs:
            each.forward(is_train=self.for_training if is_train is None else is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute gradients from those of the outputs, for the whole batch, which losses do without."""
        require(self.for_training, "re-bind with for_training=True to run backward")
        given = [out_grads] if isinstance(out_grads, NDArray) else out_grads
        for place, each in enumerate(self.execs):
            if given is None:
                each.backward()
                continue
            heads = [
                part_of(grad, self.slices[place], axis).as_in_context(self.contexts[place])
                for grad, axis in zip(given, self.output_layouts, strict=False)
            ]
            each.backward(out_grads=heads)

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs for the whole batch."""
        first = self.execs[0]
        names = set(self.data_names) | set(self.label_names) | set(self.state_names)
        shapes = {name: array.shape for name, array in first.arg_dict.items() if name in names}
        found = []
        for name, shape, axis in zip(
            self.output_names,
            self.symbol.infer_shape(**shapes)[1],
            self.output_layouts,
            strict=True,
        ):
            lengths = list(shape)
            if axis >= 0 and lengths:
                lengths[axis] = self.batch_size
            found.append((name, tuple(lengths)))
        return found

    def get_outputs(
        self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None
    ) -> list[Any]:
        """The outputs `begin` to `end`; joined, or a list of each device's."""
        end = self.num_outputs if end is None else end
        outputs = [[each.outputs[place] for each in self.execs] for place in range(begin, end)]
        return merge(outputs, self.output_layouts[begin:end]) if merge_multi_context else outputs

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients of the data; joined, or a list of each device's."""
        require(self.inputs_need_grad, "bind with inputs_need_grad=True")
        return (
            merge(self.input_grad_arrays, self.data_layouts)
            if merge_multi_context
            else self.input_grad_arrays
        )

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """The states, for each a list of each device's."""
        require(not merge_multi_context, "merge_multi_context=True is not supported for get_states")
        return self.state_arrays

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states: from lists of each device's arrays, or all to a number."""
        require(
            (states is None) != (value is None),
            "Exactly one of states and value must be specified.",
        )
        for place, on_devices in enumerate(self.state_arrays):
            for device, target in enumerate(on_devices):
                if states is None:
                    target[:] = value
                    continue
                given = states[place]
                if isinstance(given, list | tuple):
                    given[device].copyto(target)
                else:
                    part_of(given, self.slices[device], 0).copyto(target)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in labels and outputs, device by device."""
        for place, (each, where) in enumerate(zip(self.execs, self.slices, strict=True)):
            if pre_sliced:
                mine = labels[place]
            else:
                mine = [
                    part_of(label, where, axis)
                    for label, axis in zip(labels, self.label_layouts, strict=False)
                ]
            named = OrderedDict(zip(self.label_names, mine, strict=False))
            outputs = OrderedDict(zip(self.output_names, each.outputs, strict=True))
            eval_metric.update_dict(named, outputs)

    def install_monitor(self, mon: Any) -> None:
        """Let a monitor look at all executors."""
        for each in self.execs:
            mon.install(each)
