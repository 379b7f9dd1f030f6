"""ONNX's layers as rows of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxjax.ops.rnn import GATES
from mxjax.symbol.node import Entry, Node

from .control import gru
from .reader import Lengths, Reader, Step, Value, reads, room


def _window(s: Step, n: int) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Kernel, strides, dilations and the padding before and after."""
    kernel = s.ints("kernel_shape")
    if kernel is None:
        shape = s.shape(1)
        assert shape is not None
        kernel = [k or 1 for k in shape[2:]]
    n = len(kernel)
    strides, dilations = s.ints("strides") or [1] * n, s.ints("dilations") or [1] * n
    pads = s.ints("pads") or [0] * (2 * n)
    auto = s.get("auto_pad", "NOTSET")
    before, after = pads[:n], pads[n:]
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        size = (s.shape() or ())[2:]
        before, after = [], []
        for d in range(n):
            reach = dilations[d] * (kernel[d] - 1) + 1
            if strides[d] == 1:
                total = reach - 1
            elif d < len(size) and size[d] is not None:
                length = size[d] or 0
                total = max((-(-length // strides[d]) - 1) * strides[d] + reach - length, 0)
            else:
                raise s.refused(f"auto_pad={auto!r}, and the images' size changes")
            low = total // 2 if auto == "SAME_UPPER" else total - total // 2
            before.append(low)
            after.append(total - low)
    return kernel, strides, dilations, before, after


def _around(
    s: Step, x: Entry, before: Sequence[int], after: Sequence[int], number: float = 0.0
) -> Entry:
    pairs = ((0, 0), (0, 0), *zip(before, after, strict=True))
    return s.make("pad", x, pad_width=tuple(pairs), mode="constant", constant_values=number)


@reads("Conv")
def conv(r: Reader, s: Step) -> Value:
    kernel, strides, dilations, before, after = _window(s, 0)
    x = s[0]
    if before != after:
        x, before = _around(s, x, before, after), [0] * len(kernel)
    shape = s.shape(1)
    assert shape is not None
    bias = s[2] if s.has(2) else None
    return s.make(
        "convolution", x, s[1], bias, kernel=tuple(kernel), stride=tuple(strides), dilate=tuple(dilations),
        pad=tuple(before), num_filter=shape[0], num_group=s.get("group", 1), no_bias=bias is None,
    )  # fmt: skip


@reads("ConvTranspose")
def conv_transpose(r: Reader, s: Step) -> Value:
    kernel, strides, dilations, before, after = _window(s, 0)
    more = s.ints("output_padding") or [0] * len(kernel)
    if s.ints("output_shape") or s.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise s.refused("output_shape and auto_pad")
    shape = s.shape(1)
    assert shape is not None
    group = s.get("group", 1)
    bias = s[2] if s.has(2) else None
    uneven = before != after
    made = s.make(
        "deconvolution", s[0], s[1], bias, kernel=tuple(kernel), stride=tuple(strides), dilate=tuple(dilations),
        pad=tuple([0] * len(kernel) if uneven else before), adj=tuple(more), num_filter=(shape[1] or 1) * group,
        num_group=group, no_bias=bias is None,
    )  # fmt: skip
    if uneven:
        begin = (None, None, *before)
        made = s.make(
            "slice_", made, begin=begin, end=(None, None, *[-a if a else None for a in after])
        )
    return made


# ---- pooling -----------------------------------------------------------------------------------------------


@reads("MaxPool", "AveragePool", "LpPool")
def pool(r: Reader, s: Step) -> Value:
    kernel, strides, dilations, before, after = _window(s, 0)
    n = len(kernel)
    if any(d != 1 for d in dilations):
        raise s.refused("dilations")
    if len(s.node.output) > 1 and s.node.output[1]:
        raise s.refused("the places of the maxima")
    counted = bool(s.get("count_include_pad", 0))
    kind = {"MaxPool": "max", "AveragePool": "avg", "LpPool": "lp"}[s.kind]
    how: dict[str, Any] = {"kernel": tuple(kernel), "stride": tuple(strides), "pool_type": kind}
    if s.get("ceil_mode", 0):
        how["pooling_convention"] = "full"
    x: Any = s[0]
    if kind == "lp":
        x, how["p_value"] = _of_sizes(s, x)
    if before == after:
        if kind == "avg":
            how["count_include_pad"] = counted
        return s.make("pooling", x, pad=tuple(before), **how)
    if kind != "avg":
        number = float(np.finfo(np.float32).min) if kind == "max" else 0.0
        return s.make("pooling", _around(s, x, before, after, number), pad=(0,) * n, **how)
    made = s.make(
        "pooling", _around(s, x, before, after), pad=(0,) * n, count_include_pad=True, **how
    )
    if counted:
        return made
    ones = _around(s, s.make("ones_like", x), before, after)
    return s.make(
        "true_divide", made, s.make("pooling", ones, pad=(0,) * n, count_include_pad=True, **how)
    )


def _of_sizes(s: Step, x: Any) -> tuple[Any, int]:
    """What a norm is of, and its order: ONNX takes absolute values, where odd powers have signs here."""
    order: int = s.get("p", 2)
    return (s.make("abs", x) if order % 2 else x), order


@reads("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")
def global_pool(r: Reader, s: Step) -> Value:
    kind = {"GlobalMaxPool": "max", "GlobalAveragePool": "avg", "GlobalLpPool": "lp"}[s.kind]
    n = s.ndim() - 2
    x: Any = s[0]
    extra: dict[str, Any] = {}
    if kind == "lp":
        x, extra["p_value"] = _of_sizes(s, x)
    return s.make("pooling", x, kernel=(1,) * n, global_pool=True, pool_type=kind, **extra)


@reads("MaxRoiPool")
def roi_pool(r: Reader, s: Step) -> Value:
    size = tuple(s.ints("pooled_shape") or ())
    return s.make(
        "roi_pooling", s[0], s[1], pooled_size=size, spatial_scale=s.get("spatial_scale", 1.0)
    )


@reads("RoiAlign")
def roi_align(r: Reader, s: Step) -> Value:
    if s.get("mode", "avg") != "avg":
        raise s.refused("mode='max'")
    usual = "half_pixel" if r.opset >= 16 else "output_half_pixel"
    numbers = s.make("expand_dims", s.make("cast", s[2], dtype="float32"), axis=1)
    rois = s.make("concatenate", numbers, s[1], axis=1)
    return s.make(
        "roi_align", s[0], rois, pooled_size=(s.get("output_height", 1), s.get("output_width", 1)),
        spatial_scale=s.get("spatial_scale", 1.0), sample_ratio=s.get("sampling_ratio", 0) or -1,
        aligned=s.get("coordinate_transformation_mode", usual) == "half_pixel",
    )  # fmt: skip


# ---- normalisation -------------------------------------------------------------------------------------------


@reads("BatchNormalization", "SpatialBN")
def batch_norm(r: Reader, s: Step) -> Value:
    if s.get("training_mode", 0):
        raise s.refused("training_mode=1")
    given = [s[k] for k in range(5)]
    # The statistics are of this layer alone, whatever other layers read the same numbers.
    if len({e for e in given[1:]}) < 4:
        given[1:] = [
            s.parameter(("gamma", "beta", "moving_mean", "moving_var")[k - 1], s.numbers(k))
            for k in range(1, 5)
        ]
    return s.make(
        "batch_norm@nd", *given, eps=s.get("epsilon", 1e-5), momentum=s.get("momentum", 0.9), fix_gamma=False
    )  # fmt: skip


@reads("InstanceNormalization")
def instance_norm(r: Reader, s: Step) -> Value:
    return s.make("instance_norm", s[0], s[1], s[2], eps=s.get("epsilon", 1e-5))


@reads("LayerNormalization")
def layer_norm(r: Reader, s: Step) -> Value:
    axis, eps = s.get("axis", -1), s.get("epsilon", 1e-5)
    if len([o for o in s.node.output if o]) > 1:
        raise s.refused("the mean and the deviation as results")
    if axis != -1 and axis != s.ndim() - 1:
        raise s.refused(f"axis={axis}: several axes at once")
    shape = s.shape(1)
    assert shape is not None
    beta = s[2] if s.has(2) else s.parameter("beta", np.zeros(shape, s.dtype(1) or np.float32))  # type: ignore[arg-type]
    return s.make("layer_norm", s[0], s[1], beta, axis=-1, eps=eps)


@reads("GroupNormalization")
def group_norm(r: Reader, s: Step) -> Value:
    groups = s.get("num_groups")
    scale, bias = s[1], s[2]
    shape = s.shape()
    if r.opset < 21:  # whose scale has a number for each group
        if shape is None or shape[1] is None:
            raise s.refused("the number of channels is not known")
        scale, bias = (
            s.make("repeat", x, repeats=(shape[1] or 0) // groups, axis=0) for x in (scale, bias)
        )
    return s.make("group_norm", s[0], scale, bias, num_groups=groups, eps=s.get("epsilon", 1e-5))


@reads("LRN")
def lrn(r: Reader, s: Step) -> Value:
    return s.make(
        "lrn",
        s[0],
        alpha=s.get("alpha", 1e-4),
        beta=s.get("beta", 0.75),
        knorm=s.get("bias", 1.0),
        nsize=s.get("size"),
    )


@reads("GridSample")
def grid_sample(r: Reader, s: Step) -> Value:
    if (
        s.get("mode", "linear") not in ("linear", "bilinear")
        or s.get("padding_mode", "zeros") != "zeros"
    ):
        raise s.refused("other modes than linear, with zeros around")
    if not s.get("align_corners", 0):
        raise s.refused("align_corners=0")
    return s.make("bilinear_sampler", s[0], s.make("transpose", s[1], axes=(0, 3, 1, 2)))


# ---- resizing --------------------------------------------------------------------------------------------------


@reads("Resize", "Upsample")
def resize(r: Reader, s: Step) -> Value:
    shape = s.shape()
    scales = sizes = None
    if s.kind == "Upsample":
        scales = s.attrs.get("scales") or (s.numbers(1).tolist() if s.has(1) else None)
        usual = "asymmetric"
    else:
        scales = (
            s.numbers(2, "the scales").tolist()
            if s.has(2) and s.numbers(2, "the scales").size
            else None
        )
        if s.has(3):
            sizes = _sizes(s)
        usual = "half_pixel" if r.opset >= 11 else "asymmetric"
    mode, how = s.get("mode", "nearest"), s.get("coordinate_transformation_mode", usual)
    if s.ints("axes") or s.get("antialias", 0):
        raise s.refused("axes and antialias")
    if scales is not None and any(k != 1 for k in scales[:2]):
        raise s.refused("other axes than the images'")
    if mode == "nearest":
        if scales is None:
            if sizes is None or shape is None or None in shape[2:]:
                raise s.refused("the images' size changes")
            scales = [1, 1, *[n / (m or 1) for n, m in zip(sizes[2:], shape[2:], strict=True)]]
        factors = [int(k) for k in scales[2:]]
        if [float(k) for k in factors] != [float(k) for k in scales[2:]]:
            raise s.refused("nearest by no whole factor")
        x = s[0]
        for d, k in enumerate(factors):
            x = s.make("repeat", x, repeats=k, axis=2 + d) if k != 1 else x
        return x if x != s[0] else s.make("copy", x)
    if mode not in ("linear", "bilinear") or how not in (
        "align_corners",
        "half_pixel",
        "pytorch_half_pixel",
    ):
        raise s.refused(f"mode={mode!r}, coordinate_transformation_mode={how!r}")
    align = how == "align_corners"
    if sizes is not None:
        return s.make("bilinear_resize", s[0], height=sizes[2], width=sizes[3], align_corners=align)
    assert scales is not None
    return s.make(
        "bilinear_resize",
        s[0],
        scale_height=float(scales[2]),
        scale_width=float(scales[3]),
        align_corners=align,
    )


def _sizes(s: Step) -> list[int]:
    value = s.value(3)
    items = value.items if isinstance(value, Lengths) else s.numbers(3, "the sizes").tolist()
    if any(not isinstance(n, int) for n in items[2:]):
        raise s.refused("the sizes are computed where the network runs")
    return list(items)


# ---- recurrent layers -----------------------------------------------------------------------------------------------

# Where MXNet's gates stand among ONNX's: i f c o of i o f c; r z h of z r h.
_ORDER = {"lstm": (0, 2, 3, 1), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}


def _gates(x: np.ndarray, mode: str) -> np.ndarray:
    parts = np.split(x, GATES[mode])
    return np.concatenate([parts[k] for k in _ORDER[mode]])


@reads("LSTM", "GRU", "RNN")
def recurrent(r: Reader, s: Step) -> list[Value]:
    hidden = s.get("hidden_size")
    way = s.get("direction", "forward")
    directions = 2 if way == "bidirectional" else 1
    acts = [a.decode() if isinstance(a, bytes) else a for a in s.attrs.get("activations", [])]
    mode = (
        s.kind.lower()
        if s.kind != "RNN"
        else "rnn_relu"
        if acts and set(acts) == {"Relu"}
        else "rnn_tanh"
    )
    usual = {
        "lstm": ["Sigmoid", "Tanh", "Tanh"],
        "gru": ["Sigmoid", "Tanh"],
        "rnn_tanh": ["Tanh"],
        "rnn_relu": ["Relu"],
    }
    if acts and acts != usual[mode] * directions:
        raise s.refused(f"activations {acts}")
    if "clip" in s.attrs or s.get("input_forget", 0) or s.has(7):
        raise s.refused("clip, input_forget and peepholes")
    weight, recurrent = s.numbers(1, "the weights"), s.numbers(2, "the weights")
    room(s.wish, directions, hidden)
    bias = (
        s.numbers(3, "the biases")
        if s.has(3)
        else np.zeros((directions, 2 * GATES[mode] * hidden), weight.dtype)
    )
    if mode == "gru" and not s.get("linear_before_reset", 0):
        return _gru(s, weight, recurrent, bias, way)
    pieces = [
        _gates(v[d], mode).reshape(-1) for d in range(directions) for v in (weight, recurrent)
    ]
    pieces += [_gates(b, mode) for d in range(directions) for b in np.split(bias[d], 2)]
    parameters = s.parameter("parameters", np.concatenate(pieces))
    last = bool(s.get("layout", 0))
    x = s.make("swapaxes", s[0], axis1=0, axis2=1) if last else s[0]
    lengths = s[4] if s.has(4) else None
    back = way == "reverse"
    extra: dict[str, Any] = {"use_sequence_length": True} if lengths is not None else {}
    if back:
        x = s.make("sequence_reverse", x, lengths, **extra)
    states = [_state(s, k, directions, hidden, last) for k in ((5, 6) if mode == "lstm" else (5,))]
    outs = s.several(
        "rnn", [x, parameters, states[0], states[1] if mode == "lstm" else None, lengths], mode=mode, state_size=hidden,
        num_layers=1, bidirectional=directions == 2, state_outputs=True, **extra,
    )  # fmt: skip
    y = outs[0]
    if back:
        y = s.make("sequence_reverse", y, lengths, **extra)
    y = s.make("reshape@nd", y, shape=(0, 0, directions, hidden))
    y = s.make("transpose", y, axes=(1, 0, 2, 3) if last else (0, 2, 1, 3))
    ends = [s.make("swapaxes", o, axis1=0, axis2=1) if last else o for o in outs[1:]]
    return [y, *ends]


def _gru(
    s: Step, weight: np.ndarray, recurrent: np.ndarray, bias: np.ndarray, way: str
) -> list[Value]:
    """A GRU that resets before the product, which MXNet's does after it: a loop."""
    if s.has(4):
        raise s.refused("linear_before_reset=0 with lengths of the sequences")
    last, directions, hidden = bool(s.get("layout", 0)), len(recurrent), recurrent.shape[2]
    x = s.make("swapaxes", s[0], axis1=0, axis2=1) if last else s[0]
    start = _state(s, 5, directions, hidden, last) if s.has(5) else None
    ys, ends = [], []
    for d in range(directions):
        back = way == "reverse" or d == 1
        if start is not None:
            first = s.make(
                "squeeze", s.make("slice_axis", start, axis=0, begin=d, end=d + 1), axis=0
            )
        else:  # as many samples as the data
            zero = s.make("multiply", s.make("slice_axis", x, axis=0, begin=0, end=1), 0.0)
            wide = s.parameter(f"zero{d}", np.zeros((weight.shape[2], hidden), weight.dtype))
            first = s.make("matmul", s.make("squeeze", zero, axis=0), wide)
        data = s.make("flip", x, axis=0) if back else x
        y, end = gru(s, data, (weight[d], recurrent[d], bias[d]), first, f"d{d}")
        ys.append(s.make("flip", y, axis=0) if back else y)
        ends.append(end)
    y, end = s.make("stack", *ys, axis=1), s.make("stack", *ends, axis=0)
    if last:
        return [
            s.make("transpose", y, axes=(2, 0, 1, 3)),
            s.make("swapaxes", end, axis1=0, axis2=1),
        ]
    return [y, end]


def _state(s: Step, k: int, directions: int, hidden: int, last: bool) -> Entry:
    if s.has(k):
        return s.make("swapaxes", s[k], axis1=0, axis2=1) if last else s[k]
    made = s.make("zeros@nd", shape=(directions, 0, hidden), dtype="float32")
    node: Node = made[0]
    node.open = (1,)  # as many samples as the data
    return made
