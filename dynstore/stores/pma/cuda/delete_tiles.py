"""Finding which edges of a large batch are in a packed memory array on CUDA, tile by tile."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.cuda.block import BOARD
from dynstore.cuda.compiler import THREADS, cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import ARRIVALS, d_reset_when_last
from dynstore.cuda.mailbox import d_post_when_last
from dynstore.cuda.memory import COPY_ALIGNMENT, d_await_copies
from dynstore.stores.pma.cuda.delete_rows import RESET_ARRIVALS, d_leave_found
from dynstore.stores.pma.cuda.tiles import (
    HELD,
    MARKED,
    TILE_LEAVES,
    TileRows,
    d_claim_tile,
    d_find_in_tile,
    d_first_leaf,
    d_first_slot,
    d_hold_tile,
    d_hold_words,
    d_is_of_tile,
    d_next_tile,
    d_read_bounds,
    d_rows_of_tile,
)
from dynstore.stores.table.slots import ABSENT, PRESENT

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["DeleteTile", "k_find_pieces", "k_mark_found"]

# The entry of ``control`` that counts the tiles which blocks have claimed.
(CLAIMED,) = declare("deletion", CLAIMED=ARRIVALS + 2)
# Six blocks fit into a multiprocessor's shared memory, and then into its registers.
MAX_REGISTERS = 40


class DeleteTile(NamedTuple):
    """What a block works in, in its shared memory: destinations, validity bits, and a bit for each claimed slot."""

    held: Array
    words: Array
    marked: Array


@device
def d_mark_present(words, marked, at, is_there):
    """Set an edge's bit in ``marked``, shared. Return whether it is present, and whether this row claimed it."""
    marked_now, word, bit = False, np.uint32(at >> np.uint32(5)), np.uint32(1) << np.uint32(at & np.uint32(31))
    if is_there:
        is_there = words[word] & bit != 0
    if is_there:
        marked_now = np.uint32(cuda.atomic.or_(marked, word, bit)) & bit == 0
    return is_there, marked_now


@device
def d_find_rows(rows, j, end, bounds, tile, work, positions, states):
    """Threads stride over the rows among which a tile's are, and claim each present edge once.

    ``bounds``: what ``d_read_bounds`` returns for the thread's first row. Returns how many edges the thread has
    claimed, how many of them are self-loops, and whether an edge was not present.
    """
    pair, low, high = bounds
    found, loops, missing = np.int32(0), np.int32(0), False
    first_slot = d_first_slot(tile)
    while j < end:
        row, column = np.int32(pair >> 32), np.int32(pair)
        if row < 0 or column < 0:
            missing, positions[j], states[j] = True, 0, ABSENT
        elif d_is_of_tile(rows.offsets, rows.dst, row, column, tile, rows.shift):
            at, is_there = d_find_in_tile(work.held, low, high, column, tile)
            is_there, marked_now = d_mark_present(work.words, work.marked, at, is_there)
            positions[j], states[j] = np.int32(first_slot + at), PRESENT if marked_now else ABSENT
            missing |= not is_there
            found = np.int32(found + np.int32(marked_now))
            loops = np.int32(loops + np.int32(marked_now and row == column))
        j = np.uint32(j + np.uint32(THREADS))
        if j < end:
            pair, low, high = d_read_bounds(rows.offsets, rows.ordered, j)
    return found, loops, missing


@device
def d_is_left_sparse(words, marked, bound):
    """Return whether the thread's leaf has fewer than ``bound`` edges without the claimed ones, if it has any of these.

    An edge in a tile's first slot is claimed by a row of the previous tile, whose block tests the leaf for it. The slot
    does not count here, since neither tile knows what the other claims in the leaf. Other deletions there were tested
    by the tile that owns it, without that slot.
    """
    is_sparse, thread = False, np.uint32(cuda.threadIdx.x)
    if thread < TILE_LEAVES and marked[thread] != 0:
        others = np.uint32(marked[thread] | np.uint32(thread == 0))
        is_sparse = cuda.popc(words[thread] & ~others) < bound
    if thread == 0 and marked[TILE_LEAVES] != 0:
        is_sparse |= cuda.popc(words[TILE_LEAVES] & ~marked[TILE_LEAVES]) < bound
    return is_sparse


