"""Layers: products, convolutions, pooling, normalisation, dropout, embedding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import settings
from ..core import compiler
from ..core.compile import row_sums
from .lowering import pooling as pools
from .lowering.convolution import convolution as _convolution
from .lowering.convolution import transposed as _transposed
from .lowering.patches import patches
from .lowering.product import of_rows
from .numbers import fitted
from .samples import case, f, i
from .table import op

Shapes = dict[str, tuple[int, ...]]

_version = settings.snapshot("compat.version")

# ---------------------------------------------------------------------------------------------- dense


def _dense_shapes(
    shape: tuple[int, ...], *, num_hidden: int, no_bias: bool, flatten: bool
) -> Shapes:
    weight = (num_hidden, prod(shape[1:]) if flatten else shape[-1])
    return {"weight": weight} if no_bias else {"weight": weight, "bias": (num_hidden,)}


@op(
    npx="fully_connected",
    nd="FullyConnected",
    display="FullyConnected",
    nd_params="data weight bias",
    nd_defaults={"no_bias": False},
    samples=[
        case(f(2, 3), f(5, 3), f(5), num_hidden=5, no_bias=False),
        case(f(2, 2, 3), f(5, 6), None, num_hidden=5, no_bias=True),
        case(f(2, 2, 3), f(5, 3), f(5), num_hidden=5, no_bias=False, flatten=False),
    ],
    amp="low",
    shapes=_dense_shapes,
    restates={"num_hidden": (1, 0)},
    required=("num_hidden",),
    written="fully_connected",
    onnx="fully_connected",
    sums="products",
)
def fully_connected(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    num_hidden: int | None = None,
    no_bias: bool = True,
    flatten: bool = True,
) -> Any:
    """``x @ weight.T + bias`` with x (N, ...) flattened to (N, in) and weight (num_hidden, in).

    ``flatten=False`` keeps the leading axes: (..., in) gives (..., num_hidden).
    """
    if flatten and x.ndim != 2:
        x = x.reshape(x.shape[0], prod(x.shape[1:]))
    if (
        weight.ndim != 2
        or weight.shape[1] != x.shape[-1]
        or num_hidden not in (None, weight.shape[0])
    ):
        raise ValueError(
            f"Shape inconsistent, Provided = {list(weight.shape)}, "
            f"inferred shape=({num_hidden or -1},{x.shape[-1]}): weight is (num_hidden, inputs)"
        )
    if bias is None and not no_bias:
        raise ValueError(
            "FullyConnected expects 3 inputs, but got 2 instead: give a bias or no_bias=True"
        )
    return of_rows(x, weight, 1, None if no_bias or bias is None else bias.reshape(-1))


# ---------------------------------------------------------------------------------- convolution


def _spatial(value: Any, n: int, default: int) -> tuple[int, ...]:
    """A window attribute: absent, one number, or one for each axis."""
    if value is None or value == ():
        return (default,) * n
    if isinstance(value, int):
        return (value,) * n
    if len(value) != n:
        raise ValueError(
            f"{tuple(value)} has {len(value)} numbers where the data has {n} spatial axes"
        )
    return tuple(int(v) for v in value)


_IMAGES = {
    1: "3D in batch-num_filter-x",
    2: "4D in batch-num_filter-y-x",
    3: "5D in batch-num_filter-depth-y-x",
}


def _check_images(data: Any, kernel: Any) -> int:
    n = len(kernel) if isinstance(kernel, Sequence) else data.ndim - 2
    if n not in _IMAGES or data.ndim != n + 2:
        raise ValueError(
            f"Input data should be {_IMAGES.get(n, '3D, 4D or 5D')}, got shape {list(data.shape)}"
            + (": one sample is a batch of one, x.expand_dims(0)" if data.ndim == n + 1 else "")
        )
    return n


def _only_floats(x: Any) -> None:
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            f"This operation only support floating point types, not {x.dtype}: cast it (astype), or see quantized_conv"
        )


def _convolution_shapes(
    shape: tuple[int, ...], *, transposed: bool = False, **attrs: Any
) -> Shapes:
    """Weight and bias of a convolution; unknown channels, -1, stay so."""
    last = str(attrs["layout"] or "").endswith("C")
    channels, filters, groups = shape[-1 if last else 1], attrs["num_filter"], attrs["num_group"]
    first, second = (channels, filters // groups) if transposed else (filters, channels // groups)
    kernel = attrs["kernel"]
    kernel = (kernel,) * (len(shape) - 2) if isinstance(kernel, int) else tuple(kernel)
    found = {"weight": (first, *kernel, second) if last else (first, second, *kernel)}
    return found if attrs["no_bias"] else {**found, "bias": (filters,)}


_CONV = [
    case(f(2, 2, 6, 5), f(3, 2, 3, 3), f(3), kernel=(3, 3), num_filter=3, pad=(1, 1)),
    case(
        f(1, 4, 5, 5),
        f(4, 2, 3, 3),
        None,
        kernel=(3, 3),
        num_filter=4,
        num_group=2,
        stride=(2, 2),
        no_bias=True,
    ),
]


@op(
    npx="convolution",
    nd=("Convolution", "Convolution_v1"),
    aliases=("Convolution_v1",),
    display="Convolution",
    samples=_CONV,
    amp="low",
    shapes=_convolution_shapes,
    restates={"num_filter": (1, 0)},
    loops=True,
    required=("kernel", "num_filter"),
    onnx="convolution",
    sums="products",
)
def convolution(
    data: Any,
    weight: Any,
    bias: Any = None,
    *,
    kernel: Any = None,
    stride: Any = None,
    dilate: Any = None,
    pad: Any = None,
    num_filter: int = 1,
    num_group: int = 1,
    workspace: int = 1024,
    no_bias: bool = False,
    cudnn_tune: Any = None,
    cudnn_off: bool = False,
    layout: str | None = None,
) -> Any:
    """Convolution in 1 to 3 dimensions: data (N, C, *space), weight (num_filter, C / num_group, *kernel).

    Layouts that end in C have weight (num_filter, *kernel, C / num_group).
    """
    n = _check_images(data, kernel)
    _only_floats(data)
    if weight.shape[0] != num_filter and num_filter != 1:
        raise ValueError(
            f"Shape inconsistent, Provided = {list(weight.shape)}: num_filter is {num_filter}"
        )
    return _convolution(
        data,
        weight,
        None if no_bias else bias,
        kernel=_spatial(kernel, n, 1) if kernel is not None else None,
        stride=_spatial(stride, n, 1),
        dilate=_spatial(dilate, n, 1),
        pad=_spatial(pad, n, 0),
        num_group=num_group,
        layout=layout,
        platform=compiler.platform_now(),
        lean=compiler.is_short_of_memory(),
    )


@op(
    npx="deconvolution",
    nd="Deconvolution",
    nd_defaults={"no_bias": True},
    display="Deconvolution",
    samples=[
        case(
            f(2, 2, 4, 3),
            f(2, 3, 3, 3),
            f(3),
            kernel=(3, 3),
            num_filter=3,
            stride=(2, 2),
            pad=(1, 1),
        ),
        case(
            f(1, 4, 3, 3),
            f(4, 2, 2, 2),
            None,
            kernel=(2, 2),
            num_filter=4,
            num_group=2,
            no_bias=True,
        ),
    ],
    amp="low",
    shapes=partial(_convolution_shapes, transposed=True),
    loops=True,
    required=("kernel", "num_filter"),
    onnx="deconvolution",
    sums="products",
)
def deconvolution(
    data: Any,
    weight: Any,
    bias: Any = None,
    *,
    kernel: Any = None,
    stride: Any = None,
    dilate: Any = None,
    pad: Any = None,
    adj: Any = None,
    target_shape: Any = None,
    num_filter: int = 1,
    num_group: int = 1,
    workspace: int = 1024,
    no_bias: bool = False,
    cudnn_tune: Any = None,
    cudnn_off: bool = False,
    layout: str | None = None,
) -> Any:
    """The transpose of a convolution: weight (C, num_filter / num_group, *kernel)."""
    n = _check_images(data, kernel)
    _only_floats(data)
    last = bool(layout) and str(layout).endswith("C")
    if last:
        data, weight = jnp.moveaxis(data, -1, 1), jnp.moveaxis(weight, -1, 1)
    stride, dilate, pad = _spatial(stride, n, 1), _spatial(dilate, n, 1), _spatial(pad, n, 0)
    adj, window = _spatial(adj, n, 0), weight.shape[2:]
    if weight.shape[0] != data.shape[1]:
        raise ValueError(
            f"Shape inconsistent, Provided = {list(weight.shape)}: the data has {data.shape[1]} channels"
        )
    reach = [d * (k - 1) + 1 for d, k in zip(dilate, window, strict=True)]
    if target_shape:
        total = [
            s * (m - 1) + r - t
            for s, m, r, t in zip(stride, data.shape[2:], reach, target_shape, strict=True)
        ]
        pad, adj = tuple((t + 1) // 2 for t in total), tuple(t % 2 for t in total)
    size = [
        s * (m - 1) + r - 2 * p + a
        for s, m, r, p, a in zip(stride, data.shape[2:], reach, pad, adj, strict=True)
    ]
    if compiler.platform_now() == "cpu" and _is_transpose(data, size, stride, adj):
        how = {"platform": "cpu", "lean": compiler.is_short_of_memory()}
        out = _transposed(data, weight, stride, dilate, pad, size, num_group, **how)
        if bias is not None and not no_bias:
            out = out + bias.reshape(-1, *(1,) * n)
        return jnp.moveaxis(out, 1, -1) if last else out
    g = num_group
    flipped = jnp.flip(weight, tuple(range(2, 2 + n)))
    w = flipped.reshape(g, weight.shape[0] // g, weight.shape[1], *window)
    w = jnp.swapaxes(w, 1, 2).reshape(g * weight.shape[1], weight.shape[0] // g, *window)
    edges = [(r - 1 - p, r - 1 - p + a) for r, p, a in zip(reach, pad, adj, strict=True)]
    images_last = compiler.platform_now() == "cpu"  # see core/compile/images.py
    space = "DHW"[3 - n :]
    images = f"N{space}C" if images_last else f"NC{space}"
    out = lax.conv_general_dilated(
        jnp.moveaxis(data, 1, -1) if images_last else data, w, (1,) * n, edges, lhs_dilation=stride, rhs_dilation=dilate,
        dimension_numbers=(images, f"OI{space}", images), feature_group_count=g,
    )  # fmt: skip
    if bias is not None and not no_bias:
        out = out + (bias if images_last else bias.reshape(-1, *(1,) * n))
    if images_last:
        out = jnp.moveaxis(out, -1, 1)
    return jnp.moveaxis(out, 1, -1) if last else out


def _is_transpose(
    data: Any, size: Sequence[Any], stride: Sequence[int], adj: Sequence[int]
) -> bool:
    """Whether a convolution of an image of this size gives one of data's, all sizes being known."""
    known = all(isinstance(m, int) and m > 0 for m in (*data.shape, *size))
    return known and all(a < s for a, s in zip(adj, stride, strict=True))


