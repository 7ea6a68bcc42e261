"""Searching pages for the edges of a batch on the GPU: a lane tests the filter for an edge, a warp reads its leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.control import declare
from dynstore.cuda.grid import ARRIVALS, SUMS
from dynstore.cuda.mailbox import Mailbox, d_post_when_last
from dynstore.cuda.warp import d_ballot, d_lane, d_shuffle, d_sum_lanes
from dynstore.stores.paged.cuda import d_find_bits, d_find_pair, d_is_valid, d_open_leaf
from dynstore.stores.paged.layout import LEAF_BITS, Leaves, Stored

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["search_batch"]

LIVE, LIVE_LOOPS, DEAD, SEARCHES = declare("search of pages", LIVE=0, LIVE_LOOPS=1, DEAD=2, SEARCHES=3)


@device
def d_passes(words, offsets, row, column):
    """Return whether the filter passes an edge."""
    if offsets[row] == offsets[row + 1]:
        return False
    place, bits = d_find_bits(offsets, row, column, np.int64(words.shape[0]))
    return (words[place] & bits) == bits


@device
def d_is_wanted(words, offsets, row, column, mirrored):
    """Return whether a lane searches for an edge: of a mirrored batch only for (u, v), u <= v."""
    num_vertices = np.int64(offsets.shape[0]) - 1
    if row < 0 or row >= num_vertices or column < 0 or column >= num_vertices or (mirrored and row > column):
        return False
    return d_passes(words, offsets, row, column) and (not mirrored or d_passes(words, offsets, column, row))


@device
def d_search_bases(bases, low, high, destination):
    """Return the last leaf from ``low`` to ``high`` whose base is not above a destination, ``low`` if there is none.

    All leaves but the first begin inside the row, and none but ``high`` may hold another row's beginning.
    """
    while low < high:
        middle = (low + high + 1) >> 1
        if np.int64(bases[middle]) <= destination:
            low = middle
        else:
            high = middle - 1
    return low


@device
def d_find_in_leaf(leaves, stored, leaf, begin, end, destination):
    """Return the slot of a destination in a leaf, among the slots from ``begin`` to ``end``; -1 if it is not there."""
    lane = d_lane()
    value = d_open_leaf(leaves, stored, leaf, leaves.marks[leaf], lane)
    slot = (leaf << LEAF_BITS) + lane
    found = d_ballot(begin <= slot and slot < end and value == destination)
    return (leaf << LEAF_BITS) + np.int64(cuda.ffs(np.uint32(found))) - 1 if found != 0 else np.int64(-1)


@device
def d_find_edge(leaves, stored, offsets, row, destination):
    """Return the slot of an edge, -1 if it is not there; all lanes call with the same edge.

    The last leaf of a row may hold the next row's beginning, so its base says nothing. It is read only if the search
    ends at the leaf before it: else the destination is below the base of a leaf that lies before the last one.
    """
    begin, end = offsets[row], offsets[row + 1]
    slot = np.int64(-1)
    if begin < end:  # the same in all lanes
        first, last = begin >> LEAF_BITS, (end - 1) >> LEAF_BITS
        leaf = d_search_bases(leaves.bases, first, max(last - 1, first), destination)
        slot = d_find_in_leaf(leaves, stored, leaf, begin, end, destination)
        if slot < 0 and leaf == last - 1:
            slot = d_find_in_leaf(leaves, stored, last, begin, end, destination)
    return slot


@device
def d_find_edges(leaves, stored, offsets, wanted, row, destination):
    """Return the slot of each lane's edge, -1 unless it is wanted and there. All lanes call."""
    lane, mine, votes = d_lane(), np.int64(-1), np.uint32(d_ballot(wanted))
    for other in range(32):
        if (votes >> np.uint32(other)) & np.uint32(1) != 0:  # the same in all lanes
            slot = d_find_edge(leaves, stored, offsets, d_shuffle(row, other), d_shuffle(destination, other))
            if lane == other:
                mine = slot
    return mine


@kernel
def k_search_batch(
    heads, bases, marks, ranks, rows, words, places, shift, page_bits, offsets, valid, passing, src, dst, mirrored,
    every_slot, slots, live, control, mailbox, ticket,
):  # fmt: skip
    """Warps stride over 32 edges at a time: write slots and bits of those that are in pages, and count them.

    Of a mirrored batch the lane of (u, v), u <= v, writes (v, u), too. The last block posts the counts.
    """
    lane = d_lane()
    leaves, stored = Leaves(heads, bases, marks, ranks, rows), Stored(words, places, shift, page_bits)
    num_live, live_loops, num_dead, searched = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for first in range(int(cuda.grid(1)) - lane, src.shape[0], int(cuda.gridsize(1))):
        i = first + lane
        row, column, wanted = np.int64(-1), np.int64(-1), False
        if i < src.shape[0]:
            row, column = np.int64(src[i]), np.int64(dst[i])
            wanted = d_is_wanted(passing, offsets, row, column, mirrored)
        slot = d_find_edges(leaves, stored, offsets, wanted, row, column)
        alive = False
        if slot >= 0:
            alive = d_is_valid(valid, slot >> LEAF_BITS, slot & 31)
        twice = mirrored and slot >= 0 and row != column
        again = twice and (every_slot or not alive)
        other = d_find_edges(leaves, stored, offsets, again, column, row)
        searched += np.int64(wanted) + np.int64(again)
        if slot >= 0:
            slots[i], live[i] = slot, alive
            if twice:
                twin = d_find_pair(src, dst, column, row)
                slots[twin], live[twin] = other if again else slot, alive
            count = np.int64(2 if twice else 1)
            if alive:
                num_live += count
                live_loops += np.int64(row == column)
            else:
                num_dead += count
    d_add_total(control, LIVE, num_live)
    d_add_total(control, LIVE_LOOPS, live_loops)
    d_add_total(control, DEAD, num_dead)
    d_add_total(control, SEARCHES, searched)
    d_post_when_last(control, mailbox, ticket, ARRIVALS)


@device
def d_add_total(control, place, value):
    """Add the lanes' values to a total; one atomic add a warp. All lanes call."""
    total = d_sum_lanes(value)
    if d_lane() == 0 and total != 0:
        cuda.atomic.add(control, place, total)


def search_batch(
    backend: Backend,
    pages: tuple[Any, ...],
    edges: tuple[Array, Array],
    how: tuple[bool, bool],
    slots: Array,
    live: Array,
) -> list[int]:
    """Write slots and liveness of the edges that are in pages; see the host's ``search_batch``."""
    control, mailbox = backend.zeros(SUMS, np.int64), Mailbox(backend)
    ticket = mailbox.next_ticket()
    k_search_batch.launch_strided(edges[0].shape[0], *pages, *edges, *how, slots, live, control, mailbox.words, ticket)
    return mailbox.read(backend, ticket)[: SEARCHES + 1]
