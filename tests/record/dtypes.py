"""Records MXNet's result dtypes: binary operators, scalars, unary functions, reductions, creation.

Run with a Python that has Apache MXNet 2.0.0b1 (NumPy 1.23) installed: ``python dtypes.py``.
Writes ``../data/dtypes.json``: per table a list of ``{"names": [...], "rows": ...}``, operators
that agree
standing together. A row is a line of cells, one per dtype of ``dtypes`` (of the right operand; in
the
two-operand tables there is one row per dtype of the left). A cell is a dtype name or
``!Exception``;
``errors`` holds, per table and error text, the operators that answer with it.
"""

import json
import os
import tempfile
import warnings

import mxnet as mx

warnings.simplefilter("ignore")
np, npx, nd = mx.np, mx.npx, mx.nd
DTYPES = ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"]
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "dtypes.json")


def cell(call):
    """The dtype name of what ``call`` returns, or its error in one line."""
    try:
        out = call()
        if isinstance(out, (tuple, list)):
            out = out[0]
        if hasattr(out, "wait_to_read"):
            out.wait_to_read()
        if not hasattr(out, "dtype"):
            return "python:" + type(out).__name__
        return onp_name(out.dtype)
    except Exception as e:
        lines = [x.strip() for x in str(e).strip().splitlines() if x.strip()]
        text = lines[-1] if lines and lines[0].startswith("Traceback") else (lines or [""])[0]
        return f"!{type(e).__name__}: {text[:160]}"


def onp_name(dtype):
    return getattr(dtype, "name", None) or getattr(dtype, "__name__", str(dtype))


def make(kind, dtype, values=(1, 2)):
    if kind == "nd":
        return nd.array(list(values), dtype=dtype)
    return np.array(list(values), dtype=dtype)


BINARY = """add subtract multiply true_divide divide floor_divide mod remainder fmod power maximum
minimum
fmax fmin arctan2 hypot ldexp copysign lcm gcd bitwise_and bitwise_or bitwise_xor bitwise_left_shift
bitwise_right_shift equal not_equal less less_equal greater greater_equal logical_and logical_or
logical_xor dot matmul outer where concatenate stack float_power""".split()
ND_BINARY = """add subtract multiply divide modulo power maximum minimum equal not_equal lesser
lesser_equal greater greater_equal logical_and logical_or logical_xor broadcast_add broadcast_sub
broadcast_mul broadcast_div broadcast_mod broadcast_power broadcast_maximum broadcast_minimum
broadcast_hypot broadcast_equal broadcast_greater broadcast_logical_and elemwise_add elemwise_sub
elemwise_mul elemwise_div dot concat stack""".split()
PY_OPS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "==": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    "@": lambda a, b: a @ b,
}


def iop(name):
    def run(a, b):
        if name == "+=":
            a += b
        elif name == "-=":
            a -= b
        elif name == "*=":
            a *= b
        elif name == "/=":
            a /= b
        elif name == "//=":
            a //= b
        elif name == "%=":
            a %= b
        elif name == "**=":
            a **= b
        elif name == "&=":
            a &= b
        return a

    return run


FUNCTIONS = """add true_divide power maximum arctan2 hypot mod floor_divide equal logical_and
bitwise_and copysign ldexp logaddexp fmod fmax fmin float_power"""
IN_PLACE = ["+=", "-=", "*=", "/=", "//=", "%=", "**=", "&="]
SCALARS = {"int": 2, "float": 1.5, "bool": True}
UNARY = """sqrt cbrt exp expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh
arcsinh arccosh arctanh degrees radians deg2rad rad2deg abs absolute fabs negative sign square
reciprocal rint ceil floor trunc fix around round logical_not bitwise_not invert isnan isinf
isfinite exp2 positive conjugate nan_to_num cumsum sort argsort diff ravel unique clip
real""".split()
NPX_UNARY = """relu sigmoid softmax log_softmax erf erfinv gamma gammaln digamma activation gelu
leaky_relu softplus silu mish one_hot cast_storage norm l2_normalization smooth_l1 topk pick
sequence_mask shape_array arange_like layer_norm""".split()
ND_UNARY = """sqrt rsqrt cbrt rcbrt exp expm1 log log2 log10 log1p sin cos tanh abs sign square
reciprocal rint
round ceil floor trunc fix logical_not relu sigmoid softmax log_softmax erf gamma gammaln argmax
argmin
argsort sort topk one_hot norm sum mean prod max min nansum sum_axis shape_array size_array
cumsum""".split()
REDUCE = """sum mean prod max min amax amin std var argmax argmin cumsum any all median average
count_nonzero percentile quantile nansum nanprod norm trace ptp nancumsum nancumprod nanmax nanmin
nanstd nanvar""".split()


def npx_call(name, x):
    if name == "activation":
        return npx.activation(x, act_type="relu")
    if name == "one_hot":
        return npx.one_hot(x, 3)
    if name == "pick":
        return npx.pick(np.stack([x, x]), np.array([0, 1]))
    if name == "sequence_mask":
        return npx.sequence_mask(x, np.array([1.0]), use_sequence_length=False)
    if name == "layer_norm":
        return npx.layer_norm(x, np.ones((2,), dtype=x.dtype), np.zeros((2,), dtype=x.dtype))
    if name == "smooth_l1":
        return npx.smooth_l1(x, scalar=1.0)
    return getattr(npx, name)(x)


def np_unary(name, x):
    if name == "clip":
        return np.clip(x, 0, 1.5)
    return getattr(np, name)(x)


