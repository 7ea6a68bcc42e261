"""``from dynstore.adapters import cugraph``: what it builds itself, what it translates, what it passes on."""

from __future__ import annotations

import gc
import importlib.util
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.adapters.cugraph import build
from dynstore.adapters.cugraph.build import DEFAULTS, reason_for_cugraph
from dynstore.errors import InputError, MissingDependencyError
from tests.adapters.cugraph.stand_ins import LentGraph, rapids

__all__ = ["rapids"]  # a fixture

FRAME = pd.DataFrame({"a": [10, 20, 20], "b": [20, 30, 30], "w": [4.0, 2.0, 1.0]})


def test_a_graph_is_cugraphs_own_class_and_keeps_a_dynamic_graph(rapids: SimpleNamespace) -> None:
    cugraph, real = rapids.drop_in, rapids.cugraph
    G = cugraph.Graph(directed=True)
    assert type(G) is real.Graph
    assert isinstance(G, cugraph.Graph)
    assert isinstance(real.Graph(), cugraph.Graph)
    assert issubclass(cugraph.Graph, real.Graph)
    assert issubclass(real.MultiGraph, cugraph.Graph)
    assert type(G) in [cugraph.Graph]
    assert {cugraph.Graph: "found"}[type(G)] == "found"
    assert cugraph.Graph != real.MultiGraph
    G.from_cudf_edgelist(FRAME, source="a", destination="b", edge_attr="w", store_transposed=True)
    assert G.store_transposed is True
    graph = G.dynamic_graph
    assert (graph.is_directed(), graph.is_weighted(), graph.is_renumbered()) == (True, True, True)
    assert (graph.vertex_dtype, graph.weight_dtype) == (np.int64, np.float64)
    assert G.nodes().tolist() == [10, 20, 30]
    assert cugraph.bfs(G).edges() == [(10, 20, 4.0), (20, 30, 1.0)]
    G.insert_edges(pd.DataFrame({"a": [30], "b": [99], "w": [1.0]}))
    assert cugraph.bfs(G).edges()[-1] == (30, 99, 1.0)
    with pytest.raises(RuntimeError, match="already initialized"):
        G.from_cudf_edgelist(FRAME, source="a", destination="b")


def test_a_graph_of_int32_columns_has_int32_ids(rapids: SimpleNamespace) -> None:
    G = rapids.drop_in.Graph()
    G.from_cudf_edgelist(FRAME.astype({"a": np.int32, "b": np.int32, "w": np.float32}), "a", "b", ["w"])
    assert (G.dynamic_graph.vertex_dtype, G.dynamic_graph.weight_dtype) == (np.int32, np.float32)
    assert G.nodes().dtype == np.int32


def test_integer_weights_are_shown_as_integers_while_they_are_whole(rapids: SimpleNamespace) -> None:
    G = rapids.drop_in.Graph(directed=True)
    G.from_cudf_edgelist(FRAME.astype({"w": np.int32}), "a", "b", edge_attr="w")
    assert G.edgelist.edgelist_df["weights"].dtype == G.view_edge_list()["w"].dtype == np.int32
    assert G.dynamic_graph.weight_dtype == np.float32
    G.insert_edges(pd.DataFrame({"a": [30], "b": [10], "w": [0.5]}))
    assert sorted(G.edgelist.edgelist_df["weights"].tolist()) == sorted(G.view_edge_list()["w"].tolist())
    assert 0.5 in G.view_edge_list()["w"].tolist()


def test_without_renumbering_ids_are_rows(rapids: SimpleNamespace) -> None:
    G = rapids.drop_in.Graph()
    G.from_cudf_edgelist(FRAME, "a", "b", renumber=False, vertices=[40])
    assert not G.dynamic_graph.is_renumbered()
    assert G.number_of_vertices() == 41


