"""What is in a trace."""

import gc
import json
import os
import re
import threading
import weakref

import jax
import jax.numpy as jnp
import pytest

import mxjax as mx
from mxjax import core, profiler
from mxjax.errors import MXNetError
from mxjax.profiler import _chrome, verify
from mxjax.profiler._recorder import Mark, Span

pytestmark = pytest.mark.programs


def load(path):
    assert verify.check(path) == []
    with open(path) as file:
        return json.load(file)


def of(trace, category):
    return [e for e in trace["traceEvents"] if e.get("cat") == category]


def process_of(trace, event):
    (name,) = {
        e["args"]["name"]
        for e in trace["traceEvents"]
        if e["name"] == "process_name" and e["pid"] == event["pid"]
    }
    return name


def profiled(config, work, times=1, **options):
    path = config(**options)
    profiler.set_state("run")
    for _ in range(times):
        work()
    profiler.set_state("stop")
    profiler.dump(finished=False)
    return load(path)


def test_device_events_bear_the_names_of_operators(config, work):
    trace = profiled(config, work, times=3, aggregate_stats=True)
    device = of(trace, "operator")
    assert len(device) == len(of(trace, "hlo_op")) > 0
    assert {process_of(trace, e) for e in device} == {"cpu/0"}
    assert {process_of(trace, e) for e in of(trace, "hlo_op")} == {"cpu/0 (XLA)"}
    assert {e["name"] for e in device} <= {"exp", "scale", "dot"}
    dots = [e for e in device if e["name"] == "dot"]
    assert len({e["args"]["run_id"] for e in dots}) == 3
    fused = [e for e in device if "mx_ops" in e["args"]]
    assert fused and all(set(e["args"]["mx_ops"]) == {"exp", "scale"} for e in fused)
    assert {e["args"]["attribution"] for e in device} == {"exact", "shared"}
    # The statistics count calls of operators, also of those that were fused into others.
    rows = json.loads(profiler.dumps(format="json"))["Time"]["operator"]
    assert {name: row["Count"] for name, row in rows.items()} == {"exp": 3, "scale": 3, "dot": 3}
    for row in rows.values():
        assert 0 < row["Min"] <= row["Avg"] <= row["Max"] <= row["Total"]
    spent = sum(e["dur"] for e in device) / 1000
    assert sum(row["Total"] for row in rows.values()) == pytest.approx(spent, rel=1e-3)
    shares = profiler.attribution()
    assert sum(shares.values()) == pytest.approx(1) and shares["none"] == 0


def test_host_and_device_are_on_one_time_base(config, work):
    trace = profiled(config, work)
    (run,) = of(trace, "run")
    assert process_of(trace, run) == "host"
    first = min(e["ts"] for e in of(trace, "operator"))
    assert min(e["ts"] for e in of(trace, "dispatch")) < run["ts"] < first
    assert {e["name"] for e in of(trace, "dispatch")} == {"exp", "scale", "dot"}


def test_compilations_tell_why(config):
    path = config(aggregate_stats=True)
    new = core.Row("new_operator", lambda x: x + 17).bind()
    profiler.set_state("run")
    core.read(core.record(new, (core.concrete(jnp.ones(3), shared=True),))[0])
    profiler.set_state("stop")
    profiler.dump(finished=False)
    (event,) = of(load(path), "compile")
    assert "new_operator" in event["name"] and event["args"]["reason"]
    assert json.loads(profiler.dumps(format="json"))["Time"]["engine"]["compile"]["Count"] == 1


def test_pause_drops_what_happens_meanwhile(config, work):
    path = config()
    domain = profiler.Domain("domain")
    task, counter = domain.new_task("paused"), domain.new_counter("counter", 1)
    profiler.set_state("run")
    work()
    profiler.pause()
    profiler.pause()
    work()
    task.start()
    task.stop()
    counter += 5
    domain.new_marker("paused").mark()
    profiler.resume()
    profiler.resume()
    work()
    counter += 1
    profiler.set_state("stop")
    profiler.dump()
    trace = load(path)
    assert len({e["args"]["run_id"] for e in of(trace, "operator")}) == 2
    assert len(of(trace, "run")) == 2
    assert not [e for e in trace["traceEvents"] if e["name"] == "paused"]
    (count,) = [e for e in trace["traceEvents"] if e["name"] == "counter"]
    assert count["args"] == {"value": 7}


def test_a_run_forgets_a_pause(config, work):
    path = config()
    profiler.pause()
    profiler.set_state("run")
    work()
    profiler.resume()
    work()
    profiler.set_state("stop")
    profiler.dump()
    assert len(of(load(path), "run")) == 2  # as in MXNet


