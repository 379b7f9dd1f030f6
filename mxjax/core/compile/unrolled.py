"""Loops that the user's Python unrolled, as loops of the program again.

XLA takes some milliseconds for each operation of a program. A cell that is called twenty times in a row, and its
gradient, are forty times the same operations on other operands: here such turns are found in the jaxpr of a program and
become the body of a `lax.scan`. What one turn hands to the next is carried, what each takes anew is stacked, and what
later operations take of each turn is stacked as well, so that the loop of the gradient takes it as it lies.

A loop is not worth it where one fused loop over numbers would do (nothing is multiplied as matrices), and where
much must be copied for it: layers with weights of their own stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..graph.jaxprs import bodies, bound, named
from ..graph.primitives import PRODUCTS, VIEWS

TURNS, SAVED = 4, 120  # from so many turns on, and so many equations that are compiled no more
_COPIED = 16 << 10  # bytes copied in a run for each equation saved
_INPUTS = 4 << 10  # bytes of a program's inputs that may be stacked in all
_LONGEST = 1000  # equations of a turn

_Place = tuple[int, int]  # an equation of the body, and which of its results


@dataclass
class Loop:
    """Turns of the same equations: ``turns`` times ``length`` of them from ``start`` on."""

    start: int
    length: int
    turns: int
    #: The operands of the body, by (equation, operand): a result of so many turns before (0: the same).
    inner: dict[tuple[int, int], tuple[_Place, int]] = field(default_factory=dict)
    #: What the turns up to so many take in the place of results of turns before the first.
    begins: dict[tuple[_Place, int], Any] = field(default_factory=dict)
    #: From outside, by (equation, operand): of each turn.
    outer: dict[tuple[int, int], tuple[Any, ...]] = field(default_factory=dict)
    last: list[_Place] = field(default_factory=list)
    every: list[_Place] = field(default_factory=list)

    @property
    def stop(self) -> int:
        return self.start + self.length * self.turns


def rolled(closed: Any) -> Callable[..., list[Any]] | None:
    """The function of a jaxpr with loops for what is unrolled in it; None where nothing is."""
    if len(closed.jaxpr.eqns) < SAVED:
        return None
    eqns = _views_first(closed.jaxpr)
    loops = sorted(_loops(closed.jaxpr, eqns), key=lambda loop: loop.start)
    if not loops:
        return None

    def run(*args: Any) -> list[Any]:
        return _run(closed, eqns, loops, args)

    return run


# ---- finding ---------------------------------------------------------------------------------------------


def _views_first(jaxpr: Any) -> list[Any]:
    """The equations, those first that take a part of an input: turns that differ in the part alone are alike."""
    early = {*jaxpr.invars, *jaxpr.constvars}
    first, rest = [], []
    for e in jaxpr.eqns:
        if e.primitive.name in VIEWS and all(hasattr(v, "val") or v in early for v in e.invars):
            early.update(e.outvars)
            first.append(e)
        else:
            rest.append(e)
    return first + rest


def _kind(e: Any) -> Any:
    """Equal for equations that compute the same of other operands."""
    params = e.params
    if e.primitive.name in ("custom_jvp_call", "custom_vjp_call"):  # their rules served before
        params = {"call_jaxpr": params.get("call_jaxpr")}
    given = tuple([(str(v.aval), str(v.val)) if hasattr(v, "val") else v.aval for v in e.invars])
    try:
        key = e.primitive, tuple(sorted(params.items())), given, tuple([v.aval for v in e.outvars])
        hash(key)
    except TypeError:
        return id(e)
    return id(e) if e.effects else key


def _repeats(kinds: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Where equations come again: (first, length of a turn, how many are like those one turn before)."""
    for length in range(1, min(len(kinds) // TURNS, _LONGEST) + 1):
        same = kinds[:-length] == kinds[length:]
        edges = np.flatnonzero(np.diff(same, prepend=False, append=False))
        for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if end - first >= max((TURNS - 1) * length, SAVED):
                yield first, length, end - first


def _loops(jaxpr: Any, eqns: Sequence[Any]) -> list[Loop]:
    ids: dict[Any, int] = {}
    kinds = np.array([ids.setdefault(_kind(e), len(ids)) for e in eqns])
    makers = {v: (k, i) for k, e in enumerate(eqns) for i, v in enumerate(e.outvars)}
    readers: dict[Any, list[int]] = {}
    for k, e in enumerate(eqns):
        for v in e.invars:
            if not hasattr(v, "val"):
                readers.setdefault(v, []).append(k)
    for v in jaxpr.outvars:
        if not hasattr(v, "val"):
            readers.setdefault(v, []).append(len(eqns))
    inputs = {*jaxpr.invars, *jaxpr.constvars}
    found: list[Loop] = []
    taken = np.zeros(len(eqns), bool)
    # What saves most first; of turns that are turns themselves the short ones.
    for first, length, like in sorted(
        _repeats(kinds), key=lambda r: (-(r[2] // r[1]) * r[1], r[1])
    ):
        if taken[first : first + length + like].any() or not any(
            map(_multiplies, eqns[first : first + length])
        ):
            continue
        loop = _best(eqns, makers, readers, first, length, like)
        if loop is not None and _pays(loop, eqns, makers, inputs, taken):
            found.append(loop)
            taken[loop.start : loop.stop] = True
    return found


def _multiplies(e: Any) -> bool:
    return e.primitive.name in PRODUCTS or any(
        any(map(_multiplies, b.eqns)) for b in bodies(e.params)
    )


def _best(eqns: Any, makers: Any, readers: Any, first: int, length: int, like: int) -> Loop | None:
    """A loop of as many of the turns as can be: the first ones may take what no other takes."""
    stop = first + length + like
    for turns in range((length + like) // length, TURNS - 1, -1):
        if (turns - 1) * length < SAVED:
            return None
        room = length + like - turns * length
        for start in {stop - turns * length, stop - turns * length - room // 2, first}:
            loop = _loop(eqns, makers, readers, start, length, turns)
            if loop is not None:
                return loop
        if turns <= (length + like) // length - 3:
            return None
    return None


def _loop(eqns: Any, makers: Any, readers: Any, start: int, length: int, turns: int) -> Loop | None:
    loop = Loop(start, length, turns)
    stop = loop.stop
    for k in range(length):
        for a, v in enumerate(eqns[start + k].invars):
            if hasattr(v, "val"):
                continue
            each = [eqns[start + t * length + k].invars[a] for t in range(turns)]
            made = [makers.get(v, (-1, 0)) for v in each]
            at, which = made[-1]
            if at < start:
                if any(m >= start for m, _ in made):
                    return None
                loop.outer[k, a] = tuple(each)
                continue
            place, before = ((at - start) % length, which), turns - 1 - (at - start) // length
            for t, m in enumerate(made):
                if t < before:
                    if (
                        m[0] >= start
                        or loop.begins.setdefault((place, before - t), each[t]) is not each[t]
                    ):
                        return None
                elif m != (start + (t - before) * length + place[0], which):
                    return None
            loop.inner[k, a] = place, before
    for k in range(length):
        for i in range(len(eqns[start + k].outvars)):
            wanted = [
                t
                for t in range(turns)
                if any(r >= stop for r in readers.get(eqns[start + t * length + k].outvars[i], ()))
            ]
            if wanted == [turns - 1]:
                loop.last.append((k, i))
            elif wanted:
                loop.every.append((k, i))
    return loop


def _pays(loop: Loop, eqns: Any, makers: Any, inputs: Any, taken: Any) -> bool:
    """Whether what must be copied is little beside what is not compiled."""
    copied = given = 0
    for each in loop.outer.values():
        if any(v is not each[0] for v in each):
            for v in each:
                copied += _size(v) * (v in inputs or not taken[makers[v][0]])
                given += _size(v) * (v in inputs)
    copied += loop.turns * sum(_size(eqns[loop.start + k].outvars[i]) for k, i in loop.every)
    return given <= _INPUTS and copied <= _COPIED * (loop.turns - 1) * loop.length


def _size(v: Any) -> int:
    shape, dtype = getattr(v.aval, "shape", ()), getattr(v.aval, "dtype", None)
    return math.prod(shape) * getattr(dtype, "itemsize", 8)


# ---- running ---------------------------------------------------------------------------------------------


class _Row:
    """One row of an array, which is cut out when somebody asks for it: alone, or as an array of one row (``kept``)."""

    __slots__ = ("at", "kept", "of")

    def __init__(self, of: Any, at: int, kept: bool = False):
        self.of = of
        self.at = at
        self.kept = kept

    def array(self) -> Any:
        return lax.index_in_dim(self.of, self.at, keepdims=self.kept)


def _row_of(e: Any, given: Sequence[Any]) -> list[_Row] | None:
    """What an equation gives, where that is rows."""
    name, x, params = e.primitive.name, given[0], e.params
    if name == "squeeze" and type(x) is _Row and x.kept and params["dimensions"] == (0,):
        return [_Row(x.of, x.at)]
    if type(x) is _Row or not getattr(x, "shape", ()):
        return None
    if name == "split" and params["axis"] == 0 and {*params["sizes"]} == {1}:
        return [_Row(x, k, kept=True) for k in range(len(e.outvars))]
    if name == "unstack" and params["axis"] == 0:
        return [_Row(x, k) for k in range(len(e.outvars))]
    if (
        name == "slice"
        and params["strides"] is None
        and e.outvars[0].aval.shape == (1, *x.shape[1:])
    ):
        return [_Row(x, params["start_indices"][0], kept=True)]
    return None


def _run(closed: Any, eqns: Sequence[Any], loops: Sequence[Loop], args: Sequence[Any]) -> list[Any]:
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(
        zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True)
    )

    def value(v: Any) -> Any:
        if hasattr(v, "val"):
            return v.val
        found = env[v]
        if type(found) is _Row:
            found = env[v] = found.array()
        return found

    at = 0
    for loop in (*loops, None):
        for e in eqns[at : len(eqns) if loop is None else loop.start]:
            rows = _row_of(e, [env[v] for v in e.invars]) if e.primitive.name in VIEWS else None
            if rows is None:
                with named(e):
                    rows = bound(e, list(map(value, e.invars)), e.params)
            env.update(zip(e.outvars, rows, strict=True))
        if loop is not None:
            _run_loop(loop, eqns, env, value)
            at = loop.stop
    return list(map(value, jaxpr.outvars))


def _run_loop(
    loop: Loop, eqns: Sequence[Any], env: dict[Any, Any], value: Callable[[Any], Any]
) -> None:
    turns, length = loop.turns, loop.length
    body = eqns[loop.stop - length : loop.stop]
    same = {
        where: value(each[0]) for where, each in loop.outer.items() if each.count(each[0]) == turns
    }
    several = {
        each: [env[v] for v in each] for where, each in loop.outer.items() if where not in same
    }
    # A gradient takes rows backwards: then the loop does, and they lie as they are.
    backward = sum(map(_falls, several.values())) > 0
    order = -1 if backward else 1
    stacked = {
        each: _stacked(rows[::order], value, each[::order]) for each, rows in several.items()
    }
    carried = {key: value(v) for key, v in loop.begins.items()}
    for k, i in loop.last:
        aval = body[k].outvars[i].aval
        if ((k, i), 1) not in carried:
            carried[(k, i), 1] = jnp.zeros(aval.shape, aval.dtype)

    def turn(held: Any, given: Any) -> Any:
        made: dict[_Place, Any] = {}

        def operand(k: int, a: int, v: Any) -> Any:
            if hasattr(v, "val"):
                return v.val
            if (k, a) in same:
                return same[k, a]
            inner = loop.inner.get((k, a))
            if inner is None:
                return given[loop.outer[k, a]]
            place, before = inner
            return held[place, before] if before else made[place]

        for k, e in enumerate(body):
            with named(e):
                outs = bound(e, [operand(k, a, v) for a, v in enumerate(e.invars)], e.params)
            made.update({(k, i): out for i, out in enumerate(outs)})
        after = {(place, d): held[place, d - 1] if d > 1 else made[place] for place, d in held}
        return after, {place: made[place] for place in loop.every}

    # JAX sorts the keys of dicts: these are lists.
    keys, groups = list(carried), list(stacked)

    def scan(held: Any, given: Any) -> Any:
        after, rows = turn(
            dict(zip(keys, held, strict=True)), dict(zip(groups, given, strict=True))
        )
        return [after[key] for key in keys], [rows[place] for place in loop.every]

    begun, given = [carried[k] for k in keys], [stacked[g] for g in groups]
    held, rows = lax.scan(scan, begun, given, length=turns, reverse=backward)
    final = dict(zip(keys, held, strict=True))
    for place in loop.last:
        env[body[place[0]].outvars[place[1]]] = final[place, 1]
    for (k, i), row in zip(loop.every, rows, strict=True):
        for t in range(turns):
            at = turns - 1 - t if backward else t
            env[eqns[loop.start + t * length + k].outvars[i]] = _Row(row, at)


def _falls(values: Sequence[Any]) -> int:
    """1 where arrays are rows of one array from its end to its beginning, -1 the other way round."""
    pairs = [
        (a, b)
        for a, b in zip(values, values[1:], strict=False)
        if type(a) is _Row and type(b) is _Row
    ]
    gaps = [a.at - b.at for a, b in pairs if a.of is b.of]
    return gaps.count(1) - gaps.count(-1)


def _stacked(values: Sequence[Any], value: Callable[[Any], Any], each: Sequence[Any]) -> Any:
    """Arrays as the rows of one: of rows that lie in order, or backwards, a part of what they are rows of."""
    pieces = []
    t = 0
    while t < len(values):
        first, end, step = values[t], t + 1, 0
        if type(first) is _Row:
            while end < len(values) and type(values[end]) is _Row and values[end].of is first.of:
                gap = values[end].at - values[end - 1].at
                if abs(gap) != 1 or (step and gap != step):
                    break
                step, end = gap, end + 1
        if step:
            low, high = sorted((first.at, values[end - 1].at))
            piece = lax.slice_in_dim(first.of, low, high + 1)
            piece = lax.expand_dims(piece, (1,)) if first.kept else piece
            pieces.append(piece if step > 0 else lax.rev(piece, (0,)))
        else:
            pieces.append(lax.expand_dims(value(each[t]), (0,)))
        t = end
    return pieces[0] if len(pieces) == 1 else lax.concatenate(pieces, 0)


__all__ = ["SAVED", "TURNS", "rolled"]
