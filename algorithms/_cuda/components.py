"""Connected components on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynstore._cuda.compiler import cuda, kernel
from dynstore.algorithms._cuda._common import d_has_bit
from dynstore.algorithms._cuda.union_find import d_unite, flatten_trees

if TYPE_CHECKING:
    from dynstore.snapshot import GapCSR
    from dynstore.typing import Array

__all__ = ["label_components"]

# Edges of each vertex that are united, and the paths shortened, before all edges are looked at.
SAMPLED_EDGES = 2


@kernel
def k_unite_nth_edges(offsets, indices, valid, nth, parents):
    """One thread a row: unite the row with the neighbour in its ``nth`` slot. Atomics: :func:`d_unite`."""
    row = int(cuda.grid(1))
    if row < parents.shape[0]:
        slot = int(offsets[row]) + nth
        if slot < int(offsets[row + 1]) and d_has_bit(valid, slot):
            d_unite(parents, row, int(indices[slot]))


@kernel
def k_unite_edges(sources, indices, valid, parents):
    """Stride over the slots: unite the ends of every edge whose parents differ. Atomics: :func:`d_unite`."""
    for slot in range(int(cuda.grid(1)), indices.shape[0], int(cuda.gridsize(1))):
        if d_has_bit(valid, slot):
            first = int(parents[sources[slot]])
            second = int(parents[indices[slot]])
            if first != second:
                d_unite(parents, first, second)


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
    backend = out.backend
    parents = backend.xp.arange(out.num_vertices, dtype=out.offsets.dtype)
    if out.num_edges == 0:
        return parents
    for nth in range(SAMPLED_EDGES):
        k_unite_nth_edges.launch(out.num_vertices, out.offsets, out.indices, out.valid, nth, parents)
        parents = flatten_trees(backend, parents)
    k_unite_edges.launch_strided(out.num_slots, out.sources, out.indices, out.valid, parents)
    return flatten_trees(backend, parents)
