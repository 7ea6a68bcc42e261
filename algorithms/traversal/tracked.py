"""Tracked shortest paths: vertices that deletions leave without support are found again; insertions shorten locally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.answers import TrackedAnswer
from dynstore.algorithms.traversal.by_row import bfs_frame, read_bfs, read_sssp, search_hops, search_lengths, sssp_frame

if TYPE_CHECKING:
    from dynstore.algorithms.costs import Budget
    from dynstore.backend import Backend
    from dynstore.graph import DynamicGraph
    from dynstore.graph.delta import Delta
    from dynstore.typing import Array

__all__ = ["BfsAnswer", "InEdges", "PathAnswer", "SsspAnswer", "grow"]


def grow(backend: Backend, array: Array, size: int, value: Any) -> Array:
    """Return ``array``, or where it is shorter a copy with ``size`` entries; new ones are ``value``.

    An attempt writes to the state that it starts from: if it is given up or fails, the answer is computed anew.
    """
    if array.shape[0] == size:
        return array
    longer = backend.empty(size, array.dtype)
    longer[: array.shape[0]] = array
    longer[array.shape[0] :] = value
    return longer


class InEdges:
    """The in-edges of a directed graph, as long as an answer wants to have them; an undirected graph needs none."""

    def __init__(self, G: DynamicGraph) -> None:
        self._graph, self._made = G, False

    def __bool__(self) -> bool:
        return not self._graph.is_directed() or self._graph.core.into is not None

    def make(self) -> None:
        """Make them, and let updates keep them from then on."""
        self._made |= not self
        self._graph.snapshot(transposed=True)

    def drop(self) -> None:
        """Drop them if this has made them and nothing else uses them."""
        if self._made:
            self._made = not self._graph.core.drop_in_edges()

    @property
    def upkeep_s(self) -> float:
        """What updates have spent on in-edges that this has made, and on no others."""
        return self._graph.core.in_seconds if self._made else 0.0


class PathAnswer(TrackedAnswer):
    """Base class of searches by hops and by lengths; a directed graph has to have in-edges for the incremental way."""

    _start: tuple[Any, ...] | None = None  # start rows, and the limit of distances
    _limit: Any  # all distances stay below it
    _unreached: Any
    _distances: Array
    _predecessors: Array
    # Whether an edge of length 0 joins equal distances. Then parents are not nearer, and support cannot be decided.
    _tied: bool | None = False  # None: not known yet

    def __init__(self, G: DynamicGraph, **params: Any) -> None:
        super().__init__(G, **params)
        self._in_edges = InEdges(G)

    def is_ready(self, deletes: bool) -> bool:
        return self._tied is False and bool(self._in_edges)

    @property
    def is_prepared(self) -> bool:
        return self.G.is_directed() and bool(self._in_edges)

    def prepare(self, budget: Budget) -> bool:
        self.recompute()
        self._in_edges.make()
        return True

    def release(self) -> None:
        self._in_edges.drop()

    @property
    def upkeep_s(self) -> float:
        return self._in_edges.upkeep_s

    def advance(self, delta: Delta, budget: Budget) -> bool:
        if self._has_negative_weights(delta):
            return False
        backend, out, into = self.G.core.backend, self.G.snapshot(), self.G.snapshot(transposed=True)
        kernels = backend.kernels("dynstore.algorithms.traversal", "repair")
        distances = grow(backend, self._distances, out.num_vertices, self._unreached)
        predecessors = grow(backend, self._predecessors, out.num_vertices, -1)
        tied = kernels.repair_paths(out, into, delta, self._limit, distances, predecessors, budget)
        self.edge_visits = budget.visits
        if budget.is_spent:
            return False
        self._distances, self._predecessors, self._tied = distances, predecessors, tied
        return not tied

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

    def recompute(self, warm: bool = False) -> None:
        assert self._start is not None
        found = search_hops(self.G, np.array(self._start[0]), self._start[1])
        self._distances, self._predecessors = found
        self.edge_visits = self.G.snapshot().num_edges

    def arrays(self) -> tuple[Array, Array | None]:
        if not self._parents:
            (distances,) = self.G.core.backend.copies(self._distances)
            return distances, None
        distances, predecessors = self.G.core.backend.copies(self._distances, self._predecessors)
        return distances, predecessors

    def frame(self) -> Any:
        return bfs_frame(self.G, *self.arrays())


class SsspAnswer(PathAnswer):
    """Distances in sums of weights."""

    def read_params(self) -> bool:
        before, self._start = self._start, read_sssp(self.G, **self.params)
        self._unreached = float(np.finfo(self.G.weight_dtype).max)
        self._limit = min(self._start[1], self._unreached)
        return before == self._start

    def recompute(self, warm: bool = False) -> None:
        assert self._start is not None
        self._distances, self._predecessors = search_lengths(self.G, *self._start)
        self.edge_visits = self.G.snapshot().num_edges
        self._tied = None

    def inspect(self) -> None:
        if self._tied is None:
            kernels = self.G.core.backend.kernels("dynstore.algorithms.traversal", "repair")
            self._tied = kernels.has_ties(self.G.snapshot(), self._distances)

    def arrays(self) -> tuple[Array, Array]:
        distances, predecessors = self.G.core.backend.copies(self._distances, self._predecessors)
        return distances, predecessors

    def frame(self) -> Any:
        return sssp_frame(self.G, *self.arrays())

    def _has_negative_weights(self, delta: Delta) -> bool:
        weights: Array = self.G.snapshot().weights
        return delta.may_insert and bool((weights[delta.slots[delta.slots >= 0]] < 0).any())
