"""Symbolic dimensions: those of JAX, and what follows from their sizes.

A trace with symbolic dimensions serves every size for which what it took for granted holds. JAX calls expressions
unequal that it cannot prove equal, and refuses comparisons of order that it cannot decide: while we trace
(:func:`noting`) the sizes at hand decide these. Both are noted, and `Layout.true` says for which sizes they are true.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._jax_private import find
from ...scopes import scope

_poly: Any = find("shape_poly")
try:
    _Expr: Any = _poly._DimExpr
    _EQUAL: Any = _Expr.__eq__
    _AT_LEAST: Any = _poly._geq_decision
    _UNDECIDED: Any = _poly.InconclusiveDimensionOperation
    _ = (
        _Expr._from_var,
        _poly._SymbolicConstraint,
        _poly.Comparator,
        _poly.SymbolicScope._process_explicit_constraint,
    )
except AttributeError:  # another JAX: nothing is traced with symbols
    _poly = _Expr = _EQUAL = _AT_LEAST = _UNDECIDED = None

#: What JAX raises where it cannot compare dimensions.
UNDECIDED: tuple[type[BaseException], ...] = () if _UNDECIDED is None else (_UNDECIDED,)


def _codes(*names: tuple[str, str]) -> frozenset[Any]:
    """The code of methods of JAX, those of them that there are."""
    methods = (getattr(find(c), f, None) for c, f in names)
    return frozenset(
        code for code in (getattr(f, "__code__", None) for f in methods) if code is not None
    )


#: Where JAX's caches compare keys they hold with one that is looked for: which of them, depends on hashes of addresses.
#: The function that is traced never compares here.
_OF_CACHES = _codes(
    ("ShapedArray", "__new__"),
    ("Static", "__eq__"),
    ("FlatTree", "__eq__"),
)

#: Longer axes than this are traced as they are.
LONGEST = (1 << 31) - 1

_now = (
    threading.local()
)  # while it traces, .noted: what this thread took for granted, .scope: of the trace's symbols
_lock = threading.Lock()


def available() -> bool:
    """Whether this JAX has symbolic dimensions in the form that is known here."""
    return _Expr is not None


def is_symbolic(n: Any) -> bool:
    return _Expr is not None and type(n) is _Expr


class Noted:
    """What a trace takes for granted of its symbols, whose sizes at hand decide what JAX cannot.

    ``unequal``: pairs of dimensions; ``orders``: pairs, and whether the first is at least the second.
    """

    __slots__ = ("_layout", "_sizes", "orders", "unequal")

    def __init__(self, sizes: Sequence[int] = ()):
        self._layout = Layout(len(sizes))
        self._sizes = sizes
        self.unequal: dict[Any, tuple[Any, Any]] = {}
        self.orders: dict[Any, tuple[Any, Any, bool]] = {}

    def __len__(self) -> int:
        return len(self.unequal) + len(self.orders)

    def at_least(self, a: Any, b: Any) -> bool:
        """Whether a is at least b for the sizes at hand, from now on for granted."""
        places = self._layout.place(a), self._layout.place(b)
        made = self._layout.values(self._sizes)
        found = made[places[0]] >= made[places[1]]
        self.orders[hash(a), hash(b)] = a, b, found
        return found


def _equal(self: Any, other: Any) -> bool:
    found: bool = _EQUAL(self, other)
    noted = getattr(_now, "noted", None)
    if noted is not None and not found:
        unequal = noted.unequal
        key = hash(self), hash(other)
        # Caches compare dimensions of other traces, too; those are of another scope. Numbers in caches that
        # are not known here cannot be told from others: such a size gets a trace of its own.
        alike = (
            other.scope is self.scope
            if type(other) is _Expr
            else isinstance(other, (int, np.integer))
        )
        if key not in unequal and alike and self.scope is getattr(_now, "scope", None):
            if sys._getframe(1).f_code not in _OF_CACHES:
                unequal[key] = (self, other)
    return found


def _is_clear(a: Any, b: Any) -> bool:
    """Whether a sum of products of this trace's symbols, each at least 2, is at least a number: JAX takes longer."""
    if type(a) is not _Expr or type(b) is not int or a.scope is not getattr(_now, "scope", None):
        return False
    least = 0
    for term, count in a._sorted_terms:
        product = count
        for factor, power in term._factors:
            if factor.var is None or count < 0:
                return False
            product *= 1 << power
        least += product
    return bool(least >= b)


