"""Absent keys of a tile, in a block's shared memory: their notes, and their ranks within their leaves.

A note has 32 bits: the key's slot, from the tile's first on; its rank, which is how many rows of its leaf came before,
later how many keys of the leaf are below it, or REPEATED if another row has the same key; how many slots of its row are
before that slot, and from it on, each up to MAX_NOTED.
"""

from __future__ import annotations

import numpy as np

from dynstore.cuda.compiler import THREADS, cuda, device
from dynstore.stores.pma.cuda.partition import TILE_BITS

__all__ = [
    "NO_KEY",
    "REPEATED",
    "d_leaf_of",
    "d_make_note",
    "d_rank_of",
    "d_slot_of",
    "d_slots_ahead",
    "d_slots_behind",
    "d_sort_in_leaves",
    "d_with_rank",
]

SLOT_BITS, RANK_BITS, ROW_BITS = 14, 10, 4
assert 1 << TILE_BITS < 1 << SLOT_BITS, "the slot behind a piece has a number"
SLOT, RANK = np.int32((1 << SLOT_BITS) - 1), np.int32((1 << RANK_BITS) - 1)
RANK_AT, BEHIND_AT, AHEAD_AT = np.int32(SLOT_BITS), np.int32(SLOT_BITS + RANK_BITS), np.int32(32 - ROW_BITS)
REPEATED = RANK
MAX_NOTED = np.uint32((1 << ROW_BITS) - 1)


# A key above all others; it replaces repeated keys.
NO_KEY = np.int64(0x7FFFFFFFFFFFFFFF)
STEP = np.uint32(THREADS)


@device
def d_make_note(slot, behind, ahead):
    """Note a slot, and how many slots of its row are before it and from it on, all uint32; the rank is 0."""
    both = np.uint32(min(behind, MAX_NOTED) | np.uint32(min(ahead, MAX_NOTED) << np.uint32(ROW_BITS)))
    return np.int32(slot | np.uint32(both << np.uint32(BEHIND_AT)))


@device
def d_with_rank(note, rank):
    """Return a note with another rank, int32."""
    return np.int32((note & ~np.int32(RANK << RANK_AT)) | np.int32(rank << RANK_AT))


@device
def d_slot_of(note):
    """Return the slot, int32."""
    return np.int32(note & SLOT)


@device
def d_rank_of(note):
    """Return the rank, int32."""
    return np.int32((note >> RANK_AT) & RANK)


@device
def d_slots_behind(note):
    """Return how many slots of the key's row there are before its slot; int32."""
    return np.int32((note >> BEHIND_AT) & np.int32(MAX_NOTED))


@device
def d_slots_ahead(note):
    """Return how many slots of the key's row there are from its slot on; int32."""
    return np.int32((note >> AHEAD_AT) & np.int32(MAX_NOTED))


@device
def d_leaf_of(note):
    """Return the leaf of a key, from the tile's first on; only a table's first key goes before a tile's first slot."""
    return np.uint32(np.uint32(max(d_slot_of(note), np.int32(1)) - np.int32(1)) >> np.uint32(5))


@device
def d_rank_keys(keys, noted, by_leaf, rows_of_leaf, firsts, num_keys):
    """Threads stride over the keys: note for each how many keys of its leaf are below it, or REPEATED.

    Returns whether one of the thread's keys is repeated.
    """
    k, some_repeated = np.uint32(cuda.threadIdx.x), False
    while k < num_keys:
        key, note = keys[k], noted[k]
        if key != NO_KEY:
            leaf, rank, is_repeated = d_leaf_of(note), np.int32(0), False
            place = firsts[leaf]
            end = np.uint32(place + rows_of_leaf[leaf])
            while place < end:
                other = np.uint32(by_leaf[place])
                other_key = keys[other]
                rank = np.int32(rank + np.int32(other_key < key))
                is_repeated |= (other_key == key) & (other < k)
                place = np.uint32(place + np.uint32(1))
            noted[k] = d_with_rank(note, REPEATED if is_repeated else rank)
            some_repeated |= is_repeated
        k = np.uint32(k + STEP)
    return some_repeated


@device
def d_leave_out_repeated(keys, noted, num_keys):
    """Replace repeated keys by ``NO_KEY``."""
    k = np.uint32(cuda.threadIdx.x)
    while k < num_keys:
        if d_rank_of(noted[k]) == REPEATED:
            keys[k] = NO_KEY
        k = np.uint32(k + STEP)


@device
def d_count_distinct(keys, noted, rows_of_leaf, num_keys):
    """Subtract repeated keys from the rows of their leaves."""
    k = np.uint32(cuda.threadIdx.x)
    while k < num_keys:
        if keys[k] == NO_KEY:
            cuda.atomic.sub(rows_of_leaf, d_leaf_of(noted[k]), np.uint32(1))
        k = np.uint32(k + STEP)


@device
def d_gather_keys(noted, by_leaf, firsts, num_keys):
    """Write to ``by_leaf`` the numbers of each leaf's keys side by side, from ``firsts`` on, in the order of ranks."""
    k = np.uint32(cuda.threadIdx.x)
    while k < num_keys:
        by_leaf[np.uint32(firsts[d_leaf_of(noted[k])] + np.uint32(d_rank_of(noted[k])))] = np.uint16(k)
        k = np.uint32(k + STEP)


@device
def d_sort_in_leaves(keys, noted, by_leaf, rows_of_leaf, firsts, num_keys, has_repeated):
    """Rank the keys within their leaves and leave out repeated ones. All threads of the block call.

    At first a rank is the number of rows before. ``has_repeated``, shared, is 0. What was written before this call is
    visible after it.
    """
    d_gather_keys(noted, by_leaf, firsts, num_keys)
    cuda.syncthreads()
    if d_rank_keys(keys, noted, by_leaf, rows_of_leaf, firsts, num_keys):
        has_repeated[0] = 1
    cuda.syncthreads()
    if has_repeated[0] > 0:  # the same in all threads
        d_leave_out_repeated(keys, noted, num_keys)
        cuda.syncthreads()
        d_rank_keys(keys, noted, by_leaf, rows_of_leaf, firsts, num_keys)
        cuda.syncthreads()
        d_count_distinct(keys, noted, rows_of_leaf, num_keys)
        cuda.syncthreads()
