"""Optimizer rows of mx.nd under a schedule: numbers that change from step to step."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx

STEPS = 12


def schedule(step: int) -> dict[str, float]:
    return {"lr": 0.1 / (step + 1), "wd": 1e-3 * step, "rescale_grad": 1 / (1 + step % 3)}


@pytest.mark.parametrize("name, states", [("sgd", 0), ("sgd_mom", 1), ("adam", 2), ("ftml", 3)])
def test_a_schedule_compiles_nothing(name, states):
    update = getattr(mx.nd, f"{name}_update")
    w, g = mx.nd.ones((3, 4)), mx.nd.ones((3, 4))
    kept = [mx.nd.zeros((3, 4)) for _ in range(states)]
    counted = {"t": 1} if name == "ftml" else {}
    for step in range(STEPS):
        if step == 3:  # the second step proves the program, the third donates as all later ones do
            mx.engine.reset()
        if counted:
            counted["t"] = step + 1
        update(w, g, *kept, out=w, **schedule(step), **counted)
        w.wait_to_read()
    assert mx.engine.stats()["compiled"] == 0


def test_a_schedule_counts_at_each_step():
    w = want = np.array([1.0, -2.0, 0.5], np.float32)
    mean = var = np.zeros(3, np.float64)
    g = np.array([0.3, -0.1, 2.0], np.float32)
    own, own_mean, own_var = mx.nd.array(w), mx.nd.zeros(3), mx.nd.zeros(3)
    for step in range(STEPS):
        s = schedule(step)
        mx.nd.adam_update(own, mx.nd.array(g), own_mean, own_var, out=own, **s)
        d = g * s["rescale_grad"] + s["wd"] * want
        mean, var = 0.9 * mean + 0.1 * d, 0.999 * var + 0.001 * d * d
        want = want - s["lr"] * mean / (np.sqrt(var) + 1e-8)
    np.testing.assert_allclose(own.asnumpy(), want, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_changing_numbers_leave_dtypes_alone(dtype):
    w, g, m = (mx.nd.ones((3,), dtype=dtype) for _ in range(3))
    for step in range(STEPS):
        out = mx.nd.sgd_mom_update(w, g, m, momentum=0.9, **schedule(step))
        assert out.dtype == m.dtype == np.dtype(dtype)


def test_half_precision_keeps_its_master_weight():
    w, g = mx.nd.ones((3,), dtype="float16"), mx.nd.ones((3,), dtype="float16")
    master = mx.nd.ones((3,))
    for _ in range(STEPS):
        w = mx.nd.mp_sgd_update(w, g, master, lr=1e-4)
    assert w.dtype == np.float16 and master.dtype == np.float32
    np.testing.assert_allclose(master.asnumpy(), 1 - STEPS * 1e-4, rtol=1e-6)
