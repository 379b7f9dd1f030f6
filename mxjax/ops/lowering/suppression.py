"""Greedy suppression of boxes that overlap better ones, by blocks of boxes.

From kept box to kept box each is compared with all that follow. Here a block is compared with those that are kept
already, at once, then its own with each other, and what follows the last one that is wanted is never looked at. Seconds
of CPU time for the 2,000 best of 12,000 boxes of two images: 1.2 before, 0.4 in NumPy, 0.04 in a program (MXNet 0.13).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...core.compile.compiler import platform_now

#: So many boxes are compared with those that are kept at once.
_ABREAST = 128


def _of_all(boxes: Any, threshold: float, count: int) -> Any:
    """:func:`kept` of all images at the same time."""
    n, many = boxes.shape[1], _ABREAST
    blocks = -(-n // many)
    at_most = -(-min(count, n) // many)  # blocks of kept ones
    boxes = jnp.pad(boxes, ((0, 0), (0, blocks * many - n), (0, 0)))
    at = jnp.arange(many)

    def area(b: Any) -> Any:
        return (b[..., 2] - b[..., 0] + 1) * (b[..., 3] - b[..., 1] + 1)

    def overlap(a: Any, b: Any) -> Any:
        a, b = a[:, :, None], b[:, None]
        width = jnp.minimum(a[..., 2], b[..., 2]) - jnp.maximum(a[..., 0], b[..., 0]) + 1
        height = jnp.minimum(a[..., 3], b[..., 3]) - jnp.maximum(a[..., 1], b[..., 1]) + 1
        both = jnp.maximum(width, 0) * jnp.maximum(height, 0)
        return both / (area(a) + area(b) - both) > threshold

    def block(state: Any) -> Any:
        k, found, kept, keep = state
        mine = lax.dynamic_slice_in_dim(boxes, k * many, many, 1)
        alive = jnp.broadcast_to(k * many + at < n, (len(boxes), many))

        def by_kept(state: Any) -> Any:
            j, alive = state
            others = lax.dynamic_slice_in_dim(kept, j * many, many, 1)
            there = j * many + at < found[:, None]
            return j + 1, alive & ~(overlap(others, mine) & there[..., None]).any(1)

        def among_kept(state: Any) -> Any:
            # The first is never false: it tells who reckons the price how many rounds there may be.
            return (state[0] < at_most) & (state[0] * many < found.max())

        def by_own(j: Any, alive: Any) -> Any:
            covered = lax.dynamic_index_in_dim(later, j, 1, keepdims=False)
            return alive & ~(covered & lax.dynamic_slice_in_dim(alive, j, 1, 1))

        _, alive = lax.while_loop(among_kept, by_kept, (0, alive))
        later = overlap(mine, mine) & (at[:, None] < at)
        alive = lax.fori_loop(0, many, by_own, alive)
        order = jnp.argsort(~alive, axis=1, stable=True)
        more = jnp.take_along_axis(mine, order[..., None], 1)
        kept = jax.vmap(partial(lax.dynamic_update_slice_in_dim, axis=0))(kept, more, found)
        found = jnp.minimum(found + alive.sum(1, dtype="int32"), count)
        return k + 1, found, kept, lax.dynamic_update_slice_in_dim(keep, alive, k * many, 1)

    start = (
        0,
        jnp.zeros(len(boxes), "int32"),
        jnp.zeros((len(boxes), (-(-count // many) + 1) * many, 4), boxes.dtype),
        jnp.zeros((len(boxes), blocks * many), bool),
    )
    going = lambda state: (state[0] < blocks) & (state[1] < count).any()  # noqa: E731
    return lax.while_loop(going, block, start)[3][:, :n]


def kept(boxes: Any, threshold: float, count: int) -> Any:
    """Which of the boxes (N, n, 4) of images, the best first, overlap no better one that is kept: (N, n).

    What comes behind the first ``count`` of each image is of no account. On a CPU image by image: each ends by itself.
    """
    if platform_now() != "cpu" or len(boxes) == 1:
        return _of_all(boxes, threshold, count)
    return lax.map(lambda own: _of_all(own[None], threshold, count)[0], boxes)
