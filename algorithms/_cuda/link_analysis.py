"""PageRank on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore._cuda.warp import d_lane, d_sum_lanes
from dynstore.algorithms._cuda._common import d_count_bits, d_has_bit
from dynstore.algorithms._cuda._rows import (
    STEP_SLOTS,
    CutRows,
    count_warps,
    d_add_block,
    d_find_slot,
    d_is_short,
    d_is_split,
    d_num_pieces,
    d_open_piece,
    d_read_bits,
)
from dynstore.algorithms._cuda.rank_iterations import (
    BOARD_SIZE,
    CHANGE,
    DANGLING,
    d_advance_rank,
    d_spread,
    iterate_ranks,
    k_advance_split_rows,
)

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["pagerank", "sum_out_weights"]


@kernel
def k_count_edges(offsets, valid, rows, begins, lengths, degrees):
    """Warps stride over all pieces, then over 32 neighbouring rows each, the short ones: count the edges of each.

    Only words of ``valid`` are read, one a lane. Atomics: an add to ``degrees`` a piece, exact in its float32 up to
    2^24 edges.
    """
    lane = d_lane()
    pieces = d_num_pieces(lengths[0])
    items = pieces + ((degrees.shape[0] + 31) >> 5)
    for item in range(int(cuda.grid(1)) >> 5, items, int(cuda.gridsize(1)) >> 5):
        count = 0
        if item < pieces:
            row, base, first, last = d_open_piece(offsets, rows, begins, item)
            for position in range(lane * 32, last + 1, 32 * 32):
                count += d_count_bits(
                    d_read_bits(valid, base + max(position, first), base + min(position + 32, last + 1))
                )
            count = d_sum_lanes(count)
            if lane == 0:
                cuda.atomic.add(degrees, row, np.float32(count))
        else:
            row = (item - pieces) * 32 + lane
            if row < degrees.shape[0]:
                begin = int(offsets[row])
                end = int(offsets[row + 1])
                if d_is_short(begin, end):
                    degrees[row] = d_count_bits(d_read_bits(valid, begin, end))


@kernel
def k_sum_weights(offsets, valid, weights, rows, begins, lengths, sums):
    """Warps stride over all pieces, then over 32 neighbouring rows each, the short ones: add the weights of each.

    Atomics: an add to ``sums`` a piece.
    """
    lane = d_lane()
    pieces = d_num_pieces(lengths[0])
    items = pieces + ((sums.shape[0] + 31) >> 5)
    for item in range(int(cuda.grid(1)) >> 5, items, int(cuda.gridsize(1)) >> 5):
        total = 0.0
        if item < pieces:
            row, base, first, last = d_open_piece(offsets, rows, begins, item)
            for position in range(lane, last + 1, 32):
                place, live = d_find_slot(valid, base, first, last, position)
                if live:
                    total += np.float64(weights[place])
            total = d_sum_lanes(total)
            if lane == 0:
                cuda.atomic.add(sums, row, total)
        else:
            row = (item - pieces) * 32 + lane
            if row < sums.shape[0]:
                begin = int(offsets[row])
                end = int(offsets[row + 1])
                if d_is_short(begin, end):
                    for slot in range(begin, end):
                        if d_has_bit(valid, slot):
                            total += np.float64(weights[slot])
                    sums[row] = total


def sum_out_weights(out: GapCSR) -> Array:
    """Return the sum of each vertex's out-weights, or its out-degree where there are no weights.

    Returns
    -------
    array, shape (V,)
        In the weight dtype, or float32 where there are no weights; summed in float64.
    """
    num_warps, cut = count_warps(out), CutRows(out)
    if out.weights is None:
        degrees = out.backend.zeros(out.num_vertices, np.float32)
        k_count_edges.launch_warps(num_warps, out.offsets, out.valid, *cut.pieces, degrees)
        return degrees
    sums = out.backend.zeros(out.num_vertices, np.float64)
    k_sum_weights.launch_warps(num_warps, out.offsets, out.valid, out.weights, *cut.pieces, sums)
    return sums.astype(out.weights.dtype)


@device
def d_read_term(indices, valid, shares, base, first, last, position):
    """Return the share that comes from a position of a piece, in float64, without branches."""
    place, live = d_find_slot(valid, base, first, last, position)
    term = np.float64(shares[np.uint64(indices[place])])
    return term if live else 0.0


@device
def d_weigh_term(indices, valid, weights, shares, base, first, last, position):
    """Return the weighted share that comes from a position of a piece, in float64, without branches."""
    place, live = d_find_slot(valid, base, first, last, position)
    term = np.float64(shares[np.uint64(indices[place])]) * np.float64(weights[place])
    return term if live else 0.0


@device
def d_sum_piece(indices, valid, weights, weighted, shares, base, first, last):
    """Return a lane's part of the sum over a piece: four slots at a time, so that their loads wait together."""
    total = 0.0
    if weighted:
        for place in range(d_lane(), last + 1, STEP_SLOTS):
            total += (
                d_weigh_term(indices, valid, weights, shares, base, first, last, place)
                + d_weigh_term(indices, valid, weights, shares, base, first, last, place + 32)
                + d_weigh_term(indices, valid, weights, shares, base, first, last, place + 64)
                + d_weigh_term(indices, valid, weights, shares, base, first, last, place + 96)
            )
    else:
        for place in range(d_lane(), last + 1, STEP_SLOTS):
            total += (
                d_read_term(indices, valid, shares, base, first, last, place)
                + d_read_term(indices, valid, shares, base, first, last, place + 32)
                + d_read_term(indices, valid, shares, base, first, last, place + 64)
                + d_read_term(indices, valid, shares, base, first, last, place + 96)
            )
    return total


