"""Connected components on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore.algorithms.components.cuda.union_find import d_flatten, d_unite, flatten_trees
from dynstore.algorithms.rows.cuda.common import d_count_bits, d_has_bit, d_lowest_bit
from dynstore.cuda.compiler import THREADS, WARP, cuda, device, kernel
from dynstore.cuda.warp import d_ballot, d_count_lower, d_lane, d_shuffle, d_sync_warp

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["label_components"]

# Slots that a warp reads together, eight a lane.
CHUNK_BITS = 8
CHUNK_SLOTS = 1 << CHUNK_BITS
LANE_SLOTS = CHUNK_SLOTS // WARP
# Slots listed by the warps of a block. A warp lists one slot a lane at a time, and visits them once each lane has one.
LISTED = 2 * THREADS


@device
def d_find_neighbour(indices, valid, begin, end, nth):
    """Return the ``nth`` neighbour in a row of slots, -1 if its first two words of ``valid`` have none.

    Gaps are skipped, so that they do not reduce the number of united edges.
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
    """One thread a row: its parent is its first neighbour if that is smaller; otherwise it is a root."""
    row = int(cuda.grid(1))
    if row < parents.shape[0]:
        neighbour = d_find_neighbour(indices, valid, int(offsets[row]), int(offsets[row + 1]), 0)
        parents[row] = neighbour if 0 <= neighbour < row else row


@kernel
def k_unite_neighbours(offsets, indices, valid, parents):
    """One thread a row: unite it with its second neighbour, and with the first if :func:`k_hook_rows` did not.

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
    """Return the root of the tree with at least half of the sources of 32 evenly spread slots; -1 if there is none.

    All 32 lanes call. All warps get the same result, as long as no root gets a parent.
    """
    root = int(parents[sources[d_lane() * sources.shape[0] // 32]])
    while parents[root] != root:
        root = int(parents[root])
    count = 0
    for other in range(32):
        if d_shuffle(root, other) == root:
            count += 1
    waiting = np.int64(d_ballot(count >= 16))
    return d_shuffle(root, d_lowest_bit(waiting)) if waiting != 0 else -1


@kernel
def k_mark_outside(offsets, sources, parents, outside, mixed):
    """Warps stride over words of vertices: flatten the trees, set the bits in ``outside`` of all but the marked tree.

    The marked tree is that of :func:`d_find_largest`. They also write 1 to ``mixed`` for each chunk of slots where a
    row of an outside vertex begins, and to its last item if no tree is marked.
    """
    lane = d_lane()
    largest = d_find_largest(sources, parents)
    if cuda.grid(1) == 0:
        mixed[mixed.shape[0] - 1] = largest < 0
    for word in range(int(cuda.grid(1)) >> 5, outside.shape[0], int(cuda.gridsize(1)) >> 5):
        vertex = word * 32 + lane
        is_outside = False
        if vertex < parents.shape[0]:
            is_outside = d_flatten(parents, vertex) != largest
            if is_outside and largest >= 0:
                begin = int(offsets[vertex])
                if begin < int(offsets[vertex + 1]):
                    mixed[begin >> CHUNK_BITS] = 1
        bits = d_ballot(is_outside)
        if lane == 0:
            outside[word] = bits


@device
def d_read_roots(sources, indices, parents, slot):
    """Return the parents of a slot's two vertices."""
    return int(parents[np.uint64(sources[slot])]), int(parents[np.uint64(indices[slot])])


@device
def d_unite_apart(valid, parents, slot, first, second):
    """Unite two different parents if the slot is an edge. Few differ, so few words of ``valid`` are read."""
    if first != second and d_has_bit(valid, slot):
        d_unite(parents, first, second)


@device
def d_unite_four(sources, indices, valid, parents, slot, last):
    """Unite the ends of four edges, 32 slots apart; their loads overlap. Past ``last``, ``last`` is read."""
    slot0, slot1 = min(slot, last), min(slot + 32, last)
    slot2, slot3 = min(slot + 64, last), min(slot + 96, last)
    first0, second0 = d_read_roots(sources, indices, parents, np.uint64(slot0))
    first1, second1 = d_read_roots(sources, indices, parents, np.uint64(slot1))
    first2, second2 = d_read_roots(sources, indices, parents, np.uint64(slot2))
    first3, second3 = d_read_roots(sources, indices, parents, np.uint64(slot3))
    d_unite_apart(valid, parents, slot0, first0, second0)
    d_unite_apart(valid, parents, slot1, first1, second1)
    d_unite_apart(valid, parents, slot2, first2, second2)
    d_unite_apart(valid, parents, slot3, first3, second3)


@device
def d_unite_slot(sources, indices, valid, parents, slot):
    """Unite the ends of the edge in a slot, if there is one."""
    first, second = d_read_roots(sources, indices, parents, np.uint64(slot))
    d_unite_apart(valid, parents, slot, first, second)


@device
def d_is_outside(outside, vertex):
    """Return whether an unsigned vertex is not in the marked tree, as 1 or 0."""
    bits = outside[np.uint64(vertex >> np.uint32(5))] >> np.uint32(vertex & np.uint32(31))
    return np.uint32(bits & np.uint32(1))


