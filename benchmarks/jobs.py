"""Everyday jobs from start to end, as MXNet's users write them: the table of `make bench-jobs`.

    python -m benchmarks.jobs [JOB ...]                                  # make bench-jobs [ONLY="vae gan"]
    MXJAX_BENCH_MXNET=<python with MXNet 2> MXJAX_BENCH_MXNET1=<python with MXNet 1.9> make bench-jobs

Each job of ``jobs/`` runs in processes of its own, pinned to one core: once in MXNet, and twice here, with a folder of
kept programs that is empty at first. Seconds are CPU time, from the start of Python to its end, and between two steps
of a job (the longest pause). What the jobs find (losses, accuracies) is compared, too. The status is 1 where a job
fails, finds something else or misses its goal. Figures and table are left in ``bench_output/``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from benchmarks.run import HERE, OUTPUT, pin, processor, say

PAUSE = 2.0  # seconds without a step, at most
AGAIN = 0.3  # of what the first run takes beyond MXNet, at most, for what the second takes
CLOSE = 0.05  # results: relative, or of 1
LONGEST = 600  # seconds for one process


class Job(NamedTuple):
    """A job: the MXNet it is written for, that one's CPU seconds on 2026-11-27, and how many times that it may take."""

    name: str
    version: str
    mxnet: float
    goal: float = 1.5
    mxnet_environment: tuple[tuple[str, str], ...] = ()


JOBS = [
    Job("transforms", "1.9", 1.4),
    Job("finetune", "1.9", 5.3),
    Job("bucketing", "1.9", 2.1),
    Job("ragged_text", "1.9", 1.8),
    Job("detector", "1.9", 2.3),
    Job("devices", "1.9", 1.2),
    Job("five_minutes", "2.0", 1.3, 1.0),
    Job("vae", "2.0", 2.1),
    # The kernels of oneDNN in MXNet 1.9.1 fail to reorder a weight here.
    Job("gan", "1.9", 2.0, mxnet_environment=(("MXNET_MKLDNN_ENABLED", "0"),)),
    Job("amp_training", "1.9", 1.2),
    Job("sparse_embedding", "1.9", 1.1),
    Job("dqn", "2.0", 2.1),
    Job("tree_lstm", "1.9", 3.0),
    Job("word_lm", "1.9", 1.3),
    Job("image_gluon", "2.0", 2.2),
    Job("image_module", "1.9", 1.3),
    Job("attention", "2.0", 2.4),
    Job("seq2seq", "2.0", 2.3),
    Job("factorization", "1.9", 1.3),
    Job("changing_shapes", "2.0", 1.5),
    Job("ragged_batches", "2.0", 1.7),
    Job("style_transfer", "2.0", 1.7),
    Job("networks", "2.0", 2.7),
]
PYTHONS = {"1.9": "MXJAX_BENCH_MXNET1", "2.0": "MXJAX_BENCH_MXNET"}


