"""One process of a job loads for all: its batches' parts lie in shared memory until the others take them.

Files hold NumPy arrays alone, in a folder that nobody but the user can open.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import itertools
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from mxjax import settings
from mxjax.errors import MXNetError, MXNetTimeoutError, MXNetValueError
from mxjax.files.atomic import write_whole

from ._host import host_view, is_array, packed, to_array
from ._parcel import scratch_root

# So many batches may wait for a process that is slower than the others.
_AHEAD = 2
_loaders: dict[int, itertools.count[int]] = {}


class Feed:
    """The way from the process that loads (rank 0) to those that compute.

    Args:
      rank: this process.
      ranks: those with a part in each batch, in the order of the parts.
      timeout: the seconds that one side waits for the other.

    Raises:
      MXNetError: the processes were not started as one job.
      MXNetValueError: the rank is not among those that get a part.
    """

    def __init__(self, rank: int, ranks: tuple[int, ...], timeout: float) -> None:
        if rank not in ranks or 0 not in ranks:
            raise MXNetValueError(
                f"data.loader_rank={rank}: data.loader_devices={ranks} must name this process and the one that "
                "loads, 0, for example '0,1'"
            )
        self._rank, self._ranks, self._timeout = rank, ranks, timeout
        self._pack = settings.get("data.pack_below")
        self._epoch = 0
        self._folder = _folder()
        # The n-th loader of one process feeds the n-th of another.
        self._number = next(_loaders.setdefault(rank, itertools.count()))
        atexit.register(_remove, self._folder)

    @property
    def loads(self) -> bool:
        """Whether this process is the one that loads."""
        return self._rank == 0

    def epoch(self, batches: Iterable[Any] | None) -> Iterator[Any]:
        """This process's parts of the batches of one epoch; `batches` where it is the one that loads."""
        self._epoch += 1
        if self._rank == 0:
            assert batches is not None
            return self._give(batches, self._epoch)
        return self._take(self._epoch)

    def _path(self, epoch: int, count: int, rank: int) -> str:
        return os.path.join(self._folder, f"{self._number}-{epoch}-{count}-{rank}.npz")

    def _give(self, batches: Iterable[Any], epoch: int) -> Iterator[Any]:
        count = 0
        try:
            for batch in batches:
                tree, leaves = _flat(batch)
                parts = [_cut(leaf, len(self._ranks)) for leaf in leaves]
                for place, rank in enumerate(self._ranks):
                    if rank:
                        self._wait(self._path(epoch, count - _AHEAD, rank), gone=True, other=rank)
                        _write(self._path(epoch, count, rank), tree, [p[place] for p in parts])
                own = self._ranks.index(0)
                with packed(self._pack):
                    mine = _tree(tree, [to_array(p[own]) for p in parts])
                count += 1
                yield mine
        finally:
            for rank in self._ranks:
                if rank:
                    _write(self._path(epoch, count, rank), None, [])

    def _take(self, epoch: int) -> Iterator[Any]:
        for count in itertools.count():
            path = self._path(epoch, count, self._rank)
            self._wait(path, gone=False, other=0)
            with np.load(path, allow_pickle=False) as file:
                tree = json.loads(str(file["tree"]))
                leaves = [file[f"leaf{k}"] for k in range(len(file.files) - 1)]
            os.unlink(path)
            if tree is None:
                return
            with packed(self._pack):
                batch = _tree(tree, [to_array(leaf) for leaf in leaves])
            yield batch

    def _wait(self, path: str, gone: bool, other: int) -> None:
        end = time.monotonic() + self._timeout
        while os.path.exists(path) == gone:
            if time.monotonic() > end:
                what = "took no batch" if gone else "gave no batch"
                raise MXNetTimeoutError(
                    f"process {other} {what} within {self._timeout} s (data.loader_rank={self._rank}): it ended, or "
                    "its loop has fewer batches; give the DataLoader timeout= more seconds"
                )
            time.sleep(0.0005)


def _folder() -> str:
    """The job's folder: the same on all its processes of this machine, and its user's alone."""
    token = settings.env("DMLC_JOB_TOKEN")
    if not token:
        raise MXNetError(
            "data.loader_rank (local_rank_id) is for processes of one job: start them by `python -m mxjax.launch`"
        )
    name = hashlib.sha256(token.encode()).hexdigest()[:24]
    path = os.path.join(scratch_root() or tempfile.gettempdir(), f"mxjax-feed-{name}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if hasattr(os, "getuid") and (
        found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077
    ):
        raise MXNetError(f"{path} is not this user's alone: remove it, or use another job token")
    return path


def _remove(folder: str) -> None:
    with contextlib.suppress(OSError):  # somebody has still to take a part, or was quicker
        os.rmdir(folder)


def _flat(batch: Any) -> tuple[Any, list[np.ndarray]]:
    """Lists, tuples and dicts of arrays as JSON and the arrays."""
    leaves: list[np.ndarray] = []

    def walk(node: Any) -> Any:
        if isinstance(node, dict):
            return {"dict": {str(k): walk(v) for k, v in node.items()}}
        if isinstance(node, list | tuple):
            return {"list" if isinstance(node, list) else "tuple": [walk(v) for v in node]}
        if not is_array(node) and not isinstance(node, np.ndarray):
            raise MXNetValueError(
                f"a batch of arrays is expected where data.loader_rank is given, and this one holds a "
                f"{type(node).__name__}"
            )
        leaves.append(np.asarray(host_view(node)))
        return len(leaves) - 1

    return walk(batch), leaves


def _tree(tree: Any, leaves: list[Any]) -> Any:
    if isinstance(tree, int):
        return leaves[tree]
    ((kind, inner),) = tree.items()
    if kind == "dict":
        return {k: _tree(v, leaves) for k, v in inner.items()}
    made = [_tree(v, leaves) for v in inner]
    return made if kind == "list" else tuple(made)


def _cut(leaf: np.ndarray, parts: int) -> list[np.ndarray]:
    if not leaf.ndim or leaf.shape[0] % parts:
        raise MXNetValueError(
            f"a batch of shape {leaf.shape} cannot be cut into {parts} equal parts (data.loader_devices): use a "
            "batch_size that is a multiple of it, and last_batch='discard'"
        )
    return np.split(leaf, parts)


def _write(path: str, tree: Any, leaves: list[np.ndarray]) -> None:
    out = io.BytesIO()
    arrays: dict[str, Any] = {f"leaf{k}": leaf for k, leaf in enumerate(leaves)}
    np.savez(out, tree=np.asarray(json.dumps(tree)), **arrays)
    write_whole(path, lambda file: file.write(out.getbuffer()))  # at once: nobody reads half a file
