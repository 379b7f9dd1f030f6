"""The numbers and functions that `edges.py` records, and tests/ops/test_edges.py asks for."""

EDGES = [
    "nan", "inf", "-inf", 0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -1.5, 2, -2, 2.5, -2.5, 0.49999997, -0.49999997, 0.2, -0.2,
    3, 8388607.5, 8388609, -8388609, 1e30, -1e30, 20, -20, 100, -100, 16777216,
]  # fmt: skip
PAIRS = ["nan", "inf", "-inf", 0.0, -0.0, 1, -1, 0.5, 3, -3, 7.5, -7.5, 1e38, -1e38, 16777217]
UNARY = (
    "sqrt cbrt exp expm1 log log2 log10 log1p arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh degrees "
    "radians sign abs square reciprocal ceil floor trunc fix rint round gamma gammaln erf erfinv digamma relu sigmoid "
    "rsqrt rcbrt"
).split()
BINARY = "mod fmod power maximum minimum fmax fmin hypot arctan2 logaddexp copysign true_divide floor_divide".split()
NUMBERS = [0.5, -0.5, 2, -1, 0, "inf", "-inf", 3]
GRADIENTS = "abs sqrt gamma gammaln square exp log tanh".split()
MATRICES = {
    "eye": [[1, 0], [0, 1]], "zeros": [[0, 0], [0, 0]], "negative": [[-1, 0], [0, -1]], "ones": [[1, 1], [1, 1]],
    "nan": [["nan", 1], [1, 1]], "batch": [[[1, 0], [0, 1]], [[0, 0], [0, 0]]],
}  # fmt: skip
ROWS = [
    [1, "nan", 3, 2], ["nan", 1, 2, 3], [3, 1, 2, "nan"], ["inf", 1, "inf", 2], ["-inf", 1, 3, "-inf"],
    [0.0, -0.0, 0.0, -0.0], [2, 2, 2, 2], [-1, -3, -2, -3],
]  # fmt: skip
SQUARE = [[4 * i + j + 1 for j in range(4)] for i in range(4)]
BEYOND = [3e9, -3e9, 1e30, "nan", "inf", "-inf", 300, -300, -2147483648.0, 1.9, -1.9]
#: label: (function, numbers or shape of zeros, attributes); those of np have no part 1.
CALLS = {
    **{f"{n} along rows": (n, ROWS, {"axis": 1}) for n in (
        "nd.argmax nd.argmin nd.max nd.min nd.sum nd.prod nd.nanprod np.argmax np.argmin np.max np.min np.sum "
        "np.prod np.cumsum np.nansum np.nanmax np.nanmin np.nanprod np.nanargmax np.nanargmin"
    ).split()},
    **{f"{n} of everything": (n, ROWS, {}) for n in "np.argmax np.argmin np.max np.sum np.linalg.norm nd.norm".split()},
    **{f"topk of finite rows, {t}": ("nd.topk", ROWS[6:], {"k": 2, "ret_typ": t}) for t in ("value", "mask")},
    **{f"{n} of no rows": (f"nd.{n}", (0, 3), {"axis": 1}) for n in ("argmax", "argmin", "sum")},
    **{f"{n} of no columns": (f"nd.{n}", (3, 0), {"axis": 0}) for n in ("argmax", "argmin", "sum")},
    "diagonal of nothing": ("nd.diag", (0, 3), {}),
    **{f"triangle {k}": ("nd.linalg.extracttrian", SQUARE, {"offset": k}) for k in (-1, 0, 1)},
    **{f"matrix of triangle {k}": ("nd.linalg.maketrian", [1, 2, 3, 4, 5, 6], {"offset": k}) for k in (-1, 0, 1)},
    "upper triangle": ("nd.linalg.extracttrian", SQUARE, {"lower": False}),
    "matrix of upper triangle": ("nd.linalg.maketrian", [1, 2, 3, 4, 5, 6], {"lower": False}),
    **{f"to {d}": ("nd.cast", BEYOND, {"dtype": d}) for d in ("int8", "uint8", "int32", "int64")},
    "one_hot": ("nd.one_hot", [0, 1, "nan", 3], {"depth": 4}),
    "quadratic": ("nd.contrib.quadratic", ["inf", "-inf", 1, 0], {"a": 1.0, "b": 2.0, "c": 3.0}),
    "round_ste": ("nd.contrib.round_ste", [0.49999997, 0.5, -0.5, -0.49999997, 2.5, 8388609], {}),
}  # fmt: skip


def called(mx, call, numpy):
    """What a call of `CALLS` gives; None where there is no such function."""
    name, given, attrs = call
    fn = mx
    for part in name.split("."):
        fn = getattr(fn, part, None)
    if fn is None:
        return None
    nd = name.startswith("nd")
    values = numpy.zeros(given) if isinstance(given, tuple) else numpy.array(given, "float64")
    with mx.util.np_shape(True), mx.util.np_array(not nd):
        x = (mx.nd if nd else mx.np).array(values.astype("float32"), dtype="float32")
        out = fn(x, **attrs)
        return numpy.asarray(out.asnumpy() if hasattr(out, "asnumpy") else out)
