"""What compiling a program costs, and what each run of a quick one loses: estimates, by counts alone.

Counts, because a program must take the same way in every run: no clock is asked. All prices are microseconds on one
core; only their ratios count, and the setting `engine.compile_price` scales the compiler's. The numbers and what
measured them stand in `constants.py`: on CPUs over training steps of a LeNet, perceptrons, LSTMs, unrolled cells and a
ResNet-18, single operators and chains of them (`make bench-price`).

On GPUs most goes into trials of each product and convolution: an LSTM language model took 4.9 s, 1.5 without them; a
ResNet-50 4.8 s a step, so that programs with convolutions are never quick there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax

from ... import settings
from ..graph.jaxprs import bodies
from ..graph.primitives import CONVOLUTIONS, LIBRARY, LONG, LOOPS, PARTS, PLACED, WEIGHTS
from . import constants


class Work(NamedTuple):
    """Microseconds of NumPy's: of its calls, of its work on numbers, and of what libraries compute for it."""

    calls: float
    numbers: float
    library: float

    @property
    def takes(self) -> float:
        return self.calls + self.numbers + self.library


class Pair(NamedTuple):
    """Microseconds of a quick program and of an optimised one: prices, or what runs call by call took longer."""

    quick: float
    whole: float

    def more(self, other: Pair) -> Pair:
        """With the other ones."""
        return Pair(self.quick + other.quick, self.whole + other.whole)

    def paid(self, prices: Pair) -> float:
        """What part of its price the fuller account holds."""
        return max(self.quick / (prices.quick or 1e-9), self.whole / (prices.whole or 1e-9))

    def fuller(self, prices: Pair) -> tuple[bool, float, float]:
        """Whether the quick program's account is the fuller one; what the fuller one holds, and the price."""
        if self.quick * prices.whole >= self.whole * prices.quick:
            return True, self.quick, prices.quick
        return False, self.whole, prices.whole


class Prices(NamedTuple):
    """What the programs of a platform cost, in microseconds: ``quick`` ones, and those that are optimised.

    ``tuned``: what each kind of product or convolution adds to an optimised program. ``slower``, ``each``: what a quick
    one loses for each number that it computes, and for each product. ``library``, ``library_quickly``: what an
    optimised and a quick one save of the time that libraries take for NumPy; ``quickly``: how many times as long as
    NumPy a quick one works on numbers (of a ResNet-18, a VGG-11 and a DenseNet quick steps take 1.2 to 1.4 times as
    long as NumPy's, of a GoogLeNet 1.8). ``options``: XLA's for a quick program; without, there are none.
    """

    base: float
    equation: float
    long: float
    tuned: float
    quick_base: float
    quick_equation: float
    quick_long: float
    slower: float
    each: float
    library: float
    library_quickly: float
    quickly: float
    options: Mapping[str, Any] | None
    light_options: Mapping[str, Any] | None = None

    def light(self, size: Size) -> float:
        """The price of the program that LLVM optimises little."""
        return constants.LIGHT * self.whole(size)

    def whole(self, size: Size) -> float:
        """The price of the optimised program."""
        tuned = self.tuned * (size.products + size.convolutions)
        price = self.base + self.equation * size.equations + self.long * size.long + tuned
        return float(_scale() * price)

    def of(self, form: str, size: Size) -> float:
        """The price of the ``"quick"``, ``"light"`` or ``"whole"`` program."""
        if form == "quick":
            return self.quick(size.equations, size.long)
        return self.light(size) if form == "light" else self.whole(size)

    def quick(self, equations: int, long: int) -> float:
        """The price of a quick program of so many equations, and what `Size.long` counts."""
        price = self.quick_base + self.quick_equation * equations + self.quick_long * long
        return float(_scale() * price)

    def both(self, equations: int, long: int) -> Pair:
        """The prices of both programs of so many equations, and what `Size.long` counts."""
        return Pair(self.quick(equations, long), self.whole(Size(equations, long, 0.0)))

    def lost(self, size: Size) -> float:
        """What a run of the quick program takes longer."""
        return self.slower * size.numbers + self.each * size.multiplied

    def saved(self, work: Work) -> float:
        """What an optimised program saves of NumPy's work at most."""
        return work.calls + work.numbers + self.library * work.library

    def saved_quickly(self, work: Work) -> float:
        """What a quick program saves of it; less than nothing where NumPy is the faster one."""
        numbers = (1 - self.quickly) * work.numbers
        return work.calls + numbers + self.library_quickly * work.library

    def has_quick(self, size: Size) -> bool:
        """Whether there is a quick program at all: cuDNN's choice without a trial took a hundred times as long."""
        return self.options is not None and not (size.convolutions and self.tuned)


