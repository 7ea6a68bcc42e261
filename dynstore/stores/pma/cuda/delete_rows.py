"""Finding which edges of an unsorted batch are in a packed memory array on CUDA, row by row."""

from __future__ import annotations

import numpy as np

from dynstore.batches.cuda.rows import d_count_rows, d_read_edge
from dynstore.cuda.block import BOARD, d_sum_block
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import ARRIVALS, d_reset_when_last, d_sync_grid
from dynstore.cuda.mailbox import d_post_totals
from dynstore.cuda.warp import d_lane
from dynstore.stores.pma.cuda.records import BatchRows, SearchedSlots
from dynstore.stores.table.cuda.search import SEARCHERS, d_find_edge_together, d_find_two_edges
from dynstore.stores.table.slots import ABSENT, PRESENT

__all__ = [
    "FOUND",
    "FOUND_LOOPS",
    "MISSING",
    "RESET_ARRIVALS",
    "SPARSE",
    "d_leave_found",
    "d_may_delete",
    "k_find_present",
]

# Entries of ``control``: present edges, each once; self-loops among them; then flags: whether the edge of some row is
# not present, which includes invalid ids; whether some leaf would be left too empty.
FOUND, FOUND_LOOPS, MISSING, SPARSE = declare("deletion", FOUND=0, FOUND_LOOPS=1, MISSING=2, SPARSE=3)
(RESET_ARRIVALS,) = declare("deletion", RESET_ARRIVALS=ARRIVALS + 1)


@device
def d_leave_found(control, found, loops, missing, sparse, board):
    """Sum up what the threads have found. All threads call. A block adds both sums up at once."""
    if missing:
        control[MISSING] = 1
    if sparse:
        control[SPARSE] = 1
    both = d_sum_block((np.int64(loops) << 32) + np.int64(found), board)
    if cuda.threadIdx.x == 0 and both != 0:
        cuda.atomic.add(control, FOUND, both & np.int64(0xFFFFFFFF))
        cuda.atomic.add(control, FOUND_LOOPS, both >> 32)


@device
def d_may_delete(control, most):
    """Return whether all edges are present, at most ``most``, and no leaf would be left too empty."""
    return control[FOUND] <= most and control[SPARSE] == 0 and control[MISSING] == 0


@device
def d_mark_slot(marks, position, wanted):
    """Set a slot's bit (atomic or) if wanted. Return the old word of marks."""
    before = np.uint32(0)
    if wanted:
        bit = np.uint32(1) << np.uint32(position & np.uint32(31))
        before = np.uint32(cuda.atomic.or_(marks, np.uint32(position >> np.uint32(5)), bit))
    return before


@device
def d_leaves_sparse(valid, position, wanted, before, bound):
    """Return whether a leaf has fewer than ``bound`` edges without those claimed, ``before`` and this one; if wanted.

    If a leaf is left too empty, the last row to mark a slot of it sees that.
    """
    is_sparse = False
    if wanted:
        bit = np.uint32(1) << np.uint32(position & np.uint32(31))
        is_sparse = cuda.popc(valid[np.uint32(position >> np.uint32(5))] & ~(before | bit)) < bound
    return is_sparse


@device
def d_note_row(positions, states, i, position, is_there, before):
    """Write where a row's edge is, and PRESENT if the row has claimed it. Return whether it has."""
    bit = (before >> np.uint32(position & np.uint32(31))) & np.uint32(1)
    marked = is_there and bit == 0
    positions[np.uint64(i)] = position
    states[np.uint64(i)] = PRESENT if marked else ABSENT
    return marked


@device
def d_find_few(slots, batch, num_rows, bound, marks, positions, states):
    """``SEARCHERS`` neighbouring lanes share a row; the first claims and writes. Returns what ``d_find_many`` does."""
    i, tells, marked = np.int64(cuda.grid(1)) // SEARCHERS, d_lane() & (SEARCHERS - 1) == 0, False
    row, column, _ = d_read_edge(batch.src, batch.dst, batch.mirrored, i, num_rows, slots.num_vertices)
    position, state = d_find_edge_together(slots.offsets, slots.dst, slots.valid, row, column)
    is_there = (state == PRESENT) & tells
    before = d_mark_slot(marks, position, is_there)
    if tells and i < num_rows:
        marked = d_note_row(positions, states, i, position, is_there, before)
    is_sparse = d_leaves_sparse(slots.valid, position, is_there, before, bound)
    return np.int32(marked), np.int32(marked and row == column), (i < num_rows) & (state != PRESENT), is_sparse


