"""Graphs for those functions of cuGraph that read ids and types of edges: its samplers.

Borrowed rows have no such columns. So these functions get one that SGGraph builds, once a version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.cugraph.shown import shown_ids
from dynstore.adapters.libraries import require

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph

__all__ = ["build_with_properties", "properties_for"]

CALLER = "cugraph.Graph"
READERS = ("heterogeneous_neighbor_sample", "homogeneous_neighbor_sample")
# The extra columns that cuGraph gets, under its own names for them.
EDGE_ID, EDGE_TYPE = "edge_id", "edge_type"


def properties_for(G: DynamicGraph, call: str) -> tuple[str, ...]:
    """Return the graph's columns of integers that a function of cuGraph reads."""
    if call not in READERS:
        return ()
    dtypes = G.edge_dtypes
    return tuple(name for name in (EDGE_ID, EDGE_TYPE) if name in dtypes and dtypes[name].kind in "iu")


def build_with_properties(G: DynamicGraph, names: tuple[str, ...], transposed: bool) -> tuple[Any, int]:
    """Let pylibcugraph build an SGGraph with ids or types of edges; also return the bytes that were copied."""
    cupy, plc = require(CALLER, "cupy"), require(CALLER, "pylibcugraph")
    csr = G.snapshot()
    held, number_map = csr.mask(), shown_ids(G).number_map
    src, dst = (cupy.asarray(column[held]) for column in (csr.sources, csr.indices))
    weights = None if csr.weights is None else cupy.asarray(csr.weights[held])
    extra = {name: cupy.asarray(column[held]) for name, column in G.snapshot_columns().items() if name in names}
    edge_ids, edge_types = extra.get(EDGE_ID), extra.get(EDGE_TYPE)
    if edge_ids is not None:  # cuGraph wants ids of edges and of vertices of one type
        dtype = np.promote_types(number_map.dtype, np.int32 if edge_ids.dtype.itemsize <= 4 else np.int64)
        edge_ids, number_map = edge_ids.astype(dtype), number_map.astype(dtype)
    edge_types = None if edge_types is None else edge_types.astype(np.int32)
    columns = number_map[src], number_map[dst]
    graph = plc.SGGraph(
        plc.ResourceHandle(),
        plc.GraphProperties(is_symmetric=not G.is_directed(), is_multigraph=False),
        *columns,
        weight_array=weights,
        edge_id_array=edge_ids,
        edge_type_array=edge_types,
        store_transposed=transposed,
        renumber=True,
        do_expensive_check=False,
        input_array_format="COO",
        vertices_array=number_map,
    )
    copied = (*columns, weights, edge_ids, edge_types)
    return graph, sum(int(column.nbytes) for column in copied if column is not None)
