"""The house rules that a program can check: who imports whom, who reads the environment, sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mxjax import core

ROOT = Path(__file__).parents[1]
WINGS = ("gluon", "memonger", "kvstore", "profiler")

#: The order of the core: a module imports only from its own line and from those above it.
LAYERS = (
    {"settings", "errors", "error", "_version"},
    {"core", "device"},
    {"ops"},
    {"effects"},
    {"engine"},
    {"array"},
    {"np", "npx", "nd", "sym", "autograd", "operator", "random", "serialization", "util"},
    {"attribute", "context", "debug", "initializer", "launch", "lr_scheduler", "optimizer", "registry", "sharding"},
)
#: Who may import a wing: the package itself, which shows all names, what only tests use, and wings.
ABOVE_THE_WINGS = {"__init__", "__main__", "test_utils"}

#: Wings that meet the core at its protocols and at what `mxjax.core` shows, never at its insides.
#: gluon is built on the graph itself.
AT_THE_PROTOCOLS = ("memonger", "kvstore", "profiler")

LONGEST = 600
LONGEST_TABLE = 1200


def sources() -> list[Path]:
    """Every Python file of the product, by its own path (not through a link)."""
    links = {ROOT / "mxjax" / wing for wing in WINGS}
    found = []
    for folder in ("mxjax", *WINGS):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not links.intersection(path.parents):
                found.append(path)
    return found


SOURCES = sources()


def name_of(path: Path) -> str:
    """The module that a file is: `gluon/nn/layers.py` is `mxjax.gluon.nn.layers`."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] in WINGS:
        parts.insert(0, "mxjax")
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return ".".join(parts)


MODULES = {name_of(path) for path in SOURCES}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imports(path: Path) -> Iterator[tuple[str, str, int]]:
    """What a file imports when it runs: module, name in it (or ''), and line."""
    package = name_of(path).split(".")
    if path.name != "__init__.py":
        package.pop()
    todo: list[ast.AST] = [ast.parse(path.read_text())]
    while todo:
        node = todo.pop()
        if is_type_checking(node):
            continue
        todo.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, "", node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                if f"{module}.{alias.name}" in MODULES:
                    yield f"{module}.{alias.name}", "", node.lineno
                else:
                    yield module, alias.name, node.lineno


def part_of(module: str) -> str:
    """The part of the house: `mxjax.core.segment` belongs to `core`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def layer_of(part: str) -> int | None:
    return next((level for level, parts in enumerate(LAYERS) if part in parts), None)


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_every_part_has_its_place():
    parts = {part_of(module) for module in MODULES}
    assert not parts - set().union(*LAYERS) - set(WINGS) - ABOVE_THE_WINGS


def test_imports_go_one_way():
    """settings, errors <- core <- ops <- effects <- array <- front ends <- what is built of all of these."""
    wrong = []
    for path in SOURCES:
        part = part_of(name_of(path))
        own = layer_of(part)
        if own is None:
            continue
        for module, _, line in imports(path):
            if not module.startswith("mxjax"):
                continue
            other = part_of(module)
            level = layer_of(other)
            if other != part and (level is None or level > own):
                wrong.append(f"{where(path, line)}: {part} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_the_core_knows_no_wing():
    wrong = []
    for path in SOURCES:
        part = part_of(name_of(path))
        if part in WINGS or part in ABOVE_THE_WINGS:
            continue
        for module, _, line in imports(path):
            if module.startswith("mxjax.") and part_of(module) in WINGS:
                wrong.append(f"{where(path, line)}: imports {module}")
    assert not wrong, "\n".join(wrong)


def test_wings_hang_on_the_protocols_and_on_public_names():
    wrong = []
    for path in SOURCES:
        part = part_of(name_of(path))
        if part not in WINGS:
            continue
        for module, name, line in imports(path):
            parts = module.split(".")
            if parts[0] != "mxjax" or part_of(module) == part:
                continue
            if any(word.startswith("_") and word != "__version__" for word in (*parts, name)):
                wrong.append(f"{where(path, line)}: {module} {name} is private")
            if part in AT_THE_PROTOCOLS and parts[1:2] == ["core"]:
                shown = module in ("mxjax.core", "mxjax.core.hooks")
                if not shown and not (parts[2:] and parts[2] in core.__all__ and not name):
                    wrong.append(f"{where(path, line)}: {module} instead of core.hooks")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", [*WINGS, "mxjax", "tests", "tools", "benchmarks"])
def test_a_wing_is_imported_under_one_name(folder):
    """`import gluon` would be a second copy of the package."""
    wrong = []
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            wrong += [where(path, node.lineno) for name in names if name.split(".")[0] in WINGS]
    assert not wrong, wrong


def test_only_the_settings_read_the_environment():
    wrong = []
    for path in SOURCES:
        if part_of(name_of(path)) == "settings":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node, "attr", None) or getattr(node, "id", None)
            if name in ("environ", "getenv", "putenv", "environb"):
                wrong.append(where(path, node.lineno))
    assert not wrong, wrong


def test_no_exec_no_star_import_no_bare_except():
    wrong = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("exec", "eval"):
                wrong.append(f"{where(path, node.lineno)}: {ast.unparse(node.func)}")
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                wrong.append(f"{where(path, node.lineno)}: star import")
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                wrong.append(f"{where(path, node.lineno)}: bare except")
    assert not wrong, "\n".join(wrong)


def test_no_file_is_too_long():
    wrong = []
    for path in SOURCES:
        limit = LONGEST_TABLE if (ROOT / "mxjax" / "ops") in path.parents else LONGEST
        count = len(path.read_text().splitlines())
        if count > limit:
            wrong.append(f"{path.relative_to(ROOT)}: {count} lines, at most {limit}")
    assert not wrong, "\n".join(wrong)


def test_every_folder_with_modules_is_a_package():
    """What is no package is not installed."""
    folders = {path.parent for path in SOURCES}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


@pytest.mark.parametrize("wing", WINGS)
def test_the_wings_are_seen_through_relative_links(wing):
    link = ROOT / "mxjax" / wing
    assert link.is_symlink() and str(link.readlink()) == f"../{wing}"
