"""Rows that come to the records of their pairs, and rows that leave them, on CUDA.

Events that come are sorted by pair, those that leave by the record of their pair. So one thread, or a warp if there are
many, owns all that an update does to a record: it needs no atomics, and sums do not depend on the order of threads. The
host waits once for all that is counted.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.batches.cuda.sort import sort_keys, sort_rows
from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import WARP, cuda, device, kernel, prepare
from dynstore.cuda.control import declare
from dynstore.cuda.grid import ARRIVALS, SUMS
from dynstore.cuda.mailbox import Mailbox, d_post_when_last
from dynstore.cuda.warp import d_ballot, d_lane, d_max_lanes, d_shuffle, d_sum_lanes, d_sync_warp
from dynstore.graph.events.cuda.pairs import Chains, chains_of, d_join_lanes, d_key, d_sum_events, d_two_sum
from dynstore.graph.events.layout import (
    COUNT,
    EMPTY,
    HALF,
    HIGH,
    KEPT,
    KEY,
    LOW,
    LOWER,
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
from dynstore.ids.cuda.hash_table import d_find_home

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["PairRuns", "Saved", "enter_rows", "leave_rows", "restore_records"]

# Entries of `control`.
NEW, TOUCHED, RETURNED, BAD, NEWEST, LEFT, GONE, MISSING = declare(
    "events", NEW=0, TOUCHED=1, RETURNED=2, BAD=3, NEWEST=4, LEFT=5, GONE=6, MISSING=7
)
CLAIMED = -3  # a cell that a new pair has claimed, and that has no record yet
NOBODY = 0x7FFFFFFF80000000  # above all keys of a record and a row
FEW_ROWS = 32  # the most rows of one pair that a thread goes through alone; a warp shares more
LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class PairRuns(NamedTuple):
    """Rows that come, sorted by pair, those of a pair as they came: their keys, their ``order``, the pairs' cells."""

    keys: Array
    order: Array
    places: Array


class Saved(NamedTuple):
    """Room for what an update writes to; see :class:`~dynstore.graph.events.layout.Touched`.

    ``listed``: for the records that are new, or that have no events any more.
    """

    numbers: Array
    before: Array
    listed: Array


@kernel
def k_pack_pairs(src, dst, undirected, keys, control):
    """One thread owns one row that comes: it packs its pair into a key."""
    i = cuda.grid(1)
    if i < src.shape[0]:
        keys[i] = d_key(np.int64(src[i]), np.int64(dst[i]), undirected)
    if i == 0:
        control[NEWEST] = LOWEST


@partial(kernel, records={"pairs": RecordArrays, "rows": PairRuns})
def k_claim_cells(pairs, rows):
    """One thread owns one row, and acts if its pair has none before: it finds the cell, or claims an empty one.

    Pairs of threads that act are distinct, so a cell that another one has claimed is not this one's.
    """
    i = np.int64(cuda.grid(1))
    if i < rows.keys.shape[0] and (i == 0 or rows.keys[i - 1] != rows.keys[i]):
        key, mask = rows.keys[i], pairs.cells.shape[0] - 1
        cell = d_find_home(key, pairs.shift, pairs.seed)
        there = np.int64(pairs.cells[cell])
        while there < 0 or pairs.records[there, KEY] != key:
            if there == EMPTY:
                there = np.int64(cuda.atomic.cas(pairs.cells, cell, EMPTY, CLAIMED))
                if there == EMPTY:
                    break
            cell = (cell + 1) & mask
            there = np.int64(pairs.cells[cell])
        rows.places[i] = cell


@device
def d_run_end(keys, first, shift):
    """Return where the run of sorted keys ends that begins at ``first``; ``shift``: the lowest bits do not count."""
    run, low, high, step = keys[first] >> shift, np.int64(first), np.int64(first) + 1, np.int64(1)
    while high < keys.shape[0] and keys[high] >> shift == run:
        low = high
        high += step
        step += step
    high = min(high, np.int64(keys.shape[0]))
    while low + 1 < high:
        middle = (low + high) >> 1
        if keys[middle] >> shift == run:
            low = middle
        else:
            high = middle
    return high


@device
def d_save(pairs, number, saved, place):
    """Keep a record as it is."""
    saved.numbers[place] = number
    for column in range(pairs.records.shape[1]):
        saved.before[place, column] = pairs.records[number, column]


