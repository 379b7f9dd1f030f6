"""Two machines with a cable between them, and what happens when it is cut.

The machines are network namespaces of this one, each with a name and an address of its own: Linux, as root.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
ADDRESSES = ("10.77.0.1", "10.77.0.2")
PORT = 9000


def do(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)


class Machines:
    """Two machines, `names`, and the cable."""

    def __init__(self) -> None:
        self.names = [f"mx{os.getpid()}{side}" for side in "ab"]

    def build(self) -> None:
        a, b = self.names
        do("ip", "netns", "add", a)
        do("ip", "netns", "add", b)
        do(
            "ip",
            "link",
            "add",
            "cable",
            "netns",
            a,
            "type",
            "veth",
            "peer",
            "name",
            "cable",
            "netns",
            b,
        )
        for name, address in zip(self.names, ADDRESSES, strict=True):
            do("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            for link in ("lo", "cable"):
                do("ip", "-n", name, "link", "set", link, "up")
        do(*self.on(0), "true")

    def on(self, k: int) -> list[str]:
        """What comes before a command that is to run on machine k."""
        name = self.names[k]
        return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c",
                f'hostname {name}; exec "$@"', "sh"]  # fmt: skip

    def cut(self, how: str) -> None:
        """Nothing passes from now on: the link is down, or everything is lost on its way, which nobody is told."""
        if how == "down":
            do("ip", "-n", self.names[0], "link", "set", "cable", "down")
        else:
            for name in self.names:
                do(
                    "ip",
                    "netns",
                    "exec",
                    name,
                    "tc",
                    "qdisc",
                    "add",
                    "dev",
                    "cable",
                    "root",
                    "pfifo",
                    "limit",
                    "0",
                )

    def remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@pytest.fixture
def machines() -> Iterator[Machines]:
    for program in ("ip", "unshare", "tc"):
        if shutil.which(program) is None:
            pytest.skip(
                f"no program {program!r}: two machines are made of Linux's network namespaces"
            )
    made = Machines()
    try:
        made.build()
    except subprocess.CalledProcessError as error:
        made.remove()
        pytest.skip(f"no network namespaces can be made here: {error.stderr.decode().strip()}")
    yield made
    made.remove()


def launched(jobs, machines: Machines, *arguments: object, **variables: str):
    """A job of four processes, two on each machine."""
    found = []
    options = (("--port", PORT), ("--first", 2, "--join", f"{ADDRESSES[0]}:{PORT}"))
    for k, (address, more) in enumerate(zip(ADDRESSES, options, strict=True)):
        found.append(
            jobs.start_program(
                *machines.on(k),
                sys.executable,
                "-m",
                "mxjax.launch",
                "-n",
                2,
                "--of",
                4,
                "--host",
                address,
                *more,
                *arguments,
                DMLC_JOB_TOKEN="of this test",
                **variables,
            )  # fmt: skip
        )
    return found


def test_sums_over_two_machines(jobs, machines):
    """Within a machine in its memory, between machines by their first processes."""
    script = HERE / "mixed.py"
    for started in launched(jobs, machines, "--heartbeat", 120, script):
        output, _ = started.communicate(timeout=300)
        assert started.returncode == 0, output
        assert len(re.findall(r"^\[\d\] exact", output, re.M)) == 2, output
        assert re.findall(r"machines (.*)$", output, re.M)[0] in (
            "[0, 1] of [0, 2]",
            "[2, 3] of [0, 2]",
        )


def test_compressed_gradients_are_fewer_bytes_on_the_cable(jobs, machines):
    """What a machine's interface has sent, headers and all."""
    sent = {}
    for kind in ("none", "2bit"):
        sent[kind] = []
        for started in launched(
            jobs, machines, "--heartbeat", 120, HERE / "compressed.py", "bytes", kind
        ):
            output, _ = started.communicate(timeout=300)
            assert started.returncode == 0, output
            of, cable = re.findall(
                r"^\[[02]\] sent \d+ of (\d+), on the cable (\d+)$", output, re.M
            )[0]
            sent[kind].append(int(cable) / int(of))
    # Whole: one sum of both processes. Packed: the gradients of both, each a sixteenth.
    assert all(1 < part < 1.1 for part in sent["none"]), sent
    assert all(2 / 16 < part < 1.1 * 2 / 16 for part in sent["2bit"]), sent


