"""Programs from seeds: the model runs along, and a call that it cannot foretell well enough is not taken."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from . import model
from .calls import DTYPES, TABLE
from .machines import Draws, Invalid, Model
from .model import Array, is_float
from .program import Call, Program, count

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 65, 70)
MAIN = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
NEAR = 400
SIZE = 5000  # numbers in an array at most
NOISE = 2.0**13  # a result's error is at most so many roundings of the largest number beside it
LARGE = 1e4


class State:
    """The variables while a program is made."""

    def __init__(self, machine: Any):
        self.machine = machine

    def names(self) -> list[str]:
        return [n for n, v in self.machine.env.items() if isinstance(v, Array)]

    def get(self, name: str) -> Any:
        return self.machine.get(name)

    def is_number(self, name: str) -> bool:
        return isinstance(self.machine.get(name), (int, float))

    def is_taped(self, name: str) -> bool:
        return model.Tape.on

    def variables(self) -> list[str]:
        return [n for n in self.names() if self.machine.env[n].grad is not None]

    def is_variable(self, name: str) -> bool:
        return self.machine.get(name).grad is not None

    def heads(self) -> list[str]:
        """Results on the tape whose backward may run."""
        found = []
        for n in self.names():
            node = self.machine.env[n].node
            if (
                isinstance(node, tuple)
                and not node[0].spent
                and is_float(self.machine.env[n].dtype)
            ):
                found.append(n)
        return found


class Drawing:
    """What rows draw from.

    Programs whose seeds are near each other share lengths, shapes and dtypes, so that single calls, which the tiers
    compile, are compiled once for many programs.
    """

    def __init__(self, seed: int):
        near = random.Random(seed // NEAR * 7919 + 1)
        self.lengths = near.sample(LENGTHS, 3)
        self.dtypes = near.sample(DTYPES, 3)
        main = near.choice(MAIN)
        a, b, c = self.lengths
        self.shapes = [
            (),
            (a,),
            (b, a),
            (1, a),
            (b, 1),
            (near.choice([1, 2, 3]), min(c, 9), min(a, 9)),
            (a, c),
        ]
        self.rng = random.Random(seed)
        self.special = self.rng.random() < 0.15
        self.nd = self.rng.random() < 0.2
        self.exact = self.rng.random() < 0.4
        self.main = (
            "float32"
            if self.rng.random() < 0.5 or (self.nd and main in ("float16", "bfloat16"))
            else main
        )
        self.front = "nd" if self.nd else "np"
        self.machine = Model()
        self.state = State(self.machine)
        self.before: list[Call] = []  # what must come before the call that is drawn
        self.count = 0
        self.failing = False
        self.numbers: list[str] = []

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def length(self) -> int:
        return self.rng.choice(self.lengths)

    def shape(self) -> tuple[int, ...]:
        shape = self.rng.choice(self.shapes[1:] if self.nd else self.shapes)
        if shape and self.rng.random() < 0.04:
            at = self.rng.randrange(len(shape))
            return (*shape[:at], 0, *shape[at + 1 :])
        return shape

    def dtype(self) -> str:
        if self.nd:
            return self.main
        return self.main if self.rng.random() < 0.6 else self.rng.choice(self.dtypes)

    def of(self, name: Any) -> Array:
        found = self.machine.get(name)
        assert isinstance(found, Array)
        return found

    def wrong(self) -> bool:
        """Whether this call shall be an error."""
        if self.failing or self.machine.inside or self.rng.random() > 0.02:
            return False
        self.failing = True
        return True

    def make(self, dtype: str, shape: tuple[int, ...], kind: str = "") -> str:
        """A new array."""
        if not kind:
            kind = "exact" if self.exact else self.rng.choice(["unit", "positive"])
            if self.special and self.rng.random() < 0.5:
                kind = "special"
            if dtype in ("int32", "int64") and self.rng.random() < 0.5:
                kind = "index"
        attrs = {"shape": shape, "dtype": dtype, "kind": kind, "seed": self.rng.randrange(1000)}
        if self.nd:
            attrs["front"] = "nd"
        call = Call("array", (self.fresh(),), (), attrs)
        self.machine.call(call)
        self.before.append(call)
        return call.outs[0]

    def array(self, wants: Callable[[Array], Any] | None = None, make: Any = None) -> str | None:
        """The name of an array, of those made lately rather."""
        names = [n for n in self.known() if wants is None or wants(self.of(n))]
        if not names:
            return None if make is None else self.make(*make)
        if self.rng.random() < 0.5:
            names = names[-3:]
        return self.rng.choice(names)

    def known(self) -> list[str]:
        found: list[str] = []
        machine: Any = self.machine
        while machine is not None:
            found = [n for n, v in machine.env.items() if isinstance(v, Array)] + found
            machine = machine.around
        return found

    def fits(self, x: Array, y: Array) -> bool:
        """Whether two shapes broadcast to something not too large."""
        try:
            return int(np.prod(np.broadcast_shapes(x.shape, y.shape))) <= SIZE
        except ValueError:
            return False

    def fits_into(self, x: Array, shape: tuple[int, ...]) -> bool:
        try:
            return np.broadcast_shapes(x.shape, shape) == shape
        except ValueError:
            return False

    def pair(self, numbers: Any, same: bool = False) -> tuple[Any, Any] | None:
        """Two operands that broadcast, or one and a number; ``same``: the second has the first's dtype and fits."""
        a = self.array(lambda x: x.dtype != bool if same else True)
        if a is None:
            return None
        x = self.of(a)
        if numbers and self.rng.random() < 0.35:
            number = (
                self.rng.choice(self.numbers)
                if self.numbers and self.rng.random() < 0.7
                else self.rng.choice(numbers)
            )
            if same and not is_float(x.dtype):
                number = 1
            return (number, a) if not same and self.rng.random() < 0.25 else (a, number)
        if self.wrong() and x.val.ndim:
            b = self.array(
                lambda y: not self.fits(y, x), make=(str(x.dtype), (*x.shape[:-1], x.shape[-1] + 2))
            )
            return b and (a, b)
        if same:
            b = self.array(lambda y: self.fits_into(y, x.shape) and y.dtype == x.dtype)
        else:
            b = self.array(lambda y: self.fits(y, x))
        if b is None or (b == a and self.rng.random() < 0.7):
            shape = tuple(1 if self.rng.random() < 0.2 else n for n in x.shape)
            b = self.make(str(x.dtype) if same or self.rng.random() < 0.7 else self.dtype(), shape)
        return (a, b)

    def target(self, apply: Any, pair: tuple[Any, Any]) -> str | None:
        """An array for ``out=``."""
        if model.Tape.on or self.machine.inside or self.rng.random() > 0.15 or self.failing:
            return None
        try:
            made = apply(*(self.machine.get(a) for a in pair))
        except (model.Ambiguous, model.Refused, ValueError):
            return None
        return self.array(lambda y: y.dtype == made.dtype and y.shape == made.shape)

    def again(self) -> Any:
        """A call of a block there is, with the arrays it had or others of their shapes."""
        nets = [n for n, v in self.machine.env.items() if n in self.nets]
        if not nets:
            return None
        name = self.rng.choice(nets)
        like = self.nets[name]
        ins: list[Any] = []
        for kind in like:
            if kind is None:
                ins.append(self.rng.choice([0.5, 2.0, 1.5, 3.0]))
                continue
            shape, dtype = kind
            found = self.array(
                lambda a, s=shape, d=dtype: a.shape == s and a.dtype == d, make=(str(dtype), shape)
            )
            ins.append(found)
        return (name, *ins), {}

    nets: dict[str, list[Any]]


