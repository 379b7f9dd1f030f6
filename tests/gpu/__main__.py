"""`make test-gpu`: the tests of this folder on a card, which several processes share.

    python -m tests.gpu -n 8 [PYTEST ARGUMENTS]

Programs are compiled as users' are, the card is JAX's default device, and without one the first test fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

SURROUNDINGS = {
    "MXJAX_TEST_GPU": "needed",
    "MXJAX_TEST_CODEGEN": "users",
    "JAX_PLATFORMS": "cuda,cpu",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}


def main(*arguments: str) -> int:
    """What pytest gives; variables that are set already are stronger."""
    # pytest-benchmark, where it is installed, warns beside xdist, and a warning is an error here.
    command = [sys.executable, "-m", "pytest", "-p", "no:benchmark", str(HERE), *arguments]
    return subprocess.run(command, cwd=HERE.parents[1], env={**SURROUNDINGS, **os.environ}).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
