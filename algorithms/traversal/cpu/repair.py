"""Shortest paths after a few edges have changed, on the host.

G. Ramalingam, T. Reps, "On the computational complexity of dynamic graph problems", TCS 158, 1996, section 4: vertices
without support are invalidated, then distances are computed from the border inwards. A vertex loses its support if the
edge from its parent is deleted or its parent is lost, and no other nearer neighbour explains its distance. Children are
found by the recorded parents, so only the edges of lost vertices are visited.

``distances`` and ``predecessors`` are as ``bfs`` and ``sssp`` return them, and changed in place. With integer distances
every edge has length 1. With ``both_ways``, paths ignore the directions of edges: out-edges and in-edges count alike,
although a row holds only one direction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynstore.algorithms.rows.cpu.slots import d_has_edge
from dynstore.algorithms.traversal.cpu.search import d_sift_down, d_sift_up
from dynstore.host_compiler import inlined, njit

if TYPE_CHECKING:
    from dynstore.algorithms.costs import Budget
    from dynstore.graph.delta import Delta
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["OrientationRows", "find_suspects", "has_ties", "invalidate", "refit", "relax", "repair_paths"]


class OrientationRows(NamedTuple):
    """One orientation; the edge in slot ``p`` is ``lengths[p * stride]`` long."""

    offsets: Array
    indices: Array
    valid: Array
    lengths: Array
    stride: int


def _rows(csr: GapCSR, distances: Array) -> OrientationRows:
    if distances.dtype.kind == "i":
        return OrientationRows(csr.offsets, csr.indices, csr.valid, np.ones(1, dtype=distances.dtype), 0)
    return OrientationRows(csr.offsets, csr.indices, csr.valid, csr.weights, 1)


def _unreached(distances: Array) -> Any:
    kind = np.iinfo if distances.dtype.kind == "i" else np.finfo
    return distances.dtype.type(kind(distances.dtype).max)


def _changes(delta: Delta) -> tuple[Array, Array, Array, Array]:
    return delta.src, delta.dst, delta.slots, delta.before


def repair_paths(
    out: GapCSR, into: GapCSR, delta: Delta, limit: Any, distances: Array, predecessors: Array, budget: Budget
) -> bool:
    """Bring distances and predecessors up to date after changes.

    Parameters
    ----------
    limit : number
        Only distances below it count.
    budget : Budget
        If it is spent afterwards, distances and predecessors are of no use.

    Returns
    -------
    bool
        Whether a changed vertex or edge makes a tie, see :func:`has_ties`.
    """
    lost = invalidate(
        out, into, find_suspects(out, delta, distances, predecessors, False), distances, predecessors, False, budget
    )
    if budget.is_spent:
        return False
    touched = relax(out, into, lost, lost[:0], delta, limit, distances, False, budget)
    return not budget.is_spent and refit(out, into, touched, delta, distances, predecessors, False, budget)


def find_suspects(out: GapCSR, delta: Delta, distances: Array, predecessors: Array, both_ways: bool) -> Array:
    """Return the vertices whose edge from their parent was deleted or has become longer; vertex dtype."""
    suspects = np.empty((1 + both_ways) * len(delta), dtype=predecessors.dtype)
    size = k_find_suspects(_rows(out, distances), *_changes(delta), distances, predecessors, both_ways, suspects)
    return suspects[:size]


@njit(cache=True, nogil=True)
def k_find_suspects(rows, src, dst, slots, before, distances, predecessors, both_ways, suspects):
    """Fill ``suspects`` and return their number."""
    size = 0
    for i in range(src.shape[0]):
        if not before[i]:
            continue
        for side in range(2 if both_ways else 1):
            u, v = (src[i], dst[i]) if side == 0 else (dst[i], src[i])
            p = slots[i]
            if predecessors[v] == u and (p < 0 or distances[u] + rows.lengths[p * rows.stride] > distances[v]):
                suspects[size] = v
                size += 1
    return size


def invalidate(
    out: GapCSR, into: GapCSR, suspects: Array, distances: Array, predecessors: Array, both_ways: bool,
    budget: Budget, groups: Array | None = None,
) -> Array:  # fmt: skip
    """Make suspects without support unreached; the others get the smallest remaining parent.

    Parameters
    ----------
    budget : Budget
        If it is spent afterwards, distances and predecessors are of no use.
    groups : array, shape (V,), optional
        Only a parent with the same number as the vertex supports it.

    Returns
    -------
    array, vertex dtype
        The vertices that are unreached now.
    """
    rows = (_rows(out, distances), _rows(into, distances))
    groups = predecessors[:0] if groups is None else groups
    most, unreached = budget.most_visits(), _unreached(distances)
    lost, visits = k_invalidate(*rows, suspects, distances, predecessors, both_ways, groups, unreached, most)
    budget.note(int(visits), most)
    return lost


@inlined
def d_find_parent(out, into, v, distances, both_ways, groups):
    """Return the smallest nearer neighbour that explains the distance of ``v``, else -1.

    Also return whether an equally near one explains it, over an edge of length 0; and the number of visited edges.
    """
    parent, tied, visits = -1, False, 0
    for side in range(2 if both_ways else 1):
        rows = into if side == 0 else out
        for p in range(rows.offsets[v], rows.offsets[v + 1]):
            u = rows.indices[p]
            visits += 1
            if distances[u] > distances[v] or not d_has_edge(rows.valid, p):
                continue
            if groups.shape[0] > 0 and groups[u] != groups[v]:
                continue
            if distances[u] + rows.lengths[p * rows.stride] == distances[v]:
                if distances[u] == distances[v]:
                    tied |= u != v
                elif parent < 0 or u < parent:
                    parent = u
                    if rows.stride == 0:
                        break  # rows ascend, and with edges of length 1 there are no ties
    return parent, tied, visits


@njit(cache=True, nogil=True)
def k_invalidate(out, into, suspects, distances, predecessors, both_ways, groups, unreached, most):
    """Process suspects until there are none, or more than ``most`` edges were visited.

    A lost vertex makes its children suspects.

    A parent that is lost later makes its new children suspects again. Every parent is nearer than its children, so no
    cycle of vertices can support itself.
    """
    stack = list(suspects)
    lost = np.empty(distances.shape[0], dtype=predecessors.dtype)
    num_lost, visits = 0, 0
    while len(stack) > 0 and visits <= most:
        v = stack.pop()
        if distances[v] == unreached:
            continue
        parent, _, seen = d_find_parent(out, into, v, distances, both_ways, groups)
        visits += seen
        predecessors[v] = parent
        if parent >= 0:
            continue
        distances[v] = unreached
        lost[num_lost] = v
        num_lost += 1
        for side in range(2 if both_ways else 1):
            rows = out if side == 0 else into
            visits += rows.offsets[v + 1] - rows.offsets[v]
            for p in range(rows.offsets[v], rows.offsets[v + 1]):
                child = rows.indices[p]
                if predecessors[child] == v and distances[child] != unreached:
                    stack.append(child)
    return lost[:num_lost], visits


def relax(
    out: GapCSR, into: GapCSR, lost: Array, sources: Array, delta: Delta | None, limit: Any, distances: Array,
    both_ways: bool, budget: Budget,
) -> Array:  # fmt: skip
    """Compute the distances of lost vertices, and lower those that new edges or new sources shorten.

    Parameters
    ----------
    lost : array
        Unreached vertices, to be reached again from others.
    sources : array
        Vertices whose distance becomes 0.
    delta : Delta or None
        Edges that may be new or shorter.
    limit : number
        Only distances below it count.
    budget : Budget
        If it is spent afterwards, the distances are of no use.

    Returns
    -------
    array, vertex dtype
        The lost vertices, and those that got a new distance; each once.
    """
    rows = (_rows(out, distances), _rows(into, distances))
    changes = (out.indices[:0], out.indices[:0], np.empty(0, np.int64)) if delta is None else _changes(delta)[:3]
    limit = distances.dtype.type(limit)
    most, unreached = budget.most_visits(), _unreached(distances)
    reached, visits = k_relax(*rows, lost, sources, *changes, limit, distances, both_ways, unreached, most)
    budget.note(int(visits), most)
    touched: Array = np.unique(np.concatenate((lost, reached)))
    return touched


@njit(cache=True, nogil=True)
def k_relax(out, into, lost, sources, src, dst, slots, limit, distances, both_ways, unreached, most):
    """Run Dijkstra's algorithm from all vertices that can improve; a 4-ary heap holds each vertex once."""
    num_vertices = distances.shape[0]
    heap = np.empty(num_vertices, dtype=out.indices.dtype)
    place = np.full(num_vertices, -1, dtype=out.indices.dtype)
    reached = list(sources)
    size, visits = 0, 0
    for v in sources:
        distances[v] = 0
        size = d_lower(heap, place, distances, size, v)
    for v in lost:
        if visits > most:
            break
        best = distances[v]
        for side in range(2 if both_ways else 1):
            rows = into if side == 0 else out
            visits += rows.offsets[v + 1] - rows.offsets[v]
            for p in range(rows.offsets[v], rows.offsets[v + 1]):
                u = rows.indices[p]
                if distances[u] != unreached and d_has_edge(rows.valid, p):
                    best = min(best, distances[u] + rows.lengths[p * rows.stride])
        if best < limit and best < distances[v]:
            distances[v] = best
            reached.append(v)
            size = d_lower(heap, place, distances, size, v)
    for i in range(src.shape[0]):
        p = slots[i]
        for side in range(2 if both_ways else 1):
            u, v = (src[i], dst[i]) if side == 0 else (dst[i], src[i])
            if p >= 0 and distances[u] != unreached:
                distance = distances[u] + out.lengths[p * out.stride]
                if distance < limit and distance < distances[v]:
                    distances[v] = distance
                    reached.append(v)
                    size = d_lower(heap, place, distances, size, v)
    while size > 0 and visits <= most:
        u = heap[0]
        place[u] = -1
        size -= 1
        if size > 0:
            d_sift_down(heap, place, distances, size, heap[size])
        for side in range(2 if both_ways else 1):
            rows = out if side == 0 else into
            visits += rows.offsets[u + 1] - rows.offsets[u]
            for p in range(rows.offsets[u], rows.offsets[u + 1]):
                v = rows.indices[p]
                if not d_has_edge(rows.valid, p):
                    continue
                distance = distances[u] + rows.lengths[p * rows.stride]
                if distance < limit and distance < distances[v]:
                    distances[v] = distance
                    reached.append(v)
                    size = d_lower(heap, place, distances, size, v)
    return np.array(reached, dtype=out.indices.dtype), visits


