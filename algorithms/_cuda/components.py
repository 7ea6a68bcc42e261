"""Connected components on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import WARP, cuda, device, kernel
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.algorithms._cuda._common import d_count_bits, d_has_bit, d_lowest_bit, d_read_once
from dynstore.algorithms._cuda.union_find import d_flatten, d_unite, flatten_trees

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["label_components"]

# Slots that a warp looks at together, four a lane.
CHUNK_BITS = 7
CHUNK_SLOTS = 1 << CHUNK_BITS


@device
def d_find_neighbour(indices, valid, begin, end, nth):
    """Return the ``nth`` neighbour of the row of these slots, -1 if it has none in its first two words of ``valid``.

    Gaps do not count, so that as many edges are united as without any.
    """
    neighbour = -1
    if begin < end:
        base = begin & ~31
        word = np.int64(valid[np.uint64(begin >> 5)]) >> (begin & 31) << (begin & 31)
        count = d_count_bits(word)
        if count <= nth and base + 32 < end:
            base += 32
            nth -= count
            word = np.int64(valid[np.uint64(base >> 5)])
        for _ in range(nth):
            word &= word - 1
        if word != 0:
            slot = base + d_lowest_bit(word)
            if slot < end:
                neighbour = int(indices[np.uint64(slot)])
    return neighbour


@kernel
def k_hook_rows(offsets, indices, valid, parents):
    """One thread a row: its first neighbour is its parent where that is smaller; otherwise it is a root."""
    row = int(cuda.grid(1))
    if row < parents.shape[0]:
        neighbour = d_find_neighbour(indices, valid, int(offsets[row]), int(offsets[row + 1]), 0)
        parents[row] = neighbour if 0 <= neighbour < row else row


@kernel
def k_unite_neighbours(offsets, indices, valid, parents):
    """One thread a row: unite it with its second neighbour, and with its first one where :func:`k_hook_rows` did not.

    Atomics: :func:`d_unite`.
    """
    row = int(cuda.grid(1))
    if row < parents.shape[0]:
        begin, end = int(offsets[row]), int(offsets[row + 1])
        first = d_find_neighbour(indices, valid, begin, end, 0)
        second = d_find_neighbour(indices, valid, begin, end, 1)
        if first > row:
            d_unite(parents, row, first)
        if second >= 0:
            d_unite(parents, row, second)


@device
def d_find_largest(sources, parents):
    """Return the root of the tree in which most of 32 slots, evenly spread, have their source; all 32 lanes call.

    The same in all warps, as long as no root gets a parent.
    """
    root = int(parents[sources[d_lane() * sources.shape[0] // 32]])
    while parents[root] != root:
        root = int(parents[root])
    count = 0
    for other in range(32):
        if d_shuffle(root, other) == root:
            count += 1
    largest = root
    most = 0
    for other in range(32):
        others = d_shuffle(count, other)
        others_root = d_shuffle(root, other)
        if others > most:
            most = others
            largest = others_root
    return largest


@kernel
def k_mark_largest(offsets, sources, parents, inside, mixed):
    """Warps stride over words of vertices: flatten the trees, set in ``inside`` the bits of one large tree's vertices.

    And write 1 to ``mixed`` for the chunks of slots that rows of other vertices begin in.
    """
    lane = d_lane()
    largest = d_find_largest(sources, parents)
    for word in range(int(cuda.grid(1)) >> 5, inside.shape[0], int(cuda.gridsize(1)) >> 5):
        vertex = word * 32 + lane
        is_inside = False
        if vertex < parents.shape[0]:
            is_inside = d_flatten(parents, vertex) == largest
            if not is_inside:
                begin = int(offsets[vertex])
                if begin < int(offsets[vertex + 1]):
                    mixed[begin >> CHUNK_BITS] = 1
        bits = d_ballot(is_inside)
        if lane == 0:
            inside[word] = bits


@device
def d_read_roots(sources, parents, slot, vertex, apart):
    """Return the parents of a slot's source and of its neighbour ``vertex``; of that one twice unless ``apart``."""
    source = int(sources[slot]) if apart else int(vertex)
    return int(parents[np.uint64(source)]), int(parents[np.uint64(vertex)])


