"""`python -m mxjax.launch.worker script.py ...`: joins the job, then runs the script as `__main__`.

JAX must know of the other processes before its backend starts, which a script does with its first
array.  So the job is joined before the script begins.
"""

from __future__ import annotations

import os
import runpy
import sys

from .. import as_mxnet, settings
from . import group


def main(arguments: list[str]) -> None:
    """Runs a script (or `-m module`) in the job that the environment names."""
    settings.begin_process()
    site = None
    if arguments[:1] == ["--site"]:
        site, arguments = arguments[1], arguments[2:]
    here = group.join() if site is None else group.join_site(site)
    try:
        run(arguments)
    except SystemExit as error:
        if error.code:
            here.fail(f"sys.exit({error.code!r})", error.code if type(error.code) is int else 1)
        raise


def run(arguments: list[str]) -> None:
    """Runs the script as if Python had been given it."""
    if arguments[:1] == ["-m"]:
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    script = arguments[0]
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    as_mxnet.install()
    main(sys.argv[1:])
