"""The records of pairs on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.graph.events.layout import (
    COUNT,
    EMPTY,
    HALF,
    HIGH,
    KEY,
    LOW,
    LOWER,
    NO_EVENT,
    PEAK,
    REMOVED,
    STATE,
    LogArrays,
    RecordArrays,
)
from dynstore.host_compiler import inlined, njit
from dynstore.ids.cpu.hash_table import find_home, pair_key
from dynstore.stores.table.cpu.memory import prefetch

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = [
    "AHEAD",
    "add_weight",
    "collect_rows",
    "find_cell",
    "find_records",
    "place_records",
    "read_ends",
    "relink_events",
    "remove_records",
    "select_pairs",
    "sum_weights",
]

# Rows whose cache misses overlap.
AHEAD = 16


@inlined
def find_cell(cells, shift, seed, records, key):
    """Return the cell of a pair, or the one that ends the search."""
    mask = cells.shape[0] - 1
    cell = find_home(key, shift, seed)
    found = np.int64(cells[cell])
    while found != EMPTY and (found == REMOVED or records[found, KEY] != key):
        cell = (cell + 1) & mask
        found = np.int64(cells[cell])
    return cell


@inlined
def two_sum(high, low, weight):
    """Add to a sum in two floats: the sum of two floats and its error (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    total = high + weight
    other = total - high
    rest = low + ((high - (total - other)) + (weight - other))
    high = total + rest
    rest -= high - total
    return (high, rest) if np.isfinite(high) else (total, 0.0)


@inlined
def add_weight(records, sums, record, weight):
    """Add a weight to the sum of a record."""
    high, low = two_sum(sums[record, HIGH], sums[record, LOW], weight)
    sums[record, HIGH], sums[record, LOW] = high, low
    sums[record, PEAK] = max(sums[record, PEAK], abs(high), abs(weight))


@njit(cache=True)
def _sum_floats(numbers, weights, high, low):
    for i in range(numbers.shape[0]):
        number = numbers[i]
        high[number], low[number] = two_sum(high[number], low[number], np.float64(weights[i]))
    for number in range(high.shape[0]):
        high[number] += low[number]


@njit(cache=True)
def _sum_integers(numbers, weights, sums):
    for i in range(numbers.shape[0]):
        sums[numbers[i]] += weights[i]


@njit(cache=True)
def _find_records(pairs, src, dst, undirected, found):
    for i in range(src.shape[0]):
        key = pair_key(src[i], dst[i], undirected)
        found[i] = pairs.cells[find_cell(pairs.cells, pairs.shift, pairs.seed, pairs.records, key)]


@njit(cache=True)
def _place(pairs, numbers):
    """Put the records of distinct pairs into cells without any."""
    cells, mask = pairs.cells, pairs.cells.shape[0] - 1
    for i in range(numbers.shape[0]):
        if i + AHEAD < numbers.shape[0]:
            prefetch(cells, find_home(pairs.records[numbers[i + AHEAD], KEY], pairs.shift, pairs.seed))
        cell = find_home(pairs.records[numbers[i], KEY], pairs.shift, pairs.seed)
        while cells[cell] != EMPTY:
            cell = (cell + 1) & mask
        cells[cell] = numbers[i]


@njit(cache=True)
def _remove(pairs, numbers):
    for i in range(numbers.shape[0]):
        key = pairs.records[numbers[i], KEY]
        pairs.cells[find_cell(pairs.cells, pairs.shift, pairs.seed, pairs.records, key)] = REMOVED


@njit(cache=True)
def _read_ends(records, numbers, src, dst):
    for i in range(numbers.shape[0]):
        if i + AHEAD < numbers.shape[0]:
            prefetch(records.reshape(-1), np.int64(numbers[i + AHEAD]) * records.shape[1])
        key = records[numbers[i], KEY]
        src[i], dst[i] = key >> HALF, key & LOWER


@njit(cache=True)
def _collect(records, numbers, back, alive, shift, starts, rows):
    """Write the rows of the events of each pair from its start on, the newest first."""
    capacity = back.shape[0]
    for i in range(numbers.shape[0]):
        if i + AHEAD < numbers.shape[0]:
            prefetch(records.reshape(-1), np.int64(numbers[i + AHEAD]) * records.shape[1])
        state = records[numbers[i], STATE]
        number, left, place = state >> HALF, state & COUNT, starts[i]
        while left > 0:
            row = (number + shift) % capacity
            if alive[row]:
                rows[place] = row
                place, left = place + 1, left - 1
            number = np.int64(back[row])


@njit(cache=True)
def _relink(records, pair, back, first, last, shift):
    capacity = pair.shape[0]
    for number in range(first, last):
        row = (number + shift) % capacity
        state = records[pair[row], STATE]
        back[row] = state >> HALF
        records[pair[row], STATE] = number << HALF | (state & LOWER)


@njit(cache=True)
def _select(src, dst, stored, valid, wanted, src_out, dst_out, stored_out):
    """Write the chosen slots side by side; all are written, and the next one goes over those that are not chosen.

    Without a branch, and with a bit for each record, it takes 12 ms in place of 19 (``docs/notes/events.md``).
    """
    place = np.int64(0)
    for slot in range(src.shape[0]):
        held = np.int64((valid[slot >> 5] >> np.uint32(slot & 31)) & np.uint32(1))
        record = np.int64(stored[slot]) * held  # a gap's number may be that of no record
        src_out[place], dst_out[place], stored_out[place] = src[slot], dst[slot], record
        place += held & np.int64((wanted[record >> 3] >> np.uint8(record & 7)) & np.uint8(1))
    return place


def select_pairs(
    backend: Backend, slots: SlotArrays, num_vertices: int, wanted: Array, most: int
) -> tuple[Array, Array, Array, Array]:
    """Return the pairs in a store whose records are ``wanted``, at most so many.

    Returns
    -------
    src, dst, numbers : arrays, shape (E,)
        The numbers of their records, too.
    offsets : array, shape (V + 1,)
    """
    src, dst, numbers = (np.empty(most + 1, slots.dst.dtype) for _ in range(3))
    bits = np.packbits(wanted, bitorder="little")
    count = _select(slots.src, slots.dst, slots.weights, slots.valid, bits, src, dst, numbers)
    offsets = np.zeros(num_vertices + 1, slots.offsets.dtype)
    np.cumsum(np.bincount(src[:count], minlength=num_vertices), out=offsets[1:])
    return src[:count], dst[:count], numbers[:count], offsets


def sum_weights(backend: Backend, numbers: Array, weights: Array, size: int) -> Array:
    """Return the sum of the weights by number, float64, shape (size,); each is right to the last place."""
    if weights.dtype.kind != "f":
        whole = np.zeros(size, np.int64)
        _sum_integers(numbers, weights, whole)
        return whole.astype(np.float64)
    high, low = np.zeros(size), np.zeros(size)
    _sum_floats(numbers, weights, high, low)
    return high


def find_records(backend: Backend, pairs: RecordArrays, src: Array, dst: Array, undirected: bool) -> Array:
    """Return the record of each pair, int32, negative for those without one; ends may be any int32 numbers."""
    found = np.empty(src.shape[0], np.int32)
    _find_records(pairs, src, dst, undirected, found)
    return found


def place_records(pairs: RecordArrays, numbers: Array) -> None:
    """Put records into a table that has cells for them and none of them."""
    _place(pairs, numbers)


def remove_records(pairs: RecordArrays, numbers: Array) -> None:
    """Take records out of the cells."""
    _remove(pairs, numbers)


def read_ends(backend: Backend, pairs: RecordArrays, numbers: Array) -> tuple[Array, Array]:
    """Return the pairs of records: source and destination, int32; of an undirected pair, the lower number first."""
    src, dst = np.empty(numbers.shape[0], np.int32), np.empty(numbers.shape[0], np.int32)
    _read_ends(pairs.records, numbers, src, dst)
    return src, dst


def collect_rows(backend: Backend, pairs: RecordArrays, ring: LogArrays, numbers: Array, counts: Array) -> Array:
    """Return the rows of the events of pairs: of each pair so many, the newest first."""
    ends = np.cumsum(counts)
    rows = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
    _collect(pairs.records, numbers, ring.back, ring.alive, ring.shift, ends - counts, rows)
    return rows


def relink_events(backend: Backend, pairs: RecordArrays, used: int, ring: LogArrays) -> None:
    """Make the chains of the first ``used`` records anew, for events that got other numbers; all are there."""
    pairs.records[:used, STATE] = pairs.records[:used, STATE] & LOWER | NO_EVENT
    _relink(pairs.records, ring.pair, ring.back, ring.head, ring.tail, ring.shift)
