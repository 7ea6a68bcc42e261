"""Searches over the parts of a sharded graph; results are those of one graph, and the same on all ranks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.inputs import has_negative_weights
from dynstore.algorithms.traversal.by_row import bfs_frame, read_bfs, read_sssp, sssp_frame
from dynstore.distributed.calls import Collective
from dynstore.distributed.graph import ShardedGraph
from dynstore.errors import InputError, InputTypeError, UnweightedGraphError, type_name
from dynstore.interrupts import MemoryChecked

if TYPE_CHECKING:
    from dynstore.typing import Frame

__all__ = ["bfs", "check_sharded", "sssp"]


def check_sharded(caller: str, G: ShardedGraph) -> None:
    """Refuse what is no sharded graph."""
    if not isinstance(G, ShardedGraph):
        raise InputTypeError(
            f"{caller}: G is a {type_name(G)}; wanted a ShardedGraph. dynstore.{caller} is for one graph"
        )


def bfs(G: ShardedGraph, start: Any = None, depth_limit: int | None = None, return_predecessors: bool = True) -> Frame:
    """Find how many edges each vertex is away from the nearest start vertex. All ranks call it.

    Each rank expands a level along the edges that it has. Then all get a byte for each vertex: whether it was reached.

    Parameters
    ----------
    G : ShardedGraph
        Weights are not used.
    start, depth_limit, return_predecessors
        As for :func:`dynstore.bfs`, the same on all ranks.

    Returns
    -------
    frame
        As :func:`dynstore.bfs`: all vertices, on each rank.

    Raises
    ------
    InputError
        As :func:`dynstore.bfs`.
    RankError
        If a rank has raised something else, has ended, or does not come.
    """
    check_sharded("bfs", G)
    shard = G.shard
    backend, num_slots = shard.core.backend, G.number_of_edges() * (1 if G.is_directed() else 2)
    with Collective(G.comm, "bfs") as call, MemoryChecked("bfs"):
        sources, limit = read_bfs(shard, start, depth_limit)
        call.expect_alike(start=sources.tolist(), depth_limit=limit, return_predecessors=bool(return_predecessors))
        kernels = backend.kernels("dynstore.distributed", "searches")
        search = kernels.Search(shard.snapshot(), not G.is_directed(), num_slots, sources, bool(return_predecessors))
        call.agree()
        for level in range(1, limit + 1):
            # Ranks meet in two transfers alone, as an agreement of the hosts takes longer than these.
            size, slots = backend.to_host(G.comm.all_reduce(search.count_frontier())).tolist()
            if size < 0:  # something has failed on a rank: it raises, and the others learn of it
                search.failure.check()
                call.agree()
            if not size:
                break
            search.take(G.comm.all_reduce(search.expand(size // G.comm.size, slots), "max"), level)
        search.failure.check()
        predecessors = None
        if return_predecessors:
            before = call.all_reduce(search.predecessors, "min")
            unreached = int(np.iinfo(shard.vertex_dtype).max)
            predecessors = backend.xp.where(before == unreached, -1, before).astype(shard.vertex_dtype)
        return bfs_frame(shard, search.distances, predecessors)


def sssp(G: ShardedGraph, source: Any = None, cutoff: float | None = None) -> Frame:
    """Find the shortest paths from one vertex to all others. All ranks call it.

    In each round, each rank relaxes its edges of all vertices that have come nearer. Then all get the shortest distance
    of each vertex.

    Parameters
    ----------
    G : ShardedGraph
        A weighted graph without negative weights.
    source, cutoff
        As for :func:`dynstore.sssp`, the same on all ranks.

    Returns
    -------
    frame
        As :func:`dynstore.sssp`: all vertices, on each rank. Of several vertices before it on shortest paths, the
        predecessor may be another one.

    Raises
    ------
    UnweightedGraphError, InputError
        As :func:`dynstore.sssp`.
    RankError
        If a rank has raised something else, has ended, or does not come.
    """
    check_sharded("sssp", G)
    shard, backend = G.shard, G.shard.core.backend
    with Collective(G.comm, "sssp") as call, MemoryChecked("sssp"):
        if not G.is_weighted():
            raise UnweightedGraphError(
                "sssp: requires the input graph to be weighted; got ShardedGraph(weighted=False)"
            )
        row, limit = read_sssp(shard, source, cutoff=cutoff)
        call.expect_alike(source=row, cutoff=limit)
        out = shard.snapshot()
        if has_negative_weights(out):
            raise InputError("sssp: the graph has negative weights; wanted weights of at least 0")
        paths = backend.kernels("dynstore.distributed", "shortest_paths").Paths(out, row, limit)
        call.agree()
        while True:
            # Ranks meet in this transfer alone, as in bfs. The last entry is what any of them has to say.
            nearest = G.comm.all_reduce(paths.relax(), "min")
            state = float(backend.to_host(nearest[-1:])[0])
            if state < 0:  # something has failed on a rank
                paths.failure.check()
                call.agree()
            if state > 0:  # no distance has fallen
                break
            paths.take(nearest)
        merge = partial(call.all_reduce, operation="min")
        return sssp_frame(shard, paths.distances, paths.find_predecessors(merge))
