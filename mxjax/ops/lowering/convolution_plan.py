"""Which form computes each pass of a convolution, by platform, shape and dtype: :func:`choose`.

README.md beside this file has the measurements that it stands on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from mxjax.core.compile.compiler_options import convolves_in_one_thread, cores
from mxjax.core.compile.cpu_product import multiplies_bfloat16
from mxjax.ops.lowering import grouped, measured, winograd
from mxjax.ops.lowering.columns import Window


class Plan(NamedTuple):
    """Which form computes the value, the input's gradient and the weight's gradient.

    ``lax`` is XLA's convolution, ``abreast`` the same with filters that give several neighbouring pixels each, and
    ``cols`` one matrix product over all kernel patches (a 1x1 kernel needs none made). Of groups: ``shifts`` a sum of
    shifted products, ``blocks2`` two convolutions of one group (see grouped.py). ``winograd`` is Winograd's algorithm for
    kernels of 3x3 (see winograd.py). ``narrow``, of bfloat16: products over patches, with sums in float32.
    """

    value: str
    input_gradient: str
    weight_gradient: str


PLAIN = Plan("lax", "lax", "lax")


class Shape(NamedTuple):
    """What the two operands of a product do not tell; ``first``: the weight's channels come first; ``lean``: its
    gradient makes the patches again (piece by piece, behind a barrier, which must hold), lest the value's wait for it."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilate: tuple[int, int]
    pad: tuple[int, int]
    first: bool = False
    lean: bool = False
    groups: int = 1

    @property
    def axis(self) -> int:
        """Of the weight's channels."""
        return 1 if self.first else 3

    @property
    def window(self) -> Window:
        size = tuple(n + 2 * p for n, p in zip(self.size, self.pad, strict=True))
        return Window(size, self.kernel, self.stride, self.dilate)  # type: ignore[arg-type]


# Beyond these bytes of patches, writing and reading them costs what the better product gains.
VALUE_BYTES = 10 << 20
WEIGHT_BYTES = 16 << 20
# With so many channels at most, of image and result, XLA:CPU does not ask its kernel library. Where each filter stands
# for several neighbouring pixels, so many at most, there are more of them. Narrower images gain nothing.
NARROW = 16
ABREAST = 8
# With so many channels at most, patches side by side are better than XLA's own in every pass.
PARTED = 32
# With more channels of their own filters no convolution of one group is tried.
MOST_DEPTHWISE = 64
# So many channels at least, of image and result, for a product of bfloat16, and where Winograd's algorithm is the other way.
LEAST_NARROW = 32
DEEP = 128


def neighbours(width, filters):
    """For how many neighbouring pixels of so many there are filters enough together; 0: for none."""
    counts = range(2, ABREAST + 1) if width >= NARROW else ()
    return next((k for k in counts if width % k == 0 and k * filters > NARROW), 0)


class _Facts(NamedTuple):
    """What is asked of a convolution of floats in one group, images channels last, on a CPU."""

    shape: Shape
    images: int
    channels: int
    filters: int
    single: bool  # float32
    patches: int  # bytes

    @property
    def narrow(self) -> bool:
        """Whether there is a form for so few channels, ``abreast``."""
        return (
            self.single
            and max(self.channels, self.filters) <= NARROW
            and self.shape.dilate == (1, 1)
        )

    @property
    def turns(self) -> bool:
        """Whether the image's gradient is a convolution of the result's."""
        ends = zip(self.shape.kernel, self.shape.pad, strict=True)
        return self.shape.stride == (1, 1) and all(p < k for k, p in ends)

    @property
    def beside(self) -> tuple[int, int]:
        """Of how many neighbouring pixels a filter may be in the value and the image's gradient."""
        if not self.narrow:
            return 0, 0
        value = neighbours(self.shape.window.out[1], self.filters)
        return value, neighbours(self.shape.size[1], self.channels) if self.turns else 0

    @property
    def counted(self) -> bool:
        """Whether Winograd's algorithm and what was measured are asked for."""
        return self.single and not self.shape.lean and isinstance(self.images, int)


