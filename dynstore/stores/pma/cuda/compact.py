"""Choosing the windows that a deletion has to compact on CUDA, from bits alone, in any order of its edges."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.block import BOARD, d_scan_tile
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import (
    ANY_NUMBER,
    CONTROL_SIZE,
    d_leave_greatest,
    d_leave_sum,
    d_sum_blocks_before,
    d_sync_grid,
)
from dynstore.cuda.launch import Packed
from dynstore.cuda.mailbox import Mailbox, d_post_totals
from dynstore.cuda.warp import d_lane, d_shuffle
from dynstore.stores.pma.cuda.rebalance import Writing
from dynstore.stores.pma.cuda.records import DensityLimits, Items, WindowArrays
from dynstore.stores.pma.cuda.row_offsets import FAR_START, far_rows_size
from dynstore.stores.pma.cuda.windows import (
    COUNTS,
    GRANT_SIZE,
    HIGHEST,
    NUM_LEAVES,
    NUM_SCRATCH_LEAVES,
    NUM_WINDOW_ARRAYS,
    Windows,
    d_chunk_blocks,
    d_climb_leaves,
    d_collect_windows,
    d_cover_leaves,
    d_grant,
    d_scan_counts,
)
from dynstore.stores.table.cuda.arguments import number_dtype

if TYPE_CHECKING:
    from dynstore.backend import Backend, Part
    from dynstore.stores.table.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["Compaction", "PackingBudget", "start_compaction"]

# Entry of ``control`` beside those of windows: leaves that are left too empty.
(SPARSE,) = declare("compaction", SPARSE=0)
# Leaves that a thread reads together.
SHARE = 8
# Registers of a thread: four blocks are then on a multiprocessor.
MAX_REGISTERS = 64


class Compaction:
    """The scratch for the windows of a deletion, as in ``gpma_plus/cuda/plan_sorted.SortedInsertion``.

    ``left``: the validity bits without those of the deleted edges.
    """

    def __init__(
        self,
        backend: Backend,
        control: Array,
        nodes: Array,
        granted: Array,
        far_rows: Array,
        left: Array,
        before: Array,
        leaves: Array,
        heights: Array,
        windows: Array,
    ) -> None:
        self.mailbox, self.ticket, none = Mailbox(backend), 0, leaves[:0]
        first, end, low, high, start, count = windows
        self.writing = Writing(
            Windows(first, end, low, high, start, count, windows.shape[1], ANY_NUMBER, 0),
            granted, before, none, none, Packed(), far_rows,
        )  # fmt: skip
        self.packed = Packed(
            left, before, leaves, heights, first, end, low, high, start, count, nodes, granted, control,
            self.mailbox.words,
        )  # fmt: skip


@device
def d_leave_bits(valid, marks, num_leaves, bound, left, counts, control, board):
    """Write the bits that are left, count them by blocks of 32 leaves, and leave the sums, as ``d_count_blocks`` does.

    Four neighbouring threads own a block of leaves. Marked leaves with fewer bits than ``bound`` are sparse.
    """
    words, marked = cuda.local.array(SHARE, np.uint32), cuda.local.array(SHARE, np.uint32)  # these are registers
    base, end = d_chunk_blocks(np.int64(counts.shape[0]))
    part, edges, sparse = np.int64(cuda.threadIdx.x & 3), np.int64(0), np.int64(0)
    while base < end:
        block, count = base + (cuda.threadIdx.x >> 2), np.int32(0)
        first = (block << 5) + part * SHARE
        for k in range(SHARE):  # before any is written, so that these reads overlap
            leaf = min(first + k, num_leaves - 1)
            words[k], marked[k] = valid[leaf], marks[leaf]
        for k in range(SHARE):
            if block < end and first + k < num_leaves:
                word = np.uint32(words[k] & ~marked[k])
                left[first + k] = word
                count += np.int32(cuda.popc(word))
                sparse += marked[k] != 0 and cuda.popc(word) < bound
        for step in (1, 2):
            count += d_shuffle(count, d_lane() ^ step)
        if part == 0 and block < end:
            counts[block] = count
            edges += np.int64(count)
        base += cuda.blockDim.x >> 2
    d_leave_sum(control, COUNTS, edges, board)
    d_leave_sum(control, SPARSE, sparse, board)


@device
def d_list_sparse(left, marks, num_leaves, bound, num_blocks, leaves, control, board):
    """List the sparse leaves in order; blocks and threads own the same leaves as in ``d_leave_bits``."""
    base, end = d_chunk_blocks(num_blocks)
    part, rank = np.int64(cuda.threadIdx.x & 3), d_sum_blocks_before(control, SPARSE, board)
    while base < end:
        block, found = base + (cuda.threadIdx.x >> 2), np.int32(0)
        first = (block << 5) + part * SHARE
        for k in range(SHARE):
            if block < end and first + k < num_leaves:
                if marks[first + k] != 0 and cuda.popc(left[first + k]) < bound:
                    found |= np.int32(1 << k)
        before, total = d_scan_tile(cuda.popc(np.uint32(found)), board)
        place = rank + before
        while found != 0:
            leaves[place] = first + cuda.ffs(found) - 1
            place += 1
            found &= found - np.int32(1)
        rank += total
        base += cuda.blockDim.x >> 2


class PackingBudget(NamedTuple):
    """With more leaves in windows, or leaves with scratch, than these, the budget is zero."""

    leaves: Any
    scratch_leaves: Any


@partial(
    kernel, max_registers=MAX_REGISTERS, records={"limits": DensityLimits, "most": PackingBudget, "out": WindowArrays}
)
def k_plan_packing(
    valid, marks, bound, limits, num_rows, most, ticket, left, before, leaves, heights, out, nodes, granted, control,
    mailbox,
):  # fmt: skip
    """List the leaves that are too empty without the marked slots, and choose windows; grid waits between the phases.

    Atomics: see the phases.
    """
    board = cuda.shared.array(BOARD, np.int64)
    num_leaves, counts, zero = np.int64(left.shape[0]), before[1:], np.int64(0)
    d_leave_bits(valid, marks, num_leaves, bound, left, counts, control, board)
    d_sync_grid(control, 1)
    d_list_sparse(left, marks, num_leaves, bound, np.int64(counts.shape[0]), leaves, control, board)
    d_scan_counts(counts, control, board)
    if cuda.grid(1) == 0:
        before[0] = 0
    num_items = control[SPARSE]
    items = Items(leaves, num_items, leaves, zero, 0)
    d_sync_grid(control, 2)
    highest = d_climb_leaves(left, before, items, limits, num_leaves, nodes)
    d_leave_greatest(control, HIGHEST, highest)
    d_sync_grid(control, 3)
    d_cover_leaves(items, num_leaves, limits.top, control[HIGHEST], nodes, heights, control, board)
    d_sync_grid(control, 4)
    d_collect_windows(left, before, items, num_leaves, heights, control, board, out)
    fits = control[NUM_LEAVES] <= most.leaves and control[NUM_SCRATCH_LEAVES] <= most.scratch_leaves
    d_grant(granted, control, fits, zero, num_rows)
    if cuda.grid(1) == 0:
        d_post_totals(control, mailbox, ticket)


@lru_cache
def _plan_parts(num_leaves: int, num_vertices: int, top: int, size: int) -> tuple[Part, ...]:
    """Return the scratch of choosing up to ``size`` windows; the first four parts are zeroed."""
    dtype = number_dtype(num_leaves << 5)
    return (
        (CONTROL_SIZE, np.int64), ((2 << top) // 32 + 1, np.uint32), (GRANT_SIZE, np.int64),
        (far_rows_size(num_vertices), np.int64, FAR_START),
        (num_leaves, np.uint32), (((num_leaves + 31) >> 5) + 1, np.int64),
        (size, dtype), (size, np.int8), ((NUM_WINDOW_ARRAYS, size), dtype),
    )  # fmt: skip


def start_compaction(
    backend: Backend,
    slots: SlotArrays,
    marks: Array,
    num_rows: int,
    limits: np.ndarray,
    kind: str | None,
    size: int,
    most_leaves: int = ANY_NUMBER,
    scratch_leaves: int = ANY_NUMBER,
) -> Compaction:
    """Start the kernel that chooses the windows to compact, with scratch of a kind for up to ``size`` windows.

    Parameters
    ----------
    marks : array of uint32 words
        The slots that lose their edge.
    num_rows : int
        Rows of the batch that was located.
    limits : array
        The density below which no window of each height may be, linear in it.
    most_leaves, scratch_leaves : int
        As in :func:`dynstore.stores.gpma_plus.cuda.plan_sorted.start_plan`.
    """
    num_leaves, top = slots.num_slots >> 5, len(limits) - 1
    plan = slots.acquire_scratch(backend, kind, Compaction, _plan_parts(num_leaves, slots.num_vertices, top, size), 4)
    plan.ticket = plan.mailbox.next_ticket()
    k_plan_packing.launch_resident(
        max(num_leaves >> 3, 1),
        slots.valid, marks, int(np.ceil(limits[0] * 32)), float(limits[0]), float(limits[-1]), top, num_rows,
        most_leaves, scratch_leaves, plan.ticket, plan.packed,
    )  # fmt: skip
    return plan
