"""Worker processes: what travels, what goes wrong, and that nothing is left behind."""

from __future__ import annotations

import glob
import os
import random
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
from mxjax.errors import MXNetError, MXNetTimeoutError, MXNetTypeError
from mxjax.gluon.data import ArrayDataset, DataLoader, Dataset, SimpleDataset
from mxjax.gluon.data._parcel import pack_for_parent, scratch_folder, unpack
from mxjax.gluon.data.batchify import AsList, Group, Pad, Stack

pytest.importorskip("loky", reason="worker processes need loky, of the extra 'data'")

ROOT = Path(__file__).parents[3]


def by_value(make, length=12):
    """A dataset of a class that exists in this process alone."""

    class Local(Dataset):
        def __len__(self):
            return length

        def __getitem__(self, idx):
            return make(idx)

    return Local()


def loader(make, length=12, batch_size=3, num_workers=2, **arguments):
    return DataLoader(
        by_value(make, length),
        batch_size,
        num_workers=num_workers,
        batchify_fn=arguments.pop("batchify_fn", list),
        **arguments,
    )


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def eventually(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


# ----------------------------------------------------------------------------- what travels


def test_order_and_content_are_those_of_the_sampler():
    batches = loader(lambda idx: (time.sleep(0.01 * (idx * 7 % 5)), idx)[1], 20, 3)
    expected = [list(range(start, min(start + 3, 20))) for start in range(0, 20, 3)]
    assert list(batches) == list(batches) == expected


def test_samples_are_made_in_other_processes_without_jax():
    samples = sum(loader(lambda idx: (os.getpid(), "jax" in sys.modules)), [])
    assert os.getpid() not in {pid for pid, _ in samples}
    assert not any(jax for _, jax in samples)


def test_batches_of_numpy_become_mxjax_arrays_here():
    x = np.random.rand(10, 300, 40)
    batches = DataLoader(by_value(lambda idx: (x[idx], idx, float(idx)), 10), 4, num_workers=2)
    for position, batch in enumerate(batches):
        assert type(batch) is list
        data, label, weight = batch
        np.testing.assert_array_equal(data.asnumpy(), x[4 * position : 4 * position + 4])
        assert np.dtype(data.dtype) == np.dtype(weight.dtype) == np.float64
        assert np.dtype(label.dtype) == np.int64
        assert isinstance(label, mx.np.ndarray)


def test_mxjax_arrays_travel_as_numpy_and_their_samples_need_no_jax():
    x = mx.np.array(np.arange(12.0).reshape(6, 2), dtype="float32")
    dataset = ArrayDataset(x, SimpleDataset([mx.np.array([i]) for i in range(6)]))
    batches = list(DataLoader(dataset, 4, num_workers=1))
    np.testing.assert_array_equal(batches[1][0].asnumpy(), [[8, 9], [10, 11]])
    np.testing.assert_array_equal(batches[1][1].asnumpy(), [[4], [5]])
    assert np.dtype(batches[0][0].dtype) == np.float32

    def spy(samples):
        return "jax" in sys.modules, [type(sample).__name__ for sample in samples]

    # a function of the user sees mxjax arrays, so JAX is there
    (seen,) = DataLoader(ArrayDataset(x), 6, num_workers=1, batchify_fn=spy)
    assert seen == (True, ["ndarray"] * 6)


def test_a_transform_of_mxjax_arrays_runs_on_mxjax_arrays():
    x = mx.np.array(np.arange(6), dtype="uint8")

    def half(sample):
        assert isinstance(sample, mx.np.ndarray)
        return sample / 2

    dataset = SimpleDataset(x.reshape(6, 1)).transform(half)
    here = [batch.asnumpy() for batch in DataLoader(dataset, 4)]
    there = [batch.asnumpy() for batch in DataLoader(dataset, 4, num_workers=1)]
    for a, b in zip(here, there, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_all_kinds_of_arrays_travel():
    import ml_dtypes

    def make(idx):
        return (
            np.zeros((0, 3), "float32"),
            np.full((300, 300), idx, ml_dtypes.bfloat16),
            np.asfortranarray(np.full((200, 100), idx)),
            [idx] * (idx + 1),
            f"sample {idx}",
        )

    columns = Group(Stack(), Stack(), Stack(), Pad(), AsList())
    (batch,) = loader(make, 3, 3, batchify_fn=columns)
    empty, small, fortran, padded, names = batch
    assert empty.shape == (3, 0, 3)
    assert str(np.dtype(small.dtype)) == "bfloat16"
    assert small.asnumpy().astype("float32")[2].min() == 2
    np.testing.assert_array_equal(fortran.asnumpy()[1], np.full((200, 100), 1))
    assert padded.asnumpy().tolist() == [[0, 0, 0], [1, 1, 0], [2, 2, 2]]
    assert names == ["sample 0", "sample 1", "sample 2"]


def test_any_object_travels_and_its_class_stays_the_same():
    class Box:
        def __init__(self, value):
            self.value = value

    for batch in loader(lambda idx: Box(idx), batchify_fn=lambda samples: tuple(samples)):
        assert type(batch) is tuple
        assert all(type(box) is Box for box in batch)


def test_large_datasets_are_shared_and_private_when_written():
    big = np.zeros((500, 1000))

    def make(idx):
        big[idx, 0] += 1  # each worker has its own
        return float(big[:, 0].sum()), big.flags.writeable

    samples = sum(loader(make, 6, 3), [])
    assert all(writeable for _, writeable in samples)
    assert big.sum() == 0


def test_large_batches_lie_in_files_that_go_away():
    batches = loader(lambda idx: np.full((300, 300), idx), 12, 2, batchify_fn=np.stack)
    count = 0
    for number, batch in enumerate(batches):
        assert batch.shape == (2, 300, 300) and batch[1, 0, 0] == 2 * number + 1
        batch += 1  # writable, as an array of this process
        count += 1
    assert count == 6
    folder = batches._pool._folder
    assert [name for name in os.listdir(folder) if not name.startswith("started-")] == []
    batches._pool.close()
    assert not os.path.exists(folder)


def test_parcels_without_shared_memory_travel_in_the_pipe(monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    folder = scratch_folder()
    try:
        array = np.arange(100_000.0)
        parcel = pack_for_parent({"x": array}, folder)
        assert parcel.path is None and os.listdir(folder) == []
        back = unpack(parcel, remove=True)["x"]
        np.testing.assert_array_equal(back, array)
        back += 1
    finally:
        os.rmdir(folder)


def test_what_cannot_be_sent_is_named():
    lock = threading.Lock()
    with pytest.raises(MXNetTypeError, match="cannot be sent to worker processes.*lock"):
        iter(loader(lambda idx: lock.locked()))


# ------------------------------------------------------------------------------- randomness


def test_random_numbers_follow_numpys_seed_whatever_the_number_of_workers():
    def make(idx):
        return idx, np.random.rand(), random.random()

    def epochs(num_workers):
        np.random.seed(5)
        batches = loader(make, num_workers=num_workers)
        return [list(batches), list(batches)]

    one, two = epochs(1), epochs(2)
    assert one == two
    assert one[0] != one[1]
    draws = [sample[1] for sample in sum(one[0], [])]
    assert len(set(draws)) == len(draws)


def test_the_same_seed_again_gives_the_same_epoch_again():
    batches = loader(lambda idx: (idx, np.random.rand()), shuffle=True)
    epochs = []
    for _ in range(2):
        np.random.seed(5)
        epochs.append([list(batches), list(batches)])
    assert epochs[0] == epochs[1]


@pytest.mark.observes
def test_workers_have_the_threads_that_the_setting_says():
    def threads(idx):
        return os.environ["OMP_NUM_THREADS"], os.environ["PJRT_NPROC"]

    assert set(sum(loader(threads, num_workers=1), [])) == {("1", "1")}
    with mx.config.scope(data_worker_threads=2):
        assert set(sum(loader(threads, num_workers=1), [])) == {("2", "2")}


def test_loading_leaves_this_process_random_state_alone():
    np.random.seed(5)
    expected = np.random.rand()
    np.random.seed(5)
    list(loader(lambda idx: idx))
    assert np.random.rand() == expected


# ------------------------------------------------------------------------------------ errors


def test_an_error_has_the_workers_traceback():
    def make(idx):
        if idx == 4:
            raise KeyError("broken sample")
        return idx

    batches = iter(loader(make))
    assert next(batches) == [0, 1, 2]
    with pytest.raises(KeyError, match="broken sample") as caught:
        next(batches)
    text = str(caught.value.__cause__)
    assert "Traceback" in text and "in make" in text and "KeyError: 'broken sample'" in text
    with pytest.raises(StopIteration):
        next(batches)


def test_after_an_error_the_loader_can_be_used_again():
    def make(idx):
        if idx == 11:
            raise ValueError("the last one")
        return idx

    batches = loader(make)
    for _ in range(2):
        with pytest.raises(ValueError, match="the last one"):
            list(batches)


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration("x"), KeyboardInterrupt()])
def test_errors_that_end_loops_and_programs_do_not_end_ours(error):
    def make(idx):
        raise error

    with pytest.raises(MXNetError, match=type(error).__name__):
        next(iter(loader(make)))


def test_an_error_that_does_not_pickle_is_described():
    class Odd(Exception):
        def __init__(self, a, b):
            super().__init__(f"{a} and {b}")

    def make(idx):
        raise Odd(1, 2)

    with pytest.raises(MXNetError, match="Odd: 1 and 2") as caught:
        next(iter(loader(make)))
    assert "in make" in str(caught.value.__cause__)


def test_a_killed_worker_is_an_error_and_the_next_loop_has_new_workers():
    def make(idx):
        if idx == 4 and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return idx

    folder = scratch_folder()
    mark = os.path.join(folder, "killed")
    try:
        batches = loader(make)
        start = time.monotonic()
        with pytest.raises(MXNetError, match="worker process of the DataLoader died.*SIGKILL"):
            list(batches)
        assert time.monotonic() - start < 30
        assert sum(batches, []) == list(range(12))
    finally:
        os.unlink(mark)
        os.rmdir(folder)


def test_a_worker_that_is_stuck_is_a_timeout_and_is_killed():
    batches = loader(lambda idx: (os.getpid(), time.sleep(600 * (idx == 4))), timeout=4.0)
    running = iter(batches)
    pids = {pid for pid, _ in next(running)}
    with pytest.raises(MXNetTimeoutError, match="worker processes within 4.0 s"):
        next(running)
    assert eventually(lambda: not any(map(alive, pids)))


def test_starting_is_no_slow_loading():
    class SlowToOpen(Dataset):
        def __setstate__(self, state):
            time.sleep(4)

        def __getstate__(self):
            return {"a": 1}

        def __len__(self):
            return 4

        def __getitem__(self, idx):
            return idx

    batches = DataLoader(SlowToOpen(), 2, num_workers=2, timeout=3.0, batchify_fn=list)
    assert list(batches) == [[0, 1], [2, 3]]


def test_a_dataset_that_does_not_open_says_so():
    class Never(Dataset):
        def __setstate__(self, state):
            raise OSError("the disk is gone")

        def __getstate__(self):
            return {"a": 1}

        def __len__(self):
            return 4

    with pytest.raises(OSError, match="the disk is gone"):
        next(iter(DataLoader(Never(), 2, num_workers=1, batchify_fn=list)))


# ----------------------------------------------------------------------------- left behind


def test_prefetch_is_bounded_and_a_broken_loop_is_forgotten():
    folder = scratch_folder()

    def make(idx):
        open(os.path.join(folder, f"{idx}"), "w").close()
        time.sleep(0.05)
        return idx

    try:
        batches = loader(make, 100, 1, prefetch=3)
        running = iter(batches)
        for _ in range(2):
            next(running)
        time.sleep(0.5)
        assert len(os.listdir(folder)) <= 2 + 3
        del running
        time.sleep(0.3)
        begun = len(os.listdir(folder))
        assert next(iter(batches)) == [0]  # not behind what was asked for before
        assert begun <= 2 + 3
    finally:
        for name in glob.glob(os.path.join(folder, "*")):
            os.unlink(name)
        os.rmdir(folder)


def test_workers_and_files_end_with_the_loader():
    batches = loader(lambda idx: os.getpid())
    pids = set(sum(batches, []))
    folder = batches._pool._folder
    assert os.path.isdir(folder)
    del batches
    assert eventually(lambda: not any(map(alive, pids)))
    assert eventually(lambda: not os.path.exists(folder))


SCRIPT = """
    import os, sys, time
    import numpy as np
    import mxjax as mx
    from mxjax.gluon.data import DataLoader, Dataset, ArrayDataset

    FACTOR = 3

    class Squares(Dataset):
        def __len__(self):
            return 6
        def __getitem__(self, idx):
            return scale(idx), idx

    def scale(idx):
        return np.full(2, FACTOR * idx)

    def make_batch(samples):
        return np.stack([x for x, _ in samples]), [y for _, y in samples]

    loader = DataLoader(Squares(), 4, num_workers=2, batchify_fn=make_batch)
    for _ in range(2):
        for data, label in loader:
            print(data[:, 0].tolist(), label)
    ENDING
    print("done", flush=True)
"""
EXPECTED = ["[0, 3, 6, 9] [0, 1, 2, 3]", "[12, 15] [4, 5]"] * 2 + ["done"]


def script(ending=""):
    return textwrap.dedent(SCRIPT).replace("ENDING", textwrap.dedent(ending))


def run(arguments, variables=(), **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **dict(variables)}
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=options.pop("cwd"),
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


# Programs of `python -c` with workers there are more below.
@pytest.mark.parametrize(
    "way", ["file", "stdin", "module", pytest.param("command", marks=pytest.mark.slow)]
)
def test_programs_need_no_main_guard(way, tmp_path):
    path = tmp_path / "train_digits.py"
    path.write_text(script())
    done = {
        "file": lambda: run([str(path)], cwd=tmp_path),
        "stdin": lambda: run(["-"], input=script(), cwd=tmp_path),
        "command": lambda: run(["-c", script()], cwd=tmp_path),
        "module": lambda: run(["-m", "train_digits"], cwd=tmp_path),
    }[way]()
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == EXPECTED
    assert done.stderr == ""


def test_modules_beside_the_script_are_found(tmp_path):
    (tmp_path / "my_data.py").write_text(script().split("loader =")[0])
    path = tmp_path / "main.py"
    path.write_text(
        "from my_data import *\nloader = DataLoader(Squares(), 4, num_workers=2, "
        "batchify_fn=make_batch)\nprint(sum([y for _, y in loader], []))\n"
    )
    done = run([str(path)], cwd=tmp_path / "..")
    assert (done.returncode, done.stdout) == (0, "[0, 1, 2, 3, 4, 5]\n"), done.stderr


def test_a_program_with_workers_at_work_ends_at_once(tmp_path):
    ending = """
    running = iter(DataLoader(Squares(), 1, num_workers=2, batchify_fn=lambda s: time.sleep(100)))
    """
    start = time.monotonic()
    done = run(["-c", script(ending)], cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("done\n")
    assert done.stderr == ""
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("indices", [1, pytest.param(50_000, marks=pytest.mark.slow)])
def test_no_thread_outlives_the_pool_and_releases_its_semaphores(tmp_path, indices):
    """With one that is slow to end, and once with one that waits for room in a full pipe."""
    program = f"""
    import atexit, threading, time
    import numpy as np
    from loky.backend.queues import Queue
    from loky.backend.synchronize import SemLock, sem_unlink
    from mxjax.gluon.data import DataLoader, SimpleDataset

    feed, cleanup = Queue._feed, SemLock._cleanup

    def slow_feed(*arguments):
        feed(*arguments)
        time.sleep(0.5)

    def slow_cleanup(name):
        if threading.current_thread().daemon:
            sem_unlink(name)
            time.sleep(5)
        cleanup(name)

    Queue._feed = staticmethod(slow_feed)
    SemLock._cleanup = staticmethod(slow_cleanup)

    atexit.register(time.sleep, 1)  # the program ends while a slow thread cleans up
    count = {indices}
    slow = SimpleDataset(range(8 * count)).transform(lambda i: time.sleep(0 if i < count else 9))
    batches = iter(DataLoader(slow, count, num_workers=2, batchify_fn=len))
    print(next(batches), flush=True)
    """
    done = run(["-c", textwrap.dedent(program)], cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{indices}\n", "")


def test_workers_of_a_killed_program_end(tmp_path):
    ending = """
    print("pids", *loader._pool._executor._processes, loader._pool._folder, flush=True)
    import signal
    os.kill(os.getpid(), signal.SIGKILL)
    """
    done = run(["-c", script(ending)], cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    *pids, folder = done.stdout.split("pids ")[1].split()
    assert len(pids) == 2
    assert eventually(lambda: not any(alive(int(pid)) for pid in pids))
    assert eventually(lambda: not os.path.exists(folder))


def test_modules_under_their_other_names_are_found_in_workers():
    def names(idx):
        light = type(sys.modules["mxjax"]).__name__
        import mxjax.ndarray as found  # the first that this worker wants of JAX's part of the package

        return light, found.NDArray.__name__

    first, second = sum(loader(names, length=2, batch_size=1, num_workers=1), [])
    assert first == ("_Closed", "NDArray") and second == ("module", "NDArray")


@pytest.mark.parametrize(
    "variable", ["MXJAX_ENGINE_DEVICE", pytest.param("MGE_DEFAULT_DEVICE", marks=pytest.mark.slow)]
)
def test_jax_in_workers_stays_on_the_cpu(variable, tmp_path):
    """Whatever device the program's own arrays go to, which here is one that no worker sees."""
    program = """
    import mxjax as mx, numpy as np
    from mxjax.gluon.data import DataLoader, SimpleDataset

    def where(sample):
        import jax
        return (mx.np.array([sample]) + 1).asnumpy()[0], jax.default_backend()

    print(list(DataLoader(SimpleDataset([1, 2]).transform(where), 2, num_workers=1,
                          batchify_fn=list)))
    """
    done = run(["-c", textwrap.dedent(program)], {variable: "gpu0"}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("cpu") == 2 and "2" in done.stdout and "3" in done.stdout


def test_without_loky_threads_serve_after_a_warning(monkeypatch):
    monkeypatch.setitem(sys.modules, "loky", None)
    batches = loader(lambda idx: os.getpid())
    with pytest.warns(UserWarning, match=r"uses threads: .*pip install 'mxjax\[data\]'"):
        pids = set(sum(batches, []))
    assert pids == {os.getpid()}
    assert sum(batches, []) == [os.getpid()] * 12  # one warning is enough


def test_a_program_may_end_while_threads_compute(tmp_path):
    """The loader is dropped after one batch; Python used to end under its threads, in XLA, and aborted."""
    program = """
        import mxjax as mx
        from mxjax.gluon.data import DataLoader, Dataset

        class Products(Dataset):
            def __len__(self):
                return 64

            def __getitem__(self, k):
                return mx.np.full((200, 200), k, dtype="float32") @ mx.np.ones((200, 200))

        print(next(iter(DataLoader(Products(), 4, num_workers=2, thread_pool=True))).shape)
    """
    done = run(["-c", textwrap.dedent(program)], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "(4, 200, 200)\n"), done.stderr
