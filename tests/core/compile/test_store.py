"""Programs end: those that were not used for longest, those of what is gone; never those in use."""

import gc
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as onp
import pytest

import mxjax as mx
from mxjax.core import jaxprs
from mxjax.core.calls import call as calls
from mxjax.core.calls import segment
from mxjax.core.calls.state import local
from mxjax.core.compile.store import COMPUTATION_BYTES, PROGRAM_BYTES, store
from mxjax.core.run.scheduler import forget
from mxjax.gluon import nn

pytestmark = pytest.mark.programs

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def counted(monkeypatch, collected):
    mx.waitall()
    forget()
    gc.collect()
    mx.engine.reset()
    monkeypatch.setattr(
        local.st, "steady", True
    )  # segments are compiled at once, however many there are
    yield
    mx.waitall()
    store.bound(None, None)


def stats(name):
    return mx.engine.stats()[name]


def compiled(run):
    before = stats("compiled")
    run()
    return stats("compiled") - before


def vectors(*sizes):
    made = [mx.np.array(onp.arange(n, dtype="float32")) for n in sizes]
    mx.waitall()
    return made


def double(x):
    """A segment of one operator; it runs by its function alone once it came back twice."""
    got = (x * 2).asnumpy()
    onp.testing.assert_array_equal(got, onp.arange(x.size, dtype="float32") * 2)


def several(x):
    """A segment of several operators."""
    got = mx.np.tanh(mx.np.sin(x) * 3 + x).asnumpy()
    n = onp.arange(x.size, dtype="float32")
    onp.testing.assert_allclose(got, onp.tanh(onp.sin(n) * 3 + n), rtol=2e-5)


def test_programs_and_their_bytes_are_counted():
    (x,) = vectors(5)
    before = stats("held"), stats("held_bytes")
    several(x)
    assert stats("held") == before[0] + 1 == before[0] + stats("compiled")
    assert stats("held_bytes") - before[1] >= PROGRAM_BYTES + COMPUTATION_BYTES
    assert stats("evicted") == 0
    mx.core.drop_programs()
    assert stats("held") == stats("held_bytes") == 0


def test_a_larger_program_counts_more():
    (x,) = vectors(5)
    several(x)
    small = stats("held_bytes")
    y = x
    for _ in range(20):
        y = mx.np.cumsum(y) / (1 + y.sum())
    y.wait_to_read()
    assert stats("held_bytes") - small > small + 20 * COMPUTATION_BYTES


@pytest.mark.parametrize("work", [double, several])
def test_the_one_not_used_for_longest_goes(work):
    a, b, c = vectors(3, 4, 5)
    with mx.config.scope(cache_max_executables=2):
        for x in (a, a, a, b, a, a):
            work(x)
        assert stats("compiled") == 2
        work(c)
        assert (stats("compiled"), stats("held"), stats("evicted")) == (3, 2, 1)
        assert compiled(lambda: work(c)) == 0
        assert compiled(lambda: work(a)) == 0
        assert compiled(lambda: work(b)) == 1


@pytest.mark.observes
def test_a_program_in_use_survives_a_small_bound():
    mine, *others = vectors(*range(3, 60))
    several(mine)
    one = stats("held_bytes")
    with mx.config.scope(engine_program_memory=4 * one):
        for x in others:
            several(x)
            assert stats("held_bytes") <= 4 * one or stats("held") == 1
            assert compiled(lambda: several(mine)) == 0
        assert stats("compiled") == 1 + len(others)
        assert stats("evicted") > len(others) // 2
        assert store.limit == 4 * one  # one that is given stays


def test_a_small_operator_in_use_survives_though_it_notes_nothing():
    mine, *others = vectors(*range(3, 60))
    for _ in range(3):
        double(mine)
    one = stats("held_bytes")
    with mx.config.scope(engine_program_memory=8 * one):
        for x in others:
            double(x)
            double(x)
            double(x)
            assert compiled(lambda: double(mine)) == 0
    assert stats("evicted") > len(others) // 2


