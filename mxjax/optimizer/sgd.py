"""Gradient descent and its relatives with momentum."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mxjax.errors import MXNetValueError
from mxjax.modes import generation

from ..display.wording import worded
from .optimizer import Optimizer, register
from .rules import States, norm, prepare, renamed

__all__ = ["DCASGD", "LARS", "NAG", "SGD", "SGLD", "Signum", "Test"]


def _momentum(update: jax.Array, states: States, decay: float, nesterov: bool = False) -> Any:
    """MXNet's momentum: the learning rate is inside of it, so ``update`` is ``-lr * grad``."""
    if not states:
        return update, ()
    import optax

    step, after = optax.trace(decay, nesterov=nesterov).update(
        update, optax.TraceState(trace=states[0])
    )
    return step, (after.trace,)


def sgd_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    momentum: float, clip_gradient: float | None, nesterov: bool = False,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient, wd, weight)
    step, states = _momentum(-lr * grad, states, momentum, nesterov)
    return weight + step, states


class _Momentum(Optimizer):
    """Rules whose only state is a momentum, absent where the momentum is zero."""

    momentum: float
    _statics: ClassVar[tuple[str, ...]] = ("momentum", "clip_gradient")

    def init(self, weight: jax.Array) -> States:
        return (jnp.zeros(weight.shape, weight.dtype),) if self.momentum else ()


@worded("optimizer")
@register
class SGD(_Momentum):
    """Stochastic gradient descent with momentum and weight decay.

    ``state = momentum * state - lr * (clip(rescale_grad * grad) + wd * weight)`` is added to it.

    >>> SGD(learning_rate=0.1, momentum=0.9).learning_rate
    0.1
    """

    rule_fn = staticmethod(sgd_rule)

    def __init__(
        self, learning_rate: float | None = 0.1, momentum: float = 0.0, lazy_update: bool = False,
        multi_precision: bool = False, use_fused_step: bool = True, aggregate_num: int = 1,
        **kwargs: Any,
    ):  # fmt: skip
        super().__init__(
            learning_rate=learning_rate, multi_precision=multi_precision,
            aggregate_num=aggregate_num, use_fused_step=use_fused_step, **kwargs,
        )  # fmt: skip
        if lazy_update and (multi_precision or not use_fused_step):
            raise MXNetValueError(
                "lazy_update goes with use_fused_step=True and multi_precision=False only"
            )
        self.momentum = momentum
        self.lazy_update = lazy_update


def nag_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    momentum: float, clip_gradient: float | None, nesterov: bool,
) -> tuple[jax.Array, States]:  # fmt: skip
    return sgd_rule(
        weight,
        grad,
        states,
        rescale,
        lr,
        wd,
        momentum=momentum,
        clip_gradient=clip_gradient,
        nesterov=nesterov,
    )


@worded("optimizer")
@register
class NAG(_Momentum):
    """Nesterov's accelerated gradient (https://proceedings.mlr.press/v28/sutskever13.html).

    The momentum of `SGD`, looked one step ahead.

    >>> NAG().momentum
    0.9
    """

    rule_fn = staticmethod(nag_rule)
    nesterov = True
    _statics = ("momentum", "clip_gradient", "nesterov")

    def __init__(
        self, learning_rate: float | None = 0.1, momentum: float = 0.9,
        multi_precision: bool = False, use_fused_step: bool = True, **kwargs: Any,
    ):  # fmt: skip
        super().__init__(
            learning_rate=learning_rate, multi_precision=multi_precision,
            use_fused_step=use_fused_step, **kwargs,
        )  # fmt: skip
        self.momentum = momentum


def signum_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    momentum: float, wd_lh: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    if not states:
        return (1 - lr * (wd + wd_lh)) * weight - lr * jnp.sign(grad), ()
    grad = prepare(grad, rescale, clip_gradient, wd, weight)
    mom = momentum * states[0] - (1 - momentum) * grad
    return (1 - lr * wd_lh) * weight + lr * jnp.sign(mom), (mom,)


@worded("optimizer")
@register
class Signum(_Momentum):
    """The sign of the momentum, or of the gradient (https://arxiv.org/abs/1802.04434).

    ``wd_lh`` decays the weight itself, outside the momentum.

    Args:
      wd_lh: the weight decay that does not go through the momentum.

    >>> Signum(wd_lh=0.01).wd_lh
    0.01
    """

    rule_fn = staticmethod(signum_rule)
    _statics = ("momentum", "wd_lh", "clip_gradient")

    def __init__(
        self, learning_rate: float | None = 0.01, momentum: float = 0.9, wd_lh: float = 0.0,
        use_fused_step: bool = True, **kwargs: Any,
    ):  # fmt: skip
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh


