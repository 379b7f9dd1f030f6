"""The house rules that a program can check: who imports whom, who reads the environment, sizes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple, get_origin, get_type_hints

import pytest

from mxjax import core
from mxjax.core.run import constants
from tests.parsing import uncollected

ROOT = Path(__file__).parents[1]
WINGS = ("gluon", "memonger", "kvstore", "profiler")

#: The order of the core: a module imports only from its own line and from those above it.
LAYERS = (
    {
        *(
            "_collection",
            "_jax_private",
            "_version",
            "as_mxnet",
            "compat",
            "display",
            "error",
            "errors",
            "files",
            "hlo",
        ),
        *("recordio", "scopes", "settings"),
    },
    {"core"},
    {"device"},
    {"ops"},
    {"effects"},
    {"engine"},
    {"array"},
    {
        *(
            "np",
            "npx",
            "nd",
            "autograd",
            "operator",
            "random",
            "safetensors",
            "serialization",
            "util",
            "base",
        ),
        *("attribute", "modes", "older_base"),
    },
    {
        *(
            "context",
            "debug",
            "dlpack",
            "initializer",
            "io",
            "launch",
            "libinfo",
            "library",
            "log",
        ),
        *("im2rec", "image", "lr_scheduler", "misc", "monitor", "name", "notebook"),
        *("numpy_dispatch_protocol", "numpy_op_signature", "optimizer"),
        *("registry", "runtime", "sharding", "torch"),
    },
    {"symbol", "executor", "visualization", "_deferred_compute"},
)
#: Who may import a wing: the package itself, which shows all names, what trains with wings, what only tests use, wings.
ABOVE_THE_WINGS = set(
    "__init__ __main__ amp callback contrib executor_manager model module onnx port rnn test_utils tools".split()
)

#: What wings may use of the core: these names of `mxjax.core`, and what these modules of it show.
CORE = set(
    """
    Aval Call Cut Dynamic Evicted Failure Graph GraphCall Leaf MeshDevice Node ReadWhileRecording Row
    SCALAR SCALARS Step TRACED Tree Value Work apart aval calls_python compile_function
    concrete default_device dressed end_note failed flush flush_all flush_thread host in_flight goes_by_call hold
    is_asynchronous
    is_recording is_traced keep_barriers lay local match_donations mirroring movable needed note_calls observe outside
    pack pending physical place placed platform_of read record record2 record_known record_pair recording rehearsal
    relaid repeating
    renamed row shielded span stats traced unobserve unpack user_site wait_all wants_of
    """.split()
)
CORE_MODULES = {
    "callback",
    "compiler",
    "holders",
    "hooks",
    "images",
    "jaxprs",
    "memory",
    "primitives",
    "rng",
    "varying",
}

#: What wings use of an array that is no method of the user's: its value, which they swap. array/README.md
OF_HANDLES = {
    "_assign",
    "_drop",
    "_fresh_grad",
    "_front",
    "_place",
    "_set",
    "_v",
    "_value",
    "_var",
    "_wrap",
}
OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}

#: The folders of the core.
FOLDERS = {path.parent.name for path in (ROOT / "mxjax" / "core").glob("*/__init__.py")}

ENVIRONMENT = {"environ", "getenv", "putenv", "environb"}

LONGEST = 650  # about 600: what a formatter makes of these is longer here and there
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
#: What tells of folders with modules, and the names of all files that it may name.
READMES = sorted(f / "README.md" for f in {p.parent for p in SOURCES} if (f / "README.md").exists())
EVERYWHERE = {
    p.name
    for f in (*{p.parts[len(ROOT.parts)] for p in SOURCES}, "tests", "benchmarks", "tools")
    for p in (ROOT / f).rglob("*.py")
}


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


class Facts(NamedTuple):
    """What the tests ask of a file, found in one reading of it.

    ``imports``: module, name in it (or ''), and line, of what it imports when it runs; ``modules``: the absolute ones
    whenever; ``core``, ``defined`` and ``asked``: see `of_core` and `private_names`; ``environment``: the lines that
    read it; ``refused``: what no file may do.
    """

    imports: list[tuple[str, str, int]]
    modules: list[tuple[str, int]]
    core: list[tuple[str, int]]
    defined: set[str]
    asked: dict[str, int]
    environment: list[int]
    refused: list[tuple[int, str]]


@cache
@uncollected()
def facts(path: Path) -> Facts:
    tree = ast.parse(path.read_text())
    package = name_of(path).split(".")
    if path.name != "__init__.py":
        package.pop()
    modules, environment, refused = [], [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                modules.append((node.module or "", node.lineno))
            if node.names[0].name == "*":
                refused.append((node.lineno, "star import"))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("exec", "eval"):
            refused.append((node.lineno, ast.unparse(node.func)))
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            refused.append((node.lineno, "bare except"))
        elif (getattr(node, "attr", None) or getattr(node, "id", None)) in ENVIRONMENT:
            environment.append(node.lineno)
    return Facts(
        list(imports_of(tree, package)),
        modules,
        list(of_core(tree)),
        *private_names(tree),
        environment,
        refused,
    )


def imports_of(
    tree: ast.AST, package: list[str], types: bool = False
) -> Iterator[tuple[str, str, int]]:
    todo = [tree]
    while todo:
        node = todo.pop()
        if is_type_checking(node) and not types:
            continue
        # No import stands in an expression.
        todo.extend(n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr))
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
    """The part of the house: `mxjax.core.calls.segment` belongs to `core`."""
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
        for module, _, line in facts(path).imports:
            if not module.startswith("mxjax"):
                continue
            other = part_of(module)
            level = layer_of(other)
            if other != part and (level is None or level > own):
                wrong.append(f"{where(path, line)}: {part} imports {module}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("wing", ["core", "gluon", "kvstore", "memonger", "profiler"])
def test_modules_of_a_wing_import_one_way(wing):
    """Inside functions, too."""
    inside = f"mxjax.{wing}"
    needs = {}
    for path in SOURCES:
        module = name_of(path)
        if module.startswith(inside):
            needs[module] = {m for m, _, _ in facts(path).imports if m.startswith(inside)} - {
                module
            }
    assert len(needs) > 20
    TopologicalSorter(needs).prepare()  # which names a cycle


def test_the_core_knows_no_wing():
    wrong = []
    for path in SOURCES:
        part = part_of(name_of(path))
        if part in WINGS or part in ABOVE_THE_WINGS:
            continue
        for module, _, line in facts(path).imports:
            if module.startswith("mxjax.") and part_of(module) in WINGS:
                wrong.append(f"{where(path, line)}: imports {module}")
    assert not wrong, "\n".join(wrong)


def test_wings_hang_on_the_protocols_and_on_public_names():
    wrong = []
    for path in SOURCES:
        part = part_of(name_of(path))
        if part not in WINGS:
            continue
        for module, name, line in facts(path).imports:
            parts = module.split(".")
            if parts[0] != "mxjax" or part_of(module) == part:
                continue
            if any(word.startswith("_") and word != "__version__" for word in (*parts, name)):
                wrong.append(f"{where(path, line)}: {module} {name} is private")
    assert not wrong, "\n".join(wrong)


def of_core(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """What a file uses of the core, with the line: a name of `mxjax.core`, or a module of it and a name."""
    core_names = set()
    for module, name, line in imports_of(tree, [], types=True):
        if module == "mxjax.core" and name:
            yield name, line
        elif module.startswith("mxjax.core."):
            inner = module.split(".")[2:]
            if inner[0] in FOLDERS and (len(inner) > 1 or name):
                inner.pop(
                    0
                )  # a module is known by its own name, whichever folder of the core it is in
            yield ".".join([*inner, *([name] if name else [])]), line
        elif module == "mxjax.core":
            core_names.add("core")
    for node in ast.walk(tree) if core_names else ():
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in core_names
        ):
            yield node.attr, node.lineno


def may_use(of: str) -> bool:
    module, _, name = of.partition(".")
    return of in CORE or (module in CORE_MODULES and not name.startswith("_"))


def test_wings_use_of_the_core_what_is_listed():
    used, wrong = set(), []
    for path in SOURCES:
        if part_of(name_of(path)) in WINGS:
            for of, line in facts(path).core:
                used.add(of.partition(".")[0])
                if not may_use(of):
                    wrong.append(f"{where(path, line)}: core.{of}")
    assert not wrong, "\n".join(wrong)
    assert set(core.__all__) == CORE | CORE_MODULES
    assert not (CORE | CORE_MODULES) - used, "no wing uses these"


@pytest.mark.parametrize(("source", "found"), [
    ("from mxjax.core.calls.state import local", ["state.local"]),
    ("from mxjax.core import record1, record2", ["record1"]),
    ("from mxjax.core import scheduler", ["scheduler"]),
    ("import mxjax.core.run.scheduler", ["scheduler"]),
    ("from mxjax import core\ncore.observers.append(core.local)", ["observers"]),
    ("from mxjax.core.placement.memory import _move", ["memory._move"]),
    ("from mxjax import core\nfrom mxjax.core.hooks import observers\ncore.memory.move", []),
])  # fmt: skip
def test_what_is_not_listed_is_found(source, found):
    assert [of for of, _ in of_core(ast.parse(source)) if not may_use(of)] == found


def private_names(tree: ast.AST) -> tuple[set[str], dict[str, int]]:
    """The private names that a file defines, and those that it asks objects for, with a line."""
    defined: set[str] = set()
    asked: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if own and isinstance(node.ctx, ast.Store):
                defined.add(node.attr)
            asked.setdefault(node.attr, node.lineno)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.alias):
            defined.add(node.asname or node.name)
    private = re.compile("_[^_]")
    return set(filter(private.match, defined)), {
        n: at for n, at in asked.items() if private.match(n)
    }


def test_wings_ask_no_other_part_for_private_names():
    """By the names: one that a wing asks for, does not have, and another part has."""
    defined: dict[str, set[str]] = {}
    asked: list[tuple[str, str, str]] = []
    for path in SOURCES:
        part = part_of(name_of(path))
        defined.setdefault(part, set()).update(facts(path).defined)
        asked += [(part, name, where(path, line)) for name, line in facts(path).asked.items()]
    wrong = [
        f"{at}: {name} of {', '.join(p for p in defined if name in defined[p])}"
        for part, name, at in asked
        if part in WINGS
        and name not in defined[part] | OF_HANDLES | OF_NAMED_TUPLES
        and any(name in names for names in defined.values())
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", [*WINGS, "mxjax", "tests", "tools", "benchmarks"])
def test_a_wing_is_imported_under_one_name(folder):
    """`import gluon` would be a second copy of the package."""
    wings = "|".join(WINGS)
    mentioned = re.compile(rf"^\s*(from|import\b.*(?<![.\w]))\s*({wings})\b", re.M)
    assert mentioned.search("import os, gluon") and mentioned.search(
        "    from kvstore.base import x"
    )
    assert not mentioned.search(
        "import mxjax.gluon\nfrom mxjax import gluon\nfrom .gluon import nn"
    )
    wrong = [
        where(path, line)
        for path in (ROOT / folder).rglob("*.py")
        if mentioned.search(path.read_text())  # the others need no second look
        for module, line in facts(path).modules
        if module.split(".")[0] in WINGS
    ]
    assert not wrong, wrong


def test_only_the_settings_read_the_environment():
    of_others = [path for path in SOURCES if part_of(name_of(path)) != "settings"]
    wrong = [where(path, line) for path in of_others for line in facts(path).environment]
    assert not wrong, wrong


def test_no_exec_no_star_import_no_bare_except():
    wrong = [
        f"{where(path, line)}: {what}" for path in SOURCES for line, what in facts(path).refused
    ]
    assert not wrong, "\n".join(wrong)


def test_jaxs_private_names_stand_in_one_file():
    wrong = [
        path
        for path in SOURCES
        if path.name != "_jax_private.py" and "jax._src" in path.read_text()
    ]
    assert not wrong


#: Who estimates or keeps accounts for `core/run/choice.py`, which decides by the numbers of `constants.py`.
ACCOUNTS = ("run/cold", "run/price", "run/programs", "run/tiers", "interpret/by_call")


def numbers_in(tree: ast.AST) -> list[int]:
    """The lines with numbers but those that count nothing."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and type(node.value) in (int, float)
        and node.value not in (0, 1, 2, 1e-9)
    ]


