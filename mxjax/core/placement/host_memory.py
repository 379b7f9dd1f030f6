"""What becomes of the host's memory that programs give back (`memory.host_kept`).

XLA:CPU asks for a program's temporaries and results anew at each run, and glibc gets and returns what is large page by
page: of a language model's training step that is a fifth of the time. With higher thresholds glibc keeps it. What
several threads allocate comes from one heap then: of a heap of its own, 64 MiB in glibc, a thread of XLA's gives back
all that is free, whatever the thresholds say, and element-wise code on arrays of 26 MB takes six times as long.

Both count for the whole process: other threads of it share one lock, and it keeps gigabytes that others freed (2 GB of
NumPy's arrays in pieces of 30 MB, a small one between each two: all of them). So it is done where somebody asked.
"""

from __future__ import annotations

import ctypes

from ... import settings

_MMAP_THRESHOLD, _TRIM_THRESHOLD, _HEAPS = -3, -1, -8
_LEAST, _MOST = 128 << 10, (1 << 31) - 1
_wanted = settings.snapshot("memory.host_kept")
_kept = 0


def keep() -> None:
    """Let the allocator keep as much as the setting says; unset, or where it is not glibc's, nothing happens.

    Threads that have allocated something keep the heap they have, so this is called before XLA's begin.
    """
    global _kept
    wanted = _wanted() or 0
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


def is_kept() -> bool:
    """Whether the allocator keeps what programs give back."""
    return bool(_wanted())


__all__ = ["is_kept", "keep"]
