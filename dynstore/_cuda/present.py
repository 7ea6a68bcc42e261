"""Finding which edges of an unsorted batch are in a packed memory array on CUDA: all that most deletions need."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore._cuda.batches import d_count_rows, d_read_edge
from dynstore._cuda.compiler import THREADS, cuda, device, kernel
from dynstore._cuda.grid import ARRIVALS, CONTROL_SIZE, d_reset_when_last, d_sync_grid
from dynstore._cuda.launching import Packed
from dynstore._cuda.leaves import k_clear_located
from dynstore._cuda.mailbox import Mailbox, d_post_totals
from dynstore._cuda.ordering import order_batch, rows_of
from dynstore._cuda.packed_slots import pack_slots, with_room
from dynstore._cuda.pieces import count_pieces, fits_pieces
from dynstore._cuda.present_pieces import k_find_pieces
from dynstore._cuda.present_totals import FOUND, FOUND_LOOPS, MISSING, SPARSE, d_leave_found, d_may_delete
from dynstore._cuda.search import SEARCHERS, d_find_edge_together, d_find_two_edges, locate_edges
from dynstore._cuda.tiles import BOARD
from dynstore._cuda.warp import d_lane
from dynstore.bits import unpack_bits
from dynstore.edge_batch import MAX_INT32, RawEdges
from dynstore.scratch import make_scratch
from dynstore.slots import ABSENT, PRESENT, Located

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.edge_batch import EdgeBatch
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["Found", "delete_present", "find_present", "lowest_count"]

# The rows of the largest batch that is searched for by several lanes a row, as far as the GPU has room for them.
FEW_ROWS = 1 << 14
# How many slots and vertices the kernel can number.
MOST_NUMBERED = MAX_INT32


@device
def d_mark_slot(marks, position, wanted):
    """Set a slot's bit (atomic or) if wanted; return the word of marks before."""
    before = np.uint32(0)
    if wanted:
        bit = np.uint32(1) << np.uint32(position & np.uint32(31))
        before = np.uint32(cuda.atomic.or_(marks, np.uint32(position >> np.uint32(5)), bit))
    return before


@device
def d_leaves_sparse(valid, position, wanted, before, bound):
    """Return whether a leaf has fewer than ``bound`` edges without those told so far, ``before`` and this; if wanted.

    Of the rows of a leaf that is left too empty the last one to mark its slot sees that.
    """
    is_sparse = False
    if wanted:
        bit = np.uint32(1) << np.uint32(position & np.uint32(31))
        is_sparse = cuda.popc(valid[np.uint32(position >> np.uint32(5))] & ~(before | bit)) < bound
    return is_sparse


@device
def d_note_row(positions, states, i, position, is_there, before):
    """Write where a row's edge is, and PRESENT if it is there and no row has told it; return whether that is so."""
    bit = (before >> np.uint32(position & np.uint32(31))) & np.uint32(1)
    told = is_there and bit == 0
    positions[np.uint64(i)] = position
    states[np.uint64(i)] = PRESENT if told else ABSENT
    return told


@device
def d_find_few(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, num_rows, bound, marks, positions, states
):  # fmt: skip
    """``SEARCHERS`` neighbouring lanes have a row, which the first of them tells; returns what ``d_find_many`` does."""
    i, tells, told = np.int64(cuda.grid(1)) // SEARCHERS, d_lane() & (SEARCHERS - 1) == 0, False
    row, column, _ = d_read_edge(edge_src, edge_dst, mirrored, i, num_rows, num_vertices)
    position, state = d_find_edge_together(offsets, dst, valid, row, column)
    is_there = (state == PRESENT) & tells
    before = d_mark_slot(marks, position, is_there)
    if tells and i < num_rows:
        told = d_note_row(positions, states, i, position, is_there, before)
    is_sparse = d_leaves_sparse(valid, position, is_there, before, bound)
    return np.int32(told), np.int32(told and row == column), (i < num_rows) & (state != PRESENT), is_sparse


