"""Large NumPy arrays, copied by several threads."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_size = 0


def in_parts(array: np.ndarray, threads: int) -> np.ndarray:
    """A copy in C order, made by at most so many threads; NumPy lets go of the interpreter meanwhile."""
    out = np.empty(array.shape, array.dtype)
    parts = min(threads, array.shape[0]) if array.ndim else 1
    if parts < 2:
        np.copyto(out, array)
        return out
    ends = [array.shape[0] * k // parts for k in range(parts + 1)]
    jobs = [
        _submit(out[low:high], array[low:high], threads)
        for low, high in zip(ends, ends[1:], strict=False)
    ]
    for job in jobs:
        job.result()
    return out


def _submit(out: np.ndarray, part: np.ndarray, threads: int) -> Future[None]:
    global _pool, _size
    with _lock:
        if _pool is None or _size != threads:
            if _pool is not None:
                _pool.shutdown(wait=False)
            _pool, _size = ThreadPoolExecutor(threads, "mxjax-copy"), threads
        return _pool.submit(np.copyto, out, part)