@device
def d_find_many(slots, batch, num_rows, bound, marks, positions, states):
    """Threads stride over the rows, two at a time, so that twice as many reads are in flight.

    Returns how many edges the thread has claimed, how many of them are self-loops, whether an edge was not present, and
    whether the thread saw a leaf left too empty.
    """
    step, found, loops, missing, sparse = np.int64(cuda.gridsize(1)), np.int32(0), np.int32(0), False, False
    for i in range(cuda.grid(1), num_rows, 2 * step):
        row, column, _ = d_read_edge(batch.src, batch.dst, batch.mirrored, i, num_rows, slots.num_vertices)
        other = i + step
        other_exists = other < num_rows
        other_row, other_column, _ = d_read_edge(
            batch.src, batch.dst, batch.mirrored, other, num_rows, slots.num_vertices
        )
        position, state, other_position, other_state = d_find_two_edges(
            slots.offsets, slots.dst, slots.valid, row, column, other_row, other_column
        )
        is_there, other_is_there = state == PRESENT, other_state == PRESENT
        before = d_mark_slot(marks, position, is_there)
        other_before = d_mark_slot(marks, other_position, other_is_there)
        marked = d_note_row(positions, states, i, position, is_there, before)
        other_marked = False
        if other_exists:
            other_marked = d_note_row(positions, states, other, other_position, other_is_there, other_before)
        found += np.int32(marked) + np.int32(other_marked)
        loops += np.int32(marked and row == column) + np.int32(other_marked and other_row == other_column)
        missing |= (not is_there) | (other_exists & (not other_is_there))
        sparse |= d_leaves_sparse(slots.valid, position, is_there, before, bound)
        sparse |= d_leaves_sparse(slots.valid, other_position, other_is_there, other_before, bound)
    return found, loops, missing, sparse


@kernel
def k_find_present(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, bound, most, ticket, marks, positions, states,
    control, mailbox,
):  # fmt: skip
    """Find the slot of each row's edge, and of its mirror image; claim each present edge once.

    A row claims a slot by setting its bit in ``marks`` (atomic or). After one grid wait the device decides: if all
    edges are present, at most ``most`` are claimed and no leaf is left too empty, their bits in ``valid`` are cleared
    (atomic and), and ``marks`` and ``control`` are 0 again. If ``most`` is negative, nothing is cleared. The totals are
    posted after the wait.
    """
    board = cuda.shared.array(BOARD, np.int64)
    slots, batch = SearchedSlots(offsets, dst, valid, num_vertices), BatchRows(edge_src, edge_dst, mirrored)
    num_rows = d_count_rows(edge_src, mirrored)
    if 0 < SEARCHERS * num_rows <= cuda.gridsize(1):  # the same in all threads
        found, loops, missing, sparse = d_find_few(slots, batch, num_rows, bound, marks, positions, states)
    else:
        found, loops, missing, sparse = d_find_many(slots, batch, num_rows, bound, marks, positions, states)
    d_leave_found(control, found, loops, missing, sparse, board)
    d_sync_grid(control, 1)
    if cuda.grid(1) == cuda.gridsize(1) - 1:  # the last warp has the fewest rows
        d_post_totals(control, mailbox, ticket)
    if d_may_delete(control, most):
        for i in range(cuda.grid(1), num_rows, cuda.gridsize(1)):
            slot, state = positions[i], states[i]
            if state == PRESENT:
                cuda.atomic.and_(valid, slot >> 5, ~(np.uint32(1) << np.uint32(slot & 31)))
                marks[slot >> 5] = 0  # all bits of the word belong to edges that are deleted here
        d_reset_when_last(control, RESET_ARRIVALS)
