"""Which functions of cuGraph get ids and types of edges, and that they are those of the edges."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.adapters.cugraph.graph import as_cugraph
from tests.adapters.cugraph.stand_ins import LentGraph, rapids

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
