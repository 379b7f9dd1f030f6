"""Records small shapes of linear algebra, sums in narrow dtypes and gradients of whole numbers, with MXNet 2.0.0b1.

``python operators_linalg.py`` writes ``../data/operators_linalg.json`` in the form ``cases.py`` describes.
"""

import warnings

import mxnet as mx
import numpy as onp
from cases import Recorder

warnings.simplefilter("ignore")
rng = onp.random.RandomState(31)


def drawn(*shape, dtype="float32"):
    return onp.round(rng.uniform(-2, 2, shape), 2).astype(dtype)


def near_one(n):
    return (onp.eye(n) * 2 + rng.uniform(-0.4, 0.4, (n, n))).round(2).astype("float32")


POOL = {
    "m": drawn(3, 2), "wide": drawn(2, 3), "t": drawn(2, 3, 4), "v3": drawn(3), "v2": drawn(2), "c3": drawn(3, 2),
    "square": near_one(3), "six": near_one(6).reshape(6, 2, 3), "split": near_one(6).reshape(2, 3, 6), "v6": drawn(6),
    "four": near_one(12).reshape(3, 4, 2, 3, 2), "v34": drawn(3, 4),
    "one": onp.array([[1.5]], "float32"), "cube": onp.array([[[1.5]]], "float32"), "o": onp.array([3], "float32"),
    "s": onp.array(2.5, "float32"), "low": onp.diag([3.0, 2.0, 0.0]).astype("float32"),
    "tol": onp.array([1.0, 2.5], "float32"),
    "nought": onp.zeros(3, "float32"), "pair": onp.stack([near_one(3)] * 2),
    "h": drawn(24, dtype="float16"), "h2": drawn(5, 3, dtype="float16"),
    "i8": onp.array([[100, 100, 60], [-1, 0, 1]], "int8"), "f3": onp.array([[100.5, 99.5, 60], [-1, 0, 1]], "float32"),
    "a": onp.array([1, 2, -3, 5], "float32"), "b": onp.array([2, 2, 2, 3], "float32"),
    "ai": onp.array([1, 2, -3, 5], "int32"), "bi": onp.array([2, 2, 2, 3], "int32"),
    "nan": onp.array([onp.nan, 1, onp.nan, 2], "float32"), "bool": onp.array([True, False, True]),
}  # fmt: skip


def main():
    case = Recorder(mx, "np", POOL)
    for keepdims in (False, True):
        for axis in (None, 0, -1, (0, 1), (1, 2), (2, 0)):
            case("np.linalg.vector_norm", "@t", axis=axis, keepdims=keepdims, grad=False)
        for order in (1, 3, "inf", "-inf"):
            case("np.linalg.vector_norm", "@t", ord=order, axis=1, keepdims=keepdims, grad=False)
    for a, b, kwargs in (
        ("@six", "@v6", {}), ("@split", "@v6", {"axes": (0, 1)}), ("@four", "@v34", {}), ("@one", "@o", {}),
        ("@cube", "@s", {}), ("@cube", "@cube", {"axes": (2, 0, 1)}), ("@s", "@cube", {}), ("@s", "@s", {}),
    ):  # fmt: skip
        case("np.linalg.tensorsolve", a, b, tol=2e-4, **kwargs)
    for a, b in (
        ("@m", "@v3"),
        ("@m", "@c3"),
        ("@wide", "@v2"),
        ("@square", "@v3"),
        ("@one", "@o"),
    ):
        case("np.linalg.lstsq", a, b, tol=2e-4, grad=False, rcond=None)
    for a in ("@wide", "@one", "@t"):
        case("np.linalg.svdvals", a, tol=1e-4, grad=False)
    for args in (("@low",), ("@low", "@tol"), ("@pair", "@tol"), ("@v3",), ("@nought",), ("@s",)):
        case("np.linalg.matrix_rank", *args, grad=False)
    case("np.linalg.pinv", "@pair", "@tol", tol=1e-3, grad=False)
    for a in ("@s", "@v3"):
        case("np.linalg.matrix_transpose", a, fails=True)
    for a, kwargs in (
        ("@h", {}),
        ("@h2", {"axis": 0}),
        ("@h2", {"axis": 1}),
        ("@h2", {"dtype": "float32"}),
    ):
        case("np.cumsum", a, **kwargs)
    for a in ("@i8", "@f3"):
        for dtype in ("int8", "int32", "float16"):
            case("np.mean", a, axis=1, dtype=dtype)
    for fn in ("fmax", "fmin", "maximum", "minimum", "mod", "fmod"):
        case(f"np.{fn}", "@ai", "@bi")
        if fn != "fmod":  # of negative numbers its gradient is that of mod in MXNet
            case(f"np.{fn}", "@a", "@b")
    for fn in ("fmax", "fmin"):
        case(f"np.{fn}", "@nan", "@a", grad=False)
    for fn in (".copy", "np.tile", "np.cumsum"):
        case(fn, "@bool", *([2] if fn == "np.tile" else []))
    case("np.unravel_index", 13, (3, 4), fails=True)
    case.save("operators_linalg.json")


if __name__ == "__main__":
    main()
