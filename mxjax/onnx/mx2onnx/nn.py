"""Layers in ONNX's words: dense, convolutions, pooling, normalisation, attention's products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .writer import Name, Step, Writer, writes


def _each(value: Any, n: int, default: int) -> list[int]:
    """An attribute of a window: absent, one number, or one for each axis."""
    if value is None or value == ():
        return [default] * n
    return [value] * n if isinstance(value, int) else [int(v) for v in value]


@writes
def fully_connected(w: Writer, s: Step) -> Name:
    x, n = s[0], s.ndim()
    bias = s.array("bias") if s.has("bias") and not s.params["no_bias"] else None
    if s.params["flatten"] and n != 2:
        x, n = w.op("Flatten", x, axis=1), 2
    if n == 2 and s.dtype().kind == "f":
        return w.op("Gemm", x, s[1], *([bias] if bias else []), transB=1)
    made = w.op("MatMul", x, w.op("Transpose", s[1], perm=[1, 0]))
    return w.op("Add", made, bias) if bias else made


# ---- channels last -------------------------------------------------------------------------------


def _first(w: Writer, s: Step, x: Name, n: int) -> Name:
    """Channels first, of data with ``n`` spatial axes, whatever the layout says."""
    return w.transpose(x, [0, n + 1, *range(1, n + 1)]) if _last(s) else x


def _back(w: Writer, s: Step, x: Name, n: int) -> Name:
    return w.transpose(x, [0, *range(2, n + 2), 1]) if _last(s) else x


def _last(s: Step) -> bool:
    return str(s.params.get("layout") or "").endswith("C")


def _space(s: Step, n: int) -> list[int | None]:
    shape = s.shape()
    return list(shape[1 : n + 1] if _last(s) else shape[2:])


# ---- convolutions --------------------------------------------------------------------------------


@writes
def convolution(w: Writer, s: Step) -> Name:
    p, n = s.params, s.ndim() - 2
    pad = _each(p["pad"], n, 0)
    given = [_first(w, s, s[0], n), _first(w, s, s[1], n)]
    if s.has("bias") and not p["no_bias"]:
        given.append(s.array("bias"))
    made = w.op(
        "Conv", *given, kernel_shape=_kernel(s, n), strides=_each(p["stride"], n, 1), pads=[*pad, *pad],
        dilations=_each(p["dilate"], n, 1), group=p["num_group"],
    )  # fmt: skip
    return _back(w, s, made, n)


def _kernel(s: Step, n: int) -> list[int]:
    if s.params["kernel"] is not None:
        return _each(s.params["kernel"], n, 1)
    shape = s.shape(1)
    return [k or 1 for k in (shape[1 : n + 1] if _last(s) else shape[2:])]


@writes
def deconvolution(w: Writer, s: Step) -> Name:
    p, n = s.params, s.ndim() - 2
    kernel, stride, dilate = _kernel(s, n), _each(p["stride"], n, 1), _each(p["dilate"], n, 1)
    pad, more = _each(p["pad"], n, 0), _each(p["adj"], n, 0)
    if p["target_shape"]:
        reach = [d * (k - 1) + 1 for d, k in zip(dilate, kernel, strict=True)]
        size = _space(s, n)
        if None in size:
            raise s.refused("target_shape, and the images' size changes")
        target = _each(p["target_shape"], n, 0)
        total = [
            a * ((m or 0) - 1) + r - t
            for a, m, r, t in zip(stride, size, reach, target, strict=True)
        ]
        pad, more = [(t + 1) // 2 for t in total], [t % 2 for t in total]
    given = [_first(w, s, s[0], n), _first(w, s, s[1], n)]
    if s.has("bias") and not p["no_bias"]:
        given.append(s.array("bias"))
    made = w.op(
        "ConvTranspose", *given, kernel_shape=kernel, strides=stride, pads=[*pad, *pad], dilations=dilate,
        output_padding=more, group=p["num_group"],
    )  # fmt: skip
    return _back(w, s, made, n)


# ---- pooling -------------------------------------------------------------------------------------


@writes
def pooling(w: Writer, s: Step) -> Name:
    p, n = s.params, s.ndim() - 2
    x, kind = _first(w, s, s[0], n), p["pool_type"]
    if kind == "lp" and p["p_value"] == 1:
        kind = "sum"
    if kind == "lp" and p["p_value"] == 3:
        raise s.refused("p_value=3, whose signs ONNX does not keep")
    if p["global_pool"]:
        return _back(w, s, _global(w, s, x, kind, n), n)
    kernel, stride, pad = _each(p["kernel"], n, 1), _each(p["stride"], n, 1), _each(p["pad"], n, 0)
    size = _space(s, n)
    before, after = list(pad), list(pad)
    ceil = 0
    if p["pooling_convention"] in ("full", "same"):
        if None in size:
            if p["pooling_convention"] == "same" or kind in ("avg", "sum"):
                raise s.refused(
                    f"pooling_convention={p['pooling_convention']!r}, and the images' size changes"
                )
            ceil = 1
        else:
            shape = s.out_shape()
            count = list(shape[1 : n + 1] if _last(s) else shape[2:])
            for d in range(n):
                reach = ((count[d] or 1) - 1) * stride[d] + kernel[d]
                extra = max(reach - (size[d] or 0) - 2 * pad[d], 0)
                if p["pooling_convention"] == "same":
                    total = max(reach - (size[d] or 0), 0)
                    before[d], after[d] = total // 2, total - total // 2
                else:
                    after[d] += extra
    made = _windows(w, s, x, kind, kernel, stride, before, after, pad, size, ceil)
    return _back(w, s, made, n)


def _windows(
    w: Writer, s: Step, x: Name, kind: str, kernel: list[int], stride: list[int], before: list[int], after: list[int],
    pad: list[int], size: Sequence[int | None], ceil: int,
) -> Name:  # fmt: skip
    n = len(kernel)
    options: dict[str, Any] = {"kernel_shape": kernel, "strides": stride}
    counted = s.params["count_include_pad"] is not False
    # ONNX takes no padding as wide as the window; such is put around before.
    wide = any(b >= k or a >= k for b, a, k in zip(before, after, kernel, strict=True))
    pads = [*before, *after]
    if kind == "max":
        if wide:
            low = (
                float(np.finfo(s.dtype()).min)
                if s.dtype().kind == "f"
                else int(np.iinfo(s.dtype()).min)
            )
            x, pads = _around(w, s, x, before, after, low), [0] * (2 * n)
        return w.op("MaxPool", x, pads=pads, ceil_mode=ceil or None, **options)
    if kind == "lp" and not wide:
        return w.op("LpPool", x, pads=pads, p=s.params["p_value"] or 2, **options)
    plain = kind == "avg" and before == after == pad and not wide
    if plain:
        return w.op("AveragePool", x, pads=pads, count_include_pad=int(counted), **options)
    x = _around(w, s, x, before, after, 0)
    if kind == "lp":
        return w.op("LpPool", x, p=s.params["p_value"] or 2, **options)
    made = w.op("AveragePool", x, **options)
    total = math.prod(kernel)
    if kind == "sum":
        return w.op("Mul", made, w.constant(total, s.dtype()))
    # The mean over what MXNet counts: the windows' parts within the padding, or within the image.
    counts: Any = np.ones((1,) * n)
    for d in range(n):
        m, edge = size[d] or 0, pad[d] if counted else 0
        starts = (
            np.arange(((m + before[d] + after[d]) - kernel[d]) // stride[d] + 1) * stride[d]
            - before[d]
        )
        inside = np.minimum(starts + kernel[d], m + edge) - np.maximum(starts, -edge)
        line = [1] * n
        line[d] = -1
        counts = counts * inside.reshape(line)
    return w.op("Mul", made, w.constant((total / np.maximum(counts, 1))[None, None], s.dtype()))


def _around(w: Writer, s: Step, x: Name, before: list[int], after: list[int], value: float) -> Name:
    return w.op("Pad", x, w.ints([0, 0, *before, 0, 0, *after]), w.constant(value, s.dtype()))


def _global(w: Writer, s: Step, x: Name, kind: str, n: int) -> Name:
    if kind == "lp":
        return w.op("GlobalLpPool", x, p=s.params["p_value"] or 2)
    if kind == "sum":
        return w.reduce("ReduceSum", x, list(range(2, n + 2)))
    return w.op("GlobalMaxPool" if kind == "max" else "GlobalAveragePool", x)


@writes
def adaptive_avg_pooling(w: Writer, s: Step) -> Name:
    size = s.params["output_size"]
    out = [size, size] if isinstance(size, int) else [*(size or (1, 1))]
    out = out * 2 if len(out) == 1 else out
    if out == [1, 1]:
        return w.op("GlobalAveragePool", s[0])
    given = s.shape()[2:]
    if None in given:
        raise s.refused("the images' size changes")
    if all((a or 0) % b == 0 for a, b in zip(given, out, strict=True)):
        window = [(a or 0) // b for a, b in zip(given, out, strict=True)]
        return w.op("AveragePool", s[0], kernel_shape=window, strides=window)
    # The means along each axis are a product with a matrix.
    rows, columns = (_means(a or 0, b) for a, b in zip(given, out, strict=True))
    x = w.op("MatMul", s[0], w.constant(columns.T, s.dtype()))
    return w.op("MatMul", w.constant(rows, s.dtype()), x)


def _means(size: int, parts: int) -> np.ndarray:
    weights = np.zeros((parts, size))
    for k in range(parts):
        low, high = k * size // parts, -(-(k + 1) * size // parts)
        weights[k, low:high] = 1 / (high - low)
    return weights


# ---- resizing ------------------------------------------------------------------------------------


@writes
def bilinear_resize(w: Writer, s: Step) -> Name:
    mode = "align_corners" if s.params["align_corners"] else "half_pixel"
    return w.op(
        "Resize", s[0], "", "", s.out_dims(), mode="linear", coordinate_transformation_mode=mode
    )


@writes
def up_sampling(w: Writer, s: Step) -> Name:
    p, k = s.params, s.params["scale"]
    if p["sample_type"] == "bilinear":
        size, pad = 2 * k - k % 2, -(-(k - 1) // 2)
        return w.op(
            "ConvTranspose",
            s[0],
            s[1],
            kernel_shape=[size] * 2,
            strides=[k] * 2,
            pads=[pad] * 4,
            group=s.shape()[1],
        )
    outs = []
    for at, x in enumerate(s.names):
        heights = s.shape(0)[2], s.shape(at)[2]
        factor = k if at == 0 else k * (heights[0] or 0) // (heights[1] or 1)
        if not factor:
            raise s.refused("several images, and their size changes")
        outs.append(w.op(
            "Resize", x, "", w.constant([1, 1, factor, factor], np.float32), mode="nearest", nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ))  # fmt: skip
    if len(outs) == 1:
        return outs[0]
    if p["multi_input_mode"] == "sum":
        total = outs[0]
        for x in outs[1:]:
            total = w.op("Add", total, x)
        return total
    return w.op("Concat", *outs, axis=1)


# ---- normalisation -------------------------------------------------------------------------------


def _along(w: Writer, x: Name, ndim: int, axis: int) -> Name:
    """A vector along one axis."""
    return w.reshape(x, [-1 if d == axis else 1 for d in range(ndim)]) if axis != ndim - 1 else x


@writes
def batch_norm(w: Writer, s: Step, relu: bool = False) -> Name:
    p = s.params
    if p["output_mean_var"]:
        raise s.refused("output_mean_var=True")
    axis, n = s.axis(p.get("axis", 1)), s.ndim()
    gamma, beta, mean, var = s.names[1:5]
    if p["fix_gamma"]:
        channels = s.shape(2)[0] or 1
        gamma = w.constant(np.ones(channels), s.in_dtype(1))
    perm = [0, axis, *[d for d in range(1, n) if d != axis]] if axis != 0 else None
    if perm is None:
        raise s.refused("axis=0")
    x = w.transpose(s[0], perm)
    if s.in_dtype(1) != s.dtype():
        gamma, beta, mean, var = (
            w.cast(v, s.in_dtype(1), s.dtype()) for v in (gamma, beta, mean, var)
        )
    made = w.op(
        "BatchNormalization",
        x,
        gamma,
        beta,
        mean,
        var,
        epsilon=float(p["eps"]),
        momentum=float(p.get("momentum", 0.9)),
    )
    made = w.transpose(made, [perm.index(d) for d in range(n)])
    return w.op("Relu", made) if relu else made


def _standardised(
    w: Writer, s: Step, x: Name, axes: list[int], eps: float
) -> tuple[Name, Name, Name]:
    mean = w.reduce("ReduceMean", x, axes)
    centred = w.op("Sub", x, mean)
    var = w.reduce("ReduceMean", w.op("Mul", centred, centred), axes)
    std = w.op("Sqrt", w.op("Add", var, w.constant(eps, s.dtype())))
    return w.op("Div", centred, std), mean, std


@writes
def layer_norm(w: Writer, s: Step) -> Any:
    p, n = s.params, s.ndim()
    axis = s.axis(-1 if p["axis"] is None else p["axis"])
    eps = float(1e-5 if p["eps"] is None else p["eps"])
    gamma, beta = (w.cast(s[k], s.in_dtype(k), s.dtype()) for k in (1, 2))
    if w.opset >= 17 and axis == n - 1 and not p["output_mean_var"]:
        return w.op("LayerNormalization", s[0], gamma, beta, axis=-1, epsilon=eps)
    out, mean, std = _standardised(w, s, s[0], [axis], eps)
    out = w.op("Add", w.op("Mul", out, _along(w, gamma, n, axis)), _along(w, beta, n, axis))
    return [out, w.squeeze(mean, axis), w.squeeze(std, axis)] if p["output_mean_var"] else out


@writes
def group_norm(w: Writer, s: Step) -> Name:
    p, n = s.params, s.ndim()
    if p["output_mean_var"]:
        raise s.refused("output_mean_var=True")
    groups = p["num_groups"]
    gamma, beta = (w.cast(s[k], s.in_dtype(k), s.dtype()) for k in (1, 2))
    ones, zeros = (w.constant(np.full(groups, v), s.dtype()) for v in (1, 0))
    of_groups = s.shape(1) == (groups,) != (s.shape()[1],)
    flat = w.reshape(s[0], [0, groups, -1])
    scale, shift = (gamma, beta) if of_groups else (ones, zeros)
    made = w.op("InstanceNormalization", flat, scale, shift, epsilon=float(p["eps"]))
    made = w.op("Reshape", made, w.op("Shape", s[0]))
    if of_groups:
        return made
    return w.op("Add", w.op("Mul", made, _along(w, gamma, n, 1)), _along(w, beta, n, 1))


@writes
def instance_norm(w: Writer, s: Step) -> Name:
    gamma, beta = (w.cast(s[k], s.in_dtype(k), s.dtype()) for k in (1, 2))
    return w.op("InstanceNormalization", s[0], gamma, beta, epsilon=float(s.params["eps"]))


@writes
def l2_normalization(w: Writer, s: Step) -> Name:
    n = s.ndim()
    axes = {"instance": range(1, n), "channel": [1], "spatial": range(2, n)}[s.params["mode"]]
    square = w.reduce("ReduceSumSquare", s[0], list(axes))
    return w.op(
        "Div", s[0], w.op("Sqrt", w.op("Add", square, w.constant(s.params["eps"], s.dtype())))
    )


@writes
def lrn(w: Writer, s: Step) -> Name:
    p = s.params
    return w.op(
        "LRN",
        s[0],
        alpha=float(p["alpha"]),
        beta=float(p["beta"]),
        bias=float(p["knorm"]),
        size=p["nsize"],
    )


# ---- attention's products ------------------------------------------------------------------------


def _heads(w: Writer, s: Step, k: int, parts: int) -> list[Name]:
    """(T, N, heads * parts * d) as ``parts`` arrays (N * heads, T, d)."""
    width = (s.shape(k)[2] or 0) // (s.params["heads"] * parts)
    x = w.reshape(s[k], [0, -1, parts, width])
    return [
        w.transpose(w.op("Gather", x, w.constant(i, np.int64), axis=2), [1, 0, 2])
        for i in range(parts)
    ]


def _scores(w: Writer, s: Step, q: Name, k: Name, width: int) -> Name:
    q = w.op("Div", q, w.constant(math.sqrt(width), s.dtype()))
    return w.op("MatMul", q, w.transpose(k, [0, 2, 1]))


def _together(w: Writer, s: Step, context: Name, width: int) -> Name:
    """(N * heads, T, d) as (T, N, heads * d)."""
    return w.reshape(w.transpose(context, [1, 0, 2]), [0, -1, width])


@writes
def selfatt_qk(w: Writer, s: Step) -> Name:
    q, k, _ = _heads(w, s, 0, 3)
    return _scores(w, s, q, k, (s.shape()[2] or 0) // (3 * s.params["heads"]))


@writes
def selfatt_valatt(w: Writer, s: Step) -> Name:
    return _together(w, s, w.op("MatMul", s[1], _heads(w, s, 0, 3)[2]), (s.shape()[2] or 0) // 3)


@writes
def encdec_qk(w: Writer, s: Step) -> Name:
    q, k = _heads(w, s, 0, 1)[0], _heads(w, s, 1, 2)[0]
    return _scores(w, s, q, k, (s.shape()[2] or 0) // s.params["heads"])


@writes
def encdec_valatt(w: Writer, s: Step) -> Name:
    return _together(w, s, w.op("MatMul", s[1], _heads(w, s, 0, 2)[1]), (s.shape()[2] or 0) // 2)


@writes
def div_sqrt_dim(w: Writer, s: Step) -> Name:
    width = s.shape()[-1]
    if width is None:
        root = w.op(
            "Sqrt", w.op("Cast", w.length(s.node.inputs[0], s.ndim() - 1), to=w.code(s.dtype()))
        )
    else:
        root = w.constant(math.sqrt(width), s.dtype())
    return w.op("Div", s[0], root)


# ---- grids ---------------------------------------------------------------------------------------


@writes
def bilinear_sampler(w: Writer, s: Step) -> Name:
    if w.opset < 16:
        raise s.refused("sampling by a grid needs opset 16: export_model(..., opset_version=16)")
    grid = w.transpose(s[1], [0, 2, 3, 1])
    mode = "linear" if w.opset >= 20 else "bilinear"
    return w.op("GridSample", s[0], grid, mode=mode, align_corners=1, padding_mode="zeros")


@writes
def im2col(w: Writer, s: Step) -> Name:
    """By a convolution with a kernel for each place of the window."""
    p, n = s.params, s.ndim() - 2
    kernel, channels = list(p["kernel"]), s.shape()[1] or 1
    places = math.prod(kernel)
    weight = np.tile(np.eye(places).reshape(places, 1, *kernel), (channels, *[1] * (n + 1)))
    pad = _each(p["pad"], n, 0)
    made = w.op(
        "Conv", s[0], w.constant(weight, s.dtype()), kernel_shape=kernel, strides=_each(p["stride"], n, 1),
        pads=[*pad, *pad], dilations=_each(p["dilate"], n, 1), group=channels,
    )  # fmt: skip
    return w.reshape(made, [0, channels * places, -1])
