"""Arcs of rows in pages, and their triangles, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.community.cpu.triangles import k_count_forward
from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import njit
from dynstore.stores.paged.cpu import d_find_place, d_has_bit, d_open_leaf
from dynstore.stores.paged.layout import LEAF

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import Piece
    from dynstore.algorithms.paged.states import Arcs
    from dynstore.backend import Backend
    from dynstore.snapshot import GapCSR
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["count_arc_slots", "count_arcs", "count_triangles", "list_arc_slots", "list_arcs"]


@njit
def d_add_arc(row, other, ranks, low, high, keys, filled):
    """Append the key of an edge of rows from ``low`` to ``high`` if it leads to a lower rank."""
    if low <= row < high and ranks[other] < ranks[row]:
        if filled[0] < keys.shape[0]:
            keys[filled[0]] = np.int64(ranks[row]) << 32 | np.int64(ranks[other])
        filled[0] += 1


@njit(cache=True, nogil=True)
def k_list_arcs(
    heads, bases, marks, ranks_of_leaves, rows, words, places, shift, page_bits, valid, pages, ranks, low, high, keys,
    filled,
):  # fmt: skip
    """Append the arcs of the edges of some rows."""
    others = np.empty(LEAF, np.int64)
    for page in pages:
        for leaf in range(page << page_bits, min((page + 1) << page_bits, heads.shape[0])):
            place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
            d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], LEAF, others)
            rank = np.int64(ranks_of_leaves[leaf])
            for slot in range(LEAF):
                if slot > 0 and d_has_bit(marks[leaf], slot):
                    rank += 1
                if d_has_bit(valid[leaf], slot):
                    d_add_arc(rows[rank], others[slot], ranks, low, high, keys, filled)


@njit(cache=True, nogil=True)
def k_count_arcs(
    heads, bases, marks, ranks_of_leaves, rows, words, places, shift, page_bits, valid, pages, ranks, counts
):  # fmt: skip
    """Add the number of arcs of each row."""
    others = np.empty(LEAF, np.int64)
    for page in pages:
        for leaf in range(page << page_bits, min((page + 1) << page_bits, heads.shape[0])):
            place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
            d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], LEAF, others)
            rank = np.int64(ranks_of_leaves[leaf])
            for slot in range(LEAF):
                if slot > 0 and d_has_bit(marks[leaf], slot):
                    rank += 1
                if d_has_bit(valid[leaf], slot) and ranks[others[slot]] < ranks[rows[rank]]:
                    counts[rows[rank]] += 1


@njit(cache=True, nogil=True)
def k_list_arc_slots(sources, indices, valid, ranks, low, high, keys, filled):
    """Append the arcs of the edges of some rows."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot):
            d_add_arc(sources[slot], indices[slot], ranks, low, high, keys, filled)


@njit(cache=True, nogil=True)
def k_count_arc_slots(sources, indices, valid, ranks, counts):
    """Add the number of arcs of each row."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot) and ranks[indices[slot]] < ranks[sources[slot]]:
            counts[sources[slot]] += 1


def list_arcs(packed: PagedRows, piece: Piece, arcs: Arcs) -> None:
    """Append the arcs of the edges of a piece, of some rows."""
    k_list_arcs(*packed.leaves, *piece.arguments, *arcs)


def count_arcs(packed: PagedRows, piece: Piece, ranks: Array, counts: Array) -> None:
    """Add the number of arcs of each row in a piece."""
    k_count_arcs(*packed.leaves, *piece.arguments, ranks, counts)


def list_arc_slots(edges: GapCSR, arcs: Arcs) -> None:
    """Append the arcs of the edges of some rows."""
    k_list_arc_slots(edges.sources, edges.indices, edges.valid, *arcs)


def count_arc_slots(edges: GapCSR, ranks: Array, counts: Array) -> None:
    """Add the number of arcs of each row."""
    k_count_arc_slots(edges.sources, edges.indices, edges.valid, ranks, counts)


def count_triangles(backend: Backend, ranks: Array, keys: Array) -> Array:
    """Return the triangles of arcs at each vertex, int64; the keys are sorted."""
    keys.sort()
    counts = backend.zeros(ranks.shape[0], np.int64)
    starts = np.searchsorted(keys, np.arange(ranks.shape[0] + 1) << 32)
    arcs = starts, (keys & 0xFFFFFFFF).astype(np.int32)
    k_count_forward(*arcs, *arcs, counts)
    found: Array = counts[ranks]
    return found
