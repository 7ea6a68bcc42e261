"""Inserting an unsorted batch by one kernel: the cost of a small batch is that of starting kernels.

Batches that are partitioned have a kernel for each phase: this kernel takes more registers than most of those, so fewer
of its threads are on the GPU at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.cuda.block import BOARD
from dynstore.cuda.compiler import THREADS, cuda, device, kernel
from dynstore.cuda.grid import d_reset_when_last, d_sync_grid
from dynstore.cuda.mailbox import d_post_totals
from dynstore.stores.gpma_plus.cuda.bucket_fill import d_choose_leaf, d_list_batch
from dynstore.stores.gpma_plus.cuda.bucket_layout import (
    COUNT,
    COVERED,
    FAR,
    GIANT,
    HEAD,
    HEAP_ROWS,
    NARROW,
    NARROW_WINDOWS,
    POSITIONS,
    POST_ARRIVALS,
    RESTORED,
    STOPPED,
    WIDE,
    BucketLeaves,
    LinkedBuckets,
    SortedBuckets,
    WindowHeap,
    d_fits,
    d_leaves_of,
)
from dynstore.stores.gpma_plus.cuda.bucket_windows import d_plan_windows
from dynstore.stores.gpma_plus.cuda.bucket_write import (
    ALL_NARROW_SLOTS,
    d_merge_narrow,
    d_restore_keys,
    d_write_all_leaves,
    d_write_starts,
)
from dynstore.stores.pma.cuda.records import BatchRows, DensityLimits, SearchedSlots, Slots

if TYPE_CHECKING:
    from dynstore.typing import Array

__all__ = ["THREADS_A_ROW", "GraphSlots", "InsertionScratch", "k_insert_lists"]

# Threads a row, as far as the GPU has room: a row is searched by one, its leaf is written by a warp.
THREADS_A_ROW = 8


@device
def d_clear_scratch(marks, nodes, lists, table, control, far_rows, num_rows):
    """Zero what was zero before the kernel. All threads have read it, except for the counts.

    Sums of blocks and long ranges of rows stay: only counted ones are read.
    """
    for i in range(cuda.grid(1), num_rows, cuda.gridsize(1)):
        position = np.uint32(table[POSITIONS, i])
        leaf = d_choose_leaf(position)
        lists[leaf, COUNT], lists[leaf, HEAD] = 0, 0
        marks[min(np.uint32(position >> np.uint32(5)), np.uint32(lists.shape[0] - 1))] = 0
    for i in range(cuda.grid(1), control[NARROW], cuda.gridsize(1)):
        nodes[COVERED, d_leaves_of(table[NARROW_WINDOWS, i], lists.shape[0]).first >> 5] = 0
    if control[FAR] > 0:
        for i in range(cuda.grid(1), nodes.shape[1], cuda.gridsize(1)):
            for row in range(HEAP_ROWS):
                nodes[row, i] = 0
    d_reset_when_last(control, POST_ARRIVALS)
    d_reset_when_last(far_rows, POST_ARRIVALS)


class GraphSlots(NamedTuple):
    """The slots of an unweighted graph, and how many vertices and leaves there are."""

    src: Array
    dst: Array
    valid: Array
    offsets: Array
    num_vertices: Any
    num_leaves: Any


class InsertionScratch(NamedTuple):
    """The scratch of an insertion (``bucket_layout.py``), in the order of ``BucketScratch.all``."""

    marks: Array
    nodes: Array
    lists: Array
    groups: Array
    following: Array
    table: Array
    states: Array
    pairs: Array


@partial(
    kernel, records={"graph": GraphSlots, "batch": BatchRows, "limits": DensityLimits, "scratch": InsertionScratch}
)
def k_insert_lists(
    graph, batch, limits, scratch, control, far_rows, mailbox, ticket, most_new, most_leaves, num_rows
):  # fmt: skip
    """Put the rows into buckets, plan and write: in turn what ``k_list_rows``, ``k_plan_lists``, ``write_buckets`` do.

    A grid wait lies between any two phases. The totals are posted before anything is written. Nothing is written if the
    update has more new edges or leaves than the limits, or a window too wide for a warp; then the host sees the totals
    and starts the kernels that write. If all is written, scratch is left as it was found.
    """
    board = cuda.shared.array(BOARD, np.int64)
    changed = cuda.shared.array(THREADS, np.uint32)
    values = cuda.shared.array(ALL_NARROW_SLOTS, np.int32)
    src, valid, offsets = graph.src, graph.valid, graph.offsets
    marks, nodes, lists, table, states = scratch.marks, scratch.nodes, scratch.lists, scratch.table, scratch.states
    searched = SearchedSlots(offsets, graph.dst, valid, graph.num_vertices)
    slots = Slots(src, graph.dst, graph.dst, False, valid, offsets, far_rows)
    leaves, buckets = BucketLeaves(valid, marks, lists), LinkedBuckets(scratch.following, table, scratch.pairs, control)
    d_list_batch(searched, batch, leaves, buckets, states, board)
    d_sync_grid(control, 1)
    if control[STOPPED] == 0:  # this and all conditions below are the same in all threads
        d_plan_windows(leaves, graph.num_leaves, batch, limits, WindowHeap(nodes, scratch.groups), buckets, 1, board)
    if cuda.grid(1) == cuda.gridsize(1) - 1:  # the last warp has the fewest leaves to write
        d_post_totals(control, mailbox, ticket)
    if d_fits(control, most_new, most_leaves) and control[WIDE] + control[GIANT] == 0:
        planned = SortedBuckets(table, scratch.pairs, control)
        d_write_all_leaves(slots, marks, nodes, planned, changed)
        d_merge_narrow(slots, leaves, planned, values)
        if control[RESTORED] > 0:
            d_restore_keys(valid, table[POSITIONS], states, num_rows, lists, nodes)
        d_write_starts(src, offsets, table, control, far_rows)
        d_clear_scratch(marks, nodes, lists, table, control, far_rows, num_rows)
