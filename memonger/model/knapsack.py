"""The cheapest way through a chain that stays within so many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .options import Option

# States kept per position. Of neighbours that differ by less than their share of the budget the cheaper
# stays; bytes are never rounded, so what comes out is within the budget exactly.
STATES = 4000


def peak(chosen: Sequence[Option]) -> int:
    """The most bytes in use, as the model has it: what earlier stretches hold, and the work of one."""
    most = held = 0
    for o in chosen:
        most = max(most, held + o.work)
        held += o.held
    return most


def solve(options: Sequence[Sequence[Option]], budget: float) -> list[Option] | None:
    """The options, one after another over the whole chain, of least cost whose peak is in the budget.

    A knapsack with several choices per unit, solved by dynamic programming over (position, bytes held).
    The backward pass through a stretch finds in memory what the stretches before it hold, and needs its
    own work besides; so the order of fat and lean stretches counts, and is part of what is found.

    Returns:
      the options, or ``None`` where nothing fits.
    """
    place, n = _places(options), len(options)
    options = _possible(options, budget)
    held: list[list[np.ndarray]] = [[] for _ in range(n + 1)]
    cost: list[list[np.ndarray]] = [[] for _ in range(n + 1)]
    came: list[list[np.ndarray]] = [[] for _ in range(n + 1)]  # rows of (position, option, state)
    held[0], cost[0] = [np.zeros(1)], [np.zeros(1)]
    came[0] = [np.zeros((1, 3), np.int64)]
    best: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for i in range(n + 1):
        if not held[i]:
            best.append((np.zeros(0), np.zeros(0), np.zeros((0, 3), np.int64)))
            continue
        h, c, w = np.concatenate(held[i]), np.concatenate(cost[i]), np.concatenate(came[i])
        held[i] = cost[i] = came[i] = []
        keep = _pareto(h, c, budget)
        h, c, w = h[keep], c[keep], w[keep]
        best.append((h, c, w))
        if i == n:
            break
        if not options[i]:
            continue
        stops = np.array([place[o.stop] for o in options[i]])
        works, holds, costs = np.array([(o.work, o.held, o.cost) for o in options[i]], float).T
        numbers, states = np.nonzero(h + works[:, None] <= budget)
        ends = stops[numbers]
        for j in np.unique(ends):
            number, state = numbers[ends == j], states[ends == j]
            held[j].append(h[state] + holds[number])
            cost[j].append(c[state] + costs[number])
            came[j].append(np.stack((np.full_like(number, i), number, state), 1))
    if not best[n][0].size:
        return None
    at, state = n, int(np.argmin(best[n][1]))
    chosen = []
    while at:
        at, number, state = (int(x) for x in best[at][2][state])
        chosen.append(options[at][number])
    return chosen[::-1]


def _pareto(held: np.ndarray, cost: np.ndarray, budget: float) -> np.ndarray:
    """The states than which no other holds less at less cost."""
    order = np.lexsort((cost, held))
    c = cost[order]
    before = np.concatenate([[np.inf], np.minimum.accumulate(c)[:-1]])
    order = order[c < before - 1e-6]
    if order.size > STATES:
        # Of each grain of bytes the last, which costs least; and the first of all, which holds least.
        grain = np.floor(held[order] * (STATES / max(budget, 1)))
        last = np.flatnonzero(np.diff(grain, append=np.inf))
        order = order[np.union1d([0], last)]
    return order


def bound(options: Sequence[Sequence[Option]], budget: float) -> float | None:
    """A cost below which no choice within the budget can be: options may be taken in fractions.

    The linear relaxation of :func:`solve`'s problem, of those options that some choice within the budget has; ``None``
    where there is none, or even fractions do not fit.
    """
    from scipy.optimize import linprog

    place, n = _places(options), len(options)
    possible = [o for here in _possible(options, budget) for o in here]
    if not possible:
        return None
    # By unit and option: where an option begins and ends, and the bytes it takes of the budget there.
    flow, taken = np.zeros((n + 1, len(possible))), np.zeros((n, len(possible)))
    for e, o in enumerate(possible):
        start, stop = place[o.start], place[o.stop]
        flow[start, e], flow[stop, e] = 1, -1
        taken[start:stop, e] = o.work
        taken[stop:, e] = o.held
    costs = np.array([o.cost for o in possible])
    scale, top = max(budget, 1.0), float(costs.max()) or 1.0
    found = linprog(
        costs / top,
        A_ub=taken / scale,
        b_ub=np.full(n, budget / scale),
        A_eq=flow[:n],
        b_eq=np.arange(n) == 0,
        bounds=(0, 1),
        method="highs",
    )
    return float(found.fun) * top if found.status == 0 else None


def least(options: Sequence[Sequence[Option]]) -> int:
    """The smallest budget that :func:`solve` can meet."""
    low, high = 0, sum(max(o.work + o.held for o in here) for here in options)
    while low < high:
        middle = (low + high) // 2
        if np.isfinite(_before(options, middle)[-1]):
            high = middle
        else:
            low = middle + 1
    return high


def _possible(options: Sequence[Sequence[Option]], budget: float) -> list[list[Option]]:
    """Those options that some choice within the budget has: as little as can be is held before them, and what they
    hold leaves room for what needs least behind them. All others would make the relaxation cheaper than any choice."""
    place, n = _places(options), len(options)
    before = _before(options, budget)
    room = [-np.inf] * n + [np.inf]  # what may be held before each position for the rest to fit
    for i in reversed(range(n)):
        room[i] = max(min(budget - o.work, room[place[o.stop]] - o.held) for o in options[i])
    return [
        [o for o in here if before[i] <= min(budget - o.work, room[place[o.stop]] - o.held)]
        for i, here in enumerate(options)
    ]


def _before(options: Sequence[Sequence[Option]], budget: float) -> list[float]:
    """The least that can be held where each unit begins, and at the end, within the budget."""
    place = _places(options)
    held = [0.0] + [np.inf] * len(options)
    for i, here in enumerate(options):
        for o in here:
            if held[i] + o.work <= budget:
                j = place[o.stop]
                held[j] = min(held[j], held[i] + o.held)
    return held


def _places(options: Sequence[Sequence[Option]]) -> dict[int, int]:
    """The place of the unit that begins at a step, and that of the end."""
    return {here[0].start: i for i, here in enumerate(options)} | {
        options[-1][0].stop: len(options)
    }
