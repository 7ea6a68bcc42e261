"""Breadth-first search over pages on the GPU: a warp a leaf, and only leaves that are marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.paged.cuda.slots import push_slots
from dynstore.algorithms.paged.states import BEGINNING, CONTINUING, FRONTIER, UNREACHED
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane, d_sum_lanes
from dynstore.stores.paged.cuda import d_find_row, d_is_valid, d_open_leaf, d_walk_active
from dynstore.stores.paged.layout import START_AT, WIDTH_MASK, Leaves, Stored

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import Piece
    from dynstore.algorithms.paged.states import SearchState
    from dynstore.stores.paged.layout import PagedRows
    from dynstore.typing import Array

__all__ = [
    "d_add_reads",
    "d_note_reads",
    "mark_leaves",
    "pull_leaves",
    "push_leaves",
    "push_slots",
]

# Words of a line and of a sector of memory, as powers of two.
LINE_BITS, SECTOR_BITS = 5, 3


@device
def d_count_spans(place, width, bits):
    """Return how many spans of ``2**bits`` words a leaf's words touch, at least 1."""
    return ((place + max(width, 1) - 1) >> bits) - (place >> bits) + 1


@kernel
def k_flag_rows(rows, distances, value, flags):
    """Warps stride over words of rows with edges: set the bits of those at some distance."""
    lane = d_lane()
    for word in range(int(cuda.grid(1)) >> 5, flags.shape[0], int(cuda.gridsize(1)) >> 5):
        rank = word * 32 + lane
        flagged = rank < rows.shape[0] and distances[rows[min(rank, rows.shape[0] - 1)]] == value
        bits = d_ballot(flagged)
        if lane == 0:
            flags[word] = bits


@device
def d_has_flag(flags, first, last):
    """Return whether one of at most 32 neighbouring bits is set."""
    if last < first:
        return False
    pair = np.uint64(flags[first >> 5]) | (np.uint64(flags[last >> 5]) << np.uint64(32))
    if first >> 5 == last >> 5:
        pair &= np.uint64(0xFFFFFFFF)
    count = np.uint64(last - first + 1)
    return (pair >> np.uint64(first & 31)) & ((np.uint64(1) << count) - np.uint64(1)) != 0


@device
def d_is_wanted(leaves, leaf, mark, flags, kind):
    """Return whether a leaf has a flagged row of some kind: any, one that begins there, or one that goes on there."""
    continues = mark & np.uint32(1) == 0
    first = np.int64(leaves.ranks[leaf])
    last = first + np.int64(cuda.popc(np.uint32(mark & np.uint32(0xFFFFFFFE))))
    if kind == CONTINUING:
        last = first if continues else first - 1
    elif kind == BEGINNING and continues:
        first += 1
    return d_has_flag(flags, first, last)


@kernel
def k_mark_leaves(
    heads, bases, marks, ranks, rows, places, page_bits, flags, kind, weight_lines, active, requests
):  # fmt: skip
    """Warps stride over words of leaves, a leaf a lane: set the bits of those with flagged rows of some kind.

    They add the requests for these to those of the page, one atomic add a warp.
    """
    lane = d_lane()
    leaves = Leaves(heads, bases, marks, ranks, rows)
    for word in range(int(cuda.grid(1)) >> 5, active.shape[0], int(cuda.gridsize(1)) >> 5):
        leaf = word * 32 + lane
        wanted, count, page = False, np.int64(0), (word * 32) >> page_bits
        if leaf < heads.shape[0] and d_is_wanted(leaves, leaf, marks[leaf], flags, kind):
            head = heads[leaf]
            wanted = True
            place = places[page] + (np.int64(head) >> START_AT)
            count = d_count_spans(place, np.int64(head) & WIDTH_MASK, LINE_BITS) + weight_lines
        bits = d_ballot(wanted)
        total = d_sum_lanes(count)
        if lane == 0:
            active[word] = bits
            if total > 0:
                cuda.atomic.add(requests, page, total)


@device
def d_add_reads(stored, leaf, head, totals):
    """Return the requests and sectors of all leaves that this warp has read, and of one more."""
    place = stored.places[leaf >> stored.page_bits] + (np.int64(head) >> START_AT)
    width = np.int64(head) & WIDTH_MASK
    requests, sectors = totals
    return requests + d_count_spans(place, width, LINE_BITS), sectors + d_count_spans(place, width, SECTOR_BITS)


@device
def d_note_reads(notes, noted, totals):
    """Add what a warp has read to the notes: two atomic adds."""
    if d_lane() == 0 and totals[0] > 0:
        cuda.atomic.add(notes, noted, totals[0])
        cuda.atomic.add(notes, noted + 1, totals[1])


@device
def d_keep_parent(parents, other, row):
    """Keep the smaller parent of a vertex, if parents are wanted (atomic minimum)."""
    if parents.shape[0] > 0 and row < parents[other]:
        cuda.atomic.min(parents, other, row)


