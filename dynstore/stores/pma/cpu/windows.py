"""The windows of an update of a packed memory array on the host: find the keys, and choose what takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.pma.cpu.redistribute import NO_WEIGHTS, SHIFT_AT_MOST, Scratch, SpreadWindows, count_bits
from dynstore.stores.table.cpu.search import locate_edges
from dynstore.stores.table.slots import ABSENT, PRESENT, SearchResult

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.table.slots import SlotArrays

__all__ = [
    "choose_windows",
    "choose_windows_of",
    "count_states",
    "group_by_leaf",
    "locate_batch",
    "reserve_scratch",
    "widen",
]


def locate_batch(backend: Backend, slots: SlotArrays, batch: EdgeBatch) -> SearchResult:
    """Find the keys of a batch and count the present ones."""
    positions, states = locate_edges(backend, slots, batch.src, batch.dst)
    loops = np.count_nonzero((states == PRESENT) & (batch.src == batch.dst)) if batch.num_loops else 0
    return SearchResult(positions, states, int(count_states(states)), int(loops))


def choose_windows_of(
    backend: Backend, slots: SlotArrays, located: SearchResult, limits: np.ndarray, inserting: bool
) -> SpreadWindows:
    """Choose the windows that take the absent keys of a batch, or lose the present ones, and reserve their scratch."""
    num_changed = located.positions.shape[0] - located.found if inserting else located.found
    num_leaves = slots.num_slots >> 5
    run_leaf, run_keys, run_pending, pending = backend.empty((4, num_changed + 1), np.int64)
    bounds = backend.empty((num_changed, 4), np.int64)
    num_runs = group_by_leaf(located.positions, located.states, inserting, run_leaf, run_keys, run_pending, pending)
    num_windows, total, largest = choose_windows(
        slots.valid, num_leaves, limits, inserting, num_runs, run_leaf, run_keys, run_pending, bounds
    )
    scratch = reserve_scratch(backend, slots, largest * 32)
    return SpreadWindows(bounds[:num_windows], pending, scratch, int(total), int(run_pending[num_runs]))


def reserve_scratch(backend: Backend, slots: SlotArrays, size: int) -> Scratch:
    """Reserve scratch for ``size`` edges on their way back to slots."""
    size += 1  # a last gap is written there
    weights = NO_WEIGHTS if slots.weights is None else backend.empty(size, slots.weights.dtype)
    return backend.empty(size, slots.src.dtype), backend.empty(size, slots.src.dtype), weights


def widen(backend: Backend, slots: SlotArrays, windows: SpreadWindows) -> SpreadWindows:
    """Return one window of all leaves in place of several: writing it is a merge of everything without fresh slots."""
    num_leaves = slots.num_slots >> 5
    bounds = np.array([[0, num_leaves, 0, windows.num_pending]], np.int64)
    most = slots.num_edges + windows.pending.shape[0]  # restored keys are not pending, but become edges
    scratch = reserve_scratch(backend, slots, most)
    return SpreadWindows(bounds, windows.pending, scratch, num_leaves, windows.num_pending)


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
