"""Parcels: Python objects on their way between a loader and its worker processes.

Large arrays do not pass through a pipe: they lie in a file in shared memory, which the receiver
maps.  Functions and classes of `__main__` travel by value (cloudpickle), so that scripts without a
main guard, notebooks and programs read from standard input work.

These are the only pickles that mxjax reads without a restriction: they go over the pipes between a
process and the workers it started itself, or lie in a folder that nobody but its user can open.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mxjax.errors import MXNetMemoryError
from mxjax.settings import get as setting

from ._host import HostArray, host_view, is_array, is_legacy, to_array, to_legacy_array, to_np_array
from ._needs import Needs

# Below this a pipe is cheaper than a file and its mapping.
_SMALL = 1 << 16
_ALIGN = 64
_SHARED_MEMORY = "/dev/shm"


class Parcel(NamedTuple):
    """A pickle without its large buffers, and where they are: in `path`, or in `blobs`."""

    pickled: bytes
    path: str | None
    spans: tuple[tuple[int, int], ...]
    blobs: tuple[bytes, ...]
    wants_mxjax: bool = False  # who opens it will import more of mxjax than loading takes


def scratch_folder() -> str:
    """A new folder for the files of parcels, in shared memory where the system has it."""
    return tempfile.mkdtemp(prefix="mxjax-", dir=scratch_root())


def scratch_root() -> str | None:
    """The system's shared memory as a folder; None where it has none."""
    shared = os.path.isdir(_SHARED_MEMORY) and os.access(_SHARED_MEMORY, os.W_OK)
    return _SHARED_MEMORY if shared else None


def pack_for_worker(obj: Any, folder: str) -> Parcel:
    """A dataset and what goes with it, for many workers: the large arrays are in one file.

    Arrays that datasets of this package hold arrive as host arrays, all others as mxjax arrays.
    """
    needs = Needs()

    def reduce(obj: Any) -> Any:
        needs.look(obj)
        return _reduce_for_worker(obj)

    parcel = _pack(obj, reduce, folder, must_file=True)
    return parcel._replace(wants_mxjax=needs.mxjax)


def pack_for_parent(obj: Any, folder: str | None) -> Parcel:
    """A batch for the loader, where its host arrays become mxjax arrays."""
    return _pack(obj, _reduce_for_parent, folder, must_file=False)


def unpack(parcel: Parcel, remove: bool) -> Any:
    """The object in a parcel; its arrays are private copies, made page by page when written."""
    if parcel.path is None:
        # bytearrays, since arrays that rest on bytes are read-only
        return pickle.loads(parcel.pickled, buffers=[bytearray(blob) for blob in parcel.blobs])
    with open(parcel.path, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    if remove:
        discard(parcel)
    return pickle.loads(
        parcel.pickled, buffers=[view[start : start + size] for start, size in parcel.spans]
    )


def discard(parcel: Parcel) -> None:
    """Remove the file of a parcel that nobody will read again."""
    if parcel.path is not None:
        try:
            os.unlink(parcel.path)
        except OSError:
            pass  # gone already, or still mapped on Windows: it goes with its folder


def as_host(data: np.ndarray) -> HostArray:
    return data.view(HostArray)


def _reduce_for_worker(obj: Any) -> Any:
    if isinstance(obj, HostArray):
        return as_host, (np.asarray(obj),)
    if is_array(obj):
        return to_legacy_array if is_legacy(obj) else to_np_array, (obj.asnumpy(),)
    if hasattr(type(obj), "_for_worker"):
        return obj._for_worker().__reduce_ex__(5)
    return NotImplemented


def _reduce_for_parent(obj: Any) -> Any:
    if isinstance(obj, HostArray) or is_array(obj):
        make = (to_legacy_array if is_legacy(obj) else to_np_array) if is_array(obj) else to_array
        return make, (np.asarray(host_view(obj)),)
    return NotImplemented


def _pack(obj: Any, reduce: Callable[[Any], Any], folder: str | None, must_file: bool) -> Parcel:
    import cloudpickle

    main = sys.modules.get("__mp_main__")
    if (
        main is not None and main.__name__ == "__mp_main__"
    ):  # the script of a process that was spawned
        cloudpickle.register_pickle_by_value(main)

    class Pickler(cloudpickle.CloudPickler):
        def reducer_override(self, obj: Any) -> Any:
            reduced = reduce(obj)
            return super().reducer_override(obj) if reduced is NotImplemented else reduced

    stream = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(obj)
    raws = [buffer.raw() for buffer in buffers]
    size = sum(raw.nbytes for raw in raws)
    if not must_file and folder is not None and size > _SMALL:
        folder = _within_budget(folder, size)
    if folder is not None and size > _SMALL:
        try:
            path, spans = _write(raws, folder)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # Shared memory is often small in containers: a pipe or the disk serves as well.
            if must_file:
                path, spans = _write(raws, tempfile.gettempdir())
                return Parcel(stream.getvalue(), path, spans, ())
        else:
            return Parcel(stream.getvalue(), path, spans, ())
    return Parcel(stream.getvalue(), None, (), tuple(bytes(raw) for raw in raws))


def _within_budget(folder: str, size: int) -> str | None:
    """The folder, where a batch of this size may lie in shared memory; None where a pipe is wanted."""
    budget = setting("data.shm_bytes")
    if setting("debug.log_loader"):
        way = "shared memory" if budget else "a pipe"
        print(f"mxjax: a batch of {size} bytes goes through {way}", file=sys.stderr, flush=True)
    if not budget:
        return None
    if size > budget:
        raise MXNetMemoryError(
            f"a batch of {size} bytes does not fit into the shared memory that data.shm_bytes "
            f"(MGE_PLASMA_MEMORY) allows, {budget}: raise it, make batches smaller, or set it to 0 for pipes"
        )
    return folder


def _rounded(size: int) -> int:
    """The size of a file for so many bytes, as MXNet's pools round theirs where the settings ask for it."""
    cutoff, unit = setting("memory.host_round_cutoff"), setting("memory.host_round_bytes")
    if cutoff is not None:
        return 1 << (size - 1).bit_length() if size <= 1 << cutoff else -(-size >> cutoff) << cutoff
    if unit and size > unit:
        return int(-(-size // unit) * unit)
    return size


def _write(raws: list[memoryview], folder: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    spans = []
    end = 0
    for raw in raws:
        start = -(-end // _ALIGN) * _ALIGN
        spans.append((start, raw.nbytes))
        end = start + raw.nbytes
    descriptor, path = tempfile.mkstemp(dir=folder)
    try:
        with open(descriptor, "wb") as file:
            size = _rounded(max(end, 1))
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)  # ENOSPC now, not a fault later
            else:
                file.truncate(size)
            for (start, _), raw in zip(spans, raws, strict=True):
                file.seek(start)
                file.write(raw)
    except BaseException:
        os.unlink(path)
        raise
    return path, tuple(spans)
