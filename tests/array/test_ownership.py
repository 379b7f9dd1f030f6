"""What a user can still see is never overwritten: donation takes only buffers nobody else holds."""

import copy
import ctypes
import gc
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, engine
from mxjax.core.run import scheduler

pytestmark = pytest.mark.programs


@pytest.fixture(autouse=True, params=[1, 2])
def start_anew(request):
    """Each test twice: with programs that are new, and with programs known from the first time."""
    if request.param == 1:
        scheduler.forget()
    yield
    mx.waitall()


N = 40_000  # more than the engine's bound for arrays that are not worth donating


def fresh(n=N, value=1.0):
    """An array whose buffer nobody holds but the array, so that the next update may reuse it."""
    x = mx.np.array(onp.full(n, value, "float32"))
    x += 0
    x.wait_to_read()
    return x


def updates(x, times=3):
    """In-place updates, each run by itself: every one is a chance to overwrite the buffer."""
    for _ in range(times):
        x += 1
        x.wait_to_read()


def donated(work):
    before = engine.stats()["donated"]
    work()
    return engine.stats()["donated"] - before


def test_updates_reuse_the_buffer_at_all():
    x = fresh()
    assert donated(lambda: updates(x)) == 3


def test_a_jax_array_that_is_held():
    x = fresh()
    held = x.jax
    updates(x)
    assert not held.is_deleted()
    assert float(held.sum()) == N
    assert x[0].item() == 4


def test_a_jax_array_taken_in_stays():
    given = jnp.ones(N)
    x = mx.np.from_jax(given)
    y = mx.np.array(given)
    updates(x)
    updates(y)
    assert float(given.sum()) == N


def test_a_numpy_array_taken_in_stays():
    given = onp.ones(4096, "float32")
    x = mx.np.array(given)
    updates(x)
    assert given.sum() == 4096
    given[:] = 7
    assert x[0].item() == 4


def test_a_numpy_copy_is_a_copy():
    x = fresh()
    for look in (lambda: x.asnumpy(), lambda: onp.asarray(x), lambda: onp.array(x)):
        before = x[0].item()
        host = look()
        updates(x)
        assert (host == before).all()
        host[:] = -1
        assert x[0].item() == before + 3


def test_a_numpy_look_without_a_copy():
    x = fresh()
    host = x.__array__(copy=False)
    assert not host.flags.writeable
    updates(x)
    assert (host == 1).all()


def test_dlpack_to_numpy():
    x = fresh()
    seen = onp.from_dlpack(x)
    updates(x)
    assert (seen == 1).all()


def test_dlpack_from_numpy_shares():
    given = onp.arange(1024, dtype="float32")
    y = mx.np.from_numpy(given)
    assert not given.flags.writeable
    before, twice = y.copy(), y * 2
    y += 1
    assert (given == onp.arange(1, 1025)).all() and y[1].item() == 2
    assert before[1].item() == 1 and twice[1].item() == 2  # what was computed keeps its numbers
    mx.nd.from_numpy(given.copy())[3] = 7
    y.detach()[3] = 7
    assert (
        given[3] == 7
        and onp.may_share_memory(given[2:5], y[3])
        and not onp.may_share_memory(given[4:], y[:4])
    )


def test_dlpack_capsules():
    x = fresh(8)
    capsule = x.to_dlpack_for_read()
    y = mx.nd.from_dlpack(capsule)
    with pytest.raises(mx.MXNetError, match="consumed"):
        mx.np.from_dlpack(capsule)
    updates(x)
    assert y.asnumpy().tolist() == [1] * 8
    assert x.__dlpack_device__() == (1, 0)


def test_dlpack_lives_as_long_as_it_is_held():
    seen = onp.from_dlpack(fresh(4096))
    gc.collect()
    for _ in range(5):
        fresh(4096, 9.0)
    assert (seen == 1).all()


def test_dlpack_written_by_others_is_seen():
    x = fresh(16)
    y = mx.np.from_dlpack(x.to_dlpack_for_write())
    at = y.jax.unsafe_buffer_pointer()
    ctypes.cast(at, ctypes.POINTER(ctypes.c_float))[0] = 42.0
    assert y[0].item() == 42
    assert x[0].item() == 42


