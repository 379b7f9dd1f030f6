"""Docstrings as Markdown: sentences, the sections that CONTRIBUTING.md names, and examples."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

SECTIONS = {"Args": "Parameters", "Returns": "Returns", "Yields": "Yields", "Raises": "Raises", "Notes": "Notes",
            "Attributes": "Attributes"}  # fmt: skip

#: Gives the address of a name in backticks, or None.
Find = Callable[[str], "str | None"]


def markdown(text: str, find: Find) -> str:
    """A docstring as Markdown; names in backticks that ``find`` knows become links."""
    text = inspect.cleandoc(text)
    if re.search(r"^(Parameters|Returns|Examples)\n-+$", text, re.M):  # NumPy's own
        return f"```text\n{text}\n```\n"
    return "\n".join(_blocks(text.split("\n"), find)) + "\n"


def _blocks(lines: list[str], find: Find) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        section = SECTIONS.get(line[:-1]) if line.endswith(":") else None
        if section:
            body, at = _indented(lines, at + 1)
            yield f"**{section}**\n"
            yield from _items(body, section, find)
            yield ""
        elif line.startswith(">>>"):
            end = at
            while end < len(lines) and lines[end].strip():
                end += 1
            shown = [re.sub(r"\s*# doctest: .*$", "", one) for one in lines[at:end]]
            yield "```pycon\n" + "\n".join(shown) + "\n```\n"
            at = end
        elif line.startswith("    ") and not (at and lines[at - 1].lstrip().startswith("-")):
            body, at = _indented(lines, at)
            yield "```text\n" + "\n".join(one[4:] for one in body) + "\n```\n"
        else:
            if (
                line.startswith("- ")
                and at
                and lines[at - 1].strip()
                and not lines[at - 1].startswith(("-", " "))
            ):
                yield ""
            yield prose(line, find)
            at += 1


def _indented(lines: list[str], at: int) -> tuple[list[str], int]:
    """The lines from here on that are indented, or blank between such; and where they end."""
    end = at
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" ")):
        end += 1
    body = lines[at:end]
    while body and not body[-1].strip():
        body.pop()
    return body, end


def _items(body: list[str], section: str, find: Find) -> Iterator[str]:
    """A section's entries, as a list: each begins at the least indentation."""
    step = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    entries: list[list[str]] = []
    for line in body:
        deeper = line[step : step + 1] == " "
        if entries and (deeper or not line.strip() or section in ("Returns", "Yields")):
            entries[-1].append(line.strip())
        else:
            entries.append([line.strip()])
    for entry in entries:
        text = " ".join(" ".join(entry).split())
        if section in ("Notes", "Returns", "Yields"):
            yield f"- {prose(text, find)}" if section == "Notes" else prose(text, find)
            continue
        head, colon, words = text.partition(": ")
        if not colon:
            yield f"- {prose(text, find)}"
            continue
        names, _, kind = head.partition(" (")
        kind = (
            f" ({prose(kind[:-1], find)})"
            if kind.endswith(")")
            else f" ({prose(kind, find)}"
            if kind
            else ""
        )
        shown = ", ".join(f"`{name.strip('` ')}`" for name in names.split(","))
        yield f"- {shown}{kind}: {prose(words, find)}"


def prose(line: str, find: Find) -> str:
    """A line of a docstring with what Markdown would take for markup escaped, and names as links."""
    made = []
    line = re.sub(r":(?:func|class|meth|mod|attr|exc):(?=`)", "", line)
    for part in re.split(r"(``[^`]+``|`[^`]+`)", line):
        if part.startswith("`") and part.endswith("`") and len(part) > 1:
            made.append(code(part.strip("`"), find))
        else:
            made.append(re.sub(r"([*_<>\[\]])", r"\\\1", part))
    return "".join(made)


def code(text: str, find: Find) -> str:
    """A code span; a link where its name is known."""
    target = find(re.sub(r"\(.*\)$", "", text))
    return f"[`{text}`]({target})" if target else f"`{text}`"


def signature(value: Any, name: str) -> str:
    """How a function or class is called, on several lines where it is long."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return f"{name}(...)"
    shown = [_plain(str(p)) for p in found.parameters.values()]
    gives = ""
    if found.return_annotation is not found.empty and not inspect.isclass(value):
        said = found.return_annotation
        gives = " -> " + _plain(said if isinstance(said, str) else inspect.formatannotation(said))
    stars = [i for i, p in enumerate(found.parameters.values()) if p.kind is p.KEYWORD_ONLY]
    if stars and not any(p.kind is p.VAR_POSITIONAL for p in found.parameters.values()):
        shown.insert(stars[0], "*")
    line = f"{name}({', '.join(shown)}){gives}"
    return line if len(line) <= 96 else f"{name}(\n    " + ",\n    ".join(shown) + f",\n){gives}"


def _plain(text: str) -> str:
    """Types as people write them: without the modules they come from."""
    text = re.sub(r"<(?:class|function) '?([\w.]+)'?[^>]*>", r"\1", text)
    text = re.sub(r"\b(?:mxjax|collections|typing|numpy|jax)(?:\.\w+)*\.(\w+)", r"\1", text)
    text = re.sub(r"<([\w.]+) object at 0x\w+>", r"\1()", text)
    return re.sub(r": '([^']*)'", r": \1", text)  # annotations that are kept as texts
