"""The search for segments: thresholds as in Chen et al. 2016, then a genetic search as in MegEngine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

import numpy as np

from mxjax import errors, settings

from .liveness import Liveness

# Thresholds that are tried at once; the next ones lie around the best of these.
ROUND = 5
# The first thresholds lie between the estimate of the best one divided and multiplied by this.
AROUND = 1.5
_SEED = 20160421

Ends: TypeAlias = tuple[int, ...]  # places where segments end


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


class Stats(NamedTuple):
    """What a search did.

    Attributes:
      evaluated: different plans judged, the empty one among them.
      thresholds: thresholds tried.
      generations: rounds of the genetic search.
      population: plans in each.
      concurrent: workers that judged plans at the same time.
    """

    evaluated: int = 1
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
    ends: Ends
    again: tuple[bool, ...]
    peak: int


Judge: TypeAlias = Callable[[Sequence[Ends]], list[Found]]


def search(live: Liveness, how: Options) -> tuple[Found, Stats]:
    """The best plan found, ``ends == ()`` where nothing need be computed again."""
    bound = how.lower_bound_mb << 20
    nothing = Found(max(live.peak, bound), 0.0, (), (), live.peak)
    if live.peak <= bound or live.size < 3:
        return nothing, Stats()
    known: dict[Ends, Found] = {}
    with ThreadPoolExecutor(how.workers, "sublinear") as pool:

        def judge(plans: Sequence[Ends]) -> list[Found]:
            new = [p for p in dict.fromkeys(plans) if p not in known]
            known.update(zip(new, pool.map(lambda p: price(live, p, bound), new), strict=True))
            return [known[p] for p in plans]

        _try_thresholds(live, how.trials, bound, judge)
        if how.genetic_iters:
            best = [f.ends for f in sorted(known.values())][: how.pool_size]
            _breed(live.size - 1, how, best or [(live.size // 2, live.size - 1)], judge)
    population = how.pool_size if how.genetic_iters else 0
    stats = Stats(1 + len(known), how.trials, how.genetic_iters, population, how.workers)
    return min([nothing, *known.values()]), stats


def _try_thresholds(live: Liveness, trials: int, bound: int, judge: Judge) -> None:
    """A walk through the graph that cuts at the next place where more than a threshold is held."""
    # Cut everywhere: what is kept in all, and what one stretch holds inside. With n stretches of b
    # kept and c inside a threshold of t makes segments of (t - i * b) / c stretches, together
    # t ** 2 / (2 * b * c): all n of them for t = sqrt(2 * n * b * c).
    at = np.arange(live.size - 1)
    kept, inside = live.kept[at, at + 1], live.inside[at, at + 1]
    estimate = (2 * float(kept.sum()) * float(inside.mean())) ** 0.5 + float(inside.max()) / 2
    # Up to a lower bound: many small segments leave room to keep the inside of some, few large ones
    # are fewer ends.
    low, high = max(1.0, estimate) / AROUND, max(1.0, estimate, bound) * AROUND
    for done in range(0, trials, ROUND):
        count = min(ROUND, trials - done)
        tried = np.geomspace(low, high, count + 2)
        found = judge([_walk(live, t) for t in tried[1:-1]])
        best = 1 + min(range(count), key=lambda k: found[k])
        low, high = tried[best - 1], tried[best + 1]


def _walk(live: Liveness, threshold: float) -> Ends:
    ends, start, held, last = [0], 0, 0, live.size - 1
    while start < last:
        # The longest stretch from here that fits, but one place at least.
        fits = np.searchsorted(live.inside[start, start:], threshold - held, side="right")
        stop = min(max(start + int(fits) - 1, start + 1), last)
        held += int(live.kept[start, stop])
        ends.append(stop)
        start = stop
    return tuple(ends[1:])


def _breed(last: int, how: Options, pool: Sequence[Ends], judge: Judge) -> None:
    """Plans are crossed and changed at random; the best of parents and children live on."""
    draw = random.Random(_SEED)

    def changed(ends: Iterable[int]) -> Ends:
        """One end moved, taken away, or put in between."""
        inner = [e for e in ends if e != last]
        kind = draw.choice(("move", "move", "drop", "add")) if inner else "add"
        gone = 0 if kind == "add" else inner.pop(draw.randrange(len(inner)))
        if kind == "add":
            inner.append(draw.randrange(1, last))
        elif kind == "move":
            inner.append(min(max(gone + draw.choice((-2, -1, 1, 2)), 1), last - 1))
        return (*sorted(set(inner)), last)

    def child(parents: Sequence[Found]) -> Ends:
        """One parent's ends up to a place, the other's from there."""
        a, b = (min(draw.choice(parents), draw.choice(parents)).ends for _ in range(2))
        at = draw.randrange(1, last + 1)
        ends = sorted({*(e for e in a if e < at), *(e for e in b if e >= at)})
        return changed(ends) if draw.random() < 0.8 else tuple(ends)

    more = [changed(draw.choice(pool)) for _ in range(how.pool_size - len(pool))]
    living = judge([*pool, *more])
    for _ in range(how.genetic_iters):
        children = judge([child(living) for _ in range(how.pool_size)])
        living = sorted({*living, *children})[: how.pool_size]


def price(live: Liveness, ends: Ends, bound: int = 0) -> Found:
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
