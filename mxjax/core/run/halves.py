"""A long program there is, and something before it that has nothing to do with it: the two run one after the other.

What a program records between two of its steps (a metric's numbers, a sum of losses) is in one segment with the next
step. That would be another program as long as the first step's, which had nothing before it. So such a segment is taken
apart where its second half is known, and later ones end where the first half does (`Step.ends`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..calls.segment import SCALAR, Step
from ..compile.program import Program
from ..interpret.by_call import ByCall
from .choice import is_taken_apart
from .programs import alone, nearest

LONGEST = 200  # calls before a known step, at most


class Halves(NamedTuple):
    """The first half's last step and its results; the rest's, its inputs in the whole's numbers, and its program."""

    first: Step
    live: tuple[int, ...]
    rest: Step
    rest_live: tuple[int, ...]
    ins: tuple[int, ...]
    program: Program

    def first_results(
        self, arrays: Sequence[Any], scalars: Sequence[Any], device: Any
    ) -> list[Any]:
        """What the first half gives, by programs of its calls; the whole's inputs and scalars are given."""
        if not self.live:
            return []
        calls = ByCall(self.first, self.live, device, alone(device), numpy=False)
        return calls.run(self.live, arrays[: self.first.n_ins], scalars[: len(self.first.fmt)])[0]

    def end(self, step: Step) -> None:
        """From now on a segment ends where the first half of the one that ends with this step does."""
        last = step.path()[self.first.depth - 1]
        last.ends, last.reach = True, math.inf


def known_rest(step: Step, live: tuple[int, ...], dying: tuple[int, ...]) -> Halves | None:
    """Where a segment without a program can be taken apart, so that a large program there is computes the rest.

    ``live`` and ``dying``: the results that are wanted, and the inputs that nobody holds, of the whole.
    """
    path = step.path()
    if step.effects or len(path) < 2:
        return None
    root = path[0].parent
    lowest = step.n_outs  # the first result that the calls after a place read
    places: list[int] = []
    for k in range(len(path) - 1, 0, -1):
        lowest = min([lowest, *(i for i in path[k].args if 0 <= i < SCALAR)])
        if k <= LONGEST and lowest >= path[k].first:
            places.append(k)
    for k in reversed(places):
        found = _follow(root, path, k)
        if found is None:
            continue
        rest, ins = found
        made = path[k].first
        rest_live = tuple([i - made for i in live if i >= made])
        known = {j: at for at, j in enumerate(ins)}
        program = _fitting(rest, rest_live, {known[j] for j in dying if j in known})
        if program is not None and is_taken_apart(program.size.numbers) and not program.layouts:
            return Halves(
                path[k - 1], tuple([i for i in live if i < made]), rest, rest_live, ins, program
            )
    return None


def _follow(root: Any, path: Sequence[Step], k: int) -> tuple[Step, tuple[int, ...]] | None:
    """The step where these calls from the ``k``-th on end if they are recorded first, and which inputs they take."""
    made, scalars, fmt = path[k].first, len(path[k - 1].fmt), path[-1].fmt
    avals = [a for s in path for a in s.new_ins]
    seen: dict[int, int] = {}
    at = root
    for s in path[k:]:
        key: list[Any] = [s.call]
        for i in s.args:
            if i >= SCALAR:
                key.append(fmt[i - SCALAR])
            elif i >= 0:
                key.append(i - made)
            elif i in seen:
                key.append(seen[i])
            else:
                seen[i] = -1 - len(seen)
                key.append(avals[-1 - i])
        at = at.next.get(tuple(key))
        if at is None:
            return None
    assert len(at.fmt) == len(fmt) - scalars
    return at, tuple(-1 - i for i in seen)


def _fitting(rest: Step, live: tuple[int, ...], dying: set[int]) -> Program | None:
    """A program that returns these results and overwrites nothing that must stay."""
    key = live, tuple(sorted(dying))
    return rest.programs.get(key) or nearest(rest, key)


__all__ = ["Halves", "known_rest"]
