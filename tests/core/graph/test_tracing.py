"""Jaxprs in one trace: the shapes and numbers of those that `jax.make_jaxpr` and `jax.vjp` make."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mxjax import core
from mxjax.core.graph import jaxprs, tracing
from mxjax.core.interpret import symbolic
from mxjax.core.interpret.numpy_rules import NotHere
from tests.core.interpret.test_kept_traces import derivative
from tests.core.interpret.test_symbolic import GROUPS, ROWS, operands, recorded


def computed(call, avals, arrays):
    """Shapes of the results, how many equations there are, and NumPy's numbers where it has rules."""
    call.traces.clear()
    call.general(avals)[0].traces.clear()
    b = symbolic.trace(call, avals, core.default_device())
    try:
        return b.shapes(), b.size[0], b.run(arrays)
    except NotHere as error:
        return b.shapes(), b.size[0], str(error)


@pytest.mark.parametrize(
    "names",
    [
        ROWS[::10],
        *(pytest.param(g, marks=pytest.mark.slow) for g in GROUPS),
    ],
    ids=lambda names: names[0],
)
def test_gradients_of_rows_are_those_of_jax(names, monkeypatch):
    compared = 0
    for call, inputs, results in recorded(names)[0]:
        given = operands(inputs)
        if given is None or call.graph is not None or call.effect:
            continue
        try:
            of = derivative(call, *given, results)
            if of is None:
                continue
            shapes, size, numbers = computed(*of)
        except Exception:  # it has none
            continue
        with monkeypatch.context() as jaxs:
            jaxs.setattr(tracing, "_parts", lambda: None)
            theirs, their_size, expected = computed(*of)
        assert shapes == theirs, call
        assert size <= 1 + 1.2 * their_size, call  # what a program is thought to cost
        if isinstance(expected, str) or isinstance(numbers, str):
            assert numbers == expected, call
            continue
        for a, b in zip(numbers, expected, strict=True):
            assert a.dtype == b.dtype, call
            if a.dtype.kind in "fc":
                tolerance = 4 * np.finfo(a.dtype).eps
                scale = np.max(np.abs(b[np.isfinite(b)]), initial=0)
                np.testing.assert_allclose(a, b, tolerance, tolerance * scale, err_msg=repr(call))
            else:
                np.testing.assert_array_equal(a, b, err_msg=repr(call))
        compared += 1
    assert compared


def gradient(fn, *arrays, traced=tracing.jaxpr_of):
    """The function's gradient by its first argument, by a jaxpr that is traced so."""

    def backward(*given):
        out, pull = jaxprs.pullback(fn, given, (True,) + (False,) * (len(given) - 1))
        return pull(jnp.ones_like(out))

    closed = traced(backward, [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays])
    return closed, np.asarray(jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *arrays)[0])


def test_a_gradient_is_followed_backwards_in_one_trace():
    x, y = np.float32([0.5, -2.0, 3.0]), np.float32([1.0, 2.0, -3.0])
    closed, got = gradient(lambda a, b: jnp.sin(a) * a / b, x, y)
    np.testing.assert_allclose(got, (np.cos(x) * x + np.sin(x)) / y, 1e-6)
    assert type(closed) is tracing.Closed
    assert len(closed.jaxpr.invars) == 2  # no tangents


def test_derivatives_that_a_function_has_of_its_own():
    @jax.custom_vjp
    def clipped(a):
        return a * 2

    clipped.defvjp(lambda a: (a * 2, a), lambda a, g: (jnp.clip(a, -1, 1) * g,))

    @jax.custom_jvp
    def twice(a):
        return a * 2

    twice.defjvp(lambda a, t: (a[0] * 2, t[0] * 7))
    x = np.float32([0.5, -2.0, 3.0])
    closed, got = gradient(lambda a: twice(clipped(a) + 1), x)
    np.testing.assert_array_equal(got, 7 * np.clip(x, -1, 1))
    assert type(closed) is tracing.Closed


