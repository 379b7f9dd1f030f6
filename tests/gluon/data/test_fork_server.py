"""Workers that need mxjax are forked from a process that has imported it: which are, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import nd, settings
from mxjax.errors import MXNetError
from mxjax.gluon.data import ArrayDataset, DataLoader, Dataset, SimpleDataset, batchify
from mxjax.gluon.data._needs import Needs
from mxjax.gluon.data._parcel import pack_for_worker, scratch_folder
from mxjax.gluon.data.vision import ImageFolderDataset, transforms

pytest.importorskip("loky", reason="worker processes need loky, of the extra 'data'")
if sys.platform == "linux":
    from mxjax.gluon.data import _forked

ROOT = Path(__file__).parents[3]
forked_here = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux")


class Arrays(Dataset):
    """Samples made by `mx.nd`, with the worker's process, its parent and that one's parent."""

    def __init__(self, length=12):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, idx):
        return nd.ones((2, 3)) * idx, os.getpid(), os.getppid(), parent_of(os.getppid())


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def by_value(make, length=4):
    """A dataset of a class that exists in this process alone."""

    class Local(Dataset):
        def __len__(self):
            return length

        def __getitem__(self, idx):
            return make(idx)

    return Local()


def families(dataset, workers=2, **arguments):
    """The samples' values, and the sets of workers, of their parents and of those one's parents."""
    batches = list(DataLoader(dataset, 3, num_workers=workers, **arguments))
    values = [batch[0].asnumpy()[:, 0, 0].tolist() for batch in batches]
    return sum(values, []), *(
        {int(n) for batch in batches for n in batch[k].asnumpy()} for k in (1, 2, 3)
    )


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


# ------------------------------------------------------------------------------- one server


@forked_here
def test_workers_of_all_loaders_are_forked_from_one_process():
    values, workers, servers, programs = families(Arrays())
    assert values == list(range(12)) and programs == {os.getpid()}
    again, others, same, _ = families(Arrays(), workers=3)
    assert again == values and same == servers and not others & workers
    (server,) = servers
    assert server not in {os.getpid(), *workers, *others}
    assert len(os.listdir(f"/proc/{server}/task")) == 1  # it has no thread that a fork would lose


@forked_here
def test_workers_without_mxjax_come_from_a_server_that_has_none():
    def make(idx):
        return os.getppid(), "jax" in sys.modules

    def answers():
        return set(sum(DataLoader(by_value(make), 2, num_workers=2, batchify_fn=list), []))

    found = answers()
    ((server, has_jax),) = found
    assert not has_jax and parent_of(server) == os.getpid() and answers() == found
    assert families(Arrays())[2] != {server}


@forked_here
def test_a_server_that_has_threads_does_not_fork(tmp_path, monkeypatch):
    (tmp_path / "starts_a_thread.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_forked, "PRELOADED", ("starts_a_thread",))
    with mx.config.scope(data_shm_bytes=23456):  # so that none serves that was started before
        assert [families(Arrays())[2] for _ in range(2)] == [{os.getpid()}] * 2


@forked_here
def test_settings_that_are_read_at_imports_have_a_server_of_their_own():
    def seen(idx):
        nd.ones(1)
        return os.getppid(), os.environ.get("MXJAX_DATA_SHM_BYTES")

    def answers():
        return set(sum(DataLoader(by_value(seen), 2, num_workers=1, batchify_fn=list), []))

    ((first, _),) = answers()
    with mx.config.scope(data_shm_bytes=12345):
        ((second, told),) = answers()
    assert told == "12345" and second != first
    assert eventually(lambda: not alive(first))


@forked_here
def test_other_variables_reach_workers_of_the_same_server(monkeypatch):
    def seen(idx):
        nd.ones(1)
        return os.getppid(), os.environ.get("COLOUR"), "SHAPE" in os.environ

    def answers():
        return set(sum(DataLoader(by_value(seen), 2, num_workers=1, batchify_fn=list), []))

    monkeypatch.setenv("SHAPE", "round")
    answers()
    monkeypatch.setenv("COLOUR", "red")
    ((one, colour, shape),) = answers()
    monkeypatch.setenv("COLOUR", "blue")
    monkeypatch.delenv("SHAPE")
    assert (colour, shape) == ("red", True) and answers() == {(one, "blue", False)}


@forked_here
def test_what_a_worker_prints_goes_where_ours_goes(capfd):
    def tell(idx):
        nd.ones(1)
        print("sample", idx, flush=True)
        return idx

    list(DataLoader(by_value(tell), 2, num_workers=1, batchify_fn=list))
    assert sorted(capfd.readouterr().out.split("\n")) == ["", *(f"sample {k}" for k in range(4))]


def test_random_numbers_do_not_depend_on_the_number_of_workers():
    def make(idx):
        return float(nd.random.uniform(shape=1).asscalar()), np.random.rand()

    def epoch(workers):
        np.random.seed(3)
        return sum(DataLoader(by_value(make, 8), 2, num_workers=workers, batchify_fn=list), [])

    one, two = epoch(1), epoch(2)
    assert one == two and len({draw for pair in one for draw in pair}) == 16


@forked_here
def test_numpy_draws_differently_in_each_worker_before_a_batch_seeds_it():
    class Drawn(Dataset):
        def __getstate__(self):
            return {"arrays": nd.ones(1)}

        def __setstate__(self, state):
            self.draw = np.random.rand()

        def __len__(self):
            return 40

        def __getitem__(self, idx):
            time.sleep(0.01)
            return os.getpid(), self.draw

    draws = dict(sum(DataLoader(Drawn(), 2, num_workers=2, batchify_fn=list), []))
    assert len(draws) == len(set(draws.values()))


# ------------------------------------------------------------------------------------ ends


@forked_here
def test_a_killed_worker_is_an_error_and_the_next_loop_has_new_workers(tmp_path):
    def make(idx):
        nd.ones(1)
        if idx == 3 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return idx

    batches = DataLoader(by_value(make), 1, num_workers=2, batchify_fn=list)
    with pytest.raises(MXNetError, match="worker process of the DataLoader died.*SIGKILL"):
        list(batches)
    assert sum(batches, []) == [0, 1, 2, 3]


@forked_here
def test_a_killed_server_is_an_error_and_the_next_loop_has_another():
    def make(idx):
        nd.ones(1)
        time.sleep(60 * (idx == 3))
        return os.getpid(), os.getppid()

    batches = DataLoader(by_value(make), 1, num_workers=2, batchify_fn=list, timeout=50)
    running = iter(batches)
    (worker, server) = next(running)[0]
    os.kill(server, signal.SIGKILL)
    with pytest.raises(MXNetError, match="worker process of the DataLoader died"):
        list(running)
    assert eventually(lambda: not alive(worker))
    _, _, servers, _ = families(Arrays())
    assert servers.isdisjoint({server, os.getpid()})


def test_two_loaders_in_threads_at_once():
    found = {}

    def load(number):
        values, *_ = families(Arrays(), workers=1 + number)
        found[number] = values

    threads = [threading.Thread(target=load, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: list(range(12)), 1: list(range(12))}


PROGRAM = """
    import os, signal, sys, time
    import mxjax as mx
    from mxjax.gluon.data import DataLoader, Dataset

    class Arrays(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, idx):
            time.sleep(WAIT * (idx == 7))
            return (mx.nd.ones(2) * idx).asnumpy().sum(), os.getpid(), os.getppid()

    WAIT = 0
    def epoch():
        global loader
        loader = DataLoader(Arrays(), 2, num_workers=2, batchify_fn=list)
        samples = sum(loader, [])
        assert [s[0] for s in samples] == [0, 2, 4, 6, 8, 10, 12, 14]
        print(*{number for s in samples for number in s[1:]}, loader._pool._folder, flush=True)
