"""The table of calls: what each is in mx, what it is in NumPy, and how it is drawn.

One line adds a call: ``unary("np.sinh", np.sinh, ulps=4)``. Rows of other kinds give the model (a function of
`model.Array`) and how to draw inputs and attributes (a function of the `generate.Drawing`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import model
from .model import (
    Array,
    Refused,
    Wide,
    beside,
    cast,
    elementwise,
    is_float,
    moved,
    promoted,
)
from .program import Call


class Var(str):
    """An attribute that is a variable."""

    __slots__ = ()


Draft = tuple[tuple[Any, ...], dict[str, Any]]
OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "@": operator.matmul,
}


def plain(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def shown(value: Any) -> str:
    """An attribute's value."""
    if isinstance(value, Var):
        return str(value)
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(shown, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


class Row:
    """A call of a function, a method (``.sum``) or an operator (``+``).

    ``weight``: how often; ``taped``: also where gradients are recorded; ``pure``: also in the bodies of blocks;
    ``front``: np or nd, or both.
    """

    def __init__(
        self,
        name: str,
        apply: Callable[..., Any],
        draw: Callable[[Any], Draft | None],
        *,
        weight: float = 1.0,
        outs: int = 1,
        taped: bool = True,
        pure: bool = True,
        front: str = "np",
    ):
        self.name, self.apply, self.draw, self.weight = name, apply, draw, weight
        self.outs, self.taped, self.pure, self.front = outs, taped, pure, front

    def function(self, mx: Any) -> Callable[..., Any]:
        name = self.name.partition("#")[0]
        if name in OPERATORS:
            return OPERATORS[name]
        if name.startswith("."):
            return lambda x, *rest, **attrs: getattr(x, name[1:])(*rest, **attrs)
        found = mx
        for part in name.split("."):
            found = getattr(found, part)
        return found  # type: ignore[no-any-return]

    def run(self, machine: Any, call: Call) -> None:
        args, attrs = machine.given(call)
        machine.put(call, self.function(machine.mx)(*args, **attrs))

    def model(self, machine: Any, call: Call) -> None:
        args, attrs = machine.given(call)
        target = attrs.pop("out", None)
        made = self.apply(*args, **attrs)
        if target is not None:
            model_store(target, made)
            made = target
        machine.put(call, made)

    def show(self, call: Call, body: Callable[..., list[str]]) -> list[str]:
        args = [plain(a) for a in call.ins]
        rest = [f"{k}={shown(v)}" for k, v in call.attrs.items()]
        name = self.name.partition("#")[0]
        if name in OPERATORS:
            made = f"{args[0]} {name} {args[1]}"
        elif name.startswith("."):
            made = f"{args[0]}{name}({', '.join(args[1:] + rest)})"
        else:
            if name.split(".")[0] not in ("np", "npx", "nd", "autograd"):
                name = f"mx.{name}"
            made = f"{name}({', '.join(args + rest)})"
        line = f"{', '.join(call.outs)} = {made}" if call.outs else made
        return failing(call, [line])


def failing(call: Call, lines: list[str]) -> list[str]:
    if not call.fails:
        return lines
    return [
        "try:",
        *("    " + line for line in lines),
        "except Exception as error:",
        "    print(type(error))",
    ]


TABLE: dict[str, Any] = {}


def add(row: Any) -> Any:
    TABLE[row.name] = row
    return row


def check_write(x: Array) -> None:
    """Results that were recorded are not written to: MXNet keeps their history, and its tape sees the new numbers."""
    if model.Tape.on or any(isinstance(y.node, tuple) for y in x.family):
        raise model.Ambiguous


def model_store(target: Array, made: Array) -> None:
    """``target[...] = made`` of the same dtype and shape."""
    check_write(target)
    if made.dtype != target.dtype or made.shape != target.shape:
        raise Refused("another dtype or shape")
    target.val[...] = made.val
    if made.err is not None:
        target.err[...] = made.err


# Element-wise.


def floated(x: Array) -> Array:
    """Integers as MXNet's functions of floats take them."""
    if is_float(x.dtype):
        return x
    return cast(x, "float16" if x.dtype.itemsize == 1 else "float32")


def unary(
    name: str,
    fn: Any,
    ulps: float = 8,
    keeps: str = "",
    jumps: bool = False,
    slack: float = 0,
    slope: Any = None,
    **row: Any,
) -> None:
    """A function of one array. ``keeps``: kinds of dtypes whose integers stay as they are ('iu' or 'biu')."""

    def apply(x: Array) -> Array:
        if is_float(x.dtype):
            return elementwise(fn, x, ulps=ulps, jumps=jumps, slack=slack, slope=slope)
        if x.dtype.kind in keeps:
            made = np.asarray(fn(x.val))
            return Array(
                made if made.dtype == bool else made.astype(x.dtype),
                None,
                made.dtype if made.dtype == bool else x.dtype,
            )
        if keeps and not jumps:
            raise Refused("not for bool")
        return elementwise(fn, floated(x), ulps=ulps, jumps=jumps)

    def draw(g: Any) -> Draft | None:
        x = g.array(lambda a: is_float(a.dtype) or a.dtype.kind in (keeps or "biu"))
        return x and ((x,), {})

    add(Row(name, apply, draw, **row))


_erf = np.vectorize(lambda x: Wide(math.erf(x)), otypes=[Wide])


def erf(x: Any) -> Any:
    return _erf(np.asarray(x, Wide)) if np.size(x) else np.asarray(x, Wide)


for _name in (
    "sin",
    "cos",
    "tanh",
    "sinh",
    "cosh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "cbrt",
    "arcsinh",
):
    unary(
        f"np.{_name}",
        getattr(np, _name),
        slack=16 if _name in ("tanh", "expm1") else 0,
        weight=1.0 if _name in ("sin", "tanh", "exp", "log", "sqrt") else 0.4,
    )
for _name in ("tan", "arctan", "arcsin", "arccos", "arccosh", "arctanh", "degrees", "radians"):
    unary(f"np.{_name}", getattr(np, _name), ulps=16, weight=0.3)
unary(
    "npx.sigmoid",
    lambda x: 1 / (1 + np.exp(-x)) if x.dtype.kind == "f" else x,
    slack=8,
    weight=0.7,
    keeps="f",
)
unary("npx.relu", lambda x: np.maximum(x, 0), ulps=0, keeps="iu", weight=1.5)
unary(
    "npx.erf",
    erf,
    slope=lambda x: np.exp(-x * x) * 2 / np.sqrt(Wide(np.pi)),
    keeps="f",
    ulps=32,
    weight=0.3,
)
unary("np.square", lambda x: x * x, ulps=0, keeps="iu")
unary("np.negative", np.negative, ulps=0, keeps="iu", weight=0.5)
unary("np.abs", np.abs, ulps=0, keeps="iu")
unary("np.reciprocal", lambda x: 1 / x, ulps=1, keeps="f", weight=0.5)
for _name in ("floor", "ceil", "trunc"):
    unary(f"np.{_name}", getattr(np, _name), ulps=0, keeps="iu", jumps=True, weight=0.6)
unary(
    "np.rint", lambda x: np.ceil(x - 0.5), ulps=0, jumps=True, weight=0.6
)  # MXNet's halves go down
unary(
    "np.sign", lambda x: np.where(x != x, 0, np.sign(x)), ulps=0, keeps="iu", jumps=True, weight=0.6
)
for _name in ("isnan", "isinf", "isfinite", "logical_not"):
    unary(f"np.{_name}", getattr(np, _name), keeps="biu", weight=0.4)


def _invert(x: Array) -> Array:
    return Array(~x.val, None, x.dtype)


add(
    Row(
        "np.invert",
        _invert,
        lambda g: (x := g.array(lambda a: a.dtype.kind in "biu")) and ((x,), {}),
        weight=0.4,
    )
)


def meeting(a: Any, b: Any, divides: bool = False) -> tuple[Any, Any, np.dtype]:
    """Two operands in the dtype in which they meet."""
    if isinstance(a, Array) and isinstance(b, Array):
        if divides and not is_float(promoted(a.dtype, b.dtype)):
            if a.dtype != b.dtype and bool not in (a.dtype, b.dtype):
                raise Refused("true_divide of different integers")
            return cast(a, "float32"), cast(b, "float32"), np.dtype("float32")
        dtype = promoted(a.dtype, b.dtype)
        return cast(a, dtype), cast(b, dtype), dtype
    x, number = (a, b) if isinstance(a, Array) else (b, a)
    if isinstance(x, Array) and divides and not is_float(x.dtype):
        dtype = np.dtype("float32")
    else:
        dtype = beside(x.dtype, number)
    x, other = cast(x, dtype), model.array(number, dtype)
    return (x, other, dtype) if isinstance(a, Array) else (other, x, dtype)


def arithmetic(
    fn: Any,
    ulps: float = 0,
    divides: bool = False,
    kinds: str = "biuf",
    refuses: str = "",
    jumps: bool = False,
    floats: Any = None,
) -> Any:
    """What a call of two means; ``floats``: what it is of floats, given them and their dtype, where that is another."""

    def apply(a: Any, b: Any) -> Array:
        a, b, dtype = meeting(a, b, divides)
        if ("f" if is_float(dtype) else dtype.kind) not in kinds:
            raise Refused(f"not for {dtype}") if dtype.kind in refuses else model.Ambiguous
        if is_float(dtype):
            of = fn if floats is None else floats(a, b, dtype)
            return elementwise(of, a, b, dtype=dtype, ulps=ulps, jumps=jumps)
        with np.errstate(all="ignore"):
            try:
                made = np.asarray(fn(a.val, b.val))
            except ValueError:
                raise Refused("shapes do not broadcast") from None
        return Array(
            made if made.dtype == bool else made.astype(dtype),
            None,
            made.dtype if made.dtype == bool else dtype,
        )

    return apply


def binary(
    names: str,
    fn: Any,
    numbers: Any = (0.5, 2.0, -1.5, 3, -1, 4, 1),
    weight: float = 1.0,
    **kind: Any,
) -> None:
    apply = arithmetic(
        fn,
        **{
            k: v
            for k, v in kind.items()
            if k in ("ulps", "divides", "kinds", "refuses", "jumps", "floats")
        },
    )
    rest = {k: v for k, v in kind.items() if k in ("taped", "pure", "front")}

    for name in names.split():

        def draw_named(g: Any, name: str = name) -> Draft | None:
            pair = g.pair(numbers)
            target = g.target(apply, pair) if pair and name.startswith("np.") else None
            return pair and (pair, {} if target is None else {"out": Var(target)})

        add(Row(name, apply, draw_named, weight=weight, **rest))


def _floored(a: Array, b: Array, dtype: np.dtype) -> Any:
    """The quotient is rounded, and what is smaller than normal numbers is zero, before it is rounded down."""
    least = np.finfo("float64" if dtype == "float64" else "float32").tiny

    def floored(x: Any, y: Any) -> Any:
        quotient = (x / y).astype("float32" if dtype in model.HALVES else dtype)
        made = np.floor(np.where(np.abs(quotient) < least, 0, quotient)).astype(Wide)
        if dtype in model.HALVES and not np.array_equal(
            made, np.floor(quotient.astype(dtype)).astype(Wide), True
        ):
            raise model.Ambiguous  # compiled code rounds less often
        return made

    return floored


def _remainder(a: Array, b: Array, dtype: np.dtype) -> Any:
    if not (a.exact and b.exact):
        raise model.Ambiguous

    def remainder(x: Any, y: Any) -> Any:
        if np.any(np.isfinite(x) & (y != 0) & (np.abs(x) > 1e4 * np.abs(y))):
            raise model.Ambiguous  # a derivative by differences would go over many jumps
        return np.where(y == 0, 0, np.mod(x, y))  # by zero it is zero in MXNet

    return remainder


def _angle(a: Array, b: Array, dtype: np.dtype) -> Any:
    def angle(y: Any, x: Any) -> Any:
        if np.any((y == 0) & (x <= 0)):
            raise model.Ambiguous  # the signs of zeros decide
        return np.arctan2(y, x)

    return angle


binary("+ np.add", np.add, weight=2)
binary("- np.subtract", np.subtract, kinds="iuf", refuses="b", weight=1.5)
binary("* np.multiply", np.multiply, weight=2)
binary("/ np.true_divide", lambda a, b: a / b, numbers=(0.5, 2.0, -4, 3, 1.5), ulps=2, divides=True)
binary("np.maximum np.minimum".split()[0], np.maximum)
binary("np.minimum", np.minimum)
binary("np.hypot", np.hypot, kinds="f", ulps=4, weight=0.3)
binary("**", np.power, numbers=(2, 3, 2.0, 0.5, 1, -1.0), kinds="f", ulps=16)
_BY = (2, 3, -2, 7, 0, 0.5, -1.5)
binary(
    "// np.floor_divide",
    np.floor_divide,
    numbers=_BY,
    kinds="iuf",
    weight=0.5,
    jumps=True,
    floats=_floored,
)
binary("% np.mod", np.mod, numbers=_BY, kinds="iuf", weight=0.5, floats=_remainder)
binary(
    "np.arctan2", np.arctan2, numbers=(0.5, -2.0, 3), kinds="f", ulps=16, weight=0.3, floats=_angle
)
for _name, _fn in (
    ("==", np.equal),
    ("!=", np.not_equal),
    ("<", np.less),
    ("<=", np.less_equal),
    (">", np.greater),
):
    binary(_name, _fn, weight=0.4)
binary(">= np.greater_equal", np.greater_equal, weight=0.4)
for _name in ("logical_and", "logical_or", "logical_xor"):
    binary(f"np.{_name}", getattr(np, _name), weight=0.2)
for _name, _fn in (
    ("& np.bitwise_and", np.bitwise_and),
    ("| np.bitwise_or", np.bitwise_or),
    ("^", np.bitwise_xor),
):
    binary(_name, _fn, numbers=(), kinds="biu", refuses="f", weight=0.3)


def _where(c: Array, a: Any, b: Any) -> Array:
    dtype = next(x.dtype for x in (a, b) if isinstance(x, Array))
    a, b = (x if isinstance(x, Array) else model.array(x, dtype) for x in (a, b))
    if a.dtype != b.dtype:
        raise Refused("two dtypes")
    if is_float(dtype):
        return elementwise(np.where, c, a, b)
    try:
        np.broadcast_shapes(c.shape, a.shape, b.shape)
    except ValueError:
        raise Refused("shapes do not broadcast") from None
    return Array(np.where(c.val, a.val, b.val), None, dtype)


def _draw_where(g: Any) -> Draft | None:
    a = g.array()
    c = a and g.array(lambda x: x.dtype == bool and g.fits(x, g.of(a)))
    b = c and g.array(lambda x: x.dtype == g.of(a).dtype and g.fits(x, g.of(a)))
    return b and ((c, a, b), {})


add(Row("np.where", _where, _draw_where, weight=1.5))


def _clip(x: Array, low: Any, high: Any) -> Array:
    if is_float(x.dtype):
        return elementwise(lambda v: np.minimum(np.maximum(v, Wide(low)), Wide(high)), x)
    return Array(np.clip(x.val, low, high).astype(x.dtype), None, x.dtype)


add(
    Row(
        "np.clip",
        _clip,
        lambda g: (
            (x := g.array(lambda a: a.dtype.kind != "b"))
            and ((x, *g.rng.choice([(0, 2), (1, 3), (0, 1)])), {})
        ),
    )
)
DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int32",
    "int64",
    "int8",
    "int16",
    "uint8",
    "bool",
)


add(
    Row(
        ".astype",
        lambda x, dtype: cast(x, model.BFLOAT16 if dtype == "bfloat16" else dtype),
        lambda g: (x := g.array()) and ((x,), {"dtype": g.dtype()}),
        weight=2,
    )
)
add(
    Row(
        ".copy",
        lambda x: moved(lambda v: v, x),
        lambda g: (x := g.array()) and ((x,), {}),
        weight=0.5,
    )
)
add(
    Row(
        ".detach", model.detached, lambda g: (x := g.array()) and ((x,), {}), weight=0.5, pure=False
    )
)
