"""Planning an update of a leveled packed memory array on CUDA: one kernel and one read-back for any batch.

The phases are those of ``gpma_plus/cuda/plan_sorted.py``. They work on a copy of the validity words in order, which
already includes the levels to append.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dynstore.batches.cuda.unique import RUN_LOOPS, RUNS, d_count_runs, d_keep_runs
from dynstore.batches.unsorted import RawEdges
from dynstore.cuda.block import BOARD
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.grid import CONTROL_SIZE, d_chunk, d_leave_sum, d_sync_grid, read_totals
from dynstore.cuda.warp import d_lane, d_shuffle
from dynstore.stores.lpma.cuda.layout import SearchedLevels, d_find_key, d_physical_of, d_word_of, memory_of
from dynstore.stores.pma.cuda.locate import FOUND_LOOPS, d_list_keys
from dynstore.stores.pma.cuda.records import DensityLimits, EdgeEnds, Items, KeyLists, Located, WindowArrays
from dynstore.stores.pma.cuda.row_offsets import FAR_START, far_rows_size
from dynstore.stores.pma.cuda.windows import (
    COUNTS,
    NUM_LEAVES,
    NUM_SCRATCH_LEAVES,
    NUM_WINDOWS,
    Windows,
    d_chunk_blocks,
    d_climb_leaves,
    d_collect_windows,
    d_count_words,
    d_cover_leaves,
    d_scan_counts,
)
from dynstore.stores.table.cuda.search import d_find_lower_bound
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE, SearchResult

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch
    from dynstore.stores.lpma.levels import Levels
    from dynstore.typing import Array

__all__ = ["Planned", "k_order_words", "plan_windows"]

# Work arrays of the batch's length: keys, places, leaves, an unused one; and those of the windows.
NUM_LISTS, NUM_WINDOW_ARRAYS = 4, 6
# There are no tombstones here, so their row of the sums is free. It counts segments of windows inside other windows.
SAVED = TOMBSTONE


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of an update; slots, leaves and windows are numbered in order, as after the growth.

    ``ordered``: the validity words in order, before the update. ``before``: edges before each block of 32 segments,
    after a deletion's bits are cleared. ``keys``, ``places``: the absent keys' rows in the batch, and the slots that
    they go before. ``far_rows``: for writing, see ``d_write_rows_by_warp``.
    """

    located: SearchResult
    growth: int
    windows: Windows
    before: Array
    ordered: Array
    keys: Array
    places: Array
    far_rows: Array
    num_saved: int


@device
def d_locate_in_levels(levels, edge_src, edge_dst, count, positions, states, control, board):
    """Find each key's lower bound inside its row, and whether it is there; add up the counts of both states."""
    first, end = d_chunk(count)
    absent, present, loops = np.int64(0), np.int64(0), np.int64(0)
    for i in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):
        row = np.int64(edge_src[i])
        position, there = d_find_key(levels, row, edge_dst[i])
        positions[i] = position
        states[i] = PRESENT if there else ABSENT
        absent += not there
        present += there
        loops += there and row == edge_dst[i]
    d_leave_sum(control, ABSENT, absent, board)
    d_leave_sum(control, PRESENT, present, board)
    d_leave_sum(control, FOUND_LOOPS, loops, board)


@device
def d_find_growth(total, depth, root):
    """Return the number of new levels that keeps the root's density within its limit."""
    growth = np.int64(0)
    while total > root * (np.int64(32) << (depth + growth)):
        growth += 1
    return growth


@device
def d_renumber(positions, count, growth):
    """Renumber slots in order for ``growth`` new levels; a place behind a segment moves behind its new ones."""
    first, end = d_chunk(count)
    for i in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):
        positions[i] = ((positions[i] >> 5) << growth << 5) + (positions[i] & 31)


@device
def d_order_word(words, table, depth, growth, i, ordered):
    """Copy and return the validity word of the segment that becomes the i-th in order; 0 for a new segment."""
    word = np.uint32(0)
    if i & ((np.int64(1) << growth) - 1) == 0:
        word = d_word_of(words, table, d_physical_of(i >> growth, depth))
    ordered[i] = word
    return word


@kernel
def k_order_words(words, table, depth, ordered):
    """One thread owns one segment: copy its validity word."""
    i = np.int64(cuda.grid(1))
    if i < ordered.shape[0]:
        d_order_word(words, table, depth, 0, i, ordered)


