"""Breadth-first search over pages on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.paged.cpu.slots import choose_slots, push_slots
from dynstore.algorithms.paged.searches import BEGINNING, CONTINUING, FRONTIER, UNREACHED
from dynstore.host_compiler import njit
from dynstore.stores.paged.cpu import d_find_place, d_has_bit, d_open_leaf
from dynstore.stores.paged.layout import LEAF, START_AT, WIDTH_MASK

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import Piece
    from dynstore.algorithms.paged.searches import Search
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = [
    "LINE_BITS",
    "SECTOR_BITS",
    "choose_parents",
    "choose_slots",
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
    depth, noted, pulls,
):  # fmt: skip
    """Reach neighbours of the frontier in active leaves, or with ``pulls`` rows with a neighbour in the frontier."""
    others = np.empty(LEAF, np.int64)
    from_depth, at_depth = (UNREACHED, depth) if pulls else (depth, UNREACHED)
    for page in pages:
        for leaf in range(page << page_bits, min((page + 1) << page_bits, heads.shape[0])):
            if not d_has_bit(active[leaf >> 5], leaf & 31):
                continue
            place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
            d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], LEAF, others)
            width = np.int64(heads[leaf] & np.uint32(WIDTH_MASK))
            notes[noted] += d_count_spans(place + shift, width, LINE_BITS)
            notes[noted + 1] += d_count_spans(place + shift, width, SECTOR_BITS)
            rank = np.int64(ranks[leaf])
            for slot in range(LEAF):
                if slot > 0 and d_has_bit(marks[leaf], slot):
                    rank += 1
                row = rows[rank]
                if not d_has_bit(valid[leaf], slot):
                    continue
                if distances[row] == from_depth and distances[others[slot]] == at_depth:
                    distances[row if pulls else others[slot]] = depth + 1
                    notes[0] = 1


@njit(cache=True, nogil=True)
def k_choose_parents(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, distances, parents
):  # fmt: skip
    """Keep the smallest parent of each vertex."""
    others = np.empty(LEAF, np.int64)
    for page in pages:
        for leaf in range(page << page_bits, min((page + 1) << page_bits, heads.shape[0])):
            place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
            d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], LEAF, others)
            rank = np.int64(ranks[leaf])
            for slot in range(LEAF):
                if slot > 0 and d_has_bit(marks[leaf], slot):
                    rank += 1
                row, other = rows[rank], others[slot]
                if not d_has_bit(valid[leaf], slot):
                    continue
                if distances[row] != UNREACHED and distances[other] == distances[row] + 1:
                    parents[other] = min(parents[other], row)


def mark_leaves(packed: PagedRows, search: Search, depth: int, kind: int, weight_lines: int, requests: Array) -> None:
    """Set the active bits of leaves with rows of some kind, and count requests by page.

    ``weight_lines``: what the weights of a leaf take.
    """
    heads, _, *others = packed.leaves
    placed = packed.places, packed.page_bits
    k_mark_leaves(heads, *others, *placed, search.distances, depth, kind, weight_lines, search.active, requests)


def push_leaves(packed: PagedRows, piece: Piece, search: Search, depth: int, noted: int) -> None:
    """Reach the neighbours of the frontier in the active leaves of a piece."""
    k_search_leaves(*packed.leaves, *piece.arguments, *search, depth, noted, False)


def pull_leaves(packed: PagedRows, piece: Piece, search: Search, depth: int, noted: int) -> None:
    """Reach unreached rows with a neighbour in the frontier in the active leaves of a piece."""
    k_search_leaves(*packed.leaves, *piece.arguments, *search, depth, noted, True)


def choose_parents(packed: PagedRows, piece: Piece, distances: Array, parents: Array) -> None:
    """Keep the smallest parents that the edges of a piece offer."""
    k_choose_parents(*packed.leaves, *piece.arguments, distances, parents)
