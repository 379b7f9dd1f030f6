"""Records npx: the neural-network operators. Run with Apache MXNet 2.0.0b1: ``python
operators_nn.py``.

Writes ``../data/operators_nn.json`` in the form ``cases.py`` describes.
"""

import warnings

import mxnet as mx
import numpy as onp
from cases import Recorder, pool

warnings.simplefilter("ignore")
POOL = pool()
rng = onp.random.RandomState(17)


SHAPES = """x2d:2,3 w53:5,3 b5:5 w512:5,12 img1:2,2,7 img2:2,2,6,5 img4:1,4,5,5 img3:1,2,4,4,4
k1:3,2,3
k2:3,2,3,3 k2x:3,2,2,3 k1x1:4,2,1,1 kg:4,2,3,3 kdw:4,1,3,3 k3:2,2,2,2,2 b3:3 b4:4 b2:2 dk1:2,3,3
dk2:2,3,3,3 dkg:4,2,3,3 g3:3 bn:4,3,2 bnd:4,3 emb:5,3 seq:4,2,3 g2:2 h34:3,4 bd1:2,3,4 bd2:2,4,5
bd3:2,5,4 r:2,3,4 nd5:2,3,4,1"""


def normal(name, *shape, dtype="float32"):
    POOL[name] = onp.round(rng.normal(size=shape), 2).astype(dtype)


for _item in SHAPES.split():
    _name, _, _shape = _item.partition(":")
    normal(_name, *map(int, _shape.split(",")))
normal("x2d64", 2, 3, dtype="float64")
normal("w5364", 5, 3, dtype="float64")
normal("img2h", 1, 2, 4, 4, dtype="float16")
POOL["var3"] = onp.array([0.5, 1.5, 2.0], "float32")
POOL["mean3"] = onp.array([0.1, -0.2, 0.3], "float32")
POOL["ids"] = onp.array([[0, 4], [2, 2]], "int32")
POOL["idsf"] = onp.array([[1.0, 0.0], [3.0, 9.0]], "float32")
POOL["len2"] = onp.array([2, 3], "float32")
POOL["len3"] = onp.array([1, 4, 2], "int32")
POOL["pick3"] = onp.array([1, 3, 0], "int32")
POOL["pickf"] = onp.array([1.0, 7.0, -1.0], "float32")
POOL["gnd"] = onp.array([[0, 2, 1], [1, 3, 0]], "int32")
POOL["gnd1"] = onp.array([[0, 2]], "int32")
POOL["mask34"] = onp.array([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 1, 0]], "bool")
POOL["alpha"] = onp.array([0.1, 0.2, 0.3, 0.4], "float32")
C = Recorder(mx, "np", POOL)
TRAIN = {"training": True, "check_after": True}


def dense():
    C("npx.fully_connected", "@x2d", "@w53", "@b5", num_hidden=5, no_bias=False)
    C("npx.fully_connected", "@x2d", "@w53", num_hidden=5, no_bias=True)
    C("npx.fully_connected", "@r", "@w512", "@b5", num_hidden=5, no_bias=False)
    C("npx.fully_connected", "@bn", "@w53", num_hidden=5, fails=True)
    C("npx.fully_connected", "@seq", "@w53", "@b5", num_hidden=5, no_bias=False, flatten=False)
    C("npx.fully_connected", "@x2d64", "@w5364", num_hidden=5, no_bias=True)
    C("npx.fully_connected", "@x2d", "@w512", num_hidden=5, no_bias=True, fails=True)
    C("npx.batch_dot", "@bd1", "@bd2")
    C("npx.batch_dot", "@bd1", "@bd3", transpose_b=True)
    C("npx.batch_dot", "@bd1", "@bd1", transpose_a=True)
    C("npx.batch_dot", "@bd2", "@bd1", transpose_a=True, transpose_b=True)
    C("npx.embedding", "@ids", "@emb", input_dim=5, output_dim=3)
    C("npx.embedding", "@idsf", "@emb", input_dim=5, output_dim=3, grad=(1,))
    C("npx.one_hot", "@ids", 5)
    C("npx.one_hot", "@idsf", 4, 2.0, -1.0, grad=False)
    C("npx.one_hot", "@ids", 3, dtype="int32")


