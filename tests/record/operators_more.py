"""Records operators of detectors, quantized layers and signals, with MXNet 2.0.0b1: ``python operators_more.py``.

Writes ``../data/operators_more.json`` and ``../data/operators_deformable.json`` in the form ``cases.py`` describes.
"""

import warnings

import mxnet as mx
import numpy as onp
from cases import Recorder

warnings.simplefilter("ignore")
rng = onp.random.RandomState(29)
POOL = {}


def normal(*names, scale=1.0, **shapes):
    for name, shape in shapes.items():
        POOL[name] = onp.round(rng.normal(size=shape) * scale, 2).astype("float32")


def uniform(low=0.0, high=1.0, **shapes):
    for name, shape in shapes.items():
        POOL[name] = onp.round(rng.uniform(low, high, shape), 2).astype("float32")


def bytes_(dtype, **shapes):
    low, high = (-127, 128) if dtype == "int8" else (0, 256)
    for name, shape in shapes.items():
        POOL[name] = rng.randint(low, high, shape).astype(dtype)


def given(dtype="float32", **arrays):
    for name, data in arrays.items():
        POOL[name] = onp.array(data, dtype)


given(
    anchors=[[[0.1, 0.1, 0.3, 0.3], [0.2, 0.2, 0.6, 0.6], [0.5, 0.5, 0.9, 0.9], [0, 0, 0.2, 0.2]]],
    labels=[[[0, 0.1, 0.1, 0.35, 0.3], [1, 0.5, 0.45, 0.9, 0.8]], [[2, 0.2, 0.3, 0.6, 0.6], [-1] * 5]],
    none=[[[-1] * 5]],
    rois=[[0, 0, 0, 3, 3], [0, 1, 1.2, 4, 5], [1, 4, 4, 4.5, 4.7], [1, -1, 2, 8, 9]],
    roi=[[0, 0, 0, 3, 3], [0, 1, 1.2, 4, 5], [0, -1, 2, 8, 9]],
    turned=[[0, 3, 3, 4, 3, 30], [1, 2, 3, 6, 1, -70], [0, 0, 0, 0.5, 0.5, 10]],
    info=[[48, 48, 1]], infos=[[48, 48, 1], [40, 36, 1.5]],
    lo=[-1.0], hi=[1.5], lo2=[-2.0], hi2=[1.7], lo3=[-0.5], hi3=[1.0],
    ends=[4, 3], until=[6, 5.5],
)  # fmt: skip
given(
    "int32",
    steps=[1, 2],
    lengths=[4, 6],
    marks=[[0, 1, 2, 1], [1, 1, 0, 2]],
    wholes=[[1000000, -3000, 127], [5, -999999, 40000]],
)
normal(
    scores=(2, 3, 4),
    one_score=(1, 3, 4),
    off=(2, 16),
    img=(2, 8, 6, 6),
    flat=(2, 2, 6, 6),
    image1=(1, 8, 6, 6),
)
normal(
    moves=(3, 2, 2, 2),
    a1=(1, 2, 6, 7),
    a2=(1, 2, 6, 7),
    x=(3, 4),
    data=(3, 64),
    weight=(8, 64),
    bias=(8,),
)
normal(scale=0.1, deltas=(1, 48, 3, 3), delta2=(2, 48, 3, 3))
uniform(
    probs=(1, 24, 3, 3),
    probs2=(2, 24, 3, 3),
    p=(2, 3, 4),
    q=(2, 6, 2, 3),
    k=(2, 6, 2, 3),
    s5=(2, 6, 2, 5),
)
uniform(
    0.1,
    1.0,
    mu=(2, 3),
    alpha=(3,),
    beta=(3,),
    state=(2, 3),
    lags=(2, 4),
    gamma=(2,),
    shift=(2,),
    mean=(2,),
    var=(2,),
)
bytes_(
    "int8",
    i24=(2, 4),
    j24=(2, 4),
    w34=(3, 4),
    b3=(3,),
    c=(1, 4, 5, 3),
    kernel=(4, 4, 2, 2),
    pool=(1, 2, 4, 4),
    i232=(2, 3, 2),
)
bytes_("uint8", u24=(2, 4))
C = Recorder(mx, "nd", POOL)


