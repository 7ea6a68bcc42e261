"""Triangle counting on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["count_triangles"]


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
    k_count_forward(*k_orient_by_degree(csr.offsets, csr.indices, csr.valid), counts)
    return counts


@njit(cache=True, nogil=True)
def k_orient_by_degree(offsets, indices, valid):
    """Return the packed CSR of the edges that point from lower to higher (degree, id), loops left out."""
    num_vertices = offsets.shape[0] - 1
    degrees = np.zeros(num_vertices, dtype=offsets.dtype)
    for u in range(num_vertices):
        degree = 0
        for p in range(offsets[u], offsets[u + 1]):
            if indices[p] != u and d_has_edge(valid, p):
                degree += 1
        degrees[u] = degree
    arcs = np.empty(degrees.sum() // 2, dtype=indices.dtype)
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
    return starts, arcs


@njit(cache=True, nogil=True)
def k_count_forward(starts, arcs, counts):
    """Add the triangles u -> v -> w, u -> w of the oriented graph to the counts of u, v and w."""
    mark = np.full(counts.shape[0], -1, dtype=arcs.dtype)
    for u in range(counts.shape[0]):
        for p in range(starts[u], starts[u + 1]):
            mark[arcs[p]] = u
        at_u = 0
        for p in range(starts[u], starts[u + 1]):
            v = arcs[p]
            at_v = 0
            for q in range(starts[v], starts[v + 1]):
                w = arcs[q]
                if mark[w] == u:
                    at_v += 1
                    counts[w] += 1
            counts[v] += at_v
            at_u += at_v
        counts[u] += at_u
