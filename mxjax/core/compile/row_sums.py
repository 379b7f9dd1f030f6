"""Several sums of an image's pixels, of each channel, in one pass over memory.

BatchNorm asks for a sum and for one of squares, and its derivative, behind that of an activation, for two more.
XLA:CPU makes each by itself, and hands them to its library, for which all that is summed (the centred image, the
gradient where the activation let it through) is written first, and read by each. Here such sums of a program are one
loop over pieces of 32 KB: what is summed is made of what lies in memory, a piece at a time, and added to a quarter of a
piece of each sum (to a whole one takes 1.2 to 1.5 times as long: sums are read and written, too). ms of one core with
AVX-512, jax 0.10.2, for two sums behind a select, by XLA and here, before quarters (as long as it takes to read both
operands once: 2.4, 2.1 and 0.4):

    8x56x56x144   10.1 and 3.1     8x112x112x32   11.9 and 3.5     8x14x14x384   1.46 and 0.56

Each number of a piece is a sum of its own, so that sums are more exact than in a row. A loop is one thread's, and XLA's
sums are divided among cores; on two of them loops are still faster, with larger pieces, as a turn costs more there
(BatchNorm and relu with their gradients, ms by XLA, by pieces of 32 and of 256 KB):

    8x56x56x144   14.4, 10.0 and 8.6    8x112x112x32   16.5, 8.5 and 6.6     8x28x28x128   2.5, 2.0 and 1.5

With more than `MOST_CORES` programs stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._jax_private import find
from ..graph.jaxprs import bodies, bound, evaluate, named
from ..graph.primitives import CHEAP, INLINED, POINTWISE
from . import cpu_code, outline
from .compiler_options import cores
from .cpu_product import materialize

PIECE = 32 << 10  # bytes of one array in a turn
SEVERAL = 8  # times as many on several cores
MOST_CORES = 4
LEAST = 8  # turns
_FOLD = 4  # rows of a piece that one row of a sum adds up in a turn
_WIDTH = 512  # numbers side by side, of several pixels where there are fewer channels
_LEAVES = 3  # arrays that a sum reads at most
_TERMS = 48  # equations that are computed anew for a sum at most
_INLINE = 12  # of a call


def pays(shape: Sequence[Any], dtype: Any) -> bool:
    """Whether sums over all but the last axis of such an array are made so, where it has its channels last."""
    sizes = all(isinstance(n, int) for n in shape)
    few = cores() <= MOST_CORES
    return sizes and dtype == np.float32 and few and prod(shape) * 4 >= LEAST * PIECE


# ---- the primitive ---------------------------------------------------------------------------------------


def _terms(jaxpr: Any, given: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """What is summed: equations of single numbers, computed with arrays of a shape."""

    def one(e: Any, args: list[Any]) -> Sequence[Any]:
        whole = [
            jnp.broadcast_to(jnp.asarray(a, v.aval.dtype), shape)
            for a, v in zip(args, e.invars, strict=True)
        ]
        return bound(e, whole, e.params)

    return evaluate(jaxpr.jaxpr, jaxpr.consts, given, one)


def _at_once(*given: Any, jaxpr: Any, shape: tuple[int, ...]) -> list[Any]:
    """As XLA has them: each by itself."""
    return [
        jnp.broadcast_to(t, shape).reshape(-1, shape[-1]).sum(0)
        for t in _terms(jaxpr, given, shape)
    ]


def _piece(shape: tuple[int, ...]) -> int:
    """Bytes of a turn: there are to be `LEAST`."""
    most = PIECE if cores() == 1 else SEVERAL * PIECE
    return max(PIECE, min(most, 4 * prod(shape) // LEAST))


def _divisor(n: int, most: int) -> int:
    return max(d for d in range(1, max(1, min(n, most)) + 1) if n % d == 0)


def _in_pieces(*given: Any, jaxpr: Any, shape: tuple[int, ...]) -> list[Any]:
    channels, pixels = shape[-1], prod(shape[:-1])
    abreast = _divisor(pixels, _WIDTH // channels)
    wide, rows = abreast * channels, pixels // abreast
    high = max(1, _piece(shape) // (4 * wide))
    turns = rows // high
    if turns < LEAST:
        return _at_once(*given, jaxpr=jaxpr, shape=shape)
    given = tuple(
        a.reshape(rows, wide) if a.ndim > 1 else jnp.tile(a, abreast) if a.ndim else a
        for a in given
    )

    def part(start: Any, size: int) -> list[Any]:
        cut = [lax.dynamic_slice_in_dim(a, start, size) if a.ndim > 1 else a for a in given]
        return [jnp.broadcast_to(t, (size, wide)) for t in _terms(jaxpr, cut, (size, wide))]

    fold = _divisor(high, _FOLD)
    few = high // fold

    def turn(k: Any, sums: list[Any]) -> list[Any]:
        for q in range(fold):
            sums = [a + b for a, b in zip(sums, part(k * high + q * few, few), strict=True)]
        return sums

    zeros = [jnp.zeros((few, wide), v.aval.dtype) for v in jaxpr.jaxpr.outvars]
    sums = [a.sum(0) for a in lax.fori_loop(0, turns, turn, zeros)]
    if turns * high < rows:
        rest = part(turns * high, rows - turns * high)
        sums = [a + b.sum(0) for a, b in zip(sums, rest, strict=True)]
    return [a.reshape(abreast, channels).sum(0) for a in sums]


@lru_cache(1)
def primitive() -> Any:
    """Sums over all axes but the last one: of what a jaxpr of single numbers gives of arrays, of vectors of the
    channels, and of numbers."""
    from jax.extend.core import Primitive

    mlir = find("mlir")
    prim = Primitive("row_sums")
    prim.multiple_results = True
    prim.def_impl(jax.jit(_in_pieces, static_argnames=("jaxpr", "shape")))
    prim.def_abstract_eval(_abstract)
    mlir.register_lowering(prim, mlir.lower_fun(_in_pieces, multiple_results=True))
    cpu_code.quick_rules[prim] = mlir.lower_fun(_at_once, multiple_results=True)
    outline.own.add(prim)
    return prim


def _abstract(*given: Any, jaxpr: Any, shape: tuple[int, ...]) -> list[Any]:
    return [
        given[0].update(shape=shape[-1:], dtype=a.dtype, weak_type=False) for a in jaxpr.out_avals
    ]


# ---- where a program has such sums -------------------------------------------------------------------------


@dataclass(eq=False)
class _Equation:
    """One of the program, or of a call in it that is nothing but its body."""

    eqn: Any
    ins: list[Any]  # variables, or literals
    outs: list[Any]
    within: tuple[Any, ...]  # the calls


@dataclass(eq=False)
class _Sum:
    at: int
    out: Any
    leaves: dict[Any, None]  # in memory
    inner: frozenset[Any]  # made anew


@dataclass(eq=False)
class _Group:
    shape: tuple[int, ...]
    sums: list[_Sum] = field(default_factory=list)


class _Name:
    """A variable of a call's body, which may be called several times."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval


