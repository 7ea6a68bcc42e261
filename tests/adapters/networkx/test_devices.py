"""The NetworkX backend on every device under test: the option is honoured, the results are NetworkX's."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import numpy as np
import pytest

from dynstore.adapters import networkx as adapter
from tests.adapters.networkx.nx_backend import as_ours, plain, register, shuffled_graph

register()


@pytest.fixture(autouse=True)
def on_device(backend_name: str) -> Iterator[str]:
    with nx.config.backends.dynstore(device=backend_name):
        yield backend_name


def check(G: nx.Graph) -> None:
    """Run one function of every kernel on a ``dynstore`` graph, and NetworkX's on its dicts."""
    view = adapter.backend.convert_to_nx(G)
    for node in list(G)[:1]:
        assert plain(nx.bfs_edges(G, node)) == plain(nx.bfs_edges(view, node))
        assert plain(nx.single_target_shortest_path(G, node)) == plain(nx.single_target_shortest_path(view, node))
        assert nx.single_source_dijkstra(G, node) == nx.single_source_dijkstra(view, node)
        assert nx.shortest_path(G, target=node, weight="weight") == nx.shortest_path(view, target=node, weight="weight")
    assert nx.pagerank(G) == pytest.approx(nx.pagerank(view), abs=1e-12)
    assert nx.betweenness_centrality(G) == pytest.approx(nx.betweenness_centrality(view), rel=1e-9, abs=1e-15)
    assert nx.degree_centrality(G) == nx.degree_centrality(view)
    if G.is_directed():
        assert plain(nx.weakly_connected_components(G)) == plain(nx.weakly_connected_components(view))
    else:
        assert plain(nx.connected_components(G)) == plain(nx.connected_components(view))
        assert nx.clustering(G) == nx.clustering(view)
        assert nx.transitivity(G) == nx.transitivity(view)


@pytest.mark.parametrize("directed", [False, True], ids=["graph", "digraph"])
def test_results_and_updates(directed: bool, on_device: str) -> None:
    G = as_ours(shuffled_graph(np.random.default_rng(11), directed, [1, 2, 0.5], nodes=9, edges=14))
    check(G)
    store = adapter.store_of(G, "weight")
    assert store.device == on_device
    nodes = list(G)
    G.remove_edges_from(list(G.edges)[::4])
    G.remove_node(nodes[1])
    G.add_weighted_edges_from([(nodes[0], "new", 3), ("new", nodes[2], 1), (nodes[2], nodes[2], 1)])
    check(G)
    assert adapter.store_of(G, "weight") is store


def test_a_converted_graph(on_device: str) -> None:
    G = nx.krackhardt_kite_graph()
    assert nx.triangles(G, backend="dynstore") == nx.triangles(G, backend="networkx")
    (converted,) = G.__networkx_cache__["backends"]["dynstore"].values()
    assert converted.structure().device == on_device


def test_a_graph_without_edges_and_one_without_nodes() -> None:
    for n in (0, 1, 3):
        G = as_ours(nx.empty_graph(n))
        assert plain(nx.connected_components(G)) == [{node} for node in range(n)]
        assert nx.triangles(G) == dict.fromkeys(range(n), 0)
        assert nx.clustering(G) == dict.fromkeys(range(n), 0)
        assert nx.transitivity(G) == 0
        assert nx.betweenness_centrality(G) == dict.fromkeys(range(n), 0.0)
        assert nx.pagerank(G) == pytest.approx(dict.fromkeys(range(n), 1 / max(n, 1)))
        assert nx.degree_centrality(G) == dict.fromkeys(range(n), 0.0 if n > 1 else 1)
        for node in range(n):
            assert nx.single_source_dijkstra(G, node) == ({node: 0}, {node: [node]})
