"""Lending: packed rows of each rank, made once a version and orientation, as a graph of cuGraph's for one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dynstore.adapters.cugraph.mg.links import CALLER, RankConnection, keep_link, kept_link, open_link
from dynstore.adapters.cugraph.mg.rows import ShardRows, make_rows
from dynstore.adapters.cugraph.mg.self_test import check_link
from dynstore.adapters.libraries import require
from dynstore.arguments import check_flag
from dynstore.distributed import ShardedGraph
from dynstore.distributed.calls import Collective
from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.interrupts import MemoryChecked

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph

__all__ = ["check_graph", "lend"]

# The last rows of each orientation: those of the current version, or of an earlier one without its arrays of edges.
_kept: WeakKeyDictionary[DynamicGraph, dict[bool, ShardRows]] = WeakKeyDictionary()


def check_graph(caller: str, G: ShardedGraph) -> None:
    """Refuse what is no sharded graph."""
    if not isinstance(G, ShardedGraph):
        raise InputTypeError(f"{caller}: G is a {type_name(G)}; wanted a ShardedGraph")


def lend(G: ShardedGraph, transposed: bool = False, sort_neighbors: bool = True) -> tuple[Any, Any]:
    """Lend a graph to pylibcugraph's algorithms for several GPUs. All ranks call it.

    Each rank packs its rows in cuGraph's numbering, once a version. cuGraph reads them in place, without a copy.
    Then all ranks pass what is returned to the same function of pylibcugraph.

    Parameters
    ----------
    G : ShardedGraph
        With ``partition="hash"``.
    transposed : bool
        Whether rows hold in-edges: PageRank, HITS, Katz and eigenvector centrality need them. If rows hold out-edges,
        cuGraph makes in-edges in each call. The in-edges of a directed graph are sent between ranks.
    sort_neighbors : bool
        Whether the neighbours of each row ascend. Triangle counts, similarities and trusses intersect rows, and need
        it. Searches, components and rankings do not. Without the sort lending is several times as fast.

    Returns
    -------
    handle : pylibcugraph.ResourceHandle
    graph : BorrowedMGGraph
        For one call. Its vertices are row numbers of ``G``; ``G.vertex_ids()[vertices]`` are their ids. Each rank gets
        results for the vertices that it owns (:meth:`ShardedGraph.owners`).

    Raises
    ------
    InputError
        If the owners are not cuGraph's, the ranks are on the host or threads, or a parameter differs between them.
    LimitError
        If the graph has more edges than its vertex type can count.
    MissingDependencyError
        Without pylibcugraph or raft-dask, or if the rows cannot be lent to the one that is installed.
    OutOfMemoryError, RankError
        As :meth:`ShardedGraph.degree`.
    """
    check_graph(CALLER, G)
    link = kept_link(G.comm)
    if link is None:
        link = open_link(G.comm)
        check_link(G.comm, link, _lend)
        keep_link(G.comm, link)
    return link.handle, _lend(G, link, transposed, sort_neighbors)


def _lend(G: ShardedGraph, link: RankConnection, transposed: bool, sort_neighbors: bool = True) -> Any:
    cupy = require(CALLER, "cupy")
    with Collective(G.comm, CALLER) as call, MemoryChecked(CALLER):
        flags = {
            "transposed": check_flag(CALLER, "transposed", transposed),
            "sort_neighbors": check_flag(CALLER, "sort_neighbors", sort_neighbors),
        }
        if G.partition != "hash":
            raise InputError(f"{CALLER}: partition is {G.partition!r}; wanted 'hash', as cuGraph looks for vertices")
        for rank, theirs in enumerate(call.agree(flags)):
            for name, flag in flags.items():
                if theirs[name] != flag:
                    raise InputError(
                        f"{CALLER}: {name} is {flag} on rank {G.comm.rank} and {theirs[name]} on rank {rank}; wanted "
                        "the same on all"
                    )
        rows = _rows_of(call, G, flags["transposed"], flags["sort_neighbors"])
        # A copy: functions of cuGraph that transpose the graph sort its vertices in place.
        number_map = rows.numbers.copy()
        # cuGraph works on its own stream, which waits only for default streams.
        cupy.cuda.get_current_stream().synchronize()
        call.agree()
        return link.bridge.borrowed_mg_graph(
            link.address,
            rows.offsets,
            rows.indices,
            rows.weights,
            number_map,
            list(rows.numbering.starts),
            rows.num_edges,
            symmetric=not G.is_directed(),
            transposed=flags["transposed"],
            end_of_wide=rows.segments[0],
            end_of_medium=rows.segments[1],
        )


def _rows_of(call: Collective, G: ShardedGraph, transposed: bool, ascending: bool) -> ShardRows:
    """Return the packed rows of the current version, from an earlier call if that has made them on all ranks."""
    inward = transposed and G.is_directed()
    orientations = _kept.setdefault(G.shard, {})
    kept = orientations.get(inward)
    serves = kept is not None and kept.version == G.version and (kept.ascending or not ascending)
    agreed = call.agree((serves, kept is not None))
    if kept is not None and all(serves for serves, _ in agreed):
        return kept
    last = None if kept is None or not all(known for _, known in agreed) else kept.numbering
    del kept
    # Free the rows of earlier versions first: the new ones need the memory. Their numbers may serve again.
    for key, rows in orientations.items():
        if rows.version != G.version or key == inward:
            orientations[key] = rows._replace(version=-1, offsets=None, indices=None, weights=None)
    rows = orientations[inward] = make_rows(call, G, inward, ascending, last)
    return rows