@device
def d_unite_apart(valid, parents, slot, first, second):
    """Unite two parents that differ, if the slot is an edge. Few differ, so few words of ``valid`` are read."""
    if first != second and d_has_bit(valid, slot):
        d_unite(parents, first, second)


@kernel
def k_unite_edges(sources, indices, valid, inside, mixed, parents):
    """Warps stride over chunks: unite the ends of every edge, but of those that have both ends in the marked tree.

    Where all rows of a chunk are of its vertices, only ``indices`` is read of the other edges. Four slots a lane, gaps
    included, so that their loads wait together; past the end the last one stands in. Atomics: :func:`d_unite`.
    """
    last = indices.shape[0] - 1
    for chunk in range(int(cuda.grid(1)) >> 5, (last >> CHUNK_BITS) + 1, int(cuda.gridsize(1)) >> 5):
        begin = chunk << CHUNK_BITS
        slot0 = np.uint64(min(begin + d_lane(), last))
        slot1 = np.uint64(min(begin + d_lane() + 32, last))
        slot2 = np.uint64(min(begin + d_lane() + 64, last))
        slot3 = np.uint64(min(begin + d_lane() + 96, last))
        vertex0, vertex1 = d_read_once(indices, slot0), d_read_once(indices, slot1)
        vertex2, vertex3 = d_read_once(indices, slot2), d_read_once(indices, slot3)
        source = int(sources[np.uint64(begin)])  # without `or`, which would wait for one load after the other
        all_apart = (mixed[np.uint64(chunk)] != 0) | (not d_has_bit(inside, source))
        apart0 = all_apart | (not d_has_bit(inside, int(vertex0)))
        apart1 = all_apart | (not d_has_bit(inside, int(vertex1)))
        apart2 = all_apart | (not d_has_bit(inside, int(vertex2)))
        apart3 = all_apart | (not d_has_bit(inside, int(vertex3)))
        if apart0 | apart1 | apart2 | apart3:
            first0, second0 = d_read_roots(sources, parents, slot0, vertex0, apart0)
            first1, second1 = d_read_roots(sources, parents, slot1, vertex1, apart1)
            first2, second2 = d_read_roots(sources, parents, slot2, vertex2, apart2)
            first3, second3 = d_read_roots(sources, parents, slot3, vertex3, apart3)
            d_unite_apart(valid, parents, int(slot0), first0, second0)
            d_unite_apart(valid, parents, int(slot1), first1, second1)
            d_unite_apart(valid, parents, int(slot2), first2, second2)
            d_unite_apart(valid, parents, int(slot3), first3, second3)


def label_components(out: GapCSR) -> Array:
    """Label each vertex with the smallest vertex of its (weak) component.

    Union-find over all edges at once: the larger root is hooked under the smaller as in Afforest (Sutton, Ben-Nun
    and Barak, "Optimizing Parallel Graph Connectivity Computation via Subgraph Sampling", IPDPS 2018, section III),
    after a sample of the edges, whose trees make most of the others cheap; paths are split on the way as in ECL-CC
    (Jaiganesh and Burtscher, "A High-Performance Connected Components Implementation for GPUs", HPDC 2018, section 3).
    Afforest skips all edges of the largest tree's vertices after that. This needs both directions of each edge, and a
    directed graph brings one: here an edge is skipped where both its ends are in that tree. A bitmap says so, most of
    which the L1 cache keeps.

    Returns
    -------
    array, shape (V,), vertex dtype
    """
    backend = out.backend
    if out.num_edges == 0:
        return backend.xp.arange(out.num_vertices, dtype=out.offsets.dtype)
    edges = (out.offsets, out.indices, out.valid)
    parents = backend.empty(out.num_vertices, out.offsets.dtype)
    k_hook_rows.launch(out.num_vertices, *edges, parents)
    flatten_trees(parents)
    k_unite_neighbours.launch(out.num_vertices, *edges, parents)
    inside = backend.empty(-(-out.num_vertices // WARP), np.uint32)
    num_chunks = -(-out.num_slots // CHUNK_SLOTS)
    mixed = backend.zeros(num_chunks, np.uint8)
    k_mark_largest.launch_strided(out.num_vertices, out.offsets, out.sources, parents, inside, mixed)
    k_unite_edges.launch_strided(num_chunks * WARP, out.sources, out.indices, out.valid, inside, mixed, parents)
    flatten_trees(parents)
    return parents
