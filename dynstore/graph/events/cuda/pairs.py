"""The records of pairs on CUDA.

Events that come, or leave, are sorted by the record of their pair. So one warp owns all that an update does to a
record: it needs no atomics, and sums do not depend on the order of threads.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.block import d_claim
from dynstore.cuda.compiler import WARP, cuda, device, kernel, prepare
from dynstore.cuda.warp import d_lane, d_shuffle, d_sync_warp
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
    REMOVED,
    STATE,
    FreeRecords,
    LogArrays,
    RecordArrays,
    Touched,
)
from dynstore.ids.cuda.hash_table import d_find_home
from dynstore.stores.table.selection import count_before, select

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = [
    "Chains",
    "Segments",
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

CLAIMED = -3  # a cell that row i of a batch has claimed holds CLAIMED - i
NEW, BAD = 0, 1  # entries of the counters
LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Chains(NamedTuple):
    """The columns of a log that chains of events lead through; see :class:`~dynstore.graph.events.layout.LogArrays`."""

    pair: Array
    back: Array
    alive: Array
    weights: Array
    shift: Any
    head: Any


class Segments(NamedTuple):
    """Events sorted by the record of their pair: their ``order``, the records, where each begins in the order."""

    order: Array
    numbers: Array
    starts: Array


@device
def d_key(row, column, undirected):
    """Return a pair as a key; of an undirected pair, the lower number comes first."""
    low = min(row, column) if undirected else row
    return (np.int64(low) << HALF) | np.int64(row + column - low)


@device
def d_find_cell(pairs, key):
    """Return the cell of a pair, or the one that ends the search; no thread writes cells meanwhile."""
    mask = pairs.cells.shape[0] - 1
    cell = d_find_home(key, pairs.shift, pairs.seed)
    found = np.int64(pairs.cells[cell])
    while found != EMPTY and (found == REMOVED or pairs.records[found, KEY] != key):
        cell = (cell + 1) & mask
        found = np.int64(pairs.cells[cell])
    return cell


@partial(kernel, records={"pairs": RecordArrays})
def k_find_records(pairs, src, dst, undirected, found):
    """One thread owns one pair: it writes its record, negative for none."""
    i = cuda.grid(1)
    if i < src.shape[0]:
        found[i] = pairs.cells[d_find_cell(pairs, d_key(np.int64(src[i]), np.int64(dst[i]), undirected))]


@partial(kernel, records={"pairs": RecordArrays})
def k_place_records(pairs, numbers):
    """One thread owns one record, distinct and absent: it claims an empty cell by compare and swap."""
    i = cuda.grid(1)
    if i < numbers.shape[0]:
        mask = pairs.cells.shape[0] - 1
        cell = d_find_home(pairs.records[numbers[i], KEY], pairs.shift, pairs.seed)
        while cuda.atomic.cas(pairs.cells, cell, EMPTY, numbers[i]) != EMPTY:
            cell = (cell + 1) & mask


@partial(kernel, records={"pairs": RecordArrays})
def k_remove_records(pairs, numbers):
    """One thread owns one record, distinct and present: its cell becomes REMOVED."""
    i = cuda.grid(1)
    if i < numbers.shape[0]:
        pairs.cells[d_find_cell(pairs, pairs.records[numbers[i], KEY])] = REMOVED


@partial(kernel, records={"pairs": RecordArrays})
def k_claim_cells(pairs, src, dst, undirected, places):
    """One thread owns one row: it finds the cell of its pair. An absent pair claims an empty cell for one of its rows.

    A plain read may be out of date only where it finds a cell empty, and then the swap decides.
    """
    i = cuda.grid(1)
    if i < src.shape[0]:
        key, mask = d_key(np.int64(src[i]), np.int64(dst[i]), undirected), pairs.cells.shape[0] - 1
        cell, other = d_find_home(key, pairs.shift, pairs.seed), np.int64(-1)
        while other != key:
            there = np.int64(pairs.cells[cell])
            if there == EMPTY:
                there = np.int64(cuda.atomic.cas(pairs.cells, cell, EMPTY, np.int32(CLAIMED - i)))
                if there == EMPTY:
                    there = np.int64(CLAIMED - i)
            if there >= 0:
                other = pairs.records[there, KEY]
            elif there <= CLAIMED:
                row = CLAIMED - there
                other = d_key(np.int64(src[row]), np.int64(dst[row]), undirected)
            else:
                other = np.int64(-1)
            if other != key:
                cell = (cell + 1) & mask
        places[i] = cell


@partial(kernel, records={"pairs": RecordArrays})
def k_make_records(pairs, src, dst, undirected, places, free, num_free, used, fresh, counters):
    """One thread owns one row: where it has claimed a cell, it takes a record for its pair."""
    i = cuda.grid(1)
    is_mine, cell = False, np.int64(0)
    if i < src.shape[0]:
        cell = np.int64(places[i])
        is_mine = np.int64(pairs.cells[cell]) == np.int64(CLAIMED - i)
    place = d_claim(counters, NEW, is_mine)
    if is_mine:
        number = np.int64(free[num_free - 1 - place]) if place < num_free else np.int64(used + place - num_free)
        pairs.records[number, KEY] = d_key(np.int64(src[i]), np.int64(dst[i]), undirected)
        pairs.records[number, STATE] = NO_EVENT
        for column in range(HIGH, pairs.records.shape[1]):
            pairs.records[number, column] = 0
        fresh[place] = number
        pairs.cells[cell] = np.int32(number)


@partial(kernel, records={"pairs": RecordArrays})
def k_give_up_cells(pairs, places):
    """One thread owns one row: it removes the cell of a pair that has no events, and the claim of one."""
    i = cuda.grid(1)
    if i < places.shape[0]:
        found = np.int64(pairs.cells[places[i]])
        if found <= CLAIMED or (found >= 0 and pairs.records[found, STATE] == NO_EVENT):
            pairs.cells[places[i]] = REMOVED


@device
def d_two_sum(high, low, weight):
    """Add a number to a sum in two floats; return both (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    total = high + weight
    if math.isinf(total) or math.isnan(total):
        return total, 0.0
    other = total - high
    rest = low + ((high - (total - other)) + (weight - other))
    high = total + rest
    return high, rest - (high - total)


@device
def d_sum_segment(weights, segments, rows, first, last, sign):
    """Return the sum of a segment's weights in two floats, in all lanes; ``rows``: where each weight is."""
    high, low, lane = 0.0, 0.0, d_lane()
    for i in range(first + lane, last, WARP):
        event = segments.order[i]
        high, low = d_two_sum(high, low, sign * np.float64(weights[rows[event] if rows.shape[0] > 0 else event]))
    step = 16
    while step > 0:
        other_high, other_low = d_shuffle(high, lane ^ step), d_shuffle(low, lane ^ step)
        # In the same order in both lanes, so that both have the same sum.
        if lane & step:
            high, low, other_high, other_low = other_high, other_low, high, low
        high, low = d_two_sum(high, low, other_high)
        high, low = d_two_sum(high, low, other_low)
        step >>= 1
    return high, low


@device
def d_save(pairs, number, segment, touched, before):
    """Keep a record as it is."""
    touched[segment] = number
    for column in range(pairs.records.shape[1]):
        before[segment, column] = pairs.records[number, column]


@device
def d_add_sum(pairs, number, high, low, largest):
    """Add a sum in two floats to that of a record."""
    one, other = d_two_sum(pairs.sums[number, HIGH], pairs.sums[number, LOW], high)
    one, other = d_two_sum(one, other, low)
    pairs.sums[number, HIGH], pairs.sums[number, LOW] = one, other
    pairs.sums[number, PEAK] = max(pairs.sums[number, PEAK], abs(one), largest)


@partial(kernel, records={"pairs": RecordArrays, "ring": Chains, "segments": Segments})
def k_enter_events(pairs, ring, segments, weights, is_float, first, row, touched, before, counters):
    """One warp owns the events that come to one pair: it chains them, and counts and adds them up."""
    segment, lane = np.int64(cuda.grid(1)) >> 5, d_lane()
    if segment < segments.starts.shape[0] - 1:
        low, high = np.int64(segments.starts[segment]), np.int64(segments.starts[segment + 1])
        number, capacity = np.int64(segments.numbers[low]), ring.pair.shape[0]
        state = pairs.records[number, STATE]
        for i in range(low + lane, high, WARP):
            event = np.int64(segments.order[i])
            place = (row + event) % capacity
            ring.pair[place] = np.int32(number)
            ring.back[place] = np.int32(first + segments.order[i - 1]) if i > low else np.int32(state >> HALF)
        width = pairs.records.shape[1]
        bad, total, rest, largest, whole = 0, 0.0, 0.0, 0.0, np.int64(0)
        if is_float:
            for i in range(low + lane, high, WARP):
                weight = weights[segments.order[i]]
                bad += math.isnan(weight) or math.isinf(weight)
                largest = max(largest, abs(weight))
            total, rest = d_sum_segment(weights, segments, segments.order[:0], low, high, 1.0)
        d_sync_warp()
        if bad:
            cuda.atomic.add(counters, BAD, 1)
        if is_float:
            step = 16
            while step > 0:
                largest = max(largest, d_shuffle(largest, lane ^ step))
                step >>= 1
        if lane == 0:
            d_save(pairs, number, segment, touched, before)
            newest = np.int64(first) + np.int64(segments.order[high - 1])
            pairs.records[number, STATE] = (newest << HALF) | ((state & COUNT) + (high - low))
            if is_float:
                d_add_sum(pairs, number, total, rest, largest)
            elif width > HIGH:
                whole = pairs.records[number, HIGH]
                for i in range(low, high):
                    weight = np.int64(weights[segments.order[i]])
                    if (weight > 0 and whole > HIGHEST - weight) or (weight < 0 and whole < LOWEST - weight):
                        cuda.atomic.add(counters, BAD, 1)  # LLVM takes sums as never too large
                    else:
                        whole += weight
                pairs.records[number, HIGH] = whole


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


@partial(kernel, records={"pairs": RecordArrays, "ring": Chains, "segments": Segments})
def k_leave_events(pairs, ring, segments, rows, is_float, touched, before, gone, counters):
    """One warp owns the events that leave one pair: it takes them out of its count and its sum."""
    segment, lane = np.int64(cuda.grid(1)) >> 5, d_lane()
    is_gone, number = False, np.int64(0)
    if segment < segments.starts.shape[0] - 1:
        low, high = np.int64(segments.starts[segment]), np.int64(segments.starts[segment + 1])
        number = np.int64(segments.numbers[low])
        width, state = pairs.records.shape[1], pairs.records[number, STATE]
        for i in range(low + lane, high, WARP):
            ring.alive[rows[segments.order[i]]] = 0
        total, rest = 0.0, 0.0
        if is_float:
            total, rest = d_sum_segment(ring.weights, segments, rows, low, high, -1.0)
        d_sync_warp()
        if lane == 0:
            d_save(pairs, number, segment, touched, before)
            state -= high - low
            pairs.records[number, STATE] = state
            is_gone = state & COUNT == 0
            if is_gone:
                for column in range(HIGH, width):
                    pairs.records[number, column] = 0
            elif is_float:
                d_add_sum(pairs, number, total, rest, 0.0)
                left = abs(pairs.sums[number, HIGH])
                if not (KEPT * pairs.sums[number, PEAK] <= left and left < math.inf):
                    d_make_anew(pairs, ring, number, state)
            elif width > HIGH:
                whole = pairs.records[number, HIGH]
                for i in range(low, high):
                    whole -= np.int64(ring.weights[rows[segments.order[i]]])
                pairs.records[number, HIGH] = whole
    place = d_claim(counters, NEW, is_gone)
    if is_gone:
        gone[place] = number


@kernel
def k_restore_records(records, touched, before, alive, left):
    """One thread owns one record, or behind them one row of the log: it writes back what was there."""
    i = cuda.grid(1)
    if i < touched.shape[0]:
        for column in range(records.shape[1]):
            records[touched[i], column] = before[i, column]
    elif i - touched.shape[0] < left.shape[0]:
        alive[left[i - touched.shape[0]]] = 1


@partial(kernel, records={"ring": Chains})
def k_collect_rows(records, ring, numbers, starts, rows):
    """One thread owns one pair: it writes the rows of its events, the newest first."""
    i = cuda.grid(1)
    if i < numbers.shape[0]:
        state, capacity = records[numbers[i], STATE], ring.pair.shape[0]
        at, left, place = state >> HALF, state & COUNT, np.int64(starts[i])
        while left > 0:
            row = (at + ring.shift) % capacity
            if ring.alive[row] != 0:
                rows[place] = row
                place += 1
                left -= 1
            at = np.int64(ring.back[row])


@partial(kernel, records={"segments": Segments})
def k_sum_segments(segments, weights, sums):
    """One warp owns the weights of one number: it adds them up, in two floats or as integers."""
    segment, lane = np.int64(cuda.grid(1)) >> 5, d_lane()
    if segment < segments.starts.shape[0] - 1:
        low, high = np.int64(segments.starts[segment]), np.int64(segments.starts[segment + 1])
        total, rest = d_sum_segment(weights, segments, segments.order[:0], low, high, 1.0)
        if lane == 0:
            sums[segments.numbers[low]] = total + rest


@kernel
def k_sum_integers(numbers, weights, sums):
    """One thread owns one weight: it adds it to the sum of its number."""
    i = cuda.grid(1)
    if i < numbers.shape[0]:
        cuda.atomic.add(sums, numbers[i], np.int64(weights[i]))


def sum_weights(backend: Backend, numbers: Array, weights: Array, size: int) -> Array:
    """Return the sum of the weights by number; see :func:`dynstore.graph.events.cpu.sum_weights`."""
    if weights.dtype.kind != "f":
        whole = backend.zeros(size, np.int64)
        k_sum_integers.launch(numbers.shape[0], numbers, weights, whole)
        return whole.astype(np.float64)
    segments, sums = _segments(backend, numbers), backend.zeros(size, np.float64)
    k_sum_segments.launch_warps(max(int(segments.starts.shape[0]) - 1, 0), *segments, weights, sums)
    return sums


@kernel
def k_mark_slots(stored, valid, wanted, marks):
    """One thread owns one slot: it marks a pair whose record is wanted."""
    slot = np.int64(cuda.grid(1))
    if slot < stored.shape[0]:
        held = (valid[slot >> 5] >> np.uint32(slot & 31)) & np.uint32(1)
        marks[slot] = held != 0 and wanted[stored[slot]]


def select_pairs(
    backend: Backend, slots: SlotArrays, num_vertices: int, wanted: Array, most: int
) -> tuple[Array, Array, Array, Array]:
    """Return the pairs in a store whose records are wanted; see :func:`dynstore.graph.events.cpu.select_pairs`."""
    marks = backend.empty(slots.num_slots, np.bool_)
    k_mark_slots.launch(slots.num_slots, slots.weights, slots.valid, wanted, marks)
    offsets = count_before(backend, marks, slots.offsets[: num_vertices + 1])
    src, dst, numbers = select(backend, slots.columns, marks, slots.memory)
    assert numbers is not None
    return src, dst, numbers, offsets


def find_records(backend: Backend, pairs: RecordArrays, src: Array, dst: Array, undirected: bool) -> Array:
    """Return the record of each pair; see :func:`dynstore.graph.events.cpu.find_records`."""
    found = backend.empty(src.shape[0], np.int32)
    k_find_records.launch(src.shape[0], *pairs, src, dst, undirected, found)
    return found


def place_records(pairs: RecordArrays, numbers: Array) -> None:
    """Put records into a table that has cells for them and none of them. Allocates nothing."""
    k_place_records.launch(numbers.shape[0], *pairs, numbers)


def remove_records(pairs: RecordArrays, numbers: Array) -> None:
    """Take records out of the cells. Allocates nothing."""
    k_remove_records.launch(numbers.shape[0], *pairs, numbers)


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
    """Enter events behind the tail of the log; see :func:`dynstore.graph.events.cpu.enter_rows`."""
    count, width = int(src.shape[0]), int(pairs.records.shape[1])
    counters, places, fresh = backend.empty_arena((2, np.int64), (count, np.int32), (count, np.int32), zeroed=1)
    given = backend.nothing(np.float64) if weights is None else weights
    places.fill(0)  # a cell that no claim is in, where the first launch fails
    give_up = prepare(k_give_up_cells.launch, count, *pairs, places)
    try:
        k_claim_cells.launch(count, *pairs, src, dst, undirected, places)
        k_make_records.launch(count, *pairs, src, dst, undirected, places, *free, fresh, counters)
        segments = _segments(backend, pairs.cells[places])
        touched, before = _room(backend, segments, width)
        k_enter_events.launch_warps(
            touched.shape[0], *pairs, *_chains(ring), *segments, given, width > PEAK, ring.tail, ring.next_row, touched,
            before, counters,
        )  # fmt: skip
    except BaseException:
        give_up()
        raise
    num_new, bad = backend.to_host(counters).tolist()
    return Touched(touched, before), fresh[:num_new], bad


def leave_rows(backend: Backend, pairs: RecordArrays, ring: LogArrays, rows: Array) -> tuple[Array, Touched, Array]:
    """Take events out of the log and their pairs; see :func:`dynstore.graph.events.cpu.leave_rows`."""
    width = int(pairs.records.shape[1])
    rows = backend.xp.unique(rows)
    rows = rows[ring.alive[rows] != 0]
    segments = _segments(backend, ring.pair[rows])
    touched, before = _room(backend, segments, width)
    gone, counters = backend.empty(touched.shape[0], np.int32), backend.zeros(2, np.int64)
    k_leave_events.launch_warps(
        touched.shape[0], *pairs, *_chains(ring), *segments, rows, width > PEAK, touched, before, gone, counters
    )
    return rows, Touched(touched, before), gone[: int(backend.to_host(counters)[NEW])]


def _segments(backend: Backend, numbers: Array) -> Segments:
    """Return events sorted by the record of their pair; of one record in order."""
    xp, count = backend.xp, int(numbers.shape[0])
    order = xp.argsort(numbers, kind="stable")
    ordered = numbers[order]
    begins = backend.empty(count + 1, np.bool_)
    begins[:1] = begins[count:] = True
    begins[1:count] = ordered[1:] != ordered[:-1]
    return Segments(order, ordered, xp.nonzero(begins)[0])


def _room(backend: Backend, segments: Segments, width: int) -> tuple[Array, Array]:
    """Return room for the records of segments as they were."""
    count = max(int(segments.starts.shape[0]) - 1, 0)
    return backend.empty(count, np.int32), backend.empty((count, width), np.int64)


def _chains(ring: LogArrays) -> Chains:
    return Chains(ring.pair, ring.back, ring.alive, ring.weights, ring.shift, ring.head)


def restore_records(pairs: RecordArrays, ring: LogArrays, touched: Touched, left: Array) -> None:
    """Take back what an update did to records, and bring events back. Allocates nothing."""
    threads = int(touched.numbers.shape[0]) + int(left.shape[0])
    k_restore_records.launch(threads, pairs.records, *touched, ring.alive, left)


def collect_rows(backend: Backend, pairs: RecordArrays, ring: LogArrays, numbers: Array, counts: Array) -> Array:
    """Return the rows of the events of pairs: of each pair so many, the newest first."""
    ends = backend.xp.cumsum(counts)
    rows = backend.empty(int(ends[-1]) if ends.shape[0] else 0, np.int64)
    k_collect_rows.launch(numbers.shape[0], pairs.records, *_chains(ring), numbers, ends - counts, rows)
    return rows


def relink_events(backend: Backend, pairs: RecordArrays, used: int, ring: LogArrays) -> None:
    """Make the chains of the first ``used`` records anew, for events that got other numbers; all are there."""
    xp, records = backend.xp, pairs.records
    records[:used, STATE] = records[:used, STATE] & LOWER | NO_EVENT
    rows = (xp.arange(ring.head, ring.tail, dtype=np.int64) + ring.shift) % ring.capacity
    if not rows.shape[0]:
        return
    segments = _segments(backend, ring.pair[rows])
    numbers, ordered = segments.order + ring.head, segments.numbers.astype(np.int64)
    before = backend.empty(numbers.shape[0], np.int32)
    before[1:] = numbers[:-1]
    before[segments.starts[:-1]] = -1
    ring.back[rows[segments.order]] = before
    last = segments.starts[1:] - 1
    records[ordered[last], STATE] = numbers[last] << HALF | records[ordered[last], STATE] & LOWER
