"""The reference: a page for each module, and one for each topic of the operator table."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from mxjax.array.classes import NDArray, ndarray
from mxjax.ops.table import FRONT_ENDS, METHODS, TABLE, Op

from . import facts
from .docstrings import Find, markdown, prose, signature
from .names import MODULES, MORE, is_operator, module, public

#: Front ends in the order in which an operator's text is looked for.
FRONTS = (
    "np",
    "npx",
    "np.linalg",
    "np.random",
    "npx.random",
    "npx.image",
    "nd",
    "nd.contrib",
    "nd.linalg",
    "nd.random",
)

#: Modules whose operators are those of another front end.
SHARED = {
    "sym": "nd", "sym.contrib": "nd.contrib", "sym.random": "nd.random", "sym.linalg": "nd.linalg", "nd.sparse": "nd",
    "nd.image": "npx.image",
}  # fmt: skip


def topic(op: Op) -> str:
    """The file under mxjax/ops that a row belongs to; what loops made is element-wise."""
    name = op.fn.__module__.rpartition(".")[2]
    return "elementwise" if name == "table" else name


@functools.cache
def topics() -> dict[str, dict[str, list[Op]]]:
    """Rows by topic and by name; a row of mx.nd that stands beside one of mx.np is told with it."""
    made: dict[str, dict[str, list[Op]]] = {}
    for op in TABLE.values():
        if op.names.fronts or any(op.names.methods.values()):
            plain = op.name.partition("@")[0]
            home = next((t for t, rows in made.items() if plain in rows), topic(op))
            made.setdefault(home, {}).setdefault(plain, []).append(op)
    return dict(sorted(made.items()))


@functools.cache
def row_of(path: str) -> Op | None:
    """The row that ``np.stack`` or ``sym.contrib.ROIAlign`` is made of."""
    front, _, name = path.rpartition(".")
    return FRONT_ENDS.get(SHARED.get(front, front), {}).get(name)


@functools.cache
def addresses() -> dict[str, str]:
    """Where each public name is told of, as ``page.md#anchor`` under reference/."""
    made: dict[str, str] = {}
    where: dict[int, str] = {}
    for home, rows in topics().items():
        for plain, ops in rows.items():
            for op in ops:
                at = f"operators/{home}.md#op.{plain}"
                for front, names in op.names.fronts.items():
                    made.update({f"mx.{front}.{name}": at for name in names})
                    for other, same in SHARED.items():
                        made.update({f"mx.{other}.{name}": at for name in names if same == front})
    for path in [*MODULES, *MORE]:
        made[f"mx.{path}"] = f"{path}.md"
        for name, value in public(path, operators=True):
            home = where.setdefault(id(value), made.get(f"mx.{name}", f"{path}.md#mx.{name}"))
            made.setdefault(f"mx.{name}", home)
    return made


def find_from(page: str) -> Find:
    """What a page under reference/ looks names up by: addresses relative to it."""
    up = "../" * page.count("/")

    def find(name: str) -> str | None:
        table = addresses()
        beside = page.removesuffix(".md")
        at = next((table[n] for n in (name, f"mx.{name}", name.replace("mxjax.", "mx.", 1), f"mx.{beside}.{name}")
                   if n in table and "." in n), None)  # fmt: skip
        return at and f"{up}{at}"

    return find


def pages(traced: bool = True) -> dict[str, str]:
    """All pages under reference/, by name; ``traced``: with what is found by tracing every operator."""
    made = {f"{path}.md": _module(path) for path in [*MODULES, *MORE]}
    made |= {f"operators/{name}.md": _topic(name, rows, traced) for name, rows in topics().items()}
    made["index.md"] = _index()
    return made


def _sentence(text: str | None, find: Find) -> str:
    """The first sentence of a docstring, for a table."""
    first = " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split())
    return "".join(
        part if part.startswith("`") else part.replace("|", "\\|")
        for part in re.split(r"(`[^`]*`)", prose(first, find))
    )


def _index() -> str:
    lines = ["# Reference", "", "Every public name, from its docstring: `help(...)` and `name?` show the same.", "",
             "## Modules", "", "| module | what |", "|---|---|"]  # fmt: skip
    for path in [*MODULES, *MORE]:
        lines.append(
            f"| [`mx.{path}`]({path}.md) | {_sentence(module(path).__doc__, find_from('index.md'))} |"
        )
    lines += ["", "## Operators by topic", "",
              "An operator is one row of a table, from which its functions in `mx.np`, `mx.npx`, `mx.nd` and "
              "`mx.sym` and the arrays' methods are made. It is told of once, with all its names.", "",
              "| topic | operators |", "|---|---|"]  # fmt: skip
    for name, rows in topics().items():
        shown = ", ".join(
            f"[`{plain}`](operators/{name}.md#op.{plain})" for plain in list(rows)[:12]
        )
        more = f", and {len(rows) - 12} more" if len(rows) > 12 else ""
        lines.append(f"| [{title(name)}](operators/{name}.md) | {shown}{more} |")
    return "\n".join([*lines, ""])


def title(name: str) -> str:
    """What a topic's page is called: as its file under mxjax/ops says."""
    doc = importlib.import_module(f"mxjax.ops.{name}").__doc__ or name
    return re.split(r"[:.(;|]", doc.partition("\n\n")[0].replace("\n", " "))[0].strip()


