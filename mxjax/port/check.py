"""Reads programs of MXNet, and says of every name that they use what becomes of it. Nothing of theirs runs."""

from __future__ import annotations

import ast
import collections
import functools
import importlib
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .. import settings
from ..errors import did_you_mean
from . import tables
from .older_names import BY_NAME, CALLS, RAGGED

__all__ = ["Found", "check"]

#: Packages whose names are looked at besides MXNet's; modules that Python has lost are not in its own list.
_OTHERS = {
    "numpy",
    "matplotlib",
    "IPython",
    "scipy",
    "sklearn",
    "skimage",
    "PIL",
    "keras",
    *(module.split(".")[0] for module, _ in BY_NAME),
} | sys.stdlib_module_names
#: What an operator takes whatever its signature says.
_ALWAYS = {"ctx", "device", "dtype", "name", "out", "attr", "axis", "shape"}
_SKIPPED = {
    ".git",
    ".hg",
    ".venv",
    "venv",
    "__pycache__",
    "node_modules",
    ".ipynb_checkpoints",
    "build",
    "dist",
}


class Found(NamedTuple):
    """One use of a name.

    Attributes:
      path, line: where; of a notebook the line within all code cells, and ``cell`` counted from 1.
      name: as MXNet has it (`mx.nd.Convolution`), or another package's.
      kind: name, operator, argument, setting, idiom, python.
      verdict: works, differs, missing.
      note: how it differs, or what to use instead.
      see: the document's line, or "".
    """

    path: str
    line: int
    name: str
    kind: str
    verdict: str
    note: str = ""
    see: str = ""
    cell: int = 0


def check(*paths: str | Path) -> list[Found]:
    """What becomes of the names in these programs, folders of programs and notebooks.

    Raises:
      OSError: a path is not there.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "old.py"
    ...     _ = file.write_text("import mxnet as mx\\nmx.nd.exp(3)\\nmx.rtc.CudaModule('')")
    ...     [(found.name, found.verdict) for found in check(file)]
    [('mx', 'works'), ('mx.nd.exp', 'works'), ('mx.rtc.CudaModule', 'missing')]
    """
    found: list[Found] = []
    for path in paths:
        for file in _files(Path(path)):
            found += _of_file(file)
    return found


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        path.stat()
        yield path
        return
    for file in sorted(path.rglob("*")):
        if file.suffix in (".py", ".ipynb") and not _SKIPPED.intersection(
            file.relative_to(path).parts
        ):
            yield file


def _of_file(file: Path) -> list[Found]:
    text = file.read_text(encoding="utf-8", errors="replace")
    cells: list[int] = []
    if file.suffix == ".ipynb":
        try:
            text, cells = _code_of_notebook(text)
        except (ValueError, KeyError, TypeError) as error:
            return [Found(str(file), 1, "", "python", "missing", f"no notebook: {error}")]
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        note = f"Python does not read it: {error.msg}; 2to3 or the package modernize translate code of Python 2"
        found = [Found(str(file), error.lineno or 1, "", "python", "missing", note)]
    else:
        found = _Reader(str(file)).read(tree)
    return [f._replace(cell=cells[min(f.line, len(cells)) - 1]) for f in found] if cells else found


def _code_of_notebook(text: str) -> tuple[str, list[int]]:
    """The code of all cells, without lines that are IPython's, and the cell of each line."""
    lines: list[str] = []
    cells: list[int] = []
    number = 0
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        source = "".join(cell["source"]) if isinstance(cell["source"], list) else cell["source"]
        own = source.splitlines()
        if own and own[0].startswith("%%") and not own[0].startswith(("%%time", "%%capture")):
            own = []
        for line in own:
            ipython = line.lstrip().startswith(("%", "!", "?")) or line.rstrip().endswith("?")
            lines.append(re.match(r"\s*", line).group() + "pass" if ipython else line)  # type: ignore[union-attr]
            cells.append(number)
    return "\n".join(lines), cells


