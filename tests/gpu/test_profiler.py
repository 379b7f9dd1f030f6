"""Traces of the card: kernels bear the names of operators and blocks, also where they run inside of CUDA graphs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mxjax as mx
from mxjax import autograd, gluon, profiler
from mxjax.profiler import _state, verify


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    state = _state.profiler
    state.resume()
    state.stop()
    registered = state._at_exit
    state.__init__()  # type: ignore[misc]
    state._at_exit = registered


@pytest.mark.parametrize("hybridize", [False, True])
def test_kernels_bear_the_names_of_operators_and_blocks(
    card: Any, tmp_path: Path, hybridize: bool
) -> None:
    mx.config.set({"engine.cold": "compile"})
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(16, 3, in_channels=3),
        gluon.nn.BatchNorm(in_channels=16),
        gluon.nn.MaxPool2D(),
        gluon.nn.Dense(10, in_units=16 * 49),
    )
    net.initialize(mx.init.Xavier())
    if hybridize:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
    x = mx.np.ones((16, 3, 16, 16))

    def step() -> None:
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(16)
        loss.wait_to_read()

    for _ in range(3):  # compiled; a CUDA graph is made at the second run
        step()
    mx.waitall()
    path = tmp_path / "trace.json"
    profiler.set_config(
        profile_all=True, aggregate_stats=True, continuous_dump=False, filename=str(path)
    )
    profiler.set_state("run")
    for _ in range(4):
        step()
    mx.waitall()
    profiler.set_state("stop")
    profiler.dump(finished=False)
    assert verify.check(str(path)) == []
    events = json.loads(path.read_text())["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    kernels = [e for e in events if e.get("cat") == "operator"]
    assert {processes[e["pid"]] for e in kernels} == {
        "cpu/0" if card.device_type == "cpu" else "gpu/0"
    }
    names = {e["name"] for e in kernels} | {n for e in kernels for n in e["args"].get("mx_ops", ())}
    assert any("Convolution" in n for n in names) and any("FullyConnected" in n for n in names), (
        names
    )
    assert any(n.startswith("_backward_") for n in names), names
    shares = profiler.attribution()
    assert sum(shares.values()) == pytest.approx(1) and shares["none"] < 0.1, shares
    assert "Convolution" in profiler.dumps()
    blocks = profiler.dumps(group_by="block")
    assert "conv" in blocks.lower() and "dense" in blocks.lower()


def test_memory_of_the_card(card: Any, tmp_path: Path) -> None:
    profiler.set_config(profile_all=True, filename=str(tmp_path / "trace.json"))
    profiler.set_state("run")
    x = mx.np.ones((1000, 1000))
    x.wait_to_read()
    profiler.set_state("stop")
    assert profiler.holders()
