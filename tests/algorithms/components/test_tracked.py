"""Tracked components against components of the whole graph, after every step of random streams."""

from __future__ import annotations

import numpy as np
import pytest

import dynstore
from tests.algorithms.streams import Stream, compare

STEPS = {"cpu": 80, "cuda": 80, "cuda-sim": 3}
pytestmark = pytest.mark.usefixtures("take_changes")


@pytest.mark.parametrize("num_edges", [25, 60])
@pytest.mark.parametrize(
    "options",
    [{"directed": True, "store": "merge"}, {"directed": False, "vertex_dtype": "int64"}, {"renumber": True}],
    ids=str,
)
def test_a_random_stream(backend_name: str, rng: np.random.Generator, options: dict, num_edges: int) -> None:
    stream = Stream(backend_name, rng, num_vertices=36, num_edges=num_edges, **options)
    monitor = stream.graph.track("weakly_connected_components")
    stream.update("insert_edges", stream.batch(4))
    compare(monitor.result(), dynstore.weakly_connected_components(stream.twin), "insertion")
    assert monitor.path == "incremental"
    stream.update("delete_edges", stream.held(4))
    compare(monitor.result(), dynstore.weakly_connected_components(stream.twin), "deletion")
    assert monitor.path == "recomputed"  # with the first deletion, from which on there is a forest
    for number in range(STEPS[backend_name]):
        for _ in range(number % 3 + 1):  # several updates between two results
            what = stream.step(4)
        compare(monitor.result(), dynstore.weakly_connected_components(stream.twin), f"step {number}: {what}")
        assert monitor.path == "incremental"


def test_insertions_only_unite_labels(backend_name: str) -> None:
    graph = dynstore.DynamicGraph(device=backend_name)
    graph.insert_edges((np.arange(1, 30), np.arange(2, 31)))
    monitor = graph.track("weakly_connected_components")
    graph.insert_edges(([35, 30], [40, 0]))
    compare(monitor.result(), dynstore.weakly_connected_components(graph))
    assert monitor.path == "incremental"
    assert monitor.edge_visits == 2
    assert not any(part.startswith("in_") for part in graph.memory_usage())


@pytest.mark.parametrize("directed", [True, False])
def test_an_edge_outside_the_forest_costs_nothing(backend_name: str, directed: bool) -> None:
    graph = dynstore.DynamicGraph(directed=directed, device=backend_name)
    hub = np.arange(1, 31)
    graph.insert_edges((np.append(0 * hub, hub[:-1]), np.append(hub, hub[1:])))  # a wheel with an open rim
    monitor = graph.track("weakly_connected_components")
    graph.delete_edges(([3], [4]))
    monitor.result()
    assert monitor.path == "recomputed"
    graph.delete_edges(([10, 21], [11, 22]))
    compare(monitor.result(), dynstore.weakly_connected_components(graph))
    assert monitor.path == "incremental"
    assert monitor.edge_visits <= 4
    graph.delete_edges(([0, 0, 0], [4, 11, 12]))  # 4 hangs on its rim, 11 and 12 split off
    graph.delete_edges(([12], [13]))
    compare(monitor.result(), dynstore.weakly_connected_components(graph))
    assert monitor.path == "incremental"
