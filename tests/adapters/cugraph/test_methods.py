"""How a graph of the drop-in is filled, emptied, filled again and changed; which graphs cannot be changed, and why."""

from __future__ import annotations

import copy
import gc
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.adapters.cugraph import build
from dynstore.adapters.cugraph.graph import as_cugraph
from dynstore.errors import InputError, InputTypeError
from tests.adapters.cugraph.stand_ins import rapids

__all__ = ["rapids"]  # a fixture

FRAME = pd.DataFrame({"a": [10, 20, 20], "b": [20, 30, 30], "w": [4.0, 2.0, 1.0]})
UPDATES = ["insert_edges", "delete_edges"]
OWN = "this graph is cuGraph's own, which cannot be changed: "


def filled(rapids: SimpleNamespace) -> Any:
    G = rapids.drop_in.Graph(directed=True)
    G.from_cudf_edgelist(FRAME, "a", "b", edge_attr="w")
    return G


# ---------------------------------------------------------------------- emptied and filled again


def test_a_deleted_edge_list_leaves_the_graph(rapids: SimpleNamespace) -> None:
    """As in cuGraph, whose algorithms keep the graph that they compute on."""
    G = filled(rapids)
    G.delete_edge_list()
    assert G.edgelist is None
    assert rapids.cugraph.pagerank(G).edges() == [(10, 20, 4.0), (20, 30, 1.0)]
    assert G.number_of_vertices() == 3
    G.insert_edges(([1], [2], [0.5]))
    assert len(G.edgelist.edgelist_df) == 3


def test_a_deleted_edge_list_is_not_shown_until_the_next_update(rapids: SimpleNamespace) -> None:
    G = filled(rapids)
    G.delete_edge_list()
    for view in (G.view_edge_list, G.view_adj_list, G.view_transposed_adj_list):
        with pytest.raises(InputError, match="the edge list was deleted; update the graph, or fill it again"):
            view()
    G.insert_edges(([1], [2], [0.5]))
    assert len(G.view_edge_list()) == 3
    offsets, _, _ = G.view_adj_list()
    G.delete_edge_list()
    assert G.view_adj_list()[0] is offsets, "as in cuGraph, a list that was made before is still there"


@pytest.mark.parametrize("how", ["clear", "delete_edge_list"])
def test_an_emptied_graph_is_live_when_it_is_filled_again(rapids: SimpleNamespace, how: str) -> None:
    G = filled(rapids)
    getattr(G, how)()
    G.from_cudf_edgelist(FRAME[:1], "a", "b")
    assert rapids.cugraph.bfs(G).edges() == [(10, 20)]
    G.insert_edges(pd.DataFrame({"a": [30], "b": [40]}))
    assert rapids.cugraph.bfs(G).edges() == [(10, 20), (30, 40)]


