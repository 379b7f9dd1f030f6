"""What optimizers of MXNet 1.9 do otherwise, where code is to meet that generation (the setting `compat.version`).

Five clip the gradient with the weight decay in it, AdaGrad and AdaDelta decay the weight apart, and some arguments that
are not given mean other numbers: a learning rate of 0.01, or the scheduler's own.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp

from mxjax.modes import generation

from ..ops.optimizer import rooted
from . import adam, adaptive, sgd
from .optimizer import Optimizer
from .rules import OF_MXNET1, Rule, States, is_on, moment, prepare

#: What is meant where an argument is not given.
DEFAULTS: dict[type[Optimizer], dict[str, Any]] = {
    sgd.SGD: {"learning_rate": None},
    sgd.NAG: {"learning_rate": None, "momentum": 0.0},
    sgd.DCASGD: {"learning_rate": None},
    sgd.SGLD: {"learning_rate": None},
    sgd.LARS: {"learning_rate": None, "epsilon": 0.0, "aggregate_num": 4},
    adam.Adam: {},
    adaptive.AdaGrad: {"learning_rate": None, "epsilon": 1e-7},
    adaptive.AdaDelta: {"learning_rate": None, "epsilon": 1e-5},
    adaptive.GroupAdaGrad: {"learning_rate": None, "epsilon": 1e-5},
    adaptive.Ftrl: {},
    adaptive.FTML: {"learning_rate": None},
}


def _begin(klass: type[Optimizer], defaults: dict[str, Any]) -> None:
    """Let a class look at the generation as it is made."""
    made: Any = klass.__init__
    options = list(inspect.signature(klass).parameters)

    @wraps(made)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = {*options[: len(args)], *kwargs}
        if generation() == 1:
            if klass is adaptive.Ftrl and kwargs.get("lr_scheduler") is not None:
                args = (None, *args[1:])  # the scheduler's rate alone counts
                kwargs.pop("learning_rate", None)
            kwargs |= {name: value for name, value in defaults.items() if name not in given}
            if kwargs.get("multi_precision") and not issubclass(klass, adam.Adam):
                kwargs.pop("lazy_update", None)  # its update of float32 copies has no sparse form
        made(self, *args, **kwargs)
        if generation() == 1 and "lazy_update" in options and "lazy_update" not in given:
            self.lazy_update = not self.multi_precision or isinstance(self, adam.Adam)

    klass.__init__ = __init__  # type: ignore[method-assign]


def _clipping_the_decay(rule: Rule) -> Rule:
    """The rule, whose gradient is clipped with the weight decay in it."""

    @wraps(rule)
    def changed(
        weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *more: Any,
        clip_gradient: float | None, **statics: Any,
    ) -> tuple[jax.Array, States]:  # fmt: skip
        grad = prepare(grad * rescale + wd * weight, 1.0, clip_gradient)
        return rule(weight, grad, states, 1.0, lr, None, *more, clip_gradient=None, **statics)

    return changed


def _nag_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    momentum: float, clip_gradient: float | None, nesterov: bool,
) -> tuple[jax.Array, States]:  # fmt: skip
    """MXNet 1's operator takes the decay of its momentum from the weight that it has just updated."""
    new, after = sgd.nag_rule(
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
    return new, tuple(mom - lr * wd * (new - weight) for mom in after)


def _lars_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, change: Any, **statics: Any
) -> tuple[jax.Array, States]:  # fmt: skip
    """The momentum grows as the learning rate does."""
    moved = tuple([(mom * change).astype(mom.dtype) for mom in states])
    return sgd.lars_rule(weight, grad, moved, rescale, lr, wd, **statics)


def _adagrad_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    epsilon: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    grad = prepare(grad, rescale, clip_gradient)
    history = states[0] + jnp.square(grad)
    return weight - lr * (grad / jnp.sqrt(history + epsilon) + wd * weight), (history,)


