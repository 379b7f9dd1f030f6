"""Jaxprs as functions of NumPy arrays: what is known beforehand is resolved once, so that a run only computes.

The function is a list of steps over a list of places, one for each primitive, so that beside NumPy's own time a
primitive costs a call. Bodies of calls are inlined; what depends on constants alone is computed here; a broadcast that
the next primitive does by itself is left out. A place is taken again when its array is needed no more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..graph.primitives import ROUNDED
from ..run.constants import (
    GROUP,
    GROUP_CALLS,
    NUMBER,
    PATCH,
    PRODUCT,
    SPREAD,
)
from ..run.price import rounds_of
from . import dims
from .numpy_blocks import LARGE, Call, in_blocks
from .numpy_control import ALL, CONTROL, body_of
from .numpy_linalg import LINALG, linear_solve
from .numpy_primitives import TABLE
from .numpy_rules import NotHere, Op, Rule, dtype_out, spread
from .numpy_shared import NUMBERS, exactly, product_and_sum
from .numpy_sorting import order_alone

#: Results of constants with more elements are computed at each run.
_LARGEST_CONSTANT = 4096


class _Value(NamedTuple):
    """A variable of the jaxpr: its number, the shape of what is there, and the shape that it stands for.

    ``drawn``: made of random bits. ``constant``: its value, where that is known.
    """

    at: int
    there: tuple[Any, ...]
    shape: tuple[Any, ...]
    drawn: bool = False
    constant: Any = None


class Line(NamedTuple):
    """One call: ``many`` results are a sequence. ``shape``: of its result, which is made element by element."""

    outs: list[int]
    fn: Callable[..., Any]
    args: list[int]
    dims: list[Any]
    many: bool
    shape: tuple[Any, ...] | None = None


_PRODUCTS = frozenset(("dot_general", "conv_general_dilated"))

#: How often something runs: a factor, and lengths of loops.
Times = tuple[int, tuple[Any, ...]]


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


Function = Callable[..., list[Any]]


class Code:
    """A jaxpr for NumPy: ``fn(values, *operands)`` gives a list of the results, with ``layout``'s values.

    Raises:
      NotHere: a primitive is not among the rules.
    """

    def __init__(
        self,
        closed: Any,
        symbols: int = 0,
        rules: Mapping[str, Rule] = TABLE,
        tracing: Callable[[], Any] = contextlib.nullcontext,
    ):
        self.rules = rules
        self.tracing = tracing  # entered to trace what a primitive of ours is made of
        self.layout = dims.Layout(symbols)
        self.costs: list[tuple[int, Sequence[Any]]] = []
        self.products: list[tuple[int, Sequence[Any]]] = []
        self.arranged: list[tuple[int, Sequence[Any]]] = []
        self.calls: list[tuple[int, Sequence[Any]]] = []
        self.draws = False  # random bits are among the primitives
        self.top: Body  # what it is made of: bodies of loops stand in its lines
        with np.errstate(all="ignore"):
            self.fn = self.function(
                closed.jaxpr, closed.consts, (False,) * len(closed.jaxpr.invars), (1, ())
            )
        #: Roughly the picoseconds of its work on numbers, and the calls of NumPy, by the layout's values.
        self.work = self.layout.total(self.costs)
        #: The same of products of matrices and convolutions, where NumPy asks a library, as a program would.
        self.library = self.layout.total(self.products)
        #: The same of what a convolution's product is arranged from and to.
        self.patches = self.layout.total(self.arranged)
        self.steps = self.layout.total(self.calls)

    def function(
        self, jaxpr: Any, consts: Sequence[Any], drawn: Sequence[bool], times: Times
    ) -> Function:
        """The function of a jaxpr, or of one inside, which runs so many times."""
        if jaxpr.effects:
            raise NotHere("effects")
        body = Body(self, times)
        args = [_Ref(body.value(v.aval.shape, d)) for v, d in zip(jaxpr.invars, drawn, strict=True)]
        outs = body.written(body.inline(jaxpr, consts, args))
        self.top = body
        fn = body.function([a.value.at for a in args], outs)
        fn.body = body  # type: ignore[attr-defined]
        return fn


class Body:
    """The lines of one function; once it is written ``used`` are those that its results (``outs``) need."""

    used: list[Line]
    args: list[int]
    outs: list[int]

    def __init__(self, code: Code, times: Times):
        self.code = code
        self.times = times
        self.nodes: list[_Node] = []
        self.lines: list[Line] = []
        self._made = 0
        self._full: dict[Any, int] = {}
        self.constants: dict[int, Any] = {}

    def _new(self) -> int:
        self._made += 1
        return self._made

    def value(self, shape: tuple[Any, ...], drawn: bool = False) -> _Value:
        return _Value(self._new(), shape, shape, drawn)

    def function(self, args: list[int], outs: list[int]) -> Function:
        """The lines that are needed, as steps; where arrays are large, element-wise ones in blocks."""
        lines = self._needed(outs)
        self.used, self.args, self.outs = lines, args, outs
        run = self.steps(lines, args, outs)
        self.nodes.clear()
        if sum(bool(line.shape) for line in lines) < 2:
            return run
        large: Function | None = None

        def either(values: Sequence[int], *operands: Any) -> list[Any]:
            nonlocal large
            for a in operands:
                if a.size >= LARGE:
                    if large is None:  # most calls never meet such arrays
                        grouped = _grouped(lines, outs)
                        many = len(grouped) < len(lines)
                        large = self.steps(grouped, args, outs) if many else run
                    return large(values, *operands)
            return run(values, *operands)

        either.small = run  # type: ignore[attr-defined]
        return either

    def _needed(self, outs: Sequence[int]) -> list[Line]:
        """The lines that the results come of."""
        needed, lines = set(outs), []
        for line in reversed(self.lines):
            if not needed.isdisjoint(line.outs):
                needed.update(line.args)
                lines.append(line)
        return lines[::-1]

    def steps(self, given_lines: Sequence[Line], args: list[int], outs: list[int]) -> Function:
        """Lines as steps on a list of arrays; a place is taken again when nobody needs what was there."""
        needed = set(outs)
        lines = []
        for line in reversed(given_lines):
            if not needed.isdisjoint(line.outs):
                ended = [n for n in dict.fromkeys(line.args) if n not in needed]
                unused = [n for n in line.outs if n not in needed]
                needed.update(line.args)
                lines.append((line, ended, unused))
        places: dict[int, int] = {}
        start: list[Any] = []
        for n in args:
            places[n] = len(places)
        for n, value in self.constants.items():
            if n in needed:
                places[n] = len(places)
                start.append(value)
        # An array of no axes is an operand in half the time that a number takes.
        arrays: dict[int, int] = {}
        for n in sorted({n for line, *_ in lines if type(line.fn) is np.ufunc for n in line.args}):
            if isinstance(self.constants.get(n), np.generic):
                arrays[n] = len(args) + len(start)
                start.append(np.asarray(self.constants[n]))
        first, free, kept = len(args), [], {*args, *outs, *self.constants}
        count = first + len(start)
        steps = []
        for line, ended, unused in reversed(lines):
            whole = arrays if type(line.fn) is np.ufunc else {}
            given = [whole.get(n, places[n]) for n in line.args]
            free += [places[n] for n in ended if n not in kept]
            for n in line.outs:
                if free:
                    places[n] = free.pop()
                else:
                    places[n], count = count, count + 1
            steps.append(_step(line, given, [places[n] for n in line.outs], self.code.layout))
            free += [places[n] for n in unused]
        start += [None] * (count - first - len(start))
        found = [places[n] for n in outs]
        if len(steps) == 1 and not start[:-1] and first <= 2:
            (line, *_), fn = lines[0], lines[0][0].fn
            if line.args == args and found == [places[line.outs[0]]] and _is_simple(line):
                return lambda values, *operands: [fn(*operands)]

        def run(values: Sequence[int], *operands: Any) -> list[Any]:
            m = [*operands, *start]
            for step in steps:
                step(m, values)
            return [m[k] for k in found]

        return run

    def constant(self, value: Any) -> _Value:
        array = np.asarray(value)
        array = array[()] if array.ndim == 0 else array
        made = self._new()
        self.constants[made] = array
        return _Value(made, np.shape(array), np.shape(array), False, array)

    def full(self, v: _Value) -> int:
        """The number of a value with all its lengths there."""
        if v.there == v.shape:
            return v.at
        key = (v.at, v.shape)
        found = self._full.get(key)
        if found is None:
            found = self._full[key] = self._line(spread, [v.at], [v.shape])
        return found

    def _line(self, fn: Callable[..., Any], args: list[int], sizes: Sequence[Any] = ()) -> int:
        made = self._new()
        self.lines.append(Line([made], fn, args, list(sizes), False))
        return made

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
            body = body_of(eqn, self.code.tracing)
            if body is None:
                found = [_Ref() for _ in eqn.outvars]
                self.nodes.append(_Node(eqn, given, found))
            else:
                found = self.inline(
                    getattr(body, "jaxpr", body), getattr(body, "consts", ()), given
                )
            env.update(zip(eqn.outvars, found, strict=True))
        return [ref(v) for v in jaxpr.outvars]

    def written(self, outs: Sequence[_Ref]) -> list[int]:
        """The numbers of these results, after lines for what they need."""
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
        # Libraries do not round as XLA does: what a product makes of random numbers is no draw any more.
        drawn = any(a.drawn for a in args) and name not in _PRODUCTS
        node.drawn = drawn
        op = self._op(node, args, drawn)
        if op.same:
            return [args[0]]
        if name in ("random_bits", "threefry2x32"):
            self.code.draws = drawn = True
        shapes = [v.aval.shape for v in eqn.outvars]
        if (
            all(a.constant is not None for a in args)
            and not dims.symbolic_in(op.dims)
            and ALL not in op.dims
        ):
            found = self._computed(op, args, shapes)
            if found is not None:
                return found
        if node.drawn and getattr(dtype_out(eqn), "kind", "") == "f":  # keys have no kind
            if name in ("add", "sub", "add_any"):
                op, args = self._at_once(node, op)
            elif (
                name == "div" and args[1].constant is not None and not args[1].there
            ):  # XLA has it so
                op, args = (
                    Op(np.multiply, spreads=True),
                    [args[0], self.constant(1 / args[1].constant)],
                )
            elif name == "mul":
                args = node.factors = self._factors(node)
        there = _joint([a.there for a in args]) if op.spreads else None
        if there is None or (there != shapes[0] and len(there) not in (0, len(shapes[0]))):
            there = None
        given = [a.at for a in args] if there is not None else [self.full(a) for a in args]
        targets = [self._new() for _ in eqn.outvars]
        shape = there if there is not None and not op.dims and not op.many else None
        self.lines.append(Line(targets, op.fn, given, list(op.dims), op.many, shape))
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
                        both = self._line(np.multiply, [small.at, other.at])
                        return [_Value(both, there, shape, True), a.node.factors[1 - j]]
        return [a.value for a in node.args]

    def _op(self, node: _Node, args: Sequence[_Value], drawn: bool) -> Op:
        eqn, name = node.eqn, node.eqn.primitive.name
        control = linear_solve if name == "custom_linear_solve" else CONTROL.get(name)
        if control is not None:
            factor, lengths = self.times
            if name == "scan":
                lengths = (*lengths, eqn.params["length"])
            elif name == "while":
                factor *= rounds_of(eqn, factor > 1)

            def inner(closed: Any) -> Callable[..., Any]:
                inputs = (drawn,) * len(closed.jaxpr.invars)
                return self.code.function(closed.jaxpr, closed.consts, inputs, (factor, lengths))

            return control(eqn, inner)
        if (
            drawn
            and (name in ROUNDED or name in NUMBERS)
            and getattr(eqn.invars[0].aval.dtype, "kind", "") == "f"
        ):
            return Op(exactly(name, tuple(sorted(eqn.params.items()))), spreads=True)
        if (
            name == "sort"
            and len(args) == 2
            and not node.outs[0].uses
            and node.eqn.params["num_keys"] == 1
        ):
            of = node.args[1].node
            at = eqn.params["dimension"]
            if (
                of is not None
                and of.eqn.primitive.name == "iota"
                and of.eqn.params["dimension"] == at
            ):
                return order_alone(eqn)
        rule = self.code.rules.get(name)
        if rule is None:
            raise NotHere(f"NumPy does not know {name}")
        return rule(eqn)

    def _computed(
        self, op: Op, args: Sequence[_Value], shapes: Sequence[Any]
    ) -> list[_Value] | None:
        if any(
            dims.symbolic_in(s) or np.prod(s, dtype=np.int64) > _LARGEST_CONSTANT for s in shapes
        ):
            return None
        found = op.fn(*[a.constant for a in args], *op.dims)
        outs = list(found) if op.many else [found]
        for a in outs:
            if isinstance(a, np.ndarray):
                a.flags.writeable = False
        return [self.constant(a) for a in outs]

    def _broadcast(self, eqn: Any, x: _Value) -> _Value:
        shape = tuple(eqn.params["shape"])
        if not x.there:
            return _Value(x.at, (), shape, x.drawn, None if shape else x.constant)
        places = tuple(map(int, eqn.params["broadcast_dimensions"]))
        there: list[Any] = [1] * len(shape)
        for at, n in zip(places, x.there, strict=True):
            there[at] = n
        at = x.at
        if tuple(there) != tuple(x.there):
            at = self._line(_reshaped, [x.at], [tuple(there)])
        return _Value(at, tuple(there), shape, x.drawn)

    def _count(self, eqn: Any) -> None:
        factor, lengths = self.times
        self.code.calls.append((factor, lengths))
        name, p, each = eqn.primitive.name, eqn.params, NUMBER
        shape: Sequence[Any] = eqn.outvars[0].aval.shape if eqn.outvars else ()
        big: Sequence[Any] = max(
            [v.aval.shape for v in (*eqn.outvars, *eqn.invars)], key=len, default=()
        )
        if name == "dot_general":
            left = eqn.invars[0].aval.shape
            shape, each = (*shape, *[left[k] for k in p["dimension_numbers"][0][0]]), PRODUCT
        elif name == "conv_general_dilated":
            shape, each = self._convolution(eqn, factor, lengths), PRODUCT
        elif name.startswith(("reduce_window", "select_and_scatter")):
            shape = (*shape, *p["window_dimensions"])
        elif name.startswith(("reduce_", "arg", "scatter", "concatenate")):
            shape = big
        elif name in LINALG:
            shape = (*big, big[-1])
        elif name in ("sort", "top_k"):
            shape, factor = eqn.invars[0].aval.shape, factor * 16
        elif name in ROUNDED or name.startswith(("erf", "random_bits", "threefry")):
            factor *= 8
        of = self.code.costs if each is NUMBER else self.code.products
        of.append((factor * each, (*shape, *lengths)))

    def _convolution(self, eqn: Any, factor: int, lengths: Sequence[Any]) -> Sequence[Any]:
        """How many products a convolution has, as lengths; what is beside them is counted here."""
        p, arranged = eqn.params, self.code.arranged
        orders = p["dimension_numbers"]
        x, w, out = (
            [v.aval.shape[k] for k in order]
            for v, order in zip((*eqn.invars, *eqn.outvars), orders, strict=True)
        )
        groups = p["feature_group_count"] * p["batch_group_count"]
        if groups > 1 and not (w[0] == p["feature_group_count"] and w[1] == 1):  # not tap by tap
            self.code.calls.append((factor * groups * GROUP_CALLS, lengths))
            arranged.append((factor * GROUP, (*out, *lengths)))
        if max(p["lhs_dilation"], default=1) > 1:  # zeros are multiplied nowhere
            arranged.append((factor * SPREAD, (x[0], out[1], *w[2:], *x[2:], *lengths)))
            return (*out[:2], *w[1:], *x[2:])
        arranged.append((factor * groups * PATCH, (out[0], *w[1:], *out[2:], *lengths)))
        return (*out, *w[1:])


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape)


def _grouped(lines: Sequence[Line], outs: Sequence[int]) -> list[Line]:
    """The lines, with those in one that are element-wise, have one shape and come one after the other."""
    made: list[Line] = []
    group: list[Line] = []
    wanted: dict[int, int] = {n: 1 for n in outs}  # how many want a value
    for line in lines:
        for n in line.args:
            wanted[n] = wanted.get(n, 0) + 1

    def end() -> None:
        made.extend([_as_one(group, wanted)] if len(group) > 1 else group)
        group.clear()

    for line in lines:
        if line.shape == ():
            made.append(line)  # it takes nothing of the group's, but numbers
            continue
        if not line.shape or (group and group[0].shape != line.shape):
            end()
        (group if line.shape else made).append(line)
    end()
    return made


def _as_one(group: Sequence[Line], wanted: Mapping[int, int]) -> Line:
    """A group as one line; ``wanted``: how many of all lines and results want a value."""
    own = {line.outs[0] for line in group}
    inside: dict[int, int] = {}
    for line in group:
        for n in line.args:
            inside[n] = inside.get(n, 0) + 1
    args = [n for n in inside if n not in own]
    outs = [n for n in sorted(own) if wanted.get(n, 0) > inside.get(n, 0)]
    place, count = {n: k for k, n in enumerate(args)}, len(args)
    left, free = dict(inside), []
    calls = []
    for line in group:
        given = tuple([place[n] for n in line.args])
        for n in line.args:
            left[n] -= 1
            if not left[n] and n in own and n not in outs:  # another one takes its place
                free.append(place[n])
        if free:
            place[line.outs[0]] = free.pop()
        else:
            place[line.outs[0]], count = count, count + 1
        calls.append(Call(line.fn, given, place[line.outs[0]]))
    fn = in_blocks(calls, len(args), count, [place[n] for n in outs])
    return Line(outs, fn, args, [], True)


def _is_simple(line: Line) -> bool:
    """Whether it makes one array of one or two."""
    return not line.dims and not line.many and len(line.outs) == 1 and 1 <= len(line.args) <= 2


def _step(
    line: Line, args: list[int], outs: list[int], layout: dims.Layout
) -> Callable[[list[Any], Any], None]:
    """A call as a function of the list of arrays and the values of dimensions."""
    fn = line.fn
    if not _is_simple(line):
        return _general(line, args, outs, layout)
    (out,) = outs
    if len(args) == 1:
        (a,) = args

        def unary(m: list[Any], values: Any) -> None:
            m[out] = fn(m[a])

        return unary
    a, b = args

    def binary(m: list[Any], values: Any) -> None:
        m[out] = fn(m[a], m[b])

    return binary


def sizes_of(line: Line, layout: dims.Layout) -> list[dims.Getter]:
    """The functions that give what a line takes besides arrays, of the layout's values."""
    return [(lambda values: values) if d is ALL else layout.getter(d) for d in line.dims]


def _general(
    line: Line, args: list[int], outs: list[int], layout: dims.Layout
) -> Callable[[list[Any], Any], None]:
    fn = line.fn
    getters = sizes_of(line, layout)
    if not line.many and len(args) == 1 and len(getters) == 1:
        (a,), (get,), (out,) = args, getters, outs

        def sized(m: list[Any], values: Any) -> None:
            m[out] = fn(m[a], get(values))

        return sized

    def step(m: list[Any], values: Any) -> None:
        found = fn(*[m[k] for k in args], *[get(values) for get in getters])
        if line.many:
            for k, array in zip(outs, found, strict=True):
                m[k] = array
        else:
            m[outs[0]] = found

    return step


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
