"""Choosing the windows of a packed memory array on CUDA, in a constant number of launches.

The paper goes level by level, with several kernels a level. Here density at any height is a difference of
prefix counts, so each leaf concerned climbs in registers: ``docs/design.md``, "Windows in one pass".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore._cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["Windows", "choose_windows", "count_before_leaves", "one_window"]


@dataclass(frozen=True, slots=True)
class Windows:
    """Disjoint windows, ascending; arrays of int64, one entry a window.

    Attributes
    ----------
    first, end : array
        First leaf and last leaf + 1.
    low, high : array
        The first pending key and the last + 1.
    start : array
        Leaves in the windows before this one: where its scratch begins, in units of 32 slots.
    num_windows, num_leaves : int
    """

    first: Array
    end: Array
    low: Array
    high: Array
    start: Array
    num_windows: int
    num_leaves: int


@device
def d_count_changed(before, pending_leaf, first, end):
    """Count what the leaves [first, end) will hold: edges that stay, and pending keys."""
    edges = np.int64(before[end]) - np.int64(before[first])
    keys = pending_leaf.shape[0]
    low = d_find_lower_bound(pending_leaf, 0, keys, first)
    return edges + d_find_lower_bound(pending_leaf, low, keys, end) - low


@kernel
def k_count_leaf_edges(valid, counts):
    """One thread owns one leaf: a popcount of its word."""
    leaf = cuda.grid(1)
    if leaf < counts.shape[0]:
        counts[leaf] = cuda.popc(valid[leaf])


@kernel
def k_adjust_counts(positions, states, state, change, counts):
    """One thread owns one key; keys in ``state`` add ``change`` to their leaf's count (atomic add)."""
    i = cuda.grid(1)
    if i < positions.shape[0] and states[i] == state:
        cuda.atomic.add(counts, positions[i] >> 5, change)


@kernel
def k_climb_leaves(item_leaf, pending_leaf, before, limits, num_leaves, inserting, marks):
    """The first key of each leaf climbs to the lowest ancestor within its limit and marks it (atomic or).

    Nothing moves meanwhile, so nothing is re-balanced twice. Nodes are numbered as in a heap: the root is 1.
    The root is within its limit: the caller has tested it. A deletion's leaf that is dense enough marks nothing.
    """
    i = cuda.grid(1)
    if i < item_leaf.shape[0]:
        leaf = np.int64(item_leaf[i])
        if i == 0 or item_leaf[i - 1] != leaf:
            top = limits.shape[0] - 1
            height = 0
            while height < top:
                first = (leaf >> height) << height
                end = min(first + (np.int64(1) << height), num_leaves)
                count = d_count_changed(before, pending_leaf, first, end)
                bound = limits[height] * ((end - first) * 32)
                if (inserting and count <= bound) or (not inserting and count >= bound):
                    break
                height += 1
            if inserting or height > 0:
                node = (np.int64(1) << (top - height)) + (leaf >> height)
                cuda.atomic.or_(marks, node >> 5, np.uint32(1) << np.uint32(node & 31))


@kernel
def k_cover_leaves(item_leaf, num_leaves, top, marks, first, end, leads, leaves):
    """One thread owns one key: its window is its leaf's highest marked ancestor; the window's first key leads.

    Keys without a marked ancestor lead nothing. (A running maximum of window ends is not enough: leaf 0 may
    take [0, 1) and leaf 1 climb to [0, 2).)
    """
    i = cuda.grid(1)
    if i < item_leaf.shape[0]:
        leaf = np.int64(item_leaf[i])
        found = -1
        for height in range(top + 1):
            node = (np.int64(1) << (top - height)) + (leaf >> height)
            if (marks[node >> 5] >> np.uint32(node & 31)) & np.uint32(1) != 0:
                found = height
        lead = np.int64(0)
        if found >= 0:
            a = (leaf >> found) << found
            first[i] = a
            end[i] = min(a + (np.int64(1) << found), num_leaves)
            if i == 0 or item_leaf[i - 1] < a:
                lead = np.int64(1)
        leads[i] = lead
        leaves[i] = end[i] - first[i] if lead == 1 else np.int64(0)


@kernel
def k_collect_windows(leads_sum, leaves_sum, first, end, pending_leaf, out_first, out_end, low, high, start):
    """One thread owns one key; those that lead (where the running count rises) write their window."""
    i = cuda.grid(1)
    if i < leads_sum.shape[0]:
        before = leads_sum[i - 1] if i > 0 else np.int64(0)
        if leads_sum[i] != before:
            keys = pending_leaf.shape[0]
            out_first[before] = first[i]
            out_end[before] = end[i]
            low[before] = d_find_lower_bound(pending_leaf, 0, keys, first[i])
            high[before] = d_find_lower_bound(pending_leaf, 0, keys, end[i])
            start[before] = leaves_sum[i] - (end[i] - first[i])


def count_before_leaves(
    backend: Backend, valid: Array, num_leaves: int, changed: tuple[Array, Array, int, int] | None = None
) -> Array:
    """Return how many edges the leaves before each leaf hold; int64, shape (L + 1,).

    ``changed`` is (positions, states, state, change): keys in that state change their leaf's count first.
    """
    counts = backend.empty(num_leaves, np.int64)
    k_count_leaf_edges.launch(num_leaves, valid, counts)
    if changed is not None:
        positions, states, state, change = changed
        k_adjust_counts.launch(positions.shape[0], positions, states, state, change, counts)
    before = backend.zeros(num_leaves + 1, np.int64)
    backend.xp.cumsum(counts, out=before[1:])
    return before


def choose_windows(
    backend: Backend, before: Array, item_leaf: Array, pending_leaf: Array, limits: np.ndarray, inserting: bool
) -> Windows:
    """Choose the windows for the leaves (ascending, with repetitions) that an update concerns.

    Parameters
    ----------
    before : array, shape (L + 1,), int64
        Edges before each leaf once bits are set or cleared.
    item_leaf : array, shape (K,), int64
        The leaf of each key that may need a window.
    pending_leaf : array, shape (P,), int64
        The leaf of each key that needs a new slot.
    limits : array, shape (heights,), float64
        Highest densities where ``inserting``, else lowest.
    """
    xp = backend.xp
    num_items, num_leaves, top = int(item_leaf.shape[0]), int(before.shape[0]) - 1, len(limits) - 1
    marks = backend.zeros((2 << top) // 32 + 1, np.uint32)
    first, end, leads, leaves = (backend.zeros(num_items, np.int64) for _ in range(4))
    device_limits = backend.asarray(limits)
    k_climb_leaves.launch(num_items, item_leaf, pending_leaf, before, device_limits, num_leaves, inserting, marks)
    k_cover_leaves.launch(num_items, item_leaf, num_leaves, top, marks, first, end, leads, leaves)
    leads_sum, leaves_sum = xp.cumsum(leads), xp.cumsum(leaves)
    num_windows = int(leads_sum[-1]) if num_items else 0
    total = int(leaves_sum[-1]) if num_items else 0
    out = [backend.empty(num_windows, np.int64) for _ in range(5)]
    k_collect_windows.launch(num_items, leads_sum, leaves_sum, first, end, pending_leaf, *out)
    return Windows(out[0], out[1], out[2], out[3], out[4], num_windows, total)


def one_window(backend: Backend, num_leaves: int, num_keys: int) -> Windows:
    """Return the window of a whole array with all keys in it."""
    first, end, low, high, start = (
        backend.asarray(np.array([value], dtype=np.int64)) for value in (0, num_leaves, 0, num_keys, 0)
    )
    return Windows(first, end, low, high, start, 1, num_leaves)
