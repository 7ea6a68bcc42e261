"""PageRank on the GPU."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.link_analysis.cuda.iterations import (
    BOARD_SIZE,
    CHANGE,
    IterationProgress,
    RankArrays,
    Step,
    Surfer,
    d_add_totals,
    d_advance_rank,
    d_read_rank,
    d_spread,
    iterate_ranks,
    k_advance_split_rows,
)
from dynstore.algorithms.link_analysis.cuda.sums import CachedShares, InRows, d_sum_piece, d_sum_rows
from dynstore.algorithms.rows.cuda.common import d_count_bits, d_has_bit
from dynstore.algorithms.rows.cuda.cut_rows import CutPieces, CutRows, d_fetch_piece
from dynstore.algorithms.rows.cuda.rows import (
    SHORT_SLOTS,
    count_warps,
    d_find_slot,
    d_is_short,
    d_num_pieces,
    d_open_piece,
    d_open_span,
    d_read_bits,
)
from dynstore.cuda.block import BOARD, d_sum_block
from dynstore.cuda.compiler import SIMULATED, THREADS, cuda, device, kernel
from dynstore.cuda.launch import Packed
from dynstore.cuda.warp import d_lane, d_sum_lanes

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["pagerank", "sum_out_weights"]

# Bytes of shares that the L1 cache shall keep: most of its size (192 KB and more, as on an H100). There a share takes a
# line of 128 bytes, so shares that are read once evict those of hubs, which on R-MAT graphs are half of all reads.
KEPT_BYTES = 64 if SIMULATED else 160 << 10
SAMPLED_SLOTS = 64 if SIMULATED else 4096
SAMPLING_THREADS = THREADS if SIMULATED else 1024  # one block: few dependent reads a thread
KEEP_ALL = 2**31 - 1
# Registers of a thread. So four blocks fit on a multiprocessor, three with weights; with fewer, latency is not hidden.
MAX_REGISTERS, WEIGHTED_REGISTERS = 64, 80


@kernel
def k_count_edges(offsets, valid, rows, begins, lengths, degrees):
    """Warps stride over all pieces, then over groups of 32 neighbouring rows, for the short ones: count edges by row.

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
    """Warps stride over all pieces, then over groups of 32 neighbouring rows, for the short ones: add weights by row.

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
    """Return the sum of each vertex's out-weights, or its out-degree in an unweighted graph.

    Returns
    -------
    array, shape (V,)
        In the weight dtype, or float32 if unweighted; summed in float64, infinite if that does not fit.
    """
    num_warps, cut = count_warps(out), CutRows(out)
    if out.weights is None:
        degrees = out.backend.zeros(out.num_vertices, np.float32)
        k_count_edges.launch_warps(num_warps, out.offsets, out.valid, *cut.pieces, degrees)
        return degrees
    sums = out.backend.zeros(out.num_vertices, np.float64)
    k_sum_weights.launch_warps(num_warps, out.offsets, out.valid, out.weights, *cut.pieces, sums)
    with np.errstate(over="ignore"):  # infinite where it does not fit
        return sums.astype(out.weights.dtype)


@partial(kernel, threads=SAMPLING_THREADS)
def k_choose_kept(indices, most, kept):
    """One block: choose the shares that the L1 cache shall keep, those of vertices below ``kept[0]``.

    These are the first ``most`` vertices, if they are in a third of a sample of evenly spread slots: then shares that
    are read once should not evict them. Otherwise all: neighbours are near each other, or there are no slots.
    """
    board = cuda.shared.array(BOARD, np.int64)
    count = 0
    samples = SAMPLED_SLOTS if indices.shape[0] > 0 else 0
    for i in range(cuda.threadIdx.x, samples, cuda.blockDim.x):
        if indices[i * indices.shape[0] // SAMPLED_SLOTS] < most:
            count += 1
    total = d_sum_block(count, board)
    if cuda.threadIdx.x == 0:
        kept[0] = most if total * 3 >= SAMPLED_SLOTS else KEEP_ALL


@device
def d_fetch_row(offsets, state, row):
    """Return a row's first slot, end of slots, rank and out-weight; past the last row, those of the last."""
    there = np.uint64(min(row, state.out_weights.shape[0] - 1))
    return offsets[there], offsets[there + np.uint64(1)], d_read_rank(state, there), state.out_weights[there]


