"""``python -m tests.fuzz``: many programs in processes of their own, or one of them again.

python -m tests.fuzz --count 20000 --jobs 2     # a summary at the end; the exit code is 1 where something failed
python -m tests.fuzz --seed 17                  # one program: shrunk and printed where it fails, else printed whole
python -m tests.fuzz --seed 17 --tiers auto

Nearly all of the time is compilation, so that three of four processes compile quickly (``--codegen``), and NaiveEngine
runs each tenth program (``naive/10``).
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from typing import Any

CHUNK = 400  # programs of one process, which share shapes: what it compiled is of little use to those after it
TIERS = "interpret,auto,compile,mixed,naive/10"
#: LLVM's optimisation takes two thirds of the time: each fourth process has it, as users have.
CODEGEN = ("users", "quick", "quick", "quick")


class Watch:
    """Whether a program hangs, by the CPU time its process has used: a busy machine only makes it wait.

    The process tells that time every `BEAT` seconds, and each program's end.
    """

    BEAT = 10.0
    COMPUTES = 300.0  # seconds of CPU for one program with its shrinking
    WAITS = 30  # beats in which a program that is not finished has computed nothing
    LITTLE = 0.01  # seconds: less than what the scheduler leaves a process that wants to run
    SILENT = 1800.0  # seconds without a beat: the process is stopped, or holds Python's lock

    def __init__(self) -> None:
        self._began = self._last = 0.0
        self._idle = 0

    def ended(self) -> None:
        """A program is finished; the next one begins."""
        self._began, self._idle = self._last, 0

    def beat(self, cpu: float) -> str:
        """What is wrong with a process that has used so much CPU time, or ''."""
        self._idle = self._idle + 1 if cpu - self._last < self.LITTLE else 0
        self._last = cpu
        if self._idle >= self.WAITS:
            return f"it waits: nothing was computed for {self.WAITS * self.BEAT:.0f} s"
        return (
            f"it computes for {cpu - self._began:.0f} s"
            if cpu - self._began > self.COMPUTES
            else ""
        )


def check(seed: int, tiers: tuple[str, ...]) -> dict[str, Any]:
    """One program: what failed, and the shortest program that fails so."""
    import mxjax as mx

    from . import generate, machines, model, program, shrink

    made = generate.program(seed, mx)
    answer: dict[str, Any] = {"seed": seed, "calls": program.count(made.calls)}
    try:
        found = machines.failures(made, mx, tiers)
    except (machines.Invalid, model.Ambiguous) as error:
        return {**answer, "invalid": repr(error)}
    if found:
        kind = kind_of(found)
        bad = tuple(t for t in tiers if t in found) or tiers
        smallest = shrink.shrunk(made, lambda p: kind_of(machines.failures(p, mx, bad)) == kind)
        answer["found"] = machines.failures(smallest, mx, bad) or found
        answer["text"] = program.text(smallest)
    return answer


def kind_of(found: dict[str, str]) -> str:
    """What shrinking must keep: whether numbers differ, or which error there is."""
    if not found:
        return ""
    text = next(iter(found.values()))
    for word in text.replace(":", " ").split():
        if word.endswith(("Error", "Exception", "error")):
            return word
    return "dtype" if "dtype" in text else "shape" if "shape" in text else "numbers"


def told(answer: dict[str, Any]) -> str:
    how = " --codegen quick" if answer.get("codegen") == "quick" else ""
    lines = [f"# seed {answer['seed']}: python -m tests.fuzz --seed {answer['seed']}{how}"]
    lines += [f"# {name}: {text}" for name, text in answer["found"].items()]
    return "\n".join([*lines, answer.get("text", "")])


def tiers_of(seed: int, tiers: tuple[str, ...]) -> tuple[str, ...]:
    """The tiers of a program: ``naive/10`` is one of each tenth."""
    split = (name.partition("/") for name in tiers)
    return tuple(name for name, _, each in split if seed % int(each or 1) == 0)


def quick_flags() -> str:
    """Flags of XLA by which all programs of a process are compiled as the engine's quick ones are."""
    from mxjax.core.run import price

    options = price.on("cpu").options or {}
    return " ".join(f"--{name}={str(value).lower()}" for name, value in options.items())


