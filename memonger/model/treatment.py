"""What the backward pass through some steps needs, when it finds some of their results kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from mxjax.core import SCALAR

if TYPE_CHECKING:
    from .chain import Chain


class Treatment(NamedTuple):
    """What follows from keeping some results of a stretch.

    ``kept`` are those of its results that wait for its backward pass, ``takes`` what it reads of earlier ones.
    ``flops`` are computed again, which takes the time of ``cost`` operations; ``work`` bytes are in use at most.
    """

    kept: frozenset[int]
    takes: frozenset[int]
    flops: float
    cost: float
    work: int


def treatment(
    chain: Chain, start: int, stop: int, keep: frozenset[int] | None, work: bool = True
) -> Treatment:
    """What the backward pass through some steps needs when it finds the results ``keep``.

    ``None`` keeps all results. What calls keep inside themselves is made again from their operands (XLA does so by
    itself where that is a matter of one pass). Without ``work`` the bytes in use meanwhile, which take longest, are
    left at zero.
    """
    back = _Backward(chain, start, stop, keep)
    for at in range(stop - 1, start - 1, -1):
        back.differentiate(at)
        back.compute_again(at)
    every = {**dict.fromkeys(back.operands, start), **back.needed}
    kept = {
        k for k in every if k in back.own and k not in back.again and (keep is None or k in keep)
    }
    takes = frozenset(k for k in every if k not in back.own)
    bytes_ = _most(chain, start, stop, back.stays(kept)) if work else 0
    return Treatment(frozenset(kept), takes, back.flops, back.cost, bytes_)


class _Backward:
    """The backward pass through some steps, gone through from the last one to the first.

    A result is computed again just before it is needed, be it for others that are computed again; where that is one
    pass over what it is made of, in the very loop that reads it.
    """

    def __init__(self, chain: Chain, start: int, stop: int, keep: frozenset[int] | None):
        self.chain, self.start, self.stop, self.keep = chain, start, stop, keep
        self.own = chain.made(start, stop)
        self.needed: dict[int, int] = {}  # results and the first step whose derivative reads them
        # At which step's turn they, or what they are made of, are needed first; and at which one as arrays, if a loop
        # that reads them can compute them.
        self.since: dict[int, int] = {}
        self.whole: dict[int, int] = {}
        self.again: dict[int, int] = {}  # those that are computed again, and at which step's turn
        self.operands: set[int] = set()  # wanted only to compute others again
        self.flops = self.cost = 0.0

    def differentiate(self, at: int) -> None:
        """Note what the derivative of a step reads."""
        chain, keep = self.chain, self.keep
        todo = {i for i in chain.reads(at, keep is None) if 0 <= i < SCALAR}
        looked: set[int] = set()
        while todo:
            k = todo.pop()
            looked.add(k)
            self.since.setdefault(k, at)
            maker = chain.maker[k]
            there = keep is None or k not in self.own or k in keep
            if there or chain.prices[at].costly or chain.prices[maker].costly:
                self.needed[k] = at
                self.whole.setdefault(k, at)
            else:  # one pass over what it is made of, in the loop that reads it
                self.operands.add(k)
                todo.update(
                    x for x in chain.steps[maker].args if 0 <= x < SCALAR and x not in looked
                )

    def compute_again(self, at: int) -> None:
        """Note what a step's results cost, if later steps need them and they are not kept."""
        keep, s, p = self.keep, self.chain.steps[at], self.chain.prices[at]
        if keep is None:
            return
        lost = [k for k in range(s.first, s.first + len(s.avals)) if k not in keep]
        if not any(k in self.needed or k in self.operands for k in lost):
            # What calls keep inside themselves is made again from their operands.
            self.flops += p.inner_flops
            self.cost += p.inner_cost
            return
        self.flops += p.flops
        self.cost += p.cost
        turn = max(self.since[k] for k in range(s.first, s.first + len(s.avals)) if k in self.since)
        for i in s.args:
            if 0 <= i < SCALAR:
                self.operands.add(i)
                self.since[i] = max(self.since.get(i, turn), turn)
                if p.costly:
                    self.whole[i] = max(self.whole.get(i, turn), turn)
        moment = self.since if p.costly else self.whole
        self.again.update({k: moment[k] for k in lost if k in self.needed})

    def stays(self, kept: Iterable[int]) -> Iterator[tuple[int, int, int]]:
        """What is in memory until one place, from another on (:func:`_most`), and its bytes."""
        for k, since in {**dict.fromkeys(kept, self.stop - 1), **self.again}.items():
            yield (
                2 * max(self.needed.get(k, 0), self.start),
                2 * since + 1,
                self.chain.waiting((k,)),
            )
        yield from gradients(self.chain, self.start, self.stop)


def _most(chain: Chain, start: int, stop: int, stays: Iterable[tuple[int, int, int]]) -> int:
    """The most bytes in use in the backward pass: what ``stays`` until one place, from another on (the backward
    pass comes there before), so many bytes.

    In a step's turn first is made what it needs; then comes its operands' gradient. Each has a place here: twice the
    number of the step and one, and twice the number.
    """
    change = [0] * (2 * (stop - start) + 1)

    def use(low: int, high: int, nbytes: int) -> None:  # inclusive
        change[low - 2 * start] += nbytes
        change[high + 1 - 2 * start] -= nbytes

    for until, since, nbytes in stays:
        use(until, min(since, 2 * stop - 1), nbytes)
    for at, p in enumerate(chain.prices[start:stop], start):
        if p.costly and chain.has_buffer(("inner", at)):
            use(2 * at, 2 * at, p.inner)
    return max(accumulate(change))


def gradients(chain: Chain, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The gradients of the backward pass through some steps: until a place (:func:`_most`), from another on, bytes.

    A gradient lives from its last reader's turn (from the beginning those that are given) to its maker's.
    """
    own = chain.made(start, stop)
    high = {k: stop for k in own if k in chain.wanted and chain.last.get(k, -1) >= stop}
    for at in range(stop - 1, start - 1, -1):
        for i in chain.steps[at].args:
            if i >= 0 and i in chain.wanted:
                high.setdefault(i, at)
    for k, since in high.items():
        yield 2 * (chain.maker[k] if k in own else start), 2 * since, chain.gradients((k,))