@kernel
def k_unite_edges(sources, indices, valid, outside, mixed, parents):
    """Warps stride over chunks: unite the ends of every edge, except edges with both ends in the marked tree.

    If all rows of a chunk belong to the tree, only ``indices`` is read. The few edges that leave the tree are listed
    until there is one for each lane. Atomics: :func:`d_unite`.
    """
    lane = d_lane()
    slots = cuda.shared.array(LISTED, np.int64)
    start = (cuda.threadIdx.x >> 5) * (2 * WARP)
    listed = 0
    last = indices.shape[0] - 1
    use_marks = mixed[mixed.shape[0] - 1] == 0
    for chunk in range(int(cuda.grid(1)) >> 5, (last >> CHUNK_BITS) + 1, int(cuda.gridsize(1)) >> 5):
        begin = chunk << CHUNK_BITS
        is_mixed = True
        marks = np.uint32(0)
        if use_marks and begin + CHUNK_SLOTS <= last + 1:  # the same in all lanes
            slot = (np.uint64(chunk) << np.uint64(CHUNK_BITS)) | np.uint64(lane)
            for step in range(LANE_SLOTS):
                vertex = indices[slot | np.uint64(step * 32)]
                marks |= np.uint32(d_is_outside(outside, vertex) << np.uint32(step))
            is_mixed = (mixed[np.uint64(chunk)] | d_is_outside(outside, sources[np.uint64(begin)])) != 0
        if is_mixed:
            for step in range(0, CHUNK_SLOTS, 4 * WARP):
                if begin + step <= last:
                    d_unite_four(sources, indices, valid, parents, begin + step + lane, last)
        else:
            waiting = d_ballot(marks != 0)
            while waiting != 0:
                place = listed + d_count_lower(waiting, lane)
                if marks != 0:
                    slots[start + place] = begin + lane + 32 * d_lowest_bit(np.int64(marks))
                    marks = np.uint32(marks & (marks - np.uint32(1)))
                listed += d_count_bits(waiting)
                d_sync_warp()
                if listed >= WARP:
                    listed -= WARP
                    d_unite_slot(sources, indices, valid, parents, slots[start + listed + lane])
                    d_sync_warp()
                waiting = d_ballot(marks != 0)
    if lane < listed:
        d_unite_slot(sources, indices, valid, parents, slots[start + lane])


@kernel
def k_unite_outside(sources, indices, valid, outside, mixed, parents):
    """Warps stride over groups of 32 chunks: unite the ends of all edges in chunks with rows of outside vertices.

    An edge from the marked tree to an outside vertex is found there in the other direction.
    """
    lane = d_lane()
    last = indices.shape[0] - 1
    num_chunks = (last >> CHUNK_BITS) + 1
    use_marks = mixed[mixed.shape[0] - 1] == 0
    for group in range(int(cuda.grid(1)) >> 5, (num_chunks + 31) >> 5, int(cuda.gridsize(1)) >> 5):
        chunk = min(group * 32 + lane, num_chunks - 1)
        is_mixed = (mixed[np.uint64(chunk)] | d_is_outside(outside, sources[np.uint64(chunk << CHUNK_BITS)])) != 0
        waiting = np.int64(d_ballot((is_mixed or not use_marks) and group * 32 + lane < num_chunks))
        while waiting != 0:  # the same in all lanes
            begin = (group * 32 + d_lowest_bit(waiting)) << CHUNK_BITS
            waiting &= waiting - 1
            for step in range(0, CHUNK_SLOTS, 4 * WARP):
                if begin + step <= last:
                    d_unite_four(sources, indices, valid, parents, begin + step + lane, last)


def label_components(out: GapCSR, symmetric: bool = False) -> Array:
    """Label each vertex with the smallest vertex of its (weak) component.

    Union-find over all edges at once: the larger root is hooked under the smaller, as in Afforest (Sutton, Ben-Nun and
    Barak, "Optimizing Parallel Graph Connectivity Computation via Subgraph Sampling", IPDPS 2018, section III). A
    sample of the edges comes first; its trees make most other edges cheap. Paths are split on the way as in ECL-CC
    (Jaiganesh and Burtscher, "A High-Performance Connected Components Implementation for GPUs", HPDC 2018, section 3).
    If each edge is there in both directions (``symmetric``), all edges of the largest tree's vertices are then skipped,
    as in Afforest. A directed graph has one direction: there an edge is skipped if both its ends are in the tree, by a
    bitmap that mostly stays in the L1 cache. If no tree has half of the sampled slots, all edges are visited.

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
    num_chunks = -(-out.num_slots // CHUNK_SLOTS)
    mixed, outside = backend.empty_arena(
        (num_chunks + 1, np.uint8), (-(-out.num_vertices // WARP), np.uint32), zeroed=1
    )
    k_mark_outside.launch_strided(out.num_vertices, out.offsets, out.sources, parents, outside, mixed)
    unsigned = np.dtype(f"u{out.indices.dtype.itemsize}")  # shorter addresses
    ends = (out.sources.view(unsigned), out.indices.view(unsigned))
    if symmetric:
        k_unite_outside.launch_strided(num_chunks, *ends, out.valid, outside, mixed, parents)
    else:
        k_unite_edges.launch_strided(num_chunks * WARP, *ends, out.valid, outside, mixed, parents)
    flatten_trees(parents)
    return parents
