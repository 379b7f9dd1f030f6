"""DGL's operators on graphs, against what MXNet 1.9.1 and 2.0.0b1 give."""

from __future__ import annotations

import numpy as np
import pytest

import mxjax as mx

contrib = mx.nd.contrib


@pytest.fixture
def graph():
    """Five vertices, an edge from each to each other one, numbered from 1."""
    columns = np.array([[v for v in range(5) if v != u] for u in range(5)]).reshape(-1)
    return mx.nd.sparse.csr_matrix(
        (np.arange(1, 21), columns, np.arange(0, 21, 4)), shape=(5, 5), dtype="int64"
    )


def ids(*numbers):
    return mx.nd.array(numbers, dtype="int64")


def parts(x):
    return [a.asnumpy().tolist() for a in (x.data, x.indices, x.indptr)]


def test_edges_and_adjacency(graph):
    assert contrib.edge_id(graph, ids(0, 1, 2), ids(0, 2, 4)).asnumpy().tolist() == [-1, 6, 12]
    ones = contrib.dgl_adjacency(graph)
    assert ones.dtype == np.float32 and parts(ones) == [[1] * 20, *parts(graph)[1:]]
    with pytest.raises(TypeError, match="csr"):
        contrib.dgl_adjacency(mx.nd.ones((2, 2)))
    with pytest.raises(IndexError):
        contrib.edge_id(graph, ids(7), ids(0))


def test_subgraphs(graph):
    sub, mapping = contrib.dgl_subgraph(graph, ids(0, 2, 3), return_mapping=True)
    assert parts(sub) == [[0, 1, 2, 3, 4, 5], [1, 2, 0, 2, 0, 1], [0, 2, 4, 6]]
    assert parts(mapping) == [[2, 3, 9, 11, 13, 15], *parts(sub)[1:]]
    _, other = contrib.dgl_subgraph(graph, ids(0, 2, 3), ids(1, 4), return_mapping=False)
    assert parts(other) == [[0, 1], [1, 0], [0, 1, 2]]


def test_a_whole_neighbourhood(graph):
    known, sub, layer = contrib.dgl_csr_neighbor_uniform_sample(
        graph, ids(0, 3), num_args=2, num_hops=2, num_neighbor=10, max_num_vertices=6
    )
    assert known.asnumpy().tolist() == [0, 1, 2, 3, 4, 0, 5]
    assert sub.shape == (6, 5) and parts(sub) == [*parts(graph)[:2], [0, 4, 8, 12, 16, 20, 20]]
    assert layer.asnumpy().tolist() == [0, 1, 1, 0, 1, 0]
    with pytest.warns(UserWarning, match="truncated"):
        known, sub, layer = contrib.dgl_csr_neighbor_uniform_sample(
            graph, ids(0), num_args=2, num_hops=2, num_neighbor=10, max_num_vertices=3
        )
    assert [known.asnumpy().tolist(), *parts(sub), layer.asnumpy().tolist()] == [
        [0, 1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4], [0, 4, 4, 4], [0, 1, 1]
    ]  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_drawn_is_part_of_the_graph_and_follows_from_the_seed(graph, weighted):
    prob = mx.nd.array([0.9, 0.8, 0.0, 0.4, 0.1])

    def draw():
        options = {"num_hops": 1, "num_neighbor": 2, "max_num_vertices": 4}
        if weighted:
            return contrib.dgl_csr_neighbor_non_uniform_sample(
                graph, prob, ids(0), ids(2), **options
            )
        return contrib.dgl_csr_neighbor_uniform_sample(graph, ids(0), ids(2), **options)

    mx.random.seed(3)
    made = draw()
    mx.random.seed(3)
    again = draw()
    assert [x.asnumpy().tolist() for x in made] == [x.asnumpy().tolist() for x in again]
    seen = set()
    for _ in range(12):
        made = draw()
        known, sub = made[0].asnumpy(), made[2]
        count = int(known[-1])
        vertices = known[:count].tolist()
        assert count == 3 and vertices[0] == 0 and sub.indices.asnumpy().tolist() == vertices[1:]
        assert sub.data.asnumpy().tolist() == vertices[1:]  # the edge from 0 to v is v
        seen |= set(vertices)
        small = contrib.dgl_graph_compact(sub, made[0], graph_sizes=count, return_mapping=False)
        assert small.shape == (3, 3) and parts(small) == [[0, 1], [1, 2], [0, 2, 2, 2]]
        if weighted:
            np.testing.assert_allclose(made[4].asnumpy()[:count], prob.asnumpy()[vertices])
    assert (2 in seen) is not weighted and {1, 3} <= seen


def test_mappings_of_compacted_graphs(graph):
    known, sub, _ = contrib.dgl_csr_neighbor_uniform_sample(
        graph, ids(2), num_hops=1, num_neighbor=9, max_num_vertices=6
    )
    small, mapping = contrib.dgl_graph_compact(sub, known, graph_sizes=(5,), return_mapping=True)
    assert parts(small) == [[0, 1, 2, 3], [0, 1, 3, 4], [0, 0, 0, 4, 4, 4]]
    assert parts(mapping)[0] == [9, 10, 11, 12]
    with pytest.raises(ValueError, match="max_num_vertices"):
        contrib.dgl_csr_neighbor_uniform_sample(graph, ids(0, 1, 2), max_num_vertices=2)