def test_a_graph_of_as_cugraph_is_filled_again_without_its_first_store(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu")
    graph.insert_edges(([0], [1]))
    G = as_cugraph(graph)
    G.clear()
    G.insert_edges(([5], [6]))
    assert (G.number_of_edges(), graph.number_of_edges()) == (1, 1)
    assert graph.has_edges(([0], [1])).tolist() == [True]
    gone = weakref.ref(graph)
    del graph
    gc.collect()
    assert gone() is None


def test_a_filling_that_fails_leaves_the_graph_as_it_was(rapids: SimpleNamespace) -> None:
    G = rapids.drop_in.Graph(directed=True)
    with pytest.raises(TypeError, match="colour"):
        G.from_cudf_edgelist(FRAME, "a", "b", colour="red")
    assert G._Impl is None
    G.from_cudf_edgelist(FRAME, "a", "b")
    assert G.insert_edges(([1], [2])).inserted == 1
    G.delete_edge_list()
    for fill, given in ((G.from_cudf_edgelist, {"colour": "red"}), (G.from_cudf_adjlist, {"colour": "red"})):
        with pytest.raises(TypeError):
            fill(FRAME, "a", "b", **given)
        assert G.number_of_edges() == 3
    G.insert_edges(([2], [3]))
    assert G.number_of_edges() == 4


@pytest.mark.parametrize("name", ["to_directed", "to_undirected"])
def test_a_graph_of_the_other_direction_is_live_when_it_is_filled_again(rapids: SimpleNamespace, name: str) -> None:
    G = getattr(filled(rapids), name)()
    directed = name == "to_directed"
    G.clear()
    G.from_cudf_edgelist(FRAME[:1], "a", "b")
    assert G.insert_edges(([30], [40])).inserted == 1
    assert (G.is_directed(), G.number_of_edges()) == (directed, 2)
    G = getattr(filled(rapids), name)()
    G.clear()
    assert G.insert_edges(([30], [40])).inserted == 1
    assert G.dynamic_graph.is_directed() == directed


def test_copies_of_a_live_graph_have_methods_of_their_own(rapids: SimpleNamespace) -> None:
    G = filled(rapids)
    twin = copy.deepcopy(G)
    twin.insert_edges(([7], [8], [1.0]))
    assert (G.number_of_edges(), twin.number_of_edges()) == (2, 3)
    twin.clear()
    twin.insert_edges(([7], [8]))
    assert (G.number_of_edges(), twin.number_of_edges()) == (2, 1)


def test_methods_can_be_called_on_a_graph_without_a_name(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu")
    as_cugraph(graph).insert_edges(([5], [6]))
    assert graph.number_of_edges() == 1
    assert rapids.drop_in.Graph().insert_edges(([5], [6])).inserted == 1
    with pytest.raises(InputError, match="insert_edges: `src`"):
        rapids.drop_in.Graph().insert_edges(([-1], [2]))
    as_cugraph(graph).clear()
    assert graph.number_of_edges() == 1
    with pytest.raises(RuntimeError, match="already initialized"):
        filled(rapids).from_cudf_edgelist(FRAME, "a", "b")


# ---------------------------------------------------------------------- started empty


@pytest.mark.parametrize("directed", [True, False])
def test_an_empty_graph_becomes_live_with_its_first_edges(rapids: SimpleNamespace, directed: bool) -> None:
    G = rapids.drop_in.Graph(directed=directed)
    report = G.insert_edges(FRAME.astype({"a": np.int32, "b": np.int32}), "a", "b", "w")
    assert report.inserted == 2
    graph = G.dynamic_graph
    assert (graph.is_directed(), graph.is_weighted(), graph.is_renumbered()) == (directed, True, True)
    assert (graph.vertex_dtype, graph.weight_dtype) == (np.int32, np.float64)
    assert G.view_edge_list().columns.tolist() == ["a", "b", "w" if directed else "weight"]
    G.insert_edges(pd.DataFrame({"a": [1], "b": [2], "w": [3.0]}))
    assert G.delete_edges(pd.DataFrame({"a": [20], "b": [30]})).deleted == 1
    assert G.number_of_edges() == 2


def test_the_first_edges_may_be_columns_rows_or_strings(rapids: SimpleNamespace) -> None:
    for edges, ids in ((([1, 2], [2, 3]), [1, 2, 3]), ([("x", "y")], ["x", "y"]), ([(4, 5, 6)], [4, 5])):
        G = rapids.drop_in.Graph(directed=True)
        G.insert_edges(edges)
        assert G.nodes().tolist() == ids
        assert G.is_weighted() == (len(edges[0]) == 3)
    G = rapids.drop_in.Graph()
    G.insert_edges(([1], [2]), default_weight=2.0)
    assert G.view_edge_list()["weight"].tolist() == [2.0]
    G = rapids.drop_in.Graph(directed=True)
    frame = FRAME.astype({"w": np.int32}).rename(columns={"a": "source", "b": "destination", "w": "weight"})
    G.insert_edges(frame)
    assert G.view_edge_list()["weight"].dtype == np.int32


def test_a_refused_first_batch_leaves_the_graph_empty(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    G = rapids.drop_in.Graph()
    with pytest.raises(InputTypeError, match="insert_edges: edges is a int"):
        G.insert_edges(3)
    with pytest.raises(InputError, match="insert_edges: `src`"):
        G.insert_edges(([-1], [2]))
    with pytest.raises(InputError, match="delete_edges: this graph has no edges yet"):
        G.delete_edges(([1], [2]))
    assert G._Impl is None
    monkeypatch.setattr(build, "cuda_problem", lambda: "no CUDA here")
    with pytest.raises(InputError, match="insert_edges: this graph cannot hold edges: no CUDA here"):
        G.insert_edges(([1], [2]))


# ---------------------------------------------------------------------- other ways to fill a graph


def test_matrices_make_live_graphs(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.array([[0.0, 2.0], [3.0, 0.0]])
    G = rapids.drop_in.from_numpy_array(matrix, create_using=rapids.drop_in.Graph(directed=True))
    assert rapids.cugraph.bfs(G).edges() == [(0, 1, 2.0), (1, 0, 3.0)]
    G.insert_edges(pd.DataFrame({"src": [1], "dst": [5], "weight": [1.0]}))
    assert G.number_of_edges() == 3
    named = rapids.drop_in.from_numpy_array(matrix, vertices=pd.Series(["x", "y"]))
    assert named.nodes().tolist() == ["x", "y"]
    assert named.insert_edges((["x"], ["z"], [1.0])).inserted == 1


def test_a_list_of_one_column_is_that_column(rapids: SimpleNamespace) -> None:
    G = rapids.drop_in.Graph()
    G.from_cudf_edgelist(FRAME, ["a"], ["b"])
    assert (G.source_columns, G.destination_columns, G.vertex_columns) == (["a"], ["b"], ["a", "b"])
    assert G.insert_edges(pd.DataFrame({"a": [30], "b": [99]})).inserted == 1


def test_a_hypergraph_is_live(rapids: SimpleNamespace) -> None:
    frame = pd.DataFrame({"u": ["e1", "e2"], "v": ["x", "y"]})
    for graph_class in ({}, {"graph_class": rapids.drop_in.Graph}, {"graph_class": rapids.cugraph.Graph}):
        made = rapids.drop_in.hypergraph(frame, columns=["u", "v"], **graph_class)
        assert made["kind"] == "DataFrame", "it computes with the frame"
        assert made["graph"].insert_edges((["e1"], ["y"])).inserted == 1
    own = rapids.drop_in.hypergraph(frame, ["u", "v"], graph_class=rapids.cugraph.MultiGraph)["graph"]
    assert type(own) is rapids.cugraph.MultiGraph


@pytest.mark.parametrize("method", UPDATES)
def test_a_graph_that_is_cugraphs_own_says_why_it_cannot_be_changed(rapids: SimpleNamespace, method: str) -> None:
    cugraph = rapids.drop_in
    G = cugraph.Graph(directed=True)
    G._Impl = rapids.cugraph.Graph()  # as another method of cuGraph's fills it
    with pytest.raises(InputError, match=f"^{method}: {OWN}it was filled in another way; from_cudf_edgelist"):
        getattr(G, method)([(1, 2)])
    G._Impl = None
    G.from_cudf_edgelist(FRAME, source="a", destination="b", edge_id="w")
    with pytest.raises(InputError, match=f"^{method}: {OWN}ids or types of edges are no integers$"):
        getattr(G, method)([(1, 2)])
    G.clear()
    G.from_cudf_edgelist(FRAME, source="a", destination="b")
    assert getattr(G, method)([(1, 2)]) is not None
    G = cugraph.Graph()
    G.from_cudf_adjlist([0, 1], [0])
    type(G._Impl).to_directed = lambda impl, other: None
    with pytest.raises(InputError, match=f"^{method}: {OWN}to_directed has made it of a graph of that kind$"):
        getattr(G.to_directed(), method)([(1, 2)])
    with pytest.raises(InputError, match=f"^{method}: {OWN}an adjacency list may repeat edges"):
        getattr(G, method)([(1, 2)])
    with pytest.raises(InputError, match=f"^{method}: {OWN}from_adjlist has made it$"):
        getattr(cugraph.from_adjlist([0, 1], [0]), method)([(1, 2)])
    with pytest.raises(InputError, match=f"^{method}: {OWN}induced_subgraph has made it$"):
        getattr(cugraph.induced_subgraph(G, [1])[0], method)([(1, 2)])
