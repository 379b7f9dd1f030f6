"""Runs programs, in one process, and prints their numbers as JSON: python -m mxjax --as 1.9 tests/programs [NAME ...]

On MXNet 1.9.1 `python tests/programs > tests/programs/losses.json` records what the tests expect.
"""

import importlib
import json
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = sorted(
    n[:-3] for n in os.listdir(HERE) if n.endswith(".py") and n not in ("__main__.py", "common.py")
)


def main(names):
    sys.path.insert(0, HERE)
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
