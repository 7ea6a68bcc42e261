"""GPMA+ on the host: the same windows as on the GPU, found and written one after the other.

Structure and update: M. Sha, Y. Li, B. He, K.-L. Tan, "Accelerating Dynamic Graph Analytics on GPUs",
PVLDB 11(1), 2017, sections 4 and 5; ``docs/design.md`` says where we differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from dynstore._cpu.search import locate_edges
from dynstore.slots import ABSENT, DEAD, PRESENT

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.edge_batch import EdgeBatch
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = [
    "Located",
    "Windows",
    "clear_copy",
    "delete_in_place",
    "insert_in_place",
    "locate",
    "merge",
    "plan_delete",
    "plan_insert",
    "plan_merge",
]

NO_WEIGHTS = np.empty(0, dtype=np.float32)
# So many keys are shifted into a leaf one by one; more of them share one spread.
SHIFT_AT_MOST = 4
TOUCH_AHEAD = 16


@dataclass(frozen=True, slots=True)
class Located:
    """Where each key of a batch is or belongs, and how many of them are PRESENT."""

    positions: Array
    states: Array
    found: int


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows to write, ascending and disjoint, and the memory that writing them takes.

    ``bounds`` has a row for each: first leaf, last leaf + 1, first pending key, last pending key + 1.
    """

    bounds: np.ndarray
    pending: np.ndarray
    scratch: tuple[np.ndarray, np.ndarray, np.ndarray]
    num_leaves: int


