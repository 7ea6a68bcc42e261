"""The five algorithms over streamed pages have the results of those in memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore import DynamicGraph, gts
from dynstore.errors import FailedToConvergeError, InputError, InputTypeError, UnweightedGraphError

# Ways to stream; each with its pages.
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "paper": ({"p": 2, "q": 2, "page_bytes": 96}, {"streams": 3, "copy_bytes": 0, "cache_pages": 3, "cache": "lru"}),
    "resident": ({"p": 3, "q": 3, "page_bytes": 120}, {"cache_pages": 4, "copy_bytes": 500, "technique": "hybrid"}),
    "alone": ({"p": 2, "q": 2, "page_bytes": 4096}, {"streams": 1, "technique": "vertex"}),
}


def draw_graph(seed: int, directed: bool, weighted: bool = False, num_vertices: int = 26) -> DynamicGraph:
    """Return a graph with one long row, some isolated vertices, and weights of which some are 0."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, num_vertices - 4, (2, 45))
    src[:22], dst[:22] = 5, np.arange(22)
    graph = DynamicGraph(directed=directed, weighted=weighted, device="cpu", frames="pandas")
    weights = (rng.integers(0, 4, 45) / 2).astype(np.float32)
    graph.insert_edges((src, dst, weights) if weighted else (src, dst))
    last = np.array([num_vertices - 1])
    graph.insert_edges((last, last, weights[:1]) if weighted else (last, last))
    graph.delete_edges((last, last))
    return graph


@cache
def make_engine(way: str, device: str, directed: bool, weighted: bool = False) -> tuple[DynamicGraph, gts.GTS]:
    pages, options = WAYS[way]
    graph = draw_graph(3 + directed, directed, weighted)
    topology = gts.build(graph, weights=weighted, **pages)
    return graph, gts.GTS(topology, device=device, frames="pandas", **options)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return request.param


def test_the_pages_are_of_both_kinds() -> None:
    for name in ("paper", "resident"):
        _, engine = make_engine(name, "cpu", True)
        assert engine.topology.num_large > 1
        assert engine.topology.num_small > 4


@pytest.mark.parametrize("directed", [False, True])
def test_bfs(way: str, backend_name: str, directed: bool) -> None:
    graph, engine = make_engine(way, backend_name, directed)
    pd.testing.assert_frame_equal(engine.bfs([0, 5]), dynstore.bfs(graph, [0, 5]))
    found, expected = engine.bfs(1, depth_limit=1), dynstore.bfs(graph, 1, depth_limit=1)
    pd.testing.assert_frame_equal(found, expected)
    without = engine.bfs(1, return_predecessors=False)
    pd.testing.assert_series_equal(without["distance"], dynstore.bfs(graph, 1)["distance"])
    assert (without["predecessor"] == -1).all()


@pytest.mark.parametrize("directed", [False, True])
def test_sssp(way: str, backend_name: str, directed: bool) -> None:
    graph, engine = make_engine(way, backend_name, directed, True)
    source = int(graph.snapshot().sources[0])
    found, expected = engine.sssp(source), dynstore.sssp(graph, source)
    pd.testing.assert_series_equal(found["distance"], expected["distance"])
    check_tree(graph, found, source)
    without = engine.sssp(source, return_predecessors=False)
    pd.testing.assert_series_equal(without["distance"], expected["distance"])
    assert (without["predecessor"] == -1).all()
    near = engine.sssp(source, cutoff=1.0)
    pd.testing.assert_series_equal(near["distance"], dynstore.sssp(graph, source, cutoff=1.0)["distance"])


def check_tree(graph: DynamicGraph, found: pd.DataFrame, source: int) -> None:
    """Each vertex that was reached has a parent at the right distance, and the parents lead to the source."""
    distance, parent = found["distance"].to_numpy(), found["predecessor"].to_numpy()
    reached = distance < np.finfo(np.float32).max
    assert (parent[~reached] == -1).all()
    assert parent[source] == -1
    for vertex in np.flatnonzero(reached):
        seen = {vertex}
        while vertex != source:
            ahead = parent[vertex]
            weights = dict(zip(*(part.tolist() for part in graph.successors(ahead, weights=True)), strict=True))
            assert distance[ahead] + np.float32(weights[vertex]) == distance[vertex]
            assert ahead not in seen, "a cycle"
            seen.add(ahead)
            vertex = ahead


def test_parents_over_edges_without_weight(backend_name: str) -> None:
    """0 -> 1 -> 2 <-> 3 <-> 4, all of weight 0 from 1 on: each stage finds one more parent."""
    edges = [(0, 1, 1.0), (1, 2, 0.0), (2, 3, 0.0), (3, 2, 0.0), (3, 4, 0.0), (4, 3, 0.0), (4, 2, 0.0)]
    topology = gts.build(edges, weights=True, page_bytes=48)
    found = gts.GTS(topology, device=backend_name, frames="pandas").sssp(0)
    assert found["distance"].tolist() == [0, 1, 1, 1, 1]
    assert found["predecessor"].tolist() == [-1, 0, 1, 2, 3]


def test_parents_where_no_path_has_a_length(backend_name: str) -> None:
    topology = gts.build([(0, 1, 0.0), (1, 2, 0.0), (3, 0, 1.0)], weights=True, page_bytes=48)
    found = gts.GTS(topology, device=backend_name, frames="pandas").sssp(0)
    assert found["distance"].tolist()[:3] == [0, 0, 0]
    assert found["predecessor"].tolist() == [-1, 0, 1, -1]


