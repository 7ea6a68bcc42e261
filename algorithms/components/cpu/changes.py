"""Update components after edges have changed: unite them, and label split ones again, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.components.cpu.labels import d_find_root
from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.graph.delta import Delta
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["unite_components"]


def unite_components(sides: tuple[GapCSR, ...], delta: Delta, lost: Array, labels: Array) -> tuple[Array, int]:
    """Unite components that inserted edges join, and find the components of lost vertices.

    Parameters
    ----------
    sides : tuple of GapCSR
        Out-edges and, for a directed graph with lost vertices, in-edges.
    delta : Delta
    lost : array, vertex dtype
        Vertices that may have left the component of their label; all others have not.
    labels : array, shape (V,), vertex dtype
        The smallest vertex of each vertex's component before; overwritten.

    Returns
    -------
    labels : array, shape (V,), vertex dtype
    visits : int
        Edges visited.
    """
    labels[lost] = lost
    visits = len(delta)
    k_unite_inserted(delta.src, delta.dst, delta.slots, delta.before, labels)
    for csr in sides:
        visits += int(k_unite_rows(csr.offsets, csr.indices, csr.valid, lost, labels))
    k_flatten_trees(labels)
    return labels, visits


@njit(borrows=True)
def d_unite(parents, u, v):
    """Hook the larger root under the smaller."""
    first, second = d_find_root(parents, u), d_find_root(parents, v)
    parents[max(first, second)] = min(first, second)


@njit(cache=True, nogil=True)
def k_unite_inserted(src, dst, slots, before, parents):
    for i in range(src.shape[0]):
        if slots[i] >= 0 and not before[i]:
            d_unite(parents, src[i], dst[i])


@njit(cache=True, nogil=True)
def k_unite_rows(offsets, indices, valid, rows, parents):
    """Unite the ends of all edges of some rows; return the number of slots read."""
    visits = np.int64(0)
    for u in rows:
        visits += offsets[u + 1] - offsets[u]
        for p in range(offsets[u], offsets[u + 1]):
            if d_has_edge(valid, p):
                d_unite(parents, u, indices[p])
    return visits


@njit(cache=True, nogil=True)
def k_flatten_trees(parents):
    """Point each vertex at its root; parents are smaller, so their own trees are flat already."""
    for v in range(parents.shape[0]):
        parents[v] = parents[parents[v]]
