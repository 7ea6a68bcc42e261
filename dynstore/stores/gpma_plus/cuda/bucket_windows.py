"""Choosing the windows of an unsorted insertion: a leaf that has room, else the window that it climbs to."""

from __future__ import annotations

from functools import partial

import numpy as np

from dynstore.cuda.block import BOARD, d_claim
from dynstore.cuda.compiler import WARP, cuda, device, kernel
from dynstore.cuda.grid import d_leave_sum, d_sync_grid
from dynstore.cuda.mailbox import d_post_when_last
from dynstore.cuda.warp import FULL_WARP, d_ballot, d_count_lower, d_lane, d_shuffle, d_sum_lanes
from dynstore.stores.gpma_plus.cuda.bucket_fill import d_sort_lists
from dynstore.stores.gpma_plus.cuda.bucket_layout import (
    ADDED,
    CLAIMED,
    CLIMBING,
    COUNT,
    COVERED,
    FAR,
    FULL,
    GIANT,
    GROUP_HEIGHT,
    HEIGHT_BITS,
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
    BucketLeaves,
    LinkedBuckets,
    WindowHeap,
    d_count_elements,
    d_make_window,
)
from dynstore.stores.pma.cuda.records import BatchRows, DensityLimits
from dynstore.stores.pma.cuda.windows import d_limit

__all__ = ["d_plan_windows", "k_choose_windows", "k_plan_lists"]


# A group's count: its elements, keys included, and from this bit on its leaves with buckets.
LISTED_AT = 16
# They allow three blocks of ``k_plan_lists`` a multiprocessor instead of two, and four of ``k_choose_windows`` instead
# of three.
PLAN_REGISTERS, CHOOSE_REGISTERS = 80, 64


@device
def d_count_leaf(leaves, leaf, num_leaves):
    """Return the numbers of elements, keys included, and of keys of a leaf; both 0 if there is no such leaf."""
    elements, num_keys = np.int32(0), np.int32(0)
    if leaf < num_leaves:
        elements, num_keys = np.int32(d_count_elements(leaves, leaf)), leaves.lists[leaf, COUNT]
    return elements, num_keys


@device
def d_bits(first, count):
    """Return a word with ``count`` bits set, 1 to 32, from bit ``first`` on."""
    return np.uint32(np.uint32(FULL_WARP >> np.uint32(WARP - count)) << np.uint32(first & (WARP - 1)))


@device
def d_lead_window(leaves, leaf, num_leaves, limits, nodes, control):
    """Return the window that a leaf leads, 0 for none, and how many of its leaves have no bucket; by a warp.

    All leaves of the group climb, a lane each; the elements of their windows are butterfly sums. The leaf's window is
    the widest around it that any of them reaches. The first full leaf in it leads it and marks its leaves as covered.
    If a leaf would climb beyond the group, no window is led, and ``control`` records it.
    """
    lane, group = np.int32(d_lane()), (leaf >> GROUP_HEIGHT) << GROUP_HEIGHT
    own = group + lane if lane < 1 << GROUP_HEIGHT else num_leaves
    elements, num_keys = d_count_leaf(leaves, own, num_leaves)
    climbs, size = (num_keys > 0) & (elements > limits.low * 32), np.int64(1)
    full, listed, height, reached = d_ballot(climbs), d_ballot(num_keys > 0), 0, 0
    climbing = full
    while climbing != 0 and height < min(limits.top, GROUP_HEIGHT):
        elements = np.int32(elements + d_shuffle(elements, lane ^ (1 << height)))
        height += 1
        size = min(np.int64(1) << height, num_leaves - ((own >> height) << height))
        fits = height == limits.top or elements <= d_limit(limits.low, limits.high, height, limits.top, size)
        if d_ballot(climbs & fits) & d_bits((leaf - group) >> height << height, 1 << height) != 0:
            reached = height
        climbs = climbs & (not fits)
        climbing = d_ballot(climbs)
    first = (leaf >> reached) << reached
    inside = d_bits(first - group, 1 << reached)
    is_full = np.uint32(full & d_bits(leaf - group, 1)) != 0
    is_first = is_full and d_count_lower(np.uint32(full & inside), leaf - group) == 0
    window, more = np.int32(0), np.int64(0)
    if climbing != 0 and lane == 0:
        control[FAR] = 1
    elif climbing == 0 and reached > 0 and is_first:
        window = d_make_window(first, reached)
        more = min(np.int64(1) << reached, num_leaves - first) - np.int64(cuda.popc(listed & inside))
        if lane == 0:
            cuda.atomic.or_(nodes, (COVERED, first >> 5), d_bits(first, 1 << reached))
    return window, more


