"""NetworkX's functions on our graph classes: those that the backend does not offer run NetworkX's own code."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest

from dynstore.adapters import networkx as adapter
from dynstore.adapters.networkx.graphs import FollowedGraph
from dynstore.adapters.networkx.offers import OFFERS
from tests.adapters.networkx.nx_backend import as_ours, plain, register, shuffled_graph

register()

Call = Callable[[nx.Graph], Any]


def some_graph(directed: bool) -> nx.Graph:
    """Make a connected graph of 12 nodes with weights and capacities."""
    rng = np.random.default_rng(3)
    G = nx.DiGraph() if directed else nx.Graph()
    nx.add_cycle(G, range(12))
    G.add_edges_from(rng.integers(0, 12, (14, 2)).tolist())
    G.remove_edges_from(list(nx.selfloop_edges(G)))
    for number, (_, _, data) in enumerate(G.edges(data=True)):
        data["weight"], data["capacity"] = 1 + number % 4, 2 + number % 3
    for node in G:
        G.nodes[node]["colour"] = ["red", "blue"][node % 2]
    return G


def acyclic_graph() -> nx.DiGraph:
    return nx.DiGraph([(0, 2), (0, 1), (1, 3), (2, 3), (3, 4), (1, 4)])


def changed(change: Call) -> Call:
    """Return a call that changes the graph, and then shows what the change returned and left."""

    def call(G: nx.Graph) -> Any:
        result = change(G)
        followed = list(nx.bfs_edges(G, next(iter(G))))  # by the backend, after the change
        return result is G, result, dict(G.nodes(data=True)), followed, G

    return call


UNDIRECTED: dict[str, Call] = {
    # distances and measures
    "diameter": nx.diameter,
    "radius": nx.radius,
    "eccentricity": nx.eccentricity,
    "center": nx.center,
    "periphery": nx.periphery,
    "barycenter": nx.barycenter,
    "wiener_index": nx.wiener_index,
    "density": nx.density,
    "degree_histogram": nx.degree_histogram,
    "degree_assortativity_coefficient": nx.degree_assortativity_coefficient,
    "attribute_assortativity_coefficient": lambda G: nx.attribute_assortativity_coefficient(G, "colour"),
    "average_degree_connectivity": nx.average_degree_connectivity,
    "average_shortest_path_length": nx.average_shortest_path_length,
    "global_efficiency": nx.global_efficiency,
    "rich_club_coefficient": lambda G: nx.rich_club_coefficient(G, normalized=False),
    # centrality
    "closeness_centrality": nx.closeness_centrality,
    "harmonic_centrality": nx.harmonic_centrality,
    "eigenvector_centrality": nx.eigenvector_centrality,
    "katz_centrality": nx.katz_centrality,
    "edge_betweenness_centrality": nx.edge_betweenness_centrality,
    "load_centrality": nx.load_centrality,
    "subgraph_centrality": nx.subgraph_centrality,
    "betweenness_centrality(weight)": lambda G: nx.betweenness_centrality(G, weight="weight"),
    "voterank": nx.voterank,
    # paths and traversal
    "shortest_path(pair)": lambda G: nx.shortest_path(G, 0, 7),
    "shortest_path(bellman-ford)": lambda G: nx.shortest_path(G, 0, weight="weight", method="bellman-ford"),
    "all_shortest_paths": lambda G: nx.all_shortest_paths(G, 0, 6),
    "all_simple_paths": lambda G: nx.all_simple_paths(G, 0, 3, cutoff=4),
    "astar_path": lambda G: nx.astar_path(G, 0, 6, weight="weight"),
    "bidirectional_shortest_path": lambda G: nx.bidirectional_shortest_path(G, 0, 6),
    "bellman_ford_path": lambda G: nx.bellman_ford_path(G, 0, 6),
    "floyd_warshall": nx.floyd_warshall,
    "dfs_edges": lambda G: nx.dfs_edges(G, 0),
    "dfs_tree": lambda G: nx.dfs_tree(G, 0),
    "bfs_tree": lambda G: nx.bfs_tree(G, 0),
    "bfs_edges(sort_neighbors)": lambda G: nx.bfs_edges(G, 0, sort_neighbors=sorted),
    "bfs_labeled_edges": lambda G: nx.bfs_labeled_edges(G, 0),
    "dijkstra_path(function)": lambda G: nx.dijkstra_path(G, 0, 6, weight=lambda u, v, data: data["capacity"]),
    # communities, cliques, cores, colours
    "greedy_modularity_communities": nx.community.greedy_modularity_communities,
    "louvain_communities": lambda G: nx.community.louvain_communities(G, seed=1),
    "label_propagation_communities": nx.community.label_propagation_communities,
    "girvan_newman": lambda G: [next(nx.community.girvan_newman(G))],
    "core_number": nx.core_number,
    "k_core": nx.k_core,
    "k_truss": lambda G: nx.k_truss(G, 2),
    "find_cliques": nx.find_cliques,
    "max_weight_clique": lambda G: nx.max_weight_clique(G, weight=None),
    "greedy_color": nx.greedy_color,
    "square_clustering": nx.square_clustering,
    "clustering(weight)": lambda G: nx.clustering(G, weight="weight"),
    # connectivity, cuts, flows, matchings, trees, cycles
    "articulation_points": nx.articulation_points,
    "biconnected_components": nx.biconnected_components,
    "bridges": nx.bridges,
    "node_connectivity": nx.node_connectivity,
    "edge_connectivity": nx.edge_connectivity,
    "minimum_node_cut": nx.minimum_node_cut,
    "k_edge_components": lambda G: nx.k_edge_components(G, 2),
    "stoer_wagner": nx.stoer_wagner,
    "max_weight_matching": lambda G: sorted(map(sorted, nx.max_weight_matching(G))),
    "minimum_spanning_edges": nx.minimum_spanning_edges,
    "minimum_spanning_tree": nx.minimum_spanning_tree,
    "cycle_basis": nx.cycle_basis,
    "is_planar": nx.is_planar,
    "is_bipartite": nx.is_bipartite,
    "maximal_independent_set": lambda G: nx.maximal_independent_set(G, seed=2),
    "dominating_set": nx.dominating_set,
    "node_disjoint_paths": lambda G: nx.node_disjoint_paths(G, 0, 6),
    # link prediction, similarity, isomorphism
    "jaccard_coefficient": nx.jaccard_coefficient,
    "adamic_adar_index": lambda G: nx.adamic_adar_index(G, [(0, 5), (1, 7)]),
    "simrank_similarity": nx.simrank_similarity,
    "is_isomorphic": lambda G: nx.is_isomorphic(G, nx.relabel_nodes(G, {node: 20 - node for node in G})),
    "weisfeiler_lehman_graph_hash": lambda G: nx.weisfeiler_lehman_graph_hash(G, edge_attr="weight"),
    # graphs of graphs
    "complement": nx.complement,
    "line_graph": nx.line_graph,
    "ego_graph": lambda G: nx.ego_graph(G, 3, radius=2),
    "power": lambda G: nx.power(G, 2),
    "relabel_nodes": lambda G: nx.relabel_nodes(G, {0: "zero"}),
    "convert_node_labels_to_integers": lambda G: nx.convert_node_labels_to_integers(G, 5),
    "compose(complement)": lambda G: nx.compose(G, nx.complement(G)),
    "difference(tree)": lambda G: nx.difference(G, nx.minimum_spanning_tree(G)),
    "union_all": lambda G: nx.union_all([G, G, G], rename=("a", "b", "c")),
    "cartesian_product": lambda G: nx.cartesian_product(G, G),
    "quotient_graph": lambda G: list(nx.quotient_graph(G, [{0, 1, 2}, {3, 4}]).edges),
    "contracted_nodes": lambda G: nx.contracted_nodes(G, 0, 1),
    "subgraph": lambda G: nx.density(G.subgraph(range(7))),
    "create_empty_copy": nx.create_empty_copy,
    # conversions, layouts, matrices
    "to_dict_of_lists": nx.to_dict_of_lists,
    "to_numpy_array": lambda G: nx.to_numpy_array(G).tolist(),
    "to_scipy_sparse_array": lambda G: nx.to_scipy_sparse_array(G).toarray().tolist(),
    "to_pandas_edgelist": lambda G: nx.to_pandas_edgelist(G).to_dict("list"),
    "node_link_data": lambda G: nx.node_link_data(G, edges="edges"),
    "generate_gml": nx.generate_gml,
    "spring_layout": lambda G: {n: at.tolist() for n, at in nx.spring_layout(G, seed=1, iterations=3).items()},
    "laplacian_spectrum": lambda G: nx.laplacian_spectrum(G).tolist(),
    # what changes the graph
    "set_edge_attributes": changed(lambda G: nx.set_edge_attributes(G, 9, "weight")),
    "set_node_attributes": changed(lambda G: nx.set_node_attributes(G, 3, "size")),
    "relabel_nodes(copy=False)": changed(lambda G: nx.relabel_nodes(G, {0: "zero", 3: "three"}, copy=False)),
    "double_edge_swap": changed(lambda G: nx.double_edge_swap(G, nswap=2, seed=4)),
    "contracted_nodes(copy=False)": changed(lambda G: nx.contracted_nodes(G, 0, 5, copy=False)),
    "add_path": changed(lambda G: nx.add_path(G, [5, "x", "y"])),
    "freeze": lambda G: nx.is_frozen(nx.freeze(G)),
}

DIRECTED: dict[str, Call] = {
    "strongly_connected_components": nx.strongly_connected_components,
    "condensation": nx.condensation,
    "kosaraju_strongly_connected_components": nx.kosaraju_strongly_connected_components,
    "is_strongly_connected": nx.is_strongly_connected,
    "attracting_components": nx.attracting_components,
    "hits": nx.hits,
    "pagerank(dangling)": lambda G: nx.pagerank(G, dangling={0: 1}),
    "reciprocity": nx.reciprocity,
    "clustering": nx.clustering,
    "ancestors": lambda G: nx.ancestors(G, 3),
    "descendants": lambda G: nx.descendants(G, 3),
    "simple_cycles": lambda G: nx.simple_cycles(G, length_bound=6),
    "find_cycle": nx.find_cycle,
    "maximum_flow": lambda G: nx.maximum_flow(G, 0, 6),
    "minimum_cut": lambda G: nx.minimum_cut(G, 0, 6),
    "edge_disjoint_paths": lambda G: nx.edge_disjoint_paths(G, 0, 6),
    "build_residual_network": lambda G: nx.algorithms.flow.build_residual_network(G, "capacity"),
    "local_node_connectivity(auxiliary)": lambda G: nx.algorithms.connectivity.local_node_connectivity(
        G, 0, 6, auxiliary=nx.algorithms.connectivity.build_auxiliary_node_connectivity(G)
    ),
    "triadic_census": nx.triadic_census,
    "all_triads": lambda G: [sorted(triad) for triad in nx.all_triads(G)],
    "flow_hierarchy": nx.flow_hierarchy,
    "johnson": nx.johnson,
    "reverse": nx.reverse,
    "reverse(copy=False)": lambda G: nx.reverse(G, copy=False),
    "to_undirected": lambda G: nx.to_undirected(G),
    "minimum_spanning_arborescence": changed(nx.minimum_spanning_arborescence),
    "stochastic_graph": changed(lambda G: nx.stochastic_graph(G, copy=False)),
    "set_edge_attributes": changed(lambda G: nx.set_edge_attributes(G, 9, "weight")),
}

ACYCLIC: dict[str, Call] = {
    "topological_sort": nx.topological_sort,
    "topological_generations": nx.topological_generations,
    "all_topological_sorts": nx.all_topological_sorts,
    "is_directed_acyclic_graph": nx.is_directed_acyclic_graph,
    "dag_longest_path": nx.dag_longest_path,
    "transitive_closure": nx.transitive_closure,
    "transitive_reduction": nx.transitive_reduction,
    "antichains": nx.antichains,
    "lowest_common_ancestor": lambda G: nx.lowest_common_ancestor(G, 2, 4),
    "immediate_dominators": lambda G: nx.immediate_dominators(G, 0),
}

KINDS: dict[str, tuple[dict[str, Call], Callable[[], nx.Graph]]] = {
    "graph": (UNDIRECTED, lambda: some_graph(False)),
    "digraph": (DIRECTED, lambda: some_graph(True)),
    "acyclic": (ACYCLIC, acyclic_graph),
}


def same(ours: Any, theirs: Any) -> bool:
    """Whether two results that are spelled out are equal, floats up to their last digits."""
    if isinstance(ours, list | tuple):
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)
    return bool(ours == theirs)


def graphs_in(result: Any) -> list[nx.Graph]:
    items = result if isinstance(result, tuple) else (result,)
    return [item for item in items if isinstance(item, nx.Graph)]


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, (calls, _) in KINDS.items() for name in calls])
def test_the_result_is_networkx_result(kind: str, name: str) -> None:
    calls, make = KINDS[kind]
    G, H = as_ours(make()), make()
    nx.number_of_edges(G), nx.pagerank(G)  # a store follows it
    ours, theirs = calls[name](G), calls[name](H)
    graphs, expected = graphs_in(ours), graphs_in(theirs)
    assert same(plain(ours), plain(theirs))
    for mine, plainly in zip(graphs, expected, strict=True):
        assert isinstance(mine, FollowedGraph)
        assert nx.utils.graphs_equal(mine, plainly)
        mine.add_edge("new", "newer") if not nx.is_frozen(mine) and mine is not G else None
    assert nx.utils.graphs_equal(G, H)  # a result shares nothing with its argument
    assert list(nx.bfs_edges(G, 1)) == list(nx.bfs_edges(H, 1))


def test_enough_functions_are_tried() -> None:
    assert sum(len(calls) for calls, _ in KINDS.values()) > 100


# ------------------------------------------------------------------ how


def test_nothing_is_converted_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    G = adapter.Graph([(0, 1), (1, 2)])
    with caplog.at_level(logging.DEBUG, "dynstore"):
        assert nx.diameter(G) == 2
        assert nx.shortest_path(G, 0, 2) == [0, 1, 2]
    first, second = (record.getMessage() for record in caplog.records if record.name == "dynstore")
    assert first == "networkx.diameter: the backend does not offer it; NetworkX's own code runs on the graph"
    assert second.startswith("networkx.shortest_path: between two nodes NetworkX searches from both ends")
    view = adapter.backend.convert_to_nx(G)
    assert type(view) is nx.Graph
    assert view._adj is G._adj
    assert G._store is None  # none was needed


def test_changes_are_seen_by_networkx_code_and_by_the_store() -> None:
    G = adapter.Graph([(0, 1), (1, 2)])
    assert (nx.diameter(G), nx.is_connected(G)) == (2, True)
    G.add_edge(2, 3)
    assert nx.diameter(G) == 3
    followed = G._store
    nx.relabel_nodes(G, {3: "three"}, copy=False)
    assert nx.number_connected_components(G) == 1
    assert nx.shortest_path_length(G, 0, "three") == 3
    assert G._store is followed  # a function that changes the graph by its methods costs no new store
    view = adapter.backend.convert_to_nx(G)
    view.remove_edge(1, 2)  # as NetworkX's code would
    assert nx.number_connected_components(G) == 2


def test_a_frozen_graph_stays_frozen() -> None:
    G = nx.freeze(adapter.Graph([(0, 1), (1, 2), (2, 3), (3, 0)]))
    with pytest.raises(nx.NetworkXError, match="Frozen"):
        nx.double_edge_swap(G, seed=1)
    assert nx.diameter(G) == 2


def test_the_functions_of_the_backend_still_run() -> None:
    G = as_ours(shuffled_graph(np.random.default_rng(7), False))
    before = adapter.calls["connected_components"], adapter.calls["shortest_path"]
    list(nx.connected_components(G))
    nx.shortest_path(G, "n4")
    H = G.subgraph(nx.node_connected_component(G, "n4")).copy()
    diameter = nx.diameter(nx.Graph(H))
    with nx.config(backend_priority=["dynstore"]):
        list(nx.connected_components(G))
        # `diameter` is NetworkX's; the searches that it calls are ours again, on the same graph: nothing is converted.
        searches = adapter.calls["shortest_path_length"]
        assert nx.diameter(H) == diameter
        assert adapter.calls["shortest_path_length"] == searches + len(H)
    assert adapter.calls["connected_components"] == before[0] + 2
    assert adapter.calls["shortest_path"] == before[1] + 1


def test_a_graph_that_was_given_as_an_argument_keeps_its_class() -> None:
    G, mine = adapter.Graph([(0, 1), (1, 2)]), nx.Graph()
    assert nx.line_graph(G, create_using=mine) is mine
    assert type(mine) is nx.Graph


def test_graphs_of_both_kinds_meet_where_networkx_allows_it() -> None:
    G, H = adapter.Graph([(0, 1), (1, 2)]), nx.Graph([(2, 3)])
    with pytest.raises(TypeError, match="Unable to convert inputs"):  # NetworkX's rule for all backends
        nx.compose(G, H)
    assert plain(nx.compose(G, H, backend="networkx")) == plain(nx.compose(nx.Graph(G), H))
    with nx.config.backend_priority(generators=["dynstore"]):
        both = nx.compose(G, H)
    assert plain(both) == plain(nx.compose(nx.Graph(G), H))
    assert isinstance(both, adapter.Graph)
    with nx.config(fallback_to_nx=True):
        for pair in ((G, H), (H, G)):
            assert plain(nx.compose(*pair)) == plain(nx.compose(*map(nx.Graph, pair)))


def test_what_networkx_lacks_is_still_missing() -> None:
    G = adapter.Graph([(0, 1)])
    with pytest.raises(AttributeError, match="no function 'no_such_function'"):
        _ = adapter.backend.no_such_function
    with pytest.raises(NotImplementedError):
        nx.path_graph(3, backend="dynstore")
    with pytest.raises(NotImplementedError):
        nx.diameter(nx.path_graph(3), backend="dynstore")  # a plain graph: only what the backend offers
    assert nx.diameter(G, backend="dynstore") == 1
    assert "diameter" not in OFFERS