def is_good(g: Drawing, x: Array) -> bool:
    """Whether a result is worth comparing."""
    if x.val.size > SIZE:
        return False
    if x.err is None:
        return True
    unknown = np.isinf(x.err)
    if unknown.any():
        return False
    finite = np.isfinite(x.val)
    if not finite.all() and not g.special:
        return False
    if not x.val.size:
        return True
    largest = np.abs(np.where(finite, x.val, 0)).max(initial=0)
    most = 60 if x.dtype in model.HALVES else LARGE
    return bool(largest <= most) and bool(
        x.err.max() <= NOISE * float(model._LIMITS[x.dtype].eps) * max(float(largest), 1e-3)
        and x.err.max() < 0.05 * max(float(largest), 1e-3)
    )


class Rejected(Exception):
    pass


def draw(g: Drawing, body: bool) -> list[Call] | None:
    """The next call, with the arrays it needs; it has run in the model."""
    taped = model.Tape.on
    rows = [
        r
        for r in TABLE.values()
        if r.front in (g.front, "both") and (r.taped or not taped) and (r.pure or not body)
    ]
    row = g.rng.choices(rows, [r.weight for r in rows])[0]
    g.before, g.failing = [], False
    env = dict(g.machine.env)
    draft = row.draw(g)
    if not draft or None in draft[0]:
        g.machine.env.clear()
        g.machine.env.update(env)
        return None
    ins, attrs = draft
    outs = tuple(g.fresh() for _ in range(row.outs))
    if row.outs == 1 and not body and g.rng.random() < 0.15:
        old = [n for n in g.state.names() if not g.state.is_variable(n)]
        if old:
            outs = (g.rng.choice(old),)
    if row.name == "apply":
        outs = tuple(g.fresh() for _ in g.returns[ins[0]])
    call = Call(row.name, outs, ins, attrs, (), g.failing)
    writes = not row.outs or "out" in attrs
    kept = [
        (v, v.val.copy(), v.err if v.err is None else v.err.copy())
        for v in g.machine.env.values()
        if writes and isinstance(v, Array)
    ]
    try:
        g.machine.call(call)
        made = [g.machine.env[n] for n in outs] if not call.fails else []
        written = [g.machine.env.get(n) for n in ins[:1]] if not row.outs else []
        written += [
            v.grad
            for v in g.machine.env.values()
            if isinstance(v, Array) and v.grad is not None and row.name == "backward"
        ]
        if row.name == "backward":
            written = [v for v in written if v.grad is None]
            if not all(
                np.isfinite(np.where(np.isinf(v.err), 0, v.err)).all()
                and np.isinf(v.err).mean() < 0.2
                for v in written
                if v.val.size
            ):
                raise Rejected
        elif not all(is_good(g, x) for x in [*made, *written] if isinstance(x, Array)):
            raise Rejected
    except (model.Ambiguous, Invalid, Rejected):
        for x, val, err in kept:
            x.val[...] = val
            if err is not None:
                x.err[...] = err
        if row.name == "backward":
            raise Broken from None
        g.machine.env.clear()
        g.machine.env.update(env)
        return None
    return [*g.before, call]


