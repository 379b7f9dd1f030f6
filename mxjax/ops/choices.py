"""The words that attributes take: the column `choices` of rows, attribute -> words.

``(attribute, words, rows)``, as MXNet's registry lists them for 1.9.1 and 2.0.0b1, and the words that rows here take besides. MXNet
refuses another word where a symbol is composed or a call is made; `bounds` has numbers' bounds in the same way.
"""

from __future__ import annotations

import math

from .table import TABLE

_LAYOUTS = "NCW NCHW NCDHW NWC NHWC NDHWC"

CHOICES: tuple[tuple[str, str, str], ...] = (
    ("act_type", "relu sigmoid log_sigmoid mish softrelu softsign tanh", "activation quantized_act"),
    ("act_type", "leaky prelu elu selu gelu rrelu gelu_erf gelu_tanh", "leaky_relu"),
    ("blank_label", "first last", "ctc_loss"),
    ("cudnn_tune", "off limited_workspace fastest", "convolution deconvolution@nd quantized_conv"),
    ("format", "center corner", "box_decode box_iou"),
    ("in_format", "center corner", "box_nms"),
    ("out_format", "center corner", "box_nms"),
    ("forward_stype", "default row_sparse csr", "batch_dot@nd dot@nd"),
    ("layout", _LAYOUTS, "convolution deconvolution@nd quantized_conv pooling quantized_pooling"),
    ("layout", "NCW NCHW NCDHW", "deformable_convolution modulated_deformable_convolution"),
    ("mode", "training always", "dropout"),
    ("mode", "instance channel", "softmax_activation"),
    ("mode", "instance channel spatial", "l2_normalization"),
    ("mode", "clip wrap raise", "take@nd"),
    ("mode", "clip wrap", "pick"),
    ("mode", "constant edge reflect", "pad@nd"),
    ("mode", "rnn_relu rnn_tanh lstm gru", "rnn"),
    ("mode", "size odd_scale like to_even_down to_even_up to_odd_down to_odd_up", "bilinear_resize"),
    ("multi_input_mode", "concat sum", "up_sampling"),
    ("normalization", "null batch valid", "make_loss_layer softmax_output"),
    ("out_type", "int8 uint8", "quantize"),
    ("pool_type", "max avg sum lp", "pooling quantized_pooling"),
    ("pooling_convention", "valid full same", "pooling quantized_pooling"),
    ("ret_typ", "indices value mask both", "topk"),
    ("sample_type", "nearest bilinear", "up_sampling"),
    ("sampler_type", "bilinear", "spatial_transformer"),
    ("stype", "default row_sparse csr", "cast_storage"),
    ("transform_type", "affine", "spatial_transformer"),
    ("transform_type", "affine warp", "grid_generator"),
)  # fmt: skip

#: ``(attribute, the least, the most, rows)`` of attributes whose numbers have bounds.
BOUNDS: tuple[tuple[str, float, float, str], ...] = (
    ("num_hidden", 1, math.inf, "fully_connected fully_connected@nd"),
    ("num_filter", 1, math.inf, "convolution deconvolution@nd"),
    (
        "num_group",
        1,
        math.inf,
        "convolution deconvolution@nd deformable_convolution modulated_deformable_convolution",
    ),
    ("input_dim", 1, math.inf, "embedding"),
    ("output_dim", 1, math.inf, "embedding"),
    ("scale", 1, 1000, "up_sampling"),
    ("num_outputs", 1, math.inf, "slice_channel"),
    ("p", 0, 1, "dropout rnn"),
    ("smooth_alpha", 0, 1, "softmax_output"),
)

#: Rows whose derivative is zero everywhere: what they hand back does not depend on the gradient of their result.
FLAT = """round around rint ceil floor trunc fix zeros_like ones_like shape_array size_array logical_not argmax argmin argmax_channel
argsort one_hot equal not_equal greater greater_equal less less_equal logical_and logical_or logical_xor arange_like quantize"""


def _forms(name: str) -> list[str]:
    """The rows of a name: for np and nd, and beside numbers."""
    plain = (name, f"{name}_scalar", f"r{name}_scalar")
    return [row for row in (*plain, *[f"{n}@nd" for n in plain]) if row in TABLE]


def enter() -> None:
    """Fill the columns of the rows, which are all there by then."""
    for attribute, words, rows in CHOICES:
        for row in rows.split():
            TABLE[row].choices = {**TABLE[row].choices, attribute: tuple(words.split())}
    for attribute, least, most, rows in BOUNDS:
        for row in rows.split():
            TABLE[row].bounds = {**TABLE[row].bounds, attribute: (least, most)}
    for name in FLAT.split():
        for row in _forms(name):
            TABLE[row].inference.loss = True
    TABLE["topk"].inference.loss = lambda attrs: attrs["ret_typ"] in ("indices", "mask")
