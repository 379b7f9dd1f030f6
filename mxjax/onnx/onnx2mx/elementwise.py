"""ONNX's element-wise operators, activations and reductions as rows of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxjax.ops.table import TABLE as ROWS
from mxjax.symbol.node import Entry

from .reader import Lengths, Reader, Step, Value, reads


@reads("Identity")
def identity(r: Reader, s: Step) -> Value:
    return s.value(0)


def _one(row: str) -> Callable[[Reader, Step], Value]:
    def read(r: Reader, s: Step) -> Value:
        return s.make(row, s[0])

    return read


def _operand(s: Step, k: int) -> Any:
    """An input, or the number that it is beside an array of the same float dtype."""
    value = s.value(k)
    if (
        isinstance(value, np.ndarray)
        and value.ndim == 0
        and value.dtype.kind == "f"
        and isinstance(s.value(1 - k), tuple)
    ):
        return float(value)
    return s[k]


def _scalar(s: Step, row: str, a: Any, b: Any) -> Entry:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return s.make(row, a, b)
    pair = ROWS[row].scalars
    assert pair is not None
    right, left = pair
    return (
        s.make(right.name, a, scalar=b) if isinstance(a, tuple) else s.make(left.name, b, scalar=a)
    )


def _two(row: str) -> Callable[[Reader, Step], Value]:
    def read(r: Reader, s: Step) -> Value:
        return _scalar(s, row, *_pair(s))

    return read


# The operators that are rows, as these say.
for _op in ROWS.values():
    _kind = _op.files.from_onnx or _op.files.onnx
    if isinstance(_kind, str) and _kind[0].isupper() and "@" not in _op.name:
        reads(_kind)((_one if _op.n_arrays == 1 else _two)(_op.name))


def _pair(s: Step) -> tuple[Any, Any]:
    """Both inputs; opsets before 7 say from which axis on the second lies along the first."""
    axis = s.attrs.get("axis")
    a, b = _operand(s, 0), _operand(s, 1)
    if axis is not None and isinstance(b, tuple):
        for _ in range(s.ndim(0) - axis % s.ndim(0) - s.ndim(1)):
            b = s.make("expand_dims", b, axis=-1)
    return a, b


@reads("Pow")
def power(r: Reader, s: Step) -> Value:
    return _scalar(s, "power", *_pair(s))


@reads("Div")
def divide(r: Reader, s: Step) -> Value:
    dtype = s.dtype(0)
    if dtype is None or dtype.kind == "f":
        return _scalar(s, "true_divide", *_pair(s))
    # Whole numbers are cut off, as in C.
    made = s.make(
        "true_divide", s.make("cast", s[0], dtype="float64"), s.make("cast", s[1], dtype="float64")
    )
    return s.make("cast", s.make("trunc", made), dtype=dtype.name)


@reads("Mod")
def mod(r: Reader, s: Step) -> Value:
    return s.make("fmod" if s.get("fmod", 0) else "mod", s[0], s[1])


@reads("BitShift")
def shift(r: Reader, s: Step) -> Value:
    return s.make(f"bitwise_{s.get('direction').lower()}_shift", s[0], s[1])


@reads("Max", "Min", "Sum", "Mean")
def several(r: Reader, s: Step) -> Value:
    row = {"Max": "maximum", "Min": "minimum"}.get(s.kind, "add")
    total = s[0]
    for k in range(1, len(s)):
        total = s.make(row, total, s[k])
    return s.make("multiply_scalar", total, scalar=1 / len(s)) if s.kind == "Mean" else total


@reads("IsInf")
def is_inf(r: Reader, s: Step) -> Value:
    down, up = s.get("detect_negative", 1), s.get("detect_positive", 1)
    return s.make("isinf" if down and up else "isneginf" if down else "isposinf", s[0])


@reads("Cast", "CastLike")
def cast(r: Reader, s: Step) -> Value:
    if s.kind == "CastLike":
        to = s.dtype(1)
        if to is None:
            raise s.refused("the dtype is not known")
    else:
        to = r.np_dtype(s.get("to"))
    value = s.value(0)
    if isinstance(value, Lengths) and to.kind == "i":
        return value
    return s.make("cast", s[0], dtype=to.name)


@reads("Clip")
def clip(r: Reader, s: Step) -> Value:
    ends: list[float | None] = []
    for k, name in ((1, "min"), (2, "max")):
        if name in s.attrs:
            ends.append(float(s.attrs[name]))
        elif s.has(k):
            if not isinstance(s.value(k), np.ndarray):
                low = s.make("maximum", s[0], s[1]) if s.has(1) else s[0]
                return s.make("minimum", low, s[2]) if s.has(2) else low
            ends.append(s.numbers(k).item())
        else:
            ends.append(None)
    return s.make("clip", s[0], a_min=ends[0], a_max=ends[1])


@reads("Where")
def where(r: Reader, s: Step) -> Value:
    pair = [_where_number(s, k) for k in (1, 2)]
    if not any(isinstance(x, tuple) for x in pair):
        pair = [s[1], s[2]]
    return s.make("where", s[0], *pair)


def _where_number(s: Step, k: int) -> Any:
    value = s.value(k)
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind == "f":
        return float(value)
    return s[k]


# ---- activations ------------------------------------------------------------------------------------


@reads("LeakyRelu")
def leaky(r: Reader, s: Step) -> Value:
    return s.make("leaky_relu", s[0], act_type="leaky", slope=s.get("alpha", 0.01))


@reads("Elu")
def elu(r: Reader, s: Step) -> Value:
    return s.make("leaky_relu", s[0], act_type="elu", slope=s.get("alpha", 1.0))


@reads("Selu")
def selu(r: Reader, s: Step) -> Value:
    alpha, gamma = s.get("alpha", 1.6732632423543772), s.get("gamma", 1.0507009873554805)
    if abs(alpha - 1.6732632) < 1e-5 and abs(gamma - 1.0507010) < 1e-5:
        return s.make("leaky_relu", s[0], act_type="selu")
    made = s.make("leaky_relu", s[0], act_type="elu", slope=alpha)
    return s.make("multiply_scalar", made, scalar=gamma)


@reads("Celu")
def celu(r: Reader, s: Step) -> Value:
    alpha = s.get("alpha", 1.0)
    inner = s.make("multiply_scalar", s[0], scalar=1 / alpha)
    return s.make(
        "multiply_scalar", s.make("leaky_relu", inner, act_type="elu", slope=1.0), scalar=alpha
    )


@reads("PRelu")
def prelu(r: Reader, s: Step) -> Value:
    """Slopes broadcast as in NumPy: by a choice, since a row's go along the channels, as those of old opsets."""
    if r.opset < 9 and s.shape(1) is not None and s.ndim(1) == 1:
        return s.make("leaky_relu", s[0], s[1], act_type="prelu")
    return s.make(
        "where", s.make("greater_scalar", s[0], scalar=0), s[0], s.make("multiply", s[0], s[1])
    )


