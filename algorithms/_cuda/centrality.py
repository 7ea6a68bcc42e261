"""Betweenness centrality on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import SIMULATED, cuda, kernel
from dynstore._cuda.warp import d_lane, d_shuffle, d_sum_lanes
from dynstore.algorithms._cuda._common import (
    Frontier,
    count_tiles,
    d_enqueue,
    d_find_row,
    d_has_bit,
    d_open_tile,
    fill,
)

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["accumulate_dependencies"]

# (source, vertex) pairs searched at once: about 40 bytes each.
BATCH_PAIRS = 200 if SIMULATED else 1 << 25
UNREACHED = -1


@kernel
def k_count_paths(
    offsets, indices, valid, frontier, scan, steps, num_vertices, level, levels, paths, queue, counts, counters
):
    """One warp a tile of the frontier's slots, one lane a slot: reach the children, add the paths that lead there.

    Entries are pairs: number of the source times V, plus the vertex. The plain read of a level saves atomics: what it
    may miss is a pair that another thread reaches in this same level. Atomics: compare-and-swap on ``levels``,
    add on ``paths``; see :func:`d_enqueue`.
    """
    lane = d_lane()
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + lane
        child = 0
        pair = 0
        won = False
        if item < last:
            row = d_find_row(scan, low, high, item)
            parent_pair = int(frontier[row])
            parent = parent_pair % num_vertices
            slot = int(offsets[parent + 1]) - (int(scan[row]) - item)
            if d_has_bit(valid, slot):
                child = int(indices[slot])
                pair = parent_pair - parent + child
                reached = int(levels[pair])
                if reached == UNREACHED:
                    reached = int(cuda.atomic.cas(levels, pair, UNREACHED, level))
                    won = reached == UNREACHED
                if won or reached == level:
                    cuda.atomic.add(paths, pair, paths[parent_pair])
        d_enqueue(offsets, queue, counts, counters, pair, child, won)


@kernel
def k_gather_dependencies(offsets, indices, valid, frontier, scan, steps, num_vertices, level, levels, paths, gathered):
    """One warp a tile of the slots of a level, one lane a slot: add what each child owes its parents.

    ``gathered`` is dependency over paths; the children's, one level on, is complete. Atomics: add on ``gathered``, one
    a step where a step lies within one row.
    """
    lane = d_lane()
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + lane
        row = d_find_row(scan, low, high, min(item, last - 1))
        pair = int(frontier[row])
        owed = 0.0
        if item < last:
            parent = pair % num_vertices
            slot = int(offsets[parent + 1]) - (int(scan[row]) - item)
            if d_has_bit(valid, slot):
                child = pair - parent + int(indices[slot])
                if levels[child] == level + 1:
                    owed = 1.0 / paths[child] + gathered[child]
        if d_shuffle(row, 0) == d_shuffle(row, 31):
            owed = d_sum_lanes(owed)
            if lane != 0:
                owed = 0.0
        if owed != 0.0:
            cuda.atomic.add(gathered, pair, owed)


def accumulate_dependencies(out: GapCSR, into: GapCSR | None, sources: np.ndarray, endpoints: bool) -> Array:
    """Sum the dependencies of ``sources`` on every vertex, not normalised.

    Brandes, "A Faster Algorithm for Betweenness Centrality", Journal of Mathematical Sociology 25(2), 2001,
    section 4. Many sources are searched at once, each step balanced over edges. Dependencies are gathered over
    out-edges, level by level backwards, so no list of parents is kept.

    Parameters
    ----------
    out : GapCSR
        Out-edges.
    into : GapCSR or None
        In-edges; not needed here.
    sources : numpy.ndarray, shape (K,), int64
    endpoints : bool
        Whether a path also counts at its two ends.

    Returns
    -------
    array, shape (V,), float64
        Sums over ordered pairs (source, target).
    """
    totals = out.backend.zeros(out.num_vertices, np.float64)
    batch = max(1, BATCH_PAIRS // max(1, out.num_vertices))
    for first in range(0, len(sources), batch):
        totals += _sum_batch(out, np.asarray(sources[first : first + batch], dtype=np.int64), endpoints)
    return totals


def _sum_batch(out: GapCSR, sources: np.ndarray, endpoints: bool) -> Array:
    """Return the dependencies of some sources, summed, shape (V,)."""
    backend, xp, num_vertices = out.backend, out.backend.xp, out.num_vertices
    num_sources = len(sources)
    num_pairs = num_sources * num_vertices
    starts = backend.asarray(sources)
    own_pairs = xp.arange(num_sources, dtype=np.int64) * num_vertices + starts
    levels = fill(backend, num_pairs, out.offsets.dtype, UNREACHED)
    levels[own_pairs] = 0
    paths = backend.zeros(num_pairs, np.float64)
    paths[own_pairs] = 1.0
    frontier = Frontier(out, starts, keys=own_pairs, capacity=num_pairs)
    edges = (out.offsets, out.indices, out.valid)
    stages: list[tuple[int, int, int]] = []
    while frontier.size:
        stages.append((frontier.begin, frontier.end, frontier.num_slots))
        frontier.push(k_count_paths, edges, (num_vertices, len(stages), levels, paths))
    gathered = backend.zeros(num_pairs, np.float64)
    # The last level has no children.
    for level in range(len(stages) - 2, -1, -1):
        begin, end, num_slots = stages[level]
        scan = xp.cumsum(frontier.counts[begin:end])
        num_tiles, steps = count_tiles(num_slots)
        k_gather_dependencies.launch_warps(
            num_tiles, *edges, frontier.queue[begin:end], scan, steps, num_vertices, level, levels, paths, gathered
        )
    dependencies = gathered * paths
    dependencies[own_pairs] = 0.0
    if endpoints:
        # Every path from a source ends at one reached vertex; the source itself begins them all.
        reached = (levels != UNREACHED).astype(np.float64)
        reached[own_pairs] = reached.reshape(num_sources, num_vertices).sum(axis=1) - 1.0
        dependencies += reached
    return dependencies.reshape(num_sources, num_vertices).sum(axis=0)
