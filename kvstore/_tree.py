"""Trees along which devices sum: which device sends to which, and the program made of it.

A tree over n devices has about log2(n) levels; on each, every device that has the sum of its part
takes or gives one array (a binomial tree, as MXNet's ``gpu_topology.h`` builds). A sum goes up the
levels, the result comes down again.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Levels = tuple[tuple[tuple[int, int], ...], ...]  # per level from the root down: (parent, child)

_log = logging.getLogger("mxjax.kvstore")
_EXACT = 8  # up to so many devices all bisections are tried when asked to


def trees(links: np.ndarray, *, backtrack: bool = False, penalty: float = 0.7) -> list[Levels]:
    """One tree rooted at each device.

    Args:
      links: (n, n), symmetric: how good the link between two devices is; 0 is none.
      backtrack: try every way of halving the devices (up to 8 of them) and keep the tree of the largest
        total weight; otherwise halve them by Kernighan and Lin's exchanges.
      penalty: the factor on a link for each tree that uses it already, so that trees spread.
    """
    links = np.array(links, float)
    n = len(links)
    used = links.copy()
    found = []
    for root in range(n):
        if backtrack and n <= _EXACT:
            _, levels = _best(root, tuple(range(n)), _Weights(used))
        else:
            levels = _halved(root, tuple(range(n)), used)
        found.append(levels)
        for a, b in itertools.chain.from_iterable(levels):
            used[a, b] *= penalty
            used[b, a] *= penalty
    return found


def log(found: Sequence[Levels], links: np.ndarray) -> None:
    """One line per tree."""
    for root, levels in enumerate(found):
        edges = [e for level in levels for e in level]
        text = "; ".join(" ".join(f"{a}->{b}" for a, b in level) for level in levels)
        weight = sum(links[a, b] for a, b in edges)
        _log.info("kvstore tree rooted at device %d (weight %g): %s", root, weight, text)


class _Weights:
    """A matrix that can be a key."""

    def __init__(self, matrix: np.ndarray):
        self.matrix = matrix.copy()
        self.memo: dict[Any, tuple[float, Levels]] = {}


def _best(root: int, nodes: tuple[int, ...], weights: _Weights) -> tuple[float, Levels]:
    if len(nodes) == 1:
        return 0.0, ()
    known = weights.memo.get((root, nodes))
    if known is not None:
        return known
    best: tuple[float, Levels] | None = None
    others = [v for v in nodes if v != root]
    for away in itertools.combinations(others, len(nodes) // 2):
        here = tuple(v for v in nodes if v not in away)
        mine, own = _best(root, here, weights)
        for child in away:
            theirs, its = _best(child, away, weights)
            total = mine + theirs + weights.matrix[root, child]
            if best is None or total > best[0]:
                best = total, (((root, child),), *_side_by_side(own, its))
    assert best is not None
    weights.memo[root, nodes] = best
    return best


def _halved(root: int, nodes: tuple[int, ...], links: np.ndarray) -> Levels:
    if len(nodes) == 1:
        return ()
    here, away = _kernighan_lin(root, nodes, links)
    child = max(away, key=lambda v: (links[root, v], -v))
    return (
        ((root, child),),
        *_side_by_side(_halved(root, here, links), _halved(child, away, links)),
    )


def _side_by_side(a: Levels, b: Levels) -> Levels:
    return tuple(x + y for x, y in itertools.zip_longest(a, b, fillvalue=()))


def _kernighan_lin(
    root: int, nodes: tuple[int, ...], links: np.ndarray
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two halves, the first with the root, exchanged until less weight runs between them."""
    here, away = [root], [v for v in nodes if v != root]
    while len(here) < len(away):  # to begin with: those nearest to the root and to each other
        nearest = max(away, key=lambda v: (sum(links[v, w] for w in here), -v))
        here.append(nearest)
        away.remove(nearest)
    while True:
        # One pass: the best exchange again and again, each device once, though a step may lose weight.
        a_side, b_side, free = here[:], away[:], set(nodes) - {root}
        best, best_sides, total = 1e-12, None, 0.0
        while any(v in free for v in a_side) and any(v in free for v in b_side):
            gain, a, b = max(
                (_gain(a, b, a_side, b_side, links), a, b)
                for a in a_side
                if a in free
                for b in b_side
                if b in free
            )
            a_side[a_side.index(a)], b_side[b_side.index(b)] = b, a
            free -= {a, b}
            total += gain
            if total > best:
                best, best_sides = total, (a_side[:], b_side[:])
        if best_sides is None:
            return tuple(sorted(here)), tuple(sorted(away))
        here, away = best_sides


def _gain(a: int, b: int, here: list[int], away: list[int], links: np.ndarray) -> float:
    def pull(v: int, to: list[int], own: list[int]) -> float:
        return float(sum(links[v, w] for w in to) - sum(links[v, w] for w in own if w != v))

    return pull(a, away, here) + pull(b, here, away) - 2 * float(links[a, b])


@functools.cache
def links_of(devices: tuple[Any, ...]) -> np.ndarray:
    """How near devices are: 1, and more for neighbours in a TPU's torus."""
    n = len(devices)
    links = np.ones((n, n)) - np.eye(n)
    for i, j in itertools.permutations(range(n), 2):
        a, b = (getattr(devices[k], "coords", None) for k in (i, j))
        if a is not None and b is not None:
            links[i, j] = 1.0 + 1.0 / max(1, sum(abs(x - y) for x, y in zip(a, b, strict=True)))
    return links


def sum_along(x: Any, levels: Levels, axis: str) -> Any:
    """Inside a ``shard_map``: the sum of all devices' `x`, on all of them, along a tree."""
    here = jax.lax.axis_index(axis)
    for level in reversed(levels):
        came = jax.lax.ppermute(x, axis, [(child, parent) for parent, child in level])
        x = x + came  # zeros where nothing came
    for level in levels:
        came = jax.lax.ppermute(x, axis, list(level))
        child = jnp.isin(here, jnp.array([c for _, c in level]))
        x = jnp.where(child, came, x)
    return x


def sum_by_trees(x: Any, found: Sequence[Levels], axis: str) -> Any:
    """As `sum_along`, the array shared out between all trees."""
    flat = x.reshape(-1)
    n = len(found)
    flat = jnp.pad(flat, (0, -flat.size % n)).reshape(n, -1)
    parts = [sum_along(flat[k], levels, axis) for k, levels in enumerate(found)]
    return jnp.stack(parts).reshape(-1)[: x.size].reshape(x.shape)
