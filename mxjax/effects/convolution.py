"""A convolution over few channels as one matrix product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from ..core.call import Call

#: More channels than these fill a convolution's own product well enough.
FEW = 4


def small_channel(call: Call, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The same convolution by windows laid out as rows, where it is over at most FEW channels in 2-D."""
    attrs = dict(call.attrs)
    layout = attrs.get("layout") or "NCHW"
    if layout != "NCHW" or int(attrs.get("num_group") or 1) != 1:
        return fn

    def run(data: Any, weight: Any, *rest: Any) -> Any:
        if data.ndim != 4 or data.shape[1] > FEW:
            return fn(data, weight, *rest)
        stride, dilate, pad = (_two(attrs.get(name), default) for name, default in
                               (("stride", 1), ("dilate", 1), ("pad", 0)))
        bias = rest[0] if rest and not attrs.get("no_bias") else None
        return product(data, weight, bias, stride, dilate, pad)

    return run


def product(data: Any, weight: Any, bias: Any, stride: Any, dilate: Any, pad: Any) -> Any:
    """Data (N, C, H, W) and weight (F, C, h, w) convolved: strided slices, then one dot."""
    filters, channels, high, wide = weight.shape
    data = jnp.pad(data, ((0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])))
    rows = (data.shape[2] - dilate[0] * (high - 1) - 1) // stride[0] + 1
    columns = (data.shape[3] - dilate[1] * (wide - 1) - 1) // stride[1] + 1
    windows = [
        data[:, :, i * dilate[0] : i * dilate[0] + stride[0] * (rows - 1) + 1 : stride[0],
             j * dilate[1] : j * dilate[1] + stride[1] * (columns - 1) + 1 : stride[1]]
        for i in range(high) for j in range(wide)
    ]
    stacked = jnp.stack(windows, axis=2).reshape(data.shape[0], channels * high * wide, rows * columns)
    out = jnp.einsum("fk,nkp->nfp", weight.reshape(filters, -1), stacked)
    out = out.reshape(data.shape[0], filters, rows, columns)
    return out if bias is None else out + bias.reshape(1, -1, 1, 1)


def _two(value: Any, default: int) -> tuple[int, int]:
    if value is None or value == ():
        return default, default
    if isinstance(value, int):
        return value, value
    first, second = value
    return int(first), int(second)
