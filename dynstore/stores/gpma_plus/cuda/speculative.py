"""Speculative sorted insertions and compacting deletions of GPMA+ on CUDA: the device decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.batches.cuda.unique import RUN_LOOPS, RUNS
from dynstore.batches.unsorted import UnsortedBatch
from dynstore.cuda.compiler import prepare
from dynstore.stores.base import Reason, Refused
from dynstore.stores.gpma_plus.cuda.plan_sorted import keep_located, start_plan
from dynstore.stores.pma.cuda.compact import start_compaction
from dynstore.stores.pma.cuda.delete import delete_present, lowest_count
from dynstore.stores.pma.cuda.locate import FOUND_LOOPS, INVALID_ID
from dynstore.stores.pma.cuda.rebalance import write_windows
from dynstore.stores.pma.cuda.windows import GRANTED, NUM_LEAVES
from dynstore.stores.table.cuda.arguments import with_room, with_weights
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE, Attempt, SearchResult

if TYPE_CHECKING:
    import numpy as np

    from dynstore.backend import Backend
    from dynstore.batches.sorted import Batch
    from dynstore.stores.pma.cuda.delete import FoundKeys
    from dynstore.stores.table.slots import SlotArrays

__all__ = ["try_delete", "try_insert"]


def _most_scratch(slots: SlotArrays, num_rows: int) -> int:
    """Return for how many leaves there is scratch before the host knows how many are needed."""
    tuning = slots.tuning
    most = max(with_room(num_rows) * tuning.scratch_slots_a_row >> 5, tuning.min_scratch_leaves)
    return min(most, slots.num_slots >> 5)


def try_insert(
    backend: Backend, slots: SlotArrays, batch: Batch, limits: np.ndarray, most_leaves: int, add: bool
) -> Attempt | Reason:
    """Insert a batch, which is sorted first if it is not, as ``insert_buckets.try_insert`` does: the device decides.

    What was found refers to the sorted batch and is valid until the next insertion.
    """
    edges = batch.known()
    most_new = slots.room_at(limits[-1])
    scratch_leaves = _most_scratch(slots, edges.num_rows)
    plan = start_plan(backend, slots, edges, limits, "sorted insertion", (most_new, most_leaves), scratch_leaves)
    writing = plan.writing.with_scratch(backend, slots, scratch_leaves)
    columns = plan.edge_columns
    if not isinstance(edges, UnsortedBatch):
        known = edges.materialized()
        columns = with_weights(known.src, known.dst, known.weights)
    prepare(write_windows, slots, columns, plan.positions, plan.states, writing, True, add)()
    totals = plan.mailbox.read(backend, plan.ticket)
    is_merged = totals[ABSENT] + totals[TOMBSTONE] > most_new or totals[NUM_LEAVES] > most_leaves
    if totals[INVALID_ID]:
        return Reason.INVALID
    if not (totals[GRANTED] or is_merged):
        return Reason.SCRATCH
    if isinstance(edges, UnsortedBatch):
        edges.keep_counts(totals[RUNS], totals[RUN_LOOPS])
    if is_merged:
        return Attempt(keep_located(plan, edges, totals), False)
    return Attempt(SearchResult(plan.positions, plan.states, totals[PRESENT], totals[FOUND_LOOPS]), True)


def try_delete(
    backend: Backend, slots: SlotArrays, batch: Batch, limits: np.ndarray, most: int, most_leaves: int
) -> tuple[int, int] | Refused:
    """Delete a batch whose edges are all present, and compact windows that become too empty; the device decides.

    The batch's ids need not be validated.

    Parameters
    ----------
    limits : array
        As in :func:`dynstore.stores.pma.cuda.update.plan_delete`.
    most, most_leaves : int
        If more edges are present, or more leaves are to be compacted, nothing is deleted.

    Returns
    -------
    tuple or Refused
        The number of deleted keys, and of self-loops among them. If all edges are present but none was deleted, the
        refused batch has what the search found, so its plan does not search again.
    """
    search = delete_present(backend, slots, batch, lowest_count(limits), most)
    if search is None:
        return Refused(Reason.INVALID, batch)
    if search.found > most or (search.is_sparse and not _compact_now(backend, slots, search, limits, most_leaves)):
        slots.scratch.give_away("deletion")  # to the plan
        return Refused(Reason.SPARSE, batch.with_search(search.present()))
    return search.found, search.found_loops


def _compact_now(backend: Backend, slots: SlotArrays, search: FoundKeys, limits: np.ndarray, most_leaves: int) -> bool:
    """Clear the bits of what was found and compact the windows; return False, with nothing written, if refused."""
    num_rows, num_leaves = search.num_rows, slots.num_slots >> 5
    size, scratch_leaves = min(with_room(num_rows), num_leaves), _most_scratch(slots, num_rows)
    marks = search.scratch.marks
    plan = start_compaction(backend, slots, marks, num_rows, limits, "packing", size, most_leaves, scratch_leaves)
    located = search.located()  # meanwhile make what starting does not need
    writing = plan.writing.with_scratch(backend, slots, scratch_leaves)
    columns = with_weights(slots.src[:0], slots.dst[:0], slots.weights)
    prepare(write_windows, slots, columns, located.positions, located.states, writing, False, False)()
    return bool(plan.mailbox.read(backend, plan.ticket)[GRANTED])