class Broken(Exception):
    """The state is no longer what the program says: it ends here."""


def some(g: Drawing, n: int, body: bool) -> list[Call]:
    """About n calls, without blocks."""
    calls: list[Call] = []
    for _ in range(6 * n):
        made = draw(g, body)
        if made is not None:
            calls += made
            if count(tuple(calls)) >= n:
                break
    return calls


def recorded(g: Drawing, n: int) -> list[Call]:
    """Variables, calls that are recorded, a scalar or not at the end, backward."""
    calls: list[Call] = []
    if not g.state.variables() or g.rng.random() < 0.3:
        names = [
            x
            for x in g.state.names()
            if (a := g.of(x))
            and is_float(a.dtype)
            and a.val.size
            and np.isfinite(a.val).all()
            and a.val.base is None
            and a.grad is None
            and a.node is None
        ]
        g.before = []
        shape = g.rng.choice(g.shapes[1:])
        x = (
            g.rng.choice(names)
            if names and g.rng.random() < 0.5
            else g.make(g.main, shape, g.rng.choice(["unit", "positive", "exact"]))
        )
        calls += g.before
        attach = Call(
            "attach_grad", (), (x,), {"grad_req": g.rng.choice(["write", "write", "add"])}
        )
        g.machine.call(attach)
        calls.append(attach)
    attrs: dict[str, Any] = {"train_mode": False} if g.rng.random() < 0.2 else {}
    model.Tape.on, model.Tape.training = True, not attrs
    try:
        x = g.rng.choice(g.state.variables())
        body: list[Call] = []
        start = Call("*", (g.fresh(),), (x, g.rng.choice([2.0, 0.5, -1.5])))
        g.machine.call(start)
        body.append(start)
        for _ in range(3 * n):
            made = draw(g, False)
            body += made or []
            if len(body) >= n:
                break
            if g.rng.random() < 0.06 and not g.nd:
                body += control(g) or []
    finally:
        model.Tape.on = model.Tape.training = False
    calls.append(Call("record", (), (), attrs, tuple(body)))
    heads = g.state.heads()
    if heads:
        head = g.rng.choice(heads[-2:])
        call = Call(
            "backward", (), (head,), {"retain_graph": True} if g.rng.random() < 0.25 else {}
        )
        try:
            g.machine.call(call)
        except (model.Ambiguous, Invalid):
            raise Broken from None
        calls.append(call)
    return calls


