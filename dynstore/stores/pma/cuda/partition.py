"""Partition large batches into the order of the slots, so that neighbouring threads search the same part of them.

A range is a run of neighbouring slots. A row belongs to the range in which its edge is, or the slot that its edge goes
before. Rows are sent to their ranges by counting, in no order inside one. One kernel does it; its blocks wait for each
other once (``dynstore/cuda/grid.py``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.cuda.rows import d_count_rows, d_read_row
from dynstore.cuda.compiler import SIMULATED, WARP, cuda, device, kernel
from dynstore.cuda.grid import d_sync_grid
from dynstore.cuda.launch import Packed
from dynstore.cuda.memory import d_load_two
from dynstore.cuda.warp import d_lane, d_scan_lanes, d_shuffle
from dynstore.stores.pma.cuda.records import BatchRows
from dynstore.stores.table.cuda.arguments import with_room
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.unsorted import RawEdges
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["INVALID_ID_ROWS", "TILE_BITS", "Ordered", "d_choose_range", "order_batch", "rows_of"]

KIND = "ordering"
# Rows that a thread keeps in registers, and the most ranges, as a power of two. A block has as many threads as it can:
# with fewer blocks there are fewer additions to each range's count.
ROWS_EACH, RANGE_BITS = (2, 8) if SIMULATED else (8, 13)
BLOCK = WARP if SIMULATED else 1024
# The slots of a tile, as a power of two: as many as a block holds in its shared memory (``tiles.py``).
TILE_BITS = 8 if SIMULATED else 13
MAX_REGISTERS = 1 << 16 >> 10  # of a thread, for a block of 1024
RANGES, TILE, STEP = 1 << RANGE_BITS, np.uint32(ROWS_EACH * BLOCK), np.uint32(BLOCK)
# Smaller batches are spread over all blocks, too, with at least so many rows a thread.
MIN_EACH = 2
# Two ranges share a word of ``totals``. Behind their counters a block has one for each lane, for rows that do not
# exist, so that counting needs no branch.
WORDS = (RANGES + 1) // 2
NOWHERE = 2 * WORDS
COUNTERS = NOWHERE + WARP
WORDS_EACH = -(-WORDS // BLOCK)
# While a row's range is searched, a word holds the first run that it may be in the low half, the last one in the high.
HALF, FIRST_RUN = np.uint32(16), np.uint32(0xFFFF)
# Entries of ``control``: how many blocks have counted; how many have read the totals; whether some id of the batch is
# invalid, for the kernels that follow; each launch sets this anew.
COUNTED, LEFT, INVALID_ID_ROWS, CONTROL = 0, 1, 2, 3


@device
def d_share_rows(count):
    """Return the first and the last + 1 of the rows that the block owns: whole warps, as evenly as possible.

    All uint32, as 64 bits take long to divide; there are less than 2^31 rows.
    """
    blocks, warp = np.uint32(cuda.gridDim.x), np.uint32(WARP)
    warps = np.uint32(np.uint32(np.uint32(count + warp - np.uint32(1)) // warp + blocks - np.uint32(1)) // blocks)
    first = min(np.uint32(np.uint32(cuda.blockIdx.x) * np.uint32(warps * warp)), count)
    return first, min(np.uint32(first + np.uint32(warps * warp)), count)


@device
def d_read_pair(batch, i, end, num_vertices):
    """Return source and destination of a row before ``end``, in the high and the low half; -1 for an invalid id."""
    row, column = d_read_row(batch.src, batch.dst, batch.mirrored, np.int64(min(i, np.uint32(end - np.uint32(1)))))
    row = row if np.uint64(row) < np.uint64(num_vertices) else np.int64(-1)
    column = column if np.uint64(column) < np.uint64(num_vertices) else np.int64(-1)
    return (row << 32) | (column & np.int64(0xFFFFFFFF))


@device
def d_find_run(position, shift):
    """Return which run of 2**shift slots contains the slot before a position, or the first slot; all uint32."""
    return np.uint32(np.uint32(max(position, np.uint32(1)) - np.uint32(1)) >> np.uint32(shift))


@device
def d_row_bounds(offsets, row):
    """Return where the slots of a row begin and end, all uint32: one read for an even row, two for an odd one.

    Precondition: the row exists.
    """
    next_row, is_odd = np.uint32(row + np.uint32(1)), row & np.uint32(1) != 0
    both = d_load_two(offsets, np.uint32(row & np.uint32(0xFFFFFFFE)))
    behind, upper = np.uint32(offsets[next_row if is_odd else np.uint32(0)]), np.uint32(both >> 32)
    return upper if is_odd else np.uint32(both), behind if is_odd else upper


@device
def d_choose_range(offsets, dst, row, column, shift):
    """Return which run of 2**shift slots contains an edge's leaf: the leaf of the slot before its lower bound.

    The search reads the first slots of the runs that begin within the row; there are 1 to 2^31 - 1 slots. A present
    edge may be in the first slot of the next run. The edges of an invalid source come before all others.
    """
    low, high = d_row_bounds(offsets, np.uint32(max(row, np.int32(0))))
    first, last = d_find_run(low, shift), d_find_run(high, shift)
    while first < last:
        middle = np.uint32(np.uint32(first + last + np.uint32(1)) >> np.uint32(1))
        if dst[np.uint32(middle << np.uint32(shift))] < column:
            first = middle
        else:
            last = np.uint32(middle - np.uint32(1))
    return first


@device
def d_choose_ranges(offsets, dst, pairs, shift, ranges):
    """Find for each of the thread's rows what :func:`d_choose_range` returns.

    All rows take a step at a time, without branches, so that their reads overlap. Rows that are done read the first
    slot.
    """
    for k in range(ROWS_EACH):
        low, high = d_row_bounds(offsets, np.uint32(max(np.int32(pairs[k] >> 32), np.int32(0))))
        ranges[k] = np.uint32(d_find_run(low, shift) | np.uint32(d_find_run(high, shift) << HALF))
    some_open = True
    while some_open:
        some_open = False
        for k in range(ROWS_EACH):
            first, last = np.uint32(ranges[k] & FIRST_RUN), np.uint32(ranges[k] >> HALF)
            middle = np.uint32(np.uint32(first + last + np.uint32(1)) >> np.uint32(1))
            is_open = first < last
            is_behind = dst[np.uint32(middle << np.uint32(shift)) if is_open else np.uint32(0)] < np.int32(pairs[k])
            first = middle if is_open and is_behind else first
            last = np.uint32(middle - np.uint32(1)) if is_open and not is_behind else last
            ranges[k] = np.uint32(first | np.uint32(last << HALF))
            some_open |= bool(first < last)


@device
def d_read_tile(offsets, dst, batch, shift, i, end, pairs, ranges):
    """Read the thread's rows of a tile, and the counter of each row's range; of no row, that of the lane.

    No row is read behind a branch, so that all reads of the thread overlap.
    """
    num_vertices = np.int64(offsets.shape[0] - 1)
    for k in range(ROWS_EACH):
        at = np.uint32(i + np.uint32(k) * STEP)
        pairs[k] = d_read_pair(batch, at, end, num_vertices)
    d_choose_ranges(offsets, dst, pairs, shift, ranges)
    for k in range(ROWS_EACH):
        is_there = np.uint32(i + np.uint32(k) * STEP) < end
        ranges[k] = np.uint32(ranges[k] & FIRST_RUN) if is_there else np.uint32(NOWHERE + d_lane())


@device
def d_is_any_invalid_id(pairs):
    """Return whether one of the thread's rows has an invalid id; rows past the end repeat the last one."""
    signs = np.int32(0)
    for k in range(ROWS_EACH):
        signs = np.int32(signs | np.int32(pairs[k] >> 32) | np.int32(pairs[k]))
    return signs < 0


