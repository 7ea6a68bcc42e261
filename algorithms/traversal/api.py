"""Breadth-first search and shortest paths, as in cuGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.algorithms.calls import algorithm
from dynstore.algorithms.traversal.by_row import (
    bfs_frame,
    read_bfs,
    read_sssp,
    search_hops,
    search_lengths,
    sssp_frame,
)

if TYPE_CHECKING:
    from dynstore.graph import AnyGraph
    from dynstore.typing import Frame

__all__ = ["bfs", "sssp"]


@algorithm(
    asks="how many edges is each vertex away from a start?",
    paper="Beamer, Asanović, Patterson: Direction-Optimizing Breadth-First Search, SC 2012",
    columns={"vertex": "vertex", "distance": "vertex", "predecessor": "vertex"},
    read=read_bfs,
    compute=search_hops,
    start="start",
    example={"start": 0},
    kernels="search",
    forms=("slabs", "paged"),
    tracked="BfsAnswer",
    cugraph=("bfs",),
    networkx=(
        "all_pairs_shortest_path",
        "all_pairs_shortest_path_length",
        "bfs_edges",
        "bfs_layers",
        "bfs_predecessors",
        "bfs_successors",
        "bfs_tree",
        "descendants_at_distance",
        "generic_bfs_edges",
        "has_path",
        "node_connected_component",
        "predecessor",
        "shortest_path",
        "shortest_path_length",
        "single_source_shortest_path",
        "single_source_shortest_path_length",
        "single_target_shortest_path",
        "single_target_shortest_path_length",
    ),
)
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


@algorithm(
    asks="how long is the shortest path to each vertex, by weight?",
    parallel="min",
    paper="Dijkstra: A Note on Two Problems in Connexion with Graphs, Numerische Mathematik 1959",
    columns={"distance": "weight", "vertex": "vertex", "predecessor": "vertex"},
    read=read_sssp,
    compute=search_lengths,
    needs_weights=True,
    start="source",
    example={"source": 0},
    kernels="search",
    forms=("paged",),
    tracked="SsspAnswer",
    cugraph=("sssp",),
    networkx=(
        "all_pairs_dijkstra",
        "all_pairs_dijkstra_path",
        "all_pairs_dijkstra_path_length",
        "dijkstra_path",
        "dijkstra_path_length",
        "dijkstra_predecessor_and_distance",
        "shortest_path",
        "shortest_path_length",
        "single_source_dijkstra",
        "single_source_dijkstra_path",
        "single_source_dijkstra_path_length",
    ),
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