class Exported:
    """A NumPy array as an object of the protocol's first version, which cannot say that it may be written to."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def look(x):
    """A writable look at the memory of a capsule that may be written to, as another library has it."""

    class Exporter(Exported):
        def __dlpack__(self, **kwargs):
            return self.array.to_dlpack_for_write()

    seen = onp.from_dlpack(Exporter(x))
    room = (ctypes.c_char * seen.nbytes).from_address(seen.ctypes.data)
    room.owner = seen
    return onp.frombuffer(room, seen.dtype).reshape(seen.shape)


def test_what_others_write_is_in_the_array_and_its_views_and_in_no_copy():
    """Values of MXNet 1.9.1."""
    a = mx.nd.array([0.0, 1.0, 2.0, 3.0])
    copies, seen = [a.copy(), a * 1, mx.nd.identity(a)], a[1:3]
    assert seen.asnumpy().tolist() == [1, 2]
    memory = look(a)
    memory[:] = 9
    assert a.asnumpy().tolist() == [9] * 4 and seen.asnumpy().tolist() == [9, 9]
    assert a.sum().asscalar() == 36
    assert [c.asnumpy().tolist() for c in copies] == [[0, 1, 2, 3]] * 3
    kept = a.copy()
    a[1] = 5
    memory[2] = 7
    assert memory.tolist() == [9, 5, 7, 9] and a.asnumpy().tolist() == [9, 5, 7, 9]
    assert seen.asnumpy().tolist() == [5, 7] and kept.asnumpy().tolist() == [9] * 4


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64"]
)
def test_two_arrays_on_one_memory(dtype):
    x = mx.nd.arange(12, dtype=dtype).reshape((3, 4))
    y = mx.nd.from_dlpack(x[1:3].to_dlpack_for_write())  # which begins anywhere
    y[0] = 1
    x[2, 0] = 100
    assert x.asnumpy().tolist() == [[0, 1, 2, 3], [1, 1, 1, 1], [100, 9, 10, 11]]
    assert y.asnumpy().tolist() == [[1, 1, 1, 1], [100, 9, 10, 11]] and onp.dtype(y.dtype) == dtype
    z = mx.np.from_dlpack(x.as_np_ndarray())
    z *= 0
    assert not x.asnumpy().any() and not y.asnumpy().any()


@pytest.mark.parametrize("dtype", ["float32", "bool"])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("turned", [False, True])
def test_memory_of_numpy_taken_by_dlpack(dtype, start, turned):
    given = onp.zeros(65, dtype)[start : start + 6].reshape(2, 3)
    given = given.T if turned else given
    x = mx.np.from_dlpack(given)
    x[0] = 1
    assert given[0].all() and not given[1:].any()
    given[1, 1] = 1
    assert x[1].asnumpy().sum() == 1 and x.shape == given.shape and x.dtype == given.dtype
    kept = x.copy()
    x[:] = 0
    assert not given.any() and kept.asnumpy().sum() == given.shape[1] + 1


@pytest.mark.parametrize("part", [slice(None), slice(1, None, 2)])
def test_memory_of_another_library(part):
    given = onp.zeros((4, 6), "float32")
    x = mx.np.from_dlpack(Exported(given[:, part]))
    x[1] = 3
    assert (given[1, part] == 3).all() and given.sum() == 3 * x.shape[1]
    given[2] = 1
    assert (x[2] == 1).asnumpy().all()


def test_memory_to_be_read_is_not_written():
    x = fresh(4)
    capsules = x.to_dlpack_for_read(), x.__dlpack__()
    for y in (*map(mx.nd.from_dlpack, capsules), mx.np.from_dlpack(x.jax)):
        y[:] = 7
        assert (x.asnumpy() == 1).all() and (y.asnumpy() == 7).all()


def test_dlpack_of_what_has_none():
    with pytest.raises(TypeError, match="an array with __dlpack__, got list"):
        mx.np.from_dlpack([1.0, 2.0])


def test_a_view_of_what_others_only_see_is_computed_once():
    x = fresh(8)
    assert x.jax is not None
    part = x[2:4]
    assert part._value() is part._value()
    memory = look(x)
    first = part._value()
    memory[:] = 5
    assert part._value() is not first and part.asnumpy().tolist() == [5, 5]


def test_gradients_of_an_array_that_others_write_to():
    w = mx.gluon.Parameter("w", shape=(2,))
    w.initialize(mx.init.One())
    memory = look(w.data())
    trainer = mx.gluon.Trainer([w], "sgd", {"learning_rate": 0.25})
    for want in ([0.5, 0.5], [1.5, 1.5]):
        with mx.autograd.record():
            loss = (w.data() ** 2).sum()
        loss.backward()
        trainer.step(1)
        assert memory.tolist() == want and w.data().asnumpy().tolist() == want
        memory[:] = 3
    w.set_data(mx.np.array([1.0, 2.0]))
    assert memory.tolist() == [1, 2]


def test_a_copy_and_a_pickle():
    x = fresh()
    others = [
        x.copy(),
        copy.copy(x),
        copy.deepcopy(x),
        mx.np.array(x),
        pickle.loads(pickle.dumps(x)),
    ]
    updates(x)
    for o in others:
        assert o[0].item() == 1


def test_the_same_value_in_two_arrays():
    x = fresh()
    y = mx.np.zeros(N)
    y[:] = x
    z = mx.np.zeros(N)
    x.copyto(z)
    updates(x)
    assert y[0].item() == 1 and z[0].item() == 1
    updates(y)
    assert x[0].item() == 4 and y[0].item() == 4 and z[0].item() == 1


def test_results_that_are_the_input_itself():
    x = fresh()
    same = [x.reshape(N), mx.np.reshape(x, (10, N // 10)), x.astype("float32"), +x, x.squeeze()]
    updates(x)
    for s in same:
        assert s.reshape(-1)[0].item() == 1


def test_a_pending_reader_gets_the_old_numbers():
    x = fresh()
    y = x * 2
    x += 1
    x += 1
    assert y[0].item() == 2 and x[0].item() == 3


def test_views_keep_no_buffer_but_see_the_new_one():
    x = fresh()
    view = x[0:10]
    assert view.asnumpy().sum() == 10
    assert donated(lambda: updates(x)) == 3
    assert view.asnumpy().sum() == 40
    held = view.jax
    updates(x)
    assert float(held.sum()) == 40


def test_a_detached_array_sees_updates():
    x = fresh()
    x.attach_grad()
    d = x.detach()
    assert d[0].item() == 1
    updates(x)
    assert d[0].item() == 4


def test_a_held_gradient_is_the_gradient():
    x = fresh(4)
    x.attach_grad()
    held = x.grad
    arrays = []
    for k in range(1, 4):
        with autograd.record():
            y = (k * x).sum()
        y.backward()
        arrays.append(x.grad.jax)
        assert held.asnumpy().tolist() == [k] * 4
    assert [float(a[0]) for a in arrays] == [1, 2, 3]


def test_what_the_backward_pass_needs_stays():
    x = fresh()
    x.attach_grad()
    with autograd.record():
        y = x * x
    x += 10
    x.wait_to_read()
    y.backward()
    assert x.grad[0].item() == 2


def test_the_same_array_twice_in_one_call():
    x = fresh()
    x += x
    x.wait_to_read()
    x *= x
    assert x[0].item() == 4


def test_pytree_leaves_stay():
    x = fresh()
    leaves, tree = jax.tree_util.tree_flatten({"a": x})
    updates(x)
    assert float(leaves[0].sum()) == N
    back = jax.tree_util.tree_unflatten(tree, leaves)["a"]
    updates(back)
    assert float(leaves[0].sum()) == N


def test_another_thread_that_holds_an_array():
    x = fresh()
    start, done = threading.Event(), threading.Event()
    seen = []

    def other():
        y = x * 1  # pending in that thread's segment
        start.set()
        done.wait(20)
        seen.append(y.asnumpy()[0])

    thread = threading.Thread(target=other)
    thread.start()
    assert start.wait(20)
    updates(x)
    done.set()
    thread.join()
    assert seen == [1] and x[0].item() == 4


def test_threads_that_read_while_one_writes():
    x = fresh(64, 0.0)
    stop = threading.Event()
    wrong = []

    def reader():
        while not stop.is_set():
            host = x.asnumpy()
            if not (host == host[0]).all():
                wrong.append(host)

    threads = [threading.Thread(target=reader) for _ in range(3)]
    for t in threads:
        t.start()
    updates(x, 300)
    stop.set()
    for t in threads:
        t.join()
    assert not wrong and x[0].item() == 300


def test_assigning_outside_of_record_takes_no_history_along():
    x = mx.np.ones(3)
    x.attach_grad()
    total = mx.np.zeros(3)
    for _ in range(3):
        with autograd.record():
            loss = x * 2
            used = total * x
        loss.backward()
        total[:] = loss  # must not pull the old graph into the next one
        used.backward()
    assert x.grad.asnumpy().tolist() == [2, 2, 2]
