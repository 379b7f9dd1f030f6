"""The search for segments: thresholds as in Chen et al. 2016, then a genetic search as in MegEngine."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mxjax import errors, settings

from .liveness import Liveness

# Thresholds that are tried at once; the next ones lie around the best of these.
ROUND = 5
# The first thresholds lie between the estimate of the best one divided and multiplied by this.
AROUND = 1.5
_SEED = 20160421


class Options(NamedTuple):
    """How hard to search, as MegEngine's ``SublinearMemoryConfig``.

    Attributes:
      lower_bound_mb: bytes (in MiB) that need not be undercut: plans below are not pursued, and of those
        that reach it the one that computes least again wins.
      trials: how many thresholds are tried.
      genetic_iters: generations of the genetic search.
      pool_size: plans in a generation.
      workers: threads that judge plans.
    """

    lower_bound_mb: int
    trials: int
    genetic_iters: int
    pool_size: int
    workers: int


def options(**given: int | None) -> Options:
    """The options in force, but for those given.

    Raises:
      MXNetValueError: one is out of its range, or generations are asked for of a pool of none.
    """
    unknown = [name for name in given if name not in Options._fields]
    if unknown:
        raise errors.MXNetTypeError(
            f"the search has no option {unknown[0]!r}{errors.did_you_mean(unknown[0], Options._fields)}; "
            f"it has: {', '.join(Options._fields)}"
        )
    found = Options(
        *(settings.resolve(f"memory.sublinear_{f}", given.get(f)) for f in Options._fields)
    )
    if found.genetic_iters > 0 and found.pool_size == 0:
        raise errors.MXNetValueError(
            f"genetic_iters={found.genetic_iters} generations of pool_size=0 plans: a genetic search needs "
            "plans to cross; set memory.sublinear_pool_size (MGB_SUBLINEAR_MEMORY_GENETIC_POOL_SIZE) to 2 or "
            "more, or memory.sublinear_genetic_iters to 0"
        )
    return found


@dataclass
class Stats:
    """What a search did.

    Attributes:
      evaluated: different plans judged, the empty one among them.
      thresholds: thresholds tried.
      generations: rounds of the genetic search.
      population: plans in each.
      concurrent: the most workers that judged plans at the same time.
    """

    evaluated: int = 0
    thresholds: int = 0
    generations: int = 0
    population: int = 0
    concurrent: int = 0


class Found(NamedTuple):
    """A plan and its price; smaller is better, field by field.

    Attributes:
      bound: bytes held at the worst moment, or the lower bound where that is more.
      flops: arithmetic done again.
      ends: the places where its segments end.
      again: which of them are computed again.
      peak: bytes held at the worst moment.
    """

    bound: int
    flops: float
    ends: tuple[int, ...]
    again: tuple[bool, ...]
    peak: int


def search(live: Liveness, how: Options) -> tuple[Found, Stats]:
    """The best plan found, ``ends == ()`` where nothing need be computed again."""
    return _Search(live, how).run()


class _Search:
    def __init__(self, live: Liveness, how: Options):
        self.live = live
        self.how = how
        self.stats = Stats()
        self.bound = how.lower_bound_mb << 20
        self.known: dict[tuple[int, ...], Found] = {}
        self._lock = threading.Lock()
        self._busy = 0

    def run(self) -> tuple[Found, Stats]:
        whole = self.live.peak
        self.stats.evaluated = 1
        nothing = Found(max(whole, self.bound), 0.0, (), (), whole)
        if whole <= self.bound or self.live.size < 3:
            return nothing, self.stats
        self._thresholds()
        self._generations()
        self.stats.evaluated += len(self.known)
        return min([nothing, *self.known.values()]), self.stats

    # ---- thresholds ------------------------------------------------------------------------------------

    def _thresholds(self) -> None:
        """A walk through the graph that cuts at the next place where more than a threshold is held."""
        low, high, left = self._first_range()
        while left:
            count = min(ROUND, left)
            left -= count
            tried = np.geomspace(low, high, count + 2)[1:-1]
            walks = [self._walk(t) for t in tried]
            self.stats.thresholds += count
            found = self._judge(walks)
            best = min(range(count), key=lambda k: found[k])
            step = (high / low) ** (1 / (count + 1))
            low, high = tried[best] / step, tried[best] * step

    def _first_range(self) -> tuple[float, float, int]:
        # Cut everywhere: what is kept in all, and what one stretch holds inside. With n stretches of b
        # kept and c inside a threshold of t makes segments of (t - i * b) / c stretches, together
        # t ** 2 / (2 * b * c): all n of them for t = sqrt(2 * n * b * c).
        at = np.arange(self.live.size - 1)
        kept, inside = self.live.kept[at, at + 1], self.live.inside[at, at + 1]
        one = float(inside.max())
        estimate = max(1.0, (2 * float(kept.sum()) * float(inside.mean())) ** 0.5 + one / 2)
        # Up to a lower bound: many small segments leave room to keep the inside of some, few large ones
        # are fewer ends.
        return estimate / AROUND, max(estimate, self.bound) * AROUND, self.how.trials

    def _walk(self, threshold: float) -> tuple[int, ...]:
        live = self.live
        ends: list[int] = []
        start, held, end = 0, 0, live.size - 1
        while True:
            # The longest stretch from here that fits, but one place at least.
            stop = start + int(
                np.searchsorted(live.inside[start, start:], threshold - held, side="right")
            )
            stop = max(stop - 1, start + 1)
            ends.append(min(stop, end))
            if stop >= end:
                return tuple(ends)
            held += int(live.kept[start, stop])
            start = stop

    # ---- genetic search --------------------------------------------------------------------------------

    def _generations(self) -> None:
        """Plans are crossed and changed at random; the best of parents and children live on."""
        size, rounds = self.how.pool_size, self.how.genetic_iters
        if not rounds:
            return
        draw = random.Random(_SEED)
        self.stats.population = size
        middle = (self.live.size // 2, self.live.size - 1)
        seeds = [f.ends for f in sorted(self.known.values())][:size] or [middle]
        pool = self._judge(
            seeds + [self._changed(draw.choice(seeds), draw) for _ in range(size - len(seeds))]
        )
        for _ in range(rounds):
            children = []
            for _ in range(size):
                a, b = (min(draw.choice(pool), draw.choice(pool)) for _ in range(2))
                child = self._crossed(a.ends, b.ends, draw)
                children.append(self._changed(child, draw) if draw.random() < 0.8 else child)
            pool = sorted({*pool, *self._judge(children)})[:size]
            self.stats.generations += 1

    def _crossed(self, a: Sequence[int], b: Sequence[int], draw: random.Random) -> tuple[int, ...]:
        """One plan's ends up to a place, the other's from there."""
        at = draw.randrange(1, self.live.size)
        return tuple(sorted({*(e for e in a if e < at), *(e for e in b if e >= at)}))

    def _changed(self, ends: Sequence[int], draw: random.Random) -> tuple[int, ...]:
        """One end moved, taken away, or put in between."""
        last = self.live.size - 1
        inner = [e for e in ends if e != last]
        kind = draw.choice(("move", "move", "drop", "add")) if inner else "add"
        if kind == "add":
            inner.append(draw.randrange(1, last))
        else:
            gone = inner.pop(draw.randrange(len(inner)))
            if kind == "move":
                inner.append(min(max(gone + draw.choice((-2, -1, 1, 2)), 1), last - 1))
        return (*sorted(set(inner)), last)

    # ---- judging ---------------------------------------------------------------------------------------

    def _judge(self, plans: Sequence[tuple[int, ...]]) -> list[Found]:
        """The price of each; those not known yet are shared among the workers."""
        new = [p for p in dict.fromkeys(plans) if p not in self.known]
        workers = min(self.how.workers, len(new))
        shares = [new[k::workers] for k in range(workers)]
        if workers > 1:
            together = threading.Barrier(workers)
            with ThreadPoolExecutor(workers, "sublinear") as pool:
                done = list(pool.map(lambda share: self._work(share, together), shares))
        else:
            done = [self._work(share) for share in shares]
        for found in (f for share in done for f in share):
            self.known[found.ends] = found
        return [self.known[p] for p in plans]

    def _work(
        self, share: Sequence[tuple[int, ...]], together: threading.Barrier | None = None
    ) -> list[Found]:
        with self._lock:
            self._busy += 1
            self.stats.concurrent = max(self.stats.concurrent, self._busy)
        try:
            if together is not None:
                together.wait()
            return [price(self.live, p, self.bound) for p in share]
        finally:
            with self._lock:
                self._busy -= 1


def price(live: Liveness, ends: tuple[int, ...], bound: int = 0) -> Found:
    """What segments with these ends hold at the worst moment, and the arithmetic they repeat."""
    stops = np.asarray(ends)
    starts = np.concatenate([[0], stops[:-1]])
    inside = live.inside[starts, stops]
    flops = live.flops[starts, stops]
    # While a segment is differentiated there is what it holds, and what all before it gave.
    held = np.concatenate([[0], np.cumsum(live.kept[starts, stops])[:-1]]) + inside
    peak = int(held.max())
    limit = max(peak, bound)
    again = [True] * len(ends)
    again[-1] = False
    # Where there is room, a segment need not be computed again: its inside stays while later ones run.
    for k in _dearest(flops, inside):
        if again[k]:
            raised = held[k + 1 :] + inside[k]
            if int(raised.max()) <= limit:
                held[k + 1 :] = raised
                again[k] = False
    peak = int(held.max())
    repeated = float(flops[np.asarray(again)].sum())
    return Found(max(peak, bound), repeated, tuple(int(e) for e in ends), tuple(again), peak)


def _dearest(flops: np.ndarray, inside: np.ndarray) -> Iterator[int]:
    """Segments by what a byte saves of arithmetic, the last of equals first."""
    order = np.lexsort((-np.arange(len(flops)), -flops / np.maximum(inside, 1)))
    return (int(k) for k in order)
