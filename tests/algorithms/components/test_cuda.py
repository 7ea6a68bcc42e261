"""Components on CUDA against NetworkX."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.algorithms.oracles import Edges, drawn
from tests.algorithms.problems import BACKEND, CASES, Problem, assert_same, every_case, every_graph, host, kernels


@every_case
@every_graph
def test_components(edges: Edges, case: tuple[Any, ...]) -> None:
    problem = Problem(edges, case)
    expected = np.empty(edges.num_vertices, dtype=problem.dtype)
    for component in nx.connected_components(edges.networkx(directed=False)):
        expected[list(component)] = min(component)
    for symmetric in {False, not problem.directed}:
        assert_same(kernels("components", "labels")[0].label_components(problem.out, symmetric), expected)


@pytest.mark.parametrize("seed", range(4))
def test_components_of_long_chains_in_any_order(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(60)
    edges = Edges("chains", np.delete(order[:-1], 29), np.delete(order[1:], 29), 60)
    problem = Problem(edges, CASES[0])
    labels = host(kernels("components", "labels")[0].label_components(problem.out))
    assert set(labels[order[:30]].tolist()) == {order[:30].min()}
    assert set(labels[order[30:]].tolist()) == {order[30:].min()}


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("density", [1.0, 0.6])
@pytest.mark.parametrize("size", [80, 20], ids=["one large tree", "four trees"])
def test_components_of_whole_chunks(size: int, density: float, directed: bool) -> None:
    """Many edges are within trees, some lead to leaves that no edge leaves from, a few rows are of neither."""
    rng = np.random.default_rng(2)
    src, dst = np.divmod(rng.choice(80 * size, 900, replace=False), size)
    src = np.concatenate([src, np.arange(400) % 10 + 5, [81, 82, 83, 84]])
    dst = np.concatenate([dst + src[:900] // size * size, np.arange(400) // 10 + 90, [82, 83, 85, 10]])
    edges = Edges("chunks", src, dst, 132)
    problem = Problem(edges, (directed, density, np.int32, np.float32))
    labels = host(kernels("components", "labels")[0].label_components(problem.out, not directed))
    for component in nx.connected_components(edges.networkx(directed=False)):
        assert labels[list(component)].tolist() == [min(component)] * len(component)


@pytest.mark.parametrize("density", [1.0, 0.6])
def test_gaps_do_not_count_among_the_edges_that_components_begin_with(density: float) -> None:
    """What the first two edges of each row unite is the same with gaps and without."""
    edges = drawn("sampled", 40, 130, 2, 6)
    problem = Problem(edges, (True, density, np.int32, np.float32), seed=3)
    components, packed = kernels("components", "labels")[0], problem.host_out.compact()
    offsets, indices = packed.offsets.tolist(), packed.indices.tolist()
    wanted = nx.Graph()
    wanted.add_nodes_from(range(40))
    wanted.add_edges_from((v, u) for v in range(40) for u in indices[offsets[v] : offsets[v + 1]][:2])
    out = problem.out
    parents = BACKEND.empty(40, np.int32)
    components.k_hook_rows.launch(40, out.offsets, out.indices, out.valid, parents)
    components.flatten_trees(parents)
    components.k_unite_neighbours.launch(40, out.offsets, out.indices, out.valid, parents)
    components.flatten_trees(parents)
    labels = host(parents)
    for component in nx.connected_components(wanted):
        assert labels[list(component)].tolist() == [min(component)] * len(component)
