"""The mapping of segments to memory, on CUDA; see :mod:`dynstore.stores.lpma.cpu.mapping`."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.compiler import cuda, device
from dynstore.stores.lpma.levels import DST, END, FIRST_DST, FIRST_SRC, MAX_LEVELS, MEMORY_BASE, SRC, VALID
from dynstore.stores.table.cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.stores.lpma.levels import Levels
    from dynstore.typing import Array

__all__ = [
    "AllMemory",
    "SearchedLevels",
    "d_base_of",
    "d_find_key",
    "d_first_source",
    "d_in_order_of",
    "d_in_order_slot",
    "d_last_source",
    "d_physical_of",
    "d_word_of",
    "memory_of",
]

ADDRESSES = 1 << 47


class AllMemory:
    """All addresses from ``MEMORY_BASE`` on as one array, for kernels that index it by ``table``.

    It has the attributes that a launch needs. In the simulator it reads and writes host memory like an array.
    """

    ndim = 1
    data = SimpleNamespace(ptr=MEMORY_BASE)

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype, self.itemsize, self.size = dtype, dtype.itemsize, ADDRESSES // dtype.itemsize
        self.shape, self.strides = (self.size,), (self.itemsize,)
        interface = {"data": (MEMORY_BASE, False), "shape": self.shape, "typestr": dtype.str, "version": 3}
        self._host = np.asarray(SimpleNamespace(__array_interface__=interface))

    def __getitem__(self, item: Any) -> Any:
        return self._host[item]

    def __setitem__(self, item: Any, value: Any) -> None:
        self._host[item] = value


class SearchedLevels(NamedTuple):
    """What a search for edges reads: memory as ids and as words, the table of levels, their number, the rows."""

    ids: Array
    words: Array
    table: Array
    depth: Any
    starts: Array


@cache
def _all_memory(dtype: Any) -> AllMemory:
    return AllMemory(np.dtype(dtype))


def memory_of(levels: Levels) -> tuple[Any, ...]:
    """Return the first arguments of every kernel: memory as ids, as words and as weights, the table, the depth."""
    weight_dtype = np.float32 if levels.weight_dtype is None else levels.weight_dtype
    return (
        _all_memory(levels.vertex_dtype), _all_memory(np.uint32), _all_memory(weight_dtype), levels.table, levels.depth,
    )  # fmt: skip


@device
def d_physical_of(i, depth):
    """Return the physical number of the i-th segment in order."""
    if i == 0:
        return np.int64(0)
    zeros = np.int64(cuda.ffs(np.int32(i))) - 1
    return (np.int64(1) << (depth - zeros - 1)) + (np.int64(i) >> (zeros + 1))


@device
def d_level_of(p):
    """Return the level of a physical segment: its bit length."""
    return np.int64(32) - np.int64(cuda.clz(np.int32(p)))


@device
def d_in_order_of(p, depth):
    """Return the number in order of a physical segment."""
    if p == 0:
        return np.int64(0)
    level = d_level_of(p)
    return (2 * (p - (np.int64(1) << (level - 1))) + 1) << (depth - level)


@device
def d_in_order_slot(start, depth):
    """Return the slot in order of a physical slot; for END, the one behind all slots."""
    if start == END:
        return np.int64(32) << depth
    return (d_in_order_of(np.int64(start) >> 5, depth) << 5) + (np.int64(start) & 31)


@device
def d_base_of(table, column, p):
    """Return the offset to add to a physical number, of a slot or a segment, to get the index of its item."""
    return table[column * MAX_LEVELS + d_level_of(p)]


@device
def d_word_of(words, table, p):
    """Return a segment's validity bits."""
    return np.uint32(words[d_base_of(table, VALID, p) + p])


@device
def d_first_source(ids, table, p):
    """Return the source of a segment's first key."""
    source = np.int64(ids[d_base_of(table, FIRST_SRC, p) + p])
    return source if source >= 0 else -1 - source


@device
def d_last_source(ids, table, p):
    """Return the source of a segment's last key; if never written, all its slots show its first key."""
    source = np.int64(ids[d_base_of(table, FIRST_SRC, p) + p])
    return np.int64(ids[d_base_of(table, SRC, p) + p * 32 + 31]) if source >= 0 else -1 - source


@device
def d_find_key(levels, row, key):
    """Return the first slot in order of a row whose destination is not below ``key``, and whether its edge is there."""
    ids, words, table, depth, starts = levels
    if row >= starts.shape[0] - 1:
        return np.int64(32) << depth, False
    begin, end = d_in_order_slot(starts[row], depth), d_in_order_slot(starts[row + 1], depth)
    if begin == end:
        return begin, False
    low, high = begin >> 5, (end - 1) >> 5  # find the last segment whose first destination is below the key, else `low`
    while low < high:
        middle = (low + high + 1) >> 1
        p = d_physical_of(middle, depth)
        if ids[d_base_of(table, FIRST_DST, p) + p] < key:
            low = middle
        else:
            high = middle - 1
    p = d_physical_of(low, depth)
    place, last = max(begin, low << 5), min(end, (low + 1) << 5)
    if ids[d_base_of(table, FIRST_SRC, p) + p] < 0:  # never written: all slots show its first key
        place = last if ids[d_base_of(table, FIRST_DST, p) + p] < key else place
    else:
        shift = d_base_of(table, DST, p) + p * 32 - (low << 5)
        place = d_find_lower_bound(ids, place + shift, last + shift, key) - shift
    if place == end:
        return place, False
    p = d_physical_of(place >> 5, depth)
    bit = (d_word_of(words, table, p) >> np.uint32(place & 31)) & np.uint32(1)
    return place, bit != 0 and ids[d_base_of(table, DST, p) + p * 32 + (place & 31)] == key
