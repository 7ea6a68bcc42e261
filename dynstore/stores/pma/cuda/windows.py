"""Choosing the windows of a packed memory array on CUDA: phases of one kernel, see ``dynstore/cuda/grid.py``.

The paper goes level by level, with several kernels a level. Here the number of edges at any height is a difference of
prefix counts, so each changed leaf climbs in registers: ``docs/design.md``, "Windows in one pass". Counts are kept by
blocks of 32 leaves; inside a block the validity words are as quick to read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.block import d_scan_tile, d_scan_two
from dynstore.cuda.compiler import MAX_RESIDENT_BLOCKS, cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import ARRIVALS, SUMS, d_chunk, d_leave_sum, d_sum_blocks_before
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.stores.table.cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = [
    "COUNTS",
    "GRANTED",
    "GRANT_SIZE",
    "HIGHEST",
    "KEYS",
    "NUM_LEAVES",
    "NUM_SCRATCH_LEAVES",
    "NUM_WINDOWS",
    "NUM_WINDOW_ARRAYS",
    "ROWS",
    "SCRATCH_LEAVES",
    "WINDOWS",
    "Windows",
    "count_blocks",
    "d_change_counts",
    "d_chunk_blocks",
    "d_climb_leaves",
    "d_collect_windows",
    "d_count_before_leaf",
    "d_count_blocks",
    "d_count_words",
    "d_cover_leaves",
    "d_grant",
    "d_limit",
    "d_scan_counts",
    "grant_window",
    "no_windows",
    "one_window",
]

# Entries of ``control``, behind those of the states and the self-loops (``locate.py``). GRANTED: whether the plan may
# be written. HIGHEST: the greatest height that a leaf has climbed to; the host does not read it.
for _kind in ("sorted plan", "compaction"):
    NUM_WINDOWS, NUM_LEAVES, NUM_SCRATCH_LEAVES, COUNTS, GRANTED, HIGHEST = declare(
        _kind, NUM_WINDOWS=4, NUM_LEAVES=5, NUM_SCRATCH_LEAVES=6, COUNTS=7, GRANTED=11, HIGHEST=ARRIVALS + 2
    )
# The budget, all 0 if nothing may be written: windows, leaves of those with scratch, pending keys, and located rows of
# the batch. Behind them are the counters of grid waits.
WINDOWS, SCRATCH_LEAVES, KEYS, ROWS = range(4)
GRANT_SIZE = SUMS
NUM_WINDOW_ARRAYS = 6
# The height of a block of leaves whose edges are counted together; the number of heights up to it.
BLOCK_HEIGHT, BLOCK_HEIGHTS = 5, 6


@dataclass(frozen=True, slots=True)
class Windows:
    """Disjoint windows, ascending; arrays of int64, or of int32 if that numbers all slots, one entry a window.

    Attributes
    ----------
    first, end : array
        First leaf and last leaf + 1.
    low, high : array
        The first pending key and the last + 1.
    start : array
        Where its scratch begins, in leaves. A window of one leaf has none, as keys are shifted into it.
    count : array
        How many edges it will hold; undefined without scratch.
    num_windows : int
    num_leaves, num_scratch_leaves : int
        Leaves of all windows, and of those with scratch. All three are upper bounds until the host has read the totals.
    """

    first: Array
    end: Array
    low: Array
    high: Array
    start: Array
    count: Array
    num_windows: int
    num_leaves: int
    num_scratch_leaves: int


@device
def d_count_words(valid, first, end):
    """Count the edges in the leaves [first, end)."""
    count = np.int64(0)
    for leaf in range(first, end):
        count += cuda.popc(valid[leaf])
    return count


@device
def d_count_before_leaf(valid, before, first, leaf):
    """Count the edges from leaf ``first`` of a window up to ``leaf`` (exclusive), which may be the window's end.

    A window of more than 32 leaves begins at a block, so ``before`` gives the counts of its whole blocks.
    """
    if leaf - first <= 32:
        return d_count_words(valid, first, leaf)
    block = leaf >> 5
    return before[block] - before[first >> 5] + d_count_words(valid, block << 5, leaf)


@device
def d_find_next(leaves, i, count, leaf):
    """Return the first index in (i, count) whose leaf is not below ``leaf``, else ``count``.

    It is quick if the index is near, or if there is none, as for new vertices, whose edges are in the last leaf.
    """
    if leaves[count - 1] < leaf:
        return np.int64(count)
    low, step = np.int64(i), np.int64(1)
    while low + step < count and leaves[low + step] < leaf:
        low += step
        step += step
    return d_find_lower_bound(leaves, low + 1, min(low + step, count), leaf)


@device
def d_find_first(leaves, i, leaf):
    """Return the first index whose leaf is not below ``leaf``, as that of ``i`` is not. It is quick if that is near."""
    high, step = np.int64(i), np.int64(1)
    while high - step >= 0 and leaves[high - step] >= leaf:
        high -= step
        step += step
    return d_find_lower_bound(leaves, max(high - step, np.int64(-1)) + 1, high, leaf)


@device
def d_count_windows(valid, leaf, num_leaves, counts):
    """Count the edges of the windows of 2 to 32 leaves around a leaf; ``counts`` is indexed by their heights.

    Words are read eight at a time, so that the reads overlap.
    """
    words = cuda.local.array(8, np.uint32)  # registers
    block, last = (leaf >> BLOCK_HEIGHT) << BLOCK_HEIGHT, num_leaves - 1
    for height in range(1, BLOCK_HEIGHTS):
        counts[height] = 0
    for first in range(block, block + (1 << BLOCK_HEIGHT), 8):
        for k in range(8):
            words[k] = valid[min(first + k, last)]
        for k in range(8):
            count = np.int32(cuda.popc(words[k])) if first + k <= last else np.int32(0)
            for height in range(1, BLOCK_HEIGHTS):
                counts[height] += count if (first + k) >> height == leaf >> height else np.int32(0)


@device
def d_count_items(items, i, first, end):
    """Count the items that change the leaves [first, end); item ``i`` is in one of them."""
    wide, number = end - first > 32, np.int64(0)
    if items.change > 0 or (items.change < 0 and not wide):
        number = d_find_next(items.leaves, i, items.num_items, end) - d_find_first(items.leaves, i, first)
    if items.change > 0 and not wide and items.num_tombstones > 0:
        low = d_find_lower_bound(items.tombstone_leaves, np.int64(0), items.num_tombstones, first)
        number += d_find_lower_bound(items.tombstone_leaves, low, items.num_tombstones, end) - low
    return number


@device
def d_count_changed(valid, before, items, i, first, end):
    """Count the edges that the leaves [first, end) will hold; item ``i`` is in one of them.

    ``before`` includes restored tombstones, and not the edges that go.
    """
    wide = end - first > 32
    count = before[(end + 31) >> 5] - before[first >> 5] if wide else d_count_words(valid, first, end)
    return count + items.change * d_count_items(items, i, first, end)


@device
def d_count_block(valid, num_leaves, block, part):
    """Count the edges of a block of 32 leaves: four neighbouring threads read 8 words each at once, and sum up."""
    count = np.int32(0)
    for k in range(8):
        leaf = (block << 5) + part * 8 + k
        if leaf < num_leaves:
            count += np.int32(cuda.popc(valid[leaf]))
    for step in (1, 2):
        count += d_shuffle(count, d_lane() ^ step)
    return np.int64(count)


@kernel
def k_count_block_edges(valid, num_leaves, counts):
    """Four threads own one block of 32 leaves."""
    part = np.int64(cuda.grid(1))
    count = d_count_block(valid, num_leaves, part >> 2, part & 3)
    if part & 3 == 0 and part >> 2 < counts.shape[0]:
        counts[part >> 2] = count


@device
def d_share_of_blocks(num_blocks):
    """Return how many blocks of leaves a thread block owns; the last ones may have fewer, or none."""
    return (num_blocks + np.int64(cuda.gridDim.x) - 1) // np.int64(cuda.gridDim.x)


@device
def d_chunk_blocks(num_blocks):
    """Return the first and the last + 1 of the blocks of leaves that the thread block owns: as evenly as possible."""
    share = d_share_of_blocks(num_blocks)
    first = min(cuda.blockIdx.x * share, num_blocks)
    return first, min(first + share, num_blocks)


@device
def d_count_blocks(valid, num_leaves, counts, control, board):
    """Count the edges of the blocks of leaves, and leave the sum of each share: the first half of the running sums."""
    base, end = d_chunk_blocks(np.int64(counts.shape[0]))
    part, total = np.int64(cuda.threadIdx.x & 3), np.int64(0)
    while base < end:
        block = base + (cuda.threadIdx.x >> 2)
        count = d_count_block(valid, num_leaves, block, part)
        if part == 0 and block < end:
            counts[block] = count
            total += count
        base += cuda.blockDim.x >> 2
    d_leave_sum(control, COUNTS, total, board)


@device
def d_change_counts(counts, position, change, wanted, control):
    """Add to the counts of slots' blocks, and to their shares' sums; all lanes of the warp call.

    Neighbouring lanes with slots of one block add together: two atomic adds.
    """
    lane = d_lane()
    block = position >> 10 if wanted else np.int64(-1)
    block_before = d_shuffle(block, (lane - 1) & 31)
    leads = np.int64(d_ballot(lane == 0 or block_before != block))
    if wanted and (leads >> lane) & 1 != 0:
        after = leads >> (lane + 1)
        length = np.int64(cuda.ffs(np.int32(after))) if after != 0 else np.int64(32 - lane)
        owner = block // d_share_of_blocks(np.int64(counts.shape[0]))
        cuda.atomic.add(counts, block, length * change)
        cuda.atomic.add(control, SUMS + COUNTS * MAX_RESIDENT_BLOCKS + owner, length * change)


@device
def d_scan_counts(counts, control, board):
    """Replace counts by their running sums, each included."""
    first, end = d_chunk_blocks(np.int64(counts.shape[0]))
    base, rank = first, d_sum_blocks_before(control, COUNTS, board)
    while base < end:
        i = base + cuda.threadIdx.x
        count = counts[i] if i < end else np.int64(0)
        before, total = d_scan_tile(count, board)
        if i < end:
            counts[i] = rank + before + count
        rank += total
        base += cuda.blockDim.x


@device
def d_limit(low, high, height, top, num_leaves):
    """Return the limit of a window's edges: its density is linear from ``low`` at a leaf to ``high`` at the root."""
    return (low + (high - low) * height / top) * (num_leaves * 32)


