"""Primitives that programs of a CPU compute in another way than JAX has them compute there.

JAX rolls up Threefry's rounds on CPUs, in a loop that keeps its numbers in memory, apart from what follows. In a row
a uniform number takes 1.4 ns for 4, and a program that draws is compiled in a tenth of the time. XLA's inverse of the
error function, behind every normal number, is not vectorised because of its `log1p`: it takes 17 ns, and 1.8 here (AMD
EPYC with AVX-512, one core, jax 0.10.2). Its arc tangents are calls of the C library, of 12 ns and 19 for two operands,
and 0.4 here; where they are vectors of 512 bits jaxlib 0.10.2 to 0.11 has them wrong (`compiler_options`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._jax_private import find
from . import cpu_exp, cpu_nan, cpu_narrow, cpu_product

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))

# M. Giles, Approximating the erfinv function (GPU Computing Gems, 2011): for w = -log(1 - x^2) below 5, and above.
_MIDDLE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip

# (arctan(t) / t - 1) / t^2 as a polynomial of t^2 up to 1, the highest power first: of all polynomials of that degree
# the one whose largest relative error of arctan(t) is least (3e-9 and 5e-18; found by Remez's algorithm).
_ARCTAN = {
    "float32": (
        -0.00179362722, 0.0109146331, -0.0311779028, 0.0579576584, -0.0840345471, 0.109521876, -0.142642421,
        0.199985483, -0.333332991,
    ),
    "float64": (
        1.322502651254819e-05, -0.00015216035531410592, 0.0008313194012399, -0.002884911281478753,
        0.007196488811830341, -0.013900539254829225, 0.021984830786751244, -0.029903839890127657,
        0.036641899117535966, -0.04219178378432889, 0.047223219999569126, -0.05253518491185881, 0.05880527801648529,
        -0.06666404055645168, 0.076922798391029, -0.09090907002980879, 0.11111111007026014, -0.14285714282575124,
        0.19999999999951462, -0.3333333333333307,
    ),
}  # fmt: skip
_QUARTER = {  # pi / 2, and what it has beyond the dtype's digits
    "float32": (1.57079637, -4.37113883e-08),
    "float64": (1.5707963267948966, 6.123233995736766e-17),
}
_BITS: dict[str, Any] = {"float32": np.uint32, "float64": np.uint64}


def threefry(k1: Any, k2: Any, x: Any, y: Any) -> Any:
    """The Threefry generator's pairs of numbers for keys and counts of uint32."""
    ks = (k1, k2, k1 ^ k2 ^ np.uint32(0x1BD11BDA))
    x, y = x + k1, y + k2
    for i in range(5):
        for r in _ROTATIONS[i & 1]:
            x = x + y
            y = ((y << np.uint32(r)) | (y >> np.uint32(32 - r))) ^ x
        x = x + ks[(i + 1) % 3]
        y = y + ks[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def _polynomial(coefficients: tuple[float, ...], w: Any) -> Any:
    made = jnp.full_like(w, coefficients[0])
    for c in coefficients[1:]:
        made = made * w + w.dtype.type(c)
    return made


def erf_inv(x: Any) -> Any:
    """The inverse of the error function, of float32."""
    w = -jnp.log((1 - x) * (1 + x))
    middle, tail = (
        _polynomial(_MIDDLE, w - np.float32(2.5)),
        _polynomial(_TAIL, jnp.sqrt(w) - np.float32(3)),
    )
    return jnp.where(jnp.abs(x) == 1, x * np.float32(np.inf), x * jnp.where(w < 5, middle, tail))


def erf_inv_of(x: float) -> float:
    """`erf_inv` of one number between -1 and 1, in Python."""
    w = -math.log((1 - x) * (1 + x))
    made = 0.0
    shifted = w - 2.5 if w < 5 else math.sqrt(w) - 3
    for c in _MIDDLE if w < 5 else _TAIL:
        made = made * shifted + c
    return made * x


def _sign_of(x: Any) -> Any:
    """The bit of the sign alone: of zeros, too."""
    bits = _BITS[x.dtype.name]
    return lax.bitcast_convert_type(x, bits) & bits(1 << (8 * x.dtype.itemsize - 1))


def _less(r: Any, quarters: int) -> Any:
    """So many quarters of a turn less an angle."""
    most, rest = (r.dtype.type(quarters * part) for part in _QUARTER[r.dtype.name])
    return (most - r) + rest


def _first_eighth(t: Any) -> Any:
    """The arc tangent of 0 to 1."""
    z = t * t
    return t + t * (z * _polynomial(_ARCTAN[t.dtype.name], z))


def _in_full(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function on arrays of float32 or float64, whose results are given in the arrays' dtype."""

    def with_full(*xs: Any) -> Any:
        full = "float64" if xs[0].dtype == np.float64 else "float32"
        made = fn(*[x.astype(full) for x in xs])
        return lax.bitcast_convert_type(made, full).astype(xs[0].dtype)

    return with_full


@_in_full
def arctan(x: Any) -> Any:
    """The arc tangent, of floats of any size."""
    a = jnp.abs(x)
    r = _first_eighth(jnp.where(a > 1, 1 / a, a))
    return lax.bitcast_convert_type(
        jnp.where(a > 1, _less(r, 1), r), _BITS[x.dtype.name]
    ) | _sign_of(x)


@_in_full
def arctan2(y: Any, x: Any) -> Any:
    """The angle of a point, of floats of any size."""
    a, b = jnp.abs(y), jnp.abs(x)
    low, high = jnp.minimum(a, b), jnp.maximum(a, b)
    t = jnp.where(
        low == high, jnp.where(low == 0, low, jnp.ones_like(low)), low / high
    )  # both may be infinite
    r = _first_eighth(t)
    r = jnp.where(a > b, _less(r, 1), r)
    r = jnp.where(_sign_of(x) != 0, _less(r, 2), r)
    return lax.bitcast_convert_type(r, _BITS[x.dtype.name]) | _sign_of(y)


#: How quick programs compute a primitive of mxjax's: by a library where an optimised one has code of its own.
quick_rules: dict[Any, Any] = {}


def lowering(platform: str = "cpu", quick: bool = False) -> dict[str, Any]:
    """What ``lower`` of a traced function takes for it, in a quick program or another; nothing where this JAX has no
    such thing.

    On other platforms that is what XLA has wrong on all of them (`cpu_nan.rules_of_bools`).
    """
    return _lowering(platform, quick, tuple(quick_rules.items()) if quick else ())


@cache
def _lowering(platform: str, quick: bool, more: tuple[tuple[Any, Any], ...]) -> dict[str, Any]:
    try:
        # Of `jax.extend`, which has threefry2x32_p and chlo as well, Pallas is a part: 20 ms.
        mlir = find("mlir")
        inverse = mlir.lower_fun(erf_inv, multiple_results=False)

        def single(ctx: Any, x: Any, **params: Any) -> Any:
            if ctx.avals_in[0].dtype == np.float32:
                return inverse(ctx, x)
            from jaxlib.mlir.dialects import chlo

            return [chlo.erf_inv(x)]

        def real(fn: Any, primitive: str) -> Any:
            own = mlir.lower_fun(fn, multiple_results=False)

            def rule(ctx: Any, *xs: Any, **params: Any) -> Any:
                if ctx.avals_in[0].dtype.kind != "c":
                    return own(ctx, *xs)
                from jaxlib.mlir.dialects import chlo, stablehlo

                return [chlo.atan(*xs) if primitive == "atan" else stablehlo.atan2(*xs)]

            return rule

        rules: Any = (
            (find("threefry2x32_p"), mlir.lower_fun(threefry, multiple_results=True)),
            (lax.erf_inv_p, single),
            (lax.atan_p, real(arctan, "atan")),
            (lax.atan2_p, real(arctan2, "atan2")),
            *cpu_nan.rules(mlir),
            *cpu_exp.rules(mlir),
            *cpu_product.rules(mlir),
            *cpu_nan.rules_of_bools(mlir, cpu_exp.conversion(mlir)),
            *more,
        )
        if platform != "cpu":
            rules = cpu_nan.rules_of_bools(mlir)
        elif not quick:
            rules = (*cpu_narrow.rules(mlir, dict(rules)), *rules)  # the first one counts
        given: dict[str, Any] = {
            "_private_parameters": mlir.LoweringParameters(override_lowering_rules=rules)
        }
        jax.jit(lambda x: x).trace(np.float32(0)).lower(**given)
    except (AttributeError, ImportError, TypeError):  # another JAX
        return {}
    return given


__all__ = ["arctan", "arctan2", "erf_inv", "erf_inv_of", "lowering", "quick_rules", "threefry"]