def _is_vector(v: Any, channels: int) -> bool:
    """Whether it has a number for each channel, which are last."""
    shape = v.aval.shape
    return not _is_literal(v) and shape[-1:] == (channels,) and prod(shape) == channels


def _is_literal(v: Any) -> bool:
    return hasattr(v, "val")


def merged(closed: Any) -> Callable[..., list[Any]] | None:
    """The function of a jaxpr with sums of pixels made together; None where there are none that gain by it."""
    if cores() > MOST_CORES or not _sums(closed.jaxpr):
        return None
    plan = _Plan(closed)
    return plan.run if plan.groups else None


def _sums(jaxpr: Any) -> bool:
    return any(
        _is_sum(e) or (_is_call(e) and any(map(_sums, bodies(e.params)))) for e in jaxpr.eqns
    )


def _is_call(e: Any) -> bool:
    return e.primitive.name in INLINED or e.primitive.name == "custom_jvp_call"


def _body(e: Any) -> Any:
    return e.params.get("jaxpr") or e.params.get("call_jaxpr")


def _is_sum(e: Any) -> bool:
    """Whether it adds up all pixels; axes of one image alone are left out of a derivative's sums."""
    if e.primitive.name != "reduce_sum":
        return False
    shape, axes = e.invars[0].aval.shape, set(e.params["axes"])
    last = len(shape) - 1
    if not axes or last in axes or not pays(shape, e.invars[0].aval.dtype):
        return False
    return all(d in axes or shape[d] == 1 for d in range(last))


