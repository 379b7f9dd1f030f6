"""Functions of JAX over flat arrays: programs of one function that serve all shapes, and few numbers one by one."""

from __future__ import annotations

import functools
import math
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from statistics import NormalDist
from typing import Any

import jax
import jaxlib
import numpy as np

from ... import settings
from ..compile import cpu_code
from ..compile.compiler import wide_types
from ..compile.kept import compile_or_load
from ..graph.jaxprs import is_staged
from ..run import choice, forks
from ..run.constants import FUNCTION_NUMBER, FUNCTION_RUN
from .numpy_blocks import Call, in_blocks

#: Sizes to which flat arrays are padded, or cut: few programs, of which a function's first one serves for a while.
_BUCKETS = (64, 1024, 16384, 262144)
#: XLA's digamma of either zero: NaN, as at the other poles, and from jaxlib 0.12 minus infinity.
_DIGAMMA_OF_ZERO = (
    math.nan if [int(n) for n in jaxlib.__version__.split(".")[:2]] < [0, 12] else -math.inf
)


class Programs(dict[Any, Any]):
    """A function of NumPy's flat arrays as programs of JAX, by their size and dtypes; called inside `apart`."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def __call__(self, *arrays: Any) -> Any:
        key = (arrays[0].size, *[a.dtype for a in arrays])
        found = self.get(key)
        if found is None:
            traced = jax.jit(lambda *xs: self.fn(*xs)).trace(*arrays)
            found = self[key] = compile_or_load(traced.lower(), {}, traced.jaxpr)[0]
        return found(*arrays)


@contextmanager
def apart() -> Iterator[None]:
    """Programs of the host's first device, with wide types, whatever JAX traces around.

    Raises:
      MXNetError: this process is a fork of one that had programs.
    """
    forks.check()
    concrete: Any = jax.ensure_compile_time_eval() if is_staged() else nullcontext()
    with wide_types(), jax.default_device(_cpu()), concrete:
        yield


def shared(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays, element by element, as one program of JAX for all shapes of a dtype."""
    programs = Programs(fn)
    lost: dict[Any, float] = {}  # by dtypes, what runs of programs of other sizes took longer

    def length(n: int, dtypes: tuple[Any, ...]) -> int:
        """The size of the program to take: of one that there is, until that has cost what its own one would."""
        own = next(b for b in _BUCKETS if b >= n)
        there = [b for b in _BUCKETS if (b, *dtypes) in programs]
        if own in there or not there:
            return own
        near = min(there, key=lambda b: _takes(n, b))
        more = _takes(n, near) - _takes(n, own)
        before = lost.get(dtypes, 0.0)
        if choice.buys_size(before, more):
            lost[dtypes] = 0.0
            return own
        lost[dtypes] = before + max(0.0, more)
        return near

    def run(*xs: Any) -> Any:
        arrays = np.broadcast_arrays(*xs) if len(xs) > 1 else [np.asarray(xs[0])]
        shape, size = arrays[0].shape, arrays[0].size
        with apart():
            parts = []
            room = length(min(size, _BUCKETS[-1]), tuple([a.dtype for a in arrays]))
            for start in range(0, max(size, 1), room):
                rows = [a.reshape(-1)[start : start + room] for a in arrays]
                n = rows[0].size
                padded = []
                for row in rows:
                    wide = np.ones(room, row.dtype)
                    wide[:n] = row
                    padded.append(wide)
                parts.append(np.asarray(programs(*padded))[:n])
        return (parts[0] if len(parts) == 1 else np.concatenate(parts)).reshape(shape)

    return run


def _takes(n: int, room: int) -> float:
    """Microseconds for so many numbers by programs of this size."""
    return -(-n // room) * (FUNCTION_RUN + room * FUNCTION_NUMBER)


@functools.cache
def _cpu() -> Any:
    return jax.local_devices(backend="cpu")[0]


#: Primitives that NumPy has no function for. Others are added when functions of random bits ask for them.
_SHARED: dict[str, Callable[..., Any]] = {}


def exactly(name: str, params: tuple[tuple[str, Any], ...] = ()) -> Callable[..., Any]:
    """The primitive of this name as a program of JAX, to the last bit."""
    key = f"{name} {params}"
    found = _SHARED.get(key)
    if found is None:
        primitive = getattr(jax.lax, f"{name}_p")

        def bind(*xs: Any) -> Any:
            if name == "erf_inv" and xs[0].dtype == np.float32 and cpu_code.lowering():
                return cpu_code.erf_inv(*xs)  # as in programs
            return primitive.bind(*xs, **dict(params))

        program, there = shared(bind), _NEARLY.get(name)

        def run(*xs: Any) -> Any:
            if forks.forked[0] and there is not None:
                return np.asarray(there(*xs), np.result_type(*xs))
            return program(*xs)

        found = _SHARED.setdefault(key, run)
    return found


def nearly(name: str, params: tuple[tuple[str, Any], ...] = ()) -> Callable[..., Any]:
    """The primitive of this name, to rounding: few numbers by Python's `math`, until that has paid for the program.

    The program of a function takes 70 ms to compile, a number of float32 or less a fifth of a microsecond.
    """
    program, fn = exactly(name, params), NUMBERS.get(name)
    if fn is None:
        return program
    one_by_one = _by_number(fn)

    def run(x: Any) -> Any:
        if x.dtype.itemsize > 4 or choice.buys_function(_computed.get(name, 0) + x.size):
            return program(x)
        _computed[name] = _computed.get(name, 0) + x.size
        return one_by_one(x).astype(x.dtype)

    return run


#: How many numbers of each function were computed one by one.
_computed: dict[str, int] = {}


def _by_number(fn: Callable[[float], float]) -> Callable[..., Any]:
    return np.vectorize(fn, otypes=[np.float64])


def _erf_inv(x: float) -> float:
    if not abs(x) < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    if abs(x) < 1e-3:  # (1 + x) / 2 has not all of its digits
        return math.sqrt(math.pi) / 2 * x * (1 + math.pi / 12 * x * x)
    return NormalDist().inv_cdf((1 + x) / 2) / math.sqrt(2)


def _lgamma(x: float) -> float:
    return math.lgamma(x) if x > 0 or x % 1 else math.inf


def _digamma(x: float) -> float:
    if x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.nan if x else _DIGAMMA_OF_ZERO
    if x < 0:  # the reflection, at the angle that is left of half turns
        return _digamma(1 - x) - math.pi / math.tan(math.pi * math.remainder(x, 1))
    total = 0.0
    while x < 10:
        total -= 1 / x
        x += 1
    z = 1 / (x * x)  # Abramowitz and Stegun 6.3.18
    return total + math.log(x) - 0.5 / x - z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z / 240)))


