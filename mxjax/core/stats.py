"""Counters of the engine, so that tests assert counts instead of times."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields


@dataclass
class Stats:
    """What the engine did since the last reset (all threads together)."""

    operators: int = 0  # operator calls recorded and run
    segments: int = 0  # segments run
    programs: int = 0  # program executions
    compiled: int = 0  # programs compiled
    loaded: int = 0  # programs that an earlier process compiled and kept (cache.dir)
    quick: int = 0  # of these without the compiler's optimisation: what runs a few times
    optimised: int = 0  # quick programs that were compiled again, as well as can be
    seconds_quick: float = 0.0  # that compiling quick programs took, tracing included
    seconds_optimised: float = 0.0  # that compiling others took
    hits: int = 0  # segments whose program was there already
    donated: int = 0  # input buffers donated
    fallbacks: int = 0  # segments run operator by operator
    interpreted: int = 0  # segments run call by call, by NumPy where it can (engine.cold)
    traced: int = 0  # operator calls run on tracers of a surrounding transformation
    inferred: int = 0  # shape inferences that were not cached
    on_host: int = 0  # segments that NumPy computed, because they are a few small numbers
    rewritten: int = 0  # operators that stand for several (compiler.scope_fusions), each time a program is traced
    sent: int = (
        0  # transfers of numbers of steps to a GPU or TPU; none where they stay, or were foretold
    )
    waits: int = 0  # how often the host waited because too many programs ran ahead of it
    breaks: int = (
        0  # recordings of hybridized blocks given up, because the forward asked for a number
    )
    dense_fallbacks: int = 0  # operators that worked on dense arrays made of sparse ones
    numpy_fallbacks: int = (
        0  # functions of NumPy that ran on the host, because there is no row for them
    )
    evicted: int = 0  # programs that went because the store of them was full
    solo: int = 0  # segments of one small operator, counted here alone and added when asked

    def reset(self) -> None:
        for f in fields(self):
            setattr(self, f.name, 0)

    def as_dict(self) -> dict[str, int | float]:
        counts = asdict(self)
        solo = counts.pop("solo")
        for name in ("operators", "segments", "programs", "hits"):
            counts[name] += solo
        return counts


stats = Stats()
