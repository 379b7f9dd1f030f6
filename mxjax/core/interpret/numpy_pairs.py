"""A call and its derivative, where both run: what both compute is computed once.

A derivative begins with what the call computes: softmax once more, a mask's random bits, means and deviations. Where a
segment holds both, on the same operands, the call hands over what its derivative needs of it. A line of NumPy's is the
same as another one where its function is (its code, and all that this holds), and where its operands and sizes are; so
the numbers are the same, to the bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .numpy_code import Body, Code, Line, sizes_of

# So deep functions that hold functions are looked at.
_DEEPEST = 4


class Halves(NamedTuple):
    """The call with what it hands over behind its results, and its derivative with that behind its operands."""

    forward: Callable[..., list[Any]]
    backward: Callable[..., list[Any]]
    #: How many arrays are handed over.
    passed: int


def halves(
    forward: Code, values: Sequence[int], backward: Code, others: Sequence[int]
) -> Halves | None:
    """The two functions, for sizes (`dims.Layout.values`) of each; None where they have nothing in common.

    The derivative's first operands are the call's.
    """
    known: dict[Any, int] = {}
    mine = _names(forward.top, forward, values, known)
    theirs = _names(backward.top, backward, others, known)
    there = {mine[n]: n for line in forward.top.used for n in line.outs}
    kept: list[Line] = []
    same: dict[int, int] = {}  # of results that are there twice
    first: dict[int, int] = {}
    wanted: dict[int, None] = {}
    for line in backward.top.used:
        if all(theirs[n] in there for n in line.outs):
            continue
        if all(theirs[n] in first for n in line.outs):
            same.update((n, first[theirs[n]]) for n in line.outs)
            continue
        first.update((theirs[n], n) for n in line.outs)
        kept.append(line._replace(args=[same.get(n, n) for n in line.args]))
    made = {n for line in backward.top.used for n in line.outs}
    outs = [same.get(n, n) for n in backward.top.outs]
    for n in (*[n for line in kept for n in line.args], *outs):
        if n in made and theirs[n] in there:
            wanted[n] = None
    if not wanted:
        return None
    given = [*forward.top.outs, *[there[theirs[n]] for n in wanted]]
    first_half = forward.top.steps(forward.top.used, forward.top.args, given)
    second_half = backward.top.steps(kept, [*backward.top.args, *wanted], outs)
    return Halves(
        functools.partial(first_half, values), functools.partial(second_half, others), len(wanted)
    )


def _names(body: Body, code: Code, values: Sequence[int], known: dict[Any, int]) -> dict[int, int]:
    """What each number of a body is, by a number that equal ones have in common."""

    def name(key: Hashable) -> int:
        return known.setdefault(key, len(known))

    of = {n: name(("operand", k)) for k, n in enumerate(body.args)}
    for n, value in body.constants.items():
        array = np.asarray(value)
        of[n] = name(("constant", array.dtype.str, array.shape, array.tobytes()))
    for line in body.used:
        sizes = tuple([_key(get(values)) for get in sizes_of(line, code.layout)])
        key = _key(line.fn), tuple([of[n] for n in line.args]), sizes
        of.update((n, name((key, k))) for k, n in enumerate(line.outs))
    return of


def _key(x: Any, deep: int = 0) -> Hashable:
    """What tells a function, or something that it holds, from others: equal only where they do the same."""
    if deep > _DEEPEST:
        return object()
    if isinstance(x, (tuple, list)):
        return (type(x), *[_key(part, deep) for part in x])
    code = getattr(x, "__code__", None)
    if code is not None:
        held = _held(x)
        return (code, *[_key(part, deep + 1) for part in held])
    if isinstance(x, np.generic):
        return x.dtype.str, x.tobytes()
    if isinstance(x, float):
        return float, x.hex()
    try:
        hash(x)
    except TypeError:
        return object()
    return type(x), x


def _held(fn: Callable[..., Any]) -> list[Any]:
    """All that a function's code gets but its arguments and globals; of a method its object, too."""
    cells = getattr(fn, "__closure__", None) or ()
    found: list[Any] = [fn.__defaults__, sorted((fn.__kwdefaults__ or {}).items())]
    found.append(getattr(fn, "__self__", None))
    for cell in cells:
        try:
            found.append(cell.cell_contents)
        except ValueError:  # it holds itself, and is being made
            found.append(object())
    return found
