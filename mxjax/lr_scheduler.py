"""Learning rates that follow the number of updates.

A scheduler is called with the largest number of updates that any weight has seen and returns the
learning rate.  Optimizers pass it to the compiled step as an input, so a rate that changes every
step compiles nothing anew.
"""

from __future__ import annotations

import logging
import math

from mxjax.errors import MXNetAssertionError, MXNetNotImplementedError, MXNetValueError

from .display.reprs import Shown
from .errors import explain_names as _explain_names

__all__ = [
    "LRScheduler",
    "FactorScheduler",
    "MultiFactorScheduler",
    "PolyScheduler",
    "CosineScheduler",
]

_log = logging.getLogger(__name__)


def _positive_int(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise MXNetAssertionError(f"{name} must be an int, got {value!r}")
    if value < 1:
        raise MXNetValueError(f"{name} must be at least 1, got {value}")
    return value


def _shrinking(factor: float) -> float:
    if factor > 1.0:
        raise MXNetValueError(
            f"factor must be no more than 1, so that the learning rate falls; got {factor}"
        )
    return factor


class LRScheduler(Shown):
    """The base of all schedulers: a base rate, and a warm-up before the schedule begins.

    Args:
      base_lr: the rate at the end of the warm-up.
      warmup_steps: how many updates the warm-up takes.
      warmup_begin_lr: the rate at update 0 of the warm-up; at most `base_lr`.
      warmup_mode: "linear" rises in equal steps, "constant" stays at `warmup_begin_lr`.

    >>> class Half(LRScheduler):
    ...     def __call__(self, num_update):
    ...         return self.base_lr / 2
    >>> Half(base_lr=1.0)(7)
    0.5
    """

    def __init__(
        self,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ):
        if isinstance(warmup_steps, bool) or not isinstance(warmup_steps, int):
            raise MXNetAssertionError(f"warmup_steps must be an int, got {warmup_steps!r}")
        if warmup_begin_lr > base_lr:
            raise MXNetValueError(
                f"base_lr has to be higher than warmup_begin_lr, got {base_lr} and "
                f"{warmup_begin_lr}"
            )
        if warmup_steps < 0:
            raise MXNetValueError(f"warmup_steps must be positive or 0, got {warmup_steps}")
        if warmup_mode not in ("linear", "constant"):
            raise MXNetValueError(
                f"warmup_mode must be 'linear' or 'constant', got {warmup_mode!r}"
            )
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_final_lr = base_lr
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_mode = warmup_mode

    def get_warmup_lr(self, num_update: int) -> float:
        """The rate at an update inside the warm-up."""
        if num_update >= self.warmup_steps:
            raise MXNetValueError(
                f"the warm-up ends at update {self.warmup_steps}, asked for {num_update}"
            )
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = self.warmup_final_lr - self.warmup_begin_lr
        return self.warmup_begin_lr + rise * float(num_update) / float(self.warmup_steps)

    def __call__(self, num_update: int) -> float:
        """The rate after `num_update` updates; subclasses say how."""
        raise MXNetNotImplementedError(f"{type(self).__name__} must define __call__")


class FactorScheduler(LRScheduler):
    """Multiplies the rate by `factor` every `step` updates, down to `stop_factor_lr`.

    Args:
      step: after how many updates the rate changes.
      factor: by what the rate is multiplied.
      stop_factor_lr: the rate below which it does not fall.
      base_lr: the rate at the beginning, after the warm-up.
      warmup_steps: how many steps the warm-up takes.
      warmup_begin_lr: the rate at which the warm-up begins.
      warmup_mode: "linear" or "constant".

    >>> schedule = FactorScheduler(step=10, factor=0.5, base_lr=1.0)
    >>> [schedule(n) for n in (1, 11, 21)]
    [1.0, 0.5, 0.25]
    """

    def __init__(
        self,
        step: int,
        factor: float = 1,
        stop_factor_lr: float = 1e-8,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise MXNetValueError(f"step must be at least 1, got {step}")
        self.step = step
        self.factor = _shrinking(factor)
        self.stop_factor_lr = stop_factor_lr
        self.count = 0

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        # A loop, for a run that resumes far along the schedule.
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr *= self.factor
            if self.base_lr < self.stop_factor_lr:
                self.base_lr = self.stop_factor_lr
                _log.info(
                    "Update[%d]: now learning rate arrived at %0.5e, will not change in the future",
                    num_update,
                    self.base_lr,
                )
            else:
                _log.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiplies the rate by `factor` once each update number of the list `step` is passed.

    Args:
      step: the numbers of updates after which the rate changes, rising.
      factor: by what the rate is multiplied.
      base_lr: the rate at the beginning, after the warm-up.
      warmup_steps: how many steps the warm-up takes.
      warmup_begin_lr: the rate at which the warm-up begins.
      warmup_mode: "linear" or "constant".

    >>> schedule = MultiFactorScheduler(step=[5, 8], factor=0.1, base_lr=1.0)
    >>> [round(schedule(n), 3) for n in (5, 6, 9)]
    [1.0, 0.1, 0.01]
    """

    def __init__(
        self,
        step: list[int],
        factor: float = 1,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(step, list) or not step:
            raise MXNetAssertionError(f"step must be a list of update numbers, got {step!r}")
        if step[0] < 1 or any(b <= a for a, b in zip(step, step[1:], strict=False)):
            raise MXNetValueError(f"step must be an increasing list from 1 on, got {step}")
        self.step = step
        self.cur_step_ind = 0
        self.factor = _shrinking(factor)
        self.count = 0

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            _log.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class _Decay(LRScheduler):
    """From `base_lr` to `final_lr` between the end of the warm-up and `max_update`."""

    def __init__(
        self,
        max_update: int,
        base_lr: float,
        final_lr: float,
        warmup_steps: int,
        warmup_begin_lr: float,
        warmup_mode: str,
    ):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.base_lr_orig = base_lr
        self.max_update = _positive_int("max_update", max_update)
        self.final_lr = final_lr
        self.max_steps = self.max_update - self.warmup_steps

    def _left(self, num_update: int) -> float:
        """How much of the way from `final_lr` to `base_lr` is left."""
        raise MXNetNotImplementedError

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            span = self.base_lr_orig - self.final_lr
            self.base_lr = self.final_lr + span * self._left(num_update)
        return self.base_lr


class PolyScheduler(_Decay):
    """Falls to `final_lr` at `max_update` as `(1 - progress) ** pwr`.

    Args:
      max_update: after how many steps the rate stays as it is.
      base_lr: the rate at the beginning, after the warm-up.
      pwr: the power of the polynomial.
      final_lr: the rate at the end.
      warmup_steps: how many steps the warm-up takes.
      warmup_begin_lr: the rate at which the warm-up begins.
      warmup_mode: "linear" or "constant".

    >>> PolyScheduler(max_update=10, base_lr=1.0, pwr=2)(5)
    0.25
    """

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        pwr: float = 2,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ):
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def _left(self, num_update: int) -> float:
        return (1 - float(num_update - self.warmup_steps) / float(self.max_steps)) ** self.power


class CosineScheduler(_Decay):
    """Falls to `final_lr` at `max_update` along half a cosine.

    Args:
      max_update: after how many steps the rate stays as it is.
      base_lr: the rate at the beginning, after the warm-up.
      final_lr: the rate at the end.
      warmup_steps: how many steps the warm-up takes.
      warmup_begin_lr: the rate at which the warm-up begins.
      warmup_mode: "linear" or "constant".

    >>> round(CosineScheduler(max_update=10, base_lr=1.0)(5), 6)
    0.5
    """

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ):
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)

    def _left(self, num_update: int) -> float:
        progress = (num_update - self.warmup_steps) / self.max_steps
        return (1 + math.cos(math.pi * progress)) / 2


_explain_names(__name__)