def function(
    g: Drawing, params: list[str], given: list[Any], n: int, seen: bool, inside: bool = True
) -> tuple[Any, ...] | None:
    """The body of a function: its calls and the names of its results, made by running it on ``given``."""
    outer, nets = g.machine, g.nets
    g.machine = (
        outer.within(dict(zip(params, given, strict=True)), inside) if seen else outer.alone()
    )
    if not seen:
        g.machine.env.update(zip(params, given, strict=True))
    g.state = State(g.machine)
    g.nets = {}
    try:
        body = [c for c in some(g, n, True)]
        made = [n for n in g.state.names() if n not in params]
        return tuple(body), made, dict(g.machine.env)
    finally:
        g.machine, g.nets = outer, nets
        g.state = State(outer)


def net(g: Drawing, n: int) -> list[Call]:
    """A hybridized block and a call of it."""
    g.before, g.failing = [], False
    ins: list[Any] = [
        g.array(lambda a: a.val.size > 0) or g.make(g.main, g.shape())
        for _ in range(g.rng.choice([1, 2]))
    ]
    calls = list(g.before)
    given = [g.of(x) for x in ins]
    params = [g.fresh("x") for _ in ins]
    like: list[Any] = [(a.shape, a.dtype) for a in given]
    number = g.rng.random() < 0.3
    numbers = g.numbers
    g.numbers = []
    if number:
        params.append(g.fresh("s"))
        ins.append(g.rng.choice([0.5, 2.0, 1.5]))
        like.append(None)
        g.numbers = [params[-1]]
    on = model.Tape.on
    body, made, env = function(g, params, [*given, *ins[len(given) :]], n, False)  # type: ignore[misc]
    g.numbers = numbers
    model.Tape.on = on
    made = [m for m in made if isinstance(env[m], Array)]
    if not made:
        return calls
    returns = tuple(made[-g.rng.choice([1, 1, 2]) :])
    flags = g.rng.choice(
        [{}, {}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}, None]
    )
    name = g.fresh("net")
    define = Call(
        "net", (name,), (), {"params": tuple(params), "returns": returns, "hybridize": flags}, body
    )
    g.machine.call(define)
    g.nets[name] = like
    g.returns[name] = returns
    calls.append(define)
    for _ in range(g.rng.choice([1, 2, 3])):
        call = Call("apply", tuple(g.fresh() for _ in returns), (name, *ins))
        try:
            g.machine.call(call)
        except (model.Ambiguous, Invalid):
            raise Broken from None
        calls.append(call)
    return calls


def loop(g: Drawing, n: int) -> list[Call]:
    """Calls that run with changing numbers."""
    s = g.fresh("s")
    values = g.rng.choice([(0.5, 2.0, 1.5), (1, 2, 3), (2.0, 0.5, 2.0, 0.5), (1.5, 2.5)])
    g.machine.env[s] = values[0]
    g.numbers.append(s)
    calls = some(g, n, False)
    g.numbers.remove(s)
    try:
        for value in values[1:]:
            g.machine.env[s] = value
            g.machine.calls(tuple(calls))
    except (model.Ambiguous, Invalid):
        raise Broken from None
    if not all(is_good(g, g.of(n)) for n in g.state.names()):
        raise Broken
    return [Call("for", (s,), (), {"numbers": values}, tuple(calls))]


