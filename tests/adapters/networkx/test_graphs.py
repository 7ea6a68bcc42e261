"""The graph classes: NetworkX's own class tests pass, and their stores follow every change without being made again."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import networkx as nx
import numpy as np
import pytest
from networkx.classes.tests.test_digraph import TestDiGraph as DiGraphTests
from networkx.classes.tests.test_digraph import TestEdgeSubgraph as DiGraphEdgeSubgraphTests
from networkx.classes.tests.test_graph import TestEdgeSubgraph as GraphEdgeSubgraphTests
from networkx.classes.tests.test_graph import TestGraph as GraphTests

import dynstore
from dynstore.adapters import networkx as adapter
from dynstore.errors import InputTypeError
from tests.adapters.networkx.nx_backend import as_ours, register, shuffled_graph
from tests.crossed import thorough

register()

BOTH = pytest.mark.parametrize("directed", [False, True], ids=["graph", "digraph"])


def ours_of(directed: bool) -> type:
    return adapter.DiGraph if directed else adapter.Graph


# ------------------------------------------------------------------ NetworkX's class tests


class _Ours:
    """Turns the graphs that NetworkX's tests set up into ours, with a store that already follows them."""

    def setup_method(self) -> None:
        super().setup_method()  # type: ignore[misc]
        self.Graph = ours_of(self.K3.is_directed())
        for name, value in list(vars(self).items()):
            if isinstance(value, nx.Graph):
                ours = as_ours(value)
                ours._current_store().ranked_edges()
                ours._current_store().unweighted()
                setattr(self, name, ours)

    def teardown_method(self) -> None:
        for value in vars(self).values():
            if isinstance(value, nx.Graph) and len(value):
                compare(value)


class TestGraph(_Ours, GraphTests):
    pass


class TestDiGraph(_Ours, DiGraphTests):
    pass


class TestGraphEdgeSubgraph(GraphEdgeSubgraphTests):
    def setup_method(self) -> None:
        super().setup_method()
        self.G = as_ours(self.G)
        self.H = self.G.edge_subgraph([(0, 1), (3, 4)])


class TestDiGraphEdgeSubgraph(DiGraphEdgeSubgraphTests):
    def setup_method(self) -> None:
        super().setup_method()
        self.G = as_ours(self.G)
        self.H = self.G.edge_subgraph([(0, 1), (3, 4)])


# ------------------------------------------------------------------ updates instead of rebuilds


