"""Records mx.nd: legacy operators and their own rules. Run with MXNet 2.0.0b1: ``python
operators_nd.py``.

Writes ``../data/operators_nd.json`` in the form ``cases.py`` describes.
"""

import warnings

import mxnet as mx
import numpy as onp
from cases import Recorder, pool

warnings.simplefilter("ignore")
POOL = pool()
rng = onp.random.RandomState(19)
SHAPES = """x2d:2,3 w53:5,3 b5:5 img2:2,2,6,5 k2:3,2,3,3 b3:3 g3:3 bn:4,3,2,1 emb:5,3 r:2,3,4
seq:4,2,3
sp:1,4,2,2 sp2:1,1,4,4 g2:2 b2:2 bd1:2,3,4 bd2:2,4,5"""
for _item in SHAPES.split():
    _name, _, _shape = _item.partition(":")
    _shape = tuple(map(int, _shape.split(",")))
    POOL[_name] = onp.round(rng.normal(size=_shape), 2).astype("float32")
POOL.update(
    {
        "var3": onp.array([0.5, 1.5, 2.0], "float32"),
        "mean3": onp.array([0.1, -0.2, 0.3], "float32"),
        "ids": onp.array([[0, 4], [2, 2]], "float32"),
        "lab3": onp.array([1, 3, 0], "float32"),
        "labm": onp.array([1, -1, 0], "float32"),
        "far3": onp.array([1, 7, -1], "float32"),
        "gnd": onp.array([[0, 2, 1], [1, 3, 0]], "float32"),
        "len2": onp.array([2, 3], "float32"),
        "c34": onp.array([[1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 0, 1]], "float32"),
        "c3": onp.array([1, 0, 1], "float32"),
        "alpha": onp.array([0.1, 0.2, 0.3, 0.4], "float32"),
        "lab34": onp.array([[1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 0, 1]], "float32"),
    }
)
C = Recorder(mx, "nd", POOL)


def elementwise():
    for f in """sin cos tan arctan sinh cosh tanh arcsinh exp expm1 square abs sign floor ceil
    trunc rint
            fix cbrt negative degrees radians relu sigmoid erf softsign log_sigmoid mish
            hard_sigmoid zeros_like ones_like BlockGrad identity make_loss stop_gradient""".split():
        C("nd." + f, "@x", tol=1e-5)
    for f in "sqrt rsqrt log log2 log10 log1p reciprocal rcbrt gamma gammaln digamma".split():
        C("nd." + f, "@pos", tol=1e-5)
    for f in "arcsin arccos arctanh erfinv".split():
        C("nd." + f, "@unit", tol=1e-4)
    C("nd.arccosh", "@above", tol=1e-5)
    for f in "round rint fix floor ceil trunc".split():
        C("nd." + f, "@half", grad=False)
    for f in "sqrt exp floor abs square".split():
        C("nd." + f, "@j", grad=False)
    C("nd.logical_not", "@ties")
    C("nd.clip", "@x", -0.5, 0.5)
    C("nd.clip", "@x", a_min=-0.5, a_max=0.5)
    C("nd.smooth_l1", "@x", scalar=1.0)
    for t in ("float32", "float64", "float16", "int32", "int64", "uint8", "int8"):
        C("nd.cast", "@x", dtype=t, grad=False, tol=2e-3)
        C(".astype", "@i", t)
    C("nd.Cast", "@x", dtype="float64")


