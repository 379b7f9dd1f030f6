"""Kernels of a program, counted from its equations, beside those that XLA writes."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest

from mxjax.core.run import constants, price
from mxjax.core.run.kernels import KERNELS, code_of

X = jnp.zeros((64, 200))
LOOP = r"kind=kLoop"  # element-wise kernels, in the text of an optimised program


def jaxpr_of(fn, *args):
    return jax.make_jaxpr(fn)(*args).jaxpr


def each(fn, *args):
    return code_of(jaxpr_of(fn, *args)).each


def compiled(fn, *args):
    """How many element-wise kernels XLA writes."""
    device = jax.devices("cpu")[0]
    with jax.default_device(device):
        text = jax.jit(fn).lower(*args).compile().as_text()
    return len(re.findall(LOOP, text))


def shared(x):
    y = x * 2
    return y + 1, y - x


def spread(x):
    """A quotient that each column uses: it is computed once, not for each number."""
    scale = 1 / jnp.sqrt(x[:, 0] + 1)
    return x * scale[:, None]


@pytest.mark.skipif(
    jax.__version_info__ >= (0, 11), reason="XLA's kernels were looked at with jax 0.10 alone"
)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + 1,
        lambda x: jnp.tanh(x * 3 + 1) - x,
        shared,
        spread,
        lambda x: (x * 2, x * 3, x + 4),
        lambda x: (jnp.where(x > 0, x, 0.1 * x), x.T + 1),
        lambda x: (x * 2).reshape(-1),
    ],
)
def test_as_many_kernels_as_the_compiler_writes(fn):
    found = each(fn, X)
    kernels = sum(n for kind, n in found.items() if kind.endswith("kernel"))
    assert kernels == compiled(fn, X)


def test_what_computes_nothing_is_no_kernel():
    assert each(lambda x: x.reshape(-1), X) == {}
    assert each(lambda x: jax.lax.stop_gradient(x), X) == {}
    assert each(lambda x: x.reshape(64, 1, 200).sum(axis=1), X) == {}  # of one number each
    assert each(lambda x: (x * 2, x + 1)[0], X) == {
        "arithmetic": 1,
        "kernel": 1,
    }  # nobody reads the sum


def test_calls_are_looked_into_and_their_constants_are_known():
    inner = jax.jit(lambda x, y: x * y + 1)
    assert each(lambda x: inner(inner(x, x), x), X) == {"arithmetic": 4, "kernel": 1}


def test_a_library_reads_what_is_written():
    w = jnp.zeros((200, 30))
    found = each(lambda x: jnp.tanh((x + 1) @ w) * 2, X)
    assert found == {"arithmetic": 2, "function": 1, "kernel": 2, "product": 1, "constant": w.size}
    assert each(lambda x, w: (x + 1) @ w.T, X, w.T) == {"arithmetic": 1, "kernel": 1, "product": 1}
    assert each(lambda x, w: x[:1] @ w, X, w)["product of a vector"] == 1


def test_kernels_that_are_alike_are_one():
    """So are those of layers of one size."""

    def layers(x, ws):
        for w in ws:
            x = jnp.tanh(x @ w + 1)
        return x

    three = code_of(jaxpr_of(layers, X, [jnp.zeros((200, 200))] * 3))
    assert three.each["kernel"] == 3 and three.unlike["kernel"] == 1
    assert code_of(jaxpr_of(lambda x: (x * 2, x * 2), X)).unlike["kernel"] == 1
    assert code_of(jaxpr_of(lambda x: (x * 2, x * 3), X)).unlike["kernel"] == 2
    assert code_of(jaxpr_of(lambda x: (x * 2, x[:9] * 2), X)).unlike["kernel"] == 2


def test_sums_are_a_librarys_where_they_are_long():
    assert each(lambda x: x.sum(axis=1), X) == {"sum": 1, "summing kernel": 1}
    short = jnp.zeros((4, constants.SUMMED // 8))
    assert each(lambda x: x.sum(axis=1), short) == {"reduction": 1, "reducing kernel": 1}
    assert each(lambda x: x.max(axis=1), X) == {"reduction": 1, "reducing kernel": 1}


def test_bodies_of_loops_write_what_the_next_round_reads():
    def scanned(x):
        return jax.lax.scan(lambda c, _: (jnp.sin(c) * 2, None), x, None, length=5)[0]

    assert each(scanned, X) == {"arithmetic": 1, "function": 1, "kernel": 1, "loop": 1}


def test_calls_that_follow_each_other_are_one_kernel():
    """What of a call's size is for kernels that are none where only later calls use its results."""
    call = price.size_of(jaxpr_of(lambda x: x * 2 + 1, X))
    assert call.whole_open == constants.CPU_CODE["kernel"][0]
    two = price.size_of(jaxpr_of(lambda x: (x * 2 + 1) * 2 + 1, X))
    parts = [price.Part(call, (-1,), (0,), "a"), price.Part(call, (0,), (1,), "b")]
    assert price.joined(parts, [1])[:3] == two[:3]
    assert price.joined(parts, [0, 1])[1:3] == (2 * call.quick, 2 * call.whole)
    again = [part._replace(what="a") for part in parts]
    assert price.joined(again, [0, 1]).whole == pytest.approx(call.whole * (1 + constants.ALIKE))
    product = price.size_of(jaxpr_of(lambda x: x @ x.T, X))
    read = [parts[0], price.Part(product, (0,), (1,), "c")]
    assert price.joined(read, [1]).whole == call.whole + product.whole


def test_each_kind_has_its_price():
    assert set(KERNELS.values()) < set(constants.CPU_CODE)
    for kind, (whole, quick) in constants.CPU_CODE.items():
        assert whole > 0 and quick > 0, kind
