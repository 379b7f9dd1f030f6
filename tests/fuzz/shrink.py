"""The fewest calls, and the shortest axes, with which a program still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .machines import Invalid
from .model import Ambiguous
from .program import Call, Program, count, every

Check = Callable[[Program], bool]


def without(calls: tuple[Call, ...], first: int, n: int) -> tuple[Call, ...]:
    """The calls but for n of them from the first-th on, bodies counted."""
    at = -1

    def kept(calls: tuple[Call, ...]) -> tuple[Call, ...]:
        nonlocal at
        found = []
        for c in calls:
            at += 1
            gone = first <= at < first + n
            body = kept(c.body)
            if not gone:
                found.append(c._replace(body=body))
        return tuple(found)

    return kept(calls)


def _replaced(
    calls: tuple[Call, ...], change: Callable[[Call], Call | None]
) -> Iterator[tuple[Call, ...]]:
    """The programs in which one call is another."""
    for at, c in enumerate(calls):
        made = change(c)
        if made is not None and made != c:
            yield (*calls[:at], made, *calls[at + 1 :])
        for body in _replaced(c.body, change):
            yield (*calls[:at], c._replace(body=body), *calls[at + 1 :])


def _unwrapped(calls: tuple[Call, ...]) -> Iterator[tuple[Call, ...]]:
    """The programs in which a block is its calls."""
    for at, c in enumerate(calls):
        if c.row in ("record", "for"):
            head = (
                (Call("number", c.outs, (), {"value": c.attrs["numbers"][0]}),)
                if c.row == "for"
                else ()
            )
            yield (*calls[:at], *head, *c.body, *calls[at + 1 :])


def _renamed(calls: tuple[Call, ...], old: str, new: str) -> tuple[Call, ...]:
    """Calls that take another variable."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        return type(value)(new) if isinstance(value, str) and value == old else value

    return tuple(
        c._replace(
            ins=changed(c.ins),
            attrs={
                k: v if k in ("params", "dtype", "kind", "how") else changed(v)
                for k, v in c.attrs.items()
            },
            body=_renamed(c.body, old, new),
        )
        for c in calls
    )


def _bypassed(calls: tuple[Call, ...]) -> Iterator[tuple[Call, ...]]:
    """The programs in which one of a call's inputs stands for its result."""
    for at, c in enumerate(calls):
        if len(c.outs) == 1 and not c.body:
            for name in dict.fromkeys(a for a in c.ins if isinstance(a, str)):
                yield (*calls[:at], *_renamed(calls[at + 1 :], c.outs[0], name))


def _simpler(c: Call) -> Iterator[Call]:
    attrs = c.attrs
    if c.row == "array":
        shape = attrs["shape"]
        for k, n in enumerate(shape):
            for m in {1, 2, n // 2}:
                if m < n:
                    yield c._replace(attrs={**attrs, "shape": (*shape[:k], m, *shape[k + 1 :])})
        if attrs["kind"] != "exact":
            yield c._replace(attrs={**attrs, "kind": "exact"})
    if c.row == "for" and len(attrs["numbers"]) > 1:
        yield c._replace(attrs={**attrs, "numbers": attrs["numbers"][:-1]})
    if c.row == "net" and attrs["hybridize"]:
        yield c._replace(attrs={**attrs, "hybridize": {}})
    for key in ("keepdims", "retain_graph", "out", "train_mode"):
        if key in attrs:
            yield c._replace(attrs={k: v for k, v in attrs.items() if k != key})


def _lengths(calls: tuple[Call, ...]) -> Iterator[tuple[Call, ...]]:
    """One length of all new arrays, shorter."""
    lengths = {n for c in every(calls) if c.row == "array" for n in c.attrs["shape"]}

    def changed(calls: tuple[Call, ...], n: int, m: int) -> tuple[Call, ...]:
        made = []
        for c in calls:
            attrs = c.attrs
            if "shape" in attrs:
                attrs = {**attrs, "shape": tuple(m if k == n else k for k in attrs["shape"])}
            if attrs.get("num_hidden") == n:
                attrs = {**attrs, "num_hidden": m}
            made.append(c._replace(attrs=attrs, body=changed(c.body, n, m)))
        return tuple(made)

    for n in sorted(lengths, reverse=True):
        for m in (1, 2, 3, n // 2):
            if m < n:
                yield changed(calls, n, m)


def shrunk(program: Program, fails: Check, budget: int = 400) -> Program:
    """A program of the fewest calls; ``fails`` may raise what says that a program means nothing."""

    def holds(calls: tuple[Call, ...]) -> bool:
        nonlocal budget
        if budget <= 0:
            return False
        budget -= 1
        try:
            return fails(Program(program.seed, calls))
        except (Ambiguous, Invalid):
            budget += 1  # cheap
            return False
        except Exception:
            return False

    calls = program.calls
    changed = True
    while changed and budget > 0:
        changed = False
        n = max(1, count(calls) // 2)
        while n:
            at = count(calls) - n
            while at >= 0:
                fewer = without(calls, at, n)
                if fewer != calls and holds(fewer):
                    calls, changed = fewer, True
                    at = min(at, count(calls) - n)
                else:
                    at -= max(1, n // 2)
            n //= 2
        ways: list[Iterator[tuple[Call, ...]]] = [
            _bypassed(calls),
            _unwrapped(calls),
            _lengths(calls),
        ]
        for way in ways:
            for other in way:
                if holds(other):
                    calls, changed = other, True
                    break
        found = True
        while found:
            found = False
            for k in range(6):
                for other in _replaced(
                    calls,
                    lambda c, k=k: next((s for i, s in enumerate(_simpler(c)) if i == k), None),
                ):
                    if holds(other):
                        calls, changed, found = other, True, True
                        break
    return Program(program.seed, calls)


__all__ = ["shrunk"]