@device
def d_choose_in_groups(leaves, table, num_full, num_leaves, limits, nodes, control):
    """Warps share the leaves without room and list the windows that these lead: an atomic add a warp.

    Returns how many leaves of windows have no bucket.
    """
    lane, warps, total = np.int32(d_lane()), np.int64(cuda.gridsize(1) >> 5), np.int64(0)
    each = min((num_full + warps - 1) // warps, np.int64(WARP))
    for base in range((cuda.grid(1) >> 5) * each, num_full, warps * each):
        window, climbing = np.int32(0), np.int64(table[CLIMBING, min(base + lane, num_full - 1)])
        for number in range(min(each, num_full - base)):
            led, more = d_lead_window(leaves, d_shuffle(climbing, number), num_leaves, limits, nodes, control)
            if lane == number:
                window, total = led, total + more
        d_list_windows(table, window, control)
    return total


@device
def d_list_windows(table, window, control):
    """Each lane lists a window, or none for 0. All lanes of the warp call."""
    height = window & ((1 << HEIGHT_BITS) - 1)
    is_narrow, is_giant = 0 < height <= NARROW_HEIGHT, height > MAX_HEIGHT
    is_wide = NARROW_HEIGHT < height <= MAX_HEIGHT
    narrow_place, place = d_claim(control, NARROW, is_narrow), d_claim(control, WIDE, is_wide)
    giant_place = d_claim(control, GIANT, is_giant)
    if is_narrow:
        table[NARROW_WINDOWS, narrow_place] = window
    elif is_wide:
        table[WIDE_WINDOWS, place] = window
    elif is_giant:
        table[WIDE_WINDOWS, table.shape[1] - 1 - giant_place] = window


@device
def d_count_groups(leaves, num_leaves, groups):
    """Warps stride over the leaves: count the elements and the leaves with buckets of each group."""
    lane = d_lane()
    for base in range(cuda.grid(1) - lane, num_leaves, cuda.gridsize(1)):
        elements, num_keys = d_count_leaf(leaves, base + lane, num_leaves)
        count = np.int32(elements + np.int32(np.int32(num_keys > 0) << LISTED_AT))
        for step in range(GROUP_HEIGHT):
            count = np.int32(count + d_shuffle(count, lane ^ (1 << step)))
        if lane & ((1 << GROUP_HEIGHT) - 1) == 0 and base + lane < num_leaves:
            groups[(base + lane) >> GROUP_HEIGHT] = count


@device
def d_climb_far(leaves, table, groups, num_full, num_leaves, limits, nodes):
    """Leaves without room for their keys climb, up to the widest windows that the grid can merge.

    A warp owns one leaf after the other. It counts the leaves of its group; windows in the group are butterfly sums.
    The other half of a wider window is a number of groups. Returns how many leaves would climb further.
    """
    lane, further, num_groups = d_lane(), np.int64(0), np.int64(groups.shape[0])
    for i in range(cuda.grid(1) >> 5, num_full, cuda.gridsize(1) >> 5):
        leaf = np.int64(table[CLIMBING, i])
        group = (leaf >> GROUP_HEIGHT) << GROUP_HEIGHT
        own = group + lane if lane < 1 << GROUP_HEIGHT else num_leaves
        count, _ = d_count_leaf(leaves, own, num_leaves)
        elements, height, fits = np.int64(d_shuffle(count, leaf - group)), 0, False
        while not fits and height <= MAX_GIANT_HEIGHT:
            begin = (leaf >> height) << height
            size = min(np.int64(1) << height, num_leaves - begin)
            fits = height == limits.top or elements <= d_limit(limits.low, limits.high, height, limits.top, size)
            if not fits and height < GROUP_HEIGHT:
                count = np.int32(count + d_shuffle(count, lane ^ (1 << height)))
                elements = np.int64(d_shuffle(count, leaf - group))
            elif not fits and height < MAX_GIANT_HEIGHT:
                part, other = np.int64(0), ((leaf >> height) ^ 1) << (height - GROUP_HEIGHT)
                for item in range(other + lane, min(other + (1 << (height - GROUP_HEIGHT)), num_groups), WARP):
                    part += groups[item] & ((1 << LISTED_AT) - 1)
                elements += d_sum_lanes(part)
            height += 0 if fits else 1
        if lane == 0 and not fits:
            further += 1
        elif lane == 0 and height > 0:
            node = (np.int64(1) << (limits.top - height)) + (leaf >> height)
            cuda.atomic.or_(nodes, (MARKED, node >> 5), np.uint32(1) << np.uint32(node & 31))
    return further


@device
def d_claim_node(nodes, leaf, top):
    """Return the height of the highest marked node above a leaf if this warp claims it first, else 0.

    A lane looks at each height; one lane claims (atomic or).
    """
    lane, marked, claimed = d_lane(), False, np.uint32(0)
    if lane < min(top, MAX_GIANT_HEIGHT):
        node = (np.int64(1) << (top - lane - 1)) + (leaf >> (lane + 1))
        marked = (nodes[MARKED, node >> 5] >> np.uint32(node & 31)) & np.uint32(1) != 0
    height = np.int32(WARP) - np.int32(cuda.clz(np.uint32(d_ballot(marked))))
    if lane == 0 and height > 0:
        node = (np.int64(1) << (top - height)) + (leaf >> height)
        bit = np.uint32(1) << np.uint32(node & 31)
        claimed = np.uint32(cuda.atomic.or_(nodes, (CLAIMED, node >> 5), bit) & bit)
    return height if d_ballot(claimed != 0) == 0 else np.int32(0)


@device
def d_choose_far(lists, table, groups, num_full, num_leaves, top, nodes, control):
    """Warps share the leaves that have climbed. The first to claim the highest marked node above its leaf leads it.

    It marks the leaves there as covered and lists the window. Returns as ``d_choose_in_groups``.
    """
    lane, total = d_lane(), np.int64(0)
    for i in range(cuda.grid(1) >> 5, num_full, cuda.gridsize(1) >> 5):
        leaf = np.int64(table[CLIMBING, i])
        height = d_claim_node(nodes, leaf, top)
        first = (leaf >> height) << height
        end, window = min(first + (np.int64(1) << height), num_leaves), np.int32(0)
        if height > 0:
            for word in range((first >> 5) + lane, ((end - 1) >> 5) + 1, WARP):
                cuda.atomic.or_(nodes, (COVERED, word), d_bits(first, min(1 << height, WARP)))
            if height < GROUP_HEIGHT:
                for other in range(first + lane, end, WARP):
                    total -= np.int64(lists[other, COUNT] > 0)
            else:
                for group in range((first >> GROUP_HEIGHT) + lane, ((end - 1) >> GROUP_HEIGHT) + 1, WARP):
                    total -= groups[group] >> LISTED_AT
            if lane == 0:
                window, total = d_make_window(first, height), total + (end - first)
        d_list_windows(table, window, control)
    return total


@device
def d_choose_windows(leaves, num_leaves, limits, heap, table, control, waits, board):
    """Choose the windows for sorted buckets: a leaf if it has room. ``waits``: how many grid waits came before.

    Leaves without room climb inside their groups; one more wait. If one of them would climb beyond its group, all
    groups are counted and all leaves climb again; bits in the heap of windows show the highest windows; three more
    waits. Then the totals are final. For the tables see ``bucket_layout``. The caller sets ``control[LEAVES]`` to
    the number of leaves with buckets; this adds the other leaves of wider windows.
    """
    nodes, groups = heap
    num_full = control[FULL]
    if num_full > 0:
        total = d_choose_in_groups(leaves, table, num_full, num_leaves, limits, nodes, control)
        d_leave_sum(control, LEAVES, total, board)
        d_sync_grid(control, waits + 1)
        if control[FAR] > 0:
            d_count_groups(leaves, num_leaves, groups)
            d_sync_grid(control, waits + 2)
            if cuda.grid(1) == 0:  # all windows are listed anew; covered leaves stay covered
                control[NARROW], control[WIDE], control[LEAVES] = 0, 0, control[LISTED]
            further = d_climb_far(leaves, table, groups, num_full, num_leaves, limits, nodes)
            if further > 0:
                cuda.atomic.add(control, TOO_WIDE, further)
            d_sync_grid(control, waits + 3)
            total = d_choose_far(leaves.lists, table, groups, num_full, num_leaves, limits.top, nodes, control)
            d_leave_sum(control, LEAVES, total, board)
            d_sync_grid(control, waits + 4)


@device
def d_plan_windows(leaves, num_leaves, batch, limits, heap, buckets, waits, board):
    """Sort each bucket and, after a grid wait, choose the windows; ``waits`` as in ``d_choose_windows``."""
    if cuda.grid(1) == 0:
        buckets.control[LEAVES] = buckets.control[LISTED]
    added, loops = d_sort_lists(leaves, batch, buckets, limits.low, buckets.control[LISTED])
    d_leave_sum(buckets.control, ADDED, added, board)
    d_leave_sum(buckets.control, OTHER_LOOPS, loops, board)
    waits += 1
    d_sync_grid(buckets.control, waits)
    d_choose_windows(leaves, num_leaves, limits, heap, buckets.table, buckets.control, waits, board)


@partial(
    kernel, max_registers=PLAN_REGISTERS, records={"batch": BatchRows, "limits": DensityLimits, "heap": WindowHeap}
)
def k_plan_lists(
    valid, num_leaves, batch, limits, marks, lists, heap, following, table, pairs, control, mailbox, ticket
):  # fmt: skip
    """Plan by ``d_plan_windows``, unless planning has stopped; post the totals."""
    board = cuda.shared.array(BOARD, np.int64)
    leaves, buckets = BucketLeaves(valid, marks, lists), LinkedBuckets(following, table, pairs, control)
    if control[STOPPED] == 0:  # the same in all threads
        d_plan_windows(leaves, num_leaves, batch, limits, heap, buckets, 0, board)
    d_post_when_last(control, mailbox, ticket, POST_ARRIVALS)


@partial(kernel, max_registers=CHOOSE_REGISTERS)
def k_choose_windows(
    valid, num_leaves, lower, upper, top, marks, lists, nodes, groups, table, control, mailbox, ticket
):  # fmt: skip
    """Do as ``k_plan_lists`` for buckets that are sorted."""
    board = cuda.shared.array(BOARD, np.int64)
    leaves, limits = BucketLeaves(valid, marks, lists), DensityLimits(lower, upper, top)
    if cuda.grid(1) == 0:  # atomic: other blocks may have added their leaves
        cuda.atomic.add(control, LEAVES, control[LISTED])
    if control[STOPPED] == 0:  # the same in all threads
        d_choose_windows(leaves, num_leaves, limits, WindowHeap(nodes, groups), table, control, 0, board)
    d_post_when_last(control, mailbox, ticket, POST_ARRIVALS)
