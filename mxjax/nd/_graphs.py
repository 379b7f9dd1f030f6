"""Graphs as csr matrices of edge numbers: edges looked up, sub-graphs, and neighbourhoods drawn at random, for DGL.

Row u has an element for each edge from u. How many there are depends on the numbers, so they are computed on the host.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import errors
from ..array.creation import nd_array
from ..array.ndarray import NDArray


class _Graph(NamedTuple):
    """A csr matrix on the host."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, ...]

    def row(self, u: int) -> slice:
        return slice(int(self.indptr[u]), int(self.indptr[u + 1]))


def _host(name: str, graph: Any) -> _Graph:
    if getattr(graph, "stype", None) != "csr":
        raise errors.MXNetTypeError(
            f"{name} takes a graph as a csr matrix (mx.nd.sparse.csr_matrix), got {type(graph).__name__}"
        )
    return _Graph(
        graph.data.asnumpy(), graph.indices.asnumpy(), graph.indptr.asnumpy(), graph.shape
    )


def _numbers(name: str, vertices: Any, count: int) -> np.ndarray:
    found: np.ndarray = vertices.asnumpy().astype(np.int64)
    if found.size and not (found.min() >= 0 and found.max() < count):
        raise errors.MXNetIndexError(
            f"{name}: a vertex outside of 0 ... {count - 1} in {found.tolist()}"
        )
    return found


def _csr(data: Any, indices: Any, indptr: Any, shape: Any, dtype: Any) -> Any:
    from .sparse import csr_matrix

    parts = np.asarray(data, dtype), np.asarray(indices, np.int64), np.asarray(indptr, np.int64)
    return csr_matrix(parts, shape=tuple(shape), dtype=dtype)


def edge_id(data: Any, u: Any, v: Any, **kwargs: Any) -> NDArray:
    """The elements data[u, v], the numbers of the edges from u to v; -1 where there is none.

    data: a csr matrix; u, v: (N,).

    Args:
      u: the numbers of the first vertices.
      v: the numbers of the second vertices.

    Returns:
      NDArray: the edges' numbers, -1 where there is none.
    """
    graph = _host("edge_id", data)
    of, to = (_numbers("edge_id", x, n) for x, n in zip((u, v), graph.shape, strict=True))
    found = np.full(of.shape, -1, graph.data.dtype)
    for k, (a, b) in enumerate(zip(of, to, strict=True)):
        at = graph.row(a)
        there = np.flatnonzero(graph.indices[at] == b)
        if there.size:
            found[k] = graph.data[at][there[0]]
    return nd_array(found, dtype=found.dtype)


def dgl_adjacency(data: Any, **kwargs: Any) -> Any:
    """The graph with ones, float32, for the numbers of its edges.

    Args:
      data: the adjacency matrix, csr, whose numbers are those of edges.

    Returns:
      CSRNDArray: the matrix with ones for numbers.
    """
    graph = _host("dgl_adjacency", data)
    return _csr(np.ones(len(graph.data)), graph.indices, graph.indptr, graph.shape, np.float32)


