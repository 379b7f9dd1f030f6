"""Why a program had to be compiled: what is new about it, compared with the most similar program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..calls.segment import Step, Tree
from ..compile import compiler


class _Seen:
    """What earlier compilations were of: hashes alone, so that nothing is kept alive."""

    structures: set[int] = set()
    options: dict[str, dict[str, Any]] = {}
    changed = ""  # the last change of an option that shapes programs


def note(step: Step, live: Sequence[int], device: Any) -> bool:
    """Remember a structure that is being compiled; whether it was before."""
    platform = compiler.platform_of(device)
    options = compiler.options_for(device, ())
    before = _Seen.options.get(platform)
    if before is not None and before != options:
        names = sorted(n for n in before.keys() | options.keys() if before.get(n) != options.get(n))
        _Seen.changed = "; ".join(
            f"option {n}: {options.get(n)!r} instead of {before.get(n)!r}" for n in names
        )
    _Seen.options[platform] = options
    path = [(_name(s), s.avals, s.new_ins, s.args) for s in step.path()]
    key = hash((tuple(path), tuple(live)))
    known = key in _Seen.structures
    if len(_Seen.structures) > 100_000:
        _Seen.structures.clear()
    _Seen.structures.add(key)
    return known


def explain(step: Step, live: Sequence[int], dying: Sequence[int], known: bool) -> str:
    """What is new about a segment: a shape, a dtype, an attribute, a result, an option, or all of it."""
    if step.programs:
        return _variant(step, live, dying)
    if known:
        return _Seen.changed or "compiled before, and dropped since"
    path = step.path()
    names = [_name(s) for s in path]
    best: list[str] | None = None
    for other in _compiled(step.depth, names[0]):
        kin = other.path()
        if other is step or [_name(s) for s in kin] != names:
            continue
        differences = _differences(path, kin)
        if differences and (best is None or len(differences) < len(best)):
            best = differences
    if best is None:
        return "a new segment"
    more = f" and {len(best) - 4} more" if len(best) > 4 else ""
    return "; ".join(best[:4]) + more


def _variant(step: Step, live: Sequence[int], dying: Sequence[int]) -> str:
    """The same calls, but other results are wanted or other inputs may be overwritten."""
    others = list(step.programs)
    near = min(others, key=lambda key: len(set(key[0]) ^ set(live)) + len(set(key[1]) ^ set(dying)))
    names = {s.first + k: s.label for s in step.path() for k in range(len(s.avals))}
    parts = []
    for verb, numbers in (
        ("now held", set(live) - set(near[0])),
        ("no longer held", set(near[0]) - set(live)),
    ):
        if numbers:
            some = ", ".join(names[k] for k in sorted(numbers)[:3])
            more = f" and {len(numbers) - 3} more" if len(numbers) > 3 else ""
            parts.append(f"{verb}: {some}{more}")
    inputs = len(set(dying) ^ set(near[1]))
    if inputs:
        parts.append(f"{inputs} input{'s' * (inputs > 1)} more or fewer may be overwritten")
    return "another set of results or donations: " + "; ".join(parts)


def _differences(path: Sequence[Step], kin: Sequence[Step]) -> list[str]:
    found = []
    ins = [(s, a) for s in path for a in s.new_ins]
    theirs = [a for s in kin for a in s.new_ins]
    if len(ins) == len(theirs):
        for (s, a), b in zip(ins, theirs, strict=True):
            if a.shape != b.shape or a.dtype != b.dtype:
                found.append(f"input of {s.label}: {_text(a)} instead of {_text(b)}")
            elif a.device is not b.device:
                found.append(f"device {a.device} instead of {b.device}")
            elif a.memory != b.memory:
                found.append(
                    f"input of {s.label}: in {a.memory or 'device memory'}, not {b.memory or 'there'}"
                )
    for s, t in zip(path, kin, strict=True):
        one, other = _attributes(s), _attributes(t)
        for name in one.keys() | other.keys():
            if one.get(name) != other.get(name):
                found.append(
                    f"{name} of {s.label}: {one.get(name)!r} instead of {other.get(name)!r}"
                )
    if not found and [s.args for s in path] != [t.args for t in kin]:
        found.append("the same calls with other operands")
    return list(dict.fromkeys(found))


def _text(a: Any) -> str:
    return f"{a.dtype}{list(a.shape)}"


def _compiled(depth: int, opening: str) -> Iterator[Step]:
    """The steps of this depth that end a compiled segment beginning with this operator."""
    for root in list(Tree.roots.values()):
        todo = [s for s in list(root.next.values()) if _name(s) == opening]
        seen: set[int] = set()
        while todo:
            step = todo.pop()
            if id(step) in seen or step.depth > depth:
                continue
            seen.add(id(step))
            if step.depth == depth:
                if step.programs:
                    yield step
            else:
                todo.extend(list(step.next.values()))


def _name(step: Step) -> str:
    return "" if step.call is None else step.call.name


def _attributes(step: Step) -> dict[str, Any]:
    return {} if step.call is None else dict(step.call.attrs)
