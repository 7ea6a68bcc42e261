"""The rows of the log on CUDA: by time, and by id."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.cuda.block import BOARD, d_scan_tile, d_sum_block
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.grid import ARRIVALS, SUMS
from dynstore.cuda.mailbox import Mailbox, d_post_totals
from dynstore.cuda.warp import d_bound_lanes, d_lane
from dynstore.graph.events.layout import BLOCK, BLOCK_SHIFT, EMPTY, LogArrays
from dynstore.ids.cuda.hash_table import d_find_home
from dynstore.ids.hash_table import shift_of

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = [
    "TimedRows",
    "find_ascending",
    "find_hashed",
    "first_alive",
    "narrow_bounds",
    "place_ids",
    "rows_in_time",
    "widen_bounds",
]

LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
FIRST_CHUNK = 1 << 16


class TimedRows(NamedTuple):
    """What the search by time reads of a log; see :class:`~dynstore.graph.events.layout.LogArrays`."""

    times: Array
    alive: Array
    lows: Array
    highs: Array


@device
def d_look_at_block(ring, unit, first_row):
    """Return the rows of a block, as bounds, and its number; blocks are counted in order of arrival, the first twice.

    The first time it has the rows of the oldest events, the last time those of the newest.
    """
    block = ((first_row >> BLOCK_SHIFT) + unit) % ring.lows.shape[0]
    low = block << BLOCK_SHIFT
    high = min(low + BLOCK, ring.times.shape[0])
    if unit == 0:
        low = first_row
    elif unit == ring.lows.shape[0]:
        high = first_row
    return low, high, block


@device
def d_is_in_time(ring, row, high, first_row, count, start, end):
    """Whether a row below ``high`` has an event of some time."""
    if row >= high:
        return False
    age = row - first_row
    if age < 0:
        age += ring.times.shape[0]
    return age < count and ring.alive[row] != 0 and start <= ring.times[row] and ring.times[row] <= end


@partial(kernel, records={"ring": TimedRows})
def k_count_in_time(ring, first_row, count, start, end, ends, control, mailbox, ticket):
    """A block of threads owns a block of rows: it counts the events of some time. The last one posts the sum."""
    board, is_last = cuda.shared.array(BOARD, np.int64), cuda.shared.array(1, np.int64)
    unit, found = np.int64(cuda.blockIdx.x), np.int64(0)
    low, high, block = d_look_at_block(ring, unit, first_row)
    if ring.lows[block] <= end and ring.highs[block] >= start:
        for row in range(low + cuda.threadIdx.x, high, cuda.blockDim.x):
            found += d_is_in_time(ring, row, high, first_row, count, start, end)
    found = d_sum_block(found, board)
    if cuda.threadIdx.x == 0:
        ends[unit] = found
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(control, ARRIVALS, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0]:
        cuda.threadfence()
        base, total = np.int64(0), np.int64(0)
        while base < ends.shape[0]:
            i = base + cuda.threadIdx.x
            found = ends[i] if i < ends.shape[0] else np.int64(0)
            before, more = d_scan_tile(found, board)
            if i < ends.shape[0]:
                ends[i] = total + before + found
            total += more
            base += cuda.blockDim.x
        if cuda.threadIdx.x == 0:
            control[0] = total
            d_post_totals(control, mailbox, ticket)


@partial(kernel, records={"ring": TimedRows})
def k_list_in_time(ring, first_row, count, start, end, ends, rows):
    """A block of threads owns a block of rows: it lists the events of some time, in order."""
    board, unit = cuda.shared.array(BOARD, np.int64), np.int64(cuda.blockIdx.x)
    place = ends[unit - 1] if unit > 0 else np.int64(0)
    if ends[unit] > place:
        low, high, _ = d_look_at_block(ring, unit, first_row)
        while low < high:
            row = low + cuda.threadIdx.x
            chosen = d_is_in_time(ring, row, high, first_row, count, start, end)
            before, more = d_scan_tile(np.int64(chosen), board)
            if chosen:
                rows[place + before] = row
            place += more
            low += cuda.blockDim.x


@kernel
def k_widen_bounds(times, lows, highs, row, capacity):
    """One thread owns one event that comes: it widens the bounds of its block, if they do not have its time."""
    i = np.int64(cuda.grid(1))
    if i < times.shape[0]:
        block, time = ((row + i) % capacity) >> BLOCK_SHIFT, np.int64(times[i])
        if time < lows[block]:
            cuda.atomic.min(lows, block, time)
        if time > highs[block]:
            cuda.atomic.max(highs, block, time)


@kernel
def k_narrow_bounds(times, alive, bound, first_row, count, lows, highs):
    """A block of threads owns a block of rows: with times below ``bound``, its bounds become those of its events."""
    block, bounds = np.int64(cuda.blockIdx.x), cuda.shared.array(2, np.int64)
    if lows[block] < bound:
        if cuda.threadIdx.x == 0:
            bounds[0], bounds[1] = HIGHEST, LOWEST
        cuda.syncthreads()
        low, high = np.int64(HIGHEST), np.int64(LOWEST)
        last = min((block + 1) << BLOCK_SHIFT, times.shape[0])
        for row in range((block << BLOCK_SHIFT) + cuda.threadIdx.x, last, cuda.blockDim.x):
            age = row - first_row
            if age < 0:
                age += times.shape[0]
            if age < count and alive[row] != 0:
                low, high = min(low, np.int64(times[row])), max(high, np.int64(times[row]))
        low, high, _, _ = d_bound_lanes(low, high, low, high)
        if d_lane() == 0:
            cuda.atomic.min(bounds, 0, low)
            cuda.atomic.max(bounds, 1, high)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            lows[block], highs[block] = bounds[0], bounds[1]


@kernel
def k_find_ascending(ids, alive, head, tail, shift, wanted, found):
    """One thread owns one id; ids ascend with the number of the event. It writes the row, -1 where there is none."""
    i = cuda.grid(1)
    if i < wanted.shape[0]:
        low, high, capacity, one = np.int64(head), np.int64(tail), ids.shape[0], wanted[i]
        if low < high:
            first = ids[(low + shift) % capacity]  # ids that are counted up have no gaps
            guess = low + (one - first) if (first < 0) == (one < 0) else np.int64(-1)
            if low <= guess and guess < high and ids[(guess + shift) % capacity] == one:
                low = high = guess
        while low < high:
            middle = (low + high) >> 1
            if ids[(middle + shift) % capacity] < one:
                low = middle + 1
            else:
                high = middle
        row = (low + shift) % capacity
        found[i] = row if low < tail and ids[row] == one and alive[row] != 0 else np.int64(-1)


@kernel
def k_find_hashed(cells, cell_shift, seed, ids, alive, first_row, count, wanted, found):
    """One thread owns one id: it searches a table of rows. It writes the row, -1 where there is none."""
    i = cuda.grid(1)
    if i < wanted.shape[0]:
        mask, one, result = cells.shape[0] - 1, wanted[i], np.int64(-1)
        cell = d_find_home(one, cell_shift, seed)
        row = np.int64(cells[cell])
        while row != EMPTY and result < 0:
            age = row - first_row
            if age < 0:
                age += ids.shape[0]
            if age < count and alive[row] != 0 and ids[row] == one:
                result = row
            cell = (cell + 1) & mask
            row = np.int64(cells[cell])
        found[i] = result


@kernel
def k_place_ids(cells, cell_shift, seed, ids, rows):
    """One thread owns one row: it claims an empty cell by compare and swap."""
    i = cuda.grid(1)
    if i < rows.shape[0]:
        mask = cells.shape[0] - 1
        cell = d_find_home(ids[rows[i]], cell_shift, seed)
        while cuda.atomic.cas(cells, cell, EMPTY, np.int32(rows[i])) != EMPTY:
            cell = (cell + 1) & mask


def rows_in_time(backend: Backend, ring: LogArrays, low: int, high: int) -> Array:
    """Return the rows of the events with ``low <= time <= high``, in order of arrival."""
    timed, units = TimedRows(ring.times, ring.alive, ring.lows, ring.highs), int(ring.lows.shape[0]) + 1
    control, ends = backend.empty_arena((SUMS, np.int64), (units, np.int64), zeroed=1)
    given, mailbox = (ring.first_row, ring.span, low, high, ends), Mailbox(backend)
    ticket = mailbox.next_ticket()
    k_count_in_time.launch(units * k_count_in_time.threads, *timed, *given, control, mailbox.words, ticket)
    rows = backend.empty(mailbox.read(backend, ticket)[0], np.int64)
    if rows.shape[0]:
        k_list_in_time.launch(units * k_list_in_time.threads, *timed, *given, rows)
    return rows


def widen_bounds(ring: LogArrays, times: Array) -> None:
    """Widen the bounds of the blocks of events that are written behind the tail."""
    k_widen_bounds.launch(times.shape[0], times, ring.lows, ring.highs, ring.next_row, ring.capacity)


def narrow_bounds(ring: LogArrays, bound: int) -> None:
    """Make the bounds of the blocks with times below ``bound`` those of the events there. Allocates nothing."""
    k_narrow_bounds.launch(
        ring.lows.shape[0] * k_narrow_bounds.threads, ring.times, ring.alive, bound, ring.first_row, ring.span,
        ring.lows, ring.highs,
    )  # fmt: skip


def first_alive(ring: LogArrays) -> int:
    """Return the number of the oldest event that is there, or the tail."""
    head, chunk = ring.head, FIRST_CHUNK
    while head < ring.tail:
        row = (head + ring.shift) % ring.capacity
        part = ring.alive[row : row + min(chunk, ring.tail - head)]
        place = int(part.argmax())
        if int(part[place]):
            return head + place
        head, chunk = head + int(part.shape[0]), 4 * chunk
    return ring.tail


def find_ascending(backend: Backend, ring: LogArrays, wanted: Array) -> Array:
    """Return the row of the event with each id, -1 if there is none; ids ascend along the log."""
    found = backend.empty(wanted.shape[0], np.int64)
    k_find_ascending.launch(wanted.shape[0], ring.ids, ring.alive, ring.head, ring.tail, ring.shift, wanted, found)
    return found


def find_hashed(backend: Backend, ring: LogArrays, cells: Array, seed: int, wanted: Array) -> Array:
    """Return the row of the event with each id, -1 if there is none, by a table of rows."""
    found, shift = backend.empty(wanted.shape[0], np.int64), shift_of(cells.shape[0])
    k_find_hashed.launch(
        wanted.shape[0], cells, shift, seed, ring.ids, ring.alive, ring.first_row, ring.span, wanted, found
    )
    return found


def place_ids(ring: LogArrays, cells: Array, seed: int, rows: Array) -> None:
    """Put rows into a table that has cells for them. Allocates nothing."""
    k_place_ids.launch(rows.shape[0], cells, shift_of(cells.shape[0]), seed, ring.ids, rows)
