"""Host triangle counts, components and betweenness against NetworkX; and what all kernels have in common."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from dynstore.algorithms.centrality.cpu import accumulate_dependencies
from dynstore.algorithms.community.cpu.triangles import count_triangles
from dynstore.algorithms.components.cpu.labels import label_components
from dynstore.algorithms.link_analysis.cpu.ranks import pagerank, sum_out_weights
from dynstore.algorithms.traversal.cpu.search import bfs, sssp
from dynstore.testing.arrays import gapped_csr
from tests.algorithms.oracles import DENSITIES, DTYPES, GRAPHS, Edges, by_vertex

every_graph = pytest.mark.parametrize("edges", GRAPHS, ids=str)
every_density = pytest.mark.parametrize("density", DENSITIES)
every_dtype = pytest.mark.parametrize("dtypes", DTYPES, ids=["int32", "int64"])
both_kinds = pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])


@every_dtype
@every_density
@every_graph
def test_triangles_equal_networkx(edges: Edges, density: float, dtypes: Any) -> None:
    counts = count_triangles(edges.csr(density, directed=False, dtypes=dtypes))
    assert counts.dtype == dtypes[0]
    graph = edges.networkx(directed=False)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    np.testing.assert_array_equal(counts, by_vertex(nx.triangles(graph), edges.num_vertices))


@every_dtype
@every_density
@both_kinds
@every_graph
def test_labels_are_the_smallest_vertices(edges: Edges, directed: bool, density: float, dtypes: Any) -> None:
    labels = label_components(edges.csr(density, directed=directed, dtypes=dtypes))
    assert labels.dtype == dtypes[0]
    expected = np.empty(edges.num_vertices, dtype=np.int64)
    for component in nx.connected_components(edges.networkx(directed=False)):
        expected[list(component)] = min(component)
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_long_chains_in_any_order(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(500)
    labels = label_components(gapped_csr(order[:-1], order[1:], num_vertices=500))
    np.testing.assert_array_equal(labels, 0)


@every_density
@pytest.mark.parametrize("endpoints", [True, False])
@both_kinds
@every_graph
def test_dependencies_of_all_sources_equal_networkx(
    edges: Edges, directed: bool, endpoints: bool, density: float
) -> None:
    out = edges.csr(density, directed=directed, dtypes=DTYPES[density < 0.5])
    totals = accumulate_dependencies(out, None, np.arange(edges.num_vertices), endpoints)
    assert totals.dtype == np.float64
    graph = edges.networkx(directed=directed)
    expected = by_vertex(nx.betweenness_centrality(graph, normalized=False, endpoints=endpoints), edges.num_vertices)
    np.testing.assert_allclose(totals, expected * (1 if directed else 2), rtol=1e-9, atol=1e-9)


def test_dependencies_add_up_over_sources() -> None:
    graph = GRAPHS[0].csr(0.6, directed=True)
    parts = [accumulate_dependencies(graph, None, np.array([s]), False) for s in (3, 3, 8)]
    np.testing.assert_allclose(accumulate_dependencies(graph, None, np.array([3, 3, 8]), False), sum(parts))


@pytest.mark.parametrize("num_vertices", [0, 1, 7])
@pytest.mark.parametrize("density", [1.0, 0.5])
def test_graphs_without_edges(num_vertices: int, density: float) -> None:
    nothing = np.empty(0, dtype=np.int64)
    plain = gapped_csr(nothing, nothing, num_vertices=num_vertices, density=density)
    weighted = gapped_csr(nothing, nothing, nothing, num_vertices=num_vertices, density=density)
    everyone = np.arange(num_vertices)
    np.testing.assert_array_equal(label_components(plain), everyone)
    np.testing.assert_array_equal(count_triangles(plain), np.zeros(num_vertices))
    np.testing.assert_array_equal(accumulate_dependencies(plain, None, everyone, True), np.zeros(num_vertices))
    for graph in (plain, weighted):
        sums = sum_out_weights(graph)
        np.testing.assert_array_equal(sums, np.zeros(num_vertices))
        start = np.full(num_vertices, 1 / max(num_vertices, 1), dtype=np.float32)
        ranks, _, error = pagerank(graph, sums, 0.85, None, start, 10, 1e-5)
        np.testing.assert_allclose(ranks, start, rtol=1e-6)
        assert error < 1e-5
    for into in (None, plain):
        distances, _ = bfs(plain, into, everyone[:1], 100, True)
        np.testing.assert_array_equal(distances[:1], np.zeros(min(num_vertices, 1)))
        assert (distances[1:] == np.iinfo(np.int32).max).all()
    if num_vertices:
        assert (sssp(weighted, 0, np.inf)[0][1:] == np.finfo(np.float32).max).all()


@every_density
def test_kernels_leave_the_graph_as_it_was(density: float) -> None:
    graph = GRAPHS[0].csr(density, directed=False, weighted=True)
    arrays = (graph.offsets, graph.indices, graph.sources, graph.valid, graph.weights)
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False  # and so a kernel must accept what was exported
    start = np.full(graph.num_vertices, 1 / graph.num_vertices, dtype=np.float32)
    bfs(graph, graph, np.array([0]), 100, True)
    sssp(graph, 0, np.inf)
    pagerank(graph, sum_out_weights(graph), 0.85, None, start, 3, 0.0)
    count_triangles(graph)
    label_components(graph)
    accumulate_dependencies(graph, graph, np.array([0]), False)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
