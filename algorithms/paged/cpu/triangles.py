"""Arcs of rows in pages, and their triangles, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.community.cpu.triangles import k_count_forward
from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import inlined, njit
from dynstore.stores.paged.cpu import walk_edges
from dynstore.stores.paged.layout import Leaves, Stored

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import Piece
    from dynstore.algorithms.paged.states import RankedArcs
    from dynstore.backend import Backend
    from dynstore.snapshot import GapCSR
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["count_arc_slots", "count_arcs", "count_triangles", "list_arc_slots", "list_arcs"]


@inlined
def d_add_arc(row, other, slot, ranks, low, high, keys, filled):
    """Append the key of an edge of rows from ``low`` to ``high`` if it leads to a lower rank."""
    if low <= row < high and ranks[other] < ranks[row]:
        if filled[0] < keys.shape[0]:
            keys[filled[0]] = np.int64(ranks[row]) << 32 | np.int64(ranks[other])
        filled[0] += 1


d_walk_arcs = walk_edges(d_add_arc)


@njit(cache=True, nogil=True)
def k_list_arcs(
    heads, bases, marks, ranks_of_leaves, rows, words, places, shift, page_bits, valid, pages, ranks, low, high, keys,
    filled,
):  # fmt: skip
    """Append the arcs of the edges of some rows."""
    leaves, stored = Leaves(heads, bases, marks, ranks_of_leaves, rows), Stored(words, places, shift, page_bits)
    d_walk_arcs(leaves, stored, pages, None, valid, ranks, low, high, keys, filled)


@inlined
def d_count_arc(row, other, slot, ranks, counts):
    """Count an edge that is an arc of its row."""
    if ranks[other] < ranks[row]:
        counts[row] += 1


d_walk_counts = walk_edges(d_count_arc)


@njit(cache=True, nogil=True)
def k_count_arcs(
    heads, bases, marks, ranks_of_leaves, rows, words, places, shift, page_bits, valid, pages, ranks, counts
):  # fmt: skip
    """Add the number of arcs of each row."""
    leaves, stored = Leaves(heads, bases, marks, ranks_of_leaves, rows), Stored(words, places, shift, page_bits)
    d_walk_counts(leaves, stored, pages, None, valid, ranks, counts)


@njit(cache=True, nogil=True)
def k_list_arc_slots(sources, indices, valid, ranks, low, high, keys, filled):
    """Append the arcs of the edges of some rows."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot):
            d_add_arc(sources[slot], indices[slot], slot, ranks, low, high, keys, filled)


@njit(cache=True, nogil=True)
def k_count_arc_slots(sources, indices, valid, ranks, counts):
    """Add the number of arcs of each row."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot):
            d_count_arc(sources[slot], indices[slot], slot, ranks, counts)


def list_arcs(packed: PagedRows, piece: Piece, arcs: RankedArcs) -> None:
    """Append the arcs of the edges of a piece, of some rows."""
    k_list_arcs(*packed.leaves, *piece.arguments, *arcs)


def count_arcs(packed: PagedRows, piece: Piece, ranks: Array, counts: Array) -> None:
    """Add the number of arcs of each row in a piece."""
    k_count_arcs(*packed.leaves, *piece.arguments, ranks, counts)


def list_arc_slots(edges: GapCSR, arcs: RankedArcs) -> None:
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
