"""Shortest paths over pages on the GPU: a warp a leaf, a lane an edge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.algorithms.paged.cuda.searches import d_add_reads, d_note_reads
from dynstore.algorithms.rows.cuda.common import d_has_bit
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_ballot
from dynstore.stores.paged.cuda import (
    d_find_row,
    d_is_valid,
    d_open_leaf,
    d_read_weight,
    d_walk_active,
    d_walk_leaves,
)
from dynstore.stores.paged.layout import LEAF, Leaves, PagedWeights, Stored

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import Piece
    from dynstore.algorithms.paged.states import Lengths, SearchState
    from dynstore.snapshot import GapCSR
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = [
    "Ties",
    "choose_nearer",
    "choose_nearer_slots",
    "push_tied_slots",
    "push_ties",
    "relax_leaves",
    "relax_slots",
]


class Ties(NamedTuple):
    """How far the search over edges of length 0 has come."""

    levels: Array
    notes: Array
    distances: Array
    parents: Array


@device
def d_add_weighted(stored, leaf, head, totals, weight_lines):
    """Return the requests and sectors of all leaves that this warp has read with their weights, and of one more."""
    requests, sectors = d_add_reads(stored, leaf, head, totals)
    return requests + weight_lines, sectors + 4 * weight_lines


@device
def d_count_weights(wanted, weight_lines):
    """Return the requests and sectors that the weights of some lanes take, at least one; ``wanted``: a bit a lane."""
    lines = 1
    folded = np.uint32(wanted | (wanted >> np.uint32(1)))
    folded = np.uint32(folded | (folded >> np.uint32(2)))
    starts = np.uint32(0x11111111)  # of four weights of 8 bytes
    if weight_lines == 1:
        folded = np.uint32(folded | (folded >> np.uint32(4)))
        starts = np.uint32(0x01010101)
    elif wanted & np.uint32(0xFFFF) != 0 and wanted >> np.uint32(16) != 0:
        lines = 2
    return lines, np.int64(cuda.popc(np.uint32(folded & starts)))


@device
def d_relax(keys, weights, pending, row, other, weight, limit):
    """Shorten the other end's distance (atomic minimum); ``keys`` are the distances' bits as integers.

    From 0 on they have the same order. A distance of the row that falls meanwhile may be read before or after: its
    row is pending then.
    """
    distance = keys[row].view(weights.dtype) + weight
    key = distance.view(keys.dtype)
    if distance < limit and key < keys[other]:
        cuda.atomic.min(keys, other, key)
        pending[other] = 1


@device
def d_choose_nearer(distances, parents, row, other, weight, unreached):
    """Keep the smallest nearer parent (atomic minimum)."""
    own, there = distances[row], distances[other]
    if there != unreached and own < there and own + weight == there and row < parents[other]:
        cuda.atomic.min(parents, other, row)


@device
def d_push_tie(ties, row, other, weight, level):
    """Reach the other end over an edge of length 0; it keeps its smallest parent of this level (atomic minimum)."""
    own = ties.distances[row]
    if own == ties.distances[other] and own + weight == own and ties.levels[other] > level:
        ties.levels[other] = level + 1
        cuda.atomic.min(ties.parents, other, row)
        ties.notes[0] = 1


@device
def d_relax_leaf(leaves, stored, leaf, lane, totals, state):
    """Shorten distances from rows of a leaf whose turn it is; weights are read of edges to vertices farther away."""
    valid, column, turns, keys, pending, limit, turn, weight_lines = state
    mark = leaves.marks[leaf]
    other = d_open_leaf(leaves, stored, leaf, mark, lane)
    row = d_find_row(leaves, leaf, mark, lane)
    farther = d_is_valid(valid, leaf, lane) and turns[row] == turn
    farther = farther and keys[row] < keys[other]
    wanted = d_ballot(farther)
    requests, sectors = d_add_reads(stored, leaf, leaves.heads[leaf], totals)
    if wanted != 0:  # the same in all lanes
        lines, parts = d_count_weights(np.uint32(wanted), weight_lines)
        requests += lines
        sectors += parts
    if farther:
        weight = d_read_weight(column, stored.page_bits, leaf, lane)
        d_relax(keys, column.weights, pending, row, other, weight, limit)
    return requests, sectors


@kernel
def k_relax_leaves(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, turns, active, notes, keys, pending, limit, turn, weight_lines, noted,
):  # fmt: skip
    """Warps stride over words of active leaves: shorten distances from rows whose turn it is, see :func:`d_relax`.

    Only weights of edges to vertices farther away are read.
    """
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    column = PagedWeights(weights, weight_places, weight_shift)
    state = valid, column, turns, keys, pending, limit, turn, weight_lines
    d_note_reads(notes, noted, d_walk_active(leaves, stored, pages, active, d_relax_leaf, state))


@device
def d_offer_parent(leaves, slot, state):
    """Keep the row of an edge as the smallest nearer parent of its other end."""
    valid, column, page_bits, distances, unreached, parents = state
    weight = d_read_weight(column, page_bits, slot.leaf, slot.lane)
    if d_is_valid(valid, slot.leaf, slot.lane):
        row = d_find_row(leaves, slot.leaf, slot.mark, slot.lane)
        d_choose_nearer(distances, parents, row, slot.other, weight, unreached)


@kernel
def k_choose_nearer(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, distances, unreached, parents,
):  # fmt: skip
    """Warps stride over leaves: keep the smallest nearer parent of each vertex, see :func:`d_choose_nearer`."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    column = PagedWeights(weights, weight_places, weight_shift)
    state = valid, column, page_bits, distances, unreached, parents
    d_walk_leaves(leaves, stored, pages, d_offer_parent, state)


