"""Connected components on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["d_find_root", "label_components"]


def label_components(out: GapCSR, symmetric: bool = False) -> Array:
    """Label each vertex with the smallest vertex of its (weak) component.

    Union-find in one pass over the edges: the larger root is hooked under the smaller, as in Afforest (Sutton,
    Ben-Nun and Barak, "Optimizing Parallel Graph Connectivity Computation via Subgraph Sampling", IPDPS 2018,
    section III), and paths are halved (Tarjan and van Leeuwen, "Worst-case analysis of set union algorithms",
    JACM 31(2), 1984). Afforest's skipping of the largest component is not used: it needs both directions of each edge
    (``symmetric``), and a directed graph has only one.

    Returns
    -------
    array, shape (V,), vertex dtype
    """
    labels = np.arange(out.num_vertices, dtype=out.offsets.dtype)
    k_hook_edges(out.offsets, out.indices, out.valid, labels)
    return labels


@njit(cache=True, nogil=True)
def k_hook_edges(offsets, indices, valid, parents):
    """Unite the ends of every edge, then point each vertex at its root; ``parents[v] <= v`` throughout."""
    num_vertices = parents.shape[0]
    for u in range(num_vertices):
        root = d_find_root(parents, u)
        for p in range(offsets[u], offsets[u + 1]):
            v = indices[p]
            if parents[v] == root or not d_has_edge(valid, p):
                continue
            other = d_find_root(parents, v)
            if other < root:
                parents[root] = other
                root = other
            elif root < other:
                parents[other] = root
    for v in range(num_vertices):
        parents[v] = parents[parents[v]]


@njit(borrows=True)
def d_find_root(parents, v):
    """Return the root of ``v``, halving the path to it."""
    while parents[v] != v:
        parents[v] = parents[parents[v]]
        v = parents[v]
    return v
