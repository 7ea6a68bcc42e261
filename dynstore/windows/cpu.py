"""Counting the rows of a window on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit
from dynstore.ids.cpu.hash_table import find_home
from dynstore.stores.table.cpu.memory import prefetch
from dynstore.windows.pairs import shift_of

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["add_weights", "enter_rows", "leave_rows", "place_keys"]

# Rows whose cache misses overlap.
AHEAD = 16


@njit(cache=True, inline="always")
def _find(keys, shift, seed, key):
    """Return the slot of a key, or the empty slot where it belongs."""
    mask = keys.shape[0] - 1
    slot = find_home(key, shift, seed)
    while keys[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def _enter(keys, shift, seed, counts, rows, slots, first):
    for i in range(rows.shape[0]):
        if i + AHEAD < rows.shape[0]:
            home = find_home(rows[i + AHEAD], shift, seed)
            prefetch(keys, home)
            prefetch(counts, home)
        slot = _find(keys, shift, seed, rows[i])
        keys[slot] = rows[i]
        first[i] = counts[slot] == 0
        counts[slot] += 1
        slots[i] = slot


@njit(cache=True)
def _leave(counts, slots, last):
    for i in range(slots.shape[0]):
        if i + AHEAD < slots.shape[0]:
            prefetch(counts, np.int64(slots[i + AHEAD]))
        slot = slots[i]
        last[i] = False
        if slot >= 0:
            counts[slot] -= 1
            last[i] = counts[slot] == 0


@njit(cache=True)
def _place(keys, shift, seed, old, places):
    for i in range(old.shape[0]):
        places[i] = -1
        if old[i] >= 0:
            slot = _find(keys, shift, seed, old[i])
            keys[slot] = old[i]
            places[i] = slot


@njit(cache=True)
def _add(sums, slots, weights, sign):
    for i in range(slots.shape[0]):
        if i + AHEAD < slots.shape[0]:
            prefetch(sums, np.int64(slots[i + AHEAD]))
        if slots[i] >= 0:
            sums[slots[i]] += sign * weights[i]


def enter_rows(backend: Backend, keys: Array, seed: int, counts: Array, rows: Array) -> tuple[Array, Array]:
    """Count rows in; see :meth:`dynstore.windows.pairs.Pairs.enter`."""
    slots, first = np.empty(rows.shape[0], np.int32), np.empty(rows.shape[0], np.bool_)
    _enter(keys, shift_of(keys), seed, counts, rows, slots, first)
    return slots, first


def leave_rows(backend: Backend, counts: Array, slots: Array) -> Array:
    """Count rows out; see :meth:`dynstore.windows.pairs.Pairs.leave`."""
    last = np.empty(slots.shape[0], np.bool_)
    _leave(counts, slots, last)
    return last


def add_weights(backend: Backend, sums: Array, slots: Array, weights: Array, sign: int) -> None:
    """Add the weights of rows to their pairs' sums; see :meth:`dynstore.windows.pairs.Pairs.add`."""
    _add(sums, slots, weights, sign)


def place_keys(backend: Backend, keys: Array, seed: int, old: Array) -> Array:
    """Put distinct keys into an empty table, negative ones left out; return their slots, int32, -1 for those."""
    places = np.empty(old.shape[0], np.int32)
    _place(keys, shift_of(keys), seed, old, places)
    return places