@device
def d_push_tied_leaf(leaves, stored, leaf, lane, totals, state):
    """Find parents over edges of length 0 in a leaf, from rows of a level."""
    valid, column, ties, level, weight_lines = state
    mark = leaves.marks[leaf]
    other = d_open_leaf(leaves, stored, leaf, mark, lane)
    weight = d_read_weight(column, stored.page_bits, leaf, lane)
    totals = d_add_weighted(stored, leaf, leaves.heads[leaf], totals, weight_lines)
    row = d_find_row(leaves, leaf, mark, lane)
    if d_is_valid(valid, leaf, lane) and ties.levels[row] == level:
        d_push_tie(ties, row, other, weight, level)
    return totals


@kernel
def k_push_ties(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, levels, active, notes, distances, parents, level, weight_lines, noted,
):  # fmt: skip
    """Warps stride over words of active leaves: parents over edges of length 0, see :func:`d_push_tie`."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    column, ties = PagedWeights(weights, weight_places, weight_shift), Ties(levels, notes, distances, parents)
    state = valid, column, ties, level, weight_lines
    d_note_reads(notes, noted, d_walk_active(leaves, stored, pages, active, d_push_tied_leaf, state))


@kernel
def k_relax_slots(sources, indices, valid, weights, turns, keys, pending, limit, turn):
    """Threads stride over slots: shorten distances from rows whose turn it is, see :func:`d_relax`."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot) and turns[sources[slot]] == turn:
            d_relax(keys, weights, pending, int(sources[slot]), int(indices[slot]), weights[slot], limit)


@kernel
def k_choose_nearer_slots(sources, indices, valid, weights, distances, unreached, parents):
    """Threads stride over slots: keep the smallest nearer parent of each vertex, see :func:`d_choose_nearer`."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot):
            d_choose_nearer(distances, parents, int(sources[slot]), int(indices[slot]), weights[slot], unreached)


@kernel
def k_push_tied_slots(sources, indices, valid, weights, levels, notes, distances, parents, level):
    """Threads stride over slots: parents over edges of length 0, see :func:`d_push_tie`."""
    ties = Ties(levels, notes, distances, parents)
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot) and levels[sources[slot]] == level:
            d_push_tie(ties, int(sources[slot]), int(indices[slot]), weights[slot], level)


def _keyed(lengths: Lengths) -> tuple[Any, ...]:
    """Return the distances' bits as integers, and what is beside them."""
    distances, *others = lengths
    return distances.view(np.dtype(f"i{distances.dtype.itemsize}")), *others


def relax_leaves(packed: PagedRows, piece: Piece, search: SearchState, lengths: Lengths, turn: int, noted: int) -> None:
    """Shorten distances over the edges of active leaves from rows whose turn it is."""
    k_relax_leaves.launch_strided(
        piece.pages.shape[0] << packed.page_bits, *packed.leaves, *piece.weighted_arguments, *search,
        *_keyed(lengths), turn, packed.lines_of_weights, noted,
    )  # fmt: skip


def choose_nearer(packed: PagedRows, piece: Piece, distances: Array, unreached: Any, parents: Array) -> None:
    """Keep the smallest nearer parents that the edges of a piece offer."""
    num_threads = (piece.pages.shape[0] << packed.page_bits) * LEAF
    state = distances, unreached, parents
    k_choose_nearer.launch_strided(num_threads, *packed.leaves, *piece.weighted_arguments, *state)


def push_ties(
    packed: PagedRows, piece: Piece, search: SearchState, distances: Array, parents: Array, level: int, noted: int
) -> None:
    """Find parents over edges of length 0 in active leaves, from rows of a level."""
    k_push_ties.launch_strided(
        piece.pages.shape[0] << packed.page_bits, *packed.leaves, *piece.weighted_arguments, *search,
        distances, parents, level, packed.lines_of_weights, noted,
    )  # fmt: skip


def relax_slots(edges: GapCSR, search: SearchState, lengths: Lengths, turn: int) -> None:
    """Shorten distances from rows whose turn it is."""
    slots = edges.sources, edges.indices, edges.valid, edges.weights
    k_relax_slots.launch_strided(edges.num_slots, *slots, search.distances, *_keyed(lengths), turn)


def choose_nearer_slots(edges: GapCSR, distances: Array, unreached: Any, parents: Array) -> None:
    """Keep the smallest nearer parents that the edges offer."""
    slots = edges.sources, edges.indices, edges.valid, edges.weights
    k_choose_nearer_slots.launch_strided(edges.num_slots, *slots, distances, unreached, parents)


def push_tied_slots(edges: GapCSR, search: SearchState, distances: Array, parents: Array, level: int) -> None:
    """Find parents over edges of length 0, from rows of a level."""
    slots = edges.sources, edges.indices, edges.valid, edges.weights
    k_push_tied_slots.launch_strided(edges.num_slots, *slots, search.distances, search.notes, distances, parents, level)
