"""Betweenness centrality on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["accumulate_dependencies"]


def accumulate_dependencies(out: GapCSR, into: GapCSR | None, sources: np.ndarray, endpoints: bool) -> Array:
    """Sum the dependencies of ``sources`` on every vertex, not normalised.

    Brandes, "A Faster Algorithm for Betweenness Centrality", Journal of Mathematical Sociology 25(2), 2001,
    section 4. Dependencies are gathered over out-edges, level by level backwards, so no list of parents is kept.

    Parameters
    ----------
    out : GapCSR
        Out-edges.
    into : GapCSR or None
        In-edges; not used on the host.
    sources : numpy.ndarray, shape (K,), int64
    endpoints : bool
        Whether a path also counts at its two ends.

    Returns
    -------
    array, shape (V,), float64
        Sums over ordered pairs (source, target).
    """
    totals = np.zeros(out.num_vertices, dtype=np.float64)
    k_accumulate_sources(out.offsets, out.indices, out.valid, sources, endpoints, totals)
    return totals


@njit(cache=True, nogil=True)
def k_accumulate_sources(offsets, indices, valid, sources, endpoints, totals):
    """Add each source's dependencies to ``totals``: a forward search counts shortest paths, a backward pass sums."""
    num_vertices = totals.shape[0]
    order = np.empty(num_vertices, dtype=indices.dtype)
    levels = np.full(num_vertices, -1, dtype=indices.dtype)
    paths = np.zeros(num_vertices, dtype=np.float64)
    dependency = np.zeros(num_vertices, dtype=np.float64)
    for source in sources:
        levels[source] = 0
        paths[source] = 1.0
        order[0] = source
        first, last = 0, 1
        while first < last:
            u = order[first]
            first += 1
            for p in range(offsets[u], offsets[u + 1]):
                v = indices[p]
                if not d_has_edge(valid, p):
                    continue
                if levels[v] < 0:
                    levels[v] = levels[u] + 1
                    order[last] = v
                    last += 1
                if levels[v] == levels[u] + 1:
                    paths[v] += paths[u]
        # Farthest first: when u is reached, dependency[v] of its children is (1 + dependency) / paths.
        for q in range(last - 1, 0, -1):
            u = order[q]
            gathered = 0.0
            for p in range(offsets[u], offsets[u + 1]):
                v = indices[p]
                if levels[v] == levels[u] + 1 and d_has_edge(valid, p):
                    gathered += dependency[v]
            gathered *= paths[u]
            totals[u] += gathered + 1.0 if endpoints else gathered
            dependency[u] = (1.0 + gathered) / paths[u]
        if endpoints:
            totals[source] += last - 1
        for q in range(last):
            levels[order[q]] = -1
            paths[order[q]] = 0.0
