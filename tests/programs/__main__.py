"""Runs programs, in one process, and prints their numbers as JSON: python -m mxjax --as 1.9 tests/programs [NAME ...]

On MXNet 1.9.1 `python tests/programs > tests/programs/losses.json` records what the tests expect, on MXNet 2.0.0b1
`python tests/programs > tests/programs/second/losses.json` what they expect of the programs in `second`.
"""

import importlib
import json
import os
import sys
import time
import traceback

import mxnet

ROOT = os.path.dirname(os.path.abspath(__file__))
HERE = os.path.join(ROOT, "second") if mxnet.__version__.startswith("2") else ROOT
NAMES = sorted(
    n[:-3] for n in os.listdir(HERE) if n.endswith(".py") and n not in ("__main__.py", "common.py")
)


def main(names):
    sys.path[:0] = [HERE, ROOT]
    found = {}
    for name in names or NAMES:
        start = time.time()
        try:
            found[name] = [float(number) for number in importlib.import_module(name).main()]
        except Exception:
            found[name] = traceback.format_exc()
        sys.stderr.write("%s %.1f s\n" % (name, time.time() - start))
    return found


if __name__ == "__main__":
    json.dump(main(sys.argv[1:]), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