"""


def program(ending):
    return textwrap.dedent(PROGRAM) + textwrap.dedent(ending)


def run(code, tmp_path):
    return subprocess.run(
        [sys.executable, "-c", program(code)], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env=settings.child_environment(PYTHONPATH=str(ROOT)),
    )  # fmt: skip


def is_gone(told):
    *pids, folder = told.split()
    assert len(pids) >= 2
    return eventually(lambda: not any(map(alive, pids)) and not os.path.exists(folder))


@forked_here
@pytest.mark.parametrize(
    "end", ["", "raise SystemExit(3)", "os._exit(4)", "os.kill(os.getpid(), signal.SIGKILL)"]
)
def test_server_and_workers_end_with_the_program(tmp_path, end):
    done = run(f"epoch()\n{end}", tmp_path)
    assert done.returncode in (0, 3, 4, -signal.SIGKILL)
    assert (
        done.stderr == "" or "leaked semlock" in done.stderr and done.returncode not in (0, 3)
    )  # loky cleans up
    assert is_gone(done.stdout)


@forked_here
def test_ctrl_c_ends_all_quietly(tmp_path):
    """It reaches every process of the terminal."""
    code = """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have jobs behind ignore it
    epoch()
    WAIT = 100
    try:
        print("waiting", flush=True)
        epoch()
    except KeyboardInterrupt:
        print("stopped", flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", program(code)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True, env=settings.child_environment(PYTHONPATH=str(ROOT)),
    ) as process:  # fmt: skip
        told = process.stdout.readline()
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (out, err, process.returncode) == ("stopped\n", "", 0)
    assert is_gone(told)


