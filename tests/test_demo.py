"""The demo and the bench's table."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from mxjax import settings

ROOT = Path(__file__).parents[1]


def demo(*args: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compiled as users' programs are: so long a training costs less than with the tests' quick code."""
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "demo.py"), *args],
        cwd=folder, env=settings.child_environment(PYTHONPATH=str(ROOT), XLA_FLAGS=None),
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip


def check(done: subprocess.CompletedProcess[str], ways: list[str], folder: Path) -> None:
    assert done.returncode == 0, done.stderr[-3000:]
    out = folder / "demo_output"
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    events = json.loads((out / "profile.json").read_text())["traceEvents"]
    assert any("Convolution" in event.get("name", "") for event in events)
    assert "perfetto" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1]]
    found = {row[0]: row for row in rows if row[0] in ways}
    assert list(found) == ways
    for row in found.values():
        assert float(row[1]) >= 97
    for name in set(ways) - {"data-parallel"}:
        assert float(found[name][4]) == 1.0, "one program a step was expected"


def test_one_way(tmp_path):
    pytest.importorskip("sklearn", reason="comes with the extra: demo")
    check(demo("--ways", "hybridized", folder=tmp_path), ["hybridized"], tmp_path)


@pytest.mark.slow
def test_all_ways(tmp_path):
    pytest.importorskip("sklearn", reason="comes with the extra: demo")
    ways = ["imperative", "hybridized", "mirrored", "data-parallel"]
    check(demo(folder=tmp_path), ways, tmp_path)


def test_an_unknown_way_is_refused(tmp_path):
    done = demo("--ways", "sideways", folder=tmp_path)
    assert done.returncode == 2
    assert "sideways" in done.stderr and "hybridized" in done.stderr


def test_the_bench_marks_what_misses_its_goal():
    spec = importlib.util.spec_from_file_location("bench_run", ROOT / "benchmarks" / "run.py")
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    results = {
        "avx512": True,
        "chain_30_small": {"cpu": 0.1, "wall": 0.2},
        "chain_30_small_jax": {"cpu": 0.4, "wall": 0.4},
        "chain_30_million": {"cpu": 7.0, "wall": 7.0},
        "chain_30_million_jax": {"cpu": 10.0, "wall": 10.0},
        "python_adam": {"cpu": 0.2, "wall": 0.2},
        "import": {"cpu": 400.0, "wall": 500.0},
    }
    lines = run.table(results).splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    assert [(c[2], c[3], c[4]) for c in cells] == [
        ("0.5", "0.25", "ok"),
        ("0.6", "0.70", "miss"),
        ("0.3", "", "ok"),
        ("300", "", "miss"),
    ]
    results["avx512"] = False
    assert "| 1 | 0.70 | ok |" in run.table(results)
