"""Convolution, lowered by platform and shape.

On a GPU or TPU the plain `lax.conv_general_dilated` is best. On a CPU, XLA's convolution is
good for many channels and slow for few, its weight gradient is slow nearly everywhere, and a
1x1 kernel costs two layout changes; other forms do better there (`convolution_forms.py`). The
rule is `convolution_plan.choose`; README.md beside this file has the measurements it stands on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import jax
import jax.numpy as jnp
from jax import lax

from mxjax.ops.lowering import grouped
from mxjax.ops.lowering.convolution_forms import primitives
from mxjax.ops.lowering.convolution_plan import PLAIN, Plan, Shape, choose, in_bfloat16
from mxjax.ops.lowering.product import NARROW

LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def _bias(out: jax.Array, bias: jax.Array) -> jax.Array:
    """Adds the bias as a product with a column of ones, so that its gradient is a matrix product.

    As a plain sum over rows it cannot be vectorised without reordering floating-point additions.
    """
    ones = jnp.ones((prod(out.shape[:-1]), 1), out.dtype)
    return out + (ones @ bias[None]).reshape(out.shape)


def convolution(
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    *,
    kernel: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dilate: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    num_group: int = 1,
    layout: str | None = None,
    platform: str = "cpu",
    plan: Plan | None = None,
    lean: bool = False,
) -> jax.Array:
    """Cross-correlates images with a bank of kernels (what MXNet calls Convolution).

    x is (N, C, *spatial) and weight (O, C // num_group, *kernel) in layouts NCW, NCHW and NCDHW;
    (N, *spatial, C) and (O, *kernel, C // num_group) in NWC, NHWC and NDHWC. bias is (O,). Any
    floating dtype; the result has x's. Raises ValueError where shapes do not fit. Differentiable
    any number of times in both modes.

    >>> convolution(jnp.ones((8, 3, 32, 32)), jnp.ones((16, 3, 3, 3)), pad=(1, 1)).shape
    (8, 16, 32, 32)
    """
    nd = x.ndim - 2
    if nd not in LAYOUTS or weight.ndim != x.ndim:
        raise ValueError(
            f"convolution takes images of 1 to 3 spatial dimensions and a weight of as many; "
            f"got data of shape {x.shape} and weight of shape {weight.shape}"
        )
    layout = layout or LAYOUTS[nd][0]
    if layout not in LAYOUTS[nd]:
        raise ValueError(
            f"layout={layout!r} does not fit data of shape {x.shape}: expected "
            f"{' or '.join(LAYOUTS[nd])}"
        )
    last = layout[-1] == "C"
    channels, in_group = (x.shape[-1], weight.shape[-1]) if last else (x.shape[1], weight.shape[1])
    if channels != in_group * num_group or weight.shape[0] % num_group:
        raise ValueError(
            f"data of shape {x.shape} has {channels} channels in layout {layout}, but weight of "
            f"shape {weight.shape} with num_group={num_group} takes {in_group * num_group}"
        )
    window = weight.shape[1:-1] if last else weight.shape[2:]
    if kernel and tuple(kernel) != window:
        raise ValueError(f"kernel={tuple(kernel)}, but weight of shape {weight.shape} has {window}")
    stride, dilate = (tuple(v) if v else (1,) * nd for v in (stride, dilate))
    pad = tuple(pad) if pad else (0,) * nd
    spatial = x.shape[1:-1] if last else x.shape[2:]
    for n, k, d, p in zip(spatial, window, dilate, pad, strict=True):
        if n + 2 * p < d * (k - 1) + 1:
            raise ValueError(
                f"kernel size exceed input: {window} (dilate {dilate}) is larger than the padded image, "
                f"data of shape {x.shape}, pad {pad}"
            )

    whole = window == spatial and not any(pad) and num_group == 1 and plan is None
    if whole and platform == "cpu" and x.dtype in (jnp.float32, jnp.float64):
        # Each kernel covers its image: a product of matrices, as the images lie. XLA's gradient of the image would go
        # over a padded one four times as large for each of its pixels.
        rows, columns = (
            x.reshape(x.shape[0], prod(x.shape[1:])),
            weight.reshape(weight.shape[0], prod(weight.shape[1:])),
        )
        out = rows @ columns.T
        out = out if bias is None else out + bias
        ones = (1,) * nd
        return (
            out.reshape(out.shape[0], *ones, out.shape[1])
            if last
            else out.reshape(*out.shape, *ones)
        )

    def to_last(a: jax.Array) -> jax.Array:
        return a if last else jnp.moveaxis(a, 1, -1)

    if (
        nd == 3
        and platform == "cpu"
        and plan is None
        and prod(x.shape)
        and all(isinstance(n, int) for n in x.shape)
    ):
        rest = stride, dilate, pad, num_group, not last, lean

        def by_planes(x, w, bias):
            return _by_planes(x, w, bias, *rest)

        if str(x.dtype) in NARROW:
            out = _in_float32(by_planes, to_last(x), weight, bias)
        else:
            out = by_planes(to_last(x), weight, bias)
        return out if last else jnp.moveaxis(out, -1, 1)
    if nd == 1:  # as an image of one row, so that the rules below serve it too
        lifted = weight[:, None] if last else weight[:, :, None]
        out = _last(
            to_last(x)[:, None],
            lifted,
            bias,
            (1, *stride),
            (1, *dilate),
            (0, *pad),
            num_group,
            platform,
            plan,
            not last,
            lean,
        )[:, 0]
    else:
        out = _last(
            to_last(x), weight, bias, stride, dilate, pad, num_group, platform, plan, not last, lean
        )
    return out if last else jnp.moveaxis(out, -1, 1)


def _by_planes(x, w, bias, stride, dilate, pad, num_group, first, lean):
    """The convolution of channels-last volumes as one of images: the planes that a kernel reads are beside each other, as
    channels of one."""
    n, deep, *size, channels = x.shape
    planes = w.shape[2 if first else 1]
    (step, *stride), (dilate, *dilation), (around, *pad) = stride, dilate, pad
    out = (deep + 2 * around - dilate * (planes - 1) - 1) // step + 1
    x = jnp.pad(x, ((0, 0), (around, around), (0, 0), (0, 0), (0, 0))) if around else x
    x = x.reshape(*x.shape[:-1], num_group, channels // num_group)
    read = [
        lax.slice_in_dim(x, k * dilate, k * dilate + (out - 1) * step + 1, step, 1)
        for k in range(planes)
    ]
    images = jnp.stack(read, -2).reshape(n * out, *size, planes * channels)
    w = (
        jnp.swapaxes(w, 1, 2) if first else jnp.moveaxis(w, 1, -2)
    )  # (filters, planes, channels, ...) or (..., planes, channels)
    at = 1 if first else 3
    w = w.reshape(*w.shape[:at], planes * channels // num_group, *w.shape[at + 2 :])
    made = _last(
        images,
        w,
        bias,
        tuple(stride),
        tuple(dilation),
        tuple(pad),
        num_group,
        "cpu",
        None,
        first,
        lean,
    )
    return made.reshape(n, out, *made.shape[1:])


def transposed(g, w, stride, dilate, pad, size, num_group, platform, lean):
    """The image's gradient of a convolution, of which g (N, O, *spatial) is the result's, as a function of its own.

    ``size``: the image's; of those that give a result of g's size.
    """
    x = jax.ShapeDtypeStruct((g.shape[0], w.shape[1] * num_group, *size), g.dtype)

    def forward(x):
        return convolution(
            x,
            w,
            stride=stride,
            dilate=dilate,
            pad=pad,
            num_group=num_group,
            platform=platform,
            lean=lean,
        )

    return jax.linear_transpose(forward, x)(g)[0]


def _last(x, w, bias, stride, dilate, pad, num_group, platform, plan, first, lean):
    """The convolution of a channels-last image; ``first``: the weight's channels come first."""
    w_shape = (w.shape[0], *w.shape[2:], w.shape[1]) if first else w.shape
    if platform == "cpu" and plan is None and num_group > 1 and len(w) > x.shape[-1]:
        if grouped.is_depthwise(
            num_group, x.shape[-1], len(w), w_shape[1:-1]
        ):  # as many channels as filters
            x, num_group = jnp.repeat(x, len(w) // num_group, -1), len(w)
    if platform == "cpu" and plan is None and num_group == 1 and str(x.dtype) in NARROW:
        if bias is None and not lean:  # a bias is added before the one rounding
            plan = in_bfloat16(x.dtype, x.shape, w_shape, stride, dilate, pad)
        if plan is None:
            rest = stride, dilate, pad, 1, platform, None, first, lean
            return _in_float32(lambda *arrays: _last(*arrays, *rest), x, w, bias)
    plan = plan or choose(platform, x.dtype, x.shape, w_shape, stride, dilate, pad, num_group, lean)
    if plan == PLAIN:
        # Written in the caller's terms XLA would see the same: it moves the transposes itself.
        spatial = "HW" if x.ndim == 4 else "DHW"
        spec = (f"N{spatial}C", f"OI{spatial}" if first else f"O{spatial}I", f"N{spatial}C")
        out = lax.conv_general_dilated(
            x,
            w,
            stride,
            [(p, p) for p in pad],
            rhs_dilation=dilate,
            dimension_numbers=spec,
            feature_group_count=num_group,
        )
        return out if bias is None else out + bias
    shape = Shape(x.shape[1:3], w_shape[1:3], stride, dilate, pad, first, lean, num_group)
    out = primitives()[0].bind(x, w, plan=plan, shape=shape)
    return out if bias is None else _bias(out, bias)


def _in_float32(run, x, w, bias):
    """The convolution of 16-bit numbers by float32's, rounded at the end.

    XLA:CPU widens them as well, and then computes in the one form that it has. The backward pass widens anew: what is
    kept for it stays narrow.
    """
    dtype = x.dtype

    def wide(*arrays):
        x, w, *added = (a.astype(jnp.float32) for a in arrays)
        return run(x, w, added[0] if added else None).astype(dtype)

    return jax.checkpoint(wide)(x, w, *([] if bias is None else [bias]))
