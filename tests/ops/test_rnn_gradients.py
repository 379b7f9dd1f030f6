"""Gradients of recurrent loops that are written by hand, beside those that JAX makes of the step."""

import jax
import numpy as np
import pytest

from mxjax.core.compile.compiler import wide_types
from mxjax.ops import rnn

T, N, C, H = 5, 3, 4, 6


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("mode", ["gru", "lstm", "rnn_tanh", "rnn_relu"])
def test_gradients_by_hand_are_those_of_the_step(mode, backward, order):
    rng = np.random.RandomState(0)
    rows, cells = rnn.GATES[mode] * H, 2 if mode == "lstm" else 1
    arrays = [
        rng.randn(*s)
        for s in ((T, N, C), (rows, C), (rows, H), (rows,), (rows,), *[(N, H)] * cells)
    ]
    of_outs, of_last = rng.randn(T, N, H), rng.randn(cells, N, H)
    step = rnn._step(mode, H, None)

    def gradients(by_hand):
        def total(x, w_in, w_hidden, b_in, b_hidden, *state):
            outs, last = rnn._direction(
                x, state, (w_in, w_hidden, None, b_in, b_hidden), step, None, backward, by_hand
            )
            ends = sum((a * g).sum() for a, g in zip(last, of_last, strict=True))
            return (outs * of_outs).sum() + ends

        places = tuple(range(len(arrays)))
        first = jax.grad(total, argnums=places)
        if order == 1:
            return first(*arrays)
        return jax.grad(lambda *given: sum((g * g).sum() for g in first(*given)), argnums=places)(
            *arrays
        )

    with wide_types():
        for a, b in zip(gradients(mode), gradients(None), strict=True):
            assert a.dtype == "float64"
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_results_beside_gradients_are_those_without():
    rng = np.random.RandomState(1)
    x, w, b = rng.randn(T, N, 3 * H), rng.randn(3 * H, H), rng.randn(3 * H)
    state = (rng.randn(N, H),)
    with wide_types():
        plain = rnn._gru(False)(x, state, w, b)
        beside, _ = jax.vjp(rnn._gru(False), x, state, w, b)
        for a, c in zip(jax.tree.leaves(plain), jax.tree.leaves(beside), strict=True):
            np.testing.assert_array_equal(a, c)
