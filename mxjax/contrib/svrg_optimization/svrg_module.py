"""A module whose gradients vary less: each is corrected by that of older weights and its mean over all data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from ... import nd
from ...core import flush_thread
from ...errors import MXNetNotImplementedError, MXNetTypeError, MXNetValueError
from ...module import Module

__all__ = ["SVRGModule"]


class SVRGModule(Module):
    """`Module` with stochastic variance-reduced gradients (Johnson and Zhang 2013).

    Every `update_freq` epochs the weights are kept, and their gradient averaged over all batches; a step uses

        gradient(weights) - gradient(kept weights) + average of gradient(kept weights)

    both gradients of the same batch. (MXNet adds each average to the one before it; here it begins with nothing.)

    Args:
      symbol ... compression_params: as in `Module`.
      update_freq: epochs between two averages.

    Raises:
      TypeError, ValueError: `update_freq` is no positive whole number.

    >>> import mxjax as mx
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc")
    >>> net = mx.sym.LinearRegressionOutput(net, name="lin")
    >>> SVRGModule(net, label_names=["lin_label"], update_freq=2).update_freq
    2
    """

    def __init__(
        self, symbol: Any, data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",), logger: Any = logging, context: Any = None,
        work_load_list: Sequence[float] | None = None, fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None, group2ctxs: Any = None,
        compression_params: dict[str, Any] | None = None, update_freq: int | None = None,
    ):  # fmt: skip
        if not isinstance(update_freq, int):
            raise MXNetTypeError(
                f"update_freq, epochs between two full gradients, must be an int, got {update_freq!r}"
            )
        if update_freq <= 0:
            raise MXNetValueError(
                f"update_freq, epochs between full gradients, must be positive, got {update_freq}"
            )
        options = (
            data_names, label_names, logger, context, work_load_list, fixed_param_names, state_names, group2ctxs,
            compression_params,
        )  # fmt: skip
        self.update_freq = update_freq
        self._mod_aux = Module(symbol, *options)
        #: For each parameter each device's average of the gradients.
        self._full_grads: dict[str, list[Any]] = {}
        super().__init__(symbol, *options)

    def _reset_bind(self) -> None:
        super()._reset_bind()
        self._mod_aux._reset_bind()

    def bind(
        self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True, inputs_need_grad: bool = False,
        force_rebind: bool = False, shared_module: Any = None, grad_req: Any = "write",
    ) -> None:  # fmt: skip
        super().bind(
            data_shapes,
            label_shapes,
            for_training,
            inputs_need_grad,
            force_rebind,
            shared_module,
            grad_req,
        )
        if for_training and not self._mod_aux.binded:
            self._mod_aux.bind(
                data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req
            )

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),), force_init: bool = False,
    ) -> None:  # fmt: skip
        super().init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        if self._kvstore is not None and "dist" in self._kvstore.type:
            raise MXNetNotImplementedError(
                "SVRGModule averages gradients over the devices of one process, not over many processes"
            )
        self._begin_full_grads()

    def _begin_full_grads(self) -> None:
        group = self._exec_group
        self._full_grads = {
            name: [
                nd.zeros(weight.shape, ctx=weight.context, dtype=weight.dtype) for weight in weights
            ]
            for name, weights in zip(group.param_names, group.param_arrays, strict=True)
        }

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        super().forward(data_batch, is_train)
        if is_train:
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        super().backward(out_grads)
        if self._mod_aux.binded:
            self._mod_aux.backward(out_grads)

    def update(self) -> None:
        """Correct the gradients, then update the parameters."""
        group, kept = self._exec_group, self._mod_aux._exec_group
        for name, grads, of_kept in zip(
            group.param_names, group.grad_arrays, kept.grad_arrays, strict=True
        ):
            for grad, other, full in zip(grads, of_kept, self._full_grads[name], strict=True):
                if grad is not None:
                    grad[:] = grad - other + full
        super().update()

    def update_full_grads(self, train_data: Any) -> None:
        """Keep the weights and average their gradient over all batches of an iterator."""
        self._mod_aux.set_params(*self.get_params())
        self._begin_full_grads()
        train_data.reset()
        group = self._mod_aux._exec_group
        batches, pad = 0, 0
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            for name, grads in zip(group.param_names, group.grad_arrays, strict=True):
                for full, grad in zip(self._full_grads[name], grads, strict=True):
                    if grad is not None:
                        full += grad
            flush_thread()
            batches += 1
            pad = batch.pad or 0
        count = batches - pad / train_data.batch_size
        for fulls in self._full_grads.values():
            # Each device corrects its part of the batch by its part of the sum, in equal shares.
            total = fulls[0].as_in_context(fulls[0].context)
            for other in fulls[1:]:
                total = total + other.as_in_context(total.context)
            mean = total / (count * len(fulls))
            for full in fulls:
                full[:] = mean.as_in_context(full.context)
        flush_thread()

    def _before_epoch(self, epoch: int, train_data: Any) -> None:
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
        train_data.reset()

    def prepare(
        self, data_batch: Any, sparse_row_id_fn: Callable[[Any], Any] | None = None
    ) -> None:
        super().prepare(data_batch, sparse_row_id_fn)
        if self._mod_aux.binded:
            self._mod_aux.prepare(data_batch, sparse_row_id_fn)