def test_bytes_0_keeps_the_program_that_runs():
    a, b = vectors(3, 4)
    with mx.config.scope(engine_program_memory=0):
        for x in (a, b, a, b):
            several(x)
            assert compiled(lambda x=x: several(x)) == 0
            assert stats("held") == 1
    assert stats("compiled") == 4


def test_what_goes_frees_its_executable_and_its_steps_at_once():
    client = jax.devices()[0].client
    arrays = vectors(*range(3, 20))
    forget()  # what other tests left goes now, not among what is counted
    gc.collect()
    gc.disable()
    try:
        with mx.config.scope(cache_max_executables=3):
            for x in arrays[:6]:
                several(x)
            executables, nodes = len(client.live_executables()), segment.Tree.nodes
            for x in arrays[6:]:
                several(x)
            assert len(client.live_executables()) == executables
            assert segment.Tree.nodes == nodes
    finally:
        gc.enable()


def test_more_than_the_usual_bound_is_held_where_it_is_needed(monkeypatch):
    arrays = vectors(*range(3, 15))
    several(arrays[0])
    monkeypatch.setattr(store, "limit", 3 * stats("held_bytes"))
    for _ in range(4):
        for x in arrays:
            several(x)
    assert compiled(lambda: [several(x) for x in arrays]) == 0
    assert stats("compiled") < 3 * len(arrays)


def test_programs_that_never_come_back_do_not_raise_the_bound(monkeypatch):
    arrays = vectors(*range(3, 15))
    several(arrays[0])
    monkeypatch.setattr(store, "limit", 3 * stats("held_bytes"))
    limit = store.limit
    for x in arrays:
        several(x)
    assert store.limit == limit and stats("held_bytes") <= limit


def test_training_goes_on_when_its_programs_went():
    def trained(**options):
        net = nn.Dense(2, in_units=3)
        net.initialize(mx.init.Constant(0.5))
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        x = mx.np.array(onp.linspace(-1, 1, 12).reshape(4, 3))
        others = iter(vectors(*range(3, 7)))
        with mx.config.scope(**options):
            for _ in range(4):
                with mx.autograd.record():
                    loss = (net(x) ** 2).sum()
                loss.backward()
                trainer.step(4)
                loss.wait_to_read()
                several(next(others))
        return net.weight.data().asnumpy()

    onp.testing.assert_array_equal(trained(engine_program_memory=0), trained())
    assert stats("evicted") > 4


def test_programs_of_a_hybridized_network_go_with_it():
    (x,) = vectors(3)
    x = x.reshape(1, 3)
    x.wait_to_read()

    def used(units):
        net = nn.Dense(units, in_units=3)
        net.initialize(mx.init.One())
        net.hybridize()
        net.weight.data().wait_to_read()
        for _ in range(3):
            with mx.autograd.record():
                loss = net(x).sum()
            loss.backward()
            loss.wait_to_read()
            net(x).wait_to_read()
        return net

    del used(2).weight  # what any such network needs is there now
    gc.collect()
    before = stats("held")
    net = used(2)
    assert stats("held") > before
    del net
    gc.collect()
    assert stats("held") == before


def test_programs_under_another_name_of_the_device_go_too():
    client = jax.devices()[0].client
    there = mx.cpu(len(jax.devices()) + 3)
    arrays = [x.to_device(there) for x in vectors(3, 4, 5, 6)]
    with mx.config.scope(cache_max_executables=1):
        for x in arrays:
            for _ in range(4):
                double(x)
        gc.collect()
        executables = len(client.live_executables())
        for x in arrays:
            for _ in range(4):
                double(x)
        assert stats("compiled") == 8 and stats("held") == 1
        assert len(client.live_executables()) == executables