@device
def d_find_many(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, num_rows, bound, marks, positions, states
):  # fmt: skip
    """Threads stride over the rows, two at a time, so that twice as many reads are on their way.

    Returns how many edges the thread has told, and self-loops among them, whether one was not there, and whether it saw
    a leaf left too empty.
    """
    step, found, loops, missing, sparse = np.int64(cuda.gridsize(1)), np.int32(0), np.int32(0), False, False
    for i in range(cuda.grid(1), num_rows, 2 * step):
        row, column, _ = d_read_edge(edge_src, edge_dst, mirrored, i, num_rows, num_vertices)
        other = i + step
        other_exists = other < num_rows
        other_row, other_column, _ = d_read_edge(edge_src, edge_dst, mirrored, other, num_rows, num_vertices)
        position, state, other_position, other_state = d_find_two_edges(
            offsets, dst, valid, row, column, other_row, other_column
        )
        is_there, other_is_there = state == PRESENT, other_state == PRESENT
        before = d_mark_slot(marks, position, is_there)
        other_before = d_mark_slot(marks, other_position, other_is_there)
        told = d_note_row(positions, states, i, position, is_there, before)
        other_told = False
        if other_exists:
            other_told = d_note_row(positions, states, other, other_position, other_is_there, other_before)
        found += np.int32(told) + np.int32(other_told)
        loops += np.int32(told and row == column) + np.int32(other_told and other_row == other_column)
        missing |= (not is_there) | (other_exists & (not other_is_there))
        sparse |= d_leaves_sparse(valid, position, is_there, before, bound)
        sparse |= d_leaves_sparse(valid, other_position, other_is_there, other_before, bound)
    return found, loops, missing, sparse


@kernel
def k_find_present(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, bound, most, ticket, marks, positions, states,
    control, mailbox,
):  # fmt: skip
    """Find the slot of each row's edge, and of its mirror image's: each that is there is told once.

    A slot's bit in ``marks`` says that a row has told it (atomic or). Where all rows' edges are there, no more than
    ``most`` are told and none leaves a leaf too empty, their bits in ``valid`` are cleared at once (atomic and), which
    is known after the one grid-wide wait; never, where ``most`` is below 0. The totals are posted meanwhile; after it,
    ``marks`` and ``control`` (but for the blocks' sums, which nobody reads) are 0 again.
    """
    board = cuda.shared.array(BOARD, np.int64)
    num_rows = d_count_rows(edge_src, mirrored)
    if 0 < SEARCHERS * num_rows <= cuda.gridsize(1):  # the same in all threads
        found, loops, missing, sparse = d_find_few(
            offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, num_rows, bound, marks, positions, states
        )
    else:
        found, loops, missing, sparse = d_find_many(
            offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, num_rows, bound, marks, positions, states
        )
    d_leave_found(control, found, loops, missing, sparse, board)
    d_sync_grid(control, 1)
    if cuda.grid(1) == cuda.gridsize(1) - 1:  # the last warp has the fewest rows
        d_post_totals(control, mailbox, ticket)
    if d_may_delete(control, most):
        for i in range(cuda.grid(1), num_rows, cuda.gridsize(1)):
            slot, state = positions[i], states[i]
            if state == PRESENT:
                cuda.atomic.and_(valid, slot >> 5, ~(np.uint32(1) << np.uint32(slot & 31)))
                marks[slot >> 5] = 0  # all bits of the word are of edges that are deleted here
        d_reset_when_last(control, ARRIVALS + 1)


def lowest_count(limits: np.ndarray) -> float:
    """Return the fewest edges that a deletion may leave a leaf with; an array of one leaf has no such limit."""
    return float(limits[0]) * 32 if len(limits) > 1 else 0.0


class _Scratch:
    """What a search works in, and how the kernel is passed it."""

    def __init__(self, backend: Backend, control: Array, marks: Array, positions: Array, states: Array) -> None:
        self.marks, self.positions, self.states, self.mailbox = marks, positions, states, Mailbox(backend)
        self.packed = Packed(marks, positions, states, control, self.mailbox.words)


class Found(NamedTuple):
    """What a search counted, and the scratch that says where each row's edge is.

    ``found``, ``found_loops``: as in :class:`~dynstore.slots.Located`; ``misses``: whether the edge of some row is not
    there; ``is_sparse``: whether some leaf would be left too empty.
    """

    scratch: _Scratch
    num_rows: int
    found: int
    found_loops: int
    misses: bool
    is_sparse: bool

    @property
    def present(self) -> tuple[Located, bool, Array]:
        """What :func:`find_present` returns, made when somebody asks."""
        scratch, num_rows = self.scratch, self.num_rows
        located = Located(scratch.positions[:num_rows], scratch.states[:num_rows], self.found, self.found_loops)
        return located, self.is_sparse, scratch.marks


