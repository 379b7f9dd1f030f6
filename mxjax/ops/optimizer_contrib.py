"""Steps of AdamW, AdaBelief, LAMB and LANS as operators, for one weight and for many (`nd.contrib.adamw_update`, ...).

The first two take the gradient's scale as an array: where it is zero or not finite (a loss scaler's overflow) nothing
changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from .optimizer import bias, bounded, lamb_update_phase1, lamb_update_phase2, within
from .samples import Given, case, f
from .table import op

_W = f(3, 4)
_POS = f(3, 4, low=0.1)
_SCALE = Given([1.0], "float32")
_NUMBERS = ("beta1", "beta2", "epsilon", "clip_gradient")


def _adamw(
    g: Any,
    w: Any,
    mean: Any,
    var: Any,
    lr: Any,
    eta: Any,
    wd: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    clip_gradient: Any,
) -> Any:
    g = within(g, clip_gradient)
    mean, var = beta1 * mean + (1 - beta1) * g, beta2 * var + (1 - beta2) * g * g
    return w - eta * (lr * mean / (jnp.sqrt(var) + epsilon) + wd * w), mean, var


def _adabelief(
    g: Any,
    w: Any,
    mean: Any,
    var: Any,
    lr: Any,
    eta: Any,
    wd: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    clip_gradient: Any,
) -> Any:
    g = within(g + wd * w, clip_gradient)
    mean = beta1 * mean + (1 - beta1) * g
    var = beta2 * var + (1 - beta2) * jnp.square(g - mean) + epsilon
    return w - eta * (lr * mean / (jnp.sqrt(var) + epsilon)), mean, var


def _scaled(rule: Callable[..., Any], arrays: Any, scale: Any, *numbers: Any) -> Any:
    """(weight, mean, var[, weight32]) after a step of (weight, grad, mean, var[, weight32])."""
    weight, grad, mean, var, *wide = arrays
    before = wide[0] if wide else weight
    scale = scale.reshape(()).astype(before.dtype)
    goes = jnp.isfinite(scale) & (scale != 0)
    made = rule(grad.astype(before.dtype) * scale, before, mean, var, *numbers)
    new, mean, var = (jnp.where(goes, n, o) for n, o in zip(made, (before, mean, var), strict=True))
    # A step that is left out leaves the narrow weight alone, too.
    return (
        (jnp.where(goes, new.astype(weight.dtype), weight), mean, var, new)
        if wide
        else (new, mean, var)
    )


def _places(attrs: dict[str, Any], parts: int, count: str) -> tuple[int, ...]:
    return tuple([k * parts + s for k in range(attrs.get(count, 1)) for s in range(2, parts)])


def _of_many(name: str, data: Any, parts: int, count: int, step: Callable[[int, Any], Any]) -> Any:
    """All new weights, then all new states, of data weight by weight."""
    if len(data) != parts * count:
        raise ValueError(
            f"{name} takes {parts} arrays a weight, of {count} weights, got {len(data)} arrays"
        )
    made = [step(k, data[k * parts : (k + 1) * parts]) for k in range(count)]
    return tuple([m[0] for m in made]) + tuple([s for m in made for s in m[1:]])


def _family(name: str, rule: Callable[..., Any]) -> None:
    """The rows of a rule: one weight or many, each with or without a float32 copy."""

    def one(
        weight: Any, grad: Any, mean: Any, var: Any, rescale_grad: Any, *, lr: float, eta: float, beta1: float = 0.9,
        beta2: float = 0.999, epsilon: float = 1e-8, wd: float = 0.0, clip_gradient: float = -1.0,
    ) -> Any:  # fmt: skip
        return _scaled(
            rule,
            (weight, grad, mean, var),
            rescale_grad,
            lr,
            eta,
            wd,
            beta1,
            beta2,
            epsilon,
            clip_gradient,
        )

    def wide(
        weight: Any, grad: Any, mean: Any, var: Any, weight32: Any, rescale_grad: Any, *, lr: float, eta: float,
        beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, wd: float = 0.0, clip_gradient: float = -1.0,
    ) -> Any:  # fmt: skip
        arrays = weight, grad, mean, var, weight32
        return _scaled(
            rule, arrays, rescale_grad, lr, eta, wd, beta1, beta2, epsilon, clip_gradient
        )

    about = f"One step of {name}: the new weight{{}}; the states change in place, and nothing does where the scale is not finite or zero."
    for prefix, fn, arrays in (
        ("", one, [_W, _W, _W, _POS]),
        ("mp_", wide, [_W, _W, _W, _POS, _W]),
    ):
        op(
            f"{prefix}{name}_update", internal=f"_{prefix}{name}_update", aux=tuple(range(2, len(arrays))), varying=("lr", "eta", "wd"),
            numbers=_NUMBERS, samples=[case(*arrays, _SCALE, lr=0.1, eta=0.5)], smooth=False, doc=about.format(""),
        )(fn)  # fmt: skip

    def many(prefix: str, parts: int, arrays: list[Any]) -> None:
        full = f"multi_{prefix}{name}_update"

        def run(
            *data: Any, lrs: Any, wds: Any, etas: Any, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
            clip_gradient: float = -1.0, num_weights: int = 1,
        ) -> Any:  # fmt: skip
            *data, scale = data  # type: ignore[assignment]

            def step(k: int, own: Any) -> Any:
                return _scaled(
                    rule, own, scale, lrs[k], etas[k], wds[k], beta1, beta2, epsilon, clip_gradient
                )

            return _of_many(full, data, parts, num_weights, step)

        op(
            full, internal="_" + full, aux=lambda attrs: _places(attrs, parts, "num_weights"), smooth=False,
            samples=[case(*arrays, *arrays, _SCALE, lrs=(0.1, 0.2), wds=(0.0, 0.1), etas=(1.0, 0.5), num_weights=2)],
            outputs=lambda attrs, n: attrs["num_weights"], doc=about.format("s of many"),
        )(run)  # fmt: skip

    many("", 4, [_W, _W, _W, _POS])
    many("mp_", 5, [_W, _W, _W, _POS, _W])


_family("adamw", _adamw)
_family("adabelief", _adabelief)


def _norm(x: Any) -> Any:
    return jnp.sqrt(jnp.sum(jnp.square(x)))


def _lamb(
    w: Any, grad: Any, mean: Any, var: Any, lr: Any, t: Any, low: Any, high: Any, **how: Any
) -> Any:
    direction, mean, var = lamb_update_phase1(w, grad, mean, var, t=t, **how)
    return (
        lamb_update_phase2(
            w, direction, _norm(w), _norm(direction), lr=lr, lower_bound=low, upper_bound=high
        ),
        mean,
        var,
    )


def _lans(
    w: Any, grad: Any, mean: Any, var: Any, lr: Any, t: Any, low: Any, high: Any, *, beta1: Any, beta2: Any, epsilon: Any,
    wd: Any, rescale_grad: Any, clip_gradient: Any,
) -> Any:  # fmt: skip
    g = grad.astype(w.dtype) * rescale_grad
    g = within(g / _norm(g), clip_gradient)
    mean, var = beta1 * mean + (1 - beta1) * g, beta2 * var + (1 - beta2) * g * g
    root = jnp.sqrt(var / bias(beta2, t)) + epsilon
    size = bounded(jnp.minimum, bounded(jnp.maximum, _norm(w), low), high)

    def part(direction: Any) -> Any:
        step = direction / root + wd * w
        length = _norm(step)
        return (
            jnp.where((size == 0) | (length == 0), 1, size / jnp.where(length == 0, 1, length))
            * step
        )

    return w - lr * (beta1 * part(mean / bias(beta1, t)) + (1 - beta1) * part(g)), mean, var


def _layerwise(name: str, rule: Callable[..., Any], corrects: bool) -> None:
    """The rows of a rule that looks at each weight's norm, with and without float32 copies."""

    def many(prefix: str, parts: int, arrays: list[Any]) -> None:
        full = f"multi_{prefix}{name}_update"

        def run(
            data: Any, rates: Any, wds: Any, low: Any, high: Any, counts: Any, n: int, **how: Any
        ) -> Any:
            def step(k: int, own: Any) -> Any:
                weight, grad, mean, var, *wide = own
                w = wide[0] if wide else weight
                new, *states = rule(
                    w, grad, mean, var, rates[k], counts[k], low, high, wd=wds[k], **how
                )
                return (new.astype(weight.dtype), *states, new) if wide else (new, *states)

            return _of_many(full, data, parts, n, step)

        def lans(
            *data: Any, learning_rates: Any, wds: Any, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-6,
            rescale_grad: float = 1.0, lower_bound: float = -1.0, upper_bound: float = -1.0, clip_gradient: float = -1.0,
            step_count: Any, num_tensors: int = 1,
        ) -> Any:  # fmt: skip
            return run(
                data, learning_rates, wds, lower_bound, upper_bound, step_count, num_tensors, beta1=beta1, beta2=beta2,
                epsilon=epsilon, rescale_grad=rescale_grad, clip_gradient=clip_gradient,
            )  # fmt: skip

        def lamb(
            *data: Any, learning_rates: Any, wds: Any, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-6,
            rescale_grad: float = 1.0, lower_bound: float = -1.0, upper_bound: float = -1.0, clip_gradient: float = -1.0,
            bias_correction: bool = True, step_count: Any, num_tensors: int = 1,
        ) -> Any:  # fmt: skip
            return run(
                data, learning_rates, wds, lower_bound, upper_bound, step_count, num_tensors, beta1=beta1, beta2=beta2,
                epsilon=epsilon, rescale_grad=rescale_grad, clip_gradient=clip_gradient, bias_correction=bias_correction,
            )  # fmt: skip

        sample = case(
            *arrays,
            *arrays,
            learning_rates=(0.1, 0.2),
            wds=(0.0, 0.1),
            step_count=(1, 2),
            num_tensors=2,
        )
        op(
            full, internal="_" + full, aux=lambda attrs: _places(attrs, parts, "num_tensors"), smooth=False, samples=[sample],
            outputs=lambda attrs, n: attrs["num_tensors"],
            doc=f"One step of {name.upper()} of many weights: the new weights; the states change in place.",
        )(lamb if corrects else lans)  # fmt: skip

    many("", 4, [_W, _W, _W, _POS])
    many("mp_", 5, [_W, _W, _W, _POS, _W])


_layerwise("lamb", _lamb, True)
_layerwise("lans", _lans, False)
