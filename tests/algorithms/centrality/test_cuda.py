"""Betweenness on CUDA against NetworkX and its host twin."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from tests.algorithms.oracles import Edges, drawn
from tests.algorithms.problems import CASES, Problem, every_case, every_graph, host, kernels


@every_case
@every_graph
def test_dependencies(edges: Edges, case: tuple[Any, ...]) -> None:
    problem = Problem(edges, case)
    endpoints = not problem.directed
    device, reference = kernels("centrality")
    # More pairs than one batch holds in the simulator; one source twice.
    sources = np.array([0, edges.num_vertices - 1, 0], dtype=np.int64)
    got = host(device.accumulate_dependencies(problem.out, problem.into, sources, endpoints))
    assert got.dtype == np.float64
    expected = reference.accumulate_dependencies(problem.host_out, None, sources, endpoints)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_dependencies_of_all_sources_equal_networkx() -> None:
    edges = drawn("small", 12, 36, 2, 8)
    problem = Problem(edges, CASES[0])
    everyone = np.arange(edges.num_vertices, dtype=np.int64)
    got = host(kernels("centrality")[0].accumulate_dependencies(problem.out, None, everyone, True))
    expected = nx.betweenness_centrality(problem.graph, normalized=False, endpoints=True)
    np.testing.assert_allclose(got, [expected[v] for v in range(edges.num_vertices)])
