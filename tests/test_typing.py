"""What type checkers know of users' programs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "tests" / "typing").glob("*.py"))


@pytest.mark.slow  # mypy reads the whole package
def test_programs_have_the_types_they_say():
    pytest.importorskip("mypy", reason="mypy comes with the extra lint")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *map(str, PROGRAMS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_programs_of_both_kinds_of_arrays():
    texts = [path.read_text() for path in PROGRAMS]
    assert sum(text.count("\ndef ") + text.count("\nclass ") for text in texts) >= 10
    assert any("np.ndarray" in text for text in texts) and any("nd.NDArray" in text for text in texts)
