"""Algorithms of ``cugraph.dask`` that are cuGraph's, on rows that each worker lends (``mg``)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from dynstore.adapters.cugraph import mg
from dynstore.adapters.cugraph.dask.live import check_undirected, cugraphs_own, dask_graph_behind, refuse_given
from dynstore.errors import InputError

if TYPE_CHECKING:
    from dynstore.distributed import ShardedGraph

__all__ = ["core_number", "eigenvector_centrality", "hits", "katz_centrality", "leiden", "louvain"]


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
        found: tuple[Any, float] = cugraphs_own("louvain")(input_graph, max_level, max_iter, resolution, threshold)
        return found
    if max_iter:
        if max_level:
            raise InputError("louvain: max_iter is the old name of max_level; got both, wanted one")
        warnings.warn("max_iter has been renamed max_level", FutureWarning, stacklevel=2)
    check_undirected("louvain", G)
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
        found: tuple[Any, float] = cugraphs_own("leiden")(input_graph, *args)
        return found
    check_undirected("leiden", G)
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
        return cugraphs_own("core_number")(input_graph, degree_type)
    check_undirected("core_number", G)
    return G.compute_frame("core_number", _lent, "core_number", (degree_type,))[0]


def hits(
    input_graph: Any, tol: float = 1.0e-5, max_iter: int = 100, nstart: Any = None, normalized: bool = True
) -> Any:
    """Score vertices as hubs and authorities, by cuGraph.

    Parameters
    ----------
    input_graph : cugraph.Graph or DaskGraph
    tol, max_iter
        As for ``cugraph.dask.hits``.
    nstart
        Only for graphs of cuGraph's own.
    normalized : bool
        As for ``cugraph.dask.hits``.

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
        return cugraphs_own("hits")(input_graph, tol, max_iter, nstart, normalized)
    refuse_given("hits", {"nstart": nstart})
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
        return cugraphs_own("katz_centrality")(input_graph, alpha, beta, max_iter, tol, nstart, normalized)
    refuse_given("katz_centrality", {"nstart": nstart})
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
        return cugraphs_own("eigenvector_centrality")(input_graph, max_iter, tol)
    return G.compute_frame("eigenvector_centrality", _lent, "eigenvector_centrality", (max_iter, tol))[0]


def _lent(graph: ShardedGraph, name: str, args: tuple[Any, ...]) -> Any:
    """Run an algorithm of cuGraph's on lent rows."""
    found = getattr(mg, name)(graph, *args)
    table, more = found if isinstance(found, tuple) else (found, None)
    if table["vertex"].dtype.kind == "i":
        table["vertex"] = table["vertex"].astype(graph.shard.vertex_dtype)
    return table, more
