"""The optimizers by which `SVRGModule` keeps the gradients over all data in a store, beside the weights."""

from __future__ import annotations

import inspect
from typing import Any

from ... import optimizer

__all__: list[str] = []


@optimizer.register
class _AssignmentOptimizer(optimizer.Optimizer):
    """Puts the gradient into the weight's place."""

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        weight[:] = grad


@optimizer.register
class _SVRGOptimizer(optimizer.Optimizer):
    """Updates weights by another optimizer, and puts gradients over all data, whose names say ``full``, in place.

    Args:
      default_optimizer: the other one, or its name.
      kwargs: its arguments.
    """

    def __init__(self, default_optimizer: Any, **kwargs: Any):
        own = set(inspect.signature(optimizer.Optimizer.__init__).parameters)
        super().__init__(**{name: value for name, value in kwargs.items() if name in own})
        named = isinstance(default_optimizer, str)
        self.default_opt = (
            optimizer.create(default_optimizer, **kwargs) if named else default_optimizer
        )
        self.aux_opt = optimizer.create(_AssignmentOptimizer.__name__)

    def _of(self, index: Any) -> Any:
        name = self.idx2name.get(index, index)
        return self.aux_opt if "full" in str(name) else self.default_opt

    def create_state(self, index: Any, weight: Any) -> Any:
        return self._of(index).create_state(index, weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        if isinstance(index, (list, tuple)):
            for one in zip(index, weight, grad, state, strict=True):
                self.update(*one)
        else:
            self._of(index).update(index, weight, grad, state)
