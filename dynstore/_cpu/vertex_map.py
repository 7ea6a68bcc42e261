"""A hash table of vertex ids on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from dynstore.hash_table import EMPTY, MULTIPLIER, REMOVED

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.hash_table import HashTable
    from dynstore.typing import Array

__all__ = ["insert_keys", "look_up_keys", "remove_keys", "write_keys"]

# Keys taken side by side, so that their cache misses overlap.
LANES = 64
FACTOR = np.uint64(MULTIPLIER)
HALF = np.uint64(32)


@njit(cache=True, inline="always")
def _home(key, shift):
    """Return the slot that a key's search begins with."""
    bits = np.uint64(key)
    return np.int64(((bits ^ (bits >> HALF)) * FACTOR) >> np.uint64(shift))


@njit(cache=True)
def _look_up(cells, shift, keys, numbers):
    """Read the home slots of LANES keys without a branch on what is there, then go on with those that are elsewhere."""
    mask = cells.shape[0] // 2 - 1
    slots, rest = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    for first in range(0, keys.shape[0], LANES):
        part, out = keys[first : first + LANES], numbers[first : first + LANES]
        for lane in range(part.shape[0]):
            slots[lane] = _home(part[lane], shift)
        left = 0
        for lane in range(part.shape[0]):
            cell = 2 * slots[lane]
            out[lane] = cells[cell + 1]
            rest[left] = lane
            left += cells[cell] != part[lane]
        for i in range(left):
            lane = rest[i]
            key, slot = part[lane], slots[lane]
            found = cells[2 * slot]
            while found != key and found != EMPTY:
                slot = (slot + 1) & mask
                found = cells[2 * slot]
            out[lane] = cells[2 * slot + 1] if found == key else -1


@njit(cache=True)
def _insert(cells, shift, keys, numbers):
    mask = cells.shape[0] // 2 - 1
    for i in range(keys.shape[0]):
        if keys[i] >= 0:
            slot = _home(keys[i], shift)
            while cells[2 * slot] != EMPTY:
                slot = (slot + 1) & mask
            cells[2 * slot], cells[2 * slot + 1] = keys[i], numbers[i]


@njit(cache=True)
def _remove(cells, shift, keys):
    mask = cells.shape[0] // 2 - 1
    for i in range(keys.shape[0]):
        if keys[i] >= 0:
            slot = _home(keys[i], shift)
            while cells[2 * slot] != keys[i]:
                slot = (slot + 1) & mask
            cells[2 * slot] = REMOVED


@njit(cache=True)
def _write(ids, keys, numbers):
    for i in range(keys.shape[0]):
        ids[numbers[i]] = keys[i]


def look_up_keys(backend: Backend, table: HashTable, keys: Array, dtype: np.dtype) -> Array:
    """Return the number of each key, -1 where it is not in the table; shape (B,), ``dtype``."""
    numbers = backend.empty(keys.shape[0], dtype)
    _look_up(table.cells, table.shift, keys, numbers)
    return numbers


def insert_keys(backend: Backend, table: HashTable, keys: Array, numbers: Array) -> None:
    """Add keys, which are distinct, absent and no more than the table takes; negative ones are passed over."""
    _insert(table.cells, table.shift, keys, numbers)
    table.filled += int(keys.shape[0])


def remove_keys(backend: Backend, table: HashTable, keys: Array) -> None:
    """Take out keys, which are distinct and present; negative ones are passed over."""
    _remove(table.cells, table.shift, keys)


def write_keys(backend: Backend, ids: Array, keys: Array, numbers: Array) -> None:
    """Write each key to its number's place in ``ids``; allocates nothing."""
    _write(ids, keys, numbers)
