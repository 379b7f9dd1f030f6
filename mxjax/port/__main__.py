"""`python -m mxjax.port check PATH ...` and `python -m mxjax.port run script.py`."""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

from .. import as_mxnet, settings
from ..__main__ import run as run_program
from ..files.atomic import write_whole
from . import check, give_back, report
from .check import Found
from .older_names import ONE_ELEMENT


def main(arguments: list[str]) -> int:
    """Runs one command; the result is the exit status: 0 where nothing is missing, 1 where something is."""
    asked = argparse.ArgumentParser(
        "python -m mxjax.port", description="what becomes of programs of MXNet"
    )
    asked.add_argument(
        "--as", dest="version", choices=("1.9", "2.0"), help="the MXNet whose defaults hold"
    )
    commands = asked.add_subparsers(dest="command", required=True)
    reads = commands.add_parser(
        "check", help="read programs, folders of them and notebooks; nothing runs"
    )
    reads.add_argument("path", nargs="+")
    reads.add_argument("--json", action="store_true", help="all uses, as JSON")
    reads.add_argument("--html", metavar="FILE", help="write a page")
    reads.add_argument("--all", action="store_true", help="what works, too")
    runs = commands.add_parser("run", help="run a program, and explain the first fault")
    runs.add_argument(
        "--compat", action="store_true", help="give back older names of Python and NumPy"
    )
    runs.add_argument("program", nargs=argparse.REMAINDER)
    try:
        given = asked.parse_args(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    if given.version:
        settings.set("compat.version", given.version)
    if given.command == "run":
        return _run(given.program, given.compat, given.version)
    try:
        found = check(*given.path)
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    if given.html:
        page = report.as_html(found).encode()
        write_whole(given.html, lambda out: out.write(page))
    print(report.as_json(found) if given.json else report.as_text(found, given.all))
    return int(any(f.verdict == "missing" for f in found))


def _run(program: list[str], compat: bool, version: str | None) -> int:
    if not program:
        print("python -m mxjax.port run: which program?", file=sys.stderr)
        return 2
    as_mxnet.install(version)
    if compat:
        give_back()
    try:
        run_program(program, False)
    except Exception as error:
        traceback.print_exc()
        print(f"\n{explained(error, Path(program[0]))}", file=sys.stderr)
        return 1
    return 0


def explained(error: BaseException, program: Path) -> str:
    """What the tables say of the line of the user's that an error came from."""
    folder = program.resolve().parent
    last: tuple[Path, int] | None = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename).resolve()
        if file.suffix == ".py" and (file == program.resolve() or folder in file.parents):
            last = file, line
    if last is None:
        return "the fault is in no file of the program's folder"
    file, line = last
    if "0-dimensional arrays can be converted" in str(error):
        return f"{file}:{line}: {ONE_ELEMENT}"
    about = [f for f in check(file) if f.line == line and f.verdict != "works"]
    if not about:
        return f"{file}:{line}: the tables know nothing of this line. python -m mxjax.port check {file} reads all of it"
    return "\n".join([f"The first fault is at {file}:{line}:", *map(_told, about)])


def _told(found: Found) -> str:
    see = f" [{found.see}]" if found.see else ""
    return f"  {found.name} ({found.verdict}): {found.note}{see}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
