"""Tracked triangle counts against counts of the whole graph, after every step of random streams."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import dynstore
from tests.algorithms.streams import Stream, compare

STEPS = {"cpu": 60, "cuda": 60, "cuda-sim": 5}
pytestmark = pytest.mark.usefixtures("take_changes")


@pytest.mark.parametrize("options", [{}, {"weighted": True, "vertex_dtype": "int64"}, {"renumber": True}], ids=str)
@pytest.mark.parametrize("store", ["gpma+", "merge"])
def test_a_random_stream(backend_name: str, rng: np.random.Generator, store: str, options: dict) -> None:
    stream = Stream(backend_name, rng, num_vertices=22, num_edges=70, directed=False, store=store, **options)
    monitor = stream.graph.track("triangle_count")
    for number in range(STEPS[backend_name]):
        for _ in range(number % 3 + 1):  # several updates between two results
            what = stream.step()
        compare(monitor.result(), dynstore.triangle_count(stream.twin), f"step {number}: {what}")
        assert monitor.path == "incremental"
        assert monitor.version == stream.graph.version


def test_triangles_with_one_two_and_three_changed_edges(backend_name: str) -> None:
    triangle = [(3, 5), (3, 9), (5, 9)]
    for count in (1, 2, 3):
        for changed in combinations(triangle, count):
            graph = dynstore.DynamicGraph(directed=False, device=backend_name)
            graph.insert_edges(([3, 5, 3, 9, 1], [5, 9, 9, 1, 3]))
            monitor = graph.track("triangle_count")
            table = np.array(changed)
            graph.delete_edges((table[:, 0], table[:, 1]))
            compare(monitor.result(), dynstore.triangle_count(graph), f"{changed} deleted")
            graph.insert_edges((table[:, 1], table[:, 0]))
            compare(monitor.result(), dynstore.triangle_count(graph), f"{changed} inserted")
            assert monitor.path == "incremental"


def test_an_edge_that_comes_and_goes_between_two_results(backend_name: str) -> None:
    graph = dynstore.DynamicGraph(directed=False, device=backend_name)
    graph.insert_edges(([0, 1, 2, 2], [1, 2, 0, 3]))
    monitor = graph.track("triangle_count", start_list=[3, 0])
    graph.delete_edges(([0, 1], [1, 3]))
    graph.insert_edges(([0, 3, 3], [1, 0, 4]))
    graph.delete_edges(([4], [3]))
    compare(monitor.result(), dynstore.triangle_count(graph, start_list=[3, 0]))
    assert monitor.path == "incremental"
    assert 0 < monitor.edge_visits < 30
