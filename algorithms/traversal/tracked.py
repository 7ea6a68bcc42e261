"""Tracked shortest paths: vertices that deletions leave without support are found again; insertions shorten locally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.tracking import Answer
from dynstore.algorithms.traversal.api import bfs_frame, read_bfs, read_sssp, search_hops, search_lengths, sssp_frame

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.graph.delta import Delta
    from dynstore.typing import Array

__all__ = ["BfsAnswer", "PathAnswer", "SsspAnswer", "grow", "too_many"]

# If more than this share of the vertices lose their distance, searching anew is cheaper. So few are always repaired.
LOST_SHARE = 1 / 8
MIN_LOST = 1024


def grow(backend: Backend, array: Array, size: int, value: Any) -> Array:
    """Return a copy of ``array`` with ``size`` entries; new ones are ``value``."""
    longer = backend.empty(size, array.dtype)
    longer[: array.shape[0]] = array
    longer[array.shape[0] :] = value
    return longer


def too_many(num_lost: int, num_vertices: int) -> bool:
    """Whether searching anew is cheaper, as many vertices have lost their distance."""
    return num_lost > max(MIN_LOST, LOST_SHARE * num_vertices)


class PathAnswer(Answer):
    """Base class of searches by hops and by lengths.

    A directed graph makes its in-edge orientation for the first update, and keeps it from then on.
    """

    _start: tuple[Any, ...] | None = None  # start rows, and the limit of distances
    _limit: Any  # all distances stay below it
    _unreached: Any
    _distances: Array
    _predecessors: Array
    # Whether an edge of length 0 joins equal distances. Then parents are not nearer, and support cannot be decided.
    _tied = False

    def advance(self, delta: Delta) -> bool:
        if self._tied or self._has_negative_weights(delta):
            return False
        backend, out, into = self.G.backend, self.G.snapshot(), self.G.snapshot(transposed=True)
        kernels = backend.kernels("dynstore.algorithms.traversal", "repair")
        distances = grow(backend, self._distances, out.num_vertices, self._unreached)
        predecessors = grow(backend, self._predecessors, out.num_vertices, -1)
        suspects = kernels.find_suspects(out, delta, distances, predecessors, False)
        lost, visits = kernels.invalidate(out, into, suspects, distances, predecessors, False)
        if too_many(lost.shape[0], out.num_vertices):
            return False
        reached, seen = kernels.relax(out, into, lost, lost[:0], delta, self._limit, distances, False)
        touched = backend.xp.unique(backend.xp.concatenate((lost, reached)))
        self._tied, more = kernels.refit(out, into, touched, delta, distances, predecessors, False)
        self._distances, self._predecessors = distances, predecessors
        self.edge_visits = visits + seen + more
        return not self._tied

    def _has_negative_weights(self, delta: Delta) -> bool:
        return False


class BfsAnswer(PathAnswer):
    """Distances in edges."""

    def read_params(self) -> bool:
        params = dict(self.params)
        self._parents = bool(params.pop("return_predecessors", True))
        sources, limit = read_bfs(self.G, **params)
        before, self._start = self._start, (sources.tolist(), limit)
        self._unreached = int(np.iinfo(self.G.vertex_dtype).max)
        self._limit = min(limit, self._unreached - 1) + 1
        return before == self._start

    def recompute(self) -> None:
        assert self._start is not None
        found = search_hops(self.G, np.array(self._start[0]), self._start[1])
        self._distances, self._predecessors = found
        self.edge_visits = self.G.snapshot().num_edges

    def frame(self) -> Any:
        return bfs_frame(self.G, self._distances.copy(), self._predecessors.copy() if self._parents else None)


class SsspAnswer(PathAnswer):
    """Distances in sums of weights."""

    def read_params(self) -> bool:
        before, self._start = self._start, read_sssp(self.G, **self.params)
        self._unreached = float(np.finfo(self.G.weight_dtype).max)
        self._limit = min(self._start[1], self._unreached)
        return before == self._start

    def recompute(self) -> None:
        assert self._start is not None
        self._distances, self._predecessors = search_lengths(self.G, *self._start)
        out = self.G.snapshot()
        self._tied = self.G.backend.kernels("dynstore.algorithms.traversal", "repair").has_ties(out, self._distances)
        self.edge_visits = out.num_edges

    def frame(self) -> Any:
        return sssp_frame(self.G, self._distances.copy(), self._predecessors.copy())

    def _has_negative_weights(self, delta: Delta) -> bool:
        weights: Array = self.G.snapshot().weights
        return delta.may_insert and bool((weights[delta.slots[delta.slots >= 0]] < 0).any())
