"""What becomes of the host's memory that programs give back (`memory.host_kept`).

XLA:CPU asks for a program's temporaries and results anew at each run, and glibc gets and returns what is large page by
page: of a language model's training step that was a quarter of the time. What several threads allocate comes from one
heap: of a heap of its own, 64 MiB in glibc, a thread of XLA's gives back all that is free, whatever the thresholds say.
The sum of two arrays of 26 MB with its gradients takes 9 ms for 33.
"""

from __future__ import annotations

import ctypes

from .. import settings

_MMAP_THRESHOLD, _TRIM_THRESHOLD, _HEAPS = -3, -1, -8
_LEAST, _MOST = 128 << 10, (1 << 31) - 1
_wanted = settings.snapshot("memory.host_kept")
_kept = 0


def keep() -> None:
    """Let the allocator keep as much as the setting says; nothing where it is not glibc's.

    Threads that have allocated something keep the heap they have, so this is called before XLA's begin.
    """
    global _kept
    wanted = _wanted()
    if wanted == _kept:
        return
    _kept = wanted
    try:
        libc = ctypes.CDLL(None)
    except (OSError, TypeError):  # no such library on this system
        return
    if not hasattr(libc, "gnu_get_libc_version") or not hasattr(libc, "mallopt"):
        return
    size = min(max(wanted, _LEAST), _MOST)
    for what in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
        libc.mallopt(what, size)
    if wanted:
        libc.mallopt(_HEAPS, 1)
    if not wanted:
        libc.malloc_trim(0)


__all__ = ["keep"]
