"""Records mx.np: values, dtypes and gradients. Run with Apache MXNet 2.0.0b1: ``python
operators_np.py``.

Writes ``../data/operators_np.json`` in the form ``cases.py`` describes.
"""

import warnings

import mxnet as mx
from cases import Recorder, pool

warnings.simplefilter("ignore")
C = Recorder(mx, "np", pool())

UNARY = """sin cos tan arctan sinh cosh tanh arcsinh exp expm1 square negative abs absolute fabs
sign
degrees radians deg2rad rad2deg floor ceil trunc rint fix cbrt positive"""
POSITIVE = "sqrt log log2 log10 log1p reciprocal"
UNIT = "arcsin arccos arctanh"
BINARY = """add subtract multiply true_divide divide floor_divide mod remainder power maximum
minimum
arctan2 hypot fmod fmax fmin copysign"""
COMPARE = """equal not_equal less less_equal greater greater_equal
logical_and logical_or logical_xor"""


def elementwise():
    for f in UNARY.split():
        C("np." + f, "@x")
    for f in POSITIVE.split():
        C("np." + f, "@pos")
        C("np." + f, "@hpos", tol=2e-3)
    for f in UNIT.split():
        C("np." + f, "@unit")
    C("np.arccosh", "@above")
    for f in "sin exp tanh sign floor abs square".split():
        C("np." + f, "@d")
        C("np." + f, "@h", tol=2e-3)
        C("np." + f, "@x0")
        C("np." + f, "@s")
    for f in "abs sign square negative floor sqrt exp".split():
        C("np." + f, "@j")
    for f in "floor ceil trunc rint fix round around sign".split():
        C("np." + f, "@half", grad=False)
    C("np.around", "@big", 1, grad=False)
    C("np.round", "@big", -1, grad=False)
    for f in "isnan isinf isfinite isposinf isneginf logical_not".split():
        C("np." + f, "@nan")
    C("np.logical_not", "@b")
    for f in ("invert", "bitwise_not"):
        C("np." + f, "@i")
        C("np." + f, "@b")
    C("np.nan_to_num", "@nan", grad=False)
    C("np.nan_to_num", "@nan", True, 1.0, 5.0, -5.0, grad=False)
    C("np.clip", "@x", -0.5, 0.5)
    C("np.clip", "@x", None, 0.5)
    C("np.clip", "@x", -0.5, None)
    C("np.clip", "@i", -2, 2)
    C("np.clip", "@ties", 0, 2)
    C("np.clip", "@x", None, None, fails=True)


def binary():
    for f in BINARY.split():
        b = "@pos" if f in ("power", "mod", "remainder", "floor_divide", "fmod") else "@y"
        a = "@pos2" if f == "power" else "@x"
        # MXNet's fmod differentiates its divisor as mod does.
        grad = (0,) if f == "fmod" else True
        C("np." + f, a, b, grad=grad)
        C("np." + f, a, "@pos" if f == "power" else "@row", grad=grad)
    for f in "add subtract multiply true_divide maximum hypot power".split():
        C("np." + f, "@pos", "@col" if f != "power" else "@pos2")
        C("np." + f, "@col", "@one") if f != "power" else None
        C("np." + f, "@pos", 2)
        C("np." + f, 2.5, "@pos")
        C("np." + f, "@d", 1.5) if f != "power" else C("np." + f, "@dpos", 1.5)
        C("np." + f, "@hpos", 2, tol=2e-3)
        C("np." + f, "@pos", "@s")
        C("np." + f, "@x0", 3.0)
        C("np." + f, "@x20", "@x20")
    for f in "add subtract multiply floor_divide mod power maximum minimum".split():
        C("np." + f, "@i" if f != "power" else "@j", "@j")
        C("np." + f, "@i" if f != "power" else "@j", 2)
    for f in "add multiply true_divide subtract".split():
        C("np." + f, "@i", 1.5)
        C("np." + f, "@i", "@x")
        C("np." + f, "@x", "@d")
        C("np." + f, "@h", "@x", tol=2e-3)
        C("np." + f, "@l", "@h", tol=2e-3)
    for a, b in (("i", "l"), ("i8", "u8"), ("b", "i"), ("b", "b2")):
        C("np.add", "@" + a, "@" + b)
        C("np.multiply", "@" + a, "@" + b)
    C("np.true_divide", "@i", "@j")
    C("np.subtract", "@b", "@b2", fails=True)
    for f in COMPARE.split():
        C("np." + f, "@ties", "@row")
        C("np." + f, "@i", 1)
        C("np." + f, "@i", "@x")
    for f in "bitwise_and bitwise_or bitwise_xor".split():
        C("np." + f, "@i", "@j")
        C("np." + f, "@b", "@b2")
        C("np." + f, "@i", 3)
    C("np.bitwise_left_shift", "@i", "@j")
    C("np.bitwise_right_shift", "@i", 1)
    C("np.lcm", "@j", "@irow")
    C("np.gcd", "@j", "@irow")
    C("np.ldexp", "@x", 2)
    for f in ("maximum", "minimum"):
        C("np." + f, "@ties", 1.0)
        C("np." + f, "@ties", "@ties")
    C("np.add", "@x", "@mT", fails=True)
    for f in (
        "__add__",
        "__sub__",
        "__mul__",
        "__truediv__",
        "__radd__",
        "__rsub__",
        "__rmul__",
        "__rtruediv__",
        "__mod__",
        "__floordiv__",
        "__rpow__",
        "__rmod__",
        "__rfloordiv__",
    ):
        C("." + f, "@pos", 3)
    C(".__pow__", "@pos", 2.5)
    C(".__pow__", "@x", 2)
    C(".__pow__", "@j", 2)
    C(".__neg__", "@x")
    C(".__abs__", "@x")
    C(".__invert__", "@b")
    for f in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
        C("." + f, "@ties", 1)
    for f in ("__and__", "__or__", "__xor__"):
        C("." + f, "@i", "@j")
    C("np.where", "@b", "@x", "@y")
    C("np.where", "@bcol", "@x", "@row")
    C("np.where", "@b", "@x", 0.5)
    C("np.where", "@b", 2, "@x")
    C("np.where", "@b", 1, 2)
    C("np.where", "@x", "@x", "@y", grad=(1, 2))
    C("np.where", "@b", "@i", 7)


