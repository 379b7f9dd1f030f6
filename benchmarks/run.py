"""The benchmarks: each figure beside its baseline, as a ratio with a goal.

    python benchmarks/run.py            # make bench
    MXJAX_BENCH_MXNET=<python with MXNet 2> MXJAX_BENCH_TORCH=<python with PyTorch> make bench

Everything runs pinned to one core. Ratios are of process CPU time, which repeats where wall time does
not; wall times stand beside them. Results are left in ``bench_output/results.json``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "bench_output"


def environment(threads: int = 1) -> dict[str, str]:
    """The processes' environment: so many threads, and this checkout's mxjax where none is installed."""
    env = dict(os.environ)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        env[name] = str(threads)
    if threads == 1:
        flags = env.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
        env["XLA_FLAGS"] = flags.strip()
    # As `python -m mxjax` asks for it; README.md says what else the language model's step costs.
    env.setdefault("MXJAX_MEMORY_HOST_KEPT", "512MiB")
    env["MXJAX_CACHE_DIR"] = ""  # programs of an earlier run would hide what compiling costs
    env.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # an import is measured as users have it, compiled once
    env["PYTHONPATH"] = os.pathsep.join(p for p in (str(HERE.parent), env.get("PYTHONPATH")) if p)
    return env


def start(python: str, script: str, *args: str) -> dict[str, Any]:
    """A script's JSON object; it runs on one core."""
    done = subprocess.run(
        [python, str(HERE / script), *args], env=environment(), capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{script} {' '.join(args)} ended with an error:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def pin(cores: int = 1) -> None:
    """This process and all it starts to so many cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])


def least(into: dict[str, Any], more: dict[str, Any], prefix: str = "") -> None:
    """Keep the lesser times of two runs."""
    for key, times in more.items():
        if not isinstance(times, dict):
            into[prefix + key] = times
            continue
        old = into.setdefault(prefix + key, dict(times))
        for clock in ("cpu", "wall"):
            old[clock] = min(old[clock], times[clock])


def avx512() -> bool:
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine()


def others() -> dict[str, tuple[str, str]]:
    """The frameworks to compare with: prefix -> (python, script)."""
    found = {}
    if os.environ.get("MXJAX_BENCH_MXNET"):
        found["mxnet_"] = (os.environ["MXJAX_BENCH_MXNET"], "lenet_mxnet.py")
    if os.environ.get("MXJAX_BENCH_TORCH"):
        found["torch_"] = (os.environ["MXJAX_BENCH_TORCH"], "torch_chain.py")
    elif importlib.util.find_spec("torch"):
        found["torch_"] = (sys.executable, "torch_chain.py")
    return found


def measure() -> dict[str, Any]:
    """Everything; processes that are compared with each other take turns."""
    out: dict[str, Any] = {"processor": processor(), "avx512": avx512()}

    def take(prefix: str, python: str, script: str, *args: str) -> None:
        say(f"{prefix}{' '.join([script, *args])}")
        least(out, start(python, script, *args), prefix)
        (OUTPUT / "results.json").write_text(json.dumps(out, indent=1, sort_keys=True) + "\n")

    def ours(*args: str, prefix: str = "") -> None:
        take(prefix, sys.executable, "bench_ours.py", *args)

    for turn in range(2):
        for prefix, (python, script) in others().items():
            take(prefix, python, script, "3")
            take(prefix, python, "language_model.py", prefix.strip("_"))
            if prefix == "mxnet_":
                take(prefix, python, "custom_operator.py", "mxnet")
        ours("small")
        take("", sys.executable, "serving.py")
        ours("python")
        ours("lenet")
        take("", sys.executable, "language_model.py", "ours")
        take("", sys.executable, "custom_operator.py", "ours")
        if not turn:
            ours("shares")
        for kind in ("shapes", "lengths"):
            ours(f"churn-{kind}", "each", prefix="each_")
            ours(f"churn-{kind}")
        ours("import")
        ours("import")
    return out


def say(what: str) -> None:
    print(f"measuring: {what}", file=sys.stderr, flush=True)


def rows(t: dict[str, Any]) -> list[tuple[str, str, str, float]]:
    """(work, our key, baseline's key, goal of the ratio); rows without a baseline here are left out."""
    out = [
        ("chain of 30 small operators / eager jnp", "chain_30_small", "chain_30_small_jax", 0.5),
        ("chain of 30 small operators / MXNet", "chain_30_small", "mxnet_chain_30_small", 0.2),
        ("chain of 30 small operators / PyTorch", "chain_30_small", "torch_chain_30_small", 1.2),
        (
            "chain of 30 on a million elements / jax.jit", "chain_30_million",
            "chain_30_million_jax", 0.6 if t["avx512"] else 1.0,
        ),
        ("one operator, synchronised / jax.jit", "one_operator_sync", "one_operator_sync_jax", 1.5),
        ("one operator, synchronised / MXNet", "one_operator_sync", "mxnet_one_operator_sync", 0.7),
    ]  # fmt: skip
    out += [
        ("hybridized call of a small block / jax.jit", "serve_8", "serve_8_jax", 1.5),
        ("the same, four times as wide / jax.jit", "serve_32", "serve_32_jax", 1.5),
        ("eight threads that call one network / one, a call", "serve_eight", "serve_one", 1.2),
    ]
    for batch, jax_goal, mxnet_goal in ((4, 1.05, 0.6), (64, 1.0, 1.2)):
        for optimizer in ("adam", "sgd"):
            for mode in ("imperative", "hybridized"):
                key = f"lenet_{optimizer}_{batch}"
                work = f"LeNet step, batch {batch}, {optimizer}, {mode}"
                out.append((f"{work} / JAX", f"{key}_{mode}", f"{key}_jax", jax_goal))
                out.append(
                    (f"{work} / MXNet", f"{key}_{mode}", f"mxnet_{key}_hybridized", mxnet_goal)
                )
    work = "LSTM language model"
    out += [
        (f"{work} / JAX", "language_model", "language_model_jax", 1.0),
        (f"{work} / MXNet", "language_model", "mxnet_language_model", 0.9),
        (f"{work} / PyTorch", "language_model", "torch_language_model", 0.9),
        ("block with an operator in Python / MXNet", "custom_arrays", "mxnet_custom_arrays", 1.5),
        ("block with an operator in NumPy / MXNet", "custom_numpy", "mxnet_custom_numpy", 1.5),
        ("ever-changing shapes / call by call", "churn_shapes", "each_churn_shapes", 1.2),
        ("ever-changing lengths / call by call", "churn_lengths", "each_churn_lengths", 1.2),
    ]
    return [row for row in out if row[1] in t and row[2] in t]


LIMITS = (  # (what, key, goal)
    ("99th percentile of 2,000 calls of a small block / their median", "serve_p99", 3.0),
    ("programs that the first call compiles after net.compile", "serve_first", 0.0),
    ("Python of the imperative step, adam, ms", "python_adam", 0.3),
    ("Python of the imperative step, sgd, ms", "python_sgd", 0.3),
    ("import mxjax beyond import jax, ms", "import", 300.0),
)


def table(t: dict[str, Any]) -> str:
    """The results in Markdown."""
    lines = [
        "| work / compared with | goal | ratio | | CPU ms | theirs | wall ms | theirs | ratio of wall |",
        "|---|--:|--:|---|--:|--:|--:|--:|--:|",
    ]
    for work, own, theirs, goal in rows(t):
        a, b = t[own], t[theirs]
        ratio = round(a["cpu"] / b["cpu"], 2)
        lines.append(
            f"| {work} | {goal:g} | {ratio:.2f} | {'ok' if ratio <= goal else 'miss'} "
            f"| {a['cpu']:.3f} | {b['cpu']:.3f} | {a['wall']:.3f} | {b['wall']:.3f} "
            f"| {a['wall'] / b['wall']:.2f} |"
        )
    for work, key, goal in LIMITS:
        if key not in t:
            continue
        a = t[key]
        mark = "ok" if a["cpu"] <= goal else "miss"
        lines.append(f"| {work} | {goal:g} | | {mark} | {a['cpu']:.3f} | | {a['wall']:.3f} | | |")
    return "\n".join(lines)


def where(t: dict[str, Any]) -> str:
    """One line: the operators that take a LeNet step's time, the largest first."""
    named = [f"{name} {share:.0%}" for name, share in t["shares"] if share >= 0.01]
    return (
        "Where LeNet's step goes (batch 64, sgd, imperative; time on the device): "
        f"{', '.join(named)}. Attributed exactly: {t['shares_exact']:.0%}."
    )


def main() -> None:
    begin = time.perf_counter()
    pin()
    OUTPUT.mkdir(exist_ok=True)
    results = measure()
    text = f"{table(results)}\n\n{where(results)}"
    (OUTPUT / "results.md").write_text(text + "\n")
    with_avx = "with" if results["avx512"] else "without"
    compared = [f"jax {results['jax']}"]
    compared += [results[k] for k in ("mxnet_framework", "torch_framework") if k in results]
    print(f"{results['processor']}, {with_avx} AVX-512, one core; {', '.join(compared)}")
    print(text)
    for prefix, name in (("mxnet_", "MXNET"), ("torch_", "TORCH")):
        if f"{prefix}framework" not in results:
            print(f"Not compared: set MXJAX_BENCH_{name}=<a Python that has it>.")
    print(f"{time.perf_counter() - begin:.0f} s; bench_output/ holds the figures")


if __name__ == "__main__":
    main()
