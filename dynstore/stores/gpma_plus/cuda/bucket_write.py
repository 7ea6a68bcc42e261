"""Writing the keys of buckets into the leaves of a packed memory array on CUDA."""

from __future__ import annotations

from functools import partial

import numpy as np

from dynstore.cuda.block import BOARD, d_claim
from dynstore.cuda.compiler import SIMULATED, THREADS, WARP, cuda, device, kernel
from dynstore.cuda.grid import d_sync_grid
from dynstore.cuda.warp import d_lane, d_shuffle
from dynstore.stores.gpma_plus.cuda.bucket_layout import (
    FULL,
    GIANT,
    HEAD,
    HIGH,
    KEY_LEAVES,
    LISTED,
    LOW,
    MAX_HEIGHT,
    MOVED,
    NARROW,
    NARROW_WINDOWS,
    PLACES,
    POSITIONS,
    RESTORED,
    SOURCES,
    TAKEN,
    TARGETS,
    WIDE,
    WIDE_WINDOWS,
    BucketLeaves,
    SortedBuckets,
    d_fits,
    d_is_covered,
    d_leaves_of,
)
from dynstore.stores.gpma_plus.cuda.bucket_merge import NARROW_SLOTS, d_merge_by_warp, d_merge_giant, d_merge_window
from dynstore.stores.pma.cuda.leaf_insert import d_shift_keys
from dynstore.stores.pma.cuda.records import NewKeys, Slots
from dynstore.stores.pma.cuda.row_offsets import d_write_far_rows, d_write_rows_by_warp
from dynstore.stores.pma.cuda.tiles import d_first_leaf
from dynstore.stores.table.slots import TOMBSTONE

__all__ = [
    "ALL_NARROW_SLOTS",
    "d_merge_narrow",
    "d_restore_keys",
    "d_write_all_leaves",
    "d_write_starts",
    "k_merge_wide",
    "k_write_leaves",
    "k_write_windows",
]

