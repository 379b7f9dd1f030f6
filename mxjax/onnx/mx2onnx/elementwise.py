"""Element-wise operators, activations and softmax in ONNX's words."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .writer import LOSSES, Name, Step, Writer, writes

# ---- one array -----------------------------------------------------------------------------------


def _number(w: Writer, s: Step, value: float) -> Name:
    return w.constant(value, s.dtype())


def _taken(w: Writer, s: Step) -> Name:
    """The first input in the result's dtype."""
    return w.cast(s[0], s.in_dtype(), s.dtype())


@writes
def same_as(w: Writer, s: Step, kind: str) -> Name:
    """An operator of ONNX that is the row."""
    x = _taken(w, s)
    if kind in ("Ceil", "Floor") and s.dtype().kind != "f":
        return w.op("Identity", x)
    return w.op(kind, x)


@writes
def same(w: Writer, s: Step) -> Name:
    return w.op("Identity", s[0])


@writes
def cast(w: Writer, s: Step) -> Name:
    return (
        w.op("Cast", s[0], to=w.code(s.dtype()))
        if s.in_dtype() != s.dtype()
        else w.op("Identity", s[0])
    )


@writes
def amp_multicast(w: Writer, s: Step) -> list[Name]:
    return [w.op("Cast", s[k], to=w.code(s.dtype(k))) for k in range(len(s))]


@writes
def dropout(w: Writer, s: Step) -> Name:
    """In prediction it does nothing."""
    if s.params.get("mode") == "always" and s.params["p"]:
        raise s.refused("mode='always' draws in prediction too")
    return w.op("Identity", s[0])


def formula(function: Callable[[Writer, Step, Name], Name]) -> Any:
    """The translation of a row of one array that is a formula of it, in the result's dtype."""

    @functools.wraps(function)
    def of_taken(w: Writer, s: Step) -> Name:
        return function(w, s, _taken(w, s))

    writes(of_taken)
    return function


def _signed(w: Writer, x: Name, y: Name) -> Name:
    return w.op("Mul", w.op("Sign", x), y)


