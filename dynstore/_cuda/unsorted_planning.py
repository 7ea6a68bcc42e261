"""Choosing the windows of an insertion that is not sorted: a leaf where it has room, else what it climbs to."""

from __future__ import annotations

import numpy as np

from dynstore._cuda.compiler import WARP, cuda, device, kernel
from dynstore._cuda.grid import d_leave_sum, d_sync_grid
from dynstore._cuda.mailbox import d_post_when_last
from dynstore._cuda.tiles import BOARD, d_claim
from dynstore._cuda.unsorted_layout import (
    ADDED,
    CLAIMED,
    COVERED,
    END,
    FAR,
    FIRST,
    FULL,
    GIANT,
    GROUP_HEIGHT,
    LEAVES,
    LISTED,
    MARKED,
    MAX_GIANT_HEIGHT,
    MAX_HEIGHT,
    NARROW,
    NARROW_HEIGHT,
    NARROW_WINDOWS,
    OTHER_LOOPS,
    POST_ARRIVALS,
    STOPPED,
    TOO_WIDE,
    WIDE,
    WIDE_WINDOWS,
    d_count_elements,
    d_node_height,
)
from dynstore._cuda.unsorted_listing import d_sort_lists
from dynstore._cuda.warp import d_lane, d_shuffle, d_sum_lanes
from dynstore._cuda.windows import d_limit

__all__ = ["d_plan_windows", "k_choose_windows", "k_plan_lists"]


@device
def d_count_groups(valid, marks, lists, num_leaves, groups):
    """Warps stride over the leaves: how many elements, with the keys, each group of neighbouring ones has."""
    lane = d_lane()
    for base in range(cuda.grid(1) - lane, num_leaves, cuda.gridsize(1)):
        count = np.int64(0)
        if base + lane < num_leaves:
            count = d_count_elements(valid, marks, lists, base + lane)
        for step in range(GROUP_HEIGHT):
            count += d_shuffle(count, lane ^ (1 << step))
        if lane & ((1 << GROUP_HEIGHT) - 1) == 0 and base + lane < num_leaves:
            groups[(base + lane) >> GROUP_HEIGHT] = count


@device
def d_mark_node(nodes, leaf, height, top):
    """The warp marks the node of a leaf at a height, and covers the groups below it, or the one that it is in."""
    node, lane = (np.int64(1) << (top - height)) + (leaf >> height), d_lane()
    if lane == 0:
        cuda.atomic.or_(nodes, (MARKED, node >> 5), np.uint32(1) << np.uint32(node & 31))
    first = ((leaf >> height) << height) >> GROUP_HEIGHT
    for group in range(first + lane, first + max((1 << height) >> GROUP_HEIGHT, 1), WARP):
        cuda.atomic.or_(nodes, (COVERED, group >> 5), np.uint32(1) << np.uint32(group & 31))


@device
def d_climb_full_leaves(
    valid, marks, lists, table, groups, num_full, num_leaves, lower, upper, top, highest, nodes
):  # fmt: skip
    """Leaves that cannot take their keys climb as in ``d_climb_leaves``, to a height of at most ``highest``.

    A warp takes one after the other: it counts the leaves of its group, whose windows are sums by a butterfly; a wider
    window's other half is some groups. Returns how many would climb further.
    """
    lane, further, num_groups = d_lane(), np.int64(0), np.int64(groups.shape[0])
    for i in range(cuda.grid(1) >> 5, num_full, cuda.gridsize(1) >> 5):
        leaf = np.int64(table[FIRST, table[NARROW_WINDOWS, i]])
        group = (leaf >> GROUP_HEIGHT) << GROUP_HEIGHT
        count = np.int64(0)
        if lane < 1 << GROUP_HEIGHT and group + lane < num_leaves:
            count = d_count_elements(valid, marks, lists, group + lane)
        elements, height, fits = d_shuffle(count, leaf - group), 0, False
        while not fits and height <= highest:
            begin = (leaf >> height) << height
            size = min(np.int64(1) << height, num_leaves - begin)
            fits = height == top or elements <= d_limit(lower, upper, height, top, size)
            if not fits and height < GROUP_HEIGHT:
                count += d_shuffle(count, lane ^ (1 << height))
                elements = d_shuffle(count, leaf - group)
            elif not fits and height < highest:
                part, other = np.int64(0), ((leaf >> height) ^ 1) << (height - GROUP_HEIGHT)
                for item in range(other + lane, min(other + (1 << (height - GROUP_HEIGHT)), num_groups), WARP):
                    part += groups[item]
                elements += d_sum_lanes(part)
            height += 0 if fits else 1
        if lane == 0 and not fits:
            further += 1
        elif fits and height > 0:
            d_mark_node(nodes, leaf, height, top)
    return further