def binary():
    for f in (
        "add",
        "subtract",
        "multiply",
        "divide",
        "maximum",
        "minimum",
        "broadcast_add",
        "broadcast_sub",
        "broadcast_mul",
        "broadcast_div",
        "broadcast_maximum",
        "broadcast_minimum",
        "broadcast_hypot",
        "broadcast_plus",
        "broadcast_minus",
    ):
        C("nd." + f, "@x", "@y")
        C("nd." + f, "@x", "@one")
        C("nd." + f, "@x", "@col")
        C("nd." + f, "@d", "@d")
    for f in ("power", "broadcast_power", "modulo", "broadcast_mod"):
        C("nd." + f, "@pos", "@pos2")
    for f in "add multiply divide maximum power subtract minimum modulo".split():
        C("nd." + f, "@pos", 2)
        C("nd." + f, 2.5, "@pos")
        C("nd." + f, "@j", 2, grad=False)
    for f in ("elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div"):
        C("nd." + f, "@x", "@pos")
        C("nd." + f, "@x", "@one", fails=True)
    C("nd.add", "@x", "@i", fails=True)
    C("nd.add", "@x", "@mT", fails=True)
    for f in "equal not_equal greater greater_equal lesser lesser_equal".split():
        C("nd." + f, "@ties", "@one")
        C("nd.broadcast_" + f, "@ties", "@ties")
        C("nd." + f, "@ties", 1)
        C("nd." + f, "@i", "@j")
    for f in "logical_and logical_or logical_xor".split():
        C("nd." + f, "@ties", "@c34")
        C("nd.broadcast_" + f, "@ties", "@c34")
    C("nd.add_n", "@x", "@y", "@pos")
    C("nd.ElementWiseSum", "@x", "@y")
    C("nd.maximum", "@ties", "@ties")
    C("nd.maximum", "@ties", 1)
    for f in (
        "__add__",
        "__sub__",
        "__mul__",
        "__truediv__",
        "__radd__",
        "__rsub__",
        "__rtruediv__",
        "__mod__",
        "__rmod__",
        "__pow__",
        "__rpow__",
    ):
        C("." + f, "@pos", 3)
        C("." + f, "@j", 3, grad=False)
    C(".__add__", "@j", 1.7, grad=False)
    C(".__mul__", "@j", 1.7, grad=False)
    C(".__truediv__", "@j", 2, grad=False)
    for f in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
        C("." + f, "@ties", 1)
        C("." + f, "@x", "@y")
    C("nd.where", "@c34", "@x", "@y", grad=(1, 2))
    C("nd.where", "@c3", "@x", "@pos", grad=(1, 2), fails=False)


def reductions():
    for f in "sum mean prod max min nansum nanprod".split():
        C("nd." + f, "@x")
        C("nd." + f, "@x", axis=1)
        C("nd." + f, "@x", axis=-1, keepdims=True)
        C("nd." + f, "@r", axis=(0, 2))
        C("nd." + f, "@r", axis=1, exclude=True)
        C("nd." + f, "@i", grad=False)
    C("nd.max", "@ties", axis=1)
    for f in ("sum_axis", "max_axis", "min_axis"):
        C("nd." + f, "@x", axis=0)
    for order in (1, 2):
        C("nd.norm", "@x", ord=order)
        C("nd.norm", "@x", ord=order, axis=1)
        C("nd.norm", "@r", ord=order, axis=(1, 2), keepdims=True)
    for f in ("argmax", "argmin"):
        C("nd." + f, "@x", axis=1)
        C("nd." + f, "@ties", axis=0)
        C("nd." + f, "@x", axis=1, keepdims=True)
        C("nd." + f, "@x")
    C("nd.argmax_channel", "@x", grad=False)
    C("nd.cumsum", "@x", axis=1)
    C("nd.moments", "@x", axes=(0,), tol=1e-5, grad=False)
    C("nd.topk", "@x", k=2)
    C("nd.topk", "@x", k=2, ret_typ="both")
    C("nd.topk", "@x", k=2, ret_typ="value", is_ascend=True)
    C("nd.topk", "@x", k=2, ret_typ="mask", axis=0)
    C("nd.sort", "@x", grad=False)
    C("nd.sort", "@x", axis=0, is_ascend=False)
    C("nd.argsort", "@x")
    C("nd.argsort", "@x", axis=0, is_ascend=False, dtype="int32")
    for f in "sum mean max min prod norm argmax".split():
        C("." + f, "@x")
        C("." + f, "@x", axis=1)


