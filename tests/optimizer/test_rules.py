"""The pure rules against the steps that MXNet 2.0's own optimizers took."""

import re

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.core.compile.compiler import wide_types
from mxjax.optimizer import rules
from tests.optimizer.recorded import (
    CASES,
    STEPS,
    case_id,
    expected,
    make,
    start_and_grads,
    tolerance,
)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_steps_equal_mxnet(case):
    opt = make(case)
    master = bool(case["kwargs"].get("multi_precision"))
    weights, grads = start_and_grads(case)
    kept = [np.float32(w) if master else w for w in weights]
    states = [opt.init(k) for k in kept]
    if master:
        states = [(k, *s) for k, s in zip(kept, states, strict=True)]
    step = opt.pure_update(range(len(states)), weights, [len(s) for s in states])
    step = jax.jit(step) if case["key"].endswith("7") else step  # inside a program it is the same
    flat_states = [s for own in states for s in own]
    trail = [[], []]
    for i in range(STEPS):
        if i == 3:
            opt.set_learning_rate(0.02)
        numbers = opt.count_updates([0, 1])
        out = step(numbers, *weights, *grads[i], *flat_states)
        weights, flat_states = out[:2], out[2:]
        for t, w in zip(trail, weights, strict=True):
            t.append(np.asarray(w, np.float32))
    want, want_states = expected(case)
    for got, right in zip(trail, want, strict=True):
        np.testing.assert_allclose(np.stack(got), right, **tolerance(case))
    got_states = np.concatenate([np.ravel(np.float32(s)) for s in flat_states] or [np.zeros(0)])
    np.testing.assert_allclose(got_states, want_states, **tolerance(case))


SHAPES = [(), (0,), (1,), (7,), (3, 4), (1, 1), (0, 5), (2, 1, 3), (2, 3, 4, 5), (1,) * 9]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_shapes_of_states_follow_from_the_weights_and_are_asked_once(dtype, monkeypatch):
    asked = []
    with wide_types():
        for optimizer in (
            mx.optimizer.SGD(momentum=0.9),
            mx.optimizer.SGD(),
            mx.optimizer.Adam(),
            mx.optimizer.RMSProp(centered=True),
            mx.optimizer.RMSProp(),
            mx.optimizer.Ftrl(),
            mx.optimizer.FTML(),
            mx.optimizer.GroupAdaGrad(),
        ):
            for shape in SHAPES:
                struct = jax.ShapeDtypeStruct(shape, dtype)
                if isinstance(optimizer, mx.optimizer.GroupAdaGrad) and len(shape) != 2:
                    with pytest.raises(ValueError, match=re.escape(f"got a weight of {shape}")):
                        rules.state_shapes(optimizer, struct)
                    continue
                found = rules.state_shapes(optimizer, struct)
                expected = jax.eval_shape(optimizer.init, struct)
                assert [(m.shape, m.dtype) for m in found] == [(m.shape, m.dtype) for m in expected]
        monkeypatch.setattr(rules.jax, "eval_shape", lambda *a: asked.append(a))
        optimizer = mx.optimizer.Adam()
        optimizer.num_update = 100
        rules.state_shapes(optimizer, jax.ShapeDtypeStruct((31, 17), dtype))
    assert not asked
