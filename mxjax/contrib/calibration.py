"""Which range of floats 8-bit integers stand for: from the arrays that a network computes on samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["CalibrationCollector", "Histograms", "MinMax", "combine_histogram", "optimal_threshold"]

Histogram = tuple[np.ndarray, np.ndarray, float, float, float]


class CalibrationCollector:
    """Looks at the arrays of some layers and gives their ranges; derive from it for ranges of another kind.

    `include_layers` are the names of the arrays that are asked for, `min_max_dict` the ranges by name.

    >>> collector = MinMax(["fc_output"])
    >>> collector.collect("fc_output", "FullyConnected", np.array([-1.0, 3.0]))
    >>> collector.post_collect()
    {'fc_output': (-1.0, 3.0)}
    """

    def __init__(self) -> None:
        self.include_layers: Sequence[str] | None = None
        self.min_max_dict: dict[str, tuple[float, float]] = {}

    def collect(self, name: str, op_name: str, arr: Any) -> None:
        """Take in an array: its name, the operator that made it, and its numbers; to be defined."""
        from mxjax.errors import MXNetNotImplementedError

        raise MXNetNotImplementedError(f"{type(self).__name__} does not define collect()")

    def post_collect(self) -> Mapping[str, tuple[float, float]]:
        """The ranges, when all arrays have been seen."""
        return self.min_max_dict

    def _asked(self, name: str) -> bool:
        return self.include_layers is None or name in self.include_layers


def _numbers(arr: Any) -> np.ndarray:
    return arr.asnumpy() if hasattr(arr, "asnumpy") else np.asarray(arr)


class MinMax(CalibrationCollector):
    """The least and the greatest number (`calib_mode="naive"`)."""

    def __init__(self, include_layers: Sequence[str] | None = None):
        super().__init__()
        self.include_layers = include_layers

    def collect(self, name: str, op_name: str, arr: Any) -> None:
        if self._asked(name):
            found = _numbers(arr)
            low, high = self.min_max_dict.get(name, (np.inf, -np.inf))
            self.min_max_dict[name] = min(low, float(found.min())), max(high, float(found.max()))


class Histograms(CalibrationCollector):
    """The range that loses least of the distribution (`calib_mode="entropy"`).

    Szymon Migacz, 8-bit Inference with TensorRT, GTC 2017.
    """

    def __init__(
        self,
        include_layers: Sequence[str] | None = None,
        quantized_dtype: str = "int8",
        num_bins: int = 8001,
    ):
        super().__init__()
        self.include_layers = include_layers
        self.quantized_dtype = quantized_dtype
        self.num_bins = num_bins
        self.hist_dict: dict[str, Histogram] = {}

    def collect(self, name: str, op_name: str, arr: Any) -> None:
        if not self._asked(name):
            return
        found = _numbers(arr)
        low, high = float(found.min()), float(found.max())
        reach = max(abs(low), abs(high))
        if name in self.hist_dict:
            self.hist_dict[name] = combine_histogram(self.hist_dict[name], found, low, high, reach)
        else:
            counts, edges = np.histogram(found, bins=self.num_bins, range=(-reach, reach))
            self.hist_dict[name] = counts, edges, low, high, reach

    def post_collect(self) -> Mapping[str, tuple[float, float]]:
        for name, (counts, edges, low, _, _) in self.hist_dict.items():
            positive = low >= 0 and self.quantized_dtype in ("auto", "uint8")
            reach, _ = optimal_threshold(counts, edges, 511 if positive else 255)
            self.min_max_dict[name] = (0.0 if positive else -reach, reach)
        self.hist_dict.clear()
        return self.min_max_dict


def combine_histogram(
    old_hist: Histogram, arr: Any, new_min: float, new_max: float, new_th: float
) -> Histogram:
    """A histogram with further numbers in it; bins are added at both ends where these reach farther.

    Args:
      old_hist: counts, edges, least, greatest number, and the reach: edges go from -reach to reach.
      arr: the numbers.
      new_min, new_max, new_th: their least, their greatest, and their reach.
    """
    counts, edges, low, high, reach = old_hist
    low, high = min(low, new_min), max(high, new_max)
    if new_th <= reach:
        more, _ = np.histogram(arr, bins=len(counts), range=(-reach, reach))
        return counts + more, edges, low, high, reach
    step = 2 * reach / len(counts)
    wider = int((new_th - reach) // step + 1) if step else 0
    reach = wider * step + reach if step else new_th
    made, edges = np.histogram(arr, bins=len(counts) + 2 * wider, range=(-reach, reach))
    made[wider : len(made) - wider] += counts
    return made, edges, low, high, reach


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
    best = float(edges[-1]), np.inf
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
        if found < best[1]:
            best = float(edges[last]), found
    return best


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
    """Zeros as a little, taken from the others; None where these have too little."""
    taken = _taken(p.size, int(np.count_nonzero(p)), eps)
    return None if taken is None else np.where(p == 0, eps, p - taken)