@device
def d_take_places(counts, ranges, places):
    """Claim the next place in the range of each of the thread's rows."""
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

    Two ranges at a time: no half of their sum has more than 31 bits. Words of 0 are not added.
    """
    before = cuda.local.array(WORDS_EACH, np.int64)  # registers, so that all atomics are in flight
    for k in range(WORDS_EACH):
        at = cuda.threadIdx.x + k * BLOCK
        before[k] = np.int64(0)
        if at < WORDS:
            both = np.int64(counts[2 * at]) | (np.int64(counts[2 * at + 1]) << 32)
            if both != 0:
                before[k] = cuda.atomic.add(totals, at, both)
    for k in range(WORDS_EACH):
        at = cuda.threadIdx.x + k * BLOCK
        if at < WORDS:
            counts[2 * at], counts[2 * at + 1] = np.int32(before[k] & 0x7FFFFFFF), np.int32(before[k] >> 32)


@device
def d_sum_lower_warps(total, board):
    """Return the int32 sum of the totals of the block's warps before this one; ``total`` is valid in the last lane.

    A large block has as many warps as lanes; ``dynstore.cuda.block.d_scan_tile`` would add them up one after the other.
    """
    lane, warp = d_lane(), cuda.threadIdx.x >> 5
    if lane == 31:
        board[warp] = total
    cuda.syncthreads()
    warps = d_scan_lanes(np.int32(board[lane]) if lane < BLOCK // WARP else np.int32(0))
    before = d_shuffle(warps, max(warp - 1, 0))
    return before if warp > 0 else np.int32(0)


@device
def d_add_starts(places, totals, starts, board):
    """Add the rows of all earlier ranges to the block's first place in each; a warp owns neighbouring words.

    The last block, which has the fewest rows, writes to ``starts`` where each range begins and the last one ends.
    """
    words = cuda.local.array(WORDS_EACH, np.int64)
    befores = cuda.local.array(WORDS_EACH, np.int32)
    base = (cuda.threadIdx.x >> 5) * (WARP * WORDS_EACH) + d_lane()
    total = np.int32(0)
    for k in range(WORDS_EACH):
        words[k] = totals[base + k * WARP] if base + k * WARP < WORDS else np.int64(0)
    for k in range(WORDS_EACH):
        rows = np.int32(np.int32(words[k] & 0x7FFFFFFF) + np.int32(words[k] >> 32))
        up_to = d_scan_lanes(rows)
        befores[k] = np.int32(total + np.int32(up_to - rows))
        total = np.int32(total + d_shuffle(up_to, 31))
    before = d_sum_lower_warps(total, board)
    is_last = cuda.blockIdx.x == cuda.gridDim.x - 1
    for k in range(WORDS_EACH):
        at, first = base + k * WARP, np.int32(before + befores[k])
        middle = np.int32(first + np.int32(words[k] & 0x7FFFFFFF))
        if at < WORDS:
            places[2 * at] += first
            places[2 * at + 1] += middle
            if is_last:
                starts[2 * at], starts[2 * at + 1] = first, middle
    if is_last and cuda.threadIdx.x == BLOCK - 1:
        starts[2 * WORDS] = np.int32(before + total)


@device
def d_clear_all(control, totals):
    """Zero ``totals`` and the counts of blocks, as they were given."""
    for at in range(cuda.threadIdx.x, WORDS, BLOCK):
        totals[at] = 0
    if cuda.threadIdx.x == 0:
        control[COUNTED], control[LEFT] = 0, 0


@partial(kernel, max_registers=MAX_REGISTERS, threads=BLOCK)
def k_order_rows(offsets, dst, edge_src, edge_dst, mirrored, shift, control, totals, starts, ordered):
    """Write all rows to ``ordered``, mirror images included, those of a range of 2**shift slots side by side.

    ``starts``: where the rows of each range begin, and behind the last one where they end.

    Blocks count their rows by range and claim places in each. After a grid wait each block finds where the ranges
    begin, and sends its rows: those of its last tile of rows from registers; others, of batches larger than all
    registers, are read again. ``totals``, with the rows of two ranges in a word, and ``control``, except
    INVALID_ID_ROWS, are zeros and are left so.
    """
    counts = cuda.shared.array(COUNTERS, np.int32)
    board = cuda.shared.array(WARP, np.int32)
    last = cuda.shared.array(1, np.int32)
    pairs = cuda.local.array(ROWS_EACH, np.int64)  # these are registers
    ranges = cuda.local.array(ROWS_EACH, np.uint32)
    places = cuda.local.array(ROWS_EACH, np.int32)
    batch = BatchRows(edge_src, edge_dst, mirrored)
    first, end = d_share_rows(np.uint32(d_count_rows(edge_src, mirrored)))
    i = np.uint32(first + np.uint32(cuda.threadIdx.x))
    tiles = max(np.int32(np.uint32(end - first + TILE - np.uint32(1)) // TILE), np.int32(1))
    is_invalid_id, left = False, np.int64(0)
    for at in range(cuda.threadIdx.x, COUNTERS, BLOCK):
        counts[at] = 0
    for _ in range(tiles):
        d_read_tile(offsets, dst, batch, shift, i, end, pairs, ranges)
        is_invalid_id |= d_is_any_invalid_id(pairs)
        cuda.syncthreads()  # so that places of the last tile are behind those of all others
        d_take_places(counts, ranges, places)
        i = np.uint32(i + TILE)
    cuda.syncthreads()
    d_add_counts(counts, totals)
    if cuda.grid(1) == 0:
        control[INVALID_ID_ROWS] = 0
    d_sync_grid(control, 1, COUNTED)
    if is_invalid_id:
        control[INVALID_ID_ROWS] = 1
    d_add_starts(counts, totals, starts, board)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        left = np.int64(cuda.atomic.add(control, LEFT, 1))  # waited for below
    for k in range(ROWS_EACH):
        places[k] += counts[ranges[k]]
    d_write_pairs(ordered, ranges, places, pairs)
    if cuda.threadIdx.x == 0:
        last[0] = left == cuda.gridDim.x - 1
    cuda.syncthreads()
    i = np.uint32(first + np.uint32(cuda.threadIdx.x))
    for _ in range(1, tiles):
        d_read_tile(offsets, dst, batch, shift, i, end, pairs, ranges)
        d_take_places(counts, ranges, places)
        d_write_pairs(ordered, ranges, places, pairs)
        i = np.uint32(i + TILE)
    if last[0]:
        d_clear_all(control, totals)


class Ordered:
    """A partitioned batch: the scratch of the partition, and its arguments for kernels.

    ``pairs``: (rows,) int64, a row's source in the high half, its destination in the low one, -1 for an invalid id;
    ``starts``: where the rows of each range of 2**shift slots begin, and behind the last one where they end; ``src``,
    ``dst``: the halves of ``pairs``; ``control[INVALID_ID_ROWS]``: whether an id of the batch is invalid.
    """

    shift: int

    def __init__(self, _: Backend, control: Array, totals: Array, starts: Array, pairs: Array) -> None:
        self.written, self.searched = Packed(control, totals, starts, pairs), Packed(starts, pairs)
        self.listed = Packed(control, starts, pairs)
        self.control, self.starts, self.pairs = control, starts, pairs
        halves = pairs.view(np.int32)
        self.src, self.dst = halves[1::2], halves[::2]


def _choose_shift(slots: SlotArrays) -> int:
    """Return the bits of a slot's number within its range: a range is a tile unless there are too many tiles."""
    return max((slots.num_slots - 1).bit_length() - RANGE_BITS, TILE_BITS)


