"""Searching large batches on CUDA tile by tile: a block holds a run of neighbouring slots in its shared memory.

A batch is partitioned into the order of the slots (``partition.py``). So a block gets all rows of its tile, and finds
their edges without waiting for memory. Reading the tiles costs more the larger the graph is, so this is for batches
that have rows in most tiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.compiler import SIMULATED, THREADS, cuda, device
from dynstore.cuda.memory import COPIED, d_start_copy
from dynstore.stores.pma.cuda.partition import TILE_BITS, d_choose_range

if TYPE_CHECKING:
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = [
    "HELD",
    "MARKED",
    "MAX_ABSENT",
    "TILE_LEAVES",
    "RowBounds",
    "TileRows",
    "count_tiles",
    "d_claim_tile",
    "d_find_in_tile",
    "d_first_leaf",
    "d_first_slot",
    "d_hold_tile",
    "d_hold_words",
    "d_is_of_tile",
    "d_mark_marks",
    "d_next_tile",
    "d_read_bounds",
    "d_rows_of_tile",
    "fits_tiles",
]

TILE_SLOTS, TILE_LEAVES = 1 << TILE_BITS, 1 << (TILE_BITS - 5)
assert TILE_LEAVES <= THREADS, "a thread has a leaf"
# Entries of the arrays in which a block holds a tile, with the first slot behind it: destinations, and words with the
# bits of slots that rows have claimed.
HELD, MARKED = TILE_SLOTS + 1, TILE_LEAVES + 1
# The most rows of a tile whose edges are absent.
MAX_ABSENT = 64 if SIMULATED else 512


class TileRows(NamedTuple):
    """The rows of the batch in the order of the slots, and what is searched for them."""

    offsets: Array
    dst: Array
    ordered: Array
    shift: Any


class RowBounds(NamedTuple):
    """A row of the batch, and where the slots of its source are.

    Attributes
    ----------
    pair : int64
        Source and destination, in the high and the low half.
    low, high : uint32
        The first slot, and the last + 1.
    """

    pair: Any
    low: Any
    high: Any


def fits_tiles(slots: SlotArrays, num_rows: int, inserting: bool) -> bool:
    """Return whether a partitioned batch of ``num_rows`` is searched tile by tile; else in the slots' own memory."""
    tuning = slots.tuning
    each = tuning.insert_tile_slots if inserting else tuning.delete_tile_slots
    most = tuning.tile_fill * MAX_ABSENT * slots.num_slots
    return num_rows * each >= slots.num_slots and num_rows * TILE_SLOTS <= most


