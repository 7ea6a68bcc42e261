"""Searches and shortest paths on CUDA against NetworkX and their host twins."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.algorithms.oracles import Edges, listed
from tests.algorithms.problems import (
    BACKEND,
    CASES,
    PACKED_CASES,
    RANDOM,
    Problem,
    assert_same,
    every_case,
    every_graph,
    host,
    kernels,
)
from tests.crossed import thorough

simulated_only = pytest.mark.skipif(BACKEND.on_gpu, reason="only the simulator calls device functions through Python")


def check_bfs(problem: Problem, sources: list[int], bottom_up: bool, depth_limit: int | None = None) -> None:
    device, reference = kernels("traversal", "search")
    limit = np.iinfo(problem.dtype).max if depth_limit is None else depth_limit
    ids = np.array(sources, dtype=np.int64)
    got = device.bfs(problem.out, problem.into if bottom_up else None, ids, limit, True)
    expected = reference.bfs(problem.host_out, None, ids, limit, True)
    assert_same(got[0], expected[0])
    assert_same(got[1], expected[1])
    lengths = nx.multi_source_dijkstra_path_length(problem.graph, set(sources), cutoff=depth_limit, weight=None)
    assert {v: d for v, d in enumerate(host(got[0]).tolist()) if d != np.iinfo(problem.dtype).max} == lengths


@pytest.mark.parametrize("bottom_up", [False, True], ids=["top-down", "both ways"])
@every_case
@every_graph
def test_bfs(edges: Edges, case: tuple[Any, ...], bottom_up: bool) -> None:
    check_bfs(Problem(edges, case), [0], bottom_up)


@pytest.mark.parametrize("bottom_up", [False, True], ids=["top-down", "both ways"])
@pytest.mark.parametrize("case", PACKED_CASES, ids=["directed-int64", "undirected-int32"])
def test_bfs_of_packed_graphs_and_many_sources(case: tuple[Any, ...], bottom_up: bool) -> None:
    check_bfs(Problem(RANDOM, case), [30, 7, 7, 12], bottom_up)


@pytest.mark.parametrize("bottom_up", [False, True], ids=["top-down", "both ways"])
def test_bfs_without_predecessors(bottom_up: bool) -> None:
    problem = Problem(RANDOM, CASES[1])
    ids = np.array([4], dtype=np.int64)
    device, reference = kernels("traversal", "search")
    distances, nothing = device.bfs(problem.out, problem.into if bottom_up else None, ids, 2**31 - 1, False)
    assert nothing is None
    assert_same(distances, reference.bfs(problem.host_out, None, ids, 2**31 - 1, False)[0])


@pytest.mark.parametrize("depth_limit", [0, 1, 2])
def test_bfs_stops_at_the_depth_limit(depth_limit: int) -> None:
    check_bfs(Problem(RANDOM, CASES[1]), [3], True, depth_limit)


def test_bfs_goes_bottom_up_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    # Three levels widen, then a path leads on: top-down, bottom-up, top-down.
    wide = [(0, v) for v in range(1, 20)] + [(v, 20 + v) for v in range(1, 19)]
    edges = listed("widening", [*wide, (38, 40), (40, 41), (41, 42)], 43)
    device, _ = kernels("traversal", "search")
    monkeypatch.setattr(device, "MIN_PULLED_SLOTS", 0)
    bottom_up: list[bool] = []
    launch = device.k_list_frontier.launch_strided

    def noted(num_threads: int, ends: Any, step: int, *args: Any) -> None:
        launch(num_threads, ends, step, *args)
        row = host(ends.arrays[1])[step % device.RING * device.FIELDS :]
        if row[device.SIZE]:  # there was a frontier
            bottom_up.append(bool(row[device.BOTTOM_UP]))

    monkeypatch.setattr(device.k_list_frontier, "launch_strided", noted)
    check_bfs(Problem(edges, CASES[1]), [0], True)
    assert True in bottom_up
    assert bottom_up[-1] is False
    assert len(bottom_up) == 7  # the start, and six levels


@simulated_only
@pytest.mark.parametrize("place", [0, 40, 64, 65, 171, *map(thorough, [3, 130, 170])])
def test_bottom_up_a_parent_is_found_anywhere_in_long_rows(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two neighbouring vertices have long rows, in which only the vertex at ``place`` is reached; another has none."""
    device, _ = kernels("traversal", "search")
    monkeypatch.setattr(device, "d_is_bottom_up", lambda notes, step, num_vertices, can_pull: step > 1 and can_pull)
    rim = range(10, 182)
    hubs = [(hub, v) for hub in (3, 4, 5) for v in rim]
    edges = listed("hubs", [*hubs, (0, 200), (200, 10 + place), (200, 3)], 210)
    check_bfs(Problem(edges, CASES[1]), [0], True)
    check_bfs(Problem(edges, CASES[1]), [10 + place, 11], True)


