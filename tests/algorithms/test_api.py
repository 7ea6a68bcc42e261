"""The public functions: cuGraph's signatures, columns, dtypes and conventions, on graphs that change."""

from __future__ import annotations

import inspect
import random
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.errors import InputError
from tests.algorithms.kites import both_dtypes, check_frame, column, host, kite, reference


@both_dtypes
def test_triangle_count(device: str, options: dict) -> None:
    graph = kite(device, **options)
    vertex = options["vertex_dtype"]
    table = check_frame(dynstore.triangle_count(graph), vertex=vertex, counts=vertex)
    assert table["counts"].tolist() == [1, 2, 2, 1, 0, 0, 0]
    some = host(dynstore.triangle_count(graph, [3, 2, 6]))
    assert some["vertex"].tolist() == [3, 2, 6]
    assert some["counts"].tolist() == [1, 2, 0]
    assert some["vertex"].dtype == some["counts"].dtype == vertex
    assert host(dynstore.triangle_count(graph, 1))["counts"].tolist() == [2]
    with pytest.raises(InputError, match="Found invalid vertex in start_list: got 9"):
        dynstore.triangle_count(graph, [9])
    with pytest.raises(ValueError, match="triangle_count: input graph must be undirected"):
        dynstore.triangle_count(kite(device, directed=True))


@both_dtypes
@pytest.mark.parametrize("directed", [True, False])
def test_weakly_connected_components(device: str, directed: bool, options: dict) -> None:
    graph = kite(device, directed=directed, **options)
    vertex = options["vertex_dtype"]
    table = check_frame(dynstore.weakly_connected_components(graph), vertex=vertex, labels=vertex)
    assert table["labels"].tolist() == [0, 0, 0, 0, 0, 0, 6]
    graph.delete_edges(([3], [4]))
    table = host(dynstore.weakly_connected_components(graph, connection="weak"))
    assert table["labels"].tolist() == [0, 0, 0, 0, 4, 4, 6]
    for arguments in ({"directed": True}, {"return_labels": True}, {"connection": "strong"}):
        with pytest.raises(TypeError, match="weakly_connected_components"):
            dynstore.weakly_connected_components(graph, **arguments)


