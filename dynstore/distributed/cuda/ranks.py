"""One rank's part of PageRank on the GPU: sums over its rows; ranks of all vertices, once all sums are known."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.link_analysis.cuda.ranks import (
    KEPT_BYTES,
    MAX_REGISTERS,
    WEIGHTED_REGISTERS,
    k_choose_kept,
    k_sum_weights,
    sum_out_weights,
)
from dynstore.algorithms.link_analysis.cuda.sums import CachedShares, InRows, d_sum_piece, d_sum_rows
from dynstore.algorithms.rows.cuda.cut_rows import CutPieces, CutRows, d_fetch_piece
from dynstore.algorithms.rows.cuda.rows import SHORT_SLOTS, count_warps, d_add_block, d_num_pieces, d_open_span
from dynstore.cuda.compiler import THREADS, WARP, cuda, device, kernel
from dynstore.cuda.launch import Packed
from dynstore.cuda.warp import d_lane, d_sum_lanes
from dynstore.distributed.failures import Failure

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["Ranking", "sum_weights"]

BOARD_SIZE = THREADS // WARP


@device
def d_read_row(offsets, row):
    """Return a row's first slot and the end of its slots; past the last row, those of the last."""
    there = np.uint64(min(row, offsets.shape[0] - 2))
    return offsets[there], offsets[there + np.uint64(1)]


@device
def d_sum_all(edges, cut, kept, shares, sums):
    """Warps stride over groups of 32 neighbouring rows, for the short ones, then over all pieces: write their sums.

    The sums of rows of several pieces are 0 before; each of these adds its part (atomic). Parts are summed in float64.
    """
    lane = d_lane()
    num_vertices = edges.offsets.shape[0] - 1
    row, stride = int(cuda.grid(1)), int(cuda.gridsize(1))
    cached = CachedShares(shares, kept[0], edges.indices.dtype.type(num_vertices))
    pieces = d_num_pieces(cut.lengths[0])
    item, warps = row >> 5, stride >> 5
    coming_begin, coming_end = d_read_row(edges.offsets, row)
    while row - lane < num_vertices:  # the same in all lanes
        begin, end = coming_begin, coming_end
        coming_begin, coming_end = d_read_row(edges.offsets, row + stride)
        length = edges.offsets.dtype.type(end - begin if row < num_vertices else 0)
        is_long = length > SHORT_SLOTS
        total = d_sum_rows(edges, cached, begin, length, is_long)
        if row < num_vertices and not is_long:
            sums[row] = total
        row += stride
    while item < pieces:
        row, base, span = d_fetch_piece(cut, item)
        first, last, split = d_open_span(span)
        item += warps
        total = d_sum_lanes(d_sum_piece(edges, cached, base, first, last))
        if lane == 0:
            if split:
                cuda.atomic.add(sums, row, sums.dtype.type(total))
            else:
                sums[row] = total


@partial(kernel, max_registers=MAX_REGISTERS)
def k_sum_shares(offsets, indices, valid, rows, begins, lengths, spans, kept, shares, sums):
    """Sum the shares of each row's neighbours, as :func:`d_sum_all` does; each edge counts 1."""
    edges = InRows(offsets, indices, valid, shares, False)
    d_sum_all(edges, CutPieces(rows, begins, spans, lengths), kept, shares, sums)


@partial(kernel, max_registers=WEIGHTED_REGISTERS)
def k_sum_weighted_shares(offsets, indices, valid, weights, rows, begins, lengths, spans, kept, shares, sums):
    """Sum the shares of each row's neighbours with weights, as :func:`d_sum_all` does."""
    edges = InRows(offsets, indices, valid, weights, True)
    d_sum_all(edges, CutPieces(rows, begins, spans, lengths), kept, shares, sums)


