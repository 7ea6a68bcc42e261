"""Rows that come to the records of their pairs, and rows that leave them, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.graph.events.cpu.pairs import AHEAD, add_weight, find_cell
from dynstore.graph.events.layout import (
    COUNT,
    EMPTY,
    FLAG,
    HALF,
    HIGH,
    KEPT,
    KEY,
    LOW,
    NO_EVENT,
    PEAK,
    STATE,
    Entered,
    FreeRecords,
    Left,
    LogArrays,
    RecordArrays,
    Touched,
)
from dynstore.host_compiler import njit
from dynstore.ids.cpu.hash_table import find_home, pair_key
from dynstore.stores.table.cpu.memory import prefetch

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["enter_rows", "leave_rows", "restore_records"]

LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@njit(cache=True)
def _enter(
    pairs, free, num_free, used, src, dst, undirected, weights, is_float, first, row, pair, back, alive, touched,
    before, fresh, bad,
):  # fmt: skip
    """Enter events from number ``first`` on, in rows from ``row`` on.

    Return how many records are touched, how many are new, and how many others had no events.
    """
    cells, records, sums = pairs.cells, pairs.records, pairs.sums
    capacity, width = pair.shape[0], records.shape[1]
    num_touched, num_new, num_returned = 0, 0, 0
    for i in range(src.shape[0]):
        if i + 2 * AHEAD < src.shape[0]:
            key = pair_key(src[i + 2 * AHEAD], dst[i + 2 * AHEAD], undirected)
            prefetch(cells, find_home(key, pairs.shift, pairs.seed))
        if i + AHEAD < src.shape[0]:
            guess = cells[find_home(pair_key(src[i + AHEAD], dst[i + AHEAD], undirected), pairs.shift, pairs.seed)]
            prefetch(records.reshape(-1), max(np.int64(guess), 0) * width)
        key = pair_key(src[i], dst[i], undirected)
        cell = find_cell(cells, pairs.shift, pairs.seed, records, key)
        record = np.int64(cells[cell])
        if record == EMPTY:
            record = np.int64(free[num_free - 1 - num_new]) if num_new < num_free else used + num_new - num_free
            records[record, KEY], records[record, STATE] = key, NO_EVENT
            for place in range(HIGH, width):
                records[record, place] = 0
            cells[cell] = record
            fresh[num_new] = record
            num_new += 1
        elif records[record, STATE] & COUNT == 0:
            num_returned += 1
        state = records[record, STATE]
        newest = state >> HALF
        if newest < first:
            touched[num_touched] = record
            for place in range(width):
                before[num_touched, place] = records[record, place]
            num_touched += 1
        pair[row], back[row], alive[row] = record, newest, 1
        records[record, STATE] = (first + i) << HALF | (state & COUNT) + 1
        if is_float:
            if np.isfinite(weights[i]):
                add_weight(records, sums, record, weights[i])
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
    return num_touched, num_new, num_returned


@njit(cache=True)
def _leave(pairs, rows, pair, back, alive, weights, is_float, head, shift, left, touched, before, gone):
    """Take events out, each once; return how many leave, are missing, records are touched, and without events."""
    records, sums, width, capacity = pairs.records, pairs.sums, pairs.records.shape[1], pair.shape[0]
    num_left, num_missing, num_touched, num_gone = 0, 0, 0, 0
    for i in range(rows.shape[0]):
        if i + AHEAD < rows.shape[0]:
            prefetch(records.reshape(-1), np.int64(pair[max(rows[i + AHEAD], 0)]) * width)
        row = rows[i]
        num_missing += row < 0
        if row < 0 or alive[row] == 0:
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
            add_weight(records, sums, record, -weights[row])
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
                    add_weight(records, sums, record, weights[at])
                    count -= 1
                number = np.int64(back[at])
    return num_left, num_missing, num_touched, num_gone


@njit(cache=True)
def _restore(records, touched, before, left, alive):
    for i in range(touched.shape[0]):
        for place in range(records.shape[1]):
            records[touched[i], place] = before[i, place]
    for i in range(left.shape[0]):
        alive[left[i]] = 1


def enter_rows(
    backend: Backend,
    pairs: RecordArrays,
    free: FreeRecords,
    ring: LogArrays,
    src: Array,
    dst: Array,
    undirected: bool,
    weights: Array | None,
    times: Array | None,
) -> Entered:
    """Enter events behind the tail of the log: write their pairs and chains, and count and add them up.

    The table and the log have room. Events without finite weights are not added up.
    """
    count, width = src.shape[0], pairs.records.shape[1]
    touched, fresh, before = np.empty(count, np.int32), np.empty(count, np.int32), np.empty((count, width), np.int64)
    bad, given = np.zeros(1, np.int64), np.empty(0, np.float64) if weights is None else weights
    num_touched, num_new, num_returned = _enter(
        pairs, *free, src, dst, undirected, given, width > PEAK, ring.tail, ring.next_row, ring.pair, ring.back,
        ring.alive, touched, before, fresh, bad,
    )  # fmt: skip
    newest = None if times is None else int(times.max())
    return Entered(
        Touched(touched[:num_touched], before[:num_touched]), fresh[:num_new], num_returned, int(bad[0]), newest
    )


def leave_rows(backend: Backend, pairs: RecordArrays, ring: LogArrays, rows: Array) -> Left:
    """Take events out of the log, and out of the counts and sums of their pairs.

    ``rows``: int64; a row counts once. Rows of events that are gone do not count, nor do negative ones.
    """
    count, width = rows.shape[0], pairs.records.shape[1]
    left, touched, gone = np.empty(count, np.int64), np.empty(count, np.int32), np.empty(count, np.int32)
    before = np.empty((count, width), np.int64)
    num_left, num_missing, num_touched, num_gone = _leave(
        pairs, rows, ring.pair, ring.back, ring.alive, ring.weights, width > PEAK, ring.head, ring.shift, left, touched,
        before, gone,
    )  # fmt: skip
    records = Touched(touched[:num_touched], before[:num_touched])
    return Left(left[:num_left], records, gone[:num_gone], num_missing)


def restore_records(pairs: RecordArrays, ring: LogArrays, touched: Touched, left: Array) -> None:
    """Take back what an update did to records, and bring events back."""
    _restore(pairs.records, touched.numbers, touched.before, left, ring.alive)
