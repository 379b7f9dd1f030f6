"""Jaxprs as functions of NumPy arrays: what is known beforehand is resolved once, so that a run only computes.

The function is written as Python source, a line for each primitive, so that beside NumPy's own time a primitive
costs a call. Bodies of calls are inlined; what depends on constants alone is computed here; a broadcast that the
next primitive does by itself is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import dims
from .numpy_control import ALL, CONTROL, body_of
from .numpy_primitives import TABLE
from .numpy_rules import NotHere, Op, Rule, spread
from .numpy_shared import ROUNDED, exactly

#: Results of constants with more elements are computed at each run.
_LARGEST_CONSTANT = 4096
#: Rounds that a loop is taken for whose length only its numbers decide.
_ROUNDS = 100


_LOCAL = re.compile(r"\bv\d+\b")


class _Value(NamedTuple):
    """A variable of the jaxpr: its text, the shape of what is there, and the shape that it stands for.

    ``drawn``: made of random bits. ``constant``: its value, where that is known.
    """

    text: str
    there: tuple[Any, ...]
    shape: tuple[Any, ...]
    drawn: bool = False
    constant: Any = None


class Code:
    """A jaxpr for NumPy: ``fn(s, *operands)`` gives a list of the results, for sizes ``s`` of the symbols.

    Raises:
      NotHere: a primitive is not in the table.
    """

    def __init__(self, closed: Any, rules: Mapping[str, Rule] = TABLE):
        self._rules = rules
        self._names: dict[str, Any] = {"min": min, "max": max, "__builtins__": {}}
        self._work: list[str] = []
        self._steps: list[str] = []
        with np.errstate(all="ignore"):
            self.fn = self._function(closed.jaxpr, closed.consts, (False,) * len(closed.jaxpr.invars), "1")
        #: Roughly the operations on numbers, and the calls of NumPy, by the sizes.
        self.work = dims.function("+".join(self._work) or "0")
        self.steps = dims.function("+".join(self._steps) or "0")

    def _name(self, thing: Any, kind: str) -> str:
        name = f"{kind}{len(self._names)}"
        self._names[name] = thing
        return name

    def _function(self, jaxpr: Any, consts: Sequence[Any], drawn: Sequence[bool], times: str) -> Callable[..., Any]:
        if jaxpr.effects:
            raise NotHere("effects")
        body = _Body(self, times)
        given = [f"a{k}" for k in range(len(jaxpr.invars))]
        args = [
            _Value(name, v.aval.shape, v.aval.shape, d) for name, v, d in zip(given, jaxpr.invars, drawn, strict=True)
        ]
        outs = [body.full(o) for o in body.inline(jaxpr, consts, args)]
        body.lines.append((None, f"return [{', '.join(outs)}]"))
        source = f"def run({', '.join(['s', *given])}):\n" + "\n".join("  " + line for line in body.source())
        scope = dict(self._names)
        exec(compile(source, "<numpy>", "exec"), scope)
        made: Callable[..., Any] = scope["run"]
        return made


class _Body:
    """The lines of one function."""

    def __init__(self, code: Code, times: str):
        self.code = code
        self.times = times
        self.lines: list[tuple[list[str] | None, str]] = []
        self._made = 0
        self._full: dict[str, str] = {}

    def source(self) -> list[str]:
        """The lines, each followed by the end of what nobody needs after it."""
        made: list[str] = []
        seen: set[str] = set()
        for targets, line in reversed(self.lines):
            used = [n for n in dict.fromkeys(_LOCAL.findall(line)) if n not in seen]
            unused = [t for t in targets or () if t not in seen]
            seen.update(used)
            if targets is None:
                made.append(line)
                continue
            ended = used + unused
            made.append(f"{', '.join(targets)} = {line}" + (f"; del {', '.join(ended)}" if ended else ""))
        return made[::-1]

    def _new(self) -> str:
        self._made += 1
        return f"v{self._made}"

    def constant(self, value: Any) -> _Value:
        array = np.asarray(value)
        array = array[()] if array.ndim == 0 else array
        return _Value(self.code._name(array, "c"), np.shape(array), np.shape(array), False, array)

    def full(self, v: _Value) -> str:
        """The text of a value with all its lengths there."""
        if v.there == v.shape:
            return v.text
        key = f"{v.text} {dims.text(v.shape)}"
        found = self._full.get(key)
        if found is None:
            found = self._full[key] = self._new()
            self.lines.append(([found], f"{self.code._name(spread, 'f')}({v.text}, {dims.text(v.shape)})"))
        return found

    def inline(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[_Value]) -> list[_Value]:
        env: dict[Any, _Value] = {}

        def value(v: Any) -> _Value:
            if hasattr(v, "val"):
                return self.constant(np.asarray(v.val, v.aval.dtype))
            return env[v]

        for v, c in zip(jaxpr.constvars, consts, strict=True):
            env[v] = self.constant(c)
        env.update(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            env.update(zip(eqn.outvars, self._equation(eqn, [value(v) for v in eqn.invars]), strict=True))
        return [value(v) for v in jaxpr.outvars]

    def _equation(self, eqn: Any, args: list[_Value]) -> list[_Value]:
        body = body_of(eqn)
        if body is not None:
            return self.inline(getattr(body, "jaxpr", body), getattr(body, "consts", ()), args)
        name = eqn.primitive.name
        if name == "broadcast_in_dim" and len(args) == 1:
            return [self._broadcast(eqn, args[0])]
        drawn = any(a.drawn for a in args)
        op = self._op(eqn, args, drawn)
        if op.same:
            return [args[0]]
        drawn = drawn or name == "random_bits" or name == "threefry2x32"
        shapes = [v.aval.shape for v in eqn.outvars]
        if all(a.constant is not None for a in args) and not dims.symbolic_in(op.dims) and ALL not in op.dims:
            found = self._computed(op, args, shapes)
            if found is not None:
                return found
        there = _joint([a.there for a in args]) if op.spreads else None
        if there is None or (there != shapes[0] and len(there) not in (0, len(shapes[0]))):
            there = None
        texts = [a.text for a in args] if there is not None else [self.full(a) for a in args]
        texts += ["s" if d is ALL else dims.text(d) for d in op.dims]
        targets = [self._new() for _ in eqn.outvars]
        call = f"{self.code._name(op.fn, 'f')}({', '.join(texts)})"
        if op.many and len(targets) < 2:
            targets, call = targets or [self._new()], f"{call}[0]" if targets else call
        self.lines.append((targets, call))
        self._count(eqn)
        if there is not None:
            return [_Value(targets[0], there, shapes[0], drawn)]
        return [_Value(t, s, s, drawn) for t, s in zip(targets, shapes, strict=False)]

    def _op(self, eqn: Any, args: Sequence[_Value], drawn: bool) -> Op:
        name = eqn.primitive.name
        control = CONTROL.get(name)
        if control is not None:
            times = self.times
            if name == "scan":
                times += f"*({dims.text(eqn.params['length'])})"
            elif name == "while":
                times += f"*{_ROUNDS}"

            def inner(closed: Any) -> Callable[..., Any]:
                return self.code._function(closed.jaxpr, closed.consts, (drawn,) * len(closed.jaxpr.invars), times)

            return control(eqn, inner)
        if drawn and name in ROUNDED and eqn.invars[0].aval.dtype.kind == "f":
            return Op(exactly(name, tuple(sorted(eqn.params.items()))), spreads=True)
        rule = self.code._rules.get(name)
        if rule is None:
            raise NotHere(f"NumPy does not know {name}")
        return rule(eqn)

    def _computed(self, op: Op, args: Sequence[_Value], shapes: Sequence[Any]) -> list[_Value] | None:
        if any(dims.symbolic_in(s) or np.prod(s, dtype=np.int64) > _LARGEST_CONSTANT for s in shapes):
            return None
        found = op.fn(*[a.constant for a in args], *op.dims)
        outs = list(found) if op.many else [found]
        for a in outs:
            if isinstance(a, np.ndarray):
                a.flags.writeable = False
        return [self.constant(a) for a in outs]

    def _broadcast(self, eqn: Any, x: _Value) -> _Value:
        shape = eqn.params["shape"]
        if not x.there:
            return _Value(x.text, (), shape, x.drawn, x.constant if not shape else None)
        places = tuple(map(int, eqn.params["broadcast_dimensions"]))
        there = [1] * len(shape)
        for at, n in zip(places, x.there, strict=True):
            there[at] = n
        text = x.text
        if tuple(there) != tuple(x.there):
            text = self._new()
            self.lines.append(([text], f"{x.text}.reshape({dims.text(there)})"))
        return _Value(text, tuple(there), tuple(shape), x.drawn)

    def _count(self, eqn: Any) -> None:
        self.code._steps.append(self.times)
        big = max([v.aval.shape for v in (*eqn.outvars, *eqn.invars)], key=len, default=())
        name, p = eqn.primitive.name, eqn.params
        cost = "*".join([f"({dims.text(n)})" for n in (eqn.outvars[0].aval.shape if eqn.outvars else ())]) or "1"
        if name == "dot_general":
            shape = eqn.invars[0].aval.shape
            cost += "".join(f"*({dims.text(shape[k])})" for k in p["dimension_numbers"][0][0]) + "*2"
        elif name.startswith(("reduce_window", "select_and_scatter")):
            cost += "".join(f"*({dims.text(n)})" for n in p["window_dimensions"])
        elif name.startswith(("reduce_", "arg", "scatter", "concatenate")):
            cost = "*".join([f"({dims.text(n)})" for n in big]) or "1"
        elif name in ("sort", "top_k"):
            cost = ("*".join([f"({dims.text(n)})" for n in big]) or "1") + "*16"
        elif name in ROUNDED or name.startswith(("erf", "random_bits", "threefry")):
            cost += "*8"
        self.code._work.append(f"{self.times}*{cost}")


def _joint(shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...] | None:
    """The shape that NumPy makes of these, where that is certain."""
    rank = max(map(len, shapes), default=0)
    made: list[Any] = [1] * rank
    for shape in shapes:
        if len(shape) not in (0, rank):
            return None
        for k, n in enumerate(shape):
            if made[k] is not n and not (type(n) is int and n == 1):
                if not (type(made[k]) is int and made[k] == 1) and not bool(made[k] == n):
                    return None
                made[k] = n
    return tuple(made)

