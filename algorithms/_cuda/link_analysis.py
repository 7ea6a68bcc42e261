"""PageRank on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore._cuda.compiler import THREADS, WARP, cuda, device, kernel
from dynstore._cuda.warp import d_lane, d_sum_lanes
from dynstore.algorithms._cuda._common import d_count_bits, d_has_bit
from dynstore.algorithms._cuda._rows import (
    LOW_BITS,
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["advance_rows", "iterate_ranks", "pagerank", "sum_out_weights"]

# Iterations started before the host looks whether one has converged; those after it write nothing.
WATCHED_ITERATIONS, OTHER_ITERATIONS = 8, 64
BOARD_SIZE = THREADS // WARP
# What the device notes of an iteration: the rank of vertices without out-edges, and the L1 change.
DANGLING, CHANGE = range(2)


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
def d_share_rank(rank, weight, shares, vertex):
    """Write what ``vertex`` gives per unit of weight; return the rank that it has no edge to give along."""
    if weight == 0:
        shares[vertex] = 0
        return np.float64(rank)
    shares[vertex] = rank / weight
    return 0.0


@kernel
def k_share_ranks(ranks, out_weights, shares, history):
    """Stride over the vertices: write the shares, add up the dangling rank by one atomic add a block."""
    board = cuda.shared.array(BOARD_SIZE, np.float64)
    dangling = 0.0
    for vertex in range(int(cuda.grid(1)), ranks.shape[0], int(cuda.gridsize(1))):
        dangling += d_share_rank(ranks[vertex], out_weights[vertex], shares, vertex)
    d_add_block(dangling, board, history, DANGLING)


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


@device
def d_spread(history, iteration, alpha, uniform, num_vertices):
    """Return what all vertices get apart from their in-edges: each, or together where there are targets."""
    spread = alpha * history[2 * iteration + DANGLING] + 1.0 - alpha
    if uniform:
        spread /= num_vertices
    return spread


@device
def d_advance_rank(vertex, old, weight, total, spread, alpha, uniform, targets, ranks, shares):
    """Write a vertex's next rank and share; return by how much the rank changed, and the rank that dangles."""
    given = spread
    if not uniform:
        given = spread * np.float64(targets[vertex])
    ranks[vertex] = alpha * total + given
    rank = ranks[vertex]
    return abs(np.float64(rank) - np.float64(old)), d_share_rank(rank, weight, shares, vertex)


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


@kernel
def k_advance_split_rows(
    split, lengths, history, iteration, tol, alpha, uniform, targets, out_weights, ranks, next_shares, sums
):
    """Stride over the rows of several pieces: advance their ranks as :func:`k_pull_ranks` does, and clear the sums."""
    board = cuda.shared.array(BOARD_SIZE, np.float64)
    if history[2 * iteration + CHANGE] < tol:  # the same in all threads
        return
    spread = d_spread(history, iteration, alpha, uniform, ranks.shape[0])
    changes = 0.0
    dangling = 0.0
    for i in range(int(cuda.grid(1)), int(lengths[0]) & LOW_BITS, int(cuda.gridsize(1))):
        row = int(split[i])
        change, lost = d_advance_rank(
            row, ranks[row], out_weights[row], sums[row], spread, alpha, uniform, targets, ranks, next_shares
        )
        sums[row] = 0.0
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


def advance_rows(rows: Array, count: Array, step: tuple[Any, ...]) -> None:
    """Advance rows whose in-edges are added up in the last array of a step of :func:`iterate_ranks`; clear the sums.

    Parameters
    ----------
    count : array, shape (1,), int64
        How many rows.
    """
    k_advance_split_rows.launch_strided(rows.shape[0], rows, count, *step)


def iterate_ranks(
    backend: Backend,
    advance: Callable[[Array, tuple[Any, ...]], None],
    out_weights: Array,
    alpha: float,
    personalization: Array | None,
    start: Array,
    max_iter: int,
    tol: float,
) -> tuple[Array, int, float]:
    """Iterate :func:`pagerank` with ``advance(shares, step)``, which starts the kernels of an iteration."""
    num_vertices = start.shape[0]
    ranks = start.copy()
    shares, next_shares = (backend.empty(num_vertices, start.dtype) for _ in range(2))
    sums = backend.zeros(num_vertices, np.float64)
    uniform = int(personalization is None)
    # What the kernels do not read is stood for by what none writes.
    targets = start if personalization is None else personalization
    block = WATCHED_ITERATIONS if tol > 0 else OTHER_ITERATIONS
    last, iterations, error = None, 0, np.inf
    while iterations < max_iter and not error < tol:
        block = min(block, max_iter - iterations)
        history = backend.zeros(2 * (block + 1), np.float64)
        if last is None:
            history[CHANGE] = np.inf
            k_share_ranks.launch_strided(num_vertices, ranks, out_weights, shares, history)
        else:
            history[:2] = last[-2:]
        for iteration in range(block):
            step = (
                history,
                iteration,
                float(tol),
                float(alpha),
                uniform,
                targets,
                out_weights,
                ranks,
                next_shares,
                sums,
            )
            advance(shares, step)
            shares, next_shares = next_shares, shares
        changes = backend.to_host(history)[2 + CHANGE :: 2]
        converged = np.flatnonzero(changes < tol)
        done = int(converged[0]) + 1 if converged.shape[0] else block
        error = float(changes[done - 1])
        iterations += done
        last = history
    return ranks, iterations, error
