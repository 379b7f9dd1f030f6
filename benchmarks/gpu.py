"""Training on a GPU beside PyTorch and JAX by hand: the table of `make bench-gpu`.

    python -m benchmarks.gpu [WORK ...] [--budget SECONDS] [--together] [--first] [--kernels] [--no-compile] [--tiny]

Four processes (mxjax; JAX by hand; PyTorch; PyTorch with `torch.compile`) build the same networks with the same
weights and data, then take turns: one measures while the others wait, and the median of the turns counts. Losses of
the first steps must fall and agree. A work that would begin after ``--budget`` seconds is left out, and so is what
`torch.compile` has not compiled by then, which comes last. ``--together``: networks are compiled in all processes at
once, which takes less time, but XLA tries its kernels while others are at work. Each row is printed when it is
measured; ``$OUT`` or ``bench_output/`` gets figures (``gpu.json``), the table (``gpu.md``) and, with ``--kernels``,
what runs on the device in a step of JAX's and ours, and the texts of the programs. ``--first``: besides, what the
first steps take as users have them (ours compile at once here: `engine.cold`). ``--tiny``: sizes for a CPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import queue
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any, NamedTuple

from benchmarks.gpu_work import FULL, STEPS, TINY
from benchmarks.run import HERE, OUTPUT, environment, say

TURNS = 5
PATIENCE = 400.0  # seconds for an answer


class Row(NamedTuple):
    title: str
    work: str
    each: str  # what a batch has many of; "" where milliseconds count
    agree: float  # relative, of losses
    ways: tuple[str, ...] = ("hybridized", "imperative", "jax", "torch", "compiled")


ROWS = [
    Row("LeNet, batch 64, adam, float32", "lenet", "", 2e-2),
    Row("an expression of a new shape", "cold", "", 0, ("imperative", "jax", "torch")),
    Row("LSTM language model, 2 x 650, float32 (TF32), sgd", "lstm", "words", 2e-2),
    Row("BERT-base, 64 sequences of 128, bf16, adam", "bert_128", "sequences", 3e-2),
    Row("ResNet-50, batch 128, bf16, sgd with momentum", "resnet_bf16", "images", 5e-2),
    Row("JPEG files, then that", "pipeline", "images", 0, ("hybridized", "torch")),
    Row("BERT-base, 16 sequences of 512, bf16, adam", "bert_512", "sequences", 3e-2),
    Row("ResNet-50, batch 128, float32 (TF32)", "resnet_tf32", "images", 3e-2),
]
OURS = ("hybridized", "imperative")
BESIDE = ("again", "begun")  # what a row has besides its ways
GOAL, WITHIN = 1.0, 1.05  # of the best other one; the imperative step of the hybridized one


class Worker:
    """A process of one framework."""

    def __init__(self, script: str, *args: str, hlo: str = "", at_once: bool = True):
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 (open as long as the process)
        env = environment()
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "XLA_FLAGS"):
            env.pop(name)
            if name in os.environ:
                env[name] = os.environ[name]
        env.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # they share the device
        if at_once:  # what runs for long is measured, not what runs until then
            env.setdefault("MXJAX_ENGINE_COLD", "compile")
        env["BENCH_HLO"] = hlo
        python = sys.executable
        if script == "gpu_torch.py" and os.environ.get("MXJAX_BENCH_TORCH"):
            python = os.environ["MXJAX_BENCH_TORCH"]
            del env["PYTHONPATH"]
        pipes: Any = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": self._errors,
            "text": True,
        }
        self._process = subprocess.Popen(
            [python, str(HERE / script), *args], env=env, bufsize=1, **pipes
        )
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._waits = 1  # answers: the first says what it is
        self.facts: dict[str, Any] | None = None

    def send(self, verb: str, name: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{verb} {name}\n")
            self._waits += 1
        except OSError:
            pass  # it ended; whoever reads hears of it

    def answer(self, patience: float = PATIENCE) -> dict[str, Any]:
        """What came of the request sent last."""
        found: dict[str, Any] = {}
        end = time.monotonic() + patience
        while self._waits:
            found = self._line(end)
            if "died" in found:
                return {"failed": found["died"]}
            self._waits -= 1
            if self.facts is None:
                self.facts = found
        return found

    def _line(self, end: float) -> dict[str, Any]:
        try:
            found = self._lines.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            self._process.kill()
            return {"died": "no answer in time"}
        if found is None:
            self._lines.put(None)
            self._errors.seek(0)
            return {"died": self._errors.read()[-1500:] or "it ended"}
        return found

    def _read(self) -> None:
        """Lines as they come, in a thread; None at the end."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._lines.put(json.loads(line))
        self._lines.put(None)

    def ask(self, verb: str, name: str) -> dict[str, Any]:
        self.send(verb, name)
        return self.answer()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()


