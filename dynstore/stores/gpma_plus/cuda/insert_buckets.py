"""Unsorted insertions into a packed memory array on CUDA: launches, scratch and totals.

Keys go to the buckets of their leaves in any order; a bucket is a chain in memory, which a warp sorts in registers. The
plan stays on the device. It is written speculatively, or after the host has read the totals.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.cuda.compiler import THREADS, prepare
from dynstore.cuda.grid import ANY_NUMBER, CONTROL_SIZE
from dynstore.cuda.launch import Packed
from dynstore.cuda.mailbox import Mailbox
from dynstore.stores.base import Reason
from dynstore.stores.gpma_plus.cuda.bucket_fill import k_list_rows
from dynstore.stores.gpma_plus.cuda.bucket_keys import BucketKeys
from dynstore.stores.gpma_plus.cuda.bucket_layout import (
    ADDED,
    FOUND,
    FOUND_LOOPS,
    GIANT,
    GROUP_HEIGHT,
    HEAP_ROWS,
    INVALID_ID,
    KEY_ROWS,
    LEAVES,
    MAX_GIANT_HEIGHT,
    OTHER_LOOPS,
    POSITIONS,
    RESTORED,
    STOPPED,
    TABLE_ROWS,
    TOO_WIDE,
    WIDE,
    fits,
)
from dynstore.stores.gpma_plus.cuda.bucket_windows import k_choose_windows, k_plan_lists
from dynstore.stores.gpma_plus.cuda.bucket_write import k_merge_wide, k_write_leaves, k_write_windows
from dynstore.stores.gpma_plus.cuda.fused import THREADS_A_ROW, k_insert_lists
from dynstore.stores.gpma_plus.cuda.rollback import take_back
from dynstore.stores.gpma_plus.cuda.tile_insert import k_list_pieces
from dynstore.stores.pma.cuda.partition import Ordered, order_batch, rows_of
from dynstore.stores.pma.cuda.row_offsets import FAR_START, far_rows_size
from dynstore.stores.pma.cuda.tiles import count_tiles, fits_tiles
from dynstore.stores.table.cuda.arguments import pack_slots, with_room
from dynstore.stores.table.slots import Attempt, SearchResult

if TYPE_CHECKING:
    from dynstore.backend import Backend, Part
    from dynstore.batches.unsorted import RawEdges
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["BucketPlan", "plan_buckets", "try_insert", "write_buckets"]

# The kind of scratch that is kept.
KIND = "insertion"


class _BucketScratch:
    """The scratch of an insertion, see ``bucket_layout``, and which of it each kernel gets.

    ``loaded``: the numbers of tiles for which the kernels of large batches have been prepared; 0 is a search row by
    row.
    """

    loaded: set[int]

    def __init__(
        self,
        backend: Backend,
        control: Array,
        marks: Array,
        nodes: Array,
        lists: Array,
        far_rows: Array,
        groups: Array,
        following: Array,
        table: Array,
        pairs: Array,
        merged: Array,
        states: Array,
    ) -> None:
        self.control, self.positions, self.states, self.merged = control, table[POSITIONS], states, merged
        self.keys = BucketKeys(marks, lists, pairs)
        self.mailbox, self.loaded = Mailbox(backend), set()
        words = self.mailbox.words
        self.listing = Packed(marks, lists, following, table, states, pairs, control)
        self.tiles = Packed(marks, lists, table, states, pairs, control, far_rows)
        self.choosing = Packed(marks, lists, nodes, groups, table, control, words)
        self.planning = Packed(marks, lists, nodes, groups, following, table, pairs, control, words)
        self.leaves = Packed(marks, nodes, table, pairs, control, far_rows)
        self.wide = Packed(marks, table, lists, pairs, merged, control, far_rows)
        self.windows = Packed(marks, nodes, table, lists, states, pairs, control, far_rows)
        self.all = Packed(marks, nodes, lists, groups, following, table, states, pairs, control, far_rows, words)


class BucketPlan(NamedTuple):
    """What writing the buckets takes, all of it on the device; see ``_make_plan``.

    ``ticket``: posted once all is planned. ``num_leaves``: how many are written, once the host has read the totals.
    """

    scratch: _BucketScratch
    num_rows: int
    top: int
    ticket: int
    num_leaves: int = 0


@lru_cache
def _scratch_parts(num_slots: int, num_vertices: int, top: int, room: int, dtype: np.dtype) -> tuple[Part, ...]:
    """Return the scratch of an insertion of up to ``room`` rows; the first five parts are zeroed."""
    num_leaves = num_slots >> 5
    # Windows are in no order, so both windows at a common edge write it and may list its range of rows. If both leaves
    # moved before and then are in one window with others, its merge may list the range, too.
    num_far_rows = far_rows_size(num_vertices, min(room, num_leaves))
    return (
        (CONTROL_SIZE, np.int64), (num_leaves, np.uint32), ((HEAP_ROWS, (2 << top) // 32 + 1), np.uint32),
        ((num_leaves, 2), np.int32), (num_far_rows, np.int64, FAR_START),
        (((num_leaves - 1) >> GROUP_HEIGHT) + 1, np.int32),
        (room, np.int32), ((TABLE_ROWS, room), np.int32), ((KEY_ROWS, room + room // 2), dtype),
        ((2, min(32 << MAX_GIANT_HEIGHT, num_slots)), dtype), (room, np.uint8),
    )  # fmt: skip


def _make_plan(
    backend: Backend, slots: SlotArrays, batch: RawEdges, limits: np.ndarray, kind: str | None
) -> BucketPlan:
    """Acquire scratch of a kind and a ticket."""
    num_rows, top = batch.num_rows, len(limits) - 1
    room = num_rows if kind is None else with_room(num_rows)
    parts = _scratch_parts(slots.num_slots, slots.num_vertices, top, room, slots.src.dtype)
    scratch = slots.acquire_scratch(backend, kind, _BucketScratch, parts, 5)
    return BucketPlan(scratch, num_rows, top, scratch.mailbox.next_ticket())


def _start_plan(
    slots: SlotArrays,
    batch: RawEdges,
    ordered: Ordered | None,
    limits: np.ndarray,
    plan: BucketPlan,
    num_tiles: int = 0,
) -> None:
    """Start the kernels that plan; ``ordered``: the partitioned batch, if it is partitioned.

    ``num_tiles``: the tiles by which the batch is searched, which also writes keys into leaves with room; 0 to search
    row by row and write nothing.
    """
    scratch, num_leaves, densities = plan.scratch, slots.num_slots >> 5, (float(limits[0]), float(limits[-1]))
    if ordered is not None and num_tiles:
        k_list_pieces.launch_resident(
            num_tiles * THREADS, pack_slots(slots).written, ordered.shift, num_tiles, int(densities[0] * 32),
            ordered.listed, scratch.tiles,
        )  # fmt: skip
        k_choose_windows.launch_resident(
            plan.num_rows, slots.valid, num_leaves, *densities, plan.top, scratch.choosing, plan.ticket
        )
        return
    rows = rows_of(batch, ordered)
    k_list_rows.launch_resident(plan.num_rows, pack_slots(slots).located, *rows, scratch.listing)
    k_plan_lists.launch_resident(
        4 * plan.num_rows, slots.valid, num_leaves, *rows, *densities, plan.top, scratch.planning, plan.ticket
    )


def _keep_found(batch: RawEdges, plan: BucketPlan, totals: list[int], most_new: int) -> SearchResult | Reason:
    """Return what was found, and keep its counts in the batch; or the reason why it cannot be planned like this.

    With more than ``most_new`` new edges everything is merged, so windows that are too wide do not matter.
    """
    if totals[STOPPED] or (totals[TOO_WIDE] and totals[RESTORED] + totals[ADDED] <= most_new):
        return Reason.INVALID if totals[STOPPED] == INVALID_ID else Reason.OVERFLOW
    batch.keep_counts(totals[FOUND] + totals[RESTORED] + totals[ADDED], totals[FOUND_LOOPS] + totals[OTHER_LOOPS])
    return SearchResult(plan.scratch.positions, plan.scratch.states, totals[FOUND], totals[FOUND_LOOPS])


def _may_plan(slots: SlotArrays, batch: RawEdges) -> bool:
    return not batch.needs_order and batch.num_rows <= min(slots.num_slots, slots.tuning.max_bucket_rows)


def plan_buckets(
    backend: Backend, slots: SlotArrays, batch: RawEdges, limits: np.ndarray
) -> tuple[SearchResult, BucketPlan | None] | None:
    """Plan an insertion by buckets, and keep the number of its edges in the batch.

    Parameters
    ----------
    limits : array
        The density that no window of each height may pass, linear in it.

    Returns
    -------
    located : SearchResult
        For the rows in the order of the search: of equal rows one is PRESENT or TOMBSTONE, others ABSENT.
        A merge of everything takes the keys that are ``listed``.
    plan : BucketPlan or None
        None if the root would be denser than its limit.

    None instead of both if the batch has to be sorted: a bucket overflows, or a leaf would climb beyond grid windows.
    (Planning that without sorting would need these keys sorted, and running sums for the climb.)
    """
    if not _may_plan(slots, batch):
        return None
    ordered = order_batch(backend, slots, batch)
    plan = _make_plan(backend, slots, batch, limits, None)
    _start_plan(slots, batch, ordered, limits, plan)
    most_new = slots.room_at(limits[-1])
    totals = plan.scratch.mailbox.read(backend, plan.ticket)
    located = _keep_found(batch, plan, totals, most_new)
    if isinstance(located, Reason):
        return None
    located = replace(located, listed=plan.scratch.keys)
    if totals[RESTORED] + totals[ADDED] > most_new:
        return located, None
    return located, plan._replace(num_leaves=totals[LEAVES])


def write_buckets(
    slots: SlotArrays,
    plan: BucketPlan,
    most_new: int = ANY_NUMBER,
    most_leaves: int = ANY_NUMBER,
    num_tiles: int = 0,
) -> None:
    """Write the planned buckets if they come to no more new edges and leaves than ``most_new`` and ``most_leaves``.

    ``num_tiles``: the tiles whose leaves were written while planning.
    """
    scratch, limits, columns = plan.scratch, (most_new, most_leaves), pack_slots(slots).written
    k_write_leaves.launch_resident(plan.num_rows, columns, scratch.leaves, *limits)
    k_merge_wide.launch_resident(scratch.merged.shape[1], columns, scratch.wide, *limits)
    k_write_windows.launch_resident(
        max(2 * plan.num_rows, slots.num_vertices >> 6), columns, scratch.windows, plan.num_rows, num_tiles, *limits,
    )  # fmt: skip


def try_insert(
    backend: Backend, slots: SlotArrays, batch: RawEdges, limits: np.ndarray, most_leaves: int, may_take_back: bool
) -> Attempt | Reason:
    """Insert a batch speculatively: the device decides whether what it plans may be written.

    The batch's ids need not be validated.

    Parameters
    ----------
    limits : array
        As in :func:`plan_buckets`.
    most_leaves : int
        If more leaves are changed, nothing is written.
    may_take_back : bool
        Whether a large batch may be written in part and rolled back if it does not fit. Edges then stay where they have
        moved to, and so do the row offsets of ``slots``, which have to be the graph's own.

    Returns
    -------
    Attempt or Reason
        What was found, as :func:`plan_buckets` returns it, valid until the next insertion; a merge of everything takes
        the keys that are ``listed``. A reason if the batch has to be planned or sorted; then nothing is written.
    """
    if not _may_plan(slots, batch):
        return Reason.TOO_LARGE
    ordered = order_batch(backend, slots, batch)  # keeps the GPU busy while scratch is made
    plan = _make_plan(backend, slots, batch, limits, KIND)
    most_new = slots.room_at(limits[-1])
    if ordered is None:
        return _insert_fused(backend, slots, batch, limits, plan, most_new, most_leaves)
    # A rollback must be rare: the rows fit even if all of them are new.
    num_tiles, undo, may_take_back = 0, None, may_take_back and plan.num_rows <= most_new
    if may_take_back and fits_tiles(slots, plan.num_rows, True):
        num_tiles = count_tiles(slots)
        undo = partial(take_back, slots, ordered, plan.scratch.states, plan.num_rows)
    start = partial(_start_all, slots, batch, ordered, limits, plan, num_tiles, most_new, most_leaves)
    if num_tiles not in plan.scratch.loaded:  # compile and load all kernels before the first one writes
        prepare(start)
        if undo is not None:
            prepare(undo)
        plan.scratch.loaded.add(num_tiles)
    start()
    totals = plan.scratch.mailbox.read(backend, plan.ticket)
    is_written = fits(totals, most_new, most_leaves)
    if undo is not None and not is_written and totals[STOPPED] != INVALID_ID:
        undo()
    located = _keep_found(batch, plan, totals, most_new)
    if isinstance(located, Reason):
        return located
    if is_written:
        return Attempt(located, True)
    # After a rollback the slots of restored tombstones are not those that were found.
    return Reason.SCRATCH if undo is not None else Attempt(replace(located, listed=plan.scratch.keys), False)


def _start_all(
    slots: SlotArrays,
    batch: RawEdges,
    ordered: Ordered,
    limits: np.ndarray,
    plan: BucketPlan,
    num_tiles: int,
    most_new: int,
    most_leaves: int,
) -> None:
    """Start the kernels that plan and those that write; ``num_tiles``: tiles that are written while planning."""
    _start_plan(slots, batch, ordered, limits, plan, num_tiles)
    write_buckets(slots, plan, most_new, most_leaves, num_tiles)


def _insert_fused(
    backend: Backend,
    slots: SlotArrays,
    batch: RawEdges,
    limits: np.ndarray,
    plan: BucketPlan,
    most_new: int,
    most_leaves: int,
) -> Attempt | Reason:
    """Do as :func:`try_insert` by one kernel; other kernels write windows that are too wide for a warp."""
    src, dst = batch.columns
    k_insert_lists.launch_resident(
        THREADS_A_ROW * plan.num_rows,
        pack_slots(slots).inserted, src, dst, batch.mirrored, float(limits[0]), float(limits[-1]), plan.top,
        plan.scratch.all, plan.ticket, most_new, most_leaves, plan.num_rows,
    )  # fmt: skip
    totals = plan.scratch.mailbox.read(backend, plan.ticket)
    located = _keep_found(batch, plan, totals, most_new)
    if isinstance(located, Reason):
        return located
    if not fits(totals, most_new, most_leaves):
        return Attempt(replace(located, listed=plan.scratch.keys), False)
    if totals[WIDE] + totals[GIANT] > 0:  # planned, but not written
        prepare(write_buckets, slots, plan)()
    else:
        slots.scratch.leave_clear(KIND)
    return Attempt(located, True)
