"""Triangles of a sharded graph; results are those of one graph, and the same on all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.algorithms.community.by_row import chosen_counts, read_chosen
from dynstore.distributed.calls import Collective
from dynstore.distributed.graph import ShardedGraph
from dynstore.distributed.searches import check_sharded
from dynstore.errors import InputError
from dynstore.interrupts import MemoryChecked

if TYPE_CHECKING:
    from dynstore.typing import Frame

__all__ = ["triangle_count"]


def triangle_count(G: ShardedGraph, start_list: Any = None) -> Frame:
    """Count the triangles at each vertex. All ranks call it.

    Each edge leads to its end of the higher degree. Each rank goes over the pairs of such neighbours of its vertices;
    the edges between them are looked up in the parts of all ranks, which go round in a ring.

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
    shard, rank, size = G.shard, G.comm.rank, G.comm.size
    with Collective(G.comm, "triangle_count") as call, MemoryChecked("triangle_count"):
        if G.is_directed():
            raise InputError("triangle_count: input graph must be undirected; got ShardedGraph(directed=True)")
        chosen = read_chosen(shard, start_list)
        degrees = call.all_reduce(shard.row_lengths())
        part = shard.core.backend.kernels("dynstore.algorithms.community", "triangles").Part(shard.snapshot(), degrees)
        visiting, counts = part.arcs, part.count_closed(*part.arcs)
        for _ in range(size - 1):
            send = [0] * size
            send[(rank + 1) % size] = len(visiting[0])
            visiting, _ = call.all_to_all(visiting, send)
            counts += part.count_closed(*visiting)
        return chosen_counts(shard, call.all_reduce(counts).astype(shard.vertex_dtype), chosen)
