"""Arcs of rows in pages on the GPU: a warp a leaf; their triangles are counted as in core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.community.cuda.arcs import count_arc_triangles
from dynstore.algorithms.community.cuda.orientation import sort_arcs
from dynstore.algorithms.rows.cuda.common import d_has_bit
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.stores.paged.cuda import d_find_row, d_is_valid, d_walk_leaves
from dynstore.stores.paged.layout import LEAF, Leaves, Stored

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import Piece
    from dynstore.algorithms.paged.states import RankedArcs
    from dynstore.backend import Backend
    from dynstore.snapshot import GapCSR
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["count_arc_slots", "count_arcs", "count_triangles", "list_arc_slots", "list_arcs"]


@device
def d_append_key(keys, filled, key, lane, wanted):
    """Append the keys of the lanes that want to, if there is room: an atomic add a warp. All 32 lanes call."""
    bits = np.uint32(d_ballot(wanted))
    if bits == 0:
        return
    first = np.int64(0)
    if lane == 0:
        first = np.int64(cuda.atomic.add(filled, 0, np.int64(cuda.popc(bits))))
    below = np.uint32(bits & np.uint32((np.uint64(1) << np.uint64(lane)) - np.uint64(1)))
    place = d_shuffle(first, 0) + np.int64(cuda.popc(below))
    if wanted and place < keys.shape[0]:
        keys[place] = key


@device
def d_append_arc(leaves, slot, state):
    """Append the arc of an edge of rows from ``low`` to ``high``."""
    valid, ranks, low, high, keys, filled = state
    leaf, mark, lane, other = slot
    row = d_find_row(leaves, leaf, mark, lane)
    key = np.int64(0)
    wanted = low <= row and row < high and d_is_valid(valid, leaf, lane)
    if wanted:
        key = np.int64(ranks[row]) << 32 | np.int64(ranks[other])
        wanted = ranks[other] < ranks[row]
    d_append_key(keys, filled, key, lane, wanted)


@kernel
def k_list_arcs(
    heads, bases, marks, ranks_of_leaves, rows, words, places, shift, page_bits, valid, pages, ranks, low, high, keys,
    filled,
):  # fmt: skip
    """Warps stride over leaves: append the arcs of the edges of rows from ``low`` to ``high``."""
    leaves, stored = Leaves(heads, bases, marks, ranks_of_leaves, rows), Stored(words, places, shift, page_bits)
    d_walk_leaves(leaves, stored, pages, d_append_arc, (valid, ranks, low, high, keys, filled))


@device
def d_count_arc(leaves, slot, state):
    """Count an edge that is an arc of its row (atomic add)."""
    valid, ranks, counts = state
    if d_is_valid(valid, slot.leaf, slot.lane):
        row = d_find_row(leaves, slot.leaf, slot.mark, slot.lane)
        if ranks[slot.other] < ranks[row]:
            cuda.atomic.add(counts, row, np.int64(1))


@kernel
def k_count_arcs(
    heads, bases, marks, ranks_of_leaves, rows, words, places, shift, page_bits, valid, pages, ranks, counts
):  # fmt: skip
    """Warps stride over leaves: add the number of arcs of each row (atomic adds)."""
    leaves, stored = Leaves(heads, bases, marks, ranks_of_leaves, rows), Stored(words, places, shift, page_bits)
    d_walk_leaves(leaves, stored, pages, d_count_arc, (valid, ranks, counts))


@kernel
def k_list_arc_slots(sources, indices, valid, ranks, low, high, keys, filled):
    """Threads stride over slots: append the arcs of the edges of rows from ``low`` to ``high``.

    The lanes of a warp have neighbouring slots, and go round as often as the first of them.
    """
    lane = d_lane()
    for base in range(int(cuda.grid(1)) - lane, indices.shape[0], int(cuda.gridsize(1))):
        slot = base + lane
        wanted = False
        key = np.int64(0)
        if slot < indices.shape[0] and d_has_bit(valid, slot):
            row, other = int(sources[slot]), int(indices[slot])
            key = np.int64(ranks[row]) << 32 | np.int64(ranks[other])
            wanted = low <= row and row < high and ranks[other] < ranks[row]
        d_append_key(keys, filled, key, lane, wanted)


@kernel
def k_count_arc_slots(sources, indices, valid, ranks, counts):
    """Threads stride over slots: add the number of arcs of each row (atomic adds)."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot) and ranks[indices[slot]] < ranks[sources[slot]]:
            cuda.atomic.add(counts, int(sources[slot]), np.int64(1))


def list_arcs(packed: PagedRows, piece: Piece, arcs: RankedArcs) -> None:
    """Append the arcs of the edges of a piece, of some rows."""
    num_threads = (piece.pages.shape[0] << packed.page_bits) * LEAF
    k_list_arcs.launch_strided(num_threads, *packed.leaves, *piece.arguments, *arcs)


def count_arcs(packed: PagedRows, piece: Piece, ranks: Array, counts: Array) -> None:
    """Add the number of arcs of each row in a piece."""
    num_threads = (piece.pages.shape[0] << packed.page_bits) * LEAF
    k_count_arcs.launch_strided(num_threads, *packed.leaves, *piece.arguments, ranks, counts)


def list_arc_slots(edges: GapCSR, arcs: RankedArcs) -> None:
    """Append the arcs of the edges of some rows."""
    k_list_arc_slots.launch_strided(edges.num_slots, edges.sources, edges.indices, edges.valid, *arcs)


def count_arc_slots(edges: GapCSR, ranks: Array, counts: Array) -> None:
    """Add the number of arcs of each row."""
    k_count_arc_slots.launch_strided(edges.num_slots, edges.sources, edges.indices, edges.valid, ranks, counts)


def count_triangles(backend: Backend, ranks: Array, keys: Array) -> Array:
    """Return the triangles of arcs at each vertex, int64; the keys are sorted."""
    num_vertices = int(ranks.shape[0])
    starts = backend.empty(num_vertices + 1, np.int64)
    arcs = sort_arcs(backend, ranks, starts, keys)
    starts[:] = backend.xp.searchsorted(keys, backend.xp.arange(num_vertices + 1, dtype=np.int64) << 32)
    return count_arc_triangles(backend, arcs, np.dtype(np.int64))
