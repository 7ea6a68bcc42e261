"""One small graph, as a DynamicGraph and as NetworkX's, and how results of any device are looked at."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import dynstore

__all__ = ["both_dtypes", "check_frame", "column", "host", "kite", "reference"]

KITE = ([0, 0, 1, 1, 2, 3, 4, 4], [1, 2, 2, 3, 3, 4, 5, 4])  # two triangles, a tail, a loop
KITE_WEIGHTS = [1.0, 4.0, 2.0, 6.0, 1.0, 3.0, 1.0, 9.0]


def kite(device: str, **options: Any) -> dynstore.DynamicGraph:
    """Return the graph of the constants above; vertex 6 is isolated."""
    edges = (*KITE, KITE_WEIGHTS) if options.get("weighted") else KITE
    options.setdefault("directed", False)
    graph = dynstore.DynamicGraph.from_edges(edges, device=device, **options)
    graph.insert_vertices([6])
    return graph


def reference(directed: bool = False) -> Any:
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from(range(7))
    graph.add_weighted_edges_from(zip(*KITE, KITE_WEIGHTS, strict=True))
    return graph


def host(frame: Any) -> pd.DataFrame:
    return frame.to_pandas() if hasattr(frame, "to_pandas") else frame


def check_frame(frame: Any, **dtypes: Any) -> pd.DataFrame:
    """Check columns, their order and dtypes, and that vertices are 0 .. V-1."""
    table = host(frame)
    assert list(table.columns) == list(dtypes)
    for name, dtype in dtypes.items():
        assert table[name].dtype == dtype, name
    np.testing.assert_array_equal(table["vertex"], np.arange(len(table)))
    return table


def column(values: dict[int, float]) -> np.ndarray:
    return np.array([values[v] for v in sorted(values)])


def both_dtypes(function: Any) -> Any:
    dtypes = [("int32", "float32"), ("int64", "float64")]
    return pytest.mark.parametrize("options", [{"vertex_dtype": v, "weight_dtype": w} for v, w in dtypes])(function)
