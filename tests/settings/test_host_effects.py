"""What the settings make of the host's own work: sums, small numbers, custom operators."""

import threading

import numpy as np
import pytest

import mxjax as mx
from mxjax.core.run import host_compute
from mxjax.kvstore import _host, _priority

pytestmark = pytest.mark.programs


@pytest.fixture(autouse=True)
def as_if_this_were_no_cpu(monkeypatch):
    """On CPUs NumPy computes small numbers as all that does not come back (`cold`), without plans of their own."""
    monkeypatch.setattr(host_compute, "AT_HOME", ())


@pytest.mark.observes
@pytest.mark.parametrize("threads", [1, 3])
def test_so_many_sums_run_at_a_time_and_the_most_urgent_begin_first(threads):
    with mx.config.scope(MXNET_CPU_PRIORITY_NTHREADS=threads):
        pool = _priority.workers(2)
    assert pool.size == threads and _priority.workers(6).size == 6
    gate, lock, began = threading.Event(), threading.Lock(), []
    arrived = threading.Barrier(threads + 1)
    first = [pool.submit(0, lambda: (arrived.wait(30), gate.wait(30))) for _ in range(threads)]
    arrived.wait(30)  # all threads are at work, and together

    def note(name):
        with lock:
            began.append(name)

    later = [pool.submit(priority, note, priority) for priority in (0, 5, -2, 9)]
    assert not any(f.done() for f in (*first, *later))
    gate.set()
    for f in (*first, *later):
        f.result(30)
    assert sorted(began) == [-2, 0, 5, 9]
    if threads == 1:
        assert began == [9, 5, 0, -2]
    with pytest.raises(ZeroDivisionError):
        pool.submit(0, lambda: 1 // 0).result(30)


@pytest.mark.observes
def test_a_kvstores_sums_run_in_these_threads_with_its_priority(monkeypatch):
    seen = []
    submit = _priority.PriorityPool.submit

    def spy(self, priority, fn, *args):
        def run(*given):
            seen.append((self.size, priority, threading.current_thread().name))
            return fn(*given)

        return submit(self, priority, run, *args)

    monkeypatch.setattr(_priority.PriorityPool, "submit", spy)
    store = mx.kv.create("device")
    parts = [mx.np.array(np.full(3 * _host.PIECE, k + 1.0), device=mx.cpu(k)) for k in range(2)]
    out = mx.np.zeros(3 * _host.PIECE)
    with mx.config.scope(
        MXNET_CPU_PRIORITY_NTHREADS=2,
        MXNET_KVSTORE_BIGARRAY_BOUND=1,
        MXNET_KVSTORE_REDUCTION_NTHREADS=3,
    ):
        store.init("w", out)
        store.push("w", parts, priority=7)
        store.pull("w", out)
        assert (out.asnumpy() == 3).all()
    assert len(seen) == 3 and {(size, priority) for size, priority, _ in seen} == {(2, 7)}
    assert {name for _, _, name in seen} <= {"mxjax-kvstore-0", "mxjax-kvstore-1"}


def lengths():
    a = mx.np.array([3, 4, 5], dtype="int32")
    b = mx.np.array([7, 2, 2], dtype="int32")
    half = mx.np.array(2.5)
    return [
        x.asnumpy()
        for x in (
            a * b + 1,
            a // 2,
            a % 2,
            mx.np.maximum(a, b) - a,
            (a > 3).astype("int64"),
            a.sum(),
            a.prod(),
            mx.np.concatenate([a, b]),
            mx.np.where(a > 3, a, b),
            -a,
            a[1:],
            a.reshape((1, 3)) + b,
            -mx.np.abs(half),
            mx.np.floor(half).astype("int32") * 2,
            mx.np.stack([a, b]).transpose(),
            half > 2,
        )
    ]


@pytest.mark.observes
def test_small_whole_numbers_need_no_program():
    def counted(on):
        mx.core.drop_programs()
        with mx.config.scope(MEGENGINE_HOST_COMPUTE=on):
            mx.engine.reset()
            found = lengths()
            return found, mx.engine.stats()

    here, with_numpy = counted(1)
    there, with_programs = counted(0)
    assert with_numpy["compiled"] == with_numpy["programs"] == 0 and with_numpy["on_host"] > 0
    assert with_programs["compiled"] > 0 and with_programs["on_host"] == 0
    for a, b in zip(here, there, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b)


def test_what_numpy_computed_takes_part_in_programs_and_on_the_tape():
    n = mx.np.array([2, 3], dtype="int32") * 2
    n.wait_to_read()
    x = mx.np.ones((2, 8))
    x.attach_grad()
    with mx.autograd.record():
        y = (x * n.reshape((2, 1))).sum()
    y.backward()
    assert y.item() == 80 and x.grad.asnumpy()[:, 0].tolist() == [4, 6]
    n += 1
    assert n.asnumpy().tolist() == [5, 7] and n.jax.devices() == x.jax.devices()


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_what_nobody_read_goes_into_the_next_program(dtype):
    a = mx.np.array(3, dtype=dtype)
    doubled = a * 2
    mx.waitall()
    many = mx.np.ones((5, 2), dtype=dtype) * doubled
    assert many.sum().item() == 60 and many.dtype == dtype


def test_on_another_device_small_numbers_stay_where_they_came_from(monkeypatch):
    from mxjax.array import handle

    copies = []
    put = handle.quick_put
    monkeypatch.setattr(
        handle, "quick_put", lambda array, device: copies.append(array.shape) or put(array, device)
    )
    a, b = (mx.np.array([k, 2], dtype="int32") for k in (5, 7))
    mx.engine.reset()
    assert (a * b - 1).asnumpy().tolist() == [34, 3] and not copies
    assert mx.engine.stats()["on_host"] == 1 and mx.engine.stats()["programs"] == 0
    assert (
        mx.np.ones((3, 2)) * a
    ).sum().item() == 21 and not copies  # with the program, which takes it in
    with mx.config.scope(MEGENGINE_HOST_COMPUTE=0):
        mx.np.array([5, 2], dtype="int32")
    assert copies == [(2,)]


@pytest.mark.parametrize(
    "compute",
    [
        lambda: mx.np.arange(8, dtype="int32") + 1,  # too many
        lambda: mx.np.array([1.5, 2.5]) * 2,  # no whole numbers
        lambda: mx.np.array(0.1) * 0.3 - 0.7,  # XLA rounds a product and a sum at once
        lambda: mx.np.exp(mx.np.array(1.0)),  # NumPy's last bit may be another
        lambda: mx.np.array(1e30).astype("int32"),
    ],
)
def test_what_numpy_might_do_otherwise_is_left_to_a_program(compute):
    mx.engine.reset()
    found = compute().asnumpy()
    assert mx.engine.stats()["programs"] > 0
    with mx.config.scope(engine_host_compute=False):
        np.testing.assert_array_equal(compute().asnumpy(), found)


class Meeting(mx.operator.CustomOp):
    """Waits in its Python until another such operator is there as well."""

    place = threading.Barrier(2)

    def forward(self, is_train, req, in_data, out_data, aux):
        try:
            met = self.place.wait(self.patience) is not None
        except threading.BrokenBarrierError:
            met = False
        if (in_data[0] < 0).asnumpy().any():
            raise ValueError("a negative number")
        self.assign(out_data[0], req[0], in_data[0] * (2 if met else -1))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


@mx.operator.register("test_meeting")
class MeetingProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Meeting()


@pytest.mark.observes
def test_custom_operators_meet_only_where_they_run_side_by_side():
    x = mx.np.ones(3)
    x.attach_grad()

    def both(patience):
        Meeting.patience = patience
        Meeting.place.reset()
        with mx.autograd.record():
            a = mx.nd.Custom(x, op_type="test_meeting")
            b = mx.nd.Custom(x * 3, op_type="test_meeting")
            c = (a + b).sum()
        c.backward()
        return c.item(), x.grad.asnumpy().tolist()

    assert both(0.01) == (-12, [8, 8, 8])  # the first waits in vain
    with mx.config.scope(ac_parallel_enable=1):
        assert both(60) == (24, [8, 8, 8])
        Meeting.patience = 0.01
        Meeting.place.reset()
        wrong = mx.nd.Custom(x - 2, op_type="test_meeting")
        with pytest.raises(ValueError, match="a negative number"):
            wrong.asnumpy()
        net = mx.gluon.nn.HybridLambda(
            lambda F, x: (
                mx.nd.Custom(x, op_type="test_meeting")
                + mx.nd.Custom(x * 3, op_type="test_meeting")
            )
        )
        net.hybridize()
        Meeting.patience = 60
        for _ in range(3):
            Meeting.place.reset()
            with mx.autograd.record():
                c = net(x)
            c.backward()
            assert (c.asnumpy().tolist(), x.grad.asnumpy().tolist()) == ([8, 8, 8], [8, 8, 8])
        Meeting.patience = 0.01
        Meeting.place.reset()
        chain = mx.nd.Custom(mx.nd.Custom(x, op_type="test_meeting") * -1, op_type="test_meeting")
        mx.nd.waitall()
        assert chain.asnumpy().tolist() == [-1, -1, -1]
