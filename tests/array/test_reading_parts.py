"""Elements and parts that are read from an array that is there: a look at its memory, without a call."""

from __future__ import annotations

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd

VALUES = onp.arange(24, dtype="float32").reshape(2, 3, 4) - 7
KEYS = [
    0, -1, (1, 2), (1, 2, 3), (-1, -1, -1), slice(1, 2), (0, slice(1, 3)), (1, slice(None)), (slice(0, 1), None),
    (0, None, 1), (1, Ellipsis), (0, slice(2, 0)), (slice(0, 2),),
]  # fmt: skip


@pytest.fixture(params=["np", "nd"])
def array(request):
    made = getattr(mx, request.param).array(VALUES)
    made.wait_to_read()
    mx.waitall()
    return made


def operators():
    return mx.engine.stats()["operators"]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_part_is_numpys_and_nothing_is_recorded(array, key):
    before = operators()
    part = array[key].asnumpy()
    assert operators() == before
    want = VALUES[key]
    if array[key].shape != want.shape:  # nd keeps an axis where all are numbers
        want = want.reshape(array[key].shape)
    onp.testing.assert_array_equal(part, want)
    part[...] = 99  # a copy
    onp.testing.assert_array_equal(array.asnumpy(), VALUES)


@pytest.mark.parametrize("read", [float, int, bool, lambda x: x.item(), lambda x: x.asscalar()])
def test_an_element_is_a_number(array, read):
    before = operators()
    got = read(array[1, 2, 3])
    assert operators() == before
    assert got == read(VALUES[1, 2, 3].item()) if read in (float, int, bool) else got == 16


def test_several_elements_are_no_number(array):
    with pytest.raises((TypeError, ValueError, mx.MXNetError)):
        float(array[0])
    with pytest.raises((ValueError, mx.MXNetError)):
        array[0].item()
    with pytest.raises((ValueError, mx.MXNetError)):
        bool(array[0])


def test_views_show_what_is_written(array):
    element, row = array[1, 0, 2], array[1, 1]
    assert float(element) == 7
    array[1] += 10
    assert float(element) == 17 and float(array[1, 0, 2]) == 17
    row[:] = 0
    onp.testing.assert_array_equal(array[1, 1].asnumpy(), onp.zeros(4))
    assert float(row[3]) == 0  # a view of a view
    array[:] = mx.np.ones((2, 3, 4)) if isinstance(array, mx.np.ndarray) else 1
    assert float(element) == 1 and row.asnumpy().tolist() == [1, 1, 1, 1]


def test_what_waits_runs_with_who_reads(array):
    """Or a loop that reads elements of one array would never compute what it does to another."""
    other = array * 2
    assert float(array[0, 0, 0]) == -7
    before = operators()
    onp.testing.assert_array_equal(other.asnumpy(), VALUES * 2)
    assert operators() == before


def test_gradients_go_through_parts_that_were_read(array):
    array.attach_grad()
    with autograd.record():
        part = array[1, 2]
        assert float(part[0]) == 13
        loss = (part * part).sum()
    loss.backward()
    want = onp.zeros_like(VALUES)
    want[1, 2] = 2 * VALUES[1, 2]
    onp.testing.assert_array_equal(array.grad.asnumpy(), want)
    assert float(array.grad[1, 2, 1]) == want[1, 2, 1]


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "int8", "int64", "uint8", "bool", "float64"]
)
def test_dtypes_stay(dtype):
    x = mx.np.array([[0, 1], [2, 3]], dtype=dtype)
    x.wait_to_read()
    part = x[1].asnumpy()
    assert part.dtype == x.asnumpy().dtype and part.tolist() == x.asnumpy()[1].tolist()
    assert x[0, 1].item() == 1


def test_no_numbers():
    x = mx.np.zeros((0, 3))
    assert x[0:0].asnumpy().shape == (0, 3) and x[:, 1].asnumpy().shape == (0,)
    with pytest.raises(IndexError):
        x[0]


def test_a_lent_array_is_read_anew():
    memory = onp.zeros(6, "float32")
    x = mx.np.from_dlpack(memory) if hasattr(mx.np, "from_dlpack") else mx.nd.from_numpy(memory)
    part = x[2:4]
    assert part.asnumpy().tolist() == [0, 0]
    memory[2] = 5
    assert part.asnumpy().tolist() == [5, 0] and float(x[2]) == 5


def test_a_whole_network_may_read_elements_of_its_input():
    class Branches(mx.gluon.HybridBlock):
        def forward(self, x):
            return x + 1 if float(x[0, 0]) > 0 else x - 1

    net = Branches()
    net.hybridize()
    with pytest.warns(UserWarning, match="reads an array's value"):
        assert float(net(mx.np.array([[3.0]]))[0, 0]) == 4
    for first, want in ((-3.0, -4.0), (3.0, 4.0)):
        assert float(net(mx.np.array([[first]]))[0, 0]) == want
