"""The range of 8-bit integers that keeps most of a histogram, for `calibrate_entropy` and for calibrations."""

from __future__ import annotations

from typing import Any

import numpy as np


def optimal_threshold(counts: Any, edges: Any, levels: int = 255) -> tuple[float, float]:
    """The reach of 8-bit integers whose distribution diverges least (Kullback-Leibler) from a histogram's.

    Args:
      counts, edges: a histogram around 0, an odd number of bins.
      levels: how many integers there are.

    Returns the reach, and the divergence.
    """
    counts = np.asarray(counts, "float64")
    edges = np.asarray(edges)
    middle, half = len(counts) // 2, levels // 2
    at = np.flatnonzero(counts)
    before = np.concatenate([[0.0], np.cumsum(counts[at])])  # exact: whole numbers
    windows, divergences = [], []
    for i in range(half, middle + 1):
        first, last = middle - i, min(middle + i + 1, len(counts))
        # Runs of so many bins become one integer; the last takes the rest.
        starts = first + np.arange(levels) * ((last - first) // levels)
        bins = np.searchsorted(at, np.append(starts, last))
        low, high = before[bins[0]], before[bins[-1]]
        found = _divergence(
            counts[at[bins[0] : bins[-1]]], np.diff(before[bins]), np.diff(bins), last - first,
            (low, counts[first]), (before[-1] - high, counts[last - 1]),
        )  # fmt: skip
        windows.append((first, last))
        divergences.append(found)
    # Which of many nearly equal ones is the least depends on the rounding of MXNet's sums.
    nearly = min(divergences, default=np.inf) * (1 + CLOSE) + CLOSE
    best = float(edges[-1]), np.inf
    for (first, last), found in zip(windows, divergences, strict=True):
        if found <= nearly and (said := _rounded(counts, first, last, levels)) < best[1]:
            best = float(edges[last]), said
    return best


#: How far from the exact divergence, relatively and absolutely, MXNet's sums in 32 bits may come out.
CLOSE = 1e-3


def _rounded(counts: np.ndarray, first: int, last: int, levels: int) -> float:
    """The divergence of a window as MXNet rounds it: it adds one number after the other in 32 bits."""
    wanted = counts[first:last].copy()
    inner = wanted.copy()
    inner[0] = 0  # MXNet counts the first bin among what is cut off, too
    wanted[0] += counts[:first].sum()
    wanted[-1] += counts[last:].sum()
    each = len(inner) // levels
    starts = np.arange(levels) * each
    sums = np.add.reduceat(inner, starts)
    filled = np.add.reduceat((inner != 0).astype("float64"), starts)
    which = np.minimum(np.arange(len(inner)) // each, levels - 1)
    spread = np.where(wanted != 0, (sums / np.maximum(filled, 1))[which], 0.0)
    p, q = smooth(wanted), smooth(spread)
    if p is None or q is None:
        return float("inf")
    p, q = p / np.cumsum(p)[-1], q / np.cumsum(q)[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.cumsum(np.where(p > 0, p * np.log(p / q), np.float32(0)))[-1])


def _divergence(
    full: np.ndarray, sums: np.ndarray, filled: np.ndarray, n: int,
    below: tuple[float, float], above: tuple[float, float],
) -> float:  # fmt: skip
    """How far a histogram of n bins, cut off at both ends, diverges from one of which runs of bins have one number.

    Args:
      full: the bins that are not empty.
      sums, filled: of each run, what is in it, and how many of its bins are not empty.
      below, above: what is cut off and is counted in the first and in the last bin, and what these had before.
    """
    wanted, filled, sums = full.copy(), filled.astype("float64"), sums.copy()
    # MXNet counts the first bin among what is cut off, too: its run is what its other bins hold.
    held = filled.copy()
    if below[1]:
        sums[0], held[0] = sums[0] - below[1], held[0] - 1
    inside = sums / np.maximum(held, 1)
    mass = sums.copy()
    mass[0] += below[1]
    new: list[float] = []
    for k, (more, had) in ((0, below), (-1, above)):
        mass[k] += more
        if had:
            wanted[k] += more
        elif more:
            new.append(more)
            filled[k] += 1
    wanted = np.append(wanted, new)
    taken = _taken(n, len(wanted))
    spread = filled * (inside != 0)
    given = _taken(n, int(spread.sum()))
    if taken is None or given is None:
        return float("inf")
    p, q = wanted - taken, np.where(inside != 0, inside - given, EPS)
    empty = n - len(wanted)
    whole = p.sum() + EPS * empty
    others = (filled * q).sum() + EPS * empty
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = (p * np.log(p)).sum() - ((mass - filled * taken) * np.log(q))[filled > 0].sum()
        # Equal ones are no more apart than sums are rounded.
        return round(float(apart / whole + np.log(others / whole)), 14)


#: What an empty bin holds for logarithms, taken from the others.
EPS = 1e-4


def _taken(n: int, full: int, eps: float = EPS) -> float | None:
    """What each bin that is not empty gives to the empty ones; None where it has too little."""
    return None if not full or eps * (n - full) / full >= 1 else eps * (n - full) / full


def smooth(p: np.ndarray, eps: float = EPS) -> np.ndarray | None:
    """Zeros as a little, taken from the others, in 32 bits; None where these have too little."""
    full = int(np.count_nonzero(p))
    if _taken(p.size, full, eps) is None:
        return None
    little = np.float32(eps)
    return np.where(
        p == 0, little, p.astype("float32") - little * np.float32(p.size - full) / np.float32(full)
    )
