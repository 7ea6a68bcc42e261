"""Finding the parents in shortest-path trees again after distances have changed, on the GPU.

Parameters and results are those of the functions in ``traversal/cpu/repair.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.rows.cuda.common import d_has_bit, d_open_item, d_open_tile, fill
from dynstore.algorithms.rows.cuda.sweeps import sweep
from dynstore.cuda.compiler import cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_lane

if TYPE_CHECKING:
    from dynstore.algorithms.costs import Budget
    from dynstore.graph.delta import Delta
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["get_lengths", "get_sides", "get_unreached", "has_ties", "k_find_support", "refit"]


def get_lengths(csr: GapCSR, distances: Array) -> tuple[Array, int]:
    """Return lengths and their stride: the edge in slot ``p`` is ``lengths[p * stride]`` long."""
    if distances.dtype.kind == "i":
        return fill(csr.backend, 1, distances.dtype, 1), 0
    return csr.weights, 1


def get_unreached(distances: Array) -> Any:
    if distances.dtype.kind == "i":
        return int(np.iinfo(distances.dtype).max)
    return float(np.finfo(distances.dtype).max)


def get_sides(out: GapCSR, into: GapCSR, both_ways: bool) -> tuple[GapCSR, ...]:
    return (out, into) if both_ways else (out,)


@kernel
def k_find_support(
    offsets, indices, valid, vertices, scan, steps, lengths, stride, distances, groups, grouped, best, tied
):  # fmt: skip
    """One warp a tile of slots, one lane an in-edge: keep the smallest nearer parent (atomic minimum) in ``best``.

    If ``grouped``, the parent must be of the same group. ``tied[0]`` is set (atomic maximum) if an equally near
    neighbour also explains the distance. Unreached vertices have no parent.
    """
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    tie = False
    for base in range(first, last, 32):
        item = base + d_lane()
        if item < last:
            v, slot = d_open_item(offsets, vertices, scan, low, high, item)
            u = int(indices[slot])
            if d_has_bit(valid, slot) and distances[u] <= distances[v] and u != v:
                fits = not grouped or groups[u] == groups[v]
                if fits and d_explains(distances, u, v, lengths[slot * stride]):
                    if distances[u] == distances[v]:
                        tie = True
                    else:
                        cuda.atomic.min(best, v, u)
    word = d_ballot(tie)
    if word != 0 and d_lane() == 0:
        cuda.atomic.max(tied, 0, 1)


@device
def d_explains(distances, u, v, length):
    """Whether the path over ``u`` has exactly the distance of ``v``; False if an end is unreached."""
    return distances[u] + length == distances[v]


@kernel
def k_take_parents(vertices, best, nobody, predecessors):
    """One thread a vertex: take the found parent, if any; reset ``best``."""
    i = int(cuda.grid(1))
    if i < vertices.shape[0]:
        v = int(vertices[i])
        predecessors[v] = -1 if best[v] == nobody else best[v]
        best[v] = nobody


@device
def d_offer_parent(distances, predecessors, u, v, length, unreached):
    """Make ``u`` the parent of ``v`` if it is nearer and smaller (atomic minimum); return whether they tie."""
    tie = False
    if distances[u] != unreached and distances[u] <= distances[v] and d_explains(distances, u, v, length):
        if distances[u] == distances[v]:
            tie = u != v
        elif u < predecessors[v]:
            cuda.atomic.min(predecessors, v, u)
    return tie


@kernel
def k_offer_parents(
    offsets, indices, valid, vertices, scan, steps, lengths, stride, unreached, distances, predecessors, tied
):  # fmt: skip
    """One warp a tile of slots, one lane an out-edge: :func:`d_offer_parent`. Ties: atomic maximum."""
    first, last, low, high = d_open_tile(scan, steps, int(cuda.grid(1)))
    tie = False
    for base in range(first, last, 32):
        item = base + d_lane()
        if item < last:
            u, slot = d_open_item(offsets, vertices, scan, low, high, item)
            if d_has_bit(valid, slot):
                length = lengths[slot * stride]
                if d_offer_parent(distances, predecessors, u, int(indices[slot]), length, unreached):
                    tie = True
    if tie:
        cuda.atomic.max(tied, 0, 1)


@kernel
def k_offer_changes(src, dst, slots, lengths, stride, both_ways, unreached, distances, predecessors, tied):
    """One thread a change: :func:`d_offer_parent` along an edge that is there. Ties: atomic maximum."""
    i = int(cuda.grid(1))
    if i < src.shape[0] and slots[i] >= 0:
        u = int(src[i])
        v = int(dst[i])
        length = lengths[int(slots[i]) * stride]
        tie = d_offer_parent(distances, predecessors, u, v, length, unreached)
        if both_ways and d_offer_parent(distances, predecessors, v, u, length, unreached):
            tie = True
        if tie:
            cuda.atomic.max(tied, 0, 1)


def refit(
    out: GapCSR, into: GapCSR, touched: Array, delta: Delta | None, distances: Array, predecessors: Array,
    both_ways: bool, budget: Budget,
) -> tuple[bool, int]:  # fmt: skip
    """Find the smallest nearer parents again, after the distances are right; return ties and visits as on the host."""
    backend, dtype = out.backend, predecessors.dtype
    nobody, unreached = int(np.iinfo(dtype).max), get_unreached(distances)
    tied = backend.zeros(1, np.int32)
    lengths = get_lengths(out, distances)
    in_lengths = lengths if lengths[1] == 0 else get_lengths(into, distances)
    visits = 0
    if touched.shape[0]:
        best = fill(backend, out.num_vertices, dtype, nobody)
        there = touched[distances[touched] != unreached]
        for csr in get_sides(into, out, both_ways):
            visits += sweep(csr, there, k_find_support, *in_lengths, distances, predecessors, 0, best, tied)
        k_take_parents.launch(touched.shape[0], touched, best, nobody, predecessors)
        for csr in get_sides(out, into, both_ways):
            visits += sweep(csr, there, k_offer_parents, *lengths, unreached, distances, predecessors, tied)
    if delta is not None:
        changes = (delta.src, delta.dst, delta.slots, *lengths, int(both_ways))
        k_offer_changes.launch(len(delta), *changes, unreached, distances, predecessors, tied)
    budget.note(visits)
    return bool(tied[0]), visits


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
    lengths, _ = get_lengths(out, distances)
    unreached = get_unreached(distances)
    k_find_ties.launch_strided(out.num_slots, out.sources, out.indices, out.valid, lengths, unreached, distances, tied)
    return bool(tied[0])
