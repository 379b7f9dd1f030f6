"""Networks that people train and serve, beside MXNet, PyTorch and JAX by hand: the table of `make bench-nets`.

    python -m benchmarks.nets [WORK ...]                                  # make bench-nets [ONLY="unet ssd"]
    python -m benchmarks.nets --cores 2 [WORK ...]                        # make bench-nets CORES=2
    MXJAX_BENCH_MXNET=<python with MXNet 2> MXJAX_BENCH_TORCH=<python with PyTorch> make bench-nets

Each work runs in a process of its own for each framework, pinned to one core. They are warmed up, then take turns (one
measures while the others wait), and each keeps its least CPU time: ratios hold on a busy machine. A work is compared
with the better of its baselines. A second table has what the programs of a step read, write and compute
(``memonger.measure``), and what that takes at least at the rates that `roofline.py` measures here. With ``--cores``
each work is compared with itself on so many cores, by wall time. Figures and tables are left in ``bench_output/``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import IO, Any, NamedTuple

from benchmarks.run import HERE, OUTPUT, environment, pin, processor, say, start

TURNS = 6
BOTH = ("mxnet", "torch")


class Row(NamedTuple):
    """A work: what `nets_gluon.py` calls it, its baselines, how many times theirs it may take, and its name there."""

    title: str
    work: str
    beside: tuple[str, ...]
    goal: float
    theirs: str | None = None


ROWS = [
    Row("ResNet-18, training step, batch 8, hybridized", "resnet18", ("mxnet",), 1.0),
    Row("ResNet-18, training step, batch 8, imperative", "resnet18_imperative", ("mxnet",), 1.0),
    Row("ResNet-18, inference, batch 1", "resnet18_serve_1", ("torch",), 0.9),
    Row("ResNet-18, inference, batch 8", "resnet18_serve_8", ("torch",), 0.9),
    Row("MobileNetV2, inference, batch 8", "mobilenet_serve_8", ("mxnet",), 0.6),
    Row("MobileNetV2, training step, batch 8", "mobilenet", BOTH, 1.0),
    Row("convolution in 2 groups, forward and backward", "groups_2", ("mxnet",), 1.2),
    Row("convolution in 16 groups, forward and backward", "groups_16", ("mxnet",), 1.2),
    Row("encoder, 4 layers, training step, hybridized", "encoder", ("torch",), 0.9),
    Row(
        "encoder, 4 layers, training step, imperative",
        "encoder_imperative",
        ("torch",),
        0.9,
        "encoder",
    ),
    Row("LSTM language model, training step", "language_model", BOTH, 0.95),
    Row("U-Net, training step", "unet", ("mxnet",), 1.0),
    Row("DCGAN, training step", "dcgan", ("mxnet",), 1.0),
    Row("SSD, training step", "ssd", ("mxnet",), 1.0),
    Row("3-d convolutions, training step", "volumes", ("mxnet",), 1.0),
]
JAX = (
    "resnet18",
    "resnet18_serve_1",
    "resnet18_serve_8",
    "encoder",
    "language_model",
)  # what `nets_jax.py` has
TORCH = (*JAX, "mobilenet", "mobilenet_serve_8", "groups_2", "groups_16")


WITHOUT_CONVOLUTIONS = ("encoder", "encoder_imperative", "language_model")


def pythons() -> dict[str, str]:
    """The frameworks that there are, and whose Python has them."""
    found = {"ours": sys.executable, "jax": sys.executable}
    for name in BOTH:
        named = os.environ.get(f"MXJAX_BENCH_{name.upper()}")
        if named or (name == "torch" and importlib.util.find_spec("torch")):
            found[name] = named or sys.executable
    return found


# Before `pin`: those that there are.
_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


class Worker:
    """A process that measures one work whenever it is asked."""

    def __init__(self, python: str, script: str, *args: str, cores: int | None = None):
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 (open as long as the process)
        env = environment(cores or 1)
        if python != sys.executable:
            del env["PYTHONPATH"]  # the script's own folder is all that it needs
        pipes: Any = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": self._errors,
            "text": True,
        }
        if cores is not None:
            pipes["preexec_fn"] = lambda: os.sched_setaffinity(0, set(sorted(_CORES)[-cores:]))
        self._process = subprocess.Popen([python, str(HERE / script), *args], env=env, **pipes)
        self.facts = self._read()
        self.least: dict[str, float] = {}

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)  # type: ignore[no-any-return]
        self._process.wait()
        self._errors.seek(0)
        raise RuntimeError(self._errors.read()[-1500:])

    def turn(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.least = {k: min(v, self.least.get(k, v)) for k, v in self._read().items()}

    def end(self) -> None:
        self._process.communicate()
        self._errors.close()


def workers(row: Row, found: dict[str, str]) -> tuple[dict[str, Worker], dict[str, str]]:
    """Those of a row by framework, and why some are not there."""
    theirs = row.theirs or row.work
    wanted = {
        "ours": ("nets_gluon.py", "ours", row.work),
        "mxnet": ("nets_gluon.py", "mxnet", row.work),
    }
    if theirs in TORCH:
        wanted["torch"] = ("nets_torch.py", theirs)
    if theirs in JAX:
        wanted["jax"] = ("nets_jax.py", theirs)
    made, failed = {}, {}
    for name, (script, *args) in wanted.items():
        if name in found:
            try:
                made[name] = Worker(found[name], script, *args)
            except RuntimeError as e:
                failed[name] = str(e)
    return made, failed


def measure(row: Row, found: dict[str, str]) -> dict[str, Any]:
    say(row.title)
    made, failed = workers(row, found)
    for _ in range(TURNS):
        for worker in made.values():
            worker.turn()
    for worker in made.values():
        worker.end()
    out: dict[str, Any] = {name: {**w.least, **w.facts} for name, w in made.items()}
    return {**out, "failed": failed}


def verdict(row: Row, found: dict[str, Any]) -> tuple[str, str]:
    """The ratio to the better baseline, and whether it is within the goal."""
    theirs = [found[name]["cpu"] for name in row.beside if name in found]
    if "ours" not in found:
        return "", "failed"
    if not theirs:
        return "", "not compared"
    ratio = round(found["ours"]["cpu"] / min(theirs), 2)
    return f"{ratio:.2f}", "ok" if ratio <= row.goal else "miss"


def table(results: dict[str, Any]) -> str:
    """The results in Markdown; CPU milliseconds."""
    lines = [
        "| work | beside | goal | ratio | | ours | MXNet | PyTorch | JAX by hand |",
        "|---|---|--:|--:|---|--:|--:|--:|--:|",
    ]
    for row in ROWS:
        found = results.get(row.work)
        if found is not None:
            times = [
                f"{found[k]['cpu']:.1f}" if k in found else "-"
                for k in ("ours", "mxnet", "torch", "jax")
            ]
            cells = [
                row.title,
                ", ".join(row.beside),
                f"{row.goal:g}",
                *verdict(row, found),
                *times,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def at_least(results: dict[str, Any], machine: dict[str, float]) -> str:
    """What the programs of a step move and compute, and what that takes at the machine's rates, in Markdown."""
    lines = [
        "| work | MB touched | Gflop | ms to move | ms to compute | measured | measured / the larger |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in ROWS:
        found = results.get(row.work, {}).get("ours")
        if found is not None:
            moved, made = found["bytes"], found["flops"]
            move = moved / machine["bytes_per_second"] * 1e3
            compute = made / machine["flops_per_second"] * 1e3
            lines.append(
                f"| {row.title} | {moved / 1e6:,.1f} | {made / 1e9:.2f} | {move:.1f} | {compute:.1f} "
                f"| {found['cpu']:.1f} | {found['cpu'] / max(move, compute):.2f} |"
            )
    rates = machine["bytes_per_second"] / 1e9, machine["flops_per_second"] / 1e9
    lines.append("")
    lines.append(
        f"At {rates[0]:.1f} GB/s and {rates[1]:.0f} GFLOP/s, measured here. What lies in caches moves faster."
    )
    return "\n".join(lines)


def on_cores(rows: list[Row], cores: int) -> int:
    """Each work on one core and on several, in turns, by the least wall time.

    Where others want the cores, walls say little. What holds then is the last column: no wall is shorter than the time
    of the busiest thread.
    """
    if len(_CORES) < cores:
        print(f"there are {len(_CORES)} cores here")
        return 1
    lines = [
        f"| work | goal | times as fast on {cores} | | one core, ms | {cores} cores, ms | CPU ms on one "
        "| CPU ms of the busiest thread | at most |",
        "|---|--:|--:|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        say(row.title)
        both = [
            Worker(sys.executable, "nets_gluon.py", "ours", row.work, cores=n) for n in (1, cores)
        ]
        for _ in range(2 * TURNS):
            for worker in both:
                worker.turn()
        for worker in both:
            worker.end()
        one, several = (worker.least["wall"] for worker in both)
        alone, busiest = both[0].least["cpu"], both[1].least["busiest"]
        goal = 1.0 if row.work in WITHOUT_CONVOLUTIONS else 1.5
        gain = round(one / several, 2)
        lines.append(
            f"| {row.title} | {goal:g} | {gain:.2f} | {'ok' if gain >= goal else 'miss'} "
            f"| {one:.1f} | {several:.1f} | {alone:.1f} | {busiest:.1f} | {alone / busiest:.2f} |"
        )
        print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join(lines)
    (OUTPUT / f"nets_{cores}_cores.md").write_text(text + "\n")
    print(text)
    return 0


def main() -> int:
    begin = time.perf_counter()
    asked = argparse.ArgumentParser()
    asked.add_argument("works", nargs="*", metavar="WORK", help="those of this table alone")
    asked.add_argument("--cores", type=int, default=1, help="beside itself on so many cores")
    args = asked.parse_args()
    pin()
    OUTPUT.mkdir(exist_ok=True)
    rows = [row for row in ROWS if row.work in (args.works or {r.work for r in ROWS})]
    if args.cores > 1:
        return on_cores(rows, args.cores)
    found = pythons()
    machine = start(sys.executable, "roofline.py")
    results = {}
    for row in rows:
        results[row.work] = measure(row, found)
        (OUTPUT / "nets.json").write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        print(table({row.work: results[row.work]}).splitlines()[-1], file=sys.stderr, flush=True)
    text = f"{table(results)}\n\n{at_least(results, machine)}"
    (OUTPUT / "nets.md").write_text(text + "\n")
    frameworks = {w["framework"] for r in results.values() for k, w in r.items() if k != "failed"}
    print(f"{processor()}, one core; {', '.join(sorted(frameworks))}")
    print(text)
    for work, row_found in results.items():
        for name, why in row_found["failed"].items():
            print(f"{name} does not run {work}: {(why.strip().splitlines() or ['it ended'])[-1]}")
    for name in BOTH:
        if name not in found:
            print(f"Not compared: set MXJAX_BENCH_{name.upper()}=<a Python that has it>.")
    print(f"{time.perf_counter() - begin:.0f} s; bench_output/ holds the figures")
    return int(any("ours" in r["failed"] for r in results.values()))


if __name__ == "__main__":
    sys.exit(main())
