"""In which order the backward pass goes on: XLA finishes what passes a barrier first."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

import jax
from jax import lax

from mxjax.core import SCALAR

if TYPE_CHECKING:
    from mxjax.core import Step


@jax.custom_vjp
def together(*arrays: Any) -> tuple[Any, ...]:
    """The arrays themselves; their gradients pass one barrier together.

    A barrier forward would do that too, but what the backward pass keeps were then no longer the
    program's inputs: parameters would be kept a second time.
    """
    return arrays


together.defvjp(lambda *arrays: (arrays, None), lambda _, given: lax.optimization_barrier(given))


def branches(steps: Sequence[Step], wanted: Set[int]) -> list[tuple[int, ...]]:
    """For each step that begins a side branch the results that cross there, of those ``wanted``; for others none.

    It reads what an earlier step read, while something else waits for later ones. The gradients of all that crosses
    are tied together: XLA would leave what the branch asks for until both branches meet, with all that it is computed
    from in memory.
    """
    last = {i: at for at, s in enumerate(steps) for i in s.args if 0 <= i < SCALAR and i in wanted}
    found: list[tuple[int, ...]] = []
    here: set[int] = set()  # made or read before
    read: set[int] = set()
    for at, s in enumerate(steps):
        here = {i for i in here if last[i] >= at}
        branch = not read.isdisjoint(s.args) and not here.issubset(s.args)
        found.append(tuple(sorted(here.union(i for i in s.args if i in last))) if branch else ())
        read.update(i for i in s.args if i in last)
        here.update(i for i in (*s.args, *range(s.first, s.first + len(s.avals))) if i in last)
    return found