@pytest.mark.parametrize("how", ["down", "lost"])
def test_when_the_cable_is_cut_everybody_hears_of_it(jobs, machines, how):
    both = launched(jobs, machines, "--heartbeat", 8, HERE / "faults.py", "none", 0)
    for started in both:
        lines = 0
        while lines < 2:
            line = started.stdout.readline()
            assert line, "a launcher has ended"
            lines += "summing" in line
    machines.cut(how)
    outputs = []
    for started in both:
        output, _ = started.communicate(timeout=300)  # nobody hangs
        assert started.returncode != 0, output
        outputs.append(output)
    # The keeper is on the first machine: there ranks of the other one are missing, on the other the keeper
    # is. Silence shows it, or an error of the system's that comes first.
    told_of = (r"rank [23] of 4 .*(no sign of life|has ended)",
               r"keeper of the job at 10\.77\.0\.1:9000 (is gone|has given no sign of life)")  # fmt: skip
    for output, ranks, told in zip(outputs, ((0, 1), (2, 3)), told_of, strict=True):
        for rank in ranks:
            assert re.search(rf"^\[{rank}\] (heard|mxjax): .*{told}", output, re.M), output


needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="the servers are Ray's: pip install 'mxjax[ray]'",
)
#: What a cluster is started and entered with.
GUARDED = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "5" * 64, "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture
def cluster(jobs, machines) -> Iterator[dict[str, str]]:
    """A Ray cluster of a node on each machine; what a job's environment must have of it."""
    port = 6379
    where = (
        ("--head", f"--port={port}", "--include-dashboard=false"),
        (f"--address={ADDRESSES[0]}:{port}",),
    )
    nodes = []
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        for k, (address, options) in enumerate(zip(ADDRESSES, where, strict=True)):
            node = jobs.start_program(
                *machines.on(k), sys.executable, "-u", "-m", "ray.scripts.scripts", "start", "--block", *options,
                f"--node-ip-address={address}", f"--temp-dir={folder}/{k}", "--num-cpus=2", **GUARDED,
            )  # fmt: skip
            nodes.append(node)
            seen = []
            while "Ray runtime started" not in (seen or [""])[-1]:
                seen.append(node.stdout.readline())
                assert seen[-1], "".join(seen)
        yield {"RAY_ADDRESS": f"{ADDRESSES[0]}:{port}", **GUARDED}
        for node in reversed(nodes):
            node.terminate()
            node.communicate(timeout=120)


@needs_ray
def test_servers_of_two_machines(jobs, machines, cluster):
    """Workers and servers on both; what they do is what they do on one."""
    script = HERE / "asynchronous.py"
    checks = re.findall(r"^    (\w+),$", script.read_text(), re.M)
    outputs = []
    for started in launched(
        jobs, machines, "-s", 2, "--heartbeat", 120, script, "everything", **cluster
    ):
        output, _ = started.communicate(timeout=600)
        assert started.returncode == 0, output
        outputs.append(output)
    for rank in range(4):
        assert re.findall(rf"^\[{rank}\] done (\w+)$", outputs[rank // 2], re.M) == checks, outputs
    for k, started in enumerate(
        launched(jobs, machines, "-s", 3, script, "places", "worker", 0, **cluster)
    ):
        output, _ = started.communicate(timeout=300)
        assert started.returncode == 0, output
        assert re.findall(r"servers here: (.*)$", output, re.M) == [["[0, 2]", "[1]"][k]] * 2, (
            output
        )


@needs_ray
def test_a_server_of_the_other_machine_that_is_gone_is_named(jobs, machines, cluster):
    """By who hears it first, and everybody hears of something."""
    script = HERE / "asynchronous.py"
    heard = []
    for started in launched(
        jobs, machines, "-s", 2, "--heartbeat", 60, script, "kill", "server", 1, **cluster
    ):
        output, _ = started.communicate(timeout=300)
        assert started.returncode == 7, output
        heard += re.findall(r"^\[\d\] heard: (.*)$", output, re.M)
    assert len(heard) == 4 and any(
        "server 1 of 2 of the kvstore is gone" in text for text in heard
    ), heard


@needs_ray
def test_several_machines_without_a_cluster_are_told_to_start_one(jobs, machines):
    for started in launched(
        jobs, machines, "-s", 2, "--heartbeat", 60, HERE / "asynchronous.py", "everything"
    ):
        output, _ = started.communicate(timeout=300)
        assert started.returncode == 1, output
        assert "start a Ray cluster over them (`ray start --head`" in output, output
