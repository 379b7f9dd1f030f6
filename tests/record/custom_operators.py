"""Records what MXNet does with operators written in Python: tests/operator/scenarios.py.

Run with a Python that has Apache MXNet, 1.9 and 2.0 one after the other; each keeps its answers under its version:

    python custom_operators.py ../data/custom_operators.json
"""

import importlib.util
import json
import sys
from pathlib import Path

import mxnet as mx

target = Path(sys.argv[1])
spec = importlib.util.spec_from_file_location(
    "scenarios", Path(__file__).parents[1] / "operator" / "scenarios.py"
)
scenarios = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scenarios)

two = mx.__version__.startswith("2")
if two:
    mx.npx.set_np()
found = {}


def write():
    known = json.loads(target.read_text()) if target.exists() else {}
    known[mx.__version__.partition("b")[0]] = found
    lines = [
        f" {json.dumps(v)}: {{\n"
        + ",\n".join(f"  {json.dumps(n)}: {json.dumps(a)}" for n, a in of.items())
        + "\n }"
        for v, of in sorted(known.items())
    ]
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")


for name, scenario in scenarios.SCENARIOS.items():
    try:
        found[name] = json.loads(json.dumps(scenario(scenarios.World(mx, two))))
    except Exception as error:
        print(name, "is not in this MXNet:", str(error).strip().splitlines()[-1][:100])
        try:
            mx.nd.waitall()
        except mx.MXNetError:
            pass
    print(name, flush=True)
    write()  # some end the process
