"""Changes of the graph classes between calls: the order of rows, refused changes, copies that share nothing."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest

from dynstore.adapters import networkx as adapter
from dynstore.adapters.networkx.graphs import FollowedGraph
from tests.adapters.networkx.nx_backend import as_ours, plain, register, shuffled_graph

register()

CLASSES = [(nx.Graph, adapter.Graph), (nx.DiGraph, adapter.DiGraph)]
BOTH = pytest.mark.parametrize(("theirs", "ours"), CLASSES, ids=["graph", "digraph"])


def searches(G: nx.Graph, source: Any) -> list[Any]:
    """Return what depends on the order of the rows."""
    return [
        list(nx.bfs_edges(G, source)),
        plain(nx.single_source_shortest_path(G, source)),
        plain(nx.single_target_shortest_path(G, source)),
        plain(nx.predecessor(G, source)),
    ]


# ------------------------------------------------------------------ the order of the rows


@BOTH
def test_an_order_that_is_asked_for_late_is_networkx_order(theirs: type, ours: type) -> None:
    def run(G: nx.Graph) -> list[Any]:
        G.add_edge(0, 1)
        nx.pagerank(G)  # makes the store; nothing needs the order yet
        G.add_edges_from([(0, 2), (0, 3), (0, 4), (0, 9), (2, 9)])
        nx.pagerank(G)
        first = searches(G, 0)
        G.add_edge(4, 2)  # the last edge of its rows
        return [*first, *searches(G, 4)]

    assert run(ours()) == run(theirs())


@BOTH
@pytest.mark.parametrize("seed", range(20))
def test_the_order_follows_additions_between_any_calls(seed: int, theirs: type, ours: type) -> None:
    rng = np.random.default_rng(seed)
    G, H = ours(), theirs()
    for _ in range(12):
        edges = rng.integers(0, 14, (int(rng.integers(1, 9)), 2)).tolist()
        for graph in (G, H):
            graph.add_edges_from(edges)
            graph.remove_edges_from(edges[::4])
        if rng.random() < 0.4:
            assert nx.number_of_nodes(G) == len(nx.pagerank(G))  # updates the store, and needs no order
        if rng.random() < 0.4:
            source = edges[0][0]
            assert searches(G, source) == searches(H, source)


# ------------------------------------------------------------------ changes that are refused

REFUSED: dict[str, Callable[[nx.Graph], Any]] = {
    "add_edge(None, 5)": lambda G: G.add_edge(None, 5),
    "add_edge(5, None)": lambda G: G.add_edge(5, None),
    "add_edge([], 5)": lambda G: G.add_edge([], 5),
    "add_edges_from((5, None))": lambda G: G.add_edges_from([(0, 3), (5, None), (6, 7)]),
    "add_edges_from((5,))": lambda G: G.add_edges_from([(0, 3), (5,)]),
    "add_edges_from(4-tuple)": lambda G: G.add_edges_from([(0, 3), (5, 6, 7, 8)]),
    "add_edges_from(3-tuple without a dict)": lambda G: G.add_edges_from([(0, 3), (5, 6, 7)]),
    "add_edges_from(number)": lambda G: G.add_edges_from([(0, 3), 5]),
    "add_weighted_edges_from(pair)": lambda G: G.add_weighted_edges_from([(0, 3, 1.5), (5, 6)]),
    "add_node(None)": lambda G: G.add_node(None),
    "add_nodes_from([8, None])": lambda G: G.add_nodes_from([8, None]),
    "remove_node(8)": lambda G: G.remove_node(8),
    "remove_nodes_from([1, []])": lambda G: G.remove_nodes_from([1, []]),
    "remove_edge(0, 8)": lambda G: G.remove_edge(0, 8),
    "remove_edges_from([(0, 1), 5])": lambda G: G.remove_edges_from([(0, 1), 5]),
    "update(edges=[(0, 3), None])": lambda G: G.update(edges=[(0, 3), None]),
}
NEXT: dict[str, Callable[[nx.Graph], Any]] = {
    "add_nodes_from": lambda G: G.add_nodes_from([7]),
    "add_node": lambda G: G.add_node(7),
    "add_edge": lambda G: G.add_edge(5, 1),
    "add_edges_from": lambda G: G.add_edges_from([(5, 6), (6, 2)]),
    "remove_nodes_from": lambda G: G.remove_nodes_from([5, 2]),
    "remove_last_node": lambda G: G.remove_node(list(G)[-1]),
    "remove_edges_from": lambda G: G.remove_edges_from([(0, 3), (1, 2)]),
    "clear": lambda G: (G.clear(), G.add_edges_from([(0, 1), (3, 1)])),
}


@BOTH
@pytest.mark.parametrize("after", NEXT)
@pytest.mark.parametrize("refused", REFUSED)
def test_a_refused_change_leaves_the_graph_as_networkx_does(refused: str, after: str, theirs: type, ours: type) -> None:
    def run(G: nx.Graph) -> tuple[Any, ...]:
        G.add_edges_from([(0, 1), (1, 2), (2, 0)])
        nx.pagerank(G), searches(G, 0)
        with pytest.raises((ValueError, TypeError, nx.NetworkXError)) as raised:
            REFUSED[refused](G)
        left = plain(G)
        NEXT[after](G)
        return (
            type(raised.value),
            left,
            plain(G),
            [searches(G, node) for node in G],
            nx.is_weakly_connected(G.to_directed()),
        )

    assert run(ours()) == run(theirs())


# ------------------------------------------------------------------ copies

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda G: pickle.loads(pickle.dumps(G)),
    "G.copy": lambda G: G.copy(),
}


@BOTH
@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
def test_a_copy_is_equal_and_independent(how: str, used: bool, theirs: type, ours: type) -> None:
    H = shuffled_graph(np.random.default_rng(5), issubclass(ours, nx.DiGraph), [1, 2, 3])
    H.graph["name"], H.nodes["n1"]["colour"] = "it", "red"
    G = as_ours(H)
    G.graph.update(H.graph)
    if used:  # a store follows it, with changes that it has not seen yet
        searches(G, "n1"), list(G.edges), G.degree
        for graph in (G, H):
            graph.remove_node("n2")
            graph.add_edge("n1", "new", weight=5)
    twin = COPIES[how](G)
    assert type(twin) is type(G)
    assert nx.utils.graphs_equal(twin, G)
    assert list(twin) == list(G)
    kept = plain(G), plain(twin)

    twin.add_edge("x", "y")
    twin.remove_node("n1")
    twin.graph["name"] = "other"
    assert (plain(G), G.graph) == (kept[0], {"name": "it"})
    assert searches(G, "n1") == searches(H, "n1")
    changed = plain(twin)
    for graph in (G, H):
        graph.remove_node("n4")
        graph.add_edges_from([("n4", "n5"), ("a", "n1", {"weight": 2})])
    assert plain(twin) == changed
    truth = theirs()
    truth._node, truth._adj = twin._node, twin._adj
    if twin.is_directed():
        truth._pred = twin._pred
    for graph, same in ((G, H), (twin, truth)):
        assert [searches(graph, node) for node in graph] == [searches(same, node) for node in same]
        assert nx.pagerank(graph) == pytest.approx(nx.pagerank(same), abs=1e-12)


def test_copies_of_a_view_are_graphs() -> None:
    G = adapter.Graph([(0, 1), (1, 2), (2, 3)])
    view = G.subgraph([0, 1, 3])
    twin = copy.copy(view)
    assert isinstance(twin, FollowedGraph)
    twin.add_edge(1, 3)
    assert nx.number_connected_components(twin) == 1
    assert nx.number_connected_components(view) == 2
    assert list(G.edges) == [(0, 1), (1, 2), (2, 3)]
