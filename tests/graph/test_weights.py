"""Weights never vanish: where they are found, when they are refused, and graphs that are made from graphs."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputError, InputTypeError, LimitError
from dynstore.testing.invariants import check_graph
from tests.libraries import FRAMES, from_pandas

FRAME = pd.DataFrame({"source": [0, 1, 1], "destination": [1, 2, 0], "weight": [5.0, 2.5, 4.0]})


def weights_of(G: DynamicGraph) -> dict[tuple[Any, Any], float]:
    table = G.to_pandas()
    return {(u, v): w for u, v, w in table.itertuples(index=False)}


@pytest.mark.parametrize("library", FRAMES)
def test_a_column_called_weight_is_used(library: str) -> None:
    frame = from_pandas(library, FRAME)
    G = DynamicGraph(weighted=True, device="cpu")
    G.insert_edges(frame)
    assert weights_of(G) == {(0, 1): 5.0, (1, 0): 4.0, (1, 2): 2.5}
    assert weights_of(DynamicGraph.from_edges(frame, device="cpu")) == weights_of(G)


def test_a_named_column_comes_before_it() -> None:
    G = DynamicGraph.from_edges(FRAME.assign(w=[1, 2, 3]), weight="w", device="cpu")
    assert weights_of(G) == {(0, 1): 1.0, (1, 0): 3.0, (1, 2): 2.0}


@pytest.mark.parametrize("edges", [FRAME[["source", "destination"]], ([0], [1]), [(0, 1)]])
def test_a_weighted_graph_refuses_edges_without_weights(edges: Any) -> None:
    G = DynamicGraph(weighted=True, device="cpu")
    G.insert_edges(FRAME)
    with pytest.raises(InputError, match=r"the edges have no weights.*weight=.*default_weight=1\.0"):
        G.insert_edges(edges)
    assert weights_of(G)[0, 1] == 5.0
    G.insert_edges(edges, default_weight=0.5)
    assert weights_of(G)[0, 1] == 0.5


def test_the_default_weight_is_a_number() -> None:
    G = DynamicGraph(weighted=True, device="cpu")
    with pytest.raises(InputTypeError, match="default_weight is 'x'; wanted a number"):
        G.insert_edges([(0, 1)], default_weight="x")  # type: ignore[arg-type]
    with pytest.raises(LimitError, match="default_weight is an integer of 1329 bits; floats go to"):
        G.insert_edges([(0, 1)], default_weight=10**400 + 1)
    with pytest.raises(InputError, match="default_weight is NaN"):
        G.insert_edges([(0, 1)], default_weight=float("nan"))
    assert DynamicGraph.from_edges([(0, 1)], default_weight=2, device="cpu").to_pandas()["weight"].tolist() == [2.0]


def test_an_unweighted_graph_ignores_the_column_and_logs_that_once(caplog: pytest.LogCaptureFixture) -> None:
    G = DynamicGraph(device="cpu")
    with caplog.at_level(logging.INFO, "dynstore"):
        G.insert_edges(FRAME)
        G.insert_edges(FRAME)
    assert [record.getMessage() for record in caplog.records] == [
        "insert_edges: the graph is unweighted, so the column `weight` is ignored"
    ]
    assert G.number_of_edges() == 3
    with pytest.raises(InputError, match="the graph is unweighted; make it with weighted=True"):
        G.insert_edges(FRAME, weight="weight")
    G.insert_edges([(7, 8)], default_weight=1.0)


def sample(**options: Any) -> DynamicGraph:
    """A graph with gaps, a self-loop and isolated vertices, whatever its ids."""
    G = DynamicGraph(device="cpu", **options)
    ids = np.array([f"v{number}" for number in range(30)]) if options.get("renumber") else np.arange(30)
    src, dst = ids[np.random.default_rng(3).integers(0, 25, (2, 90))]
    columns = (src, dst, np.arange(90.0)) if G.is_weighted() else (src, dst)
    G.insert_edges(columns)
    G.delete_edges((src[::4], dst[::4]))
    G.insert_edges(tuple(column[:1] for column in (ids[3:], ids[3:], np.ones(1)))[: len(columns)])
    G.insert_vertices(ids)
    return G


KINDS = [
    {"directed": directed, "weighted": weighted, **more}
    for directed in (True, False)
    for weighted in (True, False)
    for more in ({}, {"renumber": True}, {"vertex_dtype": "int64", "weight_dtype": "float64"})
]


def assert_equal(one: DynamicGraph, other: DynamicGraph, vertices: bool = True) -> None:
    check_graph(other)
    assert (one.is_directed(), one.is_weighted()) == (other.is_directed(), other.is_weighted())
    assert (one.vertex_dtype, one.weight_dtype) == (other.vertex_dtype, other.weight_dtype)
    assert one.is_renumbered() == other.is_renumbered()
    columns = list(one.to_pandas().columns)
    left, right = (graph.to_pandas().sort_values(columns, ignore_index=True) for graph in (one, other))
    if not one.is_directed():  # pairs come in the order of numbers
        assert {frozenset((u, v)) for u, v, *_ in left.itertuples(index=False)} == {
            frozenset((u, v)) for u, v, *_ in right.itertuples(index=False)
        }
    else:
        pd.testing.assert_frame_equal(left, right)
    if vertices:
        assert sorted(one.vertex_ids().tolist()) == sorted(other.vertex_ids().tolist())


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_a_graph_made_from_a_graph_or_its_tables_is_the_same(options: dict[str, Any]) -> None:
    G = sample(**options)
    assert_equal(G, DynamicGraph.from_edges(G))
    dense = not G.is_renumbered()
    for table in (G.to_pandas(), G.to_arrow(), G.to_arrow(compact=True), pa.table(G)):
        assert_equal(G, DynamicGraph.from_edges(table, device="cpu"), vertices=dense)


def test_a_graph_made_from_a_graph_takes_other_options() -> None:
    G = sample(directed=False, weighted=True)
    twin = DynamicGraph.from_edges(G, store="merge", vertex_dtype="int64", directed=True)
    assert (twin.store_name, twin.is_directed(), twin.number_of_vertices()) == ("merge", True, 30)
    assert twin.number_of_edges() == G.number_of_edges()
    assert not DynamicGraph.from_edges(G, weighted=False).is_weighted()
    plain = sample()
    with pytest.raises(InputError, match=r"default_weight=1\.0"):
        DynamicGraph.from_edges(plain, weighted=True)
    assert DynamicGraph.from_edges(plain, weighted=True, default_weight=3.0).to_pandas()["weight"].unique() == [3.0]
    names = DynamicGraph.from_edges(plain, renumber=True)
    assert sorted(names.vertex_ids().tolist()) == list(range(30))
    twin.insert_edges([(0, 29, 1.0)])
    assert not G.has_edges([(0, 29)]).any()


def test_a_damaged_mark_is_ignored() -> None:
    frame = sample(directed=False).to_pandas()
    for mark in ("{", "[1]", 7, "null"):
        frame.attrs["dynstore.origin"] = mark
        assert DynamicGraph.from_edges(frame, device="cpu").is_directed()


def test_large_weights_of_different_edges_are_added_without_a_warning() -> None:
    G = DynamicGraph(weighted=True, device="cpu")
    G.insert_edges(([0, 1], [1, 2], [3e38, 3e38]), on_duplicate="add")
    assert weights_of(G) == pytest.approx({(0, 1): 3e38, (1, 2): 3e38})