def reduce_call(name, x):
    if name == "norm":
        return np.linalg.norm(x)
    if name == "percentile":
        return np.percentile(x, 50)
    if name == "quantile":
        return np.quantile(x, 0.5)
    if name == "trace":
        return np.trace(np.stack([x, x]))
    return getattr(np, name)(x)


def np_binary(name, a, b):
    if name == "where":
        return np.where(np.array([True, False]), a, b)
    if name in ("concatenate", "stack"):
        return getattr(np, name)([a, b])
    return getattr(np, name)(a, b)


def nd_binary(name, a, b):
    if name in ("concat", "stack"):
        return getattr(nd, name)(a, b, dim=0) if name == "concat" else nd.stack(a, b)
    return getattr(nd, name)(a, b)


def nd_unary(name, x):
    if name == "one_hot":
        return nd.one_hot(x, 3)
    return getattr(nd, name)(x)


def isolated(row):
    """``row()`` in a forked child, because some dtype mixtures crash MXNet itself."""
    with tempfile.TemporaryFile("w+") as out:
        pid = os.fork()
        if pid == 0:
            try:
                json.dump(row(), out)
                out.flush()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        out.seek(0)
        text = out.read()
    return json.loads(text) if text else None


def row_of(calls):
    """The cells of ``calls``; where the row crashes, each cell alone."""
    got = isolated(lambda: [cell(c) for c in calls])
    if got is not None:
        return got
    return [isolated(lambda c=c: cell(c)) or "!crash" for c in calls]


def table(kind, names, call):
    """{name: {left dtype: [cell per right dtype]}}"""
    return {
        n: {
            a: row_of([lambda n=n, a=a, b=b: call(n, make(kind, a), make(kind, b)) for b in DTYPES])
            for a in DTYPES
        }
        for n in names
    }


def rows(kind, names, call):
    return {n: row_of([lambda n=n, a=a: call(n, make(kind, a)) for a in DTYPES]) for n in names}


def scalars(kind, ops, reverse=True):
    out = {}
    for n, f in ops.items():
        for s, v in SCALARS.items():
            out[f"x {n} {s}"] = row_of([lambda f=f, a=a, v=v: f(make(kind, a), v) for a in DTYPES])
            if reverse:
                out[f"{s} {n} x"] = row_of(
                    [lambda f=f, a=a, v=v: f(v, make(kind, a)) for a in DTYPES]
                )
    return out


def short(c):
    return c.split(":")[0] if c.startswith("!") else c


def grouped(tab, errors):
    """Operators with the same cells together; the texts of errors aside, one per operator."""
    groups = {}
    for name, body in tab.items():
        cells = [c for r in body.values() for c in r] if isinstance(body, dict) else body
        texts = [c[1:] for c in cells if c.startswith("!")]
        if texts:
            errors.setdefault(texts[0], []).append(name)
        if isinstance(body, dict):
            rows_ = [" ".join(short(c) for c in r) for r in body.values()]
        else:
            rows_ = " ".join(short(c) for c in body)
        groups.setdefault(json.dumps(rows_), []).append(name)
    return [{"names": names, "rows": json.loads(k)} for k, names in groups.items()]


def main():
    in_place = {n: iop(n) for n in IN_PLACE}
    names = [n for n in BINARY if hasattr(np, n)]
    data = {
        "version": mx.__version__,
        "dtypes": DTYPES,
        "np_missing": [n for n in BINARY + UNARY + REDUCE if n != "norm" and not hasattr(np, n)],
        "np_binary": table("np", names, np_binary),
        "np_operator": table("np", PY_OPS, lambda n, a, b: PY_OPS[n](a, b)),
        "np_in_place": table("np", IN_PLACE, lambda n, a, b: in_place[n](a, b)),
        "np_scalar": scalars("np", PY_OPS),
        "np_in_place_scalar": scalars("np", in_place, reverse=False),
        "np_function_scalar": scalars(
            "np", {n: getattr(np, n) for n in FUNCTIONS.split() if hasattr(np, n)}
        ),
        "np_unary": rows("np", [n for n in UNARY if hasattr(np, n)], np_unary),
        "npx_unary": rows("np", [n for n in NPX_UNARY if hasattr(npx, n)], npx_call),
        "np_reduce": rows("np", [n for n in REDUCE if n == "norm" or hasattr(np, n)], reduce_call),
        "nd_binary": table("nd", [n for n in ND_BINARY if hasattr(nd, n)], nd_binary),
        "nd_operator": table(
            "nd", [o for o in PY_OPS if o not in "&|^<<@"], lambda n, a, b: PY_OPS[n](a, b)
        ),
        "nd_in_place": table("nd", IN_PLACE[:6], lambda n, a, b: in_place[n](a, b)),
        "nd_scalar": scalars("nd", {o: f for o, f in PY_OPS.items() if o not in "&|^<<@"}),
        "nd_in_place_scalar": scalars("nd", {o: in_place[o] for o in IN_PLACE[:6]}, reverse=False),
        "nd_unary": rows("nd", [n for n in ND_UNARY if hasattr(nd, n)], nd_unary),
    }
    errors = {}
    for key, tab in data.items():
        if isinstance(tab, dict):
            data[key] = grouped(tab, errors.setdefault(key, {}))
    data["errors"] = errors
    with open(OUT, "w") as f:
        json.dump(data, f, indent=1)
    print(os.path.getsize(OUT), "bytes")


if __name__ == "__main__":
    main()
