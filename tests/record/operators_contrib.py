"""Records mx.nd's contrib, linalg and optimizer operators, with Apache MXNet 2.0.0b1: ``python operators_contrib.py``.

Writes ``../data/operators_contrib.json`` in the form ``cases.py`` describes.
"""

import warnings

import mxnet as mx
import numpy as onp
from cases import Recorder

warnings.simplefilter("ignore")
rng = onp.random.RandomState(23)
POOL = {}


def normal(name, *shape):
    POOL[name] = onp.round(rng.normal(size=shape), 2).astype("float32")


def given(name, data, dtype="float32"):
    POOL[name] = onp.array(data, dtype)


for _name, _shape in {
    "x": (3, 4),
    "img": (1, 2, 4, 5),
    "deep": (1, 8, 2, 2),
    "five": (1, 5, 2, 1),
    "wide": (2, 3),
    "right": (2, 3),
    "qkv": (2, 1, 12),
    "kv": (2, 1, 8),
    "att": (2, 3, 2),
    "flow": (1, 2, 2, 3),
    "off": (1, 2, 4),
    "w": (5,),
    "g": (5,),
    "seq": (4, 2, 2),
    "h": (4, 2, 3),
    "c": (4, 2, 3),
    "lstm": (432,),
    "gru": (324,),
    "tanh": (108,),
}.items():
    normal(_name, *_shape)
for _name in ("lstm", "gru", "tanh"):
    POOL[_name] = (POOL[_name] / 2).astype("float32")
POOL["sx"] = onp.abs(POOL["x"]) + 1
POOL["s1"], POOL["s2"] = onp.abs(POOL["w"]) + 1, onp.abs(POOL["g"]) + 1
given("small", [0.1, -0.1, 0.05, 0, 0.2])
given("boxes", [[0.1, 0.1, 0.5, 0.6], [0.12, 0.1, 0.5, 0.6], [0.7, 0.7, 0.9, 0.9]])
given(
    "scored",
    [
        [
            [0, 0.9, 0.1, 0.1, 0.5, 0.6],
            [0, 0.8, 0.12, 0.1, 0.5, 0.6],
            [1, 0.7, 0.7, 0.7, 0.9, 0.9],
            [1, 0.95, 0.7, 0.7, 0.9, 0.92],
        ]
    ],
)
given("rois", [[0, 0, 0, 3, 3], [0, 1, 1, 4, 3]])
given("anchors", [[[0.1, 0.1, 0.5, 0.6], [0.2, 0.2, 0.6, 0.7]]])
given("refs", [[[0.1, 0.2, 0.5, 0.6], [0.2, 0.3, 0.6, 0.7]]])
given("hits", [[1, -1.0]])
given("match", [[0, 1.0]])
given("zero4", [0, 0, 0, 0.0])
given("std4", [0.1, 0.1, 0.2, 0.2])
given("pairs", [[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]])
given("theta", [[1.2, 0.1, 0, 0.1, 0.7, 0.3]])
given("tri", [[2, 0], [1, 3.0]])
given("three", [1, 2, 3.0])
given("lab", [0, 2, 1.0])
given("coords", [[0, 1], [2, 1.0]])
given("flat", [3, 5.0])
given("scale", [0.5])
given("none", [float("nan")])
POOL["w16"], POOL["g16"] = POOL["w"].astype("float16"), POOL["g"].astype("float16")
C = Recorder(mx, "nd", POOL)


