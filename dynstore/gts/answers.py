"""The paper's five algorithms; each makes some passes of a :class:`~dynstore.gts.streaming.Streamer`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynstore.gts.streaming import Streamer
    from dynstore.typing import Array

__all__ = [
    "label_components",
    "measure_centrality",
    "no_vertex",
    "push_shares",
    "rank",
    "search",
    "search_lengths",
    "take_pages",
    "traverse",
]


def traverse(
    streamer: Streamer,
    kernels: tuple[Any, Any],
    sources: np.ndarray,
    written: Sequence[Any],
    read: Sequence[np.ndarray] = (),
    most: int | None = None,
) -> list[np.ndarray]:
    """Run a BFS-like algorithm level by level, until kernels mark no more pages.

    Parameters
    ----------
    sources : numpy.ndarray, int64
        The vertices of level 0.
    written, read : sequences
        See :meth:`Streamer.stream`. Before ``written`` kernels get the bits of the next level's pages, and the level.
    most : int, optional
        How many levels are run at most.

    Returns
    -------
    list of numpy.ndarray
        The pages of each level.
    """
    backend = streamer.backend
    next_pages = backend.zeros(-(-streamer.topology.num_pages // 32), np.uint32)
    pids = streamer.topology.pages_of(sources)
    levels: list[np.ndarray] = []
    while pids.shape[0] and (most is None or len(levels) < most):
        streamer.stream(pids, kernels, (next_pages, len(levels), *written), read)
        levels.append(pids)
        pids = take_pages(streamer, next_pages)
    return levels


def take_pages(streamer: Streamer, next_pages: Array) -> np.ndarray:
    """Return the ids of the pages whose bits are set, ascending, and clear the bits."""
    bits = np.unpackbits(streamer.backend.to_host(next_pages).view(np.uint8), bitorder="little")
    next_pages.fill(0)
    return np.flatnonzero(bits)


def search(streamer: Streamer, sources: np.ndarray, depth: int, parents: bool) -> tuple[Array, Array | None]:
    """Search breadth first; return distances, and the smallest predecessors unless ``parents`` is False."""
    backend, dtype = streamer.backend, streamer.topology.degrees.dtype
    xp, num_vertices, unreached = backend.xp, streamer.topology.num_vertices, np.iinfo(dtype).max
    levels = xp.full(num_vertices, unreached, dtype=dtype)
    levels[backend.asarray(sources)] = 0
    found = xp.full(num_vertices if parents else 0, unreached, dtype=dtype)
    traverse(streamer, backend.kernels("dynstore.gts", "search").SEARCH, sources, (levels, found), most=depth)
    return levels, no_vertex(xp, found) if parents else None


def search_lengths(streamer: Streamer, source: int, limit: float, parents: bool = True) -> tuple[Array, Array | None]:
    """Find shortest paths; return distances, float32, and predecessors unless ``parents`` is False."""
    backend, topology = streamer.backend, streamer.topology
    xp, num_vertices, dtype = backend.xp, topology.num_vertices, topology.degrees.dtype
    kernels = backend.kernels("dynstore.gts", "paths")
    unreached = float(np.finfo(np.float32).max)
    distances = xp.full(num_vertices, unreached, dtype=np.float32)
    turns = xp.full(num_vertices, -1, dtype=np.int32)
    distances[source], turns[source] = 0, 0
    written = distances, turns, min(limit, unreached)
    levels = traverse(streamer, kernels.RELAX, np.array([source]), written)
    if not parents:
        return distances, None
    # Parents are found afterwards, among all edges of the vertices that were reached. Each stage but the first one is
    # for edges of weight 0 alone.
    pids = np.unique(np.concatenate(levels))
    found = xp.full(num_vertices, np.iinfo(dtype).max, dtype=dtype)
    stages = turns
    stages.fill(np.iinfo(np.int32).max)
    stages[distances == np.float32(unreached)] = -1
    stages[source] = -1
    left, stage = num_vertices + 1, 0
    # Stage 0 may find none, if all paths have length 0; each later stage that is not the last one finds some.
    while (waiting := int((stages >= stage).sum())) and (stage < 2 or waiting < left):
        streamer.stream(pids, kernels.FIND_PARENTS, (stage, distances, stages, found))
        left, stage = waiting, stage + 1
    return distances, no_vertex(xp, found)


def rank(
    streamer: Streamer, alpha: float, limit: int, tol: float, push: Callable[[float, Array], Array] | None = None
) -> tuple[Array, float]:
    """Rank all vertices; return ranks, float32, and the last change. With ``tol=0`` the change is infinite: not known.

    ``push`` does an iteration. It gets the rank that each vertex starts with, and RA, shape (V,). It returns the ranks.
    """
    backend, num_vertices = streamer.backend, streamer.topology.num_vertices
    xp, push = backend.xp, push or partial(push_shares, streamer)
    degrees = streamer.degrees()
    dangling = xp.flatnonzero(degrees == 0)
    factors = (alpha / xp.maximum(degrees, 1)).astype(np.float32)
    ranks = xp.full(num_vertices, 1 / max(num_vertices, 1), dtype=np.float32)
    shares = streamer.make_read(np.float32)
    error = np.inf if num_vertices else 0.0
    for _ in range(limit if num_vertices else 0):
        # RA is what a vertex gives each neighbour: its rank over its whole degree, which a large page does not have.
        streamer.fill_read(shares, ranks * factors)
        lost = float(ranks[dangling].sum(dtype=np.float64))
        before = ranks if tol > 0 else None
        ranks = push((1 - alpha + alpha * lost) / num_vertices, shares)
        if before is not None:
            error = float(xp.abs(ranks - before).sum(dtype=np.float64))
            if error < tol:
                break
    return ranks, error


def push_shares(streamer: Streamer, base: float, shares: Array) -> Array:
    """Return each vertex's rank: ``base`` and the shares of the vertices that lead to it."""
    backend = streamer.backend
    ranks = backend.xp.full(streamer.topology.num_vertices, base, dtype=np.float32)
    kernels = backend.kernels("dynstore.gts", "ranks").PUSH
    streamer.stream(streamer.all_pages, kernels, (0, ranks), (shares,))
    return ranks


