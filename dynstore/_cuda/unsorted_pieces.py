"""Absent keys of a large batch go to lists of their leaves piece by piece, sorted in a block's shared memory."""

from __future__ import annotations

from functools import partial

import numpy as np

from dynstore._cuda.compiler import THREADS, WARP, cuda, device, kernel
from dynstore._cuda.grid import d_leave_sum
from dynstore._cuda.pieces import (
    HELD,
    MOST_ABSENT,
    PIECE_LEAVES,
    TOLD,
    d_find_in_piece,
    d_first_leaf,
    d_first_slot,
    d_hold_piece,
    d_is_of_piece,
    d_read_bounds,
    d_rows_of_piece,
    d_tell_marks,
)
from dynstore._cuda.tiles import BOARD
from dynstore._cuda.unsorted_layout import (
    ADDED,
    COUNT,
    CROWDED,
    END,
    FIRST,
    FOUND,
    FOUND_LOOPS,
    FULL,
    HEAD,
    HIGH,
    LISTED,
    LOW,
    NARROW_WINDOWS,
    OTHER_LOOPS,
    PLACES,
    POSITIONS,
    REVIVED,
    ROWS,
    SOURCES,
    STOPPED,
    STRANGE,
    TARGETS,
)
from dynstore._cuda.warp import d_ballot, d_count_lower, d_lane, d_scan_lanes, d_shuffle
from dynstore.slots import ABSENT, DEAD, PRESENT

__all__ = ["k_list_pieces"]

# What is noted of a key: its slot in the low half; in the high one how many rows of its leaf came before, then how many
# keys of that are below it, or REPEATED, where another row has it, too.
HALF, SLOT, REPEATED = np.int32(16), np.int32(0xFFFF), np.int32(0x7FFF)
# Counts of a piece: rows whose edges are not there; leaves with keys; those of them that may be full; places for keys;
# whether a key is repeated.
ABSENT_ROWS, LEAVES, FULL_LEAVES, PLACED, HAS_REPEATED = range(5)
COUNTS = 5
# What a block claims of the lists that all share, in the order of what it counts: for its leaves, full ones, keys.
CLAIMS = 3
# The place of a leaf that is not full.
NOWHERE = np.int32(-1)
# Five blocks have room in a multiprocessor's shared memory, and then in its registers.
MAX_REGISTERS = 48


@device
def d_clear_counts(told, rows_of_leaf, counts):
    """Let a piece begin with nothing told and nothing counted."""
    thread = np.uint32(cuda.threadIdx.x)
    for word in range(thread, TOLD, THREADS):
        told[word] = 0
    if thread < PIECE_LEAVES:
        rows_of_leaf[thread] = 0
    if thread < COUNTS:
        counts[thread] = 0


@device
def d_leaf_of(note):
    """Return the leaf of a noted key, from the piece's first on; no key goes before its first slot but that of all."""
    return np.uint32(np.uint32(max(note & SLOT, np.int32(1)) - np.int32(1)) >> np.uint32(5))


@device
def d_tell_found(valid, told, at, piece, is_there):
    """Tell an edge that is there, dead or not, if no row of the piece has: set its slot's bit in ``told``, shared.

    Returns its state, ABSENT if it is not there or was told before.
    """
    state, word = ABSENT, np.uint32(at >> np.uint32(5))
    if is_there:
        bit = np.uint32(1) << np.uint32(at & np.uint32(31))
        if np.uint32(cuda.atomic.or_(told, word, bit)) & bit == 0:
            state = PRESENT if valid[np.uint32(d_first_leaf(piece) + word)] & bit != 0 else DEAD
    return state


