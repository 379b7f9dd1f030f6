"""Arrays of one element are numbers to Python where programs of MXNet 1 read them, as NumPy 1.26 has it."""

import pickle

import numpy as np
import pytest

import mxjax as mx


@pytest.fixture
def loss():
    with mx.config.scope(compat_version="1.9"):
        return mx.nd.array([[1, 2], [3, 6]]).mean(axis=0).mean(axis=0, keepdims=True).asnumpy()


def test_one_element_is_a_number(loss):
    assert loss.shape == (1,) and isinstance(loss, np.ndarray)
    assert (float(loss), int(loss), complex(loss)) == (3.0, 3, 3 + 0j)
    assert "%.1f %d" % (loss, loss * 2) == "3.0 6"  # noqa: UP031  # as programs of that time write
    assert repr(loss) == "array([3.], dtype=float32)" and f"{loss}" == "[3.]"


def test_it_is_numpys_in_all_else(loss):
    assert type(loss.sum()) is type(loss[0]) is type(np.sqrt(loss).max()) is np.float32
    assert type(pickle.loads(pickle.dumps(loss))) is np.ndarray
    assert type(np.concatenate([loss, loss])) is np.ndarray
    with pytest.raises(TypeError, match="only size-1 arrays"):
        float(np.repeat(loss, 2).view(type(loss)))


def test_arrays_take_it(loss):
    x = mx.nd.ones((2, 2)) * loss
    np.testing.assert_array_equal(x.asnumpy(), np.full((2, 2), 3))
    x[0] = loss + 1
    x[1, loss.astype(int) - 2] = 7
    np.testing.assert_array_equal(x.asnumpy(), [[4, 4], [3, 7]])
    np.testing.assert_array_equal(mx.np.array(loss).asnumpy(), [3])


def test_others_and_those_of_mxnet_2_are_plain():
    with mx.config.scope(compat_version="1.9"):
        assert type(mx.nd.ones(2).asnumpy()) is np.ndarray
    assert type(mx.nd.ones(1).asnumpy()) is np.ndarray
