"""Triangles that appear or disappear with changed edges, on the GPU: one launch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.algorithms.rows.cuda.common import d_count_bits, d_count_steps, d_find_row, d_has_bit, d_open_tile
from dynstore.algorithms.rows.cuda.row_lists import ROUND_THREADS, d_warps
from dynstore.cuda.block import BOARD, d_scan_tile
from dynstore.cuda.compiler import MAX_RESIDENT_BLOCKS, WARP, cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import SUMS, d_chunk, d_leave_sum, d_sum_blocks_before, d_sync_grid, read_totals
from dynstore.cuda.warp import d_ballot, d_lane
from dynstore.stores.table.cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.algorithms.costs import Budget
    from dynstore.graph.delta import Delta
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["ChangedEdge", "ChangedEdges", "PresentRows", "RowItems", "update_triangles"]

# Entries of ``control``: the slots to visit, and the changes to visit.
SLOTS, CHANGES = declare("triangle changes", SLOTS=0, CHANGES=1)
CONTROL_SIZE = SUMS + 2 * MAX_RESIDENT_BLOCKS
# A thread's, so that a processor holds four blocks; without a limit it takes 69, and three fit.
MAX_REGISTERS = 64
# Warps for each change, so that in small batches few warps visit more than 32 slots.
WARPS_EACH = 4


class PresentRows(NamedTuple):
    """The rows of the present version."""

    offsets: Array
    indices: Array
    valid: Array


class ChangedEdges(NamedTuple):
    """The changes, see :class:`~dynstore.graph.delta.Delta`; ``marked`` has a bit for each slot of an inserted edge."""

    src: Array
    dst: Array
    slots: Array
    before: Array
    marked: Array


class ChangedEdge(NamedTuple):
    """A changed edge: its two ends, and what a triangle with it adds to the counts, 1 or -1."""

    u: Any
    v: Any
    sign: Any


class RowItems(NamedTuple):
    """What to visit for each change, by an inclusive ``scan`` of the numbers of items, and where these begin.

    Of the slots: ``first`` is the end with the shorter row. Of the changes: ``first`` and ``second`` are the places
    where the changes of both ends begin.
    """

    scan: Array
    first: Array
    second: Array


@device
def d_open_slots(rows, changes, items, i):
    """Mark an inserted edge's slot (atomic or), choose the shorter row of a change, and return its number of slots.

    An edge that appeared or disappeared is handled only in the direction with the lower end first; else it is 0.
    """
    u, v, slot, before = int(changes.src[i]), int(changes.dst[i]), int(changes.slots[i]), bool(changes.before[i])
    if slot >= 0 and not before:
        cuda.atomic.or_(changes.marked, slot >> 5, np.uint32(1 << (slot & 31)))
    num_slots = 0
    if u < v and before != (slot >= 0):
        num_slots = int(rows.offsets[u + 1]) - int(rows.offsets[u])
        at_v = int(rows.offsets[v + 1]) - int(rows.offsets[v])
        items.first[i] = u
        if at_v < num_slots:
            num_slots = at_v
            items.first[i] = v
    items.scan[i] = num_slots
    return num_slots


@device
def d_open_changes(changes, items, i):
    """Find the changes in the rows of a deleted edge's ends, and return their number; 0 for any other change."""
    u, v = int(changes.src[i]), int(changes.dst[i])
    count = 0
    if u < v and changes.before[i] and changes.slots[i] < 0:
        size = changes.src.shape[0]
        at_u = int(d_find_lower_bound(changes.src, 0, size, u))
        at_v = int(d_find_lower_bound(changes.src, at_u, size, v))
        items.first[i] = at_u
        items.second[i] = at_v
        count = int(d_find_lower_bound(changes.src, at_u, size, u + 1)) - at_u
        count += int(d_find_lower_bound(changes.src, at_v, size, v + 1)) - at_v
    items.scan[i] = count
    return count


@device
def d_scan_share(scan, control, row, board):
    """Add up the block's share of ``scan``, behind those of the blocks before it, whose sums are in ``control``."""
    place = np.int64(d_sum_blocks_before(control, row, board))
    first, end = d_chunk(np.int64(scan.shape[0]))
    for base in range(first, end, cuda.blockDim.x):
        i = base + cuda.threadIdx.x
        value = np.int64(0)
        if i < end:
            value = np.int64(scan[i])
        below, total = d_scan_tile(value, board)
        if i < end:
            scan[i] = place + below + value
        place += total


