"""What compiling a program costs, and what each run of a quick one loses: estimates, by counts alone.

Counts, because a program must take the same way in every run: no clock is asked. All prices are microseconds on one
core; only their ratios count, and the setting `engine.compile_price` scales the compiler's. What is counted are the
kernels that equations become (`kernels.py`); the numbers and what measured them stand in `constants.py`: on CPUs over
the operators, training steps of networks and the programs of everyday jobs (`make bench-price`).

On GPUs most goes into trials of each product and convolution: an LSTM language model took 4.9 s, 1.5 without them; a
ResNet-50 4.8 s a step, so that programs with convolutions are never quick there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from ... import settings
from ..graph.jaxprs import bodies, draws
from ..graph.primitives import CONVOLUTIONS, LIBRARY, LOOPS, PARTS, PLACED, WEIGHTS
from . import constants
from .kernels import code_of


class Work(NamedTuple):
    """Microseconds of NumPy's: calls, work on numbers, what libraries compute for it, and convolutions' patches."""

    calls: float
    numbers: float
    library: float
    patches: float

    @property
    def takes(self) -> float:
        return sum(self)


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

    ``base``, ``equation``, ``code``: of each optimised program, of each equation, and of each microsecond of
    `Size.whole`; ``quick_base``, ``quick_equation``, ``quick_code`` (of `Size.quick`) and ``quick_part`` (of
    `Size.whole`) the same of a quick one.
    ``tuned``: what each kind of product or convolution adds to an optimised program. ``slower``, ``each``: what a quick
    one loses for each number that it computes, and for each product. ``library``, ``library_quickly``: what an
    optimised and a quick one save of the time that libraries take for NumPy; ``patches``, ``patches_quickly``: of what
    it takes for patches; ``quickly``: how many times as long as
    NumPy a quick one works on numbers (of a ResNet-18, a VGG-11 and a DenseNet quick steps take 1.2 to 1.4 times as
    long as NumPy's, of a GoogLeNet 1.8). ``options``: XLA's for a quick program; without, there are none.
    """

    base: float
    equation: float
    code: float
    tuned: float
    quick_base: float
    quick_equation: float
    quick_code: float
    quick_part: float
    slower: float
    each: float
    library: float
    library_quickly: float
    patches: float
    patches_quickly: float
    quickly: float
    options: Mapping[str, Any] | None
    light_options: Mapping[str, Any] | None = None

    def light(self, size: Size) -> float:
        """The price of the program that LLVM optimises little."""
        return constants.LIGHT * self.whole(size)

    def whole(self, size: Size) -> float:
        """The price of the optimised program."""
        tuned = self.tuned * (size.products + size.convolutions)
        price = self.base + self.equation * size.equations + self.code * size.whole + tuned
        return float(_scale() * price)

    def of(self, form: str, size: Size) -> float:
        """The price of the ``"quick"``, ``"light"`` or ``"whole"`` program."""
        if form == "quick":
            return self.quick(size)
        return self.light(size) if form == "light" else self.whole(size)

    def quick(self, size: Size) -> float:
        """The price of a quick program."""
        code = self.quick_code * size.quick + self.quick_part * size.whole
        return float(_scale() * (self.quick_base + self.quick_equation * size.equations + code))

    def both(self, size: Size) -> Pair:
        """The prices of both programs, without what trials take."""
        return Pair(self.quick(size), self.whole(size._replace(products=0, convolutions=0)))

    def lost(self, size: Size) -> float:
        """What a run of the quick program takes longer."""
        return self.slower * size.numbers + self.each * size.multiplied

    def saved(self, work: Work) -> float:
        """What an optimised program saves of NumPy's work at most."""
        return work.calls + work.numbers + self.library * work.library + self.patches * work.patches

    def saved_quickly(self, work: Work) -> float:
        """What a quick program saves of it; less than nothing where NumPy is the faster one."""
        numbers = (1 - self.quickly) * work.numbers
        libraries = self.library_quickly * work.library + self.patches_quickly * work.patches
        return work.calls + numbers + libraries

    def has_quick(self, size: Size) -> bool:
        """Whether there is a quick program at all: cuDNN's choice without a trial took a hundred times as long."""
        return self.options is not None and not (size.convolutions and self.tuned)


