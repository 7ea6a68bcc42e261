"""Betweenness centrality: searches from many vertices at once, which share their passes over pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.centrality.scaling import draw_sources, scale_totals
from dynstore.algorithms.paged.pairs import Backward, Forward
from dynstore.algorithms.paged.searches import make_search, mark_leaves, read_notes, visit_leaves
from dynstore.algorithms.paged.states import FRONTIER, UNREACHED
from dynstore.errors import InputError

if TYPE_CHECKING:
    from dynstore.algorithms.paged.passes import PageReader
    from dynstore.typing import Array

__all__ = ["MAX_BATCH", "betweenness_centrality", "sum_dependencies"]

# Searches at once: a bit of a word each. By default no more than these pairs of a search and a vertex, 28 bytes each.
MAX_BATCH = 32
BATCH_PAIRS = 1 << 27


def betweenness_centrality(
    out: PageReader,
    k: Any = None,
    normalized: bool = True,
    endpoints: bool = False,
    random_state: int | None = None,
    symmetric: bool = False,
    batch: int | None = None,
) -> Array:
    """Measure how many shortest paths lead through each vertex, as :func:`dynstore.betweenness_centrality` does.

    Many searches run at once, as in Then et al., "The More the Merrier: Efficient Multi-Source Graph Traversal",
    PVLDB 8(4), 2014: a row is read once for all that have its vertex at the same level. A level is a pass forwards and
    a pass back, over the leaves with such rows.

    Parameters
    ----------
    out : PageReader
        Of the out-edges.
    k : int or array of int, optional
        How many vertices to sample, or row numbers. By default every vertex is a source.
    normalized, endpoints, random_state
        As for :func:`dynstore.betweenness_centrality`.
    symmetric : bool
        Whether each edge is there in both directions; then pairs are unordered.
    batch : int, optional
        How many searches run at once, 1 to 32. By default as many as take 3.5 GiB of device memory, or one.

    Returns
    -------
    array, shape (V,), float64

    Raises
    ------
    InputError
        If a source is not in the graph, ``k`` is larger than V, or ``batch`` is not 1 to 32.
    """
    sources = _read_sources(out.packed.num_vertices, k, random_state)
    totals = sum_dependencies(out, sources, endpoints, batch)
    return scale_totals(out.packed.backend, totals, sources, normalized, endpoints, not symmetric)


def sum_dependencies(out: PageReader, sources: np.ndarray, endpoints: bool = False, batch: int | None = None) -> Array:
    """Return the dependencies of some sources, summed at each vertex, float64, shape (V,); see the function above."""
    packed, num_vertices = out.packed, out.packed.num_vertices
    if batch is None:
        batch = min(max(BATCH_PAIRS // max(num_vertices, 1), 1), MAX_BATCH)
    if not 1 <= batch <= MAX_BATCH:
        raise InputError(f"betweenness_centrality: batch is {batch}; wanted 1 to {MAX_BATCH}")
    totals = packed.backend.zeros(num_vertices, np.float64)
    for first in range(0, sources.shape[0], batch):
        totals += _sum_batch(out, sources[first : first + batch], endpoints)
    return totals


def _read_sources(num_vertices: int, k: Any, seed: int | None) -> np.ndarray:
    if k is None or np.ndim(k) == 0:
        return draw_sources(num_vertices, k, seed)
    rows = np.asarray(k, np.int64)
    if rows.size == 0 or rows.min() < 0 or rows.max() >= num_vertices:
        raise InputError(f"betweenness_centrality: k is {k!r}; wanted row numbers below {num_vertices}")
    return rows


def _sum_batch(out: PageReader, sources: np.ndarray, endpoints: bool) -> Array:
    """Return the dependencies of some sources, summed, shape (V,)."""
    packed, backend = out.packed, out.packed.backend
    xp, num_searches, num_vertices = backend.xp, sources.shape[0], packed.num_vertices
    num_pairs = num_vertices * num_searches
    own = backend.asarray(sources * num_searches + np.arange(num_searches))
    levels, paths = backend.empty(num_pairs, np.int32), backend.zeros(num_pairs, np.float64)
    levels.fill(UNREACHED)
    levels[own] = 0
    paths[own] = 1.0
    masks = backend.zeros(num_vertices, np.uint32)
    depth = _count_paths(out, Forward(num_searches, masks, levels, paths))
    gathered = backend.zeros(num_pairs, np.float64)
    _gather(out, Backward(num_searches, masks, levels, 1.0 / xp.maximum(paths, 1.0), gathered), depth)
    gathered *= paths
    gathered[own] = 0.0
    if endpoints:
        # Every path from a source ends at one reached vertex; all begin at the source.
        found = (levels != UNREACHED).astype(np.float64)
        found[own] = found.reshape(num_vertices, num_searches).sum(axis=0) - 1.0
        gathered += found
    sums: Array = gathered.reshape(num_vertices, num_searches).sum(axis=1)
    return sums


def _count_paths(out: PageReader, pairs: Forward) -> int:
    """Search from all sources, level by level; return the last level."""
    packed, backend = out.packed, out.packed.backend
    kernels = backend.kernels("dynstore.algorithms.paged", "betweenness")
    search, depth = make_search(out, backend.empty(packed.num_vertices, np.int32)), 0
    while True:
        kernels.mask_rows(pairs, depth, search.distances)
        visit_leaves(out, kernels.count_paths, mark_leaves(out, search, depth, FRONTIER), search, pairs, depth)
        if out.extra is not None:
            kernels.count_slot_paths(out.extra, search, pairs, depth)
        if not read_notes(out, search):
            return depth
        depth += 1


def _gather(out: PageReader, pairs: Backward, last: int) -> None:
    """Add what vertices owe to those before them; the last level has nothing behind it, the sources owe nothing."""
    packed, backend = out.packed, out.packed.backend
    kernels = backend.kernels("dynstore.algorithms.paged", "betweenness")
    search = make_search(out, backend.empty(packed.num_vertices, np.int32))
    for depth in range(last - 1, 0, -1):
        kernels.mask_rows(pairs, depth, search.distances)
        visit_leaves(out, kernels.gather_owed, mark_leaves(out, search, depth, FRONTIER), search, pairs, depth)
        if out.extra is not None:
            kernels.gather_slot_owed(out.extra, pairs, depth)
        read_notes(out, search)
