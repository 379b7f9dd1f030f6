"""`python -m mxjax.profiler`: look at traces, merge them, compare them."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys

from mxjax.errors import MXNetError

from . import _diff, _merge, verify


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m mxjax.profiler", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    view = commands.add_parser("view", help="show a trace in the browser, without a network")
    view.add_argument("file")
    view.add_argument("--port", type=int, default=0, help="0 takes a free one")
    view.add_argument("--plain", action="store_true", help="the profiler's own page, not Perfetto's")
    view.add_argument("--no-browser", action="store_true", help="only print the address")
    board = commands.add_parser("tensorboard", help="show XLA's traces in TensorBoard")
    board.add_argument("folder")
    board.add_argument("--port", type=int, default=6006)
    merge = commands.add_parser("merge", help="the traces of several ranks as one")
    merge.add_argument("out")
    merge.add_argument("files", nargs="+")
    diff = commands.add_parser("diff", help="two traces side by side")
    diff.add_argument("a")
    diff.add_argument("b")
    check = commands.add_parser("check", help="what is wrong with a trace")
    check.add_argument("file")
    given = parser.parse_args(arguments)
    try:
        if given.command == "view":
            from ._view import serve

            serve(given.file, given.port, browser=not given.no_browser, plain=given.plain)
        elif given.command == "tensorboard":
            return _tensorboard(given.folder, given.port)
        elif given.command == "merge":
            _merge.merge(given.files, given.out)
        elif given.command == "diff":
            print(_diff.difference(given.a, given.b), end="")
        else:
            problems = verify.check(given.file)
            print("\n".join(problems) or "nothing is wrong")
            return int(bool(problems))
    except (MXNetError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _tensorboard(folder: str, port: int) -> int:
    if importlib.util.find_spec("tensorboard") is None:
        print(
            "TensorBoard is not installed: pip install 'mxjax[profiler]'. The traces themselves lie in "
            f"{folder}; `view` shows the profiler's own without it.",
            file=sys.stderr,
        )
        return 1
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--port", str(port)]
    return subprocess.call([*command, "--host", "127.0.0.1"])


if __name__ == "__main__":
    sys.exit(main())
