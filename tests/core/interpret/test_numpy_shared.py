"""Functions that NumPy has not, as programs of JAX: few of them, whatever the sizes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from mxjax.core.interpret import numpy_shared
from mxjax.core.run.constants import FUNCTION, FUNCTION_NUMBER, FUNCTION_RUN


@pytest.fixture
def compiled(monkeypatch):
    """The sizes of the programs that were compiled."""
    sizes, build = [], numpy_shared.compile_or_load
    monkeypatch.setattr(
        numpy_shared,
        "compile_or_load",
        lambda lowered, options, jaxpr: [
            sizes.append(jaxpr.in_avals[0].size), build(lowered, options, jaxpr)
        ][1],
    )  # fmt: skip
    return sizes


def test_a_program_serves_other_sizes(compiled):
    fn = numpy_shared.shared(lambda x, y: jnp.maximum(x, y) * 2)
    for n in (700, 0, 1, 20, 64, 1024, 1025, 5000, 16385):
        x = np.arange(n, dtype="float32").reshape(-1, 1 if n % 5 else 5)
        np.testing.assert_array_equal(fn(x, np.float32(9)), np.maximum(x, 9) * 2)
    assert compiled == [1024]
    fn(np.arange(20.0), np.arange(20.0))  # of another dtype
    assert compiled == [1024, 64]


def test_a_size_that_comes_back_gets_its_own_program(compiled):
    fn = numpy_shared.shared(lambda x: x + 1)
    fn(np.zeros(10, "float32"))
    large = np.arange(16384, dtype="float32")
    more = 256 * (FUNCTION_RUN + 64 * FUNCTION_NUMBER) - (FUNCTION_RUN + 16384 * FUNCTION_NUMBER)
    for runs in range(1, 40):
        np.testing.assert_array_equal(fn(large), large + 1)
        assert compiled == ([64] if runs * more < FUNCTION else [64, 16384])
    assert len(compiled) == 2
    fn(np.zeros(300_000, "float32"))  # by pieces of what there is
    assert len(compiled) == 2