def integers():
    """Functions of floats and of 64-bit integers, on bool arrays and integers."""
    for x in ("@b", "@i", "@i8", "@u8", "@l"):
        for f in "arctan2 hypot logaddexp copysign ldexp fmod".split():
            for number in (2, -3, 1.5, True):
                C("np." + f, x, number)
            for number in (2, 1.5):
                C("np." + f, number, x)
        for f in "nansum nanprod nancumsum nancumprod nanstd nanvar".split():
            C("np." + f, x, axis=1)
        for order in (1, 2):
            C("npx.norm", x, ord=order, axis=1)
        C("np.float_power", x, 2)
        C("np.float_power", "@j", x)
    for f in ("copysign", "ldexp"):
        C("np." + f, "@i", "@j")
        C("np." + f, "@i8", "@i8")
        C("np." + f, "@b", "@b2", fails=True)
    for scalar in (0.5, 1.0, 2.0):
        C("npx.smooth_l1", "@i", scalar=scalar)
        C("npx.smooth_l1", "@u8", scalar=scalar)
    C("npx.smooth_l1", "@b", fails=True)
    C("np.floor_divide", "@b", "@yes")
    C("np.power", "@b", "@b2")
    for f in ("arctan2", "hypot", "logaddexp"):
        C("np." + f, "@i", "@j", fails=True)


def reductions():
    for f in "sum mean prod max min amax amin".split():
        C("np." + f, "@x")
        C("np." + f, "@x", 0)
        C("np." + f, "@x", axis=-1, keepdims=True)
        C("np." + f, "@x3", axis=(0, 2))
        C("np." + f, "@x3", axis=(-1, 0), keepdims=True)
        C("np." + f, "@i")
        C("np." + f, "@i", axis=1)
        C("np." + f, "@d", axis=0)
        C("np." + f, "@h", axis=0, tol=5e-3)
        C("np." + f, "@s")
        C("np." + f, "@b")
        if f in ("sum", "prod"):
            C("np." + f, "@x0")
            C("np." + f, "@x0", axis=0)
            C("np." + f, "@x", dtype="float64")
            C("np." + f, "@i", dtype="float32")
            C("np." + f, "@u8")
    C("np.mean", "@i", dtype="float64")
    C("np.sum", "@x20", axis=1)
    C("np.sum", "@x", axis=2, fails=True)
    C("np.max", "@ties", axis=1)
    C("np.min", "@ties")
    C("np.max", "@nan", grad=False)
    C("np.max", "@x0", fails=True)
    for f in ("std", "var"):
        C("np." + f, "@x", grad=False)
        C("np." + f, "@x", axis=1, ddof=1, grad=False)
        C("np." + f, "@x3", axis=(0, 2), keepdims=True, grad=False)
        C("np." + f, "@d", axis=0, grad=False)
    for f in ("argmax", "argmin"):
        C("np." + f, "@x")
        C("np." + f, "@ties", axis=1)
        C("np." + f, "@x3", axis=-2)
        C("np." + f, "@x3", axis=1, keepdims=True)
        C("np." + f, "@i", axis=0)
    for f in ("any", "all"):
        C("np." + f, "@b")
        C("np." + f, "@b", axis=1)
        C("np." + f, "@ties", axis=0, keepdims=True)
        C("np." + f, "@x0")
    C("np.cumsum", "@x")
    C("np.cumsum", "@x", axis=1)
    C("np.cumsum", "@i", axis=0)
    C("np.cumsum", "@i", dtype="float32")
    C("np.average", "@x")
    C("np.average", "@x", axis=1, weights="@pos", grad=False)
    C("np.average", "@x", axis=1, weights="@row", returned=True, grad=False)
    for f in ("median",):
        C("np." + f, "@x", grad=False)
        C("np." + f, "@x", axis=1, grad=False)
    for q in (0, 30, 100):
        C("np.percentile", "@x", q, grad=False)
    C("np.percentile", "@x", 40, axis=0, interpolation="lower", grad=False)
    C("np.quantile", "@x", 0.25, axis=1, keepdims=True, grad=False)
    C("np.count_nonzero", "@ties", grad=False)
    C("np.nansum", "@nan", grad=False)
    C("np.ptp", "@x", grad=False)
    C("np.bincount", "@irow")
    C("np.bincount", "@irow", weights="@row", minlength=6, grad=False)
    C("np.histogram", "@x", 4, (-2.0, 2.0), grad=False)


