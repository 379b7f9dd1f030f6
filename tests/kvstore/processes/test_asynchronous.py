"""`dist_async` between processes, and what happens when a worker or a server goes."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None,
        reason="the servers are Ray's: pip install 'mxjax[ray]'",
    ),
]


def run(jobs, *arguments, heartbeat=120):
    """Two workers and two servers; nothing waits for the heartbeat to pass unless a test says so."""
    return jobs.run(
        "-n", 2, "-s", 2, "--heartbeat", heartbeat, HERE / "asynchronous.py", *arguments
    )


def test_everything_that_two_workers_and_two_servers_do(jobs):
    status, output = run(jobs, "everything")
    assert status == 0, output
    checks = re.findall(r"^    (\w+),$", (HERE / "asynchronous.py").read_text(), re.M)
    assert len(checks) == 5
    for rank in (0, 1):
        assert re.findall(rf"^\[{rank}\] done (\w+)$", output, re.M) == checks, output


@pytest.mark.parametrize("who", [0, 1])  # rank 0 has started the servers
def test_a_killed_worker_is_named_to_the_others(jobs, who):
    status, output = run(jobs, "kill", "worker", who)
    assert status == 128 + 9, output
    assert f"[{1 - who}] heard: rank {who} of 2 has ended" in output


@pytest.mark.parametrize(("fault", "told"), [("kill", "died"), ("stop", "no sign of life")])
def test_a_server_that_is_gone_is_named_to_who_hears_it_first(jobs, fault, told):
    heartbeat = 8 if fault == "stop" else 60
    status, output = run(jobs, fault, "server", 1, heartbeat=heartbeat)  # no key lives there
    assert status == 7, output
    assert re.search(
        rf"^\[\d\] heard: server 1 of 2 of the kvstore is gone: .*{told}", output, re.M
    ), output
    assert len(re.findall(r"^\[\d\] heard: ", output, re.M)) == 2, output


def test_who_has_no_token_is_refused(jobs):
    status, output = run(jobs, "outsider", "worker", 0)
    assert status == 0, output
    assert "refused" in output and "let in" not in output, output
    assert "not of this machine alone: []" in output, output