def integers():
    """Bool arrays beside numbers, and what keeps the dtype of integers."""
    for number in (2, -3, 1.7, True):
        for f in "add radd sub rsub mul rmul truediv mod rmod rpow eq ne lt le gt ge".split():
            C(f".__{f}__", "@b", number)
        C(".__rtruediv__", "@yes", number)
    C(".__pow__", "@b", 2)
    for f in "maximum minimum logical_and logical_or logical_xor".split():
        C("nd." + f, "@b", 2)
        C("nd." + f, 1.7, "@b")
    for x in ("@b", "@i8", "@l"):
        for f in "sum prod max min nansum nanprod sum_axis".split():
            C("nd." + f, x)
            C("nd." + f, x, axis=1)
        for order in (1, 2):
            C("nd.norm", x, ord=order, axis=1)
    for f in ("mean", "norm"):
        C("nd." + f, "@b", axis=0)
    for x in ("@i", "@i8", "@u8", "@l"):
        C("nd.broadcast_hypot", x, x)
        C("nd.smooth_l1", x, scalar=1.0)
        for f in ("argmax", "argmin"):
            C("nd." + f, x)
            C("nd." + f, x, axis=1, keepdims=True)
        C("nd.argmax_channel", x)
    for f in "argmax argmin argmax_channel smooth_l1".split():
        C("nd." + f, "@b", fails=True)
    for f in "gamma gammaln digamma erf sigmoid".split():
        C("nd." + f, "@j")


def shapes():
    for shape in (
        (4, 6),
        (-1,),
        (0, -1),
        (0, 0, -1),
        (-2,),
        (0, -2),
        (-3, 4),
        (0, -3),
        (-4, 1, 2, -2),
        (2, -4, -1, 3, 4),
        (-3, 0),
        (2, -4, 3, 1, 4),
        (-1, 0),
    ):
        C("nd.reshape", "@r", shape=shape)
        C(".reshape", "@r", shape)
    for shape in ((-1, 0), (0, -1), (6, 0)):
        C("nd.reshape", "@r", shape=shape, reverse=True)
    C("nd.reshape", "@r", shape=(5, -1), fails=True)
    C("nd.Reshape", "@r", shape=(0, -1))
    C("nd.transpose", "@r")
    C("nd.transpose", "@r", axes=(1, 0, 2))
    C("nd.swapaxes", "@r", 0, 2)
    C("nd.SwapAxis", "@r", dim1=1, dim2=2)
    C("nd.expand_dims", "@x", axis=1)
    C("nd.squeeze", "@one")
    C("nd.squeeze", "@bn", axis=3)
    C("nd.flatten", "@r")
    C("nd.Flatten", "@bn")
    C("nd.concat", "@x", "@y", dim=1)
    C("nd.concat", "@x", "@y")
    C("nd.Concat", "@x", "@y", dim=0)
    C("nd.concat", "@x", "@m", dim=0, fails=True)
    C("nd.stack", "@x", "@y")
    C("nd.stack", "@x", "@y", axis=1)
    C("nd.split", "@x", num_outputs=2, axis=1)
    C("nd.split", "@r", num_outputs=3, axis=1, squeeze_axis=True)
    C("nd.SliceChannel", "@x", num_outputs=3, axis=0)
    C("nd.split_v2", "@x", 2, axis=1)
    C("nd.split_v2", "@x", (1, 3), axis=1)
    C("nd.slice", "@x", begin=(0, 1), end=(2, 4))
    C("nd.slice", "@x", begin=(None, -1), end=(None, 0), step=(2, -1))
    C("nd.slice_axis", "@x", axis=1, begin=1, end=3)
    C("nd.slice_axis", "@x", axis=-1, begin=-2, end=None)
    C("nd.slice_like", "@x", "@m2", grad=(0,))
    C("nd.slice_like", "@x", "@m2", axes=(1,), grad=(0,))
    C("nd.tile", "@x", reps=(2, 1))
    C("nd.repeat", "@x", repeats=2, axis=1)
    C("nd.repeat", "@x", repeats=2)
    C("nd.flip", "@x", axis=1)
    C("nd.reverse", "@x", axis=0)
    for mode in ("constant", "edge", "reflect"):
        C("nd.pad", "@img2", mode=mode, pad_width=(0, 0, 0, 0, 1, 2, 2, 1))
    C("nd.Pad", "@img2", mode="constant", pad_width=(0, 0, 0, 0, 1, 0, 0, 1), constant_value=2.0)
    C("nd.broadcast_to", "@one", shape=(3, 4))
    C("nd.broadcast_to", "@one", shape=(3, 0))
    C("nd.broadcast_axis", "@one", axis=0, size=3)
    C("nd.broadcast_like", "@one", "@x", grad=(0,))
    C("nd.reshape_like", "@x", "@mT", grad=(0,))
    C("nd.shape_array", "@x")
    C("nd.size_array", "@x")
    C("nd.diag", "@x")
    C("nd.diag", "@v", k=1)
    C("nd.depth_to_space", "@sp", block_size=2)
    C("nd.space_to_depth", "@sp2", block_size=2)
    C("nd.moveaxis", "@r", 0, 2)


