"""Sorted rows in a pool on the host: each row is searched, merged and packed separately."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.pma.cpu.redistribute import or_none

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.batches.sorted import EdgeBatch
    from dynstore.stores.papers.adjlists.lists import Lists
    from dynstore.typing import Array

__all__ = ["copy_rows", "count_room", "delete_keys", "insert_keys", "locate_keys", "read_rows"]

MIN_ROOM = 4


@njit(cache=True, borrows=True)
def _room_for(length, growth):
    return max(MIN_ROOM, np.int64(length * growth)) if length > 0 else 0


@njit(cache=True)
def _locate(starts, lengths, num_rows, pool, src, dst, positions, found):
    for i in range(src.shape[0]):
        low, end, known = np.int64(0), np.int64(0), False
        row = src[i]
        if row < num_rows:
            start, end, key = starts[row], lengths[row], dst[i]
            high = end
            while low < high:
                middle = (low + high) >> 1
                if pool[start + middle] < key:
                    low = middle + 1
                else:
                    high = middle
            known = low < end and pool[start + low] == key
        positions[i], found[i] = low, known


@njit(cache=True, borrows=True)
def _end_of_run(src, first):
    end = first + 1
    while end < src.shape[0] and src[end] == src[first]:
        end += 1
    return end


@njit(cache=True)
def _count_room(lengths, rooms, growth, src, found):
    """Count the places at the pool's end for rows that outgrow their room."""
    needed, first = np.int64(0), 0
    while first < src.shape[0]:
        end = _end_of_run(src, first)
        length = lengths[src[first]] + np.count_nonzero(~found[first:end])
        if length > rooms[src[first]]:
            needed += _room_for(length, growth)
        first = end
    return needed


@njit(cache=True)
def _plan_rooms(lengths, growth, src, found, rooms):
    """Set every row's room so that the batch fits; return the sum."""
    for row in range(rooms.shape[0]):
        rooms[row] = lengths[row]
    for i in range(src.shape[0]):
        rooms[src[i]] += not found[i]
    total = np.int64(0)
    for row in range(rooms.shape[0]):
        rooms[row] = _room_for(rooms[row], growth)
        total += rooms[row]
    return total


@njit(cache=True)
def _copy_rows(starts, lengths, pool, weights, rooms, new_starts, new_pool, new_weights):
    """Copy rows one behind the other, each with its room; return the end of the last one's room."""
    tail = np.int64(0)
    for row in range(rooms.shape[0]):
        start, length = starts[row], lengths[row]
        new_starts[row] = tail
        new_pool[tail : tail + length] = pool[start : start + length]
        if weights.shape[0]:
            new_weights[tail : tail + length] = weights[start : start + length]
        tail += rooms[row]
    return tail


@njit(cache=True, borrows=True)
def _shift(column, start, end, by):
    for i in range(end - 1, start - 1, -1):
        column[i + by] = column[i]


@njit(cache=True)
def _insert(starts, lengths, rooms, pool, weights, tail, growth, src, dst, new_weights, positions, found, add):
    """Merge each row's keys into it from the back; rows that outgrow their room first move to the pool's end."""
    weighted, first = weights.shape[0] > 0, 0
    while first < src.shape[0]:
        end, row = _end_of_run(src, first), src[first]
        length, fresh = lengths[row], np.count_nonzero(~found[first:end])
        if length + fresh > rooms[row]:
            old, rooms[row] = starts[row], _room_for(length + fresh, growth)
            pool[tail : tail + length] = pool[old : old + length]
            if weighted:
                weights[tail : tail + length] = weights[old : old + length]
            starts[row] = tail
            tail += rooms[row]
        start, behind, by = starts[row], starts[row] + length, fresh
        for i in range(end - 1, first - 1, -1):
            place = start + positions[i]
            _shift(pool, place, behind, by)
            if weighted:
                _shift(weights, place, behind, by)
            behind = place
            if found[i]:
                if weighted:
                    weights[place + by] = weights[place + by] + new_weights[i] if add else new_weights[i]
            else:
                by -= 1
                pool[place + by] = dst[i]
                if weighted:
                    weights[place + by] = new_weights[i]
        lengths[row] = length + fresh
        first = end
    return tail