def test_vertices_without_edges_are_kept(rapids: SimpleNamespace) -> None:
    G = rapids.drop_in.Graph()
    G.from_cudf_edgelist(FRAME, "a", "b", vertices=pd.Series([7, 10, 20, 30]))
    assert G.nodes().tolist() == [7, 10, 20, 30]


def test_strings_are_renumbered(rapids: SimpleNamespace) -> None:
    G = rapids.drop_in.Graph()
    G.from_cudf_edgelist(pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"]}), "a", "b")
    assert G.renumbered is True
    assert G.nodes().tolist() == ["x", "y", "z"]
    table = G.renumber_map.implementation.df
    assert dict(zip(table["0"], table["id"], strict=True)) == {
        name: int(G.dynamic_graph.vertex_numbers([name])[0]) for name in "xyz"
    }
    assert G.renumber_map is G.renumber_map
    G.insert_edges((["z"], ["new"]))
    assert "new" in G.renumber_map.implementation.df["0"].tolist()


def test_an_undirected_edge_gets_the_weight_that_cugraph_gives_it(rapids: SimpleNamespace) -> None:
    """The smallest of rows that name it alike, then the mean of both directions."""
    G = rapids.drop_in.Graph()
    frame = pd.DataFrame({"u": [1, 1, 2, 3, 5], "v": [2, 2, 1, 4, 5], "w": [9, 3, 5, 7, 2]})
    G.from_cudf_edgelist(frame, "u", "v", weight="w")
    table = G.view_edge_list()
    assert sorted(table.itertuples(index=False, name=None)) == [(1, 2, 4.0), (3, 4, 7.0), (5, 5, 2.0)]


def test_undirected_edges_that_were_given_both_ways_are_shown_both_ways(rapids: SimpleNamespace) -> None:
    """cuGraph's tests of random walks search each step of a walk in ``input_df``."""
    G = rapids.drop_in.Graph()
    frame = pd.DataFrame({"u": [1, 2, 2, 3, 5], "v": [2, 1, 3, 2, 5], "w": [4.0, 4.0, 7.0, 7.0, 2.0]})
    G.from_cudf_edgelist(frame, "u", "v", edge_attr="w")
    both = [(1, 2, 4.0), (2, 1, 4.0), (2, 3, 7.0), (3, 2, 7.0), (5, 5, 2.0)]
    assert sorted(G.input_df.itertuples(index=False, name=None)) == both
    assert len(rapids.cugraph.louvain(G)[3]) == 5, "the frame that cuGraph's own functions get"
    assert (len(G.view_edge_list()), G.number_of_edges()) == (3, 3)
    G.delete_edges(([3], [2]))
    assert sorted(G.input_df.itertuples(index=False, name=None)) == [both[0], both[1], both[4]]
    once = rapids.drop_in.Graph()
    once.from_cudf_edgelist(frame[::2], "u", "v", edge_attr="w")
    assert sorted(once.input_df.itertuples(index=False, name=None)) == [both[0], both[2], both[4]]


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (FRAME.astype("Int64").assign(a=pd.array([10, None, 20], "Int64")), {}, "`a` has a null at row 1"),
        (FRAME.assign(a="x", b=["y", "z", None]), {}, "`b` has a null at row 2"),
        (FRAME.assign(w=[1, 2, None]), {"source": ["a", "w"], "destination": ["b", "w"]}, "`w` has a null at row 2"),
        (FRAME, {"vertices": pd.Series([10, None])}, "`vertices` has a null at row 1"),
    ],
)
def test_null_ids_are_refused(rapids: SimpleNamespace, frame: Any, options: dict[str, Any], message: str) -> None:
    """CuGraph makes them vertex 0."""
    G = rapids.drop_in.Graph()
    for fill in (G.from_cudf_edgelist, G.from_pandas_edgelist):
        with pytest.raises(InputError, match=f"cugraph.Graph: {message}; wanted a vertex id"):
            fill(frame, **{"source": "a", "destination": "b", **options})
        assert G._Impl is None
    G.from_cudf_edgelist(FRAME, "a", "b")
    with pytest.raises(InputError, match="`a` has a null at row 1"):
        G.insert_edges(pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [2, 3]}))
    assert G.number_of_edges() == 2


