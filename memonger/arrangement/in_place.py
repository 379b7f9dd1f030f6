"""Results of a backward pass in the place of what they are made of.

XLA's CPU backend gives each elementwise result a place of its own, though one of its operands be read for the last
time; but what a loop carries stays in its place. So the derivative of BatchNorm holds three arrays (the gradient that
it is given, its input, the gradient that it gives), and two where it is written piece by piece over one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
from jax import lax
from jax.extend.core import Literal

from mxjax.core import compiler, images
from mxjax.core.graph.jaxprs import AGAIN, INLINED, bound, evaluate

from ..model.primitives import nbytes
from .late import late

PIECES = 4  # at most, in which a result is written
WORTH = 2**16  # bytes of one that is written so, for the time that compiling a loop takes,
SHARE = 1 / 4  # of the largest such one, beside which others do not count

# An array by another name.
_RENAMING = frozenset("name optimization_barrier reshape squeeze".split())
_POINTWISE = images.POINTWISE - _RENAMING
# Neither computed a second time in the loop that reads it, nor written so: that takes long to compile.
_SLOW = frozenset(
    "acos asin atan cbrt cosh digamma div erf erf_inv erfc exp exp2 expm1 lgamma log log1p logistic pow rem rsqrt sin "
    "sinh sqrt tan tanh".split()
)
# XLA computes their results in the loops that read them.
_INSIDE = frozenset({"pad", "slice"})
# Of one operand, that is smaller: zeros between its elements.
_WIDENING = frozenset({"convolution_strided_transpose"})


def in_place(fn: Callable[..., Any], own: Collection[int], residuals: int) -> Callable[..., tuple[Any, ...]]:
    """A backward pass in which elementwise results take the places of arrays that nothing reads afterwards, and what
    is computed again comes late (:func:`late`).

    Args:
      own: the operands whose place nobody needs besides.
      residuals: so many operands come first and are no gradients.
    """

    def run(*args: Any) -> tuple[Any, ...]:
        if compiler.platform_now() != "cpu":  # other backends reuse an operand's place themselves
            return tuple(fn(*args))
        flat = _flat(jax.make_jaxpr(fn)(*args))
        flat = late(flat, residuals, _Writes(flat.jaxpr, own).arrays)
        return tuple(_run(flat, args, own))

    return run


def overwritten(closed: Any, own: Collection[int]) -> set[tuple[int, int]]:
    """The results of a jaxpr that take the place of one of the operands ``own``, and of which; in pairs."""
    jaxpr = _flat(closed).jaxpr
    writes = _Writes(jaxpr, own, last=True)
    places = {v: k for k, v in enumerate(jaxpr.invars)}
    found = set()
    for k, v in enumerate(jaxpr.outvars):
        while not isinstance(v, Literal) and (w := writes.found.get(writes.maker.get(writes.origin(v), -1))):
            v = writes.origin(w.over[0])
            if v in places:
                found.add((k, places[v]))
    return found


# ---- a jaxpr without calls ------------------------------------------------------------------------------


def _flat(closed: Any) -> Any:
    """A closed jaxpr with the bodies of its calls in their stead; barriers stay where checkpoints have them.

    What crosses a barrier, and is wider than what it is made of, is made behind it.
    """
    wide: dict[int, tuple[Any, Any, Callable[..., list[Any]]]] = {}  # by identity: itself, what it is made of, and how

    def widened(x: Any, make: Callable[..., list[Any]]) -> Any:
        (out,) = make(given=[x])
        wide[id(out)] = out, x, make
        return out

    def barrier(given: Sequence[Any]) -> list[Any]:
        makers = [wide.get(id(x)) for x in given]
        passed = lax.optimization_barrier([m[1] if m else x for x, m in zip(given, makers, strict=True)])
        return [widened(x, m[2]) if m else x for x, m in zip(passed, makers, strict=True)]

    def one(e: Any, given: list[Any]) -> Sequence[Any]:
        kind, params = e.primitive.name, e.params
        with jax.named_scope(str(e.source_info.name_stack)):
            if kind in INLINED:
                return evaluate(params["jaxpr"].jaxpr, params["jaxpr"].consts, given, one)
            if kind == "custom_jvp_call":
                return evaluate(params["call_jaxpr"].jaxpr, params["call_jaxpr"].consts, given, one)
            if kind in AGAIN and params["differentiated"]:
                prevent = params["prevent_cse"]
                tied = [k for k in range(len(given)) if (prevent if isinstance(prevent, bool) else prevent[k])]
                for k, x in zip(tied, barrier([given[k] for k in tied]) if tied else (), strict=True):
                    given[k] = x
                return evaluate(params["jaxpr"], (), given, one)
            if kind == "optimization_barrier":
                return barrier(given)
            if kind in _WIDENING:
                return [widened(given[0], partial(bound, e, params=params))]
            return bound(e, given, params)

    return jax.make_jaxpr(lambda *args: evaluate(closed.jaxpr, closed.consts, args, one))(*closed.in_avals)


def _run(closed: Any, args: Sequence[Any], own: Collection[int]) -> list[Any]:
    """The results of a jaxpr without calls."""
    jaxpr = closed.jaxpr
    writes = _Writes(jaxpr, own).found
    env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))

    def value(v: Any) -> Any:
        return v.val if isinstance(v, Literal) else env[v]

    skipped = {v for w in writes.values() for e, _ in w.products for v in e.outvars}  # made where they are read
    for at, e in enumerate(jaxpr.eqns):
        if at in writes:
            with jax.named_scope(str(e.source_info.name_stack)):
                env[e.outvars[0]] = _written(e.outvars[0], writes[at], env)
        elif skipped.isdisjoint((*e.outvars, *[v for v in e.invars if not isinstance(v, Literal)])):
            with jax.named_scope(str(e.source_info.name_stack)):
                env.update(zip(e.outvars, bound(e, [value(v) for v in e.invars], e.params), strict=True))
        else:
            skipped.update(e.outvars)
    return [value(v) for v in jaxpr.outvars]


class _Write(NamedTuple):
    """A result that takes the place of ``over`` (by all names that are read): the equations that make it of that and
    what else they read, along which axis and in how many pieces; ``before`` comes what is made of ``over`` besides.
    Of ``products`` among these equations a piece is made of a piece of an operand: each with the axes, operand by
    operand, along which that is cut."""

    body: tuple[Any, ...]
    over: tuple[Any, ...]
    reads: tuple[Any, ...]
    axis: int
    pieces: int
    before: tuple[Any, ...]
    products: tuple[tuple[Any, tuple[int | None, ...]], ...]


def _written(out: Any, w: _Write, env: dict[Any, Any]) -> Any:
    """The result, and in ``env`` what came before it."""
    over = env[w.over[0]]
    if w.before:
        over, *before = lax.optimization_barrier((over, *[env[v] for v in w.before]))
        env.update(zip(w.before, before, strict=True))
    reads = {v: env[v] for v in w.reads}
    cuts = {id(e): axes for e, axes in w.products}
    size = out.aval.shape[w.axis] // w.pieces

    def write(k: Any, total: Any) -> Any:
        def cut(x: Any, axis: int | None) -> Any:
            """A piece of an operand, if it has more than one number along this axis."""
            if axis is None or x.shape[axis] == 1:
                return x
            return lax.dynamic_slice_in_dim(x, k * size, size, axis)

        def operand(v: Any) -> Any:
            if isinstance(v, Literal):
                return v.val
            if v not in here:
                here[v] = cut(total if v in w.over else reads[v], w.axis if v.aval.shape else None)
            return here[v]

        here: dict[Any, Any] = {}
        for e in w.body:
            params = e.params
            if id(e) in cuts:
                given = [cut(reads[v], axis) for v, axis in zip(e.invars, cuts[id(e)], strict=True)]
            elif e.primitive.name == "broadcast_in_dim":
                (v,), axes = e.invars, params["broadcast_dimensions"]
                x = v.val if isinstance(v, Literal) else total if v in w.over else reads[v]
                given = [cut(x, axes.index(w.axis) if w.axis in axes else None)]
                params = {**params, "shape": tuple(size if d == w.axis else n for d, n in enumerate(params["shape"]))}
            else:
                given = [operand(v) for v in e.invars]
            here[e.outvars[0]] = bound(e, given, params)[0]
        return lax.dynamic_update_slice_in_dim(total, here[out], k * size, w.axis)

    return lax.fori_loop(0, w.pieces, write, over)


# ---- which results, over what ---------------------------------------------------------------------------


class _Writes:
    """The results in a jaxpr without calls that are written over something, by the places of their equations.

    Where there is a choice, over what was made last. The operands waited for this computation, or (``last``) were just
    made.
    """

    def __init__(self, jaxpr: Any, own: Collection[int], last: bool = False):
        self.eqns = jaxpr.eqns
        self.maker: dict[Any, int] = {v: at for at, e in enumerate(self.eqns) for v in e.outvars}
        self.readers: dict[Any, list[int]] = {}
        self._first: dict[Any, Any] = {}  # of the names that an array has
        self.names: dict[Any, list[Any]] = {}  # the others
        for at, e in enumerate(self.eqns):
            for v in dict.fromkeys(v for v in e.invars if not isinstance(v, Literal)):
                self.readers.setdefault(v, []).append(at)
            if e.primitive.name in _RENAMING:
                for v, w in zip(e.invars, e.outvars, strict=True):
                    if not isinstance(v, Literal):
                        self._first[w] = self.origin(v)
                        self.names.setdefault(self.origin(v), []).append(w)
        self.results = {self.origin(v) for v in jaxpr.outvars if not isinstance(v, Literal)}
        self._waiting = set() if last else set(jaxpr.invars)
        self.foreign = {v for k, v in enumerate(jaxpr.invars) if k not in own}.union(jaxpr.constvars)
        self.arrays = {v for v in self.maker if self._is_array(v)}.union(jaxpr.constvars, jaxpr.invars)
        self._given = len(self.eqns) if last else -1
        self.gone: set[Any] = set()  # what something is written over
        self.more: dict[Any, set[int]] = {}  # readers of arrays that read them instead of what is made of them
        self.found: dict[int, _Write] = {}
        for at in range(len(self.eqns)):
            self._look(at)
        sizes = {at: nbytes(self.eqns[at].outvars[0].aval) for at in self.found}
        self.found = {at: w for at, w in self.found.items() if sizes[at] >= SHARE * max(sizes.values())}

    def origin(self, v: Any) -> Any:
        """The first name of an array."""
        return self._first.get(v, v)

    def _is_array(self, v: Any) -> bool:
        """Whether XLA has it as an array, instead of computing it in the loops that read it."""
        maker, here = self.eqns[self.maker[v]], self.readers.get(v, ())
        if v in self.results or not _pointwise(maker) or not all(_fuses(self.eqns[at]) for at in here):
            return True
        return len(here) > 1 and maker.primitive.name in _SLOW

    def _ends(self, v: Any) -> set[int]:
        """The equations that read an array by any of its names, be it through others that are no arrays."""
        v = self.origin(v)
        found = set(self.more.get(v, ()))
        todo = [v, *self.names.get(v, ())]
        seen = set(todo)
        while todo:
            for at in self.readers.get(todo.pop(), ()):
                e = self.eqns[at]
                if e.primitive.name in _RENAMING:
                    continue
                if not e.outvars or not self.arrays.isdisjoint(e.outvars):
                    found.add(at)
                elif e.outvars[0] not in seen:
                    names = [e.outvars[0], *self.names.get(e.outvars[0], ())]
                    seen.update(names)
                    todo += names
        return found

    def _look(self, at: int) -> None:
        """Whether the result of an equation is written over something."""
        e = self.eqns[at]
        if len(e.outvars) != 1 or e.outvars[0] not in self.arrays or not _pointwise(e):
            return
        (out,) = e.outvars
        pieces = _pieces(out.aval.shape)
        if pieces is None or nbytes(out.aval) < WORTH or e.primitive.name == "broadcast_in_dim":
            return
        body, reads = self._body(at)
        if any(self.eqns[k].primitive.name in _SLOW for k in body):
            return
        makers = {self.eqns[self.maker[v]].primitive.name for v in map(self.origin, reads) if v in self.maker}
        if makers & _INSIDE:  # instead of one array, all that it is made of would be there
            return
        # Several that wait may be made of one, and XLA would make them where they are read.
        if len({self.origin(v) for v in reads if v.aval.shape == out.aval.shape} & self._waiting) > 1:
            return
        products = {v: axes for v in reads if (axes := self._cuts(v, at, pieces[0])) is not None}
        factors = [v for p in products for v in self.eqns[self.maker[p]].invars]
        whole = set(map(self.origin, factors))
        over = self._over(at, [v for v in reads if v not in products and self.origin(v) not in whole])
        if over is None:
            products, factors = {}, []
            over = self._over(at, list(reads))
        if over is None:
            return
        reads.update(dict.fromkeys(factors))
        origin = self.origin(over)
        before = self._ends(over) - {at}
        self.gone.add(origin)
        for r in reads:
            self.more.setdefault(self.origin(r), set()).add(at)
        same = tuple(v for v in reads if self.origin(v) is origin and v.aval.shape == out.aval.shape)
        others = tuple(v for v in reads if v not in same and v not in products)
        body.update(self.maker[v] for v in products)
        eqns = tuple(self.eqns[k] for k in sorted(body))
        within = tuple((self.eqns[self.maker[v]], axes) for v, axes in products.items())
        self.found[at] = _Write(eqns, same, others, *pieces, self._still_read(at, before), within)

    def _over(self, at: int, reads: Sequence[Any]) -> Any:
        """The operand in whose place a result is written."""
        out = self.eqns[at].outvars[0].aval
        fit = [v for v in reads if v.aval.shape == out.shape and v.aval.dtype == out.dtype]
        for v in sorted(fit, key=lambda v: -self.maker.get(self.origin(v), self._given)):
            free = self.origin(v) not in self.foreign | self.gone | self.results
            if free and max(self._ends(v) - {at}, default=-1) < at:
                return v
        return None

    def _cuts(self, v: Any, at: int, axis: int) -> tuple[int | None, ...] | None:
        """The axes along which the operands of a product are cut where a piece of it can be made within an equation,
        which alone reads it; else ``None``."""
        product = self.eqns[self.maker[v]] if v in self.maker else None
        if product is None or v.aval.shape != self.eqns[at].outvars[0].aval.shape:
            return None
        if v in self.results or self.readers[v] != [at]:
            return None
        if any(isinstance(x, Literal) or self.origin(x) in self.gone for x in product.invars):
            return None
        return _product_axes(product, axis)

    def _still_read(self, at: int, eqns: Collection[int]) -> tuple[Any, ...]:
        """What some equations make that is still read behind the one at that place; instead of what is not, what is
        made of it. (Of a barrier XLA drops the others.)"""
        found: dict[Any, None] = {}
        todo = sorted(eqns)
        for k in todo:
            for v in self.eqns[k].outvars:
                readers, origin = self.readers.get(v, ()), self.origin(v)
                later = origin in self.results or max(readers, default=-1) > at
                if later and v in self.arrays and origin not in self.gone:
                    found[v] = None
                else:
                    todo += [r for r in readers if r < at and r not in todo]
        return tuple(found)

    def _body(self, root: int) -> tuple[set[int], dict[Any, None]]:
        """The equations of which a result is made in one loop, and what they read."""
        shape = self.eqns[root].outvars[0].aval.shape
        body: set[int] = set()
        reads: dict[Any, None] = {}
        todo = [root]
        while todo:
            at = todo.pop()
            if at not in body:
                body.add(at)
                for v in self.eqns[at].invars:
                    if not isinstance(v, Literal) and v.aval.shape == shape and self._opens(v, root):
                        todo.append(self.maker[v])
                    elif not isinstance(v, Literal):
                        reads[v] = None
        return body, reads

    def _opens(self, v: Any, root: int) -> bool:
        """Whether an operand is computed in the loop that reads it: where it is no array, or one that need not wait
        for that loop, since all it is made of is there anyway (relu's result, of BatchNorm's input)."""
        if v not in self.arrays:
            return True
        at = self.maker.get(v)
        if at is None or at in self.found or not _pointwise(self.eqns[at]) or self.eqns[at].primitive.name in _SLOW:
            return False
        leaves = [x for x in self._body(at)[1] if x.aval.shape == v.aval.shape]
        return all(self.origin(x) not in self.gone and max(self._ends(x), default=-1) > root for x in leaves)


def _product_axes(e: Any, axis: int) -> tuple[int | None, ...] | None:
    """Along which axes the operands of a product are cut for a piece of it along that one; ``None``: it is none."""
    if e.primitive.name == "convolution_input_gradient":
        # XLA's own convolutions take several times as long in a loop.
        return (0, None) if axis == 0 and e.params["plan"].input_gradient == "cols" else None
    if e.primitive.name != "dot_general":
        return None
    (contracting, _), (batch, other) = e.params["dimension_numbers"]
    if axis < len(batch):
        return batch[axis], other[axis]
    free = [d for d in range(len(e.invars[0].aval.shape)) if d not in (*contracting, *batch)]
    return (free[axis - len(batch)], None) if axis - len(batch) < len(free) else None


def _fuses(e: Any) -> bool:
    """Whether what an equation reads need not be there as an array."""
    return e.primitive.name in images.REDUCING or _pointwise(e)


def _pointwise(e: Any) -> bool:
    """Whether each element of an equation's result comes from one of each operand."""
    if e.primitive.name == "broadcast_in_dim":
        return True
    if e.primitive.name not in _POINTWISE:
        return False
    return all(_spreads(v.aval.shape, e.outvars[0].aval.shape) for v in e.invars)


def _spreads(small: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether an operand of that shape has a number for each element of a result, be it the same for many."""
    return not small or (len(small) == len(shape) and all(a in (1, b) for a, b in zip(small, shape, strict=True)))


def _pieces(shape: Sequence[int]) -> tuple[int, int] | None:
    """An axis, and in how many pieces an array is written along it."""
    pieces = ((axis, n) for axis, size in enumerate(shape) for n in range(PIECES, 1, -1) if size and size % n == 0)
    return next(pieces, None)
