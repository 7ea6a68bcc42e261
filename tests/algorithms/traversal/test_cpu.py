"""Host BFS and SSSP against SciPy, on packed and on gapped graphs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from dynstore.algorithms.traversal.cpu.search import bfs, sssp
from dynstore.testing.arrays import gapped_csr
from tests.algorithms.oracles import DENSITIES, DTYPES, GRAPHS, Edges, assert_valid_predecessors

UNLIMITED = np.iinfo(np.int64).max


def _hops(edges: Edges, directed: bool, sources: list[int], dtype: type) -> np.ndarray:
    matrix = edges.scipy(directed=directed)
    hops = dijkstra(matrix, directed=True, unweighted=True, indices=sources, min_only=True)
    reached = np.isfinite(hops)
    distances = np.full(edges.num_vertices, np.iinfo(dtype).max, dtype=dtype)
    distances[reached] = hops[reached]
    return distances


def _smallest_parents(edges: Edges, directed: bool, distances: np.ndarray) -> np.ndarray:
    parents = np.full(edges.num_vertices, -1, dtype=np.int64)
    src, dst = edges.scipy(directed=directed).nonzero()
    for u, v in sorted(zip(src.tolist(), dst.tolist(), strict=True), reverse=True):
        if distances[u] != np.iinfo(distances.dtype).max and distances[u] + 1 == distances[v]:
            parents[v] = u
    return parents


@pytest.mark.parametrize("dtypes", DTYPES, ids=["int32", "int64"])
@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
@pytest.mark.parametrize("edges", GRAPHS, ids=str)
def test_bfs_equals_scipy(edges: Edges, directed: bool, density: float, dtypes: tuple) -> None:
    out = edges.csr(density, directed=directed, dtypes=dtypes)
    into = edges.transposed_csr(density, directed=directed, dtypes=dtypes)
    for sources in ([0], [5, 0, 5], [edges.num_vertices - 1]):
        expected = _hops(edges, directed, sources, dtypes[0])
        for backward in (None, into):
            distances, predecessors = bfs(out, backward, np.array(sources), UNLIMITED, True)
            assert distances.dtype == predecessors.dtype == dtypes[0]
            np.testing.assert_array_equal(distances, expected)
            np.testing.assert_array_equal(predecessors, _smallest_parents(edges, directed, expected))
            alone, nothing = bfs(out, backward, np.array(sources), UNLIMITED, False)
            np.testing.assert_array_equal(alone, expected)
            assert nothing is None


@pytest.mark.parametrize("limit", [0, 1, 2, 7])
@pytest.mark.parametrize("edges", GRAPHS, ids=str)
def test_bfs_stops_at_depth_limit(edges: Edges, limit: int) -> None:
    graph = edges.csr(0.5, directed=False)
    full = bfs(graph, None, np.array([0]), UNLIMITED, True)
    near = full[0] <= limit
    for into in (None, graph):
        distances, predecessors = bfs(graph, into, np.array([0]), limit, True)
        np.testing.assert_array_equal(distances, np.where(near, full[0], np.iinfo(np.int32).max))
        np.testing.assert_array_equal(predecessors, np.where(near, full[1], -1))


def test_bfs_changes_direction_and_back() -> None:
    """A long path, a dense middle, a long path: the frontier is small, then large, then small again."""
    rng = np.random.default_rng(3)
    middle = 100 + rng.integers(0, 400, size=(2, 6000))
    path = np.r_[np.arange(0, 100), np.arange(500, 599)]
    src, dst = np.r_[path, middle[0], 499], np.r_[path + 1, middle[1], 500]
    edges = Edges("dumbbell", src, dst, 600)
    graph = edges.csr(0.6, directed=False)
    distances, predecessors = bfs(graph, graph, np.array([0]), UNLIMITED, True)
    expected = _hops(edges, False, [0], np.int32)
    np.testing.assert_array_equal(distances, expected)
    np.testing.assert_array_equal(predecessors, _smallest_parents(edges, False, expected))
    assert expected[599] > 190


@pytest.mark.parametrize("dtypes", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
@pytest.mark.parametrize("edges", GRAPHS, ids=str)
def test_sssp_equals_scipy(edges: Edges, directed: bool, density: float, dtypes: tuple) -> None:
    out = edges.csr(density, directed=directed, weighted=True, dtypes=dtypes)
    matrix = edges.scipy(directed=directed)
    unreached = np.finfo(dtypes[1]).max
    for source in (0, edges.num_vertices - 1):
        expected = dijkstra(matrix, directed=True, indices=source)
        distances, predecessors = sssp(out, source, np.inf)
        assert distances.dtype == dtypes[1]
        assert predecessors.dtype == dtypes[0]
        np.testing.assert_array_equal(distances, np.where(np.isinf(expected), unreached, expected))
        assert_valid_predecessors(matrix, distances, predecessors, unreached)
        cut, parents = sssp(out, source, 3.0)
        np.testing.assert_array_equal(cut, np.where(expected < 3.0, expected, unreached))
        np.testing.assert_array_equal(parents, np.where(expected < 3.0, predecessors, -1))


def test_sssp_of_random_float32_weights_rounds_at_every_step() -> None:
    rng = np.random.default_rng(5)
    src, dst = rng.integers(0, 80, size=(2, 400))
    weights = rng.random(400).astype(np.float32)
    graph = gapped_csr(src, dst, weights, num_vertices=80)
    distances = np.full(80, np.finfo(np.float32).max, dtype=np.float32)
    distances[0] = 0
    table = {(u, v): w for u, v, w in zip(src.tolist(), dst.tolist(), weights, strict=True)}
    for _ in range(80):  # Bellman-Ford, as plain as can be
        for (u, v), w in table.items():
            if distances[u] < np.finfo(np.float32).max and distances[u] + w < distances[v]:
                distances[v] = distances[u] + w
    np.testing.assert_array_equal(sssp(graph, 0, np.inf)[0], distances)


def test_sssp_zero_weights_make_no_cycle_of_predecessors() -> None:
    src, dst = np.array([0, 1, 2, 3, 1]), np.array([1, 2, 3, 1, 3])
    weights = np.array([2.0, 0.0, 0.0, 0.0, 0.0])
    distances, predecessors = sssp(gapped_csr(src, dst, weights, num_vertices=4), 0, np.inf)
    np.testing.assert_array_equal(distances, [0, 2, 2, 2])
    for v in range(4):
        seen = set()
        while v >= 0:
            assert v not in seen
            seen.add(v)
            v = int(predecessors[v])


def test_sssp_ignores_what_is_left_in_gaps_and_infinite_edges() -> None:
    graph = gapped_csr([0, 0, 1], [1, 2, 2], [1.0, np.inf, 2.0], num_vertices=3, density=0.1)
    graph.weights[~graph.mask()] = -100.0
    distances, predecessors = sssp(graph, 0, np.inf)
    np.testing.assert_array_equal(distances, [0, 1, 3])
    np.testing.assert_array_equal(predecessors, [-1, 0, 1])


def test_dense_random_weights_equal_dijkstra_of_scipy() -> None:
    rng = np.random.default_rng(9)
    matrix = sp.random_array((300, 300), density=0.05, rng=rng, format="coo")
    graph = gapped_csr(*matrix.coords, matrix.data, num_vertices=300, weight_dtype=np.float64)
    distances, _ = sssp(graph, 7, np.inf)
    np.testing.assert_allclose(distances, dijkstra(matrix.tocsr(), indices=7), rtol=1e-12)
