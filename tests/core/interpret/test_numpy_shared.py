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


def _nearest(x: Fraction) -> np.float32:
    """The number of float32 next to an exact one; half-way the even one."""
    near = np.float32(float(x))
    around = [near, *(np.nextafter(near, np.float32(s)) for s in (-np.inf, np.inf))]
    return min(around, key=lambda c: (abs(Fraction(float(c)) - x), int(c.view(np.int32)) & 1))


@pytest.mark.usefixtures("_as_optimised")
@pytest.mark.parametrize("name, at", [("add", 0), ("add", 1), ("sub", 0), ("sub", 1)])
def test_products_and_sums_are_rounded_once(name, at):
    rng = np.random.RandomState(3)
    a, b, c = rng.randn(3, 120).astype("float32")
    coarse = 1 + rng.randint(0, 4096, (2, 120)) * 2.0**-12  # products and sums often half-way
    tiny = rng.randint(-8, 8, 120) * 2.0**-25
    kinds = [
        (a, b, c), (a, np.float32(1), c), (a, b, np.float32(0)), (np.float32(1), b, c), (np.float32(1.7), b, c),
        (*coarse, tiny), (a * 1e-20, b * 1e-20, c * 1e-41),
    ]  # fmt: skip
    for kind in kinds:
        given = [np.asarray(k, "float32") for k in kind]
        found = product_and_sum(name, at)(*given)
        for got, x, y, z in zip(found, *np.broadcast_arrays(*given), strict=True):
            product, other = Fraction(float(x)) * Fraction(float(y)), Fraction(float(z))
            exact = product + other if name == "add" else (product - other) * (1 - 2 * at)
            assert got == _nearest(exact)


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
        assert found[0, 0] == _nearest(Fraction(a) * Fraction(b) + Fraction(c))


@pytest.mark.usefixtures("_as_optimised")
def test_what_is_not_finite_stays_so():
    a = np.array([np.inf, np.nan, 3e38, 0, -0.0], "float32")
    found = product_and_sum("add", 0)(a, np.float32(10), np.float32(-0.0))
    np.testing.assert_array_equal(found, np.array([np.inf, np.nan, np.inf, 0, -0.0], "float32"))
    assert list(np.signbit(found[3:])) == [False, True]