@reads("ThresholdedRelu")
def thresholded(r: Reader, s: Step) -> Value:
    return s.make("where", s.make("greater_scalar", s[0], scalar=s.get("alpha", 1.0)), s[0], 0.0)


@reads("Shrink")
def shrink(r: Reader, s: Step) -> Value:
    bias, limit = s.get("bias", 0.0), s.get("lambd", 0.5)
    moved = s.make("subtract", s[0], s.make("multiply_scalar", s.make("sign", s[0]), scalar=bias))
    return s.make("where", s.make("greater_scalar", s.make("abs", s[0]), scalar=limit), moved, 0.0)


@reads("Softplus")
def softplus(r: Reader, s: Step) -> Value:
    return s.make("activation", s[0], act_type="softrelu")


@reads("Mish")
def mish(r: Reader, s: Step) -> Value:
    return s.make("activation", s[0], act_type="mish")


@reads("HardSigmoid")
def hard_sigmoid(r: Reader, s: Step) -> Value:
    return s.make("hard_sigmoid", s[0], alpha=s.get("alpha", 0.2), beta=s.get("beta", 0.5))


@reads("HardSwish")
def hard_swish(r: Reader, s: Step) -> Value:
    return s.make("multiply", s[0], s.make("hard_sigmoid", s[0], alpha=1 / 6, beta=0.5))


