"""The records of pairs on CUDA; see :mod:`dynstore.graph.events.cuda.rows` for what changes them."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.warp import d_lane, d_shuffle
from dynstore.graph.events.layout import (
    COUNT,
    EMPTY,
    HALF,
    KEY,
    LOWER,
    NO_EVENT,
    REMOVED,
    STATE,
    LogArrays,
    RecordArrays,
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
    "chains_of",
    "collect_rows",
    "find_records",
    "place_records",
    "read_ends",
    "relink_events",
    "remove_records",
    "select_pairs",
    "sum_weights",
]


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
def d_join_lanes(high, low):
    """Return the sum of all lanes' sums, each in two floats."""
    lane, step = d_lane(), 16
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
def d_sum_events(weights, order, begin, end, stride):
    """Sum this lane's weights of a run, in two floats, find the greatest, and count those that are not finite."""
    i, high, low, largest, bad = begin + d_lane() % stride, 0.0, 0.0, 0.0, 0
    while i < end:
        weight = np.float64(weights[order[i]])
        if math.isnan(weight) or math.isinf(weight):
            bad += 1
        else:
            largest = max(largest, abs(weight))
            high, low = d_two_sum(high, low, weight)
        i += stride
    return high, low, largest, bad


@kernel
def k_read_ends(records, numbers, src, dst):
    """One thread owns one record: it writes its pair."""
    i = cuda.grid(1)
    if i < numbers.shape[0]:
        key = records[numbers[i], KEY]
        src[i], dst[i] = np.int32(key >> HALF), np.int32(key & LOWER)


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
        begin, end = np.int64(segments.starts[segment]), np.int64(segments.starts[segment + 1])
        high, low, _, _ = d_sum_events(weights, segments.order, begin, end, WARP)
        high, low = d_join_lanes(high, low)
        if lane == 0:
            sums[segments.numbers[begin]] = high + low


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


def read_ends(backend: Backend, pairs: RecordArrays, numbers: Array) -> tuple[Array, Array]:
    """Return the pairs of records; see :func:`dynstore.graph.events.cpu.pairs.read_ends`."""
    src, dst = (backend.empty(numbers.shape[0], np.int32) for _ in range(2))
    k_read_ends.launch(numbers.shape[0], pairs.records, numbers, src, dst)
    return src, dst


def _segments(backend: Backend, numbers: Array) -> Segments:
    """Return events sorted by the record of their pair; of one record in order."""
    xp, count = backend.xp, int(numbers.shape[0])
    order = xp.argsort(numbers, kind="stable")
    ordered = numbers[order]
    begins = backend.empty(count + 1, np.bool_)
    begins[:1] = begins[count:] = True
    begins[1:count] = ordered[1:] != ordered[:-1]
    return Segments(order, ordered, xp.nonzero(begins)[0])


def chains_of(ring: LogArrays) -> Chains:
    """Return what chains lead through."""
    return Chains(ring.pair, ring.back, ring.alive, ring.weights, ring.shift, ring.head)


def collect_rows(backend: Backend, pairs: RecordArrays, ring: LogArrays, numbers: Array, counts: Array) -> Array:
    """Return the rows of the events of pairs: of each pair so many, the newest first."""
    ends = backend.xp.cumsum(counts)
    rows = backend.empty(int(ends[-1]) if ends.shape[0] else 0, np.int64)
    k_collect_rows.launch(numbers.shape[0], pairs.records, *chains_of(ring), numbers, ends - counts, rows)
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