def _induced(graph: _Graph, vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, indices and indptr of the graph between these vertices, which are numbered in their order."""
    place = np.full(graph.shape[1], -1, np.int64)
    place[vertices] = np.arange(len(vertices))
    data, indices, ends = [graph.data[:0]], [place[:0]], [0]
    for u in vertices:
        at = graph.row(u)
        to = place[graph.indices[at]]
        data.append(graph.data[at][to >= 0])
        indices.append(to[to >= 0])
        ends.append(ends[-1] + len(indices[-1]))
    return np.concatenate(data), np.concatenate(indices), np.asarray(ends)


def dgl_subgraph(
    graph: Any, *vertices: Any, return_mapping: bool, num_args: int | None = None, **kwargs: Any
) -> Any:
    """The graphs between the vertices of each array, sorted ones, whose edges are numbered anew.

    Args:
      graph: the adjacency matrices, csr.
      return_mapping: whether the original edges are given, too.
      num_args: how many arrays follow; counted without.

    Returns:
      a csr matrix for each array; with ``return_mapping`` then one more each, with the edges' old numbers.
    """
    whole = _host("dgl_subgraph", graph)
    found, mappings = [], []
    for each in vertices:
        chosen = _numbers("dgl_subgraph", each, whole.shape[0])
        data, indices, indptr = _induced(whole, chosen)
        shape = (len(chosen), len(chosen))
        found.append(_csr(np.arange(len(data)), indices, indptr, shape, np.int64))
        mappings.append(_csr(data, indices, indptr, shape, data.dtype))
    return _one_or_all([*found, *mappings] if return_mapping else found)


def dgl_graph_compact(
    *graph_data: Any,
    graph_sizes: Any,
    return_mapping: bool,
    num_args: int | None = None,
    **kwargs: Any,
) -> Any:
    """Graphs of drawn neighbourhoods without the columns of vertices that were not drawn.

    graph_data: the graphs, and then as many arrays of their vertices, as the sampling operators give them;
    graph_sizes: how many vertices each has.

    Args:
      return_mapping: whether the original edges are given, too.
      num_args: how many arrays follow; counted without.

    Returns:
      a csr matrix (size, size) for each, its edges numbered anew; with ``return_mapping`` one more each, with the
      edges' old numbers.
    """
    count = len(graph_data) // 2
    sizes = (
        np.asarray(getattr(graph_sizes, "asnumpy", lambda: graph_sizes)()).reshape(-1).astype(int)
    )
    if len(graph_data) != 2 * count or len(sizes) != count:
        raise errors.MXNetValueError(
            "dgl_graph_compact takes as many graphs as arrays of vertices and graph_sizes, got "
            f"{len(graph_data)} arrays and {len(sizes)} sizes"
        )
    found, mappings = [], []
    for each, ids, size in zip(graph_data[:count], graph_data[count:], sizes, strict=True):
        graph = _host("dgl_graph_compact", each)
        place = np.full(graph.shape[1], -1, np.int64)
        place[_numbers("dgl_graph_compact", ids[:size], graph.shape[1])] = np.arange(size)
        indptr = graph.indptr[: size + 1]
        indices, data = place[graph.indices[: indptr[-1]]], graph.data[: indptr[-1]]
        if (indices < 0).any():
            raise errors.MXNetValueError(
                "dgl_graph_compact: an edge leads to a vertex that was not drawn"
            )
        found.append(_csr(np.arange(len(data)), indices, indptr, (size, size), np.int64))
        mappings.append(_csr(data, indices, indptr, (size, size), data.dtype))
    return _one_or_all([*found, *mappings] if return_mapping else found)


def _one_or_all(found: list[Any]) -> Any:
    return found[0] if len(found) == 1 else found


#: From the columns of a row and how many are wanted to the places that are drawn.
_Draw = Callable[[np.ndarray, int], np.ndarray]


def _drawn(
    name: str, graph: _Graph, seeds: np.ndarray, hops: int, neighbours: int, most: int, draw: _Draw
) -> tuple[np.ndarray, np.ndarray, Any]:
    """The vertices reached from the seeds, ascending, with their distances, and the edges that were drawn."""
    if most < len(seeds):
        raise errors.MXNetValueError(
            f"{name}: max_num_vertices={most} is less than the {len(seeds)} seeds"
        )
    layer = dict.fromkeys(seeds.tolist(), 0)
    queue = list(layer)
    edges: dict[int, np.ndarray] = {}
    at = 0
    while at < len(queue) and len(queue) < most:
        u = queue[at]
        at += 1
        if layer[u] >= hops:
            continue
        row = graph.row(u)
        columns = graph.indices[row]
        chosen = (
            np.arange(len(columns))
            if len(columns) <= neighbours
            else np.sort(draw(columns, neighbours))
        )
        edges[u] = row.start + chosen
        for v in columns[chosen].tolist():
            if v not in layer and len(queue) < most:
                layer[v] = layer[u] + 1
                queue.append(v)
    if at < len(queue) and any(layer[u] < hops for u in queue[at:]):
        warnings.warn(
            f"{name}: the sampling is truncated, because max_num_vertices={most} is reached: use fewer seeds or a "
            "smaller neighbourhood",
            stacklevel=4,
        )
    vertices = np.sort(np.asarray(queue, np.int64))
    none = np.empty(0, np.int64)
    rows = [edges.get(u, none) for u in vertices.tolist()]
    ends = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    ends = np.concatenate([ends, np.full(most - len(vertices), ends[-1])])
    places = np.concatenate([none, *rows])
    sub = _csr(
        graph.data[places], graph.indices[places], ends, (most, graph.shape[1]), graph.data.dtype
    )
    return vertices, np.asarray([layer[u] for u in vertices.tolist()], np.int64), sub


def _filled(values: Iterable[Any], length: int, dtype: Any) -> np.ndarray:
    made = np.zeros(length, dtype)
    listed = list(values)
    made[: len(listed)] = listed
    return made


def _generator() -> np.random.Generator:
    """Draws that follow from `mx.random.seed`."""
    from .random import randint

    return np.random.default_rng(int(randint(0, 2**31 - 1, shape=(1,)).asscalar()))


def _sampled(
    name: str, graph: _Graph, seeds: Sequence[Any], draw: _Draw, prob: np.ndarray | None, hops: int, neighbours: int,
    most: int,
) -> list[NDArray]:  # fmt: skip
    ids, graphs, probabilities, layers = [], [], [], []
    for each in seeds:
        chosen = _numbers(name, each, graph.shape[0])
        vertices, layer, sub = _drawn(name, graph, chosen, hops, neighbours, most, draw)
        known = _filled(vertices, most + 1, np.int64)
        known[-1] = len(vertices)
        ids.append(nd_array(known, dtype="int64"))
        graphs.append(sub)
        layers.append(nd_array(_filled(layer, most, np.int64), dtype="int64"))
        if prob is not None:
            probabilities.append(
                nd_array(_filled(prob[vertices], most, prob.dtype), dtype=prob.dtype)
            )
    return [*ids, *graphs, *probabilities, *layers]


def dgl_csr_neighbor_uniform_sample(
    csr_matrix: Any, *seed_arrays: Any, num_hops: int = 1, num_neighbor: int = 2, max_num_vertices: int = 100,
    num_args: int | None = None, **kwargs: Any,
) -> list[NDArray]:  # fmt: skip
    """Neighbourhoods of vertices, ``num_hops`` far: of each vertex at most ``num_neighbor`` edges, all as likely.

    Args:
      csr_matrix: the graph's adjacency matrix, csr, whose numbers are those of edges.
      num_neighbor: how many neighbours of a vertex are drawn.
      max_num_vertices: how many vertices a subgraph has at most.
      num_args: how many arrays follow; counted without.

    Returns:
      for each array of seeds the vertices, ascending, (max_num_vertices + 1,) with their number at the end; then for
      each a csr matrix (max_num_vertices, vertices of the graph) of the edges drawn, a row for each of these
        vertices;
      then for each the distances from the seeds (max_num_vertices,).
    """
    random = _generator()

    def draw(columns: np.ndarray, count: int) -> np.ndarray:
        return random.choice(len(columns), count, replace=False)

    name = "dgl_csr_neighbor_uniform_sample"
    graph = _host(name, csr_matrix)
    return _sampled(name, graph, seed_arrays, draw, None, num_hops, num_neighbor, max_num_vertices)


def dgl_csr_neighbor_non_uniform_sample(
    csr_matrix: Any, probability: Any, *seed_arrays: Any, num_hops: int = 1, num_neighbor: int = 2,
    max_num_vertices: int = 100, num_args: int | None = None, **kwargs: Any,
) -> list[NDArray]:  # fmt: skip
    """`dgl_csr_neighbor_uniform_sample` where an edge is as likely as ``probability`` (vertices,) says of its end.

    Args:
      csr_matrix: the graph's adjacency matrix, csr, whose numbers are those of edges.
      probability: the probability of each vertex.
      num_hops: how many edges away neighbours are.
      num_neighbor: how many neighbours of a vertex are drawn.
      max_num_vertices: how many vertices a subgraph has at most.
      num_args: how many arrays follow; counted without.

    Returns:
      the same, with the probabilities of the vertices (max_num_vertices,) before the distances.
    """
    random = _generator()
    prob = probability.asnumpy()

    def draw(columns: np.ndarray, count: int) -> np.ndarray:
        with np.errstate(divide="ignore"):  # the count largest: draws without replacement
            keys = np.log(prob[columns]) + random.gumbel(size=len(columns))
        return np.argsort(-keys)[:count]

    name = "dgl_csr_neighbor_non_uniform_sample"
    graph = _host(name, csr_matrix)
    return _sampled(name, graph, seed_arrays, draw, prob, num_hops, num_neighbor, max_num_vertices)
