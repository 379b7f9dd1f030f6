"""Windows of images as slices, and convolutions of whole numbers made of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import jax.numpy as jnp
from jax import lax

from .product import of_bytes


def patches(
    x: Any, kernel: Sequence[int], stride: Sequence[int], dilate: Sequence[int], pad: Sequence[int]
) -> Any:
    """The windows of (N, C, *space): (N, C, prod(kernel), *windows), as they are, whatever the dtype.

    As slices: a convolution with ones would round float32 on GPUs, and has no form for integers there.
    """
    x = jnp.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
    steps = list(zip(x.shape[2:], kernel, stride, dilate, strict=True))
    many = [(size - d * (k - 1) - 1) // s + 1 for size, k, s, d in steps]
    if any(m < 1 for m in many):
        raise ValueError(
            f"kernel size exceeds input: {tuple(kernel)} dilated by {tuple(dilate)} on {tuple(x.shape[2:])}, with its padding"
        )
    windows = []
    for place in product(*map(range, kernel)):
        start = [at * d for at, d in zip(place, dilate, strict=True)]
        stop = [a + (m - 1) * s + 1 for a, m, s in zip(start, many, stride, strict=True)]
        windows.append(lax.slice(x, (0, 0, *start), (*x.shape[:2], *stop), (1, 1, *stride)))
    return jnp.stack(windows, 2)


def whole_convolution(
    x: Any,
    w: Any,
    stride: Sequence[int],
    dilate: Sequence[int],
    pad: Sequence[int],
    groups: int,
    platform: str,
) -> Any:
    """The convolution of integers (N, C, *space) with (filters, C / groups, *kernel), exact, as int32.

    XLA has integer convolutions on CPUs. On a GPU it makes calls of them that cuDNN does not have, so that there it is a
    product of patches; a convolution of floats would not do, whose algorithms (Winograd's, Fourier's) round on the way.
    """
    if x.dtype != w.dtype and (platform == "cpu" or groups > 1):
        x, w = x.astype("int32"), w.astype("int32")
    if platform == "cpu":
        return lax.conv_general_dilated(
            x,
            w,
            stride,
            [(p, p) for p in pad],
            rhs_dilation=dilate,
            feature_group_count=groups,
            preferred_element_type=jnp.int32,
        )
    filters, kernel = w.shape[0], w.shape[2:]
    windows = patches(x, kernel, stride, dilate, pad)
    batch, space = windows.shape[0], windows.shape[3:]
    if groups == 1:
        rows = jnp.moveaxis(windows.reshape(batch, -1, prod(space)), 1, 2)
        made = of_bytes(rows, w.reshape(filters, -1))
    else:
        # Groups are the batch of one product, which GPUs' libraries may not have for 8 bits.
        columns = windows.reshape(batch, groups, -1, prod(space)).astype("int32")
        kernels = w.reshape(groups, filters // groups, -1).astype("int32")
        made = lax.dot_general(
            columns, kernels, (((2,), (2,)), ((1,), (0,))), preferred_element_type=jnp.int32
        )
        made = jnp.moveaxis(made, 0, 2).reshape(batch, prod(space), filters)
    return jnp.moveaxis(made, 2, 1).reshape(batch, filters, *space)
