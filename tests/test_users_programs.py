"""Programs of kinds that people wrote for MXNet train as there: `tests/programs`, whose README says more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mxjax import settings

HERE = Path(__file__).parent / "programs"
#: What MXNet 1.9.1 gives (`python tests/programs > losses.json`).
RECORDED = json.loads((HERE / "losses.json").read_text())
#: What MXNet 2.0.0b1 gives for its own.
SECOND = json.loads((HERE / "second" / "losses.json").read_text())
SLOW = {"search"}  # starts processes
EXACT = {"tables"}  # integers, and the bits of floats


def losses(names, generation="1.9"):
    """Of programs, which run one after the other in one process."""
    done = subprocess.run(
        [sys.executable, "-m", "mxjax", "--as", generation, str(HERE), *names],
        env=settings.child_environment(PYTHONPATH=str(HERE.parents[1])), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_all_are_recorded():
    programs = {path.stem for path in HERE.glob("*.py")} - {"__main__", "common"}
    assert programs == set(RECORDED) and len(programs) >= 20
    assert all(len(numbers) >= 20 and np.isfinite(numbers).all() for numbers in RECORDED.values())
    assert {path.stem for path in (HERE / "second").glob("*.py")} == set(SECOND)
    assert all(len(numbers) >= 20 and np.isfinite(numbers).all() for numbers in SECOND.values())


@pytest.mark.parametrize("names", [
    pytest.param(sorted(set(RECORDED) - SLOW), id="quick"),
    pytest.param(sorted(SLOW), id="slow", marks=pytest.mark.slow),
])  # fmt: skip
def test_as_mxnet(names):
    compare(losses(names), RECORDED, names)


@pytest.mark.parametrize("names", [
    pytest.param(["interactions", "tables"], id="quick"),
    pytest.param(["single_shot", "transformer"], id="slow", marks=pytest.mark.slow),
])  # fmt: skip
def test_as_mxnet_2(names):
    compare(losses(names, "2.0"), SECOND, names)


def compare(found, recorded, names):
    assert set(found) == set(names)
    wrong = {}
    for name in names:
        try:
            assert not isinstance(found[name], str)
            near = (0, 0) if name in EXACT else (1e-3, 1e-5)
            np.testing.assert_allclose(found[name], recorded[name], *near)
        except AssertionError as error:
            wrong[name] = found[name] if isinstance(found[name], str) else error
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())
