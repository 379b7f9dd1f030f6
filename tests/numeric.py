"""The tests of numbers, under every code generator and every processor that users may have.

    python tests/numeric.py codegen [KIND ...] [-- PYTEST ARGUMENTS]    # make test-codegen
    python tests/numeric.py isa [KIND ...] [-- PYTEST ARGUMENTS]        # make test-isa

``make test`` has LLVM's optimisation turned off (conftest.py), and runs on one processor. ``codegen`` compiles as
users' programs are, with each option that we set and JAX does not: all of them, each away, and barriers in every
program. ``isa`` has XLA compile for older processors, and NumPy's OpenBLAS compute as on them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Where numbers are what is tested; the others look at files, names, counts, processes.
FOLDERS = (
    "amp/test_amp.py array autograd core/calls/test_varying.py core/compile/test_cpu_code.py "
    "core/compile/test_images.py core/interpret effects/test_rolling.py "
    "gluon/graphs/test_hybrid.py gluon/nn/test_every_layer.py gluon/nn/test_nn.py gluon/test_loss.py "
    "gluon/test_metric.py gluon/test_probability.py gluon/test_rnn.py gluon/test_trainer.py image "
    "kvstore/test_own.py nd np npx ops optimizer symbol test_initializer.py test_training_parts.py"
).split()

# What is added to, or taken from, every program's options.
CODEGEN: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "users": ({}, ()),
    "narrow": ({}, ("xla_cpu_prefer_vector_width",)),
    "order": ({}, ("xla_cpu_scheduler_type",)),
    "barriers": ({"xla_disable_hlo_passes": "cse_barrier_expander"}, ()),
}

# XLA's instruction set, and the processor that OpenBLAS takes this one for.
ISA = {"SSE4_2": "Nehalem", "AVX2": "Haswell", "AVX512": "SkylakeX"}


def add_options(kind: str) -> None:
    """Every program of this process gets the options of a kind of `CODEGEN`."""
    more, less = CODEGEN[kind]
    if not more and not less:
        return
    from mxjax.core import compiler

    given = compiler.options_for

    def options_for(device: object, calls: object) -> dict[str, object]:
        made = {k: v for k, v in given(device, calls).items() if k not in less}
        if compiler.platform_of(device) == "cpu":
            compiler.merge(made, more)
        return made

    compiler.options_for = options_for


def environments(what: str) -> dict[str, dict[str, str]]:
    """The variables of each kind of run."""
    if what == "codegen":
        return {kind: {"MXJAX_TEST_CODEGEN": kind} for kind in CODEGEN}
    flags = os.environ.get("XLA_FLAGS", "")
    return {
        isa: {"XLA_FLAGS": f"{flags} --xla_cpu_max_isa={isa}".strip(), "OPENBLAS_CORETYPE": core}
        for isa, core in ISA.items()
    }


def main(what: str, *words: str) -> int:
    """Runs pytest once for each kind; how many of them failed."""
    at = words.index("--") if "--" in words else len(words)
    kinds, more = words[:at], words[at + 1 :]
    failed = []
    for kind, variables in environments(what).items():
        if kinds and kind not in kinds:
            continue
        print(f"== {what}: {kind}", flush=True)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-m",
            "not slow",
            *more,
            *(str(HERE / f) for f in FOLDERS),
        ]
        if subprocess.run(command, cwd=HERE.parent, env=os.environ | variables).returncode:
            failed.append(kind)
    print(
        f"{what}: failed under {', '.join(failed)}" if failed else f"{what}: all passed", flush=True
    )
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
