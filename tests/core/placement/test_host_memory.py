"""Memory of the host that programs give back."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx


def resident():
    (line,) = [
        row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith("VmRSS")
    ]
    return int(line.split()[1]) << 10


def left_behind(size):
    """How much of a freed block the process has more than before."""
    before = resident()
    np.ones(size, np.uint8)
    return resident() - before


#: What stays with a process of its own: in an older one what others freed would take the blocks in.
KEPT_OR_RETURNED = """
import numpy as np
import mxjax as mx
from mxjax.core.placement import host_memory
from tests.core.placement.test_host_memory import left_behind, resident

size = 96 << 20
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
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the thresholds of glibc's malloc")
@pytest.mark.observes("memory.host_kept")
def test_freed_memory_is_kept_or_returned():
    root = Path(__file__).parents[3]
    ran = subprocess.run(
        [sys.executable, "-c", KEPT_OR_RETURNED], cwd=root, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr


#: Prints how many heaps glibc has for six threads beside ours, and how much of a freed array stays with the process.
SEEN = """
import ctypes, json, sys, threading
import mxjax as mx

mx.np.ones(3).asnumpy()
import numpy as np

def resident():
    (line,) = [row for row in open("/proc/self/status") if row.startswith("VmRSS")]
    return int(line.split()[1]) << 10

libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.fclose.argtypes = [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.malloc.restype = ctypes.c_void_p
barrier = threading.Barrier(7)

def work():
    libc.malloc(100_000)
    barrier.wait()

for _ in range(6):
    threading.Thread(target=work).start()
barrier.wait()
file = libc.fopen(sys.argv[1].encode(), b"w")
libc.malloc_info(0, file)
libc.fclose(file)
before = resident()
np.ones(96 << 20, np.uint8)
print(json.dumps([open(sys.argv[1]).read().count("<heap "), (resident() - before) >> 20]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc")
@pytest.mark.parametrize(
    ("starts", "variables", "ours"),
    [
        ([], {}, False),
        ([], {"MXJAX_MEMORY_HOST_KEPT": "512MiB"}, True),
        (["-m", "mxjax"], {}, True),
        (["-m", "mxjax"], {"MXNET_CPU_MEM_POOL_TYPE": "Unpooled"}, False),
    ],
    ids=["python", "asked", "launcher", "launcher-refused"],
)
def test_malloc_is_left_alone_unless_the_user_or_our_launcher_asked(
    tmp_path, starts, variables, ours
):
    """Other threads keep heaps of their own, and what other libraries free goes back to the system."""
    script = tmp_path / "script.py"
    script.write_text(SEEN)
    gone = ("MXJAX_MEMORY_HOST_KEPT", "MXNET_CPU_MEM_POOL_TYPE", "MALLOC_ARENA_MAX")
    env = {k: v for k, v in os.environ.items() if k not in gone}
    ran = subprocess.run(
        [sys.executable, *starts, str(script), str(tmp_path / "info")],
        env={**env, **variables}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    heaps, kept = json.loads(ran.stdout)
    assert (heaps == 1, kept > 48) == (ours, ours), ran.stdout


def test_our_launchers_ask_unless_somebody_chose():
    from mxjax import settings
    from mxjax.settings.rows.allocation import HOST_KEPT

    try:
        assert mx.config.get("memory.host_kept") is None
        settings.begin_process()
        assert mx.config.get("memory.host_kept") == HOST_KEPT
        mx.config.set(memory_host_kept=0)
        settings.begin_process()
        assert mx.config.get("memory.host_kept") == 0
    finally:
        mx.config.reset("memory.host_kept")


def test_processes_of_a_job_are_started_by_our_launcher(monkeypatch):
    from mxjax.launch import worker

    class Asked(Exception):
        pass

    def begin():
        raise Asked

    monkeypatch.setattr(worker.settings, "begin_process", begin)
    monkeypatch.setattr(worker.group, "join", lambda: pytest.fail("joined before"))
    with pytest.raises(Asked):
        worker.main(["script.py"])


@pytest.mark.observes("MXNET_CPU_MEM_POOL_TYPE")
def test_the_pool_of_mxnet_decides():
    for said, kept in (("Unpooled", 0), ("Round", 512 << 20)):
        with mx.config.scope(MXNET_CPU_MEM_POOL_TYPE=said):
            assert mx.config.get("memory.host_kept") == kept
