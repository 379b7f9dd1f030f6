"""What the backward pass through some steps needs, when it finds some of their results kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from mxjax.core import SCALAR

from ..arrangement.parts import ALL, Part

if TYPE_CHECKING:
    from .chain import Chain


class Stay(NamedTuple):
    """An array in the backward pass: from the turn of one step to that of an earlier one."""

    result: int
    since: int
    until: int


class Treatment(NamedTuple):
    """What follows from keeping some results of a stretch, which begins with the step ``start``.

    ``part`` does so. ``kept`` are those of its results that wait for its backward pass, ``takes`` what it reads of
    earlier ones. ``flops`` are computed again, which takes the time of ``cost`` operations; ``stays`` are the results
    in memory meanwhile.
    """

    start: int
    part: Part
    kept: frozenset[int]
    takes: frozenset[int]
    flops: float
    cost: float
    stays: tuple[Stay, ...]


def treatment(chain: Chain, start: int, stop: int, keep: frozenset[int] | None) -> Treatment:
    """What the backward pass through some steps needs when it finds the results ``keep``; ``None`` keeps all.

    A result is computed again just before it is needed, be it for others that are computed again; where that is one
    pass over what it is made of, in the very loop that reads it. What calls keep inside themselves is made again from
    their operands.
    """
    own = chain.made(start, stop)
    read: dict[int, int] = {}  # results, and the first step whose derivative reads them
    since: dict[int, int] = {}  # at which step's turn they are needed first, read or computed from
    whole: dict[int, int] = {}  # and at which one as arrays, where loops can compute them
    again: set[int] = set()
    flops = cost = 0.0
    for at in range(stop - 1, start - 1, -1):
        todo, seen = {k for k in chain.reads(at, keep is None) if 0 <= k < SCALAR}, set[int]()
        while todo:
            k = todo.pop()
            seen.add(k)
            since.setdefault(k, at)
            maker, there = chain.maker[k], keep is None or k in keep or k not in own
            if there or chain.prices[at].costly or chain.prices[maker].costly:
                read[k] = at
                whole.setdefault(k, at)
            else:
                todo |= {x for x in chain.steps[maker].args if 0 <= x < SCALAR} - seen
        if keep is None:
            continue
        s, p = chain.steps[at], chain.prices[at]
        lost = {k for k in chain.made(at, at + 1) if k in since and k not in keep}
        flops += p.flops if lost else p.inner_flops
        cost += p.cost if lost else p.inner_cost
        if lost:
            again |= lost
            turn = max(since[k] for k in lost)
            operands = [i for i in s.args if 0 <= i < SCALAR]
            for moments in (since, whole) if p.costly else (since,):
                moments.update({i: max(moments.get(i, turn), turn) for i in operands})
    kept = frozenset(k for k in since if k in own and k not in again)
    stays = [Stay(k, stop - 1, max(read.get(k, start), start)) for k in kept]
    stays += [
        Stay(k, (since if chain.prices[chain.maker[k]].costly else whole)[k], read[k])
        for k in again
        if k in read
    ]
    takes = frozenset(k for k in since if k not in own)
    part = Part(stop, ALL if keep is None else kept)
    return Treatment(start, part, kept, takes, flops, cost, tuple(stays))


def work(chain: Chain, start: int, stop: int, stays: Iterable[Stay]) -> int:
    """The most bytes in use in the backward pass through some steps.

    In a step's turn first is made what it needs; then comes its operands' gradient. Each has a place here: twice the
    number of the step and one, and twice the number.
    """
    change = [0] * (2 * (stop - start) + 1)

    def use(low: int, high: int, nbytes: int) -> None:  # inclusive
        change[low - 2 * start] += nbytes
        change[min(high, 2 * stop - 1) + 1 - 2 * start] -= nbytes

    for k, since, until in stays:
        use(2 * until, 2 * since + 1, chain.waiting((k,)))
    for k, since, until in gradients(chain, start, stop):
        use(2 * until, 2 * since, chain.size[k])
    for at, p in enumerate(chain.prices[start:stop], start):
        if p.costly:
            use(2 * at, 2 * at, p.inner)
    return max(accumulate(change))


def gradients(chain: Chain, start: int, stop: int) -> Iterator[Stay]:
    """The gradients of the backward pass through some steps, each by what it is the gradient of.

    A gradient lives from its last reader's turn (from the beginning those that are given) to its maker's.
    """
    own = chain.made(start, stop)
    since = {k: stop for k in own if k in chain.wanted and chain.last.get(k, -1) >= stop}
    for at in range(stop - 1, start - 1, -1):
        for i in chain.steps[at].args:
            if i >= 0 and i in chain.wanted:
                since.setdefault(i, at)
    for k, at in since.items():
        yield Stay(k, at, chain.maker[k] if k in own else start)
