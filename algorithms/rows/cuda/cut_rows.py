"""All rows of a graph cut into pieces once, by one resident kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.algorithms.rows.cuda.rows import (
    LOW_BITS,
    PIECE_BITS,
    PIECE_SLOTS,
    SHORT_SLOTS,
    SPLIT_SPAN,
    list_parts,
)
from dynstore.cuda.block import BOARD, d_scan_tile, d_sum_block
from dynstore.cuda.compiler import MAX_RESIDENT_BLOCKS, SIMULATED, WARP, cuda, device, kernel
from dynstore.cuda.grid import d_sync_grid
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_scan_lanes, d_shuffle

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["CutPieces", "CutRows", "SplitRows", "d_fetch_piece"]

# Rows that a thread reads together, so that the reads overlap.
COUNTED_ROWS = 2 if SIMULATED else 4
# Entries of ``control`` behind the lengths.
ARRIVALS, BLOCK_SUMS = 1, 2


class CutPieces(NamedTuple):
    """The pieces of all long rows in row order, as :class:`CutRows` has them.

    Attributes
    ----------
    rows, begins, spans : array
        Each piece's row, the multiple of 32 where reading starts, and its positions, for ``d_open_span``.
    lengths : array
        The first entry is the packed number of pieces.
    """

    rows: Array
    begins: Array
    spans: Array
    lengths: Array


class SplitRows(NamedTuple):
    """The rows of several pieces, and the place of each one's first piece."""

    rows: Array
    places: Array


@device
def d_read_row(offsets, row):
    """Return a row's first slot and the end of its slots; ``row`` has the dtype of ``offsets`` (no wider index)."""
    return offsets[np.uint64(row)], offsets[np.uint64(row) + np.uint64(1)]


@device
def d_last_position(offsets, begin, end):
    """Return a row's last slot, counted from the begin of its first piece, in the dtype of ``offsets``."""
    return offsets.dtype.type(end - 1 - (begin & -32))


@device
def d_list_long(offsets, first, count, long_rows):
    """List the long rows among a warp's ``count`` rows from ``first`` on, in order, in ``long_rows`` from ``first`` on.

    All lanes call it. Returns the number of long rows; and of those that this lane has read, the number of pieces after
    each row's first, and the number of rows with several pieces. Everything is int32 if ``offsets`` are.
    """
    begins, ends = cuda.local.array(COUNTED_ROWS, offsets.dtype), cuda.local.array(COUNTED_ROWS, offsets.dtype)
    number = offsets.dtype.type
    listed, others, several = np.int32(0), np.int32(0), np.int32(0)
    lane = np.int32(d_lane())
    at = lane
    while np.int32(at - lane) < count:  # the same in all lanes
        for k in range(COUNTED_ROWS):  # no branches, so that reads overlap; past the last row, that one again
            there = min(np.int32(at + 32 * k), np.int32(count - 1))
            begins[k], ends[k] = d_read_row(offsets, number(first + there))
        for k in range(COUNTED_ROWS):
            there = np.int32(at + 32 * k)
            is_long = (number(ends[k] - begins[k]) > SHORT_SLOTS) & (there < count)
            longs = d_ballot(is_long)
            if is_long:
                long_rows[np.uint64(number(first + listed + d_count_lower(longs, lane)))] = first + there
                other = np.int32(d_last_position(offsets, begins[k], ends[k]) >> PIECE_BITS)
                others = np.int32(others + other)
                several = np.int32(several + min(other, np.int32(1)))
            listed = np.int32(listed + np.int32(cuda.popc(longs)))
        at = np.int32(at + 32 * COUNTED_ROWS)
    return listed, others, several


@device
def d_fetch_piece(pieces, item):
    """Return a piece's row, where reading starts, its span."""
    place = np.uint64(item)
    return int(pieces.rows[place]), int(pieces.begins[place]), int(pieces.spans[place])


@device
def d_write_piece(begin, last, row, piece, split, pieces, place):
    """Write one of a row's pieces to ``pieces``; ``split`` is 0 or SPLIT_SPAN."""
    behind = pieces.begins.dtype.type(piece << PIECE_BITS)
    pieces.rows[place] = row
    pieces.begins[place] = (begin & -32) + behind
    pieces.spans[place] = (begin & 31 if piece == 0 else 0) + 32 * min(last - behind, PIECE_SLOTS - 1) + split


