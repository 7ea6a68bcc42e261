"""Graphs for those functions of cuGraph that read ids and types of edges: its samplers, and a few others.

Borrowed rows have no such columns. So these functions get one that SGGraph builds, once a version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.adapters.cugraph.shown import shown_ids
from dynstore.adapters.libraries import require
from dynstore.errors import InputError, type_name
from dynstore.input.forms import column_names, is_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dynstore.graph import DynamicGraph
    from dynstore.typing import Array

__all__ = [
    "EDGE_ID",
    "EDGE_TYPE",
    "build_with_properties",
    "named_columns",
    "named_properties",
    "reads_properties",
    "stored_edges",
    "vertex_type",
]

CALLER = "cugraph.Graph"
READERS = (
    "decompress_to_edgelist",
    "edge_betweenness_centrality",
    "heterogeneous_neighbor_sample",
    "homogeneous_neighbor_sample",
)
# cuGraph's names of the two.
EDGE_ID, EDGE_TYPE = "edge_id", "edge_type"


def reads_properties(call: str) -> bool:
    """Return whether a function of cuGraph reads ids and types of edges."""
    return call in READERS


def named_properties(G: DynamicGraph, edge_id: str, edge_type: str) -> dict[str, str]:
    """Return cuGraph's name -> the name of the graph's column, for those of integers that the graph has."""
    dtypes = G.edge_dtypes
    pairs = {EDGE_ID: edge_id, EDGE_TYPE: edge_type}
    return {name: own for name, own in pairs.items() if own in dtypes and dtypes[own].kind in "iu"}


def vertex_type(G: DynamicGraph, names: Mapping[str, str]) -> np.dtype:
    """Return the type of the vertices' ids in a graph with properties; ``names`` as of :func:`named_properties`.

    cuGraph takes ids of edges and of vertices of one type only, so wide ids of edges widen the vertices.
    """
    shown: np.dtype = shown_ids(G).number_map.dtype
    if EDGE_ID not in names:
        return shown
    return np.promote_types(shown, np.int32 if G.edge_dtypes[names[EDGE_ID]].itemsize <= 4 else np.int64)


def named_columns(edges: Any, names: Iterable[str]) -> tuple[Any, ...]:
    """Return some columns of a frame of edges; refuse what is no frame, or lacks one of them."""
    if not is_frame(edges):
        raise InputError(
            f"insert_edges: edge_id and edge_type name columns of a frame; edges is a {type_name(edges)}. A tuple has "
            "these columns at its end; leave the names out"
        )
    there = column_names(edges)
    missing = [name for name in names if name not in there]
    if missing:
        shown = ", ".join(map(str, there)) or "none"
        raise InputError(f"insert_edges: columns not found: {', '.join(missing)}; the frame has {shown}")
    return tuple(edges[name] for name in names)


def stored_edges(G: DynamicGraph, names: Iterable[str]) -> tuple[Array, Array, Array | None, dict[str, Array]]:
    """Return the rows of the ends of all stored edges, their weights or None, and some of their extra columns.

    Undirected edges are in both directions. All are new arrays of CuPy, shape (E,).
    """
    cupy, csr, columns = require(CALLER, "cupy"), G.snapshot(), G.snapshot_columns()
    held = csr.mask()
    src, dst = (cupy.asarray(column[held]) for column in (csr.sources, csr.indices))
    weights = None if csr.weights is None else cupy.asarray(csr.weights[held])
    return src, dst, weights, {name: cupy.asarray(columns[name][held]) for name in names}


def build_with_properties(G: DynamicGraph, names: Mapping[str, str], transposed: bool) -> tuple[Any, int]:
    """Let pylibcugraph build an SGGraph with ids or types of edges; also return the bytes that were copied.

    ``names``: as :func:`named_properties` returns them.
    """
    plc, number_map = require(CALLER, "pylibcugraph"), shown_ids(G).number_map
    src, dst, weights, extra = stored_edges(G, names.values())
    edge_ids, edge_types = (extra[names[name]] if name in names else None for name in (EDGE_ID, EDGE_TYPE))
    dtype = vertex_type(G, names)
    number_map = number_map.astype(dtype)
    edge_ids = None if edge_ids is None else edge_ids.astype(dtype)
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
