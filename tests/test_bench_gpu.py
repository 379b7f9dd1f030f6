"""The benchmark of training on a GPU: at a CPU's size it runs, its frameworks agree, and its table is right."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import gpu, gpu_kernels, gpu_work

ROOT = Path(__file__).resolve().parent.parent


def _run(folder: Path, *works: str) -> tuple[str, dict[str, Any]]:
    env = {**os.environ, "OUT": str(folder), "PYTHONPATH": str(ROOT)}
    asked = [sys.executable, "-m", "benchmarks.gpu", *works, "--tiny", "--no-compile", "--first"]
    done = subprocess.run(asked, cwd=ROOT, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads((folder / "gpu.json").read_text())["rows"]


def _agrees(said: str, rows: dict[str, Any], *works: str) -> None:
    for work in works:
        losses = [
            np.array(rows[work][way]["losses"]) for way in ("hybridized", "imperative", "jax")
        ]
        assert all(a[-1] < a[0] for a in losses)
        # Of the first loss: so small a network learns its few numbers in some steps, and small differences grow.
        near = (3e-2 if gpu_work.WORKS[work].bf16 else 1e-4) * losses[2][0]
        np.testing.assert_allclose(losses[0][:3], losses[2][:3], rtol=0, atol=near)
        assert all(rows[work][way]["ms"] > 0 for way in ("hybridized", "imperative", "jax"))
    assert "differ by" not in said
    assert "failed" not in said


def test_runs_and_agrees(tmp_path: Path) -> None:
    said, rows = _run(tmp_path, "lstm", "cold")
    _agrees(said, rows, "lstm")
    assert rows["cold"]["imperative"]["ms"] > 0
    assert 0 < rows["lstm"]["begun"]["first"] < rows["lstm"]["begun"]["warm"]


@pytest.mark.slow
def test_every_network_runs_and_agrees(tmp_path: Path) -> None:
    said, rows = _run(tmp_path, "lenet", "bert_128", "bert_512", "resnet_tf32", "pipeline")
    _agrees(said, rows, "lenet", "bert_128", "bert_512", "resnet_tf32")
    assert rows["pipeline"]["hybridized"]["ms"] > 0


@pytest.mark.parametrize(
    ("net", "millions"), [("resnet", 25.557), ("bert", 133.0), ("lstm", 19.8), ("lenet", 0.4408)]
)
def test_the_networks_are_of_the_known_sizes(net: str, millions: float) -> None:
    # ResNet-50 has 25,557,032 parameters (He et al. 2016); BERT-base 109.5 M with its embeddings shared, here with an
    # output of its own (23.5 M more) and without sentence types and a pooler.
    count = sum(math.prod(shape) for _, shape in gpu_work.shapes(net, gpu_work.FULL))
    assert count / 1e6 == pytest.approx(millions, rel=0.01)


def test_bf16_weights_are_numbers_of_bf16() -> None:
    import ml_dtypes

    for a in gpu_work.weights(gpu_work.WORKS["bert_128"], gpu_work.TINY):
        assert np.array_equal(a.astype(ml_dtypes.bfloat16).astype(np.float32), a)


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        ({"hybridized": 1.0, "imperative": 1.04, "jax": 1.1, "torch": 2.0}, ["0.91", "ok", "1.04"]),
        (
            {"hybridized": 1.0, "imperative": 1.2, "jax": 1.1, "torch": 2.0},
            ["0.91", "miss", "1.20"],
        ),
        (
            {"hybridized": 1.0, "imperative": 1.0, "jax": 2.0, "torch": 0.5},
            ["2.00", "miss", "1.00"],
        ),
        ({"hybridized": 1.0, "imperative": 1.0}, ["", "", "1.00"]),
    ],
)
def test_a_row_compares_with_the_best(ms: dict[str, float], said: list[str]) -> None:
    cells = gpu.line(gpu.ROWS[0], {way: {"ms": t} for way, t in ms.items()}).split(" | ")
    assert [cell.strip() for cell in cells[2:5]] == said


def test_losses_that_do_not_fall_or_differ_are_said() -> None:
    row = gpu.ROWS[0]
    good = {"losses": [2.0, 1.5, 1.0]}
    assert gpu.disagreement(row, {"hybridized": good, "jax": {"losses": [2.0, 1.5, 1.001]}}) == []
    assert (
        "differ"
        in gpu.disagreement(row, {"hybridized": good, "jax": {"losses": [2.0, 1.5, 1.2]}})[0]
    )
    assert (
        "does not fall"
        in gpu.disagreement(row, {"hybridized": {"losses": [2.0, 2.0, math.nan]}})[0]
    )


def test_kernels_are_those_of_the_devices_streams() -> None:
    meta = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0 H100"}},
        {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "/host:CPU"}},
        {
            "ph": "M",
            "name": "thread_name",
            "pid": 1,
            "tid": 7,
            "args": {"name": "Stream #7(Compute)"},
        },
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 8, "args": {"name": "XLA Ops"}},
        {"ph": "M", "name": "thread_name", "pid": 2, "tid": 7, "args": {"name": "python"}},
    ]
    ran = [
        {"ph": "X", "name": "gemm", "pid": 1, "tid": 7, "dur": 3000.0 * gpu_kernels.ROUNDS},
        {"ph": "X", "name": "gemm", "pid": 1, "tid": 8, "dur": 99.0},
        {"ph": "X", "name": "python", "pid": 2, "tid": 7, "dur": 99.0},
    ]
    found = gpu_kernels.summary(meta + ran)
    assert found["device_ms"] == pytest.approx(3.0)
    assert [k["name"] for k in found["longest"]] == ["gemm"]