@device
def d_widen_windows(table, num_listed, num_leaves, top, nodes, control):
    """A listed leaf below marked nodes leaves its window to whoever is the first to claim the highest of them.

    That one's window becomes the node's, and goes to a list (atomic or, then an atomic add). Returns how many more
    leaves windows have than are listed.
    """
    lane, total, first, end = d_lane(), np.int64(0), table[FIRST], table[END]
    narrow, wide = table[NARROW_WINDOWS], table[WIDE_WINDOWS]
    for base in range(cuda.grid(1) - lane, num_listed, cuda.gridsize(1)):
        i, leads, height = base + lane, False, 0
        if i < num_listed:
            leaf = np.int64(first[i])
            height = d_node_height(nodes, leaf, top)
            if height > 0:
                node = (np.int64(1) << (top - height)) + (leaf >> height)
                bit = np.uint32(1) << np.uint32(node & 31)
                leads = cuda.atomic.or_(nodes, (CLAIMED, node >> 5), bit) & bit == 0
                end[i] = leaf
                if leads:
                    begin = (leaf >> height) << height
                    first[i], end[i] = begin, min(begin + (np.int64(1) << height), num_leaves)
            total += end[i] - first[i] - 1
        narrow_place = d_claim(control, NARROW, leads and height <= NARROW_HEIGHT)
        place = d_claim(control, WIDE, leads and NARROW_HEIGHT < height <= MAX_HEIGHT)
        giant_place = d_claim(control, GIANT, leads and height > MAX_HEIGHT)
        if leads and height <= NARROW_HEIGHT:
            narrow[narrow_place] = i
        elif leads and height <= MAX_HEIGHT:
            wide[place] = i
        elif leads:
            wide[wide.shape[0] - 1 - giant_place] = i
    return total


@device
def d_choose_windows(
    valid, num_leaves, lower, upper, top, marks, lists, nodes, groups, table, control, waits, board
):  # fmt: skip
    """Choose the windows of sorted lists: a leaf if it has room.

    Where some have not, these climb, and windows are widened; a grid-wide wait before. Where one would climb further
    than its group of leaves, all groups are counted, and they climb again. ``nodes``: bits of a heap of windows; for
    the rest see ``unsorted_layout``. ``waits``: how many there have been before; returns how many there have been now.
    The totals are final after one more, or, where no leaf is full, at once. The caller lets ``control[LEAVES]`` be the
    number of listed leaves, to which those of wider windows are added.
    """
    num_listed = control[LISTED]
    if control[FULL] > 0:
        further = d_climb_full_leaves(
            valid, marks, lists, table, groups, control[FULL], num_leaves, lower, upper, top, GROUP_HEIGHT, nodes
        )
        if further > 0:
            cuda.atomic.add(control, FAR, further)
        waits += 1
        d_sync_grid(control, waits)
        if control[FAR] > 0:
            d_count_groups(valid, marks, lists, num_leaves, groups)
            d_sync_grid(control, waits + 1)
            further = d_climb_full_leaves(
                valid, marks, lists, table, groups, control[FULL], num_leaves, lower, upper, top, MAX_GIANT_HEIGHT,
                nodes,
            )  # fmt: skip
            if further > 0:
                cuda.atomic.add(control, TOO_WIDE, further)
            waits += 2
            d_sync_grid(control, waits)
        total = d_widen_windows(table, num_listed, num_leaves, top, nodes, control)
        d_leave_sum(control, LEAVES, total, board)
    return waits


@device
def d_plan_windows(
    valid, num_leaves, edge_src, edge_dst, mirrored, lower, upper, top, marks, lists, nodes, groups, following, table,
    pairs, control, waits, board,
):  # fmt: skip
    """Sort each list, and choose the windows, after a grid-wide wait; ``waits``, and what is returned, as there."""
    if cuda.grid(1) == 0:
        control[LEAVES] = control[LISTED]
    added, loops = d_sort_lists(
        valid, marks, lists, following, edge_src, edge_dst, mirrored, lower, table, pairs, control, control[LISTED]
    )
    d_leave_sum(control, ADDED, added, board)
    d_leave_sum(control, OTHER_LOOPS, loops, board)
    waits += 1
    d_sync_grid(control, waits)
    return d_choose_windows(
        valid, num_leaves, lower, upper, top, marks, lists, nodes, groups, table, control, waits, board
    )


@kernel
def k_plan_lists(
    valid, num_leaves, edge_src, edge_dst, mirrored, lower, upper, top, marks, lists, nodes, groups, following, table,
    pairs, control, mailbox, ticket,
):  # fmt: skip
    """Plan what has been listed, see ``d_plan_windows``, nothing where planning has stopped; post the totals."""
    board = cuda.shared.array(BOARD, np.int64)
    if control[STOPPED] == 0:  # the same in all threads
        d_plan_windows(
            valid, num_leaves, edge_src, edge_dst, mirrored, lower, upper, top, marks, lists, nodes, groups, following,
            table, pairs, control, 0, board,
        )  # fmt: skip
    d_post_when_last(control, mailbox, ticket, POST_ARRIVALS)


@kernel
def k_choose_windows(
    valid, num_leaves, lower, upper, top, marks, lists, nodes, groups, table, control, mailbox, ticket
):  # fmt: skip
    """Do as ``k_plan_lists`` for lists that are sorted."""
    board = cuda.shared.array(BOARD, np.int64)
    if cuda.grid(1) == 0:
        control[LEAVES] = control[LISTED]
    if control[STOPPED] == 0:  # the same in all threads
        d_choose_windows(valid, num_leaves, lower, upper, top, marks, lists, nodes, groups, table, control, 0, board)
    d_post_when_last(control, mailbox, ticket, POST_ARRIVALS)
