"""Breadth-first search and single-source shortest paths on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import inlined, njit

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["bfs", "sssp"]

# Beamer et al., section 4: switch to bottom-up when the frontier's edges exceed 1/ALPHA of the unchecked ones, back to
# top-down when the frontier has fewer than 1/BETA of the vertices.
ALPHA = 14
BETA = 24


def bfs(
    out: GapCSR, into: GapCSR | None, sources: np.ndarray, depth_limit: int, want_predecessors: bool
) -> tuple[Array, Array | None]:
    """Search breadth first from all ``sources`` at once; switch directions if ``into`` is given.

    Direction-optimising BFS of Beamer, Asanović and Patterson, "Direction-Optimizing Breadth-First Search",
    SC'12, sections 3 and 4.

    Parameters
    ----------
    out : GapCSR
        Out-edges.
    into : GapCSR or None
        In-edges, for bottom-up steps; the same object as ``out`` for a symmetric graph. None: top-down only.
    sources : numpy.ndarray, shape (K,), int64
        Vertices at distance 0; duplicates do no harm.
    depth_limit : int
        Vertices farther away stay unreached.
    want_predecessors : bool

    Returns
    -------
    distances : array, shape (V,), vertex dtype
        ``iinfo.max`` where unreached.
    predecessors : array, shape (V,), vertex dtype, or None
        The smallest parent one level up; -1 for sources and unreached vertices.
    """
    dtype = out.offsets.dtype
    distances = np.full(out.num_vertices, np.iinfo(dtype).max, dtype=dtype)
    predecessors = np.full(out.num_vertices if want_predecessors else 0, -1, dtype=dtype)
    backward = out if into is None else into
    k_search_breadth_first(
        out.offsets,
        out.indices,
        out.valid,
        backward.offsets,
        backward.indices,
        backward.valid,
        into is not None,
        np.unique(sources).astype(dtype),
        min(int(depth_limit), np.iinfo(dtype).max - 1),
        distances,
        predecessors,
    )
    return distances, predecessors if want_predecessors else None


@njit(cache=True, nogil=True)
def k_search_breadth_first(
    offsets,
    indices,
    valid,
    in_offsets,
    in_indices,
    in_valid,
    has_in_edges,
    sources,
    depth_limit,
    distances,
    predecessors,
):
    """Fill ``distances`` (all unreached before) and, unless empty, ``predecessors``; ``sources`` are unique.

    Rows ascend, so a bottom-up step stops at the first parent, the smallest. A top-down step keeps the minimum.
    """
    num_vertices = distances.shape[0]
    queue = np.empty(num_vertices, dtype=distances.dtype)
    first, last = 0, 0
    for v in sources:
        distances[v] = 0
        queue[last] = v
        last += 1
    unchecked_slots = indices.shape[0]
    bottom_up = False
    level = 0
    while first < last and level < depth_limit:
        frontier_slots = 0
        for q in range(first, last):
            frontier_slots += offsets[queue[q] + 1] - offsets[queue[q]]
        unchecked_slots -= frontier_slots
        if bottom_up:
            bottom_up = (last - first) * BETA >= num_vertices
        else:
            bottom_up = has_in_edges and frontier_slots * ALPHA > unchecked_slots
        level += 1
        if bottom_up:
            end = d_step_bottom_up(in_offsets, in_indices, in_valid, level, distances, predecessors, queue, last)
        else:
            end = d_step_top_down(offsets, indices, valid, level, distances, predecessors, queue, first, last)
        first, last = last, end


@njit(borrows=True)
def d_step_top_down(offsets, indices, valid, level, distances, predecessors, queue, first, last):
    """Push the frontier ``queue[first:last]`` along its out-edges; return the new end of the queue."""
    unreached = np.iinfo(distances.dtype).max
    keep_parents = predecessors.shape[0] > 0
    end = last
    for q in range(first, last):
        u = queue[q]
        for p in range(offsets[u], offsets[u + 1]):
            v = indices[p]
            distance = distances[v]
            if distance < level or not d_has_edge(valid, p):
                continue
            if distance == unreached:
                distances[v] = level
                queue[end] = v
                end += 1
                if keep_parents:
                    predecessors[v] = u
            elif keep_parents and u < predecessors[v]:
                predecessors[v] = u
    return end


@njit(borrows=True)
def d_step_bottom_up(in_offsets, in_indices, in_valid, level, distances, predecessors, queue, end):
    """Search a parent for every unreached vertex among its in-edges; return the new end of the queue."""
    unreached = np.iinfo(distances.dtype).max
    keep_parents = predecessors.shape[0] > 0
    for v in range(distances.shape[0]):
        if distances[v] != unreached:
            continue
        for p in range(in_offsets[v], in_offsets[v + 1]):
            u = in_indices[p]
            if distances[u] == level - 1 and d_has_edge(in_valid, p):
                distances[v] = level
                queue[end] = v
                end += 1
                if keep_parents:
                    predecessors[v] = u
                break
    return end


def sssp(out: GapCSR, source: int, cutoff: float) -> tuple[Array, Array]:
    """Find shortest paths over weights of at least 0.

    Dijkstra, "A note on two problems in connexion with graphs", Numerische Mathematik 1, 1959, with a 4-ary heap that
    stores the place of each vertex (Johnson , "Priority queues in update problems and shortest paths", IPL 4, 1975), so
    it holds each vertex once.

    Parameters
    ----------
    out : GapCSR
        Out-edges with weights, none negative.
    source : int
    cutoff : float
        Only paths shorter than this count (cuGraph's rule: strictly); ``inf`` for all.

    Returns
    -------
    distances : array, shape (V,), weight dtype
        Sums are rounded to the weight dtype at every step; ``finfo.max`` where unreached.
    predecessors : array, shape (V,), vertex dtype
        Among the parents of equal length that were settled before the vertex, the smallest; -1 for the source and
        unreached vertices.
    """
    weights: Array = out.weights
    dtype = weights.dtype
    unreached = np.finfo(dtype).max
    distances = np.full(out.num_vertices, unreached, dtype=dtype)
    predecessors = np.full(out.num_vertices, -1, dtype=out.offsets.dtype)
    # Distances start at the largest number, so a path must also be shorter than that.
    limit = dtype.type(min(float(cutoff), float(unreached)))
    k_settle_by_distance(out.offsets, out.indices, weights, out.valid, source, limit, distances, predecessors)
    return distances, predecessors


@njit(cache=True, nogil=True)
def k_settle_by_distance(offsets, indices, weights, valid, source, limit, distances, predecessors):
    """Fill ``distances`` (all at the largest number before) and ``predecessors`` (all -1 before)."""
    heap = np.empty(distances.shape[0], dtype=predecessors.dtype)
    place = np.full(distances.shape[0], -1, dtype=predecessors.dtype)  # in the heap; -2 once settled
    distances[source] = 0
    heap[0] = source
    place[source] = 0
    size = 1
    while size > 0:
        u = heap[0]
        place[u] = -2
        size -= 1
        if size > 0:
            d_sift_down(heap, place, distances, size, heap[size])
        for p in range(offsets[u], offsets[u + 1]):
            v = indices[p]
            if place[v] == -2 or not d_has_edge(valid, p):
                continue
            distance = distances[u] + weights[p]
            if distance < distances[v] and distance < limit:
                distances[v] = distance
                predecessors[v] = u
                if place[v] < 0:
                    place[v] = size
                    size += 1
                d_sift_up(heap, place, distances, place[v], v)
            elif distance == distances[v] and place[v] >= 0 and u < predecessors[v]:
                predecessors[v] = u


@inlined
def d_sift_up(heap, place, distances, hole, v):
    """Put ``v`` at ``hole`` of the 4-ary heap or above, past all farther parents."""
    while hole > 0:
        parent = (hole - 1) >> 2
        if distances[heap[parent]] <= distances[v]:
            break
        heap[hole] = heap[parent]
        place[heap[hole]] = hole
        hole = parent
    heap[hole] = v
    place[v] = hole


@inlined
def d_sift_down(heap, place, distances, size, v):
    """Fill the hole at the root of a 4-ary heap of ``size`` with ``v`` or a nearer vertex."""
    hole = 0
    while True:
        child = 4 * hole + 1
        if child >= size:
            break
        for other in range(child + 1, min(child + 4, size)):
            if distances[heap[other]] < distances[heap[child]]:
                child = other
        if distances[v] <= distances[heap[child]]:
            break
        heap[hole] = heap[child]
        place[heap[hole]] = hole
        hole = child
    heap[hole] = v
    place[v] = hole
