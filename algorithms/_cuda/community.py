"""Triangle counting on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import WARP, cuda, device, kernel
from dynstore._cuda.warp import d_ballot, d_lane, d_shuffle
from dynstore.algorithms._cuda._common import d_count_bits, d_has_bit, d_rank, rank_offsets

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["count_triangles"]


@kernel
def k_orient_slots(sources, indices, valid, packed, arcs):
    """One warp a word of slots: set in ``arcs`` the bits of the edges that lead to a higher (degree, id).

    ``packed`` holds offsets in edges, so its differences are degrees. The warp alone writes its word.
    """
    slot = int(cuda.grid(1))
    upward = False
    if slot < indices.shape[0] and d_has_bit(valid, slot):
        tail = int(sources[slot])
        head = int(indices[slot])
        tail_degree = packed[tail + 1] - packed[tail]
        head_degree = packed[head + 1] - packed[head]
        upward = tail_degree < head_degree or (tail_degree == head_degree and tail < head)
    word = d_ballot(upward)
    if d_lane() == 0 and (slot >> 5) < arcs.shape[0]:
        arcs[slot >> 5] = word


@kernel
def k_pack_arcs(sources, indices, arcs, before, tails, heads):
    """One thread a slot: copy it to its rank if its bit in ``arcs`` is set."""
    slot = int(cuda.grid(1))
    if slot < indices.shape[0] and d_has_bit(arcs, slot):
        place = d_rank(arcs, before, slot)
        tails[place] = sources[slot]
        heads[place] = indices[slot]


@device
def d_contains(heads, low, high, wanted):
    """Whether ``wanted`` is among the ascending ``heads[low:high]``."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if heads[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < end and heads[low] == wanted


@kernel
def k_count_triangles(starts, tails, heads, counts):
    """One warp 32 arcs: search each item of the shorter list of an arc's ends in the longer one.

    The items of the warp's 32 arcs are dealt to its lanes in turn, so short lists share a step and long ones take
    several. Atomic adds: one a hit for the third corner, two for each arc with hits in a step.
    """
    arc = int(cuda.grid(1))
    lane = d_lane()
    short = 0
    long = 0
    long_end = 0
    work = 0
    if arc < tails.shape[0]:
        tail = int(tails[arc])
        head = int(heads[arc])
        short = int(starts[tail])
        work = int(starts[tail + 1]) - short
        long = int(starts[head])
        long_end = int(starts[head + 1])
        if long_end - long < work:
            short, long, long_end, work = long, short, short + work, long_end - long
    reach = work  # after the loop: the items of this lane's arc and of those before
    for step in (1, 2, 4, 8, 16):
        before = d_shuffle(reach, (lane - step) & 31)
        if lane >= step:
            reach += before
    num_items = d_shuffle(reach, 31)
    for base in range(0, num_items, 32):
        item = base + lane
        owner = 0  # the first lane whose reach is above the item
        for step in (16, 8, 4, 2, 1):
            if d_shuffle(reach, owner + step - 1) <= item:
                owner += step
        begin = d_shuffle(reach - work, owner)
        end = d_shuffle(reach, owner)
        place = d_shuffle(short, owner) + item - begin
        low = d_shuffle(long, owner)
        high = d_shuffle(long_end, owner)
        hit = False
        if item < num_items:
            corner = int(heads[place])
            hit = d_contains(heads, low, high, corner)
            if hit:
                cuda.atomic.add(counts, corner, 1)
        hits = int(d_ballot(hit))
        # The lanes of one arc stand side by side; the first of them counts for all.
        if item < num_items and lane == max(begin - base, 0):
            mine = (1 << min(end - base, 32)) - (1 << lane)
            num_hits = d_count_bits(hits & mine)
            if num_hits > 0:
                of_owner = arc - lane + owner
                cuda.atomic.add(counts, tails[of_owner], num_hits)
                cuda.atomic.add(counts, heads[of_owner], num_hits)


def count_triangles(csr: GapCSR) -> Array:
    """Count the triangles at each vertex.

    The *forward* algorithm of Schank and Wagner, "Finding, Counting and Listing All Triangles in Large Graphs, An
    Experimental Study", WEA 2005, section 3, on a packed copy of the edges that point from the lower to the higher
    (degree, id): every triangle is found once and no list is longer than sqrt(2 E). Lists are intersected by binary
    search of the shorter one's items, as in Hu, Liu and Huang, "TriCore: Parallel Triangle Counting on GPUs", SC'18,
    section 4.

    Parameters
    ----------
    csr : GapCSR
        A symmetric graph; self-loops are ignored.

    Returns
    -------
    array, shape (V,), vertex dtype
        Every triangle counts at its three corners.
    """
    backend, dtype = csr.backend, csr.offsets.dtype
    counts = backend.zeros(csr.num_vertices, dtype)
    if csr.num_edges == 0:
        return counts
    _, packed = rank_offsets(backend, csr.offsets, csr.valid, csr.num_slots)
    arcs = backend.empty(-(-csr.num_slots // WARP), np.uint32)
    k_orient_slots.launch(csr.num_slots, csr.sources, csr.indices, csr.valid, packed, arcs)
    before, starts = rank_offsets(backend, csr.offsets, arcs, csr.num_slots)
    num_arcs = int(before[-1])
    tails, heads = (backend.empty(num_arcs, dtype) for _ in range(2))
    k_pack_arcs.launch(csr.num_slots, csr.sources, csr.indices, arcs, before, tails, heads)
    k_count_triangles.launch(num_arcs, starts, tails, heads, counts)
    return counts