@njit(cache=True)
def _count_bits(word):
    word = np.uint32(word)
    word = word - ((word >> np.uint32(1)) & np.uint32(0x55555555))
    word = (word & np.uint32(0x33333333)) + ((word >> np.uint32(2)) & np.uint32(0x33333333))
    word = (word + (word >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return np.int64(np.uint32(word * np.uint32(0x01010101)) >> np.uint32(24))


@njit(cache=True)
def _count_states(states):
    found = 0
    for i in range(states.shape[0]):
        found += states[i] == PRESENT
    return found


@njit(cache=True)
def _group_by_leaf(positions, states, inserting, run_leaf, run_keys, run_pending, pending):
    """Gather the keys that change a leaf into runs of equal leaves; return how many runs.

    A deleted key's run of slots is in the leaf of its first one; an absent key goes into the leaf of the
    slot before it. ``run_keys`` and ``run_pending`` are running counts, one entry longer than the runs.
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
def _choose_windows(valid, num_leaves, limits, inserting, num_runs, run_leaf, run_keys, run_pending, bounds):
    """Let each changed leaf climb to its lowest ancestor whose density is within the limits.

    The root is within them (the caller has tested it), so every climb ends. A window that lies in a later,
    wider one is dropped, and a leaf inside a chosen window need not climb: so the chosen windows are the
    highest marked ancestors of section 5's level-by-level scheme. Returns their number, leaves, largest.
    """
    num_windows, run = 0, 0
    while run < num_runs:
        if inserting and run_pending[run] == run_pending[run + 1]:  # only revived keys: their slots are there
            run += 1
            continue
        first, end = run_leaf[run], run_leaf[run] + 1
        low, high, height = run, run + 1, 0
        in_store = _count_bits(valid[first])
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
                in_store += _count_bits(valid[leaf])
            for leaf in range(end, wider_end):
                in_store += _count_bits(valid[leaf])
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
    total, largest = 0, 0
    for i in range(num_windows):
        leaves = bounds[i, 1] - bounds[i, 0]
        total += leaves
        largest = max(largest, leaves)
    return num_windows, total, largest


@njit(cache=True)
def _write_rows(offsets, low, high, slot):
    """Let the rows in (low, high] start at ``slot``; rows are written in ascending order.

    Their old starts ascend, so where the outer two are right already, all are: a long gap of ids costs nothing.
    """
    if low < high and (offsets[low + 1] != slot or offsets[high] != slot):
        for row in range(low + 1, high + 1):
            offsets[row] = slot


@njit(cache=True)
def _spread(src, dst, weights, valid, offsets, first, end, count, some_src, some_dst, some_weights):
    """Write ``count`` elements evenly over the slots [first, end), gaps repeating the key before them."""
    size = end - first
    weighted = weights.shape[0] > 0
    last_row_before = np.int64(src[end - 1])
    row = np.int64(src[first - 1]) if first > 0 else np.int64(-1)
    # Slot s of the window shows element floor(((s + 1) count - 1) / size), valid in the first slot that does.
    element, share, fresh, word = np.uint64(0), count - 1, True, np.uint32(0)
    for slot in range(np.uint64(first), np.uint64(end)):
        word |= np.uint32(fresh) << np.uint32(slot & np.uint64(31))
        new_row = np.int64(some_src[element])
        if new_row != row:
            _write_rows(offsets, row, new_row, np.int64(slot))
            row = new_row
        src[slot], dst[slot] = some_src[element], some_dst[element]
        if weighted:
            weights[slot] = some_weights[element]
        if slot & np.uint64(31) == np.uint64(31):
            valid[slot >> np.uint64(5)] = word
            word = np.uint32(0)
        share += count
        fresh = share >= size
        if fresh:
            share -= size
            element += np.uint64(1)
    next_row = np.int64(src[end]) if end < src.shape[0] else last_row_before
    _write_rows(offsets, row, min(last_row_before, next_row), end)


@njit(cache=True)
def _set_located(weights, valid, positions, states, new_weights, add):
    """Give present keys their weight, and revive dead ones, whose old weight does not count."""
    weighted = weights.shape[0] > 0
    for i in range(positions.shape[0]):
        if states[i] == ABSENT:
            continue
        slot = positions[i]
        if weighted:
            weights[slot] = new_weights[i] + (weights[slot] if add and states[i] == PRESENT else 0)
        if states[i] == DEAD:
            valid[slot >> 5] |= np.uint32(1) << np.uint32(slot & 31)


@njit(cache=True)
def _clear_located(valid, positions, states):
    for i in range(positions.shape[0]):
        if states[i] == PRESENT:
            valid[positions[i] >> 5] &= ~(np.uint32(1) << np.uint32(positions[i] & 31))


@njit(cache=True)
def _gather(src, dst, weights, valid, first, end, t_src, t_dst, t_weights, count):
    """Append the edges in slots [first, end) to scratch; a gap is overwritten by what comes next."""
    weighted = weights.shape[0] > 0
    place = np.uint64(count)  # unsigned indices need no test for negative ones
    for slot in range(np.uint64(first), np.uint64(end)):
        t_src[place], t_dst[place] = src[slot], dst[slot]
        if weighted:
            t_weights[place] = weights[slot]
        place += np.uint64((valid[slot >> np.uint64(5)] >> np.uint32(slot & np.uint64(31))) & np.uint32(1))
    return np.int64(place)


@njit(cache=True)
def _find_in_leaf(src, dst, leaf, row, key):
    """Return the first slot of a leaf whose key is not below (row, key), else the slot behind the leaf."""
    place, high = leaf * 32, leaf * 32 + 32
    while place < high:
        middle = (place + high) >> 1
        if src[middle] < row or (src[middle] == row and dst[middle] < key):
            place = middle + 1
        else:
            high = middle
    return place


@njit(cache=True)
def _shift_in(src, dst, weights, valid, offsets, leaf, place, row, key, weight):
    """Put an edge before slot ``place`` of a leaf that has a gap; the edges up to the nearest gap move by one slot.

    Keys keep their order, and what is first in its run stays so. Only rows that begin at the slots written, or right
    behind them, get new starts.
    """
    word, end = np.uint32(valid[leaf]), leaf * 32 + 32
    gap, target, step = place, place, -1
    while gap < end and (word >> np.uint32(gap & 31)) & np.uint32(1):
        gap += 1
    if gap == end:  # no gap from the place on: fill the one before it
        gap, target, step = place - 1, place - 1, 1
        while (word >> np.uint32(gap & 31)) & np.uint32(1):
            gap -= 1
    for slot in range(gap, target, step):
        src[slot], dst[slot] = src[slot + step], dst[slot + step]
        if weights.shape[0] > 0:
            weights[slot] = weights[slot + step]
    src[target], dst[target] = row, key
    if weights.shape[0] > 0:
        weights[target] = weight
    valid[leaf] = word | (np.uint32(1) << np.uint32(gap & 31))
    first, last = min(gap, target), max(gap, target) + 1
    before = np.int64(src[first - 1]) if first > 0 else np.int64(-1)
    for slot in range(first, last + 1):
        here = np.int64(src[slot]) if slot < src.shape[0] else np.int64(offsets.shape[0] - 1)
        if here != before:
            _write_rows(offsets, before, here, slot)
            before = here


@njit(cache=True)
def _touch(src, dst, valid, offsets, bounds, pending, places, new_src, first, end):
    """Read where the first key of each window goes, so that the cache misses of several windows overlap."""
    seen = np.int64(0)
    for window in range(first, end):
        if bounds[window, 2] < bounds[window, 3]:
            i = pending[bounds[window, 2]]
            slot = max(places[i] - 1, 0)
            seen += src[slot] + dst[slot] + np.int64(valid[slot >> 5]) + offsets[new_src[i]]
    return seen


@njit(cache=True)
def _write_windows(
    src, dst, weights, valid, offsets, bounds, pending, places, new_src, new_dst, new_weights, t_src, t_dst, t_weights
):
    """Merge each window's edges with its pending keys in scratch, then spread them over the window.

    A pending key belongs before slot ``places[key]``, so the merge compares no keys.
    """
    weighted = weights.shape[0] > 0
    zero = weights.dtype.type(0)
    seen = 0
    for window in range(bounds.shape[0]):
        if window % TOUCH_AHEAD == 0:
            ahead = min(window + TOUCH_AHEAD, bounds.shape[0])
            seen += _touch(src, dst, valid, offsets, bounds, pending, places, new_src, window, ahead)
        first, end = bounds[window, 0] * 32, bounds[window, 1] * 32
        slot, count = first, 0
        if end - first == 32 and bounds[window, 3] - bounds[window, 2] <= SHIFT_AT_MOST:
            for key in range(bounds[window, 2], bounds[window, 3]):
                i, leaf = pending[key], first >> 5
                place = places[i]
                if key > bounds[window, 2]:  # the keys before have moved slots
                    place = _find_in_leaf(src, dst, leaf, new_src[i], new_dst[i])
                weight = new_weights[i] if weighted else zero
                _shift_in(src, dst, weights, valid, offsets, leaf, place, new_src[i], new_dst[i], weight)
            continue
        for key in range(bounds[window, 2], bounds[window, 3]):
            i = pending[key]
            count = _gather(src, dst, weights, valid, slot, places[i], t_src, t_dst, t_weights, count)
            slot = max(slot, places[i])
            t_src[count], t_dst[count] = new_src[i], new_dst[i]
            if weighted:
                t_weights[count] = new_weights[i]
            count += 1
        count = _gather(src, dst, weights, valid, slot, end, t_src, t_dst, t_weights, count)
        _spread(src, dst, weights, valid, offsets, first, end, count, t_src, t_dst, t_weights)
    return seen


@njit(cache=True)
def _merge(src, dst, weights, valid, new_src, new_dst, new_weights, add, count, o_src, o_dst, o_weights, o_valid):
    """Merge all edges with a batch into other arrays, evenly spread: element e starts at floor(e S / count)."""
    weighted = weights.shape[0] > 0
    size = o_src.shape[0]
    num_slots, num_new = src.shape[0], new_src.shape[0]
    slot, key, written = 0, 0, 0
    for element in range(count):
        while slot < num_slots and not (valid[slot >> 5] >> np.uint32(slot & 31)) & np.uint32(1):
            slot += 1
        old_there, new_there = slot < num_slots, key < num_new
        order = 0  # below 0: the old edge comes first; 0: both are the same edge; above 0: the new one
        if not new_there:
            order = -1
        elif not old_there or new_src[key] < src[slot]:
            order = 1
        elif new_src[key] > src[slot] or new_dst[key] > dst[slot]:
            order = -1
        elif new_dst[key] < dst[slot]:
            order = 1
        if order < 0:
            element_src, element_dst = src[slot], dst[slot]
        else:
            element_src, element_dst = new_src[key], new_dst[key]
        element_end = (element + 1) * size // count
        o_valid[written >> 5] |= np.uint32(1) << np.uint32(written & 31)
        if weighted:
            weight = weights[slot] if order < 0 else new_weights[key]
            if order == 0 and add:
                weight += weights[slot]
            for place in range(written, element_end):
                o_weights[place] = weight
        for place in range(written, element_end):
            o_src[place], o_dst[place] = element_src, element_dst
        written = element_end
        slot += order <= 0
        key += order >= 0


@njit(cache=True)
def _find_rows(src, offsets):
    """Write the start of every row of a sorted table; the last entry is its length."""
    row = 0
    for slot in range(src.shape[0]):
        while row <= src[slot]:
            offsets[row] = slot
            row += 1
    while row < offsets.shape[0]:
        offsets[row] = src.shape[0]
        row += 1


def _or_none(weights: Array | None) -> np.ndarray:
    return NO_WEIGHTS if weights is None else weights


def locate(backend: Backend, slots: SlotArrays, batch: EdgeBatch) -> Located:
    """Find every key of a batch."""
    positions, states = locate_edges(backend, slots, batch.src, batch.dst)
    return Located(positions, states, int(_count_states(states)))


def _plan(backend: Backend, slots: SlotArrays, located: Located, limits: np.ndarray, inserting: bool) -> Windows:
    num_changed = located.positions.shape[0] - located.found if inserting else located.found
    num_leaves = slots.num_slots >> 5
    run_leaf, run_keys, run_pending, pending = (backend.empty(num_changed + 1, np.int64) for _ in range(4))
    bounds = backend.empty((num_changed, 4), np.int64)
    num_runs = _group_by_leaf(located.positions, located.states, inserting, run_leaf, run_keys, run_pending, pending)
    num_windows, total, largest = _choose_windows(
        slots.valid, num_leaves, limits, inserting, num_runs, run_leaf, run_keys, run_pending, bounds
    )
    scratch = (
        backend.empty(largest * 32 + 1, slots.src.dtype),  # one more: where a last gap is written
        backend.empty(largest * 32 + 1, slots.src.dtype),
        NO_WEIGHTS if slots.weights is None else backend.empty(largest * 32 + 1, slots.weights.dtype),
    )
    return Windows(bounds[:num_windows], pending, scratch, int(total))


def plan_insert(backend: Backend, slots: SlotArrays, located: Located, limits: np.ndarray) -> Windows:
    """Choose the windows that take the absent keys; ``limits``: the highest density of each height."""
    return _plan(backend, slots, located, limits, inserting=True)


def plan_delete(backend: Backend, slots: SlotArrays, located: Located, limits: np.ndarray) -> Windows:
    """Choose the windows to pack once the present keys are gone; ``limits``: the lowest densities."""
    return _plan(backend, slots, located, limits, inserting=False)


def insert_in_place(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, located: Located, windows: Windows, add: bool
) -> None:
    """Write an insertion into the slots; allocates nothing."""
    weights, new_weights = _or_none(slots.weights), _or_none(batch.weights)
    _set_located(weights, slots.valid, located.positions, located.states, new_weights, add)
    _write_windows(
        slots.src,
        slots.dst,
        weights,
        slots.valid,
        slots.offsets,
        windows.bounds,
        windows.pending,
        located.positions,
        batch.src,
        batch.dst,
        new_weights,
        *windows.scratch,
    )


def delete_in_place(backend: Backend, slots: SlotArrays, located: Located, windows: Windows | None) -> None:
    """Clear the bits of the present keys and pack the windows that became too empty."""
    _clear_located(slots.valid, located.positions, located.states)
    if windows is not None:
        weights, none = _or_none(slots.weights), slots.src[:0]
        _write_windows(
            slots.src,
            slots.dst,
            weights,
            slots.valid,
            slots.offsets,
            windows.bounds,
            windows.pending,
            located.positions,
            none,
            none,
            weights[:0],
            *windows.scratch,
        )


def clear_copy(backend: Backend, slots: SlotArrays, located: Located) -> Array:
    """Return a copy of the validity words without the bits of the present keys."""
    words = backend.empty(slots.valid.shape, np.uint32)
    words[:] = slots.valid
    _clear_located(words, located.positions, located.states)
    return words


def plan_merge(backend: Backend, old: SlotArrays, batch: EdgeBatch, located: Located | None, new: SlotArrays) -> None:
    """Reserve what a merge needs beside ``new``: nothing on the host."""


def merge(
    backend: Backend,
    old: SlotArrays,
    batch: EdgeBatch,
    located: Located | None,
    add: bool,
    new: SlotArrays,
    plan: None,
) -> None:
    """Write the union of a table and a batch to ``new``, which has ``new.num_edges`` set to its size."""
    if new.num_edges == 0:  # as an array that never held an edge
        return
    _merge(
        old.src,
        old.dst,
        _or_none(old.weights),
        old.valid,
        batch.src,
        batch.dst,
        _or_none(batch.weights),
        add,
        new.num_edges,
        new.src,
        new.dst,
        _or_none(new.weights),
        new.valid,
    )
    _find_rows(new.src, new.offsets)
