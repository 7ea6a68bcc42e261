"""Breadth-first search over pages on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.paged.cpu.slots import push_slots
from dynstore.algorithms.paged.states import BEGINNING, CONTINUING, FRONTIER, UNREACHED
from dynstore.host_compiler import inlined, njit
from dynstore.stores.paged.cpu import d_find_place, d_has_bit, visit_edges, walk_leaves
from dynstore.stores.paged.layout import LEAF, LEAF_BITS, WIDTH_MASK, Leaves, Stored

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import Piece
    from dynstore.algorithms.paged.states import SearchState
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = [
    "mark_leaves",
    "pull_leaves",
    "push_leaves",
    "push_slots",
    "walk_active",
]

# Words of a line and of a sector of memory, as powers of two.
LINE_BITS, SECTOR_BITS = 5, 3


@inlined
def d_count_spans(place, width, bits):
    """Return how many spans of ``2**bits`` words a leaf's words touch, at least 1."""
    return ((place + max(width, 1) - 1) >> bits) - (place >> bits) + 1


@inlined
def d_is_wanted(mark, rank, rows, distances, depth, kind):
    """Return whether a leaf has a row of some kind."""
    value = depth if kind == FRONTIER else UNREACHED
    for slot in range(1 if kind == CONTINUING else LEAF):
        begins = d_has_bit(mark, slot)
        if slot > 0 and begins:
            rank += 1
        elif slot > 0:
            continue
        is_kind = kind == FRONTIER or begins == (kind == BEGINNING)
        if is_kind and distances[rows[rank]] == value:
            return True
    return False


@njit(cache=True, nogil=True)
def k_mark_leaves(
    heads, marks, ranks, rows, places, page_bits, distances, depth, kind, weight_lines, active, requests
):  # fmt: skip
    """Set the bits of leaves with rows of some kind, clear all others, and count requests by page."""
    active[:] = 0
    for leaf in range(heads.shape[0]):
        if d_is_wanted(marks[leaf], np.int64(ranks[leaf]), rows, distances, depth, kind):
            active[leaf >> 5] |= np.uint32(1) << np.uint32(leaf & 31)
            place = d_find_place(places, 0, page_bits, heads[leaf], leaf)
            width = np.int64(heads[leaf] & np.uint32(WIDTH_MASK))
            requests[leaf >> page_bits] += d_count_spans(place, width, LINE_BITS) + weight_lines


@inlined
def d_note_leaf(notes, noted, leaves, stored, leaf, weight_lines):
    """Count the requests and the sectors that a leaf takes, and so many lines of weights."""
    head = leaves.heads[leaf]
    place, width = d_find_place(stored.places, 0, stored.page_bits, head, leaf), np.int64(head & np.uint32(WIDTH_MASK))
    notes[noted] += d_count_spans(place, width, LINE_BITS) + weight_lines
    notes[noted + 1] += d_count_spans(place, width, SECTOR_BITS) + 4 * weight_lines


def walk_active(visit):
    """Make a walk over the edges of active leaves: ``visit(row, other, slot, *more)``.

    Its state: bits of the edges, notes, where in these the reads are counted, the lines of a leaf's weights, ``*more``.
    """
    d_visit = visit_edges(visit)

    @inlined
    def d_visit_noted(leaves, stored, leaf, others, valid, notes, noted, weight_lines, *more):
        d_note_leaf(notes, noted, leaves, stored, leaf, weight_lines)
        d_visit(leaves, leaf, others, valid[leaf], leaf << LEAF_BITS, *more)

    return walk_leaves(d_visit_noted)


@inlined
def d_reach(row, other, slot, marks, distances, notes, parents, depth, kind):
    """Reach the other end of an edge from its row in the frontier, or the row, if it is of a kind, from the other end.

    Vertices that are reached at this level already may get a smaller parent.
    """
    parent, child = np.int64(row), other
    if kind != FRONTIER:
        lane = slot & (LEAF - 1)
        begins = marks[slot >> LEAF_BITS] & (np.uint32(0xFFFFFFFF) >> np.uint32(LEAF - 1 - lane)) != 0
        if begins != (kind == BEGINNING):
            return
        parent, child = child, parent
    if distances[parent] == depth and distances[child] > depth:
        notes[0] |= distances[child] == UNREACHED
        distances[child] = depth + 1
        if parents.shape[0] > 0:
            parents[child] = min(parents[child], parent)


d_walk_reached = walk_active(d_reach)


@njit(cache=True, nogil=True)
def k_search_leaves(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, distances, active, notes,
    parents, depth, kind, noted,
):  # fmt: skip
    """Reach neighbours of the frontier in active leaves, or rows of a kind with a neighbour in the frontier."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    state = marks, distances, notes, parents, depth, kind
    d_walk_reached(leaves, stored, pages, active, valid, notes, noted, 0, *state)


def mark_leaves(
    packed: PagedRows, search: SearchState, depth: int, kind: int, weight_lines: int, requests: Array
) -> None:
    """Set the active bits of leaves with rows of some kind, and count requests by page.

    ``weight_lines``: what the weights of a leaf take.
    """
    heads, _, *others = packed.leaves
    placed = packed.places, packed.page_bits
    k_mark_leaves(heads, *others, *placed, search.distances, depth, kind, weight_lines, search.active, requests)


def push_leaves(packed: PagedRows, piece: Piece, search: SearchState, parents: Array, depth: int, noted: int) -> None:
    """Reach the neighbours of the frontier in the active leaves of a piece."""
    k_search_leaves(*packed.leaves, *piece.arguments, *search, parents, depth, FRONTIER, noted)


def pull_leaves(
    packed: PagedRows, piece: Piece, search: SearchState, parents: Array, depth: int, kind: int, noted: int
) -> None:
    """Reach unreached rows with a neighbour in the frontier in the active leaves of a piece.

    ``kind``: BEGINNING for rows that begin in a leaf, CONTINUING for the one that goes on there.
    """
    k_search_leaves(*packed.leaves, *piece.arguments, *search, parents, depth, kind, noted)
