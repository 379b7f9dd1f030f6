"""The functions of mxjax.profiler: what MXNet's accept and refuse."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mxjax as mx
from mxjax import profiler
from mxjax.errors import MXNetError
from mxjax.kvstore._server import Server
from mxjax.profiler import _state, verify

HEAD = "\nProfile Statistics:\n\tNote the difference in units for different entries.\n"


@pytest.mark.parametrize(
    "options",
    [
        {"bogus": 1},
        {"profile_all": "maybe"},
        {"dump_period": "x"},
        {"dump_period": -1},
        {"dump_period": "nan"},
        {"filename": ""},
        {"filename": 5},
        {"rotate_events": 2.7},
        {"rotate_files": True},
        {"profile_process": "nobody"},
        {"profile_process": "server"},
    ],
)
def test_set_config_refuses(options):
    with pytest.raises(MXNetError) as caught:
        profiler.set_config(**options)
    assert next(iter(options)) in str(caught.value)


def test_set_config_suggests():
    with pytest.raises(MXNetError, match="did you mean 'aggregate_stats'"):
        profiler.set_config(agregate_stats=True)


def test_set_config_accepts_mxnets_forms():
    profiler.set_config(profile_all=1, aggregate_stats="true", dump_period="2.5", profile_api=False)
    profiler.set_config(gpu_memory_profile_filename_prefix="p", profile_process="worker")
    profiler.set_config(filename=Path("p.json"), continuous_dump=False, dump_period=0)


@pytest.mark.parametrize("call", [profiler.set_state, profiler.pause, profiler.resume])
def test_an_unknown_state_or_process_is_a_key_error(call):
    with pytest.raises(KeyError, match="got 'bad'"):
        call("bad")
    with pytest.raises(KeyError, match="got 'bad'"):
        profiler.set_state("run", "bad")
    with pytest.raises(KeyError):
        call([])
    assert profiler.state() == "stop"


def test_a_server_needs_a_kvstore():
    with pytest.raises(MXNetError, match="set_kvstore_handle"):
        profiler.set_state("run", "server")


@pytest.mark.parametrize(
    "arguments", [{"sort_by": "x"}, {"format": "x"}, {"reset": 3}, {"ascending": 3}]
)
def test_dumps_refuses(arguments):
    with pytest.raises(AssertionError) as caught:
        profiler.dumps(**arguments)
    assert next(iter(arguments)) in str(caught.value)


def test_dump_before_run():
    with pytest.raises(MXNetError, match="set_state"):
        profiler.dump()
    profiler.set_state("stop")
    with pytest.raises(MXNetError):
        profiler.dump()


def test_dumps_before_run():
    assert profiler.dumps() == ""
    profiler.set_config(aggregate_stats=True)
    assert profiler.dumps() == HEAD


@pytest.mark.observes("aggregate_stats")
def test_dumps_is_empty_without_aggregate_stats(config, work):
    config()
    profiler.set_state("run")
    work()
    profiler.set_state("stop")
    assert profiler.dumps() == ""
    assert profiler.dumps(reset=True) == ""


def test_dump_finished_ends_the_output(config, work):
    path = config()
    profiler.set_state("run")
    work()
    profiler.dump()
    assert verify.check(path) == []
    with pytest.raises(MXNetError):
        profiler.dump()
    profiler.set_state("stop")
    profiler.set_state("run")  # and a new run begins a new file
    profiler.set_state("stop")
    profiler.dump()
    with open(path) as file:
        assert not [e for e in json.load(file)["traceEvents"] if e["name"] == "dot"]


def test_dump_not_finished_keeps_all(config, work):
    path = config()

    def dots() -> int:
        assert verify.check(path) == []
        with open(path) as file:
            events = json.load(file)["traceEvents"]
        return sum(e["name"] == "dot" and e.get("cat") == "operator" for e in events)

    profiler.set_state("run")
    work()
    profiler.dump(finished=False)
    assert profiler.state() == "run"
    once = dots()
    work()
    profiler.set_state("stop")
    work()  # not recorded
    profiler.dump(finished=False)
    assert once > 0 and dots() == 2 * once
    profiler.dump(finished=False)
    assert dots() == 2 * once


def test_statistics_outlive_dump_and_end_with_reset(config, work):
    config(aggregate_stats=True)
    profiler.set_state("run")
    work()
    profiler.dump()
    first = profiler.dumps()
    assert "dot" in first and profiler.dumps(reset=True) == first
    assert profiler.dumps() == HEAD


def test_statistics_can_be_read_during_a_run(config, work):
    config(aggregate_stats=True)
    profiler.set_state("run")
    work()
    assert json.loads(profiler.dumps(format="json"))["Time"]["operator"]["dot"]["Count"] == 1
    work()
    profiler.set_state("stop")
    assert json.loads(profiler.dumps(format="json"))["Time"]["operator"]["dot"]["Count"] == 2


def test_run_twice_and_stop_twice(config, work):
    config(aggregate_stats=True)
    profiler.set_state("run")
    profiler.set_state("run")
    work()
    profiler.set_state("stop")
    profiler.set_state("stop")
    assert json.loads(profiler.dumps(format="json"))["Time"]["operator"]["dot"]["Count"] == 1


@pytest.mark.observes
def test_the_file_name_may_change_during_a_run(config, work, tmp_path):
    config()
    profiler.set_state("run")
    work()
    other = str(tmp_path / "new folder" / "other.json")
    config(filename=other)
    profiler.set_state("stop")
    profiler.dump()
    assert verify.check(other) == []


def test_a_file_that_cannot_be_written_is_refused_before_the_run(config, tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("file/trace.json", "."):
        config(filename=str(tmp_path / name))
        with pytest.raises(MXNetError, match="filename="):
            profiler.set_state("run")
        assert profiler.state() == "stop"


def test_xlas_trace_without_a_place_leaves_xlas_profiler_alone(config, work, tmp_path):
    (tmp_path / "file").write_text("")
    config(log_dir=str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="log_dir=") as caught:
        profiler.set_state("run")
    assert caught[0].filename == __file__
    profiler.set_state("stop")
    path = config()  # and the next run has the device's side
    profiler.set_state("run")
    work()
    profiler.dump()
    with open(path) as file:
        assert [e for e in json.load(file)["traceEvents"] if e.get("cat") == "operator"]


def test_a_disk_without_room_does_not_end_the_writing(config, work, tmp_path):
    folder = tmp_path / "folder"
    path = config(
        filename=str(folder / "trace.json"),
        log_dir=str(tmp_path / "logs"),
        continuous_dump=True,
        dump_period=0.01,
    )
    with pytest.warns(UserWarning, match="tries again"):
        profiler.set_state("run")
        work()
        folder.rename(tmp_path / "away")
        folder.write_text("")
        eventually(lambda: _state.profiler._writer._told)
    folder.unlink()
    eventually(lambda: (folder / "trace.json").exists())
    profiler.set_state("stop")
    assert path and verify.check(str(folder / "trace.json")) == []


def eventually(what):
    for _ in range(1000):
        if what():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen in ten seconds")


def test_a_forked_process_leaves_the_file_to_who_began_it(config, work):
    path = config()
    profiler.set_state("run")
    work()
    _state.profiler._began_in += 1  # as a child sees it
    _state.profiler._finish()
    assert profiler.state() == "run" and not os.path.exists(path)


@pytest.mark.observes
def test_continuous_dump_writes_while_it_runs(config, work):
    path = config(continuous_dump=True, dump_period=0.01)
    profiler.set_state("run")
    work()
    for _ in range(1000):
        if os.path.exists(path):
            break
        time.sleep(0.01)
    with open(path) as file:  # the host's side; whole at any moment
        assert json.load(file)["traceEvents"]
    profiler.set_state("stop")
    assert verify.check(path) == []
    with open(path) as file:
        assert [e for e in json.load(file)["traceEvents"] if e.get("cat") == "operator"]


def test_old_names(config, work, tmp_path):
    path = str(tmp_path / "old.json")
    with pytest.warns(UserWarning, match="set_config"):
        profiler.profiler_set_config("all", path)
    with pytest.warns(UserWarning, match="set_state"):
        profiler.profiler_set_state("run")
    work()
    with pytest.warns(UserWarning, match="set_state"):
        profiler.profiler_set_state("stop")
    with pytest.warns(UserWarning, match="dump"):
        profiler.dump_profile()
    assert verify.check(path) == []
    with pytest.warns(UserWarning), pytest.raises(MXNetError):
        profiler.profiler_set_config("bad")


def test_scope_names():
    with profiler.scope("a") as name:
        assert name == "a:"
    with profiler.scope("a:") as name:
        assert name == "a:"
        with profiler.scope("b") as name:
            assert name == "a:b:"
        with profiler.scope("b", append_mode=False) as name:
            assert name == "b:"
    with profiler.scope() as name:
        assert name == "<unk>:"


def test_names_of_mxnet_are_there():
    """Every public function and class of mxnet.profiler."""
    for name in """Counter Domain Event Frame Marker Task dump dump_profile dumps pause
            profiler_set_config profiler_set_state resume scope set_config set_kvstore_handle
            set_state""".split():
        assert name in profiler.__all__ and hasattr(profiler, name)


AUTOSTART = """
import jax._src.xla_bridge as bridge
from mxjax import core, profiler
assert profiler.state() == "run"
assert not bridge._backends, "the import started a backend"
import jax.numpy as jnp
exp = core.Row("exp", jnp.exp).bind()
x = core.concrete(jnp.ones((64, 64)), shared=True)
core.read(core.record(exp, (x,))[0]).block_until_ready()
"""


@pytest.mark.observes
def test_autostart_profiles_a_whole_process(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_PROFILER_AUTOSTART", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    subprocess.run([sys.executable, "-c", AUTOSTART], cwd=tmp_path, check=True, timeout=120)
    path = str(tmp_path / "profile.json")
    assert verify.check(path) == []
    with open(path) as file:
        names = {e["name"] for e in json.load(file)["traceEvents"] if e.get("cat") == "operator"}
    assert names == {"exp"}


class Store:
    """A distributed store with one server, which is in this process."""

    has_servers = True

    def __init__(self):
        self.heads = []
        self._server = Server(rank=3)

    def _send_command_to_servers(self, head, body):
        self.heads.append(head)
        assert self._server.do([("command", head, body)]) == [None]


@pytest.mark.programs
def test_servers_are_profiled_through_the_store(work, tmp_path):
    store = Store()
    profiler.set_kvstore_handle(store)
    path = str(tmp_path / "server.json")
    profiler.set_config(
        profile_all=True, continuous_dump=False, filename=path, profile_process="server"
    )
    assert profiler.state() == "stop"
    profiler.set_state("run", profile_process="server")
    work()
    profiler.pause(profile_process="server")
    work()
    profiler.resume(profile_process="server")
    profiler.set_state("stop", profile_process="server")
    profiler.dump(profile_process="server")
    assert store.heads == [5] * 6  # kSetProfilerParams
    with open(tmp_path / "rank3_server.json") as file:
        events = json.load(file)["traceEvents"]
    assert sum(e.get("cat") == "run" for e in events) == 1
    for wrong in ("{", "{}", '{"action": "explode"}', "[]"):
        with pytest.raises(MXNetError, match="command"):
            profiler.server_command(wrong)
    profiler.set_kvstore_handle(object())
    with pytest.raises(MXNetError, match="send_command"):
        profiler.set_state("run", profile_process="server")
    profiler.set_kvstore_handle(mx.kv.create("local"))
    with pytest.warns(UserWarning, match="'local' has no servers") as caught:
        profiler.set_state("run", profile_process="server")
    assert caught[0].filename == __file__
