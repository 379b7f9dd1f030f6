"""`make test-gpu`: the tests of this folder on a card, which several processes share.

    python -m tests.gpu -n 8 [PYTEST ARGUMENTS]

Programs are compiled as users' are, the card is JAX's default device, and without one the first test fails.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.conftest import has_card

HERE = Path(__file__).resolve().parent

SURROUNDINGS = {
    "MXJAX_TEST_GPU": "needed",
    "MXJAX_TEST_CODEGEN": "users",
    "JAX_PLATFORMS": "cuda,cpu",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}

# What tells most comes first, for who has little time; the rows take longest.
ORDER = ("there_is_one", "card", "tiers", "wings", "profiler", "memory", "training", "rows")


def main(*arguments: str) -> None:
    """Becomes pytest; variables that are set already are stronger."""
    if not has_card() and os.environ.get("MXJAX_TEST_GPU") != "cpu":
        sys.exit("there is no GPU: /dev/nvidia0 and one of JAX's plugins for CUDA are needed")
    files = [str(HERE / f"test_{name}.py") for name in ORDER]
    os.chdir(HERE.parents[1])
    # pytest-benchmark, where it is installed, warns beside xdist, and a warning is an error here.
    command = [sys.executable, "-m", "pytest", "-p", "no:benchmark", *files, *arguments]
    os.execve(sys.executable, command, {**SURROUNDINGS, **os.environ})


if __name__ == "__main__":
    main(*sys.argv[1:])