@inlined
def d_lower(heap, place, distances, size, v):
    """Move ``v``, whose distance has decreased, to its place in the heap; return the heap's size."""
    if place[v] < 0:
        place[v] = size
        size += 1
    d_sift_up(heap, place, distances, place[v], v)
    return size


def refit(
    out: GapCSR, into: GapCSR, touched: Array, delta: Delta | None, distances: Array, predecessors: Array,
    both_ways: bool, budget: Budget,
) -> bool:  # fmt: skip
    """Find the smallest nearer parents again, after the distances are right.

    Parameters
    ----------
    touched : array
        All vertices whose distance may have changed.
    delta : Delta or None
        Edges that may give new parents at the same distance.
    budget : Budget
        If it is spent afterwards, the predecessors are of no use.

    Returns
    -------
    bool
        Whether a changed vertex or edge makes a tie, see :func:`has_ties`.
    """
    rows = (_rows(out, distances), _rows(into, distances))
    changes = (out.indices[:0], out.indices[:0], np.empty(0, np.int64)) if delta is None else _changes(delta)[:3]
    most, unreached = budget.most_visits(), _unreached(distances)
    tied, visits = k_refit(*rows, touched, *changes, distances, predecessors, both_ways, unreached, most)
    budget.note(int(visits), most)
    return bool(tied)


