"""Element-wise primitives of JAX as NumPy computes them, and the whole table.

Integers wrap, divide by zero, shift and are converted as XLA has it on CPUs; floats of 16 bits are computed in 32.
NumPy's tanh, expm1, sinh and their like differ from XLA's in the last places (a relative 6e-7 at most, measured
over 65,536 numbers), exp, log and sin only of larger arrays; they take 0.3 microseconds, where a program of JAX over
the flattened array takes 7 and is compiled first (`numpy_shared.py`). Such programs compute what NumPy has not (erf,
lgamma, ...; few numbers of these one by one), and functions of random bits, which must be the same wherever they are
drawn. Subnormal numbers, which XLA takes for zero, stay what they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from .numpy_arrays import ARRAYS
from .numpy_linalg import LINALG
from .numpy_random import RANDOM
from .numpy_reductions import REDUCTIONS
from .numpy_rules import (
    NotHere,
    Op,
    Rule,
    dtype_in,
    dtype_out,
    is_float,
    is_half,
    plain,
    single,
    through_single,
)
from .numpy_shared import nearly
from .numpy_sorting import SORTING


def _program(eqn: Any) -> Op:
    params = tuple(sorted(eqn.params.items()))
    return Op(nearly(eqn.primitive.name, params), spreads=True)


# ---- numbers ----------------------------------------------------------------------------


def _whole(eqn: Any) -> bool:
    return bool(dtype_in(eqn).kind in "iu")


def quotient(x: Any, y: Any) -> Any:
    """Quotient of whole numbers, towards zero; by zero all bits are set, as XLA has it."""
    y = np.asarray(y)
    none = y == 0
    divisor = np.where(none, y.dtype.type(1), y)
    found = np.floor_divide(x, divisor)
    if y.dtype.kind == "i":
        found = found + ((found * divisor != x) & ((x < 0) != (divisor < 0)))
        return np.where(none, y.dtype.type(-1), found).astype(y.dtype)
    return np.where(none, np.iinfo(y.dtype).max, found).astype(y.dtype)


def remainder(x: Any, y: Any) -> Any:
    """What the quotient leaves: of the sign of x, and x where y is zero."""
    y = np.asarray(y)
    none = y == 0
    if y.dtype.kind == "i":
        none = none | (y == -1)  # the smallest number by -1 has no quotient
        rest = np.where(y == 0, x, y.dtype.type(0))
    else:
        rest = x
    return np.where(none, rest, np.fmod(x, np.where(none, y.dtype.type(1), y)))


def _div(eqn: Any) -> Op:
    return Op(quotient if _whole(eqn) else np.true_divide, spreads=True)


def _rem(eqn: Any) -> Op:
    return Op(remainder if _whole(eqn) else np.fmod, spreads=True)


def sign(x: Any) -> Any:
    return np.copysign(np.sign(x), x)


def _sign(eqn: Any) -> Op:
    return Op(sign if is_float(dtype_in(eqn)) else np.sign, spreads=True)


def _power_of_floats(x: Any, y: Any) -> Any:
    """NumPy takes the square root for the power 0.5 of a scalar, which is another one of -inf and -0."""
    made = np.power(x, y)
    half = np.equal(y, 0.5)
    return (
        np.where(half, np.where(np.isneginf(x), -x, made + made.dtype.type(0)), made)
        if half.any()
        else made
    )


def _pow(eqn: Any) -> Op:
    if is_float(dtype_in(eqn, 1)):
        return Op(_power_of_floats, spreads=True)
    dtype = dtype_in(eqn)
    return Op(lambda x, y: np.power(x, y.astype(dtype)), spreads=True)


def power(x: Any, y: int) -> Any:
    """A whole power by squaring, as XLA computes it."""
    if y == 2:
        return np.multiply(x, x)
    if y < 0:
        return np.divide(1, power(x, -y), dtype=x.dtype)
    made = None
    while y:
        if y & 1:
            made = x if made is None else made * x
        y >>= 1
        if y:
            x = x * x
    return np.ones_like(x) if made is None else made


def _integer_pow(eqn: Any) -> Op:
    y = eqn.params["y"]
    if _whole(eqn) and y < 0:
        raise NotHere("a negative power of whole numbers")
    return Op(through_single(lambda x: power(x, y), eqn), spreads=True)


def _round(eqn: Any) -> Op:
    if int(eqn.params["rounding_method"]) == 1:
        return Op(np.rint, spreads=True)
    # Halves away from zero; the fraction is exact, where adding 0.5 would round.
    return Op(
        through_single(
            lambda x: np.copysign(np.trunc(x) + (np.abs(x - np.trunc(x)) >= 0.5) * sign(x), x), eqn
        ),
        spreads=True,
    )


def _logical_right(x: Any, y: Any) -> Any:
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return np.right_shift(np.asarray(x).view(unsigned), np.asarray(y).astype(unsigned)).view(
        x.dtype
    )


def _arithmetic_right(x: Any, y: Any) -> Any:
    if x.dtype.kind == "i":
        return np.right_shift(x, y)
    signed = np.dtype(f"i{x.dtype.itemsize}")
    return np.right_shift(np.asarray(x).view(signed), np.asarray(y).view(signed)).view(x.dtype)


def _ranked(compare: Callable[[Any, Any], Any]) -> Rule:
    """A comparison in the total order of floats: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""

    def rank(x: Any) -> Any:
        signed = np.dtype(f"i{x.dtype.itemsize}")
        bits = np.asarray(x).view(signed)
        return np.where(bits < 0, np.iinfo(signed).max ^ bits, bits)

    def rule(eqn: Any) -> Op:
        return Op(
            (lambda x, y: compare(rank(x), rank(y))) if is_float(dtype_in(eqn)) else compare,
            spreads=True,
        )

    return rule


