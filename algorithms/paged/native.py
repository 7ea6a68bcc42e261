"""The public algorithms over the rows of store "paged", without a table of all edges.

Each function has the name of a public algorithm, and returns what its kernels over a table do; None where only these
can do what is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.link_analysis.scaling import are_moderate
from dynstore.algorithms.paged import betweenness, paths, searches, sweeps, triangles
from dynstore.algorithms.paged.passes import PageReader
from dynstore.errors import InputError
from dynstore.graph import DynamicGraph

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.stores.base import NativeRows
    from dynstore.typing import Array

__all__ = ["betweenness_centrality", "bfs", "pagerank", "sssp", "triangle_count", "weakly_connected_components"]


def bfs(
    G: AnyGraph, rows: NativeRows, sources: np.ndarray, limit: int, parents: bool
) -> tuple[Array, Array | None] | None:
    """Search as :func:`dynstore.bfs`."""
    if not sources.size:
        return None
    into = _kept_in_edges(G)
    distances, predecessors = searches.bfs(_reader(rows), sources, not G.is_directed(), limit, parents, into)
    return _in_vertex_dtype(G, distances), None if predecessors is None else predecessors.astype(G.vertex_dtype)


def sssp(G: AnyGraph, rows: NativeRows, source: int, limit: float) -> tuple[Array, Array]:
    """Search as :func:`dynstore.sssp`."""
    distances, predecessors = paths.sssp(_reader(rows), source, limit, predecessors=True)
    assert predecessors is not None
    return distances, predecessors.astype(G.vertex_dtype)


def pagerank(
    G: AnyGraph,
    rows: NativeRows,
    out_weights: Array | None,
    alpha: float,
    personalization: Array | None,
    start: Array,
    max_iter: int,
    tol: float,
) -> tuple[Array, int, float] | None:
    """Rank as :func:`dynstore.pagerank`; ``rows`` are in-edges.

    Personalization, and weights whose sums need scaling, want a table.
    """
    if personalization is not None:
        return None
    if not rows.num_vertices:
        return start.copy(), 0, 0.0
    into, weighted = _reader(rows), G.is_weighted()
    if weighted and into.has_negative_weights():
        raise InputError("pagerank: the graph has negative weights; wanted weights of at least 0")
    if out_weights is None and weighted:
        out_weights = sweeps.sum_out_weights(into)
    if out_weights is None:
        out = G.core.native_rows()
        assert out is not None
        out_weights = out.table.count_degrees()
    with np.errstate(over="ignore"):  # a sum that does not fit is infinite
        out_weights = out_weights.astype(start.dtype)
    if weighted and not are_moderate(G.core.backend.xp, out_weights):
        return None
    kernels = G.core.backend.kernels("dynstore.algorithms.paged", "sweeps")
    ranked: tuple[Array, int, float] = kernels.pagerank(into, out_weights, alpha, start, max_iter, tol, weighted)
    return ranked


def weakly_connected_components(G: AnyGraph, rows: NativeRows) -> Array:
    """Label as :func:`dynstore.weakly_connected_components`."""
    return sweeps.weakly_connected_components(_reader(rows)).astype(G.vertex_dtype, copy=False)


def triangle_count(G: AnyGraph, rows: NativeRows) -> Array:
    """Count as :func:`dynstore.triangle_count`."""
    return triangles.triangle_count(_reader(rows)).astype(G.vertex_dtype, copy=False)


def betweenness_centrality(G: AnyGraph, rows: NativeRows, sources: np.ndarray, endpoints: bool) -> Array:
    """Sum the dependencies of sources as :func:`dynstore.betweenness_centrality`, before they are scaled."""
    return betweenness.sum_dependencies(_reader(rows), sources, endpoints)


def _kept_in_edges(G: AnyGraph) -> PageReader | None:
    """Return the reader of a directed graph's in-edges if they are kept; to make them would burden all updates."""
    if not (isinstance(G, DynamicGraph) and G.is_directed() and G.core.into is not None):
        return None
    rows = G.core.native_rows(transposed=True)
    return None if rows is None else _reader(rows)


def _reader(rows: NativeRows) -> PageReader:
    table = rows.table
    return PageReader(table.packed, resident=table.resident, valid=table.valid, extra=table.extra)


def _in_vertex_dtype(G: AnyGraph, distances: Array) -> Array:
    """Return distances whose largest value stands for unreached vertices in the vertex dtype."""
    if distances.dtype == G.vertex_dtype:
        return distances
    unreached = distances == np.iinfo(distances.dtype).max
    wide = distances.astype(G.vertex_dtype)
    wide[unreached] = np.iinfo(G.vertex_dtype).max
    return wide
