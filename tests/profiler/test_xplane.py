"""XLA's own trace, with what the profiler knows added to it."""

from collections import Counter

import jax
import pytest

import mxjax as mx
from mxjax import profiler
from mxjax.hlo import read, write
from mxjax.profiler import _chrome, _xplane, verify
from mxjax.profiler._recorder import Mark, Span
from mxjax.profiler._session import read_trace, reading
from mxjax.profiler._steps import StepTimes

pytestmark = pytest.mark.programs

STAT = {
    1: ("id", "int"), 3: ("unsigned", "int"), 4: ("signed", "int"), 5: ("text", "str"),
}  # fmt: skip
NAMED = {1: ("id", "int"), 2: ("name", "str"), 4: ("shown", "str"), 5: ("stats", [STAT])}
EVENT = {1: ("id", "int"), 2: ("offset", "int"), 3: ("duration", "int"), 4: ("stats", [STAT])}
PLANE = {
    2: ("name", "str"),
    3: ("lines", [{1: ("id", "int"), 2: ("name", "str"), 4: ("events", [EVENT])}]),
    4: ("kinds", [{2: ("value", NAMED)}]),
    5: ("names", [{2: ("value", NAMED)}]),
}


def planes(path):
    """By plane and line: events as (name, shown name, start, duration, statistics), in picoseconds."""
    with open(path, "rb") as file:
        space = read(file.read(), {1: ("planes", [PLANE])})
    out = {}
    for plane in space["planes"]:
        kinds = {k["value"]["id"]: k["value"] for k in plane["kinds"]}
        names = {n["value"]["id"]: n["value"]["name"] for n in plane["names"]}
        assert len(kinds) == len(plane["kinds"]) and len(names) == len(plane["names"])
        for line in plane["lines"]:
            for e in line["events"]:
                kind = kinds[e["id"]]
                stats = {
                    names[s["id"]]: next((v for k, v in s.items() if k != "id"), None)
                    for s in (*kind["stats"], *e["stats"])
                }
                out.setdefault((plane.get("name", ""), line.get("name", "")), []).append(
                    (
                        kind["name"],
                        kind.get("shown", ""),
                        e.get("offset", 0),
                        e.get("duration", 0),
                        stats,
                    )
                )
    return out


def test_a_profile_in_xlas_trace(config, tmp_path):
    path = config()
    net = mx.gluon.nn.Dense(3)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    x = mx.np.ones((2, 4))

    def step():
        with mx.autograd.record():
            y = net(x).sum()
        y.backward()
        trainer.step(2)
        y.wait_to_read()

    step()
    step()
    profiler.set_state("run")
    step()
    step()
    profiler.Domain("domain").new_counter("counter", -3)
    profiler.set_state("stop")
    state = profiler._state.profiler
    (recording,) = state._recordings
    before = read_trace(recording.xplane)
    profiler.dump(finished=False)
    assert verify.check(path) == []
    trace = _chrome.read(path)
    (xplane,) = trace["otherData"]["xplane"]
    # XLA's own events are what they were.
    assert [(e.name, e.start, e.stop) for e in read_trace(xplane)] == [
        (e.name, e.start, e.stop) for e in before
    ]
    found = planes(xplane)
    written = [e for e in trace["traceEvents"] if e.get("cat") == "operator"]
    added = [e for (plane, line), events in found.items() if "operators" in line for e in events]
    assert Counter(e[1] or e[0].partition(":")[0] for e in added) == Counter(
        e["name"] for e in written
    )
    products = [e for e in added if e[1] == "FullyConnected"]
    assert products and all(e[0] == "dense/FullyConnected:FullyConnected" for e in products)
    for _, _, start, duration, stats in products:
        assert start >= 0 and duration > 0 and stats["block"] == "dense"
        assert __file__ in stats["source"] and "float32[2,4]" in stats["shapes"]
        assert "hlo_op" not in stats and stats["instruction"]
    assert any(e[0] == "sgd_update:Sgd_update" for e in added)  # a type begins with a capital
    # Arrows end at operators of the device and begin on the host.
    arrows = sum(e["ph"] == "s" for e in trace["traceEvents"])
    own = "/device:CUSTOM:mxjax host"
    host = found[own, "MainThread"]
    assert {"Trainer.step", "FullyConnected"} <= {e[0] for e in host}
    assert 0 < sum(e[4].get("flow", 0) & 3 == 1 for e in added) <= arrows
    assert {e[4]["flow"] >> 2 for e in added if "flow" in e[4]} <= {
        e[4]["flow"] >> 2 for e in host if "flow" in e[4]
    }
    # The steps, and each operator in one of them.
    steps = found["/host:CPU", "steps"]
    assert [e[4]["step_num"] for e in steps] == [1, 2] and {e[0] for e in steps} == {"train"}
    assert {e[4]["_c"] for e in added} <= {e[4]["_p"] for e in steps}
    counters = {e[0] for e in found[own, "_counters_"]}
    assert {"domain: counter", "Memory: cpu/0"} <= counters
    assert not any("by block" in name for name in counters)
    # What is written once is not added again.
    size = len(added)
    state._dirty = True
    profiler.dump(finished=False)
    again = planes(xplane)
    assert sum(len(e) for (_, line), e in again.items() if "operators" in line) == size
    with reading():  # XLA's reader takes it
        data = jax.profiler.ProfileData.from_file(xplane)
        assert own in {plane.name for plane in data.planes}