#: Functions of one number that NumPy has not.
NUMBERS: dict[str, Callable[[float], float]] = {
    "erf": math.erf, "erfc": math.erfc, "erf_inv": _erf_inv, "lgamma": _lgamma, "digamma": _digamma,
}  # fmt: skip


#: What stands for programs where there are none (`forks`): equal to rounding.
_NEARLY: dict[str, Callable[..., Any]] = {
    **{name: _by_number(fn) for name, fn in NUMBERS.items()},
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "logistic": lambda x: 1 / (1 + np.exp(-x)), "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    **{name: getattr(np, name) for name in "cbrt cos cosh exp exp2 expm1 log log1p sin sinh tan tanh".split()},
}  # fmt: skip


@functools.cache
def product_and_sum(name: str, at: int) -> Callable[..., Any]:
    """``a * b + c`` of (a, b, c), rounded as XLA rounds it; ``at``: the product's place in the sum."""
    if name == "sub":
        program = shared((lambda a, b, c: a * b - c) if at == 0 else (lambda a, b, c: c - a * b))
        signs = (1, -1) if at == 0 else (-1, 1)
    else:
        program = shared(lambda a, b, c: a * b + c)
        signs = (1, 1)

    def rounded_once(a: Any, b: Any, c: Any) -> Any:
        return _fused(
            np.multiply(a, signs[0], dtype=np.float64),
            b,
            np.multiply(c, signs[1], dtype=np.float64),
        )

    by_blocks = in_blocks([Call(rounded_once, (0, 1, 2), 3)], 3, 4, [3])

    def fused(a: Any, b: Any, c: Any) -> Any:
        if forks.forked[0]:
            return a * b + c if name != "sub" else a * b - c if at == 0 else c - a * b
        if np.result_type(a, b, c) != np.float32 or not _rounds_once():
            return program(a, b, c)
        one, two = (b, a) if np.ndim(a) == 0 else (a, b)
        exact = np.ndim(two) == 0 and two == 1
        if exact or (np.ndim(c) == 0 and c == 0):  # there is one rounding
            product = one if exact else np.multiply(one, two)
            if name != "sub":
                return np.add(product, c)
            return np.subtract(product, c) if at == 0 else np.subtract(c, product)
        return by_blocks(a, b, c)[0]

    return fused


@functools.cache
def _rounds_once() -> bool:
    """Whether XLA's programs round a product and its sum at once, as they do unless LLVM shall not optimise."""
    told = "xla_backend_optimization_level" in (settings.variable("XLA_FLAGS") or "")
    if platform.machine() in ("x86_64", "AMD64") and not told:
        return True
    one = np.full(
        1, 1 + 2.0**-12, np.float32
    )  # its square is 1 + 2 ** -11 and what only one rounding keeps
    return bool(
        shared(lambda a, b, c: a * b + c)(one, one, np.full(1, -1 - 2.0**-11, np.float32))[0]
    )


def _fused(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` of float32 numbers that are float64 here, rounded once to float32.

    The product is exact. Rounding its sum to float64 and then to float32 is rounding it once, unless the first one
    ends halfway between two neighbours of float32.
    """
    product = np.asarray(a * b)
    total = np.asarray(product + c)
    halfway = (total.view(np.int64) & _BELOW_FLOAT32) == _HALF
    # Neighbours of what is less than float32's normal numbers lie elsewhere.
    small = np.abs(total) < _SMALLEST_NORMAL
    if not halfway.any() and not (small.any() and total[small].any()):
        return total.astype(np.float32)
    return _rounded_to_odd(product, total, c).astype(np.float32)


#: The digits of a float64 that float32 has not, and the first of them.
_BELOW_FLOAT32, _HALF = (1 << 29) - 1, 1 << 28
_SMALLEST_NORMAL = float(np.finfo(np.float32).smallest_normal)


def _rounded_to_odd(product: Any, total: Any, c: Any) -> Any:
    """``product + c``, of which ``total`` is the nearest, rounded to odd.

    Rounding this to fewer digits is as if it had never been rounded (Boldo, Melquiond: Emulation of a FMA and correctly
    rounded sums, 2008).
    """
    back = total - product
    lost = (product - (total - back)) + (c - back)
    bits = total.view(np.int64)
    even = (lost != 0) & ((bits & 1) == 0) & np.isfinite(total)
    away = (lost > 0) == (total > 0)
    return np.where(even, np.where(away, bits + 1, bits - 1), bits).view(np.float64)