@njit(cache=True)
def _delete(starts, lengths, pool, weights, src, positions, found):
    """Remove each row's keys and close the gaps."""
    weighted, first = weights.shape[0] > 0, 0
    while first < src.shape[0]:
        end, row = _end_of_run(src, first), src[first]
        start, kept, read = starts[row], np.int64(0), np.int64(0)
        for i in range(first, end + 1):
            if i < end and not found[i]:
                continue
            stop = positions[i] if i < end else lengths[row]
            if kept != read:
                for k in range(read, stop):
                    pool[start + kept + k - read] = pool[start + k]
                    if weighted:
                        weights[start + kept + k - read] = weights[start + k]
            kept += stop - read
            read = stop + 1
        lengths[row] = kept
        first = end


@njit(cache=True)
def _read(starts, lengths, pool, weights, rows, src, dst, read_weights):
    written = np.int64(0)
    for i in range(rows.shape[0]):
        start, length = starts[rows[i]], lengths[rows[i]]
        src[written : written + length] = rows[i]
        dst[written : written + length] = pool[start : start + length]
        if weights.shape[0]:
            read_weights[written : written + length] = weights[start : start + length]
        written += length


def locate_keys(backend: Backend, lists: Lists, num_rows: int, src: Array, dst: Array) -> tuple[Array, Array]:
    """Return each key's lower bound in its row, int64, and whether it is there, bool; shape (B,)."""
    positions, found = backend.empty(src.shape[0], np.int64), backend.empty(src.shape[0], np.bool_)
    _locate(lists.starts, lists.lengths, num_rows, lists.pool, src, dst, positions, found)
    return positions, found


def count_room(lists: Lists, growth: float, batch: EdgeBatch, found: Array) -> int:
    """Return the number of places at the pool's end for rows that a batch makes too long for their room."""
    return int(_count_room(lists.lengths, lists.rooms, growth, batch.src, found))


def copy_rows(
    backend: Backend, lists: Lists, growth: float, batch: EdgeBatch, found: Array, num_places: int, new: Lists
) -> None:
    """Copy all rows to fresh lists with a pool of at least ``num_places``, with room for a batch.

    ``new`` has the arrays of its rows. It gets its pool here, where the size is known.
    """
    total = int(_plan_rooms(lists.lengths, growth, batch.src, found, new.rooms))
    size = max(int(total * growth), num_places)
    new.pool = backend.empty(size, lists.pool.dtype)
    new.weights = None if lists.weights is None else backend.empty(size, lists.weights.dtype)
    new.lengths[:] = lists.lengths
    new.tail = int(
        _copy_rows(
            lists.starts, lists.lengths, lists.pool, or_none(lists.weights), new.rooms, new.starts, new.pool,
            or_none(new.weights),
        )
    )  # fmt: skip


def insert_keys(lists: Lists, growth: float, batch: EdgeBatch, positions: Array, found: Array, add: bool) -> None:
    """Merge a batch into its rows; present edges get the new weight, or the sum with ``add``. Allocates nothing."""
    lists.tail = _insert(
        lists.starts, lists.lengths, lists.rooms, lists.pool, or_none(lists.weights), lists.tail, growth,
        batch.src, batch.dst, or_none(batch.weights), positions, found, add,
    )  # fmt: skip


def delete_keys(lists: Lists, src: Array, positions: Array, found: Array) -> None:
    """Remove the found keys from their rows. Allocates nothing."""
    _delete(lists.starts, lists.lengths, lists.pool, or_none(lists.weights), src, positions, found)


def read_rows(backend: Backend, lists: Lists, rows: Array) -> tuple[Array, Array, Array | None]:
    """Return the edges of some rows, row after row."""
    total = int(lists.lengths[rows].sum())
    src, dst = backend.empty(total, lists.pool.dtype), backend.empty(total, lists.pool.dtype)
    weights = None if lists.weights is None else backend.empty(total, lists.weights.dtype)
    _read(lists.starts, lists.lengths, lists.pool, or_none(lists.weights), rows, src, dst, or_none(weights))
    return src, dst, weights
