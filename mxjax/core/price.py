"""What compiling a program costs, and what each run of a quick one loses: estimates, by counts alone.

Counts, because a program must take the same way in every run: no clock is asked. All prices are microseconds on one
core; only their ratios count, and the setting `engine.compile_price` scales the compiler's. Measured on CPUs (AVX-512,
jax 0.10.2) over training steps of a LeNet, perceptrons, LSTMs, unrolled cells and a ResNet-18, single operators and
chains of them: XLA takes 2.4 to 3.6 ms an equation and 10 to 40 ms besides; without LLVM's optimisation, by the
emitters it had before and in one module, 0.3 to 0.55 ms an equation and 8 ms (up to 0.9 in unrolled networks), and a
run takes 0.5 to 2 ns longer for each number that an element-wise equation gives, and as long where libraries compute.
A convolution takes 40 to 100 ms besides, a loop 40 to 110,
random bits 30 to 60 (quick: 10, 10 and 20 to 50; `make bench-price` measures them). Tracing and lowering are 0.1 to
0.45 ms an equation of either. Of the everyday jobs (`make bench-jobs`) none took longer with 1 ms
than with 0.45, and those of unrolled cells took three quarters of the time.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax

from .. import settings
from .jaxprs import bodies

BASE, EQUATION = 20_000.0, 3_000.0  # an optimised program, and each equation of it
LONG = 10_000.0  # each unit of `_LONG`
QUICK_BASE, QUICK_EQUATION, QUICK_LONG = 10_000.0, 1_000.0, 2_500.0
SLOWER = 1e-3  # what a quick program loses for each number that is computed
ROUNDS = 5  # that a loop is taken for whose length is not known
# Numbers that take as long as so many: a quick program calls a function for each, or compares many times.
_WEIGHTS = {
    "exp": 4, "log": 4, "tanh": 4, "logistic": 4, "sin": 4, "cos": 4, "pow": 8, "erf": 4, "log1p": 4, "expm1": 4,
    "sort": 50, "cumsum": 37, "cumprod": 37, "cummax": 37, "cummin": 37, "cumlogsumexp": 37,
}  # fmt: skip
#: These read of their operand no more than they give.
_PARTS = frozenset({"dynamic_slice", "gather", "slice", "squeeze"})
#: These are written in their operand's place, so that the update counts alone: which operand that is.
_PLACED = {
    "dynamic_update_slice": 1, "scatter": 2, "scatter-add": 2, "scatter-max": 2, "scatter-min": 2, "scatter-mul": 2,
}  # fmt: skip
#: Libraries compute these, whatever the program is compiled with.
_LIBRARY = frozenset({"dot_general", "conv_general_dilated", "custom_call", "fft"})
_DRAWS = frozenset({"random_bits", "threefry2x32"})
_CONVOLUTIONS = ("conv_general_dilated", "convolution", "convolution_input_gradient", "convolution_weight_gradient")
#: One equation, and longer code: how much longer.
_LONG = {**dict.fromkeys(_DRAWS, 2), **dict.fromkeys(_CONVOLUTIONS, 4), "scan": 4, "while": 4}

#: XLA's options for a quick program. Versions without the emitters that it had before take half of the whole price.
QUICK: dict[str, Any] = {"xla_backend_optimization_level": 0, "xla_cpu_parallel_codegen_split_count": 1}
if jax.__version_info__ < (0, 11):
    QUICK["xla_cpu_use_fusion_emitters"] = False
else:
    QUICK_EQUATION = 1_700.0

_scale = settings.snapshot("engine.compile_price")


class Size(NamedTuple):
    """A program's length, in equations, what convolutions, loops and random bits add, and the numbers of a run."""

    equations: int
    long: int
    numbers: float

    def whole(self) -> float:
        """The price of the optimised program."""
        return _scale() * (BASE + EQUATION * self.equations + LONG * self.long)  # type: ignore[no-any-return]

    def quick(self) -> float:
        """The price of the quick program."""
        return quick(self.equations, self.long)

    def lost(self) -> float:
        """What a run of the quick program takes longer."""
        return SLOWER * self.numbers


def quick(equations: int, long: int) -> float:
    """The price of a quick program of so many equations, and what `Size.long` counts."""
    return _scale() * (QUICK_BASE + QUICK_EQUATION * equations + QUICK_LONG * long)  # type: ignore[no-any-return]


def size_of(jaxpr: Any) -> Size:
    """What there is in a jaxpr, bodies of calls and loops included; lengths that are symbols count as one.

    >>> size_of(jax.make_jaxpr(lambda x: x * 2 + 1)(jax.numpy.zeros(10)).jaxpr)
    Size(equations=2, long=0, numbers=20.0)
    """
    equations = long = 0
    numbers = 0.0
    todo = [(jaxpr, 1.0)]
    while todo:
        body, times = todo.pop()
        for e in body.eqns:
            name = e.primitive.name
            inner = list(bodies(e.params))
            long += _LONG.get(name, 0)
            if inner:
                rounds = e.params.get("length", ROUNDS) if name in ("scan", "while") else 1
                todo += [(b, times * (rounds if isinstance(rounds, int) else 1)) for b in inner]
                continue
            equations += 1
            if name in _LIBRARY:
                continue
            if name in _PLACED:
                seen = [e.invars[_PLACED[name]]]
            else:
                seen = [*e.outvars] if name in _PARTS else [*e.outvars, *e.invars[:1]]
            most = max([_numbers(v) for v in seen], default=0.0)
            numbers += times * most * (20 if name in _DRAWS else _WEIGHTS.get(name, 1))
    return Size(equations, long, numbers)


def _numbers(v: Any) -> float:
    shape = getattr(v.aval, "shape", ())
    return float(math.prod([n if isinstance(n, int) else 1 for n in shape]))


__all__ = ["QUICK", "Size", "quick", "size_of"]
