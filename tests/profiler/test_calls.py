"""When calls were recorded: what the engine tells an observer of them."""

import threading

import jax.numpy as jnp
import pytest

from mxjax import core
from mxjax.core.calls.state import tell_calls
from mxjax.profiler._recorder import Recorder, _read

EXP = core.Row("exp", jnp.exp).bind()
DOT = core.Row("dot", jnp.matmul).bind()


def array(*shape):
    return core.concrete(jnp.ones(shape), shared=True)


@pytest.fixture
def recorder():
    made = Recorder(sample_memory=False)
    core.flush_thread()
    core.observe(made)
    yield made
    core.unobserve(made)


def names(recorder):
    return [step.call.name for step, *_ in recorder.records]


def test_each_call_has_a_time_of_its_own(recorder):
    x = array(4, 4)
    for _ in range(3):
        y = core.record1(EXP, x)
        y = core.record2(DOT, y, x)
        (y,) = core.record(EXP, (y,))
        core.read(y)
    records = recorder.records
    assert names(recorder) == ["exp", "dot", "exp"] * 3
    assert len({thread for *_, thread in records}) == 1
    ends = 0
    for _, begin, end, _ in records:
        assert ends <= begin <= end
        ends = end


def test_a_call_that_fails_leaves_the_others_their_times(recorder):
    x, wrong = array(4, 4), array(3, 3)
    y = core.record1(EXP, x)
    with pytest.raises(Exception, match="dot"):
        core.record2(DOT, y, wrong)
    with pytest.raises(Exception, match="dot"):
        core.record(DOT, (y, wrong))
    core.read(core.record2(DOT, y, x))
    assert names(recorder) == ["exp", "dot"]
    (_, _, first, _), (_, begin, end, _) = recorder.records
    assert first <= begin < end


def test_watching_begins_and_ends_in_the_middle_of_a_segment():
    x = array(4, 4)
    y = core.record1(EXP, x)
    recorder, later = Recorder(sample_memory=False), Recorder(sample_memory=False)
    core.observe(recorder)
    y = core.record2(DOT, y, x)
    core.unobserve(recorder)
    y = core.record1(EXP, y)
    core.observe(later)
    y = core.record2(DOT, x, y)
    y = core.record1(EXP, y)
    core.read(y)
    core.unobserve(later)
    core.read(core.record1(EXP, x))
    assert names(recorder) == ["dot"]
    assert names(later) == ["dot", "exp"]


def test_what_another_thread_runs_was_recorded_by_its_owner(recorder):
    x = array(4, 4)
    y = core.record2(DOT, core.record1(EXP, x), x)
    reader = threading.Thread(target=core.read, args=(y,))
    reader.start()
    reader.join()
    core.read(core.record1(EXP, y))
    assert names(recorder) == ["exp", "dot", "exp"]
    assert {thread for *_, thread in recorder.records} == {threading.current_thread().name}


def test_a_gap_is_the_users():
    path = ["a", "b", "c"]
    far = 1_000_000
    times = [-5, 10, 12, 12 + far]
    found = list(_read(path, times, "main"))
    assert found[:2] == [("a", 5, 10, "main"), ("b", 10, 12, "main")]
    step, begin, end, _ = found[2]
    assert (step, end) == ("c", 12 + far) and end - begin < far / 10


def test_times_belong_to_the_last_calls():
    assert list(_read(["a", "b", "c"], [0, -6, 8], "main")) == [("c", 6, 8, "main")]
    # What was recorded too late for this run is not of it.
    assert list(_read(["a"], [-1, 2, 3], "main")) == [("a", 1, 2, "main")]


def test_without_an_observer_no_times_are_kept():
    core.read(core.record1(EXP, array(4, 4)))
    assert core.local.st.seg.times is None
    tell_calls(core.local.st.seg, core.local.st.seg.step)
