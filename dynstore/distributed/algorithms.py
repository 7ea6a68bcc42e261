"""Ranks and components of a sharded graph; results are those of one graph, and the same on all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.components.by_row import components_frame, read_components
from dynstore.algorithms.inputs import has_negative_weights
from dynstore.algorithms.link_analysis.by_row import pagerank_frame, read_numbers
from dynstore.bits import full_words
from dynstore.distributed.calls import Collective
from dynstore.distributed.graph import ShardedGraph
from dynstore.distributed.searches import check_sharded
from dynstore.errors import FailedToConvergeError, InputError
from dynstore.interrupts import MemoryChecked
from dynstore.snapshot import GapCSR

if TYPE_CHECKING:
    from dynstore.typing import Array, Frame

__all__ = ["pagerank", "weakly_connected_components"]


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
        As for :func:`dynstore.pagerank`. On a directed graph the first call makes a table of in-edges on each rank.
        From then on updates change it, too.
    alpha, max_iter, tol, fail_on_nonconvergence
        As for :func:`dynstore.pagerank`, the same on all ranks.

    Returns
    -------
    frame
        As :func:`dynstore.pagerank`: all vertices, on each rank, the same bits.

    Raises
    ------
    FailedToConvergeError, InputError
        As :func:`dynstore.pagerank`.
    RankError
        If a rank has raised something else, has ended, or does not come.
    """
    check_sharded("pagerank", G)
    shard, comm, num_vertices = G.shard, G.comm, G.number_of_vertices()
    with Collective(comm, "pagerank") as call, MemoryChecked("pagerank"):
        alpha, tol, limit = read_numbers(alpha, tol, max_iter)
        call.expect_alike(alpha=alpha, tol=tol, max_iter=limit, fail_on_nonconvergence=bool(fail_on_nonconvergence))
        kernels, out = shard.core.backend.kernels("dynstore.distributed", "ranks"), shard.snapshot()
        if has_negative_weights(out):
            raise InputError("pagerank: the graph has negative weights; wanted weights of at least 0")
        into = shard.snapshot(transposed=True) if G.is_directed() else out
        dtype = shard.weight_dtype if G.is_weighted() else np.float32
        if not num_vertices:
            frame = pagerank_frame(shard, shard.core.backend.empty(0, dtype))
            return frame if fail_on_nonconvergence else (frame, True)
        out_weights = call.all_reduce(kernels.sum_weights(out))
        part = num_vertices * comm.rank // comm.size, num_vertices * (comm.rank + 1) // comm.size
        ranking, error = kernels.Ranking(into, out_weights, alpha, part), np.inf
        call.agree()
        for iteration in range(limit):
            # Ranks meet in this transfer alone: an agreement takes as long. A rank that fails makes all sums NaN.
            totals = comm.all_reduce(ranking.sum_shares())
            if iteration and tol > 0:  # the change by the step before
                error = float(totals[-1])
                if error < tol:
                    break
                if np.isnan(error):
                    ranking.failure.check()
                    call.agree()
            ranking.advance(totals)
        else:
            error = float(comm.all_reduce(ranking.change)[0])
        ranking.failure.check()
        call.agree()
        converged = error < tol
        if fail_on_nonconvergence and not converged:
            raise FailedToConvergeError(
                f"pagerank: failed to converge: after {limit} iterations the ranks still change by {error:.3g}; "
                f"wanted less than tol={tol:g}. Raise max_iter or tol, or pass fail_on_nonconvergence=False"
            )
        frame = pagerank_frame(shard, ranking.ranks.astype(dtype))
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
    check_sharded("weakly_connected_components", G)
    shard, rank, size = G.shard, G.comm.rank, G.comm.size
    with Collective(G.comm, "weakly_connected_components") as call, MemoryChecked("weakly_connected_components"):
        read_components()
        kernels = shard.core.backend.kernels("dynstore.algorithms.components", "labels")
        labels = kernels.label_components(shard.snapshot(), False)
        distance = 1
        while distance < size:
            gives = rank % (2 * distance) == distance
            send = [len(labels) if gives and other == rank - distance else 0 for other in range(size)]
            (came,), receive = call.all_to_all([labels], send)
            if any(receive):
                labels = kernels.label_components(_joined(shard.core.backend, labels, came), False)
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
