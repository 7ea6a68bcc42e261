"""Large batches in the order of where they belong, so that threads side by side search the same part of the slots.

A range is a piece of the slots; rows are sent to theirs by counting, in no order within it. One kernel, whose blocks
wait for each other once (``grid``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.batches import d_count_rows, d_read_row
from dynstore._cuda.compiler import SIMULATED, WARP, cuda, device, kernel
from dynstore._cuda.grid import d_chunk, d_sync_grid
from dynstore._cuda.launching import Packed
from dynstore._cuda.packed_slots import with_room
from dynstore._cuda.warp import d_lane, d_shuffle
from dynstore.edge_batch import MAX_INT32

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.edge_batch import RawEdges
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["FEWEST_ROWS", "order_rows"]

KIND = "ordering"
# Batches of fewer rows are searched as they come, and inserted by one kernel: on one H200 their order made no
# difference at 1e5 rows, and one kernel took as long as a kernel for each phase at 2.6e5.
FEWEST_ROWS = 1 << 18
# How many rows a thread keeps in registers, and how many ranges there are at most, as a power of two. The threads of a
# block are as many as there can be: the fewer blocks, the fewer add to what each range has.
ROWS_EACH, RANGE_BITS = (2, 8) if SIMULATED else (8, 12)
BLOCK = WARP if SIMULATED else 1024
MAX_REGISTERS = 1 << 16 >> 10  # of a thread, for a block of 1024
RANGES, TILE, STEP = 1 << RANGE_BITS, np.uint32(ROWS_EACH * BLOCK), np.uint32(BLOCK)
# Smaller batches are for all blocks, too, with as many rows a thread.
FEWEST_EACH = 2
# Two ranges share a word of ``totals``. Behind their counters a block has one a lane: for rows that are not there,
# so that counting knows no branch.
WORDS = (RANGES + 1) // 2
NOWHERE = 2 * WORDS
COUNTERS = NOWHERE + WARP
WORDS_EACH = -(-WORDS // BLOCK)
# Entries of ``control``: how many blocks have counted, and how many have read the totals.
COUNTED, LEFT, CONTROL = 0, 1, 2


@device
def d_read_pair(edge_src, edge_dst, mirrored, i, end, num_vertices):
    """Return source and destination of a row before ``end``, in the high and the low half; -1 for no vertex."""
    row, column = d_read_row(edge_src, edge_dst, mirrored, np.int64(min(i, np.uint32(end - np.uint32(1)))))
    row = row if np.uint64(row) < np.uint64(num_vertices) else np.int64(-1)
    column = column if np.uint64(column) < np.uint64(num_vertices) else np.int64(-1)
    return (row << 32) | (column & np.int64(0xFFFFFFFF))


@device
def d_choose_range(offsets, pair, i, end, shift):
    """Return the counter of a row's range, that of the lane if it is not before ``end``.

    A source that is no vertex is in the first range.
    """
    chosen = np.uint32(np.int64(offsets[np.uint32(max(np.int32(pair >> 32), np.int32(0)))]) >> shift)
    return chosen if i < end else np.uint32(NOWHERE + d_lane())


@device
def d_read_tile(offsets, edge_src, edge_dst, mirrored, shift, i, end, pairs, ranges):
    """Read the thread's rows of a tile, and where these belong.

    Nothing is read behind a branch, so that all its reads wait together.
    """
    num_vertices = np.int64(offsets.shape[0] - 1)
    for k in range(ROWS_EACH):
        at = np.uint32(i + np.uint32(k) * STEP)
        pairs[k] = d_read_pair(edge_src, edge_dst, mirrored, at, end, num_vertices)
    for k in range(ROWS_EACH):
        at = np.uint32(i + np.uint32(k) * STEP)
        ranges[k] = d_choose_range(offsets, pairs[k], at, end, shift)


@device
def d_take_places(counts, ranges, places):
    """Take the next place in the range of each of the thread's rows."""
    for k in range(ROWS_EACH):
        places[k] = cuda.atomic.add(counts, ranges[k], 1)


@device
def d_write_pairs(ordered, ranges, places, pairs):
    """Write the thread's rows to their places."""
    for k in range(ROWS_EACH):
        if ranges[k] < NOWHERE:
            ordered[np.uint32(places[k])] = pairs[k]


@device
def d_add_counts(counts, totals):
    """Add the block's counts to those of all (atomic); each becomes the block's first place within the range.

    Two ranges at a time: no half of their sum has more than 31 bits.
    """
    before = cuda.local.array(WORDS_EACH, np.int64)  # registers, so that all atomics are on their way
    for k in range(WORDS_EACH):
        at = cuda.threadIdx.x + k * BLOCK
        if at < WORDS:
            both = np.int64(counts[2 * at]) | (np.int64(counts[2 * at + 1]) << 32)
            before[k] = cuda.atomic.add(totals, at, both)
    for k in range(WORDS_EACH):
        at = cuda.threadIdx.x + k * BLOCK
        if at < WORDS:
            counts[2 * at], counts[2 * at + 1] = np.int32(before[k] & 0x7FFFFFFF), np.int32(before[k] >> 32)


@device
def d_sum_lower_lanes(value):
    """Return the int32 sum of ``value`` over the lanes of the warp up to this one."""
    lane, total = d_lane(), np.int32(value)
    for step in (1, 2, 4, 8, 16):
        other = d_shuffle(total, (lane - step) & 31)
        total = np.int32(total + (other if lane >= step else np.int32(0)))
    return total


