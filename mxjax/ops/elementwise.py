"""Element-wise operators of NumPy's kind: arithmetic, comparison, logic, mathematics."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .numbers import cast_like_c, fitted, half_away
from .roots import cbrt, log2, log10
from .samples import Given, b, case, f, i
from .table import binary, fit_bits, fit_division, of_floats, op, unary


def floating(x: Any) -> Any:
    """Integers become the float type MXNet computes them in: float16 for 8 bits, float32 else."""
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return x.astype("float16" if x.dtype.itemsize == 1 else "float32")


def floating_as_numpy(x: Any) -> Any:
    """Integers become the float type NumPy computes them in, where MXNet asks NumPy: float16 for 8 bits, float64 for 32."""
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return x.astype({1: "float16", 2: "float32"}.get(x.dtype.itemsize, "float64"))


def _by_numpy(fn: Any) -> Any:
    return lambda *xs: fn(*[floating_as_numpy(x) for x in xs])


def _math(fn: Any) -> Any:
    return of_floats(lambda x: fn(floating(x)))


def truncated(fn: Any) -> Any:
    """A function of floats for integers too: computed in float64, they come back in their own dtype, cut off
    and wrapping like C's."""

    def like_c(*xs: Any, **attrs: Any) -> Any:
        dtype = functools.reduce(jnp.promote_types, [x.dtype for x in xs])
        if jnp.issubdtype(dtype, jnp.inexact):
            return fn(*(x.astype(dtype) for x in xs), **attrs)
        return cast_like_c(fn(*(x.astype("float64") for x in xs), **attrs), dtype)

    return like_c


def _numbers(fn: Any, name: str) -> Any:
    def checked(*xs: Any) -> Any:
        if all(x.dtype == bool for x in xs):
            raise TypeError(
                f"{name} is not defined for bool arrays; convert them: x.astype('int32')"
            )
        return fn(*xs)

    return checked


def promoted(a: Any, b: Any) -> np.dtype:
    """The dtype that holds both; of a float and an integer it is the float's.

    Raises:
      TypeError: uint64 and a signed integer, which no integers hold.
    """
    with jax.enable_x64(True):
        found = np.dtype(jnp.promote_types(a, b))
    if found.kind == "f" and np.dtype(a).kind in "iu" and np.dtype(b).kind in "iu":
        raise TypeError(
            f"Unsupported type promotions between {np.dtype(a)} and {np.dtype(b)}: give both one dtype, with "
            "x.astype(dtype)"
        )
    return found


def _promote(a: Any, b: Any) -> tuple[Any, Any]:
    """Both in the dtype in which they meet."""
    dtype = promoted(a.dtype, b.dtype)
    return a.astype(dtype), b.astype(dtype)


def _promoted(fn: Any) -> Any:
    return lambda a, b: fn(*_promote(a, b))


def true_divide(a: Any, b: Any) -> Any:
    """Integers divide in float32, whatever their width."""
    if not jnp.issubdtype(jnp.promote_types(a.dtype, b.dtype), jnp.inexact):
        if a.dtype != b.dtype and a.dtype != bool and b.dtype != bool:
            raise TypeError(
                f"true_divide of {a.dtype} by {b.dtype} is not implemented: "
                "give both one integer dtype, or a float dtype, with x.astype(dtype)"
            )
        return jnp.divide(a.astype("float32"), b.astype("float32"))
    return jnp.divide(*_promote(a, b))


def divided(a: Any, b: Any) -> Any:
    """nd's division: integers stay integers, cut off towards zero, and by 0 what they are.

    Where both are constants and the divisor is 0, XLA's compiler divides, and the process ends.
    """
    if jnp.issubdtype(a.dtype, jnp.inexact):
        return jnp.divide(a, b)
    return jax.lax.div(*jnp.broadcast_arrays(a, jnp.where(b == 0, 1, b).astype(a.dtype)))


def mod(a: Any, b: Any) -> Any:
    """The remainder with the sign of the divisor; by zero it is zero, as in MXNet."""
    a, b = _promote(a, b)
    if a.dtype == bool:
        raise TypeError("mod is not defined for bool arrays; convert them: x.astype('int32')")
    zero = b == 0
    safe = jnp.where(zero, jnp.ones_like(b), b)
    out = (_mod_of_floats if jnp.issubdtype(a.dtype, jnp.inexact) else jnp.mod)(a, safe)
    return jnp.where(zero, jnp.zeros_like(out), out)


@jax.custom_jvp
def _mod_of_floats(a: Any, b: Any) -> Any:
    """Exact for numbers of any size, where a - floor(a / b) * b would be rounded."""
    rest = jax.lax.rem(*jnp.broadcast_arrays(a, b))
    return jnp.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


@_mod_of_floats.defjvp
def _mod_of_floats_jvp(primals: Any, tangents: Any) -> Any:
    (a, b), (da, db) = primals, tangents
    whole = floored(a, b)
    return _mod_of_floats(a, b), da - jnp.where(whole == 0, jnp.zeros_like(whole), whole * db)


