"""Writing the segments of a leveled packed memory array on CUDA: merge by rank into scratch, then spread evenly.

Like ``pma/cuda/redistribute.py`` and ``pma/cuda/leaf_merge.py``, for segments in levels. Leaves, slots and windows are
numbered in order.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.compiler import THREADS, cuda, kernel
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle
from dynstore.stores.lpma.cuda.layout import (
    d_base_of,
    d_first_source,
    d_in_order_of,
    d_last_source,
    d_physical_of,
)
from dynstore.stores.lpma.levels import DST, END, FIRST_DST, FIRST_SRC, SRC, STAMP, VALID, WEIGHT
from dynstore.stores.pma.cuda.leaf_merge import d_merge_leaf, d_take_shown
from dynstore.stores.pma.cuda.records import EdgeArrays
from dynstore.stores.pma.cuda.redistribute import d_count_before_by_warp, d_count_before_lanes, d_divide, d_find_window
from dynstore.stores.pma.cuda.row_offsets import d_write_far_rows, d_write_rows_by_warp
from dynstore.stores.table.cuda.search import d_test_bit

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = [
    "GatheredSegments",
    "MergedWindows",
    "SpreadSegments",
    "WrittenLevels",
    "k_append_first_keys",
    "k_gather_segments",
    "k_merge_segments",
    "k_spread_segments",
    "k_write_window_starts",
]


@kernel
def k_append_first_keys(ids, table, depth, old_depth):
    """One thread owns one segment of a level above ``old_depth``: set its first key to the last key before it.

    The segment counts as never written. With ``old_depth`` -1 there are no keys before, and all segments get (0, 0).
    """
    p = np.int64(cuda.grid(1)) + ((np.int64(1) << old_depth) if old_depth >= 0 else np.int64(0))
    if p < np.int64(1) << depth:
        source, key = np.int64(0), np.int64(0)
        if old_depth >= 0:
            growth = depth - old_depth
            before = d_physical_of(d_in_order_of(p, depth) >> growth << growth, depth)
            written = ids[d_base_of(table, FIRST_SRC, before) + before] >= 0
            source = d_last_source(ids, table, before)
            last = d_base_of(table, DST, before) + before * 32 + 31
            key = np.int64(ids[last if written else d_base_of(table, FIRST_DST, before) + before])
        ids[d_base_of(table, FIRST_SRC, p) + p] = -1 - source
        ids[d_base_of(table, FIRST_DST, p) + p] = key


class WrittenLevels(NamedTuple):
    """What is written: memory as ids, words and weights, the table of levels, their number, and the rows."""

    ids: Array
    words: Array
    weights: Array
    table: Array
    depth: Any
    starts: Array
    weighted: Any


class GatheredSegments(NamedTuple):
    """The windows that are gathered; arrays as in ``pma/cuda/windows.Windows``."""

    first: Array
    low: Array
    high: Array
    start: Array
    num_windows: Any
    num_leaves: Any


class SpreadSegments(NamedTuple):
    """The windows that are spread."""

    first: Array
    end: Array
    start: Array
    count: Array
    num_windows: Any
    num_leaves: Any


class MergedWindows(NamedTuple):
    """All windows; those of a single segment are merged."""

    first: Array
    end: Array
    low: Array
    high: Array
    num_windows: Any


@partial(kernel, records={"windows": GatheredSegments, "scratch": EdgeArrays})
def k_gather_segments(
    ids, weights, table, depth, weighted, ordered, before, places, windows, scratch
):  # fmt: skip
    """Warps stride over the windows' segments; each lane copies its slot's edge to its rank in scratch.

    Rank in the window: the number of edges before it, plus the pending keys that go before its slot. ``ordered``:
    validity words.
    """
    lane = d_lane()
    warp = np.int64(cuda.grid(1) >> 5)
    while warp < windows.num_leaves:
        window = d_find_window(windows.start, windows.num_windows, warp)
        leaf = windows.first[window] + warp - windows.start[window]
        slot = leaf * 32 + lane
        rank = windows.start[window] * 32 + d_count_before_by_warp(ordered, before, windows.first[window], leaf)
        rank += d_count_lower(ordered[leaf], lane)
        if windows.low[window] < windows.high[window]:  # the same in all lanes
            rank += d_count_before_lanes(places, windows.low[window], windows.high[window], slot) - windows.low[window]
        if d_test_bit(ordered, slot):
            p = d_physical_of(leaf, depth)
            scratch.src[rank] = ids[d_base_of(table, SRC, p) + p * 32 + lane]
            scratch.dst[rank] = ids[d_base_of(table, DST, p) + p * 32 + lane]
            if weighted:
                scratch.weights[rank] = weights[d_base_of(table, WEIGHT, p) + p * 32 + lane]
        warp += cuda.gridsize(1) >> 5


@partial(kernel, records={"levels": WrittenLevels, "windows": SpreadSegments, "scratch": EdgeArrays})
def k_spread_segments(levels, windows, scratch, far_rows, stamp):
    """Warps stride over the windows' segments and write them: slot s of c shows element floor(((s + 1) n - 1) / c).

    The ballot of "first slot to show it" is the segment's word. It writes the starts of rows that begin inside the
    window; ``k_write_window_starts`` writes those at its first slot.
    """
    ids, words, weights, table, depth = levels.ids, levels.words, levels.weights, levels.table, levels.depth
    lane = d_lane()
    warp = np.int64(cuda.grid(1) >> 5)
    while warp < windows.num_leaves:
        window = d_find_window(windows.start, windows.num_windows, warp)
        elements, size = windows.count[window], (windows.end[window] - windows.first[window]) * 32
        place = (warp - windows.start[window]) * 32 + lane
        base = windows.start[window] * 32
        element = d_divide((place + 1) * elements - 1, size)
        previous = d_shuffle(element, (lane - 1) & 31)
        if lane == 0:
            previous = d_divide(place * elements - 1, size) if place > 0 else np.int64(-1)
        p = d_physical_of(windows.first[window] + warp - windows.start[window], depth)
        slot, row = p * 32 + lane, np.int64(scratch.src[base + element])
        ids[d_base_of(table, SRC, p) + slot] = row
        ids[d_base_of(table, DST, p) + slot] = scratch.dst[base + element]
        if levels.weighted:
            weights[d_base_of(table, WEIGHT, p) + slot] = scratch.weights[base + element]
        word = d_ballot(element != previous)
        if lane == 0:
            words[d_base_of(table, VALID, p) + p] = word
            words[d_base_of(table, STAMP, p) + p] = stamp
            ids[d_base_of(table, FIRST_SRC, p) + p] = row
            ids[d_base_of(table, FIRST_DST, p) + p] = scratch.dst[base + element]
        row_before = np.int64(scratch.src[base + previous]) if place > 0 else row
        d_write_rows_by_warp(levels.starts, row_before, row, slot, far_rows)
        warp += cuda.gridsize(1) >> 5


@partial(kernel, records={"levels": WrittenLevels, "windows": MergedWindows, "new": EdgeArrays})
def k_merge_segments(levels, ordered, windows, places, keys, new, far_rows, stamp):
    """One warp owns one window; a window of a single segment is merged with its keys and spread, in registers.

    Each lane loads a slot and a key. Lanes exchange the origin of the element of each rank (a slot, or 32 + a key).
    Then each slot gets its element from the lane that has it.
    """
    ids, words, weights, table, depth = levels.ids, levels.words, levels.weights, levels.table, levels.depth
    origin = cuda.shared.array(THREADS, np.int32)
    lane, window = d_lane(), cuda.grid(1) >> 5
    if window < windows.num_windows and windows.end[window] - windows.first[window] == 1:
        leaf, begin = windows.first[window], windows.low[window]
        p = d_physical_of(leaf, depth)
        slot, num_keys = p * 32 + lane, windows.high[window] - begin
        at_src, at_dst = d_base_of(table, SRC, p) + slot, d_base_of(table, DST, p) + slot
        word, row, column = np.uint32(ordered[leaf]), ids[at_src], ids[at_dst]
        place, key_row, key_column, key = np.int64(64), row, column, np.int64(0)
        if lane < num_keys:
            place, key = places[begin + lane] - leaf * 32, keys[begin + lane]
            key_row, key_column = new.src[key], new.dst[key]
        source, shown = d_merge_leaf(origin, word, place, num_keys)
        row, column = d_take_shown(source, row, key_row), d_take_shown(source, column, key_column)
        if levels.weighted:
            at_weight = d_base_of(table, WEIGHT, p) + slot
            weight, key = d_shuffle(weights[at_weight], source & 31), d_shuffle(key, source & 31)
            weights[at_weight] = new.weights[key] if source > 31 else weight
        ids[at_src] = row
        ids[at_dst] = column
        if lane == 0:
            words[d_base_of(table, VALID, p) + p] = shown
            words[d_base_of(table, STAMP, p) + p] = stamp
            ids[d_base_of(table, FIRST_SRC, p) + p] = row
            ids[d_base_of(table, FIRST_DST, p) + p] = column
        row_before = d_shuffle(row, (lane - 1) & 31)
        d_write_rows_by_warp(levels.starts, np.int64(row_before if lane > 0 else row), np.int64(row), slot, far_rows)


@kernel
def k_write_window_starts(ids, table, depth, starts, first, end, num_windows, far_rows):
    """Two threads own a window, one for each border: write the starts of rows between the neighbour's keys and its own.

    At a border shared with the next window only that one writes. Then all blocks together write the ranges that are too
    long for a warp.
    """
    lane = d_lane()
    for base in range(cuda.grid(1) - lane, 2 * num_windows, cuda.gridsize(1)):
        window, at_end = (base + lane) >> 1, lane & 1
        low, high, slot = np.int64(0), np.int64(0), np.int64(0)
        if window < num_windows:
            segment = first[window] if at_end == 0 else end[window]
            if at_end == 0 or window + 1 == num_windows or first[window + 1] != segment:
                low, high, slot = np.int64(-1), np.int64(starts.shape[0] - 1), np.int64(END)
                if segment > 0:
                    low = d_last_source(ids, table, d_physical_of(segment - 1, depth))
                if segment < np.int64(1) << depth:
                    p = d_physical_of(segment, depth)
                    high, slot = d_first_source(ids, table, p), p * 32
        d_write_rows_by_warp(starts, low, high, slot, far_rows)
    d_write_far_rows(starts, far_rows, 1)
