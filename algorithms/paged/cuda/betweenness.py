"""Betweenness centrality over pages on the GPU: a warp a leaf, a lane an edge, for all searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.algorithms.paged.cuda.searches import d_add_reads, d_note_reads
from dynstore.algorithms.paged.cuda.sweeps import d_sum_rows
from dynstore.algorithms.rows.cuda.common import d_has_bit
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane
from dynstore.stores.paged.cuda import d_find_row, d_find_start, d_is_valid, d_open_leaf, d_walk_active
from dynstore.stores.paged.layout import LEAF, Leaves, Stored

if TYPE_CHECKING:
    from dynstore.algorithms.paged.pairs import Backward, Forward
    from dynstore.algorithms.paged.passes import Piece
    from dynstore.algorithms.paged.states import SearchState
    from dynstore.snapshot import GapCSR
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["ForwardArrays", "count_paths", "count_slot_paths", "gather_owed", "gather_slot_owed", "mask_rows"]


class ForwardArrays(NamedTuple):
    """What searches know of vertices; see :class:`~dynstore.algorithms.paged.betweenness.Forward`."""

    num_searches: Any
    levels: Array
    values: Array


@kernel
def k_mask_rows(num_searches, levels, depth, masks, turns):
    """Stride over vertices: write which searches have them at a level, and the level where one has."""
    for vertex in range(int(cuda.grid(1)), masks.shape[0], int(cuda.gridsize(1))):
        mask = np.uint32(0)
        for search in range(num_searches):
            if levels[vertex * num_searches + search] == depth:
                mask |= np.uint32(1) << np.uint32(search)
        masks[vertex] = mask
        turns[vertex] = depth if mask != 0 else -1


@device
def d_count_edge(pairs, row, other, mask, depth):
    """Add the paths of a row to the other end (atomic adds), in the searches of a mask; return whether one was new.

    Threads that reach a vertex at once all write the same level.
    """
    found = False
    while mask != 0:
        search = np.int64(cuda.ffs(np.uint32(mask))) - 1
        mask = np.uint32(mask & np.uint32(mask - np.uint32(1)))
        child = other * pairs.num_searches + search
        if pairs.levels[child] > depth:
            pairs.levels[child] = depth + 1
            cuda.atomic.add(pairs.values, child, pairs.values[row * pairs.num_searches + search])
            found = True
    return found


@device
def d_count_leaf(leaves, stored, leaf, lane, totals, state):
    """Add the paths of the rows of a leaf to the next level."""
    valid, notes, pairs, masks, depth = state
    mark = leaves.marks[leaf]
    other = d_open_leaf(leaves, stored, leaf, mark, lane)
    totals = d_add_reads(stored, leaf, leaves.heads[leaf], totals)
    if d_is_valid(valid, leaf, lane):
        row = d_find_row(leaves, leaf, mark, lane)
        if d_count_edge(pairs, row, other, masks[row], depth):
            notes[0] = 1
    return totals


@kernel
def k_count_paths(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, turns, active, notes,
    num_searches, masks, levels, paths, depth, noted,
):  # fmt: skip
    """Warps stride over words of active leaves: add paths to the next level, see :func:`d_count_edge`."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    pairs = ForwardArrays(num_searches, levels, paths)
    totals = d_walk_active(leaves, stored, pages, active, d_count_leaf, (valid, notes, pairs, masks, depth))
    d_note_reads(notes, noted, totals)


@device
def d_gather_search(pairs, row, other, wanted, gathered, depth, mark, search):
    """Add up what the neighbours owe to the rows of a leaf in one search (atomic adds); all 32 lanes call."""
    lane, value = d_lane(), 0.0
    if wanted and pairs.levels[other * pairs.num_searches + search] == depth + 1:
        value = pairs.values[other * pairs.num_searches + search]
    total = d_sum_rows(value, d_find_start(mark, lane), lane)
    is_last = lane == LEAF - 1 or (mark >> np.uint32((lane + 1) & 31)) & np.uint32(1) != 0
    if is_last and total != 0.0:
        cuda.atomic.add(gathered, row * pairs.num_searches + search, total)
        cuda.atomic.add(pairs.values, row * pairs.num_searches + search, total)