def floored(a: Any, b: Any) -> Any:
    """floor(a / b) of floats: divided, where XLA would multiply by a scalar's reciprocal and come below a whole number.

    A quotient smaller than normal numbers is zero, as MXNet's processors compute it, whatever computes here.
    """
    quotient = a / jnp.where(a != a, a, b)
    least = np.finfo(
        "float64" if quotient.dtype == "float64" else "float32"
    ).tiny  # float16 is computed in float32
    return jnp.floor(jnp.where(jnp.abs(quotient) < least, 0 * quotient, quotient))


def fmod(a: Any, b: Any) -> Any:
    """The remainder with the sign of the dividend."""
    a, b = _promote(a, b)
    zero = b == 0
    out = jnp.fmod(a, jnp.where(zero, jnp.ones_like(b), b))
    return jnp.where(zero, jnp.zeros_like(out), out)


def floor_divide(a: Any, b: Any) -> Any:
    a, b = _promote(a, b)
    if a.dtype == bool:
        return a & b  # by False it is False, as NumPy's integers by zero are zero
    if jnp.issubdtype(a.dtype, jnp.inexact):
        return floored(a, b)
    return jnp.where(
        b == 0, jnp.zeros_like(a), jnp.floor_divide(a, jnp.where(b == 0, jnp.ones_like(b), b))
    )


def power(a: Any, b: Any) -> Any:
    if isinstance(b, np.ndarray) and b.ndim == 0 and jnp.issubdtype(a.dtype, jnp.floating):
        exponent = b.item()
        if (
            exponent and abs(exponent) <= 16 and exponent == int(exponent)
        ):  # a chain of products, and an easy gradient
            return jax.lax.integer_pow(a, int(exponent))
    a, b = _promote(jnp.asarray(a), jnp.asarray(b))
    if a.dtype == bool:
        return a | ~b
    if not jnp.issubdtype(a.dtype, jnp.inexact):
        return _whole_power(a, b)
    return jnp.power(a, b)


