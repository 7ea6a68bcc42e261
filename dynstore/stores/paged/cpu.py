"""Encoding and decoding of leaves on the host."""

from __future__ import annotations

import numpy as np

from dynstore.host_compiler import inlined, njit
from dynstore.stores.paged.layout import (
    FILTER_BITS,
    FILTER_WORDS,
    LEAF,
    LEAF_BITS,
    START_AT,
    VERBATIM,
    WIDTH_MASK,
    Leaves,
    Stored,
)
from dynstore.typing import Array

__all__ = [
    "add_to_filter",
    "d_find_bits",
    "d_find_place",
    "d_find_weight",
    "d_has_bit",
    "d_mix",
    "d_open_leaf",
    "decode_keys",
    "encode_leaves",
    "mark_starts",
    "measure_leaves",
    "read_lines",
    "visit_edges",
    "walk_edges",
    "walk_leaves",
    "walk_weighted",
    "write_bits",
]


@inlined
def d_has_bit(word, slot):
    """Return whether the bit of a slot is set in a word of its leaf."""
    return (word >> np.uint32(slot)) & np.uint32(1) != 0


@inlined
def d_count_bits(value):
    """Return the number of bits that a value of at least 0 needs."""
    bits = 0
    while value:
        value >>= 1
        bits += 1
    return bits


@inlined
def d_find_place(places, shift, page_bits, head, leaf):
    """Return where a leaf begins in an array that holds its page from word ``places[page] - shift`` on."""
    return places[leaf >> page_bits] - shift + np.int64(head >> np.uint32(START_AT))


@inlined
def d_find_weight(column, page_bits, slot):
    """Return where the weight of a slot is."""
    page = slot >> (page_bits + LEAF_BITS)
    return column.places[page] - column.shift + slot - (page << (page_bits + LEAF_BITS))


@inlined
def d_open_leaf(words, place, head, base, mark, count, out):
    """Write the destinations of the first ``count`` slots of a leaf."""
    width = np.int64(head & np.uint32(WIDTH_MASK))
    plain = head & np.uint32(VERBATIM) != 0
    limit = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    value = np.int64(0)
    for slot in range(count):
        field = np.int64(0)
        if width > 0:
            bit = slot * width
            at = place + (bit >> 5)
            pair = np.uint64(words[at])
            if (bit & 31) + width > 32:
                pair |= np.uint64(words[at + 1]) << np.uint64(32)
            field = np.int64((pair >> np.uint64(bit & 31)) & limit)
        if plain:
            value = field
        elif slot == 0 or d_has_bit(mark, slot):
            value = np.int64(base) + field
        else:
            value += field + 1
        out[slot] = value


def walk_leaves(visit):
    """Make a walk over pages: ``d_walk(leaves, stored, pages, active, *state)``.

    It decodes a leaf after the other, and calls ``visit(leaves, stored, leaf, others, *state)``; ``others``: the
    destinations of its slots. ``active``: a bit for each leaf that is read, or None for all.

    Kernels call the walk that was made for them: Numba keeps none on disk that passes a function on.
    """

    @njit
    def d_walk(leaves, stored, pages, active, *state):
        others = np.empty(LEAF, np.int64)
        for page in pages:
            for leaf in range(page << stored.page_bits, min((page + 1) << stored.page_bits, leaves.heads.shape[0])):
                if active is None or d_has_bit(active[leaf >> 5], leaf & 31):
                    head = leaves.heads[leaf]
                    place = d_find_place(stored.places, stored.shift, stored.page_bits, head, leaf)
                    d_open_leaf(stored.words, place, head, leaves.bases[leaf], leaves.marks[leaf], LEAF, others)
                    visit(leaves, stored, leaf, others, *state)

    return d_walk


def visit_edges(visit):
    """Make ``d_visit(leaves, leaf, others, bits, first, *state)``.

    For the slots of a leaf whose bits are set it calls ``visit(row, other, first + number of the slot, *state)``.
    """

    @inlined
    def d_visit(leaves, leaf, others, bits, first, *state):
        mark, rank = leaves.marks[leaf], np.int64(leaves.ranks[leaf])
        for slot in range(LEAF):
            if slot > 0 and d_has_bit(mark, slot):
                rank += 1
            if d_has_bit(bits, slot):
                visit(leaves.rows[rank], others[slot], first + slot, *state)

    return d_visit