@device
def d_order_words(levels, growth, num_leaves, ordered, counts, control, board):
    """Copy the validity words in order, count the edges of blocks of 32, and add up each share's sum.

    Four neighbouring threads own a block, 8 words each.
    """
    base, end = d_chunk_blocks(np.int64(counts.shape[0]))
    part, total = np.int64(cuda.threadIdx.x & 3), np.int64(0)
    while base < end:
        block = base + (cuda.threadIdx.x >> 2)
        count = np.int32(0)
        for k in range(8):
            leaf = (block << 5) + part * 8 + k
            if block < end and leaf < num_leaves:
                word = d_order_word(levels.words, levels.table, levels.depth, growth, leaf, ordered)
                count += np.int32(cuda.popc(word))
        for step in (1, 2):
            count += d_shuffle(count, d_lane() ^ step)
        if part == 0 and block < end:
            counts[block] = count
            total += count
        base += cuda.blockDim.x >> 2
    d_leave_sum(control, COUNTS, total, board)


@device
def d_count_span(ordered, before, first, end):
    """Count the edges of an aligned window."""
    if end - first > 32:
        return before[end >> 5] - before[first >> 5]
    return d_count_words(ordered, first, end)


@device
def d_descend_leaves(ordered, before, leaves, num_items, low, high, top, marks):
    """Descend from the root for the first item of each leaf, and mark the final window (atomic or).

    It ends at a window with a half that cannot take its keys, or at the leaf. Nodes are numbered as in a heap. Limits
    go from ``low`` at a leaf to ``high`` at the root.
    """
    for i in range(cuda.grid(1), num_items, cuda.gridsize(1)):
        leaf = np.int64(leaves[i])
        if i == 0 or leaves[i - 1] != leaf:
            height, begin, end, fits = np.int64(top), np.int64(0), np.int64(num_items), True
            while height > 0:
                half = np.int64(1) << (height - 1)
                middle = (leaf >> height << height) + half
                split = d_find_lower_bound(leaves, begin, end, middle)
                bound = (low + (high - low) * (height - 1) / top) * (half * 32)
                if split > begin:
                    fits = d_count_span(ordered, before, middle - half, middle) + split - begin <= bound
                if fits and split < end:
                    fits = d_count_span(ordered, before, middle, middle + half) + end - split <= bound
                if not fits:
                    break
                if leaf < middle:
                    end = split
                else:
                    begin = split
                height -= 1
            node = (np.int64(1) << (top - height)) + (leaf >> height)
            cuda.atomic.or_(marks, node >> 5, np.uint32(1) << np.uint32(node & 31))


@device
def d_count_covered(marks, top, control, board):
    """Count the segments of marked windows that lie in other marked windows."""
    covered = np.int64(0)
    for place in range(cuda.grid(1), marks.shape[0], cuda.gridsize(1)):
        word = np.uint32(marks[place])
        while word != 0:
            node = (np.int64(place) << 5) + cuda.ffs(np.int32(word)) - 1
            width, above, inside = np.int64(1) << top, node >> 1, False
            while above > 0:
                inside = inside or (marks[above >> 5] >> np.uint32(above & 31)) & np.uint32(1) != 0
                width >>= 1
                above >>= 1
            covered += width if inside else np.int64(0)
            word &= word - np.uint32(1)
    d_leave_sum(control, SAVED, covered, board)


