"""Planning an insertion into a packed memory array on CUDA without sorting it: all that most insertions need.

Keys find their leaf in any order; those of a leaf are a list through memory, which a warp sorts in registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import WARP, cuda, device, kernel
from dynstore._cuda.grid import CONTROL_SIZE, d_leave_sum, d_sync_grid, read_totals
from dynstore._cuda.leaf_merge import MAX_HEIGHT
from dynstore._cuda.leaves import far_rows_size
from dynstore._cuda.planning import Lists, Planned
from dynstore._cuda.present import d_read_row
from dynstore._cuda.search import d_find_edge
from dynstore._cuda.tiles import BOARD, d_claim, d_claim_many
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore._cuda.windows import Windows, d_limit
from dynstore.edge_batch import EdgeBatch
from dynstore.slots import ABSENT, PRESENT, Located

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.edge_batch import RawEdges
    from dynstore.slots import SlotArrays

__all__ = ["plan_unsorted"]

# Rows of the sums. Of distinct keys: those present, self-loops among them, dead ones, absent ones, self-loops among the
# dead and absent. Then leaves with absent keys; rows of absent keys; whether a leaf has more than 32; leaves that
# cannot take their keys; those whose window would be too wide; windows of several leaves; leaves of all windows.
FOUND, FOUND_LOOPS, REVIVED, ADDED, OTHER_LOOPS, LISTED, ROWS, LONG, FULL, TOO_WIDE, WIDE, LEAVES = range(12)
NO_KEY = np.int64(np.iinfo(np.int64).max)


@device
def d_list_rows(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, marks, counts, heads, following, listed,
    positions, states, control,
):  # fmt: skip
    """Warps stride over the rows: keys that are there or dead are told once, the others put into their leaf's list.

    A slot's bit in ``marks`` says that a row has told it (atomic or). A list is its length in ``counts`` (atomic add),
    the last row + 1 in ``heads`` (atomic exchange), the row + 1 before each in ``following``; 0 ends it. Once a list
    would have more than 32 rows, nobody goes on. Returns the keys present and dead, and self-loops among both.
    """
    lane, num_rows = d_lane(), np.int64(following.shape[0])
    found, found_loops, revived, revived_loops = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for base in range(cuda.grid(1) - lane, num_rows, cuda.gridsize(1)):
        if d_shuffle(control[LONG], 0) > 0:
            break
        i = base + lane
        leaf, begins = np.int64(0), False
        if i < num_rows:
            row, column = d_read_row(edge_src, edge_dst, mirrored, i)
            position, state = d_find_edge(offsets, dst, valid, num_vertices, row, column)
            told = np.uint8(ABSENT)
            if state == ABSENT:
                leaf = max(position - 1, np.int64(0)) >> 5
                ticket = cuda.atomic.add(counts, leaf, 1)
                begins = ticket == 0
                if ticket < WARP:
                    following[i] = cuda.atomic.exch(heads, leaf, np.int32(i + 1))
                else:
                    control[LONG] = 1
            else:
                bit = np.uint32(1) << np.uint32(position & 31)
                if cuda.atomic.or_(marks, position >> 5, bit) & bit == 0:
                    told = np.uint8(state)
                    if state == PRESENT:
                        found += 1
                        found_loops += row == column
                    else:
                        revived += 1
                        revived_loops += row == column
            positions[i] = position
            states[i] = told
        place = d_claim(control, LISTED, begins)
        if begins:
            listed[place] = leaf
    return found, found_loops, revived, revived_loops


@device
def d_sort_list(edge_src, edge_dst, mirrored, heads, following, leaf, rows):
    """Let a lane have each row of a leaf's list, of at most 32, and its key; all lanes of the warp call.

    Returns the row, whether it is its key's first one, the key's rank among the distinct ones, and their number.
    """
    lane, mine, link = d_lane(), np.int64(-1), np.int64(heads[leaf])
    for other in range(rows):
        if lane == other:
            mine = link - 1
        link = np.int64(following[link - 1])
    key, repeated, rank = NO_KEY, False, np.int64(0)
    if mine >= 0:
        row, column = d_read_row(edge_src, edge_dst, mirrored, mine)
        key = (row << 32) | column
    for other in range(rows):
        if d_shuffle(key, other) == key and other < lane:
            repeated = True
    kept = mine >= 0 and not repeated
    distinct = key if kept else NO_KEY
    for other in range(rows):
        if d_shuffle(distinct, other) < key:
            rank += 1
    return mine, kept, rank, np.int64(cuda.popc(d_ballot(kept)))


@device
def d_climb_full_leaves(valid, marks, heads, first, low, high, num_listed, num_leaves, lower, upper, top, nodes):
    """Leaves that cannot take their keys climb as in ``d_climb_leaves``, to a window that a block can merge.

    ``heads`` has 1 + each leaf's place among those listed. Returns how many would climb further.
    """
    too_wide = np.int64(0)
    for i in range(cuda.grid(1), num_listed, cuda.gridsize(1)):
        height, fits = 0, False
        while not fits and height <= MAX_HEIGHT:
            leaf = (first[i] >> height) << height
            end = min(leaf + (np.int64(1) << height), num_leaves)
            count = np.int64(0)
            for other in range(leaf, end):
                count += cuda.popc(valid[other] | marks[other])
                item = np.int64(heads[other]) - 1
                if item >= 0:
                    count += high[item] - low[item]
            fits = height == top or count <= d_limit(lower, upper, height, top, end - leaf)
            if not fits:
                height += 1
        if not fits:
            too_wide += 1
        elif height > 0:
            node = (np.int64(1) << (top - height)) + (first[i] >> height)
            cuda.atomic.or_(nodes, node >> 5, np.uint32(1) << np.uint32(node & 31))
    return too_wide


@device
def d_widen_windows(heads, first, end, num_listed, num_leaves, top, nodes, wide, control):
    """A listed leaf below a marked node leaves its window to the first leaf listed below the highest such node.

    That one's window becomes the node's, and goes to a list (atomic add). Returns the leaves of the windows.
    """
    lane, total = d_lane(), np.int64(0)
    for base in range(cuda.grid(1) - lane, num_listed, cuda.gridsize(1)):
        i, leads = base + lane, False
        if i < num_listed:
            leaf, height = first[i], 0
            for candidate in range(1, min(top, MAX_HEIGHT) + 1):
                node = (np.int64(1) << (top - candidate)) + (leaf >> candidate)
                if (nodes[node >> 5] >> np.uint32(node & 31)) & np.uint32(1) != 0:
                    height = candidate
            if height > 0:
                begin, leads = (leaf >> height) << height, True
                for other in range(begin, leaf):
                    if heads[other] != 0:
                        leads = False
                end[i] = leaf
                if leads:
                    first[i], end[i] = begin, min(begin + (np.int64(1) << height), num_leaves)
            total += end[i] - first[i]
        place = d_claim(control, WIDE, leads)
        if leads:
            wide[place] = i
    return total


@kernel
def k_plan_unsorted(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, lower, upper, top, marks, counts, heads, following,
    positions, states, first, end, low, high, places, new_src, new_dst, nodes, wide, control,
):  # fmt: skip
    """Put absent keys into lists of their leaves; then a warp takes 32 leaves at most, and sorts the list of each.

    Its keys and their places go to a piece of scratch, which has room for the list's rows (atomic add, one a warp). A
    list of one row needs only a lane. A leaf that can take its keys is a window; where some cannot, they climb, and
    windows are widened, with a grid-wide wait before each. ``nodes``: a bit each of a heap of windows.
    """
    board = cuda.shared.array(BOARD, np.int64)
    lane = d_lane()
    found, found_loops, revived, loops = d_list_rows(
        offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, marks, counts, heads, following, first,
        positions, states, control,
    )  # fmt: skip
    d_sync_grid(control, 1)
    num_listed, warps = control[LISTED] if control[LONG] == 0 else np.int64(0), np.int64(cuda.gridsize(1) >> 5)
    share = min((num_listed + warps - 1) // warps, np.int64(WARP))
    base, added, full = np.int64(cuda.grid(1) >> 5) * share, np.int64(0), np.int64(0)
    while base < num_listed:
        window, leaf, rows, room = base + lane, np.int64(0), np.int64(0), 0.0
        if lane < share and window < num_listed:
            leaf = first[window]
            rows = np.int64(counts[leaf])
            room = lower * 32 - cuda.popc(valid[leaf] | marks[leaf])
        start = d_claim_many(control, ROWS, rows)
        if rows > 0:
            end[window], low[window], high[window] = leaf + 1, start, start + 1
        if rows == 1:
            mine = np.int64(heads[leaf]) - 1
            row, column = d_read_row(edge_src, edge_dst, mirrored, mine)
            new_src[start], new_dst[start], places[start] = row, column, positions[mine]
            added += 1
            loops += row == column
            full += room < 1
        pending = d_ballot(rows > 1)
        while pending != 0:
            owner = cuda.ffs(np.int32(pending)) - 1
            mine, kept, rank, num_keys = d_sort_list(
                edge_src, edge_dst, mirrored, heads, following, d_shuffle(leaf, owner), d_shuffle(rows, owner)
            )
            piece = d_shuffle(start, owner)
            if kept:
                row, column = d_read_row(edge_src, edge_dst, mirrored, mine)
                new_src[piece + rank], new_dst[piece + rank], places[piece + rank] = row, column, positions[mine]
                added += 1
                loops += row == column
            if lane == owner:
                high[window] = start + num_keys
                full += room < num_keys
            pending &= pending - np.uint32(1)
        if rows > 0:
            heads[leaf] = np.int32(window + 1)
        base += warps * share
    d_leave_sum(control, FOUND, found, board)
    d_leave_sum(control, FOUND_LOOPS, found_loops, board)
    d_leave_sum(control, REVIVED, revived, board)
    d_leave_sum(control, ADDED, added, board)
    d_leave_sum(control, OTHER_LOOPS, loops, board)
    d_leave_sum(control, FULL, full, board)
    d_sync_grid(control, 2)
    if control[FULL] > 0:
        num_leaves = np.int64(dst.shape[0] >> 5)
        too_wide = d_climb_full_leaves(
            valid, marks, heads, first, low, high, num_listed, num_leaves, lower, upper, top, nodes
        )
        d_leave_sum(control, TOO_WIDE, too_wide, board)
        d_sync_grid(control, 3)
        total = d_widen_windows(heads, first, end, num_listed, num_leaves, top, nodes, wide, control)
        d_leave_sum(control, LEAVES, total, board)


def plan_unsorted(backend: Backend, slots: SlotArrays, batch: RawEdges, limits: np.ndarray) -> Planned | None:
    """Plan an insertion that puts few keys into any one leaf, and tell the batch how many edges it has.

    ``located`` is of the rows as they came: of equal ones one is PRESENT or DEAD, all others are ABSENT.

    Parameters
    ----------
    limits : array
        The density that no window of each height may pass, linear in it.

    Returns
    -------
    planned : Planned or None
        None where the batch has to be sorted: a leaf has more than 32 rows, or would climb past what a block merges.
        (To plan these without, their keys alone would have to be sorted, and the climb wants running sums.)
    """
    num_rows, num_leaves, dtype, top = batch.num_rows, slots.num_slots >> 5, slots.src.dtype, len(limits) - 1
    if num_rows > slots.num_slots:
        return None
    # Windows come in no order, so both sides of an edge between two write it: ranges of rows may be listed twice.
    (
        control, far_rows, marks, nodes, counts, heads, following, positions, first, end, low, high, places, wide,
        new_src, new_dst, states,
    ) = backend.empty_together(
        (CONTROL_SIZE, np.int64), (far_rows_size(2 * slots.num_vertices), np.int64),
        (num_leaves, np.uint32), ((2 << top) // 32 + 1, np.uint32), (num_leaves, np.int32), (num_leaves, np.int32),
        (num_rows, np.int32),
        *(((num_rows, np.int64),) * 7), (num_rows, dtype), (num_rows, dtype), (num_rows, np.uint8), zeroed=6,
    )  # fmt: skip
    k_plan_unsorted.launch_resident(
        4 * num_rows,
        slots.offsets, slots.dst, slots.valid, slots.num_vertices, *batch.columns, batch.mirrored,
        float(limits[0]), float(limits[-1]), top, marks, counts, heads, following,
        positions, states, first, end, low, high, places, new_src, new_dst, nodes, wide, control,
    )  # fmt: skip
    totals = read_totals(backend, control)
    if totals[LONG] or totals[TOO_WIDE]:
        return None
    found, added, num_windows = totals[FOUND], totals[ADDED], totals[LISTED]
    batch.settle_counts(found + totals[REVIVED] + added, totals[FOUND_LOOPS] + totals[OTHER_LOOPS])
    located = Located(positions, states, found, totals[FOUND_LOOPS])
    nothing = backend.nothing(np.int64)
    num_window_leaves = totals[LEAVES] if totals[FULL] else num_windows
    windows = None
    if slots.num_edges + totals[REVIVED] + added <= limits[-1] * slots.num_slots:
        first, end, low, high = (column[:num_windows] for column in (first, end, low, high))
        windows = Windows(first, end, low, high, nothing, nothing, num_windows, num_window_leaves, 0)
    lists = Lists(EdgeBatch(new_src, new_dst, None), heads, wide[: totals[WIDE]])
    return Planned(located, windows, nothing, nothing, places, far_rows, totals[REVIVED], lists)
