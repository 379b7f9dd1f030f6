"""The random bits of a program, drawn all at once.

Threefry is twenty rounds of five operations: XLA takes 50 ms to compile the bits of one call and 30 ms for its key, and
more where it fuses them with several others that need them. An unrolled network with 40 calls of Dropout took 4.6 s.
All keys of a program are known when it begins, as they come of the device's key and counts, and so are the bits: keys
are made in one array, and the bits of calls of one size are the rows of another, which is compiled once (0.1 s for the
40). A number depends on its key and its place alone, so that they are the same to the last bit.

Many numbers (`LARGE`) stay where they are used: there they need no memory, and are drawn where they are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jax
import numpy as np
from jax import lax

from ..graph.jaxprs import bound, draws, named
from ..graph.primitives import INLINED, KEYS

#: A call that draws more numbers draws them where they are used; and so many are drawn at once in all.
LARGE, MOST = 1 << 16, 1 << 19
LEAST = 3  # so many draws are worth it
_PADDED = 1 << 12  # calls that draw fewer share a block with those that draw up to twice as many
_TINY = 64  # numbers of which a key is made
_CALLS = {
    **dict.fromkeys(INLINED, "jaxpr"),
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}


class _Early:
    """What is known when the program begins: an input, a constant, or a result of an equation of such."""

    __slots__ = ("args", "at", "eqn", "level", "row", "value")

    def __init__(self, eqn: Any, args: tuple[_Early, ...], at: int, value: Any = None):
        self.eqn = eqn
        self.args = args
        self.at = at
        self.value = value
        self.row: tuple[Any, int] | None = None  # the array that it is a row of
        #: How many keys are made of each other on the way.
        self.level: int = max((a.level for a in args), default=0) + (
            eqn is not None and eqn.primitive.name in KEYS
        )


_LATE: Any = object()
_Draw = tuple[_Early, int, int]  # the key, how many bits a number has, how many numbers


def at_once(closed: Any) -> Callable[..., list[Any]] | None:
    """The function of a jaxpr (on a CPU) in which several calls draw random bits, with one draw for them; else None."""
    if not draws(closed.jaxpr) or not jax.config.jax_threefry_partitionable:  # type: ignore[attr-defined]
        return None
    plan = _Plan(closed)
    return plan.run if len(plan.draws) >= LEAST else None


class _Plan:
    def __init__(self, closed: Any):
        self._closed = closed
        self._known: dict[Any, list[_Early]] = {}
        self._draws_in: dict[int, bool] = {}
        self.draws: dict[_Draw, Any] = {}  # the equation that draws each
        given = [
            self._leaf(("in", i), None) if _is_tiny(v.aval) else _LATE
            for i, v in enumerate(closed.jaxpr.invars)
        ]
        self._inputs = given
        self._walk(closed.jaxpr, closed.consts, given, emit=False)
        self._bits: dict[_Draw, Any] = {}

    def run(self, *args: Any) -> list[Any]:
        """What the jaxpr computes, to be traced."""
        given = list(args)
        for i, early in enumerate(self._inputs):
            if early is not _LATE:
                early.value = args[i]
                given[i] = early
        try:
            self._draw()
            outs = self._walk(self._closed.jaxpr, self._closed.consts, given, emit=True)
            return [self._value(x) for x in outs]
        finally:
            self._bits.clear()
            for made in self._known.values():
                for early in made:
                    early.value, early.row = (early.value if early.at < 0 else None), None

    def _walk(
        self, jaxpr: Any, consts: Sequence[Any], given: Sequence[Any], emit: bool
    ) -> list[Any]:
        """Follow a jaxpr: what is early as such, and the rest as `_LATE` or, where it is to be traced, as it is."""
        env: dict[Any, Any] = dict(zip(jaxpr.invars, given, strict=True))
        for v, c in zip(jaxpr.constvars, consts, strict=True):
            env[v] = self._leaf(("const", id(c)), c) if _is_tiny(v.aval) else c if emit else _LATE

        def read(v: Any) -> Any:
            if not hasattr(v, "val"):
                return env[v]
            if _is_tiny(v.aval):
                return self._leaf(
                    ("literal", str(v.aval), str(v.val)), np.asarray(v.val, v.aval.dtype)[()]
                )
            return v.val if emit else _LATE

        for e in jaxpr.eqns:
            env.update(
                zip(e.outvars, self._equation(e, [read(v) for v in e.invars], emit), strict=True)
            )
        return [read(v) for v in jaxpr.outvars]

    def _equation(self, e: Any, args: list[Any], emit: bool) -> Sequence[Any]:
        name = e.primitive.name
        inner = e.params.get(_CALLS.get(name, ""))
        if hasattr(inner, "jaxpr") and self._has_draws(inner.jaxpr):
            with named(e) if emit else nullcontext():
                return self._walk(inner.jaxpr, inner.consts, args, emit)
        if name == "random_bits" and isinstance(args[0], _Early) and not e.invars[0].aval.shape:
            shape = e.params["shape"]
            draw = args[0], e.params["bit_width"], math.prod(shape)
            if not emit:
                self.draws.setdefault(draw, e)
            elif draw in self._bits:
                return [lax.reshape(self._bits[draw], shape)]
        elif args and all(isinstance(a, _Early) for a in args) and _may_be_early(e):
            return self._made(e, tuple(args))
        if not emit:
            return [_LATE] * len(e.outvars)
        with named(e):
            return bound(e, [self._value(a) for a in args], e.params)

    def _has_draws(self, jaxpr: Any) -> bool:
        found = self._draws_in.get(id(jaxpr))
        if found is None:
            found = self._draws_in[id(jaxpr)] = draws(jaxpr)
        return found

    # ---- what is early -----------------------------------------------------------------------------------

    def _leaf(self, name: Any, value: Any) -> _Early:
        return self._known.setdefault(name, [_Early(None, (), -1, value)])[0]

    def _made(self, e: Any, args: tuple[_Early, ...]) -> list[_Early]:
        try:
            key: Any = e.primitive, tuple(sorted(e.params.items())), args
            hash(key)
        except TypeError:
            key = id(e), args
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = [_Early(e, args, k) for k in range(len(e.outvars))]
        return found

    def _value(self, x: Any) -> Any:
        if not isinstance(x, _Early):
            return x
        if x.value is None and x.row is not None:
            x.value = lax.index_in_dim(*x.row, keepdims=False)
        elif x.value is None:
            made = bound(x.eqn, [self._value(a) for a in x.args], x.eqn.params)
            for early in self._made(x.eqn, x.args):
                early.value = made[early.at]
        return x.value

    # ---- keys and blocks ---------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Make the keys, those of each level in one array, and the blocks of bits."""
        blocks = self._blocks()
        in_order = [draw for block in blocks for draw in block]
        for group in _alike([key for key, _, _ in (*in_order, *self.draws)]):
            e = group[0].eqn
            given = [self._row([x.args[k] for x in group]) for k in range(len(e.invars))]
            (made,) = bound(e, given, e.params)
            words = lax.optimization_barrier(jax.random.key_data(made))
            made = jax.random.wrap_key_data(words, impl=jax.random.key_impl(made))
            for k, x in enumerate(group):
                x.row = made, k
        for block in blocks:
            keys = self._row([key for key, _, _ in block])
            most = max(n for _, _, n in block)
            (bits,) = bound(
                self.draws[block[0]], [keys], {**self.draws[block[0]].params, "shape": (most,)}
            )
            bits = lax.optimization_barrier(bits)
            for k, draw in enumerate(block):
                self._bits[draw] = lax.slice(bits, (k, 0), (k + 1, draw[2]))

    def _row(self, xs: Sequence[_Early]) -> Any:
        """Scalars as one array: of sums of a count and an offset, one sum."""
        first = xs[0]
        if all(x is first for x in xs):
            return lax.broadcast(self._value(first), (len(xs),))
        if first.row is not None:
            whole, start = first.row
            if all(
                x.row is not None and x.row[0] is whole and x.row[1] == start + k
                for k, x in enumerate(xs)
            ):
                return lax.slice_in_dim(whole, start, start + len(xs))
        if all(isinstance(x.value, np.generic) for x in xs):
            return np.stack([x.value for x in xs])
        if all(
            x.value is None and x.row is None and _is_plain(x.eqn) and _form(x) == _form(first)
            for x in xs
        ):
            args = [self._row([x.args[k] for x in xs]) for k in range(len(first.args))]
            return bound(first.eqn, args, first.eqn.params)[0]
        return jax.numpy.stack([self._value(x) for x in xs])

    def _blocks(self) -> list[list[_Draw]]:
        found: dict[Any, list[_Draw]] = {}
        room = MOST
        for draw in sorted(self.draws, key=lambda d: d[2]):
            _, width, n = draw
            size = max(1 << (n - 1).bit_length(), 16) if n <= _PADDED else n
            room -= size
            if 0 < n <= LARGE and room >= 0:
                found.setdefault((width, size), []).append(draw)
        return [block for block in found.values() if len(block) > 1]