def test_null_ids_of_an_adjacency_list_are_refused(rapids: SimpleNamespace) -> None:
    G = rapids.drop_in.Graph()
    with pytest.raises(InputError, match="`index_col` has a null at row 1"):
        G.from_cudf_adjlist(pd.Series([0, 1, 2]), pd.Series([1, None]))
    G.from_cudf_adjlist(pd.Series([0, 1, 2]), index_col=pd.Series([1, 0]))


NOT_OURS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "several columns": (FRAME, {"source": ["a", "w"], "destination": ["b", "w"]}, "more than one column"),
    "categories": (FRAME.astype({"a": "category", "b": "category"}), {}, "vertices are category"),
    "short integers": (FRAME.astype({"a": np.int8, "b": np.int16}), {}, "vertices are int8 and int16"),
    "negative": (FRAME.assign(a=-1), {}, "negative"),
    "floats": (FRAME.assign(a=0.5), {}, "float64"),
    "unsigned": (FRAME.astype({"a": np.uint32}), {}, "uint32"),
    "mixed": (FRAME.assign(a="x"), {}, "int64"),
    "strings as they are": (FRAME.assign(a="x", b="y"), {"renumber": False}, "vertices are"),
    "edge ids": (FRAME, {"edge_id": "w"}, "ids or types of edges are no integers"),
    "edge attributes": (FRAME, {"edge_attr": ["w", "w", "w"]}, "ids or types of edges are no integers"),
    "two weights": (FRAME, {"edge_attr": "w", "weight": "w"}, "edge_attr has to be alone"),
    "no column": (FRAME, {"source": "c"}, "not found"),
    "nulls": (FRAME.assign(w=[1, None, 2]), {"weight": "w"}, "nulls"),
    "no edges": (FRAME[:0], {}, "no edges"),
    "symmetrized directed": (FRAME, {"symmetrize": True}, "directed"),
    "no frame": ("abc", {}, "the edges are a str"),
    "weights": (FRAME.assign(w="x"), {"weight": "w"}, "no numbers"),
    "sparse rows": (FRAME.assign(a=2**29), {"renumber": False}, "max_vertices"),
}


@pytest.mark.parametrize("case", NOT_OURS)
def test_what_a_dynamic_graph_cannot_hold_is_cugraphs(rapids: SimpleNamespace, case: str) -> None:
    frame, options, reason = NOT_OURS[case]
    options = {"source": "a", "destination": "b", **options}
    G = rapids.drop_in.Graph(directed=True)
    G.from_cudf_edgelist(frame, **options)
    assert type(G._Impl).__name__ == "simpleGraphImpl"
    assert G.edgelist is frame
    call = dynstore.explain(G)
    assert (call.path, call.version) == ("rebuilt", None)
    assert reason in call.reason


def test_a_symmetric_frame_is_cugraphs_to_check() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "require", lambda caller, module: SimpleNamespace(DataFrame=pd.DataFrame))
        patch.setattr(build, "cuda_problem", lambda: None)
        options = {**DEFAULTS, "source": "a", "destination": "b"}
        assert reason_for_cugraph(FRAME, False, options) is None
        assert "vouches" in str(reason_for_cugraph(FRAME, False, {**options, "symmetrize": False}))
        patch.setattr(build, "cuda_problem", lambda: "no CUDA here")
        assert reason_for_cugraph(FRAME, False, options) == "no CUDA here"


def test_arguments_that_cugraph_does_not_have_are_refused_by_it(rapids: SimpleNamespace) -> None:
    G = rapids.drop_in.Graph()
    with pytest.raises(TypeError, match="colour"):
        G.from_cudf_edgelist(FRAME, "a", "b", colour="red")
    with pytest.raises(TypeError):
        rapids.drop_in.Graph(3)
    assert G._Impl is None or type(G._Impl).__name__ == "simpleGraphImpl"


