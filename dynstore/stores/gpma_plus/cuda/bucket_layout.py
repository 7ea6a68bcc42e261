"""Counts and tables of unsorted insertions on the device, and the test whether they may be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.compiler import SIMULATED, cuda, device
from dynstore.cuda.control import declare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynstore.typing import Array

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
    "BucketLeaves",
    "LinkedBuckets",
    "SortedBuckets",
    "WindowHeap",
    "WindowLeaves",
    "d_count_elements",
    "d_fits",
    "d_is_covered",
    "d_leaves_of",
    "d_make_window",
    "fits",
]

# The greatest heights of windows: NARROW ones are merged by a warp, WIDE ones by a block, GIANT ones by the grid. A
# block's shared memory holds both columns of a narrow window for each warp, or one column of a wide one. All are lower
# in the simulator, for small graphs.
NARROW_HEIGHT, MAX_HEIGHT, MAX_GIANT_HEIGHT = (1, 2, 4) if SIMULATED else (4, 8, 13)
# The height of the groups of leaves that are counted together, at most 5: a warp owns the leaves of one.
GROUP_HEIGHT = 2 if SIMULATED else 5
# A window of several leaves is one number: its first leaf and its height.
HEIGHT_BITS = 4
assert MAX_GIANT_HEIGHT < 1 << HEIGHT_BITS

# Entries of ``control`` with sums of blocks. These decide what is written: tombstones and absent keys, each once;
# leaves with buckets; leaves whose window would be too wide even for the grid; block windows; grid windows; leaves of
# all windows; whether and why planning stopped. The next count distinct keys: present ones, self-loops among them,
# self-loops among tombstones and absent keys. The last counts the rows of buckets of several rows. Entries without
# sums: leaves without room for their keys; arrivals at the grid waits of grid windows; warp windows; leaves written
# alone whose first or last row has changed; whether some group of leaves is too dense; blocks that have finished
# planning; warp windows that warps have claimed after their first one.
RESTORED, ADDED, LISTED, TOO_WIDE, WIDE, GIANT, LEAVES, STOPPED, FOUND, FOUND_LOOPS, OTHER_LOOPS, ROWS = declare(
    "buckets", RESTORED=0, ADDED=1, LISTED=2, TOO_WIDE=3, WIDE=4, GIANT=5, LEAVES=6, STOPPED=7, FOUND=8, FOUND_LOOPS=9,
    OTHER_LOOPS=10, ROWS=11,
)  # fmt: skip
FULL, GIANT_ARRIVALS, NARROW, MOVED, FAR, POST_ARRIVALS, TAKEN = declare(
    "buckets", FULL=13, GIANT_ARRIVALS=14, NARROW=15, MOVED=16, FAR=17, POST_ARRIVALS=18, TAKEN=19
)
# Why planning stopped: a bucket overflow, or an invalid id.
OVERFLOW, INVALID_ID = 1, 2
# Rows of the table: for each bucket its leaf, its first key and its last + 1; leaves without room for their keys; block
# windows, and from the end grid windows; warp windows, and from the end the leaves whose first or last row has changed;
# for each row of the batch the slot of its key, or that it goes before.
TABLE_ROWS = 7
KEY_LEAVES, LOW, HIGH, CLIMBING, WIDE_WINDOWS, NARROW_WINDOWS, POSITIONS = range(TABLE_ROWS)
# Rows of the pairs: for each key its source, its destination, and the slot that it goes before. The keys of the first
# rows of all buckets come first (most buckets have no others), then the sorted keys of each bucket of several rows.
KEY_ROWS = 3
SOURCES, TARGETS, PLACES = range(KEY_ROWS)
# Per leaf. COUNT: the rows of its bucket, later its keys. HEAD: the last row + 1 if there are several, later the first
# key + 1.
COUNT, HEAD = range(2)
# Rows of the heap of windows, used if a leaf climbs beyond its group. MARKED: a leaf has climbed there. CLAIMED: a leaf
# leads the window. COVERED has a bit for each leaf: it is in a window of several leaves.
HEAP_ROWS = 3
MARKED, CLAIMED, COVERED = range(HEAP_ROWS)


class BucketLeaves(NamedTuple):
    """The arrays from which the elements of each leaf, with its keys, are counted.

    Attributes
    ----------
    valid, marks : array of uint32 words
        Validity bits, and those of the slots that rows have claimed.
    lists : array
        The leaf's bucket: COUNT and HEAD.
    """

    valid: Array
    marks: Array
    lists: Array


class LinkedBuckets(NamedTuple):
    """Buckets of an unsorted batch, as all threads share them.

    Attributes
    ----------
    following : array
        For each row the one + 1 that came to its bucket before it, 0 for none.
    table, pairs, control : array
    """

    following: Array
    table: Array
    pairs: Array
    control: Array


class SortedBuckets(NamedTuple):
    """Sorted buckets and their windows, as all threads that write them share them."""

    table: Array
    pairs: Array
    control: Array


class WindowHeap(NamedTuple):
    """What all threads share while leaves climb.

    Attributes
    ----------
    nodes : array of uint32 words
        The heap of windows, a bit each: MARKED, CLAIMED and COVERED.
    groups : array
        For each group of leaves how many elements it has, and how many leaves with buckets (``bucket_windows.py``).
    """

    nodes: Array
    groups: Array


class WindowLeaves(NamedTuple):
    """The leaves of a window: the first one, and how many."""

    first: Any
    count: Any


def fits(totals: Sequence[int], most_new: int, most_leaves: int) -> bool:
    """Return whether planning succeeded with at most ``most_new`` new edges and ``most_leaves`` leaves."""
    planned = (totals[STOPPED] == 0) & (totals[TOO_WIDE] == 0)  # no short circuit: all reads overlap
    return planned & (totals[RESTORED] + totals[ADDED] <= most_new) & (totals[LEAVES] <= most_leaves)


d_fits = device(fits)


@device
def d_make_window(first_leaf, height):
    """Return the number of a window."""
    return np.int32(np.int64(first_leaf) << HEIGHT_BITS | height)


@device
def d_leaves_of(window, num_leaves):
    """Return the leaves of a window, in a graph of ``num_leaves``, as ``WindowLeaves``; int32."""
    first = np.int32(window >> HEIGHT_BITS)
    count = np.int32(min(np.int64(1) << (window & ((1 << HEIGHT_BITS) - 1)), num_leaves - first))
    return WindowLeaves(first, count)


@device
def d_is_covered(nodes, leaf):
    """Return whether a leaf (uint32) is in a window of several leaves."""
    return (nodes[COVERED, leaf >> np.uint32(5)] >> np.uint32(leaf & np.uint32(31))) & np.uint32(1) != 0


@device
def d_count_elements(leaves, leaf):
    """Return how many elements a leaf has with its keys, once its bucket is sorted."""
    return np.int64(cuda.popc(leaves.valid[leaf] | leaves.marks[leaf])) + leaves.lists[leaf, COUNT]
