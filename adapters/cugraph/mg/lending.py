"""Lending: packed rows of each rank, made once a version and orientation, as a graph of cuGraph's for one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dynstore.adapters.cugraph.mg.links import CALLER, Link, keep_link, kept_link, open_link
from dynstore.adapters.cugraph.mg.rows import ShardRows, make_rows
from dynstore.adapters.cugraph.mg.self_test import check_link
from dynstore.adapters.libraries import require
from dynstore.arguments import check_flag
from dynstore.distributed import ShardedGraph
from dynstore.distributed.calls import Call
from dynstore.errors import InputError, InputTypeError, type_name
from dynstore.interrupts import MemoryChecked

if TYPE_CHECKING:
    from dynstore.graph import DynamicGraph

__all__ = ["check_graph", "lend"]

_kept: WeakKeyDictionary[DynamicGraph, dict[bool, ShardRows]] = WeakKeyDictionary()


def check_graph(caller: str, G: ShardedGraph) -> None:
    """Refuse what is no sharded graph."""
    if not isinstance(G, ShardedGraph):
        raise InputTypeError(f"{caller}: G is a {type_name(G)}; wanted a ShardedGraph")


def lend(G: ShardedGraph, transposed: bool = False) -> tuple[Any, Any]:
    """Lend a graph to pylibcugraph's algorithms for several GPUs. All ranks call it.

    Each rank packs its rows under cuGraph's numbers, once a version, and sorts each; cuGraph reads them where they are.
    Then all ranks call the same function of pylibcugraph with what they have got.

    Parameters
    ----------
    G : ShardedGraph
        With ``partition="hash"``.
    transposed : bool
        Rows hold in-edges, as PageRank, HITS, Katz and eigenvector centrality want them. From rows of the other kind
        cuGraph makes these by itself, in each call. The in-edges of a directed graph travel between ranks.

    Returns
    -------
    handle : pylibcugraph.ResourceHandle
    graph : BorrowedMGGraph
        For one call. Vertices that go in and come out are row numbers of ``G``, those of :meth:`ShardedGraph.owners`;
        ``G.vertex_ids()[vertices]`` are their ids. Each rank gets results for the vertices that it owns.

    Raises
    ------
    InputError
        If the owners are not cuGraph's, the ranks are on the host or threads, or ``transposed`` differs between them.
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
    return link.handle, _lend(G, link, transposed)


def _lend(G: ShardedGraph, link: Link, transposed: bool) -> Any:
    cupy = require(CALLER, "cupy")
    with Call(G.comm, CALLER) as call, MemoryChecked(CALLER):
        transposed = check_flag(CALLER, "transposed", transposed)
        if G.partition != "hash":
            raise InputError(f"{CALLER}: partition is {G.partition!r}; wanted 'hash', as cuGraph looks for vertices")
        for rank, theirs in enumerate(call.agree(transposed)):
            if theirs != transposed:
                raise InputError(
                    f"{CALLER}: transposed is {transposed} on rank {G.comm.rank} and {theirs} on rank {rank}; wanted "
                    "the same on all"
                )
        rows = _rows_of(call, G, transposed)
        # cuGraph works on its own stream, which waits only for default streams.
        cupy.cuda.get_current_stream().synchronize()
        call.agree()
        return link.bridge.borrowed_mg_graph(
            link.address,
            *rows[1:5],
            list(rows.starts),
            rows.num_edges,
            symmetric=not G.is_directed(),
            transposed=transposed,
            end_of_wide=rows.segments[0],
            end_of_medium=rows.segments[1],
        )


def _rows_of(call: Call, G: ShardedGraph, transposed: bool) -> ShardRows:
    """Return the packed rows of the current version, from an earlier call if that has made them on all ranks."""
    inward = transposed and G.is_directed()
    orientations = _kept.setdefault(G.shard, {})
    # Free the rows of earlier versions first: the new ones need the memory.
    for key in [key for key, rows in orientations.items() if rows.version != G.version]:
        del orientations[key]
    if not all(call.agree(inward in orientations)):
        orientations[inward] = make_rows(call, G, inward)
    return orientations[inward]
