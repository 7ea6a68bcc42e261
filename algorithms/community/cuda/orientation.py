"""Each edge of an undirected graph once, from the end of lower degree to the other: packed, numbered by rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynstore.algorithms.rows.cuda.common import d_has_bit, d_rank, rank_offsets
from dynstore.cuda.compiler import WARP, cuda, kernel
from dynstore.cuda.warp import d_ballot, d_lane
from dynstore.errors import LimitError

if TYPE_CHECKING:
    from dynstore.backend import Backend
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["Arcs", "orient_edges", "rank_vertices", "sort_arcs"]

# A 64-bit key holds two vertex numbers, or a degree and a vertex number.
MAX_VERTICES = 1 << 31


class Arcs(NamedTuple):
    """The oriented edges. Vertices are numbered by rank: 0 is the highest (degree, id), and heads are below tails.

    Attributes
    ----------
    ranks : array, shape (V,), int32
        The rank of each vertex.
    starts : array, shape (V + 1,), int64
        First arc of each rank; no row is longer than sqrt(2 A).
    tails, heads : array, shape (A,), int32
        Sorted by tail, then head.
    """

    ranks: Array
    starts: Array
    tails: Array
    heads: Array


@kernel
def k_pack_degrees(packed, keys):
    """One thread a vertex: write (degree, vertex) as one key. ``packed`` are offsets counted in edges."""
    vertex = int(cuda.grid(1))
    if vertex < keys.shape[0]:
        keys[vertex] = (int(packed[vertex + 1]) - int(packed[vertex])) << 32 | vertex


@kernel
def k_number_vertices(keys, order, ranks):
    """One thread a key, in ascending order: write the vertex of the rank and the rank of the vertex."""
    i = int(cuda.grid(1))
    if i < keys.shape[0]:
        rank = keys.shape[0] - 1 - i
        vertex = int(keys[i]) & 0xFFFFFFFF
        order[rank] = vertex
        ranks[vertex] = rank


@kernel
def k_orient_slots(sources, indices, valid, ranks, arcs):
    """One warp a word of slots: set the bits in ``arcs`` of the edges that lead to a lower rank."""
    slot = int(cuda.grid(1))
    upward = False
    if slot < indices.shape[0] and d_has_bit(valid, slot):
        upward = ranks[indices[slot]] < ranks[sources[slot]]
    word = d_ballot(upward)
    if d_lane() == 0 and (slot >> 5) < arcs.shape[0]:
        arcs[slot >> 5] = word


@kernel
def k_pack_arcs(sources, indices, arcs, before, ranks, keys):
    """One thread a slot: if its bit in ``arcs`` is set, write the key (rank of tail, rank of head) at its place."""
    slot = int(cuda.grid(1))
    if slot < indices.shape[0] and d_has_bit(arcs, slot):
        keys[d_rank(arcs, before, slot)] = int(ranks[sources[slot]]) << 32 | int(ranks[indices[slot]])


@kernel
def k_split_keys(keys, tails, heads):
    """One thread an arc: write the two halves of its key."""
    arc = int(cuda.grid(1))
    if arc < keys.shape[0]:
        key = int(keys[arc])
        tails[arc] = key >> 32
        heads[arc] = key & 0xFFFFFFFF


def rank_vertices(backend: Backend, packed: Array) -> tuple[Array, Array]:
    """Return the vertex of each rank, and the rank of each vertex; ``packed`` are offsets counted in edges.

    Raises
    ------
    LimitError
        For more than 2^31 vertices.
    """
    num_vertices = packed.shape[0] - 1
    if num_vertices > MAX_VERTICES:
        raise LimitError(
            f"triangle_count: the graph has {num_vertices} vertices; on CUDA at most {MAX_VERTICES} will do"
        )
    keys = backend.empty(num_vertices, np.int64)
    k_pack_degrees.launch(num_vertices, packed, keys)
    keys.sort()
    order, ranks = (backend.empty(num_vertices, np.int32) for _ in range(2))
    k_number_vertices.launch(num_vertices, keys, order, ranks)
    return order, ranks


def sort_arcs(backend: Backend, ranks: Array, starts: Array, keys: Array) -> Arcs:
    """Return the arcs of keys (rank of tail, rank of head); the keys come in any order and are sorted in place."""
    keys.sort()
    tails, heads = (backend.empty(keys.shape[0], np.int32) for _ in range(2))
    k_split_keys.launch(keys.shape[0], keys, tails, heads)
    return Arcs(ranks, starts, tails, heads)


def orient_edges(csr: GapCSR, degrees: Array | None = None) -> Arcs:
    """Orient the edges of a symmetric graph that has edges; self-loops are left out.

    If ``csr`` has only some of its rows, ``degrees`` are those of the whole graph, shape (V,).

    Eight launches, two sorts (V and A keys of 64 bits) and two prefix sums. At the peak two buffers of A keys are held.

    Raises
    ------
    LimitError
        For more than 2^31 vertices.
    """
    backend, xp = csr.backend, csr.backend.xp
    num_vertices, num_slots = csr.num_vertices, csr.num_slots
    if degrees is None:
        _, packed = rank_offsets(backend, csr.offsets, csr.valid, num_slots)
    else:
        packed = backend.zeros(num_vertices + 1, np.int64)
        xp.cumsum(degrees, out=packed[1:])
    order, ranks = rank_vertices(backend, packed)

    bits = backend.empty(-(-num_slots // WARP), np.uint32)
    k_orient_slots.launch(num_slots, csr.sources, csr.indices, csr.valid, ranks, bits)
    before, packed = rank_offsets(backend, csr.offsets, bits, num_slots)
    starts = backend.zeros(num_vertices + 1, np.int64)
    xp.cumsum(xp.diff(packed)[order], out=starts[1:])
    keys = backend.empty(int(before[-1]), np.int64)
    k_pack_arcs.launch(num_slots, csr.sources, csr.indices, bits, before, ranks, keys)
    return sort_arcs(backend, ranks, starts, keys)
