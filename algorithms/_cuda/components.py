"""Connected components on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynstore._cuda.compiler import cuda, device, kernel
from dynstore.algorithms._cuda._common import d_count_bits, d_has_bit, d_lowest_bit
from dynstore.algorithms._cuda.union_find import d_unite, flatten_trees

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["label_components"]

# Edges of each vertex that are united, and the paths shortened, before all edges are looked at.
SAMPLED_EDGES = 2


@kernel
def k_unite_nth_edges(offsets, indices, valid, nth, parents):
    """One thread a row: unite the row with its ``nth`` neighbour. Atomics: :func:`d_unite`.

    Gaps do not count, so that as many edges are united as without any; in the row's first two words of ``valid``.
    """
    row = int(cuda.grid(1))
    if row < parents.shape[0]:
        slot, end = int(offsets[row]), int(offsets[row + 1])
        if slot < end:
            base = slot & ~31
            word = np.int64(valid[np.uint64(slot >> 5)]) >> (slot & 31) << (slot & 31)
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
                    d_unite(parents, row, int(indices[slot]))


@device
def d_read_roots(sources, indices, parents, slot):
    """Return the parents of the two vertices that a slot names."""
    return int(parents[np.uint64(sources[slot])]), int(parents[np.uint64(indices[slot])])


@device
def d_unite_apart(valid, parents, slot, first, second):
    """Unite two parents that differ, if the slot is an edge. Few differ, so few words of ``valid`` are read."""
    if first != second and d_has_bit(valid, slot):
        d_unite(parents, first, second)


@kernel
def k_unite_edges(sources, indices, valid, parents):
    """Stride over the slots: unite the ends of every edge whose parents differ. Atomics: :func:`d_unite`.

    Four slots at a time, gaps included, so that their loads wait together; past the end the last one stands in.
    """
    threads = int(cuda.gridsize(1))
    last = indices.shape[0] - 1
    for slot0 in range(int(cuda.grid(1)), last + 1, 4 * threads):
        slot1 = min(slot0 + threads, last)
        slot2 = min(slot1 + threads, last)
        slot3 = min(slot2 + threads, last)
        first0, second0 = d_read_roots(sources, indices, parents, np.uint64(slot0))
        first1, second1 = d_read_roots(sources, indices, parents, np.uint64(slot1))
        first2, second2 = d_read_roots(sources, indices, parents, np.uint64(slot2))
        first3, second3 = d_read_roots(sources, indices, parents, np.uint64(slot3))
        d_unite_apart(valid, parents, slot0, first0, second0)
        d_unite_apart(valid, parents, slot1, first1, second1)
        d_unite_apart(valid, parents, slot2, first2, second2)
        d_unite_apart(valid, parents, slot3, first3, second3)


def label_components(out: GapCSR) -> Array:
    """Label each vertex with the smallest vertex of its (weak) component.

    Union-find over all edges at once: the larger root is hooked under the smaller as in Afforest (Sutton, Ben-Nun
    and Barak, "Optimizing Parallel Graph Connectivity Computation via Subgraph Sampling", IPDPS 2018, section III),
    after a sample of the edges, whose trees make most of the others cheap; paths are split on the way as in ECL-CC
    (Jaiganesh and Burtscher, "A High-Performance Connected Components Implementation for GPUs", HPDC 2018, section 3).
    Afforest's skipping of the largest component is not used: it needs both directions of each edge, and a directed
    graph brings one.

    Returns
    -------
    array, shape (V,), vertex dtype
    """
    parents = out.backend.xp.arange(out.num_vertices, dtype=out.offsets.dtype)
    if out.num_edges == 0:
        return parents
    for nth in range(SAMPLED_EDGES):
        k_unite_nth_edges.launch(out.num_vertices, out.offsets, out.indices, out.valid, nth, parents)
        flatten_trees(parents)
    k_unite_edges.launch_strided(out.num_slots, out.sources, out.indices, out.valid, parents)
    flatten_trees(parents)
    return parents