def linear():
    C("np.dot", "@v", "@w")
    C("np.dot", "@x", "@mT")
    C("np.dot", "@x", "@row")
    C("np.dot", "@x3", "@mT")
    C("np.dot", "@x3", "@z3", tol=1e-5)
    C("np.dot", "@d", "@d", fails=True)
    C("np.matmul", "@x", "@mT")
    C("np.matmul", "@x3", "@z3")
    C("np.matmul", "@x3", "@mT")
    C("np.matmul", "@x", "@row")
    C("np.matmul", "@v", "@w")
    C("np.matmul", "@x", "@y", fails=True)
    C(".__matmul__", "@x", "@mT")
    C("np.inner", "@x", "@y")
    C("np.outer", "@v", "@row")
    C("np.vdot", "@x", "@y")
    C("np.tensordot", "@x3", "@mT", 1)
    C("np.tensordot", "@x3", "@y3", axes=((0, 2), (0, 2)))
    C("np.tensordot", "@x", "@y", 2)
    C("np.einsum", "ij,jk->ik", "@x", "@mT")
    C("np.einsum", "bij,bjk->bik", "@x3", "@z3")
    C("np.einsum", "ij->ji", "@x")
    C("np.einsum", "ii", "@m")
    C("np.einsum", "ij,ij->i", "@i", "@j")
    C("np.einsum", "...ij,kj->...ik", "@x3", "@x")
    C("np.kron", "@m2", "@x")
    C("np.cross", "@m", "@n")
    C("np.trace", "@m")
    C("np.trace", "@x3", 1, 0, 2)
    C("np.diag", "@row")
    C("np.diag", "@m", 1)
    C("np.diagonal", "@x3", 0, 1, 2)
    C("np.diagflat", "@m2")
    for f in ("tril", "triu"):
        C("np." + f, "@x")
        C("np." + f, "@x3", 1)
    C("np.linalg.norm", "@x")
    for order in (None, 1, 2, float(0), 3):
        C("np.linalg.norm", "@v", order, grad=order in (None, 2))
    C("np.linalg.norm", "@x", axis=1)
    C("np.linalg.norm", "@x", axis=1, keepdims=True)
    C("np.linalg.norm", "@x", "fro")
    C("np.linalg.norm", "@x", 1, grad=False)
    C("np.linalg.norm", "@x3", axis=(1, 2))
    C("np.linalg.inv", "@inv")
    C("np.linalg.det", "@inv")
    C("np.linalg.slogdet", "@inv")
    C("np.linalg.cholesky", "@spd")
    C("np.linalg.solve", "@inv", "@m")
    C("np.linalg.eigvalsh", "@spd", grad=False)
    C("np.linalg.matrix_rank", "@m", grad=False)