def pictures(folder: Path, tiny: bool) -> str:
    """JPEG files and a record file of them; the path of both without its ending."""
    import numpy
    from PIL import Image

    import mxjax as mx

    rng = numpy.random.default_rng(0)
    size = TINY if tiny else FULL
    side = size.side * 256 // 224
    path = folder / "pictures"
    path.mkdir()
    files = []
    for n in range(min(256, size.pictures)):
        patches = Image.fromarray(rng.integers(0, 256, (16, 16, 3), numpy.uint8)).resize(
            (side, side), 3
        )
        noisy = numpy.asarray(patches).astype(int) + rng.normal(0, 8, (side, side, 1))
        buffer = io.BytesIO()
        Image.fromarray(numpy.clip(noisy, 0, 255).astype(numpy.uint8)).save(
            buffer, "JPEG", quality=90
        )
        files.append(buffer.getvalue())
        (path / f"{n:04}.jpg").write_bytes(files[-1])
    with mx.recordio.MXIndexedRecordIO(f"{path}.idx", f"{path}.rec", "w") as writer:
        for n in range(size.pictures):
            writer.write_idx(n, mx.recordio.pack((0, n % 10, n, 0), files[n % len(files)]))
    return str(path)


class Bench:
    def __init__(self, options: argparse.Namespace, folder: Path):
        self.begin = time.monotonic()
        self.options = options
        self.out = Path(os.environ.get("OUT") or OUTPUT)
        self.out.mkdir(parents=True, exist_ok=True)
        self.results: dict[str, Any] = {
            "rows": {},
            "sizes": (TINY if options.tiny else FULL)._asdict(),
        }
        self.hlo = folder / "hlo"
        self.hlo.mkdir()
        flags = [f"--{f}" for f in ("tiny", "kernels") if getattr(options, f)]
        has_torch = os.environ.get("MXJAX_BENCH_TORCH") or importlib.util.find_spec("torch")
        path = pictures(folder, options.tiny) if "pipeline" in options.works else ""
        self.workers = {
            "ours": Worker("gpu_ours.py", *flags, path, hlo=str(self.hlo)),
            "jax": Worker("gpu_jax.py", *flags, hlo=str(self.hlo)),
        }
        if options.first:
            self.workers["begun"] = Worker(
                "gpu_ours.py", *(f for f in flags if f != "--kernels"), path, at_once=False
            )
        if has_torch:
            self.workers["torch"] = Worker("gpu_torch.py", *flags, path)
            if options.compile:
                self.workers["compiled"] = Worker("gpu_torch.py", "--compile", *flags, path)

    def spent(self) -> float:
        return time.monotonic() - self.begin

    def of(self, way: str, work: str) -> tuple[Worker | None, str]:
        """The process that does a work in this way, and what the work is called there."""
        if way in OURS:
            return self.workers["ours"], work + (
                "_imperative" if way == "imperative" and work != "cold" else ""
            )
        return self.workers.get(way), work

    def row(self, row: Row) -> None:
        """Prepare a work in each process, one after another or together, then give them turns."""
        found: dict[str, Any] = {}
        asked = [w for w in row.ways if w != "compiled" and self.of(w, row.work)[0]]
        waves = [[w] for w in asked]
        if self.options.together and "hybridized" in asked:
            waves = [
                [w for w in asked if w != "imperative"],
                [w for w in asked if w == "imperative"],
            ]
        for wave in waves:
            for way in wave:
                worker, name = self.of(way, row.work)
                worker.send("prepare", name)  # type: ignore[union-attr]
            for way in wave:
                found[way] = self.of(way, row.work)[0].answer()  # type: ignore[union-attr]
        if row.work != "cold":
            self.turns(row, found)
        if "begun" in self.workers and "hybridized" in row.ways:
            found["begun"] = self.workers["begun"].ask("prepare", row.work)
            self.workers["begun"].ask("drop", row.work)
        self.results["rows"][row.work] = found
        self.tell(row)

    def turns(self, row: Row, found: dict[str, Any]) -> None:
        """Turns of all ways that are ready; each gets the median of its turns."""
        for name in found:
            found[name].pop("turns", None)
        for _ in range(TURNS):
            for way, facts in found.items():
                if "failed" not in facts:
                    worker, name = self.of(way, row.work)
                    turn = worker.ask("turn", name)  # type: ignore[union-attr]
                    facts.update(turn) if "failed" in turn else facts.setdefault(
                        "turns", []
                    ).append(turn)
        for facts in found.values():
            if "turns" in facts:
                for key in ("ms", "host"):
                    facts[key] = statistics.median(t[key] for t in facts["turns"])

    def tell(self, row: Row) -> None:
        self.results["seconds"] = round(self.spent(), 1)
        self.results["frameworks"] = {k: w.facts for k, w in self.workers.items()}
        (self.out / "gpu.json").write_text(json.dumps(self.results, indent=1) + "\n")
        found = self.results["rows"][row.work]
        print(line(row, found), flush=True)
        for way, facts in found.items():
            if "failed" in facts:
                print(f"  {way} failed: {facts['failed'].strip()[-700:]}", flush=True)
        begun = found.get("begun", {})
        if "first" in begun:
            print(
                f"  as users have it: {begun['first']:.1f} s to the first step, {begun['warm']:.1f} to step {STEPS}"
            )
        for text in (*disagreement(row, found), *kernels(found)):
            print(f"  {text}", flush=True)

    def run(self) -> None:
        background = self.workers.get("compiled")
        chosen = [r for r in ROWS if r.work in self.options.works]
        print(HEAD, flush=True)
        for row in chosen:
            if self.spent() > self.options.budget:
                print(f"{row.title}: left out after {self.spent():.0f} s", flush=True)
                continue
            self.row(row)
        done = self.results["rows"]
        for row in chosen if background is not None else ():
            if self.spent() > self.options.budget:
                break
            if "compiled" not in row.ways or row.work not in done:
                continue
            found = done[row.work]
            background.send("prepare", row.work)  # type: ignore[union-attr]
            found["compiled"] = background.answer(self.options.budget - self.spent() + 20)  # type: ignore[union-attr]
            best = min(
                (w for w in OURS if "ms" in found[w]), key=lambda w: found[w]["ms"], default=None
            )
            again = {w: dict(found[w]) for w in ("compiled", best) if w is not None}
            self.turns(row, again)
            found["compiled"] = again["compiled"]
            found["again"] = {best: again.get(best or "", {}).get("ms")}
            self.tell(row)
        self.finish()

    def finish(self) -> None:
        rows = [
            line(r, self.results["rows"][r.work]) for r in ROWS if r.work in self.results["rows"]
        ]
        (self.out / "gpu.md").write_text("\n".join([HEAD, *rows]) + "\n")
        if any(self.hlo.iterdir()):
            with tarfile.open(self.out / "gpu_programs.tar", "w") as tar:
                tar.add(self.hlo, "programs")
        for worker in self.workers.values():
            worker.end()
        frameworks = sorted({f"{f['framework']} on {f.get('device', '?')}" for f in (
            w.facts for w in self.workers.values()) if f and "framework" in f})  # fmt: skip
        print("; ".join(frameworks))
        print(f"{self.spent():.0f} s")


