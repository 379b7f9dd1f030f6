"""Asks MXNet for the examples of the operators' help: ``python help_examples.py NAMES``, with Apache MXNet 2.0.0b1.

Prints each that gives something else there, or nothing (names that MXNet does not have, operators of GPUs alone), and
how many agree. NAMES is a JSON file of what front ends call the rows, which ``help_examples.py`` prints under mxjax.
Each runs in a process of its own, for MXNet may crash.
"""

import importlib.util
import json
import os
import re
import sys
from pathlib import Path

os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"
if len(sys.argv) == 1:
    from mxjax.ops import TABLE

    rows = [
        (row, front, names[0])
        for row, op in TABLE.items()
        for front, names in reversed(op.names.fronts.items())
    ]
    print(
        json.dumps(
            {f"{'nd' if f[:2] == 'nd' else 'np'}:{row}": f"{f}.{name}" for row, f, name in rows}
        )
    )
    raise SystemExit

import numpy as onp
from mxnet import nd, np, npx

HELP = Path(__file__).parents[2] / "mxjax" / "ops" / "help"
NAMES = json.loads(Path(sys.argv[1]).read_text())
NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)")


def lines(kind):
    """The lines of a file of examples, each as its five parts."""
    spec = importlib.util.spec_from_file_location("examples", HELP / f"examples_{kind}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [line.split(" | ") for line in module.EXAMPLES.split("\n") if line]


def numbers(text):
    return onp.array(NUMBER.findall(re.sub(r"dtype=\w+", "", text)), "float64")


def ask(kind, row, arrays, attributes, how, shown):
    """What MXNet says of an example: "same", or why not."""
    (npx.set_np if kind == "np" else npx.reset_np)()
    call = f"{NAMES[f'{kind}:{row}']}({', '.join([*arrays.split(' ; '), attributes]).strip(', ')})"
    try:
        made = eval(call, {"np": np, "npx": npx, "nd": nd})
    except Exception as error:
        return f"{call}: {type(error).__name__}: {str(error).splitlines()[0]}"
    if how == "n":
        return "same"
    each = made if isinstance(made, (list, tuple)) else [made]
    said = repr(
        [x.shape if how in "sS" else x.asnumpy() if hasattr(x, "asnumpy") else x for x in each]
    )
    here, there = numbers(shown), numbers(said)
    same = here.shape == there.shape and onp.allclose(
        here, there, rtol=1e-4, atol=1e-5, equal_nan=True
    )
    return "same" if same else f"{call}: {said}, not {shown}"


same = 0
for kind in ("np", "nd"):
    for example in lines(kind):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.write(write, ask(kind, *example).encode()[:60_000])
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            answer = pipe.read() or f"{example[0]}: crash"
        os.waitpid(child, 0)
        same += answer == "same"
        if answer != "same":
            print(kind, answer)
print(same, "agree")