def _alike(keys: Sequence[_Early]) -> list[list[_Early]]:
    """The calls that make keys on the way to these, those alike together, and each group after what it is made of."""
    found: dict[Any, dict[_Early, None]] = {}
    seen: set[_Early] = set()

    def collect(x: _Early) -> None:
        if x in seen:
            return
        seen.add(x)
        for a in x.args:
            collect(a)
        if x.eqn is not None and x.eqn.primitive.name in KEYS and not x.eqn.invars[0].aval.shape:
            kind = x.level, _form(x)
            found.setdefault(kind, {})[x] = None

    for key in keys:
        collect(key)
    return [
        list(found[kind])
        for kind in sorted(found, key=lambda kind: kind[0])
        if len(found[kind]) > 1
    ]


def _form(x: _Early) -> Any:
    """Equal for those that the same equation computes of other operands."""
    return (
        x.eqn.primitive,
        tuple(sorted(x.eqn.params.items())),
        tuple([str(v.aval) for v in x.eqn.invars]),
    )


def _is_plain(e: Any) -> bool:
    """Whether it computes each number of an array by itself."""
    plain = e is not None and e.primitive.name in ("add", "convert_element_type")
    return plain and not any(v.aval.shape for v in e.invars)


def _may_be_early(e: Any) -> bool:
    return not e.effects and all(_is_tiny(v.aval) for v in e.outvars)


def _is_tiny(aval: Any) -> bool:
    """Whether it may be of what keys are made of: a few whole numbers, or keys."""
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    return (
        shape is not None
        and math.prod(shape) <= _TINY
        and (jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key) or np.dtype(dtype).kind in "biu")
    )


__all__ = ["LARGE", "MOST", "at_once", "draws"]
