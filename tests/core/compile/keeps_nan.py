"""What programs lose NaN, or compute wrongly in sums, under the options that users have: printed, one line each;
nothing where all is right.

A process of its own (``python tests/core/compile/keeps_nan.py [all]``): tests/conftest.py chooses another code
generator, whose loops keep NaN by themselves. Each result is computed of an array of its own, so that XLA merges it
with nothing but what makes its operand.
"""

import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mxjax.core.compile import cpu_code
from mxjax.core.compile.compiler_options import default_options
from mxjax.ops.lowering.softmax import log_softmax, softmax

SHAPES = ((2, 40, 70), (4096,))
MORE = ((64, 64), (4095,), (3, 67, 31), (5, 7), (1, 5000), (5000, 1))


def windows(size, stride):
    def largest(x):
        start = np.asarray(-np.inf, x.dtype)
        return lax.reduce_window(x, start, lax.max, (size,) * x.ndim, (stride,) * x.ndim, "VALID")

    def expected(x):
        parts = np.lib.stride_tricks.sliding_window_view(x, (size,) * x.ndim)
        parts = parts[tuple(slice(None, None, stride) for _ in x.shape)]
        return parts.max(tuple(range(x.ndim, 2 * x.ndim)))

    return largest, expected


def cases(shape):
    """(name, function of JAX, of NumPy in float64) of one array of this shape."""
    every = tuple(range(len(shape)))
    for axes in [(k,) for k in every] + ([every, every[1:]] if len(every) > 1 else []):
        yield f"max{axes}", lambda x, a=axes: jnp.max(x * 2, a), lambda x, a=axes: np.max(x * 2, a)
        yield f"min{axes}", lambda x, a=axes: jnp.min(x, a), lambda x, a=axes: np.min(x, a)
    last = len(shape) - 1

    def none(x: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(x).any(last, keepdims=True), np.nan, 0.0) + 0 * np.nan_to_num(x)

    yield "softmax", lambda x: softmax(x, last) * 0, none
    yield "log_softmax", lambda x: log_softmax(x, last) * 0, none
    for name, of in (("maximum", np.maximum), ("minimum", np.minimum)):
        for value, way in ((0.0, 1), (1.0, -1)):

            def ours(x, name=name, value=value, way=way):
                pair = (x, jnp.full_like(x, value))[::way]
                return jnp.sum(getattr(jnp, name)(*pair), last)

            yield f"sum({name} {value} {way})", ours, lambda x, of=of, v=value: of(x, v).sum(last)
    low, high = -0.5, 0.5
    yield (
        "sum(clip)",
        lambda x: jnp.sum(jnp.clip(x, low, high), last),
        lambda x: np.clip(x, low, high).sum(last),
    )
    yield (
        "sum(clamp)",
        lambda x: jnp.sum(lax.clamp(x.dtype.type(low), x, x.dtype.type(high)), last),
        lambda x: np.clip(x, low, high).sum(last),
    )
    yield "sort", lambda x: jnp.sort(x, last), lambda x: np.sort(x, last)
    for size, stride in ((2, 2), (2, 1), (4, 5)):
        if min(shape) >= size:
            yield (f"windows({size}, {stride})", *windows(size, stride))


def wrong(dtype, shapes):
    made = [(s, *case) for s in shapes for case in cases(s)]
    rng = np.random.RandomState(7)
    arrays = {}
    for shape in shapes:
        x = arrays[shape] = rng.uniform(-2, 2, shape).astype(dtype)
        for nan in (np.nan, -np.nan):  # what 0 / 0 gives has a sign
            x.flat[rng.choice(x.size, max(x.size // 200, 1), replace=False)] = nan
    given = [arrays[shape] for shape, *_ in made]
    traced = jax.jit(lambda *xs: [fn(x) for x, (_, _, fn, _) in zip(xs, made, strict=True)]).trace(
        *given
    )
    program = traced.lower(**cpu_code.lowering()).compile(compiler_options=default_options("cpu"))
    for (shape, name, _, of), x, out in zip(made, given, program(*given), strict=True):
        with np.errstate(all="ignore"):
            want = np.isnan(of(x.astype("float64")))
        if not np.array_equal(np.isnan(np.asarray(out, "float64")), want):
            yield f"{name} of {dtype.name}{shape}"


def reductions():
    """(name, dtype, function of JAX, of NumPy in float64) whose sums along the first axis are right in programs.

    Each is a program of its own: what XLA reads of its memory, if it is wrong, depends on what was there before.
    """
    number = np.float32(0.69140625)  # bfloat16 has it
    erf = np.vectorize(math.erf)
    yield "exp2", "float16", lax.exp2, np.exp2
    yield "exp2", "bfloat16", lax.exp2, np.exp2
    for name, of in (("exp", np.exp), ("expm1", np.expm1), ("erf", erf)):
        fn, expected = getattr(lax, name), lambda x, of=of: of(x * float(number))
        yield (
            f"{name} of products",
            "bfloat16",
            lambda x, fn=fn: fn(x * x.dtype.type(number)),
            expected,
        )
        yield (
            f"{name} of wide products",
            "bfloat16",
            lambda x, fn=fn: fn(x.astype("float32") * number),
            expected,
        )
    for name in ("int8", "uint8"):
        yield (
            name,
            "float32",
            lambda x, d=name: x.astype(d).astype("float32"),
            lambda x, d=name: clipped(x, d),
        )


def clipped(x, dtype):
    return np.clip(np.trunc(x), np.iinfo(dtype).min, np.iinfo(dtype).max)


def wrong_sums():
    for name, dtype, fn, of in reductions():
        x = np.random.RandomState(7).uniform(-3, 3, (64, 80)).astype(jnp.dtype(dtype))
        traced = jax.jit(lambda x, fn=fn: jnp.sum(fn(x), 0)).trace(x)
        got = traced.lower(**cpu_code.lowering()).compile(compiler_options=default_options("cpu"))(
            x
        )
        exact = of(x.astype("float64"))
        size = float(jnp.finfo(got.dtype).eps) * np.abs(exact).sum(0)
        if not np.all(np.abs(np.asarray(got, "float64") - exact.sum(0)) <= 2 * size):
            yield f"sum of {name} of {dtype}"


if __name__ == "__main__":
    with jax.enable_x64(True):
        dtypes = (
            ("float16", "bfloat16", "float32", "float64") if "all" in sys.argv else ("float32",)
        )
        for name in dtypes:
            for line in wrong(jnp.dtype(name), SHAPES + MORE if "all" in sys.argv else SHAPES):
                print(line)
        for line in wrong_sums():
            print(line)
    print("done")
