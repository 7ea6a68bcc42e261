"""The rows of the log on CUDA: by time, and by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import WARP, cuda, kernel
from dynstore.cuda.warp import d_lane, d_shuffle
from dynstore.graph.events.layout import BLOCK, BLOCK_SHIFT, EMPTY, LogArrays
from dynstore.ids.cuda.hash_table import d_find_home
from dynstore.ids.hash_table import shift_of

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = [
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


@kernel
def k_mark_in_time(times, alive, blocks, first_row, count, start, end, marks):
    """One thread owns one row of the chosen blocks: it marks an event of some time."""
    i = np.int64(cuda.grid(1))
    if i < marks.shape[0]:
        row = (np.int64(blocks[i >> BLOCK_SHIFT]) << BLOCK_SHIFT) + (i & (BLOCK - 1))
        chosen = False
        if row < times.shape[0]:
            age = row - first_row
            if age < 0:
                age += times.shape[0]
            chosen = age < count and alive[row] != 0 and start <= times[row] and times[row] <= end
        marks[i] = chosen


@kernel
def k_widen_bounds(times, lows, highs, row, capacity):
    """One thread owns one event that comes: it widens the bounds of its block."""
    i = np.int64(cuda.grid(1))
    if i < times.shape[0]:
        block = ((row + i) % capacity) >> BLOCK_SHIFT
        cuda.atomic.min(lows, block, np.int64(times[i]))
        cuda.atomic.max(highs, block, np.int64(times[i]))


@kernel
def k_narrow_bounds(times, alive, blocks, first_row, count, lows, highs):
    """One warp owns one block of rows: its bounds become those of the events that are there."""
    i, lane = np.int64(cuda.grid(1)) >> 5, d_lane()
    if i < blocks.shape[0]:
        low, high, block = np.int64(HIGHEST), np.int64(LOWEST), np.int64(blocks[i])
        for row in range((block << BLOCK_SHIFT) + lane, min((block + 1) << BLOCK_SHIFT, times.shape[0]), WARP):
            age = row - first_row
            if age < 0:
                age += times.shape[0]
            if age < count and alive[row] != 0:
                low, high = min(low, np.int64(times[row])), max(high, np.int64(times[row]))
        step = 16
        while step > 0:
            low = min(low, d_shuffle(low, lane ^ step))
            high = max(high, d_shuffle(high, lane ^ step))
            step >>= 1
        if lane == 0:
            lows[block], highs[block] = low, high


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


def rows_in_time(backend: Backend, ring: LogArrays, blocks: Array, low: int, high: int) -> Array:
    """Return the rows of the events with ``low <= time <= high`` in some blocks, ascending."""
    marks = backend.empty(int(blocks.shape[0]) << BLOCK_SHIFT, np.bool_)
    k_mark_in_time.launch(marks.shape[0], ring.times, ring.alive, blocks, ring.first_row, ring.span, low, high, marks)
    places = backend.xp.nonzero(marks)[0]
    return (blocks[places >> BLOCK_SHIFT] << BLOCK_SHIFT) + (places & (BLOCK - 1))


def widen_bounds(ring: LogArrays, times: Array) -> None:
    """Widen the bounds of the blocks of events that are written behind the tail."""
    k_widen_bounds.launch(times.shape[0], times, ring.lows, ring.highs, ring.next_row, ring.capacity)


def narrow_bounds(ring: LogArrays, blocks: Array) -> None:
    """Make the bounds of some blocks those of the events that are there. Allocates nothing."""
    k_narrow_bounds.launch_warps(
        blocks.shape[0], ring.times, ring.alive, blocks, ring.first_row, ring.span, ring.lows, ring.highs
    )


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
