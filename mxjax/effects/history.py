"""How arrays were computed: the calls that led to each."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from .. import core, settings
from ..core.calls.call import Call
from ..core.calls.value import Dynamic, Value

#: A chain of calls longer than this loses its beginning: in training every weight has a long one.
LONGEST = 10_000


class _Made:
    """One call in a history, with those before it."""

    __slots__ = ("before", "depth", "line")

    def __init__(self, line: str, before: tuple[_Made, ...]):
        self.line = line
        self.depth: int = 1 + max((made.depth for made in before), default=0)
        self.before = before
        if self.depth > LONGEST:
            self.before, self.depth = (), 1


_made: weakref.WeakKeyDictionary[Value, _Made] = weakref.WeakKeyDictionary()


def apply() -> None:
    """Note calls from now on, or no more; what was noted stays."""
    if settings.get("engine.record_path"):
        core.note_calls(_note)
    else:
        core.end_note(_note)


def _note(call: Call, inputs: Sequence[Any], outs: Sequence[Value]) -> None:
    before = tuple(
        made for v in inputs if type(v) is not Dynamic and (made := _made.get(v)) is not None
    )
    scope = core.local.st.scope
    file, line = core.user_site(2)
    made = _Made(f"{call!r}{f' in {scope}' if scope else ''} at {file}:{line}", before)
    for out in outs:
        _made[out] = made


def history(x: Any) -> list[str]:
    """The lines of the calls that led to an array, oldest first; empty where none were noted."""
    seen: set[int] = set()
    lines: list[str] = []
    first = _made.get(x._value())
    stack: list[tuple[_Made, bool]] = [] if first is None else [(first, False)]
    while stack:
        made, done = stack.pop()
        if done:
            lines.append(made.line)
        elif id(made) not in seen:
            seen.add(id(made))
            stack.append((made, True))
            stack.extend((earlier, False) for earlier in made.before)
    return lines