def _adadelta_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    rho: float, epsilon: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    """Without a learning rate."""
    new, (acc_grad, acc_delta) = adaptive.adadelta_rule(
        weight,
        grad,
        states,
        rescale,
        1.0,
        None,
        rho=rho,
        epsilon=epsilon,
        clip_gradient=clip_gradient,
    )
    return new - wd * weight, (acc_grad, acc_delta)


def _dcasgd_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    momentum: float, lamda: float, clip_gradient: float | None,
) -> tuple[jax.Array, States]:  # fmt: skip
    """What makes up for the delay is worked out of the gradient without the decay."""
    new, (*mom, previous) = sgd.dcasgd_rule(
        weight,
        grad,
        states,
        rescale,
        lr,
        None,
        momentum=momentum,
        lamda=lamda,
        clip_gradient=clip_gradient,
    )
    decay = lr * wd * weight
    return new - decay, (*[m - decay for m in mom], previous)


def _rmsprop_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any, *,
    rho: float, epsilon: float, centered: bool, clip_weights: Any, **statics: Any,
) -> tuple[jax.Array, States]:  # fmt: skip
    """Epsilon stands under the root in both forms."""
    if centered:  # whose states are the means of squares, of gradients, and the step; MXNet 2 begins with gradients
        squares, mean, delta = states
        new, (mean, squares, delta) = adaptive.rmsprop_rule(
            weight, grad, (mean, squares, delta), rescale, lr, wd, rho=rho, epsilon=epsilon, centered=True,
            clip_weights=clip_weights, **statics,
        )  # fmt: skip
        return new, (squares, mean, delta)
    var = moment(grad, states[0], rho, 2)
    new = weight - lr * grad / jnp.sqrt(var + epsilon)
    return jnp.clip(new, -clip_weights, clip_weights) if is_on(clip_weights) else new, (var,)


def _plain_rule(
    weight: jax.Array, grad: jax.Array, states: States, rescale: Any, lr: Any, wd: Any
) -> Any:
    new = weight + grad * rescale
    return new, (new,)


def _update_impl(
    self: Optimizer,
    indices: Any,
    weights: Any,
    grads: Any,
    states: Any,
    multi_precision: bool = False,
) -> None:
    """The class's own update, which programs' subclasses call."""
    (Optimizer.update_multi_precision if multi_precision else Optimizer.update)(
        self, indices, weights, grads, states
    )


def _plain_steps_are_lazy(self: sgd.NAG, index: Any, weight: Any) -> bool:
    """Without a momentum NAG is `sgd_update`, which leaves rows without a gradient as they are unless told."""
    return self.lazy_update or (
        generation() == 1 and not self.momentum and not self.has_master_copy(weight)
    )


def _rule_in_place(self: sgd.NAG) -> Rule:
    """A sparse weight is updated as a dense copy, so that the momentum still decays by the weight of before."""
    return sgd.nag_rule if self._of_copies else Optimizer._rule(self)


sgd.NAG._rule = _rule_in_place  # type: ignore[assignment, method-assign]
sgd.NAG.updates_rows = _plain_steps_are_lazy  # type: ignore[assignment, method-assign]
for _heir in (sgd.SGD, sgd.NAG, sgd.Signum, sgd.LARS, adam.LAMB):
    _heir._update_impl = _update_impl  # type: ignore[union-attr]
for _klass, _defaults in DEFAULTS.items():
    _begin(_klass, _defaults)
for _rule in (adam.adam_rule, adam.adamax_rule, adam.nadam_rule, adaptive.ftml_rule):
    OF_MXNET1[_rule] = _clipping_the_decay(_rule)
OF_MXNET1[adaptive.rmsprop_rule] = _clipping_the_decay(_rmsprop_rule)
OF_MXNET1 |= {
    sgd.nag_rule: _nag_rule, sgd.lars_rule: _lars_rule,
    adaptive.adagrad_rule: _adagrad_rule, adaptive.adadelta_rule: _adadelta_rule,
    adaptive.group_adagrad_rule: adaptive.group_adagrad(rooted),
    sgd.dcasgd_rule: _dcasgd_rule, sgd.plain_rule: _plain_rule,
}  # fmt: skip
