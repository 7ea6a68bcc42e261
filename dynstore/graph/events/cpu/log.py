"""The rows of the log on the host: by time, and by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.graph.events.layout import BLOCK, EMPTY, LogArrays
from dynstore.host_compiler import njit
from dynstore.ids.cpu.hash_table import find_home
from dynstore.ids.hash_table import shift_of
from dynstore.stores.table.cpu.memory import prefetch

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

# Rows whose cache misses overlap.
AHEAD = 16
LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@njit(cache=True)
def _rows_in_time(times, alive, blocks, first_row, count, start, end, rows):
    found, capacity = 0, times.shape[0]
    for block in blocks:
        for row in range(block * BLOCK, min((block + 1) * BLOCK, capacity)):
            age = row - first_row
            age += capacity if age < 0 else 0
            if age < count and start <= times[row] <= end and alive[row]:
                rows[found] = row
                found += 1
    return found


@njit(cache=True)
def _widen(times, lows, highs, row, capacity):
    for i in range(times.shape[0]):
        block = row // BLOCK
        lows[block] = min(lows[block], times[i])
        highs[block] = max(highs[block], times[i])
        row += 1
        if row == capacity:
            row = 0


@njit(cache=True)
def _narrow(times, alive, bound, first_row, count, lows, highs):
    """Make the bounds of blocks with times below ``bound`` those of the events that are there."""
    capacity = times.shape[0]
    for block in range(lows.shape[0]):
        if lows[block] >= bound:
            continue
        low, high = HIGHEST, LOWEST
        for row in range(block * BLOCK, min((block + 1) * BLOCK, capacity)):
            age = row - first_row
            age += capacity if age < 0 else 0
            if age < count and alive[row]:
                low, high = min(low, times[row]), max(high, times[row])
        lows[block], highs[block] = low, high


@njit(cache=True)
def _first_alive(alive, head, tail, shift):
    while head < tail and alive[(head + shift) % alive.shape[0]] == 0:
        head += 1
    return head


@njit(cache=True)
def _find_ascending(ids, alive, head, tail, shift, wanted, found):
    """Search ids that ascend with the number of the event; write the row of each, -1 where there is none."""
    capacity = ids.shape[0]
    for i in range(wanted.shape[0]):
        low, high = head, tail
        if low < high:
            first = ids[(head + shift) % capacity]  # ids that are counted up have no gaps
            guess = head + (wanted[i] - first) if (first < 0) == (wanted[i] < 0) else np.int64(-1)
            if head <= guess < tail and ids[(guess + shift) % capacity] == wanted[i]:
                low = high = guess
        while low < high:
            middle = (low + high) >> 1
            if ids[(middle + shift) % capacity] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        row = (low + shift) % capacity
        is_there = low < tail and ids[row] == wanted[i] and alive[row] != 0
        found[i] = row if is_there else -1


@njit(cache=True)
def _find_hashed(cells, cell_shift, seed, ids, alive, first_row, count, wanted, found):
    """Search ids by a table of rows; write the row of each, -1 where there is none."""
    mask, capacity = cells.shape[0] - 1, ids.shape[0]
    for i in range(wanted.shape[0]):
        if i + AHEAD < wanted.shape[0]:
            prefetch(cells, find_home(wanted[i + AHEAD], cell_shift, seed))
        cell = find_home(wanted[i], cell_shift, seed)
        found[i] = -1
        while cells[cell] != EMPTY:
            row = np.int64(cells[cell])
            age = row - first_row
            age += capacity if age < 0 else 0
            if age < count and alive[row] and ids[row] == wanted[i]:
                found[i] = row
                break
            cell = (cell + 1) & mask


@njit(cache=True)
def _place_ids(cells, cell_shift, seed, ids, rows):
    mask = cells.shape[0] - 1
    for i in range(rows.shape[0]):
        if i + AHEAD < rows.shape[0]:
            prefetch(cells, find_home(ids[rows[i + AHEAD]], cell_shift, seed))
        cell = find_home(ids[rows[i]], cell_shift, seed)
        while cells[cell] != EMPTY:
            cell = (cell + 1) & mask
        cells[cell] = rows[i]


def rows_in_time(backend: Backend, ring: LogArrays, low: int, high: int) -> Array:
    """Return the rows of the events with ``low <= time <= high``, in order of arrival."""
    blocks, first = np.nonzero((ring.lows <= high) & (ring.highs >= low))[0], ring.first_row
    rows = np.empty(blocks.shape[0] * BLOCK, np.int64)
    rows = rows[: _rows_in_time(ring.times, ring.alive, blocks, first, ring.span, low, high, rows)]
    if first + ring.span > ring.capacity:  # the newest are in the first rows
        rows = np.concatenate((rows[rows >= first], rows[rows < first]))
    return rows


def widen_bounds(ring: LogArrays, times: Array) -> None:
    """Widen the bounds of the blocks of events that are written behind the tail."""
    _widen(times, ring.lows, ring.highs, ring.next_row, ring.capacity)


def narrow_bounds(ring: LogArrays, bound: int) -> None:
    """Make the bounds of the blocks with times below ``bound`` those of the events that are there."""
    _narrow(ring.times, ring.alive, bound, ring.first_row, ring.span, ring.lows, ring.highs)


def first_alive(ring: LogArrays) -> int:
    """Return the number of the oldest event that is there, or the tail."""
    return int(_first_alive(ring.alive, ring.head, ring.tail, ring.shift))


def find_ascending(backend: Backend, ring: LogArrays, wanted: Array) -> Array:
    """Return the row of the event with each id, -1 if there is none; ids ascend along the log."""
    found = np.empty(wanted.shape[0], np.int64)
    _find_ascending(ring.ids, ring.alive, ring.head, ring.tail, ring.shift, wanted, found)
    return found


def find_hashed(backend: Backend, ring: LogArrays, cells: Array, seed: int, wanted: Array) -> Array:
    """Return the row of the event with each id, -1 if there is none, by a table of rows."""
    found, shift = np.empty(wanted.shape[0], np.int64), shift_of(cells.shape[0])
    _find_hashed(cells, shift, seed, ring.ids, ring.alive, ring.first_row, ring.span, wanted, found)
    return found


def place_ids(ring: LogArrays, cells: Array, seed: int, rows: Array) -> None:
    """Put rows into a table that has cells for them."""
    _place_ids(cells, shift_of(cells.shape[0]), seed, ring.ids, rows)
