"""Chains of slabs on the host: extending, moving, emptying and listing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.host_compiler import njit
from dynstore.stores.slab_hash.slabs import BUCKETS, DEGREE, EMPTY, END, FIRST, FREE, HEAD_WORDS, TOMBSTONE, USED

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.slab_hash.slabs import SlabTable
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["copy_rows", "gather", "rehash"]


@njit(cache=True, inline="always")
def _bucket(key, buckets):
    """Return a key's bucket: 32 mixed bits of it, scaled to the number of buckets."""
    if buckets == 1:
        return np.int64(0)
    bits = (key ^ (key >> 32)) & 0xFFFFFFFF
    bits = ((bits ^ (bits >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    bits = ((bits ^ (bits >> 12)) * 0x297A2D39) & 0xFFFFFFFF
    return ((bits ^ (bits >> 15)) * buckets) >> 32


@njit(cache=True, borrows=True)
def _take_slab(unused, state):
    if state[FREE] > 0:
        state[FREE] -= 1
        return np.int64(unused[state[FREE]])
    state[USED] += 1
    return state[USED] - 1


@njit(cache=True, borrows=True)
def _flush(slabs, unused, state, words, slab, keep):
    """Empty a chain and return its slabs to the pool; the base slab is kept with ``keep``."""
    while slab != END:
        following = np.int64(slabs[slab * words + words - 1])
        slabs[slab * words : (slab + 1) * words] = EMPTY
        if not keep:
            unused[state[FREE]] = slab
            state[FREE] += 1
        keep = False
        slab = following


@njit(cache=True, borrows=True)
def _append(slabs, heads, unused, state, words, keys, reuse, head, bucket, key):
    """Write an absent key at the first free place of its chain, which is extended if full; return the place."""
    if heads[head + FIRST] == END:
        heads[head + FIRST] = _take_slab(unused, state)
        heads[head + BUCKETS] = 1
    slab = np.int64(heads[head + FIRST]) + bucket
    while True:
        for place in range(slab * words, slab * words + keys):
            if slabs[place] == EMPTY or (reuse and slabs[place] == TOMBSTONE):
                slabs[place] = key
                return place
        if slabs[slab * words + words - 1] == END:
            slabs[slab * words + words - 1] = _take_slab(unused, state)
        slab = np.int64(slabs[slab * words + words - 1])


@njit(cache=True)
def _rehash(slabs, heads, unused, state, words, keys, weight_words, rows, firsts, buckets):
    for r in range(rows.shape[0]):
        head = HEAD_WORDS * rows[r]
        first, count = np.int64(heads[head + FIRST]), np.int64(heads[head + BUCKETS])
        heads[head + FIRST], heads[head + BUCKETS] = firsts[r], buckets[r]
        if first == END:
            continue
        for base in range(first, first + count):
            slab = np.int64(base)
            while slab != END:
                for at in range(keys):
                    key = np.int64(slabs[slab * words + at])
                    if key >= 0:
                        bucket = _bucket(key, np.int64(buckets[r]))
                        place = _append(slabs, heads, unused, state, words, keys, False, head, bucket, key)
                        to = place % words
                        for k in range(weight_words):
                            weight = slabs[slab * words + keys + at * weight_words + k]
                            slabs[place - to + keys + to * weight_words + k] = weight
                slab = np.int64(slabs[slab * words + words - 1])
        for base in range(first, first + count):
            _flush(slabs, unused, state, words, np.int64(base), False)


@njit(cache=True, borrows=True)
def _gather(slabs, heads, words, keys, weight_words, rows, starts, src, dst, weights):
    for r in range(rows.shape[0]):
        head, out = HEAD_WORDS * rows[r], starts[r]
        if heads[head + DEGREE] == 0:
            continue
        first = np.int64(heads[head + FIRST])
        for base in range(first, first + heads[head + BUCKETS]):
            slab = np.int64(base)
            while slab != END:
                for at in range(keys):
                    key = slabs[slab * words + at]
                    if key >= 0:
                        src[out], dst[out] = rows[r], key
                        for k in range(weight_words):
                            weights[out * weight_words + k] = slabs[slab * words + keys + at * weight_words + k]
                        out += 1
                slab = np.int64(slabs[slab * words + words - 1])


@njit(cache=True)
def _copy_rows(dirty, old_offsets, new_offsets, old, new):
    for row in range(old_offsets.shape[0] - 1):
        if not dirty[row]:
            new[new_offsets[row] : new_offsets[row + 1]] = old[old_offsets[row] : old_offsets[row + 1]]


def rehash(backend: Backend, table: SlabTable, rows: Array, firsts: Array, buckets: Array) -> None:
    """Move rows to new tables, whose base slabs are taken already; return all slabs of the old tables to the pool.

    Parameters
    ----------
    rows : array, shape (R,), int64
        Distinct.
    firsts, buckets : array, shape (R,), int32
        First base slab and number of base slabs of the new tables.
    """
    _rehash(
        table.slabs,
        table.heads,
        table.unused,
        table.state,
        table.words,
        table.keys,
        table.weight_words,
        rows,
        firsts,
        buckets,
    )


def gather(
    backend: Backend, table: SlabTable, rows: Array, starts: Array, src: Array, dst: Array, weights: Array | None
) -> None:
    """Write the edges of row ``rows[r]`` from ``starts[r]`` on, for each r, unordered within a row."""
    out = table.slabs[:0] if weights is None else table.weights_as_words(weights)
    _gather(table.slabs, table.heads, table.words, table.keys, table.weight_words, rows, starts, src, dst, out)


def copy_rows(backend: Backend, dirty: Array, old: SlotArrays, new: SlotArrays) -> None:
    """Copy the rows that are not dirty from one packed table to another, which must have room for them."""
    for source, target in ((old.src, new.src), (old.dst, new.dst), (old.weights, new.weights)):
        if source is not None:
            _copy_rows(dirty, old.offsets, new.offsets, source, target)
