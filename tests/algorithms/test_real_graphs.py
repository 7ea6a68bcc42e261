"""Real graphs through the public functions, on the host, against SciPy and NetworkX."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, dijkstra

import dynstore
from tests.algorithms.oracles import assert_valid_predecessors
from tests.shared_data import shared_data

# name -> (file, id of the first vertex, directed, edges that the file's README states)
FILES = {
    "email-Enron": ("email-Enron.tsv.gz", 0, False, 183_831),
    "wiki-Vote": ("wiki-Vote.txt", 0, True, 103_689),
    "ca-HepPh": ("ca-HepPh.txt", 0, False, None),
    "cnr-2000": ("cnr-2000.txt.gz", 0, True, 3_216_152),
    "luxembourg": ("luxembourg_osm.edges", 1, False, 119_666),
}


@dataclass(frozen=True)
class Case:
    graph: dynstore.DynamicGraph
    matrix: sp.csr_array
    source: int


@cache
def load(name: str) -> Case:
    """Read a file once; half of the graph is inserted, then all of it, then strangers are deleted again."""
    file, first, directed, num_edges = FILES[name]
    table = pd.read_csv(shared_data(file), sep=r"\s+", comment="#", header=None, dtype=np.int64, engine="c")
    src, dst = table[0].to_numpy() - first, table[1].to_numpy() - first
    # Whole numbers, the same in both directions: distances are exact.
    weights = (np.minimum(src, dst) * 7 + np.maximum(src, dst) * 13) % 97 + 1.0
    num_vertices = int(max(src.max(), dst.max())) + 1
    graph = dynstore.DynamicGraph(directed=directed, weighted=True, device="cpu")
    rng = np.random.default_rng(1)
    half = rng.random(src.shape[0]) < 0.5
    graph.insert_edges((src[half], dst[half], weights[half]))
    strangers = rng.integers(0, num_vertices, size=(2, 2000))
    graph.insert_edges((*strangers, np.full(2000, 0.25)))
    graph.delete_edges((strangers[0], strangers[1]))
    graph.insert_edges((src, dst, weights))
    if num_edges is not None:
        assert graph.number_of_edges() == num_edges
    matrix = sp.coo_array((weights, (src, dst)), shape=(num_vertices, num_vertices)).tocsr()
    matrix.sum_duplicates()
    matrix.data[:] = (np.minimum(*matrix.nonzero()) * 7 + np.maximum(*matrix.nonzero()) * 13) % 97 + 1.0
    if not directed:
        matrix = matrix.maximum(matrix.T).tocsr()
    return Case(graph, matrix, int(src[0]))


every_graph = pytest.mark.parametrize("name", FILES)


@every_graph
def test_bfs(name: str) -> None:
    case = load(name)
    hops = dijkstra(case.matrix, unweighted=True, indices=case.source)
    far = np.iinfo(np.int32).max
    result = dynstore.bfs(case.graph, case.source)
    np.testing.assert_array_equal(result["distance"], np.where(np.isinf(hops), float(far), hops))
    steps = case.matrix.astype(bool).astype(np.int64)
    assert_valid_predecessors(steps, result["distance"], result["predecessor"], far)


@every_graph
def test_sssp(name: str) -> None:
    case = load(name)
    lengths = dijkstra(case.matrix, indices=case.source)
    far = np.finfo(np.float32).max
    result = dynstore.sssp(case.graph, case.source)
    np.testing.assert_array_equal(result["distance"], np.where(np.isinf(lengths), float(far), lengths))
    assert_valid_predecessors(case.matrix, result["distance"].astype(np.float64), result["predecessor"], float(far))


def _power_iteration(matrix: sp.csr_array, alpha: float = 0.85) -> np.ndarray:
    num_vertices = matrix.shape[0]
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    shares = np.divide(1.0, sums, out=np.zeros(num_vertices), where=sums > 0)
    pull = matrix.T.tocsr()
    ranks = np.full(num_vertices, 1 / num_vertices)
    for _ in range(200):
        new = alpha * (pull @ (ranks * shares) + ranks[sums == 0].sum() / num_vertices) + (1 - alpha) / num_vertices
        change, ranks = np.abs(new - ranks).sum(), new
        if change < 1e-10:
            break
    return ranks


@every_graph
def test_pagerank(name: str) -> None:
    case = load(name)
    result = dynstore.pagerank(case.graph, tol=1e-6)
    assert np.abs(result["pagerank"] - _power_iteration(case.matrix)).sum() < 2e-5
    assert result["pagerank"].to_numpy().sum(dtype=np.float64) == pytest.approx(1, abs=1e-5)


@every_graph
def test_components(name: str) -> None:
    case = load(name)
    count, parts = connected_components(case.matrix, directed=True, connection="weak")
    smallest = np.full(count, case.matrix.shape[0])
    np.minimum.at(smallest, parts, np.arange(parts.shape[0]))
    result = dynstore.weakly_connected_components(case.graph)
    np.testing.assert_array_equal(result["labels"], smallest[parts])


# Totals as SNAP states them, where it has the very graph.
@pytest.mark.parametrize(("name", "total"), [("email-Enron", 727_044), ("ca-HepPh", 3_358_499), ("luxembourg", None)])
def test_triangles(name: str, total: int | None) -> None:
    case = load(name)
    result = dynstore.triangle_count(case.graph)
    steps = case.matrix.astype(bool).astype(np.int32)
    steps.setdiag(0)
    steps.eliminate_zeros()
    expected = np.asarray((steps @ steps).multiply(steps).sum(axis=1)).ravel() // 2
    np.testing.assert_array_equal(result["counts"], expected)
    assert total is None or result["counts"].sum() == 3 * total


@pytest.mark.parametrize(("name", "k"), [("wiki-Vote", 4), ("luxembourg", 2)])
def test_betweenness_of_samples(name: str, k: int) -> None:
    pytest.importorskip("networkx", minversion="3.5", reason="earlier ones scale samples as if all were sources")
    case = load(name)
    kind: Any = nx.DiGraph if case.graph.is_directed() else nx.Graph
    mirror = nx.from_scipy_sparse_array(case.matrix, create_using=kind)
    expected = nx.betweenness_centrality(mirror, k=k, seed=5)
    sources = random.Random(5).sample(range(case.matrix.shape[0]), k)
    result = dynstore.betweenness_centrality(case.graph, k=sources)
    np.testing.assert_allclose(
        result["betweenness_centrality"], [expected[v] for v in range(len(expected))], rtol=1e-9, atol=1e-15
    )
