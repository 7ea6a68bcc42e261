"""Algorithms on a graph of a Dask cluster; results are Dask frames, each worker has the vertices that it owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore import distributed
from dynstore.adapters.dask.graph import DaskGraph
from dynstore.adapters.dask.on_ranks import own_rows
from dynstore.errors import InputTypeError, type_name

if TYPE_CHECKING:
    from dynstore.distributed import ShardedGraph

__all__ = ["bfs", "pagerank", "sssp", "triangle_count", "weakly_connected_components"]


def bfs(G: DaskGraph, start: Any = None, depth_limit: int | None = None, return_predecessors: bool = True) -> Any:
    """Find how many edges each vertex is away from the nearest start vertex.

    Parameters
    ----------
    G : DaskGraph
    start, depth_limit, return_predecessors
        As for :func:`dynstore.bfs`.

    Returns
    -------
    dask frame
        As :func:`dynstore.bfs`.

    Raises
    ------
    InputError
        As :func:`dynstore.bfs`.
    RankError
        As :meth:`DaskGraph.insert_edges`.
    """
    return _compute("bfs", G, start, depth_limit, return_predecessors)[0]


def sssp(G: DaskGraph, source: Any = None, cutoff: float | None = None) -> Any:
    """Find the shortest paths from one vertex to all others.

    Parameters
    ----------
    G : DaskGraph
        A weighted graph without negative weights.
    source, cutoff
        As for :func:`dynstore.sssp`.

    Returns
    -------
    dask frame
        As :func:`dynstore.sssp`.

    Raises
    ------
    UnweightedGraphError, InputError
        As :func:`dynstore.sssp`.
    RankError
        As :meth:`DaskGraph.insert_edges`.
    """
    return _compute("sssp", G, source, cutoff)[0]


def pagerank(
    G: DaskGraph,
    alpha: float = 0.85,
    max_iter: int = 100,
    tol: float = 1.0e-5,
    fail_on_nonconvergence: bool = True,
) -> Any:
    """Rank vertices by the chance that a random surfer is there.

    Parameters
    ----------
    G : DaskGraph
    alpha, max_iter, tol, fail_on_nonconvergence
        As for :func:`dynstore.pagerank`.

    Returns
    -------
    dask frame, or a tuple of it and a bool
        As :func:`dynstore.pagerank`.

    Raises
    ------
    FailedToConvergeError, InputError
        As :func:`dynstore.pagerank`.
    RankError
        As :meth:`DaskGraph.insert_edges`.
    """
    frame, converged = _compute("pagerank", G, alpha, max_iter, tol, fail_on_nonconvergence)
    return frame if fail_on_nonconvergence else (frame, converged)


def weakly_connected_components(G: DaskGraph) -> Any:
    """Label each vertex with its component.

    Parameters
    ----------
    G : DaskGraph

    Returns
    -------
    dask frame
        As :func:`dynstore.weakly_connected_components`.

    Raises
    ------
    RankError
        As :meth:`DaskGraph.insert_edges`.
    """
    return _compute("weakly_connected_components", G)[0]


def triangle_count(G: DaskGraph, start_list: Any = None) -> Any:
    """Count the triangles at each vertex.

    Parameters
    ----------
    G : DaskGraph
        An undirected graph.
    start_list : int, str, list, array, series or frame of one column, optional
        The vertices to report. By default all.

    Returns
    -------
    dask frame
        As :func:`dynstore.triangle_count`.

    Raises
    ------
    InputError
        As :func:`dynstore.triangle_count`.
    RankError
        As :meth:`DaskGraph.insert_edges`.
    """
    return _compute("triangle_count", G, start_list)[0]


def _compute(name: str, G: DaskGraph, *args: Any) -> tuple[Any, Any]:
    if not isinstance(G, DaskGraph):
        raise InputTypeError(f"{name}: G is a {type_name(G)}; wanted a DaskGraph")
    return G.compute_frame(name, _on_rank, name, args)


def _on_rank(graph: ShardedGraph, name: str, args: tuple[Any, ...]) -> tuple[Any, Any]:
    """Run an algorithm on this rank; return what it says about the vertices that the rank owns."""
    found = getattr(distributed, name)(graph, *args)
    table, more = found if isinstance(found, tuple) else (found, None)
    chosen = table["vertex"] if name == "triangle_count" and args[0] is not None else None
    return own_rows(graph, table, chosen), more
