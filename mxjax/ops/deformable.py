"""Deformable convolutions (Dai et al. 2017; modulated: Zhu et al. 2018): samples at learned places, then one product."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .samples import case, f
from .table import op


def _shapes(
    shape: Any, *, kernel: Any, num_filter: int, num_group: int = 1, **attrs: Any
) -> dict[str, tuple[int, ...]]:
    found = {"weight": (num_filter, shape[1] // num_group, *kernel)}
    return found if attrs.get("no_bias") else {**found, "bias": (num_filter,)}


def _places(
    offset: Any, groups: int, kernel: Any, stride: Any, dilate: Any, pad: Any
) -> tuple[Any, Any]:
    """Where each tap of each group samples: y and x, (N, groups, taps, h, w)."""
    kh, kw = kernel
    n, _, h, w = offset.shape
    moved = offset.reshape(n, groups, kh * kw, 2, h, w)
    i, j = (g.reshape(-1, 1, 1) for g in np.meshgrid(np.arange(kh), np.arange(kw), indexing="ij"))
    y = np.arange(h)[:, None] * stride[0] - pad[0] + i * dilate[0]
    x = np.arange(w)[None] * stride[1] - pad[1] + j * dilate[1]
    return moved[:, :, :, 0] + y.astype(offset.dtype), moved[:, :, :, 1] + x.astype(offset.dtype)


def _sampled(image: Any, y: Any, x: Any, edge: bool) -> Any:
    """Bilinear samples of (C, H, W) at places of any shape; zeros outside.

    ``edge``: what lies within the last pixel is that pixel; else an image is surrounded by zeros.
    """
    h, w = image.shape[1:]
    if edge:
        inside = (y >= 0) & (x >= 0) & (y < h) & (x < w)
        y, x = jnp.minimum(y, h - 1), jnp.minimum(x, w - 1)
    else:
        inside = (y > -1) & (x > -1) & (y < h) & (x < w)
    y0, x0 = jnp.floor(y), jnp.floor(x)
    ly, lx = y - y0, x - x0
    y0, x0 = y0.astype("int32"), x0.astype("int32")

    def at(r: Any, c: Any) -> Any:
        there = (r >= 0) & (r < h) & (c >= 0) & (c < w)
        return jnp.where(there, image[:, jnp.clip(r, 0, h - 1), jnp.clip(c, 0, w - 1)], 0)

    value = (
        at(y0, x0) * ((1 - ly) * (1 - lx)) + at(y0, x0 + 1) * ((1 - ly) * lx)
        + at(y0 + 1, x0) * (ly * (1 - lx)) + at(y0 + 1, x0 + 1) * (ly * lx)
    )  # fmt: skip
    return jnp.where(inside, value, 0)


def _convolved(
    data: Any, offset: Any, mask: Any, weight: Any, bias: Any, kernel: Any, stride: Any, dilate: Any, pad: Any,
    num_filter: int, num_group: int, groups: int, edge: bool, layout: str | None,
) -> Any:  # fmt: skip
    if layout not in (None, "NCHW"):
        raise ValueError(f"deformable convolutions take the layout NCHW, got {layout}")
    n, channels = data.shape[:2]
    stride, dilate, pad = stride or (1, 1), dilate or (1, 1), pad or (0, 0)
    taps = kernel[0] * kernel[1]
    size = [
        (d + 2 * p - (s - 1) * k - 1) // t + 1
        for d, p, s, k, t in zip(data.shape[2:], pad, kernel, dilate, stride, strict=True)
    ]
    if tuple(offset.shape) != (n, 2 * taps * groups, *size):
        raise ValueError(
            f"offset must have the shape {(n, 2 * taps * groups, *size)} (two a tap and deformable group, and the size of "
            f"the result), got {tuple(offset.shape)}"
        )
    y, x = _places(offset, groups, kernel, stride, dilate, pad)
    images = data.reshape(n, groups, channels // groups, *data.shape[2:])
    columns = jax.vmap(jax.vmap(lambda a, b, c: _sampled(a, b, c, edge)))(
        images, y, x
    )  # (n, g, c/g, taps, h, w)
    if mask is not None:
        columns = columns * mask.reshape(n, groups, 1, taps, *size)
    columns = columns.reshape(n, num_group, channels // num_group, taps, *size)
    w = weight.reshape(num_group, num_filter // num_group, channels // num_group, taps)
    out = jnp.einsum("ngcthw,gfct->ngfhw", columns, w).reshape(n, num_filter, *size)
    return out if bias is None else out + bias[:, None, None]


_GIVEN = dict(kernel=(2, 2), num_filter=3)


@op(
    npx="deformable_convolution",
    internal="_npx_deformable_convolution",
    nd_contrib="DeformableConvolution",
    samples=[
        case(f(1, 2, 4, 4), f(1, 8, 3, 3, low=0.05, high=0.4), f(3, 2, 2, 2), f(3), **_GIVEN),
        case(f(2, 2, 4, 4), f(2, 16, 3, 3), f(4, 1, 2, 2), kernel=(2, 2), num_filter=4, num_group=2, num_deformable_group=2,
             stride=(2, 2), pad=(1, 1), no_bias=True),
    ],
    shapes=_shapes,
    amp="full",
    smooth=False,
)  # fmt: skip
def deformable_convolution(
    data: Any,
    offset: Any,
    weight: Any,
    bias: Any = None,
    *,
    kernel: Any,
    stride: Any = (),
    dilate: Any = (),
    pad: Any = (),
    num_filter: int,
    num_group: int = 1,
    num_deformable_group: int = 1,
    workspace: int = 1024,
    no_bias: bool = False,
    layout: str | None = None,
) -> Any:
    """A convolution whose taps are moved by learned offsets (Dai et al. 2017).

    data: (N, C, H, W); offset: (N, 2 taps groups, h, w), y and x of each tap; weight: (num_filter, C / num_group, *kernel).
    """
    return _convolved(data, offset, None, weight, None if no_bias else bias, kernel, stride, dilate, pad, num_filter,
                      num_group, num_deformable_group, True, layout)  # fmt: skip


@op(
    npx="modulated_deformable_convolution",
    internal="_npx_modulated_deformable_convolution",
    nd_contrib="ModulatedDeformableConvolution",
    samples=[
        case(f(1, 2, 4, 4), f(1, 8, 3, 3, low=0.05, high=0.4), f(1, 4, 3, 3), f(3, 2, 2, 2), f(3), **_GIVEN),
        case(f(2, 2, 4, 4), f(2, 16, 3, 3), f(2, 8, 3, 3), f(4, 1, 2, 2), kernel=(2, 2), num_filter=4, num_group=2,
             num_deformable_group=2, stride=(2, 2), pad=(1, 1), no_bias=True),
    ],
    shapes=_shapes,
    amp="full",
    smooth=False,
)  # fmt: skip
def modulated_deformable_convolution(
    data: Any,
    offset: Any,
    mask: Any,
    weight: Any,
    bias: Any = None,
    *,
    kernel: Any,
    stride: Any = (),
    dilate: Any = (),
    pad: Any = (),
    num_filter: int,
    num_group: int = 1,
    num_deformable_group: int = 1,
    workspace: int = 1024,
    no_bias: bool = False,
    im2col_step: int = 64,
    layout: str | None = None,
) -> Any:
    """A deformable convolution whose samples are weighed by a learned mask (Zhu et al. 2018).

    mask: (N, taps groups, h, w); the rest as `deformable_convolution`.
    """
    return _convolved(data, offset, mask, weight, None if no_bias else bias, kernel, stride, dilate, pad, num_filter,
                      num_group, num_deformable_group, False, layout)  # fmt: skip