def walk_edges(visit):
    """Make a walk over edges: ``visit(row, other, slot, *more)``; its state: ``valid, *more``."""
    d_visit = visit_edges(visit)

    @inlined
    def d_visit_valid(leaves, stored, leaf, others, valid, *more):
        d_visit(leaves, leaf, others, valid[leaf], leaf << LEAF_BITS, *more)

    return walk_leaves(d_visit_valid)


def walk_weighted(visit):
    """Make a walk over edges: ``visit(row, other, weight, *more)``; its state: ``valid, column, *more``."""

    @inlined
    def d_read(row, other, place, weights, *more):
        visit(row, other, weights[place], *more)

    d_visit = visit_edges(d_read)

    @inlined
    def d_visit_weighted(leaves, stored, leaf, others, valid, column, *more):
        first = d_find_weight(column, stored.page_bits, leaf << LEAF_BITS)
        d_visit(leaves, leaf, others, valid[leaf], first, column.weights, *more)

    return walk_leaves(d_visit_weighted)


@njit(cache=True, nogil=True)
def k_mark_starts(starts, marks):
    """Set the bit of each slot where a row begins."""
    for i in range(starts.shape[0]):
        marks[starts[i] >> LEAF_BITS] |= np.uint32(1) << np.uint32(starts[i] & (LEAF - 1))


@njit(cache=True, nogil=True)
def k_measure_leaves(indices, first, marks, num_vertices, bases, widths):
    """Write base and width of each leaf from ``first`` on; return whether a row is not ascending or has a wrong id."""
    wrong = False
    for leaf in range((indices.shape[0] + LEAF - 1) >> LEAF_BITS):
        begin, end = leaf << LEAF_BITS, min((leaf + 1) << LEAF_BITS, indices.shape[0])
        mark = marks[first + leaf]
        base = np.int64(indices[begin])
        for slot in range(begin, end):
            base = min(base, np.int64(indices[slot]))
            wrong |= indices[slot] < 0 or indices[slot] >= num_vertices
        most = np.int64(0)
        for slot in range(begin, end):
            starts = slot == begin or d_has_bit(mark, slot - begin)
            field = np.int64(indices[slot]) - (base if starts else np.int64(indices[slot - 1]) + 1)
            wrong |= bool(field < 0)
            most = max(most, field)
        if begin > 0 and not d_has_bit(mark, 0):
            wrong |= indices[begin] <= indices[begin - 1]
        bases[first + leaf] = base
        widths[first + leaf] = d_count_bits(most)
    return wrong


@njit(cache=True, nogil=True)
def k_encode_leaves(indices, first, heads, bases, marks, places, shift, page_bits, words):
    """Write the words of the leaves from ``first`` on; ``words``, all 0 before, begins at word ``shift``."""
    for leaf in range((indices.shape[0] + LEAF - 1) >> LEAF_BITS):
        begin, end = leaf << LEAF_BITS, min((leaf + 1) << LEAF_BITS, indices.shape[0])
        head, mark = heads[first + leaf], marks[first + leaf]
        base = np.int64(bases[first + leaf])
        width = np.int64(head & np.uint32(WIDTH_MASK))
        plain = head & np.uint32(VERBATIM) != 0
        place = d_find_place(places, shift, page_bits, head, first + leaf)
        for slot in range(begin, end):
            field = np.int64(indices[slot])
            if not plain:
                starts = slot == begin or d_has_bit(mark, slot - begin)
                field -= base if starts else np.int64(indices[slot - 1]) + 1
            bit = (slot - begin) * width
            if width > 0:
                pair = np.uint64(field) << np.uint64(bit & 31)
                words[place + (bit >> 5)] |= np.uint32(pair & np.uint64(0xFFFFFFFF))
                if (bit & 31) + width > 32:
                    words[place + (bit >> 5) + 1] |= np.uint32(pair >> np.uint64(32))


@inlined
def d_write_key(row, other, place, out):
    """Write the row and the destination of an edge."""
    out[place] = (np.int64(row) << 32) | other


d_write_edges = visit_edges(d_write_key)


@inlined
def d_write_keys(leaves, stored, leaf, others, num_edges, first, out):
    """Write the keys of a leaf; the last one may have fewer edges than slots."""
    begin = leaf << LEAF_BITS
    bits = np.uint32(0xFFFFFFFF) >> np.uint32(LEAF - min(LEAF, num_edges - begin))
    d_write_edges(leaves, leaf, others, bits, begin - first, out)