def detectors():
    c = "nd.contrib."
    for how in (
        {},
        {"negative_mining_ratio": 1, "negative_mining_thresh": 0.9},
        {"overlap_threshold": 0.2, "ignore_label": -7},
        {"negative_mining_ratio": 0.5, "overlap_threshold": -1},
    ):
        C(c + "MultiBoxTarget", "@anchors", "@labels", "@scores", grad=False, **how)
    C(c + "MultiBoxTarget", "@anchors", "@none", "@one_score", grad=False)
    for how in (
        {},
        {"nms_topk": 2},
        {"clip": False, "threshold": 0.4},
        {"nms_threshold": 0.1, "force_suppress": True},
        {"nms_threshold": -1, "threshold": 0.4},
    ):
        C(c + "MultiBoxDetection", "@p", "@off", "@anchors", grad=False, **how)
    for how in (
        {},
        {"iou_loss": True},
        {"rpn_pre_nms_top_n": 7},
        {"threshold": 0.3, "rpn_min_size": 20},
        {"scales": (1.0, 2, 4, 8)},
    ):
        more = {"rpn_post_nms_top_n": 8, "output_score": True, "grad": False, **how}
        C(c + "Proposal", "@probs", "@deltas", "@info", **more)
        C(c + "MultiProposal", "@probs2", "@delta2", "@infos", **more)
    part = {"spatial_scale": 1.0, "output_dim": 2, "group_size": 2, "grad": False}
    C(c + "PSROIPooling", "@image1", "@roi", pooled_size=2, **part)
    C(c + "PSROIPooling", "@image1", "@roi", pooled_size=3, **{**part, "spatial_scale": 0.7})
    C(
        c + "DeformablePSROIPooling",
        "@image1",
        "@roi",
        pooled_size=2,
        no_trans=True,
        sample_per_part=2,
        **part,
    )
    C(
        c + "DeformablePSROIPooling",
        "@image1",
        "@roi",
        "@moves",
        pooled_size=4,
        part_size=2,
        sample_per_part=3,
        trans_std=0.1,
        **part,
    )
    for how in ({}, {"sample_ratio": 2}, {"aligned": True}):
        C(c + "ROIAlign", "@flat", "@rois", pooled_size=(2, 3), spatial_scale=0.8, grad=(0,), **how)
    C(
        c + "ROIAlign",
        "@img",
        "@rois",
        pooled_size=(2, 2),
        spatial_scale=0.5,
        position_sensitive=True,
        grad=(0,),
    )
    C(
        c + "RROIAlign",
        "@flat",
        "@turned",
        pooled_size=(2, 2),
        spatial_scale=1.0,
        sampling_ratio=2,
        grad=False,
    )
    C(
        c + "RROIAlign",
        "@flat",
        "@turned",
        pooled_size=(2, 3),
        spatial_scale=0.6,
        grad=False,
        tol=1e-4,
    )


