"""Schedules of learning rates as the first versions of MXNet had them; `mx.lr_scheduler` has today's."""

from __future__ import annotations

import logging

from .errors import MXNetNotImplementedError, MXNetValueError

__all__ = ["FactorScheduler", "LearningRateScheduler"]


class LearningRateScheduler:
    """A function from the number of the iteration to the learning rate; `base_lr` is that of the beginning."""

    def __init__(self) -> None:
        self.base_lr = 0.01

    def __call__(self, iteration: int) -> float:
        """The learning rate of an iteration."""
        raise MXNetNotImplementedError(f"{type(self).__name__} must define __call__")


class FactorScheduler(LearningRateScheduler):
    """Multiplies the learning rate by `factor` every `step` iterations.

    >>> FactorScheduler(step=10, factor=0.5)(25)
    0.0025
    """

    def __init__(self, step: int, factor: float = 0.1):
        super().__init__()
        if step < 1:
            raise MXNetValueError(
                f"Schedule step must be greater or equal than 1 round, got {step}"
            )
        if factor >= 1.0:
            raise MXNetValueError(f"Factor must be less than 1 to make lr reduce, got {factor}")
        self.step = step
        self.factor = factor
        self.old_lr = self.base_lr
        self.init = False

    def __call__(self, iteration: int) -> float:
        if not self.init:  # base_lr may have been set since
            self.init = True
            self.old_lr = self.base_lr
        rate = self.base_lr * self.factor ** (iteration // self.step)
        if rate != self.old_lr:
            self.old_lr = rate
            logging.info("At Iteration [%d]: Switch to new learning rate %.5f", iteration, rate)
        return rate
