"""What random operators promise beyond their distributions."""

from __future__ import annotations

import numpy as np

import mxjax as mx


def test_the_gradient_of_categorical_is_of_what_was_drawn():
    """d log p / d p is 1 / p for each time that an outcome came; one that cannot come gets 0."""
    p = mx.nd.array([[0.0, 0.25, 0.75], [0.5, 0.5, 0.0]])
    p.attach_grad()
    with mx.autograd.record():
        drawn, log_prob = mx.nd.random.categorical(p, shape=50, get_prob=True)
    log_prob.backward()
    drawn, probabilities = drawn.asnumpy(), p.asnumpy()
    want = np.zeros_like(probabilities)
    for row in range(2):
        np.testing.assert_allclose(log_prob.asnumpy()[row], np.log(probabilities[row][drawn[row]]), rtol=1e-6)
        for outcome in drawn[row]:
            want[row, outcome] += 1 / probabilities[row, outcome]
    np.testing.assert_allclose(p.grad.asnumpy(), want, rtol=1e-5)
    assert want[0, 0] == want[1, 2] == 0