HEAD = (
    "| work | goal | ratio | | imperative / hybridized | hybridized ms | imperative | JAX by hand | PyTorch "
    "| torch.compile | a second | host ms | compile s (ours, JAX, torch) | MiB (ours, JAX, torch) |\n"
    "|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|---|---|---|"
)


def line(row: Row, found: dict[str, Any]) -> str:
    """A row of the table."""
    ms = {w: f["ms"] for w, f in found.items() if w not in BESIDE and "ms" in f}
    ours = [ms[w] for w in OURS if w in ms]
    theirs = [t for w, t in ms.items() if w not in OURS]
    ratio = min(ours) / min(theirs) if ours and theirs else None
    both = (
        ms["imperative"] / ms["hybridized"] if {"imperative", "hybridized"} <= ms.keys() else None
    )
    met = (
        ""
        if ratio is None
        else "ok"
        if ratio <= GOAL and (both is None or both <= WITHIN)
        else "miss"
    )
    many = {"images": FULL.images, "words": FULL.lstm_batch * FULL.lstm_length}.get(row.each, 0)
    if row.each == "sequences":
        many = FULL.tokens // FULL.lengths[row.work == "bert_512"]
    rate = f"{many / min(ours) * 1e3:,.0f} {row.each}" if many and ours else ""

    def three(key: str, scale: float, digits: int) -> str:
        ways = ("hybridized", "imperative", "jax", "torch")
        return " / ".join(
            f"{found[w][key] * scale:.{digits}f}" if key in found.get(w, {}) else "-" for w in ways
        )

    cells = [
        row.title, f"{GOAL:g}", "" if ratio is None else f"{ratio:.2f}", met, "" if both is None else f"{both:.2f}",
        *(f"{ms[w]:.3f}" if w in ms else "-" for w in ("hybridized", "imperative", "jax", "torch", "compiled")),
        rate, three("host", 1, 3), three("first", 1, 1), three("bytes", 2**-20, 0),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def disagreement(row: Row, found: dict[str, Any]) -> list[str]:
    """What is wrong with the losses: they do not fall, or differ by more than they may."""
    losses = {
        w: f["losses"] for w, f in found.items() if w not in BESIDE and "losses" in f and row.agree
    }
    said = [f"the loss of {w} does not fall: {v}" for w, v in losses.items() if not v[-1] < v[0]]
    if losses:
        first = next(iter(losses.values()))
        for way, values in losses.items():
            apart = max(
                abs(a - b) / max(abs(a), first[0] / 4) for a, b in zip(first, values, strict=True)
            )
            if not apart <= row.agree:
                said.append(f"losses of {way} differ by {apart:.1e}: {values} for {first}")
    return said


def kernels(found: dict[str, Any]) -> list[str]:
    """How much runs on the device in a step."""
    return [
        f"{w}: {f['kernels']:.0f} kernels, {f['device_ms']:.3f} ms of the device: "
        + ", ".join(f"{k['name'][:40]} {k['ms']:.3f}" for k in f["longest"][:4])
        for w, f in found.items() if w not in BESIDE and "kernels" in f
    ]  # fmt: skip


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.gpu")
    names = [r.work for r in ROWS]
    parser.add_argument("works", nargs="*", metavar="WORK", help=" ".join(names))
    parser.add_argument("--budget", type=float, default=420.0)
    parser.add_argument(
        "--together",
        action="store_true",
        help="compile in all processes at once: sooner, less sure",
    )
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument(
        "--first", action="store_true", help="also what the first steps take where compiling waits"
    )
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    options = parser.parse_args(given)
    unknown = set(options.works) - set(names)
    if unknown:
        parser.error(f"there is no work {sorted(unknown)[0]!r}; there are: {' '.join(names)}")
    options.works = options.works or names
    return options


def main() -> int:
    options = arguments(sys.argv[1:])
    say("Networks on a GPU")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        try:
            bench.run()
        finally:
            for worker in bench.workers.values():
                worker.end()
    rows = bench.results["rows"]
    return int(any("failed" in f for r in rows.values() for w, f in r.items() if w in OURS))


if __name__ == "__main__":
    sys.exit(main())