class _Plan:
    def __init__(self, closed: Any):
        self._closed = closed
        self._eqns: list[_Equation] = []
        self._same: dict[Any, Any] = {}  # what a call's body names, as the program does
        self._flatten(closed.jaxpr.eqns, ())
        self._made = {v: k for k, e in enumerate(self._eqns) for v in e.outs}
        self._stored = self._in_memory()
        found = [
            s for k, e in enumerate(self._eqns) if _is_sum(e.eqn) and (s := self._expand(k, e))
        ]
        self.groups = self._grouped(found)

    # ---- the program as a list of equations --------------------------------------------------------------

    def _flatten(
        self, eqns: Sequence[Any], within: tuple[Any, ...], names: dict[Any, Any] | None = None
    ) -> None:
        names = {} if names is None else names

        def of(v: Any) -> Any:
            return v if _is_literal(v) else names.get(v, v)

        for e in eqns:
            body = _body(e) if _is_call(e) else None
            ins = [of(v) for v in e.invars]
            if body is not None and not body.consts and _is_plain(body.jaxpr):
                inner = dict(zip(body.jaxpr.invars, ins, strict=True))
                self._flatten(body.jaxpr.eqns, (*within, e), inner)
                for v, out in zip(e.outvars, body.jaxpr.outvars, strict=True):
                    names[v] = out if _is_literal(out) else inner.get(out, out)
            else:
                outs = [_Name(v.aval) for v in e.outvars]
                names.update(zip(e.outvars, outs, strict=True))
                self._eqns.append(_Equation(e, ins, outs, within))
        if not within:
            self._results = [of(v) for v in self._closed.jaxpr.outvars]

    def _in_memory(self) -> set[Any]:
        """What is written whatever is done here: results, and what is read by more than loops over single numbers."""
        found = {v for v in self._results if not _is_literal(v)}
        for e in self._eqns:
            name = e.eqn.primitive.name
            if name not in POINTWISE and not _is_sum(e.eqn):
                found.update(v for v in e.ins if not _is_literal(v))
        return found

    # ---- what a sum is made of ---------------------------------------------------------------------------

    def _vector(self, v: Any, channels: int) -> Any:
        """Of what an array repeats a vector of its channels, or a number; None where it does not."""
        k = self._made.get(v)
        e = self._eqns[k] if k is not None else None
        if e is None or e.eqn.primitive.name != "broadcast_in_dim" or len(e.ins) != 1:
            return None
        of, dims = e.ins[0], e.eqn.params["broadcast_dimensions"]
        if not of.aval.shape:
            return of
        return of if dims[-1] == len(v.aval.shape) - 1 and _is_vector(of, channels) else None

    def _parts(self, v: Any, shape: tuple[int, ...]) -> list[Any] | None:
        """The operands of the cheap equation that makes an array number by number; None where none does."""
        k = self._made.get(v)
        e = self._eqns[k] if k is not None else None
        if e is None or e.eqn.primitive.name not in CHEAP or len(e.outs) > 1 or e.eqn.effects:
            return None
        if any(i.aval.shape not in ((), shape) and not _is_vector(i, shape[-1]) for i in e.ins):
            return None
        return e.ins

    def _expand(self, at: int, e: _Equation) -> _Sum | None:
        operand = e.ins[0]
        shape = operand.aval.shape
        found = [self._reached(operand, shape, stops) for stops in (True, False)]
        best = min(found, key=lambda made: self._cost(made[0], shape))
        # Of numbers alone nothing is read: XLA multiplies.
        fits = best[0] and self._whole(best[0], shape) <= _LEAVES
        return _Sum(at, e.outs[0], *best) if fits else None

    def _cost(self, leaves: Any, shape: tuple[int, ...]) -> int:
        """Of reading them, in halves of a pass over memory; what would not be in memory is made of others."""
        return sum(
            5 if self._parts(v, shape) is not None and v not in self._stored else 2
            for v in leaves
            if v.aval.shape == shape
        )

    @staticmethod
    def _whole(leaves: Any, shape: tuple[int, ...]) -> int:
        return sum(v.aval.shape == shape for v in leaves)

    def _reached(
        self, operand: Any, shape: tuple[int, ...], stops: bool
    ) -> tuple[dict[Any, None], frozenset[Any]]:
        """Leaves, and what is made of them for the sum. Those made last are taken apart first."""
        leaves: dict[Any, None] = {operand: None}
        inner: set[Any] = set()
        best = leaves, frozenset(inner)
        kept: set[Any] = set()
        while len(inner) < _TERMS:
            open_ = [v for v in leaves if v not in kept and v.aval.shape == shape]
            if not open_:
                break
            v = max(open_, key=lambda v: self._made.get(v, -1))
            vector = self._vector(v, shape[-1])
            parts = [vector] if vector is not None else self._parts(v, shape)
            if parts is None or (stops and vector is None and v in self._stored):
                kept.add(v)
                continue
            after = dict.fromkeys(w for w in leaves if w is not v)
            after.update(dict.fromkeys(w for w in parts if not _is_literal(w)))
            if self._whole(after, shape) > 2 * _LEAVES:
                kept.add(v)
                continue
            leaves = after
            inner.add(v)
            if self._cost(leaves, shape) < self._cost(best[0], shape):
                best = leaves, frozenset(inner)
        return best

    def _grouped(self, sums: list[_Sum]) -> list[_Group]:
        """Those of one shape and of the same arrays, where all is there before the first of them."""
        groups: list[_Group] = []
        for s in sums:
            shape = self._eqns[s.at].ins[0].aval.shape
            own = {v for v in s.leaves if v.aval.shape == shape}
            for g in reversed(groups[-8:]):
                first = g.sums[0]
                theirs = {v for t in g.sums for v in t.leaves if v.aval.shape == shape}
                there = all(self._made.get(v, -1) < first.at for v in s.leaves)
                if g.shape == shape and own & theirs and there and len(own | theirs) <= _LEAVES:
                    g.sums.append(s)
                    break
            else:
                groups.append(_Group(shape, [s]))
        return [g for g in groups if len(g.sums) > 1 or g.sums[0].inner]

    # ---- the program with them -----------------------------------------------------------------------------

    def run(self, *args: Any) -> list[Any]:
        """What the jaxpr computes, to be traced."""
        jaxpr = self._closed.jaxpr
        env: dict[Any, Any] = dict(
            zip((*jaxpr.constvars, *jaxpr.invars), (*self._closed.consts, *args), strict=True)
        )
        groups = {g.sums[0].at: g for g in self.groups}
        # XLA would make what a loop reads for the loop, and once more for whoever else reads it.
        read = {v for g in self.groups for s in g.sums for v in s.leaves if v.aval.shape == g.shape}
        later = {s.at for g in self.groups for s in g.sums}

        def value(v: Any) -> Any:
            return v.val if _is_literal(v) else env[v]

        for k, e in enumerate(self._eqns):
            if k in groups:
                with self._named(e):
                    self._sum(groups[k], value, env)
            elif k not in later:
                with self._named(e):
                    made = bound(e.eqn, [value(v) for v in e.ins], e.eqn.params)
                    made = [
                        materialize(a) if v in read else a
                        for v, a in zip(e.outs, made, strict=True)
                    ]
                env.update(zip(e.outs, made, strict=True))
        return [value(v) for v in self._results]

    @staticmethod
    def _named(e: _Equation) -> ExitStack:
        stack = ExitStack()
        for of in (*e.within, e.eqn):
            stack.enter_context(named(of))
        return stack

    def _sum(self, group: _Group, value: Callable[[Any], Any], env: dict[Any, Any]) -> None:
        inner: set[Any] = set().union(*(s.inner for s in group.sums))
        leaves = list(dict.fromkeys(v for s in group.sums for v in s.leaves if v not in inner))
        # A sum may have stopped where another goes on.
        order = sorted(inner, key=self._made.__getitem__)
        channels = group.shape[-1]

        def numbers(*given: Any) -> list[Any]:
            one = dict(zip(leaves, given, strict=True))

            def of(v: Any) -> Any:
                return jnp.asarray(v.val, v.aval.dtype) if _is_literal(v) else one[v]

            for v in order:
                e = self._eqns[self._made[v]]
                if e.eqn.primitive.name == "broadcast_in_dim":
                    one[v] = of(e.ins[0])
                else:
                    (one[v],) = bound(e.eqn, [of(i) for i in e.ins], e.eqn.params)
            return [of(self._eqns[s.at].ins[0]) for s in group.sums]

        jaxpr = jax.make_jaxpr(numbers)(*[jax.ShapeDtypeStruct((), v.aval.dtype) for v in leaves])
        given = [
            value(v) if v.aval.shape in ((), group.shape) else jnp.reshape(value(v), (channels,))
            for v in leaves
        ]
        made = primitive().bind(*given, jaxpr=jaxpr, shape=group.shape)
        env.update(
            (s.out, jnp.reshape(a, s.out.aval.shape)) for s, a in zip(group.sums, made, strict=True)
        )


def _is_plain(jaxpr: Any) -> bool:
    """Whether a call's body is short, and treats numbers by themselves or sums them."""
    return len(jaxpr.eqns) <= _INLINE and all(
        e.primitive.name in POINTWISE
        or e.primitive.name in ("reduce_sum", "broadcast_in_dim")
        or (_is_call(e) and all(map(_is_plain, bodies(e.params))))
        for e in jaxpr.eqns
    )


__all__ = ["LEAST", "PIECE", "merged", "pays", "primitive"]