def test_functions_take_dynamic_graphs(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu")
    graph.insert_edges(([0, 1], [1, 2]))
    assert rapids.drop_in.bfs(graph).edges() == [(0, 1), (1, 2)]
    assert rapids.drop_in.pagerank(G=graph).transposed
    assert rapids.drop_in.bfs.__name__ == "bfs"
    assert rapids.drop_in.bfs is rapids.drop_in.bfs
    assert dynstore.explain(graph).path == "borrowed"


def test_everything_else_is_cugraphs(rapids: SimpleNamespace) -> None:
    assert rapids.drop_in.MultiGraph is rapids.cugraph.MultiGraph
    assert rapids.drop_in.as_cugraph(dynstore.DynamicGraph(device="cpu")).number_of_edges() == 0
    assert rapids.drop_in.__version__ == "26.10.00"
    assert "pagerank" in dir(rapids.drop_in)
    with pytest.raises(AttributeError, match="pagerankk"):
        _ = rapids.drop_in.pagerankk


def test_graphs_from_frames_are_live(rapids: SimpleNamespace) -> None:
    cugraph, real = rapids.drop_in, rapids.cugraph
    for using in (None, cugraph.Graph, real.Graph, cugraph.Graph(), real.Graph()):
        G = cugraph.from_cudf_edgelist(FRAME, "a", "b", create_using=using)
        # The stand-in for cuDF is pandas, whose module is not called cudf.
        assert ("cuGraph's own", real.Graph if using is cugraph.Graph else using) == G


def test_a_frame_of_cudf_makes_a_live_graph(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    cugraph, real = rapids.drop_in, rapids.cugraph
    monkeypatch.setattr("dynstore.adapters.cugraph._library_of", lambda frame: "cudf")
    for using, directed in ((cugraph.Graph, False), (cugraph.Graph(directed=True), True), (None, False)):
        G = cugraph.from_cudf_edgelist(FRAME, "a", "b", edge_attr="w", create_using=using)
        assert G.dynamic_graph.is_directed() == directed
        assert G.insert_edges(([1], [2], [1.0])).inserted == 1
    own = cugraph.from_cudf_edgelist(FRAME, "a", "b", create_using=real.MultiGraph)
    assert own == ("cuGraph's own", real.MultiGraph)
    with pytest.raises(TypeError):
        cugraph.from_cudf_edgelist()


def test_a_class_derived_from_graph_is_a_class_like_any_other(rapids: SimpleNamespace) -> None:
    class Own(rapids.drop_in.Graph):
        pass

    made = Own(directed=True)
    assert type(made) is Own
    assert not isinstance(rapids.cugraph.Graph(), Own)
    assert issubclass(Own, rapids.drop_in.Graph)
    assert Own != rapids.drop_in.Graph


def test_a_graph_goes_when_the_last_reference_goes(rapids: SimpleNamespace) -> None:
    G = rapids.drop_in.Graph()
    G.from_cudf_edgelist(FRAME, "a", "b")
    gone = weakref.ref(G.dynamic_graph)
    gc.disable()
    try:
        del G
        assert gone() is None
    finally:
        gc.enable()


def test_a_lent_graph_shows_what_it_was_made_of() -> None:
    rows = np.array([0, 1, 1]), np.array([1]), None, np.array([5, 6])
    assert LentGraph(*rows, transposed=True).edges() == [(6, 5)]


@pytest.mark.skipif(importlib.util.find_spec("cugraph") is not None, reason="cuGraph is installed here")
def test_without_cugraph_the_line_to_type_is_given() -> None:
    from dynstore.adapters import cugraph

    for name in ("bfs", "Graph", "from_cudf_edgelist", "no_such_thing"):
        with pytest.raises(MissingDependencyError, match=r"pip install 'dynstore\[rapids\]'"):
            getattr(cugraph, name)
