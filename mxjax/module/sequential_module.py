"""Modules one after another: the outputs of each are the data of the next."""

from __future__ import annotations

import copy
import logging
from typing import Any

from ..errors import MXNetAssertionError
from .base_module import UNIFORM, BaseModule, Params, require

__all__ = ["SequentialModule"]


class SequentialModule(BaseModule):
    """A chain of modules, which `add` makes longer.

    Args:
      logger: the logger that is written to; the root logger without.
    """

    #: Whether a module gets the labels.
    META_TAKE_LABELS = "take_labels"
    #: Whether a module's data are named as it wants them, whatever the outputs before it are called.
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: Any = logging):
        super().__init__(logger=logger)
        self._modules: list[Any] = []
        self._metas: list[dict[str, Any]] = []
        self._label_shapes: Any = None

    def add(self, module: Any, **kwargs: Any) -> SequentialModule:
        """Add a module at the end; gives the chain, so that calls can be chained.

        Args:
          take_labels: the module gets the labels.
          auto_wiring: its data are taken by position, not by name.

        Raises:
          AssertionError: another argument.
        """
        known = (self.META_TAKE_LABELS, self.META_AUTO_WIRING)
        for key in kwargs:
            require(key in known, f'Unknown meta "{key}", a typo? There are {" and ".join(known)}')
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = False  # it has to be bound, and so on, again
        self.params_initialized = False
        self.optimizer_initialized = False
        return self

    @property
    def data_names(self) -> list[str]:
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> list[str]:
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> Any:
        require(self.binded, "call bind before")
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> Any:
        require(self.binded, "call bind before")
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        require(self.binded, "call bind before")
        return self._modules[-1].output_shapes

    def get_params(self) -> tuple[Params, Params]:
        self._ready()
        arg_params: Params = {}
        aux_params: Params = {}
        for module in self._modules:
            arguments, states = module.get_params()
            arg_params.update(arguments)
            aux_params.update(states)
        return arg_params, aux_params

    def _agree_on_params(self) -> tuple[Params, Params]:
        for module in self._modules:
            module._agree_on_params()
        return self.get_params()

    def init_params(
        self, initializer: Any = UNIFORM, arg_params: Params | None = None, aux_params: Params | None = None,
        allow_missing: bool = False, force_init: bool = False, allow_extra: bool = False,
    ) -> None:  # fmt: skip
        if self.params_initialized and not force_init:
            return
        require(self.binded, "call bind before initializing the parameters")
        owners: dict[str, int] = {}
        for place, module in enumerate(self._modules):
            module.init_params(
                initializer=initializer, arg_params=arg_params, aux_params=aux_params, allow_missing=allow_missing,
                force_init=force_init, allow_extra=allow_extra,
            )  # fmt: skip
            for name in (name for params in module.get_params() for name in params):
                if name in owners:
                    raise MXNetAssertionError(
                        f'Duplicated parameter names: name "{name}" in layer {place} ({type(module).__name__}) is '
                        f"already used in layer {owners[name]} ({type(self._modules[owners[name]]).__name__})."
                    )
                owners[name] = place
        self.params_initialized = True

    def bind(
        self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True, inputs_need_grad: bool = False,
        force_rebind: bool = False, shared_module: Any = None, grad_req: Any = "write",
    ) -> None:  # fmt: skip
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        require(for_training or not inputs_need_grad, "inputs_need_grad needs for_training=True")
        require(shared_module is None, "Shared module is not supported")
        require(self._modules, "Attempting to bind an empty SequentialModule")
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self.binded = True
        takers = [bool(meta.get(self.META_TAKE_LABELS)) for meta in self._metas]
        self._label_shapes = label_shapes if any(takers) else None
        for place, module in enumerate(self._modules):
            if self._metas[place].get(self.META_AUTO_WIRING):
                names = module.data_names
                require(
                    len(names) == len(data_shapes),
                    f"{len(data_shapes)} outputs for the data {names} of layer {place}",
                )
                data_shapes = [
                    (name, each[1]) for name, each in zip(names, data_shapes, strict=True)
                ]
            module.bind(
                data_shapes=data_shapes, label_shapes=label_shapes if takers[place] else None,
                for_training=for_training, inputs_need_grad=bool(inputs_need_grad or (for_training and place)),
                force_rebind=force_rebind, shared_module=None, grad_req=grad_req,
            )  # fmt: skip
            data_shapes = module.output_shapes

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),), force_init: bool = False,
    ) -> None:  # fmt: skip
        self._ready()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        for module in self._modules:
            module.init_optimizer(
                kvstore=kvstore,
                optimizer=optimizer,
                optimizer_params=optimizer_params,
                force_init=force_init,
            )
        self.optimizer_initialized = True

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        self._ready()
        if any(getattr(module, "_open_step", False) for module in self._modules):
            self._end_step()
        batch = copy.copy(data_batch)  # the data change on the way, the user's batch does not
        for module in self._modules:
            module.forward(batch, is_train=is_train)
            if module is self._modules[-1]:
                break
            batch.data = module.get_outputs()
            if hasattr(batch, "provide_data"):
                names = [each[0] for each in module.output_shapes]
                batch.provide_data = [
                    (name, x.shape) for name, x in zip(names, batch.data, strict=True)
                ]

    def backward(self, out_grads: Any = None) -> None:
        self._ready()
        for module in reversed(self._modules):
            module.backward(out_grads=out_grads)
            if module is not self._modules[0]:
                out_grads = module.get_input_grads()

    def update(self) -> None:
        self._ready()
        require(self.optimizer_initialized, "call init_optimizer before")
        for module in self._modules:
            module.update()

    def _end_step(self) -> None:
        for module in self._modules:
            module._open_step = False
        super()._end_step()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        self._ready()
        return self._modules[-1].get_outputs(merge_multi_context=merge_multi_context)  # type: ignore[no-any-return]

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        self._ready()
        require(self.inputs_need_grad, "bind with inputs_need_grad=True")
        return self._modules[0].get_input_grads(merge_multi_context=merge_multi_context)  # type: ignore[no-any-return]

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        self._ready()
        for meta, module in zip(self._metas, self._modules, strict=True):
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        require(self.binded, "call bind before")
        for module in self._modules:
            module.install_monitor(mon)
