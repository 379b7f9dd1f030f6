"""What the settings leave in a profile."""

import json
from collections import Counter

import numpy as np
import pytest

import mxjax as mx
from mxjax import profiler
from mxjax.gluon.data import ArrayDataset, DataLoader

pytestmark = pytest.mark.programs


def work():
    store = mx.kv.create("device")
    store.init(0, mx.np.ones(8))
    for x, y in DataLoader(
        ArrayDataset(np.ones((4, 8), np.float32), np.arange(4)), 2, num_workers=1, thread_pool=True
    ):
        a = (mx.np.dot(x, x.T) + 1).sum()
        with mx.core.span("collective", "an exchange"):
            store.push(0, [mx.np.ones(8, device=mx.cpu(k)) for k in range(2)])
        a.item()
        y.wait_to_read()
    mx.waitall()


def events(path):
    trace = json.loads(path.read_text())["traceEvents"]
    return {(e.get("cat"), e["name"]) for e in trace if e.get("ph") in ("X", "C", "i")}, trace


@pytest.mark.observes
def test_only_what_the_host_waited_for_is_in_the_profile(tmp_path):
    def profile(only):
        path = tmp_path / f"{only}.json"
        with mx.config.scope(MGB_PROFILE_ONLY_WAIT=only):
            profiler.set_config(
                profile_all=True, aggregate_stats=True, filename=str(path), timing="dispatch"
            )
            profiler.set_state("run")
            work()
            profiler.set_state("stop")
            table = profiler.dumps(reset=True)
            profiler.dump()
        return events(path)[0], table

    everything, whole = profile(0)
    waits, part = profile(1)
    assert waits < everything | waits and len(waits) < len(everything)
    assert {category for category, _ in waits} <= {"MXNET_C_API", "collective", "input"}
    names = {name for _, name in waits}
    assert {
        "MXNDArrayWaitAll",
        "MXNDArraySyncCopyToCPU",
        "DataLoader: wait",
        "an exchange",
    } <= names
    assert {"dot", "MXImperativeInvoke", "run"} & {
        line.split()[0] for line in whole.splitlines() if line.strip()
    }
    assert "MXNDArrayWaitAll" in part and "dot" not in part and "MXImperativeInvoke" not in part


@pytest.mark.observes
def test_ascends_profiling_config_starts_and_stops_the_profiler(tmp_path, caplog):
    def profile(name, **options):
        folder = tmp_path / name
        mx.config.set(
            profiling_config={
                "enable_profiling": True,
                "profiling_options": json.dumps({"output": str(folder), **options}),
            }
        )
        assert profiler.state() == "run"
        work()
        mx.config.reset()
        assert profiler.state() == "stop"
        return Counter(e.get("cat") for e in events(folder / "profile.json")[1]), folder

    full, folder = profile("full", aic_metrics="PipeUtilization", l2="on")
    assert full["operator"] and full["hlo_op"] and full["collective"] and full["MXNET_C_API"]
    assert sum("aic_metrics does nothing here" in r.getMessage() for r in caplog.records) == 1
    assert list((folder / "profile_xplane").rglob("*.xplane.pb"))

    less, folder = profile(
        "less", task_trace="off", hccl="off", runtime_api="off", storage_limit="1KB"
    )
    assert (
        not less["operator"]
        and not less["hlo_op"]
        and not less["collective"]
        and not less["MXNET_C_API"]
    )
    assert less["dispatch"] and not list(
        (folder / "profile_xplane").iterdir()
    )  # larger than it may be
    for wrong, message in (
        ({"output": 3}, "profiling_options"),
        ({"hcll": "on"}, "'hcll' is none of its options"),
        ({"task_trace": "l9"}, "task_trace"),
    ):
        with pytest.raises(mx.config.SettingError, match=message):
            mx.config.set(profiling_config={"enable_profiling": True, "profiling_options": wrong})
    assert profiler.state() == "stop"
