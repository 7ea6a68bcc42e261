"""Algorithms with the names, parameters, columns and types of ``cugraph.dask``, on live graphs.

dynstore's own run where it has them; cuGraph's run on rows that each worker lends (``mg``). On a graph of cuGraph's own
cuGraph's functions run. These differences remain:

- ``bfs`` and ``sssp``: of several shortest paths, another one may be shown.
- ``pagerank``: ranks differ by less than the tolerance.
- components: a label is a number of a vertex; which one is not defined.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from dynstore import distributed
from dynstore.adapters.cugraph import mg
from dynstore.adapters.cugraph.dask.live import dask_graph_behind
from dynstore.adapters.dask.on_ranks import own_rows
from dynstore.adapters.libraries import require
from dynstore.errors import FailedToConvergeError, InputError, MissingDependencyError, UnweightedGraphError

if TYPE_CHECKING:
    from dynstore.distributed import ShardedGraph

__all__ = [
    "bfs",
    "core_number",
    "eigenvector_centrality",
    "hits",
    "katz_centrality",
    "leiden",
    "louvain",
    "pagerank",
    "sssp",
    "triangle_count",
    "weakly_connected_components",
]

# The columns of each of our own algorithms in cuGraph's order; those marked True are of the vertices' type.
COLUMNS = {
    "bfs": {"vertex": True, "distance": True, "predecessor": True},
    "sssp": {"distance": False, "vertex": True, "predecessor": True},
    "pagerank": {"vertex": True, "pagerank": False},
    "weakly_connected_components": {"vertex": True, "labels": True},
    "triangle_count": {"vertex": True, "counts": True},
}


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
        return _cugraph("bfs")(input_graph, start, depth_limit, return_distances, check_start)
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
        return _cugraph("sssp")(input_graph, source, cutoff, check_source)
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
    alpha, max_iter, tol, fail_on_nonconvergence
        As for ``cugraph.dask.pagerank``.
    personalization, precomputed_vertex_out_weight, nstart
        Only for graphs of cuGraph's own.

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
        return _cugraph("pagerank")(input_graph, alpha=alpha, **extra, **options)
    _refuse("pagerank", extra)
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
        return _cugraph("weakly_connected_components")(input_graph)
    _check_undirected("weakly_connected_components", G)
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
        return _cugraph("triangle_count")(input_graph, start_list)
    _check_undirected("triangle_count", G)
    return _run("triangle_count", G, start_list)[0]


def louvain(
    input_graph: Any,
    max_level: int | None = None,
    max_iter: int | None = None,
    resolution: float = 1.0,
    threshold: float = 1e-7,
) -> tuple[Any, float]:
    """Find communities by Louvain's method, by cuGraph.

    Parameters
    ----------
    input_graph : cugraph.Graph or DaskGraph
        Undirected.
    max_level, max_iter, resolution, threshold
        As for ``cugraph.dask.louvain``; ``max_iter`` is its old name of ``max_level``.

    Returns
    -------
    dask frame
        ``vertex``, ``partition``.
    float
        The modularity.

    Raises
    ------
    InputError, MissingDependencyError, RankError
    """
    G = dask_graph_behind(input_graph)
    if G is None:
        found: tuple[Any, float] = _cugraph("louvain")(input_graph, max_level, max_iter, resolution, threshold)
        return found
    if max_iter:
        if max_level:
            raise InputError("louvain: max_iter is the old name of max_level; got both, wanted one")
        warnings.warn("max_iter has been renamed max_level", FutureWarning, stacklevel=2)
    _check_undirected("louvain", G)
    level = max_iter or (100 if max_level is None else max_level)
    return G.compute_frame("louvain", _lent, "louvain", (level, resolution, threshold))


def leiden(
    input_graph: Any,
    max_iter: int = 100,
    resolution: float = 1.0,
    random_state: int | None = None,
    theta: float = 1.0,
) -> tuple[Any, float]:
    """Find communities by Leiden's method, by cuGraph.

    Parameters
    ----------
    input_graph : cugraph.Graph or DaskGraph
        Undirected.
    max_iter, resolution, random_state, theta
        As for ``cugraph.dask.leiden``.

    Returns
    -------
    dask frame
        ``vertex``, ``partition``.
    float
        The modularity.

    Raises
    ------
    InputError, MissingDependencyError, RankError
    """
    G, args = dask_graph_behind(input_graph), (max_iter, resolution, random_state, theta)
    if G is None:
        found: tuple[Any, float] = _cugraph("leiden")(input_graph, *args)
        return found
    _check_undirected("leiden", G)
    return G.compute_frame("leiden", _lent, "leiden", args)


def core_number(input_graph: Any, degree_type: str = "bidirectional") -> Any:
    """Find the highest k for which each vertex is in the k-core, by cuGraph.

    Parameters
    ----------
    input_graph : cugraph.Graph or DaskGraph
        Undirected, without self-loops.
    degree_type : str
        As for ``cugraph.dask.core_number``.

    Returns
    -------
    dask frame
        ``vertex``, ``core_number``.

    Raises
    ------
    InputError, MissingDependencyError, RankError
    """
    G = dask_graph_behind(input_graph)
    if G is None:
        return _cugraph("core_number")(input_graph, degree_type)
    _check_undirected("core_number", G)
    return G.compute_frame("core_number", _lent, "core_number", (degree_type,))[0]


def hits(
    input_graph: Any, tol: float = 1.0e-5, max_iter: int = 100, nstart: Any = None, normalized: bool = True
) -> Any:
    """Score vertices as hubs and authorities, by cuGraph.

    Parameters
    ----------
    input_graph : cugraph.Graph or DaskGraph
    tol, max_iter, normalized
        As for ``cugraph.dask.hits``.
    nstart
        Only for graphs of cuGraph's own.

    Returns
    -------
    dask frame
        ``vertex``, ``hubs``, ``authorities``.

    Raises
    ------
    InputError, MissingDependencyError, RankError
    """
    G = dask_graph_behind(input_graph)
    if G is None:
        return _cugraph("hits")(input_graph, tol, max_iter, nstart, normalized)
    _refuse("hits", {"nstart": nstart})
    return G.compute_frame("hits", _lent, "hits", (tol, max_iter, normalized))[0]


def katz_centrality(
    input_graph: Any,
    alpha: float | None = None,
    beta: float = 1.0,
    max_iter: int = 100,
    tol: float = 1.0e-6,
    nstart: Any = None,
    normalized: bool = True,
) -> Any:
    """Score vertices by the walks that lead to them, by cuGraph.

    Parameters
    ----------
    input_graph : cugraph.Graph or DaskGraph
    alpha, beta, max_iter, tol
        As for ``cugraph.dask.katz_centrality``.
    nstart
        Only for graphs of cuGraph's own.
    normalized
        Not used, as in cuGraph.

    Returns
    -------
    dask frame
        ``vertex``, ``katz_centrality``.

    Raises
    ------
    InputError, MissingDependencyError, RankError
    """
    G = dask_graph_behind(input_graph)
    if G is None:
        return _cugraph("katz_centrality")(input_graph, alpha, beta, max_iter, tol, nstart, normalized)
    _refuse("katz_centrality", {"nstart": nstart})
    return G.compute_frame("katz_centrality", _lent, "katz_centrality", (alpha, beta, max_iter, tol))[0]


def eigenvector_centrality(input_graph: Any, max_iter: int = 100, tol: float = 1.0e-6) -> Any:
    """Score vertices by the scores of their neighbours, by cuGraph.

    Parameters
    ----------
    input_graph : cugraph.Graph or DaskGraph
    max_iter, tol
        As for ``cugraph.dask.eigenvector_centrality``.

    Returns
    -------
    dask frame
        ``vertex``, ``eigenvector_centrality``.

    Raises
    ------
    InputError, MissingDependencyError, RankError
    """
    G = dask_graph_behind(input_graph)
    if G is None:
        return _cugraph("eigenvector_centrality")(input_graph, max_iter, tol)
    return G.compute_frame("eigenvector_centrality", _lent, "eigenvector_centrality", (max_iter, tol))[0]


# ---------------------------------------------------------------------- on the client


def _cugraph(name: str) -> Any:
    """Return cuGraph's own function."""
    return getattr(require(name, "cugraph.dask"), name)


def _check_undirected(name: str, G: Any) -> None:
    if G.is_directed():
        raise InputError(f"{name}: input graph must be undirected; got a directed one")


def _refuse(name: str, extra: dict[str, Any]) -> None:
    given = next((option for option, value in extra.items() if value is not None), None)
    if given is not None:
        raise InputError(f"{name}: {given} is given; on a live graph of a Dask cluster there is none yet; leave it out")


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
    for column, of_vertices in COLUMNS[name].items():
        columns[column] = table[column]
        if of_vertices and columns[column].dtype.kind == "i":
            columns[column] = columns[column].astype(dtype)
        elif column == "predecessor" and columns[column].dtype.kind not in "iu":
            columns[column] = columns[column].fillna("-1")
    return type(table)(columns), more


def _lent(graph: ShardedGraph, name: str, args: tuple[Any, ...]) -> Any:
    """Run an algorithm of cuGraph's on lent rows."""
    found = getattr(mg, name)(graph, *args)
    table, more = found if isinstance(found, tuple) else (found, None)
    if table["vertex"].dtype.kind == "i":
        table["vertex"] = table["vertex"].astype(graph.shard.vertex_dtype)
    return table, more
