"""The programs in `examples/`: each runs, and ends with an assertion of its own."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name != "images.py")
#: What a program prints last, besides what it asserts.
SAYS = {
    "convnet.py": "accuracy ",
    "module_symbols.py": "features (256, 32)",
    "jax_loop.py": "accuracy ",
}


def test_each_is_short_told_of_and_asserts_something():
    page = (EXAMPLES / "README.md").read_text()
    assert len(PROGRAMS) == 10
    for name in PROGRAMS:
        text = (EXAMPLES / name).read_text()
        tree = ast.parse(text)
        assert len(text.splitlines()) < 150 and ast.get_docstring(tree), name
        assert f"[{name}]({name})" in page
        main = next(
            node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"
        )
        assert any(isinstance(node, ast.Assert) for node in ast.walk(main)), name


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs(name, tmp_path):
    if name == "jax_loop.py":
        pytest.importorskip("optax", reason="optax is not installed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("XLA_FLAGS", None)
    command = [sys.executable, str(EXAMPLES / name)]
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert SAYS.get(name, "") in run.stdout