@pytest.mark.parametrize(
    "fn",
    [
        lambda a: jax.lax.scan(lambda c, v: (c * v, c), jnp.float32(1), a)[0],
        lambda a: jax.lax.cond(a[0] > 0, jnp.sin, jnp.cos, a).sum(),
        jax.checkpoint(lambda a: jnp.sin(a) * a),
        jax.jit(lambda a: jnp.sin(a) * a),
    ],
    ids=["scan", "cond", "checkpoint", "jit"],
)
def test_what_holds_functions_goes_jaxs_way(fn):
    x = np.float32([0.5, -2.0, 3.0])
    closed, got = gradient(fn, x)
    np.testing.assert_allclose(got, jax.grad(lambda a: fn(a).sum())(x), 1e-6)
    assert type(closed) is not tracing.Closed


def test_a_gradient_inside_a_gradient():
    x = np.float32([0.5, -2.0, 3.0])
    _, got = gradient(lambda a: jax.vjp(jnp.sin, a)[1](a)[0], x)  # a cos a
    np.testing.assert_allclose(got, np.cos(x) - x * np.sin(x), 1e-5)


def test_the_product_of_no_numbers_has_a_gradient():
    assert gradient(jnp.prod, np.zeros((0, 4), np.float32))[1].shape == (0, 4)


def test_errors_of_the_function_are_its_own_and_leave_nothing_behind():
    x = np.ones((2, 3), np.float32)
    with pytest.raises(TypeError, match="incompatible shapes"):
        gradient(lambda a, b: jax.lax.mul(a, b), x, x.T)
    assert getattr(tracing._now, "frame", None) is None
    assert not isinstance(jnp.ones(2) + 1, jax.core.Tracer)
    assert gradient(lambda a: a * a, x)[1].tolist() == (2 * x).tolist()


def test_another_jax_traces_by_itself(monkeypatch):
    monkeypatch.setattr(tracing, "_parts", lambda: None)
    x = np.float32([0.5, 2.0])
    closed, got = gradient(lambda a: a * a, x)
    assert type(closed) is not tracing.Closed and got.tolist() == [1.0, 4.0]


def test_loops_stay_loops_where_jit_is_left_out():
    def fn(a):
        total = jax.lax.scan(lambda c, v: (c + v, c), jnp.float32(0), a)[0]
        many = jax.lax.while_loop(lambda v: v < 100, lambda v: v * 2, total)
        return jnp.where(a > 0, many, jax.lax.fori_loop(0, 3, lambda k, v: v + k, total))

    x = np.float32([1.0, -2.0, 3.0])
    closed = tracing.jaxpr_of(
        lambda a: tracing.run_inlined(fn, [a], loops=True), [jax.ShapeDtypeStruct((3,), "float32")]
    )
    names = [e.primitive.name for e in closed.jaxpr.eqns]
    assert "jit" not in names and names.count("scan") == 2 and names.count("while") == 1
    got = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, x)[0]
    np.testing.assert_array_equal(got, [128.0, 5.0, 128.0])
    unrolled = []
    with jax.disable_jit():  # the user's own is as it was
        jax.lax.scan(lambda c, v: (unrolled.append(v), (c, c))[1], 0.0, jnp.ones(4))
    assert len(unrolled) == 4


def test_a_jax_whose_loops_are_others_has_jit_around_them(monkeypatch):
    monkeypatch.setattr(tracing, "keeps_loops", lambda: False)
    closed = tracing.jaxpr_of(
        lambda a: tracing.run_inlined(
            lambda b: jax.lax.scan(lambda c, v: (c + v, c), 0.0, b)[0], [a], True
        ),
        [jax.ShapeDtypeStruct((3,), "float32")],
    )
    assert [e.primitive.name for e in closed.jaxpr.eqns] == ["scan"]