def convolution():
    c, d = "npx.convolution", "npx.deconvolution"
    C(c, "@img1", "@k1", "@b3", kernel=(3,), num_filter=3)
    C(c, "@img1", "@k1", kernel=(3,), num_filter=3, no_bias=True, stride=(2,), pad=(1,))
    C(c, "@img1", "@k1", "@b3", kernel=(3,), num_filter=3, dilate=(2,))
    C(c, "@img2", "@k2", "@b3", kernel=(3, 3), num_filter=3)
    C(c, "@img2", "@k2", "@b3", kernel=(3, 3), num_filter=3, stride=(2, 2), pad=(1, 1))
    C(c, "@img2", "@k2", kernel=(3, 3), num_filter=3, no_bias=True, stride=(1, 2), pad=(2, 0))
    C(c, "@img2", "@k2", kernel=(3, 3), num_filter=3, no_bias=True, dilate=(2, 2), pad=(2, 2))
    C(c, "@img2", "@k2x", "@b3", kernel=(2, 3), num_filter=3, pad=(0, 1))
    C(c, "@img2", "@k1x1", "@b4", kernel=(1, 1), num_filter=4)
    C(c, "@img2", "@k1x1", kernel=(1, 1), num_filter=4, stride=(2, 2), no_bias=True)
    C(c, "@img4", "@kg", "@b4", kernel=(3, 3), num_filter=4, num_group=2, pad=(1, 1))
    C(c, "@img4", "@kdw", kernel=(3, 3), num_filter=4, num_group=4, no_bias=True)
    C(c, "@img3", "@k3", "@b2", kernel=(2, 2, 2), num_filter=2)
    C(
        c,
        "@img3",
        "@k3",
        kernel=(2, 2, 2),
        num_filter=2,
        stride=(2, 1, 2),
        pad=(1, 0, 1),
        no_bias=True,
    )
    C(c, "@img2", "@kg", kernel=(3, 3), num_filter=4, no_bias=True, num_group=2, fails=True)
    C(d, "@img1", "@dk1", kernel=(3,), num_filter=3, stride=(2,), no_bias=True)
    C(d, "@img2", "@dk2", "@b3", kernel=(3, 3), num_filter=3, no_bias=False)
    C(d, "@img2", "@dk2", kernel=(3, 3), num_filter=3, stride=(2, 2), pad=(1, 1), no_bias=True)
    C(
        d,
        "@img2",
        "@dk2",
        kernel=(3, 3),
        num_filter=3,
        stride=(2, 2),
        pad=(1, 1),
        adj=(1, 1),
        no_bias=True,
    )
    C(d, "@img2", "@dk2", kernel=(3, 3), num_filter=3, dilate=(2, 2), no_bias=True)
    C(d, "@img4", "@dkg", kernel=(3, 3), num_filter=4, num_group=2, no_bias=True)


def pooling():
    # MXNet keeps the places of the maxima in training only; without it their gradient is garbage.
    def p(*args, **kwargs):
        C("npx.pooling", *args, training=True, **kwargs)

    for t in ("max", "avg", "sum"):
        p("@img2", kernel=(2, 2), pool_type=t)
        p("@img2", kernel=(2, 2), stride=(2, 2), pool_type=t)
        p("@img2", kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type=t)
        p("@img2", kernel=(3, 2), stride=(2, 2), pool_type=t, pooling_convention="full")
        p("@img2", kernel=(2, 2), stride=(2, 2), pad=(1, 1), pool_type=t, pooling_convention="full")
        p("@img1", kernel=(3,), stride=(2,), pool_type=t)
        p("@img3", kernel=(2, 2, 2), stride=(2, 2, 2), pool_type=t)
        p("@img2", kernel=(2, 2), global_pool=True, pool_type=t)
    p("@img2", kernel=(3, 3), pad=(1, 1), pool_type="avg", count_include_pad=False)
    p(
        "@img2",
        kernel=(3, 3),
        stride=(2, 2),
        pad=(1, 1),
        pool_type="avg",
        count_include_pad=False,
        pooling_convention="full",
    )
    p("@img2", kernel=(2, 2), stride=(2, 2), pool_type="lp", p_value=2)
    p("@img2", kernel=(7, 7), pool_type="max", fails=True)
    p("@ties4", kernel=(2, 2), stride=(1, 1), pool_type="max")
    p("@img2h", kernel=(2, 2), stride=(2, 2), pool_type="max", grad=False)