def order_batch(backend: Backend, slots: SlotArrays, batch: RawEdges) -> Ordered | None:
    """Partition a batch's rows, with all mirror images, into the order of the slots; the result is scratch, kind KIND.

    None if there are too few rows, more than int32 numbers, or no vertices. Precondition: vertices and slots are
    numbered by int32.
    """
    num_rows = batch.num_rows
    if not slots.tuning.partition_rows <= num_rows <= MAX_INT32 or not slots.num_vertices:
        return None
    ordered = slots.acquire_scratch(
        backend, KIND, Ordered,
        ((CONTROL, np.int64), (WORDS, np.int64), (2 * WORDS + 1, np.int32), (with_room(num_rows), np.int64)), 2,
    )  # fmt: skip
    ordered.shift = _choose_shift(slots)
    k_order_rows.launch_resident(
        -(-num_rows // MIN_EACH), slots.offsets, slots.dst, *batch.columns, batch.mirrored, ordered.shift,
        ordered.written,
    )  # fmt: skip
    slots.scratch.leave_clear(KIND)
    return ordered


def rows_of(batch: RawEdges, ordered: Ordered | None) -> tuple[Array, Array, bool]:
    """Return the columns to search with, and whether each of their rows stands for its mirror image, too."""
    if ordered is None:
        return *batch.columns, batch.mirrored
    return ordered.src[: batch.num_rows], ordered.dst[: batch.num_rows], False
