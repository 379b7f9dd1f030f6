"""Memory of the card: plans and limits that hold, and what happens where it is full."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon, memonger
from tests.memonger.helpers import BATCH, data, dtr_for_small_arrays, network


@pytest.fixture(autouse=True)
def exact_products(card: Any) -> None:
    """In TF32 sums in another order differ by more than tests can allow."""
    mx.config.set(precision_matmul="highest")


def step(net: Any, x: Any) -> tuple[float, list[np.ndarray]]:
    with autograd.record():
        loss = (net(x) ** 2).mean()
    loss.backward()
    return float(loss), [p.grad().asnumpy() for p in net.collect_params().values()]


def close(got: Any, want: Any) -> None:
    assert got[0] == pytest.approx(want[0], rel=1e-3)
    for a, b in zip(got[1], want[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-4 * np.abs(b).max())


def test_a_plan_keeps_its_budget(card: Any) -> None:
    want = step(network(), data())
    found = memonger.plan(network(), data(), budget=0.8, of="temp", compilations=4)
    assert found.bytes <= found.report.budget and found.recompute > 0
    net, x = network(), data()
    net.hybridize(mirror=found)
    close(step(net, x), want)
    trainer = gluon.Trainer(net.collect_params(), "sgd")

    def planned() -> None:
        with autograd.record():
            out = net(x)
            loss = (out * out).mean()
        loss.backward()
        trainer.step(BATCH)

    assert memonger.measure(planned).temp_bytes <= found.report.budget


@pytest.mark.parametrize("mirror", [True, "offload"])
def test_what_mirroring_keeps(real_card: Any, mirror: Any) -> None:
    want = step(network(), data(1024))
    net = network()
    net.hybridize(mirror=mirror)
    close(step(net, data(1024)), want)


def test_states_in_the_host_s_memory(real_card: Any) -> None:
    def trained(place: bool) -> list[float]:
        net = network(2)
        trainer = gluon.Trainer(net.collect_params(), "adam")
        if place:
            memonger.place(net, "pinned_host")
            memonger.place(trainer, "pinned_host")
        found = []
        for _ in range(3):
            with autograd.record():
                loss = (net(data()) ** 2).mean()
            loss.backward()
            trainer.step(1)
            found.append(float(loss))
        if place:
            assert net[0].weight.data()._value().arr.sharding.memory_kind == "pinned_host"
        return found

    np.testing.assert_allclose(trained(True), trained(False), rtol=1e-3)


@pytest.fixture
def dtr() -> Iterator[None]:
    mx.config.set({"engine.cold": "compile"})
    with dtr_for_small_arrays():
        yield


def test_dtr_keeps_a_limit(card: Any, dtr: None) -> None:
    net, x = network(12), data()
    want = step(net, x)
    mx.dtr.stats(reset=True)
    with mx.engine.bulk(1):
        step(net, x)
    found = mx.dtr.stats(reset=True)
    assert found["evictions"] == 0
    resident = sum(3 * 4 * p.data().size for p in net.collect_params().values())
    limit = mx.dtr.eviction_threshold = int(resident + 0.5 * (found["peak_bytes"] - resident))
    with mx.engine.bulk(1):
        got = step(net, x)
    found = mx.dtr.stats()
    assert found["evictions"] > 0 and found["recomputations"] > 0 and found["peak_bytes"] <= limit
    close(got, want)


FULL = """
    import gc
    import numpy as np
    import mxjax as mx

    with mx.gpu(0):
        limit = mx.gpu(0).jax_device.memory_stats()["bytes_limit"]
        held = []
        for hybridize in (False, True):
            net = mx.gluon.nn.HybridLambda(lambda x: x * 2 + 1)
            if hybridize:
                net.hybridize()
            try:
                for _ in range(8):  # of a quarter of it
                    held.append(net(mx.np.ones((limit // 16,))))
                    held[-1].wait_to_read()
                raise SystemExit("there was room for all")
            except mx.errors.MXNetMemoryError as error:
                assert isinstance(error, MemoryError) and "out of memory" in str(error), error
            held.clear()
            del net
            gc.collect()
            x = mx.np.ones((1000, 1000))
            assert float((x * 2).sum()) == 2e6
            assert float(mx.np.ones((limit // 16,))[-1]) == 1.0
    print("went on", flush=True)
"""


def test_a_full_card_is_an_error_and_the_process_goes_on(real_card: Any, tmp_path: Path) -> None:
    """In a process that may use a twentieth of the card, for others are on it."""
    script = tmp_path / "full.py"
    script.write_text(textwrap.dedent(FULL))
    env = {
        **os.environ,
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.05",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "went on" in done.stdout, done.stdout + done.stderr[-3000:]


def test_what_is_freed_is_used_again(real_card: Any) -> None:
    """Donated and dropped arrays give their room back: a loop over large arrays stays within a few of them."""
    x = mx.np.ones(1 << 26)  # a quarter of a gigabyte
    for _ in range(40):
        x = x * 1.0001
        x.wait_to_read()
    used = real_card.jax_device.memory_stats()["peak_bytes_in_use"]
    assert used < 8 << 28