def linear():
    C("nd.dot", "@x", "@mT")
    C("nd.dot", "@x", "@y", transpose_b=True)
    C("nd.dot", "@x", "@y", transpose_a=True)
    C("nd.dot", "@v", "@w")
    C("nd.dot", "@r", "@mT")
    C("nd.dot", "@x", "@y", fails=True)
    C("nd.batch_dot", "@bd1", "@bd2")
    C("nd.batch_dot", "@bd1", "@bd1", transpose_b=True)
    C("nd.linalg_gemm2", "@x", "@mT", alpha=2.0)
    C("nd.linalg_potrf", "@spd", grad=False)
    C("nd.L2Normalization", "@x", tol=1e-5)
    C("nd.L2Normalization", "@img2", mode="channel", tol=1e-5)
    C("nd.L2Normalization", "@img2", mode="spatial", tol=1e-5)


def gathering():
    C("nd.take", "@x", "@idx")
    C("nd.take", "@x", "@far3", axis=0, mode="clip", grad=(0,))
    C("nd.take", "@x", "@far3", axis=0, mode="wrap", grad=(0,))
    C("nd.take", "@x", "@idx", axis=1)
    C("nd.pick", "@x", "@lab3", grad=(0,))
    C("nd.pick", "@x", "@far3", mode="wrap", keepdims=True, grad=(0,))
    C("nd.batch_take", "@x", "@idx3", grad=False)
    C("nd.gather_nd", "@x", "@gnd", grad=(0,))
    C("nd.scatter_nd", "@b3", "@gnd", shape=(3, 4), grad=(0,))
    C("nd.one_hot", "@lab3", 5, grad=False)
    C("nd.one_hot", "@lab3", depth=3, on_value=2, off_value=-1, dtype="int32", grad=False)
    C("nd.Embedding", "@ids", "@emb", input_dim=5, output_dim=3, grad=(1,))
    for f in ("SequenceMask", "SequenceReverse"):
        C("nd." + f, "@seq")
    for f in ("SequenceMask", "SequenceReverse", "SequenceLast"):
        C("nd." + f, "@seq", "@len2", use_sequence_length=True, grad=(0,))
    C("nd.SequenceMask", "@seq", "@len2", use_sequence_length=True, value=-1.0, grad=(0,))
    for index in (1, -1, slice(0, 2), (slice(None), 1), (0, 1), None):
        C(".__getitem__", "@x", index)


def neural():
    C("nd.FullyConnected", "@x2d", "@w53", "@b5", num_hidden=5)
    C("nd.FullyConnected", "@x2d", "@w53", num_hidden=5, no_bias=True)
    C("nd.FullyConnected", "@seq", "@w53", "@b5", num_hidden=5, flatten=False)
    C("nd.FullyConnected", "@x2d", "@w53", num_hidden=5, fails=True)
    C(
        "nd.Convolution",
        "@img2",
        "@k2",
        "@b3",
        kernel=(3, 3),
        num_filter=3,
        stride=(2, 2),
        pad=(1, 1),
    )
    C("nd.Convolution", "@img2", "@k2", kernel=(3, 3), num_filter=3, no_bias=True)
    C("nd.Pooling", "@img2", kernel=(2, 2), stride=(2, 2), pool_type="max", training=True)
    C("nd.Pooling", "@img2", kernel=(2, 2), pool_type="avg", global_pool=True, training=True)
    for t in ("relu", "sigmoid", "tanh", "softrelu", "softsign"):
        C("nd.Activation", "@x", act_type=t)
    for t in ("leaky", "elu", "selu", "gelu"):
        C("nd.LeakyReLU", "@x", act_type=t, tol=1e-5)
    C("nd.LeakyReLU", "@x", "@alpha", act_type="prelu")
    for f in ("softmax", "log_softmax", "softmin"):
        C("nd." + f, "@x")
        C("nd." + f, "@x", axis=0)
        C("nd." + f, "@x", temperature=2.0)
    C("nd.SoftmaxActivation", "@x")
    C("nd.SoftmaxActivation", "@img2", mode="channel")
    stats = ("@g3", "@b3", "@mean3", "@var3")
    C("nd.BatchNorm", "@bn", *stats, grad=(0, 1, 2))
    C(
        "nd.BatchNorm",
        "@bn",
        *stats,
        fix_gamma=False,
        training=True,
        check_after=True,
        grad=(0, 1, 2),
        tol=1e-4,
    )
    C("nd.LayerNorm", "@seq", "@g3", "@b3", tol=1e-4)
    C("nd.InstanceNorm", "@img2", "@g2", "@b2", tol=1e-4)
    C("nd.GroupNorm", "@img2", "@g2", "@b2", num_groups=2, tol=1e-4)
    C("nd.LRN", "@img2", nsize=3, tol=1e-5, training=True)
    C("nd.Dropout", "@x", p=0.5)
    C("nd.UpSampling", "@img2", scale=2, sample_type="nearest")
    C("nd.CTCLoss", "@ctc", "@ctcl", tol=1e-4, grad=(0,))


