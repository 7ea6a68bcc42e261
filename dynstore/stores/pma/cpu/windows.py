"""Choosing the windows of a packed memory array on the host: one loop over the changed leaves."""

from __future__ import annotations

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.table.slots import ABSENT, PRESENT

__all__ = [
    "SHIFT_AT_MOST",
    "choose_windows",
    "count_bits",
    "count_states",
    "count_zeros",
    "group_by_leaf",
]

# Up to SHIFT_AT_MOST keys are shifted into a leaf one by one; more of them share one redistribution, which takes about
# as long: 40 ns a shifted key, 100 to 120 ns a leaf (docs/internals/gpma_plus.md).
SHIFT_AT_MOST = 3


@njit(cache=True)
def count_bits(word):
    word = np.uint32(word)
    word = word - ((word >> np.uint32(1)) & np.uint32(0x55555555))
    word = (word & np.uint32(0x33333333)) + ((word >> np.uint32(2)) & np.uint32(0x33333333))
    word = (word + (word >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return np.int64(np.uint32(word * np.uint32(0x01010101)) >> np.uint32(24))


@njit(cache=True)
def count_zeros(word):
    """Count the zeros below the lowest set bit, 32 if there is none."""
    word = np.uint32(word)
    return count_bits((word & (~word + np.uint32(1))) - np.uint32(1))


@njit(cache=True)
def count_states(states):
    found = 0
    for i in range(states.shape[0]):
        found += states[i] == PRESENT
    return found


@njit(cache=True)
def group_by_leaf(positions, states, inserting, run_leaf, run_keys, run_pending, pending):
    """Group keys by the leaf that they change. Return the number of groups.

    A deleted key belongs to the leaf of the first slot of its run, an absent key to the leaf of the slot before its
    place. ``run_keys`` and ``run_pending`` are running counts, one entry longer than the groups.
    """
    num_runs, num_keys, num_pending = 0, 0, 0
    for i in range(positions.shape[0]):
        if (states[i] == PRESENT) == inserting or (not inserting and states[i] != PRESENT):
            continue
        position = positions[i]
        leaf = max(position - 1, 0) >> 5 if states[i] == ABSENT else position >> 5
        if num_runs == 0 or run_leaf[num_runs - 1] != leaf:
            run_leaf[num_runs], run_keys[num_runs], run_pending[num_runs] = leaf, num_keys, num_pending
            num_runs += 1
        num_keys += 1
        if states[i] == ABSENT:
            pending[num_pending] = i
            num_pending += 1
    run_keys[num_runs], run_pending[num_runs] = num_keys, num_pending
    return num_runs


@njit(cache=True)
def choose_windows(valid, num_leaves, limits, inserting, num_runs, run_leaf, run_keys, run_pending, bounds):
    """Let each changed leaf climb to its lowest ancestor whose density is within the limits.

    The root is within them (the caller has tested it), so every climb ends. A window inside a later, wider one is
    dropped, and a leaf inside a chosen window need not climb. So the chosen windows are the highest marked ancestors of
    the level-by-level scheme in section 5.

    Returns the number of windows, the time that writing them takes in redistributed leaves, and the leaves of the
    largest window.
    """
    num_windows, run = 0, 0
    while run < num_runs:
        if inserting and run_pending[run] == run_pending[run + 1]:  # only restored keys: their slots are there
            run += 1
            continue
        first, end = run_leaf[run], run_leaf[run] + 1
        low, high, height = run, run + 1, 0
        in_store = count_bits(valid[first])
        while True:
            changed = run_keys[high] - run_keys[low]
            bound = limits[height] * ((end - first) * 32)
            if inserting and in_store + changed <= bound:
                break
            if not inserting and in_store - changed >= bound:
                break
            height += 1
            wider_first = (first >> height) << height
            wider_end = min(wider_first + (1 << height), num_leaves)
            for leaf in range(wider_first, first):
                in_store += count_bits(valid[leaf])
            for leaf in range(end, wider_end):
                in_store += count_bits(valid[leaf])
            first, end = wider_first, wider_end
            while low > 0 and run_leaf[low - 1] >= first:
                low -= 1
            while high < num_runs and run_leaf[high] < end:
                high += 1
        if inserting or height > 0:
            while num_windows > 0 and bounds[num_windows - 1, 0] >= first:
                num_windows -= 1
            bounds[num_windows, 0], bounds[num_windows, 1] = first, end
            bounds[num_windows, 2], bounds[num_windows, 3] = run_pending[low], run_pending[high]
            num_windows += 1
        run = high
    leaves, shifted, largest = 0, 0, 0
    for i in range(num_windows):
        size, keys = bounds[i, 1] - bounds[i, 0], bounds[i, 3] - bounds[i, 2]
        largest = max(largest, size)
        if size == 1 and keys <= SHIFT_AT_MOST:
            shifted += keys
        else:
            leaves += size
    return num_windows, leaves + shifted // SHIFT_AT_MOST, largest