def normalization():
    b = "npx.batch_norm"
    stats = ("@g3", "@b3", "@mean3", "@var3")
    C(b, "@bn", *stats, grad=(0, 1, 2))
    C(b, "@bn", *stats, fix_gamma=False, grad=(0, 1, 2))
    C(b, "@bnd", *stats, fix_gamma=False, grad=(0, 1, 2), eps=1e-5)
    C(b, "@bn", *stats, grad=(0, 1, 2), tol=1e-4, **TRAIN)
    C(b, "@bn", *stats, fix_gamma=False, grad=(0, 1, 2), tol=1e-4, **TRAIN)
    C(b, "@bn", *stats, fix_gamma=False, momentum=0.5, eps=1e-5, grad=(0, 1, 2), tol=1e-4, **TRAIN)
    C(b, "@bn", *stats, fix_gamma=False, use_global_stats=True, grad=(0, 1, 2), **TRAIN)
    C(b, "@bnd", *stats, fix_gamma=False, grad=(0, 1, 2), tol=1e-4, **TRAIN)
    C(b, "@seq", *stats, fix_gamma=False, axis=2, grad=(0, 1, 2), tol=1e-4, **TRAIN)
    C(b, "@seq", *stats, fix_gamma=False, axis=-1, grad=(0, 1, 2), tol=1e-4, **TRAIN)
    C(b, "@bn", *stats, fix_gamma=False, output_mean_var=True, grad=False, tol=1e-4)
    C("npx.layer_norm", "@seq", "@g3", "@b3", axis=-1, eps=1e-5, tol=1e-4)
    C("npx.layer_norm", "@bn", "@g3", "@b3", axis=1, eps=1e-3, tol=1e-4)
    C("npx.layer_norm", "@x2d", "@g3", "@b3", axis=1, eps=1e-5, tol=1e-4)
    C("npx.group_norm", "@img4", "@b4", "@alpha", num_groups=2, eps=1e-5, tol=1e-4)
    C("npx.group_norm", "@img4", "@b4", "@alpha", num_groups=4, eps=1e-3, tol=1e-4)
    C("npx.instance_norm", "@img2", "@g2", "@b2", eps=1e-3, tol=1e-4)
    C("npx.norm", "@x")
    C("npx.norm", "@x", ord=1, axis=1)
    C("npx.norm", "@x3", ord=2, axis=(1, 2), keepdims=True)
    C("npx.dropout", "@x", p=0.5)
    C("npx.dropout", "@x", p=0.0, training=True)
    C("npx.dropout", "@i", p=0.5, fails=True)


def activation():
    for t in ("relu", "sigmoid", "tanh", "softrelu", "softsign", "log_sigmoid", "mish"):
        C("npx.activation", "@x", act_type=t)
        C("npx.activation", "@big", act_type=t, tol=1e-5)
    C("npx.activation", "@x", act_type="nothing", fails=True)
    for t in ("leaky", "elu", "selu", "gelu"):
        C("npx.leaky_relu", "@x", act_type=t, tol=1e-5)
    C("npx.leaky_relu", "@x", act_type="leaky", slope=0.1)
    C("npx.leaky_relu", "@x", act_type="elu", slope=1.5)
    C("npx.leaky_relu", "@x", "@alpha", act_type="prelu")
    C("npx.leaky_relu", "@bn", "@g3", act_type="prelu")
    C("npx.leaky_relu", "@bn", "@s1", act_type="prelu")
    for f in ("relu", "sigmoid", "erf", "gamma", "gammaln", "digamma", "softsign"):
        C("npx." + f, "@pos", tol=1e-5)
        C("npx." + f, "@d" if f not in ("gamma", "gammaln", "digamma") else "@dpos", tol=1e-5)
    C("npx.relu", "@x")
    C("npx.relu", "@i")
    C("npx.sigmoid", "@big")
    C("npx.erfinv", "@unit", tol=1e-4)
    C("npx.smooth_l1", "@x", scalar=1.0)
    C("npx.smooth_l1", "@x", scalar=2.0)
    for f in ("softmax", "log_softmax"):
        f = "npx." + f
        C(f, "@x")
        C(f, "@x", axis=0)
        C(f, "@x3", axis=1)
        C(f, "@x", temperature=2.0)
        C(f, "@big")
        C(f, "@h", tol=5e-3)
        C(f, "@d")
        C(f, "@x", dtype="float64", grad=False)
    C("npx.softmax", "@x", "@len3", use_length=True)
    C("npx.softmax", "@x3", "@lens24", use_length=True, axis=1)
    C("npx.masked_softmax", "@x", "@mask34", tol=1e-5)
    C("npx.masked_softmax", "@x", "@mask34", temperature=2.0, tol=1e-5)
    C("npx.masked_log_softmax", "@x", "@mask34", grad=False)


