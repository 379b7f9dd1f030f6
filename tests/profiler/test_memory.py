"""Memory by its holders."""

import csv
import gc
import json

import pytest

import mxjax as mx
from mxjax import autograd, core, gluon, profiler
from mxjax.core import holders
from mxjax.core.run import failures
from mxjax.gluon import nn

pytestmark = pytest.mark.programs


def test_holders_name_operator_and_line():
    with profiler.scope("mine"):
        big = mx.np.ones((300, 1000)) * 3
    big.wait_to_read()
    found = [h for h in profiler.holders() if h.shape == (300, 1000)]
    (one,) = found
    assert (one.name, one.block, one.count, one.nbytes) == ("multiply", "mine", 1, 1_200_000)
    assert one.source.startswith(__file__) and one.device == "cpu/0"
    assert "1.2 MB" in str(one) and "mine/multiply" in str(one)
    del big
    gc.collect()
    assert not [h for h in profiler.holders() if h.shape == (300, 1000)]


def test_parameters_go_by_their_names():
    net = nn.HybridSequential()
    net.add(nn.Dense(17, in_units=23))
    net.initialize()
    params = net.collect_params()
    mx.npx.waitall()
    names = {h.name for h in holders.holders() if h.shape == (17, 23)}
    assert names == {"0.weight", "0.weight:grad"} and "0.weight" in params


def test_leaks():
    net = nn.Dense(5, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    history = []

    def step(keep):
        with autograd.record():
            loss = net(mx.np.ones((2, 3))).sum()
        loss.backward()
        trainer.step(2)
        if keep:
            history.append(loss)

    step(False)
    step(False)
    with profiler.leak_check() as leaks:
        step(False)  # every weight is a new array: none grew
    assert not leaks and leaks.nbytes == 0 and str(leaks) == "nothing grew"
    with profiler.leak_check() as leaks:
        step(True)
        step(True)
    assert leaks
    (grown,) = leaks.grown
    assert (grown.name, grown.count, grown.nbytes) == ("sum", 2, 8)
    assert __file__ in str(leaks)


def test_out_of_memory_names_the_holders(monkeypatch):
    """The device refuses a program; the error lists what is in memory."""
    big = mx.np.ones((200, 2000)) + 1
    big.wait_to_read()
    x = mx.np.ones((3, 3))
    y = mx.np.exp(x)
    step = y._value().seg.step
    refused = RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99999999999 bytes.")
    error = failures.located(None, step, refused)
    assert isinstance(error, mx.errors.MXNetMemoryError) and isinstance(error, MemoryError)
    lines = str(error).splitlines()
    assert any("float32[200, 2000]" in line and __file__ in line for line in lines)
    assert len(lines) <= 12


@pytest.fixture
def profiled(tmp_path):
    """Runs a function under the profiler; gives the trace's events."""

    def run(fn, **options):
        path = str(tmp_path / "trace.json")
        profiler.set_config(continuous_dump=False, filename=path, **options)
        profiler.set_state("run")
        fn()
        mx.npx.waitall()
        profiler.set_state("stop")
        profiler.dump()
        with open(path) as file:
            return json.load(file)["traceEvents"]

    return run


@pytest.mark.observes
def test_live_bytes_by_block_and_operator(profiled):
    net = nn.HybridSequential()
    net.add(nn.Dense(64, in_units=8), nn.Dense(2, in_units=64))
    net.initialize()
    x = mx.np.ones((16, 8))

    def work():
        held = net[0](x)
        held.wait_to_read()
        net[1](held).wait_to_read()
        del held
        mx.np.zeros((1,)).wait_to_read()

    work()
    events = profiled(work)
    tracks = {}
    for e in events:
        if e["ph"] == "C":
            tracks.setdefault((e["cat"], e["name"]), []).append(e["args"].get("bytes"))
    by_operator = tracks["Memory by operator", "FullyConnected"]
    assert max(by_operator) == (16 * 64 + 16 * 2) * 4 and by_operator[-1] == 0  # both, then neither
    assert max(tracks["Memory by block", "dense0"]) == 16 * 64 * 4
    assert max(tracks["Memory by block", "dense1"]) == 16 * 2 * 4
    assert not [e for e in profiled(work, profile_memory=False) if e["ph"] == "C"]


def test_storage_file_of_mxnet(profiled, tmp_path):
    with profiler.scope("encoder"), profiler.scope("layer"):
        kept = mx.np.ones((31, 41)) + 2
    kept.wait_to_read()

    def work():
        mx.np.dot(kept, kept.T).wait_to_read()

    profiled(work)
    assert not list(tmp_path.glob("*.csv"))
    profiled(work, gpu_memory_profile_filename_prefix=str(tmp_path / "memory"))
    (path,) = tmp_path.glob("memory-pid_*.csv")
    with open(path, newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["Attribute Name", "Requested Size", "Device", "Actual Size", "Reuse?"]
    size = str(31 * 41 * 4)
    assert ["encoder:layer:add", size, "cpu/0", size, "0"] in rows
    assert all(int(row[1]) > 0 and row[4] in "01" for row in rows)


def test_the_profiler_keeps_no_array_alive(profiled):
    held = []

    def work():
        x = mx.np.ones((7, 13))
        (x * 2).wait_to_read()
        held.extend(h for h in holders.holders() if h.shape == (7, 13))
        del x

    profiled(work)
    assert held
    core.wait_all()
    assert not [h for h in holders.holders() if h.shape == (7, 13)]
