"""Algorithms over the rows of slab hash tables on the host: chains of slabs with unordered keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.community.cpu.triangles import k_count_forward
from dynstore.algorithms.link_analysis.cpu.iterations import iterate_ranks
from dynstore.host_compiler import njit
from dynstore.stores.slab_hash.slabs import BUCKETS, DEGREE, EMPTY, END, FIRST, HEAD_WORDS, TOMBSTONE

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.stores.base import NativeRows
    from dynstore.typing import Array

__all__ = ["bfs", "pagerank", "triangle_count"]


def triangle_count(backend: Backend, rows: NativeRows) -> Array:
    """Count the triangles at each vertex from slabs, as ``community.cpu.triangles.count_triangles`` does.

    Each edge is listed once, at its end of lower (degree, id). Lists are intersected by marking one of them. This needs
    no order, and is faster than probing each pair in a table (Awad et al., IPDPS 2020, section VI-C).

    Parameters
    ----------
    rows : NativeRows
        The slab tables of a symmetric graph; self-loops are ignored.

    Returns
    -------
    array, shape (V,), vertex dtype
        Every triangle counts at its three corners.
    """
    table, num_vertices = rows.table, rows.num_vertices
    counts = backend.zeros(num_vertices, table.slabs.dtype)
    degrees = table.column(DEGREE)[:num_vertices].copy()
    arcs = k_list_higher(table.slabs, table.heads, table.words, table.keys, degrees)
    k_count_forward(*arcs, *arcs, counts)
    return counts


@njit(cache=True, nogil=True)
def k_list_higher(slabs, heads, words, keys, degrees):
    """Return the CSR of the edges that point from lower to higher (degree, id), unordered within a row."""
    listed = np.empty(degrees.astype(np.int64).sum() // 2, dtype=slabs.dtype)
    starts = np.empty(degrees.shape[0] + 1, dtype=np.int64)
    size = 0
    for row in range(degrees.shape[0]):
        starts[row] = size
        degree = degrees[row]
        first = np.int64(heads[HEAD_WORDS * row + FIRST])
        for base in range(first, first + heads[HEAD_WORDS * row + BUCKETS]):
            slab = np.int64(base)
            while slab != END:
                for place in range(slab * words, slab * words + keys):
                    key = slabs[place]
                    if key == EMPTY:  # so are all later keys
                        break
                    if key != TOMBSTONE and (degree < degrees[key] or (degree == degrees[key] and row < key)):
                        listed[size] = key
                        size += 1
                slab = np.int64(slabs[slab * words + words - 1])
    starts[degrees.shape[0]] = size
    return starts, listed


def bfs(
    backend: Backend, rows: NativeRows, sources: np.ndarray, depth_limit: int, want_predecessors: bool
) -> tuple[Array, Array | None]:
    """Search breadth first from all ``sources`` at once, top-down: unsorted rows do not give the smallest parent early.

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


@njit(borrows=True)
def d_push_row(slabs, heads, words, keys, u, level, distances, predecessors, queue, end):
    """Reach the neighbours in a row; return the new end of the queue."""
    unreached, keep_parents = np.iinfo(distances.dtype).max, predecessors.shape[0] > 0
    head = HEAD_WORDS * np.int64(u)
    first = np.int64(heads[head + FIRST])
    for base in range(first, first + heads[head + BUCKETS]):
        slab = np.int64(base)
        while slab != END:
            for place in range(slab * words, slab * words + keys):
                v = slabs[place]
                if v == EMPTY:  # so are all later keys
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


def pagerank(
    backend: Backend,
    rows: NativeRows,
    out_weights: Array | None,
    alpha: float,
    personalization: Array | None,
    start: Array,
    max_iter: int,
    tol: float,
) -> tuple[Array, int, float]:
    """Iterate :func:`~dynstore.algorithms.link_analysis.cpu.ranks.pagerank`, pulling over slabs.

    Parameters
    ----------
    rows : NativeRows
        The slab tables of a symmetric graph; weights are not used.
    out_weights : array, shape (V,), or None
        None: the degrees. All other parameters and the results are those of the function above.
    """
    table, num_vertices = rows.table, rows.num_vertices
    if num_vertices == 0:
        return start.copy(), 0, 0.0
    if out_weights is None:
        out_weights = table.column(DEGREE)[:num_vertices].astype(start.dtype)
    tables, uniform = (table.slabs, table.heads, table.words, table.keys), personalization is None
    targets = np.empty(0, dtype=start.dtype) if personalization is None else personalization

    def pull(shares: Array, spread: float, ranks: Array) -> float:
        change: float = k_pull_slabs(*tables, shares, alpha, spread, targets, uniform, ranks)
        return change

    return iterate_ranks(pull, out_weights, alpha, start, max_iter, tol)


@njit(cache=True, nogil=True)
def k_pull_slabs(slabs, heads, words, keys, shares, alpha, spread, targets, uniform, ranks):
    """Replace ``ranks`` by those of the next iteration; sums are float64. Returns the L1 change."""
    num_vertices = ranks.shape[0]
    change = 0.0
    for v in range(num_vertices):
        pulled = 0.0
        first = np.int64(heads[HEAD_WORDS * v + FIRST])
        for base in range(first, first + heads[HEAD_WORDS * v + BUCKETS]):
            slab = np.int64(base)
            while slab != END:
                for place in range(slab * words, slab * words + keys):
                    key = slabs[place]
                    if key == EMPTY:  # so are all later keys
                        break
                    if key != TOMBSTONE:
                        pulled += np.float64(shares[key])
                slab = np.int64(slabs[slab * words + words - 1])
        before = ranks[v]
        ranks[v] = alpha * pulled + spread * (1.0 / num_vertices if uniform else targets[v])
        change += abs(np.float64(ranks[v]) - before)
    return change