@forked_here
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_loaders_in_processes_that_were_forked_or_spawned(tmp_path, method):
    """The server of a forked process's parent is not its own."""
    code = f"""
    import multiprocessing
    if __name__ == "__main__":
        epoch()
        child = multiprocessing.get_context("{method}").Process(target=epoch)
        child.start()
        child.join()
        print(child.exitcode)
    """
    (tmp_path / "program.py").write_text(program(code))
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env=settings.child_environment(PYTHONPATH=str(ROOT)),
    )  # fmt: skip
    first, second, code = done.stdout.splitlines()
    assert code == "0" and is_gone(first) and is_gone(second), done.stderr
    assert not set(first.split()) & set(second.split())


# ------------------------------------------------------------------------- who needs mxjax


NEEDS = {
    "samples of mx.nd": (Arrays(), True),
    "a local function that asks mx for nd": (by_value(lambda idx: mx.nd.ones(idx)), True),
    "NumPy": (by_value(lambda idx: np.ones(idx)), False),
    "other modules": (by_value(lambda idx: json.dumps(idx)), False),
    "records": (by_value(lambda idx: mx.recordio.unpack(idx)), False),
    "arrays of our dataset": (ArrayDataset(nd.ones((4, 2)), np.ones(4)), False),
    "arrays that a user's function sees": (SimpleDataset(nd.ones((4, 2))).transform(lambda x: x), True),
    "an array in the user's hands": (by_value(nd.ones(2).__add__), True),
    "transforms": (SimpleDataset([1]).transform_first(transforms.ToTensor()), True),
    "plain data and batchify": (SimpleDataset([1, 2]), False),
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDS)
def test_what_makes_a_dataset_need_mxjax(name):
    dataset, needs = NEEDS[name]
    folder = scratch_folder()
    try:
        parcel = pack_for_worker((dataset, batchify.Stack()), folder)
    finally:
        os.rmdir(folder)
    assert parcel.wants_mxjax is needs


def test_modules_that_workers_import_are_looked_into(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "their_arrays.py").write_text("from mxjax import nd\ndef f(x): return x\n")
    (tmp_path / "their_numbers.py").write_text("import mxjax, numpy\ndef f(x): return x\n")
    import their_arrays
    import their_numbers

    for module, needed in ((their_arrays, True), (their_numbers, False)):
        needs = Needs()
        needs.look(module.f)
        assert needs.mxjax is needed


def test_pictures_in_folders_need_mxjax(tmp_path):
    (tmp_path / "cats").mkdir()
    needs = Needs()
    needs.look(type(ImageFolderDataset(str(tmp_path))))
    assert needs.mxjax
