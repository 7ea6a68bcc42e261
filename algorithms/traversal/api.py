"""Breadth-first search and shortest paths, as in cuGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.calls import algorithm, run_native
from dynstore.algorithms.inputs import has_negative_weights, one_of, read_vertices, refuse_arguments, vertices_and
from dynstore.arguments import check_integer, check_number
from dynstore.errors import InputError
from dynstore.input.frames import make_frame

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Array, Frame

__all__ = ["bfs", "bfs_frame", "read_bfs", "read_sssp", "search_hops", "search_lengths", "sssp", "sssp_frame"]


@algorithm(paper="Beamer, Asanović, Patterson: Direction-Optimizing Breadth-First Search, SC 2012")
def bfs(
    G: AnyGraph,
    start: Any = None,
    depth_limit: int | None = None,
    i_start: Any = None,
    directed: None = None,
    return_predecessors: bool = True,
) -> Frame:
    """Find how many edges each vertex is away from the nearest start vertex.

    Undirected graphs are searched in both directions (top-down and bottom-up), directed ones top-down; on CUDA also
    small ones.

    Parameters
    ----------
    G : DynamicGraph or GraphView
        Weights are not used.
    start : int, str, list, array, series or frame of one column
        One start vertex or several. All of them have distance 0.
    depth_limit : int, optional
        The largest distance to search. Vertices farther away stay unreached. A negative number means no limit.
    i_start : optional
        Another name of ``start``.
    directed : None
        Must be None; cuGraph has it for matrices only.
    return_predecessors : bool
        If False, the column of predecessors is filled with -1, which is faster.

    Returns
    -------
    frame
        One row for each vertex, in order, with the columns

        - ``vertex``
        - ``distance``: in the vertex dtype; its largest value for unreached vertices
        - ``predecessor``: the smallest vertex before it on a shortest path; -1 for start and unreached vertices

    Raises
    ------
    InputError
        If a start vertex is not in the graph.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(device="cpu")
    >>> report = G.insert_edges(([0, 0, 1], [1, 2, 3]))
    >>> dynstore.bfs(G, start=0)
       vertex  distance  predecessor
    0       0         0           -1
    1       1         1            0
    2       2         1            0
    3       3         2            1
    """
    sources, limit = read_bfs(G, start, depth_limit, i_start, directed)
    parents = bool(return_predecessors)
    return bfs_frame(G, *search_hops(G, sources, limit, parents))


def read_bfs(
    G: AnyGraph, start: Any = None, depth_limit: int | None = None, i_start: Any = None, directed: None = None
) -> tuple[np.ndarray, int]:
    """Return the rows to start from, ascending, and the largest distance."""
    refuse_arguments("bfs", directed=directed)
    start = one_of("bfs", "start", start, "i_start", i_start)
    sources = np.unique(read_vertices(G, "bfs", "the input sources", start))
    limit = int(np.iinfo(G.vertex_dtype).max)
    if depth_limit is not None and check_integer("bfs", "depth_limit", depth_limit) >= 0:
        limit = min(int(depth_limit), limit)
    return sources, limit


def search_hops(G: AnyGraph, sources: np.ndarray, limit: int, parents: bool = True) -> tuple[Array, Array | None]:
    """Return distances and predecessors of all rows; predecessors are None unless ``parents``."""
    found: tuple[Array, Array | None] | None = run_native(G, "bfs", sources, limit, parents)
    if found is not None:
        return found
    out = G.snapshot()
    # This makes no second orientation for a directed graph: every later update would have to maintain it.
    into = None if G.is_directed() else out
    found = G.core.backend.kernels("dynstore.algorithms.traversal", "search").bfs(out, into, sources, limit, parents)
    return found


def bfs_frame(G: AnyGraph, distances: Array, predecessors: Array | None) -> Frame:
    """Return what :func:`bfs` returns."""
    if predecessors is None:
        predecessors = G.core.backend.xp.full(distances.shape[0], -1, dtype=G.vertex_dtype)
    vertices, before = vertices_and(G, predecessors)
    return make_frame(G.core.backend, {"vertex": vertices, "distance": distances, "predecessor": before}, G.core.frames)


@algorithm(
    paper="Dijkstra: A Note on Two Problems in Connexion with Graphs, Numerische Mathematik 1959", needs_weights=True
)
def sssp(
    G: AnyGraph,
    source: int | None = None,
    method: str | None = None,
    directed: None = None,
    return_predecessors: None = None,
    unweighted: None = None,
    overwrite: None = None,
    indices: int | None = None,
    cutoff: float | None = None,
) -> Frame:
    """Find the shortest paths from one vertex to all others.

    Parameters
    ----------
    G : DynamicGraph or GraphView
        A weighted graph without negative weights.
    source : int or str
        The vertex to start from.
    method : {None, "auto"}
        For compatibility with cuGraph.
    directed, return_predecessors, unweighted, overwrite : None
        Must be None; cuGraph has them for matrices only.
    indices : int or str, optional
        Another name of ``source``.
    cutoff : float, optional
        Only paths shorter than this are found.

    Returns
    -------
    frame
        One row for each vertex, in order, with the columns

        - ``distance``: in the weight dtype; its largest value for unreached vertices, and for distances beyond it
        - ``vertex``
        - ``predecessor``: the vertex before it on a shortest path; -1 for the source and unreached vertices

    Raises
    ------
    UnweightedGraphError
        If the graph has no weights. It is a RuntimeError too, as in cuGraph.
    InputError
        If the source is not in the graph, or a weight is negative.

    Examples
    --------
    >>> import dynstore
    >>> G = dynstore.DynamicGraph(weighted=True, device="cpu")
    >>> report = G.insert_edges(([0, 0, 1], [1, 2, 2], [1.0, 4.0, 2.0]))
    >>> dynstore.sssp(G, source=0)
       distance  vertex  predecessor
    0       0.0       0           -1
    1       1.0       1            0
    2       3.0       2            1
    """
    row, limit = read_sssp(G, source, method, directed, return_predecessors, unweighted, overwrite, indices, cutoff)
    return sssp_frame(G, *search_lengths(G, row, limit))


def read_sssp(
    G: AnyGraph,
    source: int | None = None,
    method: str | None = None,
    directed: None = None,
    return_predecessors: None = None,
    unweighted: None = None,
    overwrite: None = None,
    indices: int | None = None,
    cutoff: float | None = None,
) -> tuple[int, float]:
    """Return the row to start from, and the length that paths must stay below."""
    if method not in (None, "auto"):
        raise InputError(f"sssp: method is {method!r}; only 'auto' is accepted")
    refuse_arguments(
        "sssp",
        directed=directed,
        return_predecessors=return_predecessors,
        unweighted=unweighted,
        overwrite=overwrite,
    )
    sources = read_vertices(G, "sssp", "source", one_of("sssp", "source", source, "indices", indices))
    if sources.shape[0] != 1:
        raise InputError(f"sssp: source has {sources.shape[0]} vertices; wanted one")
    limit = np.inf if cutoff is None else check_number("sssp", "cutoff", cutoff)
    return int(sources[0]), limit


def search_lengths(G: AnyGraph, source: int, limit: float) -> tuple[Array, Array]:
    """Return distances and predecessors of all rows."""
    native: tuple[Array, Array] | None = run_native(G, "sssp", source, limit)
    if native is not None:
        return native
    out = G.snapshot()
    if has_negative_weights(out):
        raise InputError("sssp: the graph has negative weights; wanted weights of at least 0")
    found: tuple[Array, Array] = G.core.backend.kernels("dynstore.algorithms.traversal", "search").sssp(
        out, source, limit
    )
    return found


def sssp_frame(G: AnyGraph, distances: Array, predecessors: Array) -> Frame:
    """Return what :func:`sssp` returns."""
    vertices, before = vertices_and(G, predecessors)
    return make_frame(G.core.backend, {"distance": distances, "vertex": vertices, "predecessor": before}, G.core.frames)
