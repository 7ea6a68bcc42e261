"""``from_networkx`` and ``to_networkx``: round trips, ids, weights, and what is refused."""

from __future__ import annotations

import sys
from typing import Any

import networkx as nx
import numpy as np
import pytest

import dynstore
from dynstore.adapters.networkx import DiGraph, Graph
from dynstore.errors import InputError, InputTypeError, MissingDependencyError
from tests.adapters.networkx.nx_backend import register

register()

NODES = {
    "0 .. V-1": lambda numbers: numbers,
    "sparse": lambda numbers: [7_000_000_000 * number + 3 for number in numbers],
    "numpy": lambda numbers: list(np.array(numbers, np.int32) + 5),
    "strings": lambda numbers: [f"node-{number}" for number in numbers],
}


def some_graph(kind: str, directed: bool, weighted: bool) -> nx.Graph:
    """Make a graph with self-loops and isolated nodes, its nodes in random order."""
    rng = np.random.default_rng(6)
    nodes = NODES[kind](rng.permutation(30).tolist())
    G = nx.DiGraph() if directed else nx.Graph()
    G.add_nodes_from(nodes)
    for number, (u, v) in enumerate(rng.integers(0, 25, (60, 2)).tolist()):
        G.add_edge(nodes[u], nodes[v], **({"weight": number / 10} if weighted and number % 7 else {}))
    return G


