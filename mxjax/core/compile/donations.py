"""Whose buffers a program writes its results into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp

from ..calls.aval import Aval
from ..calls.call import row
from ..calls.segment import SCALAR, Step
from ..calls.value import Value

#: A call on arrays that nobody reads any more and, after them, on the results that have replaced each. Nobody reads
#: what it gives, so that no program has it; but the arrays are inputs of its program.
SPARE = row("_spare", lambda *arrays: jnp.zeros((), "bool"), display="spare").bind()


def spared(steps: Sequence[Step]) -> dict[int, int]:
    """The inputs that recorded steps were given as places for results, with these results."""
    found: dict[int, int] = {}
    for step in steps:
        if step.call is SPARE:
            half = len(step.args) // 2
            for i, k in zip(step.args[:half], step.args[half:], strict=True):
                if i < 0 <= k < SCALAR:
                    found[-1 - i] = k
    return found


def match_donations(dying: Sequence[tuple[int, Aval]], outs: Sequence[Aval]) -> tuple[int, ...]:
    """Which dying inputs can become results: each takes one of equal shape, dtype and memory."""
    free: dict[Any, int] = {}
    for a in outs:
        free[kind(a)] = free.get(kind(a), 0) + 1
    chosen = []
    for j, a in dying:
        if free.get(kind(a), 0):
            free[kind(a)] -= 1
            chosen.append(j)
    return tuple(chosen)


def successors(steps: Sequence[Step], avals: Sequence[Aval], live: Sequence[int]) -> dict[int, int]:
    """For each input the live result that replaces it: a new weight for a weight.

    It is a result of the last call that takes the input; among several of one kind the first takes the
    first's place. Written over the input, it comes after everything that reads it, so nothing need be copied.
    """
    last: dict[int, Step] = {}
    for step in steps:
        for i in step.args:
            if i < 0:
                last[-1 - i] = step
    wanted = set(live)
    found = {}
    for step in dict.fromkeys(last.values()):
        results: dict[Any, list[int]] = {}
        for k, a in enumerate(step.avals, step.first):
            if k in wanted:
                results.setdefault(kind(a), []).append(k)
        for i in dict.fromkeys(step.args):
            if i < 0 and last[-1 - i] is step:
                same = results.get(kind(avals[-1 - i].in_layout(None)))
                if same:
                    found[-1 - i] = same.pop(0)
    return found


# What waits before updates of weights may be so many times what would be copied without a barrier, where it waits for
# results of the program. Networks' steps and their time with a barrier: an encoder's (2.9 times) 0.97, ResNet-18's
# (6.3) 1.02, a U-Net's (255) 1.04.
OF_RESULTS = 4


def overwriting(
    steps: Sequence[Step],
    avals: Sequence[Aval],
    live: Sequence[int],
    donate: Sequence[int],
    after: dict[int, int],
) -> frozenset[Step]:
    """The steps that write a result over an input which others read as well: updates of weights.

    Unless the compiler sees that all readers come first, it saves a copy of the input for them. An update
    takes all gradients, and these depend on all readers: a barrier before it is enough. But gradients
    that meet there may all be computed at the end, with all that they are computed from in memory until
    then: where that is more than the copies, there is no barrier. Results of the program wait for its end anyway:
    where all gradients are, it may be some times as much. Nor is there one before a step that takes
    more of what others made than it writes over: a backward pass would hold every mask instead of computing it
    where it reads it, to save the copy of a channel's mean.
    """
    readers: dict[int, int] = {}
    made: dict[int, int] = {}
    kept = set(live)
    for step in steps:
        made.update({k: a.nbytes for k, a in enumerate(step.avals, step.first) if k not in kept})
        for i in set(step.args):
            readers[i] = readers.get(i, 0) + 1
    read = [j for j in donate if j in after and readers.get(-1 - j, 0) > 1]
    copies = sum(avals[j].nbytes for j in read)
    over = {after[j]: avals[j].nbytes for j in read}
    written = {
        s: sum(over.get(k, 0) for k in range(s.first, s.first + len(s.avals))) for s in steps
    }
    met = {s: sum(made.get(i, 0) for i in set(s.args)) for s, n in written.items() if n}
    most = copies * (1 if any(met.values()) else OF_RESULTS)
    return frozenset(s for s, n in met.items() if n <= written[s] and sum(made.values()) <= most)


def kind(a: Aval) -> tuple[Any, ...]:
    """Equal for arrays of which one can take the other's place."""
    return a.shape, a.dtype, a.memory, a.layout


