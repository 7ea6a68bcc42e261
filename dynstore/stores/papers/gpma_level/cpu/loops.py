"""Going up the levels of a packed memory array on the host."""

from __future__ import annotations

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.pma.cpu.redistribute import count_bits

__all__ = ["choose_levels", "find_places"]


@njit(cache=True, borrows=True)
def _fits(valid, all_leaves, tombstone_leaves, first, end, limit, inserting):
    """Return whether the leaves [first, end) stay within the limit, updates placed at lower heights included."""
    count = 0
    for leaf in range(first, end):
        count += count_bits(valid[leaf])
    changed = np.searchsorted(all_leaves, end) - np.searchsorted(all_leaves, first)
    if inserting:
        changed += np.searchsorted(tombstone_leaves, end) - np.searchsorted(tombstone_leaves, first)
        return count + changed <= limit * ((end - first) * 32)
    return count - changed >= limit * ((end - first) * 32)


@njit(cache=True)
def choose_levels(
    valid, num_leaves, limits, inserting, all_leaves, tombstone_leaves, keys, leaves, bounds, placed, ends
):
    """Group the updates by segment, height by height; segments with room take theirs, the others go on.

    ``keys`` and ``leaves`` (their leaves) are compacted in place. ``bounds`` gets a line for each window (first leaf,
    last leaf + 1, first key, last key + 1 in ``placed``), ``ends`` the last window + 1 of each height. The root is
    within its limit (the caller has tested it). Returns the numbers of windows and of their leaves, and the leaves of
    the largest.
    """
    count, num_windows, done, height, total, largest = keys.shape[0], 0, 0, 0, 0, 0
    ends[:] = 0
    while count > 0:
        kept, k = 0, 0
        while k < count:
            first = (leaves[k] >> height) << height
            end, behind = min(first + (np.int64(1) << height), num_leaves), k
            while behind < count and leaves[behind] < end:
                behind += 1
            if _fits(valid, all_leaves, tombstone_leaves, first, end, limits[height], inserting):
                if inserting or height > 0:  # a leaf that stays dense enough is not compacted
                    bounds[num_windows, 0], bounds[num_windows, 1] = first, end
                    bounds[num_windows, 2] = done
                    bounds[num_windows, 3] = done + behind - k if inserting else done
                    num_windows += 1
                    total += end - first
                    largest = max(largest, end - first)
                if inserting:
                    placed[done : done + behind - k] = keys[k:behind]
                    done += behind - k
            else:
                for other in range(k, behind):
                    keys[kept], leaves[kept] = keys[other], leaves[other]
                    kept += 1
            k = behind
        count = kept
        ends[height:] = num_windows
        height += 1
    return num_windows, total, largest


@njit(cache=True)
def find_places(src, dst, bounds, placed, new_src, new_dst, places):
    """Find the slot that each key of some windows goes before; lower windows in them may have been written since."""
    for window in range(bounds.shape[0]):
        for k in range(bounds[window, 2], bounds[window, 3]):
            i = placed[k]
            low, high = bounds[window, 0] * 32, bounds[window, 1] * 32
            while low < high:
                middle = (low + high) >> 1
                if src[middle] < new_src[i] or (src[middle] == new_src[i] and dst[middle] < new_dst[i]):
                    low = middle + 1
                else:
                    high = middle
            places[i] = low
