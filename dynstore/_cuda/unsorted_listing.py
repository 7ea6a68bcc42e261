"""Absent keys of a batch that is not sorted find their leaf in any order; those of a leaf are a list, then sorted."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import WARP, cuda, device, kernel
from dynstore._cuda.grid import d_leave_sum
from dynstore._cuda.present import d_count_rows, d_read_row
from dynstore._cuda.search import d_find_two_edges
from dynstore._cuda.tiles import BOARD, d_claim_many, d_claim_two
from dynstore._cuda.unsorted_layout import (
    COUNT,
    CROWDED,
    END,
    FIRST,
    FOUND,
    FOUND_LOOPS,
    HEAD,
    HIGH,
    LISTED,
    LOW,
    OTHER_LOOPS,
    PLACES,
    POSITIONS,
    REVIVED,
    ROWS,
    STOPPED,
    STRANGE,
)
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.slots import ABSENT, DEAD, PRESENT

__all__ = ["d_sort_lists", "k_list_rows"]

NO_KEY = np.int64(np.iinfo(np.int64).max)


@device
def d_read_edge(edge_src, edge_dst, mirrored, i, num_rows, num_vertices):
    """Return source and destination of a row, and whether there is one, of vertices; else the source has no edges."""
    row, column = d_read_row(edge_src, edge_dst, mirrored, min(np.int64(i), num_rows - 1))
    known = (np.int64(i) < num_rows) & (min(row, column) >= 0) & (max(row, column) < num_vertices)
    return np.int32(row if known else num_vertices), np.int32(column), known


@device
def d_choose_leaf(position):
    """Return the leaf that a key before a slot belongs to; all uint32."""
    return np.uint32(np.uint32(max(position, np.uint32(1)) - np.uint32(1)) >> np.uint32(5))


@device
def d_announce(marks, lists, position, state, known):
    """Count an absent key in its leaf's list, mark the slot of another; return the count, or the word, before."""
    before = np.uint32(0)
    if known and state == ABSENT:
        before = np.uint32(cuda.atomic.add(lists, (d_choose_leaf(position), COUNT), 1))
    elif known:
        bit = np.uint32(1) << np.uint32(position & np.uint32(31))
        before = np.uint32(cuda.atomic.or_(marks, np.uint32(position >> np.uint32(5)), bit))
    return before


@device
def d_tell(position, state, known, before):
    """Return the state of a row's key if no row has told it, else ABSENT; ``before``: the word of marks, before."""
    is_first = (before >> np.uint32(position & np.uint32(31))) & np.uint32(1) == 0
    return np.uint8(state if known and is_first else ABSENT)


@device
def d_link_row(lists, position, i, wanted):
    """Put a row at the head of its leaf's list; return the row + 1 that was there."""
    link = np.int32(0)
    if wanted:
        link = np.int32(cuda.atomic.exch(lists, (d_choose_leaf(position), HEAD), np.int32(i + np.uint32(1))))
    return link


@device
def d_note_row(following, positions, states, i, position, link, linked, told):
    """Write what has been found of a row, if there is one."""
    if i < following.shape[0]:
        positions[i] = position
        states[i] = told
        if linked:
            following[i] = link


@device
def d_list_rows(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, marks, lists, following, listed,
    positions, states, control,
):  # fmt: skip
    """Threads stride over the rows, two at a time: keys that are there or dead are told once, others go to a list.

    That of their leaf. Both rows take each step together, so that twice as many reads and atomics are on their way. A
    slot's bit in ``marks`` says that a row has told it (atomic or). A list is its length (atomic add) and the last
    row + 1 (atomic exchange), both in ``lists``, and the row + 1 before each in ``following``; 0 ends it. Once a list
    would have more than 32 rows, or an id is no vertex, nobody goes on. Returns the keys present and dead, and
    self-loops among both.
    """
    num_rows, step = d_count_rows(edge_src, mirrored), np.uint32(cuda.gridsize(1))
    found, found_loops, revived, revived_loops = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    i = np.uint32(cuda.grid(1))
    while np.int64(i) - d_lane() < num_rows:  # the same in all lanes
        if d_shuffle(control[STOPPED], 0) > 0:
            break
        other = np.uint32(i + step)
        row, column, known = d_read_edge(edge_src, edge_dst, mirrored, i, num_rows, num_vertices)
        other_row, other_column, other_known = d_read_edge(edge_src, edge_dst, mirrored, other, num_rows, num_vertices)
        if (i < num_rows and not known) or (other < num_rows and not other_known):
            control[STOPPED] = STRANGE
        position, state, other_position, other_state = d_find_two_edges(
            offsets, dst, valid, row, column, other_row, other_column
        )
        before = d_announce(marks, lists, position, state, known)
        other_before = d_announce(marks, lists, other_position, other_state, other_known)
        is_absent, other_is_absent = known and state == ABSENT, other_known and other_state == ABSENT
        linked, other_linked = is_absent and before < WARP, other_is_absent and other_before < WARP
        link = d_link_row(lists, position, i, linked)
        other_link = d_link_row(lists, other_position, other, other_linked)
        if linked != is_absent or other_linked != other_is_absent:
            control[STOPPED] = CROWDED
        begins, other_begins = is_absent and before == 0, other_is_absent and other_before == 0
        place, other_place = d_claim_two(control, LISTED, begins, other_begins)
        told = d_tell(position, state, known, before)
        other_told = d_tell(other_position, other_state, other_known, other_before)
        d_note_row(following, positions, states, i, position, link, linked, told)
        d_note_row(following, positions, states, other, other_position, other_link, other_linked, other_told)
        if begins:
            listed[place] = d_choose_leaf(position)
        if other_begins:
            listed[other_place] = d_choose_leaf(other_position)
        is_loop, other_is_loop = row == column, other_row == other_column
        found += np.int32(told == PRESENT) + np.int32(other_told == PRESENT)
        found_loops += np.int32(told == PRESENT and is_loop) + np.int32(other_told == PRESENT and other_is_loop)
        revived += np.int32(told == DEAD) + np.int32(other_told == DEAD)
        revived_loops += np.int32(told == DEAD and is_loop) + np.int32(other_told == DEAD and other_is_loop)
        i = np.uint32(other + step)
    return found, found_loops, revived, revived_loops


