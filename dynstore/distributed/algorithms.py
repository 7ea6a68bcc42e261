"""Algorithms over the parts of a sharded graph; their results are those of one graph, and the same on all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.components.api import components_frame, read_components
from dynstore.algorithms.link_analysis.api import pagerank_frame, read_numbers
from dynstore.algorithms.traversal.api import bfs_frame, read_bfs
from dynstore.batches.sorted import sort_unique
from dynstore.bits import full_words
from dynstore.distributed.calls import Call
from dynstore.distributed.graph import ShardedGraph
from dynstore.distributed.owners import sort_by_owner
from dynstore.errors import FailedToConvergeError, InputError, InputTypeError, type_name
from dynstore.interrupts import MemoryChecked
from dynstore.snapshot import GapCSR

if TYPE_CHECKING:
    from dynstore.typing import Array, Frame

__all__ = ["bfs", "pagerank", "weakly_connected_components"]


def _check(caller: str, G: ShardedGraph) -> None:
    if not isinstance(G, ShardedGraph):
        raise InputTypeError(
            f"{caller}: G is a {type_name(G)}; wanted a ShardedGraph. dynstore.{caller} is for one graph"
        )


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
    _check("bfs", G)
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
            reached = _successors(out, frontier)
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


def _successors(out: GapCSR, rows: Array) -> Array:
    """Return where the edges of some rows lead, repeated vertices included."""
    xp = out.backend.xp
    starts, ends = out.offsets[rows].astype(np.int64), out.offsets[rows + 1].astype(np.int64)
    before = xp.cumsum(ends - starts)
    total = int(before[-1]) if len(rows) else 0
    places = xp.arange(total, dtype=np.int64)
    row = xp.searchsorted(before, places, side="right")
    slots = ends[row] - before[row] + places
    words = out.valid[slots >> 5] >> (slots & 31).astype(np.uint32)
    return out.indices[slots[(words & np.uint32(1)) != 0]]


def pagerank(
    G: ShardedGraph,
    alpha: float = 0.85,
    max_iter: int = 100,
    tol: float = 1.0e-5,
    fail_on_nonconvergence: bool = True,
) -> Frame | tuple[Frame, bool]:
    """Rank vertices by the chance that a random surfer is there. All ranks call it.

    Parameters
    ----------
    G : ShardedGraph
        As for :func:`dynstore.pagerank`.
    alpha, max_iter, tol, fail_on_nonconvergence
        As for :func:`dynstore.pagerank`, the same on all ranks.

    Returns
    -------
    frame
        As :func:`dynstore.pagerank`: all vertices, on each rank. It is computed in float64.

    Raises
    ------
    FailedToConvergeError, InputError
        As :func:`dynstore.pagerank`.
    RankError
        If a rank has raised something else, has ended, or does not come.
    """
    _check("pagerank", G)
    shard, num_vertices = G.shard, G.number_of_vertices()
    xp = shard.backend.xp
    with Call(G.comm, "pagerank") as call, MemoryChecked("pagerank"):
        alpha, tol, limit = read_numbers(alpha, tol, max_iter)
        src, dst, weights = shard._numbered_edges(once=False)
        if weights is not None and bool((weights < 0).any()):
            raise InputError("pagerank: the graph has negative weights; wanted weights of at least 0")
        weights = xp.ones(len(src)) if weights is None else weights.astype(np.float64)
        sums = call.all_reduce(xp.bincount(src, weights=weights, minlength=num_vertices))
        shares = weights / xp.where(sums == 0, 1.0, sums)[src]
        dangling = sums == 0
        ranks = xp.full(num_vertices, 1.0 / max(num_vertices, 1))
        error = 0.0 if num_vertices == 0 else np.inf
        iterations = 0
        while error >= tol and iterations < limit and num_vertices:
            came = call.all_reduce(xp.bincount(dst, weights=shares * ranks[src], minlength=num_vertices))
            left = 1.0 - alpha + alpha * float(ranks[dangling].sum())
            new = alpha * came + left / num_vertices
            error, ranks = float(xp.abs(new - ranks).sum()), new
            iterations += 1
        converged = num_vertices == 0 or error < tol
        if fail_on_nonconvergence and not converged:
            raise FailedToConvergeError(
                f"pagerank: failed to converge: after {iterations} iterations the ranks still change by {error:.3g}; "
                f"wanted less than tol={tol:g}. Raise max_iter or tol, or pass fail_on_nonconvergence=False"
            )
        frame = pagerank_frame(shard, ranks.astype(shard.weight_dtype if G.is_weighted() else np.float32))
        call.agree()
    return frame if fail_on_nonconvergence else (frame, converged)


def weakly_connected_components(G: ShardedGraph) -> Frame:
    """Label each vertex with its component. All ranks call it.

    Each rank labels what its own edges connect. Then pairs of ranks join their labels, until one has those of all.

    Parameters
    ----------
    G : ShardedGraph
        Weights are not used.

    Returns
    -------
    frame
        As :func:`dynstore.weakly_connected_components`: all vertices, on each rank.

    Raises
    ------
    RankError
        If a rank has raised, has ended, or does not come.
    """
    _check("weakly_connected_components", G)
    shard, rank, size = G.shard, G.comm.rank, G.comm.size
    with Call(G.comm, "weakly_connected_components") as call, MemoryChecked("weakly_connected_components"):
        read_components()
        kernels = shard.backend.kernels("dynstore.algorithms.components", "labels")
        labels = kernels.label_components(shard.snapshot(), False)
        distance = 1
        while distance < size:
            gives = rank % (2 * distance) == distance
            send = [len(labels) if gives and other == rank - distance else 0 for other in range(size)]
            (came,), receive = call.all_to_all([labels], send)
            if any(receive):
                labels = kernels.label_components(_joined(shard.backend, labels, came), False)
            distance *= 2
        call.agree()
        return components_frame(shard, G.comm.broadcast(labels))


def _joined(backend: Any, first: Array, second: Array) -> GapCSR:
    """Return the graph in which each vertex has an edge to both its labels."""
    xp, num_vertices = backend.xp, int(first.shape[0])
    offsets = xp.arange(0, 2 * num_vertices + 1, 2).astype(first.dtype)
    sources = xp.repeat(xp.arange(num_vertices, dtype=first.dtype), 2)
    indices = xp.stack((xp.minimum(first, second), xp.maximum(first, second)), axis=1).reshape(-1)
    valid = full_words(backend, 2 * num_vertices)
    return GapCSR(backend, offsets, sources, indices, valid, None, 2 * num_vertices)
