"""The mapping of segments of a leveled packed memory array to memory, on the host.

L. Zou, F. Zhang, Y. Lin, Y. Yu, "An Efficient Data Structure for Dynamic Graph on GPUs", IEEE TKDE 35(11), 2023; the
mapping is corrected, see ``docs/internals/lpma.md``. Kernels see memory as one array per dtype; ``table`` has the
begin of each column of each level in it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.lpma.levels import END, FIRST_SRC, MAX_LEVELS, MEMORY_BASE, SRC, VALID
from dynstore.stores.pma.cpu.redistribute import count_bits

__all__ = [
    "all_memory",
    "base_of",
    "first_source_of",
    "in_order_of",
    "in_order_slot",
    "last_source_of",
    "physical_of",
    "word_of",
]


class _AllMemory:
    """Describes every address from ``MEMORY_BASE`` on as one array."""

    def __init__(self, dtype: np.dtype) -> None:
        shape = ((1 << 47) // dtype.itemsize,)
        self.__array_interface__ = {"data": (MEMORY_BASE, False), "shape": shape, "typestr": dtype.str, "version": 3}


@cache
def all_memory(dtype: Any) -> np.ndarray:
    """Return all memory as one array, for kernels that index it by ``table``."""
    return np.asarray(_AllMemory(np.dtype(dtype)))


@njit(cache=True, borrows=True)
def _level_of(p):
    """Return the level of a physical segment: its bit length."""
    word = np.uint32(p)
    for shift in (1, 2, 4, 8, 16):
        word |= word >> np.uint32(shift)
    return count_bits(word)


@njit(cache=True, borrows=True)
def physical_of(i, depth):
    """Return the physical number of the i-th segment in order."""
    if i == 0:
        return np.int64(0)
    zeros = count_bits((i & -i) - 1)
    return (np.int64(1) << (depth - zeros - 1)) + (i >> (zeros + 1))


@njit(cache=True, borrows=True)
def in_order_of(p, depth):
    """Return the number in order of a physical segment."""
    if p == 0:
        return np.int64(0)
    level = _level_of(p)
    return (2 * (p - (np.int64(1) << (level - 1))) + 1) << (depth - level)


@njit(cache=True, borrows=True)
def in_order_slot(start, depth):
    """Return the slot in order of a physical slot; for END, the one behind all slots."""
    if start == END:
        return np.int64(32) << depth
    return (in_order_of(np.int64(start) >> 5, depth) << 5) + (start & 31)


@njit(cache=True, borrows=True)
def base_of(table, column, p):
    """Return the offset to add to a physical number, of a slot or a segment, to get the index of its item."""
    return table[column * MAX_LEVELS + _level_of(p)]


@njit(cache=True, borrows=True)
def word_of(words, table, p):
    """Return a segment's validity bits."""
    return np.uint32(words[base_of(table, VALID, p) + p])


@njit(cache=True, borrows=True)
def first_source_of(ids, table, p):
    """Return the source of a segment's first key."""
    source = np.int64(ids[base_of(table, FIRST_SRC, p) + p])
    return source if source >= 0 else -1 - source


@njit(cache=True, borrows=True)
def last_source_of(ids, table, p):
    """Return the source of a segment's last key; if never written, all its slots show its first key."""
    source = np.int64(ids[base_of(table, FIRST_SRC, p) + p])
    return np.int64(ids[base_of(table, SRC, p) + p * 32 + 31]) if source >= 0 else -1 - source
