"""Which Python numbers change: those are operands of their calls, all others stay part of them.

A number that never changes lets the compiler simplify (``x ** 2``, ``x * 1``). One that does would need a program for
each value: a number seen with a second value, as the same argument of the same operator at the same place in the
code, is an operand there from then on (`Dynamic`). What is learned does not depend on what was recorded before it, so
that one number that is found to change leaves standing what is known of the others.
"""

from __future__ import annotations

import math
import os
import sys
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What stands between the user's code (or a layer's) and a recorded call.
_BETWEEN = tuple(os.path.join(_PACKAGE, part) for part in ("core", "array", "ops", "np", "npx", "nd"))
_VARIES: Any = object()
_LIMIT = 20_000  # so many numbers are remembered
_INT64 = range(-(1 << 63), 1 << 63)

_first: dict[Any, Any] = {}  # number -> its first value, or _VARIES
_passed: dict[str, bool] = {}  # file -> whether it is one of those between


def place(depth: int = 2) -> tuple[Any, ...]:
    """The expression in the code that calls an operator: of the user, or of a layer, in which block."""
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


def takes_operand(s: Any) -> bool:
    """Whether a number can be an operand: a float, or an int of 64 bits; no bool."""
    return type(s) is float or (type(s) is int and s in _INT64)


def varies(argument: Any, s: float | int) -> bool:
    """Whether this number (its row, name, place, ...) had another value before; what is new is remembered."""
    key = argument, type(s)
    first = _first.get(key)
    if first is _VARIES:
        return True
    if first is None:
        if len(_first) > _LIMIT:
            _first.clear()
        _first[key] = s
        return False
    # -0.0 is another number than 0.0, NaN the same as itself.
    if first == s and (s or math.copysign(1.0, first) == math.copysign(1.0, s)) or (first != first and s != s):
        return False
    _first[key] = _VARIES
    return True


def forget() -> None:
    """Everything learned so far."""
    _first.clear()
