"""Which form computes each pass of a convolution, by platform, shape and dtype: :func:`choose`.

README.md beside this file has the measurements that it stands on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from mxjax.core.compile.compiler_options import convolves_in_one_thread, cores
from mxjax.ops.lowering import grouped, winograd
from mxjax.ops.lowering.columns import Window


class Plan(NamedTuple):
    """Which form computes the value, the input's gradient and the weight's gradient.

    ``lax`` is XLA's convolution, ``abreast`` the same with filters that give several neighbouring pixels each, and
    ``cols`` one matrix product over all kernel patches (a 1x1 kernel needs none made). Of groups: ``shifts`` a sum of
    shifted products, ``blocks`` a few convolutions of one group (see grouped.py). ``winograd`` is Winograd's algorithm for
    kernels of 3x3 (see winograd.py).
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


def neighbours(width, filters):
    """For how many neighbouring pixels of so many there are filters enough together; 0: for none."""
    counts = range(2, ABREAST + 1) if width >= NARROW else ()
    return next((k for k in counts if width % k == 0 and k * filters > NARROW), 0)


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
    The thresholds are measurements (README.md), not theory: move them only with new ones.
    """
    if platform != "cpu" or len(x_shape) != 4 or prod(x_shape) == 0 or prod(w_shape) == 0:
        return PLAIN
    if num_group > 1:
        if not jnp.issubdtype(dtype, jnp.floating) or not all(isinstance(n, int) for n in x_shape):
            return PLAIN
        one = x_shape[-1] == w_shape[0] and grouped.is_depthwise(
            num_group, x_shape[-1], w_shape[0], w_shape[1:3]
        )
        return Plan(*["shifts" if one else "blocks"] * 3)
    if jnp.dtype(dtype) not in (jnp.float32, jnp.float64):
        return PLAIN
    shape = Shape(tuple(x_shape[1:3]), tuple(w_shape[1:3]), stride, dilate, pad)
    out, channels = shape.window.out, x_shape[-1]
    if shape.kernel == (1, 1) and not any(pad):
        return Plan("cols", "cols", "cols")
    if not all(isinstance(n, int) for n in shape.size):
        return PLAIN  # for images of any size: only NumPy computes such a trace, and it makes patches by itself
    size = prod(out) * x_shape[0] * prod(w_shape[1:]) * jnp.dtype(dtype).itemsize
    few = channels < 16
    deep = channels >= 256 and prod(out) <= 200
    # A full correlation over a small image multiplies mostly padding.
    waste = prod(shape.size) / (prod(out) * prod(shape.stride)) >= 1.5
    value = few or deep or prod(shape.kernel) >= 25
    narrow = max(channels, w_shape[0]) <= NARROW and jnp.dtype(dtype) == jnp.float32
    abreast = narrow and tuple(dilate) == (1, 1) and not convolves_in_one_thread()
    turns = tuple(stride) == (1, 1) and all(p < k for k, p in zip(shape.kernel, pad, strict=True))

    counted = isinstance(x_shape[0], int) and jnp.dtype(dtype) == jnp.float32 and not lean
    serves = (
        partial(winograd.serves, shape, x_shape[0], channels, w_shape[0]) if counted else _never
    )

    def form(cols, beside):
        if cols and size <= VALUE_BYTES:
            return "cols"
        return "abreast" if abreast and beside else "lax"

    by_patches = lean or few or size <= WEIGHT_BYTES or (w_shape[0] <= NARROW and cores() == 1)
    return Plan(
        "winograd" if serves(out) else form(value, neighbours(out[1], w_shape[0])),
        "winograd"
        if serves(shape.size)
        else form(few or deep or waste, turns and neighbours(shape.size[1], channels)),
        "winograd" if serves(out) else "cols" if by_patches else "lax",
    )


def _never(out):
    return False
