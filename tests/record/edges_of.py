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
