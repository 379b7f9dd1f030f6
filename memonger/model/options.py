"""What may be done with each stretch of a chain: keep all, keep some, compute it again in one of several ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..arrangement.parts import ALL, Part
from .knapsack import peak
from .liveness import Liveness
from .segments import LEVELS
from .segments import least as segments
from .treatment import Treatment, treatment, work

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


class Options:
    """The options of a chain, by the unit at which they begin.

    ``ways`` has each stretch's treatments, none of them worse than another in every respect; of a single unit the
    first keeps all. What crosses from a stretch to a later one is held by the one that makes it.
    """

    def __init__(self, chain: Chain):
        self.chain = chain
        self.ways: list[list[list[Treatment]]] = [[] for _ in chain.units]
        for count in range(1, JOINED + 1):
            for i, ways in enumerate(self._families(count)):
                if ways:
                    self.ways[i].append(ways if count == 1 else ways[1:])

    def __call__(self) -> list[list[Option]]:
        """For each unit what may be done from there on: with it alone, or with several together."""
        return [[self._option(t) for ways in here for t in ways] for here in self.ways]

    def _families(self, count: int) -> Iterator[list[Treatment]]:
        """The ways to treat so many units from each on as one; equal stretches are looked at once."""
        chain = self.chain
        known: dict[Any, tuple[int, list[frozenset[int] | None]]] = {}
        for i in range(len(chain.units) - count + 1):
            u, last = chain.units[i], chain.units[i + count - 1]
            start, stop = u.start, last.stop
            if count > 1 and len(chain.made(start, stop)) > RESULTS:
                yield []
                continue
            base = chain.steps[start].first
            kind = u.kind if count == 1 else chain.likeness(start, stop)
            if kind not in known:
                known[kind] = base, self._keeps(start, stop)
            at, keeps = known[kind]
            moved = [None if k is None else frozenset(i - at + base for i in k) for k in keeps]
            yield [treatment(chain, start, stop, k) for k in moved]

    def _words(self, t: Treatment) -> str:
        if t.part.keep == ALL:
            return "keep all"
        names = dict.fromkeys(self._label(k) for k in sorted(t.kept))
        return "keep " + ", ".join(names) if names else "recompute"

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
        own = [k for k in chain.made(start, stop) if chain.size[k]]
        tried: dict[frozenset[int], Treatment] = {}

        def treat(keep: frozenset[int]) -> Treatment:
            if keep not in tried:
                tried[keep] = treatment(chain, start, stop, keep)
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

    def _option(self, t: Treatment) -> Option:
        """What a treatment needs, what it gives to later stretches held with what waits for its own backward pass."""
        chain, start, stop = self.chain, t.start, t.part.stop
        gives = {
            k for k in chain.made(start, stop) if stop <= chain.last.get(k, -1) < len(chain.steps)
        }
        held = chain.waiting(t.kept | gives)
        most = work(chain, start, stop, t.stays)
        return Option(start, stop, t.part, held, most, t.flops, t.cost, self._words(t))


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
