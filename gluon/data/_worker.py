"""What worker processes run: one batch per call, errors included in the answer."""

from __future__ import annotations

import os
import random
import shutil
import sys
import threading
import time
import traceback
from typing import Any, NamedTuple

import numpy as np

from ._parcel import Parcel, pack_for_parent, unpack
from ._samples import host_batch


class Failure(NamedTuple):
    """An error in a worker: its traceback as text, and the error itself where it pickles."""

    summary: str
    text: str
    error: bytes | None


class Skipped(Exception):
    """Instead of a batch that nobody waits for any more."""


_jobs: dict[str, tuple[Any, Any]] = {}
_seed: int | None = None
_modes: tuple[bool, bool] | None = None  # the modes of the thread that iterates


def start(key: str, job: Parcel, folder: str, workers: int, parent: int, patience: float) -> None:
    """Open the job, then wait for the other workers, so that each of them opens it once."""
    threading.Thread(target=_end_with_parent, args=(folder, parent), daemon=True).start()
    try:
        _open_job(key, job)
    except BaseException:
        pass  # the first batch raises it again, and there somebody listens
    with open(os.path.join(folder, f"started-{os.getpid()}"), "w"):
        pass
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if sum(name.startswith("started-") for name in os.listdir(folder)) >= workers:
            return
        time.sleep(0.005)


def end_epoch(folder: str, epoch: int) -> None:
    """Called by the parent: nobody waits for the batches of this epoch any more."""
    with open(_end_mark(folder, epoch), "w"):
        pass


def _end_mark(folder: str, epoch: int) -> str:
    return os.path.join(folder, f"ended-{epoch}")


def _end_with_parent(folder: str, parent: int) -> None:
    """A parent that was killed cannot end its workers: they watch it."""
    while os.getppid() == parent:
        time.sleep(1.0)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def fetch(
    key: str,
    job: Parcel,
    indices: list[Any],
    epoch: int,
    seed: int,
    folder: str,
    modes: tuple[bool, bool],
) -> tuple[bool, Parcel | Failure]:
    """The batch of the samples `indices`, packed, or what went wrong."""
    global _seed, _modes
    try:
        if os.path.exists(_end_mark(folder, epoch)):
            raise Skipped
        _seed, _modes = seed, modes
        settle()
        dataset, batchify_fn = _open_job(key, job)
        np.random.seed(seed)
        random.seed(seed)
        settle()
        return True, pack_for_parent(host_batch(dataset, batchify_fn, indices), folder)
    except BaseException as error:  # SystemExit too: the worker must answer
        return False, _describe(error)


def settle() -> None:
    """Seed mxjax's random numbers for this batch and take on its modes, once mxjax is really there."""
    there = sys.modules.get("mxjax.modes")
    if there is not None and _modes is not None:
        there.resumed(there.Modes(*_modes))  # type: ignore[attr-defined]
    generator = sys.modules.get("mxjax.random")
    if generator is not None and _seed is not None:
        generator.seed(_seed)  # type: ignore[attr-defined]


def _open_job(key: str, job: Parcel) -> tuple[Any, Any]:
    if key not in _jobs:
        _jobs[key] = unpack(job, remove=False)
    return _jobs[key]


def _describe(error: BaseException) -> Failure:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    summary = f"{type(error).__name__}: {error}"
    pickled = None
    # An error that ends a loop or a program where it is raised must not do so in the parent.
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        import cloudpickle

        try:
            pickled = cloudpickle.dumps(error)
            cloudpickle.loads(pickled)
        except Exception:
            pickled = None  # an error of a class that does not travel: its text does
    return Failure(summary, text, pickled)