#: Versions without the emitters that XLA had before take half of the whole price for a quick program.
_OLDER = jax.__version_info__ < (0, 11)
_ONE_MODULE = {"xla_cpu_parallel_codegen_split_count": 1} | (
    {"xla_cpu_use_fusion_emitters": False} if _OLDER else {}
)
_CPU = Prices(
    base=constants.CPU_BASE, equation=constants.CPU_EQUATION, long=constants.CPU_LONG, tuned=0.0,
    quick_base=constants.CPU_QUICK_BASE, quick_long=constants.CPU_QUICK_LONG,
    quick_equation=constants.CPU_QUICK_EQUATION if _OLDER else constants.CPU_QUICK_EQUATION_NEWER,
    slower=constants.CPU_SLOWER, each=0.0, quickly=constants.CPU_QUICKLY,
    library=constants.CPU_LIBRARY, library_quickly=0.0,
    options={"xla_backend_optimization_level": 0, **_ONE_MODULE},
    light_options={"xla_backend_optimization_level": 1, **_ONE_MODULE} if _OLDER else None,
)  # fmt: skip
_GPU = Prices(
    base=constants.GPU_BASE, equation=constants.GPU_EQUATION, long=0.0, tuned=constants.GPU_TUNED,
    quick_base=constants.GPU_BASE, quick_equation=constants.GPU_EQUATION, quick_long=0.0,
    slower=0.0, each=constants.GPU_EACH, library=1.0, library_quickly=1.0, quickly=0.0,
    options={"xla_gpu_autotune_level": 0},
)  # fmt: skip
_PLATFORMS = {"cpu": _CPU, "gpu": _GPU}

_scale = settings.snapshot("engine.compile_price")


def on(platform: str) -> Prices:
    """The prices of a platform (`compiler.platform_of`); of others those of GPUs, but no quick programs."""
    found = _PLATFORMS.get(platform)
    if found is None:
        found = _PLATFORMS[platform] = _GPU._replace(options=None)
    return found


class Size(NamedTuple):
    """What there is in a program, by which it is priced.

    ``equations``, and what convolutions, loops and random bits add to them (``long``); the ``numbers`` that a run
    computes, libraries aside; different ``products`` of matrices and ``convolutions``, and how many of the former a run
    computes (``multiplied``).
    """

    equations: int
    long: int
    numbers: float
    products: int = 0
    convolutions: int = 0
    multiplied: float = 0.0


def size_of(jaxpr: Any) -> Size:
    """What there is in a jaxpr, bodies of calls and loops included; lengths that are symbols count as one.

    >>> size_of(jax.make_jaxpr(lambda x: x * 2 + 1)(jax.numpy.zeros(10)).jaxpr)
    Size(equations=2, long=0, numbers=20.0, products=0, convolutions=0, multiplied=0.0)
    """
    equations = long = 0
    numbers = multiplied = 0.0
    products: set[Any] = set()
    convolutions: set[Any] = set()
    todo = [(jaxpr, 1.0)]
    while todo:
        body, times = todo.pop()
        for e in body.eqns:
            name = e.primitive.name
            inner = list(bodies(e.params))
            long += LONG.get(name, 0)
            if name in CONVOLUTIONS:
                convolutions.add(_shapes(e))
            if inner:
                rounds = e.params.get("length", constants.LOOP_ROUNDS) if name in LOOPS else 1
                todo += [(b, times * (rounds if isinstance(rounds, int) else 1)) for b in inner]
                continue
            equations += 1
            if name in LIBRARY:
                if name == "dot_general":
                    products.add(_shapes(e))
                    multiplied += times
                continue
            if name in PLACED:
                seen = [e.invars[PLACED[name]]]
            else:
                seen = [*e.outvars] if name in PARTS else [*e.outvars, *e.invars[:1]]
            most = max([_numbers(v) for v in seen], default=0.0)
            numbers += times * most * WEIGHTS.get(name, 1)
    return Size(equations, long, numbers, len(products), len(convolutions), multiplied)


def _shapes(e: Any) -> Any:
    """What tells a product or a convolution from others: who tunes one does it once."""
    return tuple([(v.aval.dtype, getattr(v.aval, "shape", ())) for v in (*e.invars, *e.outvars)])


def _numbers(v: Any) -> float:
    shape = getattr(v.aval, "shape", ())
    return float(math.prod([n if isinstance(n, int) else 1 for n in shape]))


__all__ = ["Prices", "Size", "Work", "on", "size_of"]