@partial(kernel, records={"levels": SearchedLevels, "edges": EdgeEnds, "located": Located})
def k_plan_levels(
    levels, sorted_keys, edges, low, high, num_edges, inserting, top_down, located, heights, work, before, ordered,
    marks, control,
):  # fmt: skip
    """Locate the keys, decide how many levels to append, choose the windows; a grid-wide wait after each phase.

    ``sorted_keys``, if any, are first written to ``edges``, each once. ``low``, ``high``: the densities that bound a
    leaf and the root. ``work`` holds lists of the batch's length. Atomics: see the phases.
    """
    board = cuda.shared.array(BOARD, np.int64)
    size, depth, positions, states = np.int64(edges.src.shape[0]), levels.depth, located.positions, located.states
    count, waits = size, 0
    if sorted_keys.shape[0] > 0:
        d_count_runs(sorted_keys, control, board)
        d_sync_grid(control, 1)
        d_keep_runs(sorted_keys, sorted_keys[:0], edges.src, edges.dst, control, board)
        count = control[RUNS]
        d_sync_grid(control, 2)
        waits = 2
    keys, places = work[:size], work[size : 2 * size]
    leaves, none = work[2 * size : 3 * size], work[3 * size : 4 * size]
    lists = KeyLists(keys, places, leaves, none)
    d_locate_in_levels(levels, edges.src, edges.dst, count, positions, states, control, board)
    d_sync_grid(control, waits + 1)
    growth = d_find_growth(num_edges + control[ABSENT], depth, high) if inserting else np.int64(0)
    top, num_items, change = depth + growth, control[ABSENT if inserting else PRESENT], 1 if inserting else -1
    num_leaves, items = np.int64(1) << top, Items(leaves, num_items, none, np.int64(0), change)
    counts = before[1 : ((num_leaves + 31) >> 5) + 1]
    d_renumber(positions, count, growth)
    d_order_words(levels, growth, num_leaves, ordered, counts, control, board)
    if cuda.grid(1) == 0:
        before[0] = 0
    d_sync_grid(control, waits + 2)
    d_list_keys(positions, states, count, inserting, counts, lists, control, board)
    d_sync_grid(control, waits + 3)
    d_scan_counts(counts, control, board)
    d_sync_grid(control, waits + 4)
    if top_down:
        d_descend_leaves(ordered, before, leaves, num_items, low, high, top, marks)
    else:
        d_climb_leaves(ordered, before, items, DensityLimits(low, high, top), num_leaves, marks)
    d_sync_grid(control, waits + 5)
    d_cover_leaves(items, num_leaves, top, top, marks, heights, control, board)
    d_sync_grid(control, waits + 6)
    d_count_covered(marks, top, control, board)
    out = WindowArrays(
        work[4 * size : 5 * size], work[5 * size : 6 * size], work[6 * size : 7 * size],
        work[7 * size : 8 * size], work[8 * size : 9 * size], work[9 * size : 10 * size],
    )  # fmt: skip
    d_collect_windows(ordered, before, items, num_leaves, heights, control, board, out)


def plan_windows(
    backend: Backend, levels: Levels, batch: Batch, limits: tuple[float, float], inserting: bool,
    most_growth: int = 0, top_down: bool = False,
) -> Planned:  # fmt: skip
    """Launch the whole plan, then read one record back; until then all data stay on the device.

    Parameters
    ----------
    limits : pair of float
        The highest density of a leaf and of the root; for a deletion, the lowest.
    most_growth : int
        Levels that could be appended.
    """
    batch = batch.known()
    sorted_keys = batch.sort_keys() if isinstance(batch, RawEdges) else backend.nothing(np.int64)
    pending = int(sorted_keys.shape[0])
    size, most_top = pending or batch.count_edges(), levels.depth + most_growth
    num_leaves, num_marks = 1 << most_top, (2 << most_top) // 32 + 1
    work_size, vertex_dtype = (NUM_LISTS + NUM_WINDOW_ARRAYS) * size, levels.vertex_dtype
    arrays = backend.empty_arena(
        (CONTROL_SIZE, np.int64), (num_marks, np.uint32), (far_rows_size(levels.num_vertices), np.int64, FAR_START),
        (work_size, np.int64), (size, np.int64), (((num_leaves + 31) >> 5) + 1, np.int64), (num_leaves, np.uint32),
        (size, np.uint8), (size, np.int8), (pending, vertex_dtype), (pending, vertex_dtype), zeroed=3,
    )  # fmt: skip
    control, marks, far_rows, work, positions, before, ordered, states, heights, edge_src, edge_dst = arrays
    if not pending:
        edges = batch.materialized()
        edge_src, edge_dst = edges.src, edges.dst
    ids, words, _, table, depth = memory_of(levels)
    k_plan_levels.launch_resident(
        max(size, num_leaves >> 3),
        ids, words, table, depth, levels.starts, sorted_keys, edge_src, edge_dst, *limits, levels.num_edges, inserting,
        top_down, positions, states, heights, work, before, ordered, marks, control,
    )  # fmt: skip
    counts = read_totals(backend, control)
    if pending:
        assert isinstance(batch, RawEdges)
        batch.keep_edges(edge_src[: counts[RUNS]], edge_dst[: counts[RUNS]], counts[RUN_LOOPS])
    num_keys = batch.count_edges()
    located = SearchResult(positions[:num_keys], states[:num_keys], counts[PRESENT], counts[FOUND_LOOPS])
    num_absent = counts[ABSENT] if inserting else 0
    growth = levels.growth_for(levels.num_edges + num_absent, limits[1]) if inserting else 0
    first = NUM_LISTS * size
    ends = (first + place * size for place in range(NUM_WINDOW_ARRAYS))
    spans = (work[at : at + counts[NUM_WINDOWS]] for at in ends)
    windows = Windows(*spans, *(counts[row] for row in (NUM_WINDOWS, NUM_LEAVES, NUM_SCRATCH_LEAVES)))
    absent, places = work[:num_absent], work[size : size + num_absent]
    return Planned(located, growth, windows, before, ordered, absent, places, far_rows, counts[SAVED])
