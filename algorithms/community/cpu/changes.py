"""Triangles that appear or disappear with changed edges, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.algorithms.costs import Budget
    from dynstore.graph.delta import Delta
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["update_triangles"]


def update_triangles(csr: GapCSR, delta: Delta, counts: Array, budget: Budget) -> int:
    """Update the triangle counts of all vertices.

    For each changed edge the neighbours in the shorter row of its ends are searched in the longer one, as in Makkar ,
    Bader and Green, "Exact and Parallel Triangle Counting in Dynamic Graphs", HiPC 2017. A triangle with two or three
    changed edges is counted at the smallest of them, ordered by (lower end, higher end): for the edge u < v and the
    third corner w, the edge (u, w) is smaller if w < v, and (v, w) if w < u.

    Parameters
    ----------
    csr : GapCSR
        A symmetric graph, in its present version; self-loops are ignored.
    delta : Delta
    counts : array, shape (V,)
        Counts of the earlier version; changed in place.
    budget : Budget
        If it is spent afterwards, the counts are of no use.

    Returns
    -------
    int
        Edges visited.
    """
    # Bits of the slots that hold an inserted edge.
    marked = np.zeros((csr.num_slots >> 5) + 1, dtype=np.uint32)
    if delta.may_insert:
        k_mark_inserted(delta.slots, delta.before, marked)
    rows = (csr.offsets, csr.indices, csr.valid)
    changes = (delta.src, delta.dst, delta.slots, delta.before)
    most = budget.most_visits()
    visits = int(k_count_in_rows(*rows, *changes, marked, counts, most))
    if delta.may_delete:
        visits += int(k_count_in_changes(*rows, *changes, marked, counts, most - visits))
    budget.note(visits, most)
    return visits


@njit(cache=True, nogil=True)
def k_mark_inserted(slots, before, marked):
    for i in range(slots.shape[0]):
        if slots[i] >= 0 and not before[i]:
            marked[slots[i] >> 5] |= np.uint32(1) << np.uint32(slots[i] & 31)


@njit(borrows=True)
def d_find_slot(indices, low, high, wanted):
    """Return the first slot in [low, high) whose neighbour is not below ``wanted``, else ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def k_count_in_rows(offsets, indices, valid, src, dst, slots, before, marked, counts, most):
    """Add triangles of inserted edges; subtract those of a deleted edge with two edges that are still there.

    Stop once more than ``most`` edges were visited.

    An inserted edge counts a triangle unless a smaller edge of it was also inserted. A deleted edge counts a triangle
    whose two other edges were there before.
    """
    visits = 0
    for i in range(src.shape[0]):
        u, v = src[i], dst[i]
        inserted = not before[i]
        if visits > most:
            break
        if u >= v or inserted != (slots[i] >= 0):
            continue
        short, long = u, v
        if offsets[v + 1] - offsets[v] < offsets[u + 1] - offsets[u]:
            short, long = v, u
        q, end = np.int64(offsets[long]), np.int64(offsets[long + 1])
        found = 0
        for p in range(offsets[short], offsets[short + 1]):
            w = indices[p]
            visits += 1
            if w == u or w == v or not d_has_edge(valid, p):
                continue
            q = d_find_slot(indices, q, end, w)
            if q == end:
                break
            if indices[q] != w or not d_has_edge(valid, q):
                continue
            of_u, of_v = (p, q) if short == u else (q, p)
            if inserted:
                smaller = (w < v and d_has_edge(marked, of_u)) or (w < u and d_has_edge(marked, of_v))
            else:
                smaller = d_has_edge(marked, of_u) or d_has_edge(marked, of_v)
            if not smaller:
                found += 1
                counts[w] += 1 if inserted else -1
        counts[u] += found if inserted else -found
        counts[v] += found if inserted else -found
    return visits


@njit(cache=True, nogil=True)
def k_count_in_changes(offsets, indices, valid, src, dst, slots, before, marked, counts, most):
    """Subtract triangles with two or three deleted edges; ``src`` and ``dst`` are sorted, both directions.

    Stop once more than ``most`` edges were visited.
    """
    visits = 0
    for i in range(src.shape[0]):
        u, v = src[i], dst[i]
        if visits > most:
            break
        if u >= v or not before[i] or slots[i] >= 0:
            continue
        for side in range(2):
            # (near, w) was deleted: first the row of u, then that of v.
            near, far = (u, v) if side == 0 else (v, u)
            for j in range(np.searchsorted(src, near), np.searchsorted(src, near, side="right")):
                w = dst[j]
                visits += 1
                if w == u or w == v or not before[j] or slots[j] >= 0:
                    continue
                if w < (v if side == 0 else u):
                    continue  # (near, w) is the smaller edge
                end = np.int64(offsets[far + 1])
                q = d_find_slot(indices, np.int64(offsets[far]), end, w)
                there = q < end and indices[q] == w and d_has_edge(valid, q) and not d_has_edge(marked, q)
                if not there and side == 0:  # with three deleted edges, the first side counts
                    k = np.searchsorted(src, far)
                    last = np.searchsorted(src, far, side="right")
                    k += np.searchsorted(dst[k:last], w)
                    there = k < last and dst[k] == w and before[k] and slots[k] < 0
                if there:
                    counts[u] -= 1
                    counts[v] -= 1
                    counts[w] -= 1
    return visits
