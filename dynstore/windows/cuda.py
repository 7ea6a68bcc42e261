"""Counting the rows of a window on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.ids.cuda.hash_table import d_find_home
from dynstore.windows.pairs import EMPTY, shift_of

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["add_weights", "enter_rows", "leave_rows", "place_keys"]


@device
def d_claim_slot(keys, shift, seed, key):
    """Return the slot of a key; an absent one claims an empty slot by a 64-bit compare and swap."""
    mask = keys.shape[0] - 1
    slot = d_find_home(key, shift, seed)
    there = np.int64(keys[slot])
    while there != key:
        if there == EMPTY:
            there = np.int64(cuda.atomic.cas(keys, slot, EMPTY, key))
            if there == EMPTY:
                there = key
        else:
            slot = (slot + 1) & mask
            there = np.int64(keys[slot])
    return slot


@kernel
def k_enter_rows(keys, shift, seed, counts, rows, slots, first):
    """One thread owns one row; of several rows of a pair, the one that finds a count of 0 is the first."""
    i = cuda.grid(1)
    if i < rows.shape[0]:
        slot = d_claim_slot(keys, shift, seed, rows[i])
        slots[i] = slot
        first[i] = cuda.atomic.add(counts, slot, 1) == 0


@kernel
def k_leave_rows(counts, slots, last):
    """One thread owns one row; of several rows of a pair, the one that leaves a count of 0 is the last."""
    i = cuda.grid(1)
    if i < slots.shape[0]:
        slot = slots[i]
        last[i] = False
        if slot >= 0:
            last[i] = cuda.atomic.add(counts, slot, -1) == 1


@kernel
def k_add_weights(sums, slots, weights, sign):
    """One thread owns one row: it adds its weight to the sum of its pair."""
    i = cuda.grid(1)
    if i < slots.shape[0] and slots[i] >= 0:
        cuda.atomic.add(sums, slots[i], sign * weights[i])


@kernel
def k_place_keys(keys, shift, seed, old, places):
    """One thread owns one key of another table; keys are distinct, negative ones are left out."""
    i = cuda.grid(1)
    if i < old.shape[0]:
        places[i] = -1
        if old[i] >= 0:
            places[i] = d_claim_slot(keys, shift, seed, old[i])


def enter_rows(backend: Backend, keys: Array, seed: int, counts: Array, rows: Array) -> tuple[Array, Array]:
    """Count rows in; see :meth:`dynstore.windows.pairs.Pairs.enter`."""
    slots, first = backend.empty(rows.shape[0], np.int32), backend.empty(rows.shape[0], np.bool_)
    k_enter_rows.launch(rows.shape[0], keys, shift_of(keys), seed, counts, rows, slots, first)
    return slots, first


def leave_rows(backend: Backend, counts: Array, slots: Array) -> Array:
    """Count rows out; see :meth:`dynstore.windows.pairs.Pairs.leave`."""
    last = backend.empty(slots.shape[0], np.bool_)
    k_leave_rows.launch(slots.shape[0], counts, slots, last)
    return last


def add_weights(backend: Backend, sums: Array, slots: Array, weights: Array, sign: int) -> None:
    """Add the weights of rows to their pairs' sums; see :meth:`dynstore.windows.pairs.Pairs.add`."""
    k_add_weights.launch(slots.shape[0], sums, slots, weights, np.float64(sign))


def place_keys(backend: Backend, keys: Array, seed: int, old: Array) -> Array:
    """Put distinct keys into an empty table; see :func:`dynstore.windows.cpu.place_keys`."""
    places = backend.empty(old.shape[0], np.int32)
    k_place_keys.launch(old.shape[0], keys, shift_of(keys), seed, old, places)
    return places