@device
def d_read_short(indices, weights, weighted, shares, bits, begin, last, position):
    """Return the share that comes from a position of a short row, in float64, without branches."""
    place = np.uint64(begin + min(position, last))
    term = np.float64(shares[np.uint64(indices[place])])
    if weighted:
        term *= np.float64(weights[place])
    return term if (bits >> position) & 1 else 0.0


@device
def d_sum_short(indices, valid, weights, weighted, shares, begin, end):
    """Return the sum over a short row: four slots at a time, so that their loads wait together."""
    total = 0.0
    bits = d_read_bits(valid, begin, end)
    last = end - begin - 1
    for position in range(0, last + 1, 4):
        total += (
            d_read_short(indices, weights, weighted, shares, bits, begin, last, position)
            + d_read_short(indices, weights, weighted, shares, bits, begin, last, position + 1)
            + d_read_short(indices, weights, weighted, shares, bits, begin, last, position + 2)
            + d_read_short(indices, weights, weighted, shares, bits, begin, last, position + 3)
        )
    return total


@kernel
def k_pull_ranks(
    offsets, indices, valid, weights, weighted, rows, begins, lengths, shares, history, iteration, tol, alpha, uniform,
    targets, out_weights, ranks, next_shares, sums,
):  # fmt: skip
    """Warps stride over all pieces, then over 32 neighbouring rows each, the short ones: advance their ranks.

    Writes nothing where the iteration before has converged. A row of several pieces is only added up, by an atomic add
    a piece; every other vertex is read and written by one lane alone. Two atomic adds a block to the next iteration's
    row of ``history``.
    """
    board = cuda.shared.array(BOARD_SIZE, np.float64)
    if history[2 * iteration + CHANGE] < tol:  # the same in all threads
        return
    lane = d_lane()
    num_vertices = ranks.shape[0]
    spread = d_spread(history, iteration, alpha, uniform, num_vertices)
    pieces = d_num_pieces(lengths[0])
    items = pieces + ((num_vertices + 31) >> 5)
    changes = 0.0
    dangling = 0.0
    for item in range(int(cuda.grid(1)) >> 5, items, int(cuda.gridsize(1)) >> 5):
        total = 0.0
        mine = False
        if item < pieces:
            row, base, first, last = d_open_piece(offsets, rows, begins, item)
            old, weight = ranks[row], out_weights[row]  # here, so that they wait together with the slots
            total = d_sum_lanes(d_sum_piece(indices, valid, weights, weighted, shares, base, first, last))
            mine = lane == 0
            if mine and d_is_split(offsets, row, base):
                cuda.atomic.add(sums, row, total)
                mine = False
        else:
            row = (item - pieces) * 32 + lane
            there = min(row, num_vertices - 1)
            begin, end, old, weight = int(offsets[there]), int(offsets[there + 1]), ranks[there], out_weights[there]
            if row < num_vertices:
                mine = d_is_short(begin, end)
                if mine:
                    total = d_sum_short(indices, valid, weights, weighted, shares, begin, end)
        if mine:
            change, lost = d_advance_rank(row, old, weight, total, spread, alpha, uniform, targets, ranks, next_shares)
            changes += change
            dangling += lost
    d_add_block(dangling, board, history, 2 * iteration + 2 + DANGLING)
    d_add_block(changes, board, history, 2 * iteration + 2 + CHANGE)


def pagerank(
    into: GapCSR,
    out_weights: Array,
    alpha: float,
    personalization: Array | None,
    start: Array,
    max_iter: int,
    tol: float,
) -> tuple[Array, int, float]:
    """Iterate PageRank, pulling over in-edges.

    Page, Brin, Motwani and Winograd, "The PageRank Citation Ranking", 1999, section 2; the rank of vertices without
    out-edges is handed to all vertices, or as ``personalization`` says, after Langville and Meyer, "Deeper Inside
    PageRank", Internet Mathematics 1(3), 2004, section 3. Two launches an iteration. Their changes stay on the device,
    where an iteration after one that has converged does nothing; the host reads them back once for several.

    Parameters
    ----------
    into : GapCSR
        In-edges.
    out_weights : array, shape (V,)
        Of :func:`sum_out_weights`; 0 marks a vertex without out-edges.
    alpha : float
        Probability of following an edge.
    personalization : array, shape (V,), or None
        Where the others go; sums to 1.
    start : array, shape (V,)
        First ranks, summing to 1; left as they are. Its dtype is the result's.
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
    backend, num_vertices = into.backend, into.num_vertices
    if num_vertices == 0:
        return start.copy(), 0, 0.0
    cut, num_warps = CutRows(into), count_warps(into)
    weights = start if into.weights is None else into.weights  # read only where there are some
    edges = (into.offsets, into.indices, into.valid, weights, int(into.weights is not None))

    def advance(shares: Array, step: tuple[Any, ...]) -> None:
        k_pull_ranks.launch_warps(num_warps, *edges, *cut.pieces, shares, *step)
        k_advance_split_rows.launch_strided(cut.max_split, cut.split, cut.pieces[2], *step)

    return iterate_ranks(backend, advance, out_weights, alpha, personalization, start, max_iter, tol)