@reads("Gelu")
def gelu(r: Reader, s: Step) -> Value:
    return s.make(
        "leaky_relu",
        s[0],
        act_type="gelu_tanh" if s.get("approximate", "none") == "tanh" else "gelu",
    )


@reads("Swish")
def swish(r: Reader, s: Step) -> Value:
    inner = s.make("multiply_scalar", s[0], scalar=s.get("alpha", 1.0))
    return s.make("multiply", s[0], s.make("sigmoid", inner))


@reads("Softmax", "LogSoftmax")
def softmax(r: Reader, s: Step) -> Value:
    row = "softmax" if s.kind == "Softmax" else "log_softmax"
    if r.opset >= 13:
        return s.make(row, s[0], axis=s.get("axis", -1))
    axis, n = s.get("axis", 1), s.ndim()
    if axis % n == n - 1:
        return s.make(row, s[0], axis=-1)
    flat = s.make("reshape@npx", s[0], newshape=_merged(axis % n, n))
    return s.make("reshape_like", s.make(row, flat, axis=-1), s[0])


def _merged(axis: int, n: int) -> tuple[int, ...]:
    """Codes that make a matrix of an array, from an axis on."""
    if axis == 0:
        return (1, -1)
    first: tuple[int, ...] = (-2,)
    if axis > 1:
        raise ValueError("only the axes 0 and 1 divide an array so")
    return (*first, -1)


@reads("Hardmax")
def hardmax(r: Reader, s: Step) -> Value:
    return s.make("topk", s[0], axis=s.get("axis", -1), k=1, ret_typ="mask")


@reads("Dropout")
def dropout(r: Reader, s: Step) -> list[Value]:
    p = s.get("ratio", 0.5)
    if s.has(1):
        p = float(s.numbers(1, "the ratio"))
    made = s.make("dropout", s[0], p=p)
    return [made, s.make("ones_like", s[0], dtype="bool")] if len(s.node.output) > 1 else [made]


# ---- reductions ----------------------------------------------------------------------------------------


def _reduced(s: Step, row: str, x: Entry) -> Entry:
    axes = s.ints("axes", 1)
    if not axes and s.get("noop_with_empty_axes", 0):
        return x
    axis = None if not axes else tuple(axes) if len(axes) > 1 else axes[0]
    return s.make(row, x, axis=axis, keepdims=bool(s.get("keepdims", 1)))


@reads("ReduceSum", "ReduceProd", "ReduceMean", "ReduceMax", "ReduceMin")
def reduce_plain(r: Reader, s: Step) -> Value:
    row = s.kind.removeprefix("Reduce").lower()
    made = _reduced(s, row, s[0])
    dtype = s.dtype()
    if row in ("sum", "prod", "mean") and dtype is not None and dtype.kind in "iu":
        made = s.make("cast", made, dtype=dtype.name)
    return made


@reads("ReduceSumSquare")
def reduce_sum_square(r: Reader, s: Step) -> Value:
    return _reduced(s, "sum", s.make("square", s[0]))


@reads("ReduceL1")
def reduce_l1(r: Reader, s: Step) -> Value:
    return _reduced(s, "sum", s.make("abs", s[0]))


@reads("ReduceL2")
def reduce_l2(r: Reader, s: Step) -> Value:
    return s.make("sqrt", _reduced(s, "sum", s.make("square", s[0])))


@reads("ReduceLogSum")
def reduce_log_sum(r: Reader, s: Step) -> Value:
    return s.make("log", _reduced(s, "sum", s[0]))


@reads("ReduceLogSumExp")
def reduce_log_sum_exp(r: Reader, s: Step) -> Value:
    return s.make("log", _reduced(s, "sum", s.make("exp", s[0])))


