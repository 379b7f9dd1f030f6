"""Operators of `mx.nd.contrib`."""

from __future__ import annotations

from typing import Any

import numpy as _np

from ..array.classes import NDArray
from ..array.frontend import fill
from ..errors import MXNetValueError
from ..errors import explain_names as _explain_names
from ..npx.control_flow import cond, foreach, while_loop
from ..ops.table import FRONT_ENDS
from . import take as _take
from ._graphs import (
    dgl_adjacency,
    dgl_csr_neighbor_non_uniform_sample,
    dgl_csr_neighbor_uniform_sample,
    dgl_graph_compact,
    dgl_subgraph,
    edge_id,
)
from ._steps import of_both as _of_both
from ._steps import steps as _steps


def boolean_mask(
    data: Any, index: Any, axis: int = 0, out: Any = None, name: str | None = None
) -> NDArray:
    """The rows whose number in ``index`` is not zero.

    Args:
      data: the input.
      index: which rows are chosen: those where it is not 0; a number for each.
      axis: the axis of the rows; MXNet takes 0 alone.
      out: an array that the rows are written into, and that is given back.
      name: taken for symbols' sake.

    Returns:
      NDArray or Symbol: the rows that were chosen.
    """
    from ..np.functions import flatnonzero

    if index.ndim != 1 or index.shape[0] != data.shape[axis]:
        raise MXNetValueError(
            f"index has a number for each of the {data.shape[axis]} rows of data, got shape {index.shape}"
        )
    rows = flatnonzero(index).as_nd_ndarray()
    return _take(data, rows, axis=axis, mode="clip", out=out)


def dynamic_reshape(
    data: NDArray, shape: NDArray, out: Any = None, name: str | None = None
) -> NDArray:
    """The array in the shape that another array holds, by nd.reshape's rules.

    Args:
      data: the input.
      shape: the shape, as an array of integers.
      out: an array that the elements are written into, and that is given back.
      name: taken for symbols' sake.

    Returns:
      NDArray or Symbol: the elements in that shape.
    """
    made = data.reshape(tuple(int(n) for n in shape.asnumpy())).copy()
    return made if out is None else made.copyto(out)


def rand_zipfian(true_classes: NDArray, num_sampled: int, range_max: int, ctx: Any = None) -> Any:
    """Classes below ``range_max`` drawn log-uniformly: the smaller, the likelier (class k with log((k + 2) / (k + 1))).

    Args:
      true_classes: the classes that occur.
      num_sampled: how many classes are drawn.
      ctx: MXNet 1's name of `device`.

    Returns:
      the classes drawn, int64, and how often one may expect the true classes and those drawn, float64.
    """
    from . import random

    top = _np.log(range_max + 1.0)
    drawn = random.uniform(0, top, shape=(num_sampled,), dtype="float64", ctx=ctx)
    sampled = (drawn.exp() - 1).astype("int64") % range_max

    def expected(classes: NDArray) -> NDArray:
        k = classes.astype("float64")
        return ((k + 2) / (k + 1)).log() / top * num_sampled

    return sampled, expected(true_classes), expected(sampled)


def calibrate_entropy(hist: Any, hist_edges: Any, num_quantized_bins: int = 255) -> Any:
    """The range that loses least in ``num_quantized_bins`` steps, by the Kullback-Leibler divergence of histograms.

    hist: (n,) counts, n odd, zero in the middle; hist_edges: (n + 1,).

    Args:
      hist_edges: the edges of the histogram's bins.
      num_quantized_bins: into how many steps the range is divided.

    Returns:
      the threshold and its divergence, each (1,) and float32.
    """
    from ._thresholds import optimal_threshold

    made = optimal_threshold(hist.asnumpy(), hist_edges.asnumpy(), num_quantized_bins)
    return [_as(hist, x) for x in made]


def _as(like: Any, number: float) -> Any:
    from ..array.creation import array, nd_array

    return (nd_array if like._legacy else array)(_np.array([number], "float32"))


_made = _steps()
globals().update(_made)

__all__ = [
    *_made,
    "boolean_mask",
    "calibrate_entropy",
    "cond",
    "dgl_adjacency",
    "dgl_csr_neighbor_non_uniform_sample",
    "dgl_csr_neighbor_uniform_sample",
    "dgl_graph_compact",
    "dgl_subgraph",
    "dynamic_reshape",
    "edge_id",
    "foreach",
    "rand_zipfian",
    "while_loop",
    *fill(globals(), "nd.contrib", NDArray),
]
globals().update(_of_both(FRONT_ENDS["nd.contrib"], globals()))

_explain_names(__name__)
