"""Sums of channels made in one loop: the numbers are NumPy's, in float64, and each array is read by one loop."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxjax as mx
from mxjax.core.compile import row_sums
from mxjax.core.compile.cpu_code import lowering
from mxjax.core.compile.images import Image, _evaluate
from mxjax.core.graph.jaxprs import bodies
from mxjax.ops.nn import batch_norm

EPS = 1e-3
SHAPES = [
    (4, 31, 29, 24),  # pixels that no piece divides
    (2, 40, 41, 144),
    (1, 262, 263, 1),
    (3, 5, 7, 1100),  # more channels than lie side by side
    (8, 64, 256),
    (1031, 64),  # a prime number of rows
]


@pytest.fixture(autouse=True, params=[1, 2], ids=["one_core", "two_cores"])
def _cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are larger where there are several."""
    monkeypatch.setattr(row_sums, "cores", lambda: request.param)


def sums_in(jaxpr: Any) -> list[int]:
    """How many sums each loop of a program makes."""
    own = [len(e.outvars) for e in jaxpr.eqns if e.primitive.name == "row_sums"]
    return own + [n for e in jaxpr.eqns for b in bodies(e.params) for n in sums_in(b)]


def left_in(jaxpr: Any) -> int:
    """Sums of pixels that XLA makes by itself."""
    own = sum(row_sums._is_sum(e) for e in jaxpr.eqns)
    return own + sum(left_in(b) for e in jaxpr.eqns for b in bodies(e.params))


def merged(fn: Any, *args: Any, quick: bool = False) -> tuple[Any, list[int], int]:
    """What a function gives with its sums made together, how many each loop makes, and how many are left."""
    traced = jax.jit(fn).trace(*args)
    made = row_sums.merged(traced.jaxpr)
    assert made is not None
    again = jax.jit(made).trace(*args)
    out = again.lower(**lowering("cpu", quick)).compile()(*args)
    tree = jax.tree.structure(traced.out_info)
    return jax.tree.unflatten(tree, out), sums_in(again.jaxpr.jaxpr), left_in(again.jaxpr.jaxpr)


def arrays(shape: tuple[int, ...], seed: int = 0) -> tuple[Any, ...]:
    rng = np.random.RandomState(seed)
    x, dy = (rng.randn(*shape).astype("float32") for _ in range(2))
    gamma, beta = rng.uniform(0.5, 1.5, shape[-1]), rng.randn(shape[-1])
    return x * 2 + 3, dy, gamma.astype("float32"), beta.astype("float32")


def normalised(x: Any, gamma: Any, beta: Any) -> Any:
    zeros = jnp.zeros_like(beta)
    out = batch_norm(
        x, gamma, beta, zeros, zeros, eps=EPS, momentum=0.0, fix_gamma=False, axis=-1, is_train=True
    )
    return out[0], out[-2:]


def textbook(x: Any, dy: Any, gamma: Any, beta: Any, kept: Any) -> tuple[Any, ...]:
    """BatchNorm behind an activation (not flat where ``kept``), and gradients: Ioffe and Szegedy 2015, float64."""
    x, dy, gamma, beta = (np.asarray(a, "float64") for a in (x, dy, gamma, beta))
    axes = tuple(range(x.ndim - 1))
    mean, var = x.mean(axes), x.var(axes)
    std = np.sqrt(var + EPS)
    hat = (x - mean) / std
    y = hat * gamma + beta
    dy = np.where(kept(y), dy, 0)
    dgamma, dbeta = (dy * hat).sum(axes), dy.sum(axes)
    n = x.size // x.shape[-1]
    return y, (gamma / std * (dy - dbeta / n - hat * dgamma / n), dgamma, dbeta), (mean, var)


ACTIVATIONS: dict[str, Any] = {
    "relu": (jax.nn.relu, lambda y: y > 0),
    "relu6": (
        lambda y: jnp.where(y > 6, 6.0, jnp.where(y < 0, 0.0, y)),
        lambda y: (y >= 0) & (y <= 6),
    ),
}


