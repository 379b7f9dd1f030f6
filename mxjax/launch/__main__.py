"""`python -m mxjax.launch -n 4 script.py ...`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import as_mxnet, settings
from ..errors import MXNetError

_EPILOG = """\
`script.py` may also be `-m module`, or `-- command` for a program that makes its kvstore before its
first array by itself.  Several machines, by hand: choose a token, then on the first

  DMLC_JOB_TOKEN=... python -m mxjax.launch -n 4 --of 8 --host 10.0.0.1 --port 9000 script.py

and on the second, with the same DMLC_JOB_TOKEN,

  python -m mxjax.launch -n 4 --of 8 --first 4 --host 10.0.0.2 --join 10.0.0.1:9000 script.py
"""
_PORTS = 65_535  # the last one


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(
        prog="python -m mxjax.launch",
        description="Start a script as several processes that share a kvstore.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "-n",
        "--workers",
        type=int,
        default=None,
        metavar="N",
        help="how many processes to start (here); a site's launcher may know itself",
    )
    p.add_argument(
        "--engine",
        default="local",
        choices=("local", "slurm", "mpi", "k8s", "ray"),
        help="who starts them; by default this machine",
    )
    p.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="N",
        help="after a failure start all again, so often",
    )
    p.add_argument(
        "--checkpoints", default=None, metavar="FOLDER", help="what mxjax.launch.Checkpoints() uses"
    )
    p.add_argument(
        "--heartbeat",
        type=float,
        default=None,
        metavar="SECONDS",
        help="within which everybody hears that a process is missing (default 10)",
    )
    p.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address of this machine to listen at (default: this machine only)",
    )
    p.add_argument(
        "--port", type=int, default=0, help="the port to listen at (default: a free one)"
    )
    p.add_argument(
        "--join",
        default=None,
        metavar="HOST:PORT",
        help="where the launcher of the first machine listens",
    )
    p.add_argument(
        "--of", type=int, default=None, metavar="N", help="the number of processes on all machines"
    )
    p.add_argument(
        "--first",
        type=int,
        default=0,
        metavar="RANK",
        help="the rank of the first process of this machine",
    )
    p.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable for the processes; may be repeated",
    )
    p.add_argument(
        "--as",
        dest="version",
        choices=("1.9", "2.0"),
        help="the MXNet whose defaults hold in the processes",
    )
    p.add_argument("--no-prefix", action="store_true", help="pass output on without [rank]")
    p.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE ...",
        help="a module to run instead of a script, with its arguments",
    )
    p.add_argument("command", nargs=argparse.REMAINDER, metavar="script.py ...")
    p.add_argument(
        "-s",
        "--num-servers",
        type=int,
        default=0,
        metavar="N",
        help="how many servers a 'dist_async' kvstore has (default 1); others need none",
    )
    return p


def command_of(given: Sequence[str], before: Sequence[str] = ()) -> list[str]:
    """The command line of one process.

    Raises:
      ValueError: there is no script.
    """
    if not given:
        raise ValueError("which script? For example: python -m mxjax.launch -n 2 script.py")
    if given[0] == "--":
        if len(given) == 1:
            raise ValueError("`--` needs a command after it")
        return list(given[1:])
    if given[0] != "-m" and not Path(given[0]).is_file():
        raise ValueError(f"there is no script {given[0]!r}; a command comes after `--`")
    if given[0] == "-m" and len(given) == 1:
        raise ValueError("-m needs a module")
    return [sys.executable, "-u", "-m", f"{__package__}.worker", *before, *given]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the launcher; the result is the exit status."""
    p = parser()
    args = p.parse_args(arguments)
    if args.module is not None:
        args.command = ["-m", *args.module]
    try:
        heartbeat = settings.resolve("timeout.heartbeat", args.heartbeat)
        environment = {"MXJAX_TIMEOUT_HEARTBEAT": repr(heartbeat)}
        _check(args)
        environment["DMLC_NUM_SERVER"] = str(args.num_servers)
        if args.version:
            environment["MXJAX_COMPAT_VERSION"] = args.version
        if args.checkpoints:
            environment["DMLC_CHECKPOINTS"] = str(Path(args.checkpoints).absolute())
        for pair in args.env:
            name, equals, value = pair.partition("=")
            if not equals or not name:
                raise ValueError(f"--env {pair}: expected NAME=VALUE")
            environment[name] = value
        if args.engine != "local":
            from .sites import run as run_at_site

            return run_at_site(args, environment)
        from .local import run

        return run(_job(args, heartbeat, environment), args.restarts)
    except (ValueError, MXNetError, OSError) as error:
        print(f"{p.prog}: error: {error}", file=sys.stderr)
        return 2


def _check(args: argparse.Namespace) -> None:
    """Raise ValueError where a number cannot be."""
    for option, number, what, least in (
        ("-n", args.workers, "a number of processes", 1),
        ("-s", args.num_servers, "a number of servers", 0),
        ("--restarts", args.restarts, "how often to start again", 0),
    ):
        if number is not None and number < least:
            raise ValueError(f"{option} {number}: expected {what}, at least {least}")
    if not 0 <= args.port <= _PORTS:
        raise ValueError(f"--port {args.port}: expected a port, 0 to {_PORTS}")


def _job(args: argparse.Namespace, heartbeat: float, environment: dict[str, str]):  # type: ignore[no-untyped-def]
    from . import local

    count = 1 if args.workers is None else args.workers
    size = count if args.of is None else args.of
    if args.first < 0 or args.first + count > size:
        raise ValueError(
            f"{count} processes from rank {args.first} on are not part of a job of {size}"
        )
    keeper = None
    token = settings.env("DMLC_JOB_TOKEN") if args.join or args.of else None
    if args.of and not token:
        raise ValueError("several machines need the same DMLC_JOB_TOKEN in the environment of each")
    if args.join:
        host, colon, port = args.join.rpartition(":")
        if not colon or not port.isdigit() or not 0 < int(port) <= _PORTS:
            raise ValueError(f"--join {args.join}: expected HOST:PORT")
        keeper = (host, int(port))
    if args.restarts and args.of:
        raise ValueError(
            "--restarts starts the processes of one machine; with --of leave that to the site"
        )
    return local.Job(
        command_of(args.command), count, size, args.first, args.host, args.port, keeper, token,
        heartbeat, settings.get("timeout.join"), environment, not args.no_prefix,
    )  # fmt: skip


if __name__ == "__main__":
    as_mxnet.install()  # `import mxnet` finds this package in what is started
    sys.exit(main())
