"""Tracked searches against searches of the whole graph, after every step of random streams."""

from __future__ import annotations

import numpy as np
import pytest

import dynstore
from tests.algorithms.kites import host
from tests.algorithms.streams import Stream, compare

STEPS = {"cpu": 60, "cuda": 60, "cuda-sim": 4}
pytestmark = pytest.mark.usefixtures("take_changes")
GRAPHS = [
    {"directed": True},
    {"directed": False, "vertex_dtype": "int64", "weight_dtype": "float64"},
    {"directed": True, "renumber": True, "store": "merge"},
]


@pytest.mark.parametrize("params", [{}, {"depth_limit": 2, "return_predecessors": False}], ids=str)
@pytest.mark.parametrize("options", GRAPHS, ids=str)
def test_bfs_of_a_random_stream(backend_name: str, rng: np.random.Generator, options: dict, params: dict) -> None:
    stream = Stream(backend_name, rng, **options)
    start = stream.twin.vertex_ids()[[3, 17]]
    monitor = stream.graph.track("bfs", start=start, **params)
    for number in range(STEPS[backend_name]):
        for _ in range(number % 3 + 1):  # several updates between two results
            what = stream.step()
        compare(monitor.result(), dynstore.bfs(stream.twin, start, **params), f"step {number}: {what}")
        prepares = number == 0 and stream.graph.is_directed()  # it makes in-edges
        assert monitor.path == ("recomputed" if prepares else "incremental")


@pytest.mark.parametrize("whole_weights", [True, False], ids=["whole", "fractions"])
@pytest.mark.parametrize("params", [{}, {"cutoff": 2.5}], ids=str)
@pytest.mark.parametrize("options", GRAPHS, ids=str)
def test_sssp_of_a_random_stream(
    backend_name: str, rng: np.random.Generator, options: dict, params: dict, whole_weights: bool
) -> None:
    stream = Stream(backend_name, rng, weighted=True, whole_weights=whole_weights, **options)
    source = stream.twin.vertex_ids()[0]
    monitor = stream.graph.track("sssp", source=source, **params)
    for number in range(STEPS[backend_name]):
        for _ in range(number % 3 + 1):
            what = stream.step()
        compare(monitor.result(), dynstore.sssp(stream.twin, source, **params), f"step {number}: {what}")
        prepares = number == 0 and stream.graph.is_directed()  # it makes in-edges
        assert monitor.path == ("recomputed" if prepares else "incremental")


@pytest.mark.parametrize("name", ["bfs", "sssp"])
def test_a_vertex_turns_to_a_parent_that_is_lost_with_the_old_one(backend_name: str, name: str) -> None:
    """Vertex 5 hangs on 2, then on 3: that loses its own parent, 1, when 5 loses 2."""
    edges = [0, 0, 1, 4, 2, 3, 5], [1, 4, 3, 2, 5, 5, 6], [1.0] * 7
    graph = dynstore.DynamicGraph.from_edges(edges, weighted=True, device=backend_name)
    monitor = graph.track(name, **({"start": 0} if name == "bfs" else {"source": 0}))
    graph.insert_vertices([7])
    monitor.refresh()  # from now on there are in-edges
    graph.delete_edges(([0, 4], [1, 2]))
    compare(monitor.result(), getattr(dynstore, name)(graph, 0), name)
    assert monitor.path == "incremental"
    assert (host(monitor.result())["distance"] < 10).tolist() == [True, False, False, False, True, False, False, False]
