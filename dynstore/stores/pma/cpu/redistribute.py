"""Writing the leaves of a packed memory array on the host.

Scratch is what edges pass through on their way back to slots. Loops take arrays of length 0 where there are no weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.table.cpu.memory import prefetch
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE

if TYPE_CHECKING:
    from dynstore.stores.table.slots import SearchResult, SlotArrays
    from dynstore.typing import Array

__all__ = [
    "NO_WEIGHTS",
    "SHIFT_AT_MOST",
    "Scratch",
    "SpreadWindows",
    "clear_located",
    "count_bits",
    "gather_all",
    "or_none",
    "set_located",
    "shift_in",
    "spread",
    "write_rows",
    "write_windows",
    "write_windows_of",
]

# Up to SHIFT_AT_MOST keys are shifted into a leaf one by one; more of them share one redistribution, which takes about
# as long: 40 ns a shifted key, 100 to 120 ns a leaf (docs/internals/gpma_plus.md).
SHIFT_AT_MOST = 3
# How many windows ahead the memory of a window is prefetched.
WINDOWS_AHEAD = 16
NO_WEIGHTS = np.empty(0, dtype=np.float32)
# Sources, destinations and weights (length 0 if there are none) on their way back to slots.
Scratch: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True)
class SpreadWindows:
    """The windows to write, ascending and disjoint, and the memory that writing them takes.

    ``bounds`` has one line for each: first leaf, last leaf + 1, first pending key, last pending key + 1.
    ``num_leaves``: the time that writing them takes, in redistributed leaves.
    """

    bounds: np.ndarray
    pending: np.ndarray
    scratch: Scratch
    num_leaves: int
    num_pending: int


def or_none(weights: Array | None) -> np.ndarray:
    """Return an array for a loop: of length 0 if there are no weights."""
    return NO_WEIGHTS if weights is None else weights


def write_windows_of(slots: SlotArrays, located: SearchResult, windows: SpreadWindows, new: Scratch) -> None:
    """Write the windows of an update with its pending keys; ``new``: the columns of the batch."""
    target = (slots.src, slots.dst, or_none(slots.weights), slots.valid, slots.offsets)
    write_windows(*target, windows.bounds, windows.pending, located.positions, *new, *windows.scratch)


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


@njit(cache=True, borrows=True)
def write_rows(offsets, low, high, slot):
    """Let the rows in (low, high], at least one, start at ``slot``; rows are written in ascending order.

    Most gaps of ids are short, so the first four rows are written without a branch on their number. The old starts of
    the others ascend, so if the outer two are right, all are: a long gap of ids costs nothing.
    """
    for step in range(1, 5):
        offsets[np.uint64(min(low + step, high))] = slot
    if high - low > 4 and (offsets[low + 5] != slot or offsets[high] != slot):
        for row in range(low + 5, high + 1):
            offsets[row] = slot


@njit(cache=True, error_model="numpy", borrows=True)
def spread(src, dst, weights, valid, offsets, first, end, count, last_row, some_src, some_dst, some_weights):
    """Write ``count`` elements evenly over the slots [first, end), gaps repeating the key before them.

    Rows up to ``last_row``, that of the window's last slot before, may have begun in the window; later ones did not.
    """
    size = end - first
    weighted = weights.shape[0] > 0
    row = np.int64(src[first - 1]) if first > 0 else np.int64(-1)
    # Slot s of the window shows element floor(((s + 1) count - 1) / size), valid in the first slot that does. For the
    # slots of a leaf this is element + floor((share + j count) / size); a half keeps the rounding from the next number.
    rate, scale = np.float64(count), 1.0 / size
    element, share = 0, count - 1
    step, rest = count * 32 // size, count * 32 % size
    shown = np.int64(-1)  # the element in the slot before
    for leaf in range(first >> 5, end >> 5):
        base = np.uint64(leaf * 32)
        here = slice(base, base + np.uint64(32))
        leaf_src, leaf_dst = src[here], dst[here]
        start = share + 0.5
        for j in range(32):  # at first the leaf holds the numbers of its elements
            leaf_src[j] = (start + rate * np.float64(np.int32(j))) * scale
        word = np.uint32(element + leaf_src[0] != shown)
        for j in range(1, 32):
            word |= np.uint32(leaf_src[j] != leaf_src[j - 1]) << np.uint32(j)
        valid[leaf] = word
        shown = element + leaf_src[31]
        if weighted:
            leaf_weights, from_weights = weights[here], some_weights[element:]
            for j in range(32):
                leaf_weights[j] = from_weights[np.uint32(leaf_src[j])]
        from_src, from_dst = some_src[element:], some_dst[element:]
        for j in range(32):
            leaf_dst[j] = from_dst[np.uint32(leaf_src[j])]
        for j in range(32):
            leaf_src[j] = from_src[np.uint32(leaf_src[j])]
        begun = np.uint32(leaf_src[0] != row)
        for j in range(1, 32):
            begun |= np.uint32(leaf_src[j] != leaf_src[j - 1]) << np.uint32(j)
        while begun != 0:
            j = count_zeros(begun)
            begun &= begun - np.uint32(1)
            new_row = np.int64(leaf_src[np.uint64(j)])
            write_rows(offsets, row, new_row, leaf * 32 + j)
            row = new_row
        element, share = element + step, share + rest
        if share >= size:
            element, share = element + 1, share - size
    if row < last_row:
        write_rows(offsets, row, last_row, end)


@njit(cache=True)
def set_located(weights, valid, positions, states, new_weights, add):
    """Give present keys their weight, and restore tombstones; an old weight of a tombstone does not count."""
    weighted = weights.shape[0] > 0
    for i in range(positions.shape[0]):
        if states[i] == ABSENT:
            continue
        slot = positions[i]
        if weighted:
            weights[slot] = new_weights[i] + (weights[slot] if add and states[i] == PRESENT else 0)
        if states[i] == TOMBSTONE:
            valid[slot >> 5] |= np.uint32(1) << np.uint32(slot & 31)


@njit(cache=True)
def clear_located(valid, positions, states):
    for i in range(positions.shape[0]):
        if states[i] == PRESENT:
            valid[positions[i] >> 5] &= ~(np.uint32(1) << np.uint32(positions[i] & 31))


@njit(cache=True, borrows=True)
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


@njit(cache=True, borrows=True)
def shift_in(src, dst, weights, valid, offsets, leaf, place, row, key, weight):
    """Insert an edge before slot ``place`` of a leaf that has a gap; the edges up to the nearest gap move by one slot.

    If two gaps are equally near, the one before the place is taken. Keys keep their order, and the first slot of a run
    stays the first. Returns the highest slot whose content has moved up, else -1.
    """
    word, begin = np.uint32(valid[leaf]), leaf * 32
    lower = np.uint32((np.uint64(1) << np.uint64(place - begin)) - np.uint64(1))  # the slots before the place
    after = begin + count_zeros(~word & ~lower)
    below = np.uint32(~word & lower)  # then all bits up to its highest one
    below |= below >> np.uint32(1)
    below |= below >> np.uint32(2)
    below |= below >> np.uint32(4)
    below |= below >> np.uint32(8)
    below |= below >> np.uint32(16)
    before = begin - 1 + count_bits(below)
    if before < begin or (after < begin + 32 and after - place < place - 1 - before):
        gap, target = after, place
        for slot in range(gap, target, -1):
            src[slot], dst[slot] = src[slot - 1], dst[slot - 1]
            if weights.shape[0] > 0:
                weights[slot] = weights[slot - 1]
        other = row + 1
        while offsets[other] <= gap:  # it ends: the last offset is the number of slots
            offsets[other] += 1
            other += 1
        moved = gap  # set here, not with `gap`: LLVM then makes code that takes two thirds of the time
    else:
        gap, target = before, place - 1
        for slot in range(gap, target):
            src[slot], dst[slot] = src[slot + 1], dst[slot + 1]
            if weights.shape[0] > 0:
                weights[slot] = weights[slot + 1]
        other = row
        while offsets[other] > gap:  # it ends: row 0 begins at slot 0
            offsets[other] -= 1
            other -= 1
        moved = -1
    src[target], dst[target] = row, key
    if weights.shape[0] > 0:
        weights[target] = weight
    valid[leaf] = word | (np.uint32(1) << np.uint32(gap & 31))
    return moved


@njit(cache=True)
def write_windows(
    src, dst, weights, valid, offsets, bounds, pending, places, new_src, new_dst, new_weights, t_src, t_dst, t_weights
):
    """Merge each window's edges with its pending keys in scratch, then spread them over the window.

    A pending key belongs before slot ``places[key]``, so the merge compares no keys.
    """
    weighted, zero = weights.shape[0] > 0, weights.dtype.type(0)
    for window in range(bounds.shape[0]):
        ahead = window + WINDOWS_AHEAD
        if ahead < bounds.shape[0] and bounds[ahead, 2] < bounds[ahead, 3]:
            i = pending[bounds[ahead, 2]]
            slot = max(places[i] - 1, 0)
            prefetch(src, slot)
            prefetch(dst, slot)
            prefetch(valid, slot >> 5)
            prefetch(offsets, np.int64(new_src[i]))
        first, end = bounds[window, 0] * 32, bounds[window, 1] * 32
        first_key, end_key = bounds[window, 2], bounds[window, 3]
        if end - first == 32 and end_key - first_key <= SHIFT_AT_MOST:
            old, last = -1, -1  # what the keys before have moved up, see `shift_in`
            for key in range(first_key, end_key):
                i = pending[key]
                place = places[i]
                place += place <= old
                place += place <= last
                weight = new_weights[i] if weighted else zero
                row = np.int64(new_src[i])
                moved = shift_in(src, dst, weights, valid, offsets, first >> 5, place, row, new_dst[i], weight)
                old, last = last, moved
            continue
        slot, count = first, 0
        for key in range(first_key, end_key):
            i = pending[key]
            count = _gather(src, dst, weights, valid, slot, places[i], t_src, t_dst, t_weights, count)
            slot = max(slot, places[i])
            t_src[count], t_dst[count] = new_src[i], new_dst[i]
            if weighted:
                t_weights[count] = new_weights[i]
            count += 1
        count = _gather(src, dst, weights, valid, slot, end, t_src, t_dst, t_weights, count)
        last_row = np.int64(src[end - 1])
        spread(src, dst, weights, valid, offsets, first, end, count, last_row, t_src, t_dst, t_weights)


@njit(cache=True)
def gather_all(
    src, dst, weights, valid, positions, states, new_src, new_dst, new_weights, add, t_src, t_dst, t_weights
):
    """Merge all edges with a batch in scratch; present keys give their edge a new weight. Returns their number."""
    weighted = weights.shape[0] > 0
    slot, count = 0, 0
    for i in range(positions.shape[0]):
        if slot < positions[i]:
            count = _gather(src, dst, weights, valid, slot, positions[i], t_src, t_dst, t_weights, count)
            slot = positions[i]
        t_src[count], t_dst[count] = new_src[i], new_dst[i]
        if weighted:
            t_weights[count] = new_weights[i]
        if states[i] == PRESENT:
            if weighted and add:
                t_weights[count] += weights[slot]
            slot += 1
        count += 1
    return _gather(src, dst, weights, valid, slot, src.shape[0], t_src, t_dst, t_weights, count)
