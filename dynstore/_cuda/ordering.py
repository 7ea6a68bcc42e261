"""Large batches in the order of where they belong, so that threads side by side search the same part of the slots.

A range is a piece of the slots; rows are sent to theirs by counting, in no order within it. One kernel, whose blocks
wait for each other once (``grid``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.batches import d_count_rows, d_read_row
from dynstore._cuda.compiler import SIMULATED, THREADS, cuda, device, kernel
from dynstore._cuda.grid import d_chunk, d_sync_grid
from dynstore._cuda.launching import Packed
from dynstore._cuda.packed_slots import with_room
from dynstore._cuda.tiles import BOARD, d_scan_tile
from dynstore.edge_batch import MAX_INT32

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.edge_batch import RawEdges
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["order_rows"]

# Batches of fewer rows are searched as they come: at 1e5 their order made no difference, at 1e6 it did, and between
# them nothing is measured yet.
FEWEST_ROWS = 1 << 18
# How many rows a thread has: the more, the fewer blocks add to what each range has, and the fewer reads are on their
# way at once. There are at most two to the power of so many ranges; four each for a block's threads, some times over.
ROWS_EACH, RANGE_BITS = (6, 8) if SIMULATED else (16, 12)
RANGES = 1 << RANGE_BITS
STEP = np.uint32(THREADS)


@device
def d_choose_range(offsets, edge_src, edge_dst, mirrored, i, end, shift):
    """Return the range of a row, RANGES if it is not before ``end``; an id that is no vertex is in some range.

    Nothing is read behind a branch, so that a thread's reads of several rows wait together.
    """
    row, _ = d_read_row(edge_src, edge_dst, mirrored, np.int64(min(i, np.uint32(end - np.uint32(1)))))
    vertex = min(max(row, np.int64(0)), np.int64(offsets.shape[0] - 1))
    chosen = np.int32(np.int64(offsets[np.uint64(vertex)]) >> shift)
    return chosen if i < end else np.int32(RANGES)


@device
def d_count_row(counts, ranges, i, chosen):
    """Keep a row's range, if it has one, and count it there."""
    if chosen < RANGES:
        cuda.atomic.add(counts, chosen, 1)
        ranges[i] = chosen


@device
def d_count_share(offsets, edge_src, edge_dst, mirrored, shift, i, end, counts, ranges):
    """Count how many rows of the block's share each range has, and keep the range of each row, four at a time."""
    while i < end:
        at1 = np.uint32(i + STEP)
        at2 = np.uint32(at1 + STEP)
        at3 = np.uint32(at2 + STEP)
        range0 = d_choose_range(offsets, edge_src, edge_dst, mirrored, i, end, shift)
        range1 = d_choose_range(offsets, edge_src, edge_dst, mirrored, at1, end, shift)
        range2 = d_choose_range(offsets, edge_src, edge_dst, mirrored, at2, end, shift)
        range3 = d_choose_range(offsets, edge_src, edge_dst, mirrored, at3, end, shift)
        d_count_row(counts, ranges, i, range0)
        d_count_row(counts, ranges, at1, range1)
        d_count_row(counts, ranges, at2, range2)
        d_count_row(counts, ranges, at3, range3)
        i = np.uint32(at3 + STEP)


@device
def d_read_counts(counts, pair):
    """Return the counts of two neighbouring ranges, the second in the high half."""
    return np.int64(counts[2 * pair]) | (np.int64(counts[2 * pair + 1]) << 32)


@device
def d_write_counts(counts, pair, both):
    """Write the counts of two neighbouring ranges."""
    counts[2 * pair], counts[2 * pair + 1] = np.int32(both & 0x7FFFFFFF), np.int32(both >> 32)