def run_job(job: Job, command: list[str], cache: str) -> dict[str, Any]:
    """The figures that a job prints last, or ``{"failed": why}``."""
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    env["XDG_CACHE_HOME"] = cache
    env.pop("MXJAX_CACHE_DIR", None)  # the second run finds the programs of the first
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["PYTHONPATH"] = os.pathsep.join(
        p for p in (str(HERE.parent), os.environ.get("PYTHONPATH")) if p
    )
    if command[1:2] != ["-m"]:
        del env["PYTHONPATH"]  # the script's own folder is all that it needs
        env.update(job.mxnet_environment)
    try:
        done = subprocess.run(
            [*command, str(HERE / "jobs" / f"{job.name}.py")],
            env=env, capture_output=True, text=True, timeout=LONGEST, cwd=cache,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {LONGEST} s"}
    if done.returncode:
        return {
            "failed": (done.stderr.strip().splitlines() or ["no message"])[-1],
            "error": done.stderr[-3000:],
        }
    return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def measure(job: Job) -> dict[str, Any]:
    """A job's figures: in MXNet where its Python is named, and of two runs here."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        if python := os.environ.get(PYTHONS[job.version]):
            say(f"{job.name} in MXNet {job.version}")
            found["mxnet"] = run_job(job, [python], cache)
        for run in ("first", "second"):
            say(f"{job.name}, {run} run")
            found[run] = run_job(job, [sys.executable, "-m", "mxjax", "--as", job.version], cache)
    return found


def differences(mxnet: dict[str, float], ours: dict[str, float]) -> list[str]:
    """What a job found here that it did not find in MXNet."""
    return [
        f"{name} {ours.get(name)}, in MXNet {value}"
        for name, value in mxnet.items()
        if name not in ours or not abs(ours[name] - value) <= CLOSE * max(1.0, abs(value))
    ]


def verdicts(job: Job, found: dict[str, Any]) -> list[str]:
    """What a job misses, in words; an empty list where it meets all its goals."""
    for run in ("mxnet", "first", "second"):
        if failed := found.get(run, {}).get("failed"):
            return [f"{'MXNet' if run == 'mxnet' else run + ' run'} failed: {failed}"]
    first, second = found["first"], found["second"]
    theirs = found.get("mxnet", {}).get("cpu", job.mxnet)
    missed = []
    if first["cpu"] > job.goal * theirs:
        missed.append("first run")
    if (
        second["cpu"] > theirs + AGAIN * max(0.0, first["cpu"] - theirs)
        and second["cpu"] > job.goal * theirs
    ):
        missed.append("second run")
    if max(first["pause"], second["pause"]) > PAUSE:
        missed.append(f"pause ({first['where']})")
    return missed + differences(found["mxnet"]["found"] if "mxnet" in found else {}, first["found"])


def row(job: Job, found: dict[str, Any]) -> str:
    """A job's line of the table."""
    missed = verdicts(job, found)
    mark = "miss: " + "; ".join(missed) if missed else "ok"
    if (
        "cpu" not in found["first"]
        or "cpu" not in found["second"]
        or "failed" in found.get("mxnet", {})
    ):
        return f"| {job.name} |" + " |" * 8 + f" {mark} |"
    first, second = found["first"], found["second"]
    theirs = found["mxnet"]["cpu"] if "mxnet" in found else job.mxnet
    shown = f"{theirs:.2f}" if "mxnet" in found else f"({theirs:.1f})"
    return (
        f"| {job.name} | {shown} | <= {job.goal * theirs:.2f} | {first['cpu']:.2f} | {first['cpu'] / theirs:.2f} "
        f"| {second['cpu']:.2f} | {first['pause']:.2f} | {first['compiling']:.2f} | {first['programs']} | {mark} |"
    )


HEAD = (
    "| job | MXNet | goal | first run | / MXNet | second run | longest pause | compiling | programs | |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|"
)


def main(names: list[str]) -> int:
    known = {job.name: job for job in JOBS}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"there is no job {unknown[0]!r}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    begin = time.perf_counter()
    pin()
    OUTPUT.mkdir(exist_ok=True)
    asked = [known[name] for name in names] or JOBS
    results = {}
    for job in asked:
        results[job.name] = measure(job)
        say(row(job, results[job.name]))
        for run, figures in results[job.name].items():
            if "error" in figures:
                say(f"{job.name}, {run}:\n{figures['error']}")
    table = "\n".join([HEAD, *(row(job, results[job.name]) for job in asked)])
    (OUTPUT / "jobs.json").write_text(
        json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    (OUTPUT / "jobs.md").write_text(table + "\n", encoding="utf-8")
    print(f"{processor()}, one core; CPU seconds")
    print(table)
    print(
        f"Goals: the first run within 1.5 times of MXNet's (one row has its own), no pause over {PAUSE:g} s, "
        f"the second run within {AGAIN:g} of what the first takes beyond MXNet's."
    )
    for version, name in PYTHONS.items():
        if not os.environ.get(name) and any(job.version == version for job in asked):
            print(
                f"Figures in brackets are recorded ones: set {name}=<a Python with MXNet {version}>."
            )
    print(f"{time.perf_counter() - begin:.0f} s; bench_output/ holds the figures")
    return int(any(verdicts(job, results[job.name]) for job in asked))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
