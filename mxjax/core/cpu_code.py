"""Primitives that programs of a CPU compute in another way than JAX has them compute there.

JAX rolls up Threefry's rounds on CPUs, in a loop that keeps its numbers in memory, apart from what follows. In a row
a uniform number takes 1.4 ns for 4, and a program that draws is compiled in a tenth of the time. XLA's inverse of the
error function, behind every normal number, is not vectorised because of its `log1p`: it takes 17 ns, and 1.8 here (AMD
EPYC with AVX-512, one core, jax 0.10.2).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

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


def _threefry(k1: Any, k2: Any, x: Any, y: Any) -> Any:
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
    made = jnp.full_like(w, np.float32(coefficients[0]))
    for c in coefficients[1:]:
        made = made * w + np.float32(c)
    return made


def erf_inv(x: Any) -> Any:
    """The inverse of the error function, of float32."""
    w = -jnp.log((1 - x) * (1 + x))
    middle, tail = _polynomial(_MIDDLE, w - np.float32(2.5)), _polynomial(_TAIL, jnp.sqrt(w) - np.float32(3))
    return jnp.where(jnp.abs(x) == 1, x * np.float32(np.inf), x * jnp.where(w < 5, middle, tail))


@cache
def lowering() -> dict[str, Any]:
    """What ``lower`` of a traced function takes for it; nothing where this JAX has no such thing."""
    try:
        # Of `jax.extend`, which has threefry2x32_p and chlo as well, Pallas is a part: 20 ms.
        from jax._src.interpreters import mlir

        try:
            drawn = import_module("jax._src.random.threefry2x32")
        except ImportError:  # before JAX 0.12
            drawn = import_module("jax._src.prng")

        inverse = mlir.lower_fun(erf_inv, multiple_results=False)

        def single(ctx: Any, x: Any, **params: Any) -> Any:
            if ctx.avals_in[0].dtype == np.float32:
                return inverse(ctx, x)
            from jaxlib.mlir.dialects import chlo

            return [chlo.erf_inv(x)]

        rules: Any = ((drawn.threefry2x32_p, mlir.lower_fun(_threefry, multiple_results=True)), (lax.erf_inv_p, single))
        given: dict[str, Any] = {"_private_parameters": mlir.LoweringParameters(override_lowering_rules=rules)}
        jax.jit(lambda x: x).trace(np.float32(0)).lower(**given)
    except (AttributeError, ImportError, TypeError):  # another JAX
        return {}
    return given


__all__ = ["erf_inv", "lowering"]
