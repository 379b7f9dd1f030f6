"""Whether jobs end as they should when a process is killed, and sums are exact; part of make bench-kvstore.

python benchmarks/kvstore_faults.py [--long]      # 50 kills and 50 restarts; else a few of each
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kvstore_dist import launched
from kvstore_work import figure

SCRIPTS = Path(__file__).resolve().parents[1] / "tests" / "kvstore" / "processes"
CALLS = 20_000


def kills(count: int) -> tuple[int, float]:
    """How many of so many kills of one of four workers ended cleanly, and the longest wait, in seconds."""
    clean, longest = 0, 0.0
    for k in range(count):
        began = time.perf_counter()
        done = launched("-n", 4, SCRIPTS / "faults.py", "kill", k % 4)
        ended = time.perf_counter() - began
        heard = re.findall(rf"^\[\d\] heard: rank {k % 4} of 4 has ended", done.stdout, re.M)
        clean += done.returncode == 137 and len(heard) == 3
        longest = max(longest, ended)
    return clean, longest


def restarts(count: int) -> int:
    """How many of so many jobs of which one worker is killed end with the parameters of an undisturbed one."""

    def parameters(at: int, who: int, *options: object) -> set[str]:
        with tempfile.TemporaryDirectory() as folder:
            done = launched(
                "-n", 4, *options, "--checkpoints", folder, SCRIPTS / "training.py", at, who, 0
            )
        return (
            set(re.findall(r"parameters (.*)$", done.stdout, re.M))
            if done.returncode == 0
            else set()
        )

    expected = parameters(-1, 0)
    assert len(expected) == 1
    return sum(parameters(6 + k % 14, k % 4, "--restarts", 1) == expected for k in range(count))


def figures(long: bool) -> list[dict[str, Any]]:
    """How many ended as they should, of how many."""
    killed, again = (50, 50) if long else (4, 2)
    clean, longest = kills(killed)
    found = [
        figure(
            "kill -9 of one of 4 processes: jobs that name it and end",
            clean,
            unit=f"of {killed}",
            at_least=killed,
        ),
        figure("the same: the longest job", longest, unit="s"),
        figure(
            "the same with --restarts 1: exact parameters",
            restarts(again),
            unit=f"of {again}",
            at_least=again,
        ),
    ]
    done = launched("-n", 4, SCRIPTS / "stress.py", CALLS)
    exact = len(re.findall(r"^\[\d\] exact", done.stdout, re.M))
    what = f"{CALLS:,} mixed pushes and pulls, 4 processes: ranks with exact sums"
    return [*found, figure(what, exact, unit="of 4", at_least=4)]


if __name__ == "__main__":
    print(json.dumps(figures("--long" in sys.argv[1:])))
