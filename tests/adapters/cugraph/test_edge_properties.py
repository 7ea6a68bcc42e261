"""Which functions of cuGraph get ids and types of edges, and that they are those of the edges."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.adapters.cugraph.graph import as_cugraph
from dynstore.errors import InputError
from tests.adapters.cugraph.stand_ins import LentGraph, rapids
from tests.libraries import from_pandas

__all__ = ["rapids"]  # a fixture


def rows_of(built: Any) -> list[tuple[Any, ...]]:
    """Return the edges of a graph that the stand-in of SGGraph was made with: ends, id, type."""
    columns = [*built.args[2:4], built.edge_id_array, built.edge_type_array]
    return sorted(zip(*(column.tolist() for column in columns if column is not None), strict=True))


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_samplers_get_ids_and_types_of_the_current_edges(
    rapids: SimpleNamespace, directed: bool, weighted: bool
) -> None:
    columns = {"edge_id": "int32", "place": "float32", "edge_type": "int8"}
    G = dynstore.DynamicGraph(directed, weighted, device="cpu", renumber=True, edge_columns=columns)
    live = as_cugraph(G)
    sample = rapids.cugraph.homogeneous_neighbor_sample
    frame = pd.DataFrame({"source": [30, 10, 20], "destination": [10, 20, 20], "weight": [1.0, 2.0, 3.0]})
    live.insert_edges(frame.assign(edge_type=[1, 2, 3], place=0.0, edge_id=[7, 8, 9]))
    rows = [(30, 10, 7, 1), (10, 20, 8, 2), (20, 20, 9, 3)]
    for step in range(2):
        built = sample(live)
        turned = [] if directed else [(v, u, *rest) for u, v, *rest in rows if u != v]
        assert rows_of(built) == sorted([*rows, *turned])
        assert built.edge_id_array.dtype == built.vertices_array.dtype == np.int32
        assert built.edge_type_array.dtype == np.int32
        assert (built.weight_array is not None) == weighted
        assert sample(live) is built
        call = dynstore.explain(live)
        assert (call.path, call.version) == ("rebuilt", step + 1)
        assert type(rapids.cugraph.bfs(live)) is LentGraph
        rows = [(30, 10, 7, 1), (10, 20, 11, 4), (20, 20, 9, 3)]
        if step == 0:
            live.insert_edges([(10, 20, *([5.0] if weighted else []), 11, 0.5, 4)])


def test_wide_ids_widen_the_vertices(rapids: SimpleNamespace) -> None:
    G = dynstore.DynamicGraph(device="cpu", edge_columns={"edge_id": "int64"})
    G.insert_edges(([0], [1], [2**40]))
    built = rapids.cugraph.homogeneous_neighbor_sample(as_cugraph(G))
    assert rows_of(built) == [(0, 1, 2**40)]
    assert built.args[2].dtype == built.vertices_array.dtype == np.int64
    assert built.edge_type_array is None


def test_other_columns_are_not_passed_on(rapids: SimpleNamespace) -> None:
    for columns in ({"id": "int64"}, {"edge_id": "float64"}):
        G = dynstore.DynamicGraph(device="cpu", edge_columns=columns)
        G.insert_edges(([0], [1], [2]))
        assert type(rapids.cugraph.homogeneous_neighbor_sample(as_cugraph(G))) is LentGraph


PAYMENTS = pd.DataFrame(
    {
        "payer": np.array([30, 10, 30], np.int32), "payee": np.array([10, 20, 20], np.int32), "amount": [1.0, 2.0, 3.0],
        "number": np.array([7, 8, 9], np.int64), "kind": np.array([1, 2, 3], np.int32),
    }
)  # fmt: skip
ATTRIBUTES: list[dict[str, Any]] = [
    {"edge_attr": ["amount", "number", "kind"]},
    {"weight": "amount", "edge_id": "number", "edge_type": "kind"},
    {"edge_id": "number", "edge_type": "kind"},
    {"weight": "amount", "edge_type": "kind"},
    {"edge_id": "number"},
]


def named(options: dict[str, Any]) -> list[str]:
    """Return the columns of weights, ids and types that a call names."""
    return options.get("edge_attr") or list(options.values())


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("options", ATTRIBUTES)
def test_a_frame_with_ids_and_types_makes_a_live_graph(
    rapids: SimpleNamespace, options: dict[str, Any], texts: bool
) -> None:
    frame = PAYMENTS.astype({"payer": "str", "payee": "str"}) if texts else PAYMENTS
    G = rapids.drop_in.Graph(directed=True)
    G.from_cudf_edgelist(frame, "payer", "payee", **options)
    own = named(options)
    wanted = frame[["payer", "payee", *own]]
    assert list(G.dynamic_graph.edge_dtypes) == [name for name in own if name != "amount"]
    for step in range(2):
        shown = G.view_edge_list()
        names = {"amount": "weight", "number": "edge_ids", "kind": "edge_type_ids"} if texts else {}
        assert list(shown.columns) == [names.get(name, name) for name in wanted.columns]
        assert sorted(shown.itertuples(index=False, name=None)) == sorted(wanted.itertuples(index=False, name=None))
        assert list(G.input_df.columns) == list(wanted.columns)
        built = rapids.cugraph.homogeneous_neighbor_sample(G)
        assert (built.weight_array is not None) == ("amount" in own)
        for array, name in ((built.edge_id_array, "number"), (built.edge_type_array, "kind")):
            assert (array is not None) == (name in own)
            if array is not None:
                assert sorted(array.tolist()) == sorted(wanted[name].tolist())
        assert type(rapids.cugraph.bfs(G)) is LentGraph
        new = frame[:1].assign(payee=frame["payer"][1], number=[70 + step], kind=[4])
        if step == 0:
            assert G.insert_edges(new).replaced == 1
            wanted = pd.concat([wanted[1:], new[list(wanted.columns)]])
    other = {"number": "id", "kind": "type"}
    report = G.insert_edges(
        frame.rename(columns=other)[:1],
        **({"edge_id": "id"} if "number" in own else {}),
        **({"edge_type": "type"} if "kind" in own else {}),
    )
    assert report.replaced == 1
    assert G.delete_edges(frame[["payer", "payee"]]).deleted == 3


@pytest.mark.parametrize("options", ATTRIBUTES)
def test_directed_edges_with_ids_or_types_stay_directed(rapids: SimpleNamespace, options: dict[str, Any]) -> None:
    G = rapids.drop_in.Graph(directed=True)
    G.from_cudf_edgelist(PAYMENTS, "payer", "payee", **options)
    own = ", ".join(name for name in named(options) if name != "amount")
    with pytest.raises(ValueError, match=rf"to_undirected: the edges have ids or types \({own}\)"):
        G.to_undirected()
    assert G.number_of_edges() == 3


def test_columns_under_other_names_have_to_be_there(rapids: SimpleNamespace) -> None:
    G = rapids.drop_in.Graph(directed=True)
    G.from_cudf_edgelist(PAYMENTS, "payer", "payee", edge_id="number")
    for edges, message in (
        (PAYMENTS, "insert_edges: columns not found: id; the frame has payer, payee, amount, number, kind"),
        (([1], [2], [3]), "insert_edges: edge_id and edge_type name columns of a frame; edges is a tuple"),
    ):
        with pytest.raises(InputError, match=message):
            G.insert_edges(edges, edge_id="id")
        with pytest.raises(InputError, match=message):
            rapids.drop_in.Graph(directed=True).insert_edges(edges, "payer", "payee", edge_id="id")
    with pytest.raises(InputError, match="insert_edges: edges of this graph have no column for kind; leave it out"):
        G.insert_edges(PAYMENTS, edge_type="kind")
    with pytest.raises(InputError, match="insert_edges: `amount` is float64; wanted integers, as ids and types"):
        rapids.drop_in.Graph(directed=True).insert_edges(PAYMENTS, "payer", "payee", edge_id="amount")
    assert G.number_of_edges() == 3
    assert G.insert_edges(([1], [2], [3])).inserted == 1


def test_a_graph_that_starts_empty_may_have_ids_and_types(rapids: SimpleNamespace) -> None:
    G = rapids.drop_in.Graph(directed=True)
    G.insert_edges(PAYMENTS, "payer", "payee", "amount", edge_id="number", edge_type="kind")
    assert G.dynamic_graph.edge_dtypes == {"number": np.int64, "kind": np.int32}
    assert rows_of(rapids.cugraph.homogeneous_neighbor_sample(G)) == [(10, 20, 8, 2), (30, 10, 7, 1), (30, 20, 9, 3)]
    G.insert_edges(PAYMENTS.assign(number=5))
    assert G.view_edge_list()["number"].tolist() == [5, 5, 5]


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries_have_ids_and_types(rapids: SimpleNamespace, library: str) -> None:
    frame = from_pandas(library, PAYMENTS)
    G = rapids.drop_in.Graph(directed=True)
    G.insert_edges(frame, "payer", "payee", "amount", edge_id="number")
    assert G.dynamic_graph.edge_dtypes == {"number": np.int64}
    assert G.insert_edges(frame, edge_id="number").replaced == 3
    assert G.insert_edges(frame).replaced == 3


@pytest.mark.parametrize(
    ("directed", "options", "reason"),
    [
        (False, {"edge_attr": ["amount", "number", "kind"]}, "only directed edges have ids and types in cuGraph"),
        (False, {"edge_id": "number", "symmetrize": False}, "only directed edges have ids and types in cuGraph"),
        (True, {"edge_id": "amount"}, "ids or types of edges are no integers"),
        (True, {"edge_attr": ["amount", "number"]}, "edge_attr has to be alone, and to name a weight, or"),
        (True, {"edge_attr": "amount", "edge_id": "number"}, "edge_attr has to be alone"),
        (True, {"edge_id": "nothing"}, "a column was not found"),
        (True, {"edge_id": "weight"}, "edge_columns has the name 'weight'"),
    ],
)
def test_what_a_live_graph_cannot_hold_is_left_to_cugraph(
    rapids: SimpleNamespace, directed: bool, options: dict[str, Any], reason: str
) -> None:
    G = rapids.drop_in.Graph(directed=directed)
    G.from_cudf_edgelist(PAYMENTS.assign(weight=PAYMENTS["number"]), "payer", "payee", **options)
    assert reason in dynstore.explain(G).reason


@pytest.mark.parametrize("call", ["decompress_to_edgelist", "edge_betweenness_centrality"])
def test_other_functions_that_return_ids_read_them(rapids: SimpleNamespace, call: str) -> None:
    G = dynstore.DynamicGraph(device="cpu", edge_columns={"edge_id": "int64"})
    G.insert_edges(([0], [1], [2]))
    built = as_cugraph(G)._Impl.lend(call=call)
    assert built.edge_id_array.tolist() == [2]
