"""Recording: what becomes one program, what is returned, what is donated."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as onp
import pytest

import mxjax as mx
from mxjax.core import flush_thread
from mxjax.core.compile.donations import overwriting
from mxjax.core.run.scheduler import forget

pytestmark = pytest.mark.programs


@pytest.fixture(autouse=True)
def counted():
    mx.waitall()
    forget()
    mx.engine.reset()
    yield
    mx.waitall()


def stats(name: str) -> int:
    return mx.engine.stats()[name]


def chain(x, n: int = 15):
    for _ in range(n):
        x = x * 2.0
        x = x + 1.0
    return x


def test_a_chain_is_one_program():
    x = mx.np.array([1.0, 2.0])
    got = chain(x).asnumpy()
    assert stats("segments") == stats("programs") == stats("compiled") == 1
    assert stats("operators") == 30
    want = onp.array([1.0, 2.0], "float32")
    for _ in range(15):
        want = want * 2 + 1
    onp.testing.assert_array_equal(got, want)


def test_the_same_structure_compiles_once():
    x = mx.np.array([1.0, 2.0, 4.0])
    for _ in range(5):
        chain(x, 3).wait_to_read()
    assert stats("compiled") == 1
    assert stats("hits") == 4


def test_results_nobody_holds_are_not_returned():
    x = mx.np.array(onp.ones((64, 64)))
    y = x + 1.0
    z = y * 3.0
    program_inputs = y._v
    del y, program_inputs
    z.wait_to_read()
    (program,) = z._v.step.programs.values()
    assert program.live == (1,)


def test_changing_numbers_stop_compiling():
    x = mx.np.array([1.0, 2.0, 3.0])
    for k in range(40):
        got = (x * (0.1 * k) + 1.5).asnumpy()
        onp.testing.assert_allclose(
            got, onp.array([1, 2, 3], "float32") * onp.float32(0.1 * k) + 1.5
        )
    assert stats("compiled") <= 8


def test_ints_floats_and_signed_zeros_are_told_apart():
    x = mx.np.array([1, 2], dtype="int32")
    assert (x + 1).dtype == onp.int32
    assert (x + 1.0).dtype == onp.float64
    y = mx.np.array([1.0, 2.0])
    assert onp.signbit((y * 0.0).asnumpy()).tolist() == [False, False]
    assert onp.signbit((y * -0.0).asnumpy()).tolist() == [True, True]
    assert onp.signbit((y * 0.0).asnumpy()).tolist() == [False, False]


def test_bulk_size_cuts_segments():
    x = mx.np.array([1.0])
    with mx.engine.bulk(10):
        y = chain(x)
        y.wait_to_read()
    assert stats("segments") == 3
    before = mx.engine.set_bulk_size(1)
    try:
        chain(x).wait_to_read()
        assert stats("segments") == 3 + 30
    finally:
        mx.engine.set_bulk_size(before)


def test_an_endless_loop_runs_in_phase():
    """Without synchronisation a loop is cut where it begins again, so that few programs serve it."""
    x = mx.np.array(onp.ones(3))
    v = x
    for _ in range(400):
        v = mx.np.exp(v)
        v = v - 1.0
        v = v * 0.5
        v = mx.np.tanh(v)
        v = v + x
        v = v * x
        v = v - 0.25
    v.wait_to_read()
    assert stats("compiled") <= 4
    assert stats("fallbacks") == 0


@pytest.mark.observes
def test_naive_engine_runs_call_by_call():
    x = mx.np.array([1.0, 2.0])
    with mx.config.scope("engine.type", "NaiveEngine"):
        y = x + 1.0
        assert y._v.seg is None
        y = y * 2.0
    assert stats("segments") == 2
    onp.testing.assert_array_equal(y.asnumpy(), [4.0, 6.0])


@pytest.mark.observes
def test_limits_follow_the_settings():
    x = mx.np.array([1.0, 2.0])
    with mx.config.scope("engine.bulk_nodes", 5):
        chain(x, 5).wait_to_read()
    assert stats("segments") == 2
    with mx.config.scope("engine.bulk_infer", False):
        chain(x, 1).wait_to_read()
    assert stats("segments") == 4


def test_random_synchronisation_keeps_compilations_bounded():
    rnd = random.Random(7)
    ops = [
        lambda a: a + 1.5,
        lambda a: a * 0.5,
        mx.np.tanh,
        lambda a: a - a * 0.1,
        lambda a: a * a,
    ]
    x0 = mx.np.array(onp.ones(5))
    for _ in range(400):
        x = x0
        for _ in range(rnd.randint(1, 12)):
            x = ops[rnd.randrange(len(ops))](x)
        x.wait_to_read()
    assert stats("compiled") <= 25  # the operators themselves and a few tries
    assert stats("fallbacks") <= 80  # then calls are not gathered any more


def test_a_loop_after_churn_is_compiled_again():
    rnd = random.Random(3)
    x0 = mx.np.array(onp.ones(7))
    for _ in range(100):
        x = x0
        for _ in range(rnd.randint(2, 12)):
            x = x * 0.5 if rnd.random() < 0.5 else x + 2.0
        x.wait_to_read()
    for _ in range(3000):
        chain(x0, 6).wait_to_read()
    mx.engine.reset()
    for _ in range(50):
        chain(x0, 6).wait_to_read()
    assert stats("segments") == 50
    assert stats("hits") == 50


def test_updates_happen_in_place():
    w = mx.np.array(onp.ones(1000))
    g = mx.np.array(onp.full(1000, 0.5))
    w.wait_to_read()
    for _ in range(4):
        w -= 0.1 * g
        flush_thread()
    mx.engine.reset()
    for _ in range(10):
        w -= 0.1 * g
        flush_thread()
    assert stats("donated") == 10
    assert stats("compiled") == 0
    onp.testing.assert_allclose(w.asnumpy(), onp.full(1000, 1 - 14 * 0.05), rtol=1e-5)


def test_out_and_aliases_see_every_write():
    x = mx.np.array([1.0, 2.0])
    y = x.detach()
    x += 1.0
    onp.testing.assert_array_equal(y.asnumpy(), [2.0, 3.0])
    z = mx.np.array([0.0, 0.0])
    held = z * 2.0  # a read that is pending while z is written
    assert mx.np.add(x, y, out=z) is z
    onp.testing.assert_array_equal(z.asnumpy(), [4.0, 6.0])
    onp.testing.assert_array_equal(held.asnumpy(), [0.0, 0.0])


def test_the_same_array_twice_in_one_call():
    x = mx.np.array([3.0])
    assert (x + x).item() == 6.0
    y = x * 1.0
    assert (y * y).item() == 9.0


def test_nothing_is_computed_for_nobody():
    x = mx.np.array([1.0])
    y = x + 1.0
    del y
    flush_thread()
    assert stats("programs") == 0


@pytest.mark.parametrize(
    "same",
    [
        lambda x: mx.np.reshape(x, x.shape),
        mx.npx.stop_gradient,
        mx.np.squeeze,
        lambda x: x.detach() * 1,
    ],
    ids=["reshape", "stop_gradient", "squeeze", "detach"],
)
def test_a_result_never_shares_its_input(same):
    """Whatever an operator returns unchanged gets a buffer of its own, so that donations are safe."""
    x = mx.np.array(onp.arange(5.0)) + 0.0
    x.wait_to_read()
    y = same(x)
    y.wait_to_read()
    for _ in range(3):
        x += 1.0
        flush_thread()
    onp.testing.assert_array_equal(y.asnumpy(), onp.arange(5.0))
    onp.testing.assert_array_equal(x.asnumpy(), onp.arange(5.0) + 3)


class _Array(NamedTuple):
    nbytes: int


class _Step(NamedTuple):
    first: int
    avals: tuple[_Array, ...]
    args: tuple[int, ...]


def test_an_update_comes_after_all_readers_unless_more_would_wait_for_it():
    """A forward pass, a backward pass that also replaces a statistic, and an update of the weight."""
    weight, statistic, data = -1, -2, -3
    forward = _Step(0, (_Array(900),), (weight, statistic, data))
    backward = _Step(1, (_Array(10), _Array(1000)), (0, weight, statistic))
    update = _Step(3, (_Array(1000),), (weight, 2))
    steps, avals = [forward, backward, update], [_Array(1000), _Array(10), _Array(64)]

    def late(live):
        return overwriting(steps, avals, live, [0, 1], {0: 3, 1: 1})

    assert late([1, 2, 3]) == {update}  # 900 bytes would wait, to save a copy of 10
    assert late([0, 1, 2, 3]) == {backward, update}  # they are there anyway
    assert late([1, 3]) == frozenset()  # gradients too, which are more than the copies are


@pytest.mark.parametrize("waiting, late", [(4000, True), (4001, False)])
def test_an_update_of_which_all_gradients_are_results_lets_more_wait(waiting, late):
    weight, data = -1, -2
    forward = _Step(0, (_Array(waiting),), (weight, data))
    backward = _Step(1, (_Array(1000),), (0, weight))
    update = _Step(2, (_Array(1000),), (weight, 1))
    steps, avals = [forward, backward, update], [_Array(1000), _Array(64)]
    found = overwriting(steps, avals, [1, 2], [0], {0: 2})
    assert found == ({update} if late else frozenset())


def test_inputs_that_need_no_copy_to_be_written_over():
    """On a GPU others are not donated: XLA puts copies into one kernel, in any order."""
    from types import SimpleNamespace

    from mxjax.core.compile.donations import last_read

    def steps(*args):
        return [SimpleNamespace(args=a, avals=(None,), first=k) for k, a in enumerate(args)]

    # Results 0, 1, 2; inputs -1 and -2. Result 1 takes the place of input 0, result 2 that of input 1.
    assert (
        last_read(steps((-1,), (-1, -2)), {0: 1}) == set()
    )  # the first call may read it after the second wrote it
    assert last_read(steps((-1,), (-1, 0)), {0: 1}) == {0}
    assert last_read(steps((-1,), (0,), (-1, 1)), {0: 2}) == {0}
    assert last_read(steps((-1,), (-1, 0), (-2, 0)), {0: 1, 1: 2}) == {0, 1}
    assert last_read(steps((-2, -1), (-1,), (-2, 1)), {0: 1, 1: 2}) == set()


def test_what_failed_beside_the_host_is_raised_once_as_an_error_of_ours():
    import weakref

    from mxjax.core.run import scheduler

    class Broken:
        __hash__ = None

        def __eq__(self, other):
            raise AssertionError("arrays are not compared, number by number")

        def is_deleted(self):
            return False

        def is_ready(self):
            return True

        def block_until_ready(self):
            raise RuntimeError("INTERNAL: the device said no")

    broken = Broken()
    scheduler._running.append(weakref.ref(broken))
    with pytest.raises(mx.MXNetError, match="the device said no"):
        mx.waitall()
    mx.waitall()
    fine = mx.np.ones(3).jax
    mx.waitall()
    scheduler._running.extend([weakref.ref(fine), weakref.ref(broken)])
    scheduler.told()  # a reader has it
    assert [r() is fine for r in scheduler._running] == [True]
    mx.waitall()