@formula
def square(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Mul", x, x)


@formula
def trunc(w: Writer, s: Step, x: Name) -> Name:
    return (
        _signed(w, x, w.op("Floor", w.op("Abs", x)))
        if s.dtype().kind == "f"
        else w.op("Identity", x)
    )


@formula
def round_half_away(w: Writer, s: Step, x: Name) -> Name:
    if s.dtype().kind != "f":
        return w.op("Identity", x)
    return _signed(w, x, w.op("Floor", w.op("Add", w.op("Abs", x), _number(w, s, 0.5))))


@formula
def rint(w: Writer, s: Step, x: Name) -> Name:
    """MXNet's goes down from halves, ONNX's Round to the even neighbour."""
    if s.dtype().kind != "f":
        return w.op("Identity", x)
    low, high = w.op("Floor", x), w.op("Ceil", x)
    nearer = w.op("LessOrEqual", w.op("Sub", x, low), w.op("Sub", high, x))
    return w.op("Where", nearer, low, high)


@formula
def around(w: Writer, s: Step, x: Name) -> Name:
    decimals, dtype = s.params["decimals"], s.dtype()
    if dtype.kind != "f" and decimals >= 0:
        return w.op("Identity", x)
    if decimals == 0:
        return w.op("Round", x)
    wide = dtype if dtype.kind == "f" else np.dtype(np.float64)
    factor = w.constant(10.0 ** abs(decimals), wide)
    there, back = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return w.cast(
        w.op(back, w.op("Round", w.op(there, w.cast(x, dtype, wide), factor)), factor), wide, dtype
    )


@formula
def log2(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Div", w.op("Log", x), _number(w, s, math.log(2)))


@formula
def log10(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Div", w.op("Log", x), _number(w, s, math.log(10)))


@formula
def log1p(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Log", w.op("Add", x, _number(w, s, 1)))


@formula
def expm1(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Sub", w.op("Exp", x), _number(w, s, 1))


@formula
def cbrt(w: Writer, s: Step, x: Name) -> Name:
    return _signed(w, x, w.op("Pow", w.op("Abs", x), _number(w, s, 1 / 3)))


@formula
def rcbrt(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Reciprocal", cbrt(w, s, x))


@formula
def rsqrt(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Reciprocal", w.op("Sqrt", x))


@formula
def degrees(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Mul", x, _number(w, s, 180 / math.pi))


@formula
def radians(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Mul", x, _number(w, s, math.pi / 180))


@formula
def quadratic(w: Writer, s: Step, x: Name) -> Name:
    a, b, c = (_number(w, s, s.params[k]) for k in "abc")
    return w.op("Add", w.op("Mul", x, w.op("Add", w.op("Mul", a, x), b)), c)


@formula
def round_ste(w: Writer, s: Step, x: Name) -> Name:
    return round_half_away(w, s, x)


@formula
def sign_ste(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Sign", x)


@writes
def asked(w: Writer, s: Step, kind: str) -> Name:
    """A question about each number."""
    x = s[0] if s.in_dtype().kind == "f" else w.cast(s[0], s.in_dtype(), np.float32)
    if kind == "finite":
        found = w.op("Not", w.op("Or", w.op("IsNaN", x), w.op("IsInf", x)))
    elif kind == "nan":
        found = w.op("IsNaN", x)
    else:
        sides = {"positive": (0, 1), "negative": (1, 0), "infinite": (1, 1)}[kind]
        x = w.cast(x, s.in_dtype() if s.in_dtype().kind == "f" else np.float32, np.float32)
        found = w.op("IsInf", x, detect_negative=sides[0], detect_positive=sides[1])
    return w.cast(found, bool, s.dtype())


@writes
def nan_to_num(w: Writer, s: Step) -> Name:
    x = _taken(w, s)
    if s.dtype().kind != "f":
        return w.op("Identity", x)
    info = np.finfo(s.dtype())
    high = s.params["posinf"] if s.params["posinf"] is not None else float(info.max)
    low = s.params["neginf"] if s.params["neginf"] is not None else float(info.min)
    for detect, value in (((0, 1), high), ((1, 0), low)):
        where = w.op("IsInf", x, detect_negative=detect[0], detect_positive=detect[1])
        x = w.op("Where", where, _number(w, s, value), x)
    return w.op("Where", w.op("IsNaN", x), _number(w, s, s.params["nan"]), x)


@writes
def logical_not(w: Writer, s: Step) -> Name:
    return w.cast(w.op("Not", w.cast(s[0], s.in_dtype(), bool)), bool, s.dtype())


@writes
def bitwise_not(w: Writer, s: Step) -> Name:
    if s.dtype().kind == "b":
        return w.op("Not", s[0])
    return (
        w.op("Sub", w.op("Neg", s[0]), _number(w, s, 1))
        if s.dtype().kind == "i"
        else w.op("BitwiseNot", s[0])
    )


@writes
def clip(w: Writer, s: Step) -> Name:
    low, high = (s.params[k] for k in ("a_min", "a_max"))
    if s.dtype().kind in "iu":
        info = np.iinfo(s.dtype())
        low = None if low is None or low <= info.min else int(low)
        high = None if high is None or high >= info.max else int(high)
    ends = ["" if n is None else _number(w, s, n) for n in (low, high)]
    return w.op("Clip", _taken(w, s), *ends)


# ---- two arrays, or an array and a number --------------------------------------------------------

#: What writes two arrays of one dtype, a and b: ``(writer, step, a, b, dtype)``, and what the column adds.
Pair = Callable[..., Name]


def pair(function: Pair) -> Pair:
    """The translation of a row of two arrays, which meet in the result's dtype."""
    return _of_arrays(function, False)


def question(function: Pair) -> Pair:
    """The translation of a question about two arrays, which meet in their own dtype."""
    return _of_arrays(function, True)


#: Whether a form of two arrays is a question, and the function of these, by name.
_PAIRS: dict[str, tuple[bool, Pair]] = {}


def _of_arrays(function: Pair, question: bool) -> Pair:
    @functools.wraps(function)
    def of_arrays(w: Writer, s: Step, *more: Any) -> Name:
        dtype = np.result_type(s.in_dtype(0), s.in_dtype(1)) if question else s.dtype()
        a, b = (w.cast(s[k], s.in_dtype(k), dtype) for k in (0, 1))
        return function(w, s, a, b, dtype, *more)

    _PAIRS[function.__name__] = question, function
    writes(of_arrays)
    return function


@writes
def beside_number(w: Writer, s: Step, form: Any, left: bool) -> Name:
    """A row of an array and a number, by the form of its row of two arrays."""
    name, *more = (form,) if isinstance(form, str) else form
    question, function = _PAIRS[name]
    number = s.params["scalar"]
    dtype = s.dtype()
    if question:  # what they meet in
        dtype = np.dtype(np.int64) if s.in_dtype().kind == "b" else s.in_dtype()
        if not s.op.legacy and isinstance(number, float) and dtype.kind != "f":
            dtype = np.dtype(np.float64)
    x, n = w.cast(s[0], s.in_dtype(), dtype), w.constant(np.asarray(number).astype(dtype))
    return function(w, s, *((n, x) if left else (x, n)), dtype, *more)


@question
def compared(
    w: Writer, s: Step, a: Name, b: Name, dtype: np.dtype[Any], kind: str, negated: bool = False
) -> Name:
    found = w.op(kind, a, b)
    return w.cast(w.op("Not", found) if negated else found, bool, s.dtype())


@question
def decided(w: Writer, s: Step, a: Name, b: Name, dtype: np.dtype[Any], kind: str) -> Name:
    return w.cast(w.op(kind, w.cast(a, dtype, bool), w.cast(b, dtype, bool)), bool, s.dtype())


@pair
def plain(w: Writer, s: Step, a: Name, b: Name, dtype: np.dtype[Any], kind: str) -> Name:
    return w.op(kind, a, b)


@pair
def bits(w: Writer, s: Step, a: Name, b: Name, dtype: np.dtype[Any], kind: str) -> Name:
    if dtype.kind == "b":
        return w.op(kind, a, b)
    if w.opset < 18:
        raise s.refused(
            "ONNX knows bits of integers from opset 18 on: export_model(..., opset_version=18)"
        )
    return w.op(f"Bitwise{kind}", a, b)


@pair
def added(w: Writer, s: Step, a: Name, b: Name, dtype: np.dtype[Any]) -> Name:
    return w.op("Or", a, b) if dtype.kind == "b" else w.op("Add", a, b)


@pair
def multiplied(w: Writer, s: Step, a: Name, b: Name, dtype: np.dtype[Any]) -> Name:
    return w.op("And", a, b) if dtype.kind == "b" else w.op("Mul", a, b)


@pair
def floored(w: Writer, s: Step, a: Name, b: Name, dtype: np.dtype[Any]) -> Name:
    if dtype.kind == "f":
        return w.op("Floor", w.op("Div", a, b))
    b, _ = _beside_zero(w, b, dtype)
    rest = w.op("Mod", a, b)  # with the sign of b
    return w.op("Div", w.op("Sub", a, rest), b)


def _beside_zero(w: Writer, b: Name, dtype: np.dtype[Any]) -> tuple[Name, Name]:
    """1 where a divisor is 0, and where that is: there a rest is 0 in MXNet, and an error or NaN in ONNX."""
    none = w.op("Equal", b, w.constant(0, dtype))
    return w.op("Where", none, w.constant(1, dtype), b), none


@pair
def mod(w: Writer, s: Step, a: Name, b: Name, dtype: np.dtype[Any]) -> Name:
    b, none = _beside_zero(w, b, dtype)
    if dtype.kind != "f":
        return w.op("Mod", a, b)
    rest = w.op("Mod", a, b, fmod=1)  # with the sign of a
    zero = w.constant(0, dtype)
    rest = w.op("Where", w.op("Less", w.op("Mul", rest, b), zero), w.op("Add", rest, b), rest)
    return w.op("Where", none, zero, rest)


@pair
def fmod(w: Writer, s: Step, a: Name, b: Name, dtype: np.dtype[Any]) -> Name:
    b, none = _beside_zero(w, b, dtype)
    rest = w.op("Mod", a, b, fmod=1)
    return w.op("Where", none, w.constant(0, dtype), rest) if dtype.kind == "f" else rest


@pair
def hypot(w: Writer, s: Step, a: Name, b: Name, dtype: np.dtype[Any]) -> Name:
    return w.op("Sqrt", w.op("Add", w.op("Mul", a, a), w.op("Mul", b, b)))


@pair
def logaddexp(w: Writer, s: Step, a: Name, b: Name, dtype: np.dtype[Any]) -> Name:
    small = w.op("Exp", w.op("Neg", w.op("Abs", w.op("Sub", a, b))))
    return w.op("Add", w.op("Max", a, b), w.op("Log", w.op("Add", small, w.constant(1, dtype))))


@pair
def ldexp(w: Writer, s: Step, a: Name, b: Name, dtype: np.dtype[Any]) -> Name:
    return w.op("Mul", a, w.op("Pow", w.constant(2, dtype), b))


@pair
def arctan2(w: Writer, s: Step, y: Name, x: Name, dtype: np.dtype[Any]) -> Name:
    zero, pi = w.constant(0, dtype), w.constant(math.pi, dtype)
    left = w.op("Less", x, zero)
    at_zero = w.op("Equal", x, zero)
    half = w.op("Mul", w.op("Sign", y), w.constant(math.pi / 2, dtype))
    turned = w.op("Where", w.op("Less", y, zero), w.op("Neg", pi), pi)
    angle = w.op("Atan", w.op("Div", y, w.op("Where", at_zero, w.constant(1, dtype), x)))
    return w.op("Where", at_zero, half, w.op("Add", angle, w.op("Where", left, turned, zero)))


@writes
def add_n(w: Writer, s: Step) -> Name:
    total = s[0]
    for x in s.names[1:]:
        total = w.op("Add", total, x)
    return total if len(s) > 1 else w.op("Identity", total)


@writes
def isclose(w: Writer, s: Step) -> Name:
    dtype = np.result_type(s.in_dtype(0), s.in_dtype(1))
    a, b = (w.cast(s[k], s.in_dtype(k), dtype) for k in (0, 1))
    limit = w.op("Mul", w.op("Abs", b), w.constant(s.params["rtol"], dtype))
    limit = w.op("Add", limit, w.constant(s.params["atol"], dtype))
    return w.op("LessOrEqual", w.op("Abs", w.op("Sub", a, b)), limit)


# ---- activations ---------------------------------------------------------------------------------


def _softplus(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Softplus", x)


@formula
def log_sigmoid(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Neg", w.op("Softplus", w.op("Neg", x)))


@formula
def mish(w: Writer, s: Step, x: Name) -> Name:
    return w.op("Mul", x, w.op("Tanh", w.op("Softplus", x)))


_ACTIVATIONS: dict[str, Callable[[Writer, Step, Name], Name]] = {
    "relu": lambda w, s, x: w.op("Relu", x),
    "sigmoid": lambda w, s, x: w.op("Sigmoid", x),
    "tanh": lambda w, s, x: w.op("Tanh", x),
    "softrelu": _softplus,
    "softsign": lambda w, s, x: w.op("Softsign", x),
    "log_sigmoid": log_sigmoid,
    "mish": mish,
}


@writes
def activation(w: Writer, s: Step) -> Name:
    return _ACTIVATIONS[s.params["act_type"]](w, s, s[0])


def gelu(w: Writer, s: Step, x: Name) -> Name:
    half = w.op("Mul", x, _number(w, s, 0.5))
    erf = w.op("Erf", w.op("Div", x, _number(w, s, math.sqrt(2))))
    return w.op("Mul", half, w.op("Add", erf, _number(w, s, 1)))


def gelu_tanh(w: Writer, s: Step, x: Name) -> Name:
    cubed = w.op("Mul", w.op("Mul", x, w.op("Mul", x, x)), _number(w, s, 0.044715))
    inner = w.op("Mul", w.op("Add", x, cubed), _number(w, s, math.sqrt(2 / math.pi)))
    return w.op(
        "Mul",
        w.op("Mul", x, _number(w, s, 0.5)),
        w.op("Add", w.op("Tanh", inner), _number(w, s, 1)),
    )


@writes
def leaky_relu(w: Writer, s: Step) -> Name:
    p, x = s.params, s[0]
    kind = p.get("act_type", "rrelu")
    if kind == "prelu":
        gamma = s.array("gamma")
        g = len(w.shape(s.by_name["gamma"]))  # of the channels, or of them in each sample
        gamma = w.unsqueeze(gamma, *range(g, g + s.ndim() - max(g, 2)))
        return w.op("PRelu", x, w.cast(gamma, s.in_dtype(s.node.names.index("gamma")), s.dtype()))
    if kind == "leaky":
        return w.op("LeakyRelu", x, alpha=float(p["slope"]))
    if kind == "rrelu":
        return w.op("LeakyRelu", x, alpha=(float(p["lower_bound"]) + float(p["upper_bound"])) / 2)
    if kind == "elu":
        return w.op("Elu", x, alpha=float(p["slope"]))
    if kind == "selu":
        return w.op("Selu", x)
    return gelu_tanh(w, s, x) if kind == "gelu_tanh" else gelu(w, s, x)


@writes
def hard_sigmoid(w: Writer, s: Step) -> Name:
    return w.op("HardSigmoid", s[0], alpha=float(s.params["alpha"]), beta=float(s.params["beta"]))


@writes
def smooth_l1(w: Writer, s: Step) -> Name:
    squared = float(s.params["scalar"]) ** 2
    size = w.op("Abs", s[0])
    near = w.op("Less", w.op("Mul", size, _number(w, s, squared)), _number(w, s, 1))
    inner = w.op("Mul", w.op("Mul", s[0], s[0]), _number(w, s, squared / 2))
    return w.op("Where", near, inner, w.op("Sub", size, _number(w, s, 0.5 / squared)))


# ---- softmax -------------------------------------------------------------------------------------


def _scaled(w: Writer, s: Step) -> Name:
    x = _taken(w, s)
    temperature = s.params.get("temperature")
    return x if temperature in (None, 1, 1.0) else w.op("Div", x, _number(w, s, temperature))


def _lowest(w: Writer, s: Step) -> Name:
    return _number(w, s, -np.inf)


def _masked(w: Writer, s: Step, x: Name, mask: Name) -> Name:
    """softmax of the elements where the mask is true, 0 elsewhere."""
    axis = s.params["axis"]
    lowest = _number(w, s, float(np.finfo(s.dtype()).min) / 2)
    made = w.op("Softmax", w.op("Where", mask, x, lowest), axis=axis)
    return w.op("Where", mask, made, _number(w, s, 0))


@writes
def softmax(w: Writer, s: Step) -> Name:
    x = _scaled(w, s)
    if not (s.params["use_length"] and s.has("length")):
        return w.op("Softmax", x, axis=s.params["axis"])
    axis = s.axis(s.params["axis"])
    steps = w.reshape(
        w.counting(w.length(s.node.inputs[0], axis)),
        [1] * axis + [-1] + [1] * (s.ndim() - axis - 1),
    )
    lengths = w.cast(s.array("length"), s.in_dtype(s.node.names.index("length")), np.int64)
    return _masked(w, s, x, w.op("Less", steps, w.unsqueeze(lengths, axis)))


@writes
def log_softmax(w: Writer, s: Step) -> Name:
    return w.op("LogSoftmax", _scaled(w, s), axis=s.params["axis"])


@writes
def softmin(w: Writer, s: Step) -> Name:
    return w.op("Softmax", w.op("Neg", _scaled(w, s)), axis=s.params["axis"])


@writes
def masked_softmax(w: Writer, s: Step) -> Name:
    return _masked(w, s, _scaled(w, s), w.cast(s[1], s.in_dtype(1), bool))


@writes
def masked_log_softmax(w: Writer, s: Step) -> Name:
    mask = w.cast(s[1], s.in_dtype(1), bool)
    lowest = _number(w, s, float(np.finfo(s.dtype()).min) / 2)
    made = w.op("LogSoftmax", w.op("Where", mask, _scaled(w, s), lowest), axis=s.params["axis"])
    return w.op("Where", mask, made, _lowest(w, s))


@writes
def softmax_activation(w: Writer, s: Step) -> Name:
    if s.params["mode"] == "channel":
        return w.op("Softmax", s[0], axis=1)
    return w.op(
        "Reshape", w.op("Softmax", w.op("Flatten", s[0], axis=1), axis=1), w.op("Shape", s[0])
    )


def loss(function: Callable[[Writer, Step], Name]) -> Callable[[Writer, Step], Name]:
    """What a loss of a symbol predicts; its second array, the labels, is not read, and no input of the network."""
    LOSSES.add(function.__name__)
    return writes(function)  # type: ignore[return-value]


@loss
def softmax_output(w: Writer, s: Step) -> Name:
    """What the loss of a symbol predicts."""
    if s.params["multi_output"] or s.ndim() == 2:
        return w.op("Softmax", s[0], axis=1)
    if s.params["preserve_shape"]:
        return w.op("Softmax", s[0], axis=-1)
    return w.op(
        "Reshape", w.op("Softmax", w.op("Flatten", s[0], axis=1), axis=1), w.op("Shape", s[0])
    )


@loss
def logistic_output(w: Writer, s: Step) -> Name:
    return w.op("Sigmoid", s[0])


@loss
def plain_output(w: Writer, s: Step) -> Name:
    return w.op("Identity", s[0])