#: Versions without the emitters that XLA had before take half of the whole price for a quick program.
_OLDER = jax.__version_info__ < (0, 11)
_ONE_MODULE = {"xla_cpu_parallel_codegen_split_count": 1} | (
    {"xla_cpu_use_fusion_emitters": False} if _OLDER else {}
)
_CPU = Prices(
    base=constants.CPU_BASE, equation=0.0, code=1.0, tuned=0.0, quick_base=constants.CPU_QUICK_BASE,
    quick_equation=0.0, quick_code=1.0 if _OLDER else 0.0, quick_part=0.0 if _OLDER else constants.CPU_QUICK_NEWER,
    slower=constants.CPU_SLOWER, each=0.0, quickly=constants.CPU_QUICKLY,
    library=constants.CPU_LIBRARY, library_quickly=0.0, patches=constants.CPU_PATCHES, patches_quickly=0.0,
    options={"xla_backend_optimization_level": 0, **_ONE_MODULE},
    light_options={"xla_backend_optimization_level": 1, **_ONE_MODULE} if _OLDER else None,
)  # fmt: skip
_GPU = Prices(
    base=constants.GPU_BASE, equation=constants.GPU_EQUATION, code=0.0, tuned=constants.GPU_TUNED,
    quick_base=constants.GPU_BASE, quick_equation=constants.GPU_EQUATION, quick_code=0.0, quick_part=0.0,
    slower=0.0, each=constants.GPU_EACH, library=1.0, library_quickly=1.0, patches=1.0, patches_quickly=1.0,
    quickly=0.0,
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

    ``equations``; ``quick`` and ``whole``, the microseconds that a CPU's compiler takes for them in either form beside
    what each program costs, and of those ``quick_open`` and ``whole_open`` for kernels that are none where later calls
    alone use what they give (`joined`); the ``numbers`` that a run computes, libraries aside; different ``products`` of
    matrices and ``convolutions``, and how many of the former a run computes (``multiplied``).
    """

    equations: int
    quick: float
    whole: float
    quick_open: float = 0.0
    whole_open: float = 0.0
    numbers: float = 0.0
    products: int = 0
    convolutions: int = 0
    multiplied: float = 0.0


def plain(equations: int, numbers: float = 0.0) -> Size:
    """Of so many simple equations, which give one result."""
    equation, kernel = constants.CPU_CODE["arithmetic"], constants.CPU_CODE["kernel"]
    whole, quick = (equations * a + b for a, b in zip(equation, kernel, strict=True))
    return Size(equations, quick, whole, kernel[1], kernel[0], numbers)


class Part(NamedTuple):
    """A call of several that are one program: its size, and the numbers of its operands and results.

    ``what``: equal for calls that compute the same of arrays alike, which share their kernels.
    """

    size: Size
    operands: Sequence[int]
    results: Sequence[int]
    what: Any


def joined(parts: Sequence[Part], read: Iterable[int]) -> Size:
    """The program of several calls, in their order.

    Args:
      read: the results that others read. Those that later calls alone use are merged with these, but for what a
        product or convolution takes.
    """
    read = set(read)
    seen: set[Any] = set()
    equations, quick, whole = 0, 0.0, 0.0
    for size, operands, results, what in reversed(parts):
        if size.products or size.convolutions:
            read.update(operands)
        merged = sum(k not in read for k in results) / (len(results) or 1)
        equations += size.equations
        quick += size.quick - merged * size.quick_open
        alike = constants.ALIKE if what in seen else 1.0
        whole += alike * (size.whole - merged * size.whole_open)
        seen.add(what)
    return Size(equations, quick, whole)


def _code(counts: Mapping[str, int], form: int) -> float:
    """Microseconds for a CPU's compiler, for so many of each kind; 0: optimised, 1: quickly."""
    table = constants.CPU_CODE
    return sum([n * table[kind][form] for kind, n in counts.items() if kind in table])


def size_of(jaxpr: Any) -> Size:
    """What there is in a jaxpr, bodies of calls and loops included; lengths that are symbols count as one.

    >>> size = size_of(jax.make_jaxpr(lambda x: x * 2 + 1)(jax.numpy.zeros(10)).jaxpr)
    >>> size.equations, size.numbers, size == plain(2, 20.0)
    (2, 20.0, True)
    """
    equations = 0
    numbers = multiplied = 0.0
    products: set[Any] = set()
    convolutions: set[Any] = set()
    todo = [(jaxpr, 1.0, False)]
    while todo:
        body, times, again = todo.pop()
        for e in body.eqns:
            name = e.primitive.name
            inner = list(bodies(e.params))
            if name in CONVOLUTIONS:
                convolutions.add(_shapes(e))
            if inner:
                rounds = rounds_of(e, again) if name in LOOPS else 1
                within = again or name == "while"
                todo += [(b, times * rounds, within) for b in inner]
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
    code = code_of(jaxpr)
    return Size(
        equations, _code(code.each, 1), _code(code.unlike, 0), _code(code.open, 1), _code(code.open_unlike, 0),
        numbers, len(products), len(convolutions), multiplied,
    )  # fmt: skip


def rounds_of(loop: Any, is_within: bool) -> int:
    """How often a loop's body is taken to run; ``is_within``: in a loop of unknown length, whose rounds count besides.

    A length that is a symbol counts as one. A loop whose condition compares a counter with a number ends there.
    """
    if loop.primitive.name == "scan":
        length = loop.params["length"]
        return length if isinstance(length, int) else 1
    if draws(loop.params["body_jaxpr"].jaxpr):
        return constants.DRAWN_AGAIN if is_within else constants.DRAWN_ROUNDS
    rounds = constants.WHILE_AGAIN if is_within else constants.WHILE_ROUNDS
    counters = set(loop.params["cond_jaxpr"].jaxpr.invars)
    ends = [
        int(e.invars[1].val)
        for e in loop.params["cond_jaxpr"].jaxpr.eqns
        if e.primitive.name == "lt"
        and hasattr(e.invars[1], "val")
        and e.invars[0] in counters
        and e.invars[0].aval.dtype.kind in "iu"
    ]
    return max(min([rounds, *ends]), 1)


def _shapes(e: Any) -> Any:
    """What tells a product or a convolution from others: who tunes one does it once."""
    return tuple([(v.aval.dtype, getattr(v.aval, "shape", ())) for v in (*e.invars, *e.outvars)])


def _numbers(v: Any) -> float:
    shape = getattr(v.aval, "shape", ())
    return float(math.prod([n if isinstance(n, int) else 1 for n in shape]))


__all__ = ["Part", "Prices", "Size", "Work", "joined", "on", "plain", "rounds_of", "size_of"]
