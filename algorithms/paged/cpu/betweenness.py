"""Betweenness centrality over pages on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.paged.cpu.searches import walk_active
from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import inlined, njit
from dynstore.stores.paged.cpu import d_has_bit
from dynstore.stores.paged.layout import Leaves, Stored

if TYPE_CHECKING:
    from dynstore.algorithms.paged.pairs import Backward, Forward
    from dynstore.algorithms.paged.passes import Piece
    from dynstore.algorithms.paged.states import SearchState
    from dynstore.snapshot import GapCSR
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["count_paths", "count_slot_paths", "gather_owed", "gather_slot_owed", "mask_rows"]


@njit(cache=True, nogil=True)
def k_mask_rows(num_searches, levels, depth, masks, turns):
    """Write which searches have each vertex at a level, and the level for vertices that one has there."""
    for vertex in range(masks.shape[0]):
        mask = np.uint32(0)
        for search in range(num_searches):
            if levels[vertex * num_searches + search] == depth:
                mask |= np.uint32(1) << np.uint32(search)
        masks[vertex] = mask
        turns[vertex] = depth if mask != 0 else -1


@inlined
def d_count_edge(row, other, slot, notes, num_searches, masks, levels, paths, depth):
    """Add the paths of a row to the other end, in the searches that have the row at the level and come so far."""
    if masks[row] != 0:
        for search in range(num_searches):
            child = other * num_searches + search
            if d_has_bit(masks[row], search) and levels[child] > depth:
                levels[child] = depth + 1
                paths[child] += paths[row * num_searches + search]
                notes[0] = 1


d_walk_paths = walk_active(d_count_edge)


@inlined
def d_gather_edge(row, other, slot, num_searches, masks, levels, owed, gathered, depth):
    """Add what the other end owes to a row, in the searches that have the row at the level."""
    if masks[row] != 0:
        for search in range(num_searches):
            child, pair = other * num_searches + search, row * num_searches + search
            if d_has_bit(masks[row], search) and levels[child] == depth + 1:
                gathered[pair] += owed[child]
                owed[pair] += owed[child]


d_walk_owed = walk_active(d_gather_edge)


@njit(cache=True, nogil=True)
def k_count_paths(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, turns, active, notes,
    num_searches, masks, levels, paths, depth, noted,
):  # fmt: skip
    """Add the paths of a level's rows to their neighbours of the next one, in active leaves."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    state = notes, num_searches, masks, levels, paths, depth
    d_walk_paths(leaves, stored, pages, active, valid, notes, noted, 0, *state)


@njit(cache=True, nogil=True)
def k_gather_owed(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, turns, active, notes,
    num_searches, masks, levels, owed, gathered, depth, noted,
):  # fmt: skip
    """Add to a level's rows what their neighbours of the next one owe, in active leaves."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    state = num_searches, masks, levels, owed, gathered, depth
    d_walk_owed(leaves, stored, pages, active, valid, notes, noted, 0, *state)


@njit(cache=True, nogil=True)
def k_count_slot_paths(sources, indices, valid, notes, num_searches, masks, levels, paths, depth):
    """Add the paths of a level's rows to their neighbours of the next one."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot):
            d_count_edge(sources[slot], indices[slot], slot, notes, num_searches, masks, levels, paths, depth)


@njit(cache=True, nogil=True)
def k_gather_slot_owed(sources, indices, valid, num_searches, masks, levels, owed, gathered, depth):
    """Add to a level's rows what their neighbours of the next one owe."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot):
            d_gather_edge(sources[slot], indices[slot], slot, num_searches, masks, levels, owed, gathered, depth)


def mask_rows(pairs: Forward | Backward, depth: int, turns: Array) -> None:
    """Write which searches have each vertex at a level; ``turns`` becomes the level where one has, else -1."""
    k_mask_rows(pairs.num_searches, pairs.levels, depth, pairs.masks, turns)


def count_paths(packed: PagedRows, piece: Piece, search: SearchState, pairs: Forward, depth: int, noted: int) -> None:
    """Add the paths of a level's rows to their neighbours of the next one, in the active leaves of a piece."""
    k_count_paths(*packed.leaves, *piece.arguments, *search, *pairs, depth, noted)


def gather_owed(packed: PagedRows, piece: Piece, search: SearchState, pairs: Backward, depth: int, noted: int) -> None:
    """Add to a level's rows what their neighbours of the next one owe, in the active leaves of a piece."""
    k_gather_owed(*packed.leaves, *piece.arguments, *search, *pairs, depth, noted)


def count_slot_paths(edges: GapCSR, search: SearchState, pairs: Forward, depth: int) -> None:
    """Add the paths of a level's rows to their neighbours of the next one."""
    k_count_slot_paths(edges.sources, edges.indices, edges.valid, search.notes, *pairs, depth)


def gather_slot_owed(edges: GapCSR, pairs: Backward, depth: int) -> None:
    """Add to a level's rows what their neighbours of the next one owe."""
    k_gather_slot_owed(edges.sources, edges.indices, edges.valid, *pairs, depth)
