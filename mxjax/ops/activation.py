"""Activations and the softmax family."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mxjax.core import compiler

from .elementwise import truncated
from .lowering import softmax as lowering
from .numbers import fitted
from .samples import Given, b, case, f, i
from .table import op, unary, without


def _refuse_bool(fn: Any, name: str) -> Any:
    def checked(x: Any) -> Any:
        if x.dtype == bool:
            raise TypeError(
                f"{name} is not defined for bool arrays; convert them: x.astype('float32')"
            )
        return fn(x)

    return checked


def _as_float(fn: Any, name: str) -> Any:
    return _refuse_bool(truncated(fn), name)


def _in_32_bits(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """As MXNet, numbers of 16 bits are rounded once, at the end: `1 + erf(x)` has few bits left below 0."""

    @wraps(fn)
    def computed(x: Any) -> Any:
        if jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize == 2:
            return fn(x.astype("float32")).astype(x.dtype)
        return fn(x)

    return computed


@jax.custom_jvp
def relu(x: Any) -> Any:
    return jnp.maximum(x, jnp.zeros((), x.dtype))


@relu.defjvp
def _relu_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    # By the result, as in MXNet: it is kept for the next layer anyway, while `jax.nn.relu` asks for its operand.
    (x,), (g,) = primals, tangents
    # What is not positive is 0, or not a number, and so is the derivative there.
    out = _once(relu(x))
    return out, g * jnp.where(out > 0, jnp.ones((), g.dtype), out)


def _once(out: Any) -> Any:
    """A result that its own derivative reads: where all is kept XLA is held from computing it again for that."""
    return lax.optimization_barrier(out) if compiler.is_all_kept() else out


@_in_32_bits
def softrelu(x: Any) -> Any:
    return jnp.logaddexp(x, jnp.zeros((), x.dtype))


@_in_32_bits
def mish(x: Any) -> Any:
    return x * jnp.tanh(softrelu(x))


@jax.custom_jvp
def _softsign(x: Any) -> Any:
    return x / (1 + jnp.abs(x))


_softsign.defjvps(lambda dx, _, x: dx / jnp.square(1 + jnp.abs(x)))  # which is 0 at infinity
softsign = _in_32_bits(_softsign)
_log_sigmoid = _in_32_bits(jax.nn.log_sigmoid)
_selu = _in_32_bits(jax.nn.selu)


@_in_32_bits
def _gelu(x: Any) -> Any:
    # By `erf`, as in MXNet: XLA:CPU's `erfc`, which JAX takes, makes it 2.5 times as slow.
    half, root = np.asarray(0.5, x.dtype), np.asarray(np.sqrt(0.5), x.dtype)
    return half * x * (1 + lax.erf(x * root))


@_in_32_bits
def _gelu_tanh(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=True)


unary("relu", _refuse_bool(relu, "relu"), np=None, npx="relu", internal="_npx_relu", onnx="Relu")
unary(
    "sigmoid",
    _as_float(jax.nn.sigmoid, "sigmoid"),
    np=None,
    npx="sigmoid",
    internal="_npx_sigmoid",
    onnx="Sigmoid",
)
unary(
    "softsign",
    _as_float(softsign, "softsign"),
    np=None,
    npx="softsign",
    methods=None,
    onnx="Softsign",
)
unary("log_sigmoid", _as_float(_log_sigmoid, "log_sigmoid"), np=None, onnx="log_sigmoid")
unary("mish", _as_float(mish, "mish"), np=None, onnx="mish")
unary("erf", _as_float(jax.scipy.special.erf, "erf"), np=None, npx="erf", methods=None, onnx="Erf")
unary(
    "erfinv",
    _as_float(jax.scipy.special.erfinv, "erfinv"),
    np=None,
    npx="erfinv",
    domain=(-0.9, 0.9),
    amp="full",
    methods=None,
)


@jax.custom_jvp
def _digamma(x: Any) -> Any:
    # At the poles, 0, -1, ..., MXNet's is infinite, where JAX's is NaN.
    pole = (x <= 0) & (x == jnp.floor(x))
    there = jax.scipy.special.digamma(jnp.where(pole, jnp.ones_like(x), x))
    return jnp.where(pole, jnp.full_like(x, np.inf), there)


@_digamma.defjvp
def _digamma_jvp(primals: Any, tangents: Any) -> Any:
    # JAX's polygamma holds for positive numbers; the others are reflected, at the angle that is left of half turns.
    (x,), (dx,) = primals, tangents
    low = x < 0.5
    slope = jax.scipy.special.polygamma(1, jnp.where(low, 1 - x, x))
    turned = jnp.square(np.pi / jnp.sin(np.pi * (x - jnp.round(x)))) - slope
    return _digamma(x), dx * jnp.where(low, turned, slope)


@jax.custom_jvp
def _gammaln(x: Any) -> Any:
    return jax.scipy.special.gammaln(x)


@_gammaln.defjvp
def _gammaln_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return _gammaln(x), dx * _digamma(x)


unary(
    "gammaln",
    _as_float(_gammaln, "gammaln"),
    np=None,
    npx="gammaln",
    domain=(0.3, 3),
    amp="full",
    methods=None,
)
unary(
    "digamma",
    _as_float(_digamma, "digamma"),
    np=None,
    npx="digamma",
    domain=(0.3, 3),
    amp="full",
    methods=None,
)


def _gamma(x: Any) -> Any:
    out = jnp.exp(_gammaln(x)) * jax.scipy.special.gammasgn(x)
    # The factorials are whole numbers; cutting off the exponential's rounding would miss them by one.
    whole = (x == jnp.floor(x)) & jnp.isfinite(out)
    return out + lax.stop_gradient(jnp.where(whole, jnp.round(out) - out, 0))


unary(
    "gamma",
    _as_float(_gamma, "gamma"),
    np=None,
    npx="gamma",
    domain=(0.3, 3),
    amp="full",
    methods=None,
)

ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "relu": relu,
    "sigmoid": jax.nn.sigmoid,
    "log_sigmoid": _log_sigmoid,
    "mish": mish,
    "tanh": jnp.tanh,
    "softrelu": softrelu,
    "softsign": softsign,
}


@op(
    amp_full_if=("act_type", ("softrelu",)),
    npx="activation",
    nd="Activation",
    display="Activation",
    samples=[case(f(3, 4), act_type=t) for t in ACTIVATIONS],
    required=("act_type",),
    onnx="activation",
)
def activation(data: Any, *, act_type: str = "relu") -> Any:
    """Element-wise ``relu sigmoid log_sigmoid mish tanh softrelu softsign``."""
    fn = ACTIVATIONS.get(act_type)
    if fn is None:
        raise ValueError(f"unknown activation type {act_type}: {', '.join(ACTIVATIONS)} exist")
    return fn(data)


_LEAKY = ("leaky", "prelu", "rrelu", "elu", "selu", "gelu", "gelu_erf", "gelu_tanh")


@op(
    amp_full_if=("act_type", ("elu", "selu")),
    npx="leaky_relu",
    nd="LeakyReLU",
    display="LeakyReLU",
    samples=[
        *(case(f(3, 4), act_type=t) for t in ("leaky", "elu", "selu", "gelu", "gelu_tanh")),
        case(f(3, 4, 2), f(4), act_type="prelu"),
    ],
    shapes=lambda shape, **attrs: (
        {"gamma": shape[1:2] or shape} if attrs["act_type"] == "prelu" else {}
    ),
    numbers=("slope", "lower_bound", "upper_bound"),
    initial={"gamma": '["Constant", {"value": 0.25}]'},
    onnx="leaky_relu",
)
def leaky_relu(
    data: Any,
    gamma: Any = None,
    *,
    act_type: str = "leaky",
    slope: float = 0.25,
    lower_bound: float = 0.125,
    upper_bound: float = 0.334,
) -> Any:
    """``leaky prelu rrelu elu selu gelu gelu_tanh``: what they make of negative numbers differs.

    prelu's slopes ``gamma`` are one number, one for each channel (axis 1), or for each of these in each sample.
    """
    x = data
    if act_type == "prelu":
        if gamma.size != 1 and x.ndim > 1:  # of the channels, or of them in each sample
            gamma = gamma.reshape(*gamma.shape, *(1,) * (x.ndim - max(gamma.ndim, 2)))
        return jnp.where(x > 0, x, gamma.astype(x.dtype) * jnp.where(x > 0, 0, x))
    if act_type == "rrelu":  # outside training the slope is the mean one
        slope = (lower_bound + upper_bound) / 2
    if act_type in ("leaky", "rrelu"):
        return jnp.where(x > 0, x, fitted(slope, x.dtype) * x)
    if act_type == "elu":
        below = jnp.where(x > 0, 0, x)  # of `minimum` half the slope would come at 0
        return jnp.where(x > 0, x, fitted(slope, x.dtype) * jnp.expm1(below))
    if act_type == "selu":
        return _selu(x)
    if act_type in ("gelu", "gelu_erf"):
        return _gelu(x)
    if act_type == "gelu_tanh":
        return _gelu_tanh(x)
    raise ValueError(f"unknown act_type {act_type}: {', '.join(_LEAKY)} exist")


def _trains(is_train: bool = False, **attrs: Any) -> bool:
    return is_train


@op(
    "_rrelu",
    npx="_rrelu",
    keyed=_trains,
    modal=True,
    samples=[case(f(3, 4))],
    internal=None,
    numbers=("lower_bound", "upper_bound"),
    onnx="leaky_relu",
)
def rrelu(
    key: Any,
    data: Any,
    *,
    lower_bound: float = 0.125,
    upper_bound: float = 0.334,
    is_train: bool = False,
) -> Any:
    """Leaky relu whose slopes are drawn in training."""
    if not is_train:
        return leaky_relu(data, act_type="rrelu", lower_bound=lower_bound, upper_bound=upper_bound)
    slope = jax.random.uniform(key, data.shape, data.dtype, lower_bound, upper_bound)
    return jnp.where(data > 0, data, slope * data)


@op(
    npx="smooth_l1",
    nd="smooth_l1",
    samples=[case(f(3, 4), scalar=1.0), case(f(3, 4), scalar=2.0)],
    amp="full",
    numbers=("scalar",),
    onnx="smooth_l1",
)
def smooth_l1(data: Any, *, scalar: float = 1.0) -> Any:
    """(scalar * x)^2 / 2 where |x| < 1 / scalar^2, |x| - 0.5 / scalar^2 elsewhere.

    Beside integers ``scalar`` is one too, and so is the result.
    """
    number = fitted(scalar, data.dtype)
    return _refuse_bool(
        truncated(lambda x: _smooth_l1(x, number.astype(x.dtype) ** 2)), "smooth_l1"
    )(data)


def _smooth_l1(x: Any, s2: Any) -> Any:
    near = ~(jnp.abs(x) * s2 >= 1)  # and NaN
    square = jnp.square(jnp.where(near, x, 0))  # elsewhere it may be infinite, and its gradient NaN
    return jnp.where(near, square * s2 / 2, jnp.abs(x) - 0.5 / jnp.asarray(s2))


@op(nd="hard_sigmoid", samples=[case(f(3, 4))], numbers=("alpha", "beta"), onnx="hard_sigmoid")
def hard_sigmoid(data: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    """clip(alpha * x + beta, 0, 1)."""
    line = fitted(alpha, data.dtype) * data + fitted(beta, data.dtype)
    # `clip` would have half of the slope where it bends, MXNet has none there, nor at NaN
    return jnp.where((line > 0) & (line < 1), line, lax.stop_gradient(jnp.clip(line, 0, 1)))


# -------------------------------------------------------------------------------------- softmax


def _floats(data: Any, name: str) -> None:
    if not jnp.issubdtype(data.dtype, jnp.floating):
        raise TypeError(
            f"{name} takes floating-point arrays, got {data.dtype}: x.astype('float32')"
        )


def _scaled(data: Any, temperature: Any, dtype: Any) -> Any:
    """The numbers to be computed with: of the wider of the two dtypes, so that those of a narrow result do not overflow."""
    if dtype is not None:
        data = data.astype(jnp.promote_types(data.dtype, dtype))
    if temperature is None or (not hasattr(temperature, "dtype") and temperature == 1):
        return data
    return data / fitted(temperature, data.dtype)


def _within(data: Any, length: Any, axis: int) -> Any:
    """Which elements lie within the lengths along an axis."""
    at = lax.broadcasted_iota("int32", data.shape, axis % data.ndim)
    return at < jnp.expand_dims(length, axis % data.ndim).astype("int32")


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _softmax(x: Any, axis: int, where: Any = None) -> Any:
    """softmax of the elements ``where`` is true; 0 elsewhere, and where none of a row is above -inf."""
    if where is None:
        return lowering.softmax(x, axis)
    wide = lowering.widened(x)
    top = jnp.max(wide, axis, keepdims=True, initial=-jnp.inf, where=where)
    e = jnp.where(where, jnp.exp(wide - jnp.where(jnp.isfinite(top), top, 0)), 0)
    total = e.sum(axis, keepdims=True)
    return (e / jnp.where(total == 0, 1, total)).astype(x.dtype)


@_softmax.defjvp
def _softmax_jvp(axis: int, primals: Any, tangents: Any) -> tuple[Any, Any]:
    # By the result, as in MXNet: JAX's own asks for the exponentials and their sum.
    out = _once(_softmax(primals[0], axis, primals[1]))
    wide = lowering.widened(out)
    g = wide * tangents[0]
    return out, (g - wide * g.sum(axis, keepdims=True)).astype(out.dtype)


_SOFTMAX = [
    case(f(3, 4)),
    case(f(2, 3, 4), axis=1, temperature=2.0),
    case(f(3, 4), i(3, low=1, high=5), use_length=True),
]


@op(
    npx="softmax",
    nd="softmax",
    display="softmax",
    samples=_SOFTMAX,
    amp="full",
    amp_narrow=True,
    shapes=lambda shape, **attrs: (
        {"length": without(shape, attrs["axis"])} if attrs["use_length"] else {}
    ),
    methods="nd np",
    numbers=("temperature",),
    nd_order="data length axis temperature dtype use_length",
    onnx="softmax",
    sums="axes",
)
def softmax(
    data: Any,
    length: Any = None,
    *,
    axis: int = -1,
    temperature: float | None = None,
    use_length: bool = False,
    dtype: Any = None,
) -> Any:
    """exp(x / temperature) over its sum along an axis; beyond ``length`` it is 0."""
    _floats(data, "softmax")
    if not data.ndim:
        return softmax(data.reshape(1), temperature=temperature, dtype=dtype).reshape(())
    x = _scaled(data, temperature, dtype)
    where = _within(x, length, axis) if use_length and length is not None else None
    return _softmax(x, axis, where).astype(dtype or data.dtype)


@op(
    npx="log_softmax",
    display="log_softmax",
    samples=[_SOFTMAX[0], _SOFTMAX[1]],
    amp="full",
    methods="np",
    numbers=("temperature",),
    onnx="log_softmax",
    sums="axes",
)
def log_softmax(
    data: Any,
    *,
    axis: int = -1,
    length: Any = None,
    temperature: float | None = None,
    use_length: bool = False,
    dtype: Any = None,
) -> Any:
    """The logarithm of softmax, computed without overflow."""
    _floats(data, "log_softmax")
    if use_length and length is not None:
        raise ValueError("log_softmax takes no lengths: npx.masked_log_softmax takes a mask")
    if not data.ndim:
        return log_softmax(data.reshape(1), temperature=temperature, dtype=dtype).reshape(())
    out = lowering.log_softmax(_scaled(data, temperature, dtype), axis)
    return out.astype(dtype or data.dtype)


@op(
    "log_softmax@nd",
    nd="log_softmax",
    display="log_softmax",
    samples=[_SOFTMAX[0]],
    amp="full",
    methods="nd",
    numbers=("temperature",),
    sums="axes",
    onnx="log_softmax",
)
def log_softmax_nd(
    data: Any,
    *,
    axis: int = -1,
    temperature: float | None = None,
    dtype: Any = None,
    use_length: bool = False,
) -> Any:
    """The logarithm of softmax, computed without overflow."""
    return log_softmax(data, axis=axis, temperature=temperature, dtype=dtype)


@op(
    nd="softmin",
    samples=[case(f(3, 4))],
    amp="full",
    amp_narrow=True,
    methods="nd np",
    numbers=("temperature",),
    onnx="softmin",
    sums="axes",
)
def softmin(
    data: Any,
    *,
    axis: int = -1,
    temperature: float | None = None,
    dtype: Any = None,
    use_length: bool = False,
) -> Any:
    """softmax(-x)."""
    return _softmax(-_scaled(data, temperature, dtype), axis).astype(dtype or data.dtype)


_MASKED = [case(f(3, 4), b(3, 4)), case(f(3, 4), b(3, 4), temperature=2.0)]


@op(
    npx="masked_softmax",
    nd="masked_softmax",
    samples=_MASKED,
    amp="full",
    amp_narrow=True,
    numbers=("temperature",),
    onnx="masked_softmax",
)
def masked_softmax(
    data: Any,
    mask: Any,
    *,
    axis: int = -1,
    temperature: float | None = 1.0,
    normalize: bool | None = True,
) -> Any:
    """softmax of the elements where mask is true; 0 elsewhere."""
    return _softmax(_scaled(data, temperature, None), axis, mask.astype(bool))


@op(npx="masked_log_softmax", nd="masked_log_softmax", samples=[case(f(3, 4), Given([[1, 0, 1, 1]], "bool"))],
    smooth=False, amp="full", numbers=("temperature",),  onnx="masked_log_softmax")  # fmt: skip
def masked_log_softmax(
    data: Any,
    mask: Any,
    *,
    axis: int = -1,
    temperature: float | None = 1.0,
    normalize: bool | None = True,
) -> Any:
    """log_softmax of the elements where mask is true; -inf elsewhere."""
    kept = mask.astype(bool)
    x = jnp.where(kept, _scaled(data, temperature, None), -jnp.inf)
    top = lax.stop_gradient(jnp.max(x, axis, keepdims=True, initial=-jnp.inf))
    top = jnp.where(jnp.isfinite(top), top, 0)
    e = jnp.where(kept, jnp.exp(jnp.where(kept, x, 0) - top), 0)
    return jnp.where(kept, x - top - jnp.log(e.sum(axis, keepdims=True)), -jnp.inf)


@op(
    nd="SoftmaxActivation",
    display="SoftmaxActivation",
    samples=[case(f(3, 4)), case(f(2, 3, 4), mode="channel")],
    amp="full",
    amp_narrow=True,
    onnx="softmax_activation",
)
def softmax_activation(data: Any, *, mode: str = "instance") -> Any:
    """softmax over the last axis (``instance``), or over axis 1 (``channel``)."""
    return _softmax(data, 1 if mode == "channel" else -1)


@op(nd="softmax_cross_entropy", samples=[case(f(3, 4), Given([0, 3, 1]))], amp="full")
def softmax_cross_entropy(data: Any, label: Any) -> Any:
    """The sum over rows of -log softmax(data)[label], shape (1,); a row adds at most -log(1e-8), whose gradient is that of all."""
    at = label.astype("int32")[:, None]
    chosen = jnp.take_along_axis(lowering.log_softmax(data, -1), at, 1)
    shown = jnp.maximum(chosen, float(np.log(np.float32(1e-8))))  # MXNet's bound
    return -(chosen + lax.stop_gradient(shown - chosen)).sum().reshape(1)
