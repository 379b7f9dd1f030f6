"""Convolutions by NumPy on several cores; what they give is compared in test_numpy_primitives.py."""

import os
import signal

import numpy as np
import pytest

from mxjax.core.interpret import numpy_convolutions
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