def _facts(dtype, x_shape, w_shape, stride, dilate, pad, lean):
    shape = Shape(
        tuple(x_shape[1:3]),
        tuple(w_shape[1:3]),
        tuple(stride),
        tuple(dilate),
        tuple(pad),
        lean=lean,
    )
    item = jnp.dtype(dtype).itemsize
    patches = prod(shape.window.out) * x_shape[0] * prod(w_shape[1:]) * item
    single = jnp.dtype(dtype) == jnp.float32
    return _Facts(shape, x_shape[0], x_shape[-1], w_shape[0], single, patches)


def _usual(facts):
    """The plan by thresholds, for shapes like which none was measured."""
    shape, channels, filters = facts.shape, facts.channels, facts.filters
    if (shape.kernel == (1, 1) and not any(shape.pad)) or (
        shape.window.parted and channels <= PARTED
    ):
        return Plan("cols", "cols", "cols")
    out = shape.window.out
    few = channels < 16
    deep = channels >= 256 and prod(out) <= 200
    # A full correlation over a small image multiplies mostly padding.
    waste = prod(shape.size) / (prod(out) * prod(shape.stride)) >= 1.5
    value = few or deep or prod(shape.kernel) >= 25

    def form(made, cols, beside):
        if facts.counted and winograd.serves(shape, facts.images, channels, filters, made):
            return "winograd"
        if cols and facts.patches <= VALUE_BYTES:
            return "cols"
        return "abreast" if beside and not convolves_in_one_thread() else "lax"

    by_patches = facts.patches <= WEIGHT_BYTES or (filters <= NARROW and cores() == 1)
    weight = "cols" if shape.lean or few or by_patches else "lax"
    return Plan(
        form(out, value, facts.beside[0]),
        form(shape.size, few or deep or waste, facts.beside[1]),
        weight if form(out, False, 0) != "winograd" else "winograd",
    )


def _admissible(facts):
    """Those of a convolution in one group."""
    ways = []
    small = facts.patches <= WEIGHT_BYTES or facts.shape.window.parted
    for cols, beside in zip((small, small, True), (*facts.beside, 0), strict=True):
        forms = {"cols": cols, "abreast": beside, "winograd": winograd.admits(facts.shape)}
        ways.append(("lax", *(form for form, may in forms.items() if may)))
    return tuple(ways)


def _measured(facts, usual):
    """The usual plan, or what was measured to be faster for shapes like these."""
    shape = facts.shape
    if shape.dilate != (1, 1):
        return usual
    pixels = prod(shape.size)
    numbers = facts.images, facts.channels, pixels, facts.filters, 1
    ms = measured.times((shape.kernel, shape.stride, "one"), numbers)
    if ms is None:
        return usual
    forms = _admissible(facts)
    best = Plan(*map(measured.faster, usual, forms, ms[:3]))
    if not ms[3] or "cols" not in forms[0] or "cols" not in forms[2]:
        return best
    # Both by patches share them.
    alone = ms[0].get(best.value, 0.0) + ms[2].get(best.weight_gradient, 0.0)
    least = measured.GAIN if usual.value == usual.weight_gradient == "cols" else 1 / measured.GAIN
    if alone > least * ms[3]:
        return best._replace(value="cols", weight_gradient="cols")
    return best


def blocks_in(form: str) -> int:
    """In how many convolutions of one group a form makes one of several; 0 where it is another form."""
    return int(form[6:]) if form.startswith("blocks") else 0


def _admissible_of_groups(groups, channels, filters, kernel):
    """Those of a convolution in several groups."""
    depthwise = channels == filters and grouped.is_depthwise(groups, channels, filters, kernel)
    counts = grouped.counts(groups, channels, filters)
    forms = tuple(f"blocks{n}" for n in counts)
    if depthwise:
        # Each block's filters are zeros but for one channel.
        forms = ("shifts", *forms) if channels <= MOST_DEPTHWISE else ("shifts",)
    return (forms,) * 3


def admissible(x_shape, w_shape, stride, pad, groups=1):
    """The forms that each pass of a float32 convolution without dilation may take on a CPU: what is to be measured."""
    if groups > 1:
        return _admissible_of_groups(groups, x_shape[-1], w_shape[0], tuple(w_shape[1:3]))
    return _admissible(_facts(jnp.float32, x_shape, w_shape, stride, (1, 1), pad, False))