def last_read(steps: Sequence[Step], after: Mapping[int, int]) -> set[int]:
    """The inputs that nothing reads besides what the result that replaces them is computed from: no copy is needed."""
    number = {k: n for n, s in enumerate(steps) for k in range(s.first, s.first + len(s.avals))}
    before: list[int] = []  # of each step, itself included, as bits
    readers: dict[int, int] = {}
    for n, step in enumerate(steps):
        bits = 1 << n
        for i in step.args:
            if 0 <= i < SCALAR:
                bits |= before[number[i]]
            elif i < 0:
                readers[-1 - i] = readers.get(-1 - i, 0) | 1 << n
        before.append(bits)
    return {j for j, k in after.items() if not readers.get(j, 0) & ~before[number[k]]}


def plan_donations(
    steps: Sequence[Step],
    avals: Sequence[Aval],
    live: Sequence[int],
    dying: Sequence[int],
    platform: str = "cpu",
    instead: Mapping[int, int] = MappingProxyType({}),
) -> tuple[tuple[int, ...], tuple[int, ...], frozenset[Step], dict[int, tuple[int, ...]]]:
    """Which inputs are donated, the order of results that gives each the place meant for it, the steps
    that must come after all readers of what they overwrite, and the results with an order of axes of their own:
    those that replace an input which has one.

    JAX lets the first result of an input's shape and dtype have its place. With gradients before new
    weights every weight would be overwritten while it is still read, that is, copied first. On a GPU only those are
    donated that need no copy: XLA had copies of what was in a donated input in one kernel with those that write the
    result there, and who comes first is open (https://github.com/jax-ml/jax/issues/39625).

    ``instead``: the results that take the places of inputs which no step reads (`spared`).
    """
    outs = {k: a for s in steps for k, a in enumerate(s.avals, s.first)}
    after = successors(steps, avals, live)
    wanted, ending = set(live), set(dying)
    taken = {k for j, k in after.items() if j in ending}
    after |= {j: k for j, k in instead.items() if k in wanted and k not in taken}
    layouts: dict[int, tuple[int, ...]] = {}
    for j, k in after.items():
        layout = avals[j].layout
        if layout is not None:
            layouts[k] = layout
            outs[k] = outs[k].in_layout(layout)
    if platform == "gpu":
        safe = last_read(steps, after)
        dying = [j for j in dying if j in safe]
    # Those with a successor first: there may be fewer places than dying inputs.
    given = match_donations(
        [(j, avals[j]) for j in sorted(dying, key=lambda j: j not in after)],
        [outs[k] for k in live],
    )
    donate = tuple(sorted(given))
    place = {j: after[j] for j in donate if j in after}
    rest = [k for k in live if k not in set(place.values())]
    for j in donate:
        if j not in place:
            place[j] = next(k for k in rest if kind(outs[k]) == kind(avals[j]))
            rest.remove(place[j])
    order = tuple([place[j] for j in donate] + rest)
    return donate, order, overwriting(steps, avals, live, donate, after), layouts


def in_layouts(
    layouts: Mapping[int, tuple[int, ...]], outs: Sequence[Value], live: Sequence[int]
) -> None:
    """What took the place of an input has its axes in that one's order."""
    for k, v in zip(live, outs, strict=True):
        if k in layouts:
            v.aval = v.aval.in_layout(layouts[k])