@device
def d_add_sum(pairs, number, high, low, largest):
    """Add a sum in two floats to that of a record."""
    one, other = d_two_sum(pairs.sums[number, HIGH], pairs.sums[number, LOW], high)
    one, other = d_two_sum(one, other, low)
    pairs.sums[number, HIGH], pairs.sums[number, LOW] = one, other
    pairs.sums[number, PEAK] = max(pairs.sums[number, PEAK], abs(one), largest)


@device
def d_chain_events(ring, rows, number, back, first, begin, end, stride):
    """Chain this lane's events of a run, which ``stride`` lanes share; ``back``: the newest one before."""
    i, capacity = begin + d_lane() % stride, ring.pair.shape[0]
    while i < end:
        event = np.int64(rows.order[i])
        place = (first + event + ring.shift) % capacity
        ring.pair[place], ring.alive[place] = np.int32(number), 1
        ring.back[place] = np.int32(first + rows.order[i - 1]) if i > begin else np.int32(back)
        i += stride


@device
def d_add_integers(weights, order, begin, end, whole):
    """Return an integer and the weights of a run as one sum, and how many of them would make it too large."""
    bad = 0
    for i in range(begin, end):
        weight = np.int64(weights[order[i]])
        if (weight > 0 and whole > HIGHEST - weight) or (weight < 0 and whole < LOWEST - weight):
            bad += 1  # LLVM takes sums as never too large
        else:
            whole += weight
    return whole, bad


@partial(
    kernel,
    records={"pairs": RecordArrays, "ring": Chains, "rows": PairRuns, "free": FreeRecords, "saved": Saved},
)
def k_enter_events(
    pairs, ring, rows, free, saved, weights, times, is_float, first, control, mailbox, ticket
):  # fmt: skip
    """One thread owns one row, and acts if its pair has none before: it enters all events of the pair.

    It takes a record for a new pair, chains the events, and counts and adds them up; the warp shares long runs.
    """
    i, lane, width = np.int64(cuda.grid(1)), d_lane(), pairs.records.shape[1]
    acts, is_new, number, cell, end = False, False, np.int64(0), np.int64(0), np.int64(0)
    if i < rows.keys.shape[0]:
        acts = i == 0 or rows.keys[i - 1] != rows.keys[i]
        if acts:
            cell = np.int64(rows.places[i])
            number, end = np.int64(pairs.cells[cell]), d_run_end(rows.keys, i, 0)
            is_new = number == CLAIMED
    place = d_claim(control, NEW, is_new)
    if is_new:
        left = free.num_free - 1 - place
        number = np.int64(free.numbers[left]) if left >= 0 else np.int64(free.used - 1 - left)
        pairs.records[number, KEY], pairs.records[number, STATE] = rows.keys[i], NO_EVENT
        for column in range(HIGH, width):
            pairs.records[number, column] = 0
        saved.listed[place], pairs.cells[cell] = number, np.int32(number)
    place, state = d_claim(control, TOUCHED, acts), np.int64(0)
    if acts:
        d_save(pairs, number, saved, place)
        state = pairs.records[number, STATE]
    d_claim(control, RETURNED, acts and not is_new and state & COUNT == 0)
    is_long = end - i > FEW_ROWS
    high, low, largest, bad = 0.0, 0.0, 0.0, 0
    if acts and not is_long:
        d_chain_events(ring, rows, number, state >> HALF, first, i, end, 1)
        if is_float:
            high, low, largest, bad = d_sum_events(weights, rows.order, i, end, 1)
    waiting = d_ballot(acts and is_long)
    while waiting != 0:
        owner = np.int32(cuda.ffs(waiting)) - 1
        waiting = waiting & (waiting - np.uint32(1))
        begin, stop = d_shuffle(i, owner), d_shuffle(end, owner)
        d_chain_events(ring, rows, d_shuffle(number, owner), d_shuffle(state, owner) >> HALF, first, begin, stop, WARP)
        if is_float:
            one, other, most, wrong = d_sum_events(weights, rows.order, begin, stop, WARP)
            one, other = d_join_lanes(one, other)
            most, wrong = d_max_lanes(most), d_sum_lanes(wrong)
            if lane == owner:
                high, low, largest, bad = one, other, most, wrong
    if acts:
        newest = np.int64(first) + np.int64(rows.order[end - 1])
        pairs.records[number, STATE] = (newest << HALF) | ((state & COUNT) + (end - i))
        if is_float:
            d_add_sum(pairs, number, high, low, largest)
        elif width > HIGH:
            pairs.records[number, HIGH], bad = d_add_integers(weights, rows.order, i, end, pairs.records[number, HIGH])
        if bad:
            cuda.atomic.add(control, BAD, bad)
    if times.shape[0] > 0:
        latest = d_max_lanes(np.int64(times[i]) if i < times.shape[0] else np.int64(LOWEST))
        if lane == 0:
            cuda.atomic.max(control, NEWEST, latest)
    d_post_when_last(control, mailbox, ticket, ARRIVALS)