@kernel
def k_advance_ranks(totals, alpha, first, end, out_weights, ranks, shares, sums):
    """Stride over the vertices: write ranks and shares. Add the dangling rank and the change of those in [first, end).

    ``totals`` and ``sums`` have these two behind an entry a vertex: of the ranks before, and of those that are written.
    Atomics: two adds a block.
    """
    board = cuda.shared.array(BOARD_SIZE, np.float64)
    num_vertices = ranks.shape[0]
    spread = (alpha * np.float64(totals[num_vertices]) + 1.0 - alpha) / num_vertices
    dangling = 0.0
    change = 0.0
    for vertex in range(int(cuda.grid(1)), num_vertices, int(cuda.gridsize(1))):
        rank = ranks.dtype.type(alpha * np.float64(totals[vertex]) + spread)
        weight = out_weights[vertex]
        own = first <= vertex < end
        if own:
            change += abs(np.float64(rank) - np.float64(ranks[vertex]))
        ranks[vertex] = rank
        if weight == 0:
            shares[vertex] = 0
            if own:
                dangling += np.float64(rank)
        else:
            shares[vertex] = rank / weight
    d_add_block(dangling, board, sums, num_vertices)
    d_add_block(change, board, sums, num_vertices + 1)


def sum_weights(out: GapCSR) -> Array:
    """Return the sum of each row's weights, float64; or its edges, float32, without weights."""
    if out.weights is None:
        return sum_out_weights(out)
    sums = out.backend.zeros(out.num_vertices, np.float64)
    pieces = CutRows(out).pieces
    k_sum_weights.launch_warps(count_warps(out), out.offsets, out.valid, out.weights, *pieces, sums)
    return sums


class Ranking:
    """A rank's part of PageRank; all vertices begin with the same rank.

    Parameters
    ----------
    into : GapCSR
        In-edges that lie on this rank.
    out_weights : array, shape (V,), V above 0
        Of all vertices, from all ranks; ranks have its dtype.
    alpha : float
    part : (int, int)
        Of these vertices this rank adds up changes and dangling ranks: from the first to before the second.

    Attributes
    ----------
    ranks : array, shape (V,)
        The same on all ranks.
    """

    def __init__(self, into: GapCSR, out_weights: Array, alpha: float, part: tuple[int, int]) -> None:
        backend, num_vertices, dtype = into.backend, into.num_vertices, out_weights.dtype
        self._alpha, self._part, self._num_warps = float(alpha), part, count_warps(into)
        self._out_weights = out_weights
        self.ranks, self._shares, kept, *sums = backend.empty_arena(
            (num_vertices, dtype), (num_vertices + 1, dtype), (1, np.int32), *[(num_vertices + 2, dtype)] * 2
        )
        self._sums, self._next_sums = sums
        k_choose_kept.launch(1, into.indices, KEPT_BYTES // dtype.itemsize, kept)
        cut, weights = CutRows(into), () if into.weights is None else (into.weights,)
        self._kernel = k_sum_weighted_shares if weights else k_sum_shares
        self._rows = Packed(into.offsets, into.indices, into.valid, *weights, *cut.pieces, cut.spans, kept)
        self.ranks.fill(1.0 / num_vertices)
        self._shares.fill(0)
        # The shares come from a step that keeps the ranks.
        totals = backend.zeros(num_vertices + 2, dtype)
        totals[:num_vertices] = 1.0 / num_vertices
        self._advance(totals, 1.0)
        self.failure = Failure()

    def _advance(self, totals: Array, alpha: float) -> None:
        self._sums, self._next_sums = self._next_sums, self._sums
        self._sums.fill(0)
        given = (totals, alpha, *self._part, self._out_weights)
        k_advance_ranks.launch_strided(self.ranks.shape[0], *given, self.ranks, self._shares, self._sums)

    def sum_shares(self) -> Array:
        """Return this rank's sums of shares; behind them its dangling rank, and its change of ranks.

        Returns
        -------
        array, shape (V + 2,), in the dtype of the ranks
            It is written again by the call after the next. If something has failed on this rank, all entries are NaN.
        """
        with self.failure:
            self._kernel.launch_warps(self._num_warps, self._rows, self._shares, self._sums)
        if self.failure:
            self._sums.fill(np.nan)
        return self._sums

    def advance(self, totals: Array) -> None:
        """Make the next ranks of the sums of all ranks."""
        with self.failure:
            self._advance(totals, self._alpha)

    @property
    def change(self) -> Array:
        """This rank's change of ranks by the last step, shape (1,)."""
        return self._sums[-1:]