def shapes():
    C("np.reshape", "@x", (4, 3))
    C("np.reshape", "@x", (-1,))
    C("np.reshape", "@x3", (2, -1))
    C("np.reshape", "@x3", -1)
    C("np.reshape", "@x0", (3, 0))
    C("np.reshape", "@x", (5, 3), fails=True)
    C(".reshape", "@x", 2, -1)
    C(".reshape", "@x", (2, 6))
    C("np.transpose", "@x3")
    C("np.transpose", "@x3", (1, 2, 0))
    C("np.transpose", "@x3", (0, -1, 1))
    C(".transpose", "@x3", 2, 0, 1)
    C("np.swapaxes", "@x3", 0, 2)
    C("np.swapaxes", "@x3", -1, 1)
    C("np.moveaxis", "@x3", 0, -1)
    C("np.moveaxis", "@x3", (0, 1), (2, 0))
    C("np.rollaxis", "@x3", 2)
    C("np.expand_dims", "@x", 0)
    C("np.expand_dims", "@x", -1)
    C("np.squeeze", "@one")
    C("np.squeeze", "@col", axis=-1)
    C("np.squeeze", "@x", axis=0, fails=True)
    C("np.ravel", "@x3")
    C(".flatten", "@x3")
    C("np.broadcast_to", "@row", (3, 4))
    C("np.broadcast_to", "@col", (2, 3, 4))
    C("np.broadcast_to", "@s", (2, 2))
    C("np.concatenate", ["@x", "@y"])
    C("np.concatenate", ["@x", "@y"], 1)
    C("np.concatenate", ("@x3", "@y3"), axis=-1)
    C("np.concatenate", ["@x", "@y"], axis=None)
    C("np.concatenate", ["@i", "@j"])
    C("np.concatenate", ["@x", "@m"], axis=0, fails=True)
    C("np.stack", ["@x", "@y"])
    C("np.stack", ["@x", "@y"], axis=-1)
    C("np.stack", ("@x", "@y", "@pos"), 1)
    for f in ("vstack", "hstack", "dstack", "column_stack"):
        C("np." + f, ["@x", "@y"])
        C("np." + f, ["@v", "@w"])
    C("np.split", "@x", 2, 1)
    C("np.split", "@x3", [1, 2], axis=1)
    C("np.split", "@x", 3)
    C("np.split", "@x", 5, fails=True)
    C("np.array_split", "@v", 3)
    C("np.hsplit", "@x", 2)
    C("np.vsplit", "@x", 3)
    C("np.dsplit", "@x3", 2)
    C("np.tile", "@x", 2)
    C("np.tile", "@x", (2, 1, 2))
    C("np.repeat", "@x", 2, grad=False)
    C("np.repeat", "@x", 2, axis=1, grad=False)
    C("np.repeat", "@x", 3, axis=0, grad=False)
    C("np.flip", "@x")
    C("np.flip", "@x", 1)
    C("np.flip", "@x3", (0, 2))
    C("np.flipud", "@x")
    C("np.fliplr", "@x")
    C("np.roll", "@x", 2)
    C("np.roll", "@x", -1, axis=1)
    C("np.roll", "@x", (1, 2), axis=(0, 1))
    C("np.rot90", "@x", grad=False)  # a wrong gradient in MXNet
    C("np.rot90", "@x", 2)
    C("np.atleast_1d", "@s", grad=False)
    C("np.atleast_2d", "@v", grad=False)
    C("np.atleast_3d", "@x", grad=False)
    for mode in ("constant", "edge", "reflect", "symmetric"):
        C("np.pad", "@x", ((1, 2), (2, 1)), mode=mode, grad=mode == "constant")
    C("np.pad", "@x", ((0, 0), (1, 1)), mode="constant", constant_values=1.5)
    C("np.diff", "@x")
    C("np.diff", "@x", n=2, axis=0)
    C("np.ediff1d", "@v")
    C("np.meshgrid", "@v", "@row", grad=False)
    C("np.meshgrid", "@v", "@row", indexing="ij", grad=False)
    C("np.copy", "@x")
    C("np.append", "@x", "@y")
    C("np.append", "@x", "@y", axis=1)
    C("np.resize", "@v", (2, 4), grad=False)
    C("np.shape", "@x", grad=False)
    C("np.size", "@x", grad=False)
    C("np.ndim", "@x", grad=False)


