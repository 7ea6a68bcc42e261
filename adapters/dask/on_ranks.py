"""The calls of a graph, as each rank makes them; they get the rank first."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynstore.adapters.dask.ranks import Kept, Rank, keep

if TYPE_CHECKING:
    from dynstore.distributed import ShardedGraph
    from dynstore.typing import UpdateReport

__all__ = [
    "counts",
    "edge_table",
    "frame",
    "insert_vertices",
    "kind",
    "look_up",
    "look_up_frame",
    "method",
    "method_frame",
    "own_rows",
    "run",
    "update",
    "vertex_ids",
]

ANSWERS = {"has_edges": "has_edge", "edge_weights": "weight"}


def kind(rank: Rank) -> tuple[bool, bool, bool]:
    """Return whether the graph is directed, whether it is weighted, and whether it has ids of any kind."""
    return rank.graph.is_directed(), rank.graph.is_weighted(), rank.graph.is_renumbered()


def counts(rank: Rank) -> tuple[int, int, int]:
    """Return vertices, edges and the version."""
    return rank.graph.number_of_vertices(), rank.graph.number_of_edges(), rank.graph.version


def vertex_ids(rank: Rank) -> Any:
    """Return the ids of all vertices, on the host."""
    return rank.graph.backend.to_host(rank.graph.vertex_ids())


def update(rank: Rank, *args: Any) -> UpdateReport:
    """Make an update of the rows that are here: of each batch; then the name of the method, and its options."""
    *rows, name, options = args
    report: UpdateReport = getattr(rank.graph, name)(*rows, **options)
    return report


def insert_vertices(rank: Rank, ids: Any) -> UpdateReport:
    """Insert vertices; each rank names all."""
    return rank.graph.insert_vertices(ids)


def look_up(rank: Rank, rows: Any, name: str, ends: tuple[str, str]) -> Any:
    """Look up the client's rows, which are on rank 0; return its answers on the host."""
    answers = getattr(rank.graph, name)([] if rows is None else rows, *ends)
    return rank.graph.backend.to_host(answers) if rank.graph.comm.rank == 0 else None


def look_up_frame(rank: Rank, rows: Any, name: str, ends: tuple[str, str], meta: bytes) -> Kept:
    """Look up the rows that are here; keep them with the answers. ``meta``: a frame without rows, pickled."""
    graph = rank.graph
    answers = getattr(graph, name)([] if rows is None else rows, *ends)
    rows = pickle.loads(meta) if rows is None else rows
    return keep(rows[list(ends)].assign(**{ANSWERS[name]: answers}))


def method(rank: Rank, name: str, *args: Any) -> Any:
    """Call a method of the graph; rank 0 returns its result."""
    found = getattr(rank.graph, name)(*args)
    return found if rank.graph.comm.rank == 0 else None


def run(rank: Rank, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call a user's function."""
    return function(rank.graph, *args)


def frame(rank: Rank, function: Callable[..., Any], args: tuple[Any, ...]) -> Kept:
    """Call a function that returns a frame; keep that."""
    found = function(rank.graph, *args)
    return keep(*found) if isinstance(found, tuple) else keep(found)


def edge_table(graph: ShardedGraph) -> Any:
    """Return the edges of this rank."""
    return graph.edge_table()


def method_frame(graph: ShardedGraph, name: str) -> Any:
    """Return what a method says about the vertices of this rank."""
    return own_rows(graph, getattr(graph, name)())


def own_rows(graph: ShardedGraph, table: Any, vertices: Any = None) -> Any:
    """Return the rows of a frame whose vertices this rank owns.

    Parameters
    ----------
    graph : ShardedGraph
    table : pandas or cuDF frame
        A row a vertex: of all vertices in their order, or of the given ones.
    vertices : optional
    """
    backend = graph.backend
    if vertices is None:
        owners = graph._owners(backend.xp.arange(graph.number_of_vertices(), dtype=graph.shard.vertex_dtype))
    else:
        owners = graph.owners(vertices)
    own = owners == graph.comm.rank
    series = type(table["vertex"])
    mask = series(own if graph.shard.core.frames == "cudf" else backend.to_host(own), index=table.index)
    return table[mask].reset_index(drop=True)
