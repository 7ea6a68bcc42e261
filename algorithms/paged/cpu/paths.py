"""Shortest paths over pages on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.paged.cpu.searches import walk_active
from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import inlined, njit
from dynstore.stores.paged.cpu import d_find_weight, walk_weighted
from dynstore.stores.paged.layout import LEAF_BITS, Leaves, PagedWeights, Stored

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import Piece
    from dynstore.algorithms.paged.states import Lengths, SearchState
    from dynstore.snapshot import GapCSR
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["choose_nearer", "choose_nearer_slots", "push_tied_slots", "push_ties", "relax_leaves", "relax_slots"]


@inlined
def d_note_weight(notes, noted, slot, weight_lines, last):
    """Count the request and the sector that a weight takes, unless the slot before it has taken them."""
    sector = slot * 4 * weight_lines >> LEAF_BITS
    notes[noted] += sector >> 2 != last[0] >> 2
    notes[noted + 1] += sector != last[0]
    last[0] = sector


@inlined
def d_relax(row, other, weight, distances, pending, limit):
    """Shorten the other end's distance."""
    distance = distances[row] + weight
    if distance < limit and distance < distances[other]:
        distances[other] = distance
        pending[other] = 1


@inlined
def d_choose_nearer(row, other, weight, distances, unreached, parents):
    """Keep the smallest nearer parent."""
    own, there = distances[row], distances[other]
    if there != unreached and own < there and own + weight == there:
        parents[other] = min(parents[other], row)


@inlined
def d_push_tie(row, other, weight, levels, notes, distances, parents, level):
    """Reach the other end over an edge of length 0; it keeps its smallest parent of this level."""
    own = distances[row]
    if own == distances[other] and own + weight == own and levels[other] > level:
        levels[other] = level + 1
        parents[other] = min(parents[other], row)
        notes[0] = 1


@inlined
def d_relax_edge(
    row, other, slot, column, page_bits, turns, notes, distances, pending, limit, turn, weight_lines, noted, last
):
    """Shorten the other end's distance if it is the row's turn; only weights of edges to farther vertices are read."""
    if turns[row] == turn and distances[row] < distances[other]:
        d_note_weight(notes, noted, slot, weight_lines, last)
        d_relax(row, other, column.weights[d_find_weight(column, page_bits, slot)], distances, pending, limit)


d_walk_nearer = walk_active(d_relax_edge)


@njit(cache=True, nogil=True)
def k_relax_leaves(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, turns, active, notes, distances, pending, limit, turn, weight_lines, noted,
):  # fmt: skip
    """Shorten distances over the edges of active leaves from rows whose turn it is."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    column, last = PagedWeights(weights, weight_places, weight_shift), np.full(1, -1, np.int64)
    state = column, page_bits, turns, notes, distances, pending, limit, turn, weight_lines, noted, last
    d_walk_nearer(leaves, stored, pages, active, valid, notes, noted, 0, *state)


d_walk_parents = walk_weighted(d_choose_nearer)


@njit(cache=True, nogil=True)
def k_choose_nearer(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, distances, unreached, parents,
):  # fmt: skip
    """Keep the smallest nearer parent of each vertex."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    column = PagedWeights(weights, weight_places, weight_shift)
    d_walk_parents(leaves, stored, pages, None, valid, column, distances, unreached, parents)


@inlined
def d_push_edge(row, other, slot, column, page_bits, levels, notes, distances, parents, level):
    """Reach the other end of an edge of length 0 from a row of the level."""
    if levels[row] == level:
        weight = column.weights[d_find_weight(column, page_bits, slot)]
        d_push_tie(row, other, weight, levels, notes, distances, parents, level)


d_walk_ties = walk_active(d_push_edge)


@njit(cache=True, nogil=True)
def k_push_ties(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, levels, active, notes, distances, parents, level, weight_lines, noted,
):  # fmt: skip
    """Find parents over edges of length 0 in active leaves, from rows of a level."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    column = PagedWeights(weights, weight_places, weight_shift)
    state = column, page_bits, levels, notes, distances, parents, level
    d_walk_ties(leaves, stored, pages, active, valid, notes, noted, weight_lines, *state)


@njit(cache=True, nogil=True)
def k_relax_slots(sources, indices, valid, weights, turns, distances, pending, limit, turn):
    """Shorten distances from rows whose turn it is."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot) and turns[sources[slot]] == turn:
            d_relax(sources[slot], indices[slot], weights[slot], distances, pending, limit)


@njit(cache=True, nogil=True)
def k_choose_nearer_slots(sources, indices, valid, weights, distances, unreached, parents):
    """Keep the smallest nearer parent of each vertex."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot):
            d_choose_nearer(sources[slot], indices[slot], weights[slot], distances, unreached, parents)


@njit(cache=True, nogil=True)
def k_push_tied_slots(sources, indices, valid, weights, levels, notes, distances, parents, level):
    """Find parents over edges of length 0, from rows of a level."""
    for slot in range(indices.shape[0]):
        if d_has_edge(valid, slot) and levels[sources[slot]] == level:
            d_push_tie(sources[slot], indices[slot], weights[slot], levels, notes, distances, parents, level)


def relax_leaves(packed: PagedRows, piece: Piece, search: SearchState, lengths: Lengths, turn: int, noted: int) -> None:
    """Shorten distances over the edges of active leaves from rows whose turn it is."""
    k_relax_leaves(*packed.leaves, *piece.weighted_arguments, *search, *lengths, turn, packed.lines_of_weights, noted)


def choose_nearer(packed: PagedRows, piece: Piece, distances: Array, unreached: Any, parents: Array) -> None:
    """Keep the smallest nearer parents that the edges of a piece offer."""
    k_choose_nearer(*packed.leaves, *piece.weighted_arguments, distances, unreached, parents)


def push_ties(
    packed: PagedRows, piece: Piece, search: SearchState, distances: Array, parents: Array, level: int, noted: int
) -> None:
    """Find parents over edges of length 0 in active leaves, from rows of a level."""
    state = distances, parents, level, packed.lines_of_weights, noted
    k_push_ties(*packed.leaves, *piece.weighted_arguments, *search, *state)


def relax_slots(edges: GapCSR, search: SearchState, lengths: Lengths, turn: int) -> None:
    """Shorten distances from rows whose turn it is."""
    slots = edges.sources, edges.indices, edges.valid, edges.weights
    k_relax_slots(*slots, search.distances, *lengths, turn)


def choose_nearer_slots(edges: GapCSR, distances: Array, unreached: Any, parents: Array) -> None:
    """Keep the smallest nearer parents that the edges offer."""
    slots = edges.sources, edges.indices, edges.valid, edges.weights
    k_choose_nearer_slots(*slots, distances, unreached, parents)


def push_tied_slots(edges: GapCSR, search: SearchState, distances: Array, parents: Array, level: int) -> None:
    """Find parents over edges of length 0, from rows of a level."""
    slots = edges.sources, edges.indices, edges.valid, edges.weights
    k_push_tied_slots(*slots, search.distances, search.notes, distances, parents, level)