def compare(G: nx.Graph) -> None:
    """Compare what depends on edges, on weights and on the order of rows with NetworkX on the same dicts."""
    view = adapter.backend.convert_to_nx(G)
    assert type(view) in (nx.Graph, nx.DiGraph)
    for node in list(G)[:: max(1, len(G) // 3)]:
        assert list(nx.bfs_edges(G, node)) == list(nx.bfs_edges(view, node))
        assert list(nx.bfs_edges(G, node, reverse=True)) == list(nx.bfs_edges(view, node, reverse=True))
        assert nx.single_source_dijkstra(G, node) == nx.single_source_dijkstra(view, node)
        options = {"target": node, "weight": "weight"}
        assert nx.shortest_path(G, **options) == nx.shortest_path(view, **options)
    name = "weakly_connected_components" if G.is_directed() else "connected_components"
    assert list(getattr(nx, name)(G)) == list(getattr(nx, name)(view))
    assert nx.betweenness_centrality(G) == pytest.approx(nx.betweenness_centrality(view), rel=1e-12, abs=1e-15)
    assert nx.degree_centrality(G) == nx.degree_centrality(view)
    if len(G):
        assert nx.pagerank(G) == pytest.approx(nx.pagerank(view), abs=1e-12)
    if not G.is_directed():
        assert nx.clustering(G) == nx.clustering(view)


def test_the_second_call_updates_the_store() -> None:
    G = adapter.Graph()
    G.add_weighted_edges_from((i, (i * 7 + 3) % 200, 1 + i % 5) for i in range(200))
    first = nx.single_source_dijkstra_path_length(G, 0)
    store, followed = adapter.store_of(G, "weight"), G._store
    version, built = store.version, followed.rows["built"]
    assert built == G.number_of_edges()

    G.add_edge(0, 100, weight=1)
    G.add_edges_from([(100, "new", {"weight": 2}), (0, 3, {"weight": 5})])
    G.remove_edge(1, 10)
    second = nx.single_source_dijkstra_path_length(G, 0)
    assert second["new"] == 3
    assert first != second
    assert adapter.store_of(G, "weight") is store
    assert G._store is followed
    assert followed.rows == {"built": built, "inserted": 3, "deleted": 1}
    assert store.version == version + 3  # vertices, a deletion, an insertion
    assert second == nx.single_source_dijkstra_path_length(nx.Graph(G), 0, backend="networkx")

    nx.single_source_dijkstra_path_length(G, 0)
    assert store.version == version + 3


def test_an_edge_that_comes_and_goes_is_one_row() -> None:
    G = adapter.Graph([(0, 1), (1, 2), (2, 3)])
    nx.is_connected(G)
    for _ in range(10):
        G.add_edge(0, 3)
        G.remove_edge(3, 0)
        G.remove_edge(1, 2)
        G.add_edge(2, 1)
    assert nx.is_connected(G)
    assert G._store.rows == {"built": 3, "deleted": 1, "inserted": 1}


def _random_changes(G: nx.Graph, H: nx.Graph, rng: np.random.Generator) -> None:
    """Change both graphs alike, by every method that changes a graph."""
    nodes = list(G)
    if not nodes:
        G.add_edges_from([(0, 1), (1, 2)]), H.add_edges_from([(0, 1), (1, 2)])
        return
    some = [nodes[k] for k in rng.permutation(len(nodes))[: int(rng.integers(1, 8))]]
    edges = list(G.edges)
    chosen = [edges[k] for k in rng.permutation(len(edges))[: int(rng.integers(0, 10))]]
    pairs = [(some[i % len(some)], int(rng.integers(100, 140)) if rng.random() < 0.3 else some[-1]) for i in range(6)]
    weight = int(rng.integers(1, 5))
    choice = int(rng.integers(14))
    calls: list[Callable[[nx.Graph], Any]] = [
        lambda g: g.add_edge(*pairs[0], weight=weight),
        lambda g: g.add_edges_from(pairs, weight=weight),
        lambda g: g.add_edges_from([(u, v, {"weight": weight}) for u, v in pairs]),
        lambda g: g.add_weighted_edges_from([(u, v, 2) for u, v in chosen]),
        lambda g: g.update(edges=pairs, nodes=some),
        lambda g: g.add_node(int(rng_node), colour="red"),
        lambda g: g.add_nodes_from([rng_node + 1, (rng_node + 2, {"x": 1}), *some]),
        lambda g: g.remove_edges_from([*chosen, *pairs]),
        lambda g: [g.remove_edge(*edge) for edge in chosen],
        lambda g: g.remove_nodes_from([*some[:2], "nobody"]),
        lambda g: g.remove_node(some[0]),
        lambda g: (g.remove_node(some[0]), g.add_edge(some[0], some[-1])),
        lambda g: (g.remove_edges_from(chosen), g.add_edges_from(reversed(chosen))),
        lambda g: [g.add_edge(u, v, weight=weight) for u, v in chosen],
    ]
    rng_node = int(rng.integers(200, 300))
    calls[choice](G)
    calls[choice](H)


@BOTH
@pytest.mark.parametrize("seed", [*range(6), *map(thorough, range(6, 12))])
def test_any_changes_are_followed_without_a_rebuild(seed: int, directed: bool) -> None:
    rng = np.random.default_rng(seed)
    H = shuffled_graph(rng, directed, [1, 2, 3], nodes=40, edges=90)
    G = as_ours(H)
    compare(G)
    followed, store, built = G._store, adapter.store_of(G, "weight"), G._store.rows["built"]
    for step in range(30):
        _random_changes(G, H, rng)
        if step == 14:
            G.clear_edges(), H.clear_edges()
        if step == 20:
            G.clear(), H.clear()
            G.add_edges_from([(0, 1), (1, 2), ("a", 0)]), H.add_edges_from([(0, 1), (1, 2), ("a", 0)])
        assert nx.utils.graphs_equal(G, H)
        if rng.random() < 0.5:
            compare(G)
    compare(G)
    assert G._store is followed
    assert adapter.store_of(G, "weight") is store
    assert followed.rows["built"] == built
    assert followed.rows["inserted"] > 0


@BOTH
def test_removed_nodes_are_in_no_result(directed: bool) -> None:
    G = ours_of(directed)((i, j) for i in range(30) for j in range(i + 1, 30, 4))
    compare(G)
    G.remove_nodes_from(range(0, 30, 2))
    compare(G)
    assert set(nx.pagerank(G)) == set(range(1, 30, 2))
    assert sum(nx.pagerank(G).values()) == pytest.approx(1)
    G.add_edge(2, 1)  # stands at the end now
    compare(G)
    assert list(nx.pagerank(G))[-1] == 2


def test_a_store_of_mostly_removed_nodes_is_made_again() -> None:
    G = adapter.Graph((i, i + 1) for i in range(3000))
    nx.is_connected(G)
    followed = G._store
    G.remove_nodes_from(range(2500))
    assert nx.number_connected_components(G) == 1
    assert G._store is not followed
    assert len(G._store.nodes) == len(G)


# ------------------------------------------------------------------ changes that are not logged


def change_by_set_edge_attributes(G: nx.Graph) -> None:
    nx.set_edge_attributes(G, 10, "weight")


def change_by_new_dicts(G: nx.Graph) -> None:
    other = nx.path_graph(4, create_using=type(G)())
    G._node, G._adj = other._node, other._adj
    if G.is_directed():
        G._pred = other._pred


def change_and_fail(G: nx.Graph) -> None:
    with pytest.raises(nx.NetworkXError, match="must be a 2-tuple"):
        G.add_edges_from([(0, 2), (1, 3), (1, 2, 3, 4)])
    with pytest.raises(ValueError, match="None cannot be a node"):
        G.add_edge("left", None)


def change_by_clearing_the_cache(G: nx.Graph) -> None:
    G[0][1]["weight"] = 50
    G.__networkx_cache__.clear()


@BOTH
@pytest.mark.parametrize(
    "change", [change_by_set_edge_attributes, change_by_new_dicts, change_and_fail, change_by_clearing_the_cache]
)
def test_changes_that_are_not_logged_make_a_new_store(change: Callable[[nx.Graph], None], directed: bool) -> None:
    G = ours_of(directed)([(0, 1), (1, 2), (2, 3), (3, 0)])
    compare(G)
    followed = G._store
    change(G)
    compare(G)
    assert G._store is not followed


def test_what_is_refused_changes_nothing_and_costs_no_rebuild() -> None:
    G = adapter.DiGraph([(0, 1), (1, 2)])
    compare(G)
    followed = G._store
    with pytest.raises(nx.NetworkXError):
        G.remove_edge(1, 0)
    with pytest.raises(nx.NetworkXError):
        G.remove_node("nobody")
    compare(G)
    assert G._store is followed


def test_a_weight_that_is_no_number_and_then_is() -> None:
    G = adapter.Graph([(0, 1), (1, 2)])
    compare(G)
    G.add_edge(0, 2, weight="heavy")
    assert nx.number_connected_components(G) == 1
    with pytest.raises(TypeError):
        nx.dijkstra_path_length(G, 0, 2)  # NetworkX's own error
    G.add_edge(0, 2, weight=3.5)
    assert nx.dijkstra_path_length(G, 0, 2) == 2
    G.remove_edge(0, 1)
    assert nx.dijkstra_path_length(G, 0, 1) == 4.5


def test_an_update_that_fails_leaves_no_half_updated_store(monkeypatch: pytest.MonkeyPatch) -> None:
    G = adapter.Graph([(0, 1), (1, 2)])
    compare(G)
    G.add_edge(0, 5)

    def fail(*args: Any, **kwargs: Any) -> None:
        raise dynstore.errors.OutOfMemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(dynstore.DynamicGraph, "insert_edges", fail)
        with pytest.raises(dynstore.errors.OutOfMemoryError):
            nx.is_connected(G)
    compare(G)


# ------------------------------------------------------------------ being a NetworkX graph


@BOTH
def test_copies_pickles_and_conversions(directed: bool) -> None:
    G = as_ours(shuffled_graph(np.random.default_rng(2), directed, [1, 2]))
    compare(G)
    for twin in (G.copy(), deepcopy(G), pickle.loads(pickle.dumps(G)), G.subgraph(list(G)[:9]).copy(), G.to_directed()):
        assert isinstance(twin, (adapter.Graph, adapter.DiGraph))
        assert twin._store is None
        twin.add_edge("a", "b")
        compare(twin)
    assert "a" not in G
    assert type(G.to_undirected()) is adapter.Graph
    assert type(nx.Graph(G)) is nx.Graph


@BOTH
def test_views_are_read_as_they_are(directed: bool) -> None:
    G = as_ours(shuffled_graph(np.random.default_rng(5), directed, [1, 2]))
    view = nx.subgraph_view(G, filter_node=lambda node: node != "n1")
    compare(view)
    G.add_edge("x", next(iter(view)))
    compare(view)
    if directed:
        turned = G.reverse(copy=False)
        compare(turned)
        G.remove_node("x")
        compare(turned)


def test_caching_can_be_turned_off() -> None:
    G = adapter.Graph([(0, 1)])
    G.__networkx_cache__ = None
    assert nx.number_connected_components(G) == 1
    G._adj[0].clear(), G._adj[1].clear()
    assert nx.number_connected_components(G) == 2
    assert G._store is None


@pytest.mark.skipif(not hasattr(nx.Graph.__new__, "__wrapped__"), reason="NetworkX makes backends' classes from 3.6 on")
def test_networkx_makes_the_classes() -> None:
    assert type(nx.Graph([(0, 1)], backend="dynstore", name="it")) is adapter.Graph
    assert type(nx.DiGraph(backend="dynstore")) is adapter.DiGraph
    assert nx.Graph([(0, 1)], backend="dynstore", name="it").graph == {"name": "it"}

    class Mine(nx.Graph):
        pass

    assert type(Mine(backend="dynstore")) is Mine
    assert repr(adapter.Graph) == "<class 'dynstore.adapters.networkx.Graph'>"
    with pytest.raises(AttributeError, match="no attribute 'MultiGraph'"):
        _ = adapter.MultiGraph


def test_the_store_can_be_asked_for() -> None:
    G = adapter.DiGraph([("a", "b", {"cost": 2.5}), ("b", "c")])
    assert adapter.store_of(G).number_of_edges() == 2
    assert not adapter.store_of(G).is_weighted()
    weighted = adapter.store_of(G, "cost")
    assert weighted.edge_weights(([0, 1], [1, 2])).tolist() == [2.5, 1.0]
    G.add_edge("c", "a")
    assert adapter.store_of(G, "cost") is weighted
    assert weighted.number_of_edges() == 3
    assert dynstore.weakly_connected_components(weighted)["labels"].to_numpy().tolist() == [0, 0, 0]
    with pytest.raises(InputTypeError, match="wanted a graph that was converted"):
        adapter.store_of(nx.Graph())