@reads("ArgMax", "ArgMin")
def arg_extreme(r: Reader, s: Step) -> Value:
    if s.get("select_last_index", 0):
        raise s.refused("select_last_index=1")
    return s.make(s.kind.lower(), s[0], axis=s.get("axis", 0), keepdims=bool(s.get("keepdims", 1)))


@reads("CumSum")
def cumsum(r: Reader, s: Step) -> Value:
    axis, x = int(s.numbers(1, "the axis").reshape(())), s[0]
    back = s.get("reverse", 0)
    if back:
        x = s.make("flip", x, axis=axis)
    made = s.make("cumsum", x, axis=axis)
    if s.get("exclusive", 0):
        made = s.make("subtract", made, x)
    return s.make("flip", made, axis=axis) if back else made


# ---- products -----------------------------------------------------------------------------------------------


@reads("MatMul")
def matmul(r: Reader, s: Step) -> Value:
    return s.make("matmul", s[0], s[1])


@reads("Gemm")
def gemm(r: Reader, s: Step) -> Value:
    alpha, beta = s.get("alpha", 1.0), s.get("beta", 1.0)
    x = s.make("transpose", s[0]) if s.get("transA", 0) else s[0]
    weight = s.value(1)
    bias = s.value(2) if s.has(2) else None
    dense = isinstance(weight, np.ndarray) and (
        bias is None or isinstance(bias, np.ndarray) and bias.ndim == 1
    )
    if dense and alpha == 1 and beta == 1:
        assert isinstance(weight, np.ndarray)
        hidden = weight.shape[0] if s.get("transB", 0) else weight.shape[1]
        if bias is None or bias.shape == (hidden,):  # type: ignore[union-attr]
            w = (
                s[1]
                if s.get("transB", 0)
                else s.parameter("weight", np.ascontiguousarray(weight.T))
            )
            given = [x, w] if bias is None else [x, w, s[2]]
            return s.make(
                "fully_connected", *given, num_hidden=hidden, no_bias=bias is None, flatten=False
            )
    y = s.make("transpose", s[1]) if s.get("transB", 0) else s[1]
    made = s.make("matmul", x, y)
    if alpha != 1:
        made = s.make("multiply_scalar", made, scalar=alpha)
    if not s.has(2):
        return made
    third = s[2] if beta == 1 else s.make("multiply_scalar", s[2], scalar=beta)
    return s.make("add", made, third)


@reads("Einsum")
def einsum(r: Reader, s: Step) -> Value:
    return s.make("einsum", *s.entries, subscripts=s.get("equation").replace(" ", ""))


# ---- random ------------------------------------------------------------------------------------------------------


@reads("RandomUniform", "RandomNormal")
def random(r: Reader, s: Step) -> Value:
    dtype = r.np_dtype(s.get("dtype", 1)).name
    if s.kind == "RandomUniform":
        return s.make(
            "_random_uniform",
            low=s.get("low", 0.0),
            high=s.get("high", 1.0),
            shape=tuple(s.get("shape")),
            dtype=dtype,
        )
    return s.make(
        "_random_normal",
        loc=s.get("mean", 0.0),
        scale=s.get("scale", 1.0),
        shape=tuple(s.get("shape")),
        dtype=dtype,
    )


@reads("RandomUniformLike", "RandomNormalLike")
def random_like(r: Reader, s: Step) -> Value:
    if s.kind == "RandomUniformLike":
        return s.make("_uniform_like", s[0], low=s.get("low", 0.0), high=s.get("high", 1.0))
    return s.make("_normal_like", s[0], loc=s.get("mean", 0.0), scale=s.get("scale", 1.0))


@reads("LpNormalization")
def lp_normalization(r: Reader, s: Step) -> Value:
    axis = s.get("axis", -1)
    if s.get("p", 2) == 2:
        size = s.make("sqrt", s.make("sum", s.make("square", s[0]), axis=axis, keepdims=True))
    else:
        size = s.make("sum", s.make("abs", s[0]), axis=axis, keepdims=True)
    return s.make("true_divide", s[0], size)
