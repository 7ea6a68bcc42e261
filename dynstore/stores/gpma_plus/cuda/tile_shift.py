"""Shifting keys into a leaf whose destinations are in a block's shared memory, by one thread.

Keys go to the same gaps as in ``pma/cuda/leaf_insert.py``. Most keys move only edges of their own row, which changes no
source: sources are read and written only if an edge moves past a row's end.
"""

from __future__ import annotations

import numpy as np

from dynstore.cuda.compiler import device
from dynstore.stores.gpma_plus.cuda.tile_keys import d_slot_of, d_slots_ahead, d_slots_behind
from dynstore.stores.pma.cuda.leaf_insert import d_find_gap, d_move_place

__all__ = ["d_shift_leaf", "d_stays_in_row"]


@device
def d_is_own(note, belongs, gap):
    """Return whether a gap of the leaf lies in the row of a key that belongs before slot ``belongs``."""
    return (gap >= belongs - d_slots_behind(note)) & (gap < belongs + d_slots_ahead(note))


@device
def d_stays_in_row(note, leaf, word):
    """Return whether a key alone would move only edges of its own row; False in a leaf without a gap."""
    belongs = np.int32(d_slot_of(note) - np.int32(np.uint32(leaf << np.uint32(5))))
    return d_is_own(note, belongs, d_find_gap(word, belongs))


@device
def d_move_edges(dst, held, first_slot, here, target, step):
    """Move the edges between a gap and a slot by one, the first into the gap; slots are the tile's, uint32."""
    while here != target:
        origin = np.uint32(np.int32(here) + step)
        column = held[origin]
        held[here], dst[np.uint32(first_slot + here)] = column, column
        here = origin


@device
def d_put_source(src, slot, row):
    """Write a slot's source. Return the slot's bit within its leaf if the source changes, else 0."""
    changed = np.uint32(0)
    if src[slot] != row:
        src[slot], changed = row, np.uint32(1) << np.uint32(slot & np.uint32(31))
    return changed


@device
def d_move_sources(src, here, target, step, row):
    """Do as ``d_move_edges`` with sources, then write one to ``target``. Return the bits of slots where it changes."""
    changed = np.uint32(0)
    while here != target:
        origin = np.uint32(np.int32(here) + step)
        changed = np.uint32(changed | d_put_source(src, here, src[origin]))
        here = origin
    return np.uint32(changed | d_put_source(src, target, row))


@device
def d_shift_leaf(src, dst, work, first_slot, leaf, word, first, num_keys):
    """A thread inserts keys into a leaf that has room for them.

    Parameters
    ----------
    work : Tile
        ``held`` are the destinations of the tile's slots, from ``first_slot`` on; ``by_leaf`` are the numbers of the
        keys in ascending order, from ``first`` on.
    leaf : uint32
        The leaf's number, from the tile's first on.
    word : uint32
        The slots of the leaf that have an element.

    Returns
    -------
    word : uint32
        The same with the keys.
    changed : uint32
        The slots whose sources have changed.
    """
    filled, changed, rows_stay = np.uint32(0), np.uint32(0), True
    at, number, end = np.uint32(leaf << np.uint32(5)), np.uint32(first), np.uint32(first + num_keys)
    while number < end:
        k = np.uint32(work.by_leaf[number])
        key, note = work.keys[k], work.noted[k]
        belongs = np.int32(d_slot_of(note) - np.int32(at))
        place = d_move_place(belongs, filled)
        gap = d_find_gap(word, place)
        # The rows of the keys before have stayed, too, so the key's row is where it was.
        rows_stay &= d_is_own(note, belongs, gap)
        is_up = gap >= place
        here, target = np.uint32(at + np.uint32(gap)), np.uint32(at + np.uint32(place))
        step = np.int32(-1)
        if is_up:
            filled = np.uint32(filled | np.uint32(1) << np.uint32(gap))
        else:
            step, target = np.int32(1), np.uint32(target - np.uint32(1))
        d_move_edges(dst, work.held, first_slot, here, target, step)
        work.held[target], dst[np.uint32(first_slot + target)] = np.int32(key), np.int32(key)
        if not rows_stay:
            here, target = np.uint32(first_slot + here), np.uint32(first_slot + target)
            changed = np.uint32(changed | d_move_sources(src, here, target, step, np.int32(key >> 32)))
        word = np.uint32(word | np.uint32(1) << np.uint32(gap))
        number = np.uint32(number + np.uint32(1))
    return word, changed
