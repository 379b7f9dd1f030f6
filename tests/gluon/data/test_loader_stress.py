"""Loaders that are left, killed, interrupted, dropped and nested: nothing hangs and nothing stays behind."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from mxjax.errors import MXNetError
from mxjax.gluon.data import DataLoader, Dataset, _pools

pytest.importorskip("loky", reason="worker processes need loky, of the extra 'data'")

LENGTH, BATCH = 24, 4
PATIENCE = 10.0  # seconds that the end of a run may take


class Numbers(Dataset):
    """Rows of NumPy; the one of `fails` raises, or kills the worker that wants it."""

    def __init__(self, fails=-1, kills=False, slow=0.0):
        self.fails, self.kills, self.slow = fails, kills, slow

    def __len__(self):
        return LENGTH

    def __getitem__(self, idx):
        if self.slow:
            time.sleep(self.slow)
        if idx == self.fails:
            if self.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyError(f"sample {idx}")
        return np.full(50_000, idx, np.float32)  # large enough for shared memory


def whole(loader):
    firsts = [float(row[0]) for batch in loader for row in batch.asnumpy()]
    assert firsts == list(range(LENGTH))


def ends_early(make, dice):
    loader = make(Numbers())
    for count, _ in enumerate(loader):
        if count == dice.randrange(3):
            break
    whole(loader)


def raises(make, dice):
    loader = make(Numbers(fails=dice.randrange(LENGTH)))
    for _ in range(2):
        with pytest.raises(KeyError, match="sample"):
            whole(loader)


def is_killed(make, dice):
    if make.threads:
        return raises(make, dice)
    loader = make(Numbers(fails=dice.randrange(LENGTH), kills=True))
    with pytest.raises(MXNetError, match="died"):
        whole(loader)


def is_interrupted(make, dice):
    """Ctrl-C while a batch is awaited."""
    loader = make(Numbers(slow=0.02))
    done, wait = threading.Event(), dice.uniform(0.0, 0.2)

    def press():
        pause = wait
        while not done.wait(pause):
            signal.raise_signal(signal.SIGINT)
            pause = 5  # again, where a callback of Python's collector swallowed it

    timer = threading.Thread(target=press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            while True:
                for _ in loader:
                    pass
    finally:
        done.set()
        timer.join()
        signal.signal(signal.SIGINT, before)


def is_dropped(make, dice):
    """Loader and epoch are garbage in one circle, at any moment."""
    loader = make(Numbers())
    epoch = iter(loader)
    for _ in range(dice.randrange(3)):
        next(epoch)
    circle = [loader, epoch]
    circle.append(circle)
    del loader, epoch, circle
    gc.collect()


def is_nested(make, dice):
    """An epoch within an epoch of the same loader, and of another."""
    loader, other = make(Numbers()), make(Numbers())
    for count, _ in enumerate(loader):
        if count == 1:
            whole(loader)
            whole(other)
        if count == 2 + dice.randrange(2):
            break


RUNS = (ends_early, raises, is_killed, is_interrupted, is_dropped, is_nested)


class Make:
    """Makes loaders of threads or of processes."""

    def __init__(self, threads, workers):
        self.threads, self.workers = threads, workers

    def __call__(self, dataset):
        return DataLoader(
            dataset, BATCH, num_workers=self.workers, thread_pool=self.threads, timeout=60
        )


def children():
    """The processes that this one has started and that live."""
    found = set()
    for path in Path("/proc/self/task").glob("*/children"):
        try:
            found |= set(path.read_text().split())
        except OSError:  # a thread that has ended
            continue
    return found


@pytest.fixture
def folders(monkeypatch, collected):
    """The folders that this process's loaders make in shared memory."""
    made, make = [], _pools.scratch_folder

    def noted():
        made.append(make())
        return made[-1]

    monkeypatch.setattr(_pools, "scratch_folder", noted)
    return made


def own_threads():
    return {thread for thread in threading.enumerate() if thread.name.startswith("mxjax-loader")}


def others():
    """The processes that there are without any loader: loky's own helper stays."""
    DataLoader(Numbers(), LENGTH, num_workers=1).__iter__().__next__()
    gc.collect()
    return children()


def left(processes, folders):
    """What of a loader is there when it has had time to end."""
    gc.collect()
    deadline = time.monotonic() + PATIENCE
    while True:
        found = children() - processes, list(filter(os.path.exists, folders)), own_threads()
        if not any(found) or time.monotonic() > deadline:
            return found
        time.sleep(0.01)


def run(count, share, seed, folders):
    """So many runs, of which one of `share` has processes, the others threads."""
    processes = others()
    dice = random.Random(seed)
    for number in range(count):
        make = Make(threads=number % share != 0, workers=dice.randint(1, 3))
        what = RUNS[(number // share if not make.threads else number) % len(RUNS)]
        what(make, dice)
        del make
        found = left(processes, folders)
        assert not any(found), f"run {number}, {what.__name__}: {found}"


counted = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="counts the processes that are left in /proc"
)


@counted
def test_some_runs(folders):
    run(40, share=8, seed=1, folders=folders)
    assert len(folders) > 4


@counted
@pytest.mark.slow  # 120 loaders with processes take two minutes
def test_many_runs(folders):
    run(120, share=1, seed=2, folders=folders)


@counted
@pytest.mark.parametrize("step", ["_end_feeder", "discard"])
def test_ctrl_c_again_while_workers_end_leaves_nothing(folders, monkeypatch, step):
    """As one presses it who sees no end."""
    processes, pressed, do = others(), [], getattr(_pools, step)

    def press(what):
        if threading.current_thread() is threading.main_thread():
            pressed.append(what)
            raise KeyboardInterrupt
        do(what)

    monkeypatch.setattr(_pools, step, press)
    epoch = iter(Make(threads=False, workers=1)(Numbers(kills=True, fails=0)))
    with pytest.raises(KeyboardInterrupt):
        next(epoch)
    assert len(pressed) == 1
    del epoch
    assert not any(left(processes, folders))
