"""Absent keys of a batch that is not sorted find their leaf in any order; those of a leaf are a list, then sorted."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import WARP, cuda, device, kernel
from dynstore._cuda.grid import d_leave_sum
from dynstore._cuda.present import d_count_rows, d_read_row
from dynstore._cuda.search import d_find_edge
from dynstore._cuda.tiles import BOARD, d_claim, d_claim_many
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
from dynstore.slots import ABSENT, PRESENT

__all__ = ["d_sort_lists", "k_list_rows"]

NO_KEY = np.int64(np.iinfo(np.int64).max)


@device
def d_list_rows(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, marks, lists, following, listed,
    positions, states, control,
):  # fmt: skip
    """Warps stride over the rows: keys that are there or dead are told once, the others put into their leaf's list.

    A slot's bit in ``marks`` says that a row has told it (atomic or). A list is its length (atomic add) and the last
    row + 1 (atomic exchange), both in ``lists``, and the row + 1 before each in ``following``; 0 ends it. Once a list
    would have more than 32 rows, or an id is no vertex, nobody goes on. Returns the keys present and dead, and
    self-loops among both.
    """
    lane, num_rows = d_lane(), d_count_rows(edge_src, mirrored)
    found, found_loops, revived, revived_loops = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for base in range(cuda.grid(1) - lane, num_rows, cuda.gridsize(1)):
        if d_shuffle(control[STOPPED], 0) > 0:
            break
        i = base + lane
        leaf, begins = np.int64(0), False
        if i < num_rows:
            row, column = d_read_row(edge_src, edge_dst, mirrored, i)
            position, state, told = np.int64(0), PRESENT, np.uint8(ABSENT)
            known = min(row, column) >= 0 and max(row, column) < num_vertices
            if known:
                position, state = d_find_edge(offsets, dst, valid, num_vertices, row, column)
            else:
                control[STOPPED] = STRANGE
            if state == ABSENT:
                leaf = max(position - 1, np.int64(0)) >> 5
                ticket = cuda.atomic.add(lists, (leaf, COUNT), 1)
                begins = ticket == 0
                if ticket < WARP:
                    following[i] = cuda.atomic.exch(lists, (leaf, HEAD), np.int32(i + 1))
                else:
                    control[STOPPED] = CROWDED
            elif known:
                bit = np.uint32(1) << np.uint32(position & 31)
                if cuda.atomic.or_(marks, position >> 5, bit) & bit == 0:
                    told = np.uint8(state)
                    if state == PRESENT:
                        found += 1
                        found_loops += row == column
                    else:
                        revived += 1
                        revived_loops += row == column
            positions[i] = position
            states[i] = told
        place = d_claim(control, LISTED, begins)
        if begins:
            listed[place] = leaf
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
    Afterwards ``lists`` has 1 + each leaf's place among those listed. Returns how many keys, loops among them, and
    leaves that cannot take theirs there are.
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
                full += room < num_keys
            pending &= pending - np.uint32(1)
        if rows > 0:
            lists[leaf, HEAD] = np.int32(window + 1)
        base += warps * share
    return added, loops, full