# A block's shared memory: for one block window, or for one warp window of each warp.
MAX_ENDS, MAX_SLOTS, ALL_NARROW_SLOTS = (1 << MAX_HEIGHT) + 1, 32 << MAX_HEIGHT, NARROW_SLOTS * (THREADS // WARP)
# Four blocks of ``k_write_windows`` a multiprocessor instead of three, or one of ``k_merge_wide``. There is mostly one
# block window, and a warp merges its leaves in turn: so a block has as many threads as it can.
MAX_REGISTERS = 64
WIDE_THREADS = WARP if SIMULATED else 1024


@device
def d_restore_keys(valid, positions, states, num_rows, lists, nodes):
    """Threads stride over the batch's rows: a tombstone outside of all windows gets its bit back (atomic or).

    Those in windows are merged as edges, because ``marks`` has their bits.
    """
    for i in range(cuda.grid(1), num_rows, cuda.gridsize(1)):
        if states[i] == TOMBSTONE:
            slot = positions[i]
            leaf = np.uint32(slot >> 5)
            if lists[leaf, HEAD] == 0 and not d_is_covered(nodes, leaf):
                cuda.atomic.or_(valid, leaf, np.uint32(1) << np.uint32(slot & 31))


@device
def d_read_keys(table, nodes, number, is_listed, has_windows):
    """Return the leaf, first key and number of keys of a bucket; 0 keys if its leaf is in a window of several leaves.

    All are 0 if it is not listed: its entries are undefined. No read waits for a branch on another read.
    """
    item, is_covered = np.uint32(min(number, np.uint32(table.shape[1] - 1))), False
    leaf, begin, last = np.int32(table[KEY_LEAVES, item]), np.int32(table[LOW, item]), np.int32(table[HIGH, item])
    if not is_listed:
        leaf, begin, last = np.int32(0), np.int32(0), np.int32(0)
    if has_windows:
        is_covered = d_is_covered(nodes, np.uint32(leaf))
    return leaf, begin, np.int32(0) if is_covered else np.int32(last - begin)


@device
def d_write_leaves(slots, marks, nodes, buckets, board, number, may_write):
    """Each lane inserts a bucket's keys into their leaf by ``d_shift_keys``, unless a wider window has the leaf.

    All lanes of the warp call. No lane inserts any unless ``may_write``. Leaves whose first or last row changes go to a
    list (an atomic add a warp): the row offsets at their edges are written later.
    """
    table, pairs, control = buckets
    is_listed = may_write & (number < control[LISTED])
    leaf, begin, num_keys = d_read_keys(table, nodes, np.uint32(number), is_listed, control[FULL] > 0)
    places, word = pairs[PLACES], np.uint32(slots.valid[leaf] | marks[leaf])
    new = NewKeys(places, places, False, pairs[SOURCES], pairs[TARGETS], slots.dst)
    has_moved = d_shift_keys(slots, new, board, leaf, word, begin, num_keys)
    place = d_claim(control, MOVED, has_moved)
    if has_moved:
        table[NARROW_WINDOWS, table.shape[1] - 1 - place] = leaf


@device
def d_write_all_leaves(slots, marks, nodes, buckets, board):
    """All warps share the windows of one leaf evenly, a lane each: a warp with fewer leaves takes fewer steps."""
    num_listed, warps, lane = buckets.control[LISTED], np.int64(cuda.gridsize(1) >> 5), d_lane()
    each = min(max((num_listed + warps - 1) // warps, np.int64(1)), np.int64(WARP))
    for first in range((cuda.grid(1) >> 5) * each, num_listed, warps * each):
        d_write_leaves(slots, marks, nodes, buckets, board, first + lane, lane < each)


@kernel
def k_write_leaves(src, dst, valid, offsets, marks, nodes, table, pairs, control, far_rows, most_new, most_leaves):
    """Write the windows of one leaf, see ``d_write_all_leaves``.

    Nothing is written if the update exceeds the limits, as in ``k_write_windows``.
    """
    board = cuda.shared.array(THREADS, np.uint32)
    slots = Slots(src, dst, dst, False, valid, offsets, far_rows)
    if d_fits(control, most_new, most_leaves):  # the same in all threads
        d_write_all_leaves(slots, marks, nodes, SortedBuckets(table, pairs, control), board)


@partial(kernel, max_registers=MAX_REGISTERS, threads=WIDE_THREADS)
def k_merge_wide(
    src, dst, valid, offsets, marks, table, lists, pairs, scratch, control, far_rows, most_new, most_leaves
):
    """Blocks merge block windows; then all together merge the grid windows, in turn.

    Limits as in ``k_write_leaves``. It is a kernel of its own because its blocks have as many threads as possible.
    """
    values = cuda.shared.array(MAX_SLOTS, np.int32)
    before = cuda.shared.array(MAX_ENDS, np.int32)
    board = cuda.shared.array(BOARD, np.int64)
    if control[WIDE] + control[GIANT] == 0 or not d_fits(control, most_new, most_leaves):  # the same in all threads
        return
    slots, leaves = Slots(src, dst, dst, False, valid, offsets, far_rows), BucketLeaves(valid, marks, lists)
    buckets = SortedBuckets(table, pairs, control)
    for i in range(cuda.blockIdx.x, control[WIDE], cuda.gridDim.x):
        window = d_leaves_of(table[WIDE_WINDOWS, i], src.shape[0] >> 5)
        d_merge_window(slots, leaves, pairs, window, values, before)
    for i in range(control[GIANT]):
        window = d_leaves_of(table[WIDE_WINDOWS, table.shape[1] - 1 - i], src.shape[0] >> 5)
        d_merge_giant(slots, leaves, buckets, window, scratch, before, board, 2 * i)


@device
def d_read_edge_rows(src, offsets, table, giants, wide, narrow, item, at_end):
    """Return the rows before and behind an edge of a window, or of a leaf that has moved, and the slot of the edge."""
    room, several = table.shape[1], giants + wide
    if item < several + narrow:
        if item < several:
            window = table[WIDE_WINDOWS, room - 1 - item if item < giants else item - giants]
        else:
            window = table[NARROW_WINDOWS, item - several]
        leaf, num_leaves = d_leaves_of(window, src.shape[0] >> 5)
    else:
        leaf, num_leaves = table[NARROW_WINDOWS, room - 1 - (item - several - narrow)], np.int32(1)
    slot = (np.int64(leaf) + (num_leaves if at_end else 0)) * 32
    low = np.int64(src[slot - 1]) if slot > 0 else np.int64(-1)
    high = np.int64(src[slot]) if slot < src.shape[0] else np.int64(offsets.shape[0] - 1)
    return low, high, slot


@device
def d_write_starts(src, offsets, table, control, far_rows):
    """Write the row offsets at both edges of windows, a lane each, then long ranges of rows; a grid wait before each.

    Two windows that share an edge write the same, also if one has not been merged.
    """
    d_sync_grid(far_rows, 1)
    lane, giants, wide, narrow = d_lane(), control[GIANT], control[WIDE], control[NARROW]
    count = giants + wide + narrow + control[MOVED]
    for base in range(cuda.grid(1) - lane, 2 * count, cuda.gridsize(1)):
        item, low, high, slot = (base + lane) >> 1, np.int64(0), np.int64(0), np.int64(0)
        if item < count:
            low, high, slot = d_read_edge_rows(src, offsets, table, giants, wide, narrow, item, lane & 1 != 0)
        d_write_rows_by_warp(offsets, low, high, slot, far_rows)
    d_write_far_rows(offsets, far_rows, 2)


@device
def d_restore_first(valid, marks, lists, nodes, num_tiles):
    """Do as ``d_restore_keys`` for tombstones in the first slots of tiles: threads stride over the tiles."""
    for tile in range(1 + cuda.grid(1), num_tiles, cuda.gridsize(1)):
        leaf = np.uint32(d_first_leaf(tile))
        is_marked = marks[leaf] & np.uint32(1) != 0
        if is_marked and lists[leaf, HEAD] == 0 and not d_is_covered(nodes, leaf):
            cuda.atomic.or_(valid, leaf, np.uint32(1))


@device
def d_merge_narrow(slots, leaves, buckets, values):
    """Warps merge warp windows, the last warps first: they had the fewest leaves to write.

    If there are more windows than warps, each warp that is done claims the next one: some are wider than others.
    """
    table, pairs, control = buckets
    warps, narrow = np.int64(cuda.gridsize(1) >> 5), control[NARROW]
    i = warps - 1 - (cuda.grid(1) >> 5)
    while i < narrow:
        window = d_leaves_of(table[NARROW_WINDOWS, i], slots.src.shape[0] >> 5)
        d_merge_by_warp(slots, leaves, pairs, window, values)
        i = warps
        if d_lane() == 0 and narrow > warps:
            i += cuda.atomic.add(control, TAKEN, 1)
        i = d_shuffle(i, 0)


@partial(kernel, max_registers=MAX_REGISTERS)
def k_write_windows(
    src, dst, valid, offsets, marks, nodes, table, lists, states, pairs, control, far_rows, num_rows, num_tiles,
    most_new, most_leaves,
):  # fmt: skip
    """Write what remains after single leaves and wider windows: warp windows, tombstones and row offsets.

    After a search by tiles (``num_tiles``, else 0) the row offsets at the edges of leaves are written even if the
    update does not fit, and only tombstones in the first slots of tiles still lack their bits.
    """
    values = cuda.shared.array(ALL_NARROW_SLOTS, np.int32)
    may_write = d_fits(control, most_new, most_leaves)  # the same in all threads
    slots, leaves = Slots(src, dst, dst, False, valid, offsets, far_rows), BucketLeaves(valid, marks, lists)
    if may_write:
        d_merge_narrow(slots, leaves, SortedBuckets(table, pairs, control), values)
        if control[RESTORED] > 0 and num_tiles > 0:
            d_restore_first(valid, marks, lists, nodes, num_tiles)
        elif control[RESTORED] > 0:
            d_restore_keys(valid, table[POSITIONS], states, num_rows, lists, nodes)
    if may_write or num_tiles > 0:
        d_write_starts(src, offsets, table, control, far_rows)
