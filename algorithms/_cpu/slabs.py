"""Algorithms over the rows of slab hash tables on the host: chains of slabs, whose keys are in no order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from dynstore._cpu.slab_hash_chains import _bucket
from dynstore.slabs import BUCKETS, DEGREE, EMPTY, END, FIRST, HEAD_WORDS, TOMBSTONE

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.base import NativeRows
    from dynstore.typing import Array

__all__ = ["bfs", "triangle_count"]


def triangle_count(backend: Backend, rows: NativeRows) -> Array:
    """Count the triangles at each vertex by probing the tables.

    The edge-iterator of Schank and Wagner (WEA 2005, section 3) on hash tables, as Awad et al. (IPDPS 2020, section
    VI) count: of each edge the row of the lower (degree, id) is walked, and its neighbours that are higher than
    both ends are probed in the other one's table; so each triangle is found once, from its lowest corner.

    Parameters
    ----------
    rows : NativeRows
        The slab tables of a symmetric graph; self-loops are ignored.

    Returns
    -------
    array, shape (V,), vertex dtype
        Every triangle counts at its three corners.
    """
    table = rows.table
    counts = backend.zeros(rows.num_vertices, table.slabs.dtype)
    k_count_triangles(table.slabs, table.heads, table.words, table.keys, counts)
    return counts


@njit
def d_has_key(slabs, heads, words, keys, row, key):
    """Whether a key is in the table of a row that has one."""
    slab = np.int64(heads[HEAD_WORDS * row + FIRST]) + _bucket(key, np.int64(heads[HEAD_WORDS * row + BUCKETS]))
    while slab != END:
        for place in range(slab * words, slab * words + keys):
            if slabs[place] == key:
                return True
            if slabs[place] == EMPTY:
                return False
        slab = np.int64(slabs[slab * words + words - 1])
    return False


@njit
def d_list_higher(slabs, heads, words, keys, row, listed):
    """List the neighbours of higher (degree, id) than a row, in no order; return how many there are."""
    degree = heads[HEAD_WORDS * row + DEGREE]
    first, size = np.int64(heads[HEAD_WORDS * row + FIRST]), 0
    for base in range(first, first + heads[HEAD_WORDS * row + BUCKETS]):
        slab = np.int64(base)
        while slab != END:
            for place in range(slab * words, slab * words + keys):
                key = np.int64(slabs[place])
                if key == EMPTY:  # so are all behind
                    break
                if key != TOMBSTONE:
                    other = heads[HEAD_WORDS * key + DEGREE]
                    if degree < other or (degree == other and row < key):
                        listed[size] = key
                        size += 1
            slab = np.int64(slabs[slab * words + words - 1])
    return size


@njit(cache=True, nogil=True)
def k_count_triangles(slabs, heads, words, keys, counts):
    """Add each triangle to its three corners, found from the lowest."""
    listed = np.empty(counts.shape[0], dtype=np.int64)
    for u in range(counts.shape[0]):
        size = d_list_higher(slabs, heads, words, keys, u, listed)
        for i in range(size - 1):
            v = listed[i]
            at_v = 0
            for j in range(i + 1, size):
                w = listed[j]
                degree, other = heads[HEAD_WORDS * v + DEGREE], heads[HEAD_WORDS * w + DEGREE]
                low, high = (v, w) if degree < other or (degree == other and v < w) else (w, v)
                if d_has_key(slabs, heads, words, keys, low, high):
                    at_v += 1
                    counts[w] += 1
            counts[v] += at_v
            counts[u] += at_v


def bfs(
    backend: Backend, rows: NativeRows, sources: np.ndarray, depth_limit: int, want_predecessors: bool
) -> tuple[Array, Array | None]:
    """Search breadth first from all ``sources`` at once, top-down: unsorted rows tell no smallest parent early.

    Parameters
    ----------
    rows : NativeRows
        The slab tables of out-edges.
    sources : numpy.ndarray, shape (K,), int64
        Distinct vertices, at distance 0.
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
    table = rows.table
    dtype = table.slabs.dtype
    distances = np.full(rows.num_vertices, np.iinfo(dtype).max, dtype=dtype)
    predecessors = np.full(rows.num_vertices if want_predecessors else 0, -1, dtype=dtype)
    limit = min(int(depth_limit), np.iinfo(dtype).max - 1)
    k_push_levels(table.slabs, table.heads, table.words, table.keys, sources, limit, distances, predecessors)
    return distances, predecessors if want_predecessors else None


@njit(cache=True, nogil=True)
def k_push_levels(slabs, heads, words, keys, sources, depth_limit, distances, predecessors):
    """Fill ``distances`` (all unreached before) and, unless empty, ``predecessors``."""
    queue = np.empty(distances.shape[0], dtype=distances.dtype)
    first, last, level = 0, sources.shape[0], 0
    for q in range(last):
        distances[sources[q]] = 0
        queue[q] = sources[q]
    while first < last and level < depth_limit:
        level += 1
        end = last
        for q in range(first, last):
            end = d_push_row(slabs, heads, words, keys, queue[q], level, distances, predecessors, queue, end)
        first, last = last, end


@njit
def d_push_row(slabs, heads, words, keys, u, level, distances, predecessors, queue, end):
    """Reach what a row leads to; return the new end of the queue."""
    unreached, keep_parents = np.iinfo(distances.dtype).max, predecessors.shape[0] > 0
    head = HEAD_WORDS * np.int64(u)
    first = np.int64(heads[head + FIRST])
    for base in range(first, first + heads[head + BUCKETS]):
        slab = np.int64(base)
        while slab != END:
            for place in range(slab * words, slab * words + keys):
                v = slabs[place]
                if v == EMPTY:  # so are all behind
                    break
                if v == TOMBSTONE or distances[v] < level:
                    continue
                if distances[v] == unreached:
                    distances[v] = level
                    queue[end] = v
                    end += 1
                    if keep_parents:
                        predecessors[v] = u
                elif keep_parents and u < predecessors[v]:
                    predecessors[v] = u
            slab = np.int64(slabs[slab * words + words - 1])
    return end