@njit(cache=True, nogil=True)
def k_refit(out, into, touched, src, dst, slots, distances, predecessors, both_ways, unreached, most):
    """Find the parent of every touched vertex, then offer it as a parent; also offer the source of a changed edge."""
    tied, visits = False, 0
    for v in touched:
        if visits > most:
            break
        predecessors[v] = -1
        if distances[v] != unreached:
            predecessors[v], tie, seen = d_find_parent(out, into, v, distances, both_ways, predecessors[:0])
            tied |= tie
            visits += seen
    for u in touched:
        if visits > most:
            break
        if distances[u] == unreached:
            continue
        for side in range(2 if both_ways else 1):
            rows = out if side == 0 else into
            visits += rows.offsets[u + 1] - rows.offsets[u]
            for p in range(rows.offsets[u], rows.offsets[u + 1]):
                v = rows.indices[p]
                if d_has_edge(rows.valid, p):
                    tied |= d_offer_parent(u, v, rows.lengths[p * rows.stride], distances, predecessors)
    for i in range(src.shape[0]):
        p = slots[i]
        for side in range(2 if both_ways else 1):
            u, v = (src[i], dst[i]) if side == 0 else (dst[i], src[i])
            if p >= 0 and distances[u] != unreached:
                tied |= d_offer_parent(u, v, out.lengths[p * out.stride], distances, predecessors)
    return tied, visits


@inlined
def d_offer_parent(u, v, length, distances, predecessors):
    """Make the reached vertex ``u`` the parent of ``v`` if it is nearer, and smaller than the present parent."""
    if distances[u] + length != distances[v]:
        return False
    if distances[u] == distances[v]:
        return u != v
    if u < predecessors[v]:
        predecessors[v] = u
    return False


def has_ties(out: GapCSR, distances: Array) -> bool:
    """Whether an edge of length 0 joins two vertices of equal distance: parents then need not be nearer."""
    reached = distances[distances != _unreached(distances)]
    weights: Array = out.weights  # gaps may have any: then the edges decide
    if reached.shape[0] and weights.shape[0] and reached.max() + weights.min() > reached.max():
        return False  # it is not even lost by rounding
    return bool(k_has_ties(_rows(out, distances), distances, _unreached(distances)))


@njit(cache=True, nogil=True)
def k_has_ties(rows, distances, unreached):
    for u in range(distances.shape[0]):
        if distances[u] == unreached:
            continue
        for p in range(rows.offsets[u], rows.offsets[u + 1]):
            v = rows.indices[p]
            if distances[v] == distances[u] and u != v and d_has_edge(rows.valid, p):
                if distances[u] + rows.lengths[p * rows.stride] == distances[u]:
                    return True
    return False
