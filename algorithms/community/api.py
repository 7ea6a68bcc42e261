"""Triangle counting, as in cuGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.algorithms.calls import algorithm, run_native
from dynstore.algorithms.inputs import all_vertices, read_vertices, to_ids
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Array, Frame

__all__ = ["chosen_counts", "count_at_rows", "read_chosen", "triangle_count"]


@algorithm(
    paper="Schank, Wagner: Finding, Counting and Listing All Triangles in Large Graphs, WEA 2005", needs_undirected=True
)
def triangle_count(G: AnyGraph, start_list: Any = None) -> Frame:
    """Count the triangles at each vertex.

    Parameters
    ----------
    G : DynamicGraph or GraphView
        An undirected graph. Self-loops and weights do not count.
    start_list : int, str, list, array, series or frame of one column, optional
        The vertices to report, in this order. By default all.

    Returns
    -------
    frame
        One row for each vertex, with the columns ``vertex`` and ``counts``. A triangle counts at its three corners, so
        the counts of all vertices sum to three times the triangles.

    Raises
    ------
    InputError
        If the graph is directed, or a vertex is not in it.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(directed=False, device="cpu")
    >>> report = G.insert_edges(([0, 0, 1, 2], [1, 2, 2, 3]))
    >>> dynstore.triangle_count(G)["counts"].tolist()
    [1, 1, 1, 0]
    """
    chosen = read_chosen(G, start_list)
    return chosen_counts(G, count_at_rows(G), chosen)


def count_at_rows(G: AnyGraph) -> Array:
    """Return the triangles at each row, shape (V,)."""
    counts: Array = run_native(G, "triangle_count")
    if counts is None:
        counts = G.core.backend.kernels("dynstore.algorithms.community", "triangles").count_triangles(G.snapshot())
    return counts


def read_chosen(G: AnyGraph, start_list: Any) -> Array | None:
    """Return the rows to report; None for all."""
    if start_list is None:
        return None
    return G.core.backend.asarray(read_vertices(G, "triangle_count", "start_list", start_list))


def chosen_counts(G: AnyGraph, counts: Array, chosen: Array | None) -> Frame:
    """Return the frame of the chosen rows' counts; None for all rows."""
    if chosen is None:
        return make_frame(G.core.backend, {"vertex": all_vertices(G), "counts": counts}, G.core.frames)
    columns = {"vertex": to_ids(G, chosen.astype(G.vertex_dtype)), "counts": counts[chosen]}
    return make_frame(G.core.backend, columns, G.core.frames)