@device
def d_pull_ranks(edges, cut, kept, shares, progress, surfer, state, board):
    """Warps stride over groups of 32 neighbouring rows, for the short ones, then over all pieces: advance their ranks.

    It writes nothing if the iteration before has converged. A row of several pieces is only summed, by an atomic add a
    piece; every other vertex is read and written by a single lane. Two atomic adds a block to the next iteration's row
    of the history.
    """
    lane = d_lane()
    num_vertices = state.out_weights.shape[0]
    row, stride = int(cuda.grid(1)), int(cuda.gridsize(1))
    coming_begin, coming_end, coming_old, coming_weight = d_fetch_row(edges.offsets, state, row)
    spread = d_spread(progress, surfer, num_vertices)
    cached = CachedShares(shares, kept[0], edges.indices.dtype.type(num_vertices))
    pieces = d_num_pieces(cut.lengths[0])
    if progress.history[2 * progress.iteration + CHANGE] < progress.tol:  # the same in all threads
        return
    item, warps = row >> 5, stride >> 5
    coming_row, coming_base, coming_span = d_fetch_piece(cut, max(min(item, pieces - 1), 0))
    changes = 0.0
    dangling = 0.0
    while row - lane < num_vertices:  # the same in all lanes
        begin, end, old, weight = coming_begin, coming_end, coming_old, coming_weight
        coming_begin, coming_end, coming_old, coming_weight = d_fetch_row(edges.offsets, state, row + stride)
        length = edges.offsets.dtype.type(end - begin if row < num_vertices else 0)
        is_long = length > SHORT_SLOTS
        total = d_sum_rows(edges, cached, begin, length, is_long)
        if row < num_vertices and not is_long:
            change, lost = d_advance_rank(np.uint64(row), old, weight, total, spread, surfer, state)
            changes += change
            dangling += lost
        row += stride
    while item < pieces:
        row, base = coming_row, coming_base
        first, last, split = d_open_span(coming_span)
        item += warps
        coming_row, coming_base, coming_span = d_fetch_piece(cut, min(item, pieces - 1))
        # Loaded here, so that these loads overlap with those of the slots.
        old, weight = d_read_rank(state, np.uint64(row)), state.out_weights[np.uint64(row)]
        total = d_sum_lanes(d_sum_piece(edges, cached, base, first, last))
        if lane == 0:
            if split:
                cuda.atomic.add(state.sums, row, total)
            else:
                change, lost = d_advance_rank(np.uint64(row), old, weight, total, spread, surfer, state)
                changes += change
                dangling += lost
    d_add_totals(dangling, changes, board, progress)


@partial(
    kernel, max_registers=MAX_REGISTERS, records={"progress": IterationProgress, "surfer": Surfer, "state": RankArrays}
)
def k_pull_ranks(
    offsets, indices, valid, rows, begins, lengths, spans, kept, shares, progress, surfer, state
):  # fmt: skip
    """Advance all ranks except those of split rows, as :func:`d_pull_ranks` does; each edge counts 1."""
    board = cuda.shared.array(BOARD_SIZE, np.float64)
    edges, cut = InRows(offsets, indices, valid, shares, False), CutPieces(rows, begins, spans, lengths)
    d_pull_ranks(edges, cut, kept, shares, progress, surfer, state, board)


@partial(
    kernel,
    max_registers=WEIGHTED_REGISTERS,
    records={"progress": IterationProgress, "surfer": Surfer, "state": RankArrays},
)
def k_pull_weighted_ranks(
    offsets, indices, valid, weights, rows, begins, lengths, spans, kept, shares, progress, surfer, state
):  # fmt: skip
    """Advance all ranks except those of split rows with weights; its own kernel, as it takes more registers."""
    board = cuda.shared.array(BOARD_SIZE, np.float64)
    edges, cut = InRows(offsets, indices, valid, weights, True), CutPieces(rows, begins, spans, lengths)
    d_pull_ranks(edges, cut, kept, shares, progress, surfer, state, board)


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
    out-edges goes to all vertices, or where ``personalization`` says, after Langville and Meyer, "Deeper Inside
    PageRank", Internet Mathematics 1(3), 2004, section 3. Two launches an iteration. The changes stay on the device,
    and an iteration after a converged one does nothing; the host reads the changes of several iterations at once.

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
    backend, num_vertices = into.backend, into.num_vertices
    if num_vertices == 0:
        return start.copy(), 0, 0.0
    cut, num_warps = CutRows(into), count_warps(into)
    summed, kept = (cut.split, cut.pieces[2]), backend.empty(1, np.int32)
    k_choose_kept.launch(1, into.indices, KEPT_BYTES // start.dtype.itemsize, kept)
    weights = () if into.weights is None else (into.weights,)
    pull = k_pull_weighted_ranks if weights else k_pull_ranks
    pieces = Packed(into.offsets, into.indices, into.valid, *weights, *cut.pieces, cut.spans, kept)
    split = Packed(*summed)

    def advance(step: Step) -> None:
        pull.launch_warps(num_warps, pieces, step.shares, *step.last_arguments)
        k_advance_split_rows.launch_strided(cut.max_split, split, *step.last_arguments)

    return iterate_ranks(backend, advance, summed, out_weights, alpha, personalization, start, max_iter, tol)