def dcasgd_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    momentum: float, lamda: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient, wd, weight)
    *mom, previous = states
    delayed = grad + lamda * jnp.square(grad) * (weight - previous)
    step, after = _momentum(-lr * delayed, tuple(mom), momentum)
    return weight + step, (*after, weight)


@worded("optimizer")
@register
class DCASGD(Optimizer):
    """Descent with compensation for delayed gradients (https://arxiv.org/abs/1609.08326).

    Args:
      lamda: the strength of the correction by the former weight.

    >>> DCASGD().lamda
    0.04
    """

    rule_fn = staticmethod(dcasgd_rule)
    _init_reads_weight = True
    _statics = ("momentum", "lamda", "clip_gradient")

    def __init__(
        self, learning_rate: float | None = 0.1, momentum: float = 0.0, lamda: float = 0.04,
        use_fused_step: bool = False, **kwargs: Any,
    ):  # fmt: skip
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.momentum = momentum
        self.lamda = lamda

    def init(self, weight: jax.Array) -> States:
        previous = jnp.array(weight, copy=True)
        return (jnp.zeros_like(weight), previous) if self.momentum else (previous,)

    def _pack_state(self, leaves: tuple[Any, ...]) -> Any:
        return leaves if self.momentum else (None, *leaves)


def lars_factor(w_norm: Any, g_norm: Any, wd: Any, eta: float, epsilon: float, module: Any) -> Any:
    """The factor of a weight's rate by LARS, computed with NumPy or with JAX's: 1 for a weight or gradient of zeros, or
    one that overflowed."""
    trust = eta * w_norm / (g_norm + wd * w_norm + epsilon)
    ratio = w_norm / g_norm
    plain = (ratio == 0) | ~module.isfinite(ratio)
    return module.where(plain, 1.0, trust).astype(trust.dtype)


def lars_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    momentum: float, eta: float, epsilon: float, clip_gradient: float | None, adapt: bool,
) -> tuple[jax.Array, States]:  # fmt: skip
    if adapt:
        lr = lr * lars_factor(norm(weight), norm(grad * rescale), wd, eta, epsilon, jnp)
    return sgd_rule(
        weight, grad, states, rescale, lr, wd, momentum=momentum, clip_gradient=clip_gradient
    )