def _module(path: str) -> str:
    page = f"{path}.md"
    find = find_from(page)
    lines = [f"# mx.{path}", "", markdown(module(path).__doc__ or "", find), ""]
    everything = list(public(path, operators=True))
    lines += ["| name | what |", "|---|---|"]
    for name, value in everything:
        at = addresses()[f"mx.{name}"].removeprefix(page)
        lines.append(f"| [`{name.rpartition('.')[2]}`]({at}) | {_sentence(value.__doc__, find)} |")
    lines.append("")
    for name, value in everything:
        if addresses()[f"mx.{name}"] == f"{page}#mx.{name}":
            lines += _entry(f"mx.{name}", value, find)
    return "\n".join(lines)


def _entry(name: str, value: Any, find: Find) -> Iterator[str]:
    """One function or class, with its own methods."""
    short = name.rpartition(".")[2]
    yield f"## {short} {{ #{name} }}"
    yield ""
    yield f"```python\n{signature(value, name.removeprefix('mx.'))}\n```"
    yield ""
    yield markdown(value.__doc__ or "", find)
    if inspect.isclass(value):
        if "__init__" in vars(value) and value.__init__.__doc__:
            yield markdown(value.__init__.__doc__, find)
        yield from _members(value, find)


def _members(cls: type, find: Find) -> Iterator[str]:
    """The methods and properties that a class brings itself; operators are told of with their rows."""
    rows = METHODS.get("np" if cls is ndarray else "nd" if cls is NDArray else "", {})
    if rows:
        shown = ", ".join(f"[`{name}`](operators/{_home(op)}.md#op.{op.name.partition('@')[0]})"
                          for name, op in sorted(rows.items()) if not name.startswith("_"))  # fmt: skip
        yield f"**Operators as methods**\n\n{shown}\n"
    for name, member in vars(cls).items():
        if name.startswith("_") or name in rows:
            continue
        fn = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        doc = inspect.getdoc(getattr(cls, name, None)) or ""
        if isinstance(member, property):
            yield f"#### {name} {{ .member }}\n"
        elif inspect.isfunction(fn):
            yield f"#### {name} {{ .member }}\n"
            yield f"```python\n{signature(fn, name)}\n```\n"
        else:
            continue
        yield markdown(doc, find)


def _home(op: Op) -> str:
    plain = op.name.partition("@")[0]
    return next(t for t, rows in topics().items() if plain in rows)


def _topic(name: str, rows: dict[str, list[Op]], traced: bool) -> str:
    find = find_from(f"operators/{name}.md")
    doc = importlib.import_module(f"mxjax.ops.{name}").__doc__ or ""
    lines = [
        f"# {title(name)}",
        "",
        prose(inspect.cleandoc(doc).partition("\n\n")[0].replace("\n", " "), find),
        "",
    ]
    for plain, ops in rows.items():
        lines += _operator(plain, ops, find, traced)
    return "\n".join(lines)


def _operator(plain: str, ops: list[Op], find: Find, traced: bool) -> Iterator[str]:
    names = [
        f"{front}.{name}"
        for op in ops
        for front, found in op.names.fronts.items()
        for name in found
    ]
    names = list(dict.fromkeys(sorted(names, key=lambda n: FRONTS.index(n.rpartition(".")[0]))))
    symbols = [
        f"sym.{n.removeprefix('nd.')}"
        for n in names
        if row_of(n) is not None and n.startswith("nd.")
    ]
    methods = [
        f"x.{n}"
        for op in ops
        for found in op.names.methods.values()
        for n in found
        if not n.startswith("__")
    ]
    yield f"## {plain} {{ #op.{plain} }}"
    yield ""
    shown = next((fn for n in names if (fn := _function(n)) is not None), None)
    if shown is not None:
        first = next(n for n in names if _function(n) is shown)
        yield f"```python\n{signature(shown, first)}\n```"
        yield ""
        text = inspect.cleandoc(shown.__doc__ or "")
        yield markdown(
            "\n".join(li for li in text.split("\n") if not li.startswith("  The same operator:")),
            find,
        )
    else:
        yield prose(ops[0].doc.replace("\n", " "), find)
        yield ""
    yield "| | |"
    yield "|---|---|"
    every = dict.fromkeys([*(f"mx.{n}" for n in [*names, *symbols]), *methods])
    yield f"| names | {', '.join(f'`{n}`' for n in every)} |"
    yield f"| derivative | {facts.derivative(ops[0])} |"
    for op in ops if traced else ():
        of = " of `mx.nd`" if op.name.endswith("@nd") and len(ops) > 1 else ""
        found = facts.dtypes(op)
        if found:
            refused = [d for d in facts.DTYPES if d not in found]
            words = ", ".join(f"{a} → {b}" for a, b in found.items())
            yield f"| dtypes{of} | {words}{'; refused: ' + ', '.join(refused) if refused else ''} |"
        forms = list(dict.fromkeys(facts.sparse(op)))
        if forms:
            yield f"| sparse forms{of} | {'; '.join(forms)} |"
    yield ""


def _function(path: str) -> Any:
    """A front end's function, where it is the row's own."""
    front, _, name = path.rpartition(".")
    found = getattr(module(front), name, None)
    return found if is_operator(found) else None
