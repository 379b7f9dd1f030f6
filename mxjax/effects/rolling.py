"""Steps that come again and again in a segment, as a loop of its program.

Training steps that are recorded into one segment (``engine.steps_per_call``) are the same calls so many times.
Unrolled, each turn is compiled again; as a ``lax.scan`` it is compiled once, and a step takes as long. What one
turn hands to the next (weights, states) is the loop's carry, and starts as what the first turn takes; what each
turn takes anew (a batch, a learning rate) is stacked; what every turn takes is an input of the loop as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import settings
from ..core import Aval
from ..core.calls.segment import SCALAR, Step
from ..core.compile.program import needed, run_steps
from ..core.hooks import ProgramRun, program_rollers

#: From so many turns on a loop is worth its copies (of what is stacked, and of what it carries).
TURNS = 4


class Loop(NamedTuple):
    """A segment that ends with turns of the same calls.

    Attributes:
      before: the steps before the first turn.
      body: the steps of the second turn: operands that are results of the first are what is carried.
      turns: how many there are.
      base: the number of the first result of the first turn.
      width: how many results a turn has.
      carried: place in a turn -> the operand (of the first turn) that it begins as.
      stacked: operand of the second turn -> the operands of each turn.
      last: places in a turn that only the last turn's result is wanted of.
      every: places in a turn that several turns' results are wanted of.
      blank: the avals of `last`, which the loop begins with as zeros.
    """

    before: list[Step]
    body: list[Step]
    turns: int
    base: int
    width: int
    carried: dict[int, int]
    stacked: dict[int, tuple[int, ...]]
    last: tuple[int, ...]
    every: tuple[int, ...]
    blank: tuple[Aval, ...]

    def inputs(self) -> set[int]:
        """The operands that the loop takes from before its first turn, or from outside."""
        taken = {*self.carried.values(), *(i for each in self.stacked.values() for i in each)}
        bound = self.bound()
        for step in self.body:
            taken.update(i for i in step.args if i not in bound and i < self.base + self.width)
        return taken

    def bound(self) -> set[int]:
        """The operands of the body that each turn has others for."""
        return {*self.stacked, *(self.base + k for k in self.carried)}


def apply() -> None:
    """Look for loops from now on."""
    if _roll not in program_rollers:
        program_rollers.append(_roll)


def _roll(steps: Sequence[Step], live: Sequence[int]) -> ProgramRun | None:
    most = settings.get("engine.steps_per_call")
    loop = find(steps, live, most) if most >= TURNS else None
    if loop is None:
        return None
    before = needed(loop.before, [*loop.inputs(), *live])

    def rolled(inputs: Sequence[Any], scalars: Sequence[Any]) -> dict[int, Any]:
        env = run_steps(before, inputs, scalars)
        env.update(run(loop, env, inputs, scalars))
        return env

    return rolled


def find(steps: Sequence[Step], live: Sequence[int], most: int) -> Loop | None:
    """The loop of at most `most` turns that a segment ends with; None where there is none."""
    length = _period(steps)
    if not length or steps[-1].effects:
        return None
    turns = min(most, _turns(steps, length))
    for count in (turns, turns - 1):  # the first turn may take what no other takes
        if count >= TURNS:
            found = _loop(steps, len(steps) - count * length, length, live)
            if found is not None:
                return found
    return None


def _turns(steps: Sequence[Step], length: int) -> int:
    """How often the last so many calls come one after the other at the end."""
    same = 0
    for a, b in zip(reversed(steps), reversed(steps[:-length]), strict=False):
        if a.call is not b.call or a.avals != b.avals:
            break
        same += 1
    return same // length + 1


def _period(steps: Sequence[Step]) -> int:
    """The length of the turns that fill most of a segment up to its end; 0: there are none."""
    last = steps[-1].call
    for length in range(1, len(steps) // TURNS + 1):
        if steps[-1 - length].call is last and 2 * length * _turns(steps, length) >= len(steps):
            return length
    return 0


def _loop(steps: Sequence[Step], start: int, length: int, live: Sequence[int]) -> Loop | None:
    turns = (len(steps) - start) // length
    table = [steps[start + k * length : start + (k + 1) * length] for k in range(turns)]
    base, width = table[0][0].first, table[1][0].first - table[0][0].first
    avals = {i: a for s in steps for i, a in enumerate(s.avals, s.first)}
    inputs = [a for s in steps for a in s.new_ins]

    def aval(i: int) -> Aval:
        return avals[i] if i >= 0 else inputs[-1 - i]

    wanted: dict[int, list[int]] = {}
    for i in live:
        if i >= base:
            wanted.setdefault((i - base) % width, []).append((i - base) // width)
    at = {id(s): k for k, s in enumerate(table[1])}
    carried: dict[int, int] = {}
    stacked: dict[int, tuple[int, ...]] = {}
    constant: set[int] = set()
    known: set[tuple[int, int]] = set()
    while True:
        # What is carried has to be computed, too, and may need what was not needed so far.
        body = needed(table[1], [base + width + k for k in {*wanted, *carried}])
        fresh = [(s, a) for s in body for a in range(len(s.args)) if (s.first, a) not in known]
        if not fresh:
            break
        for s, a in fresh:
            known.add((s.first, a))
            each = tuple(turn[at[id(s)]].args[a] for turn in table)
            place = each[1] - base
            if all(i >= SCALAR for i in each):
                if stacked.setdefault(each[1], each) != each:
                    return None
            elif all(i < base for i in each):
                if len({*each}) == 1:
                    constant.add(each[1])
                elif (
                    stacked.setdefault(each[1], each) != each
                    or len({_kind(aval(i)) for i in each}) > 1
                ):
                    return None
            elif not _marches(each[1:], width):
                return None
            elif each[0] < base and 0 <= place < width:  # what the turn before made
                if carried.setdefault(place, each[0]) != each[0] or _kind(aval(each[0])) != _kind(
                    aval(each[1])
                ):
                    return None
            elif not (
                _marches(each, width) and width <= place < 2 * width
            ):  # nor what the same turn made
                return None
    if constant & {*stacked}:
        return None
    every = tuple(sorted(k for k, found in wanted.items() if found != [turns - 1]))
    last = tuple(sorted(k for k in wanted if k not in carried and k not in every))
    return Loop(
        list(steps[:start]),
        body,
        turns,
        base,
        width,
        carried,
        stacked,
        last,
        every,
        tuple(aval(base + k) for k in last),
    )


def _marches(each: Sequence[int], width: int) -> bool:
    """Whether each turn takes the result that is one turn further on."""
    return all(b - a == width for a, b in zip(each, each[1:], strict=False))


def _kind(a: Aval) -> tuple[Any, ...]:
    return a.shape, a.dtype, a.memory


def run(
    loop: Loop, before: Mapping[int, Any], inputs: Sequence[Any], scalars: Sequence[Any]
) -> dict[int, Any]:
    """Run the turns on arrays or tracers; the wanted results by their numbers."""

    def value(i: int) -> Any:
        return scalars[i - SCALAR] if i >= SCALAR else before[i] if i >= 0 else inputs[-1 - i]

    second = loop.base + loop.width
    carry = {k: value(i) for k, i in loop.carried.items()}
    ends = {k: jnp.zeros(a.shape, a.dtype) for k, a in zip(loop.last, loop.blank, strict=True)}
    xs = {i: jnp.stack([value(j) for j in each]) for i, each in loop.stacked.items()}

    def turn(held: Any, given: Any) -> Any:
        env = {**before, **{loop.base + k: v for k, v in held[0].items()}}
        arrays, numbers = list(inputs), list(scalars)
        for i, v in given.items():
            if i >= SCALAR:
                numbers[i - SCALAR] = v
            elif i < 0:
                arrays[-1 - i] = v
            else:
                env[i] = v
        env = run_steps(loop.body, arrays, numbers, env=env)
        after = {k: env[second + k] for k in held[0]}, {k: env[second + k] for k in held[1]}
        return after, {k: env[second + k] for k in loop.every}

    (carry, ends), rows = jax.lax.scan(turn, (carry, ends), xs, length=loop.turns)
    first = loop.base + (loop.turns - 1) * loop.width
    found = {first + k: v for k, v in {**carry, **ends}.items()}
    for k, row in rows.items():
        found.update((loop.base + t * loop.width + k, row[t]) for t in range(loop.turns))
    return found