def losses():
    s = "nd.SoftmaxOutput"
    kw = {"grad": (0,), "tol": 1e-5}
    C(s, "@x", "@lab3", **kw)
    C(s, "@x", "@lab3", grad_scale=2.0, **kw)
    C(s, "@x", "@lab3", normalization="batch", **kw)
    C(s, "@x", "@labm", use_ignore=True, ignore_label=-1, **kw)
    C(s, "@x", "@labm", use_ignore=True, ignore_label=-1, normalization="valid", **kw)
    C(s, "@x", "@lab3", out_grad=True, **kw)
    C(s, "@x", "@lab3", smooth_alpha=0.1, **kw)
    C(s, "@x", "@prob", **kw)
    C(s, "@r", "@lab24", multi_output=True, **kw)
    C(s, "@r", "@lab23", preserve_shape=True, **kw)
    C("nd.Softmax", "@x", "@lab3", **kw)
    for f in ("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput"):
        C("nd." + f, "@x", "@lab34", **kw)
        C("nd." + f, "@x", "@lab34", grad_scale=3.0, **kw)
    C("nd.SVMOutput", "@x", "@lab3", **kw)
    C("nd.SVMOutput", "@x", "@lab3", use_linear=True, margin=0.5, **kw)
    C("nd.MakeLoss", "@x")
    C("nd.MakeLoss", "@x", grad_scale=2.0, normalization="batch")
    C("nd.softmax_cross_entropy", "@x", "@lab3", **kw)


def creation():
    C("nd.zeros", (2, 3))
    C("nd.ones", (2, 3), dtype="int32")
    C("nd.full", (2, 2), 3)
    C("nd.arange", 5)
    C("nd.arange", 1, 7, 2, dtype="int32")
    C("nd.arange", 0, 3, repeat=2)
    C("nd.linspace", 0, 1, 5)
    C("nd.eye", 3)
    C("nd.eye", 3, 4, 1)
    C("nd.array", [[1, 2], [3, 4]])
    C("nd.array", [1, 2], dtype="int32")
    C("nd.array", [True, False])
    C("nd.concatenate", ["@x", "@y"], axis=0, grad=False)


def main():
    POOL["idx3"] = onp.array([1, 0, 3], "int32")
    POOL["lab24"] = onp.array([[0, 2, 1, 1], [2, 0, 0, 1]], "float32")
    POOL["lab23"] = onp.array([[0, 2, 1], [3, 0, 1]], "float32")
    p = onp.exp(POOL["y"])
    POOL["prob"] = onp.round(p / p.sum(-1, keepdims=True), 3).astype("float32")
    POOL["ctc"] = onp.round(rng.normal(size=(6, 2, 4)), 2).astype("float32")
    POOL["ctcl"] = onp.array([[1, 2, 0], [3, 1, 2]], "float32")
    for part in (
        elementwise,
        binary,
        reductions,
        integers,
        shapes,
        linear,
        gathering,
        neural,
        losses,
        creation,
    ):
        part()
    C.save("operators_nd.json")


if __name__ == "__main__":
    main()
