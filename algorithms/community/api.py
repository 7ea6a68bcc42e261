"""Triangle counting, as in cuGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.algorithms.calls import algorithm
from dynstore.algorithms.community.by_row import chosen_counts, count_at_rows, read_chosen

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Frame

__all__ = ["triangle_count"]


@algorithm(
    asks="how many triangles is each vertex in?",
    paper="Schank, Wagner: Finding, Counting and Listing All Triangles in Large Graphs, WEA 2005",
    columns={"vertex": "vertex", "counts": "vertex"},
    compute=count_at_rows,
    needs_undirected=True,
    kernels="triangles",
    forms=("slabs", "paged"),
    tracked="TriangleAnswer",
    cugraph=("triangle_count",),
    networkx=("average_clustering", "clustering", "transitivity", "triangles"),
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
