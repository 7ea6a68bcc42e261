"""The live graph against cuGraph's own graphs, built afresh: needs a GPU with RAPIDS.

Everything runs on borrowed graphs and, as where there is no compiler, on SGGraph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.adapters.cugraph import live_graph
from dynstore.adapters.cugraph.borrowed.loading import Bridge, load_bridge
from dynstore.adapters.cugraph.graph import as_cugraph
from dynstore.adapters.cugraph.packed import packed_rows
from tests.adapters.cugraph.pairs import KINDS, SHAPES, VERTICES, Pair, by_vertex, compare, real, same

__all__ = ["real"]  # a fixture

# The GPU's libraries warn of their own ways; pytest.ini of this project would make that an error.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=["borrowed", "rebuilt"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    bridge = load_bridge()
    if request.param == "rebuilt":
        monkeypatch.setattr(live_graph, "load_bridge", lambda: Bridge(None, "as without a compiler"))
    elif bridge.borrowed_graph is None:
        pytest.skip(f"no library to borrow graphs with: {bridge.reason}")
    return str(request.param)


def test_the_library_was_built_and_passed_its_test() -> None:
    bridge = load_bridge()
    if "BorrowedGraph: " in bridge.reason:  # what building needs is not there, and the reason says what
        pytest.skip(bridge.reason)
    assert bridge.borrowed_graph is not None, bridge.reason


@pytest.mark.parametrize(("directed", "weighted"), SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_live_graph_agrees_with_one_built_afresh(
    real: Any, path: str, kind: str, directed: bool, weighted: bool
) -> None:
    pair = Pair(kind, directed, weighted)
    live = as_cugraph(pair.graph)
    assert type(live) is real.Graph
    compare(real, pair, live)
    assert dynstore.explain(live).path == path
    pair.update()
    compare(real, pair, live)


@pytest.mark.parametrize(("vertex_dtype", "weight_dtype"), [("int64", "float32"), ("int32", "float64")])
def test_other_types(real: Any, path: str, vertex_dtype: str, weight_dtype: str) -> None:
    pair = Pair("dense", True, True, vertex_dtype=vertex_dtype, weight_dtype=weight_dtype)
    live = as_cugraph(pair.graph)
    compare(real, pair, live)
    assert real.bfs(live, 0)["vertex"].dtype == vertex_dtype
    assert real.pagerank(live)["pagerank"].dtype == weight_dtype


@pytest.mark.parametrize("weighted", [False, True])
def test_algorithms_that_pull_and_others_take_turns(real: Any, path: str, weighted: bool) -> None:
    """Whatever transposes its graph in place leaves the rows that it was lent as they are."""
    pair = Pair("sparse", True, weighted)
    live = as_cugraph(pair.graph)
    theirs = pair.afresh(real)
    kept = [packed_rows(pair.graph, way) for way in (False, True)]
    before = [(kept_rows.offsets.copy(), kept_rows.indices.copy()) for kept_rows in kept]
    for _ in range(2):
        same(*(by_vertex(real.hits(G, max_iter=500, tol=1e-6), "hubs") for G in (live, theirs)), "sparse", 1e-3)
        same(*(by_vertex(real.bfs(G, 5), "distance") for G in (live, theirs)), "sparse")
        same(*(by_vertex(real.pagerank(G, tol=1e-6, max_iter=500), "pagerank") for G in (live, theirs)), "sparse", 1e-5)
    for (offsets, indices), after in zip(before, kept, strict=True):
        assert bool((offsets == after.offsets).all())
        assert bool((indices == after.indices).all())


def test_the_wrong_orientation_gives_the_same_ranks(real: Any, path: str) -> None:
    import pylibcugraph

    pair = Pair("sparse", True, True)
    live, handle = as_cugraph(pair.graph), pylibcugraph.ResourceHandle()
    found = []
    for transposed in (True, False):
        graph = live._Impl.lend(transposed)
        vertices, ranks = pylibcugraph.pagerank(handle, graph, None, None, None, None, 0.85, 1e-6, 500, False)
        found.append(dict(zip(vertices.tolist(), ranks.tolist(), strict=True)))
    assert found[0] == pytest.approx(found[1], abs=1e-6)
    assert live.number_of_edges(directed_edges=True) == len(live.decompress_to_edgelist())


def test_segments_of_a_drifted_order_change_no_result(real: Any) -> None:
    """Hubs that come after the build stand behind the segments; those whose edges went stay in front."""
    if load_bridge().borrowed_graph is None:
        pytest.skip(load_bridge().reason)
    pair = Pair("sparse", False, False)
    late = np.full(1600, VERTICES + 15), np.arange(1600)
    pair.insert(*late)
    gone = np.zeros(VERTICES // 4, np.int64), np.arange(VERTICES // 4)
    pair.graph.delete_edges(tuple(KINDS["sparse"](column) for column in gone))
    assert packed_rows(pair.graph).segments is not None
    compare(real, pair, as_cugraph(pair.graph))
    before = packed_rows(pair.graph).segments
    pair.graph.reorder()
    compare(real, pair, as_cugraph(pair.graph))
    assert packed_rows(pair.graph).segments is not None, before


def test_a_lent_graph_outlives_later_versions(real: Any) -> None:
    import pylibcugraph

    if load_bridge().borrowed_graph is None:
        pytest.skip(load_bridge().reason)
    graph = dynstore.DynamicGraph(device="cuda")
    graph.insert_edges(([0, 1], [1, 2]))
    live, handle = as_cugraph(graph), pylibcugraph.ResourceHandle()
    lent = live._Impl.lend()
    for number in range(20):
        graph.insert_edges((np.arange(50) + number, np.arange(50) * 3))
        real.bfs(live, 0)
    assert lent.number_of_vertices() == 3
    distances, _, vertices = pylibcugraph.bfs(handle, lent, _array([0]), False, -1, True, False)
    assert dict(zip(vertices.tolist(), distances.tolist(), strict=True)) == {0: 0, 1: 1, 2: 2}


def _array(values: list[int]) -> Any:
    import cupy

    return cupy.asarray(values, dtype=np.int32)


def test_lending_leaks_no_memory(real: Any) -> None:
    import cupy

    if load_bridge().borrowed_graph is None:
        pytest.skip(load_bridge().reason)
    pair = Pair("sparse", True, True)
    live = as_cugraph(pair.graph)
    real.pagerank(live), real.bfs(live, 5)
    taken = []
    for _ in range(5):  # other programs take memory, too; but a leak takes some each time
        free = cupy.cuda.runtime.memGetInfo()[0]
        for _ in range(2000):
            live._Impl.lend(False), live._Impl.lend(True)
        taken.append(free - cupy.cuda.runtime.memGetInfo()[0])
    assert min(taken) < 64 << 20


def test_updates_on_a_stream_of_the_users_own_are_seen(real: Any, path: str) -> None:
    import cupy

    graph = dynstore.DynamicGraph(device="cuda", directed=False)
    live = as_cugraph(graph)
    for number in range(5):
        with cupy.cuda.Stream(non_blocking=True):
            leaves = cupy.arange(1, 200_000 * (number + 1), dtype=np.int32)
            graph.insert_edges((cupy.zeros_like(leaves), leaves))
        labels = real.weakly_connected_components(live)["labels"]
        assert labels.nunique() == 1


def test_an_emptied_graph(real: Any, path: str) -> None:
    graph = dynstore.DynamicGraph(device="cuda", weighted=True)
    graph.insert_edges(([0, 1], [1, 2], [1.0, 2.0]))
    live = as_cugraph(graph)
    graph.delete_edges(([0, 1], [1, 2]))
    assert live.number_of_edges() == 0
    assert len(live.view_edge_list()) == 0
    distances = by_vertex(real.bfs(live, 0), "distance")
    assert distances == {0: 0, 1: np.iinfo(np.int32).max, 2: np.iinfo(np.int32).max}


def test_more_of_cugraph_runs_on_a_live_graph(real: Any, path: str) -> None:
    pair = Pair("sparse", False, True)
    live = as_cugraph(pair.graph)
    parts, modularity = real.louvain(live)
    assert len(parts) == pair.graph.number_of_vertices()
    assert modularity > 0
    betweenness = real.betweenness_centrality(live, k=5, random_state=1)
    assert len(betweenness) == pair.graph.number_of_vertices()
    assert real.k_core(live, 2).number_of_edges() > 0
    assert real.katz_centrality(live, alpha=1e-4)["katz_centrality"].sum() > 0
    assert real.eigenvector_centrality(live, max_iter=1000, tol=1e-3)["eigenvector_centrality"].sum() > 0
    assert live.select_random_vertices(num_vertices=5).isin(live.nodes()).all()
    assert live.to_directed().number_of_edges() == live.number_of_edges(directed_edges=True)
    assert set(live.get_two_hop_neighbors(live.nodes()[:1]).columns) == {"first", "second"}


def test_a_graph_on_the_host_is_copied_to_the_gpu(real: Any, path: str) -> None:
    graph = dynstore.DynamicGraph(device="cpu")
    graph.insert_edges(([0, 1], [1, 2]))
    live = as_cugraph(graph)
    assert by_vertex(real.bfs(live, 0), "distance") == {0: 0, 1: 1, 2: 2}
    assert "copied to the GPU" in dynstore.explain(live).copied or path == "rebuilt"


@pytest.mark.parametrize("weighted", [False, True])
def test_hubs_far_behind_shorter_rows_are_lent_in_order_of_degree(real: Any, path: str, weighted: bool) -> None:
    graph = dynstore.DynamicGraph(directed=False, weighted=weighted, device="cuda")
    chain, spokes = np.arange(3000), np.arange(2000)
    edges = np.concatenate((chain, np.full(2000, 3001))), np.concatenate((chain + 1, spokes))
    weights = [np.random.default_rng(3).integers(1, 9, 5000).astype(np.float32)] if weighted else []
    graph.insert_edges((*edges, *weights))
    assert packed_rows(graph).order is not None
    assert "order of degree" in packed_rows(graph).copied
    import cudf

    built, table = real.Graph(), cudf.DataFrame(graph.edge_table())
    built.from_cudf_edgelist(table, "source", "destination", edge_attr="weight" if weighted else None)
    live = as_cugraph(graph)
    assert by_vertex(real.core_number(live), "core_number") == by_vertex(real.core_number(built), "core_number")
    if weighted:
        same(*(by_vertex(real.sssp(G, 0), "distance") for G in (live, built)), "dense")
