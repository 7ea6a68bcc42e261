"""Betweenness by row: the sums over shortest paths, before they are scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore.algorithms.calls import run_native

if TYPE_CHECKING:
    import numpy as np

    from dynstore.graph import AnyGraph
    from dynstore.typing import Array

__all__ = ["sum_dependencies"]


def sum_dependencies(G: AnyGraph, sources: np.ndarray, endpoints: bool) -> Array:
    """Return the sum of each row over the shortest paths from the rows ``sources``, float64, shape (V,)."""
    totals: Array = run_native(G, "betweenness_centrality", sources, endpoints)
    if totals is None:
        out = G.snapshot()
        into = None if G.is_directed() else out
        kernels = G.core.backend.kernels("dynstore.algorithms.centrality")
        totals = kernels.accumulate_dependencies(out, into, sources, endpoints)
    return totals
