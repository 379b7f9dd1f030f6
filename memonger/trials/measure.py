"""What programs cost: bytes and arithmetic, as XLA counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mxjax import core, errors, settings
from mxjax.hlo import counts, repeated


@dataclass(frozen=True)
class Cost:
    """One program: bytes of its temporaries, arguments, results, and results that reuse an argument; operations,
    and bytes that are read and written by them (``accessed_bytes``), in loops as often as XLA knows that they turn:
    of each operand what is asked for, wherever it lies (sums that a loop carries count at each turn,
    though a cache has them).

    Args:
      name: the program's.
      steps: how many calls are in it.
      runs: how often it ran.
      temp_bytes: the bytes of intermediate results.
      argument_bytes: the bytes of the arguments.
      output_bytes: the bytes of the results.
      alias_bytes: the bytes that arguments and results share.
      flops: the arithmetic.
      accessed_bytes: the bytes read and written.
    """

    name: str
    steps: int
    runs: int
    temp_bytes: int
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    flops: float
    accessed_bytes: int

    @property
    def peak_bytes(self) -> int:
        """Everything the program needs while it runs."""
        return self.temp_bytes + self.argument_bytes + self.output_bytes - self.alias_bytes


@dataclass(frozen=True)
class Measured:
    """The programs that ran, the one with most temporaries first.

    Args:
      programs: one for each program.
    """

    programs: tuple[Cost, ...]

    @property
    def temp_bytes(self) -> int:
        """Temporaries of the largest program: programs run one after another."""
        return max((p.temp_bytes for p in self.programs), default=0)

    @property
    def peak_bytes(self) -> int:
        """Peak of the program that needs most."""
        return max((p.peak_bytes for p in self.programs), default=0)

    @property
    def flops(self) -> float:
        """Arithmetic of all runs together."""
        return sum(p.flops * p.runs for p in self.programs)

    @property
    def accessed_bytes(self) -> int:
        """Bytes that all runs together read and write: what memory has to move."""
        return sum(p.accessed_bytes * p.runs for p in self.programs)

    def __str__(self) -> str:
        head = (
            f"{'program':<24}{'steps':>6}{'runs':>6}{'temp MiB':>10}{'peak MiB':>10}{'Gflop':>10}"
            f"{'accessed MiB':>14}"
        )
        rows = [
            f"{p.name[:23]:<24}{p.steps:>6}{p.runs:>6}{p.temp_bytes / 2**20:>10.2f}"
            f"{p.peak_bytes / 2**20:>10.2f}{p.flops / 1e9:>10.3f}{p.accessed_bytes / 2**20:>14.2f}"
            for p in self.programs
        ]
        return "\n".join([head, *rows])


def measure(fn: Callable[..., Any], *args: Any, warmup: int = 1) -> Measured:
    """Run ``fn(*args)`` and tell what its programs cost.

    Args:
      fn: usually one training step.
      warmup: runs before the measured one: a first step compiles other programs than a later one.

    Programs of other threads that run meanwhile are counted too. NumPy computes nothing meanwhile (`engine.cold`).

    Returns:
      Measured: bytes, seconds, counts.

    Raises:
      TypeError: ``fn`` cannot be called, or ``warmup`` is no int.
      ValueError: ``warmup`` is negative.

    >>> import mxjax as mx
    >>> x = mx.np.ones((64, 64))
    >>> cost = mx.memonger.measure(lambda: mx.np.dot(x, x).wait_to_read())
    >>> len(cost.programs), cost.flops >= 2 * 64**3
    (1, True)
    """
    if not callable(fn):
        raise errors.MXNetTypeError(
            f"measure takes a function and what it is called with, got {fn!r} ({type(fn).__name__}). Write "
            "measure(step, x), or measure(lambda: ...)"
        )
    if not isinstance(warmup, int) or isinstance(warmup, bool):
        raise errors.MXNetTypeError(
            f"warmup is a number of runs (an int), got {warmup!r} ({type(warmup).__name__})"
        )
    if warmup < 0:
        raise errors.MXNetValueError(f"warmup is a number of runs, 0 or more, got {warmup}")
    with settings.scope("engine.cold", "compile"):  # what NumPy computes at first has no programs
        for _ in range(warmup):
            fn(*args)
        core.wait_all()
        watch = _Watch()
        core.observe(watch)
        try:
            fn(*args)
            core.wait_all()
        finally:
            core.unobserve(watch)
    return measured(watch.runs)


def measured(runs: Counter[Any]) -> Measured:
    """What programs cost that run so often."""
    costs = [cost(p, n) for p, n in runs.items()]
    return Measured(tuple(sorted(costs, key=lambda c: -c.temp_bytes)))


class _Watch(core.hooks.SegmentObserver):
    """Counts the runs of programs."""

    def __init__(self) -> None:
        self.runs: Counter[Any] = Counter()

    def on_program(self, program: Any, results: Sequence[Any], start: int, stop: int) -> None:
        self.runs[program] += 1


def cost(program: Any, runs: int) -> Cost:
    """What XLA says of a compiled program (``core.compile.program.Program``)."""
    memory = program.compiled.memory_analysis()
    counted = counts(program.compiled)
    flops, touched = repeated(program.compiled)
    return Cost(
        program.name,
        len(program.steps),
        runs,
        memory.temp_size_in_bytes,
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes,
        memory.alias_size_in_bytes,
        counted.get("flops", 0.0) + flops,
        int(counted.get("bytes accessed", 0.0) + touched),
    )


def human(count: float, digits: int = 2) -> str:
    """Bytes for people.

    >>> human(3 * 2**20)
    '3.00 MiB'
    """
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.{digits if unit != 'B' else 0}f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"
