"""Planning an insertion into a packed memory array on CUDA without sorting it: all that most insertions need.

Keys find their leaf in any order; those of a leaf are a list through memory, which a warp sorts in registers. What is
found stays on the device, where ``unsorted_writing`` writes it: once the host has looked at it, or at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import WARP, cuda, device, kernel
from dynstore._cuda.grid import CONTROL_SIZE, d_leave_sum, d_sync_grid, read_totals
from dynstore._cuda.leaves import far_rows_size
from dynstore._cuda.present import d_read_row
from dynstore._cuda.search import d_find_edge
from dynstore._cuda.tiles import BOARD, d_claim, d_claim_many
from dynstore._cuda.unsorted_writing import (
    ADDED,
    COUNT,
    END,
    FIRST,
    FULL,
    HEAD,
    HIGH,
    LEAVES,
    LISTED,
    LOW,
    MAX_HEIGHT,
    PLACES,
    POSITIONS,
    REVIVED,
    STOPPED,
    TABLE_ROWS,
    TOO_WIDE,
    WIDE,
    WIDE_WINDOWS,
    d_node_height,
    fits,
    k_write_leaves,
    k_write_windows,
)
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle, d_sum_lanes
from dynstore._cuda.windows import d_limit
from dynstore.slots import ABSENT, PRESENT, Located

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.backend import Backend
    from dynstore.edge_batch import RawEdges
    from dynstore.slots import SlotArrays
    from dynstore.typing import Array

__all__ = ["ListPlan", "insert_now", "plan_lists", "write_lists"]

# More rows of the sums, of distinct keys: those present, self-loops among them, self-loops among the dead and absent;
# rows of absent keys.
FOUND, FOUND_LOOPS, OTHER_LOOPS, ROWS = range(8, 12)
# Why planning stopped.
CROWDED, STRANGE = 1, 2
NO_KEY = np.int64(np.iinfo(np.int64).max)
ANY_NUMBER = 1 << 62


@dataclass(frozen=True, slots=True)
class ListPlan:
    """What writing the lists takes, all of it on the device; see ``_start_plan`` and ``unsorted_writing``.

    ``num_leaves``: how many are written, once the host has looked.
    """

    table: Array
    lists: Array
    marks: Array
    nodes: Array
    top: int
    pairs: Array
    states: Array
    control: Array
    far_rows: Array
    num_leaves: int = 0


@device
def d_list_rows(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, marks, lists, following, listed,
    positions, states, control,
):  # fmt: skip
    """Warps stride over the rows: keys that are there or dead are told once, the others put into their leaf's list.

    A slot's bit in ``marks`` says that a row has told it (atomic or). A list is its length (atomic add) and the last
    row + 1 (atomic exchange), both in ``lists``, and the row + 1 before each in ``following``; 0 ends it. Once a list
    would have more than 32 rows, or an id is no vertex, nobody goes on. Returns the keys present and dead, and
    self-loops among both.
    """
    lane, num_rows = d_lane(), np.int64(following.shape[0])
    found, found_loops, revived, revived_loops = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for base in range(cuda.grid(1) - lane, num_rows, cuda.gridsize(1)):
        if d_shuffle(control[STOPPED], 0) > 0:
            break
        i = base + lane
        leaf, begins = np.int64(0), False
        if i < num_rows:
            row, column = d_read_row(edge_src, edge_dst, mirrored, i)
            position, state, told = np.int64(0), PRESENT, np.uint8(ABSENT)
            known = min(row, column) >= 0 and max(row, column) < num_vertices
            if known:
                position, state = d_find_edge(offsets, dst, valid, num_vertices, row, column)
            else:
                control[STOPPED] = STRANGE
            if state == ABSENT:
                leaf = max(position - 1, np.int64(0)) >> 5
                ticket = cuda.atomic.add(lists, (leaf, COUNT), 1)
                begins = ticket == 0
                if ticket < WARP:
                    following[i] = cuda.atomic.exch(lists, (leaf, HEAD), np.int32(i + 1))
                else:
                    control[STOPPED] = CROWDED
            elif known:
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
def d_sort_list(edge_src, edge_dst, mirrored, lists, following, leaf, rows):
    """Let a lane have each row of a leaf's list, of at most 32, and its key; all lanes of the warp call.

    Returns the row, whether it is its key's first one, the key's rank among the distinct ones, and their number.
    """
    lane, mine, link = d_lane(), np.int64(-1), np.int64(lists[leaf, HEAD])
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
def d_count_elements(valid, marks, lists, low, high, leaf):
    """Return how many elements a leaf has with its keys; ``lists`` has 1 + its place among those listed."""
    count, item = np.int64(cuda.popc(valid[leaf] | marks[leaf])), np.int64(lists[leaf, HEAD]) - 1
    return count + high[item] - low[item] if item >= 0 else count


@device
def d_climb_full_leaves(
    valid, marks, lists, first, low, high, num_listed, num_leaves, lower, upper, top, nodes
):  # fmt: skip
    """Leaves that cannot take their keys climb as in ``d_climb_leaves``, to a window that a block can merge.

    A warp takes one after the other; its lanes count the leaves of each window's other half. Returns how many would
    climb further.
    """
    lane, too_wide = d_lane(), np.int64(0)
    for base in range(cuda.grid(1) - lane, num_listed, cuda.gridsize(1)):
        is_full = False
        if base + lane < num_listed:
            own = np.int64(first[base + lane])
            is_full = d_count_elements(valid, marks, lists, low, high, own) > lower * 32
        pending = d_ballot(is_full)
        while pending != 0:
            leaf = np.int64(first[base + cuda.ffs(np.int32(pending)) - 1])
            count, height, fits = d_count_elements(valid, marks, lists, low, high, leaf), 0, False
            while not fits and height <= MAX_HEIGHT:
                begin = (leaf >> height) << height
                size = min(np.int64(1) << height, num_leaves - begin)
                fits = height == top or count <= d_limit(lower, upper, height, top, size)
                if not fits:
                    part, other = np.int64(0), ((leaf >> height) ^ 1) << height
                    for start in range(other, min(other + (np.int64(1) << height), num_leaves), WARP):
                        if lane < min(np.int64(1) << height, num_leaves - start):
                            part += d_count_elements(valid, marks, lists, low, high, start + lane)
                    count += d_sum_lanes(part)
                    height += 1
            if lane == 0 and not fits:
                too_wide += 1
            elif lane == 0 and height > 0:
                node = (np.int64(1) << (top - height)) + (leaf >> height)
                cuda.atomic.or_(nodes, node >> 5, np.uint32(1) << np.uint32(node & 31))
            pending &= pending - np.uint32(1)
    return too_wide


@device
def d_widen_windows(lists, first, end, num_listed, num_leaves, top, nodes, wide, control):
    """A listed leaf below a marked node leaves its window to the first leaf listed below the highest such node.

    That one's window becomes the node's, and goes to a list (atomic add). Returns the leaves of the windows.
    """
    lane, total = d_lane(), np.int64(0)
    for base in range(cuda.grid(1) - lane, num_listed, cuda.gridsize(1)):
        i, leads = base + lane, False
        if i < num_listed:
            leaf = first[i]
            height = d_node_height(nodes, leaf, top)
            if height > 0:
                begin, leads = (leaf >> height) << height, True
                for other in range(begin, leaf):
                    if lists[other, HEAD] != 0:
                        leads = False
                end[i] = leaf
                if leads:
                    first[i], end[i] = begin, min(begin + (np.int64(1) << height), num_leaves)
            total += end[i] - first[i]
        place = d_claim(control, WIDE, leads)
        if leads:
            wide[place] = i
    return total


@device
def d_sort_lists(
    valid, marks, lists, following, edge_src, edge_dst, mirrored, lower, table, pairs, control, num_listed
):
    """A warp takes 32 leaves at most, and sorts the list of each; a list of one row needs only a lane.

    The keys and their places go to a piece of scratch, which has room for the list's rows (atomic add, one a warp).
    Afterwards ``lists`` has 1 + each leaf's place among those listed. Returns how many keys, loops among them, and
    leaves that cannot take theirs there are.
    """
    first, end, low, high = table[FIRST], table[END], table[LOW], table[HIGH]
    places, positions, new_src, new_dst = table[PLACES], table[POSITIONS], pairs[0], pairs[1]
    lane, warps = d_lane(), np.int64(cuda.gridsize(1) >> 5)
    share = min((num_listed + warps - 1) // warps, np.int64(WARP))
    base, added, loops, full = np.int64(cuda.grid(1) >> 5) * share, np.int64(0), np.int64(0), np.int64(0)
    while base < num_listed:
        window, leaf, rows, room = base + lane, np.int64(0), np.int64(0), 0.0
        if lane < share and window < num_listed:
            leaf = first[window]
            rows = np.int64(lists[leaf, COUNT])
            room = lower * 32 - cuda.popc(valid[leaf] | marks[leaf])
        start = d_claim_many(control, ROWS, rows)
        if rows > 0:
            end[window], low[window], high[window] = leaf + 1, start, start + 1
        if rows == 1:
            mine = np.int64(lists[leaf, HEAD]) - 1
            row, column = d_read_row(edge_src, edge_dst, mirrored, mine)
            new_src[start], new_dst[start], places[start] = row, column, positions[mine]
            added += 1
            loops += row == column
            full += room < 1
        pending = d_ballot(rows > 1)
        while pending != 0:
            owner = cuda.ffs(np.int32(pending)) - 1
            mine, kept, rank, num_keys = d_sort_list(
                edge_src, edge_dst, mirrored, lists, following, d_shuffle(leaf, owner), d_shuffle(rows, owner)
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
            lists[leaf, HEAD] = np.int32(window + 1)
        base += warps * share
    return added, loops, full


@kernel
def k_list_rows(
    offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, marks, lists, following, table, states, control
):
    """Put absent keys into lists of their leaves; ``lists``: see ``unsorted_writing``."""
    board = cuda.shared.array(BOARD, np.int64)
    found, found_loops, revived, loops = d_list_rows(
        offsets, dst, valid, num_vertices, edge_src, edge_dst, mirrored, marks, lists, following,
        table[FIRST], table[POSITIONS], states, control,
    )  # fmt: skip
    d_leave_sum(control, FOUND, found, board)
    d_leave_sum(control, FOUND_LOOPS, found_loops, board)
    d_leave_sum(control, REVIVED, revived, board)
    d_leave_sum(control, OTHER_LOOPS, loops, board)


@kernel
def k_plan_lists(
    valid, num_leaves, edge_src, edge_dst, mirrored, lower, upper, top, marks, lists, nodes, following, table, pairs,
    control,
):  # fmt: skip
    """Sort each list, and choose the windows: a leaf if it has room.

    Where some have not, they climb, and windows are widened, with a grid-wide wait before each. ``table``: see
    ``unsorted_writing``; ``nodes``: a bit each of a heap of windows.
    """
    board = cuda.shared.array(BOARD, np.int64)
    first = table[FIRST]
    if control[STOPPED] > 0:  # the same in all threads
        return
    num_listed = control[LISTED]
    added, loops, full = d_sort_lists(
        valid, marks, lists, following, edge_src, edge_dst, mirrored, lower, table, pairs, control, num_listed
    )
    d_leave_sum(control, ADDED, added, board)
    d_leave_sum(control, OTHER_LOOPS, loops, board)
    d_leave_sum(control, FULL, full, board)
    d_sync_grid(control, 1)
    if control[FULL] > 0:
        too_wide = d_climb_full_leaves(
            valid, marks, lists, first, table[LOW], table[HIGH], num_listed, num_leaves, lower, upper, top, nodes
        )
        d_leave_sum(control, TOO_WIDE, too_wide, board)
        d_sync_grid(control, 2)
        total = d_widen_windows(
            lists, first, table[END], num_listed, num_leaves, top, nodes, table[WIDE_WINDOWS], control
        )
        d_leave_sum(control, LEAVES, total, board)
    elif cuda.grid(1) == 0:
        control[LEAVES] = num_listed


def _start_plan(
    slots: SlotArrays, batch: RawEdges, limits: np.ndarray, allocate: Callable[..., list[Array]]
) -> ListPlan:
    num_rows, num_leaves, dtype, top = batch.num_rows, slots.num_slots >> 5, slots.src.dtype, len(limits) - 1
    # Windows come in no order, so both sides of an edge between two write it: ranges of rows may be listed twice.
    control, far_rows, marks, nodes, lists, following, table, pairs, states = allocate(
        (CONTROL_SIZE, np.int64), (far_rows_size(2 * slots.num_vertices), np.int64),
        (num_leaves, np.uint32), ((2 << top) // 32 + 1, np.uint32), ((num_leaves, 2), np.int32),
        (num_rows, np.int32), ((TABLE_ROWS, num_rows), np.int32), ((2, num_rows), dtype), (num_rows, np.uint8),
        zeroed=5,
    )  # fmt: skip
    k_list_rows.launch_resident(
        num_rows,
        slots.offsets, slots.dst, slots.valid, slots.num_vertices, *batch.columns, batch.mirrored,
        marks, lists, following, table, states, control,
    )  # fmt: skip
    k_plan_lists.launch_resident(
        4 * num_rows,
        slots.valid, num_leaves, *batch.columns, batch.mirrored, float(limits[0]), float(limits[-1]), top,
        marks, lists, nodes, following, table, pairs, control,
    )  # fmt: skip
    return ListPlan(table, lists, marks, nodes, top, pairs, states, control, far_rows)


def _read_plan(backend: Backend, batch: RawEdges, plan: ListPlan) -> list[int] | None:
    """Return the totals and tell the batch its counts; None where the batch cannot be planned like this."""
    totals = read_totals(backend, plan.control)
    if totals[STOPPED] or totals[TOO_WIDE]:
        batch.is_crowded = totals[STOPPED] != STRANGE
        return None
    batch.settle_counts(totals[FOUND] + totals[REVIVED] + totals[ADDED], totals[FOUND_LOOPS] + totals[OTHER_LOOPS])
    return totals


def _may_plan(slots: SlotArrays, batch: RawEdges) -> bool:
    return not batch.is_crowded and batch.num_rows <= slots.num_slots


def plan_lists(
    backend: Backend, slots: SlotArrays, batch: RawEdges, limits: np.ndarray
) -> tuple[Located, ListPlan | None] | None:
    """Plan an insertion that puts few keys into any one leaf, and tell the batch how many edges it has.

    Parameters
    ----------
    limits : array
        The density that no window of each height may pass, linear in it.

    Returns
    -------
    located : Located
        Of the rows as they came: of equal ones one is PRESENT or DEAD, all others are ABSENT.
    plan : ListPlan or None
        None where the root would be denser than its limit.

    None in place of both where the batch has to be sorted: a leaf has more than 32 rows, or would climb past what a
    block merges. (To plan these without, their keys alone would have to be sorted, and the climb wants running sums.)
    """
    if not _may_plan(slots, batch):
        return None
    plan = _start_plan(slots, batch, limits, backend.empty_together)
    totals = _read_plan(backend, batch, plan)
    if totals is None:
        return None
    located = Located(plan.table[POSITIONS], plan.states, totals[FOUND], totals[FOUND_LOOPS])
    if slots.num_edges + totals[REVIVED] + totals[ADDED] > limits[-1] * slots.num_slots:
        return located, None
    return located, replace(plan, num_leaves=totals[LEAVES])


def write_lists(slots: SlotArrays, plan: ListPlan, most_new: int = ANY_NUMBER, most_leaves: int = ANY_NUMBER) -> None:
    """Write the planned lists, where they come to no more new edges and leaves than so many."""
    num_rows, limits = plan.states.shape[0], (most_new, most_leaves)
    columns = (slots.src, slots.dst, slots.valid, slots.offsets, plan.marks)
    k_write_leaves.launch_warps(num_rows, *columns, plan.table, plan.pairs, plan.control, plan.far_rows, *limits)
    k_write_windows.launch_resident(
        max(2 * num_rows, slots.num_vertices >> 6),
        *columns, plan.nodes, plan.top, plan.table, plan.lists, plan.states, plan.pairs, plan.control, plan.far_rows,
        *limits,
    )  # fmt: skip


def insert_now(
    backend: Backend, slots: SlotArrays, batch: RawEdges, limits: np.ndarray, most_leaves: int
) -> tuple[int, int] | None:
    """Insert a batch without waiting for what planning it finds; the device decides whether that may be written.

    Nobody need have looked at the batch's ids.

    Parameters
    ----------
    limits : array
        As in :func:`plan_lists`.
    most_leaves : int
        Where more are concerned, nothing is written.

    Returns
    -------
    found, found_loops : int
        As in :class:`~dynstore.slots.Located`. None in place of both, and nothing is written, where the batch has to
        be planned: for the reasons of :func:`plan_lists`, because an id is no vertex, or because all is to be merged.
    """
    if not _may_plan(slots, batch):
        return None
    plan = _start_plan(slots, batch, limits, partial(slots.take_scratch, backend, "insertion"))
    most_new = int(limits[-1] * slots.num_slots) - slots.num_edges
    write_lists(slots, plan, most_new, most_leaves)
    totals = _read_plan(backend, batch, plan)
    if totals is None or not fits(totals, most_new, most_leaves):
        return None
    return totals[FOUND], totals[FOUND_LOOPS]
