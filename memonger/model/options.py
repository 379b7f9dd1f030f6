"""What may be done with each stretch of a chain: keep all, keep some, compute it again in one of several ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..arrangement.parts import ALL, Part
from .knapsack import peak
from .liveness import Liveness
from .segments import LEVELS
from .segments import least as segments
from .treatment import Treatment, treatment

if TYPE_CHECKING:
    from .chain import Chain

JOINED = 6  # units at most that are treated as one of which some results are kept
RESULTS = 36  # at most in such a stretch: the sets of them that are tried are about its square


class Option(NamedTuple):
    """One way to treat the steps from ``start`` to ``stop``.

    ``held`` bytes wait for the backward pass; ``work`` bytes are in use, at most, while it is here (those
    held among them). ``flops`` are computed again, which takes the time of ``cost`` operations.
    ``decision`` says it in words.
    """

    start: int
    stop: int
    part: Part
    held: int
    work: int
    flops: float
    cost: float
    decision: str


class Way(NamedTuple):
    """A set of results to keep of a stretch: in words, what follows from it, and the part that does it."""

    words: str
    treatment: Treatment
    part: Part


class Stretch(NamedTuple):
    """The units from ``first`` to ``end`` (exclusive) as one, and the ways to treat it.

    None of these is worse than another in every respect. Where it is a single unit, the first keeps all.
    """

    first: int
    end: int
    ways: list[Way]


class Options:
    """The options of a chain.

    An array that several units read is held once: by the first that always does.
    """

    def __init__(self, chain: Chain):
        self.chain = chain
        self.units = [Stretch(i, i + 1, ways) for i, ways in enumerate(self._families(1))]
        self.joined: list[list[Stretch]] = [[] for _ in self.units]
        for count in range(2, JOINED + 1):
            for i, ways in enumerate(self._families(count)):
                if ways:
                    self.joined[i].append(Stretch(i, i + count, ways[1:]))
        self._owner = _owners((s.first, s.ways) for s in self.units)
        self._passes: dict[tuple[int, int], int] = {}

    def __call__(self) -> list[list[Option]]:
        """For each unit what may be done from there on: with it alone, or with several together."""
        return [
            [self._option(s, way) for s in (alone, *self.joined[i]) for way in s.ways]
            for i, alone in enumerate(self.units)
        ]

    # ---- stretches of which results are kept ---------------------------------------------------------

    def _families(self, count: int) -> Iterator[list[Way]]:
        """The ways to treat so many units from each on as one; equal stretches are looked at once."""
        chain = self.chain
        known: dict[Any, tuple[int, list[frozenset[int] | None]]] = {}
        for i in range(len(chain.units) - count + 1):
            u, last = chain.units[i], chain.units[i + count - 1]
            start, stop = u.start, last.stop
            if count > 1 and sum(len(s.avals) for s in chain.steps[start:stop]) > RESULTS:
                yield []
                continue
            base = chain.steps[start].first
            kind = u.kind if count == 1 else chain.likeness(start, stop)
            if kind not in known:
                known[kind] = base, self._keeps(start, stop)
            at, keeps = known[kind]
            moved = [None if k is None else frozenset(i - at + base for i in k) for k in keeps]
            yield [self._way(start, stop, k) for k in moved]

    def _way(self, start: int, stop: int, keep: frozenset[int] | None) -> Way:
        t = treatment(self.chain, start, stop, keep)
        return Way(
            self._words(keep, t),
            t,
            Part(stop, ALL) if keep is None else Part(stop, t.kept),
        )

    def _words(self, keep: frozenset[int] | None, t: Treatment) -> str:
        if keep is None:
            return "keep all"
        if not t.kept:
            return "recompute"
        names = dict.fromkeys(self._label(k) for k in sorted(t.kept))
        return "keep " + ", ".join(names)

    def _label(self, k: int) -> str:
        chain = self.chain
        at = chain.maker[k]
        while (
            not chain.prices[at].flops
            and chain.steps[at].args
            and chain.steps[at].args[0] in chain.maker
        ):
            at = chain.maker[chain.steps[at].args[0]]  # the same numbers in another order
        s = chain.steps[at]
        assert s.call is not None
        inner = s.scope.rpartition("/")[2]
        return (
            inner if inner and chain.prices[at].costly and s.call.name != "matmul" else s.call.name
        )

    def _keeps(self, start: int, stop: int) -> list[frozenset[int] | None]:
        """Sets of results worth keeping: from none up, each time the one that saves most for its bytes."""
        chain = self.chain
        own = [
            k
            for s in chain.steps[start:stop]
            for k in range(s.first, s.first + len(s.avals))
            if chain.size[k]
        ]
        tried: dict[frozenset[int], Treatment] = {}

        def treat(keep: frozenset[int]) -> Treatment:
            if keep not in tried:
                tried[keep] = treatment(chain, start, stop, keep, work=False)
            return tried[keep]

        def nbytes(t: Treatment) -> int:
            return chain.bytes(t.kept)

        keep: frozenset[int] = frozenset()
        while True:
            now = treat(keep)
            better = [(nbytes(t) - nbytes(now), now.cost - t.cost, keep | {k}) for k in own
                      if k not in keep and (t := treat(keep | {k})).cost < now.cost]  # fmt: skip
            if not better:
                break
            keep = max(better, key=lambda b: b[1] / max(b[0], 1))[2]
        best: dict[frozenset[int] | None, None] = {None: None}
        cheapest = float("inf")
        for t in sorted(tried.values(), key=lambda t: (nbytes(t), t.cost)):
            if t.cost < cheapest:
                cheapest = t.cost
                best[t.kept] = None
        return list(best)

    def _option(self, s: Stretch, way: Way) -> Option:
        """What a stretch needs."""
        chain, owner = self.chain, self._owner
        start, stop = self._span(s.first, s.end)
        words, t, part = way
        inside = range(s.first, s.end)
        taken = chain.waiting(k for k in t.takes if owner.get(k, s.first) in inside)
        # What a later stretch reads as well is held by the first reader, who may do without it here: because it is
        # computed again, or because what is kept is enough.
        own = chain.waiting(k for k in t.kept if owner.get(k, s.first) in inside)
        own += chain.waiting(
            k
            for k, at in owner.items()
            if at in inside
            and k not in t.takes | t.kept
            and stop <= chain.last[k] < len(chain.steps)
            and (t.kept or start <= chain.maker.get(k, -1))
        )
        work = taken + t.work + self._passing(start, stop)
        return Option(start, stop, part, taken + own, work, t.flops, t.cost, words)

    def _passing(self, start: int, stop: int) -> int:
        """Bytes of the gradients that pass a stretch."""
        if (start, stop) not in self._passes:
            chain = self.chain
            until = chain.steps[start].first
            self._passes[start, stop] = chain.gradients(
                k for k in chain.wanted if 0 <= k < until and chain.last.get(k, -1) >= stop
            )
        return self._passes[start, stop]

    def _span(self, first: int, end: int) -> tuple[int, int]:
        return self.chain.units[first].start, self.chain.units[end - 1].stop


def _owners(families: Iterable[tuple[int, list[Way]]]) -> dict[int, int]:
    """For each array the first unit that takes it in whichever way it is treated."""
    owner: dict[int, int] = {}
    for at, ways in families:
        for k in frozenset.intersection(*[w.treatment.takes for w in ways]):
            owner.setdefault(k, at)
    return owner


def lean(chain: Chain, room: float) -> list[Option]:
    """Units in segments that are computed again in segments, of which nothing is kept (``model/segments.py``): within
    so many bytes where that is possible."""
    live = Liveness(chain.graph, chain, [0, *(u.stop for u in chain.units)])

    def options(start: int, parts: Sequence[Part]) -> Iterator[Option]:
        for part in parts:
            i, j = live.places.index(start), live.places.index(part.stop)
            inner = list(options(start, part.parts))
            todo = chain.prices[start : part.stop] if part.keep != ALL else []
            yield Option(
                start,
                part.stop,
                part,
                int(live.kept[i, j]),
                peak(inner) if inner else int(live.inside[i, j]),
                sum(p.flops for p in todo) + sum(o.flops for o in inner),
                sum(p.cost for p in todo) + sum(o.cost for o in inner),
                f"recompute {j - i} in segments" if todo else "keep all",
            )
            start = part.stop

    return list(options(0, segments(live, LEVELS, room)))