@pytest.mark.parametrize("directed", [False, True])
def test_pagerank(way: str, backend_name: str, directed: bool) -> None:
    graph, engine = make_engine(way, backend_name, directed)
    if backend_name == "cpu":
        expected = dynstore.pagerank(graph, tol=1e-6)
        pd.testing.assert_frame_equal(engine.pagerank(tol=1e-6), expected, atol=1e-6)
    found, converged = engine.pagerank(max_iter=3, tol=0, fail_on_nonconvergence=False)
    expected, _ = dynstore.pagerank(graph, max_iter=3, tol=0, fail_on_nonconvergence=False)
    pd.testing.assert_frame_equal(found, expected, atol=1e-6)
    assert not converged
    assert engine.last_run.passes == 3
    assert engine.last_run.pages == 3 * engine.topology.num_pages


@pytest.mark.parametrize("directed", [False, True])
def test_components(way: str, backend_name: str, directed: bool) -> None:
    graph, engine = make_engine(way, backend_name, directed)
    pd.testing.assert_frame_equal(engine.weakly_connected_components(), dynstore.weakly_connected_components(graph))
    assert engine.last_run.passes == 1


@pytest.mark.parametrize(("directed", "endpoints"), [(False, True), (True, False)])
def test_centrality(way: str, backend_name: str, directed: bool, endpoints: bool) -> None:
    graph, engine = make_engine(way, backend_name, directed)
    options: dict[str, Any] = {"k": [0, 5], "normalized": not directed, "endpoints": endpoints}
    found = engine.betweenness_centrality(**options)
    pd.testing.assert_frame_equal(found, dynstore.betweenness_centrality(graph, **options))
    if backend_name == "cpu":
        expected = nx.betweenness_centrality(graph.to_networkx(), endpoints=endpoints)
        values = engine.betweenness_centrality(endpoints=endpoints)["betweenness_centrality"]
        np.testing.assert_allclose(values, [expected[vertex] for vertex in range(len(values))])
        assert len(engine.betweenness_centrality(k=3, random_state=1)) == graph.number_of_vertices()


@pytest.mark.parametrize("k", [[0, 0], [5, 0, 5, 5], [3]])
def test_a_source_that_is_given_twice_counts_twice(backend_name: str, k: list[int]) -> None:
    """As in cuGraph, and in all stores: with [0, 0] a source has the paths from another one, which is itself."""
    graph, engine = make_engine("resident", backend_name, True)
    found = engine.betweenness_centrality(k)
    pd.testing.assert_frame_equal(found, dynstore.betweenness_centrality(graph, k))
    assert found["betweenness_centrality"].isna().sum() == (len(k) == 1)
    pd.testing.assert_frame_equal(engine.bfs(k), dynstore.bfs(graph, sorted(set(k))))


def test_an_empty_graph(backend_name: str) -> None:
    engine = gts.GTS(gts.build(DynamicGraph(device="cpu")), device=backend_name)
    assert len(engine.pagerank()) == len(engine.weakly_connected_components()) == 0
    assert len(engine.betweenness_centrality()) == 0
    with pytest.raises(InputError, match="bfs: start has 0; the topology has 0 vertices"):
        engine.bfs(0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda engine: engine.bfs(26), InputError, "bfs: start has 26; the topology has 26 vertices, ids from 0"),
        (lambda engine: engine.bfs([0, -1]), InputError, "bfs: start has -1"),
        (lambda engine: engine.bfs("a"), InputTypeError, "bfs: start is 'a'; wanted a vertex, or a list"),
        (lambda engine: engine.bfs([]), InputTypeError, "bfs: start is"),
        (lambda engine: engine.bfs(0, depth_limit=1.5), InputTypeError, "bfs: depth_limit is 1.5; wanted an integer"),
        (lambda engine: engine.sssp(0), UnweightedGraphError, "the pages have no weights; build them with weights"),
        (lambda engine: engine.sssp([0, 1]), InputError, "sssp: source has 2 vertices; wanted one"),
        (lambda engine: engine.pagerank(alpha=2), InputError, "pagerank: alpha is 2.0; wanted 0 to 1"),
        (lambda engine: engine.pagerank(max_iter=1), FailedToConvergeError, "after 1 iterations the ranks still"),
        (lambda engine: engine.betweenness_centrality(k=27), InputError, "k is 27; wanted 1 to 26"),
        (
            lambda engine: engine.betweenness_centrality(k=2, random_state="x"),
            InputTypeError,
            "betweenness_centrality: random_state is 'x'; wanted an integer",
        ),
        (
            lambda engine: engine.betweenness_centrality(k=2, random_state=-1),
            InputError,
            "betweenness_centrality: random_state is -1; wanted 0 or more",
        ),
        (
            lambda engine: gts.GTS(engine),
            InputTypeError,
            "GTS: topology is a dynstore.gts.*; wanted a PagedTopology",
        ),
        (lambda engine: gts.GTS(engine.topology, streams=0), InputError, "GTS: streams is 0; wanted 1 or more"),
        (lambda engine: gts.GTS(engine.topology, streams=None), InputTypeError, "GTS: streams is None"),
        (lambda engine: gts.GTS(engine.topology, cache="mru"), InputError, "GTS: unknown cache 'mru'"),
        (lambda engine: gts.GTS(engine.topology, attributes="x"), InputError, "GTS: unknown attributes 'x'"),
        (lambda engine: gts.GTS(engine.topology, technique="warp"), InputError, "GTS: unknown technique 'warp'"),
    ],
)
def test_wrong_calls(call: Any, error: type[Exception], message: str) -> None:
    _, engine = make_engine("paper", "cpu", True)
    with pytest.raises(error, match=message):
        call(engine)


def test_negative_weights_are_refused() -> None:
    engine = gts.GTS(gts.build([(0, 1, -1.0)], weights=True), device="cpu")
    with pytest.raises(InputError, match="sssp: the graph has negative weights"):
        engine.sssp(0)
