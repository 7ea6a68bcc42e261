"""Triangle counting on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["Part", "count_triangles"]


def count_triangles(csr: GapCSR) -> Array:
    """Count the triangles at each vertex.

    The *forward* algorithm of Schank and Wagner, "Finding, Counting and Listing All Triangles in Large Graphs, An
    Experimental Study", WEA 2005, section 3: each edge points from the lower to the higher (degree, id), so every
    triangle is found once and no list is longer than sqrt(2 E). Lists are intersected by marking one of them, as in
    Ortmann and Brandes, "Triangle Listing Algorithms: Back from the Diversion", ALENEX 2014, section 3.

    Parameters
    ----------
    csr : GapCSR
        A symmetric graph; self-loops are ignored.

    Returns
    -------
    array, shape (V,), vertex dtype
        Every triangle counts at its three corners.
    """
    dtype = csr.offsets.dtype
    counts = np.zeros(csr.num_vertices, dtype=dtype)
    degrees = k_count_neighbors(csr.offsets, csr.indices, csr.valid)
    arcs = k_orient_by_degree(csr.offsets, csr.indices, csr.valid, degrees, int(degrees.sum()) // 2)
    k_count_forward(*arcs, *arcs, counts)
    return counts


class Part:
    """The arcs of some rows of a graph; see the one of ``cuda``."""

    def __init__(self, csr: GapCSR, degrees: np.ndarray) -> None:
        self._starts, heads = k_orient_by_degree(csr.offsets, csr.indices, csr.valid, degrees, csr.num_edges)
        tails = np.repeat(np.arange(csr.num_vertices, dtype=heads.dtype), np.diff(self._starts))
        self.arcs = tails, heads

    def count_closed(self, tails: np.ndarray, heads: np.ndarray) -> np.ndarray:
        """Count the triangles at each vertex whose first two arcs are here, and whose third is among others."""
        counts = np.zeros(len(self._starts) - 1, np.int64)
        starts = np.searchsorted(tails, np.arange(len(self._starts), dtype=tails.dtype)).astype(self._starts.dtype)
        k_count_forward(self._starts, self.arcs[1], starts, heads, counts)
        return counts


@njit(cache=True, nogil=True)
def k_count_neighbors(offsets, indices, valid):
    """Return each vertex's number of edges, loops left out."""
    num_vertices = offsets.shape[0] - 1
    degrees = np.zeros(num_vertices, dtype=offsets.dtype)
    for u in range(num_vertices):
        degree = 0
        for p in range(offsets[u], offsets[u + 1]):
            if indices[p] != u and d_has_edge(valid, p):
                degree += 1
        degrees[u] = degree
    return degrees


@njit(cache=True, nogil=True)
def k_orient_by_degree(offsets, indices, valid, degrees, max_arcs):
    """Return the packed CSR of the edges that point from lower to higher (degree, id), loops left out."""
    num_vertices = offsets.shape[0] - 1
    arcs = np.empty(max_arcs, dtype=indices.dtype)
    starts = np.empty(num_vertices + 1, dtype=offsets.dtype)
    filled = 0
    for u in range(num_vertices):
        starts[u] = filled
        for p in range(offsets[u], offsets[u + 1]):
            v = indices[p]
            higher = degrees[u] < degrees[v] or (degrees[u] == degrees[v] and u < v)
            if higher and d_has_edge(valid, p):
                arcs[filled] = v
                filled += 1
    starts[num_vertices] = filled
    return starts, arcs[:filled]


@njit(cache=True, nogil=True)
def k_count_forward(starts, arcs, closing_starts, closing, counts):
    """Add the triangles u -> v, u -> w of oriented edges, v -> w of ``closing`` ones, to the counts of u, v and w."""
    mark = np.full(counts.shape[0], -1, dtype=arcs.dtype)
    for u in range(counts.shape[0]):
        for p in range(starts[u], starts[u + 1]):
            mark[arcs[p]] = u
        at_u = 0
        for p in range(starts[u], starts[u + 1]):
            v = arcs[p]
            at_v = 0
            for q in range(closing_starts[v], closing_starts[v + 1]):
                w = closing[q]
                if mark[w] == u:
                    at_v += 1
                    counts[w] += 1
            counts[v] += at_v
            at_u += at_v
        counts[u] += at_u
