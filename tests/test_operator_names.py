"""What a program does about an operator stands in the operator's row: no list of operators by name elsewhere."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mxjax.ops.table import TABLE, internal_names

ROOT = Path(__file__).parents[1]
NAMES = {*TABLE, *(op.display for op in TABLE.values()), *internal_names()}
#: What compares with an operator's name: the attributes that hold it.
HOLDERS = {"name", "display", "internal", "operator", "registry"}
#: So many places there are; a new one has to become a column (`mxjax/ops/columns.py`). The numbers only shrink.
THERE = {
    "mxjax/array/operators.py": 2,  # Python's operators
    "mxjax/symbol/operators.py": 3,
    "mxjax/symbol/functions.py": 1,  # functions of mx.sym.np that are rows of mx.np with another signature
    "mxjax/symbol/random.py": 1,
    "mxjax/symbol/files.py": 4,  # loops and branches, which no rows are
    "mxjax/symbol/recorded.py": 1,
    "mxjax/array/sparse/forms.py": 1,  # what rows compute of sparse arrays: the other half of the table
    "mxjax/array/sparse/updates.py": 1,
    "mxjax/array/sparse/dispatch.py": 1,
    "mxjax/array/invoke.py": 2,
    "mxjax/array/ufunc_options.py": 1,
    "mxjax/_deferred_compute.py": 2,
    "mxjax/amp/convert.py": 1,
    "mxjax/effects/dump.py": 1,  # NumPy's statistics
    "mxjax/effects/logs.py": 1,
    "mxjax/debug/compare.py": 1,  # NumPy's statistics
    "mxjax/onnx/mx2onnx/elementwise.py": 1,  # words of an attribute
    "mxjax/visualization.py": 6,  # what is drawn
}


def texts(nodes: Iterator[ast.expr | None]) -> list[str]:
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def lists(tree: ast.AST) -> Iterator[int]:
    """The lines where names of operators are compared with, or listed: four at least, and most of a list."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            given = texts(n for c in node.comparators for n in ast.walk(c))  # type: ignore[misc]
            if getattr(node.left, "attr", "") in HOLDERS and given and NAMES.issuperset(given):
                yield node.lineno
        elif isinstance(node, (ast.Dict, ast.Set, ast.List, ast.Tuple)):
            parts = [node.keys, node.values] if isinstance(node, ast.Dict) else [node.elts]
            for given in (texts(iter(part)) for part in parts):
                if len(NAMES.intersection(given)) >= max(4, 0.6 * len(given)):
                    yield node.lineno
                    break


def found() -> dict[str, list[int]]:
    made = {}
    for path in sorted((ROOT / "mxjax").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(("mxjax/ops/", "mxjax/core/")):  # primitives of JAX have such names
            made[name] = list(lists(ast.parse(path.read_text())))
    return {name: lines for name, lines in made.items() if lines}


def test_no_list_of_operators_stands_outside_the_table():
    seen = found()
    more = {n: lines for n, lines in seen.items() if len(lines) > THERE.get(n, 0)}
    assert not more, f"say it in the rows, in a column of mxjax/ops/columns.py: {more}"
    fewer = Counter(THERE) - Counter({n: len(lines) for n, lines in seen.items()})
    assert not fewer, f"there are fewer places now: lower the numbers of THERE by {dict(fewer)}"


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("if op.name == 'softmax': pass", 1),
        ("if node.operator in ('BatchNorm', 'LayerNorm'): pass", 1),
        ("if key == 'softmax': pass", 0),
        ("X = {'softmax': 1, 'relu': 2, 'sigmoid': 3, 'tanh': 4}", 1),
        ("X = frozenset({'softmax', 'relu', 'sigmoid', 'tanh'})", 1),
        ("X = ('softmax', 'relu')", 0),
    ],
)
def test_what_is_a_list_of_operators(code, count):
    assert len(list(lists(ast.parse(code)))) == count