@simulated_only
@pytest.mark.parametrize("more", [0, 1])
def test_a_small_graph_is_searched_top_down_alone(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, (device, _) = Problem(RANDOM, CASES[1]), kernels("traversal", "search")
    searched: list[int] = []
    find_parent = device.d_find_parent
    monkeypatch.setattr(device, "d_find_parent", lambda *a: (searched.append(1), find_parent(*a))[1])
    monkeypatch.setattr(device, "MIN_PULLED_SLOTS", problem.out.num_slots + more)
    check_bfs(problem, [0], True)
    assert bool(searched) == (more == 0)


def test_bfs_of_more_levels_than_are_started_at_once() -> None:
    # A comb: a path with a tooth at each vertex, so that every level has two new vertices.
    comb = [(v, v + 1) for v in range(26)] + [(v, 30 + v) for v in range(26)]
    check_bfs(Problem(listed("comb", comb, 58), CASES[0]), [0], False)
    check_bfs(Problem(listed("comb", comb, 58), CASES[1]), [13], True, 9)


@every_case
@every_graph
def test_sssp(edges: Edges, case: tuple[Any, ...]) -> None:
    problem = Problem(edges, case, edges.weights)
    device, reference = kernels("traversal", "search")
    got = device.sssp(problem.out, 0, np.inf)
    expected = reference.sssp(problem.host_out, 0, np.inf)
    assert_same(got[0], expected[0])
    assert_same(got[1], expected[1])
    lengths = nx.single_source_dijkstra_path_length(problem.graph, 0)
    reached = {v: d for v, d in enumerate(host(got[0]).tolist()) if d < np.finfo(problem.weight_dtype).max}
    assert reached == lengths


def test_sssp_over_weights_of_many_sizes() -> None:
    # Thresholds then rise in many steps; the sums are rounded.
    weights = 10.0 ** np.random.default_rng(5).uniform(-3, 5, RANDOM.src.shape[0])
    for case in CASES:
        problem = Problem(RANDOM, case, weights)
        device, reference = kernels("traversal", "search")
        got, expected = device.sssp(problem.out, 1, np.inf), reference.sssp(problem.host_out, 1, np.inf)
        assert_same(got[0], expected[0])
        assert_same(got[1], expected[1])


@pytest.mark.parametrize("reach", [1e-3, 1.0, 1e6])
def test_sssp_does_not_depend_on_how_far_thresholds_reach(reach: float, monkeypatch: pytest.MonkeyPatch) -> None:
    device, reference = (
        BACKEND.kernels("dynstore.algorithms.traversal", "shortest_paths"),
        kernels("traversal", "search")[1],
    )
    monkeypatch.setattr(device, "DELTA_WEIGHTS", reach)
    for edges in (RANDOM, listed("path", [(v, v + 1) for v in range(20)], 21)):
        problem = Problem(edges, CASES[1], edges.weights)
        got, expected = device.sssp(problem.out, 0, np.inf), reference.sssp(problem.host_out, 0, np.inf)
        assert_same(got[0], expected[0])
        assert_same(got[1], expected[1])


@pytest.mark.parametrize("cutoff", [0.0, 1.5, 3.0])
def test_sssp_stops_below_the_cutoff(cutoff: float) -> None:
    problem = Problem(RANDOM, CASES[1], RANDOM.weights)
    device, reference = kernels("traversal", "search")
    got, expected = device.sssp(problem.out, 0, cutoff), reference.sssp(problem.host_out, 0, cutoff)
    assert_same(got[0], expected[0])
    assert_same(got[1], expected[1])


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@every_case
def test_sssp_predecessors_are_a_tree_despite_weights_of_zero(case: tuple[Any, ...], share: float) -> None:
    weights = (np.random.default_rng(9).random(RANDOM.src.shape[0]) < share).astype(np.float64)
    problem = Problem(RANDOM, case, weights)
    device, reference = kernels("traversal", "search")
    distances, predecessors = (host(array) for array in device.sssp(problem.out, 0, np.inf))
    assert np.array_equal(distances, reference.sssp(problem.host_out, 0, np.inf)[0])
    packed = problem.host_out.compact()
    columns = (packed.sources.tolist(), packed.indices.tolist(), packed.weights.tolist())
    table = {(u, v): w for u, v, w in zip(*columns, strict=True)}
    for vertex in range(problem.num_vertices):
        reached = distances[vertex] < np.finfo(problem.weight_dtype).max
        assert (predecessors[vertex] >= 0) == (reached and vertex != 0)
        steps = 0
        while predecessors[vertex] >= 0:
            parent = int(predecessors[vertex])
            assert distances[parent] + table[parent, vertex] == distances[vertex]
            vertex, steps = parent, steps + 1
            assert steps < problem.num_vertices
        assert not reached or vertex == 0
