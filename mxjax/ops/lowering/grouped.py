"""Convolutions in groups on CPUs, where XLA loops over single numbers: images with their channels last.

One channel for each filter (depthwise) is a sum of shifted products: for each of the kernel's elements the pixels that it
reads, times its row of weights. Other groups are one convolution, or a few, with kernels of blocks: a filter has zeros
for the channels of other groups. README.md beside this file has the measurements.
"""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mxjax.core.compile.compiler_options import cores
from mxjax.core.compile.cpu_product import materialize

# Kernels of more elements than this are not written down one by one.
MOST_TAPS = 49
# A weight's gradient adds up so many rows at most in a turn of its loop, and is written down in so many sums.
MOST_ROWS = 8
MOST_TERMS = 128
# With more cores than this a convolution is one loop over whole images, which are divided among them.
MOST_CORES = 4
# Blocks of fewer channels than this are made larger, and there are so many at most.
LEAST_BLOCK = 32
MOST_BLOCKS = 8


# ---- one channel for each filter ----------------------------------------------------------------
def _taps(w: jax.Array) -> jax.Array:
    """The weight as one row of channels for each of the kernel's elements; it has one element on its channels' axis."""
    return w.reshape(len(w), -1).T


def _times(x: jax.Array, taps: jax.Array, k: int) -> jax.Array:
    """x times the k-th row of taps; in few operations, since programs have many of them."""
    row = lax.slice(taps, (k, 0), (k + 1, taps.shape[1]))
    return lax.mul(x, lax.broadcast_in_dim(row, x.shape, (0, x.ndim - 1)))


def _wide(*arrays: jax.Array) -> list[jax.Array]:
    """As float32 where they are shorter: sums are rounded once."""
    short = arrays[0].dtype.itemsize < 4
    return [a.astype(jnp.float32) for a in arrays] if short else list(arrays)


def _padded(x: jax.Array, low: tuple[int, int], high: tuple[int, int]) -> jax.Array:
    """The image with so many rows and columns more (fewer, where negative) before and after its own."""
    if not any((*low, *high)):
        return x
    between = [(a, b, 0) for a, b in zip(low, high, strict=True)]
    return lax.pad(x, jnp.zeros((), x.dtype), ((0, 0, 0), *between, (0, 0, 0)))


def _places(shape: Any) -> list[tuple[int, int]]:
    return list(product(*map(range, shape.kernel)))


def shifted(x: jax.Array, w: jax.Array, shape: Any) -> jax.Array:
    """The convolution as a sum of shifted products."""
    dtype = x.dtype
    x, taps = _wide(x, _taps(w))
    return _correlated(x, taps, shape, shape.pad, shape.window.out).astype(dtype)