@device
def d_find_rows(
    offsets, dst, valid, ordered, j, end, pair, low, high, piece, shift, held, told, keys, noted, rows_of_leaf, counts,
    positions, states, control,
):  # fmt: skip
    """Threads stride over the rows that a piece's are among: an edge that is there is told, others' keys are noted.

    ``pair``, ``low``, ``high``: of the first what ``d_read_bounds`` returns. Returns the edges present and dead, and
    self-loops among both.
    """
    found, found_loops, revived, revived_loops = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    first_slot = d_first_slot(piece)
    while j < end:
        row, column = np.int32(pair >> 32), np.int32(pair)
        if row < 0 or column < 0:
            control[STOPPED] = STRANGE
        elif d_is_of_piece(offsets, dst, row, column, piece, shift):
            at, is_there = d_find_in_piece(held, low, high, column, piece)
            state = d_tell_found(valid, told, at, piece, is_there)
            positions[j], states[j] = np.int32(first_slot + at), state
            is_loop = np.int32(row == column)
            if state == PRESENT:
                found, found_loops = np.int32(found + np.int32(1)), np.int32(found_loops + is_loop)
            elif state == DEAD:
                revived, revived_loops = np.int32(revived + np.int32(1)), np.int32(revived_loops + is_loop)
            if not is_there:
                k = cuda.atomic.add(counts, ABSENT_ROWS, np.int32(1))
                if k < MOST_ABSENT:
                    before = cuda.atomic.add(rows_of_leaf, d_leaf_of(np.int32(at)), np.int32(1))
                    keys[k], noted[k] = pair, np.int32(np.int32(at) | np.int32(before << HALF))
                else:
                    control[STOPPED] = CROWDED
        j = np.uint32(j + np.uint32(THREADS))
        if j < end:
            pair, low, high = d_read_bounds(offsets, ordered, j)
    return found, found_loops, revived, revived_loops


@device
def d_place_leaves(valid, told, rows_of_leaf, piece, num_leaves, lower, counts, firsts, control):
    """A thread has a leaf: its keys get places side by side, itself one among leaves with keys, and among full ones.

    The edges that all rows of the piece have told are among its elements, and for the first leaf one more: a row of the
    piece before may have told one in the first slot. Repeated keys count, too. Returns the two places, the second
    NOWHERE if it is not full.
    """
    thread, lane = np.uint32(cuda.threadIdx.x), np.int32(d_lane())
    leaf, rows, elements = np.uint32(d_first_leaf(piece) + thread), np.int32(0), np.int32(0)
    if thread < PIECE_LEAVES and leaf < num_leaves:
        rows = rows_of_leaf[thread]
        elements = np.int32(np.int32(cuda.popc(valid[leaf] | told[thread])) + np.int32(thread == 0))
    is_full = (rows > 0) & (elements + rows > lower * 32)
    listed, full, before = d_ballot(rows > 0), d_ballot(is_full), d_scan_lanes(rows)
    start, first_listed, first_full = np.int32(0), np.int32(0), np.int32(0)
    if lane == WARP - 1:
        start = np.int32(cuda.atomic.add(counts, PLACED, before))
        first_listed = np.int32(cuda.atomic.add(counts, LEAVES, np.int32(cuda.popc(listed))))
        first_full = np.int32(cuda.atomic.add(counts, FULL_LEAVES, np.int32(cuda.popc(full))))
    start = d_shuffle(start, WARP - 1)
    first_listed, first_full = d_shuffle(first_listed, WARP - 1), d_shuffle(first_full, WARP - 1)
    if thread < PIECE_LEAVES:
        firsts[thread] = np.int32(start + np.int32(before - rows))
    if rows > WARP:
        control[STOPPED] = CROWDED
    listed_place = np.int32(first_listed + np.int32(d_count_lower(listed, lane)))
    full_place = np.int32(first_full + np.int32(d_count_lower(full, lane)))
    return listed_place, full_place if is_full else NOWHERE


@device
def d_claim_places(counts, control):
    """Each of the first threads of the block claims what it counts of one of the lists that all share."""
    claimed, thread = np.int64(0), cuda.threadIdx.x
    if thread < CLAIMS:
        row = LISTED if thread == 0 else FULL if thread == 1 else ROWS
        claimed = np.int64(cuda.atomic.add(control, row, np.int64(counts[LEAVES + thread])))
    return claimed