def _at_least(a: Any, b: Any, text: Any) -> bool:
    if _is_clear(a, b):
        return True
    try:
        return bool(_AT_LEAST(a, b, text))
    except _UNDECIDED:
        noted, scope = getattr(_now, "noted", None), getattr(_now, "scope", None)
        if noted is None or any(type(n) is _Expr and n.scope is not scope for n in (a, b)):
            raise
        return bool(noted.at_least(a, b))


def _true(self: Any) -> bool:
    """Without it an expression that is 0 would be true."""
    return not _equal(self, 0)


_listening: set[int] = set()  # one number for each trace that listens


def _listen(trace: int) -> None:
    """While a trace listens, it hears what JAX assumes of dimensions, and is asked what JAX cannot decide."""
    with _lock:
        _listening.add(trace)
        if _Expr.__eq__ is _EQUAL:
            _Expr.__eq__, _Expr.__bool__, _poly._geq_decision = _equal, _true, _at_least


def _leave(trace: int) -> None:
    """When no trace listens, JAX's dimensions are as JAX has them."""
    with _lock:
        _listening.discard(trace)
        if not _listening and _Expr.__eq__ is not _EQUAL:
            _Expr.__eq__, _poly._geq_decision = _EQUAL, _AT_LEAST
            del _Expr.__bool__


@scope
def noting(
    symbols: Sequence[Any], sizes: Sequence[int] = (), again: Noted | None = None
) -> Iterator[Noted]:
    """What this thread meanwhile takes for granted of dimensions made of these symbols, which have these sizes now.

    ``again``: what it took for granted before, which this goes on with.
    """
    made = Noted(sizes) if again is None else again
    if not symbols:
        yield made
        return
    before = dict(_now.__dict__)

    def undo() -> None:
        _now.__dict__.clear()
        _now.__dict__.update(before)
        _leave(id(made))

    try:
        _listen(id(made))
        _now.noted, _now.scope = made, symbols[0].scope
        yield made
        undo()
    except BaseException:
        undo()
        raise


def symbols(bounds: Sequence[tuple[int, int]]) -> list[Any]:
    """New symbols ``d0``, ``d1``, ... with these bounds, both included."""
    # A scope of its own, or what JAX traced before would be taken over together with what it took for granted.
    scope = jax.export.SymbolicScope()
    made = [_Expr._from_var(f"d{k}", scope) for k in range(len(bounds))]
    for one, (low, high) in zip(made, bounds, strict=True):
        for larger, smaller in ((one, low), (high, one)):
            # What `SymbolicScope` does with its strings, which take it a fifth of a millisecond each.
            rule = _poly._SymbolicConstraint(
                debug_str=f"{larger} >= {smaller}",
                cmp=_poly.Comparator.GEQ,
                e1=larger,
                e2=smaller,
                diff=larger - smaller,
            )
            scope._process_explicit_constraint(rule)
    scope._bounds_cache.clear()
    return made


def symbolic_in(n: Any) -> bool:
    """Whether there is a symbol in a nest of tuples."""
    return any(map(symbolic_in, n)) if isinstance(n, (tuple, list)) else is_symbolic(n)