# -------------------------------------------------------------------------------------- pooling


def _sum_pool(x: Any, window: Any, strides: Any, padding: Any) -> Any:
    return lax.reduce_window(x, np.zeros((), x.dtype)[()], lax.add, window, strides, padding)


@op(
    npx="pooling",
    nd=("Pooling", "Pooling_v1"),
    aliases=("Pooling_v1",),
    display="Pooling",
    samples=[
        case(f(2, 2, 6, 5), kernel=(2, 2), stride=(2, 2), pool_type="max"),
        case(
            f(2, 2, 6, 5),
            kernel=(3, 3),
            pad=(1, 1),
            pool_type="avg",
            pooling_convention="full",
            stride=(2, 2),
        ),
        case(f(2, 2, 6, 5), kernel=(2, 2), global_pool=True, pool_type="avg"),
    ],
    nd_order="data kernel pool_type global_pool cudnn_off pooling_convention stride pad p_value count_include_pad layout output_size",
    onnx="pooling",
)
def pooling(
    data: Any,
    *,
    kernel: Any = None,
    stride: Any = None,
    pad: Any = None,
    pool_type: str = "max",
    pooling_convention: str = "valid",
    global_pool: bool = False,
    cudnn_off: bool = False,
    p_value: int | None = None,
    count_include_pad: bool | None = None,
    layout: str | None = None,
    output_size: Any = None,
) -> Any:
    """Maximum, average, sum or p-norm (``max avg sum lp``) of windows in 1 to 3 dimensions.

    ``pooling_convention``: ``valid`` drops windows that hang over, ``full`` keeps them, ``same`` gives
    ceil(size / stride) windows. ``count_include_pad=False`` averages over the pixels alone. Of ``stride`` and ``pad``
    the first numbers count, as many as there are axes, as in MXNet.
    """
    if pool_type not in _POOLS:
        raise ValueError(f"unknown pooling type type {pool_type}: max, avg, sum and lp exist")
    n = _check_images(data, None if global_pool else kernel)
    stride, pad = [v[:n] if isinstance(v, tuple) else v for v in (stride, pad)]
    if pooling_convention == "same":  # which decides that itself
        if any(_spatial(pad, n, 0)):
            raise ValueError(
                f"pooling_convention='same' pads as it needs: pad must be 0, got {pad}"
            )
        pad = None
    window = (
        () if global_pool else (_spatial(kernel, n, 1), _spatial(stride, n, 1), _spatial(pad, n, 0))
    )
    options: dict[str, Any] = {
        "convention": pooling_convention,
        "global_pool": global_pool,
        "layout": layout,
        "platform": compiler.platform_now(),
    }
    if pool_type == "avg":
        options["count_include_pad"] = count_include_pad is not False
    elif pool_type == "lp":
        options["p_value"] = p_value or 2
    elif pool_type == "max":
        options["lean"] = compiler.is_short_of_memory()
    out = _POOLS[pool_type](data, *window, **options)
    if pool_type == "max" and window and jnp.issubdtype(out.dtype, jnp.floating):
        at = 1 if layout and layout.endswith("C") else 2
        last = [(out.shape[at + d] - 1) * window[1][d] - window[2][d] for d in range(n)]
        if any(start >= size for start, size in zip(last, data.shape[at:], strict=False)):
            # A window of padding alone (full convention) is the lowest number in MXNet, not -inf.
            out = jnp.maximum(out, jnp.finfo(out.dtype).min)
    return out


