"""What insertions that are not sorted keep on the device: counts, tables, and when all that may be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import SIMULATED, cuda, device
from dynstore.cuda.control import declare

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ADDED",
    "CLAIMED",
    "CLIMBING",
    "COUNT",
    "COVERED",
    "FAR",
    "FOUND",
    "FOUND_LOOPS",
    "FULL",
    "GIANT",
    "GIANT_ARRIVALS",
    "GROUP_HEIGHT",
    "HEAD",
    "HEAP_ROWS",
    "HEIGHT_BITS",
    "HIGH",
    "INVALID_ID",
    "KEY_LEAVES",
    "KEY_ROWS",
    "LEAVES",
    "LISTED",
    "LOW",
    "MARKED",
    "MAX_GIANT_HEIGHT",
    "MAX_HEIGHT",
    "MOVED",
    "NARROW",
    "NARROW_HEIGHT",
    "NARROW_WINDOWS",
    "OTHER_LOOPS",
    "OVERFLOW",
    "PLACES",
    "POSITIONS",
    "POST_ARRIVALS",
    "RESTORED",
    "ROWS",
    "SOURCES",
    "STOPPED",
    "TABLE_ROWS",
    "TAKEN",
    "TARGETS",
    "TOO_WIDE",
    "WIDE",
    "WIDE_WINDOWS",
    "d_count_elements",
    "d_fits",
    "d_is_covered",
    "d_leaves_of",
    "d_make_window",
    "fits",
]

# The height of the widest windows that a block merges: one of their columns fits into its shared memory. Narrow ones a
# warp merges in its part of that, which both columns fit into; higher ones, giants, all blocks together. All are lower
# in the simulator, for small graphs.
NARROW_HEIGHT, MAX_HEIGHT, MAX_GIANT_HEIGHT = (1, 2, 4) if SIMULATED else (4, 8, 13)
# The height of the groups of leaves that are counted together, at most 5: a warp has the leaves of one.
GROUP_HEIGHT = 2 if SIMULATED else 5
# A window of several leaves is one number, of its first leaf and its height.
HEIGHT_BITS = 4
assert MAX_GIANT_HEIGHT < 1 << HEIGHT_BITS

# Rows of the sums. Those that decide what is written: dead and absent keys, each once; leaves with absent keys; those
# whose window would be too wide even for all blocks; windows of several leaves that a block merges; giants; leaves of
# all windows; whether planning stopped, and why. Then of distinct keys: those present, self-loops among them,
# self-loops among the dead and absent; and rows of lists of several. Apart from them, leaves that cannot take their
# keys, how often blocks that merge giants have come to a barrier, windows of several leaves that a warp merges, leaves
# merged by themselves whose first or last row has changed, whether some group of leaves is too dense, how many blocks
# have planned all of theirs, and how many narrow windows warps have taken beyond the first of each.
RESTORED, ADDED, LISTED, TOO_WIDE, WIDE, GIANT, LEAVES, STOPPED, FOUND, FOUND_LOOPS, OTHER_LOOPS, ROWS = declare(
    "buckets", RESTORED=0, ADDED=1, LISTED=2, TOO_WIDE=3, WIDE=4, GIANT=5, LEAVES=6, STOPPED=7, FOUND=8, FOUND_LOOPS=9,
    OTHER_LOOPS=10, ROWS=11,
)  # fmt: skip
FULL, GIANT_ARRIVALS, NARROW, MOVED, FAR, POST_ARRIVALS, TAKEN = declare(
    "buckets", FULL=13, GIANT_ARRIVALS=14, NARROW=15, MOVED=16, FAR=17, POST_ARRIVALS=18, TAKEN=19
)
# Why planning stopped.
OVERFLOW, INVALID_ID = 1, 2
# Rows of the table: of each list its leaf, its first key and the last + 1; leaves that cannot take their keys; windows
# of several leaves that a block merges, giants from the end; the narrow windows, from the end the numbers of leaves
# whose first or last row has changed; of each row of the batch the slot where it is or belongs.
TABLE_ROWS = 7
KEY_LEAVES, LOW, HIGH, CLIMBING, WIDE_WINDOWS, NARROW_WINDOWS, POSITIONS = range(TABLE_ROWS)
# Rows of the pairs: of each key its source and destination, and the slot that it goes before. First that of each list's
# first row, which is all of most lists; then the keys of each list of several rows.
KEY_ROWS = 3
SOURCES, TARGETS, PLACES = range(KEY_ROWS)
# What each leaf has: how many rows of the batch are in its list, then how many keys; the last row + 1, if it is not the
# first, then 1 + the first key.
COUNT, HEAD = range(2)
# What bits the heap of windows has, where some leaf climbs further than its group: that a leaf has climbed there; that
# a leaf leads the window. Beside it, a bit for each leaf: that it is in a window of several.
HEAP_ROWS = 3
MARKED, CLAIMED, COVERED = range(HEAP_ROWS)


def fits(totals: Sequence[int], most_new: int, most_leaves: int) -> bool:
    """Return whether all is planned, and comes to no more new edges and leaves than so many."""
    planned = (totals[STOPPED] == 0) & (totals[TOO_WIDE] == 0)  # all are read at once: nobody waits for one of them
    return planned & (totals[RESTORED] + totals[ADDED] <= most_new) & (totals[LEAVES] <= most_leaves)


d_fits = device(fits)


@device
def d_make_window(first_leaf, height):
    """Return the number of a window."""
    return np.int32(np.int64(first_leaf) << HEIGHT_BITS | height)


@device
def d_leaves_of(window, num_leaves):
    """Return the first leaf of a window and how many it has, of the graph's so many; int32."""
    first = np.int32(window >> HEIGHT_BITS)
    return first, np.int32(min(np.int64(1) << (window & ((1 << HEIGHT_BITS) - 1)), num_leaves - first))


@device
def d_is_covered(nodes, leaf):
    """Return whether a leaf, uint32, is in a window of several."""
    return (nodes[COVERED, leaf >> np.uint32(5)] >> np.uint32(leaf & np.uint32(31))) & np.uint32(1) != 0


@device
def d_count_elements(valid, marks, lists, leaf):
    """Return how many elements a leaf has with its keys, once its list is sorted."""
    return np.int64(cuda.popc(valid[leaf] | marks[leaf])) + lists[leaf, COUNT]
