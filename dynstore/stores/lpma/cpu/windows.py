"""Choosing the windows of a leveled packed memory array on the host: bottom-up or top-down.

A window of layer h is an aligned run of 2**h segments in order. If ``growth`` levels will be appended, segments are
numbered as after the growth: every (2**growth)-th is a present one, those in between are empty.
"""

from __future__ import annotations

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.lpma.cpu.mapping import physical_of, word_of
from dynstore.stores.pma.cpu.redistribute import count_bits

__all__ = ["choose_bottom_up", "choose_top_down", "collect_windows", "count_before"]

NO_WINDOW = np.int8(-1)


@njit(cache=True, borrows=True)
def _old_segment(i, growth):
    """Return the first present segment that, after the growth, does not come before segment i."""
    return (i + (np.int64(1) << growth) - 1) >> growth


@njit(cache=True, borrows=True)
def _count_edges(words, table, depth, growth, first, end):
    """Count the edges of the segments [first, end) in order."""
    count = 0
    for i in range(_old_segment(first, growth), _old_segment(end, growth)):
        count += count_bits(word_of(words, table, physical_of(i, depth)))
    return count


@njit(cache=True, borrows=True)
def _limit_of(leaf, root, height, top):
    """Return the density limit of a layer; linear from the leaves to the root."""
    return leaf + (root - leaf) * height / top if top > 0 else root


@njit(cache=True, borrows=True)
def _mark(heights, run, low, high, height):
    """Make the runs [low, high) one window, led by ``run``; return the segments of the windows that it replaces."""
    covered = 0
    for other in range(low, high):
        if heights[other] >= 0:
            covered += 1 << heights[other]
        heights[other] = NO_WINDOW
    heights[run] = height
    return covered


@njit(cache=True)
def choose_bottom_up(words, table, depth, growth, leaf, root, inserting, num_runs, run_leaf, run_keys, heights):
    """Climb from each changed segment, layer by layer, to the lowest window within its limit.

    ``heights`` becomes the layer of the window that a run leads, -1 if it leads none: windows inside others are
    dropped. Precondition: the root is within its limit. Returns the segments of dropped windows: re-balancing layer by
    layer would have moved these, and later moved them again.
    """
    top, saved = depth + growth, 0
    low, high = np.empty(num_runs, np.int64), np.empty(num_runs, np.int64)
    count = np.empty(num_runs, np.int64)
    for run in range(num_runs):
        low[run], high[run], heights[run] = run, run + 1, NO_WINDOW
        count[run] = _count_edges(words, table, depth, growth, run_leaf[run], run_leaf[run] + 1)
    num_nodes, height = num_runs, 0
    while num_nodes > 0:
        bound = _limit_of(leaf, root, height, top) * (np.int64(32) << height)
        carried = 0
        for node in range(num_nodes):
            changed = run_keys[high[node]] - run_keys[low[node]]
            fits = count[node] + changed <= bound if inserting else count[node] - changed >= bound
            if fits or height == top:
                if inserting or height > 0:
                    saved += _mark(heights, low[node], low[node], high[node], height)
            else:
                low[carried], high[carried], count[carried] = low[node], high[node], count[node]
                carried += 1
        height += 1
        num_nodes, node = 0, 0
        while node < carried:
            first = run_leaf[low[node]] >> height << height
            middle, end = first + (np.int64(1) << (height - 1)), first + (np.int64(1) << height)
            edges, begin, stop = count[node], low[node], high[node]
            if node + 1 < carried and run_leaf[low[node + 1]] < end:
                node += 1
                edges, stop = edges + count[node], high[node]
            elif run_leaf[begin] < middle:
                edges += _count_edges(words, table, depth, growth, middle, end)
            else:
                edges += _count_edges(words, table, depth, growth, first, middle)
            while begin > 0 and run_leaf[begin - 1] >= first:
                begin -= 1
            while stop < num_runs and run_leaf[stop] < end:
                stop += 1
            low[num_nodes], high[num_nodes], count[num_nodes] = begin, stop, edges
            num_nodes += 1
            node += 1
    return saved


@njit(cache=True)
def count_before(words, table, depth):
    """Return the number of edges before each segment in order, and the total; int64, shape (segments + 1,)."""
    before = np.empty((np.int64(1) << depth) + 1, np.int64)
    before[0] = 0
    for i in range(np.int64(1) << depth):
        before[i + 1] = before[i] + count_bits(word_of(words, table, physical_of(i, depth)))
    return before


@njit(cache=True)
def choose_top_down(before, depth, growth, leaf, root, num_runs, run_leaf, run_keys, heights):
    """Descend from the root while both halves of a window can take their keys; choose a window if a half cannot.

    ``heights`` as in :func:`choose_bottom_up`. No window lies in another.
    """
    top = depth + growth
    stack = np.empty((2 * top + 2, 3), np.int64)
    for run in range(num_runs):
        heights[run] = NO_WINDOW
    stack[0] = top, 0, num_runs
    size = 1 if num_runs else 0
    while size > 0:
        size -= 1
        height, low, high = stack[size, 0], stack[size, 1], stack[size, 2]
        if height == 0:
            heights[low] = 0
            continue
        bound = _limit_of(leaf, root, height - 1, top) * (np.int64(16) << height)
        first = run_leaf[low] >> height << height
        middle, end = first + (np.int64(1) << (height - 1)), first + (np.int64(1) << height)
        split = low + np.searchsorted(run_leaf[low:high], middle)
        at_middle = before[_old_segment(middle, growth)]
        left = at_middle - before[_old_segment(first, growth)]
        right = before[_old_segment(end, growth)] - at_middle
        fits_left = split == low or left + run_keys[split] - run_keys[low] <= bound
        fits_right = split == high or right + run_keys[high] - run_keys[split] <= bound
        if not (fits_left and fits_right):
            heights[low] = height
            continue
        if split < high:
            stack[size] = height - 1, split, high
            size += 1
        if low < split:
            stack[size] = height - 1, low, split
            size += 1


@njit(cache=True)
def collect_windows(num_runs, run_leaf, run_pending, heights, bounds):
    """List the windows: first segment in order, last + 1, first pending key, last + 1.

    Returns their number, the number of their segments, and that of the largest.
    """
    num_windows, total, largest, run = 0, 0, 0, 0
    while run < num_runs:
        if heights[run] < 0:
            run += 1
            continue
        width = np.int64(1) << heights[run]
        first = run_leaf[run] & -width
        begin = run
        while run < num_runs and run_leaf[run] < first + width:
            run += 1
        bounds[num_windows, 0], bounds[num_windows, 1] = first, first + width
        bounds[num_windows, 2], bounds[num_windows, 3] = run_pending[begin], run_pending[run]
        num_windows, total, largest = num_windows + 1, total + width, max(largest, width)
    return num_windows, total, largest
