"""A graph as a chain of units, and what each may keep for the backward pass at what cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from mxjax.core import SCALAR, SCALARS, compiler

from ._arrange import ALL, Part, function, last_uses, unit
from ._price import Price, kept, price
from ._rooms import Stay, lodged

if TYPE_CHECKING:
    from mxjax.core import Graph

# A cut must hold back this many times the bytes that it makes the graph keep, on both sides.
WORTH = 2.5
MOST = 96  # units


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


class Treatment(NamedTuple):
    """What follows from keeping some results: see :meth:`Chain.treat`."""

    kept: frozenset[int]
    takes: frozenset[int]
    flops: float
    cost: float
    work: int


class Unit(NamedTuple):
    """Steps between two cuts: its name, and its kind (units of a kind have equal options)."""

    start: int
    stop: int
    name: str
    kind: int


class Chain:
    """A graph in units.

    Args:
      graph: a network's forward computation.
      wants: which inputs are differentiated; ``None`` for those that the network is called with.
    """

    def __init__(self, graph: Graph, wants: Sequence[bool | None]):
        self.graph = graph
        self.steps = graph.steps
        self.last = last_uses(graph.steps, graph.outputs)
        self.platform = compiler.platform_of(graph.avals[0].device)
        avals: dict[int, Any] = {-1 - i: a for i, a in enumerate(graph.avals)}
        avals.update({s.first + k: a for s in self.steps for k, a in enumerate(s.avals)})
        self.avals = avals
        self.size = {k: a.nbytes for k, a in avals.items()}
        self.wanted = {-1 - i for i, w in enumerate(wants) if w and graph.avals[i].differentiable}
        # What the network is called with crosses cuts as results do, though it is held by its owner.
        self.data = {-1 - i for i, w in enumerate(wants) if w is None}
        self.last.update({i: at for at, s in enumerate(self.steps) for i in s.args if i in self.data})
        self.prices: list[Price] = []
        self.maker: dict[int, int] = {}
        for at, s in enumerate(self.steps):
            asked = tuple([i in self.wanted for i in s.args])
            operands = [graph.fmt[i - SCALAR] if i >= SCALAR else avals[i] for i in s.args]
            self.prices.append(price(s.call, operands, asked, self.platform))  # type: ignore[arg-type]
            for k, a in enumerate(s.avals):
                self.maker[s.first + k] = at
                if any(asked) and a.differentiable:
                    self.wanted.add(s.first + k)

        self._lodged = self._lodge()

    def _lodge(self) -> set[Any]:
        """What waits in the room of a gradient where all is kept: numbers of results, and ``("gradient", number)``
        for theirs, ``("inner", step)`` for what a costly call keeps inside.

        A step's moment is its place forward, and backward counted from the end. A gradient is written where
        the backward pass reaches the parameter's first use.
        """
        steps, size = self.steps, self.size
        end = 2 * len(steps) - 1
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for at, s in enumerate(steps):
            for i in s.args:
                first.setdefault(i, at)
                last[i] = at
        rooms = [(size[i], end - first[i]) for i in self.graph.written if i in first and i in self.wanted]
        outputs = set(self.graph.outputs)
        stays = []
        for at, (s, p) in enumerate(zip(steps, self.prices, strict=True)):
            for o, k in enumerate(range(s.first, s.first + len(s.avals))):
                if k in outputs or k not in first:
                    continue
                stays.append(Stay(k, at, end - (at if o in p.outs else first[k]), size[k]))
                if k in self.wanted:
                    stays.append(Stay(("gradient", k), end - last[k], end - at, size[k]))
            if p.costly and p.inner:
                stays.append(Stay(("inner", at), at, end - at, p.inner))
        return lodged(stays, rooms)

    def room(self, results: Iterable[int]) -> int:
        """Bytes that results take while they wait, those aside that are in a gradient's room."""
        return sum(self.size[k] for k in results if k not in self._lodged)

    def _gradients(self, results: Iterable[int]) -> int:
        """The same of their gradients."""
        return sum(self.size[k] for k in results if ("gradient", k) not in self._lodged)

    # ---- cuts --------------------------------------------------------------------------------------

    @cached_property
    def units(self) -> list[Unit]:
        """The finest chain worth having.

        The cheapest cut comes first, between equal ones that between the larger blocks, then that before
        a costly step. A cut is good when both sides hold a costly step and several times the bytes that
        must be kept for it. So there is none inside a residual block, where two arrays would cross, unless one
        of them is the block's own input, the other small, and what follows the larger part: the backward pass
        goes through that while nothing of the smaller one need be there. Arrays that pass the whole stretch
        (the long way round of a U-Net, an encoder's result) do not count there.
        """
        steps = self.steps
        n = len(steps)
        inside = [0]
        costly = [0]
        for s, p in zip(steps, self.prices, strict=True):
            inside.append(inside[-1] + sum(a.nbytes for a in s.avals) * (p.cost > 0))
            costly.append(costly[-1] + p.costly)
        least = inside[n] / MOST

        def best(start: int, stop: int) -> int | None:
            for crossing, larger in zip(self._crossing(start, stop), (0, 1), strict=True):
                grain = max(crossing) / 64 + 1
                good = [
                    (int(c / grain), _common(steps[p - 1].scope, steps[p].scope), not self.prices[p].costly, p)
                    for p, c in enumerate(crossing, start)
                    if start < p < stop
                    and costly[start] < costly[p] < costly[stop]
                    and min(inside[p] - inside[start], inside[stop] - inside[p]) >= max(least, WORTH * c)
                    and inside[stop] - inside[p] >= larger * (inside[p] - inside[start])
                ]
                if good:
                    return min(good)[3]
            return None

        ends = []
        todo = [(0, n)] if n else []
        while todo:
            start, stop = todo.pop()
            cut = best(start, stop)
            if cut is None:
                ends.append((start, stop))
            else:
                todo += [(cut, stop), (start, cut)]
        kinds: dict[Any, int] = {}
        units = []
        for start, stop in ends:
            kind = kinds.setdefault(self._likeness(start, stop), len(kinds))
            units.append(Unit(start, stop, self._name(start, stop), kind))
        return units

    def _crossing(self, start: int, stop: int) -> tuple[list[int], list[int]]:
        """For each position from start to stop, bytes of the results that cross it and are made or used
        for the last time between start and stop; and the same without what is kept anyway.

        The latter is where but one of them is made there: then those from before are not counted that the
        stretch up to the position takes. (Where more cross, XLA keeps what suits its fusions, and the model
        is too far from it to be of use.)
        """
        taken: dict[int, int] = {}  # and by which step first
        for at in range(start, stop):
            for i in self.steps[at].args:
                taken.setdefault(i, at)
        made = {k for s in self.steps[start:stop] for k in range(s.first, s.first + len(s.avals))}
        size = stop - start + 2
        whole, spared, count = [0] * size, [0] * size, [0] * size
        for k in made.union(taken):
            if k not in self.maker and k not in self.data:
                continue
            at, until = self.maker.get(k, -1), self.last.get(k, -1)
            if until == len(self.steps) or until <= at or (at < start and until >= stop):
                continue
            low, high = max(at + 1, start) - start, min(until, stop) - start
            for change, amount, end in (
                (whole, self.size[k], high),
                (spared, self.size[k], high if k in made else min(high, taken[k] - start)),
                (count, k in made, high),
            ):
                change[low] += amount
                change[end + 1] -= amount
        sums = [list(accumulate(x))[:-1] for x in (whole, spared, count)]
        return sums[0], [few if n == 1 else all_ for all_, few, n in zip(*sums, strict=True)]

    def _likeness(self, start: int, stop: int) -> Any:
        """Equal for stretches that compute the same on operands of the same shapes."""
        base = self.steps[start].first
        seen: dict[int, int] = {}
        made = []
        for s in self.steps[start:stop]:
            args = tuple(
                i - base
                if base <= i < SCALAR
                else (seen.setdefault(i, len(seen)), i >= 0, i in self.wanted, self.avals.get(i))
                for i in s.args
            )
            leaves = tuple(self.last.get(s.first + k, -1) >= stop for k in range(len(s.avals)))
            made.append((s.call, args, leaves))
        return tuple(made)

    def _name(self, start: int, stop: int) -> str:
        """The innermost block around the steps, and which of its children they are in."""
        scopes = [s.scope.split("/") for s in self.steps[start:stop]]
        level = 0
        while all(len(x) > level for x in scopes) and len({x[level] for x in scopes}) == 1:
            level += 1
        whole = "/".join(scopes[0][:level])
        inner = list(dict.fromkeys(x[level] for x in scopes if len(x) > level))
        others = {
            s.scope for s in (*self.steps[max(0, start - 1) : start], *self.steps[stop : stop + 1])
        }
        alone = whole and not any(o == whole or o.startswith(whole + "/") for o in others)
        if alone or not inner:
            return whole or self.graph.name
        return f"{whole}/{'+'.join(inner)}" if whole else "+".join(inner)

    # ---- treatments --------------------------------------------------------------------------------

    def treat(self, start: int, stop: int, keep: frozenset[int] | None) -> Treatment:
        """What the backward pass through some steps needs when it finds the results ``keep``.

        ``None`` keeps all results. What calls keep inside themselves is made again from their operands
        (XLA does so by itself where that is a matter of one pass).
        """
        steps, prices = self.steps, self.prices
        own = range(steps[start].first, steps[stop - 1].first + len(steps[stop - 1].avals))
        needed: dict[int, int] = {}  # results and the first step whose derivative reads them
        redone: dict[int, int] = {}
        flops = cost = 0.0
        once: set[int] = set()  # wanted only to compute others again
        for at in range(stop - 1, start - 1, -1):
            s, p = steps[at], prices[at]
            again, results = (p.again, frozenset[int]()) if keep is not None else p.with_results
            reads = [s.args[i] for i in p.ins | again] + [s.first + k for k in p.outs | results]
            for i in reads:
                if 0 <= i < SCALAR:
                    needed[i] = at
            made = range(s.first, s.first + len(s.avals))
            lost = keep is not None and any(k not in keep and (k in needed or k in once) for k in made)
            if lost:
                flops += p.flops
                cost += p.cost
                once.update(i for i in s.args if 0 <= i < SCALAR)
                redone.update({k: needed[k] for k in made if k in needed and k not in keep})  # type: ignore[operator]
            elif keep is not None:
                flops += p.inner_flops
                cost += p.inner_cost
        all_needed = {**dict.fromkeys(once, start), **needed}
        found = {k: at for k, at in all_needed.items() if k in own and k not in redone}
        found = {k: at for k, at in found.items() if keep is None or k in keep}
        takes = frozenset(k for k in all_needed if k not in own)
        work = self._work(start, stop, own, {**found, **redone})
        return Treatment(frozenset(found), takes, flops, cost, work)

    def _work(self, start: int, stop: int, own: range, alive: dict[int, int]) -> int:
        """The most bytes in use in the backward pass: results until their last reader, and gradients."""
        change = [0] * (stop - start + 2)

        def use(low: int, high: int, bytes: int) -> None:  # steps low..high, inclusive
            change[low - start] += bytes
            change[high + 1 - start] -= bytes

        for k, until in alive.items():
            use(max(until, start), stop - 1, self.room((k,)))
        last: dict[int, int] = {}
        for at in range(start, stop):
            for i in self.steps[at].args:
                if i >= 0 and i in self.wanted:
                    last[i] = at
            if self.prices[at].costly and ("inner", at) not in self._lodged:
                use(at, at, self.prices[at].inner)
        for k, at in last.items():  # a gradient lives from its first reader's turn to its maker's
            use(self.maker[k] if k in own else start, at, self._gradients((k,)))
        for k in own:
            if k in self.wanted and self.last.get(k, -1) >= stop:
                use(self.maker[k], stop - 1, self._gradients((k,)))
        most = now = 0
        for x in change:
            now += x
            most = max(most, now)
        return most

    def families(self) -> list[list[tuple[str, Treatment, Part]]]:
        """For each unit the ways to treat it that are not worse than another in every respect."""
        known: dict[int, tuple[int, list[frozenset[int] | None]]] = {}
        found = []
        for u in self.units:
            base = self.steps[u.start].first
            if u.kind not in known:
                keeps = self._keeps(u)
                known[u.kind] = base, keeps
            at, keeps = known[u.kind]
            moved = [
                None if k is None else frozenset(i - at + base for i in k) for k in keeps
            ]
            family = []
            for k in moved:
                t = self.treat(u.start, u.stop, k)
                family.append((self._words(k, t), t, Part(u.stop, ALL if k is None else t.kept)))
            found.append(family)
        return found

    def _words(self, keep: frozenset[int] | None, t: Treatment) -> str:
        if keep is None:
            return "keep all"
        if not t.kept:
            return "recompute"
        names = dict.fromkeys(self._label(k) for k in sorted(t.kept))
        return "keep " + ", ".join(names)

    def _label(self, k: int) -> str:
        at = self.maker[k]
        while not self.prices[at].flops and self.steps[at].args and self.steps[at].args[0] in self.maker:
            at = self.maker[self.steps[at].args[0]]  # the same numbers in another order
        s = self.steps[at]
        assert s.call is not None
        inner = s.scope.rpartition("/")[2]
        return inner if inner and self.prices[at].costly and s.call.name != "matmul" else s.call.name

    def _keeps(self, u: Unit) -> list[frozenset[int] | None]:
        """Sets of results worth keeping: from none up, each time the one that saves most for its bytes,
        and from all down, each time the one that costs least for its bytes."""
        own = [
            s.first + k
            for s in self.steps[u.start : u.stop]
            for k in range(len(s.avals))
            if self.size[s.first + k]
        ]
        tried: dict[frozenset[int], Treatment] = {}

        def treat(keep: frozenset[int]) -> Treatment:
            if keep not in tried:
                tried[keep] = self.treat(u.start, u.stop, keep)
            return tried[keep]

        keep: frozenset[int] = frozenset()
        while True:
            now = treat(keep)
            better = [(self.bytes(t.kept) - self.bytes(now.kept), now.cost - t.cost, keep | {k}) for k in own
                      if k not in keep and (t := treat(keep | {k})).cost < now.cost]  # fmt: skip
            if not better:
                break
            keep = max(better, key=lambda b: b[1] / max(b[0], 1))[2]
        keep = treat(frozenset(own)).kept
        while keep:
            now = treat(keep)
            fewer = [(self.bytes(now.kept) - self.bytes(t.kept), t.cost - now.cost, t.kept) for k in keep
                     if (t := treat(keep - {k})) and t.kept != now.kept]  # fmt: skip
            if not fewer:
                break
            keep = min(fewer, key=lambda b: b[1] / max(b[0], 1))[2]
        best: list[frozenset[int] | None] = [None]
        least = float("inf")
        for t in sorted(tried.values(), key=lambda t: (self.bytes(t.kept), t.cost)):
            if t.cost < least:
                least = t.cost
                best.append(t.kept)
        return best

    def bytes(self, results: Iterable[int]) -> int:
        return sum(self.size[k] for k in results)

    def whole(self, u: Unit) -> int:
        """Bytes that JAX's derivative of a unit holds when all is kept, its operands aside."""
        steps = unit(self.steps, u.start, u.stop, self.last)
        scalars = self.graph.fmt
        structs = [SCALARS[scalars[i - SCALAR]] if i >= SCALAR else self.avals[i].struct for i in steps.takes]
        wants = [i in self.wanted for i in steps.takes]
        if not any(wants):
            return 0
        with compiler.for_platform(self.platform):
            found = kept(function(steps), structs, wants)
        return found.inner + self.bytes(steps.gives[k] for k in found.outs)

    def excess(self) -> list[float]:
        """For each kind of unit by how much :meth:`whole` is more than what must be held.

        Of that the share counts which, as of what must be held and of what costly calls keep inside, is not in
        a gradient's room; the mean of a kind's units.
        """
        whole: dict[int, int] = {}
        found: dict[int, list[float]] = {}
        for u in self.units:
            needed = self.treat(u.start, u.stop, None).kept
            if u.kind not in whole:
                whole[u.kind] = max(0, self.whole(u) - self.bytes(needed))
            own: list[tuple[int, Any]] = [(self.size[k], k) for k in needed]
            own += [(p.inner, ("inner", at)) for at, p in enumerate(self.prices[u.start : u.stop], u.start) if p.costly]
            every = sum(nbytes for nbytes, _ in own)
            outside = sum(nbytes for nbytes, key in own if key not in self._lodged)
            found.setdefault(u.kind, []).append(whole[u.kind] * (outside / every if every else 1.0))
        return [sum(found[k]) / len(found[k]) for k in range(len(found))]

    # ---- options -----------------------------------------------------------------------------------

    def options(self) -> list[list[Option]]:
        """For each unit what may be done from there on: with it alone, or with several as one segment.

        An array that several units read is held once: by the first that always does.
        """
        families = self.families()
        owner: dict[int, int] = {}
        for at, family in enumerate(families):
            for k in frozenset.intersection(*[t.takes for _, t, _ in family]):
                owner.setdefault(k, at)
        units = self.units
        found: list[list[Option]] = []
        for i, (u, family) in enumerate(zip(units, families, strict=True)):
            here = [self._option(u.start, u.stop, i, i + 1, part, t, owner, words) for words, t, part in family]
            for count in _counts(len(units) - i):
                here.extend(self._segments(i, i + count, families, owner))
            found.append(here)
        return found

    def _option(
        self,
        start: int,
        stop: int,
        first: int,
        end: int,
        part: Part,
        t: Treatment,
        owner: dict[int, int],
        words: str,
    ) -> Option:
        taken = self.room(k for k in t.takes if first <= owner.get(k, first) < end)
        # A result that is used behind the unit is held by its reader, unless that is in this segment too and
        # finds it computed again.
        own = self.room(k for k in t.kept if k not in owner)
        own += self.room(
            k
            for k, at in owner.items()
            if first <= at < end and start <= self.maker.get(k, -1) and stop <= self.last[k] < len(self.steps)
        )
        passing = self._gradients(
            k
            for k in self.wanted
            if 0 <= k < self.steps[start].first and self.last.get(k, -1) >= stop
        )
        return Option(start, stop, part, taken + own, taken + t.work + passing, t.flops, t.cost, words)

    def _segments(
        self,
        i: int,
        j: int,
        families: list[list[tuple[str, Treatment, Part]]],
        owner: dict[int, int],
    ) -> Iterable[Option]:
        """Units as one segment of which nothing is kept: computed again at once, or unit by unit."""
        start, stop = self.units[i].start, self.units[j - 1].stop
        whole = self.treat(start, stop, frozenset())
        count = j - i
        yield self._option(start, stop, i, j, Part(stop), whole, owner, f"recompute {count} as one")
        # Unit by unit: the segment's own computation gives what the units take, each then redoes itself.
        inner = [self._leanest(family) for family in families[i:j]]
        own = range(self.steps[start].first, self.steps[stop - 1].first + len(self.steps[stop - 1].avals))
        between = {k for _, t, _ in inner for k in t.takes if k in own}
        flops = cost = 0.0
        todo = set(between)
        for at in range(stop - 1, start - 1, -1):
            s = self.steps[at]
            if any(s.first + k in todo for k in range(len(s.avals))):
                todo.update(x for x in s.args if 0 <= x < SCALAR)
                flops += self.prices[at].flops
                cost += self.prices[at].cost
        takes = frozenset(k for k in todo if k not in own) | frozenset(
            k for _, t, _ in inner for k in t.takes if k not in own
        )
        work = self.room(between) + max(t.work for _, t, _ in inner)
        nested = Treatment(
            frozenset(),
            takes,
            flops + sum(t.flops for _, t, _ in inner),
            cost + sum(t.cost for _, t, _ in inner),
            work,
        )
        part = Part(stop, frozenset(), tuple(p for _, _, p in inner))
        yield self._option(start, stop, i, j, part, nested, owner, f"recompute {count}, one by one")

    def _leanest(self, family: list[tuple[str, Treatment, Part]]) -> tuple[str, Treatment, Part]:
        return min(family[1:], key=lambda f: self.bytes(f[1].kept))


def _counts(most: int) -> list[int]:
    """How many units a segment may hold: 2, 3, 4, 6, 8, 12, ..."""
    found = []
    k = 2
    while k <= most:
        found.append(k)
        k = k * 3 // 2 if k & (k - 1) == 0 and k > 2 or k == 2 else k * 4 // 3
    return found


def _common(a: str, b: str) -> int:
    """How many levels of blocks two steps share."""
    levels = 0
    for x, y in zip(a.split("/"), b.split("/"), strict=False):
        if x != y:
            break
        levels += 1
    return levels
