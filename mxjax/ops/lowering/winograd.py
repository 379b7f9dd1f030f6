"""Convolutions with kernels of 3x3 by Winograd's algorithm, F(2x2, 3x3): images with their channels last.

Of each tile of 4x4 pixels, which overlap by two, 16 sums are made, of each filter 16 as well; products of both, one matrix
product for each of the 16, give sums of which 2x2 pixels of the result are made. That takes 16 products for these
four where the definition takes 36 (S. Winograd, 1980; A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural
Networks", 2015). README.md beside this file has the measurements.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mxjax.core.compile.compiler_options import cores
from mxjax.core.compile.cpu_product import materialize

# What the sums of tiles take at a time: they stay in the processor's cache from their making to their product.
PIECE_BYTES = 1 << 20
# Several cores divide each operation on a piece, which is so many times as large for each of them, and at most so large.
PER_CORE = 8
MOST_BYTES = 64 << 20
# Fewer channels and filters than this together make products too narrow for what the sums cost.
LEAST = 96
# Of the products by the definition at most so many may be left; and so many filters or channels to one tile.
MOST = 0.7
FEW = 8

_FILTER = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])


def tiles(out: tuple[int, int]) -> tuple[int, int]:
    """How many tiles of a result's 2x2 pixels there are, down and across."""
    return -(-out[0] // 2), -(-out[1] // 2)


def admits(shape: Any) -> bool:
    """Whether the algorithm is one for such a kernel."""
    return bool(
        shape.kernel == (3, 3) and {*shape.stride, *shape.dilate} == {1} and max(shape.pad) <= 2
    )


def serves(shape: Any, images: int, channels: int, filters: int, out: tuple[int, int]) -> bool:
    """Whether a pass that makes ``out`` pixels of so many images is one for the algorithm, and the faster by it."""
    if not admits(shape):
        return False
    many = prod(tiles(out))
    # Tiles that lie half outside spare nothing, nor do sums of filters for few of them.
    spares = 16 * many <= MOST * 9 * prod(out) and FEW * images * many >= min(channels, filters)
    return channels + filters >= LEAST and min(channels, filters) >= LEAST // 3 and spares


class _Pieces(NamedTuple):
    """In which pieces tiles are treated: ``turns`` times ``images`` of them, or ``bands`` of one, of so many ``rows`` of
    ``wide`` tiles."""

    turns: int
    images: int
    bands: int
    rows: int
    wide: int


def _piece_bytes() -> int:
    count = cores()
    return PIECE_BYTES if count == 1 else min(count * PER_CORE * PIECE_BYTES, MOST_BYTES)


def _pieces(images: int, out: tuple[int, int], channels: int, filters: int) -> _Pieces:
    """Pieces of at most so many bytes, or of what the filters' sums take, which are read or written in each turn."""
    high, wide = tiles(out)
    one, most = 16 * high * wide * channels * 4, max(_piece_bytes(), 16 * channels * filters * 4)
    bands = min(high, -(-one // most))
    rows = -(-high // bands)
    bands = -(-high // rows)
    turns = -(-images // max(1, most // one))
    together = -(-images // turns)
    return _Pieces(-(-images // together) * bands, together, bands, rows, wide)


def _cut(x: jax.Array, pieces: _Pieces, k: Any, more: int) -> jax.Array:
    """The k-th piece of images with two rows for each row of tiles, and so many more."""
    if pieces.turns == 1:
        return x
    at = k // pieces.bands * pieces.images, k % pieces.bands * 2 * pieces.rows, 0, 0
    # In memory first: a piece that its sums read where it lies takes them twice as long.
    return materialize(
        lax.dynamic_slice(x, at, (pieces.images, 2 * pieces.rows + more, *x.shape[2:]))
    )


def _padded(x: jax.Array, pieces: _Pieces, pad: tuple[int, int], more: int) -> jax.Array:
    """Images with ``pad`` before them, and behind them what the last tiles and the last piece reach beyond."""
    images = pieces.turns // pieces.bands * pieces.images
    high, wide = 2 * pieces.bands * pieces.rows + more, 2 * pieces.wide + more
    around = [(p, n - p - size) for p, n, size in zip(pad, (high, wide), x.shape[1:3], strict=True)]
    return jnp.pad(x, ((0, images - len(x)), *around, (0, 0)))


def value(x: jax.Array, w: jax.Array, shape: Any) -> jax.Array:
    """The convolution of images x (N, H, W, C) with w, (O, 3, 3, C) or (O, C, 3, 3)."""
    return _correlated(x, _of_filters(w, shape, _FILTER), 2, shape.window.out, shape.pad)


def input_gradient(g: jax.Array, w: jax.Array, shape: Any) -> jax.Array:
    """The gradient of x, from the result's gradient g (N, OH, OW, O): its convolution with mirrored filters."""
    pad = 2 - shape.pad[0], 2 - shape.pad[1]
    return _correlated(g, _of_filters(w, shape, _FILTER[:, ::-1]), 1, shape.size, pad)


def _correlated(
    x: jax.Array, filters: jax.Array, axis: int, out: tuple[int, int], pad: tuple[int, int]
) -> jax.Array:
    """The convolution with the sums of filters, which have the image's channels on this axis."""
    made = filters.shape[3 - axis]
    pieces = _pieces(len(x), out, x.shape[-1], made)
    padded = _padded(x, pieces, pad, 2)

    def some(k: Any) -> jax.Array:
        sums = _of_tiles(_cut(padded, pieces, k, 2), pieces)
        sums = lax.dot_general(sums, filters, (((2,), (axis,)), ((0,), (0,))))
        out = _two_of_four(sums.reshape(4, -1))
        out = _two_of_four(jnp.swapaxes(out.reshape(2, 4, -1), 0, 1).reshape(4, -1))
        out = out.reshape(
            2, 2, pieces.images, pieces.rows, pieces.wide, made
        )  # of a tile: down, across
        return out.transpose(2, 3, 0, 4, 1, 5).reshape(
            pieces.images, 2 * pieces.rows, 2 * pieces.wide, made
        )

    found = some(0) if pieces.turns == 1 else lax.map(some, jnp.arange(pieces.turns))
    found = found.reshape(-1, 2 * pieces.bands * pieces.rows, 2 * pieces.wide, made)
    return found[: len(x), : out[0], : out[1]]


def weight_gradient(x: jax.Array, g: jax.Array, shape: Any) -> jax.Array:
    """The gradient of w, from the images and the result's gradient g (N, OH, OW, O)."""
    pieces = _pieces(len(x), shape.window.out, x.shape[-1], g.shape[-1])
    x, g = _padded(x, pieces, shape.pad, 2), _padded(g, pieces, (0, 0), 0)

    def some(k: Any) -> jax.Array:
        given, read = _of_results(_cut(g, pieces, k, 0)), _of_tiles(_cut(x, pieces, k, 2), pieces)
        return lax.dot_general(given, read, (((1,), (1,)), ((0,), (0,))))

    sums = some(0)
    if pieces.turns > 1:
        sums = lax.fori_loop(1, pieces.turns, lambda k, sums: sums + some(k), sums)
    found = _matrix(_FILTER, x.dtype).T @ sums.reshape(16, -1)
    found = found.reshape(
        9, *sums.shape[1:]
    )  # one axis for both of a kernel: by two of them XLA takes longer
    filters, channels = sums.shape[1:]
    if shape.first:
        return materialize(found.transpose(1, 2, 0)).reshape(filters, channels, 3, 3)
    return materialize(found.transpose(1, 0, 2)).reshape(filters, 3, 3, channels)


def _of_tiles(x: jax.Array, pieces: _Pieces) -> jax.Array:
    """(16, tiles, channels): across first, then down, for each a sum or difference of two of a tile's four pixels."""

    def combined(x: jax.Array, axis: int, count: int) -> jax.Array:
        a, b, c, d = (
            lax.slice_in_dim(x[None], k, k + 2 * count - 1, 2, axis + 1) for k in range(4)
        )
        return lax.concatenate([a - c, b + c, c - b, b - d], 0)

    sums = combined(combined(x, 1, pieces.rows), 3, pieces.wide)
    return materialize(sums.reshape(16, -1, x.shape[-1]))


def _of_results(g: jax.Array) -> jax.Array:
    """(16, tiles, filters) of a result's gradient, the transpose of :func:`_two_of_four`."""

    def spread(g: jax.Array, axis: int) -> jax.Array:
        a, b = (lax.slice_in_dim(g[None], k, g.shape[axis], 2, axis + 1) for k in range(2))
        return lax.concatenate([a, a + b, a - b, -b], 0)

    return materialize(spread(spread(g, 1), 3).reshape(16, -1, g.shape[-1]))


def _matrix(of_filter: np.ndarray, dtype: Any) -> jax.Array:
    """(16, 9): what makes the sums of a filter, in the order of :func:`_of_tiles`, of its rows one after the other."""
    return jnp.asarray(np.einsum("aj,di->adij", of_filter, of_filter).reshape(16, 9), dtype)


def _of_filters(w: jax.Array, shape: Any, of_filter: np.ndarray) -> jax.Array:
    """(16, filters, channels), in the order of :func:`_of_tiles`."""
    matrix = _matrix(of_filter, w.dtype)
    if shape.first:
        rows = w.reshape(-1, 9)
        return lax.dot_general(matrix, rows, (((1,), (1,)), ((), ()))).reshape(16, *w.shape[:2])
    return lax.dot_general(matrix, w.reshape(len(w), 9, -1), (((1,), (1,)), ((), ())))


def _two_of_four(sums: jax.Array) -> jax.Array:
    a, b, c, d = (lax.slice_in_dim(sums, k, k + 1) for k in range(4))
    return lax.concatenate([a + b + c, b - c - d], 0)
