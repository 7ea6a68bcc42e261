"""Planning a sorted insertion into a packed memory array on CUDA, by one kernel."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.batches.cuda.unique import RUN_LOOPS, RUNS, d_count_runs, d_keep_runs
from dynstore.batches.cuda.weighted import start_keeping
from dynstore.batches.sorted import EdgeBatch
from dynstore.batches.unsorted import RawEdges, UnsortedBatch, WeightedRows
from dynstore.cuda.block import BOARD
from dynstore.cuda.compiler import cuda, kernel
from dynstore.cuda.grid import ANY_NUMBER, CONTROL_SIZE, d_leave_greatest, d_sync_grid
from dynstore.cuda.launch import Packed
from dynstore.cuda.mailbox import Mailbox, d_post_totals
from dynstore.stores.pma.cuda.locate import FOUND_LOOPS, INVALID_ID, d_list_keys, d_locate_keys
from dynstore.stores.pma.cuda.rebalance import Writing
from dynstore.stores.pma.cuda.records import (
    DensityLimits,
    EdgeEnds,
    Items,
    KeyLists,
    Located,
    SearchedSlots,
    WindowArrays,
)
from dynstore.stores.pma.cuda.row_offsets import FAR_START, far_rows_size
from dynstore.stores.pma.cuda.windows import (
    GRANT_SIZE,
    HIGHEST,
    NUM_LEAVES,
    NUM_SCRATCH_LEAVES,
    NUM_WINDOW_ARRAYS,
    Windows,
    d_climb_leaves,
    d_collect_windows,
    d_count_blocks,
    d_cover_leaves,
    d_grant,
    d_scan_counts,
)
from dynstore.stores.table.cuda.arguments import number_dtype, pack_slots, with_room
from dynstore.stores.table.slots import ABSENT, PRESENT, TOMBSTONE, SearchResult

if TYPE_CHECKING:
    from dynstore.backend import Backend, Part
    from dynstore.batches.sorted import Batch
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["SortedInsertion", "UpdateBudget", "keep_located", "start_plan"]

# Arrays of the batch's length that the kernel uses beside those of the windows: keys, places, leaves, and leaves of
# tombstones.
NUM_LISTS = 4


class SortedInsertion:
    """The scratch of a sorted insertion, and which of it the planning kernel gets.

    ``edge_columns``: the distinct edges of an unsorted batch, with weights if it has any. ``ends``: where the runs of
    weighted rows end, until the plan starts. ``ticket``: of the totals that are posted next.
    """

    def __init__(
        self,
        backend: Backend,
        control: Array,
        marks: Array,
        granted: Array,
        far_rows: Array,
        lists: Array,
        windows: Array,
        positions: Array,
        before: Array,
        states: Array,
        heights: Array,
        edge_src: Array,
        edge_dst: Array,
        edge_weights: Array,
    ) -> None:
        self.mailbox, self.ticket = Mailbox(backend), 0
        self.positions, self.states, self.control = positions, states, control
        self.edge_columns = edge_src, edge_dst, edge_weights
        keys, places, leaves, tombstone_leaves = lists
        self.ends = leaves  # the leaves are listed only once the edges are known
        first, end, low, high, start, count = windows
        self.writing = Writing(
            Windows(first, end, low, high, start, count, windows.shape[1], ANY_NUMBER, 0),
            granted, before, keys, places, Packed(), far_rows,
        )  # fmt: skip
        self.packed = Packed(
            keys, places, leaves, tombstone_leaves, first, end, low, high, start, count, positions, states, heights,
            before, marks, granted, control, self.mailbox.words,
        )  # fmt: skip
        self.edges = Packed(edge_src, edge_dst)


class UpdateBudget(NamedTuple):
    """With more new edges, leaves, or leaves in windows with scratch than these, the budget is zero."""

    new: Any
    leaves: Any
    scratch_leaves: Any


@partial(
    kernel,
    records={
        "searched": SearchedSlots, "edges": EdgeEnds, "limits": DensityLimits, "most": UpdateBudget, "lists": KeyLists,
        "out": WindowArrays, "located": Located,
    },
)  # fmt: skip
def k_plan_update(
    searched, sorted_keys, is_counted, edges, limits, most, ticket, lists, out, located, heights, before, marks,
    granted, control, mailbox,
):  # fmt: skip
    """Locate the keys, list those that change a leaf, choose the windows; a grid wait after each phase.

    If there are ``sorted_keys``, they first become ``edges``, each key once. ``is_counted``: another kernel has written
    these and left their number in ``control``. The budget is zero if an id is invalid, or if the update needs more than
    ``most``. Atomics: see the phases.
    """
    board = cuda.shared.array(BOARD, np.int64)
    count, num_leaves = np.int64(edges.src.shape[0]), np.int64(searched.dst.shape[0] >> 5)
    counts, valid, waits = before[1:], searched.valid, 0
    if sorted_keys.shape[0] > 0:
        d_count_runs(sorted_keys, control, board)
        d_sync_grid(control, 1)
        d_keep_runs(sorted_keys, sorted_keys[:0], edges.src, edges.dst, control, board)
        count = control[RUNS]
        d_sync_grid(control, 2)
        waits = 2
    elif is_counted:
        count = control[RUNS]
    d_locate_keys(searched, edges.src, edges.dst, count, located.positions, located.states, control, board)
    d_count_blocks(valid, num_leaves, counts, control, board)
    d_sync_grid(control, waits + 1)
    d_list_keys(located.positions, located.states, count, True, counts, lists, control, board)
    num_items, num_tombstones = control[ABSENT], control[TOMBSTONE]
    items = Items(lists.leaves, num_items, lists.tombstone_leaves, num_tombstones, 1)
    d_sync_grid(control, waits + 2)
    d_scan_counts(counts, control, board)
    if cuda.grid(1) == 0:
        before[0] = 0
    d_sync_grid(control, waits + 3)
    highest = d_climb_leaves(valid, before, items, limits, num_leaves, marks)
    d_leave_greatest(control, HIGHEST, highest)
    d_sync_grid(control, waits + 4)
    d_cover_leaves(items, num_leaves, limits.top, control[HIGHEST], marks, heights, control, board)
    d_sync_grid(control, waits + 5)
    d_collect_windows(valid, before, items, num_leaves, heights, control, board, out)
    fits = control[INVALID_ID] == 0 and num_items + num_tombstones <= most.new and control[NUM_LEAVES] <= most.leaves
    d_grant(granted, control, fits and control[NUM_SCRATCH_LEAVES] <= most.scratch_leaves, num_items, count)
    if cuda.grid(1) == 0:
        d_post_totals(control, mailbox, ticket)


@lru_cache
def _plan_parts(num_leaves: int, num_vertices: int, top: int, size: int) -> tuple[Part, ...]:
    """Return the scratch of a plan for ``size`` rows, without columns of edges; the first four parts are zeroed."""
    dtype = number_dtype(max(num_leaves << 5, size))
    return (
        (CONTROL_SIZE, np.int64), ((2 << top) // 32 + 1, np.uint32), (GRANT_SIZE, np.int64),
        (far_rows_size(num_vertices), np.int64, FAR_START),
        ((NUM_LISTS, size), dtype), ((NUM_WINDOW_ARRAYS, size), dtype),
        (size, np.int64), (((num_leaves + 31) >> 5) + 1, np.int64), (size, np.uint8), (size, np.int8),
    )  # fmt: skip


def start_plan(
    backend: Backend,
    slots: SlotArrays,
    batch: Batch,
    limits: np.ndarray,
    kind: str | None,
    most: tuple[int, int] = (ANY_NUMBER, ANY_NUMBER),
    scratch_leaves: int = ANY_NUMBER,
) -> SortedInsertion:
    """Start the kernel that plans.

    Parameters
    ----------
    limits : array
        The density that no window of each height may pass, linear in it.
    kind : str or None
        The kind of scratch; scratch that is kept has room for some more rows.
    most : pair of int
        With more new edges or leaves than these, the budget is zero.
    scratch_leaves : int
        With more leaves in windows that need scratch, the budget is zero, too.
    """
    batch = batch.known()
    is_unsorted, rows = isinstance(batch, UnsortedBatch), batch if isinstance(batch, WeightedRows) else None
    sorted_keys = batch.sort_keys() if isinstance(batch, RawEdges) else backend.nothing(np.int64)
    sorted_rows = None if rows is None else rows.sort_below(slots.num_vertices)  # before scratch is made
    num_rows = batch.num_rows
    num_leaves, top = slots.num_slots >> 5, len(limits) - 1
    size, dtype = num_rows if kind is None else with_room(num_rows), slots.src.dtype
    kept, resolved = size if is_unsorted else 0, 0 if rows is None else size
    weight_dtype = dtype if rows is None else rows.row_weights.dtype
    edge_parts = (kept, dtype), (kept, dtype), (resolved, weight_dtype)
    parts = *_plan_parts(num_leaves, slots.num_vertices, top, size), *edge_parts
    plan = slots.acquire_scratch(backend, kind, SortedInsertion, parts, 4)
    plan.ticket = plan.mailbox.next_ticket()
    edges = Packed(batch.src, batch.dst) if isinstance(batch, EdgeBatch) else plan.edges
    if rows is not None and sorted_rows is not None:
        start_keeping(rows, *sorted_rows, plan.ends, *plan.edge_columns, plan.control)
    k_plan_update.launch_resident(
        max(num_rows, num_leaves >> 3, 1),
        pack_slots(slots).located, sorted_keys, rows is not None, edges, float(limits[0]), float(limits[-1]), top,
        *most, scratch_leaves, plan.ticket, plan.packed,
    )  # fmt: skip
    return plan


def keep_located(plan: SortedInsertion, batch: Batch, totals: list[int]) -> SearchResult:
    """Return what a plan has found for each edge of a batch. A batch that was sorted here keeps its edges."""
    batch = batch.known()
    if isinstance(batch, UnsortedBatch):
        src, dst, weights = (column[: totals[RUNS]] for column in plan.edge_columns)
        batch = batch.keep_edges(src, dst, totals[RUN_LOOPS], weights if isinstance(batch, WeightedRows) else None)
    num_keys = batch.num_rows
    return SearchResult(plan.positions[:num_keys], plan.states[:num_keys], totals[PRESENT], totals[FOUND_LOOPS])
