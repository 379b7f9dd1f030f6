"""Rules that divide by the history of the squared gradient."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from mxjax.errors import MXNetValueError
from mxjax.modes import generation

from ..display.wording import worded
from ..ops.optimizer import beside
from .optimizer import Optimizer, register
from .rules import Rule, States, is_on, moment, prepare, renamed

__all__ = ["RMSProp", "AdaGrad", "AdaDelta", "Ftrl", "FTML", "GroupAdaGrad"]


def _zeros(weight: jax.Array, count: int) -> States:
    return tuple(jnp.zeros(weight.shape, weight.dtype) for _ in range(count))


def rmsprop_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    rho: float, momentum: float, epsilon: float, centered: bool, clip_gradient: float | None,
    clip_weights: Any,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient, wd, weight)
    if centered:
        mean, var = moment(grad, states[0], rho), moment(grad, states[1], rho, 2)
        mom = momentum * states[2] - lr * grad / jnp.sqrt(var - jnp.square(mean) + epsilon)
        weight, states = weight + mom, (mean, var, mom)
    else:
        var = moment(grad, states[0], rho, 2)
        weight, states = weight - lr * grad / (jnp.sqrt(var) + epsilon), (var,)
    if is_on(clip_weights):
        weight = jnp.clip(weight, -clip_weights, clip_weights)
    return weight, states


@worded("optimizer")
@register
class RMSProp(Optimizer):
    """RMSProp by Tieleman and Hinton; ``centered=True`` is Graves's (https://arxiv.org/abs/1308.0850).

    The momentum is used by the centered form only. MXNet 1 calls ``rho`` and ``momentum`` ``gamma1`` and ``gamma2``.

    Args:
      centered: whether the mean of gradients is taken off.
      clip_weights: weights are cut off at this absolute value.

    >>> RMSProp(centered=True).rho
    0.9
    """

    rule_fn = staticmethod(rmsprop_rule)
    _statics = ("rho", "momentum", "epsilon", "centered", "clip_gradient", "clip_weights")
    _former = ("gamma1", "gamma2")

    def __init__(
        self, learning_rate: float | None = 0.001, rho: float = 0.9, momentum: float = 0.9,
        epsilon: float = 1e-8, centered: bool = False, clip_weights: float | None = None,
        use_fused_step: bool = True, **kwargs: Any,
    ):  # fmt: skip
        self.rho = renamed(kwargs, "gamma1", rho)
        self.momentum = renamed(kwargs, "gamma2", momentum)
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.epsilon = epsilon
        self.centered = centered
        self.clip_weights = clip_weights

    @property
    def gamma1(self) -> float:
        """`rho`, as MXNet 1 calls it."""
        return self.rho

    @property
    def gamma2(self) -> float:
        """`momentum`, as MXNet 1 calls it."""
        return self.momentum

    def init(self, weight: jax.Array) -> States:
        return _zeros(weight, 3 if self.centered else 1)

    def _pack_state(self, leaves: tuple[Any, ...]) -> Any:
        return (
            leaves if generation() == 1 else super()._pack_state(leaves)
        )  # MXNet 1's are a tuple, of one too


def adagrad_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    epsilon: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient, wd, weight)
    history = states[0] + jnp.square(grad)
    return weight - lr * grad / (jnp.sqrt(history) + epsilon), (history,)


@worded("optimizer")
@register
class AdaGrad(Optimizer):
    """Adaptive subgradients (http://www.jmlr.org/papers/volume12/duchi11a/duchi11a.pdf).

    >>> AdaGrad().epsilon
    1e-06
    """

    rule_fn = staticmethod(adagrad_rule)
    _former = ("eps",)
    _statics = ("epsilon", "clip_gradient")

    def __init__(
        self, learning_rate: float | None = 0.01, epsilon: float = 1e-6,
        use_fused_step: bool = True, **kwargs: Any,
    ):  # fmt: skip
        self.epsilon = renamed(kwargs, "eps", epsilon)
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)

    @property
    def float_stable_eps(self) -> float:
        """`epsilon`, as MXNet 1 calls it."""
        return self.epsilon

    def init(self, weight: jax.Array) -> States:
        return _zeros(weight, 1)

    def updates_rows(self, index: Any, weight: Any) -> bool:
        if not self.use_fused_step:
            return False
        wd = self._get_wd(index)
        if wd != 0:
            raise MXNetValueError(
                f"{type(self).__name__} has no weight decay for row_sparse gradients, got wd={wd}"
            )
        return True


def group_adagrad(divisor: Any) -> Rule:
    """The rule with ``divisor(history, epsilon)``, in which the generations differ."""

    def rule(
        weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
        epsilon: float, clip_gradient: float | None,
    ) -> tuple[jax.Array, States]:  # fmt: skip
        grad = prepare(grad, rescale, clip_gradient)
        history = states[0] + jnp.mean(jnp.square(grad), axis=1, keepdims=True)
        return weight - lr * grad / divisor(history, epsilon), (history,)

    return rule


group_adagrad_rule = group_adagrad(beside)


@register
class GroupAdaGrad(AdaGrad):
    """AdaGrad with one learning rate per row of a matrix; weight decay is refused.

    Args:
      learning_rate: the learning rate, unless a scheduler has one.
      epsilon: what is added to a denominator, against a division by zero.
      use_fused_step: taken for compatibility; a step is one program in any case.

    >>> GroupAdaGrad().epsilon
    1e-06
    """

    rule_fn = staticmethod(group_adagrad_rule)

    def init(self, weight: jax.Array) -> States:
        if len(weight.shape) != 2:
            raise MXNetValueError(f"GroupAdaGrad takes matrices, got a weight of {weight.shape}")
        return (jnp.zeros((weight.shape[0], 1), weight.dtype),)

    def numbers(self, lr: Any, wd: Any, t: Any) -> tuple[Any, ...]:
        if isinstance(wd, (int, float)) and wd != 0:
            raise MXNetValueError(f"GroupAdaGrad does not support weight decay, got wd={wd}")
        return lr, wd


def adadelta_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    rho: float, epsilon: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient, wd, weight)
    acc_grad = moment(grad, states[0], rho, 2)
    delta = jnp.sqrt(states[1] + epsilon) / jnp.sqrt(acc_grad + epsilon) * grad
    return weight - lr * delta, (acc_grad, moment(delta, states[1], rho, 2))


@worded("optimizer")
@register
class AdaDelta(Optimizer):
    """AdaDelta (https://arxiv.org/abs/1212.5701).

    >>> AdaDelta().lr
    1.0
    """

    rule_fn = staticmethod(adadelta_rule)
    _statics = ("rho", "epsilon", "clip_gradient")

    def __init__(
        self, learning_rate: float | None = 1.0, rho: float = 0.9, epsilon: float = 1e-6,
        use_fused_step: bool = False, **kwargs: Any,
    ):  # fmt: skip
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def init(self, weight: jax.Array) -> States:
        return _zeros(weight, 2)


def ftrl_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    lamda1: float, beta: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient)
    z, n = states
    root, n = jnp.sqrt(n), n + jnp.square(grad)
    z = z + grad - (jnp.sqrt(n) - root) / lr * weight
    shrunk = jnp.sign(z) * jnp.maximum(jnp.abs(z) - lamda1, 0)
    return -shrunk / ((beta + jnp.sqrt(n)) / lr + wd), (z, n)


@worded("optimizer")
@register
class Ftrl(Optimizer):
    """Follow the regularized leader, with L1 sparsity (http://dl.acm.org/citation.cfm?id=2488200).

    Args:
      lamda1: the strength of the L1 penalty.
      beta: what is added to the root of the sum of squared gradients.

    >>> Ftrl(lamda1=0.1).lamda1
    0.1
    """

    rule_fn = staticmethod(ftrl_rule)
    _statics = ("lamda1", "beta", "clip_gradient")

    def __init__(
        self, learning_rate: float | None = 0.1, lamda1: float = 0.01, beta: float = 1.0,
        use_fused_step: bool = True, **kwargs: Any,
    ):  # fmt: skip
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.lamda1 = lamda1
        self.beta = beta

    def init(self, weight: jax.Array) -> States:
        return _zeros(weight, 2)

    def updates_rows(self, index: Any, weight: Any) -> bool:
        return self.use_fused_step and weight.stype == "row_sparse"


def ftml_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any,
    of_d: Any, of_v: Any, *,
    beta1: float, beta2: float, epsilon: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient, wd, weight)
    d, v, z = states
    v = moment(grad, v, beta2, 2)
    new_d = of_d * (jnp.sqrt(v * of_v) + epsilon)
    z = moment(grad, z, beta1) - (new_d - beta1 * d) * weight
    return -z / new_d, (new_d, v, z)


@worded("optimizer")
@register
class FTML(Optimizer):
    """Follow the moving leader (http://proceedings.mlr.press/v70/zheng17a/zheng17a.pdf).

    >>> FTML().beta1
    0.6
    """

    rule_fn = staticmethod(ftml_rule)
    _statics = ("beta1", "beta2", "epsilon", "clip_gradient")

    def __init__(
        self, learning_rate: float | None = 0.0025, beta1: float = 0.6, beta2: float = 0.999,
        epsilon: float = 1e-8, use_fused_step: bool = True, **kwargs: Any,
    ):  # fmt: skip
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def init(self, weight: jax.Array) -> States:
        return _zeros(weight, 3)

    def numbers(self, lr: Any, wd: Any, t: Any) -> tuple[Any, ...]:
        beta1, beta2 = self._kernel(self.beta1), self._kernel(self.beta2)
        rest = 1.0 - beta1**t
        # A rate of 0 is a division by zero as C has it: the weights become NaN, as in MXNet.
        of_d = math.copysign(math.inf, lr) if isinstance(lr, (int, float)) and not lr else rest / lr
        return lr, wd, of_d, 1.0 / (1.0 - beta2**t)
