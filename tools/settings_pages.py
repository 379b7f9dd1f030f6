"""Writes docs/settings/*.md from the table of settings: a page per family of names.

python tools/settings_pages.py            # write
python tools/settings_pages.py --check    # fail where a page is not current
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mxjax.settings.explain import WHEN, shown  # noqa: E402
from mxjax.settings.option import Legacy, Option  # noqa: E402
from mxjax.settings.rows import OPTIONS  # noqa: E402

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "settings"
MARK = "<!-- Written by tools/settings_pages.py from mxjax/settings/rows: change those. -->"

#: What depends on the machine: the values, and the default.
MACHINE = {
    "memory.sublinear_workers": (
        "an integer from 1 to 4 times the number of CPUs",
        "half their number",
    )
}

FAMILIES = {
    "mxnet": (
        "MXNet's environment variables",
        re.compile(r"(MXNET|NNVM|DNNL|DMLC|PS)_"),
        "Set them as for MXNet, before the program starts or with `mx.config.set(NAME=value)`.",
    ),
    "megengine": (
        "MegEngine's environment variables",
        re.compile(r"(MEGENGINE|MGB|MGE|RUNTIME|CUDA_BIN)_?"),
        "Set them as for MegEngine, or with `mx.config.set(NAME=value)`; options that MegEngine reads "
        "once are refused later, with a message that says what to do.",
    ),
    "ascend": (
        "Ascend's NPURunConfig",
        re.compile(r"(ASCEND|HCCL)_|[a-z]"),
        "Give them to `mx.config.RunConfig(...)`, `mx.config.set(...)` or `with mx.config.scope(...)`; "
        "files that they name are read as Ascend reads them.",
    ),
}


def family_of(old: Legacy) -> str:
    """The page a name belongs on: the first whose pattern it has."""
    return next(
        (name for name, (_, pattern, _) in FAMILIES.items() if pattern.match(old.name)), "ascend"
    )


def cell(text: str) -> str:
    """Text inside a table."""
    return " ".join(text.split()).replace("|", "\\|")


def home(value: object) -> str:
    """A default as it is on every machine."""
    text = shown(value)
    folder = str(Path.home())
    return text.replace(folder, "~") if folder != "/" else text


def values(row: Option, old: Legacy | None = None) -> str:
    """The values that an option, or one of its older names, takes."""
    if row.name in MACHINE:
        return MACHINE[row.name][0]
    return cell((row.kind if old is None or old.kind is None else old.kind).expected)


def anchor(name: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return name.replace(".", "")


def page(family: str) -> str:
    """One family's table in its own terms."""
    title, _, words = FAMILIES[family]
    found = [(old, row) for row in OPTIONS for old in row.legacy if family_of(old) == family]
    lines = [
        MARK,
        "",
        f"# {title}",
        "",
        words,
        "",
        "Effect: **real** does what it did there; **approximate** differs as the last column says; **none** is "
        "taken and does nothing. `python -m mxjax config NAME` tells value, source and what it becomes.",
        "",
        "| name | effect | values | in mxjax | what it does | difference |",
        "|---|---|---|---|---|---|",
    ]
    for old, row in sorted(found, key=lambda pair: pair[0].name.lower()):
        where = f" ({', '.join(row.platforms)} only)" if row.platforms else ""
        lines.append(
            f"| `{old.name}` | {old.fidelity} | {values(row, old)} "
            f"| [`{row.name}`](options.md#{anchor(row.name)}) | {cell(row.doc)}{where} "
            f"| {cell(old.difference)} |"
        )
    return "\n".join([*lines, ""])


def options_page() -> str:
    """All options by their own names."""
    lines = [
        MARK,
        "",
        "# The options of mxjax",
        "",
        "The strongest source wins: argument > `mx.config.scope` > `mx.config.set` > `MXJAX_<GROUP>_<OPTION>` > "
        "an older name > default. `mx.config.explain(name)` prints where a value comes from, and what it becomes.",
        "",
    ]
    group = ""
    for row in sorted(OPTIONS, key=lambda row: row.name.partition(".")[0]):
        if row.name.partition(".")[0] != group:
            group = row.name.partition(".")[0]
            lines += [f"## {group}", ""]
        lines += entry(row)
    return "\n".join(lines)


def entry(row: Option) -> list[str]:
    lines = [f"### {row.name}", "", row.doc, "", f"- {cell(row.effect)}"]
    if row.mechanism:
        lines.append(f"- becomes: {cell(row.mechanism)}")
    default = MACHINE[row.name][1] if row.name in MACHINE else f"`{home(row.default)}`"
    if row.platforms:
        lines.append(f"- works on: {', '.join(row.platforms)}")
    lines += [
        f"- values: {values(row)}; default {default}",
        f"- a change counts {WHEN[row.applies]}",
        f"- variable: `{row.variable}`",
    ]
    if row.legacy:
        lines.append(f"- older names: {', '.join(f'`{old.name}`' for old in row.legacy)}")
    return [*lines, ""]


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    found = {f"{family}.md": page(family) for family in FAMILIES}
    found["options.md"] = options_page()
    index = [MARK, "", "# Settings", ""]
    index += [f"- [{title}]({family}.md)" for family, (title, _, _) in FAMILIES.items()]
    index += ["- [the options of mxjax](options.md)", ""]
    return {**found, "README.md": "\n".join(index)}


def main(arguments: list[str]) -> int:
    """Writes the pages, or says which are not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where a page is not current"
    )
    check = parser.parse_args(arguments).check
    stale = []
    for name, text in pages().items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if check and stale:
        print(
            f"not current: {', '.join(stale)}; run python tools/settings_pages.py", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
