"""Patches of images, channels last: (N, H, W, C) -> (N, OH, OW, KH, KW, C), and the sum of patches back into images."""

from __future__ import annotations

import operator
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mxjax.core.compile.cpu_product import materialize

# More of a patch's places than this are computed in the program; fewer are a constant of it.
MOST_INDICES = 1 << 18


class Window(NamedTuple):
    """How a kernel walks over a padded image: all that im2col and its transpose need to know."""

    size: tuple[int, int]  # of the padded image
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilate: tuple[int, int]

    @property
    def out(self) -> tuple[int, int]:
        steps = zip(self.size, self.kernel, self.stride, self.dilate, strict=True)
        return tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in steps)  # type: ignore[return-value]

    @property
    def parted(self) -> bool:
        """Whether patches neither overlap nor leave out pixels between them: they are the image in another order."""
        return self.kernel == self.stride and self.dilate == (1, 1)


def im2col(x: jax.Array, *, geometry: Window) -> jax.Array:
    # One gather with constant indices: XLA:CPU copies whole rows of channels; slices and a
    # concatenation take four times as long. Both ends are materialised: else XLA computes x anew
    # for every patch that holds it, and loops over one flat index, which does not vectorise.
    n, h, w, c = x.shape
    if geometry.parted:
        (oh, ow), (kh, kw) = geometry.out, geometry.kernel
        rows = x[:, : oh * kh, : ow * kw].reshape(n, oh, kh, ow, kw * c)
        return materialize(jnp.swapaxes(rows, 2, 3)).reshape(n, oh, ow, kh, kw, c)
    rows, cols = (
        np.arange(o)[:, None] * s + np.arange(k) * d
        for o, k, s, d in zip(geometry.out, *geometry[1:], strict=True)
    )
    narrow = np.uint16 if h * w <= 1 << 16 else np.int32
    flat: Any = (rows * w).astype(narrow)[:, None, :, None], cols.astype(narrow)[None, :, None, :]
    if prod(geometry.out) * prod(geometry.kernel) > MOST_INDICES:
        flat = map(jnp.asarray, flat)
    # As a constant they are no temporaries, which would wait from the forward to the backward pass.
    at = operator.add(*flat)[..., None]
    pixels = lax.GatherDimensionNumbers(
        offset_dims=(0, 5), collapsed_slice_dims=(1,), start_index_map=(1,)
    )
    image = materialize(x).reshape(n, h * w, c)
    return materialize(lax.gather(image, at, pixels, (n, 1, c), mode="promise_in_bounds"))


def col2im(g: jax.Array, *, geometry: Window) -> jax.Array:
    # Columns of a kernel row are added in one fused loop, rows in place: three times as fast as
    # 25 pads or 25 in-place additions.
    (h, w), (kh, kw), (sh, sw), (dh, dw) = geometry
    n, oh, ow, *_, c = g.shape
    zero = jnp.zeros((), g.dtype)
    if geometry.parted:
        rows = materialize(jnp.swapaxes(g.reshape(n, oh, ow, kh, kw * c), 2, 3))
        rest = (0, h - oh * kh, 0), (0, w - ow * kw, 0)
        return lax.pad(rows.reshape(n, oh * kh, ow * kw, c), zero, ((0, 0, 0), *rest, (0, 0, 0)))
    phases = -(-h // sh)  # rows of the image, as (phases, sh): a strided row is then a plain slice
    out = jnp.zeros((n, phases, sh, w, c), g.dtype)
    for i in range(kh):
        row = sum(
            lax.pad(
                g[:, :, :, i, j],
                zero,
                ((0, 0, 0), (0, 0, 0), (j * dw, w - (ow - 1) * sw - 1 - j * dw, sw - 1), (0, 0, 0)),
            )
            for j in range(kw)
        )
        at = (0, i * dh // sh, i * dh % sh, 0, 0)
        size = (n, oh, 1, w, c)
        old = lax.slice(out, at, [a + b for a, b in zip(at, size, strict=True)])
        out = lax.dynamic_update_slice(out, old + row[:, :, None], at)
    return out.reshape(n, phases * sh, w, c)[:, :h]
