"""Triangle counting, as in cuGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.algorithms.inputs import all_vertices, read_vertices, to_ids
from dynstore.algorithms.registry import algorithm
from dynstore.frames import make_frame

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph

__all__ = ["triangle_count"]


@algorithm(
    paper="Schank, Wagner: Finding, Counting and Listing All Triangles in Large Graphs, WEA 2005", needs_undirected=True
)
def triangle_count(G: DynamicGraph, start_list: Any = None) -> Any:
    """Count the triangles that each vertex is a corner of.

    Parameters
    ----------
    G : DynamicGraph
        Undirected; self-loops and weights do not matter.
    start_list : int, list, array, series or frame of one column, optional
        The vertices to report, in this order; all by default.

    Returns
    -------
    frame
        ``vertex``; ``counts``, in the vertex dtype. Over all vertices the counts sum to three times the triangles.

    Raises
    ------
    InputError
        For a directed graph, or a vertex that the graph does not have.
    """
    backend = G.backend
    chosen = None
    if start_list is not None:
        chosen = backend.asarray(read_vertices(G, "triangle_count", "start_list", start_list))
    kernels = backend.kernels("dynstore.algorithms", "community")
    counts = kernels.count_triangles(G.snapshot())
    if chosen is None:
        return make_frame(backend, {"vertex": all_vertices(G), "counts": counts})
    return make_frame(backend, {"vertex": to_ids(G, chosen.astype(G.vertex_dtype)), "counts": counts[chosen]})