class _Reader(ast.NodeVisitor):
    """Follows names from imports through assignments of names to names."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._means: dict[
            str, str
        ] = {}  # what a name of the program stands for: `nn` is mx.gluon.nn
        self._found: dict[tuple[int, str, str], Found] = {}

    def read(self, tree: ast.AST) -> list[Found]:
        for node in ast.walk(tree):  # imports first: functions above them use them, too
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
        bound = _bindings(tree)
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Assign)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
                and bound[node.targets[0].id] == 1  # scopes are not told apart: it means one thing
            ):
                what = self._name_of(node.value)
                if what is not None and isinstance(node.value, ast.Attribute):
                    self._means.setdefault(node.targets[0].id, what)
        self.visit(tree)
        return sorted(self._found.values(), key=lambda f: f.line)

    def _note(
        self, line: int, name: str, kind: str, verdict: str, note: str = "", see: str = ""
    ) -> None:
        self._found.setdefault(
            (line, name, kind), Found(self._path, line, name, kind, verdict, note, see)
        )

    # ---- names

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = _ours(alias.name)
            if module.split(".")[0] in _OTHERS or module.startswith("mx"):
                self._means[alias.asname or alias.name.split(".")[0]] = (
                    module if alias.asname else module.split(".")[0]
                )
                self._tell(node.lineno, module, "name", module=True)

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = _ours(node.module or "")
        if node.level or not (
            module.split(".")[0] in _OTHERS or module == "mx" or module.startswith("mx.")
        ):
            return
        for alias in node.names:
            name = module if alias.name == "*" else f"{module}.{alias.name}"
            self._means[alias.asname or alias.name] = name
            self._tell(node.lineno, name, "name", module=alias.name == "*")

    def _name_of(self, node: ast.AST) -> str | None:
        """The full name that an expression is, if it is one that came from an import."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._means:
            return None
        return ".".join([self._means[node.id], *reversed(parts)])

    def _tell(self, line: int, name: str, kind: str, module: bool = False) -> None:
        if name == "mx" or name.startswith("mx."):
            self._tell_ours(line, name, kind)
        elif name.split(".")[0] in _OTHERS:
            self._tell_others(line, name, module)

    def _tell_ours(self, line: int, name: str, kind: str) -> None:
        what, known = _resolved(name)
        if known:
            difference = tables.difference(name)
            kind = "operator" if kind == "name" and _is_operator(name, what) else kind
            if difference is None:
                self._note(line, name, kind, "works")
            else:
                self._note(line, name, kind, "differs", _plain(difference.cells), difference.place)
            return
        row = tables.excluded(name)
        if row is not None:
            self._note(line, name, kind, "missing", _plain(row.cells[1:]), row.place)
        else:
            self._note(line, name, kind, "missing", str(what))

    def _tell_others(self, line: int, name: str, module: bool) -> None:
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            older = BY_NAME.get((".".join(parts[:end]), "")) or (
                BY_NAME.get((".".join(parts[: end - 1]), parts[end - 1])) if end > 1 else None
            )
            if older is not None:
                back = (
                    "; --compat gives it back"
                    if older.give is not None or older.module == "imp"
                    else ""
                )
                package = older.module.split(".")[0]
                note = f"gone since {'NumPy' if package == 'numpy' else package} {older.gone}"
                if (
                    older.module in sys.stdlib_module_names
                    or not older.name
                    and "." not in older.module
                ):
                    note = f"gone since Python {older.gone}"
                self._note(line, name, "python", "missing", f"{note}: {older.instead}{back}")
                return
        if parts[0] == "numpy" and not _is_there(name):
            self._note(
                line, name, "python", "missing", f"NumPy {_version('numpy')} has no such name"
            )

    # ---- what is visited

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._name_of(node)
        if name is None:
            self.generic_visit(node)
        else:
            self._tell(node.lineno, name, "name")

    def visit_Name(self, node: ast.Name) -> None:
        name = self._means.get(node.id)
        if name is not None and "." in name:
            self._tell(node.lineno, name, "name")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name == "hybrid_forward" and len(node.args.args) > 1:
            row = tables.difference("hybrid_forward")
            if row is not None:
                self._note(
                    node.lineno, "hybrid_forward", "idiom", "differs", _plain(row.cells), row.place
                )
            before = self._means.get(node.args.args[1].arg)
            self._means[node.args.args[1].arg] = "mx.nd"
            self.generic_visit(node)
            self._means.pop(node.args.args[1].arg)
            if before is not None:
                self._means[node.args.args[1].arg] = before
            return
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self._name_of(node.func)
        if name is not None and name.startswith("mx."):
            self._arguments(node, name)
        if name in ("os.getenv", "os.environ.get") and node.args:
            self._setting(node.lineno, node.args[0])
        if (
            name in ("numpy.array", "numpy.asarray")
            and node.args
            and len(node.args) == 1
            and not node.keywords
        ):
            if _is_ragged(node.args[0]):
                self._note(node.lineno, name, "python", "missing", RAGGED)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else None
        if method in CALLS and (name is None or name.startswith("numpy.")):
            binary = (
                name is not None
                and not any(k.arg == "sep" for k in node.keywords)
                and len(node.args) < 4
            )
            if method != "fromstring" or binary:
                self._note(
                    node.lineno,
                    f"{'numpy' if name else ''}.{method}",
                    "python",
                    "missing",
                    CALLS[method],
                )
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._name_of(node.value) == "os.environ":
            self._setting(node.lineno, node.slice)
        self.generic_visit(node)

    def _setting(self, line: int, node: ast.AST) -> None:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.startswith("MXNET_")
        ):
            variable = node.value
            try:
                row = settings.explain(variable)
            except KeyError:
                self._note(line, variable, "setting", "differs", "nothing reads this variable here")
            else:
                self._note(line, variable, "setting", "works", f"the setting {row.name}")

    def _arguments(self, node: ast.Call, name: str) -> None:
        what, known = _resolved(name)
        if name.endswith("gluon.Trainer") or name.endswith("optimizer.create"):
            for value in node.args:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    self._by_text(node.lineno, value.value)
        if not known:
            return
        try:
            taken = inspect.signature(what).parameters
        except (TypeError, ValueError):
            return
        open_ended = any(p.kind is p.VAR_KEYWORD for p in taken.values())
        if open_ended and not _is_operator(name, what):
            return
        for keyword in node.keywords:
            word = keyword.arg
            if (
                word is None
                or word in taken
                or word in ("prefix", "params")
                and inspect.isclass(what)
            ):
                continue
            if open_ended and (word in _ALWAYS or word.startswith("_") or _is_symbol(name)):
                continue
            if inspect.isclass(what) and any(p in inspect.signature(b).parameters for b in what.__mro__[1:-1]
                                             for p in (word,) if _has_signature(b)):  # fmt: skip
                continue
            self._note(node.lineno, f"{name}({word}=)", "argument", "missing",
                       f"it takes {', '.join(taken)}{did_you_mean(word, taken)}")  # fmt: skip

    def _by_text(self, line: int, text: str) -> None:
        registered = importlib.import_module("mxjax.optimizer").Optimizer.opt_registry
        kind = registered.get(text.lower())
        row = None if kind is None else tables.difference(kind.__name__)
        if row is not None:
            self._note(
                line, f"optimizer {text!r}", "idiom", "differs", _plain(row.cells), row.place
            )