def test_steps_that_lead_to_no_program_go_when_there_are_too_many(monkeypatch):
    mine, other = vectors(3, 4)
    several(mine)
    nodes = segment.Tree.nodes
    for k in range(5):
        dropped = mx.np.sin(other) + k
        del dropped
        mx.core.flush_thread()  # nobody holds it: it is not compiled
    assert segment.Tree.nodes > nodes
    monkeypatch.setattr(segment, "LIMIT", 1)
    segment.Tree.shrink()
    assert segment.Tree.nodes <= nodes and segment.Tree.limit == 2 * segment.Tree.nodes
    assert compiled(lambda: several(mine)) == 0
    monkeypatch.undo()
    segment.Tree.shrink()


def test_calls_in_use_keep_their_programs_when_attributes_pile_up(monkeypatch):
    monkeypatch.setattr(calls, "CALLS", 20)
    row = calls.ROWS["tile"]
    monkeypatch.setattr(row, "most", 20)
    (x,) = vectors(3)

    def run():
        onp.testing.assert_array_equal(mx.np.tile(x, 2).asnumpy(), [0, 1, 2, 0, 1, 2])

    run()
    row.calls = {key: found for key, found in row.calls.items() if found.attrs == (("reps", 2),)}
    for k in range(100, 200):
        row.bind((("reps", k),))
        assert len(row.calls) <= 21
    assert compiled(run) == 0


def test_a_bounded_cache_forgets_its_older_half():
    cache = {k: k for k in range(11)}
    calls.bounded(cache, 11)
    assert len(cache) == 11
    calls.bounded(cache, 10)
    assert list(cache) == [5, 6, 7, 8, 9, 10]


def test_traces_that_jax_keeps_are_bounded_too(monkeypatch):
    trace_to_jaxpr = pytest.importorskip("jax._src.interpreters.partial_eval").trace_to_jaxpr
    monkeypatch.setattr(jaxprs, "TRACES", 100)
    for x in vectors(*range(3, 30)):
        mx.np.median(x).wait_to_read()
        assert trace_to_jaxpr.cache_info().currsize <= 100


def work():
    spec = importlib.util.spec_from_file_location("cold_work", ROOT / "benchmarks" / "cold_work.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_small_networks_of_other_sizes_are_trained_and_dropped():
    with mx.config.scope(engine_program_memory="4MB"):
        assert len(work().programs(mx, 4, every=2)) == 2
        assert stats("evicted") > 0 and stats("held_bytes") <= 4 << 20


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_400_small_networks_end_below_700_megabytes():
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "cold_work.py"),
        "mxjax",
        "programs",
        "400",
    ]
    flags = "--xla_backend_optimization_level=0 --xla_cpu_multi_thread_eigen=false"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": flags}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    found = [float(line.split()[-2]) for line in done.stdout.splitlines() if line.endswith(" MB")]
    assert len(found) == 4
    assert max(found) < 700
    assert found[3] - found[1] < 40  # caches that are bounded in number are not full before


@pytest.mark.parametrize(("platform", "evicted"), [("cpu", 1), ("gpu", 0), ("tpu", 0)])
def test_where_compiling_takes_long_more_programs_stay(monkeypatch, platform, evicted):
    # Two training steps of a large network, as it is on a GPU: each takes half of a CPU's bound and a little more.
    monkeypatch.setattr("mxjax.core.compile.store.platform_of", lambda device: platform)
    monkeypatch.setattr("mxjax.core.compile.program.size_of", lambda compiled: 65 << 20)
    store.bound(None, None)
    (x,) = vectors(7)
    several(x)
    (mx.np.cos(x) + mx.np.sin(x) * 5).wait_to_read()
    assert stats("evicted") == evicted


def test_a_bound_that_is_given_holds_on_a_gpu_too(monkeypatch):
    monkeypatch.setattr("mxjax.core.compile.store.platform_of", lambda device: "gpu")
    monkeypatch.setattr("mxjax.core.compile.program.size_of", lambda compiled: 65 << 20)
    store.bound(128 << 20, None)
    (x,) = vectors(9)
    several(x)
    (mx.np.cos(x) + mx.np.sin(x) * 5).wait_to_read()
    assert stats("evicted") == 1
    assert store.limit == 128 << 20