def worker(start: int, count: int, tiers: tuple[str, ...]) -> None:
    """One line of JSON for each program, and one with the CPU time now and then."""
    import traceback

    lock = threading.Lock()

    def say(what: dict[str, Any]) -> None:
        with lock:
            print(json.dumps(what), flush=True)

    def beat() -> None:
        while True:
            time.sleep(Watch.BEAT)
            say({"beat": time.process_time()})

    threading.Thread(target=beat, daemon=True).start()
    for seed in range(start, start + count):
        before = time.process_time()
        try:
            answer = check(seed, tiers_of(seed, tiers))
        except Exception:
            answer = {
                "seed": seed,
                "calls": 0,
                "found": {"the fuzzer itself": traceback.format_exc()},
            }
        answer["cpu"] = time.process_time() - before
        say(answer)


def chunk(start: int, count: int, tiers: tuple[str, ...], codegen: str, tell: Any) -> None:
    """A process for some programs; another one from the next program on where one of them hangs or ends it."""
    end = start + count
    while start < end:
        command = [
            sys.executable,
            "-m",
            "tests.fuzz",
            "--worker",
            "--start",
            str(start),
            "--count",
            str(end - start),
        ]
        command += ["--tiers", ",".join(tiers), "--codegen", codegen]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines: queue.Queue[str] = queue.Queue()

        def read(process: Any = process, lines: Any = lines) -> None:
            for line in process.stdout:
                lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        watch, why = Watch(), ""
        try:
            while start < end and not why:
                line = lines.get(timeout=Watch.SILENT)
                if not line:
                    why = f"the process ended with {process.wait()}"
                elif line.startswith('{"beat"'):
                    why = watch.beat(json.loads(line)["beat"])
                elif line.startswith("{"):
                    tell(json.loads(line))
                    watch.ended()
                    start += 1
        except queue.Empty:
            why = f"it said nothing for {Watch.SILENT:.0f} s"
        process.kill()
        process.wait()
        if start < end:
            tell({"seed": start, "calls": 0, "cpu": 0.0, "found": {"the process": why}})
            start += 1


def many(
    start: int, count: int, jobs: int, tiers: tuple[str, ...], codegen: str, every: int
) -> int:
    """Run them all; how many failed."""
    kinds = CODEGEN if codegen == "mixed" else (codegen,)
    sums: collections.Counter[str] = collections.Counter()
    cpu, done, began = 0.0, 0, time.time()
    failed: list[int] = []
    lock = threading.Lock()

    def summary() -> str:
        shown = ", ".join(map(str, failed[:20]))
        return (
            f"{done} programs of {sums['calls']} calls, {len(failed)} failed ({shown}), "
            f"{sums['invalid']} not comparable; "
            f"{cpu / max(done, 1):.2f} s of CPU for each, {time.time() - began:.0f} s"
        )

    def tell(answer: dict[str, Any]) -> None:
        nonlocal cpu, done
        with lock:
            done += 1
            cpu += answer["cpu"]
            sums["calls"] += answer["calls"]
            sums["invalid"] += "invalid" in answer
            if "found" in answer:
                failed.append(answer["seed"])
                print(told(answer), flush=True)
            if done % every == 0:
                print(f"... {summary()}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        edges = [start, *range((start // CHUNK + 1) * CHUNK, start + count, CHUNK), start + count]
        parts = [
            (at, end - at, tiers, kinds[at // CHUNK % len(kinds)])
            for at, end in itertools.pairwise(edges)
        ]
        for _ in pool.map(
            lambda part: chunk(*part, lambda a: tell({**a, "codegen": part[-1]})), parts
        ):
            pass
    print(summary())
    return len(failed)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="random programs under every tier"
    )
    parser.add_argument("--seed", type=int, help="this program alone")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--every", type=int, default=200, help="a line of progress after so many")
    parser.add_argument("--tiers", default=TIERS)
    parser.add_argument(
        "--codegen", choices=("users", "quick", "mixed"), default="mixed", help="how XLA compiles"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    tiers = tuple(given.tiers.split(","))
    os.environ.setdefault("MXJAX_ENGINE_GRAPH_BREAKS", "quiet")
    os.environ.setdefault("MXJAX_CACHE_DIR", "")  # random programs come never again
    if given.codegen == "quick":
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {quick_flags()}".strip()
    if given.worker:
        worker(given.start, given.count, tiers)
        return 0
    if given.seed is None:
        return (
            1
            if many(given.start, given.count, given.jobs, tiers, given.codegen, given.every)
            else 0
        )
    answer = check(given.seed, tiers_of(given.seed, tiers))
    if "found" in answer:
        print(told(answer))
        return 1
    import mxjax as mx

    from . import generate, program

    print(program.text(generate.program(given.seed, mx)))
    print(f"# {answer}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