@device
def d_make_anew(pairs, ring, number, state):
    """Sum the weights of a pair's events along their chain; one thread owns the pair."""
    high, low, peak, count = 0.0, 0.0, 0.0, state & COUNT
    at, capacity = state >> HALF, ring.pair.shape[0]
    while count > 0 and at >= ring.head:
        row = (at + ring.shift) % capacity
        if ring.alive[row] != 0:
            high, low = d_two_sum(high, low, np.float64(ring.weights[row]))
            peak = max(peak, abs(high), abs(np.float64(ring.weights[row])))
            count -= 1
        at = np.int64(ring.back[row])
    pairs.sums[number, HIGH], pairs.sums[number, LOW], pairs.sums[number, PEAK] = high, low, peak


@kernel
def k_pack_rows(pair, alive, rows, keys, control):
    """One thread owns one row that leaves: it packs its record and itself into a key, if there is an event."""
    i = cuda.grid(1)
    row = np.int64(rows[i]) if i < rows.shape[0] else np.int64(0)
    d_claim(control, MISSING, row < 0)
    if i < rows.shape[0]:
        is_there = row >= 0 and alive[row] != 0
        keys[i] = (np.int64(pair[row]) << HALF) | row if is_there else np.int64(NOBODY)


@device
def d_take_events(ring, keys, is_float, begin, end, stride):
    """Take this lane's rows of a run out of the log, each once; return how many, and the sum of less their weights."""
    i, count, high, low = begin + d_lane() % stride, np.int64(0), 0.0, 0.0
    while i < end:
        if i == begin or keys[i - 1] != keys[i]:
            row = keys[i] & LOWER
            ring.alive[row] = 0
            count += 1
            if is_float:
                high, low = d_two_sum(high, low, -np.float64(ring.weights[row]))
        i += stride
    return count, high, low


@partial(kernel, records={"pairs": RecordArrays, "ring": Chains, "saved": Saved})
def k_leave_events(pairs, ring, keys, saved, left, is_float, control, mailbox, ticket):
    """One thread owns one row, and acts if its pair has none before: it takes the pair's events out.

    It takes them out of the record's count and sum; the warp shares long runs.
    """
    i, lane, width = np.int64(cuda.grid(1)), d_lane(), pairs.records.shape[1]
    key, leaves, acts, number, end = np.int64(NOBODY), False, False, np.int64(0), np.int64(0)
    if i < keys.shape[0]:
        key = keys[i]
        before = keys[i - 1] if i > 0 else np.int64(-1)
        leaves = key != NOBODY and before != key
        number = key >> HALF
        acts = leaves and before >> HALF != number
        if acts:
            end = d_run_end(keys, i, HALF)
    place = d_claim(control, LEFT, leaves)
    if leaves:
        left[place] = key & LOWER
    place, state = d_claim(control, TOUCHED, acts), np.int64(0)
    if acts:
        d_save(pairs, number, saved, place)
        state = pairs.records[number, STATE]
    is_long = end - i > FEW_ROWS
    count, high, low = np.int64(0), 0.0, 0.0
    if acts and not is_long:
        count, high, low = d_take_events(ring, keys, is_float, i, end, 1)
    waiting = d_ballot(acts and is_long)
    while waiting != 0:
        owner = np.int32(cuda.ffs(waiting)) - 1
        waiting = waiting & (waiting - np.uint32(1))
        some, one, other = d_take_events(ring, keys, is_float, d_shuffle(i, owner), d_shuffle(end, owner), WARP)
        some = d_sum_lanes(some)
        one, other = d_join_lanes(one, other)
        if lane == owner:
            count, high, low = some, one, other
    d_sync_warp()
    is_gone = False
    if acts:
        state -= count
        pairs.records[number, STATE] = state
        is_gone = state & COUNT == 0
        if is_gone:
            for column in range(HIGH, width):
                pairs.records[number, column] = 0
        elif is_float:
            d_add_sum(pairs, number, high, low, 0.0)
            rest = abs(pairs.sums[number, HIGH])
            if not (KEPT * pairs.sums[number, PEAK] <= rest and rest < math.inf):
                d_make_anew(pairs, ring, number, state)
        elif width > HIGH:
            whole = pairs.records[number, HIGH]
            for j in range(i, end):
                if j == i or keys[j - 1] != keys[j]:
                    whole -= np.int64(ring.weights[keys[j] & LOWER])
            pairs.records[number, HIGH] = whole
    place = d_claim(control, GONE, is_gone)
    if is_gone:
        saved.listed[place] = number
    d_post_when_last(control, mailbox, ticket, ARRIVALS)


