"""What holds of the CUDA kernels of all algorithms: graphs of nothing, and slots that hold no edge."""

from __future__ import annotations

import numpy as np
import pytest

from tests.algorithms.oracles import drawn, listed
from tests.algorithms.problems import PACKED_CASES, Problem, assert_same, kernels


def test_graphs_without_vertices() -> None:
    problem = Problem(listed("nothing", [], 0), PACKED_CASES[0])
    nobody = np.empty(0, dtype=np.int64)
    distances, predecessors = kernels("traversal", "search")[0].bfs(problem.out, problem.into, nobody, 5, True)
    assert distances.shape == predecessors.shape == (0,)
    sums = kernels("link_analysis", "ranks")[0].sum_out_weights(problem.out)
    assert kernels("link_analysis", "ranks")[0].pagerank(problem.into, sums, 0.85, None, sums, 5, 0.0)[1:] == (0, 0.0)
    assert kernels("community", "triangles")[0].count_triangles(problem.out).shape == (0,)
    assert kernels("components", "labels")[0].label_components(problem.out).shape == (0,)
    assert kernels("centrality")[0].accumulate_dependencies(problem.out, None, nobody, True).shape == (0,)


@pytest.mark.parametrize("density", [1.0, 0.5, 0.02])
def test_hidden_slots_are_never_read(density: float) -> None:
    """Few edges in many slots give what the packed graph gives."""
    edges = drawn("hidden", 12, 20, 2, 4)
    problem = Problem(edges, (False, density, np.int32, np.float32), edges.weights, seed=11)
    packed = problem.host_out.compact()
    device, reference = kernels("traversal", "search")
    assert_same(device.sssp(problem.out, 0, np.inf)[0], reference.sssp(packed, 0, np.inf)[0])
    device, reference = kernels("link_analysis", "ranks")
    assert_same(device.sum_out_weights(problem.out), reference.sum_out_weights(packed))
    device, reference = kernels("community", "triangles")
    assert_same(device.count_triangles(problem.out), reference.count_triangles(packed))
    device, reference = kernels("components", "labels")
    assert_same(device.label_components(problem.out), reference.label_components(packed))