@functools.cache
def _largest_bases(bits: int) -> np.ndarray:
    """By exponent from 0, the largest number whose power fits in a signed word of so many bits."""
    most = (1 << (bits - 1)) - 1
    bases = [most, most]
    for n in range(2, bits):
        low, high = 1, 1 << -(-bits // n)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**n <= most else (low, middle - 1)
        bases.append(low)
    return np.array(bases, f"int{bits}")


def _whole_power(a: Any, b: Any) -> Any:
    """Integers to the power of integers: exact where they fit, and else what MXNet's cast of the float gives.

    Of 1 and -1 it is enough to know whether a negative power is odd; of 0 it is infinite, of others 0.
    """
    small = a.dtype.itemsize < 4 or a.dtype == "int32"
    word = jnp.dtype("int32" if small else "int64")
    x, n = a.astype(word), b.astype(word)
    powers = jnp.power(x, jnp.where(n < 0, n & 1, n))
    powers = jnp.where((n < 0) & ((x > 1) | (x < -1)), jnp.zeros_like(powers), powers)
    # A float64 power would tell what fits, in ten to thirty times the time of all the rest.
    most = jnp.asarray(_largest_bases(word.itemsize * 8))[jnp.clip(n, 0, word.itemsize * 8 - 1)]
    lost = ((n > 1) & ((x > most) | (x < -most))) | ((n < 0) & (x == 0))
    lowest = jnp.iinfo(word).min  # x86's word for a float that no integer is
    powers = jnp.where(lost, jnp.full_like(powers, lowest), powers)
    return powers.astype(a.dtype)


def _extreme(value: Any, left: Any) -> Any:
    """A function of two arrays of floats; where ``left`` the left one has the gradient, beside NaN neither has one."""
    chosen = jax.custom_jvp(value)

    @chosen.defjvp
    def _(given: Any, moved: Any) -> Any:
        (a, b), (da, db) = given, moved
        zero = jnp.zeros_like(da)
        rest = ~(left(a, b) | jnp.isnan(a) | jnp.isnan(b))
        return chosen(a, b), jnp.where(left(a, b), da, zero) + jnp.where(rest, db, zero)

    return chosen


_larger = _extreme(lambda a, b: jnp.where((a >= b) | jnp.isnan(a), a, b), lambda a, b: a >= b)
_smaller = _extreme(lambda a, b: jnp.where((a <= b) | jnp.isnan(a), a, b), lambda a, b: a <= b)


def _chosen(a: Any, b: Any, whole: Any, left: Any) -> Any:
    """``whole(a, b)`` of integers; of floats the left one where ``left(a, b)``, so that gradients know which it was."""
    a, b = _promote(a, b)
    return jnp.where(left(a, b), a, b) if jnp.issubdtype(a.dtype, jnp.inexact) else whole(a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger one; where both are equal the gradient goes to the left."""
    a, b = jnp.broadcast_arrays(*_promote(a, b))
    return (_larger if jnp.issubdtype(a.dtype, jnp.inexact) else jnp.maximum)(a, b)


def minimum(a: Any, b: Any) -> Any:
    a, b = jnp.broadcast_arrays(*_promote(a, b))
    return (_smaller if jnp.issubdtype(a.dtype, jnp.inexact) else jnp.minimum)(a, b)


def fmax(a: Any, b: Any) -> Any:
    """The larger one, a number before NaN; where both are equal the gradient goes to the left."""
    return _chosen(a, b, jnp.maximum, lambda a, b: (a >= b) | jnp.isnan(b))


def fmin(a: Any, b: Any) -> Any:
    return _chosen(a, b, jnp.minimum, lambda a, b: (a <= b) | jnp.isnan(b))


def _float_binary(name: str, fn: Any, **row: Any) -> None:
    """A row of a function of floats: np refuses two integer arrays, nd cuts its numbers off to their dtype,
    and so do both for an integer array and an integer."""

    def checked(a: Any, b: Any) -> Any:
        a, b = _promote(a, b)
        if not jnp.issubdtype(a.dtype, jnp.inexact):
            raise TypeError(
                f"{name} takes floating-point arrays, got {a.dtype}: x.astype('float32')"
            )
        return fn(a, b)

    binary(name, checked, beside=truncated(fn), legacy=_numbers(truncated(fn), name), **row)


def _integers(fn: Any, name: str) -> Any:
    def checked(a: Any, b: Any) -> Any:
        a, b = _promote(a, b)
        if jnp.issubdtype(a.dtype, jnp.inexact):
            raise TypeError(f"{name} takes integers, got {a.dtype}: x.astype('int64')")
        return fn(a, b)

    return checked


def _sizes(a: Any, b: Any) -> tuple[Any, Any]:
    """Two arrays of integers without their signs, of which the lowest one would keep its own."""
    if a.dtype == bool:
        raise TypeError("gcd and lcm take integers, got bool: x.astype('int32')")
    unsigned = np.dtype(f"uint{8 * a.dtype.itemsize}")
    x, y = (jnp.where(v < 0, -v.astype(unsigned), v.astype(unsigned)) for v in (a, b))
    return jnp.broadcast_arrays(x, y)  # type: ignore[return-value]


def _divisor(x: Any, y: Any) -> Any:
    """The greatest common divisor; JAX's loop does not end where one is the lowest integer."""

    def step(pair: Any) -> Any:
        x, y = pair
        left = jax.lax.rem(x, jnp.where(y == 0, jnp.ones_like(y), y))
        return jnp.where(y == 0, x, y), jnp.where(y == 0, y, left)

    return jax.lax.while_loop(lambda pair: (pair[1] != 0).any(), step, (x, y))[0]


def _gcd(a: Any, b: Any) -> Any:
    return _divisor(*_sizes(a, b)).astype(a.dtype)


def _lcm(a: Any, b: Any) -> Any:
    x, y = _sizes(a, b)
    divisor = _divisor(x, y)
    return (jax.lax.div(x, jnp.where(divisor == 0, jnp.ones_like(x), divisor)) * y).astype(a.dtype)


def _logical(fn: Any) -> Any:
    return lambda a, b: fn(a != 0, b != 0)


@jax.custom_jvp
def _hypot(a: Any, b: Any) -> Any:
    """By the longer side, whose square might be too large."""
    if a.dtype.itemsize == 2:  # rounded once
        return _hypot(a.astype("float32"), b.astype("float32")).astype(a.dtype)
    far = jnp.isinf(a) | jnp.isinf(b)  # infinitely far, beside NaN, too
    a, b = jnp.abs(a), jnp.abs(b)
    low, high = jnp.minimum(a, b), jnp.maximum(a, b)
    ratio = low / jnp.where(high == 0, jnp.ones_like(high), high)
    return jnp.where(far, jnp.full((), np.inf, a.dtype), high * jnp.sqrt(1 + jnp.square(ratio)))


@_hypot.defjvp
def _hypot_jvp(primals: Any, tangents: Any) -> Any:
    out = _hypot(*primals)
    return out, sum(d * (x / out) for x, d in zip(primals, tangents, strict=True))


def _copysign(a: Any, b: Any) -> Any:
    a, b = _promote(a, b)
    if jnp.issubdtype(a.dtype, jnp.inexact):
        return jnp.copysign(a, b)
    return jnp.where((a < 0) == (b < 0), a, -a)


def _ldexp(a: Any, b: Any) -> Any:
    """a * 2**b; the result of two integer arrays has their dtype."""
    a, b = _promote(a, b)
    if jnp.issubdtype(a.dtype, jnp.inexact):
        if a.dtype.itemsize == 2:  # whose powers of two end early
            power = b.astype("float32")
            if a.dtype == jnp.float16:  # 0 stays 0: beyond 2**100 all others are infinite anyhow
                power = jnp.clip(power, -100, 100)
            return (a.astype("float32") * jnp.exp2(power)).astype(a.dtype)
        return a * jnp.exp2(b)
    exact = jnp.clip(b.astype("int64"), -2000, 2000).astype(
        "int32"
    )  # exp2 rounds, and would miss integers
    return truncated(lambda a: jnp.ldexp(a, exact))(a)


# ------------------------------------------------------------------------------------- binary rows

_OFF0 = [case(f(3, 4), f(3, 4, low=0.5)), case(f(3, 1), f(4, low=0.5))]
_POSITIVE = [case(f(3, 4, low=0.5), f(3, 4)), case(f(3, 1, low=0.5), f(4))]
_INTS = [case(i(3, 4), i(4))]
_OURS = dict(internal=None, internal_scalar=None, internal_rscalar=None)

binary(
    "add",
    lambda a, b: jnp.add(*_promote(a, b)),
    nd=("broadcast_add", "broadcast_plus", "elemwise_add", "add"),
    commutes=True,
    nd_scalar="_plus_scalar",
    elemwise_aliases=("_add", "_plus", "_grad_add"),
    onnx="added",
    from_onnx="Add",
)
binary(
    "subtract",
    _numbers(_promoted(jnp.subtract), "subtract"),
    nd=("broadcast_sub", "broadcast_minus", "elemwise_sub", "subtract"),
    nd_scalar="_minus_scalar",
    nd_rscalar="_rminus_scalar",
    elemwise_aliases=("_sub", "_minus"),
    onnx=("plain", "Sub"),
    from_onnx="Sub",
)
binary(
    "multiply",
    _promoted(jnp.multiply),
    nd=("broadcast_mul", "elemwise_mul", "multiply"),
    commutes=True,
    elemwise_aliases=("_mul",),
    onnx="multiplied",
    from_onnx="Mul",
)
binary(
    "true_divide",
    true_divide,
    np=("true_divide", "divide"),
    nd=("broadcast_div", "elemwise_div", "divide", "true_divide"),
    fit=fit_division,
    wide="float64",
    legacy=divided,
    samples=_OFF0,
    elemwise_aliases=("_div",),
    onnx=("plain", "Div"),
)
binary("floor_divide", floor_divide, samples=_OFF0, smooth=False, onnx="floored")
binary(
    "mod",
    mod,
    np=("mod", "remainder"),
    nd=("broadcast_mod", "modulo"),
    nd_aliases=("_mod",),
    samples=_OFF0,
    smooth=False,
    wholes=False,
    onnx="mod",
)
binary("fmod", fmod, samples=_OFF0, smooth=False, amp="widest", wholes=False, onnx="fmod")
binary(
    "power",
    power,
    np=("power", "pow"),
    nd=("broadcast_power", "power", "pow"),
    samples=_POSITIVE,
    amp="full",
    onnx=("plain", "Pow"),
)
binary(
    "float_power",
    lambda a, b: jnp.power(a.astype("float64"), b.astype("float64")),
    samples=_POSITIVE,
    **_OURS,
    onnx=("plain", "Pow"),
)
# Beside a number the array has the gradient where both are equal, on whichever side it stands.
_MAXIMUM = dict(internal="broadcast_maximum", internal_scalar="_maximum_scalar", amp="widest")
_MINIMUM = dict(internal="broadcast_minimum", internal_scalar="_minimum_scalar", amp="widest")
binary(
    "maximum",
    maximum,
    nd=("broadcast_maximum", "maximum"),
    commutes=True,
    **_MAXIMUM,
    onnx=("plain", "Max"),
)
binary(
    "minimum",
    minimum,
    nd=("broadcast_minimum", "minimum"),
    commutes=True,
    **_MINIMUM,
    onnx=("plain", "Min"),
)
binary("fmax", fmax, internal_rscalar="_npi_fmax_scalar", amp="widest")
binary("fmin", fmin, internal_rscalar="_npi_fmin_scalar", amp="widest")
_HYPOT = dict.fromkeys(
    ("internal_scalar", "internal_rscalar", "nd_scalar", "nd_rscalar"), "_hypot_scalar"
)
_float_binary(
    "hypot", _hypot, nd=("broadcast_hypot", "hypot"), amp="widest", **_HYPOT, onnx="hypot"
)
_NOT_IN_ND = dict(nd_internal=None, nd_scalar=None, nd_rscalar=None)
_float_binary(
    "arctan2",
    jnp.arctan2,
    np=("arctan2", "atan2"),
    nd="arctan2",
    samples=_OFF0,
    **_NOT_IN_ND,
    onnx="arctan2",
)
_float_binary(
    "logaddexp",
    jnp.logaddexp,
    internal_rscalar="_npi_logaddexp_scalar",
    amp="full",
    onnx="logaddexp",
)
binary("copysign", _numbers(_copysign, "copysign"), smooth=False, amp="widest")
binary("ldexp", _numbers(_ldexp, "ldexp"), ref=lambda a, b: a * 2**b, amp="full", onnx="ldexp")
binary("heaviside", lambda a, b: _by_numpy(jnp.heaviside)(*_promote(a, b)), smooth=False, **_OURS)
binary("lcm", _integers(_lcm, "lcm"), nd=None, samples=_INTS, commutes=True, loops=True)
binary("gcd", _integers(_gcd, "gcd"), nd=None, samples=_INTS, commutes=True, loops=True)
for _name, _onnx in (("bitwise_and", "And"), ("bitwise_or", "Or"), ("bitwise_xor", "Xor")):
    binary(
        _name,
        _integers(getattr(jnp, _name), _name),
        fit=fit_bits,
        samples=_INTS,
        commutes=True,
        onnx=("bits", _onnx),
        from_onnx=f"Bitwise{_onnx}",
    )
binary(
    "bitwise_left_shift",
    _integers(jnp.left_shift, "bitwise_left_shift"),
    np=("bitwise_left_shift", "left_shift"),
    samples=_INTS,
    ref=np.left_shift,
)
binary(
    "bitwise_right_shift",
    _integers(jnp.right_shift, "bitwise_right_shift"),
    np=("bitwise_right_shift", "right_shift"),
    samples=_INTS,
    ref=np.right_shift,
)
_COMPARED = [case(i(3, 4), i(4)), case(f(3, 4), f(3, 4))]
# What a comparison with a number on the left is with the number on the right.
_MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
for _name, _short, _onnx in (
    ("equal", "equal", "Equal"),
    ("not_equal", "not_equal", ""),
    ("less", "lesser", "Less"),
    ("less_equal", "lesser_equal", "LessOrEqual"),
    ("greater", "greater", "Greater"),
    ("greater_equal", "greater_equal", "GreaterOrEqual"),
):
    binary(
        _name,
        getattr(jnp, _name),
        nd=(f"broadcast_{_short}", _short),
        npx="broadcast_greater" if _name == "greater" else None,
        nd_aliases=("_npx_broadcast_greater",) if _name == "greater" else (),
        compares=True,
        commutes=_name in ("equal", "not_equal"),
        smooth=False,
        samples=_COMPARED,
        internal_rscalar=f"_npi_{_MIRRORED.get(_name)}_scalar",
        nd_rscalar=f"_{_MIRRORED.get(_name, '').replace('less', 'lesser')}_scalar",
        amp="widest",
        onnx=("compared", _onnx) if _onnx else ("compared", "Equal", True),
        from_onnx=_onnx or None,
    )
for _name, _onnx in (("logical_and", "And"), ("logical_or", "Or"), ("logical_xor", "Xor")):
    binary(
        _name,
        _logical(getattr(jnp, _name)),
        nd=(f"broadcast_{_name}", _name),
        compares=True,
        commutes=True,
        smooth=False,
        samples=_COMPARED,
        amp="widest",
        onnx=("decided", _onnx),
        from_onnx=_onnx,
    )

# -------------------------------------------------------------------------------------- unary rows


def _rint(x: Any) -> Any:
    """To the nearest integer; halves go down, as MXNet has it."""
    below, above = jnp.floor(x), jnp.ceil(x)
    return jnp.where(x - below <= above - x, below, above)


def _spacing(x: Any) -> Any:
    """The distance to the next number away from zero; that of zero is the least number there is, which is not computed.

    In float16 it is positive on both sides, as in NumPy.
    """
    x = jnp.abs(x) if x.dtype == "float16" else x
    beyond = jnp.nextafter(x, jnp.where(x < 0, -jnp.inf, jnp.inf).astype(x.dtype))
    return jnp.where(x == 0, beyond, beyond - x)


def _fix(x: Any) -> Any:
    return jnp.trunc(x)


def _rounding(fn: Any) -> Any:
    """Integers stay as they are; bool becomes float16."""

    def rounded(x: Any) -> Any:
        if jnp.issubdtype(x.dtype, jnp.integer):
            return x
        return fn(floating(x))

    return rounded


def _sign(x: Any) -> Any:
    out = jnp.sign(x)
    return (
        jnp.where(jnp.isnan(x), jnp.zeros_like(x), out)
        if jnp.issubdtype(x.dtype, jnp.inexact)
        else out
    )


def _reciprocal(x: Any) -> Any:
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return 1 / x
    return cast_like_c(1 / x.astype("float64"), x.dtype)


def _bits(x: Any) -> Any:
    if jnp.issubdtype(x.dtype, jnp.inexact):
        raise TypeError(f"bitwise_not takes integers or bool, got {x.dtype}")
    return jnp.bitwise_not(x)


_P, _U = (0.5, 3.0), (-0.9, 0.9)
_FLAT = dict(smooth=False)

unary("negative", _numbers(jnp.negative, "negative"), methods=None, onnx="Neg")


@jax.custom_jvp
def absolute(x: Any) -> Any:
    """The distance to zero; at zero its gradient is zero, where JAX has one, and so it is at NaN."""
    return jnp.abs(x)


absolute.defjvps(lambda dx, _, x: dx * ((x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)))
unary(
    "abs",
    _numbers(absolute, "abs"),
    np=("abs", "absolute", "fabs"),
    internal="_npi_absolute",
    onnx="Abs",
)
unary(
    "positive",
    lambda x: x,
    nd=None,
    internal="_npi_copy",
    written=("renamed", "_npi_copy"),
    onnx="same",
)
unary("sign", _numbers(_sign, "sign"), **_FLAT, onnx="Sign")
unary("square", _numbers(jnp.square, "square"), amp="full", onnx="square")
unary("reciprocal", _numbers(_reciprocal, "reciprocal"), domain=_P, amp="full", onnx="Reciprocal")
unary(
    "bitwise_not",
    _bits,
    np=("bitwise_not", "invert", "bitwise_invert"),
    nd=None,
    samples=[case(i(3, 4)), case(b(4))],
    onnx="bitwise_not",
    from_onnx="BitwiseNot",
)
unary(
    "logical_not",
    jnp.logical_not,
    samples=[case(i(3, 4)), case(b(4))],
    methods=None,
    **_FLAT,
    onnx="logical_not",
    from_onnx="Not",
)
for _name, _asks in (("isnan", "nan"), ("isinf", "infinite"), ("isfinite", "finite")):
    _odd = [case(Given([1.0, np.nan, np.inf, -np.inf]))]
    unary(
        _name,
        getattr(jnp, _name),
        nd=None,
        samples=_odd,
        onnx=("asked", _asks),
        from_onnx="IsNaN" if _asks == "nan" else None,
        **_FLAT,
    )
    unary(
        _name + "_",
        getattr(jnp, _name),
        np=None,
        nd=None,
        nd_contrib=_name,
        samples=_odd,
        internal=None,
        onnx=("asked", _asks),
        **_FLAT,
    )
unary(
    "isposinf",
    lambda x: jnp.isposinf(floating(x)),
    nd=None,
    samples=_odd,
    **_FLAT,
    onnx=("asked", "positive"),
)
unary(
    "isneginf",
    lambda x: jnp.isneginf(floating(x)),
    nd=None,
    samples=_odd,
    **_FLAT,
    onnx=("asked", "negative"),
)
unary("signbit", jnp.signbit, nd=None, internal=None, **_FLAT)
unary("spacing", _by_numpy(_spacing), nd=None, domain=_P, internal=None, **_FLAT)
unary("real", lambda x: x, nd=None, internal=None, onnx="same")

unary("sqrt", _math(jnp.sqrt), domain=_P, onnx="Sqrt")
unary("cbrt", _math(cbrt), domain=_P, onnx="cbrt")
unary("exp", _math(jnp.exp), amp="full", onnx="Exp")
unary("expm1", _math(jnp.expm1), amp="full", onnx="expm1")
unary("log", _math(jnp.log), domain=_P, amp="full", onnx="Log")
unary("log2", _math(log2), domain=_P, amp="full", onnx="log2")
unary("log10", _math(log10), domain=_P, amp="full", onnx="log10")
unary("log1p", _math(jnp.log1p), domain=_P, amp="full", onnx="log1p")
for _name in ("sin", "cos", "tanh", "tan", "sinh", "cosh"):
    _amp = "full" if _name in ("tan", "sinh", "cosh") else None
    unary(_name, _math(getattr(jnp, _name)), domain=(-1.4, 1.4), amp=_amp, onnx=_name.title())
unary("arcsin", _math(jnp.arcsin), np=("arcsin", "asin"), domain=_U, amp="full", onnx="Asin")
unary("arccos", _math(jnp.arccos), np=("arccos", "acos"), domain=_U, amp="full", onnx="Acos")
unary("arctan", _math(jnp.arctan), np=("arctan", "atan"), onnx="Atan")
unary("arcsinh", _math(jnp.arcsinh), np=("arcsinh", "asinh"), onnx="Asinh")
unary("arccosh", _math(jnp.arccosh), np=("arccosh", "acosh"), domain=(1.2, 3.0), onnx="Acosh")
unary("arctanh", _math(jnp.arctanh), np=("arctanh", "atanh"), domain=_U, amp="full", onnx="Atanh")
unary("degrees", _math(jnp.degrees), np=("degrees", "rad2deg"), onnx="degrees")
unary("radians", _math(jnp.radians), np=("radians", "deg2rad"), onnx="radians")
unary(
    "i0",
    lambda x: jnp.i0(x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype("float64")),
    nd=None,
    internal=None,
)
unary(
    "ceil", _rounding(jnp.ceil), methods={"nd": "ceil", "np": "ceil __ceil__"}, **_FLAT, onnx="Ceil"
)
unary(
    "floor",
    _rounding(jnp.floor),
    methods={"nd": "floor", "np": "floor __floor__"},
    **_FLAT,
    onnx="Floor",
)
unary(
    "trunc",
    _rounding(jnp.trunc),
    methods={"nd": "trunc", "np": "trunc __trunc__"},
    **_FLAT,
    onnx="trunc",
)
unary("fix", _math(_fix), ref=np.trunc, **_FLAT, onnx="trunc")  # np.fix warns since NumPy 2.5
unary("rint", _math(_rint), **_FLAT, onnx="rint")
unary("rsqrt", lambda x: 1 / jnp.sqrt(x), np=None, domain=_P, amp="full", onnx="rsqrt")
unary("rcbrt", lambda x: 1 / jnp.cbrt(x), np=None, domain=_P, amp="full", onnx="rcbrt")
op(
    "round@nd",
    nd="round",
    samples=[case(f(3, 4))],
    doc="Rounds, halves away from zero.",
    methods="nd",
    **_FLAT,
    onnx="round_half_away",
)(lambda data: half_away(data))


@op(
    "around",
    np=("around", "round", "round_"),
    samples=[
        case(f(3, 4)),
        case(f(3, 4), decimals=1),
        case(Given([15, 25, -149, 7], "int32"), decimals=-1),
    ],
    ref=np.around,
    methods={"np": "round"},
    **_FLAT,
    read={"_npi_around": ("renamed", {"decimal": "decimals"})},
    onnx="around",
    from_onnx="Round",
)
def around(x: Any, *, decimals: int = 0) -> Any:
    """Rounds to ``decimals`` places, halves to the even neighbour; integers to tens as NumPy does, where MXNet cuts off."""
    if jnp.issubdtype(x.dtype, jnp.integer):
        unit = 10.0**-decimals
        return (
            x if decimals >= 0 else (jnp.round(x.astype("float64") / unit) * unit).astype(x.dtype)
        )
    # MXNet goes place by place, rounding each time. What is known to be ten XLA would make a product with a tenth.
    ten, hold = jnp.where(x == x, 10, 1).astype(x.dtype), jax.lax.optimization_barrier
    for _ in range(abs(decimals)):
        x = hold(x * 10 if decimals > 0 else x / ten)
    x = jnp.where(x == -0.5, 0, jnp.round(x))
    for _ in range(abs(decimals)):
        x = hold(x / ten if decimals > 0 else x * 10)
    return x


@op(
    np="nan_to_num",
    samples=[case(Given([1.0, np.nan, np.inf, -np.inf]))],
    ref=np.nan_to_num,
    **_FLAT,
    numbers=("nan", "posinf", "neginf"),
    onnx="nan_to_num",
)
def nan_to_num(
    x: Any,
    *,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Any:
    """NaN, +inf and -inf replaced by numbers: 0 and the dtype's largest ones if not told otherwise."""
    return jnp.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


@op(
    np="clip",
    nd="clip",
    nd_params="data",
    samples=[case(f(3, 4), a_min=-0.5, a_max=0.5), case(f(3, 4), a_min=None, a_max=0.5)],
    ref=np.clip,
    internal="clip",
    methods="nd",
    numbers=("a_min", "a_max"),
    written="clip",
    onnx="clip",
)
def clip(a: Any, *, a_min: Any = None, a_max: Any = None) -> Any:
    """Numbers below ``a_min`` become it, those above ``a_max`` become that; at the bounds the gradient is 1."""
    if a_min is None and a_max is None:
        raise ValueError("array_clip: must set either max or min")
    out = a
    if a_min is not None:
        low = _bound(a_min, a.dtype, below=True)
        out = jnp.where(a < low, low, out)
    if (
        a_max is not None
    ):  # asked first, as in MXNet: below both bounds where they are in the wrong order it is a_min
        high = _bound(a_max, a.dtype, below=False)
        out = jnp.where(a > high, high, out)
    return out


def _bound(value: Any, dtype: Any, below: bool) -> Any:
    """A bound in the array's dtype; no number is beyond one that is NaN."""
    if hasattr(value, "dtype"):
        if jnp.issubdtype(dtype, jnp.integer):
            info = jnp.iinfo(dtype)
            over, under = value >= info.max, value <= info.min
            if jnp.issubdtype(value.dtype, jnp.floating):
                under |= jnp.isnan(value) & below
                over |= jnp.isnan(value) & (not below)
            inside = fitted(jnp.where(over | under, 0, value), dtype)
            return jnp.where(
                over,
                np.asarray(info.max, dtype),
                jnp.where(under, np.asarray(info.min, dtype), inside),
            )
        return fitted(value, dtype)
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        value = (
            min(max(int(value), info.min), info.max)
            if np.isfinite(value)
            else (info.max if value > 0 or (np.isnan(value) and not below) else info.min)
        )
    return np.asarray(value, dtype)


@op(
    npx="add_n",
    nd=("add_n", "ElementWiseSum"),
    display="add_n",
    samples=[case(f(3, 4), f(3, 4), f(3, 4))],
    amp="widest",
    onnx="add_n",
)
def add_n(*args: Any) -> Any:
    """The sum of arrays of one shape."""
    return sum(args[1:], args[0])


@op(
    npx="cast",
    nd=("cast", "Cast"),
    display="Cast",
    samples=[case(f(3, 4), dtype="float64"), case(f(3, 4), dtype="int32")],
    typed=(),
    onnx="cast",
)
def cast(data: Any, *, dtype: Any) -> Any:
    """The data in another dtype; floats become integers by cutting off, the gradient passes through."""
    return cast_like_c(data, np.dtype(dtype))


@op(
    nd="amp_cast",
    samples=[case(f(3, 4), dtype="float16")],
    **_FLAT,
    typed=(),
    dtype=lambda attrs, ins: (
        attrs["dtype"] if ins and "float" in str(ins[0]) else next(iter(ins), None)
    ),
    left_out=True,
    onnx="cast",
)
def amp_cast(data: Any, *, dtype: Any) -> Any:
    """Floats in another float dtype; everything else as it is."""
    return data.astype(dtype) if jnp.issubdtype(data.dtype, jnp.floating) else data


@op(
    nd="amp_multicast",
    samples=[case(f(3), f(3), num_outputs=2)],
    outputs=lambda attrs, n: n,
    left_out=True,
    onnx="amp_multicast",
)
def amp_multicast(*data: Any, num_outputs: int, cast_narrow: bool = False) -> Any:
    """All arrays in the widest (``cast_narrow``: the narrowest) of their dtypes."""
    pick = min if cast_narrow else max
    wanted = pick((x.dtype for x in data), key=lambda d: d.itemsize)
    return tuple(x.astype(wanted) for x in data)


@op(
    nd=("identity", "_copy"),
    np="copy",
    nd_params="data",
    samples=[case(f(3, 4))],
    nd_internal="_copy",
    onnx="same",
)
def copy(a: Any) -> Any:
    """A copy."""
    return jnp.copy(a)


@op(
    nd_contrib="quadratic",
    samples=[case(f(3, 4), a=1.0, b=2.0, c=3.0)],
    numbers=("a", "b", "c"),
    onnx="quadratic",
)
def quadratic(data: Any, *, a: float = 0.0, b: float = 0.0, c: float = 0.0) -> Any:
    """a x^2 + b x + c."""
    return (fitted(a, data.dtype) * data + fitted(b, data.dtype)) * data + fitted(c, data.dtype)


@op(nd="all_finite", samples=[case(f(3, 4))], **_FLAT, dtype="float32")
def all_finite(data: Any, *, init_output: bool = True) -> Any:
    """[1.] if all numbers are finite, else [0.]."""
    return jnp.isfinite(data).all().astype("float32").reshape(1)


@op(nd="multi_all_finite", samples=[case(f(3, 4), f(2), num_arrays=2)], **_FLAT, dtype="float32")
def multi_all_finite(*data: Any, num_arrays: int = 1, init_output: bool = True) -> Any:
    """[1.] if all numbers of all arrays are finite, else [0.]."""
    return jnp.stack([jnp.isfinite(x).all() for x in data]).all().astype("float32").reshape(1)


@op(nd="multi_sum_sq", samples=[case(f(3, 4), f(2), num_arrays=2)], dtype="float32")
def multi_sum_sq(*data: Any, num_arrays: int = 1) -> Any:
    """The sum of squares of each array, as one vector."""
    return jnp.stack([jnp.square(x.astype("float32")).sum() for x in data])


def _modf(x: Any) -> Any:
    rest, whole = jnp.modf(x)
    return jnp.where(jnp.isinf(x), jnp.copysign(jnp.zeros_like(x), x), rest), whole


for _name, _fn in (("modf", _modf), ("frexp", jnp.frexp)):
    unary(_name, _by_numpy(_fn), nd=None, outputs=2, tupled=True, internal=None, **_FLAT)


@op(np="divmod", samples=_OFF0, outputs=2, tupled=True, ref=np.divmod, internal=None, **_FLAT)
def divmod_(x1: Any, x2: Any) -> Any:
    """(x1 // x2, x1 % x2), which is NumPy's in MXNet: the quotient goes by the remainder, which is exact."""
    x1, x2 = (
        x.astype("int8") if x.dtype == bool else x for x in (jnp.asarray(x1), jnp.asarray(x2))
    )
    a, b = _promote(x1, x2)
    if not jnp.issubdtype(a.dtype, jnp.inexact):
        return tuple(
            jnp.where(b == 0, jnp.zeros((), a.dtype), part)
            for part in (floor_divide(a, b), mod(a, b))
        )
    dtype = a.dtype
    if dtype.itemsize == 2:
        a, b = a.astype("float32"), b.astype("float32")
    rest = jax.lax.rem(*jnp.broadcast_arrays(a, b))
    other = (rest != 0) & ((rest < 0) != (b < 0))
    whole = (a - rest) / b - other.astype(a.dtype)
    below = jnp.floor(whole)
    whole = jnp.where(
        whole == 0, jnp.copysign(jnp.zeros_like(a), a / b), below + (whole - below > 0.5)
    )
    rest = jnp.where(
        rest == 0, jnp.copysign(jnp.zeros_like(b), b), jnp.where(other, rest + b, rest)
    )
    return jnp.where(b == 0, a / b, whole).astype(dtype), jnp.where(
        b == 0, jnp.full_like(b, jnp.nan), rest
    ).astype(dtype)