def _of_groups(dtype, x_shape, w_shape, stride, dilate, pad, groups, lean):
    """The plan for a convolution in several groups."""
    channels, filters, kernel = x_shape[-1], w_shape[0], tuple(w_shape[1:3])
    forms = _admissible_of_groups(groups, channels, filters, kernel)
    if forms[0][0] == "shifts":
        usual = Plan("shifts", "shifts", "shifts")
    else:
        parts = grouped.parts(groups, channels, filters)
        usual = Plan(*[f"blocks{parts}"] * 3)
        narrow = grouped.parts(groups, channels, filters, NARROW)
        if narrow > parts and jnp.dtype(dtype) == jnp.float32:
            # Blocks of 16 channels multiply by fewer zeros, where there is a form for so narrow ones.
            images = *x_shape[:3], channels // narrow
            own = filters // narrow, *kernel, channels // narrow
            found = choose("cpu", dtype, images, own, stride, dilate, pad, 1, lean)
            pairs = zip(usual, found, strict=True)
            usual = Plan(*(form if of == "lax" else f"blocks{narrow}" for form, of in pairs))
    if lean or jnp.dtype(dtype) != jnp.float32 or tuple(dilate) != (1, 1):
        return usual
    key = kernel, tuple(stride), measured.kind_of(groups, channels)
    ms = measured.times(key, (x_shape[0], channels, prod(x_shape[1:3]), filters, groups))
    return Plan(*map(measured.faster, usual, forms, ms[:3])) if ms else usual


def choose(
    platform: str,
    dtype: np.dtype | type,
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    stride: Sequence[int],
    dilate: Sequence[int],
    pad: Sequence[int],
    num_group: int = 1,
    lean: bool = False,
) -> Plan:
    """The plan for one convolution; shapes are channels-last, (N, H, W, C) and (O, KH, KW, C).

    Where memory is short (``lean``) a weight's gradient is never XLA's own, which turns both images first.
    What was measured for shapes like these decides (`make tune-convolutions`, measured.json); elsewhere thresholds, which
    are measurements as well (README.md): move them only with new ones.
    """
    if platform != "cpu" or len(x_shape) != 4 or prod(x_shape) == 0 or prod(w_shape) == 0:
        return PLAIN
    if num_group > 1:
        if not jnp.issubdtype(dtype, jnp.floating) or not all(isinstance(n, int) for n in x_shape):
            return PLAIN
        return _of_groups(dtype, x_shape, w_shape, stride, dilate, pad, num_group, lean)
    if jnp.dtype(dtype) not in (jnp.float32, jnp.float64):
        return PLAIN
    if not all(isinstance(n, int) for n in (*x_shape[1:], *w_shape)):
        # For images of any size, or any number of channels: only NumPy computes such a trace, and it makes patches by itself.
        plain = tuple(w_shape[1:3]) == (1, 1) and not any(pad)
        return Plan("cols", "cols", "cols") if plain else PLAIN
    facts = _facts(dtype, x_shape, w_shape, stride, dilate, pad, lean)
    usual = _usual(facts)
    return _measured(facts, usual) if facts.counted else usual


def in_bfloat16(dtype, x_shape, w_shape, stride, dilate, pad):
    """The plan of a convolution of bfloat16 in one group on a CPU: ``narrow`` the passes that are faster as products of
    bfloat16 than by float32's plan. None: all are float32's."""
    known = len(x_shape) == 4 and all(isinstance(n, int) for n in (*x_shape, *w_shape))
    if dtype != jnp.bfloat16 or not multiplies_bfloat16() or not known:
        return None
    wide = choose("cpu", jnp.float32, x_shape, w_shape, stride, dilate, pad)
    if not prod(x_shape) or not prod(w_shape):
        return None
    channels, filters = x_shape[-1], w_shape[0]
    least = min(channels, filters)
    # Winograd's algorithm makes up for the other's speed where products are small.
    usual = [
        "narrow" if least >= (DEEP if form == "winograd" else LEAST_NARROW) else form
        for form in wide
    ]
    key = tuple(w_shape[1:3]), tuple(stride), "bfloat16"
    ms = None
    if tuple(dilate) == (1, 1):
        ms = measured.times(key, (x_shape[0], channels, prod(x_shape[1:3]), filters, 1))
    if ms:
        forms = [measured.faster("wide", ("wide", "narrow"), of) for of in ms[:3]]
        usual = [of if form == "wide" else form for form, of in zip(forms, wide, strict=True)]
    return Plan(*usual) if "narrow" in usual else None
