"""A hash table of vertex ids on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import inlined, njit
from dynstore.ids.hash_table import EMPTY, LARGEST_KEY, MULTIPLIER, REMOVED, HashTable, Unknown
from dynstore.input.columns import find_bounds

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = [
    "find_home",
    "insert_keys",
    "look_up_keys",
    "match_keys",
    "number_unknown",
    "pair_key",
    "remove_keys",
    "sort_ids",
]

# Keys taken side by side, so that their cache misses overlap.
LANES = 64
INT64 = np.dtype(np.int64)
FACTOR = np.uint64(MULTIPLIER)
HALF = np.uint64(32)


@njit(cache=True, inline="always")
def find_home(key, shift, seed):
    """Return the home slot of a key, where its search begins."""
    bits = np.uint64(key) ^ np.uint64(seed)
    return np.int64(((bits ^ (bits >> HALF)) * FACTOR) >> np.uint64(shift))


@inlined
def pair_key(row, column, undirected):
    """Return a pair as a key; of an undirected pair, the lower number comes first."""
    low = min(row, column) if undirected else row
    return np.int64(low) << 32 | np.int64(row + column - low)


@njit(cache=True)
def _look_up(cells, shift, seed, keys, numbers):
    """Read the home slots of LANES keys without branches on their contents, then search for keys that are elsewhere."""
    mask = cells.shape[0] // 2 - 1
    slots, rest = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    for first in range(0, keys.shape[0], LANES):
        part, out = keys[first : first + LANES], numbers[first : first + LANES]
        for lane in range(part.shape[0]):
            slots[lane] = find_home(part[lane], shift, seed)
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
def _insert(cells, shift, seed, ids, keys, numbers):
    mask = cells.shape[0] // 2 - 1
    for i in range(keys.shape[0]):
        ids[numbers[i]] = keys[i]
        if keys[i] >= 0:
            slot = find_home(keys[i], shift, seed)
            while cells[2 * slot] != EMPTY:
                slot = (slot + 1) & mask
            cells[2 * slot], cells[2 * slot + 1] = keys[i], numbers[i]


@njit(cache=True)
def _remove(cells, shift, seed, keys):
    mask = cells.shape[0] // 2 - 1
    for i in range(keys.shape[0]):
        if keys[i] >= 0:
            slot = find_home(keys[i], shift, seed)
            while cells[2 * slot] != keys[i]:
                slot = (slot + 1) & mask
            cells[2 * slot] = REMOVED


def look_up_keys(backend: Backend, table: HashTable, keys: Array, dtype: np.dtype) -> Array:
    """Return the number of each key, -1 if it is not in the table; shape (B,), ``dtype``."""
    numbers = backend.empty(keys.shape[0], dtype)
    _look_up(table.cells, table.shift, table.seed, keys, numbers)
    return numbers


def match_keys(
    backend: Backend, table: HashTable, parts: list[Array], dtype: np.dtype
) -> tuple[list[Array], Unknown | None]:
    """Return the numbers of one or two columns of integers, -1 for unknown keys, and these keys.

    The latter is None if a row has an invalid key: a negative number, or one above LARGEST_KEY.
    """
    first, second = (parts[0], parts[-1])
    low_first, high_first, low_second, high_second = find_bounds(backend, first, second)
    if min(low_first, low_second) < 0 or max(high_first, high_second) > LARGEST_KEY:
        return [], None
    parts = [np.ascontiguousarray(part, dtype=np.int64) for part in parts]
    columns = [look_up_keys(backend, table, part, dtype) for part in parts]
    rows = [np.flatnonzero(column < 0) for column in columns]
    keys = np.concatenate([part[chosen] for part, chosen in zip(parts, rows, strict=True)])
    places = np.concatenate([rows[0], *(other + columns[0].shape[0] for other in rows[1:])])
    return columns, Unknown(keys, places, keys)


def sort_ids(backend: Backend, keys: Array) -> Array:
    """Return the distinct keys, ascending."""
    ordered = np.sort(keys)
    first = np.ones(ordered.shape[0], np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def number_unknown(backend: Backend, unknown: Unknown, ids: Array, numbers: Array, columns: list[Array]) -> None:
    """Give the rows of unknown keys the number at their key's place in ``ids``, which has all, ascending."""
    # A search in the sorted ids would take several times as long.
    table = HashTable.allocate(backend, ids.shape[0])
    insert_keys(backend, table, np.empty_like(ids), ids, np.arange(ids.shape[0]))
    found = numbers[look_up_keys(backend, table, unknown.keys, INT64)]
    split = np.searchsorted(unknown.places, columns[0].shape[0])
    columns[0][unknown.places[:split]] = found[:split]
    if len(columns) > 1:
        columns[1][unknown.places[split:] - columns[0].shape[0]] = found[split:]


def insert_keys(backend: Backend, table: HashTable, ids: Array, keys: Array, numbers: Array) -> None:
    """Add keys that are distinct, absent and no more than the table takes, and write each to its place in ``ids``.

    The table skips negative ones. The caller counts them in ``table.filled``.
    """
    _insert(table.cells, table.shift, table.seed, ids, keys, numbers)


def remove_keys(backend: Backend, table: HashTable, keys: Array) -> None:
    """Remove keys that are distinct and present; negative ones are skipped."""
    _remove(table.cells, table.shift, table.seed, keys)
