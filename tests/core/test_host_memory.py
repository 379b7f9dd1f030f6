"""Memory of the host that programs give back."""

import platform
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.core import host_memory


def resident():
    (line,) = [row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith("VmRSS")]
    return int(line.split()[1]) << 10


def left_behind(size):
    """How much of a freed block the process has more than before."""
    before = resident()
    np.ones(size, np.uint8)
    return resident() - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the thresholds of glibc's malloc")
@pytest.mark.observes("memory.host_kept")
def test_freed_memory_is_kept_or_returned():
    size = 96 << 20
    try:
        with mx.config.scope(memory_host_kept=0):
            host_memory.keep()
            assert left_behind(size) < size / 4
        with mx.config.scope(memory_host_kept=256 << 20):
            host_memory.keep()
            assert left_behind(size) > size / 2
            assert left_behind(size) < size / 4  # the second block takes the first one's place
            held = resident()
        with mx.config.scope(memory_host_kept=0):
            host_memory.keep()
            assert resident() < held - size / 2
    finally:
        host_memory.keep()


@pytest.mark.observes("MXNET_CPU_MEM_POOL_TYPE")
def test_the_pool_of_mxnet_decides():
    for said, kept in (("Unpooled", 0), ("Round", 512 << 20)):
        with mx.config.scope(MXNET_CPU_MEM_POOL_TYPE=said):
            assert mx.config.get("memory.host_kept") == kept
