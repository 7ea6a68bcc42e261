"""Tracked components: insertions unite labels, deletions search only where a spanning forest has lost an edge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.answers import TrackedAnswer
from dynstore.algorithms.components.by_row import components_frame, read_components
from dynstore.algorithms.traversal.by_row import search_hops
from dynstore.algorithms.traversal.tracked import InEdges, grow

if TYPE_CHECKING:
    from dynstore.algorithms.costs import Budget
    from dynstore.graph import DynamicGraph
    from dynstore.graph.delta import Delta
    from dynstore.typing import Array

__all__ = ["ComponentAnswer"]


class ComponentAnswer(TrackedAnswer):
    """Labels and, once an edge has been deleted, a forest of shortest paths from the smallest vertex of each component.

    Deleting an edge outside the forest splits nothing (Even and Shiloach, "An On-Line Edge-Deletion Problem", JACM
    28(1), 1981, section 3). Of the vertices below a deleted forest edge, only those without another path of the same
    length are visited. A directed graph has to have in-edges for this.
    """

    _labels: Array
    _forest: tuple[Array, Array] | None = None  # distances and predecessors

    def __init__(self, G: DynamicGraph, **params: Any) -> None:
        super().__init__(G, **params)
        self._in_edges = InEdges(G)

    def read_params(self) -> bool:
        read_components(**self.params)
        return True

    def recompute(self, warm: bool = False) -> None:
        G, out = self.G, self.G.snapshot()
        kernels = G.core.backend.kernels("dynstore.algorithms.components", "labels")
        self._labels = kernels.label_components(out, not G.is_directed())
        self.edge_visits, self._forest = out.num_edges, None

    def is_ready(self, deletes: bool) -> bool:
        return self.is_prepared or not deletes

    @property
    def is_prepared(self) -> bool:
        return self._forest is not None and bool(self._in_edges)

    def release(self) -> None:
        self._in_edges.drop()

    @property
    def upkeep_s(self) -> float:
        return self._in_edges.upkeep_s

    def prepare(self, budget: Budget) -> bool:
        self.recompute()
        self._in_edges.make()
        self._forest = self._grow_forest(budget)
        self.edge_visits += budget.visits
        return True

    def advance(self, delta: Delta, budget: Budget) -> bool:
        backend, xp, out = self.G.core.backend, self.G.core.backend.xp, self.G.snapshot()
        numbers = xp.arange(out.num_vertices, dtype=self._labels.dtype)
        before = numbers.copy()
        before[: self._labels.shape[0]] = self._labels
        kernels = backend.kernels("dynstore.algorithms.components", "changes")
        if self._forest is None or not self._in_edges:  # there were no deletions
            self._forest = None
            self._labels, self.edge_visits = kernels.unite_components((out,), delta, numbers[:0], before)
            return True
        weak, into = self.G.is_directed(), self.G.snapshot(transposed=True)
        paths = backend.kernels("dynstore.algorithms.traversal", "repair")
        distances = grow(backend, self._forest[0], out.num_vertices, 0)  # a new vertex is its own component
        predecessors = grow(backend, self._forest[1], out.num_vertices, -1)
        suspects = paths.find_suspects(out, delta, distances, predecessors, weak)
        # A parent across an inserted edge would hide that the child has left the component of its label.
        lost = paths.invalidate(out, into, suspects, distances, predecessors, weak, budget, before)
        if budget.is_spent:
            return False
        sides = (out, into) if weak else (out,)
        labels, seen = kernels.unite_components(sides, delta, lost, before.copy())
        budget.note(seen)
        merged = numbers[(before == numbers) & (labels != numbers)]
        split = lost[labels[lost] == lost]
        # A merge keeps one of two smallest vertices as the root: the tree of the other moves to it.
        moved = paths.invalidate(out, into, merged, distances, predecessors, weak, budget)
        if budget.is_spent:
            return False
        lost = xp.concatenate((lost, moved))
        limit = int(np.iinfo(distances.dtype).max)
        touched = paths.relax(out, into, lost, split, delta, limit, distances, weak, budget)
        if budget.is_spent:
            return False
        paths.refit(out, into, touched, delta, distances, predecessors, weak, budget)
        self._labels, self._forest = labels, (distances, predecessors)
        self.edge_visits = budget.visits
        return not budget.is_spent

    def arrays(self) -> tuple[Array]:
        (labels,) = self.G.core.backend.copies(self._labels)
        return (labels,)

    def frame(self) -> Any:
        return components_frame(self.G, *self.arrays())

    def _grow_forest(self, budget: Budget) -> tuple[Array, Array] | None:
        """Return the forest; None if the budget is spent before it is complete."""
        G, xp, out = self.G, self.G.core.backend.xp, self.G.snapshot()
        numbers = xp.arange(out.num_vertices, dtype=self._labels.dtype)
        roots, limit = numbers[self._labels == numbers], int(np.iinfo(numbers.dtype).max)
        if not G.is_directed():
            budget.note(out.num_edges)
            distances, predecessors = search_hops(G, G.core.backend.to_host(roots), limit)
            assert predecessors is not None
            return distances, predecessors
        into = G.snapshot(transposed=True)
        paths = G.core.backend.kernels("dynstore.algorithms.traversal", "repair")
        distances, predecessors = xp.full_like(numbers, limit), xp.full_like(numbers, -1)
        paths.relax(out, into, roots[:0], roots, None, limit, distances, True, budget)
        if budget.is_spent:
            return None
        paths.refit(out, into, numbers, None, distances, predecessors, True, budget)
        return None if budget.is_spent else (distances, predecessors)
