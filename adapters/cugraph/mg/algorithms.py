"""cuGraph's algorithms on a sharded graph, with the names, parameters and columns of ``cugraph.dask``.

They are those that :mod:`dynstore.distributed` does not have. All ranks call them. Each rank gets a frame of the
vertices that it owns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.adapters.cugraph.mg.lending import check_graph, lend
from dynstore.adapters.libraries import require
from dynstore.errors import InputError
from dynstore.input.frames import frame_library, make_frame

if TYPE_CHECKING:
    from dynstore.distributed import ShardedGraph
    from dynstore.typing import Frame

__all__ = ["core_number", "eigenvector_centrality", "hits", "katz_centrality", "leiden", "louvain"]


def louvain(
    G: ShardedGraph, max_level: int = 100, resolution: float = 1.0, threshold: float = 1e-7
) -> tuple[Frame, float]:
    """Find communities by Louvain's method, by cuGraph. All ranks call it.

    Parameters
    ----------
    G : ShardedGraph
        Undirected.
    max_level, resolution, threshold
        As for ``cugraph.dask.louvain``.

    Returns
    -------
    frame
        ``vertex``, ``partition``: the vertices that this rank owns.
    modularity : float

    Raises
    ------
    InputError, LimitError, MissingDependencyError, OutOfMemoryError, RankError
        As :func:`lend`.
    """
    _check_undirected("louvain", G)
    options = {"max_level": max_level, "threshold": threshold, "resolution": resolution}
    vertices, clusters, modularity = _run("louvain", G, False, options)
    return _frame_of(G, vertices, partition=clusters), float(modularity)


def leiden(
    G: ShardedGraph,
    max_iter: int = 100,
    resolution: float = 1.0,
    random_state: int | None = None,
    theta: float = 1.0,
) -> tuple[Frame, float]:
    """Find communities by Leiden's method, by cuGraph. All ranks call it.

    Parameters
    ----------
    G : ShardedGraph
        Undirected.
    max_iter, resolution, random_state, theta
        As for ``cugraph.dask.leiden``.

    Returns
    -------
    frame
        ``vertex``, ``partition``: the vertices that this rank owns.
    modularity : float

    Raises
    ------
    InputError, LimitError, MissingDependencyError, OutOfMemoryError, RankError
        As :func:`lend`.
    """
    _check_undirected("leiden", G)
    state = None if random_state is None else random_state + G.comm.rank
    options = {"max_level": max_iter, "resolution": resolution, "random_state": state, "theta": theta}
    vertices, clusters, modularity = _run("leiden", G, False, options)
    return _frame_of(G, vertices, partition=clusters), float(modularity)


def core_number(G: ShardedGraph, degree_type: str = "bidirectional") -> Frame:
    """Find the highest k for which each vertex is in the k-core, by cuGraph. All ranks call it.

    Parameters
    ----------
    G : ShardedGraph
        Undirected, without self-loops.
    degree_type : {"bidirectional", "outgoing", "incoming"}
        As for ``cugraph.dask.core_number``.

    Returns
    -------
    frame
        ``vertex``, ``core_number``: the vertices that this rank owns.

    Raises
    ------
    InputError, LimitError, MissingDependencyError, OutOfMemoryError, RankError
        As :func:`lend`.
    """
    _check_undirected("core_number", G)
    vertices, cores = _run("core_number", G, False, {"degree_type": degree_type})
    return _frame_of(G, vertices, core_number=cores)


def hits(G: ShardedGraph, tol: float = 1.0e-5, max_iter: int = 100, normalized: bool = True) -> Frame:
    """Score vertices as hubs and authorities, by cuGraph. All ranks call it.

    Parameters
    ----------
    G : ShardedGraph
    tol, max_iter, normalized
        As for ``cugraph.dask.hits``.

    Returns
    -------
    frame
        ``vertex``, ``hubs``, ``authorities``: the vertices that this rank owns.

    Raises
    ------
    InputError, LimitError, MissingDependencyError, OutOfMemoryError, RankError
        As :func:`lend`.
    """
    options = {"tol": tol, "max_iter": max_iter, "normalized": normalized}
    start = {"initial_hubs_guess_vertices": None, "initial_hubs_guess_values": None}
    vertices, hubs, authorities = _run("hits", G, True, {**options, **start})
    return _frame_of(G, vertices, hubs=hubs, authorities=authorities)


def katz_centrality(
    G: ShardedGraph, alpha: float | None = None, beta: float = 1.0, max_iter: int = 100, tol: float = 1.0e-6
) -> Frame:
    """Score vertices by the walks that lead to them, by cuGraph. All ranks call it.

    Parameters
    ----------
    G : ShardedGraph
    alpha : float, optional
        Above 0. By default 1 by the highest degree.
    beta, max_iter, tol
        As for ``cugraph.dask.katz_centrality``.

    Returns
    -------
    frame
        ``vertex``, ``katz_centrality``: the vertices that this rank owns.

    Raises
    ------
    InputError, LimitError, MissingDependencyError, OutOfMemoryError, RankError
        As :func:`lend`.
    """
    check_graph("katz_centrality", G)
    if alpha is None:
        degrees: Any = G.degree()
        alpha = 1 / max(int(degrees["degree"].max()) if len(degrees) else 0, 1)
    if not alpha > 0:
        raise InputError(f"katz_centrality: alpha is {alpha}; wanted more than 0, or None")
    options = {"betas": None, "alpha": alpha, "beta": beta, "epsilon": tol, "max_iterations": max_iter}
    vertices, values = _run("katz_centrality", G, True, options)
    return _frame_of(G, vertices, katz_centrality=values)


def eigenvector_centrality(G: ShardedGraph, max_iter: int = 100, tol: float = 1.0e-6) -> Frame:
    """Score vertices by the scores of their neighbours, by cuGraph. All ranks call it.

    Parameters
    ----------
    G : ShardedGraph
    max_iter, tol
        As for ``cugraph.dask.eigenvector_centrality``.

    Returns
    -------
    frame
        ``vertex``, ``eigenvector_centrality``: the vertices that this rank owns.

    Raises
    ------
    InputError, LimitError, MissingDependencyError, OutOfMemoryError, RankError
        As :func:`lend`.
    """
    vertices, values = _run("eigenvector_centrality", G, True, {"epsilon": tol, "max_iterations": max_iter})
    return _frame_of(G, vertices, eigenvector_centrality=values)


def _check_undirected(name: str, G: ShardedGraph) -> None:
    check_graph(name, G)
    if G.is_directed():
        raise InputError(f"{name}: input graph must be undirected; got ShardedGraph(directed=True)")


def _run(name: str, G: ShardedGraph, transposed: bool, options: dict[str, Any]) -> Any:
    """Call a function of pylibcugraph on the rows of ``G``."""
    check_graph(name, G)
    handle, graph = lend(G, transposed, sort_neighbors=not transposed)
    function = getattr(require(name, "pylibcugraph"), name)
    return function(resource_handle=handle, graph=graph, do_expensive_check=False, **options)


def _frame_of(G: ShardedGraph, vertices: Any, **columns: Any) -> Frame:
    """Return values of vertices as a frame, in the order of the graph's rows."""
    shard, backend = G.shard, G.shard.core.backend
    order = backend.xp.argsort(vertices)
    numbers = vertices[order].astype(shard.vertex_dtype)
    ids = shard.core.ids.column(shard.number_of_vertices(), frame_library(backend, shard.core.frames), numbers)
    ordered = {name: column[order] for name, column in columns.items()}
    return make_frame(backend, {"vertex": ids, **ordered}, shard.core.frames)
