"""Optimizer steps as operators (`nd.sgd_update`, ...): the new weight is the result, states change in place.

Rates, decays, scales and step counts are inputs of the compiled step, so that a schedule costs no compilation.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from .numbers import fitted
from .samples import case, f
from .table import op

_W = f(3, 4)
_POS = f(3, 4, low=0.1)
# A schedule changes them from step to step, which must not compile the step anew.
_VARYING = ("lr", "wd", "rescale_grad", "t")


def _row(name: str, states: int, *numbers: str, **columns: Any) -> Any:
    """A row with a weight, a gradient and states, which follow them and are updated."""
    positive = name in ("adam", "rmsprop", "ftrl", "ftml")
    spread = [f(3, 4, low=-0.2, high=0.2), f(3, 4, low=1.0), _W]
    given = spread if name == "rmspropalex" else [_POS if positive else _W] * states
    samples = [
        case(
            _W,
            _W,
            *given,
            **({} if name.startswith("lamb") else {"lr": 0.1}),
            **({"t": 1} if name == "ftml" else {}),
        )
    ]
    return op(
        f"{name}_update",
        nd=f"{name}_update",
        aux=tuple(range(2, 2 + states)),
        varying=_VARYING,
        numbers=(*numbers, "clip_grad" if name == "ftml" else "clip_gradient"),
        samples=samples,
        smooth=False,
        doc=f"One step of {name}: the new weight; the states change in place.",
        **columns,
    )


def _grad(grad: Any, weight: Any, wd: float, rescale_grad: float, clip_gradient: float) -> Any:
    """What a step goes by; the decay is not clipped, as in MXNet 2 (MXNet 1 clips it in five of these)."""
    return within(grad.astype(weight.dtype) * rescale_grad, clip_gradient) + wd * weight


def within(x: Any, bound: Any) -> Any:
    """x between -bound and bound, if that is not negative."""
    if hasattr(bound, "dtype"):
        return jnp.where(bound >= 0, jnp.clip(x, -bound, bound), x)
    return jnp.clip(x, -bound, bound) if bound is not None and bound >= 0 else x


def bias(beta: float, t: Any) -> Any:
    """What a moving average from zero has reached after t steps, ``1 - beta**t``, exact in float32 too."""
    if hasattr(beta, "dtype"):
        return jnp.where(beta > 0, -jnp.expm1(t * jnp.log(beta)), 1)
    return -jnp.expm1(t * math.log(beta)) if beta > 0 else 1.0


@_row("sgd", 0)
def sgd_update(
    weight: Any, grad: Any, *, lr: float, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    lazy_update: bool = True,
) -> Any:  # fmt: skip
    return weight - lr * _grad(grad, weight, wd, rescale_grad, clip_gradient)


@_row("sgd_mom", 1, "momentum")
def sgd_mom_update(
    weight: Any, grad: Any, mom: Any, *, lr: float, momentum: float = 0.0, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True,
) -> Any:  # fmt: skip
    mom = momentum * mom - lr * _grad(grad, weight, wd, rescale_grad, clip_gradient)
    return weight + mom, mom


@_row("mp_sgd", 1)
def mp_sgd_update(
    weight: Any, grad: Any, weight32: Any, *, lr: float, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, lazy_update: bool = True,
) -> Any:  # fmt: skip
    new = weight32 - lr * _grad(grad, weight32, wd, rescale_grad, clip_gradient)
    return new.astype(weight.dtype), new


@_row("mp_sgd_mom", 2, "momentum")
def mp_sgd_mom_update(
    weight: Any, grad: Any, mom: Any, weight32: Any, *, lr: float, momentum: float = 0.0, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True,
) -> Any:  # fmt: skip
    mom = momentum * mom - lr * _grad(grad, weight32, wd, rescale_grad, clip_gradient)
    new = weight32 + mom
    return new.astype(weight.dtype), mom, new


@_row("nag_mom", 1, "momentum", older=True)
def nag_mom_update(
    weight: Any, grad: Any, mom: Any, *, lr: float, momentum: float = 0.0, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0,
) -> Any:  # fmt: skip
    g = _grad(grad, weight, wd, rescale_grad, clip_gradient)
    mom = momentum * mom - lr * g
    return weight + momentum * mom - lr * g, mom


@_row("mp_nag_mom", 2, "momentum", older=True)
def mp_nag_mom_update(
    weight: Any, grad: Any, mom: Any, weight32: Any, *, lr: float, momentum: float = 0.0, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0,
) -> Any:  # fmt: skip
    g = _grad(grad, weight32, wd, rescale_grad, clip_gradient)
    mom = momentum * mom - lr * g
    new = weight32 + momentum * mom - lr * g
    return new.astype(weight.dtype), mom, new


@_row("adam", 2, "beta1", "beta2", "epsilon", older=True)
def adam_update(
    weight: Any, grad: Any, mean: Any, var: Any, *, lr: float, beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-8, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    lazy_update: bool = True,
) -> Any:  # fmt: skip
    g = _grad(grad, weight, wd, rescale_grad, clip_gradient)
    mean = beta1 * mean + (1 - beta1) * g
    var = beta2 * var + (1 - beta2) * g * g
    return weight - lr * mean / (jnp.sqrt(var) + epsilon), mean, var


def beside(squares: Any, epsilon: Any) -> Any:
    """What MXNet 2 divides by."""
    return jnp.sqrt(squares) + epsilon


def rooted(squares: Any, epsilon: Any) -> Any:
    """What MXNet 1 divides by."""
    return jnp.sqrt(squares + epsilon)


def of_mxnet1(name: str, states: list[Any], *numbers: str, **columns: Any) -> Any:
    """The row ``_rooted_..._update``: a step with its epsilon under the root, for which there is no name of its own."""
    return op(
        f"_rooted_{name}_update",
        display=f"{name}_update",
        operator=False,
        smooth=False,
        aux=tuple(range(2, 2 + len(states))),
        varying=_VARYING,
        numbers=(*numbers, "epsilon", "clip_gradient"),
        samples=[case(_W, _W, *states, lr=0.1)],
        doc=f"One step of {name}, as MXNet 1 takes it.",
        **columns,
    )


def _rmsprop(divisor: Any) -> Any:
    def rmsprop_update(
        weight: Any, grad: Any, n: Any, *, lr: float, rho: float = 0.95, epsilon: float = 1e-8, wd: float = 0.0,
        rescale_grad: float = 1.0, clip_gradient: float = -1.0, clip_weights: float = -1.0,
    ) -> Any:  # fmt: skip
        g = _grad(grad, weight, wd, rescale_grad, clip_gradient)
        n = rho * n + (1 - rho) * g * g
        return within(weight - lr * g / divisor(n, epsilon), clip_weights), n

    return rmsprop_update


_RMSPROP: Any = dict(once={"gamma1": "rho"})
_row("rmsprop", 1, "rho", "epsilon", "clip_weights", older=True, **_RMSPROP)(_rmsprop(beside))
of_mxnet1("rmsprop", [_POS], "rho", "clip_weights", **_RMSPROP)(_rmsprop(rooted))


@_row(
    "rmspropalex",
    3,
    "rho",
    "momentum",
    "epsilon",
    "clip_weights",
    once={"gamma1": "rho", "gamma2": "momentum"},
    older=True,
)
def rmspropalex_update(
    weight: Any, grad: Any, n: Any, g: Any, delta: Any, *, lr: float, rho: float = 0.95, momentum: float = 0.9,
    epsilon: float = 1e-8, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    clip_weights: float = -1.0,
) -> Any:  # fmt: skip
    d = _grad(grad, weight, wd, rescale_grad, clip_gradient)
    # As MXNet 2 has it, the state called n is the running mean and the one called g that of squares.
    n = rho * n + (1 - rho) * d
    g = rho * g + (1 - rho) * d * d
    delta = momentum * delta - lr * d / jnp.sqrt(g - n * n + epsilon)
    new = weight + delta
    return within(new, clip_weights), n, g, delta


@_row("ftrl", 2, "lamda1", "beta")
def ftrl_update(
    weight: Any, grad: Any, z: Any, n: Any, *, lr: float, lamda1: float = 0.01, beta: float = 1.0, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0,
) -> Any:  # fmt: skip
    g = _grad(grad, weight, 0.0, rescale_grad, clip_gradient)
    z = z + g - (jnp.sqrt(n + g * g) - jnp.sqrt(n)) * weight / lr
    n = n + g * g
    new = (jnp.sign(z) * lamda1 - z) / ((beta + jnp.sqrt(n)) / lr + wd)
    return jnp.where(jnp.abs(z) > lamda1, new, 0).astype(weight.dtype), z, n


@_row("ftml", 3, "beta1", "beta2", "epsilon", required=("t",), older=True)
def ftml_update(
    weight: Any, grad: Any, d: Any, v: Any, z: Any, *, lr: float, beta1: float = 0.6, beta2: float = 0.999,
    epsilon: float = 1e-8, t: int = 1, wd: float = 0.0, rescale_grad: float = 1.0, clip_grad: float = -1.0,
) -> Any:  # fmt: skip
    g = _grad(grad, weight, wd, rescale_grad, clip_grad)
    v = beta2 * v + (1 - beta2) * g * g
    new_d = bias(beta1, t) / lr * (jnp.sqrt(v / bias(beta2, t)) + epsilon)
    z = beta1 * z + (1 - beta1) * g - (new_d - beta1 * d) * weight
    return -z / new_d, new_d, v, z


@_row("signsgd", 0)
def signsgd_update(
    weight: Any,
    grad: Any,
    *,
    lr: float,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
) -> Any:
    return (1 - lr * wd) * weight - lr * jnp.sign(
        _grad(grad, weight, 0.0, rescale_grad, clip_gradient)
    )


@_row("signum", 1, "momentum", "wd_lh")
def signum_update(
    weight: Any, grad: Any, mom: Any, *, lr: float, momentum: float = 0.0, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, wd_lh: float = 0.0,
) -> Any:  # fmt: skip
    g = _grad(grad, weight, wd, rescale_grad, clip_gradient)
    mom = momentum * mom - (1 - momentum) * g
    return (1 - lr * wd_lh) * weight + lr * jnp.sign(mom), mom


@op(
    nd="lamb_update_phase1",
    aux=(2, 3),
    varying=_VARYING,
    samples=[case(_W, _W, _POS, _POS, t=1, wd=0.1)],
    smooth=False,
    numbers=("beta1", "beta2", "epsilon", "clip_gradient"),
    nd_order="weight grad mean var beta1 beta2 epsilon t bias_correction wd rescale_grad clip_gradient",
    required=("wd",),
)
def lamb_update_phase1(
    weight: Any, grad: Any, mean: Any, var: Any, *, t: int, beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-6, bias_correction: bool = True, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
) -> Any:  # fmt: skip
    """The direction of a LAMB step; mean and variance change in place."""
    g = _grad(grad, weight, 0.0, rescale_grad, clip_gradient)
    mean = beta1 * mean + (1 - beta1) * g
    var = beta2 * var + (1 - beta2) * g * g
    m, v = (mean / bias(beta1, t), var / bias(beta2, t)) if bias_correction else (mean, var)
    return m / (jnp.sqrt(v) + epsilon) + wd * weight, mean, var


@op(
    nd="lamb_update_phase2",
    varying=_VARYING,
    samples=[case(_W, _W, f(1, low=0.1), f(1, low=0.1), lr=0.1)],
    smooth=False,
    numbers=("lower_bound", "upper_bound"),
)
def lamb_update_phase2(
    weight: Any,
    g: Any,
    r1: Any,
    r2: Any,
    *,
    lr: float,
    lower_bound: float = -1.0,
    upper_bound: float = -1.0,
) -> Any:
    """The new weight of a LAMB step, from its direction and the norms of weight and direction."""
    r1 = bounded(jnp.maximum, r1, lower_bound)
    r1 = bounded(jnp.minimum, r1, upper_bound)
    ratio = jnp.where((r1 == 0) | (r2 == 0), 1, r1 / jnp.where(r2 == 0, 1, r2))
    return weight - lr * ratio * g


def bounded(fn: Any, x: Any, bound: Any) -> Any:
    """x with a bound, if that is not negative."""
    if hasattr(bound, "dtype"):
        return jnp.where(bound >= 0, fn(x, fitted(bound, x.dtype)), x)
    return fn(x, fitted(bound, x.dtype)) if bound >= 0 else x


@op(
    nd="mp_lamb_update_phase1", aux=(2, 3), varying=_VARYING, smooth=False,
    samples=[case(_W, _W, _POS, _POS, _W, t=1, wd=0.1)], numbers=("beta1", "beta2", "epsilon", "clip_gradient"),
)  # fmt: skip
def mp_lamb_update_phase1(
    weight: Any, grad: Any, mean: Any, var: Any, weight32: Any, *, beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-6, t: int, bias_correction: bool = True, wd: float, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
) -> Any:  # fmt: skip
    """The direction of a LAMB step of a float16 weight, from its float32 copy; mean and variance change in place."""
    return lamb_update_phase1(
        weight32, grad, mean, var, t=t, beta1=beta1, beta2=beta2, epsilon=epsilon, bias_correction=bias_correction, wd=wd,
        rescale_grad=rescale_grad, clip_gradient=clip_gradient,
    )  # fmt: skip


@op(
    nd="mp_lamb_update_phase2", aux=(4,), varying=_VARYING, smooth=False,
    samples=[case(_W, _W, f(1, low=0.1), f(1, low=0.1), _W, lr=0.1)], numbers=("lower_bound", "upper_bound"),
)  # fmt: skip
def mp_lamb_update_phase2(
    weight: Any,
    g: Any,
    r1: Any,
    r2: Any,
    weight32: Any,
    *,
    lr: float,
    lower_bound: float = -1.0,
    upper_bound: float = -1.0,
) -> Any:
    """The new weight of a LAMB step of a float16 weight; its float32 copy changes in place."""
    new = lamb_update_phase2(
        weight32, g, r1, r2, lr=lr, lower_bound=lower_bound, upper_bound=upper_bound
    )
    return new.astype(weight.dtype), new


def _group_adagrad(divisor: Any) -> Any:
    def group_adagrad_update(
        weight: Any, grad: Any, history: Any, *, lr: float, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
        epsilon: float = 1e-5,
    ) -> Any:  # fmt: skip
        """One step of AdaGrad with one history a row, (N, 1): the new weight; the history changes in place."""
        g = _grad(grad, weight, 0.0, rescale_grad, clip_gradient)
        history = history + jnp.square(g).mean(tuple(range(1, g.ndim)), keepdims=True)
        return weight - lr * g / divisor(history, epsilon), history

    return group_adagrad_update


_COLUMN = f(3, 1, low=0.1)
op(
    nd_contrib="group_adagrad_update",
    aux=(2,),
    varying=_VARYING,
    smooth=False,
    samples=[case(_W, _W, _COLUMN, lr=0.1)],
    older=True,
    numbers=("epsilon", "clip_gradient"),
)(_group_adagrad(beside))
of_mxnet1("group_adagrad", [_COLUMN])(_group_adagrad(rooted))


# ------------------------------------------------------------------------- many weights at a time


def _many(momentum: bool, wide: bool, preloaded: bool) -> None:
    """A row that makes one step of many weights: arrays weight by weight, and with ``preloaded`` rates and decays as arrays."""
    states = momentum + wide
    parts = 2 + states
    step: Any = {(False, False): sgd_update, (True, False): sgd_mom_update, (False, True): mp_sgd_update,
                 (True, True): mp_sgd_mom_update}[momentum, wide]  # fmt: skip
    name = (
        "preloaded_" * preloaded + "multi_" + "mp_" * wide + "sgd_" + "mom_" * momentum + "update"
    )

    def run(data: Any, lrs: Any, wds: Any, count: int, **how: Any) -> Any:
        if len(data) != parts * count:
            raise ValueError(
                f"{name} takes {parts} arrays a weight, num_weights={count}, got {len(data)} arrays"
            )
        made = [
            step(*data[k * parts : (k + 1) * parts], lr=lrs[k], wd=wds[k], **how)
            for k in range(count)
        ]
        if not states:
            return tuple(made)
        return tuple([m[0] for m in made]) + tuple([s for m in made for s in m[1:]])

    def given(
        *data: Any,
        lrs: Any,
        wds: Any,
        rescale_grad: float = 1.0,
        clip_gradient: float = -1.0,
        num_weights: int = 1,
    ) -> Any:
        return run(
            data, lrs, wds, num_weights, rescale_grad=rescale_grad, clip_gradient=clip_gradient
        )

    def given_mom(
        *data: Any, lrs: Any, wds: Any, momentum: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
        num_weights: int = 1,
    ) -> Any:  # fmt: skip
        return run(
            data,
            lrs,
            wds,
            num_weights,
            momentum=momentum,
            rescale_grad=rescale_grad,
            clip_gradient=clip_gradient,
        )

    def loaded(
        *data: Any, rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1
    ) -> Any:
        *data, lrs, wds = data  # type: ignore[assignment]
        return run(
            data, lrs, wds, num_weights, rescale_grad=rescale_grad, clip_gradient=clip_gradient
        )

    def loaded_mom(
        *data: Any,
        momentum: float = 0.0,
        rescale_grad: float = 1.0,
        clip_gradient: float = -1.0,
        num_weights: int = 1,
    ) -> Any:
        *data, lrs, wds = data  # type: ignore[assignment]
        return run(
            data,
            lrs,
            wds,
            num_weights,
            momentum=momentum,
            rescale_grad=rescale_grad,
            clip_gradient=clip_gradient,
        )

    def written(attrs: dict[str, Any]) -> tuple[int, ...]:
        return tuple(
            [k * parts + s for k in range(attrs.get("num_weights", 1)) for s in range(2, parts)]
        )

    arrays = [_W] * (2 * parts)
    sample = case(
        *arrays,
        *([f(2), f(2)] if preloaded else []),
        num_weights=2,
        **({} if preloaded else {"lrs": (0.1, 0.2), "wds": (0.0, 0.1)}),
    )
    fn: Any = (
        (loaded_mom if momentum else loaded) if preloaded else (given_mom if momentum else given)
    )
    op(
        name, nd=name, aux=written if states else (), samples=[sample], smooth=False, outputs=lambda attrs, n: attrs["num_weights"],
        doc=f"One step of SGD for {'float16 ' if wide else ''}weights, {parts} arrays each: the new weights"
        + ("; the states change in place." if states else "."),
    )(fn)  # fmt: skip


for _momentum in (False, True):
    for _wide in (False, True):
        for _preloaded in (False, True):
            _many(_momentum, _wide, _preloaded)


@op(
    nd="multi_lars",
    samples=[case(f(3), f(3, low=0.1), f(3, low=0.1), f(3), eta=0.1, eps=1e-8)],
    smooth=False,
    numbers=("eta", "eps", "rescale_grad"),
)
def multi_lars(
    lrs: Any,
    weights_sum_sq: Any,
    grads_sum_sq: Any,
    wds: Any,
    *,
    eta: float,
    eps: float,
    rescale_grad: float = 1.0,
) -> Any:
    """The rates of LARS (You et al. 2017) for many weights, from the sums of squares of weights and gradients."""
    w, g = jnp.sqrt(weights_sum_sq), jnp.sqrt(grads_sum_sq) * rescale_grad
    return jnp.where((w > 0) & (g > 0), lrs * eta * w / (g + wds * w + eps), lrs)


@op(
    nd="reset_arrays",
    aux=lambda attrs: tuple(range(attrs["num_arrays"])),
    samples=[case(_W, f(2), num_arrays=2)],
    smooth=False,
    outputs=0,
)
def reset_arrays(*data: Any, num_arrays: int) -> Any:
    """Zeros in place of all numbers of these arrays."""
    return tuple([jnp.zeros_like(x) for x in data])
