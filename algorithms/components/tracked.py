"""Tracked components: insertions unite labels, deletions search only where a spanning forest has lost an edge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.components.api import components_frame, read_components
from dynstore.algorithms.tracking import Answer
from dynstore.algorithms.traversal.api import search_hops
from dynstore.algorithms.traversal.tracked import grow, too_many

if TYPE_CHECKING:
    from dynstore.graph.delta import Delta
    from dynstore.typing import Array

__all__ = ["ComponentAnswer"]


class ComponentAnswer(Answer):
    """Labels and, once an edge has been deleted, a forest of shortest paths from the smallest vertex of each component.

    Deleting an edge outside the forest splits nothing (Even and Shiloach, "An On-Line Edge-Deletion Problem", JACM
    28(1), 1981, section 3). Of the vertices below a deleted forest edge, only those without another path of the same
    length are visited. A directed graph makes its in-edge orientation for this, and keeps it from then on.
    """

    _labels: Array
    _forest: tuple[Array, Array] | None = None  # distances and predecessors
    _deletes = False

    def read_params(self) -> bool:
        read_components(**self.params)
        return True

    def recompute(self) -> None:
        G, out = self.G, self.G.snapshot()
        kernels = G.backend.kernels("dynstore.algorithms.components", "labels")
        self._labels = kernels.label_components(out, not G.is_directed())
        self.edge_visits = out.num_edges
        self._forest = self._grow_forest() if self._deletes else None

    def advance(self, delta: Delta) -> bool:
        backend, xp, out = self.G.backend, self.G.backend.xp, self.G.snapshot()
        numbers = xp.arange(out.num_vertices, dtype=self._labels.dtype)
        before = numbers.copy()
        before[: self._labels.shape[0]] = self._labels
        kernels = backend.kernels("dynstore.algorithms.components", "changes")
        if self._forest is None:
            self._deletes = delta.may_delete and bool((delta.before & (delta.slots < 0)).any())
            if self._deletes:
                return False
            self._labels, self.edge_visits = kernels.unite_components((out,), delta, numbers[:0], before)
            return True
        weak, into = self.G.is_directed(), self.G.snapshot(transposed=True)
        paths = backend.kernels("dynstore.algorithms.traversal", "repair")
        distances = grow(backend, self._forest[0], out.num_vertices, 0)  # a new vertex is its own component
        predecessors = grow(backend, self._forest[1], out.num_vertices, -1)
        suspects = paths.find_suspects(out, delta, distances, predecessors, weak)
        # A parent across an inserted edge would hide that the child has left the component of its label.
        lost, visits = paths.invalidate(out, into, suspects, distances, predecessors, weak, before)
        if too_many(lost.shape[0], out.num_vertices):
            return False
        sides = (out, into) if weak else (out,)
        labels, seen = kernels.unite_components(sides, delta, lost, before.copy())
        merged = numbers[(before == numbers) & (labels != numbers)]
        split = lost[labels[lost] == lost]
        # A merge keeps one of two smallest vertices as the root: the tree of the other moves to it.
        moved, more = paths.invalidate(out, into, merged, distances, predecessors, weak)
        if too_many(moved.shape[0], out.num_vertices):
            return False
        lost = xp.concatenate((lost, moved))
        limit = int(np.iinfo(distances.dtype).max)
        reached, settled = paths.relax(out, into, lost, split, delta, limit, distances, weak)
        touched = xp.unique(xp.concatenate((lost, reached)))
        _, fitted = paths.refit(out, into, touched, delta, distances, predecessors, weak)
        self._labels, self._forest = labels, (distances, predecessors)
        self.edge_visits = visits + seen + more + settled + fitted
        return True

    def frame(self) -> Any:
        return components_frame(self.G, self._labels.copy())

    def _grow_forest(self) -> tuple[Array, Array]:
        G, xp, out = self.G, self.G.backend.xp, self.G.snapshot()
        numbers = xp.arange(out.num_vertices, dtype=self._labels.dtype)
        roots, limit = numbers[self._labels == numbers], int(np.iinfo(numbers.dtype).max)
        if not G.is_directed():
            self.edge_visits += out.num_edges
            distances, predecessors = search_hops(G, G.backend.to_host(roots), limit)
            assert predecessors is not None
            return distances, predecessors
        into = G.snapshot(transposed=True)
        paths = G.backend.kernels("dynstore.algorithms.traversal", "repair")
        distances, predecessors = xp.full_like(numbers, limit), xp.full_like(numbers, -1)
        _, visits = paths.relax(out, into, roots[:0], roots, None, limit, distances, True)
        _, more = paths.refit(out, into, numbers, None, distances, predecessors, True)
        self.edge_visits += visits + more
        return distances, predecessors
