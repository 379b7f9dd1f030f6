"""Convolutions by NumPy on several cores; what they give is compared in test_numpy_primitives.py."""

import os
import signal

import jax
import numpy as np
import pytest
from jax import lax

from mxjax.core.interpret import numpy_convolutions
from mxjax.core.interpret.numpy_code import Code
from mxjax.core.interpret.numpy_convolutions import _by_image, _in_parts, _threads, one_thread


def work():
    rnd = np.random.RandomState(0)
    view = rnd.rand(7, 32, 3, 3, 20, 20).astype("float32")  # (N, C, *kernel, *output)
    return view, rnd.rand(40, 32 * 9).astype("float32"), np.empty((7, 40, 20, 20), "float32")


class Ended:
    """A pool at the interpreter's end."""

    def submit(self, *args):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")


@pytest.mark.parametrize("pool", ["threads", "ended"])
@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_parts_are_the_whole(count, pool, monkeypatch):
    monkeypatch.setattr(numpy_convolutions, "cores", lambda: count)
    if pool == "ended":
        monkeypatch.setattr(numpy_convolutions, "_pool", lambda *_: Ended())
    view, w, out = work()
    _in_parts(_by_image, view, w, out)
    want = np.einsum("of,nfhw->nohw", w, view.reshape(7, 32 * 9, 20, 20))
    np.testing.assert_allclose(out, want, rtol=1e-5)


def test_an_error_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(numpy_convolutions, "cores", lambda: 2)

    def product(view, w, out):
        if len(view) == 4:  # the second part
            raise MemoryError("of a part")

    with pytest.raises(MemoryError, match="of a part"):
        _in_parts(product, *work())


def test_the_librarys_threads_are_put_back():
    found = _threads()
    if found is None:
        pytest.skip("NumPy has another library than OpenBLAS")
    get, put = found
    before = get()
    put(2)
    try:
        if get() != 2:
            pytest.skip("OpenBLAS was built, or told, to have one thread")
        with one_thread(), one_thread():
            assert get() == 1
        assert get() == 2
        with pytest.raises(KeyError), one_thread():
            raise KeyError
        assert get() == 2
    finally:
        put(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:os.fork", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_forked_child_has_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(numpy_convolutions, "cores", lambda: 2)
    monkeypatch.setattr(numpy_convolutions, "forked", [False])  # as before XLA ran
    view, w, out = work()
    _in_parts(_by_image, view, w, out)
    child = os.fork()
    if not child:
        signal.alarm(30)  # a child that waits for ever ends, too
        again = np.empty_like(out)
        _in_parts(_by_image, view, w, again)
        os._exit(0 if np.array_equal(again, out) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ---- gradients of inputs


def gradient_of_input(w, g, shape, stride, padding, dilation):
    """By its definition: each output's gradient, times the filters, where the output was read from."""
    kernel, space = w.shape[2:], g.shape[2:]
    padded = np.zeros(
        shape[:2] + tuple(n + sum(p) for n, p in zip(shape[2:], padding, strict=True))
    )
    for tap in np.ndindex(*kernel):
        for at in np.ndindex(*space):
            place = tuple(
                a * s + t * d for a, s, t, d in zip(at, stride, tap, dilation, strict=True)
            )
            padded[(..., *place)] += g[(..., *at)].astype("float64") @ w[(..., *tap)]
    inner = [slice(low, low + n) for (low, _), n in zip(padding, shape[2:], strict=True)]
    return padded[(..., *inner)]


@pytest.mark.parametrize("seed", range(24))
def test_gradients_of_inputs_by_their_definition(seed, monkeypatch):
    """Strides, dilations, paddings beyond the kernel (where XLA's own are wrong), one to three axes."""
    rnd = np.random.RandomState(seed)
    rank = 1 + seed % 3
    spread = []
    real = numpy_convolutions._spread_out
    monkeypatch.setattr(numpy_convolutions, "_COLUMNS", [1, 16, 256][seed // 3 % 3])
    monkeypatch.setattr(numpy_convolutions, "_spread_out", lambda *a: spread.append(1) or real(*a))
    stride, dilation = (
        tuple(map(int, rnd.randint(1, most, rank))) for most in ((2, 4)[seed % 2], 3)
    )
    kernel = tuple(map(int, rnd.randint(1, 4, rank)))
    padding = [tuple(map(int, rnd.randint(0, 3, 2))) for _ in range(rank)]
    shape = (3, 8, *map(int, rnd.randint(5, 8, rank)))
    names = "DHW"[3 - rank :]
    layout = ["NC" + names, "OI" + names, ["NC" + names, "N" + names + "C"][seed // 12]]
    x, w = rnd.rand(*shape).astype("float32"), rnd.rand(40, 8, *kernel).astype("float32")

    def forward(x):
        return lax.conv_general_dilated(
            x, w, stride, padding, rhs_dilation=dilation, dimension_numbers=tuple(layout)
        )

    given = rnd.rand(*jax.eval_shape(forward, x).shape).astype("float32")
    code = Code(jax.make_jaxpr(lambda g: jax.vjp(forward, x)[1](g)[0])(given))
    (got,) = code.fn((), given)
    channels_first = given if layout[2][1] == "C" else np.moveaxis(given, -1, 1)
    want = gradient_of_input(w, channels_first, shape, stride, padding, dilation)
    assert got.shape == shape and got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-4)
    if max(stride) > 1:
        assert len(spread) == int(np.prod(kernel) <= np.prod(shape[2:])) == 1


def test_gradients_of_many_filters_copy_none():
    rnd = np.random.RandomState(0)
    w = rnd.rand(64, 32, 3, 3).astype("float32")
    turned = w[:, :, ::-1, ::-1].swapaxes(0, 1)
    assert numpy_convolutions._is_spread(np.ones((2, 64, 2, 2)), turned, (1, 1), (2, 2))
    assert np.shares_memory(numpy_convolutions._turned(turned).reshape(64, -1), w)
    assert not numpy_convolutions._is_spread(np.ones((2, 64, 99, 9)), turned, (1, 1), (2, 2))
    assert not numpy_convolutions._is_spread(np.ones((2, 32, 2, 2)), w, (1, 1), (2, 2))


def test_gradients_of_transposed_weights_take_patches():
    """Their filters are images: each input added for each of these would be all the work many times."""
    x, g = np.ones((16, 4, 4, 4), "float32"), np.ones((16, 4, 8, 8), "float32")
    assert not numpy_convolutions._is_spread(x, g, (2, 2), (4, 4))
    assert numpy_convolutions._is_spread(g, np.ones((4, 4, 4, 4)), (2, 2), (16, 16))


@pytest.mark.parametrize("stride", [1, 2])
def test_channels_with_a_filter_each_by_the_definition(stride):
    r = np.random.RandomState(0)
    x, w = r.randn(2, 3, 7, 6).astype("float32"), r.randn(3, 1, 3, 3).astype("float32")

    def f(x, w):
        return jax.lax.conv_general_dilated(
            x, w, (stride, stride), ((1, 1), (1, 1)), feature_group_count=3
        )

    code = Code(jax.make_jaxpr(f)(x, w))
    (found,) = code.fn(code.layout.values(()), x, w)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype("float64")
    want = np.zeros(found.shape)
    for at in np.ndindex(*found.shape[2:]):
        i, j = at[0] * stride, at[1] * stride
        seen = padded[:, :, i : i + 3, j : j + 3]
        want[:, :, at[0], at[1]] = (seen * w[:, 0]).sum((2, 3))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