def test_kinds_can_be_left_out(config, work):
    trace = profiled(
        config,
        work,
        profile_all=False,
        profile_symbolic=False,
        profile_imperative=False,
        profile_memory=False,
    )
    assert not of(trace, "operator") and not of(trace, "dispatch")
    assert not of(trace, "Device Storage")


@pytest.mark.observes
@pytest.mark.parametrize(
    ("mode", "category"), [(2, "operator"), (4, "MXNET_C_API"), (8, "Device Storage"), (0, None)]
)
def test_the_mode_says_which_kinds_are_recorded(work, tmp_path, mode, category):
    """MXNet's mask: 1 symbolic, 2 imperative, 4 API, 8 memory."""
    path = str(tmp_path / "trace.json")
    with mx.config.scope(MXNET_PROFILER_MODE=mode):
        profiler.set_config(filename=path, continuous_dump=False)
    profiler.set_state("run")
    work()
    mx.waitall()
    profiler.set_state("stop")
    profiler.dump()
    kinds = {e.get("cat") for e in load(path)["traceEvents"]}
    assert kinds & {"operator", "MXNET_C_API", "Device Storage"} == (
        {category} if category else set()
    )


@pytest.mark.observes
@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ({"profile_all": True}, {"operator", "MXNET_C_API", "Device Storage"}),
        ({"profile_all": False, "profile_api": True}, {"MXNET_C_API"}),
    ],
)
def test_all_kinds_are_recorded_or_the_chosen_ones(config, work, given, kinds):
    none = dict.fromkeys(
        ("profile_symbolic", "profile_imperative", "profile_memory", "profile_api"), False
    )
    trace = profiled(config, lambda: (work(), mx.waitall()), **{**none, **given})
    found = {e.get("cat") for e in trace["traceEvents"]}
    assert found & {"operator", "MXNET_C_API", "Device Storage"} == kinds
    assert "MXNDArrayWaitAll" in {e["name"] for e in of(trace, "MXNET_C_API")}


def test_memory_is_a_counter(config, work):
    trace = profiled(config, work, aggregate_stats=True)
    values = [e["args"] for e in of(trace, "Device Storage") if e["name"] == "Memory: cpu/0"]
    assert values and all(v["bytes"] >= 64 * 64 * 4 for v in values)
    row = json.loads(profiler.dumps(format="json"))["Memory"]["Device Storage"]["Memory: cpu/0"]
    assert row["Count"] == len(values)


def test_objects_of_the_user(config):
    path = config(aggregate_stats=True)
    domain = profiler.Domain('do"main\n')
    assert str(domain) == 'do"main\n'
    profiler.set_state("run")
    outer, inner = domain.new_task("outer"), domain.new_task("inner")
    outer.start()
    inner.start()
    outer.stop()  # not nested: allowed
    inner.stop()
    frame, event = domain.new_frame("frame"), profiler.Event("event")
    for item in (frame, event):
        item.start()
        item.stop()
        assert str(item) == item.name
    with profiler.Task(domain, "with"):
        pass
    counter = profiler.Counter(domain, "counter", 5)
    counter += 3
    counter -= 10
    counter.increment()
    counter.decrement(2)
    counter.set_value(7)
    for scope in ("global", "process", "thread", "task", "marker"):
        profiler.Marker(domain, scope).mark(scope)
    profiler.set_state("stop")
    profiler.dump()
    trace = load(path)
    assert [e["name"] for e in of(trace, 'do"main\n') if e["ph"] == "X"] == [
        "outer",
        "inner",
        "with",
    ]
    values = [e["args"]["value"] for e in of(trace, 'do"main\n') if e["ph"] == "C"]
    assert values == [5, 8, -2, -1, -3, 7]
    instants = {e["name"]: e["s"] for e in of(trace, 'do"main\n,instant_marker')}
    assert instants == {"global": "g", "process": "p", "thread": "t", "task": "p", "marker": "p"}
    assert len(of(trace, 'do"main\n,frame')) == len(of(trace, "event")) == 1
    assert '\ndo"main\\n,instant_marker\n' in profiler.dumps()


