"""`python -m mxjax.profiler`: look at traces, merge them, compare them."""

from __future__ import annotations

import argparse
import glob
import importlib.util
import os
import sys

from mxjax.errors import MXNetError, MXNetValueError

from . import _chrome, _diff, _merge, verify
from ._session import session_folder


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m mxjax.profiler", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    view = commands.add_parser("view", help="show a trace in the browser, without a network")
    view.add_argument("file")
    view.add_argument("--port", type=_port, default=0, help="0 takes a free one")
    view.add_argument(
        "--plain", action="store_true", help="the profiler's own page, not Perfetto's"
    )
    view.add_argument("--no-browser", action="store_true", help="only print the address")
    board = commands.add_parser(
        "tensorboard", help="show XLA's traces, with the operators in them, in TensorBoard"
    )
    board.add_argument("folder", help="of the option log_dir, or the trace that lies beside it")
    board.add_argument("--port", type=_port, default=6006)
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


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 1 << 16:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, got {port}")
    return port


def _tensorboard(path: str, port: int) -> int:
    """TensorBoard on the loopback interface; `path` is a folder of XLA's traces or a trace file."""
    missing = [m for m in ("tensorboard", "tensorboard_plugin_profile") if not _installed(m)]
    if missing:
        print(
            f"There is no {' and no '.join(missing)}: pip install 'mxjax[profiler]'. XLA's traces lie in "
            f"{path}; `view` shows the profiler's own without it.",
            file=sys.stderr,
        )
        return 1
    folder = path
    if os.path.isfile(path):
        try:
            xplanes = _chrome.read(path).get("otherData", {}).get("xplane", [])
        except ValueError:  # a .pftrace, say
            xplanes = []
        if not xplanes:
            raise MXNetValueError(
                f"{path!r} names no trace of XLA's; give the folder that set_config(log_dir=...) named"
            )
        folder = os.path.dirname(session_folder(xplanes[0]))
    found = glob.iglob(os.path.join(glob.escape(folder), "**", "*.xplane.pb"), recursive=True)
    if next(found, None) is None:
        raise FileNotFoundError(f"there is no trace of XLA's (*.xplane.pb) in {folder!r}")
    print(f"http://127.0.0.1:{port}/#profile", flush=True)
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--port", str(port)]
    # In the place of this process, so that whoever ends this one ends TensorBoard.
    os.execv(sys.executable, [*command, "--host", "127.0.0.1"])


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


if __name__ == "__main__":
    sys.exit(main())
