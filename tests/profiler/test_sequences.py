"""Which events there are after random sequences of the profiler's calls, as MXNet 1.9.1 and 2.0.0b1 have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mxjax as mx
from mxjax import profiler
from tests.record import profiler_sequences as recording

TESTS = Path(__file__).parents[1]
RECORDED = json.loads((TESTS / "data" / "profiler_sequences.json").read_text())


@pytest.fixture(autouse=True)
def computed_by_numpy():
    """So that each call is an event of the host, and XLA's profiler need not run."""
    with mx.config.scope(engine_cold="interpret"):
        yield


@pytest.mark.parametrize("name", ["frame", "task", "event"])
def test_marks_before_the_first_run_are_not_recorded(name):
    profiler.set_config(aggregate_stats=True)
    domain = profiler.Domain("domain")
    with {"frame": domain.new_frame, "task": domain.new_task, "event": profiler.Event}[name](
        "early"
    ):
        pass
    profiler.set_state("run")
    assert "early" not in profiler.dumps()


def performed(steps, continuous, tmp_path):
    return recording.perform(
        steps, continuous, mx, str(tmp_path / "profile.json"), timing="dispatch"
    )


def named(found):
    return [" ".join(steps) for steps, *_ in found]


CONTINUOUS = [each for each in RECORDED if each[1]]
SINGLE = [each for each in RECORDED if not each[1]]


@pytest.mark.parametrize("steps, continuous, expected", CONTINUOUS, ids=named(CONTINUOUS))
def test_the_file_and_the_statistics_hold_what_mxnets_do(steps, continuous, expected, tmp_path):
    assert performed(steps, continuous, tmp_path) == expected


@pytest.mark.parametrize("steps, continuous, expected", SINGLE, ids=named(SINGLE))
def test_without_continuous_dump_nothing_is_lost_either(steps, continuous, expected, tmp_path):
    """MXNet's file has what came since the last `dump` or `dumps`, and no other may follow; ours holds the rest too."""
    same = next(whole for its, _, whole in CONTINUOUS if its == steps)
    finished, before = set(), []
    for step, ours, mxnet, whole in zip(
        [each for each in steps if each.startswith(("dump", "reset"))],
        performed(steps, continuous, tmp_path), expected, same, strict=True,
    ):  # fmt: skip
        if step in ("dumps", "reset"):
            assert ours == whole
        elif ours != "error":
            assert set(ours) == set(whole) - finished and (
                mxnet == "error" or set(mxnet) <= set(ours)
            )
            before = whole
        else:
            assert mxnet == whole == "error"
        if step == "dump" and ours != "error":
            finished |= set(before)


def names_in(path):
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    return {e["name"] for e in events if e.get("cat") == "operator"} & set(recording.OPERATORS)


def call(name):
    getattr(mx.nd, name)(mx.nd.ones(4)).wait_to_read()


def test_the_order_of_mxnets_tutorial_keeps_what_was_dumped(tmp_path):
    path = str(tmp_path / "profile.json")
    profiler.set_config(profile_all=True, aggregate_stats=True, filename=path, timing="dispatch")
    profiler.set_state("run")
    call("sin")
    profiler.set_state("stop")
    profiler.dump()
    profiler.set_state("run")
    profiler.set_state("stop")
    profiler.dump(finished=False)
    assert names_in(path) == {"sin"}


def test_files_of_other_names_have_each_what_was_not_dumped_before(tmp_path):
    profiler.set_state("stop")
    for number, name in enumerate(("sin", "cos", "tan")):
        path = str(tmp_path / f"{number}.json")
        profiler.set_config(profile_all=True, filename=path, timing="dispatch")
        profiler.set_state("run")
        call(name)
        profiler.set_state("stop")
        profiler.dump(finished=name == "cos")
        assert names_in(path) == {name}


@pytest.mark.observes
def test_what_was_dumped_is_put_aside_when_it_is_much(tmp_path):
    path = tmp_path / "profile.json"
    profiler.set_config(profile_all=True, filename=str(path), timing="dispatch", rotate_events=2)
    seen = []
    for name in ("sin", "cos", "tan"):
        profiler.set_state("run")
        call(name)
        profiler.set_state("stop")
        profiler.dump()
        seen.append(names_in(path))
    assert seen[-1] == {"tan"}
    aside = set().union(*(names_in(each) for each in tmp_path.glob("profile.*.json")))
    assert aside == {"sin", "cos", "tan"}


@pytest.mark.parametrize("cold", ["compile", "interpret"])
def test_calls_that_nobody_reads_are_counted_and_said(cold, tmp_path):
    with mx.config.scope(engine_cold=cold):
        profiler.set_config(profile_all=True, aggregate_stats=True, continuous_dump=False)
        x = mx.np.ones((8, 8))
        mx.npx.waitall()
        for expected in ({"dot": 3, "sin": 1, "cos": 1}, {"dot": 3, "sin": 1, "cos": 1}):
            profiler.set_state("run")
            for _ in range(3):
                mx.np.dot(x, x)
            mx.np.sin(x)
            mx.np.cos(x).asnumpy()
            profiler.set_state("stop")
            found = json.loads(profiler.dumps(format="json"))
            rows = found["Time"]["operator"]
            assert {name: row["Count"] for name, row in rows.items()} == expected  # MXNet counts so
            assert rows["dot"]["Total"] == rows["dot"]["Avg"] == rows["sin"]["Max"] == 0
            assert rows["cos"]["Total"] > 0 and found["Not computed"] == {
                "operator": {"dot": 3, "sin": 1}
            }
            table = profiler.dumps(reset=True)
            assert "counted and were not computed" in table and "dot 3, sin 1\n" in table
            assert "not computed" not in profiler.dumps()


@pytest.mark.parametrize("cold", ["compile", "interpret"])
def test_equal_calls_are_counted_each(cold):
    with mx.config.scope(engine_cold=cold):
        profiler.set_config(profile_all=True, aggregate_stats=True, continuous_dump=False)
        x = mx.np.ones((8, 8))
        mx.npx.waitall()
        for _ in range(3):
            profiler.set_state("run")
            a, b, c = mx.np.dot(x, x), mx.np.dot(x, x), mx.np.dot(x, x)
            mx.npx.waitall()
            profiler.set_state("stop")
            for group_by, row in (("operator", "dot"), ("block", "(no block)")):
                rows = json.loads(profiler.dumps(format="json", group_by=group_by))["Time"][
                    group_by
                ]
                assert rows[row]["Count"] == 3
            profiler.dumps(reset=True)
            assert a.sum() == b.sum() == c.sum()


def test_what_comes_after_a_finished_dump_is_counted_at_the_next_run(tmp_path):
    steps = "run work dump work stop dumps run dumps".split()
    assert performed(steps, True, tmp_path) == [
        ["sin"],
        {"sin": 1},
        {"sin": 1, "cos": 1},
    ]  # as in both MXNets
