"""A graph as a chain of units, and what each may keep for the backward pass at what cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from mxjax.core import SCALAR, SCALARS, compiler

from ..arrangement.parts import function, last_uses, likeness, unit
from .gradient_buffers import Stay, lodged
from .price import Price, kept, price

if TYPE_CHECKING:
    from mxjax.core import Graph

# A cut must hold back this many times the bytes that it makes the graph keep, on both sides.
WORTH = 1.0
MOST = 96  # units


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
        """What waits in the room of a gradient where all is kept: numbers of results that derivatives read, and
        ``("gradient", number)`` for theirs, ``("inner", step)`` for what a costly call keeps inside.

        A step's moment is its place forward, and backward counted from the end. A gradient is written where
        the backward pass reaches the parameter's first use.
        """
        steps, size = self.steps, self.size
        end = 2 * len(steps) - 1
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        read: dict[int, int] = {}  # by a derivative, the last time in the backward pass
        for at, s in enumerate(steps):
            for i in s.args:
                first.setdefault(i, at)
                last[i] = at
            for k in self._reads(at, None):
                read.setdefault(k, at)
        rooms = [(size[i], end - first[i]) for i in self.graph.written if i in first and i in self.wanted]
        outputs = set(self.graph.outputs)
        stays = []
        for at, (s, p) in enumerate(zip(steps, self.prices, strict=True)):
            for k in range(s.first, s.first + len(s.avals)):
                if k in outputs or k not in first:
                    continue
                if k in read:
                    stays.append(Stay(k, at, end - read[k], size[k]))
                else:  # where it has to wait, since something is computed again from it, it has no such room
                    stays.append(Stay(("passing", k), at, last[k], size[k]))
                if k in self.wanted:
                    stays.append(Stay(("gradient", k), end - last[k], end - at, size[k]))
            if p.costly and p.inner:
                stays.append(Stay(("inner", at), at, end - at, p.inner))
        return lodged(stays, rooms)

    def _reads(self, at: int, keep: frozenset[int] | None) -> list[int]:
        """What the derivative of a step reads where of its results those in ``keep`` are there, or all of them."""
        s, p = self.steps[at], self.prices[at]
        again, results = p.with_results
        if keep is not None and not keep.issuperset(s.first + k for k in results):
            again, results = p.again, frozenset()
        return [s.args[i] for i in p.ins | again] + [s.first + k for k in p.outs | results]

    def read_later(self, start: int, stop: int) -> frozenset[int]:
        """The results of some steps that the derivatives of later ones read: they wait for the backward pass anyway."""
        own = range(self.steps[start].first, self.steps[stop - 1].first + len(self.steps[stop - 1].avals))
        later = zip(self.steps[stop:], self.prices[stop:], strict=True)
        return frozenset(s.args[i] for s, p in later for i in p.ins if s.args[i] in own)

    def room(self, results: Iterable[int]) -> int:
        """Bytes that results take while they wait, those aside that are in a gradient's room."""
        return sum(self.size[k] for k in results if k not in self._lodged)

    def gradients(self, results: Iterable[int]) -> int:
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
            kind = kinds.setdefault(self.likeness(start, stop), len(kinds))
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

    def likeness(self, start: int, stop: int) -> Any:
        """Equal for stretches that compute the same on operands of the same shapes."""
        return likeness(unit(self.steps, start, stop, self.last), self.wanted, self.avals)

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

    def treat(self, start: int, stop: int, keep: frozenset[int] | None, work: bool = True) -> Treatment:
        """What the backward pass through some steps needs when it finds the results ``keep``.

        ``None`` keeps all results. What calls keep inside themselves is made again from their operands
        (XLA does so by itself where that is a matter of one pass). A result is computed again just before it
        is needed, be it for others that are computed again; where that is one pass over what it is made of, in
        the very loop that reads it. Without ``work`` the bytes in use meanwhile, which take longest, are left at zero.
        """
        steps, prices = self.steps, self.prices
        own = range(steps[start].first, steps[stop - 1].first + len(steps[stop - 1].avals))
        needed: dict[int, int] = {}  # results and the first step whose derivative reads them
        since: dict[int, int] = {}  # and at which step's turn they, or what they are made of, are needed first
        whole: dict[int, int] = {}  # and at which one as arrays, if a loop that reads them can compute them
        redone: dict[int, int] = {}
        flops = cost = 0.0
        once: set[int] = set()  # wanted only to compute others again
        inside: list[tuple[int, int, int]] = []  # of calls that are computed again
        making: list[tuple[int, int]] = []  # while they are computed
        for at in range(stop - 1, start - 1, -1):
            s, p = steps[at], prices[at]
            made = range(s.first, s.first + len(s.avals))
            todo = {i for i in self._reads(at, keep) if 0 <= i < SCALAR}
            looked: set[int] = set()
            while todo:
                k = todo.pop()
                looked.add(k)
                since.setdefault(k, at)
                maker = self.maker[k]
                if keep is None or k not in own or k in keep or p.costly or prices[maker].costly:
                    needed[k] = at
                    whole.setdefault(k, at)
                else:  # one pass over what it is made of, in the loop that reads it
                    once.add(k)
                    todo.update(x for x in steps[maker].args if 0 <= x < SCALAR and x not in looked)
            lost = keep is not None and any(k not in keep and (k in needed or k in once) for k in made)
            if lost:
                flops += p.flops
                cost += p.cost
                turn = max(since[k] for k in made if k in since)
                inside.append((at, turn, p.slow))
                making.append((turn, p.space[0]))
                for i in s.args:
                    if 0 <= i < SCALAR:
                        once.add(i)
                        since[i] = max(since.get(i, turn), turn)
                        if p.costly:
                            whole[i] = max(whole.get(i, turn), turn)
                moment = since if p.costly else whole
                redone.update({k: moment[k] for k in made if k in needed and k not in keep})  # type: ignore[operator]
            elif keep is not None:
                flops += p.inner_flops
                cost += p.inner_cost
                inside.append((at, at, p.slow))
        all_needed = {**dict.fromkeys(once, start), **needed}
        found = {k: at for k, at in all_needed.items() if k in own and k not in redone}
        found = {k: at for k, at in found.items() if keep is None or k in keep}
        takes = frozenset(k for k in all_needed if k not in own)
        if not work:
            return Treatment(frozenset(found), takes, flops, cost, 0)
        alive = {**dict.fromkeys(found, stop - 1), **redone}
        ends = {k: max(needed.get(k, start), start) for k in alive}
        stays = [(2 * until, 2 * since + 1, nbytes) for until, since, nbytes in inside]
        for k, at in ends.items():
            if not self._is_made_turned(k, at, redone.get(k)):
                stays.append((2 * at + self._is_for_weight(k, at), 2 * alive[k] + 1, self.room((k,))))
        stays += self._flow(start, stop, own, {k: at for k, at in ends.items() if self.room((k,))})
        return Treatment(frozenset(found), takes, flops, cost, self._work(start, stop, stays, making))

    def cuts(self, start: int, stop: int, keep: frozenset[int]) -> list[int]:
        """Where the derivative of some steps that keep these results begins to compute something again, of which
        nothing is read until then: the backward pass may be through with what comes behind before it does."""
        found: list[int] = []
        own = range(self.steps[start].first, self.steps[stop - 1].first + len(self.steps[stop - 1].avals))
        missing: set[int] = set()  # what was read and is neither kept nor, so far, computed again
        end = stop
        for at in range(stop - 1, start - 1, -1) if keep else ():
            s = self.steps[at]
            made = range(s.first, s.first + len(s.avals))
            before = len(missing)
            missing |= set(self._reads(at, keep)).intersection(own) - keep
            if not missing.isdisjoint(made):
                missing.update(i for i in s.args if i in own and i not in keep)
            if missing and not before and at + 1 < end:
                found.append(at + 1)
                end = at + 1
            missing.difference_update(made)
        return found[::-1]

    def _is_for_weight(self, k: int, at: int) -> bool:
        """Whether a step's derivative reads this operand for a parameter's gradient alone, as a convolution's does."""
        args = self.steps[at].args
        results = [i for i in args if 0 <= i < SCALAR]
        return self.prices[at].costly and results == [k] and any(i < 0 and i in self.wanted for i in args)

    def _is_made_turned(self, k: int, at: int, since: int | None) -> bool:
        """Whether a result is computed again for nothing but a step's weight gradient, which is left to XLA: it comes
        in the order of the copy that is made for that, so both are one array."""
        maker = self.prices[self.maker[k]]
        made = since == at and not (maker.costly and maker.flops)
        return made and self.prices[at].turned == self.size[k] > 0 and self._is_for_weight(k, at)

    def _work(
        self, start: int, stop: int, stays: Iterable[tuple[int, int, int]], making: Iterable[tuple[int, int]]
    ) -> int:
        """The most bytes in use in the backward pass: what ``stays`` until one place, from another on (the backward
        pass comes there before), so many bytes; and what ``making`` takes in a step's turn.

        In a step's turn first is made what it needs, and of that its weight's gradient; then comes its input's. Each
        has a place here: twice the number of the step and one, and twice the number.
        """
        change = [0] * (2 * (stop - start) + 1)

        def use(low: int, high: int, bytes: int) -> None:  # inclusive
            change[low - 2 * start] += bytes
            change[high + 1 - 2 * start] -= bytes

        for until, since, nbytes in stays:
            use(until, min(since, 2 * stop - 1), nbytes)
        made: dict[int, int] = {}  # what is made again in a turn, and then the weight's gradient
        for turn, nbytes in making:
            made[turn] = max(made.get(turn, 0), nbytes)
        for at, p in enumerate(self.prices[start:stop], start):
            if p.costly and ("inner", at) not in self._lodged:
                use(2 * at, 2 * at, p.inner)
            use(2 * at, 2 * at, p.space[1])
            use(2 * at + 1, 2 * at + 1, max(made.get(at, 0), p.space[2]))
        most = now = 0
        for x in change:
            now += x
            most = max(most, now)
        return most

    def _flow(self, start: int, stop: int, own: range, ends: dict[int, int]) -> Iterator[tuple[int, int, int]]:
        """The gradients of the backward pass through some steps: until a place (:meth:`_work`), from another on, bytes.

        A gradient lives from its first reader's turn (from the beginning those that are given) to its maker's. Where
        that reader passes on the gradient that it was given (a sum), both are one array, up to the next reader's turn.
        Where it is written over what nothing reads afterwards (``ends`` tells whose turn is the last), it takes no
        room until that is over.
        """
        readers: dict[int, list[int]] = {}
        for at in range(start, stop):
            for i in self.steps[at].args:
                if i >= 0 and i in self.wanted:
                    readers.setdefault(i, []).append(at)
        given = {k for k in own if k in self.wanted and self.last.get(k, -1) >= stop}
        low = {k: self.maker[k] if k in own else start for k in given.union(readers)}
        high = {k: stop if k in given else readers[k][-1] for k in low}
        whose: dict[int, int] = {}  # the array that a gradient is, where it has none of its own
        for k in sorted(low, reverse=True):  # what is made later passes its gradient on first
            at = high[k]
            if k in given or readers[k].count(at) > 1:
                continue
            step = self.steps[at]
            source = next((step.first + r for o, r in self.prices[at].passed if step.args[o] == k), None)
            if source not in low:
                continue
            another = readers[k][-2] if len(readers[k]) > 1 else -1
            source = whose.get(source, source)
            low[source] = min(low[source], max(low[k], another + 1))
            high[k] = another
            if another < low[k]:
                whose[k] = source
        ends = dict(ends)
        for k, until in low.items():
            at = high[k]
            if until > at:
                continue
            over: list[int] = []
            if k not in given and at == readers[k][-1]:
                args = self.steps[at].args
                over = [args[i] for o, i in self.prices[at].over if args[o] == k and ends.get(args[i]) == at]
            if over:
                del ends[over[0]]
            yield 2 * until, 2 * at - bool(over), self.gradients((k,))

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

def _common(a: str, b: str) -> int:
    """How many levels of blocks two steps share."""
    levels = 0
    for x, y in zip(a.split("/"), b.split("/"), strict=False):
        if x != y:
            break
        levels += 1
    return levels
