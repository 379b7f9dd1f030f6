"""Large results of NumPy lie where XLA takes them as they are, and their memory serves the next ones."""

from __future__ import annotations

import gc
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.core.interpret import numpy_code, numpy_memory, symbolic
from mxjax.core.interpret.numpy_memory import ALIGNED, KEPT, LARGE, held, release, room


@pytest.fixture(autouse=True)
def nothing_kept():
    gc.collect()
    release()
    yield
    release()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", jnp.bfloat16])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (LARGE, 1), (3, KEPT // 2)])
def test_room_is_an_array_of_that_shape_and_dtype(shape, dtype):
    made = room(shape, dtype)
    assert made.shape == shape and made.dtype == np.dtype(dtype)
    assert made.flags.c_contiguous and made.flags.writeable
    if made.nbytes >= LARGE:
        assert made.ctypes.data % ALIGNED == 0


def test_memory_that_nobody_reads_is_used_again():
    first = room((KEPT,), "uint8")
    where = first.ctypes.data
    del first
    assert held() == KEPT
    again = room((KEPT // 8, 2), "float32")  # of as many bytes
    assert again.ctypes.data == where and held() == 0


def test_memory_that_a_view_or_an_array_of_jax_reads_is_not():
    first = room((2, KEPT // 4), "float32")
    first[...] = 7
    row, taken = first[1, :10], jax.device_put(first)
    where = first.ctypes.data
    del first
    assert held() == 0
    second = room((2, KEPT // 4), "float32")
    second[...] = 1
    assert second.ctypes.data != where and (row == 7).all() and (np.asarray(taken) == 7).all()
    taken.delete()
    assert held() == 0 and (row == 7).all()


def test_no_more_is_kept_than_the_bound_and_what_was_asked_for_last(monkeypatch):
    monkeypatch.setattr(numpy_memory, "_limit", lambda: 4 * KEPT)
    old, used, new = [room((KEPT + k,), "uint8") for k in range(3)]
    where = used.ctypes.data
    del old, used
    again = room((KEPT + 1,), "uint8")
    assert again.ctypes.data == where
    del again, new
    assert held() == 3 * KEPT + 3
    more = [room((KEPT + 3,), "uint8")]
    more.clear()
    assert held() == 3 * KEPT + 6  # that of the first size went
    assert room((KEPT + 1,), "uint8").ctypes.data == where
    room((5 * KEPT,), "uint8")
    assert held() <= 4 * KEPT
    release()
    assert held() == 0


def test_who_is_interrupted_by_memory_that_comes_back_does_not_wait():
    array = room((KEPT,), "uint8")
    with numpy_memory._lock:
        del array  # as when the collector runs in the midst of it
        assert held() == 0
        assert room((KEPT,), "uint8").nbytes == KEPT


def product(x, y):
    return x @ y


def products(x, y):
    return jnp.einsum("bij,bjk->bik", x.reshape(2, -1, 300), jnp.stack([y, y]))


def convolved(x, y):
    return jax.lax.conv(
        x[:300, :300].reshape(1, 1, 300, 300), y[:8, :9].reshape(8, 1, 3, 3), (1, 1), "SAME"
    )


def updated(x, y):
    return x * 0.5 + x * x


@pytest.mark.parametrize("fn", [product, products, convolved, updated])
def test_jax_takes_large_results_without_a_copy(fn):
    r = np.random.RandomState(0)
    x, y = r.rand(1000, 300).astype("float32"), r.rand(300, 400).astype("float32")
    code = numpy_code.Code(jax.make_jaxpr(fn)(x, y))
    (found,) = code.fn(code.layout.values(()), x, y)
    assert found.nbytes >= LARGE
    array = jax.device_put(found)
    assert array.unsafe_buffer_pointer() == found.ctypes.data
    np.testing.assert_allclose(found, fn(x, y), rtol=1e-4, atol=1e-4)


def test_a_weights_updates_take_turns_in_the_same_memory():
    rows = KEPT // 4 // 1000 + 1

    def trained(steps):
        p = gluon.Parameter("w", shape=(rows, 1000))
        p.initialize(mx.init.Constant(1.0))
        trainer = gluon.Trainer([p], "sgd", {"learning_rate": 0.1, "momentum": 0.5})
        places = set()
        for _ in range(steps):
            with autograd.record():
                loss = (p.data() * p.data()).sum() / 2
            loss.backward()
            trainer.step(1)
            places.add(jax.numpy.asarray(p.data()).unsafe_buffer_pointer())
        return p.data().asnumpy(), places

    with mx.config.scope({"engine.cold": "interpret"}):
        found, places = trained(8)
    w, m = np.float64(1), np.float64(0)
    for _ in range(8):
        m = 0.5 * m - 0.1 * w
        w = w + m
    np.testing.assert_allclose(found, np.full_like(found, w), rtol=1e-5)
    assert len(places) <= 6


def test_empty_cache_gives_it_back():
    arrays = [room((KEPT,), "uint8")]
    arrays.clear()
    assert held() == KEPT
    mx.cpu().empty_cache()
    assert held() == 0


@pytest.mark.parametrize("size", [LARGE, 4 * LARGE, KEPT])
def test_results_are_not_copied(size):
    """What lies in memory of ours is a result's own, though that memory begins before it."""
    x = np.ones(size // 4, "float32")
    made = room(x.shape, x.dtype)
    assert symbolic.own(made, [x]) is made
    turned = room((size // 16, 4), x.dtype)
    whole = turned.reshape(4, -1)
    assert symbolic.own(whole, [x]) is whole
    assert symbolic.own(turned.T, [x]) is not turned.T and symbolic.own(made[1:], [x]).base is None
    assert symbolic.own(made, [made]) is not made


def test_a_result_that_nobody_reads_ends_with_its_call():
    """Gradients of weights that the next backward pass writes over were kept until all was computed: of 18 passes of a
    ResNet-18 0.8 GB."""
    side, passes = 512, 8
    w, x = mx.nd.ones((side, side)), mx.nd.ones((2, side))
    w.attach_grad()
    x.attach_grad()

    def attack():
        y = x
        for _ in range(passes):
            y = y.detach()
            y.attach_grad()
            with autograd.record():
                loss = mx.nd.FullyConnected(y, w, no_bias=True, num_hidden=side).sum()
            loss.backward()
            y = y + 1e-3 * y.grad
        return y

    with mx.config.scope({"engine.cold": "interpret"}):
        mx.waitall()
        tracemalloc.start()
        try:
            last = attack()
            last.wait_to_read()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 4 * side * side * 4  # one gradient, and what its product takes
    np.testing.assert_allclose(last.asnumpy(), 1 + passes * 1e-3 * side, rtol=1e-5)
    np.testing.assert_allclose(
        w.grad.asnumpy()[0, 0], 2 * (1 + (passes - 1) * 1e-3 * side), rtol=1e-5
    )
