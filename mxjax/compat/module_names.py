"""Names that MXNet's modules hold because they import them: `mxnet.gluon.block.Symbol`, `mxnet.metric.ndarray`.

Programs import them from there. `modules` asks here when a module does not have a name itself, so that none of these
is imported before somebody wants it, and this file is not read before.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any


def _tables() -> tuple[dict[str, str], dict[str, str]]:
    """The two tables of `module_names.txt`, which says what is in them: each line's indented ones belong to it."""
    tables: dict[str, dict[str, str]] = {}
    rows: dict[str, str] = {}
    key = ""
    for line in Path(__file__).with_name("module_names.txt").read_text("ascii").splitlines():
        if line.startswith("["):
            rows = tables[line.strip("[]")] = {}
        elif line.startswith(" "):
            rows[key] = f"{rows[key]} {line.strip()}".strip()
        elif line and not line.startswith("#"):
            key = line.removesuffix(".")  # the package itself is a dot
            rows[key] = ""
    return tables["homes"], tables["held"]


_PACKAGE = __package__.partition(".")[0]
#: Where names live, and what each module holds besides its own.
HOMES, HELD = _tables()


@cache
def _homes() -> dict[str, str]:
    """Each name of `HOMES` with its module and, after a colon, what it is called there."""
    found = {}
    for home, names in HOMES.items():
        for name in names.split():
            name, _, other = name.partition("=")
            found[name] = f"{home}{other or name}" if home.endswith(":") else home
    return found


@cache
def _held(module: str) -> dict[str, str]:
    """The names that a module holds besides its own, each with its home."""
    found = {}
    for entry in HELD.get(module, "").split():
        name, _, home = entry.partition("=")
        found[name] = home or _homes()[name]
    return found


def homes_of(module: str) -> dict[str, str]:
    """The names of the table for a module, by its name after `mxjax.`, each with its home.

    >>> homes_of("monitor")
    {'ndarray': 'nd'}
    """
    return dict(_held(module))


def resolve(module: str, name: str) -> Any:
    """What a module holds under a name of the table.

    Raises:
      KeyError: the table does not have the name there.

    >>> resolve("gluon.block", "Symbol").__name__
    'Symbol'
    """
    home, _, attribute = _held(module)[name].partition(":")
    if home[:1] == "?":
        package = home[1:]
        there = importlib.util.find_spec(package.partition(".")[0]) is not None
        return importlib.import_module(package) if there else None
    if home[:1] == "/":
        found: Any = importlib.import_module(home[1:])
    else:
        found = importlib.import_module(f"{_PACKAGE}.{home}".rstrip("."))
    return getattr(found, attribute) if attribute else found