def _near(fn: Callable[..., Any]) -> Rule:
    """A function whose single precision NumPy has in fast code, of small arrays by its double one: as near as XLA's."""

    def of(x: Any) -> Any:
        if x.dtype == np.float32 and x.size <= 4096:
            return fn(x, dtype=np.float64).astype(np.float32)
        return fn(x)

    return single(of)


@functools.cache
def _one(dtype: Any) -> np.ndarray:
    """The number 1 as an array, which is an operand in half the time that a number takes."""
    return np.ones((), dtype)


def _logistic(x: Any) -> Any:
    one = _one(x.dtype)
    made = np.asarray(np.exp(np.negative(x)))
    return np.divide(one, np.add(one, made, made), made)


def _rsqrt(x: Any) -> Any:
    return np.divide(_one(x.dtype), np.sqrt(x))


#: Arrays with fewer numbers are chosen from by `np.where`, which is one call.
_FEW = 512
_BITS = {1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def _chosen(which: Any, x: Any, y: Any) -> Any:
    """`y` where the mask is true and `x` elsewhere, by bits: a tenth of `np.where`, if masks have no order."""
    bits = _BITS.get(x.dtype.itemsize)
    if which.size < _FEW or bits is None or x.dtype != y.dtype:
        return np.where(which, y, x)
    mask = which.view(np.int8)
    if x.size == 1 and not x.view(bits).any():
        return (np.negative(mask).astype(bits, copy=False) & y.view(bits)).view(x.dtype)
    if y.size == 1 and not y.view(bits).any():
        return ((mask - np.int8(1)).astype(bits, copy=False) & x.view(bits)).view(x.dtype)
    made = x.view(bits) ^ y.view(bits)
    made = made & np.negative(mask).astype(bits, copy=False)
    made ^= x.view(bits)
    return made.view(x.dtype)


def _select(eqn: Any) -> Op:
    if dtype_in(eqn).kind == "b":
        if len(eqn.invars) == 2:
            return Op(lambda which, x: x + np.zeros_like(x, shape=np.shape(which)), spreads=True)
        return Op(_chosen, spreads=True)

    def choose(which: Any, *cases: Any) -> Any:
        made = cases[0]
        for k in range(1, len(cases)):
            made = np.where(which >= k, cases[k], made)
        return made

    return Op(choose, spreads=True)


def _clamp(low: Any, x: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


def _reduce_precision(eqn: Any) -> Op:
    form = eqn.params["exponent_bits"], eqn.params["mantissa_bits"]
    dtype = dtype_in(eqn)
    kept = {
        (8, 7): np.dtype(jnp.bfloat16),
        (5, 10): np.dtype("float16"),
        (8, 23): np.dtype("float32"),
    }.get(form)
    info = jnp.finfo(dtype)
    if (info.nexp, info.nmant) == form:
        return Op(lambda x: x, same=True)
    if kept is None or dtype.itemsize < kept.itemsize:
        raise NotHere(f"floats with {form[0]} and {form[1]} bits")
    return Op(lambda x: x.astype(kept).astype(dtype), spreads=True)


# ---- dtypes ----------------------------------------------------------------------------


@functools.lru_cache(256)
def converter(old: Any, new: Any) -> Callable[..., Any]:
    """The function that converts arrays from one dtype to another as XLA does: numbers out of range saturate."""
    if is_float(old) and new.kind in "iu":
        info = np.iinfo(new)
        wide = np.dtype(np.float32 if is_half(old) else old)
        low = wide.type(info.min)
        high = wide.type(float(info.max) + 1)  # the first that is too large; exact

        def whole(x: Any) -> Any:
            x = np.asarray(x, wide)
            over = x >= high
            bad = over | (x < low) | np.isnan(x)
            if not bad.any():
                return x.astype(new)
            made = np.where(bad, 0, x).astype(new)
            made[over] = info.max
            made[x < low] = info.min
            return made

        return lambda x: whole(x) if np.ndim(x) else whole(np.reshape(x, (1,))).reshape(())
    if new.kind == "b":
        return lambda x: np.not_equal(x, 0)
    if old.kind == "c" and new.kind != "c":
        return lambda x: np.real(x).astype(new)
    return lambda x: x.astype(new)


def _convert(eqn: Any) -> Op:
    old, new = dtype_in(eqn), dtype_out(eqn)
    if old == new:
        return Op(lambda x: x, same=True)
    return Op(converter(old, np.dtype(new)), spreads=True)


def _bitcast(eqn: Any) -> Op:
    old, new = dtype_in(eqn), dtype_out(eqn)
    if old.itemsize == new.itemsize:
        return Op(lambda x: np.asarray(x).view(new), spreads=True)
    if old.itemsize > new.itemsize:
        return Op(lambda x: np.ascontiguousarray(x)[..., None].view(new))
    return Op(lambda x: np.ascontiguousarray(x).view(new)[..., 0])


def _bits(fn: Callable[[Any], Any]) -> Rule:
    """A function of unsigned numbers, for whole numbers of any sign."""

    def rule(eqn: Any) -> Op:
        dtype = dtype_in(eqn)
        unsigned = np.dtype(f"u{dtype.itemsize}")
        return Op(lambda x: fn(np.asarray(x).view(unsigned)).astype(dtype), spreads=True)

    return rule


def _leading_zeros(x: Any) -> Any:
    width = 8 * x.dtype.itemsize
    made = np.full(x.shape, width, np.int64)
    for k in range(width):
        made = np.where((x >> x.dtype.type(k)) != 0, width - 1 - k, made)
    return made


def _identity(eqn: Any) -> Op:
    return Op(lambda x: x, same=True)


TABLE: dict[str, Rule] = {
    **ARRAYS,
    **SORTING,
    **REDUCTIONS,
    **RANDOM,
    **LINALG,
    "abs": plain(np.abs), "add": plain(np.add), "add_any": plain(np.add), "and": plain(np.bitwise_and),
    "acos": single(np.arccos), "acosh": single(np.arccosh), "asin": single(np.arcsin), "asinh": single(np.arcsinh),
    "atan": _near(np.arctan), "atan2": single(np.arctan2), "atanh": single(np.arctanh), "cbrt": _near(np.cbrt),
    "ceil": plain(np.ceil), "clamp": plain(_clamp), "clz": _bits(_leading_zeros),
    "complex": plain(lambda re, im: re + 1j * im), "conj": plain(np.conj), "cos": _near(np.cos),
    "cosh": single(np.cosh), "div": _div, "eq": plain(np.equal), "exp": _near(np.exp), "exp2": single(np.exp2),
    "expm1": single(np.expm1), "floor": plain(np.floor), "ge": plain(np.greater_equal), "gt": plain(np.greater),
    "imag": plain(np.imag), "integer_pow": _integer_pow, "is_finite": plain(np.isfinite), "le": plain(np.less_equal),
    "log": _near(np.log), "log1p": single(np.log1p), "logistic": single(_logistic), "lt": plain(np.less),
    "max": plain(np.maximum), "min": plain(np.minimum), "mul": plain(np.multiply), "ne": plain(np.not_equal),
    "neg": plain(np.negative), "nextafter": plain(np.nextafter), "not": plain(np.invert), "or": plain(np.bitwise_or),
    "one_minus_square": single(lambda x: (1 + x) * (1 - x)),
    "population_count": _bits(np.bitwise_count), "pow": _pow, "real": plain(np.real),
    "reduce_precision": _reduce_precision, "rem": _rem, "round": _round, "rsqrt": single(_rsqrt),
    "select_n": _select, "shift_left": plain(np.left_shift), "shift_right_arithmetic": plain(_arithmetic_right),
    "shift_right_logical": plain(_logical_right), "sign": _sign, "sin": _near(np.sin), "sinh": single(np.sinh),
    "sqrt": single(np.sqrt), "square": plain(lambda x: np.multiply(x, x)), "sub": plain(np.subtract),
    "tan": single(np.tan), "tanh": single(np.tanh), "xor": plain(np.bitwise_xor),
    "convert_element_type": _convert, "bitcast_convert_type": _bitcast,
    "eq_to": _ranked(np.equal), "le_to": _ranked(np.less_equal), "lt_to": _ranked(np.less),
    **dict.fromkeys(
        ("copy", "copy_p", "layout_constraint", "pvary", "sharding_constraint", "stop_gradient"), _identity
    ),
    **dict.fromkeys(
        ("erf", "erfc", "erf_inv", "lgamma", "digamma", "polygamma", "zeta", "igamma", "igammac", "igamma_grad_a",
         "random_gamma_grad", "regularized_incomplete_beta", "bessel_i0e", "bessel_i1e"),
        _program,
    ),
}  # fmt: skip