@device
def d_add_hits(scan, row, base, last, hit, edge, counts):
    """Count a step's hits for the ends of each lane's ``edge``: one atomic add per end and edge of the warp.

    All 32 lanes call. A step has the items from ``base`` on, below ``last``; the lanes of one edge are neighbours, and
    the first of them adds for all.
    """
    hits = int(d_ballot(hit))
    if base + d_lane() < last:
        begin = 0
        if row > 0:
            begin = int(scan[row - 1])
        lane = d_lane()
        if lane == max(begin - base, 0):
            mine = (1 << min(int(scan[row]) - base, 32)) - (1 << lane)
            num_hits = d_count_bits(hits & mine)
            if num_hits > 0:
                cuda.atomic.add(counts, edge.u, edge.sign * num_hits)
                cuda.atomic.add(counts, edge.v, edge.sign * num_hits)


@device
def d_visit_slot(rows, changes, edge, short, p):
    """Look for the neighbour in slot ``p``, of the row of ``short``, in the other row; return it, and whether it hits.

    An inserted edge counts a triangle unless a smaller edge of it was also inserted. A deleted edge subtracts a
    triangle whose two other edges were there before.
    """
    u, v = edge.u, edge.v
    w = int(rows.indices[p])
    hit = False
    if w != u and w != v and d_has_bit(rows.valid, p):
        long = u + v - short
        end = int(rows.offsets[long + 1])
        q = int(d_find_lower_bound(rows.indices, int(rows.offsets[long]), end, w))
        if q < end and rows.indices[q] == w and d_has_bit(rows.valid, q):
            of_u = p
            of_v = q
            if short != u:
                of_u = q
                of_v = p
            inserted = edge.sign > 0
            hit = True
            if (not inserted or w < v) and d_has_bit(changes.marked, of_u):
                hit = False
            elif (not inserted or w < u) and d_has_bit(changes.marked, of_v):
                hit = False
    return w, hit