_POOLS: dict[str, Any] = {
    "max": pools.max_pool,
    "avg": pools.avg_pool,
    "sum": pools.sum_pool,
    "lp": pools.lp_pool,
}


@op(
    nd_contrib="AdaptiveAvgPooling2D",
    samples=[case(f(2, 3, 6, 5), output_size=(3, 2)), case(f(2, 3, 4, 4), output_size=1)],
    onnx="adaptive_avg_pooling",
)
def adaptive_avg_pooling(data: Any, *, output_size: Any = 1) -> Any:
    """Averages (N, C, H, W) over windows that divide the image evenly into ``output_size``."""
    size = (output_size,) * 2 if isinstance(output_size, int) else tuple(output_size or (1, 1))
    if size in ((1,), (1, 1)):  # a product with ones takes three times as long
        return data.mean((2, 3), keepdims=True)
    for axis, n in zip((2, 3), size * (3 - len(size)), strict=False):
        data = _even_means(data, axis, n)
    return data


def _even_means(x: Any, axis: int, n: int) -> Any:
    size = x.shape[axis]
    weights = np.zeros((n, size))
    for j in range(n):
        lo, hi = j * size // n, -(-(j + 1) * size // n)
        weights[j, lo:hi] = 1.0 / (hi - lo)
    return jnp.moveaxis(jnp.tensordot(x, weights.astype(x.dtype), ((axis,), (1,))), -1, axis)


