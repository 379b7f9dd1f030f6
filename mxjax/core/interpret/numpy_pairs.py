"""A call and its derivative, where both run: what both compute is computed once.

A derivative begins with what the call computes: softmax once more, a mask's random bits, means and deviations. Where a
segment holds both, on the same operands, the call hands over what its derivative needs of it. A line of NumPy's is the
same as another one where its function is (its code, and all that this holds), and where its operands and sizes are; so
the numbers are the same, to the bit. A loop that keeps more for the gradient (recurrent layers) takes the place of the
call's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .numpy_code import Body, Code, Line, sizes_of
from .numpy_control import Loop

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
    lines = _with_more(forward.top, mine, backward, theirs, others)
    there = {mine[n]: n for line in lines for n in line.outs}
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
    first_half = forward.top.steps(lines, forward.top.args, given)
    second_half = backward.top.steps(kept, [*backward.top.args, *wanted], outs)
    return Halves(
        functools.partial(first_half, values), functools.partial(second_half, others), len(wanted)
    )


def _with_more(
    body: Body, mine: dict[int, int], other: Code, theirs: dict[int, int], values: Sequence[int]
) -> list[Line]:
    """A body's lines, with the derivative's loops instead of those that compute a part of the same.

    ``mine`` and ``theirs`` are names (`_names`); what such a loop makes besides is entered into ``mine``.
    """
    made = list(body.used)
    at = {name: n for n, name in mine.items()}
    for more in other.top.used:
        names = [theirs[n] for n in more.outs]
        if getattr(more.fn, "loop", None) is None or all(name in at for name in names):
            continue
        for k, line in enumerate(made):
            if getattr(line.fn, "loop", None) is None or not line.outs:
                continue
            # What it takes has to be there where the other stands.
            there = {mine[n]: n for n in (*body.args, *body.constants, *line.args)}
            outs = {mine[n]: n for n in line.outs}
            if not (set(outs) <= set(names) and all(theirs[n] in there for n in more.args)):
                continue
            for name in names:
                if name not in outs:
                    outs[name] = -1 - len(mine)
                    mine[outs[name]] = name
                    at[name] = outs[name]
            sizes = [get(values) for get in sizes_of(more, other.layout)]
            args = [there[theirs[n]] for n in more.args]
            made[k] = Line([outs[name] for name in names], _sized(more.fn, sizes), args, [], True)
            break
    return made


def _sized(fn: Callable[..., Any], sizes: Sequence[Any]) -> Callable[..., Any]:
    return lambda *arrays: fn(*arrays, *sizes)


def _names(
    body: Body,
    code: Code,
    values: Sequence[int],
    known: dict[Any, int],
    given: Sequence[int] | None = None,
) -> dict[int, int]:
    """What each number of a body is, by a number that equal ones have in common; ``given``: those of its operands."""

    name = functools.partial(_name, known)
    if given is None:
        given = [name(("operand", k)) for k in range(len(body.args))]
    of = dict(zip(body.args, given, strict=True))
    for n, value in body.constants.items():
        array = np.asarray(value)
        of[n] = name(("constant", array.dtype.str, array.shape, array.tobytes()))
    for line in body.used:
        args = tuple([of[n] for n in line.args])
        loop = getattr(line.fn, "loop", None)
        if loop is not None:
            of.update(zip(line.outs, _of_loop(loop, args, line, code, values, known), strict=True))
            continue
        sizes = tuple([_key(get(values)) for get in sizes_of(line, code.layout)])
        key = _key(line.fn), args, sizes
        of.update((n, name((key, k))) for k, n in enumerate(line.outs))
    return of


def _name(known: dict[Any, int], key: Hashable) -> int:
    return known.setdefault(key, len(known))


def _of_loop(
    loop: Loop,
    args: tuple[int, ...],
    line: Line,
    code: Code,
    values: Sequence[int],
    known: dict[Any, int],
) -> list[int]:
    """The names of a loop's results: each by itself, so that loops may have some in common.

    What is carried is the same in two loops where it begins so and each step makes the same of it.
    """

    name = functools.partial(_name, known)
    first, last = loop.constants, loop.constants + loop.carried
    length = sizes_of(line, code.layout)[0](values)
    turns = loop.reverse, length, args[first:last]
    given = [
        *args[:first],
        *[name(("carried", k, turns)) for k in range(loop.carried)],
        *[name(("row", loop.reverse, length, n)) for n in args[last:]],
    ]
    body = loop.step.body  # type: ignore[attr-defined]
    of = _names(body, code, values, known, given)
    made = [of[n] for n in body.outs]
    steps = "loop", turns, tuple(made[: loop.carried])
    return [
        *[name((steps, k)) for k in range(loop.carried)],
        *[name((steps, "rows", n)) for n in made[loop.carried :]],
    ]


def _key(x: Any, deep: int = 0) -> Hashable:
    """What tells a function, or something that it holds, from others: equal only where they do the same."""
    if deep > _DEEPEST:
        return object()
    if isinstance(x, (tuple, list)):
        return (type(x), *[_key(part, deep) for part in x])
    if isinstance(x, slice):  # not hashable before Python 3.12
        return slice, *[_key(part, deep) for part in (x.start, x.stop, x.step)]
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