@device
def d_visit_slots(rows, changes, items, counts):
    """Visit the slots of all shorter rows: a warp a tile, a lane a slot.

    Atomic adds: one a hit for the third corner, and :func:`d_add_hits`.
    """
    warp, warps = d_warps()
    scan = items.scan
    steps = d_count_steps(int(scan[scan.shape[0] - 1]), warps)
    for tile in range(warp, int(scan[scan.shape[0] - 1]) // (WARP * steps) + 1, warps):
        first, end_of_tile, low, high = d_open_tile(scan, steps, tile * WARP)
        for base in range(first, end_of_tile, WARP):
            item = base + d_lane()
            hit = False
            row = 0
            u = 0
            v = 0
            sign = 1
            if item < end_of_tile:
                row = d_find_row(scan, low, high, item)
                u = int(changes.src[row])
                v = int(changes.dst[row])
                if changes.before[row]:
                    sign = -1
                short = int(items.first[row])
                p = int(rows.offsets[short + 1]) - (int(scan[row]) - item)
                w, hit = d_visit_slot(rows, changes, ChangedEdge(u, v, sign), short, p)
                if hit:
                    cuda.atomic.add(counts, w, sign)
            d_add_hits(scan, row, base, end_of_tile, hit, ChangedEdge(u, v, sign), counts)


@device
def d_count_row(src, begin, vertex):
    """Return how often ``vertex`` occurs in the sorted ``src``, from ``begin`` on."""
    return int(d_find_lower_bound(src, begin, src.shape[0], vertex + 1)) - begin


@device
def d_visit_change(rows, changes, items, row, edge, j):
    """Look at change ``j`` in the row of an end of deleted edge ``row``; return its other end, and whether it hits.

    It hits if it was deleted, too, and the third edge is there, or was deleted.
    """
    u, v = edge.u, edge.v
    begin = int(items.scan[row - 1]) if row > 0 else 0
    place = int(items.first[row]) + j - begin
    at_u = place < changes.src.shape[0] and changes.src[place] == u
    far = v
    least = v  # if w is below it, the other edge is smaller
    if not at_u:
        place = int(items.second[row]) + j - begin - d_count_row(changes.src, int(items.first[row]), u)
        far = u
        least = u
    w = int(changes.dst[place])
    hit = False
    if w > least and w != u and w != v and changes.before[place] and changes.slots[place] < 0:
        end = int(rows.offsets[far + 1])
        q = int(d_find_lower_bound(rows.indices, int(rows.offsets[far]), end, w))
        hit = q < end and rows.indices[q] == w and d_has_bit(rows.valid, q) and not d_has_bit(changes.marked, q)
        if not hit and at_u:  # with three deleted edges, the row of u counts
            begin = int(items.second[row])
            end = begin + d_count_row(changes.src, begin, v)
            k = int(d_find_lower_bound(changes.dst, begin, end, w))
            hit = k < end and changes.dst[k] == w and changes.before[k] and changes.slots[k] < 0
    return w, hit


@device
def d_visit_changes(rows, changes, items, counts):
    """Visit the changes in the rows of deleted edges' ends: a warp a tile, a lane a change.

    Subtracts triangles with two or three deleted edges. Atomic adds: as :func:`d_visit_slots`.
    """
    warp, warps = d_warps()
    scan = items.scan
    steps = d_count_steps(int(scan[scan.shape[0] - 1]), warps)
    for tile in range(warp, int(scan[scan.shape[0] - 1]) // (WARP * steps) + 1, warps):
        first, end_of_tile, low, high = d_open_tile(scan, steps, tile * WARP)
        for base in range(first, end_of_tile, WARP):
            item = base + d_lane()
            hit = False
            row = 0
            u = 0
            v = 0
            if item < end_of_tile:
                row = d_find_row(scan, low, high, item)
                u = int(changes.src[row])
                v = int(changes.dst[row])
                w, hit = d_visit_change(rows, changes, items, row, ChangedEdge(u, v, -1), item)
                if hit:
                    cuda.atomic.add(counts, w, -1)
            d_add_hits(scan, row, base, end_of_tile, hit, ChangedEdge(u, v, -1), counts)


@partial(kernel, max_registers=MAX_REGISTERS)
def k_update_counts(
    offsets, indices, valid, src, dst, slots, before, marked, scan, shorter, of_changes, of_u, of_v, counts, control
):  # fmt: skip
    """Count for each change the triangles that it makes or breaks. Blocks own neighbouring changes (two grid waits).

    They open their changes, then add up the numbers of items, then all warps visit the items. ``of_changes``, ``of_u``
    and ``of_v`` are empty if no edge was deleted.
    """
    board = cuda.shared.array(BOARD, np.int64)
    rows, changes = PresentRows(offsets, indices, valid), ChangedEdges(src, dst, slots, before, marked)
    in_rows, in_changes = RowItems(scan, shorter, shorter), RowItems(of_changes, of_u, of_v)
    deletes = of_changes.shape[0] > 0
    first, end = d_chunk(np.int64(src.shape[0]))
    num_slots, num_changes = np.int64(0), np.int64(0)
    for i in range(first + cuda.threadIdx.x, end, cuda.blockDim.x):
        num_slots += d_open_slots(rows, changes, in_rows, i)
        if deletes:
            num_changes += d_open_changes(changes, in_changes, i)
    d_leave_sum(control, SLOTS, num_slots, board)
    d_leave_sum(control, CHANGES, num_changes, board)
    d_sync_grid(control, 1)
    d_scan_share(scan, control, SLOTS, board)
    if deletes:
        d_scan_share(of_changes, control, CHANGES, board)
    d_sync_grid(control, 2)
    d_visit_slots(rows, changes, in_rows, counts)
    if deletes:
        d_visit_changes(rows, changes, in_changes, counts)


def update_triangles(csr: GapCSR, delta: Delta, counts: Array, budget: Budget) -> int:
    """Update the triangle counts of all vertices.

    For each changed edge the neighbours in the shorter row of its ends are searched in the longer one, as in Makkar,
    Bader and Green, "Exact and Parallel Triangle Counting in Dynamic Graphs", HiPC 2017; warps share the slots of all
    these rows evenly. One launch and one read-back. The host's ``update_triangles`` explains how a triangle with
    several changed edges is counted once.

    Parameters and result are those of the host's ``update_triangles``.
    """
    backend, size = csr.backend, len(delta)
    if size == 0:
        return 0
    numbers, of_deleted = (size, np.int64), (size if delta.may_delete else 0, np.int64)
    control, marked, *items = backend.empty_arena(
        (CONTROL_SIZE, np.int64), ((csr.num_slots >> 5) + 1, np.uint32), numbers, numbers, *(of_deleted,) * 3, zeroed=2
    )
    changes = (delta.src, delta.dst, delta.slots, delta.before, marked)
    num_threads = max(ROUND_THREADS, WARPS_EACH * WARP * size)
    k_update_counts.launch_resident(num_threads, csr.offsets, csr.indices, csr.valid, *changes, *items, counts, control)
    visits = sum(read_totals(backend, control)[: CHANGES + 1])
    budget.note(visits)
    return visits