def _correlated(
    x: jax.Array, taps: jax.Array, shape: Any, low: tuple[int, int], out: tuple[int, int]
) -> jax.Array:
    """So many rows and columns of the sum of products with taps, of images with so many zeros before them."""
    (oh, ow), (sh, sw), (dh, dw) = out, shape.stride, shape.dilate
    n, h, w, c = x.shape
    whole = cores() > MOST_CORES
    bands = 1 if whole else -(-oh // MOST_ROWS)
    rows = -(-oh // bands)
    reach = [(k - 1) * d + 1 for k, d in zip(shape.kernel, shape.dilate, strict=True)]
    high, wide = (rows - 1) * sh + reach[0], (ow - 1) * sw + reach[1]
    # Behind the last row there are zeros for the rest of the last band, whose results nobody wants.
    ends = (bands * rows - 1) * sh + reach[0] - h - low[0], wide - w - low[1]

    def products(read: jax.Array) -> jax.Array:
        def cut(i: int, j: int) -> jax.Array:
            i, j = i * dh, j * dw
            last = i + (rows - 1) * sh + 1, j + (ow - 1) * sw + 1
            return lax.slice(read, (0, i, j, 0), (len(read), *last, c), (1, sh, sw, 1))

        return reduce(lax.add, (_times(cut(*at), taps, k) for k, at in enumerate(_places(shape))))

    if whole:
        return products(_padded(x, low, ends))

    def some(k: Any) -> jax.Array:
        padded = _padded(lax.dynamic_slice_in_dim(x, k // bands, 1), low, ends)
        read = lax.dynamic_slice(padded, (0, k % bands * rows * sh, 0, 0), (1, high, wide, c))
        return products(materialize(read))[0]

    made = lax.map(some, jnp.arange(n * bands)).reshape(n, bands * rows, ow, c)
    return made[:, :oh]


def shifted_input_gradient(g: jax.Array, w: jax.Array, shape: Any) -> jax.Array:
    """The image's gradient, phase by phase: pixels as far from a multiple of the stride take part in the same products."""
    dtype = g.dtype
    g, taps = _wide(g, _taps(w))
    if shape.stride == (1, 1):
        low = [
            d * (k - 1) - p for k, d, p in zip(shape.kernel, shape.dilate, shape.pad, strict=True)
        ]
        return _correlated(g, lax.rev(taps, (0,)), shape, tuple(low), shape.size).astype(dtype)  # type: ignore[arg-type]
    blocks = tuple(-(-n // s) for n, s in zip(shape.size, shape.stride, strict=True))

    def reached(axis: int, phase: int) -> dict[int, int]:
        """By how many of the result's rows each element of the kernel is before the image's, where it reads them."""
        step, dilate, pad = shape.stride[axis], shape.dilate[axis], shape.pad[axis]
        moves = {i: i * dilate - phase - pad for i in range(shape.kernel[axis])}
        return {i: move // step for i, move in moves.items() if move % step == 0}

    moves = [
        move
        for axis in range(2)
        for phase in range(shape.stride[axis])
        for move in reached(axis, phase).values()
    ]
    least, most = min(moves), max(moves)
    ends = [b - o - least for b, o in zip(blocks, shape.window.out, strict=True)]
    g = materialize(_padded(g, (most, most), (ends[0], ends[1])))
    n, c = len(g), g.shape[-1]

    def part(phases: tuple[int, int]) -> jax.Array | None:
        terms = [
            _times(
                lax.slice(
                    g,
                    (0, most - u, most - v, 0),
                    (n, most - u + blocks[0], most - v + blocks[1], c),
                ),
                taps,
                i * shape.kernel[1] + j,
            )
            for i, u in reached(0, phases[0]).items()
            for j, v in reached(1, phases[1]).items()
        ]
        return reduce(lax.add, terms) if terms else None

    (sh, sw), (bh, bw) = shape.stride, blocks
    whole = jnp.zeros((n, bh, sh, bw, sw, c), g.dtype)
    for phases in product(range(sh), range(sw)):
        made = part(phases)
        if made is not None:
            whole = lax.dynamic_update_slice(
                whole, made[:, :, None, :, None], (0, 0, phases[0], 0, phases[1], 0)
            )
    return whole.reshape(n, bh * sh, bw * sw, c)[:, : shape.size[0], : shape.size[1]].astype(dtype)


def shifted_weight_gradient(x: jax.Array, g: jax.Array, shape: Any) -> jax.Array:
    """The weight's gradient, (channels, kernel's elements): a loop over bands of rows, with a sum for each of the elements."""
    dtype = x.dtype
    x, g = _wide(x, g)
    (oh, ow), (sh, sw), (dh, dw) = shape.window.out, shape.stride, shape.dilate
    c, wide, places = x.shape[-1], shape.window.size[1], _places(shape)
    most = max(1, min(MOST_ROWS, MOST_TERMS // len(places)))
    bands = -(-oh // min(oh, most))
    rows = -(-oh // bands)
    high = (rows - 1) * sh + (shape.kernel[0] - 1) * dh + 1

    def turn(k: Any, sums: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        image, first = k // bands, k % bands * rows
        at = (
            jnp.minimum(first, oh - rows) if oh % rows else first
        )  # the last band begins in the one before
        given = lax.dynamic_slice(g, (image, at, 0, 0), (1, rows, ow, c))[0]
        padded = _padded(lax.dynamic_slice_in_dim(x, image, 1), shape.pad, shape.pad)
        read = lax.dynamic_slice(padded, (0, at * sh, 0, 0), (1, high, wide, c))[0]
        # In memory first: XLA would cut both, and pad the image, anew for each of the products.
        given, read = materialize(given), materialize(read)

        def added(total: jax.Array, i: int, j: int) -> jax.Array:
            i, j = i * dh, j * dw
            ends = i + (rows - 1) * sh + 1, j + (ow - 1) * sw + 1, c
            products = lax.mul(lax.slice(read, (i, j, 0), ends, (sh, sw, 1)), given)
            if oh % rows:
                row = at + lax.broadcasted_iota(jnp.int32, products.shape, 0)
                products = jnp.where(row >= first, products, jnp.zeros((), products.dtype))
            # Row by row: XLA's own sum along the first axis goes number by number.
            parts = (lax.slice_in_dim(products, r, r + 1) for r in range(rows))
            return reduce(lax.add, parts, total)

        return tuple(added(total, *at) for total, at in zip(sums, places, strict=True))

    zeros = (jnp.zeros((1, ow, c), x.dtype),) * len(places)
    sums = lax.fori_loop(0, len(x) * bands, turn, zeros)
    return lax.concatenate(sums, 0).sum(1).T.astype(dtype)


# ---- a few channels for each filter ------------------------------------------------------------
def counts(groups: int, channels: int, filters: int, least: int = 1) -> list[int]:
    """In how many convolutions, each with some of the groups, it may be made, of at least so many channels."""
    few = min(channels, filters) // least
    return [n for n in range(1, min(MOST_BLOCKS, few) + 1) if groups % n == 0]


def parts(groups: int, channels: int, filters: int, least: int = LEAST_BLOCK) -> int:
    """In how many it is made, where nothing else was measured."""
    return max(counts(groups, channels, filters, least), default=1)


def _own(filters: int, groups: int, shape: tuple[int, ...], axis: int) -> jax.Array:
    """For each element of a dense weight whether filter and channel are of one group."""
    filter_, channel = (lax.broadcasted_iota(jnp.int32, shape, d) for d in (0, axis))
    return filter_ // (filters // groups) == channel // (shape[axis] // groups)


def dense(w: jax.Array, groups: int, axis: int) -> jax.Array:
    """A weight of groups with all channels on its axis: zeros for those of other groups."""
    if groups == 1:
        return w
    whole = jnp.concatenate([w] * groups, axis)
    return jnp.where(_own(len(w), groups, whole.shape, axis), whole, jnp.zeros((), w.dtype))


def of_groups(w: jax.Array, groups: int, axis: int) -> jax.Array:
    """What lies in the blocks of a dense weight."""
    if groups == 1:
        return w
    w = jnp.where(_own(len(w), groups, w.shape, axis), w, jnp.zeros((), w.dtype))
    size = w.shape[axis] // groups
    return w.reshape(*w.shape[:axis], groups, size, *w.shape[axis + 1 :]).sum(axis)


def is_depthwise(groups: int, channels: int, filters: int, kernel: tuple[int, ...]) -> bool:
    """Whether each filter has one channel, some filters each channel, and the kernel is not too large."""
    return groups == channels and filters % channels == 0 and prod(kernel) <= MOST_TAPS
