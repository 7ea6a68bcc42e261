"""PageRank's residual on the GPU: updating it after edges have changed, and pushing it along edges.

Counts of edges are counts of slots here, gaps included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cuda.common import d_find_row, d_has_bit, d_open_item, d_open_tile
from dynstore.algorithms.rows.cuda.sweeps import VertexList, d_append, sweep
from dynstore.cuda.compiler import SIMULATED, cuda, kernel
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle, d_sum_lanes

if TYPE_CHECKING:
    from dynstore.graph.delta import Delta
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["hand_on", "push_residuals", "replace_rows", "sum_rows"]

# Parts of the vertices that take turns in a round; each uses what the earlier ones have passed on.
TURNS = 2 if SIMULATED else 8


def _weights(csr: GapCSR) -> tuple[Array, int]:
    """Return weights and their stride: the edge in slot ``p`` weighs ``weights[p * stride]``."""
    return (csr.backend.full(1, 1.0, np.float64), 0) if csr.weights is None else (csr.weights, 1)


@kernel
def k_sum_rows(offsets, indices, valid, vertices, scan, steps, weights, stride, sums):
    """One warp a tile of slots: add their weights to ``sums``, one atomic add a step if all are in one row."""
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + d_lane()
        row = -1
        weight = 0.0
        if item < last:
            row, slot = d_open_item(offsets, vertices, scan, low, high, item)
            if d_has_bit(valid, slot):
                weight = np.float64(weights[slot * stride])
        row_of_first = d_shuffle(row, 0)
        several = d_ballot(row >= 0 and row != row_of_first)
        total = d_sum_lanes(weight)
        if several == 0:
            weight = 0.0
            if d_lane() == 0:
                weight = total
        if row >= 0 and weight != 0.0:
            cuda.atomic.add(sums, row, weight)


def sum_rows(out: GapCSR, rows: Array) -> tuple[Array, int]:
    """Return the sums of weights (or counts of edges) of some rows, float64, and their number of slots."""
    sums = out.backend.zeros(out.num_vertices, np.float64)
    visits = sweep(out, rows, k_sum_rows, *_weights(out), sums)
    return sums[rows], visits


@kernel
def k_shift_rows(
    offsets, indices, valid, rows, scan, steps, weights, stride, first_factors, second_factors, first_handed,
    second_handed,
):  # fmt: skip
    """One warp a tile of slots, one lane an edge: pass on its row's two factors (two atomic adds)."""
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + d_lane()
        if item < last:
            row = d_find_row(scan, low, high, item)
            slot = int(offsets[rows[row] + 1]) - (int(scan[row]) - item)
            if d_has_bit(valid, slot):
                weight = np.float64(weights[slot * stride])
                head = int(indices[slot])
                cuda.atomic.add(first_handed, head, first_factors[row] * weight)
                cuda.atomic.add(second_handed, head, second_factors[row] * weight)


@kernel
def k_shift_changes(
    src, dst, slots, before, weights, stride, inverse, first_values, second_values, first_handed, second_handed
):  # fmt: skip
    """One thread a change: correct the shift for an edge whose weight has changed (two atomic adds)."""
    i = int(cuda.grid(1))
    if i < src.shape[0]:
        slot = int(slots[i])
        gain = -np.float64(before[i])
        if slot >= 0:
            gain += np.float64(weights[slot * stride])
        if gain != 0.0:
            tail = int(src[i])
            head = int(dst[i])
            gain *= inverse[tail]
            cuda.atomic.add(first_handed, head, first_values[tail] * gain)
            cuda.atomic.add(second_handed, head, second_values[tail] * gain)


def replace_rows(
    out: GapCSR, delta: Delta, rows: Array, inverse: Array, sums: Array, values: Array, handed: Array
) -> int:
    """Add what changed rows now pass to their neighbours, and subtract what they passed before, for two value lists.

    Method, parameters and result are those of the host's ``replace_rows``.
    """
    xp, weights = out.backend.xp, _weights(out)
    positive = sums > 0
    change = xp.where(positive, 1.0 / xp.where(positive, sums, 1.0), 0.0) - inverse[rows]
    factors = (values[0][rows] * change, values[1][rows] * change)
    visits = sweep(out, rows, k_shift_rows, *weights, *factors, handed[0], handed[1])
    before = delta.before.astype(np.float64) if delta.weights is None else delta.weights
    changes = (delta.src, delta.dst, delta.slots, before)
    k_shift_changes.launch(len(delta), *changes, *weights, inverse, values[0], values[1], handed[0], handed[1])
    return visits


@kernel
def k_hand_on(sources, indices, valid, weights, stride, values, handed):
    """Stride over the slots: one atomic add an edge."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot):
            value = values[sources[slot]] * np.float64(weights[slot * stride])
            cuda.atomic.add(handed, int(indices[slot]), value)


def hand_on(out: GapCSR, values: Array, handed: Array) -> int:
    """Add each vertex's value, times the edge's weight, to all its successors; return the number of slots."""
    k_hand_on.launch_strided(out.num_slots, out.sources, out.indices, out.valid, *_weights(out), values, handed)
    return out.num_slots


@kernel
def k_take_residuals(offsets, begin, end, inverse, alpha, threshold, ranks, residuals, shares, moved, size):
    """One thread a vertex from ``begin`` to ``end``: move a large enough residual to its rank, and append the vertex.

    ``shares``: what it passes on per unit of weight. One atomic add a warp.
    """
    v = begin + int(cuda.grid(1))
    pays = False
    if v < end:
        residual = residuals[v]
        pays = abs(residual) > threshold * (int(offsets[v + 1]) - int(offsets[v]) + 1)
        if pays:
            residuals[v] = 0.0
            ranks[v] += residual
            shares[v] = alpha * residual * inverse[v]
    d_append(moved, size, 0, v, pays)


@kernel
def k_push_shares(offsets, indices, valid, vertices, scan, steps, weights, stride, shares, residuals):
    """One warp a tile of slots, one lane an edge: pass on its vertex's share (atomic add)."""
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + d_lane()
        if item < last:
            v, slot = d_open_item(offsets, vertices, scan, low, high, item)
            if d_has_bit(valid, slot):
                cuda.atomic.add(residuals, int(indices[slot]), shares[v] * np.float64(weights[slot * stride]))


def push_residuals(out: GapCSR, inverse: Array, alpha: float, threshold: float, ranks: Array, residuals: Array) -> int:
    """Move large enough residuals of vertices to their ranks, and pass them on along their edges.

    Parameters and result are those of the host's ``push_residuals``; here parts of the vertices take turns.
    """
    num_vertices, weights = out.num_vertices, _weights(out)
    shares = out.backend.empty(num_vertices, np.float64)
    visits = 0
    for turn in range(TURNS):
        begin, end = turn * num_vertices // TURNS, (turn + 1) * num_vertices // TURNS
        moved = VertexList(out.backend, end - begin, out.offsets.dtype)
        state = (float(threshold), ranks, residuals, shares)
        k_take_residuals.launch(end - begin, out.offsets, begin, end, inverse, float(alpha), *state, *moved.outputs)
        visits += sweep(out, moved.take(), k_push_shares, *weights, shares, residuals)
    return visits
