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
from .numpy_arrays import order_alone
from .numpy_control import ALL, CONTROL, body_of
from .numpy_primitives import TABLE
from .numpy_rules import NotHere, Op, Rule, dtype_out, spread
from .numpy_shared import ROUNDED, exactly, product_and_sum

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


class _Ref:
    """A variable before it is written: how often it is needed, and the equation that it comes from."""

    __slots__ = ("node", "uses", "value")

    def __init__(self, value: Any = None):
        self.value = value
        self.uses = 0
        self.node: _Node | None = None


class _Node:
    """An equation with its operands and results, bodies of calls inlined."""

    __slots__ = ("args", "drawn", "eqn", "factors", "outs")

    def __init__(self, eqn: Any, args: list[_Ref], outs: list[_Ref]):
        self.eqn = eqn
        self.args = args
        self.outs = outs
        self.drawn = False
        self.factors: list[_Value] = []  # of a product of random numbers


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
            _Ref(_Value(name, v.aval.shape, v.aval.shape, d)) for name, v, d in zip(given, jaxpr.invars, drawn, strict=True)
        ]
        outs = body.written(body.inline(jaxpr, consts, args))
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
        self.nodes: list[_Node] = []
        self.lines: list[tuple[list[str] | None, str]] = []
        self._made = 0
        self._full: dict[str, str] = {}

    def source(self) -> list[str]:
        """The lines, each followed by the end of what nobody needs after it."""
        made: list[str] = []
        seen: set[str] = set()
        for targets, line in reversed(self.lines):
            used = [n for n in dict.fromkeys(_LOCAL.findall(line)) if n not in seen]
            if targets is None:
                seen.update(used)
                made.append(line)
                continue
            unused = [t for t in targets if t not in seen]
            if len(unused) == len(targets):
                continue
            seen.update(used)
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

    def inline(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[_Ref]) -> list[_Ref]:
        """The results of a jaxpr, whose equations join ``nodes``; bodies of calls in their place."""
        env: dict[Any, _Ref] = {}

        def ref(v: Any) -> _Ref:
            if hasattr(v, "val"):
                return _Ref(self.constant(np.asarray(v.val, v.aval.dtype)))
            return env[v]

        for v, c in zip(jaxpr.constvars, consts, strict=True):
            env[v] = _Ref(self.constant(c))
        env.update(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            given = [ref(v) for v in eqn.invars]
            body = body_of(eqn)
            if body is None:
                found = [_Ref() for _ in eqn.outvars]
                self.nodes.append(_Node(eqn, given, found))
            else:
                found = self.inline(getattr(body, "jaxpr", body), getattr(body, "consts", ()), given)
            env.update(zip(eqn.outvars, found, strict=True))
        return [ref(v) for v in jaxpr.outvars]

    def written(self, outs: Sequence[_Ref]) -> list[str]:
        """The texts of these results, after lines for what they need."""
        for o in outs:
            o.uses += 1
        for node in reversed(self.nodes):
            if any(o.uses for o in node.outs):
                for a in node.args:
                    a.uses += 1
        for node in self.nodes:
            if any(o.uses for o in node.outs):
                for o, value in zip(node.outs, self._equation(node), strict=True):
                    o.value = value
                    o.node = node
        return [self.full(o.value) for o in outs]

    def _equation(self, node: _Node) -> list[_Value]:
        eqn, args = node.eqn, [a.value for a in node.args]
        name = eqn.primitive.name
        if name == "broadcast_in_dim" and len(args) == 1:
            return [self._broadcast(eqn, args[0])]
        drawn = any(a.drawn for a in args)
        node.drawn = drawn
        op = self._op(node, args, drawn)
        if op.same:
            return [args[0]]
        drawn = drawn or name in ("random_bits", "threefry2x32")
        shapes = [v.aval.shape for v in eqn.outvars]
        if all(a.constant is not None for a in args) and not dims.symbolic_in(op.dims) and ALL not in op.dims:
            found = self._computed(op, args, shapes)
            if found is not None:
                return found
        if node.drawn and dtype_out(eqn).kind == "f":
            if name in ("add", "sub", "add_any"):
                op, args = self._at_once(node, op)
            elif name == "div" and args[1].constant is not None and not args[1].there:  # XLA has it so
                op, args = Op(np.multiply, spreads=True), [args[0], self.constant(1 / args[1].constant)]
            elif name == "mul":
                args = node.factors = self._factors(node)
        there = _joint([a.there for a in args]) if op.spreads else None
        if there is None or (there != shapes[0] and len(there) not in (0, len(shapes[0]))):
            there = None
        texts = [a.text for a in args] if there is not None else [self.full(a) for a in args]
        texts += ["s" if d is ALL else dims.text(d) for d in op.dims]
        targets = [self._new() for _ in eqn.outvars]
        call = f"{self.code._name(op.fn, 'f')}({', '.join(texts)})"
        if op.many and len(targets) == 1:
            call = f"{call}[0]"
        self.lines.append((targets, call))
        self._count(eqn)
        if there is not None:
            return [_Value(targets[0], there, shapes[0], drawn)]
        return [_Value(t, s, s, drawn) for t, s in zip(targets, shapes, strict=True)]

    def _at_once(self, node: _Node, op: Op) -> tuple[Op, list[_Value]]:
        """A sum with a product that nobody else needs: XLA rounds once, where the processor can."""
        for k, a in enumerate(node.args):
            if a.node is not None and a.node.factors and a.uses == 1:
                made = Op(product_and_sum(node.eqn.primitive.name, k), spreads=True)
                return made, [*a.node.factors, node.args[1 - k].value]
        return op, [a.value for a in node.args]

    def _factors(self, node: _Node) -> list[_Value]:
        """The factors of a product: XLA multiplies those that are broadcast with each other first."""
        shape = node.eqn.outvars[0].aval.shape
        for k, a in enumerate(node.args):
            other = node.args[1 - k].value
            if a.node is not None and a.node.factors and a.uses == 1 and other.there != shape:
                for j, small in enumerate(a.node.factors):
                    there = _joint([small.there, other.there])
                    if small.there != shape and there is not None:
                        text = self._new()
                        call = f"{self.code._name(np.multiply, 'f')}({small.text}, {other.text})"
                        self.lines.append(([text], call))
                        return [_Value(text, there, shape, True), a.node.factors[1 - j]]
        return [a.value for a in node.args]

    def _op(self, node: _Node, args: Sequence[_Value], drawn: bool) -> Op:
        eqn, name = node.eqn, node.eqn.primitive.name
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
        if name == "sort" and len(args) == 2 and not node.outs[0].uses and node.eqn.params["num_keys"] == 1:
            of = node.args[1].node
            at = eqn.params["dimension"]
            if of is not None and of.eqn.primitive.name == "iota" and of.eqn.params["dimension"] == at:
                return order_alone(eqn)
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

