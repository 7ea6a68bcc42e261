"""Sorted insertions and packing deletions of GPMA+ on CUDA, written before the host looks; the device decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.batches.batch import UnsortedBatch
from dynstore.batches.cuda.unique import RUN_LOOPS, RUNS
from dynstore.cuda.compiler import prepare
from dynstore.stores.gpma_plus.cuda.plan_sorted import settle_batch, start_plan
from dynstore.stores.pma.cuda.compact import start_packing
from dynstore.stores.pma.cuda.delete import delete_present, lowest_count
from dynstore.stores.pma.cuda.locate import FOUND_LOOPS, STRANGE
from dynstore.stores.pma.cuda.rebalance import write_windows
from dynstore.stores.pma.cuda.windows import GRANTED, NUM_LEAVES
from dynstore.stores.table.cuda.arguments import with_room, with_weights
from dynstore.stores.table.slots import ABSENT, DEAD, PRESENT, Located

if TYPE_CHECKING:
    import numpy as np

    from dynstore.backend import Backend
    from dynstore.batches.batch import EdgeBatch
    from dynstore.stores.pma.cuda.delete import Found
    from dynstore.stores.table.slots import SlotArrays

__all__ = ["delete_now", "insert_now"]

# Before the host knows how much windows of several leaves take, there is scratch for so many slots a row of the batch,
# and for so many leaves in any case.
SLOTS_A_ROW = 8
FEWEST_LEAVES = 1024


def _most_scratch(slots: SlotArrays, num_rows: int) -> int:
    """Return for how many leaves there is scratch before the host knows how many it takes."""
    return min(max(with_room(num_rows) * SLOTS_A_ROW >> 5, FEWEST_LEAVES), slots.num_slots >> 5)


def insert_now(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray, most_leaves: int, add: bool
) -> tuple[Located, bool] | None:
    """Insert a batch, sorted or to be sorted, as :func:`~.unsorted.insert_now` inserts one: the device decides.

    None, and nothing is written, also where that takes more scratch than there is. What was found is of the sorted
    batch, and to be used before the next insertion.
    """
    unsorted = batch if isinstance(batch, UnsortedBatch) and not batch.is_settled else None
    num_rows = len(batch) if unsorted is None else unsorted.num_rows
    most_new = slots.room_at(limits[-1])
    scratch_leaves = _most_scratch(slots, num_rows)
    plan = start_plan(backend, slots, batch, limits, "sorted insertion", (most_new, most_leaves), scratch_leaves)
    writing = plan.writing.with_scratch(backend, slots, scratch_leaves)
    columns = with_weights(batch.src, batch.dst, batch.weights) if unsorted is None else plan.edge_columns
    prepare(write_windows, slots, columns, plan.positions, plan.states, writing, True, add)()
    totals = plan.mailbox.read(backend, plan.ticket)
    is_merged = totals[ABSENT] + totals[DEAD] > most_new or totals[NUM_LEAVES] > most_leaves
    if totals[STRANGE] or not (totals[GRANTED] or is_merged):
        return None
    if unsorted is not None:
        unsorted.settle_counts(totals[RUNS], totals[RUN_LOOPS])
    if is_merged:
        return settle_batch(plan, batch, totals), False
    return Located(plan.positions, plan.states, totals[PRESENT], totals[FOUND_LOOPS]), True


def delete_now(
    backend: Backend, slots: SlotArrays, batch: EdgeBatch, limits: np.ndarray, most: int, most_leaves: int
) -> tuple[int, int] | None:
    """Delete a batch whose edges are all there, and pack what that leaves too empty; the device decides.

    Nobody need have looked at the batch's ids. Where all edges are there, but nothing was deleted, the batch is told
    what was found: a plan for it need not search.

    Parameters
    ----------
    limits : array
        As in :func:`~.gpma_plus.plan_delete`.
    most, most_leaves : int
        Where more edges are there, or more leaves are to be packed, nothing is deleted.

    Returns
    -------
    found, found_loops : int
        As in :class:`~dynstore.stores.table.slots.Located`. None in place of both, and nothing is deleted, where that
        has to be planned, or an edge is not there.
    """
    search = delete_present(backend, slots, batch, lowest_count(limits), most)
    if search is None:
        return None
    if search.found > most or (search.is_sparse and not _pack_now(backend, slots, search, limits, most_leaves)):
        slots.scratch.give_away("deletion")  # to the plan
        batch.present = search.present
        return None
    return search.found, search.found_loops


def _pack_now(backend: Backend, slots: SlotArrays, search: Found, limits: np.ndarray, most_leaves: int) -> bool:
    """Clear the bits of what was found and pack the windows; return whether that was granted, else nothing is."""
    num_rows, num_leaves = search.num_rows, slots.num_slots >> 5
    size, scratch_leaves = min(with_room(num_rows), num_leaves), _most_scratch(slots, num_rows)
    marks = search.scratch.marks
    plan = start_packing(backend, slots, marks, num_rows, limits, "packing", size, most_leaves, scratch_leaves)
    located = search.present[0]  # what is not needed to start is made meanwhile
    writing = plan.writing.with_scratch(backend, slots, scratch_leaves)
    columns = with_weights(slots.src[:0], slots.dst[:0], slots.weights)
    prepare(write_windows, slots, columns, located.positions, located.states, writing, False, False)()
    return bool(plan.mailbox.read(backend, plan.ticket)[GRANTED])
