"""Triangles that appear or disappear with changed edges, on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.algorithms.rows.cuda.common import count_tiles, d_count_bits, d_find_row, d_has_bit, d_open_tile
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane
from dynstore.stores.table.cuda.search import d_find_lower_bound

if TYPE_CHECKING:
    from dynstore.algorithms.costs import Budget
    from dynstore.graph.delta import Delta
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["ChangedEdge", "update_triangles"]


class ChangedEdge(NamedTuple):
    """A changed edge: its two ends, and what a triangle with it adds to the counts, 1 or -1."""

    u: Any
    v: Any
    sign: Any


@kernel
def k_mark_inserted(slots, before, marked):
    """One thread a change: set the bit of an inserted edge's slot (atomic or)."""
    i = int(cuda.grid(1))
    if i < slots.shape[0]:
        slot = int(slots[i])
        if slot >= 0 and not before[i]:
            cuda.atomic.or_(marked, slot >> 5, np.uint32(1 << (slot & 31)))


@kernel
def k_open_rows(offsets, src, dst, slots, before, shorter, work):
    """One thread a change: choose the shorter row of its ends, and write its number of slots; 0 if nothing is to do.

    An edge that appeared or disappeared is handled only in the direction with the lower end first.
    """
    i = int(cuda.grid(1))
    if i < src.shape[0]:
        u = int(src[i])
        v = int(dst[i])
        num_slots = 0
        if u < v and bool(before[i]) != (slots[i] >= 0):
            num_slots = int(offsets[u + 1]) - int(offsets[u])
            at_v = int(offsets[v + 1]) - int(offsets[v])
            shorter[i] = u
            if at_v < num_slots:
                num_slots = at_v
                shorter[i] = v
        work[i] = num_slots


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


@kernel
def k_count_in_rows(
    offsets, indices, valid, src, dst, slots, before, marked, shorter, scan, steps, counts
):  # fmt: skip
    """One warp a tile of the slots under ``scan``, one lane a slot: search its neighbour in the longer row.

    An inserted edge counts a triangle unless a smaller edge of it was also inserted. A deleted edge subtracts a
    triangle whose two other edges were there before. Atomic adds: one a hit for the third corner, and
    :func:`d_add_hits`.
    """
    first, end_of_tile, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, end_of_tile, 32):
        item = base + d_lane()
        hit = False
        row = 0
        u = 0
        v = 0
        sign = 1
        if item < end_of_tile:
            row = d_find_row(scan, low, high, item)
            u = int(src[row])
            v = int(dst[row])
            inserted = not before[row]
            if not inserted:
                sign = -1
            short = int(shorter[row])
            long = u + v - short
            p = int(offsets[short + 1]) - (int(scan[row]) - item)
            w = int(indices[p])
            if w != u and w != v and d_has_bit(valid, p):
                end = int(offsets[long + 1])
                q = int(d_find_lower_bound(indices, int(offsets[long]), end, w))
                if q < end and indices[q] == w and d_has_bit(valid, q):
                    of_u = p
                    of_v = q
                    if short != u:
                        of_u = q
                        of_v = p
                    hit = True
                    if (not inserted or w < v) and d_has_bit(marked, of_u):
                        hit = False
                    elif (not inserted or w < u) and d_has_bit(marked, of_v):
                        hit = False
                    if hit:
                        cuda.atomic.add(counts, w, sign)
        d_add_hits(scan, row, base, end_of_tile, hit, ChangedEdge(u, v, sign), counts)


@kernel
def k_open_changes(src, dst, slots, before, of_u, of_v, work):
    """One thread a change: for a deleted edge, write the starts and the number of changes in its ends' rows."""
    i = int(cuda.grid(1))
    if i < src.shape[0]:
        u = int(src[i])
        v = int(dst[i])
        items = 0
        if u < v and before[i] and slots[i] < 0:
            size = src.shape[0]
            at_u = int(d_find_lower_bound(src, 0, size, u))
            at_v = int(d_find_lower_bound(src, at_u, size, v))
            of_u[i] = at_u
            of_v[i] = at_v
            items = int(d_find_lower_bound(src, at_u, size, u + 1)) - at_u
            items += int(d_find_lower_bound(src, at_v, size, v + 1)) - at_v
        work[i] = items