@device
def d_push_leaf(leaves, stored, leaf, lane, totals, state):
    """Reach the unreached neighbours of rows of the frontier in a leaf."""
    valid, distances, notes, parents, depth = state
    mark = leaves.marks[leaf]
    other = d_open_leaf(leaves, stored, leaf, mark, lane)
    totals = d_add_reads(stored, leaf, leaves.heads[leaf], totals)
    if d_is_valid(valid, leaf, lane):
        row = d_find_row(leaves, leaf, mark, lane)
        if distances[row] == depth:
            reached = int(distances[other])
            if reached == UNREACHED:
                distances[other] = depth + 1
                notes[0] = 1
            if reached > depth:
                d_keep_parent(parents, other, row)
    return totals


@kernel
def k_push_leaves(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, distances, active, notes,
    parents, depth, noted,
):  # fmt: skip
    """Warps stride over words of active leaves: reach the unreached neighbours of the frontier.

    Parents are also kept for vertices that another warp has reached at this level.
    """
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    totals = d_walk_active(leaves, stored, pages, active, d_push_leaf, (valid, distances, notes, parents, depth))
    d_note_reads(notes, noted, totals)


@device
def d_is_open(distances, parents, row, base, depth):
    """Return whether a leaf may reach a row, or has a smaller parent of one that another warp has reached meanwhile."""
    reached = int(distances[row])
    return reached == UNREACHED or (reached == depth + 1 and parents.shape[0] > 0 and np.int64(base) < parents[row])


@device
def d_pull_leaf(leaves, stored, leaf, lane, totals, state):
    """Reach rows of a leaf with a neighbour in the frontier; the leaf is not read if nothing would follow."""
    valid, distances, notes, parents, depth, kind = state
    mark = leaves.marks[leaf]
    row = d_find_row(leaves, leaf, mark, lane)
    begins = mark & (np.uint32(0xFFFFFFFF) >> np.uint32(31 - lane)) != 0
    is_open = begins == (kind == BEGINNING) and d_is_valid(valid, leaf, lane)
    is_open = is_open and d_is_open(distances, parents, row, leaves.bases[leaf], depth)
    if d_ballot(is_open) != 0:
        other = d_open_leaf(leaves, stored, leaf, mark, lane)
        totals = d_add_reads(stored, leaf, leaves.heads[leaf], totals)
        if is_open and distances[other] == depth:
            distances[row] = depth + 1
            notes[0] = 1
            d_keep_parent(parents, row, other)
    return totals


@kernel
def k_pull_leaves(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, valid, pages, distances, active, notes,
    parents, depth, kind, noted,
):  # fmt: skip
    """Warps stride over words of active leaves: reach rows with a neighbour in the frontier.

    The rows are those that begin in a leaf, or the one that goes on there.
    """
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    state = valid, distances, notes, parents, depth, kind
    d_note_reads(notes, noted, d_walk_active(leaves, stored, pages, active, d_pull_leaf, state))


def mark_leaves(
    packed: PagedRows, search: SearchState, depth: int, kind: int, weight_lines: int, requests: Array
) -> None:
    """Set the active bits of leaves with rows of some kind, and count requests by page.

    Rows are looked at once, side by side; a leaf's rows are neighbours, so it reads one or two words of their bits.
    ``weight_lines``: what the weights of a leaf take.
    """
    flags = packed.backend.empty(-(-packed.rows.shape[0] // 32), np.uint32)
    value = depth if kind == FRONTIER else UNREACHED
    k_flag_rows.launch_strided(flags.shape[0] * 32, packed.rows, search.distances, value, flags)
    k_mark_leaves.launch_strided(
        search.active.shape[0] * 32, *packed.leaves, packed.places, packed.page_bits, flags, kind, weight_lines,
        search.active, requests,
    )  # fmt: skip


def push_leaves(packed: PagedRows, piece: Piece, search: SearchState, parents: Array, depth: int, noted: int) -> None:
    """Reach the neighbours of the frontier in the active leaves of a piece."""
    k_push_leaves.launch_strided(
        piece.pages.shape[0] << packed.page_bits, *packed.leaves, *piece.arguments, *search, parents, depth, noted
    )


def pull_leaves(
    packed: PagedRows, piece: Piece, search: SearchState, parents: Array, depth: int, kind: int, noted: int
) -> None:
    """Reach unreached rows with a neighbour in the frontier in the active leaves of a piece.

    ``kind``: BEGINNING for rows that begin in a leaf, CONTINUING for the one that goes on there.
    """
    k_pull_leaves.launch_strided(
        piece.pages.shape[0] << packed.page_bits, *packed.leaves, *piece.arguments, *search, parents, depth, kind,
        noted,
    )  # fmt: skip
