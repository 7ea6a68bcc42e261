"""Host PageRank against NetworkX, on packed and on gapped graphs."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from dynstore.algorithms.link_analysis.cpu.ranks import pagerank, sum_out_weights
from tests.algorithms.oracles import DENSITIES, DTYPES, GRAPHS, Edges, by_vertex


def _rank(edges: Edges, density: float, directed: bool, weighted: bool, dtypes: Any, targets: Any = None) -> Any:
    out = edges.csr(density, directed=directed, weighted=weighted, dtypes=dtypes)
    into = edges.transposed_csr(density, directed=directed, weighted=weighted, dtypes=dtypes)
    sums = sum_out_weights(out)
    start = np.full(edges.num_vertices, 1 / edges.num_vertices, dtype=sums.dtype)
    tol = 1e-6 if start.dtype == np.float32 else 1e-9  # float32 ranks cannot settle much below
    ranks, iterations, error = pagerank(into, sums, 0.85, targets, start, 500, tol)
    assert error < tol
    assert 0 < iterations < 500
    assert ranks.dtype == sums.dtype
    np.testing.assert_array_equal(start, start[0])
    return ranks


@pytest.mark.parametrize("dtypes", DTYPES, ids=["32", "64"])
@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "unweighted"])
@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
@pytest.mark.parametrize("edges", GRAPHS, ids=str)
def test_pagerank_equals_networkx(edges: Edges, directed: bool, weighted: bool, density: float, dtypes: Any) -> None:
    ranks = _rank(edges, density, directed, weighted, dtypes)
    expected = nx.pagerank(
        edges.networkx(directed=directed), tol=1e-12, weight="weight" if weighted else None, max_iter=1000
    )
    assert np.abs(ranks - by_vertex(expected, edges.num_vertices)).sum() < 1e-5
    assert abs(ranks.sum(dtype=np.float64) - 1) < 1e-5


@pytest.mark.parametrize("edges", GRAPHS, ids=str)
def test_personalization_takes_the_dangling_rank_too(edges: Edges) -> None:
    targets = np.zeros(edges.num_vertices)
    targets[[0, 2]] = 0.25, 0.75
    ranks = _rank(edges, 0.6, True, True, DTYPES[1], targets)
    expected = nx.pagerank(edges.networkx(directed=True), personalization={0: 0.25, 2: 0.75}, tol=1e-12, max_iter=1000)
    assert np.abs(ranks - by_vertex(expected, edges.num_vertices)).sum() < 1e-5


@pytest.mark.parametrize("dtypes", DTYPES, ids=["32", "64"])
@pytest.mark.parametrize("density", DENSITIES)
def test_sum_out_weights(density: float, dtypes: Any) -> None:
    edges = GRAPHS[0]
    graph = edges.csr(density, directed=True, weighted=True, dtypes=dtypes)
    if density < 1:
        graph.weights[~graph.mask()] = np.nan
    sums = sum_out_weights(graph)
    assert sums.dtype == dtypes[1]
    np.testing.assert_allclose(sums, edges.scipy(directed=True).sum(axis=1), rtol=1e-6)
    degrees = sum_out_weights(edges.csr(density, directed=True, dtypes=dtypes))
    assert degrees.dtype == np.float32
    np.testing.assert_array_equal(degrees, (edges.scipy(directed=True) != 0).sum(axis=1))


def test_iterations_are_bounded_and_the_last_change_is_reported() -> None:
    edges = GRAPHS[0]
    graph = edges.csr(0.7, directed=False)
    sums = sum_out_weights(graph)
    start = np.full(edges.num_vertices, 1 / edges.num_vertices, dtype=np.float64)
    before, _, _ = pagerank(graph, sums, 0.85, None, start, 2, 0.0)
    after, iterations, error = pagerank(graph, sums, 0.85, None, start, 3, 0.0)
    assert iterations == 3
    assert error == pytest.approx(np.abs(after - before).sum())
    _, iterations, error = pagerank(graph, sums, 0.85, None, start, 100, 1e-3)
    assert error < 1e-3
    assert iterations < 100


def test_starting_at_the_result_takes_one_iteration() -> None:
    edges = GRAPHS[0]
    graph = edges.csr(0.7, directed=False)
    sums = sum_out_weights(graph)
    start = np.full(edges.num_vertices, 1 / edges.num_vertices, dtype=np.float64)
    ranks, _, _ = pagerank(graph, sums, 0.85, None, start, 500, 1e-9)
    assert pagerank(graph, sums, 0.85, None, ranks, 500, 1e-8)[1] == 1
