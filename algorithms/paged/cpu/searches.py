"""Breadth-first search over pages on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.paged.cpu.slots import push_slots
from dynstore.algorithms.paged.states import BEGINNING, CONTINUING, FRONTIER, UNREACHED
from dynstore.host_compiler import njit
from dynstore.stores.paged.cpu import d_find_place, d_has_bit, d_open_leaf
from dynstore.stores.paged.layout import LEAF, START_AT, WIDTH_MASK

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import Piece
    from dynstore.algorithms.paged.states import Search
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = [
    "LINE_BITS",
    "SECTOR_BITS",
    "d_count_spans",
    "mark_leaves",
    "pull_leaves",
    "push_leaves",
    "push_slots",
]

# Words of a line and of a sector of memory, as powers of two.
LINE_BITS, SECTOR_BITS = 5, 3


@njit
def d_count_spans(place, width, bits):
    """Return how many spans of ``2**bits`` words a leaf's words touch, at least 1."""
    return ((place + max(width, 1) - 1) >> bits) - (place >> bits) + 1


@njit
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
            place = places[leaf >> page_bits] + np.int64(heads[leaf] >> np.uint32(START_AT))
            width = np.int64(heads[leaf] & np.uint32(WIDTH_MASK))
            requests[leaf >> page_bits] += d_count_spans(place, width, LINE_BITS) + weight_lines


@njit(cache=True, nogil=True)
def k_search_leaves(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, distances, active, notes,
    parents, depth, kind, noted,
):  # fmt: skip
    """Reach neighbours of the frontier in active leaves, or rows of a kind with a neighbour in the frontier.

    Vertices that are reached at this level already may get a smaller parent.
    """
    others = np.empty(LEAF, np.int64)
    for page in pages:
        for leaf in range(page << page_bits, min((page + 1) << page_bits, heads.shape[0])):
            if not d_has_bit(active[leaf >> 5], leaf & 31):
                continue
            place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
            d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], LEAF, others)
            width = np.int64(heads[leaf] & np.uint32(WIDTH_MASK))
            notes[noted] += d_count_spans(place + shift, width, LINE_BITS)
            notes[noted + 1] += d_count_spans(place + shift, width, SECTOR_BITS)
            rank, begins = np.int64(ranks[leaf]), False
            for slot in range(LEAF):
                if d_has_bit(marks[leaf], slot):
                    rank += slot > 0
                    begins = True
                if not d_has_bit(valid[leaf], slot) or (kind != FRONTIER and begins != (kind == BEGINNING)):
                    continue
                parent, child = np.int64(rows[rank]), others[slot]
                if kind != FRONTIER:
                    parent, child = child, parent
                if distances[parent] == depth and distances[child] > depth:
                    notes[0] |= distances[child] == UNREACHED
                    distances[child] = depth + 1
                    if parents.shape[0] > 0:
                        parents[child] = min(parents[child], parent)


def mark_leaves(packed: PagedRows, search: Search, depth: int, kind: int, weight_lines: int, requests: Array) -> None:
    """Set the active bits of leaves with rows of some kind, and count requests by page.

    ``weight_lines``: what the weights of a leaf take.
    """
    heads, _, *others = packed.leaves
    placed = packed.places, packed.page_bits
    k_mark_leaves(heads, *others, *placed, search.distances, depth, kind, weight_lines, search.active, requests)


def push_leaves(packed: PagedRows, piece: Piece, search: Search, parents: Array, depth: int, noted: int) -> None:
    """Reach the neighbours of the frontier in the active leaves of a piece."""
    k_search_leaves(*packed.leaves, *piece.arguments, *search, parents, depth, FRONTIER, noted)


def pull_leaves(
    packed: PagedRows, piece: Piece, search: Search, parents: Array, depth: int, kind: int, noted: int
) -> None:
    """Reach unreached rows with a neighbour in the frontier in the active leaves of a piece.

    ``kind``: BEGINNING for rows that begin in a leaf, CONTINUING for the one that goes on there.
    """
    k_search_leaves(*packed.leaves, *piece.arguments, *search, parents, depth, kind, noted)