def are_same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two shapes are known to be equal; nothing is noted."""
    return len(a) == len(b) and all(
        _EQUAL(m, n) if is_symbolic(m) else not is_symbolic(n) and m == n
        for m, n in zip(a, b, strict=True)
    )


class Granted(NamedTuple):
    """Pairs of dimensions that a trace takes for unequal, and for equal; and pairs of which the first is at least the
    second, or is not."""

    apart: tuple[tuple[Any, Any], ...]
    alike: tuple[tuple[Any, Any], ...]
    orders: tuple[tuple[Any, Any, bool], ...]


def granted(noted: Noted, equal: Iterable[tuple[Any, Any]]) -> Granted:
    """What was noted, and that these pairs are equal; without what bounds alone say."""
    return Granted(
        tuple([(a, b) for a, b in noted.unequal.values() if not _never(a, b)]),
        tuple([(a, b) for a, b in equal if is_symbolic(a - b) or a - b != 0]),
        tuple(noted.orders.values()),
    )


Getter = Callable[[Sequence[int]], Any]


class Layout:
    """Where the values of dimensions stand in a list: the sizes of the symbols first, then what follows from them.

    ``getter`` and ``product`` are asked while the list is laid out; ``values`` makes it for given sizes.

    >>> d0, d1 = symbols([(2, 100), (2, 100)])
    >>> layout = Layout(2)
    >>> half = layout.getter((d0 // 2, d1, 1))
    >>> half(layout.values((10, 7)))
    (5, 7, 1)
    """

    def __init__(self, symbols: int):
        self._places: dict[Any, int] = {}
        self._steps: list[Callable[[list[int]], int]] = []
        self._symbols = symbols

    def values(self, sizes: Sequence[int]) -> list[int]:
        made = [*sizes]
        for step in self._steps:
            made.append(step(made))
        return made

    def _enter(self, key: Any, step: Callable[[list[int]], int]) -> int:
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = self._symbols + len(self._steps)
            self._steps.append(step)
        return found

    def place(self, n: Any) -> int:
        """Where a dimension's value stands."""
        if not is_symbolic(n):
            number = int(n)
            return self._enter(number, lambda _: number)
        terms = []
        for term, count in n._sorted_terms:
            factors = [self._factor(f) for f, power in term._factors for _ in range(power)]
            terms.append((count, *factors))
        if len(terms) == 1 and terms[0][0] == 1 and len(terms[0]) == 2:
            return int(terms[0][1])  # a symbol, or one operation
        if len(terms) == 2 and len(terms[0]) == 2 and len(terms[1]) == 1:
            (count, at), (rest,) = terms
            return self._enter(tuple(terms), lambda made: count * made[at] + rest)

        return self._enter(tuple(terms), _summed(terms))

    def _factor(self, factor: Any) -> int:
        if factor.var is not None:
            return int(factor.var[1:])
        a, b = map(self.place, factor.operands)
        fn = _OPERATIONS[factor.operation]

        def step(made: list[int]) -> int:
            return fn(made[a], made[b])

        return self._enter((factor.operation, a, b), step)

    def getter(self, nest: Any) -> Getter:
        """The function that gives a nest of tuples with its values."""
        if not symbolic_in(nest):
            return lambda _: nest
        if not isinstance(nest, (tuple, list)):
            return operator.itemgetter(self.place(nest))
        if any(isinstance(n, (tuple, list)) or n is None for n in nest):
            parts = [self.getter(n) for n in nest]
            return lambda made: tuple([part(made) for part in parts])
        places = [self.place(n) for n in nest]
        if len(places) > 1:
            return operator.itemgetter(*places)
        (only,) = places
        return lambda made: (made[only],)

    def total(self, terms: Sequence[tuple[int, Sequence[Any]]]) -> Callable[[Sequence[int]], int]:
        """The function that gives a sum of products: of a factor and dimensions each."""
        placed: dict[tuple[int, ...], int] = {}
        for factor, factors in terms:
            key = tuple(sorted(self.place(n) for n in factors if is_symbolic(n)))
            known = math.prod(int(n) for n in factors if not is_symbolic(n))
            placed[key] = placed.get(key, 0) + factor * known
        return _summed([(factor, *key) for key, factor in placed.items()])

    def true(self, granted: Granted) -> Callable[[Sequence[int]], bool] | None:
        """Whether what was taken for granted is so; None: it is for all that the symbols stand for."""
        apart = {(self.place(a), self.place(b)) for a, b in granted.apart}
        alike = {(self.place(a), self.place(b)) for a, b in granted.alike}
        orders = {(self.place(a), self.place(b), found) for a, b, found in granted.orders}
        if not apart and not alike and not orders:
            return None
        return lambda made: (
            all(made[a] != made[b] for a, b in apart)
            and all(made[a] == made[b] for a, b in alike)
            and all((made[a] >= made[b]) is found for a, b, found in orders)
        )


def _summed(terms: Sequence[tuple[int, ...]]) -> Callable[[Sequence[int]], int]:
    """The function that gives a sum of products: of a factor and the values at some places each."""

    def total(made: Sequence[int]) -> int:
        result = 0
        for factor, *places in terms:
            for at in places:
                factor *= made[at]
            result += factor
        return result

    return total


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min,
}  # fmt: skip


def _never(a: Any, b: Any) -> bool:
    """Whether bounds alone say that two dimensions differ."""
    difference = a - b
    if not is_symbolic(difference):
        return bool(difference != 0)
    for decide in (lambda: difference > 0, lambda: difference < 0):
        with contextlib.suppress(Exception):  # JAX's error of what it cannot decide
            if decide():
                return True
    return False


@functools.lru_cache(4096)
def bucket(n: int) -> tuple[int, int]:
    """The bounds between powers of two that a size lies in."""
    low = 1 << (n.bit_length() - 1)
    return low, 2 * low - 1