@device
def d_gather_leaf(leaves, stored, leaf, lane, totals, state):
    """Add what the next level owes to the rows of a leaf."""
    valid, pairs, masks, gathered, depth = state
    mark = leaves.marks[leaf]
    other = d_open_leaf(leaves, stored, leaf, mark, lane)
    totals = d_add_reads(stored, leaf, leaves.heads[leaf], totals)
    row = d_find_row(leaves, leaf, mark, lane)
    mask = masks[row] if d_is_valid(valid, leaf, lane) else np.uint32(0)
    for search in range(pairs.num_searches):
        wanted = (mask >> np.uint32(search)) & np.uint32(1) != 0
        if d_ballot(wanted) != 0:  # the same in all lanes
            d_gather_search(pairs, row, other, wanted, gathered, depth, mark, search)
    return totals


@kernel
def k_gather_owed(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, turns, active, notes,
    num_searches, masks, levels, owed, gathered, depth, noted,
):  # fmt: skip
    """Warps stride over words of active leaves: add what the next level owes to its rows.

    Atomic adds: two a row and search of a leaf.
    """
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    state = valid, ForwardArrays(num_searches, levels, owed), masks, gathered, depth
    d_note_reads(notes, noted, d_walk_active(leaves, stored, pages, active, d_gather_leaf, state))


@kernel
def k_count_slot_paths(sources, indices, valid, notes, num_searches, masks, levels, paths, depth):
    """Threads stride over slots: add paths to the next level, see :func:`d_count_edge`."""
    pairs = ForwardArrays(num_searches, levels, paths)
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot):
            row = int(sources[slot])
            if d_count_edge(pairs, row, int(indices[slot]), masks[row], depth):
                notes[0] = 1


@kernel
def k_gather_slot_owed(sources, indices, valid, num_searches, masks, levels, owed, gathered, depth):
    """Threads stride over slots: add what the next level owes to its rows (atomic adds)."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot):
            row, other = int(sources[slot]), int(indices[slot])
            for search in range(num_searches):
                child, pair = other * num_searches + search, row * num_searches + search
                wanted = (masks[row] >> np.uint32(search)) & np.uint32(1) != 0
                if wanted and levels[child] == depth + 1:
                    cuda.atomic.add(gathered, pair, owed[child])
                    cuda.atomic.add(owed, pair, owed[child])


def mask_rows(pairs: Forward | Backward, depth: int, turns: Array) -> None:
    """Write which searches have each vertex at a level; ``turns`` becomes the level where one has, else -1."""
    k_mask_rows.launch_strided(turns.shape[0], pairs.num_searches, pairs.levels, depth, pairs.masks, turns)


def count_paths(packed: PagedRows, piece: Piece, search: SearchState, pairs: Forward, depth: int, noted: int) -> None:
    """Add the paths of a level's rows to their neighbours of the next one, in the active leaves of a piece."""
    num_threads = piece.pages.shape[0] << packed.page_bits
    k_count_paths.launch_strided(num_threads, *packed.leaves, *piece.arguments, *search, *pairs, depth, noted)


def gather_owed(packed: PagedRows, piece: Piece, search: SearchState, pairs: Backward, depth: int, noted: int) -> None:
    """Add to a level's rows what their neighbours of the next one owe, in the active leaves of a piece."""
    num_threads = piece.pages.shape[0] << packed.page_bits
    k_gather_owed.launch_strided(num_threads, *packed.leaves, *piece.arguments, *search, *pairs, depth, noted)


def count_slot_paths(edges: GapCSR, search: SearchState, pairs: Forward, depth: int) -> None:
    """Add the paths of a level's rows to their neighbours of the next one."""
    slots = edges.sources, edges.indices, edges.valid
    k_count_slot_paths.launch_strided(edges.num_slots, *slots, search.notes, *pairs, depth)


def gather_slot_owed(edges: GapCSR, pairs: Backward, depth: int) -> None:
    """Add to a level's rows what their neighbours of the next one owe."""
    slots = edges.sources, edges.indices, edges.valid
    k_gather_slot_owed.launch_strided(edges.num_slots, *slots, *pairs, depth)
