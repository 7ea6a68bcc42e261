"""Finding which edges of an unsorted batch are in a packed memory array on CUDA: all that most deletions need."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore._cuda.grid import CONTROL_SIZE, d_leave_sum, d_sync_grid, read_totals
from dynstore._cuda.launching import Packed
from dynstore._cuda.packed_slots import pack_slots, with_room
from dynstore._cuda.search import d_find_edge
from dynstore._cuda.tiles import BOARD
from dynstore.scratch import make_scratch
from dynstore.slots import ABSENT, PRESENT, Located

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.edge_batch import RawEdges
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["d_count_rows", "d_read_row", "delete_now", "find_present"]

# Rows of the sums: edges that are there, each once; self-loops among them; rows whose edge is not there, maybe because
# of an id that no vertex can have; edges whose leaf would be left too empty.
FOUND, FOUND_LOOPS, MISSING, SPARSE = range(4)
MAX_ID = np.int64(np.iinfo(np.int32).max - 1)


@device
def d_read_row(edge_src, edge_dst, mirrored, i):
    """Return source and destination of a row: an edge, or with ``mirrored``, behind all edges, a mirror image."""
    num_edges = np.int64(edge_src.shape[0])
    if mirrored and i >= num_edges:
        return np.int64(edge_dst[i - num_edges]), np.int64(edge_src[i - num_edges])
    return np.int64(edge_src[i]), np.int64(edge_dst[i])


@device
def d_count_rows(edge_src, mirrored):
    """Return how many rows there are, mirror images included."""
    num_edges = np.int64(edge_src.shape[0])
    return 2 * num_edges if mirrored else num_edges


@kernel
def k_find_present(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, bound, most, marks, positions, states, control
):
    """Threads stride over the rows, then over their mirror images: the slot of each edge that is there, told once.

    A slot's bit in ``marks`` says that a row has told it (atomic or). Once all have, leaves are counted without them.
    Where all rows' edges are there, no more than ``most`` are told and none leaves a leaf too empty, their bits in
    ``valid`` are cleared at once (atomic and); never, where ``most`` is below 0.
    """
    board = cuda.shared.array(BOARD, np.int64)
    num_rows = d_count_rows(edge_src, mirrored)
    found, loops, missing = np.int64(0), np.int64(0), np.int64(0)
    for i in range(cuda.grid(1), num_rows, cuda.gridsize(1)):
        row, column = d_read_row(edge_src, edge_dst, mirrored, i)
        position, state, told = np.int64(0), ABSENT, np.uint8(ABSENT)
        if min(row, column) >= 0 and max(row, column) <= MAX_ID:
            position, state = d_find_edge(offsets, dst, valid, num_vertices, row, column)
        if state == PRESENT:
            bit = np.uint32(1) << np.uint32(position & 31)
            if cuda.atomic.or_(marks, position >> 5, bit) & bit == 0:
                told = np.uint8(PRESENT)
                found += 1
                loops += row == column
        else:
            missing += 1
        positions[i] = position
        states[i] = told
    d_leave_sum(control, FOUND, found, board)
    d_leave_sum(control, FOUND_LOOPS, loops, board)
    d_leave_sum(control, MISSING, missing, board)
    d_sync_grid(control, 1)
    sparse = np.int64(0)
    for i in range(cuda.grid(1), num_rows, cuda.gridsize(1)):
        if states[i] == PRESENT:
            leaf = positions[i] >> 5
            sparse += cuda.popc(valid[leaf] & ~marks[leaf]) < bound
    d_leave_sum(control, SPARSE, sparse, board)
    if control[FOUND] > most:  # the same in all threads
        return
    d_sync_grid(control, 2)
    if control[SPARSE] == 0 and control[MISSING] == 0:
        for i in range(cuda.grid(1), num_rows, cuda.gridsize(1)):
            if states[i] == PRESENT:
                slot = positions[i]
                cuda.atomic.and_(valid, slot >> 5, ~(np.uint32(1) << np.uint32(slot & 31)))


class _Scratch:
    """What a search works in, and how the kernel is passed it."""

    def __init__(self, control: Array, marks: Array, positions: Array, states: Array) -> None:
        self.control, self.positions, self.states = control, positions, states
        self.packed = Packed(marks, positions, states, control)

    def located(self, num_rows: int, totals: list[int]) -> Located:
        """Return where so many rows' edges are."""
        return Located(self.positions[:num_rows], self.states[:num_rows], totals[FOUND], totals[FOUND_LOOPS])


def _find(
    backend: Backend,
    slots: SlotArrays,
    batch: RawEdges,
    bound: float,
    most: int,
    allocate: Callable[..., _Scratch],
    room: int,
) -> tuple[_Scratch, list[int]]:
    """Start the kernel with ``room`` for so many rows; return what it wrote, and the totals."""
    scratch = allocate(
        (CONTROL_SIZE, np.int64), (slots.num_slots >> 5, np.uint32), (room, np.int64), (room, np.uint8), zeroed=2
    )
    k_find_present.launch_resident(
        batch.num_rows,
        pack_slots(slots).searched, slots.num_vertices, *batch.columns, batch.mirrored, bound, most, scratch.packed,
    )  # fmt: skip
    totals = read_totals(backend, scratch.control)
    if not totals[MISSING]:
        batch.settle_counts(totals[FOUND], totals[FOUND_LOOPS])
    return scratch, totals


def find_present(backend: Backend, slots: SlotArrays, batch: RawEdges, bound: float) -> tuple[Located, int]:
    """Find the edges of a batch that are there; tells the batch how many it has where all of them are.

    Parameters
    ----------
    bound : float
        The fewest edges that a leaf may be left with.

    Returns
    -------
    located : Located
        Of all rows of the batch; of equal ones one is PRESENT.
    num_sparse : int
        Edges whose leaf would be left with fewer than ``bound``.
    """
    if batch.present is not None:
        return batch.present
    allocate = partial(make_scratch, backend, _Scratch)
    scratch, totals = _find(backend, slots, batch, bound, -1, allocate, batch.num_rows)
    return scratch.located(batch.num_rows, totals), totals[SPARSE]


def delete_now(backend: Backend, slots: SlotArrays, batch: RawEdges, bound: float, most: int) -> tuple[int, int] | None:
    """Delete a batch whose edges are all there where no leaf has to be packed; the device decides whether that is so.

    Nobody need have looked at the batch's ids. (Of missing ones the distinct would have to be counted: by a sort, which
    may fail.) Where all edges are there, but nothing was deleted, the batch is told what was found: a plan for it need
    not search.

    Parameters
    ----------
    bound : float
        As in :func:`find_present`.
    most : int
        Where more edges are there, nothing is deleted.

    Returns
    -------
    found, found_loops : int
        As in :class:`~dynstore.slots.Located`. None in place of both, and nothing is deleted, where that has to be
        planned, or an edge is not there.
    """
    allocate = partial(slots.take_scratch, backend, "deletion", _Scratch)
    scratch, totals = _find(backend, slots, batch, bound, most, allocate, with_room(batch.num_rows))
    if totals[MISSING]:
        return None
    if totals[FOUND] > most or totals[SPARSE]:
        slots.scratch.give_away("deletion")  # to the plan
        batch.present = scratch.located(batch.num_rows, totals), totals[SPARSE]
        return None
    return totals[FOUND], totals[FOUND_LOOPS]
