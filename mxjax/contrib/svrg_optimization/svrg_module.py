"""A module whose gradients vary less: each is corrected by that of older weights and its mean over all data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from ... import nd
from ...core import flush_thread
from ...errors import MXNetNotImplementedError, MXNetTypeError, MXNetValueError
from ...module import Module
from ...module.module import no_decay_of_biases
from .svrg_optimizer import _SVRGOptimizer

#: Behind a parameter's name, the key of its average in a store.
FULL = "_full"

__all__ = ["SVRGModule"]


class SVRGModule(Module):
    """`Module` with stochastic variance-reduced gradients (Johnson and Zhang 2013).

    Every `update_freq` epochs the weights are kept, and their gradient averaged over all batches; a step uses

        gradient(weights) - gradient(kept weights) + average of gradient(kept weights)

    both gradients of the same batch. As in MXNet an average begins with the one before it, as if that were one batch
    more. (With a store MXNet also sets the devices' weights to zero until the first update; here they stay.)

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
        #: Each device's average of the gradients, by parameters' names.
        self._param_dict: list[dict[str, Any]] = []
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
        weights = self.get_params()[0]
        self._param_dict = [
            {name: nd.zeros(w.shape, ctx=ctx, dtype=w.dtype) for name, w in weights.items()}
            for ctx in self._context
        ]
        super().init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        if self._kvstore is None:
            return
        if "dist" in self._kvstore.type:
            raise MXNetNotImplementedError(
                "SVRGModule averages gradients over the devices of one process, not over many processes"
            )
        for name, average in self._param_dict[0].items():
            self._kvstore.init(name + FULL, average)

    def _make_optimizer(
        self, optimizer: Any, arguments: dict[str, Any], rescale_grad: float, names: dict[int, str]
    ) -> Any:
        """The one that is asked for, within one that puts averages in their places in a store."""
        averages = (name + FULL for name in self._param_dict[0])
        names = {**names, **dict(enumerate(averages, 1 + max(names, default=-1)))}
        arguments.setdefault("rescale_grad", rescale_grad)
        both = _SVRGOptimizer(optimizer, param_idx2name=names, **arguments)
        if isinstance(optimizer, str):
            no_decay_of_biases(both.default_opt, self._exec_group.param_names)
        return both

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
        self._update_svrg_gradients()
        super().update()

    def _update_svrg_gradients(self) -> None:
        group, kept = self._exec_group, self._mod_aux._exec_group
        for name, grads, of_kept in zip(
            group.param_names, group.grad_arrays, kept.grad_arrays, strict=True
        ):
            for grad, other, averages in zip(grads, of_kept, self._param_dict, strict=True):
                if grad is not None:
                    self._svrg_grads_update_rule(grad, other, averages[name])

    def _svrg_grads_update_rule(self, grad: Any, of_kept: Any, average: Any) -> Any:
        """A batch's gradient, corrected in place."""
        grad[:] = grad - of_kept + average
        return grad

    def update_full_grads(self, train_data: Any) -> None:
        """Keep the weights and average their gradient over all batches of an iterator."""
        self._mod_aux.set_params(*self.get_params())
        train_data.reset()
        group = self._mod_aux._exec_group
        batches, pad = 0, 0
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            for name, grads in zip(group.param_names, group.grad_arrays, strict=True):
                for averages, grad in zip(self._param_dict, grads, strict=True):
                    if grad is not None:
                        averages[name] += grad
            flush_thread()
            batches += 1
            pad = batch.pad or 0
        count = batches - pad / train_data.batch_size
        for name in group.param_names:
            for averages in self._param_dict:
                averages[name] /= count
            if self._kvstore is not None:
                self._accumulate_kvstore(name, [averages[name] for averages in self._param_dict])
        flush_thread()

    def _accumulate_kvstore(self, key: str, value: list[Any]) -> None:
        """Sum the devices' averages of one parameter in the store; each gets its share."""
        self._kvstore.push(key + FULL, value)
        self._kvstore.pull(key + FULL, value)
        self._allocate_gradients(key, value)

    def _allocate_gradients(self, key: str, value: list[Any]) -> None:
        for averages, summed in zip(self._param_dict, value, strict=False):
            averages[key] = summed / len(self._context)

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
