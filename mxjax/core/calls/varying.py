"""Which Python numbers change: those are operands of their calls, all others stay part of them.

A number that never changes lets the compiler simplify (``x ** 2``, ``x * 1``). One that does would need a program for
each value: a number seen with a second value, as the same argument of the same operator at the same place in the
code, is an operand there from then on (`Dynamic`). What is learned does not depend on what was recorded before it, so
that one number that is found to change leaves standing what is known of the others.
"""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

_PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
# What stands between the user's code (or a layer's) and a recorded call.
_BETWEEN = tuple(
    os.path.join(_PACKAGE, part) for part in ("core", "array", "ops", "np", "npx", "nd")
)
_LIMIT = 20_000  # so many numbers are remembered
_INT64 = range(-(1 << 63), 1 << 63)

_passed: dict[str, bool] = {}  # file -> whether it is one of those between


def place(depth: int = 2) -> tuple[Any, ...]:
    """The expression in the code that calls an operator: of the user, or of a layer."""
    frame = sys._getframe(depth)
    while True:
        code = frame.f_code
        name = code.co_filename
        between = _passed.get(name)
        if between is None:
            if len(_passed) > _LIMIT:
                _passed.clear()
            between = _passed[name] = name.startswith(_BETWEEN)
        if not between or frame.f_back is None:
            return name, code.co_qualname, code.co_firstlineno, frame.f_lasti
        frame = frame.f_back


def same(s: Any, other: Any) -> bool:
    """Whether two numbers are one: -0.0 is another than 0.0, NaN the same as itself."""
    if s != s:
        return bool(other != other)
    return bool(s == other and (s or math.copysign(1.0, s) == math.copysign(1.0, other)))


def is_negative_zero(s: Any) -> bool:
    """Whether a number is -0.0, which dictionaries do not tell from 0.0."""
    return type(s) is float and not s and math.copysign(1.0, s) < 0


def takes_operand(s: Any) -> bool:
    """Whether a number can be an operand: a float, or an int of 64 bits; no bool."""
    return type(s) is float or (type(s) is int and s in _INT64)


_VARIES: Any = object()
_FIXED: Any = object()


class Numbers:
    """What is known of numbers: the first value of each, until it has another."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: dict[Any, Any] = {}

    def varies(self, which: Any, s: float | int) -> bool:
        """Whether this number (its row, name, place, ...) had another value before; what is new is remembered."""
        key = which, type(s)
        first = self._first.get(key)
        if first is None:
            if len(self._first) > _LIMIT:
                self._first.clear()
            self._first[key] = s
            return False
        if first is _VARIES or first is _FIXED:
            return first is _VARIES
        if same(first, s):
            return False
        self._first[key] = _VARIES
        return True

    def fix(self, which: Any, s: float | int) -> None:
        """This number does not count as one that varies, whatever values it has."""
        self._first[which, type(s)] = _FIXED

    def clear(self) -> None:
        """Forget everything."""
        self._first.clear()


#: Those of calls, of all threads.
of_calls = Numbers()


class Use:
    """What became of a number handed to a block: whether it was asked for, and what later ones must pass."""

    __slots__ = ("asked", "checks")

    def __init__(self) -> None:
        self.asked = False
        self.checks: list[Callable[[Sequence[Any]], None]] = []


class Handed:
    """A number handed to a hybridized block while its graph is recorded: an input of it where an operator takes it.

    ``compute`` gives it, or what Python's arithmetic made of it, from the numbers of a call. Whoever asks for the
    number itself (``math.exp``, ``if``, ``int``) gets it, and `use` hears of it: then it must stay part of the graph.
    """

    __slots__ = ("compute", "use", "value")

    def __init__(self, value: float | int, compute: Callable[[Sequence[Any]], Any], use: Use):
        self.value = value
        self.compute = compute
        self.use = use

    def ask(self) -> float | int:
        """The number itself."""
        self.use.asked = True
        return self.value

    __class__: Any = property(
        lambda self: type(self.value)
    )  # to isinstance it is the number that it is


def _asking(name: str) -> Callable[..., Any]:
    def method(self: Handed, *args: Any) -> Any:
        plain = [a.ask() if type(a) is Handed else a for a in args]
        return getattr(self.ask(), name)(*plain)

    return method


def _computing(fn: Callable[..., Any], reflected: bool = False) -> Callable[..., Any]:
    def method(self: Handed, *others: Any) -> Any:
        if any(type(o) not in (int, float, Handed) for o in others):
            return NotImplemented
        given: list[Any] = [*others, self] if reflected else [self, *others]
        plain = [g.value if type(g) is Handed else g for g in given]
        made = fn(*plain)
        if type(made) is not float and (type(made) is not int or fn is operator.pow):
            for g in given:
                if type(g) is Handed:
                    g.ask()
            return made

        def compute(numbers: Sequence[Any]) -> Any:
            return fn(*[g.compute(numbers) if type(g) is Handed else g for g in given])

        return Handed(made, compute, self.use)

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _fn: Any = getattr(operator, _name)
    setattr(Handed, f"__{_name}__", _computing(_fn))
    setattr(Handed, f"__r{_name}__", _computing(_fn, True))
for _name in ("neg", "pos", "abs"):
    setattr(Handed, f"__{_name}__", _computing(getattr(operator, _name)))
for _name in (
    *(
        "bool",
        "float",
        "int",
        "index",
        "hash",
        "str",
        "repr",
        "format",
        "round",
        "trunc",
        "floor",
        "ceil",
        "divmod",
    ),
    *("eq", "ne", "lt", "le", "gt", "ge", "rdivmod"),
):
    setattr(Handed, f"__{_name}__", _asking(f"__{_name}__"))