def _ours(module: str) -> str:
    """`mx` for `mxnet`, and for this package."""
    head, dot, rest = module.partition(".")
    return f"mx{dot}{rest}" if head in ("mxnet", "mxjax") else module


@functools.cache
def _resolved(name: str) -> tuple[Any, bool]:
    """What a name of MXNet is here, or the error that says that it is not."""
    here: Any = importlib.import_module("mxjax")
    for part in name.split(".")[1:]:
        try:
            here = getattr(here, part)
        except AttributeError as error:
            try:
                here = importlib.import_module(f"{here.__name__}.{part}")
            except (ImportError, AttributeError):
                return error, False
        except ImportError as error:  # an optional package
            return error, True
    return here, True


def _is_operator(name: str, what: Any) -> bool:
    head = name.split(".")
    return (
        len(head) > 2
        and head[1] in ("nd", "ndarray", "sym", "symbol", "np", "npx")
        and inspect.isfunction(what)
    )


def _is_symbol(name: str) -> bool:
    return name.split(".")[1] in ("sym", "symbol")  # variables of a symbol go by any name


def _has_signature(kind: Any) -> bool:
    try:
        inspect.signature(kind)
    except (TypeError, ValueError):
        return False
    return True


@functools.cache
def _bindings(tree: ast.AST) -> collections.Counter[str]:
    """How often each name is bound, imports aside: by assignments, loops, arguments, definitions."""
    found: collections.Counter[str] = collections.Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found[node.id] += 1
        elif isinstance(node, ast.arg):
            found[node.arg] += 1
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found[node.name] += 1
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found[node.name] += 1
    return found


def _is_there(name: str) -> bool:
    """Whether a name of NumPy is there."""
    module, _, last = name.rpartition(".")
    if not module:
        return importlib.util.find_spec(name) is not None
    try:
        importlib.import_module(name)
        return True
    except ImportError:
        pass
    here: Any = importlib.import_module("numpy")
    for part in name.split(".")[1:]:
        if not hasattr(here, part):
            return False
        here = getattr(here, part)
    return True


def _version(module: str) -> str:
    return str(importlib.import_module(module).__version__)


def _plain(cells: list[str]) -> str:
    return " | ".join(cells).replace("`", "")


def _is_ragged(node: ast.AST) -> bool:
    """Whether a list holds lists of unequal lengths, as written."""
    if not isinstance(node, ast.List) or not all(isinstance(row, ast.List) for row in node.elts):
        return False
    return len({len(row.elts) for row in node.elts if isinstance(row, ast.List)}) > 1
