"""Adam and its relatives: averages of the gradient and of its square."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from mxjax.errors import MXNetValueError

from ..display.wording import worded
from .optimizer import Optimizer, register
from .rules import States, moment, norm, prepare

__all__ = ["Adam", "AdamW", "AdaBelief", "Adamax", "Nadam", "LAMB", "LANS"]


class _TwoMoments(Optimizer):
    """Rules whose states are two running averages."""

    beta1: float
    beta2: float
    epsilon: float
    _statics: ClassVar[tuple[str, ...]] = ("beta1", "beta2", "epsilon", "clip_gradient")

    def _set(self, beta1: float, beta2: float, epsilon: float) -> None:
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def init(self, weight: jax.Array) -> States:
        return (jnp.zeros(weight.shape, weight.dtype), jnp.zeros(weight.shape, weight.dtype))

    def _corrected(self, lr: Any, t: Any) -> Any:
        """The rate with the bias correction of both averages in it."""
        return lr * (1.0 - self.beta2**t) ** 0.5 / (1.0 - self.beta1**t)


def adam_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    beta1: float, beta2: float, epsilon: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient, wd, weight)
    mean, var = moment(grad, states[0], beta1), moment(grad, states[1], beta2, 2)
    return weight - lr * mean / (jnp.sqrt(var) + epsilon), (mean, var)


@worded("optimizer")
@register
class Adam(_TwoMoments):
    """Adam (https://arxiv.org/abs/1412.6980), with the weight decay in the gradient.

    The bias correction is in the learning rate, so epsilon is added to the uncorrected root.

    >>> Adam(beta1=0.8).beta1
    0.8
    """

    rule_fn = staticmethod(adam_rule)

    def __init__(
        self, learning_rate: float | None = 0.001, beta1: float = 0.9, beta2: float = 0.999,
        epsilon: float = 1e-8, lazy_update: bool = False, use_fused_step: bool = True,
        **kwargs: Any,
    ):  # fmt: skip
        super().__init__(use_fused_step=use_fused_step, learning_rate=learning_rate, **kwargs)
        if lazy_update and not use_fused_step:
            raise MXNetValueError("lazy_update goes with use_fused_step=True only")
        self._set(beta1, beta2, epsilon)
        self.lazy_update = lazy_update

    def numbers(self, lr: Any, wd: Any, t: Any) -> tuple[Any, ...]:
        return self._corrected(lr, t), wd


def adamw_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    beta1: float, beta2: float, epsilon: float, clip_gradient: float | None, use_fused_step: bool,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient)
    mean, var = moment(grad, states[0], beta1), moment(grad, states[1], beta2, 2)
    step = lr * mean / (jnp.sqrt(var) + epsilon)
    if use_fused_step:
        return weight - step - lr * wd * weight, (mean, var)
    weight = weight - step  # MXNet's unfused form decays what the step left
    return weight - lr * wd * weight, (mean, var)


@worded("optimizer")
@register
class AdamW(_TwoMoments):
    """Adam with decoupled weight decay (https://arxiv.org/abs/1711.05101).

    As in MXNet, the decay is multiplied by the bias-corrected learning rate.

    >>> AdamW(wd=0.01).wd
    0.01
    """

    rule_fn = staticmethod(adamw_rule)

    def __init__(
        self, learning_rate: float | None = 0.001, beta1: float = 0.9, beta2: float = 0.999,
        epsilon: float = 1e-6, correct_bias: bool = True, use_fused_step: bool = True,
        **kwargs: Any,
    ):  # fmt: skip
        super().__init__(use_fused_step=use_fused_step, learning_rate=learning_rate, **kwargs)
        self._set(beta1, beta2, epsilon)
        self.correct_bias = correct_bias

    _statics = (*_TwoMoments._statics, "use_fused_step")

    def numbers(self, lr: Any, wd: Any, t: Any) -> tuple[Any, ...]:
        return (self._corrected(lr, t) if self.correct_bias else lr), wd


def adabelief_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    beta1: float, beta2: float, epsilon: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = grad * rescale + wd * weight
    if clip_gradient is not None:  # here the decay is clipped too
        grad = jnp.clip(grad, -clip_gradient, clip_gradient)
    mean = moment(grad, states[0], beta1)
    var = moment(grad - mean, states[1], beta2, 2) + epsilon
    return weight - lr * mean / (jnp.sqrt(var) + epsilon), (mean, var)


@worded("optimizer")
@register
class AdaBelief(_TwoMoments):
    """Adam by the belief in observed gradients (https://arxiv.org/abs/2010.07468).

    >>> AdaBelief().epsilon
    1e-06
    """

    rule_fn = staticmethod(adabelief_rule)

    def __init__(
        self, learning_rate: float | None = 0.001, beta1: float = 0.9, beta2: float = 0.999,
        epsilon: float = 1e-6, correct_bias: bool = True, use_fused_step: bool = True,
        **kwargs: Any,
    ):  # fmt: skip
        super().__init__(use_fused_step=use_fused_step, learning_rate=learning_rate, **kwargs)
        self._set(beta1, beta2, epsilon)
        self.correct_bias = correct_bias

    def numbers(self, lr: Any, wd: Any, t: Any) -> tuple[Any, ...]:
        return (self._corrected(lr, t) if self.correct_bias else lr), wd


def adamax_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    beta1: float, beta2: float, epsilon: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient, wd, weight)
    mean = moment(grad, states[0], beta1)
    var = jnp.maximum(beta2 * states[1], jnp.abs(grad))
    return weight - lr * mean / (var + epsilon), (mean, var)


@worded("optimizer")
@register
class Adamax(_TwoMoments):
    """Adam by the infinity norm (https://arxiv.org/abs/1412.6980, section 7.1).

    >>> Adamax().lr
    0.002
    """

    rule_fn = staticmethod(adamax_rule)

    def __init__(
        self, learning_rate: float | None = 0.002, beta1: float = 0.9, beta2: float = 0.999,
        epsilon: float = 1e-8, use_fused_step: bool = False, **kwargs: Any,
    ):  # fmt: skip
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self._set(beta1, beta2, epsilon)

    def numbers(self, lr: Any, wd: Any, t: Any) -> tuple[Any, ...]:
        return lr / (1.0 - self.beta1**t), wd


def nadam_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any,
    of_grad: Any, of_mean: Any, of_var: Any, *,
    beta1: float, beta2: float, epsilon: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient, wd, weight)
    mean, var = moment(grad, states[0], beta1), moment(grad, states[1], beta2, 2)
    step = (of_mean * mean + of_grad * grad) / (jnp.sqrt(var * of_var) + epsilon)
    return weight - lr * step, (mean, var)


@worded("optimizer")
@register
class Nadam(_TwoMoments):
    """Adam with Nesterov's momentum (http://cs229.stanford.edu/proj2015/054_report.pdf).

    As in MXNet, all weights share one product of momenta: it grows with every weight's update.

    Args:
      schedule_decay: the decay of the momentum's schedule.

    >>> Nadam().m_schedule
    1.0
    """

    rule_fn = staticmethod(nadam_rule)
    _numbers_have_memory = True

    def __init__(
        self, learning_rate: float | None = 0.001, beta1: float = 0.9, beta2: float = 0.999,
        epsilon: float = 1e-8, schedule_decay: float = 0.004, use_fused_step: bool = False,
        **kwargs: Any,
    ):  # fmt: skip
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self._set(beta1, beta2, epsilon)
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def _momentum_at(self, t: Any) -> Any:
        return self.beta1 * (1.0 - 0.5 * 0.96 ** (t * self.schedule_decay))

    def numbers(self, lr: Any, wd: Any, t: Any) -> tuple[Any, ...]:
        now, following = self._momentum_at(t), self._momentum_at(t + 1)
        self.m_schedule = self.m_schedule * now
        of_grad = (1.0 - now) / (1.0 - self.m_schedule)
        of_mean = following / (1.0 - self.m_schedule * following)
        return lr, wd, of_grad, of_mean, 1.0 / (1.0 - self.beta2**t)


def _trust(weight: jax.Array, step: jax.Array, lower: float | None, upper: float | None) -> Any:
    """The ratio of the norms of weight and step; 1 where it would be zero or not finite."""
    top, bottom = norm(weight), norm(step)
    if lower is not None:
        top = jnp.maximum(top, lower)
    if upper is not None:
        top = jnp.minimum(top, upper)
    ratio = top / bottom
    return jnp.where((ratio == 0) | ~jnp.isfinite(ratio), jnp.ones_like(ratio), ratio)


def lamb_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any,
    of_mean: Any, of_var: Any, *, beta1: float, beta2: float, epsilon: float,
    clip_gradient: float | None, lower_bound: float | None, upper_bound: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient)
    mean, var = moment(grad, states[0], beta1), moment(grad, states[1], beta2, 2)
    step = mean * of_mean / (jnp.sqrt(var * of_var) + epsilon) + wd * weight
    return weight - lr * _trust(weight, step, lower_bound, upper_bound) * step, (mean, var)


class _Layerwise(_TwoMoments):
    """Rules that scale each weight's step to the weight's own norm."""

    _statics = (*_TwoMoments._statics, "lower_bound", "upper_bound")

    def __init__(
        self, learning_rate: float | None = 0.001, beta1: float = 0.9, beta2: float = 0.999,
        epsilon: float = 1e-6, lower_bound: float | None = None, upper_bound: float | None = None,
        aggregate_num: int = 4, use_fused_step: bool = True, **kwargs: Any,
    ):  # fmt: skip
        if aggregate_num > 45:
            raise MXNetValueError(f"aggregate_num must be at most 45, got {aggregate_num}")
        super().__init__(
            learning_rate=learning_rate, aggregate_num=aggregate_num,
            use_fused_step=use_fused_step, **kwargs,
        )  # fmt: skip
        self._set(beta1, beta2, epsilon)
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def numbers(self, lr: Any, wd: Any, t: Any) -> tuple[Any, ...]:
        beta1, beta2 = self._kernel(self.beta1), self._kernel(self.beta2)
        return lr, wd, 1.0 / (1.0 - beta1**t), 1.0 / (1.0 - beta2**t)


@worded("optimizer")
@register
class LAMB(_Layerwise):
    """Layer-wise adaptive moments for large batches (https://arxiv.org/abs/1904.00962).

    Args:
      bias_correction: whether the means are corrected for their beginning at 0.

    >>> LAMB(bias_correction=False).bias_correction
    False
    """

    rule_fn = staticmethod(lamb_rule)

    def __init__(
        self, learning_rate: float | None = 0.001, beta1: float = 0.9, beta2: float = 0.999,
        epsilon: float = 1e-6, lower_bound: float | None = None, upper_bound: float | None = None,
        bias_correction: bool = True, aggregate_num: int = 4, use_fused_step: bool = True,
        **kwargs: Any,
    ):  # fmt: skip
        super().__init__(
            learning_rate, beta1, beta2, epsilon, lower_bound, upper_bound, aggregate_num,
            use_fused_step, **kwargs,
        )  # fmt: skip
        self.bias_correction = bias_correction

    def numbers(self, lr: Any, wd: Any, t: Any) -> tuple[Any, ...]:
        return super().numbers(lr, wd, t) if self.bias_correction else (lr, wd, 1.0, 1.0)


def lans_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any,
    of_mean: Any, of_var: Any, *, beta1: float, beta2: float, epsilon: float,
    clip_gradient: float | None, lower_bound: float | None, upper_bound: float | None,
    use_fused_step: bool,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = grad * rescale
    grad = prepare(grad, 1.0 / norm(grad), clip_gradient)
    mean, var = moment(grad, states[0], beta1), moment(grad, states[1], beta2, 2)
    root = jnp.sqrt(var * of_var) + epsilon
    by_mean = mean * of_mean / root + wd * weight
    first = lr * beta1 * _trust(weight, by_mean, lower_bound, upper_bound) * by_mean
    # MXNet's unfused form decays what the first half of the step left.
    by_grad = grad / root + wd * (weight if use_fused_step else weight - first)
    trust = _trust(weight, by_grad, lower_bound, upper_bound)
    return weight - first - lr * (1 - beta1) * trust * by_grad, (mean, var)


@register
class LANS(_Layerwise):
    """LAMB with normalized gradients and Nesterov's momentum (https://arxiv.org/abs/2006.13484).

    Args:
      learning_rate: the learning rate, unless a scheduler has one.
      beta1: the decay of the mean of gradients.
      beta2: the decay of the mean of squared gradients.
      epsilon: what is added to a denominator, against a division by zero.
      lower_bound: the smallest norm that counts; none without.
      upper_bound: the largest norm that counts; none without.
      aggregate_num: taken for compatibility; a step is one call for all weights in any case.
      use_fused_step: taken for compatibility; a step is one program in any case.

    >>> LANS().aggregate_num
    4
    """

    rule_fn = staticmethod(lans_rule)
    _statics = (*_Layerwise._statics, "use_fused_step")