@kernel
def k_restore_records(records, touched, before, alive, left):
    """One thread owns one record, or behind them one row of the log: it writes back what was there."""
    i = cuda.grid(1)
    if i < touched.shape[0]:
        for column in range(records.shape[1]):
            records[touched[i], column] = before[i, column]
    elif i - touched.shape[0] < left.shape[0]:
        alive[left[i - touched.shape[0]]] = 1


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
    """Enter events behind the tail of the log; see :func:`dynstore.graph.events.cpu.enter_rows`.

    All kernels are loaded before the first one writes.
    """
    count, width = int(src.shape[0]), int(pairs.records.shape[1])
    control, before, keys, touched, fresh, places = backend.empty_arena(
        (SUMS, np.int64), ((count, width), np.int64), (count, np.int64), *((count, np.int32) for _ in range(3)),
        zeroed=1,
    )  # fmt: skip
    k_pack_pairs.launch(count, src, dst, undirected, keys, control)
    rows = PairRuns(*sort_rows(backend, keys), places)
    nothing, mailbox = backend.nothing(np.float64), Mailbox(backend)
    ticket, saved = mailbox.next_ticket(), Saved(touched, before, fresh)
    given = (nothing if array is None else array for array in (weights, times))
    prepare(
        _enter, count, pairs, rows, *chains_of(ring), *rows, *free, *saved, *given, width > PEAK, ring.tail, control,
        mailbox.words, ticket,
    )()  # fmt: skip
    totals = mailbox.read(backend, ticket)
    newest = None if times is None else totals[NEWEST]
    num_touched = totals[TOUCHED]
    return Entered(
        Touched(touched[:num_touched], before[:num_touched]),
        fresh[: totals[NEW]],
        totals[RETURNED],
        totals[BAD],
        newest,
    )


def _enter(count: int, pairs: RecordArrays, rows: PairRuns, *rest: Any) -> None:
    k_claim_cells.launch(count, *pairs, *rows)
    k_enter_events.launch(count, *pairs, *rest)


def leave_rows(backend: Backend, pairs: RecordArrays, ring: LogArrays, rows: Array) -> Left:
    """Take events out of the log and their pairs; see :func:`dynstore.graph.events.cpu.leave_rows`."""
    count, width = int(rows.shape[0]), int(pairs.records.shape[1])
    control, before, keys, left, touched, gone = backend.empty_arena(
        (SUMS, np.int64), ((count, width), np.int64), (count, np.int64), (count, np.int64), (count, np.int32),
        (count, np.int32), zeroed=1,
    )  # fmt: skip
    k_pack_rows.launch(count, ring.pair, ring.alive, rows, keys, control)
    keys, mailbox = sort_keys(backend, keys), Mailbox(backend)
    ticket, saved = mailbox.next_ticket(), Saved(touched, before, gone)
    k_leave_events.launch(
        count, *pairs, *chains_of(ring), keys, *saved, left, width > PEAK, control, mailbox.words, ticket
    )
    totals = mailbox.read(backend, ticket)
    num_touched = totals[TOUCHED]
    records = Touched(touched[:num_touched], before[:num_touched])
    return Left(left[: totals[LEFT]], records, gone[: totals[GONE]], totals[MISSING])


def restore_records(pairs: RecordArrays, ring: LogArrays, touched: Touched, left: Array) -> None:
    """Take back what an update did to records, and bring events back. Allocates nothing."""
    threads = int(touched.numbers.shape[0]) + int(left.shape[0])
    k_restore_records.launch(threads, pairs.records, *touched, ring.alive, left)