def count_tiles(slots: SlotArrays) -> int:
    """Return the number of tiles; the last one may be shorter."""
    return -(-slots.num_slots // TILE_SLOTS)


@device
def d_first_leaf(tile):
    """Return the number of a tile's first leaf; uint32."""
    return np.uint32(np.uint32(tile) << np.uint32(TILE_BITS - 5))


@device
def d_first_slot(tile):
    """Return the number of a tile's first slot; uint32."""
    return np.uint32(np.uint32(tile) << np.uint32(TILE_BITS))


@device
def d_rows_of_tile(starts, tile, shift):
    """Return the first and the last + 1 of the rows among which a tile's are: those of its range."""
    at = np.uint32(np.uint32(tile) >> np.uint32(shift - TILE_BITS))
    return np.uint32(starts[at]), np.uint32(starts[np.uint32(at + np.uint32(1))])


@device
def d_hold_tile(dst, tile, held):
    """Start to read the destinations of a tile's slots, and of the slot behind it; wait with ``d_await_copies``.

    Entries behind all slots are undefined.
    """
    base, last = d_first_slot(tile), np.uint32(dst.shape[0] - 1)
    at, last_copy = np.uint32(np.uint32(COPIED) * np.uint32(cuda.threadIdx.x)), np.uint32(dst.shape[0] - COPIED)
    for _ in range(TILE_SLOTS // (COPIED * THREADS)):
        d_start_copy(held, at, dst, min(np.uint32(base + at), last_copy))
        at = np.uint32(at + np.uint32(COPIED * THREADS))
    if cuda.threadIdx.x == 0:
        held[TILE_SLOTS] = dst[min(np.uint32(base + np.uint32(TILE_SLOTS)), last)]


@device
def d_hold_words(valid, tile, words, marked):
    """Read which of a tile's slots have edges, and whether the slot behind it has one; clear the claims."""
    first, thread, last = d_first_leaf(tile), np.uint32(cuda.threadIdx.x), np.uint32(valid.shape[0] - 1)
    if thread < TILE_LEAVES:
        words[thread], marked[thread] = valid[min(np.uint32(first + thread), last)], 0
    if thread == 0:
        words[TILE_LEAVES] = valid[min(np.uint32(first + np.uint32(TILE_LEAVES)), last)]
        marked[TILE_LEAVES] = 0


@device
def d_is_of_tile(offsets, dst, row, column, tile, shift):
    """Return whether a row of a tile's range belongs to the tile."""
    return shift == TILE_BITS or d_choose_range(offsets, dst, row, column, TILE_BITS) == np.uint32(tile)


@device
def d_read_bounds(offsets, ordered, j):
    """Return a row of the batch, and where its source's slots begin and end, as ``RowBounds``."""
    pair, last = ordered[j], np.uint32(offsets.shape[0] - 1)
    row = np.uint32(max(np.int32(pair >> 32), np.int32(0)))
    return RowBounds(pair, np.uint32(offsets[row]), np.uint32(offsets[min(np.uint32(row + np.uint32(1)), last)]))


@device
def d_find_in_tile(held, low, high, column, tile):
    """Return a row's first slot in a tile whose destination is not below ``column``, from the tile's first slot on.

    Also return whether it has that edge or its tombstone. It may be the slot behind the tile. ``low``, ``high``: the
    bounds of the row, in slots of the table.
    """
    base = d_first_slot(tile)
    behind = np.uint32(high - base)
    low, high = np.uint32(max(low, base) - base), min(behind, np.uint32(TILE_SLOTS))
    while low < high:
        middle = np.uint32(np.uint32(low + high) >> np.uint32(1))
        if held[middle] < column:
            low = np.uint32(middle + np.uint32(1))
        else:
            high = middle
    return low, (low < behind) & (held[low] == column)


@device
def d_mark_marks(marked, tile, marks, wanted):
    """A thread owns a leaf: if wanted, set the bits in ``marks`` of the slots that the tile's rows have claimed.

    The slot behind the tile is the first of the next tile, so words of first leaves take an atomic or.
    """
    leaf, thread = d_first_leaf(tile), np.uint32(cuda.threadIdx.x)
    if 0 < thread < TILE_LEAVES and wanted and marked[thread] != 0:
        marks[np.uint32(leaf + thread)] = marked[thread]
    elif thread == 0:
        if wanted and marked[0] != 0:
            cuda.atomic.or_(marks, leaf, marked[0])
        if marked[TILE_LEAVES] != 0:
            cuda.atomic.or_(marks, np.uint32(leaf + np.uint32(TILE_LEAVES)), marked[TILE_LEAVES])


@device
def d_claim_tile(counter, index):
    """Thread 0 of the block claims the next tile after the first one of each block; other threads get 0."""
    claimed = np.int64(0)
    if cuda.threadIdx.x == 0:
        claimed = np.int64(cuda.atomic.add(counter, index, np.int64(1)))
    return claimed


@device
def d_next_tile(following, turn, claimed):
    """Wait for the block; return the tile that thread 0 has claimed. ``following``: shared, an entry for each turn.

    Turns alternate between 0 and 1, so a write need not wait for threads that still read the other entry.
    """
    if cuda.threadIdx.x == 0:
        following[turn] = cuda.gridDim.x + claimed
    cuda.syncthreads()
    return following[turn]
