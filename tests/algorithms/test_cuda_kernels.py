"""CUDA kernels of the algorithms against NetworkX and against their host twins, on a GPU or in Numba's simulator.

Graphs are tiny, because each GPU thread is a greenlet in the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import pytest

from dynstore.backend import cuda_problem, get_backend
from dynstore.testing.arrays import gapped_csr, random_edges

BACKEND = get_backend("cuda" if cuda_problem() is None else "cuda-sim")
HOST = get_backend("cpu")
CASES = ((True, 0.5, np.int32, np.float32), (False, 0.5, np.int64, np.float64))
PACKED_CASES = ((True, 1.0, np.int64, np.float64), (False, 1.0, np.int32, np.float32))


@dataclass(frozen=True)
class Edges:
    """Edges with weights that are multiples of 1/8, so that sums are exact."""

    name: str
    src: np.ndarray
    dst: np.ndarray
    num_vertices: int

    def __str__(self) -> str:
        return self.name

    @property
    def weights(self) -> np.ndarray:
        low, high = np.minimum(self.src, self.dst), np.maximum(self.src, self.dst)
        return ((low * 7 + high * 13) % 40 + 1) / 8

    def networkx(self, directed: bool) -> Any:
        graph = nx.DiGraph() if directed else nx.Graph()
        graph.add_nodes_from(range(self.num_vertices))
        graph.add_weighted_edges_from(zip(self.src.tolist(), self.dst.tolist(), self.weights.tolist(), strict=True))
        return graph


def listed(name: str, pairs: list[tuple[int, int]], num_vertices: int) -> Edges:
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Edges(name, table[:, 0], table[:, 1], num_vertices)


def drawn(name: str, num_vertices: int, num_edges: int, seed: int) -> Edges:
    src, dst = random_edges(np.random.default_rng(seed), num_vertices, num_edges, np.int64)
    return Edges(name, src, dst, num_vertices + 2)  # two more, isolated


RANDOM = drawn("random", 38, 110, 3)
# Vertex 90 has 80 neighbours; a search from 0 reaches those above 60 first, so bottom-up 90 looks long for a parent.
TO_HUB = [(v, 90) for v in range(60, 90)]
HUB = listed("hub", [(90, v) for v in range(10, 90)] + TO_HUB + [(0, v) for v in range(60, 90)], 91)
NO_EDGES = listed("no edges", [], 5)  # packed, it has no slots either
GRAPHS = (
    RANDOM,
    HUB,
    listed("star", [(5, v) for v in range(70)], 72),
    listed("path", [(v, v + 1) for v in range(8)], 9),
    listed("two components", [(v, (v + 1) % 5) for v in range(5)] + [(6, 7), (7, 8), (8, 6), (8, 9)], 11),
    listed("loops", [(v, v) for v in range(4)] + [(0, 1), (3, 1)], 5),
    listed("one vertex", [], 1),
    listed("one loop", [(0, 0)], 1),
    NO_EDGES,
)
every_graph = pytest.mark.parametrize("edges", GRAPHS, ids=str)
every_case = pytest.mark.parametrize("case", CASES, ids=["directed-int32", "undirected-int64"])


class Problem:
    """A graph as device and host CSRs, both ways around, and in NetworkX."""

    def __init__(self, edges: Edges, case: tuple[Any, ...], weights: np.ndarray | None = None, seed: int = 0) -> None:
        self.directed, density, self.dtype, self.weight_dtype = case
        self.num_vertices = edges.num_vertices
        self.graph = edges.networkx(self.directed)

        def build(src: np.ndarray, dst: np.ndarray, backend: Any) -> Any:
            return gapped_csr(
                src,
                dst,
                weights,
                num_vertices=edges.num_vertices,
                directed=self.directed,
                backend=backend,
                density=density,
                dtype=self.dtype,
                weight_dtype=self.weight_dtype,
                seed=seed,
            )

        self.out, self.host_out = build(edges.src, edges.dst, BACKEND), build(edges.src, edges.dst, HOST)
        self.into, self.host_into = self.out, self.host_out
        if self.directed:
            self.into, self.host_into = build(edges.dst, edges.src, BACKEND), build(edges.dst, edges.src, HOST)


def kernels(module: str) -> tuple[Any, Any]:
    """Return the device's and the host's module."""
    return tuple(backend.kernels("dynstore.algorithms", module) for backend in (BACKEND, HOST))  # type: ignore[return-value]


def host(array: Any) -> np.ndarray:
    return BACKEND.to_host(array)


def assert_same(device_array: Any, expected: np.ndarray) -> None:
    got = host(device_array)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def check_bfs(problem: Problem, sources: list[int], bottom_up: bool, depth_limit: int | None = None) -> None:
    device, reference = kernels("traversal")
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
    device, reference = kernels("traversal")
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
    device, _ = kernels("traversal")
    bottom_up: list[bool] = []
    launch = device.k_list_frontier.launch_strided

    def noted(num_threads: int, offsets: Any, notes: Any, step: int, *args: Any) -> None:
        launch(num_threads, offsets, notes, step, *args)
        row = host(notes)[step % device.RING * device.FIELDS :]
        if row[device.SIZE]:  # there was a frontier
            bottom_up.append(bool(row[device.BOTTOM_UP]))

    monkeypatch.setattr(device.k_list_frontier, "launch_strided", noted)
    check_bfs(Problem(edges, CASES[1]), [0], True)
    assert True in bottom_up
    assert bottom_up[-1] is False
    assert len(bottom_up) == 7  # the start, and six levels


def test_bfs_of_more_levels_than_are_started_at_once() -> None:
    # A comb: a path with a tooth at each vertex, so that every level has two new vertices.
    comb = [(v, v + 1) for v in range(26)] + [(v, 30 + v) for v in range(26)]
    check_bfs(Problem(listed("comb", comb, 58), CASES[0]), [0], False)
    check_bfs(Problem(listed("comb", comb, 58), CASES[1]), [13], True, 9)


@every_case
@every_graph
def test_sssp(edges: Edges, case: tuple[Any, ...]) -> None:
    problem = Problem(edges, case, edges.weights)
    device, reference = kernels("traversal")
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
        device, reference = kernels("traversal")
        got, expected = device.sssp(problem.out, 1, np.inf), reference.sssp(problem.host_out, 1, np.inf)
        assert_same(got[0], expected[0])
        assert_same(got[1], expected[1])


@pytest.mark.parametrize("reach", [1e-3, 1.0, 1e6])
def test_sssp_does_not_depend_on_how_far_thresholds_reach(reach: float, monkeypatch: pytest.MonkeyPatch) -> None:
    device, reference = BACKEND.kernels("dynstore.algorithms", "shortest_paths"), kernels("traversal")[1]
    monkeypatch.setattr(device, "DELTA_WEIGHTS", reach)
    for edges in (RANDOM, listed("path", [(v, v + 1) for v in range(20)], 21)):
        problem = Problem(edges, CASES[1], edges.weights)
        got, expected = device.sssp(problem.out, 0, np.inf), reference.sssp(problem.host_out, 0, np.inf)
        assert_same(got[0], expected[0])
        assert_same(got[1], expected[1])


@pytest.mark.parametrize("cutoff", [0.0, 1.5, 3.0])
def test_sssp_stops_below_the_cutoff(cutoff: float) -> None:
    problem = Problem(RANDOM, CASES[1], RANDOM.weights)
    device, reference = kernels("traversal")
    got, expected = device.sssp(problem.out, 0, cutoff), reference.sssp(problem.host_out, 0, cutoff)
    assert_same(got[0], expected[0])
    assert_same(got[1], expected[1])


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@every_case
def test_sssp_predecessors_are_a_tree_despite_weights_of_zero(case: tuple[Any, ...], share: float) -> None:
    weights = (np.random.default_rng(9).random(RANDOM.src.shape[0]) < share).astype(np.float64)
    problem = Problem(RANDOM, case, weights)
    device, reference = kernels("traversal")
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


@pytest.mark.parametrize("case", CASES, ids=["directed-float32", "undirected"])
@every_graph
def test_out_weights_and_pagerank(edges: Edges, case: tuple[Any, ...]) -> None:
    check_pagerank(edges, case, weighted=case[0])


@pytest.mark.parametrize("case", PACKED_CASES, ids=["directed", "undirected-float32"])
@pytest.mark.parametrize("edges", [RANDOM, NO_EDGES], ids=str)
def test_out_weights_and_pagerank_of_packed_graphs(edges: Edges, case: tuple[Any, ...]) -> None:
    check_pagerank(edges, case, weighted=not case[0])


def check_pagerank(edges: Edges, case: tuple[Any, ...], weighted: bool) -> None:
    problem = Problem(edges, case, edges.weights if weighted else None)
    for csr in (problem.out, problem.into) if weighted else ():
        csr.weights[~csr.mask()] = np.nan  # gaps add nothing, whatever weight is left in them
    device, reference = kernels("link_analysis")
    sums = device.sum_out_weights(problem.out)
    expected_sums = reference.sum_out_weights(problem.host_out)
    assert_same(sums, expected_sums)
    start = np.full(problem.num_vertices, 1.0 / problem.num_vertices, dtype=expected_sums.dtype)
    given = BACKEND.asarray(start)
    ranks, iterations, error = device.pagerank(problem.into, sums, 0.85, None, given, 3, 0.0)
    expected = reference.pagerank(problem.host_into, expected_sums, 0.85, None, start, 3, 0.0)
    assert iterations == expected[1] == 3
    assert host(ranks).dtype == start.dtype
    np.testing.assert_array_equal(host(given), start)
    assert np.abs(host(ranks) - expected[0]).sum() < 1e-6
    assert error == pytest.approx(expected[2], rel=1e-3, abs=1e-6)
    assert host(ranks).sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("most", "low"), [(5, 6), (5, 1), (0, 0)])
def test_the_cache_keeps_the_first_shares_where_many_edges_come_from_them(most: int, low: int) -> None:
    """``low`` of eleven neighbours are among the first."""
    indices = BACKEND.asarray(np.resize(np.array([0] * low + [9] * (11 - low), dtype=np.int32), 11 * 600))
    kept = BACKEND.zeros(1, np.int32)
    kernels("link_analysis")[0].k_choose_kept.launch(1, indices, most, kept)
    assert int(kept[0]) == (most if low > 3 else 2**31 - 1)


@pytest.mark.parametrize("size", [0, 16, 1 << 20], ids=["none", "some", "all"])
def test_pagerank_does_not_depend_on_what_the_cache_keeps(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels("link_analysis")[0], "KEPT_BYTES", size)
    check_pagerank(HUB, CASES[0], weighted=True)


@pytest.mark.parametrize("personal", [False, True], ids=["uniform", "personal"])
def test_pagerank_converges_to_networkx(personal: bool) -> None:
    problem = Problem(RANDOM, CASES[0], RANDOM.weights)
    device, _ = kernels("link_analysis")
    number = problem.num_vertices
    wanted = np.zeros(number, dtype=np.float64)
    wanted[[2, 5, number - 1]] = [0.5, 0.25, 0.25]
    targets = BACKEND.asarray(wanted) if personal else None
    start = BACKEND.asarray(np.full(number, 1.0 / number))
    sums = device.sum_out_weights(problem.out)
    ranks, iterations, error = device.pagerank(problem.into, sums, 0.5, targets, start, 100, 1e-4)
    assert error < 1e-4
    assert 1 < iterations < 100
    shares = dict(enumerate(wanted.tolist())) if personal else None
    expected = nx.pagerank(problem.graph, alpha=0.5, personalization=shares, dangling=shares, tol=1e-12)
    np.testing.assert_allclose(host(ranks), [expected[v] for v in range(number)], atol=1e-4)


@pytest.mark.parametrize("tol", [0.3, 1e-3, 1e-5])
def test_pagerank_stops_at_the_first_iteration_that_converges(tol: float) -> None:
    """Though the host starts some iterations before it looks at the first."""
    edges = (RANDOM, HUB)[tol < 1e-3]
    problem = Problem(edges, CASES[0], edges.weights)
    device, _ = kernels("link_analysis")
    sums = device.sum_out_weights(problem.out).astype(np.float64)
    start = BACKEND.asarray(np.full(problem.num_vertices, 1.0 / problem.num_vertices))
    ranks, iterations, error = device.pagerank(problem.into, sums, 0.85, None, start, 60, tol)
    assert error < tol
    *_, before = device.pagerank(problem.into, sums, 0.85, None, start, iterations - 1, 0.0)
    assert before >= tol
    same, count, _ = device.pagerank(problem.into, sums, 0.85, None, start, iterations, 0.0)
    assert count == iterations
    np.testing.assert_allclose(host(ranks), host(same), rtol=1e-12)
    assert device.pagerank(problem.into, sums, 0.85, None, start, iterations - 1, tol)[1] == iterations - 1


@pytest.mark.parametrize("case", [CASES[1], PACKED_CASES[1]], ids=["gaps-int64", "packed-int32"])
@every_graph
def test_triangles(edges: Edges, case: tuple[Any, ...]) -> None:
    problem = Problem(edges, case)
    device, reference = kernels("community")
    got = device.count_triangles(problem.out)
    assert_same(got, reference.count_triangles(problem.host_out))
    problem.graph.remove_edges_from(list(nx.selfloop_edges(problem.graph)))
    assert dict(enumerate(host(got).tolist())) == nx.triangles(problem.graph)


def test_triangles_of_a_clique_and_of_a_wheel() -> None:
    clique = [(u, v) for u in range(11) for v in range(u)]
    wheel = [(30, 11 + v) for v in range(18)] + [(11 + v, 11 + (v + 1) % 18) for v in range(18)]
    problem = Problem(listed("clique and wheel", clique + wheel, 31), CASES[1])
    counts = host(kernels("community")[0].count_triangles(problem.out))
    assert counts.tolist() == [45] * 11 + [2] * 18 + [0] + [18]


@every_case
@every_graph
def test_components(edges: Edges, case: tuple[Any, ...]) -> None:
    problem = Problem(edges, case)
    expected = np.empty(edges.num_vertices, dtype=problem.dtype)
    for component in nx.connected_components(edges.networkx(False)):
        expected[list(component)] = min(component)
    for symmetric in {False, not problem.directed}:
        assert_same(kernels("components")[0].label_components(problem.out, symmetric), expected)


@pytest.mark.parametrize("seed", range(4))
def test_components_of_long_chains_in_any_order(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(60)
    edges = Edges("chains", np.delete(order[:-1], 29), np.delete(order[1:], 29), 60)
    problem = Problem(edges, CASES[0])
    labels = host(kernels("components")[0].label_components(problem.out))
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
    labels = host(kernels("components")[0].label_components(problem.out, not directed))
    for component in nx.connected_components(edges.networkx(False)):
        assert labels[list(component)].tolist() == [min(component)] * len(component)


@pytest.mark.parametrize("density", [1.0, 0.6])
def test_gaps_do_not_count_among_the_edges_that_components_begin_with(density: float) -> None:
    """What the first two edges of each row unite is the same with gaps and without."""
    edges = drawn("sampled", 40, 130, 6)
    problem = Problem(edges, (True, density, np.int32, np.float32), seed=3)
    components, packed = kernels("components")[0], problem.host_out.compact()
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
    edges = drawn("small", 12, 36, 8)
    problem = Problem(edges, CASES[0])
    everyone = np.arange(edges.num_vertices, dtype=np.int64)
    got = host(kernels("centrality")[0].accumulate_dependencies(problem.out, None, everyone, True))
    expected = nx.betweenness_centrality(problem.graph, normalized=False, endpoints=True)
    np.testing.assert_allclose(got, [expected[v] for v in range(edges.num_vertices)])


def test_graphs_without_vertices() -> None:
    problem = Problem(listed("nothing", [], 0), PACKED_CASES[0])
    nobody = np.empty(0, dtype=np.int64)
    distances, predecessors = kernels("traversal")[0].bfs(problem.out, problem.into, nobody, 5, True)
    assert distances.shape == predecessors.shape == (0,)
    sums = kernels("link_analysis")[0].sum_out_weights(problem.out)
    assert kernels("link_analysis")[0].pagerank(problem.into, sums, 0.85, None, sums, 5, 0.0)[1:] == (0, 0.0)
    assert kernels("community")[0].count_triangles(problem.out).shape == (0,)
    assert kernels("components")[0].label_components(problem.out).shape == (0,)
    assert kernels("centrality")[0].accumulate_dependencies(problem.out, None, nobody, True).shape == (0,)


@pytest.mark.parametrize("density", [1.0, 0.5, 0.02])
def test_hidden_slots_are_never_read(density: float) -> None:
    """Few edges in many slots give what the packed graph gives."""
    edges = drawn("hidden", 12, 20, 4)
    problem = Problem(edges, (False, density, np.int32, np.float32), edges.weights, seed=11)
    packed = problem.host_out.compact()
    device, reference = kernels("traversal")
    assert_same(device.sssp(problem.out, 0, np.inf)[0], reference.sssp(packed, 0, np.inf)[0])
    device, reference = kernels("link_analysis")
    assert_same(device.sum_out_weights(problem.out), reference.sum_out_weights(packed))
    device, reference = kernels("community")
    assert_same(device.count_triangles(problem.out), reference.count_triangles(packed))
    device, reference = kernels("components")
    assert_same(device.label_components(problem.out), reference.label_components(packed))
