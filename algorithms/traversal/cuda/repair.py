"""Shortest paths after a few edges have changed, on the GPU.

Method, parameters and results are those of ``traversal/cpu/repair.py``. Here vertices lose their support, and distances
decrease, in rounds: one or two launches and one small read-back each, work balanced over slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.rows.cuda.common import d_has_bit, d_open_item, d_open_tile, fill
from dynstore.algorithms.rows.cuda.sweeps import VertexList, d_append, sweep
from dynstore.algorithms.traversal.cuda.parents import (
    get_lengths,
    get_sides,
    get_unreached,
    has_ties,
    k_find_support,
    refit,
)
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_lane

if TYPE_CHECKING:
    from dynstore.algorithms.costs import Budget
    from dynstore.graph.delta import Delta
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["find_suspects", "has_ties", "invalidate", "refit", "relax"]


@kernel
def k_find_suspects(
    src, dst, slots, before, lengths, stride, both_ways, distances, predecessors, queued, suspects, size
):  # fmt: skip
    """One thread a change: append its head if its parent's edge is deleted or longer. Atomics: :func:`d_queue`."""
    i = int(cuda.grid(1))
    for side in range(1 + both_ways):
        v = 0
        wanted = False
        if i < src.shape[0] and before[i]:
            u = int(src[i])
            v = int(dst[i])
            if side == 1:
                u, v = v, u
            p = int(slots[i])
            if predecessors[v] == u:
                wanted = p < 0
                if not wanted:
                    wanted = distances[u] + lengths[p * stride] > distances[v]
        d_queue(queued, suspects, size, v, wanted)


@device
def d_queue(queued, items, size, vertex, wanted):
    """Append vertices that are not queued yet. All 32 lanes call. Atomics: exchange, one add a warp."""
    if wanted:
        wanted = cuda.atomic.exch(queued, vertex, 1) == 0
    d_append(items, size, vertex, wanted)


def find_suspects(out: GapCSR, delta: Delta, distances: Array, predecessors: Array, both_ways: bool) -> Array:
    """Return the vertices whose edge from their parent was deleted or has become longer; vertex dtype."""
    backend = out.backend
    queued = backend.zeros(out.num_vertices, np.int32)
    suspects = VertexList(backend, out.num_vertices, predecessors.dtype)
    changes = (delta.src, delta.dst, delta.slots, delta.before)
    lengths = get_lengths(out, distances)
    k_find_suspects.launch(
        len(delta), *changes, *lengths, int(both_ways), distances, predecessors, queued, *suspects.outputs
    )
    return suspects.take()


@kernel
def k_decide_support(vertices, best, nobody, unreached, distances, predecessors, queued, lost, size):
    """One thread a suspect: take the found parent, or append it to ``lost``. One atomic add a warp."""
    i = int(cuda.grid(1))
    v = 0
    gone = False
    if i < vertices.shape[0]:
        v = int(vertices[i])
        queued[v] = 0
        gone = best[v] == nobody
        predecessors[v] = -1 if gone else best[v]
        best[v] = nobody
        if gone:
            distances[v] = unreached
    d_append(lost, size, v, gone)


@kernel
def k_suspect_children(
    offsets, indices, valid, vertices, scan, steps, unreached, distances, predecessors, queued, suspects, size
):  # fmt: skip
    """One warp a tile of slots, one lane an out-edge: append the children. Atomics: :func:`d_queue`."""
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + d_lane()
        child = 0
        wanted = False
        if item < last:
            v, slot = d_open_item(offsets, vertices, scan, low, high, item)
            child = int(indices[slot])
            wanted = predecessors[child] == v and distances[child] != unreached
        d_queue(queued, suspects, size, child, wanted)


def invalidate(
    out: GapCSR, into: GapCSR, suspects: Array, distances: Array, predecessors: Array, both_ways: bool,
    budget: Budget, groups: Array | None = None,
) -> tuple[Array, int]:  # fmt: skip
    """Make suspects without support unreached; the others get the smallest remaining parent.

    All suspects of a round are decided together. A suspect that takes a parent which is lost in the same round becomes
    its child, and so a suspect of the next round. No round starts once the budget is spent.
    """
    backend, dtype = out.backend, predecessors.dtype
    nobody, unreached = int(np.iinfo(dtype).max), get_unreached(distances)
    lost = VertexList(backend, out.num_vertices, dtype)
    best = fill(backend, out.num_vertices if suspects.shape[0] else 0, dtype, nobody)
    queued = backend.zeros(best.shape[0], np.int32)
    tied = backend.zeros(1, np.int32)
    lengths = get_lengths(into, distances)
    same = (predecessors, 0) if groups is None else (groups, 1)
    visits = 0
    while suspects.shape[0] and not budget.is_spent:
        for csr in get_sides(into, out, both_ways):
            visits += sweep(csr, suspects, k_find_support, *lengths, distances, *same, best, tied)
        k_decide_support.launch(
            suspects.shape[0], suspects, best, nobody, unreached, distances, predecessors, queued, *lost.outputs
        )
        children = VertexList(backend, out.num_vertices, dtype)
        fallen = lost.take()
        for csr in get_sides(out, into, both_ways):
            state = (unreached, distances, predecessors, queued)
            visits += sweep(csr, fallen, k_suspect_children, *state, *children.outputs)
        suspects = children.take()
    budget.note(visits)
    return lost.all(), visits