def test_misused_objects():
    domain = profiler.Domain("domain")
    with pytest.raises(MXNetError, match="start"):
        domain.new_task("never started").stop()
    with pytest.raises(MXNetError, match="global"):
        domain.new_marker("marker").mark("nowhere")
    for wrong in ("x", None, float("nan"), float("inf"), 10**400):
        counter = domain.new_counter("counter", 3)
        with pytest.raises(ValueError, match="finite"):
            counter.increment(wrong)
        with pytest.raises(ValueError, match="'counter'"):
            counter.set_value(wrong)
        assert counter._value == 3
    for make in (
        profiler.Domain,
        domain.new_task,
        domain.new_frame,
        domain.new_marker,
        profiler.Event,
        profiler.step,
    ):
        with pytest.raises(TypeError, match="takes a text"):
            make(5)
    with pytest.raises(TypeError, match="takes a text"), profiler.scope(None):
        pass
    for kind in (profiler.Task, profiler.Frame, profiler.Counter, profiler.Marker):
        with pytest.raises(TypeError, match=r"profiler\.Domain"):
            kind("domain", "name")


def test_counters_keep_fractions_and_large_numbers(config):
    path = config()
    profiler.set_state("run")
    counter = profiler.Domain("domain").new_counter("counter", 1.5)
    counter -= 2
    counter.set_value(2**60 + 1)
    counter += 1
    assert counter._value == 2**60 + 2
    profiler.dump()
    values = [e["args"]["value"] for e in of(load(path), "domain") if e["ph"] == "C"]
    assert values == [1.5, -0.5, 2.0**60, 2.0**60]


def test_operators_of_the_legacy_front_end_bear_their_names(config):
    """Their rows are named `add@nd` inside; XLA drops what follows an @ from its metadata."""
    config(aggregate_stats=True)
    a = mx.nd.ones((8, 8))
    a.wait_to_read()
    profiler.set_state("run")
    (mx.nd.dot(a, a) + a).wait_to_read()
    profiler.set_state("stop")
    assert set(json.loads(profiler.dumps(format="json"))["Time"]["operator"]) == {"dot", "add"}
    assert profiler.attribution()["none"] == 0


@pytest.mark.parametrize("ending", ["json", "pftrace"])
def test_any_text_is_a_name(config, work, tmp_path, ending):
    """Also one that is no UTF-8, or that means something to XLA, to HTML or to ourselves."""
    path = config(aggregate_stats=True, filename=str(tmp_path / f"trace.{ending}"))
    names = [
        'quote" \\',
        "a\nb",
        "\N{SNOWMAN}",
        "\ud800",
        "</script>",
        "d)e/f",
        "jvp(x)",
        "while",
        "",
        "x" * 3000,
    ]
    names += ["me@home", "operator", "hlo_op", "step", "input", "cpu/0", "host", "Device Storage"]
    profiler.set_state("run")
    for name in names:
        domain = profiler.Domain(name)
        with profiler.scope(name), domain.new_task("task"):
            work()
        counter = domain.new_counter(name, 1)
        counter += 1
        domain.new_marker(name).mark()
    profiler.set_state("stop")
    assert profiler.report(str(tmp_path / "report.html")).count("\n       1 ") == 1
    assert "\n       2 " not in profiler.report()  # a domain called `step` ends none
    assert profiler.attribution()["none"] == 0
    assert json.loads(profiler.dumps(format="json"))["Time"]["operator"]["dot"]["Count"] == len(
        names
    )
    profiler.dump()
    if ending == "json":
        trace = load(path)
        assert {e["cat"] for e in trace["traceEvents"] if e["name"] == "task"} == set(names)
        assert profiler.diff(path, path).split()[-1] == "1.00"


def test_custom_operators(config, work):
    path = config(aggregate_stats=True)
    with profiler.custom_op("MyAddOne"):  # not running: nothing
        pass
    profiler.set_state("run")
    work()
    with profiler.custom_op("MyAddOne"):
        work()
    profiler.set_state("stop")
    rows = json.loads(profiler.dumps(format="json"))["Time"]["Custom Operator"]
    names = {f"MyAddOne::{n}" for n in ("pure_python", "exp", "scale", "dot")}
    assert {name: row["Count"] for name, row in rows.items()} == dict.fromkeys(names, 1)
    profiler.dump()
    assert {e["name"] for e in of(load(path), "Custom Operator")} == names


def test_threads_have_rows_of_their_own(config, work):
    path = config()
    profiler.set_state("run")
    threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    profiler.set_state("stop")
    profiler.dump()
    trace = load(path)
    rows = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert {"worker 0", "worker 1", "worker 2"} <= rows
    assert len(of(trace, "run")) == 3


def test_another_trace_is_running(config, work, tmp_path):
    path = config(aggregate_stats=True)
    with jax.profiler.trace(str(tmp_path / "other")):
        with pytest.warns(UserWarning, match="only the host"):
            profiler.set_state("run")
        work()
        profiler.set_state("stop")
    profiler.dump(finished=False)
    trace = load(path)
    assert not of(trace, "operator") and len(of(trace, "run")) == 1
    # The table has the times of dispatch instead.
    assert json.loads(profiler.dumps(format="json"))["Time"]["operator"]["dot"]["Count"] == 1