@device
def d_sum_lower_threads(value, board):
    """Return the int32 sum of ``value`` over the threads of the block before this one.

    The warps of a large block are as many as lanes: ``tiles.d_scan_tile`` would add them up one after the other.
    """
    lane, warp = d_lane(), cuda.threadIdx.x >> 5
    total = d_sum_lower_lanes(value)
    if lane == 31:
        board[warp] = total
    cuda.syncthreads()
    warps = d_sum_lower_lanes(np.int32(board[lane]) if lane < BLOCK // WARP else np.int32(0))
    before = d_shuffle(warps, max(warp - 1, 0))
    return np.int32(total - value + (before if warp > 0 else np.int32(0)))


@device
def d_add_starts(starts, totals, board):
    """Add the rows of all ranges before each to the block's first place in it; a thread has neighbouring words."""
    words = cuda.local.array(WORDS_EACH, np.int64)
    rows = np.int32(0)
    for k in range(WORDS_EACH):
        at = cuda.threadIdx.x * WORDS_EACH + k
        words[k] = totals[at] if at < WORDS else np.int64(0)
    for k in range(WORDS_EACH):
        rows = np.int32(rows + np.int32(words[k] & 0x7FFFFFFF) + np.int32(words[k] >> 32))
    before = d_sum_lower_threads(rows, board)
    for k in range(WORDS_EACH):
        at = cuda.threadIdx.x * WORDS_EACH + k
        middle = np.int32(before + np.int32(words[k] & 0x7FFFFFFF))
        if at < WORDS:
            starts[2 * at] += before
            starts[2 * at + 1] += middle
        before = np.int32(middle + np.int32(words[k] >> 32))


@device
def d_clear_all(control, totals):
    """Leave all as it was given."""
    for at in range(cuda.threadIdx.x, WORDS, BLOCK):
        totals[at] = 0
    if cuda.threadIdx.x == 0:
        control[COUNTED], control[LEFT] = 0, 0


@partial(kernel, max_registers=MAX_REGISTERS, threads=BLOCK)
def k_order_rows(offsets, edge_src, edge_dst, mirrored, shift, control, totals, ordered):
    """Write all rows to ``ordered``, mirror images included, those of a range of 2**shift slots side by side.

    Blocks count their shares by range, and take their places in each; once all have, each block finds where the ranges
    begin, and sends its rows: those of its last tile from registers, others, of batches larger than all registers, are
    read again. ``control`` and ``totals``, the rows of each range, two of them in a word, are zeros, and left so.
    """
    counts = cuda.shared.array(COUNTERS, np.int32)
    board = cuda.shared.array(WARP, np.int32)
    last = cuda.shared.array(1, np.int32)
    pairs = cuda.local.array(ROWS_EACH, np.int64)  # these are registers
    ranges = cuda.local.array(ROWS_EACH, np.uint32)
    places = cuda.local.array(ROWS_EACH, np.int32)
    first, stop = d_chunk(d_count_rows(edge_src, mirrored))
    i, end = np.uint32(first + cuda.threadIdx.x), np.uint32(stop)
    tiles = max((stop - first + ROWS_EACH * BLOCK - 1) // (ROWS_EACH * BLOCK), 1)
    for at in range(cuda.threadIdx.x, COUNTERS, BLOCK):
        counts[at] = 0
    for _ in range(tiles):
        d_read_tile(offsets, edge_src, edge_dst, mirrored, shift, i, end, pairs, ranges)
        cuda.syncthreads()  # so that places of the last tile are behind those of all others
        d_take_places(counts, ranges, places)
        i = np.uint32(i + TILE)
    cuda.syncthreads()
    d_add_counts(counts, totals)
    d_sync_grid(control, 1, COUNTED)
    d_add_starts(counts, totals, board)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        last[0] = cuda.atomic.add(control, LEFT, 1) == cuda.gridDim.x - 1
    for k in range(ROWS_EACH):
        places[k] += counts[ranges[k]]
    d_write_pairs(ordered, ranges, places, pairs)
    cuda.syncthreads()
    i = np.uint32(first + cuda.threadIdx.x)
    for _ in range(1, tiles):
        d_read_tile(offsets, edge_src, edge_dst, mirrored, shift, i, end, pairs, ranges)
        d_take_places(counts, ranges, places)
        d_write_pairs(ordered, ranges, places, pairs)
        i = np.uint32(i + TILE)
    if last[0]:
        d_clear_all(control, totals)


class _Scratch:
    """What ordering works in, how the kernel is passed it, and the ordered columns."""

    def __init__(self, control: Array, totals: Array, ordered: Array) -> None:
        self.packed = Packed(control, totals, ordered)
        halves = ordered.view(np.int32)
        self.src, self.dst = halves[1::2], halves[::2]


def order_rows(backend: Backend, slots: SlotArrays, batch: RawEdges) -> tuple[tuple[Array, Array], bool]:
    """Return the columns to search with, and whether each row of them stands for its mirror image, too.

    Where there are many rows, these are int32 columns in the order of the slots, with all mirror images, and -1 for any
    id that is no vertex. They lie in scratch, kind KIND. Precondition: int32 numbers all vertices.
    """
    num_rows = batch.num_rows
    if not FEWEST_ROWS <= num_rows <= MAX_INT32:
        return batch.columns, batch.mirrored
    scratch = slots.take_scratch(
        backend,
        KIND,
        _Scratch,
        (CONTROL, np.int64),
        (WORDS, np.int64),
        (with_room(num_rows), np.int64),
        zeroed=2,
    )
    shift = max(slots.num_slots.bit_length() - RANGE_BITS, 0)
    k_order_rows.launch_resident(
        -(-num_rows // FEWEST_EACH), slots.offsets, *batch.columns, batch.mirrored, shift, scratch.packed
    )
    slots.scratch.leave_clear(KIND)
    return (scratch.src[:num_rows], scratch.dst[:num_rows]), False
