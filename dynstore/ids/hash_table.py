"""The arrays of an open-addressing hash table from 63-bit keys to vertex numbers."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = [
    "EMPTY",
    "LARGEST_KEY",
    "MULTIPLIER",
    "REMOVED",
    "HashTable",
    "Unknown",
    "is_crowded",
    "pair_keys",
    "shift_of",
    "slots_for",
]

# The keys of slots without a key; keys themselves are not negative.
EMPTY, REMOVED = -1, -2
LARGEST_KEY = 2**63 - 2

# 2**64 over the golden ratio: the high bits of a product with it are the home slot of a key (Knuth, TAOCP 3, 6.4).
MULTIPLIER = 0x9E3779B97F4A7C15

MIN_SLOTS = 64


def slots_for(num_keys: int) -> int:
    """Return the slots of a table that so many keys fill at most by half: a power of two."""
    return max(MIN_SLOTS, 1 << (2 * num_keys - 1).bit_length())


def is_crowded(num_slots: int, filled: int) -> bool:
    """Whether more than 5 slots of 8 are filled, so that searches get long."""
    return 8 * filled > 5 * num_slots


def shift_of(num_slots: int) -> int:
    """Return how far a 64-bit product is shifted right to give a slot of a table."""
    return 65 - int(num_slots).bit_length()


def pair_keys(xp: Any, src: Array, dst: Array, directed: bool) -> Array:
    """Return pairs of row numbers below 2**31 as int64 keys; of an undirected pair, the lower number comes first."""
    low, high = (src, dst) if directed else (xp.minimum(src, dst), xp.maximum(src, dst))
    keys: Array = low.astype(np.int64) << 32 | high
    return keys


class Unknown(NamedTuple):
    """Rows of one or two columns whose key is not in the table, in any order.

    Attributes
    ----------
    keys : array, shape (N,), int64
    places : array, shape (N,), int64
        Their rows; those of a second column are numbered on from the first.
    new : array, int64
        Each key once, in any order, if the device finds that out meanwhile; else the same as ``keys``.
    """

    keys: Array
    places: Array
    new: Array


@dataclass
class HashTable:
    """Linear probing over a power of two of slots, from a key's home slot on to the first free one.

    Attributes
    ----------
    cells : array, shape (2 S,), int64
        Key and number of each slot, side by side, so that a hit costs one cache line.
    seed : int
        Random, 0 to 2**63 - 1; the home slots of keys depend on it, so that keys cannot be chosen to share one.
        Nothing else depends on it.
    filled : int
        Slots that are not EMPTY; those of removed keys count until the table is rebuilt.
    """

    cells: Array
    seed: int
    filled: int = 0

    @classmethod
    def allocate(cls, backend: Backend, num_keys: int) -> HashTable:
        """Make an empty table that ``num_keys`` keys fill at most by half."""
        cells = backend.empty(2 * slots_for(num_keys), np.int64)
        cells.fill(EMPTY)
        return cls(cells, secrets.randbits(63))

    @property
    def num_slots(self) -> int:
        return int(self.cells.shape[0]) // 2

    @property
    def shift(self) -> int:
        """See :func:`shift_of`."""
        return shift_of(self.num_slots)

    def takes(self, num_keys: int) -> bool:
        """Whether ``num_keys`` can be added without crowding the table."""
        return not is_crowded(self.num_slots, self.filled + num_keys)

    def copy(self, backend: Backend) -> HashTable:
        """Return a deep copy."""
        cells = backend.empty(self.cells.shape, np.int64)
        cells[:] = self.cells
        return HashTable(cells, self.seed, self.filled)