def gathering():
    for kwargs in ({}, {"axis": 0}, {"keepdims": True}):
        index = "@irow4" if kwargs.get("axis") == 0 else "@pick3"
        C("npx.pick", "@x", index, **kwargs)
    C("npx.pick", "@x", "@pickf", grad=(0,))
    C("npx.pick", "@x", "@pickf", mode="wrap", grad=(0,))
    for t in ("indices", "value", "mask", "both"):
        C("npx.topk", "@x", k=2, ret_typ=t)
        C("npx.topk", "@x", k=2, ret_typ=t, is_ascend=True)
        C("npx.topk", "@x", k=1, axis=0, ret_typ=t)
    C("npx.topk", "@x", k=3, axis=None)
    C("npx.topk", "@x", k=2, dtype="int32")
    C("npx.topk", "@i", k=2, ret_typ="value")
    C("npx.gather_nd", "@x", "@gnd")
    C("npx.gather_nd", "@x", "@gnd1")
    for f in ("sequence_mask", "sequence_last", "sequence_reverse"):
        f = "npx." + f
        if f != "npx.sequence_last":
            C(f, "@seq")
        C(f, "@seq", "@len2", use_sequence_length=True, grad=(0,))
        if f != "npx.sequence_reverse":
            C(f, "@seqb", "@len2", use_sequence_length=True, axis=1, grad=(0,))
    C("npx.sequence_mask", "@seq", "@len2", use_sequence_length=True, value=-1.5, grad=(0,))
    C("npx.index_add", "@x", "@gnd", "@b3", grad=False)
    C("npx.index_update", "@x", "@gnd", "@b3", grad=False)
    C("npx.nonzero", "@ties")
    C("npx.cast", "@x", dtype="int32")
    C("npx.cast", "@x", dtype="float64")


def shapes():
    for shape in (
        (-1,),
        (-2, -1),
        (-2, -2, -2),
        (2, -4),
        (-5, 4),
        (-4,),
        (-6, 1, 2, -4),
        (-6, -1, 1, -4),
        (-2, -5),
        (-3, -3),
        (6, 4),
        (-1, 4),
        (-2, -6, 3, 1, -2),
    ):
        C("npx.reshape", "@r", shape, fails=shape in ((-3, -3),))
    C("npx.reshape", "@nd5", (-2, -2, -2, -3))
    C("npx.reshape", "@nd5", (-4,), reverse=True)
    C("npx.reshape", "@r", (-2, -1), reverse=True)
    C("npx.reshape", "@r", (5, -1), fails=True)
    C("npx.arange_like", "@x")
    C("npx.arange_like", "@x", axis=1)
    C("npx.arange_like", "@x", axis=0, start=2.0, step=0.5)
    C("npx.arange_like", "@x", repeat=2, fails=False)
    C("npx.arange_like", "@i", axis=-1)
    C("npx.broadcast_like", "@col", "@x", grad=(0,))
    C("npx.broadcast_like", "@col", "@x", lhs_axes=(1,), rhs_axes=(1,), grad=(0,))
    C("npx.reshape_like", "@x", "@mT", grad=(0,))
    C("npx.shape_array", "@x3")
    C("npx.batch_flatten", "@x4")
    C("npx.slice", "@x", begin=(0, 1), end=(2, 4))
    C("npx.slice", "@x", begin=(None, 3), end=(None, None), step=(2, -1))
    C("npx.slice_like", "@x", "@m2", grad=(0,))
    C("npx.slice_like", "@x", "@m2", axes=(1,), grad=(0,))
    C("npx.slice_channel", "@x", num_outputs=2, axis=1)
    C("npx.slice_channel", "@x", num_outputs=3, axis=0, squeeze_axis=True)
    for mode in ("constant", "edge", "reflect"):
        C("npx.pad", "@x4", mode=mode, pad_width=(0, 0, 0, 0, 1, 1, 1, 1))
    C("npx.pad", "@x4", mode="constant", pad_width=(0, 0, 0, 0, 1, 0, 0, 2), constant_value=1.5)
    C("npx.stop_gradient", "@x", grad=False)
    C("npx.add_n", "@x", "@y", "@pos")


def main():
    POOL["ties4"] = onp.array([[[[1, 1, 0], [1, 1, 2], [0, 2, 2]]]], "float32")
    POOL["lens24"] = onp.array([[1, 2, 3, 3], [3, 2, 1, 1]], "int32")
    POOL["irow4"] = onp.array([0, 2, 1, 1], "int32")
    POOL["seqb"] = POOL["seq"].transpose(1, 0, 2).copy()
    for part in (dense, convolution, pooling, normalization, activation, gathering, shapes):
        part()
    C.save("operators_nn.json")


if __name__ == "__main__":
    main()