# -------------------------------------------------------------------------------- normalisation


def _shaped(v: Any, ndim: int, axis: int) -> Any:
    return v.reshape([-1 if d == axis % ndim else 1 for d in range(ndim)])


def _computing(x: Any) -> Any:
    """Half precision is normalised in float32."""
    return x.astype("float32") if x.dtype.itemsize < 4 else x


def _others(ndim: int, axis: int) -> tuple[int, ...]:
    return tuple(d for d in range(ndim) if d != axis % ndim)


def _variance(x: Any, mean: Any, axis: int) -> Any:
    return jnp.square(x - _shaped(mean, x.ndim, axis)).mean(_others(x.ndim, axis))


def _sums_at_once(x: Any, others: tuple[int, ...]) -> bool:
    """Whether mean and variance are faster as two sums over one pass (`core/compile/row_sums.py`)."""
    return (
        compiler.platform_now() == "cpu"
        and len(others) > 1
        and not compiler.is_short_of_memory()
        and row_sums.pays(x.shape, x.dtype)
    )


def _moments(x: Any, others: tuple[int, ...], axis: int) -> tuple[Any, Any]:
    """Mean and variance of two sums, of x and of its squares, both less the mean of a sixteenth or more of it.

    However the rest lies, the square that is taken away is no more than sixteen times the variance: this many units in
    the last place are lost at most.
    """
    along = max(others, key=lambda d: x.shape[d])
    some = lax.slice_in_dim(x, 0, -(-x.shape[along] // 16), axis=along)
    start = lax.stop_gradient(some.mean(others))
    less = x - _shaped(start, x.ndim, axis)
    moved, squares = less.mean(others), jnp.square(less).mean(others)
    var = squares - moved * moved
    return start + moved, var + lax.stop_gradient(jnp.maximum(-var, 0))


def _normalised(x: Any, mean: Any, scale: Any, shift: Any, axis: int) -> Any:
    mean, scale, shift = (_shaped(v, x.ndim, axis) for v in (mean, scale, shift))
    return (x - mean) * scale + shift


def _of_channels(*names: str, axis: int | None = None) -> Any:
    """``shapes`` of vectors along one axis of the data: a fixed one, or the row's attribute."""

    def shapes(shape: tuple[int, ...], **attrs: Any) -> Shapes:
        at = axis if axis is not None else attrs["axis"]
        return dict.fromkeys(names, (shape[-1 if at is None else at],))

    return shapes


def _of_groups(shape: tuple[int, ...], *, num_groups: int, **_: Any) -> Shapes:
    """GroupNorm's scale and shift: MXNet 1 has one for each group, MXNet 2 one for each channel."""
    n = num_groups if _version() == "1.9" else shape[1]
    return {"gamma": (n,), "beta": (n,)}


_STATISTICS = ("gamma", "beta", "running_mean", "running_var")
_MOVING = ("gamma", "beta", "moving_mean", "moving_var")


# Their results in files, and their statistics' dtypes.
_STATED: dict[str, Any] = dict(results=("output", "mean", "var"), typed=(0,), statistics=True)


def _start(word: str) -> dict[str, str]:
    """What the statistics are before training, which no initializer of the user's chooses."""
    return {f"{word}_mean": '["zero", {}]', f"{word}_var": '["one", {}]'}


def _with_statistics(attrs: dict[str, Any], n: int) -> int:
    """How many results a normalisation gives: ``output_mean_var`` adds the mean and the deviation."""
    return 3 if attrs["output_mean_var"] else 1


_BN = [
    case(f(4, 3, 2), f(3), f(3), f(3), f(3, low=0.5), fix_gamma=False),
    case(f(4, 3), f(3), f(3), f(3), f(3, low=0.5)),
]


@op(
    npx="batch_norm",
    nd=("BatchNorm", "BatchNorm_v1"),
    nd_aliases=("BatchNorm_v1",),
    nd_params="data gamma beta moving_mean moving_var",
    display="BatchNorm",
    moments="batch",
    aux=lambda attrs: (1, 3, 4) if attrs.get("fix_gamma", True) else (3, 4),
    modal=True,
    samples=_BN,
    outputs=_with_statistics,
    shapes=_of_channels(*_STATISTICS),
    numbers=("eps", "momentum"),
    **_STATED,
    initial=_start("running"),
    nd_initial=_start("moving"),
    onnx="batch_norm",
)
def batch_norm(
    x: Any,
    gamma: Any,
    beta: Any,
    running_mean: Any,
    running_var: Any,
    *,
    eps: float = 1e-3,
    momentum: float = 0.9,
    fix_gamma: bool = True,
    use_global_stats: bool = False,
    output_mean_var: bool = False,
    axis: int = 1,
    cudnn_off: bool = False,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    is_train: bool = False,
) -> Any:
    """Normalises over all axes but ``axis``: (x - mean) / sqrt(var + eps) * gamma + beta.

    In training mean and variance are the batch's, and the running ones move towards them by
    ``1 - momentum``; otherwise they are the running ones. ``fix_gamma`` takes 1 for gamma.
    """
    if any(a.shape != (x.shape[axis],) for a in (gamma, beta, running_mean, running_var)):
        raise ValueError("gamma, beta and the running statistics have a number for each channel")
    x32 = _computing(x)
    learn = is_train and not use_global_stats
    # Where memory is short the derivative starts from x itself: neither keeps nor holds the centred x besides.
    lean = (
        partial(jax.checkpoint, static_argnums=-1)
        if compiler.is_short_of_memory()
        else lambda fn: fn
    )
    if learn:
        # Nothing below depends on what is subtracted from x, if that is made good per channel: so it is the mean as a
        # constant, and the mean's derivative asks for no sums over x but those that beta's and gamma's ask for.
        others = _others(x.ndim, axis)
        if _sums_at_once(x32, others):
            mean, var = _moments(x32, others, axis)
            fixed = lax.stop_gradient(mean)
            off = mean - fixed  # zero, with the mean's derivative
        else:
            mean = x32.mean(others)
            fixed = lax.stop_gradient(mean)
            off = mean - fixed
            var = lean(_variance)(x32, fixed, axis) - off * off
    else:
        # MXNet's has no derivative for the running statistics.
        mean = lax.stop_gradient(running_mean).astype(x32.dtype)
        var = lax.stop_gradient(running_var).astype(x32.dtype)
        fixed = mean
    scale = lax.rsqrt(var + fitted(eps, var.dtype))
    out_scale = scale if fix_gamma else scale * gamma.astype(x32.dtype)
    shift = beta.astype(x32.dtype)
    if learn:
        shift = shift - off * out_scale
    out = lean(_normalised)(x32, fixed, out_scale, shift, axis).astype(x.dtype)
    outs = (out, mean.astype(gamma.dtype), scale.astype(gamma.dtype)) if output_mean_var else (out,)
    if not is_train:
        return outs if output_mean_var else out
    if fix_gamma:
        outs = (*outs, jnp.ones_like(gamma))
    if not learn:
        return (*outs, running_mean, running_var)
    m = fitted(momentum, x32.dtype)
    new_mean = running_mean * m + lax.stop_gradient(mean) * (1 - m)
    new_var = running_var * m + lax.stop_gradient(var) * (1 - m)
    return (*outs, new_mean.astype(running_mean.dtype), new_var.astype(running_var.dtype))


@op(
    npx="batch_norm_with_relu",
    nd_contrib="BatchNormWithReLU",
    aux=lambda attrs: (1, 3, 4) if attrs.get("fix_gamma", True) else (3, 4),
    modal=True,
    samples=_BN,
    outputs=_with_statistics,
    shapes=_of_channels(*_MOVING),
    numbers=("eps", "momentum"),
    **_STATED,
    initial=_start("moving"),
    onnx=("batch_norm", True),
)
def batch_norm_with_relu(
    data: Any,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_var: Any,
    *,
    eps: float = 1e-3,
    momentum: float = 0.9,
    fix_gamma: bool = True,
    use_global_stats: bool = False,
    output_mean_var: bool = False,
    axis: int = 1,
    cudnn_off: bool = False,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    is_train: bool = False,
) -> Any:
    """BatchNorm followed by relu."""
    outs = batch_norm(
        data, gamma, beta, moving_mean, moving_var, eps=eps, momentum=momentum, fix_gamma=fix_gamma,
        use_global_stats=use_global_stats, output_mean_var=output_mean_var, axis=axis, is_train=is_train,
    )  # fmt: skip
    return (jax.nn.relu(outs[0]), *outs[1:]) if isinstance(outs, tuple) else jax.nn.relu(outs)


@op(
    npx="sync_batch_norm",
    nd_contrib="SyncBatchNorm",
    aux=lambda attrs: (1, 3, 4) if attrs.get("fix_gamma", True) else (3, 4),
    modal=True,
    samples=_BN,
    amp="full",
    outputs=_with_statistics,
    shapes=_of_channels(*_MOVING, axis=1),
    numbers=("eps", "momentum"),
    **_STATED,
    initial=_start("moving"),
    onnx="batch_norm",
)
def sync_batch_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_var: Any,
    *,
    eps: float = 1e-3,
    momentum: float = 0.9,
    fix_gamma: bool = True,
    use_global_stats: bool = False,
    output_mean_var: bool = False,
    ndev: int = 1,
    key: str = "",
    is_train: bool = False,
) -> Any:
    """BatchNorm of the whole batch; a batch spread over devices by sharding is one batch already.

    ``output_mean_var`` gives the variance, where BatchNorm gives one over the deviation.
    """
    outs = batch_norm(
        data, gamma, beta, moving_mean, moving_var, eps=eps, momentum=momentum, fix_gamma=fix_gamma,
        use_global_stats=use_global_stats, output_mean_var=output_mean_var, is_train=is_train,
    )  # fmt: skip
    if not output_mean_var:
        return outs
    out, mean, inverse, *others = outs
    return out, mean, jnp.square(1 / inverse) - fitted(eps, inverse.dtype), *others


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _by_deviation(x: Any, axes: tuple[int, ...], eps: Any) -> tuple[Any, Any, Any]:
    mean = x.mean(axes, keepdims=True)
    centred = x - mean
    std = jnp.sqrt(jnp.square(centred).mean(axes, keepdims=True) + eps)
    return centred / std, mean, std


@_by_deviation.defjvp
def _by_deviation_jvp(axes: Any, primals: Any, tangents: Any) -> Any:
    # Transposed it divides last: a constant gradient gives exactly zero, whatever 1 / std is.
    (x, eps), (t, _) = primals, tangents
    out, mean, std = _by_deviation(x, axes, eps)
    u = t / std
    du = u - u.mean(axes, keepdims=True) - out * (out * u).mean(axes, keepdims=True)
    return (out, mean, std), (du, t.mean(axes, keepdims=True), (out * t).mean(axes, keepdims=True))


def _standardised(x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    return _by_deviation(x, axes, fitted(eps, x.dtype))  # type: ignore[no-any-return]


@op(
    npx="layer_norm",
    nd="LayerNorm",
    display="LayerNorm",
    moments="layer",
    samples=[case(f(4, 2, 3), f(3), f(3)), case(f(4, 3), f(4), f(4), axis=0, eps=1e-3)],
    amp="full",
    amp_narrow=True,
    outputs=_with_statistics,
    shapes=_of_channels("gamma", "beta"),
    numbers=("eps",),
    results=("output", "mean", "std"),
    onnx="layer_norm",
)
def layer_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    *,
    axis: int | None = -1,
    eps: float | None = 1e-5,
    output_mean_var: bool | None = False,
) -> Any:
    """Normalises along one axis, then scales by gamma and adds beta."""
    axis = -1 if axis is None else axis
    out, mean, std = _standardised(_computing(data), (axis,), 1e-5 if eps is None else eps)
    out = out * _shaped(gamma, data.ndim, axis) + _shaped(beta, data.ndim, axis)
    out = out.astype(data.dtype)
    if output_mean_var:
        return out, mean.astype(data.dtype), std.astype(data.dtype)
    return out


@op(
    npx="group_norm",
    nd="GroupNorm",
    nd_defaults={"eps": 1e-5},
    display="GroupNorm",
    moments="groups",
    samples=[case(f(2, 4, 3, 2), f(4), f(4), num_groups=2)],
    amp="full",
    amp_narrow=True,
    outputs=_with_statistics,
    shapes=_of_groups,
    numbers=("eps",),
    results=("output", "mean", "std"),
    onnx="group_norm",
)
def group_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    *,
    num_groups: int = 1,
    eps: float = 1e-3,
    output_mean_var: bool = False,
) -> Any:
    """Normalises groups of channels of (N, C, ...); gamma and beta are (C,), or (num_groups,) as in MXNet 1."""
    if data.shape[1] % num_groups:
        raise ValueError(f"{data.shape[1]} channels do not divide into {num_groups} groups")
    x = _computing(data).reshape(data.shape[0], num_groups, -1)
    out, mean, std = _standardised(x, (2,), eps)
    out = out.reshape(data.shape)
    gamma, beta = (
        jnp.repeat(v, data.shape[1] // num_groups) if v.shape[0] == num_groups else v
        for v in (gamma, beta)
    )
    out = out * _shaped(gamma, data.ndim, 1) + _shaped(beta, data.ndim, 1)
    out = out.astype(data.dtype)
    if output_mean_var:
        return out, mean.squeeze(2).astype(data.dtype), std.squeeze(2).astype(data.dtype)
    return out


@op(
    npx="instance_norm",
    nd="InstanceNorm",
    display="InstanceNorm",
    moments="instance",
    samples=[case(f(2, 3, 4, 2), f(3), f(3))],
    amp="full",
    amp_narrow=True,
    shapes=_of_channels("gamma", "beta", axis=1),
    numbers=("eps",),
    onnx="instance_norm",
)
def instance_norm(data: Any, gamma: Any, beta: Any, *, eps: float = 1e-3) -> Any:
    """Normalises each channel of each sample of (N, C, ...)."""
    out, _, _ = _standardised(_computing(data), tuple(range(2, data.ndim)), eps)
    out = out * _shaped(gamma, data.ndim, 1) + _shaped(beta, data.ndim, 1)
    return out.astype(data.dtype)


@op(
    nd="L2Normalization",
    display="L2Normalization",
    gradient="data",
    samples=[case(f(2, 3, 4)), case(f(2, 3, 4), mode="channel"), case(f(2, 3, 4), mode="spatial")],
    amp="full",
    amp_narrow=True,
    numbers=("eps",),
    onnx="l2_normalization",
)
def l2_normalization(data: Any, *, eps: float = 1e-10, mode: str = "instance") -> Any:
    """Divides by the L2 norm of each sample (``instance``), pixel (``channel``) or map (``spatial``)."""
    axes = {
        "instance": tuple(range(1, data.ndim)),
        "channel": (1,),
        "spatial": tuple(range(2, data.ndim)),
    }
    if mode not in axes:
        raise ValueError(f"unknown mode {mode}: instance, channel and spatial exist")
    square = jnp.square(data).sum(axes[mode], keepdims=True)
    return data / jnp.sqrt(square + fitted(eps, data.dtype))


@op(
    nd="LRN",
    display="LRN",
    samples=[case(f(2, 5, 3, 3), nsize=3)],
    amp="full",
    numbers=("alpha", "beta", "knorm"),
    required=("nsize",),
    onnx="lrn",
)
def lrn(
    data: Any, *, alpha: float = 1e-4, beta: float = 0.75, knorm: float = 2.0, nsize: int = 5
) -> Any:
    """Local response normalisation over ``nsize`` neighbouring channels of (N, C, H, W)."""
    half = nsize // 2
    window = (1, nsize, *(1,) * (data.ndim - 2))
    padding = [(0, 0), (half, half), *[(0, 0)] * (data.ndim - 2)]
    total = _sum_pool(jnp.square(data), window, (1,) * data.ndim, padding)
    return data * (knorm + alpha / nsize * total) ** -beta


# --------------------------------------------------------------------------- dropout, embedding


def _drops(p: Any = 0.5, mode: str = "training", is_train: bool = False, **attrs: Any) -> bool:
    return (is_train or mode == "always") and (hasattr(p, "dtype") or p != 0)


@op(
    npx="dropout",
    nd="Dropout",
    display="Dropout",
    keyed=_drops,
    modal=True,
    samples=[case(f(4, 5), p=0.5), case(f(4, 5), p=0.3, mode="always", axes=(0,))],
    numbers=("p",),
    onnx="dropout",
)
def dropout(
    key: Any,
    data: Any,
    *,
    p: float = 0.5,
    mode: str = "training",
    axes: Any = None,
    cudnn_off: bool = False,
    is_train: bool = False,
) -> Any:
    """In training (``mode='always'``: ever), zeroes a share ``p`` and scales the rest by 1 / (1 - p).

    Along ``axes`` the choice is shared. Of ``p=1`` zeros are left, where MXNet divides by 0 and gives NaN.
    """
    if not jnp.issubdtype(data.dtype, jnp.floating):
        raise TypeError(
            f"dropout takes floating-point arrays, got {data.dtype}; use x.astype('float32')"
        )
    if not _drops(p, mode, is_train):
        return data
    moves = hasattr(p, "dtype")
    shape = [1 if axes and d in axes else n for d, n in enumerate(data.shape)]
    keep = jax.random.bernoulli(key, fitted(1 - p, np.float32), tuple(shape))
    scale = fitted(
        jnp.where(p >= 1, 0.0, 1 / (1 - p)) if moves else 0 if p >= 1 else 1 / (1 - p), data.dtype
    )
    return data * jnp.where(keep, scale, np.zeros((), data.dtype))


@op(
    npx="embedding",
    nd="Embedding",
    nd_contrib="SparseEmbedding",
    aliases=("_contrib_SparseEmbedding",),
    display="Embedding",
    samples=[case(i(2, 3, high=5), f(5, 4), input_dim=5, output_dim=4)],
    shapes=lambda shape, **attrs: {"weight": (attrs["input_dim"], attrs["output_dim"])},
    restates={"input_dim": (1, 0), "output_dim": (1, 1)},
    required=("input_dim", "output_dim"),
    typed=(1,),
    rows=lambda attrs, stypes: {"weight": bool(attrs.get("sparse_grad"))},
    onnx="embedding",
)
def embedding(
    data: Any,
    weight: Any,
    *,
    input_dim: int | None = None,
    output_dim: int | None = None,
    dtype: Any = "float32",
    sparse_grad: bool = False,
    deterministic: bool = False,
) -> Any:
    """Rows of ``weight`` (input_dim, output_dim) by number; numbers beyond the end take the last row."""
    if (
        weight.ndim != 2
        or input_dim not in (None, weight.shape[0])
        or output_dim not in (None, weight.shape[1])
    ):
        raise ValueError(
            f"Shape inconsistent, Provided = {list(weight.shape)}, "
            f"inferred shape=({input_dim or -1},{output_dim or -1}): weight is (input_dim, output_dim)"
        )
    at = jnp.clip(data.astype("int32"), 0, weight.shape[0] - 1)
    return jnp.take(weight, at, axis=0, mode="clip")


@op(
    npx="batch_flatten",
    nd=("flatten", "Flatten"),
    display="Flatten",
    samples=[case(f(2, 3, 4)), case(f(3))],
    methods={"nd": "flatten"},
    onnx="reshape",
)
def batch_flatten(data: Any) -> Any:
    """(N, ...) to (N, rest)."""
    return data.reshape(data.shape[0], prod(data.shape[1:]))


@op(
    nd="UpSampling",
    display="UpSampling",
    samples=[
        case(f(1, 2, 3, 3), scale=2, sample_type="nearest"),
        case(f(1, 2, 3, 3), f(2, 1, 4, 4), scale=2, sample_type="bilinear", num_filter=2),
    ],
    shapes=lambda shape, *, scale, sample_type, **attrs: (
        {1: (shape[1], 1, *[2 * scale - scale % 2] * 2)} if sample_type == "bilinear" else {}
    ),
    slots=lambda attrs: ("data", "weight") if attrs.get("sample_type") == "bilinear" else ("arg0",),
    initial={"weight": '["bilinear", {}]'},
    required=("sample_type",),
    onnx="up_sampling",
)
def up_sampling(
    *data: Any,
    scale: int,
    num_filter: int = 0,
    sample_type: str = "nearest",
    multi_input_mode: str = "concat",
    num_args: int = 1,
    workspace: int = 512,
) -> Any:
    """Enlarges images (N, C, H, W) ``scale`` times: ``nearest`` repeats pixels, ``bilinear`` is a
    transposed convolution with the weight given second."""
    if sample_type == "bilinear":
        x, weight = data
        size, pad = 2 * scale - scale % 2, -(-(scale - 1) // 2)
        return deconvolution(
            x, weight, kernel=(size, size), stride=(scale, scale), pad=(pad, pad),
            num_filter=x.shape[1], num_group=x.shape[1], no_bias=True,
        )  # fmt: skip
    if sample_type != "nearest":
        raise ValueError(f"unknown sample_type {sample_type}: nearest and bilinear exist")
    height = data[0].shape[2] * scale
    outs = [
        jnp.repeat(jnp.repeat(x, height // x.shape[2], 2), height // x.shape[2], 3) for x in data
    ]
    if len(outs) == 1:
        return outs[0]
    return sum(outs[1:], outs[0]) if multi_input_mode == "sum" else jnp.concatenate(outs, 1)


@op(nd="im2col", samples=[case(f(1, 2, 4, 4), kernel=(2, 2), stride=(1, 1))], onnx="im2col")
def im2col(
    data: Any, *, kernel: Any, stride: Any = None, dilate: Any = None, pad: Any = None
) -> Any:
    """The patches of (N, C, *space) as columns: (N, C * prod(kernel), windows)."""
    n = len(kernel)
    out = patches(data, kernel, _spatial(stride, n, 1), _spatial(dilate, n, 1), _spatial(pad, n, 0))
    return out.reshape(out.shape[0], out.shape[1] * out.shape[2], -1)


@op(nd="col2im", samples=[case(f(1, 8, 9), output_size=(4, 4), kernel=(2, 2), stride=(1, 1))])
def col2im(
    data: Any,
    *,
    output_size: Any,
    kernel: Any,
    stride: Any = None,
    dilate: Any = None,
    pad: Any = None,
) -> Any:
    """Adds columns back into an image: the transpose of im2col."""
    shape = (data.shape[0], data.shape[1] // prod(kernel), *output_size)

    def columns(x: Any) -> Any:
        return im2col(x, kernel=kernel, stride=stride, dilate=dilate, pad=pad)

    return jax.linear_transpose(columns, jax.ShapeDtypeStruct(shape, data.dtype))(data)[0]


# ------------------------------------------------------------------------------------ attention


def _heads(x: Any, heads: int, parts: int) -> list[Any]:
    """(T, N, heads * parts * d) as ``parts`` arrays (N * heads, T, d)."""
    t, n, width = x.shape
    split = x.reshape(t, n * heads, parts, width // (heads * parts))
    return [jnp.swapaxes(split[:, :, k], 0, 1) for k in range(parts)]


def _together(context: Any, heads: int) -> Any:
    """(N * heads, T, d) as (T, N, heads * d)."""
    rows, t, d = context.shape
    return jnp.swapaxes(context, 0, 1).reshape(t, rows // heads, heads * d)


def _scores(q: Any, k: Any) -> Any:
    return jnp.matmul(q / np.sqrt(q.shape[-1]).astype(q.dtype), jnp.swapaxes(k, 1, 2))


_ATT = dict(npx="interleaved_matmul_selfatt_qk", nd_contrib="interleaved_matmul_selfatt_qk")


@op(**_ATT, samples=[case(f(3, 2, 24), heads=2)], amp="widest", onnx="selfatt_qk")
def interleaved_matmul_selfatt_qk(queries_keys_values: Any, *, heads: int) -> Any:
    """Scaled scores of self-attention from interleaved projections (T, N, heads * 3 * d)."""
    q, k, _ = _heads(queries_keys_values, heads, 3)
    return _scores(q, k)


@op(
    npx="interleaved_matmul_selfatt_valatt",
    nd_contrib="interleaved_matmul_selfatt_valatt",
    samples=[case(f(3, 2, 24), f(4, 3, 3), heads=2)],
    amp="widest",
    onnx="selfatt_valatt",
)
def interleaved_matmul_selfatt_valatt(
    queries_keys_values: Any, attention: Any, *, heads: int
) -> Any:
    """Values of interleaved projections weighted by attention (N * heads, T, T)."""
    return _together(jnp.matmul(attention, _heads(queries_keys_values, heads, 3)[2]), heads)


@op(
    npx="interleaved_matmul_encdec_qk",
    nd_contrib="interleaved_matmul_encdec_qk",
    samples=[case(f(3, 2, 8), f(4, 2, 16), heads=2)],
    amp="widest",
    onnx="encdec_qk",
)
def interleaved_matmul_encdec_qk(queries: Any, keys_values: Any, *, heads: int) -> Any:
    """Scaled scores of queries (Tq, N, heads * d) and interleaved keys (Tk, N, heads * 2 * d)."""
    return _scores(_heads(queries, heads, 1)[0], _heads(keys_values, heads, 2)[0])


@op(
    npx="interleaved_matmul_encdec_valatt",
    nd_contrib="interleaved_matmul_encdec_valatt",
    samples=[case(f(4, 2, 16), f(4, 3, 4), heads=2)],
    amp="widest",
    onnx="encdec_valatt",
)
def interleaved_matmul_encdec_valatt(keys_values: Any, attention: Any, *, heads: int) -> Any:
    """Interleaved values weighted by attention (N * heads, Tq, Tk)."""
    return _together(jnp.matmul(attention, _heads(keys_values, heads, 2)[1]), heads)


@op(nd_contrib="div_sqrt_dim", samples=[case(f(2, 4))], onnx="div_sqrt_dim")
def div_sqrt_dim(data: Any) -> Any:
    """data / sqrt(length of the last axis)."""
    return (data / np.sqrt(data.shape[-1])).astype(data.dtype)