@device
def d_delete_marked(valid, tile, words, marked):
    """A thread owns a leaf and clears the bits of claimed edges. First leaves take an atomic and."""
    leaf, thread = d_first_leaf(tile), np.uint32(cuda.threadIdx.x)
    if 0 < thread < TILE_LEAVES and marked[thread] != 0:
        valid[np.uint32(leaf + thread)] = words[thread] & ~marked[thread]
    elif thread == 0:
        if marked[0] != 0:
            cuda.atomic.and_(valid, leaf, ~marked[0])
        if marked[TILE_LEAVES] != 0:
            cuda.atomic.and_(valid, np.uint32(leaf + np.uint32(TILE_LEAVES)), ~marked[TILE_LEAVES])


@partial(kernel, max_registers=MAX_REGISTERS)
def k_find_pieces(
    offsets, dst, valid, shift, num_tiles, bound, deletes, ticket, starts, ordered, positions, states, control, mailbox
):  # fmt: skip
    """Do as ``k_find_present`` with a partitioned batch: a block that is done claims the next tile.

    A leaf may be reported as too empty that has one edge more. If ``deletes``, what is found is deleted at once; if
    that was wrong, the host reads so in the totals and starts ``k_mark_found``. No block waits for another.
    """
    held = cuda.shared.array(HELD, np.int32, alignment=COPY_ALIGNMENT)
    words = cuda.shared.array(MARKED, np.uint32)
    marked = cuda.shared.array(MARKED, np.uint32)
    following = cuda.shared.array(2, np.int64)
    board = cuda.shared.array(BOARD, np.int64)
    work, rows = DeleteTile(held, words, marked), TileRows(offsets, dst, ordered, shift)
    found, loops, missing, sparse = np.int32(0), np.int32(0), False, False
    tile, turn = np.int64(cuda.blockIdx.x), np.uint32(0)
    while tile < num_tiles:
        claimed = d_claim_tile(control, CLAIMED)  # waited for at the end
        begin, end = d_rows_of_tile(starts, tile, shift)
        if begin < end:  # the same in all threads
            j = np.uint32(begin + np.uint32(cuda.threadIdx.x))
            # Before the tile is read, so that both reads overlap.
            bounds = d_read_bounds(offsets, ordered, min(j, np.uint32(end - np.uint32(1))))
            d_hold_tile(dst, tile, held)
            d_hold_words(valid, tile, words, marked)
            d_await_copies()
            cuda.syncthreads()
            some_found, some_loops, some_missing = d_find_rows(rows, j, end, bounds, tile, work, positions, states)
            found, loops = np.int32(found + some_found), np.int32(loops + some_loops)
            missing |= some_missing
            cuda.syncthreads()
            sparse |= d_is_left_sparse(words, marked, bound)
            if deletes:
                d_delete_marked(valid, tile, words, marked)
        tile, turn = d_next_tile(following, turn, claimed), np.uint32(turn ^ np.uint32(1))  # all threads have read
    d_leave_found(control, found, loops, missing, sparse, board)
    d_post_when_last(control, mailbox, ticket, ARRIVALS)
    d_reset_when_last(control, RESET_ARRIVALS)


@kernel
def k_mark_found(valid, marks, positions, states, num_rows, were_deleted):
    """A thread owns a row: mark the slot that the row claimed; if they ``were_deleted``, set its validity bit again.

    Atomic or.
    """
    j = np.uint32(cuda.grid(1))
    if j < num_rows and states[j] == PRESENT:
        leaf, bit = np.uint32(positions[j]) >> np.uint32(5), np.uint32(1) << np.uint32(positions[j] & np.int32(31))
        cuda.atomic.or_(marks, leaf, bit)
        if were_deleted:
            cuda.atomic.or_(valid, leaf, bit)