d_walk_keys = walk_leaves(d_write_keys)


@njit(cache=True, nogil=True)
def k_decode_keys(heads, bases, marks, ranks, rows, words, places, shift, page_bits, num_edges, pages, first, out):
    """Write ``row << 32 | destination`` of some pages, each at its slots counted from ``first``."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    d_walk_keys(leaves, stored, pages, None, num_edges, first, out)


@njit(cache=True, nogil=True)
def k_write_bits(valid, slots, on):
    """Set or clear the bits of slots."""
    for slot in slots:
        bit = np.uint32(1) << np.uint32(slot & 31)
        if on:
            valid[slot >> 5] |= bit
        else:
            valid[slot >> 5] &= ~bit


def mark_starts(starts: Array, marks: Array) -> None:
    """Set the bits of the slots ``starts`` in ``marks``, all 0 before."""
    k_mark_starts(starts, marks)


def measure_leaves(
    indices: Array, first: int, marks: Array, num_vertices: int, bases: Array, widths: Array, wrong: Array
) -> None:
    """Write base and width of the leaves that hold ``indices``, from leaf ``first`` on.

    Set ``wrong`` to 1 if a row does not ascend, or an id is no vertex.
    """
    wrong[0] |= k_measure_leaves(indices, first, marks, num_vertices, bases, widths)


def encode_leaves(
    indices: Array, first: int, leaves: tuple[Array, ...], places: Array, shift: int, page_bits: int, words: Array
) -> None:
    """Write the words of the leaves that hold ``indices``; ``words``, all 0 before, begins at word ``shift``."""
    k_encode_leaves(indices, first, *leaves[:3], places, shift, page_bits, words)


def decode_keys(
    leaves: tuple[Array, ...],
    stored: tuple[Array, Array, int, int],
    num_edges: int,
    pages: Array,
    first: int,
    out: Array,
) -> None:
    """Write ``row << 32 | destination`` of the edges of some pages to ``out``, int64, which begins at slot ``first``.

    ``stored``: words, places of pages, shift, page_bits.
    """
    k_decode_keys(*leaves, *stored, num_edges, pages, first, out)


def read_lines(words: Array, gap: int, run: int, num_runs: int, total: Array) -> None:
    """Read ``num_runs`` times ``run`` lines that are ``gap`` lines apart; ``total`` becomes 1 if one is not 0."""
    lines = words.shape[0] >> LEAF_BITS
    begins = np.arange(num_runs)[:, None] * (lines // num_runs)
    read = (begins + np.arange(run) * gap).ravel() % lines
    total[0] |= bool(words[: lines << LEAF_BITS].reshape(lines, LEAF)[read].any())


def write_bits(valid: Array, slots: Array, on: bool) -> None:
    """Set or clear the bits of slots."""
    k_write_bits(valid, slots, on)


@inlined
def d_mix(bits):
    """Return 32 mixed bits of a number of 32 bits."""
    bits = ((bits ^ (bits >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    bits = ((bits ^ (bits >> 12)) * 0x297A2D39) & 0xFFFFFFFF
    return bits ^ (bits >> 15)


@inlined
def d_find_bits(offsets, row, column, num_words):
    """Return the word of an edge in a filter, and its bits there (one may be another)."""
    begin = offsets[row]
    first = d_mix(column ^ d_mix(row))
    second = d_mix(first ^ row)
    one, bits = np.uint64(1), np.uint64(0)
    for k in range(FILTER_BITS):
        bits |= one << np.uint64((second >> (6 * k)) & 63)
    slot = begin + ((first * (offsets[row + 1] - begin)) >> 32)
    return min(slot * FILTER_WORDS >> 4, num_words - 1), bits


@njit(cache=True, nogil=True)
def k_add_to_filter(words, offsets, keys):
    """Set the bits of keys."""
    for key in keys:
        place, bits = d_find_bits(offsets, key >> 32, key & 0xFFFFFFFF, words.shape[0])
        words[place] |= bits


def add_to_filter(words: Array, offsets: Array, keys: Array) -> None:
    """Add keys to a filter, whose words are 0 at first; ``offsets``: where each row begins."""
    k_add_to_filter(words, offsets, keys)
