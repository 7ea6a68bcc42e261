"""Encoding and decoding of leaves by warps: a lane a slot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane, d_max_lanes, d_shuffle, d_shuffle_up
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

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = [
    "Slot",
    "add_to_filter",
    "d_decode_leaf",
    "d_fetch_leaf",
    "d_find_bits",
    "d_find_leaf",
    "d_find_pair",
    "d_find_row",
    "d_find_start",
    "d_is_valid",
    "d_mix",
    "d_open_leaf",
    "d_read_weight",
    "d_walk_active",
    "d_walk_leaves",
    "decode_keys",
    "encode_leaves",
    "mark_starts",
    "measure_leaves",
    "read_lines",
    "write_bits",
]


class Slot(NamedTuple):
    """What a lane has of a leaf that was opened; ``other``: the destination in slot ``lane``."""

    leaf: Any
    mark: Any
    lane: Any
    other: Any


@device
def d_read_weight(column, page_bits, leaf, lane):
    """Return the weight in slot ``lane`` of a leaf; a warp reads whole lines."""
    within = leaf & ((1 << page_bits) - 1)
    return column.weights[column.places[leaf >> page_bits] - column.shift + (within << LEAF_BITS) + lane]


@device
def d_find_leaf(pages, page_bits, item):
    """Return leaf number ``item`` of some pages."""
    return (int(pages[item >> page_bits]) << page_bits) + (item & ((1 << page_bits) - 1))


@device
def d_find_start(mark, lane):
    """Return the slot of a leaf where the row of slot ``lane`` begins, 0 if it began in an earlier leaf."""
    below = np.uint32(0xFFFFFFFF) >> np.uint32(31 - lane)
    return 31 - np.int64(cuda.clz(np.uint32((mark | np.uint32(1)) & below)))


@device
def d_find_row(leaves, leaf, mark, lane):
    """Return the row of slot ``lane`` of a leaf."""
    below = np.uint32(0xFFFFFFFF) >> np.uint32(31 - lane)
    begun = np.int64(cuda.popc(np.uint32(mark & below & np.uint32(0xFFFFFFFE))))
    return np.int64(leaves.rows[min(np.int64(leaves.ranks[leaf]) + begun, leaves.rows.shape[0] - 1)])


@device
def d_is_valid(valid, leaf, lane):
    """Return whether slot ``lane`` of a leaf holds an edge."""
    return (valid[leaf] >> np.uint32(lane)) & np.uint32(1) != 0


@device
def d_fetch_leaf(leaves, stored, leaf, lane):
    """Return what opens a leaf: its head, base and mark, and this lane's word of it; a lane reads one word at most.

    Past the last leaf it is the last one.
    """
    there = min(leaf, leaves.heads.shape[0] - 1)
    head = leaves.heads[there]
    place = stored.places[there >> stored.page_bits] - stored.shift + (np.int64(head) >> START_AT)
    word = np.int32(0)
    if lane < np.int64(head) & WIDTH_MASK:
        word = np.int32(stored.words[place + lane])
    return head, leaves.bases[there], leaves.marks[there], word


@device
def d_read_field(head, word, lane):
    """Return the field of slot ``lane`` from the words of the lanes; it overlaps two of them at most."""
    width = np.int64(head) & WIDTH_MASK
    bit = lane * width
    low = d_shuffle(word, bit >> 5)
    high = d_shuffle(word, ((bit >> 5) + 1) & 31)
    pair = (np.uint64(np.uint32(high)) << np.uint64(32)) | np.uint64(np.uint32(low))
    limit = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    return np.int64((pair >> np.uint64(bit & 31)) & limit)


@device
def d_decode_leaf(head, base, mark, word, lane):
    """Return the destination in slot ``lane`` of a leaf that was fetched; all 32 lanes call.

    In an encoded leaf the field of a row's first slot is added to the leaf's base. Each other field is the gap to the
    slot before, less 1. So a destination is a sum of fields that stops where its row begins. Past the last edge the
    value means nothing.
    """
    value = np.uint32(d_read_field(head, word, lane))
    if head & np.uint32(VERBATIM) == 0:
        start = d_find_start(mark, lane)
        value = np.uint32(value + (base if lane == start else np.uint32(1)))
        for step in (1, 2, 4, 8, 16):
            other = np.uint32(d_shuffle_up(np.int32(value), step))
            if lane - step >= start:
                value = np.uint32(value + other)
    return np.int64(value)


@device
def d_open_leaf(leaves, stored, leaf, mark, lane):
    """Return the destination in slot ``lane`` of a leaf, see :func:`d_decode_leaf`."""
    head, base, _, word = d_fetch_leaf(leaves, stored, leaf, lane)
    return d_decode_leaf(head, base, mark, word, lane)


@device
def d_walk_leaves(leaves, stored, pages, visit, state):
    """Warps stride over the leaves of some pages: ``visit(leaves, slot, state)``, all 32 lanes, each with its slot."""
    lane = d_lane()
    for item in range(int(cuda.grid(1)) >> 5, pages.shape[0] << stored.page_bits, int(cuda.gridsize(1)) >> 5):
        leaf = d_find_leaf(pages, stored.page_bits, item)
        if leaf < leaves.heads.shape[0]:  # the same in all lanes
            mark = leaves.marks[leaf]
            visit(leaves, Slot(leaf, mark, lane, d_open_leaf(leaves, stored, leaf, mark, lane)), state)


@device
def d_next_leaf(bits):
    """Return the lowest set bit of a word of leaves."""
    return np.int64(cuda.ffs(np.uint32(bits))) - 1


@device
def d_walk_active(leaves, stored, pages, active, visit, state):
    """Warps stride over words of active leaves; all 32 lanes call ``visit(leaves, stored, leaf, lane, totals, state)``.

    It opens the leaf, or does not, and returns the totals of this warp with what it has read; so does the walk.
    """
    lane, totals = d_lane(), (np.int64(0), np.int64(0))
    word_bits = stored.page_bits - LEAF_BITS
    for item in range(int(cuda.grid(1)) >> 5, pages.shape[0] << word_bits, int(cuda.gridsize(1)) >> 5):
        word = d_find_leaf(pages, word_bits, item)
        bits = active[word] if word < active.shape[0] else np.uint32(0)
        while bits != 0:  # the same in all lanes
            leaf = word * 32 + d_next_leaf(bits)
            bits = np.uint32(bits & np.uint32(bits - np.uint32(1)))
            totals = visit(leaves, stored, leaf, lane, totals, state)
    return totals


@kernel
def k_mark_starts(starts, marks):
    """One thread a row with edges: set the bit of its first slot (atomic or)."""
    i = int(cuda.grid(1))
    if i < starts.shape[0]:
        slot = int(starts[i])
        cuda.atomic.or_(marks, slot >> LEAF_BITS, np.uint32(1) << np.uint32(slot & (LEAF - 1)))


@device
def d_make_field(indices, slot, mark, lane, base):
    """Return what an encoded leaf holds for a slot; below 0 if the row does not ascend."""
    value = np.int64(indices[slot])
    if lane == d_find_start(mark, lane):
        return value - base
    return value - np.int64(indices[slot - 1]) - 1


@kernel
def k_measure_leaves(indices, first, marks, num_vertices, bases, widths, wrong):
    """One warp a leaf: write its base and width; note a row that does not ascend, or an id that is no vertex."""
    lane = d_lane()
    leaf = int(cuda.grid(1)) >> 5
    begin = leaf << LEAF_BITS
    if begin >= indices.shape[0]:  # the same in all lanes
        return
    count = min(LEAF, indices.shape[0] - begin)
    mark = marks[first + leaf]
    slot = begin + min(lane, count - 1)
    value = np.int64(indices[slot])
    base = -d_max_lanes(-value)
    field = d_make_field(indices, slot, mark, slot - begin, base)
    bad = field < 0 or value < 0 or value >= num_vertices
    if lane == 0 and begin > 0 and mark & np.uint32(1) == 0:
        bad = bad or value <= np.int64(indices[begin - 1])
    most = d_max_lanes(field)
    if bad:
        wrong[0] = 1
    if lane == 0:
        bases[first + leaf] = np.uint32(base & 0xFFFFFFFF)
        widths[first + leaf] = 64 - cuda.clz(np.int64(max(most, 0)))


@kernel
def k_encode_leaves(indices, first, heads, bases, marks, places, shift, page_bits, words):
    """One warp a leaf: write its words; a lane gathers the fields that overlap its word from their lanes."""
    lane = d_lane()
    number = int(cuda.grid(1)) >> 5
    begin = number << LEAF_BITS
    if begin >= indices.shape[0]:  # the same in all lanes
        return
    leaf = first + number
    count = min(LEAF, indices.shape[0] - begin)
    head, mark = heads[leaf], marks[leaf]
    width = np.int64(head) & WIDTH_MASK
    field = np.int64(0)
    if lane < count:
        if head & np.uint32(VERBATIM) != 0:
            field = np.int64(indices[begin + lane])
        else:
            field = d_make_field(indices, begin + lane, mark, lane, np.int64(bases[leaf]))
    if width > 0:
        overlapping = (LEAF * lane) // width
        word = np.uint64(0)
        for step in range(LEAF // width + 2):
            owner = overlapping + step
            other = np.uint64(d_shuffle(field, owner & 31))
            at = owner * width - LEAF * lane
            if owner < LEAF and at < LEAF:
                if at >= 0:
                    word |= other << np.uint64(at)
                else:
                    word |= other >> np.uint64(-at)
        if lane < width:
            place = places[leaf >> page_bits] - shift + (np.int64(head) >> START_AT)
            words[place + lane] = np.uint32(word & np.uint64(0xFFFFFFFF))


@device
def d_write_key(leaves, slot, state):
    """Write the row and the destination of a slot, if it has an edge."""
    num_edges, first, out = state
    place = (slot.leaf << LEAF_BITS) + slot.lane
    if place < num_edges:
        row = d_find_row(leaves, slot.leaf, slot.mark, slot.lane)
        out[place - first] = (row << np.int64(32)) | slot.other


@kernel
def k_decode_keys(heads, bases, marks, ranks, rows, words, places, shift, page_bits, num_edges, pages, first, out):
    """Warps stride over the leaves of some pages: write the edges' rows and destinations, from slot ``first`` on."""
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    d_walk_leaves(leaves, stored, pages, d_write_key, (num_edges, first, out))


