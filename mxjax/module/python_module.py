"""Modules written in Python, as parts of a chain: no symbol, and usually no parameters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from .. import nd
from ..array import NDArray
from ..errors import MXNetError, MXNetNotImplementedError
from .base_module import UNIFORM, BaseModule, Params, require

__all__ = ["PythonLossModule", "PythonModule"]


class PythonModule(BaseModule):
    """The base of modules whose computations are methods; what has to do with parameters does nothing.

    A subclass defines `forward`, `backward`, `get_outputs`, `get_input_grads` and `_compute_output_shapes`, which gives
    pairs of names and shapes from `_data_shapes` and `_label_shapes`.

    Args:
      data_names, label_names, output_names: lists of names.
      logger: the logger that is written to; the root logger without.
    """

    def __init__(
        self, data_names: Sequence[str], label_names: Sequence[str] | None, output_names: Sequence[str],
        logger: Any = logging,
    ):  # fmt: skip
        super().__init__(logger=logger)
        self._data_names = list(data_names)
        self._label_names = None if label_names is None else list(label_names)
        self._output_names = output_names
        self._data_shapes: Any = None
        self._label_shapes: Any = None
        self._output_shapes: Any = None

    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def output_names(self) -> Any:
        return self._output_names

    @property
    def data_shapes(self) -> Any:
        return self._data_shapes

    @property
    def label_shapes(self) -> Any:
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        return self._output_shapes

    def get_params(self) -> tuple[Params, Params]:
        """There are none."""
        return {}, {}

    def _agree_on_params(self) -> tuple[Params, Params]:
        return self.get_params()

    def init_params(
        self, initializer: Any = UNIFORM, arg_params: Params | None = None, aux_params: Params | None = None,
        allow_missing: bool = False, force_init: bool = False, allow_extra: bool = False,
    ) -> None:  # fmt: skip
        """There is nothing to be done."""
        self.params_initialized = True

    def update(self) -> None:
        """There is nothing to be done."""

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the labels and the outputs; without labels there is nothing to be done."""
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise MXNetError("PythonModule does not support presliced labels")
        eval_metric.update(labels, self.get_outputs())

    def bind(
        self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True, inputs_need_grad: bool = False,
        force_rebind: bool = False, shared_module: Any = None, grad_req: Any = "write",
    ) -> None:  # fmt: skip
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        require(grad_req == "write", "Python module only support write gradient")
        given = [each[0] for each in data_shapes]
        require(given == self._data_names, f"the data must be {self._data_names}, got {given}")
        if label_shapes is not None:
            given = [each[0] for each in label_shapes]
            require(
                given == self._label_names, f"the labels must be {self._label_names}, got {given}"
            )
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._data_shapes = data_shapes
        self._label_shapes = label_shapes
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self) -> Any:
        raise MXNetNotImplementedError(f"{type(self).__name__} must define _compute_output_shapes")

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),), force_init: bool = False,
    ) -> None:  # fmt: skip
        """There is nothing to be done."""
        self.optimizer_initialized = True


class PythonLossModule(PythonModule):
    """A loss at the end of a chain: its output is its input, and its gradient a function of input and label.

    Args:
      name: the output is called `<name>_output`.
      data_names, label_names: one name each.
      grad_func: a function of input and label that gives the gradient, an array of mxjax or NumPy; a subclass may
        define `_backward_impl` instead.
      logger: the logger that is written to; the root logger without.
    """

    def __init__(
        self, name: str = "pyloss", data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] = ("softmax_label",), logger: Any = logging,
        grad_func: Callable[[Any, Any], Any] | None = None,
    ):  # fmt: skip
        super().__init__(data_names, label_names, [f"{name}_output"], logger=logger)
        require(
            len(data_names) == 1 and len(label_names) == 1, "a loss has one input and one label"
        )
        require(
            grad_func is None or callable(grad_func),
            "grad_func must be a function of input and label",
        )
        self._name = name
        self._scores: Any = None
        self._labels: Any = None
        self._scores_grad: Any = None
        self._grad_func = grad_func

    def _compute_output_shapes(self) -> list[tuple[str, Any]]:
        return [(f"{self._name}_output", self._data_shapes[0][1])]

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        require(merge_multi_context is True, "a Python module computes on one device")
        return [self._scores]

    def backward(self, out_grads: Any = None) -> None:
        require(out_grads is None, "For a loss module, out_grads should be None")
        require(self.for_training, "bind with for_training=True")
        self._backward_impl()

    def _backward_impl(self) -> None:
        """Set `_scores_grad`, the gradient of `_scores`."""
        if self._grad_func is None:
            raise MXNetNotImplementedError(
                f"give grad_func, or define _backward_impl in {type(self).__name__}"
            )
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, NDArray) else nd.array(grad)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        require(merge_multi_context is True, "a Python module computes on one device")
        return [self._scores_grad]

    def install_monitor(self, mon: Any) -> None:
        """There are no executors to be looked at.

        Raises:
          NotImplementedError: always.
        """
        raise MXNetNotImplementedError(
            f"{type(self).__name__} has no executor that a monitor could look at"
        )
