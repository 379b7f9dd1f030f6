"""Numbers of rows under the code generator that users get, in a process of its own.

That of the tests' own processes is turned down (conftest.py).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("size", [1003, pytest.param(67, marks=pytest.mark.slow)])
def test_rows_are_numpys_at_so_many_numbers(size):
    """Vectors of 512 bits had the arc tangent wrong from 64 numbers on, in programs alone."""
    users = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "MXJAX_TEST_CODEGEN")}
    users["PYTHONPATH"] = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    command = [sys.executable, "-m", "tests.ops.as_users", str(size)]
    done = subprocess.run(command, cwd=ROOT, env=users, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    found = re.search(r"compared (\d+), programs (\d+)", done.stdout)
    assert found is not None and int(found[1]) >= 125 and int(found[2]) > 0, done.stdout