@pytest.mark.parametrize("endpoints", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("k", [None, 7, 6, 3, 2, 1])
def test_betweenness_equals_networkx(device: str, k: Any, directed: bool, normalized: bool, endpoints: bool) -> None:
    pytest.importorskip("networkx", minversion="3.5", reason="earlier ones scale samples as if all were sources")
    arguments = {"normalized": normalized, "endpoints": endpoints}
    expected = column(nx.betweenness_centrality(reference(directed), k=k, seed=11, **arguments))
    if k is not None:  # what NetworkX samples with this seed
        k = random.Random(11).sample(range(7), k)
    frame = dynstore.betweenness_centrality(kite(device, directed=directed), k=k, **arguments)
    table = check_frame(frame, vertex="int32", betweenness_centrality="float64")
    np.testing.assert_allclose(table["betweenness_centrality"], expected, rtol=1e-9, atol=1e-12)


def test_betweenness_options(device: str) -> None:
    graph = kite(device)
    full = host(dynstore.betweenness_centrality(graph))
    small = check_frame(
        dynstore.betweenness_centrality(graph, result_dtype=np.float32),
        vertex="int32",
        betweenness_centrality="float32",
    )
    np.testing.assert_allclose(small["betweenness_centrality"], full["betweenness_centrality"], rtol=1e-6)
    pd.testing.assert_frame_equal(host(dynstore.betweenness_centrality(graph, k=7, seed=1)), full)
    draws = [host(dynstore.betweenness_centrality(graph, k=3, **seed)) for seed in ({"seed": 4}, {"random_state": 4})]
    pd.testing.assert_frame_equal(*draws)
    listed = host(dynstore.betweenness_centrality(graph, k=pd.DataFrame({"v": range(7)})))
    pd.testing.assert_frame_equal(listed, full)
    for arguments, message in [
        ({"k": 8}, "k is 8; wanted 1 to 7"),
        ({"k": 0}, "k is 0"),
        ({"k": [9]}, "Found invalid vertex in k"),
        ({"weight": "w"}, "weight is not supported"),
        ({"result_dtype": np.int32}, "wanted float32 or float64"),
        ({"result_dtype": "no"}, "wanted float32 or float64"),
    ]:
        with pytest.raises(InputError, match=message):
            dynstore.betweenness_centrality(graph, **arguments)


@pytest.mark.parametrize("endpoints", [True, False])
@pytest.mark.parametrize("store", ["gpma+", "paged", "slab_hash"])
def test_a_source_that_is_given_twice_counts_twice(device: str, store: str, endpoints: bool) -> None:
    """As in cuGraph: each of the sources is searched, and results are divided by how many there are."""
    graph = dynstore.DynamicGraph(store=store, device=device)
    graph.insert_edges(([0, 1, 1, 2, 3, 0], [1, 2, 3, 4, 4, 5]))

    def summed(k: list[int]) -> Any:
        """Return sums that are not divided; there are 6 vertices, 5 of which are others."""
        frame = host(dynstore.betweenness_centrality(graph, k=k, normalized=False, endpoints=endpoints))
        at_sources = len(k) if endpoints else len(k) - 1
        factors = np.where(np.isin(range(6), k), at_sources, len(k)) / (6 if endpoints else 5)
        return np.nan_to_num(frame["betweenness_centrality"].to_numpy()) * factors

    once, other = summed([0]), summed([1])
    np.testing.assert_allclose(summed([0, 0]), 2 * once, atol=1e-12)
    np.testing.assert_allclose(summed([0, 1, 0])[2:], (2 * once + other)[2:], atol=1e-12)


@pytest.mark.parametrize("store", ["gpma+", "merge", "rebuild"])
@pytest.mark.parametrize("directed", [True, False])
def test_results_follow_updates(device: str, directed: bool, store: str, rng: np.random.Generator) -> None:
    graph = dynstore.DynamicGraph(directed=directed, weighted=True, store=store, device=device, weight_dtype="float64")
    mirror = nx.DiGraph() if directed else nx.Graph()
    for _ in range(5):
        src, dst = rng.integers(0, 80, size=(2, 150))
        weights = rng.integers(1, 20, size=150) / 4
        graph.insert_edges((src, dst, weights))
        mirror.add_weighted_edges_from(zip(src.tolist(), dst.tolist(), weights.tolist(), strict=True))
        there = list(mirror.edges)
        gone = [there[i] for i in rng.permutation(len(there))[: len(there) // 3]]
        graph.delete_edges(gone)
        mirror.remove_edges_from(gone)
        mirror.add_nodes_from(range(graph.number_of_vertices()))
        _compare(graph, mirror)


def _compare(graph: dynstore.DynamicGraph, mirror: Any) -> None:
    source = next(v for v in mirror if mirror.degree(v))
    hops = nx.single_source_shortest_path_length(mirror, source)
    lengths = nx.single_source_dijkstra_path_length(mirror, source)
    everyone = range(graph.number_of_vertices())
    far, farther = np.iinfo(np.int32).max, np.finfo(np.float64).max
    assert host(dynstore.bfs(graph, source))["distance"].tolist() == [hops.get(v, far) for v in everyone]
    assert host(dynstore.sssp(graph, source))["distance"].tolist() == [lengths.get(v, farther) for v in everyone]
    ranks = host(dynstore.pagerank(graph, tol=1e-8))["pagerank"]
    assert np.abs(ranks - column(nx.pagerank(mirror, tol=1e-10))).sum() < 1e-6
    labels = host(dynstore.weakly_connected_components(graph))["labels"]
    parts = nx.connected_components(nx.Graph(mirror))
    assert {frozenset(part) for part in labels.groupby(labels).groups.values()} == {frozenset(part) for part in parts}
    central = host(dynstore.betweenness_centrality(graph))["betweenness_centrality"]
    np.testing.assert_allclose(central, column(nx.betweenness_centrality(mirror)), atol=1e-12)
    if not graph.is_directed():
        without_loops = nx.Graph((u, v) for u, v in mirror.edges if u != v)
        without_loops.add_nodes_from(everyone)
        assert host(dynstore.triangle_count(graph))["counts"].tolist() == column(nx.triangles(without_loops)).tolist()


@pytest.mark.parametrize("weighted", [True, False])
def test_graph_without_vertices(device: str, weighted: bool) -> None:
    graph = dynstore.DynamicGraph(directed=False, weighted=weighted, device=device)
    rank = np.float32
    check_frame(dynstore.pagerank(graph), vertex="int32", pagerank=rank)
    assert dynstore.pagerank(graph, fail_on_nonconvergence=False)[1] is True
    check_frame(dynstore.triangle_count(graph), vertex="int32", counts="int32")
    check_frame(dynstore.weakly_connected_components(graph), vertex="int32", labels="int32")
    check_frame(dynstore.betweenness_centrality(graph), vertex="int32", betweenness_centrality="float64")
    with pytest.raises(InputError, match="the graph has 0 vertices"):
        dynstore.bfs(graph, 0)


@pytest.mark.parametrize("num_vertices", [1, 2])
@pytest.mark.parametrize("endpoints", [True, False])
def test_betweenness_of_tiny_graphs_is_a_number(device: str, num_vertices: int, endpoints: bool) -> None:
    graph = dynstore.DynamicGraph(directed=False, device=device)
    graph.insert_vertices([num_vertices - 1])
    values = host(dynstore.betweenness_centrality(graph, endpoints=endpoints))["betweenness_centrality"]
    assert values.tolist() == [0.0] * num_vertices


SIGNATURES = {
    "bfs": "G start=None depth_limit=None i_start=None directed=None return_predecessors=True",
    "sssp": "G source=None method=None directed=None return_predecessors=None unweighted=None overwrite=None "
    "indices=None cutoff=None",
    "pagerank": "G alpha=0.85 personalization=None precomputed_vertex_out_weight=None max_iter=100 tol=1e-05 "
    "nstart=None dangling=None fail_on_nonconvergence=True warm_start=False",
    "triangle_count": "G start_list=None",
    "weakly_connected_components": "G directed=None connection=None return_labels=None",
    "betweenness_centrality": "G k=None normalized=True weight=None endpoints=False seed=None random_state=None "
    "result_dtype=<class 'numpy.float64'>",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_cugraph(name: str) -> None:
    parameters = inspect.signature(getattr(dynstore, name)).parameters.values()
    parts = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters]
    assert " ".join(parts) == SIGNATURES[name]
