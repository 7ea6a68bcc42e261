"""Shortest paths over pages on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.paged.cpu.searches import LINE_BITS, SECTOR_BITS, d_count_spans
from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import njit
from dynstore.stores.paged.cpu import d_find_place, d_find_weights, d_has_bit, d_open_leaf
from dynstore.stores.paged.layout import LEAF, WIDTH_MASK

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import Piece
    from dynstore.algorithms.paged.states import Lengths, Search
    from dynstore.snapshot import GapCSR
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = ["choose_nearer", "choose_nearer_slots", "push_tied_slots", "push_ties", "relax_leaves", "relax_slots"]


@njit
def d_note_leaf(notes, noted, place, head, weight_lines):
    """Count the requests and the sectors that a leaf takes with its weights."""
    width = np.int64(head & np.uint32(WIDTH_MASK))
    notes[noted] += d_count_spans(place, width, LINE_BITS) + weight_lines
    notes[noted + 1] += d_count_spans(place, width, SECTOR_BITS) + 4 * weight_lines


@njit
def d_note_weights(notes, noted, wanted, weight_lines):
    """Count the requests and the sectors that some weights of a leaf take; ``wanted``: a bit each."""
    spans = 4 * weight_lines
    per_sector = LEAF // spans
    for sector in range(spans):
        notes[noted + 1] += (wanted >> (sector * per_sector)) & ((1 << per_sector) - 1) != 0
    for line in range(weight_lines):
        notes[noted] += (wanted >> (line * LEAF // weight_lines)) & ((1 << (LEAF // weight_lines)) - 1) != 0


@njit
def d_relax(row, other, weight, distances, pending, limit):
    """Shorten the other end's distance."""
    distance = distances[row] + weight
    if distance < limit and distance < distances[other]:
        distances[other] = distance
        pending[other] = 1


@njit
def d_choose_nearer(row, other, weight, distances, unreached, parents):
    """Keep the smallest nearer parent."""
    own, there = distances[row], distances[other]
    if there != unreached and own < there and own + weight == there:
        parents[other] = min(parents[other], row)


@njit
def d_push_tie(row, other, weight, levels, notes, distances, parents, level):
    """Reach the other end over an edge of length 0; it keeps its smallest parent of this level."""
    own = distances[row]
    if own == distances[other] and own + weight == own and levels[other] > level:
        levels[other] = level + 1
        parents[other] = min(parents[other], row)
        notes[0] = 1


@njit(cache=True, nogil=True)
def k_relax_leaves(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, turns, active, notes, distances, pending, limit, turn, weight_lines, noted,
):  # fmt: skip
    """Shorten distances over the edges of active leaves from rows whose turn it is.

    Only weights of edges to vertices farther away are read.
    """
    others = np.empty(LEAF, np.int64)
    for page in pages:
        for leaf in range(page << page_bits, min((page + 1) << page_bits, heads.shape[0])):
            if not d_has_bit(active[leaf >> 5], leaf & 31):
                continue
            place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
            d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], LEAF, others)
            begin = d_find_weights(weight_places, weight_shift, page_bits, leaf)
            d_note_leaf(notes, noted, place + shift, heads[leaf], 0)
            rank, wanted = np.int64(ranks[leaf]), 0
            for slot in range(LEAF):
                if slot > 0 and d_has_bit(marks[leaf], slot):
                    rank += 1
                row, other = rows[rank], others[slot]
                if d_has_bit(valid[leaf], slot) and turns[row] == turn and distances[row] < distances[other]:
                    wanted |= 1 << slot
                    d_relax(row, other, weights[begin + slot], distances, pending, limit)
            d_note_weights(notes, noted, wanted, weight_lines)


@njit(cache=True, nogil=True)
def k_choose_nearer(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, distances, unreached, parents,
):  # fmt: skip
    """Keep the smallest nearer parent of each vertex."""
    others = np.empty(LEAF, np.int64)
    for page in pages:
        for leaf in range(page << page_bits, min((page + 1) << page_bits, heads.shape[0])):
            place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
            d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], LEAF, others)
            begin = d_find_weights(weight_places, weight_shift, page_bits, leaf)
            rank = np.int64(ranks[leaf])
            for slot in range(LEAF):
                if slot > 0 and d_has_bit(marks[leaf], slot):
                    rank += 1
                if d_has_bit(valid[leaf], slot):
                    d_choose_nearer(rows[rank], others[slot], weights[begin + slot], distances, unreached, parents)


@njit(cache=True, nogil=True)
def k_push_ties(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, weights, weight_places,
    weight_shift, levels, active, notes, distances, parents, level, weight_lines, noted,
):  # fmt: skip
    """Find parents over edges of length 0 in active leaves, from rows of a level."""
    others = np.empty(LEAF, np.int64)
    for page in pages:
        for leaf in range(page << page_bits, min((page + 1) << page_bits, heads.shape[0])):
            if not d_has_bit(active[leaf >> 5], leaf & 31):
                continue
            place = d_find_place(places, shift, page_bits, heads[leaf], leaf)
            d_open_leaf(words, place, heads[leaf], bases[leaf], marks[leaf], LEAF, others)
            begin = d_find_weights(weight_places, weight_shift, page_bits, leaf)
            d_note_leaf(notes, noted, place + shift, heads[leaf], weight_lines)
            rank = np.int64(ranks[leaf])
            for slot in range(LEAF):
                if slot > 0 and d_has_bit(marks[leaf], slot):
                    rank += 1
                row = rows[rank]
                if d_has_bit(valid[leaf], slot) and levels[row] == level:
                    d_push_tie(row, others[slot], weights[begin + slot], levels, notes, distances, parents, level)


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


def relax_leaves(packed: PagedRows, piece: Piece, search: Search, lengths: Lengths, turn: int, noted: int) -> None:
    """Shorten distances over the edges of active leaves from rows whose turn it is."""
    k_relax_leaves(*packed.leaves, *piece.weighted_arguments, *search, *lengths, turn, packed.lines_of_weights, noted)


def choose_nearer(packed: PagedRows, piece: Piece, distances: Array, unreached: Any, parents: Array) -> None:
    """Keep the smallest nearer parents that the edges of a piece offer."""
    k_choose_nearer(*packed.leaves, *piece.weighted_arguments, distances, unreached, parents)


def push_ties(
    packed: PagedRows, piece: Piece, search: Search, distances: Array, parents: Array, level: int, noted: int
) -> None:
    """Find parents over edges of length 0 in active leaves, from rows of a level."""
    state = distances, parents, level, packed.lines_of_weights, noted
    k_push_ties(*packed.leaves, *piece.weighted_arguments, *search, *state)


def relax_slots(edges: GapCSR, search: Search, lengths: Lengths, turn: int) -> None:
    """Shorten distances from rows whose turn it is."""
    slots = edges.sources, edges.indices, edges.valid, edges.weights
    k_relax_slots(*slots, search.distances, *lengths, turn)


def choose_nearer_slots(edges: GapCSR, distances: Array, unreached: Any, parents: Array) -> None:
    """Keep the smallest nearer parents that the edges offer."""
    slots = edges.sources, edges.indices, edges.valid, edges.weights
    k_choose_nearer_slots(*slots, distances, unreached, parents)


def push_tied_slots(edges: GapCSR, search: Search, distances: Array, parents: Array, level: int) -> None:
    """Find parents over edges of length 0, from rows of a level."""
    slots = edges.sources, edges.indices, edges.valid, edges.weights
    k_push_tied_slots(*slots, search.distances, search.notes, distances, parents, level)