def quantized():
    c, bounds = "nd.contrib.", ("@lo", "@hi")
    more = ("@lo", "@hi", "@lo2", "@hi2", "@lo3", "@hi3")
    for kind in ("uint8", "int8"):
        C(c + "quantize", "@x", *bounds, out_type=kind, grad=False)
    for how in (
        {},
        {"out_type": "uint8", "min_calib_range": -0.5, "max_calib_range": 0.7},
        {"out_type": "uint8"},
        {"out_type": "auto", "min_calib_range": 0.0, "max_calib_range": 1.0},
    ):
        C(c + "quantize_v2", "@x", grad=False, **how)
    for x in ("@i24", "@u24"):
        C(c + "dequantize", x, *bounds, grad=False)
    for how in (
        {},
        {"min_calib_range": -0.0001, "max_calib_range": 0.0003},
        {"out_type": "uint8", "min_calib_range": 0.0, "max_calib_range": 0.0003},
    ):
        C(c + "requantize", "@wholes", *bounds, grad=False, **how)
    C(c + "quantized_fully_connected", "@i24", "@w34", "@b3", *more, num_hidden=3, grad=False)
    C(c + "quantized_fully_connected", "@u24", "@w34", "@b3", *more, num_hidden=3, grad=False)
    C(
        c + "quantized_fully_connected",
        "@i24",
        "@w34",
        *more[:4],
        num_hidden=3,
        no_bias=True,
        grad=False,
    )
    C(
        c + "quantized_conv",
        "@c",
        "@kernel",
        *more[:4],
        kernel=(2, 2),
        stride=(2, 1),
        pad=(1, 0),
        num_filter=4,
        no_bias=True,
        grad=False,
    )
    for how in (
        {"pool_type": "max"},
        {"pool_type": "avg"},
        {"pool_type": "avg", "global_pool": True},
    ):
        C(
            c + "quantized_pooling",
            "@pool",
            *bounds,
            kernel=(2, 2),
            stride=(2, 2),
            grad=False,
            **how,
        )
    C(c + "quantized_act", "@i24", *bounds, act_type="relu", grad=False)
    C(c + "quantized_flatten", "@i232", *bounds, grad=False)
    C(c + "quantized_transpose", "@i24", *bounds, grad=False)
    C(c + "quantized_reshape", "@i24", *bounds, shape=(4, -1), grad=False)
    C(c + "quantized_concat", "@i24", "@j24", *more[:4], num_args=2, dim=1, grad=False)
    for how in ({}, {"min_calib_range": -2.0, "max_calib_range": 1.0}):
        C(c + "quantized_elemwise_add", "@i24", "@j24", *more[:4], grad=False, tol=1e-6, **how)
        C(c + "quantized_elemwise_mul", "@i24", "@j24", *more[:4], grad=False, **how)
    C(c + "quantized_elemwise_mul", "@i24", "@j24", *more[:4], enable_float_output=True, grad=False)
    C(c + "intgemm_maxabsolute", "@data", grad=False)
    C(c + "intgemm_prepare_data", "@data", "@hi2", grad=False)


def series():
    c = "nd.contrib."
    for both in (True, False):
        C(c + "sldwin_atten_score", "@q", "@k", "@steps", w=2, symmetric=both)
    C(c + "sldwin_atten_context", "@s5", "@k", "@steps", w=2, symmetric=True)
    C(c + "sldwin_atten_mask_like", "@s5", "@steps", "@lengths", w=2, symmetric=True, grad=False)
    C(
        c + "hawkesll",
        "@mu",
        "@alpha",
        "@beta",
        "@state",
        "@lags",
        "@marks",
        "@ends",
        "@until",
        grad=(0, 1),
    )
    for how in (
        {},
        {"kernel_size": 3, "max_displacement": 2, "stride2": 2, "pad_size": 3},
        {"stride1": 2, "is_multiply": False},
    ):
        C("nd.Correlation", "@a1", "@a2", **how)
    C(
        "nd.multi_lars",
        "@ends",
        "@until",
        "@ends",
        "@until",
        eta=0.1,
        eps=1e-8,
        rescale_grad=0.5,
        grad=False,
    )


def deformable():
    shapes = {
        "x": (2, 2, 5, 5),
        "w": (4, 2, 2, 2),
        "w1": (4, 1, 2, 2),
        "b": (4,),
        "o": (2, 8, 4, 4),
        "o2": (2, 16, 3, 3),
        "o3": (2, 8, 5, 4),
    }
    pool = {
        k: (onp.round(rng.normal(size=s), 2) + 0.003).astype("float32") for k, s in shapes.items()
    }  # not on the grid
    mx.npx.set_np()
    d = Recorder(mx, "np", pool)
    name, how = "npx.deformable_convolution", {"kernel": (2, 2), "num_filter": 4}
    d(name, "@x", "@o", "@w", "@b", **how, tol=1e-4)
    d(
        name,
        "@x",
        "@o2",
        "@w",
        "@b",
        num_deformable_group=2,
        stride=(2, 2),
        pad=(1, 1),
        **how,
        tol=1e-4,
    )
    d(
        name,
        "@x",
        "@o3",
        "@w1",
        num_group=2,
        dilate=(2, 1),
        pad=(1, 0),
        no_bias=True,
        **how,
        tol=1e-4,
    )
    d.save("operators_deformable.json")


if __name__ == "__main__":
    detectors()
    quantized()
    series()
    C.save("operators_more.json")
    deformable()
