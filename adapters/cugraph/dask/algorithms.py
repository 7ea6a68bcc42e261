"""Algorithms with the names, parameters, columns and types of ``cugraph.dask``, on live graphs.

These are dynstore's own. On a graph of cuGraph's own cuGraph's functions run. These differences remain:

- ``bfs`` and ``sssp``: of several shortest paths, another one may be shown.
- ``pagerank``: ranks differ by less than the tolerance.
- components: a label is a number of a vertex; which one is not defined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore import distributed
from dynstore.adapters.cugraph.dask.live import check_undirected, cugraphs_own, dask_graph_behind, refuse_given
from dynstore.adapters.dask.on_ranks import own_rows
from dynstore.adapters.libraries import require
from dynstore.algorithms.registry import ALGORITHMS
from dynstore.errors import FailedToConvergeError, MissingDependencyError, UnweightedGraphError

if TYPE_CHECKING:
    from dynstore.distributed import ShardedGraph

__all__ = ["bfs", "pagerank", "sssp", "triangle_count", "weakly_connected_components"]


def bfs(
    input_graph: Any,
    start: Any,
    depth_limit: int | None = None,
    return_distances: bool = True,
    check_start: bool = True,
) -> Any:
    """Find how many edges each vertex is away from the nearest start vertex.

    Parameters
    ----------
    input_graph : cugraph.Graph or DaskGraph
    start : int, str, list or series
    depth_limit : int, optional
        0 is no limit, as in cuGraph.
    return_distances, check_start
        Not used on a live graph: there are distances, and starts are checked.

    Returns
    -------
    dask frame
        ``vertex``, ``distance``, ``predecessor``.

    Raises
    ------
    InputError, RankError
    """
    G = dask_graph_behind(input_graph)
    if G is None:
        return cugraphs_own("bfs")(input_graph, start, depth_limit, return_distances, check_start)
    start = start.compute() if hasattr(start, "__dask_graph__") else start
    return _run("bfs", G, start, depth_limit or None)[0]


def sssp(input_graph: Any, source: Any, cutoff: float | None = None, check_source: bool = True) -> Any:
    """Find the shortest paths from one vertex to all others.

    Parameters
    ----------
    input_graph : cugraph.Graph or DaskGraph
        With weights.
    source : int or str
    cutoff : float, optional
    check_source
        Not used on a live graph: the source is checked.

    Returns
    -------
    dask frame
        ``distance``, ``vertex``, ``predecessor``.

    Raises
    ------
    UnweightedGraphError, InputError, RankError
    """
    G = dask_graph_behind(input_graph)
    if G is None:
        return cugraphs_own("sssp")(input_graph, source, cutoff, check_source)
    if not G.is_weighted():
        raise UnweightedGraphError("sssp: requires the input graph to be weighted; use bfs for graphs without weights")
    return _run("sssp", G, source, cutoff)[0]


def pagerank(
    input_graph: Any,
    alpha: float = 0.85,
    personalization: Any = None,
    precomputed_vertex_out_weight: Any = None,
    max_iter: int = 100,
    tol: float = 1.0e-5,
    nstart: Any = None,
    fail_on_nonconvergence: bool = True,
) -> Any:
    """Rank vertices by the chance that a random surfer is there.

    Parameters
    ----------
    input_graph : cugraph.Graph or DaskGraph
    alpha : float
        As for ``cugraph.dask.pagerank``.
    personalization, precomputed_vertex_out_weight
        Only for graphs of cuGraph's own.
    max_iter, tol
        As for ``cugraph.dask.pagerank``.
    nstart
        Only for graphs of cuGraph's own.
    fail_on_nonconvergence : bool
        As for ``cugraph.dask.pagerank``.

    Returns
    -------
    dask frame, or a tuple of it and a bool
        ``vertex``, ``pagerank``.

    Raises
    ------
    cugraph.exceptions.FailedToConvergeError
        Or dynstore's, where cuGraph is not installed.
    InputError, RankError
    """
    extra = {
        "personalization": personalization,
        "precomputed_vertex_out_weight": precomputed_vertex_out_weight,
        "nstart": nstart,
    }
    G = dask_graph_behind(input_graph)
    if G is None:
        options = {"max_iter": max_iter, "tol": tol, "fail_on_nonconvergence": fail_on_nonconvergence}
        return cugraphs_own("pagerank")(input_graph, alpha=alpha, **extra, **options)
    refuse_given("pagerank", extra)
    try:
        # cuGraph takes 0 for its defaults.
        frame, converged = _run("pagerank", G, alpha, max_iter if max_iter > 0 else 100, tol or 1e-5, False)
    except FailedToConvergeError as error:
        raise _not_converged() from error
    if fail_on_nonconvergence and not converged:
        raise _not_converged()
    return frame if fail_on_nonconvergence else (frame, converged)


def weakly_connected_components(input_graph: Any) -> Any:
    """Label each vertex with its component.

    Parameters
    ----------
    input_graph : cugraph.Graph or DaskGraph
        Undirected.

    Returns
    -------
    dask frame
        ``vertex``, ``labels``.

    Raises
    ------
    InputError, RankError
    """
    G = dask_graph_behind(input_graph)
    if G is None:
        return cugraphs_own("weakly_connected_components")(input_graph)
    check_undirected("weakly_connected_components", G)
    return _run("weakly_connected_components", G)[0]


def triangle_count(input_graph: Any, start_list: Any = None) -> Any:
    """Count the triangles at each vertex.

    Parameters
    ----------
    input_graph : cugraph.Graph or DaskGraph
        Undirected.
    start_list : int, list or series, optional
        The vertices to report. By default all.

    Returns
    -------
    dask frame
        ``vertex``, ``counts``.

    Raises
    ------
    InputError, RankError
    """
    G = dask_graph_behind(input_graph)
    if G is None:
        return cugraphs_own("triangle_count")(input_graph, start_list)
    check_undirected("triangle_count", G)
    return _run("triangle_count", G, start_list)[0]


def _not_converged() -> Exception:
    try:
        error: Exception = require("pagerank", "cugraph.exceptions").FailedToConvergeError()
    except MissingDependencyError:
        error = FailedToConvergeError("pagerank: failed to converge; raise max_iter or tol")
    return error


def _run(name: str, G: Any, *args: Any) -> tuple[Any, Any]:
    frame: tuple[Any, Any] = G.compute_frame(name, _own, name, args)
    return frame


# ---------------------------------------------------------------------- on each rank


def _own(graph: ShardedGraph, name: str, args: tuple[Any, ...]) -> tuple[Any, Any]:
    """Run one of our algorithms; return the rows of the vertices that this rank owns, as cuGraph shows them."""
    found = getattr(distributed, name)(graph, *args)
    table, more = found if isinstance(found, tuple) else (found, None)
    chosen = table["vertex"] if name == "triangle_count" and args[0] is not None else None
    table = own_rows(graph, table, chosen)
    dtype = graph.shard.vertex_dtype
    columns = {}
    for column, kind in ALGORITHMS[name].columns.items():
        columns[column] = table[column]
        if kind == "vertex" and columns[column].dtype.kind == "i":
            columns[column] = columns[column].astype(dtype)
        elif column == "predecessor" and columns[column].dtype.kind not in "iu":
            columns[column] = columns[column].fillna("-1")
    return type(table)(columns), more
