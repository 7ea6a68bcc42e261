"""The records of pairs on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.graph.events.layout import (
    COUNT,
    EMPTY,
    FLAG,
    HALF,
    HIGH,
    KEPT,
    KEY,
    LOW,
    LOWER,
    NO_EVENT,
    PEAK,
    REMOVED,
    STATE,
    FreeRecords,
    LogArrays,
    RecordArrays,
    Touched,
)
from dynstore.host_compiler import inlined, njit
from dynstore.ids.cpu.hash_table import find_home, pair_key
from dynstore.stores.table.cpu.memory import prefetch

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = [
    "collect_rows",
    "enter_rows",
    "find_records",
    "leave_rows",
    "place_records",
    "relink_events",
    "remove_records",
    "restore_records",
    "select_pairs",
    "sum_weights",
]

# Rows whose cache misses overlap.
AHEAD = 16
LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@inlined
def _find(cells, shift, seed, records, key):
    """Return the cell of a pair, or the one that ends the search."""
    mask = cells.shape[0] - 1
    cell = find_home(key, shift, seed)
    found = np.int64(cells[cell])
    while found != EMPTY and (found == REMOVED or records[found, KEY] != key):
        cell = (cell + 1) & mask
        found = np.int64(cells[cell])
    return cell


@inlined
def _two_sum(high, low, weight):
    """Add to a sum in two floats: the sum of two floats and its error (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    total = high + weight
    other = total - high
    rest = low + ((high - (total - other)) + (weight - other))
    high = total + rest
    rest -= high - total
    return (high, rest) if np.isfinite(high) else (total, 0.0)


@inlined
def _add(records, sums, record, weight):
    """Add a weight to the sum of a record."""
    high, low = _two_sum(sums[record, HIGH], sums[record, LOW], weight)
    sums[record, HIGH], sums[record, LOW] = high, low
    sums[record, PEAK] = max(sums[record, PEAK], abs(high), abs(weight))


@njit(cache=True)
def _sum_floats(numbers, weights, high, low):
    for i in range(numbers.shape[0]):
        number = numbers[i]
        high[number], low[number] = _two_sum(high[number], low[number], np.float64(weights[i]))
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
        found[i] = pairs.cells[_find(pairs.cells, pairs.shift, pairs.seed, pairs.records, key)]


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
        pairs.cells[_find(pairs.cells, pairs.shift, pairs.seed, pairs.records, key)] = REMOVED


@njit(cache=True)
def _enter(
    pairs, free, num_free, used, src, dst, undirected, weights, is_float, first, row, pair, back, touched, before,
    fresh, bad,
):  # fmt: skip
    """Enter events from number ``first`` on, in rows from ``row`` on; return how many records are touched, and new."""
    cells, records, sums = pairs.cells, pairs.records, pairs.sums
    capacity, width = pair.shape[0], records.shape[1]
    num_touched, num_new = 0, 0
    for i in range(src.shape[0]):
        if i + 2 * AHEAD < src.shape[0]:
            key = pair_key(src[i + 2 * AHEAD], dst[i + 2 * AHEAD], undirected)
            prefetch(cells, find_home(key, pairs.shift, pairs.seed))
        if i + AHEAD < src.shape[0]:
            guess = cells[find_home(pair_key(src[i + AHEAD], dst[i + AHEAD], undirected), pairs.shift, pairs.seed)]
            prefetch(records.reshape(-1), max(np.int64(guess), 0) * width)
        key = pair_key(src[i], dst[i], undirected)
        cell = _find(cells, pairs.shift, pairs.seed, records, key)
        record = np.int64(cells[cell])
        if record == EMPTY:
            record = np.int64(free[num_free - 1 - num_new]) if num_new < num_free else used + num_new - num_free
            records[record, KEY], records[record, STATE] = key, NO_EVENT
            for place in range(HIGH, width):
                records[record, place] = 0
            cells[cell] = record
            fresh[num_new] = record
            num_new += 1
        state = records[record, STATE]
        newest = state >> HALF
        if newest < first:
            touched[num_touched] = record
            for place in range(width):
                before[num_touched, place] = records[record, place]
            num_touched += 1
        pair[row], back[row] = record, newest
        records[record, STATE] = (first + i) << HALF | (state & COUNT) + 1
        if is_float:
            if np.isfinite(weights[i]):
                _add(records, sums, record, weights[i])
            else:
                bad[0] += 1
        elif width > HIGH:
            total, weight = records[record, HIGH], np.int64(weights[i])
            if total > HIGHEST - weight if weight > 0 else total < LOWEST - weight:  # LLVM: no sum is too large
                bad[0] += 1
            else:
                records[record, HIGH] = total + weight
        row += 1
        if row == capacity:
            row = 0
    return num_touched, num_new


@njit(cache=True)
def _leave(pairs, rows, pair, back, alive, weights, is_float, head, shift, left, touched, before, gone):
    """Take events out, each once; return how many rows leave, and how many records are touched, without events."""
    records, sums, width, capacity = pairs.records, pairs.sums, pairs.records.shape[1], pair.shape[0]
    num_left, num_touched, num_gone = 0, 0, 0
    for i in range(rows.shape[0]):
        if i + AHEAD < rows.shape[0]:
            prefetch(records.reshape(-1), np.int64(pair[rows[i + AHEAD]]) * width)
        row = rows[i]
        if alive[row] == 0:
            continue
        alive[row] = 0
        left[num_left] = row
        num_left += 1
        record = np.int64(pair[row])
        state = records[record, STATE]
        if state & FLAG == 0:
            touched[num_touched] = record
            for place in range(width):
                before[num_touched, place] = records[record, place]
            num_touched += 1
        records[record, STATE] = (state | FLAG) - 1
        if is_float:
            _add(records, sums, record, -weights[row])
        elif width > HIGH:
            records[record, HIGH] -= np.int64(weights[row])
    for i in range(num_touched):
        record = np.int64(touched[i])
        state = records[record, STATE] & ~FLAG
        records[record, STATE] = state
        if state & COUNT == 0:
            for place in range(HIGH, width):
                records[record, place] = 0
            gone[num_gone] = record
            num_gone += 1
        elif is_float and not KEPT * sums[record, PEAK] <= abs(sums[record, HIGH]) < np.inf:
            sums[record, HIGH] = sums[record, LOW] = sums[record, PEAK] = 0.0
            number, count = state >> HALF, state & COUNT
            while number >= head and count > 0:
                at = (number + shift) % capacity
                if alive[at]:
                    _add(records, sums, record, weights[at])
                    count -= 1
                number = np.int64(back[at])
    return num_left, num_touched, num_gone


@njit(cache=True)
def _restore(records, touched, before, left, alive):
    for i in range(touched.shape[0]):
        for place in range(records.shape[1]):
            records[touched[i], place] = before[i, place]
    for i in range(left.shape[0]):
        alive[left[i]] = 1


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


def enter_rows(
    backend: Backend,
    pairs: RecordArrays,
    free: FreeRecords,
    ring: LogArrays,
    src: Array,
    dst: Array,
    undirected: bool,
    weights: Array | None,
) -> tuple[Touched, Array, int]:
    """Enter events behind the tail of the log: write their pairs and chains, and count and add them up.

    The table and the log have room. Events without finite weights are not added up.

    Returns
    -------
    touched : Touched
    fresh : array, int32
        The records that pairs without one got; they are among those touched.
    bad : int
        How many weights are not finite, or make an integer sum too large.
    """
    count, width = src.shape[0], pairs.records.shape[1]
    touched, fresh, before = np.empty(count, np.int32), np.empty(count, np.int32), np.empty((count, width), np.int64)
    bad, given = np.zeros(1, np.int64), np.empty(0, np.float64) if weights is None else weights
    num_touched, num_new = _enter(
        pairs, *free, src, dst, undirected, given, width > PEAK, ring.tail, ring.next_row, ring.pair, ring.back,
        touched, before, fresh, bad,
    )  # fmt: skip
    return Touched(touched[:num_touched], before[:num_touched]), fresh[:num_new], int(bad[0])


def leave_rows(backend: Backend, pairs: RecordArrays, ring: LogArrays, rows: Array) -> tuple[Array, Touched, Array]:
    """Take events out of the log, and out of the counts and sums of their pairs.

    Parameters
    ----------
    rows : array, int64
        A row counts once; rows of events that are gone do not count.

    Returns
    -------
    left : array, int64
        The rows that left.
    touched : Touched
    gone : array, int32
        The records that have no events any more.
    """
    count, width = rows.shape[0], pairs.records.shape[1]
    left, touched, gone = np.empty(count, np.int64), np.empty(count, np.int32), np.empty(count, np.int32)
    before = np.empty((count, width), np.int64)
    num_left, num_touched, num_gone = _leave(
        pairs, rows, ring.pair, ring.back, ring.alive, ring.weights, width > PEAK, ring.head, ring.shift, left, touched,
        before, gone,
    )  # fmt: skip
    return left[:num_left], Touched(touched[:num_touched], before[:num_touched]), gone[:num_gone]


def restore_records(pairs: RecordArrays, ring: LogArrays, touched: Touched, left: Array) -> None:
    """Take back what an update did to records, and bring events back."""
    _restore(pairs.records, touched.numbers, touched.before, left, ring.alive)


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
