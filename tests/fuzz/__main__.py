"""``python -m tests.fuzz``: many programs in processes of their own, or one of them again.

python -m tests.fuzz --count 20000 --jobs 2     # a summary at the end; the exit code is 1 where something failed
python -m tests.fuzz --seed 17                  # one program: shrunk and printed where it fails, else printed whole
python -m tests.fuzz --seed 17 --tiers auto
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import queue
import subprocess
import sys
import threading
import time
from typing import Any

CHUNK = 200  # programs of one process: what it compiled is of little use to those after it
LIMIT = 300.0  # seconds for one program with its shrinking


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
    lines = [f"# seed {answer['seed']}: python -m tests.fuzz --seed {answer['seed']}"]
    lines += [f"# {name}: {text}" for name, text in answer["found"].items()]
    return "\n".join([*lines, answer.get("text", "")])


def worker(start: int, count: int, tiers: tuple[str, ...]) -> None:
    """One line of JSON for each program."""
    import traceback

    for seed in range(start, start + count):
        before = time.process_time()
        try:
            answer = check(seed, tiers)
        except Exception:
            answer = {"seed": seed, "calls": 0, "found": {"the fuzzer itself": traceback.format_exc()}}
        answer["cpu"] = time.process_time() - before
        print(json.dumps(answer), flush=True)


def chunk(start: int, count: int, tiers: tuple[str, ...], tell: Any) -> None:
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
        process = subprocess.Popen([*command, "--tiers", ",".join(tiers)], stdout=subprocess.PIPE, text=True)
        lines: queue.Queue[str] = queue.Queue()

        def read(process: Any = process, lines: Any = lines) -> None:
            for line in process.stdout:
                lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        try:
            while start < end:
                line = lines.get(timeout=LIMIT)
                if not line:
                    break
                if line.startswith("{"):
                    tell(json.loads(line))
                    start += 1
        except queue.Empty:
            pass
        why = "it hangs" if process.poll() is None else f"the process ended with {process.returncode}"
        process.kill()
        process.wait()
        if start < end:
            tell({"seed": start, "calls": 0, "cpu": 0.0, "found": {"the process": why}})
            start += 1


def many(start: int, count: int, jobs: int, tiers: tuple[str, ...], every: int) -> int:
    """Run them all; how many failed."""
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
        parts = [(at, min(CHUNK, start + count - at)) for at in range(start, start + count, CHUNK)]
        for _ in pool.map(lambda part: chunk(*part, tiers, tell), parts):
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
    parser.add_argument("--tiers", default="interpret,auto,compile,mixed,naive")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    tiers = tuple(given.tiers.split(","))
    os.environ.setdefault("MXJAX_ENGINE_GRAPH_BREAKS", "quiet")
    os.environ.setdefault("MXJAX_CACHE_DIR", "")  # random programs come never again
    if given.worker:
        worker(given.start, given.count, tiers)
        return 0
    if given.seed is None:
        return 1 if many(given.start, given.count, given.jobs, tiers, given.every) else 0
    answer = check(given.seed, tiers)
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
