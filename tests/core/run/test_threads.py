"""Threads: recording is per thread, arrays cross threads."""

from __future__ import annotations

import queue
import threading

import numpy as onp

import mxjax as mx


def work(seed: int, n: int) -> onp.ndarray:
    x = mx.np.array(onp.full(4, 1.0 + seed))
    for k in range(n):
        x = x * 0.5 if k % 3 else x + 1.0
        if k % 97 == 0:
            x.wait_to_read()
    return x.asnumpy()


def test_eight_threads_equal_the_serial_result():
    want = [work(i, 2000) for i in range(8)]
    got: list[onp.ndarray | None] = [None] * 8

    def run(i: int) -> None:
        got[i] = work(i, 2000)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    for a, b in zip(got, want, strict=True):
        onp.testing.assert_array_equal(a, b)


def test_pending_arrays_cross_threads_while_their_owner_records():
    """A consumer reads values of a producer that goes on recording: none is lost or computed twice."""
    handed: queue.Queue = queue.Queue()
    problems: list[object] = []

    def consume() -> None:
        while (item := handed.get()) is not None:
            k, x = item
            y = x + 1.0
            if y.item() != k + 1.0:
                problems.append((k, y.item()))

    consumers = [threading.Thread(target=consume) for _ in range(3)]
    for t in consumers:
        t.start()
    total = mx.np.zeros(()) if hasattr(mx.np, "zeros") else mx.np.array(0.0)
    one = mx.np.array(1.0)
    for k in range(1500):
        handed.put((k, total))
        total = total + one
    for _ in consumers:
        handed.put(None)
    for t in consumers:
        t.join(120)
    assert not problems
    assert total.item() == 1500.0


def test_modes_are_per_thread():
    seen = []
    with mx.autograd.record():
        t = threading.Thread(
            target=lambda: seen.append((mx.autograd.is_recording(), mx.autograd.is_training()))
        )
        t.start()
        t.join()
        assert mx.autograd.is_recording()
    assert seen == [(False, False)]


def test_a_value_of_a_finished_thread_can_be_read():
    box = []

    def make() -> None:
        box.append(mx.np.array([1.0, 2.0]) * 3.0)

    t = threading.Thread(target=make)
    t.start()
    t.join()
    onp.testing.assert_array_equal(box[0].asnumpy(), [3.0, 6.0])