@device
def d_rank_keys(keys, noted, by_leaf, rows_of_leaf, firsts, counts, num_keys, again):
    """Threads stride over the keys of a piece: each notes how many of its leaf's are below it, or that it is repeated.

    ``again``: those that are known to be repeated do not count any more.
    """
    for k in range(cuda.threadIdx.x, num_keys, THREADS):
        key, note = keys[k], noted[k]
        if (note >> HALF) != REPEATED:
            leaf, rank, is_repeated = d_leaf_of(note), np.int32(0), False
            first = firsts[leaf]
            for place in range(first, first + rows_of_leaf[leaf]):
                other = np.int32(by_leaf[place])
                other_key = keys[other]
                is_below = other_key < key
                if again:
                    is_below &= (noted[other] >> HALF) != REPEATED
                rank = np.int32(rank + np.int32(is_below))
                is_repeated |= (other_key == key) & (other < k)
            if is_repeated:
                rank = REPEATED
                counts[HAS_REPEATED] = 1
            noted[k] = np.int32((note & SLOT) | np.int32(rank << HALF))


@device
def d_leave_out_repeated(noted, rows_of_leaf, num_keys):
    """Let repeated keys no longer count as their leaf's."""
    for k in range(cuda.threadIdx.x, num_keys, THREADS):
        if (noted[k] >> HALF) == REPEATED:
            cuda.atomic.add(rows_of_leaf, d_leaf_of(noted[k]), np.int32(-1))


@device
def d_sort_keys(keys, noted, by_leaf, rows_of_leaf, firsts, num_keys, counts, claims, control):
    """Rank the keys of a piece within their leaves, which keep those that are not repeated; claim places for all.

    Claiming takes its time: keys are ranked meanwhile, then it is in ``claims``. All threads of the block call it.
    """
    claimed, thread = d_claim_places(counts, control), np.uint32(cuda.threadIdx.x)
    for k in range(thread, num_keys, THREADS):
        by_leaf[firsts[d_leaf_of(noted[k])] + (noted[k] >> HALF)] = np.int16(k)
    cuda.syncthreads()
    d_rank_keys(keys, noted, by_leaf, rows_of_leaf, firsts, counts, num_keys, False)
    if thread < CLAIMS:
        claims[thread] = claimed
    cuda.syncthreads()
    if counts[HAS_REPEATED] > 0:  # the same in all threads
        d_rank_keys(keys, noted, by_leaf, rows_of_leaf, firsts, counts, num_keys, True)
        cuda.syncthreads()
        d_leave_out_repeated(noted, rows_of_leaf, num_keys)
        cuda.syncthreads()


@device
def d_list_leaf(rows_of_leaf, firsts, piece, claims, listed_place, full_place, lists, table):
    """A thread has a leaf: if it has keys, it is listed with them, if it may be full with those, too."""
    thread = np.uint32(cuda.threadIdx.x)
    num_keys = rows_of_leaf[thread] if thread < PIECE_LEAVES else np.int32(0)
    if num_keys > 0:
        leaf, window = np.uint32(d_first_leaf(piece) + thread), np.uint32(claims[0] + listed_place)
        start = np.int32(claims[2] + firsts[thread])
        table[FIRST, window], table[END, window] = np.int32(leaf), np.int32(leaf + np.uint32(1))
        table[LOW, window], table[HIGH, window] = start, np.int32(start + num_keys)
        lists[leaf, COUNT], lists[leaf, HEAD] = num_keys, np.int32(start + np.int32(1))
        if full_place != NOWHERE:
            table[NARROW_WINDOWS, np.uint32(claims[1] + full_place)] = np.int32(window)