@device
def d_climb_leaves(valid, before, items, limits, num_leaves, marks):
    """The first item of each leaf climbs to the lowest ancestor within its limit and marks it (atomic or).

    All lanes of a warp call. Returns the greatest height to which a leaf of this thread climbs. Nothing moves
    meanwhile, so nothing is rebalanced twice. Nodes are numbered as in a heap: the root is 1, its height the limits'
    ``top``. The caller has tested the root. A deletion's leaf that is dense enough marks nothing.
    """
    counts = cuda.local.array(BLOCK_HEIGHTS, np.int32)
    highest, lane = np.int64(0), d_lane()
    for base in range(cuda.grid(1) - lane, items.num_items, cuda.gridsize(1)):  # the same in all lanes
        i, node = base + lane, np.int64(0)
        leaf = np.int64(items.leaves[min(i, items.num_items - 1)])
        if i < items.num_items and (i == 0 or items.leaves[i - 1] != leaf):
            height, counts[0] = np.int64(0), np.int32(cuda.popc(valid[leaf]))
            while height < limits.top:
                first = (leaf >> height) << height
                end = min(first + (np.int64(1) << height), num_leaves)
                if height == 1:
                    d_count_windows(valid, leaf, num_leaves, counts)
                if end - first > 32:
                    count = before[(end + 31) >> 5] - before[first >> 5]
                else:  # a window that the last leaf cuts off has the count of its block
                    count = np.int64(counts[min(height, np.int64(BLOCK_HEIGHT))])
                count += items.change * d_count_items(items, i, first, end)
                bound = d_limit(limits.low, limits.high, height, limits.top, end - first)
                if (items.change > 0 and count <= bound) or (items.change <= 0 and count >= bound):
                    break
                height += 1
            if items.change > 0 or height > 0:
                node = (np.int64(1) << (limits.top - height)) + (leaf >> height)
                highest = max(highest, height)
        # Around a hub all leaves climb to one node: a warp marks it once.
        node_before = d_shuffle(node, (lane - 1) & 31)
        if node > 0 and (lane == 0 or node != node_before):
            cuda.atomic.or_(marks, node >> 5, np.uint32(1) << np.uint32(node & 31))
    return highest