def label_components(streamer: Streamer) -> Array:
    """Return the smallest vertex of each vertex's weak component."""
    backend, topology = streamer.backend, streamer.topology
    kernels = backend.kernels("dynstore.gts", "components")
    parents = backend.xp.arange(topology.num_vertices, dtype=topology.degrees.dtype)
    streamer.stream(streamer.all_pages, kernels.UNITE, (parents,))
    kernels.flatten_trees(parents)
    return parents


def measure_centrality(streamer: Streamer, sources: np.ndarray, endpoints: bool) -> Array:
    """Sum the dependencies of ``sources`` on each vertex, float64, not normalised."""
    backend, dtype = streamer.backend, streamer.topology.degrees.dtype
    xp, num_vertices, unreached = backend.xp, streamer.topology.num_vertices, np.iinfo(dtype).max
    kernels = backend.kernels("dynstore.gts", "centrality")
    totals = xp.zeros(num_vertices)
    for source in sources.tolist():
        levels, paths, dependencies = xp.full(num_vertices, unreached, dtype), xp.zeros(num_vertices), totals * 0
        levels[source], paths[source] = 0, 1
        pids = traverse(streamer, kernels.COUNT_PATHS, np.array([source]), (levels, paths))
        for level in range(len(pids) - 2, 0, -1):
            streamer.stream(pids[level], kernels.GATHER, (level, levels, paths, dependencies))
        reached = levels < unreached
        if endpoints:
            dependencies += 1
            dependencies[source] = int(reached.sum()) - 1
        totals += xp.where(reached, dependencies, 0)
    return totals


def no_vertex(xp: Any, parents: Array) -> Array:
    """Return parents with -1 in place of the largest number."""
    return xp.where(parents == np.iinfo(parents.dtype).max, parents.dtype.type(-1), parents)
