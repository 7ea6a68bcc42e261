"""Tracked triangle counts, updated by the triangles that appear and disappear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynstore.algorithms.answers import TrackedAnswer
from dynstore.algorithms.community.by_row import chosen_counts, read_chosen
from dynstore.algorithms.traversal.tracked import grow

if TYPE_CHECKING:
    from dynstore.algorithms.costs import Budget
    from dynstore.graph.delta import Delta
    from dynstore.typing import Array

__all__ = ["TriangleAnswer"]


class TriangleAnswer(TrackedAnswer):
    """The counts of all vertices."""

    _counts: Array
    _chosen: Array | None

    def read_params(self) -> bool:
        self._chosen = read_chosen(self.G, self.params.get("start_list"))
        return True  # which counts are reported does not change the counts

    def recompute(self, warm: bool = False) -> None:
        csr = self.G.snapshot()
        self._counts = self.G.core.backend.kernels("dynstore.algorithms.community", "triangles").count_triangles(csr)
        self.edge_visits = csr.num_edges

    def advance(self, delta: Delta, budget: Budget) -> bool:
        backend, csr = self.G.core.backend, self.G.snapshot()
        counts = grow(backend, self._counts, csr.num_vertices, 0)
        kernels = backend.kernels("dynstore.algorithms.community", "changes")
        self.edge_visits = kernels.update_triangles(csr, delta, counts, budget)
        self._counts = counts
        return not budget.is_spent

    def arrays(self) -> tuple[Array]:
        (counts,) = self.G.core.backend.copies(self._counts)
        return (counts,)

    def frame(self) -> Any:
        return chosen_counts(self.G, *self.arrays(), self._chosen)