@worded("optimizer")
@register
class LARS(_Momentum):
    """Layer-wise adaptive rates for large batches (https://arxiv.org/abs/1708.03888).

    Weights whose name ends in gamma, beta or bias take the plain learning rate. MXNet 1 calls ``epsilon`` ``eps``, and
    scales the momentum by how the learning rate changed since the last update (``momentum_correction=False`` does not).

    Args:
      eta: the factor of the norms' ratio.

    >>> LARS(eta=0.01).eta
    0.01
    """

    rule_fn = staticmethod(lars_rule)
    rows_need_all = True
    _decaying = ("_weight",)
    _statics = ("momentum", "eta", "epsilon", "clip_gradient")
    _former = ("eps", "momentum_correction")

    def __init__(
        self, learning_rate: float | None = 0.1, momentum: float = 0.0, eta: float = 0.001,
        epsilon: float = 1e-8, lazy_update: bool = False, use_fused_step: bool = True,
        aggregate_num: int = 1, **kwargs: Any,
    ):  # fmt: skip
        epsilon = renamed(kwargs, "eps", epsilon)
        first = generation() == 1
        self.momentum_correction = first and bool(kwargs.pop("momentum_correction", True))
        #: Whether momenta are scaled, and by what, for how many weights of the update that is being counted.
        self._numbers_have_memory = first
        self._corrections: list[float] = []
        self.cur_lr: float | None = None
        self.last_lr: float | None = None
        super().__init__(
            learning_rate=learning_rate, use_fused_step=use_fused_step,
            aggregate_num=aggregate_num, **kwargs,
        )  # fmt: skip
        if lazy_update and (self.multi_precision or not use_fused_step):
            raise MXNetValueError(
                "lazy_update goes with use_fused_step=True and multi_precision=False only"
            )
        self.momentum = momentum
        self.eta = eta
        self.epsilon = epsilon
        self.lazy_update = lazy_update

    def _update_count(self, index: Any) -> None:
        super()._update_count(index)
        if self._numbers_have_memory:
            rate = self.learning_rate
            self.last_lr, self.cur_lr = rate if self.cur_lr is None else self.cur_lr, rate
            change = rate / self.last_lr if self.momentum_correction and self.last_lr else 1.0
            # MXNet updates so many weights at a time: the others see a rate that did not change.
            self._corrections = [change] * self.aggregate_num

    def numbers(self, lr: Any, wd: Any, t: Any) -> tuple[Any, ...]:
        if not self._numbers_have_memory:
            return lr, wd
        return lr, wd, self._corrections.pop() if self._corrections else 1.0

    @property
    def eps(self) -> float:
        """`epsilon`, as MXNet 1 calls it."""
        return self.epsilon

    def _adapts(self, index: Any) -> bool:
        return not self.idx2name.get(index, str(index)).endswith(("gamma", "beta", "bias"))

    def _own_statics(self, index: Any) -> tuple[tuple[str, Any], ...]:
        return (("adapt", self._adapts(index)),)

    def _l2norm(self, v: Any, rescale: bool = False) -> Any:
        """The norm of an array in float32, of a gradient that is rescaled: a number in MXNet 1, else an array."""
        size = v.as_nd_ndarray().astype("float32").norm() * (self.rescale_grad if rescale else 1)
        return size.asscalar() if generation() == 1 else size

    def _get_lars(self, i: Any, weight: Any, g: Any, *rates: float) -> Any:
        """What the rate of a weight is multiplied with, by its gradient and the weight decay; in MXNet 1 that product,
        by its gradient, the learning rate and the decay."""
        factor = 1.0
        if self._adapts(i):
            both = self._l2norm(weight), self._l2norm(g, rescale=True)
            size, slope = (np.float64(n if generation() == 1 else n.asscalar()) for n in both)
            with np.errstate(all="ignore"):
                factor = lars_factor(size, slope, rates[-1], self.eta, self.epsilon, np)
        return rates[0] * factor if generation() == 1 else np.float32(factor)


@worded("optimizer")
@register
class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics: half a step, and noise of variance `lr`.

    The noise comes from mxjax's generator, so `mx.random.seed` repeats it
    (https://www.stats.ox.ac.uk/~teh/research/compstats/WelTeh2011a.pdf).

    >>> SGLD().lr
    0.1
    """

    def __init__(
        self, learning_rate: float | None = 0.1, use_fused_step: bool = False, **kwargs: Any
    ):
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)

    def create_state(self, index: Any, weight: Any) -> None:
        return None

    def step(self, indices: Any, weights: Any, grads: Any, states: Any) -> None:
        from mxjax.np import random

        for index, weight, grad in zip(indices, weights, grads, strict=True):
            self._update_count(index)
            lr, wd = self._get_lr(index), self._get_wd(index)
            grad = grad * self.rescale_grad
            if self.clip_gradient is not None:
                grad = grad.clip(-self.clip_gradient, self.clip_gradient)
            noise = random.normal(
                0.0, math.sqrt(lr), weight.shape, dtype=weight.dtype, device=weight.device
            )
            weight[:] = weight - lr / 2 * (grad + wd * weight) + noise


def plain_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any
) -> tuple[jax.Array, States]:
    return weight - lr * (grad * rescale + wd * weight), states


@register
class Test(Optimizer):
    """Plain descent with a state it does not use, for tests of what drives an optimizer.

    Args:
      rescale_grad: a factor of the gradient.
      param_idx2name: names of the weights by their number.
      wd: the weight decay.
      clip_gradient: gradients are cut off at this absolute value; never without.
      learning_rate: the learning rate, unless a scheduler has one.
      lr_scheduler: the schedule of the learning rate.
      sym: the symbol whose attributes are read.
      begin_num_update: the count of updates to start from.
      multi_precision: whether 16-bit weights have float32 copies that are updated.
      param_dict: the parameters by number, whose multipliers count.
      aggregate_num: taken for compatibility; a step is one call for all weights in any case.
      use_fused_step: taken for compatibility; a step is one program in any case.

    >>> Test().lr
    0.01
    """

    __test__ = False  # pytest would take it for a class of tests
    rule_fn = staticmethod(plain_rule)

    def init(self, weight: jax.Array) -> States:
        return (jnp.zeros(weight.shape, weight.dtype),)