@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize("shape", [s for s in SHAPES if len(s) > 2], ids=str)
def test_batch_norm_and_its_gradient_are_the_textbooks(
    shape: tuple[int, ...], act: str, quick: bool
) -> None:
    x, dy, gamma, beta = arrays(shape)
    fn, kept = ACTIVATIONS[act]

    def step(x: Any, dy: Any, gamma: Any, beta: Any) -> Any:
        def forward(*given: Any) -> Any:
            y, moved = normalised(*given)
            return fn(y), (y, moved)

        _, pull, (y, moved) = jax.vjp(forward, x, gamma, beta, has_aux=True)
        return y, pull(dy), moved

    found, sums, left = merged(step, x, dy, gamma, beta, quick=quick)
    y, gradients, moved = textbook(x, dy, gamma, beta, kept)
    assert sums == [2, 2]
    # The mean of the first part alone, which is less than a loop reads, may be left.
    assert left <= 1
    sure = np.abs(y[..., None] - np.array([0.0, 6.0])).min() > 1e-6
    assert sure, "a number lies on the activation's edge: take another seed"
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves((y, gradients, moved)), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * np.abs(b).max())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_of_what_is_made_of_several_arrays(shape: tuple[int, ...]) -> None:
    x, dy, gamma, _ = arrays(shape, 1)
    axes = tuple(range(len(shape) - 1))

    def sums(x: Any, dy: Any, gamma: Any) -> Any:
        given, less = jnp.where(x > 3, dy, 0.25), x - gamma
        return given.sum(axes), (given * less).sum(axes), jnp.square(x).sum(axes)

    found, made, left = merged(sums, x, dy, gamma)
    x, dy, gamma = (np.asarray(a, "float64") for a in (x, dy, gamma))
    given = np.where(x > 3, dy, 0.25)
    wanted = given.sum(axes), (given * (x - gamma)).sum(axes), np.square(x).sum(axes)
    assert made == [3] and left == 0
    sizes = np.abs(given).sum(axes), np.abs(given * (x - gamma)).sum(axes), wanted[2]
    for a, b, size in zip(found, wanted, sizes, strict=True):
        assert (np.abs(a - b) <= 1e-6 * size).all()


@pytest.mark.parametrize("shape", [(8, 30, 31, 24), (2, 64, 63, 16)], ids=str)
@pytest.mark.parametrize(
    "far", ["all", "the first rows", "the first image", "all but the first rows"]
)
def test_the_variance_keeps_its_digits_wherever_the_images_lie(
    shape: tuple[int, ...], far: str
) -> None:
    x = np.random.RandomState(2).randn(*shape)
    place: Any = {
        "all": np.s_[:],
        "the first rows": np.s_[:, :2],
        "the first image": np.s_[:1],
        "all but the first rows": np.s_[:, 2:],
    }[far]
    x[place] += 1000
    x = x.astype("float32")
    gamma = np.ones(shape[-1], "float32")
    (_, (mean, var)), sums, _ = merged(normalised, x, gamma, gamma)
    assert sums == [2]
    wide = x.astype("float64")
    mean_error = np.abs(mean - wide.mean((0, 1, 2))).max()
    assert mean_error <= 1e-6 * np.abs(wide).max()
    np.testing.assert_allclose(var, wide.var((0, 1, 2)), rtol=5e-6)


def test_constant_images_have_no_variance_and_no_nan() -> None:
    x = np.full((4, 64, 64, 16), 1.1, "float32")
    ones = np.ones(16, "float32")
    (y, (_, var)), _, _ = merged(normalised, x, ones, ones)
    assert (np.asarray(var) >= 0).all() and (np.asarray(var) < 1e-12).all()
    np.testing.assert_allclose(y, 1, atol=1e-4)


def test_a_nan_stays_in_its_channel() -> None:
    x = np.random.RandomState(0).randn(4, 64, 64, 16).astype("float32")
    x[3, 63, 63, 5] = np.nan
    ones = np.ones(16, "float32")
    (y, _), _, _ = merged(normalised, x, ones, ones)
    assert np.isnan(y[..., 5]).all() and np.isfinite(np.delete(np.asarray(y), 5, -1)).all()


def test_small_images_many_cores_and_other_sums_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def pair(x: Any) -> Any:
        return (x - 1).sum((0, 1, 2)), (x * x).sum((0, 1, 2))

    large, small = np.ones((4, 64, 64, 16), "float32"), np.ones((2, 8, 8, 16), "float32")
    assert row_sums.merged(jax.jit(pair).trace(large).jaxpr) is not None
    assert row_sums.merged(jax.jit(pair).trace(small).jaxpr) is None
    assert row_sums.merged(jax.jit(lambda x: (x * x).sum((1, 2, 3))).trace(large).jaxpr) is None
    # One sum of what lies in memory gains nothing.
    assert row_sums.merged(jax.jit(lambda x: x.sum((0, 1, 2))).trace(large).jaxpr) is None
    monkeypatch.setattr(row_sums, "cores", lambda: row_sums.MOST_CORES)
    assert row_sums.merged(jax.jit(pair).trace(large).jaxpr) is not None
    monkeypatch.setattr(row_sums, "cores", lambda: row_sums.MOST_CORES + 1)
    assert row_sums.merged(jax.jit(pair).trace(large).jaxpr) is None
    assert not row_sums.pays(large.shape, large.dtype)


