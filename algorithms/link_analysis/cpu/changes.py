"""PageRank's residual on the host: updating it after edges have changed, and pushing it along edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.graph.delta import Delta
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["hand_on", "push_residuals", "replace_rows", "sum_rows"]


def _weights(csr: GapCSR) -> tuple[Array, int]:
    """Return weights and their stride: the edge in slot ``p`` weighs ``weights[p * stride]``."""
    return (np.ones(1, dtype=np.float64), 0) if csr.weights is None else (csr.weights, 1)


def sum_rows(out: GapCSR, rows: Array) -> tuple[Array, int]:
    """Return the sums of weights (or counts of edges) of some rows, float64, and their number of edges."""
    sums = np.zeros(rows.shape[0], dtype=np.float64)
    return sums, int(k_sum_rows(out.offsets, out.valid, *_weights(out), rows, sums))


@njit(cache=True, nogil=True)
def k_sum_rows(offsets, valid, weights, stride, rows, sums):
    visits = 0
    for i in range(rows.shape[0]):
        for p in range(offsets[rows[i]], offsets[rows[i] + 1]):
            if d_has_edge(valid, p):
                sums[i] += weights[p * stride]
                visits += 1
    return visits


def replace_rows(
    out: GapCSR, delta: Delta, rows: Array, inverse: Array, sums: Array, values: Array, handed: Array
) -> int:
    """Add what changed rows now pass to their neighbours, and subtract what they passed before, for two value lists.

    Parameters
    ----------
    out : GapCSR
    delta : Delta
    rows : array, shape (K,)
        The vertices with a changed edge, each once.
    inverse : array, shape (V,), float64
        1 / (sum of each row's weights before); 0 for a sum of 0.
    sums : array, shape (K,), float64
        The present sums.
    values : array, shape (2, V), float64
        The total that each row passes on.
    handed : array, shape (2, V), float64
        What each vertex receives; changed in place.

    Returns
    -------
    int
        Edges visited.
    """
    weights = _weights(out)
    visits = k_shift_rows(out.offsets, out.indices, out.valid, *weights, rows, inverse, sums, values, handed)
    before = delta.before.astype(np.float64) if delta.weights is None else delta.weights
    k_shift_changes(delta.src, delta.dst, delta.slots, before, *weights, inverse, values, handed)
    return int(visits)


@njit(cache=True, nogil=True)
def k_shift_rows(offsets, indices, valid, weights, stride, rows, inverse, sums, values, handed):
    """Update all edges of the rows as if only the sums had changed."""
    visits = 0
    for i in range(rows.shape[0]):
        u = rows[i]
        factor = -inverse[u]
        if sums[i] != 0:
            factor += 1.0 / sums[i]
        first, second = factor * values[0, u], factor * values[1, u]
        for p in range(offsets[u], offsets[u + 1]):
            if d_has_edge(valid, p):
                handed[0, indices[p]] += first * weights[p * stride]
                handed[1, indices[p]] += second * weights[p * stride]
                visits += 1
    return visits


@njit(cache=True, nogil=True)
def k_shift_changes(src, dst, slots, before, weights, stride, inverse, values, handed):
    """Correct the result of ``k_shift_rows`` for edges that are new, are deleted, or have another weight."""
    for i in range(src.shape[0]):
        after = 0.0
        if slots[i] >= 0:
            after = np.float64(weights[slots[i] * stride])
        if after != before[i]:
            factor = inverse[src[i]] * (after - before[i])
            handed[0, dst[i]] += values[0, src[i]] * factor
            handed[1, dst[i]] += values[1, src[i]] * factor


def hand_on(out: GapCSR, values: Array, handed: Array) -> int:
    """Add each vertex's value, times the edge's weight, to all its successors; return the number of edges.

    Parameters
    ----------
    values, handed : array, shape (V,), float64
    """
    return int(k_hand_on(out.offsets, out.indices, out.valid, *_weights(out), values, handed))


@njit(cache=True, nogil=True)
def k_hand_on(offsets, indices, valid, weights, stride, values, handed):
    visits = 0
    for u in range(values.shape[0]):
        for p in range(offsets[u], offsets[u + 1]):
            if d_has_edge(valid, p):
                handed[indices[p]] += values[u] * weights[p * stride]
                visits += 1
    return visits


def push_residuals(out: GapCSR, inverse: Array, alpha: float, threshold: float, ranks: Array, residuals: Array) -> int:
    """Move large enough residuals of vertices to their ranks, and pass them on along their edges.

    Vertices take turns, as in the Gauss-Seidel method: each passes on its residual at that time.

    Parameters
    ----------
    inverse : array, shape (V,), float64
        1 / (sum of each row's weights); 0 for a sum of 0.
    threshold : float
        A residual is moved from this value on, times the number of slots of the vertex's row plus one.
    ranks, residuals : array, shape (V,), float64
        Changed in place.

    Returns
    -------
    int
        Edges visited.
    """
    rows = (out.offsets, out.indices, out.valid, *_weights(out))
    return int(k_push_residuals(*rows, inverse, alpha, threshold, ranks, residuals))


@njit(cache=True, nogil=True)
def k_push_residuals(offsets, indices, valid, weights, stride, inverse, alpha, threshold, ranks, residuals):
    visits = 0
    for u in range(ranks.shape[0]):
        residual = residuals[u]
        if abs(residual) <= threshold * (offsets[u + 1] - offsets[u] + 1):
            continue
        residuals[u] = 0.0
        ranks[u] += residual
        share = alpha * residual * inverse[u]
        for p in range(offsets[u], offsets[u + 1]):
            if d_has_edge(valid, p):
                residuals[indices[p]] += share * weights[p * stride]
                visits += 1
    return visits
