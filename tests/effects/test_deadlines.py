"""The options that limit how long waiting may take."""

from __future__ import annotations

import threading

import pytest

import mxjax as mx
from mxjax import settings
from mxjax.effects import deadline

LONG = 600.0


class Held(mx.kvstore.KVStore):
    """A store whose sums are not there before the test allows it."""

    def __init__(self):
        super().__init__("device")
        self.go = threading.Event()

    def _needs_sum(self, values):
        return True

    def _reduce(self, requests):
        self.go.wait(LONG)
        return super()._reduce(requests)


@pytest.fixture
def held():
    store = Held()
    store.init("a", mx.np.zeros(2))
    yield store
    store.go.set()
    store._end()


def call(store):
    out = mx.np.zeros(2)
    store.push("a", mx.np.full(2, 2.0))
    store.pull("a", out=out)
    return out


@pytest.mark.observes
@pytest.mark.parametrize(("name", "time"), [
    ("op_wait_timeout", 0.05), ("op_execute_timeout", 0.05), ("event_sync_timeout", 50), ("timeout.read", 0.05),
])  # fmt: skip
def test_reading_ends_after_the_time(held, name, time):
    value = call(held)
    with (
        settings.scope(name, time),
        pytest.raises(TimeoutError, match=r"after 0\.05 s \(option timeout.read"),
    ):
        value.asnumpy()
    held.go.set()
    with settings.scope("timeout.read", LONG):
        assert value.asnumpy().tolist() == [2, 2]
        value.wait_to_read()


@pytest.mark.observes
def test_waiting_for_all_ends_after_the_time(held):
    value = call(held)
    with (
        settings.scope("stream_sync_timeout", 50),
        pytest.raises(TimeoutError, match="everything was not"),
    ):
        mx.waitall()
    held.go.set()
    with settings.scope("stream_sync_timeout", LONG * 1000):
        mx.waitall()
    assert value.asnumpy().tolist() == [2, 2]


def test_errors_of_what_is_waited_for_come_through():
    with pytest.raises(ZeroDivisionError):
        deadline.within(LONG, lambda: 1 / 0, "it", "an option")
    assert deadline.within(LONG, lambda: 3, "it", "an option") == 3


def test_ascend_s_milliseconds():
    with settings.scope("event_sync_timeout", 1500):
        assert settings.get("timeout.read") == 1.5
    with settings.scope("event_sync_timeout", -1):
        assert settings.get("timeout.read") is None
    with settings.scope("stream_sync_timeout", "20"):
        assert settings.get("timeout.waitall") == 0.02
    for wrong in (0, -2, "soon", True):
        with pytest.raises(ValueError, match="milliseconds > 0, or -1"):
            settings.set("stream_sync_timeout", wrong)