def main():
    c = "nd.contrib."
    C(c + "BilinearResize2D", "@img", height=6, width=3)
    C(c + "BilinearResize2D", "@img", height=6, width=3, align_corners=False)
    C(c + "BilinearResize2D", "@img", scale_height=2.0, scale_width=0.5)
    C(c + "AdaptiveAvgPooling2D", "@img", output_size=(3, 2))
    C(c + "box_nms", "@scored", overlap_thresh=0.5, grad=False)
    C(c + "box_nms", "@scored", overlap_thresh=0.5, id_index=0, out_format="center", grad=False)
    C(c + "box_iou", "@boxes", "@boxes", grad=False)
    C(
        c + "box_decode",
        "@off",
        "@anchors",
        std0=0.1,
        std1=0.1,
        std2=0.2,
        std3=0.2,
        format="corner",
        grad=False,
    )
    C(c + "box_encode", "@hits", "@match", "@anchors", "@refs", "@zero4", "@std4", grad=False)
    C(c + "bipartite_matching", "@pairs", threshold=1e-12, grad=False)
    C(c + "MultiBoxPrior", "@img", sizes=(0.5, 0.25), ratios=(1, 2), grad=False)
    C(
        c + "ROIAlign",
        "@img",
        "@rois",
        pooled_size=(2, 2),
        spatial_scale=1.0,
        sample_ratio=2,
        grad=(0,),
    )
    C(
        c + "ROIAlign",
        "@deep",
        "@rois",
        pooled_size=(2, 2),
        spatial_scale=0.5,
        sample_ratio=2,
        position_sensitive=True,
        grad=(0,),
    )
    C("nd.ROIPooling", "@img", "@rois", pooled_size=(2, 2), spatial_scale=1.0, grad=(0,))
    C("nd.GridGenerator", "@theta", transform_type="affine", target_shape=(3, 3))
    C("nd.GridGenerator", "@flow", transform_type="warp")
    C(
        "nd.SpatialTransformer",
        "@img",
        "@theta",
        target_shape=(3, 3),
        transform_type="affine",
        sampler_type="bilinear",
        grad=(0,),
    )
    C("nd.LRN", "@five", nsize=3, tol=1e-4)
    C("nd.UpSampling", "@img", scale=2, sample_type="nearest")
    C("nd.Crop", "@img", h_w=(2, 2), center_crop=True)
    C("nd.depth_to_space", "@deep", 2)
    C("nd.space_to_depth", "@deep", 2)
    C("nd.im2col", "@img", kernel=(2, 2), stride=(2, 2))
    C("nd.khatri_rao", "@wide", "@right", grad=False)
    C("nd.ravel_multi_index", "@coords", shape=(2, 3), grad=False)
    C("nd.unravel_index", "@flat", shape=(2, 3), grad=False)
    C("nd.hard_sigmoid", "@x")
    C("nd.softmin", "@x")
    C("nd.softmax_cross_entropy", "@x", "@lab", grad=(0,))
    C(c + "interleaved_matmul_selfatt_qk", "@qkv", heads=2)
    C(c + "interleaved_matmul_encdec_valatt", "@kv", "@att", heads=2)
    C("nd.linalg.gelqf", "@wide", grad=False)
    C("nd.linalg.trsm", "@tri", "@wide", tol=1e-4)
    C("nd.linalg.maketrian", "@three", offset=1)
    C("nd.linalg.extracttrian", "@tri", grad=False)
    step = {"lr": 0.1, "wd": 0.01, "grad": False, "check_after": True}
    C("nd.sgd_update", "@w", "@g", **step)
    for name in ("sgd_mom", "nag_mom", "signum"):
        C(f"nd.{name}_update", "@w", "@g", "@s1", momentum=0.9, **step)
    C("nd.adam_update", "@w", "@g", "@s1", "@s2", **step)
    C("nd.rmsprop_update", "@w", "@g", "@s1", **step)
    C("nd.rmspropalex_update", "@w", "@g", "@small", "@s1", "@s2", **step)
    C("nd.ftrl_update", "@w", "@g", "@s1", "@s2", **step)
    many = ["@w", "@x"], ["@g", "@x"], ["@s1", "@x"], ["@s2", "@sx"]
    rates = {"lrs": [0.1, 0.2], "wds": [0.01, 0.02], "grad": False, "check_after": True}
    for name in ("adamw", "adabelief"):
        one = {**step, "eta": 0.7, "clip_gradient": 0.6, "epsilon": 0.05}
        C(c + f"{name}_update", "@w", "@g", "@s1", "@s2", "@scale", tol=1e-4, **one)
        C.cases[-1]["after"].pop(
            "1"
        )  # MXNet leaves the scaled gradient in the gradient's place, of one weight only
        C(c + f"{name}_update", "@w", "@g", "@s1", "@s2", "@none", out="@w", **one)
        C(c + f"mp_{name}_update", "@w16", "@g16", "@s1", "@s2", "@w", "@scale", tol=1e-4, **one)
        C(
            c + f"multi_{name}_update",
            *many,
            0.5,
            etas=[1.0, 0.7],
            epsilon=0.05,
            out=["@w", "@x"],
            **rates,
        )
    for name in ("lamb", "lans"):
        C(
            c + f"multi_{name}_update",
            *many,
            step_count=[1, 3],
            epsilon=0.05,
            out=["@w", "@x"],
            tol=1e-4,
            **rates,
        )
        C(
            c + f"multi_mp_{name}_update",
            ["@w16"],
            ["@g16"],
            ["@s1"],
            ["@s2"],
            ["@w"],
            step_count=[2],
            lrs=[0.1],
            wds=[0.01],
            rescale_grad=0.5,
            out=["@w16"],
            lower_bound=1.5,
            upper_bound=1.8,
            tol=1e-3,
            grad=False,
            check_after=True,
        )
    for mode, more in (("lstm", ("@c",)), ("gru", ()), ("rnn_tanh", ())):
        name = "@tanh" if mode == "rnn_tanh" else "@" + mode
        C(
            "nd.RNN",
            "@seq",
            name,
            "@h",
            *more,
            mode=mode,
            state_size=3,
            num_layers=2,
            bidirectional=True,
            state_outputs=True,
            tol=1e-4,
        )
    C.save("operators_contrib.json")


if __name__ == "__main__":
    main()
