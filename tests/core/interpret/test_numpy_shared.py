"""Functions that NumPy has not, as programs of JAX: few of them, whatever the sizes. Sums of products, rounded once.

What is right of these is worked out with fractions.
"""

from __future__ import annotations

from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from mxjax.core.interpret import numpy_shared
from mxjax.core.interpret.numpy_blocks import LARGE
from mxjax.core.interpret.numpy_shared import product_and_sum
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


@pytest.fixture
def _as_optimised(monkeypatch):
    """The tests' programs are not optimised: LLVM rounds twice there."""
    monkeypatch.setattr(numpy_shared, "_rounds_once", lambda: True)


def _is_nearest(found, exact):
    """Whether a float32 is the nearest to a fraction, the even one of two."""
    low, high = (np.nextafter(found, np.float32(far), dtype="float32") for far in (-np.inf, np.inf))
    off = abs(Fraction(float(found)) - exact)
    even = not int(found.view(np.int32)) & 1
    return all(
        off < other or (off == other and even)
        for other in (abs(Fraction(float(n)) - exact) for n in (low, high))
    )


def _exact(a, b, c):
    return Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))


@pytest.mark.usefixtures("_as_optimised")
@pytest.mark.parametrize(
    "scale", [1.0, 1e-22]
)  # the second one's products are below normal numbers
def test_a_product_and_its_sum_are_rounded_once(scale):
    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=500) * scale).astype("float32"), rng.normal(size=500).astype("float32")
    b = (b * scale).astype("float32")
    c = (rng.normal(size=500) * scale**2).astype("float32")
    for name, at, sign in (("add", 0, (1, 1)), ("sub", 0, (1, -1)), ("sub", 1, (-1, 1))):
        found = product_and_sum(name, at)(a, b, c)
        assert found.dtype == np.float32
        for f, x, y, z in zip(
            found, a * np.float32(sign[0]), b, c * np.float32(sign[1]), strict=True
        ):
            assert _is_nearest(f, _exact(x, y, z)), (name, x, y, z)


@pytest.mark.usefixtures("_as_optimised")
@pytest.mark.parametrize(
    "a, b, c",
    [
        # Halfway in float64, and a little beyond or before it in truth.
        (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-70),
        (1 + 2.0**-12, 1 + 2.0**-12, -(2.0**-70)),
        (1 + 2.0**-12, -1 - 2.0**-12, 2.0**-70),
        # The same of numbers that have fewer digits: the sum's last one is 2 ** -149.
        ((1 + 2.0**-23) * 2.0**-75, (1 - 2.0**-23) * 2.0**-75, (2.0**20 + 1) * 2.0**-149),
        ((1 + 2.0**-23) * 2.0**-75, (1 - 2.0**-23) * 2.0**-75, 2.0**20 * 2.0**-149),
        ((1 + 2.0**-23) * 2.0**-75, (1 - 2.0**-23) * 2.0**-75, 2.0**-149),
    ],
)  # fmt: skip
def test_halfway_between_two_neighbours_what_was_lost_decides(a, b, c):
    numbers = np.float32(a), np.float32(b), np.float32(c)
    assert [float(n) for n in numbers] == [a, b, c]
    for many in (1, LARGE):  # also where the array is taken in blocks
        found = product_and_sum("add", 0)(np.full((many, 1), numbers[0]), *numbers[1:])
        assert found.shape == (many, 1) and (found == found[0]).all()
        assert _is_nearest(found[0, 0], _exact(*numbers))


@pytest.mark.usefixtures("_as_optimised")
def test_what_is_not_finite_stays_so():
    a = np.array([np.inf, np.nan, 3e38, 0, -0.0], "float32")
    found = product_and_sum("add", 0)(a, np.float32(10), np.float32(-0.0))
    np.testing.assert_array_equal(found, np.array([np.inf, np.nan, np.inf, 0, -0.0], "float32"))
    assert list(np.signbit(found[3:])) == [False, True]