@device
def d_shorten(distances, v, distance, limit, turn, turns, items, size, wanted):
    """Lower the distance of ``v``; append ``v`` if this was the first time in this ``turn``.

    All 32 lanes call. Atomics: minimum, maximum, one add a warp. The plain read only saves atomics.
    """
    shorter = wanted and distance < limit and distance < distances[v]
    if shorter:
        shorter = distance < cuda.atomic.min(distances, v, distance)
        if shorter:
            shorter = cuda.atomic.max(turns, v, turn) < turn
    d_append(items, size, v, shorter)


@kernel
def k_place_sources(sources, distances, turns, turn, reached, size):
    """One thread a source: its distance is 0 now. One atomic add a warp."""
    i = int(cuda.grid(1))
    v = 0
    if i < sources.shape[0]:
        v = int(sources[i])
        distances[v] = 0
        turns[v] = turn
    d_append(reached, size, v, i < sources.shape[0])


@kernel
def k_pull_distances(
    offsets, indices, valid, vertices, scan, steps, lengths, stride, unreached, limit, turn, distances, turns,
    reached, size,
):  # fmt: skip
    """One warp a tile of slots, one lane an in-edge: reach the row's vertex. Atomics: :func:`d_shorten`.

    A neighbour's distance that decreases meanwhile may be read before or after: the vertex that got it is pushed later.
    """
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + d_lane()
        v = 0
        wanted = False
        distance = distances[0]
        if item < last:
            v, slot = d_open_item(offsets, vertices, scan, low, high, item)
            u = int(indices[slot])
            if d_has_bit(valid, slot) and distances[u] != unreached:
                distance = distances[u] + lengths[slot * stride]
                wanted = True
        d_shorten(distances, v, distance, limit, turn, turns, reached, size, wanted)


@kernel
def k_pass_changes(
    src, dst, slots, lengths, stride, both_ways, unreached, limit, turn, distances, turns, reached, size
):  # fmt: skip
    """One thread a change: if the edge is there, it may shorten its head's distance. Atomics: :func:`d_shorten`."""
    i = int(cuda.grid(1))
    for side in range(1 + both_ways):
        v = 0
        wanted = False
        distance = distances[0]
        if i < src.shape[0] and slots[i] >= 0:
            u = int(src[i])
            v = int(dst[i])
            if side == 1:
                u, v = v, u
            if distances[u] != unreached:
                distance = distances[u] + lengths[int(slots[i]) * stride]
                wanted = True
        d_shorten(distances, v, distance, limit, turn, turns, reached, size, wanted)


@kernel
def k_push_distances(
    offsets, indices, valid, vertices, scan, steps, lengths, stride, limit, turn, distances, turns, reached, size
):  # fmt: skip
    """One warp a tile of slots, one lane an out-edge: shorten the children's distances. Atomics: :func:`d_shorten`."""
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    for base in range(first, last, 32):
        item = base + d_lane()
        child = 0
        wanted = False
        distance = distances[0]
        if item < last:
            v, slot = d_open_item(offsets, vertices, scan, low, high, item)
            child = int(indices[slot])
            if d_has_bit(valid, slot):
                distance = distances[v] + lengths[slot * stride]
                wanted = True
        d_shorten(distances, child, distance, limit, turn, turns, reached, size, wanted)


def relax(
    out: GapCSR, into: GapCSR, lost: Array, sources: Array, delta: Delta | None, limit: Any, distances: Array,
    both_ways: bool, budget: Budget,
) -> tuple[Array, int]:  # fmt: skip
    """Compute the distances of lost vertices, and lower those that new edges or new sources shorten.

    Each round processes all vertices whose distance decreased in the last one. Few vertices change, so ordering them
    does not pay. The result does not depend on the order, as in ``sssp``. No round starts once the budget is spent.
    """
    backend, dtype = out.backend, out.offsets.dtype
    unreached = get_unreached(distances)
    limit = distances.dtype.type(limit).item()
    lengths = get_lengths(out, distances)
    in_lengths = lengths if lengths[1] == 0 else get_lengths(into, distances)
    turns = backend.zeros(out.num_vertices, np.int32)
    frontier = VertexList(backend, out.num_vertices, dtype)
    turn, visits = 1, 0
    bounds = (unreached, limit, turn)
    k_place_sources.launch(sources.shape[0], sources, distances, turns, turn, *frontier.outputs)
    for csr in get_sides(into, out, both_ways):
        visits += sweep(csr, lost, k_pull_distances, *in_lengths, *bounds, distances, turns, *frontier.outputs)
    if delta is not None:
        changes = (delta.src, delta.dst, delta.slots, *lengths, int(both_ways))
        k_pass_changes.launch(len(delta), *changes, *bounds, distances, turns, *frontier.outputs)
    current = frontier.take()
    reached = [current]
    while current.shape[0] and not budget.is_spent:
        turn += 1
        frontier = VertexList(backend, out.num_vertices, dtype)
        for csr in get_sides(out, into, both_ways):
            state = (*lengths, limit, turn, distances, turns)
            visits += sweep(csr, current, k_push_distances, *state, *frontier.outputs)
        current = frontier.take()
        reached.append(current)
    budget.note(visits)
    return backend.xp.concatenate(reached), visits
