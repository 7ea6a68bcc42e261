"""Which vertices paths start from, and the scaling of what is summed over them: the same for all kinds of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.arguments import check_count
from dynstore.errors import InputError

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.typing import Array

__all__ = ["draw_sources", "scale_factors", "scale_totals"]


def draw_sources(num_vertices: int, k: int | np.integer | None, seed: int | None) -> np.ndarray:
    """Return ``k`` rows, drawn without repetition, int64; all of them for None."""
    if k is None:
        return np.arange(num_vertices, dtype=np.int64)
    if not 0 < k <= num_vertices:
        raise InputError(f"betweenness_centrality: k is {k}; wanted 1 to {num_vertices}, the number of vertices")
    if seed is not None:
        check_count("betweenness_centrality", "random_state", seed)
    return np.random.default_rng(seed).choice(num_vertices, size=int(k), replace=False).astype(np.int64)


def scale_totals(
    backend: Backend, totals: Array, sources: np.ndarray, normalized: bool, endpoints: bool, directed: bool
) -> Array:
    """Return the centrality of each row, shape (V,), from the summed dependencies of ``sources``."""
    num_vertices = int(totals.shape[0])
    at_sources, elsewhere = scale_factors(num_vertices, sources.shape[0], normalized, endpoints, directed)
    factors = backend.empty(num_vertices, np.float64)
    factors.fill(elsewhere)
    factors[backend.asarray(sources)] = at_sources
    values: Array = totals * factors
    return values


def scale_factors(
    num_vertices: int, num_sources: int, normalized: bool, endpoints: bool, directed: bool
) -> tuple[float, float]:
    """Return the scaling factors for sources and for other vertices.

    Without endpoints a source is no inner vertex of its own paths, so its sum comes from one source fewer.
    """
    others = num_vertices if endpoints else num_vertices - 1
    if others < 2:
        return 1.0, 1.0
    factors = []
    for speaking in (num_sources if endpoints else num_sources - 1, num_sources):
        pairs = speaking * (others - 1) if normalized else speaking * (1 if directed else 2) / others
        factors.append(1.0 / pairs if pairs else np.nan)
    return factors[0], factors[1]
