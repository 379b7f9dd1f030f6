"""MXNet's tools/launch.py with its options; `python -m mxjax.launch` does the work, and has more of its own."""

from __future__ import annotations

import argparse
import sys

from mxjax import as_mxnet
from mxjax.launch.__main__ import main as launch

_ELSEWHERE = (
    "start python -m mxjax.launch once on each machine (--of, --first, --join), or by a scheduler: "
    "--engine slurm, mpi, k8s, ray"
)


def translated(arguments: list[str]) -> list[str]:
    """The arguments of `python -m mxjax.launch` that do what these of MXNet's script ask for.

    >>> translated(["-n", "2", "--launcher", "local", "--env-worker", "A:1", "python", "train.py", "--lr", "1"])
    ['-n', '2', '--env', 'A=1', '--', 'python', 'train.py', '--lr', '1']
    """
    asked = argparse.ArgumentParser("launch.py", description="Launch a distributed job")
    asked.add_argument(
        "-n", "--num-workers", type=int, required=True, help="how many workers to start"
    )
    asked.add_argument("-s", "--num-servers", type=int, help="how many servers 'dist_async' has")
    asked.add_argument("-H", "--hostfile", help="not here: " + _ELSEWHERE)
    asked.add_argument("--sync-dst-dir", help="not here: the program has to be on each machine")
    asked.add_argument(
        "--launcher",
        choices=("local", "ssh", "mpi", "sge", "yarn"),
        default="ssh",
        help="local, or ssh (MXNet's default) without a hostfile: this machine; mpi",
    )
    asked.add_argument("--env-server", action="append", default=[], help="NAME:VALUE, for servers")
    asked.add_argument("--env-worker", action="append", default=[], help="NAME:VALUE, for workers")
    asked.add_argument(
        "--env", action="append", default=[], help="taken: processes have this one's variables"
    )
    asked.add_argument(
        "--p3", action="store_true", help="priorities of gradients, as kvstore='p3' has them"
    )
    asked.add_argument("command", nargs=argparse.REMAINDER, help="the program, with its arguments")
    given = asked.parse_args(arguments)
    if given.hostfile or given.sync_dst_dir or given.launcher in ("sge", "yarn"):
        asked.error(f"other machines: {_ELSEWHERE}")
    if not given.command:
        asked.error("which program?")
    made = ["-n", str(given.num_workers)]
    if given.num_servers:
        made += ["-s", str(given.num_servers)]
    if given.launcher == "mpi":
        made += ["--engine", "mpi"]
    for pair in given.env_worker + given.env_server:
        name, _, value = pair.partition(":")
        made += ["--env", f"{name}={value}"]
    return [*made, "--", *given.command[given.command[0] == "--" :]]


if __name__ == "__main__":
    as_mxnet.install()
    sys.exit(launch(translated(sys.argv[1:])))
