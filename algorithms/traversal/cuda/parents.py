"""Finding the parents in shortest-path trees again after distances have changed, on the GPU."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.rows.cuda.common import d_has_bit
from dynstore.algorithms.rows.cuda.row_lists import (
    Parts,
    RowArrays,
    Side,
    Sides,
    d_open_part,
    d_push_rows,
    d_read_edge,
    d_warps,
)
from dynstore.algorithms.traversal.cuda.invalidation import Groups, d_explains, d_support
from dynstore.algorithms.traversal.cuda.rounds import (
    REFIT,
    SPENT,
    TIED,
    TOUCHED,
    VISITS,
    Changes,
    Tree,
    d_note_visits,
)
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.grid import d_sync_grid
from dynstore.cuda.warp import d_ballot, d_lane

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["get_unreached", "has_ties", "k_refit"]

# Words of ``control`` behind REFIT: arrivals, the lengths of both lists of parts: rows to look for parents in,
# and rows to offer as parents.
ARRIVALS, PULLED_PARTS, PUSHED_PARTS = REFIT, REFIT + 1, REFIT + 2
PULLED, PUSHED = 0, 1


def get_unreached(distances: Array) -> Any:
    """Return the distance of vertices that are not reached."""
    if distances.dtype.kind == "i":
        return int(np.iinfo(distances.dtype).max)
    return float(np.finfo(distances.dtype).max)


@device
def d_note_ties(control, tie):
    """Set ``control[TIED]`` if a lane has a tie (atomic maximum, one a warp). All 32 lanes call."""
    if d_ballot(tie) != 0 and d_lane() == 0:
        cuda.atomic.max(control, TIED, 1)


@device
def d_offer_parent(tree, u, v, length):
    """Make ``u`` the parent of ``v`` if it is nearer and smaller (atomic minimum); return whether they tie."""
    tie, distances = False, tree.distances
    if distances[u] != tree.unreached and distances[u] <= distances[v] and d_explains(distances, u, v, length):
        if distances[u] == distances[v]:
            tie = u != v
        elif u < tree.predecessors[v]:
            cuda.atomic.min(tree.predecessors, v, u)
    return tie


@device
def d_offer_changes(pushed, changes, tree, control):
    """Stride over the changes: :func:`d_offer_parent` along an edge that is there."""
    warp, warps = d_warps()
    for base in range(warp * 32, changes.src.shape[0], warps * 32):
        i = base + d_lane()
        tie = False
        if i < changes.src.shape[0] and changes.slots[i] >= 0:
            u = int(changes.src[i])
            v = int(changes.dst[i])
            length = pushed.first.lengths[int(changes.slots[i]) * pushed.first.stride]
            tie = d_offer_parent(tree, u, v, length)
            if pushed.both and d_offer_parent(tree, v, u, length):
                tie = True
        d_note_ties(control, tie)


@partial(kernel, records={"graph": RowArrays, "changes": Changes})
def k_refit(
    graph, changes, no_vertex, unreached, distances, predecessors, best, touched, rows, begins, control
):  # fmt: skip
    """Find the smallest nearer parents of ``touched`` vertices, then offer these, and sources of changes, as parents.

    Three phases: list the rows; search them for parents; write these, and offer. The blocks wait for each other between
    them. Distances are right, and do not change. Atomics: maxima on ``best`` and ``control``, minima on
    ``predecessors``.
    """
    into = Side(graph.in_offsets, graph.in_indices, graph.in_valid, graph.in_lengths, graph.stride)
    out = Side(graph.out_offsets, graph.out_indices, graph.out_valid, graph.out_lengths, graph.stride)
    pulled, pushed = Sides(into, out, graph.both_ways), Sides(out, into, graph.both_ways)
    parts = Parts(rows, begins, rows.shape[0] // 3, control)
    tree, ungrouped = Tree(distances, predecessors, unreached, no_vertex), Groups(predecessors, 0)
    warp, warps = d_warps()
    lane = d_lane()
    if control[SPENT] != 0:  # the same in all threads
        return
    count = int(control[TOUCHED])
    for base in range(warp * 32, count, warps * 32):
        v = 0
        there = False
        if base + lane < count:
            v = int(touched[base + lane])
            there = distances[v] != unreached
        d_push_rows(pulled, parts, PULLED, PULLED_PARTS, v, there)
        d_push_rows(pushed, parts, PUSHED, PUSHED_PARTS, v, there)
    d_sync_grid(control, 1, ARRIVALS)
    visits = 0
    tie = False
    for item in range(warp, int(control[PULLED_PARTS]), warps):
        v, begin, end, other = d_open_part(pulled, parts, PULLED, item)
        visits += end - begin
        for base in range(begin, end, 32):
            if d_support(pulled, other, v, base + lane, end, tree, ungrouped, best):
                tie = True
    d_sync_grid(control, 2, ARRIVALS)
    for i in range(int(cuda.grid(1)), count, int(cuda.gridsize(1))):
        v = int(touched[i])
        predecessors[v] = -1 if best[v] == 0 else no_vertex - best[v]
    d_sync_grid(control, 3, ARRIVALS)
    for item in range(warp, int(control[PUSHED_PARTS]), warps):
        u, begin, end, other = d_open_part(pushed, parts, PUSHED, item)
        visits += end - begin
        for base in range(begin, end, 32):
            v, length, live = d_read_edge(pushed, other, base + lane, end)
            if live and d_offer_parent(tree, u, v, length):
                tie = True
    d_offer_changes(pushed, changes, tree, control)
    d_note_ties(control, tie)
    d_note_visits(control, VISITS, visits)


@kernel
def k_find_ties(sources, indices, valid, lengths, unreached, distances, tied):
    """Stride over the slots; set ``tied[0]`` (atomic maximum) if an edge of length 0 joins equally distant vertices."""
    tie = False
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        u = int(sources[slot])
        v = int(indices[slot])
        if distances[u] == distances[v] and u != v and distances[u] != unreached and d_has_bit(valid, slot):
            if d_explains(distances, u, v, lengths[slot]):
                tie = True
    if tie:
        cuda.atomic.max(tied, 0, 1)


def has_ties(out: GapCSR, distances: Array) -> bool:
    """Whether an edge of length 0 joins two vertices of equal distance: parents then need not be nearer."""
    tied = out.backend.zeros(1, np.int32)
    edges, unreached = (out.sources, out.indices, out.valid, out.weights), get_unreached(distances)
    k_find_ties.launch_strided(out.num_slots, *edges, unreached, distances, tied)
    return bool(tied[0])
