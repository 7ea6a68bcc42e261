"""Counting the rows of a window on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit
from dynstore.ids.hash_table import MULTIPLIER
from dynstore.windows.pairs import shift_of

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["enter_rows", "leave_rows", "place_keys"]

FACTOR = np.uint64(MULTIPLIER)
HALF = np.uint64(32)


@njit(cache=True, inline="always")
def _find(keys, shift, key):
    """Return the slot of a key, or the empty slot where it belongs."""
    mask = keys.shape[0] - 1
    bits = np.uint64(key)
    slot = np.int64(((bits ^ (bits >> HALF)) * FACTOR) >> np.uint64(shift))
    while keys[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def _enter(keys, shift, counts, rows, slots, first):
    for i in range(rows.shape[0]):
        slot = _find(keys, shift, rows[i])
        keys[slot] = rows[i]
        first[i] = counts[slot] == 0
        counts[slot] += 1
        slots[i] = slot


@njit(cache=True)
def _leave(counts, slots, last):
    for i in range(slots.shape[0]):
        slot = slots[i]
        last[i] = False
        if slot >= 0:
            counts[slot] -= 1
            last[i] = counts[slot] == 0


@njit(cache=True)
def _place(keys, shift, old, places):
    for i in range(old.shape[0]):
        places[i] = -1
        if old[i] >= 0:
            slot = _find(keys, shift, old[i])
            keys[slot] = old[i]
            places[i] = slot


def enter_rows(backend: Backend, keys: Array, counts: Array, rows: Array) -> tuple[Array, Array]:
    """Count rows in; see :meth:`dynstore.windows.pairs.Pairs.enter`."""
    slots, first = np.empty(rows.shape[0], np.int32), np.empty(rows.shape[0], np.bool_)
    _enter(keys, shift_of(keys), counts, rows, slots, first)
    return slots, first


def leave_rows(backend: Backend, counts: Array, slots: Array) -> Array:
    """Count rows out; see :meth:`dynstore.windows.pairs.Pairs.leave`."""
    last = np.empty(slots.shape[0], np.bool_)
    _leave(counts, slots, last)
    return last


def place_keys(backend: Backend, keys: Array, old: Array) -> Array:
    """Put distinct keys into an empty table, negative ones left out; return their slots, int32, -1 for those."""
    places = np.empty(old.shape[0], np.int32)
    _place(keys, shift_of(keys), old, places)
    return places