def mark_starts(starts: Array, marks: Array) -> None:
    """Set the bits of the slots ``starts`` in ``marks``, all 0 before."""
    k_mark_starts.launch(starts.shape[0], starts, marks)


def measure_leaves(
    indices: Array, first: int, marks: Array, num_vertices: int, bases: Array, widths: Array, wrong: Array
) -> None:
    """Write base and width of the leaves that hold ``indices``, from leaf ``first`` on.

    Set ``wrong`` to 1 if a row does not ascend, or an id is no vertex.
    """
    num_leaves = -(-indices.shape[0] // LEAF)
    k_measure_leaves.launch_warps(num_leaves, indices, first, marks, num_vertices, bases, widths, wrong)


def encode_leaves(
    indices: Array, first: int, leaves: tuple[Array, ...], places: Array, shift: int, page_bits: int, words: Array
) -> None:
    """Write the words of the leaves that hold ``indices``; ``words``, all 0 before, begins at word ``shift``."""
    num_leaves = -(-indices.shape[0] // LEAF)
    k_encode_leaves.launch_warps(num_leaves, indices, first, *leaves[:3], places, shift, page_bits, words)


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
    num_leaves = pages.shape[0] << stored[3]
    k_decode_keys.launch_strided(num_leaves * LEAF, *leaves, *stored, num_edges, pages, first, out)


@kernel
def k_write_bits(valid, slots, on):
    """One thread a slot: set its bit (atomic or), or clear it (atomic and)."""
    i = int(cuda.grid(1))
    if i < slots.shape[0]:
        slot = int(slots[i])
        bit = np.uint32(1) << np.uint32(slot & 31)
        if on:
            cuda.atomic.or_(valid, slot >> 5, np.uint32(bit))
        else:
            cuda.atomic.and_(valid, slot >> 5, np.uint32(np.uint32(0xFFFFFFFF) ^ bit))


def write_bits(valid: Array, slots: Array, on: bool) -> None:
    """Set or clear the bits of slots."""
    k_write_bits.launch(slots.shape[0], valid, slots, on)


@kernel
def k_read_lines(words, gap, run, num_runs, total):
    """Warps stride over reads of lines of 32 words, in runs that are spread over the words.

    The lines of a run are ``gap`` lines apart. What was read is noted, else compilers leave the reads out.
    """
    lane, lines = d_lane(), words.shape[0] >> LEAF_BITS
    mixed, step = np.uint32(0), lines // num_runs
    for read in range(int(cuda.grid(1)) >> 5, num_runs * run, int(cuda.gridsize(1)) >> 5):
        line = (read // run * step + read % run * gap) % lines
        mixed |= np.uint32(words[(line << LEAF_BITS) + lane])
    if d_ballot(mixed != 0) != 0 and lane == 0:
        cuda.atomic.or_(total, 0, np.uint32(1))


def read_lines(words: Array, gap: int, run: int, num_runs: int, total: Array) -> None:
    """Read ``num_runs`` times ``run`` lines that are ``gap`` lines apart; ``total`` becomes 1 if one is not 0."""
    k_read_lines.launch_strided(num_runs * run * LEAF, words, gap, run, num_runs, total)


@device
def d_mix(bits):
    """Return 32 mixed bits of a number of 32 bits."""
    bits = ((bits ^ (bits >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    bits = ((bits ^ (bits >> 12)) * 0x297A2D39) & 0xFFFFFFFF
    return bits ^ (bits >> 15)


@device
def d_find_bits(offsets, row, column, num_words):
    """Return the word of an edge in a filter, and its bits there (one may be another).

    The edges of a row share the words of its slots.
    """
    begin = offsets[row]
    first = d_mix(column ^ d_mix(row))
    second = d_mix(first ^ row)
    one, bits = np.uint64(1), np.uint64(0)
    for k in range(FILTER_BITS):
        bits |= one << np.uint64((second >> (6 * k)) & 63)
    slot = begin + ((first * (offsets[row + 1] - begin)) >> 32)
    return min(slot * FILTER_WORDS >> 4, num_words - 1), bits


@device
def d_find_pair(src, dst, row, column):
    """Return where an edge is among sorted ones, or would be."""
    low, high = np.int64(0), np.int64(src.shape[0])
    while low < high:
        middle = (low + high) >> 1
        other = src[middle]
        if other < row or (other == row and dst[middle] < column):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def k_add_to_filter(words, offsets, keys):
    """One thread a key: set its bits (atomic or)."""
    i = int(cuda.grid(1))
    if i < keys.shape[0]:
        key = np.int64(keys[i])
        place, bits = d_find_bits(offsets, key >> 32, key & 0xFFFFFFFF, np.int64(words.shape[0]))
        cuda.atomic.or_(words, place, bits)


def add_to_filter(words: Array, offsets: Array, keys: Array) -> None:
    """Add keys to a filter, whose words are 0 at first; ``offsets``: where each row begins."""
    k_add_to_filter.launch(keys.shape[0], words, offsets, keys)