def test_numbers_that_decide_stand_in_one_table():
    """Each has a unit and a source; thresholds are asked by `choice.py` alone."""
    table = get_type_hints(constants, include_extras=True)
    assert set(table) == {name for name in vars(constants) if name.isupper()}
    for name, hint in table.items():
        unit, source = hint.__metadata__
        assert unit and len(source) > 10, name
        kind = get_origin(hint.__origin__) or hint.__origin__
        assert type(getattr(constants, name)) is kind, name
    core = ROOT / "mxjax" / "core"
    assert not numbers_in(ast.parse((core / "run" / "choice.py").read_text()))
    for module in ACCOUNTS:
        for node in ast.parse((core / f"{module}.py").read_text()).body:
            named = isinstance(node, ast.Assign) and not isinstance(
                node.value, (ast.Call, ast.Compare)
            )
            assert not named or not numbers_in(node), f"{module}, line {node.lineno}: constants.py"
    thresholds = (core / "run" / "constants.py").read_text().split("# ---- thresholds")[1]
    names = re.findall(r"^([A-Z_]+):", thresholds, re.M)
    assert len(names) > 20
    asked = re.compile(
        rf"\bconstants\.({'|'.join(names)})\b|constants import .*\b({'|'.join(names)})\b"
    )
    assert [p.name for p in SOURCES if asked.search(p.read_text())] == ["choice.py"]


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


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_a_readme_names_the_files_of_its_folder(readme):
    """All of them, and no other: what moved away or came is told where one looks for it."""
    text = "".join(path.read_text() for path in readme.parent.glob("*.md"))
    named = set(re.findall(r"\b(\w+\.py)\b", text))
    own = {path.name for path in readme.parent.glob("*.py")} - {"__init__.py"}
    # The files of `ops` are called as what their rows are about.
    assert readme.parent == ROOT / "mxjax" / "ops" or not own - named
    assert not named - EVERYWHERE - {"train.py", "GROUP.py"}  # a user's, and what stands for any


def test_lists_of_files_and_modules_name_what_is_there():
    """A name that moved away would be passed over without a word."""
    from mxjax.gluon.data._worker_boot import LIGHT, NOT_LIGHT
    from tests.numeric import FOLDERS

    assert not set(LIGHT + NOT_LIGHT) - MODULES
    assert all((ROOT / "tests" / name).exists() for name in FOLDERS)