def _find(
    backend: Backend,
    slots: SlotArrays,
    batch: EdgeBatch,
    bound: float,
    most: int,
    allocate: Callable[..., _Scratch],
    room: Callable[[int], int],
) -> Found:
    """Start the kernel; return what it found."""
    raw = batch if isinstance(batch, RawEdges) else None
    num_rows = len(batch) if raw is None else raw.num_rows
    size = room(num_rows)
    scratch = allocate(
        (CONTROL_SIZE, np.int64), (slots.num_slots >> 5, np.uint32), (size, np.int64), (size, np.uint8), zeroed=2
    )
    ticket = scratch.mailbox.next_ticket()
    searched, limits = pack_slots(slots).searched, (bound, most, ticket)
    ordered = None if raw is None else order_batch(backend, slots, raw)
    if ordered is not None and fits_pieces(slots, num_rows):
        num_pieces = count_pieces(slots)
        k_find_pieces.launch_resident(
            num_pieces * THREADS, searched, ordered.shift, num_pieces, *limits, ordered.searched, scratch.packed
        )
    else:
        rows = (batch.src, batch.dst, False) if raw is None else rows_of(raw, ordered)
        k_find_present.launch_resident(
            max(SEARCHERS * num_rows if num_rows <= FEW_ROWS else num_rows, 1),  # who finds nothing has to tell, too
            searched, slots.num_vertices, *rows, *limits, scratch.packed,
        )  # fmt: skip
    totals = scratch.mailbox.read(backend, ticket)
    if raw is not None and not totals[MISSING]:
        raw.settle_counts(totals[FOUND], totals[FOUND_LOOPS])
    return Found(scratch, num_rows, totals[FOUND], totals[FOUND_LOOPS], totals[MISSING] != 0, totals[SPARSE] != 0)


def find_present(backend: Backend, slots: SlotArrays, batch: EdgeBatch, bound: float) -> tuple[Located, bool, Array]:
    """Find the edges of a batch that are there; tells raw ones how many there are where all of them are.

    Parameters
    ----------
    bound : float
        The fewest edges that a leaf may be left with.

    Returns
    -------
    located : Located
        Of all rows of the batch, in the order that they were searched in; of equal ones one is PRESENT.
    is_sparse : bool
        Whether some leaf would be left with fewer than ``bound``.
    marks : array of uint32 words
        The slots of the edges that are there.
    """
    if batch.present is not None:
        return batch.present
    if max(slots.num_slots, slots.num_vertices) > MOST_NUMBERED:
        return _find_among_many(backend, slots, batch, bound)
    allocate = partial(make_scratch, backend, partial(_Scratch, backend))
    return _find(backend, slots, batch, bound, -1, allocate, int).present


def _find_among_many(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, bound: float
) -> tuple[Located, bool, Array]:
    """Do as :func:`find_present` for each edge once, whatever the number of slots and vertices."""
    positions, states = locate_edges(backend, slots, batch.src, batch.dst)
    there = states == PRESENT
    valid = slots.valid[: slots.num_slots >> 5]
    left = backend.empty(valid.shape, np.uint32)
    left[:] = valid
    k_clear_located.launch(len(batch), left, positions, states)
    words = left[positions[there] >> 5]
    counts = unpack_bits(backend, words, 32 * int(words.shape[0])).reshape(-1, 32).sum(axis=1)
    loops = int((there & (batch.src == batch.dst)).sum())
    return Located(positions, states, int(there.sum()), loops), bool((counts < bound).any()), valid ^ left


def delete_present(backend: Backend, slots: SlotArrays, batch: EdgeBatch, bound: float, most: int) -> Found | None:
    """Delete a batch whose edges are all there where no leaf has to be packed; the device decides whether that is so.

    Nobody need have looked at the batch's ids. (Of missing ones the distinct would have to be counted: by a sort, which
    may fail.)

    Parameters
    ----------
    bound : float
        As in :func:`find_present`.
    most : int
        Where more edges are there, nothing is deleted.

    Returns
    -------
    found : Found
        Where more than ``most`` are found, or some leave a leaf too empty, nothing is deleted. It lies in scratch, kind
        "deletion". None, and nothing is deleted, where an edge is not there.
    """
    allocate = partial(slots.take_scratch, backend, "deletion", partial(_Scratch, backend))
    found = _find(backend, slots, batch, bound, most, allocate, with_room)
    if found.misses:
        return None
    if not found.is_sparse and found.found <= most:
        slots.scratch.leave_clear("deletion")
    return found
