"""Records which events MXNet's profiler has after random sequences of its calls: in the file, and in the statistics.

Run with a Python that has Apache MXNet 1.9 or 2.0; both say the same:
python profiler_sequences.py ../data/profiler_sequences.json
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile

STEPS = "run stop pause resume dump dump_on dumps reset work work work".split()
MARKS = "run stop pause resume count count set tstart tstop estart estop fstart fstop mark dumps".split()
#: Each call is of another operator, so that it can be told from the others.
OPERATORS = (
    "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh exp log sqrt square abs sign rint ceil floor trunc cbrt "
    "log2 log10 log1p expm1 gamma gammaln erf relu sigmoid"
).split()


def calls(seed: int) -> list[str]:
    dice = random.Random(seed)
    return (
        ["run"] * dice.choice([0, 1, 1])
        + [dice.choice(STEPS) for _ in range(dice.randint(4, 14))]
        + ["dumps"]
    )


def marks(seed: int) -> list[str]:
    dice = random.Random(seed)
    begin = ["tstart", "estart", "fstart"] + ["run"] * dice.choice([0, 1])
    return begin + [dice.choice(MARKS) for _ in range(dice.randint(6, 24))] + ["run", "dumps"]


def is_usual(steps: list[str]) -> bool:
    """Whether it begins with a run: before the first one, MXNet records marks though it does not run."""
    return steps[3] == "run"


def perform(steps: list[str], continuous: bool, mx, path: str, **options) -> list:
    """Make the calls; what the file holds after each dump, and the statistics after each `dumps` and `reset`."""
    profiler = mx.profiler
    profiler.set_config(
        profile_all=True,
        aggregate_stats=True,
        continuous_dump=continuous,
        dump_period=1000.0,
        filename=path,
        **options,
    )
    x = mx.nd.ones((4, 4)) * 0.5
    x.wait_to_read()
    operators = iter(OPERATORS)
    domain = profiler.Domain("domain")
    counter, marker = domain.new_counter("counter"), domain.new_marker("marker")
    passing = {
        "t": domain.new_task("task"),
        "f": domain.new_frame("frame"),
        "e": profiler.Event("event"),
    }
    out, value = [], 0
    for step in steps:
        try:
            if step in ("run", "stop"):
                profiler.set_state(step)
            elif step in ("pause", "resume"):
                getattr(profiler, step)()
            elif step == "work":
                getattr(mx.nd, next(operators))(x).wait_to_read()
                mx.nd.waitall()
            elif step == "count":
                counter += 1000
            elif step == "set":
                value += 1000
                counter.set_value(value)
            elif step == "mark":
                marker.mark("process")
            elif step in ("dumps", "reset"):
                out.append(counted(profiler.dumps(reset=step == "reset")))
            elif step in ("dump", "dump_on"):
                profiler.dump(finished=step == "dump")
                with open(path) as file:
                    out.append(operators_in(file.read()))
            else:
                getattr(passing[step[0]], step[1:])()
        except RuntimeError as error:
            assert "dump" in step, error
            out.append("error")
    return out


def operators_in(trace: str) -> list[str]:
    try:
        found = {e["name"] for e in json.loads(trace)["traceEvents"] if e.get("cat") == "operator"}
    except ValueError:  # MXNet appends to a file that it has ended
        found = set(re.findall(r'"name": ?"(\w+)",\s*"cat": ?"operator"', trace))
    return sorted(found & set(OPERATORS))


def counted(table: str) -> dict:
    """Of the table how often each operator and mark was counted, and of the counter its values."""
    found, category = {}, ""
    lines = table.split("\n")
    for line, below in zip(lines, lines[1:], strict=False):
        if below.startswith("===="):
            category = line
        name, *numbers = line.split() or [""]
        if not numbers:
            continue
        if category == "operator" and name in OPERATORS or category.startswith(("domain", "event")) and name in (
            "task", "frame", "event", "counter"
        ):  # fmt: skip
            found[name] = [float(n) for n in numbers[:4]] if name == "counter" else int(numbers[0])
    if "domain,instant_marker\n" in table:
        found["marker"] = 0  # MXNet counts none
    return found


def main() -> None:
    if len(sys.argv) == 2:
        found = []
        for kind, seed, continuous in (
            *(("calls", n, c) for n in range(39) for c in (0, 1)),
            *(("marks", n, 1) for n in range(40) if is_usual(marks(n))),
        ):  # fmt: skip
            command = [sys.executable, __file__, kind, str(seed), str(continuous)]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
            found.append(json.loads(said.splitlines()[-1]))
        with open(sys.argv[1], "w") as file:
            file.write("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n")
        return
    import mxnet as mx

    kind, continuous = sys.argv[1], bool(int(sys.argv[3]))
    steps = {"calls": calls, "marks": marks}[kind](int(sys.argv[2]))
    with tempfile.TemporaryDirectory() as folder:
        out = perform(steps, continuous, mx, os.path.join(folder, "profile.json"))
    print(json.dumps([steps, continuous, out]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