def test_a_device_that_is_not_the_host(tmp_path):
    """Its rows are a plane of their own; times before the trace began count from its beginning."""
    base = 1_700_000_000_000_000_000
    start = write((1, 1), (2, "profile_start_time"))
    environment = write(
        (2, "Task Environment"), (5, write((1, 1), (2, start))), (6, write((1, 1), (3, base)))
    )
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(write((1, environment), (2, "an error"), (4, "a host")))
    about = {"block": "a b", "flops": 7}
    spans = [
        Span("gpu/0", "stream 1", "operator", "dot", base + 1000, base + 3000, about, arrives=[3]),
        Span("gpu/0 (XLA)", "stream 1", "hlo_op", "fusion", base + 1000, base + 3000),
        Span("host", "main", "dispatch", "dot", base - 10, base + 5, {"run_id": -1}, leaves=[3, 4]),
        Span("host", "main", "input", "batch", base + 5, base + 7),
    ]  # fmt: skip
    steps = [StepTimes(1, base, 0.003, {"device": 0.002})]
    _xplane.enrich(str(path), spans, [Mark("d", "d", "c", base + 9, 2.0)], steps)
    found = planes(path)
    assert found["/device:CUSTOM:mxjax gpu/0", "stream 1"] == [
        ("a_b/dot:Dot", "dot", 1_000_000, 2_000_000,
         {"block": "a b", "floating_point_operations": 7, "flow": 3 << 2 | 1}),
    ]  # fmt: skip
    host = "/device:CUSTOM:mxjax host"
    assert found[host, "main"] == [("dot", "", 0, 15_000, {"run_id": -1, "flow": 3 << 2 | 2})]
    assert found["/host:CPU", "input (main)"] == [
        ("IteratorGetNext", "batch", 5000, 2000, {"_ct": 100, "_c": 1})
    ]
    assert found["/host:CPU", "steps"][0][3] == 3_000_000
    assert (host, "_counters_") in found
    with open(path, "rb") as file:
        rest = read(file.read(), {2: ("errors", ["str"]), 4: ("hosts", ["str"])})
    assert rest == {"errors": ["an error"], "hosts": ["a host"]}
    assert [p.name for p in tmp_path.iterdir()] == ["a.xplane.pb"]
    (tmp_path / "b").write_bytes(b"")
    with pytest.raises(ValueError, match="when it began"):
        _xplane.enrich(str(tmp_path / "b"), spans, [], [])


def test_where_xlas_trace_cannot_be_written(config, work, monkeypatch):
    def fails(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("mxjax.profiler._state.enrich", fails)
    path = config()
    profiler.set_state("run")
    work()
    profiler.set_state("stop")
    with pytest.warns(UserWarning, match="the disk is full"):
        profiler.dump()
    assert _chrome.read(path)["traceEvents"]


def test_kernels_of_cuda_graphs_are_compared_by_their_times() -> None:
    """XLA tells of them the graph's name, our trace the instruction's."""
    truth = Counter({("copy.1", 0, 5): 1, ("command_buffer.2", 5, 9): 2})
    ours = Counter({("copy.1", 0, 5): 1, ("fusion.3", 5, 9): 1, ("fusion.4", 5, 9): 1})
    assert verify._differences(truth, ours) == (0, 0)
    assert verify._differences(truth, ours - Counter({("fusion.4", 5, 9): 1})) == (1, 0)
    assert verify._differences(truth, ours + Counter({("fusion.4", 6, 9): 1})) == (0, 1)
    renamed = Counter({("copy.2", 0, 5): 1, ("fusion.3", 5, 9): 2})
    assert verify._differences(truth, renamed) == (1, 1)