def test_traces_for_tensorboard_lie_in_folders_of_their_own(config, work, tmp_path):
    path = config(log_dir=str(tmp_path / "logs"))
    for _ in range(2):
        profiler.set_state("run")
        work()
        profiler.set_state("stop")
    profiler.dump()
    paths = load(path)["otherData"]["xplane"]
    assert len(set(paths)) == 2 and all(os.path.getsize(p) for p in paths)
    for p in paths:
        assert os.path.relpath(p, tmp_path / "logs").split(os.sep)[1:3] == ["plugins", "profile"]


def test_arrays_are_not_kept_alive(config):
    config()
    profiler.set_state("run")
    exp = core.Row("exp", jnp.exp).bind()
    (value,) = core.record(exp, (core.concrete(jnp.ones(5), shared=True),))
    array = core.read(value)
    gone = weakref.ref(value)
    del value
    array = weakref.ref(array)
    gc.collect()
    assert gone() is None and array() is None


def test_off_the_engine_has_no_observer(config, work):
    config()
    assert not core.hooks.observers
    profiler.set_state("run")
    assert core.hooks.observers
    profiler.pause()
    assert not core.hooks.observers
    profiler.resume()
    profiler.set_state("stop")
    assert not core.hooks.observers


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "trace.json"
    _chrome.write(str(path), [Span("p", "t", "c", "n", 1, 2)], [], {})
    before = path.read_bytes()
    with pytest.raises(TypeError):
        _chrome.write(str(path), [Span("p", "t", "c", "n", 1, 2, {"x": object()})], [], {})
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["trace.json"]


def test_an_empty_trace(tmp_path):
    path = str(tmp_path / "trace.json")
    _chrome.write(path, [], [], {})
    assert load(path)["traceEvents"] == []


def arrow(trace, phase):
    return next(e for e in trace["traceEvents"] if e["ph"] == phase)


def spoil(trace, **changes):
    event = next(e for e in trace["traceEvents"] if e.get("cat") == "operator")
    event |= changes


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda t: spoil(t, ph="B"), "phase"),
        (lambda t: spoil(t, tid=14639458641845889924), "tid"),
        (lambda t: spoil(t, ts="1"), "ts"),
        (lambda t: spoil(t, dur=-1), "dur"),
        (lambda t: spoil(t, name=None), "name"),
        (lambda t: spoil(t, dur=1e9), "inside|differ"),
        (lambda t: spoil(t, cat="hlo_op"), "differ"),
        (lambda t: t["traceEvents"].remove(of(t, "hlo_op")[0]), "differ"),
        (lambda t: spoil(t, pid=999), "no name"),
        (lambda t: t["traceEvents"].remove(arrow(t, "s")), "0 beginnings"),
        (lambda t: arrow(t, "f").update(ts=0), "back in time|span to a span"),
        (lambda t: t.pop("traceEvents"), "traceEvents"),
    ],
)
def test_the_checker_finds(config, work, damage, complaint):
    path = config()
    trace = profiled(config, work)
    damage(trace)
    with open(path, "w") as file:
        json.dump(trace, file)
    problems = verify.check(path)
    os.unlink(path)
    assert problems
    assert any(re.search(complaint, problem) for problem in problems), problems


def test_the_checker_knows_xlas_own_events(config, work):
    """A trace that lost the same events from both device rows."""
    path = config()
    trace = profiled(config, work)
    for category in ("operator", "hlo_op"):
        trace["traceEvents"].remove(of(trace, category)[0])
    with open(path, "w") as file:
        json.dump(trace, file)
    problems = verify.check(path)
    os.unlink(path)
    assert any("missing" in problem for problem in problems)


def test_the_checker_refuses_what_is_not_json(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text('{"traceEvents": [')
    assert verify.check(str(path))[0].startswith("not JSON")
    path.unlink()


def test_lanes_of_overlapping_spans(tmp_path):
    path = str(tmp_path / "trace.json")
    spans = [
        Span("p", "t", "c", name, a, b) for name, a, b in [("a", 0, 10), ("b", 5, 15), ("c", 6, 9)]
    ]
    _chrome.write(path, spans, [Mark("p", "c", "m", 3, 1.5)], {})
    trace = load(path)
    rows = {e["name"]: e["tid"] for e in of(trace, "c") if e["ph"] == "X"}
    assert rows["a"] == rows["c"] != rows["b"]
