"""Tracked searches against searches of the whole graph, after every step of random streams."""

from __future__ import annotations

import numpy as np
import pytest

import dynstore
from dynstore.algorithms.costs import Budget
from tests.algorithms.kites import host
from tests.algorithms.streams import Stream, compare
from tests.conftest import DEVICES
from tests.crossed import crossed

STEPS = {"cpu": 60, "cuda": 60, "cuda-sim": 4}
pytestmark = pytest.mark.usefixtures("take_changes")
GRAPHS = [
    {"directed": True},
    {"directed": False, "vertex_dtype": "int64", "weight_dtype": "float64"},
    {"directed": True, "renumber": True, "store": "merge"},
]


@crossed(params=[{}, {"depth_limit": 2, "return_predecessors": False}], options=GRAPHS, backend_name=DEVICES)
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


@crossed(whole_weights=[True, False], params=[{}, {"cutoff": 2.5}], options=GRAPHS, backend_name=DEVICES)
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


@crossed(name=["bfs", "sssp"], directed=[True, False], backend_name=DEVICES)
def test_rows_longer_than_a_warp_takes_at_once(
    backend_name: str, name: str, directed: bool, rng: np.random.Generator
) -> None:
    """A hub, which vertices are reached through, and others from which they can be reached if the hub is cut off."""
    rim = np.arange(3, 180)
    src = np.concatenate(([0, 0, 1], np.full(len(rim), 1), np.full(len(rim), 2), rim[:-1]))
    dst = np.concatenate(([1, 2, 2], rim, rim, rim[1:]))
    weights = np.concatenate(([1.0, 9.0, 2.0], rng.integers(1, 5, len(src) - 3) / 2))
    graph = dynstore.DynamicGraph(directed=directed, weighted=True, device=backend_name)
    graph.insert_edges((src, dst, weights))
    monitor = graph.track(name, **({"start": 0} if name == "bfs" else {"source": 0}))
    graph.insert_vertices([200])
    monitor.refresh()  # from now on there are in-edges
    for delete, insert in (
        (([0], [1]), None),
        (None, ([0], [1], [1.0])),
        ((np.full(90, 1), rim[:90]), ([0], [9], [0.5])),
    ):
        if delete is not None:
            graph.delete_edges(delete)
        if insert is not None:
            graph.insert_edges(insert)
        compare(monitor.result(), getattr(dynstore, name)(graph, 0), name)
        assert monitor.path == "incremental"
        assert monitor.edge_visits > 100


@pytest.mark.parametrize("budget", [0, 3000, 6000])
def test_a_repair_stops_where_its_budget_is_spent(backend_name: str, budget: int) -> None:
    """A chain whose first edge is deleted: all of its vertices are visited, and no other."""
    graph = dynstore.DynamicGraph(directed=False, device=backend_name)
    graph.insert_edges((np.arange(12), np.arange(1, 13)))
    monitor, other = (graph.track("bfs", start=0) for _ in range(2))
    log = graph.core.follow()
    graph.delete_edges(([0], [1]))
    answer, delta = monitor._answer, graph.core.net_delta(log)
    limited = Budget(budget * 1e-3, 1e-3)
    done = answer.advance(delta, limited)
    assert done == (backend_name == "cpu" and budget > 0)
    assert limited.is_spent != done
    if not done:  # a part of its state has been written
        answer.recompute()
    compare(answer.frame(), dynstore.bfs(graph, 0))
    assert other._answer.advance(delta, Budget())
    compare(other._answer.frame(), dynstore.bfs(graph, 0))


@pytest.mark.parametrize("store", ["merge", "gpma+"])
def test_the_last_edge_goes(backend_name: str, store: str) -> None:
    """There may be no slot left to read."""
    graph = dynstore.DynamicGraph(directed=False, weighted=True, device=backend_name, store=store)
    graph.insert_edges(([0], [1], [1.0]))
    monitor = graph.track("sssp", source=0)
    log = graph.core.follow()
    graph.delete_edges(([0], [1]))
    assert monitor._answer.advance(graph.core.net_delta(log), Budget())
    compare(monitor._answer.frame(), dynstore.sssp(graph, 0))
