"""Parents over edges of weight 0, for vertices that shortest paths leave without a parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.rows.cuda.common import Frontier, d_enqueue, d_has_bit, d_open_item, d_open_tile
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["place_over_ties"]


@device
def d_reach(levels, predecessors, child, parent, level, unreached):
    """Reach ``child`` from ``parent`` in this ``level``; return whether this thread was the first.

    A vertex is reached once (compare-and-swap) and keeps its smallest parent (atomic minimum). The plain read only
    saves atomics: it may only miss a vertex that another thread reaches in this level.
    """
    reached = int(levels[child])
    won = False
    if reached == unreached:
        reached = int(cuda.atomic.cas(levels, child, unreached, level))
        won = reached == unreached
    if (won or reached == level) and parent < predecessors[child]:
        cuda.atomic.min(predecessors, child, parent)
    return won


@kernel
def k_push_ties(
    offsets, indices, valid, frontier, scan, steps, weights, distances, level, unreached, levels, predecessors,
    queue, counts, counters,
):  # fmt: skip
    """One warp a tile of the frontier's slots, one lane a slot: reach the children of exactly the same distance.

    ``scan``: inclusive sums of the frontier's slots. Atomics: see :func:`d_reach`, :func:`d_enqueue`.
    """
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + d_lane()
        child = 0
        won = False
        if item < last:
            parent, slot = d_open_item(offsets, frontier, scan, low, high, item)
            if d_has_bit(valid, slot):
                child = int(indices[slot])
                distance = distances[parent]
                if distance == distances[child] and distance + weights[slot] == distance:
                    won = d_reach(levels, predecessors, child, parent, level, unreached)
        d_enqueue(offsets, queue, counts, counters, child, child, won)


def place_over_ties(
    out: GapCSR,
    distances: Array,
    unreached: np.floating,
    predecessors: Array,
    merge: Callable[[Array], Array] | None = None,
) -> None:
    """Find parents for the vertices that only edges of weight 0 reach, breadth first from those that have a parent.

    On entry a reached vertex without a parent has the largest number in ``predecessors``; afterwards all have one.
    ``merge``: see :func:`~dynstore.algorithms.traversal.cuda.shortest_paths.find_predecessors`; once a level.
    """
    xp, dtype = out.backend.xp, out.offsets.dtype
    unset = int(np.iinfo(dtype).max)
    placed = predecessors != unset
    levels = xp.where(placed, xp.asarray(0, dtype=dtype), xp.asarray(unset, dtype=dtype))
    frontier = Frontier(out, xp.nonzero(placed & (distances < unreached))[0])
    level = 0
    while frontier.size:
        level += 1
        state = (out.weights, distances, level, unset, levels, predecessors)
        frontier.push(k_push_ties, (out.offsets, out.indices, out.valid), state)
        if merge is not None:
            predecessors[:] = merge(predecessors)
            reached = (levels >= level) & (predecessors != unset)  # here, or in another part alone
            levels[reached] = level
            frontier = Frontier(out, xp.nonzero(reached)[0])