@device
def d_add_counts(counts, totals):
    """Add the block's counts to those of all (atomic); each becomes the block's first place within the range.

    Two ranges at a time: no half of their sum has more than 31 bits.
    """
    for at0 in range(cuda.threadIdx.x, RANGES // 2, 4 * THREADS):
        at1, at2, at3 = at0 + THREADS, at0 + 2 * THREADS, at0 + 3 * THREADS
        counts0, counts1 = d_read_counts(counts, at0), d_read_counts(counts, at1)
        counts2, counts3 = d_read_counts(counts, at2), d_read_counts(counts, at3)
        places0 = cuda.atomic.add(totals, at0, counts0)
        places1 = cuda.atomic.add(totals, at1, counts1)
        places2 = cuda.atomic.add(totals, at2, counts2)
        places3 = cuda.atomic.add(totals, at3, counts3)
        d_write_counts(counts, at0, places0)
        d_write_counts(counts, at1, places1)
        d_write_counts(counts, at2, places2)
        d_write_counts(counts, at3, places3)


@device
def d_add_starts(places, totals, board):
    """Add the rows of all ranges before each to the block's place in it."""
    start = np.int64(0)
    for base in range(0, RANGES // 2, 2 * THREADS):
        at = base + 2 * cuda.threadIdx.x
        first, second = np.int64(totals[at]), np.int64(totals[at + 1])
        count0, count1, count2 = first & 0x7FFFFFFF, first >> 32, second & 0x7FFFFFFF
        before, total = d_scan_tile(count0 + count1 + count2 + (second >> 32), board)
        before += start
        places[2 * at] += np.int32(before)
        places[2 * at + 1] += np.int32(before + count0)
        places[2 * at + 2] += np.int32(before + count0 + count1)
        places[2 * at + 3] += np.int32(before + count0 + count1 + count2)
        start += total


@device
def d_read_pair(edge_src, edge_dst, mirrored, i, end, num_vertices):
    """Return source and destination of a row before ``end``, in the high and the low half; -1 for no vertex."""
    row, column = d_read_row(edge_src, edge_dst, mirrored, np.int64(min(i, np.uint32(end - np.uint32(1)))))
    row = row if (row >= 0) & (row < num_vertices) else np.int64(-1)
    column = column if (column >= 0) & (column < num_vertices) else np.int64(-1)
    return (row << 32) | (column & np.int64(0xFFFFFFFF))


@device
def d_read_range(ranges, i, end):
    """Return the range of a row, RANGES if it is not before ``end``."""
    chosen = np.int32(ranges[min(i, np.uint32(end - np.uint32(1)))])
    return chosen if i < end else np.int32(RANGES)


@device
def d_send_pair(places, pairs, chosen, pair):
    """Write a row to the next of the block's places in its range, if it has one."""
    if chosen < RANGES:
        pairs[np.uint32(cuda.atomic.add(places, chosen, 1))] = pair


@device
def d_send_share(edge_src, edge_dst, mirrored, num_vertices, i, end, places, ranges, pairs):
    """Write the rows of the block's share to their places, four at a time."""
    while i < end:
        at1 = np.uint32(i + STEP)
        at2 = np.uint32(at1 + STEP)
        at3 = np.uint32(at2 + STEP)
        range0, range1 = d_read_range(ranges, i, end), d_read_range(ranges, at1, end)
        range2, range3 = d_read_range(ranges, at2, end), d_read_range(ranges, at3, end)
        pair0 = d_read_pair(edge_src, edge_dst, mirrored, i, end, num_vertices)
        pair1 = d_read_pair(edge_src, edge_dst, mirrored, at1, end, num_vertices)
        pair2 = d_read_pair(edge_src, edge_dst, mirrored, at2, end, num_vertices)
        pair3 = d_read_pair(edge_src, edge_dst, mirrored, at3, end, num_vertices)
        d_send_pair(places, pairs, range0, pair0)
        d_send_pair(places, pairs, range1, pair1)
        d_send_pair(places, pairs, range2, pair2)
        d_send_pair(places, pairs, range3, pair3)
        i = np.uint32(at3 + STEP)


@kernel
def k_order_rows(offsets, edge_src, edge_dst, mirrored, shift, control, totals, ranges, pairs):
    """Write all rows to ``pairs``, mirror images included, those of a range of 2**shift slots side by side.

    Blocks count their shares by range, and take their places in each; once all have, each block finds where the ranges
    begin, and sends its rows. ``control``: what the wait needs; ``totals``: rows of each range, two of them in a word.
    """
    counts = cuda.shared.array(RANGES, np.int32)
    board = cuda.shared.array(BOARD, np.int64)
    first, stop = d_chunk(d_count_rows(edge_src, mirrored))
    i, end = np.uint32(first + cuda.threadIdx.x), np.uint32(stop)
    for at in range(cuda.threadIdx.x, RANGES, THREADS):
        counts[at] = 0
    cuda.syncthreads()
    d_count_share(offsets, edge_src, edge_dst, mirrored, shift, i, end, counts, ranges)
    cuda.syncthreads()
    d_add_counts(counts, totals)
    d_sync_grid(control, 1, 0)
    d_add_starts(counts, totals, board)
    cuda.syncthreads()
    d_send_share(edge_src, edge_dst, mirrored, np.int64(offsets.shape[0] - 1), i, end, counts, ranges, pairs)


class _Scratch:
    """What ordering works in, how the kernel is passed it, and the ordered columns."""

    def __init__(self, control: Array, totals: Array, ranges: Array, pairs: Array) -> None:
        self.packed = Packed(control, totals, ranges, pairs)
        halves = pairs.view(np.int32)
        self.src, self.dst = halves[1::2], halves[::2]


def order_rows(backend: Backend, slots: SlotArrays, batch: RawEdges) -> tuple[tuple[Array, Array], bool]:
    """Return the columns to search with, and whether each row of them stands for its mirror image, too.

    Where there are many rows, these are int32 columns in the order of the slots, with all mirror images, and -1 for any
    id that is no vertex. They lie in scratch, kind "ordering". Precondition: int32 numbers all vertices.
    """
    num_rows = batch.num_rows
    if not FEWEST_ROWS <= num_rows <= MAX_INT32:
        return batch.columns, batch.mirrored
    room = with_room(num_rows)
    scratch = slots.take_scratch(
        backend,
        "ordering",
        _Scratch,
        (1, np.int64),
        (RANGES // 2, np.int64),
        (room, np.uint16),
        (room, np.int64),
        zeroed=2,
    )
    shift = max(slots.num_slots.bit_length() - RANGE_BITS, 0)
    k_order_rows.launch_resident(
        -(-num_rows // ROWS_EACH), slots.offsets, *batch.columns, batch.mirrored, shift, scratch.packed
    )
    return (scratch.src[:num_rows], scratch.dst[:num_rows]), False
