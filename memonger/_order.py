"""In which order the backward pass goes on, and what its gradients take: XLA finishes what passes a barrier first."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

import jax
from jax import lax

from mxjax.core import SCALAR, compiler

if TYPE_CHECKING:
    from mxjax.core import Step

PIECES = 8  # at most, in which gradients are added
WORTH = 2**16  # bytes of a gradient that is added so


@jax.custom_vjp
def together(*arrays: Any) -> tuple[Any, ...]:
    """The arrays themselves; their gradients pass one barrier together.

    A barrier forward would do that too, but what the backward pass keeps were then no longer the
    program's inputs: parameters would be kept a second time.
    """
    return arrays


together.defvjp(lambda *arrays: (arrays, None), lambda _, given: lax.optimization_barrier(given))


@jax.custom_vjp
def fork(x: Any) -> tuple[Any, Any]:
    """An array for two readers; the sum of their gradients takes the place of one of them.

    XLA's CPU backend gives a sum a place of its own, but for what a loop carries.
    """
    return x, x


fork.defvjp(lambda x: ((x, x), None), lambda _, given: (jax.tree_util.tree_map(_sum, *given),))


def _sum(a: Any, b: Any) -> Any:
    """a + b in the place of a."""
    pieces = ((axis, n) for axis, size in enumerate(a.shape) for n in range(PIECES, 1, -1) if size and size % n == 0)
    axis, count = next(pieces, (0, 1))
    if count == 1 or a.size * a.dtype.itemsize < WORTH or compiler.platform_now() != "cpu":
        return a + b
    size = a.shape[axis] // count

    def add(k: Any, total: Any) -> Any:
        here, more = (lax.dynamic_slice_in_dim(x, k * size, size, axis) for x in (total, b))
        return lax.dynamic_update_slice_in_dim(total, here + more, k * size, axis)

    return lax.fori_loop(0, count, add, a)


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
