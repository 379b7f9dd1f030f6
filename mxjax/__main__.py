"""`python -m mxjax script.py` runs a program of MXNet, `python -m mxjax config` prints the settings in force."""

import argparse
import gc
import json
import os
import platform
import runpy
import sys

from . import _jax_private, settings
from ._version import __version__
from .settings.explain import describe

TOOLS = ("port", "launch", "profiler", "im2rec", "debug")

USAGE = f"""\
python -m mxjax [--as 1.9|2.0] SCRIPT [ARGUMENT ...]      a program that imports mxnet, run on mxjax
python -m mxjax [--as 1.9|2.0] -m MODULE [ARGUMENT ...]   the same for a module
python -m mxjax --compat [--as ...] ...                   with names that Python, NumPy, matplotlib had in MXNet's time
python -m mxjax config [--json] [--changed] [NAME ...]    the settings in force, or some of them at length
python -m mxjax --version                                 the versions of mxjax, jax and Python

Tools of their own, each with --help: {", ".join(f"python -m mxjax.{tool}" for tool in TOOLS)}
"""


def main(arguments: list[str]) -> int:
    """Runs one command; the result is the exit status."""
    if arguments[:1] == ["config"]:
        return _config(arguments[1:])
    if arguments in (["--version"], ["-V"]):
        import jax

        print(f"mxjax {__version__} (jax {jax.__version__}, Python {platform.python_version()})")
        return 0
    version, compat = None, False
    while arguments and arguments[0].startswith(("--as", "--compat")):
        option, equals, value = arguments[0].partition("=")
        arguments = arguments[1:]
        if option == "--compat":
            compat = True
        elif equals:
            version = value
        else:
            version, arguments = "".join(arguments[:1]), arguments[1:]
    is_module = arguments[:1] == ["-m"]
    program = arguments[is_module:]
    if not program or program[0].startswith("-"):
        asked = program in (["-h"], ["--help"])
        print(USAGE, end="", file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    from . import as_mxnet

    try:
        as_mxnet.install(version)
    except settings.SettingError as error:
        print(error, file=sys.stderr)
        return 2
    if not is_module and not os.path.exists(program[0]):
        print(_absent(program[0]), file=sys.stderr)
        return 2
    if compat:
        from .port import give_back

        give_back()
    run(program, is_module)
    return 0


def run(program: list[str], is_module: bool) -> None:
    """Runs a program as Python itself would: its arguments, its folder, its name."""
    settings.begin_process()
    # What was imported stays: each look of the collector through it takes a seventh of a second.
    gc.freeze()
    sys.argv = program
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
        runpy.run_path(program[0], run_name="__main__")


def _absent(program: str) -> str:
    """What is said of a program that is no file; the name of a tool is told apart."""
    said = f"python -m mxjax: can't open file {os.path.abspath(program)!r}: there is no such file"
    if program in TOOLS:
        said += f"; the tool is `python -m mxjax.{program}`"
    return said


def _config(arguments: list[str]) -> int:
    config = argparse.ArgumentParser("python -m mxjax config")
    config.add_argument("name", nargs="*", help="any name of an option; without one, all options")
    config.add_argument("--json", action="store_true", help="everything, as JSON")
    config.add_argument("--changed", action="store_true", help="only options that somebody set")
    try:
        given = config.parse_args(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        rows = [settings.explain(name) for name in given.name]
    except KeyError as error:
        print(error, file=sys.stderr)
        return 1
    names = [row.name for row in rows] or list(settings.options())
    if given.changed:
        changed = settings.changed()
        names = [name for name in names if name in changed]
    if given.json:
        print(json.dumps(settings.as_json(names), indent=2))
    elif rows:
        print("\n\n".join(settings.describe(name) for name in names))
    else:
        print(describe(settings._registry, names))
        if not given.changed:
            print(f"\n{_jax_private.described()}")
    return 0


def _until_closed(arguments: list[str]) -> int:
    """`main`; a reader that has seen enough (``config | head``) ends it without an error."""
    try:
        status = main(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere
        return 0


if __name__ == "__main__":
    sys.exit(_until_closed(sys.argv[1:]))
