"""One rank's part of a search for shortest paths on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.distributed.failures import FAILED, Failure
from dynstore.host_compiler import njit

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["Paths"]


@njit(cache=True, nogil=True)
def k_relax_rows(offsets, indices, valid, weights, rows, limit, distances, found):
    """Shorten in ``found`` the distances of the children of ``rows``; return whether one has fallen."""
    fallen = False
    for u in rows:
        for p in range(offsets[u], offsets[u + 1]):
            distance = distances[u] + weights[p]
            if distance < limit and distance < found[indices[p]] and d_has_edge(valid, p):
                found[indices[p]] = distance
                fallen = True
    return fallen


@njit(cache=True, nogil=True)
def k_find_parents(offsets, indices, valid, weights, rows, over_ties, distances, wanting, parents):
    """Keep the smallest of ``rows`` before each child that is ``wanting``; it is nearer, or as near with ``over_ties``.

    Gaps may hold any numbers, so a slot is looked at first.
    """
    for u in rows:
        for p in range(offsets[u], offsets[u + 1]):
            if d_has_edge(valid, p):
                v = indices[p]
                if wanting[v] and u < parents[v] and distances[u] + weights[p] == distances[v]:
                    if over_ties or distances[u] < distances[v]:
                        parents[v] = u


class Paths:
    """A rank's part of a search for shortest paths; see the one of ``cuda``."""

    def __init__(self, out: GapCSR, source: int, limit: float) -> None:
        weights: Array = out.weights
        self._source, self._unreached = source, np.finfo(weights.dtype).max
        self._edges = (out.offsets, out.indices, out.valid, weights)
        self._limit = weights.dtype.type(min(float(limit), float(self._unreached)))
        self._found = np.full(out.num_vertices + 1, self._unreached, weights.dtype)
        self.distances = self._found[:-1].copy()
        self.failure = Failure()
        start = self._found.copy()
        start[source] = 0
        self.take(start)
        self.failure.check()

    def relax(self) -> np.ndarray:
        """Relax edges of the vertices whose distance has fallen; return the distances, then 0, 1 or FAILED."""
        with self.failure:
            self._relax()
        if self.failure:
            self._found[-1] = FAILED
        return self._found

    def _relax(self) -> None:
        fallen = k_relax_rows(*self._edges, self._rows, self._limit, self.distances, self._found)
        self._found[-1] = 0 if fallen else 1

    def take(self, nearest: np.ndarray) -> None:
        """Take the shortest distances of all ranks; relax next what has fallen."""
        with self.failure:
            self._rows = np.flatnonzero(nearest[:-1] < self.distances)
            self._found[:] = nearest
            self.distances[:] = nearest[:-1]

    def find_predecessors(self, merge: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return a vertex before each on a shortest path, the smallest one; -1 for the source and unreached ones.

        The smallest that is nearer to the source. If weights of 0 leave none, the smallest of equal distance that needs
        fewer such edges: level by level, so that predecessors form no cycle.
        """
        dtype = self._edges[0].dtype
        unset, is_reached = np.iinfo(dtype).max, self.distances < self._unreached
        parents = np.full(len(is_reached), unset, dtype)
        self._find_parents(np.flatnonzero(is_reached), False, is_reached, parents)
        parents = merge(parents)
        parents[~is_reached] = parents[self._source] = -1
        wanting = is_reached
        while True:
            placed = np.flatnonzero(wanting & (parents != unset))
            wanting = parents == unset
            if not wanting.any():
                return parents
            self._find_parents(placed, True, wanting, parents)
            parents = merge(parents)

    def _find_parents(self, rows: np.ndarray, over_ties: bool, wanting: np.ndarray, parents: np.ndarray) -> None:
        k_find_parents(*self._edges, rows, over_ties, self.distances, wanting, parents)