@device
def d_write_keys(keys, noted, firsts, num_keys, piece, claims, pairs):
    """Threads stride over the keys of a piece: each goes to its rank among its leaf's, but repeated ones.

    Returns how many different keys the thread has, and self-loops among them.
    """
    added, loops, first_slot = np.int32(0), np.int32(0), d_first_slot(piece)
    for k in range(cuda.threadIdx.x, num_keys, THREADS):
        key, note = keys[k], noted[k]
        if (note >> HALF) != REPEATED:
            row, column = np.int32(key >> 32), np.int32(key)
            at = np.uint32(claims[2] + firsts[d_leaf_of(note)] + (note >> HALF))
            pairs[SOURCES, at], pairs[TARGETS, at] = row, column
            pairs[PLACES, at] = np.int32(first_slot + np.uint32(note & SLOT))
            added = np.int32(added + np.int32(1))
            loops = np.int32(loops + np.int32(row == column))
    return added, loops


@partial(kernel, max_registers=MAX_REGISTERS)
def k_list_pieces(
    offsets, dst, valid, shift, num_pieces, lower, starts, ordered, marks, lists, table, states, pairs, control
):
    """Put absent keys into lists of their leaves, sorted, each once: blocks stride over the pieces.

    Leaves ``marks``, ``lists``, ``table`` and ``pairs`` as ``d_sort_lists`` does; a leaf that is said to be full may
    turn out not to be. Once a leaf or piece has too many rows, or an id is no vertex, what is left is of no use.
    """
    held = cuda.shared.array(HELD, np.int32)
    keys = cuda.shared.array(MOST_ABSENT, np.int64)
    noted = cuda.shared.array(MOST_ABSENT, np.int32)
    by_leaf = cuda.shared.array(MOST_ABSENT, np.int16)
    rows_of_leaf = cuda.shared.array(PIECE_LEAVES, np.int32)
    firsts = cuda.shared.array(PIECE_LEAVES, np.int32)
    told = cuda.shared.array(TOLD, np.uint32)
    counts = cuda.shared.array(COUNTS, np.int32)
    claims = cuda.shared.array(CLAIMS, np.int64)
    board = cuda.shared.array(BOARD, np.int64)
    found, found_loops, revived, loops, added = np.int32(0), np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    for piece in range(cuda.blockIdx.x, num_pieces, cuda.gridDim.x):
        begin, end = d_rows_of_piece(starts, piece, shift)
        if begin < end:  # the same in all threads
            j = np.uint32(begin + np.uint32(cuda.threadIdx.x))
            # Before the piece, so that both reads wait together.
            pair, low, high = d_read_bounds(offsets, ordered, min(j, np.uint32(end - np.uint32(1))))
            d_hold_piece(dst, piece, held)
            d_clear_counts(told, rows_of_leaf, counts)
            cuda.syncthreads()
            some_found, some_found_loops, some_revived, some_loops = d_find_rows(
                offsets, dst, valid, ordered, j, end, pair, low, high, piece, shift, held, told, keys, noted,
                rows_of_leaf, counts, table[POSITIONS], states, control,
            )  # fmt: skip
            found, found_loops = np.int32(found + some_found), np.int32(found_loops + some_found_loops)
            revived, loops = np.int32(revived + some_revived), np.int32(loops + some_loops)
            cuda.syncthreads()
            num_keys = min(counts[ABSENT_ROWS], np.int32(MOST_ABSENT))
            listed_place, full_place = d_place_leaves(
                valid, told, rows_of_leaf, piece, np.uint32(lists.shape[0]), lower, counts, firsts, control
            )
            cuda.syncthreads()
            d_sort_keys(keys, noted, by_leaf, rows_of_leaf, firsts, num_keys, counts, claims, control)
            d_list_leaf(rows_of_leaf, firsts, piece, claims, listed_place, full_place, lists, table)
            some_added, some_loops = d_write_keys(keys, noted, firsts, num_keys, piece, claims, pairs)
            added, loops = np.int32(added + some_added), np.int32(loops + some_loops)
            d_tell_marks(told, piece, marks)
            cuda.syncthreads()  # all has been read
    d_leave_sum(control, FOUND, found, board)
    d_leave_sum(control, FOUND_LOOPS, found_loops, board)
    d_leave_sum(control, REVIVED, revived, board)
    d_leave_sum(control, OTHER_LOOPS, loops, board)
    d_leave_sum(control, ADDED, added, board)
