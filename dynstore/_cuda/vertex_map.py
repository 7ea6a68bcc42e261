"""A hash table of vertex ids on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import SIMULATED, cuda, device, kernel
from dynstore.hash_table import EMPTY, MULTIPLIER, REMOVED

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.hash_table import HashTable
    from dynstore.typing import Array

__all__ = ["insert_keys", "look_up_keys", "remove_keys", "write_keys"]

FACTOR = np.uint64(MULTIPLIER)
HALF = np.uint64(32)

if SIMULATED:
    # Plain integers: NumPy warns of every product that overflows.
    @device
    def d_find_home(key, shift):
        """Return the slot that a key's search begins with."""
        bits = int(key)
        return (((bits ^ (bits >> 32)) * MULTIPLIER) & 0xFFFFFFFFFFFFFFFF) >> int(shift)

else:

    @device
    def d_find_home(key, shift):
        """Return the slot that a key's search begins with."""
        bits = np.uint64(key)
        return np.int64(((bits ^ (bits >> HALF)) * FACTOR) >> np.uint64(shift))


@kernel
def k_look_up_keys(cells, shift, keys, numbers):
    """One thread owns one key; the table is not written meanwhile."""
    i = cuda.grid(1)
    if i < keys.shape[0]:
        key, mask = keys[i], cells.shape[0] // 2 - 1
        slot = d_find_home(key, shift)
        found = cells[2 * slot]
        while found != key and found != EMPTY:
            slot = (slot + 1) & mask
            found = cells[2 * slot]
        numbers[i] = cells[2 * slot + 1] if found == key else -1


@kernel
def k_insert_keys(cells, shift, keys, numbers):
    """One thread owns one key, distinct and absent; it claims an EMPTY slot by a 64-bit compare and swap.

    Which slots keys get depends on who comes first; what a search finds does not.
    """
    i = cuda.grid(1)
    if i < keys.shape[0]:
        key, mask = keys[i], cells.shape[0] // 2 - 1
        if key >= 0:
            slot = d_find_home(key, shift)
            while cuda.atomic.cas(cells, 2 * slot, EMPTY, key) != EMPTY:
                slot = (slot + 1) & mask
            cells[2 * slot + 1] = numbers[i]


@kernel
def k_remove_keys(cells, shift, keys):
    """One thread owns one key, distinct and present; no key is inserted meanwhile."""
    i = cuda.grid(1)
    if i < keys.shape[0]:
        key, mask = keys[i], cells.shape[0] // 2 - 1
        if key >= 0:
            slot = d_find_home(key, shift)
            while cells[2 * slot] != key:
                slot = (slot + 1) & mask
            cells[2 * slot] = REMOVED


@kernel
def k_write_keys(ids, keys, numbers):
    """One thread owns one key and the place of its number."""
    i = cuda.grid(1)
    if i < keys.shape[0]:
        ids[numbers[i]] = keys[i]


def look_up_keys(backend: Backend, table: HashTable, keys: Array, dtype: np.dtype) -> Array:
    """Return the number of each key, -1 where it is not in the table; shape (B,), ``dtype``."""
    numbers = backend.empty(keys.shape[0], dtype)
    k_look_up_keys.launch(keys.shape[0], table.cells, table.shift, keys, numbers)
    return numbers


def insert_keys(backend: Backend, table: HashTable, keys: Array, numbers: Array) -> None:
    """Add keys, which are distinct, absent and no more than the table takes; negative ones are passed over."""
    k_insert_keys.launch(keys.shape[0], table.cells, table.shift, keys, numbers)
    table.filled += int(keys.shape[0])


def remove_keys(backend: Backend, table: HashTable, keys: Array) -> None:
    """Take out keys, which are distinct and present; negative ones are passed over."""
    k_remove_keys.launch(keys.shape[0], table.cells, table.shift, keys)


def write_keys(backend: Backend, ids: Array, keys: Array, numbers: Array) -> None:
    """Write each key to its number's place in ``ids``; allocates nothing."""
    k_write_keys.launch(keys.shape[0], ids, keys, numbers)
