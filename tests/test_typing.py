"""What type checkers know of users' programs."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "tests" / "typing").glob("*.py"))


def check(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow  # mypy reads the whole package
def test_programs_have_the_types_they_say():
    pytest.importorskip("mypy", reason="mypy comes with the extra lint")
    check(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *map(str, PROGRAMS))


@pytest.mark.slow
def test_they_have_for_a_strict_pyright_too():
    module = importlib.util.find_spec("pyright") is not None
    own = [sys.executable, "-m", "pyright"] if module else [shutil.which("pyright")]
    if own == [None]:
        pytest.skip("pyright comes with the extra types")
    if subprocess.run([*own, "--version"], capture_output=True).returncode:
        pytest.skip("pyright fetches itself at its first start, which needs a network once")
    check(*own, "-p", str(ROOT / "tests" / "typing"), "--pythonpath", sys.executable)


def test_there_are_ten_programs_and_both_kinds_of_arrays():
    texts = [path.read_text() for path in PROGRAMS]
    assert len(texts) >= 10 and all(
        text.count("\ndef ") + text.count("\nclass ") >= 2 for text in texts
    )
    assert sum(text.count("assert_type(") for text in texts) >= 40
    assert any("np.ndarray" in text for text in texts) and any(
        "nd.NDArray" in text for text in texts
    )
