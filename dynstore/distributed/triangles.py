"""Triangles of a sharded graph; results are those of one graph, and the same on all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.community.api import chosen_counts, read_chosen
from dynstore.distributed.calls import Call
from dynstore.distributed.graph import ShardedGraph
from dynstore.distributed.searches import check_sharded
from dynstore.errors import InputError
from dynstore.interrupts import MemoryChecked

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array, Frame

__all__ = ["triangle_count"]

MAX_PAIRS = 1 << 22  # pairs of neighbours that are looked up at a time


def triangle_count(G: ShardedGraph, start_list: Any = None) -> Frame:
    """Count the triangles at each vertex. All ranks call it.

    Each edge leads to its end of the higher degree. Each rank lists the pairs of such neighbours of its vertices; the
    edges between them are looked up in the parts of all ranks, which go round in a ring.

    Parameters
    ----------
    G : ShardedGraph
        An undirected graph. Self-loops and weights do not count.
    start_list : int, str, list, array, series or frame of one column, optional
        The vertices to report on this rank, in this order. By default all.

    Returns
    -------
    frame
        As :func:`dynstore.triangle_count`.

    Raises
    ------
    InputError
        As :func:`dynstore.triangle_count`.
    RankError
        If a rank has raised something else, has ended, or does not come.
    """
    check_sharded("triangle_count", G)
    shard, rank, size, num_vertices = G.shard, G.comm.rank, G.comm.size, G.number_of_vertices()
    backend = shard.backend
    with Call(G.comm, "triangle_count") as call, MemoryChecked("triangle_count"):
        if G.is_directed():
            raise InputError("triangle_count: input graph must be undirected; got ShardedGraph(directed=True)")
        chosen = read_chosen(shard, start_list)
        degrees = call.all_reduce(shard.row_lengths())
        src, dst, _ = shard._numbered_edges(once=False)
        up = (degrees[src] < degrees[dst]) | ((degrees[src] == degrees[dst]) & (src < dst))
        src, dst = src[up].astype(np.int64), dst[up].astype(np.int64)
        visiting = src * num_vertices + dst  # ascending
        counts = backend.zeros(num_vertices, np.int64)
        send = [0] * size
        counts += _count_closed(backend, src, dst, visiting, num_vertices)
        for _ in range(size - 1):
            send[(rank + 1) % size] = len(visiting)
            (visiting,), _ = call.all_to_all([visiting], send)
            counts += _count_closed(backend, src, dst, visiting, num_vertices)
        return chosen_counts(shard, call.all_reduce(counts).astype(shard.vertex_dtype), chosen)


def _count_closed(backend: Backend, src: Array, dst: Array, keys: Array, num_vertices: int) -> Array:
    """Return the triangles at each vertex whose first two edges are here, and whose third is among the keys.

    Parameters
    ----------
    src, dst : array, shape (N,), int64
        Edges to ends of higher degree, sorted.
    keys : array, ascending, int64
        Other such edges, ``src * num_vertices + dst``.
    """
    xp, counts = backend.xp, backend.zeros(num_vertices, np.int64)
    if not len(src) or not len(keys):
        return counts
    # Edge number i makes a pair with each later edge of its row.
    later = xp.searchsorted(src, src, side="right") - xp.arange(len(src)) - 1
    ends = xp.cumsum(later)
    for low in range(0, int(ends[-1]), MAX_PAIRS):
        numbers = xp.arange(low, min(low + MAX_PAIRS, int(ends[-1])))
        first = xp.searchsorted(ends, numbers, side="right")
        second = first + 1 + numbers - (ends[first] - later[first])
        for one, other in ((first, second), (second, first)):  # the third edge may lead either way
            wanted = dst[one] * num_vertices + dst[other]
            places = xp.minimum(xp.searchsorted(keys, wanted), len(keys) - 1)
            closed = keys[places] == wanted
            for corner in (src[one], dst[one], dst[other]):
                counts += xp.bincount(corner[closed], minlength=num_vertices)
    return counts