def test_sums_of_numbers_alone_stay() -> None:
    """The gradient of what is added to all rows, where the head's is one number everywhere."""
    shape = (4, 64, 64, 16)

    def of_numbers(x: Any) -> Any:
        return (jnp.full(shape, 3.0, "float32") * jnp.full(shape, 0.5, "float32")).sum(
            (0, 1, 2)
        ) + x

    assert row_sums.merged(jax.jit(of_numbers).trace(np.float32(0)).jaxpr) is None

    def of_two(x: Any) -> Any:
        return of_numbers(jnp.float32(0)), (x - 1).sum((0, 1, 2)), (x * x).sum((0, 1, 2))

    (numbers, *_), sums, _ = merged(of_two, np.ones(shape, "float32"))
    assert sums == [2]
    np.testing.assert_array_equal(numbers, np.full(16, 1.5 * 4 * 64 * 64, "float32"))

    x, b = mx.nd.ones((65536 * 16, 8)), mx.nd.zeros((1, 8))
    for _ in range(2):
        b.attach_grad()
        with mx.autograd.record():
            y = mx.nd.broadcast_add(x, b)
        y.backward()
    np.testing.assert_array_equal(b.grad.asnumpy(), np.full((1, 8), 65536 * 16, "float32"))


def test_pieces_of_several_cores_are_larger_where_they_leave_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes = {(8, 112, 112, 32): 256, (4, 64, 64, 16): 128, (4, 32, 32, 16): 32}  # KB
    for cores in (1, 2):
        monkeypatch.setattr(row_sums, "cores", lambda cores=cores: cores)
        for shape, kilobytes in shapes.items():
            assert row_sums._piece(shape) == (32 if cores == 1 else kilobytes) << 10
            assert 4 * np.prod(shape) >= row_sums.LEAST * row_sums._piece(shape)


def test_a_sum_that_needs_another_is_not_made_with_it() -> None:
    x = np.random.RandomState(1).randn(4, 64, 64, 16).astype("float32")

    def twice(x: Any) -> Any:
        mean = (x * 2).mean((0, 1, 2))
        return mean, jnp.square(x * 2 - mean).mean((0, 1, 2))

    (mean, var), sums, _ = merged(twice, x)
    assert sums == [1, 1]
    wide = 2 * x.astype("float64")
    np.testing.assert_allclose(mean, wide.mean((0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(var, wide.var((0, 1, 2)), rtol=1e-5)


def test_a_part_of_an_image_is_cut_out_of_it_as_it_lies() -> None:
    x = np.random.RandomState(0).randn(4, 6, 8, 10).astype("float32")
    closed = jax.make_jaxpr(lambda x: lax.slice(x, (1, 2, 0, 1), (3, 5, 8, 10), (1, 1, 2, 1)))(x)

    def fn(last: Any) -> Any:
        (out,) = _evaluate(closed.jaxpr, closed.consts, Image(last))
        assert isinstance(out, Image)
        return out.last

    last = np.moveaxis(x, 1, -1)
    np.testing.assert_array_equal(fn(last), np.moveaxis(x[1:3, 2:5, ::2, 1:], 1, -1))
    assert "transpose" not in str(jax.make_jaxpr(fn)(last))


def test_what_is_summed_has_a_dying_inputs_place():
    """JAX refused: it took the result of a layout constraint for one of any layout."""
    numbers = np.random.RandomState(3).rand(4096, 512).astype("float32")
    with mx.config.scope({"engine.cold": "compile"}):
        x = mx.nd.array(numbers)
        w = mx.nd.ones((512,))
        x.attach_grad()
        w.attach_grad()
        with mx.autograd.record():
            y = x * w
        y.backward()
        np.testing.assert_allclose(w.grad.asnumpy(), numbers.sum(0, "float64"), rtol=1e-5)
        np.testing.assert_array_equal(x.grad.asnumpy(), np.ones_like(numbers))
