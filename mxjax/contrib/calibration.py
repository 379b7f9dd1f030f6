"""Which range of floats 8-bit integers stand for: from the arrays that a network computes on samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..nd._thresholds import optimal_threshold

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
