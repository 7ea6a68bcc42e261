"""Counting the rows of a window on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.graph.events.cpu.pairs import two_sum
from dynstore.host_compiler import njit
from dynstore.ids.cpu.hash_table import find_home, pair_key
from dynstore.ids.hash_table import shift_of
from dynstore.stores.table.cpu.memory import prefetch
from dynstore.windows.moves import Counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.typing import Array
    from dynstore.windows.moves import Moves
    from dynstore.windows.pair_table import PairTable

__all__ = ["place_keys", "start_moves"]

# Rows whose cache misses overlap.
AHEAD = 16
LOW = 0xFFFFFFFF


@njit(cache=True, inline="always")
def _find(keys, shift, seed, key):
    """Return the slot of a key, or the empty slot where it belongs."""
    mask = keys.shape[0] - 1
    slot = find_home(key, shift, seed)
    while keys[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def _enter(
    src, dst, undirected, weights, summed, keys, shift, seed, counts, held, marks, mark, slots, saved, listed,
    listed_slots,
):  # fmt: skip
    """Count rows in, save what their slots hold, list pairs; return how many are first, listed, bad and negative."""
    first, place, bad, negative, width = 0, 0, 0, 0, held.shape[1]
    for i in range(src.shape[0]):
        if i + AHEAD < src.shape[0]:
            home = find_home(pair_key(src[i + AHEAD], dst[i + AHEAD], undirected), shift, seed)
            prefetch(keys, home)
            prefetch(counts, home)
            if marks.shape[0] > 0:
                prefetch(marks, home)
            if saved.shape[0] > 0:
                prefetch(held.reshape(-1), home * width)
        key = pair_key(src[i], dst[i], undirected)
        slot = _find(keys, shift, seed, key)
        keys[slot] = key
        is_first = counts[slot] == 0
        chosen = is_first
        if marks.shape[0] > 0:
            chosen = marks[slot] != mark
            marks[slot] = mark
            if chosen:
                listed_slots[place] = slot
        if chosen and listed.shape[1] > 0:
            listed[0, place] = src[i]
            listed[1, place] = dst[i]
            place += 1
        first += is_first
        counts[slot] += 1
        slots[i] = slot
        if saved.shape[0] > 0:
            for part in range(width):
                saved[i, part] = held[slot, part]
        if i < weights.shape[0]:
            bad += np.isnan(weights[i]) or (summed and np.isinf(weights[i]))
            negative += summed and weights[i] < 0
    return first, place, bad, negative


@njit(cache=True)
def _leave(leaving, keys, counts, held, entered, saved, gone):
    """Count rows out, and save what their slots hold; return for how many pairs the last row left."""
    last = 0
    for i in range(leaving.shape[0]):
        if i + AHEAD < leaving.shape[0]:
            prefetch(counts, np.int64(leaving[i + AHEAD]))
            prefetch(keys, np.int64(leaving[i + AHEAD]))
        slot = leaving[i]
        if slot >= 0:
            counts[slot] -= 1
            if counts[slot] == 0:
                gone[0, last] = keys[slot] >> 32
                gone[1, last] = keys[slot] & LOW
                last += 1
            if saved.shape[0] > entered:
                for part in range(held.shape[1]):
                    saved[entered + i, part] = held[slot, part]
    return last


@njit(cache=True)
def _add(slots, weights, kept, leaving, left, sums):
    """Add the weights of rows that enter, and subtract those of rows that leave."""
    for i in range(slots.shape[0]):
        slot, kept[i] = slots[i], weights[i]
        sums[slot, 0], sums[slot, 1] = two_sum(sums[slot, 0], sums[slot, 1], kept[i])
    for i in range(leaving.shape[0]):
        slot = leaving[i]
        if slot >= 0:
            sums[slot, 0], sums[slot, 1] = two_sum(sums[slot, 0], sums[slot, 1], -left[i])


@njit(cache=True)
def _see(slots, times, saved, latest, late):
    """Raise the latest times of pairs; return how many rows are older than the one before."""
    count = 0
    for i in range(slots.shape[0]):
        late[i] = times[i] < saved[i, 0]
        count += late[i]
        latest[slots[i]] = max(latest[slots[i]], times[i])
    return count


@njit(cache=True, inline="always")
def _weight(counts, sums, signed, slot):
    """Return the weight of a pair: its sum or its count. A rounding error makes no sum negative that is none."""
    if sums.shape[0] == 0:
        return np.float64(counts[slot])
    total = sums[slot, 0] + sums[slot, 1]
    if total < 0 and not signed:
        sums[slot, 0] = sums[slot, 1] = total = 0.0
    return total


@njit(cache=True)
def _weigh(leaving, keys, counts, sums, signed, marks, mark, begin, listed, listed_slots, weights):
    """Write the sums or counts of ``begin`` listed pairs, and list pairs that keep rows behind them.

    Return how many of these there are, and how many weights are too large.
    """
    for i in range(begin):
        weights[i] = _weight(counts, sums, signed, listed_slots[i])
    place = begin
    for i in range(leaving.shape[0]):
        slot = leaving[i]
        if slot >= 0 and counts[slot] > 0:
            if marks[slot] != mark:
                marks[slot] = mark
                listed[0, place] = keys[slot] >> 32
                listed[1, place] = keys[slot] & LOW
                weights[place] = _weight(counts, sums, signed, slot)
                place += 1
        elif slot >= 0 and sums.shape[0] > 0:
            sums[slot, 0] = sums[slot, 1] = 0.0  # so that no rounding error stays
    large = 0
    for i in range(place):
        large += not np.isfinite(weights[i])
    return place - begin, large


@njit(cache=True)
def _restore(slots, leaving, counts, held, saved):
    """Take back what a slide did; rows of one pair have saved the same."""
    number = slots.shape[0]
    for i in range(number):
        counts[slots[i]] -= 1
        if i < saved.shape[0]:
            for part in range(held.shape[1]):
                held[slots[i], part] = saved[i, part]
    for i in range(leaving.shape[0]):
        if leaving[i] >= 0:
            counts[leaving[i]] += 1
            if number + i < saved.shape[0]:
                for part in range(held.shape[1]):
                    held[leaving[i], part] = saved[number + i, part]


@njit(cache=True)
def _place(keys, shift, seed, old, places):
    for i in range(old.shape[0]):
        places[i] = -1
        if old[i] >= 0:
            slot = _find(keys, shift, seed, old[i])
            keys[slot] = old[i]
            places[i] = slot


def start_moves(backend: Backend, table: PairTable, moves: Moves) -> tuple[Callable[[], Counts], Callable[[], None]]:
    """Start to count rows in and out.

    Returns
    -------
    read : callable
        Waits for the counts and returns them.
    take_back : callable
        Makes the table what it was; keys stay in slots without rows. It cannot fail.
    """
    keys, counts, held, sums, latest, marks, signed, seed, slide = table
    (src, dst), slots, leaving, saved = moves.ends, moves.slots, moves.leaving, moves.saved
    first, listed, bad, negative = _enter(
        src, dst, moves.undirected, moves.weights, moves.summed, keys, shift_of(keys.shape[0]), seed, counts, held,
        marks, slide, slots, saved, moves.listed, moves.listed_slots,
    )  # fmt: skip
    gone = _leave(leaving, keys, counts, held, slots.shape[0], saved, moves.gone)
    staying = late = large = 0
    if moves.summed:
        _add(slots, moves.weights, moves.kept, leaving, moves.left, sums)
    if moves.times is not None:
        late = _see(slots, moves.times, saved, latest, moves.late)
    if moves.lists == "all":
        staying, large = _weigh(
            leaving, keys, counts, sums, signed or negative > 0, marks, slide, listed, moves.listed,
            moves.listed_slots, moves.listed_weights,
        )  # fmt: skip
    found = Counts(first, gone, listed, staying, late, bad, negative, large)
    return lambda: found, lambda: _restore(slots, leaving, counts, held, saved)


def place_keys(backend: Backend, keys: Array, seed: int, old: Array) -> Array:
    """Put distinct keys into an empty table, negative ones left out; return their slots, int32, -1 for those."""
    places = np.empty(old.shape[0], np.int32)
    _place(keys, shift_of(keys.shape[0]), seed, old, places)
    return places
