"""PageRank on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.link_analysis.cpu.iterations import iterate_ranks
from dynstore.algorithms.rows.cpu.slots import d_has_edge, pack_rows
from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["pagerank", "sum_out_weights"]


def sum_out_weights(out: GapCSR) -> Array:
    """Return the sum of each vertex's out-weights, or its out-degree in an unweighted graph.

    Returns
    -------
    array, shape (V,)
        In the weight dtype, or float32 if unweighted; summed in float64, infinite if that does not fit.
    """
    weighted = out.weights is not None
    weights: Array = out.weights if weighted else np.empty(0, dtype=np.float32)
    sums = np.empty(out.num_vertices, dtype=weights.dtype)
    k_sum_rows(out.offsets, weights, weighted, out.valid, sums)
    return sums


@njit(cache=True, nogil=True)
def k_sum_rows(offsets, weights, weighted, valid, sums):
    """Write one sum a row; gaps add nothing."""
    for v in range(sums.shape[0]):
        total = 0.0
        for p in range(offsets[v], offsets[v + 1]):
            if d_has_edge(valid, p):
                total += weights[p] if weighted else 1.0
        sums[v] = total


def pagerank(
    into: GapCSR,
    out_weights: Array,
    alpha: float,
    personalization: Array | None,
    start: Array,
    max_iter: int,
    tol: float,
) -> tuple[Array, int, float]:
    """Iterate PageRank, pulling over in-edges; they are packed first, as every iteration reads all.

    Page, Brin, Motwani and Winograd, "The PageRank Citation Ranking", 1999, section 2; the rank of vertices without
    out-edges goes to all vertices, or where ``personalization`` says, after Langville and Meyer, "Deeper Inside
    PageRank", Internet Mathematics 1(3), 2004, section 3.

    Parameters
    ----------
    into : GapCSR
        In-edges.
    out_weights : array, shape (V,)
        From :func:`sum_out_weights`; 0 marks a vertex without out-edges.
    alpha : float
        Probability of following an edge.
    personalization : array, shape (V,), or None
        Where the surfer goes if it follows no edge; sums to 1.
    start : array, shape (V,)
        First ranks, summing to 1; not changed. The result has their dtype.
    max_iter : int
        At least 1.
    tol : float
        Stop when the ranks change by less than this in an iteration (L1).

    Returns
    -------
    ranks : array, shape (V,), dtype of ``start``
    iterations : int
    error : float
        L1 change of the last iteration.
    """
    if into.num_vertices == 0:
        return start.copy(), 0, 0.0
    rows = pack_rows(into)
    uniform = personalization is None
    targets = np.empty(0, dtype=start.dtype) if personalization is None else personalization

    def pull(shares: Array, spread: float, ranks: Array) -> float:
        change: float = k_pull_ranks(*rows, shares, alpha, spread, targets, uniform, ranks)
        return change

    return iterate_ranks(pull, out_weights, alpha, start, max_iter, tol)


@njit(cache=True, nogil=True)
def k_pull_ranks(starts, neighbours, weights, shares, alpha, spread, targets, uniform, ranks):
    """Replace ``ranks`` by those of the next iteration; sums are float64. Returns the L1 change."""
    num_vertices = ranks.shape[0]
    weighted = weights.shape[0] > 0
    change = 0.0
    for v in range(num_vertices):
        pulled = 0.0
        for p in range(np.uint64(starts[v]), np.uint64(starts[v + 1])):
            share = np.float64(shares[np.uint64(neighbours[p])])
            pulled += share * weights[p] if weighted else share
        before = ranks[v]
        ranks[v] = alpha * pulled + spread * (1.0 / num_vertices if uniform else targets[v])
        change += abs(np.float64(ranks[v]) - before)
    return change
