"""Counting the rows of a window on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit
from dynstore.ids.cpu.hash_table import find_home
from dynstore.windows.pairs import shift_of

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["enter_rows", "leave_rows", "place_keys"]


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
        slot = _find(keys, shift, seed, rows[i])
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
def _place(keys, shift, seed, old, places):
    for i in range(old.shape[0]):
        places[i] = -1
        if old[i] >= 0:
            slot = _find(keys, shift, seed, old[i])
            keys[slot] = old[i]
            places[i] = slot


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


def place_keys(backend: Backend, keys: Array, seed: int, old: Array) -> Array:
    """Put distinct keys into an empty table, negative ones left out; return their slots, int32, -1 for those."""
    places = np.empty(old.shape[0], np.int32)
    _place(keys, shift_of(keys), seed, old, places)
    return places
