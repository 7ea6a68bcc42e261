"""The functions of the NetworkX backend against NetworkX: results, their order and types, errors, refusals."""

from __future__ import annotations

import math
import warnings
from typing import Any

import networkx as nx
import numpy as np
import pytest

from dynstore.adapters import networkx as adapter
from dynstore.adapters.networkx.convert import convert_from_nx
from tests.adapters.networkx.nx_backend import plain, register, shuffled_graph, types_of
from tests.crossed import crossed

register()

SEEDS = range(6)
INTS, FLOATS, ZEROS = [1, 2, 3], [0.25, 0.5, 0.1, 0.30000000000000004], [0, 0, 1, 2]
WEIGHTS = {"ints": INTS, "floats": FLOATS, "zeros": ZEROS, "none": None}
DICT_ORDER_MAY_DIFFER = ("_length", "dijkstra_predecessor_and_distance")
RELEASE = tuple(map(int, nx.__version__.split(".")[:2]))
# Before 3.6 the paths of the Dijkstra family stood in order of discovery.
PATHS_ARE_IN_ORDER = RELEASE >= (3, 6)


def both(name: str, G: nx.Graph, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Run a function with NetworkX and with the backend; check that the backend ran; return both results."""
    function = getattr(nx, name)
    before = adapter.calls[name]
    ours = function(G, *args, backend="dynstore", **kwargs)
    ours = list(ours) if hasattr(ours, "__next__") else ours
    assert adapter.calls[name] == before + 1
    theirs = function(G, *args, backend="networkx", **kwargs)
    return ours, list(theirs) if hasattr(theirs, "__next__") else theirs


def agree(name: str, G: nx.Graph, *args: Any, **kwargs: Any) -> None:
    """Check that results are equal: values, types, and the order of everything but dicts of lengths."""
    ours, theirs = both(name, G, *args, **kwargs)
    if isinstance(theirs, nx.Graph):
        assert type(ours) is type(theirs)
        assert list(ours) == list(theirs)
    elif any(part in name for part in DICT_ORDER_MAY_DIFFER) or not (
        PATHS_ARE_IN_ORDER or (kwargs.get("weight") is None and "dijkstra" not in name)
    ):
        assert ours == theirs
        assert types_of(ours) == types_of(theirs)
        return
    assert plain(ours) == plain(theirs)
    assert types_of(ours) == types_of(theirs)


# ------------------------------------------------------------------ searches


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_breadth_first_searches_keep_the_order(seed: int, directed: bool) -> None:
    G = shuffled_graph(np.random.default_rng(seed), directed)
    for source in list(G)[::5]:
        for limit in (None, 0, 1, 2.5, -1):
            agree("bfs_edges", G, source, depth_limit=limit)
            agree("bfs_edges", G, source, reverse=True, depth_limit=limit)
            agree("generic_bfs_edges", G, source, depth_limit=limit)
            agree("bfs_tree", G, source, reverse=directed, depth_limit=limit)
            agree("bfs_successors", G, source, depth_limit=limit)
        agree("bfs_layers", G, source)
        for distance in (0, 1, 2, 50, 1.5, -1):
            agree("descendants_at_distance", G, source, distance)
    agree("bfs_layers", G, list(G)[3:6])
    agree("bfs_layers", G, [])


@pytest.mark.skipif(not hasattr(nx, "bfs_predecessors"), reason="NetworkX 3.9 has none")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_predecessors_keep_the_order_and_warn_where_networkx_does(seed: int, directed: bool) -> None:
    G = shuffled_graph(np.random.default_rng(seed), directed)
    for source in list(G)[::5]:
        for limit in (None, 0, 1, 2.5, -1):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                agree("bfs_predecessors", G, source, depth_limit=limit)
            told = [(warning.category, str(warning.message), warning.filename) for warning in caught]
            assert told[: len(told) // 2] == told[len(told) // 2 :]
            assert len(told) == 2 * (RELEASE >= (3, 7))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_unweighted_paths(seed: int, directed: bool) -> None:
    G = shuffled_graph(np.random.default_rng(seed), directed)
    nodes = list(G)
    for cutoff in (None, 0, 1, 1.5, 3, -2, float("inf")):
        agree("single_source_shortest_path", G, nodes[2], cutoff=cutoff)
        agree("single_target_shortest_path", G, nodes[2], cutoff=cutoff)
        agree("single_source_shortest_path_length", G, nodes[2], cutoff=cutoff)
        agree("single_target_shortest_path_length", G, nodes[2], cutoff=cutoff)
        agree("all_pairs_shortest_path", G, cutoff=cutoff)
        agree("all_pairs_shortest_path_length", G, cutoff=cutoff)
        agree("predecessor", G, nodes[2], cutoff=cutoff)
    agree("predecessor", G, nodes[2], nodes[9])
    agree("predecessor", G, nodes[2], return_seen=True)
    agree("predecessor", G, nodes[2], nodes[9], return_seen=True)
    agree("shortest_path", G)
    agree("shortest_path", G, source=nodes[1])
    agree("shortest_path", G, target=nodes[1])
    agree("shortest_path_length", G)
    agree("shortest_path_length", G, source=nodes[1])
    agree("shortest_path_length", G, target=nodes[1])
    for node in nodes[::4]:
        agree("has_path", G, nodes[0], node)
        if nx.has_path(G, nodes[0], node):
            agree("shortest_path_length", G, nodes[0], node)


@crossed(seed=SEEDS, kind=list(WEIGHTS), directed=[False, True])
def test_weighted_paths(seed: int, kind: str, directed: bool) -> None:
    weights = WEIGHTS[kind]
    G = shuffled_graph(np.random.default_rng(seed), directed, weights)
    if weights is FLOATS:
        nx.set_edge_attributes(G, {edge: float(G.edges[edge].get("weight", 1.0)) for edge in G.edges}, "weight")
    nodes = list(G)
    for weight in ("weight", "other", None):
        for cutoff in (None, 0, 1.5, 2, 3, float("inf")):
            agree("single_source_dijkstra", G, nodes[4], cutoff=cutoff, weight=weight)
            agree("single_source_dijkstra_path", G, nodes[4], cutoff=cutoff, weight=weight)
            agree("single_source_dijkstra_path_length", G, nodes[4], cutoff=cutoff, weight=weight)
            agree("dijkstra_predecessor_and_distance", G, nodes[4], cutoff=cutoff, weight=weight)
        agree("shortest_path", G, source=nodes[1], weight=weight)
        agree("shortest_path", G, target=nodes[1], weight=weight)
        agree("shortest_path_length", G, source=nodes[1], weight=weight)
        agree("shortest_path_length", G, target=nodes[1], weight=weight)
    agree("all_pairs_dijkstra_path", G)
    agree("all_pairs_dijkstra_path_length", G)
    agree("all_pairs_dijkstra", G)
    agree("shortest_path", G, weight="weight")
    agree("shortest_path_length", G, weight="weight")
    for node in nodes[::4]:
        if nx.has_path(G, nodes[4], node):
            agree("dijkstra_path", G, nodes[4], node)
            agree("dijkstra_path_length", G, nodes[4], node)
            agree("single_source_dijkstra", G, nodes[4], node)
            agree("shortest_path_length", G, nodes[4], node, weight="weight")


def test_a_long_path_and_a_wide_star_give_the_same_order() -> None:
    """Narrow searches are put in order vertex by vertex, wide ones by whole levels."""
    rng = np.random.default_rng(1)
    wide = nx.Graph()
    wide.add_edges_from(rng.integers(0, 2000, (9000, 2)).tolist())
    for G in (nx.path_graph(3000), wide, nx.star_graph(2000)):
        agree("bfs_edges", G, 5)
    agree("single_source_shortest_path", wide, 7)
    agree("single_source_shortest_path", nx.path_graph(200), 7)


def test_mixed_weights_give_equal_distances() -> None:
    G = nx.Graph([(0, 1, {"weight": 2}), (1, 2, {"weight": 0.5}), (2, 3)])
    ours, theirs = both("single_source_dijkstra_path_length", G, 0)
    assert ours == theirs == {0: 0, 1: 2, 2: 2.5, 3: 3.5}
    assert [type(value) for value in ours.values()] == [int, float, float, float]  # NetworkX: 2 is an int


# ------------------------------------------------------------------ the others


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_pagerank(seed: int, directed: bool) -> None:
    rng = np.random.default_rng(seed)
    G = shuffled_graph(rng, directed, FLOATS)
    some = {node: float(rng.random()) for node in list(G)[::3]}
    for options in (
        {},
        {"alpha": 0.5, "tol": 1e-12, "max_iter": 500},
        {"weight": None},
        {"personalization": some},
        {"personalization": some, "dangling": dict(some)},
        {"nstart": some, "tol": 1e-10, "max_iter": 1000},
        {"personalization": {**some, "nobody": 3.0}},
    ):
        ours, theirs = both("pagerank", G, **options)
        assert list(ours) == list(theirs)
        assert max(abs(ours[node] - theirs[node]) for node in G) < 1e-13
        assert set(map(type, ours.values())) == {float}


def test_pagerank_fails_as_networkx_does() -> None:
    G = nx.karate_club_graph()
    for options, error in (
        ({"max_iter": 1}, nx.PowerIterationFailedConvergence),
        ({"max_iter": 0}, nx.PowerIterationFailedConvergence),
        ({"personalization": {0: 0}}, ZeroDivisionError),
    ):
        for backend in ("dynstore", "networkx"):
            with pytest.raises(error):
                nx.pagerank(G, backend=backend, **options)
    assert nx.pagerank(nx.Graph(), backend="dynstore") == {}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_betweenness(seed: int, directed: bool) -> None:
    G = shuffled_graph(np.random.default_rng(seed), directed)
    for normalized in (True, False):
        for endpoints in (True, False):
            for k in (None, 2, 5, len(G)):
                ours, theirs = both("betweenness_centrality", G, k, normalized, endpoints=endpoints, seed=7)
                assert list(ours) == list(theirs)
                assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-15)
                assert set(map(type, ours.values())) == {float}
    ours, theirs = both("betweenness_centrality", G, 1, seed=7)
    assert [value != value for value in ours.values()] == [value != value for value in theirs.values()]


def test_betweenness_of_hardly_anything() -> None:
    for n in range(4):
        for endpoints in (True, False):
            agree("betweenness_centrality", nx.path_graph(n), endpoints=endpoints)
    for backend in ("dynstore", "networkx"):
        with pytest.raises(ValueError, match=r"[Ss]ample"):
            nx.betweenness_centrality(nx.path_graph(3), k=4, backend=backend)


@pytest.mark.parametrize("seed", SEEDS)
def test_triangles_and_clustering(seed: int) -> None:
    rng = np.random.default_rng(seed)
    G = shuffled_graph(rng, False, edges=150)
    nodes = list(G)
    for chosen in (None, nodes[3], nodes[2:9], iter(nodes[4:6]), [*nodes[:2], "nobody"]):
        chosen = list(chosen) if hasattr(chosen, "__next__") else chosen
        agree("triangles", G, chosen)
        agree("clustering", G, chosen)
    for zeros in (True, False):
        agree("average_clustering", G, count_zeros=zeros)
        agree("average_clustering", G, nodes[:7], count_zeros=zeros)
    agree("transitivity", G)
    agree("transitivity", nx.path_graph(4))
    agree("transitivity", nx.Graph())


@pytest.mark.parametrize("seed", SEEDS)
def test_components(seed: int) -> None:
    rng = np.random.default_rng(seed)
    G, directed = shuffled_graph(rng, False, edges=18), shuffled_graph(rng, True, edges=18)
    agree("connected_components", G)
    agree("number_connected_components", G)
    agree("is_connected", G)
    agree("is_connected", nx.path_graph(5))
    agree("node_connected_component", G, list(G)[4])
    agree("weakly_connected_components", directed)
    agree("number_weakly_connected_components", directed)
    agree("is_weakly_connected", directed)
    agree("is_weakly_connected", nx.path_graph(5, create_using=nx.DiGraph))


def test_degree_centralities() -> None:
    G = shuffled_graph(np.random.default_rng(3), False)
    G.add_edge("n1", "n1")
    directed = shuffled_graph(np.random.default_rng(4), True)
    directed.add_edge("n1", "n1")
    for graph in (G, directed, nx.Graph(), nx.path_graph(1)):
        agree("degree_centrality", graph)
    agree("in_degree_centrality", directed)
    agree("out_degree_centrality", directed)


def test_empty_graphs() -> None:
    G, directed = nx.Graph(), nx.DiGraph()
    for name in ("connected_components", "number_connected_components", "all_pairs_shortest_path", "triangles"):
        agree(name, G)
    agree("number_weakly_connected_components", directed)
    for backend in ("dynstore", "networkx"):
        for graph, function in ((G, nx.is_connected), (directed, nx.is_weakly_connected)):
            with pytest.raises(nx.NetworkXPointlessConcept):
                function(graph, backend=backend)
        with pytest.raises(ZeroDivisionError):
            nx.average_clustering(G, backend=backend)


@pytest.mark.parametrize("kind", [nx.MultiGraph, nx.MultiDiGraph])
def test_multigraphs_where_parallel_edges_change_nothing(kind: type) -> None:
    G = kind([(0, 1, {"weight": 4}), (0, 1, {"weight": 2}), (1, 2), (0, 2, {"weight": 5}), (2, 3), (3, 3), (2, 3)])
    agree("bfs_edges", G, 0)
    agree("single_source_shortest_path", G, 0)
    agree("single_source_dijkstra", G, 0)
    agree("betweenness_centrality", G)
    agree("weakly_connected_components" if G.is_directed() else "connected_components", G)


# ------------------------------------------------------------------ errors and refusals

G_ERRORS = nx.Graph([(0, 1), (2, 3)])
D_ERRORS = nx.DiGraph(G_ERRORS)


@pytest.mark.parametrize("G", [G_ERRORS, D_ERRORS], ids=["graph", "digraph"])
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("bfs_edges", (9,)),
        ("bfs_tree", (9,)),
        ("bfs_layers", ([0, 9],)),
        ("descendants_at_distance", (9, 1)),
        ("single_source_shortest_path", (9,)),
        ("single_target_shortest_path_length", (9,)),
        ("predecessor", (9,)),
        ("has_path", (0, 9)),
        ("shortest_path", (9,)),
        ("shortest_path", (0, None, None, "sometimes")),
        ("shortest_path_length", (0, 3)),
        ("shortest_path_length", (0, 9)),
        ("shortest_path_length", (0, 3, "weight")),
        ("shortest_path_length", (9, 0, "weight")),
        ("single_source_dijkstra", (9,)),
        ("single_source_dijkstra", (0, 3)),
        ("dijkstra_path", (0, 9)),
        ("dijkstra_path_length", (0, 2)),
        ("dijkstra_predecessor_and_distance", (9,)),
    ],
)
def test_errors_are_those_of_networkx(name: str, args: tuple, G: nx.Graph) -> None:
    caught = []
    for backend in ("networkx", "dynstore"):
        with pytest.raises(Exception) as error:  # the two are compared
            list(getattr(nx, name)(G, *args, backend=backend))
        caught.append(error.value)
    assert type(caught[0]) is type(caught[1])
    assert str(caught[0]) == str(caught[1])


def test_an_unknown_node_has_no_component() -> None:
    for backend in ("networkx", "dynstore"):
        with pytest.raises(KeyError):
            nx.node_connected_component(G_ERRORS, 9, backend=backend)
        with pytest.raises(nx.NetworkXError):
            nx.triangles(G_ERRORS, 9, backend=backend)


@pytest.mark.parametrize("directed", [False, True])
def test_distances_beyond_float64_are_infinite_not_missing(directed: bool) -> None:
    ours = (adapter.DiGraph if directed else adapter.Graph)()
    ours.add_weighted_edges_from([(0, 1, 1e308), (1, 2, 1e308), (2, 3, 1.0)])
    with nx.config(backend_priority=["dynstore"], fallback_to_nx=True):
        for G in (ours, nx.Graph(ours), nx.DiGraph(ours)):
            assert nx.dijkstra_path_length(G, 0, 3) == math.inf
            assert nx.dijkstra_path(G, 0, 3) == [0, 1, 2, 3]
            assert list(nx.single_source_dijkstra(G, 0)[0]) == [0, 1, 2, 3]


REFUSED = [
    ("bfs_edges", G_ERRORS, {"source": 0, "sort_neighbors": sorted}, "sort_neighbors"),
    ("generic_bfs_edges", G_ERRORS, {"source": 0, "neighbors": G_ERRORS.neighbors}, "neighbors is a function"),
    ("single_source_dijkstra", G_ERRORS, {"source": 0, "weight": lambda u, v, d: 1}, "weight is a function"),
    ("shortest_path", G_ERRORS, {"source": 0, "target": 1}, "from both ends"),
    ("shortest_path", G_ERRORS, {"source": 0, "weight": "w", "method": "bellman-ford"}, "bellman-ford"),
    ("pagerank", D_ERRORS, {"dangling": {0: 1}}, "dangling differs"),
    ("pagerank", nx.MultiGraph(G_ERRORS), {}, "multigraphs"),
    ("clustering", D_ERRORS, {}, "directed"),
    ("clustering", G_ERRORS, {"weight": "w"}, "weighted"),
    ("betweenness_centrality", G_ERRORS, {"weight": "w"}, "weighted"),
]


@pytest.mark.parametrize(("name", "G", "kwargs", "reason"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_is_not_offered_is_refused_with_a_reason(name: str, G: nx.Graph, kwargs: dict, reason: str) -> None:
    answer = adapter.backend.can_run(name, (G,), kwargs)
    assert isinstance(answer, str)
    assert reason in answer
    with pytest.raises(NotImplementedError):
        getattr(nx, name)(G, backend="dynstore", **kwargs)
    with nx.config(backend_priority=["dynstore"]):
        ours = getattr(nx, name)(G, **kwargs)
    assert plain(ours) == plain(getattr(nx, name)(G, backend="networkx", **kwargs))


@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        (-1, "negative"),
        ("heavy", "type str"),
        (None, "type NoneType"),
        (np.float64(1.0), "type float64"),
        (float("nan"), "not finite"),
        (float("inf"), "not finite"),
        (2**53 + 2, "2\\*\\*53"),
        (2**52, "2\\*\\*53"),
        (10**400, "too large"),
    ],
)
def test_weights_that_float64_does_not_hold_are_left_to_networkx(weight: Any, reason: str) -> None:
    G = nx.Graph([(0, 1, {"weight": weight}), (1, 2)])
    converted = convert_from_nx(G, edge_attrs={"weight": 1})
    with pytest.raises(NotImplementedError, match=reason):
        adapter.backend.single_source_dijkstra(converted, 0)
    with pytest.raises(NotImplementedError, match=reason):
        adapter.backend.all_pairs_dijkstra(converted)
    if reason == "negative":
        with pytest.raises(NotImplementedError, match=reason):
            adapter.backend.pagerank(converted)
        return  # NetworkX finds contradictory paths
    if not isinstance(weight, str):
        with nx.config(backend_priority=["dynstore"]):
            ours = nx.single_source_dijkstra_path_length(G, 2, cutoff=10**300)
        assert list(ours) == list(nx.single_source_dijkstra_path_length(G, 2, cutoff=10**300, backend="networkx"))