@device
def d_cover_leaves(items, num_leaves, top, highest, marks, heights, control, board):
    """An item's window is its leaf's highest marked ancestor, up to ``highest``; the first item of a window leads it.

    ``heights`` is -1 for items that lead none, as all but the first of a leaf. (A running maximum of window ends is not
    enough: leaf 0 may take [0, 1) and leaf 1 climb to [0, 2).) Leaves the numbers of windows, of their leaves, and of
    leaves with scratch.
    """
    chunk_first, chunk_end = d_chunk(items.num_items)
    windows, total, scratch = np.int64(0), np.int64(0), np.int64(0)
    for i in range(chunk_first + cuda.threadIdx.x, chunk_end, cuda.blockDim.x):
        leaf, height = np.int64(items.leaves[i]), -1
        is_first = i == 0 or items.leaves[i - 1] != leaf
        for candidate in range(highest + 1 if is_first else 0):
            node = (np.int64(1) << (top - candidate)) + (leaf >> candidate)
            if (marks[node >> 5] >> np.uint32(node & 31)) & np.uint32(1) != 0:
                height = candidate
        if height >= 0:
            first = (leaf >> height) << height
            if i == 0 or items.leaves[i - 1] < first:
                width = min(first + (np.int64(1) << height), num_leaves) - first
                windows += 1
                total += width
                scratch += width if width > 1 else np.int64(0)
            else:
                height = -1
        heights[i] = height
    d_leave_sum(control, NUM_WINDOWS, windows, board)
    d_leave_sum(control, NUM_LEAVES, total, board)
    d_leave_sum(control, NUM_SCRATCH_LEAVES, scratch, board)