@pytest.mark.parametrize("store", ["gpma+", "merge", "slab_hash"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("kind", NODES)
def test_a_round_trip_gives_an_equal_graph(kind: str, directed: bool, weighted: bool, store: str, device: str) -> None:
    theirs = some_graph(kind, directed, weighted)
    G = dynstore.from_networkx(theirs, device=device, store=store)
    assert (G.is_directed(), G.is_weighted(), G.store_name) == (directed, weighted, store)
    assert G.is_renumbered() == (kind != "0 .. V-1")
    assert (G.number_of_vertices(), G.number_of_edges()) == (len(theirs), theirs.number_of_edges())
    back = G.to_networkx()
    assert type(back) is (nx.DiGraph if directed else nx.Graph)
    expected = nx.create_empty_copy(theirs)
    for u, v, data in theirs.edges(data=True):
        expected.add_edge(u, v, **({"weight": data.get("weight", 1)} if weighted else {}))
    assert nx.utils.graphs_equal(back, expected)
    assert {type(node) for node in back} == {str if kind == "strings" else int}
    if weighted:
        assert {type(value) for _, _, value in back.edges(data="weight")} == {float}
    again = dynstore.from_networkx(back, device=device)
    assert nx.utils.graphs_equal(again.to_networkx(), back)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("nodes", [[], [0, 1, 2], [5, 9], ["a", "b"]])
def test_graphs_without_edges(nodes: list[Any], directed: bool, device: str) -> None:
    theirs = nx.DiGraph() if directed else nx.Graph()
    theirs.add_nodes_from(nodes)
    G = dynstore.from_networkx(theirs, device=device)
    assert (G.number_of_vertices(), G.is_weighted()) == (len(nodes), False)
    assert nx.utils.graphs_equal(G.to_networkx(), theirs)
    assert list(G.to_networkx()) == nodes
    assert dynstore.from_networkx(theirs, weight="cost", device=device).number_of_edges() == 0


def test_which_attribute_is_the_weight() -> None:
    theirs = nx.Graph([(0, 1, {"weight": 2, "cost": 0.1}), (1, 2)])
    assert dynstore.from_networkx(theirs, device="cpu").edge_columns()["weight"].tolist() == [2, 1]
    by_cost = dynstore.from_networkx(theirs, weight="cost", device="cpu")
    assert by_cost.edge_columns()["weight"].tolist() == [0.1, 1]  # float64, as in NetworkX
    assert not dynstore.from_networkx(theirs, weight=None, device="cpu").is_weighted()
    ones = dynstore.from_networkx(theirs, weight=None, weighted=True, weight_dtype="float32", device="cpu")
    assert ones.edge_columns()["weight"].tolist() == [1, 1]
    assert ones.weight_dtype == np.float32
    with pytest.raises(InputError, match="no edge has the attribute 'wieght'"):
        dynstore.from_networkx(theirs, weight="wieght", device="cpu")
    assert not dynstore.from_networkx(theirs, weighted=False, device="cpu").is_weighted()


def test_options_are_those_of_the_graph() -> None:
    theirs = nx.DiGraph([(0, 1), (1, 2)])
    assert dynstore.from_networkx(theirs, renumber=True, reuse_ids=True, device="cpu").is_renumbered()
    assert dynstore.from_networkx(theirs, vertex_dtype="int64", device="cpu").vertex_dtype == np.int64
    with pytest.raises(InputError, match="`directed` was given"):
        dynstore.from_networkx(theirs, directed=False, device="cpu")
    with pytest.raises(InputError, match="renumber is False"):
        dynstore.from_networkx(nx.Graph([(5, 9)]), renumber=False, device="cpu")


def test_the_copy_is_independent() -> None:
    theirs = nx.Graph([(0, 1), (1, 2)])
    G = dynstore.from_networkx(theirs, device="cpu")
    back = G.to_networkx()
    G.insert_edges(([0], [2]))
    back.add_edge(0, 7)
    assert theirs.number_of_edges() == 2
    assert (G.number_of_edges(), G.number_of_vertices()) == (3, 3)


@pytest.mark.parametrize("kind", [Graph, DiGraph])
def test_our_own_networkx_classes_and_views_are_taken(kind: type) -> None:
    theirs = kind([("a", "b", {"weight": 2.5}), ("b", "c"), ("c", "d")])
    for graph in (theirs, theirs.subgraph(["a", "b", "d"])):
        back = dynstore.from_networkx(graph, device="cpu").to_networkx()
        expected = nx.create_empty_copy(nx.DiGraph(graph) if graph.is_directed() else nx.Graph(graph))
        expected.add_weighted_edges_from(graph.edges(data="weight", default=1))
        assert nx.utils.graphs_equal(back, expected)


@pytest.mark.parametrize(
    ("theirs", "error", "message"),
    [
        (nx.Graph([(0, "a")]), InputError, "node 'a' of type str; wanted only integers"),
        (nx.Graph([("a", 0)]), InputError, "node 0 of type int; wanted only integers"),
        (nx.grid_2d_graph(2, 2), InputError, r"node \(0, 0\) of type tuple"),
        (nx.Graph([(1.0, 2)]), InputError, "node 1.0 of type float"),
        (nx.Graph([(True, 2)]), InputError, "node True of type bool"),
        (nx.Graph([(-1, 2)]), InputError, "node -1 of type int; wanted only integers, 0"),
        (nx.Graph([(2**63, 2)]), InputError, "node 9223372036854775808 of type int"),
        (
            nx.Graph([(0, 1, {"weight": "heavy"})]),
            InputError,
            "'weight' of an edge is 'heavy' of type str; wanted",
        ),
        (nx.Graph([(0, 1, {"weight": None})]), InputError, "'weight' of an edge is None of type NoneType"),
        (nx.Graph([(0, 1, {"weight": float("nan")})]), InputError, "'weight' of an edge is NaN"),
        (nx.Graph([(0, 1, {"weight": 10**400})]), InputError, "an int too large for float64"),
        ([(0, 1)], InputTypeError, "got a list; wanted a networkx.Graph"),
        (None, InputTypeError, "got a NoneType; wanted a networkx.Graph"),
    ],
)
def test_what_is_refused(theirs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"^from_networkx: .*{message}"):
        dynstore.from_networkx(theirs, device="cpu")


def test_without_networkx(monkeypatch: pytest.MonkeyPatch) -> None:
    G = dynstore.DynamicGraph(device="cpu")
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingDependencyError, match=r"^to_networkx: .* pip install 'dynstore\[networkx\]'"):
        G.to_networkx()
    with pytest.raises(MissingDependencyError, match=r"^from_networkx: .* pip install 'dynstore\[networkx\]'"):
        dynstore.from_networkx(None)


@pytest.mark.parametrize("kind", [nx.MultiGraph, nx.MultiDiGraph])
@pytest.mark.parametrize("names", ["integers", "strings"])
def test_multigraphs_go_round(kind: type, names: str, rng: np.random.Generator) -> None:
    theirs = kind()
    for number in range(40):
        ends = (int(end) if names == "integers" else f"v{end}" for end in rng.integers(0, 7, 2))
        values = {"weight": float(rng.integers(1, 9)), "kind": int(rng.integers(3)), "time": int(rng.integers(99))}
        theirs.add_edge(*ends, key=3 * number - 50, **values)
    theirs.add_node(7 if names == "integers" else "alone")
    G = dynstore.from_networkx(theirs, edge_columns={"kind": "int8"}, timestamps="int64", device="cpu")
    assert G.is_multigraph()
    assert G.is_directed() == theirs.is_directed()
    again = G.to_networkx()
    assert type(again) is kind
    assert set(again.nodes) == set(theirs.nodes)

    def edges(graph: Any) -> list[Any]:
        ends = graph.edges(keys=True, data=True)
        return sorted(
            [(u, v) if graph.is_directed() else tuple(sorted((u, v))), key, sorted(data.items())]
            for u, v, key, data in ends
        )

    assert edges(again) == edges(theirs)


def test_keys_that_networkx_counts_are_no_ids() -> None:
    """It counts them for each pair; ids are those of all edges."""
    theirs = nx.MultiDiGraph([("a", "b"), ("a", "b"), ("b", "c")])
    G = dynstore.from_networkx(theirs, device="cpu")
    assert G.number_of_edges() == 3
    assert sorted(G.edge_columns()["edge_id"].tolist()) == [0, 1, 2]
    assert dynstore.from_networkx(nx.MultiGraph(), device="cpu").is_multigraph()


def test_columns_come_from_attributes() -> None:
    theirs = nx.DiGraph()
    theirs.add_edge(0, 1, kind=3, time=5)
    G = dynstore.from_networkx(theirs, edge_columns={"kind": "int16"}, timestamps="int64", device="cpu")
    assert G.edge_columns()["kind"].tolist() == [3]
    assert G.edge_columns()["time"].tolist() == [5]
    theirs.add_edge(1, 2, kind=4)
    with pytest.raises(InputError, match="edge 1 has no attribute 'time', which is a column of the graph"):
        dynstore.from_networkx(theirs, edge_columns={"kind": "int16"}, timestamps="int64", device="cpu")
    with pytest.raises(InputError, match="MultiGraph, and multigraph is False; wanted multigraph=True, or"):
        dynstore.from_networkx(nx.MultiGraph(), multigraph=False, device="cpu")


def test_both_directions_of_a_pair_stay_when_a_multigraph_is_made_undirected() -> None:
    """NetworkX loses some (findings/networkx_undirected_multigraphs_lose_edges.sh)."""
    theirs = nx.MultiDiGraph([("a", "b"), ("a", "b"), ("b", "a")])
    G = dynstore.DynamicGraph.from_edges(dynstore.from_networkx(theirs, device="cpu"), directed=False)
    assert not G.is_directed()
    assert G.number_of_edges() == G.to_networkx().number_of_edges() == 3