@kernel
def k_count_in_changes(
    offsets, indices, valid, src, dst, slots, before, marked, starts_of_u, starts_of_v, scan, steps, counts
):  # fmt: skip
    """One warp a tile of the items under ``scan``, one lane an item: a change in the row of an end of a deleted edge.

    Subtracts triangles with two or three deleted edges. Atomic adds: as :func:`k_count_in_rows`.
    """
    first, end_of_tile, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, end_of_tile, 32):
        item = base + d_lane()
        hit = False
        row = 0
        u = 0
        v = 0
        if item < end_of_tile:
            row = d_find_row(scan, low, high, item)
            u = int(src[row])
            v = int(dst[row])
            begin = 0
            if row > 0:
                begin = int(scan[row - 1])
            j = int(starts_of_u[row]) + item - begin
            at_u = j < src.shape[0] and src[j] == u
            far = v
            least = v  # if w is below it, the other edge is smaller
            if not at_u:
                j = int(starts_of_v[row]) + item - begin - d_count_row(src, int(starts_of_u[row]), u)
                far = u
                least = u
            w = int(dst[j])
            if w > least and w != u and w != v and before[j] and slots[j] < 0:
                end = int(offsets[far + 1])
                q = int(d_find_lower_bound(indices, int(offsets[far]), end, w))
                hit = q < end and indices[q] == w and d_has_bit(valid, q) and not d_has_bit(marked, q)
                if not hit and at_u:  # with three deleted edges, the row of u counts
                    end = int(starts_of_v[row]) + d_count_row(src, int(starts_of_v[row]), v)
                    k = int(d_find_lower_bound(dst, int(starts_of_v[row]), end, w))
                    hit = k < end and dst[k] == w and before[k] and slots[k] < 0
                if hit:
                    cuda.atomic.add(counts, w, -1)
        d_add_hits(scan, row, base, end_of_tile, hit, ChangedEdge(u, v, -1), counts)


@device
def d_count_row(src, begin, vertex):
    """Return how often ``vertex`` occurs in the sorted ``src``, from ``begin`` on."""
    return int(d_find_lower_bound(src, begin, src.shape[0], vertex + 1)) - begin


def update_triangles(csr: GapCSR, delta: Delta, counts: Array, budget: Budget) -> int:
    """Update the triangle counts of all vertices.

    For each changed edge the neighbours in the shorter row of its ends are searched in the longer one, as in Makkar,
    Bader and Green, "Exact and Parallel Triangle Counting in Dynamic Graphs", HiPC 2017; warps share the slots of all
    these rows evenly. At most five launches, two scans and two read-backs. The host's ``update_triangles`` explains how
    a triangle with several changed edges is counted once.

    Parameters and result are those of the host's ``update_triangles``.
    """
    backend, xp, size = csr.backend, csr.backend.xp, len(delta)
    if size == 0:
        return 0
    changes = (delta.src, delta.dst, delta.slots, delta.before)
    words, numbers = ((csr.num_slots >> 5) + 1, np.uint32), (size, np.int64)
    marked, shorter, work, scan, of_u, of_v, other = backend.empty_arena(words, *(numbers,) * 6, zeroed=1)
    if delta.may_insert:
        k_mark_inserted.launch(size, delta.slots, delta.before, marked)
    k_open_rows.launch(size, csr.offsets, *changes, shorter, work)
    xp.cumsum(work, out=scan)
    if delta.may_delete:
        k_open_changes.launch(size, *changes, of_u, of_v, work)
        xp.cumsum(work, out=other)
    totals = [int(sums[-1]) for sums in (scan, other)[: 1 + delta.may_delete]]
    visits = sum(totals)
    budget.note(visits)
    state = (csr.offsets, csr.indices, csr.valid, *changes, marked)
    tiles, steps = count_tiles(totals[0])
    k_count_in_rows.launch_warps(tiles, *state, shorter, scan, steps, counts)
    if delta.may_delete:
        tiles, steps = count_tiles(totals[1])
        k_count_in_changes.launch_warps(tiles, *state, of_u, of_v, other, steps, counts)
    return visits