def gathering():
    C("np.take", "@x", "@idx", axis=0)
    C("np.take", "@x", "@idx", axis=1, mode="clip")
    C("np.take", "@v", "@idx")
    C("np.take", "@x", "@far", axis=0, mode="clip")
    C("np.take", "@x", "@far", axis=0, mode="wrap")
    C("np.take", "@x", "@idxf", axis=0)
    C("np.sort", "@x")
    C("np.sort", "@x", axis=0)
    C("np.sort", "@x", axis=None)
    C("np.sort", "@i", axis=1)
    C("np.argsort", "@x")
    C("np.argsort", "@x", axis=0)
    C("np.unique", "@ties", grad=False)
    C("np.unique", "@i", True, True, True)
    C("np.nonzero", "@b")
    C("np.flatnonzero", "@b")
    C("np.argwhere", "@b")
    C("np.insert", "@v", 1, 9.0, grad=False)
    C("np.delete", "@v", 1, grad=False)
    C("np.unravel_index", "@irow", (2, 3))
    C("np.interp", "@row", "@v", "@w", grad=False)
    C("np.polyval", "@v", "@x")
    C("np.isclose", "@x", "@x", grad=False)
    C("np.allclose", "@x", "@x", grad=False)
    C("np.array_equal", "@x", "@x", grad=False)
    C("np.isin", "@i", "@irow")
    for index in (
        1,
        -1,
        slice(0, 2),
        slice(None, None, -1),
        (slice(None), 1),
        (0, 1),
        None,
        (slice(None), slice(1, 4, 2)),
        [0, 2],
        ([0, 1], [1, 2]),
    ):
        C(".__getitem__", "@x", index)
    C(".__getitem__", "@x", "@idx")
    C(".__getitem__", "@x", "@b")


def creation():
    C("np.zeros", (2, 3))
    C("np.zeros", 3)
    C("np.zeros", (2, 0), dtype="int32")
    C("np.ones", (2, 3), dtype="float64")
    C("np.full", (2, 2), 7)
    C("np.full", (2, 2), 1.5)
    C("np.full", (2, 2), 3, dtype="float16")
    C("np.full", (2,), True)
    for f in ("zeros_like", "ones_like"):
        C("np." + f, "@x")
        C("np." + f, "@i")
        C("np." + f, "@i", dtype="float64")
    C("np.full_like", "@x", 2)
    C("np.full_like", "@i", 2.7)
    C("np.arange", 5)
    C("np.arange", 1, 9, 2)
    C("np.arange", 0.5, 3)
    C("np.arange", 5, 0, -1, dtype="int32")
    C("np.arange", 3, 0)
    C("np.arange", 4, dtype="int64")
    C("np.linspace", 0, 1, 5)
    C("np.linspace", 0, 1, 5, endpoint=False)
    C("np.linspace", 1, 10, 4, dtype="int32")
    C("np.linspace", 0, 1)
    C("np.logspace", 0, 2, 3)
    C("np.eye", 3)
    C("np.eye", 3, 4, 1, dtype="int32")
    C("np.eye", 3, k=-1)
    C("np.identity", 3)
    C("np.tri", 3)
    C("np.tri", 3, 4, 1)
    C("np.indices", (2, 3))
    C("np.hanning", 5, tol=1e-5)
    C("np.hamming", 5, tol=1e-5)
    C("np.blackman", 5, tol=1e-5)
    C("np.tril_indices", 3)
    C("np.array", [1, 2, 3])
    C("np.array", [[1.5, 2], [3, 4]])
    C("np.array", [True, False])
    C("np.array", [1, 2], dtype="int32")
    C("np.array", 3)
    C("np.array", [])
    C("np.array", [300, -1], dtype="int16")
    C("np.array", "@i")
    C("np.array", ["@v", "@w"], grad=False)
    for t in ("float32", "float64", "float16", "int32", "int64", "uint8", "int8", "bool"):
        C(".astype", "@big", t, grad=t.startswith("float"), tol=2e-3 if t == "float16" else None)
        C(".astype", "@i", t)
        C(".astype", "@b", t)


def methods():
    for f in """sum mean max min argmax argmin std var cumsum copy flatten squeeze round any
            all""".split():
        C("." + f, "@x", grad=f not in ("std", "var", "round", "any", "all"))
    C(".sum", "@x3", axis=(0, 1), keepdims=True)
    C(".mean", "@x3", axis=1)
    C(".max", "@x3", axis=-1)
    C(".dot", "@x", "@mT")
    C(".swapaxes", "@x", 0, 1)
    C(".repeat", "@x", 2, axis=0, grad=False)
    C(".tile", "@x", (1, 2))
    C(".take", "@x", "@idx", axis=0)
    C(".clip", "@x", -0.5, 0.5)
    C(".broadcast_to", "@row", (3, 4))
    C(".sort", "@x", axis=0)
    C(".argsort", "@x")
    C(".nonzero", "@b")
    C(".tolist", "@i")
    C(".item", "@s", grad=False)


def main():
    for part in (
        elementwise,
        binary,
        integers,
        reductions,
        linear,
        shapes,
        gathering,
        creation,
        methods,
    ):
        part()
    C.save("operators_np.json")


if __name__ == "__main__":
    main()
