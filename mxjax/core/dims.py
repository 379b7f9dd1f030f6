"""Symbolic dimensions: those of JAX, as source text and small functions of a tuple of sizes.

A trace with symbolic dimensions serves every size for which what it took for granted holds. JAX refuses comparisons
of order that it cannot decide, but calls expressions unequal that it cannot prove equal; what was decided so is noted
while we trace (:func:`noting`), and :func:`condition` says for which sizes it is true.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

try:
    from jax._src.export import shape_poly as _poly

    _Expr: Any = _poly._DimExpr
    _EQUAL: Any = _Expr.__eq__
except (ImportError, AttributeError):  # another JAX: nothing is traced with symbols
    _poly = _Expr = _EQUAL = None  # type: ignore[assignment]

#: Longer axes than this are traced as they are.
LONGEST = (1 << 31) - 1

_now = threading.local()  # while it traces, .noted: what this thread took for unequal, .scope: of the trace's symbols
_lock = threading.Lock()


def available() -> bool:
    """Whether this JAX has symbolic dimensions in the form that is known here."""
    return _Expr is not None


def is_symbolic(n: Any) -> bool:
    return _Expr is not None and type(n) is _Expr


def _install() -> None:
    """From now on symbolic dimensions tell of undecided comparisons, to a thread that listens."""
    with _lock:
        if _Expr.__eq__ is not _EQUAL:
            return

        def equal(self: Any, other: Any) -> bool:
            found: bool = _EQUAL(self, other)
            noted = getattr(_now, "noted", None)
            if noted is not None and not found:
                key = hash(self), hash(other)
                # Caches compare dimensions of other traces, too; those are of another scope.
                alike = other.scope is self.scope if type(other) is _Expr else isinstance(other, (int, np.integer))
                if key not in noted and alike and self.scope is getattr(_now, "scope", None):
                    noted[key] = (self, other)
            return found

        def true(self: Any) -> bool:
            return not equal(self, 0)

        _Expr.__eq__ = equal
        _Expr.__bool__ = true  # without one an expression that is 0 would be true


@contextmanager
def noting(symbols: Sequence[Any]) -> Iterator[dict[Any, tuple[Any, Any]]]:
    """The pairs of dimensions made of these symbols that were taken for unequal meanwhile, by this thread."""
    made: dict[Any, tuple[Any, Any]] = {}
    if not symbols:
        yield made
        return
    _install()
    before = dict(_now.__dict__)
    _now.noted, _now.scope = made, symbols[0].scope
    try:
        yield made
    finally:
        _now.__dict__.clear()
        _now.__dict__.update(before)


def symbols(bounds: Sequence[tuple[int, int]]) -> list[Any]:
    """New symbols ``d0``, ``d1``, ... with these bounds, both included."""
    rules = [f"d{k} >= {low}" for k, (low, _) in enumerate(bounds)]
    rules += [f"d{k} <= {high}" for k, (_, high) in enumerate(bounds)]
    names = ", ".join(f"d{k}" for k in range(len(bounds)))
    # A scope of its own, or what JAX traced before would be taken over together with what it took for granted.
    return list(jax.export.symbolic_shape(f"({names},)", constraints=rules)) if bounds else []


def text(n: Any) -> str:
    """A dimension, a constant, or a nest of tuples of them, as source text over the sizes ``s``."""
    if type(n) is tuple or isinstance(n, list):
        return f"({''.join(text(v) + ',' for v in n)})"
    if is_symbolic(n):
        return "+".join([_term(term, count) for term, count in n._sorted_terms])
    if n is None or isinstance(n, str):
        return repr(n)
    return repr(int(n))


def _term(term: Any, count: int) -> str:
    parts = [] if count == 1 and term._factors else [f"({count})"]
    for factor, power in term._factors:
        if factor.var is not None:
            one = f"s[{int(factor.var[1:])}]"
        else:
            operands = [f"({text(o)})" for o in factor.operands]
            sign = {"floordiv": "//", "mod": "%"}.get(factor.operation)
            one = f"({sign.join(operands)})" if sign else f"{factor.operation}({','.join(operands)})"
        parts += [one] * power
    return "*".join(parts)


def symbolic_in(n: Any) -> bool:
    """Whether there is a symbol in a nest of tuples."""
    return any(map(symbolic_in, n)) if isinstance(n, (tuple, list)) else is_symbolic(n)


def function(source: str) -> Callable[[tuple[int, ...]], Any]:
    """The function of the sizes ``s`` with this source, made of :func:`text`."""
    made: Callable[[tuple[int, ...]], Any] = eval(f"lambda s: {source}", {"__builtins__": {"min": min, "max": max}})
    return made


def condition(noted: dict[Any, tuple[Any, Any]]) -> Callable[[tuple[int, ...]], bool] | None:
    """For which sizes these pairs are unequal indeed; None: for all that the symbols stand for."""
    rules = [f"{text(a)} != {text(b)}" for a, b in noted.values() if not _never(a, b)]
    return function(" and ".join(dict.fromkeys(rules))) if rules else None


def _never(a: Any, b: Any) -> bool:
    """Whether bounds alone say that two dimensions differ."""
    difference = a - b
    if not is_symbolic(difference):
        return bool(difference != 0)
    try:
        return bool(difference > 0)
    except Exception:  # JAX's error of what it cannot decide
        pass
    try:
        return bool(difference < 0)
    except Exception:
        return False


@functools.lru_cache(4096)
def bucket(n: int) -> tuple[int, int]:
    """The bounds between powers of two that a size lies in."""
    low = 1 << (n.bit_length() - 1)
    return low, 2 * low - 1