@device
def d_collect_windows(valid, before, items, num_leaves, heights, control, board, out):
    """Each item that leads a window writes it to its rank."""
    base, chunk_end = d_chunk(items.num_items)
    last = control[NUM_WINDOWS] - 1
    rank = d_sum_blocks_before(control, NUM_WINDOWS, board)
    place = d_sum_blocks_before(control, NUM_SCRATCH_LEAVES, board)
    while base < chunk_end:
        i = base + cuda.threadIdx.x
        height = np.int64(heights[i]) if i < chunk_end else np.int64(-1)
        first, end = np.int64(0), np.int64(0)
        if height >= 0:
            first = (np.int64(items.leaves[i]) >> height) << height
            end = min(first + (np.int64(1) << height), num_leaves)
        width = end - first if end - first > 1 else np.int64(0)
        leading, windows, offset, scratch = d_scan_two(height >= 0, width, board)
        if height >= 0:
            window = rank + leading
            out.first[window] = first
            out.end[window] = end
            out.low[window] = i if items.change > 0 else 0
            if items.change > 0 and window > 0:  # each item is in a window
                out.high[window - 1] = i
            if items.change <= 0 or window == last:
                out.high[window] = items.num_items if items.change > 0 else 0
            out.start[window] = place + offset
            if end - first > 1:
                out.counts[window] = d_count_changed(valid, before, items, i, first, end)
        rank += windows
        place += scratch
        base += cuda.blockDim.x


@device
def d_grant(granted, control, fits, num_keys, num_rows):
    """One thread fills in the budget of a plan whose totals are known, if it fits."""
    if fits and cuda.grid(1) == 0:
        control[GRANTED] = 1
        granted[WINDOWS] = control[NUM_WINDOWS]
        granted[SCRATCH_LEAVES] = control[NUM_SCRATCH_LEAVES]
        granted[KEYS] = num_keys
        granted[ROWS] = num_rows


def grant_window(backend: Backend, num_leaves: int, num_keys: int) -> Array:
    """Return the budget for one window that is written through scratch."""
    granted = np.zeros(GRANT_SIZE, np.int64)
    granted[:3] = 1, num_leaves, num_keys
    return backend.asarray(granted)


def count_blocks(backend: Backend, valid: Array, num_leaves: int) -> Array:
    """Return a 0 and the number of edges of each block of 32 leaves; int64, shape (ceil(L / 32) + 1,).

    Their running sums are the ``before`` of the kernels: the edges before each block.
    """
    counts = backend.zeros(((num_leaves + 31) >> 5) + 1, np.int64)
    k_count_block_edges.launch(4 * (counts.shape[0] - 1), valid, num_leaves, counts[1:])
    return counts


def no_windows(empty: Array) -> Windows:
    """Return no windows; ``empty``: an int64 array without entries."""
    return Windows(empty, empty, empty, empty, empty, empty, 0, 0, 0)


def one_window(backend: Backend, num_leaves: int, num_keys: int, count: int) -> Windows:
    """Return the window of a whole array with all keys in it."""
    values = backend.asarray(np.array([[0], [num_leaves], [0], [num_keys], [0], [count]], dtype=np.int64))
    return Windows(values[0], values[1], values[2], values[3], values[4], values[5], 1, num_leaves, num_leaves)