@device
def d_write_long(offsets, first, listed, long_rows, place, split_place, cut, split):
    """Write the pieces of a warp's long rows to ``cut`` from ``place`` on, except those of rows with several pieces.

    Such rows, and where their pieces will go, are listed in ``split`` from ``split_place`` on. All lanes call it;
    ``listed`` is above 0. Row numbers are read two steps ahead, and their slots one step: rows of high degree are often
    neighbours, so few warps have most of them.
    """
    number = offsets.dtype.type
    final, lane = np.int32(listed - 1), np.int32(d_lane())
    at = lane
    coming = long_rows[np.uint64(number(first + min(at, final)))]
    coming_begin, coming_end = d_read_row(offsets, coming)
    later = long_rows[np.uint64(number(first + min(np.int32(at + 32), final)))]
    while np.int32(at - lane) < listed:  # the same in all lanes
        row, begin, end = coming, coming_begin, coming_end
        coming = later
        coming_begin, coming_end = d_read_row(offsets, coming)
        later = long_rows[np.uint64(number(first + min(np.int32(at + 64), final)))]
        last = d_last_position(offsets, begin, end)
        pieces = np.int32((last >> PIECE_BITS) + 1) if at < listed else np.int32(0)
        several = d_ballot(pieces > 1)
        before, all_pieces = lane, min(np.int32(listed - at + lane), np.int32(32))
        if several != 0:  # the same in all lanes
            up_to = d_scan_lanes(pieces)
            before, all_pieces = np.int32(up_to - pieces), d_shuffle(up_to, 31)
        own = np.uint64(place + before)
        if pieces == 1:
            d_write_piece(begin, last, row, 0, 0, cut, own)
        if pieces > 1:
            nth = np.uint64(split_place + d_count_lower(several, lane))
            split.rows[nth] = row
            split.places[nth] = own
        place += all_pieces
        split_place += np.int64(cuda.popc(several))
        at = np.int32(at + 32)


@kernel
def k_cut_rows(offsets, long_rows, rows, begins, spans, split, places, control):
    """List all pieces in row order in ``rows``, ``begins``, ``spans``, and the rows of several pieces in ``split``.

    Each warp owns neighbouring rows, and lists the long ones. Blocks count their pieces, wait for each other, and
    write. Then warps stride over the rows of several pieces, whose first ``places`` are known, so that no thread writes
    many. ``control``, zeros at first: the ``lengths`` of :class:`CutRows`, arrivals, then each block's counts.
    """
    board = cuda.shared.array(BOARD, np.int64)
    cut, split_rows = CutPieces(rows, begins, spans, control), SplitRows(split, places)
    warps = int(cuda.gridsize(1)) >> 5
    num_rows = offsets.shape[0] - 1
    share = ((num_rows + warps - 1) // warps + 31) & -32
    first = min((int(cuda.grid(1)) >> 5) * share, num_rows)
    listed, others, several = d_list_long(offsets, first, np.int32(min(num_rows - first, share)), long_rows)
    amount = (np.int64(others) << 32) + np.int64(several)
    ahead, total = d_scan_tile(amount + (np.int64(listed) << 32 if d_lane() == 0 else np.int64(0)), board)
    if cuda.threadIdx.x == 0:
        control[BLOCK_SUMS + cuda.blockIdx.x] = total
    d_sync_grid(control, 1, ARRIVALS)
    part = np.int64(0)
    block = np.int32(cuda.threadIdx.x)
    while block < cuda.blockIdx.x:
        part += control[BLOCK_SUMS + block]
        block = np.int32(block + cuda.blockDim.x)
    lower = d_sum_block(part, board)
    if cuda.threadIdx.x == 0 and cuda.blockIdx.x == cuda.gridDim.x - 1:
        control[0] = lower + total
    start = lower + d_shuffle(ahead, 0)
    if listed != 0:
        d_write_long(offsets, first, listed, long_rows, start >> 32, start & LOW_BITS, cut, split_rows)
    d_sync_grid(control, 2, ARRIVALS)
    for i in range(int(cuda.grid(1)) >> 5, int(control[0]) & LOW_BITS, warps):
        row, place = split[np.uint64(i)], int(places[np.uint64(i)])
        begin, end = d_read_row(offsets, row)
        last = d_last_position(offsets, begin, end)
        piece = np.int32(d_lane())
        while piece <= last >> PIECE_BITS:
            d_write_piece(begin, last, row, piece, SPLIT_SPAN, cut, np.uint64(place + piece))
            piece = np.int32(piece + 32)


class CutRows:
    """All rows of a gap-aware CSR, cut once. Short rows are not listed: a warp takes 32 neighbouring rows.

    Attributes
    ----------
    pieces : (rows, begins, lengths)
        For ``d_open_piece``.
    spans : array, int32
        The positions of each piece, for ``d_open_span``: kernels then need not read ``offsets``.
    split : array, shape (max_split,), vertex dtype
        The rows with several pieces; their number is the lower half of ``lengths[0]``.
    max_split : int
        The most rows that can have several pieces.
    """

    def __init__(self, csr: GapCSR) -> None:
        self.max_split = min(csr.num_vertices, csr.num_slots // (PIECE_SLOTS - WARP))
        lists, split = list_parts(csr), (self.max_split, csr.offsets.dtype)
        control, long_rows, rows, begins, self.spans, self.split, places = csr.backend.empty_arena(
            (BLOCK_SUMS + MAX_RESIDENT_BLOCKS, np.int64), *lists, (lists[1][0], np.int32), split, split, zeroed=1
        )
        written = (rows, begins, self.spans, self.split, places)
        k_cut_rows.launch_resident(-(-csr.num_vertices // COUNTED_ROWS), csr.offsets, long_rows, *written, control)
        self.pieces = (rows, begins, control)