@kernel
def k_list_rows(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, marks, lists, following, table, states, control
):
    """Put absent keys into lists of their leaves; ``lists``: see ``unsorted_layout``."""
    board = cuda.shared.array(BOARD, np.int64)
    found, found_loops, revived, loops = d_list_rows(
        offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, marks, lists, following,
        table[FIRST], table[POSITIONS], states, control,
    )  # fmt: skip
    d_leave_sum(control, FOUND, found, board)
    d_leave_sum(control, FOUND_LOOPS, found_loops, board)
    d_leave_sum(control, REVIVED, revived, board)
    d_leave_sum(control, OTHER_LOOPS, loops, board)


@device
def d_sort_list(edge_src, edge_dst, mirrored, lists, following, leaf, rows):
    """Let a lane have each row of a leaf's list, of at most 32, and its key; all lanes of the warp call.

    Returns the row, whether it is its key's first one, the key's rank among the distinct ones, and their number.
    """
    lane, mine, link = d_lane(), np.int64(-1), np.int64(lists[leaf, HEAD])
    for other in range(rows):
        if lane == other:
            mine = link - 1
        link = np.int64(following[link - 1])
    key, repeated, rank = NO_KEY, False, np.int64(0)
    if mine >= 0:
        row, column = d_read_row(edge_src, edge_dst, mirrored, mine)
        key = (row << 32) | column
    for other in range(rows):
        if d_shuffle(key, other) == key and other < lane:
            repeated = True
    kept = mine >= 0 and not repeated
    distinct = key if kept else NO_KEY
    for other in range(rows):
        if d_shuffle(distinct, other) < key:
            rank += 1
    return mine, kept, rank, np.int64(cuda.popc(d_ballot(kept)))


@device
def d_sort_lists(
    valid, marks, lists, following, edge_src, edge_dst, mirrored, lower, table, pairs, control, num_listed
):
    """A warp takes 32 leaves at most, and sorts the list of each; a list of one row needs only a lane.

    The keys and their places go to a piece of scratch, which has room for the list's rows (atomic add, one a warp).
    Afterwards ``lists`` says how many they are, and where. Returns how many keys, loops among them, and leaves that
    cannot take theirs there are.
    """
    first, end, low, high = table[FIRST], table[END], table[LOW], table[HIGH]
    places, positions, new_src, new_dst = table[PLACES], table[POSITIONS], pairs[0], pairs[1]
    lane, warps = d_lane(), np.int64(cuda.gridsize(1) >> 5)
    share = min((num_listed + warps - 1) // warps, np.int64(WARP))
    base, added, loops, full = np.int64(cuda.grid(1) >> 5) * share, np.int64(0), np.int64(0), np.int64(0)
    while base < num_listed:
        window, leaf, rows, room = base + lane, np.int64(0), np.int64(0), 0.0
        if lane < share and window < num_listed:
            leaf = first[window]
            rows = np.int64(lists[leaf, COUNT])
            room = lower * 32 - cuda.popc(valid[leaf] | marks[leaf])
        start = d_claim_many(control, ROWS, rows)
        if rows > 0:
            end[window], low[window], high[window] = leaf + 1, start, start + 1
        if rows == 1:
            mine = np.int64(lists[leaf, HEAD]) - 1
            row, column = d_read_row(edge_src, edge_dst, mirrored, mine)
            new_src[start], new_dst[start], places[start] = row, column, positions[mine]
            added += 1
            loops += row == column
            full += room < 1
        pending = d_ballot(rows > 1)
        while pending != 0:
            owner = cuda.ffs(np.int32(pending)) - 1
            mine, kept, rank, num_keys = d_sort_list(
                edge_src, edge_dst, mirrored, lists, following, d_shuffle(leaf, owner), d_shuffle(rows, owner)
            )
            piece = d_shuffle(start, owner)
            if kept:
                row, column = d_read_row(edge_src, edge_dst, mirrored, mine)
                new_src[piece + rank], new_dst[piece + rank], places[piece + rank] = row, column, positions[mine]
                added += 1
                loops += row == column
            if lane == owner:
                high[window] = start + num_keys
                lists[leaf, COUNT] = np.int32(num_keys)
                full += room < num_keys
            pending &= pending - np.uint32(1)
        if rows > 0:
            lists[leaf, HEAD] = np.int32(start + 1)
        base += warps * share
    return added, loops, full
