"""Searches over the parts of a sharded graph; results are those of one graph, and the same on all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.inputs import has_negative_weights
from dynstore.algorithms.traversal.api import bfs_frame, read_bfs, read_sssp, sssp_frame
from dynstore.batches.sorted import sort_unique
from dynstore.distributed.calls import Call
from dynstore.distributed.graph import ShardedGraph
from dynstore.distributed.owners import sort_by_owner
from dynstore.errors import InputError, InputTypeError, UnweightedGraphError, type_name
from dynstore.interrupts import MemoryChecked

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array, Frame

__all__ = ["bfs", "check_sharded", "slots_of", "sssp"]


def check_sharded(caller: str, G: ShardedGraph) -> None:
    """Refuse what is no sharded graph."""
    if not isinstance(G, ShardedGraph):
        raise InputTypeError(
            f"{caller}: G is a {type_name(G)}; wanted a ShardedGraph. dynstore.{caller} is for one graph"
        )


def slots_of(out: GapCSR, rows: Array) -> tuple[Array, Array]:
    """Return the slots of all edges of some rows, and for each slot the place of its row among these rows.

    Parameters
    ----------
    out : GapCSR
    rows : array, shape (K,)

    Returns
    -------
    slots, places : array, shape (N,), int64
    """
    xp = out.backend.xp
    starts, ends = out.offsets[rows].astype(np.int64), out.offsets[rows + 1].astype(np.int64)
    before = xp.cumsum(ends - starts)
    numbers = xp.arange(int(before[-1]) if len(rows) else 0, dtype=np.int64)
    places = xp.searchsorted(before, numbers, side="right")
    slots = ends[places] - before[places] + numbers
    there = (out.valid[slots >> 5] >> (slots & 31).astype(np.uint32)) & np.uint32(1) != 0
    return slots[there], places[there]


def bfs(G: ShardedGraph, start: Any = None, depth_limit: int | None = None, return_predecessors: bool = True) -> Frame:
    """Find how many edges each vertex is away from the nearest start vertex. All ranks call it.

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
    shard, size = G.shard, G.comm.size
    backend, xp, num_vertices = shard.backend, shard.backend.xp, G.number_of_vertices()
    with Call(G.comm, "bfs") as call, MemoryChecked("bfs"):
        sources, limit = read_bfs(shard, start, depth_limit)
        dtype = shard.vertex_dtype
        unreached = int(np.iinfo(dtype).max)
        distances = xp.full(num_vertices, unreached, dtype=dtype)  # the final ones of the own vertices
        seen = backend.zeros(num_vertices, np.bool_)  # what this rank has sent to the owners
        frontier = backend.asarray(sources.astype(dtype))
        frontier = frontier[G._owners(frontier) == call.comm.rank]
        distances[frontier] = 0
        out = shard.snapshot()
        for distance in range(1, limit + 1):
            if not any(call.agree(len(frontier))):
                break
            reached = out.indices[slots_of(out, frontier)[0]]
            reached = xp.unique(reached[~seen[reached]])
            seen[reached] = True
            _, given, send = sort_by_owner(backend, G._owners(reached), [reached], size)
            (came,), _ = call.all_to_all(given, send)
            frontier = xp.unique(came[distances[came] == unreached])
            distances[frontier] = distance
        distances = call.all_reduce(distances, "min")
        predecessors = None
        if return_predecessors:
            src, dst, _ = shard._numbered_edges(once=False)
            on_path = (distances[src] != unreached) & (distances[dst] == distances[src] + 1)
            after, nearer, _ = sort_unique(backend, dst[on_path], src[on_path], None)
            first = xp.ones(len(after), np.bool_)
            first[1:] = after[1:] != after[:-1]
            before = xp.full(num_vertices, unreached, dtype=dtype)
            before[after[first]] = nearer[first]
            before = call.all_reduce(before, "min")
            predecessors = xp.where(before == unreached, -1, before).astype(dtype)
        return bfs_frame(shard, distances, predecessors)


def sssp(G: ShardedGraph, source: Any = None, cutoff: float | None = None) -> Frame:
    """Find the shortest paths from one vertex to all others. All ranks call it.

    Each round relaxes the edges of all vertices that have come nearer, and sends what that finds to the owners.

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
    shard, num_vertices = G.shard, G.number_of_vertices()
    backend, xp, rank, size = shard.backend, shard.backend.xp, G.comm.rank, G.comm.size
    with Call(G.comm, "sssp") as call, MemoryChecked("sssp"), np.errstate(over="ignore"):
        if not G.is_weighted():
            raise UnweightedGraphError(
                "sssp: requires the input graph to be weighted; got ShardedGraph(weighted=False)"
            )
        row, limit = read_sssp(shard, source, cutoff=cutoff)
        out = shard.snapshot()
        weights: Array = out.weights
        if has_negative_weights(out):
            raise InputError("sssp: the graph has negative weights; wanted weights of at least 0")
        # The distances of the own vertices; of all others the shortest ones that this rank has sent.
        nearest = xp.full(num_vertices, np.inf, dtype=shard.weight_dtype)
        before = xp.full(num_vertices, -1, dtype=shard.vertex_dtype)
        nearest[row] = 0
        frontier = backend.asarray(np.array([row], dtype=shard.vertex_dtype))
        frontier = frontier[G._owners(frontier) == rank]
        while any(call.agree(len(frontier))):
            slots, places = slots_of(out, frontier)
            found = out.indices[slots], nearest[frontier][places] + weights[slots], frontier[places]
            found = _shortest(backend, nearest, limit, *found)
            owners = G._owners(found[0])
            elsewhere = owners != rank
            nearest[found[0][elsewhere]] = found[1][elsewhere]
            _, given, send = sort_by_owner(backend, owners, found, size)
            came, _ = call.all_to_all(given, send)
            frontier, distances, predecessors = _shortest(backend, nearest, limit, *came)
            nearest[frontier], before[frontier] = distances, predecessors
        nearest = call.all_reduce(nearest, "min")
        nearest = xp.where(xp.isfinite(nearest), nearest, np.finfo(shard.weight_dtype).max).astype(shard.weight_dtype)
        return sssp_frame(shard, nearest, call.all_reduce(before, "max"))


def _shortest(
    backend: Backend, nearest: Array, limit: float, vertices: Array, distances: Array, predecessors: Array
) -> tuple[Array, Array, Array]:
    """Return each vertex that has come nearer once, with its shortest distance and the first predecessor of it."""
    xp = backend.xp
    chosen = (distances < nearest[vertices]) & (distances < limit)
    vertices, distances, predecessors = vertices[chosen], distances[chosen], predecessors[chosen]
    keys = [each.astype(np.float64) for each in (predecessors, distances, vertices)]
    order = xp.lexsort(xp.stack(keys))
    vertices = vertices[order]
    first = xp.ones(len(order), np.bool_)
    first[1:] = vertices[1:] != vertices[:-1]
    return vertices[first], distances[order][first], predecessors[order][first]