def control(g: Drawing) -> list[Call]:
    """npx.foreach, cond or while_loop."""
    kind = g.rng.choice(["foreach", "cond", "while"])
    g.before, g.failing = [], False
    params = [g.fresh("x"), g.fresh("s")]
    if kind == "foreach":
        xs = g.array(
            lambda a: (
                a.val.ndim > 0 and 0 < a.shape[0] <= 8 and is_float(a.dtype) and a.val.size > 0
            )
        ) or g.make(g.main, (3, 2))
        x = g.of(xs)
        state = g.array(
            lambda a: a.shape == x.shape[1:] and a.dtype == x.dtype,
            make=(str(x.dtype), x.shape[1:]),
        )
        calls = list(g.before)
        # Only element-wise arithmetic keeps a state's shape.
        body, out, new = arithmetic(g, params)
        call = Call(
            "npx.foreach",
            (g.fresh(), g.fresh()),
            (xs, state),
            {"params": tuple(params), "returns": (out, new)},
            body,
        )
    elif kind == "cond":
        x = g.array(lambda a: is_float(a.dtype) and a.val.size > 0) or g.make(g.main, (3, 2))
        p = g.make("int32", (1,), "exact")
        calls = list(g.before)
        body, out, _ = arithmetic(g, params[:1] * 2)
        call = Call(
            "npx.cond", (g.fresh(),), (p, x), {"params": (params[0],), "returns": (out,)}, body
        )
    else:
        x = g.array(lambda a: is_float(a.dtype) and a.val.size > 0 and a.val.size < 500) or g.make(
            g.main, (3, 2)
        )
        calls = list(g.before)
        body, out, _ = arithmetic(g, params[:1] * 2)
        times = g.rng.choice([1, 2, 3])
        call = Call(
            "npx.while_loop",
            (g.fresh(), g.fresh()),
            (x,),
            {
                "params": (params[0],),
                "returns": (out,),
                "times": times,
                "most": times + g.rng.choice([0, 2]),
            },
            body,
        )
    try:
        g.machine.call(call)
        if not all(is_good(g, g.of(o)) for o in call.outs):
            raise Rejected
    except (model.Ambiguous, Invalid, Rejected):
        for o in call.outs:
            g.machine.env.pop(o, None)
        return calls
    return [*calls, call]


def arithmetic(g: Drawing, params: list[str]) -> tuple[tuple[Call, ...], str, str]:
    """Two to four element-wise calls of the two parameters."""
    names = list(params)
    body = []
    for _ in range(g.rng.choice([2, 3, 4])):
        row = g.rng.choice(["+", "*", "-", "np.tanh", "np.maximum", "np.sin"])
        second: Any = g.rng.choice([*names, 0.5, 2.0])
        if row == "np.maximum":
            second = g.rng.choice(names)
        ins = (g.rng.choice(names),) if row in ("np.tanh", "np.sin") else (names[-1], second)
        body.append(Call(row, (g.fresh(),), ins))
        names.append(body[-1].outs[0])
    return tuple(body), names[-2], names[-1]


def program(seed: int, mx: Any) -> Program:
    """The program of a seed."""
    g = Drawing(seed)
    g.nets, g.returns = {}, {}  # type: ignore[attr-defined]
    model.begin()
    g.machine.draws = Draws(mx, seed)
    wanted = g.rng.choice([10, 10, 10, 11, 12, 13, 14, 16, 20, 60])
    calls: list[Call] = []
    try:
        for _ in range(g.rng.choice([1, 2])):
            g.before = []
            g.make(g.main, g.shape())
            calls += g.before
        g.before = []
        if not g.nd:
            g.make(g.rng.choice(["bool", "int32", *g.dtypes]), g.shape())
            calls += g.before
        while count(tuple(calls)) < wanted:
            way = g.rng.random()
            if way < 0.12:
                calls += recorded(g, g.rng.choice([3, 5, 8]))
            elif way < 0.16 and not g.nd:
                calls += net(g, g.rng.choice([2, 3, 6]))
            elif way < 0.19 and not g.nd:
                calls += control(g)
            elif way < 0.22:
                calls += loop(g, g.rng.choice([2, 3]))
            else:
                calls += draw(g, False) or []
    except Broken:
        pass
    return Program(seed, tuple(calls))
